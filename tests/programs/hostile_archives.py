"""Archives of TorchScript that are damaged at random or made to mislead: loading them runs nothing, hangs nowhere and takes no memory.

    python -m tests.programs.hostile_archives --count 10000 --seed 0

Each archive is one of those that PyTorch wrote (``tests/recorded/torchscript.tar.xz``) with bytes of it, a record or its code changed.
An audit hook sees what Python is asked to do; a timer of processor time ends what takes long. All code of an archive that loads is compiled
as it would be for a call.
"""

from __future__ import annotations

import argparse
import atexit
import io
import lzma
import pickle
import random
import resource
import shutil
import signal
import struct
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import flambeau as torch
from flambeau.jit import _source, _unit

RECORDED = Path(__file__).parents[1] / "recorded" / "torchscript.tar.xz"
SECONDS = 10.0  # of processor time for one archive
ADDRESS_SPACE = 8 << 30
GROWTH = 1 << 29  # bytes that the process may grow by over all archives
ERRORS = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, AttributeError, TypeError, LookupError)
# What no archive may bring Python to do.
FORBIDDEN = (
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.putenv", "subprocess.Popen",
    "socket.", "ctypes.dlopen", "shutil.", "urllib.Request", "pty.spawn", "webbrowser.open", "pickle.find_class",
)  # fmt: skip
watching: list[str] = []
seen: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching:
        return
    if event.startswith(FORBIDDEN) or (event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")):
        seen.append(f"{event} {arguments!r:.200}")


# -- hostile code ------------------------------------------------------------------------------------------------------------------------
CANARY = tempfile.mkdtemp(prefix="flambeau_hostile_") + "/made"  # where code that runs would leave a file
atexit.register(shutil.rmtree, str(Path(CANARY).parent), True)
STATEMENTS = [
    f'open("{CANARY}", "w")',
    '__import__("os").system("touch ' + CANARY + '")',
    "import os",
    "from os import system",
    'eval("1")',
    'exec("x = 1")',
    'compile("1", "", "eval")',
    "globals()",
    "x = ().__class__.__bases__[0].__subclasses__()",
    'x = getattr(x, "__class__")',
    "x = x.__class__",
    "x = self.__dict__",
    "x = self._script_unit",
    "x = torch.load",
    "x = torch.os",
    'x = torch.hub("x")',
    'x = ops.os.system("id")',
    f'x = torch.from_file("{CANARY}", True, 8)',
    f'x = ops.aten.from_file("{CANARY}", True, 8)',
    "x = ops.aten.__class__",
    "x = ops.__loader__.x",
    "x = __torch__.__class__",
    "x = __builtins__",
    "x = CONSTANTS.__class__",
    "x = CONSTANTS.c999999",
    'x = "{0.__class__}".format(x)',
    "x = (lambda: 0)()",
    "x = [y for y in ().__class__.__mro__]",
    "try:\n      x = 1\n    except Exception:\n      pass",
    "while True:\n      async def f(): pass",
    "global x",
    "yield x",
    "raise SystemExit",
    "x = f'{x}'",
    "with x as y:\n      pass",
    "class A:\n      pass",
    "def f(a=print(1)):\n      return a",
    "x: print(1) = 3",
    "del self.training",
    "self._parameters = x",
    "self.__class__ = x",
    "self.forward = x",
    "x = (y := 3)",
    "x = *x, 1",
    "print(*x)",
    "x = await x",
    "assert (yield)",
    "x = ((((" + "(" * 500 + "x" + ")" * 500 + "))))",
    "x = " + "not " * 5000 + "x",
    "x = " + "-" * 5000 + "1",
    "x = " + "x if x else " * 3000 + "x",
    "x = " + "2 ** " * 3000 + "2",
    "x = " + "x + " * 20000 + "x",
    "x = x" + ".a" * 20000,
    "x = x" + "[0]" * 20000,
    "x = " + "9" * 10000,
    "x = [" + "0, " * 70000 + "]",
    "x = " + "lambda " * 100000,
    "x = 'a' * 10 ** 10",
    "x = 10 ** 10 ** 10",
    "x = [0] * 10 ** 12",
]
MEMBERS = [
    "  x : print(1)\n",
    "  x : Final[int] = print(1)\n",
    "  x : Final[int] = [0] * 100000000000\n",
    '  __annotations__["x"] = open\n',
    "  __parameters__ = open\n",
    "  __buffers__ = [x for x in y]\n",
    "  open('" + CANARY + "', 'w')\n",
    "  import os\n",
    "  def __setstate__(self, state):\n    while True:\n      pass\n",
    "  def __setstate__(self, state):\n    x = torch.zeros([1000000000000])\n",
    "  def __setstate__(self, state):\n    x = [0 for i in range(1000000000000)]\n",
    "  def __setstate__(self, state):\n    x = list(range(1000000000000))\n",
    "  def __setstate__(self, state):\n    (self).__setstate__(state, )\n",
    "  def __setstate__(self, state):\n    (self).spin()\n  def spin(self):\n    while True:\n      pass\n",
    "  def __setstate__(self, state):\n    x = 10 ** 10\n    y = x ** x\n",
    "  def __setstate__(self, state):\n    x = [0]\n    x *= 10000000000\n",
    "  def __setstate__(self, state):\n    x, y = [1], [1]\n" + "    x, y = [x, x], [y, y]\n" * 60 + "    z = torch.eq(x, y)\n",
    "  def __setstate__(self, state):\n    x = (1,)\n" + "    x = (x, x)\n" * 60 + "    y = {x: 1}\n",
    "  def __setstate__(self, state):\n    x = (1,)\n" + "    x = (x, x)\n" * 60 + "    ops.prim.RaiseException(x)\n",
    "  def __getattr__(self, name):\n    return open\n",
    "  def __new__(cls):\n    return open\n",
    "  def __del__(self):\n    print(1)\n",
    "  _forward_hooks : Dict[int, int]\n",
    "  _script_unit : int\n",
    "  forward : int\n",
]
DEFINITIONS = [
    "import os\n",
    f"open('{CANARY}', 'w')\n",
    "@open\ndef f(): pass\n",
    "class A(open('x')): pass\n",
    "class A(Module, metaclass=open): pass\n",
    "def f(x=open): pass\n",
    "def f(x: Tensor=torch.zeros([100000000000])): pass\n",
    "x = 1\n",
    "#" * 200 + "\nx\n",
    "import a" * 200 + "!\n",
    "if 1:\n  def f(): pass\n",
    "class A(NamedTuple):\n  __class__ : int\n",
    "class A(Enum):\n  __init__ = 1\n",
    "class A(Enum):\n  mro = 1\n",
    "def f():\n" + "".join(["  " * depth + "if x:\n" for depth in range(1, 150)]) + "  " * 150 + "pass\n",
    "def f(" + "x, " * 20000 + "y): pass\n",
]
OPCODES = [bytes((code,)) for code in b"(]})tQRbcuse0.N\x88\x89\x81\x85\x86\x87JKMXUhqjrGI"]
GLOBALS = [b"cos\nsystem\n", b"cbuiltins\neval\n", b"c__torch__\nM\n", b"c__torch__.os\nsystem\n", b"ctorch.jit._pickle\nbuild_intlist\n"]


class Rewritten:
    """An archive whose records can be changed."""

    def __init__(self, data: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.records = {name: archive.read(name) for name in archive.namelist()}

    def named(self, ending: str) -> list[str]:
        return [name for name in self.records if name.endswith(ending)]

    def bytes(self) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
            for name, content in self.records.items():
                archive.writestr(name, content)
        return made.getvalue()


def bytes_changed(data: bytes, draw: random.Random) -> bytes:
    """Some bytes replaced, cut out, put in, or repeated."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8))):
        if not changed:
            break
        place, length = draw.randrange(len(changed)), draw.choice((1, 1, 4, 64))
        way = draw.randrange(5)
        if way == 0:
            changed[place] ^= 1 << draw.randrange(8)
        elif way == 1:
            del changed[place : place + length]
        elif way == 2:
            changed[place:place] = draw.randbytes(length)
        elif way == 3:
            changed[place : place + length] = draw.choice((b"\xff", b"\x00", b"\x7f")) * length
        else:
            changed = changed[:place]
    return bytes(changed)


def code_changed(archive: Rewritten, draw: random.Random) -> None:
    """Hostile text in the code of an archive."""
    name = draw.choice(archive.named(".py"))
    lines = archive.records[name].decode().splitlines(keepends=True)
    way = draw.randrange(6)
    if way == 0:
        places = [k for k, line in enumerate(lines) if line.startswith("    ") and not line.rstrip().endswith((",", ":"))]
        place = draw.choice(places or [len(lines)])
        lines.insert(place, f"    {draw.choice(STATEMENTS)}\n")
    elif way == 1:
        places = [k + 1 for k, line in enumerate(lines) if line.startswith("class ")]
        lines.insert(draw.choice(places or [0]), draw.choice(MEMBERS))
    elif way == 2:
        lines.insert(draw.choice((0, len(lines))), draw.choice(DEFINITIONS))
    elif way == 3:
        place = draw.randrange(len(lines))
        lines[place] = bytes_changed(lines[place].encode(), draw).decode("latin-1")
    elif way == 4:
        words = "self torch ops __torch__ CONSTANTS open eval exec getattr __class__ __import__ while lambda class".split()
        place = draw.randrange(len(lines))
        parts = lines[place].split(" ")
        parts[draw.randrange(len(parts))] = draw.choice(words)
        lines[place] = " ".join(parts)
    else:
        place, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[place], lines[other] = lines[other], lines[place]
    archive.records[name] = "".join(lines).encode("utf-8", "surrogatepass")


def pickle_changed(archive: Rewritten, draw: random.Random) -> None:
    """Another instruction, name or number in a pickle."""
    name = draw.choice(archive.named(".pkl"))
    data = archive.records[name]
    place = draw.randrange(len(data) + 1)
    way = draw.randrange(4)
    if way == 0:
        data = data[:place] + draw.choice(OPCODES) + data[place:]
    elif way == 1:
        data = data[:place] + draw.choice(GLOBALS) + draw.choice((b"", b"(tR", b")\x81", b")R")) + data[place:]
    elif way == 2:
        data = data[:place] + struct.pack("<q", draw.choice((2**62, -1, 2**31, 0))) + data[place:]
    else:
        data = bytes_changed(data, draw)
    archive.records[name] = data


def records_changed(archive: Rewritten, draw: random.Random) -> None:
    """A record left out, emptied, repeated under another name, or exchanged with another."""
    names = list(archive.records)
    one, other = draw.choice(names), draw.choice(names)
    way = draw.randrange(4)
    if way == 0:
        del archive.records[one]
    elif way == 1:
        archive.records[one] = b""
    elif way == 2:
        archive.records[f"{one.partition('/')[0]}/code/__torch__/{draw.choice(('x.py', '../x.py', 'a/b/c/d.py'))}"] = archive.records[other]
    else:
        archive.records[one], archive.records[other] = archive.records[other], archive.records[one]


def hostile(archives: list[bytes], draw: random.Random) -> bytes:
    """One archive."""
    data = draw.choice(archives)
    way = draw.randrange(8)
    if way == 0:
        return bytes_changed(data, draw)
    archive = Rewritten(data)
    (code_changed if way < 5 else pickle_changed if way < 7 else records_changed)(archive, draw)
    return archive.bytes()


# -- trying ----------------------------------------------------------------------------------------------------------------------------
def compile_all(unit: _unit.Unit) -> None:
    """Make every function of a unit, as a call of it would."""
    for name in list(unit.texts):
        tree = unit.tree(name)
        functions = [part for part in getattr(tree, "body", ()) if hasattr(part, "args")] if hasattr(tree, "bases") else [tree]
        for function in functions:
            try:
                _source.Guard(name, unit.find, unit.constants).function(function)
            except ERRORS:
                continue


def attempt(data: bytes) -> bool:
    """Load an archive; whether it loaded.

    Raises:
        AssertionError: Python was asked to do something that no archive may.
    """
    seen.clear()
    watching.append("")
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickles' protocols
            loaded = torch.jit.load(io.BytesIO(data))
        compile_all(loaded._script_unit)
        accepted = True
    except ERRORS as error:
        assert len(str(error)) < 4000, f"a message of {len(str(error))} characters"
        accepted = False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        watching.clear()
    assert not seen, seen
    assert not Path(CANARY).exists()
    return accepted


def archives_of_pytorch() -> list[bytes]:
    """The archives that PyTorch wrote."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(RECORDED.read_bytes()))) as tar:
        return [tar.extractfile(entry).read() for entry in tar if entry.name.endswith(".pt")]  # type: ignore[union-attr]


def run(count: int, seed: int, archives: list[bytes] | None = None) -> int:
    """Try ``count`` archives; how many of them loaded all the same."""
    if not watching_is_on:
        sys.addaudithook(_watch)
        watching_is_on.append(True)
    archives = archives or archives_of_pytorch()
    draw = random.Random(seed)
    return sum([attempt(hostile(archives, draw)) for _ in range(count)])


watching_is_on: list[bool] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    run(50, options.seed + 1)  # imports, and what stays
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    loaded = run(options.count, options.seed)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < GROWTH, f"grew by {grown} bytes"
    print(f"{options.count} archives, {loaded} of them loaded, nothing ran, {grown >> 20} MB more, {time.process_time() - start:.0f} s")


if __name__ == "__main__":
    main()
