"""Differentiable transforms of values, with the determinants of their Jacobians.

A transform computes ``y = t(x)``, ``x = t.inv(y)``, and ``t.log_abs_det_jacobian(x, y)``, the logarithm of how much it stretches volume
at ``x``.  ``domain`` and ``codomain`` are constraints; their ``event_dim`` is the number of dimensions of one value before and after.

Source: torch.distributions.transforms.
"""

from __future__ import annotations

import math
import numbers
import weakref
from collections.abc import Sequence
from typing import Any

from .. import linalg, ops
from ..core.shape import Size, broadcast_shape
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from . import constraints
from .utils import _sum_rightmost, broadcast_all, functional, lazy_property, same_as, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "ExpTransform", "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class Transform:
    """The base class: subclasses give ``_call``, ``_inverse``, ``log_abs_det_jacobian``, ``domain`` and ``codomain``.

    Args:
        cache_size: 1 keeps the last pair of ``x`` and ``y``, so that the inverse of what was just computed is exact and free; 0 nothing.
    Shape: the last ``domain.event_dim`` dimensions of ``x`` become the last ``codomain.event_dim`` of ``y``.
    Attributes:
        bijective: whether ``t.inv(t(x)) == x`` and ``t(t.inv(y)) == y``.
        sign: of the derivative, for transforms of single numbers that rise or fall throughout.
    Raises:
        ValueError: another ``cache_size``.
    Source: torch.distributions.Transform.
    Example:
        >>> transform = torch.distributions.ExpTransform(cache_size=1)
        >>> x = torch.tensor([0.0, 1.0])
        >>> y = transform(x)
        >>> transform.inv(y) is x, transform.log_abs_det_jacobian(x, y)
        (True, tensor([0., 1.]))
    """

    bijective: Any = False
    domain: Any
    codomain: Any
    _arguments: tuple[str, ...] = ()  # attributes that the constructor takes, besides ``cache_size``

    def __init__(self, cache_size: int = 0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None  # a weak reference to the inverse, which refers to this
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """Number of last dimensions that are one value.

        Raises:
            ValueError: ``domain`` and ``codomain`` differ in it.
        """
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse; its inverse is this."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = self._make_inverse()
            self._inv = weakref.ref(inverse)
        return inverse

    def _make_inverse(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """+1 where ``y`` rises with ``x``, -1 where it falls.

        Raises:
            NotImplementedError: a transform that does neither.
        """
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same with another ``cache_size``.

        Args:
            cache_size: 0 or 1.
        Returns: this transform where it has that size, else a new one.
        Source: torch.distributions.Transform.with_cache.
        Example:
            >>> torch.distributions.TanhTransform().with_cache()._cache_size
            1
        """
        if self._cache_size == cache_size:
            return self
        kind: Any = next(kind for kind in type(self).__mro__ if "_arguments" in vars(kind))
        if kind is not Transform:
            return kind(*[getattr(self, name) for name in kind._arguments], cache_size=cache_size)
        if type(self).__init__ is not Transform.__init__:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        before, after = self._cached_x_y
        if x is before:
            return after
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        before, after = self._cached_x_y
        if y is after:
            return before
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of ``|det dy/dx|`` for each event.

        Args:
            x: the value before.
            y: ``t(x)``.
        Returns: a tensor of the shape of ``x`` without its ``domain.event_dim`` last dimensions.
        Raises:
            NotImplementedError: a transform that is no bijection.
        Source: torch.distributions.Transform.log_abs_det_jacobian.
        Example:
            >>> scale = torch.distributions.AffineTransform(0.0, torch.tensor([2.0, 3.0]), event_dim=1)
            >>> x = torch.ones(2)
            >>> scale.log_abs_det_jacobian(x, scale(x)).exp()
            tensor(6.)
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of ``y`` from that of ``x``."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of ``x`` from that of ``y``."""
        return shape


class _InverseTransform(Transform):
    """The inverse of another transform."""

    bijective: bool = same_as("_inv.bijective")
    sign: Any = same_as("_inv.sign")

    def __init__(self, transform: Transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @constraints.dependent_property
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)


def _widened(constraint: Any, event_dim: int) -> Any:
    """A constraint of values of ``event_dim`` dimensions."""
    missing = event_dim - constraint.event_dim
    return constraints.independent(constraint, missing) if missing > 0 else constraint


class ComposeTransform(Transform):
    """One transform after the other.

    Args:
        parts: the transforms, the first one first.
        cache_size: of each part.
    Shape: each part takes the shape that the part before it gives.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.ComposeTransform.
    Example:
        >>> both = ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])
        >>> both(torch.tensor(0.0)), both.inv(torch.tensor(3.0)), both.codomain
        (tensor(3.), tensor(0.), Real())
    """

    _arguments = ("parts",)

    def __init__(self, parts: list[Transform], cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(self.parts[0].domain, event_dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, event_dim)

    @lazy_property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    def _make_inverse(self) -> Transform:
        inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
        inverse._inv = weakref.ref(self)
        return inverse

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        event_dim, total = self.domain.event_dim, None
        for part, before, after in zip(self.parts, values, values[1:]):
            term = _sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim)
            total = term if total is None else total + term
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total  # type: ignore[return-value]

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of which the last dimensions of a batch are one value: the logarithms of its determinants are added up.

    Args:
        base_transform: of one element.
        reinterpreted_batch_ndims: how many dimensions become part of a value.
        cache_size: of the base.
    Shape: as of ``base_transform``; ``event_dim`` is larger by ``reinterpreted_batch_ndims``.
    Raises:
        ValueError: a value with fewer dimensions.
    Source: torch.distributions.IndependentTransform.
    Example:
        >>> rows = IndependentTransform(ExpTransform(), 1)
        >>> x = torch.ones(2, 3)
        >>> rows.log_abs_det_jacobian(x, rows(x))
        tensor([3., 3.])
    """

    _arguments = ("base_transform", "reinterpreted_batch_ndims")
    bijective: bool = same_as("base_transform.bijective")
    sign: Any = same_as("base_transform.sign")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last dimensions in another shape.

    Args:
        in_shape: of one value before.
        out_shape: of one value after.
        cache_size: 1 keeps the last pair.
    Shape: ``(*, *in_shape)`` becomes ``(*, *out_shape)``.
    Raises:
        ValueError: they have different numbers of elements, or a value does not end in them.
    Source: torch.distributions.ReshapeTransform.
    Example:
        >>> ReshapeTransform((4,), (2, 2))(torch.arange(8.0).view(2, 4)).shape
        torch.Size([2, 2, 2])
    """

    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0):
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _replaced_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _replaced_end(shape, self.out_shape, self.in_shape)


def _replaced_end(shape: Any, old: Size, new: Size) -> Any:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return shape[:cut] + new


# -- single numbers ---------------------------------------------------------------------------------------------------------------
class _Plain(Transform):
    """A transform without arguments: all instances of its class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class _Rising(_Plain):
    """A rising function of one number."""

    bijective = True
    domain = constraints.real
    sign = +1


class ExpTransform(_Rising):
    """``exp(x)``: from all numbers to the positive ones.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: elementwise, any.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.ExpTransform.
    Example:
        >>> ExpTransform()(torch.tensor([0.0, 1.0])), ExpTransform().inv(torch.tensor(1.0))
        (tensor([1.0000, 2.7183]), tensor(0.))
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """The logistic function, kept inside of (0, 1)."""
    limits = finfo(x.dtype)
    return ops.sigmoid(x).clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(_Rising):
    """``1 / (1 + exp(-x))``, kept inside of (0, 1).

    Args:
        cache_size: 1 keeps the last pair.
    Shape: elementwise, any.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.SigmoidTransform.
    Example:
        >>> SigmoidTransform()(torch.tensor([0.0, 100.0])), SigmoidTransform().inv(torch.tensor(0.5))
        (tensor([0.5000, 1.0000]), tensor(0.))
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -functional.softplus(-x) - functional.softplus(x)


class SoftplusTransform(_Rising):
    """``log(1 + exp(x))``: from all numbers to the positive ones, about ``x`` where ``x`` is large.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: elementwise, any.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.SoftplusTransform.
    Example:
        >>> SoftplusTransform()(torch.tensor([0.0, 10.0]))
        tensor([ 0.6931, 10.0000])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return functional.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -functional.softplus(-x)


class TanhTransform(_Rising):
    """``tanh(x)``: from all numbers to those between -1 and 1.

    Args:
        cache_size: 1 keeps the last pair; the inverse of values near the ends is exact only with it.
    Shape: elementwise, any.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.TanhTransform.
    Example:
        >>> far = torch.tensor([0.0, 20.0])
        >>> rounded, exact = TanhTransform(), TanhTransform(cache_size=1)
        >>> rounded.inv(rounded(far)), exact.inv(exact(far))
        (tensor([0., inf]), tensor([ 0., 20.]))
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))  # log(1 - tanh(x)**2) without 1 - 1


class AbsTransform(_Plain):
    """``|x|``; its inverse gives the positive one of two.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: elementwise, any.
    Raises:
        NotImplementedError: ``log_abs_det_jacobian`` is called; it is no bijection.
    Source: torch.distributions.AbsTransform.
    Example:
        >>> AbsTransform()(torch.tensor([-2.0, 3.0])), AbsTransform().bijective
        (tensor([2., 3.]), False)
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """``x ** exponent`` of positive numbers.

    Args:
        exponent: a number, or a tensor that broadcasts with ``x``.
        cache_size: 1 keeps the last pair.
    Shape: that of ``x`` and ``exponent`` broadcast.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.PowerTransform.
    Example:
        >>> cube = PowerTransform(3.0)
        >>> cube(torch.tensor(2.0)), cube.inv(torch.tensor(8.0)), PowerTransform(-1.0).sign
        (tensor(8.), tensor(2.), tensor(-1.))
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _arguments = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return Size(broadcast_shape(tuple(shape), tuple(self.exponent.shape)))

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """``loc + scale * x``.

    Args:
        loc: a number, or a tensor that broadcasts with ``x``.
        scale: the same; not 0.
        event_dim: how many dimensions are one value.
        cache_size: 1 keeps the last pair.
    Shape: that of ``x``, ``loc`` and ``scale`` broadcast.
    Raises:
        ValueError: another ``cache_size`` than 0 or 1.
    Source: torch.distributions.AffineTransform.
    Example:
        >>> celsius = AffineTransform(32.0, 1.8)
        >>> celsius(torch.tensor([0.0, 100.0])), celsius.inv(torch.tensor(212.0))
        (tensor([ 32., 212.]), tensor(100.))
    """

    bijective = True
    _arguments = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    def _lines(self) -> Any:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._lines()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._lines()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _all_equal(self.loc, other.loc) and _all_equal(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        scale = self.scale
        return scale.sign() if isinstance(scale, Tensor) else (scale > 0) - (scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        stretch = ops.full_like(x, math.log(abs(scale))) if isinstance(scale, numbers.Real) else scale.abs().log()
        if not self.event_dim:
            return stretch.expand(x.shape)
        return _sum_rightmost(stretch.expand(broadcast_shape(stretch.shape, x.shape)), self.event_dim).expand(x.shape[: -self.event_dim])

    def forward_shape(self, shape: Any) -> Any:
        beside = [tuple(getattr(value, "shape", ())) for value in (self.loc, self.scale)]
        return Size(broadcast_shape(broadcast_shape(tuple(shape), beside[0]), beside[1]))

    inverse_shape = forward_shape


def _all_equal(a: Any, b: Any) -> bool:
    equal = a == b
    return equal if isinstance(equal, bool) else bool(equal.all())


# -- vectors ----------------------------------------------------------------------------------------------------------------------
def _at_least(dims: int, shape: Any) -> Any:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return shape


class SoftmaxTransform(_Plain):
    """``softmax(x)``, to the simplex; its inverse is one of many, the logarithm. Not bijective: it has no determinant.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: ``(*, n)``, before and after.
    Raises:
        NotImplementedError: ``log_abs_det_jacobian`` is called.
    Source: torch.distributions.SoftmaxTransform.
    Example:
        >>> SoftmaxTransform()(torch.tensor([0.0, 0.0])), SoftmaxTransform().inv(torch.tensor([0.5, 0.5]))
        (tensor([0.5000, 0.5000]), tensor([-0.6931, -0.6931]))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        powers = (x - x.max(-1, True)[0]).exp()
        return powers / powers.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _at_least(1, shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _at_least(1, shape)


class StickBreakingTransform(_Plain):
    """From n numbers to n + 1 shares with the sum 1: each number determines which fraction of the rest of a stick is broken off.

    ``x = 0`` gives equal shares.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: ``(*, n)`` becomes ``(*, n + 1)``.
    Raises:
        ValueError: a shape without dimensions.
    Source: torch.distributions.StickBreakingTransform; Stan reference manual, "Unit simplex".
    Example:
        >>> StickBreakingTransform()(torch.zeros(3)), StickBreakingTransform()(torch.tensor([9.0, 0.0, 0.0])).argmax()
        (tensor([0.2500, 0.2500, 0.2500, 0.2500]), tensor(0))
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _parts_left(self, x: Tensor) -> Tensor:
        """Number of shares that each break leaves behind itself: n, n - 1, ..., 1."""
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x: Tensor) -> Tensor:
        part = _clipped_sigmoid(x - self._parts_left(x).log())
        left = (1 - part).cumprod(-1)
        return functional.pad(part, [0, 1], value=1) * functional.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        left = (1 - shares.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return shares.log() - left.log() + self._parts_left(shares).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = x - self._parts_left(x).log()
        return (-shifted + functional.logsigmoid(shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return _at_least(1, shape)[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        return _at_least(1, shape)[:-1] + (shape[-1] - 1,)


# -- matrices ---------------------------------------------------------------------------------------------------------------------
class LowerCholeskyTransform(_Plain):
    """From square matrices to lower triangular ones with a positive diagonal: the exponential of the diagonal.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: ``(*, n, n)``, before and after; what is above the diagonal is dropped.
    Raises:
        NotImplementedError: ``log_abs_det_jacobian`` is called.
    Source: torch.distributions.LowerCholeskyTransform.
    Example:
        >>> LowerCholeskyTransform()(torch.tensor([[0.0, 9.0], [2.0, 0.0]]))
        tensor([[1., 0.],
                [2., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """From square matrices to positive-definite ones: the product of a Cholesky factor with its transpose.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: ``(*, n, n)``, before and after.
    Raises:
        NotImplementedError: ``log_abs_det_jacobian`` is called.
    Source: torch.distributions.PositiveDefiniteTransform.
    Example:
        >>> PositiveDefiniteTransform()(torch.tensor([[0.0, 9.0], [2.0, 0.0]]))
        tensor([[1., 2.],
                [2., 5.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From n(n - 1)/2 numbers to the Cholesky factor of an n x n matrix of correlations.

    ``tanh`` of a number is its element over the length that the elements before it leave to the row, whose length is 1.

    Args:
        cache_size: 1 keeps the last pair.
    Shape: ``(*, n * (n - 1) / 2)`` becomes ``(*, n, n)``.
    Raises:
        RuntimeError: a number of elements that no matrix has below its diagonal; ``forward_shape`` of it is a ValueError.
    Source: torch.distributions.CorrCholeskyTransform. Lewandowski, Kurowicka and Joe 2009, "Generating random correlation matrices based on
        vines and extended onion method"; Stan reference manual, "Cholesky factors of correlation matrices".
    Example:
        >>> factor = CorrCholeskyTransform()(torch.tensor([1.0, 0.0, 0.0]))
        >>> factor @ factor.T
        tensor([[1.0000, 0.7616, 0.0000],
                [0.7616, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        ratio = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - ratio * ratio).sqrt().cumprod(-1)
        diagonal = ops.eye(ratio.shape[-1], dtype=ratio.dtype, device=ratio.device)
        return (ratio + diagonal) * functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = functional.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        ratio = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (ratio.log1p() - (-ratio).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        of_tanh = -2 * (x + functional.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape: Any) -> Any:
        count = _at_least(1, shape)[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (n, n)

    def inverse_shape(self, shape: Any) -> Any:
        n = _at_least(2, shape)[-1]
        if shape[-2] != n:
            raise ValueError("Input is not square")
        return shape[:-2] + (n * (n - 1) // 2,)


# -- parts along a dimension ------------------------------------------------------------------------------------------------------
class _Several(Transform):
    """Transforms of parts of a value along one dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int):
        if not all(isinstance(transform, Transform) for transform in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(transform.bijective for transform in self.transforms)

    def _check(self, name: str, value: Tensor, size: int, expected: str) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for {name} with {value.dim()} dimensions")
        if value.shape[self.dim] != size:
            raise AssertionError(f"{name}.size({self.dim}) = {value.shape[self.dim]} must equal {expected} {size}")


class CatTransform(_Several):
    """Transforms of parts that lie one behind the other along ``dim``, as ``torch.cat`` joins them.

    Args:
        tseq: the transforms.
        dim: along which the parts lie.
        lengths: of the parts; 1 each when None.
        cache_size: of each part.
    Shape: the size along ``dim`` is the sum of ``lengths``, before and after.
    Raises:
        AssertionError: something else than transforms, another number of lengths than of transforms, or a value of another size.
    Source: torch.distributions.CatTransform.
    Example:
        >>> parts = CatTransform([ExpTransform(), AffineTransform(0.0, 2.0)], lengths=[1, 2])
        >>> parts(torch.tensor([0.0, 1.0, 2.0]))
        tensor([1., 2., 4.])
    """

    _arguments = ("transforms", "dim", "lengths")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths must have same length as transforms: {len(self.lengths)} vs {len(self.transforms)}")

    @lazy_property
    def event_dim(self) -> int:
        return max(transform.event_dim for transform in self.transforms)

    @lazy_property
    def length(self) -> int:
        return sum(self.lengths)

    def _parts(self, name: str, value: Tensor) -> Any:
        self._check(name, value, self.length, "length")
        return value.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return ops.cat([transform(part) for transform, part in zip(self.transforms, self._parts("x", x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cat([transform.inv(part) for transform, part in zip(self.transforms, self._parts("y", y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = [
            _sum_rightmost(transform.log_abs_det_jacobian(before, after), self.event_dim - transform.event_dim)
            for transform, before, after in zip(self.transforms, self._parts("x", x), self._parts("y", y))
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return ops.cat(terms, dim) if dim < 0 else sum(terms)  # type: ignore[return-value]  # where the parts are of one event

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.cat([transform.domain for transform in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.cat([transform.codomain for transform in self.transforms], self.dim, self.lengths)


class StackTransform(_Several):
    """Transforms of the slices of a value along ``dim``, as ``torch.stack`` joins them.

    Args:
        tseq: the transforms, one for each slice.
        dim: along which the slices lie.
        cache_size: of each transform.
    Shape: the size along ``dim`` is the number of transforms, before and after.
    Raises:
        AssertionError: something else than transforms, or a value of another size.
    Source: torch.distributions.StackTransform.
    Example:
        >>> rows = StackTransform([ExpTransform(), AffineTransform(0.0, 2.0)])
        >>> rows(torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
        tensor([[1., 1.],
                [2., 4.]])
    """

    _arguments = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0):
        super().__init__(tseq, dim, cache_size)

    def _slices(self, name: str, value: Tensor) -> Any:
        self._check(name, value, len(self.transforms), "len(transforms)")
        return value.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return ops.stack([transform(part) for transform, part in zip(self.transforms, self._slices("x", x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.stack([transform.inv(part) for transform, part in zip(self.transforms, self._slices("y", y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slices = zip(self.transforms, self._slices("x", x), self._slices("y", y))
        return ops.stack([transform.log_abs_det_jacobian(before, after) for transform, before, after in slices], self.dim)

    @constraints.dependent_property
    def domain(self) -> Any:
        return constraints.stack([transform.domain for transform in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        return constraints.stack([transform.codomain for transform in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution of single numbers: from its support to [0, 1].

    Args:
        distribution: with ``cdf``, ``icdf`` and ``log_prob``.
        cache_size: 1 keeps the last pair.
    Shape: elementwise, that of ``x`` and the distribution's batch broadcast.
    Raises:
        NotImplementedError: the distribution has no ``cdf``, or for the inverse no ``icdf``.
    Source: torch.distributions.CumulativeDistributionTransform.
    Example:
        >>> rank = CumulativeDistributionTransform(torch.distributions.Normal(0.0, 1.0))
        >>> rank(torch.tensor([-1.0, 0.0, 1.0])), rank.inv(torch.tensor(0.5))
        (tensor([0.1587, 0.5000, 0.8413]), tensor(0.))
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1
    _arguments = ("distribution",)

    def __init__(self, distribution: Any, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
