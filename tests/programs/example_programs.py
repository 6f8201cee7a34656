"""The example programs on flambeau and on real PyTorch: what they print, and the losses in it.

python -m tests.programs.example_programs                  every program in full on both: times and the first losses
python -m tests.programs.example_programs char_gpt --steps 20
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Arguments that make 20 steps quick and leave everything in them.
QUICK = {
    "actor_critic": [],
    "bayesian_regression": [],
    "char_gpt": ["--batch-size", "4", "--layers", "2"],
    "char_lstm": ["--characters", "30_000", "--batch-size", "8", "--hidden", "64"],
    "char_mlp": [],
    "cnn_classifier": [],
    "ctc_speech": ["--words", "200", "--batch-size", "8"],
    "detector": ["--batch-size", "8", "--no-picture"],
    "fine_tuning": ["--epochs", "1", "--batch-size", "96"],  # 10 steps of the first phase, then the frozen one
    "gan_2d": [],
    "graph_network": ["--nodes", "1000"],
    "gru_forecast": ["--length", "1200", "--batch-size", "32"],
    "hogwild": [],
    "images": ["--images", "300", "--batch-size", "16", "--no-logs"],
    "vae": [],
    "vae_digits": [],
    "word_transformer": ["--words", "8_000", "--vocabulary", "500", "--batch-size", "8"],
}

# Runs the programs named in argv one after another in one process, so that PyTorch is imported once.
RUN_ALL = """
import contextlib, io, json, runpy, sys
import torch
outputs = []
if "flambeau" not in sys.modules:  # torchvision beside PyTorch's build for the CPU
    sys.path.append("TESTS")
    import oracle_vision
    oracle_vision.torchvision()
for path, arguments in json.loads(sys.argv[1]):
    sys.argv = [path, *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    outputs.append(output.getvalue())
json.dump(outputs, sys.stdout)
""".replace("TESTS", str(ROOT / "tests" / "helpers"))


def run(*words: object, folder: Path) -> str:
    """What a Python process prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, words)]
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def run_programs(arguments: dict[str, list[str]], *, on_flambeau: bool, folder: Path) -> dict[str, str]:
    """What programs print, by name, run in one process with these arguments."""
    programs = [(str(ROOT / "examples" / f"{name}.py"), words) for name, words in arguments.items()]
    interpreter = ["-m", "flambeau"] if on_flambeau else []
    return dict(zip(arguments, json.loads(run(*interpreter, "-c", RUN_ALL, json.dumps(programs), folder=folder))))


def run_quickly(*, on_flambeau: bool, folder: Path) -> dict[str, str]:
    """What every program prints in its first 20 steps, run in one process."""
    quick = {name: [*words, "--steps", "20"] for name, words in QUICK.items()}
    return run_programs(quick, on_flambeau=on_flambeau, folder=folder)


def losses(output: str) -> list[list[float]]:
    """The numbers in the lines `step N loss X [Y]`, a list for each of the first 20 steps."""
    matches = re.findall(r"^step (\d+) loss (.+)$", output, re.MULTILINE)
    assert [int(step) for step, _ in matches] == list(range(1, 21)), output
    return [[float(word) for word in words.split()] for _, words in matches]


def largest_difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """The largest relative difference of two programs' losses."""
    pairs = [(a, b) for mine, their in zip(ours, theirs) for a, b in zip(mine, their, strict=True)]
    return max(abs(a - b) / abs(b) if b else abs(a) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="name", default=list(QUICK), help="programs of examples/, without .py; all when left out"
    )
    parser.add_argument("--steps", type=int, help="only so many steps of each")
    options = parser.parse_args()
    limit = [] if options.steps is None else ["--steps", str(options.steps)]
    print(f"{'program':18} {'flambeau, s':>12} {'PyTorch, s':>12} {'first losses, relative difference':>36}")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            outputs, seconds = [], []
            for on_flambeau in (True, False):
                start = time.perf_counter()
                outputs.append(losses(run_programs({name: limit}, on_flambeau=on_flambeau, folder=Path(folder))[name]))
                seconds.append(time.perf_counter() - start)
            print(f"{name:18} {seconds[0]:12.1f} {seconds[1]:12.1f} {largest_difference(*outputs):36.2g}", flush=True)


if __name__ == "__main__":
    main()
