"""What tests of saving and loading share: values, files as bytes, and files that are made by hand."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.tensor import Tensor, wrap
from flambeau.serialization import load, save

ALL_DTYPES = sorted({dtype.name for dtype in dtypes.ALL.values() if dtype.numpy is not None})


def values(dtype: dtypes.dtype, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    counted = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    return (counted % 2 == 1) if dtype is dtypes.bool_ else counted.astype(np.float32).astype(dtype.numpy)


def tensor(*numbers: float) -> Tensor:
    return wrap(np.array(numbers, np.float32))


def saved(value: Any, **arguments: Any) -> bytes:
    buffer = io.BytesIO()
    save(value, buffer, **arguments)
    return buffer.getvalue()


def loaded(data: bytes, **arguments: Any) -> Any:
    return load(io.BytesIO(data), **arguments)


def through(value: Any, **arguments: Any) -> Any:
    return loaded(saved(value), **arguments)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def hand_made(pickled: bytes, records: dict[str, bytes] | None = None, folder: str = "any", compression: int = 0) -> bytes:
    """A file written by Python's own zipfile, without alignment or any other of PyTorch's habits."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr(f"{folder}/data.pkl", pickled)
        for name, data in (records or {}).items():
            file.writestr(f"{folder}/{name}", data)
    return buffer.getvalue()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def call(module: str, name: str, *args: bytes) -> bytes:
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(args) + b"tR"


DICT = b"ccollections\nOrderedDict\n)R"

# (a 2x2 float32 tensor, stored transposed behind one unused element), assembled by hand from pickle's documented opcodes
GOLDEN = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x05tQK\x01K\x02K\x02\x86K\x01K\x02\x86\x89ccollections\nOrderedDict\n)RtR."
)
