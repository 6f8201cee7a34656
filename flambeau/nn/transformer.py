"""The Transformer of "Attention Is All You Need": encoder, decoder, and both together."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

from .. import ops
from ..autograd.grad_mode import is_grad_enabled
from ..backends import mha
from ..core.arrays.hollow import HollowArray
from ..core.device import device as Device
from ..core.dtype import dtype as Dtype
from ..core.tensor import Tensor
from . import functional as F
from .activation import GELU, ReLU
from .containers import ModuleList
from .dropout import Dropout
from .init import xavier_uniform_
from .linear import Linear
from .module import Module
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer"]

Activation = str | Callable[[Tensor], Tensor]


# -- masks ---------------------------------------------------------------------------------------------------------------------
def _generate_square_subsequent_mask(sz: int, device: Device | None = None, dtype: Dtype | None = None) -> Tensor:
    """The causal mask to add to scores: minus infinity above the diagonal."""
    return ops.triu(ops.full((sz, sz), -math.inf, dtype=dtype, device=device), diagonal=1)


def _get_seq_len(src: Tensor, batch_first: bool) -> int | None:
    if src.is_nested:
        return None
    return src.size(0) if src.dim() == 2 else src.size(1 if batch_first else 0)


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether ``mask`` is the causal mask: ``is_causal``, or when that is None, a comparison of the values."""
    if is_causal is not None or mask is None:
        return is_causal is True
    causal = _generate_square_subsequent_mask(mask.size(-2) if size is None else size, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _added(mask: Tensor | None, name: str, other: Tensor | None, other_name: str, dtype: Any, check_other: bool = True) -> Any:
    return F._canonical_mask(mask, name, F._none_or_dtype(other), other_name, dtype, check_other)


# -- layers --------------------------------------------------------------------------------------------------------------------
def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _get_clones(module: Module, N: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two linear layers, each with a residual connection and layer normalization.

    Args:
        d_model: size of an element of the sequence, ``E``.
        nhead: heads of attention.
        dim_feedforward: size between the two linear layers.
        dropout: probability of an element to be zeroed, in four places.
        activation: between the two linear layers; ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to the variance in layer normalization.
        batch_first: whether the batch is the first dimension rather than the second.
        norm_first: normalize before attention and network rather than after the residual connection.
        bias: whether linear layers and normalizations have biases.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(S, N, E)``, ``(N, S, E)`` with ``batch_first``, or ``(S, E)``, to the same.
    Source: torch.nn.TransformerEncoderLayer. Vaswani et al. 2017; Xiong et al. 2020 for ``norm_first``.
    Example:
        >>> layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> layer(torch.zeros(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        if activation is F.relu or isinstance(activation, ReLU):
            self.activation_relu_or_gelu = 1
        elif activation is F.gelu or isinstance(activation, GELU):
            self.activation_relu_or_gelu = 2
        else:
            self.activation_relu_or_gelu = 0
        self.activation = activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """The sequence through the layer.

        Args:
            src: the sequence.
            src_mask: ``(S, S)`` or ``(N * nhead, S, S)``, added to the scores, or bools that leave positions out.
            src_key_padding_mask: ``(N, S)``, likewise for all rows.
            is_causal: a hint that ``src_mask`` is the causal mask.
        """
        src_key_padding_mask = _added(src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype)
        src_mask = _added(src_mask, "src_mask", None, "", src.dtype, False)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False) -> Tensor:
        attended = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal)
        return self.dropout1(attended[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's result, and a network of two linear layers, each with a residual connection and
    layer normalization.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: as for
            ``TransformerEncoderLayer``.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(T, N, E)`` and memory ``(S, N, E)`` to ``(T, N, E)``; ``N`` first with ``batch_first``, or not there.
    Source: torch.nn.TransformerDecoderLayer. Vaswani et al. 2017.
    Example:
        >>> layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> layer(torch.zeros(3, 5, 8), memory=torch.zeros(3, 7, 8)).shape
        torch.Size([3, 5, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **place)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("activation", F.relu)
        super().__setstate__(state)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The sequence through the layer.

        Args:
            tgt: the sequence.
            memory: the encoder's result.
            tgt_mask, tgt_key_padding_mask, tgt_is_causal: masks of the self-attention, and a hint that ``tgt_mask`` is causal.
            memory_mask, memory_key_padding_mask, memory_is_causal: the same of the attention to ``memory``.
        """
        of_self = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        of_memory = memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *of_self)
            x = x + self._mha_block(self.norm2(x), memory, *of_memory)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *of_self))
        x = self.norm2(x + self._mha_block(x, memory, *of_memory))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False) -> Tensor:
        attended = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False)
        return self.dropout1(attended[0])

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )
        return self.dropout2(attended[0])

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


# -- stacks --------------------------------------------------------------------------------------------------------------------
def _why_not_nested(layer: Any) -> str:
    """Why PyTorch's encoder would not pack padded sequences through layers like this; empty if it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, "norm_first was True"),
        (not attention.batch_first, "self_attn.batch_first was not True(use batch_first for better inference performance)"),
        (not attention._qkv_same_embed_dim, "self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, "self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, "activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, "norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, "self_attn.num_heads is odd"),
    )
    return next((f"encoder_layer.{reason}" for holds, reason in reasons if holds), "")


class TransformerEncoder(Module):
    """A stack of encoder layers: copies of one, with equal weights at first.

    Args:
        encoder_layer: the layer.
        num_layers: how many.
        norm: applied to the result, or None.
        enable_nested_tensor: in evaluation without gradients, let padding at the sequences' ends be 0 in the result, as in PyTorch,
            which leaves it out of the computation.
        mask_check: whether that depends on a look at the mask; otherwise padding is taken to be at the end.
    Shape:
        that of the layer.
    Source: torch.nn.TransformerEncoder.
    Example:
        >>> layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> encoder = nn.TransformerEncoder(layer, num_layers=3, norm=nn.LayerNorm(8))
        >>> encoder(torch.zeros(3, 5, 8)).shape, len(encoder.layers)
        (torch.Size([3, 5, 8]), 3)
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm, self.enable_nested_tensor = num_layers, norm, enable_nested_tensor
        why_not = _why_not_nested(encoder_layer) if enable_nested_tensor else ""
        self.use_nested_tensor = enable_nested_tensor and not why_not
        self.mask_check = mask_check
        if why_not:
            warnings.warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}", stacklevel=2)

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None
    ) -> Tensor:
        """The sequence through all layers.

        Args:
            src: the sequence.
            mask, src_key_padding_mask: as ``src_mask`` and ``src_key_padding_mask`` of the layer.
            is_causal: a hint that ``mask`` is the causal mask; found out when None.
        """
        padding = _added(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype)
        mask = _added(mask, "mask", None, "", src.dtype, False)
        zero_padding = self._leaves_padding_out(src, mask, padding)
        first: Any = self.layers[0]
        is_causal = _detect_is_causal_mask(mask, is_causal, _get_seq_len(src, first.self_attn.batch_first))
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if zero_padding:
            output = output.masked_fill(padding.ne(0.0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _leaves_padding_out(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> bool:
        """Whether PyTorch would compute without the padding and put zeros in its place."""
        first: Any = self.layers[0]
        if padding is None or mask is not None or not getattr(self, "use_nested_tensor", False):
            return False
        if first.training or src.dim() != 3 or not mha.get_fastpath_enabled() or isinstance(padding._array, HollowArray):
            return False
        if is_grad_enabled() and (src.requires_grad or any(parameter.requires_grad for parameter in first.parameters())):
            return False
        if not getattr(self, "mask_check", True):
            return True
        kept = padding.eq(0.0)
        return bool((kept[:, 1:] <= kept[:, :-1]).all())  # no position after the first one that is left out


class TransformerDecoder(Module):
    """A stack of decoder layers: copies of one, with equal weights at first.

    Args:
        decoder_layer: the layer.
        num_layers: how many.
        norm: applied to the result, or None.
    Shape:
        that of the layer.
    Source: torch.nn.TransformerDecoder.
    Example:
        >>> layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> decoder = nn.TransformerDecoder(layer, num_layers=3)
        >>> decoder(torch.zeros(3, 5, 8), memory=torch.zeros(3, 7, 8)).shape
        torch.Size([3, 5, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The sequence through all layers; the arguments are the layer's, and ``tgt_is_causal`` is found out when None."""
        first: Any = self.layers[0]
        tgt_is_causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, _get_seq_len(tgt, first.self_attn.batch_first))
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """Encoder and decoder.

    Args:
        d_model: size of an element of the sequences, ``E``.
        nhead: heads of attention.
        num_encoder_layers, num_decoder_layers: layers of each.
        dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: as for ``TransformerEncoderLayer``.
        custom_encoder, custom_decoder: modules to use instead, or None.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        source ``(S, N, E)`` and target ``(T, N, E)`` to ``(T, N, E)``; ``N`` first with ``batch_first``, or not there.
    Attributes:
        All weights of two dimensions are Xavier-uniform.
    Raises:
        RuntimeError: at the call, batches of different sizes, or elements of another size than ``d_model``.
    Source: torch.nn.Transformer. Vaswani et al. 2017.
    Example:
        >>> model = nn.Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16, batch_first=True)
        >>> model(torch.zeros(3, 5, 8), torch.zeros(3, 7, 8)).shape
        torch.Size([3, 7, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            encoder_layer = TransformerEncoderLayer(*layer, **place)
            encoder_norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            self.encoder = TransformerEncoder(encoder_layer, num_encoder_layers, encoder_norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            decoder_layer = TransformerDecoderLayer(*layer, **place)
            decoder_norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            self.decoder = TransformerDecoder(decoder_layer, num_decoder_layers, decoder_norm)
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The target sequence through the decoder, which sees the source sequence through the encoder.

        Args:
            src, tgt: the sequences.
            src_mask, src_key_padding_mask, src_is_causal: masks of the encoder, and a hint that ``src_mask`` is causal.
            tgt_mask, tgt_key_padding_mask, tgt_is_causal: the same of the decoder's self-attention.
            memory_mask, memory_key_padding_mask, memory_is_causal: the same of the decoder's attention to the encoder's result.
        Raises:
            RuntimeError: batches of different sizes, or elements of another size than ``d_model``.
        """
        batch_dim = 0 if self.batch_first else 1
        if src.size(batch_dim) != tgt.size(batch_dim) and src.dim() == 3:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device | None = None, dtype: Dtype | None = None) -> Tensor:
        """The causal mask ``(sz, sz)`` to add to scores: minus infinity above the diagonal, 0 elsewhere.

        Source: torch.nn.Transformer.generate_square_subsequent_mask.
        """
        return _generate_square_subsequent_mask(sz, device, dtype)
