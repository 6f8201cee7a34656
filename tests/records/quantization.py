"""Records of rounding to the steps of a quantization; quantized tensors have a test file of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from .record import Error, Record, call

_STEP = 0.25
_REFUSED = "must refuse its samples: they are not quantized"


def _stepped(x: Any, scale: Any, zero_point: Any, low: int, high: int) -> Any:
    steps = np.clip(np.rint(x / np.asarray(scale, x.dtype)) + zero_point, low, high)
    return (steps - zero_point) * np.asarray(scale, x.dtype)


def _by_channel(x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int) -> Any:
    shape = [-1 if dim == axis else 1 for dim in range(x.ndim)]
    return _stepped(x, scale.reshape(shape), zero_point.reshape(shape), low, high)


def _channels(make: Any) -> tuple[Any, Any]:
    return np.array([0.25, 0.5, 1.0], np.float32), np.array([0, 3, -2], np.int32)


RECORDS = [
    Record(
        "fake_quantize_per_tensor_affine",
        lambda make: [
            call(make(3, 4), _STEP, 2, -3, 6),
            call(make(3, 4), np.array([_STEP], np.float32), np.array([1], np.int32), -128, 127),
            call(make(0), 1.0, 0, 0, 255),
        ],
        _stepped,
        ("float32", "float64", "float16"),
        (
            Error(lambda make: call(make(2), 1.0, 0, 5, 0), RuntimeError, "`quant_min` should be less"),
            Error(lambda make: call(make(2), 1.0, 9, 0, 5), RuntimeError, "`zero_point` must be between"),
            Error(lambda make: call(make(2), 1.0, 0, 0, 5), NotImplementedError, "not implemented for 'Long'", dtype="int64"),
        ),
        gradient=False,
        notes="a staircase: its rule is compared with PyTorch's, not with differences",
    ),
    Record(
        "fake_quantize_per_channel_affine",
        lambda make: [call(make(2, 3), *_channels(make), 1, -3, 6), call(make(3, 2, 2), *_channels(make), 0, -8, 7)],
        _by_channel,
        ("float32", "float64", "float16"),
        (
            Error(lambda make: call(make(2, 3), *_channels(make), 0, -8, 7), RuntimeError, "not consistent with input"),
            Error(lambda make: call(make(2, 3), *_channels(make), 2, -8, 7), IndexError, "out of range"),
            Error(lambda make: call(make(2, 3), *_channels(make), 1, 0, 7), RuntimeError, "`zero_point` must be between"),
            Error(lambda make: call(make(1), np.ones(1, np.float32), np.zeros(1, np.int64), 0, 0, 7), RuntimeError, "must be Int32"),
        ),
        gradient=False,
        notes="a staircase: its rule is compared with PyTorch's, not with differences",
    ),
    Record("dequantize", lambda make: [call(make(3, 4))], lambda x: x.astype(np.float32), ("float32",), is_view=True),
    *[
        Record(
            name,
            lambda make: [call(make(2))],
            unreferenced=_REFUSED,
            dtypes=("float32",),
            rejects={"float32": (NotImplementedError, None)},
            gradient=False,
        )
        for name in (
            "int_repr",
            "q_scale",
            "q_zero_point",
            "q_per_channel_scales",
            "q_per_channel_zero_points",
            "q_per_channel_axis",
            "Tensor.qscheme",
        )
    ],
]
