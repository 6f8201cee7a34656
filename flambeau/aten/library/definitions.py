"""Definitions of operations and registration of kernels; ``Library`` and ``custom_op`` stand on it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ...core.device import device
from .. import namespaces, overloads
from ..schema import FunctionSchema
from ..tags import DispatchKey, Tag
from .operation import _BACKENDS, Operation


def split_name(name: str) -> tuple[str, str]:
    """Namespace and name of ``'NAMESPACE::NAME'``.

    Raises:
        ValueError: it is not of that form.
    """
    namespace, colons, short = name.partition("::")
    if not colons or "::" in short:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {name}. The qualname passed to the torch.library APIs must '
            "consist of a namespace and a name, e.g. aten::sin"
        )
    if "." in short:
        raise ValueError(f"an operation's name has no overload behind a dot here: {name}")
    return namespace, short


def key_of(device_type: str) -> str:
    """The dispatch key of a kind of device: ``'CPU'``."""
    return _BACKENDS.get(device_type, device_type.capitalize())


def checked_key(key: str) -> str:
    """A dispatch key's name.

    Raises:
        RuntimeError: there is none of that name.
    """
    if key not in DispatchKey.__members__:
        raise RuntimeError(f"could not parse dispatch key: {key}")
    return key


def define(schema: FunctionSchema, operation: Operation, tags: Sequence[Tag], replace: bool = False) -> Any:
    """Add an overload to ``torch.ops``.

    Raises:
        RuntimeError: it is there already, unless ``replace``.
    """
    namespace, _, name = schema.name.partition("::")
    packet = namespaces.ops.show(namespace).packet(name)
    overload_name = schema.overload_name or "default"
    if overload_name in packet._defined and not replace:
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Each overload's schema should "
            "only be registered with a single call to def()."
        )
    overload = overloads.OpOverload(packet, operation, schema, tags)
    operation.overload = overload
    for (name, key), kernels in _registered.items():
        if name == schema.full_name and kernels:
            operation.kernels[key] = kernels[-1]
    packet.define(overload)
    return overload


# Kernels by operation and dispatch key, those of operations that are not defined yet too; the last one is called, and when its library
# goes, the one before it.
_registered: dict[tuple[str, str], list[Callable[..., Any]]] = {}


def _defined(name: str) -> Operation | None:
    """The operation of a qualified name, which may have an overload's behind a dot."""
    try:
        found: Operation = find(name)._op
    except AttributeError:
        return None
    return found


def add_kernel(name: str, key: str, function: Callable[..., Any]) -> None:
    """Register a kernel by name; of an operation that is not defined yet, it is kept."""
    operation = _defined(name)
    _registered.setdefault((_full_name(name, operation), key), []).append(function)
    if operation is not None:
        operation.kernels[key] = function


def remove_kernel(name: str, key: str, function: Callable[..., Any]) -> None:
    """Take a kernel away, if it is still there; the one that was registered before it is called again."""
    operation = _defined(name)
    others = _registered.get((_full_name(name, operation), key), [])
    if function in others:
        others.remove(function)
    if operation is not None and operation.kernels.get(key) is function:
        if others:
            operation.kernels[key] = others[-1]
        else:
            del operation.kernels[key]


def _full_name(name: str, operation: Operation | None) -> str:
    return name if operation is None else operation.schema.full_name


def undefine(overload: Any) -> None:
    """Take an overload from ``torch.ops``, and its operation where none is left."""
    packet = overload.overloadpacket
    packet.undefine(overload._overloadname)
    if not packet._defined:
        namespaces.ops.namespace(overload.namespace).forget(overload._opname)


def find(name: Any) -> Any:
    """An overload that a program defined, by the overload, a ``CustomOpDef`` or its name.

    Raises:
        AttributeError: there is none.
        NotImplementedError: an operation of flambeau.
    """
    if isinstance(name, overloads.OpOverload):
        found: Any = name
    elif isinstance(name, overloads.OpOverloadPacket):
        found = name.default
    elif hasattr(name, "_opoverload"):
        found = name._opoverload
    else:
        namespace, _, rest = name.partition("::")
        short, _, overload = rest.partition(".")
        packet = getattr(namespaces.ops.namespace(namespace), short)
        found = getattr(packet, overload or "default")
    if not isinstance(found._op, Operation):
        raise NotImplementedError(f"{found.name()}: rules and kernels of operations that flambeau has itself cannot be registered")
    return found


class _Context(threading.local):
    current: Any = None


_running = _Context()


class FakeImplCtx:
    """Context of a fake kernel, by ``torch.library.get_ctx()``. Source: torch._library.fake_impl.FakeImplCtx."""

    def __init__(self, overload: Any):
        self._overload = overload

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that depends on values.

        Raises:
            RuntimeError: always: there are no symbolic sizes.
        """
        raise RuntimeError(
            f"{self._overload._name}: You're trying to run this operator with meta Tensors (as opposed to FakeTensors), but this operator "
            "may return an output Tensor with data-dependent shape. Meta Tensors don't support operators with outputs that have "
            "data-dependent shapes, and there are no symbolic sizes here."
        )

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> Any:
    """Inside a fake kernel: what it may ask for.

    Returns: a context with the method ``new_dynamic_size``; None elsewhere.
    Source: torch.library.get_ctx.
    Example:
        >>> torch.library.get_ctx() is None
        True
    """
    return _running.current


def fake_kernel(operation: Operation, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for tensors without values as a kernel."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outside, _running.current = _running.current, FakeImplCtx(operation.overload)
        try:
            return function(*args, **kwargs)
        finally:
            _running.current = outside

    kernel.is_fake = True  # type: ignore[attr-defined]
    return kernel


def device_key(kind: str) -> str:
    """The dispatch key of a kind of device, or the key itself.

    Raises:
        RuntimeError: neither.
    """
    return kind if kind in DispatchKey.__members__ else key_of(device(kind).type)
