"""Reductions and normalisations that look at the elements a mask shows, and at no others.

A mask is a tensor that broadcasts to the input's shape; True shows an element, None shows all. What is hidden is replaced by what
changes nothing, the operation's identity, which is also the result where all is hidden.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core import dtype as dtypes
from ..core.dtype import dtype as Dtype
from ..core.layout import strided
from ..core.shape import wrap_dims
from ..core.tensor import Tensor
from ..ops import resolve
from ..ops.inspection import iinfo
from ..ops.linalg.norms import vector_norm
from ..ops.masks import where

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median", "norm", "normalize",
    "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

_Dims = int | Sequence[int] | None
_SMALL = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.bool_)


# -- masks and identities ---------------------------------------------------------------------------------------------------------------
def _mask_for(input: Tensor, mask: Tensor) -> Tensor:
    """The mask as bools of ``input``'s shape.

    Raises:
        IndexError: it has more dimensions.
    """
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return mask.bool().expand(input.shape)


def _hidden_as(value: Any, input: Tensor, mask: Tensor | None) -> Tensor:
    """``input`` with ``value`` where the mask hides."""
    return input if mask is None else where(_mask_for(input, mask), input, input.new_full((), value))


def _limit(name: str, dtype: Dtype, is_least: bool) -> Any:
    """The least or the greatest number of a dtype.

    Raises:
        NotImplementedError: bools and complex numbers have none.
    """
    if dtype.is_floating_point or (dtype.is_complex and name == "logsumexp"):
        return -math.inf if is_least else math.inf
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    return iinfo(dtype).min if is_least else iinfo(dtype).max


def _dims_of(input: Tensor, dim: _Dims) -> tuple[int, ...]:
    return wrap_dims(dim, input.ndim)


def _floating_dtype(name: str, input: Tensor, dtype: Dtype | None) -> Dtype:
    dtype = input.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {dtype}"
        )
    return dtype


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    """Number of elements that each result is made of, int64."""
    shown = input.new_ones(input.shape, dtype=dtypes.bool_) if mask is None else _mask_for(input, mask)
    return shown.sum(dims, keepdim=keepdim) if input.ndim else shown.long()


def _of_masked_tensors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` that takes a ``MaskedTensor`` too: its data, and its mask where ``mask`` does not hide more."""

    @functools.wraps(function)
    def of_any(input: Any, *args: Any, mask: Tensor | None = None, **options: Any) -> Tensor:
        own = getattr(input, "_masked_mask", None)
        if own is not None:
            if own.layout is not strided:
                name = function.__name__
                raise NotImplementedError(f"masked.{name}: a MaskedTensor of layout {own.layout} is not supported; use to_dense()")
            input, mask = input.get_data(), own if mask is None else own & mask
        return function(input, *args, mask=mask, **options)

    return of_any


# -- reductions -------------------------------------------------------------------------------------------------------------------------
@_of_masked_tensors
def sum(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Sum of the elements that ``mask`` shows; 0 where there are none.

    Args:
        input: any dtype; small integers and bools are added as int64.
        dim: dimensions; all when None.
        keepdim: keep them with size 1.
        dtype: of the result.
        mask: bool, broadcasts to ``input``'s shape; True shows an element, None shows all.
    Returns: ``input``'s shape without ``dim``.
    Raises:
        IndexError: ``dim`` out of range, or a mask of more dimensions.
    Source: torch.masked.sum.
    Example:
        >>> torch.masked.sum(torch.tensor([[1, 2], [3, 4]]), 1, mask=torch.tensor([[True, False], [True, True]]))
        tensor([1, 7])
    """
    wide = (dtypes.int64 if input.dtype in _SMALL else input.dtype) if dtype is None else dtype
    return resolve("torch", "sum")(_hidden_as(0, input.to(wide), mask), _dims_of(input, dim), bool(keepdim))


@_of_masked_tensors
def prod(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Product of the elements that ``mask`` shows; 1 where there are none.

    Args:
        input, dim, keepdim, dtype, mask: as for ``sum``.
    Returns: ``input``'s shape without ``dim``.
    Source: torch.masked.prod.
    Example:
        >>> torch.masked.prod(torch.tensor([2.0, 0.0, 3.0]), mask=torch.tensor([True, False, True]))
        tensor(6.)
    """
    wide = (dtypes.int64 if input.dtype in _SMALL else input.dtype) if dtype is None else dtype
    result = _hidden_as(1, input.to(wide), mask)
    for place in sorted(_dims_of(input, dim), reverse=True):
        result = result.prod(place, keepdim=bool(keepdim))
    return result


def _extremum(name: str, is_greatest: bool) -> Callable[..., Tensor]:
    @_of_masked_tensors
    def extremum(
        input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Dtype | None = None, mask: Tensor | None = None
    ) -> Tensor:
        wide = input if dtype is None else input.to(dtype)
        shown = wide if mask is None else _hidden_as(_limit(name, wide.dtype, is_greatest), wide, mask)
        return resolve("torch", name)(shown, _dims_of(input, dim), bool(keepdim))

    word = "Greatest" if is_greatest else "Least"
    extremum.__name__ = extremum.__qualname__ = name
    extremum.__doc__ = (
        f"{word} of the elements that ``mask`` shows; where there are none, the {'least' if is_greatest else 'greatest'} number of the "
        "dtype.\n\n    Args:\n        input, dim, keepdim, dtype, mask: as for ``sum``.\n    Returns: ``input``'s shape without ``dim``.\n"
        f"    Raises:\n        NotImplementedError: bools with a mask.\n    Source: torch.masked.{name}.\n    Example:\n"
        f"        >>> torch.masked.{name}(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))\n"
        f"        tensor({3 if is_greatest else 1}.)\n    "
    )
    return extremum


amax, amin = _extremum("amax", True), _extremum("amin", False)


def _place_of_extremum(name: str, is_greatest: bool) -> Callable[..., Tensor]:
    @_of_masked_tensors
    def place(
        input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Dtype | None = None, mask: Tensor | None = None
    ) -> Tensor:
        dtype = input.dtype if dtype is None else dtype
        shown = input if mask is None else _hidden_as(_limit(name, input.dtype, is_greatest), input, mask)
        return resolve("torch", name)(shown, dim, bool(keepdim)).to(dtype)

    place.__name__ = place.__qualname__ = name
    place.__doc__ = (
        f"Position of the {'greatest' if is_greatest else 'least'} of the elements that ``mask`` shows, in ``input``'s dtype or ``dtype``; "
        "0 where there are none.\n\n    Args:\n        input, keepdim, dtype, mask: as for ``sum``.\n"
        "        dim: one dimension; all when None.\n"
        f"    Returns: ``input``'s shape without ``dim``.\n    Source: torch.masked.{name}.\n    Example:\n"
        f"        >>> torch.masked.{name}(torch.tensor([1.0, 9.0, 3.0]), 0, mask=torch.tensor([True, False, True]))\n"
        f"        tensor({2 if is_greatest else 0}.)\n    "
    )
    return place


argmax, argmin = _place_of_extremum("argmax", True), _place_of_extremum("argmin", False)


@_of_masked_tensors
def mean(
    input: Tensor, dim: _Dims = None, *, keepdim: bool | None = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Mean of the elements that ``mask`` shows; NaN where there are none.

    Args:
        input, dim, keepdim, dtype, mask: as for ``sum``.
    Returns: ``input``'s shape without ``dim``.
    Raises:
        ValueError: integers without ``dtype``.
    Source: torch.masked.mean.
    Example:
        >>> torch.masked.mean(torch.tensor([1.0, 100.0, 3.0]), mask=torch.tensor([True, False, True]))
        tensor(2.)
    """
    dtype = _floating_dtype("mean", input, dtype)
    dims = _dims_of(input, dim)
    return sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask) / _count(input, dims, bool(keepdim), mask)


@_of_masked_tensors
def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The lower median of the elements that ``mask`` shows, NaN where there are none.

    Args:
        input: at least one dimension.
        dim: one dimension.
        keepdim, dtype, mask: as for ``sum``.
    Returns: ``input``'s shape without ``dim``.
    Raises:
        ValueError: rows of integers of which nothing is shown.
    Source: torch.masked.median.
    Example:
        >>> torch.masked.median(torch.tensor([5.0, 1.0, 3.0]), 0, mask=torch.tensor([True, False, True]))
        tensor(3.)
    """
    dtype = input.dtype if dtype is None else dtype
    if dtype.is_floating_point:
        return _hidden_as(math.nan, input.to(dtype), mask).nanmedian(dim, keepdim).values
    if mask is not None and not bool(_mask_for(input, mask).any(dim).all()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return _hidden_as(math.nan, input.to(dtypes.float64), mask).nanmedian(dim, keepdim).values.to(dtype)


@_of_masked_tensors
def logsumexp(input: Tensor, dim: _Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of the sum of the exponentials that ``mask`` shows; minus infinity where there are none.

    Args:
        input: any shape; the others as for ``sum``: dim, keepdim, dtype, mask.
    Returns: ``input``'s shape without ``dim``.
    Source: torch.masked.logsumexp.
    Example:
        >>> torch.masked.logsumexp(torch.tensor([0.0, 0.0, 9.0]), 0, mask=torch.tensor([True, True, False]))
        tensor(0.6931)
    """
    wide = input if dtype is None else input.to(dtype)
    shown = wide if mask is None else _hidden_as(_limit("logsumexp", wide.dtype, True), wide, mask)
    return resolve("torch", "logsumexp")(shown, _dims_of(input, dim), bool(keepdim)).to(wide.dtype)


@_of_masked_tensors
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: _Dims = None,
    *,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Norm of the elements that ``mask`` shows; 0, or infinity for a negative order, where there are none.

    Args:
        input, dim, keepdim, dtype, mask: as for ``sum``.
        ord: order of the norm; infinite ones take the largest or the least absolute value.
    Returns: ``input``'s shape without ``dim``.
    Raises:
        ValueError: integers without ``dtype``.
    Source: torch.masked.norm.
    Example:
        >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False, True]))
        tensor(5.)
    """
    dtype = _floating_dtype("norm", input, dtype)
    order = 2.0 if ord is None else float(ord)
    return vector_norm(_hidden_as(math.inf if order < 0 else 0, input.to(dtype), mask), order, _dims_of(input, dim), bool(keepdim))


@_of_masked_tensors
def var(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance of the elements that ``mask`` shows; NaN where there are too few.

    Args:
        input, dim, keepdim, dtype, mask: as for ``sum``; integers count as the default float dtype.
        unbiased: divide by one less than the number of elements.
        correction: by how many less instead; 1 when neither is given.
    Returns: ``input``'s shape without ``dim``.
    Raises:
        RuntimeError: both ``unbiased`` and ``correction``.
    Source: torch.masked.var.
    Example:
        >>> torch.masked.var(torch.tensor([1.0, 50.0, 3.0]), mask=torch.tensor([True, False, True]))
        tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of correction and unbiased may be given")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    if dtype is None:
        dtype = input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else dtypes.get_default_dtype()
    dims, wide = _dims_of(input, dim), input.to(dtype)
    count = _count(input, dims, True, mask)
    distances = _hidden_as(0, wide - sum(wide, dims, keepdim=True, mask=mask) / count, mask)
    squares = distances * distances.conj()
    divisors = count - correction
    result = (sum(squares, dims, keepdim=True) / divisors.clamp(min=0)).to(squares.dtype)
    return result if keepdim or not input.ndim else result.squeeze(dims)


@_of_masked_tensors
def std(
    input: Tensor,
    dim: _Dims = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation of the elements that ``mask`` shows: the root of ``var``.

    Args:
        input, dim, unbiased, correction, keepdim, dtype, mask: as for ``var``.
    Returns: ``input``'s shape without ``dim``.
    Source: torch.masked.std.
    Example:
        >>> torch.masked.std(torch.tensor([1.0, 50.0, 3.0]), unbiased=False, mask=torch.tensor([True, False, True]))
        tensor(1.)
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


# -- along one dimension ----------------------------------------------------------------------------------------------------------------
@_of_masked_tensors
def softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Softmax over the elements that ``mask`` shows; hidden ones are 0, or NaN where all are hidden.

    Args:
        input: floating point, at least one dimension.
        dim: the dimension along which the results add up to 1.
        dtype, mask: as for ``sum``.
    Returns: ``input``'s shape.
    Source: torch.masked.softmax.
    Example:
        >>> torch.masked.softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
        tensor([0.5000, 0.0000, 0.5000])
    """
    wide = input if dtype is None else input.to(dtype)
    return _hidden_as(-math.inf, wide, mask).softmax(dim)


@_of_masked_tensors
def log_softmax(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Logarithm of ``softmax``; hidden elements are minus infinity.

    Args:
        input, dim, dtype, mask: as for ``softmax``.
    Returns: ``input``'s shape.
    Source: torch.masked.log_softmax.
    Example:
        >>> torch.masked.log_softmax(torch.tensor([1.0, 9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
        tensor([-0.6931,    -inf, -0.6931])
    """
    wide = input if dtype is None else input.to(dtype)
    return _hidden_as(-math.inf, wide, mask).log_softmax(dim)


@_of_masked_tensors
def softmin(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """``softmax`` of ``-input``.

    Args:
        input, dim, dtype, mask: as for ``softmax``.
    Returns: ``input``'s shape.
    Source: torch.masked.softmin.
    Example:
        >>> torch.masked.softmin(torch.tensor([1.0, -9.0, 1.0]), 0, mask=torch.tensor([True, False, True]))
        tensor([0.5000, 0.0000, 0.5000])
    """
    return softmax(-(input if dtype is None else input.to(dtype)), dim, mask=mask)


@_of_masked_tensors
def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The elements that ``mask`` shows over their norm along ``dim``, which counts as ``eps`` at least; hidden ones are 0.

    Args:
        input: floating point.
        ord: order of the norm.
        dim: one dimension.
        eps: least divisor.
        dtype, mask: as for ``sum``.
    Returns: ``input``'s shape.
    Source: torch.masked.normalize.
    Example:
        >>> torch.masked.normalize(torch.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=torch.tensor([True, False, True]))
        tensor([0.6000, 0.0000, 0.8000])
    """
    dtype = input.dtype if dtype is None else dtype
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _hidden_as(0, input.to(dtype), mask) / length.clamp(min=eps)


@_of_masked_tensors
def cumsum(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums of the elements that ``mask`` shows.

    Args:
        input: at least one dimension.
        dim: one dimension.
        dtype, mask: as for ``sum``.
    Returns: ``input``'s shape; hidden elements repeat the sum before them.
    Source: torch.masked.cumsum.
    Example:
        >>> torch.masked.cumsum(torch.tensor([1.0, 9.0, 2.0]), 0, mask=torch.tensor([True, False, True]))
        tensor([1., 1., 3.])
    """
    return _hidden_as(0, input if dtype is None else input.to(dtype), mask).cumsum(dim, dtype=dtype or input.dtype)


@_of_masked_tensors
def cumprod(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products of the elements that ``mask`` shows.

    Args:
        input: at least one dimension.
        dim: one dimension.
        dtype, mask: as for ``sum``.
    Returns: ``input``'s shape; hidden elements repeat the product before them.
    Source: torch.masked.cumprod.
    Example:
        >>> torch.masked.cumprod(torch.tensor([2.0, 9.0, 3.0]), 0, mask=torch.tensor([True, False, True]))
        tensor([2., 2., 6.])
    """
    return _hidden_as(1, input if dtype is None else input.to(dtype), mask).cumprod(dim, dtype=dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Dtype | None = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None
) -> Tensor:
    """``log(exp(input) + exp(other))``, to which hidden elements add nothing.

    Args:
        input, other: of shapes that broadcast.
        dtype: of the result.
        input_mask, other_mask: of each; None shows all.
    Returns: the broadcast shape.
    Source: torch.masked.logaddexp.
    Example:
        >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), other_mask=torch.tensor([True, False]))
        tensor([0.6931, 0.0000])
    """
    dtype = input.dtype if dtype is None else dtype
    return _hidden_as(-math.inf, input.to(dtype), input_mask).logaddexp(_hidden_as(-math.inf, other.to(dtype), other_mask))
