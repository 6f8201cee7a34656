"""House numbers seen from the street, in files of MATLAB's. Source: torchvision.datasets.svhn."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from PIL import Image

from .matlab import read_mat
from .utils import download_url, verify_str_arg
from .vision import DAMAGED, Prepared, Root, Transform

_URL = "http://ufldl.stanford.edu/housenumbers/"


class SVHN(Prepared[Any]):
    """Digits of house numbers, 32 by 32 pixels in color.

    Args:
        root: folder of the files.
        split: ``"train"``, ``"test"``, or ``"extra"`` for more to train with.
        transform, target_transform: functions of the image, which is Pillow's, and of the digit.
        download: fetch the file where it is missing.
    Attributes:
        data: array ``(n, 3, 32, 32)``, uint8.
        labels: array ``(n,)``, int64: the digits.
    Raises:
        ValueError: another ``split``.
        RuntimeError: the file is missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.SVHN.
    Example:
        >>> dataset = SVHN(root, split="extra")
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('RGB', 1)
    """

    split_list = {
        "train": [f"{_URL}train_32x32.mat", "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"],
        "test": [f"{_URL}test_32x32.mat", "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"],
        "extra": [f"{_URL}extra_32x32.mat", "extra_32x32.mat", "a93ce644f1a588dc4d68dda5feec44a7"],
    }
    _SHOWN = "Split: {0.split}"

    def __init__(
        self, root: Root, split: str = "train", transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", tuple(self.split_list))
        self.url, self.filename, self.file_md5 = self.split_list[split]
        self._prepare(download, DAMAGED)
        content = read_mat(os.path.join(self.root, self.filename))
        self.data = content["X"].transpose(3, 2, 0, 1)
        labels = content["y"].astype(np.int64).squeeze()
        self.labels = np.where(labels == 10, 0, labels)  # the digit 0 is labelled 10 there

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(Image.fromarray(self.data[index].transpose(1, 2, 0)), int(self.labels[index]))

    def _files(self) -> Iterable[tuple[Root, str]]:
        return ((os.path.join(self.root, self.filename), self.file_md5),)

    def _fetch(self) -> None:
        download_url(self.url, self.root, self.filename, self.file_md5)
