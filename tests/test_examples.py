"""The example programs run unchanged on flambeau, and take the same steps as on real PyTorch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ["cnn_classifier", "char_mlp", "gan_2d"]

pytest.importorskip("sklearn")


def run(*words, folder):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, words)]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def losses(output):
    """The numbers in the lines `step N loss X [Y]`, in their order."""
    matches = re.findall(r"^step (\d+) loss (.+)$", output, re.MULTILINE)
    assert [int(step) for step, _ in matches] == list(range(1, 21))
    return [float(word) for _, words in matches for word in words.split()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_names_only_torch(name):
    assert not re.search(r"^\s*(import|from) flambeau", (ROOT / "examples" / f"{name}.py").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_learns_on_flambeau(name, tmp_path):
    values = losses(run("-m", "flambeau", ROOT / "examples" / f"{name}.py", "--steps", 20, folder=tmp_path))
    per_step = len(values) // 20
    assert values[-per_step] < 0.95 * values[0]


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_takes_pytorchs_steps(name, tmp_path):
    pytest.importorskip("torch")
    program = ROOT / "examples" / f"{name}.py"
    ours = losses(run("-m", "flambeau", program, "--steps", 20, folder=tmp_path))
    theirs = losses(run(program, "--steps", 20, folder=tmp_path))
    assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3])
def test_the_demo_reads_98_percent_of_the_digits(seed, tmp_path):
    output = run(ROOT / "examples" / "digits.py", "--seed", seed, "--out", "results", folder=tmp_path)
    trained, restored = re.search(r"test accuracy ([\d.]+)%, from the checkpoint ([\d.]+)%", output).groups()
    assert trained == restored
    assert float(trained) >= 98
    assert (tmp_path / "results" / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "results" / "checkpoint.pth").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.oracle
def test_the_demo_trains_as_on_pytorch(tmp_path):
    pytest.importorskip("torch")
    output = run(ROOT / "examples" / "digits.py", "--compare", "--epochs", 5, folder=tmp_path)
    assert "loss of the first 100 steps" in output
