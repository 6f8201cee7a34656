"""Millions of photographs of scenes, in databases of LMDB's. Source: torchvision.datasets.lsun."""

from __future__ import annotations

import bisect
import io
import os
import pickle
import string
from collections.abc import Iterable
from typing import Any

from PIL import Image

from ...core.replacing import replace_file
from .cifar import read_pickle
from .utils import iterable_to_str, verify_str_arg
from .vision import Root, Transform, VisionDataset

CATEGORIES = "bedroom bridge church_outdoor classroom conference_room dining_room kitchen living_room restaurant tower".split()
PARTS = ["train", "val", "test"]


class LSUNClass(VisionDataset[Any]):
    """The photographs of one database; there are no targets.

    The keys of a database, which take long to collect, are kept in a file ``_cache_<letters of root>`` in the current folder.

    Args:
        root: folder of the database.
        transform, target_transform: functions of the image, which is Pillow's, and of None.
    Raises:
        ModuleNotFoundError: the package lmdb is not installed.
    Source: torchvision.datasets.LSUNClass.
    Example:
        >>> dataset = LSUNClass(f"{root}/tower_val_lmdb")
        >>> image, target = dataset[0]
        >>> len(dataset), target
        (2, None)
    """

    def __init__(self, root: str, transform: Transform = None, target_transform: Transform = None) -> None:
        import lmdb  # type: ignore[import-not-found]

        super().__init__(root, transform=transform, target_transform=target_transform)
        self.env = lmdb.open(root, max_readers=1, readonly=True, lock=False, readahead=False, meminit=False)
        with self.env.begin(write=False) as reader:
            self.length = reader.stat()["entries"]
        cache = "_cache_" + "".join(letter for letter in root if letter in string.ascii_letters)
        if os.path.isfile(cache):
            self.keys = read_pickle(cache)
            return
        with self.env.begin(write=False) as reader:
            self.keys = list(reader.cursor().iternext(keys=True, values=False))
        replace_file(cache, lambda file: pickle.dump(self.keys, file))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        with self.env.begin(write=False) as reader:
            content = reader.get(self.keys[index])
        return self._transformed(Image.open(io.BytesIO(content)).convert("RGB"), None)

    def __len__(self) -> int:
        return int(self.length)


class LSUN(VisionDataset[Any]):
    """Photographs of ten kinds of scenes.

    Args:
        root: folder of the databases' folders.
        classes: ``"train"``, ``"val"`` or ``"test"``, or a list such as ``["bedroom_train", "tower_val"]``.
        transform, target_transform: functions of the image, which is Pillow's, and of the index of its class.
    Raises:
        ValueError: other classes.
        ModuleNotFoundError: the package lmdb is not installed.
    Source: torchvision.datasets.LSUN.
    Example:
        >>> dataset = LSUN(root, classes=["tower_val", "kitchen_val"])
        >>> image, label = dataset[0]
        >>> len(dataset), dataset.classes[label]
        (3, 'tower_val')
    """

    _SHOWN = "Classes: {0.classes}"

    def __init__(
        self, root: Root, classes: str | list[str] = "train", transform: Transform = None, target_transform: Transform = None
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.classes = _checked_classes(classes)
        self.dbs = [LSUNClass(root=os.path.join(root, f"{name}_lmdb"), transform=transform) for name in self.classes]
        self.indices: list[int] = []  # where each database ends
        for database in self.dbs:
            self.indices.append(len(database) + (self.indices[-1] if self.indices else 0))
        self.length = self.indices[-1] if self.indices else 0

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        label: Any = bisect.bisect_right(self.indices, index)
        image, _ = self.dbs[label][index - (self.indices[label - 1] if label else 0)]
        return image, label if self.target_transform is None else self.target_transform(label)

    def __len__(self) -> int:
        return self.length


def _checked_classes(classes: Any) -> list[str]:
    """The names of the databases.

    Raises:
        ValueError: something else than a part or a list of categories with parts.
    """
    if isinstance(classes, str) and classes in PARTS:
        return [classes] if classes == "test" else [f"{category}_{classes}" for category in CATEGORIES]
    if not isinstance(classes, Iterable):
        raise ValueError(f"Expected type str or Iterable for argument classes, but got type {type(classes)}.")
    names = list(classes)
    for name in names:
        verify_str_arg(name, custom_msg=f"Expected type str for elements in argument classes, but got type {type(name)}.")
        category, _, part = name.rpartition("_")
        for value, kind, known in ((category, "LSUN class", CATEGORIES), (part, "postfix", PARTS)):
            message = f"Unknown value '{value}' for {kind}. Valid values are {{{iterable_to_str(known)}}}."
            verify_str_arg(value, valid_values=known, custom_msg=message)
    return names
