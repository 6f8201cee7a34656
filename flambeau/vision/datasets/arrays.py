"""Images that lie in one file as an array or a table: moving digits, facial expressions, tissue."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ... import ops
from .tables import tuples
from .utils import _decompress, check_integrity, download_file_from_google_drive, download_url, verify_str_arg
from .vision import NOT_FOUND, Prepared, Root, Transform, VisionDataset


class MovingMNIST(Prepared[Any]):
    """10,000 films of 20 pictures of 64 by 64 pixels, on which two digits move.

    Args:
        root: folder in which ``MovingMNIST`` holds the file.
        split: ``"train"`` for the first pictures of each film, ``"test"`` for the others; all when None.
        split_ratio: number of the first pictures, from 1 to 19.
        download: fetch the file where it is missing.
        transform: function of a film ``(T, 1, 64, 64)``, uint8.
    Raises:
        ValueError: another ``split`` or ``split_ratio``.
        TypeError: a ``split_ratio`` that is no integer.
        RuntimeError: the file is missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.MovingMNIST.
    Example:
        >>> dataset = MovingMNIST(root, split="train", split_ratio=4)
        >>> len(dataset), dataset[0].shape
        (3, torch.Size([4, 1, 4, 4]))
    """

    _URL = "http://www.cs.toronto.edu/~nitish/unsupervised_video/mnist_test_seq.npy"
    _MD5 = "be083ec986bfe91a449d63653c411eb2"

    def __init__(
        self, root: Root, split: str | None = None, split_ratio: int = 10, download: bool = False, transform: Transform = None
    ) -> None:
        super().__init__(root, transform=transform)
        self._base_folder = os.path.join(self.root, type(self).__name__)
        self._filename = self._URL.rpartition("/")[2]
        self.split = None if split is None else verify_str_arg(split, "split", ("train", "test"))
        if not isinstance(split_ratio, int):
            raise TypeError(f"`split_ratio` should be an integer, but got {type(split_ratio)}")
        if not 1 <= split_ratio <= 19:
            raise ValueError(f"`split_ratio` should be `1 <= split_ratio <= 19`, but got {split_ratio} instead.")
        self.split_ratio = split_ratio
        self._prepare(download, f"{NOT_FOUND}.")
        path = os.path.join(self._base_folder, self._filename)
        try:
            films = np.load(path)
        except (ValueError, EOFError) as error:
            raise RuntimeError(f"{path} is damaged: {error}") from error
        part = {"train": slice(split_ratio), "test": slice(split_ratio, None)}.get(split or "", slice(None))
        self.data = ops.from_numpy(np.ascontiguousarray(films[part].swapaxes(0, 1)[:, :, None]))

    def __getitem__(self, idx: int) -> Any:
        return self._transformed(self.data[idx], None)[0]

    def _files(self) -> Iterable[tuple[Root, None]]:
        return ((os.path.join(self._base_folder, self._filename), None),)

    def _fetch(self) -> None:
        download_url(self._URL, self._base_folder, self._filename, self._MD5)


class FER2013(VisionDataset[Any]):
    """35,887 grey faces of 48 by 48 pixels with seven expressions, from files that have to be fetched by hand.

    Args:
        root: folder in which ``fer2013`` holds ``fer2013.csv``, or ``icml_face_data.csv``, or ``train.csv`` and ``test.csv``; the last
            has no labels.
        split: ``"train"`` or ``"test"``.
        transform, target_transform: functions of the image, which is Pillow's, and of the index of the expression.
    Raises:
        ValueError: another ``split``.
        RuntimeError: the file is missing or damaged.
    Source: torchvision.datasets.FER2013.
    Example:
        >>> dataset = FER2013(root)
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('L', 3)
    """

    _RESOURCES = tuples("FER2013")
    _USAGES = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}
    _SHOWN = "split={0._split}"

    def __init__(self, root: Root, split: str = "train", transform: Transform = None, target_transform: Transform = None) -> None:
        self._split = verify_str_arg(split, "split", ("train", "test"))
        super().__init__(root, transform=transform, target_transform=target_transform)
        folder = Path(self.root) / "fer2013"
        kind = next((kind for kind in ("fer", "icml") if (folder / self._RESOURCES[kind][0]).exists()), split)
        name, md5 = self._RESOURCES[kind]
        if not check_integrity(folder / name, md5):
            raise RuntimeError(
                f"{name} not found in {folder} or corrupted. You can download it from "
                f"https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge"
            )
        with open(folder / name, newline="") as file:
            # Names of columns follow blanks in one of the files.
            rows = [{(key or "").strip(): value for key, value in row.items()} for row in csv.DictReader(file)]
        wanted = [row for row in rows if row.get("Usage") in self._USAGES[split]] if kind in ("fer", "icml") else rows
        self._samples = [(_face(row["pixels"]), int(row["emotion"]) if "emotion" in row else None) for row in wanted]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        levels, target = self._samples[idx]
        return self._transformed(Image.fromarray(levels), target)

    def __len__(self) -> int:
        return len(self._samples)


def _face(levels: str) -> Any:
    return np.array(levels.split(), np.uint8).reshape(48, 48)


class PCAM(Prepared[Any]):
    """327,680 color pictures of tissue, 96 by 96 pixels, with 1 where the middle shows a metastasis.

    Args:
        root: folder in which ``pcam`` holds the files.
        split: ``"train"``, ``"val"`` or ``"test"``.
        transform, target_transform: functions of the image, which is Pillow's, and of its label.
        download: fetch the files where they are missing, by the package gdown.
    Raises:
        ValueError: another ``split``.
        RuntimeError: the package h5py is not installed, or files are missing or cannot be fetched.
    Source: torchvision.datasets.PCAM.
    Example:
        >>> dataset = PCAM(root, split="test")
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('RGB', 0)
    """

    _FILES = tuples("PCAM")  # name, number on Google Drive, MD5 of the packed file

    def __init__(
        self, root: Root, split: str = "train", transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        try:
            import h5py  # type: ignore[import-not-found]
        except ImportError:
            raise RuntimeError("h5py is not found. This dataset needs to have h5py installed: please run pip install h5py") from None
        self.h5py = h5py
        self._split = verify_str_arg(split, "split", ("train", "test", "val"))
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._base_folder = Path(self.root) / "pcam"
        self._prepare(download, NOT_FOUND)

    def _path(self, part: str) -> Path:
        return self._base_folder / self._FILES[self._split][part][0]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        # Opened each time: a file that is open cannot go to another process.
        with self.h5py.File(self._path("images")) as images, self.h5py.File(self._path("targets")) as targets:
            image, target = Image.fromarray(images["x"][idx]).convert("RGB"), int(targets["y"][idx, 0, 0, 0])
        return self._transformed(image, target)

    def __len__(self) -> int:
        with self.h5py.File(self._path("images")) as images:
            return int(images["x"].shape[0])

    def _files(self) -> Iterable[tuple[Root, None]]:
        return [(self._path(part), None) for part in ("images", "targets")]

    def _fetch(self) -> None:
        for name, file_id, md5 in self._FILES[self._split].values():
            download_file_from_google_drive(file_id, str(self._base_folder), filename=f"{name}.gz", md5=md5)
            _decompress(self._base_folder / f"{name}.gz")
