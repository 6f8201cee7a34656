"""Photographs of faces: CelebA and LFW. Sources: torchvision.datasets.celeba, torchvision.datasets.lfw."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import ops
from .annotated import opened
from .detection import one_or_all
from .folder import Loader, default_loader
from .tables import table, tuples
from .utils import download_file_from_google_drive, extract_archive, verify_str_arg
from .vision import DAMAGED, Prepared, Root, Transform


class CelebA(Prepared[Any]):
    """202,599 photographs of 10,177 people, with forty attributes, a box and five points each.

    Args:
        root: folder in which ``celeba`` holds the files.
        split: ``"train"``, ``"valid"``, ``"test"`` or ``"all"``.
        target_type: ``"attr"``, ``"identity"``, ``"bbox"``, ``"landmarks"``, or a list of these; the target of an empty list is None.
        transform, target_transform: functions of the image, which is Pillow's, and of the target.
        download: fetch the files where they are missing, by the package gdown.
    Attributes:
        filename: names of the files.
        attr, identity, bbox, landmarks_align: ``(n, 40)``, ``(n, 1)``, ``(n, 4)`` and ``(n, 10)``, int64.
        attr_names: names of the attributes.
    Raises:
        ValueError: another ``split`` or type.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.CelebA.
    Example:
        >>> dataset = CelebA(root, target_type=["identity", "bbox"])
        >>> image, (person, box) = dataset[0]
        >>> person, box.shape
        (tensor(100), torch.Size([4]))
    """

    base_folder = "celeba"
    file_list = tuples("CelebA")  # on Google Drive
    _PARTS = ("train", "valid", "test", "all")
    _SHOWN = "Target type: {0.target_type}\nSplit: {0.split}"

    def __init__(
        self,
        root: Root,
        split: str = "train",
        target_type: list[str] | str = "attr",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = split
        self.target_type = target_type if isinstance(target_type, list) else [target_type]
        if not self.target_type and target_transform is not None:
            raise RuntimeError("target_transform is specified but target_type is empty")
        self._prepare(download, DAMAGED)
        part = verify_str_arg(split.lower() if isinstance(split, str) else split, "split", self._PARTS)
        names, parts, _ = self._table("list_eval_partition.txt")
        chosen = np.arange(len(names)) if part == "all" else np.nonzero(parts[:, 0] == self._PARTS.index(part))[0]
        self.filename = [names[index] for index in chosen]
        attributes, self.attr_names = self._table("list_attr_celeba.txt", heads=2)[1:]
        self.attr = ops.from_numpy((attributes[chosen] + 1) // 2)  # -1 and 1 in the file
        self.identity = ops.from_numpy(self._table("identity_CelebA.txt")[1][chosen])
        self.bbox = ops.from_numpy(self._table("list_bbox_celeba.txt", heads=2)[1][chosen])
        self.landmarks_align = ops.from_numpy(self._table("list_landmarks_align_celeba.txt", heads=2)[1][chosen])

    def _table(self, name: str, heads: int = 0) -> tuple[list[str], Any, list[str]]:
        """First words, numbers, and names of the columns of a file that begins with so many lines of other things."""
        with open(os.path.join(self.root, self.base_folder, name)) as file:
            lines = file.read().splitlines()
        rows = [line.split() for line in lines[heads:]]
        # A blank at the end of a line of names makes an empty one, which programs that know torchvision expect.
        names = re.split(" +", lines[heads - 1].lstrip()) if heads else []
        return [row[0] for row in rows], np.array([row[1:] for row in rows], np.int64), names

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        targets = [self._target(kind, index) for kind in self.target_type]
        image = opened(os.path.join(self.root, self.base_folder, "img_align_celeba", self.filename[index]))
        return self._transformed(image, one_or_all(targets))

    def _target(self, kind: str, index: int) -> Any:
        if kind == "identity":
            return self.identity[index, 0]
        tensors = {"attr": self.attr, "bbox": self.bbox, "landmarks": self.landmarks_align}
        if kind not in tensors:
            raise ValueError(f'Target type "{kind}" is not recognized.')
        return tensors[kind][index]

    def __len__(self) -> int:
        return len(self.attr)

    def _folders(self) -> Iterable[Root]:
        return (os.path.join(self.root, self.base_folder, "img_align_celeba"),)

    def _files(self) -> Iterable[tuple[Root, str]]:
        lists = [(name, md5) for _, md5, name in self.file_list if not name.endswith(".zip")]
        return [(os.path.join(self.root, self.base_folder, name), md5) for name, md5 in lists]

    def _fetch(self) -> None:
        folder = os.path.join(self.root, self.base_folder)
        for file_id, md5, name in self.file_list:
            download_file_from_google_drive(file_id, folder, name, md5)
        extract_archive(os.path.join(folder, "img_align_celeba.zip"))


class _LFW(Prepared[Any]):
    """Labeled Faces in the Wild, which cannot be downloaded any more."""

    base_folder = "lfw-py"
    download_url_prefix = "http://vis-www.cs.umass.edu/lfw/"
    file_dict = tuples("LFW")["archives"]
    checksums = table("LFW")["checksums"]
    annot_file = {"10fold": "", "train": "DevTrain", "test": "DevTest"}
    names = "lfw-names.txt"
    _SHOWN = "Alignment: {0.image_set}\nSplit: {0.split}"
    _GONE = (
        "LFW dataset is no longer available for automatic download. Please download the dataset manually and place it in the "
        "specified directory. A commonly used mirror is available at: https://www.kaggle.com/datasets/jessicali9530/lfw-dataset"
    )

    _VIEW: str

    def __init__(
        self,
        root: Root,
        split: str = "10fold",
        image_set: str = "funneled",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        super().__init__(os.path.join(root, self.base_folder), transform=transform, target_transform=target_transform)
        self.image_set = verify_str_arg(image_set.lower(), "image_set", self.file_dict.keys())
        folder, self.filename, self.md5 = self.file_dict[self.image_set]
        self.view = self._VIEW
        self.split = verify_str_arg(split.lower(), "split", ["10fold", "train", "test"])
        self.labels_file = f"{self.view}{self.annot_file[self.split]}.txt"
        self.data = []
        self.targets: list[int] = []
        self._prepare(download, DAMAGED)
        self.images_dir = os.path.join(self.root, folder)
        self._loader = loader
        self._read()

    def _read(self) -> None:
        """Fill the lists of images and targets."""
        raise NotImplementedError

    def _files(self) -> Iterable[tuple[Root, str]]:
        files = [(self.filename, self.md5), (self.labels_file, self.checksums[self.labels_file])]
        if self.view == "people":
            files.append((self.names, self.checksums[self.names]))
        return [(os.path.join(self.root, name), md5) for name, md5 in files]

    def _rows(self) -> list[list[str]]:
        with open(os.path.join(self.root, self.labels_file)) as file:
            return [line.strip().split("\t") for line in file]

    def _get_path(self, identity: str, no: int | str) -> str:
        return os.path.join(self.images_dir, identity, f"{identity}_{int(no):04d}.jpg")


class LFWPeople(_LFW):
    """13,233 photographs of 5,749 people. They cannot be downloaded any more.

    Args:
        root: folder in which ``lfw-py`` holds the files.
        split: ``"10fold"``, ``"train"`` or ``"test"``.
        image_set: ``"original"``, ``"funneled"`` or ``"deepfunneled"``: how faces were brought to the middle.
        transform, target_transform: functions of the image and of the index of the person.
        download: has to be False.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split`` or ``image_set``, or ``download``.
        RuntimeError: files are missing or damaged.
    Source: torchvision.datasets.LFWPeople.
    Example:
        >>> dataset = LFWPeople(root, split="train")
        >>> image, person = dataset[0]
        >>> image.mode, person
        ('RGB', 0)
    """

    _VIEW = "people"

    def _read(self) -> None:
        with open(os.path.join(self.root, self.names)) as file:
            self.class_to_idx = {line.split()[0]: index for index, line in enumerate(file)}
        rows, start = self._rows(), 1 if self.split == "10fold" else 0
        for _ in range(int(rows[0][0]) if self.split == "10fold" else 1):  # each part: a number of lines, then the lines
            count = int(rows[start][0])
            for identity, images in rows[start + 1 : start + 1 + count]:
                self.data += [self._get_path(identity, number) for number in range(1, int(images) + 1)]
                self.targets += [self.class_to_idx[identity]] * int(images)
            start += count + 1

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self._loader(self.data[index]), self.targets[index])

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}\nClasses (identities): {len(self.class_to_idx)}"


class LFWPairs(_LFW):
    """Pairs of photographs of one person or of two. They cannot be downloaded any more.

    Args:
        root: folder in which ``lfw-py`` holds the files.
        split: ``"10fold"``, ``"train"`` or ``"test"``.
        image_set: ``"original"``, ``"funneled"`` or ``"deepfunneled"``: how faces were brought to the middle.
        transform, target_transform: functions of an image, and of 1 for one person or 0 for two.
        download: has to be False.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split`` or ``image_set``, or ``download``.
        RuntimeError: files are missing or damaged.
    Source: torchvision.datasets.LFWPairs.
    Example:
        >>> dataset = LFWPairs(root, split="test")
        >>> one, other, same = dataset[0]
        >>> one.size, same
        ((6, 5), 1)
    """

    _VIEW = "pairs"

    def _read(self) -> None:
        self.pair_names: list[tuple[str, str]] = []
        (head, *rows) = self._rows()
        folds = int(head[0]) if self.split == "10fold" else 1
        for row in rows[: 2 * folds * int(head[-1])]:  # of one person: name, two numbers; of two: each with a number
            first, second = (row[0], row[1]), (row[-2] if len(row) == 4 else row[0], row[-1])
            self.pair_names.append((first[0], second[0]))
            self.data.append((self._get_path(*first), self._get_path(*second)))
            self.targets.append(int(len(row) == 3))

    def __getitem__(self, index: int) -> tuple[Any, Any, int]:
        first, second = (self._loader(path) for path in self.data[index])
        if self.transform is not None:
            first, second = self.transform(first), self.transform(second)
        target = self.targets[index]
        return first, second, target if self.target_transform is None else self.target_transform(target)
