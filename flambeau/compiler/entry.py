"""``torch.compile``: functions and modules recorded and replayed (``compiled``), or given to a back end as graphs (``backends``)."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..core.calls.machine_calls import DECLINED
from ..facades import unsupported
from ..nn import Module
from . import backends
from .compiled import Compiled, settings

__all__ = ["OptimizedModule", "check_choices", "compile", "innermost", "lookup_backend", "wrapped"]

_aot_compile = unsupported.function("compile()", "aot_compile", "see torch.export.export, whose programs torch.compile takes")


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
        call = self.__dict__.get("_call")
        if call is None:
            return self._orig_mod(*args, **kwargs)
        if call.__class__ is not Compiled:
            return call(args, kwargs)
        result = call.quick(args, kwargs)
        return call(args, kwargs) if result is DECLINED else result

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

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = type(self)(copy.deepcopy(self._orig_mod, memo))
        choices = self.__dict__.get("_choices")
        return copied if choices is None else compile(copied._orig_mod, **choices)


def innermost(model: Any) -> Any:
    """The function or module that was compiled, of what :func:`compile` returned; anything else itself.

    Args:
        model: function or module.
    Source: torch._dynamo.eval_frame.innermost_fn.
    Example:
        >>> innermost(torch.compile(innermost)) is innermost
        True
    """
    while True:
        if isinstance(model, OptimizedModule) and "_choices" in model.__dict__:
            model = model._orig_mod
        elif getattr(model, "_torchdynamo_wrapper_id", None) == id(model):
            model = model._torchdynamo_orig_callable
        else:
            return model


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")


def check_choices(backend: Any, mode: str | None, options: dict[str, Any] | None) -> str | Callable[..., Any]:
    """Refuse what contradicts itself, and find the back end.

    Args:
        backend, mode, options: of :func:`compile`.
    Returns: the back end's name, or the function.
    Raises:
        RuntimeError: an unknown mode, a mode and options, or an unknown back end.
    Source: the checks of torch.compile.
    Example:
        >>> check_choices("eager", None, None)
        'eager'
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    return backends.found(settings.backend if backend is None else backend)


def _parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def _caller(function: Callable[..., Any], choices: dict[str, Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """Function of (args, kwargs) that calls a function in the chosen way."""
    backend = check_choices(choices["backend"], choices["mode"], choices["options"])
    if backend == "eager":
        return lambda args, kwargs: function(*args, **kwargs)
    if not isinstance(backend, str):
        given = choices["fullgraph"], choices["options"], choices["recompile_limit"], _parameters_of(function), choices["dynamic"]
        return backends.WithBackend(function, backend, *given)
    choose = (choices["options"] or {}).get("guard_filter_fn")
    own = choices["fullgraph"], choices["recompile_limit"], _parameters_of(function), choices["dynamic"], choose
    return Compiled(function, backend, *own)


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
    """``model`` as a function that is recorded at its first call and replayed afterwards, without Python between operations.

    The first call with arguments of some shapes, classes and Python values runs the function as it is written. What cannot be replayed
    (printing, changes of Python's state, values given to NumPy) runs as it is written at every call: ``TORCH_LOGS=graph_breaks`` says why.
    A whole training step may be one function: forward and backward pass, the optimizer's step and ``zero_grad``.

    Args:
        model: function or module; a decorator is returned when None.
        fullgraph: raise where the function cannot be one graph.
        dynamic: whether sizes of arguments are symbols from the first call on, so that one program serves all of them. None: those are
            that change between calls; False: none is, and each shape has a program of its own, up to ``recompile_limit``.
        backend: 'inductor' (the default: native kernels), 'aot_eager' (the recorded operations one by one), 'eager' (as it is written), or
            a function of (``torch.fx.GraphModule``, example inputs) that returns a function of the inputs.
        mode, options: how hard PyTorch's compiler would work; every mode is the same here. A back end that is a function gets the options.
            ``guard_filter_fn`` among them chooses guards, see ``torch.compiler.skip_guard_on_globals_unsafe`` and others.
        name: of the compiled function in PyTorch's own logs.
        disable: give back ``model`` itself.
        recompile_limit: most programs of one function; ``torch._dynamo.config.recompile_limit`` when None.
        isolate_recompiles: whether programs are counted for this function alone. Every compiled function here has a count of its own.
        shapes_spec: None.
    Returns:
        For a module an ``OptimizedModule`` around it, otherwise a function.
    Raises:
        RuntimeError: an unknown mode or back end, a mode and options, or something that cannot be called.
        NotImplementedError: ``shapes_spec``.
    Source: torch.compile.
    Example:
        >>> @torch.compile
        ... def double(x):
        ...     return 2 * x
        >>> double(torch.ones(1)), double(torch.ones(1) + 1)
        (tensor([2.]), tensor([4.]))
    """
    if shapes_spec is not None:
        raise NotImplementedError("torch.compile: shapes_spec is not supported; see dynamic, and torch._dynamo.mark_dynamic")
    choices: dict[str, Any] = {
        "fullgraph": fullgraph, "backend": backend, "mode": mode, "options": options, "recompile_limit": recompile_limit,
        "dynamic": dynamic,
    }  # fmt: skip
    if model is None:
        return functools.partial(compile, disable=disable, **choices)
    if disable:
        return model
    model = innermost(model)
    if isinstance(model, Module):
        call = _caller(model, choices)
        optimized = OptimizedModule(model)
        optimized.__dict__.update(_call=call, _choices=choices)
        return optimized
    if not callable(model):
        raise RuntimeError(f"torch.compile: expected a function or a module, got {type(model).__name__}")
    if isinstance(model, type):
        check_choices(backend, mode, options)
        return model
    return wrapped(model, _caller(model, choices))


def lookup_backend(compiler_fn: str | Callable[..., Any]) -> Callable[..., Any]:
    """A back end by its name, as a function of a ``torch.fx.GraphModule`` and example inputs that returns a function of the inputs.

    Args:
        compiler_fn: the name; a function is given back.
    Raises:
        InvalidBackend: there is none of that name.
    Source: torch._dynamo.lookup_backend.
    Example:
        >>> graph = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> lookup_backend("inductor")(graph, [torch.ones(1)])(torch.ones(1))
        tensor([2.])
    """
    backend = backends.found(compiler_fn)
    return backend if callable(backend) else lambda gm, example_inputs: compile(gm, backend=backend)


def wrapped(function: Callable[..., Any], call: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> Callable[..., Any]:
    """``function``, called by ``call``.

    Args:
        function: the function. call: gets arguments in a tuple and keywords in a dictionary.
    Source: the functions that torch.compile returns.
    Example:
        >>> wrapped(abs, lambda args, kwargs: abs(*args))(-1)
        1
    """

    def plain(*args: Any, **kwargs: Any) -> Any:
        return call(args, kwargs)

    def quick(*args: Any, **kwargs: Any) -> Any:
        result = call.quick(args, kwargs)  # type: ignore[attr-defined]
        return call(args, kwargs) if result is DECLINED else result

    compiled = functools.wraps(function)(quick if isinstance(call, Compiled) else plain)

    compiled._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
    compiled._call = call  # type: ignore[attr-defined]
    compiled.aot_compile = _aot_compile  # type: ignore[attr-defined]
    compiled._torchdynamo_wrapper_id = id(compiled)  # type: ignore[attr-defined]  # what ``functools.wraps`` copies tells no lie
    return compiled
