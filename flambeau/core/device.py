"""Devices: where a tensor's memory lies."""

from __future__ import annotations

from typing import Any

from .state import active, thread

_KINDS = ("cpu", "cuda", "meta", "mps", "xpu", "mtia", "hpu", "xla", "vulkan", "privateuseone", "ipu", "lazy", "ort", "fpga", "maia", "ve")

_PRIVATE = "privateuseone"
_private: list[str] = []  # the name that users gave that type, if they did


def private_name() -> str:
    """The name that the device type ``privateuseone`` is shown by."""
    return _private[0] if _private else _PRIVATE


def rename_private(name: str) -> None:
    """Show the device type ``privateuseone`` by another name.

    Raises:
        RuntimeError: it has another one already, or the name is another device's.
    """
    if _private and _private[0] != name:
        raise RuntimeError(
            f"torch.register_privateuse1_backend() has already been set! Current backend: {_private[0]}, tried to set: {name}"
        )
    if name in _KINDS and name != _PRIVATE:
        raise RuntimeError(f"Cannot register privateuse1 backend with in-tree device name: {name}")
    if not _private:
        _private.append(name)


class device:
    """A device type with an optional index: ``device('cuda:0')``, ``device('cuda', 0)``, ``device('cpu')``.

    Args:
        type: ``'cpu'``, ``'cuda'``, ``'cuda:1'``, another device, or an int (a CUDA index).
        index: the ordinal, where ``type`` does not give it.
    Raises:
        RuntimeError: an unknown type, or an index given twice.
    Source: torch.device.
    Example:
        >>> torch.device("cuda:1").index, torch.device("cuda", 0), torch.device("cpu") == torch.zeros(1).device
        (1, device(type='cuda', index=0), True)
    """

    __slots__ = ("_kind", "index")
    _kind: str
    index: int | None

    def __new__(cls, type: Any = None, index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        self = object.__new__(cls)
        if isinstance(type, int) and not isinstance(type, bool):
            object.__setattr__(self, "_kind", "cuda")
            object.__setattr__(self, "index", type)
            return self
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, int or device, not {type.__class__.__name__}")
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            raise TypeError(f"device(): argument 'index' (position 2) must be int, not {index.__class__.__name__}")
        if index is not None and index < 0:
            raise RuntimeError(f"Device index must not be negative: expected 0 or more, got {index}")
        kind, colon, ordinal = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
            if not ordinal.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(ordinal)
        if kind in _private:
            kind = _PRIVATE
        if kind not in _KINDS:
            raise RuntimeError(f"Expected one of {', '.join(_KINDS)} device type at start of device string: {kind}")
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "index", index)
        return self

    @property
    def type(self) -> str:
        return _private[0] if _private and self._kind == _PRIVATE else self._kind

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        return f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self._kind == other._kind and self.index == other.index

    def __hash__(self) -> int:
        return hash((self._kind, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (str(self),))

    def __enter__(self) -> device:
        """Make this the device on which the thread's factories make tensors."""
        where, outside = thread.creation_device, thread.creation_devices
        try:
            _set_creation_device(self, (*outside, where))
        except BaseException:  # an interrupt, before or after it: nobody calls __exit__ then
            _set_creation_device(where, outside)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        where, outside = thread.creation_devices[-1], thread.creation_devices[:-1]
        try:
            _set_creation_device(where, outside)
        except BaseException:
            _set_creation_device(where, outside)
            raise


cpu = device("cpu")


class PinnedHost(device):
    """The CPU, for a tensor that is to be made in page-locked memory; equal to it."""

    __slots__ = ()


pinned_host = object.__new__(PinnedHost)
object.__setattr__(pinned_host, "_kind", "cpu")
object.__setattr__(pinned_host, "index", None)


def set_creation_device(where: device | None) -> None:
    """Choose where this thread's factories make tensors; anything but the CPU sends its calls the slow path."""
    _set_creation_device(where, thread.creation_devices)


def _set_creation_device(where: device | None, outside: tuple[device | None, ...]) -> None:
    chosen = None if where is None or where.type == "cpu" else where
    had = thread.creation_device is not None
    thread.creation_device, thread.creation_devices = chosen, outside  # no call from here on: see ``state``
    if chosen is not None and not had:
        thread.modes += 1
        active[:0] = (None,)
    elif chosen is None and had:
        thread.modes -= 1
        del active[-1]
