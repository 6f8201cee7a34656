"""Back ends by name, and functions as back ends: they get the program as a ``torch.fx.GraphModule``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..nn import Module
from . import logs
from .arguments import Arguments
from .compiled import TorchDynamoException, Unsupported
from .surroundings import Surroundings

__all__ = ["BackendCompilerFailed", "InvalidBackend", "WithBackend", "found", "names", "register"]

_OWN = {"inductor": (), "aot_eager": ("debug",), "eager": ("debug",)}  # with the tags by which lists leave them out
_registered: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}


class InvalidBackend(TorchDynamoException):
    """An unknown back end. Source: torch._dynamo.exc.InvalidBackend."""


class BackendCompilerFailed(TorchDynamoException):
    """A back end raised; its exception is the cause. Source: torch._dynamo.exc.BackendCompilerFailed."""


def found(backend: Any) -> Any:
    """A back end by its name: the name of one of the library's own, or a function.

    Raises:
        InvalidBackend: there is none of that name.
    """
    if callable(backend):
        return backend
    if backend in _registered:
        return _registered[backend][0]
    if backend in _OWN:
        return backend
    raise InvalidBackend(f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends.")


def names(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names of back ends without those that have one of the tags."""
    tags = {**_OWN, **{name: tags for name, (_, tags) in _registered.items()}}
    return sorted(name for name, own in tags.items() if not set(own) & set(exclude_tags or ()))


def register(compiler_fn: Any = None, name: str | None = None, tags: Sequence[str] = ()) -> Any:
    """Make a function a back end under a name; also a decorator."""
    if compiler_fn is None:
        return functools.partial(register, name=name, tags=tags)
    name = name or compiler_fn.__name__
    if name in _OWN or name in _registered:
        raise AssertionError(f"duplicate name: {name}")
    _registered[name] = compiler_fn, tuple(tags)
    return compiler_fn


class WithBackend:
    """A function whose graphs are run by what a back end makes of them.

    Args:
        function: function or module. backend: function of (graph module, example inputs). fullgraph: of ``torch.compile``.
        options: passed to the back end where there are any.
    """

    def __init__(self, function: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool, options: dict[str, Any] | None = None):
        self.function, self.backend, self.fullgraph, self.options = function, backend, fullgraph, options
        self.made: list[tuple[Arguments, Any]] = []

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function."""
        for arguments, run in self.made:
            given = arguments.check(args, kwargs)
            if given is not None:
                return self.function(*args, **kwargs) if run is None else run(given)
        from ..facades._dynamo import config

        if len(self.made) >= config.recompile_limit:
            return self.function(*args, **kwargs)
        arguments = Arguments(args, kwargs)
        run = self._compiled(arguments, args, kwargs)
        self.made.append((arguments, run))
        tensors = arguments.tensors
        arguments.let_go()
        return self.function(*args, **kwargs) if run is None else run(tensors)

    def _compiled(self, arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            module = _graph_module(self.function, arguments.tensors, args, kwargs)
        except Exception as error:
            reason = f"it cannot be traced: {error}"
            logs.note("graph_breaks", f"{getattr(self.function, '__qualname__', self.function)} runs as it is written: {reason}")
            if self.fullgraph:
                raise Unsupported(reason) from error
            return None
        try:
            run = self.backend(module, arguments.tensors, **({"options": self.options} if self.options else {}))
        except Exception as error:
            raise BackendCompilerFailed(f"backend={getattr(self.backend, '__name__', self.backend)!r} raised:\n{error}") from error
        return lambda given: run(*given)


def _graph_module(function: Callable[..., Any], tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The graph of a call, whose placeholders are the tensors among its arguments."""
    from ..fx import GraphModule, Tracer
    from ..utils._pytree import tree_map

    root = _Root(function, tensors, args, kwargs, tree_map)
    if isinstance(function, Module):
        root.add_module("module", function)
    else:
        for i, module in enumerate(_outermost(Surroundings(function, (), {}).modules.values())):
            root.add_module(f"module{i}", module)
    tracer = Tracer()
    return GraphModule(root, _with_names(tracer, root, len(tensors)), "GraphModule")


def _with_names(tracer: Any, root: Module, count: int) -> Any:
    names = ", ".join(f"l_{i}" for i in range(count))
    scope: dict[str, Any] = {"root": root}
    exec(f"def forward(self, {names}):\n    return self.called([{names}])", scope)
    type(root).forward = scope["forward"]  # type: ignore[method-assign]
    return tracer.trace(root)


def _outermost(modules: Any) -> list[Module]:
    """Modules that no other one has."""
    found = list(modules)
    inside = {id(child) for module in found for child in module.modules() if child is not module}
    return [module for module in found if id(module) not in inside]


def _Root(function: Any, tensors: list[Tensor], args: Any, kwargs: Any, tree_map: Any) -> Module:
    """A module whose ``called`` calls the function with other tensors in place of those among its arguments."""
    places = {id(tensor): i for i, tensor in enumerate(tensors)}

    class Root(Module):
        def called(self, given: list[Any]) -> Any:
            def now(leaf: Any) -> Any:
                return given[places[id(leaf)]] if id(leaf) in places else leaf

            return function(*tree_map(now, args), **tree_map(now, kwargs))

    return Root()
