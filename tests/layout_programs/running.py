"""Programs in a process of their own: one that ends it is a difference like any other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Report:
    """How far a run has come: programs ``seed``, ``seed + 1``, ... up to ``count`` of them."""

    seed: int
    count: int = 0
    wrong: int = 0


def run_programs(
    report: Report,
    count: int | None,
    seconds: float | None,
    tell: Callable[[Report], Any] = lambda report: None,
    complain: Callable[[list[str]], Any] = print,
) -> Report:
    """Run so many programs, or for so long.

    Args:
        tell: called now and then.
        complain: called with the lines that say what is wrong with a program.
    """
    begun = time.monotonic()
    while (count is None or report.count < count) and (seconds is None or time.monotonic() - begun < seconds):
        left = -1 if count is None else count - report.count
        time_left = -1 if seconds is None else seconds - (time.monotonic() - begun)
        command = [sys.executable, "-m", "tests.layout_programs.running", str(report.seed + report.count), str(left), str(time_left)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            lines: list[str] = []
            for line in process.stdout or ():
                if line != "done\n":
                    lines.append(line.rstrip("\n"))
                    continue
                report.count += 1
                if lines:
                    report.wrong += 1
                    complain(lines)
                    lines = []
                tell(report)
        if process.returncode:
            from .operations import draw_program

            seed = report.seed + report.count
            how = signal.Signals(-process.returncode).name if process.returncode < 0 else f"exit status {process.returncode}"
            complain([*lines, f"program {seed}: {draw_program(seed)}", f"    ended the process: {how}"])
            report.wrong += 1
            report.count += 1
    return report


def _work(seed: int, count: int, seconds: float) -> None:
    """Run programs; write what is wrong with each, then ``done``."""
    from .comparing import differences

    stop = time.monotonic() + seconds if seconds >= 0 else float("inf")
    end_at = int(os.environ.get("LAYOUT_PROGRAMS_END_AT", "-1"))  # as a kernel that reads a forbidden page would, for a test of that
    while count and time.monotonic() < stop:
        if seed == end_at:
            os.kill(os.getpid(), signal.SIGSEGV)
        wrong = differences(seed)
        seed, count = seed + 1, count - 1
        print("\n".join([*wrong, "done"]), flush=True)


if __name__ == "__main__":
    _work(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
