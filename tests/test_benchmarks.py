"""The benchmarks' own parts: every case runs on flambeau, wrong values are noticed, and a section of a page is replaced by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    __main__ as commands,
    attention,
    cases,
    coldstart,
    comparison,
    convolution,
    func,
    inference,
    kernels,
    measuring,
    ops,
    optimizers,
    quantization,
    recurrent,
    report,
    scaling,
    sides,
    training,
    transforms,
)
from flambeau.core.arrays import native
from flambeau.core.calls.registry import entries

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
LARGE = (kernels, convolution, training, inference, recurrent, scaling, quantization)
# Of curves that run over four decades, the largest sizes give nothing that the others do not.
LARGEST = {curve.case(curve.sizes[-1]).key for curve in scaling.CURVES}
SHORT = [case for case in attention.CASES if case.name.startswith(("64 tokens, 4", "0.8M"))]
LONG = [case for module in LARGE for case in module.CASES if case.key not in LARGEST]
SHORT += [case for case in func.CASES if case.group == "small"]


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: f"{case.group}: {case.name}")
def test_a_case_runs_twice(case):
    import flambeau

    timed = case.build(flambeau)
    timed()
    timed()


def test_cases_have_names_of_their_own():
    assert len({(case.group, case.name) for case in cases.CASES}) == len(cases.CASES) >= 25


@pytest.mark.parametrize(
    ("module", "least"),
    [
        (kernels, 60),
        (convolution, 60),
        (training, 8),
        (inference, 6),
        (optimizers, 18),
        (quantization, 24),
        (recurrent, 20),
        (scaling, 25),
        (attention, 50),
        (transforms, 70),
        (func, 25),
    ],
)
def test_large_cases_have_keys_of_their_own(module, least):
    assert len({case.key for case in module.CASES}) == len(module.CASES) >= least


@pytest.mark.slow
@pytest.mark.parametrize("case", [*LONG, *SHORT], ids=lambda case: case.key)
def test_a_large_case_gives_tensors_of_finite_values(case):
    import flambeau

    timed = case.build(flambeau)
    timed()
    for array in sides.as_arrays(timed()):
        assert array.size > 0 and np.isfinite(array).all()


@pytest.mark.slow
def test_every_row_of_the_operations_runs(monkeypatch):
    import flambeau

    monkeypatch.setattr(ops, "SIDE", 100)
    failed = {}
    with warnings.catch_warnings(), native.disabled():
        warnings.simplefilter("ignore", UserWarning)  # old spellings say that they are old
        for case in ops.make_cases():
            try:
                assert all(array.size for array in sides.as_arrays(case.build(flambeau)()))
            except Exception as error:
                failed[case.key] = error
    assert not failed


def test_every_operation_is_measured_or_it_is_said_why_not():
    measured = {case.name if case.group == ops.ELEMENTWISE else ops.operation_of(case.name) for case in ops.make_cases()}
    for entry in entries():
        if not entry.name.startswith("_") and not getattr(entry, "is_view", False) and not getattr(entry, "is_multi_view", False):
            name = entry.name if entry.namespace == "torch" else f"{entry.namespace}.{entry.name}"
            assert name in measured or any(re.fullmatch(names, name, re.VERBOSE) for names in ops.EXCLUDED.values()), name


def test_operations_above_the_bounds_are_named():
    chosen = [cases.Case(name, "group", lambda torch: lambda: None) for name in ("fine", "slow", "slowest")]
    text = ops.summary([comparison.Outcome(case, [seconds, 1.0]) for case, seconds in zip(chosen, (0.5, 2.0, 8.0))])
    assert "Above 3: 8.0 `slowest` (group)." in text and "Above 1.4: 2.0 `slow` (group)." in text and "2.00" in text
    assert "Why: not looked into: `slow`, `slowest`." in text


def test_operations_above_the_bounds_have_a_reason():
    names = ("conj(z).clone()", "x[rows, rows]", "linalg.cond(small)", "special.bessel_j0", "lu_unpack(*linalg.lu_factor(small))")
    text = ops.reasons([comparison.Outcome(cases.Case(name, "group", lambda torch: lambda: None), [2.0, 1.0]) for name in names])
    assert "not looked into" not in text and all(f"`{name}`" in text for name in names) and text.count(";") == 4
    known = {case.name for case in ops.make_cases()}
    for reason, pattern in ops.REASONS.items():
        assert any(re.fullmatch(pattern, name, re.VERBOSE) for name in known), reason
    assert {expression for _, expression in ops.ATOL} <= known
    assert ops.reasons([]) == "Why: none."


def test_the_first_calls_that_are_timed_are_cases():
    for module, names in coldstart.CHOSEN.items():
        known = {case.key for case in {"kernels": kernels, "convolution": convolution}[module].CASES}
        assert set(names) <= known, set(names) - known


def test_two_sources_of_operands_agree():
    import flambeau

    first, second = (comparison.Source(flambeau) for _ in range(2))
    for source in (first, second):
        source.integers(10, 3)
    assert first.normal(4).tolist() == second.normal(4).tolist() != first.normal(4).tolist()


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (np.ones(3, np.float32), np.ones(3, np.float32), ""),
        (np.full(3, np.nan, np.float32), np.full(3, np.nan, np.float32), ""),
        (np.array([1.0, 2.1]), np.array([1.0, 2.0]), "1 of 2 values differ"),
        (np.array([1, 3]), np.array([1, 2]), "1 of 2 values differ"),
        (np.ones(3), np.ones(3, np.float32), "expected float32"),
        (np.ones((3, 1)), np.ones(3), "shape (3,)"),
    ],
)
def test_a_difference_is_noticed(ours, theirs, words):
    difference = comparison.difference([[ours], [theirs]], rtol=1e-3)
    assert (words in difference) if words else (difference == "")


def test_the_backward_case_is_the_derivative():
    import flambeau

    source = comparison.Source(flambeau)
    x = source.normal(4)
    timed = comparison.backward(lambda torch, x: x**2, flambeau, [x], [x], source)
    (first,), (second,) = timed(), timed()
    grad = comparison.Source(flambeau)
    grad.normal(4)
    assert first.tolist() == second.tolist() == pytest.approx((2 * x * grad.normal(4)).tolist())


def test_a_side_builds_takes_its_turn_and_says_what_failed():
    side = sides.Side("flambeau", 1)
    try:
        (values,) = side.ask("build", "benchmarks.cases", "plain: add")
        assert values.shape == (4, 4)
        assert 0 < min(sides.in_turn([(side, "plain: add")], rounds=2, seconds=1e-4)) < 1e-2
        with pytest.raises(RuntimeError, match="flambeau: ModuleNotFoundError"):
            side.ask("build", "benchmarks.absent", "plain: add")
        side._process.kill()
        with pytest.raises(RuntimeError, match="ended with exit code -9"):
            side.ask("turn", "plain: add")
        assert side.ask("clear") is None
    finally:
        side.close()


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux tells what all processors do")
def test_what_other_programs_take_is_seen():
    side = sides.Side("flambeau", 1)
    try:
        side.ask("used")
        with sides.foreign([side]) as share:
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            try:
                other.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                other.kill()
                other.wait()
        assert share[0] > comparison.ALLOWED
    finally:
        side.close()


def test_problems_and_disturbances_are_said_and_left_out_of_the_mean():
    fine, wrong, noisy = (cases.Case(name, "group", lambda torch: lambda: None) for name in ("fine", "wrong", "noisy"))
    outcomes = [comparison.Outcome(fine, [2.0, 1.0]), comparison.Outcome(wrong, [], "values differ")]
    text = comparison.summary([*outcomes, comparison.Outcome(noisy, [1.0, 100.0], others=0.5)])
    assert "All 1 cases: geometric mean 2.00" in text and "Not measured: group: wrong: values differ" in text
    assert "noisy *" in text and "1 cases (*) were disturbed" in text


def test_the_benchmarks_are_loaded_before_numpy_and_set_its_threads():
    program = (
        "import importlib, os, sys, benchmarks.__main__ as commands\n"
        "modules = [importlib.import_module(f'benchmarks.{name}') for name in commands.NAMES]\n"
        "commands.set_threads(3)\n"
        "print('numpy' in sys.modules, os.environ['OMP_NUM_THREADS'], all(module.THREADS for module in modules))"
    )
    words = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    assert words.split() == ["False", "3", "True"]


def test_threads_cannot_be_set_after_numpy():
    with pytest.raises(RuntimeError, match="before NumPy"):
        measuring.set_threads(1)


def test_all_runs_every_benchmark(monkeypatch):
    ran = []

    def run(command, check):
        ran.append(command[3:])
        return subprocess.CompletedProcess(command, int(command[3] == "kernels"))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "all", "--quick"])
    assert commands.main() == 1
    assert ran == [[name, "--quick"] for name in commands.NAMES]


def test_a_part_is_not_written_over_the_whole(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "kernels", "--only", "exp", "--write"])
    with pytest.raises(SystemExit):
        commands.main()
    assert "--only" in capsys.readouterr().err


PEAKS = """
import numpy as np
from benchmarks.measuring import peak_bytes, resident_bytes
np.ones(20_000_000).sum()
before = resident_bytes()
print(peak_bytes(lambda: None) - before, peak_bytes(lambda: np.ones(10_000_000).sum()) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux can forget an earlier peak")
def test_the_peak_is_that_of_the_work_alone():
    """In a process of its own: an allocator that many tests have used may have as much left."""
    done = subprocess.run([sys.executable, "-c", PEAKS], cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=True)
    small, large = map(int, done.stdout.split())
    assert small < 40e6 < large < 120e6


def test_recorded_cases_record():
    import flambeau

    for case in cases.CASES:
        if case.group == "recorded" and case.name not in ("detach", "max over a dim"):
            assert case.build(flambeau)().requires_grad, case.name


def test_the_best_round_counts_for_each_function():
    calls = []
    fewest = measuring.best([lambda: calls.append(0), lambda: [calls.append(1) for _ in range(100)]], rounds=3, seconds=1e-4)
    assert 0 < 5 * fewest[0] < fewest[1] < 1e-2


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one():
    assert measuring.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_a_section_is_replaced_and_the_rest_stays(tmp_path, monkeypatch, capsys):
    page = tmp_path / "docs" / "benchmarks.md"
    monkeypatch.setattr(report, "PAGE", page)
    report.write_section("one", "first")
    report.write_section("two", "second")
    page.write_text(page.read_text() + "\nA closing word.\n")
    report.write_section("one", "third")
    text = page.read_text()
    assert "third" in text and "second" in text and "first" not in text
    assert text.endswith("A closing word.\n") and text.startswith("# Benchmarks")


@pytest.mark.slow
def test_training_keeps_no_memory_without_the_collector():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks", "leak", "--steps", "3000"]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
