"""Where flambeau is known to differ from PyTorch's database of operations, and why; see ``test_op_db``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """Known mismatches of one operation.

    Attributes:
        groups: groups of dtypes in which it shows.
        pattern: regular expression that finds these mismatches and no others.
        reason: why it is so.
    """

    groups: tuple[str, ...]
    pattern: str
    reason: str


GAPS: dict[str, tuple[Gap, ...]] = {}

# Results whose values are determined, by position, where some are not: signs or bases of vectors are the solver's choice.
VALUES_OF: dict[str, tuple[int, ...]] = {}

# (relative, absolute) tolerances by dtype where the usual ones are too strict.
LOOSE: dict[str, dict[str, tuple[float, float]]] = {}
