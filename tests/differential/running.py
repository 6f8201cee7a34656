"""Programs in processes of their own: one that ends its process, or does not end itself, is a difference like any other."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from oracle import pytorch

import flambeau

from .area import Area, attempt, draw_program, find_area, find_difference, reason_of, reset
from .shrinking import shrink

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 500  # programs a process: what one leaves behind does not last
PATIENCE = 120.0  # seconds that a program may take
SHRINKING = 60.0  # seconds for a program that ends its process, which takes a process for each try
START = 600.0  # seconds that a process may take to begin, on a busy machine


@dataclass
class Report:
    """How far a run has come: programs ``seed``, ``seed + 1``, ... up to ``count`` of them."""

    area: str
    seed: int
    count: int = 0
    explained: Counter[str] = field(default_factory=Counter)  # by reason
    unexplained: int = 0

    def figures(self, seconds: float) -> str:
        explained = sum(self.explained.values())
        equal = self.count - explained - self.unexplained
        reasons = [f"    {count} explained: {reason}" for reason, count in self.explained.most_common()]
        line = f"{self.area}: {self.count} programs, seeds {self.seed} to {self.seed + self.count - 1}, {seconds:.0f} s: "
        return "\n".join([*reasons, f"{line}{equal} equal, {explained} differ and are explained, {self.unexplained} unexplained"])


def run_programs(
    report: Report,
    count: int | None,
    seconds: float | None,
    tell: Callable[[Report], Any] = lambda report: None,
    complain: Callable[[str], Any] = print,
    patience: float = PATIENCE,
    shrinking: float = SHRINKING,
) -> Report:
    """Run so many programs, or for so long.

    Args:
        tell: called after each program.
        complain: called with a text for each program with a difference that nothing explains.
        patience: seconds that a program may take.
        shrinking: seconds for what ends its process.
    """
    begun = time.monotonic()
    while (count is None or report.count < count) and (seconds is None or time.monotonic() - begun < seconds):
        chunk = CHUNK if count is None else min(CHUNK, count - report.count)
        left = seconds if seconds is None else seconds - (time.monotonic() - begun)
        _run_chunk(report, chunk, left, tell, complain, patience, shrinking)
    return report


def _run_chunk(
    report: Report,
    count: int,
    seconds: float | None,
    tell: Callable[[Report], Any],
    complain: Callable[[str], Any],
    patience: float,
    shrinking: float,
) -> None:
    order = {"area": report.area, "seed": report.seed + report.count, "count": count, "seconds": seconds}
    lines: list[str] | None = None
    under_way = False
    with _Child(order, patience) as child:
        for message in child.messages():
            if message["is"] == "drawing":
                lines, under_way = None, True
            elif message["is"] == "program":
                lines = message["lines"]
            elif message["is"] == "done":
                report.count, under_way = report.count + 1, False
                if "reason" in message:
                    report.explained[message["reason"]] += 1
                elif "text" in message:
                    report.unexplained += 1
                    complain(message["text"])
                tell(report)
    if child.end is None:
        return
    if not under_way:
        raise RuntimeError(f"a process that runs programs of {report.area} {child.end} before or after them")
    seed = report.seed + report.count
    report.count += 1
    # flambeau is not asked while a program is drawn; what hangs without PyTorch's part ending may do so in loops that stand in for PyTorch
    if lines is None or _ends(report.area, lines, patience, only="theirs"):
        report.explained["PyTorch alone ends the process, or hangs"] += 1
    elif "hang" in child.end and not _ends(report.area, lines, patience, only="ours"):
        report.explained["what PyTorch is asked instead, where it refuses, takes too long"] += 1
    else:
        report.unexplained += 1
        complain(_obituary(report.area, seed, lines, child.end, patience, shrinking))
    tell(report)


def _obituary(area: str, seed: int, lines: list[str] | None, end: str, patience: float, shrinking: float) -> str:
    """The report of a program that ended its process, with the fewest statements that do."""
    head = f"-- {area}, seed {seed}: {end}"
    if lines is None:
        return f"{head}, while the program was drawn by PyTorch"
    if "hang" not in end:
        lines = shrink(lines, lambda tried: _ends(area, tried, patience), shrinking)
    return "\n".join([head, *lines])


def _ends(area: str, lines: list[str], patience: float, only: str = "") -> bool:
    with _Child({"area": area, "lines": lines, "only": only}, patience) as child:
        for _ in child.messages():
            pass
    return child.end is not None


class _Child:
    """A process that runs programs and says what becomes of them, by lines of JSON through a pipe of its own: programs may print."""

    def __init__(self, order: dict[str, Any], patience: float):
        self.order, self.patience = order, patience
        self.end: str | None = None  # how it ended, where not well

    def __enter__(self) -> _Child:
        read, write = os.pipe()
        command = [sys.executable, "-m", "tests.differential.running", str(write), json.dumps(self.order)]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[write], **quiet)
        os.close(write)
        self.pipe: IO[bytes] = os.fdopen(read, "rb", buffering=0)
        return self

    def messages(self) -> Iterator[dict[str, Any]]:
        rest, patience = b"", START
        while True:
            if not select.select([self.pipe], [], [], patience)[0]:
                self.process.kill()
                self.end = f"hangs: no end within {self.patience:.0f} s"
                return
            more = self.pipe.read(1 << 16)
            if not more:
                return
            patience = self.patience
            *whole, rest = (rest + more).split(b"\n")
            for line in whole:
                yield json.loads(line)

    def __exit__(self, *exception: object) -> None:
        self.pipe.close()
        if exception[0] is not None:
            self.process.kill()
        code = self.process.wait()
        if code and self.end is None:
            self.end = f"ends the process: {signal.Signals(-code).name if code < 0 else f'exit status {code}'}"


# -- in the child ------------------------------------------------------------------------------------------------------------------
def examine(area: Area, name: str, seed: int, lines: list[str], shrink_seconds: float = 20.0) -> dict[str, Any]:
    """What a report holds of one program: nothing, the reason of a known difference, or the text of one that nothing explains."""
    found = find_difference(area, lines)
    if found is None:
        return {}
    reason = reason_of(area, found)
    if reason is not None:
        return {"reason": reason}
    last = found

    def still(tried: list[str]) -> bool:
        nonlocal last
        try:
            other = find_difference(area, tried)
        except Exception:  # a program that the area's comparison was not made for
            return False
        if other is None or other.sort() != found.sort() or reason_of(area, other) is not None:
            return False
        last = other
        return True

    smallest = shrink(lines, still, shrink_seconds)
    return {"text": "\n".join([f"-- {name}, seed {seed}", *smallest, str(last)]), "lines": smallest}


def _work(pipe: IO[str], order: dict[str, Any]) -> None:
    warnings.simplefilter("ignore")
    area = find_area(order["area"])

    def say(kind: str, **what: Any) -> None:
        pipe.write(json.dumps({"is": kind, **what}) + "\n")
        pipe.flush()

    say("begun")
    if "lines" in order:
        if order["only"]:
            run_alone(area, order["lines"], pytorch() if order["only"] == "theirs" else flambeau)
        else:
            find_difference(area, order["lines"])
        return
    at, _, added = os.environ.get("DIFFERENTIAL_ADDS", "-1").partition(" ")  # a statement to the program of a seed, for tests of this tool
    stop = float("inf") if order["seconds"] is None else time.monotonic() + order["seconds"]
    for seed in range(order["seed"], order["seed"] + order["count"]):
        say("drawing")
        lines = draw_program(area, order["area"], seed)
        if seed == int(at):
            lines.insert(0, added)
        say("program", lines=lines)
        say("done", **examine(area, order["area"], seed, lines))
        if time.monotonic() > stop:
            break


def run_alone(area: Area, lines: list[str], library: Any) -> None:
    """A program by one of both alone: whether it is that one that ends the process."""
    reset(library)
    space = area.space(library)
    for line in lines:
        attempt(line, space)


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "w") as results:
        _work(results, json.loads(sys.argv[2]))
