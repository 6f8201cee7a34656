"""Layers that are one call of a function.

Such a layer is a class with a docstring, the constructor's arguments as fields, and the call in its decorator.  Constructor and ``forward``
are written out from these and compiled, because the result is as fast and as well introspected as if it were typed by hand.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from .module import Module

Layer = TypeVar("Layer", bound=type[Module])

# ``super()`` looks for a variable of that name around its function.
_TEMPLATE = """\
from __future__ import annotations

def methods_of(__class__):
    def __init__(self, {arguments}) -> None:
        super().__init__()
{assignments}
    def forward(self, {inputs}) -> Tensor:
        return {call}

    return __init__, forward
"""


class _Printed(Module):
    """A layer that prints its arguments; ``inplace`` only if it is set."""

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self.__constants__ if name != "inplace"]
        if getattr(self, "inplace", False):
            shown.append("inplace=True")
        return ", ".join(shown)


@dataclass_transform(eq_default=False)
def layer(call: str, *, inputs: str = "input: Tensor") -> Callable[[Layer], Layer]:
    """A decorator that makes a layer of a class with fields: the arguments of its constructor, each of which becomes an attribute.

    Args:
        call: what ``forward`` returns, in terms of its arguments and ``self``.
        inputs: arguments of ``forward`` as in a ``def``, without ``self``.
    """

    def made(cls: Layer) -> Layer:
        fields = inspect.get_annotations(cls)
        source = _TEMPLATE.format(
            arguments=", ".join([_argument(cls, name, annotation) for name, annotation in fields.items()]),
            assignments="".join([f"        self.{name} = {name}\n" for name in fields]),
            inputs=inputs,
            call=call,
        )
        filename = f"<{cls.__module__}.{cls.__name__}>"
        # Tracebacks and inspect.getsource find the text here.
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        defined: dict[str, Any] = {}
        exec(compile(source, filename, "exec"), vars(sys.modules[cls.__module__]), defined)
        for method in defined["methods_of"](cls):
            if fields or method.__name__ != "__init__":
                method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
                setattr(cls, method.__name__, method)
        cls.__constants__ = list(fields)
        return cls

    return made


def _argument(cls: type, name: str, annotation: str) -> str:
    """The argument of a field, whose default goes from the class to the constructor."""
    if name not in vars(cls):
        return f"{name}: {annotation}"
    default = vars(cls)[name]
    delattr(cls, name)
    return f"{name}: {annotation} = {default!r}"
