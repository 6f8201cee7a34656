"""Tables of vectors looked up by index, sums over bags of them, and one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.copies import limits, zeros
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.registry import composite, op
from ..core.state import wrappers
from ..core.tensor import storage_of, wrap
from .patches import product


def _check_indices(weight: np.ndarray, indices: np.ndarray) -> None:
    """Raise what is wrong with a look-up.

    Raises:
        RuntimeError: indices that are no int64 or int32, or a table that is no matrix.
        IndexError: an index that is no row.
    """
    if indices.dtype != np.int64 and indices.dtype != np.int32:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{dtypes.of_array(indices).legacy}Tensor instead (while checking arguments for embedding)"
        )
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but embedding got a table of shape {list(weight.shape)}")
    if indices.size and (indices.min() < 0 or indices.max() >= weight.shape[0]):
        raise IndexError(f"index out of range in self: embedding has {weight.shape[0]} rows")


def _shares(indices: np.ndarray, rows: int, padding_idx: int, scale_grad_by_freq: bool, kind: np.dtype) -> Any:
    """Factor of each look-up's gradient, or None where all are 1."""
    factor = None
    if scale_grad_by_freq:
        factor = (1 / np.maximum(np.bincount(indices, minlength=rows), 1)).astype(kind).take(indices)
    if padding_idx >= 0:
        skipped = indices == padding_idx
        if skipped.any():
            factor = np.ones(indices.shape, kind) if factor is None else factor
            factor[skipped] = 0
    return factor


def _add_rows(grad_output: np.ndarray, indices: np.ndarray, rows: int, padding_idx: int, scale_grad_by_freq: bool) -> np.ndarray:
    """A table of ``rows`` with the rows of ``grad_output`` added at ``indices``, in order."""
    kind = grad_output.dtype
    flat = indices.reshape(-1)
    table = np.zeros((rows, grad_output.shape[-1]), kind)
    if flat.size == 0:
        return table
    grad = grad_output.reshape(flat.size, -1)
    factor = _shares(flat, rows, padding_idx, scale_grad_by_freq, kind)
    if factor is not None:
        grad = np.where(factor[:, None] == 0, kind.type(0), grad * factor[:, None])
    order = flat.argsort(kind="stable")
    places = flat.take(order)
    starts = np.append(0, np.flatnonzero(places[1:] != places[:-1]) + 1)
    table[places.take(starts)] = np.add.reduceat(grad.take(order, axis=0), starts, axis=0)
    return table


def _rule_of_rows(grad: Any, indices: Any, rows: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
    rows_grad = embedding(grad, indices)
    factor = _shares(indices._array.reshape(-1), rows, padding_idx, scale_grad_by_freq, rows_grad._array.dtype)
    return rows_grad if factor is None else rows_grad * wrap(factor.reshape(*indices._array.shape, 1))


@op(
    name="_embedding_backward",
    fast=lambda grad_output, indices, rows, padding_idx, scale_grad_by_freq: (
        _add_rows(grad_output, indices, rows, padding_idx, scale_grad_by_freq) if grad_output.dtype.kind == "f" else None
    ),
    grad={"grad_output": _rule_of_rows},
    forward="linear",
    meta=lambda new, grad, indices, rows, *rest: new((rows, grad.shape[-1]), grad.dtype),
)
def embedding_backward(grad_output: Tensor, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """The gradient of a table, from that of the vectors looked up."""
    rows_of_grad = _add_rows(opmath(grad_output), indices, rows, padding_idx, scale_grad_by_freq)
    return rows_of_grad.astype(grad_output.dtype, copy=False)


def sparse_gradient(grad: Any, indices: Any, shape: tuple[int, ...], padding_idx: int, scale_grad_by_freq: bool) -> Any:
    """The gradient of a table as a COO tensor of the rows that were looked up, one entry for each look-up.

    Raises:
        RuntimeError: ``scale_grad_by_freq``.
    """
    from .sparse.construction import coo_tensor

    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    places, rows = indices._array.reshape(-1).astype(np.int64), grad.reshape(-1, shape[1])
    if padding_idx >= 0 and (kept := np.flatnonzero(places != padding_idx)).size < places.size:
        places, rows = places[kept], rows.index_select(0, wrap(kept))
    return coo_tensor(wrap(places[None]), rows, shape, places.size < 2)


@op(
    method=False,
    out=False,
    work="indices.size * weight.shape[-1]",
    fast=True,
    grad={
        "weight": lambda grad, indices, weight_shape, padding_idx, scale_grad_by_freq, sparse: (
            sparse_gradient(grad, indices, weight_shape, padding_idx, scale_grad_by_freq)
            if sparse
            else embedding_backward(grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq)
        )
    },
    forward="linear",
)
def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Rows of ``weight`` at ``indices``; see :func:`torch.nn.functional.embedding`, which has another order of arguments.

    Args:
        weight: ``(rows, D)``.
        indices: int64 or int32, any shape.
        padding_idx: row that gets no gradient; -1 for none.
        scale_grad_by_freq: divide each row's gradient by how often it was looked up.
        sparse: give the table's gradient as a COO tensor.
    Returns:
        A copy of the rows, ``(*indices.shape, D)``.
    Raises:
        IndexError: an index that is no row.
        RuntimeError: indices of another dtype, or a table that is no matrix.
    Gradient: each vector's gradient is added to its row.
    Source: torch.embedding.
    Example:
        >>> torch.embedding(torch.tensor([[0.0, 1.0], [10.0, 11.0]]), torch.tensor([1, 1, 0]))
        tensor([[10., 11.],
                [10., 11.],
                [ 0.,  1.]])
    """
    _check_indices(weight, indices)
    return weight.take(indices, axis=0)


@composite(method=False)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows of a table that are looked up and longer than ``max_norm``, in place and unrecorded.

    Args:
        input: ``(rows, D)``.
        indices: which rows to look at, int64 or int32.
        max_norm: greatest length.
        norm_type: exponent of the norm.
    Returns:
        ``input`` itself.
    Raises:
        IndexError: an index that is no row.
    Source: torch.embedding_renorm_.
    Example:
        >>> table = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])
        >>> torch.embedding_renorm_(table, torch.tensor([0, 2]), max_norm=1.0, norm_type=2.0)
        tensor([[0.6000, 0.8000],
                [6.0000, 8.0000],
                [0.3000, 0.4000]])
    """
    table = input._array
    if not kind_of(table).has_values:
        return input
    _check_indices(table, indices._array)
    rows = np.unique(indices._array)
    values = table[rows].astype(np.float64)
    lengths = np.linalg.norm(values, norm_type, axis=1)
    long = lengths > max_norm
    table[rows[long]] = (values[long] * (max_norm / (lengths[long] + 1e-7))[:, None]).astype(table.dtype)
    storage_of(input)._bump()
    return input


def _padding_row(padding_idx: int | None, rows: int) -> int:
    """``padding_idx`` counted from the start; -1 for None.

    Raises:
        AssertionError: no row of the table, as in PyTorch.
    """
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError(f"Padding_idx must be within num_embeddings, got {padding_idx} for {rows}")
    return padding_idx + rows if padding_idx < 0 else padding_idx


@composite(name="embedding", namespace="nn.functional")
def functional_embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table, looked up by index.

    Args:
        input: int64 or int32 indices, any shape.
        weight: the table, ``(rows, D)``.
        padding_idx: row that gets no gradient.
        max_norm: longer rows that are looked up are first scaled to this length, in place.
        norm_type: exponent of that length.
        scale_grad_by_freq: divide each row's gradient by how often it was looked up.
        sparse: give the table's gradient as a COO tensor.
    Returns:
        A copy of the rows, ``(*input.shape, D)``.
    Raises:
        IndexError: an index that is no row.
        RuntimeError: indices of another dtype, or a table that is no matrix.
        AssertionError: a ``padding_idx`` that is no row.
    Gradient: each vector's gradient is added to its row.
    Source: torch.nn.functional.embedding.
    Example:
        >>> table = torch.tensor([[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]])
        >>> F.embedding(torch.tensor([2, 0]), table)
        tensor([[20., 21.],
                [ 0.,  1.]])
    """
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, but embedding got a table of shape {list(weight.shape)}")
    padding = -1 if padding_idx is None else _padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    return embedding(weight, input, padding, scale_grad_by_freq, sparse)


# -- bags ------------------------------------------------------------------------------------------------------------------------
def bags_of(indices: np.ndarray, offsets: Any, include_last_offset: bool) -> tuple[np.ndarray, np.ndarray]:
    """Flat indices, and where each bag starts (one more entry: the end).

    Raises:
        ValueError: offsets missing or given where they must not be.
        RuntimeError: offsets that do not start at 0, fall, or go beyond the end, or none where they end with the end of the last bag.
    """
    if indices.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
                f"However, found offsets of type {type(offsets)}"
            )
        return indices.reshape(-1), np.arange(indices.shape[0] + 1) * indices.shape[1]
    if indices.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {indices.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    starts = offsets._array
    if starts.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if starts.size and starts[0] != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {starts[0]}"
        )
    if starts.size and starts[-1] > indices.size:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length({indices.size}) but got offsets[-1] of {starts[-1]}")
    if (starts[1:] < starts[:-1]).any():
        raise RuntimeError("embedding_bag: expected offsets that do not fall")
    if include_last_offset:
        if not starts.size:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        return indices, starts
    return indices if starts.size else indices[:0], np.append(starts, indices.size if starts.size else 0)


def _is_plain(table: Any) -> bool:
    return table.__class__ is np.ndarray and table.ndim == 2 and table.dtype in (np.float32, np.float64)


def _rule_of_bags(grad: Any, indices: Any, weight_shape: Any, bags: Any, scale_grad_by_freq: bool) -> Any:
    return embedding_backward(embedding(grad, wrap(bags)), indices, weight_shape[0], -1, scale_grad_by_freq)


@op(
    name="_bag_sums",
    node_name="EmbeddingBagBackward0",
    work="indices.size * weight.shape[1]",
    fast=True,
    grad={"weight": _rule_of_bags},
    forward="linear",
)
def bag_sums(weight: Tensor, indices: Tensor, bounds: Any, bags: Any, scale_grad_by_freq: bool) -> Tensor:
    """Sums of the rows of ``weight`` at ``indices``; bag ``b`` has those from ``bounds[b]`` to ``bounds[b + 1]``, which ``bags`` names."""
    result, filled = np.zeros((len(bounds) - 1, weight.shape[1]), weight.dtype), bounds[1:] > bounds[:-1]
    if filled.any():
        result[filled] = np.add.reduceat(weight.take(indices, axis=0), bounds[:-1][filled], axis=0)
    return result


def _check_modes(input: Any, mode: str, scale_grad_by_freq: bool, sparse: bool, per_sample_weights: Any) -> None:
    """Raise where the arguments of a call do not fit each other; see ``embedding_bag``."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode="
                f"'{mode}'). Please open a feature request on GitHub."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have the same shape as "
                f"the input ({list(input.shape)})"
            )


def _row_of(padding_idx: int, count: int) -> int:
    if not -count <= padding_idx < count:
        raise RuntimeError(f"padding_idx must be within the number of embeddings, -{count} through {count - 1} but got {padding_idx}")
    return padding_idx % count


@composite(namespace="nn.functional")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sum, mean or maximum of bags of a table's rows.

    Args:
        input: indices: ``(B, n)`` for bags of n, or ``(N,)`` with ``offsets``.
        weight: the table, ``(rows, D)``.
        offsets: ``(B,)`` where each bag starts, beginning with 0.
        max_norm, norm_type, scale_grad_by_freq, sparse: as for ``embedding``.
        mode: ``'sum'``, ``'mean'`` or ``'max'``; an empty bag gives zeros.
        per_sample_weights: factors of the rows, of ``input``'s shape; for ``'sum'`` only.
        include_last_offset: whether ``offsets`` ends with the end of the last bag.
        padding_idx: row that does not count.
    Returns:
        ``(B, D)``, the table's dtype.
    Raises:
        ValueError: arguments that do not fit each other.
        RuntimeError: an index that is no row, or weights of another dtype than the table.
        NotImplementedError: weights with another mode than ``'sum'``.
    Gradient: each bag's gradient is added to its rows, by their number for ``'mean'``; for ``'max'`` to the largest.
    Source: torch.nn.functional.embedding_bag.
    Example:
        >>> table = torch.tensor([[0.0], [10.0], [20.0]])
        >>> F.embedding_bag(torch.tensor([0, 1, 2, 2]), table, torch.tensor([0, 3]))
        tensor([[10.],
                [20.]])
    """
    if weight.dtype is dtypes.int64 and input.is_floating_point():
        input, weight = weight, input
    _check_modes(input, mode, scale_grad_by_freq, sparse, per_sample_weights)
    if not kind_of(input._array).has_values:
        return _bags_without_values(input, weight, offsets, per_sample_weights, include_last_offset)
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type "
            f"{weight.type()} does not equal {per_sample_weights.type()} (while checking arguments for embedding_bag)"
        )
    indices, bounds = bags_of(input._array, offsets, include_last_offset)
    if indices.size:
        low, high = limits(indices)
        if low < 0 or high >= weight.shape[0]:
            wrong = indices[(indices < 0) | (indices >= weight.shape[0])][0]
            raise RuntimeError(f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {wrong} of {weight.shape[0]}")
    padding = -1 if padding_idx is None else _row_of(padding_idx, weight.shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    keep, bag, counts = _in_bags(indices, bounds, padding)
    if mode != "max" and per_sample_weights is None and not sparse and weight.__class__ not in wrappers and _is_plain(weight._array):
        sums = bag_sums(weight, wrap(indices if keep is None else indices[keep]), np.append(0, counts.cumsum()), bag, scale_grad_by_freq)
    else:
        rows = embedding(weight, wrap(indices if keep is None else indices[keep]), -1, scale_grad_by_freq, sparse)
        if mode == "max":
            return _bag_maxima(rows, bag, counts)
        if weight.dtype in dtypes.REDUCED:
            rows = rows.float()  # or sums stop growing
        if per_sample_weights is not None:
            factors = per_sample_weights.reshape(-1)
            rows = rows * (factors if keep is None else factors[wrap(np.flatnonzero(keep))]).unsqueeze(1)
        sums = rows.new_zeros((counts.size, rows.shape[1])).index_add(0, wrap(bag), rows)
    if mode == "mean":
        sums = sums / wrap(np.maximum(counts, 1).astype(sums._array.dtype)[:, None])
    return sums.to(weight.dtype)


def _in_bags(indices: np.ndarray, bounds: np.ndarray, padding: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Mask of the indices that count (None: all do), the bag that each of these is in, and how many there are in each bag."""
    lengths = np.diff(bounds)
    bag = np.arange(lengths.size).repeat(lengths)
    if padding < 0 and bag.size == indices.size:
        return None, bag, lengths
    keep = (indices != padding) & (np.arange(indices.size) < bounds[-1])
    bag = np.append(bag, np.zeros(indices.size - bag.size, bag.dtype))[keep]
    return keep, bag, np.bincount(bag, minlength=lengths.size)


def _bags_without_values(input: Any, weight: Any, offsets: Any, per_sample_weights: Any, include_last_offset: bool) -> Any:
    """The result for indices on the meta device, which all modes shape alike."""
    count = input.shape[0] if offsets is None else offsets.shape[0] - include_last_offset
    rows = embedding(weight, input.reshape(-1))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1).to(rows.dtype)
    return rows.new_zeros(count, rows.shape[1]).index_add(0, input.new_empty(rows.shape[0]), rows)


def _bag_maxima(rows: Any, bag: np.ndarray, counts: np.ndarray) -> Any:
    """Element-wise maximum of each bag's rows; zeros for empty bags."""
    longest = int(counts.max()) if counts.size else 0
    if longest == 0:
        return rows.new_zeros((counts.size, rows.shape[1]))
    order = bag.argsort(kind="stable")
    places = np.zeros((counts.size, longest), np.int64)
    filled = np.arange(longest) < counts[:, None]
    places[filled] = order
    padded = rows[wrap(places)].masked_fill(wrap(~filled[:, :, None]), -float("inf"))
    return padded.max(1).values.masked_fill(wrap((counts == 0)[:, None]), 0.0)


# -- one-hot -----------------------------------------------------------------------------------------------------------------------
@op(namespace="nn.functional", out=False, grad=None, aten=None, compiled=True)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors that are 1 at an index and 0 elsewhere.

    Args:
        tensor: int64 class indices, any shape.
        num_classes: length of the vectors; one more than the largest index when -1.
    Returns:
        ``(*tensor.shape, num_classes)``, int64.
    Raises:
        RuntimeError: another dtype, or indices below 0 or not below ``num_classes``.
    Source: torch.nn.functional.one_hot.
    Example:
        >>> F.one_hot(torch.tensor([2, 0]))
        tensor([[0, 0, 1],
                [1, 0, 0]])
    """
    if tensor.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.size == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return np.zeros((*tensor.shape, num_classes), np.int64)
    low, high = limits(tensor)
    if low < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        num_classes = int(high) + 1
    if num_classes < 1:
        raise RuntimeError(f"num_classes should be positive, got {num_classes}")
    if high >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    encoded = zeros((product(tensor.shape), num_classes), np.int64)
    encoded[np.arange(encoded.shape[0]), tensor.reshape(-1)] = 1
    return encoded.reshape(*tensor.shape, num_classes)
