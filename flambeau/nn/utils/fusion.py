"""A layer and the batch normalization after it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from ... import ops
from ...core.tensor import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")


def _statistics(bn: Any) -> tuple[Any, Any]:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return bn.running_mean, bn.running_var


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what ``conv`` and ``bn`` after it do in evaluation.

    Args:
        conv: the convolution; copied.
        bn: the batch normalization.
        transpose: whether ``conv`` is a transposed convolution.
    Raises:
        AssertionError: one of them is in training, or ``bn`` has no running statistics.
    Source: torch.nn.utils.fuse_conv_bn_eval.
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    mean, var = _statistics(bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias, transpose)
    return fused


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with the batch normalization after it.

    Args:
        conv_w, conv_b: of the convolution; the bias may be None.
        bn_rm, bn_rv, bn_eps: running mean and variance, and what is added to the variance.
        bn_w, bn_b: of the normalization; may be None.
        transpose: whether channels of the result are the weight's second dimension.
    Source: torch.nn.utils.fuse_conv_bn_weights.
    """
    bias = ops.zeros_like(bn_rm) if conv_b is None else conv_b
    gain = ops.ones_like(bn_rm) if bn_w is None else bn_w
    shift = ops.zeros_like(bn_rm) if bn_b is None else bn_b
    scale = ops.rsqrt(bn_rv + bn_eps)
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    fused_w = (conv_w * (gain * scale).reshape(shape)).to(dtype=conv_w.dtype)
    fused_b = ((bias - bn_rm) * scale * gain + shift).to(dtype=(conv_w if conv_b is None else conv_b).dtype)
    return Parameter(fused_w, conv_w.requires_grad), Parameter(fused_b, bias.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what ``linear`` and ``bn`` after it do in evaluation.

    Args:
        linear: the layer; copied.
        bn: the batch normalization, of as many features or of 1.
    Raises:
        AssertionError: one of them is in training, features do not fit, or ``bn`` has no running statistics.
    Source: torch.nn.utils.fuse_linear_bn_eval.
    """
    _check(linear, bn)
    fused = copy.deepcopy(linear)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, "
            f"got linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    mean, var = _statistics(bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias)
    return fused


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with the batch normalization after it; the arguments are those of ``fuse_conv_bn_weights``.

    Source: torch.nn.utils.fuse_linear_bn_weights.
    """
    bias = ops.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * ops.rsqrt(bn_rv + bn_eps)
    fused_w = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    fused_b = ((bias - bn_rm) * scale + bn_b).to(dtype=(linear_w if linear_b is None else linear_b).dtype)
    return Parameter(fused_w, linear_w.requires_grad), Parameter(fused_b, bias.requires_grad)
