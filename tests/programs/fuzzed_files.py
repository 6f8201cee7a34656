"""Files damaged at random, and pickles of random instructions: whatever is in a file, a restricted load answers with data or an error.

    python -m tests.programs.hostile_files --fuzz 100000 --seed 0 [--start N]

Of each file it is checked that nothing runs (an audit hook hears of imports, files, processes and sockets), that the answer comes soon,
that it takes no more memory than twice the file and ``SLACK``, that tensors lie in memory of their own, and that nothing of what lay in
memory before is in them: memory that comes unfilled is full of ``POISON``. The number of a case and the seed make it again:
``--start N --fuzz 1``.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import io
import os
import pickle
import random
import signal
import struct
import sys
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import flambeau
from flambeau.kernels.compiler import memory
from flambeau.nested import _jagged, _strided
from flambeau.serialization import add_safe_globals, get_unsafe_globals_in_checkpoint, load

SLACK = 1 << 20  # bytes: an empty list takes 64 times as much memory as its instruction does in a file
SECONDS = 20
EXPECTED = (pickle.UnpicklingError, RuntimeError, EOFError, NotImplementedError, ValueError)
POISON = b"\xa5\x5a\xc3"  # repeated; three bytes, so that no element of a few bytes looks like one beside it

# Names that a file may try: what is allowed, what is near it, and what would be worth having.
NAMES = (
    "torch._utils._rebuild_tensor_v2 torch._utils._rebuild_tensor torch._utils._rebuild_tensor_v3 torch._utils._rebuild_parameter "
    "torch._utils._rebuild_parameter_with_state torch._tensor._rebuild_from_type_v2 torch._utils._rebuild_meta_tensor_no_storage "
    "torch._utils._rebuild_sparse_tensor torch._utils._rebuild_qtensor torch.per_channel_affine torch.QInt8Storage torch.sparse_csr "
    "torch._utils._rebuild_wrapper_subclass torch._utils._rebuild_nested_tensor torch.qint8 torch.DoubleStorage "
    "torch.Size torch.device torch.serialization._get_layout torch.FloatStorage torch.LongStorage "
    "torch.storage.UntypedStorage torch.float32 torch.int64 torch.Tensor torch.nn.parameter.Parameter collections.OrderedDict "
    "collections.Counter builtins.set builtins.complex builtins.bytearray builtins.bytes _codecs.encode __builtin__.set "
    "os.system posix.system builtins.eval builtins.exec builtins.getattr builtins.open builtins.__import__ subprocess.Popen "
    "pickle.loads importlib.import_module shutil.rmtree torch.load torch.hub.load torch.nn.modules.linear.Linear flambeau.load "
    "flambeau.runner.main flambeau.serialization.files.load numpy.load numpy._core.multiarray._reconstruct operator.attrgetter "
    "functools.partial types.CodeType collections.OrderedDict.__init__ torch.Tensor.__reduce_ex__ copyreg._reconstructor"
).split()
WORDS = ("storage", "0", "1", "cpu", "cuda:0", "meta", "__class__", "__reduce__", "_metadata", "latin1", "zlib", "module", "weight")


USUAL = [b"(", b")", b"]", b"}", b"N", b"\x88", b"\x89", b"t", b"\x85", b"\x86", b"\x87", b"R", b"\x81", b"b", b"Q", b"a"]
OTHERS = [b"s", b"u", b"e", b"\x8f", b"\x90", b"\x91", b"o", b"i", b"\x93", b"\x92", b"\x82\x01", b"0", b"2", b"1", b"P0\n", b"d", b"l"]


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(chance: random.Random) -> bytes:
    value = chance.choice((0, 1, 2, 3, 4, 5, 6, 255, 256, 2**31 - 1, -1, -(2**31), 2**40, 2**62, -(2**63)))
    return b"\x8a\x08" + struct.pack("<q", value)


def instruction(chance: random.Random) -> bytes:
    """One instruction; those that make values are likelier, so that the others find something on the stack."""
    kind = chance.random()
    if kind < 0.12:
        module, _, name = chance.choice(NAMES).rpartition(".")
        return f"c{module}\n{name}\n".encode()
    if kind < 0.22:
        return text(chance.choice(WORDS))
    if kind < 0.34:
        return number(chance)
    if kind < 0.42:
        key = text(chance.choice(("0", "1", "9")))
        return b"(" + text("storage") + b"ctorch\nFloatStorage\n" + key + text("cpu") + number(chance) + b"tQ"
    if kind < 0.85:
        return chance.choice(USUAL)
    if kind < 0.95:
        return chance.choice((b"q", b"h", b"K")) + bytes([chance.randrange(4)])
    return chance.choice(OTHERS)


def random_pickle(chance: random.Random) -> bytes:
    return b"\x80\x02" + b"".join(instruction(chance) for _ in range(chance.randrange(1, 40))) + b"."


def archive_of(pickled: bytes, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        file.writestr("any/data.pkl", pickled)
        file.writestr("any/byteorder", "little")
        for key in ("0", "1"):
            file.writestr(f"any/data/{key}", bytes(range(24)))
    return buffer.getvalue()


def legacy_of(pickled: bytes) -> bytes:
    head = b"".join(pickle.dumps(item, 2) for item in (0x1950A86A20F9469CFC6C, 1001, {}))
    return head + pickled + pickle.dumps(["0"], 2) + struct.pack("<q", 6) + bytes(24)


class Tagged(flambeau.Tensor):
    """A subclass that a program allows, with attributes of its own."""

    tag: Any


def sparse(layout: str, index: Any = flambeau.int64) -> Any:
    x = flambeau.zeros(4, 6)
    x[1, 2], x[3, 5], x[0, 4] = 1.5, 2.5, -1.0
    made = x.to_sparse(layout=getattr(flambeau, layout), **({"blocksize": (2, 3)} if layout.endswith(("bsr", "bsc")) else {}))
    if index is flambeau.int64:
        return made
    return flambeau.sparse_csr_tensor(made.crow_indices().to(index), made.col_indices().to(index), made.values(), made.shape)


def further_contents() -> list[Any]:
    """What is put together of several tensors, whose values say where others lie."""
    x = flambeau.arange(12.0).reshape(3, 4)
    tagged = x[:2].as_subclass(Tagged)
    tagged.tag = {"of": flambeau.arange(3), "n": 1}
    parameter = flambeau.nn.Parameter(flambeau.ones(2))
    parameter.note = [flambeau.arange(2)]
    return [
        [sparse(f"sparse_{name}") for name in ("coo", "csr", "csc", "bsr", "bsc")],
        sparse("sparse_csr", flambeau.int32),
        flambeau.sparse_coo_tensor([[1, 1, 0], [0, 0, 2]], [1.0, 2.0, 3.0], (2, 3)),
        flambeau.quantize_per_tensor(x, 0.5, 2, flambeau.quint8),
        flambeau.quantize_per_channel(x, flambeau.arange(3.0) + 1, flambeau.arange(3), 0, flambeau.qint8),
        {"q": flambeau.quantize_per_channel(x, flambeau.arange(4.0) + 1, flambeau.zeros(4), 1, flambeau.qint32), "s": sparse("sparse_coo")},
        [flambeau.nested.nested_tensor([x[0], x[1, :2]]), flambeau.nested.nested_tensor([x, x[:1]], layout=flambeau.jagged)],
        tagged,
        parameter,
    ]


def sound_files() -> list[bytes]:
    """What is damaged: both formats, all kinds of contents, with and without compression."""
    shared = flambeau.arange(12.0).reshape(3, 4)
    contents: list[Any] = [
        {"a": shared, "b": shared.t()[1:], "c": flambeau.arange(3), "d": flambeau.ones(2, dtype=flambeau.bfloat16), "n": None},
        flambeau.nn.Linear(3, 2).state_dict(),
        [
            flambeau.nn.Parameter(flambeau.ones(2)),
            {1, 2},
            collections.Counter("ab"),
            10**30,
            1j,
            b"xyz",
            flambeau.Size([2]),
            (1, (2, (3,))),
        ],
        flambeau.ones(2, dtype=flambeau.uint16),
        flambeau.ones(2, dtype=flambeau.complex64),
        *further_contents(),
    ]
    files = []
    for value in contents:
        for is_zip in (True, False):
            buffer = io.BytesIO()
            flambeau.save(value, buffer, _use_new_zipfile_serialization=is_zip)
            files.append(buffer.getvalue())
    with zipfile.ZipFile(io.BytesIO(files[0])) as archive:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in archive.namelist():
                packed.writestr(name, archive.read(name))
    return [*files, buffer.getvalue()]


NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF)


def damaged(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A file with one to four changes."""
    work = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        if not work:
            break
        place, kind = chance.randrange(len(work)), chance.randrange(8)
        if kind == 0:
            work[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            work[place] = chance.randrange(256)
        elif kind == 2:
            del work[place : place + chance.choice((1, 2, 8, 100))]
        elif kind == 3:
            work[place:place] = chance.randbytes(chance.choice((1, 2, 8)))
        elif kind == 4:
            work[place:place] = work[place : place + chance.choice((4, 30, 200))]
        elif kind == 5:
            width = chance.choice((2, 4, 8))
            work[place : place + width] = (chance.choice(NUMBERS) & (256**width - 1)).to_bytes(width, "little")
        elif kind == 6:
            del work[place:]
        else:
            other = chance.choice(others)
            start = chance.randrange(len(other))
            work[place : place + 50] = other[start : start + chance.choice((10, 50, 400))]
    return bytes(work)


def damaged_inside(data: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """An archive whose checksums are right, with one record damaged."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    changed = chance.choice([name for name in records if "/data" in name])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in records.items():
            packed.writestr(name, damaged(content, others, chance) if name == changed else content)
    return buffer.getvalue()


def case(seed: int, index: int, files: list[bytes]) -> bytes:
    """The file of a number."""
    chance = random.Random(f"{seed}/{index}")
    kind = chance.randrange(8)
    if kind == 0:
        return archive_of(random_pickle(chance), chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    if kind == 1:
        return legacy_of(random_pickle(chance))
    data = chance.choice(files)
    if kind == 2 and data[:2] != b"PK":  # the pickle's instructions rather than the bytes of the tensors
        head, tail = data[:600], data[600:]
        return damaged(head, files, chance) + tail
    if kind in (2, 3, 4) and data[:2] == b"PK":
        return damaged_inside(data, files, chance)
    return damaged(data, files, chance)


class Watch:
    """Hears what Python does while a file is loaded. A hook cannot be taken away, so there is one for the process."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.heard: list[str] = []
        self.is_on = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        if event in ("exec", "compile", "import", "marshal.loads", "pickle.find_class", "ctypes.dlopen") or event.split(".")[0] in (
            ("os", "subprocess", "socket", "shutil", "urllib", "ftplib", "smtplib", "webbrowser", "pty", "tempfile", "glob", "code")
        ):
            self.heard.append(f"{event} {args!r:.100}")
        elif event == "open" and args[0] != self.path:
            self.heard.append(f"open {args!r:.100}")


def poison_memory() -> None:
    """From now on memory that comes as ``empty`` is full of ``POISON``."""

    def filling(make: Callable[..., Any]) -> Callable[..., Any]:
        def empty(*args: Any, **kwargs: Any) -> Any:
            array = make(*args, **kwargs)
            if array.__class__ is np.ndarray and array.nbytes and array.flags.c_contiguous and not array.dtype.hasobject:
                flat = array.reshape(-1).view(np.uint8)
                flat[:] = np.frombuffer(POISON * (flat.size // len(POISON) + 1), np.uint8)[: flat.size]
            return array

        return empty

    np.empty, np.empty_like, memory.empty = filling(np.empty), filling(np.empty_like), filling(memory.empty)


def is_stale(array: Any, data: bytes) -> bool:
    """Whether an array has memory that came unfilled; what the file says itself does not count."""
    return array.__class__ is np.ndarray and array.nbytes >= 6 and POISON * 2 in array.tobytes() and POISON * 2 not in data


def values_of(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors in what was loaded, and those that they are put together of, not too deep."""
    if isinstance(value, flambeau.Tensor):
        if value.is_quantized:
            yield value.int_repr()
            if value.qscheme() is not flambeau.per_tensor_affine:
                yield from (value.q_per_channel_scales(), value.q_per_channel_zero_points())
        elif value.is_nested:
            yield from (getattr(value, name) for name in ("_inner", "_offsets", "_lengths") if getattr(value, name, None) is not None)
        elif value.layout is flambeau.sparse_coo:
            yield from (value.detach()._indices(), value.detach()._values())
        elif value.layout is not flambeau.strided:
            yield value.detach().values()
            names = (
                ("crow_indices", "col_indices")
                if value.layout in (flambeau.sparse_csr, flambeau.sparse_bsr)
                else ("ccol_indices", "row_indices")
            )
            yield from (getattr(value.detach(), name)() for name in names)
        else:
            yield value
        if depth < 6:
            yield from values_of(vars(value), depth + 1)
    elif isinstance(value, (list, tuple, dict)) and depth < 6:
        for item in list(value.values() if isinstance(value, dict) else value)[:20]:
            yield from values_of(item, depth + 1)


def of_allowed(error: BaseException) -> bool:
    """Whether a function or class that the program itself marked as safe raised it, for whose checks it answers."""
    names, trace = set(), error.__traceback__
    while trace is not None:
        names.add(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return any(f"{os.sep}nested{os.sep}" in name for name in names)


class Fuzzer:
    """Loads files in all ways, one after the other."""

    def __init__(self, seed: int) -> None:
        self.seed, self.files, self.counts = seed, sound_files(), collections.Counter[str]()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.path = os.path.join(self.folder.name, "file.pt")
        self.watch = Watch()
        add_safe_globals([Tagged, _strided._rebuilt, _jagged.rebuilt])
        for data in self.files:  # what is imported at a first use is imported now
            for _, attempt in self.ways(data):
                self.outcome(attempt, data)
        for index in range(200):
            for _, attempt in self.ways(data := case(-1, index, self.files)):
                self.outcome(attempt, data)
        poison_memory()

    def ways(self, data: bytes) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield "read", lambda: load(io.BytesIO(data))
        yield "mapped", lambda: self.mapped(data)
        yield "looked at", lambda: get_unsafe_globals_in_checkpoint(io.BytesIO(data))

    def mapped(self, data: bytes) -> Any:
        with open(self.path, "wb") as file:
            file.write(data)
        return load(self.path, mmap=True)

    def outcome(self, attempt: Callable[[], Any], data: bytes) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                value = attempt()
            except EXPECTED as error:
                assert len(str(error)) < 3000, f"a message of {len(str(error))} characters"
                return type(error).__name__
            except Exception as error:
                if not of_allowed(error):
                    raise
                return "refused by what the program allowed"
            for tensor in values_of(value):
                if not tensor.is_meta and tensor.numel() < 10_000:
                    tensor.tolist()
                    assert not is_stale(tensor._array, data), "a tensor shows what lay in memory before"
                    storage = tensor.untyped_storage()
                    assert not tensor.numel() or storage.data_ptr() <= tensor.data_ptr() < storage.data_ptr() + storage.nbytes()
        return "loaded"

    def run(self, index: int) -> None:
        """One case. Memory is measured where the number ends in 0, for that takes time."""
        data = case(self.seed, index, self.files)
        ways = list(self.ways(data))
        name, attempt = ways[0 if index % 4 < 2 else 1 if index % 4 == 2 else 2]
        measures = index % 10 == 0
        self.watch.path, self.watch.heard = self.path, []
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        if measures:
            tracemalloc.start()
        self.watch.is_on = True
        try:
            result = self.outcome(attempt, data)
        finally:
            self.watch.is_on = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            peak = tracemalloc.get_traced_memory()[1] if measures else 0
            tracemalloc.stop()
        assert not self.watch.heard, f"{name}: {self.watch.heard}"
        assert peak <= 2 * len(data) + SLACK, f"{name}: {peak} bytes for a file of {len(data)}"
        self.counts[f"{name}: {result}"] += 1


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Load files damaged at random.")
    parser.add_argument("--fuzz", type=int, required=True, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first")
    options = parser.parse_args(arguments)
    faulthandler.enable()
    fuzzer, begin = Fuzzer(options.seed), time.perf_counter()
    # A crash leaves the number behind.
    note = Path(tempfile.gettempdir()) / f"fuzzed-files-{os.getpid()}"
    for index in range(options.start, options.start + options.fuzz):
        if index % 1000 == 0:
            note.write_text(f"seed {options.seed}, from case {index} on\n")
        try:
            fuzzer.run(index)
        except BaseException:
            print(f"seed {options.seed}, case {index}:", file=sys.stderr)
            raise
    note.unlink(missing_ok=True)
    print(f"{options.fuzz} files, seed {options.seed}: {time.perf_counter() - begin:.0f} s")
    for what, count in sorted(fuzzer.counts.items()):
        print(f"{count:8}  {what}")
