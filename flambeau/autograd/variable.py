"""``Variable`` of old programs: a tensor by another name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core.state import thread
from ..core.tensor import Tensor

_VOLATILE = "volatile was removed (Variable.volatile is always False): use `with torch.no_grad():` instead"


class VariableMeta(type):
    """The metaclass of ``Variable``, of which every tensor is an instance.

    Source: torch.autograd.variable.VariableMeta.
    Example:
        >>> isinstance(torch.ones(1), torch.autograd.Variable), isinstance(1, torch.autograd.Variable)
        (True, False)
    """

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """The engine as programs ask it for an end of the pass: ``Variable._execution_engine``."""

    @staticmethod
    def queue_callback(callback: Callable[[], None]) -> None:
        """Call ``callback`` at the end of this thread's backward pass, when gradients are there.

        Raises:
            RuntimeError: there is no such pass.
        """
        if thread.running is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        thread.running.at_end.append(callback)


class Variable(metaclass=VariableMeta):
    """Returns ``data`` as a tensor outside the graph, sharing its memory; kept for old programs.

    Args:
        data: a tensor; an empty one when None.
        requires_grad: whether operations on it are recorded.
        volatile: has no effect, and warns when True.
    Raises:
        TypeError: ``data`` is no tensor.
        ValueError: ``volatile`` together with ``requires_grad``.
        RuntimeError: an integer tensor that shall require grad.
    Example:
        >>> import flambeau as torch
        >>> x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
        >>> x, isinstance(x, torch.autograd.Variable)
        (tensor([1., 1.], requires_grad=True), True)

    Source: torch.autograd.Variable.
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        if volatile:
            warnings.warn(_VOLATILE, UserWarning, stacklevel=2)
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        tensor = data.detach()
        return tensor.requires_grad_() if requires_grad else tensor


def _volatile(self: Tensor) -> bool:
    """Always False; warns. Old programs marked inputs of inference so."""
    warnings.warn(_VOLATILE, UserWarning, stacklevel=2)
    return False


def _set_volatile(self: Tensor, value: bool) -> None:
    warnings.warn(_VOLATILE, UserWarning, stacklevel=2)


def _creator(self: Tensor) -> Any:
    """Old name of ``grad_fn``."""
    warnings.warn("Tensor.creator is deprecated: use Tensor.grad_fn", FutureWarning, stacklevel=2)
    return self.grad_fn


Tensor.volatile = property(_volatile, _set_volatile)  # type: ignore[attr-defined]
Tensor.creator = property(_creator)  # type: ignore[attr-defined]

__all__ = ["Variable", "VariableMeta"]
