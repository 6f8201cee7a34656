"""The table of rules from which ``reduction.py`` makes kernels: the state and the steps of each reduction.

A reduction runs once (``Sweep``) or twice over a piece of the input, which lies in cache the second time.  Sums of float32 are kept in
float32 for ``BLOCK`` elements a lane and in float64 beyond, so that their error does not grow with their length; variances and
logsumexps look for the centre first and then at the distances from it, and pieces are combined as Chan, Golub and LeVeque (1983) do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..compiler.language import Builder, Value, register_element
from ..mathematics import vectors

BLOCK = 32  # elements that one lane adds up in the narrow type

State = tuple[Value, ...]


@dataclass(frozen=True)
class Sweep:
    """One run over the elements.

    Attributes:
        elements: types of the accumulators of one lane; ``start``: their first values.
        totals: the element types that accumulators are merged in after each block.
        step: the accumulators ``(k, state, x, position)`` after element ``x``, whose index ``position`` gives, in an element type.
        merge: two states ``(k, a, b)`` as one.
        block: steps of a lane until its accumulators are merged into the totals; 0 where that loses nothing and both are the same.
        fold: all lanes of a state as one, where there is a quicker way than merging halves.
    """

    elements: tuple[str, ...]
    start: tuple[float, ...]
    totals: tuple[str, ...]
    step: Callable[[Builder, State, Value, Callable[[str], Value]], State]
    merge: Callable[[Builder, State, State], State]
    block: int = 0
    fold: Callable[[Builder, State], State] | None = None


@dataclass(frozen=True)
class Rule:
    """A reduction of elements of one type.

    Attributes:
        sweep: the first run.
        state: element types of what describes a piece.
        finish: results, from the whole's state, its number of elements and a parameter (both float64).
        join: the states of two pieces and their numbers of elements, as one state.
        centre: what the second run needs, from the first one's totals, the number of elements and the parameter.
        second: the run that follows, if any, from the centre; its element types do not depend on that.
        piece: the state, from both runs' totals and the number of elements.
        weight: cost of an element, in additions.
        guess: a quicker run over rows in place of ``sweep``, if ``trust`` finds its totals good; further ones may follow ``sweep``'s.
    """

    sweep: Sweep
    state: tuple[str, ...]
    finish: Callable[[Builder, State, Value, Value], State]
    join: Callable[[Builder, State, State, Value, Value], State]
    centre: Callable[[Builder, State, Value, Value], State] | None = None
    second: Callable[[State], Sweep] | None = None
    piece: Callable[[Builder, State, State, Value], State] | None = None
    weight: int = 1
    guess: Sweep | None = None
    trust: Callable[[Builder, State], Value] | None = None


def _simple(sweep: Sweep, finish: Callable[[Builder, State, Value, Value], State] | None = None) -> Rule:
    """A rule of one run."""
    return Rule(sweep, sweep.totals, finish or (lambda k, s, n, p: s), lambda k, a, b, m, n: sweep.merge(k, a, b))


# -- sums and products -------------------------------------------------------------------------------------------------------------
def _narrow(element: str) -> str:
    """Type in which a lane accumulates elements of a type."""
    element = register_element(element)
    return element if element in ("f32", "f64") else "i64" if element in ("i32", "i64") else "i32"


def _plus(k: Builder, a: State, b: State) -> State:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def adding(element: str, term: Callable[[Builder, Value], Value] | None = None, narrow: str = "") -> Sweep:
    """The sweep that sums ``term(k, x)``, or ``x``, in ``narrow`` and then in 64 bits."""
    narrow = narrow or _narrow(element)
    wide = "f64" if narrow[0] == "f" else "i64"

    def step(k: Builder, state: State, x: Value, position: Any) -> State:
        x = k.cast(x, narrow)
        return (state[0] + (x if term is None else term(k, x)),)

    return Sweep((narrow,), (0,), (wide,), step, _plus, 0 if narrow == "i64" else BLOCK)


def _sum(element: str) -> Rule:
    return _simple(adding(element))


def _mean(element: str) -> Rule:
    return _simple(adding(element), lambda k, s, n, p: (s[0] / n,))


def _nansum(element: str) -> Rule:
    return _simple(adding(element, lambda k, x: k.select(x.is_nan(), 0.0, x) if x.is_float else x))


def _prod(element: str) -> Rule:
    narrow = register_element(element) if element[-2:] != "b8" and element[0] in "fb" else "i64"
    wide = "f64" if narrow[0] == "f" else "i64"

    def times(k: Builder, a: State, b: State) -> State:
        return (a[0] * b[0],)

    sweep = Sweep((narrow,), (1,), (wide,), lambda k, s, x, at: (s[0] * k.cast(x, narrow),), times, BLOCK if narrow[0] == "f" else 0)
    return _simple(sweep)


def _count(element: str) -> Rule:
    def step(k: Builder, state: State, x: Value, position: Any) -> State:
        return (state[0] + k.cast(k.cast(x, "b1"), "i32"),)

    return _simple(Sweep(("i32",), (0,), ("i64",), step, _plus, 1 << 20))


# -- extrema and truth -------------------------------------------------------------------------------------------------------------
def ends(element: str) -> tuple[float, float]:
    """The number below all others, and the one above."""
    if element[0] == "f":
        return -math.inf, math.inf
    sign, bits = element[0] == "i", int(element[1:])
    return -sign << bits - 1, (1 << bits - sign) - 1


def _truth(name: str, element: str) -> Rule:
    def either(k: Builder, a: State, b: State) -> State:
        return (a[0] | b[0] if name == "any" else a[0] & b[0],)

    return _simple(Sweep(("b1",), (name == "all",), ("b1",), lambda k, s, x, at: either(k, s, (k.cast(x, "b1"),)), either))


def _extremes(wanted: tuple[str, ...], element: str, size: bool = False) -> Rule:
    """``wanted`` are "maximum" and "minimum"; of absolute values if ``size``."""
    value = register_element(element)
    if value == "b1":
        return _truth("any" if wanted == ("maximum",) else "all", element)
    start = tuple(ends(value)[name == "minimum"] for name in wanted)

    def merge(k: Builder, a: State, b: State) -> State:
        return tuple(getattr(k, name)(x, y) for name, x, y in zip(wanted, a, b, strict=True))

    def step(k: Builder, state: State, x: Value, position: Any) -> State:
        x = k.cast(x, value)
        return merge(k, (k.abs(x) if size else x,) * len(wanted), state)  # this way round the accumulator waits for one instruction

    elements = (value,) * len(wanted)
    rule = _simple(Sweep(elements, start, elements, step, merge))
    if value[0] != "f":
        return rule

    # Rows first by plain comparisons, which lose NaN, and a sum that does not: half the instructions
    def plain(k: Builder, a: State, b: State) -> State:
        return tuple((k.most if name == "maximum" else k.least)(x, y) for name, x, y in zip(wanted, a, b, strict=False))

    def quick(k: Builder, state: State, x: Value, position: Any) -> State:
        x = k.abs(x) if size else x
        return (*plain(k, (x,) * len(wanted), state), state[-1] + x)

    def fold(k: Builder, state: State) -> State:
        def better(i: int) -> Any:
            return lambda a, b: plain(k, (a,) * len(wanted), (b,) * len(wanted))[i]

        best = [k.fold(v, better(i)) for i, v in enumerate(state[:-1])]
        return (*best, k.select(k.any(state[-1].is_nan()), math.nan, k.const(0, value)))

    guess = Sweep((*elements, value), (*start, 0), (*elements, value), quick, lambda k, a, b: (*plain(k, a, b), a[-1] + b[-1]), 0, fold)
    return replace(rule, guess=guess, trust=lambda k, state: ~state[-1].is_nan())


def _beats(k: Builder, x: Value, y: Value, largest: bool) -> Value:
    """Whether ``x`` comes before ``y``; a NaN before everything but another."""
    if not x.is_float:
        return x > y if largest else x < y
    order = "ugt" if largest else "ult"  # true of NaN
    x, y = k.pair(x, y)
    return k.emit(f"fcmp {order} {x.type} {x.text}, {y.text}", "b1", x.lanes) & ~y.is_nan()


def _extreme_place(largest: bool, with_value: bool, element: str) -> Rule:
    """The extremum and the first place where it is.

    Lanes start at the value that nothing beats last and place 0, which is the answer where all elements have that value.
    """
    value = register_element(element) if element[0] in "fb" or element == "i64" else "i32"
    index = "i64" if value in ("f64", "i64") else "i32"

    def step(k: Builder, state: State, x: Value, position: Callable[[str], Value]) -> State:
        x = k.cast(x, value)
        better = _beats(k, x, state[0], largest)
        return k.select(better, x, state[0]), k.select(better, position(index), state[1])

    def merge(k: Builder, a: State, b: State) -> State:
        better = _beats(k, b[0], a[0], largest) | (~_beats(k, a[0], b[0], largest) & (b[1] < a[1]))
        return k.select(better, b[0], a[0]), k.select(better, b[1], a[1])

    def finish(k: Builder, state: State, count: Value, parameter: Value) -> State:
        return state if with_value else state[1:]

    elements = (value, index)
    return _simple(Sweep(elements, (ends(value)[not largest], 0), elements, step, merge), finish)


# -- norms -------------------------------------------------------------------------------------------------------------------------
def _norm_1(element: str) -> Rule:
    return _simple(adding(element, lambda k, x: k.abs(x)))


def _norm_2(element: str) -> Rule:
    """Squares in float64, as those of float32 overflow above 1.8e19; first in float32, whose sum shows whether some did, or vanished."""
    square = lambda k, x: x * x  # noqa: E731
    rule = _simple(adding(element, square, "f64"), lambda k, s, n, p: (k.sqrt(s[0]),))
    if element == "f64":
        return rule
    return replace(rule, guess=adding(element, square), trust=lambda k, s: (s[0] > 1e-25) & (s[0] < math.inf))


def _power(k: Builder, x: Value, exponent: Value) -> Value:
    return vectors.exp(k, vectors.log(k, x) * exponent)


def _norm_p(element: str) -> Rule:
    none = Sweep((), (), (), lambda k, s, x, at: (), lambda k, a, b: ())  # only second runs know the parameter
    return Rule(
        none,
        ("f64",),
        finish=lambda k, s, n, p: (_power(k, s[0], 1.0 / p),),
        join=lambda k, a, b, m, n: _plus(k, a, b),
        centre=lambda k, s, n, p: (p,),
        second=lambda centre: adding(element, lambda k, x: _power(k, k.abs(x), centre[0]), "f64"),
        piece=lambda k, first, then, n: then,
        weight=16,
    )


# -- variance ------------------------------------------------------------------------------------------------------------------------
def _variance(root: bool, element: str) -> Rule:
    """State: mean, and the sum of squares of the distances from it."""

    def second(centre: State) -> Sweep:
        def step(k: Builder, s: State, x: Value, position: Any) -> State:
            d = k.cast(x, "f64") - centre[0]
            return s[0] + d, k.fma(d, d, s[1])

        return Sweep(("f64", "f64"), (0, 0), ("f64", "f64"), step, _plus, BLOCK)

    def centre(k: Builder, first: State, count: Value, parameter: Value) -> State:
        return (first[0] / count,)

    def piece(k: Builder, first: State, then: State, count: Value) -> State:
        rest = then[0] / count  # what rounding left of the distances' sum
        spread = then[1] - then[0] * rest
        # Of equal elements that is rounding alone, where 0 is right: a derivative divides by its root. One that differs is far more.
        return first[0] / count + rest, k.select(spread <= then[1] * 2.0**-40, 0.0, spread)

    def join(k: Builder, a: State, b: State, m: Value, n: Value) -> State:
        share = n / (m + n)
        d = b[0] - a[0]
        return k.fma(d, share, a[0]), a[1] + b[1] + d * d * (m * share)

    def finish(k: Builder, state: State, count: Value, correction: Value) -> State:
        variance = state[1] / k.most(count - correction, 0.0)
        return (k.sqrt(variance) if root else variance,)

    return Rule(adding(element), ("f64", "f64"), finish, join, centre, second, piece, 4)


# -- logsumexp ------------------------------------------------------------------------------------------------------------------------
def _logsumexp(element: str) -> Rule:
    """State: the largest element, and the sum of exponentials of the distances from it."""
    value = register_element(element)

    def centre(k: Builder, first: State, count: Value, parameter: Value) -> State:
        return (k.select(k.abs(first[0]).eq(math.inf), 0.0, first[0]),)  # inf - inf would be NaN

    def second(centre: State) -> Sweep:
        return adding(element, lambda k, x: vectors.exp(k, x - centre[0]))

    def join(k: Builder, a: State, b: State, m: Value, n: Value) -> State:
        top = k.maximum(a[0], b[0])
        parts = [s[1] * k.select(s[0].eq(top), 1.0, vectors.exp(k, k.cast(s[0] - top, "f64"))) for s in (a, b)]
        return top, parts[0] + parts[1]

    def finish(k: Builder, state: State, count: Value, parameter: Value) -> State:
        return (vectors.log(k, k.cast(state[1], value)) + state[0],)

    def piece(k: Builder, first: State, then: State, count: Value) -> State:
        return first[0], then[0]

    return Rule(_extremes(("maximum",), element).sweep, (value, "f64"), finish, join, centre, second, piece, 4)


RULES: dict[str, Callable[[str], Rule]] = {
    "sum": _sum,
    "mean": _mean,
    "nansum": _nansum,
    "prod": _prod,
    "count": _count,
    "any": partial(_truth, "any"),
    "all": partial(_truth, "all"),
    "amax": partial(_extremes, ("maximum",)),
    "amin": partial(_extremes, ("minimum",)),
    "aminmax": partial(_extremes, ("minimum", "maximum")),
    "argmax": partial(_extreme_place, True, False),
    "argmin": partial(_extreme_place, False, False),
    "max": partial(_extreme_place, True, True),
    "min": partial(_extreme_place, False, True),
    "norm 0": _count,
    "norm 1": _norm_1,
    "norm 2": _norm_2,
    "norm p": _norm_p,
    "norm inf": partial(_extremes, ("maximum",), size=True),
    "norm -inf": partial(_extremes, ("minimum",), size=True),
    "var": partial(_variance, False),
    "std": partial(_variance, True),
    "logsumexp": _logsumexp,
}
