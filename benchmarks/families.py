"""What share of the machine's bandwidth and arithmetic each family of operations reaches; writes a section of docs/scaling.md.

The operands lie in memory, not in a cache: 64 MB where a family reads and writes (16 million numbers). Work is counted as the operation
needs it at least: each operand read once and each result written once, or the arithmetic of the definition. The ceilings are those of
``scaling``, measured with the same number of threads; of arithmetic it is the best rate of any row on either side.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Outcome, Source, add_arguments, duration
from .measuring import rest
from .report import PAGE, table, write_section
from .scaling import memory_ceilings

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = 2
COUNTS = (1, THREADS)
SIDE = 4096
SQUARE = SIDE * SIDE
_MB = 4.0 * SQUARE  # bytes of a square of float32

Row = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Family:
    """One operation, standing for its family.

    Attributes:
        build: function (source) -> the operands. row: function (torch, operands...) that is timed.
        work: bytes to and from memory, or floating point operations. ceiling: 'copy', 'read' or 'product': which one it is held against.
    """

    name: str
    build: Callable[[Source], Sequence[Any]]
    row: Row
    work: float
    ceiling: str

    @property
    def case(self) -> Case:
        return Case(self.name, "families", lambda torch: comparison.forward(self.row, torch, self.build(Source(torch))))


def _normals(*shapes: tuple[int, ...]) -> Callable[[Source], list[Any]]:
    return lambda source: [source.normal(*shape) for shape in shapes]


def _words(source: Source) -> list[Any]:
    return [source.normal(65536, 256), source.integers(65536, 65536)]


def _images(filters: int, size: int, groups: int = 1, side: int = 56, batch: int = 32) -> Callable[[Source], list[Any]]:
    def build(source: Source) -> list[Any]:
        weights = source.normal(filters, filters // groups, size, size, scale=0.1)
        return [source.normal(batch, filters, side, side), weights]

    return build


def _convolution(size: int, groups: int = 1) -> Row:
    return lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=size // 2, groups=groups)


def _product(torch: Any, x: Any, y: Any) -> Any:
    return x @ y


def _attention(torch: Any, q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


_PIXELS = 32 * 56 * 56
_square, _two_squares = _normals((SIDE, SIDE)), _normals((SIDE, SIDE), (SIDE, SIDE))
FAMILIES = (
    Family("copy", _square, lambda torch, x: x.clone(), 2 * _MB, "copy"),
    Family("copy of a transposed matrix", _square, lambda torch, x: x.t().contiguous(), 2 * _MB, "copy"),
    Family("concatenation", _two_squares, lambda torch, x, y: torch.cat((x, y), 1), 4 * _MB, "copy"),
    Family("element-wise, two operands: add", _two_squares, lambda torch, x, y: x + y, 3 * _MB, "copy"),
    Family("element-wise, in place: add_", _two_squares, lambda torch, x, y: x.add_(y, alpha=1e-6), 3 * _MB, "copy"),
    Family("element-wise: exp", _square, lambda torch, x: x.exp(), 2 * _MB, "copy"),
    Family("element-wise: gelu", _square, lambda torch, x: torch.nn.functional.gelu(x), 2 * _MB, "copy"),
    Family("cast to bfloat16", _square, lambda torch, x: x.to(torch.bfloat16), 1.5 * _MB, "copy"),
    Family("sum of everything", _square, lambda torch, x: x.sum(), _MB, "read"),
    Family("sum of columns", _square, lambda torch, x: x.sum(0), _MB, "read"),
    Family("largest of rows, with places", _square, lambda torch, x: x.max(1), _MB, "read"),
    Family("variance of rows", _square, lambda torch, x: x.var(1), _MB, "read"),
    Family("running sum", _square, lambda torch, x: x.cumsum(1), 2 * _MB, "copy"),
    Family("softmax", _square, lambda torch, x: torch.softmax(x, 1), 2 * _MB, "copy"),
    Family("layer norm", _square, lambda torch, x: torch.nn.functional.layer_norm(x, x.shape[1:]), 2 * _MB, "copy"),
    Family("rows by index: embedding", _words, lambda torch, w, i: torch.nn.functional.embedding(i, w), 2 * _MB, "copy"),
    Family("selection by a mask", _square, lambda torch, x: torch.where(x > 0, x, -x), 2 * _MB, "copy"),
    Family("max pooling 2x2", _images(64, 1), lambda torch, x, w: torch.nn.functional.max_pool2d(x, 2), 4.0 * _PIXELS * 64 * 1.25, "copy"),
    Family("matrix product, 2048", _normals((2048, 2048), (2048, 2048)), _product, 2.0 * 2048**3, "product"),
    Family("64 products of 256", _normals((64, 256, 256), (64, 256, 256)), _product, 2.0 * 64 * 256**3, "product"),
    Family("product of 64 rows, 1024", _normals((64, 1024), (1024, 1024)), _product, 2.0 * 64 * 1024**2, "product"),
    Family("matrix by a vector", _normals((SIDE, SIDE), (SIDE,)), _product, _MB, "read"),
    Family("attention, 512 by 64", _normals(*[(8, 8, 512, 64)] * 3), _attention, 4.0 * 64 * 512**2 * 64, "product"),
    Family("convolution 3x3, 64 channels", _images(64, 3), _convolution(3), 2.0 * 9 * 64 * 64 * _PIXELS, "product"),
    Family("convolution 1x1, 256 channels", _images(256, 1, side=28), _convolution(1), 2.0 * 256 * 256 * _PIXELS / 4, "product"),
    Family("convolution 3x3, by channel", _images(64, 3, 64), _convolution(3, 64), 8.0 * 64 * _PIXELS, "copy"),
    Family("Fourier transform, real rows of 4096", _square, lambda torch, x: torch.fft.rfft(x), 2 * _MB, "copy"),
    Family("sorting of rows", _normals((SIDE, 1024)), lambda torch, x: x.sort(1)[0], _MB, "copy"),
    Family("random normal numbers", _square, lambda torch, x: x.normal_(), _MB, "copy"),
)
CASES = [family.case for family in FAMILIES]


def _rows(outcomes: Sequence[Sequence[Outcome]], ceilings: Sequence[dict[str, float]]) -> list[list[str]]:
    rows = []
    for family in FAMILIES:
        row = [family.name, {"copy": "copying", "read": "reading", "product": "arithmetic"}[family.ceiling]]
        for by_count, ceiling in zip(outcomes, ceilings, strict=True):
            found = [outcome for outcome in by_count if outcome.case.name == family.name and outcome.seconds]
            if not found:
                row += ["-"] * 4
                continue
            mine, theirs = (family.work / seconds / ceiling[family.ceiling] for seconds in found[0].seconds)
            row += [
                duration(found[0].seconds[0]),
                f"{mine:.2f}",
                f"{theirs:.2f}",
                f"{found[0].ratio:.2f}{' *' * bool(found[0].disturbance)}",
            ]
        rows.append(row)
    return rows


def _measured(options: argparse.Namespace, count: int) -> tuple[list[Outcome], dict[str, float]]:
    """The outcomes with so many threads, and the ceilings around them."""
    rounds, *_ = comparison.effort(options)
    before = memory_ceilings(count, rounds)
    rest()
    outcomes = comparison.run_cases(__name__, CASES, argparse.Namespace(**{**vars(options), "threads": count}))
    after = memory_ceilings(count, rounds)
    ceilings = {name: max(value, after[name]) for name, value in before.items()}
    work = {family.name: family.work for family in FAMILIES if family.ceiling == "product"}
    rates = [work[outcome.case.name] / seconds for outcome in outcomes if outcome.case.name in work for seconds in outcome.seconds]
    return outcomes, {**ceilings, "product": max(rates, default=1.0)}


def main(options: argparse.Namespace) -> int:
    measured = [_measured(options, count) for count in COUNTS]
    header, said = ["family", "held against"], []
    for count, (_, ceiling) in zip(COUNTS, measured, strict=True):
        threads = f"{count} thread{'s' * (count > 1)}"
        header += [f"ms, {threads}", "share", "PyTorch's share", "ratio"]
        memory = f"copying {ceiling['copy'] / 1e9:.1f} GB/s, reading {ceiling['read'] / 1e9:.1f} GB/s"
        said.append(f"{threads}: {memory}, {ceiling['product'] / 1e9:.0f} GFLOP/s")
    rows = table(header, _rows([outcomes for outcomes, _ in measured], [ceilings for _, ceilings in measured]))
    everything = [outcome for outcomes, _ in measured for outcome in outcomes]
    text = "\n\n".join([f"Ceilings, {'; '.join(said)}.", rows, *comparison.problems(everything)])
    print(text)
    if options.write:
        write_section("families", f"{comparison.described(options)}\n\n{text}", PAGE.with_name("scaling.md"))
    return int(any(outcome.problem for outcome in everything))
