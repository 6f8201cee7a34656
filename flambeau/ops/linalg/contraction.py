"""General products of tensors: ``tensordot``, ``einsum``, ``vecdot``, distances between vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.calls.annotations import Tensor
from ...core.calls.out import EXACT
from ...core.calls.registry import composite, op, resolve
from ...core.layout import row_major
from ...core.profiling import OPERATION, profiled
from ...core.shape import broadcast_shape, wrap_dim
from ...core.state import profiling
from .matrix_checks import require_floating, require_one_dtype
from .products import bmm, dot, mm


# -- tensordot ------------------------------------------------------------------------------------------------------------------
def _contracted_dims(a: Any, b: Any, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, (tuple, list)) or (hasattr(dims, "tolist") and getattr(dims, "ndim", False)):
        first, second = dims.tolist() if hasattr(dims, "tolist") else dims
        first = [first] if isinstance(first, int) else list(first)
        second = [second] if isinstance(second, int) else list(second)
    else:
        count = int(dims)
        if count < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if count > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-count, 0)), list(range(count))
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    return first, second


@composite(method=False, out=True, autocast={"cuda": "widest"})
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Any:
    """Sum of products over pairs of dimensions.

    Args:
        a, b: tensors of one dtype; paired dimensions have one size, or one of them has size 1.
        dims: how many dimensions, the last of ``a`` and the first of ``b``; or two lists of dimensions to pair.
    Returns:
        The remaining dimensions of ``a``, then those of ``b``.
    Raises:
        RuntimeError: paired dimensions of different size, more of them than there are, different dtypes.
    Gradient: ``grad`` contracted with the other operand's remaining dimensions.
    Source: torch.tensordot.
    Example:
        >>> a, b = torch.ones(2, 3, 4), torch.ones(4, 3, 5)
        >>> torch.tensordot(a, b, dims=([1, 2], [1, 0])).shape
        torch.Size([2, 5])
        >>> torch.tensordot(torch.tensor([1, 2]), torch.tensor([3, 4]), dims=0)
        tensor([[3, 4],
                [6, 8]])
    """
    first, second = _contracted_dims(a, b, dims)
    for d, e in zip(first, second, strict=True):
        m, n = a.shape[d], b.shape[e]
        if m == n:
            continue
        if m == 1:
            b = b.sum(e, keepdim=True, dtype=b.dtype)
        elif n == 1:
            a = a.sum(d, keepdim=True, dtype=a.dtype)
        else:
            raise RuntimeError(f"contracted dimensions need to match, but first has size {m} in dim {d} and second has size {n} in dim {e}")
    first, second = [wrap_dim(d, a.ndim) for d in first], [wrap_dim(d, b.ndim) for d in second]
    rows = [d for d in range(a.ndim) if d not in first]
    columns = [d for d in range(b.ndim) if d not in second]
    inner = math.prod(a.shape[d] for d in first)
    sizes = [*(a.shape[d] for d in rows), *(b.shape[d] for d in columns)]
    left, right = a.permute([*rows, *first]), b.permute([*second, *columns])
    if math.prod(sizes) == 1:
        return dot(left.reshape(inner), right.reshape(inner)).reshape(sizes)
    left = left.reshape(math.prod(sizes[: len(rows)]), inner)
    return mm(left, right.reshape(inner, math.prod(sizes[len(rows) :]))).reshape(sizes)


# -- einsum -----------------------------------------------------------------------------------------------------------------------
_ELLIPSIS = "..."


def _tokens(term: str, where: str) -> list[Any]:
    """The subscripts of one operand: letters and at most one ellipsis."""
    tokens: list[Any] = []
    term = term.replace(" ", "")
    while term:
        if term.startswith(_ELLIPSIS):
            if _ELLIPSIS in tokens:
                raise RuntimeError(f"einsum(): found '.' for {where} for which an ellipsis was already found")
            tokens.append(_ELLIPSIS)
            term = term[3:]
            continue
        if term[0] == ".":
            raise RuntimeError(f"einsum(): found '.' for {where} that is not part of any ellipsis")
        if not (term[0].isascii() and term[0].isalpha()):
            raise RuntimeError("einsum(): invalid subscript given at index 0 in the equation string, subscripts must be in [a-zA-Z]")
        tokens.append(term[0])
        term = term[1:]
    return tokens


@functools.lru_cache(256)
def _parse_equation(equation: str, count: int) -> tuple[list[list[Any]], list[Any] | None]:
    left, arrow, right = equation.partition("->")
    terms = [_tokens(term, f"operand {i}") for i, term in enumerate(left.split(","))]
    if len(terms) < count:
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if len(terms) > count:
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    return terms, _tokens(right, "the output") if arrow else None


def _parse_sublists(args: Sequence[Any]) -> tuple[list[Any], list[list[Any]], list[Any] | None]:
    """Operands and subscripts of ``einsum(op1, [0, 1], op2, [1, 2], [0, 2])``."""
    pairs = len(args) // 2
    operands, lists = list(args[0 : 2 * pairs : 2]), [list(subscripts) for subscripts in args[1 : 2 * pairs : 2]]
    output = list(args[-1]) if len(args) % 2 else None

    def translated(subscript: Any) -> Any:
        if subscript is Ellipsis:
            return _ELLIPSIS
        if not 0 <= subscript < 52:
            raise ValueError(f"einsum(): expected subscripts in the range [0, 52), but got {subscript}")
        return chr(ord("A") + subscript) if subscript < 26 else chr(ord("a") + subscript - 26)

    terms = [[translated(subscript) for subscript in subscripts] for subscripts in lists]
    return operands, terms, None if output is None else [translated(subscript) for subscript in output]


def _expand_ellipses(operands: list[Any], terms: list[list[Any]], output: list[Any] | None) -> list[Any]:
    """Replace each ellipsis by labels 0, 1, ... counted from the right (so that they broadcast); the output's labels."""
    covered = 0
    for i, (operand, labels) in enumerate(zip(operands, terms, strict=True)):
        named = len([label for label in labels if label != _ELLIPSIS])
        if _ELLIPSIS in labels:
            if named > operand.ndim:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of dimensions "
                    f"({operand.ndim}) for operand {i}"
                )
            extra = operand.ndim - named
            covered = max(covered, extra)
            at = labels.index(_ELLIPSIS)
            labels[at : at + 1] = list(range(extra))[::-1]
        elif named != operand.ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions ({operand.ndim}) "
                f"for operand {i} and no ellipsis was given"
            )
    ellipsis = list(range(covered))[::-1]
    if output is None:
        counts: dict[Any, int] = {}
        for labels in terms:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        letters = sorted(label for label, n in counts.items() if isinstance(label, str) and n == 1)
        return [*ellipsis, *letters]
    if _ELLIPSIS in output:
        at = output.index(_ELLIPSIS)
        output = [*output[:at], *ellipsis, *output[at + 1 :]]
    used = {label for labels in terms for label in labels}
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
        if label not in used and isinstance(label, str):
            raise RuntimeError(f"einsum(): output subscript {label} does not appear in the equation for any input operand")
    return output


def _check_sizes(operands: list[Any], terms: list[list[Any]]) -> None:
    sizes: dict[Any, int] = {}
    for i, (operand, labels) in enumerate(zip(operands, terms, strict=True)):
        for dim, label in enumerate(labels):
            n = operand.shape[dim]
            have = sizes.get(label, 1)
            if n != have and n != 1 and have != 1:
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {n} for operand {i} which does not broadcast with previously seen size {have}"
                )
            sizes[label] = n if have == 1 else have


def _without_repeats(operand: Any, labels: list[Any], i: int) -> tuple[Any, list[Any]]:
    """The diagonal over each repeated label."""
    labels = list(labels)
    while len(set(labels)) < len(labels):
        label = next(letter for letter in labels if labels.count(letter) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        if operand.shape[first] != operand.shape[second]:
            raise RuntimeError(
                f"einsum(): subscript {label} is repeated for operand {i} but the sizes don't match, {operand.shape[second]} != "
                f"{operand.shape[first]}"
            )
        operand = operand.diagonal(0, first, second)
        labels = [letter for d, letter in enumerate(labels) if d not in (first, second)] + [label]
    return operand, labels


def _summed(operand: Any, labels: list[Any], keep: set[Any]) -> tuple[Any, list[Any]]:
    """``operand`` without the labels that nothing else needs."""
    dims = [d for d, label in enumerate(labels) if label not in keep]
    if not dims:
        return operand, labels
    return operand.sum(dims), [label for label in labels if label in keep]


def _pair(a: Any, a_labels: list[Any], b: Any, b_labels: list[Any], keep: set[Any]) -> tuple[Any, list[Any]]:
    """Product of two operands, summed over what is not kept, as one batched matrix product."""
    shared = [label for label in a_labels if label in b_labels]
    for label in shared:  # a size of 1 against another takes part as that one number
        i, j = a_labels.index(label), b_labels.index(label)
        if label not in keep and a.shape[i] != b.shape[j]:
            if a.shape[i] == 1:
                a, a_labels = a.squeeze(i), [x for x in a_labels if x != label]
            else:
                b, b_labels = b.squeeze(j), [x for x in b_labels if x != label]
    a, a_labels = _summed(a, a_labels, keep | set(b_labels))
    b, b_labels = _summed(b, b_labels, keep | set(a_labels))
    batch = [label for label in a_labels if label in b_labels and label in keep]
    inner = [label for label in a_labels if label in b_labels and label not in keep]
    rows = [label for label in a_labels if label not in b_labels]
    columns = [label for label in b_labels if label not in a_labels]
    if not inner:
        order = [*batch, *rows, *columns]
        return _aligned(a, a_labels, order) * _aligned(b, b_labels, order), order
    sizes_a, sizes_b = dict(zip(a_labels, a.shape, strict=True)), dict(zip(b_labels, b.shape, strict=True))
    sizes = {
        label: max(sizes_a.get(label, 1), sizes_b.get(label, 1)) if 0 not in (sizes_a.get(label, 1), sizes_b.get(label, 1)) else 0
        for label in (*a_labels, *b_labels)
    }

    def count(labels: list[Any]) -> int:
        return math.prod(sizes[label] for label in labels)

    left = _permuted(a, a_labels, [*batch, *rows, *inner])
    right = _permuted(b, b_labels, [*batch, *inner, *columns])
    if not batch and len(rows) == len(inner) == len(columns) == 1:
        return mm(left, right), [*rows, *columns]
    if batch:
        left = left.expand([*(sizes[x] for x in batch), *left.shape[len(batch) :]])
        right = right.expand([*(sizes[x] for x in batch), *right.shape[len(batch) :]])
        result = bmm(left.reshape(count(batch), count(rows), count(inner)), right.reshape(count(batch), count(inner), count(columns)))
    else:
        result = mm(left.reshape(count(rows), count(inner)), right.reshape(count(inner), count(columns)))
    order = [*batch, *rows, *columns]
    return result.reshape([sizes[label] for label in order]), order


def _permuted(operand: Any, labels: list[Any], order: list[Any]) -> Any:
    """``operand`` with its dimensions in another order."""
    if labels == order:
        return operand
    return operand.t() if len(order) == 2 else operand.permute([labels.index(label) for label in order])


def _aligned(operand: Any, labels: list[Any], order: list[Any]) -> Any:
    """``operand`` with a dimension (of size 1 where it has none) for each label of ``order``."""
    operand = operand.permute([labels.index(label) for label in order if label in labels])
    shape, dim = [], 0
    for label in order:
        if label in labels:
            shape.append(operand.shape[dim])
            dim += 1
        else:
            shape.append(1)
    return operand.reshape(shape) if len(shape) != operand.ndim else operand


@composite(method=False, autocast={"cuda": "narrow"})
def einsum(*args: Any) -> Any:
    """Sum of products, by Einstein's convention: ``einsum('ij,jk->ik', a, b)``.

    Args:
        *args: an equation and its operands, of any shapes, one by one or as a list; or operands, each followed by its list of
            subscripts, and the output's list at the end. An ellipsis stands for dimensions that are broadcast. Without ``->`` the
            output has the subscripts that appear once, in alphabetical order.
    Returns:
        Contracted pair by pair from the left, each pair as one (batched) matrix product; a view where nothing is multiplied or summed.
    Raises:
        RuntimeError: an equation that does not fit the operands.
        ValueError: no operands.
    Gradient: that of the products and sums it is made of.
    Source: torch.einsum.
    Example:
        >>> a = torch.tensor([[1, 2], [3, 4]])
        >>> torch.einsum("ii->i", a), torch.einsum("ij->j", a), torch.einsum("ij,ji->", a, a)
        (tensor([1, 4]), tensor([4, 6]), tensor(29))
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
        )
    if not profiling:
        return _contracted(args)
    with profiled("aten::einsum", OPERATION, values=_as_listed(args)) as inside:
        return inside.gives(_contracted(args))


def _as_listed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as PyTorch's kernel has them; nothing of operands with their labels."""
    if not isinstance(args[0], str):
        return ()
    return args[0], list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:]), None


def _contracted(args: tuple[Any, ...]) -> Any:
    """``einsum`` of an equation and operands, or of operands and their labels."""
    if isinstance(args[0], str):
        operands = list(args[1]) if len(args) == 2 and isinstance(args[1], (list, tuple)) else list(args[1:])
        parsed, shown = _parse_equation(args[0], len(operands))
        terms, output = [list(term) for term in parsed], None if shown is None else list(shown)
    else:
        operands, terms, output = _parse_sublists(args)
    output = _expand_ellipses(operands, terms, output)
    for i, (operand, labels) in enumerate(zip(operands, terms, strict=True)):
        operands[i], terms[i] = _without_repeats(operand, labels, i)
    _check_sizes(operands, terms)
    current, labels = operands[0], terms[0]
    for i in range(1, len(operands)):
        keep = set(output).union(*terms[i + 1 :])
        current, labels = _pair(current, labels, operands[i], terms[i], keep)
    current, labels = _summed(current, labels, set(output))
    order = [labels.index(label) for label in output if label in labels]
    result = current.permute(order) if order != list(range(len(order))) else current
    for dim, label in enumerate(output):
        if label not in labels:
            result = result.unsqueeze(dim)
    return result


# -- vectors ----------------------------------------------------------------------------------------------------------------------
@composite(namespace="linalg", method=False, out=EXACT, autocast="narrow")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Any:
    """Sum over ``dim`` of ``conj(x) * y``: the dot product of vectors in a batch.

    Args:
        x, y: broadcastable, of one dtype, floating point or complex.
        dim: the vectors' dimension; of two vectors it is not looked at.
    Returns:
        The broadcast shape without ``dim``.
    Raises:
        RuntimeError: integers, two dtypes, or shapes that do not broadcast; of two vectors, that are of different sizes.
        IndexError: ``dim`` out of range.
    Gradient: ``conj(grad) * y`` and ``grad * x``.
    Source: torch.linalg.vecdot.
    Example:
        >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 10.0]))
        tensor([21., 43.])
    """
    require_floating("linalg.vecdot", x)
    require_one_dtype("linalg.vecdot", x, y, ("x", "y"))
    if x.ndim == y.ndim == 1:
        if x.shape != y.shape:
            raise RuntimeError(f"linalg.vecdot: expected two vectors of one size, got {x.shape[0]} and {y.shape[0]} elements")
        dim = 0
    x = x.conj() if x.is_complex() else x
    return (x * y).sum(dim)


@composite(method=False, in_library=True)
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    """p-norm of ``x1 - x2 + eps`` over the last dimension.

    Args:
        x1, x2: broadcastable, ``(*, n)``.
        p: the norm.
        eps: keeps the gradient finite at distance 0.
        keepdim: keep the last dimension with size 1.
    Returns:
        ``(*)``, or ``(*, 1)``; floating point.
    Raises:
        RuntimeError: shapes that do not broadcast.
    Gradient: for p 2 ``grad * (x1 - x2 + eps) / distance``, negative to ``x2``.
    Source: torch.nn.functional.pairwise_distance.
    Example:
        >>> F.pairwise_distance(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 4.0], [1.0, 1.0]]), eps=0.0)
        tensor([5., 0.])
    """
    return resolve("linalg", "vector_norm")(x1 - x2 + eps, p, -1, keepdim)


@composite(method=False, autocast={"cuda": "float32"}, in_library=True)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    """Cosine of the angle between vectors along ``dim``.

    Args:
        x1, x2: broadcastable, at least one of them floating point.
        dim: the vectors' dimension.
        eps: smallest length that is divided by.
    Returns:
        The broadcast shape without ``dim``, between -1 and 1.
    Raises:
        RuntimeError: integer or complex operands, shapes that do not broadcast.
        IndexError: ``dim`` out of range.
    Gradient: by the quotient rule, the lengths held at ``eps`` where they are below it.
    Source: torch.nn.functional.cosine_similarity.
    Example:
        >>> x = torch.tensor([[3.0, 4.0], [3.0, 4.0]])
        >>> F.cosine_similarity(x, torch.tensor([[1.0, 0.0], [-6.0, -8.0]]))
        tensor([ 0.6000, -1.0000])
    """
    if x1.dtype.category < dtypes.FLOATING and x2.dtype.category < dtypes.FLOATING:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {x1.dtype.legacy}")
    norm = resolve("linalg", "vector_norm")
    common = dtypes.promote(x1.dtype, x2.dtype)
    if common.is_complex:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common.legacy}")
    x1, x2 = resolve("torch", "broadcast_tensors")(x1.to(common), x2.to(common))
    # each vector is divided by its own length first: the product of two lengths can overflow
    left = x1 / norm(x1, 2, dim, True).clamp_min(eps)
    right = x2 / norm(x2, 2, dim, True).clamp_min(eps)
    return (left * right).sum(dim)


def _signed_power(difference: Any, distance: Any, p: float) -> Any:
    """d distance / d difference for a p-norm."""
    if p == 1:
        return difference.sgn()
    if p == math.inf:
        return difference.sgn() * (difference.abs() == distance)
    distance = distance.masked_fill(distance == 0, 1)  # the difference is 0 there too
    if p == 2:
        return difference / distance
    share = difference.abs() / distance
    if p < 1:  # a difference of 0, whose power is infinite, has no part in the distance
        share = share.masked_fill(difference == 0, 1)
    return difference.sgn() * share ** (p - 1)


_MANY = 25  # rows


def _distance_gradients(grad: Any, x1: Any, x2: Any, result: Any, p: float, needs: Any) -> tuple[Any, Any]:
    if p == 0:
        return x1.new_zeros(x1.shape), x2.new_zeros(x2.shape)
    if p == 2 and max(x1.shape[-2], x2.shape[-2]) > _MANY:  # sums of products instead of all differences, as PyTorch does it
        met = result == 0
        share = grad.masked_fill(met, 0) / result.masked_fill(met, 1)
        middle = x2.detach().mean(-2, keepdim=True)  # what both have in common need not cancel
        x1, x2 = x1 - middle, x2 - middle
        first = share.sum(-1, keepdim=True) * x1 - share.matmul(x2) if needs[0] else None
        return first, share.sum(-2).unsqueeze(-1) * x2 - share.mT.matmul(x1) if needs[1] else None
    slope = _signed_power(x1.unsqueeze(-2) - x2.unsqueeze(-3), result.unsqueeze(-1), p) * grad.unsqueeze(-1)
    return slope.sum(-2) if needs[0] else None, -slope.sum(-3) if needs[1] else None


_COMPUTE_MODES = frozenset(f"{word}_mm_for_euclid_dist{when}" for word, when in (("use", "_if_necessary"), ("use", ""), ("donot_use", "")))


def _canonicalize_cdist(x1: Any, x2: Any, p: float, compute_mode: Any = "use_mm_for_euclid_dist") -> tuple[Any, ...]:
    if compute_mode not in _COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for position, points in ((1, x1), (2, x2)):
        if points._array.dtype.kind not in "fV":
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{position} got: {points.dtype.legacy}")
        if points._array.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{position} got: {points._array.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    return (x1, x2, p, compute_mode)


def distances(difference: np.ndarray, p: float) -> np.ndarray:
    """p-norm over the last dimension."""
    size = np.abs(difference)
    if p == 0:
        return np.where(np.isnan(size).any(-1), math.nan, (size != 0).sum(-1)).astype(size.dtype)
    if p == math.inf:
        return size.max(-1) if size.shape[-1] else np.zeros(size.shape[:-1], size.dtype)
    if p == 1:
        return size.sum(-1)
    if p == 2:
        return np.sqrt(np.einsum("...i,...i->...", size, size))
    return (size**p).sum(-1) ** (1 / p)


@op(
    batch=2,
    method=False,
    promotion="same",
    out=False,
    canonicalize=_canonicalize_cdist,
    work="x1.shape[-2] * x2.size",
    grad={"x1, x2": _distance_gradients},
    aten=None,
    autocast="float32",
)
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Distances between every row of ``x1`` and every row of ``x2``.

    Args:
        x1, x2: ``(*, n, d)`` and ``(*, m, d)``, floating point; leading dimensions are broadcast.
        p: the norm, not negative.
        compute_mode: one of PyTorch's three; the distance is always computed from the differences, which is exact for near points.
    Returns:
        ``(*, n, m)``.
    Raises:
        ValueError: another ``compute_mode``.
        RuntimeError: integers, vectors, different numbers of columns, or a negative ``p``.
    Gradient: for p 2 the sum of ``grad * (x1 - x2) / distance`` over the other's rows; 0 at distance 0.
    Source: torch.cdist.
    Example:
        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
        tensor([[5., 1.]])
        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]), p=1)
        tensor([[7., 1.]])
    """
    broadcast_shape(x1.shape[:-2], x2.shape[:-2])
    return row_major(distances(x1[..., :, None, :] - x2[..., None, :, :], p))


def _canonicalize_pdist(input: Any, p: float) -> tuple[Any, ...]:
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D tensors")
    _canonicalize_cdist(input, input, p)
    return (input, p)


def _pair_gradient(grad: Any, input: Any, result: Any, p: float) -> Any:
    n = input.shape[0]
    first, second = _distance_gradients(below_to_zero(grad, n), input, input, below_to_zero(result, n), p, (True, True))
    return first + second


@op(
    promotion="same",
    canonicalize=_canonicalize_pdist,
    node_name="PdistBackward0",
    work="input.shape[0] * input.size",
    grad={"input": _pair_gradient},
    aten="_pdist_forward",
    autocast={"cuda": "float32"},
)
def _pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances between every pair of rows."""
    whole = row_major(distances(input[:, None, :] - input[None, :, :], p))
    return np.concatenate([whole.reshape(-1)[:0], *[row[i:] for i, row in enumerate(whole, 1)]])


@composite(method=False, autocast={"cuda": "float32"})
def pdist(input: Tensor, p: float = 2.0) -> Any:
    """Distances between every pair of rows, in the order (0, 1), (0, 2), ..., (1, 2), ...

    Args:
        input: ``(n, d)``, floating point.
        p: the norm, not negative.
    Returns:
        ``(n * (n - 1) / 2)``: the upper triangle of ``cdist(input, input)``, row by row.
    Raises:
        RuntimeError: another number of dimensions, integers, or a negative ``p``.
    Gradient: for p 2 ``grad * (a - b) / distance`` to the rows a and b of each pair.
    Source: torch.nn.functional.pdist.
    Example:
        >>> torch.pdist(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
        tensor([5.0000, 1.0000, 4.2426])
    """
    return _pdist(input, p)


@op(
    name="_above_diagonal", opmath="native", grad={"input": lambda grad, input_shape: below_to_zero(grad, input_shape[0])}, forward="linear"
)
def above_diagonal(input: Tensor) -> Tensor:
    """Elements above the diagonal of a square matrix, row by row."""
    return np.concatenate([input.reshape(-1)[:0], *[row[i:] for i, row in enumerate(input, 1)]])


@op(name="_above_diagonal_backward", opmath="native", grad={"grad": lambda grad: above_diagonal(grad)})
def below_to_zero(grad: Tensor, size: int) -> Tensor:
    """The adjoint of ``_above_diagonal``: a square matrix with zeros on and below the diagonal."""
    whole, end = np.zeros((size, size), grad.dtype), 0
    for i in range(size):
        begin, end = end, end + size - 1 - i
        whole[i, i + 1 :] = grad[begin:end]
    return whole
