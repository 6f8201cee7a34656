"""Values that nodes save for backward and unpack: checked against writes since, wrapped again if it was a bare result.

A saved operand is the tensor itself.  A saved result of the node's own call is a tuple (array, storage, output index): the tensor
would point back at the node and close a reference cycle.
"""

from __future__ import annotations

from typing import Any

from ..dtype import of_array
from ..state import INFERENCE, dispatchers, set_grad, thread
from ..storage import UntypedStorage
from ..tensor import Tensor, blanks, share, storage_of
from .history import alias_leaf, is_differentiable
from .node import INHERITED, Node, Output, complain_freed, edge_of, graph_edge


def is_saved_result(item: Any) -> bool:
    """Whether a saved item is a result of its own node: (array, storage, output index), without the tensor, which points at the node."""
    return item.__class__ is tuple and len(item) == 3 and isinstance(item[1], UntypedStorage)


class Packed:
    """A saved tensor that went through ``saved_tensors_hooks``, and the edge that its history hangs on.

    ``edge`` is an edge as nodes have them, or for a result of the node itself its output index (-1 where there is one output).
    """

    __slots__ = ("edge", "payload", "unpack_hook")

    def __init__(self, payload: Any, unpack_hook: Any, edge: Any):
        self.payload, self.unpack_hook, self.edge = payload, unpack_hook, edge

    def unpack(self, node: Node) -> Tensor:
        """Result of the unpack hook, with the history of the saved tensor.

        Raises:
            TypeError: the hook returned something else than a tensor.
        """
        unpacked = self.unpack_hook(self.payload)
        if not isinstance(unpacked, Tensor):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(unpacked).__name__}")
        tensor = below_tape(unpacked.detach) if unpacked.__class__ in dispatchers else share(unpacked._array, storage_of(unpacked))
        edge = self.edge
        if isinstance(edge, Tensor):
            alias_leaf(edge, tensor)
        elif edge is not None:
            if edge.__class__ is int:
                edge = node if edge < 0 else Output(node, edge)
            tensor._node, tensor._requires_grad = edge, True
        return tensor


class Kept(Packed):
    """A saved result of a class with ``__torch_dispatch__``: the tensor, detached, as its array has no values."""

    __slots__ = ()

    def __init__(self, payload: Tensor, edge: int | None):
        super().__init__(payload, None, edge)

    def unpack(self, node: Node) -> Tensor:
        storage = self.payload._storage
        if storage is not None and storage.changed > node.seq:
            place = f"output {self.edge or 0} of {node.name()}"
            complain_changed(node, self.payload.dtype.legacy, self.payload.shape, storage, place)
        tensor: Tensor = below_tape(self.payload.detach)
        tensor._node, tensor._requires_grad = node if self.edge is None else Output(node, self.edge), True
        return tensor


def below_tape(function: Any, *args: Any) -> Any:
    """``function(*args)`` without recording."""
    was = thread.grad
    if was is True:
        set_grad(False)
    try:
        return function(*args)
    finally:
        if was is True:
            set_grad(True)


def complain_changed(node: Node, kind: str, shape: tuple[int, ...], storage: Any, output_of: str) -> None:
    raise RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{kind}Tensor {list(shape)}], which is {output_of}, is at version {storage.version}; expected an earlier version "
        f"(saved by {type(node).__name__}) instead. Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True)."
    )


def complain_inference(needing: tuple[Any, ...] = (True,)) -> None:
    """Refuse to save a tensor that was made in inference mode.

    Args:
        needing: ``_requires_grad`` of the operands whose gradients need it; those without gradients of their own need nothing.
    """
    if all(not requires or requires is INHERITED for requires in needing):
        return
    raise RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by "
        "autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
        "instead of `torch.inference_mode()`."
    )


def check_saved(items: Any) -> None:
    """Raise if one of the tensors to be saved was made in inference mode."""
    for item in items:
        if item.__class__ is tuple:
            if not is_saved_result(item):
                check_saved(item)
        elif isinstance(item, Tensor) and item._requires_grad is INFERENCE:
            complain_inference()


def unpack(node: Node, item: Any) -> Any:
    """A saved item as the derivative sees it: checked against writes since, and wrapped again where it was a bare result."""
    kind = item.__class__
    if kind is Packed or kind is Kept:
        return item.unpack(node)
    if kind is tuple:
        if is_saved_result(item):
            return unpack_result(node, item)
        return tuple([unpack(node, part) for part in item])
    storage = getattr(item, "_storage", None)
    if storage is not None and storage.changed > node.seq:
        made_by, index = graph_edge(edge_of(item))
        complain_changed(node, item.dtype.legacy, item.shape, storage, f"output {index} of {made_by.name()}" if made_by else "a leaf")
    return item


def unpack_result(node: Node, item: Any) -> Any:
    """A saved result wrapped again: the tensor that ``node`` made, with its history."""
    if item.__class__ is not tuple:
        return unpack(node, item)
    array, storage, index = item
    if storage.changed > node.seq:
        complain_changed(node, of_array(array).legacy, array.shape, storage, f"output {index or 0} of {node.name()}")
    tensor = next(blanks)
    tensor._array, tensor._storage, tensor._view_of, tensor._requires_grad = array, storage, None, True
    if index is None:
        tensor._node = node
    elif is_differentiable(array):
        tensor._node = Output(node, index)
    else:  # places of elements, which are no part of the graph
        tensor._node, tensor._requires_grad = None, False
    return tensor


def pack_saved(node: Node, item: Any, pack: Any, unpack_hook: Any) -> Any:
    """A saved tensor after the pack hook of ``saved_tensors_hooks``."""
    if is_saved_result(item):
        index = item[2]
        return Packed(pack(unpack_result(node, item).detach()), unpack_hook, -1 if index is None else index)
    if item.__class__ is Kept:
        return Packed(pack(item.payload), unpack_hook, -1 if item.edge is None else item.edge)
    if item.__class__ is tuple:
        return tuple([pack_saved(node, part, pack, unpack_hook) for part in item])
    return Packed(pack(item), unpack_hook, edge_of(item)) if isinstance(item, Tensor) else item


class SavedTensor:
    """A tensor that a node keeps, as ``grad_fn._raw_saved_<name>`` shows it."""

    __slots__ = ("_index", "_node")

    def __init__(self, node: Node, index: int):
        self._node, self._index = node, index

    def register_hooks(self, pack_hook: Any, unpack_hook: Any) -> None:
        """Keep what ``pack_hook`` makes of the detached tensor; ``unpack_hook`` makes a tensor of it again when it is needed.

        Raises:
            RuntimeError: hooks are there already, or what was kept is freed.
        """
        node = self._node
        if node.saved is None:
            complain_freed(node)
        items = list(node.saved)
        if items[self._index].__class__ is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        items[self._index] = pack_saved(node, items[self._index], lambda tensor: pack_hook(tensor.detach()), unpack_hook)
        node.saved = tuple(items)
