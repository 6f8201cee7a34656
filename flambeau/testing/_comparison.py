"""``assert_close``: numbers, tensors, arrays and nested containers of them, equal within their dtype's tolerance."""

from __future__ import annotations

import cmath
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ops
from ..core import dtype as dtypes
from ..core.dtype import dtype as DType, promote_types
from ..core.tensor import Tensor

# Relative and absolute tolerance by dtype; all others are compared exactly.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_NUMBERS = (int, float, complex, np.number)
_BOOLS = (bool, np.bool_)


@dataclass(frozen=True, slots=True)
class _Rules:
    """The options of one comparison."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *types: DType) -> tuple[float, float]:
        """``rtol`` and ``atol`` as given, or the larger ones of the dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(str(dtype).removeprefix("torch."), (0.0, 0.0)) for dtype in types]
        return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


class _Mismatch(Exception):
    """Description of a difference."""


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless ``actual`` and ``expected`` are close: ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Args:
        actual, expected: tensors, arrays, numbers, bools or None, or sequences and mappings of them, nested at will.
        allow_subclasses: compare a type with its subclasses too.
        rtol, atol: both, or none of them for what the dtypes suggest.
        equal_nan: whether NaN equals NaN.
        check_device: require equal devices. Values are compared on the CPU; those of meta tensors are not.
        check_dtype: require equal dtypes; otherwise both are cast to the common one.
        check_layout: require equal layouts.
        check_stride: require equal strides.
        msg: error text, or a function from the text made here to another.
    Raises:
        AssertionError: they are not close, or of different shape, dtype, stride, length or keys.
        TypeError: a pair of types that cannot be compared.
        ValueError: only one of ``rtol`` and ``atol``.
    Source: torch.testing.assert_close.
    Example:
        >>> torch.testing.assert_close(torch.tensor(1.0), torch.tensor(1.0 + 1e-7))
        >>> torch.testing.assert_close({"a": 1.0}, {"a": 1.5}, msg="too far")
        Traceback (most recent call last):
            ...
        AssertionError: too far
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.")
    if rtol is not None and atol is not None and (rtol < 0 or atol < 0):
        raise ValueError(f"assert_close: expected tolerances of at least 0, got rtol={rtol} and atol={atol}")
    rules = _Rules(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    try:
        pairs = list(_pairs(actual, expected, rules, ""))
        for left, right, where in pairs:
            try:
                _compare(left, right, rules)
            except _Mismatch as mismatch:
                raise _Mismatch(f"{mismatch}{_place(where)}") from None
    except _Mismatch as mismatch:
        text = str(mismatch)
        if msg is not None:
            text = msg(text) if callable(msg) else msg
        raise AssertionError(text) from None


def _place(where: str) -> str:
    return f"\n\nThe failure occurred for item {where}" if where else ""


def _pairs(actual: Any, expected: Any, rules: _Rules, where: str) -> Any:
    """The single values of two nested containers, side by side, and where they are."""
    if _are(actual, expected, Sequence) and not _are_any(actual, expected, (str, bytes)):
        if len(actual) != len(expected):
            raise _Mismatch(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{_place(where)}")
        for i, (left, right) in enumerate(zip(actual, expected, strict=True)):
            yield from _pairs(left, right, rules, f"{where}[{i}]")
    elif _are(actual, expected, Mapping):
        missing, additional = [key for key in expected if key not in actual], [key for key in actual if key not in expected]
        if missing or additional:
            lines = ["The keys of the mappings do not match:"]
            lines += [f"Missing keys in the actual mapping: {_sorted(missing)}"] if missing else []
            lines += [f"Additional keys in the actual mapping: {_sorted(additional)}"] if additional else []
            raise _Mismatch("\n".join(lines) + _place(where))
        for key in _sorted(list(actual)):
            yield from _pairs(actual[key], expected[key], rules, f"{where}[{key!r}]")
    elif _can_compare(actual, expected, rules):
        yield actual, expected, where
    else:
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.{_place(where)}")


def _are(actual: Any, expected: Any, classes: Any) -> bool:
    return isinstance(actual, classes) and isinstance(expected, classes)


def _are_any(actual: Any, expected: Any, classes: Any) -> bool:
    return isinstance(actual, classes) or isinstance(expected, classes)


def _sorted(keys: list[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except TypeError:
        return keys


def _can_compare(actual: Any, expected: Any, rules: _Rules) -> bool:
    if actual is None or expected is None or _are(actual, expected, _BOOLS) or _are(actual, expected, _NUMBERS):
        return True
    if not (_are(actual, expected, Tensor) or _are(actual, expected, np.ndarray)):
        return False
    one, other = type(actual), type(expected)
    return one is other or (rules.allow_subclasses and (issubclass(one, other) or issubclass(other, one)))


def _compare(actual: Any, expected: Any, rules: _Rules) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}")
    elif _are(actual, expected, _BOOLS):
        if bool(actual) is not bool(expected):
            raise _Mismatch(f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")
    elif _are(actual, expected, _NUMBERS):
        _compare_numbers(_number(actual), _number(expected), rules)
    else:
        _compare_tensors(_tensor(actual), _tensor(expected), rules)


# ---- numbers


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.number) else value


def _compare_numbers(actual: Any, expected: Any, rules: _Rules) -> None:
    if rules.check_dtype and type(actual) is not type(expected):
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    kinds = {float: dtypes.float64, complex: dtypes.complex128}
    rtol, atol = rules.tolerances(*(kinds.get(type(number), dtypes.int64) for number in (actual, expected)))
    if actual == expected or (rules.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return
    difference = abs(actual - expected)
    if cmath.isfinite(actual) and cmath.isfinite(expected) and difference <= atol + rtol * abs(expected):
        return
    relative = difference / abs(expected) if expected != 0 else math.inf
    raise _Mismatch(_scalars_differ(actual, expected, difference, relative, rtol, atol))


def _allowed(tolerance: float, rtol: float, atol: float) -> str:
    return f" (up to {tolerance} allowed)" if rtol or atol else ""


def _scalars_differ(actual: Any, expected: Any, difference: Any, relative: Any, rtol: float, atol: float) -> str:
    return (
        f"Scalars are not {'close' if rtol or atol else 'equal'}!\n\nExpected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_allowed(atol, rtol, atol)}\nRelative difference: {relative}{_allowed(rtol, rtol, atol)}"
    )


# ---- tensors


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        return ops.as_tensor(value)
    return value.detach() if type(value) is Tensor else value.detach().as_subclass(Tensor)


def _compare_tensors(actual: Tensor, expected: Tensor, rules: _Rules) -> None:
    checks = [
        ("shape", actual.shape, expected.shape, True),
        ("layout", actual.layout, expected.layout, rules.check_layout),
        ("stride()", actual.stride(), expected.stride(), rules.check_stride),
        ("device", actual.device, expected.device, rules.check_device),
        ("dtype", actual.dtype, expected.dtype, rules.check_dtype),
    ]
    for name, one, other, wanted in checks:
        if wanted and one != other:
            raise _Mismatch(f"The values for attribute '{name}' do not match: {one} != {other}.")
    rtol, atol = rules.tolerances(actual.dtype, expected.dtype)
    common = promote_types(actual.dtype, expected.dtype)
    if actual.is_meta or expected.is_meta:
        return
    actual, expected = actual.to("cpu", common), expected.to("cpu", common)
    matches = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=rules.equal_nan).numpy()
    if not matches.all():
        raise _Mismatch(_difference(_wide(actual), _wide(expected), matches, rtol, atol))


def _wide(tensor: Tensor) -> np.ndarray:
    """The values in a dtype in which differences can be taken."""
    dtype = tensor.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        return tensor.to(dtypes.int64).numpy()
    return tensor.numpy() if dtype in (dtypes.float64, dtypes.complex64, dtypes.complex128) else tensor.to(dtypes.float32).numpy()


def _difference(actual: np.ndarray, expected: np.ndarray, matches: np.ndarray, rtol: float, atol: float) -> str:
    """Number of elements that differ, and the largest difference."""
    with np.errstate(all="ignore"):
        absolute = np.where(matches, 0, np.abs(actual - expected))
        # Quotients of integers are of the default dtype.
        parts = (array.astype(np.float32) if array.dtype.kind == "i" else array for array in (absolute, np.abs(expected)))
        relative = np.where(matches, 0, np.divide(*parts))
    if not matches.ndim:
        return _scalars_differ(actual.item(), expected.item(), absolute.item(), relative.item(), rtol, atol)
    mismatched = matches.size - int(matches.sum())
    lines = [
        f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!",
        "",
        f"Mismatched elements: {mismatched} / {matches.size} ({mismatched / matches.size:.1%})",
    ]
    for name, values, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        place = np.unravel_index(int(np.argmax(values)), values.shape)
        where = tuple(int(i) for i in place)
        lines.append(f"Greatest {name} difference: {values[place].item()} at index {where}{_allowed(tolerance, rtol, atol)}")
    return "\n".join(lines)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True, msg: str = ""
) -> None:
    """``assert_close`` without checks of dtype and stride. Deprecated: use ``assert_close``.

    Args:
        actual, expected: tensors, or what ``torch.tensor`` takes.
        rtol, atol, equal_nan, msg: as in ``assert_close``.
    Raises:
        AssertionError: they are not close.
    Source: torch.testing.assert_allclose.
    Example:
        >>> torch.testing.assert_allclose(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]))
    """
    warnings.warn("`torch.testing.assert_allclose()` is deprecated; use `torch.testing.assert_close()`", FutureWarning, stacklevel=2)
    one, other = (value if isinstance(value, Tensor) else ops.tensor(value) for value in (actual, expected))
    if rtol is None and atol is None:
        rules = _Rules(True, None, None, equal_nan, False, False, False, False)
        rtol, atol = rules.tolerances(one.dtype, other.dtype)
    assert_close(one, other, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, check_stride=False, msg=msg or None)
