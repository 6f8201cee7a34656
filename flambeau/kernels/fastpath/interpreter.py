"""Layout of this interpreter's objects and of NumPy's arrays: read, or tested on known objects, never assumed.

Machine code of fast paths reads slots of tensors, items of tuples and headers of arrays itself. Every offset is found here, once a
process; an interpreter that is built in another way is refused, and the fast paths stay Python.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
import weakref
from functools import cache
from typing import Any

import numpy as np

api = ctypes.PyDLL(None)  # a handle of our own: types of arguments set on it are nobody else's
VERSIONS = ((3, 11), (3, 13))  # the first and the last that were looked at

# NumPy's array object behind Python's header: public since NumPy 1.7, and tested all the same.
DATA, NDIM, DIMS, STRIDES, BASE, DESCR, FLAGS = 16, 24, 32, 40, 48, 56, 64
C_CONTIGUOUS, F_CONTIGUOUS, ALIGNED, WRITEABLE = 1, 2, 0x100, 0x400
# Of its ufuncs: number of inputs and of all operands, the loops, their data, how many there are, the name and the types.
_NIN, _NARGS, _LOOPS, _LOOP_DATA, _COUNT, _NAME, _TYPES = 16, 24, 32, 40, 48, 56, 64
_NUMPY_FUNCTIONS = {
    "PyArray_NewFromDescr": 94,
    "PyArray_CopyInto": 50,
    "PyArray_NewCopy": 85,
    "PyArray_Transpose": 123,
    "PyArray_MatrixProduct2": 280,
    "PyArray_SetBaseObject": 282,
    "PyDataType_GetArrFuncs": 365,
}  # places in its table of functions


class Unsupported(Exception):
    """Fast paths cannot be machine code here."""


def word(address: int) -> int:
    """The 8 bytes at an address."""
    return ctypes.c_uint64.from_address(address).value


def half(address: int) -> int:
    """The 4 bytes at an address."""
    return ctypes.c_uint32.from_address(address).value


def require(condition: object, what: str) -> None:
    if not condition:
        raise Unsupported(what)


class _Probe:
    __slots__ = ("__weakref__", "first", "second")

    def __init__(self, first: Any, second: Any):
        self.first, self.second = first, second


class Interpreter:
    """Layout of objects in this process.

    Attributes:
        immortal: whether counts of references are 32 bits wide, those of immortal objects negative (3.12 and later).
        tuple_items, list_items: offsets of a tuple's first item, and of the pointer to a list's items.
        referent: offset, in a weak reference, of what it refers to; None stands there once that is gone.
    """

    def __init__(self) -> None:
        self._check_build()
        self.immortal = sys.version_info >= (3, 12)
        self._check_counts()
        self._member = (
            type(_Probe.__dict__["first"]).__basicsize__ - 8
        )  # of a slot's descriptor: the pointer to {name, type, offset, ...}, its last field
        probe = _Probe("one", "two")
        for name in ("first", "second"):
            require(word(id(probe) + self.slot(_Probe, name)) == id(getattr(probe, name)), "slots lie elsewhere")
        self._check_containers()
        self._check_arrays()

    def _check_build(self) -> None:
        require(platform.python_implementation() == "CPython" and struct.calcsize("P") == 8, "not a 64-bit CPython")
        traced = hasattr(sys, "getobjects") or hasattr(sys, "gettotalrefcount")
        require(not traced, "a debug build counts references in one more place")
        require(not _is_free_threaded(), "a free-threaded build counts references otherwise")
        require(VERSIONS[0] <= sys.version_info[:2] <= VERSIONS[1], f"nobody has looked at Python {platform.python_version()}")
        require(object.__basicsize__ == 16, "objects have another header")

    def _check_counts(self) -> None:
        thing = object()
        held = [thing] * 1000
        count = half(id(thing)) if self.immortal else word(id(thing))
        require(count == sys.getrefcount(thing) - 1 and word(id(thing) + 8) == id(object), "objects have another header")
        del held
        if self.immortal:
            require(half(id(None)) & 0x80000000, "None is not immortal")

    def _check_containers(self) -> None:
        number, items, pair = 1.5, [None] * 7, ("x", "y")
        require(struct.pack("<Q", word(id(number) + 16)) == struct.pack("<d", number), "floats lie otherwise")
        self.list_items, self.tuple_items = 24, tuple.__basicsize__
        require(word(id(items) + 16) == 7 and word(word(id(items) + self.list_items)) == id(None), "lists lie otherwise")
        require(word(id(pair) + 16) == 2 and word(id(pair) + self.tuple_items + 8) == id(pair[1]), "tuples lie otherwise")
        probe, self.referent = _Probe(1, 2), 16
        reference = weakref.ref(probe)
        require(word(id(reference) + self.referent) == id(probe), "weak references lie otherwise")
        del probe
        require(word(id(reference) + self.referent) == id(None), "weak references lie otherwise")

    def _check_arrays(self) -> None:
        array = np.zeros((3, 5), np.float32)
        view = array[1:]
        dims, steps = (word(id(array) + place) for place in (DIMS, STRIDES))
        require(word(id(array) + DATA) == array.ctypes.data and half(id(array) + NDIM) == 2, "arrays lie otherwise")
        require([word(dims), word(dims + 8), word(steps), word(steps + 8)] == [3, 5, 20, 4], "arrays' sizes lie otherwise")
        require(word(id(array) + DESCR) == id(array.dtype) and word(id(array) + FLAGS) & 1 == 1, "arrays' dtypes lie otherwise")
        require(word(id(view) + BASE) == id(array), "arrays' bases lie otherwise")

    def slot(self, owner: type, name: str) -> int:
        """Offset of a slot in instances of ``owner`` and of its subclasses."""
        descriptor = next(kind.__dict__[name] for kind in owner.__mro__ if name in kind.__dict__)
        return word(word(id(descriptor) + self._member) + 16)


def _is_free_threaded() -> bool:
    if sys.version_info < (3, 13):  # which saves the import
        return False
    import sysconfig

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED")) or not getattr(sys, "_is_gil_enabled", lambda: True)()


@cache
def interpreter() -> Interpreter:
    """Layout of objects in this process, looked at once.

    Raises:
        Unsupported: machine code cannot be used here, and why.
    """
    return Interpreter()


@cache
def _numpy_table() -> int:
    import numpy._core._multiarray_umath as module

    get = api.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = getattr(module, "_ARRAY_API", None)
    require(capsule is not None, "NumPy shows no table of functions")
    table = get(capsule, None)
    require(word(table + 8 * 2) == id(np.ndarray), "NumPy's table of functions is another")
    return table


def function_address(name: str) -> int:
    """Address of a function of CPython's or NumPy's C interface."""
    if name in _NUMPY_FUNCTIONS:
        return word(_numpy_table() + 8 * _NUMPY_FUNCTIONS[name])
    function = getattr(api, name, None)  # CPython's underlined names come and go
    require(function is not None, f"no function {name}")
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def lookup() -> str:
    """Name of the function that looks an attribute up and is silent where there is none, which CPython made public late."""
    return "PyObject_GetOptionalAttr" if hasattr(api, "PyObject_GetOptionalAttr") else "_PyObject_LookupAttr"


def loop_of(ufunc: np.ufunc, types: str) -> tuple[int, int] | None:
    """The loop of a ufunc for operands and result of these types (``ff->f``): its address and that of its data; None where there is none.

    ``void loop(char **operands, npy_intp *count, npy_intp *steps, void *data)``: the function that NumPy itself calls, so that results are
    the same bits.
    """
    if types not in ufunc.types:
        return None
    address = id(ufunc)
    letters = types.replace("->", "")
    count = half(address + _COUNT)
    require(ctypes.string_at(word(address + _NAME)).decode() == ufunc.__name__, "ufuncs lie otherwise")
    require(half(address + _NIN) == ufunc.nin and half(address + _NARGS) == ufunc.nargs == len(letters), "ufuncs lie otherwise")
    numbers = bytes(np.dtype(letter).num for letter in letters)
    table = ctypes.string_at(word(address + _TYPES), count * ufunc.nargs)
    for k in range(count):
        if table[k * ufunc.nargs : (k + 1) * ufunc.nargs] == numbers:
            loop, data = word(word(address + _LOOPS) + 8 * k), word(address + _LOOP_DATA)
            return (loop, word(data + 8 * k) if data else 0) if loop else None
    return None


_DOT = 8 * (21 + 6)  # in a dtype's table of functions: behind 21 casts and six others


@cache
def dot_function(dtype: np.dtype) -> int:
    """Address of ``void dot(char *a, npy_intp step, char *b, npy_intp step, char *result, npy_intp count, void *)`` of a float dtype.

    It is what ``ndarray.dot`` calls for two vectors.

    Raises:
        Unsupported: what stands there is something else.
    """
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(function_address("PyDataType_GetArrFuncs"))
    table = get(dtype)
    require(table, "NumPy's dtypes have no functions")
    address = word(table + _DOT)
    require(address, "NumPy's dtypes have no dot function")
    a, b, result = np.arange(5, dtype=dtype), np.arange(5, dtype=dtype) + dtype.type(1), np.zeros((), dtype)
    kinds = [ctypes.c_void_p, ctypes.c_ssize_t] * 2 + [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p]
    size = dtype.itemsize
    ctypes.PYFUNCTYPE(None, *kinds)(address)(a.ctypes.data, size, b.ctypes.data, size, result.ctypes.data, 5, None)
    require(result == a.dot(b), "NumPy's dtypes have another dot function")
    return address
