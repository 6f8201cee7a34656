"""Transforms of colours; boxes, points and masks pass as they are."""

from __future__ import annotations

from typing import Any

from .... import ops
from .._kernels import arguments, color, draws
from ._transform import RandomApplyTransform, Transform
from ._utils import query_chw

__all__ = ["ColorJitter", "Grayscale", "RGB", "RandomAdjustSharpness", "RandomAutocontrast", "RandomChannelPermutation", "RandomEqualize"]
__all__ += ["RandomGrayscale", "RandomInvert", "RandomPhotometricDistort", "RandomPosterize", "RandomSolarize"]


class Grayscale(Transform, functional=color.rgb_to_grayscale, passing=("num_output_channels",)):
    """Images in grey, of one channel or three equal ones.

    Args:
        num_output_channels: 1 or 3.
    Source: torchvision.transforms.v2.Grayscale.
    Example:
        >>> Grayscale(3)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, num_output_channels: int = 1):
        super().__init__()
        self.num_output_channels = num_output_channels


class RandomGrayscale(RandomApplyTransform, functional=color.rgb_to_grayscale):
    """Grey with as many channels as before, with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.v2.RandomGrayscale.
    Example:
        >>> RandomGrayscale(1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, p: float = 0.1):
        super().__init__(p=p)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"num_output_channels": query_chw(flat_inputs)[0]}


class RGB(Transform, functional=color.grayscale_to_rgb):
    """Grey images with three equal channels; others as they are. Source: torchvision.transforms.v2.RGB.

    Example:
        >>> RGB()(torch.ones(1, 8, 6)).shape
        torch.Size([3, 8, 6])
    """


_ADJUSTING = {
    "brightness_factor": color.adjust_brightness,
    "contrast_factor": color.adjust_contrast,
    "saturation_factor": color.adjust_saturation,
    "hue_factor": color.adjust_hue,
}


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed at random, in random order.

    Args:
        brightness, contrast, saturation: bounds of the factor, or its largest distance from 1; None for no change.
        hue: bounds of the turn between -0.5 and 0.5, or its largest distance from 0.
    Source: torchvision.transforms.v2.ColorJitter.
    Example:
        >>> ColorJitter(brightness=0.5, hue=0.1)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, brightness: Any = None, contrast: Any = None, saturation: Any = None, hue: Any = None):
        super().__init__()
        most = float("inf")
        self.brightness = None if brightness is None else arguments.jitter_bounds(brightness, "brightness", 1, 0, most)
        self.contrast = None if contrast is None else arguments.jitter_bounds(contrast, "contrast", 1, 0, most)
        self.saturation = None if saturation is None else arguments.jitter_bounds(saturation, "saturation", 1, 0, most)
        self.hue = None if hue is None else arguments.jitter_bounds(hue, "hue", 0, -0.5, 0.5)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        order, factors = draws.jitter((self.brightness, self.contrast, self.saturation, self.hue))
        return {"fn_idx": order, **dict(zip(_ADJUSTING, factors))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        names = list(_ADJUSTING)
        for index in params["fn_idx"].tolist():
            name = names[index]
            if params[name] is not None:
                inpt = self._call_kernel(_ADJUSTING[name], inpt, **{name: params[name]})
        return inpt


class RandomChannelPermutation(Transform, functional=color.permute_channels):
    """Channels in random order. Source: torchvision.transforms.v2.RandomChannelPermutation.

    Example:
        >>> RandomChannelPermutation()(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"permutation": ops.randperm(query_chw(flat_inputs)[0])}


class RandomPhotometricDistort(Transform):
    """Brightness, contrast, saturation, hue and the channels' order, each changed with probability ``p``.

    Args:
        brightness, contrast, saturation, hue: bounds.
        p: the probability of each.
    Source: torchvision.transforms.v2.RandomPhotometricDistort. Liu et al. 2016, "SSD".
    Example:
        >>> RandomPhotometricDistort()(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(
        self,
        brightness: tuple[float, float] = (0.875, 1.125),
        contrast: tuple[float, float] = (0.5, 1.5),
        saturation: tuple[float, float] = (0.5, 1.5),
        hue: tuple[float, float] = (-0.05, 0.05),
        p: float = 0.5,
    ):
        super().__init__()
        self.brightness, self.contrast, self.hue = brightness, contrast, hue
        self.saturation, self.p = saturation, p

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels, _, _ = query_chw(flat_inputs)
        bounds = (self.brightness, self.contrast, self.saturation, self.hue)
        params: dict[str, Any] = {
            name: draws.uniform(bound[0], bound[1]) if draws.happens(self.p) else None for name, bound in zip(_ADJUSTING, bounds)
        }
        params["contrast_before"] = bool(ops.rand(()) < 0.5)
        params["channel_permutation"] = ops.randperm(channels) if draws.happens(self.p) else None
        return params

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        names = ["brightness_factor", "saturation_factor", "hue_factor"]
        names.insert(1 if params["contrast_before"] else 3, "contrast_factor")
        for name in names:
            if params[name] is not None:
                inpt = self._call_kernel(_ADJUSTING[name], inpt, **{name: params[name]})
        if params["channel_permutation"] is not None:
            inpt = self._call_kernel(color.permute_channels, inpt, permutation=params["channel_permutation"])
        return inpt


class RandomEqualize(RandomApplyTransform, functional=color.equalize):
    """The histogram made even with probability ``p``.

    Args:
        p: the probability.
    Raises:
        ValueError: a probability outside of 0 to 1.
    Source: torchvision.transforms.v2.RandomEqualize.
    Example:
        >>> RandomEqualize(1.0)(torch.ones(1, 2, 2, dtype=torch.uint8)).shape
        torch.Size([1, 2, 2])
    """


class RandomInvert(RandomApplyTransform, functional=color.invert):
    """Black for white with probability ``p``.

    Args:
        p: the probability.
    Raises:
        ValueError: a probability outside of 0 to 1.
    Source: torchvision.transforms.v2.RandomInvert.
    Example:
        >>> RandomInvert(1.0)(torch.tensor([[[0.25, 1.0]]]))
        tensor([[[0.7500, 0.0000]]])
    """


class RandomPosterize(RandomApplyTransform, functional=color.posterize, passing=("bits",)):
    """The most significant ``bits`` of each value alone, with probability ``p``.

    Args:
        bits: from 0 to 8.
        p: the probability.
    Source: torchvision.transforms.v2.RandomPosterize.
    Example:
        >>> RandomPosterize(1, p=1.0)(torch.tensor([[[100, 200]]], dtype=torch.uint8))
        tensor([[[  0, 128]]], dtype=torch.uint8)
    """

    def __init__(self, bits: int, p: float = 0.5):
        super().__init__(p=p)
        self.bits = bits


class RandomSolarize(RandomApplyTransform, functional=color.solarize, passing=("threshold",)):
    """Values from ``threshold`` on inverted, with probability ``p``.

    Args:
        threshold: in the values of images.
        p: the probability.
    Source: torchvision.transforms.v2.RandomSolarize.
    Example:
        >>> RandomSolarize(0.5, p=1.0)(torch.tensor([[[0.25, 0.75]]]))
        tensor([[[0.2500, 0.2500]]])
    """

    def __init__(self, threshold: float, p: float = 0.5):
        super().__init__(p=p)
        self.threshold = threshold


class RandomAutocontrast(RandomApplyTransform, functional=color.autocontrast):
    """Contrast stretched with probability ``p``.

    Args:
        p: the probability.
    Raises:
        ValueError: a probability outside of 0 to 1.
    Source: torchvision.transforms.v2.RandomAutocontrast.
    Example:
        >>> RandomAutocontrast(1.0)(torch.tensor([[[0.25, 0.75]]]))
        tensor([[[0., 1.]]])
    """


class RandomAdjustSharpness(RandomApplyTransform, functional=color.adjust_sharpness, passing=("sharpness_factor",)):
    """Sharpness changed by a factor with probability ``p``.

    Args:
        sharpness_factor: 0 is smooth, 1 changes nothing, 2 is sharp.
        p: the probability.
    Source: torchvision.transforms.v2.RandomAdjustSharpness.
    Example:
        >>> RandomAdjustSharpness(2.0, p=1.0)(torch.ones(1, 4, 4)).sum()
        tensor(16.)
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5):
        super().__init__(p=p)
        self.sharpness_factor = sharpness_factor
