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

# Results whose values are determined, by position, where some are not: which of several equal elements is meant.
VALUES_OF: dict[str, tuple[int, ...]] = dict.fromkeys(("sort", "topk", "kthvalue", "median.reduction_with_dim", "mode"), (0,))
VALUES_OF["argsort"] = ()

# (relative, absolute) tolerances by dtype where the usual ones are too strict: sums of many products, in another order.
_SUMS = {"float32": (1e-4, 1e-4), "complex64": (1e-4, 1e-4), "bfloat16": (5e-2, 5e-2)}
LOOSE: dict[str, dict[str, tuple[float, float]]] = {
    **{f"nn.functional.conv{kind}{rank}d": _SUMS for kind in ("", "_transpose") for rank in (1, 2, 3)},
}
