"""Saving and loading: PyTorch's file format, written and read without PyTorch.

A file is an archive (see ``archive``) with a pickle, ``data.pkl``, and one record of raw bytes for each storage. In the pickle a storage
is named as ``("storage", storage type, key, location, number of elements)``; tensors are views of storages, so views that shared
memory share it again after loading. ``load`` reads the pickle with a machine that can make data only (see ``weights_only``), unless told
otherwise.
"""

from __future__ import annotations

from ..core import late as _late
from .files import get_unsafe_globals_in_checkpoint, load, save
from .legacy import SourceChangeWarning
from .locations import default_restore_location, location_tag, register_package
from .names import StorageType
from .options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from .weights_only import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

_late.adopt(__name__)

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]
