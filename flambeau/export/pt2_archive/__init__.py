"""``.pt2`` archives: zip files with programs, all of it under one directory. Source: torch.export.pt2_archive."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from pathlib import Path
from typing import IO, Any, Self

from ...core import late as _late
from ...serialization.archive import ArchiveReader
from . import constants

_late.adopt(__name__)

__all__ = ["PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"]

File = str | os.PathLike[str] | IO[bytes]


def is_pt2_package(serialized_model: bytes | str) -> bool:
    """Whether a file, or its content, is a ``.pt2`` archive.

    Args:
        serialized_model: the content, or a path.
    Returns:
        A bool; False as well for what is no archive.
    Source: torch.export.pt2_archive.is_pt2_package.
    Example:
        >>> from flambeau.export.pt2_archive import is_pt2_package
        >>> is_pt2_package(b"something else")
        False
    """
    try:
        with PT2ArchiveReader(io.BytesIO(serialized_model) if isinstance(serialized_model, bytes) else serialized_model):
            return True
    except (RuntimeError, OSError, ValueError):
        return False


class PT2ArchiveWriter:
    """Writes a ``.pt2`` archive. Source: torch.export.pt2_archive.PT2ArchiveWriter.

    Args:
        archive_path_or_buffer: a path, or a file that is open for writing bytes.
    Example:
        >>> import io
        >>> from flambeau.export.pt2_archive import PT2ArchiveWriter
        >>> with PT2ArchiveWriter(io.BytesIO()) as writer:
        ...     writer.write_string("extra/note", "here")
        ...     writer.has_record("extra/note"), writer.count_prefix("extra/")
        (True, 1)
    """

    def __init__(self, archive_path_or_buffer: File):
        self.root = "archive"
        if isinstance(archive_path_or_buffer, str | os.PathLike):
            self.root = os.path.basename(os.fspath(archive_path_or_buffer)).partition(".")[0] or self.root
        self.archive = zipfile.ZipFile(archive_path_or_buffer, "w", zipfile.ZIP_STORED)
        self.write_string(constants.ARCHIVE_FORMAT_PATH, constants.ARCHIVE_FORMAT_VALUE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        if not self.has_record(constants.ARCHIVE_VERSION_PATH):
            self.write_string(constants.ARCHIVE_VERSION_PATH, constants.ARCHIVE_VERSION_VALUE)
        self.close()

    def _names(self) -> list[str]:
        return [name.removeprefix(f"{self.root}/") for name in self.archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Whether a file has been written."""
        return name in self._names()

    def count_prefix(self, prefix: str) -> int:
        """The number of files whose names begin so."""
        return sum([name.startswith(prefix) for name in self._names()])

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file. Raises AssertionError for other than bytes."""
        if not isinstance(data, bytes):
            raise AssertionError(f"Expected bytes but got {type(data)}")
        self.archive.writestr(f"{self.root}/{name}", data)

    def write_string(self, name: str, data: str) -> None:
        """Write a file of text. Raises AssertionError for other than a string."""
        if not isinstance(data, str):
            raise AssertionError(f"Expected string but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name: str, file_path: str) -> None:
        """Write the content of another file. Raises AssertionError where there is none."""
        if not os.path.isfile(file_path):
            raise AssertionError(f"{file_path} is not a valid file path")
        self.write_bytes(name, Path(file_path).read_bytes())

    def write_folder(self, archive_dir: str, folder_dir: str) -> None:
        """Write the files of a folder. Raises AssertionError where there is none."""
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"{folder_dir} is not a valid directory path")
        for path in sorted(Path(folder_dir).rglob("*")):
            if path.is_file():
                self.write_file(os.path.join(archive_dir, path.relative_to(folder_dir).as_posix()), str(path))

    def close(self) -> None:
        """Finish the archive."""
        self.write_string("byteorder", "little")
        self.write_string(".data/version", "6\n")
        self.archive.close()


class PT2ArchiveReader:
    """Reads a ``.pt2`` archive. Nothing in it is executed, and its parts may not be far larger than itself.

    Args:
        archive_path_or_buffer: a path, or a file that is open for reading bytes, and can seek.
    Raises:
        RuntimeError: it is no such archive, or a file is not in it.
    Source: torch.export.pt2_archive.PT2ArchiveReader.
    Example:
        >>> import io
        >>> from flambeau.export.pt2_archive import PT2ArchiveReader
        >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file := io.BytesIO())
        >>> PT2ArchiveReader(file).archive_version()
        0
    """

    def __init__(self, archive_path_or_buffer: File):
        with contextlib.ExitStack() as opened:
            file: Any = archive_path_or_buffer
            if isinstance(archive_path_or_buffer, str | os.PathLike):
                file = opened.enter_context(open(archive_path_or_buffer, "rb"))
            file.seek(0)
            self.archive = ArchiveReader(file)
            name = constants.ARCHIVE_FORMAT_PATH
            if name not in self or self.read_string(name).strip() != constants.ARCHIVE_FORMAT_VALUE:
                raise RuntimeError("no file of torch.export.save's")
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        self._opened.close()

    def __contains__(self, name: str) -> bool:
        return name in self.archive

    def read_bytes(self, name: str) -> bytes:
        """The content of a file."""
        return self.archive.read(name).tobytes()

    def read_string(self, name: str) -> str:
        """The content of a file of text."""
        try:
            return self.read_bytes(name).decode()
        except UnicodeDecodeError as error:
            raise RuntimeError(f"the file is damaged: {name} is no text: {error}") from error

    def archive_version(self) -> int:
        """The version of the format."""
        return int(self.read_string(constants.ARCHIVE_VERSION_PATH)) if constants.ARCHIVE_VERSION_PATH in self else 0

    def get_file_names(self) -> list[str]:
        """The names of all files."""
        return self.archive.names()
