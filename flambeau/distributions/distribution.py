"""The base class of distributions, and of those that are known by their parameters alone."""

from __future__ import annotations

import warnings
from typing import Any

from ..autograd import no_grad
from ..core.arrays.kinds import surely
from ..core.shape import Size
from ..core.tensor import Tensor
from . import constraints
from .utils import broadcast_all, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution, or a batch of them.

    A sample has the shape ``sample_shape + batch_shape + event_shape``: number of draws, members of the batch, and one value.
    ``log_prob`` gives one number for each event.

    Args:
        batch_shape: the shape of the parameters.
        event_shape: the shape of one value; ``()`` for single numbers.
        validate_args: whether parameters and values are checked; the class's default when None.
    Shape: samples have ``(*sample_shape, *batch_shape, *event_shape)``, log probabilities ``(*sample_shape, *batch_shape)``.
    Attributes:
        has_rsample: whether samples are differentiable in the parameters.
        has_enumerate_support: whether all values can be listed.
    Raises:
        ValueError: a parameter outside of its constraint.
    Source: torch.distributions.Distribution.
    Example:
        >>> batch = torch.distributions.Dirichlet(torch.ones(2, 3))
        >>> batch.batch_shape, batch.event_shape, batch.sample((5,)).shape
        (torch.Size([2]), torch.Size([3]), torch.Size([5, 2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _batch_shape: Size
    _event_shape: Size

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of ``validate_args`` for all distributions; it is True at first, and False where Python runs with ``-O``.

        Args:
            value: True to check, False to trust.
        Raises:
            ValueError: neither True nor False.
        Source: torch.distributions.Distribution.set_default_validate_args.
        """
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the distribution "
                "with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # follows from the others
            value = getattr(self, name)
            if not surely(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__qualname__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its parameters expanded to ``batch_shape``, without copying or checking them again.

        Args:
            batch_shape: the new shape of the parameters; the old one must broadcast to it.
            _instance: the new distribution to fill in, for subclasses with an ``expand`` of their own.
        Returns: a distribution of the same class; its parameters are views.
        Raises:
            RuntimeError: the shapes do not broadcast.
            NotImplementedError: a subclass with an ``__init__`` of its own and no ``expand``.
        Source: torch.distributions.Distribution.expand.
        Example:
            >>> torch.distributions.Normal(0.0, torch.ones(3)).expand((2, 3)).batch_shape
            torch.Size([2, 3])
        """
        raise NotImplementedError

    @property
    def batch_shape(self) -> Size:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """By name, the set that each parameter lies in."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The set of values."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of the highest density."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn without a gradient, of shape ``sample_shape + batch_shape + event_shape``.

        Args:
            sample_shape: how often to draw, in each dimension.
        Returns: a tensor of shape ``(*sample_shape, *batch_shape, *event_shape)``.
        Source: torch.distributions.Distribution.sample.
        Example:
            >>> torch.distributions.Bernoulli(torch.tensor([0.0, 1.0])).sample((2,))
            tensor([[0., 1.],
                    [0., 1.]])
        """
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn so that gradients reach the parameters, where ``has_rsample``.

        Args:
            sample_shape: how often to draw, in each dimension.
        Returns: a tensor of shape ``(*sample_shape, *batch_shape, *event_shape)``.
        Raises:
            NotImplementedError: the distribution has no such samples.
        Source: torch.distributions.Distribution.rsample.
        Example:
            >>> loc = torch.zeros(3, requires_grad=True)
            >>> torch.distributions.Normal(loc, 1.0).rsample((4,)).sum().backward()
            >>> loc.grad
            tensor([4., 4., 4.])
        """
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``; superseded."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of ``value``.

        Args:
            value: one or more values; its shape broadcasts with ``(*batch_shape, *event_shape)``.
        Returns: one number for each value, in nats.
        Raises:
            ValueError: a shape that does not fit, or a value outside of ``support``, where values are checked.
        Source: torch.distributions.Distribution.log_prob.
        Example:
            >>> torch.distributions.Bernoulli(0.25).log_prob(torch.tensor([0.0, 1.0])).exp()
            tensor([0.7500, 0.2500])
        """
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of all values up to ``value``.

        Args:
            value: numbers of a shape that broadcasts with ``batch_shape``.
        Returns: probabilities, one for each number.
        Raises:
            NotImplementedError: a distribution whose function is not known in closed form.
            ValueError: a value outside of ``support``, where values are checked.
        Source: torch.distributions.Distribution.cdf.
        Example:
            >>> torch.distributions.Uniform(0.0, 4.0).cdf(torch.tensor([1.0, 3.0]))
            tensor([0.2500, 0.7500])
        """
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which the values have probability ``value``.

        Args:
            value: probabilities, from 0 to 1.
        Returns: numbers; ``cdf`` undoes it.
        Raises:
            NotImplementedError: a distribution whose quantiles are not known in closed form.
        Source: torch.distributions.Distribution.icdf.
        Example:
            >>> torch.distributions.Uniform(0.0, 4.0).icdf(torch.tensor([0.25, 0.75]))
            tensor([1., 3.])
        """
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a new first dimension: the n-th value for every distribution of the batch.

        Args:
            expand: to the shape of the batch; else its dimensions have size 1.
        Returns: a tensor of shape ``(values, *batch_shape, *event_shape)``.
        Raises:
            NotImplementedError: the values cannot be listed.
        Source: torch.distributions.Distribution.enumerate_support.
        Example:
            >>> torch.distributions.Bernoulli(torch.tensor([0.1, 0.9])).enumerate_support()
            tensor([[0., 0.],
                    [1., 1.]])
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats.

        Returns: a tensor of shape ``batch_shape``.
        Raises:
            NotImplementedError: no closed form is known.
        Source: torch.distributions.Distribution.entropy.
        Example:
            >>> torch.distributions.Bernoulli(torch.tensor([0.5, 0.9])).entropy()
            tensor([0.6931, 0.3251])
        """
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy: how many equally likely values would be as uncertain.

        Returns: a tensor of shape ``batch_shape``.
        Source: torch.distributions.Distribution.perplexity.
        Example:
            >>> torch.distributions.Categorical(torch.ones(6)).perplexity().round(decimals=3)
            tensor(6.)
        """
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        """The shape of ``sample(sample_shape)``."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _check_sample(self, value: Tensor) -> None:
        """``_validate_sample``, unless the distribution was made with ``validate_args=False``."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Tensor) -> None:
        """Check that ``value`` is a tensor whose last dimensions fit the distribution's, inside of the support.

        Raises:
            ValueError: it is not.
        """
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, expected = value.shape, (*self._batch_shape, *self._event_shape)
        event_shape = shape[len(shape) - len(self._event_shape) :]
        if event_shape != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}.")
        if any(i != j and 1 not in (i, j) for i, j in zip(reversed(shape), reversed(expected))):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {Size(expected)}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=2,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not surely(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__qualname__} of shape {tuple(shape)}) to be within the support ({support!r}) "
                f"of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An instance for ``expand`` to fill in; of a subclass, only where ``cls.__init__`` is also its own."""
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _completed(self, new: Any, batch_shape: Size) -> Any:
        """``new``, which ``expand`` has filled in, as a distribution of that batch; nothing is checked again."""
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        values = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in values.items())
        return f"{self.__class__.__name__}({', '.join(shown)})"


class Parametric(Distribution):
    """A distribution that is known by the tensors that ``arg_constraints`` names, and by the attributes in ``_fixed``.

    The dimensions of an event in a parameter are those of its constraint, the others are the batch; so ``expand`` is the same for all.
    """

    _fixed: tuple[str, ...] = ()  # attributes that are the same for the whole batch

    def _hold(self, validate_args: bool | None, **parameters: Any) -> None:
        """Keep parameters, broadcast against each other, of which each element belongs to one distribution."""
        for name, value in zip(parameters, broadcast_all(*parameters.values())):
            setattr(self, name, value)
        Distribution.__init__(self, value.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(declaring_class(self), _instance)
        batch_shape = Size(batch_shape)
        for name in self._fixed:
            setattr(new, name, getattr(self, name))
        for name, constraint in self.arg_constraints.items():
            if name in self.__dict__:
                setattr(new, name, _expanded(self.__dict__[name], batch_shape, constraint.event_dim))
        return self._completed(new, batch_shape)


def declaring_class(distribution: Distribution) -> type:
    """The class of this package that a distribution, perhaps of a program's subclass, is one of."""
    return next(cls for cls in type(distribution).__mro__ if cls.__module__.startswith(f"{__package__}."))


def _expanded(value: Tensor, batch_shape: Size, event_dim: int) -> Tensor:
    """A parameter with its dimensions before the last ``event_dim`` expanded."""
    return value.expand(batch_shape + value.shape[value.dim() - event_dim :])


class Binary(Parametric):
    """A distribution of the probability of an event, given as ``probs`` or as ``logits``, the log odds; the other one is made late."""

    probs: Any
    logits: Any

    def _hold_chances(self, probs: Any, logits: Any, validate_args: bool | None, **parameters: Any) -> None:
        """Keep one of ``probs`` and ``logits``, broadcast against what else there is."""
        given = _only_one(probs, logits)
        *values, chances = broadcast_all(*parameters.values(), probs if logits is None else logits)
        vars(self).update({name: value.type_as(chances) for name, value in zip(parameters, values)}, **{given: chances})
        Distribution.__init__(self, chances.shape, validate_args=validate_args)

    @property
    def _param(self) -> Tensor:
        return next(value for name, value in self.__dict__.items() if name in ("probs", "logits"))

    @property
    def param_shape(self) -> Size:
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)


def _only_one(probs: Any, logits: Any) -> str:
    """Name of the argument that was given.

    Raises:
        ValueError: both or none.
    """
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"
