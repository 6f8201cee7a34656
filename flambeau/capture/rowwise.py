"""Groups with operations along rows: softmax, norms and sums of the last dimensions, with what is element by element around them.

A row operation is a *recipe*: which elements are computed from which, and what is reduced to one value of the row. The recipes and the
element-wise nodes of a group together are cut into passes over a row (``kernels/families/row_programs``):

    depth of an operand                     0
    depth of what is computed element-wise  the greatest of its operands'
    depth of what a row is reduced to       one more than the elements'

What has depth n is computed in pass n. Sizes of 1 in place of the row's dimensions make a value of the row, which is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.calls.interruption import pass_on
from ..core.calls.tables import Rules
from ..core.shape import contiguous_strides
from ..core.state import run_ignoring_fp
from ..kernels.compiler import target as targets
from ..kernels.compiler.build import NoKernel
from ..kernels.compiler.expression import Program, Untraceable, trace
from ..kernels.compiler.language import ELEMENTS, FLOATS, register_element
from ..kernels.families import pointwise
from ..kernels.families.row_programs import Pass, Place, row_program
from . import overwriting
from .elementwise import Layout, Run, computed, is_row_major, layout_of, wide_strides
from .graph import Node, Value
from .rules import launch_run

if TYPE_CHECKING:
    from .lowering import _Trial as Trial

SHORTEST = 16  # elements of a row: shorter ones are less than a register
LONGEST = 16 << 10  # bytes of a row: several of them fit the nearest cache
_ALONE = 16  # where there are no masks, one element at most in so many may lie behind the last whole register
ROOM = 48 << 10  # bytes of all that passes keep of a row
_CHUNK, _HEAVY_CHUNK = 32768, 8192  # elements, as of element-wise kernels


class Frame(NamedTuple):
    """The shape of the elements of a group's nodes, and the number of its last dimensions that are a row (0: none)."""

    shape: tuple[int, ...]
    row: int = 0

    @property
    def length(self) -> int:
        return math.prod(self.shape[len(self.shape) - self.row :])

    @property
    def reduced(self) -> tuple[int, ...]:
        """The shape of values of rows."""
        return self.shape[: len(self.shape) - self.row] + (1,) * self.row

    def joined(self, other: Frame) -> Frame | None:
        """The frame of nodes of both; None where they do not go together."""
        for a, b in ((self, other), (other, self)):
            if a.shape == b.shape and (a.row == b.row or not b.row):
                return a
            if a.row and not b.row and b.shape == a.reduced:
                return a
        return None


# -- recipes ------------------------------------------------------------------------------------------------------------------------------
class _Made:
    """Something that a recipe computes and that no value of the graph is."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype):
        self.dtype = dtype


class _Step(NamedTuple):
    """Elements, or values of the row: ``function(*args)`` on symbols."""

    depth: int
    function: Callable[..., Any]
    args: tuple[Any, ...]
    out: Any


class _Fold(NamedTuple):
    """A reduction of a row to one value."""

    depth: int
    kind: str
    arg: Any
    out: Any


class _Recipe:
    """Steps and reductions of a group, with their depths; recipes of operations write it."""

    def __init__(self, frame: Frame, inputs: Sequence[Value]):
        self.frame = frame
        self.depth: dict[Any, int] = dict.fromkeys(inputs, 0)
        self.is_row: dict[Any, bool] = {value: value.shape != frame.shape and self._is_fixed(value.shape) for value in inputs}
        self.steps: list[_Step] = []
        self.folds: list[_Fold] = []
        self.name: dict[Value, Any] = {}

    def _is_fixed(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape, broadcast, is the same all along a row."""
        return all(n == 1 for n in shape[max(len(shape) - self.frame.row, 0) :])

    def now(self, value: Any) -> Any:
        return self.name.get(value, value)

    def map(self, function: Callable[..., Any], *args: Any, out: Any = None) -> Any:
        args = tuple(map(self.now, args))
        out = _Made(args[0].dtype) if out is None else out
        self.depth[out] = max([self.depth[arg] for arg in args], default=0)
        self.is_row[out] = self._is_fixed(out.shape) if out.__class__ is Value else all(self.is_row[arg] for arg in args)
        self.steps.append(_Step(self.depth[out], function, args, out))
        return out

    def fold(self, kind: str, arg: Any) -> Any:
        arg = self.now(arg)
        out = _Made(arg.dtype)
        self.depth[out], self.is_row[out] = self.depth[arg] + 1, True
        self.folds.append(_Fold(self.depth[arg], kind, arg, out))
        return out

    def node(self, node: Node) -> None:
        """An element-wise node."""
        values = list(dict.fromkeys(node.inputs()))

        def function(*symbols: Any) -> Any:
            have = dict(zip(values, symbols, strict=True))
            made = computed(node, [have[arg].copy() if arg.__class__ is Value else arg for arg in node.args])
            if not hasattr(made, "writer") or made.dtype != node.outs[0].dtype:
                raise Untraceable("a result that the recording did not have")
            return made

        self.map(function, *values, out=node.outs[0])


def _softmax(r: _Recipe, node: Node) -> list[Any]:
    x = node.args[0]
    powers = r.map(lambda x, top: np.exp(x - top), x, r.fold("most", x))  # x - max: exp overflows above 88.7 in float32
    return [r.map(lambda power, share: power * share, powers, r.map(lambda total: 1 / total, r.fold("sum", powers)))]


def _log_softmax(r: _Recipe, node: Node) -> list[Any]:
    x = node.args[0]
    below = r.map(lambda x, top: x - top, x, r.fold("most", x))
    total = r.fold("sum", r.map(lambda x: np.exp(x), below))
    return [r.map(lambda x, spread: x - spread, below, r.map(lambda total: np.log(total), total))]


def _softmax_slope(r: _Recipe, node: Node) -> list[Any]:
    grad, output = node.args[:2]
    dot = r.fold("sum", r.map(lambda g, y: g * y, grad, output))
    return [r.map(lambda g, y, dot: (g - dot) * y, grad, output, dot)]


def _log_softmax_slope(r: _Recipe, node: Node) -> list[Any]:
    grad, output = node.args[:2]
    return [r.map(lambda g, y, total: g - np.exp(y) * total, grad, output, r.fold("sum", grad))]


def _scaled(r: _Recipe, x: Any, square: Any, eps: float, weight: Any, bias: Any) -> Any:
    x = r.map(lambda x, scale: x * scale, x, r.map(lambda square: 1 / np.sqrt(square + eps), square))
    x = x if weight is None else r.map(lambda x, weight: x * weight, x, weight)
    return x if bias is None else r.map(lambda x, bias: x + bias, x, bias)


def _mean(r: _Recipe, x: Any) -> Any:
    count = r.frame.length
    return r.map(lambda total: total / count, r.fold("sum", x))


def _layer_norm(r: _Recipe, node: Node) -> list[Any]:
    x, weight, bias = node.args[:3]
    mean = _mean(r, x)
    centred = r.map(lambda x, mean: x - mean, x, mean)
    variance = _mean(r, r.map(lambda x: x * x, centred))
    return [_scaled(r, centred, variance, node.args[6], weight, bias), mean, variance]


def _rms_norm(r: _Recipe, node: Node) -> list[Any]:
    x, weight = node.args[:2]
    square = _mean(r, r.map(lambda x: x * x, x))
    return [_scaled(r, x, square, node.args[3], weight, None), square]


def _spread(r: _Recipe, node: Node, root: bool = False) -> list[Any]:
    x, count = node.args[0], r.frame.length - node.args[2]
    centred = r.map(lambda x, mean: x - mean, x, _mean(r, x))
    total = r.fold("sum", r.map(lambda x: x * x, centred))
    return [r.map(lambda total: np.sqrt(total / count) if root else total / count, total)]


def _logsumexp(r: _Recipe, node: Node) -> list[Any]:
    x = node.args[0]
    top = r.map(lambda top: np.where(np.isinf(top), np.zeros((), top.dtype), top), r.fold("max", x))  # inf - inf would be NaN
    total = r.fold("sum", r.map(lambda x, top: np.exp(x - top), x, top))
    return [r.map(lambda total, top: np.log(total) + top, total, top)]


def _folded(kind: str, r: _Recipe, node: Node) -> list[Any]:
    return [r.fold(kind, node.args[0])]


# -- which nodes --------------------------------------------------------------------------------------------------------------------------
def _last(node: Node) -> int:
    """One, where an operation goes along the last dimension."""
    return int(node.args[1 if node.op.key in ("softmax", "log_softmax") else 2] in (-1, len(node.args[0].shape) - 1))


def _normalized(node: Node) -> int:
    """The number of last dimensions that a norm takes as one; 0 where it takes others."""
    x = node.args[0]
    if node.op.key == "nn.functional._layer_norm":
        (rows, length), axes = (node.args[3] if len(node.args[3]) == 2 else (0, 0)), tuple(node.args[4])
        if axes != (1,) or tuple(node.args[5]) != (1, length) or rows * length != x.size:
            return 0
        parameters = [part for part in node.args[1:3] if part is not None]
    else:
        length, parameters = node.args[2], [part for part in node.args[1:2] if part is not None]
    count = 1
    while count < len(x.shape) and math.prod(x.shape[len(x.shape) - count :]) < length:
        count += 1
    shape = x.shape[len(x.shape) - count :]
    return count if math.prod(shape) == length and all(part.shape == shape and part.dtype == x.dtype for part in parameters) else 0


def _reduced(node: Node) -> int:
    """The number of last dimensions that are reduced; 0 where others are."""
    x, dims = node.args[0], node.args[1]
    if node.op.key in _WITH_DTYPE and node.args[3] is not None and node.args[3].numpy != x.dtype:
        return 0
    dims = tuple(sorted(dim % len(x.shape) for dim in dims)) if dims.__class__ is tuple and x.shape else ()
    return len(dims) if dims and dims == tuple(range(len(x.shape) - len(dims), len(x.shape))) else 0


def _spread_over(node: Node) -> int:
    """The same of variances that are finite."""
    count, correction = _reduced(node), node.args[2]
    return count if isinstance(correction, int | float) and correction < math.prod(node.args[0].shape[-count:]) else 0


_WITH_DTYPE = frozenset(("sum", "mean"))
_ROWS = Rules("rows")  # of a node: how many of its last dimensions it goes along, 0 for other dimensions
_ROWS["softmax"] = _ROWS["log_softmax"] = _ROWS["_softmax_backward_data"] = _ROWS["_log_softmax_backward_data"] = _last
_ROWS["nn.functional._layer_norm"] = _ROWS["nn.functional._rms_norm"] = _normalized
_ROWS["sum"] = _ROWS["mean"] = _ROWS["amax"] = _ROWS["amin"] = _ROWS["logsumexp"] = _reduced
_ROWS["_var"] = _ROWS["_std"] = _spread_over

_RECIPES = Rules("recipe of rows")  # (recipe, node): writes what is computed, and returns the results
_RECIPES["softmax"], _RECIPES["log_softmax"] = _softmax, _log_softmax
_RECIPES["_softmax_backward_data"], _RECIPES["_log_softmax_backward_data"] = _softmax_slope, _log_softmax_slope
_RECIPES["nn.functional._layer_norm"], _RECIPES["nn.functional._rms_norm"] = _layer_norm, _rms_norm
_RECIPES["sum"], _RECIPES["amax"], _RECIPES["amin"] = partial(_folded, "sum"), partial(_folded, "max"), partial(_folded, "min")
_RECIPES["mean"] = lambda r, node: [_mean(r, node.args[0])]
_RECIPES["logsumexp"] = _logsumexp
_RECIPES["_var"], _RECIPES["_std"] = _spread, partial(_spread, root=True)


def frame_of(node: Node) -> Frame | None:
    """The frame of a row operation that has a kernel; None where it has none."""
    along = _ROWS.of(node.op) if node.kind == "op" else None
    if along is None:
        return None
    x = node.args[0]
    if x.__class__ is not Value or x.dtype not in FLOATS or any(value.dtype != x.dtype for value in (*node.inputs(), *node.outs)):
        return None
    if any(dtype is not None and dtype.numpy != x.dtype for dtype in node.dtypes):
        return None
    frame = Frame(x.shape, along(node))
    if not frame.row or not x.size or not _is_of_use(frame.length, x.dtype.itemsize):
        return None
    elements = [value for value in node.inputs() if value.shape == x.shape]
    return frame if len(elements) == 1 + node.op.key.endswith("_backward_data") and fits(node, frame) else None


def _is_of_use(length: int, itemsize: int) -> bool:
    """Whether rows are neither too short nor too long, nor have a large part that is computed one by one."""
    target = targets.current()
    lanes = target.width // itemsize
    return SHORTEST <= length <= LONGEST // itemsize and (target.has_masks or length % lanes <= length // _ALONE)


def fits(node: Node, frame: Frame) -> bool:
    """Whether operands and results of a node lie as the kernel wants them, whose group has this frame."""
    whole = [out for out in node.outs if out.shape == frame.shape]
    others = [out for out in node.outs if out.shape != frame.shape]
    if not all(is_row_major(out) for out in node.outs) or not all(_is_value_of_rows(out, frame) for out in others):
        return False
    return bool(whole or others) and all(_row_step(value, frame) is not None for value in node.inputs())


def _is_value_of_rows(value: Value, frame: Frame) -> bool:
    return value.size * frame.length == math.prod(frame.shape)


def _row_step(value: Value, frame: Frame) -> str | None:
    """The way in which an operand steps along a row: "c", "0", or None for any other."""
    layout = layout_of(value)
    if layout.dtype not in ELEMENTS or len(layout.shape) > len(frame.shape):
        return None
    strides = wide_strides(layout, frame.shape)[len(frame.shape) - frame.row :]
    row = frame.shape[len(frame.shape) - frame.row :]
    if not any(strides):
        return "0"
    steps = [step * layout.dtype.itemsize for step in contiguous_strides(row)]
    return "c" if all(n == 1 or step == stride for n, step, stride in zip(row, steps, strides, strict=True)) else None


# -- passes -------------------------------------------------------------------------------------------------------------------------------
class _Cut:
    """The passes of a group."""

    def __init__(self, recipe: _Recipe, inputs: Sequence[Value], outputs: Sequence[Value]):
        self.recipe = recipe
        self.passes: list[Pass] = []
        self.operand = {value: i for i, value in enumerate(inputs)}
        self.results: dict[Any, list[int]] = {}
        for i, value in enumerate(outputs):
            self.results.setdefault(recipe.now(value), []).append(i)
        self.number: dict[Any, int] = {}  # of values of the row
        self.kept: dict[Any, int] = {}
        self.used_last: dict[Any, int] = {}
        for step in recipe.steps:
            for arg in step.args:
                self.used_last[arg] = max(self.used_last.get(arg, 0), step.depth)
        for fold in recipe.folds:
            self.used_last[fold.arg] = max(self.used_last.get(fold.arg, 0), fold.depth)
        for depth in range(1 + max([fold.depth + 1 for fold in recipe.folds], default=0)):
            self.passes.append(self._pass(depth))

    def _pass(self, depth: int) -> Pass:
        recipe = self.recipe
        steps = [step for step in recipe.steps if step.depth == depth]
        rows, elements = [[step for step in steps if recipe.is_row[step.out] is is_row] for is_row in (True, False)]
        before, known = self._program(rows, [step.out for step in rows])
        for step in rows:
            self.number[step.out] = len(self.number)
        given = [(n, result) for key, n in self.number.items() if recipe.depth[key] == depth for result in self.results.get(key, ())]
        targets: list[Place] = []
        wanted: list[Any] = []
        for step in elements:
            places: list[Place] = [("result", i) for i in self.results.get(step.out, ())]
            if not places and self.used_last.get(step.out, 0) > depth:
                places = [("kept", self.kept.setdefault(step.out, len(self.kept)))]
            targets += places
            wanted += [step.out] * len(places)
        folds = [fold for fold in recipe.folds if fold.depth == depth]
        program, sources = self._program(elements, [*wanted, *[fold.arg for fold in folds]])
        for fold in folds:
            self.number[fold.out] = len(self.number)
        return Pass(before, known, tuple(given), program, sources, (*targets, *[(fold.kind, 0) for fold in folds]))

    def _program(self, steps: Sequence[_Step], wanted: Sequence[Any]) -> tuple[Program | None, tuple[Place, ...]]:
        """The program of some steps, and where its operands come from."""
        if not wanted:
            return None, ()
        made = {step.out for step in steps}
        needed = dict.fromkeys(arg for step in steps for arg in step.args if arg not in made)
        needed.update(dict.fromkeys(key for key in wanted if key not in made))

        def run(*symbols: Any) -> tuple[Any, ...]:
            have = dict(zip(needed, symbols, strict=True))
            for step in steps:
                have[step.out] = step.function(*[have[arg] for arg in step.args])
            return tuple([have[key] for key in wanted])

        program: Program = run_ignoring_fp(trace, run, list(needed), [key.dtype for key in needed])
        if program.nonzero:
            raise Untraceable("a division whose divisors are looked at first")
        return program, tuple(map(self._place, needed))

    def _place(self, key: Any) -> Place:
        if key in self.operand:
            return "operand", self.operand[key]
        if key in self.number:
            return "row", self.number[key]
        return ("kept", self.kept[key]) if key in self.kept else ("result", self.results[key][0])


def passes_of(nodes: Sequence[Node], frame: Frame, inputs: Sequence[Value], outputs: Sequence[Value]) -> tuple[tuple[Pass, ...], Any]:
    """The passes of a group from ``inputs`` to ``outputs``, and the dtypes of what they keep.

    Raises:
        Untraceable: there are none.
    """
    recipe = _Recipe(frame, inputs)
    for node in nodes:
        written = _RECIPES.of(node.op) if not node.op.elementwise else None
        if written is None:
            recipe.node(node)
        else:
            recipe.name.update(zip(node.outs, written(recipe, node), strict=True))
    cut = _Cut(recipe, inputs, outputs)
    return tuple(cut.passes), tuple([key.dtype for key in cut.kept])


# -- launches -----------------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1024)
def run_of(
    passes: tuple[Pass, ...], kept: tuple[np.dtype, ...], frame: Frame, inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]
) -> Run | None:
    """The launch of passes over arrays that lie so; None where there is no kernel for it."""
    split, length = len(frame.shape) - frame.row, frame.length
    lead = frame.shape[:split]
    layouts, strides, words = [*inputs, *outputs], [], []
    for i, layout in enumerate(layouts):
        if i >= len(inputs) and layout.shape != frame.shape:
            strides.append(tuple([step * layout.dtype.itemsize for step in contiguous_strides(lead)]))
            words.append("0")
        else:
            wide = wide_strides(layout, frame.shape)
            strides.append(wide[:split])
            words.append("c" if any(wide[split:]) else "0")
    found = pointwise.merged_strides(lead, tuple(strides), tuple([layout.dtype.itemsize for layout in layouts]), len(inputs))
    capacity = max(1 << (length - 1).bit_length(), 64)
    if found is None or sum(capacity * dtype.itemsize for dtype in kept) > ROOM:
        return None
    count, depth, steps, geometry = found
    geometry = np.array([count, *steps, *geometry[len(layouts) :]], np.int64)
    elements = [ELEMENTS[layout.dtype] for layout in layouts]
    operands = tuple([(element, register_element(element), word) for element, word in zip(elements, words, strict=True)])
    reads, writes = operands[: len(inputs)], operands[len(inputs) :]
    try:
        kernel = row_program(passes, reads, writes, tuple([ELEMENTS[dtype] for dtype in kept]), capacity if kept else 0)
    except (NoKernel, Untraceable) as error:
        pass_on(error)
        return None
    rows = math.prod(lead)
    per_chunk = max(1, (_HEAVY_CHUNK if any(each.is_heavy for each in passes) else _CHUNK) // length)
    numbers = range(len(layouts))
    arrays: tuple[tuple[int, Any], ...] = (*[(i, i) for i in numbers], (len(layouts), geometry))
    words_of = (*[0] * len(layouts), 0, depth + 1, length, rows, per_chunk)
    return Run(kernel.address, words_of, kernel.slots, arrays, -(-rows // per_chunk))


def group_frame(members: Sequence[Node]) -> Frame | None:
    """The frame of a group with row operations; None for a group without."""
    return next((frame for node in members if not node.op.elementwise and (frame := frame_of(node)) is not None), None)


def launched(trial: Trial, node: Node, frame: Frame) -> bool:
    """Run a group with row operations as one launch; False where nothing was done."""
    inputs, outputs = list(dict.fromkeys(node.inputs())), node.outs
    try:
        passes, kept = passes_of(node.members, frame, inputs, outputs)
    except Untraceable:
        return False
    run = run_of(passes, kept, frame, tuple(map(layout_of, inputs)), tuple(map(layout_of, outputs)))
    if run is None:
        return False
    operands = [(*trial.where(value), trial.array(value)) for value in inputs]
    operands += [(*trial.where(out), trial.new(out)) for out in outputs]
    trial.may_write_over += overwriting.of_passes(trial, passes, inputs, outputs)
    launch_run(trial, run, operands, node)
    return True
