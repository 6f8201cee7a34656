"""Modes of ``__torch_function__``, which see every operation that is called inside them."""

from __future__ import annotations

from typing import Any

from ..state import active, thread
from . import getters


class TorchFunctionMode:
    """A context whose ``__torch_function__(func, types, args, kwargs)`` sees every operation called inside it.

    Source: torch.overrides.TorchFunctionMode.
    Example:
        >>> class Count(torch.overrides.TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         return print("called", func.__name__) or func(*args, **(kwargs or {}))
        >>> with Count():
        ...     y = torch.ones(2)
        called ones
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")

    def __enter__(self) -> Any:
        getters.enter_mode()
        thread.function_modes = (*thread.function_modes, self)  # no call from here on: see ``state``
        thread.modes += 1
        active[:0] = (None,)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        if not thread.function_modes:
            raise RuntimeError("trying to pop from empty mode stack")
        thread.function_modes = thread.function_modes[:-1]
        thread.modes -= 1
        del active[-1:]
        getters.leave_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new instance, in PyTorch's first versions."""
        return cls(*args, **kwargs)


def push_mode(mode: Any) -> None:
    """Have a mode see the calls of this thread, the innermost one first."""
    TorchFunctionMode.__enter__(mode)


def pop_mode() -> Any:
    """Take the innermost mode off the stack.

    Raises:
        RuntimeError: there is none.
    """
    mode: Any = thread.function_modes[-1] if thread.function_modes else None
    TorchFunctionMode.__exit__(mode)
    return mode
