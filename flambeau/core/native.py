"""Where generated kernels stand beside the reference ones.

An operation's reference kernel works on anything.  A native kernel, registered under the operation's name, takes the same arguments
and returns the same result faster, or None where a call is not for it (a dtype, a layout); then the reference does the work.  Native
kernels are asked only for operands of ``LARGE`` elements or more, below which starting one costs more than it saves.

    FLAMBEAU_KERNELS=llvm     (the default) kernels are used where they exist and llvmlite or a compiled copy is there
    FLAMBEAU_KERNELS=numpy    reference kernels only

The back end is imported when the first large operand comes; this module knows only its name.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dispatch import Op

LARGE = 8192  # elements
_BACKEND = f"{__package__.rpartition('.')[0]}.backends.llvm"

_registered: dict[str, Callable[..., Any]] = {}  # by operation, filled by @native
_found: dict[str, Callable[..., Any] | None] = {}  # what ``find`` answered
_families: dict[str, str] | None = None


class Switch:
    """Whether native kernels are used; reading an attribute is quicker than asking the environment."""

    on = True


def _initial() -> bool:
    chosen = os.environ.get("FLAMBEAU_KERNELS") or "llvm"
    if chosen not in ("llvm", "numpy"):
        raise ValueError(f"FLAMBEAU_KERNELS: expected 'llvm' or 'numpy', got {chosen!r}")
    return chosen == "llvm"


switch = Switch()
switch.on = _initial()


def native(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the native kernel of the operations ``names``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _registered[name] = function
        return function

    return register


def find(name: str) -> Callable[..., Any] | None:
    """The native kernel of an operation, whose family is imported now if need be; None where there is none."""
    if name not in _found:
        global _families
        if _families is None:
            _families = importlib.import_module(_BACKEND).FAMILIES
        family = _families.get(name)
        if family is not None:
            importlib.import_module(f"{_BACKEND}.{family}")
        _found[name] = _registered.get(name)
    return _found[name]


def forget(name: str) -> None:
    """Use the reference kernel of an operation from now on: its native one cannot be had on this machine."""
    _found[name] = None


@contextmanager
def disabled() -> Iterator[None]:
    """Reference kernels only, within the block; in all threads."""
    before, switch.on = switch.on, False
    try:
        yield
    finally:
        switch.on = before


class NoKernel(RuntimeError):
    """A native kernel cannot be had on this machine: no llvmlite, or an instruction that the processor lacks."""


def key_of(op: Op) -> str:
    return op.name if op.namespace == "torch" else f"{op.namespace}.{op.name}"


def attempt(name: str, *arguments: Any, **named: Any) -> Any:
    """What the native kernel of operation ``name`` returns for these arguments; None where there is none or it declines."""
    if not switch.on:
        return None
    kernel = find(name)
    if kernel is None:
        return None
    try:
        return kernel(*arguments, **named)
    except NoKernel:
        forget(name)
        return None


def beside(op: Op, reference: Callable[..., Any]) -> Callable[..., Any]:
    """What a short way calls with large operands: the native kernel, or where that declines ``reference``."""
    name = key_of(op)

    def large(*arguments: Any, **named: Any) -> Any:
        result = attempt(name, *arguments, **named)
        return reference(*arguments, **named) if result is None else result

    return large
