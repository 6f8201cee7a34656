"""Dimensions of a batch as part of one value."""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from ..core.shape import Size
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution
from .utils import _sum_rightmost, same_as

__all__ = ["Independent"]


class Independent(Distribution):
    """The last dimensions of a batch as one value, whose elements are independent: log probabilities are added up over them.

    Args:
        base_distribution: the batch.
        reinterpreted_batch_ndims: how many of its last dimensions become part of the event.
        validate_args: accepted; the base has checked its parameters.
    Shape: what ``base_distribution`` has as ``(*batch, *more)`` becomes ``batch_shape`` ``(*batch)`` and the first part of ``event_shape``.
    Raises:
        ValueError: more than the batch has.
    Source: torch.distributions.Independent.
    Example:
        >>> rows = Independent(torch.distributions.Normal(torch.zeros(2, 3), 1.0), 1)
        >>> rows.batch_shape, rows.event_shape, rows.log_prob(torch.zeros(2, 3))
        (torch.Size([2]), torch.Size([3]), tensor([-2.7568, -2.7568]))
    """

    arg_constraints: dict[str, constraints.Constraint] = {}
    __class_getitem__: Any = classmethod(GenericAlias)  # annotations name the class of the base distribution
    has_rsample: bool = same_as("base_dist.has_rsample")
    mean: Tensor = same_as("base_dist.mean")
    mode: Tensor = same_as("base_dist.mode")
    variance: Tensor = same_as("base_dist.variance")

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None):
        batch_dims = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch_dims:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch_dims}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = batch_dims - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape + self.event_shape[: self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._completed(new, batch_shape)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        support, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(support, dims) if dims else support

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
