"""The format of files, how they are written to disks and read from them, and the devices that their tensors go to."""

from __future__ import annotations

import io
import json
import os
import pathlib
import pickle
import pickletools
import stat
import struct
import sys
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from serialized import DICT, GOLDEN, call, hand_made, loaded, saved, tensor, text

from flambeau import serialization
from flambeau.core import dtype as dtypes
from flambeau.core.device import device
from flambeau.core.storage import UntypedStorage
from flambeau.core.tensor import Parameter, share, storage_of, wrap
from flambeau.serialization import archive, load, save
from flambeau.serialization.archive import LIMIT, _wide_fields
from flambeau.serialization.options import thread_options


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


@pytest.mark.parametrize("size, position, fields", [(LIMIT - 1, LIMIT - 1, 0), (LIMIT, 0, 2), (0, LIMIT, 1), (LIMIT + 5, LIMIT + 7, 3)])
def test_what_does_not_fit_in_four_bytes_has_eight(size: int, position: int, fields: int) -> None:
    """In ZIP64's extra field; the greatest number of four bytes says that the number is there."""
    given = _wide_fields(size, position)
    assert len(given) == (4 + 8 * fields if fields else 0)
    if fields:
        kind, length, *numbers = struct.unpack(f"<HH{fields}Q", given)
        assert (kind, length) == (1, 8 * fields)
        assert numbers == [number for number in (size, size, position) if number >= LIMIT]
