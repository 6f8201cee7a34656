"""Images to columns of patches and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.calls.annotations import Tensor
from ..core.calls.registry import composite, op
from .patches import FOLDED, Ints, add_windows, ints, padded, product, window_count, windows


def _geometry(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[Ints, Ints, Ints, Ints]:
    """Kernel, dilation, padding and stride of 2 dimensions, checked.

    Raises:
        RuntimeError: sizes that are not positive.
    """
    geometry = tuple(
        [
            ints(v, 2, name, n, what=name)
            for v, n in ((kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride"))
        ]
    )
    for word, sizes, least in (("kernel", geometry[0], 1), ("dilation", geometry[1], 1), ("stride", geometry[3], 1)):
        if min(sizes) < least:
            raise RuntimeError(f"{word} size should be greater than zero, but got {name} {word}: {sizes}")
    if min(geometry[2]) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {name} padding: {geometry[2]}")
    return geometry  # type: ignore[return-value]


def _positions(spatial: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Ints:
    return tuple([window_count(n + 2 * p, k, s, d) for n, k, d, p, s in zip(spatial, kernel_size, dilation, padding, stride, strict=True)])


@op(
    **FOLDED,
    name="_im2col",
    node_name="Im2ColBackward0",
    promotion="same",
    grad={
        "input": lambda grad, kernel_size, dilation, padding, stride, input_shape: columns_to_image(
            grad, input_shape[2:], kernel_size, dilation, padding, stride
        )
    },
    forward="linear",
)
def image_to_columns(input: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """Patches of ``(N, C, H, W)`` images as ``(N, C * kh * kw, L)``."""
    if input.dtype.kind in "iu":
        raise NotImplementedError(f"\"im2col_out_cpu\" not implemented for '{dtypes.of_array(input).legacy}'")
    positions = _positions(input.shape[2:], kernel_size, dilation, padding, stride)
    seen = windows(padded(input, padding, padding), kernel_size, stride, dilation, positions)
    return seen.copy().reshape(input.shape[0], input.shape[1] * product(kernel_size), product(positions))


@op(
    **FOLDED,
    name="_col2im",
    node_name="Col2ImBackward0",
    promotion="same",
    grad={
        "input": lambda grad, size, kernel_size, dilation, padding, stride: image_to_columns(grad, kernel_size, dilation, padding, stride)
    },
    forward="linear",
)
def columns_to_image(input: Tensor, size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """Images of ``size`` that are the sums of the patches in ``input``."""
    positions = _positions(tuple(size), kernel_size, dilation, padding, stride)
    columns = input.reshape(input.shape[0], input.shape[1] // product(kernel_size), *kernel_size, *positions)
    image = np.zeros((*columns.shape[:2], *[n + 2 * p for n, p in zip(size, padding, strict=True)]), input.dtype)
    add_windows(image, columns, kernel_size, stride, dilation, positions)
    inside = tuple([slice(p, p + n) for n, p in zip(size, padding, strict=True)])
    return np.ascontiguousarray(image[(..., *inside)])


@composite(namespace="nn.functional")
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """All patches of an image as columns.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the patches.
        dilation: step between the elements of a patch.
        padding: zeros on each side.
        stride: step between patches.
    Returns:
        ``(N, C * kh * kw, L)`` for L patches, ``input``'s dtype.
    Raises:
        RuntimeError: geometry that does not fit.
    Gradient: ``fold`` of ``grad``.
    Source: torch.nn.functional.unfold.
    Example:
        >>> image = torch.arange(9.0).view(1, 1, 3, 3)
        >>> F.unfold(image, kernel_size=2)[0].T[0]  # the first patch
        tensor([0., 1., 3., 4.])
    """
    kernel_size, dilation, padding, stride = _geometry("unfold", kernel_size, dilation, padding, stride)
    shape = tuple(input.shape)
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but "
            f"got: {list(shape)}"
        )
    if min(_positions(shape[-2:], kernel_size, dilation, padding, stride)) < 1:
        raise RuntimeError(
            f"Given input with spatial size {shape[-2:]}, kernel_size={kernel_size}, dilation={dilation}, padding={padding}, calculated "
            f"shape of the array of sliding blocks as {_positions(shape[-2:], kernel_size, dilation, padding, stride)}, but its components "
            "must be at "
            "least one."
        )
    if len(shape) == 4:
        return image_to_columns(input, kernel_size, dilation, padding, stride)
    return image_to_columns(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)


@composite(namespace="nn.functional")
def fold(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Images made of patches: where patches overlap, they are added.

    Args:
        input: ``(N, C * kh * kw, L)`` or ``(C * kh * kw, L)``, as ``unfold`` makes it.
        output_size: ``(H, W)`` of the images.
        kernel_size, dilation, padding, stride: as for ``unfold``.
    Returns:
        ``(N, C, H, W)``, ``input``'s dtype.
    Raises:
        RuntimeError: a number of patches or elements that does not fit.
    Gradient: ``unfold`` of ``grad``.
    Source: torch.nn.functional.fold.
    Example:
        >>> F.fold(torch.ones(1, 4, 4), (3, 3), kernel_size=2)  # how many patches see each element
        tensor([[[[1., 2., 1.],
                  [2., 4., 2.],
                  [1., 2., 1.]]]])
    """
    kernel_size, dilation, padding, stride = _geometry("fold", kernel_size, dilation, padding, stride)
    size = ints(output_size, 2, "fold", "output_size", what="fold")
    shape = tuple(input.shape)
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but "
            f"got: {list(shape)}"
        )
    if shape[-2] % product(kernel_size):
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={shape[-2]} and "
            f"kernel_size={kernel_size}."
        )
    positions = _positions(size, kernel_size, dilation, padding, stride)
    if min(positions) < 1 or product(positions) != shape[-1]:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel_size}, dilation={dilation}, padding={padding}, stride={stride}, expected "
            f"size of input's dimension 2 to match the calculated number of sliding blocks {' * '.join(map(str, positions))} = "
            f"{product(positions)}, but got input.size(2)={shape[-1]}."
        )
    if len(shape) == 3:
        return columns_to_image(input, size, kernel_size, dilation, padding, stride)
    return columns_to_image(input.unsqueeze(0), size, kernel_size, dilation, padding, stride).squeeze(0)
