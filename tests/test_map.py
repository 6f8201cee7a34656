"""The map in docs/design.md names every folder and file that it is about, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "design.md").read_text()
TABLES = re.findall(r"^\| in `([\w/]+)/` \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)


def rooms(folder: Path) -> set[str]:
    """What lies in a folder: its folders, and of the package's top level its files too."""
    entries = [entry for entry in folder.iterdir() if entry.name != "__pycache__"]
    folders = {f"{entry.name}/" for entry in entries if entry.is_dir() and any(file.suffix != ".pyc" for file in entry.rglob("*.*"))}
    return folders | {entry.name for entry in entries if entry.is_file()} if folder.name == "flambeau" else folders


def test_every_folder_with_folders_has_a_table() -> None:
    assert [name for name, _ in TABLES] == ["flambeau", *(f"flambeau/{name}" for name in ("core", "kernels", "ops", "aten")), "tests"]


@pytest.mark.parametrize(("name", "rows"), TABLES, ids=[name for name, _ in TABLES])
def test_the_map_names_what_is_there(name: str, rows: str) -> None:
    named = [word for row in rows.splitlines() for word in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert len(named) == len(set(named))
    assert set(named) == rooms(ROOT / name)
