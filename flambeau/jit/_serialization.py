"""``torch.jit.save`` and ``load``: archives that PyTorch and libtorch run, and theirs.

    data.pkl        the module: an object of class ``__torch__.M`` with a dict of attributes; its storages lie in ``data/``
    constants.pkl   the tensors that code calls ``CONSTANTS.c0``, ...; their storages lie in ``constants/``
    code/           classes and functions, a file for each module path
    extra/          files of the caller's own

Source: torch.jit._serialization.
"""

from __future__ import annotations

import io
import os
import pickle
import re
from typing import Any

from ..core.device import device
from ..nn import Module
from ..serialization.archive import ArchiveReader, ArchiveWriter, archive_name
from ..serialization.files import LoadedStorages, write_named
from ..serialization.locations import restorer
from . import _source
from ._modules import RecursiveScriptModule, ScriptFunction
from ._pickle import ScriptPickler, ScriptUnpickler
from ._unit import PYTHON, Unit
from ._values import ScriptObject, ScriptType

__all__ = ["load", "save", "validate_map_location"]

VERSION = b"10\n"  # of PyTorch's operators: those of today
_PLACEHOLDER = "__torch__.PlaceholderModule"


# -- save ------------------------------------------------------------------------------------------------------------------------------
def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted or traced module or function to an archive, which PyTorch's ``torch.jit.load`` and libtorch run too.

    Args:
        m: what ``script``, ``trace`` or ``load`` returned.
        f: name of a file, or an object with ``write``.
        _extra_files: contents of further files by name, ``str`` or ``bytes``.
    Raises:
        AttributeError: ``m`` is an ordinary module or function.
        RuntimeError: an attribute has no place in an archive, or the folder of ``f`` does not exist.
        TypeError: the contents of a further file are neither ``str`` nor ``bytes``.
    Source: torch.jit.save.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> torch.jit.save(torch.jit.script(nn.ReLU()), file)
        >>> torch.jit.load(io.BytesIO(file.getvalue()))(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if not isinstance(m, (RecursiveScriptModule, ScriptFunction)):
        raise AttributeError(f"'{type(m).__name__}' object has no attribute 'save': torch.jit.save takes what script or trace returned")
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    module = _module_of(m) if isinstance(m, ScriptFunction) else m
    content = io.BytesIO()
    _write(module, ArchiveWriter(content, archive_name(path)), _extra_files or {})
    if path is None:
        f.write(content.getvalue())
        return
    write_named(path, lambda file: file.write(content.getbuffer()))


def _write(module: RecursiveScriptModule, writer: ArchiveWriter, extra: dict[str, Any]) -> None:
    unit = module._script_unit
    names: dict[str, None] = {module._script_type.name: None}

    def name_of(value: Any) -> str:
        if value.__dict__["_script_unit"] is not unit if isinstance(value, Module) else False:
            raise RuntimeError(f"torch.jit.save: {value._script_type.name} was compiled by itself and put in later; script the whole again")
        names[value._script_type.name] = None
        return str(value._script_type.name)

    data = ScriptPickler(writer, "data", name_of, _state_of).dump(module)
    constants = ScriptPickler(writer, "constants", name_of, _state_of).dump(tuple(unit.constants))
    writer.write_record("data.pkl", data)
    writer.write_record("constants.pkl", constants)
    for name, content in extra.items():
        if not isinstance(content, (str, bytes)):
            raise TypeError(f"torch.jit.save: expected str or bytes for the further file '{name}', got {type(content).__name__}")
        writer.write_record(f"extra/{name}", content.encode() if isinstance(content, str) else content)
    files = unit.files(*names)
    stays = re.search(rf"\b{PYTHON}\.(\w+)", "".join(files.values()))
    if stays is not None:
        raise RuntimeError(
            f"\nCould not export Python function call '{stays[1]}'. Remove calls to Python functions before export. Did you forget to add "
            "@script or @script_method annotation? If this is a nn.ModuleList, add it to __constants__"
        )
    for place, text in files.items():
        writer.write_record(f"code/{place}", text.encode())
    writer.write_record("byteorder", b"little")
    writer.close(VERSION)


def _state_of(value: Any) -> dict[str, tuple[Any, str]] | tuple[Any, str]:
    kind = value._script_type
    if "__getstate__" in kind.methods and "__setstate__" in kind.methods:
        return kind.methods["__getstate__"](value), ""
    if isinstance(value, Module):
        return value.script_state()
    return {name: (value._values[name], kind.fields[name]) for name in kind.fields if name not in kind.constants}


def _module_of(function: ScriptFunction) -> RecursiveScriptModule:
    """A module whose ``forward`` is a function."""
    unit = Unit()
    name = unit.adopt(function._script_unit, function.qualified_name)
    text = unit.texts.pop(name).removeprefix("def ").partition("(")[2]
    separator = "" if text.startswith(")") else ",\n    "
    lines = f"def forward(self: {_PLACEHOLDER}{separator}{text}".splitlines()
    body = "\n".join([f"  {line}" for line in lines])
    unit.add(_PLACEHOLDER, f"class PlaceholderModule(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n{body}\n")
    return RecursiveScriptModule(unit, unit.type(_PLACEHOLDER))


# -- load ------------------------------------------------------------------------------------------------------------------------------
def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, _restore_shapes: bool = False) -> Any:
    """Read a module from an archive that ``save`` wrote, or PyTorch's.

    Its code is parsed and checked against what TorchScript has; nothing of it is run as Python, it imports nothing, and reaches no files.
    A method is run when it is called, and may then take any time and memory; ``__setstate__`` alone runs at once, and may neither loop,
    compute nor call.

    Args:
        f: name of a file, or a seekable object with ``read``.
        map_location: device, or its name, for all tensors; where they were when None.
        _extra_files: names of further files, whose contents are put in as ``bytes``; empty where the archive has none of that name.
        _restore_shapes: not supported: shapes of a trace's inputs are not kept.
    Returns: a ``RecursiveScriptModule``.
    Raises:
        ValueError: there is no such file.
        RuntimeError: the file is no archive of TorchScript, or damaged.
        NotImplementedError: ``_restore_shapes``.
    Source: torch.jit.load.
    Example:
        >>> import io
        >>> file = io.BytesIO(torch.jit.script(nn.Linear(2, 1)).save_to_buffer())
        >>> torch.jit.load(file).weight.shape
        torch.Size([1, 2])
    """
    if _restore_shapes:
        raise NotImplementedError("torch.jit.load: _restore_shapes is not supported")
    where = validate_map_location(map_location)
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        if not os.path.exists(path):
            raise ValueError(f"The provided filename {path} does not exist")
        if os.path.isdir(path):
            raise ValueError(f"The provided filename {path} is a directory")
        with open(path, "rb") as file:
            return _read(ArchiveReader(file), where, _extra_files)
    return _read(ArchiveReader(io.BytesIO(f.read())), where, _extra_files)


def validate_map_location(map_location: Any = None) -> Any:
    """The device that ``load``'s argument names.

    Raises:
        ValueError: neither a device nor a name.
    """
    if isinstance(map_location, str):
        return device(map_location)
    if not (map_location is None or isinstance(map_location, device)):
        raise ValueError(f"map_location should be either None, string or torch.device, but got type: {type(map_location)}")
    return map_location


def _read(reader: ArchiveReader, where: Any, extra: dict[str, Any] | None) -> Any:
    for record in ("data.pkl", "constants.pkl"):
        if record not in reader:
            raise RuntimeError(f"PytorchStreamReader failed locating file {record}: file not found. It is no archive of TorchScript")
    unit = Unit()
    size = 0
    for name in reader.names():
        if name.startswith("code/") and name.endswith(".py"):
            size += reader.size(name)
            if size > _source.CODE_BYTES:
                raise RuntimeError(f"torch.jit.load: the archive has more than {_source.CODE_BYTES} bytes of code")
            module = name.removeprefix("code/").removesuffix(".py").replace("/", ".")
            unit.add_file(module, _text(reader, name))
    unit.loading = True
    root = _unpickled(reader, unit, where)
    unit.loading = False
    if not isinstance(root, RecursiveScriptModule):
        raise RuntimeError(f"torch.jit.load: expected a module in the archive, got {type(root).__name__}")
    for name in extra or ():
        extra[name] = reader.read(f"extra/{name}").tobytes() if f"extra/{name}" in reader else b""  # type: ignore[index]
    return root


def _text(reader: ArchiveReader, name: str) -> str:
    try:
        return reader.read(name).tobytes().decode()
    except UnicodeDecodeError as error:
        raise _source.damaged(name, str(error)) from None


def _unpickled(reader: ArchiveReader, unit: Unit, where: Any) -> Any:
    restore = restorer(where)
    classes = _Classes(unit)
    try:
        for folder in ("constants", "data"):
            pickled = ScriptUnpickler(io.BytesIO(reader.read(f"{folder}.pkl").data), classes.find, take_state)
            pickled.persistent_load = LoadedStorages(reader, restore, None, folder).find
            found = pickled.load()
            if folder == "constants":
                if type(found) is not tuple:
                    raise RuntimeError(f"torch.jit.load: expected a tuple of constants, got {type(found).__name__}")
                unit.constants.extend(found)
    except (pickle.UnpicklingError, EOFError) as error:
        raise RuntimeError(f"torch.jit.load: {error}") from None
    return found


class _Classes:
    """Classes whose instances a pickle makes, by the names of the archive's types."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._made: dict[str, type] = {}

    def find(self, name: str) -> type:
        """The class for a type of the archive."""
        if name not in self._made:
            kind = self._unit.type(name)
            self._made[name] = type(kind.short_name, (_Instance,), {"__new__": _maker(self._unit, kind)})
        return self._made[name]


class _Instance:
    """Stands for a type of the archive in a pickle."""


def _maker(unit: Unit, kind: ScriptType) -> Any:
    def __new__(cls: type, *args: Any) -> Any:
        if kind.named_tuple is not None:
            return kind(*(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args))
        if kind.members is not None:
            return kind.members(*args)
        if args:
            raise pickle.UnpicklingError(f"pickle damaged: {kind.name} takes no arguments")
        return RecursiveScriptModule(unit, kind) if kind.base == "Module" else kind.make()

    return __new__


def take_state(target: Any, state: Any) -> None:
    """Give an object of an archive its state: the attributes, or what its own ``__setstate__`` makes of it."""
    kind: ScriptType = target.__dict__["_script_type"]
    if "__setstate__" in kind.methods:
        kind.methods["__setstate__"](target, state)
    elif type(state) is not dict:
        raise RuntimeError(f"the archive has the state of {kind.name:.200} as {type(state).__name__}")
    elif isinstance(target, ScriptObject):
        for name, value in state.items():
            if type(name) is not str or name not in kind.fields:
                raise RuntimeError(f"the archive has a value for {name!r:.100}, which {kind.name:.200} has no attribute for")
            target.script_assign(name, value)
    else:
        target.set_state(state)
