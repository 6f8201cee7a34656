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
    """A tensor, by the name of its node. Source: torch.export.graph_signature.TensorArgument."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A symbolic integer, by the name of its node. Source: torch.export.graph_signature.SymIntArgument."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A symbolic float, by the name of its node. Source: torch.export.graph_signature.SymFloatArgument."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A symbolic bool, by the name of its node. Source: torch.export.graph_signature.SymBoolArgument."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """A script object, by the name of its node: none are made. Source: torch.export.graph_signature.CustomObjArgument."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A number, a string or None. Source: torch.export.graph_signature.ConstantArgument."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = TensorArgument | SymIntArgument | SymFloatArgument | SymBoolArgument | ConstantArgument | CustomObjArgument


class InputKind(Enum):
    """The kinds of inputs. Source: torch.export.graph_signature.InputKind."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


@dataclasses.dataclass
class InputSpec:
    """An input: what it is, its node, and for parameters and the like which. Source: torch.export.graph_signature.InputSpec."""

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
    """The kinds of results. Source: torch.export.graph_signature.OutputKind."""

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
    """A result: what it is, its node, and for what is written to which. Source: torch.export.graph_signature.OutputSpec."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """The results that are gradients: joint graphs are not exported. Source: torch.export.graph_signature.ExportBackwardSignature."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """The inputs and results of an exported graph. Source: torch.export.ExportGraphSignature.

    Attributes:
        input_specs, output_specs: in the order of the placeholders and the results.
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
