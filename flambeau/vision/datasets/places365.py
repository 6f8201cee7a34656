"""Photographs of 365 kinds of places. Source: torchvision.datasets.places365."""

from __future__ import annotations

import os
from typing import Any

from .folder import Loader, default_loader
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
    """

    _SPLITS = ("train-standard", "train-challenge", "val", "test")
    _BASE_URL = "http://data.csail.mit.edu/places/places365/"
    _DEVKIT_META = {
        "standard": ("filelist_places365-standard.tar", "35a0585fee1fa656440f3ab298f8479c"),
        "challenge": ("filelist_places365-challenge.tar", "70a8307e459c3de41690a7c76c931734"),
    }
    _CATEGORIES_META = ("categories_places365.txt", "06c963b85866bd0649f97cb43dd16673")
    _FILE_LIST_META = {
        "train-standard": ("places365_train_standard.txt", "30f37515461640559006b8329efbed1a"),
        "train-challenge": ("places365_train_challenge.txt", "b2931dc997b8c33c27e7329c073a6b57"),
        "val": ("places365_val.txt", "e9f2fd57bfd9d07630173f4e8708e4b1"),
        "test": ("places365_test.txt", "2fce8233fe493576d724142e45d93653"),
    }
    _IMAGES_META = {  # by split, and whether they are small
        ("train-standard", False): ("train_large_places365standard.tar", "67e186b496a84c929568076ed01a8aa1"),
        ("train-challenge", False): ("train_large_places365challenge.tar", "605f18e68e510c82b958664ea134545f"),
        ("val", False): ("val_large.tar", "9b71c4993ad89d2d8bcbdc4aef38042f"),
        ("test", False): ("test_large.tar", "41a4b6b724b1d2cd862fb3871ed59913"),
        ("train-standard", True): ("train_256_places365standard.tar", "53ca1c756c3d1e7809517cc47c5561c5"),
        ("train-challenge", True): ("train_256_places365challenge.tar", "741915038a5e3471ec7332404dfb64ef"),
        ("val", True): ("val_256.tar", "e27b17d8d44f4af9a78502beb927f808"),
        ("test", True): ("test_256.tar", "f532f6ad7b582262a2ec8009075e186b"),
    }

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
        image = self.loader(path)
        return (image, target) if self.transforms is None else self.transforms(image, target)

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

    def _lines(self, name: str, md5: str, download: bool) -> list[list[str]]:
        """The words of each line of a file of the lists, which are fetched where they are missing.

        Raises:
            RuntimeError: the file is missing or damaged, and is not to be fetched.
        """
        path = os.path.join(self.root, name)
        if not check_integrity(path, md5):
            if not download:
                raise RuntimeError(f"The file {path} does not exist or is corrupted. You can set download=True to download it.")
            self.download_devkit()
        with open(path) as file:
            return [line.split() for line in file]

    def load_categories(self, download: bool = True) -> tuple[list[str], dict[str, int]]:
        """The classes, sorted, and the index of each."""
        indices = {name: int(index) for name, index in self._lines(*self._CATEGORIES_META, download)}
        return sorted(indices), indices

    def load_file_list(self, download: bool = True) -> tuple[list[tuple[str, int | None]], list[int | None]]:
        """Pairs of path and index, and the indices."""
        rows = self._lines(*self._FILE_LIST_META[self.split], download)
        paths = [os.path.join(self.images_dir, row[0].lstrip("/").replace("/", os.sep)) for row in rows]
        targets = [int(row[1]) if len(row) > 1 else None for row in rows]
        return list(zip(paths, targets)), targets

    def download_devkit(self) -> None:
        """Download the lists of the classes and files, and unpack them."""
        name, md5 = self._DEVKIT_META[self.variant]
        download_and_extract_archive(f"{self._BASE_URL}{name}", self.root, md5=md5)

    def download_images(self) -> None:
        """Download the images and unpack them, unless they are there."""
        if os.path.exists(self.images_dir):
            return
        name, md5 = self._IMAGES_META[self.split, self.small]
        download_and_extract_archive(f"{self._BASE_URL}{name}", self.root, md5=md5)
        if self.split.startswith("train"):
            os.rename(self.images_dir.rsplit("_", 1)[0], self.images_dir)

    def extra_repr(self) -> str:
        return f"Split: {self.split}\nSmall: {self.small}"
