"""Back ends by name, and functions as back ends: they get the program as a ``torch.fx.GraphModule``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.state import changes, thread
from ..core.tensor import Tensor
from ..nn import Module
from . import logs
from .arguments import Arguments, VariableSizes
from .compiled import TorchDynamoException, Unsupported, everything, has_room, label_of, stance_permits
from .dynamism import Dynamism
from .filters import kept
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


class _Traced:
    """A function that a back end made for calls of one kind, and which calls those are.

    Attributes:
        run: function of the tensors among the arguments; None where such calls run as they are written.
    """

    def __init__(self, arguments: Arguments, around: Surroundings, run: Callable[[Sequence[Tensor]], Any] | None, choose: Any = None):
        self.run, self._check, self._grad = run, arguments.check, thread.grad
        self._always, self._sometimes = around.watched()
        if choose is not None:
            stays = iter(kept(choose, [*self._always, *self._sometimes], ()))
            self._always, self._sometimes = ([each for each in some if next(stays)] for some in (self._always, self._sometimes))
        self._changes = changes.count

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Tensor] | None:
        """The tensors among a call's arguments if it looks like the traced one; None otherwise."""
        given = self._check(args, kwargs)
        if given is None or self.run is None:
            return given
        if thread.grad is not self._grad or not all(place.is_same() for place in self._always):
            return None
        count = changes.count
        if count != self._changes and not all(place.is_same() for place in self._sometimes):
            return None
        self._changes = count
        return given


class WithBackend:
    """A function whose graphs are run by what a back end makes of them.

    Args:
        function: function or module. backend: function of (graph module, example inputs). fullgraph, limit, dynamic: of ``torch.compile``.
        names: of the function's parameters. options: passed to the back end where there are any.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: Callable[..., Any],
        fullgraph: bool,
        options: dict[str, Any] | None = None,
        limit: int | None = None,
        names: Sequence[str] = (),
        dynamic: bool | None = None,
    ):
        self.function, self.backend, self.fullgraph, self.limit = function, backend, fullgraph, limit
        self.names, self.dynamism = tuple(names), Dynamism(dynamic)
        self.choose = None if options is None else options.get("guard_filter_fn")
        self.options = None if options is None else {key: value for key, value in options.items() if key != "guard_filter_fn"}
        self.made: list[_Traced] = []
        everything.add(self)

    def clear(self) -> None:
        self.made = []
        self.dynamism.clear()

    @property
    def label(self) -> str:
        return label_of(self.function)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function."""
        if thread.recorder is not None:
            return self.function(*args, **kwargs)
        for each in self.made:
            given = each.fits(args, kwargs)
            if given is not None:
                return self.function(*args, **kwargs) if each.run is None else each.run(given)
        if not stance_permits(self.label, len(self.made)) or not has_room(self.label, len(self.made), self.limit, self.fullgraph):
            return self.function(*args, **kwargs)
        return self._first(args, kwargs)

    def _first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first call of its kind; where it changes Python's state, which tracing did once, further ones run as they are written."""
        arguments, around = self._arguments(args, kwargs), Surroundings(self.function, args, kwargs)
        module = self._traced(arguments, around, args, kwargs)
        run = None if module is None else self._compiled(module, arguments.tensors)
        reason = None if run is None else around.changed()
        if reason is not None:
            self._broke(reason)
        self.made.append(_Traced(arguments, around, run if reason is None else None, self.choose))
        tensors = arguments.tensors
        arguments.let_go()
        return self.function(*args, **kwargs) if run is None else run(tensors)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments of a call, with symbols where sizes may be others: a graph of calls asks for sizes when it runs."""
        arguments = Arguments(args, kwargs, self.names)
        wanted = self.dynamism.wanted(arguments) if arguments.refusal is None else None
        if wanted is None:
            return arguments
        sizes = VariableSizes(wanted.symbols)
        sizes.conditions = wanted.bounds()
        return Arguments(args, kwargs, self.names, sizes)

    def _traced(self, arguments: Arguments, around: Surroundings, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if arguments.refusal is not None:
            self._broke(arguments.refusal)
            return None
        try:
            return _graph_module(self.function, arguments.tensors, around, args, kwargs)
        except Exception as error:  # of whatever kind: the function, as it is written, raises those that are not the tracer's
            self._broke(f"it cannot be traced: {error}", error)
            return None

    def _compiled(self, module: Any, tensors: list[Tensor]) -> Callable[[Sequence[Tensor]], Any] | None:
        from ..facades._dynamo import config

        try:
            run = self.backend(module, tensors, **({"options": self.options} if self.options else {}))
        except Exception as error:
            failure = BackendCompilerFailed(f"backend={getattr(self.backend, '__name__', self.backend)!r} raised:\n{error}")
            if not config.suppress_errors:
                raise failure from error
            logs.note("graph_breaks", f"{self.label} runs as it is written: {failure}")
            return None
        return lambda given: run(*given)

    def _broke(self, reason: str, error: Exception | None = None) -> None:
        logs.note("graph_breaks", f"{self.label} runs as it is written: {reason}")
        if self.fullgraph:
            raise Unsupported(f"{self.label} cannot be compiled as one graph: {reason}") from error


def _graph_module(
    function: Callable[..., Any], tensors: list[Tensor], around: Surroundings, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The graph of a call, whose placeholders are the tensors among its arguments."""
    from ..fx import GraphModule, Tracer
    from ..utils._pytree import tree_map

    root = _Root(function, tensors, args, kwargs, tree_map)
    if isinstance(function, Module):
        root.add_module("module", function)
    else:
        for i, module in enumerate(_outermost(around.modules.values())):
            root.add_module(f"module{i}", module)
    tracer = Tracer()
    with around:
        graph = _with_names(tracer, root, len(tensors))
    return GraphModule(root, graph, "GraphModule")


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
