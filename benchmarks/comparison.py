"""Large cases beside PyTorch: the same operands for both, their values compared once, their times taken in turn, a table for each group."""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from .cases import Case
from .measuring import Timed, geometric_mean, in_turn, settle
from .report import machine, table, write_section

THREADS = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=7, help="how often each case is measured on each side")
    parser.add_argument("--milliseconds", type=float, default=30.0, help="length of one measurement")
    parser.add_argument("--only", default="", help="only cases whose group or name contains this")
    parser.add_argument("--quick", action="store_true", help="two short rounds: whether everything runs, and rough figures")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def effort(options: argparse.Namespace) -> tuple[int, float]:
    """Rounds, and seconds of a turn."""
    return (2, 3e-3) if options.quick else (options.rounds, options.milliseconds / 1e3)


def described(options: argparse.Namespace) -> str:
    """The line under a heading: command, machine, and how it was measured."""
    rounds, seconds = effort(options)
    return (
        f"`python -m benchmarks {options.name}`; {machine()}; {options.threads} threads; the best of {rounds} turns of "
        f"{seconds * 1e3:g} ms, each the median of its calls; values compared. Ratios below 1: flambeau is faster."
    )


def both(threads: int) -> list[ModuleType]:
    """flambeau and PyTorch, on ``threads`` threads."""
    modules = [importlib.import_module(name) for name in ("flambeau", "torch")]
    for module in modules:
        module.set_num_threads(threads)
    settle()
    return modules


class Source:
    """Operands of one framework, drawn and scaled by NumPy alone: two sources give the same numbers in the same order."""

    def __init__(self, torch: ModuleType) -> None:
        import numpy as np

        self.torch = torch
        self._generator = np.random.default_rng(0)
        self._number, self._as_array = np.float32, np.asarray

    def _own(self, array: Any) -> Any:
        return self.torch.from_numpy(self._as_array(array)).clone()  # in memory of the framework's own making, aligned as it likes

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        return self._own(self._generator.standard_normal(shape, dtype="float32") * self._number(scale))

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        return self._own(self._generator.random(shape, dtype="float32") * self._number(high - low) + self._number(low))

    def coins(self, *shape: int) -> Any:
        return self._own(self._generator.random(shape, dtype="float32") < 0.5)

    def integers(self, high: int, *shape: int) -> Any:
        return self._own(self._generator.integers(high, size=shape))

    def fill(self, model: Any) -> Any:
        """Give a model's parameters values: matrices and filters uniform by their inputs, other weights one, biases zero."""
        with self.torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim > 1:
                    bound = math.prod(parameter.shape[1:]) ** -0.5
                    parameter.copy_(self.uniform(*parameter.shape, low=-bound, high=bound))
                else:
                    parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        return model


def operand_names(row: Callable[..., Any]) -> list[str]:
    """The arguments of ``row`` after ``torch``."""
    return list(inspect.signature(row).parameters)[1:]


def operands(row: Callable[..., Any], makers: Mapping[str, Callable[..., Any]], source: Source, *details: Any) -> list[Any]:
    """What ``row`` asks for by the names of its arguments, made by the makers of these names."""
    return [makers[name](source, *details) for name in operand_names(row)]


def forward(row: Callable[..., Any], torch: ModuleType, values: Sequence[Any]) -> Timed:
    return partial(row, torch, *values)


def backward(row: Callable[..., Any], torch: ModuleType, values: Sequence[Any], inputs: Sequence[Any], source: Source) -> Timed:
    """The derivatives of ``row`` with respect to ``inputs``, which are among ``values``; the forward pass is done beforehand."""
    for value in inputs:
        value.requires_grad_()
    torch.manual_seed(0)
    result = row(torch, *values)
    grad = source.normal(*result.shape).to(result.dtype)
    return lambda: torch.autograd.grad(result, inputs, grad, retain_graph=True)


def as_arrays(result: Any) -> list[Any]:
    """The values of a tensor or a tuple of tensors, in NumPy; bfloat16, which NumPy lacks, as float32."""
    tensors = result if isinstance(result, tuple) else (result,)
    return [(t.float() if str(t.dtype) == "torch.bfloat16" else t).detach().numpy() for t in tensors]


def difference(results: Sequence[Any], rtol: float) -> str:
    """In words, where flambeau's result is not PyTorch's; empty where it is. Sums that cancel are judged by the largest value."""
    import numpy as np

    for ours, theirs in zip(*map(as_arrays, results)):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"expected {theirs.dtype} of shape {theirs.shape}, got {ours.dtype} of shape {ours.shape}"
        scale = float(np.abs(theirs).max(initial=0)) if theirs.dtype.kind == "f" else 0.0
        wrong = ~np.isclose(ours, theirs, rtol=rtol, atol=1e-4 * scale, equal_nan=True)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"{wrong.sum()} of {wrong.size} values differ, the first at {first}: expected {theirs[first]}, got {ours[first]}"
    return ""


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    seconds: list[float]  # of each module; empty when there is a problem
    problem: str = ""

    @property
    def ratio(self) -> float:
        return self.seconds[0] / self.seconds[1]


def run_case(case: Case, modules: Sequence[ModuleType], rounds: int, seconds: float) -> Outcome:
    """Compare the values of both modules and take their times."""
    functions, results = [], []
    for module in modules:
        try:
            functions.append(case.build(module))
            module.manual_seed(0)
            results.append(functions[-1]())
        except Exception as error:  # whatever a framework lacks is a line of the report, not the end of it
            return Outcome(case, [], f"{module.__name__}: {type(error).__name__}: {error}")
    problem = difference(results, case.rtol)
    del results
    return Outcome(case, [], problem) if problem else Outcome(case, in_turn(functions, rounds, seconds))


def duration(seconds: float) -> str:
    """In milliseconds, with three digits."""
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Tables by group with their geometric means, the mean over all, and what could not be measured."""
    parts = []
    for group in dict.fromkeys(outcome.case.group for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.case.group == group and outcome.seconds]
        rows = [[o.case.name, *map(duration, o.seconds), f"{o.ratio:.2f}"] for o in chosen]
        if chosen:
            rows.append(["geometric mean", "", "", f"{geometric_mean([o.ratio for o in chosen]):.2f}"])
            parts.append(table([group, "flambeau, ms", "PyTorch, ms", "ratio"], rows))
    measured = [outcome for outcome in outcomes if outcome.seconds]
    if measured:
        worst = max(measured, key=lambda outcome: outcome.ratio)
        mean = geometric_mean([outcome.ratio for outcome in measured])
        slower = sum(outcome.ratio > 1 for outcome in measured)
        parts.append(
            f"All {len(measured)} cases: geometric mean {mean:.2f}, largest {worst.ratio:.2f} ({worst.case.group}: {worst.case.name}); "
            f"flambeau is slower in {slower}."
        )
    parts += [f"Not measured: {o.case.group}: {o.case.name}: {o.problem}" for o in outcomes if o.problem]
    return "\n\n".join(parts)


def chosen_cases(cases: Sequence[Case], only: str) -> list[Case]:
    found = [case for case in cases if only in f"{case.group}: {case.name}"]
    if not found:
        raise SystemExit(f"no case contains {only!r}")
    return found


def run_cases(cases: Sequence[Case], options: argparse.Namespace) -> list[Outcome]:
    """The outcomes of those cases that the options choose, with a line on the terminal for each."""
    modules = both(options.threads)
    outcomes = []
    for case in chosen_cases(cases, options.only):
        outcome = run_case(case, modules, *effort(options))
        figures = f"{duration(outcome.seconds[0])} / {duration(outcome.seconds[1])} ms" if outcome.seconds else outcome.problem
        print(f"{case.group}: {case.name}: {figures}", file=sys.stderr, flush=True)
        outcomes.append(outcome)
    return outcomes


def report(cases: Sequence[Case], options: argparse.Namespace) -> int:
    """Run, print, and write the section named after the benchmark; 1 when something could not be measured."""
    outcomes = run_cases(cases, options)
    text = summary(outcomes)
    print(text)
    if options.write:
        write_section(options.name, f"{described(options)}\n\n{text}")
    return int(any(outcome.problem for outcome in outcomes))
