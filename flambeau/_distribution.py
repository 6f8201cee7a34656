"""``python -m flambeau alias``: a small distribution called torch in the current environment, which means flambeau.

    torch/__init__.py                    imports flambeau in its place
    torch-2.13.0+....dist-info/          what pip, importlib.metadata and requirements read

``python -m flambeau`` gives its child processes the same two, from a folder of their own on ``PYTHONPATH``.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from .version import __version__, release

__all__ = ["AliasDistribution", "install", "installed", "main", "metadata_text", "remove", "write_shim"]

MARK = "Summary: flambeau in PyTorch's place"


def metadata_text() -> str:
    """``METADATA`` of the distribution."""
    return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n{MARK}\nRequires-Dist: flambeau\n"


def shim_text(root: str | None) -> str:
    """``torch/__init__.py``."""
    path = "" if root is None else f"sys.path.append({root!r})\n"
    return f'''"""flambeau in PyTorch's place: written by ``python -m flambeau alias --install``, taken away by ``alias --remove``."""

import sys

{path}import flambeau.runner

flambeau.runner.install()
sys.modules[__name__] = flambeau
'''


def write_shim(folder: Path, root: str | None = None) -> list[Path]:
    """Write the distribution into a folder that is on the path of modules.

    Args:
        root: folder to add to the path first, where flambeau is not installed.
    Returns:
        The files, relative to ``folder``.
    """
    information = folder / f"torch-{__version__}.dist-info"
    texts = {
        folder / "torch" / "__init__.py": shim_text(root),
        information / "METADATA": metadata_text(),
        information / "WHEEL": f"Wheel-Version: 1.0\nGenerator: flambeau {release}\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        information / "INSTALLER": "flambeau\n",
        information / "top_level.txt": "torch\n",
    }
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    record = information / "RECORD"
    rows = []
    for file, text in texts.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{file.relative_to(folder).as_posix()},sha256={digest},{len(text.encode())}\n")
    record.write_text("".join(rows) + f"{record.relative_to(folder).as_posix()},,\n")
    return [file.relative_to(folder) for file in (*texts, record)]


class AliasDistribution(metadata.Distribution):
    """The distribution as ``importlib.metadata`` is told of it where it lies nowhere: a name, a version and no files."""

    def read_text(self, filename: Any) -> str | None:
        return {"METADATA": metadata_text(), "top_level.txt": "torch\n"}.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / "_shim" / path


def site_packages() -> Path:
    """Where the current environment keeps packages in Python."""
    return Path(sysconfig.get_paths()["purelib"])


def installed(folder: Path) -> Iterator[metadata.Distribution]:
    """The distributions called torch in a folder."""
    yield from metadata.distributions(name="torch", path=[str(folder)])


def is_alias(distribution: metadata.Distribution) -> bool:
    return MARK in (distribution.read_text("METADATA") or "")


def install() -> str:
    """Put the alias into the current environment; a sentence about it.

    Raises:
        RuntimeError: real PyTorch, or something else called torch, is there.
    """
    folder = site_packages()
    others = [found for found in installed(folder) if not is_alias(found)]
    if others:
        raise RuntimeError(f"PyTorch {others[0].version} is installed in {folder}; uninstall it first, or use python -m flambeau script.py")
    if (folder / "torch").exists() and not list(installed(folder)):
        raise RuntimeError(f"{folder / 'torch'} exists and belongs to no distribution; it is left alone")
    # Everything is written beside its place first, so that a failure leaves things as they were.
    scratch = Path(tempfile.mkdtemp(prefix=".torch-alias-", dir=folder))
    try:
        write_shim(scratch, None if is_importable_from(folder) else str(Path(__file__).resolve().parent.parent))
        remove()
        for part in sorted(scratch.iterdir()):
            os.rename(part, folder / part.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return f"torch {__version__} in {folder} means flambeau"


def is_importable_from(folder: Path) -> bool:
    """Whether flambeau is installed, so that a Python that knows nothing of this checkout finds it."""
    return any(metadata.distributions(name="flambeau", path=[str(folder)]))


def remove() -> str:
    """Take the alias out of the current environment; a sentence about it."""
    folder = site_packages()
    aliases = [found for found in installed(folder) if is_alias(found)]
    if not aliases:
        return f"no alias in {folder}"
    for distribution in aliases:
        shutil.rmtree(folder / f"torch-{distribution.version}.dist-info")
    shutil.rmtree(folder / "torch", ignore_errors=True)
    return f"removed from {folder}"


def status() -> str:
    """What ``import torch`` means in the current environment, as a sentence."""
    folder = site_packages()
    for distribution in installed(folder):
        whose = "flambeau" if is_alias(distribution) else "PyTorch"
        return f"torch {distribution.version} in {folder} is {whose}"
    return f"no torch in {folder}"


USAGE = """usage: python -m flambeau alias --install | --remove | --status

Puts a distribution called torch into the current environment, by which pip, pytest, notebooks and the processes they start
find flambeau under that name; takes it out again; says what is there."""


def main(words: list[str]) -> None:
    """The command line.

    Raises:
        SystemExit: status 2 for a wrong command line, 1 where it cannot be done.
    """
    actions = {"--install": install, "--remove": remove, "--status": status}
    if len(words) != 1 or words[0] not in actions:
        asked = words in (["-h"], ["--help"])
        print(USAGE, file=sys.stdout if asked else sys.stderr)
        raise SystemExit(0 if asked else 2)
    try:
        print(actions[words[0]]())
    except (RuntimeError, OSError) as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    print(f"alias: {message}", file=sys.stderr)
    raise SystemExit(1)
