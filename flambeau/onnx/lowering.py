"""Exported programs as ONNX models: every node of the graph by its row in ``onnx.tables``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..aten.overloads import OpOverload
from ..autograd import no_grad
from ..core import dtype as dtypes
from ..core.checks import SymInt, sym_float, sym_max, sym_min, sym_not
from ..core.symbolic import expression_of
from ..core.tensor import Tensor, wrap
from ..export.calls_tree import live_nodes
from ..export.graph_signature import InputKind, OutputKind
from ..fx.control_flow import cond_op, while_loop_op
from ..fx.node import Node, map_aggregate
from ..version import __version__
from .builder import ELEMENT_TYPES, Builder, Value, initializer
from .errors import UnsupportedOperatorError
from .symbolics import symbolic_of
from .tables import row_of
from .tables.complex_numbers import complex_row_of, pairs
from .translations import own_rows

IR_VERSIONS = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13}
# Arithmetic of sizes, and what it is in ONNX.
_ARITHMETIC = {operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", sym_max: "Max", sym_min: "Min"}
_COMPARISONS: dict[Any, str] = {
    operator.eq: "Equal", operator.ne: "Equal", operator.lt: "Less", operator.le: "LessOrEqual", operator.gt: "Greater",
    operator.ge: "GreaterOrEqual",
}  # fmt: skip
_LOGIC: dict[Any, str] = {operator.and_: "And", operator.or_: "Or", sym_not: "Not"}


class Options:
    """The choices about how a model is written.

    Attributes:
        opset: the version of the operator set. fold: whether what depends on constants only is computed now.
        hold: whether parameters are in the model; they are inputs otherwise.
        input_names, output_names: names in place of the graph's own, of the first ones. dim_names: names of dims by symbol.
        output_dims: names of dimensions of outputs, by the output's number. domains: versions of domains that are not ONNX's own.
        translations: functions of programs that write nodes, by the node's function.
    """

    def __init__(
        self,
        opset: int,
        *,
        fold: bool = True,
        hold: bool = True,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        dim_names: dict[str, str] | None = None,
        output_dims: dict[int, dict[int, str]] | None = None,
        domains: Mapping[str, int] | None = None,
        translations: Mapping[Any, Any] | None = None,
    ):
        self.opset, self.fold, self.hold = opset, fold, hold
        self.input_names, self.output_names = list(input_names or ()), list(output_names or ())
        self.dim_names, self.output_dims, self.domains = dim_names or {}, output_dims or {}, dict(domains or {})
        self.translations = own_rows(translations or {})


class _Lowering(Builder):
    """A builder that goes through a program's graph."""

    def __init__(self, onnx: Any, program: Any, options: Options):
        super().__init__(onnx, options.opset, options.fold)
        self.program, self.options = program, options
        self.values: dict[Node, Any] = {}
        self.known: dict[Node, Any] = {}  # tensors of constants
        self.inputs: list[Value] = []
        self._node: Any = None
        self._root: Any = program.graph_module

    # ---- inputs
    def add_inputs(self) -> None:
        """The program's inputs: those of the caller become inputs, the others are held."""
        names = iter(self.options.input_names)
        for node, spec in zip(self.program.graph.find_nodes(op="placeholder"), self.program.graph_signature.input_specs, strict=True):
            if spec.kind is not InputKind.USER_INPUT:
                tensor = self.program.value_of(spec)
                self.known[node] = tensor
                if not self.options.hold and spec.kind is InputKind.PARAMETER:
                    self._input(node, str(spec.target), node.meta["val"])
                continue
            value = node.meta.get("val")
            if isinstance(value, (Tensor, SymInt)):
                self._input(node, next(names, node.name), value)
            else:
                self.values[node] = value

    def _input(self, node: Node, name: str, value: Any) -> None:
        shape, dtype = (value.shape, value.dtype) if isinstance(value, Tensor) else ((), dtypes.int64)
        self.values[node] = Value(self.fresh(name), dtype, shape)
        self.inputs.append(self.values[node])

    def value_of(self, node: Node) -> Any:
        """The value of a node; a tensor that is known becomes an initializer when it is first used."""
        if node not in self.values:
            tensor = self.known[node].detach()
            specs = {spec.arg.name: spec.target for spec in self.program.graph_signature.input_specs}
            self.values[node] = self.held(specs.get(node.name) or node.name, tensor.cpu()._array, tensor.dtype)
        return self.values[node]

    # ---- nodes
    def add(self, node: Node) -> None:
        """Translate a node."""
        target: Any = node.target
        if node.op == "get_attr":
            found = getattr(self._root, str(target))
            (self.known if isinstance(found, Tensor) else self.values)[node] = found
        elif target is cond_op:
            self.values[node] = self._branch(*[self._argument(arg) for arg in node.args])
        elif target is while_loop_op:
            self.values[node] = self._loop(*[self._argument(arg) for arg in node.args])
        elif target is operator.getitem:
            self.values[node] = self.value_of(node.args[0])[node.args[1]]
        elif isinstance(target, OpOverload):
            self._translate(node, target)
        else:
            self.values[node] = self._size(target, [self._argument(arg) for arg in node.args])

    def _argument(self, value: Any) -> Any:
        return map_aggregate(value, lambda leaf: self.value_of(leaf) if isinstance(leaf, Node) else leaf)

    def _translate(self, node: Node, func: OpOverload) -> None:
        own = self._own_row(func)
        if own is None and (self._fold(node, func) or self._make_empty(node)):
            return
        row = own or symbolic_of(func, self.opset) or (complex_row_of(func) if _is_complex(node) else row_of(func))
        if row is None and self._make(node, func):
            return
        if row is None:
            raise UnsupportedOperatorError(func.name().partition(".")[0], self.opset, None)
        self.result, self.name, self._node = node.meta["val"], func._opname.rstrip("_"), node
        made = row(self, *self._argument(node.args), **self._argument(node.kwargs))
        self.values[node] = made
        if func._schema.is_mutable and isinstance(node.args[0], Node):
            self.values[node.args[0]] = made

    def _own_row(self, func: OpOverload) -> Callable[..., Any] | None:
        """The row of an operation that a program wrote, or one of ``torch.onnx.ops``; None for another one."""
        if func in self.options.translations or not func.namespace.startswith("onnx"):
            return self.options.translations.get(func)
        from .operators23 import NODES

        return NODES.get(f"{func.namespace}::{func._opname}")

    def is_whole(self, argument: int) -> bool:
        """Whether an argument of the node that is translated is a tensor with all of its memory, in order."""
        tensor = self._node.args[argument].meta["val"]
        return bool(tensor.is_contiguous() and not tensor.storage_offset())

    # ---- graphs inside of the graph
    def _inlined(self, module: Any, operands: Sequence[Value]) -> list[Value]:
        """The results of another graph for these operands, its nodes among those that are being written."""
        root, self._root = self._root, module
        for node, operand in zip(module.graph.find_nodes(op="placeholder"), operands, strict=True):
            self.values[node] = operand
        for node in module.graph.nodes:
            if node.op not in ("placeholder", "output"):
                self.add(node)
        self._root = root
        return [self._argument(each) for each in module.graph.output_node().args[0]]

    def _inner(self, name: str, run: Callable[[], list[Value]], inputs: Sequence[Value] = ()) -> Any:
        """A graph of the nodes that ``run`` adds, with names of its own for what it returns. What is outside it may use by name."""
        nodes, self.nodes = self.nodes, []
        results = [self.op("Identity", value, name=f"{name}_{value.name}") for value in run()]
        inner, self.nodes = self.nodes, nodes
        described = [self.described(value) for value in results]
        return self.onnx.helper.make_graph(inner, name, [self.described(value) for value in inputs], described)

    def _branch(self, condition: Any, then: Any, otherwise: Any, operands: Sequence[Value]) -> list[Value]:
        """``torch.cond``: both branches as graphs of an ``If``."""
        shown = then.graph.output_node().args[0]
        graphs = {
            "then_branch": self._inner("then_branch", lambda: self._inlined(then, operands)),
            "else_branch": self._inner("else_branch", lambda: self._inlined(otherwise, operands)),
        }
        found = self.op("If", self.cast(condition, dtypes.bool_), count=len(shown), **graphs)
        return self._as_noted(found if isinstance(found, list) else [found], shown)

    def _loop(self, condition: Any, body: Any, carried: Sequence[Value], additional: Sequence[Value]) -> list[Value]:
        """``torch.while_loop``: a ``Loop`` whose body computes the next condition, too."""
        shown = body.graph.output_node().args[0]
        start = self._inlined(condition, [*carried, *additional])[0]
        inputs = [Value(self.fresh(f"carried_{value.name}"), value.dtype, value.shape) for value in carried]
        step, goes_on = Value(self.fresh("step"), dtypes.int64, ()), Value(self.fresh("goes_on"), dtypes.bool_, ())

        def run() -> list[Value]:
            results = self._inlined(body, [*inputs, *additional])
            return [self._inlined(condition, [*results, *additional])[0], *results]

        graph = self._inner("body", run, [step, goes_on, *inputs])
        found = self.op("Loop", None, start, *carried, count=len(shown), body=graph)
        return self._as_noted(found if isinstance(found, list) else [found], shown)

    def _as_noted(self, found: list[Value], nodes: Any) -> list[Value]:
        for value, node in zip(found, nodes, strict=True):
            value.dtype, value.shape = node.meta["val"].dtype, tuple(node.meta["val"].shape)
        return found

    def uses_part(self, part: int) -> bool:
        """Whether something uses a part of the result of the node that is translated."""
        return any(user.target is operator.getitem and user.args[1] == part and user.users for user in self._node.users)

    def _fold(self, node: Node, func: OpOverload) -> bool:
        """Compute a node now, if all that it depends on is known."""
        from ..fx.experimental.impure import is_impure

        inputs = node.all_input_nodes
        if not self.options.fold or not inputs or any(each not in self.known for each in inputs) or is_impure(node):
            return False
        if any(each in self.values and each.op == "placeholder" for each in inputs):
            return False  # an input of the model after all
        args, kwargs = map_aggregate(
            (tuple(node.args), dict(node.kwargs)), lambda leaf: self.known[leaf] if isinstance(leaf, Node) else leaf
        )
        with no_grad():
            result = func(*args, **kwargs)
        if not isinstance(result, Tensor) or result.numel() > 4 * max(self.known[each].numel() for each in inputs):
            return False
        self.known[node] = result.detach()
        return True

    def _make_empty(self, node: Node) -> bool:
        """Make a tensor without elements now, whatever it is of."""
        value = node.meta.get("val")
        several: Any = value if isinstance(value, (tuple, list)) else [value]
        if not several or not self.options.fold or not all(isinstance(each, Tensor) and _is_empty(each) for each in several):
            return False
        if not isinstance(value, Tensor):
            self.values[node] = [self.constant(np.zeros(tuple(each.shape)), each.dtype) for each in several]
            return True
        self.known[node] = wrap(np.zeros(tuple(value.shape), value.dtype.numpy))
        return True

    def _make(self, node: Node, func: OpOverload) -> bool:
        """Make the tensor of a factory now, if its arguments are known."""
        from ..fx.experimental.impure import is_impure

        if node.all_input_nodes or is_impure(node):
            return False
        result = func(*node.args, **node.kwargs)
        if not isinstance(result, Tensor):
            return False
        self.known[node] = result
        return True

    def _size(self, function: Callable[..., Any], args: list[Any]) -> Any:
        """Arithmetic of sizes."""
        if function in _ARITHMETIC:
            return self.op(_ARITHMETIC[function], *[self._number(arg) for arg in args], shape=())
        if function is operator.floordiv:
            x, y = (self._number(arg) for arg in args)
            return self.op("Div", self.op("Sub", x, self.op("Mod", x, y)), y)
        if function is operator.mod:
            return self.op("Mod", *[self._number(arg) for arg in args], shape=())
        if function in _COMPARISONS:
            compared = self.op(_COMPARISONS[function], *self._alike(args), dtype=dtypes.bool_, shape=())
            return self.op("Not", compared) if function is operator.ne else compared
        if function in _LOGIC:
            return self.op(_LOGIC[function], *[self.as_value(arg, dtypes.bool_) for arg in args], dtype=dtypes.bool_, shape=())
        if function is operator.truediv:
            return self.op("Div", *[self.as_value(arg, dtypes.float32) for arg in args], shape=())
        if function is sym_float:
            return self.cast(args[0], dtypes.float32)
        raise UnsupportedOperatorError(getattr(function, "__name__", str(function)), self.opset, None)

    def _alike(self, numbers: list[Any]) -> list[Value]:
        """Numbers as floats if there is one among them."""
        values = [self._number(number) for number in numbers]
        is_float = any(value.dtype.is_floating_point for value in values)
        return [self.cast(value, dtypes.float32) for value in values] if is_float else values

    def _number(self, value: Any) -> Value:
        return value if isinstance(value, Value) else self.constant(value, dtypes.float32 if isinstance(value, float) else dtypes.int64)

    # ---- outputs
    def outputs(self) -> list[Value]:
        """The results, each under a name of its own."""
        names = iter(self.options.output_names)
        found = []
        taken = {value.name for value in self.inputs}
        results = zip(self.program.graph.output_node().args[0], self.program.graph_signature.output_specs, strict=True)
        for result, spec in results:
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue
            value = self.value_of(result) if isinstance(result, Node) else None if result is None else self._number(result)
            if value is None:
                continue
            wanted = next(names, None)
            if value.name in taken or value.name in self.initializers or wanted is not None:
                value = self.op("Identity", value, name=wanted or f"{value.name}_out")
            taken.add(value.name)
            found.append(value)
        return found

    # ---- the model
    def described(self, value: Value, dims: dict[int, str] | None = None) -> Any:
        """An input or a result with its sizes, symbolic ones by name."""
        sizes = []
        if value.dtype.is_complex:
            value = pairs(value)
        for d, size in enumerate(value.shape):
            name = (dims or {}).get(d)
            sizes.append(name if name is not None else self._dim(size))
        return self.onnx.helper.make_tensor_value_info(value.name, ELEMENT_TYPES[value.dtype.name], sizes)

    def _dim(self, size: Any) -> Any:
        if size is None:
            return None
        if not isinstance(size, SymInt):
            return int(size)
        return re.sub(r"\w+", lambda word: self.options.dim_names.get(word[0], word[0]), str(expression_of(size)))

    def model(self, outputs: list[Value]) -> Any:
        """The whole as a ``ModelProto``."""
        helper = self.onnx.helper
        self._drop_unused(outputs)
        used = {name for node in self.nodes for name in _used_by(node)} | {value.name for value in outputs}
        initializers = [initializer(self.onnx, array, name) for name, array in self.initializers.items() if name in used]
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [self.described(value) for value in self.inputs],
            [self.described(value, self.options.output_dims.get(k)) for k, value in enumerate(outputs)],
            initializers,
        )
        versions = {domain: self.options.domains.get(domain, self.versions.get(domain, 1)) for domain in sorted(self.domains)}
        opsets = [helper.make_opsetid(domain, version) for domain, version in {"": self.opset, **versions}.items()]
        return helper.make_model(
            graph,
            functions=list(self.functions.values()),
            opset_imports=opsets,
            ir_version=IR_VERSIONS[self.opset],
            producer_name="flambeau",
            producer_version=__version__,
        )

    def _drop_unused(self, outputs: list[Value]) -> None:
        needed = {value.name for value in outputs}
        kept = []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.append(node)
                needed |= _used_by(node)
        self.nodes = kept[::-1]


def _is_empty(value: Tensor) -> bool:
    return all(not isinstance(size, SymInt) for size in value.shape) and not value.numel()


def _is_complex(node: Node) -> bool:
    """Whether a node works with complex numbers, or makes some."""
    noted = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    tensors = [leaf for value in noted for leaf in (value if isinstance(value, (tuple, list)) else (value,))]
    return any(isinstance(leaf, Tensor) and leaf.dtype.is_complex for leaf in tensors)


def _used_by(node: Any) -> set[str]:
    """Names that a node and the graphs inside of it use."""
    inner = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return set(node.input).union(*[_used_by(each) for graph in inner for each in graph.node])


def lowered(onnx: Any, program: Any, options: Options) -> Any:
    """An exported program as a ``ModelProto``.

    Raises:
        UnsupportedOperatorError: an operation has no row.
        OnnxExporterError: an operation has one, and not for these arguments.
    """
    if options.opset not in IR_VERSIONS:
        raise NotImplementedError(f"onnx.export: operator set {options.opset} is not supported; 18 to {max(IR_VERSIONS)} are")
    builder = _Lowering(onnx, program, options)
    builder.add_inputs()
    for node in live_nodes(program.graph):
        if node.op not in ("placeholder", "output"):
            builder.add(node)
    return builder.model(builder.outputs())
