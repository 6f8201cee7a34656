"""Tensors with a meaning: images, videos, masks, bounding boxes and key points.

A transform of :mod:`~flambeau.vision.transforms.v2` treats each class differently. Operations on them return plain tensors, except for
``clone``, ``to``, ``detach``, ``requires_grad_`` and ``pin_memory``; :func:`set_return_type` changes that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar

import PIL.Image

from .. import ops
from ..core.calls.override import DisableTorchFunctionSubclass
from ..core.tensor import Tensor
from ..utils._pytree import tree_flatten

__all__ = ["BoundingBoxFormat", "BoundingBoxes", "Image", "KeyPoints", "Mask", "TVTensor", "Video", "is_rotated_bounding_format"]
__all__ += ["set_return_type", "wrap"]

_keeps_kind = False  # whether every operation returns its input's class
_ALWAYS_KEEP_KIND = {getattr(Tensor, name) for name in ("clone", "to", "detach", "requires_grad_", "pin_memory")}


class _Restored:
    """Puts the former return type back at the end of a ``with`` block."""

    def __init__(self, before: bool):
        self.before = before

    def __enter__(self) -> _Restored:
        return self

    def __exit__(self, *error: object) -> None:
        global _keeps_kind
        _keeps_kind = self.before


def set_return_type(return_type: str) -> _Restored:
    """Set what operations on these tensors return: ``'Tensor'``, as at first, or ``'TVTensor'``, their own class.

    Transforms return the class of their input whatever is set.

    Args:
        return_type: ``'Tensor'`` or ``'TVTensor'``.
    Returns:
        Nothing needed for a setting that stays; a context manager that puts the former one back.
    Raises:
        ValueError: another word; case does not matter.
    Source: torchvision.tv_tensors.set_return_type.
    Example:
        >>> with set_return_type('TVTensor'):
        ...     print(type(Image(torch.ones(3, 2, 2)) + 1).__name__)
        Image
    """
    global _keeps_kind
    before = _keeps_kind
    try:
        _keeps_kind = {"tensor": False, "tvtensor": True}[return_type.lower()]
    except KeyError:
        raise ValueError(f"return_type must be 'TVTensor' or 'Tensor', got {return_type}") from None
    return _Restored(before)


def _of_plain(name: str) -> Any:
    """The property of plain tensors, read without ``__torch_function__``."""

    def read(self: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return getattr(super(TVTensor, self), name)

    return property(read)


class TVTensor(Tensor):
    """The base class of images, masks and the rest, and of programs' own classes. Source: torchvision.tv_tensors.TVTensor.

    Example:
        >>> class Depth(TVTensor): ...
        >>> type(torch.ones(2).as_subclass(Depth).clone()).__name__
        'Depth'
    """

    _known: tuple[str, ...] = ()  # attributes besides the elements
    _wrap: ClassVar[Callable[..., Any]]  # sets the attributes of classes that have some

    @staticmethod
    def _to_tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool | None = None) -> Tensor:
        if requires_grad is None:
            requires_grad = data.requires_grad if isinstance(data, Tensor) else False
        return ops.as_tensor(data, dtype=dtype, device=device).requires_grad_(requires_grad)

    @classmethod
    def _wrap_output(cls, output: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if isinstance(output, Tensor) and not isinstance(output, cls):
            return output.as_subclass(cls)
        if isinstance(output, (tuple, list)):
            return type(output)(cls._wrap_output(part, args, kwargs) for part in output)
        return output

    @classmethod
    def wrap(cls, tensor: Tensor, like: Any, **kwargs: Any) -> Any:
        """``tensor`` as an instance of this class, with the attributes of ``like``."""
        if not cls._known:
            return tensor.as_subclass(cls)
        return cls._wrap(tensor, **{name: kwargs.get(name, getattr(like, name)) for name in cls._known})

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if not all(issubclass(cls, other) for other in types):
            return NotImplemented
        with DisableTorchFunctionSubclass():
            output = func(*args, **kwargs or {})
        # a_tensor.to(an_image) comes here too: its first operand decides
        if _keeps_kind or (func in _ALWAYS_KEEP_KIND and isinstance(args[0], cls)):
            return cls._wrap_output(output, args, kwargs)
        if isinstance(output, cls):
            return output.as_subclass(Tensor)
        return output

    def _make_repr(self, **metadata: Any) -> str:
        more = ", ".join(f"{name}={value}" for name, value in metadata.items())
        return f"{super().__repr__()[:-1]}, {more})"

    @property
    def data(self) -> Any:
        with DisableTorchFunctionSubclass():
            output = super().data
        return self._wrap_output(output, (self,)) if _keeps_kind else output

    @data.setter
    def data(self, value: Tensor) -> None:
        vars(Tensor)["data"].__set__(self, value)

    shape = _of_plain("shape")
    ndim = _of_plain("ndim")
    device = _of_plain("device")
    dtype = _of_plain("dtype")

    def __deepcopy__(self, memo: Any) -> Any:
        return self.detach().clone().requires_grad_(self.requires_grad)


def _from_picture(data: Any) -> Any:
    if isinstance(data, PIL.Image.Image):
        from .transforms._kernels.pil import pil_to_tensor

        return pil_to_tensor(data)
    return data


class Image(TVTensor):
    """Images ``(..., C, H, W)``.

    Args:
        data: what becomes a tensor, or a PIL image; ``(H, W)`` becomes ``(1, H, W)``.
        dtype, device: those of ``data`` when None.
        requires_grad: that of a tensor ``data``, otherwise False.
    Raises:
        ValueError: fewer than two dimensions.
    Source: torchvision.tv_tensors.Image.
    Example:
        >>> Image(torch.ones(2, 2)).shape
        torch.Size([1, 2, 2])
    """

    def __new__(cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None) -> Image:
        tensor = cls._to_tensor(_from_picture(data), dtype=dtype, device=device, requires_grad=requires_grad)
        if tensor.ndim < 2:
            raise ValueError(f"Tensor must be 2D or higher, got {tensor.ndim}D tensor.")
        return (tensor.unsqueeze(0) if tensor.ndim == 2 else tensor).as_subclass(cls)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr()


class Video(TVTensor):
    """Videos ``(..., T, C, H, W)``. Source: torchvision.tv_tensors.Video.

    Example:
        >>> Video(torch.ones(4, 3, 2, 2)).shape
        torch.Size([4, 3, 2, 2])
    """

    def __new__(cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None) -> Video:
        tensor = cls._to_tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)
        if tensor.ndim < 4:
            raise ValueError(f"Video: expected at least 4 dimensions, (..., T, C, H, W), got {tensor.ndim}")
        return tensor.as_subclass(cls)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr()


class Mask(TVTensor):
    """Masks ``(..., H, W)`` of segments or objects; a PIL image becomes ``(1, H, W)``. Source: torchvision.tv_tensors.Mask.

    Example:
        >>> Mask(torch.zeros(1, 2, 2, dtype=torch.bool)).shape
        torch.Size([1, 2, 2])
    """

    def __new__(cls, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool | None = None) -> Mask:
        return cls._to_tensor(_from_picture(data), dtype=dtype, device=device, requires_grad=requires_grad).as_subclass(cls)


class BoundingBoxFormat(Enum):
    """Meaning of a box's numbers: two corners, or one or the centre with width and height; ``R``: and an angle in degrees.

    ``XYXYXYXY`` gives the four corners of a box that may be turned. Source: torchvision.tv_tensors.BoundingBoxFormat.

    Example:
        >>> BoundingBoxFormat('XYWH')
        <BoundingBoxFormat.XYWH: 'XYWH'>
    """

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"
    XYWHR = "XYWHR"
    CXCYWHR = "CXCYWHR"
    XYXYXYXY = "XYXYXYXY"


_ROTATED = ("XYWHR", "CXCYWHR", "XYXYXYXY")


def is_rotated_bounding_format(format: BoundingBoxFormat | str) -> bool:
    """Whether boxes of this format may be turned.

    Args:
        format: a :class:`BoundingBoxFormat` or its name.
    Returns:
        A bool.
    Raises:
        ValueError: neither.
    Source: torchvision.tv_tensors.is_rotated_bounding_format.
    Example:
        >>> is_rotated_bounding_format('CXCYWHR')
        True
    """
    if not isinstance(format, (BoundingBoxFormat, str)):
        raise ValueError(f"format should be str or BoundingBoxFormat, got {type(format)}")
    return (format if isinstance(format, str) else format.value) in _ROTATED


def _described_output(kind: type[TVTensor], output: Any, args: Any, kwargs: Any) -> Any:
    """A call's results as tensors of this class, with the attributes of the first operand that is one."""
    operands, _ = tree_flatten((tuple(args), kwargs or {}))
    like = next(operand for operand in operands if isinstance(operand, kind))
    described = {name: getattr(like, name) for name in kind._known}
    if isinstance(output, Tensor) and not isinstance(output, kind):
        return kind._wrap(output, **described, check_dims=False)
    if isinstance(output, (tuple, list)):
        return type(output)(kind._wrap(part, **described, check_dims=False) for part in output)
    return output


class BoundingBoxes(TVTensor):
    """Boxes ``(N, 4)``, or ``(N, 5)`` and ``(N, 8)`` for those that are turned.

    Args:
        data: what becomes a tensor; a single box ``(4)`` becomes ``(1, 4)``.
        format: a :class:`BoundingBoxFormat` or its name.
        canvas_size: height and width of the image they lie in.
        clamping_mode: how transforms cut boxes that leave the image: ``'soft'``, ``'hard'``, or None for not at all. It matters for turned
            boxes; the others are cut to the image either way.
        dtype, device, requires_grad: as for :class:`Image`.
    Raises:
        ValueError: another number of dimensions, another mode, or integers for turned boxes.
    Source: torchvision.tv_tensors.BoundingBoxes.
    Example:
        >>> boxes = BoundingBoxes([0, 0, 4, 2], format='XYWH', canvas_size=(6, 8))
        >>> boxes.shape, boxes.format.value
        (torch.Size([1, 4]), 'XYWH')
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: str | None
    _known = ("format", "canvas_size", "clamping_mode")

    @classmethod
    def _wrap(
        cls, tensor: Tensor, *, format: Any, canvas_size: tuple[int, int], clamping_mode: str | None = "soft", check_dims: bool = True
    ) -> BoundingBoxes:
        if check_dims:
            if tensor.ndim == 1:
                tensor = tensor.unsqueeze(0)
            elif tensor.ndim != 2:
                raise ValueError(f"Expected a 1D or 2D tensor, got {tensor.ndim}D")
        if clamping_mode not in (None, "hard", "soft"):
            raise ValueError(f"clamping_mode must be None, hard or soft, got {clamping_mode}.")
        boxes = tensor.as_subclass(cls)
        boxes.format = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
        boxes.canvas_size = canvas_size
        boxes.clamping_mode = clamping_mode
        return boxes

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: tuple[int, int],
        clamping_mode: str | None = "soft",
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> BoundingBoxes:
        tensor = cls._to_tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)
        if not tensor.is_floating_point() and is_rotated_bounding_format(format):
            raise ValueError(f"Rotated bounding boxes should be floating point tensors, got {tensor.dtype}.")
        return cls._wrap(tensor, format=format, canvas_size=canvas_size, clamping_mode=clamping_mode)

    @classmethod
    def _wrap_output(cls, output: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return _described_output(BoundingBoxes, output, args, kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr(format=self.format, canvas_size=self.canvas_size, clamping_mode=self.clamping_mode)


class KeyPoints(TVTensor):
    """Points ``(..., 2)``, x before y: polygons ``(N, points, 2)``, skeletons ``(N, bones, 2, 2)`` and the like.

    Args:
        data: what becomes a tensor; a single point ``(2)`` becomes ``(1, 2)``.
        canvas_size: height and width of the image they lie in.
        dtype, device, requires_grad: as for :class:`Image`.
    Raises:
        ValueError: another last dimension.
    Source: torchvision.tv_tensors.KeyPoints.
    Example:
        >>> KeyPoints([[1, 2]], canvas_size=(6, 8)).canvas_size
        (6, 8)
    """

    canvas_size: tuple[int, int]
    _known = ("canvas_size",)

    @classmethod
    def _wrap(cls, tensor: Tensor, *, canvas_size: tuple[int, int], check_dims: bool = True) -> KeyPoints:
        if check_dims:
            if tensor.ndim == 1:
                tensor = tensor.unsqueeze(0)
            elif tensor.shape[-1] != 2:
                raise ValueError(f"Expected a tensor of shape (..., 2), not {tensor.shape}")
        points = tensor.as_subclass(cls)
        points.canvas_size = canvas_size
        return points

    def __new__(
        cls, data: Any, *, canvas_size: tuple[int, int], dtype: Any = None, device: Any = None, requires_grad: bool | None = None
    ) -> KeyPoints:
        return cls._wrap(cls._to_tensor(data, dtype=dtype, device=device, requires_grad=requires_grad), canvas_size=canvas_size)

    @classmethod
    def _wrap_output(cls, output: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        return _described_output(KeyPoints, output, args, kwargs)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr(canvas_size=self.canvas_size)


def wrap(wrappee: Tensor, *, like: Any, **kwargs: Any) -> Any:
    """``wrappee`` as a tensor of ``like``'s class, with the attributes of ``like``.

    Args:
        wrappee: a plain tensor.
        like: the tensor whose class it gets.
        kwargs: what is described otherwise, ``canvas_size`` for example.
    Returns:
        A tensor of the class of ``like`` and the shape of ``wrappee``.
    Source: torchvision.tv_tensors.wrap.
    Example:
        >>> like = Image(torch.ones(3, 2, 2))
        >>> type(wrap(torch.zeros(3, 2, 2), like=like)).__name__
        'Image'
    """
    method = getattr(type(like), "wrap", None)
    return wrappee.as_subclass(type(like)) if method is None else method(wrappee, like, **kwargs)


def __getattr__(name: str) -> Any:
    if name == "wrap_dataset_for_transforms_v2":
        from . import datasets  # late: data sets load more than tensors need

        return datasets.wrap_dataset_for_transforms_v2
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
