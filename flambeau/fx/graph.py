"""Graphs of operations, and the Python code that they stand for. Source: torch.fx.graph."""

from __future__ import annotations

import builtins
import contextlib
import copy
import enum
import json
import keyword
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..core.checks import SymBool, SymFloat, SymInt
from ..core.device import device
from ..core.dtype import dtype
from ..core.layout import layout, memory_format
from ..core.shape import Size
from ..nn import Module
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree
from ._library import library
from .node import OPS, Argument, Node, Target, _side_effectful_functions as _side_effectful_functions, map_arg, qualified_name, type_repr
from .tensor_type import _DynType

__all__ = ["CodeGen", "Graph", "PythonCode"]

# How calls of the operator module are written.
BINARY = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "add": "+", "sub": "-", "mul": "*", "floordiv": "//",
    "truediv": "/", "mod": "%", "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "matmul": "@",
}  # fmt: skip
IN_PLACE = {f"i{name.strip('_')}": f"{sign}=" for name, sign in BINARY.items() if sign not in ("==", "!=", "<", ">", "<=", ">=")}
UNARY = {"pos": "+", "neg": "-", "invert": "~"}
WRITTEN = {getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in BINARY.items()}
WRITTEN |= {getattr(operator, name): f"{sign}{{}}" for name, sign in UNARY.items()} | {operator.getitem: "{}[{}]"}
WRITTEN_IN_PLACE = {getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in IN_PLACE.items()}

# Names that generated code has beside those of functions.
ALWAYS: dict[str, Any] = {
    "inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": library, "device": device, "fx_pytree": fx_pytree,
    "pytree": pytree,
}  # fmt: skip


class Namespace:
    """The names that are taken in a graph, and what each of them names."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A name near ``candidate`` that nothing else has: ``relu``, then ``relu_1``.

        Args:
            candidate: what is no name of Python's is made one.
            obj: what it names; one that has a name already keeps it. None: nothing.
        """
        if obj is not None and obj in self._names:
            return self._names[obj]
        name = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        name = f"_{name}" if name[0].isdigit() else name
        numbered = re.fullmatch(r"(.+)_(\d+)", name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        while name in self._used or _is_reserved(name, obj):
            number = self._counts.get(base, 0) + 1
            name = f"{base}_{number}"
            self._counts[base] = number
        self._used.add(name)
        self._counts[base] = max(number, self._counts.get(base, 0))
        if obj is not None:
            self._names[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        self._used.add(name)
        self._names[obj] = name


def _is_reserved(name: str, obj: Any) -> bool:
    if name in keyword.kwlist:
        return True
    if name in builtins.__dict__:
        return obj is not builtins.__dict__[name]
    return name in ALWAYS and obj is not ALWAYS[name]


@dataclass
class PythonCode:
    """Generated code. Source: torch.fx.graph.PythonCode.

    Args:
        src: the text. globals: what the names in it are, besides those that it defines.
    Example:
        >>> graph = torch.fx.Graph()
        >>> graph.output(graph.placeholder("x") + 1 if False else 3)
        output
        >>> "return 3" in graph.python_code("self").src
        True
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class CodeGen:
    """Writes a graph as a function's text; subclasses change its arguments, results and first lines.

    Source: torch.fx.graph.CodeGen.
    Example:
        >>> torch.fx.CodeGen().generate_output(3)
        'return 3'
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line that begins the function, of its arguments and the annotation of its result."""
        arguments = free_vars if free_vars and free_vars[0] == "self" else ["self", *free_vars]
        return f"def {self._func_name}({', '.join(arguments)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument) -> str:
        """The line that returns the graph's result."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of the graph's placeholders for a caller's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The value that a caller gets for the graph's result."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the text needs beside those of the graph."""
        return []

    def _gen_python_code(self, nodes: Any, root_module: str, namespace: Namespace, verbose: bool = False) -> PythonCode:
        return Writer(self, nodes, root_module, namespace, verbose).code()


@dataclass
class Writer:
    """Writes one graph as a function: a line for each node, values forgotten behind their last use."""

    codegen: CodeGen
    nodes: Any
    root: str
    namespace: Namespace
    verbose: bool = False
    globals: dict[str, Any] = field(default_factory=dict)
    wrapped: dict[str, None] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    result: str = ""

    def code(self) -> PythonCode:
        for name, value in self.codegen.additional_globals():
            self.name_of(name, value)
        last = last_uses(self.nodes)
        shown_trace: str | None = None
        for node in self.nodes:
            if self.verbose and node.op not in ("placeholder", "output"):
                shown_trace = self.note_origin(node, shown_trace)
            self.emit(node)
            self.forget(node, last)
        if not self.lines:
            self.lines.append("pass\n")
        if self.codegen._body_transformer is not None:
            self.lines = self.codegen._body_transformer(self.lines)
        prologue = self.codegen.gen_fn_def(self.arguments, self.result)
        if self.wrapped:
            self.globals["torch"] = library
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self.wrapped)
        body = "\n".join(f"    {line}" for line in "".join(self.lines).split("\n"))
        return PythonCode(f"\n{wraps}\n\n{prologue}\n{body}", self.globals, _prologue_start=wraps.count("\n") + 4)

    def name_of(self, hint: str, value: Any) -> str:
        """The global name of a value in the text."""
        module = getattr(value, "__module__", None)
        if module in ("builtins", "typing") and getattr(builtins, hint, None) is value:
            return hint
        if hint == "torch" or hint.startswith("torch."):
            if _is_reached(hint, value):
                self.globals["torch"] = library
                return hint
        for name, always in ALWAYS.items():
            if value is always:
                self.globals[name] = value
                return name
        candidate = hint.replace(".", "_")
        name = self.namespace.create_name(candidate, _Identity(value))
        self.globals[name] = value
        return name

    def type_of(self, annotation: Any) -> str:
        """An annotation as text whose names the code has."""
        if annotation is None or annotation is type(None):
            return "NoneType" if annotation is not None else "None"
        if annotation == ():
            return "()"
        if isinstance(annotation, _DynType):
            annotation = _DynType  # which has a name
        origin = getattr(annotation, "__origin__", None)
        if origin is None:
            return self.name_of(type_repr(annotation), annotation) if isinstance(annotation, type | str | int) else type_repr(annotation)
        generic = "Union" if origin is typing.Union else getattr(annotation, "_name", None)
        outer = getattr(typing, generic, origin) if generic and not isinstance(annotation, types.GenericAlias) else origin
        name = self.name_of(f"typing.{generic}" if outer is not origin or not isinstance(origin, type) else type_repr(origin), outer)
        inner = ",".join("..." if each is ... else self.type_of(each) for each in annotation.__args__)
        return f"{name}[{inner}]"

    def note_origin(self, node: Node, shown_trace: str | None) -> str | None:
        """Above lines that came from another place of the program, that place."""
        trace = node.stack_trace
        if trace is not None and trace != shown_trace:
            found = re.findall(r'File "(.*?)", line (\d+), in (\w+)\n\s*(.*)', trace)
            if found:
                file, line, function, text = found[-1]
                self.lines.append(f"\n# File: {file}:{line} in {function}, code: {text}\n")
        elif trace is None and shown_trace != "":
            self.lines.append(("\n" if self.lines else "") + "# No stacktrace found for following nodes\n")
            return ""
        return trace if trace is not None else shown_trace

    def emit(self, node: Node) -> None:
        """Add the line of a node."""
        kind = "" if node.type is None else f" : {self.type_of(node.type)}"
        if self.verbose and (noted := shape_of(node)):
            kind = f': "{noted}"'
        name, target = repr(node), node.target
        if node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            raw = str(target).replace("*", "")
            self.arguments.append(f"{target}{kind}{default}")
            if raw != name:
                self.lines.append(f"{name} = {raw}\n")
        elif node.op == "call_method":
            method = _attribute(self.value(node.args[0]), str(target))
            self.lines.append(f"{name}{kind} = {method}({self.call(node.args[1:], node.kwargs)})")
        elif node.op == "call_function":
            self.lines.append(self.called(node, kind))
        elif node.op == "call_module":
            self.lines.append(f"{name}{kind} = {_attribute(self.root, str(target))}({self.call(node.args, node.kwargs)})")
        elif node.op == "get_attr":
            self.lines.append(f"{name}{kind} = {_attribute(self.root, str(target))}")
        elif node.op == "output":
            if node.type is not None:
                self.result = f" -> {self.type_of(node.type)}"
            self.lines.append(self.codegen.generate_output(_Shown.around(node.args[0], self)))

    def called(self, node: Node, kind: str) -> str:
        """The line of a function's call, an operator where it is one."""
        target, args, name = node.target, node.args, repr(node)
        assert callable(target)
        if target in WRITTEN and not node.kwargs and len(args) == WRITTEN[target].count("{}"):
            return f"{name}{kind} = {WRITTEN[target].format(*map(self.value, args))}"
        if target in WRITTEN_IN_PLACE and not node.kwargs:
            done = WRITTEN_IN_PLACE[target].format(*map(self.value, args))
            return f"{done};  {name}{kind} = {self.value(args[0])}"
        if target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
            return f"{name}{kind} = {_attribute(self.value(args[0]), args[1])}"
        where = qualified_name(target)
        function = self.name_of(where, target)
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(function)
        return f"{name}{kind} = {function}({self.call(args, node.kwargs)})"

    def call(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(value)}" for key, value in kwargs.items())])

    def value(self, argument: Argument) -> str:
        """An argument as the code writes it."""
        if isinstance(argument, tuple) and hasattr(argument, "_fields"):
            name = self.name_of(type_repr(type(argument)), type(argument))
            return f"{name}({', '.join(f'{key} = {self.value(part)}' for key, part in zip(argument._fields, argument, strict=True))})"
        if isinstance(argument, tuple):
            return "(" + ", ".join(map(self.value, argument)) + ("," if len(argument) == 1 else "") + ")"
        if isinstance(argument, list):
            return "[" + ", ".join(map(self.value, argument)) + "]"
        if isinstance(argument, dict):
            return "{" + ", ".join(f"{key!r}: {self.value(part)}" for key, part in argument.items()) + "}"
        if isinstance(argument, slice):
            return f"slice({', '.join(map(self.value, (argument.start, argument.stop, argument.step)))})"
        if isinstance(argument, enum.Enum):
            return f"{self.name_of(type_repr(type(argument)), type(argument))}.{argument.name}"
        if isinstance(argument, device):
            return self.name_of("device", device) + repr(argument).removeprefix("device")
        if isinstance(argument, dtype | layout | memory_format):
            self.globals["torch"] = library
        elif isinstance(argument, float) and not math.isfinite(argument):
            self.globals.update(inf=math.inf, nan=math.nan)
        elif isinstance(argument, Size):
            return f"torch.Size({list(argument)!r})"
        elif callable(argument) and not isinstance(argument, Node):
            return self.name_of(qualified_name(argument), argument)
        return repr(argument)

    def forget(self, node: Node, last: dict[Node, list[Node]]) -> None:
        """End the line of a node by forgetting the values that nothing uses any more."""
        if node.op == "placeholder":
            return
        if node.op == "output":
            self.lines.append("\n")
            return
        names = [repr(each) for each in last.get(node, ())]
        if not node.users:
            names.append(repr(node))
        self.lines.append(f";  {' = '.join(names)} = None\n" if names else "\n")


SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}  # of dtypes, with their bits


def shape_of(node: Node) -> str | None:
    """The dtype and shape that are noted of a node: ``f32[2, 3]``."""
    noted = node.meta.get("val", node.meta.get("tensor_meta"))
    if isinstance(noted, (SymInt, SymFloat, SymBool)):
        return f"Sym({noted})"
    if noted is None or not hasattr(noted, "dtype") or not hasattr(noted, "shape"):
        return None
    name = str(noted.dtype).rpartition(".")[2]
    letters = name.rstrip("0123456789")
    short = "b8" if name == "bool" else SHORT.get(letters, letters) + name.removeprefix(letters)
    return f"{short}[{', '.join(map(str, noted.shape))}]"


class _Shown:
    """A result as the code writes it, for ``CodeGen.generate_output``, which writes its ``repr``."""

    def __init__(self, text: str):
        self.text = text

    @classmethod
    def around(cls, result: Argument, writer: Writer) -> Any:
        if type(result) in (list, tuple):  # whose parts code generators take one by one
            return type(result)([cls.around(part, writer) for part in result])
        return cls(writer.value(result))

    def __repr__(self) -> str:
        return self.text


class _Identity:
    """A value as a key, equal to itself alone."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


def last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """For each node, those that nothing uses behind it."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for node in user.all_input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found


def _is_reached(path: str, value: Any) -> bool:
    """Whether ``torch.a.b`` is a value."""
    thing: Any = library
    for part in path.split(".")[1:]:
        thing = getattr(thing, part, None)
    return thing is value


def _attribute(owner: str, path: str) -> str:
    """``owner.a.b`` as an expression; numbers, which containers name their parts by, through ``getattr``."""
    for part in path.split("."):
        is_name = part.isidentifier() and not keyword.iskeyword(part)
        # A path may come from a file: what is no name stays a text whatever signs are in it, in double quotes as PyTorch has it.
        owner = f"{owner}.{part}" if is_name else f"getattr({owner}, {json.dumps(part, ensure_ascii=False)})"
    return owner


class _PyTreeInfo(NamedTuple):
    """Structures of a graph's arguments and result, for ``PyTreeCodeGen``."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any | None


class PyTreeCodeGen(CodeGen):
    """Writes functions whose arguments are structures, of a graph whose placeholders are their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = [name for name in self.pytree_info.orig_args if name != "self"]
        first = super().gen_fn_def(names, maybe_return_annotation)
        if not free_vars:
            return first
        leaves = [leaf.partition(":")[0].partition("=")[0].strip() for leaf in free_vars]
        given = f"[{', '.join(names)}]"
        return f"{first}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec({given}, self._in_spec)"

    def generate_output(self, output_args: Argument) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args!r}, self._out_spec)"

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("fx_pytree", fx_pytree), ("pytree", pytree)]


class NodeList:
    """The nodes of a graph in their order; what is erased meanwhile is left out."""

    def __init__(self, graph: Graph, direction: str = "_next"):
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        node = getattr(self.graph._root, self.direction)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, "_next" if self.direction == "_prev" else "_prev")


class InsertPoint:
    """Context in which a graph's new nodes come at another place."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]):
        self.graph, self.insert, self.before = graph, insert, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc_info: object) -> None:
        self.graph._insert = self.before


class Graph:
    """Operations in the order in which they run, from placeholders to one output.

    Args:
        owning_module: the module that its targets are of.
        tracer_cls: the class of the tracer that made it, to make it again after pickling.
        tracer_extras: arguments for it.
    Source: torch.fx.Graph.
    Example:
        >>> graph = torch.fx.Graph()
        >>> y = graph.call_function(torch.neg, (graph.placeholder("x"),))
        >>> _ = graph.output(y)
        >>> torch.fx.GraphModule(torch.nn.Module(), graph)(torch.ones(1))
        tensor([-1.])
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: dict[str, Any] | None = None):
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._used_names: dict[str, int] = {}
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> Any:
        """The module that its targets are of; None for a graph that is none's."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: Any) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> NodeList:
        """The nodes in their order. It may be changed while it is walked through. Source: torch.fx.Graph.nodes."""
        return NodeList(self)

    def output_node(self) -> Node:
        """The node that returns the result. Source: torch.fx.Graph.output_node."""
        last = next(iter(reversed(self.nodes)))
        if last.op != "output":
            raise AssertionError(f"Expected last node to be output, got {last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Any]:
        """The nodes of an operation, in their order.

        Args:
            op: as of ``Node``. target: of these those of one target; needed for ``call_function``. sort: has no effect.
        Source: torch.fx.Graph.find_nodes.
        """
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # ---- nodes
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node where nodes are added now: at the end, or as ``inserting_before`` says.

        Args:
            op, target, args, kwargs: as of ``Node``. name: near which its name is; by the target when None. type_expr: an annotation.
        Returns:
            The node.
        Raises:
            AssertionError: an unknown operation, or arguments that are no tuple and no dict.
        Source: torch.fx.Graph.create_node.
        """
        if op not in OPS:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if not isinstance(args, tuple | list | None):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict | None):
            raise AssertionError("kwargs must be a dict")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate)
        node = Node(self, name, op, target, tuple(args or ()), kwargs or {}, type_expr)
        if self.owning_module is not None:
            for hook in getattr(self.owning_module, "_create_node_hooks", ()):
                hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an input. Source: torch.fx.Graph.placeholder.

        Args:
            name: of the function's argument; ``*args`` and ``**kwargs`` may be.
            type_expr: its annotation. default_value: where the argument is left out; there is none when it is ``...``.
        """
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add the read of a parameter, buffer or another attribute of the module. Source: torch.fx.Graph.get_attr."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Add the call of a module in the module. Source: torch.fx.Graph.call_module."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        """Add the call of a method of ``args[0]``. Source: torch.fx.Graph.call_method."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None, type_expr: Any = None, name: str | None = None
    ) -> Node:
        """Add the call of a function. Source: torch.fx.Graph.call_function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the result. Source: torch.fx.Graph.output."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node) -> Node:
        """Add a copy of another graph's node.

        Args:
            node: the node. arg_transform: gives the argument in this graph for each node among its arguments.
        Returns:
            The copy, with the same notes in ``meta``.
        Source: torch.fx.Graph.node_copy.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        copied.meta = copy.copy(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Add copies of all nodes of another graph but its output.

        Args:
            g: the other graph. val_map: nodes of this graph that stand for nodes of it; the copies are added to it.
            return_output_node: return the other graph's output node, too.
        Returns:
            What its output returns, in nodes of this graph; None without an output.
        Source: torch.fx.Graph.graph_copy.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda each: val_map[each])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda each: val_map[each])
        return None

    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nothing uses.

        Raises:
            RuntimeError: a node that others use, or of another graph.
        Source: torch.fx.Graph.erase_node.
        """
        if to_erase.users:
            users = f"{len(to_erase.users)} users in the graph: {to_erase.users}"
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {users}!")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._unlink()
        to_erase._erased = True
        self._len -= 1
        to_erase._take((), {})

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """Context in which nodes are added before a node; at the beginning when None. Source: torch.fx.Graph.inserting_before."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """Context in which nodes are added behind a node; at the end when None. Source: torch.fx.Graph.inserting_after."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return InsertPoint(self, n.append)

    def process_inputs(self, *args: Any) -> Any:
        """The values of the placeholders for a caller's arguments. Source: torch.fx.Graph.process_inputs."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The value that a caller gets for the graph's result. Source: torch.fx.Graph.process_outputs."""
        return self._codegen.process_outputs(out)

    # ---- as code and text
    def _target_to_str(self, target: Target | None) -> str:
        if callable(target):
            name = target.__name__
        else:
            name = str(target)
            if re.fullmatch(r"__\w+__", name):
                name = name[2:-2]
        return _snake_case(name)

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The graph as the text of a function.

        Args:
            root_module: what the module is named in it, mostly ``"self"``. verbose: whether lines say where they come from.
            options: ``include_stride``, ``include_device``, ``colored``, ``expanded_def``: not supported but as False.
        Raises:
            NotImplementedError: one of ``options``.
        Source: torch.fx.Graph.python_code.
        """
        for name, value in options.items():
            if value:
                raise NotImplementedError(f"Graph.python_code({name}={value!r}) is not supported")
        namespace = Namespace()
        for node in self.nodes:
            namespace.associate_name_with_obj(node.name, node)
        before = {node: node._repr_fn for node in self.nodes}
        try:
            for node in before:
                node._repr_fn = None
            return self._codegen._gen_python_code(self.nodes, root_module, namespace, verbose)
        finally:
            for node, function in before.items():
                node._repr_fn = function

    def __str__(self) -> str:
        names: list[str] = []
        lines = [node.format_node(names) for node in self.nodes]
        text = "graph():"
        for line in (*names, *filter(None, lines)):
            text += f"\n    {line}"
        return text

    def print_tabular(self) -> None:
        """Print the nodes as a table; needs the library ``tabulate``. Source: torch.fx.Graph.print_tabular."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip install tabulate` to "
                "install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    # ---- checks and passes
    def lint(self) -> None:
        """Check that nodes come after their arguments, have names of their own, and have targets that the module has.

        Raises:
            RuntimeError: one of these does not hold.
        Source: torch.fx.Graph.lint.
        """
        names: set[str] = set()
        seen: set[Node] = set()

        def check(user: Node, node: Node) -> None:
            if node.graph is not self:
                raise RuntimeError(f"Argument '{node}' of Node '{user}' does not belong to this Graph, but was used as an argument!")
            if node not in seen:
                raise RuntimeError(
                    f"Argument '{node}' of Node '{user}' was used before it has been defined! Please check that Nodes in the graph are "
                    f"topologically ordered\n{self}"
                )

        for node in self.nodes:
            if node.op not in OPS:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for argument in node.all_input_nodes:
                check(node, argument)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    self._check_target(node)

    def _check_target(self, node: Node) -> None:
        """RuntimeError where the module has not what a node reads or calls."""
        thing = self.owning_module
        parts = str(node.target).split(".")
        for i, part in enumerate(parts):
            if not hasattr(thing, part):
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part} of {'.'.join(parts[:i])}")
            thing = getattr(thing, part)
        if node.op == "call_module" and not isinstance(thing, Module):
            raise RuntimeError(f"Node {node} target {node.target} {parts[-1]} of {'.'.join(parts[:-1])} does not reference an nn.Module")

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out nodes that nothing uses and that do nothing else.

        Args:
            is_impure_node: whether a node stays anyway; ``Node.is_impure`` when None.
        Returns:
            Whether there were any.
        Raises:
            RuntimeError: the graph is not in order, as ``lint`` finds.
        Source: torch.fx.Graph.eliminate_dead_code.
        """
        self.lint()
        keeps = is_impure_node or (lambda node: node.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not keeps(node):
                self.erase_node(node)
                changed = True
        return changed

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have the text be written by another ``CodeGen``. Source: torch.fx.Graph.set_codegen."""
        self._codegen = codegen

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
        """Have the lines of the text changed before they become code.

        Args:
            make_transformer: is given the function that changes them now, or None, and returns another; from a list of lines to one.
        Returns:
            A context at whose end the change is taken back; the change lasts where it is not entered.
        Source: torch.fx.Graph.on_generate_code.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def taken_back() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return taken_back()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        nodes: dict[Node, Node] = {}
        result = copied.graph_copy(self, nodes, return_output_node=True)
        copied._codegen = copy.copy(self._codegen)
        if result is not None:
            value, old = result
            output = copied.output(value, type_expr=old.type)
            output.meta = copy.copy(old.meta)
        return copied


def _snake_case(name: str) -> str:
    """``MaxPool2d`` as ``max_pool2d``."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower() if name != name.lower() else name
