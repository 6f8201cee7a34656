"""Whether training keeps memory: 10,000 steps of a tiny MLP with the cycle collector switched off.

A tape whose nodes and tensors refer to each other in a circle would only be freed by the collector; here it would grow.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys

from .cases import training_step
from .measuring import resident_bytes
from .report import machine, write_section

THREADS = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--allowed", type=float, default=5.0, help="megabytes between a tenth of the steps and the last one")
    parser.add_argument("--package", default="flambeau")
    parser.add_argument("--quick", action="store_true", help="1000 steps")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def main(options: argparse.Namespace) -> int:
    torch = importlib.import_module(options.package)
    torch.set_num_threads(options.threads)
    if options.quick:
        options.steps = 1000
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
