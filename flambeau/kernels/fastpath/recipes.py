"""Names of what stands in the table of machine code, and of the state of the sources that write it.

To write the text of all fast paths takes ten times as long as to load what was compiled of it. So a recipe lies beside the image on disk:
which image the present sources lead to, and by which names its table is filled. An object that has no name has no recipe.
"""

from __future__ import annotations

import ast
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from ...core.calls import machine_calls
from ..compiler import cache, target as targets

_PACKAGE = __name__.partition(".")[0]
_FOLDERS = ("core", "autograd", "kernels", "nn")  # whatever writes machine code, and the classes and operations that it speaks of
_LITERALS = (type(None), type(...), bool, int, str)


def _files(folder: str) -> Iterator[os.DirEntry[str]]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry


def _all_files() -> Iterator[os.DirEntry[str]]:
    root = os.path.dirname(sys.modules[_PACKAGE].__file__ or "")
    for folder in _FOLDERS:
        yield from _files(os.path.join(root, folder))


_looked: list[str | None] = []  # what was found in a block of ``looked_at_once``


@contextmanager
def looked_at_once() -> Iterator[None]:
    """Within the block sources are looked at once: that takes a millisecond or two."""
    _looked.append(_state())
    try:
        yield
    finally:
        _looked.pop()


def sources() -> str | None:
    """State of the sources and of what else texts depend on; None where they do not lie in a folder, or were changed since the import.

    As byte code is Python's for the time and the size of a source, so is this: to read them all takes as long as what it saves.
    """
    for state in _looked:
        return state
    return _state()


def _state() -> str | None:
    try:
        states = [(entry.path, entry.stat()) for entry in _all_files()]
    except OSError:
        return None
    if max(max(state.st_mtime, state.st_ctime) for _, state in states) >= machine_calls.IMPORTED:
        return None
    chosen = sorted((name, value) for name, value in os.environ.items() if name.startswith("FLAMBEAU_"))
    files = [(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns) for path, state in states]
    return repr((sys.version, platform.machine(), np.__version__, np.__file__, chosen, files))


def key_of(what: str, target: targets.Target) -> str | None:
    """The key on disk of what follows from the sources; None where their state is not known."""
    known = sources()
    return None if known is None else cache.key_of(f"{what}|{known}", target)


def name_of(thing: Any) -> str | None:
    """A name by which ``named`` finds an object in another process; None where it has none."""
    if type(thing) in _LITERALS or (type(thing) is tuple and all(type(item) in _LITERALS for item in thing)):
        return f"={thing!r}" if thing is not ... else "=..."
    if isinstance(thing, np.dtype):
        return f"dtype {thing.name}"
    for module in (getattr(thing, "__module__", ""), "types"):  # where classes are that have no name among those built in
        own = f"{module}:{getattr(thing, '__qualname__', '')}"
        if _found(own) is thing:
            return own
    modules = {name: vars(module) for name, module in sorted(sys.modules.items()) if _is_ours(name, module)}
    for name, members in modules.items():
        if members is thing:
            return f"{name}:__dict__"
        for member, value in list(members.items()):  # other threads may import meanwhile
            if value is thing:
                return f"{name}:{member}"
            if getattr(value, "__dict__", None) is thing and not isinstance(value, ModuleType):
                return f"{name}:{member}.__dict__"
    for name, members in modules.items():
        for member, value in list(members.items()):
            for attribute, inner in list(getattr(value, "__dict__", {}).items()):
                if inner is thing and not isinstance(value, ModuleType):
                    return f"{name}:{member}.{attribute}"
    return None


def _is_ours(name: str, module: Any) -> bool:
    return (name == _PACKAGE or name.startswith(f"{_PACKAGE}.")) and type(module) is ModuleType


def _found(name: str) -> Any:
    """An object by its module and the names of members in it; ``_found`` itself where there is none."""
    module, _, path = name.partition(":")
    thing: Any = sys.modules.get(module)
    for member in path.split("."):
        thing = getattr(thing, member, _found)
    return thing


def named(name: str) -> Any:
    """The object of a name.

    Raises:
        LookupError: there is none.
    """
    if name.startswith("="):
        value = ast.literal_eval(name[1:])
        return sys.intern(value) if type(value) is str else value
    if name.startswith("dtype "):
        return np.dtype(name[6:])
    thing = _found(name)
    if thing is _found:
        raise LookupError(name)
    return thing
