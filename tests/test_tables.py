"""The derived tables of the documentation: complete, up to date, and made without PyTorch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.core.calls.registry import entries
from tools import tables

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", tables.TABLES)
def test_the_written_tables_are_up_to_date(name: str) -> None:
    written = (tables.ROOT / "docs" / name).read_text()
    # a process of its own: other tests add names to the packages that are counted; collections would take most of its time
    program = f"import gc; gc.disable()\nfrom tools import tables; print(tables.TABLES[{name!r}](), end='')"
    printed = subprocess.run([sys.executable, "-c", program], cwd=tables.ROOT, capture_output=True, text=True, check=True).stdout
    assert written == printed, f"docs/{name} is out of date: run `{tables.COMMAND}`"


def test_every_operation_has_a_row() -> None:
    text = tables.operations()
    for entry in entries():
        prefix = "" if entry.namespace == "torch" else f"{entry.namespace}."
        assert f"`{prefix}{entry.name}`" in text
    assert text.count("\n| `") == len(list(entries()))


def test_the_names_of_pytorch_are_those_of_the_installed_one(oracle) -> None:
    pytest.importorskip("expecttest")
    assert tables.read_oracle() == tables.oracle_names(), f"tools/pytorch_names.json is out of date: run `{tables.COMMAND}`"


def test_known_names_are_counted() -> None:
    names = tables.oracle_names()["names"]
    assert set(names) == set(tables.NAMESPACES)
    assert {"add", "Tensor", "float32", "Generator", "save"} <= set(names["torch"])
    assert "AliasDb" not in names["torch"] and "TYPE_CHECKING" not in names["torch"]
    assert {"relu", "conv2d", "linear"} <= set(names["nn.functional"]) and "Tensor" not in names["nn.functional"]
    assert tables.here("torch", ["add", "no_such_name"]) == {"add"}
    assert tables.here("no.such.namespace", ["add"]) == set()


def test_limits_are_read_with_their_conditions(tmp_path: Path) -> None:
    source = tmp_path / "example.py"
    source.write_text(
        "def f(x, mode):\n"
        "    if mode == 'a':\n"
        "        return x\n"
        "    elif mode == 'b':\n"
        "        raise NotImplementedError(f'f: {mode} is' + ' not there')\n"
        "    else:\n"
        "        raise NotImplementedError('f: nothing else')\n"
        "class C:\n"
        "    def g(self):\n"
        "        raise NotImplementedError\n"
        "    def h(self):\n"
        "        raise NotImplementedError('C.h')\n"
    )
    assert list(tables.unsupported(source)) == [
        ("f", "mode == 'b'", "f: {mode} is not there"),
        ("f", "not (mode == 'b')", "f: nothing else"),
        ("C.h", "", "C.h"),
    ]


def test_summary_is_the_first_paragraph_on_one_line() -> None:
    assert tables.summary("One\n    two | three.\n\n    Args:\n        x: y\n") == "One two \\| three."
    assert tables.summary(None) == ""


def test_the_tables_need_nothing_heavy() -> None:
    tree = ast.parse(Path(tables.__file__).read_text())
    eager = {alias.name.partition(".")[0] for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert not eager & {"torch", "numpy", "scipy"}
