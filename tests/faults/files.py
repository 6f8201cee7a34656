"""An interrupt at every place of what writes and reads files: the old file whole or the new one, nothing beside it, nothing left open.

Each writer runs again and again over a file that is there, and is interrupted at another place each time: when an instruction runs for the
first time, and for the last. Places in the parts of Python's library through which files go count, too; ``tempfile`` is left out, whose
folders are its own matter.
"""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import pathlib
import random
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .injection import Injector
from .interrupts import interrupt

LIBRARY = ("contextlib.py", "pickle.py", "zipfile.py", "_compression.py", "functools.py", "pathlib.py")


@dataclass
class Work:
    """What is interrupted.

    Attributes:
        name: of the work.
        files: what lies in the folder before.
        act: the work, given the folder.
        changed: the files that it replaces, with their new contents, or a function that tells whether contents are the new ones.
        fails: the type of exception that it ends with, uninterrupted.
        library: files of Python's own library whose places count, none where objects of theirs are finalized, which loses exceptions.
    """

    name: str
    files: dict[str, bytes]
    act: Callable[[str], Any]
    changed: dict[str, bytes | Callable[[bytes], bool]]
    fails: type[BaseException] | None = None
    library: tuple[str, ...] = LIBRARY


def contents(folder: str) -> dict[str, bytes]:
    root = pathlib.Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def is_new(given: bytes, wanted: bytes | Callable[[bytes], bool]) -> bool:
    return given == wanted if isinstance(wanted, bytes) else wanted(given)


def attempt(work: Work, at: int | None) -> tuple[Injector, dict[str, bytes]]:
    """The work, interrupted at place ``at``, and what lies in the folder then.

    Raises:
        AssertionError: another exception came, or a descriptor stays open.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, content in work.files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        gc.collect()
        before, injector, came = descriptors(), Injector(at, interrupt, work.library), None
        try:
            with injector:
                work.act(folder)
        except BaseException as error:
            came = type(error)
        sys.settrace(None)
        wanted = KeyboardInterrupt if injector.has_acted else work.fails
        assert came is wanted, f"{work.name}, place {at}, {injector.where}: {came} arrived and not {wanted}"
        gc.collect()
        assert descriptors() == before, f"{work.name}, place {at}, {injector.where}: a file stays open"
        return injector, contents(folder)


def check(work: Work, at: int | None) -> Injector:
    """Do the work.

    Raises:
        AssertionError: a file that is neither the old nor the new one, or that should not be there.
    """
    injector, left = attempt(work, at)
    where = f"{work.name}, place {at}, {injector.where}"
    for name, content in left.items():
        is_old = work.files.get(name) == content
        assert is_old or name in work.changed, f"{where}: {name} was left"
        assert is_old or is_new(content, work.changed[name]), f"{where}: {name} has {len(content)} bytes, neither the old nor the new ones"
    missing = set(work.files) - set(left)
    assert not missing, f"{where}: {missing} is gone"
    if not injector.has_acted and work.fails is None:
        assert all(is_new(left[name], wanted) for name, wanted in work.changed.items()), f"{where}: nothing was written"
    return injector


# -- the works ------------------------------------------------------------------------------------------------------------
def all_works() -> list[Work]:
    import flambeau as torch
    from flambeau.kernels.compiler import cache

    objects: Any = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": [torch.ones(3, dtype=torch.bfloat16), "text", torch.nn.Parameter(torch.ones(2))],
    }
    objects["q"] = torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2, dtype=torch.int64), 0, torch.qint8)
    objects["s"] = torch.eye(3).to_sparse()
    zipped, legacy = (saved(torch, objects, is_zip) for is_zip in (True, False))

    def same(content: bytes) -> bool:
        return bool((torch.load(io.BytesIO(content))["a"] == objects["a"]).all())

    def save(is_zip: bool, value: Any) -> Callable[[str], Any]:
        return lambda folder: torch.save(value, os.path.join(folder, "x.pt"), _use_new_zipfile_serialization=is_zip)

    old = {"x.pt": b"old"}
    works = [Work(f"save, {form}", old, save(form == "zip", objects), {"x.pt": same}) for form in ("zip", "legacy")]
    works.append(Work("save, a new file", {}, save(True, objects), {"x.pt": same}))
    failing = {**objects, "f": lambda: None}
    works.append(Work("save of what cannot be", old, save(True, failing), {}, fails=type(error_of(lambda: save(True, failing)("/tmp")))))
    works += loads(torch, zipped, legacy)

    def kernel(folder: str) -> None:
        directory, cache.directory = cache.directory, lambda: folder
        try:
            cache.write("key", b"machine code" * 100)
        finally:
            cache.directory = directory

    works.append(Work("kernel's file", {"key.image": b"old"}, kernel, {"key.image": b"machine code" * 100}))
    works += downloads(torch)
    works += pictures(torch)
    return works


def saved(torch: Any, value: Any, is_zip: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


def error_of(function: Callable[[], Any]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("no error")


def loads(torch: Any, zipped: bytes, legacy: bytes) -> Iterator[Work]:
    def load(**arguments: Any) -> Callable[[str], Any]:
        return lambda folder: torch.load(os.path.join(folder, "x.pt"), **arguments)

    for name, content, arguments in (("zip", zipped, {}), ("mapped", zipped, {"mmap": True}), ("legacy", legacy, {})):
        yield Work(f"load, {name}", {"x.pt": content}, load(**arguments), {})
    yield Work("load, unrestricted", {"x.pt": zipped}, load(weights_only=False), {})
    yield Work("load, cut off", {"x.pt": legacy[:-20]}, load(), {}, fails=EOFError)
    table = json.dumps({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
    safe = struct.pack("<Q", len(table)) + table + bytes(24)
    yield Work("load, safetensors", {"x.safetensors": safe}, lambda folder: torch.load(os.path.join(folder, "x.safetensors")), {})


def downloads(torch: Any) -> Iterator[Work]:
    from flambeau import hub
    from flambeau.vision.datasets import utils

    content = random.Random(0).randbytes(50_000)

    def url(folder: str, name: str = "source") -> str:
        return pathlib.Path(folder, name).as_uri()

    def download(folder: str) -> None:
        hub.download_url_to_file(url(folder), os.path.join(folder, "target"), progress=False)

    sources = {"source": content, "target": b"old"}
    yield Work("download of weights", sources, download, {"target": content})

    def mistaken(folder: str) -> None:
        hub.download_url_to_file(url(folder), os.path.join(folder, "target"), "00000000", progress=False)

    yield Work("download of other weights", sources, mistaken, {}, fails=RuntimeError)

    def decompress(folder: str) -> None:
        utils.extract_archive(os.path.join(folder, "target.gz"), folder)

    yield Work("decompressed", {"target.gz": gzip.compress(content), "target": b"old"}, decompress, {"target": content}, library=())

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("top-1/hubconf.py", content)

    def reload(folder: str) -> None:
        before, hub._download_archive = (
            hub._download_archive,
            lambda owner, name, ref, path: pathlib.Path(path).write_bytes(archive.getvalue()),
        )
        torch.hub.set_dir(folder)
        try:
            hub._get_cache_or_reload("somebody/top:1", True, True, False, True)
        finally:
            hub._download_archive = before

    kept = {"somebody_top_1/hubconf.py": b"old", "trusted_list": b"somebody_top\n"}
    yield Work("repository", kept, reload, {"somebody_top_1/hubconf.py": content}, library=())


def pictures(torch: Any) -> Iterator[Work]:
    from flambeau.utils.model_drawing import GraphDrawing
    from flambeau.vision import io as images

    pixels = torch.arange(3 * 8 * 8, dtype=torch.uint8).reshape(3, 8, 8)
    coded = bytes(images.encode_png(pixels).tolist())
    write = Work("image", {"x.png": b"old"}, lambda folder: images.write_png(pixels, os.path.join(folder, "x.png")), {"x.png": coded})
    yield write
    drawing = GraphDrawing("<svg/>" * 50)
    yield Work("drawing", {"x.svg": b"old"}, lambda folder: drawing.save(os.path.join(folder, "x.svg")), {"x.svg": drawing.encode()})


def names() -> list[str]:
    return [work.name for work in all_works()]


def trial(name: str, count: int, seed: int) -> dict[str, Any]:
    """The work interrupted at ``count`` places, or at all where there are fewer."""
    work = next(work for work in all_works() if work.name == name)
    for _ in range(2):
        seen = check(work, None).seen  # the second time nothing happens for the first time
    first = {place: number for number, place in reversed(list(enumerate(seen)))}
    last = {place: number for number, place in enumerate(seen)}
    places = sorted({*first.values(), *last.values()})
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    for at in chosen:
        check(work, at)
    return {"works": 1, "places": len(places), "interrupted": len(chosen)}
