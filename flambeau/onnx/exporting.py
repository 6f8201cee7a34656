"""``torch.onnx.export``: a module by ``torch.export`` to a graph of operations, and that by the tables to ONNX."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..autograd import no_grad
from ..core.checks import SymInt
from ..core.symbolic import expression_of
from ..core.tensor import Tensor
from ..export import ExportedProgram, ShapesCollection, export as export_program, save
from ..export.dynamic_shapes import DimHint, dims_of_leaves
from ..export.exported_program import user_inputs
from ..export.inputs import combined, leaf_names, shapes_by_name
from ..fx.node import Node
from ..nn import Module
from ..utils._pytree import tree_flatten, tree_structure, tree_unflatten
from . import errors
from .lowering import Options, lowered
from .program import ONNXProgram, package

DEFAULT_OPSET = 20
FIRST_OPSET = 18


class _Exporting(threading.local):
    active = False


_state = _Exporting()


def is_in_onnx_export() -> bool:
    """Whether a model is being exported in this thread.

    Returns: True inside of ``torch.onnx.export``.
    Source: torch.onnx.is_in_onnx_export.
    Example:
        >>> torch.onnx.is_in_onnx_export()
        False
    """
    return _state.active


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Context in which ``is_in_onnx_export`` is true."""
    before, _state.active = _state.active, True
    try:
        yield
    finally:
        _state.active = before


def _mode_name(training: Any) -> str:
    return str(getattr(training, "name", training)).rpartition(".")[2]


@contextlib.contextmanager
def in_mode(model: Any, training: Any) -> Iterator[None]:
    """Context in which a module is switched to evaluation or to training, and back afterwards."""
    name = _mode_name(training)
    if not isinstance(model, Module) or name == "PRESERVE":
        yield
        return
    before = {module: module.training for module in model.modules()}
    try:
        model.train(name == "TRAINING")
        yield
    finally:
        for module, was in before.items():
            module.training = was


# ---- dynamic sizes
def _axes(given: Any) -> dict[int, str | None]:
    """Dimensions with their names, of an entry of ``dynamic_axes``."""
    if isinstance(given, Mapping):
        return {dim: str(name) for dim, name in given.items()}
    return dict.fromkeys(given)


@dataclasses.dataclass(frozen=True)
class _NamedHint(DimHint):
    """A hint about a dimension, with the dimension's name in the model."""

    name: str = ""


def _from_dynamic_axes(
    dynamic_axes: Mapping[str, Any], names: dict[str, Any], input_names: Sequence[str], output_names: Sequence[str]
) -> dict[str, Any]:
    """``dynamic_axes`` as ``dynamic_shapes``.

    Raises:
        RuntimeError: a name that is neither an input's nor an output's.
    """
    leaves = tree_flatten(dict(names))[0]
    given_names = iter(input_names)
    places = {name: place for place, name in enumerate(leaf_names(names))}
    for place, leaf in enumerate(leaves):
        places |= {name: place for name, value in names.items() if value is leaf}
        if isinstance(leaf, Tensor) and (name := next(given_names, None)) is not None:
            places[name] = place
    found: list[Any] = [None] * len(leaves)
    for key, given in dynamic_axes.items():
        if key in places:
            found[places[key]] = {
                dim: _NamedHint("AUTO", name=name or f"{key}_dynamic_axes_{dim + 1}") for dim, name in _axes(given).items()
            }
        elif key not in output_names:
            raise RuntimeError(f"torch.onnx.export: dynamic_axes names {key!r}, which is none of {[*places, *output_names]}")
    shapes: dict[str, Any] = {}
    for name, value in names.items():
        spec = tree_structure(value)
        part, found = found[: spec.num_leaves], found[spec.num_leaves :]
        shapes[name] = tree_unflatten(part, spec) if any(part) else None
    return shapes


def _with_hints(shapes: Any) -> Any:
    """Names of dimensions as hints: ``dynamic_shapes`` of ``torch.onnx.export`` may have strings."""
    if isinstance(shapes, str):
        return _NamedHint("DYNAMIC", name=shapes)
    if isinstance(shapes, Mapping):
        return {key: _with_hints(part) for key, part in shapes.items()}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)([_with_hints(part) for part in shapes])
    return shapes


def _dim_names(program: ExportedProgram, dims: list[dict[int, Any]]) -> dict[str, str]:
    """Names of the symbols, by the dimensions of the inputs that have them."""
    found: dict[str, str] = {}
    for node, each in zip(user_inputs(program), dims, strict=True):
        value = node.meta.get("val")
        for dim, hint in each.items():
            name = getattr(hint, "name", None) or getattr(hint, "__name__", None)
            size = value.shape[dim] if isinstance(value, Tensor) else value
            if name is not None and isinstance(size, SymInt):
                found.setdefault(str(expression_of(size)), name)
    return found


# ---- the program
def _program_of(model: Any, args: Any, kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        return model
    with exporting(), no_grad():
        return export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)


_VIEWS = frozenset(
    "view reshape transpose permute select slice t unsqueeze squeeze expand flatten narrow split chunk unbind diagonal alias detach "
    "unflatten movedim".split()
)


def writes_through_views(program: ExportedProgram) -> bool:
    """Whether a part of a tensor is written to, of which the whole is used later."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable or not isinstance(node.args[0], Node):
            continue
        target = node.args[0]
        around = [target, *target.users]
        if any(getattr(each.target, "_opname", "") in _VIEWS for each in around if each is not node):
            return True
    return False


def _lowered(onnx: Any, program: ExportedProgram, options: Options) -> tuple[Any, ExportedProgram]:
    """The model; operations without a row are divided into kernels, and writes through views removed, by ``run_decompositions``."""
    if writes_through_views(program):
        program = program.run_decompositions()
    try:
        return lowered(onnx, program, options), program
    except errors.UnsupportedOperatorError as error:
        try:
            divided = program.run_decompositions()
            return lowered(onnx, divided, options), divided
        except (errors.OnnxExporterError, NotImplementedError) as reason:
            raise error from reason


def _opset(asked: int | None) -> int:
    if asked is None:
        return DEFAULT_OPSET
    if asked < FIRST_OPSET:
        warnings.warn(
            f"Setting ONNX exporter to use operator set version {FIRST_OPSET} because the requested opset_version {asked} is a lower "
            "version than we have implementations for.",
            errors.OnnxExporterWarning,
            stacklevel=4,
        )
        return FIRST_OPSET
    return asked


def exported(
    model: Any,
    args: Any,
    kwargs: dict[str, Any],
    *,
    opset_version: int | None,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    export_params: bool,
    do_constant_folding: bool,
    training: Any,
    domains: Mapping[str, int] | None = None,
    translations: Mapping[Any, Any] | None = None,
) -> ONNXProgram:
    """The model of a module; see ``torch.onnx.export``."""
    onnx = package()
    dims: list[dict[int, Any]] = []
    output_dims: dict[int, dict[int, str]] = {}
    if isinstance(model, ExportedProgram):
        _refuse_for_programs(dynamic_shapes, dynamic_axes, training)
    elif isinstance(model, Module):
        names = combined(model, args, kwargs)
        if isinstance(dynamic_shapes, ShapesCollection):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(model, args, kwargs)
        if dynamic_shapes is None and dynamic_axes:
            dynamic_shapes = _from_dynamic_axes(dynamic_axes, names, list(input_names or ()), list(output_names or ()))
            for k, name in enumerate(output_names or ()):
                axes = _axes(dynamic_axes.get(name, ()))
                output_dims[k] = {dim: word or f"{name}_dynamic_axes_{dim + 1}" for dim, word in axes.items()}
        dynamic_shapes = shapes_by_name(model, names, _with_hints(dynamic_shapes))
        dims = dims_of_leaves(names, dynamic_shapes)
    with in_mode(model, training):
        program = _program_of(model, args, kwargs, dynamic_shapes)
    options = Options(
        _opset(opset_version),
        fold=do_constant_folding and export_params,
        hold=export_params,
        input_names=input_names,
        output_names=output_names,
        dim_names=_dim_names(program, dims) if dims else {},
        output_dims=output_dims,
        domains=domains,
        translations=translations,
    )
    made, program = _lowered(onnx, program, options)
    found = ONNXProgram(made, program)
    found._options = options
    return found


def _refuse_for_programs(dynamic_shapes: Any, dynamic_axes: Any, training: Any) -> None:
    """Raise for options about what was decided when the program was exported."""
    asked = (("dynamic_shapes", dynamic_shapes), ("dynamic_axes", dynamic_axes), ("training", _mode_name(training) == "TRAINING"))
    for name, given in asked:
        if given:
            raise NotImplementedError(f"torch.onnx.export: {name} is not supported for a program that is exported already")


def compare(program: ONNXProgram, args: Any, kwargs: dict[str, Any]) -> None:
    """Run a model by onnxruntime, and compare with the program that it was made of.

    Raises:
        OnnxExporterError: the results are not close.
    """
    from ..testing import assert_close

    assert program.exported_program is not None
    with no_grad():
        wanted = [leaf for leaf in tree_flatten(program.exported_program.module()(*args, **kwargs))[0] if isinstance(leaf, Tensor)]
    found = program(*args, **kwargs)
    for a, b in zip(found, wanted, strict=True):
        try:
            assert_close(a, b, rtol=1e-4, atol=1e-5, check_stride=False)
        except AssertionError as error:
            raise errors.OnnxExporterError(f"onnxruntime gives other results: {error}") from error


def save_program(program: ONNXProgram, folder: Any) -> None:
    """Save what a model was made of, as ``exported_program.pt2`` in a folder."""
    if program.exported_program is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        save(program.exported_program, Path(folder) / "exported_program.pt2")


def write_report(program: ONNXProgram, folder: Any, is_compared: bool) -> Path:
    """Write what was exported to a file in a folder; its path."""
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    counts = collections.Counter([node.op_type for node in program.model_proto.graph.node])
    lines = [
        "# Report of an export to ONNX",
        f"Compared with onnxruntime: {'yes' if is_compared else 'no'}",
        "## Nodes",
        *[f"- {name}: {count}" for name, count in sorted(counts.items())],
        "## Exported program",
        f"```python\n{program.exported_program}\n```",
        "## Model",
        f"```\n{package().printer.to_text(program.model_proto)}\n```",
    ]
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"onnx_export_{stamp}_success.md"
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return path


def write(program: ONNXProgram, f: Any, external_data: bool | None, keep_initializers_as_inputs: bool) -> None:
    """Write a model to a path or a file."""
    external = None if hasattr(f, "write") else external_data
    program.save(f, keep_initializers_as_inputs=keep_initializers_as_inputs, external_data=external)
