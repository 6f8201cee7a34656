"""Images read from files and written to them, by Pillow. Source: torchvision.io."""

from ...core import late as _late
from ...facades.unsupported import names as _unsupported_names
from .image import (
    ImageReadMode,
    decode_avif,
    decode_gif,
    decode_heic,
    decode_image,
    decode_jpeg,
    decode_png,
    decode_webp,
    encode_jpeg,
    encode_png,
    read_file,
    read_image,
    write_file,
    write_jpeg,
    write_png,
)

_late.adopt(__name__)

__all__ = [
    *("ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "decode_avif", "decode_heic", "decode_webp", "decode_gif"),
    *("encode_jpeg", "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png"),
]

globals().update(_unsupported_names("vision.io", "read_video read_video_timestamps write_video", "VideoReader"))
