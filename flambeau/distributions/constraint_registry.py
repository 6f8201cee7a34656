"""Transforms from unconstrained numbers into a constraint: ``biject_to(constraint)`` and ``transform_to(constraint)``.

Both give a transform whose domain is all real numbers. ``biject_to`` gives bijections with a determinant, for sampling in
unconstrained space; ``transform_to`` may use more numbers than needed, which suits optimization (softmax for the simplex).
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], transforms.Transform]


class ConstraintRegistry:
    """Factories of transforms by the class of a constraint.

    Returns: called with a constraint, the transform from all real numbers into it.
    Raises:
        NotImplementedError: called with a constraint that no factory is registered for.
        TypeError: ``register`` of no constraint.
    Source: torch.distributions.constraint_registry.ConstraintRegistry.
    Example:
        >>> to_positive = biject_to(constraints.positive)
        >>> to_positive(torch.tensor([-1.0, 0.0]))
        tensor([0.3679, 1.0000])
    """

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Registers the transform to a class of constraints; a decorator when ``factory`` is left out.

        Args:
            constraint: a subclass of ``Constraint``, or one of its instances.
            factory: a function from an instance to a transform.
        Returns: ``factory``, or the decorator.
        Raises:
            TypeError: no constraint.
        Source: torch.distributions.constraint_registry.ConstraintRegistry.register.
        Example:
            >>> class Negative(constraints.Constraint):
            ...     pass
            >>> registry = ConstraintRegistry()
            >>> factory = registry.register(Negative, lambda constraint: transforms.AffineTransform(0.0, -1.0))
            >>> registry(Negative())(torch.tensor(2.0))
            tensor(-2.)
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        cls = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(cls, type) or not issubclass(cls, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {cls}")
        self._registry[cls] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> transforms.Transform:
        """The transform to a constraint.

        Raises:
            NotImplementedError: none is registered.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _from_bound(bound: Any, direction: int) -> transforms.Transform:
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(bound, direction)])


def _to_interval(constraint: Any) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, numbers.Number) and low == 0 and isinstance(high, numbers.Number) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _register(constraint: Any, bijection: Factory | None, transform: Factory | None = None) -> None:
    """Register factories for a class of constraints in both registries; a bijection without a transform serves for both."""
    if bijection is not None:
        biject_to.register(constraint, bijection)
    transform_to.register(constraint, transform or bijection)


def _register_nested(registry: ConstraintRegistry) -> None:
    """Constraints that are made of others."""

    @registry.register(constraints.independent)
    def independent(constraint: Any) -> transforms.Transform:
        return transforms.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    @registry.register(constraints.cat)
    def cat(constraint: Any) -> transforms.Transform:
        return transforms.CatTransform([registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def stack(constraint: Any) -> transforms.Transform:
        return transforms.StackTransform([registry(part) for part in constraint.cseq], constraint.dim)


_register(constraints.real, lambda constraint: transforms.identity_transform)
_register(constraints.greater_than, lambda constraint: _from_bound(constraint.lower_bound, 1))
_register(constraints.greater_than_eq, lambda constraint: _from_bound(constraint.lower_bound, 1))
_register(constraints.less_than, lambda constraint: _from_bound(constraint.upper_bound, -1))
_register(constraints.interval, _to_interval)
_register(constraints.half_open_interval, _to_interval)
_register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform(), lambda constraint: transforms.SoftmaxTransform())
_register(constraints.lower_cholesky, None, lambda constraint: transforms.LowerCholeskyTransform())
_register(constraints.positive_definite, None, lambda constraint: transforms.PositiveDefiniteTransform())
_register(constraints.positive_semidefinite, None, lambda constraint: transforms.PositiveDefiniteTransform())
_register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
_register_nested(biject_to)
_register_nested(transform_to)
