"""Small color images in ten and in a hundred classes, in pickled batches. Source: torchvision.datasets.cifar."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from PIL import Image

from .batches import ArchivedBatches
from .tables import table
from .utils import check_integrity
from .vision import DAMAGED, Root, Transform

# What the pickled batches consist of, beside Python's own containers.
PICKLED = {
    (module, name)
    for module, name in [
        *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    ]
}


class _Arrays(pickle.Unpickler):
    """Reads arrays in containers, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PICKLED:
            raise pickle.UnpicklingError(f"expected arrays and containers, got {module}.{name}")
        return super().find_class(module, name)


def read_pickle(path: str) -> Any:
    """Contents of a pickled file of arrays.

    Raises:
        RuntimeError: damaged, or something else in it.
    """
    try:
        with open(path, "rb") as file:
            return _Arrays(file, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        raise RuntimeError(f"{path} is damaged, or not what its name says: {error}") from error


class CIFAR10(ArchivedBatches):
    """50,000 color images of 32 by 32 pixels in ten classes to train with, and 10,000 to test with.

    Args:
        root: folder in which ``cifar-10-batches-py`` holds the files.
        train: those to train with.
        transform, target_transform: functions of the image, which is Pillow's, and of the index of its class.
        download: fetch the files where they are missing.
    Attributes:
        data: array ``(n, 32, 32, 3)``, uint8.
        targets: list of indices.
        classes, class_to_idx: names of the classes, and index of each.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.CIFAR10.
    Example:
        >>> dataset = CIFAR10(root, train=False)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'tree')
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list, test_list = table("CIFAR10")["train"], table("CIFAR10")["test"]
    _SHOWN = "Split: {0._half}"
    meta = {"filename": "batches.meta", "key": "label_names", "md5": "5ff9c542aee3614f3951f8cda6e48888"}

    def __init__(
        self, root: Root, train: bool = True, transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        self._prepare(download, DAMAGED)
        batches = [read_pickle(self._path(name)) for name, _ in (self.train_list if train else self.test_list)]
        self.targets: list[int] = [label for batch in batches for label in batch.get("labels", batch.get("fine_labels"))]
        self.data = np.vstack([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        path = self._path(self.meta["filename"])
        if not check_integrity(path, self.meta["md5"]):
            raise RuntimeError(f"Dataset metadata file not found or corrupted. You can use download=True to download it ({path})")
        self.classes: list[str] = read_pickle(path)[self.meta["key"]]
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(Image.fromarray(self.data[index]), self.targets[index])


class CIFAR100(CIFAR10):
    """Color images in a hundred classes, otherwise as :class:`CIFAR10`.

    Args:
        root, train, transform, target_transform, download: as for :class:`CIFAR10`.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.CIFAR100.
    Example:
        >>> dataset = CIFAR100(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'cat')
    """

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48"}
