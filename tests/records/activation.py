"""Records of activations and of the softmax family."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from .exponential import logistic
from .record import Error, Record, call, pointwise

FLOATS = ("float32", "float64", "bfloat16", "int64")
ALL = ("float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64")
F = "nn.functional."


def _elu(x: Any, alpha: float = 1.0, scale: float = 1.0) -> Any:
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


def _softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)


def _softmax_samples(make: Any) -> list:
    return [call(make(3, 4), 1), call(make(3, 4), 0), call(make(2, 3, 2), -2), call(make(), 0), call(make(0, 3), 0), call(make(3, 0), 1)]


def _softmax(x: Any, dim: int) -> Any:
    return special.softmax(x, dim) if x.size else x


def _log_softmax(x: Any, dim: int) -> Any:
    return special.log_softmax(x, dim) if x.size else x


def _softmax_errors() -> tuple[Error, ...]:
    return (Error(lambda make: call(make(2, 3), 2), IndexError, "Dimension out of range"),)


def _halves(x: Any, dim: int = -1) -> Any:
    a, b = np.split(x, 2, axis=dim)
    return a * special.expit(b)


def _prelu(make: Any) -> list:
    weight = make(3, low=0.1, high=1)
    return [call(make(2, 3, 4, away=0.1), weight), call(make(4, away=0.1), weight[:1]), call(make(away=0.1), weight[:1])]


def _prelu_reference(x: Any, w: Any) -> Any:
    w = w.reshape(-1, *(1,) * (x.ndim - 2)) if w.size > 1 else w.reshape(())
    return np.where(x > 0, x, w * x)


RECORDS = [
    pointwise("relu", 1, lambda x: np.maximum(x, 0), dtypes=ALL),
    pointwise(F + "relu", 1, lambda x: np.maximum(x, 0), dtypes=ALL),
    pointwise(
        F + "hardtanh",
        1,
        lambda x, min_val=-1.0, max_val=1.0: np.clip(x, *np.asarray([min_val, max_val]).astype(x.dtype)),
        extra=({}, {"min_val": -0.5, "max_val": 1.5}),
        dtypes=("float32", "float64", "bfloat16", "int64", "bool", "complex64"),
        errors=(Error(lambda make: call(make(2), 2.0, 1.0), ValueError, "min_val cannot be greater"),),
    ),
    pointwise(F + "relu6", 1, lambda x: np.clip(x, 0, 6), high=9, dtypes=("float32", "float64", "bfloat16", "int64", "uint8")),
    pointwise(
        F + "leaky_relu",
        1,
        lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
        extra=({}, {"negative_slope": 0.3}),
        dtypes=FLOATS,
    ),
    Record(
        "prelu",
        _prelu,
        _prelu_reference,
        FLOATS,
        (
            Error(lambda make: call(make(2, 3), make(2)), RuntimeError, "Mismatch of parameter numbers"),
            Error(lambda make: call(make(2, 3), make(2, 3)), RuntimeError, "scalar or 1D"),
        ),
    ),
    Record(
        "rrelu", lambda make: [call(make(3, 4)), call(make(3, 4), 0.1, 0.3, True)], None, ("float32", "float64", "bfloat16"), random=True
    ),
    Record(
        F + "rrelu",
        lambda make: [call(make(3, 4)), call(make(3, 4), 0.1, 0.3, True)],
        None,
        ("float32", "float64", "bfloat16"),
        random=True,
    ),
    Record("rrelu_", lambda make: [call(make(3, 4))], None, ("float32", "float64"), gradient=False, is_view=True),
    Record(
        "threshold",
        lambda make: [call(make(3, 4), 0.5, 2), call(make(), 0, 1)],
        lambda x, t, v: np.where(x > t, x, v).astype(x.dtype),
        ("float32", "float64", "bfloat16", "int64"),
    ),
    Record(
        F + "threshold",
        lambda make: [call(make(3, 4), 0.5, 2), call(make(), 0, 1)],
        lambda x, t, v: np.where(x > t, x, v).astype(x.dtype),
        ("float32", "float64", "bfloat16", "int64"),
    ),
    pointwise(F + "elu", 1, _elu, extra=({}, {"alpha": 0.5}), dtypes=FLOATS),
    pointwise("selu", 1, lambda x: _elu(x, 1.6732632423543772, 1.0507009873554805), dtypes=FLOATS),
    pointwise(F + "selu", 1, lambda x: _elu(x, 1.6732632423543772, 1.0507009873554805), dtypes=FLOATS),
    pointwise(
        "celu",
        1,
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        extra=({}, {"alpha": 2.0}),
        dtypes=FLOATS,
        errors=(Error(lambda make: call(make(2), 0.0), RuntimeError, "ZeroDivisionError"),),
    ),
    pointwise(
        F + "celu",
        1,
        lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        extra=({}, {"alpha": 2.0}),
        dtypes=FLOATS,
    ),
    pointwise(
        F + "gelu",
        1,
        _gelu,
        extra=({}, {"approximate": "tanh"}),
        specials=False,
        notes="PyTorch gives NaN at infinity",
        dtypes=FLOATS,
        errors=(Error(lambda make: call(make(2), approximate="x"), RuntimeError, "approximate argument"),),
    ),
    pointwise(F + "silu", 1, lambda x: x * special.expit(x), dtypes=FLOATS),
    pointwise(F + "mish", 1, lambda x: x * np.tanh(_softplus(x)), dtypes=FLOATS),
    pointwise(F + "softplus", 1, _softplus, high=5, extra=({}, {"beta": 2, "threshold": 4}), dtypes=FLOATS),
    pointwise(F + "logsigmoid", 1, special.log_expit, dtypes=FLOATS),
    pointwise(F + "softsign", 1, lambda x: x / (1 + np.abs(x)), away=0.1, dtypes=("float32", "float64", "int64")),
    pointwise(F + "tanhshrink", 1, lambda x: x - np.tanh(x), dtypes=("float32", "float64", "int64")),
    pointwise(F + "tanh", 1, np.tanh),
    pointwise(F + "sigmoid", 1, logistic),
    Record(
        F + "glu",
        lambda make: [call(make(3, 4)), call(make(4, 3), 0), call(make(2, 2, 2), 1)],
        _halves,
        ("float32", "float64", "int64"),
        (
            Error(lambda make: call(make(3)), RuntimeError, "Halving dimension must be even"),
            Error(lambda make: call(make()), RuntimeError, "does not support 0-dimensional"),
        ),
    ),
    pointwise(F + "hardsigmoid", 1, lambda x: np.clip(x + 3, 0, 6) / 6, low=-5, high=5, dtypes=FLOATS),
    pointwise(F + "hardswish", 1, lambda x: x * np.clip(x + 3, 0, 6) / 6, low=-5, high=5, dtypes=FLOATS),
    pointwise("hardshrink", 1, lambda x, lambd=0.5: np.where(np.abs(x) > lambd, x, 0), extra=({}, {"lambd": 1.0}), dtypes=FLOATS),
    pointwise(
        F + "softshrink",
        1,
        lambda x, lambd=0.5: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0)),
        extra=({}, {"lambd": 1.0}),
        dtypes=FLOATS,
        errors=(Error(lambda make: call(make(2), -1.0), RuntimeError, r"lambda must be in range \[0, "),),
    ),
    Record("softmax", _softmax_samples, _softmax, FLOATS, _softmax_errors()),
    Record("log_softmax", _softmax_samples, _log_softmax, ("float32", "float64"), _softmax_errors()),
    Record(F + "softmax", _softmax_samples, _softmax, FLOATS, _softmax_errors()),
    Record(F + "log_softmax", _softmax_samples, _log_softmax, ("float32", "float64"), ()),
    Record(F + "softmin", _softmax_samples, lambda x, dim: _softmax(-x, dim), FLOATS, ()),
    Record(
        F + "gumbel_softmax",
        lambda make: [call(make(3, 4)), call(make(3, 4), 0.5, True), call(make(3, 4), dim=0)],
        None,
        ("float32", "float64"),
        gradient=False,
        random=True,
        notes="with hard=True the gradient is that of the soft sample",
    ),
]
