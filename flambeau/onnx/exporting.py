"""``torch.onnx.export``: a module by ``torch.export`` to a graph of operations, and that by the tables to ONNX."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from ..export import Dim, ExportedProgram, export as export_program, save
from ..export.dynamic_shapes import DimHint
from ..export.exported_program import user_inputs
from ..export.inputs import combined
from ..fx.node import Node
from ..nn import Module
from ..utils._pytree import tree_flatten
from . import errors
from .lowering import Options, lowered
from .program import ONNXProgram, package, with_inputs

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


@contextlib.contextmanager
def in_mode(model: Any, training: Any) -> Iterator[None]:
    """Context in which a module is switched to evaluation or to training, and back afterwards."""
    name = getattr(training, "name", str(training)).rpartition(".")[2]
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


def _from_dynamic_axes(dynamic_axes: Mapping[str, Any], names: dict[str, Any], input_names: Sequence[str]) -> tuple[Any, dict[Any, str]]:
    """``dynamic_axes`` as ``dynamic_shapes``, and names of dimensions by (number of the input, dimension)."""
    leaves = [leaf for leaf in tree_flatten(dict(names))[0] if isinstance(leaf, Tensor)]
    places = list(names)
    found: list[Any] = [None] * len(leaves)
    dims: dict[Any, str] = {}
    for key, given in dynamic_axes.items():
        place = input_names.index(key) if key in input_names else places.index(key) if key in places else None
        if place is None or place >= len(leaves):
            continue  # an output's
        found[place] = {}
        for dim, name in _axes(given).items():
            dim = dim % leaves[place].dim()
            found[place][dim] = Dim.AUTO
            dims[place, dim] = name or f"{key}_dynamic_axes_{dim + 1}"
    shapes, rest = [], iter(found)
    for value in names.values():
        shapes.append(_shaped(value, rest))
    return tuple(shapes), dims


def _shaped(value: Any, rest: Iterator[Any]) -> Any:
    """Dims of the tensors of an argument, in its structure."""
    if isinstance(value, Tensor):
        return next(rest)
    if isinstance(value, Mapping):
        return {key: _shaped(part, rest) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_shaped(part, rest) for part in value]
    return None


def _with_hints(shapes: Any) -> Any:
    """Names of dimensions as dims: ``dynamic_shapes`` of ``torch.onnx.export`` may have strings."""
    if isinstance(shapes, str):
        return Dim.DYNAMIC
    if isinstance(shapes, Mapping):
        return {key: _with_hints(part) for key, part in shapes.items()}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)([_with_hints(part) for part in shapes])
    return shapes


def _names_of_hints(shapes: Any) -> list[dict[int, str]]:
    """Of every tensor, the names of its dimensions that are strings or ``Dim``s, in order."""
    found: list[dict[int, str]] = []

    def visit(part: Any) -> None:
        if isinstance(part, Mapping) and part and all(isinstance(key, int) for key in part):
            found.append(
                {dim: name if isinstance(name, str) else name.__name__ for dim, name in part.items() if isinstance(name, (str, Dim))}
            )
        elif isinstance(part, Mapping):
            for child in part.values():
                visit(child)
        elif isinstance(part, (tuple, list)) and part and all(each is None or isinstance(each, (str, int, Dim, DimHint)) for each in part):
            found.append(
                {d: each if isinstance(each, str) else each.__name__ for d, each in enumerate(part) if isinstance(each, (str, Dim))}
            )
        elif isinstance(part, (tuple, list)):
            for child in part:
                visit(child)
        else:
            found.append({})

    visit(list(shapes.values()) if isinstance(shapes, Mapping) else list(shapes))
    return found


def _dim_names(program: ExportedProgram, dims: dict[Any, str]) -> dict[str, str]:
    """Names of the symbols, by the dimensions of the inputs that have them."""
    found: dict[str, str] = {}
    tensors = [node for node in user_inputs(program) if isinstance(node.meta.get("val"), Tensor)]
    for (place, dim), name in dims.items():
        size = tensors[place].meta["val"].shape[dim]
        if hasattr(size, "expr"):
            found.setdefault(str(size.expr), name)
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
        except (errors.OnnxExporterError, NotImplementedError):
            raise error from None


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
) -> ONNXProgram:
    """The model of a module; see ``torch.onnx.export``."""
    onnx = package()
    dims: dict[Any, str] = {}
    output_dims: dict[int, dict[int, str]] = {}
    if isinstance(model, Module):
        names = combined(model, args, kwargs)
        if dynamic_shapes is not None:
            dims = {(k, d): name for k, each in enumerate(_names_of_hints(dynamic_shapes)) for d, name in each.items()}
            dynamic_shapes = _with_hints(dynamic_shapes)
        elif dynamic_axes:
            dynamic_shapes, dims = _from_dynamic_axes(dynamic_axes, names, list(input_names or ()))
            for k, name in enumerate(output_names or ()):
                axes = _axes(dynamic_axes.get(name, ()))
                output_dims[k] = {dim: word or f"{name}_dynamic_axes_{dim + 1}" for dim, word in axes.items()}
    with in_mode(model, training):
        program = _program_of(model, args, kwargs, dynamic_shapes)
    options = Options(
        _opset(opset_version),
        fold=do_constant_folding and export_params,
        hold=export_params,
        input_names=input_names,
        output_names=output_names,
        dim_names=_dim_names(program, dims),
        output_dims=output_dims,
    )
    made, program = _lowered(onnx, program, options)
    return ONNXProgram(made, program)


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
        save(program.exported_program, Path(folder) / "exported_program.pt2")


def write(program: ONNXProgram, f: Any, external_data: bool | None, keep_initializers_as_inputs: bool) -> None:
    """Write a model to a path or a file."""
    if keep_initializers_as_inputs:
        program = ONNXProgram(with_inputs(package(), program.model_proto, True))
    program.save(f, external_data=None if hasattr(f, "write") else external_data)
