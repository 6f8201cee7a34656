"""Exported programs in the terms of PyTorch's files: graphs, signatures and tensors as JSON. Source: torch._export.serde.schema.

A node has its operation's name, its arguments by their names in the schema, and the names of its results; ``getitem`` of several results is
not written. A value is a dict with one key, its kind: ``{"as_tensor": {"name": "linear"}}``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ..aten.fake_tensor import FakeTensor
from ..aten.overloads import OpOverload
from ..core import dtype as dtypes, layout as layouts
from ..core.device import device as Device
from ..core.symbolic import SymbolicBool, SymbolicFloat, SymbolicInt
from ..core.tensor import Tensor
from ..fx.control_flow import HigherOrderOperator, while_loop_op
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..utils._pytree import treespec_dumps
from . import graph_signature as signatures
from .expression_text import text_of
from .operators import GETITEM, NAMES

SCHEMA = {"major": 8, "minor": 20}
SCALAR_TYPES = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "complex32": 9, "complex64": 10,
    "complex128": 11, "bool": 12, "bfloat16": 13, "uint16": 28, "float8_e4m3fn": 29, "float8_e5m2": 30, "float8_e4m3fnuz": 31,
    "float8_e5m2fnuz": 32, "float8_e8m0fnu": 33, "uint32": 34, "uint64": 35,
}  # fmt: skip
LAYOUTS = {"sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 3, "sparse_bsr": 4, "sparse_bsc": 5, "_mkldnn": 6, "strided": 7}
MEMORY_FORMATS = {"contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3, "preserve_format": 4}
POSITIONAL, KEYWORD = 1, 2


def number(value: float) -> Any:
    """A float as JSON, which has neither infinities nor NaN."""
    return ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity") if not math.isfinite(value) else value


def size(value: Any) -> dict[str, Any]:
    """A size of a tensor, or another integer that may be symbolic."""
    if not isinstance(value, SymbolicInt):
        return {"as_int": int(value)}
    expr = value.expr
    hint = None if any(name in value.env.unbacked for name in expr.symbols) else {"as_int": int.__int__(value)}
    return {"as_expr": {"expr_str": text_of(expr), "hint": hint}}


def tensor_meta(tensor: Tensor) -> dict[str, Any]:
    """A tensor without its values.

    Raises:
        NotImplementedError: a layout or a dtype that files have not.
    """
    if tensor.layout is not layouts.strided or tensor.dtype.name not in SCALAR_TYPES:
        raise NotImplementedError(f"torch.export.save: a tensor of {tensor.dtype} and {tensor.layout} is not supported")
    return {
        "dtype": SCALAR_TYPES[tensor.dtype.name],
        "sizes": [size(each) for each in tensor.shape],
        "requires_grad": bool(tensor.requires_grad),
        "device": device(tensor.device),
        "strides": [size(each) for each in strides(tensor)],
        "storage_offset": size(tensor.storage_offset()),
        "layout": LAYOUTS["strided"],
    }


def strides(tensor: Tensor) -> list[Any]:
    """Strides, as products of symbolic sizes where they are these for the example."""
    found: list[Any] = [int.__int__(each) for each in tensor.stride()]
    step: Any = 1
    for d in sorted(range(tensor.dim()), key=lambda d: (found[d], -d)):
        if int.__int__(step) != found[d]:
            return found
        found[d], step = step, step * tensor.shape[d]
    return found


def device(where: Any) -> dict[str, Any]:
    return {"type": where.type, "index": where.index}


class Writer:
    """Writes the graphs of one program."""

    # ---- graphs
    def graph(self, module: GraphModule, specs: Any = None) -> dict[str, Any]:
        """A graph; ``specs`` say what the inputs of the outermost one are."""
        before = getattr(self, "made", None)
        self.made: dict[str, Any] = {
            "inputs": [], "outputs": [], "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
            "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {},
        }  # fmt: skip
        self.root, outer = module, getattr(self, "root", None)
        made = self.made
        for node in module.graph.nodes:
            if node.op == "placeholder":
                made["inputs"].append(self.result(node.name, node.meta.get("val")))
            elif node.op == "call_function" and node.target is not GETITEM:
                made["nodes"].append(self.node(node))
        results = module.graph.output_node().args[0]
        made["is_single_tensor_return"] = isinstance(results, Node)
        made["outputs"] = [self.value(each) for each in (results if isinstance(results, (tuple, list)) else [results])]
        self.made, self.root = before or made, outer or module
        return made

    def node(self, node: Node) -> dict[str, Any]:
        """A call with its arguments and its results."""
        target: Any = node.target
        value, is_whole = node.meta.get("val"), None
        if isinstance(target, OpOverload):
            inputs, outputs = self.arguments(target, node), self.results(node, target)
        elif isinstance(target, HigherOrderOperator):
            inputs = [named("", self.value(arg), POSITIONAL) for arg in node.args]
            if target is while_loop_op:  # PyTorch's condition returns the tensor itself
                inputs[0]["arg"]["as_graph"]["graph"]["is_single_tensor_return"] = True
            is_whole = isinstance(value, Tensor)
            outputs = [self.result(node.name, value)] if is_whole else self.parts(node, value)
        elif target in NAMES:
            value = computed(node) if value is None else value
            names = list(inspect.signature(target).parameters)
            inputs = [named(name, self.value(arg), POSITIONAL) for name, arg in zip(names, node.args, strict=False)]
            outputs = [self.result(node.name, value)]
        else:
            raise NotImplementedError(f"torch.export.save: a call of {target} is not supported")
        return {
            "target": self.target(target),
            "inputs": inputs,
            "outputs": outputs,
            "metadata": metadata(node),
            "is_hop_single_tensor_return": is_whole,
            "name": node.name,
        }

    def target(self, target: Any) -> str:
        if isinstance(target, OpOverload):
            return f"torch.ops.{target._namespace}.{target._opname}.{target._overloadname}"
        return f"torch.ops.higher_order.{target}" if isinstance(target, HigherOrderOperator) else NAMES[target]

    def arguments(self, target: OpOverload, node: Node) -> list[Any]:
        found = []
        for k, argument in enumerate(target._schema.arguments):
            if argument.name in node.kwargs:
                found.append(named(argument.name, self.value(node.kwargs[argument.name], argument.real_type), KEYWORD))
            elif not argument.kwarg_only and k < len(node.args):
                found.append(named(argument.name, self.value(node.args[k], argument.real_type), POSITIONAL))
        return found

    # ---- results
    def results(self, node: Node, target: OpOverload) -> list[Any]:
        """The results of an operation: one, several, or a list of tensors."""
        returns, value = target._schema.returns, node.meta.get("val")
        if not returns:
            return []
        if len(returns) > 1:
            return self.parts(node, value)
        if isinstance(value, (tuple, list)):
            return [{"as_tensors": [part["as_tensor"] for part in self.parts(node, value)]}]
        return [self.result(node.name, value)]

    def parts(self, node: Node, values: Any) -> list[Any]:
        """Results by the names of the nodes that take them out."""
        taken = {user.args[1]: user.name for user in node.users if user.target is GETITEM}
        return [self.result(taken.get(k, f"{node.name}_unused_{k}"), part) for k, part in enumerate(values)]

    def result(self, name: str, value: Any) -> dict[str, Any]:
        """The value of a name, of which the graph notes what is known."""
        if isinstance(value, Tensor):
            self.made["tensor_values"][name] = tensor_meta(value)
            return {"as_tensor": {"name": name}}
        if isinstance(value, SymbolicBool):
            self.made["sym_bool_values"][name] = {"as_expr": {"expr_str": str(value), "hint": None}}
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(value, SymbolicFloat):
            self.made["sym_float_values"][name] = {"as_expr": {"expr_str": text_of(value.expr), "hint": None}}
            return {"as_sym_float": {"as_name": name}}
        if isinstance(value, SymbolicInt):
            self.made["sym_int_values"][name] = size(value)
            return {"as_sym_int": {"as_name": name}}
        return self.value(value)

    # ---- values
    def value(self, value: Any, kind: Any = None) -> dict[str, Any]:
        """An argument; ``kind`` is its type in the schema, where there is one.

        Raises:
            NotImplementedError: a value that files have not.
        """
        if isinstance(value, Node):
            return self.reference(value)
        if isinstance(value, (list, tuple)):
            return self.listed(list(value))
        if value is None:
            return {"as_none": True}
        for classes, write in _VALUES:
            if isinstance(value, classes) and not isinstance(value, SymbolicInt):
                return write(value)
        raise NotImplementedError(f"torch.export.save: a constant of type {type(value).__name__} is not supported")

    def reference(self, node: Node) -> dict[str, Any]:
        """A node's value; a graph in the program is written where it is used."""
        if node.op == "get_attr":
            inner = getattr(self.root, str(node.target))
            return {"as_graph": {"name": str(node.target), "graph": self.graph(inner)}}
        value = computed(node) if node.target in NAMES and node.meta.get("val") is None else node.meta.get("val")
        for classes, kind in ((SymbolicInt, "as_sym_int"), (SymbolicFloat, "as_sym_float"), (SymbolicBool, "as_sym_bool")):
            if isinstance(value, classes):
                return {kind: {"as_name": node.name}}
        return {"as_tensor": {"name": node.name}}

    def listed(self, values: list[Any]) -> dict[str, Any]:
        """A list: of tensors, of numbers, or of both where numbers are symbolic."""
        parts = [self.value(each) for each in values]
        kinds = {kind for part in parts for kind in part}
        for alike, name in (("as_tensor", "as_tensors"), ("as_int", "as_ints"), ("as_float", "as_floats"), ("as_bool", "as_bools"),
                            ("as_string", "as_strings"), ("as_ints", "as_int_lists"), ("as_tensors", "as_nested_tensors"),
                            ("as_floats", "as_float_lists")):  # fmt: skip
            if kinds == {alike}:
                return {name: [part[alike] for part in parts]}
        if not kinds:
            return {"as_ints": []}
        if kinds == {"as_tensor", "as_none"}:
            return {"as_optional_tensors": parts}
        if kinds == {"as_int", "as_float"}:
            return {"as_floats": [float(next(iter(part.values()))) for part in parts]}
        for symbolic, plain in (("as_sym_int", "as_int"), ("as_sym_float", "as_float"), ("as_sym_bool", "as_bool")):
            if kinds <= {symbolic, plain}:
                return {f"{symbolic}s": [part.get(symbolic, part) for part in parts]}
        raise NotImplementedError(f"torch.export.save: a list of {', '.join(sorted(kinds))} is not supported")

    # ---- what inputs and results are
    def signature(self, signature: Any) -> dict[str, Any]:
        return {
            "input_specs": [self.input_spec(spec) for spec in signature.input_specs],
            "output_specs": [self.output_spec(spec) for spec in signature.output_specs],
        }

    def input_spec(self, spec: Any) -> dict[str, Any]:
        kind = spec.kind.name
        if kind == "USER_INPUT":
            if isinstance(spec.arg, signatures.ConstantArgument):
                return {"constant_input": {"name": spec.arg.name, "value": self.value(spec.arg.value)}}
            return {"user_input": {"arg": argument(spec.arg)}}
        word, name, more = {
            "PARAMETER": ("parameter", "parameter_name", {}),
            "BUFFER": ("buffer", "buffer_name", {"persistent": bool(spec.persistent)}),
            "CONSTANT_TENSOR": ("tensor_constant", "tensor_constant_name", {}),
        }[kind]
        return {word: {"arg": {"name": spec.arg.name}, name: spec.target, **more}}

    def output_spec(self, spec: Any) -> dict[str, Any]:
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            is_constant = isinstance(spec.arg, signatures.ConstantArgument)
            return {"user_output": {"arg": self.value(spec.arg.value) if is_constant else argument(spec.arg)}}
        name = {
            "LOSS_OUTPUT": None,
            "BUFFER_MUTATION": "buffer_name",
            "PARAMETER_MUTATION": "parameter_name",
            "GRADIENT_TO_PARAMETER": "parameter_name",
            "GRADIENT_TO_USER_INPUT": "user_input_name",
            "USER_INPUT_MUTATION": "user_input_name",
        }[kind]
        return {kind.lower(): {"arg": {"name": spec.arg.name}, **({} if name is None else {name: spec.target})}}


def call_signature(given: Any, is_outermost: bool) -> dict[str, Any] | None:
    """The signature of a module's call."""
    if given is None:
        return None
    writer = Writer()

    def written(spec: Any) -> dict[str, Any]:
        return writer.value(spec.value) if isinstance(spec, signatures.ConstantArgument) else argument(spec)

    return {
        "inputs": [] if is_outermost else [written(spec) for spec in given.inputs],
        "outputs": [] if is_outermost else [written(spec) for spec in given.outputs],
        "in_spec": treespec_dumps(given.in_spec),
        "out_spec": treespec_dumps(given.out_spec),
        "forward_arg_names": given.forward_arg_names,
    }


def computed(node: Any) -> Any:
    """The value of a node of numbers, from theirs; None where one is not known."""
    if not isinstance(node, Node):
        return node
    if node.meta.get("val") is not None or node.op != "call_function" or node.target not in NAMES:
        return node.meta.get("val")
    args = [computed(arg) for arg in node.args]
    target: Any = node.target
    return None if any(arg is None or isinstance(arg, Tensor) for arg in args) else target(*args)


def named(name: str, value: Any, kind: int) -> dict[str, Any]:
    return {"name": name, "arg": value, "kind": kind}


def argument(spec: Any) -> dict[str, Any]:
    """A placeholder or a result, by its name."""
    for kind, word in (("SymIntArgument", "as_sym_int"), ("SymFloatArgument", "as_sym_float"), ("SymBoolArgument", "as_sym_bool")):
        if type(spec).__name__ == kind:
            return {word: {"as_name": spec.name}}
    return {"as_tensor": {"name": spec.name}}


def metadata(node: Node) -> dict[str, str]:
    """The origin of a node: lines of the program, modules around it, and the function that it is of."""
    return {key: write(node.meta[key]) for key, write in _NOTES.items() if node.meta.get(key)}


_NOTES: dict[str, Callable[[Any], str]] = {
    "stack_trace": str,
    "nn_module_stack": lambda stack: ";".join([f"{key},{path},{kind}" for key, (path, kind) in stack.items()]),
    "source_fn_stack": lambda stack: ";".join([f"{name},{function}" for name, function in stack]),
    "torch_fn": ";".join,
}


_VALUES: tuple[tuple[Any, Callable[[Any], dict[str, Any]]], ...] = (
    (bool, lambda value: {"as_bool": value}),
    (int, lambda value: {"as_int": int(value)}),
    (float, lambda value: {"as_float": number(float(value))}),
    (str, lambda value: {"as_string": value}),
    (complex, lambda value: {"as_complex": {"real": number(value.real), "imag": number(value.imag)}}),
    (dtypes.dtype, lambda value: {"as_scalar_type": SCALAR_TYPES[value.name]}),
    (Device, lambda value: {"as_device": device(value)}),
    (layouts.memory_format, lambda value: {"as_memory_format": MEMORY_FORMATS[value.name]}),
    (layouts.layout, lambda value: {"as_layout": LAYOUTS[value.name]}),
)


def ranges(program: Any) -> dict[str, Any]:
    """Bounds of the symbols."""
    from ..fx.experimental.symbolic_shapes import UNBOUNDED

    found = {}
    known = {str(name): values for name, values in program.range_constraints.items()}
    for node in program.graph.nodes:
        if isinstance(value := node.meta.get("val"), FakeTensor) and value.fake_mode.shape_env is not None:
            known = {**value.fake_mode.shape_env.var_to_range, **known}
    for name, values in known.items():
        low, high = (None if abs(bound) >= UNBOUNDED else bound for bound in (values.lower, values.upper))
        found[str(name)] = {"min_val": low, "max_val": high}
    return found
