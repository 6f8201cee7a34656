"""Quantized tensors: integers, and the scale and zero point that make numbers of them.

They are made, shown, viewed, copied, saved, compared, sorted, clamped, pooled and turned back into numbers. What computes otherwise raises
NotImplementedError: call ``dequantize`` first, or round with ``fake_quantize_per_tensor_affine``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..calls.registry import is_moving, resolve
from ..once import warn_once
from ..quantizer import Quantizer, chosen_parameters, per_channel_affine, per_channel_affine_float_qparams, per_tensor_affine, qscheme
from ..shape import wrap_dim
from ..storage import TypedStorage
from ..tensor import Tensor, storage_of, wrap
from . import printing, rebuild
from .handlers import Handlers
from .wrapper import WrapperTensor

_INTEGERS = {dtypes.qint8: np.dtype(np.int8), dtypes.quint8: np.dtype(np.uint8), dtypes.qint32: np.dtype(np.int32)}


class QuantizedTensor(WrapperTensor):
    """A tensor whose elements are integers that stand for numbers.

    Args:
        integers: int8, uint8 or int32.
        quantizer: what they stand for.
    Source: torch.quantize_per_tensor, whose results are plain ``torch.Tensor`` objects.
    """

    __slots__ = ()
    _quantizer: Quantizer
    is_quantized = True

    def __new__(cls, integers: Tensor, quantizer: Quantizer) -> Any:
        made: Any = object.__new__(cls)
        made._inner, made._quantizer = integers, quantizer
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _wrapping(self, inner: Tensor) -> Any:
        return QuantizedTensor(inner, self._quantizer)

    @property
    def dtype(self) -> Any:
        return self._quantizer.dtype

    def is_floating_point(self) -> bool:
        return False

    def is_complex(self) -> bool:
        return False

    def is_signed(self) -> bool:
        return self.dtype is not dtypes.quint8

    # -- integers and numbers -------------------------------------------------------------------------------------------------------
    def int_repr(self) -> Tensor:
        """The integers, copied. Source: torch.Tensor.int_repr."""
        return self._inner.clone()

    def dequantize(self) -> Tensor:
        """The numbers, as float32. Source: torch.Tensor.dequantize."""
        return wrap(self._quantizer.numbers(self._inner._array))

    def qscheme(self) -> qscheme:
        """Scheme that maps the integers to numbers. Source: torch.Tensor.qscheme."""
        return self._quantizer.scheme

    def _part(self, name: str, per_channel: bool) -> Any:
        if (self._quantizer.axis is not None) != per_channel:
            wanted = "kPerChannelAffine" if per_channel else "kPerTensorAffine"
            raise RuntimeError(f"Expected quantizer->qscheme() == {wanted} to be true, but got {self.qscheme()}.")
        return getattr(self._quantizer, name)

    def q_scale(self) -> float:
        """Size of a step. Source: torch.Tensor.q_scale."""
        return self._part("scale", False)

    def q_zero_point(self) -> int:
        """Number of the step that stands for 0. Source: torch.Tensor.q_zero_point."""
        return self._part("zero_point", False)

    def q_per_channel_scales(self) -> Tensor:
        """Sizes of steps. Source: torch.Tensor.q_per_channel_scales."""
        return wrap(self._part("scale", True).copy())

    def q_per_channel_zero_points(self) -> Tensor:
        """Numbers of the steps that stand for 0. Source: torch.Tensor.q_per_channel_zero_points."""
        return wrap(self._part("zero_point", True).copy())

    def q_per_channel_axis(self) -> int:
        """The dimension of the channels. Source: torch.Tensor.q_per_channel_axis."""
        return self._part("axis", True)

    def item(self) -> Any:
        return self.dequantize().item()

    def tolist(self) -> Any:
        raise RuntimeError("tolist: expected a plain tensor, got a quantized one; call dequantize first")

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"Got unsupported ScalarType {self.dtype.legacy}")

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        if requires_grad:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        return self

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Quantize the numbers of a float tensor into this one, or take over a quantized one's integers, scale and zero point.

        Raises:
            RuntimeError: a quantized tensor of another dtype or scheme, or a plain one that is not float32.
        Source: torch.Tensor.copy_.
        """
        if isinstance(src, QuantizedTensor):
            if src.qscheme() is not self.qscheme():
                raise RuntimeError("Quantized Copy only works with same qscheme")
            if src.dtype is not self.dtype:
                raise RuntimeError(
                    f"Expected self.scalar_type() == src.scalar_type(): quantized copy of {src.dtype} into {self.dtype}; quantize anew"
                )
            self._inner.copy_(src._inner)
            self._quantizer = src._quantizer
            return self
        if src.dtype is not dtypes.float32:
            raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
        numbers = np.broadcast_to(src.detach()._array, self._inner._array.shape)
        self._inner.copy_(wrap(self._quantizer.integers(numbers, self._inner._array.dtype)))
        return self

    # -- showing and saving ---------------------------------------------------------------------------------------------------------
    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        quantizer, indent = self._quantizer, len("tensor(")
        numbers = self.dequantize()._array
        contents = tensor_contents or (printing._elements_text(numbers, indent) if numbers.size else "[]")
        suffixes = [f"size={tuple(self.shape)}", f"dtype={self.dtype}", f"quantization_scheme={quantizer.scheme}"]
        if quantizer.axis is None:
            suffixes += [f"scale={quantizer.scale}", f"zero_point={quantizer.zero_point}"]
        else:
            suffixes += [f"scale={wrap(quantizer.scale)}", f"zero_point={wrap(quantizer.zero_point)}", f"axis={quantizer.axis}"]
        return printing.with_suffixes("tensor(" + contents, suffixes, indent, breaks_first=False)

    def __reduce_ex__(self, protocol: Any) -> Any:
        quantizer, inner = self._quantizer, self._inner
        params: tuple[Any, ...] = (quantizer.scheme, quantizer.scale, quantizer.zero_point)
        if quantizer.axis is not None:
            params = (quantizer.scheme, wrap(quantizer.scale), wrap(quantizer.zero_point), quantizer.axis)
        storage = TypedStorage(wrap_storage=storage_of(inner), dtype=self.dtype)
        where = (inner.storage_offset(), tuple(inner.shape), inner.stride())
        return _rebuild_qtensor, (storage, *where, params, False, OrderedDict())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._wrapping(self._inner.clone())
        return memo[id(self)]

    # -- calls ------------------------------------------------------------------------------------------------------------------------
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", str(func)), kwargs or {}
        if not args and "input" in kwargs:  # the first argument of all that has the name
            kwargs = dict(kwargs)
            args = (kwargs.pop("input"),)
        own, is_first = QuantizedTensor.__dict__.get(name), bool(args) and isinstance(args[0], QuantizedTensor)
        if own is not None and callable(own) and is_first:
            return own(*args, **kwargs)
        if is_first and (name in _ANY or name == "__getitem__" or is_moving(name)):
            return _moved(func, name, args, kwargs)
        handler = handles.named.get(name)
        if handler is None:
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with quantized tensors: they are moved, compared, sorted, clamped and pooled, "
                "but nothing else is computed with them; call dequantize first"
            )
        return handler(*args, **kwargs)


# -- what becomes of the arguments of functions ----------------------------------------------------------------------------------
_ANY = ("clone", "contiguous", "detach", "alias", "requires_grad_", "cpu")


def _moved(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A view or copy of the integers, with the same quantizer."""
    tensor = args[0]
    if tensor._quantizer.axis is not None and name not in _ANY:
        return _part_of_channels(tensor, name, args[1:], kwargs)
    return _wrapped(func(tensor._inner, *args[1:], **kwargs), tensor._quantizer)


def _part_of_channels(tensor: QuantizedTensor, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One channel, which has one scale."""
    quantizer = tensor._quantizer
    index = args[0] if name == "__getitem__" and isinstance(args[0], int) and quantizer.axis == 0 else None
    if name == "select" and wrap_dim(args[0], tensor._inner.ndim) == quantizer.axis:
        index = args[1]
    if index is None:
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    scale, zero_point = float(quantizer.scale[index]), int(quantizer.zero_point[index])
    single = replace(quantizer, scheme=per_tensor_affine, scale=scale, zero_point=zero_point, axis=None)
    assert quantizer.axis is not None
    return QuantizedTensor(tensor._inner.select(quantizer.axis, index), single)


def _wrapped(result: Any, quantizer: Quantizer) -> Any:
    if isinstance(result, (list, tuple)):
        return type(result)([_wrapped(item, quantizer) for item in result])
    return QuantizedTensor(result, quantizer)


def _numbers(value: Any) -> Any:
    return value.dequantize() if isinstance(value, QuantizedTensor) else value


def _comparison(name: str) -> Callable[..., Any]:
    return lambda input, other: resolve("torch", name)(_numbers(input), _numbers(other))


def _same_quantizer(a: Quantizer, b: Quantizer) -> bool:
    same = (a.scheme, a.dtype, a.axis) == (b.scheme, b.dtype, b.axis)
    return same and np.array_equal(a.scale, b.scale) and np.array_equal(a.zero_point, b.zero_point)


def _equal(input: Any, other: Any) -> bool:
    if not (isinstance(input, QuantizedTensor) and isinstance(other, QuantizedTensor)):
        raise RuntimeError("equal: expected two quantized tensors, or none")
    return _same_quantizer(input._quantizer, other._quantizer) and bool(resolve("torch", "equal")(input._inner, other._inner))


def _cat(tensors: Sequence[Any], dim: int = 0) -> QuantizedTensor:
    """Of tensors with one scale each; integers are rounded to the first one's steps."""
    first = tensors[0]._quantizer
    if any(not isinstance(tensor, QuantizedTensor) or tensor._quantizer.axis is not None for tensor in tensors):
        raise RuntimeError("cat: expected tensors that are quantized as a whole")
    if any(tensor.dtype is not first.dtype for tensor in tensors):
        raise RuntimeError("All dtypes must be the same.")
    parts = [
        tensor._inner
        if _same_quantizer(tensor._quantizer, first)
        else wrap(first.integers(tensor.dequantize()._array, tensor._inner._array.dtype))
        for tensor in tensors
    ]
    return QuantizedTensor(resolve("torch", "cat")(parts, dim), first)


def _whole(name: str, tensor: Any) -> Quantizer:
    """The quantizer of a tensor that has one scale.

    Raises:
        NotImplementedError: one scale for each channel, or a tensor that is not quantized.
    """
    if not isinstance(tensor, QuantizedTensor) or tensor._quantizer.axis is not None:
        raise NotImplementedError(f"{name}: expected a tensor that is quantized as a whole; call dequantize first")
    return tensor._quantizer


def _ordered(name: str) -> Callable[..., Any]:
    """A function that chooses among elements: among the integers, whose order is that of the numbers. Indices stay plain."""

    def handler(input: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer = _whole(name, input)
        result = resolve("torch", name)(input._inner, *args, **kwargs)
        if isinstance(result, tuple):
            return type(result)((QuantizedTensor(result[0], quantizer), *result[1:]))
        return QuantizedTensor(result, quantizer)

    return handler


def _pooled(name: str, namespace: str = "nn.functional") -> Callable[..., Any]:
    """A function that averages integers or chooses the largest, in windows or among all: rounded to the nearest integer."""

    def handler(input: Any, *args: Any, **kwargs: Any) -> Any:
        quantizer, kind = _whole(name, input), input._inner._array.dtype
        numbers = resolve(namespace, name)(input._inner.to(dtypes.float64), *args, **kwargs)
        return QuantizedTensor(wrap(np.rint(numbers._array).astype(kind)), quantizer)

    return handler


def _clamp(input: Any, min: Any = None, max: Any = None) -> QuantizedTensor:
    """Integers between those that the bounds are rounded to."""
    quantizer, kind = _whole("clamp", input), input._inner._array.dtype
    least, most = (None if bound is None else quantizer.integers(np.float32(bound), kind) for bound in (min, max))
    return QuantizedTensor(wrap(np.clip(input._inner._array, least, most)), quantizer)


handles = Handlers("quantized")  # called with the arguments
handles.update({name: _ordered(name) for name in ("max", "min", "sort", "topk")})
handles.update({f"nn.functional.{name}": _pooled(name) for name in ("max_pool1d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")})
handles["mean"] = _pooled("mean", "torch")
handles("clamp", "_clamp_tensors")(_clamp)
handles["relu"] = lambda input, inplace=False: _clamp(input, 0.0)
handles["nn.functional.relu6"] = lambda input, inplace=False: _clamp(input, 0.0, 6.0)
handles["nn.functional.hardtanh"] = lambda input, min_val=-1.0, max_val=1.0, inplace=False: _clamp(input, min_val, max_val)
handles["equal"], handles["cat"] = _equal, _cat
handles["is_same_size"] = lambda input, other: input.shape == other.shape
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    handles(_name, f"Tensor.__{_name}__")(_comparison(_name))


# -- making ----------------------------------------------------------------------------------------------------------------------
_DEPRECATED = (
    "torch.quantize_per_tensor, torch.quantize_per_channel and other quantized tensor creation functions that produce tensors with "
    "dtype torch.quint8, torch.qint8, and torch.qint32 are deprecated and will be removed in a future PyTorch release."
)


def _quantized(input: Tensor, quantizer: Quantizer) -> QuantizedTensor:
    warn_once("quantized", _DEPRECATED)
    return QuantizedTensor(wrap(quantizer.integers(input.detach()._array, _INTEGERS[quantizer.dtype])), quantizer)


def _check(input: Any, dtype: Any) -> None:
    if input.dtype is not dtypes.float32:
        raise RuntimeError(f"Quantize only works on Float Tensor, got {input.dtype.legacy}")
    if dtype not in _INTEGERS:
        raise RuntimeError(f"ScalarType {dtype.legacy} is not supported in new_qtensor.")


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """``input`` as integers that are multiples of one step: ``round(input / scale) + zero_point``, clamped to the dtype.

    Args:
        input: float32; or a sequence of tensors, with tensors of scales and zero points.
        scale: size of a step, a number or a tensor of one element.
        zero_point: the integer that stands for 0.
        dtype: qint8, quint8 or qint32.
    Raises:
        RuntimeError: another dtype, or a zero point beyond it.
    Source: torch.quantize_per_tensor.
    """
    if isinstance(input, (list, tuple)):
        pairs = zip(input, scale.tolist(), zero_point.tolist(), strict=True)
        return tuple([quantize_per_tensor(tensor, step, zero, dtype) for tensor, step, zero in pairs])
    _check(input, dtype)
    step, zero = (float(scale), int(zero_point))
    limits = np.iinfo(_INTEGERS[dtype])
    if not limits.min <= zero <= limits.max:
        side = "below lower" if zero < limits.min else "above upper"
        raise RuntimeError(f"quantize_tensor_per_tensor_affine zero_point {zero} is {side} bound.")
    return _quantized(input, Quantizer(per_tensor_affine, dtype, step, zero))


def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any) -> QuantizedTensor:
    """``input`` as integers, with a scale and a zero point for each channel.

    Args:
        input: float32, ``C`` channels along ``axis``.
        scales, zero_points: ``(C,)``; floating-point zero points are added before rounding.
        dtype: qint8, quint8 or qint32.
    Raises:
        RuntimeError: another dtype, axis, or number of scales.
    Source: torch.quantize_per_channel.
    """
    _check(input, dtype)
    if not 0 <= axis < input.ndim:
        raise RuntimeError(f"Channel axis out of range in per channel affine quantization. Got: {axis}Expected: [0, {input.ndim})")
    for name, part in (("scales", scales), ("zero_points", zero_points)):
        if part.numel() != input.shape[axis]:
            raise RuntimeError(f"length of {name} must equal to channel, expected {input.shape[axis]} got, {part.numel()}")
    return _quantized(input, _per_channel(scales, zero_points, axis, dtype))


def _per_channel(scales: Tensor, zero_points: Tensor, axis: int, dtype: Any) -> Quantizer:
    if zero_points.is_floating_point():
        scheme, of_scale, of_point = per_channel_affine_float_qparams, dtypes.float32, dtypes.float32
    else:
        scheme, of_scale, of_point = per_channel_affine, dtypes.float64, dtypes.int64
    scale, zero_point = (part.detach().to(kind)._array.copy() for part, kind in ((scales, of_scale), (zero_points, of_point)))
    return Quantizer(scheme, dtype, scale, zero_point, axis)


def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> QuantizedTensor:
    """``quantize_per_tensor`` with the scale and the zero point that ``input``'s least and greatest elements, and 0, require.

    Args:
        input: float32.
        dtype: qint8 or quint8.
        reduce_range: use half of the integers.
    Source: torch.quantize_per_tensor_dynamic.
    """
    if dtype not in (dtypes.qint8, dtypes.quint8, dtypes.float16):
        raise RuntimeError("dtype must be torch.float16, torch.quint8, or torch.qint8")
    if dtype is dtypes.float16:
        return input.to(dtype)
    _check(input, dtype)
    array = input.detach()._array
    least, greatest = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    low, high = (0, 255) if dtype is dtypes.quint8 else (-128, 127)
    if reduce_range:
        low, high = low // 2, high // 2
    scale, zero_point = chosen_parameters(least, greatest, low, high)
    return _quantized(input, Quantizer(per_tensor_affine, dtype, scale, zero_point))


def empty_quantized(size: Any, qtensor: QuantizedTensor, **options: Any) -> QuantizedTensor:
    """An uninitialised tensor of the quantization of another one. Source: torch.empty_quantized."""
    if any(value is not None for value in options.values()):
        raise NotImplementedError(f"empty_quantized: expected no options, got {sorted(options)}")
    quantizer = qtensor._quantizer
    return QuantizedTensor(wrap(np.empty(tuple(size), _INTEGERS[quantizer.dtype])), quantizer)


def _empty_affine_quantized(size: Any, *, scale: float = 1.0, zero_point: int = 0, dtype: Any = None, **options: Any) -> QuantizedTensor:
    """An uninitialised tensor, quantized as a whole. Source: torch._empty_affine_quantized."""
    if dtype not in _INTEGERS:
        raise RuntimeError(f"_empty_affine_quantized: expected a quantized dtype such as torch.quint8, got {dtype}")
    return QuantizedTensor(
        wrap(np.empty(tuple(size), _INTEGERS[dtype])), Quantizer(per_tensor_affine, dtype, float(scale), int(zero_point))
    )


def _of_integers(input: Tensor) -> Any:
    found = next((dtype for dtype, kind in _INTEGERS.items() if kind == input._array.dtype), None)
    if found is None:
        raise RuntimeError(f"expected int8, uint8 or int32 integers, got {input.dtype}")
    return found


def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> QuantizedTensor:
    """A quantized tensor of given integers. Source: torch._make_per_tensor_quantized_tensor."""
    return QuantizedTensor(input.clone(), Quantizer(per_tensor_affine, _of_integers(input), float(scale), int(zero_point)))


def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> QuantizedTensor:
    """A quantized tensor of given integers, with a scale for each channel. Source: torch._make_per_channel_quantized_tensor."""
    return QuantizedTensor(input.clone(), _per_channel(scale, zero_point, axis, _of_integers(input)))


def _rebuild_qtensor(
    storage: Any, storage_offset: int, size: Any, stride: Any, quantizer_params: Any, requires_grad: bool, backward_hooks: Any
) -> QuantizedTensor:
    """A quantized tensor from a file, whose every number is checked."""
    dtype: Any = getattr(storage, "dtype", None)
    rebuild._require(isinstance(storage, TypedStorage) and dtype in _INTEGERS, "a storage of a quantized dtype", dtype)
    rebuild._require(isinstance(quantizer_params, tuple) and len(quantizer_params) in (3, 4), "a quantizer's parameters", quantizer_params)
    scheme, scale, zero_point, *axis = quantizer_params
    kind = {np.dtype(np.int8): dtypes.int8, np.dtype(np.uint8): dtypes.uint8, np.dtype(np.int32): dtypes.int32}[_INTEGERS[dtype]]
    inner = rebuild._rebuild_tensor_v3(storage._untyped_storage, storage_offset, size, stride, False, OrderedDict(), kind)
    if scheme is per_tensor_affine:
        rebuild._require(type(scale) is float and type(zero_point) is int and not axis, "a scale and a zero point", (scale, zero_point))
        return QuantizedTensor(inner, Quantizer(scheme, dtype, scale, zero_point))
    channels = isinstance(scale, Tensor) and isinstance(zero_point, Tensor) and len(axis) == 1 and type(axis[0]) is int
    rebuild._require(scheme in (per_channel_affine, per_channel_affine_float_qparams) and channels, "scales of channels", scheme)
    rebuild._require(
        0 <= axis[0] < inner.ndim and scale.numel() == zero_point.numel() == inner.shape[axis[0]], "a scale a channel", axis[0]
    )
    return QuantizedTensor(inner, _per_channel(scale.reshape(-1), zero_point.reshape(-1), axis[0], dtype))


for _function in (
    quantize_per_tensor, quantize_per_channel, quantize_per_tensor_dynamic, empty_quantized, _empty_affine_quantized,
    _make_per_tensor_quantized_tensor, _make_per_channel_quantized_tensor,
):  # fmt: skip  # pickles name them by the module in which PyTorch's are found
    _function.__module__ = __name__.partition(".")[0]
