"""Integer expressions over named sizes: polynomials whose atoms are symbols and what is no polynomial (``s0 // 2``, ``Max(s0, 4)``).

Equal expressions are equal objects in the sense of ``==``, because a polynomial has one normal form: a sum of products, like terms
collected. That is what tells that ``(s0 + 1) * 2 - 2`` and ``2 * s0`` are one size.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Atom = Any  # a symbol's name, or a ``Call``
Monomial = tuple[tuple[Atom, int], ...]  # atoms and their powers, in order


def _order(atom: Atom) -> tuple[int, str]:
    return (atom.__class__ is not str, str(atom))


_MOST_BITS = 1 << 14  # of a power of a size


def _power(base: Any, exponent: Any) -> Any:
    """A power. An integer one is a size, or part of one, and fits.

    Raises:
        OverflowError: it is too large by far, and would take very long.
    """
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 1 and base.bit_length() * exponent > _MOST_BITS:
        raise OverflowError(f"the {exponent}-th power of a size is too large")
    return base**exponent


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "//": operator.floordiv,
    "%": operator.mod,
    "/": operator.truediv,
    "**": operator.pow,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **ARITHMETIC,
    "**": _power,
    "Max": max,
    "Min": min,
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "ToFloat": float,
    "Abs": abs,
}


class Call:
    """A function of expressions that is no polynomial; a float one is never part of a polynomial.

    Attributes:
        name: a key of ``FUNCTIONS``. args: expressions and numbers.
    """

    __slots__ = ("_text", "args", "name")

    def __init__(self, name: str, *args: Any):
        self.name, self.args = name, args
        if name[0].isalpha():
            self._text = f"{name}({', '.join(map(str, args))})"
        else:
            left = _grouped(args[0]) if name == "**" or " " in str(args[0]) else args[0]
            self._text = f"({left} {name} {_grouped(args[1])})"
        if name == "//":
            self._text = "(" + "//".join([_grouped(arg) for arg in args]) + ")"

    def evaluate(self, values: Mapping[str, int]) -> Any:
        return FUNCTIONS[self.name](*[evaluate(arg, values) for arg in self.args])

    @property
    def symbols(self) -> set[str]:
        return set().union(*[symbols_of(arg) for arg in self.args])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.name == other.name and self.args == other.args

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def _grouped(value: Any) -> str:
    text = str(value)
    return f"({text})" if " " in text or "*" in text else text


class Expr:
    """A polynomial with integer coefficients.

    Example:
        >>> from flambeau.core.expressions import symbol
        >>> s = symbol("s0")
        >>> print((s + 1) * 2 - 2, (s * 4) // 2, (s + 3) // 2)
        2*s0 2*s0 ((s0 + 1)//2) + 1
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]):
        self.terms = {monomial: k for monomial, k in terms.items() if k}
        self._hash: int | None = None

    # ---- arithmetic
    def __add__(self, other: Any) -> Expr:
        terms = dict(self.terms)
        for monomial, k in as_expr(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + k
        return Expr(terms)

    def __neg__(self) -> Expr:
        return Expr({monomial: -k for monomial, k in self.terms.items()})

    def __sub__(self, other: Any) -> Expr:
        return self + -as_expr(other)

    def __mul__(self, other: Any) -> Expr:
        terms: dict[Monomial, int] = {}
        for a, k in self.terms.items():
            for b, m in as_expr(other).terms.items():
                product = _product(a, b)
                terms[product] = terms.get(product, 0) + k * m
        return Expr(terms)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Expr:
        return as_expr(other) - self

    def __pow__(self, power: int) -> Expr:
        result = as_expr(1)
        for _ in range(power):
            result = result * self
        return result

    def __floordiv__(self, other: Any) -> Expr:
        divisor = as_expr(other)
        exact = self.divided(divisor)
        if exact is not None:
            return exact
        if divisor.constant is None:
            return atom(Call("//", self, divisor))
        d = divisor.constant
        whole = Expr({monomial: k // d for monomial, k in self.terms.items()})  # floor(d*q + r over d) is q + floor(r over d)
        rest = self - whole * d
        if rest.constant is not None:
            return whole + rest.constant // d
        return whole + atom(Call("//", rest, divisor))

    def __mod__(self, other: Any) -> Expr:
        divisor = as_expr(other)
        if self.divided(divisor) is not None:
            return as_expr(0)
        if self.constant is not None and divisor.constant is not None:
            return as_expr(self.constant % divisor.constant)
        return atom(Call("%", self, divisor))

    def divided(self, divisor: Expr) -> Expr | None:
        """The quotient if there is one without a remainder, whatever the sizes."""
        if not self.terms or self == divisor:
            return as_expr(int(bool(self.terms)))
        if len(divisor.terms) != 1:
            return None
        (below, d), *_ = divisor.terms.items()
        powers, terms = dict(below), {}
        for monomial, k in self.terms.items():
            have = dict(monomial)
            if k % d or any(have.get(each, 0) < power for each, power in powers.items()):
                return None
            left = {each: power - powers.get(each, 0) for each, power in have.items()}
            terms[tuple([(each, power) for each, power in left.items() if power])] = k // d
        return Expr(terms)

    # ---- what it is
    @property
    def constant(self) -> int | None:
        """Its value, where it has no symbol."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def symbols(self) -> set[str]:
        found: set[str] = set()
        for monomial in self.terms:
            for each, _ in monomial:
                found |= {each} if each.__class__ is str else each.symbols
        return found

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Its value for sizes by name."""
        total = 0
        for monomial, k in self.terms.items():
            for each, power in monomial:
                value = values[each] if each.__class__ is str else each.evaluate(values)
                k *= value if power == 1 else _power(value, power)
            total += k
        return total

    def __eq__(self, other: object) -> bool:
        return self.terms == (other.terms if isinstance(other, Expr) else {(): other} if other else {})

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        shown = []
        for monomial, k in sorted(self.terms.items(), key=_degree):
            factors = [f"{each}" if power == 1 else f"{each}**{power}" for each, power in monomial]
            if not factors or abs(k) != 1:
                factors.insert(0, str(abs(k)))
            shown.append(("- " if k < 0 else "+ ") + "*".join(factors))
        text = " ".join(shown)
        return text.removeprefix("+ ") if text[0] == "+" else "-" + text.removeprefix("- ")

    __repr__ = __str__


def _degree(term: tuple[Monomial, int]) -> Any:
    """The place of a term in the text: those of more factors come first."""
    return -sum([power for _, power in term[0]]), [_order(each) for each, _ in term[0]]


def _product(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for each, power in b:
        powers[each] = powers.get(each, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: _order(item[0])))


def atom(each: Atom) -> Expr:
    """The polynomial that is one atom."""
    return Expr({((each, 1),): 1})


symbol = atom


def as_expr(value: Any) -> Expr:
    """An integer as an expression."""
    return value if isinstance(value, Expr) else Expr({(): int(value)})


def evaluate(value: Any, values: Mapping[str, int]) -> Any:
    """Value of an expression, a call or a number."""
    return value.evaluate(values) if isinstance(value, (Expr, Call)) else value


def symbols_of(value: Any) -> set[str]:
    """Names of the symbols in an expression, a call or a number."""
    return value.symbols if isinstance(value, (Expr, Call)) else set()


def extreme(name: str, args: Iterable[Any]) -> Any:
    """``Max`` or ``Min`` of expressions."""
    parts = list(args)
    if all(as_expr(part).constant is not None for part in parts):
        return as_expr(FUNCTIONS[name](*[as_expr(part).constant for part in parts]))
    return parts[0] if parts[0] == parts[1] else atom(Call(name, *parts))
