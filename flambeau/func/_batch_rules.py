"""Rules of ``vmap`` for operations whose declarations do not say what to do with a batch: shapes, reductions, products, new tensors.

Beside them are those of forward mode, where a formula is faster than any of the general ways, which serve where it answers NotImplemented.

A rule gets the batch, the operation and its arguments in the signature's order, some tensors of which belong to the batch, and returns the
result as a value of the batch; NotImplemented leaves the call to the loop over examples. Calls that a rule makes on inner tensors are those
of the levels below; a rule may call on wrapped ones too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import layout
from ..core.calls.dispatch import Call
from ..core.calls.registry import TABLES
from ..core.calls.tables import Rules
from ..core.shape import inferred_shape
from ..ops.linalg.products import bmm, dot, matmul, mm, mv, outer
from . import _batch_random
from ._batch_dimensions import behind, dynamic
from ._levels import call_entry, forward, invoke

batching = Rules("vmap")  # of primitives: (batch, operation, *values)
batching_whole = Rules("vmap of a composite")  # (batch, call)

_ALL = slice(None)


# -- shapes ---------------------------------------------------------------------------------------------------
def sized(batch: Any, op: Any, input: Any, size: Any) -> Any:
    size = inferred_shape(tuple(size), input._array.size)
    return batch.wrap(invoke(op, (input._inner, (batch.size, *size))))


@batching("_expand")
def _expanded(batch: Any, op: Any, input: Any, size: Any, *rest: Any) -> Any:
    lead = len(size) - input._array.ndim
    if lead < 0 or -1 in size[:lead]:
        return NotImplemented
    return batch.wrap(invoke(op, (batch.lead(input._inner, len(size)), (batch.size, *size), *rest)))


def _behind(key: Any) -> tuple[Any, ...]:
    """A key of an example, for all examples."""
    return (_ALL, *key) if key.__class__ is tuple else (_ALL, key)


@batching("_select", "_slice", "_exact_select", "_exact_slice", "_index_unsqueeze")
def _keyed(batch: Any, op: Any, input: Any, key: Any) -> Any:
    return batch.wrap(invoke(op, (input._inner, _behind(key))))


@batching("_split", "_split_with_sizes", "_unbind")
def _parted(batch: Any, op: Any, input: Any, keys: Any) -> Any:
    return batch.result(invoke(op, (input._inner, [_behind(key) for key in keys])))


@batching("_scatter_part")
def _part_put(batch: Any, op: Any, input: Any, shape: Any, key: Any) -> Any:
    return batch.wrap(invoke(op, (input._inner, (batch.size, *shape), _behind(key))))


@batching("_scattered_sums")
def _sums_put(batch: Any, op: Any, src: Any, dim: Any, index: Any, shape: Any) -> Any:
    rank = len(shape)
    if not (rank and src._array.ndim == rank == index._array.ndim):
        return NotImplemented
    return batch.wrap(invoke(op, (batch.inside(src), dim % rank + 1, batch.inside(index), (batch.size, *shape))))


@batching("_put_parts")
def _parts_put(batch: Any, op: Any, parts: Any, shape: Any, keys: Any) -> Any:
    inner = [batch.inside(part) for part in parts]
    return batch.wrap(invoke(op, (inner, (batch.size, *shape), [_behind(key) for key in keys])))


@batching("_unfold_backward", "_diagonal_backward")
def _put_back(batch: Any, op: Any, input: Any, shape: Any, *rest: Any) -> Any:
    dims = frozenset(("dim", "dim1", "dim2"))
    rank = len(shape)
    moved = [value % rank + 1 if name in dims else value for name, value in zip(op.names[2:], rest, strict=True)]
    return batch.wrap(invoke(op, (input._inner, (batch.size, *shape), *moved)))


@batching("permute")
def _permuted(batch: Any, op: Any, input: Any, dims: Any) -> Any:
    rank = input._array.ndim
    if sorted(d % rank if -rank <= d < rank else d for d in dims) != list(range(rank)):
        return NotImplemented
    return batch.wrap(input._inner.permute((0, *[d % rank + 1 for d in dims])))


@batching("t")
def _transposed(batch: Any, op: Any, input: Any) -> Any:
    rank = input._array.ndim
    return NotImplemented if rank > 2 else batch.wrap(input._inner.transpose(1, 2) if rank == 2 else input._inner.view_as(input._inner))


@batching("squeeze")
def _squeezed(batch: Any, op: Any, input: Any, dim: Any) -> Any:
    rank = input._array.ndim
    dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    if not rank or not all(-rank <= d < rank for d in dims):
        return NotImplemented
    return batch.wrap(input._inner.squeeze(tuple([d % rank + 1 for d in dims if input._array.shape[d] == 1])))


@batching("_repeat")
def _repeated(batch: Any, op: Any, input: Any, repeats: Any) -> Any:
    if len(repeats) < input._array.ndim:
        return NotImplemented
    return batch.wrap(invoke(op, (batch.lead(input._inner, len(repeats)), (1, *repeats))))


@batching("clone", "_to_copy")
def _copied(batch: Any, op: Any, input: Any, *rest: Any) -> Any:
    *others, memory_format = rest
    if memory_format in (layout.channels_last, layout.channels_last_3d):
        memory_format = layout.preserve_format  # of an example's dimensions, which an order with the batch cannot tell
    return batch.wrap(invoke(op, (input._inner, *others, memory_format)))


@batching("masked_fill")
def _filled(batch: Any, op: Any, input: Any, mask: Any, value: Any) -> Any:
    """A value for each example is no 0-d tensor any more, which ``where`` does not mind."""
    if batch.has(value):
        return batch.call(TABLES["torch"]["_where"], (mask, value.to(input.dtype), input))
    return batch.result(invoke(op, batch.aligned(op, (input, mask, value))))


@batching("cat")
def _joined(batch: Any, op: Any, tensors: Any, dim: Any) -> Any:
    kept = [each for each in tensors if each._array.shape != (0,)] or list(tensors)
    rank = kept[0]._array.ndim
    if not rank or any(each._array.ndim != rank for each in kept) or len({each._array.dtype for each in tensors}) > 1:
        return NotImplemented
    at = behind(dim, rank)
    return NotImplemented if at is None else batch.wrap(invoke(op, ([batch.inside(each) for each in kept], at)))


@batching("stack")
def _stacked(batch: Any, op: Any, tensors: Any, dim: Any) -> Any:
    at = behind(dim, tensors[0]._array.ndim + 1)
    if at is None or len({each._array.shape for each in tensors}) > 1:
        return NotImplemented
    return batch.wrap(invoke(op, ([batch.inside(each) for each in tensors], at)))


@batching("unsqueeze")
def _unsqueezed(batch: Any, op: Any, input: Any, dim: Any) -> Any:
    rank = input._array.ndim + 1
    return batch.wrap(input._inner.unsqueeze(dim % rank + 1)) if dim.__class__ is int and -rank <= dim < rank else NotImplemented


@batching("diag_embed")
def _diagonals_embedded(batch: Any, op: Any, input: Any, offset: int, dim1: int, dim2: int) -> Any:
    rank = input._array.ndim + 1
    if not input._array.ndim or not all(-rank <= d < rank for d in (dim1, dim2)):
        return NotImplemented
    return batch.wrap(invoke(op, (input._inner, offset, dim1 % rank + 1, dim2 % rank + 1)))


# -- reductions -----------------------------------------------------------------------------------------------
def along(batch: Any, op: Any, input: Any, *rest: Any) -> Any:
    """Reductions and running values along ``dim``; a 0-d example is a row of one."""
    at = op.names.index("dim") - 1
    dim = rest[at]
    inner, rank = input._inner, input._array.ndim
    named = dict(zip(op.names[1:], rest, strict=True))
    is_all = dim is None or dim in ((), [])
    if not rank:
        if not is_all and behind(dim, 1) is None:
            return NotImplemented
        made = invoke(op, (inner.unsqueeze(1), *rest[:at], 1, *rest[at + 1 :]))
        return batch.result(_each(made, lambda each: each.reshape(batch.size)))
    if not is_all:
        found = behind(dim, rank)
        if found is None or (isinstance(found, list) and len(set(found)) != len(found)):
            return NotImplemented
    elif op.batch == "along all":
        if dim is not None and op.name in ("all", "any"):
            return NotImplemented
        found = list(range(1, rank + 1))
    elif dim is None and not named.get("keepdim") and op.batch == "along flat":
        inner, found = inner.reshape(batch.size, -1) if input._array.size or not batch.size else inner.flatten(1), 1
    else:
        return NotImplemented
    return batch.result(invoke(op, (inner, *rest[:at], found, *rest[at + 1 :])))


def _each(made: Any, function: Callable[[Any], Any]) -> Any:
    return type(made)([function(each) for each in made]) if isinstance(made, tuple) else function(made)


@batching("_max_of_all", "_min_of_all")
def _extreme(batch: Any, op: Any, input: Any) -> Any:
    if not input._array.ndim:
        return batch.wrap(input._inner.clone())
    inner = input._inner.flatten(1)
    return batch.wrap(inner.amax(1) if op.name == "_max_of_all" else inner.amin(1))


@batching("_sum_to_size")
def _summed_to(batch: Any, op: Any, input: Any, shape: Any) -> Any:
    inner, lead = input._inner, input._array.ndim - len(shape)
    if lead < 0:
        return NotImplemented
    own = input._array.shape[lead:]
    dims = [*range(1, lead + 1), *[d + lead + 1 for d, n in enumerate(shape) if n == 1 and own[d] != 1]]
    return batch.wrap(inner.sum(dims, keepdim=True).reshape(batch.size, *shape) if dims else inner)


@batching("trace")
def _traced(batch: Any, op: Any, input: Any) -> Any:
    return batch.wrap(input._inner.diagonal(0, 1, 2).sum(-1)) if input._array.ndim == 2 else NotImplemented


@batching("constant_pad_nd")
def _padded(batch: Any, op: Any, input: Any, pad: Any, value: Any) -> Any:
    return batch.wrap(invoke(op, (input._inner, pad, value))) if len(pad) <= 2 * input._array.ndim else NotImplemented


@batching("nn.functional.one_hot")
def _one_hot(batch: Any, op: Any, tensor: Any, num_classes: int) -> Any:
    return batch.wrap(invoke(op, (tensor._inner, num_classes))) if num_classes > 0 else NotImplemented


@batching("linalg.solve_ex")
def _solved(batch: Any, op: Any, a: Any, b: Any, *rest: Any) -> Any:
    """A right side is a vector or a matrix by the ranks of an example."""
    if a._array.ndim < 2 or not b._array.ndim:
        return NotImplemented
    is_vector = b._array.ndim == 1 or (b._array.ndim == a._array.ndim - 1 and b._array.shape == a._array.shape[:-1])
    rank = max(a._array.ndim, b._array.ndim + is_vector)
    right = batch.inside(b)
    made = invoke(op, (batch.lead(batch.inside(a), rank), batch.lead(right.unsqueeze(-1) if is_vector else right, rank), *rest))
    parts = [batch.wrap(each) for each in made]
    if is_vector:
        if not rest[0]:
            return NotImplemented
        parts[0] = parts[0].squeeze(-1)
    return type(made)(parts)


# -- products -------------------------------------------------------------------------------------------------
def product(batch: Any, op: Any, a: Any, b: Any, *bias: Any) -> Any:
    if op.name in _OTHER_PRODUCTS:
        return _OTHER_PRODUCTS[op.name](batch, op, a, b, *bias)
    ranks = a._array.ndim, b._array.ndim
    want = _RANKS.get(op.name)
    if (want is not None and ranks != want) or not min(ranks) or a._array.shape[-1] != b._array.shape[-2 if ranks[1] > 1 else 0]:
        return NotImplemented  # the loop complains
    if op.name == "bmm" and a._array.shape[0] != b._array.shape[0]:
        return NotImplemented
    has_a, has_b = batch.has(a), batch.has(b)
    x, y = a._inner if has_a else a, b._inner if has_b else b
    if not has_b and ranks[0] > 1 and ranks[1] <= 2:
        return batch.wrap(matmul(x, y))  # rows of all examples times one matrix or vector
    if ranks[0] == 1:
        x = x.unsqueeze(-2)
    if ranks[1] == 1:
        y = y.unsqueeze(-1)
    rank = max(*ranks, 2)
    made = matmul(batch.lead(x, rank) if has_a else x, batch.lead(y, rank) if has_b else y)
    if ranks[1] == 1:
        made = made.squeeze(-1)
    if ranks[0] == 1:
        made = made.squeeze(-1 if ranks[1] == 1 else -2)
    return batch.wrap(made)


_RANKS = {"mm": (2, 2), "mv": (2, 1), "bmm": (3, 3), "dot": (1, 1)}


def _vdot(batch: Any, op: Any, a: Any, b: Any) -> Any:
    if a._array.shape != b._array.shape or a._array.ndim != 1 or a._array.dtype is not b._array.dtype:
        return NotImplemented
    return dot(a.conj(), b)


def _outer(batch: Any, op: Any, a: Any, b: Any) -> Any:
    return a.unsqueeze(-1) * b.unsqueeze(-2) if a._array.ndim == b._array.ndim == 1 else NotImplemented


def _linear(batch: Any, op: Any, input: Any, weight: Any, bias: Any) -> Any:
    if weight._array.ndim > 2 or not input._array.ndim or input._array.shape[-1] != weight._array.shape[-1]:
        return NotImplemented
    if not batch.has(weight) and not batch.has(bias):
        return batch.wrap(invoke(op, (input._inner, weight, bias)))
    made = matmul(input, weight.transpose(-1, -2) if weight._array.ndim > 1 else weight)
    return made if bias is None else made + bias


_OTHER_PRODUCTS: dict[str, Callable[..., Any]] = {"vdot": _vdot, "outer": _outer, "linear": _linear}


@batching("addmm", "addmv", "baddbmm", "addbmm", "addr")
def _added(batch: Any, op: Any, input: Any, a: Any, b: Any, beta: Any, alpha: Any) -> Any:
    if len({each._array.dtype for each in (input, a, b)}) > 1 or input._array.dtype.kind not in "fc" or input._array.dtype.itemsize < 4:
        return NotImplemented
    if op.name == "addr":
        made = outer(a, b)
    else:
        made = {"addmm": mm, "addmv": mv}.get(op.name, bmm)(a, b)
        made = made.sum(0) if op.name == "addbmm" else made
    if alpha != 1:
        made = made * alpha
    if input._array.ndim > made._array.ndim:
        return NotImplemented
    if not beta:
        return made
    return made + (input if beta == 1 else input * beta)


@forward("addmm", "addmv", "addbmm", "baddbmm", "addr")
def add_product(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    """``beta * input + alpha * (a @ b)``: the product with each factor's tangent, and the tangent of what is added."""
    total = None
    named = dict(zip(op.names, primals, strict=True))
    if dual.has(values[0]):
        total = (values[0]._tangent * named["beta"]).expand(made._array.shape)
    for i in (1, 2):
        if dual.has(values[i]):
            given = [made.detach() if total is None else total, *primals[1:]]
            given[i], given[op.names.index("beta")] = values[i]._tangent, 0 if total is None else 1
            total = invoke(op, given)
    return made if total is None else dual.wrap(made, total)


# -- new tensors ----------------------------------------------------------------------------------------------
@forward("fill")
def fill(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    tangent = dual.tangent(values[1])
    return dual.wrap(made, dual.zeros(made) if tangent is None else invoke(op, (made.detach(), tangent)))


@forward("zero")
def zero(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    return dual.wrap(made, dual.zeros(made))


_LIKE = frozenset(("zeros_like", "ones_like", "empty_like", "full_like"))
_NEW = frozenset(("new_zeros", "new_ones", "new_empty"))


def factory(batch: Any, call: Call) -> Any:
    """A new tensor that follows one of the batch's; NotImplemented leaves the call to the levels below."""
    entry, values = call.op, call.values
    model: Any = None if entry.model is None else values[entry.model]
    names = entry.names
    if not batch.has(model) or any(batch.has(each) for each in values if each is not model):
        return _of_values(batch, entry, values) if any(batch.has(each) for each in values) else NotImplemented
    inner = [each._inner if each is model else each for each in values]
    if entry.name in _LIKE:
        if "memory_format" in names and inner[names.index("memory_format")] in (layout.channels_last, layout.channels_last_3d):
            inner[names.index("memory_format")] = layout.preserve_format
        return batch.wrap(call_entry(entry, inner))
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
    return NotImplemented if entry.name == "new_tensor" else _of_values(batch, entry, values)


def _of_values(batch: Any, entry: Any, values: Any) -> Any:
    """A factory whose numbers are tensors of the batch (``full``, ``linspace``, ...), example by example."""
    if entry.name in ("tensor", "as_tensor", "asarray"):
        return NotImplemented
    return batch.examples(entry.name, lambda *each: call_entry(entry, each), values)


# -- composites that look at memory ---------------------------------------------------------------------------
@batching_whole("as_strided", "as_strided_copy")
def _strided(batch: Any, call: Call) -> Any:
    """``as_strided``: strides are an example's, whose memory begins where its first element lies."""
    input, size, stride, offset = call.values
    if not batch.has(input):
        return NotImplemented
    inner = input._inner
    start = None if offset is None else inner.storage_offset() + offset
    made = inner.as_strided((batch.size, *size), (inner.stride(0), *stride), start)
    return batch.wrap(made.clone() if call.op.name == "as_strided_copy" else made)


@batching_whole("as_strided_")
def _strided_in_place(batch: Any, call: Call) -> Any:
    if not batch.has(call.values[0]):
        return NotImplemented
    raise RuntimeError("vmap: as_strided_ is not supported: as_strided gives the same view without changing the tensor")


@batching_whole("as_strided_scatter")
def _strided_put(batch: Any, call: Call) -> Any:
    input, source, size, stride, offset = call.values
    if not batch.has(input) and not batch.has(source):
        return NotImplemented
    whole = batch.inside(input).contiguous().clone()
    part = whole.as_strided((batch.size, *size), (whole.stride(0), *stride), offset)
    if part._array.shape[1:] != source._array.shape:
        return NotImplemented
    part.copy_(batch.inside(source))
    return batch.wrap(whole)


@batching_whole("unique", "unique_consecutive", "nonzero", "argwhere")
def _dynamic(batch: Any, call: Call) -> Any:
    """The shape of the result depends on values."""
    if any(batch.has(each) for each in call.operands) and not batch.are_repeated(call.operands):
        raise dynamic(call.op.name)
    return NotImplemented


@batching_whole("batch_norm", "nn.functional.batch_norm")
def _with_moments(batch: Any, call: Call) -> Any:
    """Batch norm that is to keep moments of a batch of batches in one tensor."""
    named = dict(zip((p.name for p in call.op.params), call.values, strict=True))
    moments = [named["running_mean"], named["running_var"]]
    if batch.has(named["input"]) and named["training"] and any(each is not None and not batch.has(each) for each in moments):
        raise RuntimeError(
            "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
            "batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False."
            "If you are using a prebuilt module and do not need eval mode, please see the functorch website for resources on how to patch "
            "your module to work with vmap"
        )
    return NotImplemented


@batching("_standard_gamma", "_sample_dirichlet")
def _random(batch: Any, op: Any, input: Any, generator: Any) -> Any:
    return _batch_random.drawn(batch, lambda inner: invoke(op, (inner, generator)), input)


@batching("_nonzero")
def _places(batch: Any, op: Any, input: Any) -> Any:
    if batch.are_repeated((input,)):
        return NotImplemented
    raise dynamic("nonzero")


@batching("masked_select")
def _selected(batch: Any, op: Any, input: Any, mask: Any) -> Any:
    if not batch.has(mask) or batch.are_repeated((mask,)):
        return NotImplemented
    raise RuntimeError(
        "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch this would "
        "return a differently shaped Tensor."
    )
