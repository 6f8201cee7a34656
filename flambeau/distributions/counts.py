"""Distributions of counts: of successes, of failures, of events.

Probabilities and moments: Johnson, Kemp and Kotz, "Univariate discrete distributions", 2005.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..core.arrays.kinds import surely
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from . import constraints
from .distribution import Binary, Parametric
from .exp_family import ExponentialFamily
from .positive import Gamma
from .utils import broadcast_all, functional, lazy_property, logits_to_probs, probs_to_logits, same_as

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]

_CHANCES = {"probs": constraints.unit_interval, "logits": constraints.real}


class _Chances(Binary):
    """A distribution with the probability of a success, or its log odds."""

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, is_binary=True)


class Bernoulli(ExponentialFamily, _Chances):
    """1 with probability ``probs``, else 0.

    Args:
        probs: of a 1, from 0 to 1; ``(*)`` or a number.
        logits: its log odds, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``probs`` or ``logits``; an event is 0 or 1, in the parameter's dtype.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or a probability outside of 0 to 1.
    Source: torch.distributions.Bernoulli.
    Example:
        >>> Bernoulli(logits=torch.tensor([0.0, 2.0])).probs, Bernoulli(0.75).variance
        (tensor([0.5000, 0.8808]), tensor(0.1875))
    """

    arg_constraints = _CHANCES
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    mean: Tensor = same_as("probs")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._hold_chances(probs, logits, validate_args)

    @property
    def mode(self) -> Tensor:
        """NaN where both are equally likely."""
        return ops.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _listed(self, 2, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp().log1p()


def _listed(distribution: Any, count: int, expand: bool) -> Tensor:
    """The whole numbers below ``count`` along a new first dimension."""
    param = distribution._param
    values = ops.arange(count, dtype=param.dtype, device=param.device).view((-1,) + (1,) * len(distribution._batch_shape))
    return values.expand((-1, *distribution._batch_shape)) if expand else values


class Binomial(_Chances):
    """Number of successes in ``total_count`` trials.

    Args:
        total_count: trials, whole and 0 or more; broadcasts with the other.
        probs: of a success, from 0 to 1; ``(*)`` or a number.
        logits: its log odds, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of the parameters broadcast; an event is one count.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or parameters outside of their range.
        NotImplementedError: ``entropy`` and ``enumerate_support`` of a batch with different counts.
    Source: torch.distributions.Binomial.
    Example:
        >>> coins = Binomial(4, torch.tensor([0.5, 0.75]))
        >>> coins.mean, coins.log_prob(torch.tensor(2.0)).exp()
        (tensor([2., 3.]), tensor([0.3750, 0.2109]))
    """

    arg_constraints = {"total_count": constraints.nonnegative_integer, **_CHANCES}
    has_enumerate_support = True
    total_count: Tensor

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._hold_chances(probs, logits, validate_args, total_count=total_count)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        n, logits = self.total_count, self.logits
        log_choices = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        # n log(1 + exp(logits)); the mean of both halves gives the gradient 1/2 at 0
        positive_part = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        return value * logits + log_choices - n * positive_part - n * (-logits.abs()).exp().log1p()

    def _common_count(self, caller: str) -> int:
        count = int(self.total_count.max())
        if not bool(self.total_count.min() == count):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{caller}`.")
        return count

    def entropy(self) -> Tensor:
        self._common_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _listed(self, 1 + self._common_count("enumerate_support"), expand)


class Geometric(_Chances):
    """Number of failures before the first success: 0, 1, ...

    Args:
        probs: of a success, above 0 and at most 1; ``(*)`` or a number.
        logits: its log odds, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``probs`` or ``logits``; an event is one count.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or a probability of 0 or outside of 0 to 1.
    Source: torch.distributions.Geometric.
    Example:
        >>> Geometric(0.25).mean, Geometric(0.5).log_prob(torch.tensor([0.0, 1.0, 2.0])).exp()
        (tensor(3.), tensor([0.5000, 0.2500, 0.1250]))
    """

    arg_constraints = _CHANCES
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._hold_chances(probs, logits, validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            valid = value > 0
            if not surely(valid.all()):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to be positive but found invalid values:\n{value[~valid]}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failing = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 * log(0) is 0
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(_Chances):
    """Number of successes before ``total_count`` failures.

    Args:
        total_count: failures after which it ends, 0 or more, not necessarily whole.
        probs: of a success, from 0 to below 1; ``(*)`` or a number.
        logits: its log odds, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of the parameters broadcast; an event is one count.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, or parameters outside of their range.
    Source: torch.distributions.NegativeBinomial. Samples: Poisson numbers of gamma rates.
    Example:
        >>> NegativeBinomial(3.0, torch.tensor([0.25, 0.5])).mean
        tensor([1., 3.])
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._hold_chances(probs, logits, validate_args, total_count=total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / ops.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        n = self.total_count
        unnormalized = n * functional.logsigmoid(-self.logits) + value * functional.logsigmoid(self.logits)
        normalizer = -ops.lgamma(n + value) + ops.lgamma(1.0 + value) + ops.lgamma(n)
        return unnormalized - normalizer.masked_fill(n + value == 0.0, 0.0)


class Poisson(ExponentialFamily, Parametric):
    """Number of events in a unit of time, each independent of the others.

    Args:
        rate: how many on average, 0 or more; ``(*)`` or a number.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``rate``; an event is one count.
    Raises:
        ValueError: ``rate`` negative.
    Source: torch.distributions.Poisson.
    Example:
        >>> Poisson(2.0).log_prob(torch.tensor([0.0, 1.0, 2.0])).exp()
        tensor([0.1353, 0.2707, 0.2707])
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor
    mean: Tensor = same_as("rate")
    variance: Tensor = same_as("rate")

    def __init__(self, rate: Any, validate_args: bool | None = None):
        self._hold(validate_args, rate=rate)

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - ops.lgamma(value + 1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()
