"""Handwritten characters of fifty alphabets. Source: torchvision.datasets.omniglot."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from PIL import Image

from .folder import Loader
from .utils import download_and_extract_archive, list_dir, list_files
from .vision import DAMAGED, Prepared, Root, Transform


class Omniglot(Prepared[Any]):
    """1,623 characters of fifty alphabets, each drawn by twenty people.

    Args:
        root: folder in which ``omniglot-py`` holds the files.
        background: the thirty alphabets to learn from; the other twenty otherwise.
        transform, target_transform: functions of the image, and of the index of its character.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image; Pillow's in grey when None.
    Raises:
        RuntimeError: the archive is missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Omniglot.
    Example:
        >>> dataset = Omniglot(root, background=True)
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('L', 0)
    """

    folder = "omniglot-py"
    download_url_prefix = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
    zips_md5 = {"images_background": "68d2efa1b9178cc56df9314c21c6e718", "images_evaluation": "6b91aef0f799c5bb55b94e3f2daec811"}

    def __init__(
        self,
        root: Root,
        background: bool = True,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader | None = None,
    ) -> None:
        super().__init__(os.path.join(root, self.folder), transform=transform, target_transform=target_transform)
        self.background, self.loader = background, loader
        self._prepare(download, DAMAGED)
        self.target_folder = os.path.join(self.root, self._get_target_folder())
        self._alphabets = list_dir(self.target_folder)
        self._characters = [
            os.path.join(alphabet, name) for alphabet in self._alphabets for name in list_dir(os.path.join(self.target_folder, alphabet))
        ]
        self._character_images = [
            [(image, index) for image in list_files(os.path.join(self.target_folder, character), ".png")]
            for index, character in enumerate(self._characters)
        ]
        self._flat_character_images = [entry for images in self._character_images for entry in images]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        name, character = self._flat_character_images[index]
        path = os.path.join(self.target_folder, self._characters[character], name)
        if self.loader is not None:
            return self._transformed(self.loader(path), character)
        with Image.open(path) as image:
            return self._transformed(image.convert("L"), character)

    def __len__(self) -> int:
        return len(self._flat_character_images)

    def _get_target_folder(self) -> str:
        return "images_background" if self.background else "images_evaluation"

    def _files(self) -> Iterable[tuple[Root, str]]:
        name = self._get_target_folder()
        return ((os.path.join(self.root, f"{name}.zip"), self.zips_md5[name]),)

    def _fetch(self) -> None:
        name = self._get_target_folder()
        download_and_extract_archive(f"{self.download_url_prefix}/{name}.zip", self.root, md5=self.zips_md5[name])
