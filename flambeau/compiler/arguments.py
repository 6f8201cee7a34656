"""Arguments of a call: which tensors are among them, and a function that tells whether those of another call look alike.

The function is generated, because it runs before each replay: plain comparisons in one body, no loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Parameter, Tensor
from .surroundings import PLAIN

__all__ = ["SMALLEST", "Arguments", "VariableNumbers", "VariableSizes"]

SMALLEST = 2  # sizes of 0 and 1 are never taken for others


class VariableSizes:
    """Sizes that may be others than in the call that was seen.

    Attributes:
        symbols: names by place: number of the tensor, dimension. strides: by number of the tensor: expressions of those in bytes, as text.
        conditions: on the symbols, as text. scope: what the text names.
    """

    def __init__(self, symbols: dict[tuple[int, int], str]):
        self.symbols = symbols
        self.strides: dict[int, str] = {}
        self.conditions: list[str] = []
        self.scope: dict[str, Any] = {}


class VariableNumbers:
    """Numbers that may be others than in the call that was seen.

    Attributes:
        names: variables by place, as text: ``args[1]``. conditions: on the variables, as text. scope: what the text names.
    """

    def __init__(self, names: dict[str, str], conditions: list[str], scope: dict[str, Any]):
        self.names, self.conditions, self.scope = names, conditions, scope


class Arguments:
    """The arguments of one call.

    Attributes:
        tensors: the tensors in lists, tuples and dictionaries, each once, in order; none once they are let go.
        count: their number.
        names: what they are called.
        check: function (args, kwargs) -> the tensors of that call if it looks like this one, else None.
        refusal: why such a call cannot be compiled; None where it can.
        plain: each argument by a word and what it must be, for machine code; None where there is more to look at.

    Args:
        args, kwargs: of the call. parameters: names of the function's.
        sizes, numbers: which sizes and numbers may be others; None where all are as in this call.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parameters: tuple[str, ...] = (),
        sizes: VariableSizes | None = None,
        numbers: VariableNumbers | None = None,
    ):
        self._sizes, self._numbers = sizes, numbers
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        self.refusal: str | None = None
        self.plain: list[tuple[Any, ...]] | None = None if kwargs or sizes or numbers else []
        self._lines: list[str] = []
        self._scope: dict[str, Any] = {"Tensor": Tensor}
        self._variables: dict[int, str] = {}  # tensors' variables, by id
        self._same: list[str] = []
        self._unless(f"len(args) != {len(args)} or len(kwargs) != {len(kwargs)}")
        for i, value in enumerate(args):
            self._plainly(value)
            self._value(f"args[{i}]", value, parameters[i] if i < len(parameters) else f"arg{i}")
        for key, value in kwargs.items():
            self._unless(f"{key!r} not in kwargs")
            self._value(f"kwargs[{key!r}]", value, key)
        self._lines += self._same
        for variable in (sizes, numbers):
            if variable is not None:
                self._scope.update(variable.scope)
                if variable.conditions:
                    self._lines.append("    try:")
                    self._lines.append(f"        if not ({' and '.join(f'({each})' for each in variable.conditions)}):")
                    self._lines += ["            return None", "    except (ArithmeticError, TypeError):", "        return None"]
        self._lines.append(f"    return [{', '.join(self._variables.values())}]")
        self.check = self._function()
        self.count = len(self.tensors)

    def let_go(self) -> None:
        """Keep no tensor of the call."""
        self.tensors = []

    def _plainly(self, value: Any) -> None:
        """Note what an argument must be, if that is one comparison; its tensors are not yet among those of the call."""
        if self.plain is None:
            return
        kind = value.__class__
        if isinstance(value, Tensor):
            array = value._array
            if id(value) in self._variables:
                self.plain.append(("twice", next(i for i, each in enumerate(self.tensors) if each is value)))
            else:
                self.plain.append(("tensor", kind, value._requires_grad, array.dtype, array.shape, array.strides))
        elif value is None or kind is bool:
            self.plain.append(("same", value))
        elif kind is float or (kind is int and abs(value) < 1 << 62):
            self.plain.append((kind.__name__, value))
        elif isinstance(value, (*PLAIN, tuple, list, dict)):
            self.plain = None
        else:
            self.plain.append(("same", value))

    def _function(self) -> Callable[[tuple[Any, ...], dict[str, Any]], list[Tensor] | None]:
        exec("\n".join(["def check(args, kwargs):", *self._lines]), self._scope)
        made: Callable[[tuple[Any, ...], dict[str, Any]], list[Tensor] | None] = self._scope["check"]
        return made

    def _unless(self, condition: str) -> None:
        self._lines += [f"    if {condition}:", "        return None"]

    def _constant(self, value: Any) -> str:
        name = f"k{len(self._scope)}"
        self._scope[name] = value
        return name

    def _variable(self, expression: str) -> str:
        name = f"a{len(self._scope)}"
        self._scope[name] = None
        self._lines.append(f"    {name} = {expression}")
        return name

    def _value(self, expression: str, value: Any, name: str) -> None:
        kind = value.__class__
        if isinstance(value, Tensor):
            self._tensor(expression, value, name)
        elif kind is list or kind is tuple:
            a = self._variable(expression)
            self._unless(f"{a}.__class__ is not {kind.__name__} or len({a}) != {len(value)}")
            for i, item in enumerate(value):
                self._value(f"{a}[{i}]", item, f"{name}[{i}]")
        elif kind is dict:
            a = self._variable(expression)
            self._unless(f"{a}.__class__ is not dict or list({a}) != {self._constant(list(value))}")
            for key, item in value.items():
                self._value(f"{a}[{self._constant(key)}]", item, f"{name}[{key!r}]")
        elif isinstance(value, tuple) and hasattr(kind, "_fields"):
            a = self._variable(expression)
            self._unless(f"{a}.__class__ is not {self._constant(kind)}")
            for i, item in enumerate(value):
                self._value(f"{a}[{i}]", item, f"{name}.{kind._fields[i]}")
        elif self._numbers is not None and expression in self._numbers.names:
            number = self._numbers.names[expression]
            self._lines.append(f"    {number} = {expression}")
            self._unless(f"{number}.__class__ is not {kind.__name__}")
        elif isinstance(value, PLAIN) and value == value:
            a, k = self._variable(expression), self._constant(value)
            other_zero = f" or repr({a}) != {repr(value)!r}" if isinstance(value, float | complex) and not value else ""  # -0.0
            self._unless(f"{a} is not {k} and ({a}.__class__ is not {k}.__class__ or {a} != {k}{other_zero})")
        else:
            self._unless(f"{expression} is not {self._constant(value)}")

    def _tensor(self, expression: str, tensor: Tensor, name: str) -> None:
        if id(tensor) in self._variables:
            self._same += [f"    if {expression} is not {self._variables[id(tensor)]}:", "        return None"]
            return
        kind = tensor.__class__
        if kind is not Tensor and kind is not Parameter:
            self.refusal = f"{name} is a {kind.__name__}"
            return
        a = self._variable(expression)
        array = tensor._array
        strides, dtype = self._constant(array.strides), self._constant(array.dtype)
        self._unless(f"{a}.__class__ is not {self._constant(kind)}")
        x = self._variable(f"{a}._array")
        mark = self._constant(tensor._requires_grad)
        number = len(self.tensors)
        others = f"{x}.__class__ is not {self._constant(array.__class__)} or {x}.dtype is not {dtype} or {a}._requires_grad is not {mark}"
        if self._sizes is None or not any(place == number for place, _ in self._sizes.symbols):
            self._unless(f"{x}.shape != {self._constant(array.shape)} or {x}.strides != {strides} or {others}")
        else:
            self._unless(others)
            self._variable_shape(x, array.shape, number, self._sizes)
        self._variables[id(tensor)] = a
        self.tensors.append(tensor)
        self.names.append(name)

    def _variable_shape(self, x: str, shape: tuple[int, ...], number: int, sizes: VariableSizes) -> None:
        """Compare a shape of which some sizes may be others: symbols get their values where they come first."""
        n = self._variable(f"{x}.shape")
        conditions = [f"len({n}) != {len(shape)}"]
        for dim, size in enumerate(shape):
            name = sizes.symbols.get((number, dim))
            if name is None or name in self._scope:
                conditions.append(f"{n}[{dim}] != {size if name is None else name}")
            else:
                self._scope[name] = None
                conditions.append(f"({name} := {n}[{dim}]) < {SMALLEST}")
        if number in sizes.strides:  # a graph that asks when it runs depends on no strides
            conditions.append(f"{x}.strides != {sizes.strides[number]}")
        self._unless(" or ".join(conditions))
