"""Steps of optimizers in a plan: one launch for all parameters of a group, whose numbers are written before each call.

The rule of an optimizer, its kernel and the tables of parameters and states are those of eager steps (``optim/elementwise``,
``kernels/families/optimizer``). A plan keeps them, and the gradients' places in the arena; what is left for each step is to count it, to
compute a handful of numbers from the options, which may have changed, and to note that parameters were written to.

A plan is good while parameters and states are the tensors that they were, and the options choose the same terms of the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import native
from ..core.state import tick
from ..core.tensor import Tensor, storage_of
from ..kernels.families import optimizer as kernels
from ..optim import optimizer as hooks
from ..optim._arrays import Rows
from ..optim.elementwise import ElementwiseOptimizer
from .graph import Node
from .planning import Memory
from .recorder import Step as Recorded

if TYPE_CHECKING:
    from .lowering import _Trial as Trial


def rule_of(node: Node) -> Callable[[Any, Node], bool] | None:
    """Function that makes launches of a step; None where Python does all of it."""
    if node.op.__class__ is not Recorded or not isinstance(node.op.optimizer, ElementwiseOptimizer):
        return None
    return _lowered


def quietly(recorded: Recorded) -> Callable[..., None]:
    """A recorded step after which ``.grad`` is what it was: the arrays that it is given belong to the arena."""

    def run(*arrays: np.ndarray) -> None:
        before = [getattr(param, "_grad", None) for param in recorded.params]
        try:
            recorded(*arrays)
        finally:
            for param, grad in zip(recorded.params, before, strict=True):
                param._grad = grad

    return run


def _lowered(trial: Trial, node: Node) -> bool:
    """Make the step, and put the launches for later ones into the plan; False where nothing was done."""
    optimizer = node.op.optimizer
    if not native.switch.on or _has_hooks(optimizer) or not _steps_plainly(optimizer):
        return False
    gradients = [trial.array(arg) for arg in node.args[: len(node.op.moved)]]
    place_of = {id(array): trial.where(arg) for array, arg in zip(gradients, node.args, strict=False)}
    before = [getattr(param, "_grad", None) for param in node.op.params]
    try:
        node.op(*gradients)
        updates = _updates(optimizer)
    finally:
        for param, grad in zip(node.op.params, before, strict=True):
            param._grad = grad
    if updates is None or any(update.optimizer is optimizer for update in trial.updates):
        trial.add_step(quietly(node.op), node.args[: len(node.op.moved)], (), node)
        return True
    for update in updates:
        _launched(trial, node, update, [place_of[id(grad)] for grad in update.gradients])
    return True


def _launched(trial: Trial, node: Node, update: Update, gradients: list[tuple[Memory, int]]) -> None:
    """Put a group's launch into the plan, and the note that it was made."""
    chunks, tensors, numbers = (trial.constant(array) for array in (update.table.chunks, update.table.tensors, update.values))
    memories = chunks, tensors, trial.addresses(gradients), numbers
    words = update.kernel.pack(0, 0, 0, 0, update.table.chunk_size, 0)
    trial.planned(node, update.kernel.address, words, [(i, memory, 0) for i, memory in enumerate(memories)], len(update.table.chunks))
    for memory, _ in gradients:
        memory.use(len(trial.steps) - 1)
    trial.updates.append(update)
    trial.add_step(update.note, (), (), node, computes=False)


def _has_hooks(optimizer: Any) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or hooks._global_step_pre_hooks
        or hooks._global_step_post_hooks
    )


def _steps_plainly(optimizer: Any) -> bool:
    """Whether ``step`` is the class's own, perhaps with a scheduler's mark that it was called."""
    own = optimizer.__dict__.get("step")
    wrapped = getattr(type(optimizer).step, "__wrapped__", None)
    return (own is None or hasattr(own, "_wrapped_by_lr_sched")) and wrapped is ElementwiseOptimizer.step


def _updates(optimizer: Any) -> list[Update] | None:
    """The groups' updates, after a step was made; None where one is unusual."""
    updates = []
    for group in optimizer.param_groups:
        if group.get("differentiable") or group.get("capturable"):
            return None
        rows = optimizer._plans.rows(optimizer, group, (*optimizer._kept(group), *optimizer._counters))
        if rows is None:
            return None
        if rows:
            counters = [counter for plan, _ in rows for counter in plan.counters]
            if any(counter.shape or counter.dtype not in (np.float32, np.float64) for counter in counters):
                return None
            update = Update(optimizer, group, rows)
            if not update.usable:
                return None
            updates.append(update)
    return updates


class Update:
    """The update of a group of parameters as a launch.

    Attributes:
        usable: whether a kernel does it.
        gradients: the arrays that the gradients had when it was made.
        values: a row of numbers, as the kernel reads them.
        kernel, table: the kernel, and its tables.
        is_shared: whether others than ``prepare`` write numbers.
    """

    is_shared = False

    def __init__(self, optimizer: Any, group: dict[str, Any], rows: Rows):
        self.optimizer, self.group = optimizer, group
        self.plans = [plan for plan, _ in rows]
        self.gradients = [grad for _, grad in rows]
        self.columns = [list(column) for column in zip(*[plan.counters for plan in self.plans], strict=True)]
        tensors = [tensor for plan in self.plans for tensor in (plan.param, *[tensor for _, tensor, _ in plan.watched])]
        self.storages = [storage_of(tensor) for tensor in tensors]
        self.table = kernels.Table(rows, self.plans)
        self.following: list[float] = []
        self.form, numbers = self._next()
        self.values = np.array([numbers], np.float64)
        self.row = self.values[0].data
        self.options = [key for key in group if key != "params"]
        laid_out = all(grad.strides == plan.strides or plan.is_laid_out_as(grad) for plan, grad in rows)
        self.kernel: Any = kernels._kernel_of(self.form, self.table.dtype, self.table.states) if self.table.usable else None
        self._scope: dict[str, Any] = {}
        self.fits, self._has_same_options, self.note = self._functions()
        self.usable = self.kernel is not None and laid_out and self.fits() and bool(numbers)
        self.counted: Any = optimizer._counted if self.columns else None
        self._look_at_options()
        names = self.counted(group, 1.0) if self.counted is not None else ()
        self.changing = [self.form.names.index(name) for name in names]

    def _next(self) -> tuple[Any, Any]:
        """The form of the rule and its numbers for the next step, which is not counted before ``note``."""
        following = [counters[0].copy() for counters in self.columns]
        form, numbers = self.optimizer._advance(self.group, following)
        self.following[:] = [counter.item() for counter in following]
        return form, numbers

    def _look_at_options(self) -> None:
        """Note the options; where they are numbers, few of the step's numbers have to be computed while they stay the same."""
        seen = [self.group[key] for key in self.options]
        self._scope.update({f"v{i}": value for i, value in enumerate(seen)})
        leaves = [leaf for value in seen for leaf in (value if isinstance(value, tuple) else [value])]
        self.is_plain = not any(isinstance(leaf, Tensor | list) for leaf in leaves)  # a list may change while it stays the same
        self.is_quick = (
            self.is_plain
            and not self.is_shared
            and len(self.columns) == len(self.optimizer._counters) <= 1
            and (self.counted is not None or not self.columns)
        )

    def share(self) -> None:
        """Machine code writes the numbers, too, and may have done so for other options: from now on they are computed at each call."""
        self.is_shared, self.is_quick = True, False

    def _functions(self) -> tuple[Callable[[], bool], Callable[[], bool], Callable[[], None]]:
        """Three functions, written out for these tensors because they run at each call.

        Whether tensors are those of the plan, and have made as many steps; whether the options are the same; and what counts a step and
        notes that parameters and states were written to.
        """
        scope, counters = self._scope, [[memoryview(counter) for counter in column] for column in self.columns]
        scope.update(following=self.following, tick=tick, g=self.group)
        conditions = self._conditions()
        written = [f"n{i}" for i in range(len(counters))]
        lines = [f"{', '.join(written)}, = following"] if counters else []
        for i, column in enumerate(counters):
            scope.update({f"c{i}_{j}": counter for j, counter in enumerate(column)})
            conditions.append(" == ".join(f"c{i}_{j}[()]" for j in range(len(column))) if len(column) > 1 else "True")
            lines += [f"c{i}_{j}[()] = n{i}" for j in range(len(column))]
        lines.append("now = tick()")
        for i, storage in enumerate(self.storages):
            scope[f"storage{i}"] = storage
            lines += [f"storage{i}.version += 1", f"storage{i}.changed = now"]
        if "step" in self.optimizer.__dict__:
            lines.append("o._opt_called = True")  # a scheduler asks
        options = " and ".join(f"g[{key!r}] is v{i}" for i, key in enumerate(self.options)) or "True"
        body = "\n    ".join(lines)
        exec(
            f"def fits():\n    return {' and '.join(conditions)}\ndef same():\n    return {options}\ndef note():\n    {body}",
            scope,
        )
        return scope["fits"], scope["same"], scope["note"]

    def _conditions(self) -> list[str]:
        """Expressions that are true while tensors are those of the plan."""
        optimizer, group, scope = self.optimizer, self.group, self._scope
        scope.update(o=optimizer, states=optimizer.state, groups=optimizer.param_groups, hooks=hooks)
        scope.update(params=group["params"], count=len(group["params"]))
        conditions = ["o.state is states", "o.param_groups is groups", "g['params'] is params", "len(params) == count"]
        conditions.append("not (o._optimizer_step_pre_hooks or o._optimizer_step_post_hooks)")
        conditions.append("not (hooks._global_step_pre_hooks or hooks._global_step_post_hooks)")
        for i, plan in enumerate(self.plans):
            scope.update({f"p{i}": plan.param, f"a{i}": plan.array, f"s{i}": optimizer.state.get(plan.param)})
            conditions.append(f"p{i}._array is a{i}")
            for j, (name, tensor, array) in enumerate(plan.watched):
                scope.update({f"t{i}_{j}": tensor, f"a{i}_{j}": array})
                conditions.append(f"s{i}[{name!r}] is t{i}_{j} and t{i}_{j}._array is a{i}_{j}")
        return conditions

    def prepare(self) -> bool:
        """Write the numbers of the next step; False where the plan does not fit what tensors and options are by now."""
        if not self.fits():
            return False
        if self.is_quick and self._has_same_options():
            if self.counted is not None:
                count = self._scope["c0_0"][()] + 1.0
                self.following[0] = count
                row = self.row
                for place, value in zip(self.changing, self.counted(self.group, count).values()):
                    row[place] = value
            return True
        form, numbers = self._next()
        if form is not self.form:
            return False
        self.values[0] = numbers
        self._look_at_options()
        return True
