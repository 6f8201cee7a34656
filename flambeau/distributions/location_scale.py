"""Distributions of numbers that a location and a scale shift and stretch.

Densities, moments and entropies: Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", 1994 and 1995.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops, special
from ..autograd import no_grad
from ..core.dtype import bool_
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from . import constraints
from .distribution import Parametric
from .exp_family import ExponentialFamily
from .positive import Chi2
from .transformed_distribution import FromBase, WithParameters
from .transforms import AbsTransform, AffineTransform, ExpTransform
from .utils import _standard_normal, broadcast_all, euler_constant, lazy_property, same_as

__all__ = ["Cauchy", "Gumbel", "HalfCauchy", "HalfNormal", "Laplace", "LogNormal", "Normal", "StudentT", "Uniform", "VonMises"]

_LOCATION_AND_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class _Symmetric(Parametric):
    """A distribution of all numbers, symmetric around its mode ``loc`` and stretched by ``scale``."""

    arg_constraints = _LOCATION_AND_SCALE
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor
    mode: Tensor = same_as("loc")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self._hold(validate_args, loc=loc, scale=scale)


class Normal(ExponentialFamily, _Symmetric):
    """The normal distribution: density ``exp(-z**2 / 2) / (scale sqrt(2 pi))`` with ``z = (x - loc) / scale``.

    Args:
        loc: the mean, ``(*)`` or a number.
        scale: the standard deviation, positive; broadcasts with ``loc``.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``loc`` and ``scale`` broadcast; an event is one number.
    Raises:
        ValueError: ``scale`` not positive, or ``loc`` NaN.
    Source: torch.distributions.Normal.
    Example:
        >>> normal = Normal(torch.tensor([0.0, 2.0]), 2.0)
        >>> normal.log_prob(torch.tensor(0.0)), normal.cdf(torch.tensor(0.0))
        (tensor([-1.6121, -2.1121]), tensor([0.5000, 0.1587]))
    """

    _mean_carrier_measure = 0
    mean: Tensor = same_as("loc")
    stddev: Tensor = same_as("scale")

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale**2) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return 0.5 * (1 + ops.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * ops.log(-math.pi / y)


class LogNormal(FromBase):
    """The distribution of ``exp(x)`` for a normal ``x``.

    Args:
        loc: mean of the logarithm, ``(*)`` or a number.
        scale: standard deviation of the logarithm, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``loc`` and ``scale`` broadcast; an event is one positive number.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.LogNormal.
    Example:
        >>> log_normal = LogNormal(0.0, torch.tensor([0.5, 1.0]))
        >>> log_normal.mean, log_normal.mode
        (tensor([1.1331, 1.6487]), tensor([0.7788, 0.3679]))
    """

    arg_constraints = _LOCATION_AND_SCALE
    support = constraints.positive
    has_rsample = True
    _of_base = ("loc", "scale")
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(FromBase):
    """The absolute value of what is distributed symmetrically around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    scale: Tensor

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal number of mean 0.

    Args:
        scale: the standard deviation of that number, not of the absolute value; positive, ``(*)`` or a number.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``scale``; an event is one number, 0 or more.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.HalfNormal.
    Example:
        >>> HalfNormal(2.0).mean, HalfNormal(2.0).log_prob(torch.tensor(0.0))
        (tensor(1.5958), tensor(-0.9189))
    """

    _of_base = ("scale",)

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class Cauchy(_Symmetric):
    """The Cauchy distribution, with tails so heavy that mean and variance do not exist: ``mean`` is NaN, ``variance`` infinite.

    Args:
        loc: the median, ``(*)`` or a number.
        scale: half the distance of the quartiles, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``loc`` and ``scale`` broadcast; an event is one number.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.Cauchy.
    Example:
        >>> Cauchy(0.0, 2.0).cdf(torch.tensor([-2.0, 0.0, 2.0]))
        tensor([0.2500, 0.5000, 0.7500])
    """

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).pow(2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(_Half):
    """The absolute value of a Cauchy number of median 0.

    Args:
        scale: its median, positive; ``(*)`` or a number.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``scale``; an event is one number, 0 or more.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.HalfCauchy.
    Example:
        >>> HalfCauchy(3.0).icdf(torch.tensor(0.5)), HalfCauchy(3.0).mean
        (tensor(3.), tensor(inf))
    """

    _of_base = ("scale",)
    variance: Tensor = same_as("base_dist.variance")

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.scale, math.inf)

    def log_prob(self, value: Any) -> Tensor:
        self._check_sample(value)
        value = ops.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return ops.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)


class Laplace(_Symmetric):
    """The Laplace distribution: an exponential number on either side of ``loc``.

    Args:
        loc: the mean, ``(*)`` or a number.
        scale: the mean distance from it, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``loc`` and ``scale`` broadcast; an event is one number.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.Laplace.
    Example:
        >>> Laplace(0.0, 1.0).log_prob(torch.tensor([-2.0, 0.0, 2.0])), Laplace(0.0, 1.0).variance
        (tensor([-2.6931, -0.6931, -2.6931]), tensor(2.))
    """

    mean: Tensor = same_as("loc")

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # -1 itself would give minus infinity.
        u = self.loc.new_empty(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        from_median = value - 0.5
        return self.loc - self.scale * from_median.sign() * (-2 * from_median.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Uniform(Parametric):
    """All numbers from ``low`` to ``high``, with equal density.

    Args:
        low: the lower bound, ``(*)`` or a number; a sample may be ``low``.
        high: the upper bound, above ``low``; no sample is ``high``.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``low`` and ``high`` broadcast; an event is one number.
    Raises:
        ValueError: ``high`` not above ``low``.
    Source: torch.distributions.Uniform.
    Example:
        >>> uniform = Uniform(torch.tensor([0.0, 2.0]), 4.0)
        >>> uniform.mean, uniform.log_prob(torch.tensor(3.0)).exp()
        (tensor([2., 3.]), tensor([0.2500, 0.5000]))
    """

    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self._hold(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        share = ops.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + share * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Gumbel(WithParameters):
    """The Gumbel distribution, to which the largest of many values tends.

    Args:
        loc: the mode, ``(*)`` or a number.
        scale: positive; the standard deviation is ``scale * pi / sqrt(6)``.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``loc`` and ``scale`` broadcast; an event is one number.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.Gumbel.
    Example:
        >>> Gumbel(1.0, 2.0).mean, Gumbel(1.0, 2.0).cdf(torch.tensor(1.0))
        (tensor(2.1544), tensor(0.3679))
    """

    arg_constraints = _LOCATION_AND_SCALE
    support = constraints.real
    loc: Tensor
    scale: Tensor
    mode: Tensor = same_as("loc")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        low, high = (ops.full_like(self.loc, bound) for bound in (limits.tiny, 1 - limits.eps))
        # loc - scale * log(-log(u))
        transforms = [
            ExpTransform().inv,
            AffineTransform(0, -ops.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc, -self.scale),
        ]
        super().__init__(Uniform(low, high, validate_args=validate_args), transforms, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        z = (self.loc - value) / self.scale
        return (z - z.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class StudentT(Parametric):
    """Student's t: a normal number over the root of an independent chi-squared one, divided by its degrees of freedom.

    Args:
        df: degrees of freedom, positive; no mean up to 1, infinite variance up to 2.
        loc: the median, ``(*)`` or a number.
        scale: what the number is multiplied with, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``df``, ``loc`` and ``scale`` broadcast; an event is one number.
    Raises:
        ValueError: ``df`` or ``scale`` not positive.
    Source: torch.distributions.StudentT.
    Example:
        >>> StudentT(torch.tensor([1.0, 2.0, 4.0])).variance
        tensor([nan, inf, 2.])
    """

    arg_constraints = {"df": constraints.positive, **_LOCATION_AND_SCALE}
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor
    mode: Tensor = same_as("loc")

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self._hold(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df <= 1, math.nan, self.loc)

    @property
    def variance(self) -> Tensor:
        variance = self.scale.pow(2) * self.df / (self.df - 2)
        return ops.where(self.df > 2, variance, ops.where(self.df > 1, math.inf, ops.full_like(self.df, math.nan)))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        return self.loc + self.scale * noise * ops.rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        z = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + ops.lgamma(0.5 * self.df) - ops.lgamma(0.5 * (self.df + 1))
        )
        return -0.5 * (self.df + 1) * (z**2 / self.df).log1p() - normalizer

    def entropy(self) -> Tensor:
        half, next_half = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(next_half)
        return self.scale.log() + next_half * (ops.digamma(next_half) - ops.digamma(half)) + 0.5 * self.df.log() + log_beta


class VonMises(Parametric):
    """The von Mises distribution of angles: density proportional to ``exp(concentration * cos(x - loc))``.

    Args:
        loc: the mean direction, in radians.
        concentration: how narrow it is, positive; about ``1 / variance`` where large.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``loc`` and ``concentration`` broadcast; an event is one angle from -pi to pi.
    Raises:
        ValueError: ``concentration`` not positive.
    Source: torch.distributions.VonMises. Samples: Best and Fisher 1979, "Efficient simulation of the von Mises distribution". Bessel
        functions: Mardia and Jupp, "Directional statistics", 2000, section 3.5.4.
    Example:
        >>> circle = VonMises(0.0, torch.tensor([0.1, 10.0]))
        >>> circle.variance, circle.sample((100,)).abs().max() <= np.pi
        (tensor([0.9501, 0.0514]), tensor(True))
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    loc: Tensor
    concentration: Tensor
    mode: Tensor = same_as("loc")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None):
        self._hold(validate_args, loc=loc, concentration=concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return self.concentration * ops.cos(value - self.loc) - math.log(2 * math.pi) - _log_bessel(0, self.concentration)

    @lazy_property
    def _proposal(self) -> Tensor:
        """``r`` of the wrapped Cauchy distribution that encloses this one, in float64."""
        kappa = self.concentration.double()
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # As kappa goes to 0 the quotient loses its digits; the series does not.
        return ops.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            loc, kappa, r = self.loc.double().expand(shape), self.concentration.double().expand(shape), self._proposal.expand(shape)
            angle, done = ops.empty_like(loc), ops.zeros(shape, dtype=bool_, device=loc.device)
            while not bool(done.all()):
                u1, u2, u3 = ops.rand((3, *shape), dtype=loc.dtype, device=loc.device).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                angle = ops.where(accepted, (u3 - 0.5).sign() * f.acos(), angle)
                done = done | accepted
            return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean direction."""
        return 1 - (_log_bessel(1, self.concentration) - _log_bessel(0, self.concentration)).exp()


def _log_bessel(order: int, x: Tensor) -> Tensor:
    """The logarithm of the modified Bessel function of the first kind, differentiable."""
    return (special.i1e(x) if order else special.i0e(x)).log() + x
