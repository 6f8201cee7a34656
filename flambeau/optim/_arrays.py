"""Steps over raw arrays: the usual case of an optimizer step without the price of a tensor operation per line.

A step is a dozen passes over arrays that are mostly small. Where everything is plain (float32 or float64 tensors, strided and
dense, nothing recorded), a rule becomes passes over the arrays themselves, block by block, so that all of them find a block in the cache.
Where native kernels are available, one launch does the passes over all parameters instead (``kernels/families/optimizer.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays import native
from ..core.shape import is_dense
from ..core.state import active, is_intercepted, tick
from ..core.tensor import Parameter, Tensor, new_storage
from ._passes import passes_of

# Elements of a block: seven float32 arrays of this size (900 KiB) fit a second-level cache, and the calls' own cost vanishes.
BLOCK = 1 << 15
_FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))

Row = tuple["Plan", np.ndarray]


class Rows(list[Row]):
    """Plans of a group with their gradients; ``tables`` is where a kernel keeps its tables of them."""

    __slots__ = ("tables",)

    def __init__(self, tables: dict[Any, Any]):
        self.tables = tables  # by plan or plans: emptied with each plan that is made

    def by_counters(self, counters: int) -> list[Rows]:
        """The rows in parts whose counters read the same; mostly one."""
        if not counters:
            return [self]
        columns = [[plan.counters[j].item() for plan, _ in self] for j in range(counters)]
        if all(column.count(column[0]) == len(column) for column in columns):
            return [self]
        parts: dict[Any, Rows] = {}
        for row, *values in zip(self, *columns, strict=True):
            parts.setdefault(tuple(values), Rows(self.tables)).append(row)
        return list(parts.values())

    def are_apart(self) -> bool:
        """Whether no two parameters or state entries overlap in memory, so that rows may be updated in any order, or together."""
        key = tuple([id(plan) for plan, _ in self])
        known = self.tables.get(key)
        if known is None:
            arrays = [array for plan, _ in self for array in (plan.array, *plan.entries) if array.size]
            begins = np.array([array.__array_interface__["data"][0] for array in arrays])
            ends = begins + np.array([array.nbytes for array in arrays])
            order = begins.argsort()
            known = self.tables[key] = bool((ends[order][:-1] <= begins[order][1:]).all())
        return known

    def joined(self, parts: list[Rows]) -> Rows:
        """Several parts of these rows as one."""
        rows = Rows(self.tables)
        for part in parts:
            rows += part
        return rows


class Plan:
    """A parameter and its state as flat arrays; good as long as the tensors keep the arrays they had.

    A small parameter whose state is laid out otherwise (the first momentum buffer is laid out as the gradient) is not flattened.

    Args:
        param: the parameter.
        state: its state.
        names: the entries of the state that a step reads and writes: those shaped like the parameter, then the counters.
        counters: how many of them are counters.
    """

    __slots__ = ("array", "counters", "dtype", "entries", "flat", "is_flat", "names", "order", "param", "shape", "strides", "watched")

    def __init__(self, param: Tensor, state: dict[str, Any], names: tuple[str, ...], counters: int):
        array = param._array
        self.param, self.array, self.dtype, self.shape, self.names = param, array, array.dtype, array.shape, names
        self.strides = array.strides
        self.order = None if array.flags.c_contiguous else sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
        self.watched = [(name, state[name], state[name]._array) for name in names]
        arrays = [watched for _, _, watched in self.watched]
        self.entries, self.counters = arrays[: len(names) - counters], arrays[len(names) - counters :]
        self.is_flat = all(_is_laid_out_as(entry, array) for entry in self.entries)
        self.flat = [self.flattened(part) for part in (array, *self.entries)]

    def fits(self, param: Tensor, state: dict[str, Any]) -> bool:
        """Whether the tensors are still those that the plan was made for."""
        if self.param is not param:
            return False
        for name, tensor, array in self.watched:
            current: Any = state.get(name)
            if current is not tensor or current._array is not array:
                return False
        return True

    def is_laid_out_as(self, grad: np.ndarray) -> bool:
        """Whether the elements of parameter and gradient have the same order in memory."""
        return _is_laid_out_as(grad, self.array)

    def flattened(self, array: np.ndarray) -> np.ndarray:
        """The elements in the order in which the parameter's lie in memory; a copy where ``array`` is laid out otherwise."""
        if not self.is_flat:
            return array
        return (array if self.order is None else array.transpose(self.order)).reshape(-1)


class Plans:
    """The plans of one optimizer, by parameter; made when first needed, and again when they no longer fit.

    Attributes:
        groups_done: how many groups the present step has updated through arrays.
        launch, wait, waited: what machine code is given, and after how many steps in Python another one is made (``_machine``).
    """

    __slots__ = ("_by_param", "_tables", "groups_done", "launch", "wait", "waited")

    def __init__(self) -> None:
        self._by_param: dict[int, Plan] = {}
        self._tables: dict[Any, Any] = {}
        self.groups_done, self.launch, self.wait, self.waited = 0, None, 1, 0

    def rows(self, optimizer: Any, group: dict[str, Any], names: tuple[str, ...]) -> Rows | None:
        """The plans of the group's parameters that have a gradient, each with the gradient.

        Args:
            names: the state entries that the step reads and writes, counters last.
        Returns:
            None where a tensor is none of the usual ones, or state is yet to be made.
        """
        if active and is_intercepted():
            return None
        collected = Rows(self._tables)
        known, states = self._by_param, optimizer.state
        for param in group["params"]:
            grad = getattr(param, "_grad", None)
            if grad is None:
                continue
            state: Any = states.get(param) if names else _STATELESS
            if state is None:
                return None
            plan = known.get(id(param))
            if plan is None or plan.array is not getattr(param, "_array", None) or plan.names != names or not plan.fits(param, state):
                plan = self._made(optimizer, param, state, names)
                if plan is None:
                    return None
            array = grad._array
            if (grad.__class__ is not Tensor and grad.__class__ is not Parameter) or array.__class__ is not np.ndarray:
                return None
            if array.dtype != plan.dtype or array.shape != plan.shape:
                return None
            if grad._storage is not None and grad._storage is param._storage:
                return None
            collected.append((plan, array))
        return collected

    def _made(self, optimizer: Any, param: Tensor, state: dict[str, Any], names: tuple[str, ...]) -> Plan | None:
        """A new plan, or None where the parameter or its state is unusual."""
        self._by_param.pop(id(param), None)
        if not _is_usual(param) or not all(_is_usual(state.get(name)) for name in names):
            return None
        array, counters = param._array, optimizer._counters
        for name in names:
            entry = state[name]._array
            if name in counters:
                fits = entry.ndim == 0
            else:
                fits = entry.dtype == array.dtype and entry.shape == array.shape
                fits = fits and (array.size <= BLOCK or _is_laid_out_as(entry, array))
            if not fits:
                return None
        params = [param for group in optimizer.param_groups for param in group["params"]]
        if len(self._by_param) >= len(params):
            self._by_param.clear()  # plans of parameters that left their group would keep their memory alive
        self._tables.clear()
        plan = self._by_param[id(param)] = Plan(param, state, names, len(counters))
        return plan


_STATELESS: dict[str, Any] = {}


def _is_usual(tensor: Any) -> bool:
    """Whether a tensor may be written through its array."""
    return (
        (tensor.__class__ is Tensor or tensor.__class__ is Parameter)
        and tensor._array.__class__ is np.ndarray
        and tensor._array.dtype in _FLOATS
        and tensor._array.flags.writeable
        and (tensor._array.flags.c_contiguous or is_dense(tensor._array))
        and not tensor.is_inference()
    )


def _is_laid_out_as(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether the elements of two dense arrays of one shape have the same order in memory."""
    return array.strides == other.strides or (array.flags.c_contiguous and other.flags.c_contiguous)


def note_writes(rows: list[Row]) -> None:
    """Count one write to every parameter and to its state."""
    now = tick()
    for plan, _ in rows:
        storage = plan.param._storage
        if storage is None:
            storage = new_storage(plan.param)
        storage.version += 1
        storage.changed = now
        for _, tensor, _ in plan.watched:
            storage = tensor._storage
            if storage is None:
                storage = new_storage(tensor)
            storage.version += 1
            storage.changed = now


# Building a kernel takes milliseconds, so small steps do so only after some dozens of them. A row's calls cost as much as 512 elements.
@native.part("optim.step", work="sum([grad.size + 512 for _, grad in rows])", budget=True)
def update(form: Any, rows: Rows, numbers: list[tuple[float, ...]]) -> None:
    """Update all rows: long ones in blocks and short ones in packs of about a block.

    Args:
        form: the rule (``elementwise.Form``).
        numbers: the rule's numbers for each row; the same tuple where they are equal.
    """
    passes = passes_of(form, len(rows[0][0].entries))
    scratch: dict[np.dtype, np.ndarray] = {}
    longest = min(BLOCK, sum([grad.size for _, grad in rows]))

    def run(arrays: list[np.ndarray], dtype: np.dtype, values: tuple[float, ...]) -> None:
        if dtype not in scratch:
            scratch[dtype] = np.empty((passes.scratches, longest), dtype)
        constants, shape = np.array(values, dtype), arrays[0].shape
        # 0-d arrays: a ufunc takes them in half the time of a Python number.
        own = [constants[i, ...] for i in range(len(values))]
        passes.run(*arrays, *own, *[block[: arrays[0].size].reshape(shape) for block in scratch[dtype]])

    pack: list[list[np.ndarray]] = []
    kind: Any = None
    size, are_apart = 0, rows.are_apart()
    for (plan, grad), values in zip(rows, numbers, strict=True):
        arrays = [plan.flat[0], plan.flattened(grad), *plan.flat[1:]]
        is_short = are_apart and plan.is_flat and grad.size < BLOCK
        if pack and (not is_short or kind != (plan.dtype, values) or size + grad.size > BLOCK):
            _run_together(run, pack, kind)
            pack, size = [], 0
        if is_short:
            pack.append(arrays)
            size, kind = size + grad.size, (plan.dtype, values)
        elif not plan.is_flat:
            run(arrays, plan.dtype, values)
        else:
            for begin in range(0, grad.size, BLOCK):
                run([array[begin : begin + BLOCK] for array in arrays], plan.dtype, values)
    if pack:
        _run_together(run, pack, kind)


def _run_together(run: Callable[..., None], pack: list[list[np.ndarray]], kind: Any) -> None:
    """Several short rows behind each other: a call costs more than the work on one of them."""
    if len(pack) == 1:
        run(pack[0], *kind)
        return
    columns = list(zip(*pack, strict=True))
    joined = [np.concatenate(column) for column in columns]
    run(joined, *kind)
    for column, values in zip([columns[0], *columns[2:]], [joined[0], *joined[2:]], strict=True):
        begin = 0
        for target in column:
            target[...] = values[begin : begin + target.size]
            begin += target.size
