"""Sums, means, products, variances and truth over dimensions.  Extrema, norms and running totals have files of their own."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import native
from ..core.arrays.kinds import perhaps
from ..core.calls.annotations import Tensor
from ..core.calls.casting import cast_array
from ..core.calls.out import Out
from ..core.calls.registry import Declare, composite, documented, op, resolve
from ..core.calls.scalars import FLOATS32, FLOATS64
from ..core.layout import row_major
from ..core.shape import reduced_shape, wrap_dims
from ..core.state import ignoring_fp
from .joining import cat
from .small import LIMIT, ONES32, flat_product, small_sum  # noqa: F401  # all but the last: for ``_SMALL_SUM``

_F8, _F4, _I8 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int64)


# -- what reductions share ----------------------------------------------------------------------------------------------------
def array_dims(dim: Any, array: np.ndarray) -> tuple[int, ...]:
    """The dimensions to reduce, wrapped; none for a 0-d array, whatever ``dim`` is."""
    dims = wrap_dims(dim, array.ndim)
    return dims if array.ndim else ()


def normal_dims(input: Any, dim: Any, *rest: Any) -> tuple[Any, ...]:
    """``canonicalize`` of reductions: checks ``dim`` and makes it a tuple."""
    return (input, array_dims(dim, input._array), *rest)


_over_dims = {"promotion": "same", "opmath": "native", "canonicalize": normal_dims, "batch": "along all"}


def listed_dims(input: Any, dim: Any, *rest: Any) -> tuple[Any, ...]:
    """``canonicalize`` of reductions for which no dimensions means none, and only None means all."""
    dims = wrap_dims(dim, input._array.ndim, empty_is_all=False)
    return (input, dims if input._array.ndim else (), *rest)


def kept(grad: Any, dim: Any, keepdim: bool, ndim: int) -> Any:
    """A reduced tensor with its reduced dimensions back, as size 1."""
    if keepdim or ndim == 0:
        return grad
    for axis in sorted(wrap_dims(dim, ndim)):
        grad = grad.unsqueeze(axis)
    return grad


def spread(grad: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """The gradient of a sum: ``grad`` at every place that was summed."""
    if grad._array.shape == shape:
        return grad
    if dim is None or dim == () or (grad._array.ndim == 0 and not keepdim):
        return grad.expand(shape)
    return kept(grad, dim, keepdim, len(shape)).expand(shape)


def count_of(shape: tuple[int, ...], dim: Any) -> int:
    """Number of elements that one result of a reduction is made of."""
    return math.prod([shape[d] for d in wrap_dims(dim, len(shape))]) if shape else 1


_BLOCK = 32
_FEW = 1 << 14  # elements: of more the sums along outer dimensions are added up in blocks


def add_reduce(array: np.ndarray, dims: tuple[int, ...], keepdim: bool, dtype: np.dtype) -> np.ndarray:
    """Sum over ``dims`` in ``dtype``, row-major.

    NumPy adds pairwise along the innermost dimension in memory and one by one along others, where the error grows with the number
    of terms; long outer dimensions are therefore summed in blocks, and the blocks' sums again (Higham 2002, section 4.2).
    """
    shape = reduced_shape(array.shape, dims, keepdim)
    if len(dims) == array.ndim and array.flags.c_contiguous:
        array, dims, keepdim = array.reshape(-1), (0,), False
    elif dims and array.size > _FEW and dtype.kind in "fc":
        inner = min(range(array.ndim), key=lambda d: array.strides[d] if array.shape[d] > 1 else 1 << 62)
        outer = [d for d in dims if d != inner and array.shape[d] >= 4 * _BLOCK]
        if outer:
            return _add_in_blocks(array, dims, outer[0], dtype).reshape(shape)
    out = np.empty(shape, dtype)
    np.add.reduce(array, axis=dims, dtype=dtype, keepdims=keepdim, out=out.reshape(reduced_shape(array.shape, dims, keepdim)))
    return out


def _add_in_blocks(array: np.ndarray, dims: tuple[int, ...], dim: int, dtype: np.dtype) -> np.ndarray:
    n = array.shape[dim]
    whole = n // _BLOCK * _BLOCK
    head, tail = np.split(array, [whole], dim)
    blocked = head.reshape(*array.shape[:dim], whole // _BLOCK, _BLOCK, *array.shape[dim + 1 :])
    partial = row_major(np.add.reduce(blocked, axis=dim + 1, dtype=dtype))
    if whole < n:
        partial = np.concatenate((partial, np.add.reduce(tail, axis=dim, dtype=dtype, keepdims=True)), dim)
    if partial.shape[dim] >= 2 * _BLOCK:
        return _add_in_blocks(partial, dims, dim, dtype)
    return add_reduce(partial, dims, True, dtype)


def _cast_input(input: np.ndarray, dtype: Any) -> np.ndarray:
    return input if dtype is None else cast_array(input, dtype)


def _sum_dtype(array: np.ndarray) -> np.dtype:
    return _I8 if array.dtype.kind in "biu" else array.dtype


# -- sum, mean ------------------------------------------------------------------------------------------------------------------
def lies_as_pytorchs(a: np.ndarray, result: np.ndarray) -> bool:
    """Whether NumPy's reduction of ``a`` to two or more dimensions has PyTorch's strides; where there are sizes of 1 it need not."""
    return result.flags.c_contiguous and (1 not in result.shape or bool(a.size and a.flags.c_contiguous))


def _fast_sum(a: np.ndarray, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None:
        return None
    if not keepdim and (dim is None or dim.__class__ is int):
        result = ignoring_fp(small_sum, a, dim)
        if result is not None:
            return result
    if dim is None:
        return None if keepdim else ignoring_fp(np.add.reduce, a, None)
    if a.size > _FEW:
        return None
    if dim.__class__ is not int:
        dim = tuple(dim)
        if not dim:
            return None
    if keepdim and not a.flags.c_contiguous:
        return None
    result = ignoring_fp(np.add.reduce, a, dim, None, None, keepdim)
    return result if result.ndim < 2 or lies_as_pytorchs(a, result) else None


_SMALL_SUM = (
    "flat_product(a, ONES32[n]) if dim is None and dtype is None and not keepdim and d is F32 and (n := a.size) <= LIMIT "
    "else _fast_sum(a, dim, keepdim, dtype) if a.size < THRESHOLD else large(a, dim, keepdim, dtype)"
)


@op(
    **_over_dims,
    fast=_SMALL_SUM,
    out=Out(dtype="dtype"),
    grad={"input": lambda grad, input_shape, dim, keepdim: spread(grad, input_shape, dim, keepdim)},
    autocast={"cuda": "result"},
    forward="linear",
    aten="sum sum.dim_IntList",
)
def sum_(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum of ``input``, over all of it or over ``dim``.

    Args:
        input: any shape and dtype.
        dim: dimension or dimensions to reduce; all when None or empty.
        keepdim: keep each reduced dimension with size 1.
        dtype: cast to it first; integers and bools become int64 when None.
    Returns:
        ``input``'s shape without ``dim``. 0 where nothing is summed.
    Raises:
        IndexError: ``dim`` out of range.
        RuntimeError: a dimension twice.
    Gradient: ``grad`` at every place that was summed.
    Source: torch.sum. Pairwise summation: Higham 2002, section 4.2.
    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> x.sum(), x.sum(dim=0), x.sum(1, keepdim=True).shape
        (tensor(10), tensor([4, 6]), torch.Size([2, 1]))
    """
    return sum_array(input, dim, keepdim, dtype)


def sum_array(array: np.ndarray, dims: tuple[int, ...], keepdim: bool, dtype: Any = None) -> np.ndarray:
    """Kernel of ``sum``: opmath are added in float32, integers in int64."""
    array = _cast_input(array, dtype)
    wanted = array.dtype if dtype is not None else _sum_dtype(array)
    if wanted.kind == "b":
        return np.logical_or.reduce(array, axis=dims, keepdims=keepdim)
    total = add_reduce(array, dims, keepdim, _F4 if wanted.itemsize < 4 and wanted.kind in "fV" else wanted)
    return total if total.dtype == wanted else total.astype(wanted)


@op(
    **_over_dims,
    grad={"input": lambda grad, input, dim, keepdim: spread(grad, tuple(input.shape), dim, keepdim) * input.isnan().logical_not()},
)
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum that counts NaN as 0.

    Args:
        input: any shape; not complex.
        dim, keepdim, dtype: as for ``torch.sum``.
    Returns:
        ``input``'s shape without ``dim``. 0 where all are NaN.
    Raises:
        RuntimeError: complex input.
        IndexError: ``dim`` out of range.
    Gradient: ``grad`` at every place that was summed and is no NaN.
    Source: torch.nansum.
    Example:
        >>> torch.nansum(torch.tensor([1.0, torch.nan, 3.0]))
        tensor(4.)
    """
    if input.dtype.kind == "c":
        raise RuntimeError("nansum does not support complex inputs")
    if input.dtype.kind in "fV":
        input = np.where(np.isnan(input), np.zeros((), input.dtype), input)
    return sum_array(input, dim, keepdim, dtype)


def _require_floating(operation: str, array: np.ndarray, dtype: Any) -> None:
    kind = dtypes.of_array(array) if dtype is None else dtype
    if kind.category < dtypes.FLOATING:
        reason = f"Input dtype must be either a floating point or complex dtype. Got: {kind.legacy}"
        if dtype is None:
            raise RuntimeError(f"{operation}(): could not infer output dtype. {reason}")
        raise RuntimeError(f"{operation}(): could not infer output dtype. {reason.replace('Input', 'Optional', 1)}")


def _fast_mean(a: np.ndarray, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None:
        return None
    if not keepdim and (dim is None or dim.__class__ is int):
        result = ignoring_fp(small_sum, a, dim)
        if result is not None:
            return ignoring_fp(
                np.divide, result, (FLOATS32 if a.dtype is _F4 else FLOATS64)[float(a.size if dim is None else a.shape[dim])]
            )
    if a.dtype.kind != "f" or (a.size > _FEW and dim is not None):
        return None
    if dim is None:
        return None if keepdim else ignoring_fp(np.divide, ignoring_fp(np.add.reduce, a, None), a.dtype.type(a.size))
    if dim.__class__ is not int:
        dim = tuple(dim)
        if not dim:
            return None
    if keepdim and not a.flags.c_contiguous:
        return None  # NumPy gives sizes of 1 other strides then
    result = ignoring_fp(np.add.reduce, a, dim, None, None, keepdim)
    count = a.shape[dim] if dim.__class__ is int else count_of(a.shape, dim)
    result = ignoring_fp(np.divide, result, a.dtype.type(count))
    return result if result.ndim < 2 or lies_as_pytorchs(a, result) else None


def _mean_gradient(grad: Any, input_shape: Any, dim: Any, keepdim: bool) -> Any:
    count = count_of(input_shape, dim)
    return spread(grad / count, input_shape, dim, keepdim) if count else spread(grad, input_shape, dim, keepdim)


@op(**_over_dims, fast=_fast_mean, fp_safe=True, grad={"input": _mean_gradient}, forward="linear")
def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean of ``input``, over all of it or over ``dim``: the sum divided by the number of elements.

    Args:
        input: any shape, floating point or complex.
        dim: dimension or dimensions to reduce; all when None or empty.
        keepdim: keep each reduced dimension with size 1.
        dtype: cast to it first.
    Returns:
        ``input``'s shape without ``dim``. NaN where there is nothing.
    Raises:
        RuntimeError: integer input without ``dtype``.
        IndexError: ``dim`` out of range.
    Gradient: ``grad / n`` spread over ``dim``.
    Source: torch.mean. Pairwise summation: Higham 2002, section 4.2.
    Example:
        >>> torch.tensor([[1.0, 2.0], [3.0, 6.0]]).mean(dim=1)
        tensor([1.5000, 4.5000])
        >>> torch.tensor([1, 2]).mean(dtype=torch.float64)
        tensor(1.5000, dtype=torch.float64)
    """
    _require_floating("mean", input, dtype)
    input = _cast_input(input, dtype)
    wide = _F4 if input.dtype.kind in "fV" and input.dtype.itemsize < 4 else input.dtype
    total = add_reduce(input, dim, keepdim, wide)
    total /= total.dtype.type(count_of(input.shape, dim))
    return total if wide == input.dtype else total.astype(input.dtype)


@composite(out=True)
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean of the elements that are no NaN.

    Args:
        input: any shape, floating point or complex.
        dim, keepdim, dtype: as for ``torch.mean``.
    Returns:
        ``input``'s shape without ``dim``. NaN where all are NaN.
    Raises:
        RuntimeError: integer input.
        IndexError: ``dim`` out of range.
    Source: torch.nanmean.
    Example:
        >>> torch.nanmean(torch.tensor([[1.0, torch.nan], [3.0, torch.nan]]), dim=0)
        tensor([2., nan])
    """
    if input.dtype.category < dtypes.FLOATING:
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.legacy}")
    counted = sum_(input.isnan().logical_not(), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / counted


# -- prod -----------------------------------------------------------------------------------------------------------------------
def products_of_others(values: Any, dim: int) -> Any:
    """For every element along ``dim``, the product of all others: products from the left times products from the right."""
    n = values.shape[dim]
    one = values.new_ones([1 if d == dim else size for d, size in enumerate(values.shape)])
    left = cat([one, values.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    right = cat([one, values.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return left * right


def cast_operand(input: Any, dtype: Any) -> Any:
    """A saved operand as the kernel saw it: cast to ``dtype`` first where one was given."""
    if dtype is None or input.dtype is dtype:
        return input
    return (input.real if input.is_complex() and not dtype.is_complex else input).to(dtype)


def _prod_gradient(grad: Any, input: Any, result: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    input = cast_operand(input, dtype)
    if not input.ndim:
        return grad
    if not input.numel():
        return input.new_zeros(input.shape)
    if dim is None:
        if perhaps((input == 0).any()):
            flat = input.reshape(-1)
            return (grad * products_of_others(flat, 0).conj()).reshape(input.shape)
        return grad * (result / input).conj()
    grad, result = kept(grad, dim, keepdim, input.ndim), kept(result, dim, keepdim, input.ndim)
    if perhaps((input == 0).any()):
        return grad * products_of_others(input, wrap_dims(dim, input.ndim)[0]).conj()
    return grad * (result / input).conj()


def _fast_prod(a: np.ndarray, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None or (dim.__class__ is not int and (dim is not None or keepdim)):
        return None
    if keepdim and not a.flags.c_contiguous:
        return None
    result = np.multiply.reduce(a, dim, None, None, keepdim)
    return result if result.ndim < 2 or lies_as_pytorchs(a, result) else None


@op(
    promotion="same",
    opmath="native",
    canonicalize=lambda input, dim, *rest: (input, None if dim is None else array_dims(dim, input._array), *rest),
    fast=_fast_prod,
    out=Out(dtype="dtype"),
    grad={"input": _prod_gradient},
    autocast={"cpu": "float32", "cuda": "result"},
    forward="reduces",
    batch="along flat",
)
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product of ``input``, over all of it or over one dimension.

    Args:
        input: any shape and dtype.
        dim: dimension to reduce; all when None.
        keepdim: keep the reduced dimension with size 1.
        dtype: cast to it first; integers and bools become int64 when None.
    Returns:
        ``input``'s shape without ``dim``. 1 where nothing is multiplied.
    Raises:
        IndexError: ``dim`` out of range.
    Gradient: the product of all other elements, correct where some are 0.
    Source: torch.prod.
    Example:
        >>> torch.prod(torch.tensor([[1, 2], [3, 4]]), dim=1)
        tensor([ 2, 12])
    """
    input = _cast_input(input, dtype)
    wanted = input.dtype if dtype is not None else _sum_dtype(input)
    wide = _F4 if wanted.itemsize < 4 and wanted.kind in "fV" else wanted
    dims: Any = tuple(range(input.ndim)) if dim is None else dim
    out: Any = np.empty(reduced_shape(input.shape, dims, keepdim and dim is not None), wide)
    np.multiply.reduce(input, axis=dims, dtype=wide, keepdims=keepdim and dim is not None, out=out)
    return out if wide == wanted else out.astype(wanted)


# -- variance -------------------------------------------------------------------------------------------------------------------
def _warn_freedom(shape: Any, dim: Any, correction: float, name: str) -> None:
    count = math.prod(shape) if dim is None else count_of(shape, dim)
    if count - correction <= 0:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided by "
            "output numel).",
            UserWarning,
            stacklevel=5,
        )


@native.part(None, work="input._array.size")
def _deviations(scale: Any, input: Any, centre: Any) -> Any:
    return scale * (input - centre)


def _var_gradient(grad: Any, input: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    shape = tuple(input.shape)
    dims = wrap_dims(dim, len(shape)) if shape else ()
    if (dim is None or not shape) and correction >= math.prod(shape):  # no degree of freedom is left; a constant, as in PyTorch
        return grad * resolve("torch", "where")(input == input.mean(), math.nan, math.inf).to(input.dtype)
    freedom = count_of(shape, dim) - correction
    scale = 2 / freedom if freedom else math.inf
    return _deviations(kept(grad, dims, keepdim, len(shape)) * scale, input, input.mean(dims, True))


def _std_gradient(grad: Any, input: Any, result: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    half = (grad / (result * 2)).masked_fill(result == 0, 0)
    return _var_gradient(half, input, dim, correction, keepdim)


def variance_of(array: np.ndarray, dims: tuple[int, ...], correction: float, keepdim: bool) -> np.ndarray:
    """Variance in float64, by two passes: the mean first, then the squares of what is left."""
    if array.dtype.kind == "c":
        return variance_of(array.real, dims, correction, keepdim) + variance_of(array.imag, dims, correction, keepdim)
    count = count_of(array.shape, dims)
    centre = np.add.reduce(array, axis=dims, dtype=_F8, keepdims=True) / count
    rest = np.asarray(np.subtract(array, centre, dtype=_F8))
    squares = add_reduce(np.multiply(rest, rest, out=rest), dims, keepdim, _F8)
    return squares / np.float64(max(count - correction, 0))


def _require_var_dtype(array: np.ndarray, name: str) -> None:
    if array.dtype.kind in "biu":
        raise RuntimeError(f"{name} only support floating point and complex dtypes")


def _fast_spread(a: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
    if keepdim or a.dtype.kind != "f" or (dim is not None and dim.__class__ is not int) or a.size > _FEW:
        return None
    count = a.size if dim is None else a.shape[dim]
    rest = a - np.add.reduce(a, dim, _F8, None, True) / count
    rest *= rest
    total = np.asarray(np.add.reduce(rest, dim))
    total /= max(count - correction, 0)
    return total


def _fast_variance(a: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
    total = _fast_spread(a, dim, correction, keepdim)
    return None if total is None else total.astype(a.dtype, "C")


def _fast_deviation(a: np.ndarray, dim: Any, correction: float, keepdim: bool) -> Any:
    total = _fast_spread(a, dim, correction, keepdim)
    return None if total is None else np.sqrt(total, total).astype(a.dtype, "C")


def _of_spread(name: str, fast: Any, rule: Any) -> Declare:
    """Declare the kernel of ``var`` or ``std``."""
    return op(
        name=f"_{name}",
        **_over_dims,
        fast=fast,
        node_name=f"{name.title()}Backward0",
        out=True,
        grad={"input": rule},
        aten=f"{name}.correction",
        forward="reduces",
    )


@_of_spread("var", _fast_variance, _var_gradient)
def variance(input: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    """Kernel of ``var``."""
    _require_var_dtype(input, "std and var")
    return np.asarray(variance_of(input, dim, correction, keepdim)).astype(_real(input.dtype))


@_of_spread("std", _fast_deviation, _std_gradient)
def deviation(input: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    """Kernel of ``std``."""
    _require_var_dtype(input, "std and var")
    return np.sqrt(variance_of(input, dim, correction, keepdim)).astype(_real(input.dtype))


def _real(dtype: np.dtype) -> np.dtype:
    return {"F": _F4, "D": _F8}.get(dtype.char, dtype)


def _spread_arguments(name: str, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple[Any, float, bool]:
    """(dim, correction, keepdim) from the overloads ``f(unbiased)``, ``f(dim, unbiased, keepdim)``, ``f(dim, correction=, keepdim=)``."""
    if isinstance(dim, bool):
        if unbiased is not None and correction is None:
            raise TypeError(f"{name}() received an invalid combination of arguments - got (bool, bool)")
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    elif unbiased is not None:
        raise TypeError(f"{name}() received an invalid combination of arguments - got both unbiased and correction")
    _warn_freedom(input._array.shape, dim, correction, name)
    return dim, correction, keepdim


def _spread_measure(name: str, measure: Any, **words: str) -> Any:
    """Declare a measure of how far apart elements are; ``words`` are those of its documentation."""

    @composite(name=name, out=True)
    @documented(name=name, **words)
    def body(
        input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Any:
        """{measures} over all elements or over ``dim``.

        Args:
            input: any shape, floating point or complex.
            dim: dimension or dimensions to reduce; all when None.
            unbiased: divide by n - 1 (the default) instead of n.
            keepdim: keep each reduced dimension with size 1.
            correction: divide by ``n - correction`` instead; 1 is Bessel's correction.
        Returns:
            {result} of ``input``'s shape without ``dim``.
        Raises:
            RuntimeError: integer input.
            IndexError: ``dim`` out of range.
            TypeError: ``unbiased`` and ``correction`` both.
        Source: torch.{name}. Two-pass algorithm: Chan, Golub, LeVeque 1983.
        Example:
            >>> x = torch.tensor([[1.0, 3.0], [10.0, 30.0]])
            >>> torch.{name}(x, dim=1, correction=0)
            {printed}
        """
        return measure(input, *_spread_arguments(name, input, dim, unbiased, keepdim, correction))

    return body


var = _spread_measure(
    "var",
    lambda input, dim, correction, keepdim: variance(input, dim, correction, keepdim),
    measures="Variance",
    result="A real tensor",
    printed="tensor([  1., 100.])",
)
std = _spread_measure(
    "std",
    lambda input, dim, correction, keepdim: deviation(input, dim, correction, keepdim),
    measures="Standard deviation",
    result="A real tensor",
    printed="tensor([ 1., 10.])",
)
var_mean = _spread_measure(
    "var_mean",
    lambda input, dim, correction, keepdim: (variance(input, dim, correction, keepdim), mean(input, dim, keepdim)),
    measures="Variance and mean",
    result="A tuple (variance, mean) of tensors",
    printed="(tensor([  1., 100.]), tensor([ 2., 20.]))",
)
std_mean = _spread_measure(
    "std_mean",
    lambda input, dim, correction, keepdim: (deviation(input, dim, correction, keepdim), mean(input, dim, keepdim)),
    measures="Standard deviation and mean",
    result="A tuple (standard deviation, mean) of tensors",
    printed="(tensor([ 1., 10.]), tensor([ 2., 20.]))",
)


# -- truth ----------------------------------------------------------------------------------------------------------------------
def _truth(ufunc: Any, input: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
    truth = row_major(ufunc.reduce(input, axis=dim, keepdims=keepdim, dtype=np.bool_))
    return truth.astype(np.uint8) if input.dtype == np.uint8 else truth


_TRUTH = Out(
    fits=lambda have, want: want in (dtypes.bool_, dtypes.uint8),
    complain=lambda have, want: RuntimeError(f"expected a bool tensor for the result, got: {want.legacy}"),
)


def _fast_truth(ufunc: Any) -> Any:
    def fast(a: np.ndarray, dim: Any, keepdim: bool) -> Any:
        if dim is None:
            return None if keepdim else ufunc.reduce(a, None)
        if dim.__class__ is not int or (keepdim and not a.flags.c_contiguous):
            return None
        result = ufunc.reduce(a, dim, None, None, keepdim)
        return result if result.ndim < 2 else row_major(result)

    return fast


@op(out=_TRUTH, canonicalize=listed_dims, promotion="same", opmath="native", fast=_fast_truth(np.logical_and), grad=None, batch="along all")
def all_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether every element is true (not 0), over all of it or over ``dim``; NaN is true, nothing is true.

    Args:
        input: any shape and dtype.
        dim: dimension or dimensions to reduce; all when None.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``; bool, but uint8 for uint8.
    Raises:
        IndexError: ``dim`` out of range.
    Source: torch.all.
    Example:
        >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
        tensor([False,  True])
    """
    return _truth(np.logical_and, input, dim, keepdim)


@op(out=_TRUTH, canonicalize=listed_dims, promotion="same", opmath="native", fast=_fast_truth(np.logical_or), grad=None, batch="along all")
def any_(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element is true (not 0), over all of it or over ``dim``; NaN is true, nothing is false.

    Args:
        input: any shape and dtype.
        dim: dimension or dimensions to reduce; all when None.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``; bool, but uint8 for uint8.
    Raises:
        IndexError: ``dim`` out of range.
    Source: torch.any.
    Example:
        >>> torch.any(torch.tensor([[0, 3], [0, 0]]), dim=1)
        tensor([ True, False])
    """
    return _truth(np.logical_or, input, dim, keepdim)


@op(**_over_dims, out=False, grad=None)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """Number of elements that are not 0, in all or over ``dim``.

    Args:
        input: any shape and dtype; NaN is not 0.
        dim: dimension or dimensions; all when None.
    Returns:
        ``input``'s shape without ``dim``; int64.
    Raises:
        IndexError: ``dim`` out of range.
    Source: torch.count_nonzero.
    Example:
        >>> torch.count_nonzero(torch.tensor([[0, 3], [5, 7]]), dim=0)
        tensor([1, 2])
    """
    return np.add.reduce(input != 0, axis=dim, dtype=_I8, out=np.empty(reduced_shape(input.shape, dim, False), _I8))


# -- logsumexp --------------------------------------------------------------------------------------------------------------------
def _logsumexp_gradient(grad: Any, input: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    ndim = input.ndim
    return _shares_of(kept(grad, dim, keepdim, ndim), input, kept(result, dim, keepdim, ndim))


@native.part(None, work="input._array.size")
def _shares_of(grad: Any, input: Any, result: Any) -> Any:
    return grad * (input - result).exp().conj()


@op(
    promotion="int_to_float",
    canonicalize=normal_dims,
    grad={"input": _logsumexp_gradient},
    autocast={"cuda": "float32"},
    forward="reduces",
    batch="along all",
)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over ``dim``, without overflow.

    Args:
        input: any shape and dtype; integers become floating point.
        dim: dimension or dimensions to reduce; all when empty.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``; floating point or complex. -inf where there is nothing.
    Raises:
        IndexError: ``dim`` out of range.
    Gradient: ``grad * exp(input - result)``, the softmax.
    Source: torch.logsumexp.
    Example:
        >>> torch.logsumexp(torch.tensor([100.0, 100.0]), 0)  # 100 + log 2
        tensor(100.6931)
    """
    if not input.size:
        return np.log(add_reduce(input, dim, keepdim, input.dtype))
    real = input.real
    top = np.maximum.reduce(real, axis=dim, keepdims=True)
    top = np.where(np.isinf(top), np.zeros((), top.dtype), top)  # inf - inf would be NaN
    total = np.log(add_reduce(np.exp(input - top), dim, True, input.dtype)) + top
    return row_major(total).reshape(reduced_shape(input.shape, dim, keepdim))
