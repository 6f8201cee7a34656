"""Images made of noise. Source: torchvision.datasets.fakedata."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from ... import ops
from ...core.dtype import uint8
from .vision import Transform, VisionDataset


class FakeData(VisionDataset[Any]):
    """Random images with random classes, the same at each index each time.

    Args:
        size: number of images.
        image_size: ``(C, H, W)``, with 1, 2, 3 or 4 channels.
        num_classes: number of classes.
        transform, target_transform: functions of the image, which is Pillow's, and of its class.
        random_offset: added to an index to make the seed of its image.
    Source: torchvision.datasets.FakeData.
    Example:
        >>> images = FakeData(size=4, image_size=(3, 8, 8))
        >>> len(images), images[0][0].size
        (4, (8, 8))
    """

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, ...] = (3, 224, 224),
        num_classes: int = 10,
        transform: Transform = None,
        target_transform: Transform = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.num_classes = size, num_classes
        self.image_size, self.random_offset = image_size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        state = ops.get_rng_state()
        ops.manual_seed(index + self.random_offset)
        noise = ops.randn(*self.image_size)
        target = ops.randint(0, self.num_classes, size=(1,))[0]
        ops.set_rng_state(state)
        levels = np.ascontiguousarray(noise.mul(255).to(uint8).numpy().transpose(1, 2, 0))
        image, target = self._transformed(Image.fromarray(levels[..., 0] if levels.shape[2] == 1 else levels), target)
        return image, target.item()

    def __len__(self) -> int:
        return self.size
