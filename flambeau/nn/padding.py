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

_EXAMPLES = {
    "ConstantPad1d": """
        >>> nn.ConstantPad1d((2, 1), 7.0)(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[7., 7., 1., 2., 3., 7.]]])
    """,
    "ConstantPad2d": """
        >>> nn.ConstantPad2d((1, 1, 0, 1), 7.0)(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[7., 1., 2., 7.],
                  [7., 3., 4., 7.],
                  [7., 7., 7., 7.]]]])
    """,
    "ConstantPad3d": """
        >>> nn.ConstantPad3d((1, 1, 0, 0, 0, 1), 7.0)(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[7., 1., 2., 7.],
                [7., 3., 4., 7.],
                [7., 7., 7., 7.]])
    """,
    "ZeroPad1d": """
        >>> nn.ZeroPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[0., 0., 1., 2., 3., 0.]]])
    """,
    "ZeroPad2d": """
        >>> nn.ZeroPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[0., 1., 2., 0.],
                  [0., 3., 4., 0.],
                  [0., 0., 0., 0.]]]])
    """,
    "ZeroPad3d": """
        >>> nn.ZeroPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[0., 1., 2., 0.],
                [0., 3., 4., 0.],
                [0., 0., 0., 0.]])
    """,
    "ReflectionPad1d": """
        >>> nn.ReflectionPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[3., 2., 1., 2., 3., 2.]]])
    """,
    "ReflectionPad2d": """
        >>> nn.ReflectionPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[2., 1., 2., 1.],
                  [4., 3., 4., 3.],
                  [2., 1., 2., 1.]]]])
    """,
    "ReflectionPad3d": """
        >>> nn.ReflectionPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[2., 1., 2., 1.],
                [4., 3., 4., 3.],
                [2., 1., 2., 1.]])
    """,
    "ReplicationPad1d": """
        >>> nn.ReplicationPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[1., 1., 1., 2., 3., 3.]]])
    """,
    "ReplicationPad2d": """
        >>> nn.ReplicationPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[1., 1., 2., 2.],
                  [3., 3., 4., 4.],
                  [3., 3., 4., 4.]]]])
    """,
    "ReplicationPad3d": """
        >>> nn.ReplicationPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[1., 1., 2., 2.],
                [3., 3., 4., 4.],
                [3., 3., 4., 4.]])
    """,
    "CircularPad1d": """
        >>> nn.CircularPad1d((2, 1))(torch.tensor([[[1.0, 2.0, 3.0]]]))
        tensor([[[2., 3., 1., 2., 3., 1.]]])
    """,
    "CircularPad2d": """
        >>> nn.CircularPad2d((1, 1, 0, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        tensor([[[[2., 1., 2., 1.],
                  [4., 3., 4., 3.],
                  [2., 1., 2., 1.]]]])
    """,
    "CircularPad3d": """
        >>> nn.CircularPad3d((1, 1, 0, 0, 0, 1))(torch.tensor([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 2, 1, 2)).squeeze()
        tensor([[2., 1., 2., 1.],
                [4., 3., 4., 3.],
                [2., 1., 2., 1.]])
    """,
}
_DOC = """{what}

    Args:
        padding: elements before and after, last dimension first: ``(left, right{more})``; one number for all sides.{value}
    Shape:
        ``(N, C, {axes})`` or ``(C, {axes})``; each padded dimension grows by its two sides.
    Raises:
        {errors}
    Source: torch.nn.{name}.
    Example:{example}"""
_FEW = "RuntimeError: an input of fewer dimensions than are padded."
_ERRORS = {
    "ConstantPad": _FEW,
    "ZeroPad": _FEW,
    "ReflectionPad": "RuntimeError: a side as long as the dimension that it continues, or an input of too few dimensions.",
    "ReplicationPad": "RuntimeError: an input of too few dimensions.",
    "CircularPad": """RuntimeError: a side longer than the dimension that it continues.
        ValueError: an input of neither {low} nor {high} dimensions.""",
}
_AXES = {1: "L", 2: "H, W", 3: "D, H, W"}
_LAST = {1: "the last dimension", 2: "the last two dimensions", 3: "the last three dimensions"}
_MORE = {1: "", 2: ", top, bottom", 3: ", top, bottom, front, back"}


def _doc(what: str, name: str, dims: int, value: str = "") -> str:
    return _DOC.format(
        what=what,
        name=name,
        more=_MORE[dims],
        axes=_AXES[dims],
        value=value,
        errors=_ERRORS[name[:-2]].format(low=dims + 1, high=dims + 2),
        example=_EXAMPLES[name],
    )


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
