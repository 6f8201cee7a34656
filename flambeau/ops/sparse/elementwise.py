"""Rules of element-wise operations for sparse operands: functions that keep zeros act on the values; sums join and products meet places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.kinds import host
from ...core.arrays.sparse import (
    BLOCKED,
    SparseArray,
    SparseKind,
    coalesced,
    compressed_of,
    coo,
    coo_from,
    dense_from,
    entries_at,
    keys_of,
    rules,
    same_places,
    unsupported,
)
from ...core.calls.casting import filling_number
from ...core.dtype import of_array
from ...core.layout import sparse_coo, sparse_csc, sparse_csr

# -- functions of the values ------------------------------------------------------------------------------------------------------------
_LINEAR = ("neg", "_conj", "conj_physical", "_real", "_imag")  # no need to add equal places up first


def valuewise(name: str, coalesces: bool = True) -> Callable[..., Any]:
    """The rule of a function that is 0 at 0: the reference, on the values."""

    def rule(op: Any, values: list[Any], compute: Any, result: Any) -> Any:
        array: Any = next((value for value in values if value.__class__ is SparseArray), None)
        if array is not values[0] or sum(hasattr(value, "ndim") for value in values) > 1:
            unsupported(name, *values)
        if coalesces and array.layout is sparse_coo:
            array = coalesced(array)
        return array.with_values(np.asarray(host.run(op, [array.values, *values[1:]], compute, result)))

    rule.takes_op = True  # type: ignore[attr-defined]
    return rule


for _name in _LINEAR:
    rules[_name] = valuewise(_name, False)
SparseKind.rule_at_zero = staticmethod(valuewise)


@rules("fill")
def rule_of_fill(input: SparseArray, value: Any) -> SparseArray:
    if isinstance(value, np.ndarray):
        unsupported("fill_.Tensor", input)
    filled = input.copy()
    filled.fill(filling_number(value, of_array(input)))
    return filled


rules["zero"] = SparseArray.emptied


def with_number(name: str, is_allowed: Callable[[Any], bool]) -> Callable[..., Any]:
    """The rule of a function of the values and a number, where it is 0 at 0."""
    on_values = valuewise(name, True)

    def rule(op: Any, values: list[Any], compute: Any, result: Any) -> Any:
        other: Any = values[1]
        if values[0].__class__ is not SparseArray or getattr(other, "ndim", None) or not is_allowed(other):
            unsupported(name, *[value for value in values if hasattr(value, "ndim")])
        if hasattr(other, "ndim"):
            values = [values[0], other.item(), *values[2:]]
        return on_values(op, values, compute, result)

    rule.takes_op = True  # type: ignore[attr-defined]
    return rule


rules["pow"] = with_number("pow", lambda exponent: exponent > 0)
rules["gt"] = with_number("gt", lambda other: other >= 0)
rules["lt"] = with_number("lt", lambda other: other <= 0)
rules["ne"] = with_number("ne", lambda other: other == 0)


# -- sums -------------------------------------------------------------------------------------------------------------------------------
def _scaled(values: np.ndarray, alpha: Any) -> np.ndarray:
    if alpha.__class__ is np.ndarray or alpha.__class__ is SparseArray:
        alpha = alpha.item()
    if isinstance(alpha, complex) and values.dtype.kind != "c":
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    if isinstance(alpha, float) and values.dtype.kind in "biu":
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return values if not isinstance(alpha, bool) and alpha == 1 else values * np.asarray(alpha).astype(values.dtype)


def require_same_shape(name: str, a: Any, b: Any) -> None:
    if a.shape != b.shape:
        raise RuntimeError(f"{name}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}")


@rules("add")
def total(input: Any, other: Any, alpha: Any = 1, name: str = "add") -> Any:
    """``input + alpha * other`` where at least one is sparse; sparse where both are.

    Raises:
        RuntimeError: a COO tensor plus a dense one, different shapes or layouts.
    """
    if other.__class__ is not SparseArray:
        if input.layout is sparse_coo:
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        require_same_shape(name, input, np.asarray(other))
        return dense_from(input) + _scaled(other, alpha)
    if input.__class__ is not SparseArray:
        require_same_shape(name, np.asarray(input), other)
        return _onto_dense(input, other, alpha)
    require_same_shape(name, input, other)
    if input.layout is not other.layout:
        raise RuntimeError(f"{name}: expected operands of one layout, got {input.layout} and {other.layout}")
    if input.layout is not sparse_coo:
        if input.batch_dim or input.block != other.block:
            unsupported(name, input, other)
        joined = total(coo_from(input), coo_from(other), alpha)
        return compressed_of(joined, input.layout, input.block)
    if input.sparse_dim != other.sparse_dim:
        if not other.nnz:
            return input.copy()
        if not input.nnz:
            return other.with_values(np.array(_scaled(other.values, alpha)))
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same number of sparse dimensions, but {input.sparse_dim} != {other.sparse_dim}"
        )
    if same_places(input, other):
        return input.with_values(input.values + _scaled(other.values, alpha))
    indices = np.concatenate((input.parts[0], other.parts[0]), axis=1)
    joined = coo(indices, np.concatenate((input.values, _scaled(other.values, alpha))), input.shape)
    return coalesced(joined) if input.coalesced and other.coalesced else joined


def _onto_dense(input: np.ndarray, other: SparseArray, alpha: Any) -> np.ndarray:
    if other.layout is not sparse_coo or not other.sparse_dim:
        return input + _scaled(dense_from(other), alpha)
    result = input.copy()
    other = coalesced(other)
    result[tuple(other.parts[0])] += _scaled(other.values, alpha)
    return result


@rules("sub")
def difference(input: Any, other: Any, alpha: Any = 1) -> Any:
    if (input if input.__class__ is SparseArray else other).dtype.kind == "b":
        unsupported("sub", input, other)
    return total(input, other, -alpha, "sub")


rules["rsub"] = lambda input, other, alpha=1: difference(other, input, alpha)


# -- products ---------------------------------------------------------------------------------------------------------------------------
def _is_number(value: Any) -> bool:
    return value.__class__ is not SparseArray and getattr(value, "ndim", 0) == 0


def expanded(array: SparseArray, shape: tuple[int, ...]) -> SparseArray:
    """A COO array with its sizes of 1 repeated, and dimensions put in front."""
    if array.shape == shape:
        return array
    if array.layout is not sparse_coo:
        unsupported("expand", array)
    lead = len(shape) - array.ndim
    count = array.sparse_dim + lead
    full = (1,) * lead + array.shape
    grown = [d for d in range(count) if full[d] != shape[d]]
    sizes = [shape[d] for d in grown]
    copies = np.indices(sizes).reshape(len(grown), math.prod(sizes))
    indices = np.zeros((count, copies.shape[1] * array.nnz), np.int64)
    indices[lead:] = np.tile(array.parts[0], copies.shape[1])
    for d, row in zip(grown, copies, strict=True):
        indices[d] = np.repeat(row, array.nnz)
    values = np.broadcast_to(array.values, (array.nnz, *shape[count:]))
    values = np.concatenate([values] * copies.shape[1]) if copies.shape[1] else values[:0]
    result = coo(indices, values, shape, False)
    return coalesced(result) if array.coalesced else result


@rules("mul")
def product(input: Any, other: Any) -> Any:
    """``input * other`` where at least one is sparse: a sparse array.

    Raises:
        RuntimeError: shapes or layouts that do not go together.
    """
    if _is_number(other):
        return input.with_values(input.values * other)
    if _is_number(input):
        return other.with_values(other.values * input)
    if input.__class__ is SparseArray and other.__class__ is SparseArray:
        return _common(input, other)
    array, dense = (input, other) if input.__class__ is SparseArray else (other, input)
    shape = np.broadcast_shapes(array.shape, dense.shape)
    array = expanded(array, shape)
    factors = entries_at(np.broadcast_to(dense, shape), array)
    values = array.values * factors if array is input else factors * array.values
    return array.with_values(values, array.coalesced and array.sparse_dim == array.ndim)


def _common(a: SparseArray, b: SparseArray) -> SparseArray:
    """Product of two sparse arrays: what both specify."""
    if a.layout is not b.layout and not a.batch_dim and a.shape == b.shape:
        if a.layout is sparse_csr or (a.layout is sparse_csc and b.layout is sparse_coo):
            return compressed_of(_common(coo_from(a), coo_from(b)), a.layout)
    if a.layout is not b.layout:
        raise RuntimeError(f"mul: expected operands of one layout, got {a.layout} and {b.layout}")
    if a.shape != b.shape:
        raise RuntimeError(f"mul: expected 'self' and 'other' to have same sizes, but {list(a.shape)} != {list(b.shape)}")
    if a.layout is not sparse_coo:
        if same_places(a, b):
            return a.with_values(a.values * b.values)
        if a.batch_dim or a.layout in BLOCKED:
            unsupported("mul", a, b)
        return compressed_of(_common(coo_from(a), coo_from(b)), a.layout)
    if a.sparse_dim != b.sparse_dim:
        raise RuntimeError(f"mul(sparse, sparse): inputs must have same number of sparse dimensions, but {a.sparse_dim} != {b.sparse_dim}")
    if not b.coalesced:  # what is not in order keeps all its elements, as in PyTorch
        return b.with_values(entries_at(coalesced(a), b) * b.values)
    if not a.coalesced:
        return a.with_values(a.values * entries_at(b, a))
    keys = keys_of(np.concatenate((a.parts[0], b.parts[0]), axis=1), a.shape[: a.sparse_dim])
    _, left, right = np.intersect1d(keys[: a.nnz], keys[a.nnz :], assume_unique=True, return_indices=True)
    return coo(a.parts[0][:, left], a.values[left] * b.values[right], a.shape, True)


@rules("_threshold_backward")
def rule_of_threshold_backward(grad: Any, input: SparseArray, *rest: Any) -> Any:
    """``grad`` where a value lies above the threshold; what is not specified lies below it."""
    threshold = rest[0] if rest else 0
    return product(grad, input.with_values((input.values > threshold).astype(grad.dtype)))


# -- quotients --------------------------------------------------------------------------------------------------------------------------
def quotient(name: str) -> Callable[..., Any]:
    on_values = valuewise(name, False)
    rounded = valuewise(name, True)

    def rule(op: Any, values: list[Any], compute: Any, result: Any) -> Any:
        if values[0].__class__ is not SparseArray or not _is_number(values[1]):
            shape = list(getattr(values[1], "shape", ()))
            raise RuntimeError(f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)")
        if hasattr(values[1], "ndim"):
            values = [values[0], values[1].item(), *values[2:]]
        return (on_values if op.name == "div" else rounded)(op, values, compute, result)

    rule.takes_op = True  # type: ignore[attr-defined]
    return rule


for _name in ("div", "_divide_rounded", "floor_divide"):
    rules[_name] = quotient(_name)
