"""How fast two workers of a DataLoader hand over batches of 64 x 3 x 224 x 224 float32, as processes and as threads."""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys

from .report import machine, table, write_section

THREADS = 1
WARM = 10  # batches that are not counted: pages are touched for the first time, and queues fill
PROGRAM = """
import sys, time
import {package} as torch
from {package}.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self):
        self.images = torch.randn(16, 3, 224, 224)

    def __len__(self):
        return 64 * {batches}

    def __getitem__(self, index):
        return self.images[index % 16], index

for number, (images, _) in enumerate(DataLoader(Images(), 64, num_workers=2{options}), 1):
    images[0, 0, 0, 0].item(), images[-1, -1, -1, -1].item()
    if number == {warm}:
        begin = time.perf_counter()
print((time.perf_counter() - begin) / (number - {warm}))
"""
SIDES = {
    "flambeau, processes": ("flambeau", ""),
    "flambeau, threads": ("flambeau", ", worker_method='thread'"),
    "PyTorch, processes": ("torch", ""),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes for each")
    parser.add_argument("--batches", type=int, default=150, help="batches that are counted in each")
    parser.add_argument("--quick", action="store_true", help="one process for each, and 20 batches")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def seconds_a_batch(side: str, batches: int) -> float:
    """Of one pass over a loader, in a fresh process."""
    package, options = SIDES[side]
    program = PROGRAM.format(package=package, options=options, batches=batches + WARM, warm=WARM)
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


def main(options: argparse.Namespace) -> int:
    if options.quick:
        options.rounds, options.batches = 1, 20
    sides = [side for side, (package, _) in SIDES.items() if importlib.util.find_spec(package)]
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side in sides:
            seconds[side].append(seconds_a_batch(side, options.batches))
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    reference = medians.get("PyTorch, processes")
    rows = [
        [side, f"{1e3 * value:.1f}", f"{1 / value:.0f}", "-" if reference is None else f"{value / reference:.2f}"]
        for side, value in medians.items()
    ]
    text = table(["two workers", "a batch, ms", "batches a second", "of PyTorch's time"], rows)
    print(text)
    if options.write:
        described = f"`python -m benchmarks loader`; {machine()}; {options.rounds} fresh processes each, in turn; the median"
        remark = "A batch is 64 x 3 x 224 x 224 float32, collated of tensors that are in memory: what is measured is handing over."
        write_section("loader", f"{described}. {remark}\n\n{text}")
    return 0
