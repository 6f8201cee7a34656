"""Choice of the kernel for the host's arrays: the reference kernel, or a native one if there is enough to do.

An operation's reference kernel works on anything.  A native kernel, registered under the operation's name, takes the same arguments
and returns the same result faster, or None where a call is not for it (a dtype, a layout); then the reference does the work.  What is a
part of operations and no operation itself (a copy, a sort, a factorisation) is declared as one, and chosen alike:

    @part("_order_along")
    def order_along(array, dim, descending):    # the reference; bodies call it as it stands
        return array.argsort(dim)

Starting a native kernel costs some microseconds, so that it is called for large operands only.  Which those are is decided here and nowhere
else:

    work         what a call has to do, in elements of an element-wise operation: its first operand's size, or what the declaration
                 says (``work=`` of an operation or of a part). A rate (``16 * A.size``, ``a.size // 4``) says what an element costs.
    threshold    the work from which on the native kernel is called: ``LARGE``, divided by the rate, so that what is compared is a size
    kernel       what is called then; it calls the reference itself where the native kernel declines

    generated wrapper    calls ``choice_for(op)`` when it is generated; the comparison is inline
    part                 a generated function of two lines, with the same comparison
    slow path            ``Choice.pays`` compares each call's work, by the same choice; ``run_elementwise``, see there
    derivative rule      ``fused_threshold`` and ``fused_rule``: one kernel for all of a rule
    many small calls     ``Budget``: together they are worth a kernel (steps of optimizers, random numbers)

    FLAMBEAU_KERNELS=llvm     (the default) kernels are used where they exist and llvmlite is installed
    FLAMBEAU_KERNELS=numpy    reference kernels only
    FLAMBEAU_KERNELS_FROM=1   every threshold is that number (tests do, so that small samples reach kernels)

The back end is imported when the first large operand comes; this module has only its name.
"""

from __future__ import annotations

import dis
import functools
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from .. import late
from ..calls.interruption import GENERATED
from ..state import active, grad_enabled, is_intercepted, run_ignoring_fp, wrappers

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
registering: dict[str, str] = {}  # the module that registered each, of which ``kernels/index.txt`` is made
_found: dict[str, Callable[..., Any] | None] = {}  # results of ``find``
_modules: dict[str, Any] = {}  # modules of the back end that are there


foreign: set[type] = set()  # classes of arrays that lie elsewhere than in the host's memory; ``arrays.register`` fills it


def _any_foreign(arguments: Any) -> bool:
    kinds = set(map(type, arguments))
    return not foreign.isdisjoint(kinds) or (list in kinds and any(_any_foreign(each) for each in arguments if each.__class__ is list))


class Switch:
    """Whether native kernels are used; reading an attribute, which machine code does too, is quicker than asking the environment."""

    __slots__ = ("on",)

    def __init__(self, on: bool) -> None:
        self.on = on


def _initial() -> bool:
    chosen = os.environ.get("FLAMBEAU_KERNELS") or "llvm"
    if chosen not in ("llvm", "numpy"):
        raise ValueError(f"FLAMBEAU_KERNELS: expected 'llvm' or 'numpy', got {chosen!r}")
    return chosen == "llvm"


switch = Switch(_initial())


class MemoryUse(NamedTuple):
    """Use that a kernel may make of its operands' memory, where the plan of a compiled program has nobody else who needs it.

    Attributes:
        overwrites: of so many of its first operands, the first result may lie over any: a row is read before it is written.
        scratch: names of operands over which it may write scratch memory of their size.
        only_launches: whether launches, the same for whatever contents, are all that it does, or all but filling memory of its own.
    """

    overwrites: int = 0
    scratch: tuple[str, ...] = ()
    only_launches: bool = False


_memory_uses: dict[str, MemoryUse] = {}  # of kernels that said so, by operation


def native(
    *names: str, overwrites: int = 0, scratch: tuple[str, ...] = (), only_launches: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the native kernel of the operations ``names``; ``kernels/index.txt`` has them, too. ``MemoryUse`` has the others."""
    module = sys._getframe(1).f_globals["__name__"]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _registered[name] = function
            registering[name] = module
            if overwrites or scratch or only_launches:
                _memory_uses[name] = MemoryUse(overwrites, scratch, only_launches)
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
    if not families or (family is not None and _module(family) is None):
        return None
    kernel = _found[name] = _registered.get(name) if family is None else _registered[name]
    return kernel


def _families() -> dict[str, str]:
    """Modules of the operations' kernels; empty while this very thread imports the table."""
    return getattr(importlib.import_module(_BACKEND), "FAMILIES", {})


def _module(name: str) -> Any:
    """A module of the back end; None while this very thread imports it."""
    module = importlib.import_module(f"{_BACKEND}.{name}")
    if not late.is_whole(module):
        return None
    _modules[name] = module
    return module


def _pointwise() -> Any:
    """The module of element-wise kernels, imported when first needed; None while this thread is making something late."""
    module = _modules.get(_POINTWISE)
    return late.make(_module, _POINTWISE) if module is None else module


def memory_use(name: str) -> MemoryUse:
    """Use that the native kernel of an operation may make of its operands' memory, as its registration says."""
    find(name)
    return _memory_uses.get(name, MemoryUse())


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
    """A kernel cannot be built at this moment: a signal handler needs it while its thread is making something late."""


def at_most(size: int) -> int:
    """``size``, below which a kernel leaves its operands to NumPy; less where kernels are to be used from fewer elements on."""
    return min(size, LARGE)


def call_native(name: str, *arguments: Any) -> Any:
    """Result of native kernel ``name``, however little there is to do (``Budget`` decides); None if there is none or it declines."""
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


class Budget:
    """Kernels for calls that are small and many: one call is not worth getting the kernel, some hundreds are.

    Args:
        price: what a call costs beside its work, in elements.
    Attributes:
        is_spent: whether every call pays by now.
    """

    def __init__(self, price: int):
        self.price, self.worked, self.is_spent = price, 0, False

    def pays(self, work: int) -> bool:
        """Whether a call goes to a native kernel: a large one, or any after many."""
        if work < LARGE and not self.is_spent:
            self.worked += work + self.price
            self.is_spent = self.worked >= 16 * LARGE
            return False
        return switch.on


# -- how much a call has to do ----------------------------------------------------------------------------------------------------------
_RATED = re.compile(r"(?:(\d+) \* )?(.+?)(?: // (\d+))?")


def work_and_threshold(work: str | None, first: str) -> tuple[str | None, int]:
    """The expression to compare, None for the size of the operand ``first``, and the value from which on a native kernel is chosen:
    it includes the rate that ``work`` begins or ends with."""
    rated = _RATED.fullmatch(work or f"{first}.size")
    assert rated is not None
    dear, size, cheap = rated[1] or 1, rated[2], rated[3] or 1
    return None if size == f"{first}.size" else size, LARGE if _CHOSEN else LARGE * int(cheap) // int(dear)


# -- parts ----------------------------------------------------------------------------------------------------------------------------
def _first_call(*arguments: Any) -> Any:
    return compiled()(*arguments)  # type: ignore[name-defined]  # noqa: F821 - of the part whose code this still is


class Part:
    """A part of operations that may run natively, as ``part`` declares it.

    Attributes:
        name: of the native kernel; None where it is made of the function's own expression.
        reference: the declared function.
        work: how much a call does, as it was declared; None for the size of the first argument.
        threshold: from how much of it on ``large`` is called, without its rate.
        large: what is called then.
        function: what takes the declared function's place.
    """

    __slots__ = ("budget", "function", "large", "name", "reference", "threshold", "work")

    def __init__(self, name: str | None, reference: Callable[..., Any], work: str | None, budget: Budget | bool):
        self.name, self.reference, self.work = name, reference, work
        self.budget = Budget(price=0) if budget is True else budget or None
        names = _names_of(reference)
        compared, self.threshold = work_and_threshold(work, names[0])
        self.large = fused_rule(reference) if name is None else _large_part(name, reference)
        self.function = self._generated(names, f"{names[0]}.size" if compared is None else compared)

    def _generated(self, names: Sequence[str], work: str) -> Any:
        """A function whose code is compiled when it is first called: most programs use few of all parts."""
        scope: dict[str, Any] = {"__name__": self.reference.__module__, "prod": math.prod, "threshold": self.threshold}
        scope.update(large=self.large, reference=self.reference, budget=self.budget)
        is_small = f"{work} < threshold" if self.budget is None else f"not (budget.is_spent or budget.pays({work}))"
        scope["compiled"] = functools.partial(self._compiled, ", ".join(names), is_small)
        function: Any = functools.update_wrapper(FunctionType(_first_call.__code__, scope), self.reference)
        function.part = self
        return function

    def _compiled(self, arguments: str, is_small: str) -> Any:
        name, function = self.reference.__name__, self.function
        source = f"def {name}({arguments}):\n    return (reference if {is_small} else large)({arguments})"
        defined: dict[str, Any] = {}
        exec(compile(source, f"{GENERATED}{name}>", "exec"), defined)
        function.__defaults__, function.__code__ = self.reference.__defaults__, defined[name].__code__
        return function

    def pays(self, arguments: Sequence[Any]) -> bool:
        """Whether the native kernel is worth its start for these arguments, and may be called."""
        return _amount_of(self, len(arguments))(*arguments) >= self.threshold and not (foreign and _any_foreign(arguments))


@functools.cache
def _amount_of(part: Part, count: int) -> Callable[..., int]:
    """The work of a call of a part, as a function of its first ``count`` arguments."""
    names = _names_of(part.reference)
    return _function_of(names[:count], work_and_threshold(part.work, names[0])[0] or f"{names[0]}.size", {})


def _names_of(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


parts: list[Part] = []  # all that were declared, for tables and tests
Function = TypeVar("Function", bound=Callable[..., Any])


def part(name: str | None, work: str | None = None, budget: Budget | bool = False) -> Callable[[Function], Function]:
    """Decorator: a part of operations that a native kernel does where there is much to do; the function is its reference.

    Args:
        name: under which the kernel is registered (``@native``), which takes the same arguments, by position. It returns the result, True
            for a function without one, or None where the reference has to do it. Without a name, the function computes on tensors, element
            by element, and is run as one kernel.
        work: how much a call does, in elements of an element-wise operation: an expression over the parameters and ``prod``. A rate in
            front or at the end is what an element costs: ``16 * A.size``, ``array.size // 4``. The first argument's size when None.
        budget: whether small calls come to a large one together, or with those of another ``Budget``.
    """

    def declare(reference: Function) -> Function:
        parts.append(declared := Part(name, reference, work, budget))
        return declared.function

    return declare


def runs(what: Any, *arguments: Any) -> bool:
    """Whether a native kernel will be called if a part, or an operation, is called with these arguments (arrays for its operands)."""
    if not hasattr(what, "part") and not hasattr(what, "is_view"):
        return False  # a part that was made again for another kind of array, which has no kernels
    chosen = what.part if hasattr(what, "part") else choice_for(what)
    return chosen is not None and switch.on and chosen.pays(arguments) and find(chosen.name) is not None


def _large_part(name: str, reference: Callable[..., Any]) -> Callable[..., Any]:
    def large(*arguments: Any) -> Any:
        if not switch.on or (foreign and _any_foreign(arguments)):
            return reference(*arguments)
        result = call_native(name, *arguments)
        return reference(*arguments) if result is None else None if result is True else result

    return large


# -- operations -----------------------------------------------------------------------------------------------------------------------
class Choice:
    """Choice of kernels for an operation that has a native one.

    Attributes:
        work: how much a call does, as an expression over the operation's parameters with arrays for its operands; None for the size
            of its first operand; ``work_of`` is the function of it.
        threshold: from how much work on ``kernel`` is called.
        kernel: what a fast path calls in place of ``op.fast``.
    """

    __slots__ = ("_first", "_scopes", "kernel", "name", "threshold", "work", "work_of")

    def __init__(self, op: Op):
        self.work, self.threshold = work_and_threshold(op.work, op.names[0] if op.names else "")
        if op.ufunc in _VECTORISED and not _CHOSEN:
            self.threshold *= _VECTORISED_FACTOR
        self.name, self._first = op.key, op.positions[0] if op.positions else 0
        self.work_of = None if self.work is None else _function_of(op.names, self.work, sys.modules[op.module].__dict__)
        self._scopes: list[dict[str, Any]] = []
        self.kernel = native_kernel_for(op, self)

    def pays(self, arrays: Sequence[Any]) -> bool:
        """Whether the native kernel is worth its start for these arguments, and may be called."""
        if self.work_of is not None:
            work = self.work_of(*arrays)
        else:
            first = arrays[self._first]
            if first.__class__ is list and first:
                first = first[0]
            work = first.size if first.__class__ is np.ndarray else 0
        return work >= self.threshold and not (foreign and _any_foreign(arrays))

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
    """Choice of kernels for ``op``; None if it has no native kernel."""
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
    name = op.key
    return choices.setdefault(op, Choice(op) if name in families or name in _registered else None)


def _function_of(names: Sequence[str], work: str, scope: dict[str, Any]) -> Callable[..., int]:
    """``work`` as a function of the kernel's arguments."""
    return eval(f"lambda {', '.join(names)}: {work}", {**scope, "prod": math.prod})


def native_kernel_for(op: Op, choice: Choice) -> Callable[..., Any]:
    """Function that a fast path calls with large operands instead of ``op.fast``.

    Where ``op.fast`` is an expression, the kernel is called ``large`` there and returns None where it declines.
    """
    reference: Any = None if isinstance(op.fast, str) else op.fast
    if op.elementwise:
        return _elementwise_kernel(op, choice, writing(reference))
    name = op.key

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
        module = _pointwise()
        if module is None:
            return reference(*arguments)
        kernel = module.kernel_of(op)
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
    module = _pointwise()
    return None if module is None else module.run(op, values, compute, result, out)


def writes(op: Op, array: Any) -> bool:
    """Whether ``run_elementwise`` may write the result of ``op`` to ``array``, a large one of the host's."""
    return op.elementwise and array.__class__ is np.ndarray and array.size >= LARGE and switch.on


def _negative(a: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.negative``; from steps of 16 or 64 bytes to steps, NumPy 2.4 mixes elements up, in place too."""
    if out is None or out.flags.c_contiguous:
        return np.negative(a, out)
    out[...] = np.negative(a)
    return out


_WRITING: dict[Any, Callable[..., Any]] = {np.negative: _negative}


def writing(ufunc: Any) -> Any:
    """Function to call when a ufunc gets a place for its result: the ufunc, unless NumPy gets that wrong."""
    return _WRITING.get(ufunc, ufunc)


# -- derivative rules -----------------------------------------------------------------------------------------------------------------
def fused_threshold(op: Op, rule: Callable[..., Any]) -> int | None:
    """From how many elements of the gradient on a derivative rule runs as one kernel; None where it is one operation anyway."""
    if not op.elementwise:
        return None
    names = [instruction.opname for instruction in dis.get_instructions(rule)]
    operators = sum(name in ("BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT") for name in names)
    return LARGE if operators > 1 or any(name.startswith("CALL") for name in names) else None


def gradients_together(op: Op) -> tuple[int, Callable[..., Any]]:
    """From how many elements of the gradient on a node calls a function: one kernel for the gradients of all operands, unless their own
    graph is wanted.

    It returns arrays, or None where the rules are to be called.
    """
    name = f"gradients:{op.key}"

    def together(needs: tuple[bool, ...], grad: Any, **saved: Any) -> Any:
        if not switch.on or grad_enabled() or (active and is_intercepted()):
            return None
        arrays = {key: None if tensor is None else tensor._array for key, tensor in saved.items()}
        for array in (grad._array, *arrays.values()):
            if array is not None and array.__class__ is not np.ndarray:
                return None
        kernel = find(name)
        try:
            return None if kernel is None else run_ignoring_fp(kernel, needs, grad._array, **arrays)
        except NoKernel:
            return None

    return LARGE, together


def fused_rule(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Function that a node calls with a large gradient: one kernel for the whole rule, unless the gradient's own graph is wanted."""

    def large(*arguments: Any) -> Any:
        if wrappers and any(argument.__class__ in wrappers for argument in arguments):
            return rule(*arguments)
        if switch.on and not grad_enabled() and not (active and is_intercepted()):
            module = _pointwise()
            result = None if module is None else module.run_rule(rule, arguments)
            if result is not None:
                return result
        return rule(*arguments)

    return large
