"""A program at other sizes: what it does to arguments of other sizes, without leaving a trace.

A program that was recorded runs again, recorded, on arguments that only look like the ones it got. Parameters, buffers, gradients, the
state of optimizers and generators are put back afterwards. From what changes with the sizes, and what does not, ``templates`` has the
program with symbols. Three of the runs give Python symbolic integers where it asks for sizes, so that what it compares becomes a guard.
"""

from __future__ import annotations

import dis
import itertools
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..capture.memory import array_at, extent
from ..capture.recorder import Recorder
from ..core.calls import getters
from ..core.expressions import evaluate
from ..core.shape import Size
from ..core.symbolic import COMPARISONS, Relation, SymbolicInt
from ..core.tensor import Parameter, Tensor, wrap
from ..fx.experimental.symbolic_shapes import ShapeEnv, ValueRanges
from .arguments import Arguments
from .dynamism import Wanted

__all__ = ["Sizes", "like_given", "other_sizes", "recorder_with_sizes"]

_STEPS = {  # how much larger sizes are, world by world, symbol by symbol
    "around": ((-1, 2, -2), (2, -1, 1), (1, 3, -1)),
    "above": ((1, 5, 3), (7, 2, 11), (4, 13, 6)),
    "below": ((-1, -2, -3), (-2, -3, -1), (-3, -1, -2)),
}
_FACTORS = ((2, 3, 5), (3, 5, 2), (5, 2, 3))  # for programs that need sizes of which something is a divisor
_TRIED = (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, -1, -2, -3, -4, 17, 23, 31)  # from there on, until what the program compared is as it was


def other_sizes(wanted: Wanted, count: int, how: str, allowed: Callable[[Mapping[str, int]], bool]) -> list[dict[str, int]]:
    """Sizes by symbol for worlds beside the real one.

    Args:
        count: of worlds. how: 'around' the real sizes, 'above' them, where indices stay valid, 'below' them, where tables last, or
            their 'multiples'.
        allowed: whether the program would go the same way, as far as is known.
    """
    worlds: list[dict[str, int]] = []
    for k in range(count):
        world: dict[str, int] = {}
        for place, (name, size) in enumerate(wanted.sizes.items()):
            more = 2 * (place // 3) * (k + 1)
            other = size * _FACTORS[k][place % 3] if how == "multiples" else size + _STEPS[how][k][place % 3] + more
            least, most = wanted.ranges[name]
            taken = {size, *[each[name] for each in worlds]}
            unit = size if how == "multiples" else 1
            tried = [start + more * unit for start in (other, size) for more in _TRIED]
            tried = [n for n in tried if n >= least and (most is None or n <= most) and n not in taken]
            tried = [n for n in tried if how == "around" or (n < size) is (how == "below")]
            world[name] = next((n for n in tried if allowed({**wanted.sizes, **world, name: n})), other)
        worlds.append(world)
    return worlds


_REPEATED = (str, bytes, bytearray, list, tuple)  # what a number repeats


class SeenSize(SymbolicInt):
    """A symbolic size that a program sees while it is recorded; the library may ask for the number without a guard."""

    def __int__(self) -> int:
        self._asked()
        return int.__int__(self)

    def __float__(self) -> float:
        self._asked()
        return int.__float__(self)

    def __mul__(self, other: Any) -> Any:
        return other * int(self) if isinstance(other, _REPEATED) else super().__mul__(other)

    def __rmul__(self, other: Any) -> Any:
        return other * int(self) if isinstance(other, _REPEATED) else super().__rmul__(other)

    def _asked(self) -> None:
        """A plain number is asked for: it is guarded on where it is rounded, or the program may choose by it or round it."""
        if asking_module() == "program" and may_choose(self.expr, sys._getframe(2).f_code):
            self.env.decide(Relation("==", self.expr, int.__int__(self)))


def _as_number(name: str) -> Callable[..., Any]:
    """A method of integers that symbolic ones do not know: the program that calls it gets the number, and a guard."""
    method = getattr(int, name)

    def asked(self: SeenSize, *args: Any) -> Any:
        if asking_module().startswith(_CHOOSING):
            self.env.decide(Relation("==", self.expr, int.__int__(self)))
        return method(int.__int__(self), *args)

    return asked


_BITS = ("and", "or", "xor", "lshift", "rshift")
for _name in (*[f"__{_r}{_bit}__" for _bit in _BITS for _r in ("", "r")], "__invert__", "__hash__", "__str__", "__repr__", "__format__",
              "bit_length", "bit_count", "to_bytes", "as_integer_ratio"):  # fmt: skip
    setattr(SeenSize, _name, _as_number(_name))

_PACKAGE = __name__.partition(".")[0]
_OF_NUMBERS = ("core.symbolic", "core.expressions", "compiler.worlds", "compiler.watching", "fx.experimental")
_NUMBERS = tuple(f"{_PACKAGE}.{name}" for name in _OF_NUMBERS)
_HUGE, _MOST_SYMBOLS = 1_000_003, 6
_OPERATIONS = f"{_PACKAGE}.ops."
_GETTERS = tuple(f"{_PACKAGE}.{name}" for name in ("core.", "compiler.worlds", "compiler.watching"))
_ROUNDED = ("//", "%", ">>", "<<", "&", "|", "^", "Mod", "floor")
_ROUNDING = frozenset(("round", "floor", "ceil", "trunc", "min", "max", "abs", "divmod"))
_CHOOSING = ("program", f"{_PACKAGE}.nn.", f"{_PACKAGE}.vision.")


def asking_module() -> str:
    """The library's module that asks about a number; 'program' for all others."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name and not name.startswith(_NUMBERS):  # generated code has no name
            return name if name.partition(".")[0] == _PACKAGE else "program"
        frame = frame.f_back
    return "program"


class Sizes(ShapeEnv):
    """The symbols of one program, with the worlds that it is recorded in; the first is the real one.

    Args:
        wanted: the symbols. worlds: sizes by name, world by world.
    """

    def __init__(self, wanted: Wanted, worlds: Sequence[Mapping[str, int]]):
        super().__init__()
        self.var_to_range = {name: ValueRanges(*wanted.ranges[name]) for name in wanted.sizes}
        self.worlds = [dict(world) for world in worlds]

    def decide(self, relation: Relation) -> bool:
        """The relation's truth for the real sizes; a guard, where a program or a layer of the library asks.

        The library's own checks of equality compare symbolic sizes with those of arrays, which are none. What it does with others than
        the real sizes is seen in other worlds, and checked when a plan is made.
        """
        asker = asking_module()
        orders = relation.name in ("<", "<=", ">", ">=") and asker.startswith(_OPERATIONS)
        # a remainder of a plain number is one of an array's size, which is another one for other sizes
        divides = "%" in str(relation) and re.search(r"\(\d+ %", str(relation)) is None
        if asker.startswith(_CHOOSING) or orders or divides:
            try:
                return super().decide(relation)
            except ZeroDivisionError:  # of some sizes: a guard in any case
                self.guards.append((relation, relation.evaluate(self.hints)))
        return relation.evaluate(self.hints)

    def constant_truth(self, relation: Relation) -> bool | None:
        """The relation's truth where it is the same for all sizes: between the ends of its symbols' ranges nothing else happens.

        A size that a program compares with one number is a guard whatever it is now, since a later one may be that number.
        """
        if relation.name not in COMPARISONS:
            known = all(not isinstance(part, Relation) or self.constant_truth(part) is not None for part in relation.args)
            return relation.evaluate(self.hints) if known else None
        names = sorted(relation.symbols)
        if "%" in str(relation) or len(names) > _MOST_SYMBOLS:
            return None
        ends = [(self.var_to_range[name].lower, min(self.var_to_range[name].upper, _HUGE)) for name in names]
        points = [{**self.hints, **dict(zip(names, corner, strict=True))} for corner in itertools.product(*ends)]
        if relation.name in ("==", "!="):
            left, right = relation.args
            gaps = [evaluate(left, point) - evaluate(right, point) for point in points]
            signs = {(gap > 0) - (gap < 0) for gap in gaps}
            return relation.evaluate(self.hints) if len(signs) == 1 else None
        truths = {relation.evaluate(point) for point in points}
        return relation.evaluate(self.hints) if len(truths) == 1 else None

    def number(self, expr: Any) -> Any:
        made = super().number(expr)
        return SeenSize(int.__int__(made), made.expr, self) if made.__class__ is SymbolicInt else made

    def allows(self, sizes: Mapping[str, int]) -> bool:
        """Whether all guards are as they were for other sizes."""
        try:
            return all(relation.evaluate(sizes) is truth for relation, truth in self.guards)
        except ZeroDivisionError:
            return False

    @property
    def fixed(self) -> set[str]:
        """Symbols that the program compared with a number, and found equal."""
        found = set()
        for relation, truth in self.guards:
            (name, *more) = relation.symbols
            if not more and (relation if truth else relation.negated).name == "==" and str(relation.args[0]) == name:
                found.add(name)
        return found


def resized(array: np.ndarray, sizes: Mapping[int, int]) -> np.ndarray:
    """An array of other sizes by dimension, its elements repeated, in memory in the same order and with the same gaps.

    Raises:
        ValueError: rows would overlap.
    """
    shape = tuple([sizes.get(dim, n) for dim, n in enumerate(array.shape)])
    strides = list(array.strides)
    was = now = array.itemsize
    for dim in sorted(range(array.ndim), key=lambda dim: (array.strides[dim], array.shape[dim])):
        if array.strides[dim] == was:
            strides[dim] = now
        elif strides[dim] < now:
            raise ValueError("an argument has gaps that are too small for other sizes")
        was, now = array.strides[dim] * array.shape[dim], strides[dim] * shape[dim]
    memory = np.empty(max(extent(shape, tuple(strides), array.itemsize), 1), np.uint8)
    made = array_at(memory.ctypes.data, shape, tuple(strides), array.dtype, memory)
    source = array
    for dim, n in sizes.items():
        source = source.take(np.arange(n) % array.shape[dim], dim)
    made[...] = source
    return made


def like_given(tensors: Sequence[Tensor], wanted: Wanted, world: Mapping[str, int]) -> list[Tensor]:
    """Tensors that look like arguments, of the sizes of a world."""
    made = []
    for i, tensor in enumerate(tensors):
        sizes = {dim: world[name] for (place, dim), name in wanted.symbols.items() if place == i}
        array = resized(tensor._array, sizes)
        twin = Parameter(wrap(array), False) if tensor.__class__ is Parameter else wrap(array)
        twin._requires_grad = True if tensor._requires_grad and tensor._requires_grad is not False and tensor.requires_grad else False
        made.append(twin)
    return made


def with_tensors(value: Any, twins: Mapping[int, Tensor]) -> Any:
    """Arguments with other tensors in place of theirs."""
    kind = value.__class__
    if isinstance(value, Tensor):
        return twins.get(id(value), value)
    if kind is list or kind is tuple:
        return kind([with_tensors(each, twins) for each in value])
    if kind is dict:
        return {key: with_tensors(each, twins) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return kind._make([with_tensors(each, twins) for each in value])
    return value


def arguments_in(world: Mapping[str, int], wanted: Wanted, arguments: Arguments, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call as they are in a world."""
    twins = dict(zip(map(id, arguments.tensors), like_given(arguments.tensors, wanted, world), strict=True))
    return with_tensors(tuple(args), twins), with_tensors(dict(kwargs), twins)


def may_choose(expr: Any, code: types.CodeType) -> bool:
    """Whether code that has a plain number in place of an expression may choose by it or round it, or it was rounded."""
    return any(word in str(expr) for word in _ROUNDED) or _may_compare(code)


@lru_cache(maxsize=1024)
def _may_compare(code: types.CodeType) -> bool:
    """Whether code may choose by a number, or round it: it has comparisons, conditions, loops, or quotients."""
    return not _ROUNDING.isdisjoint(code.co_names) or any(
        each.opname.startswith(("COMPARE", "POP_JUMP", "JUMP_IF", "CONTAINS", "FOR_ITER"))
        or (each.opname == "BINARY_OP" and each.argrepr.rstrip("=") in _ROUNDED)
        for each in dis.get_instructions(code)
    )


def asking_code(frame: Any, with_layers: bool = True) -> types.CodeType | None:
    """The code of the program, or of a layer, that asks; None for the library's own."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name and not name.startswith(_GETTERS):
            is_asking = name.partition(".")[0] != _PACKAGE or (with_layers and name.startswith(_CHOOSING))
            return frame.f_code if is_asking else None
        frame = frame.f_back
    return None


class recorder_with_sizes:
    """Within the block, recorders that are made answer questions for sizes with symbolic ones.

    Args:
        env: the symbols. shape_of: function (recorder, value) -> expressions of a value's sizes, or None.
    """

    def __init__(self, env: Sizes, shape_of: Callable[[Recorder, Any], Any]):
        self.env, self.shape_of = env, shape_of

    def prepare(self, recorder: Recorder) -> None:
        """Have a recorder answer."""
        env, shape_of = self.env, self.shape_of

        def asked(tensor: Tensor, name: str, args: tuple[Any, ...]) -> Any:
            array = tensor._array
            value = recorder.found(array) if array.__class__ is np.ndarray else None
            shape = None if value is None else shape_of(recorder, value)
            if shape is None:
                return getters._plain[name](tensor, *args)
            sizes = [env.number(size) if size.__class__ is not int else size for size in shape]
            if name == "__len__":  # Python makes a plain integer of what is returned
                code = asking_code(sys._getframe(1))
                if sizes and isinstance(sizes[0], SymbolicInt) and code is not None and _may_compare(code):
                    ShapeEnv.decide(env, Relation("==", sizes[0].expr, int.__int__(sizes[0])))
                return getters._plain[name](tensor, *args)
            if name in ("numel", "nelement"):
                count = 1
                for size in sizes:
                    count = size * count
                return count
            if args and args[0] is not None:
                getters._plain["size"](tensor, *args)
                return sizes[args[0]]
            return tuple.__new__(Size, sizes)

        recorder.sizes = asked

    def __enter__(self) -> recorder_with_sizes:
        getters.enter_sizing()
        return self

    def __exit__(self, *exc_info: object) -> None:
        getters.leave_sizing()
