"""Operations that programs add by ``torch.library``: where ``torch.ops.NAMESPACE.NAME`` finds them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..core.calls.registry import TABLES
from ..core.tensor import Tensor

NAMESPACES: dict[str, SimpleNamespace] = {}


def add(qualified_name: str, operation: Any) -> None:
    """Make an operation ``torch.ops.NAMESPACE.NAME``; ``qualified_name`` is ``'NAMESPACE::NAME'``."""
    namespace, _, name = qualified_name.partition("::")
    setattr(NAMESPACES.setdefault(namespace, SimpleNamespace()), name, operation)


class Packet:
    """An operation as ``torch.ops.aten`` shows it: called itself, or by the name of an overload (``add.Tensor``).

    Attributes:
        __name__: the operation's name.
        function: what is called; it finds the overload from its arguments.
    """

    def __init__(self, name: str, function: Any):
        self.__name__, self.__doc__, self.function = name, function.__doc__, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.function

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class Aten:
    """``torch.ops.aten``: every operation by the name of PyTorch's kernel."""

    def __getattr__(self, name: str) -> Packet:
        found = None
        for namespace in ("ops.aten", "torch", "nn.functional"):
            if name in TABLES[namespace]:
                found = TABLES[namespace][name].wrapper
                break
        else:
            found = None if name.startswith("__") else getattr(Tensor, name, None)
        if not callable(found):
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        self.__dict__[name] = packet = Packet(name, found)
        return packet

    def __dir__(self) -> list[str]:
        return sorted({*TABLES["ops.aten"], *TABLES["torch"]})


aten = Aten()
