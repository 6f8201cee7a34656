"""Learned and random policies of augmentation, for a single image or video among the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import PIL.Image

from .... import ops
from ....core.tensor import Tensor
from ... import tv_tensors
from .._kernels import augmentation
from .._kernels.augmentation import AutoAugmentPolicy, Space
from .._kernels.meta import get_size
from . import functional as F
from ._transform import Transform
from ._utils import check_type, fill_for, is_pure_tensor, setup_fill

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]

_BINS_OF_MIX = 10


class _Augmentation(Transform):
    def __init__(self, *, interpolation: Any = "nearest", fill: Any = None):
        super().__init__()
        self.interpolation, self.fill = interpolation, fill
        self._fill = setup_fill(fill)

    def _place(self, flat_inputs: list[Any]) -> int:
        """Position of the image or video among the inputs.

        Raises:
            TypeError: there is none, several, or boxes, points or masks.
        """
        places = []
        images = (tv_tensors.Image, PIL.Image.Image, is_pure_tensor, tv_tensors.Video)
        for i, (inpt, needs_transform) in enumerate(zip(flat_inputs, self._needs_transform_list(flat_inputs))):
            if needs_transform and check_type(inpt, images):
                places.append(i)
            elif isinstance(inpt, (tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints)):
                raise TypeError(f"Inputs of type {type(inpt).__name__} are not supported by {type(self).__name__}()")
        if not places:
            raise TypeError("Found no image in the sample.")
        if len(places) > 1:
            raise TypeError(f"Auto augment transformations are only properly defined for a single image or video, but found {len(places)}.")
        return places[0]

    def augmented(self, image: Any) -> Any:
        """The image or video, augmented."""
        raise NotImplementedError

    def _transformed(self, flat_inputs: list[Any]) -> list[Any]:
        place = self._place(flat_inputs)
        flat_inputs[place] = self.augmented(flat_inputs[place])
        return flat_inputs

    def _step(self, image: Any, space: Space, name: str, bins: int, size: list[int], magnitude_index: Callable[[], int]) -> Any:
        """``image`` after the operation ``name``, with a sign that is drawn where it has one."""
        magnitudes = space.magnitudes(name, bins, size, 1.0)
        magnitude = 0.0 if magnitudes is None else float(magnitudes[magnitude_index()])
        if name in augmentation.SIGNED and ops.rand(()) <= 0.5:
            magnitude = -magnitude
        if name == "Solarize":
            magnitude *= augmentation.white_of(image)
        return augmentation.applied(F, name, image, magnitude, self.interpolation, fill_for(self._fill, type(image)))

    def _drawn_step(self, image: Any, space: Space, bins: int, size: list[int], magnitude_index: Callable[[], int]) -> Any:
        name = space.names[int(ops.randint(len(space.names), ()))]
        return self._step(image, space, name, bins, size, magnitude_index)


class AutoAugment(_Augmentation):
    """A pair of operations from a learned policy; the arguments are those of the classic form.

    Args:
        policy: an ``AutoAugmentPolicy``.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
    Source: torchvision.transforms.v2.AutoAugment. Cubuk et al. 2018.
    Example:
        >>> AutoAugment()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(self, policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET, interpolation: Any = "nearest", fill: Any = None):
        super().__init__(interpolation=interpolation, fill=fill)
        self.policy = policy
        self._policies = augmentation.policies_of(policy)

    def augmented(self, image: Any) -> Any:
        size = get_size(image)
        for name, probability, magnitude_id in self._policies[int(ops.randint(len(self._policies), ()))]:
            if ops.rand(()) <= probability:
                image = self._step(image, augmentation.AUTO, name, 10, size, lambda at=magnitude_id: at)  # type: ignore[misc]
        return image


class RandAugment(_Augmentation):
    """Operations drawn with equal probability, all of one strength; the arguments are those of the classic form.

    Args:
        num_ops: operations.
        magnitude: the strength, from 0 to below ``num_magnitude_bins``.
        num_magnitude_bins: the number of strengths.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
    Raises:
        ValueError: fewer than no operations.
    Source: torchvision.transforms.v2.RandAugment. Cubuk et al. 2019.
    Example:
        >>> RandAugment()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None
    ):
        super().__init__(interpolation=interpolation, fill=fill)
        if not isinstance(num_ops, int) or num_ops < 0:
            raise ValueError(f"num_ops should be a non-negative integer, but got {num_ops} instead.")
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def augmented(self, image: Any) -> Any:
        size = get_size(image)
        for _ in range(self.num_ops):
            image = self._drawn_step(image, augmentation.RAND, self.num_magnitude_bins, size, lambda: self.magnitude)
        return image


class TrivialAugmentWide(_Augmentation):
    """One operation of one strength, both drawn with equal probability.

    Args:
        num_magnitude_bins: the number of strengths.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
    Source: torchvision.transforms.v2.TrivialAugmentWide. Müller and Hutter 2021.
    Example:
        >>> TrivialAugmentWide()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(self, num_magnitude_bins: int = 31, interpolation: Any = "nearest", fill: Any = None):
        super().__init__(interpolation=interpolation, fill=fill)
        self.num_magnitude_bins = num_magnitude_bins

    def augmented(self, image: Any) -> Any:
        bins = self.num_magnitude_bins
        return self._drawn_step(image, augmentation.TRIVIAL_WIDE, bins, get_size(image), lambda: int(ops.randint(bins, ())))


class AugMix(_Augmentation):
    """The image mixed with chains of augmented ones; the arguments are those of the classic form.

    Args:
        severity, mixture_width, chain_depth, alpha, all_ops: as in the classic form.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
    Raises:
        ValueError: another ``severity``.
    Source: torchvision.transforms.v2.AugMix. Hendrycks et al. 2020.
    Example:
        >>> AugMix()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Any = "bilinear",
        fill: Any = None,
    ):
        super().__init__(interpolation=interpolation, fill=fill)
        if not 1 <= severity <= _BINS_OF_MIX:
            raise ValueError(f"The severity must be between [1, {_BINS_OF_MIX}]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops = alpha, all_ops

    def augmented(self, image: Any) -> Any:
        size = get_size(image)
        space = augmentation.MIX if self.all_ops else augmentation.MIX_WITHOUT_ENHANCING

        def chained(images: Tensor) -> Tensor:
            return self._drawn_step(images, space, _BINS_OF_MIX, size, lambda: int(ops.randint(self.severity, ())))

        pixels = image.as_subclass(Tensor) if isinstance(image, tv_tensors.TVTensor) else image
        dims = 5 if isinstance(image, tv_tensors.Video) else 4
        mixed = augmentation.mixed(pixels, self.mixture_width, self.chain_depth, self.alpha, dims, chained)
        return tv_tensors.wrap(mixed, like=image) if isinstance(image, tv_tensors.TVTensor) else mixed
