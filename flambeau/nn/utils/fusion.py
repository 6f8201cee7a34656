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
    Returns:
        A convolution of ``conv``'s class, with a bias.
    Raises:
        AssertionError: one of them is in training, or ``bn`` has no running statistics.
    Source: torch.nn.utils.fuse_conv_bn_eval.
    Example:
        >>> conv, norm, x = nn.Conv2d(3, 8, 3).eval(), nn.BatchNorm2d(8).eval(), torch.randn(1, 3, 5, 5)
        >>> fused = nn.utils.fuse_conv_bn_eval(conv, norm)
        >>> torch.allclose(fused(x), norm(conv(x)), atol=1e-6)
        True
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
    Returns:
        Weight and bias, parameters of the shapes ``conv_w``'s and ``(out,)``.
    Source: torch.nn.utils.fuse_conv_bn_weights.
    Example:
        >>> weight, bias = nn.utils.fuse_conv_bn_weights(
        ...     torch.ones(2, 3, 1), None, torch.zeros(2), torch.full((2,), 4.0), 0.0, None, torch.ones(2))
        >>> weight[0, 0].item(), bias.data
        (0.5, tensor([1., 1.]))
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
    Returns:
        A linear layer with a bias.
    Raises:
        AssertionError: one of them is in training, features do not fit, or ``bn`` has no running statistics.
    Source: torch.nn.utils.fuse_linear_bn_eval.
    Example:
        >>> linear, norm, x = nn.Linear(3, 2).eval(), nn.BatchNorm1d(2).eval(), torch.randn(4, 3)
        >>> fused = nn.utils.fuse_linear_bn_eval(linear, norm)
        >>> torch.allclose(fused(x), norm(linear(x)), atol=1e-6)
        True
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
    """Weight and bias of a linear layer with the batch normalization after it.

    Args:
        linear_w, linear_b: ``(out, in)`` and ``(out,)`` of the layer; the bias may be None.
        bn_rm, bn_rv, bn_eps: running mean and variance, ``(out,)`` or ``(1,)``, and what is added to the variance.
        bn_w, bn_b: of the normalization, of the same shape.
    Returns:
        Weight ``(out, in)`` and bias ``(out,)``, parameters.
    Source: torch.nn.utils.fuse_linear_bn_weights.
    Example:
        >>> weight, bias = nn.utils.fuse_linear_bn_weights(
        ...     torch.ones(1, 2), torch.ones(1), torch.ones(1), torch.full((1,), 4.0), 0.0, torch.ones(1), torch.zeros(1))
        >>> weight.data, bias.data
        (tensor([[0.5000, 0.5000]]), tensor([0.]))
    """
    bias = ops.zeros_like(bn_rm) if linear_b is None else linear_b
    scale = bn_w * ops.rsqrt(bn_rv + bn_eps)
    fused_w = linear_w * scale.unsqueeze(-1).to(dtype=linear_w.dtype)
    fused_b = ((bias - bn_rm) * scale + bn_b).to(dtype=(linear_w if linear_b is None else linear_b).dtype)
    return Parameter(fused_w, linear_w.requires_grad), Parameter(fused_b, bias.requires_grad)
