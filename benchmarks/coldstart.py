"""What the first call of an operation costs above the second, in a new process: without a cache of generated code, and with one.

PyTorch beside it: it generates nothing, but starts threads and picks kernels. The list is worked through in order, so that the first
operation also pays for what all of them need.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from . import comparison
from .report import machine, table, write_section
from .startup import import_in_a_process

THREADS = comparison.THREADS

# Cases of ``kernels`` and ``convolution``, by group and name.
CHOSEN = {
    "kernels": (
        *("pointwise: add", "pointwise: mul by a number", "pointwise: add, broadcast bias", "pointwise: exp", "pointwise: tanh"),
        *("pointwise: gelu", "pointwise: where", "pointwise: comparison", "pointwise: float32 to bfloat16", "pointwise, backward: gelu"),
        *("reduction: sum", "reduction: sum, dim 0", "reduction: argmax, dim 1", "softmax: softmax", "softmax: cross_entropy"),
        *("normalisation: layer_norm", "normalisation, backward: layer_norm", "copy: transpose().contiguous()", "random: randn"),
    ),
    "convolution": (
        "convolution, forward: 3x3, 64 channels, 16x16",
        "convolution, backward: 3x3, 64 channels, 16x16",
        "pooling, forward: max_pool2d, 2x2 (LeNet)",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="processes of each kind; their median counts for each operation")
    parser.add_argument("--only", default="", help="only operations whose group or name contains this")
    parser.add_argument("--quick", action="store_true", help="one process of each kind")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")
    parser.add_argument("--worker", metavar="PACKAGE", help=argparse.SUPPRESS)


def first_calls(package: str, threads: int, only: str) -> dict[str, float]:
    """Seconds of each operation's first call above those of its second, in this process."""
    torch = importlib.import_module(package)
    importlib.import_module(f"{package}.nn.functional")  # which `import torch` contains, and flambeau imports when it is asked for
    torch.set_num_threads(threads)
    kernels = watch_kernels() if package == "flambeau" else []
    extra = {}
    for module, names in CHOSEN.items():
        cases = {f"{case.group}: {case.name}": case for case in importlib.import_module(f"{__package__}.{module}").CASES}
        for name in names:
            if only not in name:
                continue
            function = cases[name].build(torch)
            moments = [time.perf_counter()]
            for _ in range(2):
                function()
                moments.append(time.perf_counter())
            extra[name] = (moments[1] - moments[0]) - (moments[2] - moments[1])
    for key, choose in KERNELS.items():
        extra[key] = float(choose(kernels)) if kernels else 0.0
    return extra


KERNELS = {"kernels, median": statistics.median, "kernels, maximum": max}  # rows for each kernel by itself: an operation may need several


def watch_kernels() -> list[float]:
    """A list that gets the seconds of making each kernel, from its Python function to executable memory."""
    from flambeau.kernels.compiler import build

    seconds: list[float] = []
    make = build._build

    def timed(*arguments: Any) -> Any:
        begin = time.perf_counter()
        kernel = make(*arguments)
        seconds.append(time.perf_counter() - begin)
        return kernel

    build._build = timed
    return seconds


def in_a_process(package: str, cache: str, options: argparse.Namespace) -> dict[str, float]:
    """The same, in a fresh interpreter with the cache in the folder ``cache``."""
    command = [sys.executable, "-m", __package__, "coldstart", "--worker", package]
    command += ["--threads", str(options.threads), "--only", options.only]
    environment = {**os.environ, "FLAMBEAU_CACHE": cache}
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout)


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def main(options: argparse.Namespace) -> int:
    if options.worker:
        print(json.dumps(first_calls(options.worker, options.threads, options.only)))
        return 0
    rounds = 1 if options.quick else options.rounds
    runs: dict[str, list[dict[str, float]]] = {"new cache, ms": [], "same cache, ms": [], "PyTorch, ms": []}
    imports: dict[str, list[float]] = {"flambeau": [], "torch": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for title, package in zip(runs, ("flambeau", "flambeau", "torch")):
                runs[title].append(in_a_process(package, cache, options))
        for package, seconds in imports.items():
            seconds.append(import_in_a_process(package)[0])
    columns = [medians(times) for times in runs.values()]
    rows = [[name, *(f"{column[name] * 1e3:.2f}" for column in columns)] for name in columns[0]]
    for title, choose in (("median", statistics.median), ("maximum", max)):
        rows.append([title, *(f"{choose([v for k, v in column.items() if k not in KERNELS]) * 1e3:.2f}" for column in columns)])
    ours, theirs = (statistics.median(seconds) for seconds in imports.values())
    closing = f"`import flambeau` takes {ours:.3f} s, {ours / theirs:.2f} of PyTorch's {theirs:.3f} s."
    text = f"{table(['first call above the second', *runs], rows)}\n\n{closing}"
    print(text)
    if options.write:
        settings = f"{options.threads} threads; the median of {rounds} fresh processes of each kind"
        write_section(options.name, f"`python -m benchmarks coldstart`; {machine()}; {settings}.\n\n{text}")
    return 0
