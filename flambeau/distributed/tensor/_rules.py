"""Rules of kernels: with which placements of its operands one may run on parts, on one dimension of a mesh at a time.

That everything is whole everywhere is a choice of every kernel and needs no rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ... import ops
from ...aten.tags import Tag
from ...core.random.generator import default_generator
from ._dispatch import DECOMPOSED, GENERAL, LOCAL, Choice, Rule, SpreadCall, partial_sum, rule
from ._spec import compute_local_shape_and_global_offset
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

R = Replicate()
SUM = Partial("sum")

# -- element by element ----------------------------------------------------------------------------------------------------------
_LINEAR = frozenset(
    "add sub neg mul div _to_copy clone detach alias zeros_like copy add_ sub_ neg_ mul_ div_ copy_ zero_ lift_fresh".split()
)
_FACTORS = frozenset("mul div mul_ div_".split())
_LIKE = frozenset("zeros_like ones_like full_like empty_like rand_like randn_like".split())
_ALIKE = _LIKE | frozenset(
    "_to_copy copy copy_ clone detach alias fill fill_ zero_ masked_fill masked_fill_ where rsub lift_fresh native_dropout "
    "native_dropout_backward bernoulli bernoulli_ uniform_ normal_ exponential_ dropout contiguous is_pinned "
    "lerp addcmul addcdiv threshold_backward leaky_relu_backward elu_backward hardtanh_backward softplus_backward".split()
)


def pointwise_rule(func: Any) -> Rule | None:
    """The rule of kernels that work element by element, if this is one."""
    if Tag.pointwise in func.tags or func._overloadpacket.__name__ in _ALIKE:
        return pointwise
    return None


GENERAL.append(pointwise_rule)


def moved_shard(like: Shard, dim: int) -> Shard:
    """The same kind of division of another dimension."""
    return _StridedShard(dim, split_factor=like.split_factor) if isinstance(like, _StridedShard) else Shard(dim)


def pointwise(call: SpreadCall) -> Iterator[Choice]:
    """Operands are divided as one of them is; a linear kernel takes terms of sums."""
    shape = call.results[0].shape
    ndim = len(shape)
    wanted = {
        placement.dim + ndim - len(spec.shape): placement
        for i, spec in enumerate(call.operands)
        if isinstance(placement := call.placement(i), Shard)
        and spec.shape[placement.dim] == shape[placement.dim + ndim - len(spec.shape)]  # not one that is repeated
    }
    for dim, like in wanted.items():
        places = []
        for spec in call.operands:
            own = dim - (ndim - len(spec.shape))
            places.append(moved_shard(like, own) if own >= 0 and (spec.shape[own] != 1 or shape[dim] == 1) else R)
        yield Choice((moved_shard(like, dim),) * len(call.results), tuple(places))
    if call.name in _LIKE:
        yield Choice((R,), (call.placement(0),)) if call.placement(0).is_partial() else Choice((R,), (R,))
        return
    yield from _on_terms(call)


def _on_terms(call: SpreadCall) -> Iterator[Choice]:
    """Choices of linear kernels with terms of sums."""
    terms = [call.placement(i) for i in range(len(call.operands)) if partial_sum(call.placement(i))]
    if call.name not in _LINEAR or not terms or _rounds(call):
        return
    count = len(call.operands)
    if call.name in _FACTORS:
        yield Choice((terms[0],), (terms[0], *[R] * (count - 1)))
        if count == 2 and call.name.startswith("mul"):
            yield Choice((terms[0],), (R, terms[0]))
    elif count == 2 or call.name not in ("add", "sub", "add_", "sub_"):
        yield Choice((terms[0],), (terms[0],) * count)


def _rounds(call: SpreadCall) -> bool:
    """Whether terms would be rounded one by one: in a division's rounding modes, or a conversion to integers."""
    if call.kwargs.get("rounding_mode") is not None:
        return True
    is_integral = not (call.results[0].dtype.is_floating_point or call.results[0].dtype.is_complex)
    return is_integral and any(spec.dtype is not call.results[0].dtype for spec in call.operands)


# -- reductions ------------------------------------------------------------------------------------------------------------------
_REDUCED_TO = {"sum": "sum", "mean": "avg", "amax": "max", "amin": "min", "max": "max", "min": "min", "prod": "product"}


def _dims(call: SpreadCall, index: int = 1) -> list[int]:
    """The dimensions that a reduction is over, from the front."""
    ndim = len(call.operands[0].shape)
    dims = call.argument(index, "dim")
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return list(range(ndim))
    return sorted({dim % max(ndim, 1) for dim in (dims if isinstance(dims, (list, tuple)) else [dims])})


@rule("sum", "mean", "amax", "amin", "prod", "var", "std", "var_mean", "argmax", "argmin", "logsumexp", "any", "all", "max", "min")
def reduction(call: SpreadCall) -> Iterator[Choice]:
    """Dimensions that stay may be divided; one that goes leaves terms."""
    shape = call.operands[0].shape
    dims = _dims(call)
    keeps = len(call.results[0].shape) == len(shape)
    reduced = _REDUCED_TO.get(call.name) if len(call.results) == 1 else None
    for dim in range(len(shape)):
        if not call.divides(0, dim):
            continue
        if dim not in dims:
            yield Choice((Shard(dim if keeps else dim - sum(other < dim for other in dims)),) * len(call.results), (Shard(dim),))
        elif reduced is not None and shape[dim] >= call.count and (reduced != "avg" or shape[dim] % call.count == 0):
            # Every part needs an element where a reduction of none is an error or no neutral element.
            if reduced in ("sum", "product") or shape[dim] > math.ceil(shape[dim] / call.count) * (call.count - 1):
                yield Choice((Partial(reduced),), (Shard(dim),))
    if call.name in ("sum", "mean") and partial_sum(call.placement(0)):
        yield Choice((call.placement(0),), (call.placement(0),))


def _along(call: SpreadCall, dim: int) -> Iterator[Choice]:
    """Dimensions other than ``dim`` may be divided, of all operands and results alike."""
    ndim = len(call.operands[0].shape)
    for other in range(ndim):
        if other != dim % max(ndim, 1) and call.divides(0, other):
            yield Choice((Shard(other),) * len(call.results), (Shard(other),) * len(call.operands))


@rule("_softmax", "_log_softmax", "cumsum", "cumprod", "sort", "topk", "flip", "roll", "argsort", "glu")
def along_first_argument(call: SpreadCall) -> Iterable[Choice]:
    dim = call.argument(2 if call.name in ("topk", "roll") else 1, "dims" if call.name in ("flip", "roll") else "dim", -1)
    if isinstance(dim, (list, tuple)):
        if len(dim) != 1:
            return []
        dim = dim[0]
    return _along(call, dim)


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def along_third_argument(call: SpreadCall) -> Iterable[Choice]:
    return _along(call, call.args[2])


@rule("gather", "index_select", "scatter", "scatter_add")
def by_index(call: SpreadCall) -> Iterator[Choice]:
    dim = call.args[1] % max(len(call.operands[0].shape), 1)
    for other in range(len(call.operands[0].shape)):
        if other == dim or not call.divides(0, other):
            continue
        if call.name == "index_select":
            yield Choice((Shard(other),), (Shard(other), R))
        elif all(spec.shape[other] == call.operands[0].shape[other] for spec in call.operands):
            yield Choice((Shard(other),), (Shard(other),) * len(call.operands))


@rule("cat", "stack")
def joined(call: SpreadCall) -> Iterator[Choice]:
    dim, ndim = call.argument(1, "dim", 0), len(call.results[0].shape)
    dim %= max(ndim, 1)
    count = len(call.operands)
    for other in range(len(call.operands[0].shape)):
        out = other + (call.name == "stack" and other >= dim)
        if out != dim and call.divides(0, other):
            yield Choice((Shard(out),), (Shard(other),) * count)
    if any(partial_sum(call.placement(i)) for i in range(count)):
        yield Choice((SUM,), (SUM,) * count)


# -- products --------------------------------------------------------------------------------------------------------------------
def _products(call: SpreadCall, left: int, right: int, batched: bool) -> Iterator[tuple[Placement, Placement, Placement]]:
    """Result, left and right factor of a matrix product."""
    first = 1 if batched else 0
    if batched and call.divides(left, 0):
        yield Shard(0), Shard(0), Shard(0)
    if call.divides(left, first):
        yield Shard(first), Shard(first), R
    if call.divides(right, first + 1):
        yield Shard(first + 1), R, Shard(first + 1)
    if call.divides(left, first + 1):
        yield SUM, Shard(first + 1), Shard(first)
    yield SUM, SUM, R
    yield SUM, R, SUM


@rule("mm", "bmm")
def product(call: SpreadCall) -> Iterator[Choice]:
    for result, left, right in _products(call, 0, 1, call.name == "bmm"):
        yield Choice((result,), (left, right))


@rule("addmm", "baddbmm")
def added_product(call: SpreadCall) -> Iterator[Choice]:
    ndim = len(call.results[0].shape)
    for result, left, right in _products(call, 1, 2, call.name == "baddbmm"):
        added: Placement = result
        if isinstance(result, Shard):
            own = result.dim - (ndim - len(call.operands[0].shape))
            added = Shard(own) if own >= 0 and call.operands[0].shape[own] != 1 else R
        yield Choice((result,), (added, left, right))


@rule("dot", "mv")
def with_vector(call: SpreadCall) -> Iterator[Choice]:
    matrix = call.name == "mv"
    if matrix:
        yield Choice((Shard(0),), (Shard(0), R))
    yield Choice((SUM,), (Shard(int(matrix)), Shard(0)))
    yield Choice((SUM,), (SUM, R))


# -- layers ----------------------------------------------------------------------------------------------------------------------
@rule("native_layer_norm", "_fused_rms_norm")
def layer_norm(call: SpreadCall) -> Iterator[Choice]:
    """Dimensions that are not normalized may be divided."""
    shape = call.operands[0].shape
    for dim in range(len(shape) - len(call.args[1])):
        if call.divides(0, dim):
            yield Choice((Shard(dim),) * len(call.results), (Shard(dim), *[R] * (len(call.operands) - 1)))


@rule("native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm_backward(call: SpreadCall) -> Iterator[Choice]:
    shape = call.operands[0].shape
    weights = len(call.operands) - (4 if call.name == "native_layer_norm_backward" else 3)
    for dim in range(len(shape) - len(call.args[2])):
        if call.divides(0, dim):
            places = (*[Shard(dim)] * (len(call.operands) - weights), *[R] * weights)
            yield Choice((Shard(dim), *[SUM] * (len(call.results) - 1)), places)


@rule("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward")
def attention(call: SpreadCall) -> Iterator[Choice]:
    """Batch and heads may be divided."""
    if call.kwargs.get("attn_mask") is None:
        for dim in (0, 1):
            if call.divides(0, dim):
                yield Choice((Shard(dim),) * len(call.results), (Shard(dim),) * len(call.operands))


@rule("convolution")
def convolution(call: SpreadCall) -> Iterator[Choice]:
    if call.divides(0, 0):
        yield Choice((Shard(0),), (Shard(0), *[R] * (len(call.operands) - 1)))


@rule("convolution_backward")
def convolution_backward(call: SpreadCall) -> Iterator[Choice]:
    if call.divides(0, 0):
        yield Choice((Shard(0), SUM, SUM), (Shard(0), Shard(0), R))


@rule("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "max_pool2d_with_indices_backward", "avg_pool2d_backward",
      "_adaptive_avg_pool2d_backward")  # fmt: skip
def pooling(call: SpreadCall) -> Iterator[Choice]:
    for dim in range(len(call.operands[0].shape) - 2):
        if call.divides(0, dim):
            yield Choice((Shard(dim),) * len(call.results), (Shard(dim),) * len(call.operands))


@rule("embedding")
def embedding(call: SpreadCall) -> Iterator[Choice]:
    """Columns, indices or rows of the table may be divided; of rows, each process gives its own and zeros."""
    indices = call.operands[1].shape
    if call.divides(0, 1):
        yield Choice((Shard(len(indices)),), (Shard(1), R))
    if call.divides(0, 0):
        yield Choice((SUM,), (Shard(0), R))
    for dim in range(len(indices)):
        if call.divides(1, dim):
            yield Choice((Shard(dim),), (R, Shard(dim)))


def _own_rows(func: Any, spread: list[Any], decision: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Rows of this process's part of the table, zeros for the others."""
    spec = spread[0]._spec.placed(decision.targets[0])
    if not any(placement.is_shard(0) for placement in spec.placements):
        return func(*args, **kwargs)
    shape, begin = compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)
    table, indices = args[0], args[1] - begin[0]
    mine = (indices >= 0) & (indices < shape[0])
    if not shape[0]:
        return table.new_zeros((*indices.shape, table.shape[1]))
    rows = func(table, indices * mine)
    return rows * mine.unsqueeze(-1).to(rows.dtype)


LOCAL["embedding"] = _own_rows


@rule("embedding_dense_backward")
def embedding_backward(call: SpreadCall) -> Iterator[Choice]:
    indices = call.operands[1].shape
    yield Choice((Shard(1),), (Shard(len(indices)), R))
    for dim in range(len(indices)):
        if call.divides(1, dim) and not call.argument(4, "scale_grad_by_freq", False):  # a part does not know how often an index comes
            yield Choice((SUM,), (Shard(dim), Shard(dim)))
    yield Choice((SUM,), (SUM, R))


def _is_divided(tensor: Any) -> bool:
    return any(placement.is_shard(0) for placement in tensor._spec.placements) and len(tensor.shape) == 2


def _nll_loss(log_probabilities: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    """The mean over a divided batch: its sum through the weight of the samples that count, of which parts have different numbers."""
    if reduction != 1 or not _is_divided(log_probabilities):
        return NotImplemented
    whole = [R] * log_probabilities._spec.mesh.ndim
    total, count = ops.aten.nll_loss_forward.default(log_probabilities, target, weight, 2, ignore_index)
    count = count.redistribute(placements=whole)
    return total.redistribute(placements=whole) / count, count


def _nll_loss_backward(grad: Any, log_probabilities: Any, target: Any, weight: Any, reduction: int, ignore_index: int, count: Any) -> Any:
    if reduction != 1 or not _is_divided(log_probabilities):
        return NotImplemented
    return ops.aten.nll_loss_backward.default(grad / count, log_probabilities, target, weight, 2, ignore_index, count)


DECOMPOSED["nll_loss_forward"] = _nll_loss
DECOMPOSED["nll_loss_backward"] = _nll_loss_backward


@rule("nll_loss_forward")
def nll_loss(call: SpreadCall) -> Iterator[Choice]:
    if len(call.operands[0].shape) == 2 and call.divides(0, 0):
        weight = (R,) if len(call.operands) == 3 else ()
        reduction_kind = call.argument(3, "reduction", 1)
        if reduction_kind != 1:
            yield Choice((Shard(0) if reduction_kind == 0 else SUM, SUM), (Shard(0), Shard(0), *weight))


@rule("nll_loss_backward")
def nll_loss_backward(call: SpreadCall) -> Iterator[Choice]:
    if len(call.operands[1].shape) == 2 and call.divides(1, 0):
        weight = (R,) if len(call.operands) == 5 else ()
        grad = Shard(0) if len(call.operands[0].shape) else R
        yield Choice((Shard(0),), (grad, Shard(0), Shard(0), *weight, R))


@rule("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
def loss(call: SpreadCall) -> Iterator[Choice]:
    """Element-wise losses: sums leave terms, means do where all parts are of one size."""
    places = {"mse_loss": 2, "smooth_l1_loss": 2, "huber_loss": 2, "binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 4}
    kind = call.argument(places[call.name], "reduction", 1)
    shape = call.operands[0].shape
    if any(spec.shape != shape for spec in call.operands):
        return
    for dim in range(len(shape)):
        if call.divides(0, dim) and (kind != 1 or shape[dim] % call.count == 0):
            yield Choice((Shard(dim) if kind == 0 else Partial("avg") if kind == 1 else SUM,), (Shard(dim),) * len(call.operands))


_LOSS_GRADS = {"mse_loss_backward": 3, "smooth_l1_loss_backward": 3, "huber_loss_backward": 3, "binary_cross_entropy_backward": 4}


def _of_sum(name: str, place: int) -> Callable[..., Any]:
    """A mean loss's gradient as that of the sum: a part does not know how many elements the whole has."""

    def gradient(*args: Any, weight: Any = None, reduction: int = 1) -> Any:
        given = [*args, *((weight, reduction)[len(args) - place - 1 :] if len(args) <= place else ())]
        if given[place] != 1:
            return NotImplemented
        given[place] = 2
        return getattr(ops.aten, name).default(given[0] / given[1].numel(), *given[1:])

    return gradient


for _name, _place in _LOSS_GRADS.items():
    DECOMPOSED[_name] = _of_sum(_name, _place)


@rule(*_LOSS_GRADS)
def loss_backward(call: SpreadCall) -> Iterable[Choice]:
    return pointwise(call) if call.argument(_LOSS_GRADS[call.name], "reduction", 1) != 1 else []


@rule("_local_scalar_dense", "equal")
def value(call: SpreadCall) -> Iterable[Choice]:
    return []


def _vector_norm(input: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The norm of a divided tensor: sums of powers, or the largest."""
    x = input.abs() if dtype is None else input.to(dtype).abs()
    dims = list(range(x.dim())) if dim is None else dim
    if ord in (math.inf, -math.inf):
        return (x.amax if ord > 0 else x.amin)(dims, keepdim)
    if ord == 0:
        return (x != 0).to(x.dtype).sum(dims, keepdim)
    powers = x * x if ord == 2 else x if ord == 1 else x**ord
    total = powers.sum(dims, keepdim)
    return total.sqrt() if ord == 2 else total if ord == 1 else total ** (1 / ord)


DECOMPOSED["linalg_vector_norm"] = _vector_norm


# -- random numbers --------------------------------------------------------------------------------------------------------------
def _drawn(func: Any, spread: list[Any], decision: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Parts get numbers of their own, copies the same. All processes' generators must stand at one place, as after one seed."""
    generator = kwargs.get("generator") or default_generator
    spec = spread[0]._spec.placed(decision.targets[0])
    part = 0
    for i, placement in enumerate(spec.placements):
        if isinstance(placement, Shard):
            part = part * spec.mesh.size(i) + spec.mesh.get_coordinate()[i]
    seed = int(ops.randint(0, 2**31, (), generator=generator))
    state = generator.get_state()
    generator.manual_seed(seed + part)
    try:
        return func(*args, **kwargs)
    finally:
        generator.set_state(state)


for _name in "native_dropout bernoulli bernoulli_ uniform_ normal_ exponential_ rand_like randn_like".split():
    LOCAL[_name] = _drawn

__all__ = ["pointwise_rule"]
