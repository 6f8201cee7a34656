"""Several programs in one ``.pt2`` archive. Source: torch.export.pt2_archive._package."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import IO, Any

from ..exported_program import ExportedProgram
from ..serialization import read_program, write_program
from . import PT2ArchiveReader as PT2ArchiveReader, PT2ArchiveWriter as PT2ArchiveWriter, constants, is_pt2_package as is_pt2_package

__all__ = ["PT2ArchiveContents", "PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package", "load_pt2", "package_pt2"]


@dataclasses.dataclass
class PT2ArchiveContents:
    """The contents of an archive. Source: torch.export.pt2_archive._package.PT2ArchiveContents.

    Args:
        exported_programs: programs by name. aoti_runners: compiled ones, of which there are none here. extra_files: texts by name.
    Example:
        >>> from flambeau.export.pt2_archive._package import PT2ArchiveContents
        >>> PT2ArchiveContents({}, {}, {"note": "here"}).extra_files
        {'note': 'here'}
    """

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, Any]
    extra_files: dict[str, Any]


def package_pt2(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    exported_programs: ExportedProgram | dict[str, ExportedProgram] | None = None,
    aoti_files: Any = None,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
    executorch_files: dict[str, bytes] | None = None,
) -> Any:
    """Write programs to one archive.

    Args:
        f: a path, or a file that is open for writing bytes.
        exported_programs: programs by name; one alone is called "model". extra_files: texts by name. pickle_protocol: of example inputs.
        aoti_files, opset_version, executorch_files: not supported.
    Returns:
        ``f``.
    Raises:
        AssertionError: nothing to write, or programs without names.
        NotImplementedError: the arguments that are not supported.
    Source: torch.export.pt2_archive._package.package_pt2.
    Example:
        >>> import io
        >>> from flambeau.export.pt2_archive._package import load_pt2, package_pt2
        >>> programs = {name: torch.export.export(torch.nn.ReLU(), (torch.ones(2),)) for name in "ab"}
        >>> list(load_pt2(package_pt2(io.BytesIO(), exported_programs=programs)).exported_programs)
        ['a', 'b']
    """
    if not (exported_programs or aoti_files or extra_files):
        raise AssertionError("No value passed in for `exported_programs`, `aoti_files`, and `extra_files`: there is nothing to save.")
    for name, given in (("aoti_files", aoti_files), ("opset_version", opset_version), ("executorch_files", executorch_files)):
        if given:
            raise NotImplementedError(f"package_pt2: {name} is not supported")
    programs = {"model": exported_programs} if isinstance(exported_programs, ExportedProgram) else exported_programs or {}
    if not isinstance(programs, dict):
        raise AssertionError(f"Expected exported_programs to be a dict, but got {type(exported_programs)}")
    files: dict[Any, str] = {}
    with PT2ArchiveWriter(f) as writer:
        for name, program in programs.items():
            write_program(writer, name, program, files, pickle_protocol)
        for name, content in (extra_files or {}).items():
            writer.write_string(f"{constants.EXTRA_DIR}{name}", content)
    return f


def load_pt2(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    expected_opset_version: dict[str, int] | None = None,
    run_single_threaded: bool = False,
    num_runners: int = 1,
    device_index: int = -1,
    load_weights_from_disk: bool = False,
) -> PT2ArchiveContents:
    """Read all programs of an archive.

    Args:
        f: a path, or a file that is open for reading bytes, and can seek.
        run_single_threaded, num_runners, device_index: for compiled programs, of which there are none here.
        load_weights_from_disk: has no effect: weights are always read.
        expected_opset_version: must be None.
    Returns:
        Programs and texts by name.
    Raises:
        RuntimeError: as of ``torch.export.load``; or an archive with compiled programs.
        NotImplementedError: an ``expected_opset_version``.
    Source: torch.export.pt2_archive._package.load_pt2.
    Example:
        >>> import io
        >>> from flambeau.export.pt2_archive._package import load_pt2
        >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file := io.BytesIO())
        >>> load_pt2(file).exported_programs["model"].module()(torch.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    if expected_opset_version is not None:
        raise NotImplementedError("load_pt2: expected_opset_version is not supported")
    with PT2ArchiveReader(f) as reader:
        names = reader.get_file_names()
        if any(name.startswith(constants.AOTINDUCTOR_DIR) for name in names):
            raise RuntimeError("an archive with programs that PyTorch has compiled, which cannot be run here")
        models = [found[1] for found in map(re.compile(r"models/(.*)\.json").fullmatch, names) if found]
        extra = [name.removeprefix(constants.EXTRA_DIR) for name in names if name.startswith(constants.EXTRA_DIR)]
        programs = {name: read_program(reader, name) for name in models}
        return PT2ArchiveContents(programs, {}, {name: reader.read_string(f"{constants.EXTRA_DIR}{name}") for name in extra})
