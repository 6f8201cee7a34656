"""Conversions, formats of boxes, filters, and what fits nowhere else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image

from ....core import dtype as dtypes
from ....core.dtype import dtype as Dtype
from ....core.tensor import Tensor
from ....utils._pytree import tree_flatten, tree_unflatten
from ... import tv_tensors
from .._kernels import arguments, conversion, draws, filters, meta
from ._transform import Transform
from ._utils import check_type, get_bounding_boxes, get_keypoints, has_any, is_pure_tensor, parse_labels_getter, setup_number_or_seq

__all__ = ["ClampBoundingBoxes", "ClampKeyPoints", "ConvertBoundingBoxFormat", "ConvertImageDtype", "GaussianBlur", "GaussianNoise"]
__all__ += ["Identity", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "SanitizeBoundingBoxes", "SanitizeKeyPoints"]
__all__ += ["SetClampingMode", "ToDtype", "ToImage", "ToPILImage", "ToPureTensor", "ToTensor", "UniformTemporalSubsample"]


class Identity(Transform):
    """Inputs as they are. Source: torchvision.transforms.v2.Identity.

    Example:
        >>> Identity()(3)
        3
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt


class Lambda(Transform, types=(object,)):
    """A function of all inputs that are of one of ``types``.

    Args:
        lambd: the function.
        types: classes; of all inputs where there are none.
    Source: torchvision.transforms.v2.Lambda.
    Example:
        >>> Lambda(lambda image: image + 1, torch.Tensor)([torch.zeros(2), "label"])
        [tensor([1., 1.]), 'label']
    """

    def __init__(self, lambd: Callable[[Any], Any], *types: type):
        super().__init__()
        self.lambd = lambd
        self.types = types or (object,)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.lambd(inpt) if isinstance(inpt, self.types) else inpt

    def extra_repr(self) -> str:
        name = getattr(self.lambd, "__name__", None)
        return ", ".join([*([name] if name else []), f"types={[kind.__name__ for kind in self.types]}"])


# -- conversion --------------------------------------------------------------------------------------------------------------------------
class PILToTensor(Transform, functional=conversion.pil_to_tensor, types=(PIL.Image.Image,)):
    """PIL images as plain tensors with the image's own values. Source: torchvision.transforms.v2.PILToTensor.

    Example:
        >>> PILToTensor()(PIL.Image.new('RGB', (5, 4))).shape
        torch.Size([3, 4, 5])
    """


class ToImage(Transform, functional=conversion.to_image, types=(is_pure_tensor, PIL.Image.Image, np.ndarray)):
    """Plain tensors, PIL images and arrays as ``tv_tensors.Image``. Source: torchvision.transforms.v2.ToImage.

    Example:
        >>> type(ToImage()(torch.ones(3, 4, 5))).__name__
        'Image'
    """


class ToPILImage(Transform, functional=conversion.to_pil_image, passing=("mode",), types=(is_pure_tensor, tv_tensors.Image, np.ndarray)):
    """Tensors and arrays as PIL images.

    Args:
        mode: of the PIL image; by the number of channels when None.
    Source: torchvision.transforms.v2.ToPILImage.
    Example:
        >>> ToPILImage()(torch.ones(3, 4, 5)).size
        (5, 4)
    """

    def __init__(self, mode: str | None = None):
        super().__init__()
        self.mode = mode


class ToPureTensor(Transform, types=(tv_tensors.TVTensor,)):
    """Images, boxes and so on as plain tensors. Source: torchvision.transforms.v2.ToPureTensor.

    Example:
        >>> type(ToPureTensor()(tv_tensors.Image(torch.ones(3, 4, 5)))).__name__
        'Tensor'
    """

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt.as_subclass(Tensor)


class ToTensor(Transform, functional=conversion.to_tensor, types=(PIL.Image.Image, np.ndarray)):
    """Deprecated: :class:`ToImage` and :class:`ToDtype` with ``scale=True`` do the same. Source: torchvision.transforms.v2.ToTensor.

    Example:
        >>> ToTensor()(np.array([[0, 255]], dtype=np.uint8))
        tensor([[[0., 1.]]])
    """

    def __init__(self) -> None:
        warnings.warn(
            "The transform `ToTensor()` is deprecated and will be removed in a future release. "
            "Instead, please use `v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])`."
            "Output is equivalent up to float precision.",
            stacklevel=2,
        )
        super().__init__()


class ConvertImageDtype(Transform):
    """Images and videos as ``dtype``; black stays black and white white.

    Args:
        dtype: of the result.
    Source: torchvision.transforms.v2.ConvertImageDtype.
    Example:
        >>> ConvertImageDtype(torch.float32)(torch.tensor([[[0, 255]]], dtype=torch.uint8))
        tensor([[[0., 1.]]])
    """

    def __init__(self, dtype: Dtype = dtypes.float32):
        super().__init__()
        self.dtype = dtype

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(conversion.to_dtype, inpt, dtype=self.dtype, scale=True)


class ToDtype(Transform, types=(Tensor,)):
    """Tensors as another dtype.

    Args:
        dtype: for images and videos; or a dictionary from types of input to dtypes or None, ``'others'`` for those that are not named.
        scale: black stays black and white white.
    Raises:
        ValueError: neither, or when called with a type that the dictionary does not know.
    Source: torchvision.transforms.v2.ToDtype.
    Example:
        >>> ToDtype(torch.float32, scale=True)(torch.tensor([[[0, 255]]], dtype=torch.uint8))
        tensor([[[0., 1.]]])
    """

    def __init__(self, dtype: Any, scale: bool = False):
        super().__init__()
        if not isinstance(dtype, (dict, Dtype)):
            raise ValueError(f"dtype must be a dict or a torch.dtype, got {type(dtype)} instead")
        if isinstance(dtype, dict) and Tensor in dtype and any(kind in dtype for kind in (tv_tensors.Image, tv_tensors.Video)):
            warnings.warn(
                "Got `dtype` values for `torch.Tensor` and either `tv_tensors.Image` or `tv_tensors.Video`. "
                "Note that a plain `torch.Tensor` will *not* be transformed by this (or any other transformation) "
                "in case a `tv_tensors.Image` or `tv_tensors.Video` is present in the input.",
                stacklevel=2,
            )
        self.dtype, self.scale = dtype, scale

    def _dtype_for(self, inpt: Any, shows_pixels: bool) -> Dtype | None:
        if isinstance(self.dtype, Dtype):
            return self.dtype if shows_pixels else None
        kind = type(inpt) if type(inpt) in self.dtype else "others"
        if kind not in self.dtype:
            raise ValueError(
                f"No dtype was specified for type {type(inpt)}. "
                "If you only need to convert the dtype of images or videos, you can just pass e.g. dtype=torch.float32. "
                "If you're passing a dict as dtype, "
                'you can use "others" as a catch-all key '
                'e.g. dtype={tv_tensors.Mask: torch.int64, "others": None} to pass-through the rest of the inputs.'
            )
        if self.dtype[kind] is None and self.scale and shows_pixels:
            warnings.warn("scale was set to True but no dtype was specified for images or videos: no scaling will be done.", stacklevel=4)
        return self.dtype[kind]

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        dtype = self._dtype_for(inpt, is_pure_tensor(inpt) or isinstance(inpt, (tv_tensors.Image, tv_tensors.Video)))
        return inpt if dtype is None else self._call_kernel(conversion.to_dtype, inpt, dtype=dtype, scale=self.scale)


# -- values ------------------------------------------------------------------------------------------------------------------------------
class _OfTensors(Transform):
    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if has_any(flat_inputs, PIL.Image.Image):
            raise TypeError(f"{type(self).__name__}() does not support PIL images.")


class LinearTransformation(_OfTensors, types=(is_pure_tensor, tv_tensors.Image, tv_tensors.Video)):
    """``(x - mean_vector) @ transformation_matrix`` of flattened images.

    Args:
        transformation_matrix: ``(D, D)`` for ``D = C H W``.
        mean_vector: ``(D)``.
    Source: torchvision.transforms.v2.LinearTransformation.
    Example:
        >>> LinearTransformation(torch.eye(4), torch.ones(4))(torch.ones(1, 2, 2))
        tensor([[[0., 0.],
                 [0., 0.]]])
    """

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor):
        super().__init__()
        arguments.check_linear_map(transformation_matrix, mean_vector)
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        mapped = filters.linearly_mapped(inpt, self.transformation_matrix, self.mean_vector)
        return mapped if is_pure_tensor(inpt) else tv_tensors.wrap(mapped, like=inpt)


class Normalize(_OfTensors, functional=filters.normalize, passing=("mean", "std", "inplace")):
    """``(x - mean) / std`` for each channel of images and videos.

    Args:
        mean, std: a number for each channel.
        inplace: write over the input.
    Source: torchvision.transforms.v2.Normalize.
    Example:
        >>> Normalize([0.5], [0.5])(torch.ones(1, 1, 2))
        tensor([[[1., 1.]]])
    """

    def __init__(self, mean: Any, std: Any, inplace: bool = False):
        super().__init__()
        self.mean = list(mean)
        self.std = list(std)
        self.inplace = inplace


class GaussianBlur(Transform, functional=filters.gaussian_blur, passing=("kernel_size",)):
    """Images smoothed by a Gaussian of random deviation.

    Args:
        kernel_size: odd; ``(along x, along y)`` or one for both.
        sigma: the deviation in pixels, or its bounds.
    Raises:
        ValueError: an even kernel, or deviations that are not above 0.
    Source: torchvision.transforms.v2.GaussianBlur.
    Example:
        >>> GaussianBlur(3)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)):
        super().__init__()
        self.kernel_size = arguments.setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.sigma = setup_number_or_seq(sigma, "sigma")
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {self.sigma}")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"sigma": [draws.uniform(self.sigma[0], self.sigma[1])] * 2}


class GaussianNoise(Transform, functional=filters.gaussian_noise, passing=("mean", "sigma", "clip")):
    """Images and normally distributed noise; its mean and deviation count 1 for white.

    Args:
        mean, sigma: mean and deviation of the noise.
        clip: keep values between black and white.
    Source: torchvision.transforms.v2.GaussianNoise.
    Example:
        >>> GaussianNoise(sigma=0.0)(torch.full((1, 1, 2), 0.5))
        tensor([[[0.5000, 0.5000]]])
    """

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True):
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip


class UniformTemporalSubsample(Transform, functional=filters.uniform_temporal_subsample, passing=("num_samples",), types=(Tensor,)):
    """``num_samples`` frames of videos at equal distances.

    Args:
        num_samples: how many.
    Source: torchvision.transforms.v2.UniformTemporalSubsample.
    Example:
        >>> UniformTemporalSubsample(3)(torch.arange(5.0).view(5, 1, 1, 1)).flatten()
        tensor([0., 2., 4.])
    """

    def __init__(self, num_samples: int):
        super().__init__()
        self.num_samples = num_samples


# -- boxes and points --------------------------------------------------------------------------------------------------------------------
class ConvertBoundingBoxFormat(Transform, types=(tv_tensors.BoundingBoxes,)):
    """Boxes in another format.

    Args:
        format: a format, or its name.
    Source: torchvision.transforms.v2.ConvertBoundingBoxFormat.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> ConvertBoundingBoxFormat('CXCYWH')(boxes).tolist()
        [[2, 1, 4, 2]]
    """

    def __init__(self, format: Any):
        super().__init__()
        self.format = format

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return meta.convert_bounding_box_format(inpt, new_format=self.format)


class ClampBoundingBoxes(Transform, functional=meta.clamp_bounding_boxes, passing=("clamping_mode",), types=(tv_tensors.BoundingBoxes,)):
    """Boxes cut to their image.

    Args:
        clamping_mode: ``'soft'``, ``'hard'``, None for not at all, or ``'auto'``, the boxes' own.
    Source: torchvision.transforms.v2.ClampBoundingBoxes.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[-1, 0, 9, 2]], format='XYXY', canvas_size=(8, 6))
        >>> ClampBoundingBoxes()(boxes).tolist()
        [[0, 0, 6, 2]]
    """

    def __init__(self, clamping_mode: str | None = "auto"):
        super().__init__()
        self.clamping_mode = clamping_mode


class ClampKeyPoints(Transform, functional=meta.clamp_keypoints, types=(tv_tensors.KeyPoints,)):
    """Points moved to the nearest pixel of their image. Source: torchvision.transforms.v2.ClampKeyPoints.

    Example:
        >>> ClampKeyPoints()(tv_tensors.KeyPoints([[9, -1]], canvas_size=(8, 6))).tolist()
        [[5, 0]]
    """


class SetClampingMode(Transform, types=(tv_tensors.BoundingBoxes,)):
    """Boxes that are cut in another way from here on.

    Args:
        clamping_mode: ``'soft'``, ``'hard'`` or None.
    Raises:
        ValueError: another mode.
    Source: torchvision.transforms.v2.SetClampingMode.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2]], format='XYXY', canvas_size=(8, 6))
        >>> SetClampingMode('hard')(boxes).clamping_mode
        'hard'
    """

    def __init__(self, clamping_mode: str | None):
        super().__init__()
        if clamping_mode not in (None, "soft", "hard"):
            raise ValueError(f"clamping_mode must be soft, hard or None, got {clamping_mode}")
        self.clamping_mode = clamping_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        boxes = inpt.clone()
        boxes.clamping_mode = self.clamping_mode
        return boxes


class _Sanitizing(Transform):
    """The base of what leaves out rows of boxes or points, and the labels that belong to them."""

    _labels_getter: Callable[[Any], Any]
    _words: str

    def _rows(self, flat_inputs: list[Any]) -> Any:
        raise NotImplementedError

    def _valid(self, rows: Any) -> Tensor:
        raise NotImplementedError

    def _labels(self, inputs: Any) -> tuple[Tensor, ...]:
        labels = self._labels_getter(inputs)
        several = () if labels is None else labels if isinstance(labels, (tuple, list)) else (labels,)
        for label in several:
            if not isinstance(label, Tensor):
                raise ValueError(f"The labels in the input to forward() must be a tensor or None, got {type(label)} instead.")
        return tuple(several)

    def forward(self, *inputs: Any) -> Any:
        whole = inputs if len(inputs) > 1 else inputs[0]
        labels = self._labels(whole)
        flat_inputs, spec = tree_flatten(whole)
        rows = self._rows(flat_inputs)
        for label in labels:
            if rows.shape[0] != label.shape[0]:
                raise ValueError(
                    f"Number of {self._words} (shape={rows.shape}) must match the number of labels.Found labels with shape={label.shape})."
                )
        params = {"valid": self._valid(rows), "labels": labels}
        return tree_unflatten([self.transform(inpt, params) for inpt in flat_inputs], spec)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if any(inpt is label for label in params["labels"]):
            return inpt[params["valid"]]
        if not check_type(inpt, self._transformed_types):
            return inpt
        try:
            return tv_tensors.wrap(inpt.as_subclass(Tensor)[params["valid"]], like=inpt)
        except IndexError:  # a mask of classes, which has no row for each box
            return inpt


class SanitizeBoundingBoxes(_Sanitizing, types=(tv_tensors.BoundingBoxes, tv_tensors.Mask)):
    """Without boxes that leave the image or are too small, and without their labels and masks.

    Args:
        min_size: the least width and height, at least 1.
        min_area: the least area, at least 1.
        labels_getter: takes the labels, a tensor or several, out of the inputs; ``'default'`` looks for a name with ``label`` in it.
    Raises:
        ValueError: limits below 1.
    Source: torchvision.transforms.v2.SanitizeBoundingBoxes.
    Example:
        >>> boxes = tv_tensors.BoundingBoxes([[0, 0, 4, 2], [0, 0, 9, 2]], format='XYXY', canvas_size=(8, 6))
        >>> SanitizeBoundingBoxes()({'boxes': boxes, 'labels': torch.tensor([1, 2])})['labels']
        tensor([1])
    """

    _words = "boxes"

    def __init__(self, min_size: float = 1.0, min_area: float = 1.0, labels_getter: Any = "default"):
        super().__init__()
        if min_size < 1:
            raise ValueError(f"min_size must be >= 1, got {min_size}.")
        if min_area < 1:
            raise ValueError(f"min_area must be >= 1, got {min_area}.")
        self.min_size, self.min_area, self.labels_getter = min_size, min_area, labels_getter
        self._labels_getter = parse_labels_getter(labels_getter)

    def _rows(self, flat_inputs: list[Any]) -> Any:
        return get_bounding_boxes(flat_inputs)

    def _valid(self, rows: Any) -> Tensor:
        return meta.valid_boxes(rows, rows.format, rows.canvas_size, self.min_size, self.min_area)


class SanitizeKeyPoints(_Sanitizing, types=(tv_tensors.KeyPoints,)):
    """Without rows that have points outside of the image, and without their labels.

    Args:
        labels_getter: takes the labels out of the inputs; ``'default'`` looks for a name with ``label`` in it.
    Source: torchvision.transforms.v2.SanitizeKeyPoints.
    Example:
        >>> SanitizeKeyPoints()(tv_tensors.KeyPoints([[1, 2], [9, 9]], canvas_size=(8, 6))).tolist()
        [[1, 2]]
    """

    _words = "keypoints"

    def __init__(self, labels_getter: Any = None):
        super().__init__()
        self.labels_getter = labels_getter
        self._labels_getter = parse_labels_getter(labels_getter)

    def _rows(self, flat_inputs: list[Any]) -> Any:
        return get_keypoints(flat_inputs)

    def _valid(self, rows: Any) -> Tensor:
        return meta.valid_keypoints(rows, rows.canvas_size)
