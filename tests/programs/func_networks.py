"""Networks as functions of their parameters: per-sample gradients, ensembles, kernels, learning to learn; and random numbers."""

from __future__ import annotations

from func_source import composition


# -- modules --------------------------------------------------------------------------------------------------------------------------
def network(s):
    nn = s.torch.nn
    return s.filled(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))


def loss_of_one(s, model):
    def loss(params, buffers, x, y):
        out = s.func.functional_call(model, (params, buffers), (x.unsqueeze(0),))
        return s.F.cross_entropy(out, y.unsqueeze(0))

    return loss


def per_sample(s, model, x, y):
    buffers = {name: tensor.detach() for name, tensor in model.named_buffers()}
    return s.func.vmap(s.func.grad(loss_of_one(s, model)), in_dims=(None, None, 0, 0))(s.state(model), buffers, x, y)


@composition
def per_sample_gradients_of_an_mlp(s):
    return per_sample(s, network(s), s.normal(6, 4), s.integers(3, 6))


@composition
def per_sample_gradients_of_a_cnn(s):
    nn = s.torch.nn
    layers = [
        nn.Conv2d(1, 3, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 2, padding=1),
        nn.ELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    ]
    model = s.filled(nn.Sequential(*layers))
    return per_sample(s, model, s.normal(5, 1, 10, 10), s.integers(3, 5))


@composition
def per_sample_gradients_with_norms(s):
    nn = s.torch.nn
    layers = [nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.BatchNorm2d(4), nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 3)]
    return per_sample(s, s.filled(nn.Sequential(*layers)).eval(), s.normal(4, 2, 4, 4), s.integers(3, 4))


@composition
def per_sample_gradients_of_a_transformer_layer(s):
    layer = s.filled(s.torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True))
    loss = lambda params, x: s.func.functional_call(layer, params, (x.unsqueeze(0),)).sin().mean()  # noqa: E731
    return s.func.vmap(s.func.grad(loss), in_dims=(None, 0))(s.state(layer), s.normal(3, 5, 8))


@composition
def per_sample_gradients_of_embeddings(s):
    nn = s.torch.nn
    model = s.filled(nn.Sequential(nn.Embedding(7, 4), nn.Flatten(0), nn.Linear(12, 3)))
    loss = lambda params, words: s.func.functional_call(model, params, (words,)).logsumexp(0)  # noqa: E731
    return s.func.vmap(s.func.grad(loss), in_dims=(None, 0))(s.state(model), s.integers(7, 4, 3))


@composition
def per_sample_gradients_of_a_cell(s):
    cell = s.filled(s.torch.nn.GRUCell(3, 4))

    def loss(params, steps):
        h = steps.new_zeros(1, 4)
        for x in steps.unbind(0):
            h = s.func.functional_call(cell, params, (x.unsqueeze(0), h))
        return h.sin().sum()

    return s.func.vmap(s.func.grad(loss), in_dims=(None, 0))(s.state(cell), s.normal(3, 4, 3))


@composition
def ensemble(s):
    models = [network(s) for _ in range(3)]
    params, buffers = s.func.stack_module_state(models)
    call = lambda params, buffers, x: s.func.functional_call(models[0], (params, buffers), (x,))  # noqa: E731
    x, each = s.normal(5, 4), s.normal(3, 5, 4)
    both = s.func.vmap(call, in_dims=(0, 0, None))(params, buffers, x), s.func.vmap(call)(params, buffers, each)
    both[0].sin().sum().backward()
    return [out.detach() for out in both], {name: tensor.grad for name, tensor in params.items()}


@composition
def ensemble_trained_a_step(s):
    models = [network(s) for _ in range(3)]
    params, _ = s.func.stack_module_state(models)
    params = {name: tensor.detach() for name, tensor in params.items()}
    x, y = s.normal(5, 4), s.integers(3, 5)
    loss = lambda params: s.F.cross_entropy(s.func.functional_call(models[0], params, (x,)), y)  # noqa: E731
    found, values = s.func.vmap(s.func.grad_and_value(loss))(params)
    return values, {name: params[name] - 0.1 * found[name] for name in params}


@composition
def maml(s):
    model = network(s)
    x, y, steps = s.normal(2, 4, 4), s.integers(3, 2, 4), 2

    def loss(params, x, y):
        return s.F.cross_entropy(s.func.functional_call(model, params, (x,)), y)

    def after(params, x, y):
        for _ in range(steps):
            found = s.func.grad(loss)(params, x, y)
            params = {name: params[name] - 0.1 * found[name] for name in params}
        return loss(params, x.flip(0), y.flip(0))

    tasks = lambda params: s.func.vmap(after, in_dims=(None, 0, 0))(params, x, y).mean()  # noqa: E731
    return s.func.grad_and_value(tasks)(s.state(model))


@composition
def maml_with_an_optimizers_parameters(s):
    model = network(s)
    params = dict(model.named_parameters())
    loss = lambda params, x: s.func.functional_call(model, params, (x,)).sin().sum()  # noqa: E731
    found = s.func.grad(loss)(params, s.normal(4, 4))
    loss({name: params[name] - 0.1 * found[name] for name in params}, s.normal(4, 4)).backward()
    return [param.grad for param in model.parameters()]


@composition
def neural_tangent_kernels(s):
    model = network(s)
    params = s.state(model)
    one = lambda params, x: s.func.functional_call(model, params, (x.unsqueeze(0),)).squeeze(0)  # noqa: E731
    x1, x2 = s.normal(3, 4), s.normal(2, 4)
    jacobians = [s.func.vmap(s.func.jacrev(one), in_dims=(None, 0))(params, x) for x in (x1, x2)]
    parts = [s.torch.einsum("Naf,Mbf->NMab", *(j[name].flatten(2) for j in jacobians)) for name in params]

    def entry(x1, x2):
        def product(v):
            found = s.func.vjp(lambda params: one(params, x1), params)[1](v)
            return s.func.jvp(lambda params: one(params, x2), (params,), found)[1]

        return s.func.vmap(product)(s.torch.eye(3, dtype=s.torch.float64))

    implicit = s.func.vmap(s.func.vmap(entry, in_dims=(None, 0)), in_dims=(0, None))(x1, x2)
    return sum(parts), implicit


@composition
def hessian_of_a_network(s):
    model = network(s)
    x, y = s.normal(4, 4), s.integers(3, 4)
    loss = lambda params: s.F.cross_entropy(s.func.functional_call(model, params, (x,)), y)  # noqa: E731
    return s.func.hessian(loss)(s.state(model))


@composition
def input_jacobians_of_a_network(s):
    model, x = network(s), s.normal(4, 4)
    found = s.func.vmap(s.func.jacrev(model))(x), s.func.vmap(s.func.jacfwd(model))(x)
    return s.torch.utils._pytree.tree_map(lambda each: each.detach(), found)


@composition
def batch_norm_that_is_evaluated(s):
    nn = s.torch.nn
    model = s.filled(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))).eval()
    f = lambda params, x: s.func.functional_call(model, params, (x,)).sin().sum()  # noqa: E731
    return s.func.grad(f)(s.state(model), s.normal(5, 4)), s.func.hessian(f, argnums=1)(s.state(model), s.normal(2, 4))


@composition
def batch_norm_without_statistics(s):
    nn = s.torch.nn
    model = s.func.replace_all_batch_norm_modules_(s.filled(nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3))))
    loss = lambda params, x: s.func.functional_call(model, params, (x.unsqueeze(0),)).sin().sum()  # noqa: E731
    return s.func.vmap(s.func.grad(loss), in_dims=(None, 0))(s.state(model), s.normal(3, 2, 4, 4))


# -- random numbers -------------------------------------------------------------------------------------------------------------------
@composition
def random_numbers_of_each_kind(s):
    s.torch.manual_seed(3)
    f = lambda x: (x * s.torch.randn(4, dtype=s.torch.float64)).sum()  # noqa: E731
    return [s.func.vmap(s.func.grad(f), randomness=kind)(s.normal(3, 4)) for kind in ("same", "different")]


@composition
def dropout_the_same_for_all(s):
    s.torch.manual_seed(3)
    f = s.func.grad(lambda x: (s.F.dropout(x, 0.5) * x).sum())
    found = s.func.vmap(f, randomness="same")(s.torch.ones(3, 8, dtype=s.torch.float64))
    return found[0] - found, s.torch.unique(found)


@composition
def dropout_of_its_own_for_each(s):
    s.torch.manual_seed(3)
    f = s.func.grad(lambda x: (s.F.dropout(x, 0.5) * x).sum())
    found = s.func.vmap(f, randomness="different")(s.torch.ones(3, 32, dtype=s.torch.float64))
    return (found[0] == found[1]).all(), s.torch.unique(found)


@composition
def random_numbers_in_jacfwd(s):
    s.torch.manual_seed(3)
    return s.func.jacfwd(lambda x: x * s.torch.randn(3, dtype=s.torch.float64), randomness="same")(s.normal(3))
