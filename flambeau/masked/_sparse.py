"""Sparse data and masks: both specify the same places, so that operations can look at the values alone."""

from __future__ import annotations

from typing import Any

from ..core import dtype as dtypes
from ..core.arrays.sparse import same_places
from ..core.layout import sparse_coo, sparse_csr, strided
from ..core.tensor import Tensor

LAYOUTS = (sparse_coo, sparse_csr)
_MISMATCH = {
    sparse_coo: "data and mask are both sparse COO tensors but do not have the same indices.",
    sparse_csr: "data and mask are both sparse CSR tensors but do not share either crow or col indices.",
}


def is_sparse(value: Any) -> bool:
    """Whether a value is a tensor of another layout than ``torch.strided``."""
    return isinstance(value, Tensor) and value.layout is not strided


def agreeing(data: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Data and mask with the same places; data of another number of places get the mask's, with zeros where they specify nothing.

    Raises:
        TypeError: two layouts, or one that masked tensors do not have. ValueError: other shapes or places.
    """
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout is not strided and data.layout not in LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")
    if data.layout is strided:
        return data, mask
    if data.layout is sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data._nnz() != mask._nnz():
        data = at_places(data, mask)
    if not same_places(data._array, mask._array):
        raise ValueError(_MISMATCH[data.layout])
    return data, mask


def at_places(data: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``data`` at all places of ``mask``; between CSR tensors ``sparse_mask`` leaves out what ``data`` does not specify."""
    return (data.to_sparse() if data.layout is sparse_csr else data).sparse_mask(mask)


def operand(value: Tensor, places: Tensor, name: str) -> Tensor:
    """A tensor beside a masked one with the places of ``places``: of the same places, or one number.

    Raises:
        RuntimeError: a dense tensor of several elements, or COO of another number of places. ValueError: other places, or another layout.
    """
    if value.layout is strided:
        if value.numel() == 1 and value.dim() <= places._array.values.ndim:
            return value
        raise RuntimeError(
            f"{name}: expected a number or a tensor of layout {places.layout} beside a MaskedTensor of that layout, "
            f"got a dense tensor of shape {tuple(value.shape)}; use to_dense()"
        )
    if value.layout is not places.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {value.layout} and {places.layout}")
    if value.shape != places.shape:
        raise ValueError("input1 and input2 must have the same size for binary functions.")
    value = value.coalesce() if value.layout is sparse_coo else value
    if not same_places(value._array, places._array):
        is_other_count = value.layout is sparse_coo and value._nnz() != places._nnz()
        kind = RuntimeError if is_other_count else ValueError  # PyTorch compares indices element by element
        raise kind(f"{name}: expected a tensor with the places of the MaskedTensor beside it, got other {places.layout.name} indices")
    return value


def position(place: Tensor, mask: Tensor, dtype: dtypes.dtype) -> Tensor:
    """Row-by-row position in the dense tensor of the element at a place of the values.

    Raises:
        NotImplementedError: places of more than one element.
    """
    if mask.dense_dim():
        raise NotImplementedError("argmax, argmin: hybrid masked tensors are not supported; use to_dense()")
    found = place.new_zeros((), dtype=dtypes.int64)
    for index, size in zip(mask.to_sparse_coo().indices()[:, place.long()], mask.shape, strict=True):
        found = found * size + index
    return found.to(dtype)
