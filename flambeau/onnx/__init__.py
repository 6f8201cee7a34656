"""``torch.onnx``: models in ONNX's format.

export -> ONNXProgram    ``exporting`` makes a graph of operations by ``torch.export``, ``lowering`` writes it by the rows in ``tables``
"""

from __future__ import annotations

import enum as _enum
from collections.abc import Mapping, Sequence
from typing import Any

from ..core import late as _late
from ..facades import unsupported as _unsupported
from ..version import __version__ as producer_version
from . import errors as errors
from .errors import OnnxExporterError as OnnxExporterError

_late.adopt(__name__)

__all__ = [
    "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "errors", "export",
    "is_in_onnx_export", "ops", "producer_name", "producer_version", "register_custom_op_symbolic", "select_model_mode_for_export",
    "unregister_custom_op_symbolic",
]  # fmt: skip

producer_name = "flambeau"
globals().update(_unsupported.names("onnx", "", "ExportableModule InputObserver"))
_MODULES = ("ops", "symbolic_helper")
_LATE = {"ONNXProgram": "program", "is_in_onnx_export": "exporting"}


class TrainingMode(_enum.Enum):
    """The modes in which a module is exported. Source: torch.onnx.TrainingMode.

    Example:
        >>> torch.onnx.TrainingMode.EVAL.value
        0
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(_enum.Enum):
    """The ways with operations that ONNX has not; only ``ONNX``, an error, is supported. Source: torch.onnx.OperatorExportTypes.

    Example:
        >>> torch.onnx.OperatorExportTypes.ONNX.name
        'ONNX'
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LATE:
        return getattr(import_module(f"{__package__}.{_LATE[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__package__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def export(
    model: Any,
    args: tuple[Any, ...] | Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    custom_translation_table: dict[Any, Any] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool = False,
    autograd_inlining: bool = True,
) -> Any:
    """A module as an ONNX model.

    Args:
        model: a module, or what ``torch.export.export`` made of one.
        args: example inputs, a tuple or one tensor; without ``dynamo`` the last one may be a dict of ``kwargs``. kwargs: those by keyword.
            A program that is exported already needs none, other than for ``verify``.
        f: where the model is written: a path, or a file that is open for writing bytes; nowhere when None.
        verbose: print the graph.
        input_names, output_names: names in place of the arguments' own and of the operations'.
        opset_version: the operator set: 18 to 25, 20 when None; for an earlier one, 18 is used with a warning.
        dynamo: whether an ``ONNXProgram`` is returned, and nothing otherwise. The model is the same.
        external_data: whether parameters go to a file beside ``f``; only where ``dynamo``.
        dynamic_shapes: sizes that may be others, as of ``torch.export.export``; strings are names of such sizes.
        dynamic_axes: the same by names of inputs and outputs: ``{"x": {0: "batch"}}``, or a list of dimensions.
        export_params: whether parameters are in the model; they are inputs otherwise. keep_initializers_as_inputs: both.
        do_constant_folding, optimize: whether what depends on constants only is computed now; both say so.
        training: the mode in which the module is exported; it is put back afterwards.
        verify: run the model by onnxruntime and compare.
        dump_exported_program: save the program that is exported, too, in ``artifacts_dir``.
        report: write a text about what was exported to a file there.
        custom_translation_table: what writes operations, by overload: a function each, with operators of the package onnxscript.
        custom_opsets: versions of the domains of nodes that ``register_custom_op_symbolic``'s functions add; 1 for others.
        profile, operator_export_type, export_modules_as_functions, autograd_inlining: not supported,
            other than at their defaults.
    Returns:
        An ``ONNXProgram``; None without ``dynamo``.
    Raises:
        ModuleNotFoundError: the onnx package is not installed.
        OnnxExporterError: an operation cannot be written; ``UnsupportedOperatorError`` where it has no row.
        RuntimeError: ``dynamic_axes`` has a name that is none of an input or an output.
        NotImplementedError: options that are not supported; for a program that is exported already, what was decided then: sizes and mode.
    Source: torch.onnx.export.
    Example:
        >>> import importlib.util, io
        >>> if importlib.util.find_spec("onnx"):
        ...     import onnx
        ...     file = io.BytesIO()
        ...     torch.onnx.export(torch.nn.Linear(2, 3), torch.ones(1, 2), file, dynamo=False, opset_version=18)
        ...     onnx.checker.check_model(onnx.load_from_string(file.getvalue()), full_check=True)
    """
    _refuse(
        profile=profile,
        operator_export_type=None if operator_export_type is OperatorExportTypes.ONNX else operator_export_type,
        export_modules_as_functions=export_modules_as_functions, autograd_inlining=None if autograd_inlining else "False",
    )  # fmt: skip
    from . import exporting

    args, named = _arguments(args, kwargs, last_is_named=kwargs is None and not dynamo)
    if f is None and not dynamo:
        raise ValueError("export: f, where the model is written, must be given for dynamo=False")
    program = exporting.exported(
        model, args, named, opset_version=opset_version, input_names=input_names, output_names=output_names, training=training,
        dynamic_axes=dynamic_axes, dynamic_shapes=dynamic_shapes, export_params=export_params,
        do_constant_folding=do_constant_folding and optimize, domains=custom_opsets,
        translations=custom_translation_table,
    )  # fmt: skip
    if verbose:
        print(program)
    if verify:
        exporting.compare(program, args, named)
    if report:
        exporting.write_report(program, artifacts_dir, verify)
    if dump_exported_program:
        exporting.save_program(program, artifacts_dir)
    if f is not None:
        exporting.write(program, f, dynamo and external_data, keep_initializers_as_inputs)
    return program if dynamo else None


def _arguments(args: Any, kwargs: dict[str, Any] | None, last_is_named: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs by position and by keyword; a dict at the end of ``args`` has the latter where ``last_is_named``."""
    given = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if last_is_named and given and isinstance(given[-1], dict):
        return given[:-1], given[-1]
    return given, dict(kwargs or {})


_WHY = {
    "export_modules_as_functions": "PyTorch deprecates it and has it for dynamo=False alone; the model's nodes are those of all modules",
    "operator_export_type": "an operation that ONNX has not is an error; register_custom_op_symbolic says how one is written",
    "autograd_inlining": "functions with derivatives of their own are always written as what they compute",
}


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise NotImplementedError(f"torch.onnx.export: {name} is not supported: {_WHY.get(name, 'nothing is measured')}")


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Have a function write an operation in ONNX, one of a program's own or another.

    Args:
        symbolic_name: ``my_library::twice``. symbolic_fn: is called with the graph, which has ``op``, and the operation's arguments,
            numbers and lists among them as they are; it returns what ``op`` returned.
        opset_version: the first operator set for which it is used.
    Raises:
        OnnxExporterError: no such name. ValueError: one of ONNX's own.
    Source: torch.onnx.register_custom_op_symbolic.
    Example:
        >>> torch.onnx.register_custom_op_symbolic("aten::tanh", lambda g, x: g.op("my_domain::Bend", x, alpha_f=2.0), 18)
        >>> import importlib.util
        >>> if importlib.util.find_spec("onnx"):
        ...     node = torch.onnx.export(torch.nn.Tanh(), (torch.ones(2),)).model_proto.graph.node[0]
        ...     assert (node.op_type, node.domain) == ("Bend", "my_domain")
        >>> torch.onnx.unregister_custom_op_symbolic("aten::tanh", 18)
    """
    from .symbolics import REGISTERED, checked

    REGISTERED.setdefault(checked(symbolic_name), {})[opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget a function that ``register_custom_op_symbolic`` registered; nothing where there is none.

    Args:
        symbolic_name, opset_version: as when it was registered.
    Raises:
        OnnxExporterError: no such name.
    Source: torch.onnx.unregister_custom_op_symbolic.
    Example:
        >>> torch.onnx.unregister_custom_op_symbolic("my::op", 18)
    """
    from .symbolics import REGISTERED, checked

    REGISTERED.get(checked(symbolic_name), {}).pop(opset_version, None)


def select_model_mode_for_export(model: Any, mode: TrainingMode) -> Any:
    """Context in which a module is in the mode in which it is exported. Source: torch.onnx.select_model_mode_for_export.

    Args:
        model: the module. mode: of ``TrainingMode``.
    Returns:
        The context.
    Example:
        >>> net = torch.nn.Dropout()
        >>> with torch.onnx.select_model_mode_for_export(net, torch.onnx.TrainingMode.EVAL):
        ...     net.training
        False
    """
    from .exporting import in_mode

    return in_mode(model, mode)
