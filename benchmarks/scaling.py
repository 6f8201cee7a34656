"""Time against size over four decades, beside PyTorch and beside what the machine can do at all; writes docs/scaling.md.

The ceilings are measured in the same run. Memory: a NumPy copy of 256 MB (reads and writes counted) and the sum of squares of as much
(reads), each cut into one piece for each thread, the best of several before and after everything else. Arithmetic: the fastest product
of matrices that any side achieved. A share above one means that the operands were in a cache, which is faster than the memory whose
ceiling it is held against.
"""

from __future__ import annotations

import argparse
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
from .measuring import Timed, rest
from .report import PAGE, table, write_section

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
CEILING_BYTES = 256_000_000

Points = list[tuple[Any, Outcome]]  # of a curve: sizes and what was measured


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

    def case(self, size: Any) -> Case:
        return Case(f"{self.elements(size)}", self.name, lambda torch: self.build(torch, size))

    def points(self, outcomes: Sequence[Outcome]) -> Points:
        """The sizes that were run, with their outcomes."""
        by_key = {outcome.case.key: outcome for outcome in outcomes}
        return [(size, by_key[self.case(size).key]) for size in self.sizes if self.case(size).key in by_key]


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


CASES = [curve.case(size) for curve in CURVES for size in curve.sizes]


def memory_ceilings(threads: int, rounds: int) -> dict[str, float]:
    """Bytes a second of a large copy and of large reads, on ``threads`` threads."""
    import numpy as np

    source, target = np.ones(CEILING_BYTES // 4, np.float32), np.zeros(CEILING_BYTES // 4, np.float32)
    pieces = list(zip(np.array_split(source, threads), np.array_split(target, threads)))

    def copy(piece: tuple[Any, Any]) -> None:
        np.copyto(piece[1], piece[0])

    def read(piece: tuple[Any, Any]) -> None:
        np.dot(piece[0], piece[0])

    ceilings = {}
    with ThreadPoolExecutor(threads) as pool:
        for name, passes, work in (("copy", 2.0, copy), ("read", 1.0, read)):
            seconds = []
            for _ in range(max(5, rounds)):
                begin = time.perf_counter()
                list(pool.map(work, pieces))
                seconds.append(time.perf_counter() - begin)
            ceilings[name] = passes * source.nbytes / min(seconds)
    ceilings["read"] = max(ceilings.values())  # reading is no slower than copying, whatever the sum of squares made of it
    return ceilings


def arithmetic_ceiling(products: Points, size: int = 2048) -> float:
    """Floating point operations a second of the best product of matrices: one of those given, or NumPy's of this size."""
    import numpy as np

    x = np.ones((size, size), np.float32)
    rates = [2.0 * n**3 / seconds for n, outcome in products for seconds in outcome.seconds]
    for _ in range(4):
        begin = time.perf_counter()
        x @ x
        rates.append(2.0 * size**3 / (time.perf_counter() - begin))
    return max(rates)


def curve_table(curve: Curve, points: Points, ceiling: float) -> str:
    header = [curve.name, "flambeau, ms", "PyTorch, ms", "ratio", f"flambeau, {curve.unit}", "share of the ceiling", "PyTorch's share"]
    rows = []
    for size, outcome in points:
        if outcome.problem:
            continue
        rates = [curve.work(size) / seconds for seconds in outcome.seconds]
        shares = [f"{rate / ceiling:.2f}" for rate in rates]
        rows.append([outcome.label, *map(duration, outcome.seconds), f"{outcome.ratio:.2f}", f"{rates[0] / 1e9:.3g}", *shares])
    return table(header, rows)


def draw(curves: Sequence[Curve], results: dict[str, Points], ceilings: dict[str, float], path: Path) -> None:
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
    rounds, *_ = comparison.effort(options)
    before = memory_ceilings(options.threads, rounds)
    rest()
    outcomes = comparison.run_cases(__name__, CASES, options)
    results = {curve.name: curve.points(outcomes) for curve in CURVES}
    curves = [curve for curve in CURVES if results[curve.name]]
    after = memory_ceilings(options.threads, rounds)
    ceilings = {name: max(value, after[name]) for name, value in before.items()}
    ceilings["product"] = arithmetic_ceiling(results["matmul"])
    measured = (
        f"Ceilings of this machine in this run, {options.threads} threads: copying {ceilings['copy'] / 1e9:.1f} GB/s (read and written), "
        f"reading {ceilings['read'] / 1e9:.1f} GB/s, float32 arithmetic {ceilings['product'] / 1e9:.0f} GFLOP/s (best product of matrices)."
    )
    text = "\n\n".join(
        [measured, *(curve_table(curve, results[curve.name], ceilings[curve.ceiling]) for curve in curves), *comparison.problems(outcomes)]
    )
    print(text)
    if options.write:
        page = PAGE.with_name("scaling.md")
        draw(curves, results, ceilings, page.with_suffix(".png"))
        remark = "A share above 1 means operands in a cache, held against the ceiling of the memory; dashed in the picture."
        picture = "![time against size](scaling.png)"
        write_section("scaling", f"{comparison.described(options)}\n\n{picture}\n\n{remark} {text}", page)
    return int(any(outcome.problem for outcome in outcomes))
