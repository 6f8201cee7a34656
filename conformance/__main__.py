"""``python -m conformance``: flambeau beside PyTorch, over every public entry of PyTorch's own database of operations.

python -m conformance                       all entries and columns; exit code 1 where a share is below what is asked
python -m conformance --only add 'fft.*'    these entries, with all their mismatches
python -m conformance --write               docs/conformance.md too, a row for each entry
FLAMBEAU_KERNELS_FROM=1 python -m conformance   with native kernels however small the operands are
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from pathlib import Path
from typing import Any


def chosen(patterns: list[str]) -> list[str]:
    """Names of entries: all public ones, or those that fit a pattern."""
    from .database import ENTRIES
    from .exclusions import EXCLUDED, is_public

    if not patterns:
        return [name for name in sorted(ENTRIES) if is_public(name) and name not in EXCLUDED]
    names = [n for n in sorted(ENTRIES) if any(fnmatch.fnmatchcase(n, p) or ENTRIES[n].name == p for p in patterns)]
    return names or [n for n in sorted(ENTRIES) if ENTRIES[n].name.rpartition(".")[2] in patterns]


def main(arguments: list[str]) -> int:
    from .columns import COLUMNS
    from .processes import measure_all
    from .report import ASKED, PAGE, enough, page, report, shares, summary_lines

    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names of entries, or patterns")
    parser.add_argument("--column", action="append", choices=COLUMNS, help="only these columns")
    parser.add_argument("--count", type=int, default=6, help="samples of each dtype, evenly spaced among 40; 0 takes all")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, default=Path("out/conformance.json"), help="where the report goes")
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md too")
    options = parser.parse_args(arguments)
    if options.write and (options.only or options.column):
        parser.error("--write needs all entries and columns")
    names, columns = chosen(options.only), options.column or list(COLUMNS)
    if not names:
        parser.error(f"no such entry: {' '.join(options.only)}")

    start = time.perf_counter()
    entries, seconds = {}, {}
    for name, outcomes, taken in measure_all(names, columns, options.count or None, options.jobs):
        entries[name], seconds[name] = outcomes, round(taken, 2)
        if len(entries) % 100 == 0:
            print(f"{len(entries)} of {len(names)} entries", file=sys.stderr)
        for column, facts in outcomes.items() if options.only else ():
            for line in facts.get("first", ()):
                print(f"{name} [{column}] {line}")
    entries = dict(sorted(entries.items()))
    import torch

    facts: dict[str, Any] = {"pytorch": torch.__version__.partition("+")[0], "taken": seconds}
    facts["seconds"] = round(time.perf_counter() - start)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(report(entries, facts))
    if options.write:
        PAGE.write_text(page(entries, facts))
    print(*summary_lines(entries), f"{len(entries)} entries in {facts['seconds']} s; {options.json}", sep="\n")
    return int(not all(enough(column, *counted) for column, counted in shares(entries).items() if column in ASKED))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
