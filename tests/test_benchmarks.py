"""The benchmarks' own parts: every case runs on flambeau, and a section of the page is replaced without touching the others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import cases, overhead, report

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: f"{case.group}: {case.name}")
def test_a_case_runs_twice(case):
    import flambeau

    timed = case.build(flambeau)
    timed()
    timed()


def test_cases_have_names_of_their_own():
    assert len({(case.group, case.name) for case in cases.CASES}) == len(cases.CASES) >= 25


def test_recorded_cases_record():
    import flambeau

    for case in cases.CASES:
        if case.group == "recorded" and case.name not in ("detach", "max over a dim"):
            assert case.build(flambeau)().requires_grad, case.name


def test_the_best_round_counts_for_each_function():
    calls = []
    fewest = overhead.best([lambda: calls.append(0), lambda: [calls.append(1) for _ in range(100)]], rounds=3, seconds=1e-4)
    assert 0 < 5 * fewest[0] < fewest[1] < 1e-2


def test_the_geometric_mean_of_a_ratio_and_its_inverse_is_one():
    assert overhead.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


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
