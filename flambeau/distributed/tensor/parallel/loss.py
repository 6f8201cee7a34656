"""``loss_parallel``: the cross entropy of scores that are divided by classes, which never come together.

log_softmax   the largest and the sum of exponentials are reduced, one number each for a sample
nll_loss      each process picks the targets among its classes, and the sum is reduced
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .... import ops
from ....core.state import thread
from .. import DTensor, Replicate, Shard, _collectives as collectives
from .._dispatch import DECOMPOSED
from .._spec import compute_local_shape_and_global_offset, spec_of

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Context in which ``cross_entropy`` of a ``DTensor`` that is divided by classes is computed on its parts.

    Its backward pass belongs into the context, too.

    Returns: a context manager.
    Source: torch.distributed.tensor.parallel.loss_parallel.
    Example:
        >>> from flambeau.distributed.tensor.parallel import loss_parallel
        >>> with loss_parallel():
        ...     pass
    """
    was = getattr(thread, "loss_parallel", False)
    thread.loss_parallel = True
    try:
        yield
    finally:
        thread.loss_parallel = was


def _applies(tensor: Any, dim: int) -> bool:
    if not getattr(thread, "loss_parallel", False) or not isinstance(tensor, DTensor):
        return False
    return tensor._spec.placements == (Shard(dim % tensor.dim()),)


def _log_softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    if not _applies(input, dim):
        return NotImplemented
    shifted = input - input.amax(dim, True)
    return shifted - shifted.exp().sum(dim, True).log()


def _log_softmax_backward(grad: Any, output: Any, dim: int, dtype: Any) -> Any:
    if not _applies(output, dim):
        return NotImplemented
    return grad - output.exp() * grad.sum(dim, True)


def _own_classes(log_probabilities: Any, target: Any, ignore_index: int) -> tuple[Any, Any, Any, Any]:
    """This process's scores, the places of the targets among them, which targets it has, and which count."""
    spec = log_probabilities._spec
    if len(spec.shape) != 2:
        raise NotImplementedError(f"loss_parallel: scores of shape {spec.shape} are not supported; flatten them to (samples, classes)")
    shape, begin = compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)
    own = target.redistribute(placements=[Replicate()])._local_tensor if isinstance(target, DTensor) else target
    counts = own != ignore_index
    places = own - begin[1]
    mine = counts & (places >= 0) & (places < shape[1])
    return log_probabilities._local_tensor, places.clamp(0, max(shape[1] - 1, 0)).unsqueeze(1), mine, counts


def _whole(local: Any, like: Any) -> Any:
    return DTensor._around(local, spec_of(like._spec.mesh, [Replicate()], local.shape, local.dtype))


def _weights(weight: Any, target: Any, counts: Any, dtype: Any) -> Any:
    if weight is None:
        return counts.to(dtype)
    whole = weight.redistribute(placements=[Replicate()])._local_tensor
    own = target.redistribute(placements=[Replicate()])._local_tensor
    return whole[own * counts] * counts


def _nll_loss(log_probabilities: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    if not _applies(log_probabilities, 1):
        return NotImplemented
    scores, places, mine, counts = _own_classes(log_probabilities, target, ignore_index)
    weights = _weights(weight, target, counts, scores.dtype)
    picked = -(scores.gather(1, places).squeeze(1) if scores.shape[1] else scores.new_zeros(len(mine)))
    losses = collectives.all_reduce(picked * mine * weights, "sum", log_probabilities._spec.mesh.get_group(0))
    total = weights.sum()
    result = losses if reduction == 0 else losses.sum() if reduction == 2 else losses.sum() / total
    return _whole(result, log_probabilities), _whole(total if reduction else total.new_zeros(()), log_probabilities)


def _nll_loss_backward(grad: Any, log_probabilities: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any) -> Any:
    if not _applies(log_probabilities, 1):
        return NotImplemented
    scores, places, mine, counts = _own_classes(log_probabilities, target, ignore_index)
    own = grad.redistribute(placements=[Replicate()])._local_tensor
    scale = -own * _weights(weight, target, counts, scores.dtype) * mine
    if reduction == 1:
        scale = scale / total.redistribute(placements=[Replicate()])._local_tensor
    made = ops.zeros_like(scores)
    if scores.shape[1]:
        made = made.scatter(1, places, scale.unsqueeze(1))
    return DTensor._around(made, log_probabilities._spec)


def _before(name: str, function: Any) -> None:
    """Ask ``function`` before what decides about a kernel already."""
    following = DECOMPOSED.get(name)

    def either(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return following(*args, **kwargs) if result is NotImplemented and following is not None else result

    DECOMPOSED[name] = either


_before("_log_softmax", _log_softmax)
_before("_log_softmax_backward_data", _log_softmax_backward)
_before("nll_loss_forward", _nll_loss)
_before("nll_loss_backward", _nll_loss_backward)
