"""Attention of several heads with its projections, as ``torch.nn.functional`` has it, and the masks that go with it."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, resolve
from .joining import cat
from .linalg.products import linear
from .padding import pad
from .softmaxes import softmax

_PRIVATE = {"namespace": "nn.functional", "method": False}


@composite(name="_none_or_dtype", **_PRIVATE)
def none_or_dtype(input: Tensor | None) -> Any:
    """The dtype of a mask, or None. Source: torch.nn.functional._none_or_dtype."""
    return None if input is None else input.dtype


@composite(name="_canonical_mask", **_PRIVATE)
def canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask to add to scores: bools, of which the true ones are left out, become minus infinity and 0.

    Args:
        mask: bools, numbers, or None.
        mask_name, other_name: for the messages.
        other_type: dtype of another mask, which should be the same.
        target_type: dtype of the result where ``mask`` is of bools.
        check_other: whether to warn where the dtypes of the masks differ.
    Raises:
        AssertionError: a mask of integers.
    Source: torch.nn.functional._canonical_mask.
    """
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warnings.warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.", stacklevel=3)
    if mask.dtype is dtypes.bool_:
        return mask.new_zeros(mask.shape, dtype=target_type).masked_fill_(mask, -math.inf)
    return mask


# -- checks --------------------------------------------------------------------------------------------------------------------
def _is_batched(query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any, num_heads: int) -> bool:
    """Whether the operands have a dimension for the batch; complains about dimensions that do not fit."""
    ndim = query.ndim
    if ndim not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor")
    which = f"For {'batched' if ndim == 3 else 'unbatched'} ({ndim}-D) `query`, expected"
    if key.ndim != ndim or value.ndim != ndim:
        raise AssertionError(f"{which} `key` and `value` to be {ndim}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively")
    if key_padding_mask is not None and key_padding_mask.ndim != ndim - 1:
        raise AssertionError(f"{which} `key_padding_mask` to be `None` or {ndim - 1}-D but found {key_padding_mask.ndim}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.ndim not in (2, 3):
            raise AssertionError(f"{which} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.ndim}-D tensor instead")
        expected = (num_heads, query.shape[0], key.shape[0])
        if ndim == 2 and attn_mask.ndim == 3 and tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}")
    return ndim == 3


def _check_operands(query: Any, key: Any, value: Any, embed_dim: int, num_heads: int, separate: bool) -> None:
    width = query.shape[-1]
    if width != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {width}")
    if width // num_heads * num_heads != width:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if separate:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    elif key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _check_mask(attn_mask: Any, batch: int, num_heads: int, length: int, width: int) -> Any:
    """The mask with the dimensions of batch and heads."""
    expected = (length, width) if attn_mask.ndim == 2 else (batch * num_heads, length, width)
    if tuple(attn_mask.shape) != expected:
        raise RuntimeError(f"The shape of the {attn_mask.ndim}D attn_mask is {attn_mask.shape}, but should be {expected}.")
    return attn_mask[None, None] if attn_mask.ndim == 2 else attn_mask.reshape(batch, num_heads, length, width)


def _causal_or_masked(attn_mask: Any, is_causal: bool, mask_is_needless: bool, dtype: Any) -> tuple[Any, bool]:
    """The mask to add and whether attention is causal without one: where the hint says that the mask is the causal one and it alone counts.

    Raises:
        RuntimeError: the hint without a mask.
    """
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and mask_is_needless:
        return None, True
    return canonical_mask(attn_mask, "attn_mask", None, "", dtype, False), False


# -- the parts -----------------------------------------------------------------------------------------------------------------
def _projected(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
    """Query, key and value through one weight for the three; one product where they are the same tensor."""
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    if query is key and key is value:
        return linear(query, weight, bias).chunk(3, -1)
    weights = weight.chunk(3)
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple([linear(operand, *both) for operand, *both in zip((query, key, value), weights, biases, strict=True)])


def _projected_apart(operands: tuple[Any, ...], weights: tuple[Any, ...], bias: Any) -> tuple[Any, ...]:
    """Query, key and value through weights of their own."""
    width = operands[0].shape[-1]
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    for name, weight in zip("qkv", weights, strict=True):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    for name, operand, weight in zip(("query", "key", "value"), operands, weights, strict=True):
        expected = (width, operand.shape[-1])
        if tuple(weight.shape) != expected:
            raise AssertionError(f"expecting {name} weights shape of {expected}, but got {weight.shape}")
    for name, part in zip(("query", "key", "value"), biases, strict=True):
        if part is not None and tuple(part.shape) != (width,):
            raise AssertionError(f"expecting {name} bias shape of {(width,)}, but got {part.shape}")
    return tuple([linear(operand, *both) for operand, *both in zip(operands, weights, biases, strict=True)])


def _as_batches(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """Operands without a batch as batches of one; what is the same tensor stays so."""
    same = query is key, key is value
    query = query.unsqueeze(1)
    key = query if same[0] else key.unsqueeze(1)
    return query, key, key if same[1] else value.unsqueeze(1)


def _attended(q: Any, k: Any, v: Any, mask: Any, p: float, average: bool) -> tuple[Any, Any]:
    """The heads' results with the weights of attention, their mean where ``average``."""
    scores = (q * math.sqrt(1.0 / q.shape[-1])).matmul(k.mT)
    weights = softmax(scores if mask is None else scores + mask.to(scores.dtype), -1)
    if p > 0.0:
        weights = resolve("torch", "dropout")(weights, p, True)
    return weights.matmul(v), weights.mean(1) if average else weights


def _keys_and_values(k: Any, v: Any, static_k: Any, static_v: Any, batch: int, num_heads: int, head_dim: int) -> tuple[Any, Any]:
    """Key and value in heads, those that are given so in place of the projected ones."""
    parts = [
        _in_heads(projected, num_heads, head_dim) if static is None else _static_in_heads(name, static, batch, num_heads, head_dim)
        for name, projected, static in (("static_k", k, static_k), ("static_v", v, static_v))
    ]
    return parts[0], parts[1]


def _with_biases(key: Any, value: Any, bias_k: Any, bias_v: Any, static_k: Any, static_v: Any) -> tuple[Any, Any]:
    """Key and value with one position more, which the biases are."""
    if bias_v is None:
        raise AssertionError("bias_k is set but bias_v is None")
    if bias_k is None:
        raise AssertionError("bias_v is set but bias_k is None")
    if static_k is not None:
        raise AssertionError("bias cannot be added to static key.")
    if static_v is not None:
        raise AssertionError("bias cannot be added to static value.")
    batch = key.shape[1]
    return cat([key, bias_k.repeat(1, batch, 1)]), cat([value, bias_v.repeat(1, batch, 1)])


def _in_heads(operand: Any, num_heads: int, head_dim: int) -> Any:
    """``(S, N, E)`` as ``(N, heads, S, E / heads)``."""
    return operand.unflatten(-1, (num_heads, head_dim)).permute(1, 2, 0, 3)


def _static_in_heads(name: str, operand: Any, batch: int, num_heads: int, head_dim: int) -> Any:
    """A key or value that is given projected already, ``(N * heads, S, E / heads)``."""
    if operand.size(0) != batch * num_heads:
        raise AssertionError(f"expecting {name}.size(0) of {batch * num_heads}, but got {operand.size(0)}")
    if operand.size(2) != head_dim:
        raise AssertionError(f"expecting {name}.size(2) of {head_dim}, but got {operand.size(2)}")
    return operand.unflatten(0, (batch, num_heads))


def _with_zeros(operand: Any) -> Any:
    """One position of zeros more."""
    return cat([operand, operand.new_zeros((*operand.shape[:2], 1, operand.shape[-1]))], 2)


def _merged(attn_mask: Any, key_padding_mask: Any, batch: int, width: int) -> Any:
    """The sum of the masks; their dimensions of size 1 stay."""
    if key_padding_mask is None:
        return attn_mask
    for dim, expected in enumerate((batch, width)):
        if key_padding_mask.shape[dim] != expected:
            raise AssertionError(f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got {key_padding_mask.shape[dim]}")
    padding = key_padding_mask[:, None, None]
    return padding if attn_mask is None else attn_mask + padding


@composite(namespace="nn.functional")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads: projections of query, key and value, attention in each head, a projection of the heads' results.

    Args:
        query: ``(L, N, E)``, or ``(L, E)`` without batch.
        key, value: ``(S, N, Ek)`` and ``(S, N, Ev)``, or without batch.
        embed_dim_to_check: ``E``.
        num_heads: heads; divides ``E``.
        in_proj_weight: ``(3 * E, E)``, unless ``use_separate_proj_weight``.
        in_proj_bias: ``(3 * E,)`` or None.
        bias_k, bias_v: ``(1, 1, E)``, a position more of key and value; both or neither.
        add_zero_attn: add a position of zeros to key and value.
        dropout_p: probability of a weight of attention to be zeroed, in training.
        out_proj_weight, out_proj_bias: of the last projection.
        training: whether to drop.
        key_padding_mask: ``(N, S)``, bools, of which the true positions are left out, or numbers to add to the scores.
        need_weights: return the weights of attention; without them no matrix of scores is in memory whole.
        attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``, of bools or numbers.
        use_separate_proj_weight: use ``q_proj_weight``, ``k_proj_weight``, ``v_proj_weight`` for the first projections.
        static_k, static_v: ``(N * num_heads, S, E / num_heads)``, in place of the projected key and value.
        average_attn_weights: return the mean of the heads' weights.
        is_causal: a hint that ``attn_mask`` is the causal mask, which has to be given.
    Returns:
        The result, ``(L, N, E)``; the weights, ``(N, L, S)`` or ``(N, num_heads, L, S)``, or None.
    Raises:
        AssertionError: shapes that do not fit.
        RuntimeError: a mask that does not fit, or ``is_causal`` without one.
    Source: torch.nn.functional.multi_head_attention_forward. Vaswani et al. 2017.
    Example:
        >>> x = torch.randn(5, 2, 4)  # 5 positions, 2 samples
        >>> projections = torch.randn(12, 4), torch.zeros(12), None, None, False, 0.0, torch.eye(4), torch.zeros(4)
        >>> result, weights = F.multi_head_attention_forward(x, x, x, 4, 2, *projections)
        >>> result.shape, weights.shape, torch.allclose(weights.sum(-1), torch.ones(2, 5))
        (torch.Size([5, 2, 4]), torch.Size([2, 5, 5]), True)
    """
    batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _as_batches(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    key_padding_mask = canonical_mask(key_padding_mask, "key_padding_mask", none_or_dtype(attn_mask), "attn_mask", query.dtype)
    attn_mask, is_causal = _causal_or_masked(attn_mask, is_causal, key_padding_mask is None and not need_weights, query.dtype)
    _check_operands(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    head_dim = width // num_heads
    if use_separate_proj_weight:
        q, k, v = _projected_apart((query, key, value), (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    else:
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _check_mask(attn_mask, batch, num_heads, length, key.shape[0])
    if bias_k is not None or bias_v is not None:
        k, v = _with_biases(k, v, bias_k, bias_v, static_k, static_v)
        attn_mask, key_padding_mask = _widened(attn_mask), _widened(key_padding_mask)
    q = _in_heads(q, num_heads, head_dim)
    k, v = _keys_and_values(k, v, static_k, static_v, batch, num_heads, head_dim)
    if add_zero_attn:
        k, v = _with_zeros(k), _with_zeros(v)
        attn_mask, key_padding_mask = _widened(attn_mask), _widened(key_padding_mask)
    mask = _merged(attn_mask, key_padding_mask, batch, k.size(2))
    p = dropout_p if training else 0.0
    if need_weights:
        result, weights = _attended(q, k, v, mask, p, average_attn_weights)
    else:
        result, weights = resolve("nn.functional", "scaled_dot_product_attention")(q, k, v, mask, p, is_causal), None
    result = linear(result.permute(2, 0, 1, 3).reshape(length, batch, width), out_proj_weight, out_proj_bias)
    if batched:
        return result, weights
    return result.squeeze(1), None if weights is None else weights.squeeze(0)


def _widened(mask: Any) -> Any:
    """A mask that lets one more position through."""
    return None if mask is None else pad(mask, (0, 1))
