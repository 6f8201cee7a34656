"""Steps over raw arrays: the usual case of an optimizer step without the price of a tensor operation per line.

A step is a dozen passes over arrays that are mostly small. Where everything is plain (float32 or float64 tensors, strided and
dense, nothing recorded), an optimizer's ``_update_arrays`` runs the same passes, in the same order and with the same roundings as
its function over tensors, as NumPy ufuncs that write into the parameter, its state and a shared scratch. Larger parameters go
block by block, so that all passes over a block find it in the cache. Anything else is left to the function over tensors.

Where native kernels are to be had, one launch does the passes over all parameters instead (``backends/llvm/optimizer.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.native import LARGE, attempt, switch
from ..core.shape import is_dense
from ..core.state import modes, tick
from ..core.tensor import Parameter, Tensor, new_storage

# Elements of a block: seven float32 arrays of this size (900 KiB) fit a second-level cache, and the calls' own cost vanishes.
BLOCK = 1 << 15
SCRATCHES = 3
_FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))

Row = tuple["Plan", np.ndarray]


class Rows(list[Row]):
    """Plans of a group with their gradients; ``tables`` is where a kernel keeps what it knows of them."""

    __slots__ = ("tables",)
    tables: dict[int, Any]


class Plan:
    """A parameter, its state and its scratch as flat arrays; good as long as the tensors keep the arrays they had.

    A small parameter whose state is laid out otherwise (the first momentum buffer is laid out as the gradient) is not flattened.

    Args:
        param: the parameter.
        state: its state.
        names: the entries of the state that a step reads and writes: ``"step"`` is a counter, the others have the parameter's
            shape, and ``blocks`` gives them in this order.
        scratches: flat arrays of at least a block's size, or the parameter's.
    """

    __slots__ = ("array", "dtype", "entries", "flat", "is_flat", "names", "order", "param", "scratch", "shape", "step", "watched")

    def __init__(self, param: Tensor, state: dict[str, Any], names: tuple[str, ...], scratches: list[np.ndarray]):
        array = param._array
        self.param, self.array, self.dtype, self.shape, self.names = param, array, array.dtype, array.shape, names
        self.order = None if array.flags.c_contiguous else sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
        self.step = state["step"]._array if "step" in names else None
        self.watched = [(name, state[name], state[name]._array) for name in names]
        self.entries = [each for name, _, each in self.watched if name != "step"]
        self.is_flat = all(_is_laid_out_as(each, array) for each in self.entries)
        self.flat = [self.flattened(each) for each in (array, *self.entries)]
        self.scratch = [scratch[: array.size] for scratch in scratches]
        if not self.is_flat:
            self.scratch = [scratch.reshape(self.shape) for scratch in self.scratch]

    def fits(self, param: Tensor, state: dict[str, Any], names: tuple[str, ...]) -> bool:
        """Whether the tensors are still those that the plan was made for."""
        if self.param is not param or self.array is not param._array or self.names != names:
            return False
        for name, tensor, array in self.watched:
            current: Any = state.get(name)
            if current is not tensor or current._array is not array:
                return False
        return True

    def flattened(self, array: np.ndarray) -> np.ndarray:
        """The elements in the order in which the parameter's lie in memory; a copy where ``array`` is laid out otherwise."""
        if not self.is_flat:
            return array
        return (array if self.order is None else array.transpose(self.order)).reshape(-1)

    def blocks(self, grad: np.ndarray) -> Iterable[Any]:
        """Per block: parameter, gradient, the state by name, scratches."""
        arrays = [self.flat[0], self.flattened(grad), *self.flat[1:]]
        size = grad.size
        if size <= BLOCK:
            return ([*arrays, *self.scratch],)
        return (
            [*(each[begin : begin + BLOCK] for each in arrays), *(each[: size - begin] for each in self.scratch)]
            for begin in range(0, size, BLOCK)
        )


class Plans:
    """The plans of one optimizer, by parameter; made when first needed, and again when they no longer fit."""

    __slots__ = ("_by_param", "_scratches", "_tables")

    def __init__(self) -> None:
        self._by_param: dict[int, Plan] = {}
        self._tables: dict[int, Any] = {}
        self._scratches: dict[Any, list[np.ndarray]] = {}

    def rows(self, optimizer: Any, group: dict[str, Any], names: tuple[str, ...]) -> Rows | None:
        """The plans of the group's parameters that have a gradient, each with the gradient.

        Args:
            names: the state entries that the step reads and writes.
        Returns:
            None where a tensor is none of the usual ones, or state is yet to be made.
        """
        if modes.active:
            return None
        found = Rows()
        found.tables = self._tables
        known, states = self._by_param, optimizer.state
        for param in group["params"]:
            if param.__class__ is not Parameter and param.__class__ is not Tensor:
                return None
            grad = getattr(param, "_grad", None)
            if grad is None:
                continue
            state: Any = states.get(param) if names else _STATELESS
            if state is None:
                return None
            plan = known.get(id(param))
            if plan is None or not plan.fits(param, state, names):
                plan = self._made(optimizer, param, state, names)
                if plan is None:
                    return None
            array = grad._array
            if (grad.__class__ is not Tensor and grad.__class__ is not Parameter) or array.dtype != plan.dtype or array.shape != plan.shape:
                return None
            if grad._storage is not None and grad._storage is param._storage:
                return None
            found.append((plan, array))
        return found

    def _made(self, optimizer: Any, param: Tensor, state: dict[str, Any], names: tuple[str, ...]) -> Plan | None:
        """A new plan, or None where the parameter or its state is unusual."""
        self._by_param.pop(id(param), None)
        if not _is_usual(param) or not all(_is_usual(state.get(name)) for name in names):
            return None
        array = param._array
        for name in names:
            entry = state[name]._array
            if name == "step":
                fits = entry.ndim == 0
            else:
                fits = entry.dtype == array.dtype and entry.shape == array.shape
                fits = fits and (array.size <= BLOCK or _is_laid_out_as(entry, array))
            if not fits:
                return None
        params = [each for group in optimizer.param_groups for each in group["params"]]
        if len(self._by_param) >= len(params):
            self._by_param.clear()  # plans of parameters that left their group would keep their memory alive
        self._tables.clear()
        scratches = self._scratches.get(array.dtype)
        if scratches is None or scratches[0].size < min(BLOCK, array.size):
            size = min(BLOCK, max(each._array.size for each in params))
            scratches = self._scratches[array.dtype] = [np.empty(size, array.dtype) for _ in range(SCRATCHES)]
        plan = self._by_param[id(param)] = Plan(param, state, names, scratches)
        return plan


_STATELESS: dict[str, Any] = {}


def _is_usual(tensor: Any) -> bool:
    """Whether a tensor may be written through its array."""
    return (
        (tensor.__class__ is Tensor or tensor.__class__ is Parameter)
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


# How much array steps have done in this process, in elements; a row's calls cost as much as these many more.
_PRICE_OF_ROW = 512
_worked = [0]


def kernel_step(rule: str, flags: dict[str, Any], rows: Rows, numbers: list[tuple[float, ...]]) -> bool:
    """Update all rows by a native kernel, where there is one.

    Getting a kernel takes milliseconds, so that small steps ask for it only when they have come to some dozens.

    Args:
        rule: its name there.
        flags: which of its terms it has.
        numbers: the rule's numbers for each row; the same tuple where they are equal.
    Returns:
        Whether that was done.
    """
    if not rows or not switch.on:
        return False
    if _worked[0] < 16 * LARGE:
        _worked[0] += sum([grad.size + _PRICE_OF_ROW for _, grad in rows])
        if _worked[0] < 16 * LARGE:
            return False
    for plan, grad in rows:
        if grad.strides != plan.array.strides and not _is_laid_out_as(grad, plan.array):
            return False
    return attempt("optim.step", rule, tuple([flag for flag, on in flags.items() if on]), rows, numbers) is True


def counted(step: np.ndarray) -> float:
    """Add one to a counter; what it reads then (the counter's dtype may have rounded it)."""
    step[()] = step.item() + 1
    return step.item()


def numbers_by_count(rows: Rows, numbers_of: Callable[[float], tuple[float, ...]]) -> list[tuple[float, ...]]:
    """Add one to each row's counter; what ``numbers_of`` makes of the counts, for each row, made once a count."""
    made: dict[float, tuple[float, ...]] = {}
    found = []
    for plan, _ in rows:
        count = counted(plan.step)
        if count not in made:
            made[count] = numbers_of(count)
        found.append(made[count])
    return found


def constants(dtype: Any, *values: float) -> list[np.ndarray]:
    """Numbers as 0-d arrays of ``dtype``: a ufunc takes them in half the time of a Python number."""
    made = np.array(values, dtype)
    return [made[i, ...] for i in range(len(values))]


def effective_gradient(
    param: np.ndarray, grad: np.ndarray, decay: np.ndarray | None, maximize: bool, own: np.ndarray, scratch: np.ndarray
) -> np.ndarray:
    """``grad``, negated if ``maximize``, plus ``decay * param`` unless ``decay`` is None; in ``own`` where it is not ``grad``."""
    if maximize:
        grad = np.negative(grad, own)
    if decay is not None:
        np.multiply(param, decay, scratch)
        grad = np.add(grad, scratch, own)
    return grad


def lerp(average: np.ndarray, grad: np.ndarray, weight: np.ndarray, rest: np.ndarray | None, scratch: np.ndarray) -> None:
    """``average.lerp_(grad, weight)``: from the nearer end, ``rest = 1 - weight`` being None where that is ``average``."""
    np.subtract(grad, average, scratch)
    if rest is None:
        np.multiply(weight, scratch, scratch)
        np.add(average, scratch, average)
    else:
        np.multiply(scratch, rest, scratch)
        np.subtract(grad, scratch, average)


def lerp_rest(weight: np.ndarray) -> np.ndarray | None:
    """``rest`` for :func:`lerp`."""
    return None if abs(weight) < 0.5 else np.asarray(weight.dtype.type(1) - weight)
