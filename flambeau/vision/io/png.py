"""PNG files with colors of 16 bits, of which Pillow keeps only 8. Source: the PNG specification, third edition."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by color type: gray, colors, either with alpha
MOST_BYTES = 1 << 31  # of an image


def is_deep_png(content: bytes) -> bool:
    """Whether these are the bytes of a PNG file with 16 bits a channel and more than one channel."""
    return content.startswith(SIGNATURE) and content[12:16] == b"IHDR" and content[24:25] == b"\x10" and content[25] in (2, 4, 6)


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and data of each chunk, up to the last.

    Raises:
        RuntimeError: one is cut or damaged.
    """
    place = len(SIGNATURE)
    while True:
        length, chunk_type = struct.unpack_from(">I4s", content, place) if place + 12 <= len(content) else (-1, b"")
        data, end = content[place + 8 : place + 8 + length], place + 12 + length
        if length < 0 or end > len(content) or zlib.crc32(chunk_type + data) != int.from_bytes(content[end - 4 : end], "big"):
            raise RuntimeError("Image is damaged: a chunk of the PNG file is cut or has another checksum")
        if chunk_type == b"IEND":
            return
        yield chunk_type, data
        place = end


def decode_deep_png(content: bytes) -> Any:
    """``(C, H, W)``, uint16.

    Raises:
        RuntimeError: damaged.
        NotImplementedError: interlaced.
    """
    header, packed = b"", []
    for chunk_type, data in _chunks(content):
        if chunk_type == b"IHDR":
            header = data
        elif chunk_type == b"IDAT":
            packed.append(data)
    if len(header) != 13:
        raise RuntimeError("Image is damaged: the PNG file has no header")
    width, height, _, color, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if interlaced:
        raise NotImplementedError("decode_png: interlaced images with colors of 16 bits are not supported")
    step = 2 * CHANNELS[color]  # bytes of a pixel
    expected = height * (1 + width * step)
    if not 0 < expected <= MOST_BYTES:
        raise RuntimeError(f"Image is damaged or too large: {width} x {height}")
    try:
        raw = zlib.decompressobj().decompress(b"".join(packed), expected)
    except zlib.error as error:
        raise RuntimeError(f"Image is damaged: {error}") from error
    if len(raw) != expected:
        raise RuntimeError("Image is damaged: its data are cut")
    rows = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * step)
    return _unfiltered(rows[:, 0], rows[:, 1:], step).view(">u2").astype(np.uint16).reshape(height, width, -1).transpose(2, 0, 1).copy()


def _unfiltered(filters: Any, rows: Any, step: int) -> Any:
    """The bytes of the rows, each of which is stored as differences from what its filter predicts.

    Raises:
        RuntimeError: a filter that is unknown.
    """
    result = np.zeros_like(rows)
    above = np.zeros(rows.shape[1], np.uint8)
    for row, filter_type, stored in zip(result, filters.tolist(), rows):
        if filter_type == 0:
            row[:] = stored
        elif filter_type == 1:  # the pixel to the left: a running total, modulo 256
            row[:] = np.cumsum(stored.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)
        elif filter_type == 2:  # the pixel above
            row[:] = stored + above
        elif filter_type in (3, 4):
            _predict_in_turn(row, stored, above, step, filter_type)
        else:
            raise RuntimeError(f"Image is damaged: unknown filter {filter_type}")
        above = row
    return result


def _predict_in_turn(row: Any, stored: Any, above: Any, step: int, filter_type: int) -> None:
    """Filters whose prediction depends on the pixel just restored: the mean of left and above, or Paeth's choice of three."""
    size = len(row)
    row_values, upper = [0] * step + [0] * size, [0] * step + above.tolist()
    for place, value in enumerate(stored.tolist(), start=step):
        left, up, corner = row_values[place - step], upper[place], upper[place - step]
        if filter_type == 3:
            guess = (left + up) // 2
        else:
            sum_of_two = left + up - corner
            guess = min((left, up, corner), key=lambda other: abs(sum_of_two - other))  # the first of equals
        row_values[place] = (value + guess) & 255
    row[:] = row_values[step:]
