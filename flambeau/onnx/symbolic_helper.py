"""Helpers of the functions that ``register_custom_op_symbolic`` registers. Source: torch.onnx.symbolic_helper.

Here such a function gets numbers and lists as they are, and tensors as values of the graph. So an argument is constant where it is a
number, a list or a tensor, or a value that the model has itself.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ..core import dtype as dtypes
from ..core.calls.promotion import common_dtype
from ..core.checks import SymInt
from ..core.tensor import Tensor, wrap
from ..facades import unsupported as _unsupported
from .builder import ELEMENT_TYPES, Value
from .errors import OnnxExporterError
from .symbolics import current

globals().update(
    _unsupported.names(
        "onnx.symbolic_helper",
        "_argmin_argmax_helper _avgpool_helper _batchnorm_helper _embedding_bag_helper _interpolate_helper _linalg_vector_norm_helper "
        "_scatter_helper _unpack_quantized_tensor _var_mean_helper dequantize_helper quantize_helper quantized_args requantize_bias_helper",
    )
)

scalar_name_to_pytorch = {
    "uint8_t": "Byte", "int8_t": "Char", "double": "Double", "float": "Float", "half": "Half", "int": "Int", "int64_t": "Long",
    "int16_t": "Short", "bool": "Bool", "complex64": "ComplexFloat", "complex128": "ComplexDouble", "qint8": "QInt8", "quint8": "QUInt8",
    "qint32": "QInt32", "bfloat16": "BFloat16",
}  # fmt: skip
scalar_type_to_pytorch_type = [
    dtypes.ALL[name]
    for name in (
        "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16"
    ).split()
]
pytorch_name_to_type = {dtype.legacy: dtype for dtype in scalar_type_to_pytorch_type}
cast_pytorch_to_onnx = {dtype.legacy: ELEMENT_TYPES[dtype.name] for dtype in pytorch_name_to_type.values() if dtype.name in ELEMENT_TYPES}
_QUANTIZED = {"qint8": 3, "quint8": 2, "qint32": 6, "complex32": 0}
scalar_type_to_onnx = [ELEMENT_TYPES.get(dtype.name, _QUANTIZED.get(dtype.name)) for dtype in scalar_type_to_pytorch_type]


# ---- errors
def _onnx_unsupported(op_name: str, value: Any = None) -> NoReturn:
    raise OnnxExporterError(f"Unsupported: ONNX export of operator {op_name}.")


def _unimplemented(op: str, msg: str, value: Any = None) -> NoReturn:
    _onnx_unsupported(f"{op}, {msg}", value)


def _onnx_opset_unsupported(op_name: str, current_opset: int, supported_opset: int, value: Any = None) -> NoReturn:
    raise OnnxExporterError(f"Unsupported: ONNX export of {op_name} in opset {current_opset}. Please try opset version {supported_opset}.")


def _onnx_opset_unsupported_detailed(op_name: str, current_opset: int, supported_opset: int, reason: str, value: Any = None) -> NoReturn:
    raise OnnxExporterError(
        f"Unsupported: ONNX export of {op_name} in opset {current_opset}. {reason}. Please try opset version {supported_opset}."
    )


def _block_list_in_opset(name: str) -> Callable[..., NoReturn]:
    def symbolic_fn(*args: Any, **kwargs: Any) -> NoReturn:
        raise OnnxExporterError(
            f"ONNX export failed on {name}, which is not implemented for opset {current().opset}. Try exporting with other opset versions."
        )

    return symbolic_fn


def check_training_mode(op_train_mode: int, op_name: str) -> None:
    """Warn of an operation that is in another mode than the model is exported in, which is evaluation unless ``training`` says otherwise.

    Args:
        op_train_mode: whether the operation is in training. op_name: its name, for the warning.
    Source: torch.onnx.symbolic_helper.check_training_mode.
    Example:
        >>> from flambeau.onnx.symbolic_helper import check_training_mode
        >>> check_training_mode(False, "dropout")
    """
    if op_train_mode:
        warnings.warn(f"ONNX export mode is set to TrainingMode.EVAL, but operator '{op_name}' is set to train=True.", stacklevel=2)


# ---- questions about arguments
def _is_none(x: Any) -> bool:
    return x is None


def _is_value(x: Any) -> bool:
    return isinstance(x, Value)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Value)


def _constant_of(value: Any) -> Tensor | None:
    """The tensor that a value of the graph is; None where it is computed of the inputs."""
    array = current().initializers.get(value.name) if current() is not None else None
    return None if array is None else wrap(array)


def _is_constant(value: Any) -> bool:
    return not _is_value(value) or _constant_of(value) is not None


_is_onnx_constant = _is_constant


def _is_list(x: Any) -> bool:
    return isinstance(x, (list, tuple))


def _is_packed_list(list_value: Any) -> bool:
    return _is_list(list_value) and any(_is_value(each) for each in list_value)


_is_tensor_list = _is_packed_list


def _is_scalar_list(x: Any) -> bool:
    return _is_list(x) and all(isinstance(each, (bool, int, float)) for each in x)


def _unpack_list(list_value: Any) -> list[Any]:
    return list(list_value)


def _try_get_scalar_type(*args: Any) -> Any:
    """The dtype of the first argument that has one; None where none has."""
    return next((arg.dtype for arg in args if isinstance(arg, (Value, Tensor))), None)


def _is_fp(value: Any) -> bool:
    dtype = _try_get_scalar_type(value)
    return dtype is not None and bool(dtype.is_floating_point)


def _is_bool(value: Any) -> bool:
    return _try_get_scalar_type(value) is dtypes.bool_


def is_complex_value(x: Any) -> bool:
    """Whether a value of the graph is complex.

    Args:
        x: the value.
    Returns:
        A bool.
    Source: torch.onnx.symbolic_helper.is_complex_value.
    Example:
        >>> from flambeau.onnx.symbolic_helper import is_complex_value
        >>> is_complex_value(torch.ones(2)), is_complex_value(torch.ones(2) * 1j)
        (False, True)
    """
    dtype = _try_get_scalar_type(x)
    return dtype is not None and bool(dtype.is_complex)


def args_have_same_dtype(args: Sequence[Any]) -> bool:
    """Whether values of the graph have one dtype.

    Args:
        args: the values, at least one.
    Returns:
        A bool.
    Source: torch.onnx.symbolic_helper.args_have_same_dtype.
    Example:
        >>> from flambeau.onnx.symbolic_helper import args_have_same_dtype
        >>> args_have_same_dtype([torch.ones(2), torch.ones(2).double()])
        False
    """
    return len({_try_get_scalar_type(arg) for arg in args}) == 1


def _type_promote_from_values(*args: Any) -> Any:
    found = [arg.dtype for arg in args if isinstance(arg, (Value, Tensor))]
    return functools.reduce(lambda a, b: common_dtype((_empty(a), _empty(b))), found)


def _empty(dtype: Any) -> Any:
    from ..core.arrays.meta_array import empty

    return wrap(empty((1,), dtype.numpy))


# ---- shapes
def _get_tensor_sizes(x: Any, allow_nonstatic: bool = True) -> list[int | None] | None:
    """Sizes, None for those that are symbolic; None altogether where some are and ``allow_nonstatic`` is False."""
    sizes = [None if size is None or isinstance(size, SymInt) else int(size) for size in x.shape]
    return sizes if allow_nonstatic or None not in sizes else None


def _get_tensor_rank(x: Any) -> int | None:
    return len(x.shape) if isinstance(x, (Value, Tensor)) and x.shape is not None else None


def _get_tensor_dim_size(x: Any, dim: int) -> int | None:
    sizes = _get_tensor_sizes(x)
    return None if sizes is None else sizes[dim]


# ---- constants
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "i": int,
    "f": float,
    "b": bool,
    "s": str,
    "is": lambda value: [int(each) for each in value],
    "fs": lambda value: [float(each) for each in value],
    "t": lambda value: value if isinstance(value, Tensor) else _tensor(value),
    "none": lambda value: value,
    "v": lambda value: value,
}


def _tensor(value: Any) -> Tensor:
    import numpy as np

    return wrap(np.asarray(value, np.float32 if isinstance(value, float) else None))


def _parse_arg(value: Any, desc: str, arg_name: str | None = None, node_name: str | None = None) -> Any:
    """An argument as a descriptor says: constants as Python's objects, ``"v"`` as it is.

    Raises:
        OnnxExporterError: a value that is computed of the inputs, where a constant is needed, or another descriptor.
    """
    if desc not in _CONVERTERS:
        raise OnnxExporterError(f"ONNX symbolic doesn't know to interpret the descriptor '{desc}'")
    if value is None or desc == "v":
        return value
    if _is_value(value):
        tensor = _constant_of(value)
        if tensor is None:
            raise OnnxExporterError(
                f"ONNX symbolic expected a constant value of the '{arg_name}' argument of '{node_name}', got '{value!r}'"
            )
        value = tensor if desc == "t" else tensor.tolist()
    elif isinstance(value, Tensor) and desc != "t":
        value = value.tolist()
    return _CONVERTERS[desc](value)


def _get_const(value: Any, desc: str, arg_name: str) -> Any:
    if not _is_constant(value):
        raise OnnxExporterError(f"ONNX symbolic expected a constant value of the '{arg_name}' argument, got '{value!r}'")
    return _parse_arg(value, desc, arg_name)


def _maybe_get_const(value: Any, descriptor: str) -> Any:
    return _parse_arg(value, descriptor) if _is_value(value) and _is_constant(value) else value


def _maybe_get_scalar(value: Any) -> Any:
    found = _maybe_get_const(value, "t")
    return found if isinstance(found, Tensor) and not found.ndim else value


def _scalar(x: Any) -> Any:
    """A number out of a constant tensor of one; None of anything else."""
    return x.item() if isinstance(x, Tensor) and not x.ndim else None


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for a function that ``register_custom_op_symbolic`` takes: its arguments are constants or values of the graph.

    Args:
        arg_descriptors: for each argument: ``"v"`` a value, ``"i"``, ``"f"``, ``"b"``, ``"s"`` a number or a string, ``"is"``, ``"fs"`` a
            list, ``"t"`` a tensor that is known, ``"none"`` one that is not used.
    Returns:
        The decorator.
    Raises:
        AssertionError: from the function, more arguments than descriptors.
        OnnxExporterError: from the function, a value that is computed, where a constant is needed.
    Source: torch.onnx.symbolic_helper.parse_args.
    Example:
        >>> from flambeau.onnx.symbolic_helper import parse_args
        >>> @parse_args("v", "is", "f")
        ... def shown(g, x, sizes, scale=1.0):
        ...     return sizes, scale
        >>> shown(None, None, (1, 2), 3)
        ([1, 2], 3.0)
    """

    def decorator(fn: Callable[..., Any]) -> Callable[..., Any]:
        name, names = fn.__name__, list(inspect.signature(fn).parameters)[1:]

        @functools.wraps(fn)
        def wrapper(g: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(arg_descriptors):
                raise AssertionError(
                    f"A mismatch between the number of arguments ({len(args)}) and their descriptors ({len(arg_descriptors)}) was found at "
                    f"symbolic function '{name}'."
                )
            if len(kwargs) > 1 or (kwargs and "_outputs" not in kwargs):
                raise AssertionError(f"Symbolic function {name}'s '**kwargs' can only contain '_outputs' key at '**kwargs'.")
            shown = [*names, *[names[-1] if names else None] * len(args)]
            return fn(
                g, *[_parse_arg(arg, desc, place, name) for arg, desc, place in zip(args, arg_descriptors, shown, strict=False)], **kwargs
            )

        return wrapper

    return decorator


# ---- nodes
def _ints(values: Any) -> Any:
    return values if _is_value(values) else _tensor([int(each) for each in (values if _is_list(values) else [values])])


def _squeeze_helper(g: Any, input: Any, axes_i: Any) -> Any:
    return g.op("Squeeze", input, _ints(axes_i))


def _unsqueeze_helper(g: Any, input: Any, axes_i: Any) -> Any:
    return g.op("Unsqueeze", input, _ints(axes_i))


def _reducesum_helper(g: Any, input: Any, axes_i: Any = None, keepdims_i: int = 1, noop_with_empty_axes_i: int = 0) -> Any:
    axes = None if axes_i is None else _ints(axes_i)
    return g.op("ReduceSum", input, axes, keepdims_i=keepdims_i, noop_with_empty_axes_i=noop_with_empty_axes_i)


def _slice_helper(g: Any, input: Any, axes: Any, starts: Any, ends: Any, steps: Any = None) -> Any:
    return g.op("Slice", input, _ints(starts), _ints(ends), _ints(axes), *([] if steps is None else [_ints(steps)]))


def _reshape_helper(g: Any, input: Any, shape: Any, allowzero: int = 0) -> Any:
    return g.op("Reshape", input, _ints(shape), allowzero_i=allowzero)


def _size_helper(g: Any, self: Any, dim: Any) -> Any:
    return g.op("Gather", g.op("Shape", self), dim, axis_i=0)


def _numel_helper(g: Any, self: Any) -> Any:
    return g.op("ReduceProd", g.op("Shape", self), keepdims_i=0)


def _select_helper(g: Any, self: Any, dim: int, index: Any, apply_reshape: bool = True) -> Any:
    return g.op("Gather", self, index, axis_i=dim)


def _topk_helper(g: Any, input: Any, k: Any, dim: int, largest: bool = True, sorted: bool = False, out: Any = None) -> Any:
    if out is not None:
        _unimplemented("TopK", "Out parameter is not supported")
    return g.op("TopK", input, _ints(k), axis_i=dim, largest_i=int(largest), sorted_i=int(sorted), outputs=2)


def _lt_helper(g: Any, input: Any, other: Any) -> Any:
    return g.op("Less", input, other)


def _maybe_cast_to_type(g: Any, value: Any, jit_type: Any) -> Any:
    return value if _try_get_scalar_type(value) is jit_type else g.op("Cast", value, to_i=ELEMENT_TYPES[jit_type.name])


def _if_scalar_type_as(self: Any, tensor: Any) -> Any:
    """A number in the dtype of a tensor."""
    if _is_value(self) or not isinstance(tensor, (Value, Tensor)):
        return self
    return _tensor(self if not isinstance(self, Tensor) else self.tolist()).to(tensor.dtype)


def _generate_wrapped_number(g: Any, scalar: Any) -> Any:
    return scalar if isinstance(scalar, Tensor) else _tensor(scalar)
