"""From an update rule to passes over NumPy's arrays: one ufunc each, which writes into the parameter, its state or a shared scratch.

The rule is run once on symbols, which write down what it computes; then each value gets a place:

    rule      average = average * kept + grad * taken        passes    multiply(x2, n0, out=s0)
              param = param + average * step_size                      multiply(x1, n1, out=s1)
                                                                       add(s0, s1, out=x2)
                                                                       multiply(x2, n2, out=s1)
                                                                       add(x0, s1, out=x0)

A result is written to its target unless what the target holds is still needed; other values share as few scratches as possible.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class Symbol(NDArrayOperatorsMixin):
    """Stands for an array of a rule, or for one of its numbers."""

    def __init__(self, steps: list[Step], name: str, is_number: bool):
        self.steps, self.name, self.is_number = steps, name, is_number

    def __array_ufunc__(self, function: Any, method: str, *operands: Any) -> Symbol:
        return self._applied(function, operands)

    def __array_function__(self, function: Any, types: Any, operands: Any, named: Any) -> Symbol:
        return self._applied(function, operands)

    def _applied(self, function: Any, operands: Any) -> Symbol:
        symbol = Symbol(self.steps, f"v{len(self.steps)}", all(not isinstance(value, Symbol) or value.is_number for value in operands))
        self.steps.append(Step(symbol.name, function, operands, symbol.is_number))
        return symbol


class Step(NamedTuple):
    """``name = function(*operands)``."""

    name: str
    function: Any
    operands: tuple[Any, ...]
    is_number: bool

    @property
    def has_place(self) -> bool:
        """Whether the value can be written to a given array (``out=``)."""
        return not self.is_number and isinstance(self.function, np.ufunc)


class Passes(NamedTuple):
    """``run(*arrays, *numbers, *scratches)`` updates parameter and state, the arrays but the second, in place."""

    run: Callable[..., None]
    scratches: int
    source: str


@lru_cache(maxsize=256)
def passes_of(form: Any, entries: int) -> Passes:
    """The passes of a rule for a parameter with that many state entries."""
    steps: list[Step] = []
    arrays = [f"x{i}" for i in range(2 + entries)]
    numbers = [f"n{i}" for i in range(len(form.names))]
    results = form.on_arrays([Symbol(steps, name, False) for name in arrays], [Symbol(steps, name, True) for name in numbers])
    targets = [arrays[0], *arrays[2:]]
    wanted = {result.name: target for target, result in zip(targets, results, strict=True)}
    last = {operand.name: i for i, step in enumerate(steps) for operand in step.operands if isinstance(operand, Symbol)}
    last.update(dict.fromkeys(wanted, len(steps)))

    places: dict[str, str] = {}
    free: list[str] = []
    scope: dict[str, Any] = {"copyto": np.copyto}
    lines, scratches = [], 0
    for i, step in enumerate(steps):
        operands = [places.get(operand.name, operand.name) if isinstance(operand, Symbol) else repr(operand) for operand in step.operands]
        ending = {operand.name for operand in step.operands if isinstance(operand, Symbol) and last[operand.name] == i}
        free += [places[name] for name in sorted(ending) if places.get(name, "x")[0] == "s"]
        call = f"{step.function.__name__}({', '.join(operands)}"
        scope[step.function.__name__] = step.function
        if not step.has_place:
            lines.append(f"{step.name} = {call})")
            continue
        target = wanted.get(step.name)
        if target is not None and last.get(target, -1) <= i:
            place = target
        else:
            if not free:
                free.append(f"s{scratches}")
                scratches += 1
            place = free.pop()
        places[step.name] = place
        lines.append(f"{call}, out={place})")
    moves = [(target, places.get(result.name, result.name)) for target, result in zip(targets, results, strict=True)]
    old = [place for target, place in moves if place != target and place in targets and place not in places.values()]
    lines += [f"old_{place} = {place}.copy()" for place in old]  # a copy below may come before it is read
    lines += [f"copyto({target}, {'old_' * (place in old)}{place})" for target, place in moves if place != target]
    parameters = [*arrays, *numbers, *(f"s{i}" for i in range(scratches))]
    source = f"def run({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])
    exec(source, scope)
    return Passes(scope["run"], scratches, source)
