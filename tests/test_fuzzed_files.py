"""Archives made to mislead, more hostile pickles, and a few of the files of ``fuzzed_files``."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from typing import Any

import pytest
from fuzzed_files import archive_of, legacy_of, text

import flambeau
from flambeau.serialization import load

FLOATS = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x06tQ"
DICT = b"ccollections\nOrderedDict\n)R"


def tensor(storage: bytes = FLOATS, offset: bytes = b"K\x00", size: bytes = b"K\x02\x85", stride: bytes = b"K\x01\x85") -> bytes:
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + offset + size + stride + b"\x89" + DICT + b"tR"


def integer(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


EVAL = b"cbuiltins\neval\n"
PICKLES = {
    "EXT2": b"\x83\x01\x00",
    "EXT4": b"\x84\x01\x00\x00\x00",
    "NEWOBJ_EX": EVAL + b")}\x92",
    "PERSID of protocol 0": b"Pstorage\n",
    "PUT and GET of protocol 0": EVAL + b"p0\ng0\n" + text("1") + b"\x85R",
    "INST of an allowed class": b"(icollections\nOrderedDict\n",
    "OBJ of an allowed class": b"(ccollections\nOrderedDict\no",
    "STACK_GLOBAL of an allowed class": text("collections") + text("OrderedDict") + b"\x93)R",
    "MEMOIZE and FRAME": b"\x95\x05\x00\x00\x00\x00\x00\x00\x00" + EVAL + b"\x94",
    "BINBYTES8 that lies": b"\x8e" + struct.pack("<Q", 2**62),
    "BINUNICODE8 that lies": b"\x8d" + struct.pack("<Q", 2**62),
    "BYTEARRAY8 that lies": b"\x96" + struct.pack("<Q", 2**62),
    "LONG4 below zero": b"\x8b" + struct.pack("<i", -5),
    "next buffer": b"\x97",
    "BUILD on a class": b"ctorch\nTensor\n}" + text("__init__") + EVAL + b"sb",
    "BUILD on a tensor": tensor() + b"}" + text("_array") + b"Nsb",
    "BUILD with slots": DICT + b"N}" + text("__class__") + EVAL + b"s\x86b",
    "REDUCE of what was rebuilt": tensor() + b")R",
    "call of a method through a name": b"ccollections\nOrderedDict.fromkeys\n(]tR",
    "name with a line break": b"ccollections\n" + b"OrderedDict" * 2000 + b"\n)R",
    "name that is not text": b"c\xff\xfe\n\x00\n)R",
    "copyreg": b"ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR",
    "functools": b"cfunctools\npartial\n(" + EVAL + text("1") + b"tR)R",
    "operator": b"coperator\nattrgetter\n" + text("__class__") + b"\x85R",
    "code object": b"ctypes\nCodeType\n)R",
    "numpy array of objects": b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n)ctR",
    "pickle in a pickle": b"cpickle\nloads\n(" + text("x") + b"tR",
    "storage with a class of its own": FLOATS.replace(b"ctorch\nFloatStorage\n", EVAL),
    "storage of a negative size": FLOATS.replace(b"K\x06", integer(-1)),
    "storage of a huge size": FLOATS.replace(b"K\x06", integer(2**62)),
    "storage that leaves the archive": FLOATS.replace(text("0"), text("../../../etc/passwd")),
    "storage that names another record": FLOATS.replace(text("0"), text("../data.pkl")),
    "tensor behind its storage": tensor(offset=integer(2**61)),
    "tensor before its storage": tensor(offset=integer(-1)),
    "tensor larger than its storage": tensor(size=integer(2**40) + b"\x85"),
    "tensor whose size overflows": tensor(size=integer(2**62) + integer(4) + b"\x86", stride=b"K\x00K\x01\x86"),
    "tensor with negative strides": tensor(stride=integer(-4) + b"\x85"),
    "tensor of many dimensions": tensor(size=b"(" + b"K\x01" * 200 + b"t", stride=b"(" + b"K\x01" * 200 + b"t"),
    "subclass that is none": b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor\n" + EVAL + b"))tR",
    "parameter of a function": b"ctorch._utils\n_rebuild_parameter\n(" + EVAL + b"\x88" + DICT + b"tR",
    "persistent id that begins with a tensor": b"(" + tensor(size=integer(2**60) + b"\x85", stride=b"K\x00\x85") + FLOATS[1:-2] + b"tQ",
    "key that is a list": b"}]Ns",
    "stack that is empty": b"0",
    "mark without an end": b"(((",
}


@pytest.mark.parametrize("form", ["zip", "mapped", "legacy"])
@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles_are_refused(name: str, form: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError("the file ran code")

    pickled = b"\x80\x02" + PICKLES[name] + b"."
    data = legacy_of(pickled) if form == "legacy" else archive_of(pickled)
    (tmp_path / "x.pt").write_bytes(data)
    monkeypatch.setattr("builtins.eval", fail)
    with pytest.raises((pickle.UnpicklingError, RuntimeError, EOFError)) as caught:
        load(tmp_path / "x.pt", mmap=True) if form == "mapped" else load(io.BytesIO(data))
    assert len(str(caught.value)) < 3000


# -- archives -------------------------------------------------------------------------------------------------------------
def sound(count: int = 1, numel: int = 1000) -> bytes:
    buffer = io.BytesIO()
    flambeau.save([flambeau.arange(numel) + number for number in range(count)], buffer)
    return buffer.getvalue()


def entries(data: bytes) -> dict[str, int]:
    """Where the directory's entries of the records are."""
    places, place = {}, data.index(b"PK\x01\x02")
    while data[place : place + 4] == b"PK\x01\x02":
        name, extra, comment = struct.unpack_from("<HHH", data, place + 28)
        places[data[place + 46 : place + 46 + name].decode().partition("/")[2]] = place
        place += 46 + name + extra + comment
    return places


def changed(data: bytes, record: str, offset: int, form: str, value: int) -> bytes:
    """A field of a record's entry in the directory replaced."""
    work = bytearray(data)
    struct.pack_into(form, work, entries(data)[record] + offset, value)
    return bytes(work)


def many_names_for_one_record() -> bytes:
    """A thousand storages of one and the same megabyte."""
    ids = [FLOATS.replace(text("0"), text(str(key))).replace(b"K\x06", integer(250_000)) for key in range(1000)]
    pickled = b"\x80\x02](" + b"".join(ids) + b"e."
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("any/data.pkl", pickled)
        file.writestr("any/data/0", bytes(1_000_000))
        for key in range(1, 1000):
            twin = zipfile.ZipInfo(f"any/data/{key}")
            first = file.getinfo("any/data/0")
            twin.header_offset, twin.CRC = first.header_offset, first.CRC
            twin.file_size = twin.compress_size = 1_000_000
            file.filelist.append(twin)
            file.NameToInfo[twin.filename] = twin
    return buffer.getvalue()


def bomb(size: int) -> bytes:
    """A record of a thousand times its size in the file."""
    pickled = b"\x80\x02" + FLOATS.replace(b"K\x06", integer(size // 4)) + b"."
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("any/data.pkl", pickled)
        file.writestr("any/data/0", bytes(size))
    return buffer.getvalue()


def renamed(data: bytes, name: str) -> bytes:
    """The archive with the pickle's record under another name of the same length."""
    return data.replace(b"archive/data.pkl", name.encode().ljust(16, b"_"))


ARCHIVES = {
    "bomb": lambda: bomb(50_000_000),
    "bomb in the pickle": lambda: archive_of(b"\x80\x02X" + struct.pack("<I", 30_000_000) + bytes(30_000_000) + b".", zipfile.ZIP_DEFLATED),
    "overlapping records": many_names_for_one_record,
    "size that lies": lambda: changed(sound(), "data/0", 24, "<I", 2**31),
    "both sizes that lie": lambda: changed(changed(sound(), "data/0", 20, "<I", 2**31), "data/0", 24, "<I", 2**31),
    "smaller than the tensor": lambda: changed(changed(sound(), "data/0", 20, "<I", 40), "data/0", 24, "<I", 40),
    "offset behind the end": lambda: changed(sound(), "data/0", 42, "<I", 2**31),
    "offset of nothing": lambda: changed(sound(), "data/0", 42, "<I", 5),
    "encrypted": lambda: changed(sound(), "data/0", 8, "<H", 0x809),
    "unknown compression": lambda: changed(sound(), "data/0", 10, "<H", 99),
    "bzip2": lambda: changed(sound(), "data/0", 10, "<H", 12),
    "deflate that is none": lambda: changed(sound(), "data/0", 10, "<H", 8),
    "path above": lambda: renamed(sound(), "../../../etc/pas"),
    "absolute path": lambda: renamed(sound(), "/etc/passwd_____"),
    "directory that is cut": lambda: sound()[:-60],
    "no directory": lambda: sound()[:600],
    "nothing": lambda: b"PK\x03\x04",
    "only an end": lambda: b"PK\x05\x06" + bytes(18),
    "two ends": lambda: sound() + b"PK\x05\x06" + bytes(18),
}


# A mapped file takes no memory, however often a part of it is named and whatever else a record claims.
HARMLESS_MAPPED = ("overlapping records", "both sizes that lie")


@pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_errors_and_take_no_memory(name: str, mapped: bool, tmp_path: pathlib.Path) -> None:
    data = ARCHIVES[name]()
    (tmp_path / "x.pt").write_bytes(data)
    errors = (RuntimeError, pickle.UnpicklingError, EOFError)
    tracemalloc.start()
    try:
        with contextlib.nullcontext() if mapped and name in HARMLESS_MAPPED else pytest.raises(errors):
            load(tmp_path / "x.pt", mmap=mapped)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 2 * len(data) + (1 << 20)
    assert os.listdir(tmp_path) == ["x.pt"]


def test_a_legacy_file_whose_sizes_lie_takes_no_memory() -> None:
    data = legacy_of(b"\x80\x02" + FLOATS.replace(b"K\x06", integer(10**9))[:-2] + b"NtQ.")
    tracemalloc.start()
    try:
        with pytest.raises(RuntimeError, match="cannot be in the rest of the file"):
            load(io.BytesIO(data))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_archives_packed_again_still_load() -> None:
    data = sound(3)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in archive.namelist():
            packed.writestr(name, archive.read(name))
    buffer.seek(0)
    assert [x[0].item() for x in load(buffer)] == [0, 1, 2]


# -- chance ---------------------------------------------------------------------------------------------------------------
def test_files_damaged_at_random() -> None:
    """In a process of its own: the audit hook stays for good."""
    root = pathlib.Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.hostile_files", "--fuzz", "1000", "--seed", "7"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(root / "tests")))},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "done" and "loaded" in done.stdout
