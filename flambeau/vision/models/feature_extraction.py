"""Results of a model's parts: ``torchvision.models.feature_extraction``, as far as parts are modules.

torchvision traces the model and takes its graph apart. Here the model runs as it is, and hooks on the modules keep their results.
"""

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ... import nn

__all__ = ["create_feature_extractor", "get_graph_node_names"]

Nodes = Mapping[str, str] | Sequence[str]
Place = tuple[str, int]  # the path of a module, and which of its calls

_CALL = re.compile(r"(.+)_(\d+)$")


class _Complete(Exception):
    """All requested nodes are there: the forward pass may stop."""


def place_of(model: nn.Module, node: str) -> Place:
    """The module and the call that a node is: ``"layer1.0.relu_1"`` is the second call of ``layer1.0.relu``.

    Raises:
        NotImplementedError: not a module, but an operation or no node at all.
    """
    paths = {path for path, _ in model.named_modules(remove_duplicate=False) if path}
    if node in paths:
        return node, 0
    repeated = _CALL.match(node)
    if repeated is not None and repeated[1] in paths:
        return repeated[1], int(repeated[2])
    raise NotImplementedError(f"create_feature_extractor: nodes have to be modules, as operations need torch.fx; got {node!r}")


def named(nodes: Nodes) -> dict[str, str]:
    """For each node the name of its result."""
    return {str(node): str(name) for node, name in (nodes.items() if isinstance(nodes, Mapping) else zip(nodes, nodes))}


def extract(model: nn.Module, run: Callable[..., Any], places: dict[str, Place], arguments: Any, options: Any) -> OrderedDict[str, Any]:
    """Run a model until the results at the places are there, in the order in which it has them.

    Raises:
        RuntimeError: it ended before.
    """
    results: dict[str, Any] = {}
    calls: dict[str, int] = {}
    wanted: dict[str, dict[int, list[str]]] = {}
    for name, (path, call) in places.items():
        wanted.setdefault(path, {}).setdefault(call, []).append(name)

    def keep(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, result: Any) -> None:
            call = calls.get(path, 0)
            calls[path] = call + 1
            results.update((name, result) for name in wanted[path].get(call, ()))
            if len(results) == len(places):
                raise _Complete

        return hook

    handles = [model.get_submodule(path).register_forward_hook(keep(path)) for path in wanted]
    try:
        run(*arguments, **options)
    except _Complete:
        return OrderedDict(results)
    finally:
        for handle in handles:
            handle.remove()
    raise RuntimeError(f"feature extractor: the model did not come to {sorted(set(places) - set(results))}")


def create_feature_extractor(
    model: nn.Module,
    return_nodes: Nodes | None = None,
    train_return_nodes: Nodes | None = None,
    eval_return_nodes: Nodes | None = None,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> nn.Module:
    """A model with the same parameters that gives the results of parts of ``model``, and does nothing after the last of them.

    Args:
        model: the model; its modules are shared, not copied.
        return_nodes: paths of modules, or for each of them the name of its result; ``_1``, ``_2``, ... for further calls of a module.
        train_return_nodes, eval_return_nodes: instead, both, for training and for evaluation.
        tracer_kwargs, concrete_args: None; they need torch.fx.
        suppress_diff_warning: has no meaning without a trace.
    Returns:
        A module whose result is a dictionary in the order of the model. Parameters that it does not use stay in its state.
    Raises:
        ValueError: neither ``return_nodes`` nor both of the others, or all.
        NotImplementedError: nodes that are no modules; arguments for a tracer.
    Source: torchvision.models.feature_extraction.create_feature_extractor.
    Example:
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4))
        >>> create_feature_extractor(model, {"1": "hidden"})(torch.ones(1, 2))["hidden"].shape
        torch.Size([1, 3])
    """
    if tracer_kwargs is not None or concrete_args is not None:
        raise NotImplementedError("create_feature_extractor: tracer_kwargs and concrete_args need torch.fx")
    if all(nodes is None for nodes in (return_nodes, train_return_nodes, eval_return_nodes)):
        raise ValueError("Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, should be specified")
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError("If any of `train_return_nodes` and `eval_return_nodes` are specified, then both should be specified")
    if (return_nodes is None) == (train_return_nodes is None):
        raise ValueError("If `train_return_nodes` and `eval_return_nodes` are specified, then both should be specified")
    places = {}
    for training, nodes in ((True, train_return_nodes), (False, eval_return_nodes)):
        chosen: Any = return_nodes if nodes is None else nodes
        places[training] = {name: place_of(model, node) for node, name in named(chosen).items()}
    whole = type(model)

    def forward(self: Any, *arguments: Any, **options: Any) -> OrderedDict[str, Any]:
        return extract(self, lambda *args, **kwargs: whole.forward(self, *args, **kwargs), places[self.training], arguments, options)

    extractor = copy.copy(model)
    extractor.__class__ = type(whole.__name__, (whole,), {"forward": forward, "__module__": whole.__module__, "__doc__": whole.__doc__})
    return extractor


def get_graph_node_names(
    model: nn.Module,
    tracer_kwargs: dict[str, Any] | None = None,
    suppress_diff_warning: bool = False,
    concrete_args: dict[str, Any] | None = None,
) -> NoReturn:
    """Not supported.

    Args:
        model, tracer_kwargs, suppress_diff_warning, concrete_args: any.
    Raises:
        NotImplementedError: always; ``named_modules`` has the names that :func:`create_feature_extractor` takes.
    Source: torchvision.models.feature_extraction.get_graph_node_names.
    Example:
        >>> [name for name, _ in nn.Sequential(nn.ReLU(), nn.Tanh()).named_modules()]  # instead
        ['', '0', '1']
    """
    raise NotImplementedError("get_graph_node_names needs torch.fx; create_feature_extractor takes the names of named_modules()")
