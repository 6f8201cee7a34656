"""Graph of one forward pass of a module: inputs, parameters, operations with the modules they ran in, outputs.

The pass runs once, with a mode that sees every public operation and hooks that see every module. Tensors are known by identity, and an
in-place operation makes its node the source of the tensor and of the other tensors over the same memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

from ..core.tensor import Tensor
from ..nn import Module
from ..nn.module import register_module_forward_hook, register_module_forward_pre_hook
from ..overrides import TorchFunctionMode

Shape = tuple[int, ...]
LONGEST_ATTRIBUTE = 120


class Value(NamedTuple):
    """One result of a node: the node's place in the graph, and which of its results."""

    node: int
    result: int


@dataclass(slots=True)
class Node:
    """A step of the pass.

    Attributes:
        kind: ``"input"``, ``"parameter"``, ``"buffer"``, ``"constant"``, ``"operation"`` or ``"output"``.
        name: name of the argument, parameter or operation.
        scope: the modules that it ran in, the outermost first; a parameter's owner is the last.
        inputs: what it takes.
        shapes: of its results.
        dtypes: of its results.
        attributes: an operation's other arguments, as text.
        calls: for each module of ``scope`` the number of its call, by which two calls of one module differ; operations have it.
    """

    kind: str
    name: str
    scope: tuple[str, ...]
    inputs: list[Value] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    calls: tuple[int, ...] = ()


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(tuple(value.values()))


def arguments_of(inputs: Any) -> tuple[Any, ...]:
    """A tuple of arguments; anything else is the only argument."""
    return inputs if isinstance(inputs, tuple) else (inputs,)


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Context in which a module is in evaluation mode; it and those below it get back the modes that they had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def trace_forward(model: Module, inputs: Any) -> tuple[list[Node], Any]:
    """Run ``model(*inputs)`` once.

    Args:
        model: in the mode in which it shall run.
        inputs: the argument, or a tuple of arguments.
    Returns:
        The nodes in the order in which they came to be, and what the model returned.
    """
    arguments = arguments_of(inputs)
    recorder = Recorder(model)
    recorder.add_inputs(arguments)
    with ExitStack() as stack:
        stack.enter_context(register_module_forward_pre_hook(recorder.enter_module))
        stack.enter_context(register_module_forward_hook(recorder.leave_module, always_call=True))
        stack.enter_context(Watching(recorder))
        result = model(*arguments)
    recorder.add_outputs(result)
    return recorder.nodes, result


class Watching(TorchFunctionMode):
    """Shows every public operation to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._recorder.add_operation(func, args, kwargs or {}, result)
        return result


class Recorder:
    """Collects the nodes of one pass."""

    def __init__(self, model: Module) -> None:
        self.nodes: list[Node] = []
        self._model = model
        self._scope: list[str] = []
        self._calls: list[int] = []
        self._number_of_calls = 0
        self._values: dict[int, Value] = {}
        self._kept: dict[int, Tensor] = {}  # a tensor that lives keeps its id
        self._scopes = _scopes(model)
        self._states: dict[int, tuple[str, str, tuple[str, ...]]] = {}
        for path, module in model.named_modules():
            for kind, states in (("parameter", module._parameters), ("buffer", module._buffers)):
                for name, tensor in states.items():
                    if tensor is not None:
                        self._states.setdefault(id(tensor), (kind, name, self._scopes[path]))
        self._paths = {id(module): path for path, module in model.named_modules()}

    # -- modules ------------------------------------------------------------------------------------------------------------
    def enter_module(self, module: Module, args: Any) -> None:
        path = self._paths.get(id(module))
        self._scope.append(type(module).__name__ if path is None else self._scopes[path][-1])
        self._calls.append(self._number_of_calls)
        self._number_of_calls += 1

    def leave_module(self, module: Module, args: Any, result: Any) -> None:
        self._scope.pop()
        self._calls.pop()

    # -- nodes --------------------------------------------------------------------------------------------------------------
    def _add(self, node: Node, results: Sequence[Tensor]) -> None:
        node.shapes = [tuple(tensor.shape) for tensor in results]
        node.dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in results]
        self.nodes.append(node)
        for number, tensor in enumerate(results):
            self._values[id(tensor)] = Value(len(self.nodes) - 1, number)
            self._kept[id(tensor)] = tensor

    def _value(self, tensor: Tensor) -> Value:
        """Node of the graph that a tensor comes from; one of unknown origin is a parameter, a buffer or a constant."""
        if id(tensor) not in self._values:
            kind, name, scope = self._states.get(id(tensor), ("constant", "constant", tuple(self._scope)))
            self._add(Node(kind, name, scope), [tensor])
        return self._values[id(tensor)]

    def add_inputs(self, arguments: tuple[Any, ...]) -> None:
        names = argument_names(type(self._model).forward)[1:]
        for place, argument in enumerate(arguments):
            tensors = list(tensors_in(argument))
            name = names[place] if place < len(names) else f"input{place}"
            for number, tensor in enumerate(tensors):
                self._add(Node("input", name if len(tensors) == 1 else f"{name}.{number}", ()), [tensor])

    def add_outputs(self, result: Any) -> None:
        for number, tensor in enumerate(tensors_in(result), 1):
            value = self._value(tensor)
            self._add(Node("output", f"output.{number}", (), [value]), [tensor])

    def add_operation(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        results = list(tensors_in(result))
        if name == "__setitem__":
            results = [args[0]]
        if not results:
            return  # a question, such as a shape's
        names = argument_names(function)
        named = {**{names[place] if place < len(names) else str(place): value for place, value in enumerate(args)}, **kwargs}
        inputs = [self._value(tensor) for tensor in tensors_in((args, {key: value for key, value in kwargs.items() if key != "out"}))]
        others = {key: value for key, value in named.items() if value is not None and key != "out"}
        attributes = {key: _text(value) for key, value in others.items() if next(tensors_in(value), None) is None}
        stem = _read_by(args[1]) if name == "__getitem__" else {"__setitem__": "index_put_"}.get(name, name.lstrip("_"))
        self._add(Node("operation", stem, tuple(self._scope), inputs, attributes=attributes, calls=tuple(self._calls)), results)
        is_in_place = name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or named.get("inplace") is True
        # What is named so and gives a new tensor is alone in its memory.
        if (is_in_place or named.get("out") is not None) and len(results) == 1:
            self._written(results[0])

    def _written(self, tensor: Tensor) -> None:
        """Every known tensor over the memory of one that was written to comes from the last node."""
        root = _root(tensor)
        for key, other in self._kept.items():
            if _root(other) is root and self._values[key].node != len(self.nodes) - 1:
                self._values[key] = self._values[id(tensor)]
        self._values[id(root)], self._kept[id(root)] = self._values[id(tensor)], root


def _read_by(key: Any) -> str:
    """The name of the operation that reads an element of a tensor: the most that a key asks for."""
    parts = key if isinstance(key, tuple) else (key,)
    if all(part is None or part is Ellipsis or isinstance(part, slice) or type(part) is int for part in parts):
        return "select" if any(type(part) is int for part in parts) else "unsqueeze" if None in parts else "slice"
    return "index"


def _root(tensor: Tensor) -> Tensor:
    return tensor._base if tensor._is_view() and tensor._base is not None else tensor


def _scopes(model: Module) -> dict[str, tuple[str, ...]]:
    """From paths to the names of the modules on the way, as ``("Net", "Sequential[body]", "Linear[0]")``."""
    scopes: dict[str, tuple[str, ...]] = {"": (type(model).__name__,)}
    for path, module in model.named_modules():
        if path:
            above, _, name = path.rpartition(".")
            scopes[path] = (*scopes[above], f"{type(module).__name__}[{name}]")
    return scopes


@lru_cache(maxsize=1024)
def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Names of a function's positional arguments; none where it does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    positional = takewhile(lambda parameter: parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD), parameters)
    return tuple(parameter.name for parameter in positional)


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_ATTRIBUTE else f"{text[: LONGEST_ATTRIBUTE - 3]}..."
