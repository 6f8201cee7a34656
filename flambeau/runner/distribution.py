"""``python -m flambeau alias``: small distributions called torch and torchvision in the current environment, which mean flambeau.

    torch/__init__.py                    imports flambeau in its place
    functorch/__init__.py                imports flambeau's names of this package in its place
    torch-2.13.0+....dist-info/          what pip, importlib.metadata and requirements read
    torchvision/__init__.py              imports flambeau.vision in its place
    torchvision-0.28.0+....dist-info/

``python -m flambeau`` gives its child processes the same, from a folder of their own on ``PYTHONPATH``.
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

from ..version import __version__, release, vision

__all__ = ["DISTRIBUTIONS", "AliasDistribution", "install", "installed", "main", "metadata_text", "remove", "write_shim"]

MARK = "Summary: flambeau in PyTorch's place"
DISTRIBUTIONS = {"torch": str(__version__), "torchvision": vision}
NEEDS = {"torch": "flambeau", "torchvision": "flambeau[vision]"}
OWNERS = {"torch": "PyTorch", "torchvision": "torchvision"}
MODULES = {"torch": "flambeau", "torchvision": "flambeau.vision", "functorch": "flambeau.facades.functorch"}
BESIDE = {"torch": ("functorch",)}  # packages of a distribution beside the one of its name


def metadata_text(name: str) -> str:
    """``METADATA`` of a distribution."""
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {DISTRIBUTIONS[name]}\n{MARK}\nRequires-Dist: {NEEDS[name]}\n"


def shim_text(name: str, root: str | None) -> str:
    """``torch/__init__.py``, or torchvision's."""
    path = "" if root is None else f"sys.path.append({root!r})\n"
    names = "flambeau.runner.rename_tensors(flambeau)\n" if name == "torch" else ""
    return f'''"""flambeau in PyTorch's place: written by ``python -m flambeau alias --install``, taken away by ``alias --remove``."""

import sys

{path}import flambeau.runner
import {MODULES[name]}

flambeau.runner.install()
sys.modules[__name__] = {MODULES[name]}
{names}'''


def write_shim(folder: Path, name: str, root: str | None = None) -> list[Path]:
    """Write a distribution into a folder that is on the path of modules.

    Args:
        name: torch or torchvision.
        root: folder to add to the path first, where flambeau is not installed.
    Returns:
        The files, relative to ``folder``.
    """
    information = folder / f"{name}-{DISTRIBUTIONS[name]}.dist-info"
    packages = (name, *BESIDE.get(name, ()))
    texts = {
        **{folder / package / "__init__.py": shim_text(package, root) for package in packages},
        information / "METADATA": metadata_text(name),
        information / "WHEEL": f"Wheel-Version: 1.0\nGenerator: flambeau {release}\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        information / "INSTALLER": "flambeau\n",
        information / "top_level.txt": "".join(f"{package}\n" for package in packages),
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
    """A distribution that exists in ``importlib.metadata`` only, not on disk: a name, a version and no files."""

    def __init__(self, name: str) -> None:
        self.alias = name

    def read_text(self, filename: Any) -> str | None:
        return {"METADATA": metadata_text(self.alias), "top_level.txt": f"{self.alias}\n"}.get(str(filename))

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / "shim" / path


def site_packages() -> Path:
    """Directory of the current environment for packages in Python."""
    return Path(sysconfig.get_paths()["purelib"])


def installed(folder: Path, name: str) -> Iterator[metadata.Distribution]:
    """The distributions of that name in a folder."""
    yield from metadata.distributions(name=name, path=[str(folder)])


def is_alias(distribution: metadata.Distribution) -> bool:
    return MARK in (distribution.read_text("METADATA") or "")


def install() -> str:
    """Put the aliases into the current environment; a sentence about them.

    Raises:
        RuntimeError: real PyTorch or torchvision, or something else of these names, is there.
    """
    folder = site_packages()
    for name in DISTRIBUTIONS:
        check_free(folder, name)
    # Everything is written beside its place first, so that a failure leaves things as they were.
    with tempfile.TemporaryDirectory(prefix=".torch-alias-", dir=folder, ignore_cleanup_errors=True) as name_of_scratch:
        scratch = Path(name_of_scratch)
        root = None if is_importable_from(folder) else str(Path(__file__).resolve().parents[2])
        for name in DISTRIBUTIONS:
            write_shim(scratch, name, root)
        remove()
        for part in sorted(scratch.iterdir()):
            os.rename(part, folder / part.name)
    return f"{' and '.join(f'{name} {version}' for name, version in DISTRIBUTIONS.items())} in {folder} mean flambeau"


def check_free(folder: Path, name: str) -> None:
    """Raise where the name is taken by another than us."""
    distributions = list(installed(folder, name))
    for distribution in distributions:
        if not is_alias(distribution):
            advice = "uninstall it first, or use python -m flambeau script.py"
            raise RuntimeError(f"{OWNERS[name]} {distribution.version} is installed in {folder}; {advice}")
    for package in (name, *BESIDE.get(name, ())):
        if (folder / package).exists() and not distributions:
            raise RuntimeError(f"{folder / package} exists and belongs to no distribution; it is left alone")


def is_importable_from(folder: Path) -> bool:
    """Whether flambeau is installed, so that a Python outside of this checkout finds it."""
    return any(metadata.distributions(name="flambeau", path=[str(folder)]))


def remove() -> str:
    """Take the aliases out of the current environment; a sentence about them."""
    folder = site_packages()
    aliases = [(name, own.version) for name in DISTRIBUTIONS for own in installed(folder, name) if is_alias(own)]
    for name, version in aliases:
        shutil.rmtree(folder / f"{name}-{version}.dist-info")
        for package in (name, *BESIDE.get(name, ())):
            shutil.rmtree(folder / package, ignore_errors=True)
    return f"removed from {folder}" if aliases else f"no alias in {folder}"


def status() -> str:
    """Meaning of ``import torch`` and ``import torchvision`` in the current environment, a line for each."""
    folder = site_packages()
    lines = []
    for name, owner in OWNERS.items():
        distribution = next(installed(folder, name), None)
        if distribution is None:
            lines.append(f"no {name} in {folder}")
        else:
            lines.append(f"{name} {distribution.version} in {folder} is {'flambeau' if is_alias(distribution) else owner}")
    return "\n".join(lines)


USAGE = """usage: python -m flambeau alias --install | --remove | --status

Puts distributions called torch and torchvision into the current environment, by which pip, pytest, notebooks and the processes
they start find flambeau under these names; takes them out again; says what is there."""


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
