"""Recording of a trace: a mode that sees the calls of a program, and writes them as calls of PyTorch's operators.

    mode      each call of a function is spelled as an operator (``_spelling``), run, and noted; one that is none is divided
    frames    each call of a submodule opens a frame, so that its operators become a method of its class
    close     what a frame uses of the outside are its arguments, what is used of it outside are its results

A tensor is known by its identity from when it is an input or a result on. Any other is a parameter or a buffer of the traced module, or a
constant of the trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ..aten import calls as aten, rules
from ..aten.overloads import OpOverload, OpOverloadPacket
from ..core.calls.dispatch import COMPOSITE, FUNCTION
from ..core.calls.function_modes import TorchFunctionMode
from ..core.shape import Size
from ..core.state import thread as calls
from ..core.tensor import Tensor
from ..nn import RNNBase
from ._literals import literal
from ._spelling import PARTLY, spelled, spelled_method
from ._state import TracerWarning, thread
from ._unit import Unit

_NUMBERS = {
    "__bool__": "boolean", "__int__": "integer", "__float__": "float", "__index__": "index", "item": "number", "tolist": "list",
    "numpy": "NumPy array", "__array__": "NumPy array", "__complex__": "complex",
}  # fmt: skip
_ADVICE = (
    "might cause the trace to be incorrect. We can't record the data flow of Python values, so this value will be treated as a constant in "
    "the future. This means that the trace might not generalize to other inputs!"
)


class Value:
    """One value of a trace.

    Attributes:
        kind: its type. frame: where it was made; None for an attribute. paths: where a parameter or a buffer stands in the traced module.
    """

    __slots__ = ("frame", "kind", "keep", "paths")

    def __init__(self, kind: str, frame: Any, keep: Any = None, paths: list[str] | None = None) -> None:
        self.kind, self.frame, self.keep, self.paths = kind, frame, keep, paths or []


class Step:
    """One call of an operator, or of a compiled function or method.

    Attributes:
        target: text of what is called. args, kwargs: literals' texts and values. outs: its results.
        is_list: whether the results are the items of one. pure: whether it may be left out where nobody uses its results.
    """

    __slots__ = ("args", "is_list", "kwargs", "outs", "pure", "random", "target")

    def __init__(self, target: str, args: list[Any], kwargs: dict[str, Any], outs: list[Value], is_list: bool, pure: bool, random: bool):
        self.target, self.args, self.kwargs, self.outs, self.is_list = target, args, kwargs, outs, is_list
        self.pure, self.random = pure, random


PAIR = "{}: {}"


class Listed:
    """A list, a tuple or a dict among the arguments of a step: its parts, and the text around them."""

    __slots__ = ("form", "parts")

    def __init__(self, form: str, parts: list[Any]) -> None:
        self.form, self.parts = form, parts


class Frame:
    """The steps of one call of a module.

    Attributes:
        path: of the module below the traced one. module: the module. steps: what it did, calls of submodules among it.
        uses: values from outside, in the order of their first use. gives: values that are used outside.
    """

    def __init__(self, path: str, module: Any, outer: Frame | None) -> None:
        self.path, self.module, self.outer = path, module, outer
        self.steps: list[Any] = []
        self.uses: list[Value] = []
        self.gives: list[Value] = []
        self.results: list[Value] = []
        self.method = "forward"

    def within(self, other: Frame) -> bool:
        """Whether this is the other frame, or one inside of it."""
        frame: Frame | None = self
        while frame is not None:
            if frame is other:
                return True
            frame = frame.outer
        return False


class TracedInt(int):
    """A size that a trace follows: arithmetic with it is recorded.

    Source: PyTorch's traces, where sizes are tensors without dimensions.
    """

    _value: Value
    _recorder: Any

    def _with(self, name: str, other: Any, result: Any, reverse: bool = False) -> Any:
        recorder = self._recorder
        if not isinstance(other, int) or isinstance(other, bool) or thread.tracer is not recorder or recorder.paused:
            return result
        return recorder.integer(f"torch.{name}", [other, self] if reverse else [self, other], result)

    def __neg__(self) -> Any:
        recorder = self._recorder
        result = -int(self)
        return recorder.integer("torch.neg", [self], result) if thread.tracer is recorder else result

    def __reduce__(self) -> Any:
        return int, (int(self),)


def _arithmetic(word: str, name: str) -> None:
    plain, reverse = getattr(int, f"__{word}__"), getattr(int, f"__r{word}__")

    def forward(self: TracedInt, other: Any) -> Any:
        result = plain(self, other)
        return result if result is NotImplemented else self._with(name, other, result)

    def backward(self: TracedInt, other: Any) -> Any:
        result = reverse(self, other)
        return result if result is NotImplemented else self._with(name, other, result, True)

    setattr(TracedInt, f"__{word}__", forward)
    setattr(TracedInt, f"__r{word}__", backward)


for _word, _name in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("floordiv", "floordiv"), ("mod", "remainder")):
    _arithmetic(_word, _name)


class TracedSize(Size):
    """A shape whose sizes a trace follows."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> TracedSize:
        return tuple.__new__(cls, sizes)

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return TracedSize(part) if isinstance(key, slice) else part

    def __add__(self, other: Any) -> Any:
        return TracedSize((*self, *other))

    def __radd__(self, other: Any) -> Any:
        return TracedSize((*other, *self))


class Recorder(TorchFunctionMode):
    """Records a program while it runs.

    Args:
        unit: gets the constants, and code of compiled functions that are called. module: the traced module, None for a function.
    """

    sees_layers = True

    def __init__(self, unit: Unit, module: Any = None) -> None:
        self.unit = unit
        self.root = self.frame = Frame("", module, None)
        self.paths: dict[int, str] = {}
        self.paused = False
        self._known: dict[int, Value] = {}
        self._kept: list[Any] = []
        if module is not None:
            self.paths = {id(part): path for path, part in module.named_modules()}
            for path, tensor in self._state(module):
                known = self._known.setdefault(id(tensor), Value("Tensor", None, tensor))
                known.paths.append(path)

    @staticmethod
    def _state(module: Any) -> Iterator[tuple[str, Any]]:
        for path, part in module.named_modules():
            for registry in (part._parameters, part._buffers):
                for name, tensor in registry.items():
                    if tensor is not None:
                        yield (f"{path}.{name}" if path else name), tensor

    # -- values ---------------------------------------------------------------------------------------------------------------
    def new(self, tensor: Any, kind: str = "Tensor") -> Value:
        """A value that was made here."""
        value = Value(kind, self.frame, tensor)
        self._known[id(tensor)] = value
        self._kept.append(tensor)
        return value

    def known(self, tensor: Any) -> Any:
        """The value of a tensor; the text of a constant if it is none.

        Raises:
            RuntimeError: a constant would have to be a tensor that requires grad.
        """
        value = self._known.get(id(tensor))
        if value is not None:
            return value
        if tensor.requires_grad:
            raise RuntimeError(
                "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or detaching the "
                f"gradient\nTensor:\n{tensor}"
            )
        self._kept.append(tensor)
        return self.unit.constant(tensor)

    def integer(self, target: str, args: list[Any], result: int) -> Any:
        """A number that is computed from sizes."""
        made = TracedInt(result)
        made._recorder = self
        made._value = Value("int", self.frame, made)
        self.frame.steps.append(Step(target, [self.argument(arg, "int") for arg in args], {}, [made._value], False, True, False))
        return made

    def argument(self, value: Any, kind: str) -> Any:
        """An argument as text or values.

        Args:
            kind: its type in the operator's schema, which says what an empty list is one of.
        """
        if isinstance(value, Tensor):
            return self.known(value)
        if isinstance(value, TracedInt) and value._recorder is self:
            return value._value
        if isinstance(value, (list, tuple)):
            base = kind.rstrip("?").split("[")[0]
            form = "[{}]"
            if isinstance(value, tuple) and not kind:
                form = "({},)" if len(value) == 1 else "({})"
            elif base == "Tensor?" or not value:
                form = f"annotate(List[{_NAMES.get(base, base or 'Tensor')}], [{{}}])"
            return Listed(form, [self.argument(item, base) for item in value])
        if isinstance(value, dict):
            return Listed("{{{}}}", [Listed(PAIR, [literal(key), self.argument(item, "")]) for key, item in value.items()])
        text = literal(value)
        if text is None:
            raise RuntimeError(f"torch.jit.trace: an argument of type {type(value).__name__} cannot be recorded")
        return text

    # -- calls ----------------------------------------------------------------------------------------------------------------
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if self.paused:
            return func(*args, **kwargs)
        if isinstance(func, OpOverloadPacket):
            func = func.fitting(args, kwargs)
        if isinstance(func, OpOverload):
            return self.apply(func, args, kwargs, lambda: func(*args, **kwargs))
        call = calls.overridden
        if call is not None and getattr(call.op, call.form.public, None) is func:
            return self._operation(call, func, args, kwargs)
        if name in ("__getitem__", "__setitem__") and isinstance(args[0], Tensor):
            with self:
                return (rules.getitem if name == "__getitem__" else rules.setitem)(*args)
        if name == "size" or (name == "__get__" and getattr(func, "__self__", None) is Tensor.shape):
            return self._sizes(args[0], *args[1:], **kwargs)
        found = spelled_method(name, func, args, kwargs)
        if found is not None:
            return self.apply(*found, lambda: func(*args, **kwargs))
        return self._unrecorded(name, func, args, kwargs)

    def _operation(self, call: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if call.op.name in ("tensor", "as_tensor", "from_numpy"):  # a constant of the trace
            return func(*args, **kwargs)
        found = None if call.op.key in PARTLY else spelled(call)
        if found is not None:
            overload, given, named = found
            # their kernels take arrays of indices, which the operators make of tensors
            by_operator = call.op.name in ("_index", "_index_put")
            return self.apply(*found, (lambda: overload(*given, **named)) if by_operator else lambda: func(*args, **kwargs))
        divided = self._divided(call)
        if divided is not NotImplemented:
            return divided
        if call.form is COMPOSITE:
            with self:
                return call.form.run(call)
        if not any(isinstance(value, Tensor) and id(value) in self._known for value in call.operands):
            return func(*args, **kwargs)
        raise RuntimeError(f"torch.jit.trace: {call.op.name} has no counterpart among PyTorch's operators")

    def _divided(self, call: Any) -> Any:
        """Result of a call by the kernels that PyTorch composes it of, or that it is there; NotImplemented where no rule says which."""
        if call.out is not None or (call.form is not COMPOSITE and call.form is not FUNCTION):
            return NotImplemented
        for rule in (PARTLY.get(call.op.key), aten.LEAVES.of(call.op), aten.COMPOSED.of(call.op)):
            if rule is not None:
                with self:
                    result = rule(*call.values)
                if result is not NotImplemented:
                    return result
        return NotImplemented

    def _unrecorded(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A call whose result is no tensor of the trace."""
        if name == "item" and isinstance(self.frame.module, RNNBase):  # the number of packed sequences
            return self.integer("int", [args[0]], func(*args))
        if name in _NUMBERS and args and id(args[0]) in self._known and not self._known[id(args[0])].paths:
            kind = _NUMBERS[name]
            what = f"a tensor to a Python {kind}" if kind != "NumPy array" else "a tensor to a NumPy array"
            warnings.warn(f"Converting {what} {_ADVICE}", TracerWarning, stacklevel=4)
        if name == "__len__" and args and id(args[0]) in self._known:
            warnings.warn(
                "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would be tensor.shape[0]. Passing "
                "a tensor of different shape might lead to errors or silently give incorrect results.",
                TracerWarning,
                stacklevel=4,
            )
        result = func(*args, **kwargs)
        for tensor in _tensors(result):
            if id(tensor) not in self._known and any(id(operand) in self._known for operand in _tensors(args)) and name != "__get__":
                raise RuntimeError(f"torch.jit.trace: {name} has no counterpart among PyTorch's operators")
        return result

    def _sizes(self, tensor: Any, dim: Any = None) -> Any:
        self.paused = True
        try:
            shape = tuple(tensor.shape)
        finally:
            self.paused = False
        if id(tensor) not in self._known:
            return Size(shape) if dim is None else shape[dim]
        if dim is not None:
            return self.integer("torch.size", [tensor, int(dim)], shape[dim])
        return TracedSize([self.integer("torch.size", [tensor, k], size) for k, size in enumerate(shape)])

    def apply(self, overload: OpOverload, args: Any, kwargs: Any, run: Any) -> Any:
        """Run a call that is an operator's, and note it."""
        schema = overload._schema
        kinds = [argument.real_type.text() for argument in schema.arguments]
        given = [self.argument(value, kind) for value, kind in zip(args, kinds, strict=False)]
        by_name = {argument.name: kind for argument, kind in zip(schema.arguments, kinds, strict=True)}
        named = {name: self.argument(value, by_name.get(name, "")) for name, value in kwargs.items() if name != "generator"}
        paused, self.paused = self.paused, True
        try:
            result = run()
        finally:
            self.paused = paused
        outs, is_list = self._results(result, schema)
        if outs is None:
            return result
        space = f"torch.{overload._opname}" if overload.namespace == "aten" else f"ops.{overload.namespace}.{overload._opname}"
        random = any(tag.name == "nondeterministic_seeded" for tag in overload.tags)
        self.frame.steps.append(Step(space, given, named, outs, is_list, not schema.is_mutable and not random, random))
        return result

    def _results(self, result: Any, schema: Any) -> tuple[list[Value] | None, bool]:
        if isinstance(result, Tensor):
            return [self.new(result)], False
        if isinstance(result, (list, tuple)) and all(isinstance(item, Tensor) for item in result) and result:
            listed = len(schema.returns) == 1
            return [self.new(item) for item in result], listed or len(result) > 1
        return None, False

    def compiled(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A call of a compiled function or module, which is recorded as such; its control flow stays.

        Returns:
            NotImplemented for a module that is not part of the traced one.
        """
        from ._modules import ScriptFunction

        if self.paused or not isinstance(target, ScriptFunction):
            return NotImplemented
        name = self.unit.adopt(target._script_unit, target.qualified_name)
        given = [self.argument(value, "") for value in args]
        named = {word: self.argument(value, "") for word, value in kwargs.items()}
        was, thread.tracer = thread.tracer, None
        modes, calls.function_modes = calls.function_modes, ()
        try:
            result = target.run(*args, **kwargs)
        finally:
            thread.tracer, calls.function_modes = was, modes
        several = isinstance(result, (list, tuple))
        if not all(isinstance(item, Tensor) for item in (result if several else [result])):
            raise RuntimeError(f"torch.jit.trace: the compiled function {target.name} returns something other than tensors")
        outs = [self.new(item) for item in (result if several else [result])]
        self.frame.steps.append(Step(name, given, named, outs, several, False, False))
        return result

    # -- modules --------------------------------------------------------------------------------------------------------------
    def call_module(self, module: Any, run: Any) -> Any:
        """A call of a module: its steps form a frame where it is part of the traced one."""
        path = self.paths.get(id(module))
        if self.paused or not path or module is self.frame.module:
            return run()
        frame = Frame(path, module, self.frame)
        self.frame.steps.append(frame)
        self.frame = frame
        try:
            result = run()
        finally:
            self.frame = frame.outer  # type: ignore[assignment]
        frame.results = [self._known[id(tensor)] for tensor in _tensors(result) if id(tensor) in self._known]
        return result


_NAMES = {"SymInt": "int", "Tensor?": "Optional[Tensor]"}


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
