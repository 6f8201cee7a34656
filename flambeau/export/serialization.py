"""Exported programs in files: ``torch.export.save`` and ``load``.

A file is a zip archive, all of it under one directory:

    archive_format      "flambeau.export"
    version             1
    program.json        the graph, node by node; the signature; bounds of the symbols; what the inputs must be
    tensors.pt          parameters, buffers, constants and example inputs, as ``torch.save`` writes them
    extra_files/NAME    what the program added

Nothing in it is executed when it is read: operations are looked up by name among PyTorch's kernels and a list of operators, tensors are
loaded with ``weights_only``. PyTorch's own ``.pt2`` files have another layout, and are refused.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import IO, Any

from ..serialization import load as load_tensors, save as save_tensors
from ..utils._pytree import tree_flatten, tree_unflatten, treespec_dumps, treespec_loads
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .inputs import Guards
from .json_graph import Reader, Writer, identifier, number_from, number_of, signature_from, signature_of

FORMAT, VERSION = "flambeau.export", 1


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a file.

    Args:
        ep: the program. f: a path, or a file that is open for writing bytes.
        extra_files: further contents by name, text or bytes.
        opset_version: must be None. pickle_protocol: of the tensors' file.
    Raises:
        TypeError: ``ep`` is no program.
        NotImplementedError: an ``opset_version``; a constant in the graph that a file cannot hold.
    Source: torch.export.save. The layout is this package's own: see ``export/serialization.py``.
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
    tensors = io.BytesIO()
    examples = None if ep.example_inputs is None else tree_flatten(ep.example_inputs)[0]
    kept = {"state_dict": dict(ep.state_dict), "constants": dict(ep.constants), "examples": examples}
    save_tensors(kept, tensors, pickle_protocol=pickle_protocol)
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("program/archive_format", FORMAT)
        archive.writestr("program/version", str(VERSION))
        archive.writestr("program/program.json", json.dumps(_described(ep)))
        archive.writestr("program/tensors.pt", tensors.getvalue())
        for name, content in (extra_files or {}).items():
            archive.writestr(f"program/extra_files/{name}", content)


def _described(ep: ExportedProgram) -> dict[str, Any]:
    signature = ep.module_call_graph[0].signature
    assert signature is not None
    guards = ep._guards
    writer = Writer()
    return {
        "graph": writer.graph(ep.graph_module),
        "symbols": writer.symbols(ep),
        "signature": signature_of(ep.graph_signature),
        "in_spec": treespec_dumps(signature.in_spec),
        "out_spec": treespec_dumps(signature.out_spec),
        "argument_names": signature.forward_arg_names,
        "guards": None
        if guards is None
        else {
            "places": guards.places,
            "expected": [
                [number_of(n) for n in each] if isinstance(each, list) else {"value": writer.value(each)} for each in guards.expected
            ],
            "ranges": {name: list(bounds) for name, bounds in guards.ranges.items()},
        },
    }


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read an exported program from a file that ``save`` wrote.

    Args:
        f: a path, or a file that is open for reading bytes, and can seek.
        extra_files: a dict whose keys say what is read of the further contents, into its values, as text.
        expected_opset_version: must be None.
    Returns:
        The program.
    Raises:
        RuntimeError: no such file, one of PyTorch's own, or a damaged one.
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
    try:
        with zipfile.ZipFile(f) as archive:
            names = set(archive.namelist())
            if "program/archive_format" not in names or archive.read("program/archive_format").decode() != FORMAT:
                raise RuntimeError("no file of torch.export.save's: PyTorch's own .pt2 files cannot be read here, nor can others")
            version = archive.read("program/version").decode()
            if version != str(VERSION):
                raise RuntimeError(f"a file of version {version}; this package reads version {VERSION}")
            described = json.loads(archive.read("program/program.json"))
            tensors = load_tensors(io.BytesIO(archive.read("program/tensors.pt")), weights_only=True)
            for name in extra_files or {}:
                extra_files[name] = archive.read(f"program/extra_files/{name}").decode()  # type: ignore[index]
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RuntimeError(f"the file is damaged, or none of torch.export.save's: {error}") from error
    try:
        return _program(described, tensors)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise RuntimeError(f"the program in the file is damaged: {error}") from error


def _program(described: dict[str, Any], tensors: dict[str, Any]) -> ExportedProgram:
    reader = Reader(described["symbols"])
    root, graph = reader.graph(described["graph"])
    in_spec, out_spec = treespec_loads(described["in_spec"]), treespec_loads(described["out_spec"])
    names = [identifier(name) for name in described["argument_names"]]
    for name in in_spec.children_specs[1].context or ():
        identifier(name)
    examples = tensors["examples"]
    guards = described["guards"]
    made = None
    if guards is not None:
        expected = [
            reader.value(each["value"]) if isinstance(each, dict) else [number_from(n) for n in each] for each in guards["expected"]
        ]
        made = Guards(guards["places"], expected, {name: (low, high) for name, (low, high) in guards["ranges"].items()})
    program = ExportedProgram(
        root,
        graph,
        signature_from(described["signature"]),
        tensors["state_dict"],
        reader.ranges,
        [ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec, names))],
        None if examples is None else tree_unflatten(examples, in_spec),
        tensors["constants"],
        guards=made,
    )
    program.validate()
    return program
