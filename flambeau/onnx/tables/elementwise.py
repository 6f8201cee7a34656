"""Rows of operations that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.calls.promotion import common_dtype
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS, row

# Functions of one tensor that ONNX has under a name of its own, and that give floats for floats.
_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh", "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil",
    "cos": "Cos", "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "hardswish": "HardSwish", "log": "Log", "mish": "Mish",
    "neg": "Neg", "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin",
    "sinh": "Sinh", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
_OF_INTEGERS = frozenset(("abs", "neg", "relu", "sign"))
_COPIES = "alias clone contiguous detach lift_fresh lift_fresh_copy positive resolve_conj resolve_neg alias_copy detach_copy _conj"


def _unary(name: str, kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, **options: Any) -> Value:
        if name == "round" and options.get("decimals"):
            scale, inverse = (b.constant(10.0 ** abs(options["decimals"]), x.dtype) for _ in range(2))
            kinds = ("Mul", "Div") if options["decimals"] > 0 else ("Div", "Mul")
            return b.op(kinds[1], b.op("Round", b.op(kinds[0], x, scale)), inverse)
        if name in ("ceil", "floor", "round") and not x.dtype.is_floating_point:
            return x
        result: Value = b.op(kind, x if name in _OF_INTEGERS else b.cast(x, b.dtype), name=name)
        return result

    return translate


for _name, _kind in _UNARY.items():
    ROWS[_name] = _unary(_name, _kind)
for _name in _COPIES.split():
    ROWS[_name] = lambda b, x, **options: x


# ---- two operands
def promoted(b: Builder, *operands: Any) -> list[Value]:
    """Operands in their common dtype."""
    fakes = [_Typed(value) if isinstance(value, Value) else value for value in operands]
    dtype = common_dtype(tuple([fake.tensor if isinstance(fake, _Typed) else fake for fake in fakes]))
    return [b.as_value(value, dtype) for value in operands]


class _Typed:
    """Stands for a value where dtypes meet: a tensor without elements, and with as many dimensions."""

    def __init__(self, value: Value):
        from ...core.arrays.meta_array import empty
        from ...core.tensor import wrap

        self.tensor = wrap(empty((1,) * value.rank, value.dtype.numpy))


def _scaled(b: Builder, value: Value, alpha: Any) -> Value:
    if not isinstance(alpha, Value) and alpha == 1:
        return value
    scaled: Value = b.op("Mul", value, b.as_value(alpha, value.dtype))
    return scaled


def _arithmetic(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
        if b.dtype is dtypes.bool_:
            y = b.as_value(y, b.dtype) if isinstance(alpha, Value) or alpha else b.constant(False, b.dtype)
            return b.op({"Add": "Or", "Mul": "And"}[kind], b.as_value(x, b.dtype), y, shape=b.shape)
        right = _scaled(b, b.as_value(y, b.dtype), alpha)
        return b.op(kind, b.as_value(x, b.dtype), right, shape=b.shape)

    return translate


ROWS["add"], ROWS["sub"], ROWS["mul"] = _arithmetic("Add"), _arithmetic("Sub"), _arithmetic("Mul")
ROWS["multiply"], ROWS["subtract"] = ROWS["mul"], ROWS["sub"]


@row("rsub")
def _rsub(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
    return b.op("Sub", b.as_value(y, b.dtype), _scaled(b, b.as_value(x, b.dtype), alpha), shape=b.shape)


@row("div", "divide", "true_divide")
def _div(b: Builder, x: Any, y: Any, *, rounding_mode: str | None = None) -> Value:
    if rounding_mode == "floor":
        return _floor_divide(b, x, y)
    quotient = b.op("Div", b.as_value(x, b.dtype), b.as_value(y, b.dtype), shape=b.shape)
    if rounding_mode is None or not b.dtype.is_floating_point:
        return quotient
    return b.op("Mul", b.op("Sign", quotient), b.op("Floor", b.op("Abs", quotient)))


@row("floor_divide")
def _floor_divide(b: Builder, x: Any, y: Any) -> Value:
    x, y = b.as_value(x, b.dtype), b.as_value(y, b.dtype)
    if b.dtype.is_floating_point:
        return b.op("Floor", b.op("Div", x, y, shape=b.shape))
    rest = b.op("Mod", x, y, shape=b.shape)  # of the divisor's sign
    return b.op("Div", b.op("Sub", x, rest, shape=b.shape), y, shape=b.shape)


@row("remainder")
def _remainder(b: Builder, x: Any, y: Any) -> Value:
    x, y = b.as_value(x, b.dtype), b.as_value(y, b.dtype)
    if not b.dtype.is_floating_point:
        return b.op("Mod", x, y, shape=b.shape)
    whole = b.op("Floor", b.op("Div", x, y, shape=b.shape))
    return b.op("Sub", x, b.op("Mul", whole, y), shape=b.shape)


@row("fmod")
def _fmod(b: Builder, x: Any, y: Any) -> Value:
    return b.op("Mod", b.as_value(x, b.dtype), b.as_value(y, b.dtype), fmod=1, shape=b.shape)


@row("pow")
def _pow(b: Builder, x: Any, y: Any) -> Value:
    if not isinstance(y, Value) and y == 2 and isinstance(x, Value):
        x = b.cast(x, b.dtype)
        return b.op("Mul", x, x)
    x, y, is_known = b.as_value(x, b.dtype), b.as_value(y, b.dtype), not isinstance(y, Value)
    found = b.op("Pow", x, y, shape=b.shape)
    return found if is_known or b.dtype.is_floating_point else _whole_power(b, x, y, found)


def _whole_power(b: Builder, x: Value, y: Value, power: Value) -> Value:
    """Integers to negative powers: 1 and -1 have some, all others have 0."""
    zero, one = b.constant(0, b.dtype), b.constant(1, b.dtype)
    odd = b.op("Sub", one, b.op("Mul", b.constant(2, b.dtype), b.op("Mod", y, b.constant(2, b.dtype))))
    inverse = b.op("Where", b.op("Equal", x, b.constant(-1, b.dtype), dtype=dtypes.bool_), odd, zero, dtype=b.dtype, shape=b.shape)
    inverse = b.op("Where", b.op("Equal", x, one, dtype=dtypes.bool_), one, inverse, dtype=b.dtype, shape=b.shape)
    below = b.op("Less", y, zero, dtype=dtypes.bool_)
    return b.op("Where", below, inverse, power, dtype=b.dtype, shape=b.shape)


@row("square")
def _square(b: Builder, x: Value) -> Value:
    x = b.cast(x, b.dtype)
    return b.op("Mul", x, x)


def _extreme(kind: str, passes_nan: bool) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, y: Value) -> Value:
        x, y = b.cast(x, b.dtype), b.cast(y, b.dtype)
        found: Value = b.op(kind, x, y, shape=b.shape)
        if passes_nan or not b.dtype.is_floating_point:
            return found
        for one, other in ((x, y), (y, x)):
            found = b.op("Where", b.op("IsNaN", one, dtype=dtypes.bool_), other, found, dtype=b.dtype, shape=b.shape)
        return found

    return translate


ROWS["maximum"], ROWS["minimum"] = ROWS["max.other"], ROWS["min.other"] = _extreme("Max", True), _extreme("Min", True)
ROWS["fmax"], ROWS["fmin"] = _extreme("Max", False), _extreme("Min", False)


def _comparison(kind: str, negated: bool = False) -> Callable[..., Any]:
    def translate(b: Builder, x: Any, y: Any) -> Value:
        x, y = promoted(b, x, y)
        if x.dtype is dtypes.bool_ and kind != "Equal":
            x, y = b.cast(x, dtypes.int32), b.cast(y, dtypes.int32)
        result: Value = b.op(kind, x, y, dtype=dtypes.bool_, shape=b.shape)
        return b.op("Not", result) if negated else result

    return translate


for _name, _made in {
    "eq": _comparison("Equal"),
    "ne": _comparison("Equal", True),
    "lt": _comparison("Less"),
    "le": _comparison("LessOrEqual"),
    "gt": _comparison("Greater"),
    "ge": _comparison("GreaterOrEqual"),
}.items():
    ROWS[_name] = _made


def _bits(name: str, of_bools: str, of_integers: str) -> None:
    def translate(b: Builder, x: Any, y: Any) -> Value:
        kind = of_bools if b.dtype is dtypes.bool_ else of_integers
        return b.op(kind, b.as_value(x, b.dtype), b.as_value(y, b.dtype), shape=b.shape)

    ROWS[f"bitwise_{name}"] = ROWS[f"__{name}__"] = translate

    def logical(b: Builder, x: Value, y: Value) -> Value:
        return b.op(of_bools, b.cast(x, dtypes.bool_), b.cast(y, dtypes.bool_), shape=b.shape)

    ROWS[f"logical_{name}"] = logical


_bits("and", "And", "BitwiseAnd")
_bits("or", "Or", "BitwiseOr")
_bits("xor", "Xor", "BitwiseXor")
ROWS["logical_not"] = lambda b, x: b.op("Not", b.cast(x, dtypes.bool_))
ROWS["bitwise_not"] = lambda b, x: b.op("Not" if x.dtype is dtypes.bool_ else "BitwiseNot", x)


def _of_floats(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value) -> Value:
        if not x.dtype.is_floating_point:
            return b.expand(b.constant(False, dtypes.bool_), b.shape_of(x))
        made: Value = b.op(kind, x, dtype=dtypes.bool_)
        return made

    return translate


ROWS["isnan"], ROWS["isinf"] = _of_floats("IsNaN"), _of_floats("IsInf")


@row("where")
def _where(b: Builder, condition: Value, x: Any, y: Any) -> Value:
    return b.op("Where", condition, b.as_value(x, b.dtype), b.as_value(y, b.dtype), dtype=b.dtype, shape=b.shape)


@row("masked_fill")
def _masked_fill(b: Builder, x: Value, mask: Value, value: Any) -> Value:
    return b.op("Where", mask, b.as_value(value, x.dtype), x, dtype=x.dtype, shape=b.shape)


@row("clamp", "clip")
def _clamp(b: Builder, x: Value, min: Any = None, max: Any = None) -> Value:
    x = b.cast(x, b.dtype)
    if min is not None:
        x = b.op("Max", x, b.as_value(min, b.dtype), shape=b.shape)
    return x if max is None else b.op("Min", x, b.as_value(max, b.dtype), shape=b.shape)


ROWS["clamp_min"] = lambda b, x, min: _clamp(b, x, min)
ROWS["clamp_max"] = lambda b, x, max: _clamp(b, x, None, max)


@row("addcmul")
def _addcmul(b: Builder, x: Value, y: Value, z: Value, *, value: Any = 1) -> Value:
    return b.op("Add", x, _scaled(b, b.op("Mul", y, z, shape=b.shape), value), shape=b.shape)


@row("addcdiv")
def _addcdiv(b: Builder, x: Value, y: Value, z: Value, *, value: Any = 1) -> Value:
    return b.op("Add", x, _scaled(b, b.op("Div", y, z, shape=b.shape), value), shape=b.shape)


@row("lerp")
def _lerp(b: Builder, x: Value, end: Value, weight: Any) -> Value:
    part = b.op("Mul", b.op("Sub", end, x, shape=b.shape), b.as_value(weight, b.dtype), shape=b.shape)
    return b.op("Add", x, part, shape=b.shape)


# ---- what ONNX composes
def _one(b: Builder, x: Value, value: float = 1.0) -> Value:
    return b.constant(value, x.dtype)


ROWS["rsqrt"] = lambda b, x: b.op("Reciprocal", b.op("Sqrt", b.cast(x, b.dtype)))
ROWS["expm1"] = lambda b, x: b.op("Sub", b.op("Exp", b.cast(x, b.dtype)), b.constant(1, b.dtype))
ROWS["log1p"] = lambda b, x: b.op("Log", b.op("Add", b.cast(x, b.dtype), b.constant(1, b.dtype)))
ROWS["log2"] = lambda b, x: b.op("Div", b.op("Log", b.cast(x, b.dtype)), b.constant(math.log(2), b.dtype))
ROWS["log10"] = lambda b, x: b.op("Div", b.op("Log", b.cast(x, b.dtype)), b.constant(math.log(10), b.dtype))
ROWS["exp2"] = lambda b, x: b.op("Pow", b.constant(2, b.dtype), b.cast(x, b.dtype), shape=x.shape)
ROWS["trunc"] = lambda b, x: b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x))) if x.dtype.is_floating_point else x
ROWS["silu"] = lambda b, x: b.op("Mul", x, b.op("Sigmoid", x))
ROWS["log_sigmoid"] = lambda b, x: b.op("Neg", b.op("Softplus", b.op("Neg", x)))
ROWS["log_sigmoid_forward"] = lambda b, x: [ROWS["log_sigmoid"](b, x), x]
ROWS["erfc"] = lambda b, x: b.op("Sub", b.constant(1, b.dtype), b.op("Erf", b.cast(x, b.dtype)), shape=x.shape)


@row("gelu")
def _gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    if b.opset >= 20:
        return b.op("Gelu", x, approximate=approximate)
    if approximate == "tanh":
        cube = b.op("Mul", b.op("Mul", x, x), x)
        inner = b.op("Add", x, b.op("Mul", cube, _one(b, x, 0.044715)))
        factor = b.op("Add", b.op("Tanh", b.op("Mul", inner, _one(b, x, math.sqrt(2 / math.pi)))), _one(b, x))
    else:
        factor = b.op("Add", b.op("Erf", b.op("Mul", x, _one(b, x, math.sqrt(0.5)))), _one(b, x))
    return b.op("Mul", b.op("Mul", x, factor), _one(b, x, 0.5))


@row("leaky_relu")
def _leaky_relu(b: Builder, x: Value, negative_slope: float = 0.01) -> Value:
    return b.op("LeakyRelu", x, alpha=float(negative_slope))


@row("elu")
def _elu(b: Builder, x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if input_scale != 1:
        raise SymbolicValueError("elu with an input_scale has no counterpart in ONNX", input_scale)
    result = b.op("Elu", x, alpha=float(alpha))
    return result if scale == 1 else b.op("Mul", result, _one(b, x, scale))


ROWS["selu"] = lambda b, x: b.op("Selu", x)
ROWS["celu"] = lambda b, x, alpha=1.0: b.op("Celu", x, alpha=float(alpha))
ROWS["relu6"] = lambda b, x: _clamp(b, x, 0, 6)
ROWS["hardtanh"] = lambda b, x, min_val=-1, max_val=1: _clamp(b, x, min_val, max_val)
ROWS["hardsigmoid"] = lambda b, x: b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)
ROWS["hardshrink"] = lambda b, x, lambd=0.5: b.op("Shrink", x, lambd=float(lambd))
ROWS["softshrink"] = lambda b, x, lambd=0.5: b.op("Shrink", x, lambd=float(lambd), bias=float(lambd))


@row("softplus")
def _softplus(b: Builder, x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    scaled = _scaled(b, x, beta)
    soft = b.op("Softplus", scaled)
    soft = soft if beta == 1 else b.op("Div", soft, _one(b, x, beta))
    return b.op("Where", b.op("Greater", scaled, _one(b, x, threshold), dtype=dtypes.bool_), x, soft, dtype=x.dtype)


@row("threshold")
def _threshold(b: Builder, x: Value, threshold: Any, value: Any) -> Value:
    return b.op("Where", b.op("Greater", x, _one(b, x, threshold), dtype=dtypes.bool_), x, _one(b, x, value), dtype=x.dtype)


@row("prelu", "_prelu_kernel")
def _prelu(b: Builder, x: Value, weight: Value) -> Value:
    if weight.rank == 1 and x.rank > 1 and weight.shape[0] != 1:
        weight = b.unsqueeze(weight, list(range(1, x.rank - 1))) if x.rank > 2 else weight
    return b.op("PRelu", x, weight)


@row("glu")
def _glu(b: Builder, x: Value, dim: int = -1) -> Value:
    halves = b.op("Split", x, axis=dim % x.rank, num_outputs=2, count=2, shape=b.shape)
    return b.op("Mul", halves[0], b.op("Sigmoid", halves[1]))


# ---- dtypes
@row("to.dtype", "_to_copy", "to.dtype_layout", "to.device", "to.other", "type_as")
def _to(b: Builder, x: Value, *args: Any, **options: Any) -> Value:
    return b.cast(x, b.dtype)


@row("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def _dropout(b: Builder, x: Value, p: float, train: bool) -> Value:
    if not train or not p:
        return x
    if b.name != "dropout":
        raise SymbolicValueError(f"ONNX has no {b.name} that is in training", p)
    return b.op("Dropout", x, b.constant(p, dtypes.float32), b.constant(True, dtypes.bool_))


@row("native_dropout")
def _native_dropout(b: Builder, x: Value, p: float, train: Any = True) -> list[Value]:
    if not train or not p:
        return [x, b.op("Equal", x, x, dtype=dtypes.bool_)]
    found: list[Value] = b.op("Dropout", x, b.constant(p, dtypes.float32), b.constant(True, dtypes.bool_), count=2)
    found[1].dtype = dtypes.bool_
    return found


@row("copy")
def _copy(b: Builder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    return b.expand(b.cast(source, x.dtype), b.shape_of(x))


@row("fill")
def _fill(b: Builder, x: Value, value: Any) -> Value:
    return b.expand(b.as_value(value, x.dtype), b.shape_of(x))


@row("zero")
def _zero(b: Builder, x: Value) -> Value:
    return _fill(b, x, 0)


# ---- rarer functions
@row("xlogy")
def _xlogy(b: Builder, x: Any, y: Any) -> Value:
    x, y = b.as_value(x, b.dtype), b.as_value(y, b.dtype)
    zero = b.constant(0, b.dtype)
    product = b.op("Mul", x, b.op("Log", y), shape=b.shape)
    return b.op("Where", b.op("Equal", x, zero, dtype=dtypes.bool_), zero, product, dtype=b.dtype, shape=b.shape)


@row("logit")
def _logit(b: Builder, x: Value, eps: float | None = None) -> Value:
    x = b.cast(x, b.dtype)
    x = x if eps is None else _clamp(b, x, eps, 1 - eps)
    return b.op("Log", b.op("Div", x, b.op("Sub", _one(b, x), x, shape=x.shape)))


ROWS["frac"] = lambda b, x: b.op("Sub", x, ROWS["trunc"](b, x))


@row("atan2")
def _atan2(b: Builder, y: Value, x: Value) -> Value:
    y, x = b.cast(y, b.dtype), b.cast(x, b.dtype)
    zero, turn = b.constant(0, b.dtype), b.constant(math.pi, b.dtype)
    sizes = [b.op("Abs", each) for each in (y, x)]
    equal = b.op("Equal", *sizes, dtype=dtypes.bool_, shape=b.shape)  # infinities, too: their quotient is NaN
    signs = b.op("Mul", b.op("Sign", y), b.op("Sign", x), shape=b.shape)
    angle = b.op("Atan", b.op("Where", equal, signs, b.op("Div", y, x, shape=b.shape), dtype=b.dtype, shape=b.shape))

    def is_negative(value: Value) -> Value:
        """Whether a number, or the inverse of a zero, is below 0."""
        either = [b.op("Less", each, zero, dtype=dtypes.bool_) for each in (value, b.op("Reciprocal", value))]
        found: Value = b.op("Or", *either)
        return found

    def choose(condition: Value, yes: Value, no: Value) -> Value:
        chosen: Value = b.op("Where", condition, yes, no, dtype=b.dtype, shape=b.shape)
        return chosen

    behind = choose(is_negative(y), b.op("Sub", angle, turn), b.op("Add", angle, turn))
    upright = b.op("Mul", b.op("Sign", y), b.constant(math.pi / 2, b.dtype))
    right, left = b.op("Greater", x, zero, dtype=dtypes.bool_), is_negative(x)
    upright = b.op("Add", upright, b.op("Mul", x, zero, shape=b.shape), shape=b.shape)  # NaN where x is
    return choose(right, angle, choose(left, behind, upright))


@row("nan_to_num")
def _nan_to_num(b: Builder, x: Value, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Value:
    if not x.dtype.is_floating_point:
        return x
    limits = np.finfo(x.dtype.numpy)
    infinity = b.constant(math.inf, x.dtype)
    for found, value in (
        (b.op("IsNaN", x, dtype=dtypes.bool_), 0.0 if nan is None else nan),
        (b.op("Equal", x, infinity, dtype=dtypes.bool_), limits.max if posinf is None else posinf),
        (b.op("Equal", x, b.constant(-math.inf, x.dtype), dtype=dtypes.bool_), limits.min if neginf is None else neginf),
    ):
        x = b.op("Where", found, b.constant(value, x.dtype), x, dtype=x.dtype)
    return x
