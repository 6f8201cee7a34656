"""Operators of ONNX's for programs: some are computed, any other becomes a node of an exported model. Source: torch.onnx.ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..aten.namespaces import ops
from ..core.dtype import dtype as Dtype
from ..core.tensor import Tensor
from . import operators23

__all__ = ["aten_decompositions", "attention", "rotary_embedding", "symbolic", "symbolic_multi_out"]

_ATTRIBUTES = (  # types of attributes: a word, the lists that keep them, and what makes one; truth values are integers
    ((int,), "i", int),
    ((float,), "f", float),
    ((str,), "s", str),
)


def aten_decompositions() -> dict[Any, Callable[..., Any]]:
    """The parts of the operators that are computed, for ``ExportedProgram.run_decompositions``.

    Returns:
        Functions by overload.
    Source: torch.onnx.ops.aten_decompositions.
    Example:
        >>> from flambeau.onnx.ops import aten_decompositions
        >>> sorted(str(each) for each in aten_decompositions())
        ['onnx.Attention.opset23', 'onnx.RotaryEmbedding.opset23']
    """
    return {getattr(ops.onnx, name).opset23: function for name, function in operators23.COMPUTED.items()}


def rotary_embedding(
    X: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: bool = False,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of elements of each token turned by the angles of its position: ONNX's ``RotaryEmbedding``, of operator set 23.

    Args:
        X: ``(batch, heads, length, size)``, or ``(batch, length, heads * size)`` with ``num_heads``.
        cos_cache, sin_cache: ``(positions, size / 2)`` with ``position_ids``, ``(batch, length, size / 2)`` without.
        position_ids: ``(batch, length)``, int64. interleaved: pairs are neighbours, and not from both halves.
        num_heads: of a tensor of three dimensions. rotary_embedding_dim: how many elements of each head are turned; all when 0.
    Returns:
        ``X``'s shape and dtype.
    Raises:
        RuntimeError: shapes that do not fit.
    Source: torch.onnx.ops.rotary_embedding; Su et al., RoFormer, 2021.
    Example:
        >>> from flambeau.onnx.ops import rotary_embedding
        >>> angles = torch.tensor([[[0.0], [torch.pi / 2]]])
        >>> rotary_embedding(torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]), angles.cos(), angles.sin()).round().abs()
        tensor([[[[1., 0.],
                  [0., 1.]]]])
    """
    found: Tensor = ops.onnx.RotaryEmbedding.opset23(
        X, cos_cache, sin_cache, position_ids,
        interleaved=interleaved, num_heads=num_heads, rotary_embedding_dim=rotary_embedding_dim,
    )  # fmt: skip
    return found


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int = 0,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention beside a cache of keys and values: ONNX's ``Attention``, of operator set 23.

    Args:
        Q: ``(batch, heads, length, size)``. K, V: ``(batch, kv_heads, kv_length, size)``; the number of heads divides that of ``Q``.
            All may have three dimensions, ``(batch, length, heads * size)``, with ``q_num_heads`` and ``kv_num_heads``.
        attn_mask: broadcast to the scores: truth values, False where nothing is looked at, or numbers that are added.
        past_key, past_value: ``(batch, kv_heads, past_length, size)``, in front of ``K`` and ``V``.
        is_causal: no query looks at a later key, counted from the first key.
        qk_matmul_output_mode: what of the scores is returned: the products (0), with the mask (1), capped (2), the weights (3).
        scale: of the products; the inverse root of ``size`` when None. softcap: scores are between minus and plus it; 0 for none.
        softmax_precision: ONNX's number of the dtype in which weights are computed.
    Returns:
        The result, ``Q``'s shape with ``V``'s size; keys and values with those of the past; the scores.
    Raises:
        RuntimeError: shapes that do not fit, or ``attn_mask`` with ``is_causal``.
    Source: torch.onnx.ops.attention.
    Example:
        >>> from flambeau.onnx.ops import attention
        >>> result, keys, values, scores = attention(torch.zeros(1, 1, 1, 2), torch.ones(1, 1, 2, 2), torch.arange(4.0).view(1, 1, 2, 2))
        >>> result, scores.shape
        (tensor([[[[1., 2.]]]]), torch.Size([1, 1, 1, 2]))
    """
    found: tuple[Tensor, Tensor, Tensor, Tensor] = ops.onnx.Attention.opset23(
        Q, K, V, attn_mask, past_key, past_value,
        is_causal=is_causal, kv_num_heads=kv_num_heads, q_num_heads=q_num_heads, qk_matmul_output_mode=qk_matmul_output_mode, scale=scale,
        softcap=softcap, softmax_precision=softmax_precision,
    )  # fmt: skip
    return found


def symbolic(
    domain_op: str,
    /,
    inputs: Sequence[Tensor | None],
    attrs: dict[str, Any] | None = None,
    *,
    dtype: Dtype | int,
    shape: Sequence[int],
    version: int | None = None,
    metadata_props: dict[str, str] | None = None,
) -> Tensor:
    """A node of any kind in an exported model; zeros where a program runs.

    Args:
        domain_op: its domain and its kind: ``my_domain::Kind``, or one of ONNX's own, ``Relu``.
        inputs: tensors; None for one that is left out.
        attrs: attributes: numbers, strings, truth values, or lists of these.
        dtype: of the result, or ONNX's number of it. shape: of the result.
        version: of the domain. metadata_props: notes for the node.
    Returns:
        ``shape``, ``dtype``.
    Raises:
        ValueError: an attribute of another type, or an empty list.
        RuntimeError: a number of no dtype.
    Source: torch.onnx.ops.symbolic.
    Example:
        >>> from flambeau.onnx.ops import symbolic
        >>> symbolic("my_domain::Bend", [torch.ones(2)], {"alpha": 0.5}, dtype=torch.float32, shape=[2], version=1)
        tensor([0., 0.])
    """
    made: Tensor = ops.onnx_symbolic._symbolic.default(
        inputs, *_kind(domain_op)[1:], _number(dtype), shape=shape, **_described(domain_op, attrs, version, metadata_props)
    )
    return made


def symbolic_multi_out(
    domain_op: str,
    /,
    inputs: Sequence[Tensor | None],
    attrs: dict[str, Any] | None = None,
    *,
    dtypes: Sequence[Dtype | int],
    shapes: Sequence[Sequence[int]],
    version: int | None = None,
    metadata_props: dict[str, str] | None = None,
) -> Sequence[Tensor]:
    """``symbolic`` with several results.

    Args:
        domain_op, inputs, attrs, version, metadata_props: as there. dtypes, shapes: of each result.
    Returns:
        A list of tensors.
    Raises:
        ValueError: an attribute of another type, or an empty list.
        RuntimeError: a number of no dtype, or not as many dtypes as shapes.
    Source: torch.onnx.ops.symbolic_multi_out.
    Example:
        >>> from flambeau.onnx.ops import symbolic_multi_out
        >>> symbolic_multi_out("my_domain::Halves", [torch.ones(2)], dtypes=[torch.float32, torch.int64], shapes=[[1], [1]], version=1)
        [tensor([0.]), tensor([0])]
    """
    if len(shapes) != len(dtypes):
        raise RuntimeError(f"Number of shapes ({len(shapes)}) must match number of dtypes ({len(dtypes)})")
    made: Sequence[Tensor] = ops.onnx_symbolic._symbolic_multi_out.default(
        inputs, *_kind(domain_op)[1:], [_number(dtype) for dtype in dtypes], shapes=shapes,
        **_described(domain_op, attrs, version, metadata_props),
    )  # fmt: skip
    return made


def _kind(domain_op: str) -> tuple[str, str]:
    domain, _, kind = domain_op.rpartition("::")
    return domain, kind


def _number(dtype: Dtype | int) -> int:
    """ONNX's number of a dtype."""
    if isinstance(dtype, int):
        operators23.dtype_of(dtype)
        return dtype
    return next(number for number, known in operators23.DTYPES.items() if known is dtype)


def _described(domain_op: str, attrs: dict[str, Any] | None, version: int | None, notes: dict[str, str] | None) -> dict[str, Any]:
    """All that the node has, as lists of integers, floats and strings, with each attribute's place in them."""
    lists: dict[str, list[Any]] = {"i": [], "f": [], "s": []}
    types, places = [], []
    for key, value in (attrs or {}).items():
        several = isinstance(value, (list, tuple))
        values = list(value) if several else [value]
        if not values:
            raise ValueError(f"Empty sequence for attribute {key}")
        word, convert = next(((word, convert) for kinds, word, convert in _ATTRIBUTES if isinstance(values[0], kinds)), ("", None))
        if convert is None:
            raise ValueError(f"Unsupported attribute type for {key}: {type(value)}")
        places.append([len(lists[word]), len(lists[word]) + len(values)])
        lists[word] += [convert(each) for each in values]
        types.append(word + "s" * several)
    return {
        "attr_keys": list(attrs or {}), "attr_types": types, "attr_pos": places,
        "attr_ints": lists["i"], "attr_floats": lists["f"], "attr_strs": lists["s"],
        "metadata_props_keys": list(notes or {}), "metadata_props_values": list((notes or {}).values()),
        "domain": _kind(domain_op)[0], "version": version,
    }  # fmt: skip
