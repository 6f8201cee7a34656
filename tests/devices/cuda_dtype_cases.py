"""Every operation's record in other dtypes on a CUDA device of the stand-in for CuPy; run by ``test_cuda.py``, in a process of its own."""

from __future__ import annotations

import pytest
from devices.test_records_on_probe import CUTS_ON_CPU, LEAVES, TESTED, assert_as_on_cpu, called, on_probe
from libraries import OURS, arrays_in, describe, run
from records.record import Maker

CASES = [
    pytest.param(record, dtype, id=f"{name}-{dtype}")
    for name, record in TESTED.items()
    for dtype in ("bfloat16", "complex64", "int64", "bool")
    if dtype in record.dtypes and name not in LEAVES
]


@pytest.mark.parametrize(("record", "dtype"), CASES)
def test_forward(record, dtype) -> None:
    function = OURS.function(record.name)
    for sample in record.samples(Maker(dtype, record.name)):
        if not arrays_in([*sample.args, *sample.kwargs.values()]) or (record.name in CUTS_ON_CPU and arrays_in(sample.args[1:])):
            continue
        want, error = run(OURS, record, sample)
        if error is None:
            got = called(record, function, on_probe(sample.args), on_probe(sample.kwargs))
            assert_as_on_cpu(got, want, record, describe(record, sample))
