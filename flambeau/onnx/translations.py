"""Operations that programs write with the package onnxscript: ``custom_translation_table`` of ``torch.onnx.export``.

    def my_relu(x): return op.Max(x, 0.5)       {torch.ops.aten.relu.default: my_relu}

The function runs with values of the graph as its arguments, while an evaluator of onnxscript's has each ``op`` become a node. A function
under ``onnxscript.script`` becomes one node, and the function itself goes into the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..aten.overloads import OpOverload
from ..core import dtype as dtypes
from ..core.tensor import Tensor
from .builder import ELEMENT_TYPES, Builder, Value
from .errors import OnnxExporterError

_DTYPES = {number: dtypes.ALL[name] for name, number in ELEMENT_TYPES.items()}
_OPERATORS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "matmul": "MatMul", "mod": "Mod", "and": "And", "or": "Or",
}  # fmt: skip
_COMPARISONS = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal"}


class Operand:
    """A value of the graph, with Python's operators.

    Attributes:
        value: the value. dtype, shape: those of it, as far as they are known.
    """

    __slots__ = ("evaluator", "value")

    def __init__(self, value: Value, evaluator: Evaluator):
        self.value, self.evaluator = value, evaluator

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def shape(self) -> Any:
        return self.value.shape

    @property
    def rank(self) -> int:
        return self.value.rank

    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return self.evaluator.node("Neg", "", [self], {}, 1)


def _operator(word: str, kind: str, is_reflected: bool) -> None:
    def call(self: Operand, other: Any) -> Any:
        operands = [other, self] if is_reflected else [self, other]
        return self.evaluator.node(kind, "", operands, {}, 1)

    setattr(Operand, f"__{'r' if is_reflected else ''}{word}__", call)


for _word, _kind in _OPERATORS.items():
    _operator(_word, _kind, False)
    _operator(_word, _kind, True)
for _word, _kind in _COMPARISONS.items():
    _operator(_word, _kind, False)


class Evaluator:
    """An evaluator of onnxscript's that adds nodes to a graph.

    Args:
        builder: the graph.
    """

    def __init__(self, builder: Builder):
        self.builder = builder

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A node for the call of an operator."""
        schema, attributes = op.op_schema, {key: value for key, value in kwargs.items() if value is not None}
        inputs = list(args)
        kinds: list[Any] = []
        count = attributes.pop("_outputs", 1)
        if schema is not None:
            for described in schema.inputs[len(inputs) :]:
                if described.name in attributes:
                    inputs.append(attributes.pop(described.name))
            kinds = [described.type_str for described in schema.inputs]
            count = attributes.get("num_outputs", max(schema.min_output, 1))
        if op.name == "Constant":
            return self._constant(attributes)
        return self.node(op.name, op.opset.domain, inputs, attributes, count, kinds)

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A node for the call of a function, which the model gets as well."""
        proto = function.to_function_proto()
        self.builder.functions[proto.domain, proto.name] = proto
        names = list(inspect.signature(function.function).parameters)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        attributes = {name: value for name, value in given.items() if name not in proto.input}
        return self.node(proto.name, proto.domain, [given.get(name) for name in proto.input], attributes, len(proto.output))

    def node(self, kind: str, domain: str, inputs: Sequence[Any], attributes: dict[str, Any], count: int, kinds: Any = ()) -> Any:
        """A node; numbers among the inputs become constants of the dtype that inputs of the same kind have."""
        kinds = [*kinds, *[kinds[-1] if kinds else "T"] * (len(inputs) - len(kinds))]
        known: dict[Any, Any] = {}
        for each, word in zip(inputs, kinds, strict=False):
            if isinstance(each, Operand):
                known.setdefault(word, each.value.dtype)
        values = [self._value(each, known.get(word)) for each, word in zip(inputs, kinds, strict=False)]
        if domain:
            self.builder.domains.add(domain)
            attributes = {**attributes, "domain": domain}
        dtype = _DTYPES.get(attributes["to"]) if kind == "Cast" else None
        made = self.builder.op(kind, *values, count=count, dtype=dtype, **{f"{key}_": value for key, value in attributes.items()})
        return Operand(made, self) if count == 1 else tuple([Operand(each, self) for each in made])

    def _constant(self, attributes: dict[str, Any]) -> Operand:
        ((name, value),) = attributes.items()
        if name == "value":
            array = self.builder.onnx.numpy_helper.to_array(value)
        else:
            array = np.asarray(value, np.float32 if "float" in name else np.int64)
        return Operand(self.builder.constant(array, dtypes.ALL[array.dtype.name]), self)

    def _value(self, given: Any, dtype: Any) -> Value | None:
        if given is None:
            return None
        if isinstance(given, Operand):
            return given.value
        array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
        if dtype is None:
            dtype = dtypes.float32 if array.dtype.kind == "f" else dtypes.bool_ if array.dtype.kind == "b" else dtypes.int64
        return self.builder.constant(array, dtype)


def own_rows(table: Mapping[Any, Any]) -> dict[OpOverload, Callable[..., Any]]:
    """The rows of operations that a program wrote, by overload.

    Raises:
        NotImplementedError: of other than overloads, or with several functions for one, among which types of arguments would choose.
    """
    found = {}
    for target, function in table.items():
        several = list(function) if isinstance(function, (list, tuple)) else [function]
        if not isinstance(target, OpOverload) or len(several) != 1:
            raise NotImplementedError(
                f"torch.onnx.export: custom_translation_table with {len(several)} functions for {target} is not supported, only with one "
                "for an overload (torch.ops.aten.relu.default)"
            )
        found[target] = _row_of(several[0])
    return found


def _row_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def row(b: Builder, *args: Any, **kwargs: Any) -> Any:
        evaluator = Evaluator(b)
        given, named = _operands(args, evaluator), {key: _operands(value, evaluator) for key, value in kwargs.items()}
        with _evaluated_by(evaluator):
            made = function(*given, **named)
        several = isinstance(made, (tuple, list))
        parts = list(made) if several else [made]
        values = [each.value for each in parts if isinstance(each, Operand)]
        results = b.result if isinstance(b.result, (tuple, list)) else [b.result]
        if len(values) != len(parts) or len(values) != len(results):
            raise OnnxExporterError(f"the translation of {b.name} returned {made!r} in place of {len(results)} values")
        for value, result in zip(values, results, strict=True):
            value.dtype, value.shape = result.dtype, tuple(result.shape)
        return values if isinstance(b.result, (tuple, list)) else values[0]

    return row


def _operands(value: Any, evaluator: Evaluator) -> Any:
    if isinstance(value, Value):
        return Operand(value, evaluator)
    return type(value)([_operands(each, evaluator) for each in value]) if type(value) in (tuple, list) else value


def _evaluated_by(evaluator: Evaluator) -> Any:
    """Context in which onnxscript's operators go to an evaluator.

    Raises:
        ModuleNotFoundError: onnxscript is not installed.
    """
    try:
        from onnxscript import evaluator as evaluators
    except ModuleNotFoundError as error:
        message = "custom_translation_table needs the onnxscript package: pip install onnxscript"
        raise ModuleNotFoundError(message, name="onnxscript") from error
    return evaluators.default_as(evaluator)
