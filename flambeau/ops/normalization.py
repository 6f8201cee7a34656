"""Normalization over batches, layers, groups, instances and neighbouring channels.

Batch, layer, group and instance norm are one primitive: the input is seen in a shape of few dimensions (``view``), mean and variance
are taken over ``axes`` of it, and weight and bias are seen in shape ``affine``.

                view               axes     affine
    batch       (N, C, P)          0, 2     (1, C, 1)
    layer       (rows, D)          1        (1, D)
    group       (N, G, C/G, P)     2, 3     (1, G, C/G, 1)
    instance    (N, C, P)          2        (1, C, 1)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.casting import opmath
from ..core.calls.registry import composite, functional, op, resolve
from ..core.layout import row_major
from ..core.state import grad_enabled, thread
from ..core.tensor import storage_of
from .average_pooling import avg_pool2d
from .padding import constant_pad_nd
from .patches import Ints, in_layout, is_channels_last, product


def _total(x: np.ndarray, axes: Ints) -> np.ndarray:
    """Sum over ``axes``, which are kept with size 1: pairwise along the last, float64 across the others."""
    last = x.ndim - 1
    total = x
    if last in axes and x.shape[last] != 1:
        total = np.add.reduce(x, axis=last, keepdims=True)
    rest = tuple([axis for axis in axes if x.shape[axis] != 1 and axis != last])
    if not rest:
        return x.copy() if total is x else total
    return np.add.reduce(total, axis=rest, dtype=np.float64 if x.dtype == np.float32 else x.dtype, keepdims=True)


def _moments(x: np.ndarray, axes: Ints) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance (divided by the number of elements) and ``x - mean``: two passes, as the difference of squares loses digits."""
    count = product([x.shape[axis] for axis in axes])
    mean = np.divide(_total(x, axes), count).astype(x.dtype, copy=False)
    centred = np.subtract(x, mean)
    variance = np.divide(_total(np.multiply(centred, centred), axes), count).astype(x.dtype, copy=False)
    return mean, variance, centred


def _scaled(centred: np.ndarray, variance: np.ndarray, weight: Any, bias: Any, affine: Ints, eps: float) -> np.ndarray:
    """``centred / sqrt(variance + eps) * weight + bias``, into ``centred``."""
    scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
    if weight is not None:
        scale_shape = np.broadcast_shapes(scale.shape, affine)
        if product(scale_shape) <= max(scale.size, weight.size):  # one factor per element of the larger one
            scale = scale * weight.reshape(affine)
        else:
            np.multiply(centred, scale, out=centred)
            scale = weight.reshape(affine)
    np.multiply(centred, scale, out=centred)
    if bias is not None:
        np.add(centred, bias.reshape(affine), out=centred)
    return centred


def _same_types(input: np.ndarray, others: Any, message: str) -> None:
    """Parameters have the input's dtype, or all of them float32 beside a reduced one.

    Raises:
        RuntimeError: neither.
    """
    found = {part.dtype for part in others if part is not None}
    if found - {input.dtype} and not (found == {np.dtype(np.float32)} and dtypes.of_array(input) in dtypes.REDUCED):
        raise RuntimeError(message)


def normalized(input: Tensor, weight: Tensor | None, bias: Tensor | None, view: Any, axes: Any, affine: Any, eps: float) -> Tensor:
    """``input`` with mean 0 and variance 1 over ``axes`` of its ``view``, times ``weight`` plus ``bias``; with mean and variance."""
    if input.dtype.kind not in "fV" and dtypes.of_array(input) not in dtypes.REDUCED:
        raise NotImplementedError(f"\"normalization\" not implemented for '{dtypes.of_array(input).legacy}'")
    _same_types(input, (weight, bias), "mixed dtype (CPU): expect parameter to have scalar type of Float")
    weight, bias = opmath(weight), opmath(bias)
    last = axes != (1,) and is_channels_last(input)  # layer norm gives rows
    if last and axes == (0, 2):
        x = np.moveaxis(opmath(input), 1, -1)
        mean, variance, centred = _moments(x.reshape(-1, view[1]), (0,))
        result = np.moveaxis(_scaled(centred, variance, weight, bias, (1, view[1]), eps).reshape(x.shape), -1, 1)
        mean, variance = mean.reshape(affine), variance.reshape(affine)
    else:
        mean, variance, centred = _moments(opmath(input).reshape(view), axes)
        result = row_major(_scaled(centred, variance, weight, bias, affine, eps).reshape(input.shape))
    return in_layout(result.astype(input.dtype, copy=False), last), mean, variance


def _derivatives_again(grad: Any, input: Any, weight: Any, view: Ints, axes: Ints, affine: Ints, eps: float, needs: Any) -> Any:
    """The gradients as Tensor code over ``input`` itself, so that they can be differentiated."""
    x, g = input.reshape(view), grad.reshape(view)
    centred = x - x.mean(axes, keepdim=True)
    scale = (centred * centred).mean(axes, keepdim=True).add(eps).rsqrt()
    unit = centred * scale
    to_input = to_weight = to_bias = None
    if needs[0]:
        inner = g if weight is None else g * weight.reshape(affine)
        to_input = scale * (inner - inner.mean(axes, keepdim=True) - unit * (inner * unit).mean(axes, keepdim=True))
        to_input = to_input.reshape(input.shape)
    summed = tuple([axis for axis, size in enumerate(affine) if size == 1])
    if needs[1]:
        to_weight = (g * unit).sum(summed).reshape(weight.shape)
    if needs[2]:
        to_bias = g.sum(summed).reshape(-1) if weight is None else g.sum(summed).reshape(weight.shape)
    return to_input, to_weight, to_bias


@op(name="_normalized_backward", namespace="nn.functional", multi_output=True, opmath="native", fast=True, grad=None)
def normalized_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, variance: Tensor, view: Any, axes: Any, affine: Any, eps: float
) -> Tensor:
    """Gradients of ``_normalized`` for input, weight and bias, from the saved moments."""
    last = is_channels_last(input)
    g, x = opmath(grad_output), opmath(input)
    by_channel = last and axes == (0, 2)
    if by_channel:  # rows of channels, as they lie in memory
        g, x = (np.moveaxis(array, 1, -1).reshape(-1, view[1]) for array in (g, x))
        view, axes, affine = x.shape, (0,), (1, view[1])
        mean, variance = mean.reshape(affine), variance.reshape(affine)
    else:
        g, x = g.reshape(view), x.reshape(view)
    scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
    unit = np.subtract(x, mean)
    np.multiply(unit, scale, out=unit)
    count = product([view[axis] for axis in axes])
    summed = tuple([axis for axis, size in enumerate(affine) if size == 1])
    products = np.multiply(g, unit)
    to_weight, to_bias = _total(products, summed), _total(g, summed)
    if summed == axes:  # the means over the axes are the sums for weight and bias
        factor = scale if weight is None else scale * opmath(weight).reshape(affine)
        of_unit, of_ones = to_weight, to_bias
    else:
        factor = scale
        if weight is not None:
            weights = opmath(weight).reshape(affine)
            g = np.multiply(g, weights)
            np.multiply(products, weights, out=products)
        of_unit, of_ones = _total(products, axes), _total(g, axes)
    np.multiply(unit, (of_unit / -count).astype(x.dtype, copy=False), out=unit)
    unit += g
    unit -= (of_ones / count).astype(x.dtype, copy=False)
    np.multiply(unit, factor, out=unit)
    kind = input.dtype if weight is None else weight.dtype
    if by_channel:
        unit = np.moveaxis(unit.reshape(input.shape[0], *input.shape[2:], input.shape[1]), -1, 1)
    gradient = in_layout(unit.reshape(input.shape).astype(input.dtype, copy=False), last)
    shape = (-1,) if weight is None else weight.shape
    return gradient, to_weight.astype(kind, copy=False).reshape(shape), to_bias.astype(kind, copy=False).reshape(shape)


def _normalized_rule(
    grad: Any,
    input: Any,
    weight: Any,
    result1: Any,
    result2: Any,
    bias_shape: Any,
    view: Ints,
    axes: Ints,
    affine: Ints,
    eps: float,
    needs: Any,
) -> Any:
    if grad_enabled():
        to_input, to_weight, to_bias = _derivatives_again(grad, input, weight, view, axes, affine, eps, needs)
    else:
        to_input, to_weight, to_bias = normalized_backward(grad, input, weight, result1, result2, view, axes, affine, eps)
    if needs[2] and weight is None:
        to_bias = to_bias.reshape(bias_shape)
    return to_input if needs[0] else None, to_weight if needs[1] else None, to_bias if needs[2] else None


NORMS: dict[str, Any] = {
    kind: op(
        name=f"_{kind.lower()}_norm",
        namespace="nn.functional",
        node_name=f"Native{kind}NormBackward0",
        multi_output=True,
        opmath="native",
        fast=normalized,
        work="512 * input.size" if kind == "Layer" else None,  # NumPy's passes over a row cost a launch each
        grad={"input, weight, bias": _normalized_rule},
    )(normalized)
    for kind in ("Batch", "Layer", "Group")
}


# -- batch norm ----------------------------------------------------------------------------------------------------------------
@op(name="_batch_norm_fixed_backward", namespace="nn.functional", multi_output=True, opmath="native", fast=True, grad=None)
def batch_norm_fixed_backward(
    grad_output: Tensor, input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, eps: float
) -> Tensor:
    """Gradients of ``_batch_norm_fixed`` for input, weight and bias."""
    g, x = opmath(grad_output), opmath(input)
    ones, summed = (1, -1, *(1,) * (x.ndim - 2)), (0, *range(2, x.ndim))
    mean, variance = opmath(mean), opmath(variance)
    scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
    factor = scale if weight is None else scale * opmath(weight)
    gradient = np.multiply(g, factor.reshape(ones).astype(g.dtype, copy=False))
    products = np.subtract(x, mean.reshape(ones))
    np.multiply(products, g, out=products)
    kind = input.dtype if weight is None else weight.dtype
    to_weight, to_bias = _total(products, summed).reshape(-1) * scale, _total(g, summed).reshape(-1)
    return gradient.astype(input.dtype, copy=False), to_weight.astype(kind, copy=False), to_bias.astype(kind, copy=False)


def _fixed_rule(grad: Any, input: Any, mean: Any, variance: Any, weight: Any, bias_shape: Any, eps: float, needs: Any) -> Any:
    if (needs[1] or needs[2]) and not grad_enabled():
        gradients = batch_norm_fixed_backward(grad, input, mean, variance, weight, eps)
        return tuple([gradient if need else None for gradient, need in zip(gradients, needs, strict=True)])
    ones = (1, -1, *(1,) * (input.ndim - 2))
    scale = variance.add(eps).rsqrt().to(input.dtype)
    summed = (0, *range(2, input.ndim))
    to_input = to_weight = to_bias = None
    if needs[0]:
        factor = scale if weight is None else scale * weight
        to_input = grad * factor.reshape(ones)
    if needs[1]:
        to_weight = (grad * (input - mean.reshape(ones))).sum(summed) * scale
    if needs[2]:
        to_bias = grad.sum(summed)
    return to_input, to_weight, to_bias


@op(
    work="4 * input.size",
    name="_batch_norm_fixed",
    namespace="nn.functional",
    node_name="NativeBatchNormBackward0",
    opmath="native",
    fast=True,
    grad={"input, weight, bias": _fixed_rule},
)
def batch_norm_fixed(input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """``(input - mean) / sqrt(variance + eps) * weight + bias`` with given moments per channel."""
    _same_types(input, (mean, variance, weight, bias), "mixed dtype (CPU): all inputs must share same datatype.")
    x = opmath(input)
    ones = (1, -1, *(1,) * (x.ndim - 2))
    mean, variance, weight, bias = opmath(mean), opmath(variance), opmath(weight), opmath(bias)
    scale = 1 / np.sqrt(variance + variance.dtype.type(eps))
    if weight is not None:
        scale = scale * weight
    result = np.subtract(x, mean.reshape(ones))
    np.multiply(result, scale.reshape(ones), out=result)
    if bias is not None:
        np.add(result, bias.reshape(ones), out=result)
    return result.reshape(input.shape).astype(input.dtype, copy=False)


def check_channels(input: Any, channels: int, **parameters: Any) -> None:
    for name, parameter in parameters.items():
        if parameter is not None and parameter._array.size != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {parameter.numel()}")


def check_constant(**moments: Any) -> None:
    for name, moment in moments.items():
        if moment is not None and moment.requires_grad and grad_enabled():
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input cannot have "
                "requires_grad True."
            )


def check_groups(shape: Any, channels: int, groups: int, **parameters: Any) -> None:
    """Raise where channels do not make as many groups, or where parameters do not have an element for each channel."""
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(shape)} and "
            f"num_groups={groups}"
        )
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape "
                f"{list(parameter.shape)} and input of shape {list(shape)}"
            )


def check_float(input: Any, word: str) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(f"\"{word}\" not implemented for '{input.dtype.legacy}'")


def _move(running: Any, value: Any, scale: float, momentum: float) -> None:
    """``running = (1 - momentum) * running + momentum * scale * value``, in place and unrecorded."""
    array, given = running._array, value._array
    if not isinstance(array, np.ndarray) or not isinstance(given, np.ndarray):  # inside transforms, or on a device
        running.mul_(1 - momentum).add_(value.detach().reshape(array.shape), alpha=momentum * scale)
        return
    if thread.recorder is not None:
        step = value.detach() if scale == 1 else value.detach() * scale
        running.mul_(1 - momentum).add_((step * momentum).reshape(array.shape))
        return
    more = momentum * (given if scale == 1 else given * scale).reshape(array.shape)
    if array.dtype == more.dtype:
        array *= 1 - momentum
        array += more
    else:
        array[...] = ((1 - momentum) * opmath(array) + more).astype(array.dtype, copy=False)
    storage_of(running)._bump()


def update_running(running_mean: Any, running_var: Any, mean: Any, variance: Any, count: int, momentum: float) -> None:
    """Move the running moments towards a batch's; the variance is divided by ``count - 1`` for it."""
    if running_mean is not None:
        _move(running_mean, mean, 1, momentum)
    if running_var is not None:
        _move(running_var, variance, count / max(count - 1, 1), momentum)


def of_nothing(input: Any, weight: Any, bias: Any) -> Any:
    """An empty result that depends on the parameters, whose gradients are zeros; the running moments stay."""
    result = input.clone()
    if weight is not None:
        result = result * weight[0]
    return result if bias is None else result + bias[0]


def normalized_batch(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    shape = input._array.shape
    if not input._array.size and len(shape) > 1:
        return of_nothing(input, weight, bias)
    channels = shape[1] if len(shape) > 1 else 0
    check_channels(input, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_float(input, "batch_norm")
    check_constant(running_mean=running_mean, running_var=running_var)
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(f"{'running_mean' if running_mean is None else 'running_var'} must be defined in evaluation mode")
        return batch_norm_fixed(input, running_mean, running_var, weight, bias, eps)
    count = product(shape) // max(channels, 1)
    view = (shape[0], channels, product(shape[2:]))
    _same_types(
        input._array,
        [None if e is None else e._array for e in (running_mean, running_var, weight, bias)],
        "mixed dtype (CPU): all inputs must share same datatype.",
    )
    result, mean, variance = NORMS["Batch"].wrapper(input, weight, bias, view, (0, 2), (1, channels, 1), eps)
    update_running(running_mean, running_var, mean, variance, count, momentum)
    return result


@composite(namespace="nn.functional")
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel with mean 0 and variance 1 over batch and space, then times ``weight`` plus ``bias``.

    Args:
        input: ``(N, C, *)``, floating point.
        running_mean, running_var: ``(C,)``; used in evaluation, and in training moved in place towards the batch's moments.
        weight, bias: ``(C,)`` or None.
        training: use the batch's own moments.
        momentum: how far the running moments move; the running variance takes the batch's divided by n - 1.
        eps: added to the variance.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        ValueError: one value a channel in training, or an ``eps`` that is not positive there.
        RuntimeError: parameters that do not have ``C`` elements, or evaluation without running moments.
    Gradient: through the batch's moments in training.
    Source: torch.nn.functional.batch_norm. Ioffe and Szegedy 2015.
    Example:
        >>> x, mean, variance = torch.tensor([[1.0, 10.0], [3.0, 30.0]]), torch.zeros(2), torch.ones(2)
        >>> F.batch_norm(x, mean, variance, training=True)
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]])
        >>> mean  # a tenth of the way to 2 and 20
        tensor([0.2000, 2.0000])
    """
    if training:
        shape = input.shape
        if len(shape) > 1 and shape[0] * product(shape[2:]) == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")
        if (running_mean is None) != (running_var is None):
            raise ValueError("running_mean and running_var must either both be None or neither be None")
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    return normalized_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(name="batch_norm", method=False)
def torch_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """``nn.functional.batch_norm`` with another order of arguments.

    Args:
        input: ``(N, C, *)``, floating point.
        weight, bias, running_mean, running_var: ``(C,)`` or None.
        training, momentum, eps: as for ``nn.functional.batch_norm``.
        cudnn_enabled: which of PyTorch's GPU libraries may be used; no meaning here.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: parameters that do not have ``C`` elements, or evaluation without running moments.
    Source: torch.batch_norm.
    Example:
        >>> mean, variance = torch.tensor([1.0, 5.0]), torch.tensor([4.0, 4.0])
        >>> torch.batch_norm(torch.tensor([[3.0, 9.0]]), None, None, mean, variance, False, 0.1, 0.0, True)
        tensor([[1., 2.]])
    """
    return normalized_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)


@composite(namespace="nn.functional")
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample with mean 0 and variance 1, then times ``weight`` plus ``bias``.

    Args:
        input: ``(N, C, *)``, floating point.
        running_mean, running_var: ``(C,)``; moved towards the moments' mean over the batch, or used where not ``use_input_stats``.
        weight, bias: ``(C,)`` or None.
        use_input_stats: whether to normalize with the input's moments.
        momentum, eps: as for ``batch_norm``.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        ValueError: one element a channel.
        RuntimeError: parameters that do not have ``C`` elements, or no running moments where they are used.
        IndexError: an empty batch beside parameters.
    Source: torch.nn.functional.instance_norm. Ulyanov et al. 2016.
    Example:
        >>> F.instance_norm(torch.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
        tensor([[[-1.0000,  1.0000],
                 [-1.0000,  1.0000]]])
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
        given = [None if each is None else each._array for each in (weight, bias)]
        _same_types(input._array, given, "mixed dtype (CPU): expect parameter to have scalar type of Float")
        kind = dtypes.float32 if input.dtype in dtypes.REDUCED else input.dtype  # the moments may have any
        mean, variance, weight, bias = (None if each is None else each.to(kind) for each in (running_mean, running_var, weight, bias))
        return normalized_batch(input, mean, variance, weight, bias, False, momentum, eps)
    shape = tuple(input.shape)
    area = product(shape[2:])
    if area == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    channels = shape[1] if len(shape) > 1 else 0
    if not input._array.size and len(shape) > 1:
        if not shape[0] and any(tensor is not None for tensor in (running_mean, running_var, weight, bias)):
            raise IndexError("instance_norm: expected a batch of 1 or more samples beside parameters, got 0")
        return of_nothing(input, weight, bias)
    check_float(input, "batch_norm")
    check_channels(input, channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    result, mean, variance = NORMS["Batch"].wrapper(input, weight, bias, (shape[0], channels, area), (2,), (1, channels, 1), eps)
    update_running(running_mean, running_var, mean.detach().mean(0), variance.detach().mean(0), area, momentum)
    return result


@composite(name="instance_norm", method=False)
def torch_instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """``nn.functional.instance_norm`` with another order of arguments.

    Args:
        input: ``(N, C, *)``, floating point.
        weight, bias, running_mean, running_var: ``(C,)`` or None.
        use_input_stats, momentum, eps: as for ``nn.functional.instance_norm``.
        cudnn_enabled: which of PyTorch's GPU libraries may be used; no meaning here.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        ValueError: one element a channel.
        RuntimeError: parameters that do not have ``C`` elements, or no running moments where they are used.
    Source: torch.instance_norm.
    Example:
        >>> torch.instance_norm(torch.tensor([[[1.0, 3.0]]]), torch.tensor([5.0]), None, None, None, True, 0.1, 0.0, True)
        tensor([[[-5.,  5.]]])
    """
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


# -- layer and group norm --------------------------------------------------------------------------------------------------------
def sizes_of_norm(name: str, input: Any, normalized_shape: Any) -> Ints:
    """``normalized_shape`` as a tuple that ends ``input``'s shape.

    Raises:
        TypeError: no sequence of ints.
        RuntimeError: an empty one, or one that is not the end of ``input``'s shape.
    """
    if not isinstance(normalized_shape, (tuple, list)):
        raise TypeError(f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not {type(normalized_shape).__name__}")
    sizes = tuple([size.__index__() for size in normalized_shape])
    if not sizes:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []"
        )
    shape = tuple(input.shape)
    if shape[-len(sizes) :] != sizes:
        raise RuntimeError(
            f"Given normalized_shape={list(sizes)}, expected input with shape [*, {', '.join(map(str, sizes))}], but got input of "
            f"size{list(shape)}"
        )
    return sizes


def _is_over_rows(shape: Any, sizes: Any, weight: Any, bias: Any) -> bool:
    """Whether ``sizes`` is a tuple of the last dimension alone, and parameters fit: then there is no more to look at."""
    if sizes.__class__ is not tuple or len(sizes) != 1 or sizes[0].__class__ is not int or not shape or shape[-1] != sizes[0]:
        return False
    return (weight is None or weight.shape == sizes) and (bias is None or bias.shape == sizes)


def check_parameters(sizes: Ints, **parameters: Any) -> None:
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter.shape) != sizes:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(parameter.shape)} and "
                f"normalized_shape = {list(sizes)}"
            )


@composite(namespace="nn.functional", autocast={"cuda": "float32"})
def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """The last dimensions of ``input`` with mean 0 and variance 1, then times ``weight`` plus ``bias``.

    Args:
        input: ``(*, *normalized_shape)``, floating point.
        normalized_shape: sizes of the dimensions that mean and variance are taken over.
        weight, bias: ``normalized_shape`` or None.
        eps: added to the variance.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: ``normalized_shape`` is not the end of ``input``'s shape, or not that of ``weight`` and ``bias``.
        TypeError: ``normalized_shape`` is no sequence of ints.
    Gradient: through mean and variance.
    Source: torch.nn.functional.layer_norm. Ba et al. 2016.
    Example:
        >>> F.layer_norm(torch.tensor([[1.0, 3.0], [10.0, 30.0]]), [2], bias=torch.tensor([0.0, 5.0]))
        tensor([[-1.0000,  6.0000],
                [-1.0000,  6.0000]])
    """
    sizes, shape = normalized_shape, tuple(input.shape)
    if not _is_over_rows(shape, sizes, weight, bias):
        sizes = sizes_of_norm("layer_norm", input, normalized_shape)
        check_parameters(sizes, weight=weight, bias=bias)
    check_float(input, "LayerNormKernelImpl")
    rows, width = product(shape[: len(shape) - len(sizes)]), product(sizes)
    return NORMS["Layer"].wrapper(input, weight, bias, (rows, width), (1,), (1, width), eps)[0]


@composite(name="layer_norm", method=False, autocast={"cuda": "float32"})
def torch_layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """``nn.functional.layer_norm`` with PyTorch's name for its switch of GPU libraries.

    Args:
        input: ``(*, *normalized_shape)``, floating point.
        normalized_shape, weight, bias, eps: as for ``nn.functional.layer_norm``.
        cudnn_enable: no meaning here.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: ``normalized_shape`` is not the end of ``input``'s shape, or not that of ``weight`` and ``bias``.
    Source: torch.layer_norm.
    Example:
        >>> torch.layer_norm(torch.tensor([[0.0, 4.0]]), [2], weight=torch.tensor([1.0, 10.0]))
        tensor([[-1.0000, 10.0000]])
    """
    return layer_norm(input, normalized_shape, weight, bias, eps)


@composite(namespace="nn.functional", autocast={"cuda": "float32"})
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Groups of channels of each sample with mean 0 and variance 1, then times ``weight`` plus ``bias``.

    Args:
        input: ``(N, C, *)``, floating point.
        num_groups: number of groups that ``C`` is split into.
        weight, bias: ``(C,)`` or None.
        eps: added to the variance.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        ValueError: one value a group.
        RuntimeError: ``C`` not divisible by ``num_groups``, parameters that do not have ``C`` elements, or fewer than 2 dimensions.
    Source: torch.nn.functional.group_norm. Wu and He 2018.
    Example:
        >>> F.group_norm(torch.tensor([[1.0, 3.0, 10.0, 30.0]]), num_groups=2)
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    n, channels, area = shape[0], shape[1], product(shape[2:])
    if n and n * channels * area // num_groups == n and channels == num_groups and area == 1 and n == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
    check_groups(shape, channels, num_groups, weight=weight, bias=bias)
    check_float(input, "GroupNormKernelImpl")
    group_size = channels // num_groups
    return NORMS["Group"].wrapper(input, weight, bias, (n, num_groups, group_size, area), (2, 3), (1, num_groups, group_size, 1), eps)[0]


@composite(name="group_norm", method=False, autocast={"cuda": "float32"})
def torch_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Tensor:
    """``nn.functional.group_norm`` with PyTorch's name for its switch of GPU libraries.

    Args:
        input: ``(N, C, *)``, floating point.
        num_groups, weight, bias, eps: as for ``nn.functional.group_norm``.
        cudnn_enabled: no meaning here.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: ``C`` not divisible by ``num_groups``, or parameters that do not have ``C`` elements.
    Source: torch.group_norm.
    Example:
        >>> torch.group_norm(torch.tensor([[1.0, 3.0, 10.0, 30.0]]), 1, eps=0.0)
        tensor([[-0.8720, -0.6976, -0.0872,  1.6569]])
    """
    return group_norm(input, num_groups, weight, bias, eps)


@op(name="_rms_norm_backward", namespace="nn.functional", multi_output=True, fast=True, grad=None)
def rms_normalized_backward(grad_output: Tensor, input: Tensor, weight: Tensor | None, square: Tensor, width: int, eps: float) -> Tensor:
    """Gradients of ``_rms_norm`` for input and weight, from the saved mean squares."""
    g, x = grad_output.reshape(-1, width), input.reshape(-1, width)
    scale = 1 / np.sqrt(square + square.dtype.type(eps))
    unit = np.multiply(x, scale)
    products = np.multiply(g, unit)
    to_weight = _total(products, (0,)).reshape(-1).astype(x.dtype, copy=False)
    if weight is not None:
        g = np.multiply(g, weight.reshape(-1))
        products = np.multiply(g, unit)
    np.multiply(unit, np.add.reduce(products, axis=1, keepdims=True) / x.dtype.type(-width), out=unit)
    unit += g
    np.multiply(unit, scale, out=unit)
    return unit.reshape(input.shape), to_weight if weight is None else to_weight.reshape(weight.shape)


def _rms_rule(grad: Any, input: Any, weight: Any, result1: Any, width: int, eps: float, needs: Any) -> Any:
    if not grad_enabled():
        to_input, to_weight = rms_normalized_backward(grad, input, weight, result1, width, eps)
        return to_input if needs[0] else None, to_weight if needs[1] else None
    x, g = input.reshape(-1, width), grad.reshape(-1, width)
    scale = (x * x).mean(1, keepdim=True).add(eps).rsqrt()
    unit = x * scale
    inner = g if weight is None else g * weight.reshape(-1)
    to_input = (scale * (inner - unit * (inner * unit).mean(1, keepdim=True))).reshape(input.shape) if needs[0] else None
    return to_input, (g * unit).sum(0).reshape(weight.shape) if needs[1] else None


@op(
    name="_rms_norm",
    namespace="nn.functional",
    node_name="MulBackward0",
    promotion="same",
    multi_output=True,
    fast=True,
    work="64 * input.size",
    grad={"input, weight": _rms_rule},
)
def rms_normalized(input: Tensor, weight: Tensor | None, width: int, eps: float) -> Tensor:
    """Rows of ``width`` divided by their root mean square, times ``weight``; with the mean squares."""
    x = input.reshape(-1, width)
    square = np.add.reduce(np.multiply(x, x), axis=1, keepdims=True) / x.dtype.type(width)
    result = np.multiply(x, 1 / np.sqrt(square + x.dtype.type(eps)))
    if weight is not None:
        np.multiply(result, weight.reshape(-1), out=result)
    return result.reshape(input.shape), square


@functional(autocast={"cuda": "float32"})
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """The last dimensions of ``input`` divided by their root mean square, then times ``weight``.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: sizes of the dimensions that the mean is taken over.
        weight: ``normalized_shape`` or None.
        eps: added to the mean square; the dtype's epsilon when None.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: ``normalized_shape`` is not the end of ``input``'s shape, or not that of ``weight``.
        ValueError: ``input`` has fewer dimensions than ``normalized_shape``.
    Source: torch.nn.functional.rms_norm. Zhang and Sennrich 2019.
    Example:
        >>> F.rms_norm(torch.tensor([[1.0, 7.0]]), [2])  # divided by 5
        tensor([[0.2000, 1.4000]])
    """
    if isinstance(normalized_shape, (tuple, list)) and input.dim() < len(normalized_shape):
        raise ValueError(f"Input tensor must have at least {len(normalized_shape)} dimensions, but got {input.dim()}")
    sizes = sizes_of_norm("rms_norm", input, normalized_shape)
    check_parameters(sizes, weight=weight)
    kind = input.dtype
    if not kind.is_complex:
        check_float(input, "rms_norm")
    if eps is None and kind in (dtypes.float32, dtypes.float64):
        eps = float(np.finfo(kind.numpy).eps)
    if kind in (dtypes.float32, dtypes.float64) and (weight is None or weight.dtype is kind) and input.numel():
        return rms_normalized(input, weight, product(sizes), eps)[0]
    x = (input.float() if kind in dtypes.REDUCED else input).contiguous()
    if eps is None:
        eps = float(np.finfo(x._array.dtype).eps)
    dims = tuple(range(-len(sizes), 0))
    result = x * (x * x).mean(dims, keepdim=True).add(eps).rsqrt()
    if weight is not None:
        result = result * weight
    return result if result.dtype is kind else result.to(kind)


# -- across channels, and by length ------------------------------------------------------------------------------------------------
@composite(namespace="nn.functional")
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``input / (k + alpha * m) ** beta``, m being the mean square over ``size`` neighbouring channels.

    Args:
        input: ``(N, C, *)`` of at least 3 dimensions.
        size: number of channels of a neighbourhood; zeros beyond the first and last count.
        alpha, beta, k: numbers of the formula.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        ValueError: fewer than 3 dimensions.
    Source: torch.nn.functional.local_response_norm. Krizhevsky et al. 2012, section 3.3.
    Example:
        >>> x = torch.tensor([[[1.0], [2.0], [3.0]]])  # 3 channels
        >>> F.local_response_norm(x, size=3, alpha=3.0, beta=1.0)  # divided by 1 + the sum of squares of a channel and its neighbours
        tensor([[[0.1667],
                 [0.1333],
                 [0.2143]]])
    """
    ndim = input.dim()
    if ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {ndim} dimensions)")
    if input.numel() == 0:
        return input
    squares = input * input
    low, high = size // 2, (size - 1) // 2
    if ndim == 3:
        means = avg_pool2d(constant_pad_nd(squares.unsqueeze(1), (0, 0, low, high), 0), (size, 1), 1).squeeze(1)
    else:
        shape = tuple(input.shape)
        squares = squares.reshape(shape[0], 1, shape[1], shape[2], -1)
        means = resolve("nn.functional", "avg_pool3d")(constant_pad_nd(squares, (0, 0, 0, 0, low, high), 0), (size, 1, 1), 1)
        means = means.squeeze(1).reshape(shape)
    return input / means.mul(alpha).add(k).pow(beta)


@composite(namespace="nn.functional")
def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """``input`` divided by its ``p``-norm over ``dim``, or by ``eps`` where that is larger.

    Args:
        input: any shape, floating point or complex.
        p: exponent of the norm.
        dim: dimension or dimensions of the norm.
        eps: least divisor.
        out: where to write the result; it cannot be differentiated then.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        IndexError: ``dim`` out of range.
        RuntimeError: an integer input.
    Source: torch.nn.functional.normalize.
    Example:
        >>> F.normalize(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    lengths = input.norm(p, dim, keepdim=True).clamp_min(eps)
    if out is None:
        return input / lengths
    from .. import ops

    return ops.div(input, lengths, out=out)
