"""Largest and smallest elements, and where they are.  NaN counts as larger and as smaller than anything."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..core.arrays.kinds import perhaps
from ..core.calls.annotations import Tensor
from ..core.calls.out import EXACT, Out, same_dtype
from ..core.calls.registry import Declare, composite, documented, op, resolve
from ..core.layout import row_major
from ..core.shape import index_of, reduced_shape, wrap_dim, wrap_dims
from ..core.tensor import Tensor as TensorType
from .arithmetic import reject
from .reduction import array_dims, kept, lies_as_pytorchs
from .scatter import scattered_sums
from .small import LIMIT, row_places


# -- what they share ------------------------------------------------------------------------------------------------------------
def require_elements(operation: str, array: np.ndarray, dims: Any, without: type[Exception] = RuntimeError) -> None:
    """Raises:
    IndexError: a reduced dimension of size 0.
    RuntimeError: nothing at all to reduce (or the error ``without``).
    """
    if dims is None or dims == ():
        if not array.size:
            raise without(
                f"{operation}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' "
                "argument."
            )
        return
    for dim in (dims,) if isinstance(dims, int) else dims:
        if array.ndim and array.shape[dim] == 0:
            raise IndexError(f"{operation}(): Expected reduction dim {dim} to have non-zero size.")


def _shared_evenly(grad: Any, input: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient of an extremum, in equal parts to all elements that have its value; NaN, which equals nothing, gives NaN to all."""
    ndim = input.ndim
    if dim is not None:
        grad, result = kept(grad, dim, keepdim, ndim), kept(result, dim, keepdim, ndim)
    chosen = input == result
    if dim is None or ndim == 0:
        return chosen * (grad / chosen.sum())
    return chosen * (grad / chosen.sum(wrap_dims(dim, ndim), True))


def to_place(grad: Any, result1: Any, dim: int, keepdim: bool, input_shape: tuple[int, ...]) -> Any:
    """The gradient of a selection along ``dim``: ``grad`` at the place that was selected, 0 elsewhere."""
    if not input_shape:
        return grad
    if not keepdim:
        grad, result1 = grad.unsqueeze(dim), result1.unsqueeze(dim)
    return scattered_sums(grad, dim, result1, input_shape)


def index_along(finder: str, array: np.ndarray, dim: int, keepdim: bool) -> np.ndarray:
    """``argmax`` or ``argmin`` along ``dim`` as int64: the first of equals, or the first NaN."""
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    if not array.ndim:
        return np.zeros((), np.int64)
    shape = reduced_shape(array.shape, (dim,), keepdim)
    if 0 in shape:
        return np.empty(shape, np.int64)
    return row_major(getattr(array, finder)(dim)).reshape(shape)


def taken_along(array: np.ndarray, indices: np.ndarray, dim: int, keepdim: bool) -> np.ndarray:
    """The elements that ``indices`` (one along ``dim``) name."""
    if not array.ndim:
        return array.copy()
    wide = indices if keepdim else np.expand_dims(indices, dim)
    return row_major(np.take_along_axis(array, wide, dim)).reshape(indices.shape)


# -- amax, amin -----------------------------------------------------------------------------------------------------------------
def _canonicalize_extremum(operation: str, input: Any, dim: Any, keepdim: bool) -> tuple[Any, ...]:
    array = input._array
    if dim is None or dim == () or dim == []:
        require_elements(operation, array, None)
    dims = array_dims(dim, array)
    require_elements(operation, array, dims or None)
    if array.size:  # of nothing there is no largest
        reject(operation, array, "c")
    return (input, dims, keepdim)


def _reduced(ufunc: Any) -> Any:
    def fast(a: np.ndarray, dim: Any, keepdim: bool) -> Any:
        if dim.__class__ is not int:
            if dim not in ((), []):
                dim = tuple(dim)
            elif keepdim:
                return None
            else:
                dim = None
        if keepdim and not a.flags.c_contiguous:
            return None  # NumPy gives sizes of 1 other strides then
        result = ufunc.reduce(a, dim, None, None, keepdim)
        return result if result.ndim < 2 or lies_as_pytorchs(a, result) else None

    return fast


def _extremum(ufunc: Any, input: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
    out = np.empty(reduced_shape(input.shape, dim, keepdim), input.dtype)
    return ufunc.reduce(input, axis=dim, keepdims=keepdim, out=out)


def _complain_extremum(have: Any, want: Any) -> Exception:
    return RuntimeError(
        f"Expected the dtype for input and out to match, but got {have.legacy} for input's dtype and {want.legacy} for out's dtype."
    )


def _extreme(**options: Any) -> Declare:
    """Declare the largest or smallest element of each slice."""
    return op(
        promotion="same",
        opmath="native",
        out=Out(fits=same_dtype, complain=_complain_extremum),
        grad={"input": _shared_evenly},
        forward="reduces",
        batch="along all",
        **options,
    )


@_extreme(canonicalize=partial(_canonicalize_extremum, "amax"), fast=_reduced(np.maximum))
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Largest element, of all or over ``dim``.

    Args:
        input: any shape, real.
        dim: dimension or dimensions to reduce; all when empty.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``, ``input``'s dtype; NaN where there is one.
    Raises:
        IndexError: ``dim`` out of range, or of size 0.
        RuntimeError: no elements without ``dim``, or a dimension twice.
        NotImplementedError: complex input.
    Gradient: in equal parts to all elements that have the largest value.
    Source: torch.amax.
    Example:
        >>> x = torch.tensor([[1.0, 5.0, 5.0], [4.0, 2.0, 0.0]], requires_grad=True)
        >>> torch.amax(x, dim=1).detach(), torch.autograd.grad(torch.amax(x), x)[0]
        (tensor([5., 4.]), tensor([[0.0000, 0.5000, 0.5000],
                [0.0000, 0.0000, 0.0000]]))
    """
    return _extremum(np.maximum, input, dim, keepdim)


@_extreme(canonicalize=partial(_canonicalize_extremum, "amin"), fast=_reduced(np.minimum))
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Smallest element, of all or over ``dim``.

    Args:
        input: any shape, real.
        dim: dimension or dimensions to reduce; all when empty.
        keepdim: keep each reduced dimension with size 1.
    Returns:
        ``input``'s shape without ``dim``, ``input``'s dtype; NaN where there is one.
    Raises:
        IndexError: ``dim`` out of range, or of size 0.
        RuntimeError: no elements without ``dim``, or a dimension twice.
        NotImplementedError: complex input.
    Gradient: in equal parts to all elements that have the smallest value.
    Source: torch.amin.
    Example:
        >>> x = torch.tensor([[3, 1], [2, 4]])
        >>> torch.amin(x, dim=0, keepdim=True), torch.amin(x, dim=(0, 1))
        (tensor([[2, 1]]), tensor(1))
    """
    return _extremum(np.minimum, input, dim, keepdim)


# -- max, min -------------------------------------------------------------------------------------------------------------------
def _canonicalize_all(operation: str, input: Any) -> tuple[Any, ...]:
    reject(operation, input._array, "c")
    require_elements(operation, input._array, None)
    return (input,)


def evenly_over_all(grad: Any, input: Any, result: Any) -> Any:
    chosen = input.isnan() if perhaps(result.isnan()) else input == result
    return resolve("torch", "where")(chosen, grad / chosen.sum(), 0)  # no product: an infinite grad leaves the other elements at 0


def over_all(name: str, kernel: Any, canonicalize: Any, node_name: str, **options: Any) -> Any:
    """Declare ``_NAME_of_all``: one of all elements, whose gradient goes in equal parts to those that are equal to it."""
    return op(
        name=f"_{name}_of_all",
        out=True,
        promotion="same",
        opmath="native",
        canonicalize=canonicalize,
        node_name=node_name,
        grad={"input": evenly_over_all},
        aten=name,
        forward="reduces",
        **options,
    )(kernel)


def _all_extremum(name: str, ufunc: Any) -> Any:
    largest = ufunc is np.maximum

    def kernel(input: Tensor) -> Tensor:
        return ufunc.reduce(input, None)

    def fast(a: np.ndarray) -> np.ndarray:
        return np.array(a.item(a.argmax() if largest else a.argmin()), a.dtype)  # half the time of a small reduction

    kernel.__doc__ = f"Kernel of ``{name}`` over all elements."
    node_name = f"{name.title()}Backward1"
    return over_all(name, kernel, partial(_canonicalize_all, name), node_name, fast=fast)


max_of_all, min_of_all = _all_extremum("max", np.maximum), _all_extremum("min", np.minimum)


def _canonicalize_along(operation: str, input: Any, dim: int, keepdim: bool) -> tuple[Any, ...]:
    reject(operation, input._array, "c")
    dim = wrap_dim(index_of(dim), input._array.ndim)
    require_elements(operation, input._array, dim)
    return (input, dim, keepdim)


def _extremum_along(name: str, ufunc: Any) -> Any:
    largest = ufunc is np.maximum

    def kernel(input: Tensor, dim: int, keepdim: bool) -> Any:
        indices = index_along(f"arg{name}", input, dim, keepdim)
        return taken_along(input, indices, dim, keepdim), indices

    def fast(a: np.ndarray, dim: int, keepdim: bool) -> Any:
        if keepdim or a.ndim != 2 or a.size == 0:
            return None
        if (dim == 1 or dim == -1) and a.size <= LIMIT and a.flags.c_contiguous:
            indices = a.argmax(1) if largest else a.argmin(1)
            return a.ravel()[indices + row_places(a.shape)], indices
        return row_major(ufunc.reduce(a, dim)), row_major(a.argmax(dim) if largest else a.argmin(dim))

    kernel.__doc__ = f"Kernel of ``{name}`` along a dimension."
    kernel.__name__ = name
    return op(
        name=f"_{name}_along",
        out=True,
        promotion="same",
        opmath="native",
        canonicalize=partial(_canonicalize_along, name),
        fast=fast,
        fp_safe=True,  # neither comparing nor choosing raises floating-point errors
        returns=("values", "indices"),
        node_name=f"{name.title()}Backward0",
        grad={"input": to_place},
        aten=f"{name}.dim",
        forward="selects",
        batch="along",
    )(kernel)


max_along, min_along = _extremum_along("max", np.maximum), _extremum_along("min", np.minimum)


@composite(name="max", out=Out(several=EXACT))
def max_(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Largest element: of all, along one dimension, or of two tensors element by element.

    Three forms: ``max(input)``, ``max(input, dim, keepdim=False)``, ``max(input, other)``.

    Args:
        input: any shape, real.
        dim: dimension to reduce, or the other tensor.
        keepdim: keep the reduced dimension with size 1.
        other: a broadcastable tensor, for the form of two tensors.
    Returns:
        A tensor; with ``dim`` a named tuple (values, indices), the index being that of the first of equal elements. NaN where there is one.
    Raises:
        RuntimeError: an empty ``input`` without ``dim``.
        IndexError: ``dim`` out of range or of size 0.
        NotImplementedError: complex input.
    Gradient: of all: in equal parts to the elements that have the value; along ``dim``: to the one at the index.
    Source: torch.max.
    Example:
        >>> x = torch.tensor([[1, 5, 5], [4, 2, 0]])
        >>> values, indices = torch.max(x, dim=1)
        >>> torch.max(x), values, indices
        (tensor(5), tensor([5, 4]), tensor([1, 0]))
    """
    if dim is None and other is None:
        return max_of_all(input)
    if dim.__class__ is int:
        return max_along(input, dim, keepdim)
    if other is None and isinstance(dim, TensorType):
        other = dim
    if other is not None:
        return resolve("torch", "maximum")(input, other)
    return max_along(input, dim, keepdim)


@composite(name="min", out=Out(several=EXACT))
def min_(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """Smallest element: of all, along one dimension, or of two tensors element by element.

    Three forms: ``min(input)``, ``min(input, dim, keepdim=False)``, ``min(input, other)``.

    Args:
        input: any shape, real.
        dim: dimension to reduce, or the other tensor.
        keepdim: keep the reduced dimension with size 1.
        other: a broadcastable tensor, for the form of two tensors.
    Returns:
        A tensor; with ``dim`` a named tuple (values, indices), the index being that of the first of equal elements. NaN where there is one.
    Raises:
        RuntimeError: an empty ``input`` without ``dim``.
        IndexError: ``dim`` out of range or of size 0.
        NotImplementedError: complex input.
    Gradient: of all: in equal parts to the elements that have the value; along ``dim``: to the one at the index.
    Source: torch.min.
    Example:
        >>> x = torch.tensor([[1, 5, 5], [4, 2, 0]])
        >>> values, indices = torch.min(x, dim=1)
        >>> torch.min(x), values, indices
        (tensor(0), tensor([1, 0]), tensor([0, 2]))
    """
    if dim is None and other is None:
        return min_of_all(input)
    if dim.__class__ is int:
        return min_along(input, dim, keepdim)
    if other is None and isinstance(dim, TensorType):
        other = dim
    if other is not None:
        return resolve("torch", "minimum")(input, other)
    return min_along(input, dim, keepdim)


def _canonicalize_aminmax(input: Any, dim: Any, keepdim: bool) -> tuple[Any, ...]:
    reject("aminmax", input._array, "c")
    if dim is None:
        if not input._array.size:
            raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
        return (input, None, keepdim)
    dim = wrap_dim(dim, input._array.ndim)
    require_elements("aminmax", input._array, dim)
    return (input, dim, keepdim)


def _aminmax_gradient(grads: Any, input: Any, result: Any, result1: Any, dim: Any, keepdim: bool) -> Any:
    total = None
    for grad, value in ((grads[0], result), (grads[1], result1)):
        if grad is not None:
            part = _shared_evenly(grad, input, value, dim, keepdim)
            total = part if total is None else total + part
    return total


def _fast_aminmax(a: np.ndarray, dim: Any, keepdim: bool) -> Any:
    if keepdim or not a.size or not a.ndim or (dim is not None and (dim.__class__ is not int or a.ndim > 2)):
        return None
    return np.asarray(np.minimum.reduce(a, dim)), np.asarray(np.maximum.reduce(a, dim))


@op(
    promotion="same",
    opmath="native",
    out=EXACT,
    canonicalize=_canonicalize_aminmax,
    fast=_fast_aminmax,
    returns=("min", "max"),
    grad={"input": _aminmax_gradient},
    batch="along flat",
)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Smallest and largest element, of all or along one dimension.

    Args:
        input: any shape, real.
        dim: dimension; all when None.
        keepdim: keep the reduced dimension with size 1.
    Returns:
        A named tuple (min, max) of ``input``'s shape without ``dim``; NaN where there is one.
    Raises:
        RuntimeError: no elements without ``dim``.
        IndexError: ``dim`` out of range, or of size 0.
        NotImplementedError: complex input.
    Gradient: in equal parts to all elements that have the value.
    Source: torch.aminmax.
    Example:
        >>> low, high = torch.aminmax(torch.tensor([[3, 1], [2, 4]]), dim=1)
        >>> low, high
        (tensor([1, 2]), tensor([3, 4]))
    """
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if input.ndim else ()
    return _extremum(np.minimum, input, dims, keepdim), _extremum(np.maximum, input, dims, keepdim)


# -- argmax, argmin -------------------------------------------------------------------------------------------------------------
def _canonicalize_position(operation: str, input: Any, dim: Any, keepdim: bool) -> tuple[Any, ...]:
    array = input._array
    reject(f"{operation}_cpu", array, "bc")
    if dim is None:
        require_elements(operation, array, None, IndexError)
        return (input, None, keepdim)
    dim = wrap_dim(index_of(dim), array.ndim)
    require_elements(operation, array, dim)
    return (input, dim, keepdim)


def _position(finder: str, input: np.ndarray, dim: int | None, keepdim: bool) -> np.ndarray:
    if dim is not None:
        return index_along(finder, input, dim, keepdim)
    position = index_along(finder, input.reshape(-1), 0, False)
    return position.reshape((1,) * input.ndim) if keepdim else position


def _fast_position(finder: str) -> Any:
    largest = finder == "argmax"

    def fast(a: np.ndarray, dim: Any, keepdim: bool) -> Any:
        if keepdim or a.dtype.kind == "b":
            return None
        result = a.argmax(dim) if largest else a.argmin(dim)
        return result if dim is None or result.ndim < 2 or (result.flags.c_contiguous and 1 not in result.shape) else None

    return fast


def _position_op(name: str, which: str, shown: str) -> Any:
    @documented(name=name, which=which, shown=shown)
    def kernel(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Position of the {which} element, in the flattened tensor or along ``dim``; the first of equal ones.

        Args:
            input: any shape, real, not bool.
            dim: dimension to reduce; the flattened tensor when None.
            keepdim: keep the reduced dimension with size 1.
        Returns:
            int64, of ``input``'s shape without ``dim``, 0-d when None. A NaN counts as the {which}.
        Raises:
            IndexError: nothing to reduce, or ``dim`` out of range.
            NotImplementedError: bool or complex input.
        Source: torch.{name}.
        Example:
            >>> x = torch.tensor([[1, 5, 5], [4, 2, 0]])
            >>> torch.{name}(x), torch.{name}(x, dim=1)
            {shown}
        """
        return _position(name, input, dim, keepdim)

    kernel.__name__ = kernel.__qualname__ = name
    declare = op(
        promotion="same",
        opmath="native",
        out=EXACT,
        canonicalize=partial(_canonicalize_position, name),
        fast=_fast_position(name),
        grad=None,
        batch="along flat",
    )
    return declare(kernel)


argmax = _position_op("argmax", "largest", "(tensor(1), tensor([1, 0]))")
argmin = _position_op("argmin", "smallest", "(tensor(5), tensor([0, 2]))")
