"""Color images of which most have no label, in files of bytes. Source: torchvision.datasets.stl10."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from PIL import Image

from .batches import ArchivedBatches
from .tables import table
from .utils import verify_str_arg
from .vision import DAMAGED, Root, Transform


class STL10(ArchivedBatches):
    """Color images of 96 by 96 pixels in ten classes: 5,000 to train with, 8,000 to test with, 100,000 without a label.

    Args:
        root: folder in which ``stl10_binary`` holds the files.
        split: ``"train"``, ``"test"``, ``"unlabeled"`` or ``"train+unlabeled"``.
        folds: from 0 to 9, one of ten sets of 1,000 images to train with; all when None.
        transform, target_transform: functions of the image, which is Pillow's, and of the index of its class, -1 without a label.
        download: fetch the files where they are missing.
    Attributes:
        data: array ``(n, 3, 96, 96)``, uint8.
        labels: array ``(n,)``.
        classes: their names.
    Raises:
        ValueError: another ``split`` or fold.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.STL10.
    Example:
        >>> dataset = STL10(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'airplane')
    """

    base_folder = "stl10_binary"
    url = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
    filename = "stl10_binary.tar.gz"
    tgz_md5 = "91f7769df0f17e558f3565bffb0c7dfb"
    class_names_file = "class_names.txt"
    folds_list_file = "fold_indices.txt"
    train_list, test_list = table("STL10")["train"], table("STL10")["test"]
    splits = ("train", "train+unlabeled", "unlabeled", "test")
    _SHOWN = "Split: {0.split}"

    def __init__(
        self,
        root: Root,
        split: str = "train",
        folds: int | None = None,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = verify_str_arg(split, "split", self.splits)
        self.folds = _checked_fold(folds)
        self._prepare(download, DAMAGED)
        parts = [self._part(name) for name in split.split("+")]
        self.data = np.concatenate([images for images, _ in parts]) if len(parts) > 1 else parts[0][0]
        self.labels = np.concatenate([labels for _, labels in parts]) if len(parts) > 1 else parts[0][1]
        path = self._path(self.class_names_file)
        if os.path.isfile(path):
            with open(path) as file:
                self.classes = file.read().splitlines()

    def _part(self, name: str) -> tuple[Any, Any]:
        """Images and labels to train with, to test with, or unlabeled; of one fold, where one is wanted."""
        # In the file, columns come before rows.
        images = np.fromfile(self._path(f"{name}_X.bin"), np.uint8).reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        if name == "unlabeled":
            return images, np.full(len(images), -1)
        labels = np.fromfile(self._path(f"{name}_y.bin"), np.uint8) - 1
        if name != "train" or self.folds is None:
            return images, labels
        with open(self._path(self.folds_list_file)) as file:
            chosen = np.array(file.read().splitlines()[self.folds].split(), np.int64)
        return images[chosen], labels[chosen]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(Image.fromarray(self.data[index].transpose(1, 2, 0)), int(self.labels[index]))


def _checked_fold(fold: Any) -> int | None:
    if fold is not None and not isinstance(fold, int):
        raise ValueError(f"Expected type None or int for argument folds, but got type {type(fold)}.")
    if fold is not None and fold not in range(10):
        raise ValueError(f"Value for argument folds should be in the range [0, 10), but got {fold}.")
    return fold
