"""An ONNX graph while it is written.

    Value       a name in the graph, with the dtype and the sizes of what it stands for
    Builder     adds nodes and constants; rows of the tables (``onnx.tables``) call it

A size that is symbolic is a ``Value`` too: a 0-d int64 tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.checks import SymInt
from .errors import OnnxExporterError

# Numbers of the dtypes in ONNX (``TensorProto.DataType``).
ELEMENT_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
    "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip


# Nodes that have no truth values, in ONNX or in onnxruntime. Those of the second line do not return what they are given.
_WITHOUT_TRUTHS = frozenset("Where Max Min Sign Mul Add ReduceMax ReduceMin TopK".split())
_WITHOUT_TRUTHS_GIVEN = frozenset("ArgMax ArgMin Greater GreaterOrEqual Less LessOrEqual".split())


def _as_pairs(array: np.ndarray) -> np.ndarray:
    """A complex array as a real one of pairs, as ONNX has it."""
    return np.stack([array.real, array.imag], -1)


def initializer(onnx: Any, array: np.ndarray, name: str) -> Any:
    """An array as a ``TensorProto``."""
    return onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(np.shape(array)), name)  # 0-d ones would be 1-d


class Value:
    """A tensor in the graph.

    Attributes:
        name: unique. dtype: of PyTorch's. shape: integers and symbolic integers; None where it is not known.
    """

    __slots__ = ("dtype", "name", "shape")
    shape: Any

    def __init__(self, name: str, dtype: Any, shape: Any):
        self.name, self.dtype, self.shape = name, dtype, None if shape is None else tuple(shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def size(self, dim: int) -> int | None:
        """The size of a dimension; None where it is symbolic."""
        size = self.shape[dim]
        return None if isinstance(size, SymInt) else size

    def type(self) -> ValueType:
        """The dtype and the sizes, as functions that programs register read them."""
        return ValueType(self.dtype, self.shape)

    def setType(self, type_: ValueType) -> None:
        """Give the value another dtype and other sizes."""
        self.dtype, self.shape = type_.of, type_.shape

    def __repr__(self) -> str:
        return f"Value({self.name}, {self.dtype}, {self.shape})"


class ValueType:
    """The type of a value, under PyTorch's names.

    Attributes:
        of: the dtype. shape: as of the value.
    """

    __slots__ = ("of", "shape")

    def __init__(self, of: Any, shape: Any):
        self.of, self.shape = of, None if shape is None else tuple(shape)

    def dtype(self) -> Any:
        return self.of

    def scalarType(self) -> str | None:
        return None if self.of is None else str(self.of.legacy)

    def dim(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    def sizes(self) -> list[int] | None:
        """The sizes; None where they are not all known."""
        if self.shape is None or any(size is None or isinstance(size, SymInt) for size in self.shape):
            return None
        return list(self.shape)

    def with_sizes(self, sizes: Sequence[int | None]) -> ValueType:
        return ValueType(self.of, sizes)

    def with_dtype(self, dtype: Any) -> ValueType:
        return ValueType(dtype, self.shape)


class Builder:
    """The graph, and helpers for rows.

    Attributes:
        opset: the version of the operator set. nodes: ``NodeProto``s. initializers: arrays by name.
        result: what the node that is translated returns: a tensor without values, or several.
        domains: of nodes that are not ONNX's own. versions: of these, where nodes say it.
        functions: that nodes are calls of, by domain and name.
        name: of the kernel that is translated. folds: whether what depends on constants only is computed now.
    """

    name: str

    def __init__(self, onnx: Any, opset: int, folds: bool = True):
        self.onnx, self.opset, self.folds = onnx, opset, folds
        self.nodes: list[Any] = []
        self.initializers: dict[str, np.ndarray] = {}
        self.result: Any = None
        self.domains: set[str] = set()
        self.versions: dict[str, int] = {}
        self.functions: dict[tuple[str, str], Any] = {}
        self._names: set[str] = set()
        self._constants: dict[Any, Value] = {}

    def uses_part(self, part: int) -> bool:
        """Whether something uses a part of the result of the node that is translated."""
        return True

    # ---- nodes
    def fresh(self, wanted: str) -> str:
        """A name that is not taken yet."""
        name, number = wanted, 0
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def op(
        self, kind: str, *inputs: Any, dtype: Any = None, shape: Any = None, count: int = 1, name: str | None = None, **attributes: Any
    ) -> Any:
        """Add a node.

        Args:
            kind: of the node. inputs: values; None for one that is left out.
            dtype, shape: of the result; those of the first input when None.
            count: of results; a list is returned for several. attributes: those of the node, without the ones that are None.
        """
        if kind in _WITHOUT_TRUTHS or kind in _WITHOUT_TRUTHS_GIVEN:
            data = inputs[1:] if kind == "Where" else inputs
            if any(isinstance(value, Value) and value.dtype is dtypes.bool_ for value in data):
                return self._of_truths(kind, inputs, dtype, shape, count, name, attributes)
        names = [value.name if isinstance(value, Value) else "" for value in inputs]
        while names and not names[-1]:
            names.pop()
        first = next((value for value in inputs if isinstance(value, Value)), None)
        made = [
            Value(
                self.fresh(name or kind.lower()),
                dtype or (first.dtype if first else None),
                shape if shape is not None else first and first.shape,
            )
            for _ in range(count)
        ]
        given = {key.rstrip("_"): value for key, value in attributes.items() if value is not None}  # ``dtype_`` is the attribute
        node = self.onnx.helper.make_node(kind, names, [value.name for value in made], name=self.fresh(f"node_{made[0].name}"), **given)
        self.nodes.append(node)
        return made[0] if count == 1 else made

    def _of_truths(self, kind: str, inputs: Any, dtype: Any, shape: Any, count: int, name: str | None, attributes: Any) -> Any:
        """A node of truth values that has none: of integers, whose first result is a truth value again where it is not an index."""
        start = 1 if kind == "Where" else 0
        numbers = [
            self.cast(value, dtypes.int32) if k >= start and isinstance(value, Value) and value.dtype is dtypes.bool_ else value
            for k, value in enumerate(inputs)
        ]
        if kind in _WITHOUT_TRUTHS_GIVEN:
            return self.op(kind, *numbers, dtype=dtype, shape=shape, count=count, name=name, **attributes)
        found = self.op(kind, *numbers, dtype=dtypes.int32, shape=shape, count=count, name=name, **attributes)
        first = self.cast(found[0] if count > 1 else found, dtypes.bool_)
        return [first, *found[1:]] if count > 1 else first

    def constant(self, value: Any, dtype: Any) -> Value:
        """A constant, the same one for the same value."""
        array = np.asarray(value, dtype.numpy)
        if dtype.is_complex:
            made = self.constant(_as_pairs(array), dtype.to_real())
            return Value(made.name, dtype, array.shape)
        key = (array.tobytes(), array.shape, dtype.name)
        if key not in self._constants:
            name = self.fresh("val")
            self.initializers[name] = array
            self._constants[key] = Value(name, dtype, array.shape)
        return self._constants[key]

    def ints(self, values: Any) -> Value:
        """A list of integers as a 1-d constant."""
        return self.constant(np.asarray(list(values), np.int64).reshape(-1), dtypes.int64)

    def scan(self, body: Callable[..., list[Value]], start: Sequence[Value], x: Value, axis: int) -> list[Value]:
        """A ``Scan`` along a dimension of ``x``.

        Args:
            body: from the states and the part of ``x`` at a step the next states, and what is noted at the step.
            start: the first states.
        Returns:
            The last states, and what was noted, along ``axis``; their dtypes and shapes are the caller's to say.
        """
        nodes, self.nodes = self.nodes, []
        part = Value("part", x.dtype, [size for d, size in enumerate(x.shape) if d != axis])
        inputs = [Value(self.fresh(value.name), value.dtype, value.shape) for value in (*start, part)]
        results = [self.op("Identity", value) for value in body(*inputs)]
        inner, self.nodes = self.nodes, nodes
        shown = [
            [self.onnx.helper.make_tensor_value_info(value.name, ELEMENT_TYPES[value.dtype.name], None) for value in values]
            for values in (inputs, results)
        ]
        graph = self.onnx.helper.make_graph(inner, "step", *shown)
        noted = [axis] * (len(results) - len(start))
        options: dict[str, Any] = {"num_scan_inputs": 1, "scan_input_axes": [axis], "scan_output_axes": noted or None}
        found = self.op("Scan", *start, x, count=len(results), body=graph, **options)
        return found if isinstance(found, list) else [found]

    def held(self, name: str, array: np.ndarray, dtype: Any) -> Value:
        """A parameter, a buffer or another tensor of the model."""
        found = self.fresh(name)
        self.initializers[found] = _as_pairs(array) if dtype.is_complex else array
        return Value(found, dtype, array.shape)

    # ---- conversions
    def cast(self, value: Value, dtype: Any) -> Value:
        """A value in another dtype."""
        if value.dtype is dtype:
            return value
        if dtype.name not in ELEMENT_TYPES:
            raise OnnxExporterError(f"ONNX has no elements of {dtype}")
        return self.op("Cast", value, dtype=dtype, to=ELEMENT_TYPES[dtype.name])

    def as_value(self, value: Any, dtype: Any) -> Value:
        """A value or a number, in a dtype."""
        return self.cast(value, dtype) if isinstance(value, Value) else self.constant(value, dtype)

    def is_whole(self, argument: int) -> bool:
        """Whether an argument of the node that is translated is a tensor with all of its memory, in order."""
        return True

    @property
    def dtype(self) -> Any:
        """The result's dtype."""
        return (self.result[0] if isinstance(self.result, (tuple, list)) else self.result).dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The result's shape."""
        return tuple((self.result[0] if isinstance(self.result, (tuple, list)) else self.result).shape)

    # ---- sizes
    def sizes(self, sizes: Sequence[Any]) -> Value:
        """A list of integers, some of which are values, as a 1-d tensor."""
        if not any(isinstance(size, Value) for size in sizes):
            return self.ints(sizes)
        parts: list[Value] = []
        plain: list[int] = []
        for size in sizes:
            if isinstance(size, Value):
                parts += [self.ints(plain)] if plain else []
                plain = []
                parts.append(self.op("Unsqueeze", size, self.ints([0]), shape=(1,)) if not size.shape else size)
            else:
                plain.append(size)
        parts += [self.ints(plain)] if plain else []
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0, shape=(len(sizes),))

    def shape_of(self, value: Value) -> Value:
        """The sizes of a value as a 1-d tensor: a constant where they are known."""
        if not any(isinstance(size, SymInt) for size in value.shape):
            return self.ints(value.shape)
        return self.op("Shape", value, dtype=dtypes.int64, shape=(value.rank,))

    def shape_of_both(self, x: Value, y: Value) -> Value:
        """The sizes of the result, for operands that are broadcast to it."""
        if not any(isinstance(size, SymInt) for size in self.shape):
            return self.ints(self.shape)
        total = self.op("Add", x, y, shape=self.shape)
        return self.op("Shape", total, dtype=dtypes.int64, shape=(len(self.shape),))

    def reshape(self, value: Value, sizes: Sequence[Any], shape: Any = None) -> Value:
        """A value in another shape; one size that is a value becomes -1, so that nothing need be computed."""
        known = [size for size in sizes if isinstance(size, Value)]
        if len(known) == 1 and all(isinstance(size, Value) or size > 0 for size in sizes):
            sizes = [-1 if isinstance(size, Value) else size for size in sizes]
        return self.op("Reshape", value, self.sizes(sizes), shape=self.shape if shape is None else shape)

    def axes(self, dim: Any, rank: int) -> list[int]:
        """Dimensions as a list of numbers from 0 on; all where there are none."""
        if not rank or dim is None or (isinstance(dim, (tuple, list)) and not dim):
            return list(range(rank))
        return [d % rank for d in (dim if isinstance(dim, (tuple, list)) else [dim])]

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        if not axes or not value.rank:
            return value
        shape = [size for d, size in enumerate(value.shape) if d not in axes]
        return self.op("Squeeze", value, self.ints(axes), shape=shape)

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        rank = value.rank + len(axes)
        places = [axis % rank for axis in axes]
        left = iter(value.shape)
        return self.op("Unsqueeze", value, self.ints(places), shape=[1 if d in places else next(left) for d in range(rank)])

    def transpose(self, value: Value, perm: Sequence[int]) -> Value:
        if list(perm) == list(range(value.rank)):
            return value
        return self.op("Transpose", value, perm=list(perm), shape=[value.shape[d] for d in perm])

    def slice(self, value: Value, dim: int, start: Any, end: Any, step: int = 1, shape: Any = None) -> Value:
        return self.op(
            "Slice", value, self.sizes([start]), self.sizes([end]), self.ints([dim]), self.ints([step]), shape=shape or value.shape
        )

    def expand(self, value: Value, shape: Value, sizes: Any = None) -> Value:
        return self.op("Expand", value, shape, shape=self.shape if sizes is None else sizes)
