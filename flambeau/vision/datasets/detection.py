"""Photographs with boxes, masks or outlines: streets, pets, faces, objects."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import namedtuple
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ... import ops
from .annotated import Annotated, opened
from .folder import pil_loader
from .matlab import read_mat
from .tables import tuples
from .utils import (
    download_and_extract_archive,
    download_file_from_google_drive,
    download_url,
    extract_archive,
    iterable_to_str,
    verify_str_arg,
)
from .vision import DAMAGED, NOT_FOUND, Prepared, Root, Transform, missing_folder


def one_or_all(targets: list[Any]) -> Any:
    """The target, where there is one; a tuple of several; None without."""
    return (targets[0] if len(targets) == 1 else tuple(targets)) if targets else None


class SBDataset(Annotated, Prepared[Any]):
    """11,355 photographs of Pascal VOC 2011 with the outlines or the class of their pixels.

    Args:
        root: folder of the files.
        image_set: ``"train"``, ``"val"``, or ``"train_noval"`` without what is in the ``"val"`` of VOC 2012.
        mode: ``"boundaries"`` for arrays ``(20, H, W)``, ``"segmentation"`` for masks of Pillow's.
        download: fetch the archive.
        transforms: function of the image and its target.
    Raises:
        ValueError: another ``image_set`` or ``mode``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.SBDataset.
    Example:
        >>> dataset = SBDataset(root)
        >>> image, boundaries = dataset[0]
        >>> boundaries.shape
        (20, 5, 6)
    """

    url = "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/semantic_contours/benchmark.tgz"
    md5 = "82b4d87ceb2ed10f6038a1cba92111cb"
    filename = "benchmark.tgz"
    voc_train_url = "https://www.cs.cornell.edu/~bharathh/train_noval.txt"
    voc_split_filename = "train_noval.txt"
    voc_split_md5 = "79bff800c5f0b1ec6b21080a3c066722"
    _SHOWN = "Image set: {0.image_set}\nMode: {0.mode}"

    def __init__(
        self, root: Root, image_set: str = "train", mode: str = "boundaries", download: bool = False, transforms: Transform = None
    ) -> None:
        super().__init__(root, transforms)
        self.image_set = verify_str_arg(image_set, "image_set", ("train", "val", "train_noval"))
        self.mode = verify_str_arg(mode, "mode", ("segmentation", "boundaries"))
        self.num_classes = 20
        self._prepare(download, DAMAGED)
        with open(os.path.join(self.root, f"{image_set}.txt")) as file:
            names = [line.strip() for line in file]
        self.images = [os.path.join(self.root, "img", f"{name}.jpg") for name in names]
        self.masks = [os.path.join(self.root, "cls", f"{name}.mat") for name in names]

    def _folders(self) -> Iterable[Root]:
        return [os.path.join(self.root, name) for name in ("img", "cls")]

    def _files(self) -> Iterable[tuple[Root, None]]:
        return ((os.path.join(self.root, f"{self.image_set}.txt"), None),)

    def download(self) -> None:
        """Download the archive and move what is in it to its place, unless it is there."""
        if missing_folder(*self._folders()) is not None:
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.md5)
            unpacked = os.path.join(self.root, "benchmark_RELEASE", "dataset")
            for name in ("cls", "img", "inst", "train.txt", "val.txt"):
                shutil.move(os.path.join(unpacked, name), self.root)
        if self.image_set == "train_noval":
            download_url(self.voc_train_url, self.root, self.voc_split_filename, self.voc_split_md5)

    def _target(self, index: int) -> Any:
        record = read_mat(self.masks[index])["GTcls"][0]
        if self.mode == "segmentation":
            return Image.fromarray(record["Segmentation"][0])
        return np.stack([record["Boundaries"][0][number][0].toarray() for number in range(self.num_classes)])


# Words of a line of KITTI's labels: name, first word, word after the last, type.
KITTI_FIELDS = (
    ("type", 0, None, str),
    ("truncated", 1, None, float),
    ("occluded", 2, None, int),
    ("alpha", 3, None, float),
    ("bbox", 4, 8, float),
    ("dimensions", 8, 11, float),
    ("location", 11, 14, float),
    ("rotation_y", 14, None, float),
)


class Kitti(Annotated, Prepared[Any]):
    """Photographs of streets, seen by the left camera of a car, with boxes around what is on them.

    Args:
        root: folder in which ``Kitti/raw`` holds the files.
        train: those with labels.
        transform, target_transform: functions of the image, which is Pillow's, and of the list of its records, or
        transforms: function of both.
        download: fetch the archives where they are missing.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Kitti.
    Example:
        >>> dataset = Kitti(root)
        >>> image, things = dataset[0]
        >>> things[0]["type"], things[0]["bbox"]
        ('Car', [587.01, 173.33, 614.12, 200.12])
    """

    data_url = "https://s3.eu-central-1.amazonaws.com/avg-kitti/"
    resources = ["data_object_image_2.zip", "data_object_label_2.zip"]
    image_dir_name = "image_2"
    labels_dir_name = "label_2"

    def __init__(
        self,
        root: Root,
        train: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        self.train = train
        self._folder = os.path.join(self._raw_folder, "training" if train else "testing")
        self._prepare(download, "Dataset not found. You may use download=True to download it.")
        names = os.listdir(os.path.join(self._folder, self.image_dir_name))
        self.images = [os.path.join(self._folder, self.image_dir_name, name) for name in names]
        labels = [os.path.join(self._folder, self.labels_dir_name, f"{name.split('.')[0]}.txt") for name in names]
        self.targets = labels if train else []

    def _image(self, index: int) -> Any:
        return opened(self.images[index])

    def _target(self, index: int) -> Any:
        return self._parse_target(index) if self.train else None

    def _parse_target(self, index: int) -> list[dict[str, Any]]:
        with open(self.targets[index]) as file:
            rows = list(csv.reader(file, delimiter=" "))
        return [
            {
                name: kind(row[start]) if stop is None else [kind(word) for word in row[start:stop]]
                for name, start, stop, kind in KITTI_FIELDS
            }
            for row in rows
        ]

    @property
    def _raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    def _folders(self) -> Iterable[Root]:
        names = [self.image_dir_name, *([self.labels_dir_name] if self.train else [])]
        return [os.path.join(self._folder, name) for name in names]

    def _fetch(self) -> None:
        for name in self.resources:
            download_and_extract_archive(f"{self.data_url}{name}", download_root=self._raw_folder, filename=name)


class OxfordIIITPet(Prepared[Any]):
    """Photographs of cats and dogs of 37 breeds, with the breed, the animal, or the pixels that it covers.

    Args:
        root: folder in which ``oxford-iiit-pet`` holds the files.
        split: ``"trainval"`` or ``"test"``.
        target_types: ``"category"``, ``"binary-category"``, ``"segmentation"``, or several of these; without one the target is None.
        transforms: function of the image and its target, or
        transform, target_transform: functions of each.
        download: fetch the archives where they are missing.
    Raises:
        ValueError: another ``split`` or type.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.OxfordIIITPet.
    Example:
        >>> dataset = OxfordIIITPet(root, target_types=["binary-category", "segmentation"])
        >>> image, (label, mask) = dataset[0]
        >>> dataset.bin_classes[label], mask.size
        ('Cat', (6, 5))
    """

    _RESOURCES = (
        ("https://www.robots.ox.ac.uk/~vgg/data/pets/data/images.tar.gz", "5c4f3ee8e5d25df40f4fd59a7f44e54c"),
        ("https://www.robots.ox.ac.uk/~vgg/data/pets/data/annotations.tar.gz", "95a8c909bbe2e81eed6a22bccdf3f68f"),
    )
    _VALID_TARGET_TYPES = ("category", "binary-category", "segmentation")

    def __init__(
        self,
        root: Root,
        split: str = "trainval",
        target_types: Sequence[str] | str = "category",
        transforms: Transform = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        self._split = verify_str_arg(split, "split", ("trainval", "test"))
        types = [target_types] if isinstance(target_types, str) else target_types
        self._target_types = [verify_str_arg(name, "target_types", self._VALID_TARGET_TYPES) for name in types]
        super().__init__(root, transforms, transform, target_transform)
        self._base_folder = Path(self.root) / "oxford-iiit-pet"
        self._images_folder, self._anns_folder = self._base_folder / "images", self._base_folder / "annotations"
        self._prepare(download, NOT_FOUND)
        rows = [line.split() for line in (self._anns_folder / f"{split}.txt").read_text().splitlines()]
        names = [row[0] for row in rows]
        self._labels = [int(row[1]) - 1 for row in rows]
        self._bin_labels = [int(row[2]) - 1 for row in rows]
        breeds = sorted({(label, name.rpartition("_")[0]) for name, label in zip(names, self._labels)})
        self.classes = [" ".join(part.title() for part in breed.split("_")) for _, breed in breeds]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        self.bin_classes = ["Cat", "Dog"]
        self.bin_class_to_idx = {"Cat": 0, "Dog": 1}
        self._images = [self._images_folder / f"{name}.jpg" for name in names]
        self._segs = [self._anns_folder / "trimaps" / f"{name}.png" for name in names]

    def __len__(self) -> int:
        return len(self._images)

    def _target(self, kind: str, idx: int) -> Any:
        if kind == "segmentation":
            return opened(self._segs[idx])
        return self._labels[idx] if kind == "category" else self._bin_labels[idx]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        target = one_or_all([self._target(kind, idx) for kind in self._target_types])
        return self._transformed_together(pil_loader(self._images[idx]), target)

    def _folders(self) -> Iterable[Root]:
        return self._images_folder, self._anns_folder

    def _fetch(self) -> None:
        for url, md5 in self._RESOURCES:
            download_and_extract_archive(url, download_root=str(self._base_folder), md5=md5)


# Numbers of a line of WIDER's boxes: name, first, number after the last.
WIDER_FIELDS = (("blur", 4), ("expression", 5), ("illumination", 6), ("occlusion", 7), ("pose", 8), ("invalid", 9))


class WIDERFace(Prepared[Any]):
    """32,203 photographs with 393,703 faces.

    Args:
        root: folder in which ``widerface`` holds the files.
        split: ``"train"``, ``"val"``, or ``"test"``, which has no targets.
        transform, target_transform: functions of the image, which is Pillow's, and of the dictionary of its boxes.
        download: fetch the archives where they are missing; those on Google Drive by the package gdown.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.WIDERFace.
    Example:
        >>> dataset = WIDERFace(root)
        >>> image, faces = dataset[0]
        >>> faces["bbox"].shape
        torch.Size([2, 4])
    """

    BASE_FOLDER = "widerface"
    FILE_LIST = tuples("WIDERFace")["images"]  # on Google Drive
    ANNOTATIONS_FILE = tuples("WIDERFace")["annotations"]
    _SHOWN = "Split: {0.split}"

    def __init__(
        self, root: Root, split: str = "train", transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        super().__init__(os.path.join(root, self.BASE_FOLDER), transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", ("train", "val", "test"))
        self._prepare(download, "Dataset not found or corrupted. You can use download=True to download and prepare it")
        self.img_info: list[dict[str, Any]] = []
        name = "wider_face_test_filelist.txt" if split == "test" else f"wider_face_{split}_bbx_gt.txt"
        with open(os.path.join(self.root, "wider_face_split", name)) as file:
            lines = iter([line.rstrip() for line in file])
        for line in lines:
            path = os.path.abspath(os.path.join(self.root, f"WIDER_{split}", "images", line))
            self.img_info.append({"img_path": path})
            if split != "test":
                # Photographs without a face have one line, too.
                rows = [[int(word) for word in next(lines).split()] for _ in range(max(int(next(lines)), 1))]
                values = ops.tensor(rows)
                boxes = {field: values[:, column].clone() for field, column in WIDER_FIELDS}
                self.img_info[-1]["annotations"] = {"bbox": values[:, :4].clone(), **boxes}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        record = self.img_info[index]
        return self._transformed(opened(record["img_path"]), record.get("annotations"))

    def __len__(self) -> int:
        return len(self.img_info)

    def _folders(self) -> Iterable[Root]:
        names = [os.path.splitext(name)[0] for _, _, name in [*self.FILE_LIST, self.ANNOTATIONS_FILE]]
        return [os.path.join(self.root, name) for name in names]

    def _fetch(self) -> None:
        for file_id, md5, name in self.FILE_LIST:
            download_file_from_google_drive(file_id, self.root, name, md5)
            extract_archive(os.path.join(self.root, name))
        url, md5, _ = self.ANNOTATIONS_FILE
        download_and_extract_archive(url, download_root=self.root, md5=md5)


CityscapesClass = namedtuple(
    "CityscapesClass", ["name", "id", "train_id", "category", "category_id", "has_instances", "ignore_in_eval", "color"]
)
_CATEGORIES = ("void", "flat", "construction", "object", "nature", "sky", "human", "vehicle")
# Name, number, number to train with (255 and -1: none), category, color.
_CLASSES = tuples("Cityscapes")


def _city_class(name: str, number: int, train_id: int, category: str, color: tuple[int, int, int]) -> Any:
    has_instances = category in ("human", "vehicle") and name != "license plate"
    category_id = _CATEGORIES.index(category)
    return CityscapesClass(name, number, train_id, category, category_id, has_instances, train_id in (255, -1), color)


class Cityscapes(Annotated):
    """Photographs of streets in fifty cities with the class of each pixel.

    Args:
        root: folder in which ``leftImg8bit`` and ``gtFine`` or ``gtCoarse`` hold the files, or their archives, which are unpacked.
        split: ``"train"``, ``"test"`` or ``"val"``; ``"train"``, ``"train_extra"`` or ``"val"`` where they are coarse.
        mode: ``"fine"`` or ``"coarse"``.
        target_type: ``"instance"``, ``"semantic"``, ``"polygon"``, ``"color"``, or a list of these.
        transform, target_transform: functions of the image and of its target, or
        transforms: function of both.
    Attributes:
        classes: records of the classes.
    Raises:
        ValueError: another ``mode``, ``split`` or type.
        RuntimeError: files are missing.
    Source: torchvision.datasets.Cityscapes.
    Example:
        >>> dataset = Cityscapes(root, mode="coarse", target_type=["semantic", "polygon"])
        >>> image, (mask, outlines) = dataset[0]
        >>> image.size, mask.mode, sorted(outlines)
        ((6, 5), 'L', ['objects'])
    """

    CityscapesClass = CityscapesClass
    classes = [_city_class(*row) for row in _CLASSES]
    _SHOWN = "Split: {0.split}\nMode: {0.mode}\nType: {0.target_type}"
    _ENDINGS = {"instance": "instanceIds.png", "semantic": "labelIds.png", "color": "color.png", "polygon": "polygons.json"}

    def __init__(
        self,
        root: Root,
        split: str = "train",
        mode: str = "fine",
        target_type: list[str] | str = "instance",
        transform: Transform = None,
        target_transform: Transform = None,
        transforms: Transform = None,
    ) -> None:
        super().__init__(root, transforms, transform, target_transform)
        verify_str_arg(mode, "mode", ("fine", "coarse"))
        self.mode, self.split = "gtFine" if mode == "fine" else "gtCoarse", split
        known = ("train", "test", "val") if mode == "fine" else ("train", "train_extra", "val")
        message = f"Unknown value '{split}' for argument split if mode is '{mode}'. Valid values are {{{iterable_to_str(known)}}}."
        verify_str_arg(split, "split", known, message)
        types = target_type if isinstance(target_type, list) else [target_type]
        self.target_type = [verify_str_arg(name, "target_type", ("instance", "semantic", "polygon", "color")) for name in types]
        self.images_dir = os.path.join(self.root, "leftImg8bit", split)
        self.targets_dir = os.path.join(self.root, self.mode, split)
        if missing_folder(self.images_dir, self.targets_dir) is not None:
            self._unpack()
        self.images = []
        self.targets: list[list[str]] = []
        for city in os.listdir(self.images_dir):
            for name in os.listdir(os.path.join(self.images_dir, city)):
                start = f"{name.split('_leftImg8bit')[0]}_{self.mode}_"
                self.images.append(os.path.join(self.images_dir, city, name))
                self.targets.append([os.path.join(self.targets_dir, city, start + self._ENDINGS[kind]) for kind in self.target_type])

    def _unpack(self) -> None:
        """Unpack the archives of images and targets.

        Raises:
            RuntimeError: one is missing or damaged.
        """
        images = f"leftImg8bit_{'trainextra' if self.split == 'train_extra' else 'trainvaltest'}.zip"
        targets = "gtFine_trainvaltest.zip" if self.mode == "gtFine" else "gtCoarse.zip"
        archives = [os.path.join(self.root, name) for name in (images, targets)]
        if not all(map(os.path.isfile, archives)):
            raise RuntimeError(
                "Dataset not found or incomplete. Please make sure all required folders for the"
                ' specified "split" and "mode" are inside the "root" directory'
            )
        for archive in archives:
            extract_archive(archive, self.root)

    def _target(self, index: int) -> Any:
        return one_or_all([_polygons(path) if path.endswith(".json") else opened(path) for path in self.targets[index]])


def _polygons(path: str) -> Any:
    with open(path) as file:
        return json.load(file)
