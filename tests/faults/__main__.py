"""Run a scenario for long: ``python -m tests.faults signals --count 20000``."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time

from .scenarios import SCENARIOS, Figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--count", type=int, help="exceptions, processes, forks (100 by default) or threads (8)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=3, help="threads of a kernel")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long, in `threads`")
    parser.add_argument("--interval", type=float, default=1e-5, help="switch interval in seconds, in `threads`")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    began, figures, failures = time.monotonic(), Figures(), 0
    scenario = SCENARIOS[options.scenario]
    more = {name: getattr(options, name) for name in inspect.signature(scenario).parameters if name in ("seconds", "interval")}
    count = options.count if options.count is not None else 8 if more else 100
    for failure in scenario(options.seed, count, figures, **more):
        failures += 1
        print(failure, flush=True)
    shown = ", ".join(f"{name} {count}" for name, count in figures.items())
    print(f"{options.scenario}, seed {options.seed}: {shown}; {failures} failures, {time.monotonic() - began:.0f} s")
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
