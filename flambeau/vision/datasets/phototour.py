"""Patches of photographs that show the same point or not. Source: torchvision.datasets.phototour."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from PIL import Image

from ... import ops
from ...core.tensor import Tensor
from ...serialization import load, save
from .tables import table
from .utils import download_url, extract_archive
from .vision import DAMAGED, Prepared, Root, Transform

SIZE = 64  # of a patch
# Number of patches, their mean and standard deviation, where the archive is and its checksum.
_SETS = table("PhotoTour")


class PhotoTour(Prepared[Any]):
    """Patches of 64 by 64 grey levels around points of interest, and pairs of them that match or do not.

    Args:
        root: folder of the archives.
        name: ``"notredame"``, ``"yosemite"``, ``"liberty"``, or one of these with ``"_harris"``.
        train: samples are patches; otherwise pairs of patches, each with 1 where they match and 0 where not.
        transform: function of a patch.
        download: fetch the archive where it is missing.
    Attributes:
        data: ``(n, 64, 64)``, uint8.
        labels: ``(n,)``, int64: the point that a patch shows.
        matches: ``(m, 3)``, int64: two patches, and whether they match.
    Raises:
        KeyError: another ``name``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.PhotoTour.
    Example:
        >>> dataset = PhotoTour(root, "notredame", train=False)
        >>> first, second, same = dataset[0]
        >>> first.shape, same
        (torch.Size([64, 64]), tensor(1))
    """

    urls = {name: [f"{place}{name}.zip", f"{name}.zip", md5] for name, (_, _, _, place, md5) in _SETS.items()}
    means = {name: mean for name, (_, mean, *_) in _SETS.items()}
    stds = {name: std for name, (_, _, std, *_) in _SETS.items()}
    lens = {name: count for name, (count, *_) in _SETS.items()}
    image_ext = "bmp"
    _SHOWN = "Split: {0._half}"
    info_file = "info.txt"
    matches_files = "m50_100000_100000_0.txt"

    def __init__(self, root: Root, name: str, train: bool = True, transform: Transform = None, download: bool = False) -> None:
        super().__init__(root, transform=transform)
        self.name, self.train = name, train
        self.data_dir = os.path.join(self.root, name)
        self.data_down = os.path.join(self.root, f"{name}.zip")
        self.data_file = os.path.join(self.root, f"{name}.pt")
        self.mean, self.std = self.means[name], self.stds[name]
        self._prepare(download, DAMAGED)
        if not os.path.exists(self.data_file):
            self.cache()
        self.data, self.labels, self.matches = load(self.data_file, weights_only=True)

    def __getitem__(self, index: int) -> Any:
        if self.train:
            return self._transformed(self.data[index], None)[0]
        first, second, is_match = self.matches[index]
        return self._transformed(self.data[first], None)[0], self._transformed(self.data[second], None)[0], is_match

    def __len__(self) -> int:
        return len(self.data if self.train else self.matches)

    def _missing(self) -> str | None:
        return None if os.path.exists(self.data_file) or os.path.exists(self.data_dir) else self.data_dir

    def _fetch(self) -> None:
        url, filename, md5 = self.urls[self.name]
        download_url(url, self.root, filename, md5)
        extract_archive(os.path.join(self.root, filename), self.data_dir, remove_finished=True)

    def cache(self) -> None:
        """Collect patches, points and pairs into one file."""
        content = (
            read_image_file(self.data_dir, self.image_ext, self.lens[self.name]),
            read_info_file(self.data_dir, self.info_file),
            read_matches_files(self.data_dir, self.matches_files),
        )
        save(content, self.data_file)


def read_image_file(data_dir: str, image_ext: str, n: int) -> Tensor:
    """``(n, 64, 64)``, uint8: the patches of all pictures, row by row. Source: torchvision.datasets.phototour.read_image_file."""
    patches = []
    for name in sorted(name for name in os.listdir(data_dir) if name.endswith(image_ext)):
        with Image.open(os.path.join(data_dir, name)) as picture:
            levels = np.array(picture.convert("L"))
        rows, columns = -(-levels.shape[0] // SIZE), -(-levels.shape[1] // SIZE)
        whole = np.pad(levels, ((0, rows * SIZE - levels.shape[0]), (0, columns * SIZE - levels.shape[1])))
        patches.append(whole.reshape(rows, SIZE, columns, SIZE).swapaxes(1, 2).reshape(-1, SIZE, SIZE))
    return ops.from_numpy(np.concatenate(patches)[:n])


def read_info_file(data_dir: str, info_file: str) -> Tensor:
    """``(n,)``, int64: the point that each patch shows. Source: torchvision.datasets.phototour.read_info_file."""
    with open(os.path.join(data_dir, info_file)) as file:
        return ops.tensor([int(line.split()[0]) for line in file])


def read_matches_files(data_dir: str, matches_file: str) -> Tensor:
    """``(m, 3)``, int64: two patches, and 1 where they show one point. Source: torchvision.datasets.phototour.read_matches_files."""
    with open(os.path.join(data_dir, matches_file)) as file:
        rows = [line.split() for line in file]
    return ops.tensor([[int(row[0]), int(row[3]), int(row[1] == row[4])] for row in rows])
