"""Rows of reductions, and of what works along a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core import dtype as dtypes
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import ROWS, of_vectors, row


def _reduce(b: Builder, kind: str, x: Value, dim: Any, keepdim: bool) -> Value:
    if not x.rank:
        return x
    if kind == "ReduceMean" and any(x.shape[axis] == 0 for axis in b.axes(dim, x.rank)):  # onnxruntime's is 0
        return b.op("Div", _reduce(b, "ReduceSum", x, dim, keepdim), b.constant(0, x.dtype), shape=b.shape)
    return b.op(kind, x, b.ints(b.axes(dim, x.rank)), keepdims=int(keepdim), shape=b.shape)


def _reduction(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
        return _reduce(b, kind, b.cast(x, b.dtype), dim, keepdim)

    return translate


for _name, _kind in {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "logsumexp": "ReduceLogSumExp"}.items():
    ROWS[_name] = _reduction(_kind)
ROWS["amax"] = ROWS["max.default"] = _reduction("ReduceMax")
ROWS["amin"] = ROWS["min.default"] = _reduction("ReduceMin")


def _truths(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        return b.cast(_reduce(b, kind, b.cast(b.cast(x, dtypes.bool_), dtypes.int64), dim, keepdim), dtypes.bool_)

    return translate


ROWS["any"], ROWS["all"] = _truths("ReduceSum"), _truths("ReduceMin")  # of nothing: 0, and the largest integer


def _where_extreme(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
        if dim is None:
            flat = b.reshape(x, [-1], (None,))
            found = b.op(kind, flat, axis=0, keepdims=0, dtype=dtypes.int64, shape=())
            return b.reshape(found, [1] * x.rank) if keepdim and x.rank else found
        if not x.rank:
            return b.constant(0, dtypes.int64)
        return b.op(kind, x, axis=dim % x.rank, keepdims=int(keepdim), dtype=dtypes.int64, shape=b.shape)

    return translate


ROWS["argmax"], ROWS["argmin"] = _where_extreme("ArgMax"), _where_extreme("ArgMin")


def _extreme(reduce: str, arg: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
        if not x.rank:
            return [x, b.constant(0, dtypes.int64)]
        place = b.op(arg, x, axis=dim % x.rank, keepdims=int(keepdim), dtype=dtypes.int64, shape=b.shape)
        return [_reduce(b, reduce, x, dim, keepdim), place]

    return translate


ROWS["max.dim"], ROWS["min.dim"] = _extreme("ReduceMax", "ArgMax"), _extreme("ReduceMin", "ArgMin")


# ---- moments
def _moments(b: Builder, x: Value, dim: Any, correction: Any, keepdim: bool) -> tuple[Value, Value]:
    """The variance and the mean."""
    axes = b.axes(dim, x.rank)
    kept = [1 if d in axes else size for d, size in enumerate(x.shape)]
    if any(x.shape[axis] == 0 for axis in axes):  # onnxruntime's mean of nothing is 0
        nothing = b.op("Div", b.op("ReduceSum", x, b.ints(axes), keepdims=int(keepdim), shape=b.shape), b.constant(0, x.dtype))
        return nothing, nothing
    mean = b.op("ReduceMean", x, b.ints(axes), keepdims=1, shape=kept)
    centred = b.op("Sub", x, mean)
    variance = b.op("ReduceMean", b.op("Mul", centred, centred), b.ints(axes), keepdims=int(keepdim), shape=b.shape)
    if correction and all(x.size(axis) is not None for axis in axes):
        count = math.prod(x.shape[axis] for axis in axes)
        factor = count / (count - correction) if count > correction else math.inf
        variance = b.op("Mul", variance, b.constant(factor, x.dtype), shape=b.shape)
    elif correction:
        sizes = b.op("Gather", b.shape_of(x), b.ints(axes), axis=0, dtype=dtypes.int64, shape=(len(axes),))
        count = b.cast(b.op("ReduceProd", sizes, keepdims=0, dtype=dtypes.int64, shape=()), x.dtype)
        rest = b.op("Max", b.op("Sub", count, b.constant(correction, x.dtype)), b.constant(0, x.dtype))
        variance = b.op("Div", b.op("Mul", variance, count, shape=b.shape), rest, shape=b.shape)
    return variance, mean if keepdim else b.squeeze(mean, axes)


def _variance_arguments(args: Any, options: dict[str, Any]) -> tuple[Any, Any, bool]:
    """Dimension, correction and keepdim of the overloads of ``var``."""
    if "correction" in options or not args or not isinstance(args[0], bool):
        dim = args[0] if args else options.get("dim")
        unbiased = args[1] if len(args) > 1 else options.get("unbiased", True)
        keepdim = args[2] if len(args) > 2 else options.get("keepdim", False)
        correction = options.get("correction", 1 if unbiased else 0)
        return dim, 1 if correction is None else correction, keepdim
    return None, 1 if args[0] else 0, False


@row("var", "var_mean", "std", "std_mean")
def _var(b: Builder, x: Value, *args: Any, **options: Any) -> Any:
    variance, mean = _moments(b, x, *_variance_arguments(args, options))
    name = b.name
    found = b.op("Sqrt", variance) if name.startswith("std") else variance
    return [found, mean] if name.endswith("_mean") else found


@row("linalg_vector_norm", "norm")
def _vector_norm(b: Builder, x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    return vector_norm(b, b.cast(x, b.dtype), ord, dim, keepdim, b.shape)


def vector_norm(b: Builder, x: Value, ord: Any, dim: Any, keepdim: bool = False, shape: Any = None) -> Value:
    """The norm of vectors along dimensions, in ``shape``."""

    def reduced(kind: str, value: Value) -> Value:
        made: Value = b.op(kind, value, b.ints(b.axes(dim, x.rank)), keepdims=int(keepdim), shape=shape)
        return made

    if not x.rank:
        size = b.op("Abs", x)
        return b.op("Sign", size) if ord == 0 else size
    if ord in (1, 2):
        return reduced("ReduceL1" if ord == 1 else "ReduceL2", x)
    size = b.op("Abs", x)
    if ord in (float("inf"), float("-inf")):
        return reduced("ReduceMax" if ord > 0 else "ReduceMin", size)
    if ord == 0:
        return reduced("ReduceSum", b.op("Sign", size))
    total = reduced("ReduceSum", b.op("Pow", size, b.constant(ord, x.dtype)))
    return b.op("Pow", total, b.constant(1 / ord, x.dtype))


# ---- along a dimension
def _soft(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
        x = b.cast(x, b.dtype)
        if not x.rank:
            return b.squeeze(b.op(kind, b.unsqueeze(x, [0]), axis=0), [0])
        return b.op(kind, x, axis=dim % x.rank)

    return translate


for _name in ("softmax.int", "_softmax", "special_softmax"):
    ROWS[_name] = _soft("Softmax")


@row("_safe_softmax")
def _safe_softmax(b: Builder, x: Value, dim: int, dtype: Any = None) -> Value:
    """0 where all of a row is minus infinity."""
    soft, x = _soft("Softmax")(b, x, dim, dtype), b.cast(x, b.dtype)
    axes = b.ints([dim % x.rank] if x.rank else [])
    kept = [1 if x.rank and d == dim % x.rank else size for d, size in enumerate(x.shape)]
    most = b.op("ReduceMax", x, axes, keepdims=1, shape=kept) if x.rank else x
    is_empty = b.op("Equal", most, b.constant(-math.inf, x.dtype), dtype=dtypes.bool_)
    return b.op("Where", is_empty, b.constant(0, x.dtype), soft, dtype=x.dtype, shape=x.shape)


for _name in ("log_softmax.int", "_log_softmax", "special_log_softmax"):
    ROWS[_name] = _soft("LogSoftmax")


@row("cumsum")
@of_vectors
def _cumsum(b: Builder, x: Value, dim: int, *, dtype: Any = None) -> Value:
    return b.op("CumSum", b.cast(x, b.dtype), b.constant(dim % x.rank, dtypes.int64))


@row("topk")
@of_vectors
def _topk(b: Builder, x: Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    found: list[Value] = b.op("TopK", x, b.sizes([k]), axis=dim % x.rank, largest=int(largest), sorted=int(sorted), count=2, shape=b.shape)
    found[1].dtype = dtypes.int64
    return found


def _sorted(b: Builder, x: Value, dim: int, descending: bool) -> list[Value]:
    axis = dim % x.rank
    count = b.slice(b.shape_of(x), 0, axis, axis + 1, shape=(1,))
    found: list[Value] = b.op("TopK", x, count, axis=axis, largest=int(descending), sorted=1, count=2, shape=x.shape)
    found[1].dtype = dtypes.int64
    return found


@row("sort")
@of_vectors
def _sort(b: Builder, x: Value, dim: int = -1, descending: bool = False, **options: Any) -> list[Value]:
    return _sorted(b, x, dim, descending)


@row("argsort")
@of_vectors
def _argsort(b: Builder, x: Value, dim: int = -1, descending: bool = False, **options: Any) -> Value:
    return _sorted(b, x, dim, descending)[1]


@row("einsum")
def _einsum(b: Builder, equation: str, operands: list[Value], path: Any = None) -> Value:
    return b.op("Einsum", *operands, equation=_plain_equation(equation, operands), shape=b.shape)


def _plain_equation(equation: str, operands: list[Value]) -> str:
    """An equation in lower-case letters, with a result, and with letters for the dimensions of ellipses, which may be of other numbers."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    letters = {letter for letter in equation if letter.isalpha()}
    free = [letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in letters]
    widths = [value.rank - sum(letter.isalpha() for letter in term) for term, value in zip(terms, operands, strict=True)]
    most = max([width for term, width in zip(terms, widths, strict=True) if "..." in term], default=0)
    if len(free) < most + sum(letter.isupper() for letter in letters):
        raise SymbolicValueError("an equation of more than 26 letters is not supported", equation)
    dots = [free.pop() for _ in range(most)]
    if not arrow:
        result = "..." * ("..." in given) + "".join(sorted(letter for letter in letters if given.count(letter) == 1))
    lower = str.maketrans({letter: free.pop() for letter in sorted(letters) if letter.isupper()})
    terms = [
        term.replace("...", "".join(dots[most - width :])) if "..." in term else term for term, width in zip(terms, widths, strict=True)
    ]
    return f"{','.join(terms)}->{result.replace('...', ''.join(dots))}".translate(lower)


@row("count_nonzero")
def _count_nonzero(b: Builder, x: Value, dim: Any = None) -> Value:
    return _reduce(b, "ReduceSum", b.cast(b.cast(x, dtypes.bool_), dtypes.int64), dim, False)


@row("trace")
def _trace(b: Builder, x: Value) -> Value:
    rows, columns = x.size(0), x.size(1)
    if rows is not None and columns is not None and rows != columns:
        for axis in (0, 1):
            x = b.slice(x, axis, 0, min(rows, columns), shape=(*x.shape[:axis], min(rows, columns), *x.shape[axis + 1 :]))
    return b.op("Einsum", x, equation="ii->", shape=())


@row("linalg_det", "det")
def _det(b: Builder, x: Value) -> Value:
    return b.op("Det", x, shape=b.shape)


@row("diff")
def _diff(b: Builder, x: Value, n: int = 1, dim: int = -1, prepend: Value | None = None, append: Value | None = None) -> Value:
    axis = dim % x.rank
    parts = [part for part in (prepend, x, append) if part is not None]
    x = x if len(parts) == 1 else b.op("Concat", *parts, axis=axis, shape=(*x.shape[:axis], None, *x.shape[axis + 1 :]))
    for _ in range(n):
        later, earlier = b.slice(x, axis, 1, 2**63 - 1), b.slice(x, axis, 0, -1)
        x = b.op("Xor" if x.dtype is dtypes.bool_ else "Sub", later, earlier)
    x.shape = b.shape
    return x
