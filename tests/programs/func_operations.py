"""Operations of all families inside of transforms."""

from __future__ import annotations

import importlib

from func_source import composition


# -- operations inside ----------------------------------------------------------------------------------------------------------------
def everywhere(s, f, *shape):
    """A function to a number by all first derivatives, one by one and for several."""
    x, func = s.normal(3, *shape), s.func
    total = lambda x: f(x).sin().sum()  # noqa: E731
    found = func.vmap(f)(x), func.grad(total)(x[0]), func.vmap(func.grad(total))(x), func.jvp(f, (x[0],), (x[1],)), func.jacrev(f)(x[2])
    return (*found, func.vmap(func.jacfwd(f))(x), func.jvp(func.grad(total), (x[0],), (x[1],)))


@composition
def conditional_where(s):
    return everywhere(s, lambda x: s.torch.where(x > 0, x.sin(), -x * x), 4)


@composition
def clamps_and_signs(s):
    return everywhere(s, lambda x: x.clamp(-0.5, 0.5) * x.abs() + s.torch.maximum(x, x.flip(0)).relu(), 4)


@composition
def sorted_and_topk(s):
    return everywhere(s, lambda x: x.sort(0)[0] * x + s.torch.cat([x.topk(2)[0], x.kthvalue(2)[0].reshape(1), x.median().reshape(1)]), 4)


@composition
def gather_and_index_select(s):
    index = s.torch.tensor([[0, 1], [2, 0]])
    return everywhere(s, lambda x: x.gather(1, index) + x.index_select(0, s.torch.tensor([1, 0]))[:, [0, 2]], 2, 3)


@composition
def indexing_of_all_kinds(s):
    index = s.torch.tensor([2, 0, 1])
    return everywhere(s, lambda x: x[index] * x[:, 0].unsqueeze(1) + x[1] + x[..., :1] + x[index, index % 2].sum(), 3, 2)


@composition
def index_of_each_example(s):
    f = lambda x, i: (x[i] * x.take_along_dim(i, 0)).sum()  # noqa: E731
    return s.func.vmap(s.func.grad(f))(s.normal(3, 5), s.integers(5, 3, 4))


@composition
def scatter_and_index_add(s):
    index = s.torch.tensor([0, 2, 0])
    base = lambda x: s.torch.zeros(3, dtype=x.dtype)  # noqa: E731
    return everywhere(s, lambda x: base(x).scatter_add(0, index, x) + base(x).index_add(0, index, x * x), 3)


@composition
def reductions(s):
    f = lambda x: s.torch.stack([x.sum(), x.mean(), x.var(), x.std(), x.prod(), x.max(), x.norm(), x.logsumexp((0, 1)), x.amin()])  # noqa: E731
    return everywhere(s, f, 2, 3)


@composition
def running_values(s):
    return everywhere(s, lambda x: x.cumsum(0) * x.cumprod(0) + x.logcumsumexp(0) + x.cummax(0)[0], 4)


@composition
def linear_systems(s):
    a, b = s.definite(3), s.normal(3, 3)
    f = lambda a, b: s.torch.linalg.solve(a, b) + s.torch.inverse(a) @ b  # noqa: E731
    first = s.func.grad(lambda a, b: f(a, b).sin().sum(), argnums=(0, 1))
    return s.func.vmap(first)(a, b), s.func.jacfwd(f)(a[0], b[0]), s.func.vmap(s.func.jacrev(f))(a, b)


@composition
def determinants_and_factors(s):
    a = s.definite(3)
    f = lambda a: s.torch.logdet(a) + s.torch.det(a) * s.torch.linalg.cholesky(a).sum() + s.torch.linalg.eigvalsh(a).sin().sum()  # noqa: E731
    again = s.func.vmap(s.func.jacrev(s.func.grad(s.torch.det)))(a)  # forward over reverse is wrong in PyTorch
    return s.func.vmap(s.func.grad(f))(a), s.func.jvp(s.func.grad(f), (a[0],), (a[1],)), again


@composition
def fourier_transforms(s):
    f = lambda x: s.torch.fft.irfft(s.torch.fft.rfft(x) * s.torch.fft.rfft(x.flip(0)), n=6) + s.torch.fft.fft(x).abs()  # noqa: E731
    return everywhere(s, f, 6)


@composition
def complex_functions(s):
    f = lambda z: (z * z.conj() * z).sin() / (z + 3)  # noqa: E731
    z, d = s.complex(4), s.complex(4)
    real = lambda z: (f(z) * f(z).conj()).real.sum()  # noqa: E731
    found = s.func.jvp(f, (z,), (d,)), s.func.vjp(f, z)[1](d), s.func.grad(real)(z), s.func.vmap(s.func.grad(real))(s.complex(3, 4))
    return (*found, s.func.jacrev(lambda x: (f(x + 1j)).abs())(s.normal(4)), s.func.jvp(s.func.grad(real), (z,), (d,)))


@composition
def einsum_and_matmul(s):
    b = s.normal(4, 5)
    return everywhere(s, lambda x: s.torch.einsum("ij,jk,ik->i", x, b, x @ b) + (x @ x.mT).diagonal() + s.torch.trace(x @ x.mT), 3, 4)


@composition
def outer_products_and_kron(s):
    return everywhere(s, lambda x: s.torch.kron(x, x).view(2, 3, 2, 3).sum((1, 2)) + s.torch.outer(x[0], x[1])[:2], 2, 3)


@composition
def convolutions(s):
    w, b, t = s.normal(3, 2, 2, 2), s.normal(3), s.normal(3, 2, 2, 2)
    f = lambda x: s.F.conv_transpose2d(s.F.conv2d(x, w, b, padding=1).tanh(), t, stride=1)  # noqa: E731
    return everywhere(s, f, 1, 2, 3, 3)


@composition
def convolution_with_each_examples_weights(s):
    f = lambda w, x: s.F.conv2d(x, w, padding=1).sin().sum()  # noqa: E731
    return s.func.vmap(s.func.grad(f, argnums=(0, 1)))(s.normal(3, 2, 2, 3, 3), s.normal(3, 2, 2, 4, 4)), s.func.hessian(f)(
        s.normal(1, 1, 2, 2), s.normal(1, 1, 3, 3)
    )


@composition
def pooling_and_padding(s):
    f = lambda x: s.F.max_pool2d(s.F.pad(x, (1, 1, 1, 1)), 2) + s.F.avg_pool2d(x, 2, ceil_mode=True).mean() + s.F.adaptive_avg_pool2d(x, 1)  # noqa: E731
    return everywhere(s, f, 1, 2, 4, 4)


@composition
def attention(s):
    k, v, x = s.normal(1, 2, 4, 3), s.normal(1, 2, 4, 3), s.normal(3, 1, 2, 4, 3)
    f = lambda q: s.F.scaled_dot_product_attention(q, k * q, v, is_causal=True)  # noqa: E731
    return s.func.vmap(f)(x), s.func.vmap(s.func.grad(lambda q: f(q).sin().sum()))(x), s.func.jacrev(f)(x[0])


@composition
def multi_head_attention(s):
    layer = s.filled(s.torch.nn.MultiheadAttention(4, 2, batch_first=True))
    f = lambda params, x: s.func.functional_call(layer, params, (x, x, x))[0].sin().sum()  # noqa: E731
    return s.func.vmap(s.func.grad(f, argnums=(0, 1)), in_dims=(None, 0))(s.state(layer), s.normal(2, 3, 4))


@composition
def softmaxes_and_losses(s):
    target = s.torch.tensor([1, 0])

    def f(x):
        y = x.softmax(1) * x.log_softmax(0) + s.F.cross_entropy(x, target, label_smoothing=0.1)
        return y + s.F.mse_loss(x, x.sin()) + s.F.nll_loss(x, target)

    return everywhere(s, f, 2, 3)


@composition
def activations(s):
    f = lambda x: s.F.gelu(x) + s.F.silu(x) * s.F.softplus(x) + s.F.leaky_relu(x) + s.F.elu(x) + s.F.hardtanh(x) + s.F.logsigmoid(x)  # noqa: E731
    return everywhere(s, f, 5)


@composition
def layer_norm_and_normalize(s):
    w, b = s.normal(4), s.normal(4)
    return everywhere(
        s, lambda x: s.F.layer_norm(x, (4,), w, b) + s.F.normalize(x, dim=0) + s.F.group_norm(x.view(1, 4, 2), 2).view(2, 4), 2, 4
    )


@composition
def cosines_and_distances(s):
    y = s.normal(2, 4)
    f = lambda x: (x.unsqueeze(1) - y).norm(dim=2).sum() + s.F.cosine_similarity(x, y, dim=1) + s.F.pairwise_distance(x, y)  # noqa: E731
    return everywhere(s, f, 2, 4)


@composition
def shapes_of_all_kinds(s):
    def f(x):
        a, b = x.chunk(2, 1)
        y = s.torch.stack([a, b], -1).flatten(1).unflatten(1, (2, 2)).movedim(1, 0).transpose(0, 1)
        z = y.repeat(1, 2, 1)[:, 1:3].roll(1, 1).expand(2, 2, 2) + y.permute(2, 1, 0).contiguous().view(2, 2, 2).tril()
        return z.rot90(1, (0, 1)).narrow(0, 0, 1).squeeze(0) * x.t().reshape(2, 4)[:, :2]

    return everywhere(s, f, 2, 4)


@composition
def custom_function(s):
    class Cube(s.torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x

        @staticmethod
        def jvp(ctx, tangent):
            (x,) = ctx.saved_tensors
            return tangent * 3 * x * x

    f = lambda x: (Cube.apply(x) * x).sum()  # noqa: E731
    x, func = s.normal(3, 4), s.func
    return (
        func.grad(f)(x[0]),
        func.vmap(func.grad(f))(x),
        func.grad(lambda x: func.grad(f)(x).sin().sum())(x[0]),
        func.jacrev(Cube.apply)(x[0]),
    )


@composition
def checkpoint_inside(s):
    from_library = importlib.import_module(f"{s.torch.__name__}.utils.checkpoint").checkpoint
    w = s.normal(4).requires_grad_()
    out = from_library(
        lambda w: s.func.vmap(lambda x: (x * w).sin().sum())(s.torch.ones(3, 4, dtype=w.dtype)).sum(), w, use_reentrant=False
    )
    out.backward()
    return w.grad
