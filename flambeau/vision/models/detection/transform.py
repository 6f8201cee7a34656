"""First and last step of a detector: sizes and values of images and targets, and of its results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .... import nn, ops
from ....core import dtype as dtypes
from ....core.tensor import Tensor
from ....nn import functional as F
from ._utils import Target
from .image_list import ImageList
from .roi_heads import paste_masks_in_image

__all__ = ["GeneralizedRCNNTransform", "resize_boxes", "resize_keypoints"]


def _ratios(new_size: Sequence[int], original_size: Sequence[int], device: Any) -> Any:
    """New by old height and width, in float32."""
    new, old = (ops.tensor(size, dtype=dtypes.float32, device=device) for size in (new_size, original_size))
    return (new / old).unbind()


def resize_boxes(boxes: Tensor, original_size: Sequence[int], new_size: Sequence[int]) -> Tensor:
    """Boxes ``(N, 4)`` of an image, after its height and width became ``new_size``.

    Args:
        boxes: ``(N, 4)``.
        original_size: height and width before.
        new_size: height and width after.
    Returns:
        ``(N, 4)``.
    Source: torchvision.models.detection.transform.resize_boxes.
    Example:
        >>> resize_boxes(torch.tensor([[0.0, 0.0, 4.0, 2.0]]), (2, 4), (4, 4))
        tensor([[0., 0., 4., 4.]])
    """
    down, right = _ratios(new_size, original_size, boxes.device)
    return boxes * ops.stack((right, down, right, down))


def resize_keypoints(keypoints: Tensor, original_size: Sequence[int], new_size: Sequence[int]) -> Tensor:
    """Key points ``(N, K, 3)``, ``x, y, visibility``, after the image's height and width became ``new_size``.

    Args:
        keypoints: ``(N, K, 3)``.
        original_size: height and width before.
        new_size: height and width after.
    Returns:
        ``(N, K, 3)``.
    Source: torchvision.models.detection.transform.resize_keypoints.
    Example:
        >>> resize_keypoints(torch.tensor([[[1.0, 1.0, 1.0]]]), (2, 4), (4, 4))
        tensor([[[1., 2., 1.]]])
    """
    down, right = _ratios(new_size, original_size, keypoints.device)
    return ops.stack((keypoints[..., 0] * right, keypoints[..., 1] * down, keypoints[..., 2]), dim=-1)


IMAGE_MEAN, IMAGE_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet


def image_transform(
    min_size: Any, max_size: int, image_mean: list[float] | None, image_std: list[float] | None, **kwargs: Any
) -> GeneralizedRCNNTransform:
    """A detector's transform; mean and deviation are ImageNet's where they are None."""
    mean = list(IMAGE_MEAN) if image_mean is None else image_mean
    return GeneralizedRCNNTransform(min_size, max_size, mean, list(IMAGE_STD) if image_std is None else image_std, **kwargs)


class GeneralizedRCNNTransform(nn.Module):
    """Images normalised, resized and put together; targets resized with them; results brought back.

    Args:
        min_size: the shorter side; while training one of several at random.
        max_size: the longer side's limit.
        image_mean: subtracted from each channel.
        image_std: by which each channel is divided.
        size_divisible: padded images have heights and widths that this number divides.
        fixed_size: width and height of all images, in place of the above.
        kwargs: ``_skip_resize``, which leaves images of training as they are.
    Shape:
        A list of ``(C, H_i, W_i)`` and targets to an ``ImageList`` and targets.
    Raises:
        ValueError: images that have not three dimensions.
        TypeError: images that are not of floating point.
    Source: torchvision.models.detection.transform.GeneralizedRCNNTransform.
    Example:
        >>> images, _ = GeneralizedRCNNTransform(32, 64, [0.5] * 3, [0.5] * 3)([torch.rand(3, 20, 40)])
        >>> images.tensors.shape, images.image_sizes
        (torch.Size([1, 3, 32, 64]), [(32, 64)])
    """

    def __init__(
        self,
        min_size: Any,
        max_size: int,
        image_mean: list[float],
        image_std: list[float],
        size_divisible: int = 32,
        fixed_size: tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.min_size = min_size if isinstance(min_size, (list, tuple)) else (min_size,)
        self.max_size = max_size
        self.image_mean, self.image_std = image_mean, image_std
        self.size_divisible, self.fixed_size = size_divisible, fixed_size
        self._skip_resize = kwargs.pop("_skip_resize", False)

    def forward(self, images: Sequence[Tensor], targets: Sequence[Target] | None = None) -> tuple[ImageList, list[Target] | None]:
        resized: list[Tensor] = []
        moved: list[Target] | None = None if targets is None else [dict(target) for target in targets]
        for k, image in enumerate(images):
            if image.dim() != 3:
                raise ValueError(f"images is expected to be a list of 3d tensors of shape [C, H, W], got {image.shape}")
            image, target = self.resize(self.normalize(image), None if moved is None else moved[k])
            resized.append(image)
            if moved is not None and target is not None:
                moved[k] = target
        sizes = [(image.shape[-2], image.shape[-1]) for image in resized]
        return ImageList(self.batch_images(resized, size_divisible=self.size_divisible), sizes), moved

    def normalize(self, image: Tensor) -> Tensor:
        """``image``, ``(C, H, W)``, less the mean, by the deviation.

        Raises:
            TypeError: an image of integers.
        """
        if not image.is_floating_point():
            raise TypeError(f"Expected input images to be of floating type (in range [0, 1]), but found type {image.dtype} instead")
        mean = ops.as_tensor(self.image_mean, dtype=image.dtype, device=image.device)
        std = ops.as_tensor(self.image_std, dtype=image.dtype, device=image.device)
        return (image - mean[:, None, None]) / std[:, None, None]

    def torch_choice(self, k: Sequence[int]) -> int:
        """One of ``k``, by the default generator."""
        return k[int(ops.empty(1).uniform_(0.0, float(len(k))).item())]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        """An image, its boxes, masks and key points in the size that the model takes."""
        if self.training and self._skip_resize:
            return image, target
        original = image.shape[-2:]
        shorter = self.torch_choice(self.min_size) if self.training else self.min_size[-1]
        how = self._resizing(original, shorter)
        image = F.interpolate(image[None], mode="bilinear", align_corners=False, **how)[0]
        if target is None:
            return image, target
        if "masks" in target:
            target["masks"] = F.interpolate(target["masks"][:, None].float(), **how)[:, 0].byte()
        target["boxes"] = resize_boxes(target["boxes"], original, image.shape[-2:])
        if "keypoints" in target:
            target["keypoints"] = resize_keypoints(target["keypoints"], original, image.shape[-2:])
        return image, target

    def _resizing(self, size: Sequence[int], shorter: int) -> dict[str, Any]:
        """``interpolate``'s arguments for an image of ``size``."""
        if self.fixed_size is not None:
            return {"size": [self.fixed_size[1], self.fixed_size[0]]}
        scale = min(shorter / min(size), self.max_size / max(size))
        return {"scale_factor": scale, "recompute_scale_factor": True}

    def max_by_axis(self, the_list: list[list[int]]) -> list[int]:
        """The largest of each place of lists of the same length."""
        return [max(values) for values in zip(*the_list)]

    def batch_images(self, images: Sequence[Tensor], size_divisible: int = 32) -> Tensor:
        """Images of several sizes as one tensor, with zeros at their right and lower ends."""
        channels, *sides = self.max_by_axis([list(image.shape) for image in images])
        height, width = (math.ceil(side / size_divisible) * size_divisible for side in sides)
        batch = images[0].new_full((len(images), channels, height, width), 0)
        for k, image in enumerate(images):
            batch[k, : image.shape[0], : image.shape[1], : image.shape[2]].copy_(image)
        return batch

    def postprocess(
        self, result: list[Target], image_shapes: Sequence[tuple[int, int]], original_image_sizes: Sequence[tuple[int, int]]
    ) -> list[Target]:
        """Results in the coordinates of the images as they came; masks become whole images. Losses of training as they are."""
        if self.training:
            return result
        for prediction, shape, original in zip(result, image_shapes, original_image_sizes):
            prediction["boxes"] = resize_boxes(prediction["boxes"], shape, original)
            if "masks" in prediction:
                prediction["masks"] = paste_masks_in_image(prediction["masks"], prediction["boxes"], original)
            if "keypoints" in prediction:
                prediction["keypoints"] = resize_keypoints(prediction["keypoints"], shape, original)
        return result

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n    Normalize(mean={self.image_mean}, std={self.image_std})\n    "
            f"Resize(min_size={self.min_size}, max_size={self.max_size}, mode='bilinear')\n)"
        )
