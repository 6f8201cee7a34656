"""Where generated kernels stand beside the reference ones.

An operation's reference kernel works on anything.  A native kernel, registered under the operation's name, takes the same arguments
and returns the same result faster, or None where a call is not for it (a dtype, a layout); then the reference does the work.  Native
kernels are asked only for operands of ``LARGE`` elements or more, below which starting one costs more than it saves.

    FLAMBEAU_KERNELS=llvm     (the default) kernels are used where they exist and llvmlite is installed
    FLAMBEAU_KERNELS=numpy    reference kernels only
    FLAMBEAU_KERNELS_FROM=1   use them from that many elements on (tests do, so that small samples reach them)

The back end is imported when the first large operand comes; this module knows only its name.
"""

from __future__ import annotations

import dis
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from . import late
from .state import active, grad_enabled, in_mode

if TYPE_CHECKING:
    from .operation import Op

_CHOSEN = os.environ.get("FLAMBEAU_KERNELS_FROM", "")
LARGE = int(_CHOSEN) if _CHOSEN else 8192  # elements
LARGE_SIMPLE = int(_CHOSEN) if _CHOSEN else 32768  # elements, for the functions that NumPy itself runs with vector instructions
_SIMPLE = frozenset((np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.sqrt, np.square, np.maximum, np.minimum))
_BACKEND = f"{__package__.rpartition('.')[0]}.kernels"

_PRODUCTS = frozenset(("matmul", "mm", "bmm", "linear"))

_registered: dict[str, Callable[..., Any]] = {}  # by operation, filled by @native
_found: dict[str, Callable[..., Any] | None] = {}  # what ``find`` answered
_parts: dict[str, Any] = {}  # modules of the back end that are there


foreign: set[type] = set()  # classes of arrays that lie elsewhere than in the host's memory; ``arrays.register`` fills it


def _any_foreign(arguments: Any) -> bool:
    return any(argument.__class__ in foreign or (argument.__class__ is list and _any_foreign(argument)) for argument in arguments)


class ResultMemory(mmap):
    """Memory of one large result, lent by ``kernels/memory``: nobody has it but the array whose base it is."""

    __slots__ = ()


class Switch:
    """Whether native kernels are used; reading an attribute is quicker than asking the environment."""

    on = True


def _initial() -> bool:
    chosen = os.environ.get("FLAMBEAU_KERNELS") or "llvm"
    if chosen not in ("llvm", "numpy"):
        raise ValueError(f"FLAMBEAU_KERNELS: expected 'llvm' or 'numpy', got {chosen!r}")
    return chosen == "llvm"


switch = Switch()
switch.on = _initial()


def native(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the native kernel of the operations ``names``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _registered[name] = function
        return function

    return register


def find(name: str) -> Callable[..., Any] | None:
    """The native kernel of an operation, whose family is imported now if need be; None where there is none, or not yet."""
    try:
        return _found[name]
    except KeyError:
        return late.make(_find, name)


def _find(name: str) -> Callable[..., Any] | None:
    families = _families()
    family = families.get(name)
    if not families or (family is not None and _part(family) is None):
        return None
    kernel = _found[name] = _registered.get(name)
    return kernel


def _families() -> dict[str, str]:
    """Which module has an operation's kernels; empty while this very thread imports the table."""
    return getattr(importlib.import_module(_BACKEND), "FAMILIES", {})


def _part(name: str) -> Any:
    """A module of the back end; None while this very thread imports it."""
    module = importlib.import_module(f"{_BACKEND}.{name}")
    if not late.is_whole(module):
        return None
    _parts[name] = module
    return module


def _default_threads() -> int:
    """One per core that this process may use, or what ``OMP_NUM_THREADS`` says."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    if chosen.isdigit() and int(chosen):
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Threads:
    """How many threads run inside operations, the caller's included."""

    count = _default_threads()


def set_threads(count: int) -> None:
    """Have the pool of native threads, and NumPy's BLAS if it can be told, use ``count`` threads."""
    Threads.count = count
    pool = getattr(sys.modules.get(f"{_BACKEND}.pool"), "pool", None)
    if pool is not None:
        pool.set_threads(count)
    blas = importlib.import_module(f"{_BACKEND}.blas").library()
    if blas is not None:
        blas.set_threads(count)


@contextmanager
def disabled() -> Iterator[None]:
    """Reference kernels only, within the block; in all threads."""
    before, switch.on = switch.on, False
    try:
        yield
    finally:
        switch.on = before


class NoKernel(RuntimeError):
    """A native kernel cannot be had on this machine: no llvmlite, or an instruction that the processor lacks."""


class NotNow(NoKernel):
    """A kernel cannot be built at this moment: a signal handler asks for it while its thread is making something late."""


def key_of(op: Op) -> str:
    return op.name if op.namespace == "torch" else f"{op.namespace}.{op.name}"


def attempt(name: str, *arguments: Any, **named: Any) -> Any:
    """What the native kernel of operation ``name`` returns for these arguments; None where there is none or it declines."""
    if not switch.on or (foreign and _any_foreign(arguments)):
        return None
    try:
        kernel = _found[name]
    except KeyError:
        kernel = find(name)
    try:
        return None if kernel is None else kernel(*arguments, **named)
    except NoKernel:  # for these dtypes; finding that out again costs a microsecond
        return None


def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """``target[...] = source``, by the native copy where much is to be copied."""
    if target.size < LARGE or attempt("_copy_into", target, source) is None:
        target[...] = source


def contiguous(array: np.ndarray) -> np.ndarray:
    """``np.ascontiguousarray(array)``, by the native copy where much is to be copied."""
    if array.size >= LARGE and not array.flags.c_contiguous:
        result = attempt("_contiguous", array)
        if result is not None:
            return result
    if array.__class__ is not np.ndarray:
        return array if array.flags.c_contiguous else array.copy()
    return np.ascontiguousarray(array)


def limits(indices: np.ndarray) -> tuple[int, int]:
    """The least and the greatest of some indices."""
    bounds = attempt("_limits", indices) if indices.size >= LARGE else None
    return (indices.min(), indices.max()) if bounds is None else bounds


def _pointwise() -> Any:
    """The module of element-wise kernels, imported when first needed; None while this thread is making something late."""
    part = _parts.get("pointwise")
    return late.make(_part, "pointwise") if part is None else part


def pointwise(op: Op, values: Any, compute: Any, result: Any, out: np.ndarray | None = None) -> Any:
    """The result of an element-wise operation on large operands of any dtypes, from the kernel made of its expression.

    Args:
        values: arrays, numbers and attributes in signature order.
        compute, result: dtypes to compute with and of the result; None for the operands' own.
        out: where to write the result, of its shape and dtype.
    Returns:
        None where there is no such kernel.
    """
    if not switch.on:
        return None
    for value in values:
        if value.__class__ is np.ndarray and value.size >= LARGE:
            break
    else:
        return None
    if foreign and _any_foreign(values):
        return None
    part = _pointwise()
    return None if part is None else part.run(op, values, compute, result, out)


def _negative(a: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.negative``; from steps of 16 or 64 bytes to steps, NumPy 2.4 mixes elements up, in place too."""
    if out is None or out.flags.c_contiguous:
        return np.negative(a, out)
    out[...] = np.negative(a)
    return out


_WRITING: dict[Any, Callable[..., Any]] = {np.negative: _negative}


def writing(ufunc: Any) -> Any:
    """What is called where a ufunc gets a place for its result: the ufunc, unless NumPy gets that wrong."""
    return _WRITING.get(ufunc, ufunc)


def beside(op: Op) -> Callable[..., Any] | None:
    """What a fast path calls with large operands instead of ``op.fast``; None where the operation has no native kernel."""
    if op.fast is None or op.is_view or isinstance(op.fast, str):
        return None
    reference: Callable[..., Any] = op.fast
    if op.elementwise:
        return _late_pointwise(op, writing(reference))
    name = key_of(op)
    families = _families()
    if families and name not in families:
        return None

    def large(*arguments: Any, **named: Any) -> Any:  # ``attempt`` spelled out, for its frame
        result = None
        if switch.on:
            try:
                kernel = _found[name]
            except KeyError:
                kernel = find(name)
            if kernel is not None:
                try:
                    result = kernel(*arguments, **named)
                except NoKernel:
                    pass
        return reference(*arguments, **named) if result is None else result

    return large


def _late_pointwise(op: Op, reference: Callable[..., Any]) -> Callable[..., Any]:
    """The back end's way for large operands of an element-wise operation, imported at the first call."""
    doors: list[Callable[..., Any]] = []

    def large(*arguments: Any, **named: Any) -> Any:
        if not switch.on or named or (foreign and _any_foreign(arguments)):
            return reference(*arguments, **named)
        if not doors:
            part = _pointwise()
            if part is None:
                return reference(*arguments)
            doors.append(part.wrapper(op))
        return doors[0](*arguments)

    return large


def is_chain(rule: Callable[..., Any]) -> bool:
    """Whether a derivative rule may be more than one operation, so that one kernel for all of it pays."""
    names = [instruction.opname for instruction in dis.get_instructions(rule)]
    operators = sum(name in ("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT") for name in names)
    return operators > 1 or any(name.startswith("CALL") for name in names)


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """A large array as another dtype, in the same order of memory; None where NumPy has to do it."""
    if not switch.on or array.__class__ is not np.ndarray:
        return None
    part = _pointwise()
    return None if part is None else part.cast(array, dtype)


def _any_foreign_tensor(arguments: Any) -> bool:
    return _any_foreign([getattr(argument, "_array", None) for argument in arguments])


def rule_beside(rule: Callable[..., Any]) -> Callable[..., Any]:
    """What a node calls with a large gradient: one kernel for the whole rule, unless the gradient's own graph is wanted."""

    def large(*arguments: Any) -> Any:
        if switch.on and not grad_enabled() and not (active and in_mode()) and not (foreign and _any_foreign_tensor(arguments)):
            part = _pointwise()
            result = None if part is None else part.run_rule(rule, arguments)
            if result is not None:
                return result
        return rule(*arguments)

    return large


def size_of(op: Op) -> int:
    """From how many elements on the native kernel of ``op`` is asked."""
    if op.name in _PRODUCTS:
        return min(LARGE, 1024)  # small matrices may have many products
    return LARGE_SIMPLE if op.ufunc in _SIMPLE else LARGE
