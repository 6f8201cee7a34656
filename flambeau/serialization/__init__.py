"""Saving and loading: PyTorch's file format, written and read without PyTorch.

A file is an archive (see ``archive``) with a pickle, ``data.pkl``, and one record of raw bytes for each storage. In the pickle a storage
is named as ``("storage", storage type, key, location, number of elements)``; tensors are views of storages, so views that shared
memory share it again after loading. ``load`` reads the pickle with a machine that can make data only (see ``weights_only``), unless told
otherwise.

Files of whole modules, optimizers and so on name PyTorch's classes (see ``homes``), so that either library reads the other's. Plain
``pickle.dumps`` names flambeau's, under the alias too: what it wrote means the same in a process where both libraries are installed. Plain
pickles of PyTorch's are read where ``torch`` means flambeau.
"""

from __future__ import annotations

from ..core import late as _late
from .compatibility import (
    DEFAULT_PROTOCOL,
    MAP_LOCATION,
    STORAGE,
    check_module_version_greater_or_equal,
    mkdtemp,
    normalize_storage_type,
    storage_to_tensor_type,
)
from .files import get_unsafe_globals_in_checkpoint, load, save
from .legacy import MAGIC_NUMBER, PROTOCOL_VERSION, SourceChangeWarning
from .locations import default_restore_location, location_tag, register_package, validate_cuda_device, validate_hpu_device
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
    "DEFAULT_PROTOCOL", "LoadEndianness", "MAGIC_NUMBER", "MAP_LOCATION", "PROTOCOL_VERSION", "STORAGE", "SourceChangeWarning",
    "StorageType", "add_safe_globals", "check_module_version_greater_or_equal", "clear_safe_globals", "default_restore_location",
    "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint",
    "load", "location_tag", "mkdtemp", "normalize_storage_type", "register_package", "safe_globals", "save", "set_crc32_options",
    "set_default_load_endianness", "set_default_mmap_options", "skip_data", "storage_to_tensor_type", "validate_cuda_device",
    "validate_hpu_device",
]  # fmt: skip
