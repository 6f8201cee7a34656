"""Factories for sparse layouts: tensors without elements, or with the indices of another tensor."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..calls.creation import require_grad
from ..device import cpu
from ..layout import layout, sparse_coo
from ..tensor import Tensor, wrap
from .sparse import BACKENDS, BLOCKED, BY_ROW, SparseArray, coo, sparse_array

_EMPTY = frozenset(("zeros", "empty", "zeros_like", "empty_like", "new_zeros", "new_empty"))
_FILLED = {"ones_like": 1}


def made(entry: Any, new: Any, values: Any) -> Tensor | None:
    """The tensor that a factory makes where its layout is sparse; None where it makes a dense one all the same.

    Raises:
        NotImplementedError: a factory that has no sparse form, or another device than the CPU.
        RuntimeError: a layout that cannot have that shape.
    """
    if new.layout not in BACKENDS:
        raise NotImplementedError(f"{entry.name}: layout {new.layout} is not supported")
    if new.where != cpu:
        raise NotImplementedError(f"{entry.name}: sparse tensors on device '{new.where}' are not supported")
    kind = new.dtype_or_default().numpy
    model = None if entry.model is None else values[entry.model]
    array = model._array if isinstance(model, Tensor) else None
    if entry.name.endswith("_like") and array is not None:
        if array.__class__ is SparseArray and array.layout is new.layout and array.layout is not sparse_coo and entry.name != "zeros_like":
            filled = np.full(array.values.shape, _filling(entry, values), kind)
            return _finished(new, array.with_values(filled))
        if entry.name in _EMPTY:
            return _finished(new, without_elements(new.layout, array.shape, kind, array if array.__class__ is SparseArray else None))
    elif entry.name in _EMPTY:
        _, rest, _ = entry.arguments
        shape = new.sizes(values[rest], values[entry.names.index("size")])
        return _finished(new, without_elements(new.layout, shape, kind))
    elif "data" in entry.names and "layout" not in new.options:
        data = values[entry.names.index("data")]
        if entry.name == "as_tensor" or not isinstance(data, Tensor) or data._array.__class__ is not SparseArray:
            return None
        return _finished(new, data._array.copy().astype(kind))
    _refuse(entry.name, new.layout)


def _filling(entry: Any, values: Any) -> Any:
    if entry.name == "full_like":
        value = values[entry.names.index("fill_value")]
        return value.item() if isinstance(value, Tensor) else value
    if entry.name not in ("ones_like", "empty_like"):
        _refuse(entry.name, "sparse")
    return _FILLED.get(entry.name, 0)


def _refuse(name: str, form: Any) -> NoReturn:
    raise NotImplementedError(f"{name}(...) is not implemented for sparse layout {form}")


def _finished(new: Any, array: SparseArray) -> Tensor:
    tensor = wrap(array)
    if new.out is not None:
        if new.out._array.__class__ is not SparseArray:
            raise RuntimeError(f"{new.name}: expected 'out' of layout {array.layout}, got {new.out.layout}")
        new.out._array.adopt(array)
        tensor = new.out
    return require_grad(tensor) if new.requires_grad else tensor


def without_elements(form: layout, shape: Any, kind: np.dtype, model: SparseArray | None = None) -> SparseArray:
    """A sparse array of zeros.

    Args:
        model: one whose sparse and dense dimensions, or blocks, it takes where it has the same layout.
    Raises:
        RuntimeError: less than two dimensions in a compressed layout, or blocks of unknown size.
    """
    shape = tuple(shape)
    if model is not None and model.layout is form:
        return model.astype(kind).emptied()
    if form is sparse_coo:
        return coo(np.zeros((len(shape), 0), np.int64), np.zeros(0, kind), shape, True)
    if form in BLOCKED or len(shape) < 2:
        raise RuntimeError(f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size {list(shape)}")
    batch, rows, columns = shape[:-2], shape[-2], shape[-1]
    count = rows if form in BY_ROW else columns
    parts = (np.zeros((*batch, count + 1), np.int64), np.zeros((*batch, 0), np.int64))
    return sparse_array(form, shape, parts, np.zeros((*batch, 0), kind))
