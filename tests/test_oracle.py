"""Real PyTorch is imported by ``oracle.pytorch()`` alone, so that every test that wants it rests where it is not installed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from oracle import asks_by_name, pytorch
from sources import parsed

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
PYTORCH = ("torch", "torchvision")
IMPORTERS = {"import_module", "importorskip", "__import__"}
FILES = sorted(path for path in TESTS.rglob("*.py") if path.name != "oracle.py")
# Programs that run with ``torch`` meaning flambeau.
ALIASED = {
    *(f"distributed/programs/{name}.py" for name in ("images", "losses", "toy")),
    "processes/spawned.py",
    "programs/visdom_client.py",
    "helpers/whole_models.py",
}


def is_pytorch(name: str | None) -> bool:
    return (name or "").partition(".")[0] in PYTORCH


def imports_pytorch(node: ast.AST) -> bool:
    """``import torch.x``, ``from torch import x``, ``import_module("torch")`` and the like."""
    if isinstance(node, ast.Import):
        return any(is_pytorch(alias.name) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return not node.level and is_pytorch(node.module)
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return called in IMPORTERS and is_pytorch(node.args[0].value)
    return False


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """What runs when a module is imported, but for the insides of classes."""
    pending = list(tree.body)
    while pending:
        statement = pending.pop(0)
        if isinstance(statement, (ast.With, ast.If, ast.Try)):
            pending[:0] = statement.body
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement


def asks_for_pytorch(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "pytorch" for node in ast.walk(statement))


def imported_files(path: Path, statement: ast.stmt) -> Iterator[Path]:
    """The files of this repository, outside of the package, that a statement imports."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom):
        names = [statement.module or "", *(f"{statement.module}.{alias.name}".lstrip(".") for alias in statement.names)]
    else:
        return
    level = getattr(statement, "level", 0)
    roots = [path.parents[level - 1]] if level else [TESTS, TESTS / "helpers", TESTS / "programs", ROOT]
    for name in names:
        for root in roots:
            file = root / f"{name.replace('.', '/')}.py"
            if file.is_file() and file != path and ROOT / "flambeau" not in file.parents:
                yield file


@cache
def needs_pytorch(path: Path) -> bool:
    """Whether the file cannot be imported without PyTorch."""
    for statement in statements(parsed(path)):
        if asks_for_pytorch(statement):
            return False
        if imports_pytorch(statement) or any(needs_pytorch(file) for file in imported_files(path, statement)):
            return True
    return False


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(TESTS)) for path in FILES])
def test_pytorch_is_asked_for_by_name(path: Path) -> None:
    """A test file never imports PyTorch; another may at its top, being a program that is nothing without it."""
    if str(path.relative_to(TESTS)) in ALIASED:
        return
    is_test = path.name.startswith(("test_", "conftest"))
    at_top = {id(node) for node in parsed(path).body} if not is_test else set()
    lines = [node.lineno for node in ast.walk(parsed(path)) if imports_pytorch(node) and id(node) not in at_top]
    assert not lines, f"{path}, lines {lines}: ask for PyTorch by oracle.pytorch(), which lets the test rest where there is none"
    if is_test:
        assert not needs_pytorch(path), f"{path} imports a program that needs PyTorch: call oracle.pytorch() before"


def test_what_asks_rests_and_is_counted(tmp_path: Path) -> None:
    """Where PyTorch is not installed a run succeeds, and says at its end how many tests rest."""
    (tmp_path / "conftest.py").write_text("import oracle\noracle.HAS_ORACLE = False\nfrom tests.conftest import *\n")
    (tmp_path / "test_file.py").write_text("from oracle import pytorch\npytorch()\n")
    (tmp_path / "test_some.py").write_text(
        "import pytest\nfrom oracle import pytorch\n"
        "def test_own(): pass\n"
        "def test_asks(): pytorch().zeros(1)\n"
        "def test_fixture(oracle): pass\n"
        "@pytest.mark.oracle\ndef test_marked(): raise AssertionError\n"
        "@pytest.mark.skip(reason='another')\ndef test_skipped(): pass\n"
    )
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-ra", "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)]
    options += ["-o", "markers=oracle", "-o", f"pythonpath={TESTS} {TESTS / 'helpers'} {ROOT}"]
    environment = {name: value for name, value in os.environ.items() if name != "FLAMBEAU_REQUIRE_ORACLE"}
    done = subprocess.run([sys.executable, "-m", "pytest", *options], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 tests and 1 whole files of tests rest, because PyTorch is not installed. To wake them: make test ORACLE=1" in done.stdout
    assert "1 passed, 1 skipped, 4 at rest" in done.stdout.splitlines()[-1]
    assert [line.rpartition(": ")[2] for line in done.stdout.splitlines() if line.startswith("SKIPPED")] == ["another"]


def asked_through_others() -> Any:
    return [kept() for _ in range(2)]


@cache
def kept() -> Any:
    return pytorch


def test_tests_that_ask_by_name_are_found() -> None:
    """Whether they call it, are given it, or ask for a fixture by its name, themselves or by way of other functions of tests."""

    def by_text(request: Any) -> Any:
        return request.getfixturevalue("theirs")

    def by_argument(oracle: Any) -> Any:
        return oracle

    def within() -> Any:
        return [lambda: torchvision().ops]  # type: ignore[name-defined]  # noqa: F821

    assert all(map(asks_by_name, (by_text, by_argument, within, kept, asked_through_others)))
    assert not asks_by_name(parsed) and not asks_by_name(is_pytorch)
