"""Nodes of the tape, and what they save.

One node is made per recorded call.  Its edges say where each input came from: another node, an ``Output`` of a node with several
results, a leaf tensor (whose ``.grad`` receives the gradient), or None.  Edges never point at the tensor that the call made, and
a saved *result* is kept as its array and storage, so a finished graph has no reference cycle and is freed by reference counting.

    x (leaf) <--edge-- MulBackward0 <--edge-- SumBackward0 <--_node-- loss
                          | saved: other, (array, storage) of a result
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..state import grad_enabled, tick
from .hooks import RemovableHandle

if TYPE_CHECKING:
    from ..tensor import Tensor

_new = object.__new__


class Node:
    """A recorded call, seen by users as ``tensor.grad_fn``.

    Attributes:
        edges: one per differentiable input; see this module's docstring.
        saved: the tensors that the derivative needs; None once they were freed.
        attrs: the other values that it needs (numbers, dims, shapes).
        shape, dtype: of the output (of each output, for a node with several).
        seq: clock reading at which the node was made; backward visits newer nodes first.
        hooks: None, or the node's ``Hooks``.
    Source: torch.autograd.graph.Node.
    Example:
        >>> y = torch.ones(1, requires_grad=True).exp()
        >>> y.grad_fn.name(), isinstance(y.grad_fn, torch.autograd.graph.Node)
        ('ExpBackward0', True)
        >>> [node.name() for node, output in y.grad_fn.next_functions]
        ['torch::autograd::AccumulateGrad']
    """

    __slots__ = ("__dict__", "__weakref__", "attrs", "dtype", "edges", "hooks", "saved", "seq", "shape")
    attrs: Any
    dtype: Any
    edges: tuple[Any, ...]
    hooks: Any
    saved: Any
    seq: int
    shape: Any
    is_multi_output = False  # the call returned a tuple: ``apply`` takes a list of gradients, ``shape`` and ``dtype`` are tuples
    frees = False  # whether ``saved`` holds tensors, to be dropped after a backward pass without retain_graph
    is_multi_view = False  # whether the results are several views of one input, which must not be written in place

    def apply(self, grad: Any) -> Any:
        """Gradients for ``edges``, from the gradient of the output."""
        raise NotImplementedError(f"derivative for {type(self).__name__} is not implemented")

    def release(self) -> None:
        """Drop the saved tensors after a backward pass."""
        self.saved = None

    def name(self) -> str:
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Pairs (node, output index), one per edge; a leaf is reached through its ``AccumulateGrad``."""
        return tuple(graph_edge(edge) for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        return self.__dict__.setdefault("_metadata", {})

    @property
    def requires_grad(self) -> bool:
        return True

    def _sequence_nr(self) -> int:
        return self.seq

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node ran; a returned tuple replaces ``grad_inputs``."""
        return RemovableHandle.add(self._hooks().post, hook)

    def register_prehook(self, hook: Any) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; a returned tuple replaces ``grad_outputs``."""
        return RemovableHandle.add(self._hooks().pre, hook)

    def _hooks(self) -> Hooks:
        if self.hooks is None:
            self.hooks = Hooks()
        return self.hooks

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class Hooks:
    """Hooks of one node: of its outputs (tensor hooks and retained gradients), before it runs, and after."""

    __slots__ = ("outputs", "post", "pre", "retain")

    def __init__(self) -> None:
        self.pre: dict[int, Any] = {}
        self.post: dict[int, Any] = {}
        self.outputs: dict[int, dict[int, Any]] = {}  # output index -> hooks of that tensor
        self.retain: dict[int, Any] = {}  # output index -> weak reference to the tensor that retains its gradient


class Output:
    """Edge to one result of a node with several."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int):
        self.node, self.index = node, index


class Inherited:
    """Stands in ``_requires_grad`` of a view made without grad mode of a tensor that requires grad: a leaf without gradient of its own."""

    __slots__ = ()


INHERITED = Inherited()
VARIABLE: Any = (
    1  # stands there in a transform's variable once the function has run: its gradient can be asked for, and nobody else's needs it
)


class StaleHistory:
    """Stands in ``_requires_grad`` of a restricted view whose root was written to: recording a use of it is an error.

    Args:
        maker: the view's last node, and which of its results the view is.
    """

    __slots__ = ("maker", "message")

    def __init__(self, message: str, maker: tuple[Any, int]):
        self.message, self.maker = message, maker

    def __bool__(self) -> bool:
        if grad_enabled():
            raise RuntimeError(self.message)
        return True


class NodeHook:
    """Hook of ``AccumulateGrad``, which runs after the hooks of its tensor."""

    __slots__ = ("hook",)

    def __init__(self, hook: Any) -> None:
        self.hook = hook

    def __call__(self, grad: Tensor | None) -> None:
        returned = self.hook((), (grad,))
        if returned is not None and not isinstance(returned, tuple):
            raise TypeError(f"expected tuple, but hook returned {type(returned).__name__!r}")
        if returned:
            name = getattr(self.hook, "__name__", self.hook)
            raise RuntimeError(f"hook '{name}' has returned an incorrect number of values (got {len(returned)}, but expected 0)")


class AccumulateGrad:
    """Node of a leaf in ``next_functions``: adds to the leaf's ``.grad``."""

    def __init__(self, variable: Tensor):
        self.variable = variable

    next_functions: tuple[Any, ...] = ()
    requires_grad = True

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, hook: Any) -> RemovableHandle:
        """Call ``hook((), (grad,))`` after the leaf's gradient was accumulated."""
        return self.variable.register_post_accumulate_grad_hook(NodeHook(hook))

    def register_prehook(self, hook: Any) -> RemovableHandle:
        """Call ``hook((grad,))`` before the gradient is added; a returned tuple replaces it."""

        def on_grad(grad: Tensor) -> Any:
            replaced = hook((grad,))
            return replaced if replaced is None else replaced[0]

        return self.variable.register_hook(on_grad)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash((AccumulateGrad, id(self.variable)))

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


def edge_of(tensor: Tensor) -> Any:
    """Edge of an input: the node that its gradient goes to."""
    if not tensor._requires_grad:
        return None
    return tensor if tensor._node is None else tensor._node


def graph_edge(edge: Any) -> tuple[Any, int]:
    """An edge as users see it: (node, output index)."""
    if edge is None:
        return (None, 0)
    if isinstance(edge, Node):
        return (edge, 0)
    if edge.__class__ is Output:
        return (edge.node, edge.index)
    if edge._requires_grad is INHERITED:
        return (None, 0)
    return (AccumulateGrad(edge), 0)


def complain_freed(node: Node) -> None:
    raise RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
        "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
        "you need to backward through the graph a second time or if you need to access saved tensors after calling backward."
    )


def new_node(kind: type[Node], edges: tuple[Any, ...], saved: Any, attrs: Any, shape: Any, dtype: Any) -> Node:
    """A node of class ``kind``, made now."""
    node = _new(kind)
    node.attrs = attrs
    node.edges, node.saved, node.shape, node.dtype, node.hooks, node.seq = edges, saved, shape, dtype, None, tick()
    return node
