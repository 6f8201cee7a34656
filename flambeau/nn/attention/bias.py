"""Causal masks that are stored as a shape only. Source: torch.nn.attention.bias."""

from __future__ import annotations

import enum
import warnings
from typing import Any

from ... import ops
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from .. import functional as F

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """The corner of a causal mask where the diagonal ends: for as many keys as queries both are one.

    Source: torch.nn.attention.bias.CausalVariant.
    Example:
        >>> nn.attention.bias.CausalVariant.LOWER_RIGHT
        <CausalVariant.LOWER_RIGHT: 2>
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask to give to ``scaled_dot_product_attention``; made there when it is not the plain ``is_causal``.

    Args:
        variant: the corner where the diagonal ends.
        seq_len_q: rows.
        seq_len_kv: columns.
    Shape:
        ``(seq_len_q, seq_len_kv)`` as a mask; as a tensor it has no elements.
    Raises:
        AssertionError: ``variant`` is no ``CausalVariant``.
    Source: torch.nn.attention.bias.CausalBias.
    Example:
        >>> nn.attention.bias.CausalBias(nn.attention.bias.CausalVariant.LOWER_RIGHT, 2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        _check_variant(variant)
        return ops.empty(0).as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        _check_variant(variant)
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2)

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as bools."""
        whole = ops.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=dtypes.bool_)
        lower_right = self.variant is CausalVariant.LOWER_RIGHT
        return ops.tril(whole, diagonal=self.seq_len_kv - self.seq_len_q if lower_right else 0)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return _attend(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())


def _check_variant(variant: Any) -> None:
    if not isinstance(variant, CausalVariant):
        raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")


def _attend(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, dropout_p: float = 0.0, is_causal: bool = False, **others: Any
) -> Tensor:
    """Attention with such a mask: ``is_causal`` where that is the same."""
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    if attn_mask.variant is CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv:
        return F.scaled_dot_product_attention(query, key, value, None, dropout_p, True, **others)
    mask = attn_mask._materialize(query.device)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, False, **others)


def causal_upper_left(*size: int) -> CausalBias:
    """The causal mask of ``size``, rows and columns, whose diagonal begins in the upper left corner.

    Args:
        *size: two ints, queries and keys.
    Returns:
        A ``CausalBias`` of this size.
    Raises:
        AssertionError: not two sizes.
    Source: torch.nn.attention.bias.causal_upper_left.
    Example:
        >>> nn.attention.bias.causal_upper_left(2, 3)
        tensor([[ True, False, False],
                [ True,  True, False]])
    """
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """The causal mask of ``size``, rows and columns, whose diagonal ends in the lower right corner.

    Args:
        *size: two ints, queries and keys.
    Returns:
        A ``CausalBias`` of this size.
    Raises:
        AssertionError: not two sizes.
    Source: torch.nn.attention.bias.causal_lower_right.
    Example:
        >>> nn.attention.bias.causal_lower_right(2, 3)
        tensor([[ True,  True, False],
                [ True,  True,  True]])
    """
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
