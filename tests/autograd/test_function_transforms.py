"""``autograd.Function`` inside of vmap, grad and jvp."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import Function
from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.func import jvp
from flambeau.func._reverse import grad
from flambeau.func._vmap import vmap


def numbers(*shape, seed=0):
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed + sum(shape))) + 0.5


def close(a, b):
    torch.testing.assert_close(a, b)


class Scaled(Function):
    """``a**2 * b``, and ``2 a`` as a result of its own, so that derivatives can be taken of what ``backward`` uses."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a, b):
        return a * a * b, 2 * a

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b = inputs
        ctx.save_for_backward(a, b, output[1])
        ctx.save_for_forward(a, b, output[1])

    @staticmethod
    def backward(ctx, grad, grad_slope):
        a, b, slope = ctx.saved_tensors
        return grad * slope * b + 2 * grad_slope, (grad * a * a).sum_to_size(b.shape)

    @staticmethod
    def jvp(ctx, a_t, b_t):
        a, b, slope = ctx.saved_tensors
        return slope * b * a_t + a * a * b_t, 2 * a_t


class ByHand(Scaled):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, a, b):
        assert info.batch_size == 4
        assert info.randomness == "error"
        assert set(in_dims) <= {0, None}
        if in_dims[1] == 0:
            b = b.reshape(*b.shape, *(1,) * (a.ndim - b.ndim))
        made, slope = ByHand.apply(a, b)
        return (made.movedim(0, -1), slope), (-1, in_dims[0])


def plain(a, b):
    return a * a * b


@pytest.mark.parametrize("kind", [Scaled, ByHand], ids=["generated", "by hand"])
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (1, 0)], ids=str)
def test_vmap(kind, in_dims):
    a, b = numbers(4, 3).movedim(0, in_dims[0]), numbers(4) if in_dims[1] == 0 else numbers()

    def apply(a, b):
        return kind.apply(a, b)[0]

    close(vmap(apply, in_dims)(a, b), vmap(plain, in_dims)(a, b))
    for arg in (0, 1):
        slope = vmap(lambda a, b: grad(lambda *x: apply(*x).sum(), arg)(a, b), in_dims)(a, b)  # noqa: B023
        close(slope, vmap(lambda a, b: grad(lambda *x: plain(*x).sum(), arg)(a, b), in_dims)(a, b))  # noqa: B023


def test_gradients_of_what_was_mapped():
    a, b = numbers(4, 3).requires_grad_(), numbers().requires_grad_()
    made = vmap(lambda a: Scaled.apply(a, b)[0])(a)
    got = torch.autograd.grad(made.sum(), (a, b))
    close(got[0], 2 * (a * b).detach())
    close(got[1], (a * a).sum().detach())


def test_jvp_of_all_orders():
    a, b, s, t = numbers(3), numbers(3, seed=1), numbers(3, seed=2), numbers(3, seed=3)

    def apply(*x):
        return Scaled.apply(*x)[0]

    close(jvp(apply, (a, b), (s, t))[1], jvp(plain, (a, b), (s, t))[1])
    close(jvp(lambda a: apply(a, b), (a,), (s,))[1], 2 * a * b * s)
    for function in (
        lambda f: lambda a: jvp(lambda x: f(x, b), (a,), (s,))[1],
        lambda f: grad(lambda a: f(a, b).sum()),
    ):
        close(jvp(function(apply), (a,), (t,))[1], jvp(function(plain), (a,), (t,))[1])
    close(grad(lambda a: jvp(lambda x: apply(x, b), (a,), (s,))[1].sum())(a), 2 * b * s)
    close(vmap(lambda a, s: jvp(lambda x: apply(x, b[0]), (a,), (s,))[1])(a, s), 2 * a * b[0] * s)
    close(jvp(lambda a: vmap(apply)(a, b), (a,), (s,))[1], 2 * a * b * s)


def test_a_tangent_that_is_missing_is_zeros_or_none():
    seen = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx, a, n, b):
            ctx.set_materialize_grads(n == 2)
            return a * n, b + 1, n

        @staticmethod
        def jvp(ctx, a, n, b):
            seen.append((n, None if b is None else b.tolist()))
            return a, b, None

    for n in (2, 3):
        with dual_level():
            first, second, third = Mixed.apply(make_dual(numbers(2), numbers(2)), n, numbers(2))
            close(unpack_dual(first).tangent, numbers(2))
            assert third == n
            assert (unpack_dual(second).tangent is None) == (n == 3)
    assert seen == [(None, [0, 0]), (None, None)]


class Doubled(Function):
    """In place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(2)


def test_a_function_that_writes_in_place():
    with dual_level():
        dual = make_dual(numbers(3), numbers(3, seed=1))
        whole = dual * 1
        made = Doubled.apply(whole)
        assert made is whole
        close(unpack_dual(made).tangent, 2 * numbers(3, seed=1))
        close(unpack_dual(made).primal, 2 * numbers(3))


def test_tangents_of_a_function_are_recorded():
    x, t = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

        @staticmethod
        def jvp(ctx, t):
            return 2 * ctx.saved_tensors[0] * t

    with dual_level():
        value, slope = unpack_dual(Square.apply(make_dual(x, t)))
        close(torch.autograd.grad(slope.sum(), (x, t), retain_graph=True)[0], 2 * t.detach())
        close(torch.autograd.grad(value.sum(), x)[0], 2 * x.detach())


def function(**methods):
    """A Function ``x * 2`` with these methods and attributes."""
    base = {"forward": staticmethod(lambda x: x * 2), "setup_context": staticmethod(lambda ctx, inputs, output: None)}
    return type("Made", (Function,), {**base, **{k: staticmethod(v) if callable(v) else v for k, v in methods.items()}})


@pytest.mark.parametrize(
    ("methods", "transform", "error", "words"),
    [
        ({"forward": lambda ctx, x: x, "setup_context": Function.setup_context}, "jvp", RuntimeError, "must override the setup_context"),
        ({"forward": lambda ctx, x: x, "setup_context": Function.setup_context}, "vmap", RuntimeError, "must override the setup_context"),
        ({}, "jvp", NotImplementedError, "must implement the jvp function"),
        ({}, "vmap", RuntimeError, "does not have vmap support"),
        ({"generate_vmap_rule": True, "vmap": lambda *a: None}, "vmap", RuntimeError, "both generate_vmap_rule=True and an overridden"),
        ({"vmap": lambda info, dims, x: x}, "vmap", RuntimeError, "to have two returns"),
        ({"jvp": lambda ctx, t: (t, t)}, "jvp", RuntimeError, "invalid number of forward gradients .expected 1 but got 2"),
        ({"jvp": lambda ctx, t: 3}, "jvp", RuntimeError, "expected Variable or None .got int. for grad output 0"),
        ({"jvp": lambda ctx, t: t[:1]}, "jvp", RuntimeError, "different size than that of the original"),
        ({"forward": lambda x: x, "jvp": lambda ctx, t: t}, "jvp", RuntimeError, "view .or an input as-is. but the jvp is not"),
        ({"forward": lambda x: x.view(3, 1), "jvp": lambda ctx, t: t * 1}, "jvp", RuntimeError, "different size"),
        (
            {"forward": lambda x: x[1:], "jvp": lambda ctx, t: t[1:] * 1},
            "jvp",
            RuntimeError,
            "not returning a view of the given grad input",
        ),
        (
            {"setup_context": lambda ctx, inputs, output: ctx.mark_non_differentiable(output), "jvp": lambda ctx, t: t},
            "jvp",
            RuntimeError,
            "not a differentiable Tensor",
        ),
    ],
    ids=[*"context_jvp context_vmap jvp vmap both returns count number shape as_is view_shape view non_differentiable".split()],
)
def test_errors(methods, transform, error, words):
    made, x = function(**methods), numbers(3)
    with pytest.raises(error, match=words):
        jvp(made.apply, (x,), (x,)) if transform == "jvp" else vmap(made.apply)(x)


def test_in_place_without_writing_the_tangent_is_an_error():
    class Wrong(Doubled):
        @staticmethod
        def jvp(ctx, t):
            return t * 2

    with dual_level(), pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
        Wrong.apply(make_dual(numbers(3), numbers(3)) * 1)
