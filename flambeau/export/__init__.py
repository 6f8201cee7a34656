"""``torch.export``: programs as graphs of operations, without Python, with symbolic sizes.

export(module, args) -> ExportedProgram     a graph, what its inputs and results are, parameters and buffers
                        .module()           a module again        .run_decompositions()     of kernels only
                        save, load          files (``serialization``)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import late as _late
from ..core.expressions import symbol as _symbol
from ..nn import Module as _Module
from ..utils._pytree import tree_flatten as _tree_flatten
from .decompositions import CustomDecompTable as CustomDecompTable, default_decompositions as default_decompositions
from .dynamic_shapes import (
    AdditionalInputs as AdditionalInputs,
    Constraint as Constraint,
    Dim as Dim,
    ShapesCollection as ShapesCollection,
    UserError as _UserError,
    dims as dims,
    dims_of_leaves as _dims_of_leaves,
)
from .exported_program import (
    ExportedProgram as ExportedProgram,
    ModuleCallEntry as ModuleCallEntry,
    ModuleCallSignature as ModuleCallSignature,
)
from .graph_signature import ExportBackwardSignature as ExportBackwardSignature, ExportGraphSignature as ExportGraphSignature
from .inputs import (
    Guards as _Guards,
    combined as _combined,
    leaf_names as _leaf_names,
    leaf_places as _leaf_places,
    shapes_by_name as _shapes_by_name,
)
from .registering import register_dataclass as register_dataclass
from .serialization import load as load, save as save
from .tracing import traced_program as _traced_program
from .unflatten import (
    FlatArgsAdapter as FlatArgsAdapter,
    InterpreterModule as InterpreterModule,
    InterpreterModuleDispatcher as InterpreterModuleDispatcher,
    UnflattenedModule as UnflattenedModule,
    unflatten as unflatten,
)

_late.adopt(__name__)

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram",
    "FlatArgsAdapter", "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions",
    "dims", "draft_export", "export", "load", "register_dataclass", "save", "unflatten",
]  # fmt: skip


def export(
    mod: _Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | ShapesCollection | AdditionalInputs | None = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The operations of a module's ``forward`` as a graph.

    ``forward`` runs once, on tensors without values. Python's control flow is gone in the graph; a branch that depends on a size which may
    be another one is refused, one that depends on a value has to be ``torch.cond``.

    Args:
        mod: the module. args, kwargs: example inputs; their sizes are fixed, but for those in ``dynamic_shapes``.
        dynamic_shapes: by argument, in the structure of the inputs: for a tensor a dict, a tuple or a list of ``Dim``s by dimension, or
            None. ``Dim.AUTO`` may turn out to be fixed, ``Dim.DYNAMIC`` may not. Or a ``ShapesCollection``, or ``AdditionalInputs``.
        strict: has no other meaning here: the program is always run, its code never analysed.
        preserve_module_call_signature: paths of modules whose arguments and results ``unflatten`` is to give their structure again.
        prefer_deferred_runtime_asserts_over_guards: not supported.
    Returns:
        The program. Operations are those that PyTorch's dispatcher is called with (``torch.ops.aten.linear.default``), and may write.
    Raises:
        ValueError: ``mod`` is no module.
        RuntimeError: ``args`` is no tuple; ``dynamic_shapes`` does not fit the inputs; or the program assumes more about a ``Dim`` than was
            declared. It is PyTorch's ``torch._dynamo.exc.UserError``.
        IndexError: ``dynamic_shapes`` has a dimension that a tensor has not.
        NotImplementedError: the options that are not supported.
    Source: torch.export.export.
    Example:
        >>> batch = torch.export.Dim("batch")
        >>> program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(4, 2),), dynamic_shapes=({0: batch},))
        >>> program.module()(torch.ones(7, 2)).shape
        torch.Size([7, 3])
        >>> program.range_constraints
        {s0: VR[0, int_oo]}
    """
    if not isinstance(mod, _Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise _UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    for path in preserve_module_call_signature:
        mod.get_submodule(path)  # the error, where there is none
    if prefer_deferred_runtime_asserts_over_guards:
        raise NotImplementedError("export: prefer_deferred_runtime_asserts_over_guards is not supported")
    named = dict(kwargs or {})
    further = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, named)
    names = _combined(mod, args, named)
    leaves, spec = _tree_flatten((args, named))
    dims_found = _dims_of_leaves(names, _shapes_by_name(mod, names, dynamic_shapes))
    traced = _traced_program(mod, spec, leaves, dims_found, _leaf_names(names), tuple(preserve_module_call_signature))
    env = traced.env
    state = {**dict(mod.named_parameters(remove_duplicate=False)), **mod.state_dict(keep_vars=True)}
    fleeting = {name: buffer for name, buffer in mod.named_buffers() if name in traced.signature.non_persistent_buffers}
    ranges = {_symbol(name): env.var_to_range[name] for name in env.var_to_range}
    bounds = {name: (env.var_to_range[name].lower, env.var_to_range[name].upper) for name in env.hints}
    signature = ModuleCallSignature([], [], spec, traced.out_spec, list(names))
    program = ExportedProgram(
        traced.root,
        traced.graph,
        traced.signature,
        state,
        ranges,
        traced.calls.entries(signature),
        (args, named),
        {**traced.constants, **fleeting},
        guards=_Guards.of(_leaf_places(names), traced.inputs, bounds),
    )
    if further is not None:
        further.verify(program)
    return program


def draft_export(
    mod: _Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """``export`` that takes sizes to be fixed, or equal, where the program needs it, and reports that.

    Args:
        mod, args, kwargs, dynamic_shapes, strict, preserve_module_call_signature: as of ``export``.
        prefer_deferred_runtime_asserts_over_guards: not supported.
    Returns:
        The program. Its ``_report`` has the ``failures``, is ``successful()`` without any, and is a text for people.
    Raises:
        NotImplementedError: the options that are not supported.
        Exception: as of ``export``, what is not about sizes of inputs, such as a branch that depends on a value.
    Source: torch.export.draft_export.
    Example:
        >>> class Halves(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x + 1 if x.shape[0] == 4 else x
        >>> program = torch.export.draft_export(Halves(), (torch.ones(4),), dynamic_shapes=({0: torch.export.Dim("n")},))
        >>> program._report.successful(), program.range_constraints
        (False, {})
    """
    from .drafts import drafted

    return drafted(
        export, mod, args, kwargs, dynamic_shapes, strict=strict, preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )  # fmt: skip
