"""Decorators of pipes: names for the functional form, and which pipes give something else each time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .datapipe import IterDataPipe, MapDataPipe

__all__ = ["functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic"]


class functional_datapipe:
    """Class decorator that makes a pipe a method of all pipes of its kind.

    Args:
        name: of the method: ``source.name(...)`` is ``Pipe(source, ...)``.
        enable_df_api_tracing: must be False: there is no tracing of data frames.
    Raises:
        TypeError: ``name`` not a string.
        NotImplementedError: ``enable_df_api_tracing``.
    Source: torch.utils.data.functional_datapipe.
    Example:
        >>> @functional_datapipe("every_other")
        ... class EveryOther(torch.utils.data.IterDataPipe):
        ...     __init__ = lambda self, source: setattr(self, "source", source)
        ...     __iter__ = lambda self: iter(list(self.source)[::2])
        >>> list(torch.utils.data.datapipes.iter.IterableWrapper("abcd").every_other())
        ['a', 'c']
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        if not isinstance(name, str):
            raise TypeError(f"functional_datapipe: expected a name, got {type(name).__name__}")
        if enable_df_api_tracing:
            raise NotImplementedError("functional_datapipe: tracing of data frames is not implemented")
        self.name = name

    def __call__(self, cls: Any) -> Any:
        for base in (IterDataPipe, MapDataPipe):
            # Not every decorated thing is a class: pipes that are several (fork) are made by a function.
            if isinstance(cls, type) and issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls)
        return cls


_determinism = False


class guaranteed_datapipes_determinism:
    """Context in which pipes that give something else each time cannot be made.

    Source: torch.utils.data.guaranteed_datapipes_determinism.
    Example:
        >>> with guaranteed_datapipes_determinism():
        ...     pipe = torch.utils.data.datapipes.iter.IterableWrapper("ab")
    """

    def __init__(self) -> None:
        global _determinism
        self._before = _determinism
        _determinism = True

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _determinism
        _determinism = self._before


class non_deterministic:
    """Class decorator of pipes that give something else each time, always or for some arguments.

    Args:
        arg: the pipe's class, or a function of the constructor's arguments that says whether the pipe is one of them.
    Raises:
        TypeError: anything else, or another class than an IterDataPipe.
    Source: torch.utils.data.non_deterministic.
    Example:
        >>> @non_deterministic
        ... class Shuffled(torch.utils.data.IterDataPipe):
        ...     pass
        >>> isinstance(Shuffled(), torch.utils.data.IterDataPipe)
        True
    """

    def __init__(self, arg: type[IterDataPipe[Any]] | Callable[..., bool]) -> None:
        self.cls: Any = None
        self.deterministic_fn: Any = None
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(f"Only `IterDataPipe` can be decorated with `non_deterministic`, but {arg.__name__} is found")
            self.cls = arg
        elif isinstance(arg, Callable):  # type: ignore[arg-type]
            self.deterministic_fn = arg
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            return self._made(True, args, kwargs)
        if not (len(args) == 1 and inspect.isclass(args[0]) and issubclass(args[0], IterDataPipe)):
            raise TypeError(f"Only `IterDataPipe` can be decorated, but {getattr(args[0], '__name__', args[0])} is found")
        self.cls = args[0]
        return self._checked

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        verdict = self.deterministic_fn(*args, **kwargs)
        if not isinstance(verdict, bool):
            raise TypeError(
                f"deterministic_fn of `non_deterministic` decorator is required to return a boolean value, but {type(verdict)} is found"
            )
        return self._made(verdict, args, kwargs)

    def _made(self, is_random: bool, args: Any, kwargs: Any) -> Any:
        if _determinism and is_random:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic, but you set 'guaranteed_datapipes_determinism'. You can turn off determinism "
                "for this DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)
