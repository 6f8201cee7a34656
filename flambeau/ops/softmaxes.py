"""Softmax and its kin: probabilities along a dimension."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.calls.annotations import Tensor
from ..core.calls.casting import cast_array, opmath
from ..core.calls.registry import TABLES, composite, op, resolve
from ..core.layout import contiguous_format
from ..core.shape import wrap_dim
from ..core.state import run_ignoring_fp
from .arithmetic import reject
from .small import HIGH, HIGH_BYTES, LIMIT, SQUARES, prepare_square  # noqa: F401  # LIMIT: machine code (``kernels.fastpath``) asks for it


def _prepare(input: Any, dim: int, dtype: Any) -> tuple[Any, ...]:
    if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool):
        raise TypeError(f"softmax(): argument 'dim' (position 2) must be int, not {type(dim).__name__}")
    return input, wrap_dim(dim, input._array.ndim), dtype


def _widened(array: np.ndarray, dtype: Any, name: str) -> tuple[np.ndarray, np.dtype]:
    """The input in the dtype to compute in, and the dtype of the result."""
    if dtype is not None:
        array = cast_array(array, dtype)
    if array.size:
        reject(name, array, "biuc")
    return opmath(array), array.dtype


def _softmax(input: np.ndarray, dim: int) -> np.ndarray:
    if not input.ndim:
        return np.where(np.isfinite(input), input.dtype.type(1), input.dtype.type(np.nan))
    if not input.size:
        return np.empty(input.shape, input.dtype)
    # x - max: exp overflows above 88.7 in float32
    result = _below_maximum(input, dim)
    np.exp(result, result)
    return np.divide(result, np.add.reduce(result, dim, None, None, True), result)


def _below_maximum(input: np.ndarray, dim: int) -> np.ndarray:
    """``input`` minus its maximum along ``dim``, row-major."""
    maximum = np.maximum.reduce(input, dim, None, None, True)
    if input.flags.c_contiguous:
        return np.subtract(input, maximum)
    return np.subtract(input, maximum, np.empty(input.shape, input.dtype))


def _log_softmax(input: np.ndarray, dim: int) -> np.ndarray:
    if not input.ndim:
        return np.where(np.isfinite(input), input.dtype.type(0), input.dtype.type(np.nan))
    if not input.size:
        return np.empty(input.shape, input.dtype)
    result = _below_maximum(input, dim)
    total = np.add.reduce(np.exp(result), dim, None, None, True)
    return np.subtract(result, np.log(total), result)


def _fast(kernel: Any) -> Any:
    def fast(input: np.ndarray, dim: Any, dtype: Any) -> np.ndarray | None:
        if dtype is not None or input.dtype.kind != "f" or input.dtype.itemsize < 4:
            return None
        return kernel(input, wrap_dim(dim, input.ndim))

    return fast


_any_softmax = _fast(_softmax)
_exp, _divide, _dot_of = np.exp, np.divide, getattr(np.dot, "_implementation", np.dot)

_LAST, _SECOND = -1, 1  # the objects, as CPython has each of them once: 1.0 and True are equal to one, and refused

# The rows of small float32 matrices without large elements: no maximum has to be subtracted there, and a product with a matrix of
# ones puts each row's sum at every place of the row, row-major, where the quotients go.
_SMALL_SOFTMAX = (
    "_divide(m := _exp(a), sums := _dot_of(m, ones), sums) if dtype is None and (dim is _LAST or dim is _SECOND) and d is F32 "
    "and (ones := SQUARES.get(a.shape)) is not None and 1 not in a.tobytes()[HIGH].translate(HIGH_BYTES) "
    "else _other_softmax(a, dim, dtype) if a.size < THRESHOLD else large(a, dim, dtype)"
)


def _other_softmax(input: np.ndarray, dim: Any, dtype: Any) -> np.ndarray | None:
    """The fast path of other arrays, and of the first of each small shape; None where there is none."""
    if input.shape not in SQUARES and dtype is None and (dim is _LAST or dim is _SECOND):
        prepare_square(input)
        ones = SQUARES.get(input.shape)
        if ones is not None and 1 not in input.tobytes()[HIGH].translate(HIGH_BYTES):
            grown = np.exp(input)
            return np.divide(grown, sums := grown.dot(ones), sums)
    return run_ignoring_fp(_any_softmax, input, dim, dtype)


def _softmax_slope(grad: np.ndarray, output: np.ndarray, dim: int) -> np.ndarray:
    gradient = np.multiply(grad, output, out=np.empty(output.shape, output.dtype))
    total = np.add.reduce(gradient, axis=dim, keepdims=True) if output.ndim else gradient
    return np.subtract(gradient, np.multiply(output, total), out=gradient)


def _log_softmax_slope(grad: np.ndarray, output: np.ndarray, dim: int) -> np.ndarray:
    gradient = np.exp(output, out=np.empty(output.shape, output.dtype))
    total = np.add.reduce(grad, axis=dim, keepdims=True) if output.ndim else grad
    np.multiply(gradient, total, out=gradient)
    return np.subtract(grad, gradient, out=gradient)


def _in_float32(kernel: Any) -> Any:
    def run(grad: np.ndarray, output: np.ndarray, dim: int, input_dtype: Any) -> np.ndarray:
        dtype = output.dtype if input_dtype is None else input_dtype.numpy
        output = opmath(output)
        result = kernel(grad.astype(output.dtype, copy=False), output, wrap_dim(dim, output.ndim))
        return result.astype(dtype, copy=False)

    return run


_softmax_backward, _log_softmax_backward = _in_float32(_softmax_slope), _in_float32(_log_softmax_slope)


def _dot(a: Any, b: Any, dim: int) -> Any:
    return (a * b).sum(dim, keepdim=True) if a.ndim else a * b


def _output_gradient(grad: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return grad * (grad_output - _dot(grad_output, output, dim)) - grad_output * _dot(grad, output, dim)


@op(
    fast=lambda g, y, dim, input_dtype: _softmax_backward(g, y, dim, input_dtype) if y.dtype is g.dtype else None,
    work="8 * grad_output.size",
    out=True,
    grad={
        "grad_output": lambda grad, output, dim, input_dtype: softmax_backward_data(grad, output, dim, output.dtype),
        "output": _output_gradient,
    },
    opmath="native",
    name="_softmax_backward_data",
)
def softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """``output * (grad_output - sum(grad_output * output))`` along ``dim``, in ``input_dtype``.

    Source: torch._softmax_backward_data.
    """
    return _softmax_backward(grad_output, output, dim, input_dtype)


@op(
    fast=lambda g, y, dim, input_dtype: _log_softmax_backward(g, y, dim, input_dtype) if y.dtype is g.dtype else None,
    work="8 * grad_output.size",
    out=True,
    grad={
        "grad_output": lambda grad, output, dim: grad - _dot(grad, output.exp(), dim),
        "output": lambda grad, grad_output, output, dim: (
            -grad * output.exp() * (grad_output.sum(dim, keepdim=True) if grad.ndim else grad_output)
        ),
    },
    opmath="native",
    name="_log_softmax_backward_data",
)
def log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """``grad_output - exp(output) * sum(grad_output)`` along ``dim``, in ``input_dtype``.

    Source: torch._log_softmax_backward_data.
    """
    return _log_softmax_backward(grad_output, output, dim, input_dtype)


@op(
    fast=_SMALL_SOFTMAX,
    work="32 * input.size",
    canonicalize=_prepare,
    opmath="native",
    grad={"input": lambda grad, result, dim, input_dtype: softmax_backward_data(grad, result, dim, input_dtype)},
    aten="_softmax",
    autocast={"cuda": "result"},
    forward="symmetric",
    batch="along",
)
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``: probabilities.

    Args:
        input: any shape, floating point unless ``dtype`` is given.
        dim: dimension along which the results add up to 1.
        dtype: dtype to cast ``input`` to first.
    Returns:
        ``input``'s shape; ``dtype`` or ``input``'s.
    Raises:
        NotImplementedError: integer input without ``dtype``.
        IndexError: ``dim`` out of range.
    Gradient: ``result * (grad - sum(grad * result))``.
    Source: torch.softmax. The maximum is subtracted first.
    Example:
        >>> torch.softmax(torch.tensor([[0.0, 0.0], [1000.0, 0.0]]), dim=1)
        tensor([[0.5000, 0.5000],
                [1.0000, 0.0000]])
    """
    wide, kind = _widened(input, dtype, "softmax_lastdim_kernel_impl")
    return _softmax(wide, dim).astype(kind, copy=False)


@op(
    fast=_fast(_log_softmax),
    work="32 * input.size",
    canonicalize=_prepare,
    opmath="native",
    grad={"input": lambda grad, result, dim, input_dtype: log_softmax_backward_data(grad, result, dim, input_dtype)},
    aten="_log_softmax",
    forward=lambda tangent, result, dim: (tangent := tangent.to(result.dtype)) - (result.exp() * tangent).sum(dim, keepdim=True),
    autocast={"cuda": "result"},
    batch="along",
)
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Logarithm of ``softmax``, without overflow or underflow in between.

    Args:
        input: any shape, floating point unless ``dtype`` is given.
        dim: dimension along which the probabilities add up to 1.
        dtype: dtype to cast ``input`` to first.
    Returns:
        ``input``'s shape; ``dtype`` or ``input``'s.
    Raises:
        NotImplementedError: integer input without ``dtype``.
        IndexError: ``dim`` out of range.
    Gradient: ``grad - softmax(input) * sum(grad)``.
    Source: torch.log_softmax.
    Example:
        >>> torch.log_softmax(torch.tensor([1000.0, 0.0]), dim=0)  # the logarithm of softmax would be minus infinity
        tensor([    0., -1000.])
    """
    wide, kind = _widened(input, dtype, "log_softmax_lastdim_kernel_impl")
    return _log_softmax(wide, dim).astype(kind, copy=False)


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        UserWarning,
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


_functional = {"namespace": "nn.functional", "method": False}


@composite(name="softmax", **_functional, autocast={"cuda": "result"})
def functional_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Probabilities along ``dim``: ``exp(input)`` divided by its sum.

    Args:
        input: any shape, floating point unless ``dtype`` is given.
        dim: dimension along which the results add up to 1; guessed from the number of dimensions, with a warning, when None.
        _stacklevel: which caller the warning names.
        dtype: dtype to cast ``input`` to first.
    Returns:
        ``input``'s shape; ``dtype`` or ``input``'s.
    Raises:
        NotImplementedError: integer input without ``dtype``.
        IndexError: ``dim`` out of range.
    Source: torch.nn.functional.softmax.
    Example:
        >>> F.softmax(torch.tensor([[0.0, 0.0], [1.0, 0.0]]), dim=0)
        tensor([[0.2689, 0.5000],
                [0.7311, 0.5000]])
    """
    return softmax(input, _implicit_dim("softmax", input.ndim, _stacklevel) if dim is None else dim, dtype)


@composite(name="log_softmax", **_functional, autocast={"cuda": "result"})
def functional_log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Logarithms of the probabilities along ``dim``.

    Args:
        input: any shape, floating point unless ``dtype`` is given.
        dim: dimension; guessed, with a warning, when None.
        _stacklevel: which caller the warning names.
        dtype: dtype to cast ``input`` to first.
    Returns:
        ``input``'s shape; ``dtype`` or ``input``'s.
    Raises:
        NotImplementedError: integer input without ``dtype``.
        IndexError: ``dim`` out of range.
    Source: torch.nn.functional.log_softmax.
    Example:
        >>> F.log_softmax(torch.tensor([[0.0, 0.0], [0.0, 3.0]]), dim=1)
        tensor([[-0.6931, -0.6931],
                [-3.0486, -0.0486]])
    """
    return log_softmax(input, _implicit_dim("log_softmax", input.ndim, _stacklevel) if dim is None else dim, dtype)


@composite(**_functional)
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax(-input)``: the smallest elements get the largest probabilities.

    Args:
        input: any shape, floating point unless ``dtype`` is given.
        dim: dimension; guessed, with a warning, when None.
        _stacklevel: which caller the warning names.
        dtype: dtype to cast ``input`` to first.
    Returns:
        ``input``'s shape; ``dtype`` or ``input``'s.
    Raises:
        NotImplementedError: integer input without ``dtype``.
        IndexError: ``dim`` out of range.
    Source: torch.nn.functional.softmin.
    Example:
        >>> F.softmin(torch.tensor([0.0, 1000.0]), dim=0)
        tensor([1., 0.])
    """
    return softmax(-input, _implicit_dim("softmin", input.ndim, _stacklevel) if dim is None else dim, dtype)


@composite(**_functional, draws="inside")
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A sample of the Gumbel-Softmax distribution.

    Args:
        logits: unnormalised log probabilities, any shape, floating point.
        tau: temperature.
        hard: return one-hot vectors, with the gradient of the soft ones.
        eps: without effect.
        dim: dimension along which the results add up to 1.
    Returns:
        ``logits``' shape and dtype.
    Raises:
        IndexError: ``dim`` out of range.
    Source: torch.nn.functional.gumbel_softmax. Jang, Gu, Poole 2017.
    Example:
        >>> F.gumbel_softmax(torch.tensor([[100.0, 0.0, 0.0]]), hard=True)
        tensor([[1., 0., 0.]])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", UserWarning, stacklevel=2)
    noise = -resolve("torch", "empty_like")(logits.detach(), memory_format=contiguous_format).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return logits.new_zeros(logits.shape).scatter_(dim, index, 1.0) - soft.detach() + soft


for _name in ("softmax", "log_softmax"):
    TABLES["special"][_name] = TABLES["torch"][_name]
