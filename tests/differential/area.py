"""What an area of programs states, and how one program is run in both libraries."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from libraries import expected_type
from oracle import pytorch

from .comparing import compare_results

SHOWN = 1500  # characters of a result in a report


@dataclass(frozen=True, slots=True)
class Difference:
    """In what the libraries differ ("values", "strides", "exception", ...), at which statement, and what each has."""

    kind: str
    line: str
    ours: str
    theirs: str
    program: str = ""  # all statements up to this one

    def sort(self) -> tuple[str, ...]:
        """What stays the same while a program is shrunk: the kind, and of exceptions the types."""
        return (self.kind, *[text.partition(":")[0] for text in (self.ours, self.theirs) if self.kind == "exception"])

    def __str__(self) -> str:
        return f"{self.kind} differs at: {self.line}\nflambeau: {self.ours[:SHOWN]}\nPyTorch:  {self.theirs[:SHOWN]}"


@dataclass(frozen=True, slots=True)
class Known:
    """Differences that are known, and why they are left so.

    Each of the patterns, where it is given, is looked for (``re.search``) in the difference's part of that name;  ``when`` is asked last.
    """

    reason: str
    kind: str = ""
    line: str = ""
    ours: str = ""
    theirs: str = ""
    program: str = ""
    when: Callable[[Difference], bool] = lambda difference: True

    def explains(self, difference: Difference) -> bool:
        parts = ("kind", "line", "ours", "theirs", "program")
        return all(re.search(getattr(self, part), getattr(difference, part)) for part in parts) and self.when(difference)


@dataclass(slots=True)
class Run:
    """A program under way in both libraries: the namespaces, and what became of the last statement."""

    ours: dict[str, Any]
    theirs: dict[str, Any]
    line: str = ""
    lines: list[str] = field(default_factory=list)  # all of them so far
    errors: tuple[Exception | None, Exception | None] = (None, None)
    ended: bool = False  # set by an area where the rest of the program has nothing to compare
    notes: dict[str, Any] = field(default_factory=dict)  # what an area wants to remember from statement to statement

    def execute(self, line: str) -> None:
        self.line = line
        self.lines.append(line)
        self.errors = (attempt(line, self.ours), attempt(line, self.theirs))

    def differs(self, kind: str, ours: Any, theirs: Any) -> Difference:
        return Difference(kind, self.line, str(ours), str(theirs), "\n".join(self.lines))


def attempt(line: str, space: dict[str, Any]) -> Exception | None:
    try:
        exec(compile(line, "<program>", "exec"), space)
    except Exception as error:
        return error
    return None


class Area:
    """How programs of one area are drawn and compared; the defaults do for most."""

    known: Sequence[Known] = ()

    def generate(self, draw: random.Random) -> list[str]:
        """The statements of a program, from ``draw`` alone; PyTorch may be asked what is possible, flambeau not."""
        raise NotImplementedError

    def space(self, torch: ModuleType) -> dict[str, Any]:
        """The names that a program finds; ``torch`` is either library."""
        return {"torch": torch}

    def compare(self, run: Run) -> Difference | None:
        """What differs after a statement: its exception, or any variable that it may have made or changed."""
        if any(run.errors):
            return self.compare_exceptions(run)
        for name in variables(run.theirs):
            found = self.compare_variable(name, run.ours.get(name), run.theirs[name])
            if found is not None:
                return run.differs(found[0], f"{name}: {found[1]}", f"{name}: {found[2]}")
        return None

    def compare_variable(self, name: str, ours: Any, theirs: Any) -> tuple[str, str, str] | None:
        """(kind, what flambeau has, what PyTorch has) where these differ."""
        return compare_results(ours, theirs)

    def compare_exceptions(self, run: Run) -> Difference | None:
        """Both raise, and a handler written for PyTorch's exception catches ours."""
        ours, theirs = run.errors
        if ours is None or theirs is None or not isinstance(ours, expected_type(theirs)):
            return run.differs("exception", described(ours), described(theirs))
        return None


def described(error: Exception | None) -> str:
    return "no exception" if error is None else f"{type(error).__name__}: {error}"


def variables(space: dict[str, Any]) -> list[str]:
    """What a program has assigned so far, without functions, classes and modules."""
    return [name for name, value in space.items() if not (name.startswith("_") or isinstance(value, ModuleType) or callable(value))]


def find_difference(area: Area, lines: Sequence[str]) -> Difference | None:
    """Run a program; the first difference, or None."""
    import flambeau

    torch = pytorch()
    run = Run(area.space(flambeau), area.space(torch))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reset(flambeau)
            reset(torch)
            for line in lines:
                run.execute(line)
                found = area.compare(run)
                if found is not None or run.ended:
                    return found
        finally:
            run.ours.clear()
            run.theirs.clear()
    return None


def agrees_in_float64(area: Area, program: str) -> bool:
    """Whether a program has no difference where every float32 is a float64."""
    lines = [ast.unparse(statement) for statement in ast.parse(program.replace("float32", "float64")).body]
    return find_difference(area, ["torch.set_default_dtype(torch.float64)", *lines]) is None


def differ_little(difference: Difference, bound: float) -> bool:
    """Whether the numbers in both texts are as many, and differ by little beside the larger of them and 1."""
    ours, theirs = (
        [float(word) for word in re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", text)] for text in (difference.ours, difference.theirs)
    )
    return len(ours) == len(theirs) and all(abs(a - b) <= bound * max(1, abs(b)) for a, b in zip(ours, theirs, strict=True))


def reset(torch: Any) -> None:
    """What a program may have left switched."""
    torch.manual_seed(0)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)


def reason_of(area: Area, difference: Difference) -> str | None:
    """Why a difference is left as it is, or None where nothing known explains it."""
    return next((known.reason for known in area.known if known.explains(difference)), None)


def draw_program(area: Area, name: str, seed: int) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return area.generate(random.Random(f"{name} {seed}"))


@cache
def area_names() -> tuple[str, ...]:
    """The modules of this package that have an area."""
    folder = Path(__file__).parent
    modules = sorted(found.name for found in pkgutil.iter_modules([str(folder)]))
    return tuple(name for name in modules if re.search(r"^AREA\b", (folder / f"{name}.py").read_text(), re.MULTILINE))


def find_area(name: str) -> Area:
    area: Area = importlib.import_module(f".{name}", __package__).AREA
    return area
