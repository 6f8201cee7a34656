"""Rows of rarer operations that work element by element: tests, shifts, functions that ONNX composes, quantization."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS, row
from .elementwise import _floor_divide, promoted
from .reductions import _reduce

for _name, _like in {
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "not_equal": "ne", "special_erf": "erf",
    "special_erfc": "erfc", "special_expm1": "expm1", "special_log1p": "log1p", "special_exp2": "exp2", "special_logit": "logit",
    "special_xlogy": "xlogy", "special_expit": "sigmoid", "fix": "trunc", "negative": "neg", "absolute": "abs",
}.items():  # fmt: skip
    ROWS[_name] = ROWS[_like]


def chosen(b: Builder, condition: Value, yes: Any, no: Any) -> Value:
    """One of two, by a condition; numbers are of the result's dtype."""
    made: Value = b.op("Where", condition, b.as_value(yes, b.dtype), b.as_value(no, b.dtype), dtype=b.dtype, shape=b.shape)
    return made


# ---- tests
def _infinite(b: Builder, x: Value, **options: Any) -> Value:
    if not x.dtype.is_floating_point:
        return b.expand(b.constant(False, dtypes.bool_), b.shape_of(x), x.shape)
    made: Value = b.op("IsInf", x, dtype=dtypes.bool_, **options)
    return made


ROWS["isreal"] = lambda b, x: b.expand(b.constant(True, dtypes.bool_), b.shape_of(x), x.shape)
ROWS["isposinf"] = lambda b, x: _infinite(b, x, detect_negative=0)
ROWS["isneginf"] = lambda b, x: _infinite(b, x, detect_positive=0)


@row("isfinite")
def _isfinite(b: Builder, x: Value) -> Value:
    if not x.dtype.is_floating_point:
        return b.expand(b.constant(True, dtypes.bool_), b.shape_of(x), x.shape)
    return b.op("Not", b.op("Or", b.op("IsNaN", x, dtype=dtypes.bool_), b.op("IsInf", x, dtype=dtypes.bool_)))


@row("signbit")
def _signbit(b: Builder, x: Value) -> Value:
    """By the reciprocal for zeros, whose signs a comparison does not see."""
    if x.dtype is dtypes.bool_:
        return b.op("And", x, b.op("Not", x))
    negative = b.op("Less", x, b.constant(0, x.dtype), dtype=dtypes.bool_)
    if not x.dtype.is_floating_point:
        return negative
    zero = b.constant(0, x.dtype)
    below = b.op("Less", b.op("Reciprocal", x), zero, dtype=dtypes.bool_)
    return b.op("Or", negative, b.op("And", b.op("Equal", x, zero, dtype=dtypes.bool_), below))


@row("is_nonzero")
def _is_nonzero(b: Builder, x: Value) -> Value:
    return b.op("Reshape", b.cast(x, dtypes.bool_), b.ints([]), shape=())


@row("isclose")
def _isclose(b: Builder, x: Value, y: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Value:
    exact = b.op("Equal", x, y, dtype=dtypes.bool_, shape=b.shape)
    if not x.dtype.is_floating_point:
        x, y = b.cast(x, dtypes.float64), b.cast(y, dtypes.float64)
    size = b.op("Mul", b.op("Abs", y), b.constant(rtol, y.dtype))
    allowed = b.op("Add", size, b.constant(atol, y.dtype))
    apart = b.op("Abs", b.op("Sub", x, y, shape=b.shape))
    near = b.op("LessOrEqual", apart, allowed, dtype=dtypes.bool_)
    close = b.op("Or", exact, b.op("And", near, _isfinite(b, apart)))
    if not equal_nan:
        return close
    return b.op("Or", close, b.op("And", *[b.op("IsNaN", each, dtype=dtypes.bool_) for each in (x, y)], shape=b.shape))


@row("isin")
def _isin(b: Builder, x: Value, values: Value, *, assume_unique: bool = False, invert: bool = False) -> Value:
    if not isinstance(x, Value) or not isinstance(values, Value):
        raise SymbolicValueError("isin of numbers is not supported", x)
    x, values = promoted(b, x, values)
    flat = b.op("Reshape", values, b.ints([-1]), shape=(None,))
    same = b.op("Equal", b.unsqueeze(x, [-1]), flat, dtype=dtypes.bool_, shape=(*x.shape, None))
    found = b.op("ReduceSum", b.cast(same, dtypes.int32), b.ints([-1]), keepdims=0, shape=x.shape)
    found = b.cast(found, dtypes.bool_)
    return b.op("Not", found) if invert else found


# ---- shifts
_STEP, _STEPS = 30, 3  # bits of the largest power of two that every integer has, and steps that shift all bits out


def _shift(direction: str) -> Callable[..., Any]:
    def by(b: Builder, x: Value, count: Value) -> Value:
        factor = b.op("Pow", b.constant(2, b.dtype), count, shape=count.shape)
        return b.op("Mul", x, factor, shape=b.shape) if direction == "left" else _floor_divide(b, x, factor)

    def translate(b: Builder, x: Any, y: Any) -> Value:
        """By products and quotients: ``BitShift`` has no signed integers. A negative count shifts all bits out, as one beyond the width."""
        x = b.as_value(x, b.dtype)
        if not isinstance(y, Value):
            left = y if 0 <= y < _STEP * _STEPS else _STEP * _STEPS
            for start in range(0, max(left, 1), _STEP):
                x = by(b, x, b.constant(min(_STEP, left - start), b.dtype))
            return x
        left, step = b.cast(y, b.dtype), b.constant(_STEP, b.dtype)
        is_negative = b.op("Less", left, b.constant(0, b.dtype), dtype=dtypes.bool_)
        left = b.op("Where", is_negative, b.constant(_STEP * _STEPS, b.dtype), left, dtype=b.dtype, shape=y.shape)
        for _ in range(_STEPS):
            count = b.op("Min", left, step, shape=y.shape)
            x, left = by(b, x, count), b.op("Sub", left, count, shape=y.shape)
        return x

    return translate


for _name in ("left", "right"):
    ROWS[f"bitwise_{_name}_shift"] = ROWS[f"__{_name[0]}shift__"] = _shift(_name)


# ---- functions
ROWS["sgn"], ROWS["conj_physical"] = ROWS["sign"], lambda b, x: x


@row("angle")
def _angle(b: Builder, x: Value) -> Value:
    """Of real numbers: half a turn for those below zero; NaN stays."""
    x = b.cast(x, b.dtype)
    below = b.op("Less", x, b.constant(0, b.dtype), dtype=dtypes.bool_)
    return chosen(b, b.op("IsNaN", x, dtype=dtypes.bool_), x, chosen(b, below, math.pi, 0))


@row("special_xlog1py")
def _xlog1py(b: Builder, x: Any, y: Any) -> Value:
    y = b.as_value(y, b.dtype)
    made: Value = ROWS["xlogy"](b, x, b.op("Add", y, b.constant(1, b.dtype)))
    return b.op("Where", b.op("IsNaN", y, dtype=dtypes.bool_), y, made, dtype=b.dtype, shape=b.shape)


ROWS["deg2rad"] = lambda b, x: b.op("Mul", b.cast(x, b.dtype), b.constant(math.pi / 180, b.dtype))
ROWS["rad2deg"] = lambda b, x: b.op("Mul", b.cast(x, b.dtype), b.constant(180 / math.pi, b.dtype))


def _log_sum(base: float) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, y: Value) -> Value:
        x, y = b.cast(x, b.dtype), b.cast(y, b.dtype)
        most = b.op("Max", x, y, shape=b.shape)
        apart = b.op("Neg", b.op("Abs", b.op("Sub", x, y, shape=b.shape)))
        power = b.op("Exp", apart if base == math.e else b.op("Mul", apart, b.constant(math.log(base), b.dtype)))
        rest = b.op("Log", b.op("Add", power, b.constant(1, b.dtype)))
        rest = rest if base == math.e else b.op("Div", rest, b.constant(math.log(base), b.dtype))
        equal = b.op("Equal", x, y, dtype=dtypes.bool_, shape=b.shape)  # infinities, too: their difference is NaN
        return chosen(b, equal, b.op("Add", most, b.constant(math.log(2, base), b.dtype)), b.op("Add", most, rest))

    return translate


ROWS["logaddexp"], ROWS["logaddexp2"] = _log_sum(math.e), _log_sum(2)


@row("hypot")
def _hypot(b: Builder, x: Value, y: Value) -> Value:
    """By the larger of the two, so that no square overflows; infinite where one is, the other may be NaN."""
    x, y = b.op("Abs", b.cast(x, b.dtype)), b.op("Abs", b.cast(y, b.dtype))
    most, least = b.op("Max", x, y, shape=b.shape), b.op("Min", x, y, shape=b.shape)
    zero, one = b.constant(0, b.dtype), b.constant(1, b.dtype)
    ratio = b.op("Div", least, chosen(b, b.op("Equal", most, zero, dtype=dtypes.bool_), one, most))
    length = b.op("Mul", most, b.op("Sqrt", b.op("Add", b.op("Mul", ratio, ratio), one)))
    return chosen(b, b.op("Or", _infinite(b, x), _infinite(b, y), shape=b.shape), math.inf, length)


@row("heaviside")
def _heaviside(b: Builder, x: Value, values: Value) -> Value:
    x, values = b.cast(x, b.dtype), b.cast(values, b.dtype)
    zero = b.constant(0, b.dtype)
    step = b.cast(b.op("Greater", x, zero, dtype=dtypes.bool_), b.dtype)
    return chosen(b, b.op("Equal", x, zero, dtype=dtypes.bool_), values, step)


@row("sinc", "special_sinc")
def _sinc(b: Builder, x: Value) -> Value:
    x = b.cast(x, b.dtype)
    angle, zero, one = b.op("Mul", x, b.constant(math.pi, b.dtype)), b.constant(0, b.dtype), b.constant(1, b.dtype)
    is_zero = b.op("Equal", x, zero, dtype=dtypes.bool_)
    return chosen(b, is_zero, one, b.op("Div", b.op("Sin", angle), chosen(b, is_zero, one, angle)))


@row("copysign")
def _copysign(b: Builder, x: Value, y: Any) -> Value:
    size, y = b.op("Abs", b.as_value(x, b.dtype)), b.as_value(y, b.dtype)
    return chosen(b, _signbit(b, y), b.op("Neg", size), size)


@row("special_entr")
def _entr(b: Builder, x: Value) -> Value:
    x = b.cast(x, b.dtype)
    zero = b.constant(0, b.dtype)
    inside = b.op("Neg", b.op("Mul", x, b.op("Log", x)))
    found = chosen(b, b.op("Equal", x, zero, dtype=dtypes.bool_), zero, inside)
    return chosen(b, b.op("Less", x, zero, dtype=dtypes.bool_), -math.inf, found)


@row("special_ndtr")
def _ndtr(b: Builder, x: Value) -> Value:
    half, root = b.constant(0.5, b.dtype), b.constant(math.sqrt(0.5), b.dtype)
    return b.op("Mul", b.op("Add", b.op("Erf", b.op("Mul", b.cast(x, b.dtype), root)), b.constant(1, b.dtype)), half)


@row("float_power")
def _float_power(b: Builder, x: Any, y: Any) -> Value:
    return b.op("Pow", b.as_value(x, b.dtype), b.as_value(y, b.dtype), shape=b.shape)


@row("ldexp")
def _ldexp(b: Builder, x: Value, exponent: Value) -> Value:
    power = b.op("Pow", b.constant(2, b.dtype), b.cast(exponent, b.dtype), shape=exponent.shape)
    return b.op("Mul", b.cast(x, b.dtype), power, shape=b.shape)


# ---- sums without NaN, distances
def _without_nan(b: Builder, x: Value) -> Value:
    return b.op("Where", b.op("IsNaN", x, dtype=dtypes.bool_), b.constant(0, x.dtype), x, dtype=x.dtype)


@row("nansum")
def _nansum(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    x = b.cast(x, b.dtype)
    return _reduce(b, "ReduceSum", _without_nan(b, x) if x.dtype.is_floating_point else x, dim, keepdim)


@row("nanmean")
def _nanmean(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    x = b.cast(x, b.dtype)
    counted = b.cast(b.op("Not", b.op("IsNaN", x, dtype=dtypes.bool_)), x.dtype)
    parts = [_reduce(b, "ReduceSum", each, dim, keepdim) for each in (_without_nan(b, x), counted)]
    return b.op("Div", *parts)


@row("aminmax")
def _aminmax(b: Builder, x: Value, *, dim: Any = None, keepdim: bool = False) -> list[Value]:
    return [_reduce(b, kind, x, dim, keepdim) for kind in ("ReduceMin", "ReduceMax")]


@row("dist")
def _dist(b: Builder, x: Value, y: Value, p: Any = 2) -> Value:
    apart = b.op("Sub", x, y, shape=_joint_shape(x, y))
    made: Value = ROWS["linalg_vector_norm"](b, apart, p)
    return made


def _joint_shape(x: Value, y: Value) -> tuple[Any, ...]:
    from .indexing import _wider

    return _wider(x, y)


# ---- quantization
def _quantized(b: Builder, x: Value, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Value:
    scale, zero_point = b.as_value(scale, x.dtype), b.as_value(zero_point, x.dtype)
    scaled = b.op("Round", b.op("Mul", x, b.op("Reciprocal", scale), shape=x.shape))
    low, high = b.constant(quant_min, x.dtype), b.constant(quant_max, x.dtype)
    level = b.op("Min", b.op("Max", b.op("Add", scaled, zero_point, shape=x.shape), low), high)
    return b.op("Mul", b.op("Sub", level, zero_point, shape=x.shape), scale, shape=x.shape)


ROWS["fake_quantize_per_tensor_affine"] = _quantized


@row("fake_quantize_per_channel_affine")
def _quantized_channels(b: Builder, x: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int) -> Value:
    behind = list(range(1, x.rank - axis % x.rank))
    return _quantized(b, x, b.unsqueeze(scale, behind), b.unsqueeze(zero_point, behind), quant_min, quant_max)


# ---- random numbers
@row("randint.default", "randint.low")
def _randint(b: Builder, *args: Any, **options: Any) -> Value:
    low, high, sizes = args if len(args) == 3 else (0, *args)
    return _whole_numbers(b, b.expand(b.constant(0, dtypes.float32), b.sizes(sizes)), low, high)


@row("randint_like.default", "randint_like.low_dtype")
def _randint_like(b: Builder, x: Value, *bounds: Any, **options: Any) -> Value:
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    return _whole_numbers(b, b.cast(x, dtypes.float32), low, high)


def _whole_numbers(b: Builder, like: Value, low: Any, high: Any) -> Value:
    if isinstance(low, Value) or isinstance(high, Value):
        raise SymbolicValueError("random integers within bounds that are sizes are not supported", (low, high))
    if high - low > 1 << 24:
        raise SymbolicValueError("random integers are made of 24 bits in ONNX", high - low)
    drawn = b.op("RandomUniformLike", like, low=float(low), high=float(high), shape=b.shape)
    last = b.constant(np.nextafter(np.float32(high), np.float32(low)), dtypes.float32)
    return b.cast(b.op("Floor", b.op("Min", drawn, last)), b.dtype)


@row("normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor")
def _normal(b: Builder, mean: Any, std: Any = 1.0, **options: Any) -> Value:
    mean, std = b.as_value(mean, b.dtype), b.as_value(std, b.dtype)
    like = b.op("Add", mean, std, shape=b.shape)
    return b.op("Add", mean, b.op("Mul", std, b.op("RandomNormalLike", like, shape=b.shape), shape=b.shape), shape=b.shape)


@row("normal.float_float")
def _normal_of_size(b: Builder, mean: float, std: float, sizes: Any, **options: Any) -> Value:
    like = b.expand(b.constant(0, b.dtype), b.sizes(sizes))
    return b.op("RandomNormalLike", like, mean=float(mean), scale=float(std), shape=b.shape)


@row("multinomial")
def _multinomial(b: Builder, x: Value, count: int, replacement: bool = False, **options: Any) -> Value:
    if not replacement and count != 1:
        raise SymbolicValueError("multinomial without replacement has no counterpart in ONNX", count)
    rows = x if x.rank == 2 else b.unsqueeze(x, [0])
    drawn = b.op("Multinomial", b.op("Log", rows), sample_size=count, dtype=dtypes.int64, dtype_=7, shape=(rows.shape[0], count))
    return drawn if x.rank == 2 else b.squeeze(drawn, [0])
