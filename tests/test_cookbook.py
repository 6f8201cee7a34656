"""The pages of docs/cookbook: every block of code runs, and what it asserts holds; on PyTorch too, which shows that the pages are right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "docs" / "cookbook").glob("*.md") if path.stem != "README")
MAIN = '__name__ == "__main__"'
# PyTorch's own test databases, imported by other tests, forbid setting the flags of its back ends; old spellings are gone there.
NOT_ON_PYTORCH = {"Back-end switches and versions", "Accepted old spellings"}


def recipes(page):
    """Title, code and the code's line number of each recipe of a page."""
    text = page.read_text()
    for match in re.finditer(r"^## (.+)\n(?:(?!^## ).*\n)*?```python\n((?:.*\n)*?)```", text, re.MULTILINE):
        yield match[1], match[2], text[: match.start(2)].count("\n") + 1


def run_as_script(code, folder):
    script = folder / "recipe.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def _switches():
    """What pages set in the process, put back: the switches of a back end that is not there, too."""
    cudnn = flambeau.backends.cudnn
    before = {name: getattr(cudnn, name) for name in ("benchmark", "deterministic", "enabled", "allow_tf32")}
    yield
    for name, value in before.items():
        setattr(cudnn, name, value)


@pytest.mark.usefixtures("_switches")
@pytest.mark.parametrize("library", ["flambeau", pytest.param("torch", marks=pytest.mark.oracle)])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_recipes_run(page, library, tmp_path, monkeypatch):
    if library == "torch":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    for title, code, line in recipes(page):
        if MAIN in code:  # processes that are started import it
            if library == "flambeau":
                run_as_script(code, tmp_path)
            continue
        if library == "torch" and title in NOT_ON_PYTORCH:
            continue
        # Line numbers in a traceback are the page's.
        source = "\n" * (line - 1) + re.sub(r"\bflambeau\b", library, code)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some show old spellings
            exec(compile(source, str(page), "exec"), {"__name__": "recipe"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_recipe_says_and_checks_something(page):
    text = page.read_text()
    found = list(recipes(page))
    assert len(found) == text.count("\n## ") == text.count("```python\n") > 0
    assert all("assert " in code or "raise AssertionError" in code for _, code, _ in found)


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "cookbook" / "README.md").read_text()
    rows = dict(re.findall(r"^\| \[.+\]\((.+)\.md\) \| .+ \| (\d+) \|$", index, re.MULTILINE))
    assert {page.stem: str(len(list(recipes(page)))) for page in PAGES} == rows
