"""How long an import takes, in fresh processes in turn, and that nothing heavy is imported with it."""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys

from .report import machine, table, write_section

THREADS = 1
HEAVY = ("scipy", "llvmlite", "PIL", "matplotlib", "torch")
PROGRAM = """
import sys, time
begin = time.perf_counter()
import {name}
seconds = time.perf_counter() - begin
print(seconds, *(name for name in {heavy!r} if name in sys.modules))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=9, help="processes for each package")
    parser.add_argument("--quick", action="store_true", help="three processes")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def import_in_a_process(name: str) -> tuple[float, list[str]]:
    """Seconds that ``import name`` takes in a fresh interpreter, and the heavy packages that came with it."""
    command = [sys.executable, "-c", PROGRAM.format(name=name, heavy=HEAVY)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # as installed: compiled
    words = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    return float(words[0]), words[1:]


def main(options: argparse.Namespace) -> int:
    if options.quick:
        options.rounds = 3
    names = [name for name in ("numpy", "flambeau", "torch") if importlib.util.find_spec(name)]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    guests: set[str] = set()
    for turn in range(options.rounds + 1):
        for name in names:
            taken, heavy = import_in_a_process(name)
            if turn > 0:  # the first turn fills the disk cache and writes byte code
                seconds[name].append(taken)
            if name == "flambeau":
                guests.update(heavy)
    rows = [[f"import {name}", f"{statistics.median(values):.3f}", f"{min(values):.3f}"] for name, values in seconds.items()]
    text = table(["", "median, s", "best, s"], rows)
    print(text)
    if "torch" in seconds:
        ratio = statistics.median(seconds["flambeau"]) / statistics.median(seconds["torch"])
        text += f"\n\nflambeau takes {ratio:.2f} of PyTorch's time."
        print(f"flambeau takes {ratio:.2f} of PyTorch's time.")
    if guests:
        print(f"import flambeau also imports {', '.join(sorted(guests))}", file=sys.stderr)
        return 1
    print(f"import flambeau imports none of {', '.join(HEAVY)}")
    if options.write:
        write_section("startup", f"`python -m benchmarks startup`; {machine()}; {options.rounds} fresh processes each, in turn.\n\n{text}")
    return 0
