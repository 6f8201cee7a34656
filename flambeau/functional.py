"""``torch.functional``: functions of ``torch`` that PyTorch writes in Python, under the name of their module."""

from __future__ import annotations

from typing import Any

from .ops import resolve

_NAMES = "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum istft lu"
_NAMES += " meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index"
__all__ = [*_NAMES.split()]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = resolve("torch", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
