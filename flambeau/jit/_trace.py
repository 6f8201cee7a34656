"""``torch.jit.trace``: programs as the operators that one run of them calls. Source: torch.jit._trace."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ..core.protocols.rebuild import shown as _shown
from ..core.state import set_grad  # noqa: F401 - PyTorch has it here
from ..core.tensor import Tensor
from ..nn import Module
from ..nn._seen_calls import calls_seen
from ..random import fork_rng
from . import _state
from ._literals import literal, quoted
from ._modules import RecursiveScriptModule, ScriptFunction, TopLevelTracedModule, TracedModule
from ._recorder import Frame, Recorder, Step, Value, _tensors
from ._state import TracerWarning, TracingCheckError
from ._unit import Unit
from ._written import Classes, Writer, connect, function, prune

__all__ = ["TopLevelTracedModule", "TracedModule", "TracerWarning", "TracingCheckError", "is_tracing", "trace", "trace_module"]

is_tracing = _state.is_tracing
_STRICT = (
    "Encountering a {} at the output of the tracer might cause the trace to be incorrect, this is only valid if the container structure "
    "does not change based on the module's inputs. Consider using a constant container instead (e.g. for `list`, use a `tuple` "
    "instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and know the side effects, pass strict=False to "
    "trace() to allow this behavior."
)


# -- one run ---------------------------------------------------------------------------------------------------------------------------
class _Inputs:
    """The arguments of a trace: copies of the examples, and what its function gets.

    Args:
        names: of the function's parameters. args, kwargs: the examples.
    """

    def __init__(self, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = tuple([_copied(value) for value in args])
        self.kwargs = {name: _copied(value) for name, value in kwargs.items()}
        self.given = [*zip(names, self.args, strict=False), *self.kwargs.items()]

    def enter(self, recorder: Recorder) -> list[tuple[Value, str, list[str]]]:
        """Make the inputs known; the value, name and unpacking lines of each argument."""
        entered = []
        for name, value in self.given:
            lines: list[str] = []
            whole = Value(_type_of(value), recorder.root)
            self._unpack(recorder, value, whole, name, lines)
            entered.append((whole, name, lines))
        return entered

    def _unpack(self, recorder: Recorder, value: Any, whole: Value, text: str, lines: list[str]) -> None:
        self.parts: list[tuple[Value, str]] = getattr(self, "parts", [])
        if isinstance(value, Tensor):
            recorder._known[id(value)] = whole
            recorder._kept.append(value)
            self.parts.append((whole, text))
            return
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            part = f"{text.replace('.', '_')}_{len(lines)}"
            lines.append(f"{part} = {text}[{literal(key)}]")
            self._unpack(recorder, item, Value(_type_of(item), recorder.root), part, lines)


def _copied(value: Any) -> Any:
    """A copy of an example, so that the program may write to it.

    Raises:
        RuntimeError: it is made of something other than tensors.
    """
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad) if value.is_floating_point() else value.clone()
    if isinstance(value, (list, tuple)):
        items = [_copied(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    raise RuntimeError(
        f"Type '{type(value).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors "
        "can be traced"
    )


def _type_of(value: Any) -> str:
    """The type of an input."""
    if isinstance(value, Tensor):
        return "Tensor"
    if isinstance(value, tuple):
        return f"Tuple[{', '.join([_type_of(item) for item in value])}]"
    kinds = {_type_of(item) for item in (value.values() if isinstance(value, dict) else value)}
    if len(kinds) != 1:
        raise RuntimeError(f"torch.jit.trace: expected a {type(value).__name__} of values of one type")
    return f"Dict[{type(next(iter(value))).__name__}, {kinds.pop()}]" if isinstance(value, dict) else f"List[{kinds.pop()}]"


def _result(value: Any, writer: Writer, recorder: Recorder, strict: bool) -> tuple[str, str]:
    """Text and type of what a program returned.

    Raises:
        RuntimeError: it has something other than tensors in it; a list or dict where the trace is strict.
    """
    if isinstance(value, Tensor):
        known = recorder.known(value)
        return (known if isinstance(known, str) else writer.name(known)), "Tensor"
    if isinstance(value, (list, dict)) and strict:
        raise RuntimeError(_STRICT.format("dict" if isinstance(value, dict) else "list"))
    if isinstance(value, (tuple, list)) and value:
        parts = [_result(item, writer, recorder, strict) for item in value]
        texts, kinds = [text for text, _ in parts], [kind for _, kind in parts]
        if isinstance(value, list):
            return f"[{', '.join(texts)}]", f"List[{kinds[0]}]"
        return (f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"), f"Tuple[{', '.join(kinds)}]"
    if isinstance(value, dict) and value:
        parts = [_result(item, writer, recorder, strict) for item in value.values()]
        keys = [quoted(key) if isinstance(key, str) else str(literal(key)) for key in value]
        pairs = [f"{key}: {text}" for key, (text, _) in zip(keys, parts, strict=True)]
        return "{" + ", ".join(pairs) + "}", f"Dict[{type(next(iter(value))).__name__}, {parts[0][1]}]"
    raise RuntimeError(
        f"Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions, got {type(value).__name__}"
    )


class _Run:
    """A traced call: the recorder, and the lines of its function."""

    def __init__(self, unit: Unit, module: Any, function: Any, inputs: _Inputs, strict: bool) -> None:
        self.recorder = recorder = Recorder(unit, module)
        self.entered = inputs.enter(recorder)
        if _state.thread.tracer is not None:
            raise RuntimeError("torch.jit.trace: a trace inside of another is not supported")
        with _modules_seen(recorder):
            _state.thread.tracer = recorder
            try:
                with recorder:
                    self.output = function(*inputs.args, **inputs.kwargs)
            finally:
                _state.thread.tracer = None
        self.parts, self.strict = inputs.parts, strict
        root = recorder.root
        root.results = [recorder._known[id(tensor)] for tensor in _tensors(self.output) if id(tensor) in recorder._known]
        prune(root, {id(value) for value in root.results})
        connect(root)

    def text(self, name: str, self_type: str, indent: str) -> str:
        """The function's code."""
        writer = Writer(self.recorder.root, self.parts)
        for _, _, lines in self.entered:
            writer.lines += lines
        for step in self.recorder.root.steps:
            writer.step(step)
        result, kind = _result(self.output, writer, self.recorder, self.strict)
        arguments = [(argument, value.kind) for value, argument, _ in self.entered]
        return function(name, self_type, arguments, writer.lines, result, kind, indent)

    def random(self) -> list[str]:
        """Operators whose results are left to chance."""
        found, waiting = [], [self.recorder.root]
        while waiting:
            for step in waiting.pop().steps:
                if isinstance(step, Frame):
                    waiting.append(step)
                elif step.random and not _keeps_all(step):
                    found.append(step.target)
        return found


def _keeps_all(step: Step) -> bool:
    """Whether a step is a dropout that does not drop, or recurrent layers, which have one each."""
    if "dropout" in step.target:
        return bool(step.args[-1] == "False")
    return step.target in ("torch.lstm", "torch.gru", "torch.rnn_tanh", "torch.rnn_relu")


def _modules_seen(recorder: Recorder) -> AbstractContextManager[None]:
    """Have the recorder see calls of modules in this thread."""

    def see(module: Module, call: Any, args: Any, kwargs: Any) -> Any:
        if _state.thread.tracer is not recorder:
            return call(module, *args, **kwargs)
        return recorder.call_module(module, lambda: call(module, *args, **kwargs))

    return calls_seen(see)


def _parameter_names(function: Any, count: int) -> list[str]:
    """Names for a function's arguments; those of its signature as far as they go."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{k}" if k else parameter.name for k in range(count - len(names))]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            names.append(parameter.name)
    return names + [f"argument_{k + 1}" for k in range(len(names), count)]


# -- tracing ---------------------------------------------------------------------------------------------------------------------------
def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Run a function or a module, and keep the operators that it calls: a program without Python.

    What depends on values (``if x.sum() > 0``) is kept as it went this time. Sizes of tensors that are read (``x.shape[0]``) and computed
    with stay variable. Submodules stay modules, parameters are shared.

    Args:
        func: a function of tensors, or a module.
        example_inputs: a tensor, or a tuple of arguments: tensors, and lists, tuples and dicts of them.
        optimize: ignored, deprecated.
        check_trace: whether it is traced a second time and run, and both compared.
        check_inputs: further arguments, given as the examples are, for which the trace is compared with the program.
        check_tolerance: relative, of those comparisons.
        strict: whether lists and dicts among the results are refused: their structure is that of this run.
        example_kwarg_inputs: arguments by name instead of ``example_inputs``.
        _force_outplace, _module_class, _compilation_unit: not supported.
        _store_inputs: ignored; the examples are never kept.
    Returns: a ``ScriptFunction``, or a ``TopLevelTracedModule`` with the module's parameters.
    Raises:
        TracingCheckError: a second trace is another program.
        RuntimeError: an argument or a result cannot be traced; a tensor that requires grad is neither an argument nor a parameter.
        NotImplementedError: an argument that is not supported.
    Source: torch.jit.trace.
    Example:
        >>> double = torch.jit.trace(lambda x: x + x, torch.ones(2))
        >>> double(torch.arange(3.0))
        tensor([0., 2., 4.])
        >>> print(double.code)
        def _lambda(x: Tensor) -> Tensor:
          _0 = torch.add(x, x)
          return _0
    """
    if not _state._enabled:
        return func
    _refuse(_force_outplace=_force_outplace, _module_class=_module_class, _compilation_unit=_compilation_unit)
    if optimize is not None:
        warnings.warn("`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead", FutureWarning, 2)
    if isinstance(func, RecursiveScriptModule):
        warnings.warn("The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.", UserWarning, 2)
        return func
    owner = getattr(func, "__self__", None)
    if isinstance(func, Module) or (isinstance(owner, Module) and getattr(func, "__name__", "") == "forward"):
        module = func if isinstance(func, Module) else owner
        if example_inputs is None and example_kwarg_inputs is None:
            raise RuntimeError("example_kwarg_inputs should be a dict")
        inputs = {"forward": example_inputs if example_kwarg_inputs is None else example_kwarg_inputs}
        return trace_module(
            module, inputs, None, check_trace, _by_method(check_inputs), check_tolerance, strict,
            example_inputs_is_kwarg=example_kwarg_inputs is not None,
        )  # fmt: skip
    if isinstance(owner, Module):
        raise AttributeError(f"trace doesn't support compiling individual module's functions.\nPlease use trace_module: {func}")
    args, kwargs = _arguments(example_inputs, example_kwarg_inputs)
    unit = Unit()
    text, run = _traced_function(unit, func, args, kwargs, strict)
    name = f"__torch__.{_function_name(func)}"
    unit.add(name, text)
    traced = ScriptFunction(unit, name)
    traced.__doc__ = getattr(func, "__doc__", None)
    traced.__wrapped__ = func  # type: ignore[attr-defined]
    if check_trace:
        again = lambda: _traced_function(Unit(), func, args, kwargs, strict)[0]  # noqa: E731
        more = [_given(checked, example_kwarg_inputs is not None) for checked in check_inputs or ()]
        _check(run, text, again, [(args, kwargs), *more], traced, func, check_tolerance)
    return traced


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value:
            raise NotImplementedError(f"torch.jit.trace: {name} is not supported")


def _by_method(check_inputs: Any) -> Any:
    return None if check_inputs is None else [{"forward": arguments} for arguments in check_inputs]


def _given(inputs: Any, by_name: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _arguments(None, inputs) if by_name else _arguments(inputs, None)


def _arguments(example_inputs: Any, by_name: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if by_name is not None:
        if not isinstance(by_name, dict):
            raise RuntimeError("example_kwarg_inputs should be a dict")
        return (), by_name
    if isinstance(example_inputs, (Tensor, dict)):
        return (example_inputs,), {}
    if not isinstance(example_inputs, (tuple, list)):
        raise RuntimeError(f"torch.jit.trace: expected a tensor or a tuple of them, got {_shown(type(example_inputs))}")
    return tuple(example_inputs), {}


def _function_name(func: Any) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    return "_lambda" if name == "<lambda>" else name


def _traced_function(unit: Unit, func: Any, args: Any, kwargs: Any, strict: bool) -> tuple[str, _Run]:
    inputs = _Inputs(_parameter_names(func, len(args)), args, kwargs)
    run = _Run(unit, None, func, inputs, strict)
    return run.text(_function_name(func), "", ""), run


def trace_module(
    mod: Any,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """Trace several methods of a module; see ``trace``.

    Args:
        mod: the module.
        inputs: arguments by the name of the method.
        optimize, check_trace, check_tolerance, strict, and those with an underscore: as of ``trace``.
        check_inputs: further dicts like ``inputs``.
        example_inputs_is_kwarg: whether the arguments are given by name.
    Returns: a ``TopLevelTracedModule`` with the module's parameters.
    Raises:
        AttributeError: ``mod`` is no module, or ``inputs`` no dict.
        NotImplementedError: an argument that is not supported.
        TracingCheckError: a second trace is another program.
    Source: torch.jit.trace_module.
    Example:
        >>> traced = torch.jit.trace_module(nn.Linear(2, 3), {"forward": torch.ones(1, 2)})
        >>> traced(torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """
    if not _state._enabled:
        return mod
    _refuse(_force_outplace=_force_outplace, _module_class=_module_class, _compilation_unit=_compilation_unit)
    if optimize is not None:
        warnings.warn("`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead", FutureWarning, 2)
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    arguments = {name: _given(value, example_inputs_is_kwarg) for name, value in inputs.items()}
    unit = Unit()
    runs = _traced_methods(unit, mod, arguments, strict)
    texts = {name: _numbered_text(run, name, unit) for name, run in runs.items()} if check_trace else {}
    traced = _module_of(unit, mod, runs)
    if check_trace:
        for name, (args, kwargs) in arguments.items():
            again = lambda name=name, given=(args, kwargs): _method_text(Unit(), mod, name, given, strict)  # noqa: E731
            more = [_given(checked[name], example_inputs_is_kwarg) for checked in check_inputs or () if name in checked]
            function = mod if name == "forward" else getattr(mod, name)
            _check(runs[name], texts[name], again, [(args, kwargs), *more], getattr(traced, name), function, check_tolerance)
    return traced


def _traced_methods(unit: Unit, mod: Any, arguments: dict[str, Any], strict: bool) -> dict[str, _Run]:
    runs = {}
    for name, (args, kwargs) in arguments.items():
        method = getattr(mod, name)
        runs[name] = _Run(
            unit, mod, mod if name == "forward" else method, _Inputs(_parameter_names(method, len(args)), args, kwargs), strict
        )
    return runs


def _method_text(unit: Unit, mod: Any, name: str, arguments: Any, strict: bool) -> str:
    return _numbered_text(_traced_methods(unit, mod, {name: arguments}, strict)[name], name, unit)


def _numbered_text(run: _Run, name: str, unit: Unit) -> str:
    """The code of a method, with the methods of submodules that it calls numbered for it alone."""
    Classes(unit, [(name, run.recorder)])
    return run.text(name, "__torch__.M", "")


def _module_of(unit: Unit, mod: Any, runs: dict[str, _Run]) -> Any:
    """The traced module of a module, with its whole tree."""
    classes = Classes(unit, [(name, run.recorder) for name, run in runs.items()])
    made: dict[int, Any] = {}

    def build(module: Any, path: str) -> Any:
        if id(module) in made:
            return made[id(module)]
        children = {name: build(child, f"{path}.{name}" if path else name) for name, child in module._modules.items() if child is not None}
        kinds = {name: child._script_type.name for name, child in children.items()}
        methods = None if path else lambda name: [run.text(method, name, "  ") for method, run in runs.items()]
        kind = unit.type(classes.write(module, path, kinds, methods))
        traced = (TracedModule if path else TopLevelTracedModule)(unit, kind)
        traced.__dict__.update(_parameters=dict(module._parameters), _buffers=dict(module._buffers), _modules=children)
        traced.__dict__.update(training=module.training)
        traced.__dict__["_non_persistent_buffers_set"] = set(module._non_persistent_buffers_set)
        return made.setdefault(id(module), traced)

    return build(mod, "")


# -- checking --------------------------------------------------------------------------------------------------------------------------
def _check(run: _Run, text: str, again: Callable[[], str], arguments: Any, traced: Any, function: Any, tolerance: float) -> None:
    """Compare a trace with a second one, and with the program."""
    random = run.random()
    if random:
        warnings.warn(
            "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n\t" + "\n\t".join(random)
            + "\nThis may cause errors in trace checking. To disable trace checking, pass check_trace=False to torch.jit.trace()",
            TracerWarning,
            stacklevel=3,
        )  # fmt: skip
    with fork_rng([]), warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        other = again()
    if other != text:
        raise TracingCheckError(
            f"Tracing failed sanity checks!\nERROR: Graphs differed across invocations!\n\tGraph diff:\n{_difference(text, other)}"
        )
    if random:
        return
    for args, kwargs in arguments:
        _compare(traced, function, args, kwargs, tolerance)


def _difference(first: str, second: str) -> str:
    import difflib

    lines = difflib.ndiff(first.splitlines(), second.splitlines())
    return "\n".join([f"\t\t{line}" for line in lines if line[:1] in "-+"])


def _compare(traced: Any, function: Any, args: Any, kwargs: Any, tolerance: float) -> None:
    given = _copied(list(args)), _copied(kwargs)
    with fork_rng([]), warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        expected = list(_tensors(function(*given[0], **given[1])))
    found = list(_tensors(traced(*_copied(list(args)), **_copied(kwargs))))
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.shape != other.shape or not bool(one.detach().isclose(other.detach(), rtol=tolerance, atol=1e-5, equal_nan=True).all()):
            warnings.warn(
                f"Output nr {place + 1}. of the traced function does not match the corresponding output of the Python function. "
                f"Detailed error:\n{_mismatch(one, other)}",
                TracerWarning,
                stacklevel=4,
            )


def _mismatch(one: Any, other: Any) -> str:
    if one.shape != other.shape:
        return f"shapes {list(one.shape)} and {list(other.shape)}"
    return f"greatest difference {(one.detach() - other.detach()).abs().max().item()}"
