"""Tangents that a formula finds faster than any of the general ways, which serve where a rule here answers NotImplemented."""

from __future__ import annotations

from typing import Any

from ..core.calls.registry import TABLES
from ..core.calls.tables import Rules
from ..core.state import grad_enabled
from ._levels import invoke, needs_grad

forward = Rules("jvp")  # (dual, operation, values, primals, the result of these)


@forward("log_softmax")
def log_softmax(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    if made._array.dtype.kind != "f":
        return NotImplemented
    tangent = values[0]._tangent
    tangent = tangent if tangent.dtype is made.dtype else tangent.to(made.dtype)
    return dual.wrap(made, tangent - (made.exp() * tangent).sum(values[1], keepdim=True))


@forward("addmm", "addmv", "addbmm", "baddbmm", "addr")
def add_product(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    """``beta * input + alpha * (a @ b)``: the product with each factor's tangent, and the tangent of what is added."""
    total = None
    named = dict(zip(op.names, primals, strict=True))
    if dual.has(values[0]):
        total = (values[0]._tangent * named["beta"]).expand(made._array.shape)
    for i in (1, 2):
        if dual.has(values[i]):
            given = [made.detach() if total is None else total, *primals[1:]]
            given[i], given[op.names.index("beta")] = values[i]._tangent, 0 if total is None else 1
            total = invoke(op, given)
    return made if total is None else dual.wrap(made, total)


@forward("fill")
def fill(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    tangent = dual.tangent(values[1])
    return dual.wrap(made, dual.zeros(made) if tangent is None else invoke(op, (made.detach(), tangent)))


@forward("zero")
def zero(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    return dual.wrap(made, dual.zeros(made))


@forward("nn.functional._max_pool1d", "nn.functional._max_pool2d", "nn.functional._max_pool3d")
def max_pool(dual: Any, op: Any, values: Any, primals: Any, made: Any) -> Any:
    """The tangent at the places where the maxima are."""
    pick = TABLES["nn.functional"]["_max_pool_pick"]
    return dual.wrap(made, invoke(pick, [values[0]._tangent, *primals]))


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
