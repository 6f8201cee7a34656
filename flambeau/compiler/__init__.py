"""``torch.compiler`` and ``torch.compile``: programs that are recorded once and replayed.

compile (entry) -> Compiled (compiled): a cache of programs -> Program (programs): guards, segments, endings -> capture
                                                                  arguments, surroundings: when a program fits a call
                                                                  segments: where Python looks at values
                                                                  results, backward: from arrays to tensors and the tape
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

from ..core import late as _late
from ..core.state import thread as _thread
from ..nn import Module
from . import backends as _backends
from .compiled import reset as _forget, settings as _settings
from .entry import OptimizedModule, compile as compile
from .filters import (
    keep_portable_guards_unsafe,
    keep_tensor_guards_unsafe,
    skip_all_guards_unsafe,
    skip_guard_on_all_nn_modules_unsafe,
    skip_guard_on_globals_unsafe,
    skip_guard_on_inbuilt_nn_modules_unsafe,
)

_late.adopt(__name__)

__all__ = [
    "CacheInfo", "NestedCompileRegionOptions", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin",
    "disable", "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe",
    "keep_tensor_guards_unsafe", "list_backends", "load_cache_artifacts", "nested_compile_region", "reset", "save_cache_artifacts",
    "set_default_backend", "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip

_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile")


def is_compiling() -> bool:
    """Whether the program is being compiled or exported.

    Returns: a bool; True inside of a function while it is recorded.
    Source: torch.compiler.is_compiling.
    Example:
        >>> torch.compiler.is_compiling()
        False
    """
    return _thread.recorder is not None


def is_dynamo_compiling() -> bool:
    """Whether the program is being traced by the compiler.

    Returns: a bool, as :func:`is_compiling`.
    Source: torch.compiler.is_dynamo_compiling.
    Example:
        >>> torch.compiler.is_dynamo_compiling()
        False
    """
    return _thread.recorder is not None


def is_exporting() -> bool:
    """Whether the program is being exported.

    Returns: False.
    Source: torch.compiler.is_exporting.
    Example:
        >>> torch.compiler.is_exporting()
        False
    """
    return False


def reset() -> None:
    """Forget all compiled programs.

    Source: torch.compiler.reset.
    Example:
        >>> torch.compiler.reset()
    """
    _forget()


def cudagraph_mark_step_begin() -> None:
    """Say that a new step of captured work begins; nothing is captured.

    Source: torch.compiler.cudagraph_mark_step_begin.
    Example:
        >>> torch.compiler.cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: tuple[str, ...] | None = ("debug", "experimental")) -> list[str]:
    """Names that ``torch.compile(backend=...)`` takes.

    Args:
        exclude_tags: kinds of back ends to leave out.
    Returns: a list of strings.
    Source: torch.compiler.list_backends.
    Example:
        >>> torch.compiler.list_backends(), torch.compiler.list_backends(None)
        (['inductor'], ['aot_eager', 'eager', 'inductor'])
    """
    return _backends.names(exclude_tags)


def get_default_backend() -> Any:
    """The back end of ``torch.compile`` where none is named.

    Returns: a name or a function.
    Source: torch.compiler.get_default_backend.
    Example:
        >>> torch.compiler.get_default_backend()
        'inductor'
    """
    return _settings.backend


def set_default_backend(backend: Any) -> None:
    """Set the back end of ``torch.compile`` where none is named.

    Args:
        backend: a name or a function.
    Raises:
        RuntimeError: an unknown name.
    Source: torch.compiler.set_default_backend.
    Example:
        >>> torch.compiler.set_default_backend("inductor")
    """
    _settings.backend = _backends.found(backend)


@dataclasses.dataclass
class NestedCompileRegionOptions:
    """Choices for one region of a program that is compiled by itself.

    Args:
        fw_compiler, bw_compiler, partitioner, decompositions: how PyTorch would compile the region; None.
    Source: torch.compiler.NestedCompileRegionOptions.
    Example:
        >>> torch.compiler.NestedCompileRegionOptions().fw_compiler is None
        True
    """

    fw_compiler: Callable[..., Any] | None = None
    bw_compiler: Callable[..., Any] | None = None
    partitioner: Callable[..., Any] | str | None = None
    decompositions: dict[str, Any] | None = None


def nested_compile_region(
    fn: Any = None, *, options: NestedCompileRegionOptions | None = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """Mark a function that compiled programs call more than once; also a decorator with arguments. It is recorded at each place.

    Args:
        fn: the function. options: how to compile it. max_reuse_entries, reuse_hash_fn: how PyTorch keeps its graphs.
    Returns: the function itself.
    Raises:
        NotImplementedError: ``options`` that choose a compiler.
    Source: torch.compiler.nested_compile_region.
    Example:
        >>> torch.compiler.nested_compile_region(abs)(-1)
        1
    """
    if options is not None and options != NestedCompileRegionOptions():
        raise NotImplementedError("torch.compiler.nested_compile_region: options of regions are not supported")
    return (lambda function: function) if fn is None else fn


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Have all processes of a group agree whether to compile anew before each call of a compiled function.

    Args:
        enabled: False: each process decides for itself.
    Returns: what was set before: False.
    Raises:
        NotImplementedError: ``enabled`` is True.
    Source: torch.compiler.set_enable_guard_collectives.
    Example:
        >>> torch.compiler.set_enable_guard_collectives(False)
        False
    """
    if enabled:
        raise NotImplementedError("torch.compiler.set_enable_guard_collectives: each process decides for itself whether to compile")
    return False


@dataclasses.dataclass
class CacheInfo:
    """Names of what was saved of compiled programs, or loaded; see :func:`save_cache_artifacts`, of which there is nothing here.

    Args:
        artifacts: keys by kind.
    Source: torch.compiler.CacheInfo.
    Example:
        >>> torch.compiler.CacheInfo().empty()
        True
    """

    artifacts: defaultdict[str, list[str]] = dataclasses.field(default_factory=lambda: defaultdict(list))

    @property
    def inductor_artifacts(self) -> list[str]:
        return self.artifacts["inductor"]

    @property
    def autotune_artifacts(self) -> list[str]:
        return self.artifacts["autotune"]

    @property
    def aot_autograd_artifacts(self) -> list[str]:
        return self.artifacts["aot_autograd"]

    @property
    def pgo_artifacts(self) -> list[str]:
        return self.artifacts["pgo"]

    @property
    def precompile_artifacts(self) -> list[str]:
        return self.artifacts["precompile"]

    def add(self, artifact: Any) -> None:
        """Note an artifact, by its ``type()`` and ``key``."""
        self.artifacts[artifact.type()].append(artifact.key)

    def clear(self) -> None:
        """Forget all."""
        self.artifacts.clear()

    def empty(self) -> bool:
        """Whether there is none."""
        return not self.artifacts


def substitute_in_graph(original_fn: Any, **options: Any) -> Any:
    """Decorator of a Python version of a function that PyTorch's compiler cannot look into; here every function runs when it is recorded.

    Args:
        original_fn: the function. options: how PyTorch would use the other one.
    Returns: a decorator that gives back the other function.
    Raises:
        TypeError: ``original_fn`` cannot be called.
    Source: torch.compiler.substitute_in_graph.
    Example:
        >>> @torch.compiler.substitute_in_graph(abs)
        ... def other(x):
        ...     return max(x, -x)
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")
    return lambda traceable_fn: traceable_fn


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function over NumPy's arrays as one over tensors.

    Args:
        fn: takes and returns arrays, also in containers.
    Returns: the function over tensors; it is not differentiable.
    Source: torch.compiler.wrap_numpy.
    Example:
        >>> torch.compiler.wrap_numpy(np.cumsum)(torch.tensor([1, 2]))
        tensor([1, 3])
    """
    import numpy as np

    from ..core.tensor import Tensor
    from ..ops.from_data import as_tensor
    from ..utils._pytree import tree_map

    @functools.wraps(fn)
    def over_tensors(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
        result = fn(*args, **kwargs)
        return tree_map(lambda leaf: as_tensor(leaf) if isinstance(leaf, np.ndarray | np.generic) else leaf, result)

    return over_tensors


def save_cache_artifacts() -> None:
    """Compiled programs as bytes: none, as recordings stay in their process. Kernels are kept in files by themselves.

    Returns: None, as in PyTorch where there is nothing to save.
    Source: torch.compiler.save_cache_artifacts.
    Example:
        >>> torch.compiler.save_cache_artifacts()
    """


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Load what ``save_cache_artifacts`` gave, which is nothing here.

    Args:
        serialized_artifacts: bytes, of which there are none that could be loaded.
    Returns: None.
    Raises:
        NotImplementedError: any bytes: PyTorch's hold machine code and graphs of its own.
    Source: torch.compiler.load_cache_artifacts.
    Example:
        >>> torch.compiler.load_cache_artifacts(b"")
    """
    if serialized_artifacts:
        raise NotImplementedError("torch.compiler.load_cache_artifacts: artifacts of PyTorch's compiler cannot be loaded")


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep the compiler away from a function; also a decorator with arguments.

    Args:
        fn: a function, a class or a module.
        recursive: away from what it calls, too.
        reason: to be shown where a compiled function calls it, which then runs as it is written.
    Returns:
        The class itself; around a module, unless ``recursive`` is False, an ``OptimizedModule``; a function otherwise.
    Raises:
        AssertionError: ``fn`` cannot be called.
    Source: torch.compiler.disable.
    Example:
        >>> torch.compiler.disable(abs)(-1)
        1
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, type):
        return fn
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if isinstance(fn, Module) and recursive:
        kept = OptimizedModule(fn)
        kept.__dict__["_call"] = lambda args, kwargs: _apart(fn, reason, args, kwargs)
        return kept

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _apart(fn, reason, args, kwargs)

    wrapper._torchdynamo_disable = True  # type: ignore[attr-defined]
    wrapper._torchdynamo_disable_recursive = recursive  # type: ignore[attr-defined]
    return wrapper


def _apart(fn: Any, reason: str | None, args: Any, kwargs: Any) -> Any:
    """Call a function that the compiler is kept away from."""
    if _thread.recorder is not None:
        _thread.recorder.fail(f"{getattr(fn, '__name__', type(fn).__name__)} is kept from the compiler" + (f": {reason}" if reason else ""))
    return fn(*args, **kwargs)


def allow_in_graph(fn: Any) -> Any:
    """Have the compiler call functions without looking inside.

    Args:
        fn: a function, or several in a list.
    Returns: ``fn`` itself.
    Raises:
        AssertionError: what cannot be called.
    Source: torch.compiler.allow_in_graph.
    Example:
        >>> torch.compiler.allow_in_graph(abs) is abs
        True
    """
    for function in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(function):
            raise AssertionError("allow_in_graph expects a callable")
    return list(fn) if isinstance(fn, (list, tuple)) else fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Say that a function always returns the same.

    Args:
        fn: the function.
    Returns: ``fn`` itself.
    Source: torch.compiler.assume_constant_result.
    Example:
        >>> @torch.compiler.assume_constant_result
        ... def four():
        ...     return 4
        >>> four()
        4
    """
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


class set_stance(contextlib.ContextDecorator):
    """Set how eagerly to compile from here on; also a context manager and a decorator.

    Args:
        stance: 'default'; 'force_eager' (replay what there is, record nothing); 'eager_on_recompile' (record no second program of a
            function); 'fail_on_recompile' (raise instead); 'eager_then_compile' and 'aot_eager_then_compile' (as 'default': the first call
            runs as it is written in any case).
        skip_guard_eval_unsafe, force_backend: further choices of PyTorch's.
    Raises:
        RuntimeError: another word.
        NotImplementedError: ``skip_guard_eval_unsafe`` or ``force_backend``.
    Source: torch.compiler.set_stance.
    Example:
        >>> with torch.compiler.set_stance("force_eager"):
        ...     y = torch.ones(2) + 1
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if stance != "default" and force_backend is not None:
            raise RuntimeError("non-default stance cannot have force_backend set")
        if force_backend is not None or skip_guard_eval_unsafe:
            raise NotImplementedError("torch.compiler.set_stance: force_backend and skip_guard_eval_unsafe are not supported")
        self.stance, self._before = stance, _settings.stance
        _settings.stance = stance

    def __enter__(self) -> None:
        self._before = self._before if _settings.stance == self.stance else _settings.stance
        _settings.stance = self.stance

    def __exit__(self, *error: Any) -> None:
        _settings.stance = self._before

    def __call__(self, function: Any) -> Any:
        _settings.stance = self._before  # a decorator: only inside of calls
        return super().__call__(function)


def load_compiled_function(file: Any, *, f_globals: dict[str, Any] | None = None, external_data: dict[str, Any] | None = None) -> NoReturn:
    """Not supported: raises ``NotImplementedError``. Source: torch.compiler.load_compiled_function."""
    raise NotImplementedError(
        "torch.compiler.load_compiled_function is not supported: compiled functions are not written to files, as PyTorch's are, with code "
        "objects of Python's and guards; torch.export.save writes a program, which torch.compile(torch.export.load(file).module()) compiles"
    )


load_compiled_function.is_unsupported = True  # type: ignore[attr-defined]
