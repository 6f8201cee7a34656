"""An interrupt at an exact place: where CPython looks for signals, which is after a call, at a function's start and when a loop turns.

Random timing finds the wide gaps; counting places finds the narrow ones.  ``Injector(at)`` lets ``at`` places of this package's code pass
and acts at the next one, as a signal handler would; with ``at=None`` it only counts.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "flambeau") + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_GENERATED = ("<flambeau", "<wrapper", "<string>")


def is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith((PACKAGE, *_GENERATED))


def places(code: CodeType) -> frozenset[int]:
    """Offsets of instructions before which a signal handler may run."""
    offsets, called = set(), False
    for op in dis.get_instructions(code):
        if called:
            offsets.add(op.offset)
        called = op.opname == "RESUME" or (op.opname.startswith("CALL") and not op.opname.startswith("CALL_INTRINSIC"))
        if op.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD")) and "NO_INTERRUPT" not in op.opname:
            offsets.add(op.argval)
    return frozenset(offsets)


def came_at_beginning(error: BaseException, name: str = "__exit__") -> bool:
    """Whether a handler raised ``error`` as a method called ``name`` began.

    As ``__exit__`` begins, no context of Python's can end properly, PyTorch's neither.
    """
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == name:
            begin = next(op.offset for op in dis.get_instructions(code) if op.opname == "RESUME")
            return trace.tb_lasti <= min(offset for offset in places(code) if offset > begin)
        trace = trace.tb_next
    return False


class Injector:
    """``with Injector(at, action):`` calls ``action()`` once, at place number ``at`` of this thread.

    Args:
        library: files of Python's own library whose places count as well.
    """

    known: dict[CodeType, frozenset[int]] = {}

    def __init__(self, at: int | None, action: Callable[[], None], library: tuple[str, ...] = ()):
        self.at, self.action = at, action
        self._library = tuple(_LIBRARY + name for name in library)
        self.passed = 0
        self.where = ""
        self.seen: list[tuple[CodeType, int]] = []  # the places, where they are only counted

    def __enter__(self) -> Injector:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    @property
    def has_acted(self) -> bool:
        return self.at is not None and self.passed > self.at

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not is_ours(code) and not code.co_filename.startswith(self._library):
            return None
        offsets = self.known.get(code)
        if offsets is None:
            offsets = self.known[code] = places(code)
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def step(frame: FrameType, event: str, _: Any) -> Any:
            if event == "opcode" and frame.f_lasti in offsets and self._passes(frame):
                return None
            return step

        return step

    def _passes(self, frame: FrameType) -> bool:
        self.passed += 1
        if self.at is None or self.passed <= self.at:
            if self.at is None:
                self.seen.append((frame.f_code, frame.f_lasti))
            return False
        sys.settrace(None)
        self.where = f"{frame.f_code.co_filename.removeprefix(PACKAGE)}:{frame.f_lineno} {frame.f_code.co_name}"
        self.action()
        return True
