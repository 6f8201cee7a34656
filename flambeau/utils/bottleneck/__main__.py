"""Run a script under Python's profiler and under ours, and print what both found.

The script runs twice, so it has to end in a finite time, and should do little: a few steps of a training. Times under a profiler are longer
than without one.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from ...autograd.profiler import profile
from ..collect_env import get_pretty_env_info

ROWS = 15
_RULE = "-" * 80


def section(title: str) -> str:
    """A heading."""
    return f"{_RULE}\n  {title}\n{_RULE}"


def run_script(code: CodeType, path: Path) -> None:
    """Run the script as the main program."""
    exec(code, {"__file__": str(path), "__name__": "__main__", "__package__": None, "__cached__": None})


def python_summary(run: Callable[[], None]) -> str:
    """Findings of Python's own profiler: the functions that take the most time by themselves."""
    import io

    profiler = cProfile.Profile()
    profiler.enable()
    try:
        run()
    finally:
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(ROWS)
    return f"{section('cProfile output')}\n{text.getvalue().rstrip()}\n"


def operations_summary(run: Callable[[], None]) -> str:
    """Findings of our profiler: the single calls of operations that take the most time."""
    with profile(record_shapes=True) as found:
        run()
    key = "cpu_time_total"
    table = found.table(sort_by=key, row_limit=ROWS, header=f"top {ROWS} events sorted by {key}")
    return f"{section('autograd profiler output (CPU mode)')}\n{table or 'no operation was called'}\n"


def arguments(words: list[str] | None = None) -> Any:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m flambeau.utils.bottleneck",
        description="Run a script under Python's cProfile and under the autograd profiler, and print both summaries.",
    )
    parser.add_argument("scriptfile", help="the script; it runs twice and has to end by itself")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")
    return parser.parse_args(words)


def main() -> int:
    """The program; its exit status."""
    given = arguments()
    path = Path(given.scriptfile)
    try:
        source = path.read_bytes()
    except OSError as error:
        print(f"bottleneck: {path}: {error.strerror}", file=sys.stderr)
        return 2
    code = compile(source, str(path), "exec")
    sys.argv = [str(path), *given.args]
    sys.path[0] = str(path.parent.resolve())

    def run() -> None:
        run_script(code, path)

    print("`bottleneck` runs a script under cProfile and under the autograd profiler, and prints what they find.\n", flush=True)
    print("Running environment analysis...", flush=True)
    environment = f"{section('Environment Summary')}\n{get_pretty_env_info()}\n"
    print("Running your script with cProfile", flush=True)
    python = python_summary(run)
    print("Running your script with the autograd profiler...", flush=True)
    operations = operations_summary(run)
    print("", environment, python, operations, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
