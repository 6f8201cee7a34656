"""Base class of data sets that are a list of photographs with a file of annotations each."""

from __future__ import annotations

from typing import Any

from PIL import Image

from .folder import pil_loader
from .vision import Root, VisionDataset


def opened(path: Root) -> Any:
    """Pillow's image of a file, read whole, in its own colors."""
    with open(path, "rb") as file:
        image = Image.open(file)
        image.load()
    return image


class Annotated(VisionDataset[Any]):
    """Photographs with targets, transformed together; subclasses read the targets.

    Attributes:
        images: paths.
    """

    images: list[str]

    def _image(self, index: int) -> Any:
        return pil_loader(self.images[index])

    def _target(self, index: int) -> Any:
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed_together(self._image(index), self._target(index))

    def __len__(self) -> int:
        return len(self.images)
