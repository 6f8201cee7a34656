"""Base class of all data sets of images. Source: torchvision.datasets.vision."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from ...utils.data.dataset import Dataset
from .utils import check_integrity, download_and_extract_archive

__all__ = ["StandardTransform", "VisionDataset"]

_T_co = TypeVar("_T_co", covariant=True)
Root = str | Path
Transform = Callable[..., Any] | None

NOT_FOUND = "Dataset not found. You can use download=True to download it"
DAMAGED = "Dataset not found or corrupted. You can use download=True to download it"


def _described(transform: Any, head: str) -> list[str]:
    """Lines of a transform's ``repr``, the first after ``head``, the others indented as far."""
    first, *others = repr(transform).splitlines()
    return [head + first, *(" " * len(head) + line for line in others)]


class VisionDataset(Dataset[_T_co]):
    """Base class of data sets of images: keeps where they are and how they are transformed, and says so.

    Args:
        root: folder of the data.
        transforms: function of an image and its target that gives both, or
        transform: function of the image, and
        target_transform: function of the target.
    Raises:
        ValueError: ``transforms`` beside one of the others.
    Source: torchvision.datasets.VisionDataset.
    Example:
        >>> class Numbers(VisionDataset):
        ...     __len__ = lambda self: 3
        >>> print(Numbers("folder"))
        Dataset Numbers
            Number of datapoints: 3
            Root location: folder
    """

    _repr_indent = 4
    _SHOWN = ""  # what ``repr`` says besides, as a format of the data set

    def __init__(
        self, root: Root | None = None, transforms: Transform = None, transform: Transform = None, target_transform: Transform = None
    ) -> None:
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        is_split = transform is not None or target_transform is not None
        if transforms is not None and is_split:
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.transform, self.target_transform = transform, target_transform
        self.transforms: Any = StandardTransform(transform, target_transform) if is_split else transforms

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def _transformed(self, sample: Any, target: Any) -> tuple[Any, Any]:
        """An image and its target after the function of each."""
        return StandardTransform(self.transform, self.target_transform)(sample, target)

    def _transformed_together(self, image: Any, target: Any) -> tuple[Any, Any]:
        """An image and its target after the function of both."""
        return (image, target) if self.transforms is None else self.transforms(image, target)

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        if self.root is not None:
            body.append(f"Root location: {self.root}")
        body += self.extra_repr().splitlines()
        if getattr(self, "transforms", None) is not None:
            body.append(repr(self.transforms))
        return "\n".join([f"Dataset {type(self).__name__}", *(" " * self._repr_indent + line for line in body)])

    def _format_transform_repr(self, transform: Any, head: str) -> list[str]:
        return _described(transform, head)

    def extra_repr(self) -> str:
        """Lines that ``repr`` shows beside the number of samples and the folder."""
        return self._SHOWN.format(self)


class Prepared(VisionDataset[_T_co]):
    """A data set that can be downloaded: subclasses say what has to be there, and how it is fetched.

    Attributes:
        data: the samples, where they are in one container.
        train: whether they are those to train with, where there are two halves.
    """

    _URL: str  # of the archive
    _MD5: str | None = None
    _UNPACKED_IN = ""  # below the root
    _GONE = ""  # why it cannot be downloaded any more

    data: Any
    train: bool
    _half = property(lambda self: "Train" if self.train is True else "Test")  # as ``repr`` calls it

    def __len__(self) -> int:
        return len(self.data)

    def _folders(self) -> Iterable[Root]:
        """The folders that have to be there."""
        return ()

    def _files(self) -> Iterable[tuple[Root, str | None]]:
        """The files that have to be there, each with its MD5 where that is known."""
        return ()

    def _missing(self) -> str | None:
        """Path of something that is missing or damaged; None where all is there."""
        damaged = (os.fspath(path) for path, md5 in self._files() if not check_integrity(path, md5))
        return missing_folder(*self._folders()) or next(damaged, None)

    def _fetch(self) -> None:
        """Download what has to be there, and unpack it."""
        download_and_extract_archive(self._URL, os.path.join(self.root, self._UNPACKED_IN), md5=self._MD5)

    def download(self) -> None:
        """Download what has to be there and unpack it, unless nothing is missing.

        Raises:
            ValueError: it is no longer where it was.
        """
        if self._GONE:
            raise ValueError(self._GONE)
        if self._missing() is not None:
            self._fetch()

    def _prepare(self, download: bool, message: str = NOT_FOUND) -> None:
        """Download where that is wanted and needed, and see to it that all is there.

        Raises:
            RuntimeError: something is missing or damaged.
            ValueError: ``download`` of what is no longer where it was.
        """
        path = self._missing()
        if download and (path is not None or self._GONE):
            self.download()
            path = self._missing()
        if path is not None:
            raise RuntimeError(f"{message} (missing or damaged: {path})")


def missing_folder(*folders: Root) -> str | None:
    """The first path that is no folder."""
    return next((os.fspath(folder) for folder in folders if not os.path.isdir(folder)), None)


class StandardTransform:
    """A function of an image and one of its target, together.

    Args:
        transform: of the image; it stays as it is when None.
        target_transform: of the target; it stays as it is when None.
    Source: torchvision.datasets.vision.StandardTransform.
    Example:
        >>> StandardTransform(transform=lambda image: image + 1)(1, "label")
        (2, 'label')
    """

    def __init__(self, transform: Transform = None, target_transform: Transform = None) -> None:
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def _format_transform_repr(self, transform: Any, head: str) -> list[str]:
        return _described(transform, head)

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for head, transform in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if transform is not None:
                lines += _described(transform, head)
        return "\n".join(lines)
