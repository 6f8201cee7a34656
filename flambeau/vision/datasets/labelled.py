"""Base class of data sets that are a list of image files with a label each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .folder import Loader, default_loader
from .utils import verify_str_arg
from .vision import NOT_FOUND, Prepared, Root, Transform


class LabelledFiles(Prepared[Any]):
    """Image files with a label each. Subclasses say where the archive is and what it holds, and read the two lists.

    Attributes:
        _image_files: paths.
        _labels: of the images.
        loader: function of a path that gives an image.
    """

    _FOLDER: str  # of the files, below the root
    _MESSAGE = NOT_FOUND

    _image_files: Sequence[Any] = ()
    _labels: Sequence[Any] = ()

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader = loader
        self._base_folder = Path(self.root) / self._FOLDER
        self._prepare(download, self._MESSAGE)
        self._read()

    def _read(self) -> None:
        """Fill the two lists, once all files are there."""
        raise NotImplementedError

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

    def _folders(self) -> Sequence[Root]:
        return (self._base_folder,)


class SplitFiles(LabelledFiles):
    """:class:`LabelledFiles` in parts to train with, to test with and so on."""

    _SPLITS: tuple[str, ...] = ("train", "val", "test")

    def __init__(
        self,
        root: Root,
        split: str = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        self._split = verify_str_arg(split, "split", self._SPLITS)
        super().__init__(root, transform, target_transform, download, loader)
