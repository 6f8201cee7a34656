"""``ExportedProgram``: a graph of operations, and what its inputs and results are. Source: torch.export.exported_program."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn

from ..core.symbolic import SymbolicInt
from ..core.tensor import Parameter, Tensor
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils._pytree import TreeSpec
from .graph_signature import ExportGraphSignature, InputKind
from .inputs import Guards

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature"]


@dataclasses.dataclass
class CallSpec:
    """The structures of an exported program's arguments, as ``(args, kwargs)``, and of its result."""

    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


@dataclasses.dataclass
class ModuleCallSignature:
    """The signature of a module's call. Source: torch.export.ModuleCallSignature.

    Args:
        inputs, outputs: its arguments and results. in_spec, out_spec: their structures. forward_arg_names: names of the arguments.
    Example:
        >>> program = torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
        >>> program.module_call_graph[0].signature.forward_arg_names
        ['input']
    """

    inputs: list[Any]
    outputs: list[Any]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    """A module by its path, and the signature of its call where that is kept. Source: torch.export.ModuleCallEntry.

    Args:
        fqn: the path. signature: the signature, or None.
    Example:
        >>> torch.export.ModuleCallEntry("layers.0").fqn
        'layers.0'
    """

    fqn: str
    signature: ModuleCallSignature | None = None


class ExportedProgram:
    """A program without Python: a graph of operations with parameters, buffers and constants as inputs. ``torch.export.export`` makes it.

    Args:
        root: the module, or the attributes, that the graph's ``get_attr`` nodes name. graph: the graph.
        graph_signature: what its inputs and results are. state_dict: parameters and buffers by name.
        range_constraints: bounds of the symbols. module_call_graph: the first entry has the structures of arguments and result.
        example_inputs: ``(args, kwargs)``. constants: other tensors by name.
        guards: checks inputs, where ``module()`` is called. verifiers: must be None.
    Raises:
        NotImplementedError: ``verifiers``.
    Attributes:
        graph_module, graph: the graph as a module, and itself.
    Source: torch.export.ExportedProgram.
    Example:
        >>> program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
        >>> print(program.graph_module.code.strip())
        def forward(self, p_weight, p_bias, input):
            linear = torch.ops.aten.linear.default(input, p_weight, p_bias);  input = p_weight = p_bias = None
            return (linear,)
        >>> program.module()(torch.ones(1, 2)).shape
        torch.Size([1, 3])
    """

    def __init__(
        self,
        root: Module | dict[str, Any],
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        range_constraints: dict[Any, Any],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[Any] | None = None,
        guards: Guards | None = None,
    ):
        if verifiers is not None:
            raise NotImplementedError("ExportedProgram: verifiers are not supported")
        self._graph_module = GraphModule(root, graph)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints, self._module_call_graph = range_constraints, module_call_graph
        self._example_inputs, self._constants, self._guards = example_inputs, constants or {}, guards

    # ---- what it has
    @property
    def graph_module(self) -> GraphModule:
        return self._graph_module

    @property
    def graph(self) -> Graph:
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        return self._state_dict

    @property
    def range_constraints(self) -> dict[Any, Any]:
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        return self._example_inputs

    @property
    def constants(self) -> dict[str, Any]:
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        return self._constants

    @property
    def call_spec(self) -> CallSpec:
        signature = self._module_call_graph[0].signature if self._module_call_graph else None
        return CallSpec(None, None) if signature is None else CallSpec(signature.in_spec, signature.out_spec)

    @property
    def dialect(self) -> str:
        return "ATEN"

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names in the module that was exported."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names in the module that was exported."""
        fleeting = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, self.constants[name] if name in fleeting else self.state_dict[name]

    def value_of(self, spec: Any) -> Any:
        """The tensor of an input that is no user's."""
        return self.constants[spec.target] if spec.target in self.constants else self.state_dict[spec.target]

    # ---- what is done with it
    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that runs the program, with the parameters, buffers and constants as attributes: those of this program, no copies.

        Args:
            check_guards: whether inputs that the program was not exported for are refused.
        Returns:
            The module. It cannot be switched to training or evaluation: what it does was fixed when it was exported.
        Raises:
            AssertionError: from its call, an input of another size or value than is allowed.
            ValueError: from its call, arguments of another structure.
        Source: torch.export.ExportedProgram.module.
        """
        from .unlift import unlifted

        return unlifted(self, check_guards)

    def run_decompositions(self, decomp_table: dict[Any, Any] | None = None, decompose_custom_triton_ops: bool = False) -> ExportedProgram:
        """The same program of kernels: operations are divided, and nothing is written in place.

        Args:
            decomp_table: what is called in place of kernels, by overload; that of ``default_decompositions`` when None.
            decompose_custom_triton_ops: has no effect, as there are no such operations here.
        Returns:
            Another program. Buffers that were written to are further results of its graph, which ``module()`` stores.
        Source: torch.export.ExportedProgram.run_decompositions.
        """
        from .decompositions import decomposed

        return decomposed(self, decomp_table)

    def validate(self) -> None:
        """AssertionError or RuntimeError where the graph is not in order. Source: torch.export.ExportedProgram.validate."""
        self.graph.lint()
        names = [node.name for node in self.graph.find_nodes(op="placeholder")]
        if names != [spec.arg.name for spec in self.graph_signature.input_specs]:
            raise AssertionError("the placeholders are not those of the signature")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def __deepcopy__(self, memo: dict[int, Any]) -> ExportedProgram:
        made = ExportedProgram(
            copy.deepcopy(self.graph_module),
            copy.deepcopy(self.graph),
            copy.deepcopy(self.graph_signature),
            copy.deepcopy(self.state_dict, memo),
            dict(self.range_constraints),
            list(self.module_call_graph),
            copy.deepcopy(self.example_inputs, memo),
            copy.deepcopy(self.constants, memo),
            guards=self._guards,
        )
        return made

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).strip("\n").replace("\n", "\n    ")
        return f"ExportedProgram:\n    {code}\nGraph signature: \n    {signature}\n    \nRange constraints: {self.range_constraints}\n"


def user_inputs(program: ExportedProgram) -> list[Any]:
    """The nodes of the inputs that the caller gives."""
    nodes = program.graph.find_nodes(op="placeholder")
    pairs = zip(nodes, program.graph_signature.input_specs, strict=True)
    return [node for node, spec in pairs if spec.kind is InputKind.USER_INPUT]


def dynamic_dims(program: ExportedProgram) -> list[dict[int, SymbolicInt]]:
    """Of every input of the caller, the sizes that are symbols, by dimension."""
    found = []
    for node in user_inputs(program):
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, Tensor) else ()
        found.append({dim: size for dim, size in enumerate(sizes) if isinstance(size, SymbolicInt)})
    return found


def __getattr__(name: str) -> Any:
    if name == "default_decompositions":  # which needs what is here
        from .decompositions import default_decompositions

        return default_decompositions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
