"""Moving and casting all tensors of a module: ``to``, ``cuda``, ``half``, ``to_empty``, ``share_memory`` and the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

from .. import ops
from ..autograd.grad_mode import no_grad
from ..core.device import device as Device
from ..core.dtype import dtype as DType
from ..core.state import changes
from ..core.tensor import Parameter, Tensor, swap
from ..facades import __future__

_TO = (
    "to(device=None, dtype=None, non_blocking=False), to(dtype, non_blocking=False), to(tensor, non_blocking=False) or "
    "to(memory_format=...)"
)


class ConvertMethods:
    """The part of ``Module`` that changes the dtype and the place of its tensors, in place."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    children: Callable[[], Any]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter, gradient and buffer by what ``fn`` makes of it; parameters stay the same objects."""
        changes.count += 1
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = _converted(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move or cast all parameters and buffers, in place.

        Called as ``to(device=None, dtype=None, non_blocking=False)``, ``to(dtype, non_blocking=False)``,
        ``to(tensor, non_blocking=False)`` or ``to(memory_format=...)``. Integer tensors keep their dtype; the memory format is for
        tensors of 4 or 5 dimensions.

        Raises:
            TypeError: ``dtype`` is neither floating point nor complex, or the arguments fit none of the forms.
        Source: torch.nn.Module.to.
        """
        device, dtype, non_blocking, memory_format = _parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some modules might not "
                    "work as expected when using complex tensors as parameters or buffers.",
                    stacklevel=2,
                )

        def convert(tensor: Tensor) -> Tensor:
            wanted: dict[str, Any] = {"non_blocking": non_blocking}
            if device is not None:
                wanted["device"] = device
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                wanted["dtype"] = dtype
            if memory_format is not None and tensor.dim() in (4, 5):
                wanted["memory_format"] = memory_format
            if device is not None and tensor.is_meta and Device(device).type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                    "when moving module from meta to a different device."
                )
            return tensor.to(**wanted)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to ``device`` without their values, which are undefined afterwards.

        Source: torch.nn.Module.to_empty.
        """
        return self._apply(lambda tensor: ops.empty_like(tensor, device=device), recurse=recurse)

    def cpu(self, device_id: Any = None) -> Self:
        """Move all parameters and buffers to the CPU; ``device_id`` is an old spelling without meaning.

        Source: torch.nn.Module.cpu.
        """
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a GPU: the current one when ``device`` is None.

        Source: torch.nn.Module.cuda.
        """
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self, device: Any = None) -> Self:
        """Move all parameters and buffers to an XPU. Source: torch.nn.Module.xpu."""
        return self._to_device_type("xpu", device)

    def ipu(self, device: Any = None) -> Self:
        """Move all parameters and buffers to an IPU. Source: torch.nn.Module.ipu."""
        return self._to_device_type("ipu", device)

    def mtia(self, device: Any = None) -> Self:
        """Move all parameters and buffers to an MTIA device. Source: torch.nn.Module.mtia."""
        return self._to_device_type("mtia", device)

    def _to_device_type(self, device_type: str, device: Any) -> Self:
        place = Device(device_type, device) if device is None or isinstance(device, int) else Device(device)
        return self._apply(lambda tensor: tensor.to(device=place))

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers, integer ones too, to ``dst_type``. Source: torch.nn.Module.type."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32. Source: torch.nn.Module.float."""
        return self._apply(lambda tensor: tensor.float() if tensor.is_floating_point() else tensor)

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64. Source: torch.nn.Module.double."""
        return self._apply(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16. Source: torch.nn.Module.half."""
        return self._apply(lambda tensor: tensor.half() if tensor.is_floating_point() else tensor)

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16. Source: torch.nn.Module.bfloat16."""
        return self._apply(lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that other processes can share. Source: torch.nn.Module.share_memory."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _converted(parameter: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """``parameter`` with converted data and gradient: itself, or a new one where the device is of another type.

    ``torch.__future__`` may choose one of them for all conversions.
    """
    grad = parameter.grad
    with no_grad():
        data = fn(parameter)
        new_grad = None if grad is None else fn(grad)
    if data is parameter and new_grad is grad:
        return parameter
    # A tensor that consists of others changes as a whole: its data alone would leave the parts as they are.
    if __future__.get_swap_module_params_on_conversion() or hasattr(data, "__tensor_flatten__"):
        return _swapped(parameter, data, new_grad)
    if data.device.type != parameter.device.type or __future__.get_overwrite_module_params_on_conversion():
        parameter = Parameter(data, parameter.requires_grad)
        if grad is not None and new_grad is not None:
            parameter.grad = new_grad.requires_grad_(grad.requires_grad)
        return parameter
    parameter.data = data
    if grad is not None and new_grad is not grad:
        grad.data = new_grad
    return parameter


def _swapped(parameter: Any, data: Tensor, grad: Tensor | None) -> Any:
    """The object ``parameter``, and that of its gradient, with everything else of the converted tensors."""
    old_grad, parameter.grad = parameter.grad, None
    new = data if isinstance(data, Parameter) else Parameter(data, parameter.requires_grad)
    if old_grad is not None and grad is not None:
        if grad is not old_grad:
            swap(old_grad, grad.requires_grad_(old_grad.requires_grad))
        new.grad = old_grad
    if new is not parameter:
        swap(parameter, new)
    return parameter


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """The arguments of ``Module.to`` as (device, dtype, non_blocking, memory_format)."""
    given = dict(kwargs)
    if "copy" in given:
        raise RuntimeError(".to() does not accept copy argument")
    names: tuple[str, ...] = ("device", "dtype", "non_blocking")
    if args and isinstance(args[0], DType):
        names = ("dtype", "non_blocking")
    elif args and isinstance(args[0], Tensor):
        names = ("tensor", "non_blocking")
    if len(args) > len(names) or any(name in given for name in names[: len(args)]):
        raise _no_such_form(args, kwargs)
    given.update(zip(names, args))
    example = given.pop("tensor", None)
    if example is not None:
        if not isinstance(example, Tensor) or given.keys() & {"device", "dtype"}:
            raise _no_such_form(args, kwargs)
        given.update(device=example.device, dtype=example.dtype)
    device, dtype = given.pop("device", None), given.pop("dtype", None)
    non_blocking, memory_format = given.pop("non_blocking", False), given.pop("memory_format", None)
    fits = (device is None or isinstance(device, (Device, str, int))) and (dtype is None or isinstance(dtype, DType))
    if given or not fits or not isinstance(non_blocking, bool):
        raise _no_such_form(args, kwargs)
    return (None if device is None else Device(device)), dtype, non_blocking, memory_format


def _no_such_form(args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
    got = [type(arg).__name__ for arg in args] + [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    return TypeError(f"to() received an invalid combination of arguments - got ({', '.join(got)}), but expected {_TO}")
