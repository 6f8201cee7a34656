"""Sets of values: those that a distribution's parameters may take, and those where its density is not zero.

``constraint.check(value)`` returns for each element, or for each event, whether the value lies inside. ``event_dim`` is the number of
last dimensions that make one value. ``is_discrete`` is whether the set is countable.

Source: torch.distributions.constraints.
Example:
    >>> positive.check(torch.tensor([-1.0, 2.0])), simplex.check(torch.tensor([0.5, 0.5]))
    (tensor([False,  True]), tensor(True))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import linalg, ops
from ..core.dtype import bool_
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from .utils import same_as

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer",
    "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values.

    Shape: ``check`` drops the last ``event_dim`` dimensions.
    Attributes:
        is_discrete: whether it is countable.
        event_dim: how many of the last dimensions are one value.
    Source: torch.distributions.constraints.Constraint.
    Example:
        >>> class Even(Constraint):
        ...     is_discrete = True
        ...     def check(self, value):
        ...         return value % 2 == 0
        >>> Even().check(torch.arange(3))
        tensor([ True, False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0
    _arguments: tuple[str, ...] = ()  # attributes in the order in which ``repr`` shows them

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies inside: a bool tensor of ``value``'s shape without its last ``event_dim`` dimensions.

        Args:
            value: ``(*, *event)``.
        Returns: a bool tensor of shape ``(*)``.
        Raises:
            NotImplementedError: a subclass without it.
            ValueError: a constraint that depends on an instance.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.__class__.__name__[1:]}({', '.join(f'{name}={getattr(self, name)}' for name in self._arguments)})"


class _Dependent(Constraint):
    """A set that depends on the instance of a distribution, or on other parameters."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    def _stated(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    @property
    def is_discrete(self) -> bool:
        return self._stated("is_discrete")

    @property
    def event_dim(self) -> int:
        return self._stated("event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same, with what is known of it without an instance."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is known of an instance only.

    Args:
        constraint: anything.
    Returns: a bool.
    Source: torch.distributions.constraints.is_dependent.
    Example:
        >>> is_dependent(torch.distributions.Uniform.support), is_dependent(torch.distributions.Uniform(0.0, 1.0).support)
        (True, False)
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of an instance that gives a constraint; of the class, a dependent constraint.

    Args:
        fn: the method that gives the constraint.
        is_discrete: the class's value of the attribute; when left out, reading it from the class raises.
        event_dim: likewise.
    Raises:
        NotImplementedError: ``is_discrete`` or ``event_dim`` of the class, where not given.
    Source: torch.distributions.constraints.dependent_property.
    Example:
        >>> class Dice(torch.distributions.Distribution):
        ...     @dependent_property(is_discrete=True, event_dim=0)
        ...     def support(self):
        ...         return integer_interval(1, 6)
        >>> Dice.support.is_discrete, Dice(validate_args=False).support
        (True, IntegerInterval(lower_bound=1, upper_bound=6))
    """

    def __init__(self, fn: Callable[[Any], Any] | None = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A set of which the last dimensions of a batch must lie inside together.

    Args:
        base_constraint: of one element.
        reinterpreted_batch_ndims: how many dimensions become part of one value.
    Raises:
        AssertionError: arguments of other types.
        ValueError: ``check`` of a value with too few dimensions.
    Source: torch.distributions.constraints.independent.
    Example:
        >>> independent(positive, 1).check(torch.tensor([[1.0, 2.0], [1.0, -2.0]]))
        tensor([ True, False])
    """

    is_discrete: bool = same_as("base_constraint.is_discrete")

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        if not isinstance(reinterpreted_batch_ndims, int):
            raise AssertionError(f"reinterpreted_batch_ndims must be an int, got {type(reinterpreted_batch_ndims).__name__}")
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        batch_dims = inside.dim() - self.reinterpreted_batch_ndims
        if batch_dims < 0:
            needed = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {needed} but got {value.dim()}")
        return inside.reshape(inside.shape[:batch_dims] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that lie inside for every component of a mixture.

    Args:
        base_constraint: of the components, which stand along the last dimension of the batch.
    Shape: ``check`` drops the last ``event_dim`` dimensions.
    Raises:
        AssertionError: no constraint.
    Source: torch.distributions.constraints.MixtureSameFamilyConstraint.
    Example:
        >>> MixtureSameFamilyConstraint(greater_than(torch.tensor([0.0, 1.0]))).check(torch.tensor([0.5, 2.0]))
        tensor([False,  True])
    """

    is_discrete: bool = same_as("base_constraint.is_discrete")
    event_dim: int = same_as("base_constraint.event_dim")

    def __init__(self, base_constraint: Constraint):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return inside.reshape(inside.shape[: value.dim() - self.event_dim] + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


# -- numbers ----------------------------------------------------------------------------------------------------------------------
class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # all but NaN


class _Bounded(Constraint):
    """A range of numbers; the arguments are its bounds."""

    def __init__(self, *bounds: Any, **named: Any):
        values = dict(zip(self._arguments, bounds), **named)
        if len(bounds) > len(self._arguments) or sorted(values) != sorted(self._arguments):
            raise TypeError(f"{type(self).__name__}() takes {', '.join(self._arguments)}, got {list(bounds)} and {named}")
        vars(self).update(values)
        super().__init__()


class _LowerBounded(_Bounded):
    _arguments = ("lower_bound",)
    lower_bound: Any


class _UpperBounded(_Bounded):
    _arguments = ("upper_bound",)
    upper_bound: Any


class _BothBounded(_Bounded):
    _arguments = ("lower_bound", "upper_bound")
    lower_bound: Any
    upper_bound: Any


class _GreaterThan(_LowerBounded):
    """Numbers above ``lower_bound``, a number or a tensor.

    Args:
        lower_bound: the bound, itself outside.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.greater_than.
    Example:
        >>> greater_than(1.0).check(torch.tensor([1.0, 2.0]))
        tensor([False,  True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_LowerBounded):
    """Numbers from ``lower_bound`` on.

    Args:
        lower_bound: the bound, itself inside.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.greater_than_eq.
    Example:
        >>> greater_than_eq(1.0).check(torch.tensor([1.0, 2.0]))
        tensor([True, True])
    """

    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_UpperBounded):
    """Numbers below ``upper_bound``.

    Args:
        upper_bound: the bound, itself outside.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.less_than.
    Example:
        >>> less_than(2.0).check(torch.tensor([1.0, 2.0]))
        tensor([ True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_BothBounded):
    """Numbers from ``lower_bound`` to ``upper_bound``, both included.

    Args:
        lower_bound, upper_bound: the bounds, themselves inside.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.interval.
    Example:
        >>> interval(0.0, 1.0).check(torch.tensor([0.0, 1.0, 2.0]))
        tensor([ True,  True, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_BothBounded):
    """Numbers from ``lower_bound`` to below ``upper_bound``.

    Args:
        lower_bound, upper_bound: the bounds, of which only the lower one is inside.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.half_open_interval.
    Example:
        >>> half_open_interval(0.0, 1.0).check(torch.tensor([0.0, 1.0, 2.0]))
        tensor([ True, False, False])
    """

    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


def _whole(value: Tensor, inside: Tensor) -> Tensor:
    """Mask of the values inside that are whole numbers."""
    return inside & (ops.remainder(value, 1) == 0) if value.is_floating_point() else inside


class _IntegerInterval(_BothBounded):
    """Whole numbers from ``lower_bound`` to ``upper_bound``, both included.

    Args:
        lower_bound, upper_bound: the bounds, themselves inside.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.integer_interval.
    Example:
        >>> integer_interval(0, 2).check(torch.tensor([0.0, 1.5, 2.0]))
        tensor([ True, False,  True])
    """

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _whole(value, (self.lower_bound <= value) & (value <= self.upper_bound))


class _IntegerLessThan(_UpperBounded):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _whole(value, value <= self.upper_bound)


class _IntegerGreaterThan(_LowerBounded):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _whole(value, value >= self.lower_bound)


# -- vectors ----------------------------------------------------------------------------------------------------------------------
class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_UpperBounded):
    """Vectors of counts whose sum is at most ``upper_bound``.

    Args:
        upper_bound: the greatest sum.
    Raises:
        TypeError: another number of bounds.
    Source: torch.distributions.constraints.multinomial.
    Example:
        >>> multinomial(3).check(torch.tensor([[1, 2], [2, 2]]))
        tensor([ True, False])
    """

    is_discrete = True
    event_dim = 1
    _arguments = ("upper_bound",)

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)

    def __repr__(self) -> str:
        return "Multinomial()"


# -- matrices ---------------------------------------------------------------------------------------------------------------------
def _all_elements(inside: Tensor) -> Tensor:
    """Whether all elements of matrices are True."""
    return inside.reshape(inside.shape[:-2] + (-1,)).all(-1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_elements(value.tril() == value)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Factors of matrices of correlations: rows of length 1."""

    def check(self, value: Tensor) -> Tensor:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        return ((value.square().sum(-1).sqrt() - 1).abs() <= tolerance).all(-1) & super().check(value)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return ops.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=bool_, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        return _all_elements(ops.isclose(value, value.mT, atol=1e-6)) if bool(square.all()) else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return (linalg.eigvalsh(value) >= 0).all(-1) if bool(symmetric.all()) else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return linalg.cholesky_ex(value).info == 0 if bool(symmetric.all()) else symmetric


# -- several at once --------------------------------------------------------------------------------------------------------------
class _Several(Constraint):
    """Constraints that hold for parts of a value along one dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int):
        if not all(isinstance(constraint, Constraint) for constraint in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(constraint.is_discrete for constraint in self.cseq)

    def _checked_dim(self, value: Tensor) -> int:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {value.dim()} dimensions")
        return self.dim


class _Cat(_Several):
    """Constraints of parts that lie one behind the other along ``dim``, as ``torch.cat`` joins them.

    Args:
        cseq: the constraints.
        dim: along which the parts lie.
        lengths: of the parts; 1 each when None.
    Raises:
        AssertionError: something else than constraints, or another number of lengths.
    Source: torch.distributions.constraints.cat.
    Example:
        >>> cat([positive, real], lengths=[1, 2]).check(torch.tensor([-1.0, -1.0, -1.0]))
        tensor([False,  True,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths must have same length as cseq: {len(self.lengths)} vs {len(self.cseq)}")

    @property
    def event_dim(self) -> int:
        return max(constraint.event_dim for constraint in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self._checked_dim(value))
        return ops.cat([constraint.check(part) for constraint, part in zip(self.cseq, parts)], self.dim)


class _Stack(_Several):
    """Constraints of the slices of a value along ``dim``, as ``torch.stack`` joins them.

    Args:
        cseq: the constraints, one for each slice.
        dim: along which the slices lie.
    Raises:
        AssertionError: something else than constraints.
    Source: torch.distributions.constraints.stack.
    Example:
        >>> stack([positive, real]).check(torch.tensor([[-1.0, 1.0], [-1.0, 1.0]]))
        tensor([[False,  True],
                [ True,  True]])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0):
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        dim = max(constraint.event_dim for constraint in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        slices = value.unbind(self._checked_dim(value))
        return ops.stack([constraint.check(part) for constraint, part in zip(self.cseq, slices)], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
