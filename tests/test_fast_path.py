"""The generated fast paths do what the slow path does: results, layout, history, what is saved, errors; and they are taken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import OURS, arrays_in, assert_close, describe, differentiable_inputs, flat, relevant_strides, transposed
from records import RECORDS, Record
from records.record import Maker, Sample

import flambeau as torch
from flambeau.core.calls import registry
from flambeau.core.calls.registry import Entry
from flambeau.core.state import active, thread
from flambeau.core.storage import UntypedStorage
from flambeau.core.tape.node import Node, Output
from flambeau.core.tensor import Tensor
from flambeau.ops import small

every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def slowly() -> Iterator[None]:
    """Every call takes the slow path, as if a mode were on."""
    thread.modes += 1
    active.append(None)
    try:
        yield
    finally:
        thread.modes -= 1
        active.pop()


def attempt(record: Record, sample: Sample, *, recorded: bool) -> tuple[list[Any], list[Any], Exception | None]:
    """(arguments' tensors, results, exception) of the record's operation on tensors of its own."""
    args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
    inputs = differentiable_inputs([args, kwargs])
    if recorded:
        for tensor in inputs:
            tensor.requires_grad_()
    if record.random:
        OURS.seed()
    result, error = OURS.attempt(OURS.function(record.name), *args, **kwargs)
    return inputs, flat(result), error


def history(edge: Any, inputs: list[Any], depth: int = 6) -> Any:
    """A comparable picture of the graph behind an edge: names, shapes, dtypes, what is saved, inputs by their number."""
    if edge is None:
        return None
    if isinstance(edge, Tensor):
        return next((i for i, tensor in enumerate(inputs) if tensor is edge), "another leaf")
    if edge.__class__ is Output:
        return edge.index, history(edge.node, inputs, depth)
    assert isinstance(edge, Node)
    if not depth:
        return edge.name()
    saved = [picture(part, inputs) for part in edge.saved or ()]
    return edge.name(), edge.shape, edge.dtype, saved, [history(tensor, inputs, depth - 1) for tensor in edge.edges]


def picture(value: Any, inputs: list[Any]) -> Any:
    """A saved item, comparable: inputs by their number, others by dtype and shape; their values show in the gradients."""
    if isinstance(value, Tensor):
        number = next((i for i, tensor in enumerate(inputs) if tensor is value), None)
        return ("input", number) if number is not None else picture(value._array, inputs)
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape
    if isinstance(value, (tuple, list)):
        return tuple(picture(part, inputs) for part in value if not isinstance(part, UntypedStorage))
    return repr(value)


def gradients(results: list[Any], inputs: list[Any]) -> list[Any]:
    """Of a weighted sum of the results."""
    chosen = [result for result in results if isinstance(result, Tensor) and result.requires_grad]
    if not chosen or not inputs:
        return []
    rng = np.random.default_rng(0)
    weights = [OURS.tensor(np.asarray(rng.uniform(0.5, 1.5, result.shape)).astype(result._array.dtype)) for result in chosen]
    return list(torch.autograd.grad(chosen, inputs, weights, allow_unused=True))


def assert_same_both_ways(record: Record, sample: Sample, where: str, *, strides: bool = True) -> None:
    inputs: list[Any] = []
    for recorded in (False, True):
        if recorded and not inputs:
            continue  # it would be the same once more
        inputs, fast, error = attempt(record, sample, recorded=recorded)
        with slowly():
            others, slow, expected = attempt(record, sample, recorded=recorded)
        where_now = f"{where}{', recorded' if recorded else ''}"
        if expected is not None or error is not None:
            assert type(error) is type(expected), f"{where_now}: {error!r}, on the slow path {expected!r}"
            assert str(error).partition(" at 0x")[0] == str(expected).partition(" at 0x")[0], where_now
            continue
        assert len(fast) == len(slow), where_now
        for got, want in zip(fast, slow, strict=True):
            if not isinstance(want, Tensor):
                assert type(got) is type(want) and repr(got) == repr(want), where_now
                continue
            assert (got.dtype, got.shape, type(got)) == (want.dtype, want.shape, type(want)), where_now
            if strides:
                assert relevant_strides(got) == relevant_strides(want), f"{where_now}: strides {got.stride()}, slowly {want.stride()}"
                assert got.storage_offset() == want.storage_offset() and got._is_view() == want._is_view(), where_now
            assert got.requires_grad == want.requires_grad and got.is_leaf == want.is_leaf, where_now
            assert_close(OURS.array(got), OURS.array(want), record, where_now)
            assert history(got._node, inputs) == history(want._node, others), where_now
        if recorded and record.gradient:
            for got, want in zip(gradients(fast, inputs), gradients(slow, others), strict=True):
                assert (got is None) == (want is None), where_now
                if want is not None:
                    assert got.shape == want.shape and got.dtype is want.dtype, where_now
                    assert_close(OURS.array(got), OURS.array(want), record, where_now)


@pytest.mark.slow
@every_record
def test_the_fast_path_equals_the_slow_path(record: Record) -> None:
    for dtype in record.dtypes:
        if dtype not in ("float32", "float64", "int64", "bool", "float16", "bfloat16"):
            continue
        for sample in record.samples(Maker(dtype, record.name)):
            assert_same_both_ways(record, sample, describe(record, sample))


@every_record
def test_the_fast_path_equals_the_slow_path_in_other_layouts(record: Record) -> None:
    if not record.layout_free:
        pytest.skip("the values depend on the order in memory")
    for sample in record.samples(Maker(record.dtypes[0], record.name)):
        laid_out = Sample(mapped(sample.args), sample.kwargs)
        # the fast path leaves the order of operands that are broadcast to NumPy
        strides = len({array.shape for array in arrays_in(laid_out.args)}) < 2
        assert_same_both_ways(record, laid_out, f"{describe(record, laid_out)}, transposed", strides=strides)


def mapped(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return transposed(value)
    return type(value)([mapped(item) for item in value]) if isinstance(value, (list, tuple)) else value


INPLACE = {
    name: record
    for name, record in RECORDS.items()
    if "." not in name and isinstance(entry := registry.TABLES["torch"].get(name), Entry) and entry.inplace and not entry.is_view
}


@pytest.mark.parametrize("record", INPLACE.values(), ids=INPLACE.keys())
def test_in_place_the_fast_path_equals_the_slow_path(record: Record) -> None:
    for dtype in record.dtypes:
        if dtype not in ("float32", "float64", "int64", "bool", "float16", "bfloat16"):
            continue
        for sample in record.samples(Maker(dtype, record.name)):
            if not sample.args or not isinstance(sample.args[0], np.ndarray):
                continue
            outcomes = []
            for path in (slowly(), nullcontext()):
                args, kwargs = OURS.arguments(sample.args), OURS.arguments(sample.kwargs)
                if record.random:
                    OURS.seed()
                target = args[0]
                with path:
                    result, error = OURS.attempt(getattr(target, record.name + "_"), *args[1:], **kwargs)
                outcomes.append((target, result, error))
            (want, slow, expected), (got, fast, error) = outcomes
            where = f"{describe(record, sample)}, in place"
            assert type(error) is type(expected) and str(error) == str(expected), f"{where}: {error!r}, on the slow path {expected!r}"
            assert (fast is got) == (slow is want) and got._version == want._version and got.stride() == want.stride(), where
            assert_close(OURS.array(got), OURS.array(want), record, where)


def test_every_operation_with_a_fast_kernel_takes_it() -> None:
    """In a process of its own, where all wrappers are generated with counters."""
    reference_only = {
        **os.environ,
        "FLAMBEAU_KERNELS": "numpy",
        "FLAMBEAU_KERNELS_FROM": "",
    }  # large gradients' rules run as one kernel, without the operations in them
    done = subprocess.run([sys.executable, "-m", "tests.programs.fast_paths"], cwd=ROOT, env=reference_only, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "operations with a fast kernel" in done.stdout


@pytest.mark.parametrize("dim", [1, -1])
def test_the_first_softmax_of_a_shape_has_the_bits_of_those_after_it(dim: int) -> None:
    for rows in range(2, 40):
        x = torch.randn(rows, 3) * 3
        small.SQUARES.pop((rows, 3), None)
        assert torch.equal(x.softmax(dim), x.softmax(dim))
