"""Machine code for functions that are written by hand: their code is exchanged for their own lines with a question in front.

    @asks("number", "self")
    def item(self): ...

The question is put into the function's source, which is compiled anew when machine code takes over; tracebacks and warnings show the same
lines as before. A function whose source is not at hand, or is not what it was made of, stays as it is.
"""

from __future__ import annotations

import ast
import dis
import inspect
import tokenize
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from .machine_calls import Offer, await_machine, exchange, find, kept

_Function = TypeVar("_Function", bound=Callable[..., Any])


def asks(form: str, arguments: str, condition: str = "", answer: str = "m") -> Callable[[_Function], _Function]:
    """Declare that machine code of a form may do calls of a function.

    Args:
        form: what does it. arguments: what it is given, as source. condition: on which it is asked, as source.
        answer: what the function returns where machine code has done the call, as source over its answer ``m``.
    """

    def declare(function: _Function) -> _Function:
        def accept() -> None:
            machine = find(form, "alone", function.__name__)
            if machine is not None:
                name = f"machine_{form}_{function.__name__}"
                question = Offer(0, 1, None, form, arguments, condition, (), answer).lines(name)
                lines, code = [line[4:] for line in question], function.__code__
                code = kept((code.co_filename, *lines, code), lambda: _with_question(function, lines))
                if code is not None:
                    function.__globals__[name] = machine
                    exchange(function, code)

        await_machine(accept)
        return function

    return declare


def _with_question(function: Any, question: list[str]) -> CodeType | None:
    """A function's code with lines in front; None where its source is unknown."""
    code = function.__code__
    try:
        tree = _source_of(code)
        inner = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == code.co_name), None)
        if inner is None:
            return None
        inner.decorator_list = []
        same = _compiled(tree, code)
    except (OSError, SyntaxError, ValueError, tokenize.TokenError):  # no source, or the file is another one by now
        return None
    if same is None or _facts(same) != _facts(code):
        return None
    place = int(ast.get_docstring(inner) is not None)
    asked = ast.parse("\n".join(question)).body
    for node in (each for statement in asked for each in ast.walk(statement)):
        if isinstance(node, (ast.stmt, ast.expr)):
            ast.copy_location(node, inner.body[place])
    inner.body[place:place] = asked
    return _compiled(tree, code)


def _source_of(code: CodeType) -> ast.Module:
    """The lines of a function as a module; one that stands in a class or a function has another function around it."""
    lines, first = inspect.getsourcelines(code)
    text, start = "".join(lines), first - 1
    if text[:1].isspace():
        text, start = f"def outer({', '.join(code.co_freevars)}):\n{text}", start - 1
    return ast.increment_lineno(ast.parse(text), start)


def _compiled(tree: ast.Module, model: CodeType) -> CodeType | None:
    """The code of the function in ``tree`` that ``model`` is."""
    made = compile(tree, model.co_filename, "exec", model.co_flags & _FUTURE, True)
    outer = [made, *(const for const in made.co_consts if isinstance(const, CodeType))]
    found = (const for code in outer for const in code.co_consts if isinstance(const, CodeType) and const.co_name == model.co_name)
    code = next(found, None)
    return None if code is None else code.replace(co_qualname=model.co_qualname)


def _facts(code: CodeType) -> Any:
    """Facts that two functions share which were written alike; which instruction loads a method depends on the rest of the file."""
    lines = [line for _, _, line in code.co_lines() if line]
    consts = [const for const in code.co_consts if not isinstance(const, CodeType)]
    steps = dis.get_instructions(code)
    operators = [(each.opname, each.argrepr) for each in steps if each.opname.endswith("_OP") or each.opname.startswith("UNARY_")]
    begun = sorted(set(lines))[1:]  # it begins at its decorators, or not
    return code.co_names, code.co_varnames, code.co_freevars, consts, operators, begun


_FUTURE = annotations.compiler_flag
