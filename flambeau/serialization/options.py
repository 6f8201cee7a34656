"""Settings of ``save`` and ``load`` that are not arguments."""

from __future__ import annotations

import enum
import mmap
import threading
from types import TracebackType

MAP_PRIVATE, MAP_SHARED = getattr(mmap, "MAP_PRIVATE", 2), getattr(mmap, "MAP_SHARED", 1)


class LoadEndianness(enum.Enum):
    """Byte order of files that do not state theirs.

    Source: torch.serialization.LoadEndianness.
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Options:
    """Settings of the whole process."""

    endianness: LoadEndianness | None = None
    checksums = True
    mmap_flags = MAP_PRIVATE


class _ThreadOptions(threading.local):
    """Settings of one thread."""

    skip_data = False


options, thread_options = _Options(), _ThreadOptions()


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed for files that do not state theirs; None means little.

    Source: torch.serialization.get_default_load_endianness.
    """
    return options.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order assumed for files that do not state theirs.

    Raises:
        TypeError: not a ``LoadEndianness``.
    Source: torch.serialization.set_default_load_endianness.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}")
    options.endianness = endianness


def get_crc32_options() -> bool:
    """Whether ``save`` computes checksums.

    Source: torch.serialization.get_crc32_options.
    """
    return options.checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Choose whether ``save`` computes checksums. Without them saving is faster and damage goes unnoticed.

    Source: torch.serialization.set_crc32_options.
    """
    options.checksums = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """The flags of ``load(mmap=True)``.

    Source: torch.serialization.get_default_mmap_options.
    """
    return options.mmap_flags


class set_default_mmap_options:
    """Set the flags of ``load(mmap=True)``, for good or in a ``with`` block.

    Args:
        flags: ``mmap.MAP_PRIVATE``, under which writes to loaded tensors stay in memory, or ``mmap.MAP_SHARED``, under which they change
            the file.
    Raises:
        ValueError: any other flags.
    Source: torch.serialization.set_default_mmap_options.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(f"set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}")
        self._before = options.mmap_flags
        options.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        options.mmap_flags = self._before


class skip_data:
    """Inside this ``with`` block ``save`` leaves room for the storages' bytes without writing them, and ``load`` does not read them.

    Args:
        materialize_fake_tensors: must be False; there are no fake tensors here.
    Raises:
        NotImplementedError: ``materialize_fake_tensors``.
    Source: torch.serialization.skip_data.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: materialize_fake_tensors is not supported, there are no fake tensors")

    def __enter__(self) -> None:
        self._before, thread_options.skip_data = thread_options.skip_data, True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        thread_options.skip_data = self._before
