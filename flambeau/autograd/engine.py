"""The backward pass.

Nodes wait in a heap, newest first.  A node is newer than everything it was computed from, so when it is taken out every
contribution to its output's gradient has arrived; no recursion, no counting of consumers.  Gradients of leaves are collected and
added to ``.grad`` at the end, so a pass that fails changes nothing.  The exception are leaves with hooks that run after accumulation:
one walk over the graph counts the edges to each of them, and a leaf's gradient is added as soon as none is left.  So its hooks can send
the gradient elsewhere, or use it up, while others are computed.

A gradient arriving at an input is brought to that input's shape, dtype and realness here, in one place: derivative rules
need not handle broadcasting, promotion or real inputs of complex functions.
"""

from __future__ import annotations

import heapq
import operator
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.copies import add
from ..core.arrays.kinds import as_array, copied, on_device_of
from ..core.calls.casting import cast_array
from ..core.calls.machine_calls import engines
from ..core.calls.scalars import FLOATS32, FLOATS64
from ..core.layout import empty_strided_array
from ..core.profiling import current
from ..core.shape import broadcast_or_none, contiguous_strides, element_strides, is_dense
from ..core.state import (
    active,
    as_user,
    crowded,
    dispatchers,
    grad_enabled,
    interposed,
    is_intercepted,
    modes,
    profiling,
    set_inference,
    thread,
    tick,
)
from ..core.storage import ResultMemory
from ..core.tape.hooks import hooked_leaves
from ..core.tape.node import INHERITED, AccumulateGrad, Node, NodeHook, Output, StaleHistory, edge_of
from ..core.tensor import Tensor, new_storage, wrap
from .anomaly import anomaly

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_push, _pop = heapq.heappush, heapq.heappop
MOVED = "leaf variable has been moved into the graph interior"


def fit(grad: Tensor, shape: tuple[int, ...], dtype: np.dtype, node: Node, edge: Any) -> Tensor:
    """``grad`` with the shape and dtype of the input that it belongs to; ``edge`` of ``node`` leads to that input.

    Raises:
        RuntimeError: it is not broadcastable from that shape.
    """
    array = grad._array
    want = None if array.dtype is dtype or array.dtype == dtype else dtypes.BY_NUM[dtype.num]
    if want is not None and array.dtype.kind in "cV" and not want.is_complex and grad.is_complex():
        grad = grad.real
    have = array.shape
    if have != shape:
        if have[len(have) - len(shape) :] != shape and broadcast_or_none(shape, have) != have:
            index = next(i for i, other in enumerate(node.edges) if other is edge)
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {index} - got {list(have)} but expected shape compatible "
                f"with {list(shape)}"
            )
        grad = grad._sum_to_size(shape)
    return grad if want is None else grad.to(want)  # after the sum, which has the wider dtype


def brought(grad: Tensor, node: Node, edge: Any) -> Tensor:
    """``grad`` as what ``edge`` of ``node`` leads to wants it."""
    if isinstance(edge, Node):
        shape, dtype = edge.shape, edge.dtype
    elif edge.__class__ is Output:
        shape, dtype = edge.node.shape[edge.index], edge.node.dtype[edge.index]
    else:
        shape, dtype = edge._array.shape, edge._array.dtype
    array = grad._array
    return grad if array.dtype is dtype and array.shape == shape else fit(grad, shape, dtype, node, edge)


def added(have: Tensor, more: Tensor, record: bool = False) -> Tensor:
    """Sum of two gradients."""
    if not record and have.__class__ is Tensor and more.__class__ is Tensor:
        a, b = have._array, more._array
        if a.dtype is b.dtype and a.shape == b.shape and not crowded and not (active and is_intercepted()):
            return wrap(as_array(add(a, b)))
    return have + more


def _add_pending(pending: dict[Node, Any], node: Node, more: Tensor, record: bool) -> None:
    """Add to a node's pending gradient: in its own memory, if nothing else refers to that."""
    have = pending[node]._array
    in_place = not (record or crowded or interposed or active) and more.__class__ is Tensor is pending[node].__class__
    if (
        in_place
        and have.__class__ is np.ndarray is more._array.__class__
        and have.dtype is more._array.dtype
        and have.shape == more._array.shape
    ):
        del have
        if _is_alone(pending, node) and pending[node]._array.flags.writeable:
            total = pending[node]._array
            if add(total, more._array, total) is total:
                return
    pending[node] = added(pending[node], more, record)


def _add_to_leaf(entry: list[Any], grad: Tensor, record: bool) -> None:
    """Add to the gradient ``entry[1]`` of a leaf; ``entry[2]``: whether that is a sum made here, which has no other owner."""
    if entry[2] and grad.__class__ is Tensor:
        have = entry[1]._array
        total = add(have, grad._array, have)
        if total is not have:  # a sparse one and a dense one
            entry[1] = wrap(total)
    else:
        entry[1] = added(entry[1], grad, record)
        entry[2] = not (record or crowded or interposed or active) and entry[1].__class__ is Tensor and entry[1]._array is not grad._array


class _Pass:
    """One backward pass: pending gradients per node, gradients collected for leaves and for requested inputs."""

    __slots__ = (
        "__weakref__",
        "add",
        "at_end",
        "awaited",
        "begun",
        "captured",
        "heap",
        "keep",
        "leaves",
        "left",
        "needed",
        "outer",
        "pending",
        "reached",
        "record",
        "visited",
    )
    captured: dict[Node, Any]  # of a pass with chosen inputs: the gradients of inputs that are nodes' outputs
    reached: set[Node]  # these nodes and the ``needed`` ones
    add: Callable[[Tensor, list[Any], bool], None]  # adds to a leaf's ``.grad``
    begun: Any  # the nodes and the leaves of a pass that machine code has begun, or None
    left: dict[int, int]  # by id of a leaf with hooks after accumulation: edges to it whose gradients have not come yet

    def __init__(self, keep: bool, record: bool):
        self.keep, self.record = keep, record
        self.heap: list[tuple[int, Node]] = []
        self.pending: dict[Node, Any] = {}
        self.leaves: dict[int, list[Any]] = {}
        self.visited: tuple[Node, Any] | None = None  # a node and its gradients that are still to be sent on
        self.needed: set[Any] | None = None  # nodes to run; None for all (no inputs were chosen)
        self.at_end: list[Any] = []
        self.left = {}
        self.outer: _Pass | None = thread.running  # the pass of this thread in whose midst this one begins
        self.awaited: dict[int, list[int]] = {}  # by id of a node: ids of the leaves in ``left`` that its edges lead to

    def send(self, edge: Any, grad: Tensor) -> None:
        """Add a gradient to what is pending for its producer."""
        if isinstance(edge, Tensor):
            entry = self.leaves.setdefault(id(edge), [edge, None, False])
            entry[1] = grad if entry[1] is None else added(entry[1], grad, self.record)
        elif edge.__class__ is Output:
            self.send_to_output(edge.node, edge.index, grad)
        else:
            have = self.pending.get(edge)
            self.pending[edge] = grad if have is None else added(have, grad, self.record)
            if have is None:
                _push(self.heap, (-edge.seq, edge))

    def run_in_turn(self, node: Node) -> None:
        """Have a node with several outputs run when its turn comes, even if no gradient reaches it."""
        self.pending[node] = [None] * len(node.shape)
        _push(self.heap, (-node.seq, node))

    def send_to_output(self, node: Node, index: int, grad: Tensor) -> None:
        """Add ``grad`` to what is pending for one output of a node with several."""
        grads = self.pending.get(node)
        if grads is None:
            grads = self.pending[node] = [None] * len(node.shape)
            _push(self.heap, (-node.seq, node))
        grads[index] = grad if grads[index] is None else added(grads[index], grad, self.record)

    def go_on(self, nodes: list[Any], leaves: list[Any]) -> None:
        """Go on with a pass that machine code began: nodes, the oldest first, each with its gradient behind it, and leaves with theirs.

        What that leaves is put where ``run`` has it.
        """
        if engines[0](nodes, leaves, bool(self.keep), self.visit) is not True:
            self.pending = dict(zip(nodes[::2], nodes[1::2], strict=True))
            self.heap = [(-node.seq, node) for node in reversed(nodes[::2])]
            self.leaves = {id(leaf): [leaf, grad, is_sum] for leaf, grad, is_sum in zip(*[iter(leaves)] * 3, strict=True)}
        nodes.clear()
        leaves.clear()
        if self.visited is not None:
            self._send_on(*self.visited)

    def _send_on(self, node: Node, grads: tuple[Any, ...]) -> None:
        """Send the gradients that ``node`` gave along its edges."""
        for edge, grad in zip(node.edges, grads, strict=False):
            if edge is None or grad is None:
                continue
            if isinstance(edge, Tensor) and edge._node is not None and id(edge) not in self.leaves:
                raise RuntimeError(MOVED)
            self.send(edge, brought(grad, node, edge))

    def visit(self, node: Node, grad: Any) -> tuple[Any, ...] | None:
        """Gradients for the edges of a node that machine code leaves to Python; None where it cannot send them on."""
        if node.hooks is not None:
            grad = self._before(node, grad)
        grads = tuple(_applied(node, grad))
        if not self.keep and node.frees:
            node.release()
        if all(part is None or part.__class__ is Tensor for part in grads):
            return grads
        self.visited = node, grads
        return None

    def run(self) -> None:
        heap, pending, leaves, needed = self.heap, self.pending, self.leaves, self.needed
        reached: Any = None if needed is None else self.reached
        keep, goes_straight, awaited = self.keep, not crowded and not profiling, self.awaited
        while heap:
            node = _pop(heap)[1]
            grad = pending.pop(node)
            if node.hooks is not None:
                grad = self._before(node, grad)
            if needed is not None:
                if node in self.captured:
                    self.captured[node] = grad
                if node not in needed:
                    continue
            if goes_straight and node.hooks is None and not anomaly.enabled:
                grads = node.apply(grad)
            else:
                grads = _applied(node, grad)
            if not keep and node.frees:
                node.release()
            for edge, edge_grad in zip(node.edges, grads):
                if edge_grad is None or edge is None:
                    continue
                array = edge_grad._array
                if isinstance(edge, Node):
                    if needed is not None and edge not in reached:
                        continue
                    if array.dtype is not edge.dtype or array.shape != edge.shape:
                        edge_grad = fit(edge_grad, edge.shape, edge.dtype, node, edge)
                    if edge in pending:
                        _add_pending(pending, edge, edge_grad, self.record)
                    else:
                        pending[edge] = edge_grad
                        _push(heap, (-edge.seq, edge))
                elif edge.__class__ is Output:
                    source, index = edge.node, edge.index
                    if needed is not None and source not in reached:
                        continue
                    if array.dtype is not source.dtype[index] or array.shape != source.shape[index]:
                        edge_grad = fit(edge_grad, source.shape[index], source.dtype[index], node, edge)
                    self.send_to_output(source, index, edge_grad)
                else:
                    target = edge._array
                    if array.dtype is not target.dtype or array.shape != target.shape:
                        edge_grad = fit(edge_grad, target.shape, target.dtype, node, edge)
                    entry = leaves.get(id(edge))
                    if entry is None:
                        if edge._node is not None and needed is None:
                            raise RuntimeError(MOVED)
                        leaves[id(edge)] = [edge, edge_grad, False]
                    else:
                        _add_to_leaf(entry, edge_grad, self.record)
            if awaited and id(node) in awaited:
                grad = grads = edge_grad = array = None  # a gradient that nothing else refers to need not be copied
                self._count_down(awaited.pop(id(node)))

    def _count_down(self, leaves: list[int]) -> None:
        """Note that a gradient came over one edge to each of these leaves; finish those that wait for no other."""
        for leaf in leaves:
            self.left[leaf] -= 1
            if not self.left[leaf] and leaf in self.leaves and self.leaves[leaf][0]._requires_grad is True:
                del self.left[leaf]
                self.finish(self.leaves.pop(leaf), True)

    def finish_undefined(self) -> None:
        """Run the hooks of leaves that wait for a gradient which no node gave: they are told that there is none."""
        for key in [key for key in self.left if key not in self.leaves]:
            leaf = hooked_leaves.get(key)
            if leaf is not None and leaf._requires_grad is True:
                for hook in list((leaf.__dict__.get("_backward_hooks") or {}).values()):
                    if as_user(hook, None) is not None:
                        raise RuntimeError("can't replace a None gradient with a non-None value")
                _run_after(leaf, None)

    def finish(self, entry: list[Any], accumulates: bool) -> None:
        """Run a leaf's hooks over its whole gradient; add that to ``.grad`` and run the hooks that come after."""
        leaf = entry[0]
        attributes = leaf.__dict__
        if attributes.get("_backward_hooks"):
            for hook in list(attributes["_backward_hooks"].values()):
                entry[1] = _hooked(entry[1], hook)
        if accumulates:
            with _adding:
                adding.append(None)
                try:
                    self.add(leaf, entry, self.record)
                finally:
                    adding.pop()
            if "_post_accumulate_grad_hooks" in attributes:
                _run_after(leaf, entry[1])

    def _before(self, node: Node, grad: Any) -> Any:
        """Tensor hooks of the outputs, then retained gradients."""
        if profiling and (profile := current()) is not None:
            profile.evaluate(node)
        hooks = node.hooks
        grads = grad if node.is_multi_output else [grad]
        for index, group in hooks.outputs.items():
            for hook in list(group.values()):
                if grads[index] is not None:
                    grads[index] = _hooked(grads[index], hook)
        for index, reference in hooks.retain.items():
            tensor = reference()
            if tensor is not None and grads[index] is not None:
                have = getattr(tensor, "_grad", None)
                tensor._grad = grads[index] if have is None else have + grads[index]
        return grads if node.is_multi_output else grads[0]


def _applied(node: Node, grad: Any) -> Any:
    """``apply`` with the node's own hooks around it, and whoever else looks at it."""
    if node.hooks is not None and node.hooks.pre:
        grad = _prepared(node, grad)
    grads = _traced_apply(node, grad) if anomaly.enabled else _apply_around(node, grad)
    if node.hooks is not None and node.hooks.post:
        grads = _after(node, grads, grad)
    return grads


def _prepared(node: Node, grad: Any) -> Any:
    """Gradients after the node's own pre-hooks; neither retained nor returned gradients show it."""
    grads = grad if node.is_multi_output else [grad]
    for hook in list(node.hooks.pre.values()):
        replaced = as_user(hook, tuple(grads))
        if replaced is not None:
            grads = list(replaced) if isinstance(replaced, (tuple, list)) else [replaced]
    return grads if node.is_multi_output else grads[0]


def _apply_around(node: Node, grad: Any) -> Any:
    """``apply`` as several devices and a profile have it."""
    apply = _apply_on_its_device if crowded else type(node).apply
    profile = current() if profiling else None
    return apply(node, grad) if profile is None else profile.node(node, grad, apply)


def _apply_on_its_device(node: Node, grad: Any) -> Any:
    """``apply`` with the gradient's device as the current one, for what a rule computes with arrays."""
    given = next((part for part in grad if part is not None), None) if isinstance(grad, (list, tuple)) else grad
    if given is None:
        return node.apply(grad)
    with on_device_of(given._array):
        return node.apply(grad)


def _traced_apply(node: Node, grad: Any) -> Any:
    """``apply`` under anomaly detection."""
    try:
        grads = _apply_around(node, grad) if crowded or profiling else node.apply(grad)
    except Exception:
        anomaly.blame(node)
        raise
    anomaly.check(node, grads)
    return grads


def _hooked(grad: Tensor, hook: Any) -> Tensor:
    replaced = as_user(hook, grad)
    if replaced is None:
        return grad
    if not isinstance(replaced, Tensor):
        raise TypeError(f"hook returned {type(replaced).__name__}, expected a Tensor or None")
    if replaced._array.shape != grad._array.shape:
        raise RuntimeError(f"hook '{getattr(hook, '__name__', hook)}' has changed the size of value")
    return replaced


def _after(node: Node, grads: Any, grad: Any) -> Any:
    outputs = tuple(grad) if node.is_multi_output else (grad,)
    for hook in list(node.hooks.post.values()):
        replaced = as_user(hook, tuple(grads), outputs)
        if replaced is not None:
            grads = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
    return grads


_adding = threading.RLock()  # passes of several threads may add to one leaf
adding: list[None] = []  # not empty while one does: machine code, which nobody interrupts, does not then


def _unlock() -> None:
    """In a forked child there are no other threads that could be adding."""
    global _adding
    _adding = threading.RLock()
    adding.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def accumulate(leaf: Tensor, entry: list[Any], record: bool) -> None:
    """Add a gradient to ``leaf.grad``: a tensor of its own the first time, in place afterwards (unless recording).

    Args:
        entry: the gradient as ``entry[1]``. Who holds it is counted, so that no variable may refer to it before ``_is_ours`` has looked.
    """
    have: Any = getattr(leaf, "_grad", None)
    if have is None and not record:
        if entry[1].__class__ in dispatchers:
            leaf._grad = modes.below.own_gradient(leaf, entry[1])
        elif entry[1]._requires_grad or entry[1].__class__ is not Tensor:
            leaf._grad = entry[1].detach().clone()
        elif thread.recorder is not None:
            leaf._grad = _copied_as(leaf, entry[1])
        elif _is_ours(entry, leaf._array):
            leaf._grad = entry[1]
        else:
            leaf._grad = wrap(_laid_out_as(leaf._array, entry[1]._array))
        return
    grad = entry[1]
    if record:
        leaf._grad = have + grad if have is not None else _recorded_as(leaf, grad)
    elif have.__class__ is Tensor and have._array.dtype is grad._array.dtype and not have._requires_grad:
        array, more = have._array, grad._array
        repeats = array.__class__ is np.ndarray and 0 in array.strides  # ``add_`` refuses to write one element several times
        if repeats or crowded or thread.dispatch_modes or grad.__class__ in dispatchers or thread.recorder is not None:
            have.add_(grad)
            return
        try:
            total = add(array, more, array)
        except ValueError:
            if array.shape == more.shape:
                raise
            have.add_(grad)  # of another shape, as after ``transpose_``: this raises the error
            return
        if total is not array:  # a sparse gradient that a dense one was added to
            leaf._grad = wrap(total)
            return
        storage = have._storage
        if storage is None:
            storage = new_storage(have)
        storage.version += 1
        storage.changed = tick()
    elif have.__class__ in dispatchers and not have._requires_grad:
        have.add_(grad)
    else:
        leaf._grad = (have.detach() if have._requires_grad else have) + grad


def _run_after(leaf: Tensor, grad: Tensor | None) -> None:
    """Run hooks of an accumulated gradient, those of the node last, which get what was added; results are refused as PyTorch does."""
    hooks = leaf.__dict__["_post_accumulate_grad_hooks"].values()
    for hook in sorted(hooks, key=lambda hook: hook.__class__ is NodeHook):
        given = as_user(hook, grad if hook.__class__ is NodeHook else leaf)
        if given is not None:
            kind = RuntimeError if isinstance(given, Tensor) else TypeError
            raise kind(f"Tensor post accumulate grad hooks should return None, got {type(given).__name__}")


def _accumulate_inside(inputs: Sequence[Any], edges: Sequence[Any], grads: Sequence[Tensor | None], record: bool) -> None:
    """Add the gradients of those ``inputs`` that are no leaves to their ``.grad``."""
    for tensor, edge, grad in zip(inputs, edges, grads, strict=True):
        if grad is not None and not isinstance(edge, Tensor):
            with _adding:
                accumulate(tensor, [tensor, grad], record)


def _references(entry: list[Any]) -> int:
    return sys.getrefcount(entry[1])


_ALONE = _references([None, object()])  # references to what only one container holds, as this interpreter counts them


def _wanted_strides(leaf: Any) -> tuple[int, ...]:
    """Strides, in elements, of the gradient of a leaf's array: its own where it is dense, else row by row."""
    return element_strides(leaf) if is_dense(leaf) else contiguous_strides(leaf.shape)


def _agree(array: Any, strides: tuple[int, ...]) -> bool:
    """Whether an array has these strides, in elements, but for sizes of 1."""
    return all(n == 1 or have == want for n, have, want in zip(array.shape, element_strides(array), strides, strict=True))


def _recorded_as(leaf: Tensor, grad: Tensor) -> Tensor:
    """A first gradient that stays in the graph, with the strides that ``_laid_out_as`` gives."""
    array = grad._array
    if array.__class__ is np.ndarray is leaf._array.__class__ and array.strides != leaf._array.strides:
        wanted = _wanted_strides(leaf._array)
        if not _agree(array, wanted):
            return grad.new_empty_strided(grad.shape, wanted).copy_(grad)
    return grad.clone() if grad._storage is not None else grad


def _copied_as(leaf: Tensor, grad: Tensor) -> Tensor:
    """A first gradient while a program is recorded, with the strides that it has otherwise.

    ``_is_ours`` cannot tell, as the recorder holds every array: those of results of operations count as ours here.
    """
    array, wanted = grad._array, leaf._array
    if array.__class__ is np.ndarray is wanted.__class__ and array.strides != wanted.strides:
        is_new = grad._storage is None and (array.base is None or array.base.__class__ is ResultMemory)
        steps = _wanted_strides(wanted)
        if not (is_new and _agree(array, steps)):
            return grad.new_empty_strided(grad.shape, steps).copy_(grad)
    return grad.clone()


def _laid_out_as(leaf: Any, grad: Any) -> Any:
    """A copy of a gradient that lies in memory as its leaf does: with its strides where the leaf is dense, else row by row."""
    if leaf.__class__ is not np.ndarray or grad.__class__ is not np.ndarray:
        return copied(grad, "K" if grad.flags.f_contiguous else "C")
    if leaf.strides == grad.strides:
        return grad.copy(order="K") if is_dense(grad) else grad.copy()
    made = empty_strided_array(leaf.shape, _wanted_strides(leaf), grad.dtype)
    made[...] = grad
    return made


def _is_ours(entry: list[Any], leaf: Any) -> bool:
    """Whether a gradient may become a leaf's ``.grad`` as it is: nothing but ``entry`` refers to it, nothing else shows its memory.

    Its strides are those that ``_laid_out_as`` gives, too.
    """
    array = entry[1]._array
    if array.__class__ is not np.ndarray:
        return False
    if leaf.__class__ is np.ndarray and array.strides != leaf.strides and not _agree(array, _wanted_strides(leaf)):
        return False
    del array
    return _is_alone(entry, 1)


def _is_alone(grads: Any, key: Any) -> bool:
    """Whether nothing but the container ``grads`` refers to a gradient in it, an array's, and nothing else shows its memory."""
    base = grads[key]._array.base  # for a large result its memory, which is the array's own all the same
    if grads[key]._storage is not None or (base is not None and base.__class__ is not ResultMemory):
        return False
    return sys.getrefcount(grads[key]) == _ALONE == sys.getrefcount(grads[key]._array)


def run_backward(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    keep: bool,
    record: bool,
    inputs: Sequence[Tensor] | None = None,
    *,
    accumulates: bool = True,
    nodes: Sequence[Node] = (),
    add: Callable[[Tensor, list[Any], bool], None] | None = None,
) -> list[Tensor | None]:
    """Send ``grads`` back from ``roots``; add to leaves' ``.grad``, or return the gradients of ``inputs``.

    Args:
        nodes: of several outputs each, that run in any case.
        add: what adds to a leaf's gradient, in place of ``accumulate``.
    """
    begun: Any = None
    if engines and inputs is None and not record and len(roots) == 1 and accumulates and not nodes and add is None:
        begun = engines[0](roots[0], grads[0], bool(keep))
        if begun is True:
            return []
    work = _Pass(keep, record)
    work.add, work.begun = add or accumulate, begun
    return _run(work, roots, grads, inputs, accumulates, nodes)


def _run(work: _Pass, roots: Any, grads: Any, inputs: Any, accumulates: bool, nodes: Sequence[Node]) -> list[Tensor | None]:
    """``run_backward`` with the thread set up for Python; what machine code has begun goes on."""
    record, begun, targets = work.record, work.begun, None
    if inputs is not None:
        targets = [edge_of(source) if isinstance(source, Tensor) else _edge_named(*source) for source in inputs]
        _find_needed(roots, targets, work)
    was, outside = (thread.inference, thread.grad_mode), thread.outside
    around = thread.function_override, thread.function_modes, thread.autocast
    running, in_library = thread.running, thread.in_library
    if (profile := current() if profiling else None) is not None:
        profile.passing()
    try:
        set_inference(False, record)
        thread.outside, thread.function_override, thread.function_modes, thread.autocast = around, False, (), None
        thread.running, thread.in_library = work, in_library or True
        for root, grad in zip(roots, grads, strict=True) if begun is None else ():
            work.send(root if root._node is None else root._node, seed_gradient(root, grad))
        for node in nodes:
            work.run_in_turn(node)
        chosen = None if targets is None else {id(target) for target in targets if isinstance(target, Tensor)}
        if accumulates and hooked_leaves:
            _await_hooked(work, [*nodes, *map(edge_of, roots)], chosen)
        if profile is not None:
            work.add = profile.accumulating(work.add)
        try:
            if begun is not None:
                work.go_on(*begun)
            work.run()
        finally:
            if profile is not None:
                profile.leave()
        for entry in list(work.leaves.values()):
            if (chosen is None or id(entry[0]) in chosen) and entry[0]._requires_grad is True:
                work.finish(entry, accumulates)
        if work.left:
            work.finish_undefined()
        for function in work.at_end:
            as_user(function)
        results: list[Tensor | None] = [] if targets is None else [_collected(work, edge) for edge in targets]
        if targets is not None and accumulates:
            _accumulate_inside(inputs or (), targets, results, record)
        return results
    finally:
        if profile is not None:
            profile.passed()
        thread.running, thread.in_library = running, in_library
        thread.outside, (thread.function_override, thread.function_modes, thread.autocast) = outside, around
        try:
            set_inference(*was)
        except BaseException:  # a signal handler's, as the call began
            set_inference(*was)
            raise


def _await_hooked(work: _Pass, starts: list[Any], chosen: set[int] | None) -> None:
    """Count the edges from nodes that will run to each leaf with hooks that come after accumulation."""
    hooked = {key for key, leaf in list(hooked_leaves.items()) if leaf.__dict__.get("_post_accumulate_grad_hooks")}
    counts = dict.fromkeys(hooked if chosen is None else hooked & chosen, 0)
    needed, seen, stack = work.needed, set(), starts if counts else []
    while stack:
        edge = stack.pop()
        node = edge.node if edge.__class__ is Output else edge
        if not isinstance(node, Node) or id(node) in seen or (needed is not None and node not in needed):
            continue
        seen.add(id(node))
        for next_edge in node.edges:
            if next_edge is None:
                continue
            if id(next_edge) in counts:
                counts[id(next_edge)] += 1
                work.awaited.setdefault(id(node), []).append(id(next_edge))
            else:
                stack.append(next_edge)
    work.left = {key: count for key, count in counts.items() if count}


def _edge_named(node: Any, output_nr: int) -> Any:
    """The edge that users call ``GradientEdge(node, output_nr)``."""
    if isinstance(node, AccumulateGrad):
        return node.variable
    return Output(node, output_nr) if node.is_multi_output else node


def _collected(work: _Pass, edge: Any) -> Tensor | None:
    if isinstance(edge, Tensor):
        entry = work.leaves.get(id(edge))
        return None if entry is None else entry[1]
    if edge.__class__ is Output:
        grads = work.captured.get(edge.node)
        return None if grads is None else grads[edge.index]
    return work.captured.get(edge)


def _find_needed(roots: Sequence[Tensor], targets: list[Any], work: _Pass) -> None:
    """Collect the nodes on paths from a root to a target, which must run, and the targets that are nodes.

    Nodes are newer than their inputs, so visiting them oldest first sees every input before its user.
    """
    wanted = {id(target.node if target.__class__ is Output else target) for target in targets if target is not None}
    seen: dict[int, Any] = {}
    stack = [edge_of(root) for root in roots]
    while stack:
        edge = stack.pop()
        node = edge.node if edge.__class__ is Output else edge
        if not isinstance(node, Node) or id(node) in seen:
            continue
        seen[id(node)] = node
        stack.extend(node.edges)
    work.captured = {}
    for target in targets:
        node = target.node if target.__class__ is Output else target
        if isinstance(node, Node):
            work.captured[node] = None
    leading: set[Any] = set()
    for node in sorted(seen.values(), key=operator.attrgetter("seq")):
        for edge in node.edges:
            before = edge.node if edge.__class__ is Output else edge
            if before is not None and (id(before) in wanted or (isinstance(before, Node) and before in leading)):
                leading.add(node)
                break
    work.needed, work.reached = leading, leading | set(work.captured)


def seed_gradient(root: Tensor, grad: Tensor | None) -> Tensor:
    """The gradient that a pass starts with: ones for a one-element root.

    Raises:
        RuntimeError: no gradient given for a root of several elements, a wrong shape, or a root without history.
    """
    if root._requires_grad.__class__ is StaleHistory:
        raise RuntimeError(root._requires_grad.message)
    if not root._requires_grad or root._requires_grad is INHERITED:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    array = root._array
    if grad is None:
        if array.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if array.dtype.kind in "cV" and root.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {root.dtype}")
        if interposed and modes.below.is_handled((root,)):
            return modes.below.ones_like(root)
        if array.__class__ is not np.ndarray:
            return root.detach().new_ones(array.shape)
        one = FLOATS32[1.0].copy() if array.dtype is _F32 else FLOATS64[1.0].copy() if array.dtype is _F64 else np.ones((), array.dtype)
        seed = one if not array.ndim else np.full(array.shape, one)
        if thread.recorder is not None:
            thread.recorder.constant(seed)
        return wrap(seed)
    if grad._array.shape != array.shape:
        raise RuntimeError(f"Mismatch in shape: grad_output[0] has a shape of {grad.shape} and output[0] has a shape of {root.shape}.")
    if (array.dtype.kind in "cV" or grad._array.dtype.kind in "cV") and grad.is_complex() != root.is_complex():
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[0] has a dtype of {grad.dtype} and output[0] has a dtype of {root.dtype}."
        )
    if grad._array.dtype is not array.dtype:
        grad = wrap(cast_array(grad._array, root.dtype)) if grad.__class__ is Tensor and not grad_enabled() else grad.to(root.dtype)
    node = root._node
    if node is None:
        return grad
    expected = node.node.shape[node.index] if node.__class__ is Output else node.shape
    if expected == array.shape:
        return grad
    if broadcast_or_none(expected, array.shape) != array.shape:  # the shape was changed in place without grad mode
        raise RuntimeError(f"invalid gradient at index 0 - got {list(array.shape)} but expected shape compatible with {list(expected)}")
    return grad._sum_to_size(expected)
