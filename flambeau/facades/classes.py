"""``torch.classes``: classes that shared libraries of C++ register; there are none. Source: torch.classes."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, NoReturn

__all__ = ["load_library", "loaded_libraries"]

loaded_libraries: Iterable[str] = frozenset()


class _ClassNamespace(ModuleType):
    """The classes of one library."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        namespace = self.__name__.rpartition(".")[2]
        raise RuntimeError(
            f"Tried to instantiate class '{namespace}.{name}', but it does not exist! Ensure that it is registered via torch::class_"
        )


def load_library(path: str) -> NoReturn:
    """Load a library that registers classes.

    Raises:
        NotImplementedError: always: classes of C++ are made for PyTorch's own objects in memory.
    Source: torch.classes.load_library.
    """
    raise NotImplementedError("torch.classes.load_library: libraries for PyTorch's C++ interface cannot be loaded")


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name == "torch":  # Python's pickles look for ``torch.channels_last`` in all modules
        raise AttributeError(name)
    namespace = globals()[name] = _ClassNamespace(f"torch.classes.{name}")
    return namespace
