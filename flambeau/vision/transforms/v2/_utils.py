"""Queries and checks of v2 transforms for their inputs and arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Number
from typing import Any

import PIL.Image

from ... import tv_tensors
from .._kernels.meta import get_dimensions, get_size
from .._kernels.registry import is_pure_tensor

__all__ = ["check_type", "get_bounding_boxes", "get_keypoints", "has_all", "has_any", "query_chw", "query_size"]

Check = type | Callable[[Any], bool]
_WITH_CHANNELS: tuple[Check, ...] = (is_pure_tensor, tv_tensors.Image, PIL.Image.Image, tv_tensors.Video)
_WITH_SIZE: tuple[Check, ...] = (*_WITH_CHANNELS, tv_tensors.Mask, tv_tensors.BoundingBoxes, tv_tensors.KeyPoints)


# -- inputs ------------------------------------------------------------------------------------------------------------------------------
def check_type(obj: Any, types_or_checks: Iterable[Check]) -> bool:
    """Whether ``obj`` is of one of the types or passes one of the checks.

    Args:
        obj: anything.
        types_or_checks: classes, or functions that tell by an object.
    Returns:
        A bool.
    Source: torchvision.transforms.v2.check_type.
    Example:
        >>> check_type(3, [int, str])
        True
    """
    return any(isinstance(obj, check) if isinstance(check, type) else check(obj) for check in types_or_checks)


def has_any(flat_inputs: Sequence[Any], *types_or_checks: Check) -> bool:
    """Whether one of the inputs is of one of the types.

    Args:
        flat_inputs: inputs, without their containers.
        types_or_checks: classes, or functions that tell by an object.
    Returns:
        A bool.
    Source: torchvision.transforms.v2.has_any.
    Example:
        >>> has_any([1, "a"], str, float)
        True
    """
    return any(check_type(inpt, types_or_checks) for inpt in flat_inputs)


def has_all(flat_inputs: Sequence[Any], *types_or_checks: Check) -> bool:
    """Whether there is an input of each of the types.

    Args:
        flat_inputs: inputs, without their containers.
        types_or_checks: classes, or functions that tell by an object.
    Returns:
        A bool.
    Source: torchvision.transforms.v2.has_all.
    Example:
        >>> has_all([1, "a"], str, float)
        False
    """
    return all(has_any(flat_inputs, check) for check in types_or_checks)


def _first(flat_inputs: Sequence[Any], kind: type, words: str) -> Any:
    for inpt in flat_inputs:
        if isinstance(inpt, kind):
            return inpt
    raise ValueError(f"No {words} were found in the sample")


def get_bounding_boxes(flat_inputs: Sequence[Any]) -> tv_tensors.BoundingBoxes:
    """The first boxes among the inputs.

    Args:
        flat_inputs: inputs, without their containers.
    Returns:
        The boxes.
    Raises:
        ValueError: there are none.
    Source: torchvision.transforms.v2.get_bounding_boxes.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> get_bounding_boxes(["label", boxes]) is boxes
        True
    """
    return _first(flat_inputs, tv_tensors.BoundingBoxes, "bounding boxes")


def get_keypoints(flat_inputs: Sequence[Any]) -> tv_tensors.KeyPoints:
    """The first points among the inputs.

    Args:
        flat_inputs: inputs, without their containers.
    Returns:
        The points.
    Raises:
        ValueError: there are none.
    Source: torchvision.transforms.v2.get_keypoints.
    Example:
        >>> points = tv_tensors.KeyPoints([[1, 2]], canvas_size=(8, 6))
        >>> get_keypoints(["label", points]) is points
        True
    """
    return _first(flat_inputs, tv_tensors.KeyPoints, "keypoints")


def _one(values: set[tuple[int, ...]], words: str, letters: str) -> tuple[int, ...]:
    if not values:
        raise TypeError(f"No {words} was found in the sample")
    if len(values) > 1:
        shown = ", ".join(f"'{value}'" for value in sorted(values))
        raise ValueError(f"Found multiple {letters} dimensions in the sample: {shown}")
    return values.pop()


def query_chw(flat_inputs: Sequence[Any]) -> tuple[int, int, int]:
    """Channels, height and width of all images and videos.

    Args:
        flat_inputs: inputs, without their containers.
    Returns:
        Three numbers.
    Raises:
        TypeError: there is none.
        ValueError: they differ.
    Source: torchvision.transforms.v2.query_chw.
    Example:
        >>> query_chw([tv_tensors.Image(torch.ones(3, 4, 5)), "label"])
        (3, 4, 5)
    """
    found = {tuple(get_dimensions(inpt)) for inpt in flat_inputs if check_type(inpt, _WITH_CHANNELS)}
    channels, height, width = _one(found, "image or video", "CxHxW")
    return channels, height, width


def query_size(flat_inputs: Sequence[Any]) -> tuple[int, int]:
    """Height and width of all inputs that have them.

    Args:
        flat_inputs: inputs, without their containers.
    Returns:
        Two numbers.
    Raises:
        TypeError: there is none.
        ValueError: they differ.
    Source: torchvision.transforms.v2.query_size.
    Example:
        >>> query_size([tv_tensors.Image(torch.ones(3, 4, 5)), "label"])
        (4, 5)
    """
    found = {tuple(get_size(inpt)) for inpt in flat_inputs if check_type(inpt, _WITH_SIZE)}
    height, width = _one(found, "image, video, mask, bounding box of keypoint", "HxW")
    return height, width


# -- labels ------------------------------------------------------------------------------------------------------------------------------
def _labels_of(inputs: Any) -> Any:
    """The second of two inputs, or what of a dictionary is called ``labels`` or has ``label`` in its name."""
    if isinstance(inputs, (tuple, list)):
        inputs = inputs[1]
    if is_pure_tensor(inputs):
        return inputs
    if not isinstance(inputs, Mapping):
        raise ValueError(
            "When using the default labels_getter, the input passed to forward must be a dictionary or a two-tuple "
            f"whose second item is a dictionary or a tensor, but got {inputs} instead."
        )
    named = [key for key in inputs if "label" in key.lower()]
    if not named:
        raise ValueError(
            "Could not infer where the labels are in the sample. Try passing a callable as the labels_getter parameter?"
            "If there are no labels in the sample by design, pass labels_getter=None."
        )
    return inputs[next((key for key in named if key.lower() == "labels"), named[0])]


def parse_labels_getter(labels_getter: Any) -> Callable[[Any], Any]:
    """The function that takes the labels out of the inputs."""
    if labels_getter == "default":
        return _labels_of
    if callable(labels_getter):
        return labels_getter
    if labels_getter is None:
        return lambda _: None
    raise ValueError(f"labels_getter should either be 'default', a callable, or None, but got {labels_getter}.")


# -- arguments ---------------------------------------------------------------------------------------------------------------------------
def setup_number_or_seq(value: Any, name: str) -> list[float]:
    """Two numbers, of one or a sequence of one or two."""
    if isinstance(value, (int, float)):
        return [float(value)] * 2
    if not isinstance(value, Sequence):
        raise TypeError(f"{name} should be a number or a sequence of numbers. Got {type(value)}")
    if len(value) not in (1, 2):
        raise ValueError(f"If {name} is a sequence its length should be 1 or 2. Got {len(value)}")
    for element in value:
        if not isinstance(element, (int, float)):
            raise ValueError(f"{name} should be a sequence of numbers. Got {type(element)}")
    return [float(value[0]), float(value[-1])]


def _checked_fill(fill: Any) -> Any:
    if fill is None or isinstance(fill, (int, float)):
        return fill
    if not isinstance(fill, (Number, tuple, list)):
        raise TypeError("Got inappropriate fill arg, only Numbers, tuples, lists and dicts are allowed.")
    return [float(value) for value in fill]  # type: ignore[union-attr]


def setup_fill(fill: Any) -> dict[Any, Any]:
    """``fill`` by type of input; ``'others'`` stands for the types that are not named."""
    if isinstance(fill, dict):
        for kind, value in fill.items():
            fill[kind] = _checked_fill(value)
        return fill
    return {"others": _checked_fill(fill)}


def fill_for(fills: dict[Any, Any], kind: type) -> Any:
    return fills.get(kind, fills.get("others"))


def check_padding(padding: Any) -> None:
    whole = [padding] if isinstance(padding, int) else padding
    if not isinstance(whole, (tuple, list)) or len(whole) not in (1, 2, 4) or not all(isinstance(side, int) for side in whole):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element of tuple or list, got {padding}.")
