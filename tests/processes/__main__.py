"""Kill processes for long: ``python -m tests.processes child --count 2000``."""

from __future__ import annotations

import argparse
import sys
import time

from .trials import SCENARIOS, failures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.processes", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS, help="whom to kill")
    parser.add_argument("--count", type=int, default=20, help="processes to kill")
    parser.add_argument("--size", type=int, default=1 << 16, help="of each tensor; from 2 ** 24 on the system's memory is compared")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began, failed = time.monotonic(), 0
    for failure in failures(options.scenario, options.seed, options.count, options.size):
        failed += 1
        print(failure, flush=True)
    print(f"{options.scenario}, seed {options.seed}: {options.count} killed, {failed} left something, {time.monotonic() - began:.0f} s")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
