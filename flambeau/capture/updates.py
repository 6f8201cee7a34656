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
    """

    def __init__(self, optimizer: Any, group: dict[str, Any], rows: Rows):
        self.optimizer, self.group = optimizer, group
        self.plans = [plan for plan, _ in rows]
        self.gradients = [grad for _, grad in rows]
        self.columns = [list(column) for column in zip(*[plan.counters for plan in self.plans], strict=True)]
        tensors = [tensor for plan in self.plans for tensor in (plan.param, *[tensor for _, tensor, _ in plan.watched])]
        self.storages = [storage_of(tensor) for tensor in tensors]
        self.table = kernels.Table(rows, self.plans)
        self.form, numbers = self._next()
        self.values = np.array([numbers], np.float64)
        self.row = self.values[0].data
        laid_out = all(grad.strides == plan.strides or plan.is_laid_out_as(grad) for plan, grad in rows)
        self.kernel: Any = kernels._kernel_of(self.form, self.table.dtype, self.table.states) if self.table.usable else None
        self.usable = self.kernel is not None and laid_out and self._counted_alike() and bool(numbers)
        self.fits = self._guard()
        self.options = [key for key in group if key != "params"]
        self.seen = [group[key] for key in self.options]
        self.is_plain = not any(
            isinstance(leaf, Tensor) for value in self.seen for leaf in (value if isinstance(value, tuple) else [value])
        )
        self.is_plain = self.is_plain and len(self.columns) == len(optimizer._counters) <= 1
        self.counted: Any = optimizer._counted if self.columns else None
        names = self.counted(group, 1.0) if self.counted is not None else ()
        self.changing = [self.form.names.index(name) for name in names]

    def _next(self) -> tuple[Any, Any]:
        """The form of the rule and its numbers for the next step, which is not counted before ``note``."""
        following = [counters[0].copy() for counters in self.columns]
        form, numbers = self.optimizer._advance(self.group, following)
        self.following = [counter.item() for counter in following]
        return form, numbers

    def _counted_alike(self) -> bool:
        """Whether the counters of all parameters read the same."""
        for counters in self.columns:
            first = counters[0].item()
            for counter in counters:
                if counter.item() != first:
                    return False
        return True

    def _guard(self) -> Callable[[], bool]:
        """Function that tells whether tensors are those of the plan: one expression, for it is asked at each call."""
        optimizer, group = self.optimizer, self.group
        scope: dict[str, Any] = {"o": optimizer, "states": optimizer.state, "groups": optimizer.param_groups, "g": group}
        scope.update(params=group["params"], count=len(group["params"]), hooked=_has_hooks)
        conditions = ["o.state is states", "o.param_groups is groups", "g['params'] is params", "len(params) == count", "not hooked(o)"]
        for i, plan in enumerate(self.plans):
            scope.update({f"p{i}": plan.param, f"a{i}": plan.array, f"s{i}": optimizer.state.get(plan.param)})
            conditions.append(f"p{i}._array is a{i}")
            for j, (name, tensor, array) in enumerate(plan.watched):
                scope.update({f"t{i}_{j}": tensor, f"a{i}_{j}": array})
                conditions.append(f"s{i}[{name!r}] is t{i}_{j} and t{i}_{j}._array is a{i}_{j}")
        exec(f"def fits():\n    return {' and '.join(conditions)}", scope)
        fits: Callable[[], bool] = scope["fits"]
        return fits

    def prepare(self) -> bool:
        """Write the numbers of the next step; False where the plan does not fit what tensors and options are by now."""
        if not self.fits() or not self._counted_alike():
            return False
        group, row = self.group, self.row
        seen = [group[key] for key in self.options]
        if self.is_plain and seen == self.seen and (self.counted is not None or not self.columns):
            if self.counted is not None:
                count = self.columns[0][0].item() + 1.0
                self.following = [count]
                for place, value in zip(self.changing, self.counted(group, count).values()):
                    row[place] = value
            return True
        form, numbers = self._next()
        if form is not self.form:
            return False
        self.values[0] = numbers
        self.seen = seen
        self.is_plain = self.is_plain and not any(isinstance(value, Tensor) for value in seen)
        return True

    def note(self) -> None:
        """Count the step, and note that parameters and states were written to."""
        for counters, number in zip(self.columns, self.following, strict=True):
            for counter in counters:
                counter.fill(number)
        now = tick()
        for storage in self.storages:
            storage.version += 1
            storage.changed = now
        if "step" in self.optimizer.__dict__:
            self.optimizer._opt_called = True  # a scheduler asks
