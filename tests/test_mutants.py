"""The program that changes the package in small ways (``python -m tests.mutants``): its changes take effect, one at a time."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path

import pytest
from mutants import changes, choosing
from mutants.changes import PACKAGE, Site, drawn, sites

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
sys.path[:0] = ["tests", "tests/helpers"]
import numpy as np
import flambeau as torch
from mutants import swapping
from mutants.changes import PACKAGE, sites
swapping.Rounding()
found = [site for site in sites(PACKAGE / "{path}") if site.within == "{within}" and site.kind == "{kind}"]
x = torch.linspace(0.1, 2, 7, dtype=torch.float64)
print(swapping.apply(found[{which}]) >= 1, {expression})
"""


def run(path: str, within: str, kind: str, expression: str, which: int = 0) -> str:
    program = PROGRAM.format(path=path, within=within, kind=kind, expression=expression, which=which)
    done = subprocess.run([sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_rounded_result_is_as_exact_as_float32():
    expression = "abs(torch.special.bessel_j0(x).numpy() / __import__('scipy.special').special.j0(x.numpy()) - 1).max() > 1e-9"
    assert run("ops/special.py", "bessel_j0", "rounded", expression) == "True True"


def test_a_changed_rule_gives_another_gradient():
    expression = "torch.autograd.functional.vjp(torch.tan, x, torch.ones_like(x))[1].allclose(1 + x.tan() ** 2)"
    assert run("ops/trigonometry.py", "tan", "other operator", expression) == "True False"


def test_what_compiles_to_the_same_is_no_change():
    program = (
        "import sys; sys.path[:0] = ['tests', 'tests/helpers']\nimport flambeau\n"
        "from mutants import swapping\nfrom mutants.changes import PACKAGE, Site\n"
        "text = (PACKAGE / 'ops/special.py').read_text()\nat = text.index('import numpy')\n"
        "swapping.apply(Site('ops/special.py', 1, '', '', 'import', 'import', at, at + 6))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert "Unchanged" in done.stderr


def test_places_are_found_inside_functions_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "ops" / "module.py"
    file.parent.mkdir()
    file.write_text('''"""A module."""
LIMIT = 3 + 4


@op(grad={"x": lambda grad, x: grad * x})
def f(x, n: int = 5):
    """Docstring 1 + 1."""
    if n < 2:
        raise ValueError(f"{n + 1}")
    y = np.where(x > n, a, b)
    y -= x.T
    return y.astype(np.float64)
''')
    monkeypatch.setattr(changes, "PACKAGE", tmp_path)
    found = {(site.kind, site.before, site.after) for site in sites(file)}
    assert found == {
        ("other operator", "grad * x", "(grad) / (x)"),
        ("dropped term", "grad * x", "(grad)"),
        ("swapped arguments", "np.where(x > n, a, b)", "np.where(x > n, b, a)"),
        ("other comparison", "x > n", "(x) >= (n)"),
        ("dropped statement", "y -= x.T", "pass"),
        ("lost stride", "x.T", "(x)"),
        ("rounded", "y.astype(np.float64)", "__rounded__(y.astype(np.float64))"),
        ("wrong dtype", "np.float64", "np.float32"),
    }
    assert {site.within for site in sites(file)} == {"f"}


def test_the_same_seed_draws_the_same_places_and_all_compile():
    first = list(drawn(40, 3))
    assert first == list(drawn(40, 3)) and len(first) == 40
    for site in first:
        text, changed = site.source()
        assert text[site.start : site.end] == site.before and changed != text
        compile(changed, site.path, "exec")


def test_tests_that_name_the_operation_come_first():
    ids = ["tests/test_a.py::test_x[add]", "tests/test_a.py::test_x[softplus-float32]", "tests/test_b.py::test_softplus_of_nan"] * 3
    site = Site("ops/activation.py", 1, "softplus", "", "", "", 0, 0)
    picked = [ids[number] for number in choosing.chosen(site, ids, 0, 24)]
    assert all("softplus" in name for name in picked[:6]) and len(picked) == len(ids)
    assert not hasattr(builtins, "__rounded__")
