"""Streams of what is in files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
    """Pairs of a file's name and its contents, whole or in pieces.

    Args:
        datapipe: pairs of a name and an open file.
        chunk: size of the pieces; the whole when None.
    Source: torch.utils.data.datapipes.iter.StreamReader.
    Example:
        >>> import io
        >>> list(StreamReaderIterDataPipe([("a", io.StringIO("hello"))], chunk=3))
        [('a', 'hel'), ('a', 'lo')]
    """

    def __init__(self, datapipe: IterDataPipe[Any], chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[Any]:
        for name, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield name, data
            stream.close()
