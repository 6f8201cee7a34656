"""Reading and writing ``.safetensors`` files: a length, a JSON table of names, dtypes, shapes and places, and the tensors' bytes.

The tensors' places, in their order, cover all bytes behind the table, each of them once: nothing can be hidden in such a file, and no
few bytes stand for many. Source: the format's description at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import moved, place_of
from ..core.device import device
from ..core.tensor import Tensor, wrap
from .archive import read_into

DTYPES: dict[str, dtypes.dtype] = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
    "C64": dtypes.complex64,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
    "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz,
    "F8_E8M0": dtypes.float8_e8m0fnu,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

META = "__metadata__"
FIELDS = ("dtype", "shape", "data_offsets")
LONGEST = 100_000_000  # bytes of a table
LARGEST = 2**64  # no number of a table reaches it


class Entry(NamedTuple):
    """A tensor of a file.

    Attributes:
        start: its first byte, from the begin of the file.
    """

    dtype: dtypes.dtype
    shape: tuple[int, ...]
    start: int
    nbytes: int


def load_safetensors(path: str, map_location: Any) -> dict[str, Tensor]:
    """All tensors of a file, by name, in the order of their bytes.

    Args:
        path: the file.
        map_location: a device or its name; the CPU when None.
    Raises:
        RuntimeError: the file is damaged, or ``map_location`` is a dict or a callable.
    """
    if map_location is not None and not isinstance(map_location, (str, device)):
        raise RuntimeError(f"Loading safetensors file with {type(map_location).__name__} map_location is not supported.")
    where = place_of(map_location, "load")
    with open(path, "rb") as file:
        entries, _ = read_table(file)
        return {name: wrap(moved(read_array(file, name, entry), where)) for name, entry in entries.items()}


def read_table(file: Any) -> tuple[dict[str, Entry], dict[str, str]]:
    """The tensors of an open file, by name, in the order of their bytes, and its notes; the first tensor's bytes are read next.

    Raises:
        RuntimeError: the file is damaged.
    """
    available = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if 8 + length > available or length > LONGEST:
        raise RuntimeError(f"load: {file.name} is no whole safetensors file: its table would take {length} bytes of {available}")
    try:
        return _entries(file.read(length), available - 8 - length, 8 + length)
    except (ValueError, RecursionError) as error:
        raise RuntimeError(f"load: {file.name} is no sound safetensors file: {error!s:.300}") from None


def read_array(file: Any, name: str, entry: Entry) -> np.ndarray:
    """The elements of a tensor of an open file.

    Raises:
        RuntimeError: they are not there any more.
    """
    data = np.empty(entry.nbytes, np.uint8)
    file.seek(entry.start)
    if read_into(file, data) != entry.nbytes:
        raise RuntimeError(f"load: {file.name} ends inside tensor {name:.100}; it was cut off meanwhile")
    return data.view(entry.dtype.numpy).reshape(entry.shape)


def write_safetensors(file: Any, arrays: Mapping[str, tuple[dtypes.dtype, np.ndarray]], notes: Mapping[str, str] | None = None) -> None:
    """Write arrays of these dtypes, by name, and notes. Those of large elements come first, so that each begins at a multiple of its own.

    Raises:
        ValueError: a dtype that such files do not have, or the name under which they have notes.
    """
    if META in arrays:
        raise ValueError(f"save: expected another name than {META}, under which safetensors files have notes")
    table: dict[str, Any] = {META: dict(notes)} if notes else {}
    ordered = sorted(arrays.items(), key=lambda item: (-item[1][0].itemsize, item[0]))
    end = 0
    for name, (dtype, array) in ordered:
        if dtype not in _NAMES:
            raise ValueError(f"save: expected a dtype of safetensors files ({', '.join(DTYPES)}), got {dtype} of {name:.100}")
        begin, end = end, end + array.nbytes
        table[name] = dict(zip(FIELDS, (_NAMES[dtype], list(array.shape), [begin, end]), strict=True))
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for _, (_, array) in ordered:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _entries(text: bytes, room: int, begin: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """Each tensor, in the order of their places behind byte ``begin``, and the notes.

    Raises:
        ValueError: not such a table, or its tensors leave out bytes of the ``room`` behind it, or share some.
    """
    table = json.loads(text.decode(), object_pairs_hook=_object, parse_float=_float, parse_constant=_float)
    if type(table) is not dict:
        raise ValueError("expected a table of tensors")
    notes = table.pop(META, None)
    if notes is not None and not (type(notes) is dict and all(type(note) is str for note in notes.values())):
        raise ValueError(f"expected texts in {META}")
    entries, end = {}, 0
    for name, item in sorted(table.items(), key=lambda entry: _place(*entry)):
        name.encode()  # half a character that is spelled by an escape is none
        dtype, shape = _dtype(item.get("dtype")), tuple(_counts(item.get("shape"), "shape"))
        start, stop = _place(name, item)
        if start != end or _bytes_of(dtype, shape) != stop - start:
            raise ValueError(f"tensor {name:.100} of {dtype} and shape {shape} cannot lie in bytes {start} to {stop}, behind byte {end}")
        entries[name], end = Entry(dtype, shape, begin + start, stop - start), stop
    if end != room:
        raise ValueError(f"the tensors take {end} bytes of {room}")
    return entries, notes or {}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table's object, in which what has a meaning may be said once."""
    names = [name for name, _ in pairs if name in FIELDS or name == META]
    if len(set(names)) != len(names):
        raise ValueError(f"one of {', '.join(names)} is there twice")
    return dict(pairs)


def _float(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text:.30} is no number of JSON, or out of range")
    return float(text)


def _counts(values: Any, what: str) -> list[int]:
    if type(values) is not list or not all(type(value) is int and 0 <= value < LARGEST for value in values):
        raise ValueError(f"expected whole numbers from 0 on as {what}")
    return values


def _place(name: str, item: Any) -> tuple[int, int]:
    """First byte of a tensor, and the first behind it."""
    if type(item) is not dict:
        raise ValueError(f"expected dtype, shape and place of tensor {name:.100}")
    place = _counts(item.get("data_offsets"), "data_offsets")
    if len(place) != 2:
        raise ValueError(f"expected two numbers as place of tensor {name:.100}")
    return place[0], place[1]


def _dtype(name: Any) -> dtypes.dtype:
    dtype = DTYPES.get(name) if type(name) is str else None
    if dtype is None or dtype.numpy is None:
        raise ValueError(f"expected one of the dtypes {', '.join(DTYPES)}, got {name!s:.30}")
    return dtype


def _bytes_of(dtype: dtypes.dtype, shape: tuple[int, ...]) -> int:
    total = dtype.itemsize
    for size in shape:
        total *= size
        if total >= LARGEST or size > sys.maxsize:
            raise ValueError("a shape has too many elements")
    return total
