"""``__torch_function__``: how subclasses of Tensor, and modes, take over calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..state import autocasting, interposed, thread, wrappers
from ..tensor import Parameter, Tensor


class DisableTorchFunctionSubclass:
    """Context in which subclasses' ``__torch_function__`` is not called.

    Source: torch._C.DisableTorchFunctionSubclass.
    Example:
        >>> with torch._C.DisableTorchFunctionSubclass():
        ...     torch.overrides.has_torch_function([torch.ones(1)])
        False
    """

    def __enter__(self) -> None:
        self._was = thread.function_override
        thread.function_override = False

    def __exit__(self, *exc_info: Any) -> None:
        thread.function_override = self._was


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Context in which neither the ``__torch_function__`` of subclasses nor that of modes is called.

    Source: torch._C.DisableTorchFunction.
    Example:
        >>> with torch.overrides.BaseTorchFunctionMode(), torch._C.DisableTorchFunction():
        ...     torch.overrides.has_torch_function([torch.ones(1)])
        False
    """

    def __enter__(self) -> None:
        super().__enter__()
        self._modes = thread.function_modes
        thread.function_modes = ()

    def __exit__(self, *exc_info: Any) -> None:
        thread.function_modes = self._modes
        super().__exit__(*exc_info)


def overloaded_args(operands: Any, type_of: Callable[[Any], type] = type) -> list[Any]:
    """Arguments whose type overrides functions, one per type, subclasses before their bases."""
    overloaded: list[Any] = []
    seen: set[type] = set()
    for operand in operands:
        kind = type_of(operand)
        if kind is Tensor or kind is Parameter or kind in seen or getattr(kind, "__torch_function__", plainly) is plainly:
            continue
        seen.add(kind)
        position = 0
        while position < len(overloaded) and not issubclass(kind, type_of(overloaded[position])):
            position += 1
        overloaded.insert(position, operand)
    return overloaded


def call_override(func: Any, operands: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the innermost mode, then the operands' types; NotImplemented if there are none.

    Raises:
        TypeError: all of them returned NotImplemented.
    """
    if thread.skip_override:
        thread.skip_override = False
        return NotImplemented
    overloaded = overloaded_args(operands)
    types = tuple(map(type, overloaded))
    mode = None
    if thread.function_modes:
        was = thread.function_modes
        mode, thread.function_modes = was[-1], was[:-1]
        try:
            result = mode.__torch_function__(func, types, args, kwargs)
        finally:
            thread.function_modes = was
        if result is not NotImplemented:
            return result
    if not thread.function_override:
        overloaded = [operand for operand in overloaded if type(operand) in wrappers]
    if not overloaded and mode is None:
        return NotImplemented
    for operand in overloaded:
        result = type(operand).__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    asked = [f"  - tensor subclass {type(operand)!r}" for operand in overloaded]
    if mode is not None:
        asked.insert(0, f"  - mode object {mode!r}")
    raise TypeError(
        f"Multiple dispatch failed for 'torch.{getattr(func, '__name__', func)}'; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n" + "\n".join(asked)
    )


def default_torch_function(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run the function on the tensors as they are and give tensor results the subclass ``cls``."""
    for kind in types:
        if not issubclass(cls, kind):
            return NotImplemented
    was, thread.function_override = thread.function_override, False
    try:
        call = thread.overridden
        if call is not None and call.args is args and not kwargs:  # the call that was interrupted, as it was: its arguments are bound
            result = call.form.run(call) if not autocasting and not interposed else call.proceed()
            if call.form.is_new and result.__class__ is Tensor and cls.__basicsize__ == Tensor.__basicsize__:
                result.__class__ = cls  # it has no other owner, so that it need not be another tensor
                return result
        else:
            result = func(*args, **(kwargs or {}))
    finally:
        thread.function_override = was
    if getattr(func, "__name__", "") == "__get__" and getattr(func, "__self__", None) in _KEPT_AS_THEY_ARE:
        return result
    return converted(result, cls)


def plainly(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run the function as if no operand were of a subclass: the ``__torch_function__`` of classes whose results are plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


Tensor.__torch_function__ = classmethod(default_torch_function)  # type: ignore[attr-defined]
Parameter.__torch_function__ = staticmethod(plainly)  # type: ignore[attr-defined]
_KEPT_AS_THEY_ARE = (vars(Tensor)["grad"], vars(Tensor)["_base"])  # other tensors, of the classes that they have


def converted(result: Any, cls: type) -> Any:
    """``result`` with its plain tensors as instances of ``cls``."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        return type(result)([converted(item, cls) for item in result])
    return result
