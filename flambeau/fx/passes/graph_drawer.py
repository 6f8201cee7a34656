"""Pictures of graphs. Source: torch.fx.passes.graph_drawer."""

from __future__ import annotations

import zlib
from typing import Any

from ...nn import Module
from ..graph_module import GraphModule
from ..node import Node, qualified_name

__all__ = ["FxGraphDrawer"]

COLORS = {"placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_attr": "LightGrey", "output": "PowderBlue"}
HASHED = (
    "CadetBlue1 Coral DarkOliveGreen1 DarkSeaGreen1 GhostWhite Khaki1 LavenderBlush1 LightSkyBlue MistyRose1 MistyRose2 PaleTurquoise2 "
    "PeachPuff1 Salmon Thistle1 Thistle3 Wheat1"
).split()


class FxGraphDrawer:
    """Draws a graph in Graphviz' language; needs the library ``pydot``.

    Args:
        graph_module: the module whose graph is drawn, with the graph modules in it.
        name: of the drawing.
        ignore_getattr: leave out nodes that read attributes of the module.
        ignore_parameters_and_buffers: leave out parameters and buffers of the modules that are called.
        skip_node_names_in_args: whether arguments that are nodes are left out of the text.
        parse_stack_trace: name the line of the program that made a node.
        dot_graph_shape: of the boxes; records when None. normalize_args: show arguments in the order of signatures.
    Raises:
        RuntimeError: ``pydot`` is not installed.
    Source: torch.fx.passes.graph_drawer.FxGraphDrawer.
    Example:
        >>> from flambeau.fx.passes.graph_drawer import FxGraphDrawer
        >>> try:
        ...     drawing = FxGraphDrawer(torch.fx.symbolic_trace(lambda x: x + 1), "sum").get_dot_graph()
        ... except RuntimeError as error:
        ...     assert "pydot" in str(error)
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ):
        try:
            import pydot
        except ImportError:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite Python package "
                "manager."
            ) from None
        self._pydot = pydot
        self._name = name
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args, self.parse_stack_trace = normalize_args, parse_stack_trace
        self.skip_node_names_in_args = skip_node_names_in_args
        self.ignore_getattr, self.ignore_parameters_and_buffers = ignore_getattr, ignore_parameters_and_buffers
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for child_name, child in graph_module.named_children():
            if isinstance(child, GraphModule):
                self._dot_graphs[f"{name}_{child_name}"] = self._draw(child, f"{name}_{child_name}")

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The drawing, a ``pydot.Dot``; of a graph module in the module where its name is given."""
        return self._dot_graphs[self._name if submod_name is None else f"{self._name}_{submod_name}"]

    def get_main_dot_graph(self) -> Any:
        """The drawing of the whole."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The drawing of a graph module in the module."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All drawings by their names."""
        return self._dot_graphs

    def _draw(self, module: GraphModule, name: str) -> Any:
        drawing = self._pydot.Dot(name, rankdir="TB")
        nodes = [node for node in module.graph.nodes if node.op != "get_attr" or not self.ignore_getattr]
        for node in nodes:
            drawing.add_node(self._pydot.Node(node.name, label=self._label(module, node), **self._style(node)))
            if node.op == "call_module" and not self.ignore_parameters_and_buffers:
                self._draw_members(drawing, node, module.get_submodule(str(node.target)))
        for node in nodes:
            for source in node.all_input_nodes:
                if source.op != "get_attr" or not self.ignore_getattr:
                    drawing.add_edge(self._pydot.Edge(source.name, node.name))
        return drawing

    def _draw_members(self, drawing: Any, node: Node, module: Module) -> None:
        """Add the parameters and buffers of a module that a node calls."""
        for kind, members in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
            for name, member in members:
                box = f'"{node.name}.{name}"'
                label = _escaped(f"op_code=get_{kind}|{member.dtype}{list(member.shape)}", but="|")
                style = {"shape": self.dot_graph_shape, "fillcolor": HASHED[2], "style": '"filled,rounded"', "fontcolor": "#000000"}
                drawing.add_node(self._pydot.Node(box, label=f"{{{node.name}.{name}|{label}\\n}}", **style))
                drawing.add_edge(self._pydot.Edge(box, node.name))

    def _style(self, node: Node) -> dict[str, str]:
        color = COLORS.get(node.op)
        if color is None:
            color = HASHED[zlib.crc32(self._target(node).encode()) % len(HASHED)]
        return {"shape": self.dot_graph_shape, "fillcolor": color, "style": '"filled,rounded"', "fontcolor": "#000000"}

    @staticmethod
    def _target(node: Node) -> str:
        return node.target if isinstance(node.target, str) else qualified_name(node.target)

    def _label(self, module: GraphModule, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            inner: Module = module.get_submodule(str(node.target))
            lines.append(type(inner).__module__.replace("flambeau", "torch") + "." + type(inner).__qualname__)
            lines += [f"{key}: {getattr(inner, key)}" for key in getattr(inner, "__constants__", ()) if hasattr(inner, key)]
        else:
            lines.append(f"target={self._target(node)}")
            lines += self._arguments(module, node)
            lines.append(f"num_users={len(node.users)}")
        if (meta := node.meta.get("tensor_meta")) is not None:
            parts = meta if isinstance(meta, list | tuple) and not hasattr(meta, "shape") else [meta]
            for part in parts:
                if hasattr(part, "dtype"):
                    lines += [
                        f"dtype={part.dtype}",
                        f"shape={tuple(part.shape)}",
                        f"requires_grad={part.requires_grad}",
                        f"stride={part.stride}",
                    ]
        if self.parse_stack_trace and node.stack_trace:
            lines.append(node.stack_trace.splitlines()[0].strip())
        return "{" + "|".join(_escaped(line) for line in lines) + r"\n}"

    def _arguments(self, module: GraphModule, node: Node) -> list[str]:
        args, kwargs = node.args, node.kwargs
        if self.normalize_args and (found := node.normalized_arguments(module, normalize_to_only_use_kwargs=True)) is not None:
            args, kwargs = found
        if self.skip_node_names_in_args:
            args = tuple([arg for arg in args if not isinstance(arg, Node)])
            kwargs = {key: value for key, value in kwargs.items() if not isinstance(value, Node)}
        shown = [f"args={args}"] if args else []
        return [*shown, f"kwargs={kwargs}"] if kwargs else shown


def _escaped(text: str, but: str = "") -> str:
    """A text for a label, its letters with a meaning there escaped."""
    return "".join(f"\\{letter}" if letter in '{}<>|"' and letter not in but else letter for letter in text)
