"""Learned and random policies of augmentation, in the classic form: of PIL images and plain tensors."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from . import functional as F
from ._kernels import augmentation
from ._kernels.augmentation import AutoAugmentPolicy, Space
from ._kernels.modes import BILINEAR, NEAREST, InterpolationMode
from .transforms import _fill_for, _Shown

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "RandAugment", "TrivialAugmentWide"]

_WHITE = 255.0
_BINS_OF_MIX = 10


class _Augmentation(_Shown):
    """The base of policies."""

    interpolation: Any
    fill: Any

    def _drawn_step(self, img: Any, space: Space, bins: int, size: list[int], fill: Any, magnitude_index: Any) -> Any:
        """``img`` after an operation that is drawn, and its magnitude and sign where it has them."""
        name = space.names[int(ops.randint(len(space.names), (1,)))]
        magnitudes = space.magnitudes(name, bins, size, _WHITE)
        magnitude = 0.0 if magnitudes is None else float(magnitudes[magnitude_index()])
        if name in augmentation.SIGNED and ops.randint(2, (1,)):
            magnitude = -magnitude
        return augmentation.applied(F, name, img, magnitude, self.interpolation, fill)


class AutoAugment(_Augmentation, shown=("policy", "fill")):
    """A pair of operations from a learned policy, each with its probability and strength.

    Args:
        policy: an :class:`AutoAugmentPolicy`.
        interpolation, fill: of operations that move pixels.
    Source: torchvision.transforms.AutoAugment. Cubuk et al. 2018.
    Example:
        >>> AutoAugment()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(
        self, policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET, interpolation: InterpolationMode = NEAREST, fill: Any = None
    ):
        super().__init__()
        self.policy, self.interpolation, self.fill = policy, interpolation, fill
        self.policies = augmentation.policies_of(policy)

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Tensor, Tensor]:
        """The pair's number, and for each of its operations a number to compare with the probability, and whether to keep the sign."""
        policy_id = int(ops.randint(transform_num, (1,)))
        probabilities = ops.rand(2)
        return policy_id, probabilities, ops.randint(2, (2,))

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        fill = _fill_for(self.fill, img)
        chosen, probabilities, signs = self.get_params(len(self.policies))
        for i, (name, probability, magnitude_id) in enumerate(self.policies[chosen]):
            if probabilities[i] > probability:
                continue
            magnitudes = augmentation.AUTO.magnitudes(name, 10, (height, width), _WHITE)
            magnitude = 0.0 if magnitudes is None else float(magnitudes[magnitude_id])
            if name in augmentation.SIGNED and signs[i] == 0:
                magnitude = -magnitude
            img = augmentation.applied(F, name, img, magnitude, self.interpolation, fill)
        return img


class RandAugment(_Augmentation, shown=("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")):
    """``num_ops`` operations drawn with equal probability, all of one strength.

    Args:
        num_ops: how many.
        magnitude: the strength, from 0 to below ``num_magnitude_bins``.
        num_magnitude_bins: the number of strengths.
        interpolation, fill: of operations that move pixels.
    Source: torchvision.transforms.RandAugment. Cubuk et al. 2019.
    Example:
        >>> RandAugment()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = NEAREST,
        fill: Any = None,
    ):
        super().__init__()
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins
        self.interpolation, self.fill = interpolation, fill

    def forward(self, img: Any) -> Any:
        size = F.get_dimensions(img)[1:]
        fill = _fill_for(self.fill, img)
        for _ in range(self.num_ops):
            img = self._drawn_step(img, augmentation.RAND, self.num_magnitude_bins, size, fill, lambda: self.magnitude)
        return img


class TrivialAugmentWide(_Augmentation, shown=("num_magnitude_bins", "interpolation", "fill")):
    """One operation of one strength, both drawn with equal probability.

    Args:
        num_magnitude_bins: the number of strengths.
        interpolation: an ``InterpolationMode``, its name, or Pillow's number.
        fill: what comes in from outside.
    Source: torchvision.transforms.TrivialAugmentWide. Müller and Hutter 2021.
    Example:
        >>> TrivialAugmentWide()(torch.ones(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(self, num_magnitude_bins: int = 31, interpolation: InterpolationMode = NEAREST, fill: Any = None):
        super().__init__()
        self.num_magnitude_bins, self.interpolation, self.fill = num_magnitude_bins, interpolation, fill

    def forward(self, img: Any) -> Any:
        bins, size = self.num_magnitude_bins, F.get_dimensions(img)[1:]
        fill = _fill_for(self.fill, img)
        return self._drawn_step(img, augmentation.TRIVIAL_WIDE, bins, size, fill, lambda: int(ops.randint(bins, (1,))))


class AugMix(_Augmentation, shown=("severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill")):
    """The image mixed with chains of augmented ones.

    Args:
        severity: the largest strength, from 1 to 10.
        mixture_width: the number of chains.
        chain_depth: operations in a chain; from 1 to 3, drawn, if not above 0.
        alpha: of the Dirichlet distribution of the proportions.
        all_ops: brightness, colour, contrast and sharpness, too.
        interpolation, fill: of operations that move pixels.
    Raises:
        ValueError: another ``severity``.
    Source: torchvision.transforms.AugMix. Hendrycks et al. 2020.
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
        interpolation: InterpolationMode = BILINEAR,
        fill: Any = None,
    ):
        super().__init__()
        if not 1 <= severity <= _BINS_OF_MIX:
            raise ValueError(f"The severity must be between [1, {_BINS_OF_MIX}]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth = severity, mixture_width, chain_depth
        self.alpha, self.all_ops, self.interpolation = alpha, all_ops, interpolation
        self.fill = fill

    def forward(self, orig_img: Any) -> Any:
        size = F.get_dimensions(orig_img)[1:]
        fill = _fill_for(self.fill, orig_img)
        space = augmentation.MIX if self.all_ops else augmentation.MIX_WITHOUT_ENHANCING

        def augmented(img: Tensor) -> Tensor:
            return self._drawn_step(img, space, _BINS_OF_MIX, size, fill, lambda: int(ops.randint(self.severity, (1,))))

        return augmentation.mixed(orig_img, self.mixture_width, self.chain_depth, self.alpha, 4, augmented)
