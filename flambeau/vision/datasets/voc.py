"""Photographs with the outlines and boxes of what is on them. Source: torchvision.datasets.voc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

from .annotated import Annotated, opened
from .tables import table
from .utils import download_and_extract_archive, verify_str_arg
from .vision import DAMAGED, Prepared, Root, Transform

# By year: address of an archive, the name under which it is kept, its checksum, and the folder in it that has the data.
DATASET_YEAR_DICT: dict[str, dict[str, str]] = {
    year: {**archive, "base_dir": os.path.join(*archive["base_dir"].split("/"))} for year, archive in table("VOC").items()
}


class _VOCBase(Annotated, Prepared[Any]):
    """Images of Pascal VOC of one year, with a file of targets each."""

    _SPLITS_DIR: str
    _TARGET_DIR: str
    _TARGET_FILE_EXT: str

    def __init__(
        self,
        root: Root,
        year: str = "2012",
        image_set: str = "train",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.year = verify_str_arg(year, "year", valid_values=[str(number) for number in range(2007, 2013)])
        sets = ["train", "trainval", "val", *(["test"] if year == "2007" else [])]
        self.image_set = verify_str_arg(image_set, "image_set", sets)
        archive = DATASET_YEAR_DICT["2007-test" if image_set == "test" else year]
        self.url, self.filename, self.md5 = archive["url"], archive["filename"], archive["md5"]
        self._folder = os.path.join(self.root, archive["base_dir"])
        self._split_file = os.path.join(self._folder, "ImageSets", self._SPLITS_DIR, f"{image_set}.txt")
        self._prepare(download, DAMAGED)
        with open(self._split_file) as file:
            names = [line.strip() for line in file]
        self.images = [os.path.join(self._folder, "JPEGImages", f"{name}.jpg") for name in names]
        self.targets = [os.path.join(self._folder, self._TARGET_DIR, f"{name}{self._TARGET_FILE_EXT}") for name in names]

    def _folders(self) -> Iterable[Root]:
        return (self._folder,)

    def _files(self) -> Iterable[tuple[Root, None]]:
        # Two archives of 2007 lie in one folder; the list of the images tells which.
        return ((self._split_file, None),)

    def _fetch(self) -> None:
        download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.md5)


class VOCSegmentation(_VOCBase):
    """Photographs with the class of each pixel.

    Args:
        root: folder of the archives.
        year: from ``"2007"`` to ``"2012"``.
        image_set: ``"train"``, ``"trainval"`` or ``"val"``, in 2007 ``"test"``, too.
        download: fetch the archive where it is missing.
        transform, target_transform: functions of the image and of its mask, both Pillow's, or
        transforms: function of both.
    Raises:
        ValueError: another ``year`` or ``image_set``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.VOCSegmentation.
    Example:
        >>> dataset = VOCSegmentation(root, year="2007", image_set="test")
        >>> image, mask = dataset[0]
        >>> image.mode, mask.mode
        ('RGB', 'L')
    """

    _SPLITS_DIR = "Segmentation"
    _TARGET_DIR = "SegmentationClass"
    _TARGET_FILE_EXT = ".png"

    @property
    def masks(self) -> list[str]:
        return self.targets

    def _target(self, index: int) -> Any:
        return opened(self.targets[index])


class VOCDetection(_VOCBase):
    """Photographs with boxes around objects of twenty classes; the target is the file of annotations as a dictionary.

    Args:
        root: folder of the archives.
        year: from ``"2007"`` to ``"2012"``.
        image_set: ``"train"``, ``"trainval"`` or ``"val"``, in 2007 ``"test"``, too.
        download: fetch the archive where it is missing.
        transform, target_transform: functions of the image and of its target, or
        transforms: function of both.
    Raises:
        ValueError: another ``year`` or ``image_set``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.VOCDetection.
    Example:
        >>> dataset = VOCDetection(root)
        >>> image, target = dataset[0]
        >>> target["annotation"]["object"][0]["bndbox"]
        {'xmin': '1', 'ymax': '4', 'ymin': '2', 'xmax': '5'}
    """

    _SPLITS_DIR = "Main"
    _TARGET_DIR = "Annotations"
    _TARGET_FILE_EXT = ".xml"

    @property
    def annotations(self) -> list[str]:
        return self.targets

    def _target(self, index: int) -> Any:
        path = self.targets[index]
        try:
            return self.parse_voc_xml(ElementTree.parse(path).getroot())
        except ElementTree.ParseError as error:
            raise RuntimeError(f"{path} is damaged: {error}") from error

    @staticmethod
    def parse_voc_xml(node: ElementTree.Element) -> dict[str, Any]:
        """A node as a dictionary; names that occur more than once have a list, objects always."""
        children = list(node)
        if not children:
            return {node.tag: node.text.strip()} if node.text else {}
        values: dict[str, list[Any]] = defaultdict(list)
        for child in map(VOCDetection.parse_voc_xml, children):
            for name, value in child.items():
                values[name].append(value)
        if node.tag == "annotation":
            values["object"] = [values["object"]]
        return {node.tag: {name: value[0] if len(value) == 1 else value for name, value in values.items()}}
