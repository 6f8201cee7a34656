"""Programs for changing numbers: integers and floats among arguments that are inputs of the graph, as tensors are.

A number that was another one at an earlier recording becomes an input where that can be: the program that was just recorded runs three
times more, and what it changes is put back. Once it gets ``Number`` objects, which compute as numbers do and remember how; what compares
one is a guard, and so is what asks for its plain value. Twice it gets other numbers. Wherever recordings differ there must be a number
among the operands of an arithmetic operation, and the remembered expression must give it in all of them.

    x * (lr * 2)    n0 = lr    mul(x, %0) with %0 = (n0 * 2), an array without dimensions that each call makes
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..capture.graph import Graph, Node, Value
from ..capture.recorder import Recorder
from ..core.calls.casting import number_array
from ..core.calls.registry import primitive
from ..core.calls.tables import Rules
from ..core.dtype import FLOATING, INTEGER
from ..core.shape import contiguous_strides
from .arguments import Arguments, VariableNumbers
from .dynamism import Wanted
from .programs import REFUSED, Program, Recording
from .repeating import FAILURES, Kept, quietly
from .templates import Differs, Template
from .worlds import Sizes

__all__ = ["NumberProgram", "generalized"]

_LONGEST = 200  # letters of an expression
_STEPS = (1, 2, 3, 5, -1, 7, 10, -2, 20, 33, 100, -5)  # added to an integer, for others that go the same way
_FACTORS = (1.25, 0.5, 2.0, 3.0, 0.875, 10.0, 0.1, -1.0)
_SCOPE = {"inf": math.inf, "nan": math.nan}
_EXACT = Rules("changing number")  # (dtype's category): whether a number and an array of it are the same to the operation


@_EXACT("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")
def _of_reals(category: int) -> bool:
    return category in (FLOATING, INTEGER)


@_EXACT("div", "pow")
def _of_floats(category: int) -> bool:
    return bool(category == FLOATING)


class Watch:
    """Conditions that a program assumed of its numbers, as text, in the order in which it did."""

    def __init__(self) -> None:
        self.conditions: dict[str, None] = {}

    def note(self, text: str, truth: bool) -> bool:
        self.conditions[text if truth else f"not {text}"] = None
        return truth


def _written(value: Any) -> str:
    text = value.text if type(value) is Number else repr(value)
    return f"({text})" if text.startswith("-") else text


class Number:
    """A number of a program's argument, or one that it computed of such.

    Args:
        plain: the number. text: the expression. watch: gets what is assumed of it.
    """

    __slots__ = ("plain", "text", "watch")

    def __init__(self, plain: Any, text: str, watch: Watch):
        self.plain, self.text, self.watch = plain, text, watch

    @property
    def __class__(self) -> type:
        """That of the plain number, so that ``isinstance`` knows it."""
        return type(self.plain)

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("a number has the class that it has")

    def asked(self) -> Any:
        """The plain number, which is a guard."""
        self.watch.note(f"({self.text} == {_written(self.plain)})" if self.plain == self.plain else f"({self.text} != {self.text})", True)
        return self.plain

    def __bool__(self) -> bool:
        return self.watch.note(f"({self.text} != 0)", bool(self.plain))

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.plain), name):
            raise AttributeError(f"{type(self.plain).__name__!r} object has no attribute {name!r}")
        return getattr(self.asked(), name)


def _made(function: Callable[..., Any], text: str, *parts: Any) -> Any:
    """The number that a function of numbers gives."""
    watch = next(part.watch for part in parts if type(part) is Number)
    made = function(*[part.plain if type(part) is Number else part for part in parts])
    if type(made) not in (int, float) or len(text) > _LONGEST:
        for part in parts:
            if type(part) is Number:
                part.asked()
        return made
    return Number(made, text, watch)


def _is_plain(value: Any) -> bool:
    return type(value) in (int, float, bool, Number)


def _arithmetic(word: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: Number, other: Any) -> Any:
        return _made(function, f"({_written(self)} {word} {_written(other)})", self, other) if _is_plain(other) else NotImplemented

    def reflected(self: Number, other: Any) -> Any:
        return _made(function, f"({_written(other)} {word} {_written(self)})", other, self) if _is_plain(other) else NotImplemented

    return forward, reflected


def _comparison(word: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compared(self: Number, other: Any) -> Any:
        if not _is_plain(other):
            return NotImplemented
        truth = function(self.plain, other.plain if type(other) is Number else other)
        return self.watch.note(f"({_written(self)} {word} {_written(other)})", truth)

    return compared


def _asking(name: str) -> Callable[..., Any]:
    def asked(self: Number, *args: Any) -> Any:
        return getattr(self.asked(), name)(*args)

    return asked


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**"}
for _name, _word in _ARITHMETIC.items():
    for _prefix, _method in zip(("", "r"), _arithmetic(_word, getattr(operator, _name)), strict=True):
        setattr(Number, f"__{_prefix}{_name}__", _method)
for _name, _word in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(Number, f"__{_name}__", _comparison(_word, getattr(operator, _name)))
_ALONE: dict[str, Callable[[Number], Any]] = {
    "neg": lambda self: _made(operator.neg, f"(-{_written(self)})", self),
    "pos": lambda self: self,
    "abs": lambda self: _made(abs, f"abs({self.text})", self),
    "complex": lambda self: complex(self.asked()),
    "index": lambda self: operator.index(self.asked()),
}
_ASKING = """
    int float hash trunc floor ceil round str repr format invert divmod rdivmod and rand or ror xor rxor lshift rlshift rshift rrshift
    reduce_ex
""".split()
for _name in _ASKING:
    setattr(Number, f"__{_name}__", _asking(f"__{_name}__"))
for _name, _function in _ALONE.items():
    setattr(Number, f"__{_name}__", _function)


def plain_values(values: Sequence[Any]) -> list[Any]:
    """The values with plain numbers."""
    return [value.plain if type(value) is Number else value for value in values]


def _has_numbers(value: Any) -> bool:
    if type(value) is slice:
        return _has_numbers((value.start, value.stop, value.step))
    return type(value) is Number or (type(value) in (list, tuple) and any(map(_has_numbers, value)))


# -- one program of several recordings ----------------------------------------------------------------------------------------------------
class _Same(Template):
    """Recordings that differ in numbers of operations' arguments alone.

    Attributes:
        varying: by number of the node and place among its arguments, what the recordings have there.
    Raises:
        Differs: they differ elsewhere.
    """

    def __init__(self, recorders: Sequence[Recorder]):
        self.varying: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._count = 0
        super().__init__(Sizes(Wanted(), [{}]), recorders)

    def _checks(self) -> None:
        if self.constants:
            raise Differs("a constant follows from a number")

    def expression(self, values: tuple[int, ...]) -> int:
        if len(set(values)) > 1:
            raise Differs("a size follows from a number")
        return values[0]

    def _node(self, nodes: Sequence[Node]) -> tuple[Any, ...]:
        number, self._count = self._count, self._count + 1
        if nodes[0].kind != "op":
            return super()._node(nodes)
        alike: list[Any] = [SimpleNamespace(**{name: getattr(node, name) for name in _FIELDS}) for node in nodes]
        for one in alike:
            one.args = list(one.args)
        for place, parts in enumerate(zip(*[one.args for one in alike], strict=True)):
            if type(parts[0]) in (int, float) and not all(_equal(part, parts[0]) for part in parts):
                self.varying[number, place] = parts
                for one in alike:
                    one.args[place] = 0
        return super()._node(alike)


_FIELDS = ("kind", "op", "args", "outs", "dtypes", "writes", "random")


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b)) and str(a) == str(b)


def _compiled(text: str, names: Sequence[str]) -> Callable[..., Any]:
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", dict(_SCOPE))
    return made


class NumberProgram(Program):
    """A program with numbers among its inputs.

    Args:
        recording: the first. lower: see ``Program``. arguments: what has to fit. numbers: function (args, kwargs) -> arrays, or None where
            there are none. values: those of the graph that get them.
    """

    def __init__(self, recording: Recording, lower: Callable[[Graph], Any], arguments: Arguments, numbers: Any, values: Sequence[Value]):
        self.numbers, self.values = numbers, list(values)
        super().__init__(recording, lower)
        self.arguments, self.check = arguments, arguments.check
        assert self.root.path is not None
        self.root.path.arguments = arguments

    def _extra(self, scope: dict[str, Any]) -> tuple[list[str], dict[Value, str]]:
        scope.update(numbers=self.numbers, REFUSED=REFUSED)
        lines = ["    have = numbers(args, kwargs)", "    if have is None:", "        return REFUSED"]
        return lines, {value: f"have[{i}]" for i, value in enumerate(self.values)}


# -- making one ----------------------------------------------------------------------------------------------------------------------------
def generalized(
    recording: Recording, args: tuple[Any, ...], kwargs: dict[str, Any], places: Sequence[str], lower: Callable[[Graph], Any]
) -> NumberProgram:
    """The program of a recorded run for other numbers at these places among its arguments.

    Args:
        places: as text: ``args[1]``, ``kwargs['lr']``.
    Raises:
        Differs: it is another one for other numbers.
    """
    if recording.recorder.looks:
        raise Differs("Python looks at values")
    attempt = _Attempt(recording, args, kwargs, places)
    try:
        found = attempt.found()
    except FAILURES as error:  # of numbers that the program is not called with
        raise Differs(f"{type(error).__name__} for other numbers: {error}") from None
    return attempt.program(found, lower)


class _Attempt:
    def __init__(self, recording: Recording, args: tuple[Any, ...], kwargs: dict[str, Any], places: Sequence[str]):
        self.recording, self.args, self.kwargs = recording, args, kwargs
        self.names = {place: f"n{i}" for i, place in enumerate(places)}
        self.real = {name: eval(place, {"args": args, "kwargs": kwargs}) for place, name in self.names.items()}
        self.watch = Watch()

    def found(self) -> dict[tuple[int, int], str]:
        """Expressions of operands, by number of the node and place among its arguments."""
        recording = self.recording
        with quietly(), Kept(recording) as kept:
            told = self._again({name: Number(value, name, self.watch) for name, value in self.real.items()}, kept)
            worlds = self._others()
            others = [self._again(world, kept) for world in worlds]
        same = _Same([recording.recorder, *[other.recorder for other in others]])
        _same_ends(same, [recording, *others], told)
        return self._expressions(same, told, [self.real, *worlds])

    def _again(self, numbers: Mapping[str, Any], kept: Kept) -> Recording:
        """The program once more, with other numbers."""
        args, kwargs = list(self.args), dict(self.kwargs)
        scope = {"args": args, "kwargs": kwargs}
        for place, name in self.names.items():
            exec(f"{place} = number", {**scope, "number": numbers[name]})

        def prepare(recorder: Recorder) -> None:
            recorder.plain_values = plain_values

        return kept.once_more(tuple(args), kwargs, self.recording.arguments, prepare, "for other numbers")

    def _others(self) -> list[dict[str, Any]]:
        """Two more sets of numbers for which the program goes the same way."""
        allowed = [_compiled(text, list(self.real)) for text in self.watch.conditions]
        worlds: list[dict[str, Any]] = []
        for turn in range(len(_STEPS)):
            world = {name: self._other(value, turn + i) for i, (name, value) in enumerate(self.real.items())}
            if all(_holds(each, world) for each in allowed):
                worlds.append(world)
            if len(worlds) == 2:
                return worlds
        raise Differs("it goes another way for other numbers")

    @staticmethod
    def _other(value: Any, turn: int) -> Any:
        if type(value) is int:
            return value + _STEPS[turn % len(_STEPS)]
        factor = _FACTORS[turn % len(_FACTORS)]
        return value * factor if value and math.isfinite(value) else factor

    def _expressions(self, same: _Same, told: Recording, worlds: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], str]:
        recording, nodes = self.recording, told.recorder.nodes
        if len(nodes) != len(same.nodes) or any(_has_numbers(args) for _, args, _ in told.recorder.views):
            raise Differs("it goes another way when numbers are watched")
        found: dict[tuple[int, int], str] = {}
        for k, node in enumerate(nodes):
            if node.kind != recording.recorder.nodes[k].kind or (node.kind == "op" and node.op is not recording.recorder.nodes[k].op):
                raise Differs("it goes another way when numbers are watched")
            for place, arg in enumerate(node.args):
                if type(arg) is Number:
                    found[k, place] = arg.text
                elif _has_numbers(arg):
                    raise Differs("a number is no operand of arithmetic")
        for key in same.varying:
            if key not in found:
                raise Differs("a number is used in a way that is not known")
        names = list(self.real)
        for key, text in found.items():
            function = _compiled(text, names)
            have = same.varying.get(key) or [recording.recorder.nodes[key[0]].args[key[1]]] * len(worlds)
            if not all(_equal(function(**world), part) for world, part in zip(worlds, have, strict=True)):
                raise Differs("a number is not what was watched")
        for k, place in found:
            dtype_of(recording.recorder.nodes[k], place)
        return found

    def program(self, found: Mapping[tuple[int, int], str], lower: Callable[[Graph], Any]) -> NumberProgram:
        """The recorded program with inputs in place of numbers."""
        recorder, names = self.recording.recorder, list(self.real)
        values: dict[Any, Value] = {}
        forms: list[tuple[str, Any]] = []
        before: dict[Node, Node] = {}
        for (k, place), text in found.items():
            compute = dtype_of(recorder.nodes[k], place)
            if (text, compute) not in values:
                sample = number_array(_compiled(text, names)(**self.real), compute)
                values[text, compute] = recorder.number(sample, text)
                forms.append((text, compute))
            self._put(recorder.nodes[k], place, values[text, compute], before)
        self._insert(before)
        variable = VariableNumbers(self.names, list(self.watch.conditions), dict(_SCOPE))
        arguments = Arguments(self.args, self.kwargs, (), None, variable)
        arguments.names = self.recording.arguments.names
        made = NumberProgram(self.recording, lower, arguments, _reader(self.names, forms), list(values.values()))
        arguments.let_go()
        return made

    @staticmethod
    def _put(node: Node, place: int, number: Value, before: dict[Node, Node]) -> None:
        """Have a node take an input for a number; factors of a sum (``alpha``) get a product of their own."""
        if place in node.op.positions:
            node.args[place] = number
            return
        other = node.args[1]
        steps = tuple([step * other.dtype.itemsize for step in contiguous_strides(other.shape)])
        product = Value(other.shape, steps, other.dtype)
        before[node] = Node("op", primitive("mul"), [other, number], [product], node.dtypes)
        node.args[1], node.args[place] = product, 1

    def _insert(self, before: Mapping[Node, Node]) -> None:
        recorder, recording = self.recording.recorder, self.recording
        recording.end += sum(node in before for node in recorder.nodes[: recording.end])
        recorder.nodes = [each for node in recorder.nodes for each in ((before[node], node) if node in before else (node,))]


def _holds(condition: Callable[..., Any], world: Mapping[str, Any]) -> bool:
    try:
        return bool(condition(**world))
    except ArithmeticError:
        return False


def dtype_of(node: Node, place: int) -> Any:
    """The dtype in which an operation takes a number.

    Raises:
        Differs: it may look at the number, or does arithmetic that is another one for numbers than for tensors.
    """
    compute, op = node.dtypes[0], node.op
    is_factor = op.name in ("add", "sub") and op.names[place] == "alpha" and compute is not None and compute.category == FLOATING
    if is_factor and (node.args[1].__class__ is not Value or node.args[1].dtype != compute.numpy):
        raise Differs(f"a number is an option of {op.name}")
    if compute is None or (place not in op.positions and not is_factor):
        raise Differs(f"a number is an option of {op.name}")
    rule = _EXACT.of(op)
    if rule is None or not rule(compute.category) or compute.numpy not in (np.float32, np.float64, np.int64):
        raise Differs(f"a number is an operand of {op.name}")
    return compute


def _reader(names: Mapping[str, str], forms: Sequence[tuple[str, Any]]) -> Callable[[Any, Any], list[np.ndarray] | None]:
    """Function that makes the arrays of a call's numbers."""
    scope: dict[str, Any] = {"number_array": number_array, **_SCOPE}
    lines = ["def read(args, kwargs):", *[f"    {name} = {place}" for place, name in names.items()], "    try:", "        pass"]
    for i, (text, compute) in enumerate(forms):
        scope[f"d{i}"] = compute
        lines.append(f"        x{i} = {text}")
    lines += ["    except (ArithmeticError, ValueError):", "        return None"]
    bounded = [f"-{1 << 63} <= x{i} < {1 << 63}" for i, (_, compute) in enumerate(forms) if compute.category == INTEGER]
    if bounded:
        lines += [f"    if not ({' and '.join(bounded)}):", "        return None"]
    scope["complex"] = complex
    plain = [f"x{i}.__class__ is complex" for i in range(len(forms))]
    if plain:
        lines += [f"    if {' or '.join(plain)}:", "        return None"]
    lines.append(f"    return [{', '.join(f'number_array(x{i}, d{i})' for i in range(len(forms)))}]")
    exec("\n".join(lines), scope)
    made: Callable[[Any, Any], list[np.ndarray] | None] = scope["read"]
    return made


def _same_ends(same: _Same, recordings: Sequence[Recording], told: Recording) -> None:
    """Check that recordings end alike.

    Raises:
        Differs: they do not.
    """
    endings: list[Any] = [recording.ending for recording in recordings]
    first, last = endings[0], told.ending
    if last is None or any(ending._lines != first._lines for ending in (*endings, last)):
        raise Differs("it returns something else for other numbers")
    names = [name for name in first._scope if name not in ("__builtins__", "finish")]
    for name in names:
        if _has_numbers(last._scope.get(name)):
            raise Differs("it returns a number that follows from its arguments")
        same.unify([ending._scope[name] for ending in endings])
    same.unify([ending.outputs for ending in endings])
    backwards: list[Any] = [recording.backward for recording in recordings]
    if any((each is None) is not (backwards[0] is None) for each in backwards) or (told.backward is None) is not (backwards[0] is None):
        raise Differs("there is a backward pass for some numbers only")
    if backwards[0] is not None:
        for name in ("inputs", "outputs", "forms", "strides"):
            same.unify([getattr(each, name) for each in backwards])
