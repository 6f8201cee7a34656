"""Attention of several heads as a layer."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Parameter, Tensor
from . import functional as F, init
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads: each attends with its own projections, and their results together are projected once more.

    Args:
        embed_dim: size of query and result, ``E``.
        num_heads: heads; divides ``embed_dim``.
        dropout: probability of a weight of attention to be zeroed in training.
        bias: whether the projections have biases.
        add_bias_kv: whether key and value get a position more, which is learnt.
        add_zero_attn: whether key and value get a position of zeros more.
        kdim, vdim: sizes of key and value; ``embed_dim`` when None.
        batch_first: whether the batch is the first dimension rather than the second.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        query ``(L, N, E)``, key ``(S, N, kdim)`` and value ``(S, N, vdim)`` to ``(L, N, E)`` and weights ``(N, L, S)``; ``N`` comes first
        with ``batch_first``, or is not there at all.
    Attributes:
        in_proj_weight: ``(3 * E, E)``, Xavier-uniform; ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight`` where sizes differ.
        in_proj_bias: ``(3 * E,)``, 0.
        bias_k, bias_v: ``(1, 1, E)``, Xavier-normal; None without ``add_bias_kv``.
        out_proj: the last projection, its bias 0.
    Raises:
        ValueError: sizes that are not positive.
        AssertionError: ``num_heads`` does not divide ``embed_dim``.
    Source: torch.nn.MultiheadAttention. Vaswani et al. 2017.
    Example:
        >>> attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        >>> query, memory = torch.zeros(3, 5, 8), torch.zeros(3, 7, 8)
        >>> result, weights = attention(query, memory, memory)
        >>> result.shape, weights.shape
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 7]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape: int) -> Parameter:
            return Parameter(ops.empty(shape, device=device, dtype=dtype))

        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = parameter(embed_dim, embed_dim)
            self.k_proj_weight = parameter(embed_dim, self.kdim)
            self.v_proj_weight = parameter(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = parameter(3 * embed_dim)
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        if add_bias_kv:
            self.bias_k = parameter(1, 1, embed_dim)
            self.bias_v = parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # older files do not have it
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result of attention and its weights; the arguments are those of ``multi_head_attention_forward``.

        Nested tensors attend within their sequences; this needs ``need_weights=False`` and no masks.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            self._check_nested(attn_mask is not None or key_padding_mask is not None or is_causal, need_weights)
            return self._of_nested(query, key, value), None
        key_padding_mask = F._canonical_mask(key_padding_mask, "key_padding_mask", F._none_or_dtype(attn_mask), "attn_mask", query.dtype)
        attn_mask = F._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        batched = query.dim() == 3
        if self.batch_first and batched:
            # Equal operands stay one tensor, which needs one product.
            same = query is key, key is value
            query = query.transpose(1, 0)
            key = query if same[0] else key.transpose(1, 0)
            value = key if same[1] else value.transpose(1, 0)
        result, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(1, 0) if self.batch_first and batched else result), weights

    def _check_nested(self, has_mask: bool, need_weights: bool) -> None:
        """Raise where nested tensors cannot be attended to.

        Raises:
            AssertionError: masks, weights, sequences that do not come after the batch, or operands of another size.
        """
        reasons = (
            (not self.batch_first, "batch_first was not True"),
            (not self._qkv_same_embed_dim, "_qkv_same_embed_dim was not True"),
            (self.bias_k is not None or self.add_zero_attn, "add_bias_kv or add_zero_attn was True"),
            (has_mask, "attn_mask, key_padding_mask or is_causal was given with NestedTensor input"),
            (need_weights, "need_weights was True"),
        )
        why_not = next((reason for holds, reason in reasons if holds), "")
        if why_not:
            raise AssertionError(
                f"MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not hit because {why_not}"
            )

    def _of_nested(self, *operands: Tensor) -> Tensor:
        weights = self.in_proj_weight.chunk(3)
        biases = self.in_proj_bias.chunk(3) if self.in_proj_bias is not None else (None,) * 3
        heads = [
            F.linear(operand, weight, bias).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for operand, weight, bias in zip(operands, weights, biases, strict=True)
        ]
        attended = F.scaled_dot_product_attention(*heads, dropout_p=self.dropout if self.training else 0.0)
        return self.out_proj(attended.transpose(1, 2).flatten(-2))

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor) -> tuple[Tensor | None, int | None]:
        """One mask of the two, and which it is: 0 of positions, 1 of padding, 2 both, ``(N, num_heads, L, S)``; None without masks.

        Args:
            attn_mask: ``(L, S)`` or ``(N * num_heads, L, S)``.
            key_padding_mask: ``(N, S)``.
            query: ``(N, L, E)``.
        """
        merged, kind = (key_padding_mask, 1) if key_padding_mask is not None else (None, None)
        if attn_mask is None:
            return merged, kind
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2
