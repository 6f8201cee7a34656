"""Photographs of flowers. Source: torchvision.datasets.flowers102."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .labelled import SplitFiles
from .matlab import read_mat
from .tables import table, tuples
from .utils import download_and_extract_archive, download_url
from .vision import DAMAGED, Root


class Flowers102(SplitFiles):
    """Photographs of 102 flowers that are common in Britain, 40 to 258 of each.

    Args:
        root: folder in which ``flowers-102`` holds the files.
        split: ``"train"``, ``"val"`` or ``"test"``.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the files where they are missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Flowers102.
    Example:
        >>> dataset = Flowers102(root, split="val")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'pink primrose')
    """

    _download_url_prefix = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/"
    _file_dict = tuples("Flowers102")["files"]
    _FOLDER = "flowers-102"
    _MESSAGE = DAMAGED
    _SHOWN = "split={0._split}"
    _splits_map = {"train": "trnid", "val": "valid", "test": "tstid"}
    classes = table("Flowers102")["classes"]

    def _read(self) -> None:
        chosen = read_mat(self._path("setid"), squeeze_me=True)[self._splits_map[self._split]].tolist()
        labels = (read_mat(self._path("label"), squeeze_me=True)["labels"] - 1).tolist()
        # Images count from 1.
        self._set_samples([(self._base_folder / "jpg" / f"image_{number:05d}.jpg", labels[number - 1]) for number in chosen])

    def _path(self, part: str) -> Path:
        return self._base_folder / self._file_dict[part][0]

    def _folders(self) -> Sequence[Root]:
        return (self._base_folder / "jpg",)

    def _files(self) -> Sequence[tuple[Root, str]]:
        return [(self._path(part), self._file_dict[part][1]) for part in ("label", "setid")]

    def _fetch(self) -> None:
        name, md5 = self._file_dict["image"]
        download_and_extract_archive(f"{self._download_url_prefix}{name}", str(self._base_folder), md5=md5)
        for part in ("label", "setid"):
            name, md5 = self._file_dict[part]
            download_url(f"{self._download_url_prefix}{name}", str(self._base_folder), md5=md5)
