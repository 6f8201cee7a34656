"""``gradcheck`` and ``gradgradcheck`` accept right derivatives and find wrong ones."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import Function, gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError


def values(*shape):
    return (torch.rand(*shape, dtype=torch.float64) + 0.5).requires_grad_()


class Wrong(Function):
    """x * x with a derivative that is half as much again."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad * ctx.saved_tensors[0]


class WrongTwice(Function):
    """x ** 3, right once and wrong in the second derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x.detach()


fast_and_slow = pytest.mark.parametrize("fast_mode", [False, True])


@fast_and_slow
def test_right_derivatives(fast_mode):
    def compute(a, b):
        return a * b.exp(), (a / b).sum(0)

    assert gradcheck(compute, (values(2, 3), values(3)), fast_mode=fast_mode)
    assert gradgradcheck(compute, (values(2, 3), values(3)), fast_mode=fast_mode)
    assert gradgradcheck(compute, (values(2, 3), values(3)), gen_non_contig_grad_outputs=True, fast_mode=fast_mode)


@fast_and_slow
def test_wrong_derivative(fast_mode):
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, values(3), fast_mode=fast_mode)
    assert gradcheck(Wrong.apply, values(3), fast_mode=fast_mode, raise_exception=False) is False


@fast_and_slow
def test_wrong_second_derivative(fast_mode):
    assert gradcheck(WrongTwice.apply, values(3), fast_mode=fast_mode)
    with pytest.raises(GradcheckError):
        gradgradcheck(WrongTwice.apply, values(3), fast_mode=fast_mode)
    assert gradgradcheck(WrongTwice.apply, values(3), raise_exception=False, fast_mode=fast_mode) is False


@fast_and_slow
def test_complex_functions(fast_mode):
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(lambda z: z * z * (1 + 2j), z, fast_mode=fast_mode)
    assert gradcheck(lambda z: z * z.conj(), z, fast_mode=fast_mode)
    assert gradcheck(lambda z, x: z * x, (z, values(3)), fast_mode=fast_mode)
    assert gradgradcheck(lambda z: z * z * z, z, fast_mode=fast_mode)


def test_wrong_conjugate_is_found():
    class NoConjugate(Function):
        @staticmethod
        def forward(ctx, z):
            return z * 1j

        @staticmethod
        def backward(ctx, grad):
            return grad * 1j

    z = torch.randn(2, dtype=torch.complex128, requires_grad=True)
    with pytest.raises(GradcheckError, match="part of complex outputs only"):
        gradcheck(NoConjugate.apply, z)


def test_inputs_that_need_no_gradient_are_passed_along():
    assert gradcheck(lambda x, n, flag: x * n if flag else x, (values(2), 3.0, True))


def test_input_requirements():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, torch.ones(2))
    with pytest.warns(UserWarning, match="double precision"):
        assert gradcheck(lambda x: x * 2, torch.ones(2, requires_grad=True), eps=1e-2, atol=1e-2)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, torch.ones(1, dtype=torch.float64).expand(3).requires_grad_())


def test_inputs_are_left_unchanged():
    x = values(4)
    before, version = x.detach().clone(), x._version
    gradcheck(lambda v: v.exp(), x)
    assert torch.equal(x, before) and x._version == version


def test_output_that_forgot_its_dependence():
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, values(2))
    assert gradcheck(lambda x: x.detach() * 0, values(2))


def test_backward_that_ignores_the_gradient():
    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.full_like(grad, 2)

    with pytest.raises(GradcheckError):
        gradcheck(Constant.apply, values(2))


def test_backward_that_is_not_deterministic():
    class Drifting(Function):
        count = 0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            Drifting.count += 1
            return grad * (2 + 1e-7 * Drifting.count)

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Drifting.apply, values(2))
    assert gradcheck(Drifting.apply, values(2), nondet_tol=1e-4)


def test_backward_that_cannot_take_none():
    class NeedsBoth(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if g is None or h is None:
                given = g * 2 if h is None else h * 3
                return given if given.any() else torch.ones(2, dtype=torch.float64)
            return g * 2 + h * 3

    with pytest.raises(GradcheckError, match="undefined"):
        gradcheck(NeedsBoth.apply, values(2))
    assert gradcheck(NeedsBoth.apply, values(2), check_undefined_grad=False)


class WrongTangent(Function):
    """A square, whose tangents are too large by half."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent * ctx.saved_tensors[0]


@pytest.mark.parametrize("fast_mode", [False, True])
def test_forward_mode(fast_mode):
    options = {"check_forward_ad": True, "check_batched_forward_grad": True, "check_grad_dtypes": True, "fast_mode": fast_mode}
    x, y = (torch.rand(3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert gradcheck(lambda x, y: (x @ y.t(), x.sin() * y), (x, y), **options)
    z = torch.rand(2, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(lambda z: z * z.exp() + z.abs(), z, **options)
    assert gradcheck(lambda x: x.cumprod(0), x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast_mode)
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0 with respect to input 0"):
        gradcheck(WrongTangent.apply, values(3), check_forward_ad=True, fast_mode=fast_mode)
    assert gradcheck(WrongTangent.apply, values(3), fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_derivatives_over_a_batch_and_forward_over_reverse(fast_mode):
    def function(x, z):
        return x.sin() * x.cumprod(0), z * z.exp()

    inputs = values(3), torch.rand(2, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(function, inputs, check_batched_grad=True, fast_mode=fast_mode)
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True, check_rev_over_rev=False, check_batched_grad=False, fast_mode=fast_mode)
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True, check_batched_grad=True, fast_mode=fast_mode)
    assert gradcheck(WrongTangent.apply, values(3), check_batched_grad=True, fast_mode=fast_mode)


def test_a_backward_pass_without_a_batch_of_gradients_is_told():
    class Reads(WrongTangent):
        generate_vmap_rule = False

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0] * (1 if grad.sum().item() else 0)

    with pytest.raises(GradcheckError, match="batched gradient computation"):
        gradcheck(Reads.apply, values(3), check_batched_grad=True)


def test_tangents_that_are_not_linear():
    class Shifted(WrongTangent):
        @staticmethod
        def jvp(ctx, tangent):
            return 2 * tangent * ctx.saved_tensors[0] + 1e-7

    with pytest.raises(GradcheckError, match="forward grads"):
        gradcheck(Shifted.apply, values(3), check_forward_ad=True)


@pytest.mark.parametrize(
    "options",
    [
        {"check_backward_ad": False},
        {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        {"check_batched_forward_grad": True},
    ],
    ids=["neither", "batched", "batched forward"],
)
def test_modes_that_are_not_checked(options):
    with pytest.raises(AssertionError, match="to be True"):
        gradcheck(lambda x: x, values(2), **options)


def test_strided_and_empty_and_scalar_inputs():
    x = torch.rand(3, 2, dtype=torch.float64).t().requires_grad_()
    assert gradcheck(lambda v: v.exp().sum(0), x)
    assert gradcheck(lambda v: v * 2, values(0, 3))
    assert gradcheck(lambda v: v * v, torch.tensor(1.5, dtype=torch.float64, requires_grad=True))
