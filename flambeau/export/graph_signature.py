"""The meaning of the placeholders and results of an exported graph. Source: torch.export.graph_signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind",
    "OutputSpec", "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument",
]  # fmt: skip


@dataclasses.dataclass
class TensorArgument:
    """A tensor, by the name of its node. Source: torch.export.graph_signature.TensorArgument.

    Args:
        name: of the node.
    Example:
        >>> torch.export.graph_signature.TensorArgument("x")
        TensorArgument(name='x')
    """

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A symbolic integer, by the name of its node. Source: torch.export.graph_signature.SymIntArgument.

    Args:
        name: of the node.
    Example:
        >>> torch.export.graph_signature.SymIntArgument("x")
        SymIntArgument(name='x')
    """

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A symbolic float, by the name of its node. Source: torch.export.graph_signature.SymFloatArgument.

    Args:
        name: of the node.
    Example:
        >>> torch.export.graph_signature.SymFloatArgument("x")
        SymFloatArgument(name='x')
    """

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A symbolic bool, by the name of its node. Source: torch.export.graph_signature.SymBoolArgument.

    Args:
        name: of the node.
    Example:
        >>> torch.export.graph_signature.SymBoolArgument("x")
        SymBoolArgument(name='x')
    """

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """A script object, by the name of its node: none are made. Source: torch.export.graph_signature.CustomObjArgument.

    Args:
        name: of the node. class_fqn: of its class. fake_val: a stand-in for it.
    Example:
        >>> torch.export.graph_signature.CustomObjArgument("obj", "__torch__.A").class_fqn
        '__torch__.A'
    """

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A number, a string or None. Source: torch.export.graph_signature.ConstantArgument.

    Args:
        name: of its placeholder, empty for a result. value: the constant.
    Example:
        >>> torch.export.graph_signature.ConstantArgument("k", 3)
        ConstantArgument(name='k', value=3)
    """

    name: str
    value: int | float | bool | str | None


ArgumentSpec = TensorArgument | SymIntArgument | SymFloatArgument | SymBoolArgument | ConstantArgument | CustomObjArgument


class InputKind(Enum):
    """The kinds of inputs. Source: torch.export.graph_signature.InputKind.

    Example:
        >>> torch.export.graph_signature.InputKind.PARAMETER.name
        'PARAMETER'
    """

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """An input of an exported graph. Source: torch.export.graph_signature.InputSpec.

    Args:
        kind: what it is. arg: its node. target: the parameter, the buffer or the constant that it is. persistent: of a buffer.
    Raises:
        AssertionError: a buffer without ``persistent``.
    Example:
        >>> from flambeau.export import graph_signature
        >>> print(graph_signature.InputSpec(graph_signature.InputKind.PARAMETER, graph_signature.TensorArgument("p_w"), "w"))
        p_w: PARAMETER target='w'
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


class OutputKind(Enum):
    """The kinds of results. Source: torch.export.graph_signature.OutputKind.

    Example:
        >>> torch.export.graph_signature.OutputKind.USER_OUTPUT.name
        'USER_OUTPUT'
    """

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclasses.dataclass
class OutputSpec:
    """A result of an exported graph. Source: torch.export.graph_signature.OutputSpec.

    Args:
        kind: what it is. arg: its node. target: what it is the new value of.
    Example:
        >>> from flambeau.export import graph_signature
        >>> print(graph_signature.OutputSpec(graph_signature.OutputKind.USER_OUTPUT, graph_signature.TensorArgument("add"), None))
        add: USER_OUTPUT
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """The results that are gradients: joint graphs are not exported. Source: torch.export.graph_signature.ExportBackwardSignature.

    Args:
        gradients_to_parameters, gradients_to_user_inputs: by result. loss_output: the loss.
    Example:
        >>> torch.export.ExportBackwardSignature({}, {}, "loss").loss_output
        'loss'
    """

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and results of an exported graph. Source: torch.export.ExportGraphSignature.

    Args:
        input_specs, output_specs: in the order of the placeholders and the results.
    Example:
        >>> torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),)).graph_signature.parameters
        ('weight', 'bias')
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> list[str]:
        return [str(spec.target) for spec in self.input_specs if spec.kind is kind]

    def _by_node(self, kind: InputKind) -> dict[str, str]:
        return {spec.arg.name: str(spec.target) for spec in self.input_specs if spec.kind is kind}

    def _written(self, kind: OutputKind) -> dict[str, str]:
        return {spec.arg.name: str(spec.target) for spec in self.output_specs if spec.kind is kind}

    @property
    def parameters(self) -> Collection[str]:
        return tuple(self._targets(InputKind.PARAMETER))

    @property
    def buffers(self) -> Collection[str]:
        return tuple(self._targets(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self) -> Collection[str]:
        return tuple([str(spec.target) for spec in self.input_specs if spec.kind is InputKind.BUFFER and spec.persistent is False])

    @property
    def lifted_tensor_constants(self) -> Collection[str]:
        return tuple(self._targets(InputKind.CONSTANT_TENSOR))

    @property
    def lifted_custom_objs(self) -> Collection[str]:
        return ()

    @property
    def user_inputs(self) -> Collection[Any]:
        return tuple([_shown(spec.arg) for spec in self.input_specs if spec.kind is InputKind.USER_INPUT])

    @property
    def user_outputs(self) -> Collection[Any]:
        return tuple([_shown(spec.arg) for spec in self.output_specs if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)])

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        return self._by_node(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return self._by_node(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        return self._by_node(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        return {}

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        return self._written(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        return None

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        return None

    def replace_all_uses(self, old: str, new: str) -> None:
        """Have another node wherever ``old`` is named."""
        specs: list[Any] = [*self.input_specs, *self.output_specs]
        for spec in specs:
            if not isinstance(spec.arg, ConstantArgument) and spec.arg.name == old:
                spec.arg.name = new

    def __str__(self) -> str:
        inputs, outputs = ("\n".join(map(str, specs)) for specs in (self.input_specs, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _shown(argument: Any) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name
