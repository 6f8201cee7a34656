"""Models as stages, of which one trace tells what each needs of the others. Source: torch.distributed.pipelining.

``torch.export`` records the model; marks in the record say where a stage ends. Each stage is a graph module of its own. A value goes
straight from the stage that computes it to those that use it, also across others between.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from ...aten import namespaces
from ...aten.overloads import OpOverload
from ...export import export
from ...fx import Graph, GraphModule, Node
from ...fx.node import map_arg
from ...library import Library
from ...nn import Module
from ...utils._pytree import tree_flatten, tree_unflatten
from .stage import PipelineStage

__all__ = ["Pipe", "PipeInfo", "SplitPoint", "build_stage", "pipe_split", "pipeline"]

_MARK = "pippy::_pipe_split"
_library = Library("pippy", "FRAGMENT")
_library.define("_pipe_split() -> ()")
_mark = namespaces.ops.pippy._pipe_split
_library.impl("_pipe_split", lambda: None, "CompositeExplicitAutograd")


class SplitPoint(Enum):
    """An end of a module that is a border between stages.

    Source: torch.distributed.pipelining.SplitPoint.
    Example:
        >>> from flambeau.distributed.pipelining import SplitPoint
        >>> list(SplitPoint)
        [<SplitPoint.BEGINNING: 1>, <SplitPoint.END: 2>]
    """

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """A border between stages, at this place of a model's ``forward``; does nothing when the model runs.

    Source: torch.distributed.pipelining.pipe_split.
    Example:
        >>> from flambeau.distributed.pipelining import pipe_split
        >>> pipe_split()
    """
    _mark()


@dataclass
class _Part:
    """A stage under construction.

    Attributes:
        nodes: its nodes, in order. inputs: values of earlier stages, or of the model's inputs, in order of their use. outputs: those that
            later stages use.
    """

    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)


@dataclass(frozen=True)
class PipeInfo:
    """Facts about a pipeline that a process needs to run one of its stages.

    Args:
        graph: the calls of the stages. num_stages: their number. has_loss_and_backward: False: losses belong to schedules.
        sources: of each stage, where its inputs come from: pairs of a stage, or -1 for the model's inputs, and the number of an output.
        in_spec: the structure of the model's arguments.
    Source: torch.distributed.pipelining.
    Example:
        >>> from flambeau.distributed.pipelining import pipeline
        >>> pipeline(torch.nn.Linear(1, 1), (torch.ones(1, 1),)).info().num_stages
        1
    """

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool
    sources: tuple[tuple[tuple[int, int], ...], ...]
    in_spec: Any


class Pipe(Module):
    """A model in stages.

    Args:
        split_gm, num_stages: as the attributes.
        has_loss_and_backward, loss_spec: False and None: losses belong to schedules.
    Shape:
        That of the model.
    Attributes:
        split_gm: a module that calls the stages. num_stages: how many there are.
    Source: torch.distributed.pipelining.Pipe.
    Example:
        >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
        >>> pipe = pipeline(model, (torch.ones(4, 2),), split_spec={"2": SplitPoint.BEGINNING})
        >>> pipe.num_stages, [name for name, _ in pipe.get_stage_module(1).named_parameters()]
        (2, ['2.weight', '2.bias'])
        >>> torch.equal(pipe(torch.ones(4, 2)), model(torch.ones(4, 2)))
        True
    """

    def __init__(self, split_gm: GraphModule, num_stages: int, has_loss_and_backward: bool, loss_spec: Any = None) -> None:
        super().__init__()
        self.split_gm, self.num_stages, self.has_loss_and_backward, self.loss_spec = split_gm, num_stages, has_loss_and_backward, loss_spec
        self._info: PipeInfo | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output."""
        return self.split_gm(*tree_flatten((args, kwargs))[0])

    def get_stage_module(self, stage_idx: int) -> Module:
        """A stage.

        Args:
            stage_idx: its number.
        Raises:
            ValueError: there is none.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}!")
        return getattr(self.split_gm, f"submod_pp_{stage_idx}")

    def info(self) -> PipeInfo:
        """Facts about the pipeline that its processes need."""
        if self._info is None:
            raise RuntimeError("Pipe: made by hand, it does not know where values come from; use pipeline()")
        return self._info

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """A stage of this process.

        Args:
            stage_index: its number. device: where it lies. group: the processes; all when None.
        """
        return build_stage(self.get_stage_module(stage_index), stage_index, self.info(), device, group)

    def print_readable(self) -> None:
        """Print the stages' code."""
        self.split_gm.print_readable()

    @staticmethod
    def from_tracing(
        mod: Module, example_args: tuple[Any, ...], example_kwargs: dict[str, Any] | None = None, split_policy: Any = None
    ) -> Pipe:  # fmt: skip
        """A model in the stages that ``pipe_split`` marks in its ``forward``; see :func:`pipeline`."""
        return pipeline(mod, example_args, example_kwargs, split_policy=split_policy)


class _BuiltStage(PipelineStage):
    """A stage whose values come from, and go to, any others."""

    def __init__(self, stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None) -> None:
        self._all, self._in_spec = pipe_info.sources, pipe_info.in_spec
        self._from = pipe_info.sources[stage_index]
        super().__init__(stage_module, stage_index, pipe_info.num_stages, device, group=group)

    def _sources(self) -> list[int]:
        found = {max(stage, 0) for stage, _ in self._from}
        return [] if self.is_first else sorted(found)

    def _places(self, sink: int, source: int) -> list[int]:
        """The outputs of a stage that another one uses, in order."""
        return list(dict.fromkeys(place for stage, place in self._all[sink] if stage == source))

    def _sinks(self, outputs: int) -> dict[int, list[int]]:
        later = {sink: self._places(sink, self.stage_index) for sink in range(self.stage_index + 1, self.num_stages)}
        return {sink: places for sink, places in later.items() if places}

    def _computed(self, came: dict[int, list[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = self._leaves(args, kwargs) if self.is_first else []
        values: dict[tuple[int, int], Any] = {(-1, i): leaf for i, leaf in enumerate(given)}
        for source, tensors in came.items():
            names = [(source, place) for place in self._places(self.stage_index, source)]
            if not source:  # the model's inputs come from the process of the first stage
                names += [(-1, place) for place in self._places(self.stage_index, -1)]
            values.update(zip(names, tensors, strict=True))
        return self.submod(*[values[source] for source in self._from])

    def _sent(self, outputs: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, list[Any]]:
        sent = super()._sent(outputs, args, kwargs)
        if self.is_first:
            leaves = self._leaves(args, kwargs)
            for sink in range(1, self.num_stages):
                given = [leaves[place].detach() for place in self._places(sink, -1)]
                if given:
                    sent.setdefault(sink, []).extend(given)
        return sent

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise ValueError(f"stage 0: the arguments have the structure {spec}, the model was traced with {self._in_spec}")
        return leaves


def build_stage(stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None) -> PipelineStage:
    """A stage of this process.

    Args:
        stage_module: the stage's module, which may be another one than the pipeline's that does the same.
        stage_index: its number.
        pipe_info: ``Pipe.info()``.
        device: where it lies.
        group: the processes; all when None.
    Returns: a stage, for schedules.
    Source: torch.distributed.pipelining.build_stage.
    Example:
        >>> from flambeau.distributed.pipelining import build_stage, pipeline
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> pipe = pipeline(torch.nn.Linear(1, 1), (torch.ones(1, 1),))
        >>> build_stage(pipe.get_stage_module(0), 0, pipe.info(), "cpu").is_last
        True
        >>> torch.distributed.destroy_process_group()
    """
    return _BuiltStage(stage_module, stage_index, pipe_info, device, group)


@contextmanager
def _marked(module: Module, split_spec: dict[str, SplitPoint]) -> Iterator[None]:
    """Submodules mark their ends as they are called."""
    handles = []
    try:
        for path, point in split_spec.items():
            part: Any = module
            for name in path.split("."):
                part = getattr(part, name)
            if point is SplitPoint.BEGINNING:
                handles.append(part.register_forward_pre_hook(lambda *called: pipe_split()))
            elif point is SplitPoint.END:
                handles.append(part.register_forward_hook(lambda *called: pipe_split()))
            else:
                raise ValueError("Unknown split point type.")
        yield
    finally:
        for handle in handles:
            handle.remove()


def pipeline(
    module: Module, mb_args: tuple[Any, ...], mb_kwargs: dict[str, Any] | None = None, split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[GraphModule], GraphModule] | None = None,
) -> Pipe:  # fmt: skip
    """A model in stages.

    Args:
        module: the model, which ``torch.export`` can record.
        mb_args, mb_kwargs: arguments for one part of a batch.
        split_spec: by the paths of submodules, which of their ends is a border; else ``pipe_split()`` in ``forward`` says it.
        split_policy: a function that puts the marks into the recorded graph module.
    Returns: a ``Pipe``.
    Raises:
        ValueError: both ways of splitting, or an end that is none.
        AttributeError: no such submodule.
        RuntimeError: the model cannot be recorded.
    Source: torch.distributed.pipelining.pipeline.
    Example:
        >>> from flambeau.distributed.pipelining import SplitPoint, pipeline
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        >>> pipeline(model, (torch.ones(4, 2),), split_spec={"0": SplitPoint.END}).num_stages
        2
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    with _marked(module, split_spec or {}):
        traced = _recorded(module, mb_args, mb_kwargs)
    if split_policy is not None:
        traced = split_policy(traced)
    return _split(traced)


def _recorded(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> GraphModule:
    try:
        return export(module, args, kwargs).module(check_guards=False)
    except Exception as error:
        raise RuntimeError(
            "It seems that we cannot capture your model as a full graph. Typical reasons include graph breaks, data/shape-dependent "
            "control flow, or missing meta kernels for custom operators. You can use our manual pipeline interfaces, or try to fix the "
            "graph breaks, see https://pytorch.org/docs/stable/export.html"
        ) from error


def _is_mark(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target.name().startswith(_MARK)


def _divided(traced: GraphModule) -> list[_Part]:
    """The nodes of each stage; the model's inputs belong to none (-1), what reads its state to any."""
    parts, stage_of = [_Part()], {}  # type: tuple[list[_Part], dict[Node, int]]
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            stage_of[node] = -1
        elif _is_mark(node):
            if parts[-1].nodes:
                parts.append(_Part())
        elif node.op not in ("get_attr", "output"):
            stage_of[node] = len(parts) - 1
            parts[-1].nodes.append(node)
    if len(parts) > 1 and not parts[-1].nodes:
        parts.pop()  # a mark at the model's end
    last = len(parts) - 1
    for index, users in [*((i, part.nodes) for i, part in enumerate(parts)), (last, [traced.graph.output_node()])]:
        for node in users:
            for given in node.all_input_nodes:
                source = stage_of.get(given, index)
                if source != index:
                    parts[index].inputs[given] = None
                    if source >= 0:
                        parts[source].outputs[given] = None
    return parts


def _stage_module(traced: GraphModule, part: _Part, results: Any) -> GraphModule:
    """A module of a stage's nodes."""
    graph, made = Graph(), {}  # type: tuple[Graph, dict[Node, Node]]
    for given in part.inputs:
        made[given] = graph.placeholder(given.name)
        made[given].meta = dict(given.meta)

    def value(node: Node) -> Node:
        if node not in made:  # parameters and buffers, also those that several stages use
            made[node] = graph.get_attr(str(node.target))
            made[node].meta = dict(node.meta)
        return made[node]

    for node in part.nodes:
        for given in node.all_input_nodes:
            value(given)
        made[node] = graph.node_copy(node, value)
    graph.output(map_arg(results, value))
    return GraphModule(traced, graph)


def _split(traced: GraphModule) -> Pipe:
    """A pipe of a recorded model with marks."""
    parts = _divided(traced)
    flat = traced.graph.output_node().args[0]
    whole, values = Graph(), {}  # type: tuple[Graph, dict[Node, Node]]
    inputs = traced.graph.find_nodes(op="placeholder")
    for node in inputs:
        values[node] = whole.placeholder(node.name)
    where = {node: (-1, i) for i, node in enumerate(inputs)}
    members: dict[str, Module] = {}
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        outputs = list(part.outputs)
        results: Any = (
            tree_unflatten(list(flat), cast(Any, traced._out_spec)) if is_last else outputs[0] if len(outputs) == 1 else tuple(outputs)
        )
        name = f"submod_pp_{index}"
        members[name] = _stage_module(traced, part, results)
        called = whole.call_module(name, tuple(values[node] for node in part.inputs))
        for place_of, node in enumerate(outputs):
            where[node] = (index, place_of)
            values[node] = called if len(outputs) == 1 else whole.call_function(operator.getitem, (called, place_of))
    whole.output(called)
    root = Module()
    for name, member in members.items():
        root.add_module(name, member)
    pipe = Pipe(GraphModule(root, whole), len(parts), False, None)
    sources = tuple(tuple(where[node] for node in part.inputs) for part in parts)
    pipe._info = PipeInfo(pipe.split_gm.graph, len(parts), False, sources, traced._in_spec)
    return pipe
