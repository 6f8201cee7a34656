"""Relations of sizes without which a call cannot be done: linear functions and sums of others, or the example's. It is found by trying."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

_FACTORS, _OTHERS = range(1, 9), (11, 17, 23, 29)  # what sizes are tried for that follow from others, and which these are


class Needed(NamedTuple):
    """Relations of symbols.

    Attributes:
        fixed: those that must be what they are in the example. equal: two, a factor and a shift: the second follows from the first.
        sums: one, others with factors, and a shift: the first is their sum.
    """

    fixed: set[str]
    equal: set[tuple[str, str, int, int]] = set()
    sums: set[tuple[str, tuple[tuple[str, int], ...], int]] = set()


class _Search:
    """Tries of sizes.

    Args:
        names: the symbols. hints: what they are in the example. can_be: whether a call can be done with other sizes of some.
    """

    def __init__(self, names: list[str], hints: Mapping[str, int], can_be: Callable[[dict[str, int]], bool]):
        self.names, self.hints, self.can_be = names, hints, can_be

    def shift(self, total: str, parts: tuple[str, ...]) -> int:
        """The excess of a size over the sum of others in the example."""
        return self.hints[total] - sum([self.hints[name] for name in parts])

    def totals(self, count: int) -> Iterator[tuple[str, tuple[str, ...], int]]:
        """Each symbol with ``count`` others of which it may be the sum, and the shift."""
        for total in self.names:
            for parts in itertools.combinations([name for name in self.names if name != total], count):
                if (shift := self.shift(total, parts)) >= 0:
                    yield total, parts, shift

    def sums(self) -> Needed | None:
        for count in (2, 3):
            for total, parts, shift in self.totals(count):
                tried = [dict(zip(parts, sizes, strict=True)) for sizes in itertools.permutations(_OTHERS, count)][:6]
                if all(self.can_be({**sizes, total: sum(sizes.values()) + shift}) for sizes in tried):
                    return Needed(set(), set(), {_sum(total, parts, shift)})
        return None

    def sums_beside_equals(self) -> Needed | None:
        """A sum, one part of which another symbol follows."""
        for total, parts, shift in self.totals(2):
            for first, other in itertools.product(parts, [name for name in self.names if name not in (total, *parts)]):
                apart = self.shift(other, (first,))
                rest = next(name for name in parts if name != first)
                tried = [{first: m, other: m + apart, rest: n, total: m + n + shift} for m, n in itertools.permutations(_OTHERS[:3], 2)]
                if apart >= 0 and all(self.can_be(sizes) for sizes in tried):
                    return Needed(set(), {(first, other, 1, apart)}, {_sum(total, parts, shift)})
        return None

    def pairs(self) -> Needed | None:
        for a, b in itertools.permutations(self.names, 2):
            for factor in _FACTORS:
                shift = self.hints[b] - factor * self.hints[a]
                tried = [n for n in _OTHERS if n != self.hints[a] and factor * n + shift > 1][:2]
                if (factor > 1 or shift >= 0) and all(self.can_be({a: n, b: factor * n + shift}) for n in tried):
                    return Needed(set(), {(a, b, factor, shift)})
        return None

    def all_with_each_other(self) -> Needed | None:
        first, *others = sorted(self.names, key=lambda name: self.hints[name])
        shifts = {name: self.shift(name, (first,)) for name in others}
        if all(self.can_be({first: n, **{name: n + shift for name, shift in shifts.items()}}) for n in _OTHERS):
            return Needed(set(), {(first, name, 1, shift) for name, shift in shifts.items()})
        return None


def _sum(total: str, parts: tuple[str, ...], shift: int) -> Any:
    return total, tuple([(name, 1) for name in parts]), shift


def needed(names: list[str], hints: Mapping[str, int], world: Mapping[str, int], can_be: Callable[[dict[str, int]], bool]) -> Needed:
    """The relations of symbols without which a call cannot be done.

    Args:
        names: the symbols. hints: what they are in the example. world: what they were where it could not be done.
        can_be: whether it can be done with other sizes of some.
    """
    fixed = [name for name in names if not can_be({name: world[name]})]
    search = _Search(fixed, hints, can_be)
    if len(fixed) > 2:  # before pairs, which hold too as long as a third size is the example's
        found = search.sums() or search.sums_beside_equals() or search.pairs() or search.all_with_each_other()
    else:
        found = search.pairs() if len(fixed) == 2 else None
    return found or Needed(set(fixed or names))
