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


# An interrupt may be raised after any call of these methods. After one in ``__enter__``, ``__exit__`` is not called, and after one in
# ``__exit__``, it is not called again. So each method restores the modes by itself.
class _NoParameters(_ContextDecorator):
    """A grad mode, usable with and without parentheses as a decorator."""

    _enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function: Any = None):
        self._was: list[bool] = []

    def __enter__(self) -> None:
        was = thread.grad_mode
        self._was.append(was)
        try:
            set_grad(self._enabled)
        except BaseException:
            self._was.pop()
            set_grad(was)
            raise

    def __exit__(self, *exc_info: Any) -> None:
        was = self._was[-1]
        del self._was[-1]
        try:
            set_grad(was)
        except BaseException:
            set_grad(was)
            raise


class no_grad(_NoParameters):
    """Context and decorator in which nothing is recorded; results do not require grad.

    Args:
        function: what is decorated, for a decorator without parentheses.
    Source: torch.no_grad.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with no_grad():
        ...     y = 2 * x
        >>> y.requires_grad
        False
    """

    _enabled = False


class enable_grad(_NoParameters):
    """Context and decorator in which operations are recorded, also inside ``no_grad``.

    Args:
        function: what is decorated, for a decorator without parentheses.
    Source: torch.enable_grad.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> with no_grad(), enable_grad():
        ...     y = 2 * x
        >>> y.requires_grad
        True
    """

    _enabled = True


class set_grad_enabled(_ContextDecorator):
    """Switch recording by a flag: at once as a function call, and restored on exit as a context.

    Args:
        mode: True to record.
    Source: torch.set_grad_enabled.
    Example:
        >>> with set_grad_enabled(False):
        ...     is_grad_enabled()
        False
    """

    def __init__(self, mode: bool):
        self.prev = thread.grad_mode
        self.mode = bool(mode)
        try:
            set_grad(self.mode)
        except BaseException:
            set_grad(self.prev)
            raise

    def __call__(self, function: Any) -> Any:
        set_grad(self.prev)
        return super().__call__(function)

    def __enter__(self) -> None:
        try:
            set_grad(self.mode)
        except BaseException:
            set_grad(self.prev)
            raise

    def __exit__(self, *exc_info: Any) -> None:
        try:
            set_grad(self.prev)
        except BaseException:
            set_grad(self.prev)
            raise

    def clone(self) -> Any:
        return type(self)(self.mode)

    def __str__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class inference_mode(_ContextDecorator):
    """Context and decorator for code that will never meet autograd: no recording, and results can never be recorded either.

    Args:
        mode: True to switch on, False to switch off.
    Raises:
        RuntimeError: outside of it, operations that would save one of its results for backward, or write to it.
    Source: torch.inference_mode.
    Example:
        >>> with inference_mode():
        ...     x = torch.ones(2)
        >>> x.is_inference(), x.requires_grad
        (True, False)
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
        was = thread.inference, thread.grad_mode
        self._was.append(was)
        try:
            set_inference(self.mode, not self.mode)
        except BaseException:
            self._was.pop()
            set_inference(*was)
            raise

    def __exit__(self, *exc_info: Any) -> None:
        was = self._was[-1]
        del self._was[-1]
        try:
            set_inference(*was)
        except BaseException:
            set_inference(*was)
            raise


def is_grad_enabled() -> bool:
    """Whether this thread's grad mode is on; in inference mode nothing is recorded all the same.

    Returns: a bool; True unless switched off in this thread.
    Source: torch.is_grad_enabled.
    Example:
        >>> is_grad_enabled()
        True
    """
    return thread.grad_mode


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread.

    Returns: a bool, of this thread.
    Source: torch.is_inference_mode_enabled.
    Example:
        >>> is_inference_mode_enabled()
        False
    """
    return thread.inference
