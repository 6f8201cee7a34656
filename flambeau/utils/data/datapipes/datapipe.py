"""The base classes of pipes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe"]

_PACKAGE = __name__.rpartition(".")[0]
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


def described(pipe: Any) -> str:
    """A pipe with the arguments that it was made with, as errors name it."""
    names = inspect.signature(type(pipe)).parameters
    values = [(name, vars(pipe)[name]) for name in sorted(names) if name in vars(pipe)]
    return f"{type(pipe).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in values)})"


def _shown(value: Any) -> str:
    return value.__name__ if inspect.isfunction(value) else repr(value)


class _OnlyIterator:
    """The iterator of a pipe, as long as no other one is made: many pipes have buffers that two would share."""

    def __init__(self, pipe: Any, iterator: Iterator[Any]) -> None:
        self._pipe, self._iterator, self._number = pipe, iterator, pipe._valid_iterator_id

    def __iter__(self) -> _OnlyIterator:
        return self

    def __next__(self) -> Any:
        pipe = self._pipe
        if pipe._valid_iterator_id != self._number:
            raise RuntimeError(
                "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
                f"{described(pipe)}\nThis may be caused by multiple references to the same IterDataPipe. We recommend using `.fork()` if "
                "that is necessary."
            )
        try:
            sample = next(self._iterator)
        except StopIteration:
            raise
        except Exception as error:
            if error.args and isinstance(error.args[0], str) and "thrown by __iter__ of" not in error.args[0]:
                error.args = (f"{error.args[0]}\nThis exception is thrown by __iter__ of {described(pipe)}", *error.args[1:])
            raise
        pipe._number_of_samples_yielded += 1
        return sample

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


def _single(iterate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """An ``__iter__`` that resets the pipe first and ends the iterator that it gave before."""

    @functools.wraps(iterate)
    def single(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self._valid_iterator_id += 1
        self._number_of_samples_yielded = 0
        self.reset()
        return _OnlyIterator(self, iter(iterate(self, *args, **kwargs)))

    single._is_single = True  # type: ignore[attr-defined]
    return single


class _Pipe:
    """Base class of both kinds of pipes: the functional form, and hooks of pickling and printing."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: ClassVar[Callable[..., Any] | None] = None
    repr_hook: ClassVar[Callable[..., Any] | None] = None

    def __getattr__(self, name: str) -> Any:
        function = type(self).functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")
        return functools.partial(function, self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Give all pipes of this kind a method: ``function`` with the pipe as its first argument."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False) -> None:
        """Give all pipes of this kind a method that makes another pipe of them.

        Raises:
            Exception: the name is taken.
            NotImplementedError: ``enable_df_api_tracing``.
        """
        if enable_df_api_tracing:
            raise NotImplementedError("register_datapipe_as_function: tracing of data frames is not implemented")
        taken = cls.functions.get(function_name)
        is_again = taken is not None and taken.__module__ == cls_to_register.__module__ and taken.__module__.startswith(_PACKAGE)
        if taken is not None and not is_again:  # one of the package's own comes again after an interrupted import
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")  # PyTorch's

        @functools.wraps(cls_to_register)
        def make(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = make

    def __getstate__(self) -> Any:
        return type(self).getstate_hook(self.__dict__) if type(self).getstate_hook is not None else self.__dict__  # type: ignore[misc]

    def __reduce_ex__(self, *args: Any, **kwargs: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Any) -> None:
        """Let ``hook_fn`` change what is pickled of pipes; None takes it away."""
        if cls.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        cls.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Any) -> None:
        """Let ``hook_fn`` reduce pipes for pickle; None takes it away."""
        if cls.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        cls.reduce_ex_hook = hook_fn

    def __repr__(self) -> str:
        hook = type(self).repr_hook
        return type(self).__qualname__ if hook is None else hook(self)

    def __str__(self) -> str:
        hook = type(self).str_hook
        return type(self).__qualname__ if hook is None else hook(self)


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """Base class of pipes that are streams: subclasses define ``__iter__``, and ``reset`` where they have a state.

    Only the latest iterator of a pipe is valid. Operations are classes (``Mapper(source, function)``) and methods
    (``source.map(function)``).

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).map(str).batch(2))
        [['0', '1'], ['2', '3'], ['4']]

    Source: torch.utils.data.IterDataPipe.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id = 0
    _number_of_samples_yielded = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        iterate = cls.__dict__.get("__iter__")
        if iterate is not None and not getattr(iterate, "_is_single", False) and not cls.__dict__.get("_has_own_iterators", False):
            cls.__iter__ = _single(iterate)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError(f"{type(self).__name__}: subclasses of IterDataPipe should implement __iter__.")

    def reset(self) -> None:
        """Forget what the last iterator left; called before each new one."""


class DFIterDataPipe(IterDataPipe[Any]):
    """Base class of streams of data frames.

    Source: torch.utils.data.DFIterDataPipe.
    Example:
        >>> issubclass(torch.utils.data.DFIterDataPipe, torch.utils.data.IterDataPipe)
        True
    """

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """Base class of pipes with an index: subclasses define ``__getitem__`` and ``__len__``.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper([1, 2, 3]).map(str)[1]
        '2'

    Source: torch.utils.data.MapDataPipe.
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[_T]):
    """A list that pipes know for a batch: the default wrapper of ``batch`` and ``groupby``.

    Args:
        items: the samples.
    Source: torch.utils.data.DataChunk.
    Example:
        >>> DataChunk([1, 2]).as_str()
        '[1, 2]'
    """

    def __init__(self, items: Iterable[_T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples in brackets."""
        return f"{indent}[{', '.join(str(item) for item in iter(self))}]"

    def __iter__(self) -> Iterator[_T]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[_T]:
        """The samples as they are stored, where a subclass iterates over something else."""
        yield from self.items
