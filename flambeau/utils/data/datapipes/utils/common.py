"""Helpers of several pipes: checks of functions and columns, files that close themselves."""

from __future__ import annotations

import copy
import fnmatch
import functools
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["StreamWrapper", "get_file_binaries_from_pathnames", "get_file_pathnames_from_root", "match_masks", "validate_input_col"]


def _check_unpickable_fn(fn: Callable[..., Any]) -> None:
    """Warn of functions that cannot be sent to workers that are spawned.

    Raises:
        TypeError: not callable.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__qualname__", "")
    kind = "Local" if "<locals>" in name else "Lambda" if getattr(fn, "__name__", "") == "<lambda>" else None
    if kind is not None and inspect.isfunction(fn):
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or functools.partial instead.", stacklevel=3
        )


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """Checks that a function takes as many arguments as it gets columns.

    Args:
        fn: the function.
        input_col: index or key of a column; several in a list.
    Raises:
        ValueError: it takes more or fewer, or needs keywords.
    Source: torch.utils.data.datapipes.utils.common.validate_input_col.
    Example:
        >>> validate_input_col(lambda x, y: x + y, [0, 1])
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:  # built-in functions without a signature are believed
        return
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    positional = [parameter for parameter in parameters if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    keywords = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty]
    inner = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(inner, "__name__", str(inner))
    if keywords:
        raise ValueError(f"The function {name} takes {len(keywords)} non-default keyword-only parameters, which is not allowed.")
    if len(parameters) < count and not takes_any:
        raise ValueError(f"The function {name} takes {len(parameters)} parameters, but {count} are required.")
    needed = [parameter for parameter in positional if parameter.default is parameter.empty]
    if len(needed) > count or (len(positional) < count and not takes_any):
        raise ValueError(f"The function {name} takes {len(positional)} positional parameters, but {count} are required.")


def length_of(pipe: Any, source: Any) -> int:
    """The length of what a pipe takes its samples from.

    Raises:
        TypeError: it has none, and so the pipe has none.
    """
    if not hasattr(source, "__len__"):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return len(source)


def copied(samples: Any, kind: str) -> Any:
    """A deep copy of samples, or they themselves, with a warning, where they cannot be copied."""
    try:
        return copy.deepcopy(samples)
    except TypeError:
        warnings.warn(
            f"The input {kind} can not be deepcopied, please be aware of in-place modification would affect source data.", stacklevel=3
        )
        return samples


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Whether a file's name matches one of some patterns; no pattern matches all.

    Args:
        name: of a file.
        masks: patterns such as ``'*.txt'``.
    Returns: a bool.
    Source: torch.utils.data.datapipes.utils.common.match_masks.
    Example:
        >>> match_masks("a.txt", ["*.csv", "*.txt"]), match_masks("a.txt", "*.csv")
        (True, False)
    """
    return not masks or any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def get_file_pathnames_from_root(
    root: str, masks: str | list[str], recursive: bool = False, abspath: bool = False, non_deterministic: bool = False
) -> Iterator[str]:
    """The files in a folder whose names match.

    Args:
        root: path of the folder, or of a file.
        masks: patterns of names; all files match none.
        recursive: look into its folders, too.
        abspath: give whole paths.
        non_deterministic: in the order that the system gives instead of by name.
    Returns: an iterator of paths.
    Raises:
        OSError: a folder that cannot be read.
    Source: torch.utils.data.datapipes.utils.common.get_file_pathnames_from_root.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     pathlib.Path(folder, "a.txt").touch()
        ...     [os.path.basename(path) for path in get_file_pathnames_from_root(folder, "*.txt")]
        ['a.txt']
    """

    def onerror(error: OSError) -> None:
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=4)
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for folder, folders, files in os.walk(root, onerror=onerror):
        base = os.path.abspath(folder) if abspath else folder
        if not non_deterministic:
            files.sort()
            folders.sort()
        for name in files:
            if match_masks(name, masks):
                yield os.path.join(base, name)
        if not recursive:
            return


def get_file_binaries_from_pathnames(pathnames: Iterable[str], mode: str, encoding: str | None = None) -> Iterator[tuple[str, Any]]:
    """Each file's name and the open file.

    Args:
        pathnames: the names.
        mode: as of ``open``; ``b`` and ``t`` mean reading, too.
        encoding: of text.
    Returns: an iterator of pairs.
    Raises:
        TypeError: a name that is not a string.
    Source: torch.utils.data.datapipes.utils.common.get_file_binaries_from_pathnames.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     [file.read() for name, file in get_file_binaries_from_pathnames([f"{folder}/a.txt"], "t")]
        ['hello']
    """
    if mode in ("b", "t"):
        mode = "r" + mode
    for pathname in (pathnames,) if isinstance(pathnames, str) else pathnames:
        if not isinstance(pathname, str):
            raise TypeError(f"Expected string type for pathname, but got {type(pathname)}")
        yield pathname, StreamWrapper(open(pathname, mode, encoding=encoding))


class StreamWrapper:
    """A file that is closed when nobody refers to it any more.

    Args:
        file_obj: the file.
        parent_stream, name: of the archive that it lies in, and what it is called.
    Source: torch.utils.data.datapipes.utils.common.StreamWrapper.
    Example:
        >>> import io
        >>> stream = StreamWrapper(io.StringIO("hello"))
        >>> stream.read()
        'hello'
    """

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj, self.parent_stream, self.name = file_obj, parent_stream, name
        self.closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the file."""
        self.closed = True
        self.file_obj.close(*args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __enter__(self) -> Any:
        return self.file_obj.__enter__()

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.__dict__.get("closed", True):
            self.close()

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.file_obj!r}>" if self.name is None else f"StreamWrapper<{self.name},{self.file_obj!r}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, state: Any) -> None:
        self.file_obj, self.parent_stream, self.name, self.closed = state, None, None, False
