"""Machine code takes over from generated wrappers after some 30,000 calls, so that short programs pay nothing for it.

A wrapper is a Python function, and stays the same object. When machine code is there, the function's code is exchanged for one that asks it
first: a built-in function that answers None for a call that is not usual, which the lines behind it do as before.

    FLAMBEAU_FAST_PATH=python     wrappers stay as they are
    FLAMBEAU_FAST_PATH=machine    machine code from the start
"""

from __future__ import annotations

import _thread
import atexit
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, starmap
from types import CodeType
from typing import Any

from .interruption import GENERATED

IMPORTED = time.time()  # sources that are younger may be others than those that run
AFTER = 30_000  # tensors: in as many calls machine code saves the time that loading it takes; `python -m benchmarks takeover`
COMPILED_AFTER = 100_000  # where it has to be compiled first, once a machine, which takes seconds
CHOSEN = os.environ.get("FLAMBEAU_FAST_PATH", "")
if CHOSEN not in ("", "python", "machine"):
    raise ValueError(f"FLAMBEAU_FAST_PATH: expected 'python' or 'machine', got {CHOSEN!r}")

DECLINED = object()  # what machine code answers that leaves a call to Python, where None may be an answer

_waiting: list[Callable[[], None]] = []  # exchanges of the code of wrappers that were made before machine code was there
_finders: list[Callable[..., Any]] = []  # what gives the built-in function of an operation, a form and what belongs to it, once it is there
_kept: list[Any] = []
engines: list[Any] = []  # what runs usual backward passes, once it is there; see ``autograd.engine.run_backward``
exchanged: list[tuple[Any, Any, Any]] = []  # wrappers, their code without machine code and with it
# While machine code is loaded: codes with it that were compiled before, by what they are made of.
kept_codes: list[dict[Any, CodeType]] = []


class Offer:
    """A place in a wrapper where machine code may go on.

    Args:
        place: before which line. indent: of that line.
        op: the operation. form: what is done there. arguments: what it is given, as source. condition: on which it is asked, as source.
        more: what else the form has to know. answer: what is returned, as source over the answer ``m``.
    """

    def __init__(
        self, place: int, indent: int, op: Any, form: str, arguments: str, condition: str, more: tuple[Any, ...], answer: str = "m"
    ):
        self.place, self.indent, self.op, self.form = place, indent, op, form
        self.arguments, self.condition, self.more, self.answer = arguments, condition, more, answer

    def lines(self, name: str) -> list[str]:
        asked = [f"    m = {name}({self.arguments})", f"    if m is not None: return {self.answer}"]
        if self.condition:
            asked = [f"    if {self.condition}:", *["    " + line for line in asked]]
        return ["    " * (self.indent - 1) + line for line in asked]


def offer(function: Any, lines: list[str], offers: list[Offer]) -> None:
    """A wrapper of these ``lines`` with places where machine code may go on: now if it is there, else when it comes."""

    def accept() -> None:
        scope, text, done = function.__globals__, [], 0
        for k, each in enumerate(offers):
            machine = find(each.op, each.form, *each.more)
            if machine is None:
                continue
            scope[f"machine{k}"] = machine
            text += [*lines[done : each.place], *each.lines(f"machine{k}")]
            done = each.place
        if not done:
            return
        whole, name = "\n".join([*text, *lines[done:]]), function.__code__.co_name

        def compiled() -> CodeType:
            made: dict[str, Any] = {}
            exec(compile(whole, f"{GENERATED}{name}>", "exec"), scope, made)
            code: CodeType = made[name].__code__
            return code

        exchange(function, kept(whole, compiled))

    await_machine(accept)


def kept(key: Any, compiled: Callable[[], CodeType | None]) -> Any:
    """The code that ``compiled`` makes, or made in an earlier process: ``key`` is all that it depends on besides the sources."""
    for codes in kept_codes:
        if key in codes:
            return codes[key]
    code = compiled()
    for codes in kept_codes:
        if code is not None:
            codes[key] = code
    return code


def find(op: Any, form: str, *more: Any) -> Any:
    """The built-in function of an operation, a form and what belongs to it, or None; once machine code is there."""
    return _finders[0](op, form, *more)


def exchange(function: Any, code: Any) -> None:
    """Give a function its code with machine code."""
    exchanged.append((function, function.__code__, code))
    function.__code__ = code


def await_machine(accept: Callable[[], None]) -> None:
    """Call ``accept`` when machine code is there, or now if it is; never where wrappers stay as they are."""
    if CHOSEN != "python":
        _waiting.append(accept)
        if _finders:
            _accept_all()


def when_there(name: str, accept: Callable[[Any], Any]) -> None:
    """Have ``accept`` called with the function of machine code of that name as soon as it is there, if ever."""

    def take() -> None:
        machine = find(name, "alone")
        if machine is not None:
            accept(machine)

    await_machine(take)


def found(op: Any, form: str) -> Any:
    """The function of machine code for a form of an operation; None where there is none."""
    return _finders[0](op, form) if _finders else None


def once_there(module: str) -> None:
    """Have ``take_over()`` of a module, which is imported then, called when machine code is there."""
    await_machine(lambda: importlib.import_module(module).take_over())


def _accept_all() -> None:
    """Exchange what waits. Threads may do so at once: each takes what is there."""
    while _waiting:
        try:
            accept = _waiting.pop()
        except IndexError:  # another took the last
            return
        accept()


@contextmanager
def python_only() -> Iterator[None]:
    """Wrappers as they are without machine code, within the block; for comparisons, in a process of one thread."""
    with _loading:  # what is being loaded is there first, and nothing comes while the block runs
        aside, engines[:] = engines[:], []
        for function, python, _ in exchanged:
            function.__code__ = python
        try:
            yield
        finally:
            engines[:] = aside
            for function, _, machine in exchanged:
                function.__code__ = machine


def take_over(find: Callable[..., Any], *engine: Any) -> None:
    """From now on calls are machine code's, as far as ``find`` has it: of an operation, a form and more, a built-in function or None.

    So are backward passes, by ``engine``, where there is one.
    """
    if not _finders:
        _finders.append(find)
        engines.extend(engine)
    _accept_all()


def counted(blanks: Iterator[Any]) -> Iterator[Any]:
    """The same iterator, which starts machine code after so many items: all in C, as every call takes one."""
    if CHOSEN == "python":
        return blanks
    atexit.register(_end)
    if CHOSEN == "machine":
        return chain(islice(blanks, 1), _mark(True), blanks)
    # iterators all of them: to go from one to the next allocates nothing, and cannot fail, which would be the end of all tensors
    return chain(islice(blanks, AFTER), _mark(False), islice(blanks, COMPILED_AFTER - AFTER), _mark(True), blanks)


def _mark(compiles: bool) -> Iterator[Any]:
    """An iterator without items, at whose end a thread of its own starts machine code, and compiles it if it is to.

    The end comes in the midst of some call. So it waits for nothing, and is C's alone: what a signal's handler raised would be lost in a
    function that is called because an object went away. Where no thread can be had, wrappers stay as they are.
    """
    mark: set[None] = set()  # the iterator lets it go at its end
    begin = starmap(_thread.start_new_thread, [(_load, (compiles,))])
    _kept.append(weakref.ref(mark, partial(next, begin)))
    return iter(mark)


_loading = threading.RLock()  # a process forks before or after: its child would wait for ever for what a thread was importing
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


_over: list[None] = []  # not empty once there is nothing more to load, or the process ends


def _end() -> None:
    """Wait for the compiler where it is at work, and keep it from starting: the end of a process takes away what it works on."""
    with _loading:
        _over.append(None)


def _load(compiles: bool) -> None:
    with _loading:
        if _over or sys.is_finalizing():
            return
        if importlib.import_module(f"{__package__.partition('.')[0]}.kernels.fastpath.start").start(compiles):
            _over.append(None)
