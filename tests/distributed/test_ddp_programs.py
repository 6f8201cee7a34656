"""Programs as they are published for PyTorch, started as they are there, and losses beside PyTorch's."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
from ddp_losses import EXPECTED, PROGRAMS, ROOT, TOLERANCE, largest_difference, losses, started

pytest.importorskip("mpi4py")


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


RANKS = [2, pytest.param(4, marks=pytest.mark.slow)]


@pytest.mark.parametrize("ranks", RANKS)
def test_losses_are_those_that_pytorch_gave(ranks):
    expected = json.loads(EXPECTED.read_text())[str(ranks)]
    ours = losses(ranks, list(expected))
    assert {name: largest_difference(ours[name], expected[name]) < TOLERANCE for name in expected} == dict.fromkeys(expected, True)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_training_program_with_checkpoints(ranks, tmp_path):
    path = str(tmp_path / "checkpoint")
    for arguments in (["--epochs", "1"], ["--epochs", "2", "--resume"]):
        ended = started(ranks, "images.py", "--checkpoint", path, *arguments)
        assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("epoch 1 ") and float(ended.stdout.split()[-1]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_tutorials_program_by_torchrun(ranks):
    ended = started(ranks, "toy.py")
    assert (ended.returncode, ended.stdout) == (0, f"done with {ranks}\n"), ended.stderr


@pytest.mark.parametrize("ranks", RANKS)
def test_a_tutorials_program_that_starts_its_processes_itself(ranks, free_port, tmp_path):
    paths = f"{ROOT / 'flambeau' / 'runner' / 'shim'}{os.pathsep}{ROOT}"
    environment = {**os.environ, "PYTHONPATH": paths, "MASTER_PORT": str(free_port), "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(PROGRAMS / "toy.py"), str(ranks)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"done with {ranks}\n"), ended.stderr
