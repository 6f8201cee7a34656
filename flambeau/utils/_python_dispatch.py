"""``__torch_dispatch__``: modes and subclasses that see every kernel, below the tape. Source: torch.utils._python_dispatch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..core.calls import getters
from ..core.state import active, interposed, modes, thread
from ..core.tensor import Tensor

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_in_any_mode_without_ignore_compile_internals", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip


def _below() -> Any:
    return modes.below or modes.find_below()


class TorchDispatchMode:
    """A context whose ``__torch_dispatch__(func, types, args, kwargs)`` does every call of a kernel inside it, backward passes included.

    ``func`` is an overload such as ``torch.ops.aten.add.Tensor``, ``types`` the classes of arguments that have ``__torch_dispatch__``
    themselves. What it returns is the call's result. Nothing is recorded while it runs, and what it calls, the modes around it see.

    Example:
        >>> import flambeau as torch
        >>> from flambeau.utils._python_dispatch import TorchDispatchMode
        >>> class Names(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Names():
        ...     y = torch.ones(2) + 1
        aten.ones.default
        aten.add.Tensor

    Source: torch.utils._python_dispatch.TorchDispatchMode.
    """

    _mode_key: Any = None
    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError("TorchDispatchMode: dispatch keys are not supported")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __torch_dispatch__")

    def __enter__(self) -> Any:
        getters.enter_below()
        stack = _below().stack_with(self)
        thread.dispatch_modes = stack  # no call from here on: see ``state``
        thread.modes += 1
        active[:0] = (None,)
        interposed[:0] = (None,)
        return self

    def __exit__(self, *exc_info: object) -> None:
        stack = thread.dispatch_modes
        rest = stack[:-1]
        if not stack or stack[-1] is not self:
            rest = _below().stack_without(self)
        thread.dispatch_modes = rest  # no call until all is done
        thread.modes -= 1
        del active[-1:]
        del interposed[-1:]
        getters.leave_below()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new instance, in PyTorch's first versions."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether it belongs to the library, whose modes stay outside of a program's."""
        return cls._mode_key is not None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Whether a compiler may overlook it: False."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing. Source: torch.utils._python_dispatch.BaseTorchDispatchMode."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode sees calls of kernels.

    Args:
        include_infra_modes: count the library's own, such as ``FakeTensorMode``.
    """
    return any(include_infra_modes or getattr(mode, "_mode_key", None) is None for mode in thread.dispatch_modes)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Whether a mode sees calls that a compiler must not overlook."""
    return any(not mode.ignore_compile_internals() for mode in thread.dispatch_modes if hasattr(mode, "ignore_compile_internals"))


def _get_current_dispatch_mode() -> Any:
    """The innermost mode; None where there is none."""
    return thread.dispatch_modes[-1] if thread.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """All modes, the innermost last."""
    return list(thread.dispatch_modes)


def _push_mode(mode: TorchDispatchMode) -> None:
    """Put a mode on the stack, as entering it does."""
    TorchDispatchMode.__enter__(mode)


def _pop_mode(k: Any = None) -> Any:
    """Take the innermost mode off the stack, or the one with the key ``k``."""
    stack = thread.dispatch_modes
    mode = stack[-1] if k is None else next(mode for mode in stack if getattr(mode, "_mode_key", None) is k)
    TorchDispatchMode.__exit__(mode)
    return mode


@contextlib.contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    """Context without the innermost mode, which it gives."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Context without any mode; gives those that were there."""
    with _below().without_modes() as stack:
        yield stack


def _disable_infra_modes() -> Any:
    """Context without the library's own modes."""
    return _only(lambda mode: getattr(mode, "_mode_key", None) is None)


@contextlib.contextmanager
def _only(wanted: Callable[[Any], bool]) -> Iterator[list[Any]]:
    was = thread.dispatch_modes
    thread.dispatch_modes = tuple([mode for mode in was if wanted(mode)])
    try:
        yield list(was)
    finally:
        thread.dispatch_modes = was


# -- subclasses ------------------------------------------------------------------------------------------------------------------------
def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether a tensor consists of other tensors that a compiler can see: by ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether the tensors of a class consist of others."""
    return issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None) -> Any:
    """A tensor of the same class whose parts are ``callback(name, part)``.

    Args:
        t: a tensor with ``__tensor_flatten__``, which returns names of its parts and what else it consists of.
        outer_size, outer_stride: of the result; those of ``t`` when None.
    Raises:
        AssertionError: the result has another size or strides than were asked for.
    Source: torch.utils._python_dispatch.transform_subclass.
    """
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    result = type(t).__tensor_unflatten__(parts, context, size, stride)
    if tuple(result.shape) != tuple(size):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {size}, but got: {result.shape}"
        )
    if result.stride() != tuple(stride):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have strides equal to {tuple(stride)}, "
            f"but got: {result.stride()}"
        )
    return result


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """The result of ``func`` for the end of a class's ``__torch_dispatch__``.

    Args:
        func: the overload that was called with ``args`` and ``kwargs``.
        out: what the class made of it.
    Returns:
        The very argument that ``func`` writes to, where it is an in-place operation or has ``out=``; else ``out``, whose tensors get
        the memory of the argument that they are views of by themselves.
    Source: torch.utils._python_dispatch.return_and_correct_aliasing.
    """
    schema = func._schema
    results = [result for result in schema.returns if result.alias_info is not None and result.alias_info.is_write]
    if not results:
        return out
    given = dict(zip([argument.name for argument in schema.arguments if not argument.kwarg_only], args))
    given.update(kwargs or {})
    written = [given[argument.name] for argument in schema.arguments if argument.is_write]
    if len(written) == 1:
        return written[0]
    return tuple(written)


def autograd_would_have_decomposed(func: Any, flat_args: list[Any]) -> bool:
    """Whether a composite arrived undivided: False, as composites are divided before."""
    return False
