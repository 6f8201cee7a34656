"""Kinds of array: what a tensor's ``_array`` may be beside a NumPy array, and who runs kernels on it.

    kind     array class      what it is for
    host     numpy.ndarray    the CPU
    meta     MetaArray        shape, strides and dtype without values
    cuda     cupy.ndarray     NVIDIA GPUs
    private  PrivateArray     ``privateuse1``: an array that refuses what CuPy refuses; tests run every operation on it

A tensor's device follows from the class of its array, so there is nothing to keep in step, and a tensor of the CPU is not larger for it.
The generated fast paths know NumPy arrays only; on the slow path ``kind_of_call`` decides, once per call, which kind's ``run`` gets it.

Reference kernels are written with the global name ``np``.  For another kind they are made again around the same code with ``np`` bound to
that kind's own module (``Binder``), so that they need no further argument, and the CPU pays nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import native
from .binder import Binder
from .casting import cast_operands
from .device import cpu, device
from .dtype import dtype
from .operation import Op


class Kind:
    """One class of arrays, and what the package must know of it.

    Attributes:
        name: the device type that shows it.
        array_class: class of its arrays. They have NumPy's attributes and operators.
        xp: the module of NumPy's functions over such arrays.
        hosted: functions of the package that work on host memory only (random streams, say); they get copies of the arrays there, and
            what they wrote is copied back.
    """

    name: str
    array_class: type
    xp: Any
    hosted: frozenset[Callable[..., Any]] = frozenset()

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

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
        """A view of the memory of ``base``, from ``offset`` bytes behind its first element on; strides in bytes."""
        raise NotImplementedError

    # -- what follows -----------------------------------------------------------------------------------------------------------------
    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` with NumPy's names bound to this kind's module, in it and in every helper that it reaches."""
        return self._binder.function(function)

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        """What the kernel of ``op`` returns for operands of this kind; here it is decided which kernel that is.

        Args:
            values: arrays, numbers and attributes in the signature's order.
            compute, result: dtypes to compute with and of the result; None for the operands' own.
        """
        arrays = cast_operands(op, values, compute)
        # what lies in the host's memory has no dimensions: NumPy's scalars are welcome beside any array
        plain = [each[()] if each.__class__ is np.ndarray and not each.ndim else each for each in arrays]
        return call_kernel(self.bound(op.kernel), op, plain)

    def on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that copies this kind's arrays to the host, calls ``function``, and copies results and what was written back."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given: list[Any] = [each for each in args if each.__class__ is self.array_class]
            hosts = {id(each): self.to_host(each) for each in given}
            made = function(*[hosts.get(id(each), each) for each in args], **kwargs)
            for each in given:
                each[...] = self.from_host(hosts[id(each)], self.device_of(each))
            return self.from_host(made, self.device_of(given[0])) if given and made.__class__ is np.ndarray else made

        return call


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

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        """A native kernel for large operands, if there is one that takes them; else the reference kernel."""
        if op.elementwise:
            made = native.pointwise(op, values, compute, result)
            if made is not None:
                return made
        arrays = values if compute is None else cast_operands(op, values, compute)
        if not op.elementwise:
            first: Any = arrays[op.positions[0]] if op.positions else None
            if first.__class__ is list:
                first = first[0] if first else None
            if first.__class__ is np.ndarray and first.size >= native.LARGE:
                found = native.attempt(native.key_of(op), *arrays)
                if found is not None:
                    return found
        return call_kernel(op.kernel, op, arrays) if op.keyword_names else op.kernel(*arrays)


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


def register(kind: Kind) -> Kind:
    """Make a kind known; tensors may hold its arrays from now on."""
    BY_DEVICE[kind.name] = kind
    KINDS[kind.array_class] = kind
    return kind


def kind_of(array: Any) -> Kind:
    return host if array.__class__ is np.ndarray else KINDS.get(array.__class__, host)


def device_of(array: Any) -> device:
    return kind_of(array).device_of(array)


def as_array(made: Any) -> Any:
    """A kernel's result as an array: NumPy's scalars become 0-d arrays, arrays of other kinds and symbols of a tracer stay."""
    return made if made.__class__ in KINDS or hasattr(made, "writer") else np.asarray(made)


def kind_of_call(op: Any, arrays: Sequence[Any]) -> Kind:
    """Whose kernels a call gets. 0-d arrays of the CPU may stand beside any other.

    Raises:
        RuntimeError: operands on two devices.
    """
    if not KINDS:
        return host
    found: Kind = host
    where: device | None = None
    for array in arrays:
        kind = kind_of(array)
        place = kind.device_of(array)
        if where is None or where == place:
            found, where = kind, place
            continue
        if place == cpu and not array.ndim:
            continue
        if where == cpu and not any(each.ndim for each in arrays if kind_of(each) is host):
            found, where = kind, place
            continue
        if getattr(op, "any_device", False):
            found = kind if found is host else found
            continue
        raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {where} and {place}!")
    return found
