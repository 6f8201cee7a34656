"""Records of tensors from sizes and from values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .record import Error, Maker, Record, Sample, call

F32, F64, I64, I32, BOOL, C64 = (np.dtype(name) for name in ("float32", "float64", "int64", "int32", "bool", "complex64"))
ANY = ("float32",)


def fixed(*samples: Sample) -> Callable[[Maker], Iterable[Sample]]:
    """Samples that need no maker."""
    return lambda make: list(samples)


def no_gradient(name: str, *samples: Sample, **options: Any) -> Record:
    return Record(name, fixed(*samples), dtypes=ANY, gradient=False, **options)


def sized(name: str) -> Record:
    shapes = [call(2, 3), call((2, 3)), call([4]), call(()), call(0, 3), call(size=(2,)), call(3, dtype=I64), call(2, 2, dtype=BOOL)]
    return no_gradient(
        name,
        *shapes,
        call(2, requires_grad=True),
        errors=(
            Error(fixed_one(call(-1)), RuntimeError),
            Error(fixed_one(call(2.5)), TypeError, "must be tuple of ints, not float"),
            Error(fixed_one(call()), TypeError, "missing 1 required"),
            Error(fixed_one(call(2, dtype=I64, requires_grad=True)), RuntimeError, "floating point and complex"),
        ),
    )


def fixed_one(sample: Sample) -> Callable[[Maker], Sample]:
    return lambda make: sample


def like(name: str, *extra: Any) -> Record:
    def samples(make: Maker) -> list[Sample]:
        return [call(make(3, 4), *extra), call(make(), *extra), call(make(0, 3), *extra), call(make(2, 3), *extra, dtype=F64)]

    return Record(name, samples, gradient=False, errors=(Error(fixed_one(call(3, *extra)), TypeError),))


def method_sized(name: str) -> Record:
    return Record(name, lambda make: [call(make(2), 2, 3), call(make(2), (3,)), call(make(2), 2, dtype=I64)], gradient=False)


RECORDS = (
    sized("zeros"),
    sized("ones"),
    no_gradient("empty", call(0, 3), call((0,)), call(2, 0, dtype=I64), errors=(Error(fixed_one(call(-1)), RuntimeError),)),
    no_gradient("empty_strided", call((0, 3), (3, 1)), errors=(Error(fixed_one(call((2, 3), (1,))), RuntimeError, "dimensionality"),)),
    no_gradient(
        "full",
        *[call((2, 3), value) for value in (1.5, 3, True, 2j)],
        call((), 2.0),
        call((2,), 3.7, dtype=I64),
        call((2,), -1, dtype=np.dtype("uint8")),
        errors=(
            Error(fixed_one(call((2,), 300, dtype=np.dtype("uint8"))), RuntimeError, "without overflow"),
            Error(fixed_one(call(2, 3.0)), TypeError),
        ),
    ),
    like("zeros_like"),
    like("ones_like"),
    like("full_like", 2),
    Record("empty_like", lambda make: [call(make(0, 3)), call(make(0), dtype=I64)], gradient=False),
    no_gradient(
        "arange",
        *[call(5), call(5.0), call(1, 3, 0.4), call(3, 0, -1), call(0), call(2, 10, 3), call(3.5, dtype=I64), call(0, 1, 0.1, dtype=F64)],
        *[call(end=3), call(start=1, end=4), call(3, dtype=BOOL), call(3, dtype=C64)],
        errors=(
            Error(fixed_one(call(0, 3, 0)), RuntimeError, "nonzero"),
            Error(fixed_one(call(3, 0)), RuntimeError, "inconsistent"),
            Error(fixed_one(call(float("nan"))), RuntimeError, "unsupported range"),
        ),
    ),
    no_gradient("range", call(0, 2), call(1, 4, 0.5), call(0, 6, 2, dtype=I64)),
    no_gradient(
        "linspace",
        *[call(0, 1, 5), call(-3, 7, 11), call(0, 10, 5, dtype=I64), call(0, 1, 0), call(2, 5, 1), call(0, 1j, 3)],
        errors=(Error(fixed_one(call(0, 1, -1)), RuntimeError, "non-negative"),),
    ),
    no_gradient("logspace", call(0, 2, 3), call(0, 3, 4, base=2), call(-2, 2, 5), call(0, 3, 4, 2, dtype=I64), call(0, 1, 0)),
    no_gradient(
        "eye", call(3), call(2, 3), call(3, 2), call(0, 2), call(2, dtype=BOOL), errors=(Error(fixed_one(call(-1)), RuntimeError),)
    ),
    no_gradient("scalar_tensor", call(3), call(2.5), call(1, dtype=I64)),
    method_sized("Tensor.new_zeros"),
    method_sized("Tensor.new_ones"),
    Record("Tensor.new_empty", lambda make: [call(make(2), 0, 3), call(make(2), (0,))], gradient=False),
    Record("Tensor.new_full", lambda make: [call(make(2), (2, 3), 1), call(make(2), (), 1, dtype=F64)], gradient=False),
    Record("Tensor.new_empty_strided", lambda make: [call(make(2), (0, 3), (3, 1))], gradient=False),
    no_gradient(
        "tensor",
        *[
            call(value)
            for value in (1.5, 3, True, 2j, [], [1, 2], [1.0, 2], [True, 2], [[1, 2], [3, 4]], [1, 2.0, 3j], ((1,), (2,)), range(3))
        ],
        *[call([1.7, 2.2], dtype=I64), call([1, 2], dtype=F64), call([[], []]), call([1e300]), call(2, dtype=BOOL)],
        errors=(
            Error(fixed_one(call([[1, 2], [3]])), ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
            Error(fixed_one(call(["a"])), ValueError, "too many dimensions 'str'"),
            Error(fixed_one(call("abc")), TypeError, "invalid data type 'str'"),
            Error(fixed_one(call(None)), RuntimeError, "Could not infer dtype of NoneType"),
            Error(fixed_one(call(2**63)), ValueError, "Overflow"),
            Error(fixed_one(call([1], requires_grad=True)), RuntimeError, "floating point and complex"),
        ),
    ),
    Record("Tensor.new_tensor", lambda make: [call(make(2), [1, 0]), call(make(2), 1, dtype=F64)], gradient=False),
    Record("as_tensor", lambda make: [call(make(2, 3)), call(make(2), dtype=F64), call([1, 2])], gradient=False, is_view=True),
    Record("asarray", lambda make: [call(make(2, 3)), call(make(2), dtype=F64), call([1, 2.5]), call(3)], gradient=False, is_view=True),
    Record("from_dlpack", lambda make: [call(make(2, 3))], dtypes=("float32", "int64"), gradient=False, is_view=True),
    no_gradient("from_numpy", call(3), call([1]), notes="arrays become tensors here: tests/test_from_data.py has the rest"),
    no_gradient("to_dlpack", call(3), notes="a capsule cannot be compared: tests/test_from_data.py has the rest"),
    no_gradient("from_file", call(__file__, size=8, dtype=I32), call(__file__, False, 3, dtype=I32), call(__file__, dtype=F64)),
    no_gradient("frombuffer", call(bytearray(b"12345678"), dtype=I32), call(bytearray(8), dtype=F64), call(bytearray(5), dtype=I32)),
    no_gradient("tril_indices", call(3, 3), call(3, 4, 1), call(4, 2, -1), call(0, 2), call(2, 2, dtype=I32)),
    no_gradient("triu_indices", call(3, 3), call(3, 4, 1), call(4, 2, -1), call(0, 2), call(2, 2, dtype=I32)),
    *[
        no_gradient(
            f"{name}_window",
            *[call(n) for n in (0, 1, 2, 5, 8)],
            call(5, False),
            call(6, dtype=F64),
            *extra,
            errors=(Error(fixed_one(call(-1)), RuntimeError), Error(fixed_one(call(4, dtype=I64)), RuntimeError)),
        )
        for name, extra in (
            ("bartlett", ()),
            ("blackman", ()),
            ("hann", ()),
            ("hamming", (call(5, True, 0.5, 0.5),)),
            ("kaiser", (call(6, False, beta=4.0),)),
        )
    ],
)
