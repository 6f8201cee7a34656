"""``save`` and ``load``."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import sys
import warnings
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ..core.dtype import dtype, uint8
from ..core.late import from_above
from ..core.replacing import replace_file
from ..core.storage import TypedStorage, UntypedStorage
from .archive import SIGNATURE, ArchiveReader, ArchiveWriter, archive_name
from .legacy import load_legacy, save_legacy
from .locations import Deserializer, restorer
from .options import MAP_SHARED, LoadEndianness, load_options, save_options, thread_options
from .pickling import SavedStorages, checked_storage_id, dump, unrestricted
from .safetensors import load_safetensors
from .weights_only import Unpickler, allowed_names, current_name

ADVICE = (
    "Since PyTorch 2.6 `weights_only` is True by default. Re-running `torch.load` with `weights_only` set to `False` will likely succeed, "
    "but it can result in arbitrary code execution. Do it only if you got the file from a trusted source."
)


# -- save -----------------------------------------------------------------------------------------------------------------
def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object with its tensors to a file that PyTorch reads as well.

    Views that share memory share it again after loading. A file of the same name is replaced only when the new one is complete.

    Args:
        obj: anything that can be pickled.
        f: name of a file, or an object with ``write``.
        pickle_module: pickles what is not a tensor's data. With another than ``pickle`` only flambeau can read the file.
        pickle_protocol: pickle's protocol; ``load(weights_only=True)`` reads 2.
        _use_new_zipfile_serialization: False writes the format from before PyTorch 1.6.
        _disable_byteorder_record: leave out the record of the byte order.
    Raises:
        AttributeError: ``f`` is neither a name nor has ``write``.
        RuntimeError: the folder of ``f`` does not exist, or tensors of different dtypes share memory.
    Source: torch.save.
    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     torch.save({"weight": torch.ones(2)}, file.name)
        ...     torch.load(file.name)
        {'weight': tensor([1., 1.])}
    """
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if path is None and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if not _use_new_zipfile_serialization and thread_options.skip_data:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")

    def write(file: IO[bytes]) -> None:
        if _use_new_zipfile_serialization:
            writer = ArchiveWriter(file, archive_name(path), save_options.storage_alignment, save_options.compute_crc32)
            _save(obj, writer, pickle_module, pickle_protocol, _disable_byteorder_record)
        else:
            save_legacy(obj, file, pickle_module, pickle_protocol)

    if path is not None:
        write_named(path, write)
        return
    write(f)
    if hasattr(f, "flush"):
        f.flush()


def write_named(path: str, write: Callable[[IO[bytes]], Any]) -> None:
    """Have a file of a name written, which is there when it is whole.

    Raises:
        RuntimeError: its folder does not exist, or it is one.
    """
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.isdir(path):
        raise RuntimeError(f"save: expected the name of a file, got the directory {path}")
    replace_file(path, write)


def _save(obj: object, writer: ArchiveWriter, pickle_module: Any, pickle_protocol: int, without_byteorder: bool) -> None:
    storages, data = SavedStorages(), io.BytesIO()
    dump(obj, data, pickle_module, pickle_protocol, storages.identify)
    writer.write_record("data.pkl", data.getbuffer())
    writer.write_record(".format_version", b"1")
    writer.write_record(".storage_alignment", str(save_options.storage_alignment).encode())
    if not without_byteorder:
        writer.write_record("byteorder", sys.byteorder.encode())
    for key, (storage, _) in storages.found.items():
        if thread_options.skip_data:
            writer.write_gap(f"data/{key}", storage.nbytes())
        else:
            writer.write_record(f"data/{key}", storage._host_bytes.data)
    writer.close()


# -- load -----------------------------------------------------------------------------------------------------------------
def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load what ``save`` (or PyTorch's) wrote.

    By default only data is read: tensors, numbers, texts, containers of them, and what ``add_safe_globals`` added. With
    ``weights_only=False`` the file can run any code; do that only with files from people you trust.

    Args:
        f: name of a file, or an object with ``read``, ``readline``, ``seek`` and ``tell``.
        map_location: where storages go: a device or its name, a dict from the file's tags to others, or a function from storage and
            tag to a storage (or None for the usual place).
        pickle_module: reads the pickle; implies ``weights_only=False``.
        weights_only: whether to read data only.
        mmap: map the file rather than read it: a tensor's memory is read from it when it is first used, and writes do not reach the file
            (``set_default_mmap_options`` says when they do). ``f`` must be a name. None: as ``torch.utils.serialization.config.load.mmap``.
        pickle_load_args: for the unpickler, such as ``encoding``.
    Returns:
        The object. A tensor's memory is the storage's, shared as it was when saved.
    Raises:
        pickle.UnpicklingError: the file needs something that is not data (``weights_only=True``), or is not such a file.
        RuntimeError: the file is damaged or incomplete, or needs a device that is not there.
        EOFError: the file is empty or ends too early.
    Source: torch.load.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save([torch.zeros(2), "note"], file)
        >>> torch.load(io.BytesIO(file.getvalue()))
        [tensor([0., 0.]), 'note']
    """
    weights_only = _effective_weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    pickle_load_args.setdefault("encoding", "utf-8")
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if path is not None and path.endswith(".safetensors"):
        return load_safetensors(path, map_location)
    restore = restorer(map_location)
    maps = load_options.mmap if mmap is None else bool(mmap)

    def read(file: IO[bytes], persistent_load: Callable[[Any], Any]) -> Any:
        """The next object of the pickle."""
        if not weights_only:
            return unrestricted(pickle_module or pickle, file, persistent_load, pickle_load_args)
        reader = Unpickler(file, encoding=pickle_load_args["encoding"])
        reader.persistent_load = persistent_load
        return reader.load()

    file = open(path, "rb") if path is not None else _seekable(f)
    try:
        return _load_opened(file, f, read, restore, weights_only, maps, map_location)
    except pickle.UnpicklingError as error:
        if not weights_only:
            raise
        raise pickle.UnpicklingError(_refusal(str(error))) from None
    finally:
        if path is not None:
            file.close()


def _load_opened(
    file: IO[bytes], f: Any, read: Callable[..., Any], restore: Deserializer, weights_only: bool, mmap: bool, map_location: Any
) -> Any:
    start = file.tell()
    magic = file.read(len(SIGNATURE))
    file.seek(start)
    if magic != SIGNATURE:
        if mmap:
            shown_name = f"{f}, " if isinstance(f, str) else ""
            raise RuntimeError(
                f"mmap can only be used with files saved with `torch.save({shown_name}_use_new_zipfile_serialization=True), "
                "please torch.save your checkpoint with this option in order to use mmap."
            )
        return load_legacy(file, read, restore, weights_only)
    reader = ArchiveReader(file)
    if "constants.pkl" in reader:
        if weights_only:
            raise RuntimeError(f"Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. {ADVICE}")
        warnings.warn(
            "'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' (call 'torch.jit.load' "
            "directly to silence this warning)",
            UserWarning,
            stacklevel=4,
        )
        file.seek(start)
        return from_above("jit._serialization").load(file, map_location=map_location)
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    mapped = _mapped(f, reader) if mmap else None
    storages = LoadedStorages(reader, restore, mapped)
    return read(io.BytesIO(reader.read("data.pkl").data), storages.find)


def _mapped(path: str | os.PathLike[str], reader: ArchiveReader) -> np.ndarray:
    """The whole file as memory. Who maps it to write to it gives up its checksums, which hold for what it said before."""
    shared = load_options.mmap_flags == MAP_SHARED
    mapped = np.asarray(np.memmap(path, np.uint8, "r+" if shared else "c"))
    for place in reader.checksum_places() if shared else ():
        mapped[place : place + 4] = 0
    return mapped


class LoadedStorages:
    """The storages of an archive, each read when the pickle mentions it first."""

    def __init__(self, reader: ArchiveReader, restore: Deserializer, mapped: np.ndarray | None, folder: str = "data") -> None:
        self._reader, self._restore, self._mapped, self._folder = reader, restore, mapped, folder
        self._found: dict[str, UntypedStorage] = {}
        self._is_swapped = _byte_order(reader) != sys.byteorder

    def find(self, pid: Any) -> TypedStorage:
        """The storage that a persistent id names.

        Raises:
            RuntimeError: not the id of a storage, or fewer bytes than it says.
        """
        kind, key, location, numel = checked_storage_id(pid, 5)
        element = uint8 if kind is UntypedStorage else kind.dtype
        nbytes = numel * element.itemsize
        if key not in self._found:
            name = f"{self._folder}/{key}"
            if self._reader.size(name) < nbytes:
                raise RuntimeError(f"load: expected {nbytes} bytes for storage {key} of {numel} {element}, got {self._reader.size(name)}")
            data = self._data(name, nbytes)
            if self._is_swapped:
                data = _swapped(data, element)
            self._found[key] = self._restore(UntypedStorage._of_array(data), location)
        return TypedStorage(wrap_storage=self._found[key], dtype=element)

    def _data(self, name: str, nbytes: int) -> np.ndarray:
        if thread_options.skip_data:
            return np.zeros(nbytes, np.uint8)
        if self._mapped is None:
            return self._reader.read(name)
        start = self._reader.offset(name)
        if start + nbytes > self._mapped.nbytes:
            raise RuntimeError(f"load: record {name} of {nbytes} bytes reaches past the end of the file, which is damaged or incomplete")
        return self._mapped[start : start + nbytes]


def _byte_order(reader: ArchiveReader) -> str:
    if "byteorder" in reader:
        order = reader.read("byteorder").tobytes().decode("ascii", "replace")
        if order not in ("little", "big"):
            raise ValueError(f"Unknown endianness type: {order}")
        return order
    if load_options.endianness is LoadEndianness.NATIVE:
        return sys.byteorder
    return "big" if load_options.endianness is LoadEndianness.BIG else "little"


def _swapped(data: np.ndarray, element: dtype) -> np.ndarray:
    """Bytes in the other order; a complex number is two numbers."""
    width = element.itemsize // 2 if element.is_complex else element.itemsize
    whole = data.nbytes - data.nbytes % width
    return np.concatenate([data[:whole].reshape(-1, width)[:, ::-1].reshape(-1), data[whole:]])


def _seekable(f: Any) -> IO[bytes]:
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like io.BytesIO and "
            "try to load from it instead."
        ) from None
    return f


def _effective_weights_only(weights_only: bool | None, pickle_module: Any) -> bool:
    """The argument, its default, and what the two environment variables make of them."""

    def is_set(name: str) -> bool:
        return os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")

    force, force_not = is_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), is_set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if force and force_not:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set."
        )
    if force:
        return True
    if weights_only is not None:
        return weights_only
    if force_not:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, and `weights_only` was not given: loading with "
            "weights_only=False.",
            UserWarning,
            stacklevel=3,
        )
        return False
    return pickle_module is None


def _refusal(reason: str) -> str:
    """Message of a restricted load that stops, with what can be done."""
    if "was not an allowed global by default" in reason:
        return (
            "Weights only load failed. There are two ways to load this file, \033[1mboth only for a file whose source you trust\033[0m. "
            f"\n\t(1) {ADVICE}\n\t(2) Keep `weights_only=True` and allow what the file needs.\n\tWeightsUnpickler error: {reason}"
        )
    return f"Weights only load failed. {ADVICE}\nWeightsUnpickler error: {reason}"


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Names in a file that ``load(weights_only=True)`` would refuse. The file is only looked at; nothing in it is run.

    Args:
        f: name of a file, or a seekable object with ``read``.
    Returns: a list of full names.
    Raises:
        ValueError: the file was not written by ``save``.
    Source: torch.serialization.get_unsafe_globals_in_checkpoint.
    Example:
        >>> import io, fractions
        >>> file = io.BytesIO()
        >>> torch.save(fractions.Fraction(1, 2), file)
        >>> get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue()))
        ['fractions.Fraction']
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as opened:
            return get_unsafe_globals_in_checkpoint(opened)
    file, start = _seekable(f), f.tell()
    is_archive = file.read(len(SIGNATURE)) == SIGNATURE
    file.seek(start)
    if not is_archive:
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    reader = ArchiveReader(file)
    if "constants.pkl" in reader:
        raise ValueError("Expected input to be a checkpoint returned by torch.save but got a torchscript checkpoint")
    names: dict[str, None] = {}
    try:
        for code, argument, position in pickletools.genops(reader.read("data.pkl").tobytes()):
            if code.name in ("STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"):
                raise pickle.UnpicklingError(f"Unsupported operand {code.name} at {position}")
            if code.name == "GLOBAL":
                names[".".join(current_name(*str(argument).split(" ", 1)))] = None
    except ValueError as error:
        raise pickle.UnpicklingError(f"pickle damaged: {error}") from None
    allowed = allowed_names()
    return [name for name in names if name not in allowed]
