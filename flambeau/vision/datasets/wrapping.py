"""Data sets whose targets tell transforms what they are: masks, boxes. Source: torchvision.tv_tensors._dataset_wrapper."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...core.tensor import Tensor
from ..transforms._kernels.meta import convert_bounding_box_format, get_size
from ..tv_tensors import BoundingBoxes, BoundingBoxFormat, Mask
from .caltech import Caltech101, Caltech256
from .cifar import CIFAR10
from .classification import GTSRB, Imagenette
from .coco import CocoCaptions, CocoDetection
from .coco_masks import mask_of
from .detection import KITTI_FIELDS, WIDER_FIELDS, Cityscapes, Kitti, OxfordIIITPet, SBDataset, WIDERFace
from .faces import CelebA
from .folder import DatasetFolder
from .mnist import MNIST
from .vision import VisionDataset
from .voc import VOCDetection, VOCSegmentation

Keys = str | Collection[str] | None

VOC_CATEGORIES = (
    "__background__ aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep "
    "sofa train tvmonitor"
).split()
KITTI_CATEGORIES = "Car Van Truck Pedestrian Person_sitting Cyclist Tram Misc DontCare".split()


def wrap_dataset_for_transforms_v2(dataset: Any, target_keys: Keys = None) -> Any:
    """A data set whose samples transforms of the second version understand: boxes are ``BoundingBoxes`` with two corners, masks ``Mask``.

    Targets that are lists of records become dictionaries of lists. Its class is derived from that of ``dataset``, whose transforms it
    takes over.

    Args:
        dataset: a data set of this package, or derived from one.
        target_keys: which entries a target that is a dictionary has: ``"all"``, or names; boxes and labels, mostly, when None. For
            ``CocoDetection``, ``VOCDetection``, ``Kitti`` and ``WIDERFace`` alone.
    Returns: a data set of a class that is derived from that of ``dataset``.
    Raises:
        TypeError: no data set, or one that cannot be wrapped.
        ValueError: keys that there are not.
        RuntimeError: kinds of targets that cannot be wrapped.
    Source: torchvision.datasets.wrap_dataset_for_transforms_v2.
    Example:
        >>> dataset = wrap_dataset_for_transforms_v2(VOCDetection(root), target_keys=["boxes", "labels"])
        >>> image, target = dataset[0]
        >>> target["boxes"].format.name, target["labels"]
        ('XYXY', tensor([8]))
    """
    is_known = target_keys is None or isinstance(target_keys, Collection)
    if (
        not is_known
        or (isinstance(target_keys, str) and target_keys != "all")
        or not all(isinstance(key, str) for key in target_keys or ())
    ):
        raise ValueError(
            f"`target_keys` can be None, 'all', or a collection of strings denoting the keys to be returned, but got {target_keys}"
        )
    kind = type(f"Wrapped{type(dataset).__name__}", (_Wrapped, type(dataset)), {})
    return kind(dataset, target_keys)


class _Wrapped:
    """Stands before the class of a data set, whose ``__init__`` is not run again."""

    def __init__(self, dataset: Any, target_keys: Keys) -> None:
        self._convert, self._keys = _converter(dataset, target_keys)
        self._dataset, self._target_keys = dataset, target_keys
        # The data set gives its samples as they are; they are wrapped, then transformed here.
        for name in ("transform", "target_transform", "transforms"):
            setattr(self, name, getattr(dataset, name))
            setattr(dataset, name, None)

    def __getattr__(self, name: str) -> Any:
        if name == "_dataset":
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __getitem__(self, index: int) -> Any:
        image, target = self._dataset[index]
        target = self._convert(Sample(self._dataset, self._keys, index, image, target))
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def __len__(self) -> int:
        return len(self._dataset)

    def __reduce__(self) -> Any:
        dataset = copy.copy(self._dataset)
        for name in ("transform", "target_transform", "transforms"):
            setattr(dataset, name, getattr(self, name))
        return wrap_dataset_for_transforms_v2, (dataset, self._target_keys)


@dataclass(slots=True)
class Sample:
    """A sample whose target is to be wrapped.

    Attributes:
        keys: those that the target shall have, where it is a dictionary.
    """

    dataset: Any
    keys: Collection[str]
    index: int
    image: Any
    target: Any


@dataclass(frozen=True, slots=True)
class Converter:
    """The way to wrap the targets of a data set.

    Attributes:
        convert: function of a sample that gives its target.
        available, default: the keys of a target that is a dictionary: all, and those that it has where none are named.
        refused: attribute of the data set, and its values that cannot be wrapped.
        name: of a data set with such a value.
    """

    convert: Callable[[Sample], Any]
    available: Collection[str] = ()
    default: Collection[str] = ()
    refused: tuple[str, Collection[str]] = ("", ())
    name: str = ""


def _converter(dataset: Any, target_keys: Keys) -> tuple[Callable[[Sample], Any], Collection[str]]:
    """Function that wraps the targets of a data set, and which keys they have."""
    kind = type(dataset)
    if not isinstance(dataset, VisionDataset):
        raise TypeError(
            f"This wrapper is meant for subclasses of `torchvision.datasets.VisionDataset`, but got a '{kind.__name__}' instead."
        )
    base = next((base for base in kind.mro() if base in CONVERTERS), None)
    if base is None:
        raise TypeError(f"No wrapper exists for dataset class {kind.__name__}. Please wrap the output yourself.")
    converter = CONVERTERS[base]
    if target_keys is not None and not converter.available:
        raise ValueError(
            "`target_keys` is currently only supported for `CocoDetection`, `VOCDetection`, `Kitti`, and `WIDERFace`, "
            f"but got {base.__name__}."
        )
    attribute, refused = converter.refused
    value = getattr(dataset, attribute, ())
    if set(refused) & set([value] if isinstance(value, str) else value):
        raise RuntimeError(f"{converter.name} is currently not supported by this wrapper.")
    return converter.convert, _chosen(target_keys, converter.available, converter.default)


# -- parts of the converters ----------------------------------------------------------------------------------------------
def _chosen(target_keys: Keys, available: Collection[str], default: Collection[str]) -> set[str]:
    """The keys of a target.

    Raises:
        ValueError: keys that there are not.
    """
    if target_keys == "all":
        return set(available)
    keys = set(default if target_keys is None else target_keys)
    if extra := sorted(keys - set(available)):
        raise ValueError(f"Target keys {extra} are not available")
    return keys


def _lists(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """A list of records as lists of their values."""
    lists: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        for name, value in record.items():
            lists[name].append(value)
    return lists


def _canvas(image: Any) -> tuple[int, int]:
    height, width = get_size(image)
    return height, width


def _boxes(corners: Any, image: Any) -> Any:
    return BoundingBoxes(corners, format=BoundingBoxFormat.XYXY, canvas_size=_canvas(image))


def _boxes_of_sizes(values: Any, image: Any) -> Any:
    """Boxes that are given by a corner, width and height."""
    boxes = BoundingBoxes(values, format=BoundingBoxFormat.XYWH, canvas_size=_canvas(image))
    return convert_bounding_box_format(boxes, new_format=BoundingBoxFormat.XYXY)


def _by_type(target: Any, kinds: list[str], wrap: dict[str, Callable[[Any], Any]]) -> Any:
    """A target of several kinds, some of which are wrapped."""
    parts = list(target) if isinstance(target, tuple | list) else [target]
    wrapped = [wrap[kind](part) if kind in wrap else part for kind, part in zip(kinds, parts)]
    return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)


# -- converters, by data set ----------------------------------------------------------------------------------------------
def _unchanged(sample: Sample) -> Any:
    return sample.target


def _segmentation(sample: Sample) -> Any:
    return Mask(sample.target)


def _coco(sample: Sample) -> Any:
    number = sample.dataset.ids[sample.index]
    if not sample.target:
        return {"image_id": number}
    lists = _lists(sample.target)
    made: dict[str, Callable[[], Any]] = {
        "image_id": lambda: number,
        "boxes": lambda: _boxes_of_sizes(lists["bbox"], sample.image),
        "masks": lambda: Mask(np.stack([mask_of(outline, *_canvas(sample.image)) for outline in lists["segmentation"]])),
        "labels": lambda: ops.tensor(lists["category_id"]),
    }
    return {key: made[key]() if key in made else lists[key] for key in sorted(sample.keys)}


def _voc_detection(sample: Sample) -> Any:
    objects = sample.target["annotation"]["object"]
    result = dict(sample.target) if "annotation" in sample.keys else {}
    if "boxes" in sample.keys:
        sides = ("xmin", "ymin", "xmax", "ymax")
        result["boxes"] = _boxes([[int(record["bndbox"][side]) for side in sides] for record in objects], sample.image)
    if "labels" in sample.keys:
        result["labels"] = ops.tensor([VOC_CATEGORIES.index(record["name"]) for record in objects])
    return result


def _celeba(sample: Sample) -> Any:
    return _by_type(sample.target, sample.dataset.target_type, {"bbox": lambda box: _boxes_of_sizes(box, sample.image)})


def _kitti(sample: Sample) -> Any:
    if sample.target is None:
        return None
    lists = _lists(sample.target)
    result: dict[str, Any] = {key: lists[key] for key in sorted(set(sample.keys) - {"boxes", "labels"})}
    if "boxes" in sample.keys:
        result["boxes"] = _boxes(lists["bbox"], sample.image)
    if "labels" in sample.keys:
        result["labels"] = ops.tensor([KITTI_CATEGORIES.index(name) for name in lists["type"]])
    return result


def _pets(sample: Sample) -> Any:
    return None if sample.target is None else _by_type(sample.target, sample.dataset._target_types, {"segmentation": Mask})


def _instances(picture: Any) -> dict[str, Any]:
    """A mask and a label for each number on a picture: from 1,000 on it is 1,000 times the label, and counts instances."""
    levels = Mask(picture).as_subclass(Tensor)
    numbers = levels.unique()
    labels = ops.stack([number // 1000 if number >= 1000 else number for number in numbers])
    return {"masks": Mask(ops.stack([levels == number for number in numbers])), "labels": labels}


def _cityscapes(sample: Sample) -> Any:
    return _by_type(sample.target, sample.dataset.target_type, {"instance": _instances, "semantic": Mask})


def _wider_face(sample: Sample) -> Any:
    if sample.target is None:
        return None
    result = {key: sample.target[key] for key in WIDER_KEYS if key in sample.keys}
    if "bbox" in sample.keys:
        result["bbox"] = _boxes_of_sizes(sample.target["bbox"], sample.image)
    return result


COCO_KEYS = ("segmentation", "area", "iscrowd", "image_id", "bbox", "category_id", "boxes", "masks", "labels")
KITTI_KEYS = (*(field[0] for field in KITTI_FIELDS), "boxes", "labels")
WIDER_KEYS = ("bbox", *(name for name, _ in WIDER_FIELDS))
CONVERTERS: dict[type, Converter] = {
    **dict.fromkeys((Caltech256, CIFAR10, MNIST, GTSRB, DatasetFolder, Imagenette, CocoCaptions), Converter(_unchanged)),
    VOCSegmentation: Converter(_segmentation),
    SBDataset: Converter(_segmentation, refused=("mode", ["boundaries"]), name="SBDataset with mode='boundaries'"),
    Caltech101: Converter(
        _unchanged, refused=("target_type", ["annotation"]), name="Caltech101 dataset with `target_type=['annotation', ...]`"
    ),
    CocoDetection: Converter(_coco, COCO_KEYS, ("image_id", "boxes", "labels")),
    VOCDetection: Converter(_voc_detection, ("annotation", "boxes", "labels"), ("boxes", "labels")),
    CelebA: Converter(
        _celeba, refused=("target_type", ["attr", "landmarks"]), name="`CelebA` dataset with `target_type=['attr', 'landmarks', ...]`"
    ),
    Kitti: Converter(_kitti, KITTI_KEYS, ("boxes", "labels")),
    OxfordIIITPet: Converter(_pets),
    Cityscapes: Converter(
        _cityscapes, refused=("target_type", ["polygon", "color"]), name="`Cityscapes` dataset with `target_type=['polygon', 'color', ...]`"
    ),
    WIDERFace: Converter(_wider_face, WIDER_KEYS, WIDER_KEYS),
}
