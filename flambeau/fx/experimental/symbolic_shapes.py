"""Sizes that are not known yet: what they may be, and what a program assumed about them. Source: torch.fx.experimental.symbolic_shapes.

    worlds     a few sizes for every symbol; the first is the one that is traced, the others are without a pattern
    grid       many more, over which a comparison must hold to hold for all sizes; otherwise it is a guard

A kernel is run without values in every world. What its result's sizes are as expressions is found from the sizes of its arguments
(``aten.size_inference``), so that no operation needs a rule for symbolic sizes.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from ...aten import symbolic_fakes
from ...core.expressions import Call, Expr, atom, evaluate, symbol
from ...core.symbolic import (
    ConstraintViolationError,
    Relation,
    SymbolicBool,
    SymbolicFloat,
    SymbolicInt,
    expression_of,
    is_symbolic,
    specialized,
)
from ...core.tensor import Tensor
from ...utils._pytree import tree_leaves

__all__ = [
    "ConstraintViolationError", "GuardOnDataDependentSymNode", "ShapeEnv", "ValueRanges", "free_symbols", "free_unbacked_symbols",
    "guard_bool", "guard_float", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar", "guard_size_oblivious",
    "guarding_hint_or_throw", "has_free_symbols", "has_free_unbacked_symbols", "has_static_value", "hint_int", "optimization_hint",
    "is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic", "statically_known_false", "statically_known_true",
    "sym_eq", "sym_and", "sym_or",
]  # fmt: skip

UNBOUNDED = 2**63 - 1
# Large and without a pattern, so that functions of them that are equal by chance are rare; small ones for narrow ranges.
_PRIMES = (211, 97, 151, 283, 131, 367, 227, 103, 313, 179, 241, 409, 137, 269, 331, 193, 157, 421, 109, 257, 307, 173, 349, 229, 389, 127)
_SMALL = (5, 11, 7, 13, 3, 17, 10, 19, 6, 23, 14, 29, 9)
_PROBES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 31, 32, 33, 63, 64, 100, 128, 255, 256, 1000, 1023, 4096, 100_003)
WORLDS = 4


class GuardOnDataDependentSymNode(RuntimeError):
    """A branch depends on a value of a tensor. Source: torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode.

    Attributes:
        cond: the comparison.
    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
        >>> issubclass(GuardOnDataDependentSymNode, RuntimeError)
        True
    """

    def __init__(self, cond: Any, *args: Any):
        super().__init__(*args)
        self.cond = cond


class ValueRanges:
    """The values that a symbol may have, both ends included. Source: torch.utils._sympy.value_ranges.ValueRanges.

    Args:
        lower, upper: the ends; no upper one when None.
    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ValueRanges
        >>> ValueRanges(2, 8), 9 in ValueRanges(2, 8)
        (VR[2, 8], False)
    """

    __slots__ = ("lower", "upper")

    def __init__(self, lower: int = 0, upper: int | None = None):
        self.lower, self.upper = lower, UNBOUNDED if upper is None else upper

    def __contains__(self, value: Any) -> bool:
        return bool(self.lower <= value <= self.upper)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def __repr__(self) -> str:
        low = "-int_oo" if self.lower <= -UNBOUNDED else self.lower
        return f"VR[{low}, {'int_oo' if self.upper >= UNBOUNDED else self.upper}]"


class ShapeEnv:
    """The symbols of one trace, and what the program assumed about them.

    Args:
        turn: which of a symbol's sizes is the example's.
    Attributes:
        guards: relations that hold for the example and not for all sizes that are allowed, with what they were.
        var_to_range: the values that each symbol may have. var_to_val: that of the example.
    Source: torch.fx.experimental.symbolic_shapes.ShapeEnv.
    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
        >>> env = ShapeEnv()
        >>> n = env.create_size(6)
        >>> (n + 1) * 2, (n * 4) // 2, bool(n > 1), bool(n > 5), env.guards
        (2*s0 + 2, 2*s0, True, True, [(s0 > 5, True)])
    """

    def __init__(self, *, turn: int = 0) -> None:
        self.turn = turn  # which of a symbol's sizes is the example's
        self.var_to_range: dict[str, ValueRanges] = {}
        self.unbacked: set[str] = set()
        self.worlds: list[dict[str, int]] = [{} for _ in range(WORLDS)]
        self.guards: list[tuple[Relation, bool]] = []
        self.axioms: list[Relation] = []
        self.known: dict[Any, Any] = {}  # expressions -> their values in all worlds
        self._numbers = {kind: itertools.count() for kind in "suz"}
        self._grid: list[dict[str, int]] | None = None

    @property
    def fakes(self) -> Any:
        """The module that computes with tensors without values whose sizes are this environment's symbols."""
        return symbolic_fakes

    # ---- symbols
    @property
    def hints(self) -> dict[str, int]:
        """Sizes of the example by symbol."""
        return self.worlds[0]

    @property
    def var_to_val(self) -> dict[str, int]:
        return dict(self.hints)

    def create_size(self, hint: int, lower: int = 0, upper: int | None = None) -> SymbolicInt:
        """A size that may be ``lower`` to ``upper`` and is ``hint`` in the example."""
        name = f"s{next(self._numbers['s'])}"
        self._add(name, ValueRanges(lower, upper), hint)
        return SymbolicInt(self.hints[name], symbol(name), self)

    def create_unbacked_symint(self, lower: int = -UNBOUNDED) -> SymbolicInt:
        """An integer that depends on the values of tensors: nothing is known of it but what ``torch._check`` says."""
        name = f"u{next(self._numbers['u'])}"
        self.unbacked.add(name)
        self._add(name, ValueRanges(lower), None)
        return SymbolicInt(self.hints[name], symbol(name), self)

    def create_unbacked_symfloat(self) -> SymbolicFloat:
        """A float that depends on the values of tensors."""
        name = f"zuf{next(self._numbers['z'])}"
        self.unbacked.add(name)
        self._add(name, ValueRanges(-UNBOUNDED), None)
        return SymbolicFloat(float(self.hints[name]), atom(name), self)

    def restore(self, name: str, values: ValueRanges, hint: int) -> None:
        """Have a symbol again that another environment had."""
        self._add(name, values, hint)
        if name.startswith(("u", "z")):
            self.unbacked.add(name)

    def _add(self, name: str, values: ValueRanges, hint: int | None) -> None:
        self.var_to_range[name] = values
        number = len(self.var_to_range) - 1
        sizes = [] if hint is None or hint < 2 else [hint]
        for listed in (_PRIMES, _SMALL):
            for k in range(len(listed)):
                size = listed[(number * WORLDS + k) % len(listed)]
                if values.lower <= size <= values.upper and size not in sizes:
                    sizes.append(size)
        sizes += [size for size in range(max(values.lower, 2), min(values.upper, values.lower + 8) + 1) if size not in sizes]
        sizes = sizes or [max(values.lower, 0)]
        turned = [sizes[(k + self.turn) % min(len(sizes), WORLDS)] for k in range(WORLDS)]
        for world, size in zip(self.worlds, turned, strict=True):
            world[name] = size
        self._grid = None

    def number(self, expr: Any) -> Any:
        """The symbolic integer of an expression; a plain one where it has no symbols."""
        if isinstance(expr, Call):
            expr = atom(expr)
        if expr.constant is not None:
            return expr.constant
        return SymbolicInt(self.values(expr)[0], expr, self)

    def values(self, expr: Any) -> tuple[int, ...]:
        """The values of an expression in all worlds."""
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = tuple([evaluate(expr, world) for world in self.worlds])
        return found

    def in_world(self, value: Any, world: int) -> Any:
        """A number as a plain one, for the sizes of a world."""
        if isinstance(value, SymbolicBool):
            return value.relation.evaluate(self.worlds[world])
        return self.values(value.expr)[world] if is_symbolic(value) else value

    # ---- truth
    @property
    def grid(self) -> list[dict[str, int]]:
        """Sizes that are allowed, for every symbol, the extremes among them."""
        if self._grid is None:
            points: list[dict[str, int]] = [*self.worlds]
            for k in range(len(_PROBES) + 6):
                point, step = {}, 0
                for name, values in self.var_to_range.items():
                    low = values.lower if values.lower >= 2 or values.lower < -1 else min(2, values.upper)
                    probes = [size for size in _PROBES if low <= size <= values.upper]
                    probes += [max(low, -100_000), min(values.upper, 1_000_003)]
                    if name in self.unbacked:
                        probes = [size for size in (0, 1, -1) if values.lower <= size <= values.upper] + probes
                    # Steps of no common factor with the number of probes come to every one of them; all symbols' last ones meet.
                    step = next(each for each in itertools.count(step + 1) if math.gcd(each, len(probes)) == 1)
                    point[name] = probes[((k + 1) * step - 1) % len(probes)]
                points.append(point)
            self._grid = [point for point in points if all(axiom.evaluate(point) for axiom in self.axioms)]
        return self._grid

    def constant_truth(self, relation: Relation) -> bool | None:
        """The relation's truth where it is the same for all sizes that are allowed."""
        first = relation.evaluate(self.grid[0]) if self.grid else relation.evaluate(self.hints)
        return first if all(relation.evaluate(point) is first for point in self.grid) else None

    def decide(self, relation: Relation) -> bool:
        """The relation's truth for the example; a guard where it is another for other sizes.

        Raises:
            GuardOnDataDependentSymNode: it depends on a value of a tensor.
        """
        truth = self.constant_truth(relation)
        if truth is not None:
            return truth
        if self.unbacked & relation.symbols:
            raise GuardOnDataDependentSymNode(
                relation,
                f"Could not guard on data-dependent expression {relation} (unhinted: {relation}). "
                "Say with torch._check what is true of it, or use torch.cond.",
            )
        truth = relation.evaluate(self.hints)
        if not any(str(relation) == str(known) for known, _ in self.guards):
            self.guards.append((relation, truth))
        return truth

    def assume(self, relation: Relation) -> bool:
        """Take a relation as true; False if it is not for the example."""
        if not self.unbacked & relation.symbols and not relation.evaluate(self.hints):
            return False
        if self.constant_truth(relation) is not True:
            self.axioms.append(relation)
            self.narrow(relation)
            self._choose_unbacked(relation)
        return True

    def narrow(self, relation: Relation) -> None:
        """Take over what a relation of one symbol and a number says into the symbol's range."""
        (left, right), sign = (relation.args, relation.name) if len(relation.args) == 2 else ((None, None), "")
        turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
        if isinstance(left, Expr) and left.constant is not None and isinstance(right, Expr):
            left, right, sign = right, left, turned.get(sign, sign)
        if not isinstance(left, Expr) or not isinstance(right, Expr) or right.constant is None or left != symbol(str(left)):
            return
        name, bound = str(left), right.constant
        values = self.var_to_range.get(name)
        if values is None:
            return
        lower = {">": bound + 1, ">=": bound, "==": bound}.get(sign, values.lower)
        upper = {"<": bound - 1, "<=": bound, "==": bound}.get(sign, values.upper)
        self.var_to_range[name] = ValueRanges(max(values.lower, lower), min(values.upper, upper))
        self._grid = None

    def _choose_unbacked(self, relation: Relation) -> None:
        """Have the worlds' values of unbacked symbols satisfy what is assumed."""
        own = self.unbacked & relation.symbols  # others are left alone, of which there may be tensors already
        for world in self.worlds:
            if not relation.evaluate(world):
                points = [*self.grid, *[{**world, **dict.fromkeys(self.unbacked, size)} for size in range(40)]]
                for names, point in ((names, point) for names in (own, self.unbacked) for point in points):
                    tried = {**world, **{name: point[name] for name in names}}
                    if all(axiom.evaluate(tried) for axiom in self.axioms):
                        world.update(tried)
                        break
        self.known.clear()
        self._grid = None

    def format_guards(self, verbose: bool = False) -> str:
        """The guards, one a line; NotImplementedError where their places are asked for (``verbose``).

        Source: torch.fx.experimental.symbolic_shapes.ShapeEnv.format_guards.
        """
        if verbose:
            raise NotImplementedError("ShapeEnv.format_guards: verbose is not supported")
        return "\n".join(f" - {relation if truth else Relation('not', relation)}" for relation, truth in self.guards)


# ---- questions about numbers
def _relation(value: Any) -> Any:
    return value.relation if isinstance(value, SymbolicBool) else None


def statically_known_true(x: Any) -> bool:
    """Whether a condition is true for all sizes; asking it is no guard.

    Args:
        x: a bool, or a comparison of symbolic numbers.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.statically_known_true.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.statically_known_true(n > 1), shapes.statically_known_true(n > 5)
        (True, False)
    """
    relation = _relation(x)
    return bool(x) if relation is None else x.env.constant_truth(relation) is True


def statically_known_false(x: Any) -> bool:
    """Whether a condition is false for all sizes; asking it is no guard.

    Args:
        x: a bool, or a comparison of symbolic numbers.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.statically_known_false.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.statically_known_false(n < 0)
        True
    """
    relation = _relation(x)
    return not x if relation is None else x.env.constant_truth(relation) is False


def guard_or_true(a: Any) -> bool:
    """The condition; True where it depends on values.

    Args:
        a: a bool, or a comparison of symbolic numbers.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.guard_or_true.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> u = n.env.create_unbacked_symint()
        >>> shapes.guard_or_true(u > 3), shapes.guard_or_true(n > 7)
        (True, False)
    """
    return _guard_or(a, True)


def guard_or_false(a: Any) -> bool:
    """The condition; False where it depends on values.

    Args:
        a: a bool, or a comparison of symbolic numbers.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.guard_or_false.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> u = n.env.create_unbacked_symint()
        >>> shapes.guard_or_false(u > 3), shapes.guard_or_false(n > 5)
        (False, True)
    """
    return _guard_or(a, False)


def _guard_or(a: Any, otherwise: bool) -> bool:
    try:
        return bool(a)
    except GuardOnDataDependentSymNode:
        return otherwise


def guard_bool(a: Any) -> bool:
    """The condition for the example, guarded.

    Args:
        a: a bool, or a comparison of symbolic numbers.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.guard_bool.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.guard_bool(n > 5), n.env.guards
        (True, [(s0 > 5, True)])
    """
    return bool(a)


guard_size_oblivious = guard_bool


def guard_int(a: Any) -> int:
    """The integer for the example, guarded.

    Args:
        a: an integer.
    Returns:
        A plain ``int``.
    Source: torch.fx.experimental.symbolic_shapes.guard_int.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.guard_int(n * 2), n.env.guards
        (12, [(Eq(2*s0, 12), True)])
    """
    return specialized(a) if isinstance(a, SymbolicInt) else int(a)


def guard_float(a: Any) -> float:
    """The float for the example, guarded.

    Args:
        a: a float.
    Returns:
        A plain ``float``.
    Source: torch.fx.experimental.symbolic_shapes.guard_float.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.guard_float(n / 4)
        1.5
    """
    return float(a)


def guard_scalar(a: Any) -> Any:
    """The number for the example, guarded.

    Args:
        a: an integer, a float or a condition.
    Returns:
        A plain number.
    Source: torch.fx.experimental.symbolic_shapes.guard_scalar.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.guard_scalar(n), shapes.guard_scalar(n / 4)
        (6, 1.5)
    """
    return guard_int(a) if isinstance(a, SymbolicInt) else guard_float(a) if isinstance(a, SymbolicFloat) else guard_bool(a)


def hint_int(a: Any, fallback: int | None = None) -> int:
    """The integer for the example, without a guard.

    Args:
        a: an integer. fallback: what is returned for anything else.
    Returns:
        A plain ``int``.
    Source: torch.fx.experimental.symbolic_shapes.hint_int.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.hint_int(n), n.env.guards
        (6, [])
    """
    return int.__int__(a) if isinstance(a, int) else a if fallback is None else fallback


def optimization_hint(a: Any, fallback: int | None = None) -> int:
    """The integer for the example, for choices that need not be right for all sizes; asking it is no guard.

    Args:
        a: an integer. fallback: what is returned where it depends on a tensor's value.
    Returns:
        A plain ``int``.
    Source: torch.fx.experimental.symbolic_shapes.optimization_hint.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> env = shapes.ShapeEnv()
        >>> shapes.optimization_hint(env.create_size(6)), shapes.optimization_hint(env.create_unbacked_symint(), fallback=64)
        (6, 64)
    """
    return fallback if fallback is not None and has_free_unbacked_symbols(a) else hint_int(a, fallback)


def guarding_hint_or_throw(a: Any) -> int | bool:
    """The value for the example of a symbolic integer or condition.

    Args:
        a: the number.
    Returns:
        A plain ``int`` or ``bool``.
    Raises:
        GuardOnDataDependentSymNode: it depends on a tensor's value.
    Source: torch.fx.experimental.symbolic_shapes.guarding_hint_or_throw.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.guarding_hint_or_throw(n + 1), shapes.guarding_hint_or_throw(n > 7)
        (7, False)
    """
    if has_free_unbacked_symbols(a):
        raise GuardOnDataDependentSymNode(a, f"Could not find a value of {a} for the example: it depends on a value of a tensor")
    relation = _relation(a)
    return hint_int(a) if relation is None and not isinstance(a, bool) else a if relation is None else relation.evaluate(a.env.hints)


def has_static_value(a: Any) -> bool:
    """Whether a number is the same for all sizes that are allowed; asking it is no guard.

    Args:
        a: a number, or a condition.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.has_static_value.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> env = shapes.ShapeEnv()
        >>> n, m = env.create_size(6), env.create_size(3, 3, 3)
        >>> shapes.has_static_value(4), shapes.has_static_value(n), shapes.has_static_value(m), shapes.has_static_value(n >= 0)
        (True, False, True, True)
    """
    relation = _relation(a)
    if relation is not None:
        return a.env.constant_truth(relation) is not None
    names = free_symbols(a)
    return all(bounds.lower == bounds.upper for bounds in [a.env.var_to_range[name] for name in names])


def is_concrete_int(a: Any) -> bool:
    """Whether an integer is the same for all sizes.

    Args:
        a: an integer.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.is_concrete_int.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.is_concrete_int(n), shapes.is_concrete_int(3)
        (False, True)
    """
    return not isinstance(a, SymbolicInt) or a.expr.constant is not None


def is_concrete_float(a: Any) -> bool:
    """Whether a float is no symbolic one.

    Args:
        a: a float.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.is_concrete_float.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.is_concrete_float(n / 2), shapes.is_concrete_float(3.0)
        (False, True)
    """
    return not isinstance(a, SymbolicFloat)


def is_concrete_bool(a: Any) -> bool:
    """Whether a condition is no symbolic one.

    Args:
        a: a condition.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.is_concrete_bool.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.is_concrete_bool(n > 2), shapes.is_concrete_bool(True)
        (False, True)
    """
    return not isinstance(a, SymbolicBool)


def free_symbols(val: Any) -> set[str]:
    """Names of the symbols in numbers, shapes of tensors, and structures of them.

    Args:
        val: such a structure.
    Returns:
        A set of names.
    Source: torch.fx.experimental.symbolic_shapes.free_symbols.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.free_symbols((n + 1, torch.ones(2)))
        {'s0'}
    """
    found: set[str] = set()
    for leaf in tree_leaves(val):
        if isinstance(leaf, Tensor):
            leaf = tuple(leaf.shape)
        for number in leaf if isinstance(leaf, tuple) else (leaf,):
            found |= getattr(expression_of(number), "symbols", set())
    return found


def free_unbacked_symbols(x: Any) -> set[str]:
    """Names of the symbols in numbers and shapes of which nothing is known in advance, since they depend on values of tensors.

    Args:
        x: numbers, tensors, and structures of them.
    Returns:
        A set of names.
    Source: torch.fx.experimental.symbolic_shapes.free_unbacked_symbols.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> env = shapes.ShapeEnv()
        >>> shapes.free_unbacked_symbols((env.create_size(6), env.create_unbacked_symint()))
        {'u0'}
    """
    return {name for name in free_symbols(x) if name.startswith(("u", "z"))}


def has_free_unbacked_symbols(x: Any) -> bool:
    """Whether there are symbols in a value that depend on values of tensors.

    Args:
        x: numbers, tensors, and structures of them.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.has_free_unbacked_symbols.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> shapes.has_free_unbacked_symbols(shapes.ShapeEnv().create_size(6))
        False
    """
    return bool(free_unbacked_symbols(x))


def has_free_symbols(val: Any) -> bool:
    """Whether there are symbols in a value.

    Args:
        val: numbers, tensors, and structures of them.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.has_free_symbols.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.has_free_symbols(n + 1), shapes.has_free_symbols(3)
        (True, False)
    """
    return bool(free_symbols(val))


def sym_eq(x: Any, y: Any) -> Any:
    """Equality of numbers, or of all numbers in two sequences.

    Args:
        x, y: numbers, or sequences of them.
    Returns:
        A bool, or a symbolic one.
    Source: torch.fx.experimental.symbolic_shapes.sym_eq.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.sym_eq((n, 2), (n, 2)), shapes.sym_eq(n, 3)
        (Eq(s0, s0) and True, Eq(s0, 3))
    """
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and sym_and(*map(sym_eq, x, y))
    return x == y


def sym_and(x: Any = True, *others: Any) -> Any:
    """Whether all conditions are true.

    Args:
        x, others: conditions.
    Returns:
        A bool, or a symbolic one.
    Source: torch.fx.experimental.symbolic_shapes.sym_and.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.sym_and(n > 1, n < 9)
        s0 > 1 and s0 < 9
    """
    for other in others:
        x = x & other if isinstance(x, SymbolicBool) else other & x if isinstance(other, SymbolicBool) else x and other
    return x


def sym_or(x: Any = False, *others: Any) -> Any:
    """Whether one of the conditions is true.

    Args:
        x, others: conditions.
    Returns:
        A bool, or a symbolic one.
    Source: torch.fx.experimental.symbolic_shapes.sym_or.
    Example:
        >>> from flambeau.fx.experimental import symbolic_shapes as shapes
        >>> n = shapes.ShapeEnv().create_size(6)
        >>> shapes.sym_or(n < 1, n > 5)
        s0 < 1 or s0 > 5
    """
    for other in others:
        x = x | other if isinstance(x, SymbolicBool) else other | x if isinstance(other, SymbolicBool) else x or other
    return x
