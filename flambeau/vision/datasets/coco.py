"""Photographs with captions, or with boxes and outlines, of Microsoft's COCO. Source: torchvision.datasets.coco."""

from __future__ import annotations

import importlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .folder import pil_loader
from .vision import Root, Transform, VisionDataset


class AnnotationFile:
    """Images, annotations and categories of a file of annotations, by number.

    The names are those of ``COCO`` of the package pycocotools, which takes its place where it is installed, as programs pass it on.

    Args:
        annotation_file: a JSON file.
    Attributes:
        dataset: what the file holds.
        imgs, anns, cats: records by number.
        imgToAnns: annotations by the number of their image.
    Raises:
        RuntimeError: no JSON, or no images in it.
    """

    def __init__(self, annotation_file: Root) -> None:
        try:
            with open(annotation_file) as file:
                self.dataset = json.load(file)
            self.imgs = {record["id"]: record for record in self.dataset["images"]}
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(f"{annotation_file} is damaged, or no file of annotations: {error!r}") from error
        self.anns = {record["id"]: record for record in self.dataset.get("annotations", ())}
        self.cats = {record["id"]: record for record in self.dataset.get("categories", ())}
        self.imgToAnns: dict[int, list[Any]] = defaultdict(list)
        for record in self.dataset.get("annotations", ()):
            self.imgToAnns[record["image_id"]].append(record)

    def getImgIds(self) -> list[int]:
        return list(self.imgs)

    def getCatIds(self) -> list[int]:
        return list(self.cats)

    def getAnnIds(self, imgIds: Iterable[int] | int = ()) -> list[int]:
        """Numbers of the annotations of these images; of all images when there is none."""
        chosen = [imgIds] if isinstance(imgIds, int) else list(imgIds) or list(self.imgs)
        return [record["id"] for image in chosen for record in self.imgToAnns.get(image, ())]

    def loadImgs(self, ids: Iterable[int] | int = ()) -> list[Any]:
        return _records(self.imgs, ids)

    def loadAnns(self, ids: Iterable[int] | int = ()) -> list[Any]:
        return _records(self.anns, ids)

    def loadCats(self, ids: Iterable[int] | int = ()) -> list[Any]:
        return _records(self.cats, ids)


def _records(records: dict[int, Any], ids: Iterable[int] | int) -> list[Any]:
    return [records[number] for number in ([ids] if isinstance(ids, int) else ids)]


def _annotations(path: Root) -> Any:
    try:
        package = importlib.import_module("pycocotools.coco")
    except ModuleNotFoundError:
        return AnnotationFile(path)
    return package.COCO(path)


class CocoDetection(VisionDataset[Any]):
    """Photographs with the annotations of each: boxes, outlines and categories of what is on it.

    Args:
        root: folder of the photographs.
        annFile: JSON file of the annotations.
        transform, target_transform: functions of the image, which is Pillow's, and of the list of its annotations, or
        transforms: function of both.
    Attributes:
        coco: the annotations.
        ids: numbers of the images, sorted.
    Raises:
        FileNotFoundError: no such file.
        RuntimeError: it is damaged.
    Source: torchvision.datasets.CocoDetection.
    Example:
        >>> dataset = CocoDetection(root, f"{root}/annotations.json")
        >>> image, annotations = dataset[0]
        >>> image.size, [each["id"] for each in annotations]
        ((6, 5), [8])
    """

    def __init__(
        self, root: Root, annFile: str, transform: Transform = None, target_transform: Transform = None, transforms: Transform = None
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.coco = _annotations(annFile)
        self.ids = sorted(self.coco.imgs)

    def _load_image(self, id: int) -> Any:
        return pil_loader(os.path.join(self.root, self.coco.loadImgs(id)[0]["file_name"]))

    def _load_target(self, id: int) -> list[Any]:
        annotations: list[Any] = self.coco.loadAnns(self.coco.getAnnIds(id))
        return annotations

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if not isinstance(index, int):
            raise ValueError(f"Index must be of type integer, got {type(index)} instead.")
        return self._transformed_together(self._load_image(self.ids[index]), self._load_target(self.ids[index]))

    def __len__(self) -> int:
        return len(self.ids)


class CocoCaptions(CocoDetection):
    """Photographs with the captions of each.

    Args:
        root, annFile, transform, target_transform, transforms: as for :class:`CocoDetection`; targets are lists of captions.
    Source: torchvision.datasets.CocoCaptions.
    Example:
        >>> dataset = CocoCaptions(root, f"{root}/annotations.json")
        >>> image, captions = dataset[0]
        >>> captions
        ['caption 8']
    """

    def _load_target(self, id: int) -> list[Any]:
        return [record["caption"] for record in super()._load_target(id)]
