"""Encoded images to tensors and back. What is decoded is ``(C, H, W)``. Source: torchvision.io.image."""

from __future__ import annotations

import enum
import io
import os
from typing import Any

import numpy as np
from PIL import Image, ImageOps, features

from ... import ops
from ...core.dtype import uint8
from ...core.replacing import replace_file
from ...core.tensor import Tensor
from .png import decode_deep_png, is_deep_png

__all__ = ["ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "decode_avif", "decode_heic", "decode_webp", "decode_gif"]
__all__ += ["encode_jpeg", "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png"]

PILLOW_MODES = ("", "L", "LA", "RGB", "RGBA")  # by the number of a mode
CHANNELS = {1: "L", 3: "RGB"}  # that are encoded


class ImageReadMode(enum.Enum):
    """Mode by which a decoder converts an image's colors. Functions take the names, too. Source: torchvision.io.ImageReadMode.

    Example:
        >>> ImageReadMode['GRAY']
        <ImageReadMode.GRAY: 1>
    """

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA


# -- files ----------------------------------------------------------------------------------------------------------------
def read_file(path: str | os.PathLike[str]) -> Tensor:
    """The bytes of a file: ``(n,)``, uint8.

    Args:
        path: of the file.
    Returns:
        ``(n,)``, uint8.
    Raises:
        RuntimeError: it cannot be read.
    Source: torchvision.io.read_file.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_file(f"{folder}/two", torch.tensor([1, 2], dtype=torch.uint8))
        ...     print(read_file(f"{folder}/two").tolist())
        [1, 2]
    """
    try:
        with open(path, "rb") as file:
            return ops.from_numpy(np.frombuffer(bytearray(file.read()), np.uint8))
    except OSError as error:
        raise RuntimeError(f"[Errno {error.errno}] {error.strerror}: '{os.fspath(path)}'") from error


def write_file(filename: str | os.PathLike[str], data: Tensor) -> None:
    """Write bytes to a file.

    Args:
        filename: of the file.
        data: ``(n,)``, uint8.
    Raises:
        RuntimeError: another shape or dtype, or the file cannot be written.
    Source: torchvision.io.write_file.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_file(f"{folder}/two", torch.tensor([1, 2], dtype=torch.uint8))
        ...     print(os.path.getsize(f"{folder}/two"))
        2
    """
    content = _encoded(data)
    try:
        replace_file(filename, lambda file: file.write(content))
    except OSError as error:
        raise RuntimeError(f"[Errno {error.errno}] {error.strerror}: '{os.fspath(filename)}'") from error


def _encoded(data: Tensor) -> bytes:
    if data.dtype != uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if data.dim() != 1 or data.numel() == 0:
        raise RuntimeError(f"Expected a non empty 1-dimensional tensor, got shape {tuple(data.shape)}")
    content: bytes = data.to("cpu").numpy().tobytes()
    return content


# -- decoding -------------------------------------------------------------------------------------------------------------
def _mode(mode: ImageReadMode | str) -> ImageReadMode:
    return ImageReadMode[mode.upper()] if isinstance(mode, str) else mode


def _opened(data: Tensor, *formats: str) -> Any:
    """Pillow's image of encoded bytes.

    Raises:
        RuntimeError: another format, or damaged.
    """
    try:
        return Image.open(io.BytesIO(_encoded(data)), formats=formats)
    except (OSError, SyntaxError, ValueError) as error:
        raise RuntimeError(f"Content is not a readable image of the format {' or '.join(formats)}") from error


def _levels(picture: Any, mode: ImageReadMode) -> Any:
    """``(C, H, W)`` of Pillow's image.

    Raises:
        RuntimeError: damaged data.
    """
    target = PILLOW_MODES[mode.value]
    if picture.mode == "1":
        target = target or "L"
    try:
        if picture.format == "JPEG" and mode is ImageReadMode.GRAY:
            picture.draft("L", None)  # the luminance itself, rather than that of rounded colors
        levels = np.array(picture.convert(target) if target and target != picture.mode else picture)
    except (OSError, SyntaxError, ValueError) as error:
        raise RuntimeError(f"Image is damaged: {error}") from error
    if levels.dtype not in (np.uint8, np.uint16):  # mode "I": 16 bits in 32
        levels = levels.astype(np.uint16)
    return levels[None] if levels.ndim == 2 else levels.transpose(2, 0, 1)


def _decoded(data: Tensor, mode: ImageReadMode | str, apply_exif_orientation: bool, *formats: str) -> Tensor:
    picture = _opened(data, *formats)
    if apply_exif_orientation:
        file_format = picture.format
        picture = ImageOps.exif_transpose(picture)
        picture.format = file_format
    return ops.from_numpy(np.ascontiguousarray(_levels(picture, _mode(mode))))


def decode_png(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False) -> Tensor:
    """The image of a PNG file.

    Args:
        input: ``(n,)``, uint8, the file's bytes.
        mode: colors of the result; unchanged, an image with a palette is its indices.
        apply_exif_orientation: turn it by the orientation in its EXIF data.
    Returns:
        ``(C, H, W)``, uint8; uint16 where the file has 16 bits a channel.
    Raises:
        RuntimeError: no PNG file, or damaged.
        NotImplementedError: colors of 16 bits that are interlaced, or to be turned or converted.
    Source: torchvision.io.decode_png.
    Example:
        >>> decode_png(encode_png(torch.tensor([[[0, 255]]], dtype=torch.uint8)))
        tensor([[[  0, 255]]], dtype=torch.uint8)
    """
    if is_deep_png(content := _encoded(input)):
        if apply_exif_orientation:
            raise NotImplementedError("decode_png: images with colors of 16 bits are not turned")
        levels = decode_deep_png(content)
        target = _mode(mode)
        if target is not ImageReadMode.UNCHANGED and len(PILLOW_MODES[target.value]) != len(levels):
            raise NotImplementedError(f"decode_png: colors of 16 bits are not converted to {target.name}; use UNCHANGED")
        return ops.from_numpy(levels)
    return _decoded(input, mode, apply_exif_orientation, "PNG")


def decode_jpeg(
    input: Tensor | list[Tensor],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    device: Any = "cpu",
    apply_exif_orientation: bool = False,
) -> Any:
    """The image of a JPEG file, or a list of them.

    Args:
        input: ``(n,)``, uint8, the file's bytes; or a list.
        mode: colors of the result: unchanged, ``GRAY`` or ``RGB``.
        device: of the result. Decoding takes place on the CPU.
        apply_exif_orientation: turn it by the orientation in its EXIF data.
    Returns:
        ``(C, H, W)``, uint8; a list for a list.
    Raises:
        RuntimeError: no JPEG file, or damaged, or another mode.
        ValueError: an empty list, or something else in it.
    Source: torchvision.io.decode_jpeg.
    Example:
        >>> decode_jpeg(encode_jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8))).shape
        torch.Size([3, 8, 8])
    """
    if isinstance(input, list):
        if not input:
            raise ValueError("Input list must contain at least one element")
        if not all(isinstance(data, Tensor) for data in input):
            raise ValueError("All elements of the input list must be tensors.")
        return [decode_jpeg(data, mode, device, apply_exif_orientation) for data in input]
    if _mode(mode).value not in (0, 1, 3):
        raise RuntimeError("The provided mode is not supported for JPEG files")
    return _decoded(input, mode, apply_exif_orientation, "JPEG").to(device)


def decode_gif(input: Tensor) -> Tensor:
    """The images of a GIF file.

    Args:
        input: ``(n,)``, uint8, the file's bytes.
    Returns:
        ``(3, H, W)``, uint8, where there is one; ``(N, 3, H, W)`` where there are N.
    Raises:
        RuntimeError: no GIF file, or damaged.
    Source: torchvision.io.decode_gif.
    Example:
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (5, 4)).save(file, format="GIF")
        >>> decode_gif(torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)).shape
        torch.Size([3, 4, 5])
    """
    picture = _opened(input, "GIF")
    frames = []
    for index in range(picture.n_frames):
        picture.seek(index)
        frames.append(_levels(picture, ImageReadMode.RGB))
    return ops.from_numpy(np.ascontiguousarray(frames[0] if len(frames) == 1 else np.stack(frames)))


def decode_webp(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """The image of a WebP file.

    Args:
        input: ``(n,)``, uint8, the file's bytes.
        mode: colors of the result.
    Returns:
        ``(C, H, W)``, uint8.
    Raises:
        RuntimeError: no WebP file, or damaged.
    Source: torchvision.io.decode_webp.
    Example:
        >>> file = io.BytesIO()
        >>> Image.new("RGB", (5, 4)).save(file, format="WEBP")
        >>> decode_webp(torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)).shape
        torch.Size([3, 4, 5])
    """
    return _decoded(input, mode, False, "WEBP")


def decode_avif(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """The image of an AVIF file, 8 bits a channel.

    Args:
        input: ``(n,)``, uint8, the file's bytes.
        mode: colors of the result.
    Returns:
        ``(C, H, W)``, uint8.
    Raises:
        NotImplementedError: Pillow is built without AVIF.
        RuntimeError: no AVIF file, or damaged.
    Source: torchvision.io.decode_avif.
    Example:
        >>> try:
        ...     decode_avif(torch.zeros(1, dtype=torch.uint8))
        ... except RuntimeError:
        ...     print("no AVIF file, or no decoder")
        no AVIF file, or no decoder
    """
    if not features.check("avif"):
        raise NotImplementedError("decode_avif: Pillow is built without AVIF")
    return _decoded(input, mode, False, "AVIF")


def decode_heic(input: Tensor, mode: ImageReadMode | str = ImageReadMode.UNCHANGED) -> Tensor:
    """Not supported: Pillow has no decoder for HEIC.

    Args:
        input: ``(n,)``, uint8, the file's bytes.
        mode: colors of the result.
    Returns:
        Nothing.
    Raises:
        NotImplementedError: always.
    Source: torchvision.io.decode_heic.
    Example:
        >>> decode_heic(torch.zeros(1, dtype=torch.uint8))
        Traceback (most recent call last):
        NotImplementedError: decode_heic is not supported: Pillow reads no HEIC
    """
    raise NotImplementedError("decode_heic is not supported: Pillow reads no HEIC")


# The first 12 bytes of a file determine its format.
def _decoder(start: bytes) -> str:
    """Name of the format.

    Raises:
        RuntimeError: none that is known.
    """
    if start.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if start.startswith(b"\x89PNG"):
        return "png"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "webp"
    raise RuntimeError(
        "Unsupported image file. Only jpeg, png, webp and gif are currently supported. For avif and heic format, please rely on "
        "`decode_avif` and `decode_heic` directly."
    )


def decode_image(
    input: Tensor | str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """The image of a JPEG, PNG, GIF or WebP file.

    Args:
        input: the file's name, or its bytes: ``(n,)``, uint8.
        mode: colors of the result.
        apply_exif_orientation: turn it by the orientation in its EXIF data; JPEG and PNG.
    Returns:
        ``(C, H, W)``, uint8; uint16 for PNG with 16 bits a channel, ``(N, 3, H, W)`` for GIF with several images.
    Raises:
        RuntimeError: another format, or damaged.
    Source: torchvision.io.decode_image.
    Example:
        >>> decode_image(encode_png(torch.zeros(3, 2, 2, dtype=torch.uint8)), mode=ImageReadMode.GRAY).shape
        torch.Size([1, 2, 2])
    """
    data = input if isinstance(input, Tensor) else read_file(input)
    file_format = _decoder(_encoded(data)[:12])
    if file_format == "jpeg":
        image: Tensor = decode_jpeg(data, mode, apply_exif_orientation=apply_exif_orientation)
        return image
    if file_format == "png":
        return decode_png(data, mode, apply_exif_orientation)
    return decode_gif(data) if file_format == "gif" else decode_webp(data, mode)


def read_image(
    path: str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """Older name of :func:`decode_image` of a file.

    Args:
        path: of the file.
        mode: colors of the result.
        apply_exif_orientation: turn it by the orientation in its EXIF data.
    Returns:
        ``(C, H, W)``, uint8.
    Source: torchvision.io.read_image.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_png(torch.zeros(3, 4, 6, dtype=torch.uint8), f"{folder}/black.png")
        ...     print(read_image(f"{folder}/black.png").shape)
        torch.Size([3, 4, 6])
    """
    return decode_image(read_file(path), mode, apply_exif_orientation)


# -- encoding -------------------------------------------------------------------------------------------------------------
def _to_bytes(input: Tensor, **options: Any) -> Tensor:
    """An encoded image.

    Raises:
        RuntimeError: another dtype or shape than that of an image.
    """
    if input.dtype != uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if input.dim() != 3:
        raise RuntimeError("Input data should be a 3-dimensional tensor")
    if input.size(0) not in CHANNELS:
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {input.size(0)}")
    levels = input.detach().to("cpu").numpy().transpose(1, 2, 0)
    memory = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(levels[..., 0] if levels.shape[2] == 1 else levels)).save(memory, **options)
    return ops.from_numpy(np.frombuffer(memory.getbuffer(), np.uint8).copy())


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file.

    Args:
        input: ``(C, H, W)``, uint8, with 1 or 3 channels.
        compression_level: from 0 to 9.
    Returns:
        ``(n,)``, uint8.
    Raises:
        RuntimeError: another dtype, shape or level.
    Source: torchvision.io.encode_png.
    Example:
        >>> decode_png(encode_png(torch.zeros(1, 2, 2, dtype=torch.uint8))).shape
        torch.Size([1, 2, 2])
    """
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return _to_bytes(input, format="PNG", compress_level=compression_level)


def write_png(input: Tensor, filename: str | os.PathLike[str], compression_level: int = 6) -> None:
    """Write a PNG file; arguments as for :func:`encode_png`.

    Args:
        input: ``(C, H, W)``, uint8.
        filename: of the file.
        compression_level: from 0 to 9.
    Source: torchvision.io.write_png.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_png(torch.zeros(1, 4, 6, dtype=torch.uint8), f"{folder}/black.png")
        ...     print(decode_image(f"{folder}/black.png").shape)
        torch.Size([1, 4, 6])
    """
    write_file(filename, encode_png(input, compression_level))


def encode_jpeg(input: Tensor | list[Tensor], quality: int = 75) -> Any:
    """The bytes of a JPEG file, or of several.

    Args:
        input: ``(C, H, W)``, uint8, with 1 or 3 channels; or a list.
        quality: from 1 to 100.
    Returns:
        ``(n,)``, uint8; a list for a list.
    Raises:
        ValueError: another quality, or an empty list.
        RuntimeError: another dtype or shape.
    Source: torchvision.io.encode_jpeg.
    Example:
        >>> encode_jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8)).dtype
        torch.uint8
    """
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    if isinstance(input, list):
        if not input:
            raise ValueError("encode_jpeg requires at least one input tensor when a list is passed")
        return [encode_jpeg(image, quality) for image in input]
    return _to_bytes(input, format="JPEG", quality=quality)


def write_jpeg(input: Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Write a JPEG file; arguments as for :func:`encode_jpeg`.

    Args:
        input: ``(C, H, W)``, uint8.
        filename: of the file.
        quality: from 1 to 100.
    Source: torchvision.io.write_jpeg.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_jpeg(torch.zeros(3, 4, 6, dtype=torch.uint8), f"{folder}/black.jpg")
        ...     print(decode_image(f"{folder}/black.jpg").shape)
        torch.Size([3, 4, 6])
    """
    write_file(filename, encode_jpeg(input, quality))
