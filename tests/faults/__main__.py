"""Run a scenario for long: ``python -m tests.faults signals --count 20000``."""

from __future__ import annotations

import argparse
import os
import sys
import time

from .scenarios import SCENARIOS, Figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--count", type=int, default=100, help="exceptions, processes or forks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=3, help="threads of a kernel")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    began, figures, failures = time.monotonic(), Figures(), 0
    for failure in SCENARIOS[options.scenario](options.seed, options.count, figures):
        failures += 1
        print(failure, flush=True)
    shown = ", ".join(f"{name} {count}" for name, count in figures.items())
    print(f"{options.scenario}, seed {options.seed}: {shown}; {failures} failures, {time.monotonic() - began:.0f} s")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
