"""Constructors' arguments in the one form that transforms keep."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Number, Real
from typing import Any

from ....core.tensor import Tensor


def setup_size(size: Any, error_msg: str) -> Any:
    """Height and width, of a number or a sequence of one or two."""
    if isinstance(size, Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(error_msg)
    return size


def check_sequence(value: Any, name: str, sizes: tuple[int, ...]) -> None:
    lengths = " or ".join(map(str, sizes))
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a sequence of length {lengths}.")
    if len(value) not in sizes:
        raise ValueError(f"{name} should be a sequence of length {lengths}.")


def setup_angle(angle: Any, name: str, sizes: tuple[int, ...] = (2,)) -> list[float]:
    """Bounds of an angle, of a number's distance from 0 or a sequence."""
    if isinstance(angle, Real):
        if angle < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [float(-angle), float(angle)]  # an integer 0 has no sign
    check_sequence(angle, name, sizes)
    return [float(value) for value in angle]


def setup_affine(degrees: Any, translate: Any, scale: Any, shear: Any, center: Any) -> tuple[list[float], list[float] | None]:
    """Bounds of the angle and of the shear, after a look at the other arguments of a random affine map."""
    angles = setup_angle(degrees, "degrees")
    if translate is not None:
        check_sequence(translate, "translate", (2,))
        if not all(0.0 <= share <= 1.0 for share in translate):
            raise ValueError("translation values should be between 0 and 1")
    if scale is not None:
        check_sequence(scale, "scale", (2,))
        if any(factor <= 0 for factor in scale):
            raise ValueError("scale values should be positive")
    if center is not None:
        check_sequence(center, "center", (2,))
    return angles, None if shear is None else setup_angle(shear, "shear", (2, 4))


def jitter_bounds(value: Any, name: str, middle: float, least: float, most: float) -> tuple[float, float] | None:
    """Bounds of a factor, of its distance from ``middle`` or of two numbers; None where they are ``middle`` itself."""
    if isinstance(value, Real):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        low, high = middle - float(value), middle + float(value)
        if middle:  # a factor stays above 0
            low = max(low, 0.0)
    elif isinstance(value, Sequence) and len(value) == 2:
        low, high = float(value[0]), float(value[1])
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not least <= low <= high <= most:
        raise ValueError(f"{name} values should be between {(least, most)} and increasing, but got {[low, high]}.")
    return None if low == high == middle else (low, high)


def check_bounds(scale: Any, ratio: Any) -> None:
    if not isinstance(scale, Sequence):
        raise TypeError("Scale should be a sequence")
    if not isinstance(ratio, Sequence):
        raise TypeError("Ratio should be a sequence")
    if scale[0] > scale[1] or ratio[0] > ratio[1]:
        warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=3)


def check_erasing(scale: Any, ratio: Any, value: Any) -> None:
    if not isinstance(value, (Number, str, tuple, list)):
        raise TypeError("Argument value should be either a number or str or a sequence")
    if isinstance(value, str) and value != "random":
        raise ValueError("If value is str, it should be 'random'")
    check_bounds(scale, ratio)
    if scale[0] < 0 or scale[1] > 1:
        raise ValueError("Scale should be between 0 and 1")


def erased_value(value: Any) -> list[float] | None:
    """A number for each channel or for all; None for random ones."""
    if isinstance(value, str):
        return None
    return [float(number) for number in value] if isinstance(value, (list, tuple)) else [float(value)]


def check_linear_map(matrix: Tensor, mean: Tensor) -> None:
    if matrix.size(0) != matrix.size(1):
        raise ValueError(f"transformation_matrix should be square. Got {tuple(matrix.size())} rectangular matrix.")
    if mean.size(0) != matrix.size(0):
        raise ValueError(
            f"mean_vector should have the same length {mean.size(0)} as any one of the dimensions of the "
            f"transformation_matrix [{tuple(matrix.size())}]"
        )
    if matrix.device != mean.device:
        raise ValueError(f"Input tensors should be on the same device. Got {matrix.device} and {mean.device}")
    if matrix.dtype != mean.dtype:
        raise ValueError(f"Input tensors should have the same dtype. Got {matrix.dtype} and {mean.dtype}")
