"""Reductions over any dimensions.  What is done with an element is in ``reduction_rules``, the kernels are in ``reduction_kernels``.

Every input is seen as kept dimensions (o2, o1) and reduced ones (r2, r1), each with a stride in bytes, and possibly columns:

      rows                                   columns
      out[o] from x[o, r2, r1],              out[o, j] from x[o, r2, r1, j],
      neighbours along r1                    neighbours along j
      a register holds 16 elements of        a register holds one element of each of 16 columns
      the row; lanes are folded at last

What is reduced to one result is cut into pieces of ``r2`` and ``r1`` by its length alone, so that the same bits come out for any number of
threads.  A chunk of work is a group of short rows, or one piece of a long one, whose state goes to scratch memory for ``join_pieces``.
Layouts that do not fit are copied to rows first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ...core.shape import dims_to_sum
from ..compiler import target as targets
from ..compiler.language import ELEMENTS
from ..compiler.memory import empty
from .copies import merged
from .reduction_kernels import COLUMNS, join_pieces, memory_element, reduce_columns, reduce_rows
from .reduction_rules import RULES

_PIECE = 1 << 16  # elements: 256 KB of float32, which stay in the second cache from sweep to sweep
_SHORT = 16  # rows of fewer elements are taken side by side, one register for an element of each


# -- plans -----------------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Plan:
    """Execution plan for one kind of call: everything that does not depend on the data.

    Attributes:
        copy: order of dimensions to copy the input in first, if its layout does not fit.
        shape, outs: of the results; new: what makes arrays for them.
        first: the run over the input.
        last: what joins pieces, if there are any; scratch, elements: shape and types of their states.
    """

    copy: tuple[int, ...] | None
    shape: tuple[int, ...]
    outs: tuple[np.dtype, ...]
    new: Callable[..., np.ndarray]
    first: Callable[..., None]
    last: Callable[..., None] | None = None
    scratch: tuple[int, ...] = ()
    elements: tuple[np.dtype, ...] = ()


_plans: dict[Any, _Plan | None] = {}
_DTYPES = {element: dtype for dtype, element in ELEMENTS.items()}


def _two(dims: list[tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Exactly two dimensions."""
    padded = [(1, 0)] * (2 - len(dims)) + dims
    return padded[0], padded[1]


def _cut(n2: int, n1: int, room: int) -> tuple[int, int, int, int]:
    """(pieces, steps along r2, along r1, pieces along r1) for at most about ``room`` elements a piece."""
    room = max(room, n2 * n1 >> 10)  # few enough pieces to join them one after the other
    if n2 * n1 <= 2 * room:
        return 1, n2, n1, 1
    if n1 <= room:
        steps = max(1, room // n1)
        return -(-n2 // steps), steps, n1, 1
    steps = -(-n1 // -(-n1 // room))
    steps = min(n1, -(-steps // 64) * 64)
    along = -(-n1 // steps)
    return n2 * along, 1, steps, along


@dataclass(frozen=True, slots=True)
class _Layout:
    """Kept and reduced dimensions as (size, stride in bytes), and what a register holds.

    Attributes:
        way: ``rows``, ``columns`` that are neighbours, or ``spread`` columns, which are ``apart`` elements from each other.
    """

    way: Literal["rows", "columns", "spread"]
    kept: list[tuple[int, int]]
    reduced: list[tuple[int, int]]
    columns: int = 1
    apart: int = 1


def _layout(a: np.ndarray, dims: tuple[int, ...], ordered: bool) -> _Layout | None:
    """View of an array in one of the two layouts; None if it fits neither."""
    size = a.itemsize
    kept = merged([(a.shape[d], a.strides[d]) for d in range(a.ndim) if d not in dims])
    reduced = [(a.shape[d], a.strides[d]) for d in range(a.ndim) if d in dims]
    reduced = merged(reduced if ordered else sorted(reduced, key=lambda dim: -dim[1])) or [(1, size)]
    if len(reduced) > (1 if ordered else 2):
        return None
    long = reduced[-1][0] > _SHORT or (len(reduced) == 1 and not _can_spread(kept, size))
    if reduced[-1][1] == size and len(kept) <= 2 and long:
        return _Layout("rows", kept, reduced)
    if not kept or len(kept) > 3:
        return None
    columns, apart = kept[-1]
    if apart == size:
        return _Layout("columns", kept[:-1], reduced, columns)
    if _can_spread(kept, size) and (reduced[-1][0] <= _SHORT or apart < reduced[-1][1]):
        return _Layout("spread", kept[:-1], reduced, columns, apart // size)
    return None


def _can_spread(kept: list[tuple[int, int]], size: int) -> bool:
    """Whether the last kept dimension makes columns that are not neighbours: enough for a register, apart by whole elements.

    An expanded dimension, whose stride is 0, makes none: all its columns are one.
    """
    return bool(kept) and kept[-1][0] >= 16 and kept[-1][1] > 0 and kept[-1][1] % size == 0


def _make_plan(name: str, a: np.ndarray, dims: tuple[int, ...], keepdim: bool, outs: tuple[str, ...], parameter: float) -> _Plan:
    element, size = ELEMENTS[a.dtype], a.itemsize
    rule = RULES[name](element)
    shape = tuple(1 if d in dims else n for d, n in enumerate(a.shape) if keepdim or d not in dims)
    copy, layout = None, _layout(a, dims, name in _ORDERED)
    if layout is None:
        copy = tuple(d for d in range(a.ndim) if d not in dims) + tuple(d for d in range(a.ndim) if d in dims)
        n = math.prod(a.shape[d] for d in dims)
        layout = _Layout("rows", merged([(a.size // n, n * size)]), [(n, size)])
    columns = layout.columns
    (no2, so2), (no1, so1) = _two(layout.kept)
    (n2, sr2), (n1, sr1) = _two(layout.reduced)
    across = min(columns, COLUMNS)
    blocks = -(-columns // across)
    room = _PIECE // rule.weight
    pieces, *steps = _cut(n2, n1, max(1, room // across))
    units = no2 * no1 * pieces * blocks
    new = np.empty if math.prod(shape) < 1024 else empty  # numpy's own is quicker, memory's spares page faults
    group = max(1, room // (steps[0] * steps[1] * across)) if pieces == 1 else 1
    integers = (units, group, pieces, no1, so2, so1, sr2)
    extent = (n2, n1, *steps)
    out_dtypes = tuple(_DTYPES[out] for out in outs)
    states = tuple(_DTYPES[memory_element(state)] for state in rule.state)
    if layout.way == "rows":
        across_them: tuple[int, ...] = ()
        sweep = reduce_rows(name, element, outs, pieces == 1)
    else:
        across_them = (sr1, columns, across, blocks, layout.apart)
        sweep = reduce_columns(name, element, outs, pieces == 1, layout.way == "spread")
    first = sweep.call(-(-units // group), *integers, *across_them, *extent, parameter)
    if pieces == 1:
        return _Plan(copy, shape, out_dtypes, new, first)
    last = join_pieces(name, element, outs, layout.way != "rows").call(no2 * no1, pieces, columns, *extent, parameter)
    return _Plan(copy, shape, out_dtypes, new, first, last, (no2 * no1, pieces, columns), states)


def _plan_for(name: str, a: np.ndarray, dims: Any, keepdim: bool, dtype: Any, parameter: float) -> _Plan | None:
    """The plan of a call whose arguments are as the user gave them; None for what the reference must do or explain."""
    element, ndim = ELEMENTS.get(a.dtype, ""), a.ndim
    if element == "f16" and not targets.current().has_halves:
        return None
    if element not in _TAKES.get(name, _NUMBERS) or not a.size or keepdim.__class__ is not bool:
        return None
    if dtype is not None and dtype.numpy != a.dtype:
        return None
    if dims is None or dims == ():
        wrapped = tuple(range(ndim))
    else:
        listed = dims if dims.__class__ is tuple else (dims,)
        if not all(d.__class__ is int and -ndim <= d < ndim for d in listed):
            return None
        wrapped = tuple(sorted(d % ndim for d in listed))
    if len(set(wrapped)) < len(wrapped):
        return None
    if name in _ORDERED and (math.prod(a.shape[d] for d in wrapped) >= 1 << 31 or (len(wrapped) > 1 and not a.flags.c_contiguous)):
        return None
    outs = _GIVES.get(name, lambda element: (element,))(element)
    if name in _TO_LONG and element not in _FLOATS and dtype is None:
        outs = ("i64",)
    return _make_plan(name, a, wrapped, keepdim, outs, parameter)


def reduce(name: str, a: np.ndarray, dims: Any = None, keepdim: bool = False, dtype: Any = None, parameter: float = 0.0) -> Any:
    """The results of rule ``name`` over ``dims`` (a tuple where there are several); None if it is not for these operands."""
    key = (name, a.dtype, a.shape, a.strides, dims.__class__, dims, keepdim, dtype, parameter)
    try:
        plan = _plans[key]
    except KeyError:
        if len(_plans) > 4096:
            _plans.clear()
        plan = _plans[key] = _plan_for(name, a, dims, keepdim, dtype, parameter)
    except TypeError:  # a list of dimensions
        return reduce(name, a, tuple(dims), keepdim, dtype, parameter) if dims.__class__ is list else None
    if plan is None:
        return None
    if plan.copy is not None:
        a = contiguous(a.transpose(plan.copy))
    if len(plan.outs) == 1:
        outputs = result = plan.new(plan.shape, plan.outs[0])
        if plan.last is None:
            plan.first(a, result)
            return result
        results: tuple[np.ndarray, ...] = (result,)
    else:
        outputs = results = tuple([plan.new(plan.shape, out) for out in plan.outs])
    if plan.last is None:
        plan.first(a, *results)
    else:
        states = [empty(plan.scratch, state_dtype) for state_dtype in plan.elements]
        plan.first(a, *states)
        plan.last(*states, *results)
    return outputs


# -- operations --------------------------------------------------------------------------------------------------------------------------
_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_NUMBERS = _FLOATS | {"i8", "i16", "i32", "i64", "u8", "b8"}
_ORDERED = frozenset({"argmax", "argmin", "max", "min"})  # which of the elements comes first matters
_TO_LONG = frozenset({"sum", "nansum", "prod"})  # of integers

# Element types that a rule takes, and those of its results; where a rule is not named, all of them and the input's.
_TAKES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("mean", "var", "std", "norm 0", "norm 1", "norm 2", "norm inf", "norm -inf"), _FLOATS),
    **dict.fromkeys(("argmax", "argmin", "max", "min", "aminmax"), _NUMBERS - {"b8"}),
    "norm p": _FLOATS - {"f64"},  # exp(p * log(x)) in float64 is exact enough for narrower types
    "logsumexp": frozenset({"f32", "f64"}),
}
_GIVES: dict[str, Callable[[str], tuple[str, ...]]] = {
    "aminmax": lambda element: (element, element),
    "max": lambda element: (element, "i64"),
    "min": lambda element: (element, "i64"),
    **dict.fromkeys(("argmax", "argmin", "count"), lambda element: ("i64",)),
    **dict.fromkeys(("any", "all"), lambda element: ("u8" if element == "u8" else "b8",)),
}


# Each operation that is ``rule(input, dim, keepdim)`` or nearly so.
def _spread(rule: str) -> Any:
    def spread(input: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
        made = reduce(rule, input, dim, keepdim, None, float(correction))
        # NaN may be a sum beyond float32's largest number, which the reference has in float64
        return None if made is None or np.isnan(made).any() else made

    return spread


def _truth(rule: str) -> Any:  # no dimensions are none here, not all
    return lambda input, dim=None, keepdim=False: None if dim == () or dim == [] else reduce(rule, input, dim, keepdim)


@native("_sum_to_size")
def sum_to_size(input: np.ndarray, shape: Sequence[int]) -> Any:
    dims = dims_to_sum(input.shape, shape)
    total = reduce("sum", input, dims) if dims else None
    return total if total is None or total.shape == shape else total.reshape(shape)


_NAMES = {"amax": ("amax", "_max_of_all"), "amin": ("amin", "_min_of_all"), "max": ("_max_along",), "min": ("_min_along",)}
_NAMES["count"] = ("count_nonzero",)
for _rule in "sum nansum prod mean amax amin aminmax argmax argmin max min count logsumexp".split():
    native(*_NAMES.get(_rule, (_rule,)))(partial(reduce, _rule))
for _rule in "var", "std":
    native(f"_{_rule}")(_spread(_rule))
for _rule in "any", "all":
    native(_rule)(_truth(_rule))
_NORMS = {0.0: "norm 0", 1.0: "norm 1", 2.0: "norm 2", math.inf: "norm inf", -math.inf: "norm -inf"}


@native("linalg.vector_norm")
def vector_norm(x: np.ndarray, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if (ord.__class__ is not float and ord.__class__ is not int) or ord != ord:
        return None
    return reduce(_NORMS.get(ord, "norm p"), x, dim, keepdim, dtype, float(ord))
