"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..autograd import no_grad
from ..core.shape import Size
from ..core.tensor import Tensor
from . import constraints
from .categories import Categorical
from .distribution import Distribution
from .utils import same_as

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """One of several components, drawn by a categorical distribution.

    Args:
        mixture_distribution: a ``Categorical`` over the ``k`` components.
        component_distribution: the components, along the last dimension of its batch.
        validate_args: whether values are checked.
    Shape: the components have ``batch_shape`` ``(*, k)``, the mixture ``(*)``.
    Raises:
        ValueError: something else, or shapes that do not fit.
    Source: torch.distributions.MixtureSameFamily.
    Example:
        >>> normal = torch.distributions.Normal(torch.tensor([-1.0, 1.0]), 0.5)
        >>> mixture = MixtureSameFamily(torch.distributions.Categorical(torch.tensor([0.25, 0.75])), normal)
        >>> mixture.mean, mixture.variance
        (tensor(0.5000), tensor(1.))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample = False
    mixture_distribution: Categorical = same_as("_mixture_distribution")
    component_distribution: Distribution = same_as("_component_distribution")

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None):
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixtures, components = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(i != j and 1 not in (i, j) for i, j in zip(reversed(mixtures), reversed(components))):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixtures}) is not compatible with `component_distribution.batch_shape`({components})"
            )
        count, counted = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if count != counted:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` ({counted})"
            )
        self._num_component = count
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(components, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._completed(new, batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _weights(self) -> Tensor:
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    def _over_components(self, value: Tensor) -> Tensor:
        """The sum of what each component has, weighted by its probability."""
        return (self._weights() * value).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._over_components(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        distance = self.component_distribution.mean - self._pad(self.mean)
        return self._over_components(self.component_distribution.variance) + self._over_components(distance**2)

    def cdf(self, value: Tensor) -> Tensor:
        return (self.component_distribution.cdf(self._pad(value)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        log_weights = ops.log_softmax(self.mixture_distribution.logits, -1)
        return (self.component_distribution.log_prob(self._pad(value)) + log_weights).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            chosen = chosen.expand(values.shape[:dim] + (1,) + self.event_shape)
            return ops.gather(values, dim, chosen).squeeze(dim)

    def _pad(self, value: Tensor) -> Tensor:
        """``value`` with a dimension for the components."""
        return value.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, value: Tensor) -> Tensor:
        """``value`` with dimensions of size 1 for the event, as the components have."""
        return value.reshape(value.shape + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
