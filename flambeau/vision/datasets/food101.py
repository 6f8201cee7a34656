"""Photographs of dishes. Source: torchvision.datasets.food101."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from .labelled import SplitFiles
from .vision import Root


class Food101(SplitFiles):
    """101,000 photographs of 101 dishes: of each 750 to train with, and 250 to test with.

    Args:
        root: folder in which ``food-101`` holds the files.
        split: ``"train"`` or ``"test"``.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Food101.
    Example:
        >>> dataset = Food101(root, split="test")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'waffles')
    """

    _URL = "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz"
    _MD5 = "85eeb15f3717b99a5da872d97d918f87"

    _FOLDER = "food-101"
    _SPLITS = ("train", "test")
    _SHOWN = "split={0._split}"

    def _folders(self) -> Sequence[Root]:
        return self._base_folder / "meta", self._base_folder / "images"

    def _read(self) -> None:
        meta, images = map(Path, self._folders())
        names: dict[str, list[str]] = json.loads((meta / f"{self._split}.json").read_text())
        self._set_classes(sorted(names))
        places = [(place, self.class_to_idx[name]) for name, listed in names.items() for place in listed]
        self._set_samples([(images.joinpath(*f"{place}.jpg".split("/")), label) for place, label in places])
