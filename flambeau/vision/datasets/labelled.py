"""What data sets share that are a list of image files with a label each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .folder import Loader, default_loader
from .utils import download_and_extract_archive
from .vision import Prepared, Root, Transform


class LabelledFiles(Prepared[Any]):
    """Image files with a label each; subclasses fill the two lists, and say where the archive is.

    Attributes:
        _image_files: paths.
        _labels: of the images.
        loader: function of a path that gives an image.
    """

    _URL: str
    _MD5: str | None = None

    _image_files: Sequence[Any] = ()
    _labels: Sequence[Any] = ()

    def __init__(
        self, root: Root | None, transform: Transform = None, target_transform: Transform = None, loader: Loader = default_loader
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader = loader

    @property
    def _samples(self) -> list[tuple[Any, Any]]:
        return list(zip(self._image_files, self._labels))

    def _set_samples(self, samples: Sequence[tuple[Any, Any]]) -> None:
        self._image_files = [path for path, _ in samples]
        self._labels = [label for _, label in samples]

    def _set_classes(self, classes: list[Any]) -> None:
        self.classes = classes
        self.class_to_idx = {name: index for index, name in enumerate(classes)}

    def __len__(self) -> int:
        return len(self._image_files)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[idx]), self._labels[idx])

    def _fetch(self, folder: Root) -> None:
        """Download the archive into a folder and unpack it there."""
        download_and_extract_archive(self._URL, download_root=os.fspath(folder), md5=self._MD5)

    def download(self) -> None:
        """Download the archive and unpack it, unless what is in it is there."""
        if self._missing() is not None:
            self._fetch(self.root)


def missing_folder(*folders: Root) -> str | None:
    """The first path that is no folder."""
    return next((os.fspath(folder) for folder in folders if not os.path.isdir(folder)), None)
