"""Streams of open files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import get_file_binaries_from_pathnames

__all__ = ["FileOpenerIterDataPipe"]

_MODES = ("b", "t", "rb", "rt", "r")


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Pairs of a file's name and the file, open for reading.

    Args:
        datapipe: the names.
        mode: ``'r'``, or with ``b`` or ``t``.
        encoding: of text.
        length: what ``len`` says; an error when -1.
    Raises:
        ValueError: another mode, or an encoding of bytes.
    Source: torch.utils.data.datapipes.iter.FileOpener.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     [file.read() for name, file in FileOpenerIterDataPipe([f"{folder}/a.txt"])]
        ['hello']
    """

    def __init__(self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        super().__init__()
        if mode not in _MODES:
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding = datapipe, mode, encoding
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length
