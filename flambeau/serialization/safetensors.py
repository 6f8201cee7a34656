"""Reading ``.safetensors`` files: a length, a JSON table of names, dtypes, shapes and places, and the tensors' bytes.

Source: the format's description at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

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
    "F8_E8M0": dtypes.float8_e8m0fnu,
}


def load_safetensors(path: str, map_location: Any) -> dict[str, Tensor]:
    """All tensors of a file, by name.

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
        available = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if 8 + length > available:
            raise RuntimeError(f"load: {path} is no whole safetensors file: its table would take {length} bytes of {available}")
        try:
            table = json.loads(file.read(length))
            entries = {name: (DTYPES[item["dtype"]], item["shape"], item["data_offsets"]) for name, item in table.items() if name != META}
            result = {}
            for name, (dtype, shape, (start, end)) in entries.items():
                if end - start != math.prod(shape) * dtype.itemsize or min(start, *shape, 0) < 0 or 8 + length + end > available:
                    raise ValueError(f"tensor {name} of {dtype} and shape {shape} cannot lie in bytes {start} to {end}")
                data = np.empty(end - start, np.uint8)
                file.seek(8 + length + start)
                read_into(file, data)
                result[name] = wrap(moved(data.view(dtype.numpy).reshape(shape), where))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RuntimeError(f"load: {path} is no sound safetensors file: {error}") from None
    return result


META = "__metadata__"
