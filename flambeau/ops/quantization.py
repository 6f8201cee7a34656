"""Rounding to the steps of a quantization, whose derivative passes on what lies within the steps; questions to quantized tensors.

Quantized tensors are a class of their own (``flambeau/_quantized.py``), which has these functions of its own; those here are for others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.registry import composite, documented, op, other_names
from ..core.shape import wrap_dim
from ..core.state import grad_enabled
from ..core.tensor import Tensor as TensorType


# -- rounding to steps ------------------------------------------------------------------------------------------------------------------
def _check_range(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError("`quant_min` should be less than or         equal to `quant_max`.")


def _check_fixed(operation: str, **parameters: Any) -> None:
    for name, value in parameters.items():
        if getattr(value, "requires_grad", False) and grad_enabled():
            raise RuntimeError(
                f"The function '{operation}' is not differentiable with respect to argument '{name}'. This input cannot have requires_grad "
                "True."
            )


def _check_real(input: Any) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(f"\"fake_quantize_tensor_cachemask_kernel_type_handling\" not implemented for '{input.dtype.legacy}'")


def _steps(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """Number of the nearest step, halves to even, as float64; minus infinity for NaN."""
    inverse = (np.float32(1) / scale.astype(np.float32)).astype(x.dtype)
    if zero_point.dtype.kind == "f":
        steps = np.rint(x * inverse + zero_point.astype(x.dtype)).astype(np.float64)
    else:
        steps = np.rint(x * inverse).astype(np.float64) + zero_point
    return np.where(np.isnan(steps), -np.inf, steps)


@op(name="_within_steps", grad=None)
def within_steps(input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """Whether an element's step lies within the range."""
    steps = _steps(opmath(input), scale, zero_point)
    return (steps >= quant_min) & (steps <= quant_max)


@op(
    name="_fake_quantize",
    node_name="FakeQuantizePerTensorAffineCachemaskBackward0",
    grad={
        "input": lambda grad, input, scale, zero_point, quant_min, quant_max: (
            grad * within_steps(input.detach(), scale, zero_point, quant_min, quant_max)
        )
    },
)
def fake_quantize(input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """The nearest multiples of ``scale`` whose numbers, from ``zero_point`` on, lie within the range; both broadcast."""
    x = opmath(input)
    steps = np.clip(_steps(x, scale, zero_point), quant_min, quant_max)
    return ((steps - zero_point).astype(x.dtype) * scale.astype(x.dtype)).astype(input.dtype, copy=False)


@composite(method=False, autocast={"cpu": "float32"})
def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
    """Quantize ``input`` and dequantize it: ``(clamp(round(input / scale) + zero_point) - zero_point) * scale``.

    Args:
        input: any shape, floating point.
        scale: size of a step, a number or a tensor of one element.
        zero_point: number of the step that stands for 0, an int or an int32 tensor of one element.
        quant_min, quant_max: the least and the greatest number of a step.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: a range that is empty, or without ``zero_point``.
        NotImplementedError: integers.
    Gradient: ``grad`` within the range, 0 beyond it.
    Source: torch.fake_quantize_per_tensor_affine. Jacob et al. 2018.
    Example:
        >>> torch.fake_quantize_per_tensor_affine(torch.tensor([0.1, 0.26, 9.0]), 0.25, 0, -8, 7)
        tensor([0.0000, 0.2500, 1.7500])
    """
    _check_real(input)
    _check_range(quant_min, quant_max)
    if isinstance(zero_point, int) and not quant_min <= zero_point <= quant_max:
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    _check_fixed("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", scale=scale, zero_point=zero_point)
    scale = scale.detach() if hasattr(scale, "detach") else input.new_tensor(scale, dtype=dtypes.float32)
    if not hasattr(zero_point, "detach"):
        zero_point = input.new_tensor(zero_point, dtype=dtypes.int32)
    return fake_quantize(input, scale, zero_point.detach(), quant_min, quant_max)


@composite(method=False)
def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int) -> Tensor:
    """``fake_quantize_per_tensor_affine`` with a scale and a zero point for each channel.

    Args:
        input: floating point, ``C`` channels along ``axis``.
        scale: ``(C,)``, float32.
        zero_point: ``(C,)``, int32, float32 or float16.
        axis: the channels' dimension, not negative.
        quant_min, quant_max: the least and the greatest number of a step.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        IndexError: ``axis`` out of range.
        RuntimeError: another dtype or number of scales or zero points, or a range that is empty or without one of the zero points.
        NotImplementedError: integers.
    Gradient: ``grad`` within the range, 0 beyond it.
    Source: torch.fake_quantize_per_channel_affine. Krishnamoorthi 2018.
    Example:
        >>> x, scales = torch.tensor([[0.3, 0.7], [0.3, 0.7]]), torch.tensor([0.25, 1.0])
        >>> torch.fake_quantize_per_channel_affine(x, scales, torch.zeros(2, dtype=torch.int32), 0, -8, 7)
        tensor([[0.2500, 0.7500],
                [0.0000, 1.0000]])
    """
    _check_real(input)
    if scale.dtype is not dtypes.float32:
        raise RuntimeError(f"Scale must be Float, found {scale.dtype.legacy}")
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.legacy}")
    if scale.ndim != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.ndim != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    wrap_dim(axis, input.ndim)
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    if scale.numel() != input.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    _check_range(quant_min, quant_max)
    _check_fixed("fake_quantize_per_channel_affine_cachemask", scale=scale, zero_point=zero_point)
    points = zero_point.detach()
    if (
        not zero_point.is_floating_point()
        and points.numel()
        and kind_of(points._array).has_values
        and not (quant_min <= points.min().item() and points.max().item() <= quant_max)
    ):
        raise RuntimeError("`zero_point` must be between `quant_min` and `quant_max`.")
    shape = [-1 if dim == axis else 1 for dim in range(input.ndim)]
    return fake_quantize(input, scale.detach().reshape(shape), points.reshape(shape), quant_min, quant_max)


# -- questions to quantized tensors -----------------------------------------------------------------------------------------------------
@composite()
def dequantize(input: Any) -> Any:
    """The numbers that a quantized tensor stands for, as float32; of a sequence, one after the other.

    Args:
        input: a tensor of any shape, which counts as float32 where it is not quantized, or a sequence of tensors.
    Returns:
        ``input``'s shape, float32; a tuple for a sequence. The tensor itself where it is float32.
    Raises:
        TypeError: what is no tensor.
    Source: torch.dequantize.
    Example:
        >>> torch.dequantize(torch.tensor([1, 2]))
        tensor([1., 2.])
    """
    tensors = input if isinstance(input, (list, tuple)) else (input,)
    if wrong := [type(tensor).__name__ for tensor in tensors if not isinstance(tensor, TensorType)]:
        raise TypeError(f"dequantize(): argument 'input' must be a Tensor or a sequence of Tensors, got {wrong[0]}")
    if tensors is input:
        return tuple([tensor.dequantize() for tensor in tensors])
    return input.dequantize() if input.is_quantized else input.to(dtypes.float32)


other_names("dequantize", tensors="input")


def _declare(name: str, gives: str) -> None:
    @composite(name=name)
    @documented(name=name, gives=gives)
    def refused(input: Tensor) -> Any:
        """{gives} of a quantized tensor; there are no quantized tensors here.

        Args:
            input: any shape.
        Returns:
            Nothing: it always raises.
        Raises:
            NotImplementedError: every tensor.
        Source: torch.{name}.
        Example:
            >>> torch.{name}(torch.ones(2))
            Traceback (most recent call last):
            NotImplementedError: Could not run 'aten::{name}': expected a quantized tensor, got one of dtype torch.float32
        """
        raise NotImplementedError(f"Could not run 'aten::{name}': expected a quantized tensor, got one of dtype {input.dtype}")


_declare("int_repr", "The integers")
_declare("q_scale", "The size of a step")
_declare("q_zero_point", "The number of the step that stands for 0")
_declare("q_per_channel_scales", "Sizes of steps, one for each channel,")
_declare("q_per_channel_zero_points", "Numbers of the steps that stand for 0, one for each channel,")
_declare("q_per_channel_axis", "The dimension of the channels")


@composite(namespace="Tensor")
def qscheme(input: Tensor) -> Any:
    """Scheme that maps integers of a quantized tensor to numbers; there are no quantized tensors here.

    Args:
        input: any shape.
    Returns:
        Nothing: it always raises.
    Raises:
        NotImplementedError: a tensor that is not quantized.
    Source: torch.Tensor.qscheme.
    Example:
        >>> torch.ones(2).is_quantized
        False
    """
    raise NotImplementedError(f"Could not run 'aten::qscheme': expected a quantized tensor, got one of dtype {input.dtype}")
