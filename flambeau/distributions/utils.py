"""Helpers of distributions: parameters of one shape, probabilities and logits, properties computed late, triangles of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from operator import attrgetter
from typing import Any

from .. import ops
from ..autograd import enable_grad
from ..core.dtype import get_default_dtype
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from ..overrides import is_tensor_like

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip


class _LateFunctions:
    """Operations of a namespace as attributes, each made when it is first used: an import makes none."""

    def __init__(self, namespace: str):
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        function = ops.resolve(self._namespace, name)
        setattr(self, name, function)
        return function


functional = _LateFunctions("nn.functional")
euler_constant = 0.57721566490153286060  # Euler and Mascheroni's


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one shape.

    Args:
        values: tensors, or objects that stand for them (``__torch_function__``), and numbers; a number takes dtype and device of the first
            tensor, or the default dtype where there is none.
    Returns: a tuple of tensors, expanded views where they grew.
    Raises:
        ValueError: anything else among the values.
    Source: torch.distributions.utils.broadcast_all.
    Example:
        >>> broadcast_all(torch.tensor([1.0, 2.0]), 3)
        (tensor([1., 2.]), tensor([3., 3.]))
    """
    if not all(is_tensor_like(value) or isinstance(value, Number) for value in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    first = next((value for value in values if isinstance(value, Tensor)), None)
    like = {"dtype": get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
    return ops.broadcast_tensors(*(value if is_tensor_like(value) else ops.tensor(value, **like) for value in values))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from logits: log odds where ``is_binary``, else log probabilities along the last dimension, up to a constant.

    Args:
        logits: ``(*)`` where ``is_binary``, else ``(*, K)``.
        is_binary: whether each number stands for itself.
    Returns: a tensor of the same shape.
    Source: torch.distributions.utils.logits_to_probs.
    Example:
        >>> logits_to_probs(torch.zeros(2)), logits_to_probs(torch.tensor([0.0, 2.0]), is_binary=True)
        (tensor([0.5000, 0.5000]), tensor([0.5000, 0.8808]))
    """
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's precision.

    Args:
        probs: ``(*)``, floating point.
    Returns: a tensor of the same shape, from ``eps`` to ``1 - eps``.
    Raises:
        TypeError: no floating-point dtype.
    Source: torch.distributions.utils.clamp_probs.
    Example:
        >>> clamp_probs(torch.tensor([0.0, 0.5, 1.0])) - torch.tensor([0.0, 0.5, 1.0])
        tensor([ 1.1921e-07,  0.0000e+00, -1.1921e-07])
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds of probabilities where ``is_binary``, else their logarithms; finite for 0 and 1.

    Args:
        probs: ``(*)`` where ``is_binary``, else ``(*, K)``.
        is_binary: whether each number stands for itself.
    Returns: a tensor of the same shape.
    Raises:
        TypeError: no floating-point dtype.
    Source: torch.distributions.utils.probs_to_logits.
    Example:
        >>> probs_to_logits(torch.tensor([0.5, 1.0])), probs_to_logits(torch.tensor([0.5, 1.0]), is_binary=True)
        (tensor([-6.9315e-01, -1.1921e-07]), tensor([ 0.0000, 15.9424]))
    """
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property that is computed at its first use, with gradients on, and then is an attribute of the instance.

    Assigning to it stores the value as any attribute.

    Args:
        wrapped: the method that computes it.
    Source: torch.distributions.utils.lazy_property.
    Example:
        >>> chance = torch.distributions.Bernoulli(0.5)
        >>> "logits" in vars(chance), chance.logits, "logits" in vars(chance)
        (False, tensor(0.), True)
    """

    def __init__(self, wrapped: Callable[[Any], Any]):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """Form of a lazy property on the class: tools that write documentation look for a ``property``."""

    def __init__(self, wrapped: Callable[[Any], Any]):
        property.__init__(self, wrapped)


class _Alias(property):
    """A property that is another attribute, described as the base class describes it."""

    def __init__(self, path: str):
        super().__init__(attrgetter(path))

    def __set_name__(self, owner: type, name: str) -> None:
        bases = [vars(base)[name] for base in owner.__mro__[1:] if name in vars(base)]
        self.__doc__ = next((base.__doc__ for base in bases if isinstance(base, property)), None)


def same_as(path: str) -> Any:
    """A property that is another attribute of the instance, or an attribute of one: ``same_as("base_dist.mean")``."""
    return _Alias(path)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers, drawn as PyTorch's distributions draw them."""
    return ops.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """``value`` summed over its last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def _lower_triangle(size: int, diag: int, device: Any) -> Tensor:
    """Mask of the elements of a square matrix that lie on or below a diagonal."""
    position = ops.arange(size, device=device)
    return position < position.view(-1, 1) + (diag + 1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Elements on and below the diagonal ``diag`` of matrices, row by row.

    Args:
        mat: ``(*, n, n)``.
        diag: 0 is the main diagonal, below it is negative.
    Returns: a tensor of shape ``(*, elements)``.
    Raises:
        ValueError: ``diag`` outside of the matrix.
    Source: torch.distributions.utils.tril_matrix_to_vec.
    Example:
        >>> tril_matrix_to_vec(torch.tensor([[1, 0], [2, 3]])), tril_matrix_to_vec(torch.tensor([[1, 0], [2, 3]]), diag=-1)
        (tensor([1, 2, 3]), tensor([2]))
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower_triangle(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular matrices of which ``vec`` has the elements, row by row: the inverse of ``tril_matrix_to_vec``.

    Args:
        vec: ``(*, elements)``.
        diag: the diagonal up to which the elements go.
    Returns: a tensor of shape ``(*, n, n)``, zero above.
    Raises:
        ValueError: a number of elements that no square matrix has there.
    Source: torch.distributions.utils.vec_to_tril_matrix.
    Example:
        >>> vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
        tensor([[1., 0.],
                [2., 3.]])
    """
    # n(n + 1)/2 + diag n, less the corner that a diagonal above the main one cuts off, are the elements; solved for n.
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    size = round(n)
    matrix = vec.new_zeros(vec.shape[:-1] + (size, size))
    matrix[..., _lower_triangle(size, diag, vec.device)] = vec
    return matrix
