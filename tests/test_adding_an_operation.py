"""The walk-through in docs/adding-an-operation.md does what it says: its pieces of code are run in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "adding-an-operation.md"

# Makes the two modules of the page, as if they were files of the two packages.
PREPARE = """
import re, sys, types
sys.path[:0] = [{root!r}, {tests!r}, {tests!r} + "/helpers"]
import flambeau
blocks = re.findall(r"```python\\n(.*?)```", open({page!r}).read(), re.S)

def module(name, text):
    made = types.ModuleType(name)
    made.__package__ = name.rpartition(".")[0]
    sys.modules[name] = made
    exec(compile(text, name, "exec"), made.__dict__)
    return made

module("flambeau.ops.softcap_example", blocks[0].replace(*{change!r}))
"""

USE = """
from flambeau.core.calls.registry import TABLES
from tools.tables import row

x = flambeau.tensor([-3.0, 0.0, 0.75, 1e30], requires_grad=True)
y = flambeau.softcap(x)
assert flambeau.allclose(y, flambeau.tensor([-0.9486833, 0.0, 0.6, 1.0])), y
y.sum().backward()
assert flambeau.allclose(x.grad, flambeau.tensor([0.0316228, 1.0, 0.512, 0.0])), x.grad
assert type(y.grad_fn).__name__ == "SoftcapBackward0"
assert flambeau.equal(x.detach().softcap(), y)
out, z = flambeau.empty(4), x.detach().clone()
assert flambeau.softcap(x.detach(), out=out) is out and flambeau.equal(out, y)
assert z.softcap_() is z and flambeau.equal(z, y)
assert flambeau.softcap(flambeau.tensor([1, 2])).dtype == flambeau.float32
assert flambeau.softcap(flambeau.ones(2, dtype=flambeau.bfloat16)).dtype == flambeau.bfloat16

rows, ones = x.detach().reshape(2, 2), flambeau.ones(4)
assert flambeau.equal(flambeau.vmap(flambeau.softcap)(rows).reshape(4), y)
assert flambeau.allclose(flambeau.func.jvp(flambeau.softcap, (x.detach(),), (ones,))[1], x.grad)
assert flambeau.equal(flambeau.vmap(flambeau.func.grad(flambeau.softcap))(x.detach()), x.grad)
with flambeau.autocast("cpu"):
    assert flambeau.softcap(flambeau.ones(2, dtype=flambeau.bfloat16)).dtype == flambeau.float32
assert flambeau.softcap(flambeau.empty(2, 3, device="meta")).shape == (2, 3)
sparse = flambeau.softcap(x.detach().to_sparse())
assert sparse.layout == flambeau.sparse_coo and flambeau.equal(sparse.to_dense(), y)

from flambeau.utils._python_dispatch import TorchDispatchMode

class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        names.append(str(func))
        return func(*args, **(kwargs or {}))

names = []
with Seen():
    flambeau.softcap(rows)
assert names == ["flambeau.softcap.default"], names
assert "softcap" in dir(flambeau) and flambeau.softcap.__doc__.startswith("``input / sqrt")
print("row:", *row(TABLES["torch"]["softcap"]), sep="|")
"""

KERNEL = """
import numpy as np
from flambeau.core.arrays import native
module("flambeau.ops.extent_example", blocks[2])
module("flambeau.kernels.families.extent_example", blocks[3])

for shape in ((8200,), (100, 100), (3, 41, 77)):
    for dtype in (flambeau.float32, flambeau.float64):
        x = flambeau.randn(*shape).to(dtype)
        launches = []
        kernel = native._registered["extent"]
        native._found["extent"] = lambda *arguments: launches.append(1) or kernel(*arguments)
        got = flambeau.extent(x)
        with native.disabled():
            assert flambeau.equal(got, flambeau.extent(x)) and got.shape == x.shape[:-1], (shape, dtype)
        assert launches, (shape, dtype)
assert flambeau.extent(flambeau.tensor([1.0, float("nan")])).isnan()
assert flambeau.extent(flambeau.empty(2, 3, device="meta")).shape == (2,)
x = flambeau.randn(5, 3, 4)
assert flambeau.equal(flambeau.vmap(flambeau.extent)(x), flambeau.extent(x))
"""

GENERATED = """
import pytest, libraries, recording, records
libraries.HAS_ORACLE = recording.HAS_ORACLE = False  # PyTorch has no such function to compare with
records.RECORDS = {each.name: each for each in module("records.softcap_example", blocks[1]).RECORDS}  # no need to collect the others
sys.exit(pytest.main(["tests/test_operations.py", "-q", "-k", "softcap", "-m", "not oracle", "-p", "no:cacheprovider", "-p", "no:xdist"]))
"""


def run(program: str, change: tuple[str, str] = ("", ""), kernels: str = "") -> subprocess.CompletedProcess[str]:
    canonicalize = PREPARE.format(root=str(ROOT), tests=str(ROOT / "tests"), page=str(PAGE), change=change)
    command = [sys.executable, "-c", canonicalize + program]
    environment = {**os.environ, "FLAMBEAU_KERNELS": kernels or os.environ.get("FLAMBEAU_KERNELS", "")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_the_function_gives_method_in_place_form_out_and_docs_row() -> None:
    process = run(USE)
    assert process.returncode == 0, process.stderr
    shown = process.stdout.strip().split("|")
    assert shown[1:6] == ["`softcap`", "primitive", "int_to_float", "method, in-place, out=", "input"]
    assert shown[6] == "autocast float32; 0 at 0; native kernel"
    assert shown[7].startswith("``input / sqrt(1 + input**2)``")


@pytest.mark.skipif(sys.platform != "linux", reason="native kernels are for Linux")
def test_a_kernel_is_registered_by_its_decorator_alone() -> None:
    process = run(KERNEL, kernels="llvm")
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_the_record_gives_tests_that_pass() -> None:
    process = run(GENERATED)
    assert process.returncode == 0, process.stdout + process.stderr
    match = re.search(r"(\d+) passed", process.stdout)
    assert match and int(match[1]) >= 12, process.stdout
    assert "failed" not in process.stdout


@pytest.mark.slow
def test_a_wrong_derivative_is_found() -> None:
    process = run(GENERATED, change=("** 1.5", "** 1.25"))
    assert process.returncode == 1 and "first derivative" in process.stdout, process.stdout + process.stderr
