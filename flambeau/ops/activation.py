"""Activations: the nonlinear functions between layers. Softmax and its kin are in ``softmaxes``."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ..autograd.grad_mode import no_grad
from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.arrays.kinds import kind_of
from ..core.calls.annotations import Tensor
from ..core.calls.out import SILENT
from ..core.calls.registry import TABLES, composite, op, pointwise
from ..core.tape.history import check_writable
from ..core.tape.node import edge_of
from ..core.tape.ties import tied
from ..core.tensor import Tensor as TensorType
from .arithmetic import reject, row_major, scipy_function, zeros
from .limits import BRANCHLESS, keep_where, kept, selected  # noqa: F401  # BRANCHLESS: for ``_FAST_RELU``

_ndtr = scipy_function("ndtr")
_functional = {"namespace": "nn.functional", "method": False}
_ZERO, _ONE = (np.full((), value, np.float32) for value in (0, 1))  # operands that NumPy need not convert first


def _floats(name: str, input: np.ndarray) -> None:
    reject(name, input, "biuc")


@cache
def in_place(name: str) -> Any:
    """The function ``name`` of the torch namespace in its in-place form."""
    return TABLES["torch"][name].inplace_wrapper


# -- the ReLU family --------------------------------------------------------------------------------------------------------------
@op(
    name="_threshold_backward",
    broadcasts=True,
    promotion="same",
    fast=True,
    grad={"grad_output": lambda grad, input, threshold: threshold_backward(grad, input, threshold), "input": zeros},
    aten="threshold_backward",
)
def threshold_backward(grad_output: Tensor, input: Tensor, threshold: float) -> Tensor:
    """``grad_output`` where ``input`` exceeds ``threshold`` (or is NaN), zero elsewhere."""
    return kept(grad_output, ~(input <= threshold))


# The maximum in this order keeps -0.0, as PyTorch does; ``clip`` has a SIMD loop, unlike a maximum with one number.
_maximum, _infinity = np.maximum, np.inf
_FAST_RELU = "large(a) if (n := a.size) >= THRESHOLD else _maximum(_ZERO, a) if n < BRANCHLESS or d.kind != 'f' else a.clip(0.0, _infinity)"


@pointwise(fast_bool=False, fast=_FAST_RELU, grad={"input": lambda grad, result: threshold_backward(grad, result, 0)}, keeps_zero=True)
def relu(input: Tensor) -> Tensor:
    """``max(input, 0)``, element by element; NaN stays.

    Args:
        input: any shape; integers or floating point.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: bool input.
        NotImplementedError: complex input.
    Gradient: ``grad`` where ``input`` is above zero.
    Source: torch.relu. Glorot, Bordes, Bengio 2011.
    Example:
        >>> torch.relu(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([0., 0., 3.])
    """
    if input.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    reject("relu", input, "c", "clamp is not supported for complex types")
    return np.maximum(input.dtype.type(0), input)


@composite(name="relu", **_functional, pointwise=True)
def functional_relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``, element by element, as a function of a layer's output.

    Args:
        input: any shape; integers or floating point.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        RuntimeError: bool input; with ``inplace``, a leaf that requires a gradient.
        NotImplementedError: complex input.
    Gradient: ``grad`` where ``input`` is above zero.
    Source: torch.nn.functional.relu.
    Example:
        >>> x = torch.tensor([-1.5, 2.0])
        >>> F.relu(x, inplace=True) is x
        True
        >>> x
        tensor([0., 2.])
    """
    return in_place("relu")(input) if inplace else relu(input)


def _reject_unsigned(name: str, input: np.ndarray, low: float) -> None:
    if input.dtype.kind == "b":
        raise RuntimeError(f"Bool inputs not supported for {name}")
    reject(name, input, "c")
    if input.dtype.kind == "u" and int(low) < 0:
        raise RuntimeError(f"cannot do {name} on an unsigned type with negative limits")


def _strictly_inside(grad: Any, input: Any, low: float, high: float) -> Any:
    return _tied_to(input, keep_where(grad, (input > low).logical_and(input < high)))


def _tied_to(input: Any, gradient: Any) -> Any:
    return tied(gradient, edge_of(input)) if gradient.__class__ is TensorType else gradient


@pointwise(
    **_functional,
    fast=True,
    keeps_strides=True,
    grad={"input": lambda grad, input, min_val, max_val: _strictly_inside(grad, input, min_val, max_val)},
)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` moved into [``min_val``, ``max_val``], element by element.

    Args:
        input: any shape; integers or floating point.
        min_val, max_val: the limits.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        ValueError: ``min_val`` above ``max_val``.
        RuntimeError: bool input, or negative limits for unsigned input.
    Gradient: ``grad`` strictly between the limits.
    Source: torch.nn.functional.hardtanh.
    Example:
        >>> F.hardtanh(torch.tensor([-3.0, 0.5, 3.0]), max_val=2.0)
        tensor([-1.0000,  0.5000,  2.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    _reject_unsigned("hardtanh", input, min_val)
    return np.minimum(np.maximum(input.dtype.type(min_val), input), input.dtype.type(max_val))


@pointwise(
    **_functional,
    fast=True,
    keeps_strides=True,
    node_name="HardtanhBackward0",
    grad={"input": lambda grad, input: _strictly_inside(grad, input, 0, 6)},
    aten=None,
    keeps_zero=True,
)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input, 0), 6)``, element by element: a ReLU that saturates at 6.

    Args:
        input: any shape; integers or floating point.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        RuntimeError: bool input.
    Gradient: ``grad`` strictly between 0 and 6.
    Source: torch.nn.functional.relu6.
    Example:
        >>> F.relu6(torch.tensor([-1.0, 5.0, 9.0]))
        tensor([0., 5., 6.])
    """
    _reject_unsigned("relu6", input, 0)
    return np.minimum(np.maximum(input.dtype.type(0), input), input.dtype.type(6))


@op(
    name="_leaky_relu_backward",
    broadcasts=True,
    promotion="same",
    fast=True,
    grad={"grad_output": lambda grad, input, negative_slope: leaky_relu_backward(grad, input, negative_slope), "input": zeros},
    aten="leaky_relu_backward",
)
def leaky_relu_backward(grad_output: Tensor, input: Tensor, negative_slope: float) -> Tensor:
    """``grad_output``, times ``negative_slope`` where ``input`` is not above zero."""
    return selected(input > 0, grad_output, np.multiply(grad_output, negative_slope))


@pointwise(**_functional, fast=True, grad={"input": lambda grad, input, negative_slope: leaky_relu_backward(grad, input, negative_slope)})
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` above zero, ``negative_slope * input`` below.

    Args:
        input: any shape, floating point.
        negative_slope: slope below zero.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``, times ``negative_slope`` where ``input`` is not above zero.
    Source: torch.nn.functional.leaky_relu. Maas, Hannun, Ng 2013.
    Example:
        >>> F.leaky_relu(torch.tensor([-2.0, 2.0]), 0.25)
        tensor([-0.5000,  2.0000])
    """
    _floats("leaky_relu_cpu", input)
    below = np.multiply(input, negative_slope)
    return np.maximum(input, below) if 0 < negative_slope <= 1 else selected(input > 0, input, below)


@op(
    name="_prelu_kernel",
    broadcasts=True,
    promotion="same",
    grad={
        "input": lambda grad, input, weight: _tied_to(
            input, keep_where(grad, input > 0) + keep_where(grad * weight, (input > 0).logical_not())
        ),
        "weight": lambda grad, input, node: tied(keep_where(grad * input, (input > 0).logical_not()), node.edges[1]),
    },
)
def prelu_kernel(input: Tensor, weight: Tensor) -> Tensor:
    """``prelu`` for a weight that broadcasts to ``input``."""
    _floats("prelu_cpu", input)
    return selected(input > 0, input, weight * input)


@composite(autocast="narrow")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``input`` above zero, ``weight * input`` below: a slope that is learned, one per channel or one for all.

    Args:
        input: ``(N, C, *)``, floating point.
        weight: one element, or ``(C)``; ``input``'s dtype.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: a weight that fits neither, or of another dtype.
    Gradient: ``grad``, times ``weight`` where ``input`` is not above zero; ``grad * input`` there to ``weight``.
    Source: torch.nn.functional.prelu. He et al. 2015.
    Example:
        >>> torch.prelu(torch.tensor([[-2.0, -2.0], [4.0, 4.0]]), torch.tensor([0.5, 0.25]))
        tensor([[-1.0000, -0.5000],
                [ 4.0000,  4.0000]])
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() == 1:
        return prelu_kernel(input, weight.reshape(()) if input.ndim == 0 else weight.reshape((1,) * input.ndim))
    if input.ndim == 0:
        raise RuntimeError("Not allow zero-dim input tensor.")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.numel() != channels:
        raise RuntimeError(
            f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and channel size = "
            f"{channels}."
        )
    return prelu_kernel(input, weight.reshape((1, channels, *(1,) * (input.ndim - 2))))


@composite(draws="inside")
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Tensor:
    """``leaky_relu`` whose slope is drawn for each element in training, and is the bounds' mean otherwise.

    Args:
        input: any shape, floating point.
        lower, upper: bounds of the uniform distribution of slopes, ``upper`` excluded.
        training: draw.
        generator: source of the draws; the default one when None.
    Returns:
        ``input``'s shape and dtype, contiguous.
    Raises:
        RuntimeError: ``lower`` above ``upper``.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``, times the slope where ``input`` is not above zero.
    Source: torch.rrelu. Xu et al. 2015.
    Example:
        >>> torch.rrelu(torch.tensor([-4.0, 4.0]), lower=0.25, upper=0.75)
        tensor([-2.,  4.])
    """
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, but found lower: {lower} and upper: {upper}"
        )
    if not training:
        return TABLES["nn.functional"]["leaky_relu"].wrapper(input, (lower + upper) / 2).contiguous()
    _floats("rrelu_with_noise_out_cpu", input._array)
    slopes = input.new_ones(input.shape)
    if not kind_of(input._array).has_values:
        return (slopes * input).contiguous()
    below = input.detach() <= 0
    drawn = input.new_empty(int(below.sum().item()), dtype=dtypes.float64).uniform_(lower, upper, generator=generator)
    slopes[below] = drawn.to(input.dtype)
    return (slopes * input).contiguous()


@composite(name="rrelu", **_functional, draws="inside")
def functional_rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """``leaky_relu`` with a random slope per element in training, and the bounds' mean otherwise.

    Args:
        input: any shape, floating point.
        lower, upper: bounds of the slope, ``upper`` excluded.
        training: draw the slopes.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        RuntimeError: ``lower`` above ``upper``.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``, times the slope where ``input`` is not above zero.
    Source: torch.nn.functional.rrelu. Xu et al. 2015.
    Example:
        >>> y = F.rrelu(-torch.ones(100), 0.25, 0.75, training=True)
        >>> bool(((y >= -0.75) & (y <= -0.25)).all()), len(y.unique()) > 50
        (True, True)
    """
    result = rrelu(input, lower, upper, training)
    return input.copy_(result) if inplace else result


@pointwise(
    method=False, fast=True, may_overlap=True, grad={"input": lambda grad, input, threshold: threshold_backward(grad, input, threshold)}
)
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """``input`` above ``threshold``, ``value`` elsewhere.

    Args:
        input: any shape, real.
        threshold: at it and below, elements are replaced.
        value: what replaces them.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        NotImplementedError: bool or complex input.
    Gradient: ``grad`` above the threshold.
    Source: torch.threshold.
    Example:
        >>> torch.threshold(torch.tensor([0.5, 1.0, 1.5]), 1.0, -7.0)
        tensor([-7.0000, -7.0000,  1.5000])
    """
    reject("threshold_cpu", input, "bc")
    return np.where(input <= threshold, np.asarray(value).astype(input.dtype), input)


@composite(name="threshold", **_functional)
def functional_threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` above ``threshold``, ``value`` elsewhere.

    Args:
        input: any shape, real.
        threshold: at it and below, elements are replaced.
        value: what replaces them.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: bool or complex input.
    Gradient: ``grad`` above the threshold.
    Source: torch.nn.functional.threshold.
    Example:
        >>> F.threshold(torch.tensor([1, 2, 3]), threshold=2, value=0)
        tensor([0, 0, 3])
    """
    wrapper = in_place("threshold") if inplace else TABLES["torch"]["threshold"].wrapper
    return wrapper(input, threshold, value)


# -- exponential units --------------------------------------------------------------------------------------------------------
def _exponential_gradient(grad: Any, input: Any, alpha: float, scale: float, rate: float) -> Any:
    above = input > 0
    below = above.logical_not()
    slope = grad * (scale * alpha * rate) * keep_where(input * rate, below).exp()
    return keep_where(slope, below) + keep_where(grad * scale if scale != 1 else grad, above)


def _exponential_unit(input: np.ndarray, alpha: float, scale: float = 1.0, rate: float = 1.0) -> np.ndarray:
    kind = input.dtype.type
    below = np.expm1(input * kind(rate) if rate != 1 else input) * kind(alpha * scale)
    return selected(input > 0, input * kind(scale) if scale != 1 else input, below)


@pointwise(**_functional, fast=True, grad={"input": lambda grad, input, alpha: _exponential_gradient(grad, input, alpha, 1.0, 1.0)})
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Exponential linear unit: ``input`` above zero, ``alpha * (exp(input) - 1)`` below.

    Args:
        input: any shape, floating point.
        alpha: the result approaches ``-alpha`` far below zero.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``, times ``alpha * exp(input)`` where ``input`` is not above zero.
    Source: torch.nn.functional.elu. Clevert, Unterthiner, Hochreiter 2016.
    Example:
        >>> F.elu(torch.tensor([-100.0, -1.0, 3.0]), alpha=2.0)
        tensor([-2.0000, -1.2642,  3.0000])
    """
    _floats("elu_cpu", input)
    return _exponential_unit(input, alpha)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@pointwise(
    method=False,
    fast=True,
    node_name="EluBackward0",
    grad={"input": lambda grad, input: _exponential_gradient(grad, input, SELU_ALPHA, SELU_SCALE, 1.0)},
)
def selu(input: Tensor) -> Tensor:
    """``scale * elu(input, alpha)`` with the constants that keep mean 0 and variance 1 from layer to layer.

    Args:
        input: any shape, floating point.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: that of ``elu`` times the scale.
    Source: torch.selu. Klambauer et al. 2017.
    Example:
        >>> torch.selu(torch.tensor([-100.0, 0.0, 1.0]))
        tensor([-1.7581,  0.0000,  1.0507])
    """
    _floats("elu_cpu", input)
    return _exponential_unit(input, SELU_ALPHA, SELU_SCALE)


@composite(name="selu", **_functional)
def functional_selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled exponential linear unit, whose two constants keep mean 0 and variance 1.

    Args:
        input: any shape, floating point.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad`` times 1.0507, and below zero times ``1.6733 * exp(input)`` too.
    Source: torch.nn.functional.selu. Klambauer et al. 2017.
    Example:
        >>> F.selu(torch.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """
    return in_place("selu")(input) if inplace else selu(input)


@pointwise(method=False, fast=True, grad={"input": lambda grad, input, alpha: _exponential_gradient(grad, input, alpha, 1.0, 1.0 / alpha)})
def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``max(0, input) + min(0, alpha * (exp(input / alpha) - 1))``, with one slope on both sides of zero.

    Args:
        input: any shape, floating point.
        alpha: the result approaches ``-alpha`` far below zero.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: ``alpha`` is zero.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``, times ``exp(input / alpha)`` where ``input`` is not above zero.
    Source: torch.celu. Barron 2017.
    Example:
        >>> torch.celu(torch.tensor([-100.0, -2.0, 3.0]), alpha=2.0)
        tensor([-2.0000, -1.2642,  3.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    _floats("elu_cpu", input)
    return _exponential_unit(input, alpha, 1.0, 1.0 / alpha)


@composite(name="celu", **_functional)
def functional_celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Continuously differentiable exponential linear unit.

    Args:
        input: any shape, floating point.
        alpha: the result approaches ``-alpha`` far below zero.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        RuntimeError: ``alpha`` is zero.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad``, times ``exp(input / alpha)`` where ``input`` is not above zero.
    Source: torch.nn.functional.celu. Barron 2017.
    Example:
        >>> F.celu(torch.tensor([-1.0, 2.0]), alpha=0.5)
        tensor([-0.4323,  2.0000])
    """
    return in_place("celu")(input, alpha) if inplace else celu(input, alpha)


# -- smooth units -------------------------------------------------------------------------------------------------------------
def _gelu(input: np.ndarray, approximate: str) -> np.ndarray:
    kind = input.dtype.type
    if approximate == "tanh":
        inner = kind(math.sqrt(2 / math.pi)) * (input + kind(0.044715) * input * input * input)
        return kind(0.5) * input * (1 + np.tanh(inner))
    return np.multiply(input, _ndtr(input))


@pointwise(name="_normal_area", grad={"input": lambda grad, input: grad * ((input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi)))})
def normal_area(input: Tensor) -> Tensor:
    """Area under the standard normal density up to ``input``, which is floating point."""
    return _ndtr(input)


def _gelu_gradient(grad: Any, input: Any, approximate: str) -> Any:
    if approximate == "tanh":
        root = math.sqrt(2 / math.pi)
        squared = input * input
        tangent = (root * (input + 0.044715 * squared * input)).tanh()
        return grad * (0.5 * (1 + tangent) + 0.5 * input * (1 - tangent * tangent) * (root * (1 + 3 * 0.044715 * squared)))
    return grad * (normal_area(input) + input * ((input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi))))


def _canonicalize_gelu(input: Any, approximate: str) -> tuple[Any, ...]:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return input, approximate


@pointwise(
    **_functional,
    canonicalize=_canonicalize_gelu,
    inplace=False,
    fast=lambda a, approximate: _gelu(a, approximate) if a.dtype.kind == "f" and approximate in ("none", "tanh") else None,
    grad={"input": _gelu_gradient},
    compiled=True,
)
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """``input`` times the area under the normal density up to ``input``.

    Args:
        input: any shape, floating point.
        approximate: 'none' for the error function, 'tanh' for the estimate by tanh.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: another ``approximate``.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad * (area + input * density)``.
    Source: torch.nn.functional.gelu. Hendrycks, Gimpel 2016.
    Example:
        >>> F.gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
        >>> F.gelu(torch.tensor([-1.0, 0.0, 1.0]), approximate="tanh")
        tensor([-0.1588,  0.0000,  0.8412])
    """
    _floats("GeluKernelImpl", input)
    return _gelu(input, approximate)


def _silu_gradient(grad: Any, input: Any) -> Any:
    sigmoid = input.sigmoid()
    return grad * (sigmoid * (1 + input * (1 - sigmoid)))


@pointwise(**_functional, fast=True, grad={"input": _silu_gradient}, forward="holomorphic")
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``, also known as swish.

    Args:
        input: any shape, floating point or complex.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: integer or bool input.
    Gradient: ``grad * s * (1 + input * (1 - s))`` with s the sigmoid.
    Source: torch.nn.functional.silu. Elfwing, Uchibe, Doya 2017.
    Example:
        >>> F.silu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.2689,  0.0000,  0.7311])
    """
    reject("silu_cpu", input, "biu")
    return np.divide(input, np.add(_ONE, np.exp(np.negative(input))))


def _mish_gradient(grad: Any, input: Any) -> Any:
    tangent = TABLES["nn.functional"]["softplus"].wrapper(input).tanh()
    return grad * (tangent + input * input.sigmoid() * (1 - tangent * tangent))


@pointwise(**_functional, fast=True, grad={"input": _mish_gradient})
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``, element by element.

    Args:
        input: any shape, floating point.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad * (t + input * sigmoid(input) * (1 - t**2))`` with ``t = tanh(softplus(input))``.
    Source: torch.nn.functional.mish. Misra 2019.
    Example:
        >>> F.mish(torch.tensor([-1.0, 0.0, 100.0]))
        tensor([ -0.3034,   0.0000, 100.0000])
    """
    _floats("mish_cpu", input)
    return input * np.tanh(np.log1p(np.exp(input)) if input.dtype.itemsize < 4 else np.logaddexp(input.dtype.type(0), input))


def _softplus_gradient(grad: Any, input: Any, beta: float, threshold: float) -> Any:
    linear = input * beta > threshold
    slope = grad * (input * beta if beta != 1 else input).sigmoid()
    return keep_where(grad, linear) + keep_where(slope, linear.logical_not())


@pointwise(**_functional, fast=True, inplace=False, grad={"input": _softplus_gradient}, autocast={"cuda": "float32"}, compiled=True)
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``: a smooth ReLU.

    Args:
        input: any shape, floating point.
        beta: sharpness of the bend at zero.
        threshold: where ``beta * input`` exceeds it, the result is ``input`` itself.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad * sigmoid(beta * input)``, ``grad`` above the threshold.
    Source: torch.nn.functional.softplus.
    Example:
        >>> F.softplus(torch.tensor([-1.0, 0.0, 100.0]))
        tensor([  0.3133,   0.6931, 100.0000])
    """
    _floats("softplus_cpu", input)
    scaled = input * input.dtype.type(beta)
    return selected(scaled > threshold, input, np.log1p(np.exp(scaled)) / input.dtype.type(beta))


@pointwise(
    **_functional,
    fast=True,
    inplace=False,
    row_major=True,
    out=SILENT,
    node_name="LogSigmoidBackward0",
    grad={"input": lambda grad, input: grad * (-input).sigmoid()},
    compiled=True,
)
def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(input))`` without overflow.

    Args:
        input: any shape, floating point.
    Returns:
        A new contiguous tensor of ``input``'s shape and dtype, nowhere above 0.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad * sigmoid(-input)``.
    Source: torch.nn.functional.logsigmoid.
    Example:
        >>> F.logsigmoid(torch.tensor([-1000.0, 0.0, 1000.0]))
        tensor([-1.0000e+03, -6.9315e-01,  0.0000e+00])
    """
    _floats("log_sigmoid_cpu", input)
    return row_major(np.minimum(input, input.dtype.type(0)) - np.log1p(np.exp(-np.abs(input))))


@composite(**_functional, pointwise=True)
def softsign(input: Tensor) -> Tensor:
    """``input / (1 + abs(input))``: a slow approach to -1 and 1.

    Args:
        input: any shape; integers give the default float dtype.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        NotImplementedError: bool input.
    Gradient: ``grad / (1 + abs(input))**2``.
    Source: torch.nn.functional.softsign.
    Example:
        >>> F.softsign(torch.tensor([-3.0, 0.0, 1.0]))
        tensor([-0.7500,  0.0000,  0.5000])
    """
    return input / (input.abs() + 1)


@composite(**_functional, pointwise=True)
def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``: small values almost vanish.

    Args:
        input: any shape; integers give the default float dtype.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * tanh(input)**2``.
    Source: torch.nn.functional.tanhshrink.
    Example:
        >>> F.tanhshrink(torch.tensor([-4.0, 0.5, 4.0]))
        tensor([-3.0007,  0.0379,  3.0007])
    """
    return input - input.tanh()


@composite(name="tanh", **_functional, pointwise=True)
def functional_tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent; see :func:`torch.tanh`.

    Args:
        input: any shape; integers and bools give the default float dtype.
    Returns:
        A new tensor of ``input``'s shape.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * (1 - tanh(input)**2)``.
    Source: torch.nn.functional.tanh.
    Example:
        >>> F.tanh(torch.tensor([-100.0, 0.5, 100.0]))
        tensor([-1.0000,  0.4621,  1.0000])
    """
    return input.tanh()


@composite(name="sigmoid", **_functional, pointwise=True)
def functional_sigmoid(input: Tensor) -> Tensor:
    """Logistic function ``1 / (1 + exp(-input))``; see :func:`torch.sigmoid`.

    Args:
        input: any shape; integers and bools give the default float dtype.
    Returns:
        A new tensor of ``input``'s shape, between 0 and 1.
    Raises:
        TypeError: an ``input`` that is no tensor.
    Gradient: ``grad * s * (1 - s)`` with s the result.
    Source: torch.nn.functional.sigmoid.
    Example:
        >>> F.sigmoid(torch.tensor([-100.0, 0.0, 1.0]))
        tensor([0.0000, 0.5000, 0.7311])
    """
    return input.sigmoid()


@composite(**_functional, out=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Gated linear unit: the first half of ``input`` along ``dim`` times the sigmoid of the second.

    Args:
        input: ``(*, 2n, *)``, floating point.
        dim: dimension that is halved.
    Returns:
        ``(*, n, *)``, ``input``'s dtype.
    Raises:
        RuntimeError: a 0-d tensor, or an odd size.
        IndexError: ``dim`` out of range.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad * s`` to the first half, ``grad * first * s * (1 - s)`` to the second; s is the sigmoid.
    Source: torch.nn.functional.glu. Dauphin et al. 2017.
    Example:
        >>> F.glu(torch.tensor([8.0, 6.0, 0.0, 100.0]))
        tensor([4., 6.])
    """
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors because halving size must be even")
    size = input.size(dim)
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim % input.ndim} is size {size}")
    _floats("glu_cpu", input._array)
    first, second = input.narrow(dim, 0, size // 2), input.narrow(dim, size // 2, size // 2)
    if not input._requires_grad and _gating.pays((first, second)):
        with no_grad():
            return _gated(first, second)
    return first * second.sigmoid()


@native.part(None, work="first._array.size")
def _gated(first: Any, second: Any) -> Any:
    return first * second.sigmoid()


_gating: Any = _gated.part  # type: ignore[attr-defined]


# -- piecewise linear and quadratic units -----------------------------------------------------------------------------------------
@pointwise(**_functional, fast=True, grad={"input": lambda grad, input: keep_where(grad / 6, (input > -3).logical_and(input < 3))})
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input + 3, 0), 6) / 6``: a sigmoid made of three straight lines.

    Args:
        input: any shape, floating point.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad / 6`` strictly between -3 and 3.
    Source: torch.nn.functional.hardsigmoid.
    Example:
        >>> F.hardsigmoid(torch.tensor([-4.0, 0.0, 1.5, 4.0]))
        tensor([0.0000, 0.5000, 0.7500, 1.0000])
    """
    _floats("hardsigmoid", input)
    kind = input.dtype.type
    return np.minimum(np.maximum(input + kind(3), kind(0)), kind(6)) / kind(6)


def _hardswish_gradient(grad: Any, input: Any) -> Any:
    above = input >= 3
    curved = (input <= -3).logical_or(above).logical_not()
    return keep_where(grad, above) + keep_where(grad * (input / 3 + 0.5), curved)


@pointwise(**_functional, fast=True, grad={"input": _hardswish_gradient})
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``: a swish without an exponential.

    Args:
        input: any shape, floating point.
        inplace: write the result into ``input``.
    Returns:
        ``input``'s shape and dtype; ``input`` itself with ``inplace``.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: 0 up to -3, ``grad * (input / 3 + 1/2)`` up to 3, ``grad`` above.
    Source: torch.nn.functional.hardswish. Howard et al. 2019.
    Example:
        >>> F.hardswish(torch.tensor([-4.0, 0.0, 3.0, 5.0]))
        tensor([-0., 0., 3., 5.])
    """
    _floats("hardswish_cpu", input)
    kind = input.dtype.type
    return input * np.minimum(np.maximum(input + kind(3), kind(0)), kind(6)) / kind(6)


def _outside(input: Any, lambd: float) -> Any:
    return (input < -lambd).logical_or(input > lambd)


@pointwise(
    inplace=False,
    fast=True,
    grad={"input": lambda grad, input, lambd: _tied_to(input, keep_where(grad, _outside(input, lambd)))},
)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input``, but 0 in [-``lambd``, ``lambd``].

    Args:
        input: any shape, floating point.
        lambd: half the width of the interval.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        NotImplementedError: input that is not floating point.
    Gradient: ``grad`` outside the interval.
    Source: torch.hardshrink.
    Example:
        >>> torch.hardshrink(torch.tensor([-2.0, 0.5, 0.75]))
        tensor([-2.0000,  0.0000,  0.7500])
    """
    _floats("hardshrink_cpu", input)
    return kept(input, ~((input >= -lambd) & (input <= lambd)))


@pointwise(
    **_functional,
    fast=True,
    inplace=False,
    grad={"input": lambda grad, input, lambd: _tied_to(input, keep_where(grad, _outside(input, lambd)))},
    compiled=True,
)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` moved by ``lambd`` toward zero, 0 in [-``lambd``, ``lambd``].

    Args:
        input: any shape, floating point.
        lambd: how far, not negative.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        RuntimeError: a negative ``lambd``.
        NotImplementedError: input that is not floating point.
    Gradient: ``grad`` outside the interval.
    Source: torch.nn.functional.softshrink.
    Example:
        >>> F.softshrink(torch.tensor([-2.0, 0.5, 0.75]))
        tensor([-1.5000,  0.0000,  0.2500])
    """
    _floats("softshrink_cpu", input)
    if lambd < 0:
        most, kind = ml_dtypes.finfo(input.dtype).max, dtypes.of_array(input).legacy
        raise RuntimeError(f"lambda must be in range [0, {float(most):g}] for input dtype {kind}, but found {lambd}")
    step = input.dtype.type(lambd)
    return np.where(input > step, input - step, np.where(input < -step, input + step, input * input.dtype.type(0)))


@composite(name="rrelu_", method=False)
def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None) -> Tensor:
    """``rrelu`` that writes its result into ``input``.

    Args:
        input: any shape, floating point.
        lower, upper: bounds of the slope, ``upper`` excluded.
        training: draw the slopes; otherwise their mean serves all elements.
        generator: source of the draws; the default one when None.
    Returns:
        ``input`` itself.
    Raises:
        RuntimeError: a leaf that requires a gradient, or ``lower`` above ``upper``.
    Gradient: ``grad``, times the slope where ``input`` was not above zero.
    Source: torch.rrelu_.
    Example:
        >>> x = torch.tensor([-4.0, 4.0])
        >>> torch.rrelu_(x, 0.25, 0.75) is x, x
        (True, tensor([-2.,  4.]))
    """
    check_writable(input, True)
    return input.copy_(rrelu(input, lower, upper, training, generator))


for _name in ("prelu", "hardshrink", "relu_", "selu_", "celu_", "threshold_", "rrelu_"):
    TABLES["nn.functional"][_name] = TABLES["torch"][_name]

__all__ = ["functional_relu", "relu"]
