"""Photographs with the outlines and boxes of what is on them. Source: torchvision.datasets.voc."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any
from xml.etree import ElementTree

from .caltech import opened
from .folder import pil_loader
from .labelled import missing_folder
from .utils import download_and_extract_archive, verify_str_arg
from .vision import DAMAGED, Prepared, Root, Transform

_URL = "https://thor.robots.ox.ac.uk/pascal/VOC/"


def _archive(folder: str, filename: str, md5: str, base_dir: str, saved_as: str | None = None) -> dict[str, str]:
    """Address of an archive, the name under which it is kept, its checksum, and the folder in it that has the data."""
    return {
        "url": f"{_URL}{folder}/{filename}",
        "filename": saved_as or filename,
        "md5": md5,
        "base_dir": os.path.join(*base_dir.split("/")),
    }


DATASET_YEAR_DICT = {
    "2012": _archive("voc2012", "VOCtrainval_11-May-2012.tar", "6cd6e144f989b92b3379bac3b3de84fd", "VOCdevkit/VOC2012"),
    "2011": _archive("voc2011", "VOCtrainval_25-May-2011.tar", "6c3384ef61512963050cb5d687e5bf1e", "TrainVal/VOCdevkit/VOC2011"),
    "2010": _archive("voc2010", "VOCtrainval_03-May-2010.tar", "da459979d0c395079b5c75ee67908abb", "VOCdevkit/VOC2010"),
    "2009": _archive("voc2009", "VOCtrainval_11-May-2009.tar", "a3e00b113cfcfebf17e343f59da3caa1", "VOCdevkit/VOC2009"),
    "2008": _archive(
        "voc2008",
        "VOCtrainval_14-Jul-2008.tar",
        "2629fa636546599198acfcfbfcf1904a",
        "VOCdevkit/VOC2008",
        saved_as="VOCtrainval_11-May-2012.tar",
    ),
    "2007": _archive("voc2007", "VOCtrainval_06-Nov-2007.tar", "c52e279531787c972589f7e41ab4ae64", "VOCdevkit/VOC2007"),
    "2007-test": _archive("voc2007", "VOCtest_06-Nov-2007.tar", "b6e924de25625d8de591ea690078ad9f", "VOCdevkit/VOC2007"),
}


class _VOCBase(Prepared[Any]):
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

    def _missing(self) -> str | None:
        # Two archives of 2007 lie in one folder; the list of the images tells which.
        return missing_folder(self._folder) or (None if os.path.isfile(self._split_file) else self._split_file)

    def download(self) -> None:
        """Download the year's archive and unpack it, unless what is in it is there."""
        if self._missing() is not None:
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.md5)

    def _target(self, path: str) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = pil_loader(self.images[index]), self._target(self.targets[index])
        if self.transforms is not None:
            image, target = self.transforms(image, target)
        return image, target

    def __len__(self) -> int:
        return len(self.images)


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
    """

    _SPLITS_DIR = "Segmentation"
    _TARGET_DIR = "SegmentationClass"
    _TARGET_FILE_EXT = ".png"

    @property
    def masks(self) -> list[str]:
        return self.targets

    def _target(self, path: str) -> Any:
        return opened(path)


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
    """

    _SPLITS_DIR = "Main"
    _TARGET_DIR = "Annotations"
    _TARGET_FILE_EXT = ".xml"

    @property
    def annotations(self) -> list[str]:
        return self.targets

    def _target(self, path: str) -> Any:
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
