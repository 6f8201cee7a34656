"""Rules of ``vmap`` for operations whose declarations do not say what to do with a batch.

A rule gets the batch, the operation and its arguments in the signature's order, some tensors of which belong to the batch, and returns
the result as a value of the batch; NotImplemented leaves the call to the loop over examples. Calls that a rule makes are those of the
levels below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.calls.dispatch import Call
from ..ops import products
from ._levels import call_entry, invoke

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the rule of operations of these names."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


# -- shapes -----------------------------------------------------------------------------------------------------------------------------
@rule("_view", "_reshaped_copy", "_expand")
def _sized(batch: Any, op: Any, input: Any, size: Any, *rest: Any) -> Any:
    inner, rank = input._inner, input._array.ndim
    if op.name == "_expand":
        inner = batch.lead(inner, len(size))
        size = [n if n != -1 else have for n, have in zip(size, inner._array.shape[1:], strict=True)]
    elif -1 in size:
        from ..core.shape import inferred_shape

        size = inferred_shape(tuple(size), input._array.size)
    del rank
    return batch.wrap(invoke(op, (inner, (batch.size, *size), *rest)))


@rule("_select", "_slice", "_exact_select", "_exact_slice", "_index_unsqueeze")
def _keyed(batch: Any, op: Any, input: Any, key: Any) -> Any:
    return batch.wrap(invoke(op, (input._inner, (slice(None), *key))))


@rule("permute")
def _permuted(batch: Any, op: Any, input: Any, dims: Any) -> Any:
    rank = input._array.ndim
    if sorted(d % rank if -rank <= d < rank else d for d in dims) != list(range(rank)):
        return NotImplemented
    return batch.wrap(input._inner.permute((0, *[d % rank + 1 for d in dims])))


@rule("t")
def _transposed(batch: Any, op: Any, input: Any) -> Any:
    return batch.wrap(input._inner.transpose(1, 2) if input._array.ndim == 2 else input._inner.view_as(input._inner))


# -- products ---------------------------------------------------------------------------------------------------------------------------
@rule("mm", "matmul", "mv", "bmm", "dot")
def _matmul(batch: Any, op: Any, a: Any, b: Any) -> Any:
    x, y = (each._inner if batch.has(each) else each for each in (a, b))
    if a._array.ndim == 1:
        x = x.unsqueeze(-2)
    if b._array.ndim == 1:
        y = y.unsqueeze(-1)
    rank = max(a._array.ndim, b._array.ndim, 2)
    x, y = (batch.lead(inner, rank) if batch.has(given) else inner for inner, given in ((x, a), (y, b)))
    made = products.matmul(x, y)
    if b._array.ndim == 1:
        made = made.squeeze(-1)
    if a._array.ndim == 1:
        made = made.squeeze(-1 if b._array.ndim == 1 else -2)
    return batch.wrap(made)


@rule("linear")
def _linear(batch: Any, op: Any, input: Any, weight: Any, bias: Any) -> Any:
    if not batch.has(weight) and not batch.has(bias):
        return batch.wrap(invoke(op, (input._inner, weight, bias)))
    made = products.matmul(input, weight.transpose(-1, -2) if weight._array.ndim > 1 else weight)
    return made if bias is None else made + bias


# -- new tensors ------------------------------------------------------------------------------------------------------------------------
_LIKE = frozenset(("zeros_like", "ones_like", "empty_like", "full_like"))
_NEW = frozenset(("new_zeros", "new_ones", "new_empty"))


def factory(batch: Any, call: Call) -> Any:
    """A new tensor that follows one of the batch's; NotImplemented leaves the call to the levels below."""
    entry, values = call.op, call.values
    model: Any = None if entry.model is None else values[entry.model]
    if not batch.has(model):
        return NotImplemented
    inner = [each._inner if each is model else each for each in values]
    if entry.name in _LIKE:
        return batch.wrap(call_entry(entry, inner))
    names = entry.names
    if entry.name in _NEW:
        at, by_name = names.index("sizes"), names.index("size")
        sizes = values[by_name] if values[by_name] is not None else values[at][0] if len(values[at]) == 1 else values[at]
        inner[at], inner[by_name] = ((batch.size, *([sizes] if isinstance(sizes, int) else sizes)),), None
        return batch.wrap(call_entry(entry, inner))
    if entry.name == "new_full":
        inner[names.index("size")] = (batch.size, *values[names.index("size")])
        return batch.wrap(call_entry(entry, inner))
    if entry.name == "new_empty_strided":
        size, stride = (values[names.index(name)] for name in ("size", "stride"))
        extent = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 1
        inner[names.index("size")], inner[names.index("stride")] = (batch.size, *size), (extent, *stride)
        return batch.wrap(call_entry(entry, inner))
    return NotImplemented


# -- composites that look at memory -------------------------------------------------------------------------------------------------------
def _strided(batch: Any, call: Call) -> Any:
    """``as_strided``: strides are an example's, whose memory begins where its first element lies."""
    input, size, stride, offset = call.values
    if not batch.has(input):
        return NotImplemented
    inner = input._inner
    start = None if offset is None else inner.storage_offset() + offset
    return batch.wrap(inner.as_strided((batch.size, *size), (inner.stride(0), *stride), start))


COMPOSITES: dict[str, Callable[..., Any]] = {"as_strided": _strided}
