"""Photographs of dishes. Source: torchvision.datasets.food101."""

from __future__ import annotations

import json
from pathlib import Path

from .folder import Loader, default_loader
from .labelled import LabelledFiles, missing_folder
from .utils import verify_str_arg
from .vision import NOT_FOUND, Root, Transform


class Food101(LabelledFiles):
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
    """

    _URL = "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz"
    _MD5 = "85eeb15f3717b99a5da872d97d918f87"

    def __init__(
        self,
        root: Root,
        split: str = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        super().__init__(root, transform, target_transform, loader)
        self._split = verify_str_arg(split, "split", ("train", "test"))
        self._base_folder = Path(self.root) / "food-101"
        self._meta_folder, self._images_folder = self._base_folder / "meta", self._base_folder / "images"
        self._prepare(download, NOT_FOUND)
        names: dict[str, list[str]] = json.loads((self._meta_folder / f"{split}.json").read_text())
        self._set_classes(sorted(names))
        self._set_samples(
            [
                (self._images_folder.joinpath(*f"{image}.jpg".split("/")), self.class_to_idx[name])
                for name, images in names.items()
                for image in images
            ]
        )

    def _missing(self) -> str | None:
        return missing_folder(self._meta_folder, self._images_folder)

    def extra_repr(self) -> str:
        return f"split={self._split}"
