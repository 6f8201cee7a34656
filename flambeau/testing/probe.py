"""A device for tests, ``privateuseone``: what works on it is likely to work on a GPU.  Importing this module registers it.

Its arrays refuse what CuPy's refuse (``device_array``), and kernels see them through the namespace that is over CuPy, too
(``core/device_numpy``).  It is a module of its own, above the core, because nothing but tests and their programs should pay for it or
depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.arrays.device_numpy import Namespace
from ..core.arrays.kinds import Kind, register
from ..core.device import device
from .device_array import MISSING_SPECIAL, DeviceArray, Module, reads, view_at


class ProbeArray(DeviceArray):
    """A strided, mutable array on the probe.

    Source: cupy.ndarray, as far as its behaviour goes.
    Example:
        >>> array = raw.asarray(np.ones(2))
        >>> type(array).__name__, array.get().tolist()
        ('ProbeArray', [1.0, 1.0])
    """

    __slots__ = ()


raw = Module(ProbeArray)  # what the module ``cupy`` is to CuPy's arrays
xp = Namespace(raw)


class Probe(Kind):
    """The kind of the tests' device.

    Source: the array kind of CUDA, which it stands in for.
    Example:
        >>> probe.name, probe.to_host(raw.asarray(np.ones(2))).tolist()
        ('privateuseone', [1.0, 1.0])
    """

    name, array_class, xp = "privateuseone", ProbeArray, xp

    @cached_property
    def special(self) -> Any:
        from scipy import special

        return Namespace(Module(ProbeArray, special, "cupyx.scipy.special", MISSING_SPECIAL), special, raw)

    def device_of(self, array: Any) -> device:
        return _DEVICE

    def address(self, array: Any) -> int:
        return array.data.ptr

    def to_host(self, array: Any) -> np.ndarray:
        return array.get()

    def from_host(self, array: np.ndarray, where: device) -> Any:
        return ProbeArray._put(array.copy(order="K"))

    def view_at(self, base: Any, shape: Sequence[int], kind: np.dtype, offset: int, strides: Sequence[int]) -> Any:
        return ProbeArray._put(view_at(base, shape, kind, offset, strides))

    def placed(self, where: device) -> device:
        if where.index:
            raise RuntimeError(f"invalid device ordinal: there is one {self.name} device, got index {where.index}")
        return _DEVICE


_DEVICE = device("privateuseone", 0)
probe = register(Probe())

__all__ = ["Probe", "ProbeArray", "probe", "raw", "reads", "xp"]
