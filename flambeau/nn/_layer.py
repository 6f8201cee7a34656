"""Layers whose class says nothing but which function it calls.

Such a layer is one line of a table: its name, its constructor's arguments (which become attributes), and the call.  The class is written
out from these and compiled, because the result is as fast, as well introspected and as picklable as one typed by hand.
"""

from __future__ import annotations

import ast
import linecache
import sys
from typing import Any

from .module import Module

_TEMPLATE = """\
from __future__ import annotations

class {name}({base}):
    __constants__ = {fields!r}

{constructor}
    def forward(self, {inputs}) -> Tensor:
        return {call}
"""
_CONSTRUCTOR = """\
    def __init__(self, {init}) -> None:
        super().__init__()
{assignments}"""
_ASSIGNMENT = "        self.{name} = {name}\n"


def layer(name: str, init: str, call: str, doc: str, *, base: type[Module] = Module, inputs: str = "input: Tensor") -> Any:
    """Make a layer class in the module of the caller.

    Args:
        name: of the class; the caller assigns it to the same name.
        init: arguments of the constructor as in a ``def``, without ``self``; each becomes an attribute.
        call: what ``forward`` returns, in terms of ``input`` and ``self``.
        doc: the docstring.
        base: the class's base.
        inputs: arguments of ``forward`` as in a ``def``, without ``self``.
    """
    namespace = sys._getframe(1).f_globals
    fields = _argument_names(init)
    source = _TEMPLATE.format(
        name=name,
        base=base.__name__,
        fields=fields,
        constructor=_CONSTRUCTOR.format(init=init, assignments="".join(_ASSIGNMENT.format(name=field) for field in fields)) if init else "",
        inputs=inputs,
        call=call,
    )
    filename = f"<{namespace['__name__']}.{name}>"
    # Tracebacks and inspect.getsource find the text here.
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    defined: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), namespace, defined)
    cls = defined[name]
    cls.__module__, cls.__doc__ = namespace["__name__"], doc
    return cls


def _argument_names(arguments: str) -> list[str]:
    definition = ast.parse(f"def __init__({arguments}): ...").body[0]
    assert isinstance(definition, ast.FunctionDef)  # for the type checker: it is what was just written
    return [argument.arg for argument in (*definition.args.args, *definition.args.kwonlyargs)]
