"""Exported programs of kernels only: ``ExportedProgram.run_decompositions``.

The graph is run on the tensors without values that its inputs are noted with, and the kernels are noted that its operations call. Writes in
place become results (``fx.experimental.functional_recorder``).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from ..aten.fake_tensor import FakeTensor, FakeTensorMode
from ..aten.overloads import OpOverload
from ..autograd import no_grad
from ..core.calls.registry import resolve
from ..core.tensor import Tensor
from ..fx.experimental.functional_recorder import FunctionalRecorder
from ..fx.experimental.impure import is_impure
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
from ..fx.experimental.recorder import add_inputs
from ..fx.interpreter import Interpreter
from ..fx.node import Node
from .graph_signature import ExportGraphSignature, InputKind, OutputKind, OutputSpec, TensorArgument


class CustomDecompTable(dict[Any, Any]):
    """Functions in place of kernels, by overload. Source: torch.export.decomp_utils.CustomDecompTable.

    Example:
        >>> table = torch.export.CustomDecompTable()
        >>> table[torch.ops.aten.silu.default] = lambda x: x * x.sigmoid()
        >>> len(table.materialize())
        1
    """

    def copy(self) -> CustomDecompTable:
        return CustomDecompTable(self)

    def materialize(self) -> dict[Any, Any]:
        """The functions as a plain dict."""
        return dict(self)


def default_decompositions() -> CustomDecompTable:
    """The table that ``run_decompositions`` has by default: empty, since kernels are the parts that operations are divided into anyway.

    Returns:
        A table that may be changed.
    Source: torch.export.default_decompositions.
    Example:
        >>> len(torch.export.default_decompositions())
        0
    """
    return CustomDecompTable()


def _batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float, *rest: Any) -> Any:
    return resolve("nn.functional", "batch_norm")(input, mean, var, weight, bias, training, momentum, eps)


def _instance_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float, eps: float, *rest: Any
) -> Any:
    return resolve("nn.functional", "instance_norm")(input, mean, var, weight, bias, use_input_stats, momentum, eps)


# Operations whose functions have PyTorch's parts where those of ``torch.ops.aten`` have none.
_CALLED_AS: dict[str, Callable[..., Any]] = {
    "aten::batch_norm": _batch_norm,
    "aten::instance_norm": _instance_norm,
    "aten::layer_norm": lambda input, sizes, weight=None, bias=None, eps=1e-5, *rest: resolve("nn.functional", "layer_norm")(
        input, sizes, weight, bias, eps
    ),
    "aten::group_norm": lambda input, groups, weight=None, bias=None, eps=1e-5, *rest: resolve("nn.functional", "group_norm")(
        input, groups, weight, bias, eps
    ),
    "aten::lift_fresh_copy": lambda input: input.clone(),
    "aten::stft.center": lambda *args: resolve("torch", "stft")(*args),
    "aten::stft": lambda input, n_fft, hop_length=None, win_length=None, window=None, *rest: resolve("torch", "stft")(
        input, n_fft, hop_length, win_length, window, False, "reflect", *rest
    ),
    "aten::dropout": lambda input, p, train: resolve("nn.functional", "dropout")(input, p, train),
}


_NOTES = ("nn_module_stack", "stack_trace", "torch_fn", "source_fn_stack", "custom")  # what kernels take over from operations


class _Runner(Interpreter):
    """Runs a graph on tensors without values.

    Attributes:
        current: the node that runs. names: those of the kernels that stand for nodes. recorder: what notes the kernels.
    """

    def __init__(self, module: Any, recorder: Any):
        super().__init__(module)
        self.current: Node | None = None
        self.names: dict[str, str] = {}
        self.recorder = recorder

    def run_node(self, n: Node) -> Any:
        self.current = n
        result = super().run_node(n)
        made = self.recorder.node_of(result) if isinstance(result, Tensor) else None
        if made is not None:
            self.names[n.name] = made.name
        return result

    def note(self, made: Node) -> None:
        """Note where a kernel comes from: from the same modules and lines as the operation that calls it."""
        known = self.current.meta if self.current is not None else {}
        made.meta.update({key: known[key] for key in _NOTES if key in known})
        if isinstance(made.target, OpOverload):
            made.meta["original_aten"] = made.target

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(target, "_name", "")
        function = _CALLED_AS.get(name) or _CALLED_AS.get(name.partition(".")[0], target)
        return function(*args, **kwargs)


class _KernelMode(ProxyTorchDispatchMode):
    def __init__(self, tracer: Any, table: Any):
        super().__init__(tracer, "symbolic", pre_dispatch=False, decomposition_table=table)
        self.recorder = FunctionalRecorder(tracer.graph, self._constant, table)


def _mode_of(program: Any) -> FakeTensorMode:
    """The mode that the program's values without values belong to."""
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)


def decomposed(program: Any, table: dict[Any, Any] | None) -> Any:
    """The program of kernels; see ``ExportedProgram.run_decompositions``."""
    table = dict(default_decompositions() if table is None else table)
    fake_mode = _mode_of(program)
    placeholders = program.graph.find_nodes(op="placeholder")
    inputs = [_input_of(node, fake_mode) for node in placeholders]
    tracer = PythonKeyTracer()
    mode = _KernelMode(tracer, table)
    add_inputs(mode.recorder, inputs, [node.name for node in placeholders], hoisted=True)
    with no_grad(), contextlib.ExitStack() as stack:
        stack.enter_context(fake_mode)
        stack.enter_context(mode)
        runner = _Runner(program.graph_module, mode.recorder)
        mode.recorder.notes = runner.note
        results = runner.run(*inputs)
        nodes = [mode.recorder.argument(each) for each in results]
    signature, written = _signature(program.graph_signature, mode.recorder, inputs, nodes)
    tracer.graph.output((*written, *nodes))
    tracer.graph.eliminate_dead_code(is_impure)
    return type(program)(
        tracer.root,
        tracer.graph,
        signature,
        program.state_dict,
        program.range_constraints,
        [_renamed(entry, runner.names) for entry in program.module_call_graph],
        program.example_inputs,
        program.constants,
        guards=program._guards,
    )


def _renamed(entry: Any, names: dict[str, str]) -> Any:
    """A module's entry with the kernels that stand for the nodes of its signature."""
    if entry.signature is None:
        return entry
    inputs, outputs = (
        [dataclasses.replace(each, name=names.get(each.name, each.name)) for each in specs]
        for specs in (entry.signature.inputs, entry.signature.outputs)
    )
    return dataclasses.replace(entry, signature=dataclasses.replace(entry.signature, inputs=inputs, outputs=outputs))


def _input_of(node: Node, mode: FakeTensorMode) -> Any:
    value = node.meta["val"]
    return mode.from_tensor(value, static_shapes=True) if isinstance(value, Tensor) and not isinstance(value, FakeTensor) else value


def _signature(before: ExportGraphSignature, recorder: Any, inputs: list[Any], nodes: list[Any]) -> tuple[ExportGraphSignature, list[Node]]:
    """The signature, with what inputs were overwritten with as further results, and these."""
    kinds = {
        InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
        InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
        InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION,
        InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    }
    specs, written = [], []
    for spec, value in zip(before.input_specs, inputs, strict=True):
        node = recorder.final(value) if isinstance(value, Tensor) else None
        if node is not None:
            target = spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target
            specs.append(OutputSpec(kinds[spec.kind], TensorArgument(node.name), target))
            written.append(node)
    for each, node in zip(before.output_specs, nodes, strict=True):
        argument = dataclasses.replace(each.arg, name=node.name) if isinstance(node, Node) else each.arg
        specs.append(OutputSpec(each.kind, argument, each.target))
    return ExportGraphSignature(list(before.input_specs), specs), written
