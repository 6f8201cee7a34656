"""Handwritten digits in black and white, in a text file. Source: torchvision.datasets.semeion."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from .utils import download_url
from .vision import DAMAGED, Prepared, Root, Transform


class SEMEION(Prepared[Any]):
    """1,593 handwritten digits of 16 by 16 pixels in black and white.

    Args:
        root: folder of the file.
        transform, target_transform: functions of the image, which is Pillow's, and of the digit.
        download: fetch the file where it is missing.
    Attributes:
        data: array ``(n, 16, 16)``, uint8.
        labels: array ``(n,)``: the digits.
    Raises:
        RuntimeError: the file is missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.SEMEION.
    Example:
        >>> dataset = SEMEION(root, download=False)
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('L', 3)
    """

    url = "http://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data"
    filename = "semeion.data"
    md5_checksum = "cb545d371d2ce14ec121470795a77432"

    def __init__(self, root: Root, transform: Transform = None, target_transform: Transform = None, download: bool = True) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._prepare(download, DAMAGED)
        rows = np.loadtxt(os.path.join(self.root, self.filename))
        self.data = (rows[:, :256] * 255).astype(np.uint8).reshape(-1, 16, 16)
        self.labels = np.nonzero(rows[:, 256:])[1]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(Image.fromarray(self.data[index]), int(self.labels[index]))

    def _files(self) -> Iterable[tuple[Root, str]]:
        return ((os.path.join(self.root, self.filename), self.md5_checksum),)

    def _fetch(self) -> None:
        download_url(self.url, self.root, self.filename, self.md5_checksum)
