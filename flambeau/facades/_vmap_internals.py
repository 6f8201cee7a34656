"""``torch._vmap_internals``: the first ``vmap`` under its private name, which packages still import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..func import vmap

__all__ = ["_vmap"]


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Callable[..., Any]:
    """:func:`torch.vmap`, in which drawing random numbers is an error.

    Raises:
        NotImplementedError: ``allow_none_pass_through``.
    """
    if allow_none_pass_through:
        raise NotImplementedError("torch._vmap_internals._vmap: allow_none_pass_through is not supported yet")
    return vmap(func, in_dims, out_dims)
