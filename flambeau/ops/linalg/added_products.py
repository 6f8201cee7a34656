"""Products added to something: ``beta * input + alpha * product``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT, SILENT
from ...core.calls.registry import Declare, old_order, op
from ...core.layout import laid_out_elementwise, row_major
from ...core.shape import broadcast_or_none
from ...core.tensor import Tensor as TensorType
from ..arithmetic import conj
from .products import bmm, check_bmm, check_product, matmul, mm, mv, outer, require_dims, require_numbers, require_same_dtype


def _scaled(grad: Any, factor: Any) -> Any:
    return grad if factor == 1 else grad * conj(factor)


def _plus(input: np.ndarray, product: np.ndarray, beta: Any, alpha: Any) -> np.ndarray:
    """``beta * input + alpha * product``, row-major; with a factor of 0 whatever ``input`` or the product holds is ignored, NaN too."""
    if product.dtype.kind in "biu":
        beta, alpha = int(beta), int(alpha)
    if alpha == 0:
        product = np.zeros_like(product)
    elif alpha != 1:
        product = product * product.dtype.type(alpha)
    if beta == 0:
        return row_major(product)
    scaled = input if beta == 1 else input * input.dtype.type(beta)
    return row_major(scaled + product)


def _check_expands(input: Any, shape: tuple[int, ...]) -> None:
    have = tuple(input._array.shape)
    if broadcast_or_none(have, shape) != shape:
        for back in range(1, len(have) + 1):
            if back > len(shape) or have[-back] not in (1, shape[-back]):
                expected = shape[-back] if back <= len(shape) else 0
                raise RuntimeError(
                    f"The expanded size of the tensor ({expected}) must match the existing size ({have[-back]}) at non-singleton "
                    f"dimension {max(len(shape) - back, 0)}.  Target sizes: {list(shape)}.  Tensor sizes: {list(have)}"
                )


def _sum_with_product(ranks: tuple[int, int], check: Any, shape_of: Any, product: Any, grad: dict[str, Any], **options: Any) -> Declare:
    """Declare ``beta * input + alpha * product(a, b)``.

    Args:
        ranks: numbers of dimensions of the factors, which ``check`` looks at.
        shape_of: the product's shape.
        grad: the rules of the factors.
    """
    rules = {"input": lambda grad, beta: _scaled(grad, beta), **grad}

    def canonicalize(input: Any, a: Any, b: Any, beta: Any, alpha: Any) -> tuple[Any, ...]:
        check(a, b)
        require_same_dtype(a, b, input)
        _check_expands(input, shape_of(a, b))
        return (input, a, b, beta, alpha)

    def fast(input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: Any, alpha: Any) -> Any:
        if beta != 1 or alpha != 1 or (a.ndim, b.ndim) != ranks or (ranks[0] == 3 and a.shape[0] != b.shape[0]):
            return None
        result = product(a, b)
        result += input  # raises where input does not broadcast to the product
        return result

    options = {"out": EXACT, "canonicalize": canonicalize, "fast": fast, "grad": rules, **options}
    return op(promotion="same", fast_bool=False, inplace=True, may_share=True, **options)


def _check_mm(a: Any, b: Any) -> None:
    require_dims(a, 2, f"mat1 must be a matrix, got {a._array.ndim}-D tensor")
    require_dims(b, 2, f"mat2 must be a matrix, got {b._array.ndim}-D tensor")
    check_product(a, b)
    require_numbers(a, b)


def _check_mv(a: Any, b: Any) -> None:
    if a._array.ndim != 2 or b._array.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a._array.ndim}, {b._array.ndim}")
    check_product(a, b)
    require_numbers(a, b)


@_sum_with_product(
    (2, 2),
    _check_mm,
    lambda a, b: (a.shape[0], b.shape[1]),
    lambda a, b: a.dot(b),
    grad={
        "mat1": lambda grad, mat2, alpha: mm(_scaled(grad, alpha), conj(mat2).t()),
        "mat2": lambda grad, mat1, alpha: mm(conj(mat1).t(), _scaled(grad, alpha)),
    },
    work="8 * mat1.size",
    aten="addmm",  # without the overloads that say what dtype to add up in
    autocast="narrow",
    in_bfloat16=True,
)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``.

    Args:
        input: broadcastable to the product's shape; ignored where beta is 0, so that its NaN do not show.
        mat1, mat2: matrices ``(n, m)`` and ``(m, p)``.
        beta, alpha: factors. Where alpha is 0, NaN of the product do not show, as in BLAS. The old argument orders
            ``(beta, input, alpha, ...)`` and ``(input, beta, alpha, ...)`` are understood.
    Returns:
        A new tensor ``(n, p)`` of the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit, or different dtypes.
    Gradient: ``beta * grad`` to ``input``; ``alpha * grad`` times the other factor, conjugated and transposed, to each factor.
    Source: torch.addmm.
    Example:
        >>> torch.addmm(torch.tensor([1.0, 2.0]), torch.eye(2), torch.tensor([[10.0, 20.0], [30.0, 40.0]]), beta=100)
        tensor([[110., 220.],
                [130., 240.]])
    """
    return _plus(input, mat1.dot(mat2), beta, alpha)


@_sum_with_product(
    (2, 1),
    _check_mv,
    lambda a, b: (a.shape[0],),
    lambda a, b: a.dot(b),
    grad={
        "mat": lambda grad, vec, alpha: outer(_scaled(grad, alpha), conj(vec)),
        "vec": lambda grad, mat, alpha: mv(conj(mat).t(), _scaled(grad, alpha)),
    },
    aten="addmv",
    autocast={"cuda": "narrow"},
)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``.

    Args:
        input: broadcastable to the product's shape; ignored where beta is 0, so that its NaN do not show.
        mat, vec: a matrix ``(n, m)`` and a vector ``(m)``.
        beta, alpha: factors. Where alpha is 0, NaN of the product do not show, as in BLAS. The old argument orders
            ``(beta, input, alpha, ...)`` and ``(input, beta, alpha, ...)`` are understood.
    Returns:
        A new tensor ``(n)`` of the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit, or different dtypes.
    Gradient: ``beta * grad`` to ``input``; ``alpha * grad`` times the other factor, conjugated and transposed, to each factor.
    Source: torch.addmv.
    Example:
        >>> ignored = torch.tensor([float('nan'), 5.0])
        >>> torch.addmv(ignored, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 10.0]), beta=0)
        tensor([21., 43.])
    """
    return _plus(input, mat.dot(vec), beta, alpha)


@_sum_with_product(
    (3, 3),
    check_bmm,
    lambda a, b: (a.shape[1], b.shape[2]),
    lambda a, b: np.matmul(a, b).sum(0, dtype=a.dtype),
    grad={
        "batch1": lambda grad, batch2, alpha: matmul(_scaled(grad, alpha), conj(batch2).transpose(1, 2)),
        "batch2": lambda grad, batch1, alpha: matmul(conj(batch1).transpose(1, 2), _scaled(grad, alpha)),
    },
    work="8 * batch1.size",
    out=SILENT,
    aten="addbmm",
    autocast="narrow",
)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (the sum of batch1[i] @ batch2[i])``.

    Args:
        input: broadcastable to the product's shape; ignored where beta is 0, so that its NaN do not show.
        batch1, batch2: ``(b, n, m)`` and ``(b, m, p)``.
        beta, alpha: factors. Where alpha is 0, NaN of the product do not show, as in BLAS. The old argument orders
            ``(beta, input, alpha, ...)`` and ``(input, beta, alpha, ...)`` are understood.
    Returns:
        A new tensor ``(n, p)`` of the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit, or different dtypes.
    Gradient: ``beta * grad`` to ``input``; ``alpha * grad`` times the other factor, conjugated and transposed, to each factor.
    Source: torch.addbmm.
    Example:
        >>> torch.addbmm(torch.zeros(2, 2), torch.ones(3, 2, 4), torch.ones(3, 4, 2))
        tensor([[12., 12.],
                [12., 12.]])
    """
    return _plus(input, np.matmul(batch1, batch2).sum(0, dtype=batch1.dtype), beta, alpha)


@_sum_with_product(
    (3, 3),
    check_bmm,
    lambda a, b: (a.shape[0], a.shape[1], b.shape[2]),
    lambda a, b: np.matmul(a, b),
    grad={
        "batch1": lambda grad, batch2, alpha: bmm(_scaled(grad, alpha), conj(batch2).transpose(1, 2)),
        "batch2": lambda grad, batch1, alpha: bmm(conj(batch1).transpose(1, 2), _scaled(grad, alpha)),
    },
    work="8 * batch1.size",
    aten="baddbmm",
    autocast="narrow",
)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)``.

    Args:
        input: broadcastable to the product's shape; ignored where beta is 0, so that its NaN do not show.
        batch1, batch2: ``(b, n, m)`` and ``(b, m, p)``.
        beta, alpha: factors. Where alpha is 0, NaN of the product do not show, as in BLAS. The old argument orders
            ``(beta, input, alpha, ...)`` and ``(input, beta, alpha, ...)`` are understood.
    Returns:
        A new tensor ``(b, n, p)`` of the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit, or different dtypes.
    Gradient: ``beta * grad`` to ``input``; ``alpha * grad`` times the other factor, conjugated and transposed, to each factor.
    Source: torch.baddbmm.
    Example:
        >>> torch.baddbmm(torch.tensor(1.0), torch.ones(2, 1, 4), torch.ones(2, 4, 2), alpha=0.5).shape
        torch.Size([2, 1, 2])
    """
    return _plus(input, np.matmul(batch1, batch2), beta, alpha)


def _canonicalize_addr(input: Any, vec1: Any, vec2: Any, beta: Any, alpha: Any) -> tuple[Any, ...]:
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector._array.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {vector._array.ndim}-D")
    _check_expands(input, (vec1.shape[0], vec2.shape[0]))
    return (input, vec1, vec2, beta, alpha)


@op(
    work="vec1.size * vec2.size",
    promotion="default",
    canonicalize=_canonicalize_addr,
    inplace=True,
    grad={
        "input": lambda grad, beta: _scaled(grad, beta),
        "vec1": lambda grad, vec2, alpha: mv(_scaled(grad, alpha), conj(vec2).to(grad.dtype)),
        "vec2": lambda grad, vec1, alpha: mv(_scaled(grad, alpha).t(), conj(vec1).to(grad.dtype)),
    },
    autocast={"cuda": "narrow"},
)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``.

    Args:
        input: broadcastable to ``(n, m)``; ignored where beta is 0.
        vec1, vec2: vectors ``(n)`` and ``(m)``.
        beta, alpha: factors; the old argument orders are understood.
    Returns:
        A new tensor ``(n, m)`` of the operands' common dtype, which lies in memory as ``input`` does.
    Raises:
        RuntimeError: sizes that do not fit.
    Gradient: ``beta * grad`` to ``input``, ``alpha * grad @ vec2`` to ``vec1``, ``alpha * grad.T @ vec1`` to ``vec2``.
    Source: torch.addr.
    Example:
        >>> torch.addr(torch.ones(2, 3), torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0, 30.0]), beta=0.5)
        tensor([[10.5000, 20.5000, 30.5000],
                [20.5000, 40.5000, 60.5000]])
    """
    if input.dtype.kind == "b":
        product = np.logical_and.outer(vec1, vec2) & bool(alpha)
        result = np.logical_or(product, input) if beta else row_major(product)
    else:
        product = np.multiply.outer(vec1, vec2)
        result = _plus(input, product * product.dtype.type(alpha), beta, 1)  # NaN of vectors show whatever alpha is
    return result if input.flags.c_contiguous else laid_out_elementwise(result, [input, vec1[:, None], vec2], False)


@old_order("addmm", "addmv", "addr", "addbmm", "baddbmm")
def _factors_by_position(op: Any, *given: Any) -> Any:
    """``f(beta, input, alpha, a, b)``, ``f(beta, input, a, b)`` and ``f(input, beta, alpha, a, b)``, told by where the numbers stand."""
    tensors = [value for value in given if isinstance(value, TensorType)]
    numbers = [value for value in given if not isinstance(value, TensorType)]
    if len(tensors) != 3 or len(numbers) > 2 or given[-1] is not tensors[-1] or given[-2] is not tensors[-2]:
        return None
    if not all(isinstance(number, (int, float, complex)) for number in numbers):
        return None
    warnings.warn(f"This overload of {op.name} is deprecated: pass beta and alpha as keyword arguments", UserWarning, stacklevel=4)
    return tensors, dict(zip(("beta", "alpha"), numbers, strict=False))
