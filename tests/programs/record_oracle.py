"""``python -m tests.programs.record_oracle [FILE ...]``: tests that compare with what is recorded run with PyTorch, and record it again.

Without names all of them; with names, such as ``tests/nn/test_rnn.py``, what these tests alone use.  See ``recording.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASKS = ("of_pytorch", "(same", "recorded_oracle")  # how a test asks for what is recorded


def main(names: list[str]) -> int:
    files = names or [str(path) for path in sorted(ROOT.glob("tests/**/test_*.py")) if any(word in path.read_text() for word in ASKS)]
    settings = {"FLAMBEAU_RECORD": "1", "FLAMBEAU_REQUIRE_ORACLE": "1", "FLAMBEAU_KERNELS": "numpy", "OMP_NUM_THREADS": "1"}
    commands = [["pytest", "-q", "-p", "no:xdist", *files]]
    if not names:
        for path in (ROOT / "tests" / "recorded").glob("*.xz"):
            path.unlink()
        commands.insert(0, ["tests.programs.recorded_database"])
    done = [subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=os.environ | settings, check=False) for command in commands]
    return max(each.returncode for each in done)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
