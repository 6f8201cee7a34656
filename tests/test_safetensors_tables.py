"""Tables of ``.safetensors`` files, sound and changed at random: what the format's own library refuses is refused, and nothing else."""

from __future__ import annotations

import json
import pathlib
import random
import struct
from typing import Any

import pytest

import flambeau

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8}
SIZES |= {"C64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}
COUNT = 3000


def sound(chance: random.Random) -> tuple[dict[str, Any], int]:
    """A table, in any order, and how many bytes it speaks of."""
    entries, end = {}, 0
    for number in range(chance.randrange(5)):
        dtype, shape = chance.choice(list(SIZES)), [chance.randrange(4) for _ in range(chance.randrange(4))]
        size = SIZES[dtype]
        for n in shape:
            size *= n
        entries[chance.choice(("weight", "bias", "a.b", "dtype", "é", "")) + str(number)] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [end, end + size],
        }
        end += size
    names = list(entries)
    chance.shuffle(names)
    table: dict[str, Any] = {name: entries[name] for name in names}
    if chance.random() < 0.3:
        table["__metadata__"] = {"format": "pt"}
    return table, end


STRANGE = (-1, 0, 1, 2, 3, 8, 2**31, 2**63, 2**64 - 1, 2**64, 2**70, 1.0, 0.5, -0.0, None, True, "1", "F32", [], {}, [0], [0, 0], [1, 2, 3])


def changed(table: dict[str, Any], chance: random.Random) -> None:
    """One change of a table's meaning."""
    items = [item for name, item in table.items() if name != "__metadata__" and isinstance(item, dict)]
    kind = chance.randrange(9)
    if kind == 0 or not items:
        table[chance.choice(("__metadata__", "x", "weight0"))] = chance.choice((*STRANGE, {"a": 1}, {"a": None}, {"a": "b"}, "text"))
        return
    item = chance.choice(items)
    if kind == 1:
        item[chance.choice(("dtype", "shape", "data_offsets"))] = chance.choice(STRANGE)
    elif kind == 2:
        item["dtype"] = chance.choice((*SIZES, "F6_E2M3", "f32", "F128", "", "BOOL "))
    elif kind == 3 and isinstance(item.get("data_offsets"), list) and item["data_offsets"]:
        place = chance.randrange(len(item["data_offsets"]))
        old = item["data_offsets"][place]
        item["data_offsets"][place] = old + chance.choice((-8, -1, 1, 4, 100)) if isinstance(old, int) else chance.choice(STRANGE)
    elif kind == 4 and isinstance(item.get("shape"), list):
        item["shape"].insert(chance.randrange(len(item["shape"]) + 1), chance.choice(STRANGE))
    elif kind == 5:
        item.pop(chance.choice(list(item)), None)
    elif kind == 6:
        item[chance.choice(("more", "Dtype", ""))] = chance.choice(STRANGE)
    elif kind == 7:
        name = chance.choice([name for name in table if name != "__metadata__"])
        table[f"{name}, again"] = json.loads(json.dumps(table[name]))
    else:
        del table[chance.choice(list(table))]


def spelled(text: bytes, chance: random.Random) -> bytes:
    """One change of how a table is written."""
    kind, place = chance.randrange(9), chance.randrange(len(text) + 1)
    if kind == 0:
        return text + chance.choice((b" ", b"   \n", b"\0", b"x", b"{}", b","))
    if kind == 1:
        return chance.choice((b" ", b"\n\t", b"\xef\xbb\xbf", b"[", b"\0")) + text
    if kind == 2:
        return text[:place] + bytes([chance.randrange(256)]) + text[place:]
    if kind == 3:
        return text[:place] + text[place + 1 :]
    if kind == 4:
        return text.replace(b'"dtype"', b'"dtype":"F32","dtype"', 1)
    if kind == 5:
        return text.replace(
            b'"shape"', chance.choice((b'"\\ud800"', b'"sh\\u0061pe"', b'"x":NaN,"shape"', b'"x":1e999,"shape"', b'"x":01,"shape"')), 1
        )
    if kind == 6:
        return text.decode().encode(chance.choice(("utf-16", "utf-32", "utf-8-sig", "utf-16-le")))
    if kind == 7:
        return text[:place] + bytes([text[place % len(text)] ^ 1 << chance.randrange(8)]) + text[place + 1 :]
    return chance.choice((b"null", b"[]", b"{}", b"", b"0", b'"x"', b'{"__metadata__":null}', b'{"a":{}}', b"[" * 200 + b"]" * 200))


def file_of(seed: int) -> bytes:
    chance = random.Random(seed)
    table, size = sound(chance)
    kind = chance.random()
    for _ in range(chance.choice((1, 1, 1, 2)) if kind < 0.5 else 0):
        changed(table, chance)
    text = json.dumps(table, ensure_ascii=chance.random() < 0.5, separators=chance.choice(((",", ":"), (", ", ": ")))).encode()
    if 0.5 <= kind < 0.75:
        text = spelled(text, chance)
    length, behind = len(text), size
    if 0.75 <= kind < 0.9:
        length = max(0, length + chance.choice((-1, 1, 8, 2**40, -length)))
        behind = max(0, size + chance.choice((0, 0, -1, 1, 64)))
    data = struct.pack("<Q", length) + text + random.Random(seed).randbytes(behind)
    return data[: chance.randrange(len(data))] if 0.9 <= kind < 0.93 else data


@pytest.mark.parametrize("block", range(6))
def test_tables_are_read_as_by_the_formats_library(block: int, oracle: Any, tmp_path: pathlib.Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    path = tmp_path / "x.safetensors"
    accepted = 0
    for seed in range(block * COUNT // 6, (block + 1) * COUNT // 6):
        path.write_bytes(file_of(seed))
        try:
            theirs: Any = library.load_file(path)
        except Exception as error:
            theirs = error
        try:
            ours: Any = flambeau.load(path)
        except RuntimeError as error:
            ours = error
            assert len(str(error)) < 1000
        if isinstance(theirs, dict) or isinstance(ours, dict):
            assert isinstance(ours, dict) and isinstance(theirs, dict), f"file {seed}: {ours!r}, {theirs!r}, {path.read_bytes()[:400]!r}"
            accepted += 1
            assert set(ours) == set(theirs), seed
            for name, x in ours.items():
                y = theirs[name]
                assert (str(x.dtype), tuple(x.shape)) == (str(y.dtype), tuple(y.shape)), seed
                same = [
                    tensor.contiguous().view(library_of.uint8).tolist() if tensor.ndim else None
                    for tensor, library_of in ((x, flambeau), (y, oracle))
                ]
                assert same[0] == same[1], seed
    assert 0.1 < accepted / (COUNT / 6) < 0.9, accepted


WRONG = {
    "overlapping": ({"a": ("F32", [2], [0, 8]), "b": ("F32", [2], [4, 12])}, 12),
    "one place for two": ({"a": ("F32", [2], [0, 8]), "b": ("F32", [2], [0, 8])}, 8),
    "a gap": ({"a": ("F32", [2], [0, 8]), "b": ("F32", [2], [12, 20])}, 20),
    "a gap in front": ({"a": ("F32", [2], [4, 12])}, 12),
    "bytes behind": ({"a": ("F32", [2], [0, 8])}, 9),
    "bytes and no tensor": ({}, 4),
    "too many elements": ({"a": ("F32", [2**62, 4, 0], [0, 0])}, 0),
    "a shape of fractions": ({"a": ("F32", [2.0], [0, 8])}, 8),
    "a shape of bools": ({"a": ("F32", [True], [0, 4])}, 4),
}


@pytest.mark.parametrize("name", WRONG)
def test_places_cover_the_file_once(name: str, tmp_path: pathlib.Path) -> None:
    entries, size = WRONG[name]
    table = {key: dict(zip(("dtype", "shape", "data_offsets"), entry)) for key, entry in entries.items()}
    text = json.dumps(table).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(size))
    with pytest.raises(RuntimeError, match="no sound safetensors file"):
        flambeau.load(tmp_path / "x.safetensors")
