"""Reading and writing parts of tensors by index tensors that belong to a batch."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ._levels import flat


def getitem(batch: Any, tensor: Any, key: Any) -> Any:
    """``tensor[key]``; NotImplemented where no part of the key belongs to the batch, so that the operations it is made of are called."""
    parts = key if key.__class__ is tuple else (key,)
    if not any(batch.has(each) for each in flat(parts)):
        return NotImplemented
    return batch.examples("index", lambda tensor, key: tensor[key], (tensor, key))


def setitem(batch: Any, tensor: Any, key: Any, value: Any) -> Any:
    """``tensor[key] = value``; NotImplemented as for reading."""
    parts = key if key.__class__ is tuple else (key,)
    if not any(batch.has(each) for each in flat(parts)):
        return NotImplemented
    if not batch.has(tensor):
        from ._batch import _UNBATCHED

        raise RuntimeError(_UNBATCHED.format("index_put"))
    for i in range(batch.size):
        tensor._inner[i][_example(batch, key, i)] = _example(batch, value, i)
    return None


def _example(batch: Any, value: Any, i: int) -> Any:
    if value.__class__ is list or value.__class__ is tuple:
        return type(value)([_example(batch, each, i) for each in value])
    return value._inner[i] if batch.has(value) else value


__all__ = ["Tensor", "getitem", "setitem"]
