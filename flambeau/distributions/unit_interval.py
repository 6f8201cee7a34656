"""Distributions of numbers from 0 to 1."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from .. import ops
from ..core.arrays.kinds import surely
from ..core.shape import Size
from ..core.tensor import Tensor
from . import constraints
from .counts import _CHANCES, _Chances
from .exp_family import ExponentialFamily
from .location_scale import Uniform
from .transformed_distribution import FromBase, WithParameters
from .transforms import AffineTransform, PowerTransform, SigmoidTransform
from .utils import broadcast_all, clamp_probs, euler_constant, functional, lazy_property, logits_to_probs
from .vectors import Dirichlet

__all__ = ["Beta", "ContinuousBernoulli", "Kumaraswamy", "LogitRelaxedBernoulli", "RelaxedBernoulli"]


class Beta(ExponentialFamily):
    """The beta distribution of a share: density proportional to ``x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1)``.

    Args:
        concentration1: called alpha, positive; ``(*)`` or a number.
        concentration0: called beta, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one number from 0 to 1.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.Beta. Gradients of samples: Figurnov et al. 2018, "Implicit reparameterization gradients".
    Example:
        >>> beta = Beta(torch.tensor([1.0, 8.0]), 2.0)
        >>> beta.mean, beta.log_prob(torch.tensor(0.5)).exp()
        (tensor([0.3333, 0.8000]), tensor([1.0000, 0.2812]))
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self._dirichlet = Dirichlet(ops.stack(broadcast_all(concentration1, concentration0), -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        batch_shape = Size(batch_shape)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return self._completed(new, batch_shape)

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return self._dirichlet.log_prob(ops.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)


class Kumaraswamy(WithParameters):
    """Kumaraswamy's distribution: like the beta distribution, with a distribution function in closed form.

    Args:
        concentration1: called a, positive; ``(*)`` or a number.
        concentration0: called b, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of both broadcast; an event is one number from 0 to 1.
    Raises:
        ValueError: a parameter that is not positive.
    Source: torch.distributions.Kumaraswamy. Jones 2009, "Kumaraswamy's distribution: a beta-type distribution with some tractability
        advantages".
    Example:
        >>> Kumaraswamy(2.0, 3.0).cdf(torch.tensor(0.5)), 1 - (1 - 0.5**2) ** 3
        (tensor(0.5781), 0.578125)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = a, b = broadcast_all(concentration1, concentration0)
        base = Uniform(ops.zeros_like(b), ops.ones_like(b), validate_args=validate_args)
        # (1 - u**(1/b))**(1/a)
        transforms = [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())]
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        ratio = 1 + order / a
        return (b.log() + ops.lgamma(ratio) + ops.lgamma(b) - ops.lgamma(ratio + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """NaN where the density is highest at both ends, or everywhere."""
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * ((a - 1).log() - (a * b - 1).log())
        return ops.where((a < 1) | (b < 1), math.nan, log_mode.exp())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = ops.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class ContinuousBernoulli(ExponentialFamily, _Chances):
    """The density ``C(p) p**x (1 - p)**(1 - x)`` on [0, 1].

    Around ``p = 1/2`` the closed forms are quotients of two zeros; between the limits their series stand in for them.

    Args:
        probs: p, from 0 to 1; not the mean, unless 0.5.
        logits: the log odds of p, in its place.
        lims: between which ``p`` the series are used.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``probs`` or ``logits``; an event is one number from 0 to 1.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or a value outside of 0 to 1 where values are checked.
    Source: torch.distributions.ContinuousBernoulli. Loaiza-Ganem and Cunningham 2019, "The continuous Bernoulli: fixing a pervasive error
        in variational autoencoders".
    Example:
        >>> pixel = ContinuousBernoulli(torch.tensor([0.5, 0.9]))
        >>> pixel.mean, pixel.log_prob(torch.tensor(1.0))
        (tensor([0.5000, 0.6699]), tensor([0.0000, 0.9050]))
    """

    arg_constraints = _CHANCES
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _fixed = ("_lims",)

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None
    ):
        self._lims = lims
        if probs is not None and logits is None:
            (probs,) = broadcast_all(probs)
            if validate_args is not None and not surely(constraints.unit_interval.check(probs).all()):
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(probs)
        elif isinstance(logits, Number):
            (logits,) = broadcast_all(logits)
        self._hold_chances(probs, logits, validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The probabilities, with the lower limit in place of what lies between the limits."""
        return ops.where(self._outside_unstable_region(), self.probs, self._lims[0] * ops.ones_like(self.probs))

    def _cont_bern_log_norm(self) -> Tensor:
        """``log C(p)``."""
        cut = self._cut_probs()
        # 2 artanh(1 - 2p) / (1 - 2p), with both signs made positive
        below = ops.where(cut <= 0.5, cut, ops.zeros_like(cut))
        above = ops.where(cut >= 0.5, cut, ops.ones_like(cut))
        difference = ops.where(cut <= 0.5, ops.log1p(-2.0 * below), ops.log(2.0 * above - 1.0))
        exact = ops.log(ops.abs((-cut).log1p() - cut.log())) - difference
        square = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        return ops.where(self._outside_unstable_region(), exact, series)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return ops.where(self._outside_unstable_region(), exact, series)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).pow(2) + 1.0 / ((-cut).log1p() - cut.log()).pow(2)
        square = (self.probs - 0.5).pow(2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square
        return ops.where(self._outside_unstable_region(), exact, series)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross_entropy = functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - cross_entropy

    def cdf(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        cut = self._cut_probs()
        exact = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inner = ops.where(self._outside_unstable_region(), exact, value)
        return ops.where(value <= 0, ops.zeros_like(value), ops.where(value >= 1, ops.ones_like(value), inner))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut_probs()
        exact = ((-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return ops.where(self._outside_unstable_region(), exact, value)

    def entropy(self) -> Tensor:
        log_rest, log_probs = (-self.probs).log1p(), self.probs.log()
        return self.mean * (log_rest - log_probs) - self._cont_bern_log_norm() - log_rest

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        """``log((exp(x) - 1) / x)``, its series around 0."""
        low, high = self._lims
        outside = (x <= low - 0.5) | (x > high - 0.5)
        cut = ops.where(outside, x, (low - 0.5) * ops.ones_like(x))
        exact = ops.log(ops.abs(cut.expm1())) - ops.log(ops.abs(cut))
        series = 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0
        return ops.where(outside, exact, series)


class LogitRelaxedBernoulli(_Chances):
    """The log odds of a relaxed Bernoulli number.

    Args:
        temperature: positive; towards 0 it becomes a Bernoulli number.
        probs: of a one, ``(*)`` or a number.
        logits: its log odds, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``probs`` or ``logits``; an event is one number.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or a probability outside of 0 to 1.
    Source: torch.distributions.relaxed_bernoulli.LogitRelaxedBernoulli. Maddison, Mnih and Teh 2017, "The concrete distribution".
    Example:
        >>> logit = LogitRelaxedBernoulli(0.5, probs=torch.tensor([0.5, 0.9]))
        >>> logit.log_prob(torch.tensor(0.0))
        tensor([-2.0794, -3.1011])
    """

    arg_constraints = _CHANCES
    support = constraints.real
    has_rsample = True
    _fixed = ("temperature",)

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.temperature = temperature
        self._hold_chances(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(ops.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return ops.log(ops.as_tensor(self.temperature)) + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(FromBase):
    """A number in (0, 1) that stands for a Bernoulli one, and is differentiable in its probability.

    Args:
        temperature: positive; towards 0 it becomes a Bernoulli number.
        probs: of a one, ``(*)`` or a number.
        logits: its log odds, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``probs`` or ``logits``; an event is one number from 0 to 1.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or a probability outside of 0 to 1.
    Source: torch.distributions.RelaxedBernoulli. Maddison, Mnih and Teh 2017; Jang, Gu and Poole 2017, "Categorical reparameterization
        with Gumbel-softmax".
    Example:
        >>> logits = torch.zeros(3, requires_grad=True)
        >>> RelaxedBernoulli(0.1, logits=logits).rsample().sum().backward()
        >>> logits.grad > 0
        tensor([True, True, True])
    """

    arg_constraints = _CHANCES
    support = constraints.unit_interval
    has_rsample = True
    _of_base = ("temperature", "logits", "probs")

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)
