"""The container of PyTorch's files: a zip archive of stored (never compressed) records whose data is aligned.

A record is laid out as below. ``FB`` is an extra field of padding that moves the data to a multiple of the alignment, so that a mapped
file can be used as it is; sizes and checksum follow the data, and stand in the central directory at the end of the file::

    local header | name | FB, length, ZZZ... | data (aligned) | PK 7 8, crc, size, size
                                               ^ offset % 64 == 0

Files are byte for byte those that PyTorch writes, but for the serialization id. Source: PKWARE APPNOTE 6.3.10, sections 4.3 and 4.5.3.
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

SIGNATURE = b"PK\x03\x04"
LIMIT = 0xFFFFFFFF  # sizes and offsets from here on go to 8-byte fields
FLAGS = 0x800  # names are UTF-8
DESCRIPTOR = 0x8  # checksum and sizes follow the data
CHUNK = 1 << 24  # bytes checked and written at a time
SMALL = 1 << 12  # bytes of a record that is written at once


class ArchiveWriter:
    """Writes records one after the other to anything with ``write``.

    Args:
        file: where to write.
        name: folder inside the archive that all records lie in.
        alignment: every record's data starts at a multiple of this many bytes.
        checksums: whether checksums are computed; zeros stand in their place otherwise.
    """

    def __init__(self, file: IO[bytes], name: str, alignment: int = 64, checksums: bool = True) -> None:
        self._file, self._name, self._alignment, self._checksums = file, name, alignment, checksums
        self._position = 0
        self._directory: list[tuple[bytes, int, int, int, int, bytes]] = []

    def _write(self, data: Any) -> None:
        self._file.write(data)
        self._position += len(data)

    def write_record(self, name: str, data: bytes | memoryview) -> None:
        """Add a record; ``data`` is contiguous bytes."""
        view = memoryview(data).cast("B")
        before, behind = self._framed(name, len(view), zlib.crc32(view) if self._checksums else 0)
        if len(view) <= SMALL:
            self._file.write(b"".join((before, view, behind)))
            self._position += len(before) + len(view) + len(behind)
            return
        self._write(before)
        for start in range(0, len(view), CHUNK):
            self._write(view[start : start + CHUNK])
        self._write(behind)

    def write_gap(self, name: str, size: int) -> None:
        """Add a record of ``size`` zero bytes, to be filled in later."""
        before, behind = self._framed(name, size, 0)
        self._write(before)
        zeros = bytes(min(size, CHUNK))
        for start in range(0, size, CHUNK):
            self._write(zeros[: size - start])
        self._write(behind)

    def _framed(self, name: str, size: int, crc: int) -> tuple[bytes, bytes]:
        """Header and footer around the data of a record that begins here, which is noted for the directory."""
        path, position = f"{self._name}/{name}".encode(), self._position
        wide = _wide_fields(size, position)
        start = position + 30 + len(path) + 4 + len(wide)
        padding = -start % self._alignment
        flags = FLAGS | (DESCRIPTOR if size else 0)
        self._directory.append((path, size, crc, position, flags, wide))
        # Version, method, time, date, checksum and both sizes are zero.
        head = struct.pack("<4s2xH18xHH", SIGNATURE, flags, len(path), len(wide) + 4 + padding)
        before = head + path + wide + struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        return before, struct.pack("<4sIQQ" if wide else "<4sIII", b"PK\x07\x08", crc, size, size) if size else b""

    def close(self, version: bytes = b"3\n") -> None:
        """Write the records that every file ends with, and the central directory."""
        self.write_record("version", version)
        self.write_record(".data/serialization_id", self._serialization_id())
        entries = bytearray()
        for path, size, crc, position, flags, wide in self._directory:
            small = min(size, LIMIT)
            head = struct.pack("<4s4xH6xIIIHH10xI", b"PK\x01\x02", flags, crc, small, small, len(path), len(wide), min(position, LIMIT))
            entries += head + path + wide
        start, count, extent = self._position, len(self._directory), len(entries)
        entries += struct.pack("<4sQHH8xQQQQ", b"PK\x06\x06", 44, 0x31E, 45, count, count, extent, start)
        entries += struct.pack("<4s4xQI", b"PK\x06\x07", start + extent, 1)
        records = min(count, 0xFFFF)
        entries += struct.pack("<4s4xHHII2x", b"PK\x05\x06", records, records, min(extent, LIMIT), min(start, LIMIT))
        self._write(entries)

    def _serialization_id(self) -> bytes:
        """40 digits that depend on the records' names and contents alone."""
        names, checksums = hashlib.blake2b(digest_size=8), hashlib.blake2b(digest_size=8)
        for path, size, crc, *_ in self._directory:
            names.update(path)
            checksums.update(struct.pack("<QI", size, crc))
        return "".join([f"{int.from_bytes(checksum.digest(), 'little'):020d}" for checksum in (names, checksums)]).encode()


def _wide_fields(size: int, position: int) -> bytes:
    """The extra field for sizes and positions that do not fit in four bytes; empty where both fit."""
    values = [*([size, size] if size >= LIMIT else []), *([position] if position >= LIMIT else [])]
    return struct.pack(f"<HH{len(values)}Q", 1, 8 * len(values), *values) if values else b""


# Records read from an archive may take this many times its size together, and so many bytes more: names that share their bytes, or
# compression by a factor of a thousand, can make gigabytes of a small file.
EXPANSION, SLACK = 2, 1 << 16


class _Directory(zipfile.ZipFile):
    """The directory of an archive that its opener closes."""

    # ZipFile's own runs Python code, and an interrupt that comes in a finalizer is lost.
    __del__ = object.__init__


class ArchiveReader:
    """Reads records by name. Nothing in the file is trusted: offsets and sizes are checked, and checksums where they are recorded.

    Args:
        file: a seekable binary file, positioned at the archive's start.
    Raises:
        RuntimeError: not a whole archive.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        start = file.tell()
        self._end = file.seek(0, io.SEEK_END)
        self._room = EXPANSION * (self._end - start) + SLACK
        file.seek(start)
        try:
            self._zip = _Directory(file)
        except (zipfile.BadZipFile, OSError, ValueError, OverflowError, NotImplementedError, struct.error) as error:
            raise _corrupt("failed finding central directory", error) from None
        entries = self._zip.filelist
        if not entries:
            raise _corrupt("no record in it")
        self._folder = entries[0].filename.partition("/")[0]
        self._entries = {entry.filename: entry for entry in entries}

    def names(self) -> list[str]:
        """Names of the records, without the folder that they lie in."""
        prefix = len(self._folder) + 1
        return [name[prefix:] for name in self._entries if name.startswith(self._folder + "/")]

    def __contains__(self, name: str) -> bool:
        return f"{self._folder}/{name}" in self._entries

    def _entry(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._entries[f"{self._folder}/{name}"]
        except KeyError:
            raise _corrupt(f"file not found: {self._folder}/{name}") from None

    def size(self, name: str) -> int:
        """Bytes of a record."""
        return self._entry(name).file_size

    def offset(self, name: str) -> int:
        """Position of a record's data in the file."""
        entry = self._entry(name)
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            raise _corrupt(f"record {name} is compressed or encrypted")
        try:
            self._file.seek(entry.header_offset)
        except (ValueError, OverflowError, OSError) as error:
            raise _corrupt(f"record {name} starts outside the file", error) from None
        header = self._file.read(30)
        if len(header) != 30 or header[:4] != SIGNATURE:
            raise _corrupt(f"record {name} has no local header")
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        return entry.header_offset + 30 + name_length + extra_length

    def checksum_places(self) -> Iterator[int]:
        """Positions of the records' checksums in the file's directory."""
        place = self._zip.start_dir
        for _ in self._entries:
            self._file.seek(place)
            header = self._file.read(46)
            if len(header) != 46 or header[:4] != b"PK\x01\x02":
                raise _corrupt("the directory is damaged")
            yield place + 16
            place += 46 + sum(struct.unpack_from("<HHH", header, 28))

    def read(self, name: str) -> np.ndarray:
        """A record's bytes in a new, writable array.

        Raises:
            RuntimeError: the record is missing, cut off, or its checksum is wrong.
        """
        entry = self._entry(name)
        # Asked before memory is set aside for it: a size in a damaged directory may be anything.
        self._room -= entry.file_size
        if self._room < 0:
            raise _corrupt(f"with record {name} of {entry.file_size} bytes the records take far more than the file's {self._end}")
        if entry.compress_type != zipfile.ZIP_STORED:
            return np.frombuffer(bytearray(self._decompressed(entry)), np.uint8)
        start = self.offset(name)
        if start + entry.file_size > self._end:
            raise _corrupt(f"record {name} of {entry.file_size} bytes reaches past the end of the file")
        self._file.seek(start)
        data = np.empty(entry.file_size, np.uint8)
        if read_into(self._file, data) != data.nbytes:
            raise _corrupt(f"record {name} of {entry.file_size} bytes is cut off")
        # Files may be written without checksums, and then hold zeros.
        if entry.CRC and data.nbytes and zlib.crc32(data.data) != entry.CRC:
            raise _corrupt(f"the checksum of record {name} does not match its data (mmap=True loads without this check)")
        return data

    def _decompressed(self, entry: zipfile.ZipInfo) -> bytes:
        """A record of an archive that was unpacked and packed again with compression."""
        if entry.compress_type != zipfile.ZIP_DEFLATED:
            raise _corrupt(f"record {entry.filename} is compressed in a way other than deflate")
        try:
            return self._zip.read(entry)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, struct.error) as error:
            raise _corrupt(f"record {entry.filename} cannot be decompressed", error) from None


def _corrupt(what: str, error: BaseException | None = None) -> RuntimeError:
    # names and headers of a file may be long
    detail = f" ({error!s:.200})" if error is not None else ""
    return RuntimeError(
        f"PytorchStreamReader failed reading zip archive: {what:.300}{detail}. The file is damaged or incomplete: it may have been cut off "
        "while it was saved or copied"
    )


def read_into(file: IO[bytes], data: np.ndarray) -> int:
    """Fill ``data`` (1-D uint8) from a file; the number of bytes that were there."""
    view, done = data.data, 0
    while done < len(view):
        if hasattr(file, "readinto"):
            count = file.readinto(view[done : done + CHUNK])
        else:
            chunk = file.read(min(CHUNK, len(view) - done))
            count = len(chunk)
            view[done : done + count] = chunk
        if not count:
            break
        done += count
    return done


def archive_name(path: str | None) -> str:
    """The folder's name inside the archive: the file's own without folder and last extension, where it is plain ASCII."""
    if path is None or not path.isascii():
        return "archive"
    return os.path.splitext(os.path.basename(path))[0] or "archive"
