"""When machine code takes over from generated wrappers: after some thousand calls, so that short programs pay nothing for it.

A wrapper is a Python function, and stays the same object. When machine code is there, the function's code is exchanged for one that asks it
first: a built-in function that answers None for a call that is not usual, which the lines behind it do as before.

    FLAMBEAU_FAST_PATH=python     wrappers stay as they are
    FLAMBEAU_FAST_PATH=machine    machine code from the start
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from typing import Any

from .interruption import GENERATED

AFTER = 20_000  # tensors
_CHOSEN = os.environ.get("FLAMBEAU_FAST_PATH", "")
if _CHOSEN not in ("", "python", "machine"):
    raise ValueError(f"FLAMBEAU_FAST_PATH: expected 'python' or 'machine', got {_CHOSEN!r}")

_offers: list[Callable[[], None]] = []  # of the wrappers that were made before machine code was there
_finders: list[Callable[[Any, str], Any]] = []  # what gives the built-in function of an operation and a form, once it is there
_kept: list[Any] = []


def offer(op: Any, function: Any, lines: list[str], place: int, form: str, arguments: str, condition: str) -> None:
    """A wrapper whose calls machine code may do: now if it is there, else when it comes.

    Args:
        op: the operation. function: its wrapper, of these ``lines``.
        place: before which line it is asked. form: the kind of call. arguments: what it is given, as source.
        condition: on which it is asked, as source; always where it is empty.
    """

    def accept() -> None:
        machine = _finders[0](op, form)
        if machine is None:
            return
        asked = ["    r = machine(%s)" % arguments, "    if r is not None: return r"]
        if condition:
            asked = [f"    if {condition}:", *["    " + line for line in asked]]
        scope = function.__globals__
        scope["machine"] = machine
        made: dict[str, Any] = {}
        text = "\n".join([*lines[:place], *asked, *lines[place:]])
        exec(compile(text, f"{GENERATED}{function.__code__.co_name}>", "exec"), scope, made)
        function.__code__ = made[function.__code__.co_name].__code__

    if _CHOSEN == "python":
        return
    if _finders:
        accept()
    else:
        _offers.append(accept)


def take_over(find: Callable[[Any, str], Any]) -> None:
    """From now on calls are machine code's, as far as ``find`` has it: of (operation, form), a built-in function or None."""
    _finders.append(find)
    while _offers:
        _offers.pop()()


def counted(blanks: Iterator[Any]) -> Iterator[Any]:
    """The same iterator, which starts machine code after ``AFTER`` items: all in C, as every call takes one."""
    if _CHOSEN == "python":
        return blanks
    mark: set[None] = set()  # goes away when the iterators before it are at their end
    _kept.append(weakref.ref(mark, lambda _: _start()))
    stages: list[Any] = [mark, islice(blanks, AFTER if not _CHOSEN else 1)]
    return chain.from_iterable(chain(map(list.pop, repeat(stages, len(stages))), repeat(blanks)))


def _start() -> None:
    """Start it in a thread of its own: this runs in the midst of some call."""
    if not sys.is_finalizing():
        threading.Thread(target=_load, name="flambeau: machine code", daemon=True).start()


def _load() -> None:
    importlib.import_module(f"{__package__.partition('.')[0]}.kernels.fastpath.start").start(_CHOSEN == "machine")
