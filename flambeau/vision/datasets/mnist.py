"""Handwritten digits and their kin, in files of the IDX format. Source: torchvision.datasets.mnist."""

from __future__ import annotations

import os
import shutil
import string
import warnings
from collections.abc import Iterable
from typing import Any
from urllib.error import URLError

import numpy as np
from PIL import Image

from ... import ops
from ...core.dtype import uint8
from ...core.tensor import Tensor
from ...serialization import load
from .tables import tuples
from .utils import check_integrity, download_and_extract_archive, extract_archive, verify_str_arg
from .vision import NOT_FOUND, Prepared, Root, Transform

# Element types of IDX files, by the third byte.
IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
DIGITS = [f"{digit} - {name}" for digit, name in enumerate("zero one two three four five six seven eight nine".split())]


def _renamed(old: str, name: str) -> Any:
    """An attribute under its old name."""

    def value(self: Any) -> Any:
        warnings.warn(f"{old} has been renamed {name}", stacklevel=2)
        return getattr(self, name)

    return property(value, doc=f"Older name of ``{name}``.")


class MNIST(Prepared[Any]):
    """60,000 handwritten digits of 28 by 28 pixels to train with, and 10,000 to test with.

    Args:
        root: folder in which ``MNIST/raw`` holds the files.
        train: those to train with.
        transform, target_transform: functions of the image, which is Pillow's, and of the index of its class.
        download: fetch the files where they are missing.
    Attributes:
        data: ``(n, 28, 28)``, uint8.
        targets: ``(n,)``, int64.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.MNIST.
    Example:
        >>> dataset = MNIST(root, train=False)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('L', '6 - six')
    """

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources: Any = tuples("MNIST")
    training_file = "training.pt"
    test_file = "test.pt"
    classes = DIGITS
    _SHOWN = "Split: {0._half}"

    train_labels, test_labels = _renamed("train_labels", "targets"), _renamed("test_labels", "targets")
    train_data, test_data = _renamed("train_data", "data"), _renamed("test_data", "data")

    def __init__(
        self, root: Root, train: bool = True, transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if all(check_integrity(os.path.join(self.processed_folder, name)) for name in (self.training_file, self.test_file)):
            # As the first versions kept them: both tensors in one file.
            name = self.training_file if train else self.test_file
            self.data, self.targets = load(os.path.join(self.processed_folder, name), weights_only=True)
            return
        self._prepare(download, NOT_FOUND)
        self.data, self.targets = self._load_data()

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = self._paths()
        return read_image_file(images), read_label_file(labels)

    def _names(self) -> tuple[str, str]:
        """Names of the files of the images and of the labels."""
        part = "train" if self.train else "t10k"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    def _paths(self) -> list[str]:
        return [os.path.join(self.raw_folder, name) for name in self._names()]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(Image.fromarray(self.data[index].numpy()), int(self.targets[index]))

    @property
    def raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.classes)}

    def _files(self) -> Iterable[tuple[Root, None]]:
        return [(os.path.join(self.raw_folder, os.path.splitext(name)[0]), None) for name, _ in self.resources]

    def _fetch(self) -> None:
        """Download each file from the first mirror that gives it."""
        os.makedirs(self.raw_folder, exist_ok=True)
        for name, md5 in self.resources:
            problems = ""
            for mirror in self.mirrors:
                try:
                    download_and_extract_archive(f"{mirror}{name}", download_root=self.raw_folder, filename=name, md5=md5)
                    break
                except (RuntimeError, URLError) as error:
                    problems += f"Tried {mirror}, got:\n{error}\n"
            else:
                raise RuntimeError(f"Error downloading {name}:\n{problems}")


class FashionMNIST(MNIST):
    """Articles of clothing in MNIST's format.

    Args:
        root, train, transform, target_transform, download: as for :class:`MNIST`.
    Source: torchvision.datasets.FashionMNIST.
    Example:
        >>> dataset = FashionMNIST(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('L', 'Bag')
    """

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = tuples("FashionMNIST")
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class KMNIST(MNIST):
    """Cursive Japanese characters in MNIST's format.

    Args:
        root, train, transform, target_transform, download: as for :class:`MNIST`.
    Source: torchvision.datasets.KMNIST.
    Example:
        >>> dataset = KMNIST(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('L', 're')
    """

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = tuples("KMNIST")
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class _ChosenPart(MNIST):
    """A set of which the chosen part alone has to be there."""

    images_file = property(lambda self: self._paths()[0])
    labels_file = property(lambda self: self._paths()[1])

    def _files(self) -> Iterable[tuple[Root, None]]:
        return [(path, None) for path in self._paths()]


_ALIKE = set("cijklmopsuvwxyz")  # letters that look the same in upper case
_CHARACTERS = set(string.digits + string.ascii_letters)


class EMNIST(_ChosenPart):
    """Handwritten letters and digits in MNIST's format, divided in six ways.

    Args:
        root: folder in which ``EMNIST/raw`` holds the files.
        split: ``"byclass"``, ``"bymerge"``, ``"balanced"``, ``"letters"``, ``"digits"`` or ``"mnist"``.
        kwargs: further arguments of :class:`MNIST`.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.EMNIST.
    Example:
        >>> dataset = EMNIST(root, split="letters")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('L', 'h')
    """

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    md5 = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    classes_split_dict = {
        "byclass": sorted(_CHARACTERS),
        "bymerge": sorted(_CHARACTERS - _ALIKE),
        "balanced": sorted(_CHARACTERS - _ALIKE),
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root: Root, split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        self.training_file, self.test_file = f"training_{split}.pt", f"test_{split}.pt"
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    def _names(self) -> tuple[str, str]:
        prefix = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte"

    def _fetch(self) -> None:
        """Download the one archive that has all six divisions."""
        os.makedirs(self.raw_folder, exist_ok=True)
        download_and_extract_archive(self.url, download_root=self.raw_folder, md5=self.md5)
        packed = os.path.join(self.raw_folder, "gzip")
        for name in os.listdir(packed):
            if name.endswith(".gz"):
                extract_archive(os.path.join(packed, name), self.raw_folder)
        shutil.rmtree(packed)


class QMNIST(_ChosenPart):
    """MNIST's digits with all that is known of each: writer, series, place in the files of NIST.

    Args:
        root: folder in which ``QMNIST/raw`` holds the files.
        what: ``"train"``, ``"test"``, ``"test10k"``, ``"test50k"`` or ``"nist"``; by ``train`` when None.
        compat: the target is the digit; a tensor of eight numbers otherwise.
        train: see ``what``.
        kwargs: further arguments of :class:`MNIST`.
    Raises:
        ValueError: another ``what``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.QMNIST.
    Example:
        >>> dataset = QMNIST(root, what="test", compat=False)
        >>> image, facts = dataset[0]
        >>> image.mode, facts.shape
        ('L', torch.Size([8]))
    """

    _SHOWN = "Split: {0.what}"
    subsets = {"train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist"}
    resources = tuples("QMNIST")

    def __init__(self, root: Root, what: str | None = None, compat: bool = True, train: bool = True, **kwargs: Any) -> None:
        self.what = verify_str_arg(what or ("train" if train else "test"), "what", tuple(self.subsets))
        self.compat = compat
        self.data_file = self.training_file = self.test_file = f"{self.what}.pt"
        super().__init__(root, train, **kwargs)

    def _names(self) -> tuple[str, str]:
        images, labels = (os.path.splitext(os.path.basename(url))[0] for url, _ in self.resources[self.subsets[self.what]])
        return images, labels

    def _load_data(self) -> tuple[Tensor, Tensor]:
        images, labels = self._paths()
        data, targets = read_image_file(images), _checked(read_sn3_pascalvincent_tensor(labels), labels, 2).long()
        part = {"test10k": slice(10000), "test50k": slice(10000, None)}.get(self.what)
        return (data, targets) if part is None else (data[part].clone(), targets[part].clone())

    def _fetch(self) -> None:
        """Download the two files of the chosen part."""
        for url, md5 in self.resources[self.subsets[self.what]]:
            download_and_extract_archive(url, self.raw_folder, md5=md5)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        target = self.targets[index]
        return self._transformed(Image.fromarray(self.data[index].numpy()), int(target[0]) if self.compat else target)


# -- the format -----------------------------------------------------------------------------------------------------------
def get_int(b: bytes) -> int:
    """A number of bytes, the highest first. Source: torchvision.datasets.mnist.get_int."""
    return int.from_bytes(b, "big")


def read_sn3_pascalvincent_tensor(path: str, strict: bool = True) -> Tensor:
    """The tensor of an IDX file: two bytes 0, one for the type, one for the number of dimensions, the sizes, the elements.

    Args:
        path: of the file.
        strict: it has exactly as many elements as its sizes say; otherwise it may have more.
    Raises:
        ValueError: no such file, or cut.
    Source: torchvision.datasets.mnist.read_sn3_pascalvincent_tensor.
    """
    with open(path, "rb") as file:
        content = file.read()
    dimensions, kind = (content[3], content[2]) if content[:2] == b"\0\0" and len(content) > 3 else (0, 0)
    start = 4 * (dimensions + 1)
    if kind not in IDX_TYPES or not 1 <= dimensions <= 3 or len(content) < start:
        raise ValueError(f"{path} is no IDX file, or is damaged")
    shape = [get_int(content[place : place + 4]) for place in range(4, start, 4)]
    dtype = np.dtype(IDX_TYPES[kind])
    expected, count = int(np.prod(shape, dtype=object)), (len(content) - start) // dtype.itemsize
    if count < expected or (strict and count != expected):
        raise ValueError(f"{path} is damaged: expected {expected} elements of shape {tuple(shape)}, got {count}")
    values = np.frombuffer(content, dtype, expected, start)
    return ops.from_numpy(values.astype(dtype.newbyteorder("=")).reshape(shape))


def _checked(values: Tensor, path: str, dimensions: int, is_bytes: bool = False) -> Tensor:
    """The tensor of a file that has to have so many dimensions.

    Raises:
        TypeError: another type than uint8.
        ValueError: another number of dimensions.
    """
    if is_bytes and values.dtype != uint8:
        raise TypeError(f"x should be of dtype torch.uint8 instead of {values.dtype}: {path}")
    if values.dim() != dimensions:
        raise ValueError(f"x should have {dimensions} dimension instead of {values.dim()}: {path}")
    return values


def read_label_file(path: str) -> Tensor:
    """``(n,)``, int64, of an IDX file of bytes. Source: torchvision.datasets.mnist.read_label_file."""
    return _checked(read_sn3_pascalvincent_tensor(path, strict=False), path, 1, is_bytes=True).long()


def read_image_file(path: str) -> Tensor:
    """``(n, H, W)``, uint8, of an IDX file of bytes. Source: torchvision.datasets.mnist.read_image_file."""
    return _checked(read_sn3_pascalvincent_tensor(path, strict=False), path, 3, is_bytes=True)
