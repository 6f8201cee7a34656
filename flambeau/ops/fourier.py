"""Discrete Fourier transforms: ``torch.fft``.

Three primitives transform complex to complex, real to complex and complex to real; each is the others' derivative. On the host kernels
compute (``kernels/families/fourier.py``), and SciPy what these leave; on a device that device's own library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays import copies, native
from ..core.arrays.threads import Threads
from ..core.calls.annotations import Tensor
from ..core.calls.casting import cast_array
from ..core.calls.creation import Creation
from ..core.calls.registry import Declare, composite, factory, op
from ..core.shape import index_of, wrap_dim, wrap_dims
from ..core.state import active, grad_enabled, in_mode
from ..core.tensor import Tensor as TensorType
from .padding import constant_pad_nd
from .ranges import progression

UNSCALED, BY_ROOT, BY_COUNT = range(3)  # what a result is divided by: nothing, the root of the number of points, that number
_FORWARD, _INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")  # SciPy's words for them, by direction
_IN_PARALLEL = 1 << 15  # elements from which on several threads pay
_READY, _READY_REAL = (dtypes.complex64, dtypes.complex128), (dtypes.float32, dtypes.float64)  # what is transformed as it is
_HostArray = np.ndarray  # in kernels bound to a device ``np.ndarray`` is its class


# -- primitives -------------------------------------------------------------------------------------------------------------------------
@native.part("_fourier", work="64 * array.size")
def _transformed(name: str, array: np.ndarray, size: int | None, dims: int, norm: str) -> np.ndarray:
    """The transform of that name over the last ``dims`` dimensions; ``size`` points along the last one if it is given."""
    axes = tuple(range(-dims, 0))
    sizes = None if size is None else (*array.shape[-dims:-1], size)
    if array.__class__ is not _HostArray:
        return np.ascontiguousarray(getattr(np.fft, name)(array, sizes, axes, norm=norm))
    if name == "fftn" and dims == 1 and array.dtype.kind == "f" and _is_shared(array):
        return _whole_spectra(array, norm)
    from scipy import fft

    return getattr(fft, name)(array, sizes, axes, norm=norm, workers=Threads.count if _is_shared(array) else 1)


def _is_shared(array: np.ndarray) -> bool:
    """Whether several threads transform an array."""
    return array.size >= _IN_PARALLEL


def _by_stride(array: np.ndarray, dims: Sequence[int]) -> Sequence[int]:
    return dims if len(dims) == 1 else sorted(dims, key=lambda dim: -array.strides[dim])


def _dims_last(input: np.ndarray, dims: Sequence[int]) -> tuple[np.ndarray, list[int] | None]:
    """The array with ``dims`` last, the others from the widest stride to the narrowest, and the permutation that gives it, if it takes one.

    Results lie in memory in this order.
    """
    if (
        input.flags.c_contiguous
        and dims[0] == input.ndim - len(dims)
        and (len(dims) == 1 or list(dims) == list(range(dims[0], input.ndim)))
    ):
        return input, None
    order = [*_by_stride(input, [dim for dim in range(input.ndim) if dim not in dims]), *dims]
    return input.transpose(order), order


def _put_back(result: np.ndarray, order: Sequence[int] | None) -> np.ndarray:
    if order is None:
        return result
    places = [0] * len(order)
    for place, dim in enumerate(order):
        places[dim] = place
    return result.transpose(places)


def _transform(**options: Any) -> Declare:
    """Declare a Fourier transform."""
    return op(out=True, opmath="native", fast=True, forward="linear", **options)


@_transform(name="_fft_c2c", grad={"input": lambda grad, dim, normalization, forward: fft_c2c(grad, dim, normalization, not forward)})
def fft_c2c(input: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    """Transform of complex numbers along the dimensions ``dim``; ``forward`` has the minus sign in the exponent."""
    if input.dtype.kind != "c":
        raise RuntimeError(f"_fft_c2c: expected a complex tensor, got {dtypes.of_array(input)}")
    if not dim:
        return input.copy()
    dims = _by_stride(input, dim)
    moved, order = _dims_last(input, dims)
    norm = (_FORWARD if forward else _INVERSE)[normalization]
    if not input.size:
        return _put_back(np.empty(moved.shape, input.dtype), order)
    return _put_back(_transformed("fftn" if forward else "ifftn", moved, None, len(dims), norm), order)


def _real_gradient(grad: Any, input_shape: Any, dim: Any, normalization: int, onesided: bool, forward: bool) -> Any:
    """The real part of the opposite transform of ``grad``, what a one-sided result leaves out being 0."""
    missing = input_shape[dim[-1]] - grad.shape[dim[-1]]
    if onesided and missing:
        grad = constant_pad_nd(grad, [0, 0] * (grad.ndim - 1 - dim[-1]) + [0, missing])
    return fft_c2c(grad, dim, normalization, not forward).real


@_transform(name="_fft_r2c", grad={"input": _real_gradient})
def fft_r2c(input: Tensor, dim: Sequence[int], normalization: int, onesided: bool, forward: bool = True) -> Tensor:
    """Transform of real numbers along the dimensions ``dim``; ``forward`` has the minus sign in the exponent.

    ``onesided`` keeps the first half, and the middle, along the last of the dimensions.
    """
    if input.dtype.kind != "f" or input.dtype.itemsize < 4:
        raise RuntimeError(f"_fft_r2c: Unsupported dtype {dtypes.of_array(input).legacy}")
    dims = dim if len(dim) == 1 else [*_by_stride(input, dim[:-1]), dim[-1]]
    moved, order = _dims_last(input, dims)
    if not input.size:
        half = moved.shape[-1] // 2 + 1 if onesided else moved.shape[-1]
        return _put_back(np.empty((*moved.shape[:-1], half), np.result_type(input.dtype, np.complex64)), order)
    if not forward and moved.__class__ is _HostArray:
        name = "ihfftn" if onesided else "ifftn"
        return _put_back(_transformed(name, moved, None, len(dims), _INVERSE[normalization]), order)
    result = _transformed("rfftn" if onesided else "fftn", moved, None, len(dims), _FORWARD[normalization])
    return _put_back(result if forward else result.conj(), order)


def _whole_spectra(input: np.ndarray, norm: str) -> np.ndarray:
    """The spectra of real rows: a half of each, and its conjugate mirror image, which SciPy writes on one thread to new memory."""
    count = input.shape[-1]
    known = count // 2 + 1
    half = _transformed("rfftn", input, None, 1, norm)
    whole = copies.zeros(input.shape, half.dtype)
    copies.copy_into(whole[..., :known], half)
    copies.copy_into(whole[..., known:], half[..., count - known : 0 : -1])
    rest = whole[..., known:].imag
    np.negative(rest, out=rest)
    return whole


def _hermitian_gradient(grad: Any, dim: Any, normalization: int) -> Any:
    """The one-sided transform of ``grad``, twice where an input element stands for its mirror image too."""
    gradient = fft_r2c(grad, dim, normalization, True)
    count = gradient.shape[dim[-1]]
    twice = grad.shape[dim[-1]] - count
    if twice <= 0:
        return gradient
    factors = [1.0] + [2.0] * twice + [1.0] * (count - 1 - twice)
    return gradient * grad.new_tensor(factors).reshape([-1] + [1] * (grad.ndim - 1 - dim[-1]))


@_transform(name="_fft_c2r", grad={"input": _hermitian_gradient})
def fft_c2r(input: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """Inverse transform to real numbers, ``last_dim_size`` of them along the last of ``dim``, of which ``input`` has the first half."""
    if input.dtype.kind != "c":
        raise RuntimeError(f"_fft_c2r: expected a complex tensor, got {dtypes.of_array(input)}")
    norm, last = _INVERSE[normalization], dim[-1]
    if len(dim) > 1:
        dims = _by_stride(input, dim[:-1])
        moved, order = _dims_last(input, dims)
        if input.size:
            moved = _transformed("ifftn", moved, None, len(dims), norm)
        input = _put_back(moved, order)
    moved, order = _dims_last(input, [last])
    if not input.size:
        return _put_back(np.empty((*moved.shape[:-1], last_dim_size), input.real.dtype), order)
    return _put_back(_transformed("irfftn", moved, last_dim_size, 1, norm), order)


# -- what the public functions check ----------------------------------------------------------------------------------------------------
def _normalization(norm: Any, forward: bool) -> int:
    if norm is None or norm == "backward":
        return UNSCALED if forward else BY_COUNT
    if norm == "forward":
        return BY_COUNT if forward else UNSCALED
    if norm == "ortho":
        return BY_ROOT
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def _floating(input: Any) -> Any:
    """``input`` in a dtype that can be transformed.

    Raises:
        RuntimeError: float16 and bfloat16.
    """
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        return input.to(dtypes.get_default_dtype())
    if input.dtype.itemsize < (8 if input.dtype.is_complex else 4):
        raise RuntimeError(f"Unsupported dtype {input.dtype.legacy}")
    return input


def _complex(input: Any) -> Any:
    if input.dtype in _READY:
        return input
    wide = _floating(input)
    return wide if wide.dtype.is_complex else wide.to(dtypes.complex64 if wide.dtype is dtypes.float32 else dtypes.complex128)


def _real(name: str, input: Any, words: str = "a real") -> Any:
    if input.dtype in _READY_REAL:
        return input
    if input.dtype.is_complex:
        raise RuntimeError(f"{name} expects {words} input tensor, but got {input.dtype.legacy}")
    return _floating(input)


def _integer(name: str, argument: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"fft_{name}(): argument '{argument}' must be int, not {type(value).__name__}")
    return value.__index__()


def _require_points(count: int) -> None:
    if count < 1:
        raise RuntimeError(f"Invalid number of data points ({count}) specified")


def _resized(input: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """``input`` cut, or continued with zeros, to these sizes along the dimensions; -1 leaves one as it is."""
    pads = [0] * (2 * input.ndim)
    for dim, size in zip(dims, sizes, strict=True):
        if size == -1:
            continue
        if input.shape[dim] < size:
            pads[2 * (input.ndim - 1 - dim) + 1] = size - input.shape[dim]
        elif input.shape[dim] > size:
            input = input.narrow(dim, 0, size)
    return constant_pad_nd(input, pads) if any(pads) else input


def _one_dim(name: str, input: Any, n: Any, dim: Any) -> tuple[int, int | None]:
    """The dimension counted from the front, and the number of points where it is given."""
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    place = wrap_dim(_integer(name, "dim", dim), input.ndim)
    return place, None if n is None else _integer(name, "n", n)


def _with_points(name: str, input: Any, n: Any, dim: Any) -> tuple[Any, int]:
    """``input`` with ``n`` points along ``dim``, and that dimension."""
    if n is None and dim.__class__ is int and dim == -1 and (shape := input.shape) and shape[-1]:  # the usual call
        return input, len(shape) - 1
    place, count = _one_dim(name, input, n, dim)
    _require_points(input.shape[place] if count is None else count)
    return input if count is None else _resized(input, (place,), (count,)), place


def _sizes_and_dims(input: Any, s: Any, dim: Any) -> tuple[list[int], tuple[int, ...]]:
    """For each dimension that is to be transformed its number of points."""
    given = None if s is None else [value.__index__() for value in ((s,) if hasattr(s, "__index__") else s)]
    if dim is not None:
        dims = (dim,) if hasattr(dim, "__index__") else tuple(dim)
        if dims and not input.ndim:
            raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
        dims = tuple([wrap_dim(index_of(place), input.ndim) for place in dims])
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    if given is not None:
        if dim is not None and len(dims) != len(given):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(given) > input.ndim:
            raise RuntimeError(f"Got shape with {len(given)} values but input tensor only has {input.ndim} dimensions.")
        if dim is None:
            dims = tuple(range(input.ndim - len(given), input.ndim))
    elif dim is None:
        dims = tuple(range(input.ndim))
    sizes = [input.shape[place] if size == -1 else size for place, size in zip(dims, given or [-1] * len(dims), strict=True)]
    for size in sizes:
        _require_points(size)
    return sizes, dims


def _some_dims(name: str, dims: Sequence[int]) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")


def _complex_to_complex(name: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool) -> Any:
    if not input.dtype.is_complex:
        return _real_to_complex(name, input, n, dim, norm, forward, False)
    input = _complex(input)
    input, place = _with_points(name, input, n, dim)
    return fft_c2c(input, (place,), _normalization(norm, forward), forward)


def _real_to_complex(name: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool, onesided: bool) -> Any:
    input = _real(name, input)
    input, place = _with_points(name, input, n, dim)
    return fft_r2c(input, (place,), _normalization(norm, forward), onesided, forward)


def _complex_to_real(name: str, input: Any, n: Any, dim: Any, norm: Any, forward: bool) -> Any:
    input = _complex(input)
    place, count = _one_dim(name, input, n, dim)
    size = 2 * (input.shape[place] - 1) if count is None else count
    _require_points(size)
    if count is not None:
        input = _resized(input, (place,), (size // 2 + 1,))
    return fft_c2r(input.conj() if forward else input, (place,), _normalization(norm, forward), size)


# -- one dimension ----------------------------------------------------------------------------------------------------------------------
@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along one dimension: ``X[k] = sum(x[j] exp(-2 pi i j k / n))``.

    Args:
        input: ``(*)``, real or complex, not float16 and not bfloat16.
        n: number of points; ``input`` is cut, or continued with zeros, to it.
        dim: the dimension.
        norm: 'backward' (the default: no scaling), 'ortho' (by ``1 / sqrt(n)``) or 'forward' (by ``1 / n``).
    Returns:
        Complex, ``n`` elements along ``dim``.
    Raises:
        RuntimeError: less than one point, another ``norm``, or a dtype of 16 bits.
        IndexError: ``dim`` out of range.
    Gradient: the inverse transform of ``grad``, unscaled.
    Source: torch.fft.fft.
    Example:
        >>> torch.fft.fft(torch.tensor([1.0, 0.0, -1.0, 0.0])).real  # one period of a cosine
        tensor([0., 2., 0., 2.])
        >>> torch.fft.fft(torch.ones(3), n=4, norm="forward").real
        tensor([0.7500, 0.0000, 0.2500, 0.0000])
    """
    return _complex_to_complex("fft", input, n, dim, norm, True)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of ``fft``: ``x[j] = sum(X[k] exp(2 pi i j k / n)) / n``.

    Args:
        input, n, dim: as for ``fft``.
        norm: 'backward' (the default: by ``1 / n``), 'ortho' (by ``1 / sqrt(n)``) or 'forward' (no scaling).
    Returns:
        Complex, ``n`` elements along ``dim``.
    Raises:
        RuntimeError, IndexError: as for ``fft``.
    Gradient: the transform ``fft`` of ``grad``, by ``1 / n``.
    Source: torch.fft.ifft.
    Example:
        >>> torch.fft.ifft(torch.tensor([4.0, 0.0, 0.0, 0.0])).real
        tensor([1., 1., 1., 1.])
    """
    return _complex_to_complex("ifft", input, n, dim, norm, False)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """``fft`` of real numbers without the half that mirrors the other: ``n // 2 + 1`` elements along ``dim``.

    Args:
        input: ``(*)``, real.
        n, dim, norm: as for ``fft``.
    Returns:
        Complex, ``n // 2 + 1`` elements along ``dim``.
    Raises:
        RuntimeError, IndexError: as for ``fft``, and for complex input.
    Gradient: the real part of the inverse transform of ``grad``, continued with zeros and unscaled.
    Source: torch.fft.rfft.
    Example:
        >>> torch.fft.rfft(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _real_to_complex("rfft", input, n, dim, norm, True, True)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of ``rfft``: real numbers from the first half of their transform.

    Args:
        input: ``(*, n // 2 + 1, *)``. The imaginary parts of the first element, and of the middle one where ``n`` is even, are not used.
        n: number of real points, by default ``2 * (input.shape[dim] - 1)``.
        dim: the dimension.
        norm: as for ``ifft``.
    Returns:
        Real, ``n`` elements along ``dim``.
    Raises:
        RuntimeError, IndexError: as for ``fft``.
    Gradient: the ``rfft`` of ``grad``, by ``1 / n``, twice where an element stands for its mirror image, too.
    Source: torch.fft.irfft.
    Example:
        >>> half = torch.fft.rfft(torch.tensor([1.5, 2.5, 4.5]))
        >>> torch.fft.irfft(half, n=3), torch.fft.irfft(half).shape
        (tensor([1.5000, 2.5000, 4.5000]), torch.Size([2]))
    """
    return _complex_to_real("irfft", input, n, dim, norm, False)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Transform, real, of a signal that mirrors its own conjugate and of which ``input`` is the first half.

    Args:
        input: ``(*, n // 2 + 1, *)``.
        n: number of points, by default ``2 * (input.shape[dim] - 1)``.
        dim, norm: as for ``fft``.
    Returns:
        Real, ``n`` elements along ``dim``.
    Raises:
        RuntimeError, IndexError: as for ``fft``.
    Gradient: as of ``irfft``, of the conjugate and unscaled.
    Source: torch.fft.hfft.
    Example:
        >>> torch.fft.hfft(torch.tensor([1.0, 2.0, 3.0]))  # of the signal 1, 2, 3, 2
        tensor([ 8., -2.,  0., -2.])
    """
    return _complex_to_real("hfft", input, n, dim, norm, True)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """Inverse of ``hfft``: the first half of the signal whose transform is the real ``input``.

    Args:
        input: ``(*)``, real.
        n, dim: as for ``fft``.
        norm: as for ``ifft``.
    Returns:
        Complex, ``n // 2 + 1`` elements along ``dim``.
    Raises:
        RuntimeError, IndexError: as for ``fft``, and for complex input.
    Gradient: as of ``rfft``, of the conjugate and by ``1 / n``.
    Source: torch.fft.ihfft.
    Example:
        >>> torch.fft.ihfft(torch.tensor([8.0, -2.0, 0.0, -2.0])).real
        tensor([1., 2., 3.])
    """
    return _real_to_complex("ihfft", input, n, dim, norm, False, True)


# -- several dimensions -----------------------------------------------------------------------------------------------------------------
def _several(input: Any, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    transform: Any = _of_unseen_real if _is_unseen_real(input) else fft_c2c
    if transform is fft_c2c:
        input = _complex(input)
    sizes, dims = _sizes_and_dims(input, s, dim)
    return transform(_resized(input, dims, sizes), dims, _normalization(norm, forward), forward)


def _is_unseen_real(input: Any) -> bool:
    """Whether nobody sees that real numbers are not made complex first, but their spectra out of halves."""
    is_plain = input.__class__ is TensorType and input.dtype in _READY_REAL and input._array.__class__ is _HostArray
    return is_plain and not (input._requires_grad and grad_enabled()) and not (active and in_mode()) and input._array.flags.c_contiguous


def _of_unseen_real(input: Any, dims: Sequence[int], normalization: int, forward: bool) -> Any:
    if tuple(dims) == tuple(range(input.ndim - len(dims), input.ndim)) and input._array.size:
        return fft_r2c(input, dims, normalization, False, forward)
    return fft_c2c(_complex(input), dims, normalization, forward)


def _several_real(name: str, input: Any, s: Any, dim: Any) -> tuple[Any, tuple[int, ...]]:
    input = _real(name, input, "a real-valued")
    sizes, dims = _sizes_and_dims(input, s, dim)
    _some_dims(name, dims)
    return _resized(input, dims, sizes), dims


def _several_halved(name: str, input: Any, s: Any, dim: Any) -> tuple[Any, tuple[int, ...], int]:
    """The input with half of the points along the last dimension, the dimensions, and how many points the result has there."""
    input = _complex(input)
    sizes, dims = _sizes_and_dims(input, s, dim)
    _some_dims(name, dims)
    is_given = s is not None and (s if hasattr(s, "__index__") else s[-1]) != -1
    points = sizes[-1] if is_given else 2 * (input.shape[dims[-1]] - 1)
    _require_points(points)
    return _resized(input, dims, [*sizes[:-1], points // 2 + 1]), dims, points


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def fftn(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """Discrete Fourier transform along several dimensions.

    Args:
        input: ``(*)``, real or complex, not float16 and not bfloat16.
        s: numbers of points along the dimensions, to which ``input`` is cut or continued with zeros; -1 leaves one as it is.
        dim: the dimensions, by default all, or the last ``len(s)``.
        norm: 'backward' (the default: no scaling), 'ortho' (by the root of 1 over the number of points) or 'forward' (by 1 over it).
    Returns:
        Complex, ``input``'s shape with the sizes ``s``.
    Raises:
        RuntimeError: less than one point, ``s`` and ``dim`` of different lengths, a dimension twice, another ``norm``, a dtype of 16 bits.
        IndexError: a dimension out of range.
    Gradient: the inverse transform of ``grad``, unscaled.
    Source: torch.fft.fftn.
    Example:
        >>> torch.fft.fftn(torch.ones(2, 4)).real
        tensor([[8., 0., 0., 0.],
                [0., 0., 0., 0.]])
        >>> torch.fft.fftn(torch.ones(2, 4), dim=0)[0].real
        tensor([2., 2., 2., 2.])
    """
    return _several(input, s, dim, norm, True)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def ifftn(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """Inverse of ``fftn``.

    Args:
        input, s, dim: as for ``fftn``.
        norm: as for ``ifft``, of the product of the numbers of points.
    Returns:
        Complex, ``input``'s shape with the sizes ``s``.
    Raises:
        RuntimeError, IndexError: as for ``fftn``.
    Gradient: the transform of ``grad``, by 1 over the number of points.
    Source: torch.fft.ifftn.
    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
        >>> torch.allclose(torch.fft.ifftn(torch.fft.fftn(x)).real, x)
        True
    """
    return _several(input, s, dim, norm, False)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def rfftn(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """``fftn`` of real numbers, along the last dimension without the half that mirrors the other.

    Args:
        input: ``(*)``, real.
        s, dim, norm: as for ``fftn``.
    Returns:
        Complex, with ``n // 2 + 1`` elements along the last of the dimensions.
    Raises:
        RuntimeError, IndexError: as for ``fftn``, and for complex input or no dimension.
    Gradient: the real part of the inverse transform of ``grad``, continued with zeros and unscaled.
    Source: torch.fft.rfftn.
    Example:
        >>> torch.fft.rfftn(torch.ones(2, 4)).real
        tensor([[8., 0., 0.],
                [0., 0., 0.]])
    """
    input, dims = _several_real("rfftn", input, s, dim)
    return fft_r2c(input, dims, _normalization(norm, True), True)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def irfftn(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """Inverse of ``rfftn``: real numbers from the half of their transform.

    Args:
        input: ``(*, n // 2 + 1)``, complex or real.
        s: sizes of the result, by default ``2 * (size - 1)`` along the last dimension and ``input``'s otherwise.
        dim: the dimensions, by default all, or the last ``len(s)``.
        norm: as for ``ifftn``.
    Returns:
        Real, with the sizes ``s``.
    Raises:
        RuntimeError, IndexError: as for ``fftn``, and for no dimension.
    Gradient: the ``rfftn`` of ``grad``, scaled, twice where an element stands for its mirror image, too.
    Source: torch.fft.irfftn.
    Example:
        >>> half = torch.fft.rfftn(torch.full((2, 3), 1.5))
        >>> torch.fft.irfftn(half, s=(2, 3))
        tensor([[1.5000, 1.5000, 1.5000],
                [1.5000, 1.5000, 1.5000]])
    """
    input, dims, points = _several_halved("irfftn", input, s, dim)
    return fft_c2r(input, dims, _normalization(norm, False), points)


@composite(namespace="fft", out=True)
def hfftn(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """``hfft`` along several dimensions: ``input`` is half of a signal that mirrors its conjugate, cut along the last of them.

    Args:
        input: ``(*, n // 2 + 1)``, complex or real.
        s: sizes of the result, by default ``2 * (size - 1)`` along the last dimension and ``input``'s otherwise.
        dim: the dimensions, by default all, or the last ``len(s)``.
        norm: as for ``fftn``.
    Returns:
        Real, with the sizes ``s``.
    Raises:
        RuntimeError, IndexError: as for ``fftn``, and for no dimension.
    Source: torch.fft.hfftn.
    Example:
        >>> torch.fft.hfftn(torch.ones(2, 3))
        tensor([[8., 0., 0., 0.],
                [0., 0., 0., 0.]])
    """
    input, dims, points = _several_halved("hfftn", input, s, dim)
    scale = _normalization(norm, True)
    if len(dims) > 1:
        input = fft_c2c(input, dims[:-1], scale, True)
    return fft_c2r(input.conj(), dims[-1:], scale, points)


@composite(namespace="fft", out=True)
def ihfftn(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """Inverse of ``hfftn``: the half of the signal whose transform is the real ``input``.

    Args:
        input: ``(*)``, real.
        s, dim: as for ``fftn``.
        norm: as for ``ifftn``.
    Returns:
        Complex, with ``n // 2 + 1`` elements along the last of the dimensions.
    Raises:
        RuntimeError, IndexError: as for ``fftn``, and for complex input or no dimension.
    Source: torch.fft.ihfftn.
    Example:
        >>> torch.fft.ihfftn(torch.fft.hfftn(torch.ones(2, 3))).real
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    input, dims = _several_real("ihfftn", input, s, dim)
    scale = _normalization(norm, False)
    half = fft_r2c(input, dims[-1:], scale, True, False)
    return fft_c2c(half, dims[:-1], scale, False) if len(dims) > 1 else half


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def fft2(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """:func:`torch.fft.fftn` along two dimensions, by default the last two.

    Args:
        input: ``(*, m, n)``, real or complex.
        s, dim, norm: as for ``fftn``.
    Returns:
        Complex, ``input``'s shape with the sizes ``s``.
    Raises:
        RuntimeError, IndexError: as for ``fftn``.
    Gradient: the inverse transform of ``grad``, unscaled.
    Source: torch.fft.fft2.
    Example:
        >>> torch.fft.fft2(torch.ones(2, 4)).real
        tensor([[8., 0., 0., 0.],
                [0., 0., 0., 0.]])
    """
    return fftn(input, s, dim, norm)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def ifft2(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """:func:`torch.fft.ifftn` along two dimensions, by default the last two.

    Args:
        input: ``(*, m, n)``, real or complex.
        s, dim, norm: as for ``ifftn``.
    Returns:
        Complex, ``input``'s shape with the sizes ``s``.
    Raises:
        RuntimeError, IndexError: as for ``fftn``.
    Gradient: the transform of ``grad``, by 1 over the number of points.
    Source: torch.fft.ifft2.
    Example:
        >>> torch.fft.ifft2(torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.0, 0.0]])).real
        tensor([[1.5000, 1.5000, 1.5000],
                [1.5000, 1.5000, 1.5000]])
    """
    return ifftn(input, s, dim, norm)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def rfft2(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """:func:`torch.fft.rfftn` along two dimensions, by default the last two.

    Args:
        input: ``(*, m, n)``, real.
        s, dim, norm: as for ``fftn``.
    Returns:
        Complex, ``(*, m, n // 2 + 1)``.
    Raises:
        RuntimeError, IndexError: as for ``rfftn``.
    Gradient: as of ``rfftn``.
    Source: torch.fft.rfft2.
    Example:
        >>> torch.fft.rfft2(torch.ones(3, 4)).shape
        torch.Size([3, 3])
    """
    return rfftn(input, s, dim, norm)


@composite(namespace="fft", out=True, autocast={"cpu": "float32"})
def irfft2(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """:func:`torch.fft.irfftn` along two dimensions, by default the last two.

    Args:
        input: ``(*, m, n // 2 + 1)``, complex or real.
        s, dim, norm: as for ``irfftn``.
    Returns:
        Real, ``(*, m, n)``.
    Raises:
        RuntimeError, IndexError: as for ``irfftn``.
    Gradient: as of ``irfftn``.
    Source: torch.fft.irfft2.
    Example:
        >>> torch.fft.irfft2(torch.tensor([[9.0, 0.0], [0.0, 0.0]]), s=(2, 3))
        tensor([[1.5000, 1.5000, 1.5000],
                [1.5000, 1.5000, 1.5000]])
    """
    return irfftn(input, s, dim, norm)


@composite(namespace="fft", out=True)
def hfft2(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """:func:`torch.fft.hfftn` along two dimensions, by default the last two.

    Args:
        input: ``(*, m, n // 2 + 1)``, complex or real.
        s, dim, norm: as for ``hfftn``.
    Returns:
        Real, ``(*, m, n)``.
    Raises:
        RuntimeError, IndexError: as for ``hfftn``.
    Source: torch.fft.hfft2.
    Example:
        >>> torch.fft.hfft2(torch.ones(2, 3)).shape
        torch.Size([2, 4])
    """
    return hfftn(input, s, dim, norm)


@composite(namespace="fft", out=True)
def ihfft2(input: Tensor, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """:func:`torch.fft.ihfftn` along two dimensions, by default the last two.

    Args:
        input: ``(*, m, n)``, real.
        s, dim, norm: as for ``ihfftn``.
    Returns:
        Complex, ``(*, m, n // 2 + 1)``.
    Raises:
        RuntimeError, IndexError: as for ``ihfftn``.
    Source: torch.fft.ihfft2.
    Example:
        >>> torch.fft.ihfft2(torch.fft.hfft2(torch.ones(2, 3))).real
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    return ihfftn(input, s, dim, norm)


# -- frequencies ------------------------------------------------------------------------------------------------------------------------
def _frequencies(new: Creation, n: Any, d: float, count: Callable[[int], int]) -> Any:
    """The first ``count(n)`` multiples of ``1 / (n d)``."""
    if isinstance(n, (bool, float)) or not hasattr(n, "__index__"):
        raise TypeError(f"fft_{new.name}(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    kind = new.dtype_or_default()
    if not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"{new.name} requires a floating point or complex dtype")
    span = n * d
    step = 1 / span if span else math.copysign(math.inf, span)
    length = count(n)
    if length < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {length}: [{length}]")
    with np.errstate(invalid="ignore"):
        return cast_array(progression(kind.numpy, length, -0.0, step, None), kind)


@factory(namespace="fft", out=True)
def fftfreq(new: Creation, n: int, d: float = 1.0) -> Any:
    """Frequencies of the elements of a transform of ``n`` points: 0, 1, ..., the negative ones last, over ``n * d``.

    Args:
        n: number of points.
        d: distance between two of them; frequencies are in cycles per its unit.
        out, dtype, layout, device, pin_memory, requires_grad: as for ``torch.zeros``; a floating or complex dtype.
    Returns:
        A new tensor ``(n,)``.
    Raises:
        RuntimeError: an integer dtype, or a negative ``n``.
    Source: torch.fft.fftfreq.
    Example:
        >>> torch.fft.fftfreq(5, d=0.2)
        tensor([ 0.,  1.,  2., -2., -1.])
    """
    positive = _frequencies(new, n, d, lambda n: n // 2 + 1 if n >= 0 else n)
    return np.concatenate((positive[: (n + 1) // 2], -positive[n // 2 : 0 : -1]))


@factory(namespace="fft", out=True)
def rfftfreq(new: Creation, n: int, d: float = 1.0) -> Any:
    """Frequencies of the elements of ``rfft`` of ``n`` points: 0, 1, ..., ``n // 2`` over ``n * d``.

    Args:
        n, d, out, dtype, layout, device, pin_memory, requires_grad: as for ``fftfreq``.
    Returns:
        A new tensor ``(n // 2 + 1,)``.
    Raises:
        RuntimeError: an integer dtype, or an ``n`` below -3.
    Source: torch.fft.rfftfreq.
    Example:
        >>> torch.fft.rfftfreq(5, d=0.2)
        tensor([0., 1., 2.])
    """
    return _frequencies(new, n, d, lambda n: int(n / 2) + 1)


def _shifted(input: Any, dim: Any, steps: Any) -> Any:
    dims = tuple(range(input.ndim)) if dim is None else wrap_dims(dim, input.ndim, empty_is_all=False)
    return input.roll([steps(input.shape[place]) for place in dims], dims)


@composite(namespace="fft")
def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The elements of a transform in the order of their frequencies, 0 in the middle.

    Args:
        input: any shape and dtype.
        dim: the dimensions, by default all.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        IndexError: a dimension out of range.
    Gradient: ``ifftshift`` of ``grad``.
    Source: torch.fft.fftshift.
    Example:
        >>> torch.fft.fftshift(torch.fft.fftfreq(5, d=0.2))
        tensor([-2., -1.,  0.,  1.,  2.])
    """
    return _shifted(input, dim, lambda size: size // 2)


@composite(namespace="fft")
def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Inverse of ``fftshift``: frequency 0 comes first.

    Args:
        input: any shape and dtype.
        dim: the dimensions, by default all.
    Returns:
        A new tensor of ``input``'s shape and dtype.
    Raises:
        IndexError: a dimension out of range.
    Gradient: ``fftshift`` of ``grad``.
    Source: torch.fft.ifftshift.
    Example:
        >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1, 2]))
        tensor([ 0,  1,  2, -2, -1])
    """
    return _shifted(input, dim, lambda size: (size + 1) // 2)
