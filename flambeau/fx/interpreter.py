"""Running of graphs node by node. Source: torch.fx.interpreter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..core.tensor import Tensor
from ..nn import Module
from . import traceback as fx_traceback
from .graph import Graph, last_uses
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_aggregate, map_arg
from .proxy import Proxy, TracerBase

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a ``GraphModule`` node by node; subclasses change what a kind of node does.

    Args:
        module: the module whose graph is run, or whose attributes ``graph`` reads and calls.
        garbage_collect_values: whether values are forgotten behind their last use.
        graph: another graph to run.
    Attributes:
        env: the values of nodes that have run. module: where targets are looked up.
        extra_traceback: whether the node is named in the error that it raises.
    Source: torch.fx.Interpreter.
    Example:
        >>> class Doubled(torch.fx.Interpreter):
        ...     def call_function(self, target, args, kwargs):
        ...         return 2 * super().call_function(target, args, kwargs)
        >>> Doubled(torch.fx.symbolic_trace(lambda x: torch.relu(x))).run(torch.ones(1))
        tensor([2.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = last_uses(self.graph.nodes) if garbage_collect_values else {}

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph.

        Args:
            args: the inputs. initial_env: values of nodes that need not run.
            enable_io_processing: whether structures are flattened and built again, as the graph's code does.
        Returns:
            What the graph's output returns.
        Source: torch.fx.Interpreter.run.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = tuple(self.graph.process_inputs(*args))
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _note_node(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                self.env.pop(used, None)
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """``run`` with the inputs in a list, which is emptied, so that their memory can go early.

        Source: torch.fx.Interpreter.boxed_run.
        """
        args = tuple(args_list)
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    @contextlib.contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node):
            yield

    def run_node(self, n: Node) -> Any:
        """The value of a node whose arguments have theirs. Source: torch.fx.Interpreter.run_node."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ---- kinds of nodes
    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input, all that are left for ``*args``, or the default.

        Raises:
            RuntimeError: an input is missing.
        Source: torch.fx.Interpreter.placeholder.
        """
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module. Source: torch.fx.Interpreter.get_attr."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a function. Source: torch.fx.Interpreter.call_function."""
        assert callable(target)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a method of the first argument. Source: torch.fx.Interpreter.call_method."""
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a module in the module. Source: torch.fx.Interpreter.call_module."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The graph's result. Source: torch.fx.Interpreter.output."""
        return args[0]

    # ---- values
    def fetch_attr(self, target: str) -> Any:
        """The value that the module has at a path.

        Raises:
            RuntimeError: nothing.
        Source: torch.fx.Interpreter.fetch_attr.
        """
        value: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A node's arguments, with values for nodes. Source: torch.fx.Interpreter.fetch_args_kwargs_from_env."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """A structure with values for nodes.

        Raises:
            RuntimeError: a node that has not run.
        Source: torch.fx.Interpreter.map_nodes_to_values.
        """

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues")
            return self.env[node]

        return map_arg(args, value)


def _note_node(error: Exception, node: Node) -> None:
    """Add the node to an error's message."""
    message = f"While executing {node.format_node()}"
    if node.stack_trace:
        message += f"\nOriginal traceback:\n{node.stack_trace}"
    message = f"{error.args[0]}\n\n{message}" if error.args and error.args[0] else message
    error.args = (message, *error.args[1:])


class Transformer(Interpreter):
    """An interpreter whose values are proxies, so that running it makes a new graph.

    Args:
        module: the ``GraphModule`` that is transformed.
    Source: torch.fx.Transformer.
    Example:
        >>> class Sigmoids(torch.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return super().call_function(torch.sigmoid if target is torch.relu else target, args, kwargs)
        >>> Sigmoids(torch.fx.symbolic_trace(lambda x: torch.relu(x))).transform()(torch.zeros(1))
        tensor([0.5000])
    """

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer: TracerBase = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A proxy of a new placeholder. Source: torch.fx.Transformer.placeholder."""
        return Proxy(self.new_graph.placeholder(str(target), default_value=args[0] if args else ...), self.tracer)

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A proxy of a new ``get_attr``. Source: torch.fx.Transformer.get_attr."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A proxy of a new ``call_module``. Source: torch.fx.Transformer.call_module."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A proxy of a new ``call_function``. Source: torch.fx.Transformer.call_function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph. Source: torch.fx.Transformer.transform."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            made = map_aggregate(result, lambda leaf: leaf.node if isinstance(leaf, Proxy) else leaf)
            output = self.new_graph.output(made)
            old = self.graph.output_node()
            output.meta = dict(old.meta)
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return super().run(*args, **kwargs)


class _TransformerTracer(TracerBase):
    def __init__(self, graph: Graph, root: Module):
        self.graph, self.root = graph, root
        self.module_stack, self.node_name_to_scope = {}, {}
        self.tensor_attrs: dict[int, str] = {}

    def create_node(self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None) -> Node:
        node = super().create_node(kind, target, args, kwargs, name, type_expr)
        node.meta.update(fx_traceback.get_current_meta())
        return node

    def create_arg(self, a: Any) -> Argument:
        if isinstance(a, Tensor):
            if id(a) not in self.tensor_attrs:
                number = 0
                while hasattr(self.root, f"_tensor_constant{number}"):
                    number += 1
                self.tensor_attrs[id(a)] = f"_tensor_constant{number}"
                setattr(self.root, self.tensor_attrs[id(a)], a)
            return self.create_node("get_attr", self.tensor_attrs[id(a)], (), {})
        return super().create_arg(a)
