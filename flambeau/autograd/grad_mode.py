"""Switches for recording: ``no_grad``, ``enable_grad``, ``set_grad_enabled``, ``inference_mode``; per thread."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ..core.state import set_grad, set_inference, thread


class _ContextDecorator:
    """A context manager that also decorates functions, generator functions and classes' ``__init__``-free callables."""

    def clone(self) -> Any:
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc_info: Any) -> None:
        raise NotImplementedError

    def __call__(self, function: Any) -> Any:
        if inspect.isclass(function):
            raise TypeError(f"{type(self).__name__}: cannot decorate a class; decorate its methods instead")
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self.clone, function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped


def _wrap_generator(make: Any, function: Any) -> Any:
    """The generator function with the context entered only while the generator's own code runs."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        try:
            with make():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make():
                        generator.close()
                    raise
                except BaseException as error:
                    with make():
                        response = generator.throw(error)
                else:
                    with make():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapped


class _NoParameters(_ContextDecorator):
    """Usable with and without parentheses as a decorator."""

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None):
        self._was: list[bool] = []


class no_grad(_NoParameters):
    """Context and decorator in which nothing is recorded; results do not require grad.

    Source: torch.no_grad.
    """

    def __enter__(self) -> None:
        self._was.append(thread.grad_mode)
        set_grad(False)

    def __exit__(self, *exc_info: Any) -> None:
        set_grad(self._was.pop())


class enable_grad(_NoParameters):
    """Context and decorator in which operations are recorded, also inside ``no_grad``.

    Source: torch.enable_grad.
    """

    def __enter__(self) -> None:
        self._was.append(thread.grad_mode)
        set_grad(True)

    def __exit__(self, *exc_info: Any) -> None:
        set_grad(self._was.pop())


class set_grad_enabled(_ContextDecorator):
    """Switch recording by a flag: at once as a function call, and restored on exit as a context.

    Args:
        mode: True to record.
    Source: torch.set_grad_enabled.
    """

    def __init__(self, mode: bool):
        self.prev = thread.grad_mode
        self.mode = bool(mode)
        set_grad(self.mode)

    def __call__(self, function: Any) -> Any:
        set_grad(self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        set_grad(self.mode)

    def __exit__(self, *exc_info: Any) -> None:
        set_grad(self.prev)

    def clone(self) -> Any:
        return type(self)(self.mode)

    def __str__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_ContextDecorator):
    """Context and decorator for code that will never meet autograd: no recording, and results can never be recorded either.

    Args:
        mode: True to switch on, False to switch off.
    Source: torch.inference_mode.
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if isinstance(mode, bool):
            return self
        cls.__init__(self)
        return self(mode)

    def __init__(self, mode: bool = True):
        self.mode = mode if isinstance(mode, bool) else True
        self._was: list[tuple[bool, bool]] = []

    def clone(self) -> Any:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        self._was.append((thread.inference, thread.grad_mode))
        set_inference(self.mode, not self.mode)

    def __exit__(self, *exc_info: Any) -> None:
        set_inference(*self._was.pop())


def is_grad_enabled() -> bool:
    """Whether this thread's grad mode is on; in inference mode nothing is recorded all the same. Source: torch.is_grad_enabled."""
    return thread.grad_mode


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread. Source: torch.is_inference_mode_enabled."""
    return thread.inference
