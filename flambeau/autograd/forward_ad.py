"""Forward-mode differentiation: tensors have tangents, and so have the results that are computed from them.

>>> import flambeau as torch
>>> from flambeau.autograd import forward_ad
>>> with forward_ad.dual_level():
...     x = forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
...     forward_ad.unpack_dual(x * x)
UnpackedDualTensor(primal=tensor([1., 4.]), tangent=tensor([2., 0.]))

When the level ends, its tensors lose their tangents and are plain ones. The interpreter is ``func._dual``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.late import from_above
from ..core.state import thread, unwound
from ..core.tensor import Tensor
from .grad_mode import _ContextDecorator

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """The result of ``unpack_dual``.

    Attributes:
        primal: the value, without a tangent.
        tangent: of the same shape; None where there is none.
    Source: torch.autograd.forward_ad.UnpackedDualTensor.
    Example:
        >>> UnpackedDualTensor(primal=torch.ones(1), tangent=None).tangent is None
        True
    """

    primal: Tensor
    tangent: Tensor | None


def _levels() -> list[Any]:
    """The levels that are open in this thread."""
    return [each for each in thread.levels if getattr(each, "is_dual_level", False)]


def _chosen(level: int | None) -> Any:
    """The open level; None where there is none, or it is not the one meant."""
    found = _levels()
    return found[-1] if found and level in (None, 0) else None


def enter_dual_level() -> int:
    """Open a level in which tensors can have tangents, and return its number, 0.

    Returns: 0.
    Raises:
        RuntimeError: one is open already.
    Source: torch.autograd.forward_ad.enter_dual_level.
    Example:
        >>> enter_dual_level()
        0
        >>> exit_dual_level()
    """
    if _levels():
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    from_above("func._dual_level").DualLevel().__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: tensors lose their tangents.

    Args:
        level: its number; the last one opened when None.
    Raises:
        RuntimeError: no level is open, or another one.
    Source: torch.autograd.forward_ad.exit_dual_level.
    Example:
        >>> level = enter_dual_level()
        >>> exit_dual_level(level=level)
    """
    found = _levels()
    if not found and level is None:
        raise RuntimeError("Dual level must be a positive number.")
    if not found or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not supported.")
    found[-1].__exit__(None, None, None)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """``tensor`` with a tangent: a view of it, which requires grad if it does.

    Args:
        tensor: floating point or complex, without a tangent at this level.
        tangent: of the same shape; where it lies in memory as ``tensor`` does, the tangent is a view of it.
        level: the level; the innermost when None.
    Returns: a tensor of the same shape.
    Raises:
        RuntimeError: no level is open, shapes differ, or a tangent on either of the two.
        ValueError: integers or bools.
    Source: torch.autograd.forward_ad.make_dual.
    Example:
        >>> with dual_level():
        ...     x = make_dual(torch.tensor(3.0), torch.tensor(1.0))
        ...     unpack_dual(x * x).tangent
        tensor(6.)
    """
    owner = _chosen(level)
    if owner is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    return owner.dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor, and its tangent.

    Args:
        tensor: any tensor, of any shape.
        level: the level; the innermost when None.
    Returns:
        A named tuple (primal, tangent); the tangent of a tensor that has none is None.
    Raises:
        TypeError: no tensor.
    Source: torch.autograd.forward_ad.unpack_dual.
    Example:
        >>> with dual_level():
        ...     x = make_dual(torch.zeros(2), torch.ones(2))
        ...     unpack_dual(x.exp())
        UnpackedDualTensor(primal=tensor([1., 1.]), tangent=tensor([1., 1.]))
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    owner = _chosen(level)
    return UnpackedDualTensor(tensor, None) if owner is None else UnpackedDualTensor(*owner.unpacked(tensor))


class dual_level(_ContextDecorator):
    """Context and decorator in which tensors can have tangents.

    Returns: the context gives the level's number.
    Raises:
        RuntimeError: a level is open already.
    Source: torch.autograd.forward_ad.dual_level.
    Example:
        >>> with dual_level() as level:
        ...     unpack_dual(torch.ones(1)).tangent is None
        True
    """

    @unwound
    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc_info: Any) -> None:
        try:
            self._close()
        except BaseException:  # an interrupt, before or after it
            self._close()
            raise

    def _close(self) -> None:
        if _levels():  # a program may have closed it
            exit_dual_level(level=0)


class _set_fwd_grad_enabled(_ContextDecorator):
    """Switch the computing of tangents by a flag: at once as a function call, and restored on exit as a context."""

    def __init__(self, mode: bool):
        self.prev = thread.forward_grad
        self.mode = bool(mode)
        thread.forward_grad = self.mode

    def __call__(self, function: Any) -> Any:
        thread.forward_grad = self.prev
        return super().__call__(function)

    def __enter__(self) -> None:
        thread.forward_grad = self.mode

    def __exit__(self, *exc_info: Any) -> None:
        thread.forward_grad = self.prev

    def clone(self) -> Any:
        return type(self)(self.mode)


def _is_fwd_grad_enabled() -> bool:
    """Whether this thread computes tangents."""
    return thread.forward_grad
