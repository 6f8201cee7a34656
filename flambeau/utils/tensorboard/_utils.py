"""Layouts of images: figures as arrays, batches on a grid, any order of dimensions as height, width, channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_to_image(figures: Figure | list[Figure], close: bool = True) -> np.ndarray:
    """Figures of matplotlib as pixels.

    Args:
        figures: one figure, or a list of figures of one size.
        close: close each figure once it is drawn.
    Returns:
        ``(3, H, W)``, or ``(N, 3, H, W)`` for a list; uint8.
    Source: torch.utils.tensorboard._utils.figure_to_image.
    """
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    rgb = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    if close:
        pyplot.close(figures)
    return rgb.transpose(2, 0, 1)


def make_grid(I: np.ndarray, ncols: int = 8) -> np.ndarray:  # noqa: E741
    """Images side by side, row by row, on black.

    Args:
        I: ``(N, 1, H, W)`` or ``(N, 3, H, W)``; grey images become coloured.
        ncols: most images of a row.
    Returns:
        ``(3, rows * H, columns * W)``, ``I``'s dtype.
    Raises:
        AssertionError: another shape, or no array.
    Source: torch.utils.tensorboard._utils.make_grid.
    """
    if not isinstance(I, np.ndarray):
        raise AssertionError(f"make_grid: expected a NumPy array, got {type(I).__name__}")
    if I.ndim != 4 or I.shape[1] not in (1, 3):
        raise AssertionError(f"make_grid: expected images of shape (N, 1, H, W) or (N, 3, H, W), got {I.shape}")
    number, _, height, width = I.shape
    columns = min(number, ncols)
    rows = -(-number // columns)
    tiles = np.zeros((rows * columns, 3, height, width), dtype=I.dtype)
    tiles[:number] = I
    return tiles.reshape(rows, columns, 3, height, width).transpose(2, 0, 3, 1, 4).reshape(3, rows * height, columns * width)


def convert_to_HWC(tensor: np.ndarray, input_format: str) -> np.ndarray:
    """An image, or the grid of a batch of images, as ``(H, W, C)``.

    Args:
        tensor: with one dimension for each letter of ``input_format``.
        input_format: ``N``, ``C``, ``H``, ``W`` in any order; without ``N`` one image, without ``C`` a grey one.
    Raises:
        AssertionError: a letter twice, or another number of dimensions.
        ValueError: letters that name no layout.
    Source: torch.utils.tensorboard._utils.convert_to_HWC.
    """
    letters = input_format.upper()
    if len(set(letters)) != len(letters):
        raise AssertionError(f"You can not use the same dimension shorthand twice. input_format: {input_format}")
    if tensor.ndim != len(letters):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {tensor.shape}, input_format: {input_format}"
        )
    order = {4: "NCHW", 3: "HWC", 2: "HW"}.get(len(letters), "")
    if set(letters) != set(order):
        raise ValueError(f"expected an order of NCHW, CHW or HW as the format of images, got {input_format}")
    image = tensor.transpose([letters.index(letter) for letter in order])
    if image.ndim == 4:
        return make_grid(image).transpose(1, 2, 0)
    if image.ndim == 2:
        return np.stack([image] * 3, 2)
    return np.repeat(image, 3, 2) if image.shape[2] == 1 else image


def _prepare_video(V: Any) -> np.ndarray:
    """The frames of a batch of videos, each frame a grid with a power of two of columns and rows.

    Args:
        V: ``(N, T, C, H, W)``.
    Returns:
        ``(T, rows * H, columns * W, C)``, floating point: of uint8 the 255th part.
    Source: torch.utils.tensorboard._utils._prepare_video.
    """
    videos, frames, channels, height, width = V.shape
    if V.dtype == np.uint8:
        V = V.astype(np.float32) / 255.0
    rows = 1 << ((videos.bit_length() - 1) // 2)
    places = 1 << (videos - 1).bit_length()
    tiles = np.zeros((places, frames, channels, height, width), V.dtype)
    tiles[:videos] = V
    columns = places // rows
    tiles = tiles.reshape(rows, columns, frames, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    return tiles.reshape(frames, rows * height, columns * width, channels)
