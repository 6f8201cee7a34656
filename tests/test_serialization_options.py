"""Settings of saving and loading, mapped files, and the small names of ``torch.serialization``, against PyTorch's."""

from __future__ import annotations

import inspect
import io
import mmap
import os
import pathlib
import sys
import types
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from flambeau.utils.serialization import config


def outcome(library: Any, call: Callable[[Any], Any]) -> Any:
    """What a call returns, or what it raises."""
    try:
        return repr(call(library))
    except Exception as error:
        return type(error), str(error)


def test_every_public_name_is_there_with_its_arguments(oracle: Any) -> None:
    for name in oracle.serialization.__all__:
        theirs, ours = getattr(oracle.serialization, name), getattr(flambeau.serialization, name)
        if not (isinstance(theirs, type) and issubclass(theirs, Warning)):
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters), name


def test_settings_have_pytorchs_names_and_defaults(oracle: Any) -> None:
    theirs = pytorch("torch.utils.serialization.config")

    for name, setting in theirs._config.items():
        if not name.startswith("_"):
            with config.patch(name, getattr(*_setting(config, name))):
                assert getattr(*_setting(config, name)) == setting.default, name
    for broken in (lambda: setattr(config.load, "other", 1), lambda: config.patch("load.other", 1).__enter__()):
        with pytest.raises(AttributeError):
            broken()


def _setting(module: Any, name: str) -> tuple[Any, str]:
    group, _, setting = name.partition(".")
    return getattr(module, group), setting


def test_settings_are_the_functions_settings() -> None:
    with config.patch({"load.endianness": flambeau.serialization.LoadEndianness.BIG, "save.compute_crc32": False}):
        assert flambeau.serialization.get_default_load_endianness() is flambeau.serialization.LoadEndianness.BIG
        assert not flambeau.serialization.get_crc32_options()
    assert flambeau.serialization.get_default_load_endianness() is None and flambeau.serialization.get_crc32_options()

    @config.patch("load.mmap_flags", mmap.MAP_SHARED)
    def flags() -> int:
        return flambeau.serialization.get_default_mmap_options()

    assert flags() == mmap.MAP_SHARED and flambeau.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE


@pytest.mark.parametrize("alignment", [64, 256, 4096])
def test_the_alignment_is_pytorchs(alignment: int, oracle: Any) -> None:
    theirs = pytorch("torch.utils.serialization.config")

    files = []
    for library, settings in ((flambeau, config), (oracle, theirs)):
        buffer = io.BytesIO()
        with settings.patch("save.storage_alignment", alignment):
            library.save({"x": library.ones(3), "y": library.zeros(40)}, buffer)
        with zipfile.ZipFile(buffer) as archive:
            files.append([(entry.filename, entry.header_offset, entry.file_size) for entry in archive.infolist()])
        buffer.seek(0)
        assert flambeau.load(buffer)["x"].tolist() == [1, 1, 1]
    assert files[0] == files[1]


def test_mapping_can_be_the_default(tmp_path: pathlib.Path) -> None:
    flambeau.save(flambeau.arange(4), tmp_path / "x.pt")
    with config.patch("load.mmap", True):
        mapped = flambeau.load(tmp_path / "x.pt")
        with pytest.raises(ValueError, match="file path"):
            flambeau.load(io.BytesIO((tmp_path / "x.pt").read_bytes()))
        read = flambeau.load(tmp_path / "x.pt", mmap=False)
    with open(tmp_path / "x.pt", "r+b") as file:  # a mapped page that nobody has written to shows what the file says
        position = file.read().index(bytes([1, 0, 0, 0, 0, 0, 0, 0, 2]))
        file.seek(position)
        file.write(b"\7")
    assert mapped.tolist() == [0, 7, 2, 3] and read.tolist() == [0, 1, 2, 3]


MAPPED = {
    "views share": lambda library, path: _doubled(library, path),
    "old format": lambda library, path: library.load(path.with_name("old.pt"), mmap=True),
    "old format by name": lambda library, path: library.load(str(path.with_name("old.pt")), mmap=True),
    "a file object": lambda library, path: library.load(open(path, "rb"), mmap=True),
    "to meta": lambda library, path: library.load(path, map_location="meta", mmap=True)["a"].device,
    "to a function": lambda library, path: library.load(path, map_location=lambda storage, tag: storage, mmap=True)["a"],
    "to CUDA": lambda library, path: library.load(path, map_location="cuda", mmap=True),
    "anything": lambda library, path: library.load(path, weights_only=False, mmap=True)["v"].stride(),
    "no file": lambda library, path: library.load(str(path) + "none", mmap=True),
    "shared": lambda library, path: _shared(library, path),
}


def _doubled(library: Any, path: pathlib.Path) -> Any:
    back = library.load(path, mmap=True)
    back["a"].mul_(2)
    return back["a"].tolist(), back["v"].tolist(), library.load(path)["a"].tolist(), library.load(path, mmap=True)["v"].tolist()


def _shared(library: Any, path: pathlib.Path) -> Any:
    with library.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        library.load(path, mmap=True)["a"].add_(1)
    return library.load(path)["a"].tolist(), library.serialization.get_default_mmap_options()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("name", MAPPED)
def test_mapped_files_are_as_pytorchs(name: str, oracle: Any, tmp_path: pathlib.Path) -> None:
    results = []
    for writer, reader in ((oracle, oracle), (oracle, flambeau), (flambeau, flambeau), (flambeau, oracle)):
        value = {"a": writer.arange(10.0), "b": writer.ones(3, dtype=writer.int64)}
        value["v"] = value["a"][2:5]
        writer.save(value, tmp_path / "x.pt")
        writer.save(value, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
        results.append(outcome(reader, lambda library: MAPPED[name](library, tmp_path / "x.pt")))
    assert results[1:] == results[:1] * 3


def test_a_mapped_file_is_not_read(tmp_path: pathlib.Path) -> None:
    if sys.platform != "linux":
        pytest.skip("memory is counted by /proc")

    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    path = tmp_path / "x.pt"
    with flambeau.serialization.skip_data():
        flambeau.save(flambeau.empty(50_000_000), path)
    before = resident()
    back = flambeau.load(path, mmap=True)
    assert back[123456].item() == 0 and resident() - before < 20_000_000


CALLS: dict[str, Callable[[Any], Any]] = {
    "module version": lambda library: library.serialization.check_module_version_greater_or_equal(_module("1.2.3"), (1, 2)),
    "older module": lambda library: library.serialization.check_module_version_greater_or_equal(_module("1.2.3"), (1, 3)),
    "odd module": lambda library: library.serialization.check_module_version_greater_or_equal(_module("1.x"), (1, 3)),
    "storage type": lambda library: library.serialization.normalize_storage_type(library.FloatStorage).__name__,
    "CUDA": lambda library: library.serialization.validate_cuda_device("cuda:1"),
    "HPU": lambda library: library.serialization.validate_hpu_device("hpu"),
    "tag": lambda library: library.serialization.location_tag(library.ones(1).untyped_storage()),
    "tag of meta": lambda library: library.serialization.location_tag(library.ones(1, device="meta").untyped_storage()),
    "tag of nothing": lambda library: library.serialization.location_tag(3),
    "unknown place": lambda library: library.serialization.default_restore_location(library.ones(1).untyped_storage(), "xyz"),
    "version": lambda library: (library.serialization.DEFAULT_PROTOCOL, library.serialization.MAGIC_NUMBER),
    "endianness": lambda library: [library.serialization.get_default_load_endianness(), *library.serialization.LoadEndianness.__members__],
}


def _module(version: str) -> types.ModuleType:
    module = types.ModuleType("some")
    module.__version__ = version  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("name", CALLS)
def test_small_names_are_pytorchs(name: str, oracle: Any) -> None:
    assert outcome(flambeau, CALLS[name]) == outcome(oracle, CALLS[name])


def test_a_malformed_version_may_be_let_through() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert flambeau.serialization.check_module_version_greater_or_equal(_module("1.x"), (1, 3), error_if_malformed=False)
    assert "malformed" in str(caught[0].message)


def test_old_tensor_classes_of_storages() -> None:
    assert flambeau.serialization.storage_to_tensor_type(flambeau.FloatStorage(2)) is flambeau.FloatTensor
