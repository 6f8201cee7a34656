"""A module on several devices at once, a part of the batch each. Source: torch.nn.parallel.data_parallel."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...autograd.grad_mode import is_grad_enabled
from ...core.device import device as Device
from ..module import Module
from .comm import _index
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

__all__ = ["DataParallel", "data_parallel"]


def _all_devices() -> list[int]:
    """The indices of all CUDA devices; none on a machine without."""
    from ...cuda import device_count, is_available

    return list(range(device_count())) if is_available() else []


def _warn_of_imbalance(devices: Sequence[int]) -> None:
    """Warn where one device has much less memory or fewer processors than another: all would wait for it."""
    from ...cuda import get_device_properties

    properties = [get_device_properties(index) for index in devices]
    for name in ("total_memory", "multi_processor_count"):
        values = [getattr(of_device, name) for of_device in properties]
        if min(values) / max(values) < 0.75:
            least, most = (devices[values.index(value)] for value in (min(values), max(values)))
            warnings.warn(
                f"There is an imbalance between your GPUs. You may want to exclude GPU {least} which has less than 75% of the memory or "
                f"cores of GPU {most}. You can do so by setting the device_ids argument to DataParallel, or by setting the "
                "CUDA_VISIBLE_DEVICES environment variable.",
                stacklevel=3,
            )
            return


def _check_place(module: Module, place: Device) -> None:
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.device != place:
            raise RuntimeError(
                f"module must have its parameters and buffers on device {place} (device_ids[0]) but found one of them on device: "
                f"{tensor.device}"
            )


class DataParallel(Module):
    """Runs a module on several CUDA devices: the batch is split, each part goes through a copy, the results are joined.

    Without a CUDA device it calls the module as it is, so that a program needs no other path.

    Args:
        module: lies on the first of the devices.
        device_ids: CUDA devices; all there are when None.
        output_device: where results are joined; the first one when None.
        dim: the dimension of the batch.
    Shape:
        That of the module.
    Attributes:
        module: the module, whose parameters have the prefix ``module.`` in ``state_dict``.
    Raises:
        RuntimeError: at the call, a parameter that does not lie on the first device.
    Source: torch.nn.DataParallel.
    Example:
        >>> model = nn.DataParallel(nn.Linear(3, 2))
        >>> list(model.state_dict())
        ['module.weight', 'module.bias']
    """

    module: Module

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        existing = _all_devices()
        if not existing:
            self.module = module
            self.device_ids: list[int] = []
            return
        devices = existing if device_ids is None else [_index(where, optional=True) for where in device_ids]
        if not devices:
            raise RuntimeError("no available devices were found")
        self.dim = dim
        self.module = module
        self.device_ids = devices
        self.output_device = _index(devices[0] if output_device is None else output_device, optional=True)
        self.src_device_obj = Device("cuda", devices[0])
        if device_ids is None or len(devices) > 1:
            _warn_of_imbalance(devices)
        if len(devices) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_place(self.module, self.src_device_obj)
        args, keywords = self.scatter(inputs, kwargs, self.device_ids)
        if not args:  # a module without arguments runs once
            args, keywords = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*args[0], **keywords[0])
        devices = self.device_ids[: len(args)]
        outputs = self.parallel_apply(self.replicate(self.module, devices), args, keywords)
        return self.gather(outputs, self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Any]:
        """Copies of a module; a subclass may make them otherwise."""
        return replicate(module, device_ids, not is_grad_enabled())

    def scatter(self, inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, device_ids: Sequence[Any]) -> Any:
        """The arguments of each copy; a subclass may split them otherwise."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Sequence[Any], inputs: Sequence[Any], kwargs: Any) -> list[Any]:
        """The results of the copies."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """The results joined; a subclass may join them otherwise."""
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Run a module on several CUDA devices once; :class:`DataParallel` as a function.

    Args:
        module: lies on the first of the devices.
        inputs: its positional arguments, or the only one.
        device_ids: CUDA devices; all there are when None.
        output_device: where results are joined, -1 for the CPU; the first one when None.
        dim: the dimension of the batch.
        module_kwargs: its keyword arguments.
    Returns:
        What the module gives, joined along ``dim`` on ``output_device``.
    Raises:
        RuntimeError: there is no CUDA device, or a parameter lies elsewhere.
    Source: torch.nn.parallel.data_parallel.
    Example:
        >>> try:
        ...     nn.parallel.data_parallel(nn.Linear(3, 2), torch.ones(4, 3), device_ids=[])
        ... except (IndexError, RuntimeError) as error:
        ...     print("no devices")
        no devices
    """
    if not isinstance(inputs, tuple):
        inputs = (inputs,) if inputs is not None else ()
    existing = _all_devices()
    if not existing:
        raise RuntimeError("device type could not be determined")
    devices = existing if device_ids is None else [_index(where, optional=True) for where in device_ids]
    if not devices:
        raise RuntimeError("no available devices were found")
    where = devices[0] if output_device is None else output_device
    _check_place(module, Device("cuda", devices[0]))
    args, keywords = scatter_kwargs(inputs, module_kwargs, devices, dim)
    if not args:
        args, keywords = ((),), ({},)
    if len(devices) == 1:
        return module(*args[0], **keywords[0])
    used = devices[: len(args)]
    outputs = parallel_apply(replicate(module, used, not is_grad_enabled()), args, keywords, used)
    return gather(outputs, where, dim)
