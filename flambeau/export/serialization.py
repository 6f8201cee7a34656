"""Exported programs in PyTorch's files: ``torch.export.save`` and ``load``.

A ``.pt2`` file is a zip archive, all of it under one directory:

    archive_format, archive_version              "pt2", "0"
    models/model.json                            the graph, node by node; the signature; bounds of the symbols (``schema_writing``)
    data/weights/model_weights_config.json       parameters and buffers by name: which file, shape, strides; ``weight_0`` has the bytes
    data/constants/model_constants_config.json   other tensors, in ``tensor_0``, ...
    data/sample_inputs/model.pt                  example inputs, as ``torch.save`` writes them
    extra/NAME                                   what the program added

Nothing in it is executed when it is read (``schema_reading``), and what is pickled in it is loaded with ``weights_only``.
"""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from ..core.tensor import Parameter, Tensor, wrap
from ..serialization import load as load_tensors, save as save_tensors
from ..utils._pytree import tree_unflatten
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import InputKind, OutputKind
from .inputs import Guards, leaf_places
from .names import identifier, path
from .pt2_archive import PT2ArchiveReader, PT2ArchiveWriter, constants
from .schema_reading import DTYPES, Reader, call_arguments, plain, signature, structure
from .schema_writing import SCHEMA, Writer, call_signature, ranges, tensor_meta

_TORCH_VERSION = "2.13.0"  # whose files these are
_ERRORS = (KeyError, TypeError, IndexError, ValueError, AttributeError, AssertionError, ArithmeticError, RecursionError, StopIteration)


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a file, which PyTorch's ``torch.export.load`` reads, too.

    Args:
        ep: the program. f: a path, or a file that is open for writing bytes.
        extra_files: further contents by name, text or bytes.
        opset_version: must be None. pickle_protocol: of the example inputs.
    Raises:
        TypeError: ``ep`` is no program.
        NotImplementedError: an ``opset_version``; a constant in the graph, or a tensor, that such files have not.
    Source: torch.export.save.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file)
        >>> _ = file.seek(0)
        >>> torch.export.load(file).module()(torch.tensor([1.0, -1.0]))
        tensor([1., 0.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    if opset_version is not None:
        raise NotImplementedError("torch.export.save: opset_version is not supported")
    with PT2ArchiveWriter(f) as writer:
        write_program(writer, "model", ep, {}, pickle_protocol)
        for name, content in (extra_files or {}).items():
            writer.write_bytes(f"{constants.EXTRA_DIR}{name}", content.encode() if isinstance(content, str) else content)


def write_program(writer: PT2ArchiveWriter, model: str, ep: ExportedProgram, files: dict[Any, str], pickle_protocol: int) -> None:
    """Write a program into an archive.

    Args:
        writer: the archive. model: the program's name in it. ep: the program. files: those of tensors that are there, which grow.
        pickle_protocol: of the example inputs.
    """
    described = json.dumps(_described(ep), allow_nan=False)
    examples = io.BytesIO()
    if ep.example_inputs is not None:
        save_tensors(ep.example_inputs, examples, pickle_protocol=pickle_protocol)
    writer.write_string(constants.MODELS_FILENAME_FORMAT.format(model), described)
    weights, others = constants.WEIGHTS_CONFIG_FILENAME_FORMAT.format(model), constants.CONSTANTS_CONFIG_FILENAME_FORMAT.format(model)
    _write_tensors(writer, weights, constants.WEIGHTS_DIR, constants.WEIGHT_FILENAME_PREFIX, ep.state_dict, files)
    _write_tensors(writer, others, constants.CONSTANTS_DIR, constants.TENSOR_CONSTANT_FILENAME_PREFIX, ep.constants, files)
    writer.write_bytes(constants.SAMPLE_INPUTS_FILENAME_FORMAT.format(model), examples.getvalue())


def _described(ep: ExportedProgram) -> dict[str, Any]:
    writer = Writer()
    calls = [{"fqn": entry.fqn, "signature": call_signature(entry.signature, not entry.fqn)} for entry in ep.module_call_graph]
    return {
        "graph_module": {
            "graph": writer.graph(ep.graph_module),
            "signature": writer.signature(ep.graph_signature),
            "module_call_graph": calls,
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": ranges(ep),
        "schema_version": SCHEMA,
        "verifiers": ["TRAINING"],
        "torch_version": _TORCH_VERSION,
        "guards_code": [],
    }


def _write_tensors(writer: PT2ArchiveWriter, config: str, folder: str, prefix: str, tensors: Any, files: dict[Any, str]) -> None:
    """The bytes of tensors, once for those that share memory, and a list of them."""
    described = {}
    for name, tensor in tensors.items():
        held = tensor.detach().cpu()
        # A copy of a device's tensor lasts no longer than this step, and the next one may lie where it lay.
        memory = held.untyped_storage().data_ptr() if held.numel() and tensor.device.type == "cpu" else (config, name)
        key = prefix, memory, held.dtype
        if key not in files:
            files[key] = f"{prefix}{sum([each.startswith(prefix) for each in files.values()])}"
            writer.write_bytes(f"{folder}{files[key]}", _bytes_of(held))
        meta = {**tensor_meta(held), "requires_grad": bool(tensor.requires_grad)}
        described[name] = {"path_name": files[key], "is_param": isinstance(tensor, Parameter), "use_pickle": False, "tensor_meta": meta}
    writer.write_string(config, json.dumps({"config": described}))


def _bytes_of(tensor: Tensor) -> bytes:
    """All of the memory that a tensor is part of."""
    if not tensor.numel():
        return b""
    count = tensor.untyped_storage().nbytes() // tensor.dtype.itemsize
    whole: np.ndarray = tensor.as_strided((count,), (1,), 0)._array
    return whole.tobytes()


# ---- reading
def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read an exported program from a file that ``save`` wrote, here or in PyTorch.

    Args:
        f: a path, or a file that is open for reading bytes, and can seek.
        extra_files: a dict whose keys say what is read of the further contents, into its values, as text.
        expected_opset_version: must be None.
    Returns:
        The program. It has no ``example_inputs`` where these are other than tensors, numbers, texts and plain containers of them.
    Raises:
        RuntimeError: no such file, a damaged one, or one of a program that cannot be run here.
        NotImplementedError: an ``expected_opset_version``.
    Source: torch.export.load.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.export.save(torch.export.export(torch.nn.Tanh(), (torch.ones(2),)), file, extra_files={"note": "small"})
        >>> extra = {"note": ""}
        >>> program = torch.export.load(file, extra_files=extra)
        >>> program.module()(torch.zeros(2)), extra
        (tensor([0., 0.]), {'note': 'small'})
    """
    if expected_opset_version is not None:
        raise NotImplementedError("torch.export.load: expected_opset_version is not supported")
    with PT2ArchiveReader(f) as reader:
        program = read_program(reader, "model")
        for name in extra_files or {}:
            extra_files[name] = reader.read_string(f"{constants.EXTRA_DIR}{name}")  # type: ignore[index]
    return program


def read_program(reader: PT2ArchiveReader, model: str) -> ExportedProgram:
    """The program of a name in an archive.

    Raises:
        RuntimeError: there is none, it is damaged, or it cannot be run here.
    """
    weights, others = constants.WEIGHTS_CONFIG_FILENAME_FORMAT.format(model), constants.CONSTANTS_CONFIG_FILENAME_FORMAT.format(model)
    try:
        described = json.loads(reader.read_bytes(constants.MODELS_FILENAME_FORMAT.format(model)))
        state = _read_tensors(reader, weights, constants.WEIGHTS_DIR)
        others_found = _read_tensors(reader, others, constants.CONSTANTS_DIR)
        examples = _examples(reader, constants.SAMPLE_INPUTS_FILENAME_FORMAT.format(model))
    except (EOFError, UnicodeDecodeError, NotImplementedError, *_ERRORS) as error:
        raise RuntimeError(f"the file is damaged, or none of torch.export.save's: {error}") from error
    try:
        return _program(described, state, others_found, examples)
    except (*_ERRORS, NotImplementedError) as error:
        raise RuntimeError(f"the program in the file is damaged, or cannot be run here: {error}") from error


def _read_tensors(files: PT2ArchiveReader, config: str, folder: str) -> dict[str, Any]:
    """Tensors by name; those of one file share its memory."""
    found: dict[str, Any] = {}
    arrays: dict[Any, Any] = {}
    for name, described in json.loads(files.read_bytes(config))["config"].items():
        file, meta = described["path_name"], described["tensor_meta"]
        if described["use_pickle"] or not file.startswith(("weight_", "tensor_")):
            raise ValueError(f"{name!r} is pickled, or no tensor")
        dtype = DTYPES[meta["dtype"]]
        if (file, dtype) not in arrays:
            content = files.read_bytes(f"{folder}{path(file)}")
            arrays[file, dtype] = wrap(np.frombuffer(bytearray(content), dtype.numpy))
        tensor = _shown(arrays[file, dtype], meta)
        if described["is_param"]:
            tensor = Parameter(tensor, requires_grad=bool(meta["requires_grad"]))
        found[path(name)] = tensor
    return found


def _shown(flat: Any, meta: Any) -> Any:
    """The part of a file's memory that a tensor is."""
    sizes, strides = ([plain(each) for each in meta[key]] for key in ("sizes", "strides"))
    offset = plain(meta["storage_offset"])
    if len(sizes) != len(strides) or min([*sizes, *strides, offset, 0]) < 0:
        raise ValueError("a tensor with sizes or strides that cannot be")
    if 0 in sizes:
        return wrap(np.empty(sizes, DTYPES[meta["dtype"]].numpy))
    last = offset + sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])
    if last >= flat.numel():
        raise ValueError("a tensor that is larger than its file")
    return flat.as_strided(sizes, strides, offset)


def _examples(files: PT2ArchiveReader, name: str) -> Any:
    """Example inputs; None where there are none, or such as must not be unpickled."""
    if name not in files:
        return None
    content = files.read_bytes(name)
    try:
        return load_tensors(io.BytesIO(content), weights_only=True) if content else None
    except (pickle.UnpicklingError, NotImplementedError, RuntimeError, EOFError, *_ERRORS):
        return None


def _program(described: dict[str, Any], state: dict[str, Any], constants: dict[str, Any], examples: Any) -> ExportedProgram:
    if described["schema_version"]["major"] != SCHEMA["major"]:
        raise ValueError(f"a file of schema {described['schema_version']['major']}; this package reads {SCHEMA['major']}")
    module = described["graph_module"]
    reader = Reader(described["range_constraints"], module["graph"])
    meaning = signature(module["signature"])
    root, graph = reader.graph(module["graph"], meaning.input_specs)
    calls = [ModuleCallEntry(str(each["fqn"]), _call(each["signature"], not each["fqn"])) for each in module["module_call_graph"]]
    outer = calls[0].signature
    if outer is None or calls[0].fqn:
        raise ValueError("a program without the structure of its arguments")
    program = ExportedProgram(root, graph, meaning, state, reader.ranges, calls, examples, constants, guards=None)
    program._guards = _guards(program, outer, reader)
    program.validate()
    _check_targets(program)
    return program


def _check_targets(program: ExportedProgram) -> None:
    """KeyError where the signature names tensors or inputs that are not there."""
    specs = program.graph_signature.input_specs
    for spec in specs:
        if spec.kind is not InputKind.USER_INPUT:
            program.value_of(spec)
    known = {spec.arg.name if spec.kind is InputKind.USER_INPUT else spec.target for spec in specs}
    for each in program.graph_signature.output_specs:
        if each.kind is not OutputKind.USER_OUTPUT and each.target not in known:
            raise KeyError(each.target)


def _call(described: Any, is_outermost: bool) -> Any:
    """The signature of a module's call."""
    if described is None:
        return None
    in_spec, out_spec = structure(described["in_spec"]), structure(described["out_spec"])
    positional, keywords = in_spec.children_specs
    for name in keywords.context or ():
        identifier(name)
    names = described.get("forward_arg_names")
    inputs, outputs = ([] if is_outermost else call_arguments(described[word]) for word in ("inputs", "outputs"))
    if not is_outermost and not names:
        return ModuleCallSignature(inputs, outputs, in_spec, out_spec)
    if not names:
        names = [*[f"arg_{k}" for k in range(len(positional.children_specs))], *(keywords.context or ())]
    return ModuleCallSignature(inputs, outputs, in_spec, out_spec, [identifier(name) for name in names])


def _guards(program: ExportedProgram, call: Any, reader: Reader) -> Guards:
    """Conditions on the inputs, as their notes in the graph and the bounds of the symbols say."""
    from .exported_program import user_inputs

    leaves = [node.meta["val"] for node in user_inputs(program)]
    args, kwargs = tree_unflatten([_Leaf(leaf) for leaf in leaves], call.in_spec)
    names = {**dict(zip(_padded(call.forward_arg_names, len(args)), args, strict=False)), **kwargs}
    bounds = {name: (values.lower, values.upper) for name, values in reader.env.var_to_range.items() if name not in reader.env.unbacked}
    return Guards.of(leaf_places(names), leaves, bounds)


class _Leaf:
    """An argument, in a structure of them."""

    def __init__(self, value: Any):
        self.value = value


def _padded(names: Iterable[str], count: int) -> list[str]:
    """A name for each of ``count`` arguments."""
    found = list(names)
    return [*found, *[f"arg_{k}" for k in range(len(found), count)]][:count]
