"""Transforms in each other, what must not be confused, signatures, and ``torch.autograd`` beside them."""

from __future__ import annotations

from func_source import bumps, bumpy, composition, flattened, written


# -- one transform in another ---------------------------------------------------------------------------------------------------------
@composition
def grad_of_grad_of_grad(s):
    grad = s.func.grad
    f = bumpy(s.torch)
    return grad(lambda x: grad(lambda y: grad(f)(y).sin().sum())(x).sum())(s.normal(4))


@composition
def grad_of_vmap(s):
    rows = s.normal(5, 4)
    return s.func.grad(lambda w: s.func.vmap(lambda r: (r * w).sin().sum() ** 2)(rows).sum())(s.normal(4))


@composition
def vmap_of_grad(s):
    return s.func.vmap(s.func.grad(bumpy(s.torch)))(s.normal(5, 4))


@composition
def vmap_of_grad_of_grad(s):
    f = bumpy(s.torch)
    return s.func.vmap(s.func.grad(lambda x: s.func.grad(f)(x).sum()))(s.normal(5, 4))


@composition
def grad_of_vmap_of_jvp(s):
    rows, directions, f = s.normal(5, 4), s.normal(5, 4), bumpy(s.torch)
    along = lambda w: s.func.vmap(lambda r, d: s.func.jvp(f, (r * w,), (d,))[1])(rows, directions)  # noqa: E731
    return s.func.grad(lambda w: along(w).sum())(s.normal(4))


@composition
def vmap_of_vmap_of_grad(s):
    f = lambda x, y: (x * y).tanh().sum() * y.sum()  # noqa: E731
    return s.func.vmap(s.func.vmap(s.func.grad(f), in_dims=(0, None)), in_dims=(None, 0))(s.normal(3, 4), s.normal(2, 4))


@composition
def jacrev_jacfwd_agree(s):
    x, f = s.normal(4), bumps(s.torch)
    return s.func.jacrev(f)(x), s.func.jacfwd(f)(x)


@composition
def jacobians_in_each_other(s):
    x, f = s.normal(3), bumps(s.torch)
    rev, fwd = s.func.jacrev, s.func.jacfwd
    return rev(rev(f))(x), fwd(fwd(f))(x), rev(fwd(f))(x), fwd(rev(f))(x)


@composition
def hessians(s):
    return s.func.hessian(bumpy(s.torch))(s.normal(4)), s.func.hessian(lambda x, y: (x * y).sin().sum(), argnums=(0, 1))(
        s.normal(2), s.normal(2)
    )


@composition
def vmap_of_hessian(s):
    return s.func.vmap(s.func.hessian(bumpy(s.torch)))(s.normal(3, 4))


@composition
def vmap_of_jacfwd_and_jacrev(s):
    x, f = s.normal(3, 4), bumps(s.torch)
    return s.func.vmap(s.func.jacfwd(f))(x), s.func.vmap(s.func.jacrev(f), out_dims=1)(x)


@composition
def third_derivative_by_three_transforms(s):
    return s.func.jacfwd(s.func.jacrev(s.func.grad(bumpy(s.torch))))(s.normal(3))


@composition
def hvp_by_jvp_of_grad(s):
    return s.func.jvp(s.func.grad(bumpy(s.torch)), (s.normal(4),), (s.normal(4),))


@composition
def hvp_by_grad_of_jvp(s):
    direction, f = s.normal(4), bumpy(s.torch)
    return s.func.grad(lambda x: s.func.jvp(f, (x,), (direction,))[1])(s.normal(4))


@composition
def hvp_by_vjp_of_grad(s):
    value, back = s.func.vjp(s.func.grad(bumpy(s.torch)), s.normal(4))
    return value, back(s.normal(4))


@composition
def vjp_of_vjp(s):
    x, v, f = s.normal(4), s.normal(3), bumps(s.torch)
    value, back = s.func.vjp(lambda v: s.func.vjp(f, x)[1](v)[0], v)
    return value, back(s.normal(4))


@composition
def jvp_of_vjp_in_the_cotangent_and_the_input(s):
    f = bumps(s.torch)
    return s.func.jvp(lambda x, v: s.func.vjp(f, x)[1](v)[0], (s.normal(4), s.normal(3)), (s.normal(4), s.normal(3)))


@composition
def jvp_of_jvp(s):
    d, f = s.normal(4), bumpy(s.torch)
    return s.func.jvp(lambda x: s.func.jvp(f, (x,), (d,))[1], (s.normal(4),), (s.normal(4),))


@composition
def vmap_over_cotangents(s):
    _, back = s.func.vjp(bumps(s.torch), s.normal(4))
    return s.func.vmap(back)(s.normal(6, 3))


@composition
def vmap_over_tangents(s):
    x, f = s.normal(4), bumps(s.torch)
    return s.func.vmap(lambda t: s.func.jvp(f, (x,), (t,))[1])(s.normal(6, 4))


@composition
def linearized(s):
    value, push = s.func.linearize(lambda x, y: (x * y).sin() + y.cumsum(0), s.normal(4), s.normal(4))
    return value, push(s.normal(4), s.normal(4)), push(s.normal(4), s.normal(4))


@composition
def vjp_of_two_outputs_vmapped(s):
    def one(x, y):
        _, back = s.func.vjp(lambda x, y: (x * y, {"sum": (x + y * y).sum()}), x, y)
        return back((x, {"sum": y.sum()}))

    return s.func.vmap(one)(s.normal(3, 4), s.normal(3, 4))


# -- confusions ------------------------------------------------------------------------------------------------------------------------
@composition
def perturbations_apart_in_reverse(s):
    inner = lambda x: s.func.grad(lambda y: (x * y).sum() * y.sum())(x * 1.0)  # noqa: E731
    return s.func.grad(lambda x: inner(x).sum() * x.sum())(s.normal(4))


@composition
def perturbations_apart_forward(s):
    one = s.torch.ones((), dtype=s.torch.float64)
    return s.func.jvp(lambda a: a * s.func.jvp(lambda b: a + b, (one,), (one,))[1], (one * 3,), (one,))


@composition
def perturbations_apart_mixed(s):
    one = s.torch.ones((), dtype=s.torch.float64)
    inner = lambda a: s.func.jvp(lambda b: (a * b).sin() * b, (a * 1.0,), (one,))[1]  # noqa: E731
    return s.func.grad(lambda a: a * inner(a))(one * 2), s.func.jvp(s.func.grad(lambda a: a * inner(a)), (one,), (one,))


@composition
def closed_over_by_the_inner_of_two(s):
    def outer(x):
        y = x.sin()
        return s.func.grad(lambda z: (y * z).sum() ** 2)(x).sum() + s.func.vmap(lambda r: r * y.sum())(x).sum()

    return s.func.grad(outer)(s.normal(4))


@composition
def closed_over_variable_gets_its_gradient(s):
    w = s.normal(4).requires_grad_()
    found = s.func.grad(lambda x: ((x * w).sin() * w).sum())(s.normal(4))
    (found * s.normal(4)).sum().backward()
    return found.detach(), w.grad


@composition
def argument_that_requires_grad_gets_its_gradient(s):
    x = s.normal(4).requires_grad_()
    found, value = s.func.grad_and_value(bumpy(s.torch))(x)
    (found.sin().sum() * value).backward()
    jacobian = s.func.jacrev(bumps(s.torch))(x)
    return found.detach(), x.grad, s.torch.autograd.grad(jacobian.sin().sum(), x)


@composition
def closed_over_variable_through_vmap_of_grad(s):
    w = s.normal(4).requires_grad_()
    found = s.func.vmap(s.func.grad(lambda x: ((x * w).sin() * w).prod()))(s.normal(3, 4))
    found.sin().sum().backward()
    return found.detach(), w.grad


@composition
def closed_over_variable_through_jvp_and_hessian(s):
    w = s.normal(3).requires_grad_()
    f = lambda x: (x * w).sin().prod() * w.sum()  # noqa: E731
    x, d = s.normal(3), s.normal(3)
    (s.func.jvp(f, (x,), (d,))[1] + s.func.hessian(f)(x).sin().sum()).backward()
    return w.grad


@composition
def no_grad_inside_grad(s):
    def f(x):
        with s.torch.no_grad():
            c = x.sin()
        return (x * c).sum()

    return s.func.grad(f)(s.normal(4)), s.func.vmap(s.func.grad(f))(s.normal(3, 4))


@composition
def no_grad_around_grad(s):
    x = s.normal(4)
    with s.torch.no_grad():
        return s.func.grad(bumpy(s.torch))(x), s.func.hessian(bumpy(s.torch))(x), s.func.vjp(bumps(s.torch), x)[1](s.normal(3))


@composition
def detached_inside(s):
    f = lambda x: (x.detach().sin() * x).sum()  # noqa: E731
    return s.func.grad(f)(s.normal(4)), s.func.hessian(f)(s.normal(4)), s.func.vmap(s.func.grad(f))(s.normal(2, 4))


@composition
def autograd_grad_inside(s):
    def f(x):
        (g,) = s.torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        return (g * x).sum()

    return s.func.grad(f)(s.normal(4))


# -- writing in place ---------------------------------------------------------------------------------------------------------------
@composition
def in_place_through_views(s):
    x, f, func = s.normal(4), written(s.torch), s.func
    return func.grad(f)(x), func.jvp(f, (x,), (s.normal(4),)), func.hessian(f)(x)


@composition
def in_place_through_views_vmapped(s):
    x, f, func = s.normal(3, 4), written(s.torch), s.func
    return func.vmap(f)(x), func.vmap(func.grad(f))(x), func.vmap(func.hessian(f))(x)


@composition
def in_place_on_the_argument(s):
    x = s.normal(4)

    def f(x):
        y = x * 1
        y.sin_().mul_(2)
        y[0] = 0
        return y.prod() + y.exp().sum() + x.clone().unsqueeze(0).squeeze_().sum()

    def g(x):
        x.mul_(2)
        return x.sin()

    return s.func.grad(f)(x), x, s.func.vmap(g)(x.view(2, 2)), x, s.func.jvp(g, (x,), (s.normal(4),)), x


@composition
def out_of_a_fresh_buffer(s):
    def f(x):
        made = x.new_zeros(4)
        for i in range(4):
            made[i] = x[i] * x[:i].sum()
        return made.sum() * made[3]

    return s.func.grad(f)(s.normal(4)), s.func.vmap(s.func.grad(f))(s.normal(2, 4))


# -- signatures -----------------------------------------------------------------------------------------------------------------------
@composition
def arguments_by_number(s):
    f = lambda x, y, scale=1.0: ((x * y).sin() * scale).sum()  # noqa: E731
    x, y = s.normal(4), s.normal(4)
    return s.func.grad(f, argnums=1)(x, y), s.func.grad(f, argnums=(1, 0))(x, y, scale=2.0), s.func.grad(f, argnums=-1)(x, y)


@composition
def with_aux(s):
    f = lambda x: ((x * x).sum(), {"seen": x.sin(), "none": x.numel() * x})  # noqa: E731
    x = s.normal(4)
    found = [s.func.grad(f, has_aux=True)(x), s.func.grad_and_value(f, has_aux=True)(x), s.func.jacrev(f, has_aux=True)(x)]
    found += [s.func.jacfwd(lambda x: (x.sin(), x * 2), has_aux=True)(x), s.func.jvp(lambda x: (x.sin(), x * 2), (x,), (x,), has_aux=True)]
    value, back, aux = s.func.vjp(f, x, has_aux=True)
    return found, value, back(s.normal()), aux


@composition
def trees_in_and_out(s):
    weights = {"w": s.normal(3, 4), "rest": [s.normal(3), (s.normal(3),)]}

    def f(weights, x):
        h = (weights["w"] @ x + weights["rest"][0]).tanh() * weights["rest"][1][0]
        return {"a": h, "b": (h.sum(), h[:2])}

    x = s.normal(4)
    found = s.func.grad(lambda w, x: f(w, x)["b"][0])(weights, x)
    return found, s.func.jacrev(f)(weights, x), s.func.jacfwd(f, argnums=(0, 1))(weights, x)


@composition
def trees_under_vmap(s):
    f = lambda tree: {"out": (tree["x"] * tree["y"][0]).sum(), "x": tree["x"] * 2}  # noqa: E731
    tree = {"x": s.normal(3, 4), "y": [s.normal(4)]}
    return s.func.vmap(f, in_dims=({"x": 0, "y": [None]},), out_dims={"out": 0, "x": 1})(tree)


@composition
def jacobians_of_two_arguments(s):
    f = lambda x, y: (x.outer(y).sum(0), x * y.sum())  # noqa: E731
    return s.func.jacrev(f, argnums=(0, 1))(s.normal(3), s.normal(2)), s.func.jacfwd(f, argnums=(1, 0))(s.normal(3), s.normal(2))


@composition
def jacobians_in_chunks(s):
    x, f = s.normal(2, 3), lambda x: (x.sin() @ x.t(), x.sum(0))
    return [s.func.jacrev(f, chunk_size=n)(x) for n in (1, 2, 5, 100)]


@composition
def vmap_in_chunks_over_grad(s):
    f = s.func.grad(lambda x, y: ((x * y).sin() ** 2).sum())
    return [s.func.vmap(f, in_dims=(1, None), chunk_size=n)(s.normal(4, 7), s.normal(4)) for n in (1, 3, 7)]


@composition
def output_that_does_not_depend(s):
    x, c = s.normal(3), s.normal(2)
    return (
        s.func.grad(lambda x: c.sum())(x),
        s.func.jacrev(lambda x: (c, x * 2))(x),
        s.func.jacfwd(lambda x: (c, x * 2))(x),
        s.func.hessian(lambda x: x.sum())(x),
    )


# -- torch.autograd beside it -----------------------------------------------------------------------------------------------------------
@composition
def grads_that_are_batched(s):
    x = s.normal(4).requires_grad_()
    y, grad = bumps(s.torch)(x), s.torch.autograd.grad
    (plain,) = grad(y, x, s.normal(5, 3), is_grads_batched=True, retain_graph=True)
    (recorded,) = grad(y, x, s.torch.eye(3, dtype=s.torch.float64), is_grads_batched=True, create_graph=True)
    return plain, recorded.detach(), grad(recorded.sin().sum(), x)


@composition
def functional_vectorized(s):
    functional, x, y = s.torch.autograd.functional, s.normal(2, 2), s.normal(2)
    f = lambda x, y: ((x * y).sin() @ y, x.sum() * y)  # noqa: E731
    found = [functional.jacobian(f, (x, y), vectorize=True), functional.jacobian(f, (x, y), vectorize=True, strategy="forward-mode")]
    number = lambda x, y: ((x * y).sin() @ y).prod()  # noqa: E731
    found += [functional.hessian(number, (x, y), vectorize=True, outer_jacobian_strategy=kind) for kind in ("reverse-mode", "forward-mode")]
    return [tensor.detach() for _, tensor in flattened(found)]  # PyTorch's last one requires grad, and is a list


@composition
def functional_recorded(s):
    functional, x = s.torch.autograd.functional, s.normal(3).requires_grad_()
    found = [
        functional.jacobian(bumps(s.torch), x, create_graph=True, vectorize=True),
        functional.hessian(bumpy(s.torch), x, create_graph=True, vectorize=True),
    ]
    return [s.torch.autograd.grad(each.sin().sum(), x) for each in found]


# -- functions without mutations, and the rest -----------------------------------------------------------------------------------------
@composition
def functionalized(s):
    f = written(s.torch)
    x = s.normal(4)
    found = [s.func.functionalize(f, remove=kind)(x) for kind in ("mutations", "mutations_and_views")]
    return found, s.func.functionalize(s.func.grad(f))(x)


@composition
def rearranged(s):
    pattern = lambda x: s.func.rearrange(x, "(a b) c -> b (c a)", a=2)  # noqa: E731
    return pattern(s.normal(4, 3)), s.func.vmap(pattern)(s.normal(2, 4, 3)), s.func.grad(lambda x: pattern(x)[0].prod())(s.normal(4, 3))


# -- a variable that is no batch's, inside of one ---------------------------------------------------------------------------------------
def looked_at(torch):
    """Functions of a vector that depend on its values in ways that a batch cannot."""
    return (
        lambda x: (x**3).sum() if x.sum() > 0 else x.sum(),
        lambda x: (x[x > 0] ** 3).sum() * x.prod(),
        lambda x: (x**3).sum() * x.sum().item(),
        lambda x: (x[x.nonzero()] ** 3).sum() + x.masked_select(x > 0).prod(),
        lambda x: (x**3).sum() * torch.allclose(x, x) + x.prod() * float(x[0]),
    )


def filled(torch):
    """Functions of a vector of two that write it into new tensors."""

    def by_element(x):
        made = torch.zeros(2, dtype=x.dtype)
        made[0] = x.sum()
        made[1] = x.prod()
        return (made**3).sum()

    def as_a_whole(x):
        made = torch.empty(2, dtype=x.dtype)
        made[:] = x
        made[0] *= 2
        return (made**3).sum() * torch.ones(2, dtype=x.dtype).copy_(x).prod()

    def as_it_is(x):
        made = torch.empty_like(x)
        made.copy_(x.sin())
        return (made**3).sum()

    def one_place(x):
        return torch.zeros(2, dtype=x.dtype).index_put((torch.tensor([0]),), x[:1]).exp().sum()

    return by_element, as_a_whole, as_it_is, one_place


def in_batches(s, functions, x):
    """Derivatives of functions at one point, of the second order or inside of a batch that the point is not of."""
    func = s.func
    second = [(func.hessian(f)(x), func.jacfwd(func.jacfwd(f))(x), func.jacrev(func.jacfwd(f))(x)) for f in functions]
    weights = s.normal(3)
    return second, [func.vmap(lambda v: func.grad(f)(x) * v)(weights) for f in functions]  # noqa: B023


@composition
def values_of_a_variable_that_is_no_batchs(s):
    return in_batches(s, looked_at(s.torch), s.positive(3))


@composition
def new_tensors_that_a_variable_is_written_into(s):
    return in_batches(s, filled(s.torch), s.normal(2))


@composition
def jacobians_of_what_was_written_into_new_tensors(s):
    torch, func, x = s.torch, s.func, s.normal(3)
    f = lambda x: torch.zeros(3, dtype=x.dtype).copy_(x.sin())  # noqa: E731
    tilted = lambda x: x.clone().fill_(x.sum()) * x  # noqa: E731
    return func.jacfwd(f)(x), func.jacfwd(tilted)(x), func.vmap(lambda v: func.jvp(f, (x,), (v,)))(s.normal(2, 3))


@composition
def values_to_fill_with_that_are_batched(s):
    x, values = s.normal(2, 3), s.normal(2)
    return (
        s.func.vmap(lambda x, v: x.masked_fill(x > 0, v))(x, values),
        s.func.vmap(lambda x, v: x.clone().masked_fill_(x > 0, v))(x, values),
        s.func.vmap(lambda v: x.masked_fill(x > 0, v))(values),
    )


@composition
def places_in_nested_batches(s):
    x = s.normal(2, 3, 2, 4)
    places = lambda x: s.torch.searchsorted(x.sort(-1)[0], x)  # noqa: E731
    return s.func.vmap(s.func.vmap(places, in_dims=1), in_dims=-1, out_dims=-1)(x)


@composition
def dropout_with_a_mask_for_each_example(s):
    torch, func, F, x, y = s.torch, s.func, s.F, s.normal(2, 3), s.normal(3)
    torch.manual_seed(0)
    vmap = lambda f, *args: func.vmap(f, randomness="different")(*args)  # noqa: E731
    channels = lambda x: x.reshape(1, 3, 1)  # noqa: E731
    half = lambda x: F.dropout(x, 0.4)  # noqa: E731
    found = [
        vmap(lambda x: F.dropout(x.clone(), 0.4, inplace=True), x),
        vmap(lambda x: F.dropout1d(channels(x), 0.4), x),
        vmap(lambda x: F.dropout1d(channels(y), 0.4) + x.sum(), x),
        vmap(lambda x: F.feature_alpha_dropout(channels(x), 0.4, True), x),
        vmap(func.vmap(half, randomness="same"), x),
        vmap(lambda x: func.jvp(half, (x,), (x,)), x),
        vmap(lambda x: func.jvp(lambda x: F.alpha_dropout(x, 0.4, True), (x,), (x,)), x),
        func.jacfwd(half, randomness="different")(y),
        func.jacfwd(func.jacrev(lambda x: (half(x) ** 2).sum()), randomness="different")(y),
        func.jacfwd(func.jacrev(lambda x: (torch.bernoulli(x.sigmoid()) * x**2).sum()), randomness="different")(y),
    ]
    return found, torch.rand(3)


@composition
def distributions_in_batches(s):
    torch, x = s.torch, s.positive(2, 3)
    kinds = torch.distributions
    torch.manual_seed(0)
    drawn = lambda f: s.func.vmap(f, randomness="different")(x)  # noqa: E731
    found = drawn(lambda x: kinds.Gamma(x, x).rsample()), drawn(lambda x: torch._sample_dirichlet(x))
    found += drawn(lambda x: kinds.Categorical(x).sample()), drawn(lambda x: kinds.Normal(x, x).log_prob(x * 2))
    try:
        drawn(lambda x: kinds.Normal(x, -x))
    except ValueError as error:
        return *found, torch.rand(2), "scale (Tensor of shape (3,))" in str(error)


@composition
def tangents_of_what_was_overwritten(s):
    return s.func.hessian(lambda x: ((x.clone().zero_() + x) ** 3).sum())(s.normal(3)), s.func.jacfwd(lambda x: x.sin().zero_() + x)(
        s.normal(3)
    )


@composition
def second_derivatives_in_inference_mode(s):
    torch, func, f = s.torch, s.func, lambda x: (x**3).sum() * x[0]
    with torch.inference_mode():
        x = s.normal(3) * 1
        found = func.hessian(f)(x), func.jvp(func.grad(f), (x,), (x.cos(),))[1], func.jacrev(func.jacfwd(f))(x)
    return [each.clone() for each in found]
