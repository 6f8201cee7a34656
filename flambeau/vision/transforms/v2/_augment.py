"""Erasing, lossy compression, and batches whose images are mixed with one another."""

from __future__ import annotations

import math
from typing import Any

import PIL.Image

from .... import ops
from ....core.tensor import Tensor
from ....nn import functional
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .._kernels import arguments, draws, filters
from ._geometry import PassingBoxes
from ._transform import RandomApplyTransform, Transform
from ._utils import has_any, is_pure_tensor, parse_labels_getter, query_chw, query_size

__all__ = ["CutMix", "JPEG", "MixUp", "RandomErasing"]


class RandomErasing(RandomApplyTransform, PassingBoxes):
    """With probability ``p`` a window of random area and shape erased; the arguments are those of the classic form.

    Args:
        p: the probability.
        scale: bounds of the window's share of the area.
        ratio: bounds of height divided by width.
        value: what stands there then.
        inplace: write over the input.
    Source: torchvision.transforms.v2.RandomErasing. Zhong et al. 2017.
    Example:
        >>> RandomErasing(p=1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0.0, inplace: bool = False):
        super().__init__(p=p)
        arguments.check_erasing(scale, ratio, value)
        self.scale, self.ratio = scale, ratio
        self.value = arguments.erased_value(value)
        self.inplace = inplace

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels, height, width = query_chw(flat_inputs)
        if self.value is not None and len(self.value) not in (1, channels):
            raise ValueError(f"If value is a sequence, it should have either a single value or {channels} (number of inpt channels)")
        drawn = draws.erased_window(channels, height, width, self.scale, self.ratio, self.value)
        return dict(zip("ijhwv", (0, 0, height, width, None) if drawn is None else drawn))

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["v"] is None:
            return inpt
        return self._call_kernel(filters.erase, inpt, **params, inplace=self.inplace)


class JPEG(Transform, functional=filters.jpeg):
    """Images as they come back from JPEG files of a random quality.

    Args:
        quality: from 1 to 100, or its bounds, both included.
    Raises:
        TypeError, ValueError: another quality.
    Source: torchvision.transforms.v2.JPEG.
    Example:
        >>> JPEG(50)(torch.zeros(3, 8, 8, dtype=torch.uint8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(self, quality: Any):
        super().__init__()
        if isinstance(quality, bool):
            raise TypeError("quality can't be bool")
        bounds = [quality, quality] if isinstance(quality, int) else quality
        arguments.check_sequence(bounds, "quality", (2,))
        if not (1 <= bounds[0] <= bounds[1] <= 100 and all(isinstance(bound, int) for bound in bounds)):
            raise ValueError(f"quality must be an integer from 1 to 100, got {quality =}")
        self.quality = bounds

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"quality": draws.whole(self.quality[0], self.quality[1] + 1)}


# -- batches -----------------------------------------------------------------------------------------------------------------------------
class _Mixing(Transform):
    """The base of what mixes each image of a batch, and its label, with the one before it."""

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None, labels_getter: Any = "default"):
        from .... import distributions  # a program that mixes nothing does not wait for it

        super().__init__()
        self.alpha = float(alpha)
        self._dist = distributions.Beta(ops.tensor([alpha]), ops.tensor([alpha]))
        self.num_classes = num_classes
        self._labels_getter = parse_labels_getter(labels_getter)

    def _labels(self, inputs: Any) -> Tensor:
        labels = self._labels_getter(inputs)
        if not isinstance(labels, Tensor):
            raise ValueError(f"The labels must be a tensor, but got {type(labels)} instead.")
        if labels.ndim not in (1, 2):
            raise ValueError(
                "labels should be index based with shape (batch_size,) or probability based with shape (batch_size, num_classes), "
                f"but got a tensor of shape {labels.shape} instead."
            )
        if labels.ndim == 2 and self.num_classes is not None and labels.shape[-1] != self.num_classes:
            raise ValueError(
                "When passing 2D labels, the number of elements in last dimension must match num_classes: "
                f"{labels.shape[-1]} != {self.num_classes}. You can Leave num_classes to None."
            )
        if labels.ndim == 1 and self.num_classes is None:
            raise ValueError("num_classes must be passed if the labels are index-based (1D)")
        return labels

    def forward(self, *inputs: Any) -> Any:
        whole = inputs if len(inputs) > 1 else inputs[0]
        flat_inputs, spec = tree_flatten(whole)
        needed = self._needs_transform_list(flat_inputs)
        if has_any(flat_inputs, PIL.Image.Image, tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.KeyPoints):
            raise ValueError(f"{type(self).__name__}() does not support PIL images, bounding boxes, keypoints and masks.")
        labels = self._labels(whole)
        drawn = self.make_params([inpt for inpt, needs_transform in zip(flat_inputs, needed) if needs_transform])
        params = {"labels": labels, "batch_size": labels.shape[0], **drawn}
        needed = [needs_transform or inpt is labels for inpt, needs_transform in zip(flat_inputs, needed)]
        outputs = [self.transform(inpt, params) if needs_transform else inpt for inpt, needs_transform in zip(flat_inputs, needed)]
        return tree_unflatten(outputs, spec)

    def _images(self, images: Tensor, params: dict[str, Any]) -> Tensor:
        raise NotImplementedError

    def _label_share(self, params: dict[str, Any]) -> float:
        raise NotImplementedError

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if inpt is params["labels"]:
            return self._mixed_labels(inpt, self._label_share(params))
        described = isinstance(inpt, (tv_tensors.Image, tv_tensors.Video))
        if not described and not is_pure_tensor(inpt):
            return inpt
        dims = 5 if isinstance(inpt, tv_tensors.Video) else 4
        if inpt.ndim != dims:
            raise ValueError(f"Expected a batched input with {dims} dims, but got {inpt.ndim} dimensions instead.")
        if inpt.shape[0] != params["batch_size"]:
            raise ValueError(
                "The batch size of the image or video does not match the batch size of the labels: "
                f"{inpt.shape[0]} != {params['batch_size']}."
            )
        mixed = self._images(inpt.as_subclass(Tensor), params)
        return tv_tensors.wrap(mixed, like=inpt) if described else mixed

    def _mixed_labels(self, labels: Tensor, share: float) -> Tensor:
        if labels.ndim == 1:
            labels = functional.one_hot(labels, num_classes=self.num_classes)
        labels = labels if labels.is_floating_point() else labels.float()
        return labels.roll(1, 0).mul_(1.0 - share).add_(labels.mul(share))


class MixUp(_Mixing):
    """Weighted means of images of a batch, and of their labels.

    Args:
        alpha: of the Beta distribution of the weight.
        num_classes: the length of one-hot labels; needed where labels are numbers of classes.
        labels_getter: takes the labels out of the inputs; ``'default'`` takes the second input, or what has ``label`` in its name.
    Source: torchvision.transforms.v2.MixUp. Zhang et al. 2017.
    Example:
        >>> images, labels = MixUp(num_classes=2)(torch.ones(4, 3, 8, 8), torch.tensor([0, 1, 0, 1]))
        >>> labels.sum(dim=1)
        tensor([1., 1., 1., 1.])
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"lam": float(self._dist.sample(()))}

    def _label_share(self, params: dict[str, Any]) -> float:
        return params["lam"]

    def _images(self, images: Tensor, params: dict[str, Any]) -> Tensor:
        return images.roll(1, 0).mul_(1.0 - params["lam"]).add_(images.mul(params["lam"]))


class CutMix(_Mixing):
    """Images of a batch with a window of another one, and their labels in proportion; the arguments are those of :class:`MixUp`.

    Args:
        alpha: of the Beta distribution of the weight.
        num_classes: the length of one-hot labels.
        labels_getter: takes the labels out of the inputs; ``'default'`` looks for a name with ``label`` in it.
    Source: torchvision.transforms.v2.CutMix. Yun et al. 2019.
    Example:
        >>> images, labels = CutMix(num_classes=2)(torch.ones(4, 3, 8, 8), torch.tensor([0, 1, 0, 1]))
        >>> images.shape, labels.shape
        (torch.Size([4, 3, 8, 8]), torch.Size([4, 2]))
    """

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        share = float(self._dist.sample(()))
        height, width = query_size(flat_inputs)
        x, y = draws.whole(0, width), draws.whole(0, height)
        half = 0.5 * math.sqrt(1.0 - share)
        half_width, half_height = int(half * width), int(half * height)
        x1, y1 = max(x - half_width, 0), max(y - half_height, 0)
        x2, y2 = min(x + half_width, width), min(y + half_height, height)
        return {"box": (x1, y1, x2, y2), "lam_adjusted": 1.0 - (x2 - x1) * (y2 - y1) / (width * height)}

    def _label_share(self, params: dict[str, Any]) -> float:
        return params["lam_adjusted"]

    def _images(self, images: Tensor, params: dict[str, Any]) -> Tensor:
        x1, y1, x2, y2 = params["box"]
        result = images.clone()
        result[..., y1:y2, x1:x2] = images.roll(1, 0)[..., y1:y2, x1:x2]
        return result
