"""Photographs of objects in 101 and in 256 classes. Source: torchvision.datasets.caltech."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Any

from .annotated import opened
from .matlab import read_mat
from .utils import download_and_extract_archive, extract_archive, verify_str_arg
from .vision import DAMAGED, Prepared, Root, Transform

# Classes whose outlines lie in folders of other names.
OUTLINES = {"Faces": "Faces_2", "Faces_easy": "Faces_3", "Motorbikes": "Motorbikes_16", "airplanes": "Airplanes_Side_2"}


class _Caltech(Prepared[Any]):
    """Images numbered from 1 in one folder for each class."""

    _IMAGES: str  # folder of the classes' folders

    def __init__(self, root: Root, folder: str, transform: Transform, target_transform: Transform, download: bool) -> None:
        super().__init__(os.path.join(root, folder), transform=transform, target_transform=target_transform)
        os.makedirs(self.root, exist_ok=True)
        self._prepare(download, DAMAGED)
        self.categories = sorted(os.listdir(os.path.join(self.root, self._IMAGES)))

    def _count(self, ending: str) -> None:
        """Number the images of each class."""
        self.index: list[int] = []
        self.y: list[int] = []
        for label, category in enumerate(self.categories):
            names = os.listdir(os.path.join(self.root, self._IMAGES, category))
            count = sum(name.endswith(ending) for name in names)
            self.index += range(1, count + 1)
            self.y += [label] * count

    def _image(self, index: int, pattern: str) -> Any:
        label, number = self.y[index], self.index[index]
        return opened(os.path.join(self.root, self._IMAGES, self.categories[label], pattern.format(label + 1, number)))

    def __len__(self) -> int:
        return len(self.index)

    def _folders(self) -> Iterable[Root]:
        return (os.path.join(self.root, self._IMAGES),)


class Caltech101(_Caltech):
    """9,146 photographs of 101 kinds of objects, with their outlines.

    Args:
        root: folder in which ``caltech101`` holds the files.
        target_type: ``"category"`` for the index of the class, ``"annotation"`` for the outline, or a list of both.
        transform, target_transform: functions of the image and of the target.
        download: fetch the archive where it is missing.
    Raises:
        ValueError: another ``target_type``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Caltech101.
    Example:
        >>> dataset = Caltech101(root, target_type=["category", "annotation"])
        >>> image, (label, outline) = dataset[0]
        >>> dataset.categories[label], outline.shape
        ('Faces', (2, 4))
    """

    _IMAGES = "101_ObjectCategories"
    _URL = "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip"
    _MD5 = "3138e1922a9193bfa496528edbbc45d0"
    _SHOWN = "Target type: {0.target_type}"

    def __init__(
        self,
        root: Root,
        target_type: list[str] | str = "category",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        types = [target_type] if isinstance(target_type, str) else target_type
        self.target_type = [verify_str_arg(name, "target_type", ("category", "annotation")) for name in types]
        super().__init__(root, "caltech101", transform, target_transform, download)
        self.categories.remove("BACKGROUND_Google")
        self.annotation_categories = [OUTLINES.get(category, category) for category in self.categories]
        self._count("")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        targets = [self.y[index] if name == "category" else self._outline(index) for name in self.target_type]
        return self._transformed(self._image(index, "image_{1:04d}.jpg"), tuple(targets) if len(targets) > 1 else targets[0])

    def _outline(self, index: int) -> Any:
        """``(2, n)``: x and y of the points of an outline."""
        folder = self.annotation_categories[self.y[index]]
        return read_mat(os.path.join(self.root, "Annotations", folder, f"annotation_{self.index[index]:04d}.mat"))["obj_contour"]

    def _fetch(self) -> None:
        download_and_extract_archive(self._URL, download_root=self.root, filename="caltech-101.zip", md5=self._MD5)
        packed = os.path.join(self.root, "caltech-101")
        for name in os.listdir(packed):
            if name.endswith(".gz"):
                extract_archive(os.path.join(packed, name), self.root)
        shutil.rmtree(packed)
        os.remove(os.path.join(self.root, "caltech-101.zip"))


class Caltech256(_Caltech):
    """30,607 photographs of 256 kinds of objects, and of others.

    Args:
        root: folder in which ``caltech256`` holds the files.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Caltech256.
    Example:
        >>> dataset = Caltech256(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.categories[label]
        ('RGB', '001.ak47')
    """

    _IMAGES = "256_ObjectCategories"
    _URL = "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar"
    _MD5 = "67b4f42ca05d46448c6bb8ecd2220f6d"

    def __init__(self, root: Root, transform: Transform = None, target_transform: Transform = None, download: bool = False) -> None:
        super().__init__(root, "caltech256", transform, target_transform, download)
        self._count(".jpg")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self._image(index, "{0:03d}_{1:04d}.jpg"), self.y[index])
