"""``python -m tests.differential``: random programs of one area, and what differs."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from .area import area_names
from .running import Report, run_programs


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description="Random programs, the same by PyTorch and by flambeau."
    )
    parser.add_argument("--area", required=True, choices=area_names(), help="what the programs are about")
    parser.add_argument("--seconds", type=float, help="for how long; without --count, 60")
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, help="of the first program; a new one where not given")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 40) if given.seed is None else given.seed
    seconds = 60.0 if given.seconds is None and given.count is None else given.seconds
    report = Report(given.area, seed)
    begun = last = time.monotonic()

    def tell(report: Report) -> None:
        nonlocal last
        if time.monotonic() - last > 30:
            last = time.monotonic()
            print(report.figures(last - begun).splitlines()[-1], flush=True)

    run_programs(report, given.count, seconds, tell, lambda text: print(f"{text}\n", flush=True))
    print(report.figures(time.monotonic() - begun))
    return 1 if report.unexplained else 0


sys.exit(main())
