"""Functions of one module of machine code, and the table of pointers that they share.

The code refers to nothing but itself: addresses of functions and objects are in ``@table``, which lies behind the code, is filled when the
image is loaded, and does not change afterwards. So an image on disk serves every process.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..compiler import cache, image, target as targets
from . import recipes
from .interpreter import api, function_address, interpreter
from .records import Record

_LINKED = struct.Struct("<16sQ32s")  # the header of an image
_FUNCTION, _SLOT, _OBJECT = "function", "slot", "object"  # what stands at a place of the table


class Code:
    """A module being written.

    Attributes:
        functions: text of each function, by name.
        declared: what they declare, by name.
    """

    def __init__(self) -> None:
        self.interpreter, self.target = interpreter(), targets.current()
        self.functions: dict[str, str] = {}
        self.declared: dict[str, str] = {"prof": '!1 = !{!"branch_weights", i32 2000, i32 1}'}
        self._places: dict[str, int] = {}
        self._kinds: list[tuple[Any, ...]] = []  # what stands at each place of the table
        self._values: list[int] = []
        self._objects: dict[int, int] = {}  # places by address
        self._kept: list[Any] = []

    def _place(self, name: str, value: int, *kind: Any) -> int:
        if name not in self._places:
            self._places[name] = len(self._values)
            self._values.append(value)
            self._kinds.append(kind)
        return self._places[name]

    def object(self, thing: Any) -> int:
        """Place of an object's address. Names are numbers, so that the text does not depend on where objects lie."""
        if id(thing) not in self._objects:
            self._kept.append(thing)
            self._objects[id(thing)] = self._place(f"object {len(self._values)}", id(thing), _OBJECT, thing)
        return self._objects[id(thing)]

    def function(self, name: str) -> int:
        """Place of the address of a function of CPython's or NumPy's C interface."""
        return self._place(name, function_address(name), _FUNCTION, name)

    def slot_function(self, kind: type, number: int, name: str) -> int:
        """Place of the address of the function that fills slot ``number`` of a type."""
        api.PyType_GetSlot.restype, api.PyType_GetSlot.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
        return self._place(f"{name} of {kind.__name__}", api.PyType_GetSlot(kind, number), _SLOT, kind, number, name)

    def text(self) -> str:
        table = f"@table = hidden global [{len(self._values)} x ptr] zeroinitializer, align 64"
        return "\n".join([table, *self.declared.values(), *self.functions.values(), "!0 = !{}"])

    def load(self, names: list[str]) -> dict[str, int]:
        """Addresses of functions, by name: from disk, or compiled now."""
        return self._mapped(names, self._image(names))

    def _mapped(self, names: list[str], content: bytes) -> dict[str, int]:
        """Addresses of the functions of an image, whose table is filled."""
        count, *_ = struct.unpack_from("<Q", content)
        *starts, table = struct.unpack_from(f"<{count}Q", content, 8)
        code = content[8 * (1 + count) :]
        size = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
        address = image.pages(size)
        ctypes.memmove(address, code, len(code))
        ctypes.memmove(address + table, struct.pack(f"<{len(self._values)}Q", *self._values), 8 * len(self._values))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "mprotect: executable memory is forbidden here")
        for thing in self._kept:
            api.Py_IncRef(ctypes.py_object(thing))  # the code may run until the very end
        return {name: address + start for name, start in zip(names, starts)}

    def _key(self, names: list[str]) -> str:
        return cache.key_of(f"{self.text()}|{','.join(names)}", self.target)

    def _image(self, names: list[str]) -> bytes:
        """Number and places of the functions and of the table, and the code."""
        key = self._key(names)
        stored = cache.read(key)
        if stored is None:
            elf = image.compile_object(self.text(), self.target)
            linked = [image.link(elf, name) for name in (*names, "table")]
            starts = [_LINKED.unpack_from(each)[1] for each in linked]
            stored = image.sealed(0, struct.pack(f"<{1 + len(starts)}Q", len(starts), *starts) + image.unsealed(linked[0]))
            cache.write(key, stored)
        return image.unsealed(stored)

    def recipe(self, names: list[str]) -> bytes | None:
        """The image, the functions, and what stands in the table, by names; None where something has no name."""
        table = [(kind, recipes.name_of(thing) if kind != _FUNCTION else thing, *more) for kind, thing, *more in self._kinds]
        if any(name is None for _, name, *_ in table):
            return None
        return json.dumps({"image": self._key(names), "names": names, "table": table}).encode()

    def follow(self, recipe: bytes) -> tuple[list[str], dict[str, int]] | None:
        """Names and addresses of the functions of a recipe; None where the image or something of the table is gone, or it is none."""
        try:
            told = json.loads(recipe)
            stored = cache.read(told["image"])
            if stored is None:
                return None
            for kind, name, *more in told["table"]:
                if kind == _FUNCTION:
                    self.function(name)
                elif kind == _SLOT:
                    self.slot_function(recipes.named(name), *more)
                else:
                    self.object(recipes.named(name))
        except (LookupError, ValueError):
            return None
        if len(self._values) != len(told["table"]):  # two names of one thing
            return None
        return told["names"], self._mapped(told["names"], image.unsealed(stored))


def loaded(what: str, writers: Sequence[Callable[[Code], str]]) -> tuple[list[str], dict[str, int]]:
    """Names of the functions that ``writers`` write, in their order, and their addresses by name.

    Args:
        what: a word for them.
    """
    done = kept(what)
    if done is not None:
        return done
    code = Code()
    names = [write(code) for write in writers]
    addresses = code.load(names)
    key, new = _recipe_key(what, code), code.recipe(names)
    if key is not None and new is not None:
        cache.write(key, image.sealed(0, new))
    return names, addresses


def kept(what: str) -> tuple[list[str], dict[str, int]] | None:
    """The same from disk alone; None where it is not there."""
    code = Code()
    key = _recipe_key(what, code)
    recipe = None if key is None else cache.read(key)
    return None if recipe is None else code.follow(image.unsealed(recipe))


def _recipe_key(what: str, code: Code) -> str | None:
    return recipes.key_of(f"recipe of {what}|{vars(code.interpreter)}", code.target)


class Definition(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


FASTCALL = 0x80
_forever: list[Any] = []  # definitions and records that machine code points to


def builtin(name: str, address: int, record: Record) -> Any:
    """A built-in function of positional arguments, which are given to machine code with the record as ``self``."""
    definition = Definition(name.encode(), address, FASTCALL, None)
    record.words.flags.writeable = False
    _forever.append((definition, record))
    new = api.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return new(ctypes.addressof(definition), record.words, None)
