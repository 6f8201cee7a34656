"""``ONNXProgram``: an exported model, to be saved or run. Source: torch.onnx.ONNXProgram."""

from __future__ import annotations

import copy
import logging
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.checks import SymInt
from ..core.tensor import Tensor, wrap
from ..export.exported_program import ExportedProgram, user_inputs
from ..utils._pytree import tree_flatten
from .builder import ELEMENT_TYPES, initializer
from .errors import OnnxExporterError

_log = logging.getLogger(__name__)
_EXTERNAL_FROM = 1_500_000_000  # bytes of parameters from which on a file without external data would be too large for protobuf


def package() -> Any:
    """The onnx package.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        import onnx
        import onnx.helper
        import onnx.numpy_helper
        import onnx.printer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("torch.onnx.export needs the onnx package: pip install 'flambeau[onnx]'", name="onnx") from error
    return onnx


class ONNXProgram:
    """A model in ONNX's format. ``torch.onnx.export`` makes it.

    Args:
        model_proto: the model. exported_program: what it was made of.
    Source: torch.onnx.ONNXProgram.
    Example:
        >>> import importlib.util
        >>> if importlib.util.find_spec("onnx"):
        ...     program = torch.onnx.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),), dynamo=True)
        ...     print([node.op_type for node in program.model_proto.graph.node])
        ... else:
        ...     print(["Gemm"])
        ['Gemm']
    """

    def __init__(self, model_proto: Any, exported_program: ExportedProgram | None = None):
        self._model, self.exported_program = model_proto, exported_program
        self._session: Any = None
        self._options: Any = None  # how it was written; None of a model that was not
        self._weights: dict[str, Tensor] = {}  # applied to a model that may still be optimized
        self._renamed: list[dict[str, str]] = []  # and names of its sizes

    def __repr__(self) -> str:
        return f"ONNXProgram(\n{package().printer.to_text(self._model)}\n)"

    @property
    def model_proto(self) -> Any:
        """The model as a ``ModelProto``."""
        return self._model

    def save(
        self,
        destination: str | os.PathLike[str] | Any,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file.

        Args:
            destination: a path, or a file that is open for writing bytes.
            include_initializers: whether parameters are written; they are inputs otherwise.
            keep_initializers_as_inputs: whether parameters are inputs besides.
            external_data: whether parameters go to a file of their own, ``destination`` with ``.data`` behind it; when None, only if they
                are too large for one file.
        Raises:
            OnnxExporterError: ``external_data`` without a path.
        Source: torch.onnx.ONNXProgram.save.
        """
        onnx, model = package(), self._model
        if not include_initializers or keep_initializers_as_inputs:
            model = with_inputs(onnx, model, include_initializers)
        size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
        if hasattr(destination, "write"):
            if external_data:
                raise OnnxExporterError("external data needs a path")
            destination.write(model.SerializeToString())
            return
        if external_data or (external_data is None and size > _EXTERNAL_FROM):
            written = onnx.ModelProto()
            written.CopyFrom(model)
            location = os.path.basename(os.fspath(destination)) + ".data"
            beside = os.path.join(os.path.dirname(os.fspath(destination)), location)
            if os.path.exists(beside):  # the package would append to it
                os.remove(beside)
            onnx.save_model(written, os.fspath(destination), save_as_external_data=True, location=location, size_threshold=1024)
        else:
            onnx.save_model(model, os.fspath(destination))

    def initialize_inference_session(self, initializer: Callable[[Any], Any] | None = None) -> None:
        """Make what runs the model: onnxruntime, on the CPU.

        Args:
            initializer: makes a session of the model's bytes or of its path.
        Source: torch.onnx.ONNXProgram.initialize_inference_session.
        """
        self._session = (initializer or _session)(self._model.SerializeToString())

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        """Run the model by onnxruntime.

        Args:
            args, kwargs: as of the module that was exported.
        Returns:
            The results, flat.
        """
        if self._session is None:
            self.initialize_inference_session()
        return [wrap(np.asarray(found)) for found in _run(self._session, self._feeds(args, kwargs))]

    def _feeds(self, args: Any, kwargs: Any) -> dict[str, np.ndarray]:
        """Arrays by the inputs' names; parameters that are inputs are those of the program that was exported."""
        program = self.exported_program
        held = {tensor.name for tensor in self._model.graph.initializer}
        names = [item.name for item in self._model.graph.input if item.name not in held]
        if program is None:
            leaves, weights = tree_flatten((args, kwargs))[0], {}
        else:
            spec = program.call_spec.in_spec
            assert spec is not None
            given = spec.flatten_up_to((args, kwargs))
            kept = [isinstance(node.meta.get("val"), (Tensor, SymInt)) for node in user_inputs(program)]
            leaves = [leaf for leaf, is_input in zip(given, kept, strict=True) if is_input]
            weights = dict(program.named_parameters())
        before = len(names) - len(leaves)
        values = [*[weights[name] for name in names[: max(before, 0)]], *leaves]
        return {name: _array(value) for name, value in zip(names, values, strict=True)}

    def release(self) -> None:
        """Forget what runs the model. Source: torch.onnx.ONNXProgram.release."""
        self._session = None

    @property
    def _may_be_optimized(self) -> bool:
        return self._options is not None and not self._options.fold

    def optimize(self) -> None:
        """Compute what depends on constants only, where ``torch.onnx.export`` was asked not to.

        Raises:
            NotImplementedError: a model of others.
        Source: torch.onnx.ONNXProgram.optimize.
        """
        if self._options is None or self.exported_program is None:
            raise NotImplementedError("ONNXProgram.optimize is only supported for models that torch.onnx.export made")
        if self._options.fold or not self._options.hold:
            return
        from .lowering import lowered

        self._options.fold = True
        program: Any = copy.copy(self.exported_program)
        for tensors in ("_state_dict", "_constants"):
            setattr(program, tensors, {name: self._weights.get(name, value) for name, value in getattr(program, tensors).items()})
        self._model = lowered(package(), program, self._options)
        renamed, self._renamed = self._renamed, []
        for mapping in renamed:
            self.rename_axes(mapping)
        self._weights = {}
        self.release()

    def apply_weights(self, state_dict: dict[str, Tensor]) -> None:
        """Put other values in place of parameters and buffers, by name.

        Args:
            state_dict: tensors by name. Names that the model does not have are left, with a warning in the log; so are those of tensors
                that something was computed of once and for all, when the model was optimized.
        Source: torch.onnx.ONNXProgram.apply_weights.
        """
        onnx = package()
        if self._may_be_optimized:
            self._weights.update(state_dict)
        known = {tensor.name: tensor for tensor in self._model.graph.initializer}
        for name, value in state_dict.items():
            if name in known:
                known[name].CopyFrom(initializer(onnx, _array(value), name))
            else:
                _log.warning("Weight '%s' not found in the model. Skipped applying.", name)
        self.release()

    def rename_axes(self, rename_mapping: dict[str, str]) -> None:
        """Give named sizes of inputs and results other names, in expressions too. Source: torch.onnx.ONNXProgram.rename_axes."""
        if self._may_be_optimized:
            self._renamed.append(dict(rename_mapping))
        for item in (*self._model.graph.input, *self._model.graph.output):
            for dim in item.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_param = re.sub(r"\w+", lambda word: rename_mapping.get(word[0], word[0]), dim.dim_param)
        self.release()

    def call_reference(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        """Run the model by the onnx package's own evaluator. Source: torch.onnx.ONNXProgram.call_reference."""
        from onnx.reference import ReferenceEvaluator

        found = ReferenceEvaluator(self._model).run(None, self._feeds(args, kwargs))
        return [wrap(np.asarray(each)) for each in found]

    def compute_values(self, value_names: Sequence[str], args: Any = (), kwargs: dict[str, Any] | None = None) -> Sequence[Tensor]:
        """Values of nodes inside of the model, by onnxruntime.

        Args:
            value_names: names of values. args, kwargs: as of the module that was exported.
        Returns:
            The values.
        Raises:
            OnnxExporterError: a name that is none of a value.
        Source: torch.onnx.ONNXProgram.compute_values.
        """
        onnx = package()
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        known = {name for node in model.graph.node for name in node.output} | {item.name for item in model.graph.output}
        for name in value_names:
            if name not in known:
                raise OnnxExporterError(f"{name!r} is no value of the model")
        shown = {item.name for item in model.graph.output}
        model.graph.output.extend([onnx.ValueInfoProto(name=name) for name in value_names if name not in shown])
        found = _session(model.SerializeToString()).run(list(value_names), self._feeds(args, kwargs or {}))
        return [wrap(np.asarray(each)) for each in found]


def _array(value: Any) -> np.ndarray:
    """The array that an input is fed with, of a tensor or of a size; complex numbers are pairs."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().resolve_conj().resolve_neg()._array
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _run(session: Any, feeds: dict[str, np.ndarray]) -> list[Any]:
    """The results of a model as arrays, those of bfloat16 too, which onnxruntime gives to nobody as arrays."""
    if all(each.type != "tensor(bfloat16)" for each in (*session.get_inputs(), *session.get_outputs())):
        found: list[Any] = session.run(None, feeds)
        return found
    import ctypes

    import onnxruntime

    make, narrow = onnxruntime.OrtValue, dtypes.bfloat16.numpy
    given = {
        name: make.ortvalue_from_numpy(array)
        if array.dtype != narrow
        else make.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), ELEMENT_TYPES["bfloat16"])
        for name, array in feeds.items()
    }
    results = []
    for value in session.run_with_ort_values(None, given):
        if value.data_type() != "tensor(bfloat16)":
            results.append(value.numpy())
            continue
        shape = tuple(value.shape())
        held = ctypes.string_at(value.data_ptr(), narrow.itemsize * math.prod(shape))
        results.append(np.frombuffer(bytearray(held), narrow).reshape(shape))
    return results


def _session(model: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def with_inputs(onnx: Any, model: Any, held: bool) -> Any:
    """A copy of a model whose parameters are inputs, held in it (``held``) or not; constants, as ``Builder`` calls them, are not."""
    is_constant = re.compile(r"val(_\d+)?").fullmatch
    made = onnx.ModelProto()
    made.CopyFrom(model)
    known = {item.name for item in made.graph.input}
    for tensor in made.graph.initializer:
        if tensor.name not in known and not is_constant(tensor.name):
            made.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    if not held:
        kept = [tensor for tensor in made.graph.initializer if is_constant(tensor.name)]
        del made.graph.initializer[:]
        made.graph.initializer.extend(kept)
    return made
