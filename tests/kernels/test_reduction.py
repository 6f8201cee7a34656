"""Native reductions give what the reference kernels give, and the same bits for any number of threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.tensor import wrap
from flambeau.kernels import FAMILIES

from .guard import guarded

reduction = pytest.importorskip("flambeau.kernels.families.reduction")
pool = pytest.importorskip("flambeau.kernels.compiler.pool").pool

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
NUMBERS = (*FLOATS, *INTEGERS)
# How far results may be from the reference's, in steps of the result's precision, relative to the sum of absolute values that went in.
STEPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}

Call = Callable[[Any, Any, bool], Any]
CASES: dict[str, tuple[tuple[str, ...], Call]] = {
    "sum": ((*NUMBERS, "bool"), lambda x, d, k: x.sum(d, k)),
    "nansum": ((*NUMBERS, "bool"), lambda x, d, k: x.nansum(d, k)),
    "mean": (FLOATS, lambda x, d, k: x.mean(d, k)),
    "var": (FLOATS, lambda x, d, k: x.var(d, correction=1, keepdim=k)),
    "std": (FLOATS, lambda x, d, k: x.std(d, correction=0, keepdim=k)),
    "amax": ((*NUMBERS, "bool"), lambda x, d, k: x.amax(() if d is None else d, k)),
    "amin": ((*NUMBERS, "bool"), lambda x, d, k: x.amin(() if d is None else d, k)),
    "any": ((*NUMBERS, "bool"), lambda x, d, k: x.any() if d is None else x.any(d, k)),
    "all": ((*NUMBERS, "bool"), lambda x, d, k: x.all() if d is None else x.all(d, k)),
    "count_nonzero": ((*NUMBERS, "bool"), lambda x, d, k: x.count_nonzero(d)),
    "logsumexp": (FLOATS, lambda x, d, k: x.logsumexp(tuple(range(x.ndim)) if d is None else d, k)),
    **{f"norm {p}": (FLOATS, lambda x, d, k, p=p: torch.linalg.vector_norm(x, p, d, k)) for p in (0, 1, 2, math.inf, -math.inf, 3, 0.5)},
}
ONE_DIM: dict[str, tuple[tuple[str, ...], Call]] = {
    "prod": ((*NUMBERS, "bool"), lambda x, d, k: x.prod() if d is None else x.prod(d, k)),
    "aminmax": (NUMBERS, lambda x, d, k: x.aminmax(dim=d, keepdim=k)),
    "argmax": (NUMBERS, lambda x, d, k: x.argmax(d, k)),
    "argmin": (NUMBERS, lambda x, d, k: x.argmin(d, k)),
    "max": (NUMBERS, lambda x, d, k: x.max() if d is None else x.max(d, k)),
    "min": (NUMBERS, lambda x, d, k: x.min() if d is None else x.min(d, k)),
}


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, str]:
    """Seed, shape, order and steps of dimensions, whether to leave an offset, and what values are like."""
    ndim = draw(st.integers(1, 4))
    shape = [draw(st.sampled_from((1, 2, 3, 5, 8, 15, 16, 17, 31, 40))) for _ in range(ndim)]
    longest = draw(st.integers(0, ndim - 1))
    shape[longest] = 1
    others = math.prod(shape)
    shape[longest] = -(-native.LARGE // others) + draw(st.sampled_from((0, 1, 2, 70_000 // others)))
    order = tuple(draw(st.permutations(range(ndim)))) if draw(st.booleans()) else tuple(range(ndim))
    steps = tuple(draw(st.sampled_from((1, 1, 1, 2))) for _ in range(ndim))
    kind = draw(st.sampled_from(("normal", "normal", "few", "special", "far")))
    return draw(st.integers(0, 2**32 - 1)), tuple(shape), order, steps, draw(st.booleans()), kind


def array_of(spec: tuple[Any, ...], dtype: str, near_one: bool) -> np.ndarray:
    seed, shape, order, steps, offset, kind = spec
    rng = np.random.default_rng(seed)
    full = tuple(n * step for n, step in zip(shape, steps, strict=True))
    size = math.prod(full) + offset
    kindless = numpy_dtype(dtype)
    if dtype == "bool":
        values = rng.random(size) < (0.9 if kind == "few" else 0.5)
    elif dtype in INTEGERS:
        info = np.iinfo(kindless)
        values = rng.integers(0, 2, size) if kind == "few" else rng.integers(info.min, info.max, size, endpoint=True, dtype=kindless)
    elif near_one:
        values = 1 + rng.standard_normal(size) / 1000
    else:
        values = rng.integers(-2, 3, size) if kind == "few" else rng.standard_normal(size) + (100 if kind == "far" else 0)
    flat = np.asarray(values).astype(kindless)
    if kind == "special" and dtype in FLOATS:
        flat[rng.integers(0, size, 3)] = (np.nan, np.inf, -np.inf)
    array = flat[offset:].reshape(full)[tuple(slice(None, None, step) for step in steps)]
    return array.transpose(order)


def as_list(result: Any) -> list[np.ndarray]:
    return [tensor._array for tensor in result] if isinstance(result, tuple) else [result._array]


def check(name: str, call: Call, array: np.ndarray, dim: Any, keepdim: bool) -> None:
    x = wrap(array)
    with np.errstate(over="ignore"):  # of float16
        got = as_list(call(x, dim, keepdim))
        with native.disabled():
            want = as_list(call(x, dim, keepdim))
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.flags.c_contiguous and b.flags.c_contiguous
        exact = name in ("amax", "amin", "any", "all", "count_nonzero", "aminmax", "argmax", "argmin", "max", "min")
        if exact or a.dtype.kind not in "fV":
            np.testing.assert_array_equal(*(values.astype(np.float64) if values.dtype.kind == "V" else values for values in (a, b)))
            continue
        wide = array.astype(np.float64)
        number = array.size / max(a.size, 1)
        size = np.nan_to_num(np.abs(wide), nan=0, posinf=0).max()
        scale = {
            "sum": number * size,
            "nansum": number * size,
            "var": size**2,
            "std": size,
            "logsumexp": size + 10,
            "prod": number**0.5,
        }.get(name, size)
        if name.startswith("norm"):
            scale = np.nan_to_num(np.abs(b.astype(np.float64)), nan=0, posinf=0).max() * 4 + size
        step = STEPS[a.dtype.name]
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=8 * step, atol=4 * step * scale)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@settings(max_examples=100)
@given(arrays(), st.data())
def test_same_as_reference_over_any_dimensions(spec: tuple[Any, ...], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    dtypes, call = CASES[name]
    dtype = data.draw(st.sampled_from(dtypes))
    array = array_of(spec, dtype, False)
    dim = data.draw(st.one_of(st.none(), st.lists(st.integers(0, array.ndim - 1), min_size=1, unique=True).map(tuple)))
    check(name, call, array, dim, data.draw(st.booleans()))


@settings(max_examples=80)
@given(arrays(), st.data())
def test_same_as_reference_along_one_dimension(spec: tuple[Any, ...], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(ONE_DIM)))
    dtypes, call = ONE_DIM[name]
    array = array_of(spec, data.draw(st.sampled_from(dtypes)), name == "prod")
    dim = data.draw(st.one_of(st.none(), st.integers(-array.ndim, array.ndim - 1)))
    check(name, call, array, dim, data.draw(st.booleans()) if name != "max" or dim is not None else False)


@pytest.mark.parametrize("name", [*CASES, *ONE_DIM])
@pytest.mark.parametrize(("shape", "dim"), [((3, 70001), None), ((9001, 3), 0), ((150, 333), 0), ((150, 333), 1), ((9000, 5), 1)])
def test_reads_nothing_outside_and_the_same_for_any_number_of_threads(name: str, shape: tuple[int, ...], dim: Any) -> None:
    dtypes, call = {**CASES, **ONE_DIM}[name]
    values = np.random.default_rng(0).standard_normal(shape)
    before = pool.threads
    for dtype in [candidate for candidate in dtypes if candidate in ("float32", "bfloat16", "int8")]:
        runs = []
        for threads, end in ((1, True), (2, False)):
            pool.set_threads(threads)
            try:
                runs.append(as_list(call(wrap(guarded(values.astype(numpy_dtype(dtype)), end)), dim, False)))
            finally:
                pool.set_threads(before)
        for a, b in zip(*runs, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", [*CASES, *ONE_DIM])
def test_is_what_large_operands_meet(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call through the public function reaches the native kernel, on the fast path and on the long one."""
    reached: list[Any] = []

    def watched(kernel: Any) -> Any:
        return lambda *given: reached.append(kernel(*given)) or reached[-1]

    for operation in [operation for operation, family in FAMILIES.items() if family == "families.reduction"]:
        monkeypatch.setitem(native._found, operation, watched(native.find(operation)))
    for dtype in [candidate for candidate in {**CASES, **ONE_DIM}[name][0] if candidate in ("float32", "bfloat16", "int64")]:
        reached.clear()
        {**CASES, **ONE_DIM}[name][1](torch.ones(100, 100, dtype=getattr(torch, dtype)), 1, False)
        assert reached and reached[-1] is not None, dtype


def test_error_of_a_long_sum_does_not_grow_with_its_length() -> None:
    x = np.random.default_rng(0).random(3_000_001, np.float32)
    exact = math.fsum(x.tolist())
    assert abs(float(wrap(x).sum()) - exact) <= exact * 2.0**-23
    columns = np.ascontiguousarray(x[:3_000_000].reshape(-1, 3))
    sums = wrap(columns).sum(0)._array
    np.testing.assert_allclose(sums, columns.astype(np.float64).sum(0), rtol=2.0**-23)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_variance_of_values_far_from_zero(dim: int | None) -> None:
    x = (np.random.default_rng(0).standard_normal((400, 300)) + 10000).astype(np.float32)
    got = wrap(x).var(dim, correction=1)._array
    np.testing.assert_allclose(got, x.astype(np.float64).var(axis=dim, ddof=1), rtol=1e-6)


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1.0, 1e19, 1e30])
def test_norm_neither_overflows_nor_vanishes(scale: float, dim: int | None) -> None:
    x = (np.random.default_rng(0).standard_normal((100, 333)) * scale).astype(np.float32)
    got = torch.linalg.vector_norm(wrap(x), 2, dim)._array
    np.testing.assert_allclose(got, np.sqrt((x.astype(np.float64) ** 2).sum(dim)), rtol=1e-6)


@pytest.mark.parametrize("dim", [0, 1])
def test_logsumexp_of_infinities(dim: int) -> None:
    x = np.random.default_rng(0).standard_normal((100, 100)).astype(np.float32)
    x[:50, :50], x[:50, 50], x[60, 60] = -np.inf, np.inf, np.nan
    x[70], x[:, 70] = -np.inf, -np.inf
    check("logsumexp", CASES["logsumexp"][1], x, dim, False)
    check("logsumexp", CASES["logsumexp"][1], np.tile(x, (1, 300))[:, : 30000 - 7], dim, False)


@example(value=math.nan)
@example(value=math.inf)
@example(value=-math.inf)
@given(value=st.sampled_from((0.0, 1.0)))
def test_first_of_equals(value: float) -> None:
    x = np.full((90, 100), value, np.float32)
    for call in (ONE_DIM["argmax"][1], ONE_DIM["argmin"][1]):
        for dim in (None, 0, 1):
            assert not call(wrap(x), dim, False)._array.any()
    long = np.full(200_000, value, np.float32)
    assert wrap(long).argmax().item() == wrap(long).argmin().item() == 0
    long[:150_001] = -5.0
    assert wrap(long).argmax().item() == (0 if value == -math.inf else 150_001)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(2),
        lambda x: x.sum((0, 0)),
        lambda x: x.argmax(-3),
        lambda x: x.long().mean(),
        lambda x: x.bool().argmax(),
        lambda x: torch.logsumexp(x, 5),
    ],
)
def test_errors_are_the_references(call: Any) -> None:
    x = torch.zeros(100, 100)
    with pytest.raises(Exception) as got:
        call(x)
    with native.disabled(), pytest.raises(Exception) as want:
        call(x)
    assert (got.type, str(got.value)) == (want.type, str(want.value))


# -- expanded operands -------------------------------------------------------------------------------------------------------------------
EXPANDED = {  # shape, which dimensions are expanded
    "all": ((8, 2000), (0, 1)),
    "before": ((16, 2000), (0,)),
    "behind": ((2000, 16), (1,)),
    "last of three": ((40, 30, 20), (2,)),
    "first two of three": ((40, 30, 20), (0, 1)),
    "last two of three": ((40, 30, 20), (1, 2)),
    "inside": ((40, 30, 20), (1,)),
}


@pytest.mark.parametrize("name", [*CASES, *ONE_DIM])
@pytest.mark.parametrize("form", EXPANDED)
def test_expanded_operands_between_forbidden_pages(name: str, form: str) -> None:
    dtypes, call = {**CASES, **ONE_DIM}[name]
    shape, expanded = EXPANDED[form]
    held = tuple(1 if d in expanded else n for d, n in enumerate(shape))
    dims: list[Any] = [None, *range(len(shape))]
    if name in CASES:
        dims += [(0, 1), (0, len(shape) - 1)]
    for dtype in [candidate for candidate in dtypes if candidate in ("float32", "bfloat16", "int64")]:
        # whose sums, powers and roots are exact: NumPy adds what is expanded one by one, and that rounds more than the kernels do
        values = np.random.default_rng(0).choice((-1, 1) if name == "prod" else (-4, -1, 0, 1, 4), held)
        for end in (True, False):
            x = np.broadcast_to(guarded(values.astype(numpy_dtype(dtype)), end), shape)
            for dim in dims:
                check(name, call, x, dim, False)


def test_gradient_of_a_bias_that_is_added_to_every_row() -> None:
    layer = torch.nn.Linear(20, 2000)
    layer(torch.ones(8, 20)).mean().backward()
    np.testing.assert_allclose(layer.bias.grad.numpy(), np.full(2000, 1 / 2000, np.float32), rtol=1e-6)
    bias = torch.zeros(2000, requires_grad=True)
    (torch.zeros(16, 2000) + bias).sum().backward()
    assert bias.grad.tolist() == [16.0] * 2000


@pytest.mark.parametrize(("held", "shape"), [((300, 400), (3, 300, 400)), ((300, 1), (300, 400)), ((1, 400, 1), (300, 400, 5))])
def test_gradient_of_an_expanded_tensor(held: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = torch.ones(held, requires_grad=True)
    x.expand(shape).sum().backward()
    times = math.prod(shape) // math.prod(held)
    assert (x.grad == times).all()


def test_a_layout_says_in_a_word_of_its_own_what_a_register_holds() -> None:
    x = np.broadcast_to(np.zeros((1, 1), np.float32), (8, 2000))
    assert reduction._layout(x, (0,), False) is None
    assert reduction._layout(np.zeros((2000, 8), np.float32), (1,), False).way == "spread"
    assert reduction._layout(np.zeros((8, 2000), np.float32), (0,), False).way == "columns"
    assert reduction._layout(np.zeros((8, 2000), np.float32), (1,), False).way == "rows"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(1 << 14) + 1, (1 << 17) - 1, 1 << 17, (1 << 17) + 77])
def test_inner_products_of_long_vectors_are_sums_of_blocks(size, dtype):
    generator = torch.Generator().manual_seed(size)
    x, y = (torch.randn(2 * size, generator=generator, dtype=dtype) for _ in range(2))
    for a, b in ((x[:size], y[size:]), (x[::2], y[::2]), (x[:size], y[::2])):
        expected = float((a.double() * b.double()).sum())
        results = []
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            try:
                results += [torch.dot(a, b), torch.vdot(a, b)]
            finally:
                torch.set_num_threads(before)
        assert all(result.shape == () and result.dtype is dtype for result in results)
        if size >= 1 << 17 and a.is_contiguous() and b.is_contiguous():
            assert len({result.item() for result in results}) == 1
        assert results[0].item() == pytest.approx(expected, rel=1e-4, abs=1e-2 if dtype is torch.float32 else 1e-9)
    with pytest.raises(RuntimeError):
        torch.dot(x, y[:size])
    with pytest.raises(RuntimeError):
        torch.dot(x, y.to(torch.float32 if dtype is torch.float64 else torch.float64))


@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("shape", [(3, 4), (130, 100), (100, 3, 50)])
def test_deviations_have_the_gradient_of_their_definition(name, shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    for leaf in (x.clone(), x.transpose(0, 1).clone().transpose(0, 1)):
        leaf.requires_grad_()
        for dim in (None, 0, 1, (0, 1)):
            for keepdim in (False, True):
                result = getattr(torch, name)(leaf, dim, keepdim=keepdim)
                grad = torch.randn(result.shape, generator=generator, dtype=torch.float64)
                found = torch.autograd.grad(result, leaf, grad)[0]
                centred = leaf - leaf.mean(dim, keepdim=True)
                count = leaf.numel() // result.numel()
                plain = (centred * centred).sum(dim, keepdim=keepdim) / (count - 1)
                expected = torch.autograd.grad(plain.sqrt() if name == "std" else plain, leaf, grad)[0]
                torch.testing.assert_close(found, expected)
                again = torch.autograd.grad(getattr(torch, name)(leaf, dim, keepdim=keepdim), leaf, grad, create_graph=True)[0]
                torch.testing.assert_close(again, found)
                assert again.requires_grad


@pytest.mark.parametrize(("shape", "dim"), [((49, 5000), 0), ((5000, 49), 1), ((7, 3, 900), 0), ((900, 1000), 1)])
def test_equal_elements_have_no_deviation(shape, dim):
    """Where their sum is rounded, too: the gradient divides by the deviation where it is not 0."""
    one = torch.randn([1 if d == dim else n for d, n in enumerate(shape)], generator=torch.Generator().manual_seed(3))
    x = one.expand(shape).contiguous().requires_grad_()
    result = x.std(dim)
    result.sum().backward()
    assert not result.any() and not x.grad.any()
    other = x.detach().clone()
    place = [0] * len(shape)
    other[tuple(place)] = float(np.nextafter(np.float32(other[tuple(place)].item()), np.float32(9)))
    expected = other.double().numpy().std(dim, ddof=1)
    np.testing.assert_allclose(other.std(dim).double().numpy(), expected, rtol=1e-4, atol=1e-15)
