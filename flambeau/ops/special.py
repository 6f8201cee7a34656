"""Special functions, by SciPy: error function, gamma and its kin, Bessel functions, orthogonal polynomials."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..core.arrays import native
from ..core.calls.annotations import Number, Tensor
from ..core.calls.registry import TABLES, add_method, composite, other_names, overwritten, pointwise
from .arithmetic import conj, missing_derivative, order_of, reject, scipy_function
from .rounding import round_

_special = {"namespace": "special", "promotion": "int_to_float", "inplace": False}


def _real(name: str, input: np.ndarray) -> None:
    reject(name, input, "c")


def _floats_only(kernel: Any) -> Any:
    return lambda a: kernel(a) if a.dtype.kind == "f" else None


# -- error function -------------------------------------------------------------------------------------------------------------
_erf, _erfc, _erfinv = scipy_function("erf"), scipy_function("erfc"), scipy_function("erfinv")
_TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)


@pointwise(
    fast=_floats_only(_erf),
    promotion="int_to_float",
    grad={"input": lambda grad, input: grad * ((-input * input).exp() * _TWO_BY_ROOT_PI)},
    keeps_zero=True,
)
def erf(input: Tensor) -> Tensor:
    """Error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``input``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point, in [-1, 1].
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * 2 / sqrt(pi) * exp(-input**2)``.
    Source: torch.erf.
    Example:
        >>> torch.erf(torch.tensor([0.0, 0.5, torch.inf]))
        tensor([0.0000, 0.5205, 1.0000])
    """
    _real("erf_vml_cpu", input)
    return _erf(input)


@pointwise(
    fast=_floats_only(_erfc),
    promotion="int_to_float",
    grad={"input": lambda grad, input: grad * ((-input * input).exp() * -_TWO_BY_ROOT_PI)},
)
def erfc(input: Tensor) -> Tensor:
    """``1 - erf(input)``, exact where that would be cancelled away.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point, in [0, 2].
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``-grad * 2 / sqrt(pi) * exp(-input**2)``.
    Source: torch.erfc.
    Example:
        >>> x = torch.tensor([0.0, 5.0])
        >>> torch.erfc(x), 1 - torch.erf(x)
        (tensor([1.0000e+00, 1.5375e-12]), tensor([1., 0.]))
    """
    _real("erfc_vml_cpu", input)
    return _erfc(input)


@pointwise(
    promotion="int_to_float",
    grad={"input": lambda grad, input: grad * (erfinv(input).square().exp() / _TWO_BY_ROOT_PI)},
    autocast={"cuda": "float32"},
    keeps_zero=True,
)
def erfinv(input: Tensor) -> Tensor:
    """Inverse of ``erf`` on (-1, 1); infinite at the ends, NaN outside.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * sqrt(pi) / 2 * exp(erfinv(input)**2)``.
    Source: torch.erfinv.
    Example:
        >>> torch.erfinv(torch.erf(torch.tensor([0.5]))), torch.erfinv(torch.tensor([1.0, 2.0]))
        (tensor([0.5000]), tensor([inf, nan]))
    """
    _real("erfinv_vml_cpu", input)
    return np.where(input == 0, input, _erfinv(input))


@pointwise(**_special, grad={"input": lambda grad, input, result: grad * (2 * input * result - _TWO_BY_ROOT_PI)})
def erfcx(input: Tensor) -> Tensor:
    """``exp(input**2) * erfc(input)``, which neither overflows nor vanishes for large numbers.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * (2 * input * result - 2 / sqrt(pi))``.
    Source: torch.special.erfcx.
    Example:
        >>> torch.special.erfcx(torch.tensor([0.0, 1000.0]))  # near 1 / (sqrt(pi) x)
        tensor([1.0000e+00, 5.6419e-04])
    """
    _real("erfcx", input)
    return scipy_function("erfcx")(input)


@composite(namespace="special", out=True)
def ndtr(input: Tensor) -> Tensor:
    """Area under the standard normal density up to ``input``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point, in [0, 1].
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.ndtr.
    Example:
        >>> torch.special.ndtr(torch.tensor([-1.96, 0.0, 1.96]))
        tensor([0.0250, 0.5000, 0.9750])
    """
    scaled = input * math.sqrt(0.5)
    return (1 + erf(scaled)) * 0.5


@pointwise(**_special, grad={"input": lambda grad, result: grad * ((result * result * 0.5).exp() * math.sqrt(2 * math.pi))})
def ndtri(input: Tensor) -> Tensor:
    """The number up to which the standard normal density has the area ``input``: the inverse of ``ndtr``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; infinite at 0 and 1, NaN outside.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * sqrt(2 * pi) * exp(result**2 / 2)``.
    Source: torch.special.ndtri.
    Example:
        >>> torch.special.ndtri(torch.tensor([0.5, 0.975, 1.0]))
        tensor([0.0000, 1.9600,    inf])
    """
    _real("ndtri_cpu", input)
    return scipy_function("ndtri")(input)


@pointwise(**_special, grad={"input": lambda grad, input: grad / erfcx(input * -math.sqrt(0.5)) * math.sqrt(2 / math.pi)})
def log_ndtr(input: Tensor) -> Tensor:
    """Logarithm of ``ndtr``, exact in the lower tail.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad`` times the normal density over ``ndtr(input)``.
    Source: torch.special.log_ndtr.
    Example:
        >>> torch.special.log_ndtr(torch.tensor([0.0, -50.0]))  # ndtr(-50) is 0 in float32
        tensor([-6.9315e-01, -1.2548e+03])
    """
    _real("log_ndtr_cpu", input)
    return scipy_function("log_ndtr")(input)


@pointwise(**_special, grad={"input": lambda grad, input: -grad * (1 + input.log())})
def entr(input: Tensor) -> Tensor:
    """``-input * log(input)``, element by element: 0 at 0, minus infinity below.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``-grad * (1 + log(input))``.
    Source: torch.special.entr.
    Example:
        >>> torch.special.entr(torch.tensor([0.5, 0.5])).sum()  # of a fair coin: log 2
        tensor(0.6931)
    """
    _real("entr_cpu", input)
    zero = input.dtype.type(0)
    product = np.where(input == 0, zero, -input * np.log(input))
    return np.where(input < 0, input.dtype.type(-np.inf), product)


def _sinc_gradient(grad: Any, input: Any) -> Any:
    angle, square = math.pi * input, input * input * math.pi
    return (grad * conj((angle * angle.cos() - angle.sin()) / square)).masked_fill(square == 0, 0)


@pointwise(promotion="int_to_float", grad={"input": _sinc_gradient}, forward="holomorphic")
def sinc(input: Tensor) -> Tensor:
    """``sin(pi * input) / (pi * input)``, element by element: 1 at 0.

    Args:
        input: any shape; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point or complex.
    Raises:
        TypeError: a number in place of the tensor.
    Gradient: the derivative of the quotient; 0 at 0.
    Source: torch.sinc.
    Example:
        >>> torch.sinc(torch.tensor([0.0, 0.5]))  # 1, 2 / pi
        tensor([1.0000, 0.6366])
    """
    angle = np.multiply(input, input.dtype.type(math.pi))
    return np.where(input == 0, input.dtype.type(1), np.sin(angle) / angle)


@composite(namespace="special", out=True)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` along ``dim``; see :func:`torch.logsumexp`.

    Args:
        input: any shape and dtype; integers become floating point.
        dim: dimension or dimensions to reduce.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``; floating point or complex.
    Raises:
        IndexError: ``dim`` out of range.
    Source: torch.special.logsumexp.
    Example:
        >>> torch.special.logsumexp(torch.tensor([[0.0, 0.0], [100.0, 100.0]]), 1)
        tensor([  0.6931, 100.6931])
    """
    return input.logsumexp(dim, keepdim)


@composite(name="round", namespace="special", out=True, pointwise=True)
def special_round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest whole number, the even one of two that are equally near.

    Args:
        input: any shape, floating point; :func:`torch.round` takes integers too.
        decimals: digits after the point to keep; before the point where negative.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        NotImplementedError: input that is not floating point.
    Source: torch.special.round.
    Example:
        >>> torch.special.round(torch.tensor([0.5, 1.5, 2.125])), torch.special.round(torch.tensor([2.125]), decimals=1)
        (tensor([0., 2., 2.]), tensor([2.1000]))
    """
    reject("round_cpu" if decimals else "round_vml_cpu", input._array, "biu")
    return round_(input, decimals=decimals)


# -- gamma function -------------------------------------------------------------------------------------------------------------
@pointwise(promotion="int_to_float", grad={"input": lambda grad, input: grad * input.digamma()})
def lgamma(input: Tensor) -> Tensor:
    """Logarithm of the absolute value of the gamma function; infinite at 0 and negative whole numbers.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * digamma(input)``.
    Source: torch.lgamma.
    Example:
        >>> torch.lgamma(torch.tensor([5.0, 0.0]))  # log 4!
        tensor([3.1781,    inf])
    """
    _real("lgamma_vml_cpu", input)
    return np.where(np.isinf(input), input.dtype.type(np.inf), scipy_function("gammaln")(input))


@pointwise(promotion="int_to_float", grad={"input": lambda grad, input: grad * polygamma(1, input)})
def digamma(input: Tensor) -> Tensor:
    """Derivative of the logarithm of the gamma function; -inf and inf at zero, NaN at negative whole numbers.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * polygamma(1, input)``.
    Source: torch.digamma.
    Example:
        >>> torch.digamma(torch.tensor([1.0, 2.0, 0.0, -1.0]))  # the first is minus Euler's constant
        tensor([-0.5772,  0.4228,    -inf,     nan])
    """
    _real("digamma", input)
    values = np.where((input == np.floor(input)) & (input < 0), np.nan, scipy_function("psi")(input))
    return np.where(input == 0, np.copysign(input.dtype.type(np.inf), -input), values).astype(input.dtype)


@pointwise(
    name="_polygamma",
    promotion="int_to_float",
    inplace=False,
    out=True,
    grad={"input": lambda grad, n, input: grad * polygamma(n + 1, input)},
    aten="polygamma",
)
def polygamma_of(n: int, input: Tensor) -> Tensor:
    """The ``n``-th derivative of digamma, n at least 1."""
    _real("polygamma", input)
    from scipy import special

    sign = 1 if n % 2 else -1
    factorial = special.gamma(n + 1.0)
    series = scipy_function("zeta")(n + 1.0, input.astype(np.float64, order=order_of(input)))
    return (sign * factorial * series).astype(input.dtype)


@composite(out=True, method=False)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The ``n``-th derivative of the digamma function.

    Args:
        n: order, at least 0.
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        RuntimeError: a negative order.
        NotImplementedError: a complex tensor.
    Gradient: ``grad * polygamma(n + 1, input)``.
    Source: torch.polygamma.
    Example:
        >>> torch.polygamma(1, torch.tensor([1.0]))  # pi^2 / 6
        tensor([1.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return digamma(input) if n == 0 else polygamma_of(n, input)


add_method("polygamma", lambda: lambda self, n: polygamma(n, self))
add_method("polygamma_", lambda: lambda self, n: overwritten(self, polygamma(n, self)))


@composite(out=True, inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension ``p``.

    Args:
        input: any shape, real; integers become the default floating type.
        p: dimension, at least 1.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        RuntimeError: ``p`` below 1.
        NotImplementedError: a complex tensor.
    Gradient: ``grad`` times the sum of ``digamma(input - j / 2)`` for j below ``p``.
    Source: torch.mvlgamma.
    Example:
        >>> torch.mvlgamma(torch.tensor([5.0]), 1)  # log 4!
        tensor([3.1781])
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total = lgamma(input)
    for j in range(1, p):
        total = total + lgamma(input - j / 2)
    return (total + p * (p - 1) / 4 * math.log(math.pi)).contiguous()


@native.part("_incomplete_gamma", work="8 * max(order.size, x.size)")
def _incomplete_gamma(order: np.ndarray, x: np.ndarray, upper: bool) -> np.ndarray:
    return scipy_function("gammaincc" if upper else "gammainc")(order, x)


def _gamma_density(grad: Any, a: Any, x: Any) -> Any:
    return grad * ((a - 1) * x.log() - x - a.lgamma()).exp()


@pointwise(
    aliases=("gammainc",),
    grad={
        "input": missing_derivative("igamma", "input"),
        "other": lambda grad, input, other: _gamma_density(grad, input, other),
    },
)
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """Lower incomplete gamma function of order ``input`` at ``other``, regularised.

    Args:
        input: the order, any shape, floating point.
        other: where the integral from 0 ends, with a shape that broadcasts.
    Returns:
        The broadcast shape, the common dtype, in [0, 1].
    Raises:
        NotImplementedError: integer or complex operands.
    Gradient: to ``other`` only.
    Source: torch.igamma.
    Example:
        >>> torch.igamma(torch.tensor([1.0]), torch.tensor([0.5]))  # 1 - exp(-0.5)
        tensor([0.3935])
    """
    reject("igamma_cpu", input, "biuc")
    return _incomplete_gamma(input, other, False)


@pointwise(
    aliases=("gammaincc",),
    grad={
        "input": missing_derivative("igammac", "input"),
        "other": lambda grad, input, other: -_gamma_density(grad, input, other),
    },
)
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """Upper incomplete gamma function of order ``input`` at ``other``, regularised.

    Args:
        input: the order, any shape, floating point.
        other: where the integral to infinity begins, with a shape that broadcasts.
    Returns:
        The broadcast shape, the common dtype, in [0, 1].
    Raises:
        NotImplementedError: integer or complex operands.
    Gradient: to ``other`` only.
    Source: torch.igammac.
    Example:
        >>> torch.igammac(torch.tensor([1.0]), torch.tensor([0.5]))  # exp(-0.5)
        tensor([0.6065])
    """
    reject("igammac_cpu", input, "biuc")
    return _incomplete_gamma(input, other, True)


@pointwise(
    **_special,
    grad={
        "input": missing_derivative("special.zeta", "input"),
        "other": lambda grad, input, other: grad * (-input * zeta(input + 1, other)),
    },
    aten="special_zeta",
)
def zeta(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Hurwitz zeta function: the sum of ``(k + other)**-input`` over k from 0.

    Args:
        input: the exponent, above 1; a real tensor of any shape, or a number.
        other: where the sum begins; a tensor that broadcasts, or a number.
    Returns:
        The broadcast shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: to ``other`` only.
    Source: torch.special.zeta.
    Example:
        >>> torch.special.zeta(torch.tensor([2.0]), 1)  # pi^2 / 6
        tensor([1.6449])
    """
    _real("zeta", input)
    wide = [operand.astype(np.float64, order=order_of(operand)) for operand in (input, other)]
    return scipy_function("zeta")(*wide).astype(input.dtype)


# -- Bessel functions -----------------------------------------------------------------------------------------------------------
@pointwise(promotion="int_to_float", grad={"input": lambda grad, input: grad * i1(input)})
def i0(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind, order 0, which grows as ``exp(|x|) / sqrt(2 pi |x|)``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point, at least 1.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * i1(input)``.
    Source: torch.i0.
    Example:
        >>> torch.i0(torch.tensor([0.0, 1.0, -1.0]))
        tensor([1.0000, 1.2661, 1.2661])
    """
    _real("i0", input)
    return scipy_function("i0")(input)


@pointwise(**_special, grad={"input": lambda grad, input, result: grad * (i1e(input) - input.sgn() * result)})
def i0e(input: Tensor) -> Tensor:
    """``exp(-abs(input)) * i0(input)``, which does not overflow.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point, in [0, 1].
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * (i1e(input) - sgn(input) * result)``.
    Source: torch.special.i0e.
    Example:
        >>> torch.special.i0e(torch.tensor([0.0, 1000.0]))
        tensor([1.0000, 0.0126])
    """
    _real("i0e", input)
    return scipy_function("i0e")(input)


def _is_tiny(input: Any) -> Any:
    return input.abs() <= float(ml_dtypes.finfo(input.dtype.numpy).eps)


def _i1_gradient(grad: Any, input: Any, result: Any) -> Any:
    tiny = _is_tiny(input)
    return grad * (input.i0() - result / input.masked_fill(tiny, 1)).masked_fill(tiny, 0.5)


@pointwise(**_special, grad={"input": _i1_gradient})
def i1(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind, order 1: the derivative of ``i0``, an odd function.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * (i0(input) - result / input)``, ``grad / 2`` at 0.
    Source: torch.special.i1.
    Example:
        >>> torch.special.i1(torch.tensor([0.0, 1.0, -1.0]))
        tensor([ 0.0000,  0.5652, -0.5652])
    """
    _real("i1", input)
    return scipy_function("i1")(input)


def _i1e_gradient(grad: Any, input: Any, result: Any) -> Any:
    tiny = _is_tiny(input)
    return grad * (i0e(input) - result * (input.sgn() + 1 / input.masked_fill(tiny, 1))).masked_fill(tiny, 0.5)


@pointwise(**_special, grad={"input": _i1e_gradient})
def i1e(input: Tensor) -> Tensor:
    """``exp(-abs(input)) * i1(input)``, which does not overflow.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Gradient: ``grad * (i0e(input) - result * (sgn(input) + 1 / input))``, ``grad / 2`` at 0.
    Source: torch.special.i1e.
    Example:
        >>> torch.special.i1e(torch.tensor([0.0, 1000.0]))
        tensor([0.0000, 0.0126])
    """
    _real("i1e", input)
    return scipy_function("i1e")(input)


@pointwise(**_special, grad=None)
def bessel_j0(input: Tensor) -> Tensor:
    """Bessel function of the first kind, order 0: an oscillation that begins with 1.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; 0 at infinity.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.bessel_j0.
    Example:
        >>> torch.special.bessel_j0(torch.tensor([0.0, 2.0, torch.inf]))
        tensor([1.0000, 0.2239, 0.0000])
    """
    _real("bessel_j0_cpu", input)
    return np.where(np.isinf(input), input.dtype.type(0), scipy_function("j0")(input))


@pointwise(**_special, grad=None)
def bessel_j1(input: Tensor) -> Tensor:
    """Bessel function of the first kind, order 1: minus the derivative of ``bessel_j0``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; 0 at infinity.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.bessel_j1.
    Example:
        >>> torch.special.bessel_j1(torch.tensor([0.0, 2.0, torch.inf]))
        tensor([0.0000, 0.5767, 0.0000])
    """
    _real("bessel_j1_cpu", input)
    return np.where(np.isinf(input), input.dtype.type(0), scipy_function("j1")(input))


@pointwise(**_special, grad=None)
def bessel_y0(input: Tensor) -> Tensor:
    """Bessel function of the second kind, order 0.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; minus infinity at 0, NaN below.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.bessel_y0.
    Example:
        >>> torch.special.bessel_y0(torch.tensor([0.0, 2.0, -1.0]))
        tensor([  -inf, 0.5104,    nan])
    """
    _real("bessel_y0_cpu", input)
    return scipy_function("y0")(input)


@pointwise(**_special, grad=None)
def bessel_y1(input: Tensor) -> Tensor:
    """Bessel function of the second kind, order 1.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; minus infinity at 0, NaN below.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.bessel_y1.
    Example:
        >>> torch.special.bessel_y1(torch.tensor([0.0, 2.0, -1.0]))
        tensor([   -inf, -0.1070,     nan])
    """
    _real("bessel_y1_cpu", input)
    return scipy_function("y1")(input)


@pointwise(**_special, grad=None)
def modified_bessel_i0(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind, order 0: ``i0`` without a derivative.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point, at least 1.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.modified_bessel_i0.
    Example:
        >>> torch.special.modified_bessel_i0(torch.tensor([0.0, 2.0]))
        tensor([1.0000, 2.2796])
    """
    _real("modified_bessel_i0_cpu", input)
    return scipy_function("i0")(input)


@pointwise(**_special, grad=None)
def modified_bessel_i1(input: Tensor) -> Tensor:
    """Modified Bessel function of the first kind, order 1: ``i1`` without a derivative.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.modified_bessel_i1.
    Example:
        >>> torch.special.modified_bessel_i1(torch.tensor([0.0, 2.0]))
        tensor([0.0000, 1.5906])
    """
    _real("modified_bessel_i1_cpu", input)
    return scipy_function("i1")(input)


@pointwise(**_special, grad=None)
def modified_bessel_k0(input: Tensor) -> Tensor:
    """Modified Bessel function of the second kind, order 0, which falls as ``exp(-x) sqrt(pi / (2 x))``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; infinite at 0, NaN below.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.modified_bessel_k0.
    Example:
        >>> torch.special.modified_bessel_k0(torch.tensor([0.0, 2.0, -1.0]))
        tensor([   inf, 0.1139,    nan])
    """
    _real("modified_bessel_k0_cpu", input)
    return scipy_function("k0")(input)


@pointwise(**_special, grad=None)
def modified_bessel_k1(input: Tensor) -> Tensor:
    """Modified Bessel function of the second kind, order 1: minus the derivative of ``modified_bessel_k0``.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; infinite at 0, NaN below.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.modified_bessel_k1.
    Example:
        >>> torch.special.modified_bessel_k1(torch.tensor([0.0, 2.0, -1.0]))
        tensor([   inf, 0.1399,    nan])
    """
    _real("modified_bessel_k1_cpu", input)
    return scipy_function("k1")(input)


@pointwise(**_special, grad=None)
def scaled_modified_bessel_k0(input: Tensor) -> Tensor:
    """``exp(input) * modified_bessel_k0(input)``, which does not vanish for large numbers.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; infinite at 0, NaN below.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.scaled_modified_bessel_k0.
    Example:
        >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1.0, 1000.0]))
        tensor([1.1445, 0.0396])
    """
    _real("scaled_modified_bessel_k0_cpu", input)
    return scipy_function("k0e")(input)


@pointwise(**_special, grad=None)
def scaled_modified_bessel_k1(input: Tensor) -> Tensor:
    """``exp(input) * modified_bessel_k1(input)``, which does not vanish for large numbers.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; infinite at 0, NaN below.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.scaled_modified_bessel_k1.
    Example:
        >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1.0, 1000.0]))
        tensor([1.6362, 0.0396])
    """
    _real("scaled_modified_bessel_k1_cpu", input)
    return scipy_function("k1e")(input)


@pointwise(**_special, grad=None)
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """Spherical Bessel function of the first kind, order 0: ``sin(input) / input``, 1 at 0.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point; 0 at infinity.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.spherical_bessel_j0.
    Example:
        >>> torch.special.spherical_bessel_j0(torch.tensor([0.0, torch.pi / 2]))  # 1, 2 / pi
        tensor([1.0000, 0.6366])
    """
    _real("spherical_bessel_j0_cpu", input)
    values = np.where(input == 0, input.dtype.type(1), np.sin(input) / input)
    return np.where(np.isinf(input), input.dtype.type(0), values)


@pointwise(**_special, grad=None)
def airy_ai(input: Tensor) -> Tensor:
    """Airy function Ai: a solution of ``y'' = x y`` that oscillates below 0 and vanishes above.

    Args:
        input: any shape, real; integers become the default floating type.
    Returns:
        ``input``'s shape, floating point.
    Raises:
        NotImplementedError: a complex tensor.
    Source: torch.special.airy_ai.
    Example:
        >>> torch.special.airy_ai(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.2274, 0.3550, 0.0349])
    """
    _real("airy_ai_cpu", input)
    return scipy_function("airy")(input)


# -- the names of torch.special ------------------------------------------------------------------------------------------------------
_SAME_NAMES = ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p", "logit", "polygamma", "sinc", "xlogy")
_OTHER_NAMES = {
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
for _spelling, _name in {**{name: name for name in _SAME_NAMES}, **_OTHER_NAMES}.items():
    TABLES["special"][_spelling] = TABLES["torch"][_name]
for _name in ("airy_ai", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"):
    other_names(_name, "special", x="input")
