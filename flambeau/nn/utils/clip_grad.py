"""Clipping of gradients between ``backward`` and ``step``.

The argument ``foreach`` of PyTorch chooses between two implementations with the same result; here there is one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import ops
from ...autograd.grad_mode import no_grad
from ...core.arrays import native
from ...core.state import INFERENCE, active, grad_enabled, is_intercepted, run_ignoring_fp, tick
from ...core.tensor import Tensor, new_storage, wrap

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]

_FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


def get_total_norm(tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The norm of all tensors' elements as one vector: the norm of the tensors' norms.

    Args:
        tensors: one tensor or several, gradients as a rule.
        norm_type: p; ``inf`` for the largest absolute value.
        error_if_nonfinite: whether an infinite or undefined norm is an error.
        foreach: without effect on the result.
    Returns:
        A 0-d tensor; 0 for no tensors.
    Raises:
        RuntimeError: the norm is not finite and ``error_if_nonfinite``.
    Source: torch.nn.utils.get_total_norm.
    Example:
        >>> nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
        tensor(5.)
    """
    norm_type = float(norm_type)
    tensors = _as_list(tensors)
    total = _total_of_arrays(tensors) if norm_type == 2.0 and not error_if_nonfinite else None
    if total is not None:
        return total
    vector_norm = ops.resolve("linalg", "vector_norm")
    norms = [vector_norm(tensor, norm_type) for tensor in tensors]
    if not norms:
        return ops.tensor(0.0)
    device = norms[0].device
    total = vector_norm(ops.stack([norm.to(device=device) for norm in norms]), norm_type)
    if error_if_nonfinite and not bool(ops.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To disable "
            "this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale gradients in place by ``max_norm / total_norm``, unless that is above 1.

    Args:
        parameters: one tensor or several, of any shapes; those without gradient are left alone.
        max_norm: norm that the gradients have at most afterwards.
        total_norm: what ``get_total_norm`` gave.
        foreach: without effect on the result.
    Source: torch.nn.utils.clip_grads_with_norm_.
    Example:
        >>> weight = nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grads_with_norm_(weight, max_norm=1.0, total_norm=torch.tensor(5.0))
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    with no_grad():
        _clip(_gradients(parameters), max_norm, total_norm)


def _clip(grads: list[Any], max_norm: float, total_norm: Tensor) -> None:
    """Scale gradients by ``max_norm / total_norm``, unless that is above 1."""
    if not grads or _scale_arrays(grads, float(max_norm), total_norm):
        return
    # 1e-6 keeps the factor finite at norm 0. Multiplying by 1 costs less than testing first whether it is needed.
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor.to(device=grad.device))


def _arrays_of(tensors: list[Any]) -> list[np.ndarray] | None:
    """The arrays of plain dense tensors of one dtype, of which nothing is recorded; else None."""
    if (active and is_intercepted()) or not tensors:
        return None
    first = tensors[0]._array.dtype
    if first not in _FLOATS:
        return None
    recorded = grad_enabled()
    arrays = []
    for tensor in tensors:
        array = tensor._array
        if (
            tensor.__class__ is not Tensor
            or array.__class__ is not np.ndarray
            or array.dtype != first
            or not array.flags.c_contiguous
            or (recorded and tensor._requires_grad)
        ):
            return None
        arrays.append(array)
    return arrays


# Going through a tensor costs as much as 512 elements.
@native.part("optim.norms", work="sum([array.size + 512 for array in arrays])")
def _norms(arrays: list[np.ndarray]) -> np.ndarray | None:
    """The 2-norm of each; None where its square is too large or too small for the dtype."""
    norms = []
    for array in arrays:
        flat = array.reshape(-1)
        length = math.sqrt(flat.dot(flat))
        if not 1e-18 < length < 1e18 and (length or flat.any()):
            return None
        norms.append(length)
    return np.array(norms, arrays[0].dtype)


@native.part("optim.scale", work="sum([array.size + 512 for array in arrays])")
def _scale(arrays: list[np.ndarray], factor: float) -> None:
    """Multiply all by a number in place."""
    for array in arrays:
        np.multiply(array, array.dtype.type(factor), array)


def _total_of_arrays(tensors: list[Any]) -> Tensor | None:
    """The 2-norm of all, by a native kernel where that can be."""
    arrays = _arrays_of(tensors)
    norms = _norms(arrays) if arrays is not None else None
    if norms is None:
        return None
    wide = norms.astype(np.float64)
    return wrap(np.array(math.sqrt(wide.dot(wide)), norms.dtype))


def _factor(total: np.ndarray, max_norm: float) -> float:
    """By how much gradients of that norm are multiplied; as operations on tensors compute it."""
    kind = total.dtype.type
    factor = float(kind(1) / (total[()] + kind(1e-6)) * kind(max_norm))
    return 1.0 if factor > 1.0 else factor


def _scale_arrays(grads: list[Any], max_norm: float, total_norm: Tensor) -> bool:
    """Scale gradients at once; False where nothing was done."""
    arrays, total = _arrays_of(grads), _arrays_of([total_norm])
    if arrays is None or total is None or total[0].ndim or total[0].dtype != arrays[0].dtype:
        return False
    storages = [new_storage(grad) if grad._storage is None else grad._storage for grad in grads]
    if len({id(storage) for storage in storages}) != len(storages) or any(grad._requires_grad is INFERENCE for grad in grads):
        return False
    if not all(array.flags.writeable for array in arrays):
        return False
    number = run_ignoring_fp(_factor, total[0], max_norm)
    if number != 1.0:
        run_ignoring_fp(_scale, arrays, number)
    now = tick()
    for storage in storages:
        storage.version += 1
        storage.changed = now
    return True


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Scale gradients in place so that the norm of all of them together is at most ``max_norm``.

    Args:
        parameters: one tensor or several; those without gradient are left alone.
        max_norm: norm that the gradients have at most afterwards.
        norm_type: p; ``inf`` for the largest absolute value.
        error_if_nonfinite: whether an infinite or undefined norm is an error.
        foreach: without effect on the result.
    Returns:
        The norm before, a 0-d tensor.
    Raises:
        RuntimeError: the norm is not finite and ``error_if_nonfinite``.
    Source: torch.nn.utils.clip_grad_norm_; Pascanu et al. 2013.
    Example:
        >>> weight = nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grad_norm_([weight], max_norm=1.0)
        tensor(5.)
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    with no_grad():
        grads = _gradients(parameters)
        total_norm = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
        _clip(grads, max_norm, total_norm)
    return total_norm


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """``clip_grad_norm_`` under its deprecated name.

    Args:
        parameters, max_norm, norm_type, error_if_nonfinite, foreach: as in ``clip_grad_norm_``.
    Returns:
        The norm before, a 0-d tensor.
    Source: torch.nn.utils.clip_grad_norm.
    Example:
        >>> weight = nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grad_norm([weight], max_norm=1.0)
        tensor(5.)
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning, stacklevel=2
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Cut every element of the gradients to ``[-clip_value, clip_value]``, in place.

    Args:
        parameters: one tensor or several, of any shapes; those without gradient are left alone.
        clip_value: the largest absolute value that stays.
        foreach: without effect on the result.
    Source: torch.nn.utils.clip_grad_value_.
    Example:
        >>> weight = nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grad_value_([weight], clip_value=3.5)
        >>> weight.grad
        tensor([3.0000, 3.5000])
    """
    clip_value = float(clip_value)
    with no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)


def _as_list(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Any]:
    return [grad for parameter in _as_list(parameters) if (grad := parameter.grad) is not None]
