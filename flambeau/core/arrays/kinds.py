"""Kinds of array: what a tensor's ``_array`` may be beside a NumPy array, and who runs kernels on it.

    kind     array class      what it is for
    host     numpy.ndarray    the CPU
    meta     MetaArray        shape, strides and dtype without values
    cuda     cupy.ndarray     NVIDIA GPUs
    probe    ProbeArray       ``testing.probe``: an array that refuses what CuPy refuses; tests run every operation on it
    sparse   SparseArray      indices and values, in the CPU's memory (``sparse``)

A tensor's device follows from the class of its array, so there is nothing to keep in step, and a tensor of the CPU is not larger for it.
The generated fast paths take NumPy arrays only; on the slow path ``kind_of_call`` decides, once per call, which kind's ``run`` gets it.

Reference kernels are written with the global name ``np``.  For another kind they are made again around the same code with ``np`` bound to
that kind's own module (``Binder``), so that they need no further argument, and the CPU pays nothing.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

import numpy as np

from ..calls.casting import cast_array, cast_operands
from ..calls.operation import Op
from ..device import cpu, device, pinned_host
from ..dtype import PAIR, bfloat16, dtype
from ..state import crowded, interpreters, modes
from . import native
from .binder import Binder
from .copies import fill

_CORE = __package__.rpartition(".")[0]


class Kind:
    """One class of arrays, and its interface to the package.

    Attributes:
        name: the device type that shows it.
        array_class: class of its arrays. They have NumPy's attributes and operators.
        xp: the module of NumPy's functions over such arrays.
        special: the module of SciPy's special functions over such arrays; None where SciPy's own serves.
        has_values: whether an array has values that can be read.
        has_views: whether operations that return views do so here; sparse arrays are copied.
        hosted: modules of the package whose functions work on host memory only; they get copies of the arrays there, and what they
            wrote is copied back.
    """

    name: str
    array_class: type
    xp: Any
    special: Any = None
    has_values = True
    has_views = True
    hosted: frozenset[str] = frozenset(
        f"{_CORE}.{name}" for name in ("random.samplers", "random.rejection", "random.box_muller", "arrays.lapack")
    )

    def __init__(self) -> None:
        self._binder = Binder(self)

    # -- what each kind must say ----------------------------------------------------------------------------------------------------
    def device_of(self, array: Any) -> device:
        raise NotImplementedError

    def address(self, array: Any) -> int:
        """Of the first element, in the device's memory."""
        raise NotImplementedError

    def to_host(self, array: Any) -> np.ndarray:
        """A copy of an array in the host's memory."""
        raise NotImplementedError

    def from_host(self, array: np.ndarray, where: device) -> Any:
        """A copy of a NumPy array on a device of this kind, with the array's strides where it is dense."""
        raise NotImplementedError

    def check_storage(self, array: Any) -> None:
        """Raise NotImplementedError where an array has no storage to show."""

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
        """A view of the memory of ``base``, from ``offset`` bytes behind its first element on; strides in bytes."""
        raise NotImplementedError

    def fitted(self, array: Any, target: Any) -> Any:
        """A result as it is written into ``target``, an array of this kind or of the host's."""
        return array

    def placed(self, where: device) -> device:
        """``where`` with the index of a device that is there; 0 where it has none.

        Raises:
            RuntimeError: there is no such device.
        """
        return device(self.name, where.index or 0)

    def check_dtype(self, dtype: np.dtype) -> None:
        """Raise NotImplementedError where this kind has no such element type."""

    def on(self, where: device) -> AbstractContextManager[Any]:
        """Context in which work is done on ``where``, one of several devices of this kind."""
        return nullcontext()

    def across(self, array: Any, where: device) -> Any:
        """A copy on another device of this kind."""
        return self.from_host(self.to_host(array), where)

    def drawing(self, where: device) -> AbstractContextManager[Any]:
        """Context in which the default generator gives what belongs to ``where``; the CPU's numbers unless a kind has its own."""
        return nullcontext()

    # -- what follows -----------------------------------------------------------------------------------------------------------------
    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with NumPy's names bound to this kind's module, in it and in every helper that it reaches."""
        return self._binder.function(function)

    def make(self, where: device, function: Callable[..., Any], *args: Any) -> Any:
        """Array that ``function`` makes, on a device of this kind."""
        return self.bound(function)(*args)

    def choice_for(self, op: Op) -> native.Choice | None:
        """From how much work on which native kernel runs; None: the reference kernel always does."""
        return None

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        """Result of the kernel of ``op`` for operands of this kind.

        Args:
            values: arrays, numbers and attributes in the signature's order.
            compute, result: dtypes to compute with and of the result; None for the operands' own.
        """
        arrays = cast_operands(op, values, compute)
        plain = [_scalar(array) if array.__class__ is np.ndarray and not array.ndim else array for array in arrays]
        return call_kernel(self.bound(op.kernel), op, plain)

    def on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that copies this kind's arrays to the host, calls ``function``, and copies results and what was written back."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given: list[Any] = [arg for arg in args if arg.__class__ is self.array_class]
            if not given:
                return function(*args, **kwargs)
            where = self.device_of(given[0])
            hosts = {id(array): self.to_host(array) for array in given}
            with self.drawing(where):
                result = function(*[hosts.get(id(value), value) for value in args], **kwargs)
            with self.on(where):
                for array in given:
                    array[...] = self.from_host(hosts[id(array)], where)
                return _mapped(result, lambda array: self.from_host(array, where))

        return call


def _scalar(array: np.ndarray) -> Any:
    """A 0-d array of the host as what may stand beside any array: NumPy's scalar; CuPy does not know those of ``ml_dtypes``."""
    return array[()] if array.dtype.kind != "V" else array.item()


def _mapped(result: Any, function: Callable[[np.ndarray], Any]) -> Any:
    """A result with ``function`` applied to its NumPy arrays."""
    if result.__class__ is tuple or result.__class__ is list:
        return type(result)([_mapped(item, function) for item in result])
    return function(result) if result.__class__ is np.ndarray else result


class Host(Kind):
    """NumPy arrays, the CPU's."""

    name, array_class, xp = "cpu", np.ndarray, np

    def device_of(self, array: Any) -> device:
        return cpu

    def address(self, array: Any) -> int:
        return array.__array_interface__["data"][0]

    def to_host(self, array: Any) -> np.ndarray:
        return array.copy()

    def from_host(self, array: np.ndarray, where: device) -> Any:
        return array.copy(order="K")

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
        return np.ndarray(shape, kind, base, offset, strides)

    def placed(self, where: device) -> device:
        return where

    def make(self, where: device, function: Callable[..., Any], *args: Any) -> Any:
        return pinned(function(*args)) if where is pinned_host else function(*args)

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def choice_for(self, op: Op) -> native.Choice | None:
        return native.choice_for(op)

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        """A native kernel for large operands, if there is one that takes them; else the reference kernel."""
        if op.elementwise:
            output = native.run_elementwise(op, values, compute, result)
            if output is not None:
                return output
        if op.in_bfloat16:
            output = self.run_in_bfloat16(op, values, result)
            if output is not None:
                return output
        arrays = values if compute is None else cast_operands(op, values, compute)
        if not op.elementwise and native.switch.on:
            try:
                choice = native.choices[op]
            except KeyError:
                choice = native.choice_for(op)
            output = native.call_native(choice.name, *arrays) if choice is not None and choice.pays(arrays) else None
            if output is not None:
                return output
        return call_kernel(op.kernel, op, arrays) if op.keyword_names else op.kernel(*arrays)

    def run_native(self, op: Op, values: Sequence[Any], compute: dtype | None, result: dtype | None) -> Any:
        """As ``run``, by a native kernel however little there is to do; None where there is none, or it declines."""
        if op.elementwise:
            return native.run_elementwise(op, values, compute, result)
        return native.call_native(op.key, *(values if compute is None else cast_operands(op, values, compute)))

    def run_in_bfloat16(self, op: Op, values: Sequence[Any], result: dtype | None) -> Any:
        """As ``run_native``, by the kernel that takes bfloat16 as it comes."""
        return native.call_native(f"bfloat16:{op.key}", *values) if op.in_bfloat16 and result is bfloat16 else None


def call_kernel(kernel: Callable[..., Any], op: Op, arrays: list[Any]) -> Any:
    """``kernel`` with arguments in the signature's order."""
    names = op.keyword_names
    if not names:
        return kernel(*arrays)
    split = len(arrays) - len(names)
    return kernel(*arrays[:split], **dict(zip(names, arrays[split:], strict=True)))


host = Host()
KINDS: dict[type, Kind] = {}  # by array class, the host's left out: empty means that every tensor is the CPU's
BY_DEVICE: dict[str, Kind] = {"cpu": host}
LATE = {"meta": "meta", "cuda": "cuda"}  # modules of this folder that register a kind when it is first asked for


def register(kind: Kind) -> Kind:
    """Make a kind known; tensors may hold its arrays from now on."""
    BY_DEVICE[kind.name] = kind
    native.foreign.add(kind.array_class)
    KINDS[kind.array_class] = kind
    return kind


def kind_of(array: Any) -> Kind:
    return host if array.__class__ is np.ndarray else KINDS.get(array.__class__, host)


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array, of whatever kind."""
    return value.__class__ in KINDS or isinstance(value, np.ndarray)


def surely(condition: Any) -> bool:
    """Whether a tensor of one bool is true; True where there are no values, so that a check passes."""
    if interpreters and (answer := modes.transforms.surely(condition)) is not NotImplemented:
        return answer
    return not kind_of(condition._array).has_values or bool(condition)


def perhaps(condition: Any) -> bool:
    """Whether a tensor of one bool is true; False where there are no values, so that the general way is taken."""
    if interpreters and (answer := modes.transforms.perhaps(condition)) is not NotImplemented:
        return answer
    return kind_of(condition._array).has_values and bool(condition)


class MissingValue(RuntimeError):
    """A number is read, which is not there."""


class MissingValues(NotImplementedError):
    """Values are read of an array that has none."""


def missing_values(name: str) -> NoReturn:
    """Complain about an operation whose result, or its shape, depends on values that an array does not have."""
    raise MissingValues(
        f"aten::{name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered: "
        "what it returns depends on values, and tensors on the meta device have none."
    )


def device_of(array: Any) -> device:
    return kind_of(array).device_of(array)


def address(array: Any) -> int:
    """Of an array's first element."""
    return array.__array_interface__["data"][0] if array.__class__ is np.ndarray else kind_of(array).address(array)


def view_at(base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
    """A view of the memory of ``base``, a dense array, ``offset`` bytes on; strides in bytes."""
    if base.__class__ is np.ndarray:
        return np.ndarray(shape, kind, base, offset, strides)
    return kind_of(base).view_at(base, shape, kind, offset, strides)


def kind_at(where: device) -> Kind | None:
    """The kind of arrays that a device's tensors have; None where this build has none."""
    kind = BY_DEVICE.get(where._kind)
    if kind is None and where._kind in LATE:
        importlib.import_module(f"{__package__}.{LATE[where._kind]}")
        kind = BY_DEVICE.get(where._kind)
    return kind


def place_of(where: Any, operation: str = "tensor") -> device:
    """``where`` as a device that tensors can be made on, with its index; None means the CPU.

    Raises:
        AssertionError: a CUDA device, as PyTorch's CPU build raises.
        NotImplementedError: any other device that is not there.
    """
    if where is None:
        return cpu
    target = device(where)
    kind = kind_at(target)
    if kind is not None:
        return kind.placed(target)
    if target.type == "cuda":
        raise AssertionError("Torch not compiled with CUDA enabled")
    raise NotImplementedError(f"{operation}: tensors on device '{target}' are not supported yet; use device 'cpu'")


def make_at(where: device, function: Callable[..., Any], *args: Any) -> Any:
    """Array that ``function(*args)`` makes, on that device."""
    return function(*args) if where is cpu else BY_DEVICE[where._kind].make(where, function, *args)


def moved(array: Any, where: device) -> Any:
    """``array`` on another device; itself where it lies there."""
    source = kind_of(array)
    if source.device_of(array) == where:
        return array
    target = BY_DEVICE[where._kind]
    if source is target:
        return target.across(array, where)
    return target.from_host(array if source is host else source.to_host(array), where)


def on_device_of(array: Any) -> AbstractContextManager[Any]:
    """Context in which work is done on the device where ``array`` lies."""
    kind = kind_of(array)
    return kind.on(kind.device_of(array))


class Copying(threading.local):
    """Whether the copy that this thread makes to a device may go on while the host continues."""

    non_blocking = False

    @contextmanager
    def without_waiting(self, non_blocking: bool) -> Iterator[None]:
        """Context in which ``non_blocking`` is that of the caller of ``Tensor.to``."""
        before, self.non_blocking = self.non_blocking, non_blocking
        try:
            yield
        finally:
            self.non_blocking = before


copying = Copying()


def pinning_kind(message: str) -> Any:
    """The kind that lends page-locked memory.

    Raises:
        RuntimeError: there is none; ``message``.
    """
    kind = kind_at(device("cuda"))
    if kind is None:
        raise RuntimeError(message)
    return kind


def pinned(array: np.ndarray) -> np.ndarray:
    """A copy of an array in page-locked memory, with its strides; itself where it lies there."""
    return array if is_pinned(array) else BY_DEVICE["cuda"].pinned_like(array)  # type: ignore[attr-defined]


def is_pinned(array: Any) -> bool:
    """Whether an array lies in page-locked memory of the host; False as long as CUDA was not used."""
    kind: Any = BY_DEVICE.get("cuda")
    return kind is not None and array.__class__ is np.ndarray and kind.is_pinned(array)


def copied(array: Any, order: str = "C") -> Any:
    """A copy where ``array`` lies: CuPy would make it on the current device."""
    if not crowded:
        return array.copy(order=order)
    with on_device_of(array):
        return array.copy(order=order)


def fill_array(array: Any, value: Any) -> None:
    """Write one value to every element, on whatever device."""
    if array.dtype == PAIR and not isinstance(value, np.void):
        value = np.array((value.real, value.imag), PAIR)[()]
    if array.__class__ is np.ndarray:
        fill(array, value)
        return
    with on_device_of(array):
        array.fill(value.item() if isinstance(value, np.generic) else value)


def sent(array: Any, wanted: dtype, where: device, non_blocking: bool) -> Any:
    """``array`` with another dtype on a device; where ``non_blocking``, a copy from pinned memory may go on while the host continues."""
    if crowded:
        with on_device_of(array):
            array = cast_array(array, wanted)
    else:
        array = cast_array(array, wanted)
    if not non_blocking:
        return moved(array, where)
    with copying.without_waiting(True):
        return moved(array, where)


def as_array(result: Any) -> Any:
    """A kernel's result as an array: NumPy's scalars become 0-d arrays, arrays of other kinds and symbols of a tracer stay."""
    return result if result.__class__ in KINDS or hasattr(result, "writer") else np.asarray(result)


def mixed_devices(where: device, other: device) -> RuntimeError:
    return RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {where} and {other}!")


def check_same_device(target: Any, array: Any) -> None:
    """Raise where a result would be written to another device."""
    if target.__class__ is not array.__class__ or (KINDS and device_of(target) != device_of(array)):
        raise mixed_devices(device_of(array), device_of(target))


def kind_of_call(op: Any, arrays: Sequence[Any]) -> Kind:
    """Kind of array whose kernels a call gets. 0-d arrays of the CPU may stand beside any other.

    Raises:
        RuntimeError: operands on two devices.
    """
    if not KINDS:
        return host
    if op.any_device:
        kinds = [kind_of(array) for array in arrays]
        return next((kind for kind in kinds if not kind.has_views), kinds[0]) if arrays else host
    where = None
    chosen: Kind = host
    for array in arrays:
        kind = kind_of(array)
        if kind is host and not array.ndim:
            continue
        place = kind.device_of(array)
        if where is None:
            chosen, where = kind, place
        elif chosen is host and where == place:
            chosen = kind  # sparse beside dense
        elif where != place:
            raise mixed_devices(where, place)
    return chosen
