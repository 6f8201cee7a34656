"""``torch._foreach_*``: one operation on each tensor of a list. Optimizers of other packages are written with them.

The functions are made from the operations of the same names; in-place forms change the tensors and return the list they were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ..core.calls.registry import resolve
from ..core.tensor import Tensor

__all__ = ["names"]

_UNARY = frozenset(
    (
        "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt sigmoid "
        "sign sin sinh sqrt tan tanh trunc"
    ).split()
)
# Whose second operand may be a number for all, or a number, or a tensor, for each; those in _SCALED take ``alpha`` with a list of tensors.
_BINARY = frozenset("add sub mul div clamp_max clamp_min maximum minimum pow".split())
_SCALED = frozenset(("add", "sub"))
_ONE_TENSOR = frozenset(("add", "mul", "div"))  # also take a 0-d tensor for all
_CLAMP = {"maximum": "clamp_min", "minimum": "clamp_max"}  # the same with numbers, and in place
_TERNARY = frozenset(("addcdiv", "addcmul"))
_OTHERS = frozenset(("clone", "copy_", "lerp", "lerp_", "max", "mm", "norm", "powsum", "zero_"))
_BASES = _UNARY | _BINARY | _TERNARY


def names() -> set[str]:
    """Every function's name."""
    return {f"_foreach_{base}{suffix}" for base in _BASES for suffix in ("", "_")} | {f"_foreach_{name}" for name in _OTHERS}


def _tensors(name: str, values: Any) -> Sequence[Tensor]:
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, Tensor) for value in values):
        raise TypeError(f"{name}() expected a list or tuple of tensors, got {type(values).__name__}")
    if not values:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return values


def _equally_long(first: Sequence[Tensor], *others: Sequence[Tensor]) -> None:
    for other in others:
        if len(other) != len(first):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(first)} and {len(other)}")


def _is_list_of_tensors(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and isinstance(value[0], Tensor)


def _one_each(tensors: Sequence[Tensor], scalars: Any) -> Sequence[Any]:
    """A number, or a list of them, as one for each tensor."""
    if not isinstance(scalars, (list, tuple)):
        return [scalars] * len(tensors)
    if len(scalars) != len(tensors):
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return scalars


def _named_operand(name: str, named: dict[str, Any], words: tuple[str, ...]) -> Any:
    """The operand that a form of a function calls by another name."""
    if len(named) != 1 or next(iter(named)) not in words:
        raise TypeError(f"{name}() expected one of {', '.join(words)}, got {', '.join(named) or 'none'}")
    return next(iter(named.values()))


def _finish(name: str, values: Any, results: list[Tensor]) -> Any:
    return values if name.endswith("_") else tuple(results)


def _unary(name: str, base: str) -> Callable[..., Any]:
    operation = getattr(Tensor, base) if hasattr(Tensor, base) else resolve("torch", base)

    def function(self: Any) -> Any:
        return _finish(name, self, [operation(tensor) for tensor in _tensors(name, self)])

    return function


def _binary(name: str, base: str) -> Callable[..., Any]:
    plain = base.rstrip("_")
    inplace = base[len(plain) :]
    with_numbers = getattr(Tensor, _CLAMP.get(plain, plain) + inplace)
    operation = with_numbers if inplace else getattr(Tensor, plain)

    def function(self: Any, other: Any = None, *, alpha: Any = 1, **named: Any) -> Any:
        if other is None:
            other = _named_operand(name, named, ("scalar", "scalars", "exponent", "other"))
        if plain == "pow" and not inplace and not isinstance(self, (list, tuple)):
            return tuple(resolve("torch", "pow")(self, exponent) for exponent in _tensors(name, other))
        tensors = _tensors(name, self)
        operands = _operands(name, plain, tensors, other)
        takes_alpha = plain in _SCALED and isinstance(operands[0], Tensor)
        if alpha != 1 and not takes_alpha:
            raise TypeError(f"{name}() takes alpha with tensors only, and not at all but for sums and differences")
        options = {"alpha": alpha} if takes_alpha else {}
        apply = operation if isinstance(operands[0], Tensor) else with_numbers
        return _finish(name, self, [apply(tensor, operand, **options) for tensor, operand in zip(tensors, operands, strict=True)])

    return function


def _operands(name: str, plain: str, tensors: Sequence[Tensor], other: Any) -> Sequence[Any]:
    """The second operand as one for each tensor."""
    if _is_list_of_tensors(other):
        _equally_long(tensors, other)
        return other
    if isinstance(other, Tensor):
        if other.dim():
            raise RuntimeError(f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and {other.numel()} elements.")
        other = other if plain in _ONE_TENSOR else other.item()
    return _one_each(tensors, other)


def _ternary(name: str, base: str) -> Callable[..., Any]:
    operation = getattr(Tensor, base)

    def function(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        tensors, first, second = (_tensors(name, values) for values in (self, tensor1, tensor2))
        _equally_long(tensors, first, second)
        factors = value if scalars is None else scalars
        if isinstance(factors, Tensor):
            if factors.dim() != 1:
                raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {factors.dim()} instead.")
            if factors.numel() != len(tensors):
                raise RuntimeError(f"Expected length of scalars to match input of length {len(tensors)} but got {factors.numel()} instead.")
            factors = factors.tolist()
        each = zip(tensors, first, second, _one_each(tensors, factors), strict=True)
        return _finish(name, self, [operation(a, b, c, value=factor) for a, b, c, factor in each])

    return function


def _lerp(name: str, base: str) -> Callable[..., Any]:
    operation = getattr(Tensor, base)

    def function(self: Any, tensors1: Any, weights: Any = None, **named: Any) -> Any:
        if weights is None:
            weights = _named_operand(name, named, ("weight",))
        tensors, ends = _tensors(name, self), _tensors(name, tensors1)
        _equally_long(tensors, ends)
        if _is_list_of_tensors(weights):
            _equally_long(tensors, weights)
        each = zip(tensors, ends, _one_each(tensors, weights), strict=True)
        return _finish(name, self, [operation(start, end, weight) for start, end, weight in each])

    return function


def _norm(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    vector_norm = resolve("linalg", "vector_norm")
    return tuple(vector_norm(tensor, ord, dtype=dtype) for tensor in _tensors("_foreach_norm", self))


def _powsum(self: Any, ord: Any = 2, dtype: Any = None) -> Any:
    for tensor in _tensors("_foreach_powsum", self):
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise NotImplementedError(f"_foreach_powsum: expected floating point or complex tensors, got {tensor.dtype}")
    return tuple(tensor.abs().pow(ord).sum(dtype=dtype) for tensor in _tensors("_foreach_powsum", self))


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    tensors, sources = _tensors("_foreach_copy_", self), _tensors("_foreach_copy_", src)
    _equally_long(tensors, sources)
    for tensor, source in zip(tensors, sources, strict=True):
        tensor.copy_(source, non_blocking)
    return self


def _mm(self: Any, mat2: Any) -> Any:
    first, second = _tensors("_foreach_mm", self), _tensors("_foreach_mm", mat2)
    _equally_long(first, second)
    return tuple(a.mm(b) for a, b in zip(first, second, strict=True))


_BY_HAND = {"norm": _norm, "powsum": _powsum, "copy_": _copy_, "mm": _mm}


@cache
def function(name: str) -> Callable[..., Any]:
    """The function of that name.

    Raises:
        AttributeError: there is none.
    """
    if name not in names():
        raise AttributeError(f"module 'torch' has no attribute '{name}'")
    base = name.removeprefix("_foreach_")
    plain = base.removesuffix("_")
    if base in _BY_HAND:
        result: Any = _BY_HAND[base]
    elif plain == "lerp":
        result = _lerp(name, base)
    elif plain in _BINARY:
        result = _binary(name, base)
    elif plain in _TERNARY:
        result = _ternary(name, base)
    else:
        result = _unary(name, base)
    result.__name__ = result.__qualname__ = name
    result.__module__ = "torch"
    result.__doc__ = f"``{base}`` of each tensor of a list. Source: torch.{name}."
    return result
