"""Modules that compute in a narrower dtype than that of their parameters, for ``DistributedDataParallel``.

Parameters are cast as the forward pass begins. The casts are recorded, so gradients arrive at the parameters in their own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ...distributed.utils import _cast_forward_inputs
from ..module import Module
from ..utils.stateless import _functional_call

__all__ = ["averaging_in", "checked", "narrow_buffers", "narrowed"]


@dataclass
class _MixedPrecision:
    """Dtypes of a data parallel module; None: that of the parameters.

    Args:
        param_dtype: in which the module computes; inputs are cast, too.
        reduce_dtype: in which gradients are averaged.
        buffer_dtype: in which buffers are held.
    Source: torch.nn.parallel.distributed._MixedPrecision.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


def checked(mixed_precision: Any) -> _MixedPrecision | None:
    """Dtypes as they are given; raises where they are something else."""
    if mixed_precision is not None and not isinstance(mixed_precision, _MixedPrecision):
        raise TypeError(f"DistributedDataParallel: mixed_precision must be a _MixedPrecision, got {type(mixed_precision).__name__}")
    return mixed_precision


def narrowed(module: Module, dtype: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A module's result with its parameters and arguments in a dtype."""
    if dtype is None:
        return module(*args, **kwargs)
    args, kwargs = _cast_forward_inputs(dtype, *args, **kwargs)
    parameters = {name: parameter.to(dtype) for name, parameter in module.named_parameters() if parameter.is_floating_point()}
    return _functional_call(module, parameters, args, kwargs)


def narrow_buffers(buffers: Iterable[Tensor], dtype: Any) -> None:
    """Have floating point buffers be of a dtype."""
    with no_grad():
        for buffer in buffers:
            if buffer.is_floating_point():
                buffer.data = buffer.to(dtype)


def averaging_in(group: Any, dtype: Any) -> Callable[[Any], Any]:
    """A hook of buckets that averages them in a dtype."""
    from ...distributed.algorithms.ddp_comm_hooks import default_hooks

    return lambda bucket: default_hooks._compressed(group, bucket, dtype)
