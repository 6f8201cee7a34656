"""Time against size over four decades, beside PyTorch and beside what the machine can do at all; writes docs/scaling.md.

The ceilings are measured in the same run. Memory: a NumPy copy of 256 MB (reads and writes counted) and the sum of squares of as much
(reads), each cut into one piece for each thread, the best of several. Arithmetic: the fastest product of matrices that any side achieved.
A share above one means that the operands were in a cache, which is faster than the memory whose ceiling it is held against.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Outcome, Source, add_arguments, duration
from .measuring import Timed
from .report import PAGE, table, write_section

__all__ = ["THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
CEILING_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class Curve:
    """One operation at growing sizes."""

    name: str
    sizes: tuple[Any, ...]
    build: Callable[[ModuleType, Any], Timed]
    elements: Callable[[Any], int]  # of the result, or of the operand that is reduced
    work: Callable[[Any], float]  # bytes to and from memory, or floating point operations
    unit: str  # GB/s or GFLOP/s
    ceiling: str  # which one it is held against


def pointwise(row: Callable[..., Any], inputs: int) -> Callable[[ModuleType, int], Timed]:
    def build(torch: ModuleType, size: int) -> Timed:
        source = Source(torch)
        return comparison.forward(row, torch, [source.uniform(size) for _ in range(inputs)])

    return build


def product(torch: ModuleType, size: int) -> Timed:
    source = Source(torch)
    x, y = source.uniform(size, size), source.uniform(size, size)
    return lambda: x @ y


def convolution(torch: ModuleType, shape: tuple[int, int]) -> Timed:
    source = Source(torch)
    batch, side = shape
    image, filters = source.normal(batch, 64, side, side), source.normal(64, 64, 3, 3, scale=0.1)
    return lambda: torch.nn.functional.conv2d(image, filters, padding=1)


DECADES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
CURVES = (
    Curve("add", DECADES, pointwise(lambda torch, x, y: x + y, 2), int, lambda n: 12.0 * n, "GB/s", "copy"),
    Curve("exp", DECADES, pointwise(lambda torch, x: x.exp(), 1), int, lambda n: 8.0 * n, "GB/s", "copy"),
    Curve("sum", DECADES, pointwise(lambda torch, x: x.sum(), 1), int, lambda n: 4.0 * n, "GB/s", "read"),
    Curve("matmul", (32, 100, 316, 1000, 3162), product, lambda n: n * n, lambda n: 2.0 * n**3, "GFLOP/s", "product"),
    Curve(
        "convolution, 3x3, 64 channels",
        ((1, 4), (1, 12), (1, 40), (10, 40), (100, 40)),
        convolution,
        lambda shape: 64 * shape[0] * shape[1] ** 2,
        lambda shape: 2.0 * 9 * 64 * 64 * shape[0] * shape[1] ** 2,
        "GFLOP/s",
        "product",
    ),
)


def memory_ceilings(threads: int, rounds: int) -> dict[str, float]:
    """Bytes a second of a large copy and of large reads, on ``threads`` threads."""
    import numpy as np

    source, target = np.ones(CEILING_BYTES // 4, np.float32), np.zeros(CEILING_BYTES // 4, np.float32)
    pieces = list(zip(np.array_split(source, threads), np.array_split(target, threads)))
    works: dict[str, tuple[float, Callable[[tuple[Any, Any]], Any]]] = {
        "copy": (2.0, lambda piece: np.copyto(piece[1], piece[0])),
        "read": (1.0, lambda piece: np.dot(piece[0], piece[0])),
    }
    ceilings = {}
    with ThreadPoolExecutor(threads) as pool:
        for name, (passes, work) in works.items():
            seconds = []
            for _ in range(max(5, rounds)):
                begin = time.perf_counter()
                list(pool.map(work, pieces))
                seconds.append(time.perf_counter() - begin)
            ceilings[name] = passes * source.nbytes / min(seconds)
    ceilings["read"] = max(ceilings.values())  # reading is no slower than copying, whatever the sum of squares made of it
    return ceilings


def numpy_product(size: int) -> float:
    """Floating point operations a second of NumPy's product of two large matrices."""
    import numpy as np

    x = np.ones((size, size), np.float32)
    seconds = []
    for _ in range(4):
        begin = time.perf_counter()
        x @ x
        seconds.append(time.perf_counter() - begin)
    return 2.0 * size**3 / min(seconds)


def run_curves(curves: Sequence[Curve], options: argparse.Namespace) -> dict[str, list[tuple[Any, Outcome]]]:
    """Outcomes of each curve with their sizes."""
    modules = comparison.both(options.threads)
    results: dict[str, list[tuple[Any, Outcome]]] = {}
    for curve in curves:
        points = []
        for size in curve.sizes:
            case = Case(f"{curve.elements(size)}", curve.name, lambda torch, build=curve.build, size=size: build(torch, size))
            points.append((size, comparison.run_case(case, modules, *comparison.effort(options))))
            print(f"{curve.name} {size}: {points[-1][1].problem or points[-1][1].seconds}", file=sys.stderr, flush=True)
        results[curve.name] = points
    return results


def curve_table(curve: Curve, points: Sequence[tuple[Any, Outcome]], ceiling: float) -> str:
    header = [curve.name, "flambeau, ms", "PyTorch, ms", "ratio", f"flambeau, {curve.unit}", "share of the ceiling", "PyTorch's share"]
    rows = []
    for size, outcome in points:
        if outcome.problem:
            rows.append([outcome.case.name, outcome.problem, *[""] * (len(header) - 2)])
            continue
        rates = [curve.work(size) / seconds for seconds in outcome.seconds]
        shares = [f"{rate / ceiling:.2f}" for rate in rates]
        rows.append([outcome.case.name, *map(duration, outcome.seconds), f"{outcome.ratio:.2f}", f"{rates[0] / 1e9:.3g}", *shares])
    return table(header, rows)


def draw(curves: Sequence[Curve], results: dict[str, list[tuple[Any, Outcome]]], ceilings: dict[str, float], path: Path) -> None:
    """A panel for each curve: seconds against elements, with the ceiling's as a dashed line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(curves), figsize=(3.2 * len(curves), 3.2), squeeze=False, layout="constrained")
    for panel, curve in zip(panels[0], curves):
        points = [(size, outcome) for size, outcome in results[curve.name] if outcome.seconds]
        elements = [curve.elements(size) for size, _ in points]
        for i, (label, marker) in enumerate((("flambeau", "o"), ("PyTorch", "s"))):
            panel.loglog(elements, [outcome.seconds[i] for _, outcome in points], marker=marker, label=label)
        panel.loglog(elements, [curve.work(size) / ceilings[curve.ceiling] for size, _ in points], "k--", linewidth=1, label="ceiling")
        panel.set(title=curve.name, xlabel="elements")
    panels[0][0].set_ylabel("seconds")
    panels[0][0].legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(options: argparse.Namespace) -> int:
    curves = [curve for curve in CURVES if options.only in curve.name]
    if not curves:
        raise SystemExit(f"no curve contains {options.only!r}")
    results = run_curves(curves, options)
    ceilings = memory_ceilings(options.threads, comparison.effort(options)[0])
    rates = [
        curve.work(size) / seconds
        for curve in curves
        if curve.name == "matmul"
        for size, outcome in results[curve.name]
        for seconds in outcome.seconds
    ]
    ceilings["product"] = max([numpy_product(2048), *rates])
    measured = (
        f"Ceilings of this machine in this run, {options.threads} threads: copying {ceilings['copy'] / 1e9:.1f} GB/s (read and written), "
        f"reading {ceilings['read'] / 1e9:.1f} GB/s, float32 arithmetic {ceilings['product'] / 1e9:.0f} GFLOP/s (best product of matrices)."
    )
    text = "\n\n".join([measured, *(curve_table(curve, results[curve.name], ceilings[curve.ceiling]) for curve in curves)])
    print(text)
    if options.write:
        page = PAGE.with_name("scaling.md")
        draw(curves, results, ceilings, page.with_suffix(".png"))
        remark = "A share above 1 means operands in a cache, held against the ceiling of the memory; dashed in the picture."
        picture = "![time against size](scaling.png)"
        write_section("scaling", f"{comparison.described(options)}\n\n{picture}\n\n{remark} {text}", page)
    return int(any(outcome.problem for points in results.values() for _, outcome in points))
