"""``python -m tests.layout_programs``: programs one after the other, in a process of their own, and what differs."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from .running import Report, run_programs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.layout_programs", description="Random operations on tensors of random layout.")
    parser.add_argument("--seconds", type=float, help="for how long; without --count, 60")
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, help="of the first program; a new one where not given")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 40) if given.seed is None else given.seed
    seconds = 60.0 if given.seconds is None and given.count is None else given.seconds
    begun, report = time.monotonic(), Report(seed)
    last = begun

    def tell(report: Report) -> None:
        nonlocal last
        if time.monotonic() - last > 30:
            last = time.monotonic()
            print(f"{report.count} programs from seed {seed}, {report.wrong} with differences", flush=True)

    run_programs(report, given.count, seconds, tell, lambda lines: print("\n".join(lines), flush=True))
    took = time.monotonic() - begun
    print(f"{report.count} programs, seeds {seed} to {seed + report.count - 1}, {took:.0f} s: {report.wrong} with differences")
    return 1 if report.wrong else 0


sys.exit(main())
