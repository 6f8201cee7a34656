"""Every operation's record on the probe: results lie there, and are the CPU's; so for in-place forms, ``out=`` and gradients.

FLAMBEAU_TEST_DEVICE=cuda:1   on the stand-in for CuPy instead, on a device that is not the current one (test_cuda.py does)
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from typing import Any

import numpy as np
import precision
import pytest
from libraries import OURS, arrays_in, assert_close, describe, differentiable_inputs, entry_of, flat, relevant_strides, run, split_name
from records import RECORDS, Record
from records.record import Maker, Sample

import flambeau
from flambeau.core.tensor import Tensor
from flambeau.testing import probe
from flambeau.testing.device_array import reads

pytestmark = pytest.mark.slow

DEVICE = flambeau.device(os.environ.get("FLAMBEAU_TEST_DEVICE", "privateuseone:0"))
if DEVICE.type == "cuda":
    from devices import fake_cupy

    ARRAY = fake_cupy.install().ndarray
    assert flambeau.cuda.is_available()
else:
    ARRAY = probe.ProbeArray
COUNTED = os.environ.get("FLAMBEAU_TEST_CUPY") != "real"  # CuPy counts no copies to the host

# What is not as on the CPU, by record, and why; tests check that it still is so.
NOT_YET = {"from_dlpack": "the probe exports no DLPack capsules"}
PARTS = {"linalg.lstsq"}  # solutions are parts of larger matrices, whose strides a copy of out= to the device does not keep
LEAVES = {"Tensor.to": "samples name the CPU", "Tensor.type": "types name the CPU", "Tensor.cpu": "goes there"}
# What is computed on the host: besides random numbers, what CuPy has no function for.
HOSTED = dict.fromkeys(
    ("Tensor.scatter_", "scatter_reduce", "Tensor.scatter_reduce_", "index_reduce", "Tensor.index_reduce_"),
    "products that meet in one place",
)
HOSTED |= dict.fromkeys(
    (
        "cholesky_solve cholesky_inverse linalg.solve_triangular triangular_solve linalg.householder_product orgqr ormqr linalg.lu_factor "
        "linalg.lu_factor_ex lu linalg.lu lu_unpack linalg.lu_solve lu_solve linalg.ldl_factor linalg.ldl_factor_ex linalg.ldl_solve"
    ).split(),
    "CuPy has triangular systems and LU factors of single matrices in cupyx, of batches none",
)
HOSTED["special.airy_ai"] = "Airy functions"
HOSTED["segment_reduce"] = "lengths say which element belongs where"
# Whose operands but the first must lie on the CPU, as in PyTorch.
CUTS_ON_CPU = {"tensor_split"}
# Kernels that read memory which nobody wrote.
NO_VALUES = frozenset(name for name in RECORDS if "empty" in name) | {"Tensor.new", "Tensor.resize_", "Tensor.resize_as_"}


def on_probe(value: Any) -> Any:
    """``value`` with its arrays as tensors on the probe."""
    if isinstance(value, np.ndarray):
        return OURS.tensor(value).to(DEVICE)
    if isinstance(value, (list, tuple)):
        return type(value)([on_probe(item) for item in value])
    if isinstance(value, dict):
        return {key: on_probe(item) for key, item in value.items()}
    return OURS.arguments(value)


def samples(record: Record, dtype: str | None = None) -> list[Sample]:
    """Samples of a dtype (None: the record's main one) that have tensors and that the CPU takes."""
    return _samples(record.name, dtype or record.dtypes[0])


@cache
def _samples(name: str, dtype: str) -> list[Sample]:
    record = RECORDS[name]
    candidates = record.samples(Maker(dtype, name))
    if record.name in CUTS_ON_CPU:
        candidates = [sample for sample in candidates if not arrays_in(sample.args[1:])]
    return [sample for sample in candidates if arrays_in([*sample.args, *sample.kwargs.values()]) and run(OURS, record, sample)[1] is None]


def family_of(item: tuple[str, Record]) -> str:
    """The module that has the operation."""
    entry = entry_of(item[0])
    return getattr(getattr(entry, "kernel", None) or getattr(entry, "body", None), "__module__", "")


ABSENT = {"Tensor.cuda", "Tensor.pin_memory", "get_device"}  # tell what happens without a GPU
CHOSEN = {name: record for name, record in RECORDS.items() if name not in {*NOT_YET, *ABSENT, *PARTS}}
if every := os.environ.get("FLAMBEAU_TEST_EVERY"):  # a sample of each family
    CHOSEN = {name: record for place, (name, record) in enumerate(sorted(CHOSEN.items(), key=family_of)) if place % int(every) == 0}
TESTED = {name: record for name, record in CHOSEN.items() if samples(record)}
every_record = pytest.mark.parametrize("record", TESTED.values(), ids=TESTED.keys())


def called(record: Record, function: Any, args: Any, kwargs: Any) -> Any:
    if record.random:
        OURS.seed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **kwargs)


def assert_as_on_cpu(got: Any, want: Any, record: Record, where: str) -> None:
    got, want = flat(got), flat(want)
    assert len(got) == len(want), where
    for ours, theirs in zip(got, want, strict=True):
        if not isinstance(theirs, Tensor):
            shown = str(ours).replace(f"{DEVICE.type}.", "")  # of types' names
            assert type(ours) is type(theirs) and (ours == theirs or shown == str(theirs)), where
            continue
        assert isinstance(ours, Tensor), where
        if record.name not in LEAVES:
            assert ours._array.__class__ is ARRAY, f"{where}: the result is a {type(ours._array).__name__}"
            assert ours.device == DEVICE, where
        values = ours.cpu()._array
        assert values.dtype == theirs._array.dtype, where
        assert values.shape == theirs._array.shape, where
        assert relevant_strides(ours) == relevant_strides(theirs), f"{where}: strides {ours.stride()}, on the CPU {theirs.stride()}"
        if record.name not in NO_VALUES:
            right = theirs._array
            against = precision.OURS if COUNTED else precision.GPU
            assert_close(*((np.abs(values), np.abs(right)) if record.sign_free else (values, right)), record, where, against=against)


@every_record
def test_forward(record: Record) -> None:
    """Results are the CPU's, and what is not listed is computed without a copy to the host."""
    function, copies = OURS.function(record.name), 0
    for sample in samples(record):
        want, _ = run(OURS, record, sample)
        args, kwargs = on_probe(sample.args), on_probe(sample.kwargs)
        before = reads.copies
        got = called(record, function, args, kwargs)
        copies += reads.copies - before
        assert_as_on_cpu(got, want, record, describe(record, sample))
    if not COUNTED:
        return
    if record.name in HOSTED:
        assert copies, f"{record.name} is computed on the device: take it out of HOSTED"
    elif not record.random and record.name not in LEAVES:
        assert not copies, f"{record.name} copies to the host"


@every_record
def test_forward_in_other_dtypes(record: Record) -> None:
    function = OURS.function(record.name)
    for dtype in record.dtypes[1:]:
        for sample in samples(record, dtype):
            want, _ = run(OURS, record, sample)
            got = called(record, function, on_probe(sample.args), on_probe(sample.kwargs))
            assert_as_on_cpu(got, want, record, f"{dtype}: {describe(record, sample)}")


@every_record
def test_gradients(record: Record) -> None:
    function = OURS.function(record.name)

    def gradients(args: Any, kwargs: Any) -> list[Any]:
        inputs = [tensor.requires_grad_() for tensor in differentiable_inputs([*args, kwargs])]
        outputs = [result for result in flat(called(record, function, args, kwargs)) if getattr(result, "requires_grad", False)]
        if not outputs:
            return []
        ones = [flambeau.ones_like(output) for output in outputs]
        return list(flambeau.autograd.grad(outputs, inputs, ones, allow_unused=True))

    if record.sign_free and not record.gradient:  # so are gradients
        return
    for sample in samples(record):
        want, error = OURS.attempt(gradients, OURS.arguments(sample.args), OURS.arguments(sample.kwargs))
        if error is not None:
            continue
        got = gradients(on_probe(sample.args), on_probe(sample.kwargs))
        for ours, theirs in zip(got, want, strict=True):
            assert (ours is None) == (theirs is None), describe(record, sample)
            if ours is not None:
                assert ours.device == DEVICE, f"{describe(record, sample)}: the gradient lies on {ours.device}"
                np.testing.assert_allclose(
                    ours.cpu()._array.astype(complex),
                    theirs._array.astype(complex),
                    rtol=1e-4,
                    atol=1e-5,
                    err_msg=describe(record, sample),
                )


def with_form(name: str) -> Any:
    chosen = {
        key: tested
        for key, tested in TESTED.items()
        if getattr(entry_of(key), name, False) and key not in LEAVES and (name == "out" or split_name(key)[0] == "torch")
    }
    return pytest.mark.parametrize("record", chosen.values(), ids=chosen.keys())


@with_form("inplace")
def test_in_place(record: Record) -> None:
    name = split_name(record.name)[1] + "_"
    for sample in samples(record):
        first, *rest = OURS.arguments(sample.args)
        if not isinstance(first, Tensor) or not hasattr(Tensor, name):
            continue
        want, error = OURS.attempt(called, record, getattr(Tensor, name), (first, *rest), OURS.arguments(sample.kwargs))
        target, *others = on_probe(sample.args)
        got, ours = OURS.attempt(called, record, getattr(Tensor, name), (target, *others), on_probe(sample.kwargs))
        assert type(ours) is type(error), f"{describe(record, sample)}: {ours!r}, on the CPU {error!r}"
        if error is None:
            assert got is target
            assert_as_on_cpu(got, want, record, describe(record, sample))


@with_form("out")
def test_out(record: Record) -> None:
    function = OURS.function(record.name)
    for sample in samples(record):
        want, _ = run(OURS, record, sample)
        several = isinstance(want, (tuple, list))
        if not all(isinstance(result, Tensor) for result in flat(want)):
            continue
        outs = [flambeau.empty_like(result, device=DEVICE) for result in flat(want)]
        args, kwargs = on_probe(sample.args), {**on_probe(sample.kwargs), "out": tuple(outs) if several else outs[0]}
        _, refused = OURS.attempt(
            called,
            record,
            function,
            OURS.arguments(sample.args),
            {**OURS.arguments(sample.kwargs), "out": tuple(map(flambeau.empty_like, flat(want))) if several else flambeau.empty_like(want)},
        )
        if refused is not None:
            continue
        called(record, function, args, kwargs)
        assert_as_on_cpu(outs, flat(want), record, describe(record, sample))


@pytest.mark.parametrize("name", NOT_YET)
def test_what_is_not_yet_right_is_still_not(name: str) -> None:
    record = RECORDS[name]
    outcomes = [OURS.attempt(OURS.function(name), *on_probe(sample.args), **on_probe(sample.kwargs))[1] for sample in samples(record)]
    assert any(outcomes), f"{name} works: take it out of NOT_YET"
