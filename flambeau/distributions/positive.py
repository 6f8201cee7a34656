"""Distributions of positive numbers.

Densities, moments and entropies: Johnson, Kotz and Balakrishnan, "Continuous univariate distributions", 1994 and 1995.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops, special
from ..core.shape import Size
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from . import constraints
from .distribution import Parametric
from .exp_family import ExponentialFamily
from .transformed_distribution import FromBase, WithParameters
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .utils import broadcast_all, euler_constant, same_as

__all__ = ["Chi2", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto", "InverseGamma", "Pareto", "Weibull"]


class Exponential(ExponentialFamily, Parametric):
    """The exponential distribution of times between events: density ``rate * exp(-rate * x)``.

    Args:
        rate: events per unit of time, the inverse of the mean; positive, ``(*)`` or a number.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``rate``; an event is one number, 0 or more.
    Raises:
        ValueError: ``rate`` not positive.
    Source: torch.distributions.Exponential.
    Example:
        >>> Exponential(0.5).mean, Exponential(0.5).cdf(torch.tensor([0.0, 2.0]))
        (tensor(2.), tensor([0.0000, 0.6321]))
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    rate: Tensor

    def __init__(self, rate: Any, validate_args: bool | None = None):
        self._hold(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()


class Gamma(ExponentialFamily, Parametric):
    """The gamma distribution: density proportional to ``x ** (concentration - 1) * exp(-rate * x)``.

    Args:
        concentration: the shape, positive; ``(*)`` or a number.
        rate: the inverse scale, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one number, 0 or more.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.Gamma. Gradients of samples: Figurnov et al. 2018, "Implicit reparameterization gradients".
    Example:
        >>> gamma = Gamma(torch.tensor([1.0, 4.0]), 2.0)
        >>> gamma.mean, gamma.mode, gamma.variance
        (tensor([0.5000, 2.0000]), tensor([0.0000, 1.5000]), tensor([0.2500, 1.0000]))
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self._hold(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = ops._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=finfo(value.dtype).tiny)  # inside of the support, with the gradient of what was drawn
        return value

    def log_prob(self, value: Any) -> Tensor:
        shape, rate = self.concentration, self.rate
        value = ops.as_tensor(value, dtype=rate.dtype, device=rate.device)
        self._check_sample(value)
        return ops.xlogy(shape, rate) + ops.xlogy(shape - 1, value) - rate * value - ops.lgamma(shape)

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape - self.rate.log() + ops.lgamma(shape) + (1.0 - shape) * ops.digamma(shape)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.lgamma(x + 1) - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The chi-squared distribution: the sum of ``df`` squares of standard normal numbers.

    Args:
        df: degrees of freedom, positive; ``(*)`` or a number.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``df``; an event is one number, 0 or more.
    Raises:
        ValueError: ``df`` not positive.
    Source: torch.distributions.Chi2.
    Example:
        >>> Chi2(torch.tensor([1.0, 5.0])).mean, Chi2(2.0).cdf(torch.tensor(2.0))
        (tensor([1., 5.]), tensor(0.6321))
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Chi2, _instance)
        batch_shape = Size(batch_shape)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return super().expand(batch_shape, new)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class InverseGamma(FromBase):
    """The distribution of ``1 / x`` for ``x`` of a gamma distribution.

    Args:
        concentration: of the gamma distribution, positive; the mean is infinite up to 1, the variance up to 2.
        rate: of the gamma distribution, positive; it scales ``1 / x``.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one positive number.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.InverseGamma.
    Example:
        >>> InverseGamma(torch.tensor([1.0, 3.0]), 2.0).mean, InverseGamma(3.0, 2.0).mode
        (tensor([inf, 1.]), tensor(0.5000))
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _of_base = ("concentration", "rate")
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        return ops.where(shape > 2, self.rate.square() / ((shape - 1).square() * (shape - 2)), math.inf)

    def entropy(self) -> Tensor:
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


class FisherSnedecor(Parametric):
    """Fisher's and Snedecor's F: the quotient of two chi-squared numbers, each divided by its degrees of freedom.

    Args:
        df1: degrees of freedom of the numerator, positive.
        df2: degrees of freedom of the denominator, positive; no mean up to 2, no variance up to 4.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one positive number.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.FisherSnedecor.
    Example:
        >>> FisherSnedecor(4.0, torch.tensor([2.0, 6.0])).mean
        tensor([   nan, 1.5000])
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self._hold(validate_args, df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._gamma1, new._gamma2 = self._gamma1.expand(batch_shape), self._gamma2.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        return ops.where(self.df1 > 2, (self.df1 - 2) / self.df1 * (self.df2 / (self.df2 + 2)), math.nan)

    @property
    def variance(self) -> Tensor:
        df1, df2 = self.df1, self.df2
        variance = 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))
        return ops.where(df2 > 4, variance, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        tiny = finfo(self.df2.dtype).tiny
        numerator, denominator = self._gamma1.rsample(sample_shape), self._gamma2.rsample(sample_shape)
        return (numerator / denominator.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        normalizer = ops.lgamma(half1 + half2) - ops.lgamma(half1) - ops.lgamma(half2) + half1 * ratio.log()
        return normalizer + (half1 - 1) * value.log() - (half1 + half2) * (ratio * value).log1p()


class Weibull(WithParameters):
    """The Weibull distribution of times until failure: ``cdf(x) = 1 - exp(-(x / scale) ** concentration)``.

    Args:
        scale: the time by which 63.2 % have failed, positive.
        concentration: the shape, positive; failures grow rarer with age below 1, more frequent above.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one positive number.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.Weibull.
    Example:
        >>> Weibull(2.0, torch.tensor([1.0, 2.0])).cdf(torch.tensor(2.0)), Weibull(2.0, 1.0).mean
        (tensor([0.6321, 0.6321]), tensor(2.))
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _beside = ("concentration_reciprocal",)
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.transforms = [PowerTransform(new.concentration_reciprocal), AffineTransform(0, new.scale)]
        return new

    @property
    def mean(self) -> Tensor:
        return self.scale * ops.lgamma(1 + self.concentration_reciprocal).exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return self.scale.pow(2) * (ops.lgamma(1 + 2 * inverse).exp() - (2 * ops.lgamma(1 + inverse)).exp())

    def entropy(self) -> Tensor:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(WithParameters):
    """The Pareto distribution of the first kind: ``x`` exceeds ``t`` with probability ``(scale / t) ** alpha``.

    Args:
        scale: the least value, positive.
        alpha: the exponent of the tail, positive; the mean is infinite up to 1, the variance up to 2.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one number, ``scale`` or more.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.Pareto.
    Example:
        >>> Pareto(1.0, torch.tensor([1.0, 3.0])).mean, Pareto(1.0, 3.0).cdf(torch.tensor(2.0))
        (tensor([   inf, 1.5000]), tensor(0.8750))
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    scale: Tensor
    alpha: Tensor
    mode: Tensor = same_as("scale")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        excess = self.alpha.clamp(min=1)  # infinite up to 1
        return excess * self.scale / (excess - 1)

    @property
    def variance(self) -> Tensor:
        excess = self.alpha.clamp(min=2)  # infinite up to 2
        return self.scale.pow(2) * excess / ((excess - 1).pow(2) * (excess - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class GeneralizedPareto(Parametric):
    """The generalized Pareto distribution of what lies above a threshold.

    At concentration 0 the formulas are quotients of two zeros; their first two terms stand in for them, so that gradients are right.

    Args:
        loc: the threshold, ``(*)`` or a number.
        scale: what excesses are multiplied with, positive.
        concentration: the weight of the tail; exponential at 0, bounded below 0.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of the three broadcast; an event is one number, ``loc`` or more.
    Raises:
        ValueError: ``scale`` not positive, or values checked that lie outside.
    Source: torch.distributions.GeneralizedPareto. Pickands 1975, "Statistical inference using extreme order statistics".
    Example:
        >>> tail = GeneralizedPareto(1.0, 2.0, torch.tensor([0.0, 0.25]))
        >>> tail.mean, tail.cdf(torch.tensor(3.0))
        (tensor([3.0000, 3.6667]), tensor([0.6321, 0.5904]))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor
    mode: Tensor = same_as("loc")

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None):
        self._hold(validate_args, loc=loc, scale=scale, concentration=concentration)

    def _is_exponential(self) -> Tensor:
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    def _shape(self) -> Tensor:
        """The concentration, 1 in place of 0: for branches that are not taken there."""
        return ops.where(self._is_exponential(), ops.ones_like(self.concentration), self.concentration)

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = ops.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        z, shape = self._z(value), self._shape()
        exponential = self.concentration * (0.5 * z**2 - z) - z
        return -self.scale.log() + ops.where(self._is_exponential(), exponential, -(1 + 1 / shape) * ops.log1p(shape * z))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of what lies above ``value``."""
        self._check_sample(value)
        z, shape = self._z(value), self._shape()
        return ops.where(self._is_exponential(), 0.5 * self.concentration * z**2 - z, -ops.log1p(shape * z) / shape)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of ``cdf``."""
        return ops.log1p(-self.log_survival_function(value).exp())

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        log_above, shape = ops.log1p(-value), self._shape()
        exponential = 0.5 * self.concentration * log_above**2 - log_above
        z = ops.where(self._is_exponential(), exponential, ops.expm1(-shape * log_above) / shape)
        return self.loc + self.scale * z

    @property
    def mean(self) -> Tensor:
        shape = self.concentration
        return ops.where(shape < 1, self.loc + self.scale / (1 - shape), math.inf)

    @property
    def variance(self) -> Tensor:
        shape = self.concentration
        return ops.where(shape < 0.5, self.scale**2 / ((1 - shape) ** 2 * (1 - 2 * shape)), math.inf)

    def entropy(self) -> Tensor:
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ops.where(self.concentration < 0, end, math.inf))
