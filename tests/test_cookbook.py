"""The pages of docs/cookbook: every block of code runs, and what it asserts holds; on PyTorch too, which shows that the pages are right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import oracle_vision
import pytest
from oracle import pytorch

import flambeau

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in (ROOT / "docs" / "cookbook").glob("*.md") if path.stem != "README")
MAIN = '__name__ == "__main__"'
# PyTorch's own test databases, imported by other tests, forbid setting the flags of its back ends; old spellings are gone there; the last
# takes seconds, and others are our own.
NOT_ON_PYTORCH = {
    "Back-end switches and versions",
    "Accepted old spellings",
    "Curves in windows",
    "A table of layers",
    "A drawing of a graph",
    "A drawing of a compiled program",
    "A report on a script",
    "A discrete space",
    "Apex-style calls",
    "Training by Horovod's calls",
}
NOT_ON_PYTORCH |= {"VGG features and fc7"}
WITH_KERNELS = {"known-networks"}  # pages whose networks take seconds without kernels


def recipes(page):
    """Title, code and the code's line number of each recipe of a page."""
    text = page.read_text()
    for match in re.finditer(r"^## (.+)\n(?:(?!^## ).*\n)*?```python\n((?:.*\n)*?)```", text, re.MULTILINE):
        yield match[1], match[2], text[: match.start(2)].count("\n") + 1


def run_as_script(code, folder, **settings):
    script = folder / "recipe.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    done = subprocess.run([sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def on_pytorch(code):
    """A recipe with PyTorch, and torchvision, in flambeau's place."""
    if "vision" in code:
        oracle_vision.torchvision()
    code = code.replace("from flambeau import vision as torchvision", "import torchvision").replace("flambeau.vision", "torchvision")
    return re.sub(r"\bflambeau\b", "torch", code)


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
        pytorch()
    monkeypatch.chdir(tmp_path)
    if page.stem in WITH_KERNELS and library == "flambeau":
        run_as_script("\n".join(f"exec({code!r}, {{'__name__': 'recipe'}})" for _, code, _ in recipes(page)), tmp_path, FLAMBEAU_KERNELS="")
        return
    for title, code, line in recipes(page):
        if MAIN in code:  # processes that are started import it
            if library == "flambeau":
                run_as_script(code, tmp_path)
            continue
        if library == "torch" and title in NOT_ON_PYTORCH:
            continue
        # Line numbers in a traceback are the page's.
        source = "\n" * (line - 1) + (on_pytorch(code) if library == "torch" else code)
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
