"""Backward passes of compiled programs: recorded once, together with the program, and one node of the tape at each call.

              program recorded      its backward pass recorded, from gradients that are inputs
inputs  ---------------+-------------------------------+
held                   | values that are needed later  |
                       +--> outputs                    +--> gradients of inputs and of held tensors

a call:  outputs and saved values = forward(inputs);  outputs._node = one ``CompiledBackward`` with edges to what required grad
later:   gradients = backward(saved values, gradients of the outputs), run by the engine as any other node
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.engine import run_backward
from ..capture.recorder import Recorder
from ..core.calls.interruption import pass_on
from ..core.layout import empty_strided_array
from ..core.shape import contiguous_strides, element_strides, is_dense
from ..core.state import grad_enabled, set_grad
from ..core.tape.node import INHERITED, Node, Output, complain_freed, edge_of, new_node
from ..core.tape.saved import complain_changed
from ..core.tensor import Tensor, storage_of, wrap
from ..nn import Module  # noqa: F401  # whole before its modules
from ..nn._backward_hooks import BackwardHookFunction
from .results import Refused
from .surroundings import Surroundings

__all__ = ["Backward", "CompiledBackward"]


class Backward:
    """The recorded backward pass of a program.

    Attributes:
        begin: how many nodes the program itself has.
        inputs: Values of the outputs' gradients. outputs: Values of the gradients, None where there is none.
        targets: for each of them the place of its tensor among the arguments, or the tensor.
        forms: shape and dtype of each output. strides: of the gradients that are given.
    """

    def __init__(
        self,
        recorder: Recorder,
        roots: Sequence[Tensor],
        given: Sequence[Tensor],
        known: dict[int, Tensor],
        start: int,
        around: Surroundings,
    ):
        self.begin = len(recorder.nodes)
        found = _targets(roots, given, known, start)
        self.targets: list[Any] = [next((i for i, other in enumerate(given) if other is each), each) for each in found]
        self.forms = tuple(root._array.shape for root in roots), tuple(root._array.dtype for root in roots)
        grads, self.inputs, self.strides = [], [], []
        for root in roots:
            array = root._array
            steps = element_strides(array) if is_dense(array) else contiguous_strides(array.shape)
            made = empty_strided_array(array.shape, steps, array.dtype)
            made[...] = 1
            self.inputs.append(recorder.input(made, "gradient"))
            self.strides.append(made.strides)
            grads.append(wrap(made))
        looks = len(recorder.looks)
        hooks = [(leaf, leaf.__dict__.pop("_backward_hooks", None)) for leaf in found]
        try:
            with recorder, around:
                recorder.profile = sys.getprofile()
                results = run_backward(roots, grads, True, False, found, accumulates=False)
        except Exception as error:  # where the program asks for it, it raises there
            pass_on(error)
            raise Refused(f"its backward pass raises {type(error).__name__}") from None
        finally:
            recorder.profile = None
            for leaf, hook in hooks:
                if hook is not None:
                    leaf.__dict__["_backward_hooks"] = hook
        if len(recorder.looks) > looks:
            raise Refused("its backward pass looks at values")
        self.outputs = [None if grad is None else recorder.value(grad._array) for grad in results]


def _targets(roots: Sequence[Tensor], given: Sequence[Tensor], known: dict[int, Tensor], start: int) -> list[Tensor]:
    """The tensors from outside that a gradient reaches.

    Raises:
        Refused: a hook inside, or history from before that is not an argument's.
    """
    ends = {}
    for tensor in given:
        edge = edge_of(tensor)
        if edge is not None and edge is not tensor:
            ends[(id(edge.node), edge.index) if edge.__class__ is Output else (id(edge), 0)] = tensor
    allowed = {id(tensor) for tensor in given} | known.keys()
    found: dict[int, Tensor] = {}
    seen: set[int] = set()
    stack = [edge_of(root) for root in roots]
    while stack:
        edge = stack.pop()
        if edge is None:
            continue
        if isinstance(edge, Tensor):
            if edge._requires_grad is not INHERITED:
                if id(edge) not in allowed:
                    raise Refused("a gradient goes to a tensor that is not watched")
                found[id(edge)] = edge
            continue
        node, index = (edge.node, edge.index) if edge.__class__ is Output else (edge, 0)
        if (id(node), index) in ends:
            tensor = ends[id(node), index]
            found[id(tensor)] = tensor
            continue
        if id(node) in seen:
            continue
        if node.seq < start:
            raise Refused("it uses a tensor with a history that is no argument")
        if node.hooks is not None or isinstance(node, BackwardHookFunction._backward_cls):
            raise Refused("there are hooks in its backward pass")
        seen.add(id(node))
        stack.extend(node.edges)
    return list(found.values())


class CompiledBackward(Node):
    """One call of a compiled program on the tape.

    ``saved`` has the arrays that the backward pass needs, and (storage, description) of tensors that must not be written to before;
    ``attrs`` the program and the arguments.
    """

    __slots__ = ()
    is_multi_output = True
    frees = True

    def name(self) -> str:
        return "CompiledFunctionBackward"

    def apply(self, grads: Any) -> Any:
        if self.saved is None:
            complain_freed(self)
        arrays, guarded = self.saved
        for storage, kind, shape, place in guarded:
            if storage.changed > self.seq:
                complain_changed(self, kind, shape, storage, place)
        path, args, kwargs = self.attrs
        if grad_enabled():
            return self._differentiably(path, args, kwargs, grads)
        backward = path.backward
        given = []
        for grad, shape, dtype, strides in zip(grads, *backward.forms, backward.strides, strict=True):
            given.append(_laid_out(None if grad is None else grad._array, shape, dtype, strides))
        made = path.run_backward([*given, *arrays])
        results = iter(made)
        return tuple([None if value is None else wrap(next(results)) for value in backward.outputs])

    def _differentiably(self, path: Any, args: Any, kwargs: Any, grads: Any) -> Any:
        """Gradients with a graph of their own: the program runs once more as it is written."""
        if not path.is_pure:
            raise RuntimeError(
                "torch.compile with aot_autograd does not currently support double backward: this program draws random numbers or writes "
                "to tensors, and so it cannot be run once more. Run it under torch.compiler.disable()."
            )
        from ..utils._pytree import tree_flatten

        was = grad_enabled()
        try:
            set_grad(True)
            result = path.function(*args, **kwargs)
        finally:
            set_grad(was)
        roots, starts, seen = [], [], set()
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, Tensor) and leaf._node is not None and id(leaf) not in seen:
                seen.add(id(leaf))
                roots.append(leaf)
        pairs = [(root, grad) for root, grad in zip(roots, grads, strict=True) if grad is not None]
        roots, starts = [root for root, _ in pairs], [grad for _, grad in pairs]
        targets = path.target_tensors(path.given(args, kwargs))
        return tuple(run_backward(roots, starts, True, True, targets, accumulates=False))


class CompiledBackwardOfOne(CompiledBackward):
    """The same of a program with one result that has a history, as usual passes of the engine have it."""

    __slots__ = ()
    is_multi_output = False

    def apply(self, grad: Any) -> Any:
        return super().apply((grad,))


def _laid_out(array: Any, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]) -> np.ndarray:
    """A gradient as it was recorded: dense, zeros where there is none."""
    if array is not None and array.strides == strides and array.__class__ is np.ndarray:
        return array
    made = empty_strided_array(shape, tuple([step // max(dtype.itemsize, 1) for step in strides]), dtype)
    made[...] = 0 if array is None else array
    return made


def history(path: Any, given: Sequence[Tensor], saved: list[np.ndarray], guarded: list[Any], args: Any, kwargs: Any) -> Node:
    """The node of one call."""
    backward = path.backward
    edges = tuple(edge_of(tensor) for tensor in path.target_tensors(given))
    shapes, dtypes = backward.forms
    attrs = path, args, kwargs
    if len(shapes) == 1:
        return new_node(CompiledBackwardOfOne, edges, (saved, guarded), attrs, shapes[0], dtypes[0])
    return new_node(CompiledBackward, edges, (saved, guarded), attrs, shapes, dtypes)


def guard_of(tensor: Tensor, place: str) -> tuple[Any, str, tuple[int, ...], str]:
    """A tensor that must not be written to before the backward pass."""
    return storage_of(tensor), tensor.dtype.legacy, tuple(tensor._array.shape), place
