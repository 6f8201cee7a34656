"""Ways to take values between pixels."""

from __future__ import annotations

from enum import Enum
from typing import Any

from PIL.Image import Resampling


class InterpolationMode(Enum):
    """Interpolation between pixels; ``BOX`` and ``HAMMING`` are for PIL images alone.

    Source: torchvision.transforms.InterpolationMode.
    Example:
        >>> InterpolationMode('bicubic')
        <InterpolationMode.BICUBIC: 'bicubic'>
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR  # the defaults of functions
PIL_MODES = {mode: int(Resampling[mode.name.removesuffix("_EXACT")]) for mode in InterpolationMode}
_OF_PIL = {number: mode for mode, number in PIL_MODES.items() if mode is not InterpolationMode.NEAREST_EXACT}
_OF_NAME = {mode.value: mode for mode in InterpolationMode}


def mode_from_int(number: int) -> InterpolationMode:
    """The mode that Pillow calls by this number."""
    return _OF_PIL[number]


def checked_mode(interpolation: Any) -> InterpolationMode:
    """The mode that is meant by its name, by Pillow's number or by itself.

    Raises:
        ValueError: none of these.
    """
    if isinstance(interpolation, str):
        if interpolation not in _OF_NAME:
            raise ValueError(f"Invalid interpolation mode: '{interpolation}'. Supported string values are: {list(_OF_NAME)}.")
        return _OF_NAME[interpolation]
    if isinstance(interpolation, int):
        return mode_from_int(interpolation)
    if not isinstance(interpolation, InterpolationMode):
        raise ValueError(
            f"Argument interpolation should be an `InterpolationMode` or a corresponding Pillow integer constant, but got {interpolation}."
        )
    return interpolation
