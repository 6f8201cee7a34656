"""Compositions of ``torch.func``'s transforms, each written once for both libraries, and compared.

python -m tests.programs.func_compositions           a table: differences and times; exit code 1 where one is not PyTorch's
python -m tests.programs.func_compositions NAME...   those whose names contain one of these
"""

from __future__ import annotations

import sys
import time

import func_nesting
import func_networks
import func_operations
from func_source import COMPOSITIONS, Source, compare
from oracle import pytorch

__all__ = ["COMPOSITIONS", "Source", "compare", "func_nesting", "func_networks", "func_operations"]


def main():
    torch = pytorch()

    import flambeau

    bad = 0
    print(f"| {'composition':45} | difference | ours, ms | PyTorch, ms |\n| {'-' * 45} | ---------: | -------: | ----------: |")
    for name, function in COMPOSITIONS.items():
        if len(sys.argv) > 1 and not any(part in name for part in sys.argv[1:]):
            continue
        times, results = [], []
        try:
            for library in (torch, flambeau):
                function(Source(library))
                start = time.perf_counter()
                results.append(function(Source(library)))
                times.append(time.perf_counter() - start)
            difference = compare(*reversed(results))
            bad += difference > 1e-9
            print(f"| {name:45} | {difference:10.0e} | {times[1] * 1e3:8.1f} | {times[0] * 1e3:11.1f} |")
        except Exception as error:
            bad += 1
            print(f"| {name:45} | {type(error).__name__}: {error!s:.200} |")
    print(f"{len(COMPOSITIONS)} compositions, {bad} bad")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
