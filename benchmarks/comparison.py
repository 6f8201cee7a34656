"""Large cases beside PyTorch: the same operands for both, their values compared once, their times taken in turn, a table for each group."""

from __future__ import annotations

import argparse
import inspect
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from .cases import Case
from .measuring import Timed, geometric_mean
from .report import machine, table, write_section
from .sides import Side, both, foreign, in_turn

THREADS = 2
ALLOWED = 0.1  # processors that other programs may keep busy during a measurement
ATTEMPTS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=7, help="how often each case is measured on each side")
    parser.add_argument("--milliseconds", type=float, default=30.0, help="length of one measurement")
    parser.add_argument("--only", default="", help="only cases whose group or name contains this")
    parser.add_argument("--quick", action="store_true", help="two short rounds: whether everything runs, and rough figures")
    parser.add_argument("--write", action="store_true", help="write the section of docs/benchmarks.md")


def effort(options: argparse.Namespace) -> tuple[int, float, int]:
    """Rounds, seconds of a turn, and how often a disturbed case is measured."""
    return (2, 3e-3, 1) if options.quick else (options.rounds, options.milliseconds / 1e3, ATTEMPTS)


def described(options: argparse.Namespace) -> str:
    """The line under a heading: command, machine, and how it was measured."""
    rounds, seconds, _ = effort(options)
    return (
        f"`python -m benchmarks {options.name}`; {machine()}; {options.threads} threads, a process each; the best of {rounds} turns of "
        f"{seconds * 1e3:g} ms, each the median of its calls; values compared. Ratios below 1: flambeau is faster."
    )


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


def difference(results: Sequence[Sequence[Any]], rtol: float, atol: float = 1e-4) -> str:
    """In words, where flambeau's result is not PyTorch's; empty where it is. Sums that cancel are judged by the largest value."""
    import numpy as np

    for ours, theirs in zip(*results):
        if (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype):
            return f"expected {theirs.dtype} of shape {theirs.shape}, got {ours.dtype} of shape {ours.shape}"
        scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)) if theirs.dtype.kind in "fc" else 0.0
        wrong = ~np.isclose(ours, theirs, rtol=rtol, atol=atol * scale, equal_nan=True)
        if wrong.any():
            first = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"{wrong.sum()} of {wrong.size} values differ, the first at {first}: expected {theirs[first]}, got {ours[first]}"
    return ""


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    seconds: list[float]  # of each module; empty when there is a problem
    problem: str = ""
    others: float = 0.0  # processors that other programs kept busy meanwhile

    @property
    def disturbance(self) -> str:
        """In words, when it was too much for a figure to be trusted."""
        return f"disturbed: other programs took {self.others:.2f} processors" if self.others > ALLOWED else ""

    @property
    def label(self) -> str:
        return f"{self.case.name} *" if self.disturbance else self.case.name

    @property
    def ratio(self) -> float:
        return self.seconds[0] / self.seconds[1]


def undisturbed(entries: Sequence[tuple[Side, str]], rounds: int, seconds: float, most: int) -> tuple[list[float], float]:
    """Seconds of each entry, and how many processors other programs took; again, later, when these were too many, ``most`` times in all."""
    attempts = []
    for attempt in range(most):
        time.sleep(attempt)
        with foreign([entries[0][0], entries[-1][0]]) as share:
            taken = in_turn(entries, rounds, seconds)
        attempts.append((share[0], taken))
        if share[0] <= ALLOWED:
            break
    share_of_others, taken = min(attempts)
    return taken, share_of_others


def run_case(case: Case, module: str, entries: Sequence[tuple[Side, str]], rounds: int, seconds: float, most: int) -> Outcome:
    """Build what each side has to build under a key of ``module``, compare the values of the first two, and take the times of all."""
    taken: list[float] = []
    others = 0.0
    try:
        values = [side.ask("build", module, key) for side, key in entries]
        problem = difference(values[:2], case.rtol, case.atol)
        if not problem:
            taken, others = undisturbed(entries, rounds, seconds, most)
    except RuntimeError as error:
        problem = str(error)
    for side in {side for side, _ in entries}:
        side.ask("clear")
    outcome = Outcome(case, taken, problem, others)
    remark = f", {outcome.disturbance}" if outcome.disturbance else ""
    print(f"{case.key}: {problem or ' / '.join(map(duration, taken)) + ' ms'}{remark}", file=sys.stderr, flush=True)
    return outcome


def duration(seconds: float) -> str:
    """In milliseconds, with three digits."""
    return f"{seconds * 1e3:.3g}" if seconds < 1 else f"{seconds * 1e3:.0f}"


def mean_ratio(outcomes: Sequence[Outcome]) -> str:
    """The geometric mean over the cases that nothing disturbed; a dash where there is none."""
    ratios = [outcome.ratio for outcome in outcomes if outcome.seconds and not outcome.disturbance]
    return f"{geometric_mean(ratios):.2f}" if ratios else "-"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Tables by group with their geometric means, the mean over all, and what could not be measured."""
    parts = []
    for group in dict.fromkeys(outcome.case.group for outcome in outcomes):
        chosen = [outcome for outcome in outcomes if outcome.case.group == group and outcome.seconds]
        if chosen:
            rows = [[o.label, *map(duration, o.seconds), f"{o.ratio:.2f}"] for o in chosen]
            rows.append(["geometric mean", "", "", mean_ratio(chosen)])
            parts.append(table([group, "flambeau, ms", "PyTorch, ms", "ratio"], rows))
    trusted = [outcome for outcome in outcomes if outcome.seconds and not outcome.disturbance]
    if trusted:
        worst = max(trusted, key=lambda outcome: outcome.ratio)
        slower = sum(outcome.ratio > 1 for outcome in trusted)
        parts.append(
            f"All {len(trusted)} cases: geometric mean {mean_ratio(trusted)}, largest {worst.ratio:.2f} ({worst.case.key}); "
            f"flambeau is slower in {slower}."
        )
    return "\n\n".join([*parts, *problems(outcomes)])


def problems(outcomes: Sequence[Outcome]) -> list[str]:
    """A paragraph for each case without a figure, and one about the figures that are not to be trusted."""
    lines = [f"Not measured: {outcome.case.key}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    disturbed = [outcome.others for outcome in outcomes if outcome.disturbance]
    if disturbed:
        lines.append(
            f"{len(disturbed)} cases (*) were disturbed by other programs, which took up to {max(disturbed):.2f} processors; "
            "the means leave them out."
        )
    return lines


def chosen_cases(cases: Sequence[Case], only: str) -> list[Case]:
    """Those with ``only`` in their key; the program ends where there are none."""
    selected = [case for case in cases if only in case.key]
    if not selected:
        raise SystemExit(f"no case contains {only!r}")
    return selected


def run_cases(module: str, cases: Sequence[Case], options: argparse.Namespace) -> list[Outcome]:
    """The outcomes of those cases of ``module`` that the options choose."""
    chosen = chosen_cases(cases, options.only)
    with both(options.threads) as sides:
        return [run_case(case, module, [(side, case.key) for side in sides], *effort(options)) for case in chosen]


def report(module: str, cases: Sequence[Case], options: argparse.Namespace) -> int:
    """Run the cases of ``module``, print, and write the section named after the benchmark; 1 when something could not be measured."""
    outcomes = run_cases(module, cases, options)
    text = summary(outcomes)
    print(text)
    if options.write:
        write_section(options.name, f"{described(options)}\n\n{text}")
    return int(any(outcome.problem for outcome in outcomes))
