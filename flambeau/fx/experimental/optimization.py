"""Models made quicker for evaluation: norms fused into convolutions, dropout left out. Source: torch.fx.experimental.optimization."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ...nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Dropout, Module
from ...nn.utils.fusion import fuse_conv_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Node

__all__ = ["extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference", "remove_dropout", "replace_node_module"]

_FUSED = ((Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d))


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Module]) -> bool:
    """Whether a node calls a module of a class, and its input comes from one of another.

    Args:
        pattern: both classes, the input's first. node: the node. modules: by the names that targets have.
    Returns: a bool.
    Source: torch.fx.experimental.optimization.matches_module_pattern.
    Example:
        >>> module = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
        >>> from flambeau.fx.experimental.optimization import matches_module_pattern
        >>> [matches_module_pattern((nn.Linear, nn.ReLU), node, dict(module.named_modules())) for node in module.graph.nodes]
        [False, False, True, False]
    """
    if not node.args:
        return False
    for kind, each in zip(pattern, (node.args[0], node), strict=True):
        if not isinstance(each, Node) or each.op != "call_module" or not isinstance(each.target, str) or each.target not in modules:
            return False
        if type(modules[each.target]) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Module], new_module: Module) -> None:
    """Put a module in the place of the one that a node calls.

    Args:
        node: the node. modules: by the names that targets have, among them the one that it is a part of. new_module: the module.
    Source: torch.fx.experimental.optimization.replace_node_module.
    Example:
        >>> module = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU()))
        >>> modules = dict(module.named_modules())
        >>> torch.fx.experimental.optimization.replace_node_module(list(module.graph.nodes)[1], modules, nn.Tanh())
        >>> modules["0"]
        Tanh()
    """
    parent, _, name = str(node.target).rpartition(".")
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """A model whose batch norms after convolutions are parts of these.

    Args:
        model: the model, in evaluation. inplace: whether its modules may be changed.
        no_trace: whether it is a ``GraphModule`` already.
    Returns: the module of its graph.
    Raises:
        AssertionError: a model in training.
    Source: torch.fx.experimental.optimization.fuse.
    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
        >>> fused = torch.fx.experimental.optimization.fuse(model)
        >>> [node.name for node in fused.graph.nodes]
        ['input_1', '_0', 'output']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    for pattern in _FUSED:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            convolution: Any = node.args[0]
            norm: Any = modules[str(node.target)]
            if len(convolution.users) > 1 or calls[convolution.target] > 1:  # its output is used elsewhere, or it is called there
                continue
            if not norm.track_running_stats:  # the batch decides
                continue
            replace_node_module(convolution, modules, fuse_conv_bn_eval(modules[convolution.target], norm))
            node.replace_all_uses_with(convolution)
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _WithoutDropout(Transformer):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[target], Dropout):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: Module) -> Module:
    """A model without its dropout modules.

    Args:
        model: the model; it is traced.
    Returns: the module of its graph.
    Source: torch.fx.experimental.optimization.remove_dropout.
    Example:
        >>> model = torch.fx.experimental.optimization.remove_dropout(nn.Sequential(nn.Dropout(), nn.ReLU()))
        >>> [node.name for node in model.graph.nodes]
        ['input_1', '_1', 'output']
    """
    return _WithoutDropout(symbolic_trace(model)).transform()


def extract_subgraph(orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """A module of some nodes of another's graph.

    Args:
        orig_module: the module. nodes: of its graph, each after its inputs.
        inputs: nodes whose values become arguments. outputs: nodes whose values it gives.
    Returns: the module; it gives a list.
    Source: torch.fx.experimental.optimization.extract_subgraph.
    Example:
        >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1)
        >>> x, relu, add, _ = module.graph.nodes
        >>> torch.fx.experimental.optimization.extract_subgraph(module, [add], [relu], [add])(torch.ones(1))
        [tensor([2.])]
    """
    graph = Graph()
    made: dict[Node, Node] = {}
    for node in inputs:
        made[node] = graph.placeholder(node.name)
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


_PASSES = {"conv_bn_fuse": True, "remove_dropout": True, "mkldnn_layout_optimize": None}


def optimize_for_inference(model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer) -> Module:
    """A model for evaluation: norms are fused into convolutions, and dropout is left out.

    Args:
        model: the model, in evaluation.
        pass_config: ``{"conv_bn_fuse": False}`` and ``{"remove_dropout": False}`` leave one of them out; ``mkldnn_layout_optimize`` has
            no meaning, as there are no other layouts of memory here.
        tracer: traces the model.
    Returns: the module of its graph.
    Raises:
        RuntimeError: an unknown pass.
    Source: torch.fx.experimental.optimization.optimize_for_inference.
    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout()).eval()
        >>> [node.name for node in torch.fx.experimental.optimization.optimize_for_inference(model).graph.nodes]
        ['input_1', '_0', 'output']
    """
    config = {**_PASSES, **(pass_config or {})}
    if unknown := config.keys() - _PASSES.keys():
        raise RuntimeError(f"optimize_for_inference: unknown passes {sorted(unknown)}; there are {', '.join(_PASSES)}")
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    return GraphModule(model, tracer().trace(copy.deepcopy(model)))
