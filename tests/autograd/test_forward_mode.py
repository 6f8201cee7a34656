"""Forward-mode differentiation: ``autograd.forward_ad`` and ``func.jvp``."""

from __future__ import annotations

import warnings

import pytest
from oracle import pytorch

import flambeau as torch
from flambeau.autograd import forward_ad
from flambeau.autograd.forward_ad import dual_level, make_dual, unpack_dual
from flambeau.func import jvp


def numbers(*shape, dtype=torch.float64, seed=0):
    return torch.rand(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape))) + 0.5


def close(a, b):
    assert a.dtype is b.dtype
    torch.testing.assert_close(a, b)


def by_differences(function, x, t, step=1e-6):
    return (function(x + step * t) - function(x - step * t)) / (2 * step)


def check(function, x, t, tolerance=1e-6):
    """The tangent against differences; that of the tangent too, by jvp in jvp."""
    value, slope = jvp(function, (x,), (t,))
    close(value, function(x))
    torch.testing.assert_close(slope, by_differences(function, x, t), rtol=tolerance, atol=tolerance)
    bend = jvp(lambda y: jvp(function, (y,), (t,))[1], (x,), (t,))[1]
    torch.testing.assert_close(bend, by_differences(lambda y: jvp(function, (y,), (t,))[1], x, t), rtol=tolerance, atol=tolerance)


# -- dual tensors -----------------------------------------------------------------------------------------------------------
def test_a_dual_tensor_is_unpacked_and_loses_its_tangent_with_the_level():
    x, t = numbers(3), numbers(3, seed=1)
    with dual_level():
        dual = make_dual(x, t)
        assert isinstance(dual, torch.Tensor)
        assert unpack_dual(dual).tangent.equal(t)
        product = dual * dual
        close(unpack_dual(product).tangent, 2 * x * t)
        assert unpack_dual(x) == (x, None)
    assert type(product) is torch.Tensor
    close(product, x * x)
    assert unpack_dual(product).tangent is None
    close(product.mul_(2), 2 * x * x)


def test_a_dual_tensor_shows_the_memory_of_both():
    x, t = numbers(3), numbers(3, seed=1)
    with dual_level():
        make_dual(x, t).mul_(2)
    close(x, 2 * (numbers(3)))
    close(t, 2 * numbers(3, seed=1))


def test_the_tangent_is_laid_out_as_the_value():
    x, t = numbers(2, 3).t(), numbers(3, 2)
    with dual_level():
        dual = make_dual(x, t)
        assert unpack_dual(dual).tangent.stride() == x.stride()
        close(unpack_dual(dual.t().view(6)).tangent, t.t().reshape(6))


def test_levels_do_not_nest_and_end_in_order():
    with pytest.raises(RuntimeError, match="no level exists"):
        make_dual(numbers(1), numbers(1))
    with dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        forward_ad.exit_dual_level()
    assert forward_ad.enter_dual_level() == 0
    forward_ad.exit_dual_level()


@pytest.mark.parametrize(
    ("tensor", "tangent", "error", "words"),
    [
        (torch.ones(3), torch.ones(2), RuntimeError, "different size"),
        (torch.ones(3, dtype=torch.int64), torch.ones(3), ValueError, "Expected primal to be floating point or complex"),
        (torch.ones(3), torch.ones(3, dtype=torch.bool), ValueError, "Expected tangent to be floating point or complex"),
    ],
    ids=["shape", "primal", "tangent"],
)
def test_what_cannot_be_dual(tensor, tangent, error, words):
    with dual_level(), pytest.raises(error, match=words):
        make_dual(tensor, tangent)
    with pytest.raises(error, match=words):
        jvp(torch.neg, (tensor,), (tangent,))


def test_a_dual_tensor_takes_no_second_tangent():
    with dual_level():
        dual = make_dual(numbers(2), numbers(2))
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            make_dual(dual, numbers(2))
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            make_dual(numbers(2), dual)


def test_a_decorated_function_runs_in_a_level_of_its_own():
    @dual_level()
    def slope(x):
        return unpack_dual(make_dual(x, torch.ones_like(x)).sin()).tangent

    x = numbers(3)
    close(slope(x), x.cos())


def test_tangents_go_on_without_grad_and_not_in_inference_mode():
    x, t = numbers(3), numbers(3, seed=1)
    with dual_level():
        dual = make_dual(x, t)
        with torch.no_grad():
            close(unpack_dual(dual.cumprod(0)).tangent, jvp(lambda y: y.cumprod(0), (x,), (t,))[1])
        with torch.inference_mode():
            assert unpack_dual(dual * 2).tangent is None
        with forward_ad._set_fwd_grad_enabled(False):
            assert unpack_dual(dual * 2).tangent is None
    with torch.inference_mode():
        close(jvp(lambda y: y.cumprod(0), (numbers(3),), (t,))[1].clone(), jvp(lambda y: y.cumprod(0), (x,), (t,))[1])


# -- ways ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sin() * x,
        lambda x: x @ x.exp(),
        lambda x: x.cumprod(0).sum(1),
        lambda x: torch.softmax(x, 1) * torch.log_softmax(x, 0),
        lambda x: torch.nn.functional.layer_norm(x, (3,), eps=0.1),
        lambda x: (x * x).sort(0, descending=True)[0] * x.max(1, keepdim=True)[0],
        lambda x: torch.linalg.inv(x + 3 * torch.eye(3, dtype=x.dtype)),
        lambda x: x.reshape(9)[1:7:2].unflatten(0, (3, 1)).expand(3, 2) ** 2,
        lambda x: torch.logcumsumexp(x, 1) + x.logsumexp(0) * x.std(),
        lambda x: torch.stack([x, x * x]).prod(0).masked_fill(x > 1, 0.5),
        lambda x: torch.nn.functional.conv1d(x.unsqueeze(0), x.unsqueeze(1)[:, :, :2], x[0], groups=3),
        lambda x: torch.addmm(x, x, x, beta=0.5, alpha=2) + torch.einsum("ij,kj->ik", x, x.t()),
    ],
    ids=[*"elementwise bilinear two_passes softmax layer_norm selects inv views reduces prod conv addmm".split()],
)
def test_first_and_second_derivatives(function):
    check(function, numbers(3, 3), numbers(3, 3, seed=5))


def test_complex_numbers():
    x, t = numbers(2, 3, dtype=torch.complex128), numbers(2, 3, dtype=torch.complex128, seed=1)
    for function in (
        lambda z: z * z.exp() / z.sin(),
        lambda z: z.abs() * z.angle(),
        lambda z: torch.view_as_real(z).prod(-1),
        lambda z: z.conj() @ z.t(),
        lambda z: z.prod(0) + z.real.sum(0),
        lambda z: torch.fft.fft(z).sgn(),
        lambda z: torch.complex(z.real, z.imag * z.real),
        lambda z: torch.linalg.vector_norm(z, 3),
    ):
        value, slope = jvp(function, (x,), (t,))
        torch.testing.assert_close(slope, by_differences(function, x, t), rtol=1e-6, atol=1e-6)
        assert slope.dtype is value.dtype


def test_a_rule_that_sums_is_no_rule_for_tangents():
    x, fill = numbers(4), numbers()
    mask = torch.tensor([True, False, True, True])
    close(jvp(lambda v: x.masked_fill(mask, v), (fill,), (numbers(),))[1], mask * numbers())


def test_operations_without_derivative_say_so():
    x = numbers(3)
    with pytest.raises(NotImplementedError, match="forward AD with bessel_j0"):
        jvp(torch.special.bessel_j0, (x,), (x,))
    value, slope = jvp(lambda y: y > 1, (x,), (x,))
    assert value.dtype is slope.dtype is torch.bool
    assert not slope.any()


def test_operations_without_random_numbers_of_their_own_are_not_drawn_twice():
    x, t = torch.ones(100), torch.ones(100)
    torch.manual_seed(3)
    value, slope = jvp(lambda y: torch.nn.functional.dropout(y, 0.5), (x,), (t,))
    assert value.equal(slope)
    torch.manual_seed(3)
    assert torch.nn.functional.dropout(x, 0.5).equal(value)


def test_running_moments_move_once_and_have_no_tangent():
    x, t = numbers(5, 2, dtype=torch.float32), numbers(5, 2, dtype=torch.float32, seed=1)
    norm, other = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    other(x)
    with dual_level():
        norm(make_dual(x, t))
        assert unpack_dual(norm.running_mean).tangent is None
    torch.testing.assert_close(norm.running_mean, other.running_mean)
    torch.testing.assert_close(norm.running_var, other.running_var)


# -- in place -------------------------------------------------------------------------------------------------------------------
def test_writes_reach_the_tangent_through_views_and_back():
    x, t = numbers(3, 2), numbers(3, 2, seed=1)

    def function(y):
        y = y.clone()
        row = y[1]
        row.mul_(y[0])
        y.t()[0].sin_()
        y[2] = row * 2
        row[0] = 3
        return y * row

    check(function, x, t)


def test_a_tensor_without_a_tangent_takes_one_with_its_views():
    x, t = numbers(3), numbers(3, seed=1)
    with dual_level():
        whole = torch.zeros(3, 2, dtype=torch.float64)
        column, last = whole[:, 0], whole[2]
        column.copy_(make_dual(x, t))
        close(unpack_dual(whole).tangent, torch.stack([t, 0 * t], 1))
        close(unpack_dual(last * 2).tangent, torch.stack([2 * t[2], 0 * t[2]]))
        whole[0, 1] = make_dual(x, t)[2]
    assert type(whole) is type(column) is type(last) is torch.Tensor
    last.fill_(7)
    assert whole[2].tolist() == [7, 7]
    assert column[2].item() == 7


def test_buffers_are_filled_inside_a_transform():
    def function(y):
        made = torch.zeros(3, dtype=torch.float64)
        for i in range(3):
            made[i] = y[i] * y[2 - i]
        made += y
        return made

    check(function, numbers(3), numbers(3, seed=1))


def test_forms_that_write_in_place_by_an_argument_or_by_index():
    x, t = numbers(3, 2), numbers(3, 2, seed=1)

    def function(y):
        z = y.clone()
        torch.nn.functional.silu(z, inplace=True)
        z.index_put_((torch.tensor([1, 1]),), y[:2], accumulate=True)
        z[0, 0].normal_()
        z[0, 0] = 0
        return z * z.as_strided_((3, 2), (2, 1))

    check(function, x, t)
    with dual_level():
        dual = make_dual(x, t).clone()
        for fill in (dual.normal_, dual.uniform_, dual.exponential_, dual.zero_):
            assert fill() is dual
            assert not unpack_dual(dual).tangent.any()
            dual.copy_(make_dual(x, t))


def test_a_leaf_that_requires_grad_takes_no_tangent_in_place():
    leaf = numbers(2).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        jvp(lambda y: leaf.add_(y), (numbers(2),), (numbers(2),))
    assert type(leaf) is torch.Tensor


def test_an_integer_tensor_takes_the_value_only():
    def function(y):
        made = torch.zeros(2, dtype=torch.int64)
        made.copy_(y * 10)
        return made

    value, slope = jvp(function, (torch.tensor([0.3, 0.5]),), (torch.ones(2),))
    assert value.tolist() == [3, 5]
    assert slope.tolist() == [0, 0]


# -- with reverse mode --------------------------------------------------------------------------------------------------------------
def test_tangents_are_recorded():
    x, t = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()
    slope = jvp(lambda y: y.sin().cumprod(0), (x,), (t,))[1].sum()
    got = torch.autograd.grad(slope, (x, t))
    _, wanted = torch.autograd.functional.vjp(lambda a, b: jvp(lambda y: y.sin().cumprod(0), (a,), (b,))[1].sum(), (x, t))
    for a, b in zip(got, wanted, strict=True):
        close(a, b)
    close(got[1], torch.autograd.grad(x.sin().cumprod(0).sum(), x)[0])


def test_nothing_is_recorded_for_what_requires_no_grad():
    value, slope = jvp(lambda y: y.cumprod(0), (numbers(3),), (numbers(3),))
    assert not value.requires_grad
    assert not slope.requires_grad
    assert value.is_leaf


def test_backward_passes_through_dual_tensors():
    x, t = numbers(3).requires_grad_(), numbers(3, seed=1)
    with dual_level():
        dual = make_dual(x, t)
        gradient, tangent = unpack_dual(torch.autograd.grad((dual**3).sum(), dual)[0])
        close(gradient, 3 * x.detach() ** 2)
        close(tangent, 6 * x.detach() * t)
        (dual**3).sum().backward()
        close(x.grad, gradient)
    with pytest.raises(RuntimeError, match="inside a functorch transform"):
        jvp(lambda y: y.sum().backward(), (x,), (t,))


def test_inner_and_outer_perturbations_stay_apart():
    def inner(x):
        return jvp(lambda y: x * y, (torch.ones((), dtype=torch.float64),), (torch.ones((), dtype=torch.float64),))[1]

    x = torch.tensor(3.0, dtype=torch.float64)
    assert jvp(lambda y: y * inner(y), (x,), (torch.ones_like(x),))[1].item() == 6  # d(x * d(x y)/dy)/dx = 2 x


# -- jvp --------------------------------------------------------------------------------------------------------------------------
def test_trees_and_aux():
    x, t = numbers(2), numbers(2, seed=1)
    (value, slope), extra = jvp(lambda p, q: ({"a": p["x"] * q}, q), ({"x": x}, x), ({"x": t}, t), has_aux=True)[:2], None
    close(value["a"], x * x)
    close(slope["a"], 2 * x * t)
    extra = jvp(lambda p: (p, p * 2), (x,), (t,), has_aux=True)[2]
    assert unpack_dual(extra).tangent is None
    close(extra, 2 * x)


@pytest.mark.parametrize(
    ("function", "primals", "tangents", "options", "words"),
    [
        (torch.neg, torch.ones(1), (torch.ones(1),), {}, "Expected primals to be a tuple"),
        (torch.neg, (torch.ones(1),), (torch.ones(1), torch.ones(1)), {}, "same python structure"),
        (torch.neg, (), (), {}, "contain at least one Tensor"),
        (torch.neg, (3,), (torch.ones(1),), {}, "Expected primals to only contain Tensors"),
        (lambda x: 3, (torch.ones(1),), (torch.ones(1),), {}, "return only tensors"),
        (lambda x: torch.ones(1), (torch.ones(1),), (torch.ones(1),), {"strict": True}, "independent of the inputs"),
        (torch.neg, (torch.ones(1),), (torch.ones(1),), {"has_aux": True}, "should be a tuple: .output, aux."),
        (lambda x: x.requires_grad_(), (torch.ones(1),), (torch.ones(1),), {}, "Tensor.requires_grad_"),
    ],
    ids=[*"tuple structure empty number output strict aux requires_grad".split()],
)
def test_errors(function, primals, tangents, options, words):
    with pytest.raises(RuntimeError, match=words):
        jvp(function, primals, tangents, **options)


def test_a_word_that_is_none():
    from flambeau.core.calls.registry import op

    with pytest.raises(TypeError, match="forward='liner'; the words are linear, "):
        op(grad=None, forward="liner")(lambda input: input)


# -- PyTorch's database -------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
@pytest.mark.parametrize("part", range(3))
def test_database(part):
    """A few operations of each kind; ``python -m tests.programs.forward_operations`` takes all."""
    pytorch()
    pytest.importorskip("expecttest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import forward_operations as program

        oracle = pytorch()

        names = list(program.names([]))[part::20]
        for name in names:
            found = program.operation(name, 1, dtypes=(oracle.complex128 if part else oracle.float64,))
            assert not found.counts[program.WRONG], found.notes
