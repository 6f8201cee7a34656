"""Exported programs as the modules that they were made of: ``torch.export.unflatten``.

    meta["nn_module_stack"] of the nodes  ->  a tree of calls  ->  a graph for each  ->  calls of equal graphs share a module

    linear   {"", layer}          Call ""                   forward(x):                      layer.forward(x):
    relu     {"", layer}            Call layer                  layer = self.layer(x)            linear = linear(x, self.weight)
    add      {""}                     linear, relu              return layer + 1                 return relu(linear)
                                    add

What a call uses of the outside are its arguments, and what the outside uses of it are its results: flat, without the structure that the
program's own calls have, but for modules whose signatures were kept.
"""

from __future__ import annotations

import abc
import logging
import re
from collections.abc import Callable
from typing import Any

from ..aten.calls import overload_named
from ..core.tensor import Parameter, Tensor
from ..fx import _pytree as fx_pytree
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule, _made
from ..fx.node import Node
from ..nn import Module
from ..utils import _pytree as pytree
from .calls_tree import Call, Write, call_tree, fits, identity
from .exported_program import ExportedProgram
from .graph_signature import InputKind
from .inputs import check_inputs
from .operators import GETITEM

__all__ = ["FlatArgsAdapter", "InterpreterModule", "InterpreterModuleDispatcher", "UnflattenedModule", "unflatten"]

_log = logging.getLogger(__name__)


class _WithGraph(Module):
    """A module that runs a graph, in which it looks up what the graph names: submodules may be exchanged."""

    graph: Graph
    _run: Callable[..., Any] | None
    _kind: str | None

    def type_name(self) -> str | None:
        """The class of the module that this one stands for."""
        return self._kind

    def _forward(self) -> Callable[..., Any]:
        """The function of the graph."""
        if self._run is None:
            code = self.graph.python_code("self")
            self._run = _made(code.src, code.globals)["forward"]
        return self._run

    @property
    def graph_module(self) -> GraphModule:
        return GraphModule(self, self.graph, type(self).__name__)

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False, include_device: bool = False, colored: bool = False
    ) -> str:
        """The code of the graph with shapes and lines of the program, and that of the modules in it.

        Args:
            print_output: whether it is printed, too. include_stride, include_device, colored: not supported but as False.
        Raises:
            NotImplementedError: one of the other options.
        """
        return self.graph_module.print_readable(print_output, include_stride=include_stride, include_device=include_device, colored=colored)

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_run": None}


class InterpreterModule(_WithGraph):
    """A module that ``unflatten`` makes of the calls of another one. Source: torch.export.unflatten.InterpreterModule.

    Args:
        graph: what it does. ty: the class of the other module.
    Shape:
        as the graph has them.
    Raises:
        AssertionError: from its call, other arguments than the graph has.
    Attributes:
        graph: the graph. arg_names: names of its arguments.
    Example:
        >>> graph = torch.fx.symbolic_trace(torch.relu).graph
        >>> torch.export.InterpreterModule(graph)(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __init__(self, graph: Graph, ty: str | None = None):
        super().__init__()
        self.graph, self._kind, self._run = graph, ty, None
        self.arg_names = [node.name for node in graph.find_nodes(op="placeholder")]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return self._forward()(self, *args)
        given = [*args, *[kwargs[name] for name in self.arg_names[len(args) :] if name in kwargs]]
        if len(given) != len(self.arg_names):
            raise AssertionError(f"arg_list length {len(given)} does not match arg_names length {len(self.arg_names)}")
        return self._forward()(self, *given)

    def finalize(self) -> None:
        """Have the code be written anew, of what the graph is now."""
        self._run = None
        self.arg_names = [node.name for node in self.graph.find_nodes(op="placeholder")]


class InterpreterModuleDispatcher(Module):
    """Modules for the first, the second, ... call of one whose signature was kept, in turn.

    Args:
        attrs: names of attributes that it has of the first of them. call_modules: the modules.
    Shape:
        those of the modules.
    Raises:
        AssertionError: no modules.
    Source: torch.export.unflatten.InterpreterModuleDispatcher.
    Example:
        >>> one, two = (torch.export.InterpreterModule(torch.fx.symbolic_trace(f).graph) for f in (torch.relu, torch.neg))
        >>> module = torch.export.InterpreterModuleDispatcher(set(), [one, two])
        >>> module(torch.ones(1)), module(torch.ones(1))
        (tensor([1.]), tensor([-1.]))
    """

    def __init__(self, attrs: set[str], call_modules: list[InterpreterModule]):
        super().__init__()
        if not call_modules:
            raise AssertionError("call_modules must not be empty")
        for name in attrs:
            setattr(self, name, getattr(call_modules[0], name))
        self.__dict__["_call_modules"], self._next = call_modules, 0

    def type_name(self) -> str | None:
        """The class of the module that this one stands for."""
        return self.call_modules()[0].type_name()

    def call_modules(self) -> list[InterpreterModule]:
        """The modules, in the order of the calls."""
        return self.__dict__["_call_modules"]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        modules = self.call_modules()
        module, self._next = modules[self._next], (self._next + 1) % len(modules)
        return module(*args, **kwargs)

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False, include_device: bool = False, colored: bool = False
    ) -> str:
        """The code of each module, as of ``InterpreterModule.print_readable``."""
        return "\n\n".join([module.print_readable(print_output, include_stride, include_device, colored) for module in self.call_modules()])


class FlatArgsAdapter(abc.ABC):
    """Makes arguments fit that have another structure than the exported ones. Source: torch.export.FlatArgsAdapter.

    Example:
        >>> class Listed(torch.export.FlatArgsAdapter):
        ...     def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        ...         return input_args
        >>> program = torch.export.export(torch.nn.Identity(), (torch.ones(2),))
        >>> torch.export.unflatten(program, Listed())([torch.zeros(2)])
        tensor([0., 0.])
    """

    @abc.abstractmethod
    def adapt(
        self, target_spec: Any, input_spec: Any, input_args: list[Any], metadata: dict[str, Any] | None = None, obj: Any = None
    ) -> list[Any]:
        """The leaves of the arguments, in the order of the exported ones.

        Args:
            target_spec, input_spec: the structures of the exported arguments and of those given. input_args: the leaves given.
            metadata: the module, among others. obj: the arguments given.
        """

    def get_flat_arg_paths(self) -> list[str]:
        """Paths of the leaves that ``adapt`` uses; none here."""
        return []


class UnflattenedModule(_WithGraph):
    """The module that ``unflatten`` returns, with a module for each that was called. Source: torch.export.UnflattenedModule.

    Args:
        export_module: the program. flat_args_adapter: makes other arguments fit.
    Shape:
        those of the program.
    Raises:
        RuntimeError: from its call, an argument that the program was not exported for.
        TypeError: from its call, arguments of another structure, without an adapter.
        ValueError: from its call, other keywords.
    Attributes:
        graph: what its ``forward`` does. graph_signature, module_call_graph, range_constraints: of the program.
        check_input_constraints: whether sizes are checked.
    Example:
        >>> module = torch.export.UnflattenedModule(torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),)))
        >>> list(module.state_dict())
        ['weight', 'bias']
    """

    def __init__(self, export_module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None):
        super().__init__()
        if export_module.graph_signature.backward_signature is not None:
            raise ValueError("Unflattening on JointExportModule NYI")
        program = export_module
        self.graph_signature, self.range_constraints = program.graph_signature, program.range_constraints
        self.module_call_graph = list(program.module_call_graph)
        self.flat_args_adapter, self.adapted = flat_args_adapter, False
        self.check_input_constraints, self.meta = True, dict(program.graph_module.meta)
        tree = call_tree(program)
        self.graph, self._kind, self._run = Graph(), tree.kind, None
        maker = _Maker(self, tree)
        maker.fill(self, tree)
        maker.register(program)
        order = {entry.fqn: k for k, entry in enumerate(self.module_call_graph)}
        _reorder(self, "", order)

    @property
    def input_placeholders(self) -> list[Node]:
        """The nodes of the arguments."""
        return self.graph.find_nodes(op="placeholder")

    def process_forward_inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The leaves of the arguments, checked."""
        signature: Any = self.module_call_graph[0].signature
        wanted = signature.in_spec
        leaves, spec = pytree.tree_flatten((args, self._ordered(kwargs, wanted)))
        if spec != wanted:
            leaves = self._adapt_flat_args(leaves, wanted, spec, args)
            self.adapted = True
        if self.check_input_constraints:
            paths = [path for path, _ in pytree.tree_flatten_with_path(pytree.tree_unflatten(leaves, wanted))[0]]
            is_named = [path[0] == pytree.SequenceKey(1) for path in paths]
            places = [pytree.keystr(path[1:]) for path in paths]
            places = [place.strip("[]") if named else f"*args{place}" for place, named in zip(places, is_named, strict=True)]
            bounds = {str(name): (values.lower, values.upper) for name, values in self.range_constraints.items()}
            check_inputs(leaves, [node.meta.get("val") for node in self.input_placeholders], places, bounds)
        return leaves

    @staticmethod
    def _ordered(kwargs: dict[str, Any], wanted: Any) -> dict[str, Any]:
        names = wanted.children_specs[1].context or []
        if not kwargs:  # which may still be adapted
            return kwargs
        if set(names) != set(kwargs):
            raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {names}")
        return {name: kwargs[name] for name in names}

    def _adapt_flat_args(self, leaves: list[Any], wanted: Any, spec: Any, given: Any) -> list[Any]:
        if self.flat_args_adapter is None:
            raise TypeError("There is no flat args adapter specified. Are you sure you are calling this with the right arguments? ")
        if not self.adapted:
            _log.warning("arguments of the structure %s are adapted to %s", spec, wanted)
        metadata = {"inline_constraints": self.range_constraints, "unflattened_module": self}
        leaves = self.flat_args_adapter.adapt(wanted, spec, leaves, metadata, given)
        if len(leaves) != wanted.num_leaves:
            raise TypeError(
                f"Flat args adaption failed, number of args mismatch Adatped: {len(leaves)} \nExported module: {wanted.num_leaves}"
            )
        return leaves

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        signature: Any = self.module_call_graph[0].signature
        leaves = self.process_forward_inputs(*args, **kwargs)
        return pytree.tree_unflatten(self._forward()(self, *leaves), signature.out_spec)

    def finalize(self) -> None:
        """Have the code be written anew, of what the graphs are now."""
        self._run = None
        for module in self.modules():
            if isinstance(module, InterpreterModule):
                module.finalize()


def unflatten(module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None) -> UnflattenedModule:
    """A program as modules that have the paths, parameters and buffers of those that it was made of.

    Args:
        module: the program. flat_args_adapter: makes arguments of another structure fit.
    Returns:
        The module. A submodule may be exchanged for another one. It is called with the arguments of its ``forward`` if its signature was
        kept (``preserve_module_call_signature``), else with what its operations use, in no particular order.
    Source: torch.export.unflatten.
    Example:
        >>> program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), (torch.ones(1, 2),))
        >>> torch.export.unflatten(program)
        UnflattenedModule(
          (0): InterpreterModule()
          (1): InterpreterModule()
        )
    """
    return UnflattenedModule(module, flat_args_adapter)


# ---- graphs of calls
class _Frame:
    """A graph that is being made of one call.

    Attributes:
        module: what has it. call: the call. nodes: its node for each of the program that it has.
    """

    def __init__(self, module: Any, call: Call):
        self.module, self.call = module, call
        self.graph: Graph = module.graph
        self.nodes: dict[Node, Node] = {}
        self.inputs: list[Node] = []
        self.first = self.graph.create_node("call_function", GETITEM, (None, None), {}, "first_of_all")  # attributes are read before it
        self.kept: dict[str, list[InterpreterModule]] = {}  # those of which it makes several calls with their signatures, by path

    def specification(self, spec: Any) -> Node:
        """A node for the structure of arguments or results."""
        count = sum(name.startswith("_spec_") for name in vars(self.module))
        vars(self.module)[f"_spec_{count}"] = spec
        return self.graph.get_attr(f"_spec_{count}")

    def part(self, node: Node, k: Any, name: str | None = None) -> Node:
        return self.graph.create_node("call_function", GETITEM, (node, k), {}, name)


class _Maker:
    """Makes the modules of a program."""

    def __init__(self, root: UnflattenedModule, tree: Call):
        self.root, self.tree = root, tree
        self.frames: dict[Call, _Frame] = {}
        self.outlines: dict[int, int] = {}  # numbers of outlines, by identity of the module
        self.numbers: dict[tuple[str, ...], int] = {}  # of outlines
        self.made: dict[str, list[InterpreterModule]] = {}  # by path
        self.signatures = {entry.fqn: entry.signature for entry in root.module_call_graph if entry.fqn and entry.signature is not None}
        for call in tree.calls:
            signature = self.signatures.get(call.name)
            if signature is not None and not fits(tree, call, signature):
                _log.warning(
                    "the signature of %s is not kept: it uses more than its arguments, or more is used than its results", call.path
                )
                self.signatures = {name: each for name, each in self.signatures.items() if name.partition("@")[0] != call.path}

    # ---- nodes
    def argument(self, value: Any, frame: _Frame) -> Any:
        return self.fetched(value, frame) if isinstance(value, Node) else value

    def fetched(self, node: Node, frame: _Frame) -> Node:
        """The node of a frame for one of the program: its own, an attribute, or an argument."""
        if node in frame.nodes:
            return frame.nodes[node]
        if node in self.tree.same and (frame.call is self.tree or frame.call.name in self.signatures):
            return self.fetched(self.tree.same[node], frame)  # the buffer itself, which has been written to
        path = frame.call.path
        prefix = f"{path}." if path else ""
        target = next((each for each in self.tree.state.get(node, ()) if each.startswith(prefix)), None)
        if target is not None:
            with frame.graph.inserting_before(frame.first):
                made = frame.graph.create_node("get_attr", target.removeprefix(prefix), (), {})
        elif frame.call is self.tree:
            raise RuntimeError(f"{node.name} is used before it is computed")
        else:
            with frame.graph.inserting_before(next(iter(frame.graph.nodes))):
                made = frame.graph.create_node("placeholder", node.name, (), {}, node.name)
            frame.inputs.insert(0, node)
        made.meta = dict(node.meta)
        frame.nodes[node] = made
        return made

    # ---- calls
    def fill(self, module: Any, call: Call) -> _Frame:
        """Write the graph of a call into a module."""
        frame = self.frames[call] = _Frame(module, call)
        signature = self.signatures.get(call.name)
        if call is self.tree:
            for node in call.inputs:
                with frame.graph.inserting_before(frame.first):
                    frame.nodes[node] = frame.graph.placeholder(node.name)
                frame.nodes[node].name, frame.nodes[node].meta = node.name, dict(node.meta)
        elif signature is not None:
            self.take_apart(frame, signature)
        for item in call.items:
            if isinstance(item, Call):
                self.add_call(frame, item)
            elif isinstance(item, Write):
                frame.graph.call_function(overload_named("copy_"), tuple([self.fetched(node, frame) for node in item]))
            else:
                frame.nodes[item] = frame.graph.node_copy(item, lambda node: self.fetched(node, frame))
        if call is self.tree:
            frame.graph.output(tuple([self.argument(each, frame) for each in call.results]))
        else:
            self.finish(frame, signature)
        frame.graph.erase_node(frame.first)
        if isinstance(module, InterpreterModule):
            module.finalize()
        return frame

    def take_apart(self, frame: _Frame, signature: Any) -> None:
        """Placeholders for the arguments in their structure, and nodes for their leaves."""
        positional, keywords = signature.in_spec.children_specs
        with frame.graph.inserting_before(frame.first):
            args = [frame.graph.placeholder(f"_positional_arg_{k}") for k in range(len(positional.children_specs))]
            kwargs = {name: frame.graph.placeholder(name) for name in keywords.context or ()}
        leaves = frame.graph.call_function(fx_pytree.tree_flatten_spec, ((tuple(args), kwargs), frame.specification(signature.in_spec)))
        for k, each in enumerate(signature.inputs):
            node = self.tree.by_name.get(each.name)
            if node is not None:
                frame.nodes[node] = frame.part(leaves, k, node.name)
                frame.nodes[node].meta = dict(node.meta)

    def finish(self, frame: _Frame, signature: Any) -> None:
        """The results of a graph."""
        if signature is not None:
            named = [self.tree.by_name.get(getattr(each, "name", "")) for each in signature.outputs]
            known = {*frame.nodes, *self.tree.state}
            values = [
                getattr(each, "value", None) if node is None else self.fetched(node, frame) if node in known else None  # not used
                for each, node in zip(signature.outputs, named, strict=True)
            ]
            frame.graph.output(frame.graph.call_function(pytree.tree_unflatten, (tuple(values), frame.specification(signature.out_spec))))
            return
        results = [frame.nodes[node] for node in frame.call.results]
        frame.graph.output(results[0] if len(results) == 1 else results)

    def add_call(self, frame: _Frame, call: Call) -> None:
        """A call of a submodule, which is made unless there is one with the same graph."""
        made = InterpreterModule(Graph(), call.kind)
        inner = self.fill(made, call)
        signature = self.signatures.get(call.name)
        prefix = f"{frame.call.path}." if frame.call.path else ""
        name = self.shared(frame, call, inner, made, call.path.removeprefix(prefix), signature is not None)
        if signature is not None:
            self.structured(frame, call, name, signature)
            return
        args = tuple([self.fetched(each, frame) for each in inner.inputs])
        node = frame.graph.create_node("call_module", name, args, {}, _numbered(name, call))
        if len(call.results) == 1:
            frame.nodes[call.results[0]] = node
            node.meta = dict(call.results[0].meta)
            return
        for k, each in enumerate(call.results):
            frame.nodes[each] = frame.part(node, k)
            frame.nodes[each].meta = dict(each.meta)

    def structured(self, frame: _Frame, call: Call, name: str, signature: Any) -> None:
        """A call with arguments and results in their structure."""
        leaves = [self.leaf(each, frame) for each in signature.inputs]
        given = frame.graph.call_function(pytree.tree_unflatten, (leaves, frame.specification(signature.in_spec)))
        args, kwargs = frame.part(given, 0), frame.part(given, 1)
        positional, keywords = signature.in_spec.children_specs
        parts = tuple([frame.part(args, k) for k in range(len(positional.children_specs))])
        named = {key: frame.part(kwargs, key) for key in keywords.context or ()}
        node = frame.graph.create_node("call_module", name, parts, named, _numbered(name, call))
        flat = frame.graph.call_function(fx_pytree.tree_flatten_spec, (node, frame.specification(signature.out_spec)))
        for k, each in enumerate(signature.outputs):
            found = self.tree.by_name.get(getattr(each, "name", ""))
            if found is not None and found in call.results:
                frame.nodes[found] = frame.part(flat, k)
                frame.nodes[found].meta = dict(found.meta)

    def leaf(self, argument: Any, frame: _Frame) -> Any:
        node = self.tree.by_name.get(argument.name)
        return self.fetched(node, frame) if node is not None else getattr(argument, "value", None)

    def shared(self, frame: _Frame, call: Call, inner: _Frame, made: InterpreterModule, name: str, kept: bool) -> str:
        """The name under which a frame's module has the submodule of a call."""
        outline = self.outlines[id(made)] = self.numbers.setdefault(_outline(inner, self.outlines), len(self.numbers))
        made = next((module for module in self.made.get(call.path, ()) if self.outlines[id(module)] == outline and not kept), made)
        self.made.setdefault(call.path, []).append(made)
        if kept:
            known = frame.kept.setdefault(name, [])
            known.append(made)
            if len(known) == 1:
                _put(frame.module, name, made)
            return name
        *owners, last = name.split(".")
        owner = _reached(frame.module, owners)
        alike = re.compile(rf"{re.escape(last)}(@\d+)?")
        found = {key: module for key, module in owner._modules.items() if alike.fullmatch(key)}
        for key, module in found.items():
            if self.outlines.get(id(module)) == outline:
                return ".".join([*owners, key])
        own = f"{name}@{call.number}" if last in found and not self.is_room(found[last], made) else name
        _put(frame.module, own, made)
        return own

    def is_room(self, module: Any, made: Module) -> bool:
        """Whether a module was only made for what is below it, which another one has as well."""
        if id(module) in self.outlines:
            return False
        return all(self._is_same(inner, made._modules.get(key)) for key, inner in module._modules.items())

    def _is_same(self, a: Any, b: Any) -> bool:
        return b is None or self.outlines.get(id(a)) == self.outlines.get(id(b))

    # ---- attributes
    def register(self, program: ExportedProgram) -> None:
        """Give every module copies of the parameters, buffers and constants that it had; those that were one are one."""
        shared: dict[Any, Any] = {}
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                continue
            value = program.value_of(spec)
            key = identity(value)
            if key not in shared:
                shared[key] = _copied(value)
            value = shared[key]
            *owners, name = str(spec.target).split(".")
            for owner in _owners([self.root], owners):
                if isinstance(value, Parameter):
                    owner.register_parameter(name, value)
                elif spec.kind is InputKind.BUFFER:
                    owner.register_buffer(name, value, persistent=bool(spec.persistent))
                else:
                    owner.register_buffer(name, value, persistent=False)
        for name, inner in program.graph_module.named_children():
            self.root.add_module(name, inner)
        self.dispatch()

    def dispatch(self) -> None:
        """Put a dispatcher in the place of modules that are called several times with their signatures."""
        for frame in self.frames.values():
            for name, known in frame.kept.items():
                if len(known) > 1:
                    *path, last = name.split(".")
                    for made in known[1:]:
                        made._parameters, made._buffers, made._modules = known[0]._parameters, known[0]._buffers, known[0]._modules
                    attrs = {*known[0]._parameters, *known[0]._buffers, *known[0]._modules}
                    _reached(frame.module, path)._modules[last] = InterpreterModuleDispatcher(attrs, known)


def _reached(module: Any, path: list[str]) -> Any:
    """The module at a path, whose steps are made where they are not there."""
    for each in path:
        if each not in module._modules:
            module.add_module(each, InterpreterModule(Graph()))
        module = module._modules[each]
    return module


def _copied(value: Any) -> Any:
    if isinstance(value, Parameter):
        return Parameter(value.detach().clone(), value.requires_grad)
    return value.detach().clone() if isinstance(value, Tensor) else value


def _put(module: Module, path: str, made: Module) -> None:
    """Have a module be the submodule of a path, whose steps are made where they are not there."""
    *owners, name = path.split(".")
    module = _reached(module, owners)
    before = module._modules.get(name)
    if before is not None:  # made for what is below it
        for key, inner in before._modules.items():
            made._modules.setdefault(key, inner)
    module.add_module(name, made)


def _owners(modules: list[Module], path: list[str]) -> list[Module]:
    """The modules at a path, and those that differ from it in the numbers of calls only."""
    for name in path:
        found: list[Module] = []
        for module in modules:
            if name not in module._modules:
                module.add_module(name, Module())
            found += [inner for key, inner in module._modules.items() if re.fullmatch(rf"{re.escape(name)}(@\d+)?", key)]
        modules = found
    return modules


def _outline(frame: _Frame, known: dict[int, int]) -> tuple[str, ...]:
    """A frame as text, without the names of its nodes, and the numbers that the outlines of the modules in it have."""
    places = {node: f"%{k}" for k, node in enumerate(frame.graph.nodes)}
    lines = []
    for node in frame.graph.nodes:
        target = "" if node.op == "placeholder" else node.target
        lines.append(f"{node.op} {target} {_placed(node.args, places)} {_placed(node.kwargs, places)}")
    return (*lines, *[f"{name} {known[id(module)]}" for name, module in frame.module.named_modules() if id(module) in known and name])


def _numbered(name: str, call: Call) -> str:
    """The name of the node of a call."""
    return name.partition("@")[0] + (f"_{call.number}" if call.number else "")


def _placed(value: Any, places: dict[Node, str]) -> str:
    if isinstance(value, Node):
        return places[value]
    if isinstance(value, (tuple, list)):
        return f"[{', '.join([_placed(each, places) for each in value])}]"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{key}: {_placed(each, places)}' for key, each in value.items()])}}}"
    return repr(value)


def _reorder(module: Module, path: str, order: dict[str, int]) -> None:
    """Sort modules as the program has them."""
    prefix = f"{path}." if path else ""
    ranked = sorted(module._modules, key=lambda name: order.get(prefix + name, len(order)))
    for name in ranked:
        inner = module._modules.pop(name)
        module._modules[name] = inner
        if inner is not None:
            _reorder(inner, prefix + name.partition("@")[0], order)
