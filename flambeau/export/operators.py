"""Functions that exported graphs call beside operations, and their names in files."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ..core import checks

_OF_OPERATOR = "add sub mul floordiv truediv mod pow neg pos eq ne lt le gt ge and_ or_ lshift rshift getitem"
_OF_TORCH = ("sym_not", "sym_max", "sym_min", "sym_float", "sym_int", "sym_sqrt", "sym_ite", "sym_sum")
OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"_operator.{name}": getattr(operator, name) for name in _OF_OPERATOR.split()},
    **{f"torch.{name}": getattr(checks, name) for name in _OF_TORCH},
    **{f"math.{name}": getattr(math, name) for name in ("trunc", "floor", "ceil")},
}
NAMES = {function: name for name, function in OPERATORS.items()}
GETITEM = operator.getitem
