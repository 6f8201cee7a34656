"""The one path of a call: everything that a call may need and a generated fast path leaves out.

    torch.add(a, b)    a.add_(b)    a.t_()        F.mse_loss(a, b)    torch.zeros(2)        what was called
       function        in place     in-place view     composite          factory            its form
            \\            |           |               |                 /
             +-----------+-----------+---------------+----------------+
                               |
    dispatch          old argument orders, overloads -> operands -> __torch_function__ of subclasses and modes -> transforms
                               |
    Call.proceed      casts of autocast -> checks -> kind of array -> promotion -> kernel -> wrapping -> tape -> out=

A call is described once, by a ``Call``; what its form does differently stands in the five functions ``run_...`` below.  ``proceed`` is the
seam for whatever stands around calls without being part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..arrays import native
from ..arrays.kinds import KINDS, Kind, as_array, check_same_device, host, kind_of_call, moved, on_device_of, pinned
from ..device import pinned_host
from ..layout import elementwise_strides, laid_out, preserved_strides, strided
from ..profiling import current
from ..shape import broadcast_shape, contiguous_strides, element_strides, is_dense, overlaps_itself
from ..state import autocasting, crowded, grad_enabled, interposed, interpreters, modes, profiling, run_ignoring_fp, thread, wrappers
from ..tape.history import (
    check_overlap,
    check_writable,
    is_differentiable,
    make_view,
    needs_grad,
    rebase,
    set_creation_meta,
    take_geometry,
    watch,
)
from ..tape.node import INHERITED, Node, Output, edge_of, new_node
from ..tape.saved import check_saved, pack_saved
from ..tensor import Tensor, new_storage, note_order, storage_of, wrap
from .casting import cast_array, is_number
from .creation import Creation, require_grad
from .operation import BOOL_TO_LONG, COMPLEX_TO_FLOAT, INT_TO_FLOAT, PARTS, REQUIRED, Op
from .out import LISTED, into_out, with_dtype_of
from .override import call_override, plainly
from .promotion import promotion, rounded
from .return_types import named_result


class Form:
    """Form in which an operation is called.

    Attributes:
        run: what runs the call. public: which attribute of the operation is the function that ``__torch_function__`` is shown.
        is_new: whether results are tensors without another owner.
        casts: whether autocast may change the operands.
    """

    __slots__ = ("casts", "is_new", "public", "run")

    def __init__(self, run: Callable[[Call], Any], public: str, is_new: bool = False, casts: bool = False):
        self.run, self.public, self.is_new, self.casts = run, public, is_new, casts


class Call:
    """One call of an operation.

    Attributes:
        op: the operation (a ``Composite`` or ``Factory`` for a call of one).
        values: its arguments in the signature's order.
        operands: the tensors and numbers among them, lists flattened.
        out: what the caller gave for ``out=``.
        form: how it was written.
    """

    __slots__ = ("args", "form", "op", "operands", "out", "values")
    args: tuple[Any, ...]  # as ``__torch_function__`` is shown them

    def __init__(self, op: Any, values: tuple[Any, ...], operands: list[Any], out: Any, form: Form):
        self.op, self.values, self.operands, self.out, self.form = op, values, operands, out, form

    def proceed(self) -> Any:
        """Do the call, after modes and classes that may take it over."""
        if autocasting and thread.autocast is not None:
            return thread.autocast.run(self)
        return self.run()

    def with_values(self, values: tuple[Any, ...]) -> Call:
        """The same call with other arguments."""
        operands = composite_operands(self.op, values) if self.form is COMPOSITE else operands_of(self.op, values)
        return Call(self.op, values, operands, self.out, self.form)

    def run_with(self, values: tuple[Any, ...]) -> Any:
        """Do the call with other operands, hidden from modes and classes that might take it over."""
        if self.form is FUNCTION and self.op.reduced_wrapper is not None:
            result = self.op.reduced_wrapper(*values)
            if result is not NotImplemented:
                return result
        return self.with_values(values).run()

    def run(self) -> Any:
        """Do the call as it is, noted in the profile that is taken."""
        if profiling and (profile := current()) is not None:
            return profile.call(self)
        return self.perform()

    def perform(self) -> Any:
        """Do the call: by modes and classes that have ``__torch_dispatch__``, or on its operands' device."""
        if interposed:
            result = modes.below.taken(self)
            if result is not NotImplemented:
                return result
        if crowded and not getattr(self.op, "is_placed", False):  # where a device is named, the current one has a meaning
            for operand in self.operands:
                if isinstance(operand, Tensor) and operand._array.__class__ in KINDS:
                    with on_device_of(operand._array):
                        return self.form.run(self)
        return self.form.run(self)

    @property
    def kind(self) -> Kind:
        """Kind of array whose kernels it gets."""
        arrays = []
        foreign = False
        for operand in self.operands:
            if isinstance(operand, Tensor):
                arrays.append(operand._array)
                foreign = foreign or operand._array.__class__ is not np.ndarray
        return kind_of_call(self.op, arrays) if foreign else host

    def is_recorded(self) -> bool:
        """Whether it goes on the tape, if its results can."""
        if self.op.rules is None or not grad_enabled():
            return False
        recorded = False
        for operand in self.operands:  # all of them are tested, before anything is written: a stale one raises
            if isinstance(operand, Tensor) and operand._requires_grad:
                recorded = True
        return recorded

    def overridden(self) -> Any:
        """Result of a mode or a subclass for this call; NotImplemented if none takes it."""
        params, values = self.op.params, self.values
        args: list[Any] = []
        rest: tuple[Any, ...] = ()
        kwargs: dict[str, Any] = {}
        for param, value in zip(params, values):
            if param.kind == "rest":
                rest = value
            elif not param.keyword_only:
                args.append(value)
            elif value is not param.default:
                kwargs[param.name] = value
        while args and not rest and (last := params[len(args) - 1]).default is not REQUIRED and args[-1] is last.default:
            args.pop()
        if self.out is not None:
            kwargs["out"] = self.out
        self.args = (*args, *rest)
        around, thread.overridden = thread.overridden, self
        try:
            return call_override(getattr(self.op, self.form.public), self.operands, self.args, kwargs)
        finally:
            thread.overridden = around


def dispatch(op: Any, values: tuple[Any, ...], out: Any = None, form: Form | None = None) -> Any:
    """Call ``op`` with arguments in the signature's order, doing everything that a call may need."""
    form = form or FUNCTION
    if thread.recorder is not None and thread.recorder.plain_arguments is not None:
        values = thread.recorder.plain_arguments(values)
    for overload in op.overloads:
        if (other := overload(op, *values)) is not None:
            op = other
            break
    operands = composite_operands(op, values) if form is COMPOSITE else operands_of(op, values)
    call = Call(op, values, operands, out, form)
    asked = bool(thread.function_modes)
    if not asked and thread.function_override:
        for operand in operands:
            kind = operand.__class__
            if kind is not Tensor and getattr(kind, "__torch_function__", plainly) is not plainly:
                asked = True
                break
    elif not asked and wrappers:
        for operand in operands:
            if operand.__class__ in wrappers:
                asked = True
                break
    if asked:
        result = call.overridden()
        if result is not NotImplemented:
            return result
    if interpreters:
        result = modes.transforms.call(call)
        if result is not NotImplemented:
            return result
    return form.run(call) if not crowded and not autocasting and not interposed and not profiling else call.proceed()


def dispatch_old_order(op: Op, args: tuple[Any, ...], keywords: tuple[Any, ...], out: Any = None, form: Form | None = None) -> Any:
    """A call with more arguments by position than ``op`` has now: those of PyTorch's first versions are put in order.

    Args:
        args: the arguments by position. keywords: values of the parameters that are passed by keyword only.

    Raises:
        TypeError: no such order, or a parameter given twice.
    """
    given = {p.name: value for p, value in zip(op.params[-len(keywords) :], keywords, strict=True) if value is not p.default}
    for count, order in op.old_orders:
        call = order(op, *args) if count is None or count == len(args) else None
        if call is not None and not call[1].keys() & given.keys():
            values, named = call[0], {**given, **call[1]}
            if "out" in named and (form or FUNCTION) is FUNCTION and out is None:
                out = named["out"]
            elif "out" in named:
                break
            return dispatch(op, (*values, *[named.get(p.name, p.default) for p in op.params[len(values) :]]), out, form)
    raise TypeError(f"{op.name}() takes {len(op.params) - len(keywords)} positional arguments but {len(args)} were given")


# -- operands ---------------------------------------------------------------------------------------------------------------
def _wrong_operand(op: Op, position: int, value: Any) -> None:
    raise TypeError(f"{op.name}(): argument '{op.names[position]}' (position {position + 1}) must be Tensor, not {type(value).__name__}")


def operands_of(op: Op, values: Sequence[Any]) -> list[Any]:
    """The tensors and numbers among ``values``, lists flattened; checks types.

    Raises:
        TypeError: something else where a tensor is expected.
    """
    params: Any = op.params
    operands: list[Any] = []
    if op.other_keywords:  # then every parameter may be left out by position
        for param, value in zip(params, values, strict=True):
            if value is REQUIRED:
                raise TypeError(f'{op.name}() missing 1 required positional arguments: "{param.name}"')
    for i in op.positions:
        value, kind = values[i], params[i].kind
        if isinstance(value, Tensor):
            if kind == "list":
                raise TypeError(f"{op.name}(): argument '{params[i].name}' (position {i + 1}) must be tuple of Tensors, not Tensor")
            operands.append(value)
        elif kind == "list":
            if not isinstance(value, (tuple, list)):
                raise TypeError(
                    f"{op.name}(): argument '{params[i].name}' (position {i + 1}) must be tuple of Tensors, not {type(value).__name__}"
                )
            for j, element in enumerate(value):
                if not isinstance(element, Tensor) and not hasattr(type(element), "__torch_function__"):
                    raise TypeError(f"expected Tensor as element {j} in argument {i}, but got {type(element).__name__}")
                operands.append(element)
        elif value is None and kind == "optional":
            pass
        elif kind == "number" and is_number(value):
            operands.append(value)
        elif value is None and params[i].default is None:
            pass
        elif hasattr(type(value), "__torch_function__"):
            operands.append(value)
        else:
            _wrong_operand(op, i, value)
    return operands


def composite_operands(entry: Any, values: Sequence[Any]) -> list[Any]:
    """Operands that may override a composite call: tensors and their like, also in lists.

    Raises:
        TypeError: something else where a tensor is expected.
    """
    operands: list[Any] = []
    for position, (param, value) in enumerate(zip(entry.params, values, strict=True)):
        if hasattr(type(value), "__torch_function__"):
            operands.append(value)
        # where a tensor is expected PyTorch's own functions refuse a list at once, those written in Python by what they do with it
        elif isinstance(value, (list, tuple)) and (param.kind != "tensor" or entry.namespace != "torch"):
            operands += [element for element in value if hasattr(type(element), "__torch_function__")]
        elif param.kind == "tensor" and value is not param.default:
            raise TypeError(f"{entry.name}(): argument '{param.name}' (position {position + 1}) must be Tensor, not {type(value).__name__}")
    return operands


def check_elements(values: Any, position: int = 0) -> None:
    """TypeError if a sequence of tensors has something else in it (a string may be an equation)."""
    for place, value in enumerate(values):
        if not isinstance(value, (str, tuple, list)) and not hasattr(type(value), "__torch_function__"):
            raise TypeError(f"expected Tensor as element {place} in argument {position}, but got {type(value).__name__}") from None


def check_operands(entry: Any, values: Sequence[Any]) -> None:
    """TypeError if a composite's body was given something else where tensors are expected."""
    composite_operands(entry, values)
    for position, (param, value) in enumerate(zip(entry.params, values, strict=True)):
        if param.kind == "list" and isinstance(value, (tuple, list)):
            check_elements(value, position)


def operand_shapes(op: Op, values: Sequence[Any]) -> list[tuple[int, ...]]:
    shapes = []
    for i in op.positions:
        if isinstance(values[i], Tensor):
            shapes.append(values[i]._array.shape)
    return shapes


# -- the forms -----------------------------------------------------------------------------------------------------------------
_OF_NUMBERS = frozenset(("add", "sub", "mul", "div", "floor_divide", "_divide_rounded"))  # PyTorch takes two numbers there


def run_function(call: Call) -> Any:
    """``torch.f(input, ...)``, with ``out=`` or without."""
    op, values, operands, out = call.op, call.values, call.operands, call.out
    if op.broadcasts and op.name not in _OF_NUMBERS and not any(isinstance(operand, Tensor) for operand in operands):
        kinds = ", ".join(type(operand).__name__ for operand in operands)
        raise TypeError(f"{op.name}() received an invalid combination of arguments - got ({kinds}), but expected at least one Tensor")
    kind = call.kind if KINDS else host
    if out is not None:
        values = with_dtype_of(op, values, out)
    if op.canonicalize is not None:
        values = op.canonicalize(*values) if kind is host else kind.bound(op.canonicalize)(*values)
    if out is not None:
        if op.elementwise and out.__class__ is Tensor:
            check_overlap(out, operands)
        if _into_out_directly(op, values, operands, out):
            return out
    results, is_tuple = compute(op, values, operands, kind)
    if op.is_view and kind.has_views:
        viewed = values[op.positions[0]]
        tensors = [make_view(array, viewed) for array in results]
        if op.is_multi_view and grad_enabled():
            for tensor in tensors:
                set_creation_meta(tensor, "multi_output")
            if tensors and needs_grad(viewed):
                watch(storage_of(viewed))
    else:
        tensors = [wrap(array) for array in results] if is_tuple else [wrap(results[0])]
        for tensor in tensors:
            array = tensor._array
            if array.__class__ is np.ndarray and array.ndim > 1 and (1 in array.shape or not array.flags.c_contiguous):
                note_order(tensor)
    if out is not None:
        written = into_out(op, tensors, out, operands)
        return package(op, written) if len(tensors) > 1 else written
    if call.is_recorded():
        record(op, values, tensors)
    return package(op, tensors) if is_tuple else tensors[0]


def may_write_overlapping(op: Op, operands: Sequence[Any]) -> bool:
    """Whether the in-place form may write to a first operand that overlaps itself."""
    return op.may_overlap == PARTS or (bool(op.may_overlap) and sum(isinstance(e, Tensor) for e in operands) == 1)


def run_in_place(call: Call) -> Tensor:
    """``f_(input, ...)``: the result is written into the first operand."""
    op, values, operands = call.op, call.values, call.operands
    target = values[0]
    if op.promotion == COMPLEX_TO_FLOAT and target.dtype.is_complex:
        raise RuntimeError(f"In-place {op.name} is not supported for complex tensors.")
    recorded = call.is_recorded()
    if recorded and op.name == "copy":
        recorded = is_differentiable(target._array)
    check_writable(target, recorded, may_overlap=may_write_overlapping(op, operands))
    if not op.may_share:
        check_overlap(target, operands)
    kind = call.kind if KINDS else host
    if op.canonicalize is not None:
        values = kind.bound(op.canonicalize)(*values)
    shape = target._array.shape
    if op.broadcasts:
        common = broadcast_shape(*operand_shapes(op, values))
        if common != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}")
    if recorded:
        _check_operands(op, values)
    overwrites_saved = recorded and ("input" in op.node.saves_inputs or any(value is target for value in values[1:]))
    node_values = values
    written = not overwrites_saved and thread.recorder is None and _write_directly(op, values, operands, target)
    if not written:
        results, _ = compute(op, values, operands, kind)
        array = results[0]
        have, want = dtypes.of_array(array), dtypes.BY_NUM[target._array.dtype.num]
        if not dtypes.can_cast(have, want):
            raise RuntimeError(f"result type {have.legacy} can't be cast to the desired output type {want.legacy}")
        if kind is not host:
            array = kind.fitted(array, target._array)
        check_same_device(target._array, array)
        if array.shape != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(array.shape)}")
    if overwrites_saved:  # the derivative needs what is about to be overwritten
        before = target.detach().clone()
        before._requires_grad, before._node = target._requires_grad, target._node
        node_values = tuple(before if value is target else value for value in values)
    if not written:
        array = run_ignoring_fp(cast_array, array, want)
        if op.may_overlap == PARTS and overlaps_itself(target._array):
            _write_changes(target._array, array)
        else:
            target._array[...] = array
        if thread.recorder is not None:
            thread.recorder.wrote(target._array, array)
    storage_of(target)._bump()
    if recorded:
        history = edge_of(target)
        node = make_node(op, node_values, [target._array], [target])
        if node.edges and node.edges[0] is not history and node_values is not values:
            node.edges = (history, *node.edges[1:])
        rebase(target, node)
    return target


def _check_operands(op: Op, values: Sequence[Any]) -> None:
    """Raise, before anything is written, if an operand that was made in inference mode would be saved."""
    for item in op.node.tensors:
        if item.source == "operand" and isinstance(value := values[item.position], Tensor) and value.is_inference():
            needing = [values[op.names.index(name)] for name in item.needed_for]
            if any(isinstance(other, Tensor) and other._requires_grad and other._requires_grad is not INHERITED for other in needing):
                check_saved((value,))


def _write_changes(target: np.ndarray, array: np.ndarray) -> None:
    """Write the elements of ``array`` that differ from what lies in ``target``, whose other elements may lie at the same places."""
    with np.errstate(invalid="ignore"):
        np.copyto(target, array, where=(array != target) & ((array == array) | (target == target)))


def run_in_place_view(call: Call) -> Tensor:
    """``f_`` of a view operation (``t_``, ``squeeze_``, ...): the tensor itself takes the view's shape and strides."""
    op, values = call.op, call.values
    target = values[0]
    recorded = grad_enabled() and target._requires_grad
    check_writable(target, recorded, may_overlap=True)
    kind = call.kind if KINDS else host
    if op.canonicalize is not None:
        values = kind.bound(op.canonicalize)(*values)
    results, _ = compute(op, values, call.operands, kind)
    take_geometry(target, results[0], make_node(op, values, results, [target]) if recorded else None)
    return target


def run_composite(call: Call) -> Any:
    """A function over other operations: its body, with ``out=``."""
    entry, values = call.op, call.values
    params = entry.params
    split = sum(not p.keyword_only for p in params)
    body = call.kind.bound(entry.body) if KINDS and not entry.is_placed else entry.body
    result = body(*values[:split], **{p.name: v for p, v in zip(params[split:], values[split:], strict=True)})
    if call.out is None:
        return result
    is_tuple = isinstance(result, tuple)
    tensors = [operand for operand in call.operands if isinstance(operand, Tensor)]
    written = into_out(entry, list(result) if is_tuple else [result], call.out, tensors)
    if entry.out is LISTED:
        return None
    return type(result)(written) if is_tuple else written


def run_factory(call: Call) -> Any:
    """A tensor from sizes, numbers or data: the declared function makes its array, on the device that the options say."""
    entry, values = call.op, call.values
    new = Creation(entry.name, entry.options_of(values), None if entry.model is None else values[entry.model], call.out)
    args, rest, keywords = entry.arguments
    if new.layout is not strided:
        from ..arrays import sparse_factories

        tensor = sparse_factories.made(entry, new, values)
        if tensor is not None:
            return tensor
    named = {name: values[i] for name, i in keywords} if keywords else {}
    try:
        tensor = entry.body(new, *values[:args], *(() if rest is None else values[rest]), **named)
    except TypeError:
        tensor = overridden_by_sizes(call)
        if tensor is NotImplemented:
            raise
        return tensor
    if thread.recorder is not None:
        thread.recorder.made(entry, values, tensor)
    if not isinstance(tensor, Tensor):
        tensor = wrap(pinned(tensor) if new.where is pinned_host else moved(tensor, new.where))
        if call.out is not None:
            tensor = into_out(entry, [tensor], call.out, [])
        else:
            note_order(tensor)
    return require_grad(tensor) if new.requires_grad else tensor


def overridden_by_sizes(call: Call) -> Any:
    """Result of a factory whose sizes or other numbers are of a class with ``__torch_function__``; NotImplemented where none is."""
    call.operands = [leaf for value in call.values for leaf in (value if isinstance(value, tuple | list) else (value,))]
    call.operands = [leaf for leaf in call.operands if not isinstance(leaf, Tensor) and hasattr(type(leaf), "__torch_function__")]
    return call.overridden() if call.operands else NotImplemented


FUNCTION = Form(run_function, "wrapper", is_new=True, casts=True)
IN_PLACE = Form(run_in_place, "public_inplace_wrapper")
IN_PLACE_VIEW = Form(run_in_place_view, "public_inplace_wrapper")
COMPOSITE = Form(run_composite, "wrapper", casts=True)
FACTORY = Form(run_factory, "wrapper", is_new=True)


# -- computing -------------------------------------------------------------------------------------------------------------------
def compute(op: Op, values: Sequence[Any], operands: list[Any], kind: Kind) -> tuple[list[Any], bool]:
    """Promote, check broadcasting, run the kernel; (result arrays, whether there was a tuple of them)."""
    if thread.observers:
        return _observed(op, values, operands, kind)
    dtype, result_dtype, common = promotion(op, operands)
    if dtype is None and not op.is_view and op.name != "_to_copy":
        for operand in operands:
            if isinstance(operand, Tensor) and operand._array.dtype.num == _PAIRS:
                return _widened(op, values, operands, kind)
    if op.broadcasts:
        broadcast_shape(*operand_shapes(op, values))
    if common is not dtype:
        values = rounded(op, values, dtype, common)
    output = run_ignoring_fp(kind.run, op, plain_values(op, values), dtype, result_dtype)
    is_tuple = output.__class__ is tuple or output.__class__ is list
    results = []
    for array in output if is_tuple else (output,):
        if array.__class__ is not np.ndarray:
            array = as_array(array)
        if result_dtype is not None and op.returns is None and array.dtype is not result_dtype.numpy:
            array = run_ignoring_fp(cast_array, array, result_dtype)
        elif (
            op.returns is not None
            and result_dtype is not None
            and dtype is not None
            and dtype is not result_dtype
            and array.dtype is dtype.numpy
        ):
            array = run_ignoring_fp(cast_array, array, result_dtype)  # values that were widened for computing; indices stay
        if op.broadcasts and (array.ndim > 1 or op.keeps_strides) and array.__class__ is np.ndarray and not op.row_major and kind.has_views:
            plain = array.size and 1 not in array.shape
            for operand in operands:
                plain = plain and (not isinstance(operand, Tensor) or operand._array.flags.c_contiguous)
            if not plain:
                array = _laid_out_elementwise(op, array, operands, common)
        results.append(array)
    return results, is_tuple


_PAIRS = dtypes.PAIR.num


def _widened(op: Op, values: Sequence[Any], operands: list[Any], kind: Kind) -> tuple[list[Any], bool]:
    """``compute`` with complex64 in place of complex32, in operands and results; not in those that the caller gave a dtype for."""
    wanted = values[op.names.index("dtype")] if "dtype" in op.names else None

    def wide(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype is dtypes.complex32:
            return wrap(cast_array(value._array, dtypes.complex64))
        return (tuple if isinstance(value, tuple) else list)(map(wide, value)) if isinstance(value, (list, tuple)) else value

    plain = [dtypes.complex64 if value is dtypes.complex32 else wide(value) for value in values]
    results, is_tuple = compute(op, plain, [wide(operand) for operand in operands], kind)
    if wanted is not None and wanted is not dtypes.complex32:
        return results, is_tuple
    narrow = {np.dtype(np.complex64): dtypes.complex32, np.dtype(np.float32): dtypes.float16}
    return [cast_array(array, narrow[array.dtype]) if array.dtype in narrow else array for array in results], is_tuple


def _observed(op: Op, values: Sequence[Any], operands: list[Any], kind: Kind) -> tuple[list[Any], bool]:
    """``compute`` by the innermost observer; around the kernel's call are those outside of it."""
    observers = thread.observers
    thread.observers = observers[:-1]
    plain = values if thread.recorder is None or thread.recorder.plain_values is None else thread.recorder.plain_values(values)
    try:
        return observers[-1](op, values, lambda: compute(op, plain, operands, kind))
    finally:
        thread.observers = observers


Ints = tuple[int, ...]
_CAST_KINDS = {INT_TO_FLOAT: "biu", BOOL_TO_LONG: "b"}  # what operands on a fast path, which have one dtype, are cast from
_OF_ONE_TENSOR = frozenset(("clamp", "pow", "lerp"))  # where a Python number is no operand in PyTorch, whose order would be asked


def _laid_out_elementwise(op: Op, result: np.ndarray, operands: Sequence[Any], common: dtypes.dtype | None) -> np.ndarray:
    """An element-wise result with PyTorch's strides, which NumPy finds in another way; operands of another dtype are cast to ``common``."""
    arrays = [operand._array for operand in operands if isinstance(operand, Tensor)]
    keeps = bool(op.keeps_strides) and _keeps_strides(op, arrays[0])
    has_numbers = len(arrays) < len(operands)
    if common is not None and not keeps:
        arrays = [array if array.dtype is common.numpy else _dense_twin(array) for array in arrays]
    return laid_out(result, _elementwise_strides(op, result.shape, arrays, has_numbers, keeps))


def _keeps_strides(op: Op, array: np.ndarray) -> bool:
    return op.keeps_strides is True or array.dtype.kind == op.keeps_strides


def _dense_twin(array: np.ndarray) -> np.ndarray:
    """An array of the strides that a cast of ``array`` has; its elements are not read."""
    return array if is_dense(array) else stand_in(array.shape, preserved_strides(array))


def stand_in(shape: Ints, strides: Ints) -> np.ndarray:
    """An array of a shape and strides whose elements are not read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, np.bool_), shape, strides)


def _elementwise_strides(op: Op, shape: tuple[int, ...], arrays: list[np.ndarray], has_numbers: bool, keeps: bool) -> tuple[int, ...]:
    if keeps:
        return preserved_strides(arrays[0])
    return elementwise_strides(shape, arrays, has_numbers and op.name not in _OF_ONE_TENSOR)


def settled(op: Op, result: Tensor, operands: Sequence[Any]) -> np.ndarray:
    """Give a fast path's result, of which some operand may not be row-major, PyTorch's strides; its array.

    NumPy finds others where operands lie in memory in different orders, and for sizes of 1 and 0.
    """
    array = result._array
    if (array.ndim < 2 and not op.keeps_strides) or array.__class__ is not np.ndarray:
        return array
    layouts, has_numbers, kind = [], False, ""
    for operand in operands:
        if isinstance(operand, Tensor):
            other = operand._array
            layouts.append((other.shape, other.strides, other.itemsize))
            kind = kind or other.dtype.kind
        elif operand is not None:
            has_numbers = True
    keeps = op.keeps_strides is True or op.keeps_strides == kind
    casts = kind in _CAST_KINDS.get(op.promotion, "")
    strides, order, is_odd = _result_strides(op, array.shape, array.strides, array.itemsize, tuple(layouts), has_numbers, keeps, casts)
    if order is not None:
        moved = np.empty(order[0], array.dtype).transpose(order[1])
        moved[...] = array
        array = result._array = moved
    elif strides is not None:
        array = result._array = laid_out(array, strides)
    if is_odd:
        new_storage(result).uneven = True
    return array


@lru_cache(4096)
def _result_strides(
    op: Op, shape: Ints, strides: Ints, itemsize: int, layouts: tuple[Any, ...], has_numbers: bool, keeps: bool, casts: bool
) -> tuple[Ints | None, tuple[list[int], list[int]] | None, bool]:
    """The strides, in elements, that an element-wise result must get instead of its own (None: those); if that moves elements, the sizes
    of a row-major array that has them when its dimensions are put in another order, and that order; and whether it is not row-major."""

    def of_bytes(shape: Ints, strides: Ints, itemsize: int) -> np.ndarray:
        return stand_in(shape, tuple([step // itemsize for step in strides]))

    arrays = [of_bytes(*layout) for layout in layouts]
    have = of_bytes(shape, strides, itemsize)
    wanted = _elementwise_strides(op, shape, [_dense_twin(array) for array in arrays] if casts else arrays, has_numbers, keeps)
    is_odd = len(shape) > 1 and wanted != contiguous_strides(shape)
    if wanted == element_strides(have):
        return None, None, is_odd
    dims = sorted(range(len(shape)), key=lambda dim: -wanted[dim])
    sizes, order = [shape[dim] for dim in dims], [dims.index(dim) for dim in range(len(shape))]
    moves = have.size and any(n > 1 and a != b for n, a, b in zip(shape, element_strides(have), wanted, strict=True))
    simple = moves and np.empty(sizes, np.bool_).transpose(order).strides == wanted
    return wanted, (sizes, order) if simple else None, is_odd


def plain_values(op: Op, values: Sequence[Any]) -> list[Any]:
    """``values`` with arrays in place of the operands' tensors."""
    plain = list(values)
    for i in op.positions:
        value = values[i]
        if isinstance(value, Tensor):
            plain[i] = value._array
        elif isinstance(value, (list, tuple)):
            plain[i] = [item._array if isinstance(item, Tensor) else item for item in value]
    return plain


def package(op: Op, tensors: list[Tensor]) -> Any:
    """Several results as the caller gets them: a tuple, or a named tuple."""
    return tuple(tensors) if op.returns is None else named_result(op.result_name, op.returns)(tensors)


# -- recording ----------------------------------------------------------------------------------------------------
def record(op: Op, values: Sequence[Any], tensors: list[Tensor]) -> None:
    """Put a call with an input that requires grad on the tape, if its results can require grad."""
    if not op.is_multi_output:
        if is_differentiable(tensors[0]._array):
            tensors[0]._node, tensors[0]._requires_grad = make_node(op, values, [tensors[0]._array], tensors), True
        return
    if not any(is_differentiable(tensor._array) for tensor in tensors):
        return
    node = make_node(op, values, [tensor._array for tensor in tensors], tensors)
    for index, tensor in enumerate(tensors):
        if is_differentiable(tensor._array):
            tensor._node, tensor._requires_grad = Output(node, index), True


def make_node(op: Op, values: Sequence[Any], results: list[np.ndarray], tensors: list[Tensor]) -> Node:
    """A node for a call that was just made."""
    kind = op.node
    edges: list[Any] = []
    required: dict[str, bool] = {}
    flows = False  # whether a gradient goes further than to a view without one of its own
    for name, value in zip(op.names, values, strict=True):
        if name not in kind.inputs:
            continue
        if isinstance(value, (list, tuple)):
            value_edges = [edge_of(tensor) for tensor in value]
            edges += value_edges
            required[name] = any(edge is not None for edge in value_edges)
            flows = flows or required[name]
        else:
            found_one = edge_of(value) if isinstance(value, Tensor) else None
            edges.append(found_one)
            required[name] = found_one is not None
            flows = flows or (found_one is not None and value._requires_grad is not INHERITED)
    if kind.is_multi_output:
        shape: Any = tuple(array.shape for array in results)
        dtype: Any = tuple(array.dtype for array in results)
    else:
        shape, dtype = results[0].shape, results[0].dtype
    saved, attrs = kind.collect(values, required, tensors)
    if flows:
        check_saved(saved)
    node = new_node(kind, tuple(edges), saved, attrs, shape, dtype)
    if thread.saved_hooks and saved:
        pack, unpack_hook = thread.saved_hooks[-1]
        node.saved = tuple([pack_saved(node, entry, pack, unpack_hook) for entry in saved])
    if modes.on_record is not None:
        modes.on_record(node)
    return node


# -- out= and in place ------------------------------------------------------------------------------------------
def _into_out_directly(op: Op, values: Sequence[Any], operands: list[Any], out: Any) -> bool:
    """Have a native kernel write into ``out`` where it is large and fits exactly and nothing is recorded; whether it did."""
    if out.__class__ is not Tensor or thread.recorder is not None or not native.writes(op, out._array):
        return False
    if grad_enabled() and any(isinstance(e, Tensor) and e._requires_grad for e in (out, *operands)):
        return False
    if op.broadcasts and broadcast_shape(*operand_shapes(op, values)) != out._array.shape:
        return False
    check_writable(out, False)
    if not _write_directly(op, values, operands, out):
        return False
    storage_of(out)._bump()
    return True


def _write_directly(op: Op, values: Sequence[Any], operands: list[Any], target: Tensor) -> bool:
    """Have a native kernel write an element-wise result straight into ``target``'s large memory; whether it did.

    The kernel reads each element before it writes it, so ``target`` itself may be an operand, but no other view of its memory.
    """
    if not native.writes(op, target._array):
        return False
    storage = target._storage
    if storage is not None and any(isinstance(e, Tensor) and e is not target and e._storage is storage for e in operands):
        return False
    dtype, result_dtype, common = promotion(op, operands)
    if result_dtype is not None and result_dtype is not target.dtype:
        return False
    plain = plain_values(op, rounded(op, values, dtype, common))
    return run_ignoring_fp(native.run_elementwise, op, plain, dtype, result_dtype, target._array) is not None
