"""Values at the edges of what numbers can hold: matrices with infinities, integers near overflow, roundings on the way to narrow dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau as torch

NAN, INF = float("nan"), float("inf")


def outcome(library: Any, program: Any) -> Any:
    """The program's values, or the type of its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = program(library)
        except Exception as error:
            return type(error).__name__
    return str(result.dtype), tuple(result.shape), repr(result.tolist())


def matrix(library: Any, kind: str, bad: float, n: int, dtype: str, batched: bool) -> Any:
    values = library.ones(n, n, dtype=getattr(library, dtype)) + 4 * library.eye(n, dtype=getattr(library, dtype))
    if kind == "all":
        values[:] = bad
    elif kind == "corner":
        values[0, 0] = bad
    else:
        values[-1, 0] = values[0, -1] = bad
    return library.stack([library.eye(n, dtype=values.dtype), values]) if batched else values


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 40])
@pytest.mark.oracle
def test_singular_values_of_matrices_that_are_not_finite(n: int, dtype: str) -> None:
    theirs = pytorch()
    for kind in ("all", "corner", "edges"):
        for bad in (NAN, INF, -INF):
            for batched in (False, True):
                for name in ("svdvals", "matrix_rank"):

                    def program(library: Any, name: str = name, given: Any = (kind, bad, n, dtype, batched)) -> Any:
                        return getattr(library.linalg, name)(matrix(library, *given))

                    assert outcome(torch, program) == outcome(theirs, program), (name, kind, bad, batched)


def test_infinities_give_nan_and_nan_is_an_error() -> None:
    """In three rows or more; what LAPACK's iterations make of them is chance, and some never end."""
    for n in (1, 2, 3, 5, 40):
        infinite = matrix(torch, "corner", INF, n, "float64", True)
        for values in (torch.linalg.eigvalsh(infinite), torch.linalg.eigh(infinite)[0], torch.linalg.svd(infinite)[1]):
            assert torch.isfinite(values[0]).all() and not torch.isfinite(values[1]).any()
        assert torch.linalg.matrix_rank(infinite).tolist() == [n, 0]
        missing = matrix(torch, "corner", NAN, n, "float64", True)
        with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
            torch.linalg.svdvals(missing)
        if n > 2:
            with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
                torch.linalg.eigvalsh(missing)
    unread = torch.tensor([[2.0, NAN, INF], [0.0, 1.0, NAN], [0.0, 0.0, 3.0]])
    assert torch.linalg.eigvalsh(unread).tolist() == [1.0, 2.0, 3.0]


def test_the_factor_of_an_infinite_matrix_has_no_second_pivot() -> None:
    for dtype in (torch.float32, torch.float64, torch.complex128):
        for upper in (False, True):
            infinite = torch.full((2, 2), INF, dtype=dtype)
            assert torch.linalg.cholesky_ex(infinite, upper=upper)[1].item() == 2
            with pytest.raises(torch.linalg.LinAlgError, match="leading minor of order 2"):
                torch.linalg.cholesky(infinite, upper=upper)


def doubly_rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(np.float16)


def test_float64_becomes_float16_by_way_of_float32() -> None:
    rng = np.random.default_rng(0)
    halves = rng.uniform(-2, 2, 40_000).astype(np.float16)
    between = halves.astype(np.float64) + np.spacing(np.abs(halves)).astype(np.float64) / 2 + rng.choice([1e-12, -1e-12, 1e-9], 40_000)
    want = doubly_rounded(between)
    assert (want != between.astype(np.float16)).any()
    double, target = torch.from_numpy(between), torch.zeros(40_000, dtype=torch.float16)
    np.testing.assert_array_equal(double.to(torch.float16).numpy(), want)
    np.testing.assert_array_equal(target.clone().copy_(double).numpy(), want)
    np.testing.assert_array_equal(target.clone().add_(double).numpy(), want)
    few = between[:50].tolist()
    np.testing.assert_array_equal(torch.tensor(few, dtype=torch.float16).numpy(), want[:50])
    for value, rounded in zip(few, want, strict=False):
        assert torch.full((), value, dtype=torch.float16).item() == rounded == target[:1].clone().fill_(value).item()
    pairs = torch.view_as_real(torch.complex(double, double).to(torch.complex32))
    np.testing.assert_array_equal(pairs.numpy(), np.stack([want, want], -1))


INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
DIVISIONS = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "fmod": lambda a, b: a.fmod(b),
    "div trunc": lambda a, b: a.div(b, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("division", DIVISIONS.values(), ids=DIVISIONS.keys())
def test_nothing_is_divided_by_zero(name: str, division: Any) -> None:
    dtype = getattr(torch, name)
    for divisor in (0, torch.zeros(3, dtype=dtype), torch.zeros((), dtype=dtype)):
        result = division(torch.empty(0, 3, dtype=dtype), divisor)
        assert result.shape == (0, 3) and result.dtype is dtype
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            division(torch.ones(2, 3, dtype=dtype), divisor)


def test_products_of_bools_where_nothing_is_multiplied() -> None:
    def zeros(*shape: int) -> Any:
        return torch.zeros(shape, dtype=torch.bool)

    assert (zeros(0, 3) @ zeros(3, 0)).shape == (0, 0) and not (zeros(2, 0) @ zeros(0, 2)).any()
    assert (zeros(2, 3, 0) @ zeros(2, 0, 3)).shape == (2, 3, 3) and (zeros(2, 0) @ zeros(0)).tolist() == [False, False]
    for a, b in ((zeros(2, 3), zeros(3, 2)), (zeros(0), zeros(0)), (zeros(2), zeros(2))):
        with pytest.raises(NotImplementedError, match="Bool"):
            a @ b


@pytest.mark.oracle
def test_least_common_multiples_wrap_around_as_in_c() -> None:
    theirs, rng = pytorch(), np.random.default_rng(0)
    for name in INTEGERS:
        limits = np.iinfo(name)
        a, b = rng.integers(limits.min + 1, limits.max, (2, 2000), dtype=name, endpoint=True)
        want = theirs.lcm(theirs.from_numpy(a), theirs.from_numpy(b)).numpy()
        np.testing.assert_array_equal(torch.lcm(torch.from_numpy(a), torch.from_numpy(b)).numpy(), want, err_msg=name)


def test_powers_of_two_are_what_an_exponent_alone_can_hold() -> None:
    """Zero is the least of them, and a sign is lost."""
    values = torch.tensor([0.0, -0.0, 1.0, 0.5, 3.0, -3.0, 1e-45, INF, NAN])
    bits = [0, 0, 127, 126, 129, 129, 0, 255, 255]
    for source in (values, values.double()):
        assert source.to(torch.float8_e8m0fnu).view(torch.uint8).tolist() == bits
    assert torch.tensor([0, 1, 2, 3]).to(torch.float8_e8m0fnu).view(torch.uint8).tolist() == [0, 127, 128, 129]


def test_exponents_fit_the_dtype_of_the_base() -> None:
    for name, exponent in (("uint8", 300), ("int8", 128), ("int16", 1 << 15)):
        with pytest.raises(RuntimeError, match=f"type {name}_t without overflow"):
            torch.tensor([2, 3], dtype=getattr(torch, name)) ** exponent


def test_bools_have_no_median() -> None:
    given = torch.tensor([[True, False, True]])
    for program in (given.median, given.nanmedian, lambda: given.median(1), lambda: given.nanmedian(1)):
        with pytest.raises(NotImplementedError, match="Bool"):
            program()
    assert given.mode(1).values.tolist() == [True]


def test_a_class_may_get_its_handler_late() -> None:
    class Late(torch.Tensor):
        pass

    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(Late, (2, 3))
    Late.__torch_dispatch__ = classmethod(lambda cls, func, types, args=(), kwargs=None: torch.zeros(1))  # type: ignore[attr-defined]
    made = torch.Tensor._make_wrapper_subclass(Late, (2, 3))
    assert type(made) is Late and made.shape == (2, 3) and (made + 1).shape == (1,)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.oracle
def test_losses_promote_what_they_have_broadcast(name: str) -> None:
    """A number in a tensor counts as one with dimensions then; a Huber loss has its input's dtype."""
    dtypes = ("float16", "bfloat16", "float32", "float64")
    for first in dtypes:
        for second in dtypes:
            for shapes in (((3,), ()), ((), (3,)), ((3,), (3,)), ((), ())):
                for reduction in ("none", "mean"):

                    def program(library: Any, given: Any = (first, second, shapes, reduction)) -> Any:
                        a, b, (left, right), reduction = given
                        operands = library.ones(left, dtype=getattr(library, a)), library.full(right, 0.5, dtype=getattr(library, b))
                        return getattr(library.nn.functional, name)(*operands, reduction=reduction)

                    assert outcome(torch, program) == outcome(pytorch(), program), (first, second, shapes, reduction)


@pytest.mark.oracle
def test_casts_between_all_narrow_dtypes() -> None:
    narrow = [f"float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")]
    values = [0.0, 0.4, 1.5, 3.0, 300.0, 1000.0, 1e5, -2.0, INF, NAN]
    for first in narrow:
        for second in (*narrow, "float16", "bfloat16", "float64", "complex64"):

            def program(library: Any, first: str = first, second: str = second) -> Any:
                return library.tensor(values).to(getattr(library, first)).to(getattr(library, second)).to(library.float32)

            assert outcome(torch, program) == outcome(pytorch(), program), (first, second)

        def product(library: Any, first: str = first) -> Any:
            kind = getattr(library, first)
            a, b = library.tensor([[1.0, 1.9, 300.0, -300.0, 0.01, 448.0], [300.0, 2.0, 2.0, 3.0, 0.01, 448.0]]).to(kind)
            return (a * b).to(library.float32)

        assert outcome(torch, product) == outcome(pytorch(), product), first


def test_small_faults_that_random_programs_found() -> None:
    ones = torch.ones_like(torch.ones(1, dtype=torch.complex32))
    assert ones.dtype is torch.complex32 and ones.to(torch.complex64).tolist() == [1]
    with pytest.raises(RuntimeError, match="floating point"):
        torch.nn.functional.cosine_similarity(torch.ones(2, 3, dtype=torch.complex64), torch.ones(2, 3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="dtype"):
        torch.lerp(torch.ones(3, dtype=torch.float64), torch.ones(3), 0.3)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.nn.functional.soft_margin_loss(torch.ones(1), torch.ones(2))
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        torch.nn.functional.instance_norm(torch.ones(3))
    assert torch.median(torch.empty(0, dtype=torch.bool)).item() is True
    x = torch.tensor([1.0, NAN, 2.0], requires_grad=True)
    for program in (torch.amax, torch.amin, lambda x: torch.aminmax(x).max):
        assert torch.autograd.grad(program(x), x)[0].isnan().all()


@pytest.mark.oracle
@pytest.mark.parametrize("target", ["bool", "uint8", "int64", "float16", "float32", "complex64"])
@pytest.mark.parametrize("given", ["bool", "uint8", "int64", "float16", "float32", "complex64"])
def test_losses_of_any_two_dtypes_are_given_or_refused(given: str, target: str) -> None:
    theirs = pytorch()
    pointwise = ("huber_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss")
    for name in (*pointwise, "binary_cross_entropy", "binary_cross_entropy_with_logits"):
        for reduction in ("none", "mean"):

            def program(library: Any, name: str = name, reduction: str = reduction) -> Any:
                x, y = (library.ones(3, dtype=getattr(library, dtype)) for dtype in (given, target))
                return getattr(library.nn.functional, name)(x, y, reduction=reduction)

            ours, wanted = outcome(torch, program), outcome(theirs, program)
            if isinstance(wanted, str):
                assert ours == wanted, (name, reduction)
            else:
                assert ours[:2] == wanted[:2], (name, reduction)  # dtype and shape


@pytest.mark.oracle
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_windows_of_no_elements_are_refused(ndim: int) -> None:
    theirs = pytorch()
    for name in (f"conv{ndim}d", f"conv_transpose{ndim}d"):

        def program(library: Any, name: str = name) -> Any:
            return getattr(library.nn.functional, name)(library.ones(1, 2, *[4] * ndim), library.ones(2, 2, 0, *[2] * (ndim - 1)))

        assert outcome(torch, program) == outcome(theirs, program) == "RuntimeError"


CORNERS = (0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 200.0, 2.5)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logarithms_of_sums_of_complex_exponentials(dtype: str, of_pytorch: Callable[..., Any]) -> None:
    """Infinite and missing parts, and equal real parts, of which either number could be the larger."""
    corners = [complex(real, imaginary) for real in CORNERS for imaginary in (0.0, -0.0, 2.5, INF, NAN)]

    def values(library: Any, name: str) -> Any:
        x = library.tensor(corners, dtype=getattr(library, dtype))
        pairs = [side.reshape(-1) for side in library.meshgrid(x, x, indexing="ij")]
        result = library.logaddexp(*pairs) if name == "logaddexp" else library.logcumsumexp(library.stack(pairs), 0)
        return library.view_as_real(result)

    for name in ("logaddexp", "logcumsumexp"):
        want = of_pytorch(values, name).numpy()
        np.testing.assert_allclose(np.asarray(values(torch, name)), want, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_running_products_have_gradients_beside_zeros_and_infinities(dtype: str, of_pytorch: Callable[..., Any]) -> None:
    """No number behind a zero counts, nor what is not finite there."""
    rng = np.random.default_rng(0)
    cases = [
        (rng.choice([0.0, 2.0, -1.5, *bad], shape), rng.choice([1.0, 2.0, -1.0, 0.0], shape), dim)
        for shape in ((4,), (3, 5), (2, 3, 4))
        for bad in ((0.0,), (1.0,), (INF, NAN, 3.0), (INF, 0.0))
        for dim in range(len(shape))
    ]

    def gradients(library: Any) -> list[Any]:
        found = []
        for values, cotangent, dim in cases:
            x = library.tensor(values).to(getattr(library, dtype)).requires_grad_()
            gradient = library.autograd.grad(x.cumprod(dim), x, library.tensor(cotangent).to(x.dtype))[0]
            found.append(library.view_as_real(gradient) if gradient.is_complex() else gradient.float())
        return found

    for case, got, want in zip(cases, gradients(torch), of_pytorch(gradients), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, err_msg=str(case))


def test_derivatives_of_the_gradient_of_running_products_beside_zeros() -> None:
    """The gradient that masks what is behind a zero is none to be differentiated again."""
    x = torch.tensor([[1.0, 0.0, 2.0, 0.0], [3.0, 2.0, 1.0, 0.5], [0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)

    def total(x: Any) -> Any:
        return (x.cumprod(1) * torch.arange(12.0, dtype=torch.float64).reshape(3, 4)).sin().sum()

    assert torch.autograd.gradgradcheck(total, x.clone().requires_grad_())
    hessian = torch.autograd.functional.hessian(total, x)
    for again in (torch.func.hessian(total)(x), torch.func.jacfwd(torch.func.grad(total))(x)):
        torch.testing.assert_close(again, hessian)


def test_whole_parts_of_factors_of_integers() -> None:
    twos = torch.full((3,), 2, dtype=torch.int32)
    for value, want in ((0.5, 2), (1.5, 6), (-2.7, -6)):
        assert torch.addcmul(twos, twos, twos, value=value).tolist() == [want] * 3


COMPLEX_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid sinc abs angle sgn"
).split()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX_FUNCTIONS)
def test_complex_functions_have_all_their_digits_at_every_magnitude(name: str, dtype: str, of_pytorch: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((5, 2)) @ [1, 1j]
    near = np.concatenate([centre + numbers * size for centre in (0, 1, -1, 1j) for size in (1e-12, 1e-6, 1e-3, 0.1, 1, 5)])

    def values(library: Any) -> Any:
        result = getattr(library, name)(library.tensor(near).to(getattr(library, dtype)))
        return library.view_as_real(result) if result.is_complex() else result

    got, want = (result.numpy().astype(np.float64) for result in (values(torch), of_pytorch(values)))
    pairs = [result.reshape(len(near), -1) @ ([1, 1j] if result.ndim == 2 else [1]) for result in (got, want)]
    off = np.abs(pairs[0] - pairs[1]) / np.abs(pairs[1])
    bound = 1e-9 if (name, dtype) == ("acos", "complex128") else 32 * np.finfo(dtype).eps  # PyTorch's has half of its digits near 1
    assert off.max() <= bound, (off.max(), near[off.argmax()])


def test_differences_may_be_absolute_alone() -> None:
    x, y = torch.tensor([1.0, 1.0, INF, NAN]), torch.tensor([1.05, 1.2, INF, NAN])
    assert torch.isclose(x, y, rtol=0, atol=0.1).tolist() == [True, False, True, False]
    assert torch.isclose(x, y, rtol=0, atol=0, equal_nan=True).tolist() == [False, False, True, True]
    assert torch.isclose(x, y, rtol=0.1, atol=0).tolist() == [True, False, True, False]


def test_derivatives_of_digamma_in_place() -> None:
    x = torch.tensor([1.5, 2.5])
    y = x.polygamma(2)
    assert x.polygamma_(2) is x
    assert x.tolist() == y.tolist() == torch.special.polygamma(2, torch.tensor([1.5, 2.5])).tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_rows_that_are_looked_up_often_are_added_up_in_float32(dtype: torch.dtype) -> None:
    table = torch.zeros(3, 2, dtype=dtype, requires_grad=True)
    torch.nn.functional.embedding(torch.ones(5000, dtype=torch.int64), table).sum().backward()
    assert table.grad[1].tolist() == torch.tensor([5000.0, 5000.0], dtype=dtype).tolist()
    assert not table.grad[0].any()


@pytest.mark.parametrize("make", [torch.zeros, torch.ones])
def test_negative_sizes_are_refused_however_they_are_given(make: Any) -> None:
    for call in (lambda: make(-1), lambda: make(2, -1), lambda: make((2, -1)), lambda: make(size=(-1,))):
        with pytest.raises(RuntimeError, match="non-negative"):
            call()
