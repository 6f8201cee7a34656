"""Data sets whose targets tell transforms what they are: masks, boxes. Source: torchvision.tv_tensors._dataset_wrapper."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any, NoReturn

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
Convert = Callable[[int, Any, Any], tuple[Any, Any]]  # of an index, its image and its target

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
    Raises:
        TypeError: no data set, or one that cannot be wrapped.
        ValueError: keys that there are not.
        RuntimeError: kinds of targets that cannot be wrapped.
    Source: torchvision.datasets.wrap_dataset_for_transforms_v2.
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
        self._convert = _converter(dataset, target_keys)
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
        sample = self._convert(index, *self._dataset[index])
        return sample if self.transforms is None else self.transforms(*sample)

    def __len__(self) -> int:
        return len(self._dataset)

    def __reduce__(self) -> Any:
        dataset = copy.copy(self._dataset)
        for name in ("transform", "target_transform", "transforms"):
            setattr(dataset, name, getattr(self, name))
        return wrap_dataset_for_transforms_v2, (dataset, self._target_keys)


def _converter(dataset: Any, target_keys: Keys) -> Convert:
    """Function that wraps the samples of a data set."""
    kind = type(dataset)
    if not isinstance(dataset, VisionDataset):
        raise TypeError(
            f"This wrapper is meant for subclasses of `torchvision.datasets.VisionDataset`, but got a '{kind.__name__}' instead."
        )
    base = next((base for base in kind.mro() if base in CONVERTERS), None)
    if base is None:
        raise TypeError(f"No wrapper exists for dataset class {kind.__name__}. Please wrap the output yourself.")
    if target_keys is not None and base not in (CocoDetection, VOCDetection, Kitti, WIDERFace):
        raise ValueError(
            "`target_keys` is currently only supported for `CocoDetection`, `VOCDetection`, `Kitti`, and `WIDERFace`, "
            f"but got {base.__name__}."
        )
    return CONVERTERS[base](dataset, target_keys)


# -- parts of the converters ----------------------------------------------------------------------------------------------
def _not_supported(what: str) -> NoReturn:
    raise RuntimeError(f"{what} is currently not supported by this wrapper.")


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
def _unchanged(dataset: Any, target_keys: Keys) -> Convert:
    return lambda index, image, target: (image, target)


def _segmentation(dataset: Any, target_keys: Keys) -> Convert:
    return lambda index, image, target: (image, Mask(target))


def _boundaries(dataset: Any, target_keys: Keys) -> Convert:
    if dataset.mode == "boundaries":
        _not_supported("SBDataset with mode='boundaries'")
    return _segmentation(dataset, target_keys)


def _caltech101(dataset: Any, target_keys: Keys) -> Convert:
    if "annotation" in dataset.target_type:
        _not_supported("Caltech101 dataset with `target_type=['annotation', ...]`")
    return _unchanged(dataset, target_keys)


def _coco(dataset: Any, target_keys: Keys) -> Convert:
    native = ("segmentation", "area", "iscrowd", "image_id", "bbox", "category_id")
    keys = _chosen(target_keys, (*native, "boxes", "masks", "labels"), ("image_id", "boxes", "labels"))

    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        number = dataset.ids[index]
        if not target:
            return image, {"image_id": number}
        lists = _lists(target)
        made: dict[str, Callable[[], Any]] = {
            "image_id": lambda: number,
            "boxes": lambda: _boxes_of_sizes(lists["bbox"], image),
            "masks": lambda: Mask(np.stack([mask_of(outline, *_canvas(image)) for outline in lists["segmentation"]])),
            "labels": lambda: ops.tensor(lists["category_id"]),
        }
        return image, {key: made[key]() if key in made else lists[key] for key in sorted(keys)}

    return convert


def _voc_detection(dataset: Any, target_keys: Keys) -> Convert:
    keys = _chosen(target_keys, ("annotation", "boxes", "labels"), ("boxes", "labels"))

    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        objects = target["annotation"]["object"]
        result = dict(target) if "annotation" in keys else {}
        if "boxes" in keys:
            sides = ("xmin", "ymin", "xmax", "ymax")
            result["boxes"] = _boxes([[int(record["bndbox"][side]) for side in sides] for record in objects], image)
        if "labels" in keys:
            result["labels"] = ops.tensor([VOC_CATEGORIES.index(record["name"]) for record in objects])
        return image, result

    return convert


def _celeba(dataset: Any, target_keys: Keys) -> Convert:
    if {"attr", "landmarks"} & set(dataset.target_type):
        _not_supported("`CelebA` dataset with `target_type=['attr', 'landmarks', ...]`")

    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        return image, _by_type(target, dataset.target_type, {"bbox": lambda box: _boxes_of_sizes(box, image)})

    return convert


def _kitti(dataset: Any, target_keys: Keys) -> Convert:
    keys = _chosen(target_keys, (*(field[0] for field in KITTI_FIELDS), "boxes", "labels"), ("boxes", "labels"))

    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        if target is None:
            return image, None
        lists = _lists(target)
        result: dict[str, Any] = {key: lists[key] for key in sorted(keys - {"boxes", "labels"})}
        if "boxes" in keys:
            result["boxes"] = _boxes(lists["bbox"], image)
        if "labels" in keys:
            result["labels"] = ops.tensor([KITTI_CATEGORIES.index(name) for name in lists["type"]])
        return image, result

    return convert


def _pets(dataset: Any, target_keys: Keys) -> Convert:
    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        return image, None if target is None else _by_type(target, dataset._target_types, {"segmentation": Mask})

    return convert


def _cityscapes(dataset: Any, target_keys: Keys) -> Convert:
    if {"polygon", "color"} & set(dataset.target_type):
        _not_supported("`Cityscapes` dataset with `target_type=['polygon', 'color', ...]`")

    def instances(picture: Any) -> dict[str, Any]:
        """A mask and a label for each number on a picture: from 1,000 on it is 1,000 times the label, and counts instances."""
        levels = Mask(picture).as_subclass(Tensor)
        numbers = levels.unique()
        labels = ops.stack([number // 1000 if number >= 1000 else number for number in numbers])
        return {"masks": Mask(ops.stack([levels == number for number in numbers])), "labels": labels}

    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        return image, _by_type(target, dataset.target_type, {"instance": instances, "semantic": Mask})

    return convert


def _wider_face(dataset: Any, target_keys: Keys) -> Convert:
    available = ("bbox", *(name for name, _ in WIDER_FIELDS))
    keys = _chosen(target_keys, available, available)

    def convert(index: int, image: Any, target: Any) -> tuple[Any, Any]:
        if target is None:
            return image, None
        result = {key: target[key] for key in available if key in keys}
        if "bbox" in keys:
            result["bbox"] = _boxes_of_sizes(target["bbox"], image)
        return image, result

    return convert


CONVERTERS: dict[type, Callable[[Any, Keys], Convert]] = {
    **dict.fromkeys((Caltech256, CIFAR10, MNIST, GTSRB, DatasetFolder, Imagenette, CocoCaptions), _unchanged),
    VOCSegmentation: _segmentation,
    SBDataset: _boundaries,
    Caltech101: _caltech101,
    CocoDetection: _coco,
    VOCDetection: _voc_detection,
    CelebA: _celeba,
    Kitti: _kitti,
    OxfordIIITPet: _pets,
    Cityscapes: _cityscapes,
    WIDERFace: _wider_face,
}
