"""Kernels generated as LLVM IR: see ``docs/kernels.md`` for the way from an expression to machine code."""

from __future__ import annotations

import os
import re

_DECORATOR = re.compile(rb'native\(((?:\s*"[^"]+",?)+)\s*\)')


def _families() -> dict[str, str]:
    """Which module has the native kernels of an operation, read off the ``@native("...")`` in the modules' sources.

    So a kernel is registered by its decorator alone, and its module is imported when the operation first meets a large operand.
    """
    families: dict[str, str] = {}
    folder = os.path.dirname(__file__)
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "__init__.py":
            with open(os.path.join(folder, file), "rb") as source:
                for names in _DECORATOR.findall(source.read()):
                    families.update(dict.fromkeys(names.decode().split('"')[1::2], file[:-3]))
    return families


FAMILIES = _families()
