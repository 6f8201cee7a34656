"""Single operations as launches: programs, strided copies, products, and native kernels of any other kind."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays.kinds import call_kernel, host
from ..core.calls.casting import cast_array, cast_operands
from ..core.calls.interruption import pass_on
from ..core.settings import settings
from ..core.shape import contiguous_strides
from ..kernels.compiler.expression import Program, Untraceable
from ..kernels.compiler.language import ELEMENTS, register_element
from ..kernels.compiler.pool import pool
from ..kernels.families import gemm, loss, recurrent
from ..kernels.families.blas import alone
from ..kernels.families.pointwise import fixed
from ..kernels.families.rows import NOTHING, float_element, rows_per_chunk, wide_dtype
from ..kernels.index import memory_use
from . import elementwise, overwriting
from .elementwise import Layout, Run, is_row_major, layout_of
from .graph import Node, Value, replaced
from .launches import Captured, Refused, captured, seen_once
from .memory import extent
from .passes import RANDOM
from .planning import Memory

if TYPE_CHECKING:
    from .lowering import _Trial as Trial


def program_of(members: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value]) -> Program | None:
    """The program of element-wise nodes; None where there is none."""
    try:
        return elementwise.program_of(members, inputs, outputs)
    except Untraceable:
        return None


def by_rule(trial: Trial, node: Node) -> bool:
    """Run an operation's node by launches; False where nothing was done."""
    if node.op.name in RANDOM:
        return False  # trying its kernel would draw numbers
    if elementwise.has_program(node):
        inputs = list(dict.fromkeys(node.inputs()))
        if run_program(trial, program_of([node], inputs, node.outs), inputs, node.outs, node):
            return True
    elif elementwise.divides_integers(node):
        return False  # its kernel looks for zeros first: launches that were seen for some divisors are not for all
    rule = RULES.get(node.op.key)
    if rule is None or not rule(trial, node):
        found, made = _captured(trial, node)
        if found is None:
            return _spread_out(trial, node)
        trial.captured(node, found, made)
    trial.may_write_over += overwriting.of_rows(trial, node)
    return True


_SPREAD = 1 << 22  # bytes of an operand that only repeats, and is written out for kernels that take no such operands


def _spread_out(trial: Trial, node: Node) -> bool:
    """Run a node whose kernel takes no operands that repeat along a dimension on copies of those; False where nothing was done."""
    copies: dict[Value, Value] = {}
    for value in node.inputs():
        if 0 in [step for n, step in zip(value.shape, value.strides, strict=True) if n > 1]:
            steps = tuple([step * value.dtype.itemsize for step in contiguous_strides(value.shape)])
            copies[value] = Value(value.shape, steps, value.dtype)
            if value.size * value.dtype.itemsize > _SPREAD or not value.size:
                return False
    if not copies:
        return False
    Node("op", None, (), list(copies.values()))  # whose results they are
    dense = Node(node.kind, node.op, [replaced(arg, lambda value: copies.get(value, value)) for arg in node.args], node.outs, node.dtypes)
    for out in node.outs:
        out.node = node
    for copied in copies.values():
        trial.new(copied)
    if not copy_values(trial, list(copies.items()), node):
        return False
    found, made = _captured(trial, dense)
    if found is not None:
        trial.captured(dense, found, made)
    return found is not None


# -- programs and copies ----------------------------------------------------------------------------------------------------------------
def run_program(trial: Trial, program: Program | None, inputs: Sequence[Value], outputs: Sequence[Value], node: Node) -> bool:
    """Run a program; False where there is no kernel for how its arrays lie."""
    if program is None:
        return False
    reads, writes = tuple([layout_of(value) for value in inputs]), tuple([layout_of(value) for value in outputs])
    runs = elementwise.runs_of(program, reads, writes)
    if runs is None:
        return False
    operands = [(*trial.where(value), trial.array(value)) for value in inputs]
    for out in outputs:
        operands.append((*trial.where(out), trial.new(out)))
    for copied in elementwise.scratch_of(reads, writes):
        if copied is not None:
            size = extent(copied.shape, copied.strides, copied.dtype.itemsize)
            operands.append((trial.scratch(size), 0, np.empty(size, np.uint8)))
    for run in runs:
        launch_run(trial, run, operands, node)
    trial.may_write_over += overwriting.of_program(trial, inputs, outputs)
    return True


def launch_run(trial: Trial, run: Run, operands: Sequence[tuple[Memory, int, np.ndarray]], node: Node) -> None:
    """Launch a run whose arrays are numbered as ``operands``: memory, offset in it, an array that shows it now."""
    headers = []
    for word, which in run.arrays:
        if which.__class__ is np.ndarray:
            headers.append((word, trial.constant(which), 0, which))
        else:
            headers.append((word, *operands[which]))
    trial.launch(node, run.address, struct.pack("=" + run.slots, *run.words), headers, run.chunks)


def copy_values(trial: Trial, pairs: Sequence[tuple[Value, Value]], node: Node, layouts: Sequence[Layout] | None = None) -> bool:
    """Copy values to others (broadcast); False where there is no kernel for one of them, and nothing was done.

    Args:
        layouts: those of the targets where only a part of each is written, which begins where the target does.
    """
    runs = []
    for i, (source, target) in enumerate(pairs):
        if trial.where(source)[0] is trial.where(target)[0]:
            return False  # they may overlap
        run = elementwise.copy_run(layout_of(source), layout_of(target) if layouts is None else layouts[i], 0, 1)
        if run is None and target.size:
            return False
        runs.append(run)
    for run, (source, target) in zip(runs, pairs, strict=True):
        if run is not None:
            operands = [(*trial.where(source), trial.array(source)), (*trial.where(target), trial.array(target))]
            launch_run(trial, run, operands, node)
    return True


def _copied(trial: Trial, node: Node) -> bool:
    """A result with the elements of the first operand in their order."""
    source, out = next(node.inputs()), node.outs[0]
    if source.dtype != out.dtype or source.size != out.size:
        return False
    if source.shape != out.shape:
        steps = [step * out.dtype.itemsize for step in contiguous_strides(source.shape)]
        if [step * out.dtype.itemsize for step in contiguous_strides(out.shape)] != list(out.strides):
            return False
        layout = Layout(source.shape, tuple(steps), out.dtype)
    else:
        layout = layout_of(out)
    run = elementwise.copy_run(layout_of(source), layout, 0, 1)
    if run is None:
        return False
    operands = [(*trial.where(source), trial.array(source)), (*trial.where(out), trial.new(out))]
    launch_run(trial, run, operands, node)
    return True


# -- native kernels -----------------------------------------------------------------------------------------------------------------------
KEPT = 4096  # kinds of call whose launches are remembered
PACKED = 1 << 25  # multiply-adds of products that are packed whatever memory that takes: they take a fifth to a half less time
_found: dict[Any, Captured | None] = {}  # by operation, layouts and attributes
_STRUCTURED = frozenset(("offsets", "crow_indices", "ccol_indices", "lengths", "cu_seqlens", "row_splits", "sizes"))


def _captured(trial: Trial, node: Node) -> tuple[Captured | None, list[np.ndarray] | None]:
    """The launches of an operation's native kernel, found once for all nodes that look alike, and results if they are there by now."""
    is_in_place = node in trial.in_place
    function = _native_function(node, is_in_place)
    if function is None:
        return None, None
    args = [trial.array(arg) for arg in node.args]
    try:
        key = _key_of(node, is_in_place)
        return _found[key], None
    except KeyError:
        pass
    except TypeError as error:  # an attribute that cannot be hashed
        pass_on(error)
        key = None
    once = seen_once(function, args, alone) if memory_use(node.op.key).only_launches else None
    found, made = once or captured(function, args, alone) or (None, None)
    if found is not None and any(
        (out.shape, out.strides, out.dtype) != result for out, result in zip(node.outs, found.results, strict=True)
    ):
        found = None
    if key is not None:
        if len(_found) > KEPT:
            _found.clear()
        _found[key] = found
    return found, made


def scratch_of(node: Node) -> int:
    """Bytes that a node's kernel needs for itself; 0 where no such node has run yet."""
    try:
        found = _found.get(_key_of(node)) if node.kind == "op" else None
    except TypeError as error:
        pass_on(error)
        return 0
    return sum(found.scratch) - overwriting.spared(node, found.scratch) if found is not None else 0


def may_be_in_place(node: Node) -> bool:
    """Whether a kernel that needs no memory for itself may take the place of one that does: for products that are not large."""
    if node.kind != "op" or _name_of(node.op.key) not in _MATRICES:
        return False
    return node.outs[0].size * node.args[0].shape[-1] < PACKED


def _key_of(node: Node, is_in_place: bool = False) -> tuple[Any, ...]:
    return node.op, node.dtypes, pool.threads, settings.matmul_precision, is_in_place, tuple(_looks(node))


def _looks(node: Node) -> list[Any]:
    """Key of a kernel's launches: layouts, which operands are the same, attributes."""
    numbers: dict[Value, int] = {}
    looks: list[Any] = []

    def look(arg: Any) -> Any:
        if arg.__class__ is Value:
            return numbers.setdefault(arg, len(numbers)), arg.shape, arg.strides, arg.dtype
        if arg.__class__ is list or arg.__class__ is tuple:
            return tuple([look(each) for each in arg])
        if arg.__class__ is slice:
            return slice, arg.start, arg.stop, arg.step
        return fixed(arg) if arg.__class__ is not np.ndarray else (arg.shape, arg.dtype, arg.tobytes())

    looks += [look(arg) for arg in node.args]
    looks += [(out.shape, out.strides, out.dtype) for out in node.outs]
    return looks


def _native_function(node: Node, is_in_place: bool = False) -> Callable[..., list[np.ndarray]] | None:
    """The native kernel of an operation as a function of recorded arguments, which raises ``Refused`` where it declines.

    Args:
        is_in_place: whether it is one that needs no memory for itself.
    """
    op, (compute, result) = node.op, node.dtypes
    if not op.elementwise and op.key not in _OF_PARTS and host.choice_for(op) is None:
        return None
    if op.key in _BY_VALUES or any(value.dtype.kind in "iub" and not value.shape for value in node.inputs()):
        return None  # a whole number of no dimensions may be looked at, and no other one can be tried in its place
    if any(name in _STRUCTURED and values for name, values in zip(op.names, node.args, strict=False) if values.__class__ is Value):
        return None
    own = partial(call_kernel, op.kernel, op) if op.key in _OF_PARTS else _kernel_of(op.key, gemm.IN_PLACE if is_in_place else 0)

    def run(*values: Any) -> list[np.ndarray]:
        made = host.run_in_bfloat16(op, values, result)
        if made is None and own is not None:
            made = own(list(values) if compute is None else cast_operands(op, values, compute))
        elif made is None:
            made = host.run_native(op, values, compute, result)
        if made is None:
            raise Refused
        several = list(made) if made.__class__ in (tuple, list) else [made]
        if result is not None:
            several = [cast_array(each, result) if each.dtype == compute.numpy else each for each in several]
        return several

    return run


# -- losses of classes --------------------------------------------------------------------------------------------------------------------
def launch_kernel(
    trial: Trial, node: Node, kernel: Any, chunks: int, arrays: Sequence[tuple[Memory, int, np.ndarray]], *numbers: Any
) -> None:
    """Launch a kernel whose first arguments are arrays: memory, offset in it, an array that shows it now."""
    headers = [(i, *operand) for i, operand in enumerate(arrays)]
    trial.launch(node, kernel.address, kernel.pack(*[0] * len(arrays), *numbers), headers, chunks)


class _Classes:
    """The operands of a loss of classes, as its kernels take them; ``fit`` says whether they do."""

    def __init__(self, trial: Trial, node: Node, scores: Value, target: Value, weight: Value | None, ignore: int):
        self.trial, self.node, self.scores, self.target, self.weight, self.ignore = trial, node, scores, target, weight, ignore
        self.element = float_element(scores.dtype) or ""
        shape = scores.shape
        self.view = (shape[0], shape[1], math.prod(shape[2:])) if len(shape) > 1 else (0, 0, 0)

    def fit(self) -> bool:
        """Whether the kernels take them."""
        wide = register_element(self.element) if self.element else ""
        return (
            bool(self.element and self.scores.size and self.target.size)
            and self.target.dtype == np.int64
            and self.target.shape == (self.scores.shape[0], *self.scores.shape[2:])
            and all(is_row_major(value) for value in (self.scores, self.target))
            and (self.weight is None or (is_row_major(self.weight) and ELEMENTS[self.weight.dtype] == wide))
        )

    def operand(self, value: Value) -> tuple[Memory, int, np.ndarray]:
        return (*self.trial.where(value), self.trial.array(value))

    def scratch(self, count: int, dtype: Any = None) -> tuple[Memory, int, np.ndarray]:
        array = np.empty(count, dtype or wide_dtype(self.element))
        return self.trial.scratch(array.nbytes), 0, array

    @property
    def weights(self) -> tuple[Memory, int, np.ndarray]:
        return (self.trial.constant(NOTHING), 0, NOTHING) if self.weight is None else self.operand(self.weight)

    def rows(self, kernel: Any, arrays: Sequence[Any], *numbers: Any, few: int = 0) -> None:
        units, per = rows_per_chunk(self.element, self.view, few)
        launch_kernel(self.trial, self.node, kernel, -(-units // per), arrays, *numbers, *self.view[1:], units, per)


def _class_loss(has_scores: bool, trial: Trial, node: Node) -> bool:
    """Cross entropy or the likelihood of classes, reduced."""
    scores, target, weight, reduction, ignore = node.args
    classes = _Classes(trial, node, scores, target, weight, int(ignore))
    if reduction not in ("mean", "sum") or not classes.fit():
        return False
    n, across = target.size, classes.view[2] > 1
    losses, factors, flags, wrong = classes.scratch(n), classes.scratch(n), classes.scratch(2, np.int64), classes.scratch(1, np.int64)
    result = (*trial.where(node.outs[0]), trial.new(node.outs[0]))
    kernel = loss.class_losses(classes.element, across, has_scores, weight is not None, False)
    few = 0 if has_scores else 1 + n // 16384
    classes.rows(
        kernel, (classes.operand(scores), classes.operand(target), classes.weights, losses, factors, flags), int(ignore), 0.0, few=few
    )
    mean = loss.mean_of_classes(classes.element, reduction)
    launch_kernel(trial, node, mean, 1, (losses, factors, classes.operand(target), result, wrong), n, classes.view[1], int(ignore))
    trial.retry(node, [(wrong[0], wrong[2])])
    return True


def _class_slope(trial: Trial, node: Node) -> bool:
    """The gradient of cross entropy, reduced."""
    grad, scores, target, weight, reduction, ignore = node.args
    classes = _Classes(trial, node, scores, target, weight, int(ignore))
    if reduction not in ("mean", "sum") or not classes.fit() or grad.size != 1 or grad.dtype != scores.dtype:
        return False
    across, share = classes.view[2] > 1, classes.operand(grad)
    if reduction == "mean":
        divided = classes.scratch(1)
        kernel = loss.share_of_class(classes.element, weight is not None)
        launch_kernel(
            trial, node, kernel, 1, (share, classes.operand(target), classes.weights, divided), target.size, classes.view[1], int(ignore)
        )
        share = divided
    elif register_element(classes.element) != classes.element:
        return False
    result = (*trial.where(node.outs[0]), trial.new(node.outs[0]))
    kernel = loss.class_slopes(classes.element, across, True, weight is not None, False, True)
    arrays = classes.operand(scores), classes.operand(target), classes.weights, share, result
    classes.rows(kernel, arrays, int(ignore), 0.0, 0.0)
    return True


# Native kernels that take operands of any size when they are asked so, by the operations' names in their modules.
_MATRICES = ("matmul", "mm", "bmm", "linear")
_OF_ANY_SIZE = (
    (gemm, _MATRICES),
    (recurrent, [f"{name}{way}" for name in ("lstm_layer", "gru_layer", "rnn_layer", "recurrent_steps") for way in ("", "_backward")]),
)


def _name_of(key: str) -> str:
    return key.rpartition(".")[2].removeprefix("_")


def _kernel_of(key: str, least: int) -> Callable[..., Any] | None:
    """The native kernel of an operation that takes operands of any size, as a function of them."""
    name = _name_of(key)
    for module, names in _OF_ANY_SIZE:
        if name in names:
            kernel = getattr(module, name)
            return lambda operands: kernel(*operands, least=least)
    return None


# Operations with another way than their own kernel's.
RULES: dict[str, Callable[[Any, Node], bool]] = {
    **dict.fromkeys(("clone", "_contiguous", "contiguous", "reshape", "_reshaped_copy"), _copied),
    "nn.functional._cross_entropy": partial(_class_loss, True),
    "nn.functional._nll_loss": partial(_class_loss, False),
    "nn.functional._cross_entropy_backward": _class_slope,
}
# Operations that are made of parts with native kernels, and look at no values between them.
_OF_PARTS = frozenset(("convolution",))
# Operations whose kernels look at values before or after their launches.
_BY_VALUES = frozenset(("_index_reduce", "_scatter_reduce", "nn.functional._binary_cross_entropy", "_incomplete_gamma", "_var", "_std"))
