"""Numbers that stand for sizes which are not known yet: they compute as numbers do, and remember how.

A symbolic integer *is* an ``int``, the size of the example that is traced, so that whatever takes an integer takes it. Beside it,
it has the expression that it stands for, and arithmetic gives both. A comparison has to be the same for all sizes that are allowed, or else
becomes a guard: the environment (``fx.experimental.symbolic_shapes.ShapeEnv``) decides.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .expressions import FUNCTIONS, Call, Expr, as_expr, evaluate, extreme
from .unknown import SymBool, SymFloat, SymInt

__all__ = ["ConstraintViolationError", "SymNode", "SymbolicBool", "SymbolicFloat", "SymbolicInt", "expression_of", "is_symbolic"]

COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RELATIONS: dict[str, Callable[..., Any]] = {
    **COMPARISONS,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
}
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class ConstraintViolationError(RuntimeError):
    """A program assumed more about sizes than was declared. Source: torch.fx.experimental.symbolic_shapes.ConstraintViolationError.

    Args:
        message: what is wrong. fixed, equal: see there.
    Attributes:
        fixed: symbols that must be what they are in the example. equal: two symbols, a factor and a shift: the second symbol must be
            the factor times the first, plus the shift.
        sums: a symbol, others with factors, and a shift: the first must be the sum of the others times their factors, plus the shift.
        ranges: what symbols must lie between. owners: what the symbols are of. hints: their sizes in the example.
    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError
        >>> ConstraintViolationError("s0 must be 3", {"s0"}).fixed
        {'s0'}
    """

    def __init__(self, message: str, fixed: set[str] = frozenset(), equal: set[tuple[str, str, int, int]] = frozenset()):  # type: ignore[assignment]
        super().__init__(message)
        self.fixed, self.equal = set(fixed), set(equal)
        self.sums: set[tuple[str, tuple[tuple[str, int], ...], int]] = set()
        self.ranges: dict[str, tuple[int, int]] = {}
        self.owners: dict[str, Any] = {}
        self.hints: dict[str, int] = {}


class SymNode:
    """The parts of a symbolic number, under PyTorch's names. Source: torch.fx.experimental.sym_node.SymNode.

    Attributes:
        expr: the expression. shape_env: where its symbols are. hint: its value for the example. pytype: ``int``, ``float`` or ``bool``.
    """

    __slots__ = ("expr", "hint", "pytype", "shape_env")

    def __init__(self, expr: Any, shape_env: Any, hint: Any, pytype: type):
        self.expr, self.shape_env, self.hint, self.pytype = expr, shape_env, hint, pytype

    def has_hint(self) -> bool:
        return self.hint is not None

    def require_hint(self) -> Any:
        return self.hint

    def maybe_as_int(self) -> int | None:
        return self.expr.constant if isinstance(self.expr, Expr) else None

    def is_symbolic(self) -> bool:
        return True

    def __str__(self) -> str:
        return str(self.expr)


class Relation:
    """A comparison of expressions, or of relations."""

    __slots__ = ("args", "name")

    def __init__(self, name: str, *args: Any):
        self.name, self.args = name, args

    def evaluate(self, values: Any) -> bool:
        return bool(_RELATIONS[self.name](*[_value(arg, values) for arg in self.args]))

    @property
    def symbols(self) -> set[str]:
        return set().union(*[getattr(arg, "symbols", ()) for arg in self.args])

    @property
    def negated(self) -> Relation:
        """The relation that is true where this one is not."""
        name = _NEGATED.get(self.name)
        return Relation("not", self) if name is None else Relation(name, *self.args)

    def __str__(self) -> str:
        if self.name in ("==", "!="):
            return f"{'Eq' if self.name == '==' else 'Ne'}({self.args[0]}, {self.args[1]})"
        if self.name == "not":
            return f"Not({self.args[0]})"
        return f" {self.name} ".join(map(str, self.args))

    __repr__ = __str__


def _value(arg: Any, values: Any) -> Any:
    return arg.evaluate(values) if isinstance(arg, Relation) else evaluate(arg, values)


def is_symbolic(value: Any) -> bool:
    """Whether a value is a symbolic number.

    Args:
        value: anything.
    Returns:
        A bool.
    Source: torch.fx.experimental.symbolic_shapes.is_symbolic.
    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv, is_symbolic
        >>> is_symbolic(ShapeEnv().create_size(3)), is_symbolic(3)
        (True, False)
    """
    return isinstance(value, (SymbolicInt, SymbolicFloat, SymbolicBool))


def expression_of(value: Any) -> Any:
    """The expression of a symbolic number; other numbers are themselves."""
    if isinstance(value, (SymbolicInt, SymbolicFloat)):
        return value.expr
    return as_expr(value) if value.__class__ is int else value


class SymbolicInt(SymInt, int):
    """An integer with an expression; see this module's docstring."""

    expr: Expr
    env: Any

    def __new__(cls, hint: int, expr: Expr, env: Any) -> SymbolicInt:
        made: SymbolicInt = int.__new__(cls, hint)
        made.expr, made.env = expr, env
        return made

    @property
    def node(self) -> SymNode:
        return SymNode(self.expr, self.env, int.__int__(self), int)

    def __index__(self) -> int:  # called by our own code only: C code takes an int as it is
        return self

    def __int__(self) -> int:  # ``int(size)`` asks for one number, as in PyTorch; ``sym_int`` does not
        return specialized(self)

    def __trunc__(self) -> int:
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, digits: Any = None) -> int:
        if digits is not None and digits < 0:
            raise NotImplementedError("round of a symbolic number to digits is not supported")
        return self

    def __float__(self) -> float:
        return float(specialized(self))

    def __bool__(self) -> bool:
        return self.env.decide(Relation("!=", self.expr, 0))

    def __repr__(self) -> str:
        return str(self.expr)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec) if not spec else int.__format__(self, spec)

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __reduce__(self) -> Any:
        raise TypeError(f"the symbolic size {self} cannot be pickled")

    def __deepcopy__(self, memo: Any) -> SymbolicInt:
        return self

    __copy__ = __deepcopy__

    def __neg__(self) -> Any:
        return self.env.number(-self.expr)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __pow__(self, power: Any, modulus: Any = None) -> Any:
        if power.__class__ is int and power >= 0:
            found = self.env.number(self.expr**power)
            return found if modulus is None else found % modulus
        return _float(self.env, "**", self, power)

    def __rpow__(self, base: Any, modulus: Any = None) -> Any:
        return _float(self.env, "**", base, self)

    def __truediv__(self, other: Any) -> Any:
        return _float(self.env, "/", self, other) if isinstance(other, (int, float)) else NotImplemented

    def __rtruediv__(self, other: Any) -> Any:
        return _float(self.env, "/", other, self) if isinstance(other, (int, float)) else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other


class SymbolicFloat(SymFloat, float):
    """A float with the function of sizes that it is."""

    expr: Call
    env: Any

    def __new__(cls, hint: float, expr: Any, env: Any) -> SymbolicFloat:
        made: SymbolicFloat = float.__new__(cls, hint)
        made.expr, made.env = expr, env
        return made

    @property
    def node(self) -> SymNode:
        return SymNode(self.expr, self.env, float.__float__(self), float)

    def __float__(self) -> float:
        value = float.__float__(self)
        self.env.decide(Relation("==", self.expr, value))
        return value

    def __bool__(self) -> bool:
        return self.env.decide(Relation("!=", self.expr, 0))

    def __repr__(self) -> str:
        return str(self.expr)

    __str__ = __repr__

    def __hash__(self) -> int:
        return float.__hash__(self)

    def __int__(self) -> int:
        return int(float(self))

    def __trunc__(self) -> Any:
        return self.env.number(_whole("trunc", self.expr))

    def __floor__(self) -> Any:
        return self.env.number(_whole("floor", self.expr))

    def __ceil__(self) -> Any:
        return self.env.number(_whole("ceil", self.expr))

    def __round__(self, digits: Any = None) -> Any:
        if digits is not None:
            raise NotImplementedError("round of a symbolic number to digits is not supported")
        return self.env.number(_whole("round", self.expr))

    def __neg__(self) -> Any:
        return _float(self.env, "-", 0.0, self)


class SymbolicBool(SymBool):
    """A comparison of symbolic numbers; its truth is asked of the environment, which may have to guard on it."""

    relation: Relation
    env: Any

    def __new__(cls, relation: Relation, env: Any) -> SymbolicBool:
        made: SymbolicBool = object.__new__(cls)
        made.relation, made.env = relation, env
        return made

    @property
    def node(self) -> SymNode:
        return SymNode(self.relation, self.env, self.relation.evaluate(self.env.hints), bool)

    def __bool__(self) -> bool:
        return self.env.decide(self.relation)

    def __and__(self, other: Any) -> Any:
        return _combined("and", self, other)

    def __or__(self, other: Any) -> Any:
        return _combined("or", self, other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> SymbolicBool:
        return SymbolicBool(Relation("not", self.relation), self.env)

    __sym_not__ = __invert__

    def __eq__(self, other: object) -> bool:
        return bool(self) == bool(other)

    def __hash__(self) -> int:
        return hash(bool(self))

    def __repr__(self) -> str:
        return str(self.relation)


def _combined(name: str, a: SymbolicBool, b: Any) -> Any:
    return SymbolicBool(Relation(name, a.relation, b.relation if isinstance(b, SymbolicBool) else bool(b)), a.env)


def _whole(name: str, expr: Any) -> Any:
    """A float rounded; one that is an integer is that integer."""
    if isinstance(expr, Call) and expr.name == "ToFloat":
        return expr.args[0]
    if isinstance(expr, Call) and expr.name == "*":
        left, right = expr.args if isinstance(expr.args[0], Expr) else expr.args[::-1]
        if isinstance(left, Expr) and isinstance(right, float) and right.is_integer():
            return left * int(right)
    return Call(name, expr)


def plain(value: Any) -> Any:
    """A value, or a sequence of values, with the example's numbers in place of symbolic ones."""
    if isinstance(value, SymbolicInt):
        return int.__int__(value)
    if value.__class__ in (tuple, list):
        return value.__class__([plain(part) for part in value])
    return value


def _float(env: Any, name: str, a: Any, b: Any) -> Any:
    expr = Call(name, *[expression_of(value) for value in (a, b)])
    return SymbolicFloat(expr.evaluate(env.hints), expr, env)


def _integer(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function = FUNCTIONS[name]

    def forward(self: SymbolicInt, other: Any) -> Any:
        if isinstance(other, int):
            return self.env.number(function(self.expr, expression_of(int(other) if other.__class__ is bool else other)))
        return _float(self.env, name, self, other) if isinstance(other, float) else NotImplemented

    def reflected(self: SymbolicInt, other: Any) -> Any:
        if isinstance(other, int):
            return self.env.number(function(as_expr(expression_of(other)), self.expr))
        return _float(self.env, name, other, self) if isinstance(other, float) else NotImplemented

    return forward, reflected


def _floating(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forward(self: SymbolicFloat, other: Any) -> Any:
        return _float(self.env, name, self, other) if isinstance(other, (int, float)) else NotImplemented

    def reflected(self: SymbolicFloat, other: Any) -> Any:
        return _float(self.env, name, other, self) if isinstance(other, (int, float)) else NotImplemented

    return forward, reflected


def _comparison(name: str) -> Callable[..., Any]:
    def compare(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return SymbolicBool(Relation(name, self.expr, expression_of(other)), self.env)

    return compare


for _word, _sign in {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}.items():
    for _kind, _made in ((SymbolicInt, _integer(_sign)), (SymbolicFloat, _floating(_sign))):
        setattr(_kind, f"__{_word}__", _made[0])
        setattr(_kind, f"__r{_word}__", _made[1])
for _word, _sign in {"truediv": "/", "pow": "**"}.items():
    SymbolicFloat_methods = _floating(_sign)
    setattr(SymbolicFloat, f"__{_word}__", SymbolicFloat_methods[0])
    setattr(SymbolicFloat, f"__r{_word}__", SymbolicFloat_methods[1])
for _word, _sign in {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    for _each in (SymbolicInt, SymbolicFloat):
        setattr(_each, f"__{_word}__", _comparison(_sign))


def chosen(name: str, a: Any, b: Any) -> Any:
    """``Max`` or ``Min`` of numbers of which one is symbolic."""
    env = (a if is_symbolic(a) else b).env
    parts = [expression_of(a), expression_of(b)]
    if any(isinstance(part, (Call, float)) for part in parts):
        expr = Call(name, *parts)
        return SymbolicFloat(expr.evaluate(env.hints), expr, env)
    return env.number(extreme(name, parts))


def square_root(a: Any) -> Any:
    """The square root of a symbolic number."""
    expr = Call("sqrt", expression_of(a))
    return SymbolicFloat(expr.evaluate(a.env.hints), expr, a.env)


def assumed(condition: SymbolicBool) -> bool:
    """``torch._check`` of a comparison: from now on it counts as true, unless it is false for the example."""
    return condition.env.assume(condition.relation)


def specialized(size: SymbolicInt) -> int:
    """The size of the example as a plain integer; a guard, if others are allowed."""
    value = int.__int__(size)
    size.env.decide(Relation("==", size.expr, value))
    return value


def integer_of(number: Any) -> Any:
    """A symbolic number as a symbolic integer."""
    return number if isinstance(number, SymbolicInt) else number.__trunc__()


def float_of(number: Any) -> Any:
    """A symbolic number as a symbolic float."""
    if isinstance(number, SymbolicFloat):
        return number
    return SymbolicFloat(int.__float__(number), Call("ToFloat", number.expr), number.env)
