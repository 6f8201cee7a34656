"""Steps of SGD with momentum, Adam and AdamW over five million parameters, in few and in many tensors, beside all of PyTorch's forms."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .comparison import Source, add_arguments, difference, duration
from .measuring import Timed, geometric_mean, in_turn
from .report import table, write_section

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
PARAMETERS = 5_000_000
FORMS: dict[str, dict[str, bool]] = {"PyTorch": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-3, "momentum": 0.9},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3},
}
CASES = [(name, count) for name in OPTIMIZERS for count in (10, 300)]


def build(torch: ModuleType, name: str, count: int, form: dict[str, bool]) -> tuple[Timed, Callable[[], tuple[Any, ...]]]:
    """The step, and the parameters' values."""
    source = Source(torch)
    parameters = []
    for _ in range(count):
        parameter = torch.nn.Parameter(source.normal(PARAMETERS // count))
        parameter.grad = source.normal(PARAMETERS // count)
        parameters.append(parameter)
    optimizer = getattr(torch.optim, name)(parameters, **OPTIMIZERS[name], **form)

    def step() -> Any:
        optimizer.step()
        return parameters[0]

    return step, lambda: tuple(parameter.detach() for parameter in parameters)


def main(options: argparse.Namespace) -> int:
    flambeau, torch = comparison.both(options.threads)
    rows, ratios, problems = [], [], []
    for name, count in CASES:
        title = f"{name}, {count} tensors"
        if options.only not in title:
            continue
        built = [build(module, name, count, form) for module, form in [(flambeau, {}), *((torch, form) for form in FORMS.values())]]
        for _ in range(3):
            for step, _ in built:
                step()
        wrong = difference([built[0][1](), built[1][1]()], rtol=1e-3)
        if wrong:
            problems.append(f"Not measured: {title}: {wrong}")
            continue
        seconds = in_turn([step for step, _ in built], *comparison.effort(options))
        print(f"{title}: {' / '.join(map(duration, seconds))} ms", file=sys.stderr, flush=True)
        ratios.append(seconds[0] / seconds[1])
        rows.append([title, *map(duration, seconds), f"{ratios[-1]:.2f}"])
    if ratios:
        rows.append(["geometric mean", "", *([""] * len(FORMS)), f"{geometric_mean(ratios):.2f}"])
    header = [f"{PARAMETERS / 1e6:g}M parameters", "flambeau, ms", *(f"{form}, ms" for form in FORMS), "ratio to default"]
    text = "\n\n".join([table(header, rows), *problems])
    print(text)
    if options.write:
        write_section(options.name, f"{comparison.described(options)}\n\n{text}")
    return int(bool(problems))
