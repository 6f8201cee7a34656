"""Recording: how a call's results, views and in-place writes get their place on the tape.

In-place writes to views.  All views of one root tensor share its storage, and the tape follows the root.  When ``v`` (a view of
``x``) is written in place by an operation recorded as node N, the root's history is rebased and every live view is pointed
at it again:

      before                              after  v.mul_(w)

      A <--- x                            A <--- CopySlices(N) <--- x
      ^                                             ^
      AsStrided <--- v                              AsStrided <--- v  (and every other live view of x)

``CopySlices`` sends to A the gradient of ``x`` with the part that ``v`` shows replaced by what N's derivative makes of it.
Views know their root (``_view_of``), roots find their views through the storage's weak list of aliases.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtype as dtypes
from .node import Node, Output, edge_of, graph_edge, new_node
from .shape import element_strides, overlaps_itself
from .state import grad_enabled, thread
from .tensor import RestrictedView, Tensor, root_of, storage_of, wrap


def geometry_in(root: Tensor, array: np.ndarray) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and offset (in elements, counted from the root's first element) of a view of ``root``."""
    offset = 0
    if array.size and root._array.size:
        offset = array.__array_interface__["data"][0] - root._array.__array_interface__["data"][0]
    return array.shape, element_strides(array), offset // array.itemsize


def make_view(array: np.ndarray, base: Tensor) -> Tensor:
    """A tensor around a view of ``base``'s memory; not recorded yet."""
    storage = storage_of(base)
    view = object.__new__(Tensor)
    view._array, view._storage, view._node, view._requires_grad = array, storage, None, False
    view._view_of = view_of(base)
    storage._add_alias(view)
    return view


def view_of(base: Tensor) -> Any:
    """What goes into ``_view_of`` of a view of ``base``."""
    if not grad_enabled() and not thread.inference:
        return RestrictedView(root_of(base), "no_grad")
    return base if base._view_of is None else base._view_of


class CopySlices(Node):
    """History of a tensor after a recorded in-place write through one of its views; see this module's docstring."""

    __slots__ = ()
    frees = True

    def apply(self, grad: Tensor) -> Any:
        write, shape, strides, view = self.attrs
        kept = grad.new_empty_strided(shape, strides)
        kept.copy_(grad)
        part = kept.as_strided(*view)
        inner = write.apply([part.clone()] if write.is_several else part.clone())
        if self.edges[0] is not None:
            if inner[0] is None:
                part.zero_()
            else:
                part.copy_(inner[0])
        return (kept, *inner[1:])

    def release(self) -> None:
        write = self.attrs[0]
        if write.frees:
            write.release()


class AsStridedBackward0(Node):
    """History of a view that was made again because its root's history changed."""

    __slots__ = ()

    def apply(self, grad: Tensor) -> Any:
        shape, strides, view = self.attrs
        return (scatter_view(grad.new_empty_strided(shape, strides).zero_(), view, grad),)


def scatter_view(whole: Tensor, view: tuple[Any, ...], grad: Tensor) -> Tensor:
    """``whole`` with ``grad`` added at the places that a view of it shows; places shown several times get the sum."""
    part = whole.as_strided(*view)
    if not overlaps_itself(part._array):
        part.copy_(grad)
        return whole
    flat = whole.new_zeros(storage_extent(whole)).index_add(0, wrap(positions_of(*view)), grad.reshape(-1))
    return flat.as_strided(whole.shape, whole.stride(), 0)


def positions_of(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
    """Where each element of a strided view lies, in elements, as a flat int64 array."""
    positions = np.full((), offset, np.int64)
    for n, step in zip(shape, strides, strict=True):
        positions = positions[..., None] + np.arange(n) * step
    return positions.reshape(-1)


def storage_extent(tensor: Tensor) -> int:
    """Elements between a tensor's first and last element, both counted."""
    return 1 + sum((n - 1) * step for n, step in zip(tensor._array.shape, element_strides(tensor._array), strict=True))


def regenerate(view: Tensor, root: Tensor) -> None:
    """Point a live view at its root's current history."""
    array = root._array
    node = new_node(AsStridedBackward0, (edge_of(root),), (), None, view._array.shape, view._array.dtype)
    node.attrs = (array.shape, element_strides(array), geometry_in(root, view._array))
    view._node, view._requires_grad = node, True


def check_writable(target: Tensor, recorded: bool) -> None:
    """Raise what PyTorch raises where ``target`` must not be written in place.

    Raises:
        RuntimeError: a leaf that requires grad, a view of one, an output of a function with several views, a view made without
            grad mode, a tensor that overlaps itself, or an inference tensor outside inference mode.
    """
    storage = target._storage
    if storage is not None:
        if overlaps_itself(target._array):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                "Please clone() the tensor before performing the operation."
            )
        if storage.is_inference and not thread.inference:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed."
                "You can make a clone to get a normal tensor before doing inplace update."
            )
    if not grad_enabled():
        return
    if target._view_of is not None:
        root = root_of(target)
        if root._node is None and root._requires_grad:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        if recorded:
            _check_view_kind(target)
    if target._requires_grad and target._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _check_view_kind(view: Tensor) -> None:
    marker = view._view_of
    if marker.__class__ is not RestrictedView:
        return
    if marker.kind == "no_grad":
        raise RuntimeError(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is "
            "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either "
            "both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
            "be tracked)."
        )
    node, index = graph_edge(view._node) if view._node is not None else (None, 0)
    made_by = node.name().removesuffix("Backward0") if node is not None else marker.kind
    raise RuntimeError(
        f"Output {index} of {made_by} is a view and is being modified inplace. This view is the output of a function that returns "
        "multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation "
        "by an out-of-place one."
    )


def rebase(target: Tensor, node: Node | Output) -> None:
    """Make ``node`` the history of ``target``, which was just written in place; ``node.edges[0]`` is its earlier history."""
    if target._view_of is None:
        target._node, target._requires_grad = node, True
        root = target
    else:
        root = root_of(target)
        array = root._array
        write = node if isinstance(node, Node) else node.node
        copied = new_node(CopySlices, (edge_of(root), *write.edges[1:]), (), None, array.shape, array.dtype)
        copied.attrs = (write, array.shape, element_strides(array), geometry_in(root, target._array))
        root._node, root._requires_grad = copied, True
    storage = target._storage
    if storage is None:
        return
    for alias in list(storage._live_aliases()):
        if alias._view_of is not None and root_of(alias) is root:
            regenerate(alias, root)


def alias_leaf(leaf: Tensor, made: Tensor) -> None:
    """Record ``made``, which shows all of ``leaf``'s memory, as computed from it."""
    made._node = new_node(AliasBackward0, (edge_of(leaf),), (), None, made._array.shape, made._array.dtype)
    made._requires_grad = True


class AliasBackward0(Node):
    __slots__ = ()

    def apply(self, grad: Tensor) -> Any:
        return (grad,)


def is_differentiable(array: np.ndarray) -> bool:
    """Whether a result of this array's dtype can require grad."""
    return dtypes.BY_NUM[array.dtype.num].category >= dtypes.FLOATING
