"""The 1,000 classes of the challenge of 2012. Source: torchvision.datasets.imagenet."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

from ...serialization import load, save
from .folder import ImageFolder
from .matlab import read_mat
from .tables import tuples
from .utils import check_integrity, extract_archive, verify_str_arg
from .vision import Root

ARCHIVE_META: dict[str, tuple[str, str]] = tuples("ImageNet")
META_FILE = "meta.bin"


class ImageNet(ImageFolder):
    """1,281,167 photographs in 1,000 classes to train with, and 50,000 to test with, from archives that lie in the folder.

    Args:
        root: folder of the archives ``ILSVRC2012_devkit_t12.tar.gz`` and ``ILSVRC2012_img_train.tar`` or ``ILSVRC2012_img_val.tar``,
            which have to be fetched by hand; they are unpacked the first time.
        split: ``"train"`` or ``"val"``.
        kwargs: further arguments of :class:`ImageFolder`.
    Attributes:
        classes: tuples of names.
        class_to_idx: index of each name.
        wnids, wnid_to_idx: what WordNet calls the classes, and index of each.
    Raises:
        ValueError: another ``split``.
        RuntimeError: an archive is missing or damaged.
    Source: torchvision.datasets.ImageNet.
    Example:
        >>> dataset = ImageNet(root, split="val")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', ('cat',))
    """

    _SHOWN = "Split: {0.split}"

    def __init__(self, root: Root, split: str = "train", **kwargs: Any) -> None:
        root = self.root = os.path.expanduser(root)
        self.split = verify_str_arg(split, "split", ("train", "val"))
        self.parse_archives()
        names = load_meta_file(root)[0]
        super().__init__(self.split_folder, **kwargs)
        self.root = root
        self.wnids, self.wnid_to_idx = self.classes, self.class_to_idx
        self.classes = [names[wnid] for wnid in self.wnids]
        self.class_to_idx = {name: index for index, synonyms in enumerate(self.classes) for name in synonyms}

    def parse_archives(self) -> None:
        """Unpack the archives, unless that was done."""
        if not check_integrity(os.path.join(self.root, META_FILE)):
            parse_devkit_archive(self.root)
        if not os.path.isdir(self.split_folder):
            (parse_train_archive if self.split == "train" else parse_val_archive)(self.root)

    @property
    def split_folder(self) -> str:
        return os.path.join(self.root, self.split)


def load_meta_file(root: Root, file: str | None = None) -> Any:
    """Names of the classes by what WordNet calls them, and the class of each image to test with.

    Raises:
        RuntimeError: no such file.
    Source: torchvision.datasets.imagenet.load_meta_file.
    """
    path = os.path.join(root, file or META_FILE)
    if not check_integrity(path):
        raise RuntimeError(
            f"The meta file {path} is not present in the root directory or is corrupted. "
            "This file is automatically created by the ImageNet dataset."
        )
    return load(path, weights_only=True)


def _archive(root: Root, part: str, file: str | None) -> str:
    """Path of an archive.

    Raises:
        RuntimeError: it is missing or damaged.
    """
    name, md5 = ARCHIVE_META[part]
    path = os.path.join(root, file or name)
    if not check_integrity(path, md5):
        raise RuntimeError(
            f"The archive {file or name} is not present in the root directory or is corrupted. "
            f"You need to download it externally and place it in {root}."
        )
    return path


@contextlib.contextmanager
def _unpacked(archive: str, root: Root, folder: str) -> Iterator[str]:
    """Context that puts an archive's images in order; the folder appears at its end, as one that is there counts as whole."""
    with tempfile.TemporaryDirectory(dir=root, prefix=".extracting-") as scratch:
        images = os.path.join(scratch, folder)
        extract_archive(archive, images)
        yield images
        os.rename(images, os.path.join(root, folder))


def parse_devkit_archive(root: Root, file: str | None = None) -> None:
    """Collect what an archive says of the classes into ``meta.bin``. Source: torchvision.datasets.imagenet.parse_devkit_archive."""
    path = _archive(root, "devkit", file)
    with tempfile.TemporaryDirectory() as scratch:
        extract_archive(path, scratch)
        folder = os.path.join(scratch, "ILSVRC2012_devkit_t12", "data")
        synsets = read_mat(os.path.join(folder, "meta.mat"), squeeze_me=True)["synsets"]
        with open(os.path.join(folder, "ILSVRC2012_validation_ground_truth.txt")) as lines:
            truth = [int(line) for line in lines]
    # Number, name in WordNet, names, explanation, number of children: classes are those without.
    classes = [row for row in zip(*(synsets[field].tolist() for field in synsets.dtype.names[:5])) if row[4] == 0]
    wnids = {number: wnid for number, wnid, *_ in classes}
    names = {wnid: tuple(words.split(", ")) for _, wnid, words, *_ in classes}
    save((names, [wnids[number] for number in truth]), os.path.join(root, META_FILE))


def parse_train_archive(root: Root, file: str | None = None, folder: str = "train") -> None:
    """Unpack the archive of the images to train with, and the archives in it. Source: torchvision.datasets.imagenet.parse_train_archive."""
    with _unpacked(_archive(root, "train", file), root, folder) as images:
        for name in os.listdir(images):
            packed = os.path.join(images, name)
            extract_archive(packed, os.path.splitext(packed)[0], remove_finished=True)


def parse_val_archive(root: Root, file: str | None = None, wnids: list[str] | None = None, folder: str = "val") -> None:
    """Unpack the archive of the images to test with, each into the folder of its class.

    Args:
        root: folder of the archive.
        file: its name.
        wnids: class of each image; as ``meta.bin`` has them when None.
        folder: name of the folder to make.
    Source: torchvision.datasets.imagenet.parse_val_archive.
    """
    classes: list[str] = load_meta_file(root)[1] if wnids is None else wnids
    with _unpacked(_archive(root, "val", file), root, folder) as images:
        names = sorted(os.listdir(images))
        for wnid in set(classes):
            os.mkdir(os.path.join(images, wnid))
        for wnid, name in zip(classes, names):
            os.rename(os.path.join(images, name), os.path.join(images, wnid, name))
