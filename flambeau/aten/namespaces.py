"""``torch.ops`` itself: its namespaces, that of PyTorch's kernels among them. Source: torch._ops."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

from .. import ops as _operations
from ..core.calls.registry import TABLES
from ..core.tensor import Tensor
from ..facades import unsupported
from ..ops import foreach
from .overloads import OperatorBase, OpOverload, OpOverloadPacket, _OpNamespace
from .tags import DispatchKey

__all__ = ["DispatchKey", "OpOverload", "OpOverloadPacket", "OperatorBase", "ops"]

_FAMILIES = {"linalg": "linalg", "fft": "fft", "special": "special"}  # aten::linalg_inv is torch.linalg.inv
_FILLED = frozenset(("quantized",))  # namespaces whose operations a module of that name defines
_OPERATORS = frozenset(f"__{in_place}{name}__" for in_place in ("", "i") for name in ("and", "or", "xor", "lshift", "rshift"))


class _Aten(_OpNamespace):
    """``torch.ops.aten``: every operation by the name of PyTorch's kernel."""

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith("__") and name not in _OPERATORS else function_of(name)
        if function is None:
            return super().__getattr__(name)
        return self.__dict__.setdefault(name, OpOverloadPacket("aten", name, function, _calls().implementation))

    def __dir__(self) -> list[str]:
        return sorted({*TABLES["ops.aten"], *TABLES["torch"]})


def function_of(name: str) -> Callable[..., Any] | None:
    """The function of flambeau that is ``aten::name``."""
    if name in _calls().IMPLEMENTED:
        return _by_position(_calls().IMPLEMENTED[name])
    if name.startswith("_foreach_"):
        return foreach.function(name) if name in foreach.names() else None
    for table in ("ops.aten", "torch", "nn.functional"):
        if name in TABLES[table]:
            return _by_position(TABLES[table][name].wrapper)
    prefix, _, rest = name.partition("_")
    if prefix in _FAMILIES and rest in TABLES[_FAMILIES[prefix]]:
        return _by_position(TABLES[_FAMILIES[prefix]][rest].wrapper)
    method = getattr(Tensor, name, None)
    return _by_position(method) if callable(method) else _calls().function_of(name)


def _calls() -> Any:
    """Module that translates between calls of kernels and calls of flambeau's operations."""
    for part in ("rules", "formulas", "kernels", "composites", "names"):  # what fills the tables of the module that is returned
        importlib.import_module(f".{part}", __package__)
    return importlib.import_module(".calls", __package__)


def _by_position(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes its first argument as ``self`` too, as schemas call it."""

    def called(*args: Any, **kwargs: Any) -> Any:
        return function(kwargs.pop("self"), **kwargs) if "self" in kwargs and not args else function(*args, **kwargs)

    called.__name__ = getattr(function, "__name__", "")
    called.__doc__, called.__wrapped__ = function.__doc__, function  # type: ignore[attr-defined]
    return called


class _Ops:
    """The namespaces of ``torch.ops``, which shows them beside what its package has itself."""

    def __init__(self) -> None:
        self._namespaces: dict[str, _OpNamespace] = {"aten": _Aten("aten")}

    def namespace(self, name: str) -> _OpNamespace:
        """A namespace, made where there is none yet; one that has operations is ``torch.ops.NAME`` before anything else of that name."""
        found = self._namespaces.get(name)
        if found is None:
            made = _OpNamespace(name)
            if name in _FILLED:
                importlib.import_module(f".{name}", __package__).fill(made)
            found = self._namespaces.setdefault(name, made)
        return found

    def find(self, name: str) -> _OpNamespace:
        """``torch.ops.NAME`` where its package has nothing of that name: a namespace, whether it has operations or not.

        Raises:
            AttributeError: a module of the package, which an import may ask for; a name of Python's.
        """
        if name == "aten":
            return self.namespace(name)
        if name in _FILLED:
            return self.show(name)
        if name.startswith("__") or importlib.util.find_spec(f"{_operations.__name__}.{name}") is not None:
            raise AttributeError(f"module '{_operations.__name__}' has no attribute '{name}'")
        return self.namespace(name)

    def show(self, name: str) -> _OpNamespace:
        """A namespace that operations are defined in. It comes before anything else of that name, which is found behind it."""
        if importlib.util.find_spec(f"{_operations.__name__}.{name}") is not None:
            importlib.import_module(f"{_operations.__name__}.{name}")  # first: an import puts the module into its package
        namespace = self.namespace(name)
        setattr(_operations, name, namespace)
        return namespace

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(_operations, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespaces)

    def __repr__(self) -> str:
        return "<module 'torch.ops' from '_ops.py'>"


ops = _Ops()
globals().update(unsupported.names("_ops", "", "HigherOrderOperator TorchBindOpOverload"))
