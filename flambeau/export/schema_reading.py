"""Graphs, signatures and tensors from PyTorch's files; the other way round of ``schema_writing``.

A file may be anybody's. Names that go into generated code must be identifiers, operations are looked up by name among those of
``torch.ops`` and a list of operators, and structures must be of containers that are known: nothing in a file is imported or run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

from ..aten.fake_tensor import FakeTensor, FakeTensorMode
from ..aten.namespaces import ops
from ..aten.overloads import OpOverload
from ..aten.symbolic_fakes import symbolize
from ..core import dtype as dtypes, layout as layouts
from ..core.arrays.meta_array import empty
from ..core.device import device as Device
from ..core.symbolic import SymbolicBool
from ..core.tensor import wrap
from ..fx.control_flow import OPERATORS as HIGHER_ORDER, HigherOrderOperator
from ..fx.experimental.symbolic_shapes import ShapeEnv, ValueRanges
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn import Module
from ..utils._pytree import treespec_loads
from . import graph_signature as signatures
from .expression_text import LONGEST, expression_from
from .names import identifier, path
from .operators import GETITEM, NAMES, OPERATORS
from .schema_writing import KEYWORD, LAYOUTS, MEMORY_FORMATS, SCALAR_TYPES

DTYPES = {number: dtypes.ALL[name] for name, number in SCALAR_TYPES.items() if name in dtypes.ALL}
_LAYOUTS = {number: getattr(layouts, name) for name, number in LAYOUTS.items()}
_FORMATS = {number: getattr(layouts, name) for name, number in MEMORY_FORMATS.items()}
_REFUSED = frozenset(("from_file",))  # operations that reach for files
_DEEPEST = 100  # containers in each other
# Of which a symbolic condition or fraction is computed: what gives a large number of small ones needs a float among them.
_OF_CONDITIONS = frozenset(("_operator.and_", "_operator.or_", "torch.sym_not"))
_OF_NUMBERS = frozenset(
    [f"_operator.{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "truediv")] + ["torch.sym_float", "torch.sym_sqrt"]
)
_OF_FRACTIONS = frozenset([f"_operator.{name}" for name in ("add", "sub", "mul", "neg", "pow")])
_PLAIN_FACTORIES = frozenset(("int", "float", "list", "dict", "set", "str", "bool", "tuple"))


# ---- structures of arguments
def structure(text: str) -> Any:
    """The structure that a text describes.

    Raises:
        ValueError: one with enumerations or factories, for which modules would be imported.
    """
    _check_structure(json.loads(text)[1], 0)
    return treespec_loads(text)


def _check_structure(described: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError("a structure that is too deep")
    context = described["context"]
    if isinstance(context, str):
        with contextlib.suppress(json.JSONDecodeError):  # other texts are for their containers to read
            json.loads(context, object_hook=_no_enumeration)
    if described["type"] == "collections.defaultdict" and context is not None:
        factory = json.loads(context) if isinstance(context, str) else context
        if factory["default_factory_module"] != "builtins" or factory["default_factory_name"] not in _PLAIN_FACTORIES:
            raise ValueError("a structure with a factory")
    elif described["type"] in ("builtins.dict", "collections.OrderedDict"):
        keys = json.loads(context) if isinstance(context, str) else context
        if not isinstance(keys, list) or len(keys) != len(described["children_spec"]):
            raise ValueError("a structure with other keys than values")
    for child in described["children_spec"]:
        _check_structure(child, depth + 1)


def _no_enumeration(described: dict[str, Any]) -> dict[str, Any]:
    """A part of a context; read as JSON, in which a name has many spellings."""
    if "__enum__" in described:
        raise ValueError("a structure with enumerations")
    return described


# ---- tensors
def plain(described: Any) -> int:
    """A size that is a number."""
    value = described["as_int"]
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is no size")
    return value


def device(described: Any) -> Any:
    return Device(described["type"], described["index"]) if described.get("index") is not None else Device(described["type"])


class Reader:
    """Reads the graphs of one program.

    Args:
        constraints: bounds of the symbols. signature: what the inputs and results of the outermost graph are.
    Attributes:
        ranges: bounds of the symbols.
    """

    def __init__(self, constraints: dict[str, Any], described: Any):
        self.env = ShapeEnv()
        hints: dict[str, int] = {}
        _find_hints(described, hints)
        for name, bounds in constraints.items():
            values = ValueRanges(bounds["min_val"] if bounds["min_val"] is not None else -(2**62), bounds["max_val"])
            self.env.restore(identifier(name), values, int(hints.get(name, 2)))
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=self.env, static_shapes=True)
        self.ranges = {expression_from(f"Symbol({name!r})"): values for name, values in self.env.var_to_range.items()}

    def size(self, described: Any) -> Any:
        """A size that may be symbolic."""
        if "as_int" in described:
            return plain(described)
        expr = expression_from(described["as_expr"]["expr_str"])
        for name in expr.symbols:
            if name not in self.env.var_to_range:
                self.env.restore(name, ValueRanges(0 if name.startswith("s") else -(2**62), None), 2)
        return self.env.number(expr)

    def tensor(self, described: Any) -> Any:
        """A tensor without values."""
        sizes = [self.size(each) for each in described["sizes"]]
        strides = [self.size(each) for each in described["strides"]]
        hints = tuple([int.__int__(each) for each in sizes])
        array = empty(hints, DTYPES[described["dtype"]].numpy)
        order = sorted(range(len(sizes)), key=lambda d: (-int.__int__(strides[d]), d))
        if order != list(range(len(sizes))):
            dense = wrap(empty(tuple([hints[d] for d in order]), DTYPES[described["dtype"]].numpy))
            array = dense.permute([order.index(d) for d in range(len(sizes))])._array
        fake = FakeTensor(self.mode, wrap(array), device(described["device"]))
        fake._requires_grad = bool(described["requires_grad"])
        return symbolize(fake, sizes)

    # ---- graphs
    def graph(self, described: dict[str, Any], specs: Any = None) -> tuple[Any, Graph]:
        """A graph, and the module that has the graphs in it; ``specs`` have the names of inputs that are constants."""
        return _GraphReader(self, described).read(specs)


def _find_hints(described: Any, hints: dict[str, int]) -> None:
    """Sizes of symbols in the example, where a size is a symbol alone."""
    for tensor in described["tensor_values"].values():
        for each in tensor["sizes"]:
            expr = each.get("as_expr")
            if expr is not None and expr.get("hint") and expr["expr_str"].startswith("Symbol("):
                found = expression_from(expr["expr_str"])
                hints.setdefault(str(found), int(expr["hint"]["as_int"]))


class _GraphReader:
    """Reads one graph."""

    def __init__(self, reader: Reader, described: dict[str, Any]):
        self.reader, self.described = reader, described
        self.root, self.made = Module(), Graph()
        self.nodes: dict[str, Node] = {}

    def read(self, specs: Any) -> tuple[Any, Graph]:
        for k, each in enumerate(self.described["inputs"]):
            self.placeholder(each, None if specs is None else specs[k])
        self.used = set(_names([each["inputs"] for each in self.described["nodes"]])) | set(_names(self.described["outputs"]))
        for each in self.described["nodes"]:
            self.node(each)
        results = [self.value(each) for each in self.described["outputs"]]
        self.made.output(tuple(results))
        return self.root, self.made

    def placeholder(self, described: Any, spec: Any) -> None:
        ((kind, content),) = described.items()
        named = {"as_tensor": "name", "as_sym_int": "as_name", "as_sym_float": "as_name", "as_sym_bool": "as_name"}.get(kind)
        if named is None:
            name = identifier(spec.arg.name)
            node = self.made.placeholder(name)
            node.name = name
            node.meta["val"] = self.value(described)
            return
        name = identifier(content[named])
        node = self.made.placeholder(name)
        self.note(name, node, self.known(name))

    def note(self, name: str, node: Node, value: Any) -> None:
        if name in self.nodes:
            raise ValueError(f"two nodes are called {name!r}")
        node.name = name
        self.nodes[name] = node
        node.meta["val"] = value

    def known(self, name: str) -> Any:
        """The value that a name is known to stand for."""
        if name in self.described["tensor_values"]:
            return self.reader.tensor(self.described["tensor_values"][name])
        if name in self.described["sym_int_values"]:
            return self.reader.size(self.described["sym_int_values"][name])
        return None

    def node(self, described: dict[str, Any]) -> None:
        target = target_of(described["target"])
        args, kwargs = self.arguments(target, described["inputs"])
        if isinstance(target, HigherOrderOperator):
            args = tuple([tuple(arg) if isinstance(arg, list) else arg for arg in args])
        outputs = described["outputs"]
        single = len(outputs) == 1 and not next(iter(outputs[0])).endswith("s")
        if isinstance(target, HigherOrderOperator) and not described.get("is_hop_single_tensor_return"):
            single = False
        kind: str
        content: Any
        ((kind, content),) = outputs[0].items() if single else (("", {}),)
        own = described.get("name") or (content.get("name", content.get("as_name")) if isinstance(content, dict) else None)
        name = identifier(own) if own else None
        node = self.made.create_node("call_function", target, args, kwargs, name)
        if name is not None:
            node.name = name
        if single and kind != "as_none":
            shown = identifier(content.get("name", content.get("as_name")))
            self.note(shown, node, self.known(shown) if kind in ("as_tensor", "as_sym_int") else self.computed(target, args))
        elif not single and outputs:
            parts = outputs[0]["as_tensors"] if len(outputs) == 1 and "as_tensors" in outputs[0] else outputs
            self.parts(node, parts)
        for key, value in described.get("metadata", {}).items():
            if key in _NOTES:
                for each in (node, *node.users):  # those that take parts out
                    each.meta[key] = _NOTES[key](str(value))

    def parts(self, node: Node, parts: list[Any]) -> None:
        """A node for each of several results that the program has one for."""
        values = []
        for k, each in enumerate(parts):
            content = each if "name" in each else next(iter(each.values()))
            shown = content.get("name", content.get("as_name")) if isinstance(content, dict) else None
            value = None if shown is None else self.known(identifier(shown))
            values.append(value)
            if shown is not None and (shown in self.used or "_unused_" not in shown):
                self.note(identifier(shown), self.made.create_node("call_function", GETITEM, (node, k), {}, shown), value)
        node.meta["val"] = tuple(values)

    def computed(self, target: Any, args: Any) -> Any:
        """A symbolic condition or fraction, from the numbers that it is made of; None of other functions."""
        known = [arg.meta.get("val") if isinstance(arg, Node) else arg for arg in args]
        name = NAMES.get(target, "") if not isinstance(target, OpOverload) else ""
        if name in _OF_CONDITIONS:
            wanted: Any = (bool, SymbolicBool)
        elif name in _OF_NUMBERS or (name in _OF_FRACTIONS and any(isinstance(value, float) for value in known)):
            wanted = (int, float)
        else:
            return None
        if not all(isinstance(value, wanted) for value in known):
            return None
        if sum([len(str(value)) for value in known if isinstance(value, float)]) > LONGEST:
            raise ValueError("a fraction that is too long")
        return target(*known)

    # ---- arguments
    def arguments(self, target: Any, inputs: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = [], {}
        named = {each["name"]: each for each in inputs}
        required = {}
        if isinstance(target, OpOverload):
            required = {each.name: each for each in target._schema.arguments}
            inputs = [named[name] for name in required if name in named]
        for each in inputs:
            by_name = each.get("kind") == KEYWORD
            if each.get("kind") is None and each["name"] in required:
                by_name = required[each["name"]].kwarg_only or required[each["name"]].has_default_value()
            if by_name:
                kwargs[identifier(each["name"])] = self.value(each["arg"])
            else:
                args.append(self.value(each["arg"]))
        return tuple(args), kwargs

    def value(self, described: Any) -> Any:
        """An argument."""
        ((kind, content),) = described.items()
        return _VALUES[kind](self, content)

    def graph(self, content: Any) -> Node:
        """A graph among the arguments: an attribute, and a node for it."""
        name = identifier(content["name"])
        self.root.add_module(name, GraphModule(*self.reader.graph(content["graph"])))
        node = self.made.create_node("get_attr", name, (), {}, name)
        node.name = name
        return node

    def mixed(self, described: Any) -> Any:
        """A number that may be a node's value."""
        ((kind, content),) = described.items()
        return self.nodes[content] if kind == "as_name" else content


def _names(described: Any) -> Any:
    """Names of nodes in arguments."""
    if isinstance(described, dict):
        for key, part in described.items():
            if key in ("name", "as_name") and isinstance(part, str):
                yield part
            yield from _names(part)
    elif isinstance(described, list):
        for part in described:
            yield from _names(part)


def number(value: Any) -> float:
    """A float, which may be one that JSON has not."""
    return float(value)


def target_of(name: str) -> Any:
    """The function of a call.

    Raises:
        ValueError: it is none that a program may call.
    """
    if name in OPERATORS:
        return OPERATORS[name]
    parts = name.split(".")
    if parts[:3] == ["torch", "ops", "higher_order"] and len(parts) == 4 and parts[3] in HIGHER_ORDER:
        return HIGHER_ORDER[parts[3]]
    if parts[:2] != ["torch", "ops"] or len(parts) != 5 or any(not part.isidentifier() for part in parts) or parts[3] in _REFUSED:
        raise ValueError(f"{name!r} is no operation of a program")
    namespace = ops.namespace("aten") if parts[2] == "aten" else getattr(ops, parts[2])
    found = getattr(getattr(namespace, parts[3]), parts[4])
    if not isinstance(found, OpOverload):
        raise ValueError(f"{name!r} is no operation")
    return found


def modules_around(text: str) -> dict[str, Any]:
    """The modules around a node, by key: each with its path and the name of its class."""
    found = {}
    for part in text.split(";"):
        key, _, rest = part.partition(",")
        where, _, kind = rest.rpartition(",")
        if key:
            found[key] = (where, kind)
    return found


_NOTES: dict[str, Callable[[str], Any]] = {
    "stack_trace": str,
    "nn_module_stack": modules_around,
    "source_fn_stack": lambda text: [tuple(part.split(",", 1)) for part in text.split(";") if "," in part],
    "torch_fn": lambda text: tuple(text.split(";")),
}
_VALUES: dict[str, Callable[[_GraphReader, Any], Any]] = {
    "as_none": lambda reader, content: None,
    "as_tensor": lambda reader, content: reader.nodes[content["name"]],
    "as_tensors": lambda reader, content: [reader.nodes[each["name"]] for each in content],
    "as_optional_tensor": lambda reader, content: reader.value(content),
    "as_optional_tensors": lambda reader, content: [reader.value(each) for each in content],
    "as_nested_tensors": lambda reader, content: [[reader.nodes[each["name"]] for each in part] for part in content],
    "as_int": lambda reader, content: int(content),
    "as_ints": lambda reader, content: [int(each) for each in content],
    "as_int_lists": lambda reader, content: [[int(each) for each in part] for part in content],
    "as_float": lambda reader, content: number(content),
    "as_floats": lambda reader, content: [number(each) for each in content],
    "as_float_lists": lambda reader, content: [[number(each) for each in part] for part in content],
    "as_bool": lambda reader, content: bool(content),
    "as_bools": lambda reader, content: [bool(each) for each in content],
    "as_string": lambda reader, content: str(content),
    "as_strings": lambda reader, content: [str(each) for each in content],
    "as_complex": lambda reader, content: complex(number(content["real"]), number(content["imag"])),
    **{f"as_sym_{kind}": lambda reader, content: reader.mixed(content) for kind in ("int", "float", "bool")},
    **{f"as_sym_{kind}s": lambda reader, content: [reader.mixed(each) for each in content] for kind in ("int", "float", "bool")},
    "as_scalar_type": lambda reader, content: DTYPES[content],
    "as_memory_format": lambda reader, content: _FORMATS[content],
    "as_layout": lambda reader, content: _LAYOUTS[content],
    "as_device": lambda reader, content: device(content),
    "as_graph": lambda reader, content: reader.graph(content),
}


# ---- what inputs and results are
_INPUTS = {
    "parameter": (signatures.InputKind.PARAMETER, "parameter_name"),
    "buffer": (signatures.InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (signatures.InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
}
_SYMBOLIC = {
    "as_sym_int": signatures.SymIntArgument,
    "as_sym_float": signatures.SymFloatArgument,
    "as_sym_bool": signatures.SymBoolArgument,
}


def signature(described: dict[str, Any]) -> Any:
    """The meaning of a program's inputs and results."""
    return signatures.ExportGraphSignature(
        [_input(each) for each in described["input_specs"]], [_output(each) for each in described["output_specs"]]
    )


def _constant(described: Any) -> Any:
    ((kind, content),) = described.items()
    if kind not in ("as_none", "as_int", "as_float", "as_string", "as_bool"):
        raise ValueError(f"{kind!r} is no constant")
    return _VALUES[kind](None, content)  # type: ignore[arg-type]


def _argument(described: Any) -> Any:
    ((kind, content),) = described.items()
    if kind == "as_tensor":
        return signatures.TensorArgument(identifier(content["name"]))
    if kind in _SYMBOLIC:
        return _SYMBOLIC[kind](identifier(content["as_name"]))
    return signatures.ConstantArgument("", _constant(described))


def call_arguments(described: Any) -> list[Any]:
    """The arguments or the results of a module's call."""
    return [_argument(each) for each in described]


def _input(described: Any) -> Any:
    ((word, content),) = described.items()
    if word == "user_input":
        return signatures.InputSpec(signatures.InputKind.USER_INPUT, _argument(content["arg"]), None)
    if word == "constant_input":
        found = signatures.ConstantArgument(identifier(content["name"]), _constant(content["value"]))
        return signatures.InputSpec(signatures.InputKind.USER_INPUT, found, None)
    kind, name = _INPUTS[word]
    persistent = bool(content["persistent"]) if word == "buffer" else None
    return signatures.InputSpec(kind, signatures.TensorArgument(identifier(content["arg"]["name"])), path(content[name]), persistent)


def _output(described: Any) -> Any:
    ((word, content),) = described.items()
    if word == "user_output":
        return signatures.OutputSpec(signatures.OutputKind.USER_OUTPUT, _argument(content["arg"]), None)
    kind = signatures.OutputKind[word.upper()]
    target = next((content[key] for key in ("buffer_name", "parameter_name", "user_input_name") if key in content), None)
    return signatures.OutputSpec(
        kind, signatures.TensorArgument(identifier(content["arg"]["name"])), None if target is None else path(target)
    )
