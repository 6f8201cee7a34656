"""Pickles of TorchScript's archives: written by hand, in the few instructions that PyTorch's reader in C++ knows, and read without
importing anything. Source: torch.jit._pickle.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.device import device
from ..core.tensor import Tensor
from ..serialization.archive import ArchiveWriter
from ..serialization.names import STORAGE_TYPES
from ..serialization.weights_only import Unpickler
from . import _operators


def build_intlist(data: list[int]) -> list[int]:
    """A list of integers, in a pickle."""
    return data


def restore_type_tag(value: Any, type_str: str) -> Any:
    """A list or dict with the type that it has, in a pickle; Python's have none."""
    return value


build_boollist = build_doublelist = build_tensorlist = build_tensor_from_id = build_intlist


# -- writing ---------------------------------------------------------------------------------------------------------------------------
class ScriptPickler:
    """Writes one object.

    Args:
        writer: of the archive. folder: where its storages go.
        name_of: gives the name of an object's class.
        state_of: gives an object's attributes by name, each with its type, or one value with its type, for ``__setstate__``.
    """

    def __init__(self, writer: ArchiveWriter, folder: str, name_of: Callable[[Any], str], state_of: Callable[[Any], Any]) -> None:
        self._writer, self._folder = writer, folder
        self._name_of, self._state_of = name_of, state_of
        self._out = bytearray(pickle.PROTO + b"\x02")
        self._memo: dict[int, int] = {}
        self._storages: dict[int, str] = {}
        self._kept: list[Any] = []

    def dump(self, value: Any) -> bytes:
        """The pickle of a value; its storages have been written."""
        self._save(value, "")
        return bytes(self._out + pickle.STOP)

    def _text(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        self._out += pickle.BINUNICODE + struct.pack("<I", len(data)) + data

    def _global(self, name: str) -> None:
        module, _, last = name.rpartition(".")
        self._out += pickle.GLOBAL + f"{module}\n{last}\n".encode()

    def _recalled(self, value: Any) -> bool:
        if id(value) in self._memo:
            self._out += pickle.LONG_BINGET + struct.pack("<I", self._memo[id(value)])
            return True
        return False

    def _memorize(self, value: Any) -> None:
        self._memo[id(value)] = len(self._memo)
        self._kept.append(value)
        self._out += pickle.LONG_BINPUT + struct.pack("<I", self._memo[id(value)])

    def _save(self, value: Any, kind: str) -> None:
        number = _operators.number_of(value)
        if number is not None:
            value = number
        for accepted, write in self._WRITERS:
            if isinstance(value, accepted):
                write(self, value, kind)
                return
        if hasattr(value, "_script_type"):
            self._object(value, kind)
            return
        raise RuntimeError(f"torch.jit.save: a value of type {type(value).__name__} has no place in an archive")

    def _none(self, value: None, kind: str) -> None:
        self._out += pickle.NONE

    def _bool(self, value: bool, kind: str) -> None:
        self._out += pickle.NEWTRUE if value else pickle.NEWFALSE

    def _int(self, value: int, kind: str) -> None:
        if -(2**31) <= value < 2**31:
            self._out += pickle.BININT + struct.pack("<i", value)
        elif -(2**63) <= value < 2**63:
            self._out += pickle.LONG1 + b"\x08" + struct.pack("<q", value)
        else:
            raise RuntimeError(f"torch.jit.save: {value} does not fit in 64 bits")

    def _float(self, value: float, kind: str) -> None:
        self._out += pickle.BINFLOAT + struct.pack(">d", value)

    def _str(self, value: str, kind: str) -> None:
        self._text(value)

    def _tuple(self, value: tuple[Any, ...], kind: str) -> None:
        self._out += pickle.MARK
        for item in value:
            self._save(item, "")
        self._out += pickle.TUPLE

    def _list(self, value: list[Any], kind: str) -> None:
        self._tagged(kind, lambda: self._items(pickle.EMPTY_LIST, pickle.APPENDS, value))

    def _dict(self, value: dict[Any, Any], kind: str) -> None:
        items = [part for pair in value.items() for part in pair]
        self._tagged(kind, lambda: self._items(pickle.EMPTY_DICT, pickle.SETITEMS, items))

    def _items(self, empty: bytes, end: bytes, items: list[Any]) -> None:
        self._out += empty + pickle.MARK
        for item in items:
            self._save(item, "")
        self._out += end

    def _tagged(self, kind: str, write: Callable[[], None]) -> None:
        """A list or dict with its type; those inside of one with a type get theirs from it."""
        if not kind:
            write()
            return
        self._global("torch.jit._pickle.restore_type_tag")
        self._out += pickle.MARK
        write()
        self._text(kind)
        self._out += pickle.TUPLE + pickle.REDUCE

    def _device(self, value: device, kind: str) -> None:
        self._global("torch.device")
        self._out += pickle.MARK
        self._text(str(value))
        self._out += pickle.TUPLE + pickle.REDUCE

    def _object(self, value: Any, kind: str) -> None:
        if self._recalled(value):
            return
        self._global(self._name_of(value))
        self._out += pickle.EMPTY_TUPLE + pickle.NEWOBJ
        state = self._state_of(value)
        if isinstance(state, tuple):
            self._save(*state)
        else:
            self._out += pickle.EMPTY_DICT + pickle.MARK
            for name, (item, of_item) in state.items():
                self._text(name)
                self._save(item, of_item)
            self._out += pickle.SETITEMS
        self._out += pickle.BUILD
        self._memorize(value)  # here, because PyTorch's reader makes the object when it gets its state

    def _tensor(self, value: Any, kind: str) -> None:
        if self._recalled(value):
            return
        if value.layout is not _operators._LAYOUTS[0] or value.dtype not in STORAGE_TYPES:
            raise RuntimeError(f"torch.jit.save: a tensor with layout {value.layout} and dtype {value.dtype} is not supported")
        storage = value.untyped_storage()
        key = self._storages.get(id(storage))
        if key is None:
            key = self._storages[id(storage)] = str(len(self._storages))
            self._kept.append(storage)
            self._writer.write_record(f"{self._folder}/{key}", storage._host_bytes.data)
        self._global("torch._utils._rebuild_tensor_v2")
        self._out += pickle.MARK + pickle.MARK
        self._text("storage")
        self._global(f"torch.{STORAGE_TYPES[value.dtype].name}")
        self._text(key)
        self._text(str(value.device))
        self._int(storage.nbytes() // value.dtype.itemsize, "")
        self._out += pickle.TUPLE + pickle.BINPERSID
        for number in (value.storage_offset(), tuple(value.shape), value.stride(), value.requires_grad):
            self._save(number, "")
        self._global("collections.OrderedDict")
        self._out += pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.TUPLE + pickle.REDUCE
        self._memorize(value)

    _WRITERS: tuple[tuple[Any, Callable[..., None]], ...] = (
        (type(None), _none), ((bool, np.bool_), _bool), (int, _int), (float, _float), (str, _str), (Tensor, _tensor), (tuple, _tuple),
        (list, _list), (dict, _dict), (device, _device),
    )  # fmt: skip


# -- reading ---------------------------------------------------------------------------------------------------------------------------
class _Classes(dict[str, Any]):
    """The names of a pickle: those of TorchScript's own functions, and classes of the archive, which are made when they are asked for."""

    def __init__(self, class_of: Callable[[str], Any], ids: set[int]) -> None:
        super().__init__({f"torch.jit._pickle.{name}": function for name, function in _FUNCTIONS.items()})
        self._class_of, self._ids = class_of, ids

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or str(name).startswith("__torch__.")

    def __missing__(self, name: str) -> Any:
        made = self[name] = self._class_of(name)
        self._ids.add(id(made))
        return made


_FUNCTIONS = {
    function: restore_type_tag if function == "restore_type_tag" else build_intlist
    for function in "build_intlist build_boollist build_doublelist build_tensorlist restore_type_tag".split()
}


class ScriptUnpickler(Unpickler):
    """Reads one object of an archive: tensors, numbers, lists, and objects of the archive's classes.

    Args:
        file: the pickle. class_of: gives the class of a qualified name. take_state: gives an instance its state.
    """

    def __init__(self, file: Any, class_of: Callable[[str], Any], take_state: Callable[[Any, Any], None]) -> None:
        super().__init__(file)
        self._take_state = take_state
        self._user_ids = {id(build_intlist), id(restore_type_tag)}
        self._user = _Classes(class_of, self._user_ids)

    def _set_state(self, target: Any, state: Any) -> None:
        if not hasattr(target, "_script_type"):
            super()._set_state(target, state)
        else:
            self._take_state(target, state)
