"""Prints the names of CuPy that ``cupy_names.txt`` holds, read off the installed CuPy; a GPU is not needed.

    python tests/devices/list_cupy.py > tests/devices/cupy_names.txt

A line is a function with its parameters, ``name(a, axis, *, dtype)``, a ufunc with its types, ``name: ff->f dd->d``, or another name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.special

_RUNTIME = re.compile("(get|set|device|driver|runtime|memGet|memory|pointer|stream|CUDARuntimeError|profiler|ipc)")


def parameters(function: Any) -> list[str] | None:
    """A function's parameters by its signature, or by the first line of its documentation, where Cython writes them."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        first = ((function.__doc__ or "").strip().splitlines() or [""])[0]
        match = re.match(r"[\w.]+\((.*?)\)( ->.*)?$", first)
        if match is None:
            return None
        parts = [part.partition("=")[0].strip() for part in match.group(1).split(",") if part.strip()]
        return [part if part.startswith("*") else part.split()[-1] for part in parts if part != "self"]
    names, has_star = [], False
    for param in signature.parameters.values():
        if param.kind is param.KEYWORD_ONLY and not has_star:
            names.append("*")
            has_star = True
        has_star = has_star or param.kind is param.VAR_POSITIONAL
        prefix = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
        if param.name != "self":
            names.append(prefix + param.name)
    return names


def line_of(name: str, value: Any) -> str:
    found = parameters(value) if callable(value) else None
    return name if found is None else f"{name}({', '.join(found)})"


def public(holder: Any) -> list[str]:
    return sorted(name for name in dir(holder) if not name.startswith("_"))


def functions(cupy: Any, prefix: str, module: Any, original: Any) -> Iterator[str]:
    """Names that a module of CuPy shares with NumPy's."""
    for name in public(original):
        value = getattr(module, name, None)
        if value is None or inspect.ismodule(value) or inspect.ismodule(getattr(original, name)):
            continue
        if isinstance(value, cupy.ufunc):
            yield f"{prefix}{name}: {' '.join(value.types)}"
        else:
            yield prefix + name if isinstance(value, type) else line_of(prefix + name, value)


def lines(cupy: Any, cupyx: Any) -> Iterator[str]:
    yield from functions(cupy, "", cupy, np)
    yield "newaxis"
    for part in ("linalg", "fft"):
        yield from functions(cupy, f"{part}.", getattr(cupy, part), getattr(np, part))
    yield from functions(cupy, "scipy.special.", cupyx.scipy.special, scipy.special)
    yield line_of("lib.stride_tricks.as_strided", cupy.lib.stride_tricks.as_strided)
    for name in ("asnumpy", "get_default_memory_pool", "get_default_pinned_memory_pool"):
        yield line_of(name, getattr(cupy, name))
    for name in public(cupy.ndarray):
        yield line_of(f"ndarray.{name}", getattr(cupy.ndarray, name))
    cuda = cupy.cuda
    for name in ("alloc", "alloc_pinned_memory", "get_allocator", "get_cublas_handle", "get_current_stream", "get_elapsed_time"):
        yield line_of(f"cuda.{name}", getattr(cuda, name))
    for name in ("is_available", "set_allocator"):
        yield line_of(f"cuda.{name}", getattr(cuda, name))
    for name in ("Device", "Event", "MemoryPointer", "MemoryPool", "PinnedMemoryPool", "Stream"):
        kind = getattr(cuda, name)
        yield line_of(f"cuda.{name}", kind)
        for part in public(kind):
            value = getattr(kind, part)
            yield f"cuda.{name}.{part}" if isinstance(value, kind) else line_of(f"cuda.{name}.{part}", value)
    for name in ("ptr", "device_id"):  # made by ``__init__``
        yield f"cuda.Stream.{name}"
    yield "cuda.Event.ptr"
    yield "cuda.memory"
    yield line_of("cuda.memory.OutOfMemoryError", cuda.memory.OutOfMemoryError)
    yield "cuda.runtime"
    for name in public(cuda.runtime):
        if _RUNTIME.match(name):
            value = getattr(cuda.runtime, name)
            yield f"cuda.runtime.{name}" if isinstance(value, type) else line_of(f"cuda.runtime.{name}", value)
    for name in public(cuda.runtime.PointerAttributes):
        yield f"cuda.runtime.PointerAttributes.{name}"


def main() -> None:
    import cupy
    import cupyx.scipy.special

    print("\n".join(lines(cupy, cupyx)))


if __name__ == "__main__":
    main()
