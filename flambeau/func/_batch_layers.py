"""Rules of ``vmap`` and of forward mode for layers: convolution, normalisation, embedding, losses, recurrent layers.

A batch of inputs under one weight joins the layer's own batch; a weight for each example becomes groups of channels.
"""

from __future__ import annotations

from typing import Any

from ..core.state import grad_enabled
from ..core.tensor import Tensor
from ._batch_dimensions import new_index
from ._batch_rules import batching
from ._levels import forward, invoke, needs_grad


# -- convolution ----------------------------------------------------------------------------------------------
@batching("convolution")
def _convolution(batch: Any, op: Any, input: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    *shared, groups = rest
    transposed = shared[3]
    if input._array.ndim != weight._array.ndim:
        return NotImplemented
    if not batch.has(weight):
        inner = input._inner if batch.has(input) else None
        if inner is None:  # only the bias is of the batch
            made = invoke(op, (input, weight, None, *rest))
            return made + bias.reshape(-1, *(1,) * (made._array.ndim - 2))
        shape = inner._array.shape
        own = None if batch.has(bias) else bias
        made = invoke(op, (inner.reshape(shape[0] * shape[1], *shape[2:]), weight, own, *rest))
        found = batch.wrap(made.reshape(shape[0], shape[1], *made._array.shape[1:]))
        return found if bias is own else found + bias.reshape(-1, *(1,) * (made._array.ndim - 2))
    count, own = batch.size, weight._inner
    shape = input._array.shape
    inner = batch.inside(input)  # (batch, N, C, ...) -> (N, batch * C, ...)
    inner = inner.movedim(0, 1).reshape(shape[0], count * shape[1], *shape[2:])
    made = invoke(op, (inner, own.reshape(count * own._array.shape[1], *own._array.shape[2:]), None, *shared, count * groups))
    channels = weight._array.shape[1] * groups if transposed else weight._array.shape[0]
    found = batch.wrap(made.reshape(shape[0], count, channels, *made._array.shape[2:]).movedim(1, 0))
    return found if bias is None else found + bias.reshape(-1, *(1,) * (made._array.ndim - 2))


@batching("_convolution_weight")
def _weight_gradient(
    batch: Any, op: Any, input: Any, other: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Examples as groups of channels."""
    count = batch.size
    parts = []
    for each in (input, other):
        shape = each._array.shape
        parts.append(batch.inside(each).movedim(0, 1).reshape(shape[0], count * shape[1], *shape[2:]))
    made = invoke(op, (*parts, kernel_size, stride, padding, dilation, groups * count))
    return batch.wrap(made.reshape(count, made._array.shape[0] // count, *made._array.shape[1:]))


@batching("_channel_sums")
def _channel_sums(batch: Any, op: Any, input: Any) -> Any:
    dims = [1, *range(3, input._array.ndim + 1)]
    return batch.wrap(input._inner.sum(dims))


# -- normalisation --------------------------------------------------------------------------------------------
@batching("nn.functional._layer_norm", "nn.functional._group_norm", "nn.functional._batch_norm")
def _normalized(batch: Any, op: Any, input: Any, weight: Any, bias: Any, view: Any, axes: Any, affine: Any, eps: float) -> Any:
    """Rows are examples' rows: where the first axis of the view is not reduced, and holds no parameters, the batch joins it."""
    if not batch.has(input) or 0 in axes or affine[0] != 1:
        return _composed_norm(batch, input, weight, bias, view, axes, affine, eps)
    inner = input._inner
    shape = inner._array.shape
    own = [None if batch.has(each) else each for each in (weight, bias)]
    if own[0] is None and weight is not None:
        own = [None, None]
    folded = (batch.size * view[0], *view[1:])
    flat = inner.reshape(shape[0] * shape[1], *shape[2:]) if inner._array.ndim > 2 else inner
    made, mean, variance = invoke(op, (flat, *own, folded, axes, affine, eps))
    made = batch.wrap(made.reshape(shape))
    moments = [
        batch.wrap(each.reshape(batch.size, each._array.shape[0] // batch.size, *each._array.shape[1:])) for each in (mean, variance)
    ]
    if weight is not None and own[0] is None:
        made = (made.reshape(view) * weight.reshape(affine)).reshape(shape[1:])
    if bias is not None and own[1] is None:
        made = (made.reshape(view) + bias.reshape(affine)).reshape(shape[1:])
    return made, *moments


def _composed_norm(batch: Any, input: Any, weight: Any, bias: Any, view: Any, axes: Any, affine: Any, eps: float) -> Any:
    """In operations of their own, where the parameters or statistics lie across the batch."""
    dtype = input.dtype
    if dtype.itemsize < 4 or any(each is not None and each.dtype is not dtype for each in (weight, bias)):
        return NotImplemented
    x = input.reshape(view)
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    variance = (centred * centred).mean(axes, keepdim=True)
    made = centred * (variance + eps).rsqrt()
    if weight is not None:
        made = made * weight.reshape(affine)
    if bias is not None:
        made = made + bias.reshape(affine)
    own = [each if batch.has(each) else batch.wrap(batch.inside(each)) for each in (made, mean, variance)]
    return own[0].reshape(input._array.shape), own[1], own[2]


@forward("nn.functional._batch_norm", "nn.functional._layer_norm", "nn.functional._group_norm")
def normalized(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    """With ``u`` the normalized values: ``(t - mean(t) - u * mean(u * t)) * scale`` in the input's direction ``t``; the rest is linear."""
    result, mean, variance = made
    if mean.dtype is not result.dtype:  # of 16 bits
        return NotImplemented
    input, weight, _, view, axes, affine, eps = primals
    x = input.reshape(view)
    if grad_enabled() and needs_grad(input):  # the moments that come with the result have no derivatives
        centred = x - x.mean(axes, keepdim=True)
        scale = (centred * centred).mean(axes, keepdim=True).add(eps).rsqrt()
    else:
        centred, scale = x - mean, variance.add(eps).rsqrt()
    unit = centred * scale
    slope: Any = None
    of_mean: Any = None
    of_variance: Any = None
    if dual.has(values[0]):
        t = values[0]._tangent.reshape(view)
        of_mean = t.mean(axes, keepdim=True)
        t = t - of_mean
        along = (unit * t).mean(axes, keepdim=True)
        of_variance = 2 * along / scale
        slope = (t - unit * along) * scale
        slope = slope if weight is None else slope * weight.reshape(affine)
    if dual.has(values[1]):
        part = unit * values[1]._tangent.reshape(affine)
        slope = part if slope is None else slope + part
    if dual.has(values[2]):
        part = values[2]._tangent.reshape(affine)
        slope = part.expand(view) if slope is None else slope + part
    if of_mean is not None:
        of_mean, of_variance = of_mean.reshape(mean._array.shape), of_variance.reshape(variance._array.shape)
    return dual.paired(made, (slope.reshape(result._array.shape), of_mean, of_variance))


@batching("nn.functional._batch_norm_fixed")
def _fixed_norm(batch: Any, op: Any, input: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Statistics and parameters are per channel: shared ones let the batch join the layer's, others are broadcast."""
    if not any(batch.has(each) for each in (mean, variance, weight, bias)):
        inner = input._inner
        shape = inner._array.shape
        made = invoke(op, (inner.reshape(shape[0] * shape[1], *shape[2:]), mean, variance, weight, bias, eps))
        return batch.wrap(made.reshape(shape))
    dtype = input.dtype
    if dtype.itemsize < 4 or any(each is not None and each.dtype is not dtype for each in (mean, variance, weight, bias)):
        return NotImplemented
    ones = (-1, *(1,) * (input._array.ndim - 2))
    scale = (variance.detach() + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    made = (input - mean.detach().reshape(ones)) * scale.reshape(ones)
    return made if bias is None else made + bias.reshape(ones)


@batching("nn.functional._rms_norm")
def _rms_norm(batch: Any, op: Any, input: Any, weight: Any, width: int, eps: float) -> Any:
    if batch.has(weight) or not batch.has(input):
        return NotImplemented
    made, square = invoke(op, (input._inner, weight, width, eps))
    return batch.wrap(made), batch.wrap(square.reshape(batch.size, -1, 1))


# -- embedding ------------------------------------------------------------------------------------------------
@batching("embedding")
def _embedding(batch: Any, op: Any, weight: Any, indices: Any, padding_idx: Any, *rest: Any) -> Any:
    if not batch.has(weight):
        return batch.wrap(invoke(op, (weight, indices._inner, padding_idx, *rest)))
    if padding_idx is not None and padding_idx != -1:
        return NotImplemented  # rows of all examples without a gradient are more than one
    if any(rest) or weight._array.ndim != 2:
        return NotImplemented
    inner, (rows, width) = weight._inner, weight._array.shape
    own = batch.inside(indices)
    if not rows or not own._array.size or bool(((own < 0) | (own >= rows)).any()):
        return NotImplemented  # the loop complains
    places = own + new_index(batch, indices._array.ndim) * rows
    return batch.wrap(invoke(op, (inner.reshape(batch.size * rows, width), places, padding_idx, *rest)))


# -- losses ---------------------------------------------------------------------------------------------------
def reduced(batch: Any, op: Any, *values: Any) -> Any:
    """The losses of all elements, reduced over each example's."""
    at = op.names.index("reduction")
    made = list(values)
    tensors = [i for i in op.positions if isinstance(values[i], Tensor)]
    rank = max(values[i]._array.ndim for i in tensors)
    if len({values[i]._array.dtype for i in tensors}) > 1:
        return NotImplemented
    if op.name == "_binary_cross_entropy" and len({values[i]._array.shape for i in tensors}) > 1:
        return NotImplemented
    for i in tensors:
        made[i] = batch.lead(batch.inside(values[i]), rank)
    made[at] = "none"
    found = batch.wrap(invoke(op, made))
    reduction = values[at]
    return found if reduction == "none" else found.mean() if reduction == "mean" else found.sum()


def rows(batch: Any, op: Any, input: Any, target: Any, weight: Any, reduction: str, ignore_index: int) -> Any:
    """Each row's loss, reduced over each example's rows; a mean is one over the weights of the classes that count."""
    if batch.has(weight) or target._array.dtype.kind == "f" or not input._array.size:
        return NotImplemented
    if input._array.ndim == 1 and not target._array.ndim:
        made = rows(batch, op, input.unsqueeze(0), target.unsqueeze(0), weight, reduction, ignore_index)
        return made.squeeze(0) if reduction == "none" else made
    if input._array.ndim < 2 or target._array.shape != (input._array.shape[0], *input._array.shape[2:]):
        return NotImplemented
    count = input._array.shape[0]
    inner, classes = batch.inside(input), batch.inside(target)
    inner = inner.reshape(batch.size * count, *input._array.shape[1:])
    classes = classes.reshape(batch.size * count, *target._array.shape[1:])
    losses = invoke(op, (inner, classes, weight, "none", ignore_index))
    losses = losses.reshape(batch.size, count, *losses._array.shape[1:])
    if reduction == "none":
        return batch.wrap(losses)
    total = losses.flatten(1).sum(1)
    if reduction == "sum":
        return batch.wrap(total)
    counts = classes != ignore_index
    shares = counts.to(losses.dtype) if weight is None else weight.detach()[(classes * counts).long()] * counts
    return batch.wrap(total / shares.reshape(batch.size, -1).sum(1))


# -- recurrent layers -----------------------------------------------------------------------------------------
@batching("_rnn_layer", "_gru_layer", "_lstm_layer")
def _recurrent(batch: Any, op: Any, *values: Any) -> Any:
    """Sequences of all examples side by side, where the weights are the same for all."""
    named = dict(zip(op.names, values, strict=True))
    if any(batch.has(value) for name, value in named.items() if name.startswith(("weight", "bias"))) or named["sizes"] is not None:
        return NotImplemented
    rows = named["input"]._array.shape[1]
    for name in ("input", "h", "c"):
        if name in named:
            inner = batch.inside(named[name])  # (batch, T, N, C) or (batch, N, C)
            at = inner._array.ndim - 2
            named[name] = inner.movedim(0, at - 1).flatten(at - 1, at)
    output, *made = invoke(op, tuple(named.values()))
    states = 1 + ("c" in named)
    lasts = [_side_by_side(batch, each, rows) for each in (output, *made[:states])]
    return (*lasts, *[_steps_side_by_side(batch, each, rows) for each in made[states:]])


def _steps_side_by_side(batch: Any, value: Any, rows: int) -> Any:
    """Of the rows of all steps below each other."""
    return batch.wrap(value.unflatten(0, (-1, batch.size, rows)).movedim(1, 0).flatten(1, 2))


def _side_by_side(batch: Any, value: Any, rows: int) -> Any:
    at = next(i for i, n in enumerate(value._array.shape) if n == batch.size * rows and i >= max(0, value._array.ndim - 2))
    return batch.wrap(value.unflatten(at, (batch.size, rows)).movedim(at, 0))


# -- pooling --------------------------------------------------------------------------------------------------
@batching("nn.functional._avg_pool_backward")
def _average_gradient(batch: Any, op: Any, grad_output: Any, shape: Any, *rest: Any) -> Any:
    inner = grad_output._inner
    own = inner._array.shape
    made = invoke(op, (inner.reshape(own[0] * own[1], *own[2:]), (own[0] * shape[0], *shape[1:]), *rest))
    return batch.wrap(made.reshape(batch.size, *shape))
