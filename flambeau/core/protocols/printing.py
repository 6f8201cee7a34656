"""The text of a tensor: ``repr``, ``str``, ``format`` and the options that steer them.

Only NumPy and the attributes ``_array``, ``dtype``, ``requires_grad`` and ``grad_fn`` are needed for a strided tensor. The work is
proportional to what is printed: a summarised tensor is cut down to its edges before a single number is looked at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..calls.casting import widened
from ..dtype import PAIR, bool_, complex64, complex128, float64, get_default_dtype, int64
from ..state import run_ignoring_fp

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_format", "tensor_repr"]


@dataclasses.dataclass(slots=True)
class _Options:
    """Options of ``set_printoptions``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


OPTIONS = _Options()

PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Choose how tensors are printed from here on. Nothing but text changes.

    Args:
        precision: digits after the point of floating point numbers.
        threshold: number of elements above which a tensor is summarised with ``...``.
        edgeitems: elements shown at each end of each dimension of a summarised tensor.
        linewidth: characters in a line before the elements wrap.
        profile: ``"default"``, ``"short"`` or ``"full"``, a set of values for the four arguments above; those that are also given win.
        sci_mode: scientific notation always (True), never (False) or where the magnitudes need it (None). Every call sets it.
    Raises:
        ValueError: unknown ``profile``.
    Source: torch.set_printoptions.
    """
    if profile is not None:
        if profile not in PROFILES:
            raise ValueError(f"set_printoptions: expected profile to be one of {', '.join(map(repr, PROFILES))}, got {profile!r}")
        for name, value in PROFILES[profile].items():
            setattr(OPTIONS, name, value)
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for ``set_printoptions``.

    Source: torch._tensor_str.get_printoptions.
    """
    return dataclasses.asdict(OPTIONS)


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Other print options inside a ``with`` block; the old ones come back at its end.

    Args:
        kwargs: as for ``set_printoptions``.
    Source: torch._tensor_str.printoptions.
    """
    before = get_printoptions()
    try:
        set_printoptions(**kwargs)
        yield
    finally:
        set_printoptions(**before)


class _Number:
    """Width and notation shared by all numbers of one (summarised) tensor.

    Zeros, infinities and NaNs take no part in the choice, so that one NaN does not change how the rest looks.
    """

    __slots__ = ("is_integral", "precision", "uses_exponent", "width")

    def __init__(self, sample: np.ndarray, zero: float = 0.0) -> None:
        self.precision = OPTIONS.precision
        self.is_integral = True
        self.uses_exponent = False
        self.width = 1
        # PyTorch finds float8_e8m0fnu's NaN finite, because that type has no infinity to compare with.
        counts_nan = zero != 0.0
        values = sample[(np.isfinite(sample) | counts_nan) & (sample != zero)]
        if values.size == 0:
            return
        magnitudes = np.abs(values)
        smallest, largest = float(magnitudes.min()), float(magnitudes.max())
        self.is_integral = bool((values == np.ceil(values)).all())
        if OPTIONS.sci_mode is None:
            self.uses_exponent = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
        else:
            self.uses_exponent = OPTIONS.sci_mode
        # e+99 and e+100 differ in width, so every number counts; without an exponent the extremes on either side of zero decide.
        widest = values.tolist() if self.uses_exponent or counts_nan else (values.min(), values.max())
        form = f".{self.precision}e" if self.uses_exponent else ".0f" if self.is_integral else f".{self.precision}f"
        point = self.is_integral and not self.uses_exponent
        self.width = max(len(format(float(value), form)) for value in widest) + point

    def text(self, value: float) -> str:
        if self.uses_exponent:
            return f"{value:{self.width}.{self.precision}e}"
        if not self.is_integral:
            return f"{value:{self.width}.{self.precision}f}"
        return (f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}").rjust(self.width)


class _Whole:
    """Width shared by the elements of an integer or bool tensor."""

    __slots__ = ("width",)

    def __init__(self, sample: np.ndarray) -> None:
        # The longest text belongs to an extreme, or is "False".
        self.width = max((len(str(value)) for value in (sample.min().item(), sample.max().item())), default=1) if sample.size else 1

    def text(self, value: int) -> str:
        return str(value).rjust(self.width)


class _Complex:
    """Real and imaginary parts, each with a width and notation of its own."""

    __slots__ = ("imag", "real", "width")

    def __init__(self, sample: np.ndarray) -> None:
        self.real = _Number(sample.real)
        self.imag = _Number(sample.imag)
        self.width = self.real.width + self.imag.width + 1

    def text(self, value: complex) -> str:
        imag = self.imag.text(value.imag).lstrip()
        return f"{self.real.text(value.real)}{'' if imag.startswith(('-', '+')) else '+'}{imag}j"


def _zero_of(numpy_dtype: np.dtype) -> float:
    """The number that a comparison with 0 finds: all bits clear, which is 2**-127 in float8_e8m0fnu, a type without a zero."""
    return 0.0 if numpy_dtype == PAIR else float(np.zeros((), numpy_dtype).real)


def _formatter_of(array: np.ndarray, zero: float) -> _Number | _Whole | _Complex:
    """The formatter for what ``_as_doubles`` gave."""
    if array.dtype.kind == "f":
        return _Number(array, zero)
    return _Complex(array) if array.dtype.kind == "c" else _Whole(array)


def _edges(array: np.ndarray, edgeitems: int) -> np.ndarray:
    """The first and last ``edgeitems`` of every dimension that is longer than both together."""
    kept = [np.arange(n) if n <= 2 * edgeitems else np.r_[:edgeitems, n - edgeitems : n] for n in array.shape]
    return array[np.ix_(*kept)]


def _as_doubles(array: np.ndarray) -> np.ndarray:
    """Floating point values as float64 (complex128), in which all of them are exact; others unchanged."""
    if array.dtype.kind in "biu":
        return array
    if array.dtype == PAIR:
        array = widened(array)
    # Widening a signalling NaN raises NumPy's "invalid value" flag, which is no business of whoever prints.
    return run_ignoring_fp(array.astype, np.complex128 if array.dtype.kind == "c" else np.float64)


def _elements_text(array: np.ndarray, indent: int) -> str:
    """The bracketed elements of a non-empty array whose text starts in column ``indent``."""
    is_summarised = array.size > OPTIONS.threshold
    if is_summarised and not OPTIONS.edgeitems and array.ndim:
        return "[...]"
    shape, zero = array.shape, _zero_of(array.dtype)
    array = _as_doubles(_edges(array, OPTIONS.edgeitems) if is_summarised and array.ndim else array)
    formatter = _formatter_of(array, zero)
    cuts = [is_summarised and n > 2 * OPTIONS.edgeitems for n in shape]
    return _nested_text(array.tolist(), cuts, indent, formatter)


def _nested_text(values: Any, cuts: list[bool], indent: int, formatter: _Number | _Whole | _Complex) -> str:
    """Text of nested lists; ``cuts`` says for each level whether an ellipsis stands in its middle."""
    dim = len(cuts)
    if dim == 0:
        return formatter.text(values)
    if dim == 1:
        parts = [formatter.text(value) for value in values]
        if cuts[0]:
            parts.insert(OPTIONS.edgeitems, " ...")
        per_line = max(1, math.floor((OPTIONS.linewidth - indent) / (formatter.width + 2)))
        lines = [", ".join(parts[start : start + per_line]) for start in range(0, len(parts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_nested_text(value, cuts[1:], indent + 1, formatter) for value in values]
    if cuts[0]:
        parts.insert(OPTIONS.edgeitems, "...")
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(parts) + "]"


def _array_of(tensor: Any) -> np.ndarray:
    """The tensor's elements in host memory."""
    array = tensor._array
    return array if isinstance(array, np.ndarray) else array.get()


def elements_of(tensor: Any, indent: int) -> str:
    """The bracketed elements of a tensor that has some."""
    return _elements_text(_array_of(tensor), indent)


def _part_text(name: str, part: Any, indent: int, is_meta: bool) -> str:
    """``name=tensor(...)`` for one of the tensors that make up a sparse tensor."""
    prefix = f"{name}=tensor("
    if is_meta:
        text = "..."
    else:
        array = _array_of(part)
        text = _elements_text(array, indent + len(prefix)) if array.size else "[]"
    if is_meta or math.prod(part.shape) == 0:
        text += f", size={tuple(part.shape)}"
    return f"{prefix}{text})"


def _sparse_text(tensor: Any, layout: str, indent: int) -> str:
    """Indices and values of a sparse tensor, one below the other."""
    if layout == "torch.sparse_coo":
        parts = {"indices": tensor._indices(), "values": tensor._values()}
    elif layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        parts = {"crow_indices": tensor.crow_indices(), "col_indices": tensor.col_indices(), "values": tensor.values()}
    else:
        parts = {"ccol_indices": tensor.ccol_indices(), "row_indices": tensor.row_indices(), "values": tensor.values()}
    is_meta = tensor.device.type == "meta"
    return (",\n" + " " * indent).join(_part_text(name, part, indent, is_meta) for name, part in parts.items())


def _strided_text(tensor: Any, indent: int, suffixes: list[str], contents: str | None) -> str:
    """Contents of a strided tensor; the size and dtype that the reader cannot see from them go to ``suffixes``."""
    dtype, default, shape = tensor.dtype, get_default_dtype(), tuple(tensor.shape)
    is_meta, is_empty = tensor.device.type == "meta", 0 in shape
    if is_meta or (is_empty and len(shape) != 1) or (not is_empty and not OPTIONS.edgeitems):
        suffixes.append(f"size={shape}")
    # Without elements nothing hints at int64 or bool, so only the default dtype stays unsaid.
    if dtype != default and (is_meta or is_empty or not _goes_without_saying(dtype, default)):
        suffixes.append(f"dtype={dtype}")
    if contents is not None:
        return contents
    if is_meta:
        return "..."
    return "[]" if is_empty else _elements_text(_array_of(tensor), indent)


def _goes_without_saying(dtype: Any, default: Any) -> bool:
    """Whether elements written as literals would get this dtype by themselves."""
    return dtype in (default, complex128 if default is float64 else complex64, int64, bool_)


def with_suffixes(text: str, suffixes: list[str], indent: int, breaks_first: bool) -> str:
    """``text, suffix, suffix)``, with a new line before each suffix that would pass the line width."""
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if breaks_first or column + len(suffix) + 2 > OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
            breaks_first = False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def _history_suffix(tensor: Any) -> str | None:
    """Text for the tensor's part in the graph: its node, a leaf, or None for neither."""
    try:
        node = tensor.grad_fn
    except RuntimeError:  # raised by a subclass's own code, perhaps
        # A view whose base was changed out of the graph's sight has no history to show, but can still be printed.
        return "grad_fn=<Invalid>"
    if node is not None:
        return f"grad_fn=<{type(node).__name__}>"
    return "requires_grad=True" if tensor.requires_grad else None


def tensor_repr(tensor: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor as ``repr`` and ``print`` show it.

    Args:
        tensor: the tensor, of any dtype, layout and device.
        tensor_contents: text in place of the bracketed elements.
    Returns:
        ``tensor(...)``, for a subclass with its own name, with the attributes that differ from the defaults behind the elements.
    Source: torch.Tensor.__repr__.
    """
    return text_of(tensor, tensor_contents)


def text_of(tensor: Any, tensor_contents: str | None = None, *more: str) -> str:
    """``tensor_repr``, with more attributes behind the others."""
    from ..tensor import Parameter, Tensor

    is_plain = type(tensor) in (Tensor, Parameter)
    prefix = "tensor(" if is_plain else f"{type(tensor).__name__}("
    indent = len(prefix)
    suffixes: list[str] = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    layout = str(getattr(tensor, "layout", "torch.strided"))
    if layout == "torch.strided":
        contents = _strided_text(tensor, indent, suffixes, tensor_contents)
    else:
        suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.device.type != "meta":
            suffixes.append(f"nnz={tensor._nnz()}")
        if not _goes_without_saying(tensor.dtype, get_default_dtype()):
            suffixes.append(f"dtype={tensor.dtype}")
        contents = _sparse_text(tensor, layout, indent) if tensor_contents is None else tensor_contents
        suffixes.append(f"layout={layout}")
    history = _history_suffix(tensor)
    if history is not None:
        suffixes.append(history)
    suffixes += more
    text = with_suffixes(prefix + contents, suffixes, indent, breaks_first=layout == "torch.sparse_coo")
    return f"Parameter({text})" if isinstance(tensor, Parameter) and not is_plain else text


def tensor_format(tensor: Any, spec: str) -> str:
    """``format(tensor, spec)``: a tensor without dimensions formats its number, any other its text.

    Args:
        tensor: the tensor.
        spec: a format specification; must be empty unless ``tensor`` is a plain 0-d one.
    Raises:
        TypeError: non-empty ``spec`` for a tensor that is not a plain 0-d one.
    Source: torch.Tensor.__format__.
    """
    from ..tensor import Tensor

    if type(tensor) is Tensor and len(tensor.shape) == 0 and tensor.device.type != "meta":
        return format(_as_doubles(_array_of(tensor)).item(), spec)
    return object.__format__(tensor, spec)
