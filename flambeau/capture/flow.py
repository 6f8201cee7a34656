"""Uses of a number that a program reads from a tensor, told by the instructions behind the call of ``item``.

``return loss.item()``: the function only loads further values, calls their methods and puts all of it into containers, until it
returns. The number stays on the interpreter's stack, where no code can see it, so it is no look. ``if loss.item() > 2``: what the
comparison gives is all that is seen.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable
from types import CodeType
from typing import Any

__all__ = ["compared_with", "is_only_returned"]

_NOTHING = frozenset(("CACHE", "NOP", "RESUME", "PRECALL", "EXTENDED_ARG", "NOT_TAKEN"))
_BUILDS = {
    "BUILD_TUPLE": (1, 0),
    "BUILD_LIST": (1, 0),
    "BUILD_MAP": (2, 0),
    "BUILD_CONST_KEY_MAP": (1, 1),
}  # operands taken: per argument, more
_TAKES = {"BINARY_OP": 2, "BINARY_SUBSCR": 2, "UNARY_NEGATIVE": 1, "UNARY_NOT": 1}


def is_only_returned(frame: Any) -> bool:
    """Whether the result of the call that ``frame`` is making leaves the function as it is, perhaps in a container."""
    return _returns(frame.f_code, frame.f_lasti)


_COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


def compared_with(frame: Any) -> tuple[Callable[[Any, Any], bool], float] | None:
    """The comparison and the number with which the result of the call that ``frame`` is making is compared at once; None if it is not."""
    behind = [each for each in dis.get_instructions(frame.f_code) if each.offset > frame.f_lasti and each.opname not in _NOTHING][:2]
    if len(behind) < 2 or behind[1].opname != "COMPARE_OP":
        return None
    load, comparison = behind
    if load.opname.startswith("LOAD_FAST"):
        value = frame.f_locals.get(load.argval)
    elif load.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
        value = load.argval
    else:
        return None
    word = str(comparison.argval).removeprefix("bool(").removesuffix(")")
    return (_COMPARISONS[word], value) if value.__class__ in (int, float) and word in _COMPARISONS else None


def _returns(code: CodeType, position: int) -> bool:
    above = 0  # values on the stack above the number, or above the container that has it
    for instruction in dis.get_instructions(code):
        if instruction.offset <= position:  # the call, whose position may be that of its cache
            continue
        name, arg = instruction.opname, instruction.arg or 0
        if name in _NOTHING:
            continue
        if name == "RETURN_VALUE":
            return above == 0
        if name in _BUILDS:
            per, more = _BUILDS[name]
            taken = per * arg + more
            above = above - taken + 1 if taken <= above else 0
        elif name in _TAKES:
            if above < _TAKES[name]:
                return False
            above -= _TAKES[name] - 1
        elif name == "CALL":
            if above < arg + 2:
                return False
            above += dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
        elif name.startswith(("LOAD_", "PUSH_NULL")):
            if name in ("LOAD_ATTR", "LOAD_METHOD") and not above:
                return False
            above += dis.stack_effect(instruction.opcode, instruction.arg if instruction.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
        else:
            return False
    return False
