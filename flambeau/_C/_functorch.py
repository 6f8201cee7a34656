"""``torch._C._functorch``: no tensor is part of a transformed function."""

from __future__ import annotations

from typing import Any

from .. import _unsupported

__all__ = ["is_batchedtensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor", "is_legacy_batchedtensor"]


def is_batchedtensor(tensor: Any) -> bool:
    """Whether a tensor stands for a batch within ``vmap``: False."""
    return False


is_legacy_batchedtensor = is_gradtrackingtensor = is_functorch_wrapped_tensor = is_batchedtensor

globals().update(_unsupported.names("_C._functorch", "_add_batch_dim _remove_batch_dim get_unwrapped maybe_get_bdim maybe_get_level"))
