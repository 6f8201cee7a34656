"""Styles of dividing one module: its parameters, its inputs and its outputs."""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor
from ....nn import Embedding, Linear, Module
from .. import DTensor, Placement, Replicate, Shard, distribute_module, distribute_tensor

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput", "RowwiseParallel",
    "SequenceParallel",
]  # fmt: skip


class ParallelStyle:
    """Base of the styles.

    Attributes:
        src_data_rank: the process whose values count when parameters are divided.
    Source: torch.distributed.tensor.parallel.ParallelStyle.
    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
        >>> isinstance(ColwiseParallel(), ParallelStyle)
        True
    """

    src_data_rank: int | None = 0

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        raise NotImplementedError(f"{type(self).__name__} must define _apply")


def as_placed(value: Any, mesh: Any, given: Placement, wanted: Placement) -> Any:
    """A part, or a spread tensor, as a spread tensor that lies as ``wanted``."""
    if not isinstance(value, DTensor):
        if not isinstance(value, Tensor):
            return value
        value = DTensor.from_local(value, mesh, [given], run_check=False)
    return value if value.placements == (wanted,) else value.redistribute(placements=[wanted])


class _Divided(ParallelStyle):
    """A layer whose weight is divided by one dimension.

    Args:
        input_layouts: how the input lies.
        output_layouts: how the output shall lie.
        use_local_output: give this process's part of it instead of a ``DTensor``.
    """

    input_layouts: tuple[Placement]
    output_layouts: tuple[Placement]
    desired_input_layouts: tuple[Placement]
    use_local_output: bool
    parameters: dict[type, dict[str, Placement]]  # by kind of layer, how each parameter lies

    def _input_wanted(self, module: Module) -> Placement:
        return self.desired_input_layouts[0]

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        kind = next((kind for kind in self.parameters if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(f"{type(self).__name__} currently only support nn.Linear and nn.Embedding!")
        wanted = self._input_wanted(module)

        def divide(name: str, part: Module, mesh: Any) -> None:
            for key, param in list(part.named_parameters(recurse=False)):
                places = [self.parameters[kind].get(key, Replicate())]
                part.register_parameter(key, distribute_tensor(param, mesh, places, src_data_rank=self.src_data_rank))

        def before(part: Module, inputs: Any, mesh: Any) -> Any:
            return (as_placed(inputs[0], mesh, self.input_layouts[0], wanted), *inputs[1:])

        def after(part: Module, output: Any, mesh: Any) -> Any:
            if output.placements != self.output_layouts:
                output = output.redistribute(placements=self.output_layouts)
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, divide, before, after)


class ColwiseParallel(_Divided):
    """Divide the outputs of ``nn.Linear``, or the columns of ``nn.Embedding``, among processes.

    Args:
        input_layouts: how the input lies; replicated when None.
        output_layouts: how the output shall lie; divided by its last dimension when None.
        use_local_output: give this process's part of it instead of a ``DTensor``.
    Raises:
        NotImplementedError: another kind of module.
    Source: torch.distributed.tensor.parallel.ColwiseParallel.
    Example:
        >>> from flambeau.distributed.tensor.parallel import ColwiseParallel
        >>> ColwiseParallel().output_layouts
        (Shard(dim=-1),)
    """

    parameters = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None, use_local_output: bool = True
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.desired_input_layouts = (Replicate(),)
        self.use_local_output = use_local_output


class RowwiseParallel(_Divided):
    """Divide the inputs of ``nn.Linear``, or the rows of ``nn.Embedding``, among processes.

    Args:
        input_layouts: how the input lies; divided by its last dimension when None.
        output_layouts: how the output shall lie; replicated when None.
        use_local_output: give this process's part of it instead of a ``DTensor``.
    Raises:
        NotImplementedError: another kind of module.
    Source: torch.distributed.tensor.parallel.RowwiseParallel.
    Example:
        >>> from flambeau.distributed.tensor.parallel import RowwiseParallel
        >>> RowwiseParallel().input_layouts
        (Shard(dim=-1),)
    """

    parameters = {Linear: {"weight": Shard(1)}, Embedding: {"weight": Shard(0)}}

    def __init__(
        self, *, input_layouts: Placement | None = None, output_layouts: Placement | None = None, use_local_output: bool = True
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.desired_input_layouts = (Shard(-1),)
        self.use_local_output = use_local_output

    def _input_wanted(self, module: Module) -> Placement:
        return Replicate() if isinstance(module, Embedding) else Shard(-1)


class SequenceParallel(ParallelStyle):
    """Compute a layer that looks at one position at a time (norms, dropout) on parts of the sequence; its parameters are replicated.

    Args:
        sequence_dim: the dimension that is divided.
        use_local_output: give this process's part instead of a ``DTensor``.
    Source: torch.distributed.tensor.parallel.SequenceParallel.
    Example:
        >>> from flambeau.distributed.tensor.parallel import SequenceParallel
        >>> SequenceParallel().sequence_sharding
        (Shard(dim=1),)
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def replicate(name: str, part: Module, mesh: Any) -> None:
            for key, param in list(part.named_parameters(recurse=False)):
                part.register_parameter(key, distribute_tensor(param, mesh, [Replicate()], src_data_rank=self.src_data_rank))

        def before(part: Module, inputs: Any, mesh: Any) -> Any:
            if not isinstance(inputs[0], Tensor):
                raise ValueError(f"expecting input of {part} to be a torch.Tensor or DTensor, but got {inputs[0]}")
            return (as_placed(inputs[0], mesh, self.sequence_sharding[0], self.sequence_sharding[0]), *inputs[1:])

        def after(part: Module, output: Any, mesh: Any) -> Any:
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, replicate, before, after)


def _tuple(layouts: Any) -> Any:
    return None if layouts is None else layouts if isinstance(layouts, tuple) else (layouts,)


def _prepared(values: Any, given: Any, wanted: Any, mesh: Any, local: bool, what: str) -> tuple[Any, ...]:
    """Inputs or outputs as spread tensors that lie as wanted; those without a layout as they are."""
    listed = values if isinstance(values, tuple) else (values,)
    if len(listed) != len(given):
        raise ValueError(f"module {what} and {what}_layouts should have same length!")
    result = []
    for value, have, want in zip(listed, given, wanted, strict=True):
        if have is not None and isinstance(value, Tensor):
            value = as_placed(value, mesh, have, want or have)
            value = value.to_local() if local else value
        result.append(value)
    return tuple(result)


class PrepareModuleInput(ParallelStyle):
    """Make spread tensors of a module's inputs, and have them lie as the module needs them.

    Args:
        input_layouts: how each positional input lies; None where one is no tensor.
        desired_input_layouts: how each shall lie.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same of keyword inputs.
        use_local_output: give the module parts instead of ``DTensor``.
    Raises:
        AssertionError: numbers of layouts that differ.
        ValueError: another number of inputs, when the module is called.
    Source: torch.distributed.tensor.parallel.PrepareModuleInput.
    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleInput
        >>> PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate()).input_layouts
        (Shard(dim=0),)
    """

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_output: bool = False
    ) -> None:  # fmt: skip
        self.input_layouts, self.desired_input_layouts = _tuple(input_layouts), _tuple(desired_input_layouts)
        if self.input_layouts is not None and len(self.input_layouts) != len(self.desired_input_layouts or ()):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        self.input_kwarg_layouts, self.desired_input_kwarg_layouts = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        if set(self.input_kwarg_layouts) != set(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have the same names!")
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def before(part: Module, args: Any, kwargs: Any) -> Any:
            if self.input_layouts is not None:
                args = _prepared(args, self.input_layouts, self.desired_input_layouts, device_mesh, self.use_local_output, "inputs")
            changed = dict(kwargs)
            for name, given in self.input_kwarg_layouts.items():
                if name in kwargs:
                    wanted = self.desired_input_kwarg_layouts[name]
                    (changed[name],) = _prepared((kwargs[name],), (given,), (wanted,), device_mesh, self.use_local_output, "inputs")
            return args, changed

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Make spread tensors of a module's outputs, and have them lie as the program needs them.

    Args:
        output_layouts: how each output lies; None where one is no tensor.
        desired_output_layouts: how each shall lie.
        use_local_output: give parts instead of ``DTensor``.
    Raises:
        AssertionError: numbers of layouts that differ.
        ValueError: another number of outputs, when the module is called.
    Source: torch.distributed.tensor.parallel.PrepareModuleOutput.
    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleOutput
        >>> PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0)).desired_output_layouts
        (Shard(dim=0),)
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.output_layouts, self.desired_output_layouts = _tuple(output_layouts), _tuple(desired_output_layouts)
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def after(part: Module, inputs: Any, outputs: Any) -> Any:
            made = _prepared(outputs, self.output_layouts, self.desired_output_layouts, device_mesh, self.use_local_output, "outputs")
            return made if isinstance(outputs, tuple) else made[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """``PrepareModuleInput`` and ``PrepareModuleOutput`` in one.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: of the inputs.
        use_local_input: give the module parts instead of ``DTensor``.
        output_layouts, desired_output_layouts: of the outputs.
        use_local_output: give parts of the outputs instead of ``DTensor``.
    Source: torch.distributed.tensor.parallel.PrepareModuleInputOutput.
    Example:
        >>> from flambeau.distributed.tensor import Replicate, Shard
        >>> from flambeau.distributed.tensor.parallel import PrepareModuleInputOutput
        >>> style = PrepareModuleInputOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
        >>> style.prepare_module_output.use_local_output
        True
    """

    def __init__(
        self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None, use_local_input: bool = False, output_layouts: Any,
        desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:  # fmt: skip
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts, input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input,
        )  # fmt: skip
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts, use_local_output=use_local_output
        )

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
