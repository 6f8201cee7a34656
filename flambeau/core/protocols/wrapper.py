"""Tensors that say more of another tensor: which of its elements count (``MaskedTensor``), where its sequences end (``NestedTensor``).

The tensor inside is a plain one, and it alone stands on the tape, so that views, writes and gradients need nothing of their own. A
wrapper's class gets every call (``__torch_function__``), those that derivative rules make included, and replaces it by calls on
what is inside.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from ..state import wrappers
from ..tape.hooks import RemovableHandle
from ..tensor import Tensor


class WrapperTensor(Tensor):
    """A tensor around the tensor ``_inner``, whose memory, history and gradient it shows as its own."""

    __slots__ = ()
    _inner: Tensor

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        wrappers.add(cls)

    def _wrapping(self, inner: Tensor) -> Any:
        """Another tensor of the same kind, which says of ``inner`` what this one says of ``_inner``."""
        raise NotImplementedError

    def _gradient(self, gradient: Tensor) -> Any:
        """A gradient of ``_inner`` as users see it."""
        return gradient if gradient.__class__ in wrappers else self._wrapping(gradient)

    @property
    def grad(self) -> Any:
        gradient = self._inner.grad
        return None if gradient is None else self._gradient(gradient)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._inner.grad = value._inner if value.__class__ in wrappers else value

    @grad.deleter
    def grad(self) -> None:
        self._inner.grad = None

    @property
    def data(self) -> Any:
        return self._wrapping(self._inner.data)

    @data.setter
    def data(self, value: Any) -> None:
        self._inner.data = value._inner if value.__class__ in wrappers else value

    @property
    def requires_grad(self) -> bool:
        return self._inner.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._inner.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self._inner.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        self._inner.retain_grad()

    def register_hook(self, hook: Any) -> RemovableHandle:
        def of_inner(gradient: Tensor) -> Any:
            replaced = hook(self._gradient(gradient))
            return replaced._inner if replaced.__class__ in wrappers else replaced

        return self._inner.register_hook(of_inner)

    def register_post_accumulate_grad_hook(self, hook: Any) -> RemovableHandle:
        return self._inner.register_post_accumulate_grad_hook(lambda _: hook(self))

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            if not self.is_leaf:
                raise RuntimeError(
                    "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
                )
            memo[id(self)] = self._wrapping(self._inner.detach().clone()).requires_grad_(self.requires_grad)
        return memo[id(self)]

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def tolist(self) -> Any:
        raise RuntimeError(f".tolist() is not supported for tensor subclasses, got {type(self).__name__}")


def of_inner(name: str) -> property:
    """A property that is the inner tensor's, and cannot be set."""
    return property(attrgetter(f"_inner.{name}"))


def _slot_of_inner(name: str) -> property:
    return property(lambda self: getattr(self._inner, name), lambda self, value: setattr(self._inner, name, value))


for _name in ("_array", "_storage", "_node", "_view_of", "_requires_grad", "_grad"):
    setattr(WrapperTensor, _name, _slot_of_inner(_name))
for _name in ("grad_fn", "is_leaf", "retains_grad"):
    setattr(WrapperTensor, _name, of_inner(_name))
