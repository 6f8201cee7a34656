"""Sizes of a kernel's result as expressions, found from what they are for a few sizes of its arguments.

The kernel was run without values in every world. A size that is the same in all of them is a constant. Otherwise it is looked for among the
expressions that sizes of results are of: the sizes of the arguments themselves; linear functions of one; sums, products and quotients of
them; the ``(n + b) // s + c`` of windows. One that is none of these is refused, never guessed: all worlds have to agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..core.expressions import Expr, as_expr

_STRIDES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 32, 64)


def infer(env: Any, values: tuple[int, ...], candidates: Sequence[Expr]) -> Expr | None:
    """The expression that has these values in the environment's worlds; None where none is found.

    Args:
        env: a ``ShapeEnv``. values: a size in every world. candidates: sizes of arguments, without duplicates, and not constant.
    """
    if len(set(values)) == 1 and not any(len(set(env.values(expr))) == 1 for expr in candidates):
        return as_expr(values[0])
    for expr in candidates:
        if env.values(expr) == values:
            return expr
    if len(set(values)) == 1:
        return as_expr(values[0])
    for find in (_linear, _window, _sum, _product):
        found = find(env, values, candidates)
        if found is not None and env.values(found) == values:
            return found
    return None


def _linear(env: Any, values: tuple[int, ...], candidates: Sequence[Expr]) -> Expr | None:
    """``a * n + b``, or a quotient ``n * p // q`` that has no remainder."""
    for expr in candidates:
        have = env.values(expr)
        if have[1] == have[0]:
            continue
        slope = Fraction(values[1] - values[0], have[1] - have[0])
        shift = values[0] - slope * have[0]
        if any(slope * n + shift != value for n, value in zip(have, values, strict=True)):
            continue
        if slope.denominator == 1 and shift.denominator == 1:
            return expr * slope.numerator + shift.numerator
        if shift == 0:
            return (expr * slope.numerator) // slope.denominator
    return None


def _sum(env: Any, values: tuple[int, ...], candidates: Sequence[Expr]) -> Expr | None:
    """Sums and differences of two or three sizes and a number."""
    for count in (2, 3):
        for parts in itertools.combinations_with_replacement(candidates, count):
            for signs in itertools.product((1, -1), repeat=count):
                total = as_expr(0)
                for part, sign in zip(parts, signs, strict=True):
                    total = total + part * sign
                rest = {value - n for value, n in zip(values, env.values(total), strict=True)}
                if len(rest) == 1:
                    return total + rest.pop()
    return None


def _product(env: Any, values: tuple[int, ...], candidates: Sequence[Expr]) -> Expr | None:
    """``c * n * m``, and such a product by a third size."""
    for count in (2, 3):
        for parts in itertools.combinations_with_replacement(candidates, count):
            product = as_expr(1)
            for part in parts:
                product = product * part
            found = _multiple(env, values, product)
            if found is not None:
                return found
    for a, b in itertools.permutations(candidates, 2):
        found = _multiple(env, values, a // b)
        if found is not None:
            return found
        for c in candidates:
            found = _multiple(env, values, (a * c) // b)
            if found is not None:
                return found
    return None


def _multiple(env: Any, values: tuple[int, ...], expr: Expr) -> Expr | None:
    try:
        have = env.values(expr)
    except ZeroDivisionError:
        return None
    if 0 in have:
        return None
    factors = {Fraction(value, n) for value, n in zip(values, have, strict=True)}
    if len(factors) != 1:
        return None
    factor = factors.pop()
    return (expr * factor.numerator) // factor.denominator


def _window(env: Any, values: tuple[int, ...], candidates: Sequence[Expr]) -> Expr | None:
    """``a * ((n + b) // s) + c`` with ``0 <= b < s``."""
    for expr in candidates:
        have = env.values(expr)
        for stride in _STRIDES:
            for shift in range(stride):
                quotients = [(n + shift) // stride for n in have]
                if quotients[1] == quotients[0]:
                    continue
                factor = Fraction(values[1] - values[0], quotients[1] - quotients[0])
                rest = {value - factor * quotient for value, quotient in zip(values, quotients, strict=True)}
                if factor.denominator == 1 and len(rest) == 1:
                    return ((expr + shift) // stride) * factor.numerator + int(rest.pop())
    return None
