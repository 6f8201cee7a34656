"""Transforms as functions, of images, videos, masks, boxes, points and PIL images.

Each looks up the kernel for the type of its input; the kernels are here, too (``resize_image``, ``resize_bounding_boxes`` and so on), and
take and return plain tensors. :func:`register_kernel` adds one for a kind of one's own.
"""

from __future__ import annotations

import warnings
from typing import Any

from ....tv_tensors import Video
from ... import functional as _classic
from ..._kernels import color, conversion, filters, meta, warps, windows
from ..._kernels.modes import InterpolationMode as InterpolationMode
from ..._kernels.registry import KERNELS as _KERNELS, is_pure_tensor as is_pure_tensor, register_kernel as register_kernel

_KINDS = ("image", "video", "mask", "bounding_boxes", "keypoints")
_OTHERS = {
    conversion: ("convert_image_dtype", "pil_to_tensor", "to_image", "to_pil_image"),
    filters: (),
    meta: (
        *("clamp_bounding_boxes", "clamp_keypoints", "convert_bounding_box_format", "get_image_num_channels"),
        *("sanitize_bounding_boxes", "sanitize_keypoints"),
    ),
    windows: ("hflip", "vflip"),
    warps: ("elastic_transform",),
    color: ("to_grayscale",),
}


def _shown() -> dict[str, Any]:
    """The functionals that look up kernels, their kernels, and what else belongs to them; a video's kernel is that of images."""
    shown: dict[str, Any] = {}
    functionals = [functional.__name__ for functional in _KERNELS]
    for module, others in _OTHERS.items():
        names = [*others, *functionals, *[f"{name}_{kind}" for name in functionals for kind in _KINDS]]
        shown.update((name, getattr(module, name)) for name in names if getattr(module, name, None) is not None)
    for functional, kernels in _KERNELS.items():
        if Video in kernels:
            shown.setdefault(f"{functional.__name__}_video", shown.get(f"{functional.__name__}_image"))
    return shown


globals().update(_shown())


def to_tensor(inpt: Any) -> Any:
    """Deprecated: ``to_image`` and ``to_dtype`` with ``scale=True`` do the same.

    Args:
        inpt: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        ``(C, H, W)``.
    Source: torchvision.transforms.v2.functional.to_tensor.
    Example:
        >>> import numpy as np
        >>> to_tensor(np.array([[0, 255]], dtype=np.uint8))
        tensor([[[0., 1.]]])
    """
    warnings.warn(
        "The function `to_tensor(...)` is deprecated and will be removed in a future release. "
        "Instead, please use `to_image(...)` followed by `to_dtype(..., dtype=torch.float32, scale=True)`.",
        stacklevel=2,
    )
    return _classic.to_tensor(inpt)


def get_image_size(inpt: Any) -> list[int]:
    """Deprecated: ``get_size`` returns height and width, this width and height.

    Args:
        inpt: a PIL image or a tensor ``(..., C, H, W)``.
    Returns:
        Two numbers.
    Source: torchvision.transforms.v2.functional.get_image_size.
    Example:
        >>> get_image_size(torch.ones(3, 4, 5))
        [5, 4]
    """
    warnings.warn(
        "The function `get_image_size(...)` is deprecated and will be removed in a future release. "
        "Instead, please use `get_size(...)` which returns `[h, w]` instead of `[w, h]`.",
        stacklevel=2,
    )
    return _classic.get_image_size(inpt)


__all__ = sorted([*_shown(), "InterpolationMode", "get_image_size", "is_pure_tensor", "register_kernel", "to_tensor"])
