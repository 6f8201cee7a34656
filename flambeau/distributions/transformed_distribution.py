"""Distributions of what transforms make of a random value."""

from __future__ import annotations

from typing import Any

from ..autograd import no_grad
from ..core.shape import Size
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, declaring_class
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost, same_as

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``y = transforms(x)`` for ``x`` drawn from ``base_distribution``.

    The density follows by the change of variables: ``log p(y) = log p(x) - log |det dy/dx|``.

    Args:
        base_distribution: of ``x``.
        transforms: one, or a list of them, the first one first.
        validate_args: whether values are checked.
    Shape: the event has the dimensions of the last transform's ``codomain`` at least; those come off the batch.
    Raises:
        ValueError: no transforms, or fewer dimensions than they need.
    Source: torch.distributions.TransformedDistribution.
    Example:
        >>> log_normal = TransformedDistribution(torch.distributions.Normal(0.0, 1.0), torch.distributions.ExpTransform())
        >>> log_normal.cdf(torch.tensor(1.0)), log_normal.support
        (tensor(0.5000), GreaterThan(lower_bound=0.0))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    has_rsample: bool = same_as("base_dist.has_rsample")

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None):
        self.transforms: list[Transform] = _as_list(transforms)
        composed = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < composed.domain.event_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {composed.domain.event_dim}, but got {base_shape}.")
        shape = composed.forward_shape(base_shape)
        needed = composed.inverse_shape(shape)
        if base_shape != needed:
            base_distribution = base_distribution.expand(needed[: len(needed) - len(base_distribution.event_shape)])
        wider = composed.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, wider) if wider > 0 else base_distribution
        # What the transforms do not touch of the base's event stays part of the event.
        cut = len(shape) - (composed.codomain.event_dim + max(-wider, 0))
        super().__init__(Size(shape[:cut]), Size(shape[cut:]), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch_shape = Size(batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        return self._completed(new, batch_shape)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        event_dim = len(self.event_shape)
        log_stretch: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            log_stretch = log_stretch + _sum_rightmost(transform.log_abs_det_jacobian(x, value), event_dim - transform.domain.event_dim)
            value = x
        return _sum_rightmost(self.base_dist.log_prob(value), event_dim - len(self.base_dist.event_shape)) - log_stretch

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """``value``, or ``1 - value`` where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._monotonize_cdf(value)))


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(transform, Transform) for transform in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms


class FromBase(TransformedDistribution):
    """A transformed distribution whose parameters are those of its base: the attributes in ``_of_base``."""

    _of_base: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        for name in cls.__dict__.get("_of_base", ()):
            setattr(cls, name, _property_of_base(name))

    def _parameters_in(self) -> Distribution:
        base = self.base_dist
        return base.base_dist if isinstance(base, Independent) else base

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(declaring_class(self), _instance))


def _property_of_base(name: str) -> property:
    return property(lambda self: getattr(self._parameters_in(), name))


class WithParameters(TransformedDistribution):
    """A transformed distribution with parameters of its own, which ``arg_constraints`` names."""

    _beside: tuple[str, ...] = ()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(declaring_class(self), _instance)
        for name in (*self.arg_constraints, *self._beside):
            setattr(new, name, getattr(self, name).expand(batch_shape))
        return super().expand(batch_shape, _instance=new)
