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
    Example:
        >>> [order.name for order in LoadEndianness]
        ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class LoadOptions:
    """Settings of ``load`` for the whole process: ``torch.utils.serialization.config.load``.

    Attributes:
        mmap: what ``load`` takes for ``mmap`` where it is not given.
        endianness: byte order of files that do not state theirs; None means little.
        mmap_flags: of ``load(mmap=True)``.
        calculate_storage_offsets: PyTorch's way around slow readers of archives. Places of records come from the directory here, which
            is read once, so that both settings do the same.
    """

    __slots__ = ("calculate_storage_offsets", "endianness", "mmap", "mmap_flags")

    def __init__(self) -> None:
        self.mmap = False
        self.endianness: LoadEndianness | None = None
        self.mmap_flags = MAP_PRIVATE
        self.calculate_storage_offsets = False


class SaveOptions:
    """Settings of ``save`` for the whole process: ``torch.utils.serialization.config.save``.

    Attributes:
        compute_crc32: whether checksums are computed.
        storage_alignment: every record's data starts at a multiple of this many bytes.
        use_pinned_memory_for_d2h: copy from devices through pinned memory.
    """

    __slots__ = ("compute_crc32", "storage_alignment", "use_pinned_memory_for_d2h")

    def __init__(self) -> None:
        self.compute_crc32 = True
        self.storage_alignment = 64
        self.use_pinned_memory_for_d2h = False


class _ThreadOptions(threading.local):
    """Settings of one thread."""

    skip_data = False


load_options, save_options, thread_options = LoadOptions(), SaveOptions(), _ThreadOptions()


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed for files that do not state theirs; None means little.

    Returns: a ``LoadEndianness`` or None.
    Source: torch.serialization.get_default_load_endianness.
    Example:
        >>> get_default_load_endianness() is None
        True
    """
    return load_options.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Sets the byte order assumed for files that do not state theirs.

    Args:
        endianness: the order; None for little.
    Raises:
        TypeError: not a ``LoadEndianness``.
    Source: torch.serialization.set_default_load_endianness.
    Example:
        >>> set_default_load_endianness(LoadEndianness.BIG)
        >>> get_default_load_endianness().name
        'BIG'
        >>> set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(f"set_default_load_endianness: expected a LoadEndianness or None, got {type(endianness).__name__}")
    load_options.endianness = endianness


def get_crc32_options() -> bool:
    """Whether ``save`` computes checksums.

    Returns: a bool; True at first.
    Source: torch.serialization.get_crc32_options.
    Example:
        >>> get_crc32_options()
        True
    """
    return save_options.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Chooses whether ``save`` computes checksums. Without them saving is faster and damage goes unnoticed.

    Args:
        compute_crc32: True to compute them.
    Source: torch.serialization.set_crc32_options.
    Example:
        >>> set_crc32_options(False)
        >>> get_crc32_options()
        False
        >>> set_crc32_options(True)
    """
    save_options.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """The flags of ``load(mmap=True)``.

    Returns: an int.
    Source: torch.serialization.get_default_mmap_options.
    Example:
        >>> import mmap
        >>> get_default_mmap_options() == mmap.MAP_PRIVATE
        True
    """
    return load_options.mmap_flags


class set_default_mmap_options:
    """Set the flags of ``load(mmap=True)``, for good or in a ``with`` block.

    Args:
        flags: ``mmap.MAP_PRIVATE``, under which writes to loaded tensors stay in memory, or ``mmap.MAP_SHARED``, under which they change
            the file.
    Raises:
        ValueError: any other flags.
    Source: torch.serialization.set_default_mmap_options.
    Example:
        >>> import mmap
        >>> with set_default_mmap_options(mmap.MAP_SHARED):
        ...     get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(f"set_default_mmap_options: expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags}")
        self._before = load_options.mmap_flags
        load_options.mmap_flags = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        load_options.mmap_flags = self._before


class skip_data:
    """Inside this ``with`` block ``save`` leaves room for the storages' bytes without writing them, and ``load`` does not read them.

    Args:
        materialize_fake_tensors: must be False; there are no fake tensors here.
    Raises:
        NotImplementedError: ``materialize_fake_tensors``.
    Source: torch.serialization.skip_data.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> with skip_data():
        ...     torch.save(torch.ones(2), file)
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: materialize_fake_tensors is not supported, there are no fake tensors")

    def __enter__(self) -> None:
        self._before, thread_options.skip_data = thread_options.skip_data, True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        thread_options.skip_data = self._before
