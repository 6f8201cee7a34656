"""Rows of complex numbers and of Fourier transforms.

ONNX computes with real numbers only. A complex tensor is one of pairs there, with a last dimension of 2 for the real and the imaginary
part; a ``Value`` of a complex dtype has the sizes without it. What only moves or adds elements has the row for real tensors, on each of the
parts; what multiplies has a row here.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.checks import SymInt
from ...fx.node import map_aggregate
from ..builder import Builder, Value
from ..errors import SymbolicValueError
from . import row_of

COMPLEX_ROWS: dict[str, Callable[..., Any]] = {}

# Operations that work on the real and on the imaginary part alone.
_BY_PARTS = frozenset(
    "alias cat chunk clone concat concatenate constant_pad_nd contiguous cumsum detach diagonal expand flatten flip gather index "
    "index_select lift_fresh_copy masked_fill mean movedim narrow neg permute repeat reshape roll select slice slice_scatter split "
    "split_with_sizes squeeze stack sum t transpose tril triu unbind unflatten unfold unsqueeze view _unsafe_view zeros new_zeros "
    "zeros_like select_scatter swapaxes resolve_conj resolve_neg copy".split()
)


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is the row of these operations, where an operand or the result is complex."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPLEX_ROWS.update(dict.fromkeys(names, function))
        return function

    return register


def complex_row_of(func: Any) -> Callable[..., Any] | None:
    """The row of an overload for complex operands; None where there is none."""
    if func.namespace != "aten":
        return None
    name = func._opname
    for base in (name, name.removesuffix("_")):
        if base in COMPLEX_ROWS:
            return COMPLEX_ROWS[base]
        if base in _BY_PARTS and (plain := row_of(func)) is not None:
            return _by_parts(plain)
    return None


# ---- pairs
def pairs(z: Value) -> Value:
    """A complex tensor as the real one of pairs that it is in ONNX."""
    return Value(z.name, z.dtype.to_real(), (*z.shape, 2))


def of_pairs(x: Value) -> Value:
    """A real tensor of pairs as a complex one."""
    return Value(x.name, x.dtype.to_complex(), x.shape[:-1])


def part(b: Builder, z: Value, k: int) -> Value:
    """The real (0) or the imaginary part (1)."""
    real = pairs(z)
    made: Value = b.op("Gather", real, b.constant(k, dtypes.int64), axis=real.rank - 1, shape=z.shape)
    return made


def joined(b: Builder, real: Value, imaginary: Value) -> Value:
    """Two parts as one complex tensor."""
    last = real.rank
    both = b.op("Concat", b.unsqueeze(real, [last]), b.unsqueeze(imaginary, [last]), axis=last, shape=(*real.shape, 2))
    return of_pairs(both)


def both(b: Builder, value: Any, dtype: Any) -> tuple[Value, Value]:
    """The parts of a tensor or of a number, in a real dtype."""
    if not isinstance(value, Value):
        number = complex(value)
        return b.constant(number.real, dtype), b.constant(number.imag, dtype)
    if value.dtype.is_complex:
        return b.cast(part(b, value, 0), dtype), b.cast(part(b, value, 1), dtype)
    return b.cast(value, dtype), b.constant(0, dtype)


def _real_like(result: Any) -> Any:
    """The dtype and the shape of the real part of a result, for a row to read."""
    if isinstance(result, (tuple, list)):
        return [_real_like(each) for each in result]
    return types.SimpleNamespace(dtype=result.dtype.to_real(), shape=tuple(result.shape))


def _by_parts(plain: Callable[..., Any]) -> Callable[..., Any]:
    def translate(b: Builder, *args: Any, **options: Any) -> Any:
        b.result = _real_like(b.result)

        def run(k: int) -> Any:
            def of(leaf: Any) -> Any:
                is_complex = isinstance(leaf, Value) and leaf.dtype.is_complex
                return part(b, leaf, k) if is_complex else (leaf.real, leaf.imag)[k] if isinstance(leaf, complex) else leaf

            return plain(b, *map_aggregate(args, of), **map_aggregate(options, of))

        real, imaginary = run(0), run(1)
        if isinstance(real, list):
            return [joined(b, *each) for each in zip(real, imaginary, strict=True)]
        return joined(b, real, imaginary)

    return translate


# ---- made of real tensors, and taken apart
@row("complex")
def _complex(b: Builder, real: Value, imaginary: Value) -> Value:
    shape = b.shape_of_both(real, imaginary) if real.shape != imaginary.shape else None
    if shape is not None:
        real, imaginary = b.expand(real, shape), b.expand(imaginary, shape)
    return joined(b, real, imaginary)


@row("polar")
def _polar(b: Builder, size: Value, angle: Value) -> Value:
    return joined(b, *[b.op("Mul", size, b.op(kind, angle), shape=b.shape) for kind in ("Cos", "Sin")])


COMPLEX_ROWS["view_as_real"] = COMPLEX_ROWS["view_as_real_copy"] = lambda b, z: pairs(z)
COMPLEX_ROWS["view_as_complex"] = COMPLEX_ROWS["view_as_complex_copy"] = lambda b, x: of_pairs(x)
COMPLEX_ROWS["real"] = lambda b, z: part(b, z, 0)
COMPLEX_ROWS["imag"] = lambda b, z: part(b, z, 1)


@row("abs", "absolute")
def _abs(b: Builder, z: Value) -> Value:
    return b.op("ReduceL2", pairs(z), b.ints([z.rank]), keepdims=0, shape=z.shape)


@row("angle")
def _angle(b: Builder, z: Value) -> Value:
    from . import ROWS

    made: Value = ROWS["atan2"](b, part(b, z, 1), part(b, z, 0))
    return made


@row("conj", "_conj", "conj_physical", "_conj_physical", "_conj_copy")
def _conj(b: Builder, z: Value) -> Value:
    real = pairs(z)
    return of_pairs(b.op("Mul", real, b.constant([1, -1], real.dtype)))


@row("_to_copy", "to", "type_as")
def _to(b: Builder, x: Value, *args: Any, **options: Any) -> Value:
    real = b.dtype.to_real() if b.dtype.is_complex else b.dtype
    parts = both(b, x, real)
    if not b.dtype.is_complex:
        return parts[0]
    return joined(b, parts[0], b.expand(parts[1], b.shape_of(x), x.shape))


# ---- arithmetic
def _spread(b: Builder, real: Value, imaginary: Value) -> Value:
    """The parts of a result, both in its shape."""
    if real.shape != imaginary.shape or real.shape != b.shape:
        shape = b.shape_of_both(real, imaginary)
        real, imaginary = b.expand(real, shape), b.expand(imaginary, shape)
    return joined(b, real, imaginary)


def _added(kind: str, turned: bool = False) -> Callable[..., Any]:
    def translate(b: Builder, x: Any, y: Any, alpha: Any = 1) -> Value:
        real = b.dtype.to_real()
        x, y = (y, x) if turned else (x, y)
        if isinstance(alpha, complex) or (alpha != 1 and turned):
            raise SymbolicValueError("complex sums with such a factor are not supported", alpha)
        left, right = both(b, x, real), both(b, y, real)
        if alpha != 1:
            right = tuple([b.op("Mul", each, b.constant(alpha, real)) for each in right])
        return _spread(b, *[b.op(kind, p, q, shape=_wider_of(p, q)) for p, q in zip(left, right, strict=True)])

    return translate


def _wider_of(p: Value, q: Value) -> tuple[Any, ...]:
    from .indexing import _wider

    return _wider(p, q)


COMPLEX_ROWS["add"], COMPLEX_ROWS["sub"], COMPLEX_ROWS["rsub"] = _added("Add"), _added("Sub"), _added("Sub", True)


def _product(b: Builder, kind: str, left: tuple[Value, Value], right: tuple[Value, Value], shape: Any) -> tuple[Value, Value]:
    (a, c), (d, e) = left, right
    ad, ce, ae, cd = (b.op(kind, p, q, shape=shape) for p, q in ((a, d), (c, e), (a, e), (c, d)))
    return b.op("Sub", ad, ce), b.op("Add", ae, cd)


def _products(kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Any, y: Any) -> Value:
        real = b.dtype.to_real()
        for value in (x, y):
            if kind == "MatMul" and not value.dtype.is_complex:
                raise SymbolicValueError("products of real and complex matrices are not supported", value)
        found = _product(b, kind, both(b, x, real), both(b, y, real), b.shape)
        return joined(b, *found) if kind == "MatMul" else _spread(b, *found)

    return translate


COMPLEX_ROWS.update(dict.fromkeys(("mul", "multiply"), _products("Mul")))
COMPLEX_ROWS.update(dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), _products("MatMul")))


@row("square")
def _square(b: Builder, z: Value) -> Value:
    parts = both(b, z, b.dtype.to_real())
    return joined(b, *_product(b, "Mul", parts, parts, z.shape))


@row("div", "divide", "true_divide")
def _div(b: Builder, x: Any, y: Any) -> Value:
    real = b.dtype.to_real()
    left, (c, d) = both(b, x, real), both(b, y, real)
    if isinstance(y, Value) and not y.dtype.is_complex:
        return _spread(b, *[b.op("Div", each, c, shape=_wider_of(each, c)) for each in left])
    size = b.op("Add", b.op("Mul", c, c), b.op("Mul", d, d))
    found = _product(b, "Mul", left, (c, b.op("Neg", d)), b.shape)
    return _spread(b, *[b.op("Div", each, size, shape=b.shape) for each in found])


@row("reciprocal")
def _reciprocal(b: Builder, z: Value) -> Value:
    return _div(b, 1.0, z)


@row("exp")
def _exp(b: Builder, z: Value) -> Value:
    real, imaginary = both(b, z, b.dtype.to_real())
    size = b.op("Exp", real)
    return joined(b, *[b.op("Mul", size, b.op(kind, imaginary)) for kind in ("Cos", "Sin")])


# ---- Fourier transforms
def _transformed(b: Builder, x: Value, axis: int, inverse: bool, onesided: bool = False) -> Value:
    """One dimension of a real tensor, whose last dimension is of numbers (1) or of pairs (2), without a factor."""
    size = x.shape[axis]
    shape = (*x.shape[:axis], *([_half(size)] if onesided else [size]), *x.shape[axis + 1 : -1], 2)
    flags: dict[str, Any] = {"inverse": int(inverse), "onesided": int(onesided), "shape": shape}
    if b.opset >= 20:
        found = b.op("DFT", x, None, b.constant(axis, dtypes.int64), **flags)
    else:
        found = b.op("DFT", x, axis=axis, **flags)
    if not inverse:
        made: Value = found
        return made
    made = b.op("Mul", found, _count(b, x, axis))  # ONNX divides by the size
    return made


def _half(size: Any) -> Any:
    return None if isinstance(size, SymInt) or size is None else size // 2 + 1


def _count(b: Builder, x: Value, axis: int) -> Value:
    """The size of a dimension as a number of the tensor's dtype."""
    if x.size(axis) is not None:
        return b.constant(x.shape[axis], x.dtype)
    size = b.op("Shape", x, start=axis, end=axis + 1, dtype=dtypes.int64, shape=(1,))
    return b.cast(b.squeeze(size, [0]), x.dtype)


def _scaled(b: Builder, found: Value, counts: list[Value], normalization: int) -> Value:
    """Divided by the number of elements that were transformed (2), or by its root (1)."""
    if not normalization:
        return found
    total = counts[0]
    for count in counts[1:]:
        total = b.op("Mul", total, count, shape=())
    made: Value = b.op("Div", found, b.op("Sqrt", total) if normalization == 1 else total)
    return made


@row("_fft_r2c")
def _fft_r2c(b: Builder, x: Value, dim: Any, normalization: int, onesided: bool) -> Value:
    axes = [d % x.rank for d in dim]
    x = b.cast(x, b.dtype.to_real())
    found = b.unsqueeze(x, [x.rank])
    counts = [_count(b, found, axis) for axis in axes]
    found = _transformed(b, found, axes[-1], False, onesided)
    for axis in axes[:-1]:
        found = _transformed(b, found, axis, False)
    found.shape = (*b.shape, 2)
    return of_pairs(_scaled(b, found, counts, normalization))


@row("_fft_c2c")
def _fft_c2c(b: Builder, z: Value, dim: Any, normalization: int, forward: bool) -> Value:
    found = pairs(z)
    axes = [d % z.rank for d in dim]
    counts = [_count(b, found, axis) for axis in axes]
    for axis in axes:
        found = _transformed(b, found, axis, not forward)
    return of_pairs(_scaled(b, found, counts, normalization))


@row("_fft_c2r")
def _fft_c2r(b: Builder, z: Value, dim: Any, normalization: int, last_dim_size: Any) -> Value:
    """The half that is left out is the conjugate of the other, in reverse."""
    if isinstance(last_dim_size, (Value, SymInt)):
        raise SymbolicValueError("inverse transforms to real tensors of symbolic sizes are not supported", last_dim_size)
    axes, size = [d % z.rank for d in dim], int(last_dim_size)
    found, last = pairs(z), axes[-1]
    for axis in axes[:-1]:
        found = _transformed(b, found, axis, True)
    places = np.arange(size)
    is_other = places > size // 2
    shape = (*found.shape[:last], size, *found.shape[last + 1 :])
    whole = b.op("Gather", found, b.constant(np.where(is_other, size - places, places), dtypes.int64), axis=last, shape=shape)
    signs = np.ones((size, *[1] * (found.rank - last - 2), 2))
    signs[is_other, ..., 1] = -1
    whole = b.op("Mul", whole, b.constant(signs, whole.dtype))
    counts = [_count(b, whole, axis) for axis in axes]
    found = _scaled(b, _transformed(b, whole, last, True), counts, normalization)
    return b.op("Gather", found, b.constant(0, dtypes.int64), axis=z.rank, shape=b.shape)


# ---- short-time transforms
@row("stft")
def _stft(
    b: Builder, x: Value, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Value | None = None, *rest: Any
) -> Value:
    center, mode, *words = rest if len(rest) > 1 and isinstance(rest[1], str) else (False, "reflect", *rest)
    normalized, onesided = (*words, *(False, None)[len(words) :])[:2]
    if x.dtype.is_complex:
        raise SymbolicValueError("stft of complex signals is not supported", x)
    signal = x if x.rank == 2 else b.unsqueeze(x, [0])
    if center:
        word = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}.get(mode)
        if word is None:
            raise SymbolicValueError("stft with another padding than 'constant', 'reflect' and 'replicate' is not supported", mode)
        filler = b.constant(0, x.dtype) if word == "constant" else None
        signal = b.op("Pad", signal, b.ints([n_fft // 2] * 2), filler, b.ints([1]), mode=word, shape=(signal.shape[0], None))
    step = b.constant(n_fft // 4 if hop_length is None else hop_length, dtypes.int64)
    weights = _window(b, n_fft, n_fft if win_length is None else win_length, window, x.dtype)
    half = int(onesided is not False)
    bins = n_fft // 2 + 1 if half else n_fft
    frames = b.op("STFT", signal, step, weights, b.constant(n_fft, dtypes.int64), onesided=half, shape=(signal.shape[0], None, bins, 2))
    if normalized:
        frames = b.op("Div", frames, b.constant(n_fft**0.5, x.dtype))
    turned = b.transpose(frames, [0, 2, 1, 3])
    found = of_pairs(turned if x.rank == 2 else b.squeeze(turned, [0]))
    found.shape = b.shape
    return found


def _window(b: Builder, n_fft: int, length: int, window: Value | None, dtype: Any) -> Value:
    """The window, in the middle of zeros where it is shorter."""
    weights = b.constant(np.ones(length), dtype) if window is None else b.cast(window, dtype)
    left = (n_fft - length) // 2
    if length == n_fft:
        return weights
    made: Value = b.op("Pad", weights, b.ints([left, n_fft - length - left]), b.constant(0, dtype), shape=(n_fft,))
    return made
