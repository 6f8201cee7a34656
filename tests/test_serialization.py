"""Saving and loading: the file format, what a load may run, damage, and the exchange with PyTorch."""

from __future__ import annotations

import builtins
import collections
import copy
import io
import json
import os
import pathlib
import pickle
import pickletools
import stat
import struct
import subprocess
import sys
import warnings
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle import pytorch

from flambeau import serialization
from flambeau.core import dtype as dtypes
from flambeau.core.device import device
from flambeau.core.shape import Size
from flambeau.core.storage import TypedStorage, UntypedStorage
from flambeau.core.tensor import Parameter, Tensor, share, storage_of, wrap
from flambeau.serialization import archive, load, save
from flambeau.serialization.options import thread_options

ALL_DTYPES = sorted({dtype.name for dtype in dtypes.ALL.values() if dtype.numpy is not None})


def values(dtype: dtypes.dtype, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    counted = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    return (counted % 2 == 1) if dtype is dtypes.bool_ else counted.astype(np.float32).astype(dtype.numpy)


def tensor(*numbers: float) -> Tensor:
    return wrap(np.array(numbers, np.float32))


def saved(value: Any, **arguments: Any) -> bytes:
    buffer = io.BytesIO()
    save(value, buffer, **arguments)
    return buffer.getvalue()


def loaded(data: bytes, **arguments: Any) -> Any:
    return load(io.BytesIO(data), **arguments)


def through(value: Any, **arguments: Any) -> Any:
    return loaded(saved(value), **arguments)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def hand_made(pickled: bytes, records: dict[str, bytes] | None = None, folder: str = "any", compression: int = 0) -> bytes:
    """A file written by Python's own zipfile, without alignment or any other of PyTorch's habits."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr(f"{folder}/data.pkl", pickled)
        for name, data in (records or {}).items():
            file.writestr(f"{folder}/{name}", data)
    return buffer.getvalue()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def call(module: str, name: str, *args: bytes) -> bytes:
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(args) + b"tR"


DICT = b"ccollections\nOrderedDict\n)R"

# (a 2x2 float32 tensor, stored transposed behind one unused element), assembled by hand from pickle's documented opcodes
GOLDEN = (
    b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
    b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x05tQK\x01K\x02K\x02\x86K\x01K\x02\x86\x89ccollections\nOrderedDict\n)RtR."
)


# -- round trips ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_every_dtype_comes_back_bit_for_bit(name: str, is_zip: bool, weights_only: bool) -> None:
    array = values(dtypes.ALL[name])
    back = loaded(saved(wrap(array), _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    assert back.dtype is dtypes.ALL[name] and same_bits(back._array, array)


def test_views_share_memory_again_and_keep_their_strides() -> None:
    whole = wrap(np.arange(24, dtype=np.float32).reshape(4, 6))
    storage = storage_of(whole)
    views = [
        share(whole._array.T, storage),
        share(whole._array[1:3, ::2], storage),
        share(np.broadcast_to(whole._array[2, 3:4], (5,)), storage),
    ]
    back = through([whole, *views])
    for before, after in zip([whole, *views], back, strict=True):
        assert after.stride() == before.stride() and after.storage_offset() == before.storage_offset()
        assert same_bits(after._array, before._array)
    back[0]._array[2, 3] = -1
    assert back[3].tolist() == [-1] * 5 and back[1]._array[3, 2] == -1


def test_a_view_alone_keeps_its_storage_and_a_storage_is_written_once() -> None:
    whole = wrap(np.arange(1000, dtype=np.float32))
    view = share(whole._array[:2], storage_of(whole))
    assert through(view).untyped_storage().nbytes() == 4000
    assert len(saved([whole, view, view])) < 4000 + 2500


def test_data_shares_storage_with_its_tensor() -> None:
    x = tensor(1, 2)
    back = through([x, x.data])
    back[0]._array[0] = 7
    assert back[1].tolist() == [7, 2]


def test_empty_and_0d_tensors() -> None:
    tensors = [wrap(np.empty((2, 0, 3), np.int64)), wrap(np.array(2.5)), wrap(np.empty(0, np.float32))]
    back = through(tensors)
    assert [x.shape for x in back] == [(2, 0, 3), (), (0,)] and back[1].item() == 2.5 and back[0].dtype is dtypes.int64


def test_containers_and_plain_values() -> None:
    state = collections.OrderedDict([("weight", tensor(1)), ("bias", tensor(2))])
    state._metadata = collections.OrderedDict([("", {"version": 1})])  # type: ignore[attr-defined]
    contents = {
        "state": state,
        "nested": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {"a": [None, True, False]}],
        "numbers": [0, 255, 65535, -1, 2**31, -(2**40), 10**30, 1.5, float("inf"), 1j],
        "text": ["", "é", "\ud800"],
        "bytes": [b"", b"\x00\xff", bytearray(b"xy"), bytearray()],
        "sets": {1, 2},
        "counts": collections.Counter("aab"),
        3: Size([2, 3]),
        "device": device("cuda:1"),
        "dtypes": [dtypes.float16, dtypes.bool_, dtypes.float8_e5m2],
    }
    back = through(contents)
    assert {name: x.tolist() for name, x in back["state"].items()} == {"weight": [1], "bias": [2]}
    assert back["state"]._metadata == state._metadata and type(back["state"]) is collections.OrderedDict
    assert type(back[3]) is Size and type(back["counts"]) is collections.Counter and back["dtypes"][0] is dtypes.float16
    assert {k: v for k, v in back.items() if k != "state"} == {k: v for k, v in contents.items() if k != "state"}


def test_requires_grad_parameters_and_their_attributes() -> None:
    leaf, plain, marked = tensor(1).requires_grad_(), Parameter(tensor(2), requires_grad=False), Parameter(tensor(3))
    marked.note = {"lr": 0.5}  # type: ignore[attr-defined]
    for weights_only in (True, False):
        a, b, c = through([leaf, plain, marked], weights_only=weights_only)
        assert a.requires_grad and a.is_leaf and type(b) is Parameter and not b.requires_grad
        assert c.requires_grad and c.note == {"lr": 0.5} and c.tolist() == [3]


def test_hooks_are_left_out_with_a_warning() -> None:
    leaf = tensor(1).requires_grad_()
    leaf.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="will not be serialized"):
        back = through(leaf)
    assert back.requires_grad and not back.__dict__.get("_backward_hooks")


class Marked(Tensor):
    __slots__ = ("extra",)


def test_subclasses_come_back_as_such_once_allowed() -> None:
    marked = tensor(1, 2).as_subclass(Marked).requires_grad_()
    marked.note, marked.extra = "hello", 5
    data = saved(marked)
    with pytest.raises(pickle.UnpicklingError, match="Marked"):
        loaded(data)
    with serialization.safe_globals([Marked]):
        back = loaded(data)
    assert type(back) is Marked and (back.note, back.extra, back.tolist()) == ("hello", 5, [1, 2])
    assert back.requires_grad and back.is_leaf
    assert serialization.get_safe_globals() == []


def test_storages_can_be_saved() -> None:
    x = tensor(1, 2)
    typed, untyped = through([TypedStorage(wrap_storage=storage_of(x), dtype=dtypes.float32), storage_of(tensor(3))])
    assert isinstance(typed, TypedStorage) and typed.tolist() == [1, 2]
    assert untyped.dtype is dtypes.uint8 and bytes(untyped.tolist()) == struct.pack("<f", 3)


def test_one_memory_of_two_dtypes_is_refused() -> None:
    x = tensor(1, 2)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([x, share(x._array.view(np.int32), storage_of(x))])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_pickle_protocol(protocol: int) -> None:
    assert loaded(saved({"x": tensor(1)}, pickle_protocol=protocol), weights_only=False)["x"].tolist() == [1]


def test_another_pickle_module_is_used_and_needs_an_unrestricted_load() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    data = saved({"f": lambda: 41, "x": tensor(1), "d": dtypes.float16}, pickle_module=cloudpickle)
    back = loaded(data, weights_only=False)
    assert back["f"]() == 41 and back["x"].tolist() == [1] and back["d"] is dtypes.float16
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        loaded(data, pickle_module=pickle, weights_only=True)
    assert loaded(data, pickle_module=pickle)["x"].tolist() == [1]


# -- the container --------------------------------------------------------------------------------------------------------
def test_a_file_written_by_hand_is_read() -> None:
    data = np.arange(5, dtype="<f4").tobytes()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert loaded(hand_made(GOLDEN, {"data/0": data}, compression=compression)).tolist() == [[1, 3], [2, 4]]


def test_our_pickle_uses_pytorch_s_names() -> None:
    x = wrap(np.arange(5, dtype=np.float32))
    view = share(x._array[1:].reshape(2, 2).T, storage_of(x))
    with zipfile.ZipFile(io.BytesIO(saved(view))) as file:
        assert file.namelist() == [f"archive/{name}" for name in ("data.pkl", ".format_version", ".storage_alignment", "byteorder")] + [
            f"archive/{name}" for name in ("data/0", "version", ".data/serialization_id")
        ]
        assert file.testzip() is None
        stripped = [(code.name, arg) for code, arg, _ in pickletools.genops(file.read("archive/data.pkl"))]
        expected = [(code.name, arg) for code, arg, _ in pickletools.genops(GOLDEN)]
        assert [op for op in stripped if op[0] != "BINPUT"] == expected
        assert file.read("archive/version") == b"3\n" and file.read("archive/byteorder") == sys.byteorder.encode()


def test_records_are_aligned(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "some.name.pt"
    save([tensor(*range(n)) for n in range(5)], path)
    with open(path, "rb") as file:
        reader = archive.ArchiveReader(file)
        assert all(reader.offset(name) % 64 == 0 for name in reader.names())
        assert reader._folder == "some.name"


def test_without_checksums_and_byte_order() -> None:
    serialization.set_crc32_options(False)
    try:
        data = saved(tensor(1), _disable_byteorder_record=True)
    finally:
        serialization.set_crc32_options(True)
    assert {entry.CRC for entry in zipfile.ZipFile(io.BytesIO(data)).infolist()} == {0} and b"byteorder" not in data
    assert loaded(data).tolist() == [1]


def test_large_sizes_and_offsets_go_to_wide_fields() -> None:
    assert archive._wide_fields(0xFFFFFFFF, 2**33) == struct.pack("<HHQQQ", 1, 24, 0xFFFFFFFF, 0xFFFFFFFF, 2**33)
    assert archive._wide_fields(10, 2**33) == struct.pack("<HHQ", 1, 8, 2**33) and archive._wide_fields(10, 20) == b""


def test_the_other_byte_order() -> None:
    big = {"byteorder": b"big", "data/0": np.arange(5, dtype=">f4").tobytes()}
    assert loaded(hand_made(GOLDEN, big)).tolist() == [[1, 3], [2, 4]]
    complex_pickle = GOLDEN.replace(b"FloatStorage", b"ComplexFloatStorage")
    big["data/0"] = (np.arange(5) * (1 + 2j)).astype(">c8").tobytes()
    assert loaded(hand_made(complex_pickle, big)).tolist() == [[1 + 2j, 3 + 6j], [2 + 4j, 4 + 8j]]
    big.pop("byteorder")
    serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
    try:
        assert loaded(hand_made(complex_pickle, big)).tolist()[0][0] == 1 + 2j
    finally:
        serialization.set_default_load_endianness(None)


def test_skip_data_leaves_room() -> None:
    with serialization.skip_data():
        data = saved(tensor(1, 2))
    assert loaded(data).tolist() == [0, 0] and len(data) == len(saved(tensor(1, 2)))
    with serialization.skip_data():
        assert loaded(saved(tensor(3))).tolist() == [0]
    assert not thread_options.skip_data


def test_mapped_files_are_lazy_and_stay_unchanged(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.pt"
    save({"x": wrap(np.arange(100000.0))}, path)
    before = path.read_bytes()
    back = load(path, mmap=True)["x"]
    assert back.tolist() == list(range(100000))
    back._array[0] = 5
    assert path.read_bytes() == before
    import mmap

    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        load(path, mmap=True)["x"]._array[0] = 9
    assert load(path, mmap=True)["x"]._array[0] == 9
    assert load(path)["x"]._array[0] == 9  # the checksum of what it said before is gone
    with pytest.raises(ValueError, match="file path"):
        load(io.BytesIO(before), mmap=True)


def test_views_of_very_old_files_share_memory() -> None:
    def storage(view: tuple[Any, ...] | None) -> Any:
        return ("storage", serialization.StorageType("FloatStorage"), "7", "cpu", 4, view)

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return value[1] if isinstance(value, list) and value[:1] == ["id"] else None

    file = io.BytesIO()
    for header in (0x1950A86A20F9469CFC6C, 1001, {}):
        pickle.dump(header, file, protocol=2)
    Pickler(file, protocol=2).dump([["id", storage(None)], ["id", storage(("8", 1, 2))]])
    pickle.dump(["7"], file, protocol=2)
    file.write(struct.pack("<q4f", 4, 1, 2, 3, 4))
    whole, part = loaded(file.getvalue(), weights_only=False)
    assert whole.tolist() == [1, 2, 3, 4] and part.tolist() == [2, 3]
    part[0] = 9
    assert whole.tolist() == [1, 9, 3, 4]


def old_file(pickled: bytes, numel: int, data: bytes) -> bytes:
    """A file of the old format with one storage, whose key is 0."""
    parts = [pickle.dumps(header, 2) for header in (0x1950A86A20F9469CFC6C, 1001, {})]
    return b"".join((*parts, pickled, pickle.dumps(["0"], 2), struct.pack("<q", numel), data))


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    ("bits", "want"),
    [
        (("conj",), [[1 - 2j, 5 - 6j], [3 - 4j, 7 - 8j]]),
        (("neg",), [[-1 - 2j, -5 - 6j], [-3 - 4j, -7 - 8j]]),
        (("conj", "neg"), [[-1 + 2j, -5 + 6j], [-3 + 4j, -7 + 8j]]),
    ],
)
def test_bits_of_old_files_are_resolved_when_the_bytes_are_there(bits: tuple[str, ...], want: Any, weights_only: bool) -> None:
    """Assembled by hand: [transposed tensor with bits, the same again, a parameter of it, the plain tensor], one storage for all."""
    storage = b"(" + text("storage") + b"ctorch\nComplexFloatStorage\n" + text("0") + text("cpu") + b"K\x04NtQ"
    metadata = b"}(" + b"".join(text(bit) + b"\x88" for bit in bits) + b"u"
    where = (b"K\x00", b"K\x02K\x02\x86", b"K\x01K\x02\x86", b"\x89", DICT)
    with_bits = call("torch._utils", "_rebuild_tensor_v2", storage, *where, metadata)
    parameter = call("torch._utils", "_rebuild_parameter", with_bits, b"\x88", DICT)
    plain = call("torch._utils", "_rebuild_tensor_v2", storage, *where)
    pickled = b"\x80\x02](" + with_bits + with_bits + parameter + plain + b"e."
    data = np.array([1 + 2j, 3 + 4j, 5 + 6j, 7 + 8j], np.complex64).tobytes()
    first, second, third, last = loaded(old_file(pickled, 4, data), weights_only=weights_only)
    assert first.tolist() == second.tolist() == third.tolist() == want and type(third) is Parameter
    assert last.tolist() == [[1 + 2j, 5 + 6j], [3 + 4j, 7 + 8j]]
    assert first.stride() == last.stride() == (1, 2)
    first._array[0, 0] = 9
    assert second[0, 0].item() == 9 and last[0, 0].item() == 1 + 2j


@pytest.mark.parametrize("is_zip", [True, False])
def test_bits_that_the_dtype_cannot_have_are_errors(is_zip: bool) -> None:
    for kind, bit in (("FloatStorage", "conj"), ("BoolStorage", "neg"), ("FloatStorage", "else")):
        storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text("0") + text("cpu") + b"K\x01" + b"N" * (not is_zip) + b"tQ"
        args = (storage, b"K\x00", b"K\x01\x85", b"K\x01\x85", b"\x89", DICT, b"}" + text(bit) + b"\x88s")
        pickled = b"\x80\x02" + call("torch._utils", "_rebuild_tensor_v2", *args) + b"."
        data = hand_made(pickled, {"data/0": bytes(4)}) if is_zip else old_file(pickled, 1, bytes(4))
        with pytest.raises(RuntimeError, match="rebuild_tensor: expected"):
            loaded(data)


def test_a_negative_view_of_an_expanded_tensor_takes_no_more_memory_than_its_storage() -> None:
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x01tQ"
    size = b"\x8a\x08" + struct.pack("<q", 1 << 50) + b"\x85"
    stream = call("torch._utils", "_rebuild_tensor_v2", storage, b"K\x00", size, b"K\x00\x85", b"\x89", DICT, b"}" + text("neg") + b"\x88s")
    back = loaded(hand_made(b"\x80\x02" + stream + b".", {"data/0": struct.pack("<f", 2)}))
    assert back.shape == (1 << 50,) and back[-1].item() == -2


def test_safetensors(tmp_path: pathlib.Path) -> None:
    half = np.array([1, 2], ml_dtypes.bfloat16)
    table = {"__metadata__": {"a": "b"}, "w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}
    head = json.dumps(table).encode()
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", len(head)) + head + half.tobytes())
    back = load(path)
    assert list(back) == ["w"] and back["w"].dtype is dtypes.bfloat16 and back["w"].tolist() == [1, 2]
    path.write_bytes(struct.pack("<Q", len(head)) + head + half.tobytes()[:3])
    with pytest.raises(RuntimeError, match="safetensors"):
        load(path)


# -- files on disk --------------------------------------------------------------------------------------------------------
def test_names_paths_and_file_objects(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "é.pt"
    save(tensor(1), path)
    save(tensor(2), str(tmp_path / "b"))
    with open(tmp_path / "c", "wb") as file:
        save(tensor(3), file)
    with open(tmp_path / "c", "rb") as file:
        assert [load(path).item(), load(str(tmp_path / "b")).item(), load(file).item()] == [1, 2, 3]
    assert sorted(os.listdir(tmp_path)) == ["b", "c", "é.pt"]


def test_write_only_objects_suffice_for_saving() -> None:
    class Sink:
        def __init__(self) -> None:
            self.parts: list[bytes] = []

        def write(self, data: Any) -> int:
            self.parts.append(bytes(data))
            return len(data)

    sink = Sink()
    save(tensor(1), sink)
    assert loaded(b"".join(sink.parts)).item() == 1
    with pytest.raises(AttributeError, match="'write' attribute"):
        save(1, 3)
    with pytest.raises(AttributeError, match="seekable"):
        load(3)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise ValueError("not me")


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.pt"
    save(tensor(1), path)
    with pytest.raises(ValueError, match="not me"):
        save([tensor(2), Unpicklable()], path)
    assert load(path).item() == 1 and os.listdir(tmp_path) == ["x.pt"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_permissions_and_links_are_those_of_a_plain_open(tmp_path: pathlib.Path) -> None:
    path, link = tmp_path / "x.pt", tmp_path / "link.pt"
    mask = os.umask(0o027)
    try:
        save(tensor(1), path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    save(tensor(2), link)
    assert link.is_symlink() and load(path).item() == 2 and stat.S_IMODE(path.stat().st_mode) == 0o604
    save(tensor(1), os.devnull)
    assert not os.path.isfile(os.devnull)


def test_places_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RuntimeError, match=r"Parent directory .* does not exist"):
        save(1, tmp_path / "no" / "x.pt")
    with pytest.raises(RuntimeError, match="directory"):
        save(1, tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "x.pt")


# -- devices --------------------------------------------------------------------------------------------------------------
def on(location: str) -> bytes:
    pickled = GOLDEN.replace(b"X\x03\x00\x00\x00cpu", b"X" + struct.pack("<I", len(location)) + location.encode())
    return hand_made(pickled, {"data/0": bytes(20)})


def test_map_location() -> None:
    data, seen = on("cuda:1"), []

    def place(storage: Any, location: str) -> Any:
        seen.append((type(storage), location))
        return storage

    for target in ("cpu", b"cpu", device("cpu"), {"cuda:1": "cpu"}, place):
        assert loaded(data, map_location=target).shape == (2, 2)
    assert seen == [(UntypedStorage, "cuda:1")]
    for arguments in ({}, {"map_location": {"cuda:0": "cpu"}}, {"map_location": lambda storage, location: None}):
        with pytest.raises(RuntimeError, match=r"CUDA device but torch.cuda.is_available\(\) is False"):
            loaded(data, **arguments)
    with pytest.raises(RuntimeError, match=r"don't know how to restore data location of torch.storage.UntypedStorage"):
        loaded(on("nowhere"))
    with pytest.raises(TypeError, match="map_location"):
        loaded(data, map_location=3)


def test_register_package_adds_a_place() -> None:
    from flambeau.serialization import locations

    before = list(locations._packages)
    serialization.register_package(5, lambda storage: "shelf", lambda storage, location: storage if location == "shelf" else None)
    try:
        data = saved(tensor(1))
        assert b"shelf" in data and loaded(data).item() == 1
    finally:
        locations._packages[:] = before
    with pytest.raises(RuntimeError, match="shelf"):
        loaded(data)


# -- what a load may run --------------------------------------------------------------------------------------------------
class Runs:
    """Pickles as a call of ``function(*args)``."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


TOUCH = text("open(__import__('os').environ['FLAMBEAU_WITNESS'], 'w').close()")
ATTACKS = {
    "system": call("os", "system", text('echo > "$FLAMBEAU_WITNESS"')),
    "posix": call("posix", "system", text('echo > "$FLAMBEAU_WITNESS"')),
    "eval": call("builtins", "eval", TOUCH),
    "python 2 eval": call("__builtin__", "eval", TOUCH),
    "exec": call("builtins", "exec", TOUCH),
    "getattr": call("builtins", "getattr", call("builtins", "__import__", text("os")), text("system")),
    "subprocess": call("subprocess", "check_call", text("true")),
    "nested in a list": b"]" + call("builtins", "eval", TOUCH) + b"a",
    "nested in arguments": call("collections", "OrderedDict", call("builtins", "eval", TOUCH)),
    "in a dict's key": b"}" + call("builtins", "eval", TOUCH) + b"Ns",
    "in a storage id": b"(" + text("storage") + call("builtins", "eval", TOUCH) + text("0") + text("cpu") + b"K\x01tQ",
    "import through torch": call("torch.serialization", "os.system", text("true")),
    "other function of torch": call("torch", "load", text("x")),
    "hub": call("torch.hub", "load", text("x"), text("y")),
    "own package": call("flambeau.serialization.files", "load", text("x")),
    "runner": call("flambeau.__main__", "main", text("x")),
    "dotted names": call("collections", "OrderedDict.__init__.__globals__", text("x")),
    "as the type of a tensor": call(
        "torch._tensor", "_rebuild_from_type_v2", b"cbuiltins\neval\n", b"ctorch\nTensor\n", b"(" + TOUCH + b"t", b"}"
    ),
    "a type as the function": call("torch._tensor", "_rebuild_from_type_v2", b"cbuiltins\nset\n", b"ctorch\nTensor\n", b")", b"}"),
    "calling a value": b"ctorch\nTensor\n(K\x01tR",
    "calling a dtype": b"ctorch\nfloat32\n(K\x01tR",
    "class of a dict": DICT + b"}" + text("__class__") + b"cbuiltins\nset\nsb",
    "method of a dict": DICT + b"}" + text("items") + b"cbuiltins\nset\nsb",
    "state of a function": b"ctorch._utils\n_rebuild_tensor_v2\n}" + text("__code__") + b"Nsb",
    "state of a class": b"ccollections\nOrderedDict\n}" + text("get") + b"Nsb",
    "instance": b"(" + TOUCH + b"ibuiltins\neval\n",
    "object": b"(cbuiltins\neval\n" + TOUCH + b"o",
    "new object": b"cbuiltins\nobject\n)\x81",
    "new object of a value": b"ctorch\nfloat32\n)\x81",
    "stack global": text("builtins") + text("eval") + b"\x93" + TOUCH + b"\x85R",
    "extension": b"\x82\x01" + TOUCH + b"\x85R",
    "codec": call("_codecs", "encode", text("x"), text("zlib")),
    "memory bomb": call("builtins", "bytearray", b"J\xff\xff\xff\x7f"),
    "other persistent id": text("module") + b"\x85Q",
}


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("is_zip", [True, False])
def test_malicious_pickles_run_nothing(name: str, is_zip: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = tmp_path / "witness"
    monkeypatch.setenv("FLAMBEAU_WITNESS", str(witness))

    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the file ran code")

    head = b"".join(pickle.dumps(header, 2) for header in (0x1950A86A20F9469CFC6C, 1001, {}))

    def load_pickle(pickled: bytes) -> Any:
        return loaded(hand_made(pickled) if is_zip else head + pickled + pickle.dumps([], 2))

    assert load_pickle(pickle.dumps({}, 2)) == {}  # imports what loading imports, encodings of names too: that runs code as well
    for owner, function in ((os, "system"), (builtins, "eval"), (builtins, "exec"), (subprocess, "check_call")):
        monkeypatch.setattr(owner, function, fail)
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        load_pickle(b"\x80\x02" + ATTACKS[name] + b".")
    assert not witness.exists()


@pytest.mark.parametrize("function", [os.system, eval, print, getattr, pickle.loads, subprocess.Popen, Tensor.__init__])
def test_calls_of_python_objects_are_refused(function: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        loaded(saved({"x": [Runs(function, "1")]}))


def test_the_refusal_names_the_global_and_the_ways_out() -> None:
    with pytest.raises(pickle.UnpicklingError) as caught:
        loaded(saved(Plain(1)))
    message = str(caught.value)
    for part in ("Weights only load failed", f"{__name__}.Plain", "weights_only", "add_safe_globals", "WeightsUnpickler error"):
        assert part in message


def test_attributes_that_are_no_state_are_refused() -> None:
    marked = Parameter(tensor(1))
    marked.x = 1  # type: ignore[attr-defined]
    data = saved(marked)
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        pickled = file.read("archive/data.pkl").replace(text("x"), text("__class__"))
        with pytest.raises(RuntimeError, match="attribute names"):
            loaded(hand_made(pickled, {"data/0": file.read("archive/data/0")}))


def test_unrestricted_load_is_asked_for_by_name() -> None:
    data = saved(Runs(collections.deque, [1, 2]))
    with pytest.raises(pickle.UnpicklingError):
        loaded(data)
    assert loaded(data, weights_only=False) == collections.deque([1, 2])


def test_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(Runs(collections.deque, [1, 2]))
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        assert len(loaded(data)) == 2
    with pytest.raises(pickle.UnpicklingError):
        loaded(data, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        loaded(data)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError):
        loaded(data, weights_only=False)


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_safe_globals_allow_exactly_what_they_name() -> None:
    data = saved([Plain(tensor(4)), Plain(5)])
    serialization.add_safe_globals([Plain])
    try:
        assert loaded(data)[1].value == 5 and serialization.get_safe_globals() == [Plain]
        with pytest.raises(pickle.UnpicklingError):
            loaded(saved(Runs(eval, "1")))
    finally:
        serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        loaded(data)
    with zipfile.ZipFile(io.BytesIO(saved(Plain(1)))) as file:
        other = hand_made(file.read("archive/data.pkl").replace(b"Plain", b"Elsewhere"))
    with serialization.safe_globals([(Plain, f"{__name__}.Elsewhere")]):
        assert loaded(other).value == 1


def test_blocked_modules_cannot_be_allowed() -> None:
    with serialization.safe_globals([os.system, (os.system, "posix.system"), (os.system, "os.system")]):
        with pytest.raises(pickle.UnpicklingError, match="blocked"):
            loaded(saved(Runs(os.system, "true")))


def test_unsafe_names_are_listed_without_running_anything() -> None:
    data = io.BytesIO(saved([tensor(1), Runs(eval, "1/0"), Plain(1)]))
    assert serialization.get_unsafe_globals_in_checkpoint(data) == ["builtins.eval", f"{__name__}.Plain"]
    with pytest.raises(ValueError, match="checkpoint"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"no"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x05tQ", b"K\x06tQ"),  # more elements than bytes
        (b"K\x05tQ", b"J\xff\xff\xff\xfftQ"),  # a negative number of them
        (b"QK\x01", b"QK\x02"),  # the last element lies behind the storage
        (b"QK\x01", b"QJ\xff\xff\xff\xff"),  # the first lies before it
        (b"K\x02K\x02\x86", b"K\x02K\x03\x86"),  # one row more
        (b"K\x01K\x02\x86\x89", b"J\xff\xff\xff\xffK\x02\x86\x89"),  # a negative stride
        (b"K\x01K\x02\x86\x89", b"K\x01\x85\x89"),  # a stride too few
        (b"K\x02K\x02\x86K", b"K\x02\x88\x86K"),  # a size that is no number
        (b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x001"),  # a record that is not there
        (b"FloatStorage", b"QInt8Storage"),  # a kind that is not known
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_tensors_cannot_reach_outside_their_storage(old: bytes, new: bytes, weights_only: bool) -> None:
    assert GOLDEN.count(old) == 1
    data = hand_made(GOLDEN.replace(old, new), {"data/0": bytes(20)})
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        loaded(data, weights_only=weights_only)


# -- damage ---------------------------------------------------------------------------------------------------------------
ERRORS = (RuntimeError, EOFError, pickle.UnpicklingError)


@pytest.mark.parametrize("is_zip", [True, False])
def test_files_cut_off_anywhere_are_errors(is_zip: bool) -> None:
    data = saved({"a": tensor(1, 2, 3), "b": Parameter(tensor(4))}, _use_new_zipfile_serialization=is_zip)
    for length in [*range(0, len(data) - 1, 5), len(data) - 1]:
        with pytest.raises(ERRORS):
            loaded(data[:length])


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_are_errors_or_change_values_only(is_zip: bool) -> None:
    data = saved({"a": tensor(1, 2, 3), "b": Parameter(tensor(4)), "c": Size([1])}, _use_new_zipfile_serialization=is_zip)
    rng = np.random.default_rng(0)
    failures = 0
    for _ in range(600):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= 1 << rng.integers(8)
        try:
            loaded(bytes(damaged))
        except ERRORS:
            failures += 1
        except ValueError as error:
            assert "endianness" in str(error)
    assert failures > 100


def test_damage_to_stored_numbers_is_noticed() -> None:
    data = saved(wrap(np.full(100, 1.5)))
    position = data.index(np.float64(1.5).tobytes() * 3)
    with pytest.raises(RuntimeError, match="checksum"):
        loaded(data[:position] + b"\x01" + data[position + 1 :])


@pytest.mark.parametrize("data", [b"", b"hello world", b"PK\x03\x04abc", b"\x80", b"GIF89a" * 99, pickle.dumps({"a": 1}, 2), b"\x80\x02}."])
@pytest.mark.parametrize("weights_only", [True, False])
def test_other_files_are_errors(data: bytes, weights_only: bool) -> None:
    with pytest.raises(ERRORS):
        loaded(data, weights_only=weights_only)


def test_kinds_of_files_that_cannot_be_read_say_so() -> None:
    with pytest.raises(RuntimeError, match="TorchScript"):
        loaded(hand_made(b"\x80\x02N.", {"constants.pkl": b""}))
    with pytest.raises(RuntimeError, match=r"TorchScript.*torch.jit.load"):
        loaded(hand_made(b"\x80\x02N.", {"constants.pkl": b""}), weights_only=False)
    tar = bytes(257) + b"ustar" + bytes(250)
    with pytest.raises(RuntimeError, match=r"\.tar"):
        loaded(tar)
    with pytest.raises(NotImplementedError, match=r"\.tar"):
        loaded(tar, weights_only=False)
    with pytest.raises(RuntimeError, match="mmap"):
        loaded(saved(1, _use_new_zipfile_serialization=False), mmap=True)
    with pytest.raises(RuntimeError, match="file not found"):
        loaded(hand_made(b"\x80\x02N.").replace(b"data.pkl", b"else.pkl"))


# -- pickle and copy ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_pickle(protocol: int) -> None:
    x = wrap(np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3))
    marked = tensor(1).as_subclass(Marked)
    marked.note = 3
    contents = [x, share(x._array.T, storage_of(x)), Parameter(tensor(2)), marked, tensor(1).requires_grad_(), wrap(np.ones(2, np.uint16))]
    back = pickle.loads(pickle.dumps(contents, protocol))
    assert [type(value) for value in back] == [Tensor, Tensor, Parameter, Marked, Tensor, Tensor]
    assert all(same_bits(a._array, b._array) and a.requires_grad == b.requires_grad for a, b in zip(contents, back, strict=True))
    assert back[1].stride() == (1, 3) and back[3].note == 3
    back[0]._array[0, 1] = 9
    assert back[1]._array[1, 0] == 9


def test_deepcopy_copies_memory_once_and_keeps_views() -> None:
    x = wrap(np.arange(6, dtype=np.float32)).requires_grad_()
    x.grad = tensor(*range(6))
    marked = tensor(1).as_subclass(Marked)
    marked.note, marked.extra = [1], [2]
    view = share(x._array[::2], storage_of(x))
    copied, copied_view, copied_data, copied_marked, again = copy.deepcopy([x, view, x.data, marked, x])
    assert again is copied and copied.requires_grad and copied.grad is not x.grad and copied.grad.tolist() == x.grad.tolist()
    copied._array[2] = 50
    assert copied_view.tolist() == [0, 50, 4] and copied_data.tolist()[2] == 50 and x.tolist() == [0, 1, 2, 3, 4, 5]
    assert type(copied_marked) is Marked and copied_marked.note == [1] and copied_marked.extra == [2]
    assert copied_marked.note is not marked.note and copied_marked.extra is not marked.extra
    parameter = copy.deepcopy(Parameter(tensor(1), requires_grad=False))
    assert type(parameter) is Parameter and not parameter.requires_grad


def test_a_shallow_copy_shares_memory() -> None:
    x = tensor(1, 2).requires_grad_()
    copied = copy.copy(x)
    copied._array[0] = 5
    assert copied is not x and x.tolist() == [5, 2] and copied.requires_grad


# -- exchange with PyTorch ------------------------------------------------------------------------------------------------
def real(value: Tensor) -> Any:
    """The same tensor in real PyTorch."""
    torch = pytorch()
    array = np.ascontiguousarray(value._array)
    flat = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
    return flat.view(getattr(torch, value.dtype.name)).reshape(value.shape)


def pair(name: str) -> tuple[Tensor, Any]:
    result = wrap(values(dtypes.ALL[name]))
    return result, real(result)


def torch_saved(value: Any, **arguments: Any) -> bytes:
    torch = pytorch()
    buffer = io.BytesIO()
    torch.save(value, buffer, **arguments)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_pytorch_reads_ours_and_we_read_pytorch_s(name: str, weights_only: bool) -> None:
    torch = pytorch()
    ours, theirs = pair(name)
    read = torch.load(io.BytesIO(saved(ours)), weights_only=weights_only)
    assert read.dtype is theirs.dtype and torch.equal(read.contiguous().view(torch.uint8), theirs.view(torch.uint8))
    back = loaded(torch_saved(theirs), weights_only=weights_only)
    assert same_bits(back._array, ours._array)
    if name not in ("uint16", "uint32", "uint64", "complex32") and not name.startswith("float8"):  # the old format has no room for these
        read = torch.load(io.BytesIO(saved(ours, _use_new_zipfile_serialization=False)), weights_only=weights_only)
        assert torch.equal(read, theirs)
        assert same_bits(loaded(torch_saved(theirs, _use_new_zipfile_serialization=False), weights_only=weights_only)._array, ours._array)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_files_equal_pytorch_s_byte_for_byte(tmp_path: pathlib.Path) -> None:
    torch = pytorch()
    ours, theirs = {}, {}
    for name in ALL_DTYPES:
        ours[name], theirs[name] = pair(name)
    x, y = wrap(np.arange(6, dtype=np.float32)), torch.arange(6, dtype=torch.float32)
    ours.update(v=x, w=share(x._array[1::2], storage_of(x)), p=Parameter(tensor(1, 2)), s=Size([2]), d=dtypes.float32, e=tensor())
    theirs.update(v=y, w=y[1::2], p=torch.nn.Parameter(torch.tensor([1.0, 2.0])), s=torch.Size([2]), d=torch.float32, e=torch.empty(0))
    for value, write in ((ours, save), (theirs, torch.save)):
        write(value, str(tmp_path / "same.name.pt"))
        os.rename(tmp_path / "same.name.pt", tmp_path / f"{write.__module__.partition('.')[0]}")
    a, b = (tmp_path / "flambeau").read_bytes(), (tmp_path / "torch").read_bytes()
    different = a.index(b".data/serialization_id")
    assert len(a) == len(b) and a[:different] == b[:different]
    with zipfile.ZipFile(tmp_path / "flambeau") as one, zipfile.ZipFile(tmp_path / "torch") as two:
        known = [(entry.filename, entry.header_offset, entry.file_size, entry.flag_bits) for entry in one.infolist()]
        assert known == [(entry.filename, entry.header_offset, entry.file_size, entry.flag_bits) for entry in two.infolist()]


def test_wide_fields_are_read_by_pytorch_and_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytorch()
    original = archive._wide_fields
    # Every record gets a wide field of its position, although that would fit.
    monkeypatch.setattr(archive, "_wide_fields", lambda size, position: original(size, position) or struct.pack("<HHQ", 1, 8, position))
    plain = saved([tensor(1, 2), tensor(3)])
    assert [x.tolist() for x in loaded(plain)] == [[1, 2], [3]]
    assert [x.tolist() for x in torch.load(io.BytesIO(plain))] == [[1, 2], [3]]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("is_zip", [True, False])
def test_pytorch_s_state_dicts(weights_only: bool, is_zip: bool) -> None:
    torch = pytorch()
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    state = {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    back = loaded(torch_saved(state, _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    assert back["epoch"] == 3 and back["model"]._metadata == state["model"]._metadata
    for name, value in state["model"].items():
        assert back["model"][name].tolist() == value.tolist() and back["model"][name].shape == tuple(value.shape)
    assert back["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    assert back["optimizer"]["state"][0]["exp_avg"].tolist() == state["optimizer"]["state"][0]["exp_avg"].tolist()
    assert back["rng"].tolist() == state["rng"].tolist()


def test_pytorch_reads_our_views_parameters_and_containers() -> None:
    torch = pytorch()
    x = wrap(np.arange(6, dtype=np.float64).reshape(2, 3))
    state = collections.OrderedDict(weight=Parameter(tensor(1)))
    state._metadata = {"": {"version": 2}}  # type: ignore[attr-defined]
    contents = {"x": x, "t": share(x._array.T, storage_of(x)), "s": state, "size": Size([1, 2]), "d": [dtypes.bool_, device("cpu")]}
    back = torch.load(io.BytesIO(saved(contents)), weights_only=True)
    assert back["t"].data_ptr() == back["x"].data_ptr() and torch.equal(back["t"], back["x"].t())
    assert back["s"]._metadata == {"": {"version": 2}} and type(back["s"]["weight"]) is torch.nn.Parameter
    assert back["size"] == torch.Size([1, 2]) and back["d"] == [torch.bool, torch.device("cpu")]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("is_zip", [True, False])
def test_pytorch_s_conjugate_views_come_back_resolved(is_zip: bool, weights_only: bool) -> None:
    torch = pytorch()
    x = torch.arange(12).reshape(3, 4) * (1 + 2j)
    views = [x, x.conj(), x.conj().t()[1:], x.conj()[::2, 1:], torch._neg_view(x.conj()), torch.nn.Parameter(x.conj())]
    back = loaded(torch_saved(views, _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    for ours, theirs in zip(back, views, strict=True):
        assert ours.tolist() == theirs.tolist() and ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
    imaginary = loaded(torch_saved(x.conj().imag, _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    assert imaginary.tolist() == (-x.imag).tolist()


def test_pytorch_s_layouts_and_parameter_state() -> None:
    torch = pytorch()
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.note = "x"
    layout, back = loaded(torch_saved([torch.strided, parameter]))
    assert str(layout) == "torch.strided" and back.note == "x" and type(back) is Parameter
    assert torch.load(io.BytesIO(saved([layout, back])))[0] is torch.strided
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own: a prototype
        nested = torch_saved(torch.nested.nested_tensor([torch.ones(2)]))
    with pytest.raises(NotImplementedError, match="nested"):
        loaded(nested)


def test_names_of_pytorch_without_counterpart_are_not_imported() -> None:
    torch = pytorch()
    with pytest.raises(pickle.UnpicklingError, match=r"torch.nn.backends.thnn._get_thnn_function_backend"):
        loaded(hand_made(b"\x80\x02ctorch.nn.backends.thnn\n_get_thnn_function_backend\n."), weights_only=False)
    with pytest.raises(pickle.UnpicklingError, match="no counterpart"):
        loaded(torch_saved(torch._sources.parse_def), weights_only=False)


def test_numpy_numbers_need_to_be_allowed() -> None:
    data = torch_saved({"loss": np.float64(0.5)})
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        loaded(data)
    with serialization.safe_globals([np._core.multiarray.scalar, np.dtype, np.dtypes.Float64DType]):
        assert loaded(data) == {"loss": 0.5}


def test_whole_modules_of_pytorch_become_ours(oracle: Any) -> None:
    from flambeau import nn

    theirs = oracle.nn.Sequential(
        oracle.nn.Linear(3, 4), oracle.nn.BatchNorm1d(4), oracle.nn.ReLU(), oracle.nn.Dropout(0.5), oracle.nn.Linear(4, 2)
    ).eval()
    data = torch_saved({"net": theirs})
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        loaded(data)
    ours = loaded(data, weights_only=False)["net"]
    assert type(ours) is nn.Sequential and [type(layer).__name__ for layer in ours] == [type(layer).__name__ for layer in theirs]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(ours(wrap(x)).detach()._array, theirs(oracle.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-6)
    with serialization.safe_globals([nn.Linear]):
        allowed = loaded(torch_saved(theirs[0]))
    assert type(allowed) is nn.Linear and allowed.weight.tolist() == theirs[0].weight.tolist()


def test_whole_modules_of_ours_come_back() -> None:
    from flambeau import nn

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    data = saved(net)
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        loaded(data)
    back = loaded(data, weights_only=False)
    x = wrap(np.ones((2, 3), np.float32))
    assert back(x).tolist() == net(x).tolist() and list(back.state_dict()) == list(net.state_dict())
