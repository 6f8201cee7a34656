"""A program for ``test_hostile_files``: every place in a pickle where a file's object is looked at, with every kind of object in it.

    python tests/programs/hostile_files.py zip 6000      # or legacy; how deeply objects are nested
    python -m tests.programs.hostile_files --fuzz 100000 --seed 0      # see fuzzed_files

It says what it tries, so that the last line names the file that ended it.  The stack is a small one: hashing 5,000 tuples inside of one
another ends the process, as it would with 150,000 and the usual stack.
"""

from __future__ import annotations

import io
import pickle
import resource
import signal
import struct
import sys
import zipfile

from flambeau.serialization import load

STACK = 256 << 10
SOON = 2.0  # seconds of processor time: what looks at each of 6,000 objects 6,000 times takes longer

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def call(name: str, *args: bytes) -> bytes:
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode() + b"(" + b"".join(args) + b"tR"


def number(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def storage(*changed: tuple[int, bytes]) -> bytes:
    """A storage of one float, with parts of its id replaced."""
    parts = [text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), b"K\x01"]
    if form == "legacy":
        parts.append(b"N")
    for index, part in changed:
        parts[index : index + 1] = [part]
    return b"(" + b"".join(parts) + b"tQ"


def tensor(**changed: bytes) -> bytes:
    """A tensor of one float, with arguments of its rebuilding replaced."""
    usual = {
        "made": storage(),
        "offset": b"K\x00",
        "size": b"K\x01\x85",
        "stride": b"K\x01\x85",
        "grad": b"\x89",
        "hooks": DICT,
        "metadata": b"N",
    }
    return call("torch._utils._rebuild_tensor_v2", *{**usual, **changed}.values())


def objects(depth: int) -> dict[str, bytes]:
    return {
        "deep TUPLE1": b")" + b"\x85" * depth,
        "deep TUPLE2": b")" + b"N\x86" * depth,
        "deep TUPLE": b"(" * depth + b"t" * depth,
        "deep list": b"]" * depth + b"a" * (depth - 1),
        "deep dict": (b"}" + text("k")) * depth + b"N" + b"s" * depth,
        "doubled TUPLE2": b")" + b"q\x00h\x00\x86" * 60,
        "doubled TUPLE3": b")" + b"q\x00h\x00h\x00\x87" * 60,
        "doubled TUPLE": b")" + b"q\x00" + b"(h\x00h\x00tq\x00" * 60,
        "doubled list": b"]q\x00" + b"](h\x00h\x00eq\x00" * 60,
    }


form, DEPTH = (sys.argv[1], int(sys.argv[2])) if sys.argv[1:2] in (["zip"], ["legacy"]) else ("zip", 1)
DICT = b"ccollections\nOrderedDict\n)R"
OBJECTS = objects(DEPTH)
PLACES = {
    "key": lambda x: b"}" + x + b"Ns",
    "keys": lambda x: b"}(" + x + b"Nu",
    "key of an OrderedDict": lambda x: DICT + x + b"Ns",
    "function": lambda x: x + b")R",
    "arguments": lambda x: b"ccollections\nOrderedDict\n" + x + b"R",
    "class": lambda x: x + b")\x81",
    "arguments of a new object": lambda x: b"ctorch.nn.parameter\nParameter\n" + x + b"\x81",
    "built": lambda x: x + b"}b",
    "state": lambda x: DICT + x + b"b",
    "name of an attribute": lambda x: DICT + b"}" + x + b"Nsb",
    "persistent id": lambda x: x + b"Q",
    "word of a persistent id": lambda x: storage((0, x)),
    "type of a storage": lambda x: storage((1, x)),
    "key of a storage": lambda x: storage((2, x)),
    "place of a storage": lambda x: storage((3, x)),
    "size of a storage": lambda x: storage((4, x)),
    "view of a storage": lambda x: storage((5, x)) if form == "legacy" else storage((4, b"K\x01" + x)),
    "key of a view": lambda x: storage((5, b"(" + x + b"K\x00K\x01t")) if form == "legacy" else storage((4, x)),
    "part of a view": lambda x: storage((5, b"(" + text("v") + x + b"K\x01t")) if form == "legacy" else storage((4, x)),
    "storage": lambda x: tensor(made=x),
    "size": lambda x: tensor(size=x),
    "stride": lambda x: tensor(stride=x),
    "offset": lambda x: tensor(offset=x),
    "hooks": lambda x: tensor(hooks=x),
    "metadata": lambda x: tensor(metadata=x),
    "function of a subclass": lambda x: call("torch._tensor._rebuild_from_type_v2", x, b"ctorch\nTensor\n", b")", b"N"),
    "subclass": lambda x: call("torch._tensor._rebuild_from_type_v2", b"ctorch._utils\n_rebuild_tensor\n", x, b")", b"N"),
    "appended to": lambda x: b"N" + x + b"Na" if x[:1] != b"]" else x + b")R",
    "second index of a device": lambda x: call("torch.device", text("cuda"), x),
    "layout": lambda x: call("torch.serialization._get_layout", x),
    "encoding": lambda x: call("_codecs.encode", text(""), x),
    "items of a set": lambda x: call("builtins.set", b"]" + x + b"a"),
    "items of a Counter": lambda x: call("collections.Counter", b"]" + x + b"a"),
    "pair of an OrderedDict": lambda x: call("collections.OrderedDict", b"]" + x + b"N\x86a"),
    "items of a Size": lambda x: call("torch.Size", b"]" + x + b"a"),
}
# A dictionary is what belongs there, and nothing looks inside.
HARMLESS = {("deep dict", "state"), ("deep dict", "hooks")}

BOUNDLESS = tensor(size=number(10**15) + b"\x85", stride=b"K\x00\x85")  # of one element in memory
OTHERS = {
    "items of a tensor": call("builtins.set", BOUNDLESS),
    "pairs of a tensor": call("collections.OrderedDict", BOUNDLESS),
    "pair that is a tensor": call("collections.OrderedDict", b"]" + BOUNDLESS + b"a"),
    "counts of a tensor": call("collections.Counter", BOUNDLESS),
    "size of a tensor": call("torch.Size", BOUNDLESS),
    "bytes of a tensor": call("builtins.bytearray", BOUNDLESS),
    "long text": b"X\xff\xff\xff\xff",
    "long number": b"\x8b\xff\xff\xff\x7f",
    "equal keys": b"}" + b"".join((b")" + b"q\x00h\x00\x86" * 30 + b"Ns") for _ in range(2)),
    "a million": b"}" + b")" + b"\x85" * 1_000_000 + b"Ns",
}


def file_of(pickled: bytes, keys: bytes = b"]X\x01\x00\x00\x000a.") -> bytes:
    pickled = b"\x80\x02" + pickled + b"."
    if form == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr("any/data.pkl", pickled)
            file.writestr("any/data/0", bytes(4))
        return buffer.getvalue()
    head = b"".join(pickle.dumps(item, 2) for item in (0x1950A86A20F9469CFC6C, 1001, {}))
    return head + pickled + b"\x80\x02" + keys + struct.pack("<q", 1) + bytes(4)


def attempt(what: str, data: bytes, expects_error: bool = True, seconds: float = SOON) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(60)
    try:
        load(io.BytesIO(data))
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        assert len(str(error)) < 2000, f"{what}: a message of {len(str(error))} characters"
    else:
        assert not expects_error, f"{what}: accepted"


def run() -> None:
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, resource.getrlimit(resource.RLIMIT_STACK)[1]))
    for where, place in PLACES.items():
        for name, payload in OBJECTS.items():
            print(f"{name} as {where}", flush=True)
            attempt(f"{name} as {where}", file_of(place(payload)), (name, where) not in HARMLESS)
    for name, pickled in OTHERS.items():
        print(name, flush=True)
        attempt(name, file_of(pickled), seconds=30)
    for name, payload in objects(4 * DEPTH).items():
        print(f"{name} alone, and let go", flush=True)
        attempt(name, file_of(payload + b"Nq\x01\x86"), False)
        if form == "legacy":
            for index in range(4):
                parts = [pickle.dumps(item, 2) for item in (0x1950A86A20F9469CFC6C, 1001, {}, [], [])]
                parts[index if index < 2 else index + 1] = b"\x80\x02" + payload + b"."
                print(f"{name} as part {index}", flush=True)
                attempt(name, b"".join(parts), index != 2)
            attempt(name, file_of(tensor(), b"]" + payload + b"a."))
    for name, step in (("an attribute", b"}" + text("k") + DICT), ("an item", text("k") + DICT)):
        for end in (b"sb", b"s"):
            print(f"dictionaries as {name} of one another", flush=True)
            if (name == "an attribute") == (end == b"sb"):
                attempt(name, file_of(DICT + step * DEPTH + end * DEPTH), False)


if __name__ == "__main__":
    if "--fuzz" in sys.argv:
        import fuzzed_files

        fuzzed_files.main(sys.argv[1:])
    else:
        run()
    print("done")
