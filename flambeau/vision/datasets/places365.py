"""Photographs of 365 kinds of places. Source: torchvision.datasets.places365."""

from __future__ import annotations

import os
from typing import Any

from .folder import Loader, default_loader
from .tables import tuples
from .utils import check_integrity, download_and_extract_archive, verify_str_arg
from .vision import Root, Transform, VisionDataset


class Places365(VisionDataset[Any]):
    """1.8 million photographs of 365 kinds of places, 8 million in the larger set.

    Args:
        root: folder of the archives.
        split: ``"train-standard"``, ``"train-challenge"``, ``"val"``, or ``"test"``, which has no labels.
        small: images of 256 by 256 pixels.
        download: fetch the archives where they are missing.
        transform, target_transform: functions of the image and of the index of its class.
        loader: function of a path that gives an image.
    Attributes:
        classes, class_to_idx: names of the classes, and index of each.
        imgs: pairs of path and index.
        targets: the indices.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Places365.
    Example:
        >>> dataset = Places365(root, split="val")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', '/z/zen_garden')
    """

    _SPLITS = ("train-standard", "train-challenge", "val", "test")
    _BASE_URL = "http://data.csail.mit.edu/places/places365/"
    _SHOWN = "Split: {0.split}\nSmall: {0.small}"
    _TABLE = tuples("Places365")  # names and checksums of what is fetched

    def __init__(
        self,
        root: Root,
        split: str = "train-standard",
        small: bool = False,
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", self._SPLITS)
        self.small, self.loader = small, loader
        self.classes, self.class_to_idx = self.load_categories(download)
        self.imgs, self.targets = self.load_file_list(download)
        if download:
            self.download_images()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.imgs[index]
        return self._transformed_together(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.imgs)

    @property
    def variant(self) -> str:
        return "challenge" if "challenge" in self.split else "standard"

    @property
    def images_dir(self) -> str:
        size = "256" if self.small else "large"
        name = f"data_{size}_{self.variant}" if self.split.startswith("train") else f"{self.split}_{size}"
        return os.path.join(self.root, name)

    def _lines(self, listed: tuple[str, str], download: bool) -> list[list[str]]:
        """The words of each line of one of the lists, which are fetched where they are missing.

        Raises:
            RuntimeError: the file is missing or damaged, and is not to be fetched.
        """
        name, md5 = listed
        path = os.path.join(self.root, name)
        if not check_integrity(path, md5):
            if not download:
                raise RuntimeError(f"The file {path} does not exist or is corrupted. You can set download=True to download it.")
            self.download_devkit()
        with open(path) as file:
            return [line.split() for line in file]

    def load_categories(self, download: bool = True) -> tuple[list[str], dict[str, int]]:
        """The classes, sorted, and the index of each."""
        indices = {name: int(index) for name, index in self._lines(self._TABLE["categories"], download)}
        return sorted(indices), indices

    def load_file_list(self, download: bool = True) -> tuple[list[tuple[str, int | None]], list[int | None]]:
        """Pairs of path and index, and the indices."""
        rows = self._lines(self._TABLE["lists"][self.split], download)
        paths = [os.path.join(self.images_dir, row[0].lstrip("/").replace("/", os.sep)) for row in rows]
        targets = [int(row[1]) if len(row) > 1 else None for row in rows]
        return list(zip(paths, targets)), targets

    def download_devkit(self) -> None:
        """Download the lists of the classes and files, and unpack them."""
        name, md5 = self._TABLE["devkit"][self.variant]
        download_and_extract_archive(f"{self._BASE_URL}{name}", self.root, md5=md5)

    def download_images(self) -> None:
        """Download the images and unpack them, unless they are there."""
        if os.path.exists(self.images_dir):
            return
        name, md5 = self._TABLE["images"]["small" if self.small else "large"][self.split]
        download_and_extract_archive(f"{self._BASE_URL}{name}", self.root, md5=md5)
        if self.split.startswith("train"):
            os.rename(self.images_dir.rsplit("_", 1)[0], self.images_dir)
