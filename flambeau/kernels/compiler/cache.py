"""Compiled kernels on disk.

One file per kernel in ``FLAMBEAU_CACHE`` (default: ``flambeau`` in ``XDG_CACHE_HOME`` or ``~/.cache``), named by a hash of its IR, the
target and the version of llvmlite.  A relative path would be another directory in each working directory, and is not used.  Files are
written under a temporary name and renamed, so that several processes may share the directory.  It holds at most ``LIMIT`` bytes; the
files that were unused longest go first.  Machine code is only taken from a directory that belongs to this user and that nobody else can
write to, and only if it matches its own hash.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from contextlib import suppress
from functools import cache

from ...core.calls.interruption import pass_on
from ...core.replacing import replace_file
from . import image
from .target import Target

LIMIT = 128 << 20  # bytes; a kernel has some 2 to 60 KB
TRIM_EVERY = 64  # writes of a process, the first among them: looking at all files takes longer than writing one
UNFINISHED = ".new-"
ABANDONED = 3600  # seconds after which an unfinished file is nobody's
_written = itertools.count()


@cache
def directory() -> str | None:
    """Directory of compiled kernels; None if no safe directory can be had."""
    chosen = os.environ.get("FLAMBEAU_CACHE")
    if chosen is not None and not chosen:
        return None  # FLAMBEAU_CACHE= switches the cache off
    path = chosen or _default()
    if not os.path.isabs(path):  # a home that is not known stays ~
        warnings.warn(f"compiled kernels are not kept on disk: set FLAMBEAU_CACHE to an absolute path, got {path!r}", stacklevel=2)
        return None
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        status = os.stat(path)
    except OSError as error:
        pass_on(error)
        return None
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or not os.access(path, os.W_OK):
        return None
    return path


def _default() -> str:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "flambeau")


@cache
def _compiler() -> str:
    """Name and version of the installed llvmlite, read from the name of its metadata's folder: importing it takes 30 ms."""
    from importlib.util import find_spec

    try:
        spec = find_spec("llvmlite")
    except (ImportError, ValueError):  # a module that is there but must not be imported
        spec = None
    if spec is None or spec.origin is None:
        return "none"
    site = os.path.dirname(os.path.dirname(spec.origin))
    return next((name for name in sorted(os.listdir(site)) if name.startswith("llvmlite-") and name.endswith(".dist-info")), spec.origin)


def key_of(ir: str, target: Target) -> str:
    text = "\0".join((image.MAGIC.decode(), ir, target.name, target.cpu, target.features, _compiler()))
    return image.sha256(text.encode()).hexdigest()[:40]


def read(key: str) -> bytes | None:
    """The image stored under ``key``, if there is a whole one."""
    place = directory()
    if place is None:
        return None
    path = os.path.join(place, f"{key}.image")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        pass_on(error)
        return None
    if not image.is_whole(content):
        return None
    try:
        os.utime(path)  # its last use, for ``_trim``
    except OSError as error:  # a read-only copy of a cache
        pass_on(error)
    return content


def write(key: str, content: bytes) -> None:
    """Store an image; a full disk or a read-only directory only means that it is compiled again next time."""
    place = directory()
    if place is None:
        return
    try:
        replace_file(os.path.join(place, f"{key}.image"), lambda file: file.write(content), prefix=UNFINISHED, permissions=0o600)
        if next(_written) % TRIM_EVERY == 0:
            _trim(place)
    except OSError as error:
        pass_on(error)


def _trim(place: str) -> None:
    """Remove what was unused longest until the directory is within ``LIMIT``."""
    entries = []
    with os.scandir(place) as found:
        for entry in found:
            with suppress(FileNotFoundError):  # another process removed it first, or gave it its name
                if entry.name.startswith(UNFINISHED) and entry.stat().st_mtime < time.time() - ABANDONED:
                    os.unlink(entry.path)  # of a process that was killed while writing
                elif entry.name.endswith(".image"):
                    status = entry.stat()
                    entries.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= LIMIT:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def clear() -> None:
    """Remove all compiled kernels from disk."""
    place = directory()
    for entry in list(os.scandir(place)) if place is not None else ():
        if entry.name.endswith(".image"):
            os.unlink(entry.path)
