"""Reading and writing parts of tensors by index tensors under ``vmap``, and the operations that take or put elements by index.

An index tensor of the batch is joined by one more, the examples' numbers, so that one indexing serves all examples. NumPy and PyTorch put
the indexed dimensions in front where index tensors are apart from each other; the batch is moved back to the front from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..ops.scatter import gather, scatter, scatter_add, scatter_reduce_values
from ._batch_dimensions import new_index
from ._batch_rules import batching
from ._levels import Wrapped, flat, invoke

_ALL = slice(None)
_MASK = "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a boolean mask."


# -- x[key] with index tensors of the batch -------------------------------------------------------------------
class Key:
    """A key, its basic part apart from its index tensors.

    Attributes:
        basic: what gives the view that has the whole dimension where a tensor indexes.
        tensors: for each dimension of that view the index tensor, or None.
    """

    def __init__(self, key: Any, rank: int):
        parts = list(key) if key.__class__ is tuple else [key]
        used = sum(each is not None and each is not Ellipsis and each.__class__ is not bool for each in parts)
        if Ellipsis not in [each for each in parts if not isinstance(each, Tensor)]:
            parts.append(Ellipsis)
        at = next(i for i, each in enumerate(parts) if each is Ellipsis)
        parts[at : at + 1] = [_ALL] * (rank - used)
        self.basic: list[Any] = []
        self.tensors: list[Any] = []
        for each in parts:
            is_index = isinstance(each, Tensor)
            self.basic.append(_ALL if is_index else each)
            if is_index or each is None or each.__class__ is slice:
                self.tensors.append(each if is_index else None)
        given = [each for each in self.tensors if each is not None]
        self.rank = max(each._array.ndim for each in given)
        self.at = next(i for i, each in enumerate(self.tensors) if each is not None)
        self.is_together = _are_together(self.tensors)


def _key_of(batch: Any, key: Any, rank: int) -> Key | None:
    """A key whose parts are numbers, slices, None, ``...`` and tensors of integers, one of them at least of the batch; else None."""
    parts = key if key.__class__ is tuple else (key,)
    for each in parts:
        if isinstance(each, Tensor):
            if each._array.dtype.kind == "b" or each._array.dtype.itemsize == 1:
                return None
        elif each.__class__ is slice:
            if any(isinstance(bound, Tensor) for bound in (each.start, each.stop, each.step)):
                return None
        elif each is not None and each is not Ellipsis and each.__class__ is not int:
            return None
    if sum(isinstance(each, Tensor) and not each._array.ndim for each in parts) not in (0, sum(isinstance(each, Tensor) for each in parts)):
        return None  # a 0-d tensor beside others takes its place first
    used = sum(each is not None and each is not Ellipsis for each in parts)
    return Key(key, rank) if used <= rank else None


def _is_batched(batch: Any, key: Any) -> bool:
    parts = key if key.__class__ is tuple else (key,)
    return any(batch.has(each) for each in flat(parts)) or any(
        each.__class__ is slice and any(batch.has(bound) for bound in (each.start, each.stop, each.step)) for each in parts
    )


def _inner_key(batch: Any, key: Key, has_batch: bool) -> tuple[Any, ...]:
    """Index tensors for an inner tensor, whose first dimension is the batch where ``has_batch``."""
    found: list[Any] = []
    for each in key.tensors:
        found.append(_ALL if each is None else batch.lead(each._inner, key.rank) if batch.has(each) else each)
    if not has_batch:
        return tuple(found)
    return (new_index(batch, key.rank), *found)


def getitem(batch: Any, tensor: Any, key: Any) -> Any:
    """``tensor[key]``; NotImplemented where no part of the key belongs to the batch, so that the operations it is made of are called."""
    if not _is_batched(batch, key):
        return NotImplemented
    parts = key if key.__class__ is tuple else (key,)
    if any(batch.has(each) and each._array.dtype.kind == "b" for each in flat(parts)):
        plain = [batch.common(each) if batch.has(each) else each for each in parts]
        if any(each is None and given is not None for each, given in zip(plain, parts, strict=True)):
            raise RuntimeError(_MASK)
        return tensor[tuple(plain)]
    found = _key_of(batch, key, tensor._array.ndim)
    if found is None:
        return batch.examples("index", _taken, (tensor, key))
    view = _viewed(tensor, found)
    has_batch = batch.has(view)
    made = (view._inner if has_batch else view)[_inner_key(batch, found, has_batch)]
    if has_batch:  # the batch, what is indexed, the rest
        return batch.wrap(_to_place(made, found, 1) if found.is_together else made)
    return batch.wrap(made.movedim(found.at, 0) if found.is_together else made)


def _taken(tensor: Any, key: Any) -> Any:
    return tensor[key]


def _viewed(tensor: Any, key: Key) -> Any:
    return tensor if all(each.__class__ is slice and each == _ALL for each in key.basic) else tensor[tuple(key.basic)]


def _to_place(made: Any, key: Key, start: int) -> Any:
    """The indexed dimensions, which lie behind ``start`` others, where the first index tensor stands."""
    if not key.at or not key.rank:
        return made
    return made.movedim(tuple(range(start, start + key.rank)), tuple(range(start + key.at, start + key.at + key.rank)))


def setitem(batch: Any, tensor: Any, key: Any, value: Any) -> Any:
    """``tensor[key] = value``; NotImplemented as for reading."""
    if not _is_batched(batch, key):
        return NotImplemented
    found = _key_of(batch, key, tensor._array.ndim)
    is_number = not isinstance(value, Tensor)
    if found is None or not (is_number or not value._array.ndim):
        for i in range(batch.size):
            tensor._inner[i][_example(batch, key, i)] = _example(batch, value, i)
        return None
    view = _viewed(tensor, found)
    inner = _inner_key(batch, found, True)
    if not is_number and batch.has(value):
        taken = view._inner.detach()[inner]
        value = value._inner.reshape(batch.size, *(1,) * (taken.dim() - 1)).expand(taken.shape)
    view._inner[inner] = value
    return None


def _example(batch: Any, value: Any, i: int) -> Any:
    if value.__class__ is list or value.__class__ is tuple:
        return type(value)([_example(batch, each, i) for each in value])
    if value.__class__ is slice:
        return slice(*[_example(batch, each, i) for each in (value.start, value.stop, value.step)])
    return value._inner[i] if batch.has(value) else value


# -- the operations that indexing is made of, whose index arrays belong to no batch ---------------------------
def _are_together(indices: Sequence[Any]) -> bool:
    places = [i for i, each in enumerate(indices) if each is not None]
    return places == list(range(places[0], places[-1] + 1))


def _rank_of(indices: Sequence[Any]) -> int:
    """Dimensions of the indexed part; masks have become positions, or become them."""
    return max(1 if each.dtype.kind == "b" else each.ndim for each in indices if each is not None)


def _prefixed(indices: Any) -> Any:
    made = type(indices)([None, *indices])
    if hasattr(indices, "tensors"):
        made.tensors = indices.tensors
    return made


@batching("_index")
def _indexed(batch: Any, op: Any, input: Any, indices: Any) -> Any:
    made = invoke(op, (input._inner, _prefixed(indices)))
    return batch.wrap(made if _are_together(indices) else made.movedim(_rank_of(indices), 0))


@batching("_index_backward")
def _index_gradient(batch: Any, op: Any, input: Any, shape: Any, indices: Any) -> Any:
    inner = input._inner if _are_together(indices) else input._inner.movedim(0, _rank_of(indices))
    return batch.wrap(invoke(op, (inner, (batch.size, *shape), _prefixed(indices))))


@batching("_index_put")
def _index_put(batch: Any, op: Any, input: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    given = [each for each in indices if each is not None]
    if any(each.dtype.kind == "b" for each in given):
        return NotImplemented
    whole = batch.inside(input).clone()
    rank = _rank_of(indices) + sum(each is None for each in indices) + input._array.ndim - len(indices)
    if batch.has(values):
        if values._array.ndim > rank:
            return NotImplemented
        inner = batch.lead(values._inner, rank)
        values = inner if _are_together(indices) else inner.movedim(0, _rank_of(indices))
    elif not _are_together(indices) and values._array.ndim > rank - _rank_of(indices):
        values = batch.lead(batch.inside(values), rank).movedim(0, _rank_of(indices))
    return batch.wrap(whole._index_put_(_prefixed(indices), values, accumulate))


# -- by an index along a dimension ----------------------------------------------------------------------------
def _spread_index(index: Any, dim: int, shape: Sequence[int]) -> Any:
    """A vector of places along ``dim``, for every element of a tensor of ``shape``."""
    view = [1] * len(shape)
    view[dim] = index._array.shape[0]
    return index.long().reshape(view).expand(shape)


def _place(dim: int, rank: int) -> int | None:
    return dim % rank if dim.__class__ is int and rank and -rank <= dim < rank else None


@batching("index_select")
def _index_select(batch: Any, op: Any, input: Any, dim: int, index: Any) -> Any:
    at = _place(dim, input._array.ndim)
    if at is None or index._array.ndim != 1:
        return NotImplemented
    if not batch.has(index):
        return batch.wrap(invoke(op, (input._inner, at + 1, index)))
    if not batch.has(input):
        made = invoke(op, (input, at, index._inner.reshape(-1))).unflatten(at, (batch.size, index._array.shape[0]))
        return batch.wrap(made.movedim(at, 0))
    shape = (*input._array.shape[:at], index._array.shape[0], *input._array.shape[at + 1 :])
    return gather(input, at, _spread_index(index, at, shape))


@batching("_index_add", "index_copy", "index_fill", "_index_reduce")
def _put_along(batch: Any, op: Any, input: Any, dim: int, index: Any, source: Any, *rest: Any) -> Any:
    at = _place(dim, input._array.ndim)
    if at is None or index._array.ndim != 1 or (isinstance(source, Tensor) and op.name != "index_fill" and not source._array.ndim):
        return NotImplemented
    if op.name == "index_fill":
        if isinstance(source, Tensor) and batch.has(source):
            return NotImplemented
        if not batch.has(index):
            return batch.wrap(invoke(op, (batch.inside(input), at + 1, index, source)))
        shape = (*input._array.shape[:at], index._array.shape[0], *input._array.shape[at + 1 :])
        if isinstance(source, Tensor):
            return NotImplemented
        return scatter(_own(batch, input), at, _spread_index(index, at, shape), source)
    if not batch.has(index):
        return batch.wrap(invoke(op, (batch.inside(input), at + 1, index, batch.inside(source), *rest)))
    if source._array.shape[at] != index._array.shape[0] or source._array.dtype is not input._array.dtype:
        return NotImplemented
    places = _spread_index(index, at, source._array.shape)
    if op.name == "_index_add":
        (alpha,) = rest
        return scatter_add(_own(batch, input), at, places, source if alpha == 1 else source * alpha)
    if op.name == "_index_reduce":
        return scatter_reduce_values(_own(batch, input), at, places, source, *rest)
    return NotImplemented  # repeated places: the last one counts, which scattering does not promise


def _own(batch: Any, value: Any) -> Any:
    return value if value.__class__ is Wrapped and batch.has(value) else batch.wrap(batch.inside(value))


@batching("take")
def _taken_flat(batch: Any, op: Any, input: Any, index: Any) -> Any:
    size = input._array.size
    if not batch.has(input):
        return batch.wrap(invoke(op, (input, index._inner)))
    if not size or not input._array.ndim:
        return NotImplemented
    if not batch.has(index):
        places = index.reshape(-1).long()
        places = places + (places < 0) * size
        return batch.wrap(input._inner.flatten(1).index_select(1, places).reshape(batch.size, *index._array.shape))
    return NotImplemented
