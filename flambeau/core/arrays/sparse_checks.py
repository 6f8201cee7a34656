"""Checks of the parts of sparse arrays: everything that memory depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sparse import BACKENDS, BLOCKED, BY_ROW, SparseArray, coo, keys_of, rows_of_compressed, sparse_array


def check_coo(indices: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise where an index lies outside of the shape: NumPy would count it from the end, and SciPy would not look."""
    if not indices.size:
        return
    least, greatest = indices.min(1), indices.max(1)
    for dim, (low, high) in enumerate(zip(least.tolist(), greatest.tolist(), strict=True)):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= shape[dim]:
            raise RuntimeError(f"size is inconsistent with indices: for dim {dim}, size is {shape[dim]} but found index {high}")


WORDS = {True: ("crow_indices", "col_indices"), False: ("ccol_indices", "row_indices")}


def check_compressed(form: Any, compressed: np.ndarray, plain: np.ndarray, values: np.ndarray, shape: tuple[int, ...], full: bool) -> None:
    """Raise where the parts of a compressed tensor do not make one.

    Args:
        full: whether plain indices must be sorted and distinct too.
    """
    by_row, (across, along) = form in BY_ROW, WORDS[form in BY_ROW]
    batch, blocked = compressed.ndim - 1, form in BLOCKED
    dense = values.ndim - batch - 1 - 2 * blocked
    if compressed.ndim < 1 or plain.ndim != compressed.ndim or dense < 0:
        raise RuntimeError(
            f"{across} and {along} dimensionality must be equal and positive but got {compressed.ndim} and {plain.ndim}, respectively"
        )
    if len(shape) != batch + 2 + dense:
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={batch} + 2 + {dense}) but got {len(shape)}"
        )
    if not compressed.shape[:-1] == plain.shape[:-1] == values.shape[:batch] == shape[:batch]:
        raise RuntimeError(
            f"all batch dimensions of {across} (={list(compressed.shape[:-1])}), {along} (={list(plain.shape[:-1])}), and values "
            f"(={list(values.shape[:batch])}) must be equal to tensor batch dimensions (={list(shape[:batch])})"
        )
    if values.shape[batch] != plain.shape[-1]:
        raise RuntimeError(f"{along}.shape[-1] must be equal to the number of values (={values.shape[batch]}), got {plain.shape[-1]}")
    if values.shape[batch + 1 + 2 * blocked :] != shape[batch + 2 :]:
        raise RuntimeError("values.shape[dense part] must be equal to tensor.shape[dense part]")
    high, wide = values.shape[batch + 1 : batch + 3] if blocked else (1, 1)
    rows, columns = shape[batch : batch + 2]
    if not high or not wide or rows % high or columns % wide:
        raise RuntimeError(f"tensor.shape[{batch}:{batch + 2}] must be divisible by blocksize ({high}, {wide})")
    count, other = (rows // high, columns // wide) if by_row else (columns // wide, rows // high)
    if compressed.shape[-1] != count + 1:
        raise RuntimeError(
            f"{across}.shape[-1] must be equal to the number of {'rows' if by_row else 'columns'} + 1 (={count + 1}), "
            f"but got {compressed.shape[-1]}"
        )
    if compressed.size:
        if (compressed[..., 0] != 0).any():
            raise RuntimeError(f"`{across}[..., 0] == 0` is not satisfied.")
        if (compressed[..., -1] != plain.shape[-1]).any():
            raise RuntimeError(f"`{across}[..., -1] == nnz` is not satisfied.")
        steps = np.diff(compressed, axis=-1)
        if (steps < 0).any() or ((steps > other).any() and full):
            raise RuntimeError(f"`0 <= {across}[..., 1:] - {across}[..., :-1] <= {'ncols' if by_row else 'nrows'}` is not satisfied.")
    if plain.size and (plain.min() < 0 or plain.max() >= other):
        raise RuntimeError(f"`0 <= {along} < {'ncols' if by_row else 'nrows'}` is not satisfied.")
    if full and plain.size:
        turned = np.diff(rows_of_compressed(compressed), axis=-1) > 0
        if not ((np.diff(plain, axis=-1) > 0) | turned).all():
            raise RuntimeError(
                f"`{along}[..., {across}[..., i - 1]:{across}[..., i]] for all i = 1, ..., {'nrows' if by_row else 'ncols'} are sorted and "
                "distinct along the last dimension values` is not satisfied."
            )


def checked_array(form: Any, parts: Any, values: np.ndarray, shape: Any, is_coalesced: bool) -> SparseArray:
    """A sparse array of parts that come from anywhere.

    Args:
        is_coalesced: whether COO indices are said to be sorted and distinct.
    Raises:
        RuntimeError: parts that do not make one.
    """
    if form not in BACKENDS or any(part.dtype not in (np.int64, np.int32) for part in parts) or values.__class__ is not np.ndarray:
        raise RuntimeError(f"expected indices of integers and dense values for layout {form}")
    if len(parts) == 2:
        check_compressed(form, parts[0], parts[1], values, shape, False)
        return sparse_array(form, shape, parts, values)
    (indices,) = parts
    if indices.ndim != 2 or not values.ndim or indices.shape[1] != values.shape[0] or shape[len(indices) :] != values.shape[1:]:
        raise RuntimeError(f"expected indices and values of size {list(shape)}, got {list(indices.shape)} and {list(values.shape)}")
    check_coo(indices, shape)
    keys = keys_of(indices, shape[: len(indices)]) if is_coalesced else None
    if keys is not None and not (keys[1:] > keys[:-1]).all():
        raise RuntimeError("expected sorted and distinct indices of a tensor that is said to be coalesced")
    return coo(indices.astype(np.int64, copy=False), values, shape, is_coalesced)
