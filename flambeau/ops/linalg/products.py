"""Products of matrices and vectors. ``matrices`` has what makes and rearranges matrices, ``contraction`` the general products."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import native
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT, write_result
from ...core.calls.registry import Declare, composite, op, other_names
from ...core.layout import row_major
from ...core.shape import broadcast_or_none, broadcast_shape
from ...core.state import ignoring_fp
from ..arithmetic import conj
from ..small import small_rows

_product = {"promotion": "same", "out": EXACT, "fast_bool": False, "batch": "product", "forward": "bilinear"}
_of_matrices = {**_product, "in_bfloat16": True}
_C_WORDS = {"float32": "float", "float64": "double", "int64": "long", "int32": "int", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}


# -- checks ---------------------------------------------------------------------------------------------------------------------
def require_same_dtype(*operands: Any) -> None:
    """Raises:
    RuntimeError: operands of different dtypes.
    """
    first = operands[0].dtype
    for operand in operands[1:]:
        if operand.dtype is not first:
            names = [_C_WORDS.get(d.name, d.name) for d in (first, operand.dtype)]
            raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {names[0]} != {names[1]}")


def require_numbers(operand: Any, other: Any) -> None:
    """Raises:
    NotImplementedError: bool operands, which have no product unless there is nothing to multiply.
    """
    if operand._array.dtype.kind == "b":
        a, b = operand._array, other._array
        if a.ndim == b.ndim == 1:
            raise NotImplementedError("\"dot\" not implemented for 'Bool'")
        if a.size and b.size:
            raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")


def _mismatch(a: Any, b: Any) -> RuntimeError:
    rows, inner = (1, a.shape[0]) if a.ndim == 1 else (math.prod(a.shape[:-1]), a.shape[-1])
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and {b.shape[-2]}x{b.shape[-1]})")


def check_product(a: Any, b: Any) -> None:
    """The checks of ``matmul`` on shapes."""
    m, n = a._array.ndim, b._array.ndim
    if not m or not n:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    inner = a._array.shape[-1]
    other = b._array.shape[-2 if n > 1 else 0]
    if inner == other:
        if m > 2 or n > 2:
            broadcast_shape(a._array.shape[:-2], b._array.shape[:-2])
        return
    if m == n == 1:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{inner}] and src [{other}] to have the same number of elements, but got {inner} "
            f"and {other} elements respectively"
        )
    if n == 1 and m == 2:
        raise RuntimeError(f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{inner}), vec ({other})")
    if n > 2 and m > 2:
        batch = broadcast_shape(a._array.shape[:-2], b._array.shape[:-2])
        count = math.prod(batch)
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{count}, {inner}] but got: [{count}, {other}]."
        )
    raise _mismatch(a, b if n > 1 else b.reshape(-1, 1))


# -- matmul ---------------------------------------------------------------------------------------------------------------------
def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b``; many matrices times one matrix are one product, not many."""
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:
        return a.reshape(-1, a.shape[-1]).dot(b).reshape((*a.shape[:-1], b.shape[1])) if a.size else np.matmul(a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        return a.dot(b)
    return np.matmul(a, b)


def rows_of(tensor: Any) -> Any:
    """A tensor as a matrix: its last dimension as rows, all others in one."""
    shape = tensor._array.shape
    if len(shape) == 2:
        return tensor
    return tensor.reshape(math.prod(shape[:-1]), shape[-1])


def _left_gradient(grad: Any, other: Any, input_shape: Any) -> Any:
    rows, columns = len(input_shape), other.ndim
    other = conj(other)
    if columns == 1:
        return grad * other if rows == 1 else grad.unsqueeze(-1) * other
    if rows == 1:
        return matmul(other, grad.unsqueeze(-1)).squeeze(-1)
    return matmul(grad, other.transpose(-1, -2))


def _right_gradient(grad: Any, input: Any, other_shape: Any) -> Any:
    rows, columns = input._array.ndim, len(other_shape)
    input = conj(input)
    if rows == 1:
        return grad * input if columns == 1 else input.unsqueeze(-1) * grad.unsqueeze(-2)
    if columns == 1:
        return mv(rows_of(input).t(), grad.reshape(-1))
    if rows > 2 and columns == 2:  # one product with the batch as part of the inner dimension
        return mm(rows_of(input).t(), rows_of(grad))
    return matmul(input.transpose(-1, -2), grad)


def _canonicalize_matmul(input: Any, other: Any) -> tuple[Any, ...]:
    check_product(input, other)
    require_same_dtype(input, other)
    require_numbers(input, other)
    return (input, other)


def _fast_matmul(a: np.ndarray, b: np.ndarray) -> Any:
    return multiply(a, b) if a.ndim and b.ndim else None


_dot = np.ndarray.dot  # NumPy may report what infinities make of it
_PRODUCT = (
    "(ignoring_fp(_dot, a, b0) if b0.ndim == 2 and 0 < a.ndim < 3 else ignoring_fp(_fast_matmul, a, b0)) if a.size < THRESHOLD "
    "else ignoring_fp(large, a, b0)"
)


@op(
    **_of_matrices,
    operator="matmul",
    canonicalize=_canonicalize_matmul,
    work="8 * input.size",  # small matrices may have many products
    fast=_PRODUCT,
    grad={"input": _left_gradient, "other": _right_gradient},
    aten=None,
    autocast="narrow",
)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Product of matrices and vectors, in batches where there are more than two dimensions.

    Args:
        input, other: ``(n,)`` or ``(*, n, m)``; batch dimensions are broadcast. A 1-d ``input`` is a row, a 1-d ``other`` a column, whose
            dimension of size 1 is taken out of the result again.
    Returns:
        ``(*, n, p)``, 0-d for two vectors; the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit, 0-d operands, or different dtypes.
        NotImplementedError: bool operands.
    Gradient: ``grad @ other^H`` and ``input^H @ grad``.
    Source: torch.matmul.
    Example:
        >>> A = torch.tensor([[1, 2], [3, 4]])
        >>> A @ A, A @ torch.tensor([1, 0])
        (tensor([[ 7, 10],
                [15, 22]]), tensor([1, 3]))
        >>> torch.matmul(torch.ones(5, 1, 2, 3), torch.ones(4, 3, 2)).shape
        torch.Size([5, 4, 2, 2])
    """
    return row_major(multiply(input, other))


def require_dims(operand: Any, ndim: int, message: str) -> None:
    if operand._array.ndim != ndim:
        raise RuntimeError(message)


def _canonicalize_mm(input: Any, mat2: Any) -> tuple[Any, ...]:
    require_dims(input, 2, "self must be a matrix")
    require_dims(mat2, 2, "mat2 must be a matrix")
    return _canonicalize_matmul(input, mat2)


@op(
    **_of_matrices,
    canonicalize=_canonicalize_mm,
    work="8 * input.size",
    fast=lambda a, b: a.dot(b) if a.ndim == 2 and b.ndim == 2 else None,
    grad={"input": lambda grad, mat2: mm(grad, conj(mat2).t()), "mat2": lambda grad, input: mm(conj(input).t(), grad)},
    aten="mm",
    autocast="narrow",
)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices.

    Args:
        input: ``(n, m)``.
        mat2: ``(m, p)``, of the same dtype.
    Returns:
        ``(n, p)``, the operands' dtype.
    Raises:
        RuntimeError: operands that are no matrices, do not fit, or have different dtypes.
    Gradient: ``grad @ mat2^H`` and ``input^H @ grad``.
    Source: torch.mm.
    Example:
        >>> torch.mm(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1], [10]]))
        tensor([[21],
                [43]])
    """
    return row_major(input.dot(mat2))


def check_bmm(input: Any, mat2: Any) -> tuple[Any, ...]:
    require_dims(input, 3, "batch1 must be a 3D tensor")
    require_dims(mat2, 3, "batch2 must be a 3D tensor")
    expected, got = [input.shape[0], input.shape[2]], list(mat2.shape[:2])
    if expected != got:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: {expected} but got: {got}.")
    require_same_dtype(input, mat2)
    require_numbers(input, mat2)
    return (input, mat2)


@op(
    **_of_matrices,
    canonicalize=check_bmm,
    work="8 * input.size",
    fast=lambda a, b: np.matmul(a, b) if a.ndim == 3 and b.ndim == 3 and len(a) == len(b) else None,
    grad={
        "input": lambda grad, mat2: bmm(grad, conj(mat2).transpose(1, 2)),
        "mat2": lambda grad, input: bmm(conj(input).transpose(1, 2), grad),
    },
    aten="bmm",
    autocast="narrow",
)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of matrices pairwise.

    Args:
        input: ``(b, n, m)``.
        mat2: ``(b, m, p)``, of the same dtype.
    Returns:
        ``(b, n, p)``, the operands' dtype.
    Raises:
        RuntimeError: operands that are not three-dimensional, do not fit, or have different dtypes.
    Gradient: as of ``mm``.
    Source: torch.bmm.
    Example:
        >>> torch.bmm(torch.tensor([[[1, 2]], [[3, 4]]]), torch.tensor([[[1], [10]], [[1], [10]]]))
        tensor([[[21]],
        <BLANKLINE>
                [[43]]])
    """
    return row_major(np.matmul(input, mat2))


def _canonicalize_mv(input: Any, vec: Any) -> tuple[Any, ...]:
    if input._array.ndim != 2 or vec._array.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input._array.ndim}, {vec._array.ndim}")
    return _canonicalize_matmul(input, vec)


@op(
    **_product,
    canonicalize=_canonicalize_mv,
    fast=lambda a, b: a.dot(b) if a.ndim == 2 and b.ndim == 1 else None,
    grad={"input": lambda grad, vec: grad.outer(conj(vec)), "vec": lambda grad, input: conj(input).t().mv(grad)},
    autocast={"cuda": "narrow"},
)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector.

    Args:
        input: ``(n, m)``.
        vec: ``(m,)``, of the same dtype.
    Returns:
        ``(n,)``, the operands' dtype.
    Raises:
        RuntimeError: other numbers of dimensions, sizes that do not fit, or different dtypes.
    Gradient: ``outer(grad, conj(vec))`` and ``input^H @ grad``.
    Source: torch.mv.
    Example:
        >>> torch.mv(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 10]))
        tensor([21, 43])
    """
    return row_major(input.dot(vec))


def _of_vectors(name: str, **options: Any) -> Declare:
    """Declare a product of two vectors."""

    def canonicalize(input: Any, other: Any) -> tuple[Any, ...]:
        a, b = input._array, other._array
        if a.ndim != 1 or b.ndim != 1:
            raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
        if input.dtype is not other.dtype:
            raise RuntimeError(
                f"{name} : expected both vectors to have same dtype, but found {input.dtype.legacy} and {other.dtype.legacy}"
            )
        if a.size != b.size:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{a.size}] and src [{b.size}] to have the same number of elements, but got "
                f"{a.size} and {b.size} elements respectively"
            )
        if a.dtype.kind == "b":
            raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
        return (input, other)

    return op(**_product, canonicalize=canonicalize, autocast={"cuda": "widest"}, **options)


@_of_vectors(
    "dot",
    fast=lambda a, b: a.dot(b) if a.ndim == 1 and b.ndim == 1 else None,
    grad={"input": lambda grad, other: grad * conj(other), "other": lambda grad, input: grad * conj(input)},
)
def dot(input: Tensor, other: Tensor) -> Tensor:
    """Sum of the products of two vectors' elements, without conjugation.

    Args:
        input, other: ``(n,)``, of the same dtype.
    Returns:
        0-d, the operands' dtype.
    Raises:
        RuntimeError: operands that are not 1-d, of different sizes or dtypes.
        NotImplementedError: bool operands.
    Gradient: ``grad * conj(other)`` and ``grad * conj(input)``.
    Source: torch.dot.
    Example:
        >>> torch.dot(torch.tensor([1, 2, 3]), torch.tensor([1, 10, 100]))
        tensor(321)
    """
    return input.dot(other)


other_names("dot", tensor="other")


@_of_vectors(
    "vdot",
    fast=lambda a, b: a.dot(b) if a.ndim == 1 and b.ndim == 1 and a.dtype.kind == "f" else None,
    grad={"input": lambda grad, other: conj(grad) * other, "other": lambda grad, input: grad * input},
)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Sum of the products of two vectors' elements, the first conjugated.

    Args:
        input, other: ``(n,)``, of the same dtype.
    Returns:
        0-d, the operands' dtype.
    Raises:
        RuntimeError: operands that are not 1-d, of different sizes or dtypes.
        NotImplementedError: bool operands.
    Gradient: ``conj(grad) * other`` and ``grad * input``.
    Source: torch.vdot.
    Example:
        >>> torch.vdot(torch.tensor([1j, 2 + 0j]), torch.tensor([1j, 3 + 0j]))  # -i * i + 2 * 3
        tensor(7.+0.j)
    """
    return np.vdot(input, other) if input.dtype.kind == "c" else input.dot(other)


def _canonicalize_outer(input: Any, vec2: Any) -> tuple[Any, ...]:
    for name, vector in (("self", input), ("vec2", vec2)):
        if vector._array.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector._array.ndim}-D")
    return (input, vec2)


@op(
    promotion="default",
    aliases=("ger",),
    canonicalize=_canonicalize_outer,
    work="input.size * vec2.size",
    fast=lambda a, b: a[:, None] * b if a.ndim == 1 and b.ndim == 1 else None,
    grad={
        "input": lambda grad, vec2: mv(grad, conj(vec2).to(grad.dtype)),
        "vec2": lambda grad, input: mv(grad.t(), conj(input).to(grad.dtype)),
    },
    aten=None,
    batch="product",
    forward="bilinear",
)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of ``input`` and one of ``vec2``.

    Args:
        input: ``(n,)``.
        vec2: ``(m,)``.
    Returns:
        ``(n, m)``, the common dtype.
    Raises:
        RuntimeError: operands that are not 1-d.
    Gradient: ``grad @ conj(vec2)`` and ``grad^T @ conj(input)``.
    Source: torch.outer.
    Example:
        >>> torch.outer(torch.tensor([1, 2]), torch.tensor([1, 10, 100]))
        tensor([[  1,  10, 100],
                [  2,  20, 200]])
    """
    return input[:, None] * vec2


@composite(out=EXACT)
def inner(input: Tensor, other: Tensor) -> Any:
    """Sums of products over the last dimension of both, for all combinations of the others.

    Args:
        input, other: ``(*, n)`` and ``(+, n)``; a 0-d operand is a factor.
    Returns:
        ``(*, +)``, the operands' dtype.
    Raises:
        RuntimeError: last dimensions of different size.
    Source: torch.inner.
    Example:
        >>> torch.inner(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1, 10]))
        tensor([21, 43])
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and {list(other.shape)}"
        )
    if input.ndim == other.ndim == 1:
        return dot(input, other)
    if input.ndim == 2 and other.ndim == 1:
        return mv(input, other)
    left, right = (operand.reshape(math.prod(operand.shape[:-1]), operand.shape[-1]) for operand in (input, other))
    return mm(left, right.t()).reshape((*input.shape[:-1], *other.shape[:-1]))


# -- linear, bilinear -----------------------------------------------------------------------------------------------------------
def _canonicalize_linear(input: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    if not input._array.ndim or not 0 < weight._array.ndim <= 2:
        raise RuntimeError(f"linear(): both arguments need to be at least 1D, but they are {input.ndim}D and {weight.ndim}D")
    if bias is None or weight.ndim == 1:
        require_same_dtype(input, weight)
    if weight.ndim == 1 and bias is not None and bias.ndim:
        raise RuntimeError(f"linear(): expected a 0-d bias for a weight of shape {list(weight.shape)}, got {list(bias.shape)}")
    if input.shape[-1] != weight.shape[-1]:
        if weight.ndim == 1:
            sizes = "x".join(map(str, input.shape))
            raise RuntimeError(f"size mismatch, got input ({input.shape[0]}), mat ({sizes}), vec ({weight.shape[0]})")
        raise _mismatch(input, weight.t())
    if bias is not None:
        for name, operand in (("self", bias), ("mat1", input)):
            if operand.dtype is not weight.dtype:
                names = f"{operand.dtype.legacy} and {weight.dtype.legacy}"
                raise RuntimeError(f"{name} and mat2 must have the same dtype, but got {names}")
        target = (*input.shape[:-1], *weight.shape[:-1])
        if broadcast_or_none(tuple(bias.shape), target) != target:
            raise RuntimeError(
                f"The expanded size of the tensor ({target[-1]}) must match the existing size ({bias.shape[-1]}) at non-singleton "
                f"dimension {len(target) - 1}.  Target sizes: {list(target)}.  Tensor sizes: {list(bias.shape)}"
            )
    require_numbers(input, weight)
    return (input, weight, bias)


_add = np.add


def _linear(a: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> Any:
    if weight.ndim != 2 or not a.ndim:
        return None
    if a.size == weight.shape[1]:
        return ignoring_fp(_row_product, a, weight, bias)
    result = ignoring_fp(_dot, a, weight.T) if a.ndim < 3 else ignoring_fp(multiply, a, weight.T)
    if bias is None:
        return result
    return ignoring_fp(_add, result, small_rows(bias, result.shape), result)


@native.part("nn.functional.linear", work="weight.size // 6")
def _row_product(a: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> Any:
    """``linear`` of one row: NumPy's BLAS would wake its own threads for a large matrix."""
    if a.ndim > 2:  # of such NumPy takes an inner product for each element
        result = a.reshape(1, -1).dot(weight.T).reshape(*a.shape[:-1], -1)
    else:
        result = a.dot(weight.T)
    return result if bias is None else _add(result, small_rows(bias, result.shape), result)


def _linear_weight_gradient(grad: Any, input: Any, weight_shape: Any) -> Any:
    input = conj(input)
    if len(weight_shape) == 1:
        return mv(rows_of(input).t(), grad.reshape(-1))
    if input.ndim == 2:
        return mm(grad.t(), input)
    return mm(rows_of(grad).t(), rows_of(input))


@op(
    **_of_matrices,
    namespace="nn.functional",
    canonicalize=_canonicalize_linear,
    work="input.size * weight.shape[0] // 4",
    fast=_linear,
    fp_safe=True,
    node_name="AddmmBackward0",
    grad={
        "input": lambda grad, weight: grad.unsqueeze(-1) * conj(weight) if weight.ndim == 1 else matmul(grad, conj(weight)),
        "weight": _linear_weight_gradient,
        "bias": lambda grad: grad,
    },
    together=True,
    aten=None,
    autocast="narrow",
    compiled=True,
)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Args:
        input: ``(*, in)``.
        weight: ``(out, in)``, or ``(in)`` for one output whose dimension is left out.
        bias: ``(out)``.
    Returns:
        ``(*, out)``, the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit, or different dtypes.
        NotImplementedError: bool operands.
    Gradient: ``grad @ weight``, ``grad^T @ input`` over all leading dimensions at once, and the sum of ``grad``.
    Source: torch.nn.functional.linear.
    Example:
        >>> weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> F.linear(torch.tensor([2.0, 3.0]), weight, torch.tensor([0.0, 0.0, 10.0]))
        tensor([ 2.,  3., 15.])
    """
    if weight.ndim == 1:
        result = np.asarray(multiply(input, weight))
        return result if bias is None else result + bias
    result = row_major(multiply(input, weight.T))
    return result if bias is None else result + bias


@composite(method=False, autocast={"cpu": "untouched", "cuda": "widest"})
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """``x1^T A_k x2 + b_k`` for every output k.

    Args:
        input1: ``(*, in1)``.
        input2: ``(*, in2)``.
        weight: ``(out, in1, in2)``.
        bias: ``(out,)``.
    Returns:
        ``(*, out)``, the operands' dtype.
    Raises:
        RuntimeError: sizes that do not fit.
    Source: torch.nn.functional.bilinear.
    Example:
        >>> form = torch.tensor([[[1.0, 0.0], [0.0, 100.0]]])
        >>> torch.bilinear(torch.tensor([[2.0, 3.0]]), torch.tensor([[5.0, 7.0]]), form)  # 2 * 5 + 100 * 3 * 7
        tensor([[2110.]])
    """
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    if tuple(input1.shape[:-1]) != tuple(input2.shape[:-1]):
        raise RuntimeError(f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and {list(input2.shape)}")
    for word, given, dim in (("input1", input1, 1), ("input2", input2, 2)):
        if given.shape[-1] != weight.shape[dim]:
            raise RuntimeError(
                f"bilinear(): {word} size does not match weight size: got {given.shape[-1]} but expected {weight.shape[dim]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected {weight.shape[0]}")
    outputs, n1, n2 = weight.shape
    left, right = rows_of(input1), rows_of(input2)
    result = mm(left, weight.permute(1, 0, 2).reshape(n1, outputs * n2)).reshape(left.shape[0], outputs, n2)
    result = matmul(result, right.unsqueeze(-1)).squeeze(-1).reshape((*input1.shape[:-1], outputs))
    return result if bias is None else result + bias


# -- chains ---------------------------------------------------------------------------------------------------------------------
def best_order(sizes: Sequence[int]) -> list[list[int]]:
    """Place to split each run of factors for the fewest multiplications; factor i is ``(sizes[i], sizes[i + 1])``.

    Source: Cormen et al., Introduction to Algorithms, section 15.2.
    """
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i][j] = min(options)
            split[i][j] = i + options.index(cost[i][j])
    return split


def _chain(matrices: Sequence[Any]) -> Any:
    sizes = [matrices[0].shape[0], *[matrix.shape[1] for matrix in matrices]]
    split = best_order(sizes)

    def product(i: int, j: int) -> Any:
        return matrices[i] if i == j else mm(product(i, split[i][j]), product(split[i][j] + 1, j))

    return product(0, len(matrices) - 1)


@composite(method=False, autocast={"cuda": "narrow"})
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """Product of several matrices, in the order that needs the fewest multiplications. Deprecated; use ``linalg.multi_dot``.

    Args:
        matrices: ``(n, m)``, ``(m, k)`` and so on, one by one or as one list.
        out: tensor to write into.
    Returns:
        ``(n, p)``; the matrix itself where there is one.
    Raises:
        RuntimeError: a factor that is no matrix, or factors that do not fit.
    Source: torch.chain_matmul.
    Example:
        >>> torch.chain_matmul(torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1))
        tensor([[12.],
                [12.]])
    """
    warnings.warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot instead, which "
        "accepts a list of two or more tensors rather than multiple parameters.",
        UserWarning,
        stacklevel=2,
    )
    listed = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else list(matrices)
    for position, matrix in enumerate(listed):
        if matrix.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.ndim}, expected 2 instead (matrix {position})")
    result = listed[0] if len(listed) == 1 else _chain(listed)
    return result if out is None else out.copy_(result)


@composite(namespace="linalg", method=False, autocast={"cuda": "narrow"})
def multi_dot(tensors: Sequence[Tensor], *, out: Any = None) -> Any:
    """Product of two or more matrices, in the order that needs the fewest multiplications.

    Args:
        tensors: the factors, ``(n, m)``, ``(m, k)`` and so on; the first and the last may be vectors.
        out: tensor to write into.
    Returns:
        ``(n, p)``, without a dimension for each vector; the factors' dtype.
    Raises:
        RuntimeError: fewer than two factors, or factors that do not fit or differ in dtype.
    Source: torch.linalg.multi_dot.
    Example:
        >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
        tensor([12., 12.])
    """
    listed = list(tensors)
    if len(listed) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(listed)}")
    shape: list[int] = []
    for position in (0, -1):
        end = listed[position]
        if end.ndim == 1:
            listed[position] = end.unsqueeze(0) if position == 0 else end.unsqueeze(1)
        elif end.ndim == 2:
            shape.append(end.shape[position])
        else:
            word = "first" if position == 0 else "last"
            raise RuntimeError(f"multi_dot(): the {word} tensor must be 1D or 2D but got {end.ndim}D")
    for position, item in enumerate(listed):
        if item.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {position} must be 2D but got {item.ndim}D")
        if item.dtype is not listed[0].dtype:
            raise RuntimeError(
                f"multi_dot(): expected tensors of one dtype, but tensor 0 is {listed[0].dtype} and tensor {position} {item.dtype}"
            )
        if position and listed[position - 1].shape[1] != item.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {position - 1} and {position} with shapes {list(listed[position - 1].shape)} and {list(item.shape)} "
                "cannot be multiplied"
            )
    result = _chain(listed).reshape(tuple(shape))
    if out is None:
        return result
    write_result(out, result._array, EXACT)
    return out
