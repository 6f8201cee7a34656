"""The registry of operations, and the long way through one.

An operation is declared once, by a decorator over its reference kernel in ``ops/``; everything else is derived: the public
function, the method, ``f_``, ``out=``, operators, the tape's node, documentation.  ``doors`` generates the short way, taken by
plain tensors of equal dtype while no mode is on.  This module holds the declaration (``Op``) and the long way, which does
whatever a call may need, in this order:

    overrides and modes -> operands (numbers, lists, subclasses) -> promotion -> broadcasting -> kernel -> result -> tape -> out=
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from . import dtype as dtypes
from . import native
from .history import check_overlap, check_writable, is_differentiable, make_view, rebase, refuse_inference
from .late import made_once
from .node import Node, Output, edge_of, new_node
from .saved import check_saved, pack_saved
from .shape import broadcast_shape
from .state import grad_enabled, modes, run_quietly, thread
from .tensor import Parameter, RestrictedView, Tensor, root_of, storage_of, wrap

if TYPE_CHECKING:
    from .derivatives import OpNode

_NUMBERS = (int, float, complex, np.number, np.bool_)
REQUIRED = inspect.Parameter.empty

# Promotion words, as PyTorch's references use them.
DEFAULT = "default"  # operands to their common dtype, which is the result's
INT_TO_FLOAT = "int_to_float"  # integers and bools become the default float dtype first
BOOL = "bool"  # common dtype for computing, bool result
COMPLEX_TO_FLOAT = "complex_to_float"  # default, but a complex result becomes its real counterpart
BOOL_TO_LONG = "bool_to_long"  # default, but bool becomes int64
SAME = "same"  # operands must have one dtype already; the kernel decides the result's
KEEP = "keep"  # operands are passed as they are; the kernel decides


class Param:
    """One parameter of an operation, read off its signature."""

    __slots__ = ("default", "keyword_only", "kind", "name")

    def __init__(self, name: str, annotation: str, default: Any, keyword_only: bool):
        self.name, self.default, self.keyword_only = name, default, keyword_only
        if "Tensor" not in annotation:
            self.kind = "attr"
        elif "Sequence" in annotation:
            self.kind = "list"
        elif "Number" in annotation:
            self.kind = "number"
        elif "None" in annotation:
            self.kind = "optional"
        else:
            self.kind = "tensor"


def other_keywords(params: Sequence[Param]) -> dict[str, str]:
    """NumPy's spellings of parameters, which PyTorch understands too."""
    names = {p.name for p in params}
    return {other: name for other, name in (("axis", "dim"), ("keepdims", "keepdim")) if name in names and other not in names}


class Op:
    """One declared operation.

    Attributes:
        name: public name; ``kernel``: reference over arrays, its signature is the public one.
        promotion: one of the promotion words above.
        broadcasts: whether operands are broadcast against each other (checked before the kernel runs).
        constants: numbers that, as operands, deserve a native kernel of their own.
        elementwise: whether the kernel is an expression over corresponding elements, which a native kernel can be made of.
        rules: derivative per input name (or comma-separated names), None where it is not differentiable.
        fast: kernel of the short way, or None where there is none; it may return None to take the long way. A string is an
            expression over ``a`` (the first operand's array), ``d`` (its dtype), the attributes and names of the family's module, put
            into the door as it is.
        calm: the kernel of the short way meets no floating-point errors, or silences NumPy itself.
        is_view: the kernel returns views of its first operand's array.
        exact_scalar: a second operand of one element is not rounded to float16 or bfloat16 first.
        halves: how float16 and bfloat16 are computed: 'float32' (cast around the kernel) or 'native'.
        prepare: function (arrays and attributes in signature order) -> the same, or an error; checks before any work.
        returns: names of the fields where the result is a named tuple, whose class is called ``result_name``.
        renamed: old keywords and the parameters they stand for; ``axis`` and ``keepdims`` are understood everywhere.
        reroute: function (op, values, out) -> the same three, called first on the long way: old argument orders (which arrive in a
            parameter ``*old``) and calls that another operation answers.
        fast_inplace: kernel of the short way in place, where ``fast`` is a ufunc that does not know all arguments.
        fast_bool: whether the short way is right for bool operands too.
        may_overlap: the in-place form may write to a tensor that overlaps itself.
        writes: the kernel accepts a last argument ``out`` (a ufunc), so that in-place forms need no temporary.
    """

    def __init__(self, kernel: Callable[..., Any], **options: Any):
        self.kernel = kernel
        self.name: str = options.pop("name", None) or kernel.__name__
        self.namespace: str = options.pop("namespace", "torch")
        self.promotion: str = options.pop("promotion", KEEP)
        self.broadcasts: bool = options.pop("broadcasts", False)
        self.constants: frozenset[Any] = frozenset(options.pop("constants", ()))
        self.elementwise: bool = options.pop("elementwise", self.broadcasts)
        self.rules: dict[str, Callable[..., Any]] | None = options.pop("grad")
        self.fast: Callable[..., Any] | None = options.pop("fast", None)
        self.calm: bool = options.pop("calm", False)
        self.is_view: bool = options.pop("view", False)
        self.is_multi_view: bool = options.pop("multi_view", False)
        self.exact_scalar: bool = options.pop("exact_scalar", False)
        self.halves: str = options.pop("halves", "float32")
        self.prepare: Callable[..., Any] | None = options.pop("prepare", None)
        self.returns: tuple[str, ...] | None = options.pop("returns", None)
        self.ufunc: Any = options.pop("ufunc", None)
        self.method: bool = options.pop("method", True)
        self.operator: str | None = options.pop("operator", None)
        self.inplace: bool = options.pop("inplace", False)
        self.may_overlap: bool = options.pop("may_overlap", False)
        self.out: bool = options.pop("out", True)
        self.aliases: tuple[str, ...] = options.pop("aliases", ())
        self.renamed: dict[str, str] = options.pop("renamed", {})
        self.node_name: str | None = options.pop("node_name", None)
        self.reroute: Callable[..., Any] | None = options.pop("reroute", None)
        self.fast_bool: bool = options.pop("fast_bool", True)
        self.fast_inplace: Callable[..., Any] | None = options.pop("fast_inplace", None)
        self.module: str = kernel.__module__
        self.doc: str | None = kernel.__doc__
        if self.is_view or self.is_multi_view:
            self.out = False
        self.result_name: str = options.pop("result_name", None) or self.name
        self.is_several = bool(options.pop("several", False) or self.returns or self.is_multi_view)
        self.public_inplace: Any = None  # where another function than the generated one is public
        if options:
            raise TypeError(f"{self.name}: unknown options {sorted(options)}")

    # -- what the signature says, read when first needed -------------------------------------------------------------------
    @made_once
    def params(self) -> tuple[Param, ...]:
        return tuple(
            Param(p.name, str(p.annotation), () if p.kind is p.VAR_POSITIONAL else p.default, p.kind is p.KEYWORD_ONLY)
            for p in inspect.signature(self.kernel).parameters.values()
        )

    @made_once
    def positions(self) -> tuple[int, ...]:
        """Places of the operands among the parameters."""
        return tuple(i for i, p in enumerate(self.params) if p.kind != "attr")

    @made_once
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params)

    @made_once
    def keyword_names(self) -> tuple[str, ...]:
        """Names of the parameters that are passed by keyword only."""
        return tuple(p.name for p in self.params if p.keyword_only)

    if TYPE_CHECKING:  # the registry's entries have them

        @property
        def door(self) -> Any: ...
        @property
        def inplace_door(self) -> Any: ...

    @made_once
    def node(self) -> type[OpNode]:
        """The class of this operation's tape nodes."""
        from .derivatives import make_node_class

        return make_node_class(self)

    @property
    def other_keywords(self) -> dict[str, str]:
        """Keywords that stand for a parameter: NumPy's spellings, and this operation's old ones."""
        return {**other_keywords(self.params), **self.renamed}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments in signature order.

        Raises:
            TypeError: missing, unknown or repeated arguments.
        """
        params = self.params
        if len(args) > len(params) or (args and params[len(args) - 1].keyword_only):
            count = sum(not p.keyword_only for p in params)
            raise TypeError(f"{self.name}() takes {count} positional arguments but {len(args)} were given")
        values = list(args)
        for param in params[len(args) :]:
            value = kwargs.pop(param.name, param.default)
            if value is REQUIRED:
                raise TypeError(f'{self.name}() missing 1 required positional arguments: "{param.name}"')
            values.append(value)
        if kwargs:
            raise TypeError(f"{self.name}() got an unexpected keyword argument '{next(iter(kwargs))}'")
        return tuple(values)

    def __repr__(self) -> str:
        return f"<operation {self.namespace}.{self.name}>"


# -- operands ---------------------------------------------------------------------------------------------------------------
def _wrong_operand(op: Op, position: int, value: Any) -> None:
    raise TypeError(f"{op.name}(): argument '{op.names[position]}' (position {position + 1}) must be Tensor, not {type(value).__name__}")


def is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS)


def operands_of(op: Op, values: Sequence[Any]) -> list[Any]:
    """The tensors and numbers among ``values``, lists flattened; checks types.

    Raises:
        TypeError: something else where a tensor is expected.
    """
    params, found = op.params, []
    if op.other_keywords:  # then every parameter may be left out by position
        for param, value in zip(params, values, strict=True):
            if value is REQUIRED:
                raise TypeError(f'{op.name}() missing 1 required positional arguments: "{param.name}"')
    for i in op.positions:
        value, kind = values[i], params[i].kind
        if isinstance(value, Tensor):
            if kind == "list":
                raise TypeError(f"{op.name}(): argument '{params[i].name}' (position {i + 1}) must be tuple of Tensors, not Tensor")
            found.append(value)
        elif kind == "list":
            if not isinstance(value, (tuple, list)):
                raise TypeError(
                    f"{op.name}(): argument '{params[i].name}' (position {i + 1}) must be tuple of Tensors, not {type(value).__name__}"
                )
            for j, each in enumerate(value):
                if not isinstance(each, Tensor) and not hasattr(type(each), "__torch_function__"):
                    raise TypeError(f"expected Tensor as element {j} in argument {i}, but got {type(each).__name__}")
                found.append(each)
        elif value is None and kind == "optional":
            pass
        elif kind == "number" and is_number(value):
            found.append(value)
        elif value is None and params[i].default is None:
            pass
        elif hasattr(type(value), "__torch_function__"):
            found.append(value)
        else:
            _wrong_operand(op, i, value)
    return found


def common_dtype(operands: Sequence[Any]) -> dtypes.dtype:
    """The dtype that tensors and numbers are promoted to together."""
    dimensioned: list[dtypes.dtype] = []
    zero_dim: list[dtypes.dtype] = []
    numbers: list[dtypes.dtype] = []
    for each in operands:
        if isinstance(each, Tensor):
            (dimensioned if each._array.ndim else zero_dim).append(each.dtype)
        else:
            numbers.append(dtypes.of_number(each))
    return dtypes.result_dtype(dimensioned, zero_dim, numbers)


def cast_array(array: np.ndarray, dtype: dtypes.dtype) -> np.ndarray:
    """``array`` with another element type, by C's rules: floats are truncated, integers wrap around."""
    target = dtype.numpy
    if target is None:
        raise NotImplementedError(f"dtype {dtype} is not supported yet: NumPy has no such element type")
    if array.dtype is target or array.dtype == target:
        return array
    source = array.dtype
    if array.size >= native.LARGE:
        made = native.cast(array, target)
        if made is not None:
            return made
    if source.kind == "c" and target.kind != "c" and target.kind != "b":
        array = array.real
    if dtype is dtypes.float8_e4m3fn:
        array = np.clip(array.astype(np.float32), -448, 448)  # has no infinity: PyTorch takes the largest number instead
    if source.kind == "f" and target.kind == "u":
        array = array.astype(np.int64)  # a negative float wraps, as C does through int64
    return array.astype(target, order="C" if 0 in array.strides else "K")


def number_array(value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers wrap around."""
    if isinstance(value, int) and not isinstance(value, bool) and dtype.category == dtypes.INTEGER:
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        if dtype.is_signed and value >> (bits - 1):
            value -= 1 << bits
        return np.array(value, dtype.numpy)
    if isinstance(value, complex) and not dtype.is_complex:
        value = value.real
    return np.array(value).astype(dtype.numpy)


_C_NAMES = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def checked_number(value: Any, dtype: dtypes.dtype) -> np.ndarray:
    """A number as a 0-d array of ``dtype``, which must have room for it; negative integers wrap in an unsigned dtype.

    Raises:
        RuntimeError: a number out of range, or a complex one for a real dtype.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.item()
    if isinstance(value, complex) and not value.imag and not dtype.is_complex:
        value = value.real
    if dtype is dtypes.bool_:
        return np.array(bool(value))
    if dtype.category == dtypes.INTEGER:
        limits = np.iinfo(dtype.numpy)
        fits = not isinstance(value, complex) and math.isfinite(value) and (limits.min or -int(limits.max)) <= int(value) <= limits.max
        if fits and not isinstance(value, bool):
            value = int(value)
    else:
        largest = float(ml_dtypes.finfo(dtype.to_real().numpy).max)
        parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
        fits = len(parts) == 1 or dtype.is_complex
        fits = fits and all((isinstance(part, float) and not math.isfinite(part)) or -largest <= part <= largest for part in parts)
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(dtype.name, dtype.name)} without overflow")
    return number_array(value, dtype)


def _promotion(op: Op, operands: list[Any]) -> tuple[dtypes.dtype | None, dtypes.dtype | None, dtypes.dtype | None]:
    """(dtype to compute in, dtype the kernel's result has to get, dtype before widening halves)."""
    word = op.promotion
    if word == KEEP:
        return None, None, None
    if word == SAME:
        first = None
        for each in operands:
            if isinstance(each, Tensor):
                if first is None:
                    first = each.dtype
                elif each.dtype is not first:
                    raise RuntimeError(f"{op.name}: expected operands of one dtype, but got {first} and {each.dtype}")
        if first in dtypes.REDUCED and op.halves == "float32":
            return dtypes.float32, first, first
        return None, None, None
    common = common_dtype(operands)
    if word == INT_TO_FLOAT and common.category < dtypes.FLOATING:
        common = dtypes.get_default_dtype()
    elif word == BOOL_TO_LONG and common is dtypes.bool_:
        common = dtypes.int64
    compute = dtypes.float32 if common in dtypes.REDUCED and op.halves == "float32" else common
    if word == BOOL:
        return common, dtypes.bool_, common
    if word == COMPLEX_TO_FLOAT and common.is_complex:
        return compute, common.to_real(), common
    return compute, common, common


def arrays_of(op: Op, values: Sequence[Any], compute: dtypes.dtype | None) -> list[Any]:
    """``values`` as the kernel wants them: operands as arrays of dtype ``compute``, attributes unchanged."""
    params, arrays = op.params, list(values)
    for i in op.positions:
        value = values[i]
        if isinstance(value, Tensor):
            arrays[i] = value._array if compute is None else cast_array(value._array, compute)
        elif params[i].kind == "list":
            arrays[i] = [each._array if compute is None else cast_array(each._array, compute) for each in value]
        elif value is not None and params[i].kind == "number" and compute is not None:
            arrays[i] = number_array(value, compute)
    return arrays


def rounded(op: Op, values: Sequence[Any], compute: dtypes.dtype | None, common: dtypes.dtype | None) -> Sequence[Any]:
    """``values`` with operands of other dtypes brought to float16 or bfloat16, which is then widened to ``compute``: they round first."""
    if common not in dtypes.REDUCED or compute is common:
        return values
    made = list(values)
    for i in op.positions:
        value = values[i]
        if op.exact_scalar and i == op.positions[1] and (not isinstance(value, Tensor) or value._array.size == 1):
            continue
        if isinstance(value, Tensor):
            if value.dtype is not common:
                made[i] = wrap(cast_array(value._array, common))
        elif op.params[i].kind == "list":
            made[i] = [each if each.dtype is common else wrap(cast_array(each._array, common)) for each in value]
        elif is_number(value):
            made[i] = float(number_array(value, common))
    return made


def operand_shapes(op: Op, values: Sequence[Any]) -> list[tuple[int, ...]]:
    return [values[i]._array.shape for i in op.positions if isinstance(values[i], Tensor)]


_OF_NUMBERS = frozenset(("add", "sub", "mul", "div", "floor_divide", "_divide_rounded"))  # PyTorch takes two numbers there


# -- the long way -----------------------------------------------------------------------------------------------------------
def long(op: Op, values: tuple[Any, ...], out: Any = None) -> Any:
    """Call ``op`` with arguments in signature order, doing everything that a call may need."""
    if op.reroute is not None:
        op, values, out = op.reroute(op, values, out)
    operands = operands_of(op, values)
    overridden = _override(op.door, op, values, operands, out)
    if overridden is not NotImplemented:
        return overridden
    if op.broadcasts and op.name not in _OF_NUMBERS and not any(isinstance(each, Tensor) for each in operands):
        kinds = ", ".join(type(each).__name__ for each in operands)
        raise TypeError(f"{op.name}() received an invalid combination of arguments - got ({kinds}), but expected at least one Tensor")
    if op.prepare is not None:
        values = op.prepare(*values)
    if out is not None and _into_out_directly(op, values, operands, out):
        return out
    results, several = compute(op, values, operands)
    if op.is_view:
        made = [make_view(each, _viewed(op, values)) for each in results]
        if op.is_multi_view:
            for each in made:
                each._view_of = RestrictedView(root_of(each), op.name)
    else:
        made = [wrap(each) for each in results]
    if out is not None:
        return into_out(op, made, out, operands)
    if op.rules is not None and grad_enabled():
        record(op, values, operands, made)
    return package(op, made, several)


def _into_out_directly(op: Op, values: Sequence[Any], operands: list[Any], out: Any) -> bool:
    """Have a native kernel write into ``out`` where it is large and fits exactly and nothing is recorded; whether it did."""
    if out.__class__ is not Tensor or not op.elementwise or out._array.size < native.LARGE:
        return False
    if grad_enabled() and any(isinstance(e, Tensor) and e._requires_grad for e in (out, *operands)):
        return False
    if op.broadcasts and broadcast_shape(*operand_shapes(op, values)) != out._array.shape:
        return False
    check_writable(out, False)
    check_overlap(out, operands)
    if not _write_directly(op, values, operands, out):
        return False
    storage_of(out)._bump()
    return True


def _viewed(op: Op, values: Sequence[Any]) -> Tensor:
    return values[op.positions[0]]


def compute(op: Op, values: Sequence[Any], operands: list[Any]) -> tuple[list[np.ndarray], bool]:
    """Promote, broadcast-check, run the kernel; (result arrays, whether there was a tuple of them)."""
    dtype, result_dtype, common = _promotion(op, operands)
    if op.broadcasts:
        broadcast_shape(*operand_shapes(op, values))
    values = rounded(op, values, dtype, common)
    if op.elementwise:
        plain = [each._array if isinstance(each, Tensor) else each for each in values]
        made = run_quietly(native.pointwise, op, plain, dtype, result_dtype)
        if made is not None:
            return [made], False
    arrays = arrays_of(op, values, dtype)
    found = run_quietly(_call_kernel, op, arrays)
    several = found.__class__ is tuple or found.__class__ is list
    results = []
    for each in found if several else (found,):
        if each.__class__ is not np.ndarray and not hasattr(each, "writer"):  # a Symbol of the kernels' tracer stays one
            each = np.asarray(each)
        if result_dtype is not None and op.returns is None and each.dtype is not result_dtype.numpy:
            each = cast_array(each, result_dtype)
        elif (
            op.returns is not None
            and result_dtype is not None
            and dtype is not None
            and dtype is not result_dtype
            and each.dtype is dtype.numpy
        ):
            each = cast_array(each, result_dtype)  # values that were widened for computing; indices stay
        results.append(each)
    return results, several


def _call_kernel(op: Op, arrays: list[Any]) -> Any:
    """The native kernel's results, if there is one for operands of this size, else the reference's."""
    first = arrays[op.positions[0]] if op.positions else None
    if first.__class__ is list:
        first = first[0] if first else None
    if first.__class__ is np.ndarray and first.size >= native.LARGE and not op.elementwise:  # type: ignore[union-attr]
        found = native.attempt(native.key_of(op), *arrays)
        if found is not None:
            return found
    if not op.keyword_names:
        return op.kernel(*arrays)
    split = len(arrays) - len(op.keyword_names)
    return op.kernel(*arrays[:split], **dict(zip(op.keyword_names, arrays[split:], strict=True)))


def package(op: Op, made: list[Tensor], several: bool) -> Any:
    """Results as the caller gets them: one tensor, a tuple, or a named tuple."""
    if not several:
        return made[0]
    if op.returns is not None:
        from .return_types import named_result

        return named_result(op.result_name, op.returns)(made)
    return tuple(made)


def record(op: Op, values: Sequence[Any], operands: list[Any], made: list[Tensor]) -> None:
    """Put a call on the tape if one of its inputs requires grad and its results can."""
    for each in operands:
        if isinstance(each, Tensor) and each._requires_grad:
            break
    else:
        return
    if not any(is_differentiable(each._array) for each in made):
        return
    node = new_record(op, values, [each._array for each in made], made)
    if not node.is_several:
        made[0]._node, made[0]._requires_grad = node, True
        return
    for index, each in enumerate(made):
        if is_differentiable(each._array):
            each._node, each._requires_grad = Output(node, index), True


def new_record(op: Op, values: Sequence[Any], results: list[np.ndarray], made: list[Tensor]) -> Node:
    """A node for a call that was just made."""
    kind = op.node
    edges: list[Any] = []
    required: dict[str, bool] = {}
    for name, value in zip(op.names, values, strict=True):
        if name not in kind.inputs:
            continue
        if isinstance(value, (list, tuple)):
            found = [edge_of(each) for each in value]
            edges += found
            required[name] = any(each is not None for each in found)
        else:
            found_one = edge_of(value) if isinstance(value, Tensor) else None
            edges.append(found_one)
            required[name] = found_one is not None
    if kind.is_several:
        shape: Any = tuple(each.shape for each in results)
        dtype: Any = tuple(each.dtype for each in results)
    else:
        shape, dtype = results[0].shape, results[0].dtype
    saved, attrs = kind.collect(values, required, made)
    check_saved(saved)
    node = new_node(kind, tuple(edges), saved, attrs, shape, dtype)
    if thread.saved_hooks and saved:
        pack, unpack_hook = thread.saved_hooks[-1]
        node.saved = tuple([pack_saved(node, each, pack, unpack_hook) for each in saved])
    if modes.on_record is not None:
        modes.on_record(node)
    return node


# -- out= and in place --------------------------------------------------------------------------------------------------------
def into_out(op: Op, made: list[Tensor], out: Any, operands: list[Any]) -> Any:
    """Write results into ``out`` (a tensor, or a tuple of them), resizing it where PyTorch does.

    Raises:
        RuntimeError: a result that ``out``'s dtype cannot hold, or a call that would have to be recorded.
    """
    targets = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(targets) != len(made):
        raise TypeError(f"{op.name}(): expected {len(made)} tensors in 'out', got {len(targets)}")
    if grad_enabled() and any(isinstance(each, Tensor) and each._requires_grad for each in (*operands, *targets)):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    for target, result in zip(targets, made, strict=True):
        if not isinstance(target, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(target).__name__}")
        write_result(target, result._array)
    if len(made) == 1:
        return out
    return package(op, list(targets), True)


def write_result(target: Tensor, array: np.ndarray) -> None:
    """Write one result into ``target``, which is resized if its shape differs."""
    have, want = dtypes.of_array(array), target.dtype
    if not dtypes.can_cast(have, want):
        raise RuntimeError(f"result type {have.legacy} can't be cast to the desired output type {want.legacy}")
    if target._array.shape != array.shape:
        if target._array.size:
            import warnings

            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(target._array.shape)}, which does not match "
                f"the required output shape {list(array.shape)}. This behavior is deprecated, and in a future PyTorch release outputs "
                "will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, "
                "to zero elements with t.resize_(0).",
                UserWarning,
                stacklevel=4,
            )
        target.resize_(array.shape)
    check_writable(target, False)
    target._array[...] = cast_array(array, want)
    storage_of(target)._bump()


def long_inplace(op: Op, values: tuple[Any, ...]) -> Tensor:
    """``f_(input, ...)``: call ``op`` and write the result into its first operand."""
    if op.reroute is not None:
        op, values, _ = op.reroute(op, values, None)
    target = values[0]
    operands = operands_of(op, values)
    overridden = _override(op.public_inplace or op.inplace_door, op, values, operands, None)
    if overridden is not NotImplemented:
        return overridden
    if op.promotion == COMPLEX_TO_FLOAT and target._array.dtype.kind == "c":
        raise RuntimeError(f"In-place {op.name} is not supported for complex tensors.")
    recorded = grad_enabled() and op.rules is not None and any(isinstance(e, Tensor) and e._requires_grad for e in operands)
    check_writable(target, recorded, may_overlap=op.may_overlap and sum(isinstance(e, Tensor) for e in operands) == 1)
    check_overlap(target, operands)
    if op.prepare is not None:
        values = op.prepare(*values)
    shape = target._array.shape
    if op.broadcasts:
        common = broadcast_shape(*operand_shapes(op, values))
        if common != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}")
    overwrites_saved = recorded and ("input" in op.node.saves_inputs or values[0] in _identity(values[1:]))
    node_values = values
    written = not overwrites_saved and _write_directly(op, values, operands, target)
    if not written:
        results, _ = compute(op, values, operands)
        array = results[0]
        have, want = dtypes.of_array(array), target.dtype
        if not dtypes.can_cast(have, want):
            raise RuntimeError(f"result type {have.legacy} can't be cast to the desired output type {want.legacy}")
        if array.shape != shape:
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(array.shape)}")
    if overwrites_saved:  # the derivative needs what is about to be overwritten
        before = target.detach().clone()
        before._requires_grad, before._node = target._requires_grad, target._node
        node_values = tuple(before if each is target else each for each in values)
    if not written:
        target._array[...] = cast_array(array, want)
    storage = storage_of(target)
    storage._bump()
    if recorded:
        history = edge_of(target)
        node = new_record(op, node_values, [target._array], [target])
        if node.edges and node.edges[0] is not history and node_values is not values:
            node.edges = (history, *node.edges[1:])
        rebase(target, node)
    return target


def _write_directly(op: Op, values: Sequence[Any], operands: list[Any], target: Tensor) -> bool:
    """Have a native kernel write an element-wise result straight into ``target``'s large memory; whether it did.

    The kernel reads each element before it writes it, so ``target`` itself may be an operand, but no other view of its memory.
    """
    if not op.elementwise or target._array.size < native.LARGE:
        return False
    storage = target._storage
    if storage is not None and any(isinstance(e, Tensor) and e is not target and e._storage is storage for e in operands):
        return False
    dtype, result_dtype, common = _promotion(op, operands)
    if result_dtype is not None and result_dtype is not target.dtype:
        return False
    values = rounded(op, values, dtype, common)
    plain = [each._array if isinstance(each, Tensor) else each for each in values]
    return run_quietly(native.pointwise, op, plain, dtype, result_dtype, target._array) is not None


class _identity:
    """Membership by identity, where ``==`` of tensors is element-wise."""

    def __init__(self, items: Sequence[Any]):
        self.items = items

    def __contains__(self, item: Any) -> bool:
        return any(each is item for each in self.items)


def long_inplace_view(op: Op, values: tuple[Any, ...]) -> Tensor:
    """``f_`` of a view operation (``t_``, ``squeeze_``, ...): the tensor itself takes the view's shape and strides."""
    target = values[0]
    operands = operands_of(op, values)
    recorded = grad_enabled() and target._requires_grad
    refuse_inference(target)
    if recorded and target._node is None:
        check_writable(target, True)
    if op.prepare is not None:
        values = op.prepare(*values)
    results, _ = compute(op, values, operands)
    storage = storage_of(target)
    if recorded:
        node = new_record(op, values, results, [target])
        target._array = results[0]
        storage._bump()
        target._node = node
        return target
    target._array = results[0]
    storage._bump()
    return target


def _override(public: Any, op: Op, values: Sequence[Any], operands: list[Any], out: Any) -> Any:
    """What ``__torch_function__`` of a subclass or an active mode returns for this call; NotImplemented if there is none."""
    for each in operands:
        kind = each.__class__
        if kind is not Tensor and kind is not Parameter and hasattr(kind, "__torch_function__"):
            break
    else:
        if not (modes.active and thread.function_modes):
            return NotImplemented
    from .override import call_override

    kwargs = {p.name: v for p, v in zip(op.params, values, strict=True) if p.keyword_only and v is not p.default}
    args = [v for p, v in zip(op.params, values, strict=True) if not p.keyword_only]
    while args and (last := op.params[len(args) - 1]).default is not REQUIRED and args[-1] is last.default:
        args.pop()
    if out is not None:
        kwargs["out"] = out
    return call_override(public, operands, tuple(args), kwargs)
