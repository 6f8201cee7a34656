"""Linear layers with weights of 8 and 4 bits beside PyTorch's and beside float32, on one thread and on two.

dynamic    inputs rounded to 7 bits by their range (``torch.ops.quantized.linear_dynamic`` with ``reduce_range``)
static     quantized inputs and results (``torch.ops.quantized.linear``), the integers copied
bytes      bfloat16 inputs, weights of 8 bits (``torch._weight_int8pack_mm``)
halves     bfloat16 inputs, weights of 4 bits in groups of 64 (``torch._weight_int4pack_mm_for_cpu``)
integers   both operands bytes, exact sums (``torch._int_mm``)
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Outcome, Source, add_arguments, duration
from .measuring import Timed
from .report import table, write_section

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = 2
COUNTS = (1, THREADS)
SIZES = ((1024, 1024, 1024), (32, 1024, 1024), (1, 4096, 4096), (1, 512, 512))  # rows, inputs, outputs
GROUP = 64
Make = Callable[[Source, int, int, int], Timed]


def _packed(source: Source, inner: int, outputs: int) -> Any:
    torch = source.torch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated
        weight = torch.quantize_per_tensor(source.normal(outputs, inner, scale=inner**-0.5), 0.03 * inner**-0.5, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, source.normal(outputs))


def _bytes(source: Source, *shape: int) -> Any:
    return (source.integers(256, *shape) - 128).to(source.torch.int8)


def _float32(source: Source, rows: int, inner: int, outputs: int) -> Timed:
    x, weight, bias = source.normal(rows, inner), source.normal(outputs, inner, scale=inner**-0.5), source.normal(outputs)
    return lambda: source.torch.nn.functional.linear(x, weight, bias)


def _dynamic(source: Source, rows: int, inner: int, outputs: int) -> Timed:
    x, packed, quantized = source.normal(rows, inner), _packed(source, inner, outputs), source.torch.ops.quantized
    return lambda: quantized.linear_dynamic(x, packed, True)


def _static(source: Source, rows: int, inner: int, outputs: int) -> Timed:
    torch, packed = source.torch, _packed(source, inner, outputs)
    x = torch.quantize_per_tensor(source.normal(rows, inner), 0.03, 128, torch.quint8)
    return lambda: torch.ops.quantized.linear(x, packed, 0.05, 128).int_repr()


def _weights_of_bytes(source: Source, rows: int, inner: int, outputs: int) -> Timed:
    torch, x = source.torch, source.normal(rows, inner).bfloat16()
    weight, scales = _bytes(source, outputs, inner), source.uniform(outputs, low=0.01, high=0.02).bfloat16()
    return lambda: torch._weight_int8pack_mm(x, weight, scales)


def _halves(source: Source, rows: int, inner: int, outputs: int) -> Timed:
    torch, x = source.torch, source.normal(rows, inner).bfloat16()
    weight = torch._convert_weight_to_int4pack_for_cpu(source.integers(16, outputs, inner).to(torch.int32), 1)
    scales = source.uniform(inner // GROUP, outputs, 2, low=0.01, high=0.02).bfloat16()
    return lambda: torch._weight_int4pack_mm_for_cpu(x, weight, GROUP, scales)


def _integers(source: Source, rows: int, inner: int, outputs: int) -> Timed:
    torch, a, b = source.torch, _bytes(source, rows, inner), _bytes(source, outputs, inner)
    return lambda: torch._int_mm(a, b.t())


KINDS: dict[str, Make] = {
    "float32": _float32,
    "dynamic": _dynamic,
    "static": _static,
    "bytes": _weights_of_bytes,
    "halves": _halves,
    "integers": _integers,
}


def _builder(make: Make, sizes: tuple[int, int, int]) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        run = make(Source(torch), *sizes)

        def without_grad() -> Any:
            with torch.no_grad():
                return run()

        return without_grad

    return build


def _name(sizes: tuple[int, int, int]) -> str:
    return " x ".join(map(str, sizes))


CASES = [Case(_name(sizes), kind, _builder(make, sizes), 2**-7, 2**-7, 2) for sizes in SIZES for kind, make in KINDS.items()]


def _rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    plain = {outcome.case.name: outcome.seconds[0] for outcome in outcomes if outcome.case.group == "float32" and outcome.seconds}
    rows = []
    for outcome in outcomes:
        if outcome.seconds:
            beside = f"{outcome.seconds[0] / plain[outcome.case.name]:.2f}" if outcome.case.name in plain else "-"
            rows.append([outcome.case.name, outcome.case.group, *map(duration, outcome.seconds), f"{outcome.ratio:.2f}", beside])
            rows[-1][0] = outcome.label
    return rows


def main(options: argparse.Namespace) -> int:
    """Measure all with each number of threads; 1 when something could not be measured."""
    parts, failed = [], 0
    for count in COUNTS if options.threads == THREADS else (options.threads,):
        chosen = argparse.Namespace(**{**vars(options), "threads": count})
        outcomes = comparison.run_cases(__name__, CASES, chosen)
        header = [f"{count} thread{'s' * (count > 1)}", "kind", "flambeau, ms", "PyTorch, ms", "ratio", "of float32"]
        parts += [comparison.described(chosen), table(header, _rows(outcomes)), *comparison.problems(outcomes)]
        failed += sum(bool(outcome.problem) for outcome in outcomes)
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        write_section("quantization", text)
    return int(failed > 0)
