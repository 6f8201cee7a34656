"""``torch.compile``: functions and modules run as they are, wrapped as PyTorch's ``backend="eager"`` wraps them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..nn import Module

__all__ = ["OptimizedModule", "check_choices", "compile"]

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
_told = False  # whether the user knows that nothing is compiled


class OptimizedModule(Module):
    """Module that ``torch.compile`` makes of another: that is its ``_orig_mod``, so that keys of its ``state_dict`` begin with that name.

    Other attributes are those of the module.

    Args:
        mod: the module.
    Shape: those of the module.
    Source: torch._dynamo.eval_frame.OptimizedModule.
    Example:
        >>> list(OptimizedModule(torch.nn.Linear(1, 1)).state_dict())
        ['_orig_mod.weight', '_orig_mod.bias']
    """

    _orig_mod: Any

    def __init__(self, mod: Module):
        super().__init__()
        del self.__dict__["training"]
        self._orig_mod = mod

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod" or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._orig_mod,)


def check_choices(backend: Any, mode: str | None, options: dict[str, Any] | None) -> None:
    """Refuse what contradicts itself or cannot be done, and say once that nothing is compiled.

    Args:
        backend, mode, options: of :func:`compile`.
    Raises:
        RuntimeError: an unknown mode, or a mode and options.
        NotImplementedError: a back end that is a function, which would have to be given a graph.
    Source: the checks of torch.compile.
    Example:
        >>> check_choices("eager", None, None)
    """
    global _told
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if callable(backend):
        raise NotImplementedError("torch.compile: a function as back end is not supported, as there is no graph to give it")
    if not _told and backend != "eager":
        _told = True
        warnings.warn("torch.compile: nothing is compiled, the program runs as it is (as with backend='eager')", UserWarning, stacklevel=3)


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """``model`` as a compiler would hand it back; it runs as it is, which is said once.

    Args:
        model: function or module; a decorator is returned when None.
        backend: name of a back end; with 'eager', as which every one runs, nothing is said.
        fullgraph, dynamic, mode, options, name, recompile_limit, isolate_recompiles, shapes_spec: how a compiler would work. A program that
            runs as it is fulfils all of them.
        disable: give back ``model`` itself.
    Returns:
        For a module an ``OptimizedModule`` around it, otherwise a function.
    Raises:
        RuntimeError: an unknown mode, a mode and options, or something that cannot be called.
        NotImplementedError: a function as back end.
    Source: torch.compile.
    Example:
        >>> @torch.compile(backend="eager")
        ... def double(x):
        ...     return 2 * x
        >>> double(torch.ones(1))
        tensor([2.])
    """
    if model is None:
        choices: Any = {"backend": backend, "mode": mode, "options": options, "disable": disable}
        return functools.partial(compile, **choices)
    if disable:
        return model
    check_choices(backend, mode, options)
    if isinstance(model, OptimizedModule):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model)
    if not callable(model):
        raise RuntimeError(f"torch.compile: expected a function or a module, got {type(model).__name__}")
    if isinstance(model, type):
        return model

    @functools.wraps(model)
    def compiled(*args: Any, **kwargs: Any) -> Any:
        return model(*args, **kwargs)

    compiled._torchdynamo_orig_callable = model  # type: ignore[attr-defined]
    return compiled
