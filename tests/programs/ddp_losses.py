"""Losses with ``DistributedDataParallel``, here and in PyTorch: ``python -m tests.programs.ddp_losses [--ranks 2 4] [--record]``.

PyTorch's, with its Gloo, are kept in ``tests/distributed/programs/losses.json``. Its synchronised batch norm needs GPUs, so that the
network that has it is held against one process with the whole batch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "distributed" / "programs"
EXPECTED = PROGRAMS / "losses.json"
TOLERANCE = 1e-5

Losses = dict[str, list[float]]


def started(ranks: int, program: str, *arguments: str, as_flambeau: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program that imports torch by ``torchrun``; torch is this package, or PyTorch."""
    paths = f"{ROOT / 'flambeau' / 'runner' / 'shim'}{os.pathsep}{ROOT}" if as_flambeau else ""
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(PROGRAMS / program)]
    with tempfile.TemporaryDirectory() as folder:  # away from the tree, where PyTorch is not shadowed
        return subprocess.run([*command, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def losses(ranks: int, models: list[str], *, as_flambeau: bool = True) -> Losses:
    """The losses of 20 steps by model.

    Raises:
        RuntimeError: the program failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        ended = started(ranks, "losses.py", folder, *models, as_flambeau=as_flambeau)
        if ended.returncode:
            raise RuntimeError(ended.stderr)
        return json.loads(Path(folder, f"losses{ranks}.json").read_text())


def largest_difference(have: list[float], expected: list[float]) -> float:
    """Relative to what is expected."""
    return max(abs(a - b) / abs(b) for a, b in zip(have, expected, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--record", action="store_true", help="keep what PyTorch gives")
    options = parser.parse_args()
    theirs = losses(1, ["cnn"], as_flambeau=False)
    by_ranks = {ranks: {**losses(ranks, ["mlp", "gpt"], as_flambeau=False), **theirs} for ranks in options.ranks}
    worst = 0.0
    for ranks, expected in by_ranks.items():
        ours = losses(ranks, ["mlp", "cnn", "gpt"])
        for name in expected:
            difference = largest_difference(ours[name], expected[name])
            worst = max(worst, difference)
            print(f"{name} on {ranks} ranks: {expected[name][0]:.3f} to {expected[name][-1]:.3f}, largest difference {difference:.1e}")
    if options.record:
        EXPECTED.write_text(json.dumps(by_ranks, indent=1) + "\n")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
