"""Numbers that a program reads from tensors only to return them: nothing can depend on their values, so they are no looks.

``return loss.item()`` is known by its instructions. After the call of ``item`` the function only loads further values, calls their methods
and puts all of it into containers, until it returns; the number itself stays on the interpreter's stack, where no code can see it.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any

__all__ = ["is_only_returned"]

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
