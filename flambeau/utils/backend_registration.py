"""The device type ``privateuseone``, kept free for devices that are made outside of this package: its name and its methods.

    import flambeau.testing.probe                                    # a kind of array for it
    torch.utils.rename_privateuse1_backend("probe")
    torch.utils.generate_methods_for_privateuse1_backend()
    torch.ones(3).probe().is_probe                                   # True

Source: torch.utils.backend_registration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.arrays.kinds import place_of
from ..core.device import device, private_name, rename_private
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tensor import Tensor

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name: str) -> None:
    """Show the device type ``privateuseone`` under another name, which devices may be called by from then on; once in a process.

    Args:
        backend_name: the name.
    Raises:
        RuntimeError: it has another name already, or the name is another device's.
    Source: torch.utils.rename_privateuse1_backend.
    Example:
        >>> rename_privateuse1_backend("cuda")
        Traceback (most recent call last):
        RuntimeError: Cannot register privateuse1 backend with in-tree device name: cuda
    """
    rename_private(backend_name)


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: list[Any] | None = None,
) -> None:
    """Give tensors, modules and storages methods named after the backend: ``is_foo`` and ``foo()`` for one called ``foo``.

    Args:
        for_packed_sequence: for ``PackedSequence``, a class that this package does not have.
        unsupported_dtype: dtypes that ``foo()`` of a typed storage refuses.
    Raises:
        RuntimeError: a class has such an attribute already.
    Source: torch.utils.generate_methods_for_privateuse1_backend.
    Example:
        >>> generate_methods_for_privateuse1_backend(for_module=False)
        >>> torch.ones(2).is_privateuseone
        False
        >>> del Tensor.is_privateuseone, Tensor.privateuseone
    """
    name = private_name()
    if for_tensor:
        _add(Tensor, f"is_{name}", property(_is_there))
        _add(Tensor, name, _mover(name))
    if for_module:
        from ..nn import Module

        _add(Module, name, _module_mover(name))
    if for_storage:
        _add(UntypedStorage, f"is_{name}", property(_is_there))
        _add(UntypedStorage, name, lambda self, device=None, non_blocking=False: self._to(_place(name, device)))
        _add(TypedStorage, f"is_{name}", property(_is_there))
        _add(TypedStorage, name, _typed_mover(name, tuple(unsupported_dtype or ())))


def _is_there(self: Any) -> bool:
    return self.device.type == private_name()


def _add(owner: type, name: str, value: Any) -> None:
    if hasattr(owner, name):
        raise RuntimeError(f"The custom device module of {owner} has already been registered with {name}")
    setattr(owner, name, value)


def _place(name: str, where: Any) -> Any:
    """A device of this backend, given as an index, a name or a device; the first one when None.

    Raises:
        RuntimeError: a device of another type.
    """
    target = device(name, where) if isinstance(where, int) else device(name if where is None else where)
    if target.type != name:
        raise RuntimeError(f"Invalid device, must be {name} device")
    return place_of(target, name)


def _mover(name: str) -> Callable[..., Any]:
    def method(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        return self.to(_place(name, device), non_blocking=non_blocking, **kwargs)

    method.__name__, method.__doc__ = name, f"The tensor on a ``{name}`` device; itself if it is there."
    return method


def _module_mover(name: str) -> Callable[..., Any]:
    def method(self: Any, device: Any = None) -> Any:
        return self._apply(lambda tensor: tensor.to(_place(name, device)))

    method.__name__, method.__doc__ = name, f"Move all parameters and buffers to a ``{name}`` device, in place."
    return method


def _typed_mover(name: str, refused: tuple[Any, ...]) -> Callable[..., Any]:
    def method(self: Any, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        if self.dtype in refused:
            raise RuntimeError(f"Cannot create {name} storage as {self.dtype} dtype is not supported by this backend")
        return TypedStorage(wrap_storage=self._untyped_storage._to(_place(name, device)), dtype=self.dtype)

    return method
