"""Element types: their NumPy counterparts, their categories, and PyTorch's rules of promotion.

Promotion looks at three kinds of operand: tensors with dimensions, 0-d tensors and Python numbers.  A later kind changes the
dtype only where its category (bool < integer < float < complex) is higher: ``int8_tensor + 3.5`` is float32, ``int8_tensor + 3``
stays int8.  ``promote`` holds the table for two dtypes of the same kind, ``result_dtype`` applies the three kinds.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BOOL, INTEGER, FLOATING, COMPLEX = range(4)


class dtype:
    """Element type of a tensor, such as ``torch.float32``; instances are unique and compare by identity.

    Args:
        name, legacy, numpy, category, is_signed, itemsize: of one of the instances, all of which are made when the package is imported.
    Attributes:
        itemsize: bytes of one element.
        abbr: the short name in dumps of graphs, such as ``'f32'``.
        is_floating_point, is_complex, is_signed: category facts.
        numpy: the ``np.dtype`` of arrays of this type, None for a type that exists in name only.
    Source: torch.dtype.
    Example:
        >>> torch.float16.itemsize, torch.float16.is_floating_point, torch.complex64.to_real()
        (2, True, torch.float32)
    """

    __slots__ = ("abbr", "category", "is_complex", "is_floating_point", "is_signed", "itemsize", "legacy", "name", "numpy")

    def __init__(self, name: str, legacy: str, numpy: Any, category: int, is_signed: bool, itemsize: int):
        self.name, self.legacy, self.category, self.is_signed, self.itemsize = name, legacy, category, is_signed, itemsize
        self.numpy: Any = None if numpy is None else np.dtype(numpy)
        self.is_floating_point, self.is_complex = category == FLOATING, category == COMPLEX
        self.abbr = _abbreviation(name)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if self.name == "bool" else self.name

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> dtype:
        return self

    def to_real(self) -> dtype:
        """The dtype of the real and imaginary parts; itself when not complex."""
        return {complex32: float16, complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this dtype."""
        if self.is_complex:
            return self
        complex_dtype = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}.get(self)
        if complex_dtype is None:
            raise RuntimeError(f"to_complex: expected a floating-point dtype, got {self}")
        return complex_dtype


def _abbreviation(name: str) -> str:
    """``'f32'`` for ``'float32'``, ``'b8x1'`` for ``'bits8'``; narrow integers keep their names."""
    if name == "bool":
        return "b8"
    if name.startswith("bits"):
        return f"b{name[4:]}" if "x" in name else f"b{name[4:]}x1"
    word = name.rstrip("0123456789")
    short = {"float": "f", "complex": "c", "bfloat": "bf", "int": "i", "uint": "u"}.get(word)
    if short is not None:
        return name if word.endswith("int") and int(name[len(word) :]) < 8 else short + name[len(word) :]
    return "f" + name[5:].replace("_x2", "x2").replace("_", "") if name.startswith("float4") else name.replace("float8_", "f8")


# Tensors of these hold integers of NumPy's and say what they stand for (``protocols/quantized.py``); of the last two there are names only.
_QUANTIZED = (
    ("qint8", "QInt8", 1),
    ("quint8", "QUInt8", 1),
    ("qint32", "QInt32", 4),
    ("quint4x2", "QUInt4x2", 1),
    ("quint2x4", "QUInt2x4", 1),
)

# NumPy has no complex numbers of twice 16 bits: complex32 lies in memory as pairs, which casts alone understand. Everything that
# computes gets complex64.
PAIR = np.dtype([("real", np.float16), ("imag", np.float16)])

# name, legacy tensor type's word, NumPy type, category, signed, bytes
_TABLE = (
    ("bool", "Bool", np.bool_, BOOL, False, 1),
    ("uint8", "Byte", np.uint8, INTEGER, False, 1),
    ("int8", "Char", np.int8, INTEGER, True, 1),
    ("int16", "Short", np.int16, INTEGER, True, 2),
    ("int32", "Int", np.int32, INTEGER, True, 4),
    ("int64", "Long", np.int64, INTEGER, True, 8),
    ("uint16", "UInt16", np.uint16, INTEGER, False, 2),
    ("uint32", "UInt32", np.uint32, INTEGER, False, 4),
    ("uint64", "UInt64", np.uint64, INTEGER, False, 8),
    ("float16", "Half", np.float16, FLOATING, True, 2),
    ("bfloat16", "BFloat16", ml_dtypes.bfloat16, FLOATING, True, 2),
    ("float32", "Float", np.float32, FLOATING, True, 4),
    ("float64", "Double", np.float64, FLOATING, True, 8),
    ("complex32", "ComplexHalf", PAIR, COMPLEX, True, 4),
    ("complex64", "ComplexFloat", np.complex64, COMPLEX, True, 8),
    ("complex128", "ComplexDouble", np.complex128, COMPLEX, True, 16),
    ("float8_e4m3fn", "Float8_e4m3fn", ml_dtypes.float8_e4m3fn, FLOATING, True, 1),
    ("float8_e4m3fnuz", "Float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, FLOATING, True, 1),
    ("float8_e5m2", "Float8_e5m2", ml_dtypes.float8_e5m2, FLOATING, True, 1),
    ("float8_e5m2fnuz", "Float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, FLOATING, True, 1),
    ("float8_e8m0fnu", "Float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, FLOATING, False, 1),
    # Of these there are names only, as PyTorch has no operations for them.
    ("float4_e2m1fn_x2", "Float4_e2m1fn_x2", None, FLOATING, True, 1),
    *((f"{word}int{bits}", f"{word.upper()}Int{bits}", None, INTEGER, not word, 1) for word in ("", "u") for bits in range(1, 8)),
    *((name, legacy, None, INTEGER, name[1] != "u", size) for name, legacy, size in _QUANTIZED),
    *((f"bits{bits}", f"Bits{bits}", None, INTEGER, False, 2 if bits == "16" else 1) for bits in ("1x8", "2x4", "4x2", "8", "16")),
)
_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "bit": "uint1",
}
ALL: dict[str, dtype] = {row[0]: dtype(*row) for row in _TABLE}
ALL.update({alias: ALL[name] for alias, name in _ALIASES.items()})

bool_ = ALL["bool"]
uint8, int8, int16, int32, int64 = (ALL[n] for n in ("uint8", "int8", "int16", "int32", "int64"))
uint16, uint32, uint64 = (ALL[n] for n in ("uint16", "uint32", "uint64"))
float16, bfloat16, float32, float64 = (ALL[n] for n in ("float16", "bfloat16", "float32", "float64"))
complex32, complex64, complex128 = (ALL[n] for n in ("complex32", "complex64", "complex128"))
float8_e4m3fn, float8_e4m3fnuz, float8_e5m2 = (ALL[n] for n in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"))
qint8, quint8, qint32 = ALL["qint8"], ALL["quint8"], ALL["qint32"]
float8_e5m2fnuz, float8_e8m0fnu = ALL["float8_e5m2fnuz"], ALL["float8_e8m0fnu"]

# np.dtype.num is a plain int, so this look-up is several times cheaper than hashing the np.dtype itself.
BY_NUM: dict[int, dtype] = {d.numpy.num: d for d in ALL.values() if d.numpy is not None}
BY_NUM[np.dtype(np.longlong).num], BY_NUM[np.dtype(np.ulonglong).num] = int64, uint64

REDUCED = frozenset((float16, bfloat16))  # kernels compute these in float32
WIDENED = {float16: float32, bfloat16: float32, complex32: complex64}
FLOAT8 = frozenset(d for d in ALL.values() if d.name.startswith("float8"))
NARROW = REDUCED | FLOAT8  # element-wise kernels
_BAREBONES = frozenset((uint16, uint32, uint64))
_SIGNED_ORDER = (int8, int16, int32, int64)
_FLOAT_ORDER = (float16, float32, float64)


def of_array(array: np.ndarray) -> dtype:
    """The dtype of a NumPy array (or NumPy scalar)."""
    try:
        return BY_NUM[array.dtype.num]
    except KeyError:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. The only supported types are: float64, float32, "
            "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        ) from None


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a in FLOAT8 or b in FLOAT8:
        raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {a.legacy} and {b.legacy}")
    if a.category < b.category:
        a, b = b, a
    if (a in _BAREBONES or b in _BAREBONES) and not a.is_floating_point:
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a.legacy} and {b.legacy}")
    if a.category > b.category:
        if a.is_complex and b.is_floating_point:
            return _promote(a.to_real(), b).to_complex() if b is not bfloat16 or a is not complex32 else complex64
        return a
    if a.is_complex:
        return complex128 if complex128 in (a, b) else complex64
    if a.is_floating_point:
        if bfloat16 in (a, b):
            other = b if a is bfloat16 else a
            return float32 if other is float16 else other
        return max(a, b, key=_FLOAT_ORDER.index)
    if uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return max(a, b, key=_SIGNED_ORDER.index)


_promoted: dict[tuple[dtype, dtype], dtype] = {}


def promote(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that both fit in, by PyTorch's table."""
    try:
        return _promoted[a, b]
    except KeyError:
        result = _promoted[a, b] = _promote(a, b)
        return result


_default = float32


def get_default_dtype() -> dtype:
    """The dtype of ``torch.tensor(1.5)`` and of the float factories; float32 unless set.

    Returns: a floating-point dtype.
    Source: torch.get_default_dtype.
    Example:
        >>> torch.get_default_dtype()
        torch.float32
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the default floating-point dtype.

    Args:
        d: a floating-point dtype.
    Raises:
        TypeError: ``d`` is not a floating-point dtype.
    Source: torch.set_default_dtype.
    Example:
        >>> torch.set_default_dtype(torch.float64)
        >>> torch.tensor(1.5).dtype
        torch.float64
        >>> torch.set_default_dtype(torch.float32)
    """
    global _default
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    _default = d


def of_number(value: Any) -> dtype:
    """The dtype that a Python (or NumPy) number stands for among operands."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return _default
    if isinstance(value, (complex, np.complexfloating)):
        return _default.to_complex()
    raise TypeError(f"expected a number, got {type(value).__name__}")


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """``higher``, raised by ``lower`` only where ``lower``'s category is above it."""
    if higher is None or lower is None:
        return higher or lower
    if higher.category >= lower.category or (higher.is_complex):
        return higher
    if lower.is_complex:
        return higher.to_complex() if higher.is_floating_point else lower
    return promote(higher, lower)


def result_dtype(dimensioned: list[dtype], zero_dim: list[dtype], numbers: list[dtype]) -> dtype:
    """The common dtype of operands of the three kinds, by PyTorch's rule."""
    folded = []
    for group in (dimensioned, zero_dim, numbers):
        common = None
        for member in group:
            common = member if common is None else promote(common, member)
        folded.append(common)
    result = _combine(folded[0], _combine(folded[1], folded[2]))
    if result is None:
        raise ValueError("result_dtype: expected at least one operand")
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place or ``out=`` result of dtype ``from_`` may be written into ``to``: the category must not fall.

    Args:
        from_: dtype of the result.
        to: dtype of the tensor that is written to.
    Returns: a bool.
    Source: torch.can_cast.
    Example:
        >>> torch.can_cast(torch.float64, torch.float32), torch.can_cast(torch.float32, torch.int64)
        (True, False)
    """
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and to.category < FLOATING:
        return False
    return not (from_.category == INTEGER and to is bool_)


_CPP_NAMES = {
    "bool": "bool",
    "float32": "float",
    "float64": "double",
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def cpp_name(kind: dtype) -> str:
    """The dtype as C++ calls it."""
    return _CPP_NAMES.get(kind.name, f"c10::{kind.legacy}")


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The dtype of smallest size and category that is not below either.

    Args:
        type1, type2: dtypes.
    Returns: a dtype.
    Source: torch.promote_types.
    Example:
        >>> torch.promote_types(torch.int64, torch.float16), torch.promote_types(torch.uint8, torch.int8)
        (torch.float16, torch.int16)
    """
    return promote(type1, type2)
