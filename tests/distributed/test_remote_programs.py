"""Programs of the kind of PyTorch's tutorials on remote calls, as they stand, with the losses that PyTorch gave.

``python tests/distributed/programs/remote.py PORT ANOTHER > tests/distributed/programs/remote.json`` with PyTorch records them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.ranks import free_port

HERE = Path(__file__).resolve().parent / "programs"


def test_losses_are_those_that_pytorch_gave():
    pytest.importorskip("mpi4py")
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "flambeau", str(HERE / "remote.py"), str(free_port()), str(free_port())]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    ours, expected = json.loads(ended.stdout), json.loads((HERE / "remote.json").read_text())
    assert ours == {name: pytest.approx(losses, rel=1e-5) for name, losses in expected.items()}
