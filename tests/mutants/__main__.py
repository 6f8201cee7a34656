"""Do the tests notice?  ``python -m tests.mutants --count 200 --seed 1``: so many small changes, one at a time.

Runs with real PyTorch where it is installed.  Native kernels are tested with kernels for every size, everything else on NumPy.
Results are kept in ``--results``; a run that was stopped goes on where it was, and several may share them (``--part 1/2``, ``--part 2/2``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Tests of other processes, and of what is written about the package: a change in this process is not seen by them.
IGNORED = (
    "faults",
    "processes",
    "mutants",
    "differential",
    "test_inventory.py",
    "test_doctests.py",
    "test_examples.py",
    "test_cookbook.py",
)
IGNORED += ("test_imports.py", "test_differential.py", "test_tables.py", "test_mutants.py", "test_benchmarks.py", "test_hostile_files.py")
IGNORED += ("test_view_programs.py", "test_adding_an_operation.py", "test_runner.py", "test_standing_in.py", "devices/test_cuda.py")
IGNORED += ("kernels/test_record_layouts.py", "kernels/test_targets.py", "kernels/test_layout_programs.py")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40, help="processor time of the tests of one change")
    parser.add_argument("--limit", type=int, default=300, help="tests of one change")
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--part", default="1/1", help="of the changes: 1/2 is the first half")
    parser.add_argument("--only", default="", help="changes whose line has this text")
    parser.add_argument("--kernels", choices=("numpy", "llvm"), help="used by the program itself")
    parser.add_argument("--list", action="store_true", help="show the changes and stop")
    parser.add_argument("--show", action="store_true", help="show the results and stop")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "helpers"), str(ROOT)]
    from mutants.changes import drawn

    results = options.results or Path(tempfile.gettempdir()) / f"mutants-{options.seed}-{options.count}.jsonl"
    sites = [site for site in drawn(options.count, options.seed) if options.only in str(site)]
    if options.list:
        print(*sites, sep="\n")
        return 0
    if options.kernels:
        place, parts = map(int, options.part.split("/"))
        chosen = [site for site in sites if site.path.startswith("kernels/") == (options.kernels == "llvm")]
        return run(chosen[place - 1 :: parts], results, options)
    if not options.show:
        for kernels in ("numpy", "llvm"):
            arguments = [*sys.argv[1:], "--results", str(results), "--kernels", kernels]
            if subprocess.run([sys.executable, "-m", "tests.mutants", *arguments], env=environment(kernels), cwd=ROOT).returncode:
                return 1
    return report(sites, results)


def environment(kernels: str) -> dict[str, str]:
    own = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    if kernels == "numpy":
        return own | {"FLAMBEAU_KERNELS": "numpy"}
    cache = Path(tempfile.gettempdir()) / "mutants-kernels"  # changed kernels do not push others out of the user's own
    cache.mkdir(mode=0o700, exist_ok=True)
    return own | {"FLAMBEAU_KERNELS_FROM": "1", "FLAMBEAU_CACHE": str(cache)}


def run(sites: list, results: Path, options: argparse.Namespace) -> int:
    import pytest

    from mutants.running import Mutants

    done = {tuple(line["key"]) for line in _read(results)}
    plugin = Mutants([site for site in sites if site.key not in done], results, options.seconds, options.limit, options.seed)
    ignored = [f"--ignore=tests/{name}" for name in IGNORED] + (["--ignore=tests/kernels"] if options.kernels == "numpy" else [])
    own = ["-o", "addopts=--import-mode=importlib -p no:logging", "-p", "no:xdist", "-p", "no:cacheprovider", "-q"]
    return int(bool(plugin.sites) and pytest.main([*own, *ignored, "tests"], plugins=[plugin]) not in (0, 5))


def _read(results: Path) -> list[dict]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def report(sites: list, results: Path) -> int:
    """Survivors with their explanations, and the figures; the exit status is 1 where a survivor has none."""
    from mutants.explained import EXPLAINED

    wanted = {site.key for site in sites}
    lines = [line for line in {tuple(line["key"]): line for line in _read(results)}.values() if tuple(line["key"]) in wanted]
    counts = Counter(line["outcome"] for line in lines)
    survivors = [line for line in lines if line["outcome"] == "survived"]
    for line in survivors:
        print(f"survived: {line['site']} {line['detail']}\n    {EXPLAINED.get(tuple(line['key']), 'not explained')}")
    explained = sum(tuple(line["key"]) in EXPLAINED for line in survivors)
    changed = counts["killed"] + counts["survived"]
    without = changed - explained
    print(
        f"{counts['killed']} of {changed} changes noticed ({100 * counts['killed'] / max(changed, 1):.1f} %), {len(survivors)} survived, "
        f"{explained} of them explained ({100 * counts['killed'] / max(without, 1):.1f} % without these); "
        f"{counts['unchanged']} were no changes, {len(sites) - changed - counts['unchanged']} not run"
    )
    return int(explained < len(survivors))


if __name__ == "__main__":
    sys.exit(main())
