"""Arrays of tensors around others: a shape, strides, a dtype and a device that they say they have, and no values.

No kernel runs on them. Their tensors' classes have ``__torch_dispatch__``, which gets every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..calls.operation import Op
from ..device import cpu, device
from ..dtype import dtype
from .kinds import KINDS, MissingValue, MissingValues, register
from .meta import Meta, meta
from .meta_array import MetaArray, framed

_new = object.__new__


class HollowArray(MetaArray):
    """An array without values that says it lies on ``_where``."""

    __slots__ = ("_where",)
    _where: device

    def item(self, *place: Any) -> NoReturn:
        raise MissingValue("Cannot access the values of a tensor that wraps others; its class's __torch_dispatch__ must answer")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise MissingValues("a tensor that wraps others has no values of its own")

    def __array_ufunc__(self, function: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise MissingValues(f"{function.__name__}: a tensor that wraps others has no values of its own")

    def __array_function__(self, function: Any, *args: Any) -> NoReturn:
        raise MissingValues(f"{function.__name__}: a tensor that wraps others has no values of its own")

    def copy(self, order: Any = "C") -> MetaArray:
        return hollow(super().copy(order), self._where)

    def astype(self, kind: Any, order: Any = "K", copy: bool = True, **casting: Any) -> MetaArray:
        return hollow(super().astype(kind, order, copy), self._where)


class Hollow(Meta):
    """Interface between the package and these arrays."""

    name, array_class = "hollow", HollowArray

    def device_of(self, array: Any) -> device:
        return array._where

    def placed(self, where: device) -> device:
        return where

    def to_host(self, array: Any) -> np.ndarray:
        raise MissingValue("Cannot access the values of a tensor that wraps others; its class's __torch_dispatch__ must answer")

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> MetaArray:
        return hollow(super().view_at(base, shape, kind, offset, strides), base._where)

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return meta.bound(function)

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        raise MissingValues(
            f"{op.name}: a tensor that wraps others has no values of its own; the __torch_dispatch__ of its class must take the call"
        )


def hollow(array: MetaArray, where: device = cpu) -> HollowArray:
    """The same shape, strides and dtype as an array of meta, said to lie on a device."""
    made = _new(HollowArray)
    made._frame, made._truth, made._where = array._frame, False, where
    return made


def filled(array: Any) -> MetaArray:
    """The array of meta with the same memory."""
    return framed(array._frame)


if HollowArray not in KINDS:
    register(Hollow())
