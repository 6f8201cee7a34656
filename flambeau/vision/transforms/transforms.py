"""Transforms of PIL images and plain tensors ``(..., C, H, W)``, to be put together with :class:`Compose`."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Sequence
from numbers import Number, Real
from typing import Any

from ... import ops
from ...core.dtype import dtype as Dtype
from ...core.tensor import Tensor
from ...nn import Module
from . import functional as F
from ._kernels import arguments, draws, filters, pil
from ._kernels.modes import BILINEAR, NEAREST, InterpolationMode, mode_from_int

__all__ = ["CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype", "ElasticTransform", "FiveCrop", "GaussianBlur", "Grayscale"]
__all__ += ["InterpolationMode", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "Pad", "RandomAdjustSharpness"]
__all__ += ["RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing"]
__all__ += ["RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPosterize"]
__all__ += ["RandomResizedCrop", "RandomRotation", "RandomSizedCrop", "RandomSolarize", "RandomVerticalFlip", "Resize", "Scale", "TenCrop"]
__all__ += ["ToPILImage", "ToTensor"]

_TWO_SIZES = "Please provide only two dimensions (h, w) for size."


class _Shown(Module):
    """The base of transforms by ``function``, which gets the attributes ``passing``; printed with the attributes ``shown``.

    What is passed is shown unless told.
    """

    _function: Any
    _passing: tuple[str, ...] = ()
    _shown: tuple[str, ...] = ()
    _separator = ", "

    def __init_subclass__(cls, function: Any = None, passing: tuple[str, ...] = (), shown: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if function is not None:
            cls._function, cls._passing = staticmethod(function), passing
        if passing or shown:
            cls._shown = shown or passing

    def _transformed(self, img: Any) -> Any:
        return self._function(img, *[getattr(self, name) for name in self._passing])

    def forward(self, img: Any) -> Any:
        return self._transformed(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._separator.join(f'{name}={getattr(self, name)}' for name in self._shown)})"


def _lines(transform: Any, *lines: Any) -> str:
    return "\n".join([f"{type(transform).__name__}(", *[f"    {line}" for line in lines], ")"])


def _mode(interpolation: Any) -> Any:
    return mode_from_int(interpolation) if isinstance(interpolation, int) else interpolation


def _checked_fill(fill: Any) -> Any:
    if fill is None:
        return 0
    if not isinstance(fill, (Sequence, Number)):
        raise TypeError("Fill should be either a sequence or a number.")
    return fill


def _fill_for(fill: Any, img: Any) -> Any:
    """``fill`` with a number for each channel of a tensor."""
    if fill is None or not isinstance(img, Tensor):
        return fill
    return [float(fill)] * F.get_image_num_channels(img) if isinstance(fill, (int, float)) else [float(value) for value in fill]


# -- containers --------------------------------------------------------------------------------------------------------------------------
class Compose:
    """``transforms`` one after another.

    Args:
        transforms: functions of one argument, such as transforms.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.vision import transforms
        >>> halve = transforms.Compose([transforms.CenterCrop(2), transforms.Normalize([0.5], [0.5])])
        >>> halve(torch.ones(1, 4, 4)).shape
        torch.Size([1, 2, 2])

    Source: torchvision.transforms.Compose.
    """

    def __init__(self, transforms: Any):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _lines(self, *self.transforms)


class _Unnamed:
    """A transform that is printed without its arguments."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Lambda(_Unnamed):
    """A function as a transform.

    Args:
        lambd: a function of one argument.
    Raises:
        TypeError: no function.
    Source: torchvision.transforms.Lambda.
    Example:
        >>> Lambda(lambda image: image + 1)(torch.zeros(2))
        tensor([1., 1.])
    """

    def __init__(self, lambd: Callable[[Any], Any]):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)


class RandomTransforms:
    """The base of what takes some of its transforms."""

    def __init__(self, transforms: Any):
        if not isinstance(transforms, Sequence):
            raise TypeError("Argument transforms should be a sequence")
        self.transforms = transforms

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return _lines(self, *self.transforms)


class RandomApply(Module):
    """All of ``transforms`` with probability ``p``, otherwise none.

    Args:
        transforms: a sequence of functions of one argument, such as transforms.
        p: the probability.
    Shape:
        Whatever the transforms take, images ``(..., C, H, W)`` for example, to what they give.
    Source: torchvision.transforms.RandomApply.
    Example:
        >>> halve = Normalize([0.0], [2.0])
        >>> RandomApply([halve, halve], p=1.0)(torch.ones(1, 1, 2))
        tensor([[[0.2500, 0.2500]]])
    """

    def __init__(self, transforms: Any, p: float = 0.5):
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        if self.p < ops.rand(1):
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return _lines(self, f"p={self.p}", *self.transforms)


class RandomOrder(RandomTransforms):
    """All of ``transforms``, in an order that Python's ``random`` draws.

    Args:
        transforms: a sequence of functions of one argument, such as transforms.
    Raises:
        TypeError: no sequence.
    Source: torchvision.transforms.RandomOrder.
    Example:
        >>> RandomOrder([CenterCrop(2), Normalize([0.0], [2.0])])(torch.ones(1, 4, 4))
        tensor([[[0.5000, 0.5000],
                 [0.5000, 0.5000]]])
    """

    def __call__(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for index in order:
            img = self.transforms[index](img)
        return img


class RandomChoice(RandomTransforms):
    """One of ``transforms``, which Python's ``random`` draws with weights ``p``.

    Args:
        transforms: a sequence of functions of one argument, such as transforms.
        p: weights; equal ones when None.
    Raises:
        TypeError: transforms or weights that are no sequence.
    Source: torchvision.transforms.RandomChoice.
    Example:
        >>> RandomChoice([CenterCrop(2), Resize([2, 2])])(torch.ones(3, 4, 4)).shape
        torch.Size([3, 2, 2])
    """

    def __init__(self, transforms: Any, p: Sequence[float] | None = None):
        super().__init__(transforms)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        self.p = p

    def __call__(self, *args: Any) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](*args)

    def __repr__(self) -> str:
        return f"{super().__repr__()}(p={self.p})"


# -- conversion --------------------------------------------------------------------------------------------------------------------------
class ToTensor(_Unnamed):
    """A PIL image or an array ``(H, W, C)`` as a tensor ``(C, H, W)``; bytes become numbers from 0 to 1.

    Source: torchvision.transforms.ToTensor.
    Example:
        >>> ToTensor()(np.array([[0, 255]], dtype=np.uint8))
        tensor([[[0., 1.]]])
    """

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)


class PILToTensor(_Unnamed):
    """A PIL image as a tensor ``(C, H, W)`` with the image's own values. Source: torchvision.transforms.PILToTensor.

    Example:
        >>> import PIL.Image
        >>> PILToTensor()(PIL.Image.new("L", (3, 1), color=7))
        tensor([[[7, 7, 7]]], dtype=torch.uint8)
    """

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)


class ConvertImageDtype(Module):
    """A tensor as ``dtype``; black stays black and white white.

    Args:
        dtype: of the result.
    Shape:
        ``(..., C, H, W)`` to the same.
    Source: torchvision.transforms.ConvertImageDtype.
    Example:
        >>> ConvertImageDtype(torch.float32)(torch.tensor([[[0, 255]]], dtype=torch.uint8))
        tensor([[[0., 1.]]])
    """

    def __init__(self, dtype: Dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage:
    """A tensor ``(C, H, W)`` or an array ``(H, W, C)`` as a PIL image.

    Args:
        mode: Pillow's name of the colors; by the channels and the dtype when None.
    Source: torchvision.transforms.ToPILImage.
    Example:
        >>> ToPILImage()(torch.zeros(3, 4, 6, dtype=torch.uint8)).size
        (6, 4)
    """

    def __init__(self, mode: str | None = None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class Normalize(_Shown, shown=("mean", "std")):
    """``(x - mean) / std`` for each channel of a tensor.

    Args:
        mean: a number for each channel.
        std: likewise.
        inplace: write over the tensor.
    Shape:
        ``(..., C, H, W)`` to the same.
    Source: torchvision.transforms.Normalize.
    Example:
        >>> Normalize([0.5], [0.5])(torch.ones(1, 1, 2))
        tensor([[[1., 1.]]])
    """

    def __init__(self, mean: Any, std: Any, inplace: bool = False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class LinearTransformation(Module):
    """``(x - mean_vector) @ transformation_matrix`` of flattened tensors, whitening for example.

    Args:
        transformation_matrix: ``(D, D)`` for images with ``D = C H W`` numbers.
        mean_vector: ``(D)``.
    Raises:
        ValueError: shapes, dtypes or devices that do not fit.
    Source: torchvision.transforms.LinearTransformation.
    Example:
        >>> LinearTransformation(torch.eye(4), torch.ones(4))(torch.ones(1, 2, 2))
        tensor([[[0., 0.],
                 [0., 0.]]])
    """

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor):
        super().__init__()
        arguments.check_linear_map(transformation_matrix, mean_vector)
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        return filters.linearly_mapped(tensor, self.transformation_matrix, self.mean_vector)

    def __repr__(self) -> str:
        matrix, mean = self.transformation_matrix.tolist(), self.mean_vector.tolist()
        return f"{type(self).__name__}(transformation_matrix={matrix}, mean_vector={mean})"


# -- sizes and windows -------------------------------------------------------------------------------------------------------------------
class Resize(_Shown, function=F.resize, passing=("size", "interpolation", "max_size", "antialias")):
    """Images at another size.

    Args:
        size: ``(height, width)``, or the length of the shorter side.
        interpolation: an :class:`InterpolationMode` or Pillow's number.
        max_size: the most that the longer side gets.
        antialias: widen the filter when the image shrinks; always for PIL images.
    Raises:
        TypeError: a size that is neither a number nor a sequence.
        ValueError: a sequence of more than two numbers, or of none.
    Source: torchvision.transforms.Resize.
    Example:
        >>> Resize(4)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 5, 4])
    """

    def __init__(self, size: Any, interpolation: Any = BILINEAR, max_size: int | None = None, antialias: bool | None = True):
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size = size, max_size
        self.interpolation = _mode(interpolation)
        self.antialias = antialias

    def __repr__(self) -> str:
        detail = f"(size={self.size}, interpolation={self.interpolation.value}, max_size={self.max_size}, antialias={self.antialias})"
        return f"{type(self).__name__}{detail}"


class _Sized(_Shown):
    def __init__(self, size: Any):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)


class CenterCrop(_Sized, function=F.center_crop, passing=("size",)):
    """The window of this size in the middle; zeros around smaller images.

    Args:
        size: ``(height, width)``, or one number for both.
    Source: torchvision.transforms.CenterCrop.
    Example:
        >>> CenterCrop([2, 3])(torch.ones(3, 8, 6)).shape
        torch.Size([3, 2, 3])
    """


class Pad(_Shown, function=F.pad, passing=("padding", "fill", "padding_mode")):
    """A border around images; ``functional.pad`` has the arguments.

    Args:
        padding: of all sides, ``(left and right, top and bottom)``, or ``(left, top, right, bottom)``, in pixels.
        fill: what it consists of where ``padding_mode`` is ``'constant'``: a number, or one for each channel.
        padding_mode: ``'constant'``, ``'edge'``, ``'reflect'`` or ``'symmetric'``.
    Raises:
        TypeError: arguments of other types.
        ValueError: another number of paddings, or another mode.
    Source: torchvision.transforms.Pad.
    Example:
        >>> Pad(1)(torch.ones(1, 1, 1))
        tensor([[[0., 0., 0.],
                 [0., 1., 0.],
                 [0., 0., 0.]]])
    """

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        if not isinstance(padding, (Number, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (Number, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        pil.check_padding_mode(padding_mode)
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(padding)} element tuple")
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode


class RandomCrop(_Shown, shown=("size", "padding")):
    """A window of this size at a random place.

    Args:
        size: ``(height, width)``, or one number for both.
        padding: a border that is put around the image first.
        pad_if_needed: put one around images that are too small.
        fill, padding_mode: what it consists of, as for :class:`Pad`.
    Raises:
        ValueError: when called with an image that is too small.
    Source: torchvision.transforms.RandomCrop.
    Example:
        >>> RandomCrop(4, padding=1)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    def __init__(self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        self.size = tuple(arguments.setup_size(size, _TWO_SIZES))
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: Any) -> tuple[int, int, int, int]:
        """Top, left, height and width of a window."""
        _, height, width = F.get_dimensions(img)
        wanted_height, wanted_width = output_size
        if height < wanted_height or width < wanted_width:
            raise ValueError(f"Required crop size {(wanted_height, wanted_width)} is larger than input image size {(height, width)}")
        if (height, width) == (wanted_height, wanted_width):
            return 0, 0, height, width
        top = draws.whole(0, height - wanted_height + 1)
        return top, draws.whole(0, width - wanted_width + 1), wanted_height, wanted_width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = F.get_dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(Module):
    """A window of random area and shape, resized.

    Args:
        size: ``(height, width)`` of the result, or one number for both.
        scale: bounds of the window's share of the area.
        ratio: bounds of its width divided by its height.
        interpolation, antialias: as for :class:`Resize`.
    Source: torchvision.transforms.RandomResizedCrop. Szegedy et al. 2014, "Going Deeper with Convolutions".
    Example:
        >>> RandomResizedCrop(4)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = BILINEAR,
        antialias: bool | None = True,
    ):
        super().__init__()
        self.size = arguments.setup_size(size, _TWO_SIZES)
        arguments.check_bounds(scale, ratio)
        self.interpolation = _mode(interpolation)
        self.antialias, self.scale, self.ratio = antialias, scale, ratio

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """Top, left, height and width of a window."""
        _, height, width = F.get_dimensions(img)
        return draws.resized_window(height, width, scale, ratio)

    def forward(self, img: Any) -> Any:
        window = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *window, self.size, self.interpolation, antialias=self.antialias)

    def __repr__(self) -> str:
        scale, ratio = [tuple([round(value, 4) for value in bounds]) for bounds in (self.scale, self.ratio)]
        more = f"interpolation={self.interpolation.value}, antialias={self.antialias}"
        return f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, {more})"


class FiveCrop(_Sized, function=F.five_crop, passing=("size",)):
    """A tuple of the windows in the four corners and in the middle.

    Args:
        size: ``(height, width)``, or one number for both.
    Source: torchvision.transforms.FiveCrop.
    Example:
        >>> [tuple(window.shape) for window in FiveCrop((4, 6))(torch.ones(3, 8, 8))]
        [(3, 4, 6), (3, 4, 6), (3, 4, 6), (3, 4, 6), (3, 4, 6)]
    """


class TenCrop(_Sized, function=F.ten_crop, passing=("size", "vertical_flip")):
    """A tuple of :class:`FiveCrop` of the image and of its mirror image.

    Args:
        size: ``(height, width)``, or one number for both.
        vertical_flip: mirror top and bottom, not left and right.
    Source: torchvision.transforms.TenCrop.
    Example:
        >>> len(TenCrop(4)(torch.ones(3, 8, 8)))
        10
    """

    def __init__(self, size: Any, vertical_flip: bool = False):
        super().__init__(size)
        self.vertical_flip = vertical_flip


# -- old names -----------------------------------------------------------------------------------------------------------------------------
class Scale(Resize):
    """The old name of :class:`Resize`.

    Args:
        args, kwargs: those of :class:`Resize`.
    Source: torchvision.transforms.Scale.
    Example:
        >>> Scale(4)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 5, 4])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        warnings.warn("The use of the transforms.Scale transform is deprecated, please use transforms.Resize instead.", stacklevel=2)
        super().__init__(*args, **kwargs)


class RandomSizedCrop(RandomResizedCrop):
    """The old name of :class:`RandomResizedCrop`.

    Args:
        args, kwargs: those of :class:`RandomResizedCrop`.
    Source: torchvision.transforms.RandomSizedCrop.
    Example:
        >>> RandomSizedCrop(4)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 4, 4])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        warnings.warn(
            "The use of the transforms.RandomSizedCrop transform is deprecated, please use transforms.RandomResizedCrop instead.",
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


# -- maps ----------------------------------------------------------------------------------------------------------------------------------
class RandomPerspective(_Shown, shown=("p",)):
    """With probability ``p`` an image whose corners are moved inwards by up to ``distortion_scale`` halves of its size.

    Args:
        distortion_scale: from 0 to 1.
        p: the probability.
        interpolation, fill: as for ``functional.perspective``.
    Shape:
        ``(..., C, H, W)`` to the same.
    Source: torchvision.transforms.RandomPerspective.
    Example:
        >>> RandomPerspective(p=0.0)(torch.tensor([[[1.0, 2.0]]]))
        tensor([[[1., 2.]]])
    """

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: Any = BILINEAR, fill: Any = 0):
        super().__init__()
        self.p = p
        self.interpolation = _mode(interpolation)
        self.distortion_scale = distortion_scale
        self.fill = _checked_fill(fill)

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """The corners, and where they go."""
        return draws.perspective(width, height, distortion_scale)

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        if not draws.happens(self.p):
            return img
        startpoints, endpoints = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, startpoints, endpoints, self.interpolation, _fill_for(self.fill, img))


class RandomRotation(Module):
    """Images turned by a random angle.

    Args:
        degrees: bounds of the angle, or its largest distance from 0.
        interpolation, expand, center, fill: as for ``functional.rotate``.
    Source: torchvision.transforms.RandomRotation.
    Example:
        >>> RandomRotation(10)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, degrees: Any, interpolation: Any = NEAREST, expand: bool = False, center: Any = None, fill: Any = 0):
        super().__init__()
        self.degrees = arguments.setup_angle(degrees, "degrees")
        if center is not None:
            arguments.check_sequence(center, "center", (2,))
        self.center = center
        self.interpolation = _mode(interpolation)
        self.expand = expand
        self.fill = _checked_fill(fill)

    @staticmethod
    def get_params(degrees: Any) -> float:
        """The angle."""
        return draws.uniform(float(degrees[0]), float(degrees[1]))

    def forward(self, img: Any) -> Any:
        fill = _fill_for(self.fill, img)
        return F.rotate(img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, fill)

    def __repr__(self) -> str:
        center = "" if self.center is None else f", center={self.center}"
        fill = "" if self.fill is None else f", fill={self.fill}"
        mode = self.interpolation.value
        return f"{type(self).__name__}(degrees={self.degrees}, interpolation={mode}, expand={self.expand}{center}{fill})"


class RandomAffine(Module):
    """Images turned, moved, scaled and sheared.

    Args:
        degrees: bounds of the angle, or its largest distance from 0.
        translate: largest shares of the width and the height.
        scale: bounds of the factor.
        shear: bounds of the angle along x, and along y, in degrees, or its largest distance from 0.
        interpolation, fill, center: as for ``functional.affine``.
    Shape:
        ``(..., C, H, W)`` to the same.
    Source: torchvision.transforms.RandomAffine.
    Example:
        >>> RandomAffine(10, translate=(0.1, 0.1))(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = NEAREST,
        fill: Any = 0,
        center: Any = None,
    ):
        super().__init__()
        self.degrees, self.shear = arguments.setup_affine(degrees, translate, scale, shear, center)
        self.translate, self.scale = translate, scale
        self.interpolation = _mode(interpolation)
        self.fill = _checked_fill(fill)
        self.center = center

    @staticmethod
    def get_params(degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: Any) -> Any:
        """Angle, translation, scale and shear, for an image of ``img_size``, ``(width, height)``."""
        return draws.affine([float(bound) for bound in degrees], translate, scale_ranges, shears, img_size[1], img_size[0])

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        fill = _fill_for(self.fill, img)
        drawn = self.get_params(self.degrees, self.translate, self.scale, self.shear, [width, height])
        angle, translate, scale, shear = drawn
        return F.affine(img, angle, translate, scale, shear, self.interpolation, fill, self.center)

    def __repr__(self) -> str:
        shown = [f"degrees={self.degrees}"]
        shown += [f"{name}={getattr(self, name)}" for name in ("translate", "scale", "shear") if getattr(self, name) is not None]
        if self.interpolation is not InterpolationMode.NEAREST:
            shown.append(f"interpolation={self.interpolation.value}")
        if self.fill != 0:
            shown.append(f"fill={self.fill}")
        if self.center is not None:
            shown.append(f"center={self.center}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _two_floats(value: Any, name: str) -> Any:
    if not isinstance(value, (float, Sequence)):
        raise TypeError(f"{name} should be float or a sequence of floats. Got {type(value)}")
    if isinstance(value, float):
        return [value, value]
    if len(value) != 2:
        raise ValueError(f"If {name} is a sequence its length should be 2. Got {len(value)}")
    for element in value:
        if not isinstance(element, float):
            raise TypeError(f"{name} should be a sequence of floats. Got {type(element)}")
    return value


class ElasticTransform(_Shown, shown=("alpha", "sigma", "interpolation", "fill")):
    """Images with each pixel displaced at random, and smoothly.

    Args:
        alpha: the strength of displacements, in pixels.
        sigma: the deviation of the Gaussian that smooths them, in pixels.
        interpolation, fill: as for ``functional.elastic_transform``.
    Shape:
        ``(..., C, H, W)`` to the same.
    Raises:
        TypeError: arguments of other types.
        ValueError: other than two numbers for ``alpha`` or ``sigma``.
    Source: torchvision.transforms.ElasticTransform. Simard et al. 2003.
    Example:
        >>> ElasticTransform(sigma=1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, alpha: Any = 50.0, sigma: Any = 5.0, interpolation: Any = BILINEAR, fill: Any = 0):
        super().__init__()
        self.alpha = _two_floats(alpha, "alpha")
        self.sigma = _two_floats(sigma, "sigma")
        self.interpolation = _mode(interpolation)
        if not isinstance(fill, (int, float, list, tuple)):
            raise TypeError(f"fill should be int or float or a list or tuple of them. Got {type(fill)}")
        self.fill = [float(value) for value in (fill if isinstance(fill, (list, tuple)) else [fill])]

    @staticmethod
    def get_params(alpha: Any, sigma: Any, size: Any) -> Tensor:
        """Displacements for an image of ``size``, ``[height, width]``."""
        return draws.displacement(alpha, sigma, *size)

    def forward(self, tensor: Any) -> Any:
        _, height, width = F.get_dimensions(tensor)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, displacement, self.interpolation, self.fill)


# -- colours -------------------------------------------------------------------------------------------------------------------------------
class ColorJitter(_Shown, shown=("brightness", "contrast", "saturation", "hue")):
    """Brightness, contrast, saturation and hue changed at random, in random order.

    Args:
        brightness, contrast, saturation: bounds of the factor, or its largest distance from 1.
        hue: bounds of the turn between -0.5 and 0.5, or its largest distance from 0.
    Source: torchvision.transforms.ColorJitter.
    Example:
        >>> ColorJitter(brightness=0.5, hue=0.1)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0):
        super().__init__()
        self.brightness = arguments.jitter_bounds(brightness, "brightness", 1, 0, float("inf"))
        self.contrast = arguments.jitter_bounds(contrast, "contrast", 1, 0, float("inf"))
        self.saturation = arguments.jitter_bounds(saturation, "saturation", 1, 0, float("inf"))
        self.hue = arguments.jitter_bounds(hue, "hue", 0, -0.5, 0.5)

    @staticmethod
    def get_params(brightness: Any, contrast: Any, saturation: Any, hue: Any) -> tuple[Any, ...]:
        """The order, and the factors."""
        order, factors = draws.jitter((brightness, contrast, saturation, hue))
        return (order, *factors)

    def forward(self, img: Any) -> Any:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        functions = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for index in order.tolist():
            if factors[index] is not None:
                img = functions[index](img, factors[index])
        return img


class Grayscale(_Shown, function=F.rgb_to_grayscale, passing=("num_output_channels",)):
    """Images in grey, of one channel or three equal ones.

    Args:
        num_output_channels: 1 or 3.
    Source: torchvision.transforms.Grayscale.
    Example:
        >>> Grayscale(3)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, num_output_channels: int = 1):
        super().__init__()
        self.num_output_channels = num_output_channels


class _WithProbability(_Shown, shown=("p",)):
    """The base of what is done with probability ``p``, which is shown, too."""

    _separator = ","

    def __init_subclass__(cls, passing: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init_subclass__(passing=passing, shown=(*passing, "p") if passing else (), **kwargs)

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return self._transformed(img) if draws.happens(self.p) else img


class RandomHorizontalFlip(_WithProbability, function=F.hflip):
    """Left and right exchanged with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.RandomHorizontalFlip.
    Example:
        >>> RandomHorizontalFlip(1.0)(torch.tensor([[[1, 2]]]))
        tensor([[[2, 1]]])
    """


class RandomVerticalFlip(_WithProbability, function=F.vflip):
    """Top and bottom exchanged with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.RandomVerticalFlip.
    Example:
        >>> RandomVerticalFlip(1.0)(torch.tensor([[[1], [2]]]))
        tensor([[[2],
                 [1]]])
    """


class RandomGrayscale(_WithProbability):
    """Grey with as many channels as before, with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.RandomGrayscale.
    Example:
        >>> RandomGrayscale(1.0)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, p: float = 0.1):
        super().__init__(p)

    def _transformed(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, num_output_channels=F.get_image_num_channels(img))


class RandomInvert(_WithProbability, function=F.invert):
    """Black for white with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.RandomInvert.
    Example:
        >>> RandomInvert(1.0)(torch.tensor([[[0.25, 1.0]]]))
        tensor([[[0.7500, 0.0000]]])
    """


class RandomPosterize(_WithProbability, function=F.posterize, passing=("bits",)):
    """The most significant ``bits`` of each byte alone, with probability ``p``.

    Args:
        bits: from 0 to 8.
        p: the probability.
    Source: torchvision.transforms.RandomPosterize.
    Example:
        >>> RandomPosterize(1, p=1.0)(torch.tensor([[[100, 200]]], dtype=torch.uint8))
        tensor([[[  0, 128]]], dtype=torch.uint8)
    """

    def __init__(self, bits: int, p: float = 0.5):
        super().__init__(p)
        self.bits = bits


class RandomSolarize(_WithProbability, function=F.solarize, passing=("threshold",)):
    """Values from ``threshold`` on inverted, with probability ``p``.

    Args:
        threshold: in the values of images.
        p: the probability.
    Source: torchvision.transforms.RandomSolarize.
    Example:
        >>> RandomSolarize(0.5, p=1.0)(torch.tensor([[[0.25, 0.75]]]))
        tensor([[[0.2500, 0.2500]]])
    """

    def __init__(self, threshold: float, p: float = 0.5):
        super().__init__(p)
        self.threshold = threshold


class RandomAdjustSharpness(_WithProbability, function=F.adjust_sharpness, passing=("sharpness_factor",)):
    """Sharpness changed by a factor with probability ``p``.

    Args:
        sharpness_factor: 0 is smooth, 1 changes nothing, 2 is sharp.
        p: the probability.
    Source: torchvision.transforms.RandomAdjustSharpness.
    Example:
        >>> RandomAdjustSharpness(2.0, p=1.0)(torch.ones(1, 4, 4)).sum()
        tensor(16.)
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5):
        super().__init__(p)
        self.sharpness_factor = sharpness_factor


class RandomAutocontrast(_WithProbability, function=F.autocontrast):
    """Contrast stretched with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.RandomAutocontrast.
    Example:
        >>> RandomAutocontrast(1.0)(torch.tensor([[[0.25, 0.75]]]))
        tensor([[[0., 1.]]])
    """


class RandomEqualize(_WithProbability, function=F.equalize):
    """The histogram made even with probability ``p``.

    Args:
        p: the probability.
    Source: torchvision.transforms.RandomEqualize.
    Example:
        >>> RandomEqualize(1.0)(torch.ones(1, 2, 2, dtype=torch.uint8)).shape
        torch.Size([1, 2, 2])
    """


# -- erasing and smoothing -----------------------------------------------------------------------------------------------------------------
class RandomErasing(_Shown, shown=("p", "scale", "ratio", "value", "inplace")):
    """With probability ``p`` a window of random area and shape erased, of tensors alone.

    Args:
        p: the probability.
        scale: bounds of the window's share of the area.
        ratio: bounds of its height divided by its width.
        value: what stands there then: a number, one for each channel, or ``'random'``, normally distributed.
        inplace: write over the tensor.
    Raises:
        TypeError: arguments of other types.
        ValueError: a probability outside of 0 to 1, bounds out of range, or another number of values than of channels.
    Source: torchvision.transforms.RandomErasing. Zhong et al. 2017.
    Example:
        >>> RandomErasing(p=1.0, value=0)(torch.ones(3, 8, 8)).shape
        torch.Size([3, 8, 8])
    """

    def __init__(self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0, inplace: bool = False):
        super().__init__()
        arguments.check_erasing(scale, ratio, value)
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p, self.scale, self.ratio = p, scale, ratio
        self.value, self.inplace = value, inplace

    @staticmethod
    def get_params(img: Tensor, scale: Any, ratio: Any, value: Any = None) -> tuple[int, int, int, int, Tensor]:
        """Top, left, height, width and contents of the window."""
        channels, height, width = img.shape[-3:]
        drawn = draws.erased_window(channels, height, width, scale, ratio, value)
        return (0, 0, height, width, img) if drawn is None else drawn

    def forward(self, img: Tensor) -> Tensor:
        if not draws.happens(self.p):
            return img
        value = arguments.erased_value(self.value)
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(f"If value is a sequence, it should have either a single value or {img.shape[-3]} (number of input channels)")
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, value), self.inplace)


class GaussianBlur(_Shown, shown=("kernel_size", "sigma")):
    """Images smoothed by a Gaussian of random deviation.

    Args:
        kernel_size: odd; ``(along x, along y)`` or one for both.
        sigma: the deviation in pixels, or its bounds.
    Raises:
        ValueError: sizes that are even or not positive, deviations that are not positive or no pair of rising ones.
    Source: torchvision.transforms.GaussianBlur.
    Example:
        >>> GaussianBlur(3)(torch.ones(3, 8, 6)).shape
        torch.Size([3, 8, 6])
    """

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)):
        super().__init__()
        self.kernel_size = arguments.setup_size(kernel_size, "Kernel size should be a tuple/list of two integers")
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        if isinstance(sigma, Real):
            if sigma <= 0:
                raise ValueError("If sigma is a single number, it must be positive.")
            sigma = (sigma, sigma)
        elif not (isinstance(sigma, Sequence) and len(sigma) == 2):
            raise ValueError("sigma should be a single number or a list/tuple with length 2.")
        elif not 0.0 < sigma[0] <= sigma[1]:
            raise ValueError("sigma values should be positive and of the form (min, max).")
        self.sigma = sigma

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The deviation."""
        return draws.uniform(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        sigma = self.get_params(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])
