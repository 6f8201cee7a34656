"""Recording: how a call's results, views and in-place writes get their place on the tape.

In-place writes to views.  All views of one root tensor share its storage, and the tape follows the root.  When ``v`` (a view of
``x``) is written in place by an operation recorded as node N, the root's history is rebased and every live view is pointed
at it again:

      before                              after  v.mul_(w)

      A <--- x                            A <--- CopySlices(N) <--- x
      ^                                             ^
      AsStrided <--- v                              AsStrided <--- v  (and every other live view of x)

``CopySlices`` sends to A the gradient of ``x`` with the part that ``v`` shows replaced by what N's derivative makes of it.
Views point to their root (``_view_of``), roots find their views through the storage's weak list of aliases.

A view made without grad mode, or by an operation that returns several views, cannot be pointed at the new history (nobody knows
whether the write was meant to be seen through it): using it afterwards is an error, which ``StaleHistory`` raises, also after writes
that are not recorded, which ``WatchedStorage`` notices.  A view made without
grad mode of a tensor that requires grad requires grad itself, and is a leaf.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..arrays.kinds import address, device_of, moved
from ..shape import element_strides, is_dense, overlaps_itself
from ..state import INFERENCE, changes, grad_enabled, thread, without_grad
from ..storage import UntypedStorage
from ..tensor import Tensor, ViewMeta, blanks, note_order, root_of, storage_of, wrap
from .node import INHERITED, Node, Output, StaleHistory, complain_freed, edge_of, graph_edge, new_node


def geometry_in(root: Tensor, array: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and offset (in elements, counted from the root's first element) of a view of ``root``."""
    offset = 0
    if array.size and root._array.size:
        offset = address(array) - address(root._array)
    return array.shape, element_strides(array), offset // array.itemsize


def make_view(array: np.ndarray, base: Tensor) -> Tensor:
    """A tensor around a view of ``base``'s memory; not recorded yet."""
    storage = storage_of(base)
    view = next(blanks)
    view._array, view._storage, view._node = array, storage, None
    state = base._requires_grad
    view._requires_grad = state if state is False or state is INFERENCE else not grad_enabled() and inherited(base, array)
    view._view_of = view_of(base)
    storage._add_alias(view)
    return view


def inherited(base: Tensor, array: np.ndarray) -> Any:
    """``_requires_grad`` of a view made without grad mode: that its root requires grad is all that counts."""
    return INHERITED if root_of(base).requires_grad and is_differentiable(array) else False


def view_of(base: Tensor) -> Any:
    """Value of ``_view_of`` for a view of ``base``."""
    shown, word = base._view_of, base._requires_grad
    if not without_grad or thread.grad is True:
        return base if shown is None else shown
    is_noted = shown.__class__ is ViewMeta
    root = base if shown is None else shown.root if is_noted else shown
    if word is INFERENCE:
        return root
    if word is not False:
        watch(storage_of(base))
    return ViewMeta(root, "inference" if thread.inference or (is_noted and shown.creation_meta == "inference") else "no_grad")


def set_creation_meta(view: Tensor, creation_meta: str) -> None:
    """Forbid recorded writes to ``view``, which an operation made together with others; a view made in inference mode stays one."""
    if not _is_of_inference(view):
        view._view_of = ViewMeta(root_of(view), creation_meta)


def _is_of_inference(view: Tensor) -> bool:
    return view._view_of.__class__ is ViewMeta and view._view_of.creation_meta == "inference"


class CopySlices(Node):
    """History of a tensor after a recorded in-place write through one of its views; see this module's docstring."""

    __slots__ = ()
    frees = True

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def apply(self, grad: Tensor) -> Any:
        if self.saved is None:
            complain_freed(self)
        write, at, shape, strides, view, dtype = self.attrs
        kept = grad.new_empty_strided(shape, strides)
        kept.copy_(grad)
        part = part_of(kept, view, dtype)
        inner = write.apply([part.clone()] if write.is_multi_output else part.clone())
        if self.edges[0] is not None:
            if inner[at] is None:
                part.zero_()
            else:
                part.copy_(inner[at])
        return (kept, *inner[:at], *inner[at + 1 :])

    def release(self) -> None:
        self.saved = None
        write = self.attrs[0]
        if write.frees:
            write.release()


class AsStridedBackward0(Node):
    """History of a view that was made again because its root's history changed."""

    __slots__ = ()

    def apply(self, grad: Tensor) -> Any:
        return (scattered(grad, *self.attrs),)


def part_of(whole: Tensor, view: tuple[Any, ...], dtype: dtypes.dtype) -> Tensor:
    """The view of ``whole`` with that shape, strides and offset, read as ``dtype`` (complex numbers as pairs of real ones)."""
    if whole.dtype is dtype:
        return whole.as_strided(*view)
    return whole.as_strided((storage_extent(whole),), (1,), 0)._view_dtype(dtype).as_strided(*view)


def _repeats(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return overlaps_itself(np.lib.stride_tricks.as_strided(np.empty(1, np.int8), shape, strides))


def scattered(grad: Tensor, shape: Any, strides: Any, view: Any, dtype: dtypes.dtype, whole_dtype: dtypes.dtype) -> Tensor:
    """Zeros of that shape and strides, with ``grad`` added at the places that a view shows.

    The view may reach past the whole on both sides, as ``as_strided`` of a part can; what lies there is dropped.
    """
    view_shape, view_strides, offset = view
    before = max(-offset, 0)
    before += before % 2 if dtype is not whole_dtype else 0
    extent = max(
        extent_of(shape, strides) * (2 if whole_dtype.is_complex and not dtype.is_complex else 1),
        offset + extent_of(view_shape, view_strides),
    )
    flat = grad.new_zeros(before + extent + (before + extent) % 2)
    place = (view_shape, view_strides, before + offset)
    if _repeats(view_shape, view_strides):
        flat = flat.index_add(0, wrap(moved(positions_of(*place), device_of(grad._array))), grad.reshape(-1))
    else:
        flat.as_strided(*place).copy_(grad)
    if dtype is not whole_dtype:
        flat = flat._view_dtype(whole_dtype)
        before = before * dtype.itemsize // whole_dtype.itemsize
    whole = flat.as_strided(shape, strides, before)
    if not _repeats(shape, strides):
        return whole
    positions = positions_of(shape, strides, before)
    shares = np.bincount(positions)[positions].reshape(shape)  # a place that the whole shows n times gives each a share of 1/n
    return whole / wrap(moved(shares.astype(whole_dtype.numpy), device_of(grad._array)))


def positions_of(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
    """Position of each element of a strided view, in elements, as a flat int64 array."""
    positions = np.full((), offset, np.int64)
    for n, step in zip(shape, strides, strict=True):
        positions = positions[..., None] + np.arange(n) * step
    return positions.reshape(-1)


def extent_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements between the first and the last element of a strided layout, both counted."""
    return 0 if 0 in shape else 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def storage_extent(tensor: Tensor) -> int:
    """Elements between a tensor's first and last element, both counted."""
    return extent_of(tensor._array.shape, element_strides(tensor._array))


def regenerate(view: Tensor, root: Tensor) -> None:
    """Point a live view at its root's current history."""
    if view._requires_grad.__class__ is StaleHistory or not is_differentiable(view._array):
        return
    if view._view_of.__class__ is ViewMeta:
        message = _restriction(view, "its base or another view of its base has been")
        view._requires_grad = StaleHistory(message, _maker(view))
        view._node = None
        return
    point_at(view, root)


def point_at(view: Tensor, root: Tensor) -> None:
    """Record ``view`` as what ``as_strided`` makes of ``root``."""
    node = strided_node(root, view._array, view.dtype)
    _keep_retained(view, node)
    view._node, view._requires_grad = node, True


def _retained_before() -> None:
    """Stands for the reference to a tensor at its node where an earlier one, of its old shape, retains the gradient."""


def take_geometry(target: Tensor, array: np.ndarray, node: Node | None) -> None:
    """Make ``array``, of the same memory, the array of ``target``, and ``node`` its history.

    Where the change is not recorded (None), a view's history is what makes its new geometry of its root, as after any other write; another
    tensor keeps its history, which expects gradients of the old shape.
    """
    changes.count += 1
    if thread.recorder is not None:
        thread.recorder.unwritten(array)
    target._array = array
    note_order(target)
    storage_of(target)._bump()
    if node is not None:
        if target.retains_grad:
            node._hooks().retain[0] = _retained_before
        target._node = node
    elif target._node is not None and target._view_of is not None and target._view_of.__class__ is not ViewMeta:
        point_at(target, root_of(target))


def strided_node(root: Tensor, array: np.ndarray, dtype: dtypes.dtype) -> Node:
    """The node of ``array``, of dtype ``dtype``, as a strided view of ``root``."""
    whole = root._array
    node = new_node(AsStridedBackward0, (edge_of(root),), (), None, array.shape, array.dtype)
    node.attrs = (whole.shape, element_strides(whole), geometry_in(root, array), dtype, root.dtype)
    return node


def _keep_retained(tensor: Tensor, node: Any, index: int = 0) -> None:
    """Let a tensor that retains its gradient do so at its new history."""
    if tensor._node is None:
        return
    old, old_index = graph_edge(tensor._node)
    reference = None if old.hooks is None else old.hooks.retain.get(old_index)
    if reference is _retained_before:
        node._hooks().retain[index] = reference
    elif reference is not None and reference() is tensor:
        del old.hooks.retain[old_index]
        node._hooks().retain[index] = reference


def check_writable(target: Tensor, recorded: bool, *, may_overlap: bool = False) -> None:
    """Raise what PyTorch raises where ``target`` must not be written in place.

    Args:
        recorded: whether the write goes on the tape.
        may_overlap: allow a target that overlaps itself; every place gets the same value.
    Raises:
        RuntimeError: a leaf that requires grad, a view of one, an output of a function with several views, a view made without
            grad mode, a tensor that overlaps itself, or an inference tensor outside inference mode.
    """
    if grad_enabled() and (recorded or needs_grad(target)):
        _check_history(target)
    storage = target._storage
    refuse_inference(target)
    if storage is None:
        return
    if not may_overlap and overlaps_itself(target._array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def _check_history(target: Tensor) -> None:
    """Raise where a write to ``target`` cannot be recorded."""
    if target._view_of is not None:
        if target._view_of.__class__ is ViewMeta:
            if target._view_of.creation_meta == "variable":
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
            raise RuntimeError(_restriction(target, "is being"))
        root = root_of(target)
        if root._node is None and (root._requires_grad or target._requires_grad):
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if target._requires_grad and target._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def refuse_inference(target: Tensor) -> None:
    """Raise where a tensor that was made in inference mode is about to be changed outside of it."""
    if target._requires_grad is INFERENCE and not thread.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed."
            "You can make a clone to get a normal tensor before doing inplace update."
        )


def _steps(array: np.ndarray) -> list[int]:
    return [step for n, step in zip(array.shape, array.strides, strict=True) if n != 1]


def check_overlap(target: Tensor, operands: Any, *, same_allowed: bool = True) -> None:
    """Raise where an operand shows part of the memory that is about to be written.

    Args:
        same_allowed: whether it may show exactly the same elements.
    Raises:
        RuntimeError: memory is shared in part.
    """
    array = target._array
    for operand in operands:
        if (
            not isinstance(operand, Tensor)
            or (operand is target and same_allowed)
            or operand._storage is None
            or operand._storage is not target._storage
        ):
            continue
        other = operand._array
        if other is array and same_allowed:
            continue
        if not (is_dense(array) and is_dense(other)) or not array.size or not other.size:
            continue
        begin, start = address(array), address(other)
        same = begin == start and (array.shape == other.shape or array.size == other.size == 1) and _steps(array) == _steps(other)
        if (same and same_allowed) or begin >= start + other.nbytes or start >= begin + array.nbytes:
            continue
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def _maker(view: Tensor) -> tuple[Any, int]:
    """The node of a view, and which of its results the view is; of a view with a stale history, before it was."""
    if view._requires_grad.__class__ is StaleHistory:
        return view._requires_grad.maker
    return graph_edge(view._node) if view._node is not None else (None, 0)


def _restriction(view: Tensor, event: str) -> str:
    """Why a restricted view cannot take part after ``event``."""
    creation_meta = view._view_of.creation_meta
    node, index = _maker(view)
    made_by = "" if node is None else re.sub(r"Backward\d*$", "", node.name())
    if creation_meta in ("inference", "no_grad") or node is None:
        words = "A view was" if node is None else f"Output {index} of {made_by} is a view of a view which was"
        mode, now = ("inference", "in normal mode") if creation_meta == "inference" else ("no_grad", "with grad mode enabled")
        words += f" created in {mode} mode and {event} modified inplace {now}."
    else:
        words = f"Output {index} of {made_by} is a view and {event} modified inplace."
    return words + _ADVICE.get(creation_meta, _ADVICE["multi_output"])


_AMBIGUOUS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
    "inplace either both inside the {} block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be "
    "tracked)."
)
_ADVICE = {
    "no_grad": _AMBIGUOUS.format("no_grad"),
    "inference": _AMBIGUOUS.format("inference_mode"),
    "in_custom_function": " This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic "
    "to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect gradients. This "
    "behavior is forbidden. You can fix this by cloning the output of the custom Function.",
    "multi_output": " This view is the output of a function that returns multiple views. Such functions do not allow the output views to "
    "be modified inplace. You should replace the inplace operation by an out-of-place one.",
}


class WatchedStorage(UntypedStorage):
    """The storage of a tensor that requires grad and has restricted views: any write, recorded or not, ends their histories.

    Storages become one when such a view is made, or a tensor with views is detached in place. Writes count ``version`` up, wherever they
    are, so that nothing else depends on it.
    """

    __slots__ = ()

    @property
    def version(self) -> int:
        return _version.__get__(self)

    @version.setter
    def version(self, version: int) -> None:
        _version.__set__(self, version)
        self.__class__ = UntypedStorage  # type: ignore[assignment]  # until the next such view
        for alias in self._live_aliases():
            if alias._view_of is None or not needs_grad(alias):
                continue
            root = root_of(alias)
            if alias._view_of.__class__ is ViewMeta or (alias._node is not None and not needs_grad(root)):
                regenerate(alias, root)


_version: Any = UntypedStorage.__dict__["version"]


def needs_grad(tensor: Tensor) -> bool:
    """Whether a tensor requires grad, be its history stale or not."""
    return tensor._requires_grad is not False and tensor._requires_grad is not INFERENCE


def is_differentiated(tensor: Tensor) -> bool:
    """Whether a derivative of what is computed from a tensor now may be wanted: the call is recorded, or the tensor has a tangent."""
    return tensor._has_tangent or (tensor.requires_grad and grad_enabled())


def watch(storage: UntypedStorage) -> None:
    """End the histories of this storage's restricted views when it is written to."""
    if storage.__class__ is UntypedStorage:
        storage.__class__ = WatchedStorage


def rebase(target: Tensor, node: Node | Output) -> None:
    """Make ``node`` the history of ``target``, which was just written in place; ``node.edges[0]`` is its earlier history."""
    if target._view_of is None:
        _keep_retained(target, *graph_edge(node))
        target._node, target._requires_grad = node, True
        root = target
    else:
        root = root_of(target)
        array = root._array
        write = node if isinstance(node, Node) else node.node
        history = edge_of(target)
        at = next((i for i, edge in enumerate(write.edges) if edge is history), 0)
        edges = (edge_of(root), *write.edges[:at], *write.edges[at + 1 :])
        copied = new_node(CopySlices, edges, (), None, array.shape, array.dtype)
        copied.attrs = (write, at, array.shape, element_strides(array), geometry_in(root, target._array), target.dtype)
        _keep_retained(root, copied)
        root._node, root._requires_grad = copied, True
    storage = target._storage
    if storage is None:
        return
    for alias in list(storage._live_aliases()):
        if alias._view_of is not None and root_of(alias) is root:
            regenerate(alias, root)


def alias_leaf(leaf: Tensor, alias: Tensor) -> None:
    """Record ``alias``, which shows all of ``leaf``'s memory, as computed from it."""
    alias._node = new_node(AliasBackward0, (edge_of(leaf),), (), None, alias._array.shape, alias._array.dtype)
    alias._requires_grad = True


def as_subclass(self: Tensor, cls: type) -> Any:
    """The same tensor (memory and history) as an instance of a subclass.

    Source: torch.Tensor.as_subclass.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
    tensor = object.__new__(cls)
    storage = storage_of(self)
    tensor._array, tensor._storage, tensor._view_of = self._array, storage, self._view_of
    tensor._node, tensor._requires_grad = self._node, self._requires_grad
    if self._requires_grad and self._node is None:
        tensor._node, tensor._requires_grad = None, False
        if grad_enabled():
            alias_leaf(self, tensor)
    storage._add_alias(tensor)
    return tensor


Tensor.as_subclass = as_subclass  # type: ignore[method-assign]


class AliasBackward0(Node):
    __slots__ = ()

    def apply(self, grad: Tensor) -> Any:
        return (grad,)


def is_differentiable(array: np.ndarray) -> bool:
    """Whether a result of this array's dtype can require grad."""
    return dtypes.BY_NUM[array.dtype.num].category >= dtypes.FLOATING
