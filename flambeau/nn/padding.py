"""Padding layers: a border of constants, mirror images, copies of the edge, or the other side."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from ._tuples import repeated
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip

_DOC = """{what}

    Args:
        padding: elements before and after, last dimension first: ``(left, right{more})``; one number for all sides.{value}
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Source: torch.nn.{name}.
    """
_AXES = {1: "L", 2: "H, W", 3: "D, H, W"}
_LAST = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}
_MORE = {1: "", 2: ", top, bottom", 3: ", top, bottom, front, back"}


def _doc(what: str, name: str, dims: int, value: str = "") -> str:
    return _DOC.format(what=what, name=name, more=_MORE[dims], axes=_AXES[dims], value=value)


class _Pad(Module):
    """A border of ``_mode`` around the last ``_dims`` dimensions."""

    __constants__ = ["padding"]
    _dims = 0
    _mode = ""
    padding: tuple[int, ...]

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self._dims)

    def extra_repr(self) -> str:
        return f"{self.padding}"

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)


class _ConstantPad(_Pad):
    __constants__ = ["padding", "value"]

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPad(_Pad):
    """A circular border, which looks at the number of dimensions itself."""

    def forward(self, input: Tensor) -> Tensor:
        dims = self._dims
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(f"expected {dims + 1}D or {dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


def _family(
    name: str, mode: str, what: str, base: type[_Pad] = _Pad, *, value: str = "", also: tuple[Any, ...] = ((), (), ())
) -> tuple[Any, Any, Any]:
    """The classes ``<name>1d``, ``<name>2d`` and ``<name>3d`` over ``base``, and each over one of ``also``."""
    classes = []
    for dims, others in zip((1, 2, 3), also):
        doc = _doc(what.format(last=_LAST[dims]), f"{name}{dims}d", dims, value)
        namespace = {"__doc__": doc, "__module__": __name__, "_dims": dims, "_mode": mode}
        classes.append(type(f"{name}{dims}d", (base, *others), namespace))
    return classes[0], classes[1], classes[2]


ConstantPad1d, ConstantPad2d, ConstantPad3d = _family(
    "ConstantPad", "constant", "Puts a border of ``value`` around {last}.", _ConstantPad, value="\n        value: of the border."
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _family(
    "ZeroPad", "constant", "Puts a border of zeros around {last}.", _ZeroPad, also=((ConstantPad1d,), (ConstantPad2d,), (ConstantPad3d,))
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _family(
    "ReflectionPad", "reflect", "Continues the input by its mirror image, without repeating the edge."
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _family("ReplicationPad", "replicate", "Continues the input by copies of its edge.")
CircularPad1d, CircularPad2d, CircularPad3d = _family("CircularPad", "circular", "Continues the input by its other side.", _CircularPad)
