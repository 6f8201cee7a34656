"""``__torch_dispatch__``: modes and classes of tensors that see calls below the tape.

    dispatch       __torch_function__, then the call proceeds
        taken      the call in PyTorch's terms (``calls``): an OpOverload and its arguments
            ask    the innermost mode, then the operands' classes, without recording; what they return is the result
        record     the node of the call, on the very tensors that came back

A mode is not asked about what it calls itself; that goes to the modes outside of it, then to the classes, then to the kernel. What is
several calls in PyTorch (``linear`` is ``t`` and ``addmm``) is called as such (``COMPOSED``); where only the kernel differs, it is
made of several calls below the tape (``Op.lowered``). PyTorch's kernels with derivatives of their own that are composites here have a
node in ``kernels``.

A tensor around others holds a ``HollowArray``: the shape, strides and dtype that it says it has, and no values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from ..core.arrays.hollow import HollowArray, filled, hollow
from ..core.arrays.kinds import MissingValue, MissingValues
from ..core.arrays.meta import meta
from ..core.arrays.meta_array import MetaArray
from ..core.calls import dispatch
from ..core.calls.dispatch import COMPOSITE, FACTORY, FUNCTION, IN_PLACE, Call, make_node, package, record
from ..core.calls.override import DisableTorchFunctionSubclass
from ..core.calls.registry import TABLES, resolve
from ..core.layout import contiguous_format, preserve_format
from ..core.shape import broadcast_shape, contiguous_strides, element_strides, is_dense
from ..core.state import PARTS, dispatchers, grad_enabled, interposed, modes, set_grad, thread
from ..core.symbolic import plain
from ..core.tape.history import (
    check_overlap,
    check_writable,
    is_differentiable,
    needs_grad,
    point_at,
    rebase,
    set_creation_meta,
    view_of,
    watch,
)
from ..core.tape.node import edge_of
from ..core.tape.saved import Kept, below_tape, is_saved_result, pack_saved
from ..core.tensor import Tensor, share, storage_of, wrap
from . import calls as aten, composites, derivatives, formulas, kernels, rules, symbolic_parts  # noqa: F401  # these fill tables of the others, in this order
from .overloads import tensors_in as tensors_among


# -- who is asked ----------------------------------------------------------------------------------------------------------------------
def know(cls: type) -> None:
    """A class of tensors with ``__torch_dispatch__``: from now on calls are looked at."""
    if cls not in dispatchers:
        dispatchers.add(cls)
        interposed[:0] = (None,)


def classes_of(operands: Iterable[Any]) -> list[Any]:
    """Operands whose classes have ``__torch_dispatch__``, one per class, subclasses before their bases."""
    found: list[Any] = []
    for operand in operands:
        kind = operand.__class__
        if kind not in dispatchers or any(kind is other.__class__ for other in found):
            continue
        place = 0
        while place < len(found) and not issubclass(kind, found[place].__class__):
            place += 1
        found.insert(place, operand)
    return found


def tensors_in(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """Tensors, and what acts like them, among arguments and in lists of them."""
    return tensors_among([*args, *kwargs.values()])


def is_handled(operands: Iterable[Any], *further: Any) -> bool:
    """Whether a mode or the class of an operand takes a call."""
    if thread.dispatch_modes or any(operand.__class__ in dispatchers for operand in further):
        return True
    return any(operand.__class__ in dispatchers for operand in operands)


def ask(func: Any, args: Any, kwargs: Any) -> Any:
    """Have the innermost mode, or else the classes of the arguments, do a call; nothing is recorded meanwhile.

    Raises:
        TypeError: no mode and no class takes it.
    """
    overloaded = classes_of(tensors_in(args, kwargs))
    types = tuple([operand.__class__ for operand in overloaded])
    was, in_library = thread.grad, thread.in_library
    try:
        if was is True:
            set_grad(False)
        thread.in_library = False
        if thread.dispatch_modes:
            outside = thread.dispatch_modes
            thread.dispatch_modes = outside[:-1]
            try:
                result = outside[-1].__torch_dispatch__(func, types, args, kwargs)
            finally:
                thread.dispatch_modes = outside
            if result is not NotImplemented:
                return result
        for operand in overloaded:
            result = operand.__class__.__torch_dispatch__(func, types, args, kwargs)
            if result is not NotImplemented:
                return result
    finally:
        thread.in_library = in_library
        if was is True:
            set_grad(True)
    shown = "".join(f"\n  - tensor subclass {kind!r}" for kind in types)
    raise TypeError(f"Multiple dispatch failed for '{func}'; all __torch_dispatch__ handlers returned NotImplemented:\n{shown}")


# -- calls -----------------------------------------------------------------------------------------------------------------------------
def taken(call: Call) -> Any:
    """The result of a call that a mode or a class takes; NotImplemented where there is none."""
    if not thread.dispatch_modes:
        for operand in call.operands:
            if operand.__class__ in dispatchers:
                break
        else:
            return NotImplemented
    elif (takes := getattr(thread.dispatch_modes[-1], "takes", None)) is not None:  # a tracer that wants calls before they are divided
        result = takes(call)
        if result is not NotImplemented:
            return result
    form = call.form
    if form is FACTORY:
        return _factory(call)
    if thread.in_library is PARTS:
        return _in_parts(call)
    if form is COMPOSITE:
        if any(getattr(operand, "_sizes", None) is not None for operand in call.operands) and call.out is None:
            part = symbolic_parts.PARTS.of(call.op)
            result = NotImplemented if part is None else part(*call.values)
            if result is not NotImplemented:
                return result
        leaf = aten.LEAVES.of(call.op) if call.out is None else None
        result = NotImplemented if leaf is None else leaf(*call.values)
        if result is not NotImplemented:
            return result
        if call.op.in_library and not thread.in_library:
            return kernels.in_library(_composite)(call, True)
        return _composite(call)
    with DisableTorchFunctionSubclass():
        if call.out is None and form is FUNCTION and (composed := aten.COMPOSED.of(call.op)) is not None:
            result = composed(*call.values)
            if result is not NotImplemented:
                return result
        if form is IN_PLACE:
            return _in_place(call)
        if form is not FUNCTION:
            return _in_place_view(call)
        return _function(call)


def _in_parts(call: Call) -> Any:
    """A call that is shown as our own primitives are: so are derivatives taken that PyTorch's kernels have not."""
    if call.form is COMPOSITE:
        return _composite(call)
    with DisableTorchFunctionSubclass():
        return _in_place(call) if call.form is IN_PLACE else _in_place_view(call) if call.form is not FUNCTION else _function(call)


def _composite(call: Call, in_library: bool = False) -> Any:
    """A composite is divided. One that reads values is shown as a whole, where an operand has none."""
    if not any(isinstance(operand, Tensor) and operand._array.__class__ is HollowArray for operand in call.operands):
        return call.form.run(call) if in_library else NotImplemented
    try:
        result = call.form.run(call)
        if not any(tensor.__class__ is Tensor and isinstance(tensor._array, MetaArray) for tensor in tensors_in([result], {})):
            return result
    except (MissingValue, MissingValues):
        pass
    if grad_enabled() and any(isinstance(operand, Tensor) and operand._requires_grad for operand in call.operands):
        raise NotImplementedError(f"{call.op.name}: a tensor around others that requires grad is not supported: it reads values")
    return ask(*aten.whole(call))


def _result_of(call: Call) -> Any:
    """Result of a call's kernel, as modes and classes make it; and the operation, with its values, under which the tape records it."""
    lowered = call.op.lowered if call.form is FUNCTION and call.out is None else None
    if lowered is not None:
        result = below_tape(lowered, *call.values)
        if result is not NotImplemented:
            return result, call.op, call.values
    func, args, kwargs = aten.translated(call)
    kernel = derivatives.kernel_of(func) if call.is_recorded() and thread.in_library is not PARTS else None
    if kernel is None:
        return ask(func, args, kwargs), call.op, call.values
    return ask(func, args, kwargs), kernel, derivatives.values_of(func, args, kwargs)


def kernel_call(func: Any, args: Any, kwargs: Any) -> Any:
    """A call of a kernel that has derivatives of its own, or is computed by several operations: one call for whoever looks."""
    kernel = derivatives.kernel_of(func)
    values = derivatives.values_of(func, args, kwargs)
    recorded = grad_enabled() and any(
        is_differentiable(t._array) and t._requires_grad for t in tensors_in(values, {}) if isinstance(t, Tensor)
    )
    if kernel is None and recorded:
        return derivatives.again(func, args, kwargs)
    with DisableTorchFunctionSubclass():
        result = ask(func, args, kwargs)
    if kernel is None or not recorded:
        return result
    is_tuple = isinstance(result, (tuple, list))
    tensors = [_own(tensor, values) for tensor in (result if is_tuple else [result])]
    _record(kernel, values, tensors)
    return tuple(tensors) if is_tuple else tensors[0]


def _function(call: Call) -> Any:
    op = call.op
    result, taped, values = _result_of(call)
    if call.out is not None:
        return package(op, list(call.out)) if isinstance(call.out, (tuple, list)) else call.out
    is_tuple = isinstance(result, (tuple, list))
    tensors = list(result) if is_tuple else [result]
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        if isinstance(result, (int, float, complex, str)):
            raise RuntimeError(f"Unable to cast {result} to Tensor")
        return result
    if op.is_view:
        _show_as_views(call, tensors)
    elif tensors and call.is_recorded():
        tensors = [_own(tensor, call.operands) for tensor in tensors]
    if tensors and call.is_recorded():
        _record(taped, values, tensors)
    return package(op, tensors) if is_tuple else tensors[0]


def _own(tensor: Tensor, operands: Any) -> Tensor:
    """A result that may get a node: an operand that was returned as it is, is shown by another tensor."""
    if tensor._node is not None or any(tensor is operand for operand in operands):
        return below_tape(tensor.detach)
    return tensor


def _show_as_views(call: Call, tensors: list[Tensor]) -> None:
    """Let results show the first operand's memory, and follow its history."""
    base = call.values[call.op.positions[0]]
    if base._array.__class__ is HollowArray:
        _follow_shape(call, base, tensors)
    if not grad_enabled():
        return
    for tensor in tensors:
        if tensor is not base and tensor._storage is not None and tensor._storage is base._storage:
            tensor._view_of = base if base._view_of is None else base._view_of
            tensor._requires_grad = False
            if call.op.is_multi_view:
                set_creation_meta(tensor, "multi_output")
    if call.op.is_multi_view and tensors and needs_grad(base):
        watch(storage_of(base))


def _follow_shape(call: Call, base: Tensor, tensors: list[Tensor]) -> None:
    """Let views of a tensor without values have the strides and the place in memory that the view operation gives them."""
    values = [wrap(filled(value._array)) if isinstance(value, Tensor) else plain(value) for value in call.values]
    if call.op.canonicalize is not None:
        with without_modes():
            values = list(call.op.canonicalize(*values))
    arrays = meta.run(call.op, dispatch.plain_values(call.op, values), None, None)
    storage = storage_of(base)
    for tensor, array in zip(tensors, arrays if isinstance(arrays, (tuple, list)) else [arrays], strict=True):
        if (
            tensor._array.__class__ is HollowArray
            and (tensor is base or tensor._array.shape == array.shape)
            and tensor._array.dtype == array.dtype
        ):
            tensor._array = hollow(array, tensor._array._where)
            if tensor is not base:
                tensor._storage = storage
                storage._add_alias(tensor)


def _record(op: Any, values: Any, tensors: list[Tensor]) -> None:
    """Put a call on the tape. Results of classes that their node keeps are kept as tensors, not as arrays; then hooks get what is kept."""
    hooks, thread.saved_hooks = thread.saved_hooks, ()
    try:
        record(op, values, tensors)
    finally:
        thread.saved_hooks = hooks
    node: Any = next((tensor._node for tensor in tensors if tensor._node is not None), None)
    node = getattr(node, "node", node)
    if node is not None and node.saved:
        _keep_results(node, tensors, hooks)


def _keep_results(node: Any, tensors: list[Tensor], hooks: Any) -> None:
    kept = []
    for item in node.saved:
        if is_saved_result(item):
            result = tensors[item[2] or 0]
            if result.__class__ in dispatchers:
                item = Kept(below_tape(result.detach), item[2])
        kept.append(item)
    node.saved = tuple(kept if not hooks else [pack_saved(node, item, *hooks[-1]) for item in kept])


def _in_place(call: Call) -> Tensor:
    """A write into the first operand; see ``dispatch.run_in_place``."""
    op, values, operands = call.op, call.values, call.operands
    target = values[0]
    recorded = call.is_recorded()
    if recorded and op.name == "copy":
        recorded = is_differentiable(target._array)
    check_writable(target, recorded, may_overlap=dispatch.may_write_overlapping(op, operands))
    check_overlap(target, operands)
    if op.broadcasts:
        common = broadcast_shape(*dispatch.operand_shapes(op, values))
        if common != target._array.shape:
            raise RuntimeError(f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(common)}")
    func, args, kwargs = aten.translated(call)
    return _write(target, func, args, kwargs, op if recorded else None, values)


def write_call(func: Any, args: Any, kwargs: Any) -> Tensor:
    """A call of a kernel that writes into its first argument, and has derivatives of its own."""
    target = args[0]
    recorded = grad_enabled() and any(isinstance(value, Tensor) and value._requires_grad for value in args)
    check_writable(target, recorded, may_overlap=False)
    return _write(target, func, args, kwargs, derivatives.kernel_of(func) if recorded else None, args)


def _write(target: Tensor, func: Any, args: Any, kwargs: Any, op: Any, values: Any) -> Tensor:
    """Have a kernel write into ``target``, and put that on the tape as a call of ``op``, unless it is None."""
    if op is not None and thread.in_library is not PARTS and (kernel := derivatives.kernel_of(func)) is not None:
        op, values = kernel, derivatives.values_of(func, args, kwargs)
    node_values = values
    if op is not None and (_saves_target(op, values) or any(value is target for value in values[1:])):
        before = below_tape(target.clone)
        before._requires_grad, before._node = target._requires_grad, target._node
        node_values = tuple([before if value is target else value for value in values])
    ask(func, args, kwargs)
    if target._array.__class__ is HollowArray:
        storage_of(target)._bump()
    if op is None:
        return target
    history = edge_of(target)
    hooks, thread.saved_hooks = thread.saved_hooks, ()
    try:
        node = make_node(op, node_values, [target._array], [target])
    finally:
        thread.saved_hooks = hooks
    if node.saved:
        _keep_results(node, [target], hooks)
    if node.edges and node.edges[0] is not history and node_values is not values:
        node.edges = (history, *node.edges[1:])
    rebase(target, node)
    return target


def _saves_target(op: Any, values: Any) -> bool:
    """Whether a node keeps what the first operand was, for the gradient of an operand that needs one."""
    kept = next((item for item in op.node.tensors if item.source == "operand" and item.position == 0), None)
    if kept is None:
        return False
    needed = [value for name, value in zip(op.names, values, strict=True) if name in kept.needed_for]
    return any(isinstance(value, Tensor) and value._requires_grad for value in needed)


def _in_place_view(call: Call) -> Tensor:
    """``t_`` and the like: the tensor itself takes the view's shape; a tensor around others takes it too."""
    target = call.values[0]
    recorded = grad_enabled() and target._requires_grad
    check_writable(target, recorded, may_overlap=True)
    before = target._array
    func, args, kwargs = aten.translated(call)
    node: Any = make_node(call.op, call.values, [before], [target]) if recorded else None
    ask(func, args, kwargs)
    if node is not None:
        node.shape, target._node = target._array.shape, node
    if before.__class__ is HollowArray and target._array is before:
        _follow_shape(Call(call.op, call.values, call.operands, None, FUNCTION), target, [target])
    return target


def _factory(call: Call) -> Any:
    entry, values = call.op, call.values
    from_data = aten.FROM_DATA.of(entry)
    if from_data is not None:
        return from_data(call)
    func, args, kwargs = aten.translated_factory(call)
    result = ask(func, args, kwargs)
    if call.out is not None:
        return call.out
    if "requires_grad" in entry.names and values[entry.names.index("requires_grad")]:
        result.requires_grad_()
    return result


def reshaped(input: Tensor, sizes: Any) -> Any:
    """``reshape`` for tracers that take it as a whole, and for tensors with symbolic sizes; NotImplemented for others."""
    if thread.dispatch_modes and (takes := getattr(thread.dispatch_modes[-1], "takes", None)) is not None:
        result = takes(Call(TABLES["torch"]["reshape"], (input, sizes), [input], None, COMPOSITE))
        if result is not NotImplemented:
            return result
    if getattr(input, "_sizes", None) is None:
        return NotImplemented
    if input._array.flags.c_contiguous:
        return named("view", input, list(sizes))
    return named("_unsafe_view", named("clone", input, memory_format=contiguous_format), list(sizes))


def detached(tensor: Tensor) -> Tensor:
    """``tensor.detach()`` as modes and its class make it."""
    with DisableTorchFunctionSubclass():
        result: Tensor = ask(aten.overload_named("detach"), (tensor,), {})
    if result is tensor:
        raise RuntimeError("detach: __torch_dispatch__ returned its argument, where another tensor over the same memory was expected")
    if result._array.__class__ is HollowArray is tensor._array.__class__ and result._array.shape == tensor._array.shape:
        result._array = hollow(filled(tensor._array), result._array._where)
        result._storage = storage_of(tensor)
        result._storage._add_alias(result)
    return result


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """``torch.as_strided`` as modes and the tensor's class make it."""
    args = (input, list(size), list(stride), *(() if storage_offset is None else (storage_offset,)))
    result: Tensor = ask(aten.overload_named("as_strided"), args, {})
    if input._array.__class__ is HollowArray is result._array.__class__:
        storage = storage_of(input)
        with without_modes():
            known = resolve("torch", "as_strided")(share(filled(input._array), storage), size, stride, storage_offset)
        result._array, result._storage = hollow(known._array, result._array._where), storage
        storage._add_alias(result)
    if result is not input and result._storage is not None and result._storage is input._storage:
        result._view_of, result._requires_grad, result._node = view_of(input), False, None
        if input._requires_grad and grad_enabled():
            point_at(result, input)
    return result


aten.LEAVES["as_strided"] = as_strided


def own_gradient(leaf: Tensor, grad: Tensor) -> Tensor:
    """A first gradient as ``leaf.grad``: itself, detached, or a copy with the leaf's strides."""
    dense = is_dense(leaf._array)
    wanted = element_strides(leaf._array) if dense else contiguous_strides(leaf._array.shape)
    for size, have, want in zip(leaf._array.shape, element_strides(grad._array), wanted, strict=True):
        if size != 1 and have != want:
            return below_tape(lambda: grad.new_empty_strided(tuple(grad.shape), wanted).copy_(grad))
    result: Tensor = below_tape(grad.detach)
    return result


def ones_like(root: Tensor) -> Tensor:
    """The gradient that a backward pass starts with."""
    options = {"pin_memory": False, "memory_format": preserve_format}
    result: Tensor = below_tape(ask, aten.overload_named("ones_like"), (root,), options)
    return result


# -- modes -----------------------------------------------------------------------------------------------------------------------------
def stack_with(mode: Any) -> tuple[Any, ...]:
    """The stack with one more mode, innermost; those of the library itself (``_mode_key``) stay outside of all others."""
    stack = thread.dispatch_modes
    place = len(stack)
    if getattr(mode, "_mode_key", None) is not None:
        place = sum(getattr(other, "_mode_key", None) is not None for other in stack)
    return (*stack[:place], mode, *stack[place:])


def stack_without(mode: Any) -> tuple[Any, ...]:
    """The stack without a mode; without the innermost one where it was not entered.

    Raises:
        RuntimeError: there is none.
    """
    stack = thread.dispatch_modes
    if not stack:
        raise RuntimeError("trying to pop from empty mode stack")
    place = max((k for k, other in enumerate(stack) if other is mode), default=len(stack) - 1)
    return (*stack[:place], *stack[place + 1 :])


class without_modes:
    """Context in which no mode of this kind sees anything."""

    def __enter__(self) -> list[Any]:
        self._was = thread.dispatch_modes
        thread.dispatch_modes = ()
        return list(self._was)

    def __exit__(self, *exc_info: Any) -> None:
        thread.dispatch_modes = self._was


named = derivatives.call
getitem, setitem = rules.getitem, rules.setitem
number_of, moved, shown_random, resized = rules.number_of, rules.moved, rules.shown_random, rules.resized
modes.below = sys.modules[__name__]
