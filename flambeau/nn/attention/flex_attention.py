"""``torch.nn.attention.flex_attention``: attention with scores and masks given as functions, which is not implemented yet."""

from __future__ import annotations

from ...facades import unsupported

_DEFAULT_SPARSE_BLOCK_SIZE = 128

globals().update(
    unsupported.names(
        "nn.attention.flex_attention",
        "and_masks create_block_mask create_mask create_nested_block_mask flex_attention noop_mask or_masks",
        "AuxOutput AuxRequest BlockMask",
    )
)
