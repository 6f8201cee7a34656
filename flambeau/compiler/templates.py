"""A program with symbols, from recordings of it at several sizes.

Recordings of one program at different sizes have the same nodes, and numbers that differ: sizes, strides, offsets, numbers that Python
computed of sizes. ``Template`` goes through them side by side. A number that is the same everywhere stays, one that is not is looked
for among functions of the symbols (``aten.size_inference``). What is no such function, and what is not the same program, is refused
(``Differs``). ``bind`` makes the graph for given sizes: it only evaluates expressions. It asks each view operation anew what it gives for
these sizes, so that a slice that ends earlier is noticed.

    sizes 4   view(x, 32, (3, 8), (32, 4))   mul(.., 0.25)
    sizes 5   view(x, 32, (4, 8), (32, 4))   mul(.., 0.2)      ->  view(x, 32, (s0 - 1, 8), (32, 4))   mul(.., 1 / s0)
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..aten.size_inference import infer
from ..capture.graph import Node, Value
from ..capture.memory import address_of, array_at, extent
from ..capture.recorder import Draw, Recorder, Restart, Step
from ..core.arrays.kinds import host
from ..core.calls.creation import Creation
from ..core.expressions import Expr, evaluate, symbol
from ..core.state import run_ignoring_fp
from ..core.symbolic import SymbolicBool, is_symbolic
from ..core.tensor import Tensor, wrap
from .worlds import Sizes

__all__ = ["Binding", "Differs", "Template", "exact_parts"]

_MOST = 12  # expressions from which others are made
_CLOSE = 1e-14  # relative: numbers that Python computed in another order
_PLAIN = (bool, str, bytes, type(None), complex, np.dtype, type)
_CURVES: tuple[tuple[Callable[[float], float], bool], ...] = (  # functions of a size, and whether a factor may stand before them
    (float, True), (lambda n: 1 / n, True), (math.sqrt, True), (lambda n: 1 / math.sqrt(n), True), (math.log, False), (math.log2, False),
    (lambda n: 1 / (n * n), True), (lambda n: float(n * n), True), (lambda n: 1 / (n - 1), True),
)  # fmt: skip

_INVERSES: tuple[tuple[Callable[[float], float], Callable[[float], float]], ...] = (  # the same without a factor, and what gives the size
    (float, float), (lambda n: 1 / n, lambda x: 1 / x), (lambda n: n / (n - 1), lambda x: x / (x - 1)), (math.sqrt, lambda x: x * x),
    (lambda n: (n - 1) / n, lambda x: 1 / (1 - x)), (lambda n: 1 / math.sqrt(n), lambda x: 1 / (x * x)),
)  # fmt: skip


class Differs(Exception):
    """Two recordings are not the same program; the message says where."""


class Hole:
    """Something that depends on sizes: ``make`` gives it for a ``Binding``."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[Binding], Any]):
        self.make = make


class Like:
    """A tensor of which a factory takes the sizes."""

    __slots__ = ("form",)

    def __init__(self, array: np.ndarray):
        self.form = array.shape, array.strides, array.dtype

    @staticmethod
    def made(form: Any) -> Tensor:
        shape, strides, dtype = form
        return wrap(hollow(shape, strides, dtype))


def hollow(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose memory nobody touches."""
    memory = np.empty(max(extent(shape, strides, dtype.itemsize), 1), np.uint8)
    return array_at(address_of(memory), shape, strides, dtype, memory)


class Binding:
    """The graph of a template for given sizes.

    Attributes:
        sizes: by symbol. nodes: of the program and its backward pass.
    """

    def __init__(self, template: Template, sizes: dict[str, int]):
        self.template, self.sizes = template, sizes
        self._numbers: dict[Expr, int] = {}
        self._values: dict[Value, Value] = {}
        self.nodes: list[Node] = []
        for value in template.recorder.inputs:
            self._new(value)
        for value, maker in template.constants.items():
            self._constant(value, maker)
        for kind, op, args, dtypes, writes, source in template.nodes:
            made = [self._new(out) for out in source.outs]
            given = [self.of(arg) for arg in args]
            overwritten = tuple([self.value(value) for value in writes])
            self.nodes.append(Node(kind, self.of(op), given, made, dtypes, (), source.note, overwritten, source.random))

    def number(self, expr: Expr) -> int:
        """The value of an expression."""
        found = self._numbers.get(expr)
        if found is None:
            found = self._numbers[expr] = expr.evaluate(self.sizes)
        return found

    def of(self, part: Any) -> Any:
        """A part of the template as it is for these sizes."""
        if part.__class__ is Hole:
            return part.make(self)
        return self.value(part) if part.__class__ is Value else part

    def value(self, value: Value) -> Value:
        """The Value that stands for one of the template's; parameters stand for themselves."""
        return self._values.get(value, value)

    def _new(self, value: Value) -> Value:
        shape, strides = self.template.forms[value]
        shape = self.of(shape)
        if any(now <= 0 < was for now, was in zip(shape, value.shape, strict=True)):
            raise Differs("a result is empty for these sizes")
        made = Value(shape, self.of(strides), value.dtype, value.place, None, value.array, value.name)
        self._values[value] = made
        return made

    def _constant(self, value: Value, maker: Hole) -> None:
        array = maker.make(self)
        shape, strides = self.template.forms[value]
        if array.shape != self.of(shape) or array.strides != self.of(strides) or array.dtype != value.dtype:
            raise Differs(f"a constant of shape {array.shape} where {self.of(shape)} was expected")
        made = self._values[value] = Value.like(array, "held", name=value.name)
        made.fixed = True

    def check(self) -> None:
        """Ask operations that give views.

        Raises:
            Differs: one gives another view than the template says.
        """
        arrays: dict[Value, tuple[np.ndarray, int]] = {}
        for op, args, shown in self.template.views:
            given = [self._shown(arg, arrays) for arg in args]
            results = run_ignoring_fp(host.run, op, given, None, None)
            results = results if results.__class__ in (tuple, list) else (results,)
            if len(results) != len(shown):
                raise Differs(f"{op.name} gives {len(results)} views")
            for array, value in zip(results, shown, strict=True):
                wanted = self._shown(value, arrays)
                same = array.shape == wanted.shape and array.strides == wanted.strides
                if not same or (array.size and address_of(array) != address_of(wanted)):
                    raise Differs(f"{op.name} gives a view of shape {array.shape} where {wanted.shape} was expected")
        for node in self.nodes:
            if node.kind == "view":
                self._shown(node.outs[0], arrays)
        for number in self.template.checked:
            self.check_operands(self.nodes[number], arrays)

    def check_operands(self, node: Node, arrays: dict[Value, Any]) -> None:
        """Have an operation check its operands' sizes; whatever it raises, it would raise for a program's call."""

        def given(arg: Any) -> Any:
            shown = self._shown(arg, arrays)
            if shown.__class__ is list or shown.__class__ is tuple:
                return type(shown)([wrap(each) if each.__class__ is np.ndarray else each for each in shown])
            return wrap(shown) if shown.__class__ is np.ndarray else shown

        node.op.canonicalize(*[given(arg) for arg in node.args])

    def _shown(self, arg: Any, arrays: dict[Value, Any]) -> Any:
        """An argument with arrays in place of Values, whose contents are of no meaning."""
        if arg.__class__ is Hole:
            arg = arg.make(self)
        if arg.__class__ is list or arg.__class__ is tuple:
            return type(arg)([self._shown(each, arrays) for each in arg])
        if arg.__class__ is not Value:
            return arg
        value = self.value(arg)
        found = arrays.get(value)
        if found is None:
            found = arrays[value] = self._array(value, arrays)
        return found

    def _array(self, value: Value, arrays: dict[Value, Any]) -> np.ndarray:
        node = value.node
        if value.array is not None:
            return value.array
        if node is not None and node.kind == "view":
            base = self._shown(node.args[0], arrays)
            place = address_of(base) + node.args[1]
            end = extent(value.shape, value.strides, value.dtype.itemsize)
            reach = extent(base.shape, base.strides, base.dtype.itemsize)
            if node.args[1] < 0 or node.args[1] + end > max(reach, end if base.base is None else 0):
                raise Differs("a view goes beyond its memory")
            return array_at(place, value.shape, value.strides, value.dtype, base)
        if node is not None and node.overwritten and value in node.outs[len(node.outs) - len(node.overwritten) :]:
            place = node.outs.index(value) - len(node.outs) + len(node.overwritten)
            return self._shown(node.overwritten[place], arrays)
        return hollow(value.shape, value.strides, value.dtype)


class Template:
    """A program with symbols.

    Args:
        env: the symbols, and their sizes in each recording. recorders: of one program, the first of which is the real one.
    Attributes:
        recorder: the first. nodes: kind, operation, arguments, dtypes, writes and the recorded node. forms: shape and strides of values.
        constants: how constants are made that differ. views: calls of view operations. checked: numbers of nodes that check operands.
    Raises:
        Differs: they are not the same program.
    """

    def __init__(self, env: Sizes, recorders: Sequence[Recorder]):
        self.env, self.recorder = env, recorders[0]
        self.forms: dict[Value, tuple[Any, Any]] = {}
        self.constants: dict[Value, Hole] = {}
        self._known: dict[tuple[Any, ...], Any] = {}
        self._candidates: list[Expr] = [symbol(name) for name in env.hints]
        self._seen: list[Expr] = list(self._candidates)
        self._twins: list[dict[Value, Value]] = [{} for _ in recorders]
        if len({len(recorder.nodes) for recorder in recorders}) > 1:
            raise Differs(f"it has {sorted({len(recorder.nodes) for recorder in recorders})} steps for different sizes")
        self._inputs(recorders)
        self._held(recorders)
        self.nodes = [self._node(nodes) for nodes in zip(*[recorder.nodes for recorder in recorders], strict=True)]
        self.views: list[tuple[Any, Any, list[Value]]] = []
        self._order: dict[Value, Any] = {}
        if len({len(recorder.views) for recorder in recorders}) > 1:
            raise Differs("it has other views for different sizes")
        for calls in zip(*[recorder.views for recorder in recorders], strict=True):
            self._same([call[0] for call in calls], "an operation")
            args = [self.unify(list(parts)) for parts in zip(*[call[1] for call in calls], strict=True)]
            self.unify([call[2] for call in calls])
            self.views.append((calls[0][0], args, calls[0][2]))
        self.checked: list[int] = []
        self._checks()

    def _checks(self) -> None:
        """Find the operations that can check their operands without values: those that do so for the real sizes."""
        binding, arrays = Binding(self, self.env.hints), {}  # type: ignore[var-annotated]
        for number, node in enumerate(binding.nodes):
            if node.kind != "op" or node.op.canonicalize is None or any(value.dtype.kind not in "fc" for value in node.inputs()):
                continue
            try:
                binding.check_operands(node, arrays)
            except (RuntimeError, ValueError, TypeError, LookupError, AttributeError):
                continue
            self.checked.append(number)

    # -- what Python computed of sizes -------------------------------------------------------------------------------------------
    def told(self, recorder: Recorder) -> None:
        """Take numbers from a recording with symbolic sizes: there they are what Python computed, and need no guessing."""
        worlds = [Binding(self, world) for world in self.env.worlds]
        for i, (kind, op, args, dtypes, writes, first) in enumerate(self.nodes):
            args = [_exact(arg, said, worlds) for arg, said in zip(args, recorder.nodes[i].args, strict=True)]
            self.nodes[i] = kind, op, args, dtypes, writes, first
        for value, twin in zip(self.recorder.held, recorder.held, strict=True):
            maker, own = recorder.makers.get(twin), self.recorder.makers.get(value)
            if maker is not None and own is not None and _has_symbols(maker[1]) and not any(isinstance(each, Tensor) for each in own[1]):
                self.constants[value] = _maker_with(own, list(maker[1]))
        for i, (op, args, shown) in enumerate(self.views):
            self.views[i] = op, [_exact(arg, said, worlds) for arg, said in zip(args, recorder.views[i][1], strict=True)], shown

    # -- walking side by side ----------------------------------------------------------------------------------------------------
    def _same(self, parts: Sequence[Any], what: str) -> None:
        if any(part is not parts[0] and part != parts[0] for part in parts):
            raise Differs(f"{what} is another one for different sizes")

    def _pair(self, values: Sequence[Value]) -> None:
        """Values that stand for one another; their forms."""
        first = values[0]
        self._same([value.dtype for value in values], "a dtype")
        self._same([value.place for value in values], "a place")
        for twins, value in zip(self._twins, values, strict=True):
            twins[value] = first
        self.forms[first] = self.unify([value.shape for value in values]), self.unify([value.strides for value in values])

    def _inputs(self, recorders: Sequence[Recorder]) -> None:
        if len({len(recorder.inputs) for recorder in recorders}) > 1:
            raise Differs("it reads other gradients for different sizes")
        for values in zip(*[recorder.inputs for recorder in recorders], strict=True):
            self._pair(values)

    def _held(self, recorders: Sequence[Recorder]) -> None:
        if len({len(recorder.held) for recorder in recorders}) > 1:
            raise Differs("it reads other tensors for different sizes")
        for values in zip(*[recorder.held for recorder in recorders], strict=True):
            arrays: list[Any] = [value.array for value in values]
            self._pair(values)
            if all(value.fixed for value in values):
                if any(not _equal(array, arrays[0]) for array in arrays):
                    self.constants[values[0]] = self._maker(recorders, values)
            elif any(array is not arrays[0] for array in arrays):
                raise Differs("it reads other tensors for different sizes")

    def _maker(self, recorders: Sequence[Recorder], values: Sequence[Value]) -> Hole:
        """The maker of a constant that is another one for different sizes."""
        makers = [recorder.makers.get(value) for recorder, value in zip(recorders, values, strict=True)]
        if all(maker is not None for maker in makers):
            factory = makers[0][0]  # type: ignore[index]
            self._same([maker[0] for maker in makers], "a factory")  # type: ignore[index]
            given = self.unify([[_like(part) for part in maker[1]] for maker in makers])  # type: ignore[index]
            return Hole(lambda b: _produced(factory, b.of(given)))
        numbers = [np.unique(value.array) for value in values]
        if all(len(found) == 1 for found in numbers) and len({found[0] for found in numbers}) == 1:
            form, dtype, number = self.forms[values[0]], values[0].dtype, numbers[0][0]
            return Hole(lambda b: _filled(b.of(form[0]), b.of(form[1]), dtype, number))
        raise Differs("a constant's contents follow from sizes in a way that is not known")

    def _node(self, nodes: Sequence[Node]) -> tuple[Any, ...]:
        first = nodes[0]
        self._same([node.kind for node in nodes], "a step")
        if first.kind == "op":
            self._same([node.op for node in nodes], "an operation")
        op = first.op if first.kind == "op" else self.unify([node.op for node in nodes])
        self._same([node.dtypes for node in nodes], "a dtype")
        self._same([(len(node.args), len(node.outs), len(node.writes), node.random) for node in nodes], "a step")
        args = [self.unify(list(parts)) for parts in zip(*[node.args for node in nodes], strict=True)]
        self.unify([node.writes for node in nodes])
        for outs in zip(*[node.outs for node in nodes], strict=True):
            self._pair(outs)
        return first.kind, op, args, first.dtypes, first.writes, first

    def unify(self, parts: Sequence[Any]) -> Any:
        """The stand-in for parts of the recordings: the part itself where they are the same, or a ``Hole``.

        Raises:
            Differs: there is nothing.
        """
        first = parts[0]
        kind = first.__class__
        if any(part.__class__ is not kind for part in parts):
            raise Differs(f"there is a {kind.__name__} for one size and none for another")
        rule = _RULES.get(kind)
        if rule is not None:
            return rule(self, parts)
        if all(part is first for part in parts):
            return first
        if isinstance(first, list | tuple):
            return self._sequence(parts)
        if isinstance(first, np.generic) and first.dtype.kind in "iuf":
            made = self.unify([part.item() for part in parts])
            return Hole(lambda b: kind(b.of(made))) if made.__class__ is Hole else first
        if kind in _PLAIN or type(first).__eq__ is not object.__eq__:
            self._same(parts, f"a {kind.__name__}")
            return first
        raise Differs(f"a {kind.__name__} is another one for different sizes")

    def value(self, values: Sequence[Value]) -> Value:
        for twins, value in zip(self._twins, values, strict=True):
            if twins.get(value) is not values[0]:
                raise Differs("a step gets another operand for different sizes")
        return values[0]

    def _sequence(self, parts: Sequence[Any]) -> Any:
        first = parts[0]
        self._same([len(part) for part in parts], "a length")
        items = [self.unify(each) for each in zip(*parts, strict=True)]
        if all(item is old and item.__class__ is not Value for item, old in zip(items, first, strict=True)):
            return first
        kind: Any = first.__class__
        if hasattr(kind, "_make"):
            return Hole(lambda b: kind._make([b.of(item) for item in items]))
        return Hole(lambda b: kind([b.of(item) for item in items]))

    def _dict(self, parts: Sequence[dict[Any, Any]]) -> Any:
        self._same([list(part) for part in parts], "a key")
        items = {key: self.unify([part[key] for part in parts]) for key in parts[0]}
        return Hole(lambda b: {key: b.of(item) for key, item in items.items()})

    def _slice(self, parts: Sequence[slice]) -> Any:
        items = [self.unify([getattr(part, name) for part in parts]) for name in ("start", "stop", "step")]
        return Hole(lambda b: slice(*[b.of(item) for item in items]))

    def _array(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        if any(not _equal(part, parts[0]) for part in parts):
            raise Differs("an array is another one for different sizes")
        return parts[0]

    # -- functions ----------------------------------------------------------------------------------------------------------------
    def _function(self, parts: Sequence[types.FunctionType]) -> Any:
        first = parts[0]
        if all(part is first for part in parts):
            return first
        self._same([part.__code__ for part in parts], "a function")
        cells = [self.unify([part.__closure__[k].cell_contents for part in parts]) for k in range(len(first.__closure__ or ()))]  # type: ignore[index]
        defaults = self.unify([part.__defaults__ for part in parts])
        if defaults.__class__ is not Hole and all(
            cell is old.cell_contents for cell, old in zip(cells, first.__closure__ or (), strict=True)
        ):
            return first

        def make(b: Binding) -> Any:
            closure = tuple([types.CellType(b.of(cell)) for cell in cells])
            made = types.FunctionType(first.__code__, first.__globals__, first.__name__, b.of(defaults), closure)
            made.__kwdefaults__ = first.__kwdefaults__
            return made

        return Hole(make)

    def _partial(self, parts: Sequence[functools.partial[Any]]) -> Any:
        function = self.unify([part.func for part in parts])
        args, keywords = self.unify([part.args for part in parts]), self.unify([part.keywords for part in parts])
        return Hole(lambda b: functools.partial(b.of(function), *b.of(args), **b.of(keywords)))

    def _method(self, parts: Sequence[types.MethodType]) -> Any:
        owner, function = self.unify([part.__self__ for part in parts]), self.unify([part.__func__ for part in parts])
        return Hole(lambda b: types.MethodType(b.of(function), b.of(owner)))

    def _draw(self, parts: Sequence[Draw]) -> Any:
        names = Draw.__slots__
        items = {name: self.unify([getattr(part, name) for part in parts]) for name in names}

        def make(b: Binding) -> Draw:
            made = object.__new__(Draw)
            for name, item in items.items():
                setattr(made, name, b.of(item))
            return made

        return Hole(make)

    def _step(self, parts: Sequence[Step]) -> Step:
        for part in parts:
            if part.optimizer is not parts[0].optimizer or list(map(id, part.moved)) != list(map(id, parts[0].moved)):
                raise Differs("an optimizer moves other parameters for different sizes")
        return parts[0]

    def _restart(self, parts: Sequence[Restart]) -> Restart:
        self._same([part.generator for part in parts], "a generator")
        self._same([part.seed for part in parts], "a seed")
        return parts[0]

    def _like(self, parts: Sequence[Like]) -> Any:
        form = self.unify([part.form for part in parts])
        return Hole(lambda b: Like.made(b.of(form)))

    # -- numbers -------------------------------------------------------------------------------------------------------------------
    def expression(self, values: tuple[int, ...]) -> Expr | int:
        """The expression that has these values in the worlds."""
        if len(set(values)) == 1:
            return values[0]
        found = self._known.get(values)
        if found is None:
            found = infer(self.env, values, self._candidates)
            if found is None:
                found = infer(self.env, values, self._seen[:_MOST])
            if found is None:
                raise Differs(f"a number is {', '.join(map(str, values))} for different sizes, which is no known function of them")
            self._known[values] = found
            self._seen.append(found)
        return found

    def _integer(self, parts: Sequence[int]) -> Any:
        found = self.expression(tuple(parts))
        if not isinstance(found, Expr):
            return parts[0]
        expr = found
        return Hole(lambda b: b.number(expr))

    def _float(self, parts: Sequence[float]) -> Any:
        if all(part == parts[0] or part != part for part in parts):
            return parts[0]
        for curve, back in _INVERSES:
            sizes = [back(part) if part > 0 and part != 1 else 0.0 for part in parts]
            near = [round(size) for size in sizes if 1.5 < size < 2**52]
            if len(near) == len(parts) and all(abs(curve(n) - part) <= _CLOSE * abs(part) for n, part in zip(near, parts, strict=True)):
                found = self.expression(tuple(near))
                if isinstance(found, Expr):
                    return Hole(lambda b, curve=curve, found=found: curve(b.number(found)))  # type: ignore[misc]
        for expr in self._seen:
            for curve, scales in _CURVES:
                have = [curve(n) for n in self.env.values(expr) if n > 1]
                if len(have) != len(parts) or 0.0 in have:
                    continue
                factor = parts[0] / have[0] if scales else 1.0
                if all(abs(part - factor * x) <= _CLOSE * abs(part) for part, x in zip(parts, have, strict=True)):
                    factor = round(factor) if abs(factor - round(factor)) <= _CLOSE * abs(factor) else factor
                    return Hole(lambda b, curve=curve, expr=expr, factor=factor: factor * curve(b.number(expr)))  # type: ignore[misc]
        raise Differs(f"a number is {', '.join(map(str, parts))} for different sizes, which is no known function of them")

    # -- sizes of values, for the run that asks for them ---------------------------------------------------------------------------
    def shape_of(self, recorder: Recorder, value: Value) -> list[Any] | None:
        """Expressions of the sizes of a value of a recording in progress, which goes the same way."""
        twin = self._twin(recorder, value)
        if twin is None or twin.shape != value.shape:
            return None
        shapes = [each.shape for each in self._worlds_of(twin)]
        return [self.expression(sizes) for sizes in zip(*shapes, strict=True)]

    def strides_of(self, value: Value) -> list[tuple[int, ...]]:
        """Strides of a value in all worlds."""
        return [each.strides for each in self._worlds_of(value)]

    def _worlds_of(self, value: Value) -> list[Value]:
        """The Values that stand for one in all worlds."""
        if not self._order:
            for twins in self._twins:
                for other, first in twins.items():
                    self._order.setdefault(first, []).append(other)
        return self._order[value]

    def _twin(self, recorder: Recorder, value: Value) -> Value | None:
        """The first recording's value at the place that a value has in another."""
        node = value.node
        try:
            if node is None:
                return self.recorder.inputs[recorder.inputs.index(value)]
            return self.recorder.nodes[recorder.nodes.index(node)].outs[node.outs.index(value)]
        except (ValueError, IndexError):
            return None


def _exact(part: Any, said: Any, worlds: Sequence[Binding]) -> Any:
    """A part of a template with the expressions of symbolic numbers that the same part of a recording has.

    The library mixes them with sizes of arrays, which are plain: what is not right in all worlds does not count.
    """
    if not _has_symbols(said):
        return part
    try:
        is_right = all(_agree(_evaluated(said, old, b.sizes), old) for b in worlds for old in [b.of(part)])
    except ArithmeticError:
        is_right = False
    return Hole(lambda b: _evaluated(said, b.of(part), b.sizes)) if is_right else part


def _maker_with(own: Any, said: list[Any]) -> Hole:
    """The maker of a constant by the expressions that its factory was given."""
    factory, given = own
    return Hole(lambda b: _produced(factory, _evaluated(said, list(given), b.sizes)))


def _agree(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_agree, a, b))
    return bool(a is b or (math.isclose(a, b, rel_tol=_CLOSE) if isinstance(a, float) and isinstance(b, float) else a == b))


def exact_parts(template: Template, parts: dict[str, Any], ending: Any) -> dict[str, Any]:
    """The same of what an ending names.

    Raises:
        Differs: with symbolic sizes it ends in another way.
    """
    said = {} if ending is None else {name: ending._scope[name] for name in parts if name in ending._scope}
    if len(said) != len(parts):
        raise Differs("it returns something else when it asks for sizes")
    worlds = [Binding(template, world) for world in template.env.worlds]
    return {name: _exact(part, said[name], worlds) for name, part in parts.items()}


def _has_symbols(said: Any) -> bool:
    if said.__class__ is slice:
        return _has_symbols((said.start, said.stop, said.step))
    return is_symbolic(said) or (isinstance(said, list | tuple) and any(map(_has_symbols, said)))


def _evaluated(said: Any, part: Any, sizes: dict[str, int]) -> Any:
    if isinstance(said, SymbolicBool):
        return said.relation.evaluate(sizes)
    if is_symbolic(said):
        return evaluate(said.expr, sizes)
    if said.__class__ is slice:
        ends = ("start", "stop", "step")
        return slice(*[_evaluated(getattr(said, end), getattr(part, end), sizes) for end in ends])
    if not isinstance(said, list | tuple) or not isinstance(part, list | tuple):
        return part
    items = [_evaluated(each, old, sizes) for each, old in zip(said, part, strict=True)]
    made: Any = part.__class__
    return made._make(items) if hasattr(made, "_make") else made(items)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.strides == b.strides and a.tobytes() == b.tobytes()


def _like(part: Any) -> Any:
    return Like(part._array) if isinstance(part, Tensor) else part


def _filled(shape: Any, strides: Any, dtype: np.dtype, number: Any) -> np.ndarray:
    array = hollow(shape, strides, dtype)
    array.fill(number)
    return array


def _produced(factory: Any, values: Sequence[Any]) -> np.ndarray:
    """The array that a factory makes."""
    new = Creation(factory.name, factory.options_of(values), None if factory.model is None else values[factory.model], None)
    args, rest, keywords = factory.arguments
    named = {name: values[i] for name, i in keywords} if keywords else {}
    made = factory.body(new, *values[:args], *(() if rest is None else values[rest]), **named)
    array: np.ndarray = made._array if isinstance(made, Tensor) else made
    return array


_RULES: dict[type, Callable[[Template, Any], Any]] = {
    Value: Template.value, int: Template._integer, float: Template._float, list: Template._sequence, tuple: Template._sequence,
    dict: Template._dict, slice: Template._slice, np.ndarray: Template._array, types.FunctionType: Template._function,
    functools.partial: Template._partial, types.MethodType: Template._method, Draw: Template._draw, Step: Template._step,
    Restart: Template._restart, Like: Template._like,
}  # fmt: skip
