"""Handwritten digits of letters in the post, in a packed text file. Source: torchvision.datasets.usps."""

from __future__ import annotations

import bz2
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from .utils import download_url
from .vision import NOT_FOUND, Prepared, Root, Transform

_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"


class USPS(Prepared[Any]):
    """7,291 handwritten digits of 16 by 16 pixels to train with, and 2,007 to test with.

    Args:
        root: folder of the files.
        train: those to train with.
        transform, target_transform: functions of the image, which is Pillow's, and of the digit.
        download: fetch the file where it is missing.
    Attributes:
        data: array ``(n, 16, 16)``, uint8.
        targets: list of digits.
    Raises:
        RuntimeError: the file is missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.USPS.
    Example:
        >>> dataset = USPS(root)
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('L', 6)
    """

    split_list = {
        "train": [f"{_URL}usps.bz2", "usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"],
        "test": [f"{_URL}usps.t.bz2", "usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"],
    }

    def __init__(
        self, root: Root, train: bool = True, transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._file = self.split_list["train" if train else "test"]
        self._prepare(download, NOT_FOUND)
        path = os.path.join(self.root, self._file[1])
        try:
            with bz2.open(path, "rt") as file:
                rows = [line.split() for line in file]
        except (OSError, EOFError, ValueError) as error:
            raise RuntimeError(f"{path} is damaged: {error}") from error
        # Each row: the digit plus 1, then "place:level" with levels from -1 to 1.
        levels = np.array([[entry.rpartition(":")[2] for entry in row[1:]] for row in rows], np.float32).reshape(-1, 16, 16)
        self.data = ((levels + 1) / 2 * 255).astype(np.uint8)
        self.targets = [int(row[0]) - 1 for row in rows]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(Image.fromarray(self.data[index]), int(self.targets[index]))

    def _files(self) -> Iterable[tuple[Root, None]]:
        return ((os.path.join(self.root, self._file[1]), None),)

    def _fetch(self) -> None:
        url, filename, md5 = self._file
        download_url(url, self.root, filename, md5)
