"""Every operation, by its record: against real PyTorch where it is installed, against NumPy, and against itself."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import precision
import pytest
from libraries import (
    HAS_ORACLE,
    LAYOUTS,
    OURS,
    arrays_in,
    assert_close,
    assert_same_outcome,
    describe,
    entry_of,
    flat,
    gradients,
    map_arrays,
    run,
    shares_memory,
    split_name,
    widened_sample,
)
from numeric_gradient import check_gradients
from records import RECORDS, Record
from records.record import HALVES, Maker, Pointwise, Sample, numpy_dtype

from flambeau.core.calls.out import LISTED
from flambeau.core.calls.registry import entries
from flambeau.core.tensor import Tensor

every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-30, 1e38, -1e38, 89.0, -104.0)


@pytest.fixture(scope="module")
def theirs(recorded_oracle: Any) -> Any:
    return recorded_oracle


def samples_of(record: Record, dtype: str) -> list[Sample]:
    return list(record.samples(Maker(dtype, record.name)))


def numbered_samples(record: Record, dtype: str) -> list[tuple[Sample, type[Exception] | None]]:
    """Each sample with the exception that it must raise."""
    return [(sample, record.rejection(dtype, number)) for number, sample in enumerate(samples_of(record, dtype))]


def main_samples(record: Record) -> list[Sample]:
    """Samples of the record's first, its main, dtype."""
    return samples_of(record, record.dtypes[0])


def by_record(*, condition: Any) -> Any:
    chosen = {name: record for name, record in RECORDS.items() if condition(record)}
    return pytest.mark.parametrize("record", chosen.values(), ids=chosen.keys())


def with_dtypes(among: tuple[str, ...] = (), condition: Any = lambda record: True) -> Any:
    """Records that satisfy the condition, each with its dtypes (those of ``among`` where given)."""
    chosen = [record for record in RECORDS.values() if condition(record)]
    pairs = [(record, dtype) for record in chosen for dtype in record.dtypes if not among or dtype in among]
    return pytest.mark.parametrize(("record", "dtype"), pairs, ids=[f"{r.name}-{d}" for r, d in pairs])


def test_every_operation_has_a_record() -> None:
    """Names with an underscore in front are parts of other operations, whose records cover them."""
    elsewhere = (".old_matrices.", ".ops.sparse.", ".eigen_iteration.")  # the tests of these names
    lacking = []
    for entry in entries():
        spellings = [f"{entry.namespace}.{alias}".removeprefix("torch.") for alias in (entry.name, *entry.aliases)]
        module = f"{getattr(entry, 'body', entry.kernel).__module__}."
        if not entry.name.startswith("_") and not any(word in module for word in elsewhere):
            lacking += [spellings[0]] * (not any(spelling in RECORDS for spelling in spellings))
    assert not lacking, f"no records in tests/records: {lacking}"


def test_every_record_has_samples_and_a_reference_or_says_why_not() -> None:
    """A record whose samples hold no array and no result would test nothing."""
    for record in RECORDS.values():
        assert (record.reference is None) == bool(record.unreferenced), f"{record.name}: a reference, or a reason why there is none"
        cases = main_samples(record)
        assert cases, f"{record.name} has no samples"
        if record.elementwise:
            assert all(arrays_in(sample.args) for sample in cases), record.name
        working = [rejection is None for dtype in record.dtypes for _, rejection in numbered_samples(record, dtype)]
        assert any(working) == ("must refuse its samples" not in record.unreferenced), f"{record.name}: refuses all samples"


@with_dtypes()
def test_samples_agree_with_pytorch_and_raise_where_the_record_says_so(record: Record, dtype: str, theirs: Any) -> None:
    outcomes = []
    for sample, rejection in numbered_samples(record, dtype):
        outcome, where = run(OURS, record, sample), describe(record, sample)
        if rejection is None:
            if outcome[1] is not None:
                raise AssertionError(f"{where}: {outcome[1]!r}") from outcome[1]
        else:
            assert isinstance(outcome[1], rejection), f"{where}: {outcome[1]!r}, the record expects {rejection.__name__}"
        outcomes.append((sample, outcome))
    for sample, outcome in outcomes:
        if theirs.answers(record, sample):
            exact = None if record.random else functools.partial(exact_results, theirs, record, sample)
            assert_same_outcome(outcome, run(theirs, record, sample), theirs, record, describe(record, sample), exact=exact)


def exact_results(library: Any, record: Record, sample: Sample) -> list[Any]:
    """The library's results of a call with its numbers in float64."""
    return [library.array(result) for result in flat(run(library, record, widened_sample(sample))[0])]


@by_record(condition=lambda r: r.random)
def test_draws_depend_on_the_seed(record: Record) -> None:
    """The generator's state decides alone what is drawn, and draws move it on."""
    for sample, rejection in numbered_samples(record, record.dtypes[0]):
        if rejection is not None or record.name in ("manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state"):
            continue
        drawn = []
        for _ in range(2):
            args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
            OURS.seed()
            drawn.append([OURS.array(result) for result in flat(OURS.function(record.name)(*args, **kwargs))])
        for first, second in zip(*drawn, strict=True):
            assert first.dtype == second.dtype
            # NumPy's logarithms may differ in the last bit with the memory's alignment
            np.testing.assert_allclose(
                first.astype(np.complex128), second.astype(np.complex128), rtol=1e-6, err_msg=describe(record, sample)
            )


@by_record(condition=lambda r: r.reference is not None)
def test_equals_numpy_reference(record: Record) -> None:
    """The reference computes in float64 whatever the operands' dtype, and is rounded once."""
    for dtype in [d for d in record.with_kin() if d in precision.EPS or d == "int64"]:
        for sample, rejection in numbered_samples(record, dtype):
            if rejection is not None:
                continue
            result, error = run(OURS, record, sample)
            assert error is None, f"{describe(record, sample)}: {error!r}"
            wide = widened_sample(sample) if record.widened else sample
            with np.errstate(all="ignore"):
                expected = record.reference(*wide.args, **wide.kwargs)
            expected = expected if isinstance(expected, (tuple, list)) else (expected,)
            for got, want in zip(flat(result), expected, strict=True):
                if want is None or isinstance(want, str):
                    assert got == want, describe(record, sample)
                    continue
                got = OURS.array(got) if isinstance(got, Tensor) else np.asarray(got)
                assert got.shape == np.shape(want), describe(record, sample)
                got, want = (np.abs(got), np.abs(want)) if record.sign_free else (got, np.asarray(want))
                if got.dtype.name in HALVES and want.dtype.kind == "f":
                    want = want.astype(got.dtype)
                assert_close(got, want, record, describe(record, sample), against=precision.NUMPY)


def assert_equal(got: Tensor, want: Tensor, record: Record, where: str) -> None:
    """Equal but for the rounding in which two ways of computing the same may differ."""
    assert_close(OURS.array(got), OURS.array(want), record, where)


def row_major(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="C")


@every_record
def test_memory_layouts(record: Record, request: pytest.FixtureRequest) -> None:
    """Non-contiguous and expanded inputs give the values of contiguous ones, and PyTorch's strides."""
    for sample, (layout, change) in itertools.product(main_samples(record), LAYOUTS.items()):
        if layout == "expanded" and not record.expanded:
            continue  # inputs that repeat one row are singular matrices, whose factors are not determined
        laid_out = Sample(map_arrays(sample.args, change), sample.kwargs)
        where = f"{describe(record, laid_out)} {layout}"
        outcome = run(OURS, record, laid_out)
        if HAS_ORACLE:
            library = request.getfixturevalue("theirs")
            # operands of different shapes and layouts: NumPy's choice among equally good result layouts may differ
            strides = len({array.shape for array in arrays_in(laid_out.args)}) < 2
            exact = None if record.random else functools.partial(exact_results, library, record, laid_out)
            # of rows that are all equal, much is 0, and what there is instead is rounding
            operands = [array for array in arrays_in(laid_out.args) if array.dtype.name in precision.EPS]
            least = max(map(magnitude, operands), default=0) if layout == "expanded" and not record.elementwise else 0
            expected = run(library, record, laid_out)
            assert_same_outcome(outcome, expected, library, record, where, strides=strides, exact=exact, least=least)
        elif outcome[1] is None and not record.is_view and not record.random and record.layout_free:
            plain = Sample(map_arrays(laid_out.args, row_major), sample.kwargs)
            for got, want in zip(flat(outcome[0]), flat(run(OURS, record, plain)[0]), strict=True):
                if isinstance(got, Tensor):
                    assert_close(OURS.array(got), OURS.array(want), record, where)


def elementwise_calls(record: Record, arrays: list[np.ndarray]) -> list[Sample]:
    """A pointwise record's extra arguments with these arrays."""
    assert isinstance(record.samples, Pointwise)
    return [Sample(tuple(arrays), dict(extra)) for extra in record.samples.extra]


@by_record(condition=lambda r: r.elementwise)
def test_zero_dimensions_and_empty(record: Record, request: pytest.FixtureRequest) -> None:
    dtype = record.dtypes[0]
    for shape in ((), (0, 3)):
        make = Maker(dtype, record.name)
        assert isinstance(record.samples, Pointwise)
        for sample in elementwise_calls(record, record.samples.arrays(make, *[shape] * record.samples.count)):
            result, error = run(OURS, record, sample)
            assert error is None, f"{describe(record, sample)}: {error!r}"
            assert all(tuple(tensor.shape) == shape for tensor in flat(result)), describe(record, sample)
            if HAS_ORACLE:
                library = request.getfixturevalue("theirs")
                assert_same_outcome((result, error), run(library, record, sample), library, record, describe(record, sample))


def special_samples(record: Record, dtype: str, times: int = 1) -> list[Sample]:
    assert isinstance(record.samples, Pointwise)
    count = record.samples.count
    values = np.repeat(SPECIAL, times if count == 1 else 1)
    grids = np.meshgrid(*[values] * min(count, 2), indexing="ij")
    with np.errstate(all="ignore"):
        arrays = [np.ascontiguousarray(grid.reshape(-1)).astype(numpy_dtype(dtype)) for grid in grids]
    arrays += [np.full_like(arrays[0], 0.5) for _ in range(count - len(arrays))]
    return elementwise_calls(record, arrays)


@with_dtypes(("float32", "bfloat16"), condition=lambda r: r.elementwise and r.specials)
def test_special_values(record: Record, dtype: str, theirs: Any) -> None:
    """NaN, infinities, signed zeros and extremes give what PyTorch gives."""
    for sample in special_samples(record, dtype):
        where = describe(record, sample)
        ours, expected = run(OURS, record, sample), run(theirs, record, sample)
        assert_same_outcome(ours, expected, theirs, record, where, exact=functools.partial(exact_results, theirs, record, sample))
        if expected[1] is None:
            for got, want in zip(flat(ours[0]), flat(expected[0]), strict=True):
                a, b = OURS.array(got), theirs.array(want)
                if a.dtype.kind == "f" and record.signed_zeros:
                    np.testing.assert_array_equal(np.signbit(a) & (a == 0), np.signbit(b) & (b == 0), err_msg=f"{where}: signs of zeros")


UNDERIVED = {  # by PyTorch: the functional forms of in-place operations, results of complex dtypes, and what its own writes in place spoil
    *("copy", "dequantize", "select_scatter", "slice_scatter", "vander"),
}
WRONGLY_DERIVED = {  # by PyTorch, as finite differences show
    "as_strided_scatter": "elements that are written over get a gradient, and the others none",
}
VECTORISED_WRONGLY = {  # by PyTorch; else special values are those of its vectorised loop, from which that over the rest may differ
    **dict.fromkeys(("sinh", "cosh"), "infinite beyond 88.7, where the result still is below the largest number"),
}
GRADIENTS = [
    (record, dtype)
    for record in RECORDS.values()
    if (not record.is_view or record.gradient) and not record.sign_free
    for dtype in record.with_kin()
    if dtype in ("float32", "float64", "complex64", "complex128")
]


@pytest.mark.parametrize(("record", "dtype"), GRADIENTS, ids=[f"{record.name}-{dtype}" for record, dtype in GRADIENTS])
def test_gradients_agree_with_pytorch(record: Record, dtype: str, theirs: Any) -> None:
    cases = samples_of(record, dtype)
    if record.elementwise and record.specials and dtype == "float32":
        cases += special_samples(record, dtype, times=1 if record.name in VECTORISED_WRONGLY else 64)
    for sample in cases:
        where = describe(record, sample)
        outcomes = []
        for library in (OURS, theirs):
            args, kwargs = library.arguments(sample.args), library.arguments(sample.kwargs)
            if record.random:
                library.seed()
            outcomes.append(gradients(library, library.function(record.name), args, kwargs))
        (got, error), (want, expected) = outcomes
        if expected is not None:
            assert error is not None or record.name in UNDERIVED, f"{where}: gradient given, PyTorch raises {expected!r}"
            continue
        if error is not None:
            raise AssertionError(f"{where}: {error!r}") from error
        if record.name in WRONGLY_DERIVED:
            continue
        assert len(got) == len(want), f"{where}: differentiable differs from PyTorch"
        largest = 0 if record.elementwise else max((magnitude(other) for other in want if other is not None), default=0)
        for number, (ours, other) in enumerate(zip(got, want, strict=True)):
            ours = np.zeros_like(other) if ours is None and other is not None else ours
            other = np.zeros_like(ours) if other is None and ours is not None else other
            if ours is not None:
                assert ours.dtype == other.dtype, where
                place = f"{where}: gradient {number}"
                assert_close(ours, other, record, place, against=precision.PYTORCH, gradient=True, least=largest)


def magnitude(array: np.ndarray) -> float:
    """The size of the largest finite element."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what a sample warns of is compared where its values are
@by_record(condition=lambda r: r.gradient and "float64" in r.dtypes)
def test_derivatives_equal_finite_differences(record: Record) -> None:
    function = OURS.function(record.name)
    for sample in samples_of(record, "float64"):
        args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
        seed = OURS.seed if record.random else lambda: None
        check_gradients(function, args, kwargs, second=True, where=describe(record, sample), seed=seed)


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@by_record(condition=lambda r: getattr(entry_of(r.name), "out", False))
def test_out_receives_the_result(record: Record) -> None:
    for sample in main_samples(record)[:3]:
        want, error = run(OURS, record, sample)
        if error is not None or "out" in sample.kwargs:
            continue
        args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
        targets = [OURS.tensor(np.zeros_like(OURS.array(array))) for array in flat(want)]
        out = tuple(targets) if isinstance(want, tuple) else targets[0]
        if record.random:
            OURS.seed()
        result = OURS.function(record.name)(*args, **kwargs, out=out)
        if entry_of(record.name).out is LISTED:
            assert result is None, "PyTorch gives back no list of any length"
            result = out
        for got, target, expected in zip(flat(result), targets, flat(want), strict=True):
            assert got is target, describe(record, sample)
            assert_equal(target, expected, record, describe(record, sample))


@by_record(condition=lambda r: getattr(entry_of(r.name), "inplace", False) and split_name(r.name)[0] == "torch")
def test_in_place_equals_out_of_place(record: Record, request: pytest.FixtureRequest) -> None:
    last = split_name(record.name)[1] + "_"
    for sample in main_samples(record):
        if not sample.args or not isinstance(sample.args[0], np.ndarray):
            continue
        where = f"{describe(record, sample)} in place"
        outcome = run_in_place(OURS, record, sample, last)
        want, error = run(OURS, record, sample)
        if error is None and outcome[1] is None and not isinstance(want, tuple):
            target = outcome[0]
            assert_close(OURS.array(target), OURS.array(want).astype(OURS.array(target).dtype), record, where)
        if HAS_ORACLE:
            library = request.getfixturevalue("theirs")
            if hasattr(library.torch.Tensor, last):
                assert_same_outcome(outcome, run_in_place(library, record, sample, last), library, record, where)


def run_in_place(library: Any, record: Record, sample: Sample, method: str) -> Any:
    args, kwargs = library.arguments(sample.args), library.arguments(sample.kwargs)
    if record.random:
        library.seed()
    result, error = library.attempt(lambda: getattr(args[0], method)(*args[1:], **kwargs))
    assert error is not None or result is args[0], f"{record.name}: {method} did not return its tensor"
    return result, error


@by_record(condition=lambda r: getattr(entry_of(r.name), "method", False) and split_name(r.name)[0] == "torch")
def test_method_equals_function(record: Record) -> None:
    name = split_name(record.name)[1]
    for sample in main_samples(record)[:2]:
        want, error = run(OURS, record, sample)
        if error is not None or not sample.args or not isinstance(sample.args[0], np.ndarray):
            continue
        args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
        if record.random:
            OURS.seed()
        for got, expected in zip(flat(getattr(args[0], name)(*args[1:], **kwargs)), flat(want), strict=True):
            if isinstance(expected, Tensor):
                assert_equal(got, expected, record, describe(record, sample))
            else:
                assert got == expected


@every_record
def test_results_share_memory_only_where_they_are_views(record: Record, request: pytest.FixtureRequest) -> None:
    for sample in main_samples(record)[:3]:
        sharing = []
        for library in (OURS, request.getfixturevalue("theirs")) if HAS_ORACLE else (OURS,):
            args, kwargs = library.arguments(sample.args), library.arguments(sample.kwargs)
            if record.random:
                library.seed()
            result, error = library.attempt(library.function(record.name), *args, **kwargs)
            if error is not None:
                break
            inputs = [library.array(value) for value in flat(args) if hasattr(value, "requires_grad")]
            results = [library.array(value) for value in flat(result) if hasattr(value, "requires_grad")]
            sharing.append([any(shares_memory(a, b) for b in inputs) for a in results])
        else:
            assert len(sharing) == 1 or sharing[0] == sharing[1], f"{describe(record, sample)}: shares {sharing}"
            assert record.is_view or not any(sharing[0]), f"{describe(record, sample)}: a result shares an input's memory"


@every_record
def test_results_can_be_written(record: Record) -> None:
    """Arrays that NumPy gives to be read only, such as broadcast ones, are nobody's result."""
    for sample in main_samples(record):
        result, error = run(OURS, record, sample)
        if error is None and not record.is_view:
            locked = [value for value in flat(result) if hasattr(value, "requires_grad") and not OURS.array(value).flags.writeable]
            assert not locked, describe(record, sample)


@by_record(condition=lambda r: r.elementwise and isinstance(r.samples, Pointwise) and r.samples.count > 1)
def test_promotion_agrees_with_pytorch(record: Record, theirs: Any) -> None:
    """Mixed dtypes, with and without dimensions, give PyTorch's result dtype or its error; opmath round 0-d operands at another moment."""
    mixed = [("int64", "float32"), ("bool", "int64"), ("float64", "float32"), ("uint8", "int8"), ("float32", "complex64")]
    mixed += [("bfloat16", "float16"), ("int32", "bfloat16")]
    assert isinstance(record.samples, Pointwise)
    for first, second in mixed:
        for shapes in (((3, 4), (3, 4)), ((3, 4), ()), ((), (3, 4))):
            arrays = [
                Maker(kind, record.name)(*shape, low=record.samples.low, high=record.samples.high, away=record.samples.away)
                for kind, shape in zip((first, second), shapes, strict=True)
            ]
            arrays += [arrays[1].copy() for _ in range(record.samples.count - 2)]
            sample = elementwise_calls(record, arrays)[0]
            ours, expected = run(OURS, record, sample), run(theirs, record, sample)
            if isinstance(expected[1], NotImplementedError):
                continue  # PyTorch has no kernel for that pair; more is no harm
            if expected[1] is not None:
                assert_same_outcome(ours, expected, theirs, record, describe(record, sample))
                continue
            values = not any(str(tensor.dtype).endswith("float16") for tensor in flat(expected[0]))
            assert_same_outcome(ours, expected, theirs, record, describe(record, sample), values=values)


@by_record(condition=lambda r: r.errors)
def test_errors(record: Record, request: pytest.FixtureRequest) -> None:
    for error in record.errors:
        sample = error.samples(Maker(error.dtype, record.name))
        args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
        with pytest.raises(error.type, match=error.match):
            OURS.function(record.name)(*args, **kwargs)
        if HAS_ORACLE:
            _, expected = run(request.getfixturevalue("theirs"), record, sample)
            assert expected is not None, f"{describe(record, sample)}: PyTorch accepts this"
            assert isinstance(expected, error.type), f"{describe(record, sample)}: PyTorch raises {expected!r}"
