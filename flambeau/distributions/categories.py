"""Distributions over a fixed number of categories: as indices, as vectors of ones and zeros, as counts, and relaxed."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..core.dtype import int64
from ..core.shape import Size, broadcast_shape
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from . import constraints
from .counts import Binomial
from .distribution import Distribution, Parametric, _only_one, declaring_class
from .transformed_distribution import FromBase
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs, functional, lazy_property, logits_to_probs, probs_to_logits, same_as

__all__ = [
    "Categorical", "ExpRelaxedCategorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "RelaxedOneHotCategorical",
]  # fmt: skip

_CATEGORIES = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Parametric):
    """An index from 0 to K - 1, drawn with a probability of its own.

    Args:
        probs: ``(*, K)``, not negative; normalized to the sum 1.
        logits: ``(*, K)``, log probabilities up to a constant, in their place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``; an event is one int64 index.
    Raises:
        ValueError: both or none of ``probs`` and ``logits``, one without a dimension, or a negative probability.
    Source: torch.distributions.Categorical.
    Example:
        >>> weather = Categorical(torch.tensor([2.0, 1.0, 1.0]))
        >>> weather.probs, weather.log_prob(torch.tensor(0)).exp(), weather.mode
        (tensor([0.5000, 0.2500, 0.2500]), tensor(0.5000), tensor(0))
    """

    arg_constraints = _CATEGORIES
    has_enumerate_support = True
    _fixed = ("_num_events",)

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        name = _only_one(probs, logits)
        given: Any = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.logits = ops.log_softmax(given, -1)
        else:
            self.probs = given / given.sum(-1, True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs" if "probs" in self.__dict__ else "logits"]

    @property
    def param_shape(self) -> Size:
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    def _without_moments(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        return self._without_moments()

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._without_moments()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        sample_shape = Size(sample_shape)
        with no_grad():
            drawn = ops.multinomial(self.probs.reshape(-1, self._num_events), sample_shape.numel(), True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        shape = Size(broadcast_shape(value.shape, self._batch_shape))
        indices = value.long().expand(shape).unsqueeze(-1)
        return self.logits.expand(shape + (self._num_events,)).gather(-1, indices).squeeze(-1)

    def entropy(self) -> Tensor:
        finite = self.logits.clamp(min=finfo(self.logits.dtype).min)  # what has no probability adds nothing
        return -(finite * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events, dtype=int64, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class _OfCategorical(Distribution):
    """A distribution whose parameters are those of the ``Categorical`` that it holds."""

    arg_constraints = _CATEGORIES
    _categorical: Categorical
    _fixed: tuple[str, ...] = ()
    _param: Tensor = same_as("_categorical._param")
    probs: Tensor = same_as("_categorical.probs")
    logits: Tensor = same_as("_categorical.logits")
    param_shape: Size = same_as("_categorical.param_shape")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(declaring_class(self), _instance)
        batch_shape = Size(batch_shape)
        for name in self._fixed:
            setattr(new, name, getattr(self, name))
        new._categorical = self._categorical.expand(batch_shape)
        return self._completed(new, batch_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)


class OneHotCategorical(_OfCategorical):
    """A vector with a single 1, the rest zeros.

    Args:
        probs: ``(*, K)``, not negative; normalized to the sum 1.
        logits: ``(*, K)``, log probabilities up to a constant, in their place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(K,)``.
    Raises:
        ValueError: as of ``Categorical``; a value that is not one-hot.
    Source: torch.distributions.OneHotCategorical.
    Example:
        >>> choice = OneHotCategorical(torch.tensor([0.2, 0.3, 0.5]))
        >>> choice.mode, choice.log_prob(torch.tensor([1.0, 0.0, 0.0])).exp()
        (tensor([0., 0., 1.]), tensor(0.2000))
    """

    support = constraints.one_hot
    has_enumerate_support = True
    mean: Tensor = same_as("_categorical.probs")

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return functional.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        indices = self._categorical.sample(Size(sample_shape))
        return functional.one_hot(indices, self._categorical._num_events).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = ops.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of the probabilities.

    Args:
        probs, logits, validate_args: as of ``OneHotCategorical``.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(K,)``.
    Raises:
        ValueError: as of ``OneHotCategorical``.
    Source: torch.distributions.OneHotCategoricalStraightThrough. Bengio, Leonard and Courville 2013, "Estimating or propagating gradients
        through stochastic neurons for conditional computation".
    Example:
        >>> probs = torch.tensor([0.0, 1.0], requires_grad=True)
        >>> sample = OneHotCategoricalStraightThrough(probs).rsample()
        >>> sample[1].backward()
        >>> sample, probs.grad
        (tensor([0., 1.], grad_fn=<AddBackward0>), tensor([-1.,  0.]))
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfCategorical):
    """Number of times that each category comes in ``total_count`` draws.

    Args:
        total_count: draws, one int for the whole batch.
        probs: ``(*, K)``, not negative; normalized to the sum 1.
        logits: ``(*, K)``, log probabilities up to a constant, in their place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(K,)``.
    Raises:
        NotImplementedError: ``total_count`` not an int.
        ValueError: both or none of ``probs`` and ``logits``, or values that are no counts.
    Source: torch.distributions.Multinomial.
    Example:
        >>> Multinomial(6, torch.tensor([0.5, 0.25, 0.25])).mean
        tensor([3.0000, 1.5000, 1.5000])
    """

    total_count: int
    _fixed = ("total_count",)

    def __init__(self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new._binomial = self._binomial.expand(Size(batch_shape) + self.event_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        draws = self._categorical.sample(Size((self.total_count, *sample_shape))).movedim(0, -1)
        counts = draws.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, draws, ops.ones_like(draws)).type_as(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)  # 0 * log(0) is 0
        return ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        # The entropy of the ordered draws, less that of the order given the counts: E[log n! - sum log x!].
        n = ops.tensor(self.total_count)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        log_orders = (self._binomial.log_prob(counts).exp() * ops.lgamma(counts + 1)).sum([0, -1])
        return n * self._categorical.entropy() - ops.lgamma(n + 1) + log_orders


class ExpRelaxedCategorical(_OfCategorical):
    """The logarithm of a relaxed one-hot vector.

    Args:
        temperature: positive; towards 0 the vector becomes one-hot.
        probs: ``(*, K)``, as of ``Categorical``.
        logits: ``(*, K)``, in their place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(K,)``.
    Raises:
        ValueError: as of ``Categorical``.
    Source: torch.distributions.relaxed_categorical.ExpRelaxedCategorical. Maddison, Mnih and Teh 2017, "The concrete distribution",
        appendix C.3.
    Example:
        >>> ExpRelaxedCategorical(0.5, torch.ones(3)).rsample().exp().sum().round(decimals=4)
        tensor(1.)
    """

    support = constraints.real_vector  # a constraint of the logarithms' sum aside
    has_rsample = True
    _fixed = ("temperature",)

    def __init__(self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = clamp_probs(ops.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        k = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        temperature = ops.as_tensor(self.temperature)
        score = logits - value * temperature
        return (score - score.logsumexp(-1, True)).sum(-1) + math.lgamma(k) + (k - 1) * temperature.log()


class RelaxedOneHotCategorical(FromBase):
    """A point of the simplex that stands for a one-hot vector, and is differentiable in the probabilities.

    Args:
        temperature: positive; towards 0 the point becomes a corner.
        probs: ``(*, K)``, as of ``Categorical``.
        logits: ``(*, K)``, in their place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(K,)``.
    Raises:
        ValueError: as of ``Categorical``.
    Source: torch.distributions.RelaxedOneHotCategorical. Maddison, Mnih and Teh 2017; Jang, Gu and Poole 2017, "Categorical
        reparameterization with Gumbel-softmax".
    Example:
        >>> point = RelaxedOneHotCategorical(0.5, logits=torch.zeros(2, 3, requires_grad=True)).rsample()
        >>> point.shape, point.requires_grad, bool((point.sum(-1) - 1).abs().max() < 1e-6)
        (torch.Size([2, 3]), True, True)
    """

    arg_constraints = _CATEGORIES
    support = constraints.simplex
    has_rsample = True
    _of_base = ("temperature", "logits", "probs")

    def __init__(self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
