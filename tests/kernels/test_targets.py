"""Every class of processor, and machines without kernels: the same values everywhere."""

from __future__ import annotations

import builtins
import io
import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from flambeau.core.arrays.native import NoKernel
from flambeau.kernels.compiler import build, expression, image, machine_code, target
from flambeau.kernels.compiler.expression import Untraceable
from flambeau.kernels.compiler.target import ALL, AVX2, AVX512, NEON, PLAIN

from .tiny import RUNNABLE

HERE = Path(__file__).parent


def run(program, *arguments, timeout=120, error="", **environment):
    """Output of a Python program, which ends well, or with ``error`` among its last words."""
    paths = os.pathsep.join(filter(None, (str(HERE.parent.parent), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, *([str(program)] if isinstance(program, Path) else ["-c", program]), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", **environment},
    )
    if error:
        assert done.returncode and error in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


# -- all families on all classes ------------------------------------------------------------------------------------------------------
def _families(name, *arguments):
    out = run(HERE / "compact.py", *arguments, FLAMBEAU_TARGET=name, FLAMBEAU_KERNELS_FROM="1")
    assert f"{name}: " in out and "never built: []" in out
    return out


@pytest.mark.skipif(AVX2 not in RUNNABLE, reason="this machine has no AVX2")
@pytest.mark.slow
def test_all_families_on_avx2_and_compiled_for_neon():
    out = _families("avx2", "neon")
    assert "refused: []" in out and "neon: " in out


@pytest.mark.slow
def test_all_families_on_this_machine():
    assert "refused: []" in _families(target.host().name)


@pytest.mark.skipif(PLAIN not in RUNNABLE, reason="not an x86-64 machine")
@pytest.mark.slow
def test_all_families_on_plain():
    assert "refused: ['flat']" in _families("plain")  # float16 needs instructions; bfloat16 does not


@pytest.mark.parametrize("processor", list(ALL.values()), ids=lambda t: t.name)
def test_every_function_compiles_for_every_class(processor):
    """All functions that expressions may contain, in one kernel for each kind; nothing undefined may remain."""
    for element in ("f32", "f64", "i32"):
        known = []

        def everything(k, element=element, known=known):
            x, y, z = k.array(), k.array(), k.array()
            a, b = (k.load(pointer, 0, element, k.lanes(element)) for pointer in (x, y))
            for name, lowered in expression._LOWERED.items():
                if element != "i32" and name.startswith(("bitwise", "invert")):
                    continue
                for operands in ((a,), (a, b), (a > b, a, b)):
                    lines = len(k.lines)
                    try:
                        value = lowered(k, *operands)
                    except (TypeError, Untraceable):
                        del k.lines[lines:]
                        continue
                    k.store(k.cast(value, "f64"), z, len(known) * 64, "f64")
                    known.append(name)
                    break

        k = build.source_of(everything, (), processor)
        assert len(known) > (60 if element != "i32" else 25)
        assert image.is_whole(image.link(image.compile_object(k.text(), processor), k.name))


def test_generators_know_what_was_built_of_them():
    @build.kernel
    def nothing(k, element):
        k.array()

    (generator,) = [candidate for candidate in build.GENERATORS if candidate.__name__ == "nothing"]
    try:
        kernel = nothing("f32")
        assert build.GENERATORS[generator] == {("f32",): kernel} and nothing("f32") is kernel
    finally:
        del build.GENERATORS[generator]


def test_a_kernel_that_cannot_be_linked_is_no_kernel():
    @build.kernel
    def calls_out(k):
        k.declared["outside"] = "declare void @outside()"
        k.effect("call void @outside()")

    (generator,) = [candidate for candidate in build.GENERATORS if candidate.__name__ == "calls_out"]
    try:
        for _ in range(2):
            with pytest.raises(NoKernel, match="outside"):
                calls_out()
    finally:
        del build.GENERATORS[generator]


def test_a_system_without_executable_memory_has_no_kernels(monkeypatch):
    monkeypatch.setattr(mmap, "PROT_EXEC", 1 << 20)  # a protection that no system knows
    with pytest.raises(NoKernel, match="forbidden"):
        machine_code.compiled("define void @f() {\n  ret void\n}\n", "f", target.current())


# -- which class this machine is ------------------------------------------------------------------------------------------------------
@pytest.fixture
def undecided():
    def forget():
        target.host.cache_clear()
        target.current.cache_clear()

    forget()
    yield
    forget()


def _machine(monkeypatch, machine, flags=""):
    real = builtins.open
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    text = f"processor : 0\nflags : {flags}\n"
    monkeypatch.setattr(builtins, "open", lambda path, *a, **k: io.StringIO(text) if path == "/proc/cpuinfo" else real(path, *a, **k))


V3 = "fpu sse2 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize(
    ("machine", "flags", "wanted"),
    [
        ("x86_64", V4, AVX512),
        ("x86_64", V4.replace("avx512dq", ""), AVX2),
        ("x86_64", V3, AVX2),
        ("x86_64", V3.replace(" fma", ""), PLAIN),
        ("x86_64", "fpu sse2", PLAIN),
        ("aarch64", "", NEON),
    ],
)
def test_classes_by_what_the_processor_says(undecided, monkeypatch, machine, flags, wanted):
    monkeypatch.delenv("FLAMBEAU_TARGET", raising=False)
    _machine(monkeypatch, machine, flags)
    assert target.host() is target.current() is wanted


def test_a_lower_class_can_be_chosen_and_a_higher_one_cannot(undecided, monkeypatch):
    _machine(monkeypatch, "x86_64", V3)
    for name, wanted in {"avx2": AVX2, "plain": PLAIN, "": AVX2}.items():
        target.current.cache_clear()
        monkeypatch.setenv("FLAMBEAU_TARGET", name)
        assert target.current() is wanted
    for name in ("avx512", "neon", "AVX2", "sse"):
        monkeypatch.setenv("FLAMBEAU_TARGET", name)
        target.current.cache_clear()
        with pytest.raises(ValueError, match=f"FLAMBEAU_TARGET: expected one of plain, avx2 on this machine, got '{name}'"):
            target.current()


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("win32", "AMD64"), ("linux", "riscv64")])
def test_machines_without_kernels(undecided, monkeypatch, system, machine):
    monkeypatch.setattr(sys, "platform", system)
    _machine(monkeypatch, machine)
    with pytest.raises(target.UnsupportedMachine, match=system if system != "linux" else machine):
        target.host()


# -- without kernels ------------------------------------------------------------------------------------------------------------------
WORK = """
import numpy as np
import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native

x = torch.linspace(-3, 3, 60000).reshape(300, 200).requires_grad_()
y = F.gelu(x * 2 + x[0])
y = F.softmax(y, 1) + F.layer_norm(y, (200,)) + (y @ y.t()).sum(1, keepdim=True).tanh()
loss = F.cross_entropy(y, torch.arange(300) % 200) + y.square().mean() + y.to(torch.bfloat16).float().amax()
loss.backward()
torch.optim.SGD([x], lr=0.1, momentum=0.9).step()
z = F.max_pool2d(F.conv2d(x.detach().view(3, 4, 50, 100), torch.ones(5, 4, 3, 3)), 2).sum()
rows = F.embedding(torch.arange(300), x).flip(0).detach()
made = torch.cat([x.detach().t().contiguous().view(-1), loss.detach().view(1), z.view(1), rows.view(-1)])
torch.manual_seed(3)
made = torch.cat([made, torch.randn(20000), F.dropout(torch.ones(20000)), made.sort().values[:9]])
made.add_(1).mul_(0.5).clamp_(-9, 9)
"""
SHOW = "print(made.double().abs().sum().item(), made[::997].tolist())"
BLOCKED = "import sys; sys.modules['llvmlite'] = None\n"
FORBIDDEN = """
import sys
class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "llvmlite":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Forbid())
"""
CHECKS = {
    "llvmlite is not installed": (BLOCKED, {}, "assert not native.switch.on or native._found"),
    "llvmlite cannot be imported": (FORBIDDEN, {}, ""),
    "kernels are switched off": (
        "",
        {"FLAMBEAU_KERNELS": "numpy"},
        "import sys; assert not native.switch.on; assert {'llvmlite', 'flambeau.kernels.compiler.build'}.isdisjoint(sys.modules)",
    ),
    "another system": ("import os; real = os.uname(); os.uname = lambda: os.uname_result((*real[:4], 'riscv64'))\n", {}, ""),
    "no executable memory": (
        "import mmap; mmap.PROT_EXEC = 1 << 20\n",  # which the system refuses
        {},
        "",
    ),
}


@pytest.fixture(scope="module")
def usual():
    """The program's results with kernels."""
    return run(WORK + "assert native.switch.on\n" + SHOW)


@pytest.mark.parametrize("why", list(CHECKS))
def test_without_kernels_the_values_are_the_same(why, usual, tmp_path):
    before, environment, after = CHECKS[why]
    out = run(before + WORK + after + "\n" + SHOW, FLAMBEAU_CACHE=str(tmp_path / "none"), **environment)
    values, wanted = (eval(text.strip().replace(" [", ", [", 1)) for text in (out, usual))
    assert values[0] == pytest.approx(wanted[0], rel=1e-5)
    assert values[1] == pytest.approx(wanted[1], rel=1e-3, abs=1e-4)
    assert not list((tmp_path / "none").glob("*.image")) or why == "no executable memory"


def test_mistyped_environment_variables_are_errors():
    run("import flambeau", error="ValueError: FLAMBEAU_KERNELS: expected 'llvm' or 'numpy', got 'fast'", FLAMBEAU_KERNELS="fast")
    program = "import flambeau as torch; torch.ones(100).exp(); print('small ones run'); torch.ones(300, 300).exp()"
    run(program, error="ValueError: FLAMBEAU_TARGET: expected one of", FLAMBEAU_TARGET="sse9")
    run("import flambeau", FLAMBEAU_KERNELS="")


def test_float16_without_instructions_switches_nothing_else_off():
    program = """
import flambeau as torch
from flambeau.core.arrays import native
x = torch.linspace(-3, 3, 60000)
half = x.half()
assert torch.equal((half * 2 + half).float(), half.float().mul(2).half().float().add(half.float()).half().float())
assert torch.equal(half.exp().half().isnan(), torch.zeros(60000, dtype=torch.bool))
assert native.switch.on
from flambeau.kernels.compiler import build
x.exp()
assert any(kernel.__class__ is build.Kernel for kernels in build.GENERATORS.values() for kernel in kernels.values())
"""
    if PLAIN in RUNNABLE:
        run(program, FLAMBEAU_TARGET="plain")
