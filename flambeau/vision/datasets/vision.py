"""Base class of all data sets of images. Source: torchvision.datasets.vision."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ...utils.data.dataset import Dataset

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
    """

    _repr_indent = 4

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
        if self.transform is not None:
            sample = self.transform(sample)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return sample, target

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
        return ""


class Prepared(VisionDataset[_T_co]):
    """A data set that can be downloaded: subclasses say what is missing, and how it is fetched."""

    def _missing(self) -> str | None:
        """Path of something that is missing or damaged; None where all is there."""
        raise NotImplementedError

    def download(self) -> None:
        """Download what is missing."""
        raise NotImplementedError

    def _prepare(self, download: bool, message: str = NOT_FOUND) -> None:
        """Download where that is wanted and needed, and see to it that all is there.

        Raises:
            RuntimeError: something is missing or damaged.
        """
        path = self._missing()
        if path is not None and download:
            self.download()
            path = self._missing()
        if path is not None:
            raise RuntimeError(f"{message} (missing or damaged: {path})")


class StandardTransform:
    """A function of an image and one of its target, together.

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
