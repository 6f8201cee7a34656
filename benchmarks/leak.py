"""Whether training keeps memory: 10,000 steps of a tiny MLP with the cycle collector switched off.

A tape whose nodes and tensors refer to each other in a circle would only be freed by the collector; here it would grow.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import sys
from pathlib import Path

from .cases import training_step
from .report import machine, write_section


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--allowed", type=float, default=5.0, help="megabytes between a tenth of the steps and the last one")
    parser.add_argument("--package", default="flambeau")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def resident_bytes() -> int:
    """Memory of this process that is in use now; where the system does not tell, the most that ever was."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(options: argparse.Namespace) -> int:
    torch = importlib.import_module(options.package)
    torch.set_num_threads(1)
    step = training_step(torch)
    gc.collect()
    gc.disable()
    early = 0
    for number in range(1, options.steps + 1):
        step()
        if number == max(1, options.steps // 10):
            early = resident_bytes()
            early_step = number
    late = resident_bytes()
    gc.enable()
    grown = (late - early) / 1e6
    text = (
        f"{options.steps} training steps of a tiny MLP without the cycle collector: {early / 1e6:.1f} MB in use after step {early_step}, "
        f"{late / 1e6:.1f} MB after the last one: {grown:+.2f} MB (allowed {options.allowed:g})."
    )
    print(text)
    if grown > options.allowed:
        print(f"memory grew by {grown:.1f} MB", file=sys.stderr)
        return 1
    if options.write:
        write_section("leak", f"`python -m benchmarks leak`; {machine()}.\n\n{text}")
    return 0
