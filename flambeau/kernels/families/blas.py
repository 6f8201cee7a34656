"""The BLAS library that NumPy brought along, called from the pool's threads, and the LAPACK in it.

A BLAS with threads of its own and a pool beside it get into each other's way: both keep their threads spinning for a while after a call,
and on as many cores as threads every switch between them waits.  So large products are cut into blocks, and each block is one call of a
single-threaded ``gemm`` from a thread of the pool, within ``alone``, which puts the library's own number of threads back.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from ...core.calls.interruption import pass_on
from ..compiler.language import Builder, Value

# Prefix and suffix of the names in OpenBLAS as NumPy's wheels have it, and in others. Suffix 64_: integers have 64 bits; a library with
# 32-bit integers reads the lower half of what is passed, so that one way of calling serves both.
_NAMES = (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", ""))


class Library(NamedTuple):
    """Addresses of ``cblas_sgemm`` and ``cblas_dgemm``, functions that read and set the library's number of threads, and what finds others.

    Attributes:
        shared: the library. fortran: the form of its Fortran routines' names. integer: the dtype of their integers.
    """

    sgemm: int
    dgemm: int
    threads: Any
    set_threads: Any
    shared: Any
    fortran: str
    integer: str

    def routine(self, name: str) -> int | None:
        """The address of a routine of BLAS or LAPACK; None where the library has none."""
        function = getattr(self.shared, self.fortran.format(name), None)
        return None if function is None else _address(function)


@cache
def library() -> Library | None:
    """OpenBLAS, if NumPy uses it and it can be found in this process."""
    for path in _loaded("blas"):
        shared_library = ctypes.CDLL(path)
        for prefix, suffix in _NAMES:
            try:
                single, double = (getattr(shared_library, f"{prefix}cblas_{letter}gemm{suffix}") for letter in "sd")
                threads = getattr(shared_library, f"{prefix}openblas_get_num_threads{suffix}")
                set_threads = getattr(shared_library, f"{prefix}openblas_set_num_threads{suffix}")
            except AttributeError as error:
                pass_on(error)
                continue
            set_threads.argtypes, set_threads.restype = (ctypes.c_int,), None
            fortran, integer = f"{prefix}{{}}_{suffix}", "int64" if suffix else "int32"
            return Library(_address(single), _address(double), threads, set_threads, shared_library, fortran, integer)
    return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _loaded(word: str) -> list[str]:
    """Paths of this process's shared libraries with ``word`` in their names."""
    if not os.path.exists("/proc/self/maps"):
        return []
    with open("/proc/self/maps") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if line.count(" ") > 5 and "/" in line}
    return sorted(path for path in paths if word in path.rpartition("/")[2] and ".so" in path)


_ROW_MAJOR = 101  # CBLAS's word


def call_gemm(
    k: Builder,
    element: str,
    function: Value,
    sizes: tuple[Value, Value, Value],
    forms: tuple[Value, Value],
    pitches: tuple[Value, Value],
    operands: tuple[Value, Value, Value],
    pitch: Value,
    bias: Value | None,
) -> None:
    """Write a call of ``gemm``: ``c = a @ b (+ bias)``, row-major, its rows ``pitch`` apart.

    Args:
        sizes: rows and columns of ``c``, and the numbers of a sum. forms, pitches: CBLAS's words for ``a`` and ``b``, leading dimensions.
        operands: ``a``, ``b`` and ``c``.
    """
    (height, width, inner), (a, b, c) = sizes, operands
    if bias is not None:
        lanes = k.lanes(element)

        def fill(row: Value) -> None:
            def step(i: Value, mask: Value | None) -> None:
                k.store(k.load(bias, i, element, lanes, mask), c, row * pitch + i, element, mask)

            k.vector_loop(0, width, lanes, step)

        k.loop(k.const(0, "i64"), height, fill)  # products are added to it, for which the library need not write zeros
    order, one, kept = k.const(_ROW_MAJOR, "i32"), k.const(1, element), k.const(0 if bias is None else 1, element)
    form_a, form_b = (k.cast(form, "i32") for form in forms)
    passed = (order, form_a, form_b, height, width, inner, one, a, pitches[0], b, pitches[1], kept, c, pitch)
    k.effect(f"call void {function.text}({', '.join(f'{v.type} {v.text}' for v in passed)})")


_inside: dict[int, object] = {}  # calls of ``alone`` that run, in all threads
_before = [1]  # the library's own number of threads, when no call was inside
_lock = threading.RLock()


def alone(function: Callable[..., Any], *arguments: Any) -> None:
    """``function(*arguments)`` while the library uses no threads of its own; the last of several Python threads puts their number back."""
    blas = library()
    if blas is None:
        function(*arguments)
        return
    me = object()
    key = id(me)
    try:
        with _lock:
            if not _inside:
                _before[0] = blas.threads()
            _inside[key] = me
            blas.set_threads(1)
        function(*arguments)
    finally:
        with _lock:
            if key in _inside:  # no call before the library's: a handler cannot come in between
                del _inside[key]  # noqa: RUF051
            if not _inside:
                blas.set_threads(_before[0])


def _forget() -> None:
    """In a child there are no other threads that could be inside, and none that puts the library's number of threads back."""
    global _lock
    _lock = threading.RLock()
    blas = library() if _inside else None
    _inside.clear()
    if blas is not None:
        blas.set_threads(_before[0])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
