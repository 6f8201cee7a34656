"""Results of a model's nodes, by names that follow the paths of its modules. Source: torchvision.models.feature_extraction.

A model is traced twice, as it trains and as it is evaluated. A node's name is the path of the module in whose ``forward`` it is, with
what it does: ``layer1.0.relu_1`` is the second ``relu`` in ``layer1.0``. The name of a module that is looked into is that of its last node.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from ... import fx, nn
from .. import ops

__all__ = ["create_feature_extractor", "get_graph_node_names"]

Nodes = Mapping[str, str] | Sequence[str]
_NUMBERED = re.compile(r".+_[0-9]+$")


class LeafModuleAwareTracer(fx.Tracer):
    """A tracer that does not look into modules of given classes.

    Args:
        leaf_modules: the classes. Others are those of ``fx.Tracer``.
    Source: torchvision.models.feature_extraction.LeafModuleAwareTracer.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        self.leaf_modules: dict[type, Any] = dict.fromkeys(kwargs.pop("leaf_modules", ()))
        super().__init__(*args, **kwargs)

    def is_leaf_module(self, m: nn.Module, module_qualname: str) -> bool:
        """Whether a module's call is one node."""
        return isinstance(m, tuple(self.leaf_modules)) or super().is_leaf_module(m, module_qualname)


class NodePathTracer(LeafModuleAwareTracer):
    """A tracer that names each node by the path of the module that it is in.

    Args:
        leaf_modules: classes that it does not look into. Others are those of ``fx.Tracer``.
    Attributes:
        node_to_qualname: the names, by node, in the order of the graph.
    Source: torchvision.models.feature_extraction.NodePathTracer.
    Example:
        >>> from flambeau.vision.models.feature_extraction import NodePathTracer
        >>> tracer = NodePathTracer()
        >>> graph = tracer.trace(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU())))
        >>> list(tracer.node_to_qualname.values())
        ['input', '0', '1.0']
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.current_module_qualname = ""
        self.node_to_qualname: OrderedDict[fx.Node, str] = OrderedDict()
        self._counts: dict[str, int] = {}

    def call_module(self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace the call of a module, whose path its nodes have."""
        around = self.current_module_qualname
        try:
            self.current_module_qualname = path = self.path_of_module(m)
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)
        finally:
            self.current_module_qualname = around

    def create_proxy(self, *args: Any, **kwargs: Any) -> Any:
        """Add a node, and its name."""
        proxy = super().create_proxy(*args, **kwargs)
        self.node_to_qualname[proxy.node] = self._name(self.current_module_qualname, proxy.node)
        return proxy

    def _name(self, path: str, node: fx.Node) -> str:
        """The path, for an operation with its name; numbered anew within the path where there are several."""
        name = path if node.op == "call_module" else f"{path}.{node}".lstrip(".")
        if _NUMBERED.match(name):
            name = name.rpartition("_")[0]
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        return f"{name}_{count}" if count else name


class DualGraphModule(fx.GraphModule):
    """A module of two graphs: of training and of evaluation, which ``train()`` and ``eval()`` change between.

    Args:
        root: has what the graphs' targets name. train_graph, eval_graph: the graphs. class_name: of its class.
    Source: torchvision.models.feature_extraction.DualGraphModule.
    Example:
        >>> from flambeau.vision.models.feature_extraction import DualGraphModule
        >>> first, second = (fx.symbolic_trace(f).graph for f in (lambda x: x + 1, lambda x: x * 2))
        >>> module = DualGraphModule(nn.Module(), first, second)
        >>> module.train()(torch.ones(1)).item(), module.eval()(torch.ones(1) * 3).item()
        (2.0, 6.0)
    """

    def __init__(self, root: nn.Module, train_graph: fx.Graph, eval_graph: fx.Graph, class_name: str = "GraphModule"):
        both = fx.Graph()
        for graph in (train_graph, eval_graph):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    both.create_node(node.op, node.target)  # what is named is copied from the root
        super().__init__(root, both, class_name)
        self.train_graph, self.eval_graph = train_graph, eval_graph
        self.graph = train_graph if self.training else eval_graph

    def train(self, mode: bool = True) -> DualGraphModule:
        """Change to the graph of training, or of evaluation. Source: torch.nn.Module.train."""
        if mode is not self.training or self.graph not in (self.train_graph, self.eval_graph):
            self.graph = self.train_graph if mode else self.eval_graph
        super().train(mode)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DualGraphModule:
        training, evaluating = (copy.deepcopy(graph, memo) for graph in (self.train_graph, self.eval_graph))
        holder = nn.Module()
        names = ("_parameters", "_buffers", "_modules", "training")
        holder.__dict__.update({name: copy.deepcopy(self.__dict__[name], memo) for name in names})
        return DualGraphModule(holder, training, evaluating, class_name=type(self).__name__)

    def __copy__(self) -> DualGraphModule:
        return DualGraphModule(self, self.train_graph, self.eval_graph, class_name=type(self).__name__)


def tracer_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of a tracer: the layers and functions of ``vision.ops`` are not looked into, if nothing else is said."""
    layers = [kind for _, kind in inspect.getmembers(ops, inspect.isclass) if issubclass(kind, nn.Module)]
    return {"autowrap_modules": (math, ops), "leaf_modules": layers, **(given or {})}


def traced(model: nn.Module, training: bool, options: dict[str, Any], concrete_args: Any) -> tuple[NodePathTracer, fx.Graph]:
    """Trace a model in one of its modes, which it has again afterwards."""
    was = model.training
    tracer = NodePathTracer(**options)
    try:
        return tracer, tracer.trace(model.train(training), concrete_args=concrete_args)
    finally:
        model.train(was)


def is_subsequence(names: list[str], among: list[str]) -> bool:
    """Whether names are among others, in this order."""
    rest = iter(among)
    return all(name in rest for name in names)


def warn_of_differences(training: list[str], evaluating: list[str]) -> None:
    """Warn where a model has other nodes when it trains than when it is evaluated."""
    if training == evaluating:
        return
    text = "The nodes obtained by tracing the model in {} mode are {} those obtained in {} mode. "
    if is_subsequence(evaluating, training):
        told = text.format("eval", "a subsequence of", "train")
    elif is_subsequence(training, evaluating):
        told = text.format("train", "a subsequence of", "eval")
    else:
        told = text.format("train", "different to", "eval")
    hint = "When choosing nodes for feature extraction, you may need to specify output nodes for train and eval mode separately."
    warnings.warn(f"NOTE: {told}{hint}", UserWarning, stacklevel=3)


def get_graph_node_names(
    model: nn.Module,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> tuple[list[str], list[str]]:
    """Names of a model's nodes: as it trains, and as it is evaluated.

    Args:
        model: the model; it has to be traceable by ``torch.fx``.
        tracer_kwargs: of :class:`NodePathTracer`, such as ``{"leaf_modules": [Block]}`` for modules that are one node.
        suppress_diff_warning: no warning where the two differ.
        concrete_args: values that take the place of arguments; see ``torch.fx.symbolic_trace``.
    Returns:
        Two lists, in the order in which the nodes run.
    Source: torchvision.models.feature_extraction.get_graph_node_names.
    Example:
        >>> get_graph_node_names(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU())))[0]
        ['input', '0', '1.0']
    """
    options = tracer_options(tracer_kwargs)
    training, evaluating = (list(traced(model, mode, options, concrete_args)[0].node_to_qualname.values()) for mode in (True, False))
    if not suppress_diff_warning:
        warn_of_differences(training, evaluating)
    return training, evaluating


def create_feature_extractor(
    model: nn.Module,
    return_nodes: Nodes | None = None,
    train_return_nodes: Nodes | None = None,
    eval_return_nodes: Nodes | None = None,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> fx.GraphModule:
    """A module of the model's graph that gives the results of chosen nodes, and has nothing that they do not need.

    Args:
        model: the model; it has to be traceable by ``torch.fx``. Its modules are shared, not copied.
        return_nodes: names of nodes, or for each of them the name of its result; of a module that is looked into, the last node in it.
        train_return_nodes, eval_return_nodes: instead, both, for training and for evaluation.
        tracer_kwargs: of :class:`NodePathTracer`. suppress_diff_warning: no warning where the nodes of both differ.
        concrete_args: values that take the place of arguments; see ``torch.fx.symbolic_trace``.
    Returns:
        A module whose result is a dictionary in the order of the model.
    Raises:
        ValueError: a name of no node; neither ``return_nodes`` nor both of the others, or all.
    Source: torchvision.models.feature_extraction.create_feature_extractor.
    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
        >>> create_feature_extractor(model, {"1": "hidden"})(torch.ones(1, 2))["hidden"].shape
        torch.Size([1, 3])
    """
    if all(nodes is None for nodes in (return_nodes, train_return_nodes, eval_return_nodes)):
        raise ValueError("Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, should be specified")
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError("If any of `train_return_nodes` and `eval_return_nodes` are specified, then both should be specified")
    if (return_nodes is None) == (train_return_nodes is None):
        raise ValueError("If `train_return_nodes` and `eval_return_nodes` are specified, then both should be specified")
    options = tracer_options(tracer_kwargs)
    chosen: dict[bool, Any] = {True: train_return_nodes, False: eval_return_nodes}
    if return_nodes is not None:
        chosen = {True: return_nodes, False: return_nodes}
    graphs, names = {}, {}
    for mode in (True, False):
        tracer, graph = traced(model, mode, options, concrete_args)
        names[mode] = list(tracer.node_to_qualname.values())
        graphs[mode] = with_outputs(model, graph, tracer.node_to_qualname, named(chosen[mode]))
    if not suppress_diff_warning:
        warn_of_differences(names[True], names[False])
    return DualGraphModule(model, graphs[True], graphs[False], class_name=type(model).__name__)


def named(nodes: Nodes) -> dict[str, str]:
    """For each node the name of its result."""
    return {str(node): str(name) for node, name in (nodes.items() if isinstance(nodes, Mapping) else zip(nodes, nodes, strict=True))}


def with_outputs(model: nn.Module, graph: fx.Graph, names: Mapping[fx.Node, str], wanted: dict[str, str]) -> fx.Graph:
    """The model's graph, giving the results of the wanted nodes in place of its own, without what they do not need.

    Raises:
        ValueError: a name of no node.
    """
    outputs: dict[fx.Node, str] = {}
    for query, result in wanted.items():
        parts = query.split(".")
        last = [node for node, name in names.items() if name.split(".")[: len(parts)] == parts]
        if not last:
            raise ValueError(
                f"node: '{query}' is not present in model. Hint: use `get_graph_node_names` to make sure the `return_nodes` you specified "
                "are present. It may even be that you need to specify `train_return_nodes` and `eval_return_nodes` separately."
            )
        outputs[last[-1]] = result
    ordered = {outputs[node]: node for node in graph.nodes if node in outputs}
    (old,) = [node for node in graph.nodes if node.op == "output"]
    graph.erase_node(old)
    graph.output(ordered)
    whole = fx.GraphModule(model, graph)  # which the graph asks what may be left out
    whole.graph.eliminate_dead_code()
    return whole.graph
