"""The index of native kernels: what their decorators register, read where no sources are."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("flambeau.kernels.families.reduction")

import flambeau
from flambeau.core.arrays import native
from flambeau.kernels import index
from flambeau.kernels.index import FAMILIES
from tools import kernel_index

PACKAGE = Path(flambeau.__file__).parent
ROOT = PACKAGE.parent


def printed(program: str, path: Path = ROOT, folder: Path = ROOT) -> str:
    """What a process prints that has the package from ``path``."""
    environment = {**os.environ, "PYTHONPATH": str(path), "FLAMBEAU_KERNELS": "llvm"}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_index_is_what_decorators_register() -> None:
    """In a process of its own: other tests register kernels, too."""
    assert kernel_index.PATH.read_text() == printed("from tools import kernel_index; print(kernel_index.text(), end='')"), (
        f"flambeau/kernels/index.txt is out of date: run `{kernel_index.COMMAND}`"
    )


def test_each_name_is_in_the_index_once() -> None:
    assert sum(len(names.split()) for names in index._NAMES.values()) == len(FAMILIES)


def test_a_name_that_is_computed_is_registered_by_the_module_that_computes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_registered", {})
    monkeypatch.setattr(native, "registering", {})
    exec("native(*['_a' + 'b', '_c'])(min)", {"native": native.native, "__name__": f"{native._BACKEND}.made_up"})
    assert native.registering == dict.fromkeys(("_ab", "_c"), f"{native._BACKEND}.made_up")


def test_a_name_that_its_module_does_not_register_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong index says so; the operation would be slow for ever without a word."""
    monkeypatch.setitem(FAMILIES, "_nobody_has_this", "families.bits")
    with pytest.raises(KeyError, match="_nobody_has_this"):
        native.find("_nobody_has_this")


USE = """
import flambeau
from flambeau.core.arrays import native
x = flambeau.ones(100, 100)
assert x.sum() == 10000 and x.flip(0).exp().sum(0)[0] > 271
print(flambeau.__file__, *sorted(name for name, kernel in native._found.items() if kernel is not None))
"""


def byte_code(folder: Path) -> None:
    """The package without its sources."""
    for path in PACKAGE.rglob("*"):
        target = folder / "flambeau" / path.relative_to(PACKAGE)
        if path.suffix == ".py":
            kept = Path(importlib.util.cache_from_source(str(path)))
            target.parent.mkdir(parents=True, exist_ok=True)
            if kept.exists() and kept.stat().st_mtime >= path.stat().st_mtime:
                target.with_suffix(".pyc").write_bytes(kept.read_bytes())
            else:
                py_compile.compile(str(path), str(target.with_suffix(".pyc")), doraise=True)
        elif path.is_file() and path.suffix != ".pyc":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


@pytest.mark.slow
def test_kernels_are_found_without_sources_and_in_an_archive(tmp_path: Path) -> None:
    installed, archive, elsewhere = tmp_path / "installed", tmp_path / "archive.zip", tmp_path / "elsewhere"
    elsewhere.mkdir()
    byte_code(installed)
    with zipfile.ZipFile(archive, "w") as file:
        for path in installed.rglob("*"):
            file.write(path, path.relative_to(installed))
    for place in (installed, archive):
        where, *found = printed(USE, place, elsewhere).split()
        assert where == str(place / "flambeau" / "__init__.pyc") and {"sum", "_flip"} <= {*found}
