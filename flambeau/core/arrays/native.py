"""Which kernel runs on the host's arrays: the reference kernel, or a native one where there is enough to do.

An operation's reference kernel works on anything.  A native kernel, registered under the operation's name, takes the same arguments
and returns the same result faster, or None where a call is not for it (a dtype, a layout); then the reference does the work.  Starting
one costs some microseconds, so that it is asked for large calls only.  Which those are is decided here and nowhere else:

    work         what a call has to do, in elements: its first operand's size, or what the operation's declaration says (``Op.work``)
    threshold    the work from which on the native kernel is asked: ``LARGE``, or more or less by what an element costs
    kernel       what is called then; it calls the reference itself where the native kernel declines

    generated wrapper    asks ``choice_for(op)`` when it is generated; the comparison is inline
    slow path            ``Choice.run`` compares each call's work, by the same choice; ``run_elementwise``, see there
    derivative rule      ``fused_threshold`` and ``fused_rule``: one kernel for all of a rule
    everything else      ``attempt``: copies, limits of indices, the parts of a convolution, steps of optimizers

    FLAMBEAU_KERNELS=llvm     (the default) kernels are used where they exist and llvmlite is installed
    FLAMBEAU_KERNELS=numpy    reference kernels only
    FLAMBEAU_KERNELS_FROM=1   every threshold is that number (tests do, so that small samples reach kernels)

The back end is imported when the first large operand comes; this module knows only its name.
"""

from __future__ import annotations

import dis
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import late
from ..calls.interruption import is_busy
from ..dtype import PAIR
from ..state import active, grad_enabled, ignoring_fp, in_mode, run_ignoring_fp, wrappers

if TYPE_CHECKING:
    from ..calls.operation import Op

_CHOSEN = os.environ.get("FLAMBEAU_KERNELS_FROM", "")
LARGE = int(_CHOSEN) if _CHOSEN else 8192  # elements of an element-wise operation: from here on a native kernel is worth its start
# Of these as many more, since NumPy itself runs them with vector instructions.
_VECTORISED = frozenset((np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.sqrt, np.square, np.maximum, np.minimum))
_VECTORISED_FACTOR = 4
_BACKEND = f"{__package__.partition('.')[0]}.kernels"
_POINTWISE = "families.pointwise"  # the module of element-wise kernels

_registered: dict[str, Callable[..., Any]] = {}  # by operation, filled by @native
registering: dict[str, str] = {}  # the module that registered each, of which ``kernels/index.py`` is made
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
    """Decorator: the native kernel of the operations ``names``; ``kernels/index.py`` has them, too."""
    module = sys._getframe(1).f_globals["__name__"]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _registered[name] = function
            registering[name] = module
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
    kernel = _found[name] = _registered.get(name) if family is None else _registered[name]
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


def _pointwise() -> Any:
    """The module of element-wise kernels, imported when first needed; None while this thread is making something late."""
    part = _parts.get(_POINTWISE)
    return late.make(_part, _POINTWISE) if part is None else part


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
    pool = getattr(sys.modules.get(f"{_BACKEND}.compiler.pool"), "pool", None)
    if pool is not None:
        pool.set_threads(count)
    blas = importlib.import_module(f"{_BACKEND}.families.blas").library()
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


def pays(work: int) -> bool:
    """Whether a native kernel is worth its start for this much work, in elements."""
    return work >= LARGE


def at_most(size: int) -> int:
    """``size``, below which a kernel leaves its operands to NumPy; less where kernels are to be used from fewer elements on."""
    return min(size, LARGE)


def call_native(name: str, *arguments: Any) -> Any:
    """What native kernel ``name`` returns, however much there is to do (``Budget`` tells); None where there is none or it declines."""
    if not switch.on:
        return None
    try:
        kernel = _found[name]
    except KeyError:
        kernel = find(name)
    try:
        return None if kernel is None else kernel(*arguments)
    except NoKernel:  # for these dtypes; finding that out again costs a microsecond
        return None


def attempt(name: str, work: int, *arguments: Any) -> Any:
    """The result of native kernel ``name``, which is no operation's, for so much work; None where it is left to NumPy."""
    if work < LARGE or not switch.on or (foreign and _any_foreign(arguments)):
        return None
    return call_native(name, *arguments)


def is_there(name: str, work: int) -> bool:
    """Whether native kernel ``name`` will be asked for so much work."""
    return work >= LARGE and switch.on and find(name) is not None


class Budget:
    """Kernels for calls that are small and many: one call is not worth getting the kernel, some hundreds are.

    Args:
        price: what a call costs beside its work, in elements.
    Attributes:
        is_spent: whether every call pays by now.
    """

    def __init__(self, price: int):
        self.price, self.worked = price, 0

    @property
    def is_spent(self) -> bool:
        return self.worked >= 16 * LARGE

    def pays(self, work: int) -> bool:
        """Whether a call goes to a native kernel: a large one, or any after many."""
        if work < LARGE and not self.is_spent:
            self.worked += work + self.price
            return False
        return switch.on


# -- work that is no operation's ----------------------------------------------------------------------------------------------------
def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """``target[...] = source``, by the native copy where much is to be copied."""
    if target.size < LARGE or attempt("_copy_into", target.size, target, source) is None:
        target[...] = source


def copied(array: np.ndarray) -> np.ndarray:
    """``array.copy()``, by the native copy where there is much."""
    result = attempt("_contiguous", array.size, array)
    return array.copy() if result is None else result


def copied_in_order(array: np.ndarray) -> np.ndarray:
    """A copy whose dimensions lie in memory in the order of ``array``'s."""
    return copied(array) if array.flags.c_contiguous else array.copy("K")


FILL_THRESHOLD = LARGE if _CHOSEN else 4 * LARGE  # elements: NumPy fills fewer as quickly


def fill(array: np.ndarray, value: Any) -> None:
    """``array.fill(value)``, by the native copy where much is to be written."""
    if array.size < FILL_THRESHOLD or attempt("_fill", array.size, array, value) is None:
        array.fill(value)


def zeros(shape: Any, dtype: Any) -> np.ndarray:
    """``np.zeros(shape, dtype)`` for a result that is written to at once: large ones in memory that is used again."""
    size = math.prod(shape)
    if size >= FILL_THRESHOLD:
        result = attempt("_zeros", size, tuple(shape), dtype)
        if result is not None:
            return result
    return np.zeros(shape, dtype)


def contiguous(array: np.ndarray) -> np.ndarray:
    """``np.ascontiguousarray(array)``, by the native copy where much is to be copied."""
    if not array.flags.c_contiguous:
        result = attempt("_contiguous", array.size, array)
        if result is not None:
            return result
    if array.__class__ is not np.ndarray:
        return array if array.flags.c_contiguous else array.copy()
    return np.ascontiguousarray(array)


def limits(indices: np.ndarray) -> tuple[int, int]:
    """The least and the greatest of some indices."""
    bounds = attempt("_limits", indices.size, indices)
    return (indices.min(), indices.max()) if bounds is None else bounds


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """A large array as another dtype, in the same order of memory; None where NumPy has to do it."""
    if array.size < LARGE or not switch.on or array.__class__ is not np.ndarray:
        return None
    part = _pointwise()
    return None if part is None else part.cast(array, dtype)


_np_add = np.add


def add(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> Any:
    """Sum of two gradients of one shape and dtype; another array than ``out`` where that cannot hold it, as a sparse one a dense sum."""
    kernel = _np_add if a.size < _ADD_LARGE else _add_large
    try:
        return ignoring_fp(kernel, a, b, out)
    except TypeError:
        if a.__class__ is np.ndarray and b.__class__ is np.ndarray and a.dtype == PAIR:
            total = np.empty_like(a) if out is None else out
            for part in ("real", "imag"):
                total[part] = a[part] + b[part]
            return total
        if not other_sums or (a.__class__ is np.ndarray and b.__class__ is np.ndarray):
            raise
        return other_sums[0](a, b, out)
    except RuntimeError as error:
        if not is_busy(error):
            raise
        return run_ignoring_fp(kernel, a, b, out)


other_sums: list[Callable[..., Any]] = []  # what adds arrays that NumPy cannot: sparse ones
_ADD_LARGE = LARGE if _CHOSEN else _VECTORISED_FACTOR * LARGE


def _add_large(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> Any:
    # the kernel reads an element before it writes it, but not those around it
    if switch.on and a.__class__ is b.__class__ is np.ndarray and (out is None or not np.may_share_memory(out, b)):
        part = _pointwise()
        result = None if part is None else part.add(a, b, out)
        if result is not None:
            return result
    return _np_add(a, b, out)


# -- operations -----------------------------------------------------------------------------------------------------------------------
class Choice:
    """What is decided about an operation that has a native kernel.

    Attributes:
        work: how much a call does, as an expression over the operation's parameters with arrays for its operands; None for the size
            of its first operand; ``work_of`` is the function of it.
        threshold: from how much work on ``kernel`` is called.
        kernel: what a fast path calls in place of ``op.fast``.
    """

    __slots__ = ("_first", "_name", "_scopes", "kernel", "threshold", "work", "work_of")

    def __init__(self, op: Op):
        _, self.work = _factor_and_work(op)
        self.threshold = native_threshold(op)
        self._name, self._first, self.work_of = key_of(op), op.positions[0] if op.positions else 0, _function_of(op, self.work)
        self._scopes: list[dict[str, Any]] = []
        self.kernel = native_kernel_for(op, self)

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result of the native kernel on the slow path; None where the reference kernel has to do it."""
        if self.work_of is not None:
            work = self.work_of(*arrays)
        else:
            first = arrays[self._first]
            if first.__class__ is list and first:
                first = first[0]
            work = first.size if first.__class__ is np.ndarray else 0
        if work < self.threshold or (foreign and _any_foreign(arrays)):
            return None
        return call_native(self._name, *arrays)

    def bind(self, scope: dict[str, Any]) -> None:
        """Let the name ``large`` of a wrapper be the kernel, and what takes its place later."""
        self._scopes.append(scope)  # first, so that what another thread settles meanwhile reaches it
        scope["large"] = self.kernel

    def settle(self, kernel: Callable[..., Any]) -> None:
        """Call ``kernel`` from now on, without what looked for it."""
        self.kernel = kernel
        for scope in self._scopes:
            scope["large"] = kernel


choices: dict[Any, Choice | None] = {}


def choice_for(op: Op) -> Choice | None:
    """What is decided about ``op``; None where it has no native kernel."""
    try:
        return choices[op]
    except KeyError:
        pass
    if op.is_view or op.is_multi_view:
        return choices.setdefault(op, None)
    if op.elementwise:
        return choices.setdefault(op, Choice(op))
    families = _families()
    if not families:  # this very thread is importing them
        return Choice(op)
    name = key_of(op)
    return choices.setdefault(op, Choice(op) if name in families or name in _registered else None)


_SCALED = re.compile(r"(\d+) \* (.+)")


def _factor_and_work(op: Op) -> tuple[int, str | None]:
    """How many times LARGE's element an element of the work is, and the rest of ``op.work``."""
    scaled = _SCALED.fullmatch(op.work or "")
    if scaled is None:
        return 1, op.work
    rest = scaled[2]
    return int(scaled[1]), None if rest == f"{op.names[0]}.size" else rest


def native_threshold(op: Op) -> int:
    """From how much work on the native kernel of ``op`` is asked."""
    if _CHOSEN:
        return LARGE
    if op.ufunc in _VECTORISED:
        return _VECTORISED_FACTOR * LARGE
    return LARGE // _factor_and_work(op)[0]


def _function_of(op: Op, work: str | None) -> Callable[..., int] | None:
    """``work`` as a function of the kernel's arguments."""
    if work is None:
        return None
    return eval(f"lambda {', '.join(op.names)}: {work}", {**sys.modules[op.module].__dict__, "prod": math.prod})


def native_kernel_for(op: Op, choice: Choice) -> Callable[..., Any]:
    """What a fast path calls with large operands instead of ``op.fast``.

    Where ``op.fast`` is an expression, the kernel is called ``large`` there and returns None where it declines.
    """
    reference: Any = None if isinstance(op.fast, str) else op.fast
    if op.elementwise:
        return _elementwise_kernel(op, choice, writing(reference))
    name = key_of(op)

    def large(*arguments: Any, **named: Any) -> Any:  # ``call_native`` spelled out, for its frame
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
        return reference(*arguments, **named) if result is None and reference is not None else result

    return large


def _elementwise_kernel(op: Op, choice: Choice, reference: Callable[..., Any]) -> Callable[..., Any]:
    """The back end's way for large operands of an element-wise operation, imported at the first call.

    A further argument is the place for its result, and None is returned where the kernel does not write there; a ufunc does it itself.
    """
    count = len(op.params)
    if op.fast is not op.ufunc:
        run = reference

        def reference(*arguments: Any, **named: Any) -> Any:
            return run(*arguments, **named) if run is not None and len(arguments) <= count else None

    def large(*arguments: Any, **named: Any) -> Any:
        if not switch.on or named or (foreign and _any_foreign(arguments)):
            return reference(*arguments, **named)
        part = _pointwise()
        if part is None:
            return reference(*arguments)
        kernel = part.kernel_of(op)
        if not op.keyword_names or op.fast is op.ufunc:  # then nothing comes by keyword
            choice.settle(kernel)
        return kernel(*arguments)

    return large


def run_elementwise(op: Op, values: Sequence[Any], compute: Any, result: Any, out: np.ndarray | None = None) -> Any:
    """The result of an element-wise operation on the slow path, from the kernel made of its expression.

    Operands that have to be cast or broadcast come here, for which NumPy has no vector instructions and of which any may be the largest:
    one of ``LARGE`` elements is enough.

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


# -- derivative rules -----------------------------------------------------------------------------------------------------------------
def fused_threshold(op: Op, rule: Callable[..., Any]) -> int | None:
    """From how many elements of the gradient on a derivative rule runs as one kernel; None where it is one operation anyway."""
    if not op.elementwise:
        return None
    names = [instruction.opname for instruction in dis.get_instructions(rule)]
    operators = sum(name in ("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT") for name in names)
    return LARGE if operators > 1 or any(name.startswith("CALL") for name in names) else None


def fused_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    """What a node calls with a large gradient: one kernel for the whole rule, unless the gradient's own graph is wanted."""

    def large(*arguments: Any) -> Any:
        if wrappers and any(argument.__class__ in wrappers for argument in arguments):
            return rule(*arguments)
        if switch.on and not grad_enabled() and not (active and in_mode()):
            part = _pointwise()
            result = None if part is None else part.run_rule(rule, arguments)
            if result is not None:
                return result
        return rule(*arguments)

    return large
