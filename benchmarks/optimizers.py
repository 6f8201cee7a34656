"""Steps of SGD with momentum, Adam and AdamW over five million parameters, in few and in many tensors, beside all of PyTorch's forms."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments, duration
from .measuring import Timed
from .report import table, write_section
from .sides import both

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
PARAMETERS = 5_000_000
FORMS: dict[str, dict[str, bool]] = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 1e-3, "momentum": 0.9},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3},
}


def builder(name: str, count: int, form: dict[str, bool]) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        parameters = []
        for _ in range(count):
            parameter = torch.nn.Parameter(source.normal(PARAMETERS // count))
            parameter.grad = source.normal(PARAMETERS // count)
            parameters.append(parameter)
        optimizer = getattr(torch.optim, name)(parameters, **OPTIMIZERS[name], **form)

        def step() -> Any:
            optimizer.step()
            return parameters[0], parameters[-1]

        return step

    return build


CASES = [
    Case(f"{name}, {count} tensors", form, builder(name, count, settings), rehearsals=3)
    for name in OPTIMIZERS
    for count in (10, 300)
    for form, settings in FORMS.items()
]


def main(options: argparse.Namespace) -> int:
    """Rows of flambeau's defaults and of each form of PyTorch's; the ratio is to PyTorch's defaults."""
    cases = comparison.chosen_cases([case for case in CASES if case.group == "default"], options.only)
    outcomes = []
    with both(options.threads) as (flambeau, torch):
        for case in cases:
            entries = [(flambeau, case.key), *((torch, f"{form}: {case.name}") for form in FORMS)]
            outcomes.append(comparison.run_case(case, __name__, entries, *comparison.effort(options)))
    measured = [outcome for outcome in outcomes if outcome.seconds]
    rows = [[outcome.label, *map(duration, outcome.seconds), f"{outcome.ratio:.2f}"] for outcome in measured]
    if measured:
        rows.append(["geometric mean", "", *([""] * len(FORMS)), comparison.mean_ratio(measured)])
    header = [f"{PARAMETERS / 1e6:g}M parameters", "flambeau, ms", *(f"PyTorch, {form}, ms" for form in FORMS), "ratio to default"]
    text = "\n\n".join([table(header, rows), *comparison.problems(outcomes)])
    print(text)
    if options.write:
        write_section(options.name, f"{comparison.described(options)}\n\n{text}")
    return int(len(measured) < len(outcomes))
