"""PyTorch's own database of operations as a yardstick: its sample inputs and its error inputs, given to both libraries.

Every entry of ``op_db`` whose name flambeau has is called as a function, as a method and in place, in five groups of dtypes; results
must agree in value, dtype, shape, strides and in which inputs they share memory with, and gradients must agree.  Known differences
stand in ``op_db_gaps.GAPS``, each with its reason; an entry there that is no longer true fails.  ``python -m conformance`` asks for more.

By hand, with all samples instead of a few:

    python -m tests.test_op_db NAME...      every mismatch of these operations (patterns such as 'fft.*' are understood)
    python -m tests.test_op_db --all        the operations that have mismatches, and the names that flambeau lacks
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle import pytorch

sys.path.append(str(Path(__file__).parents[0] / "helpers"))  # for `python -m tests.test_op_db`; pytest does it by itself

from op_db_gaps import GAPS, Gap

torch = pytorch()
pytest.importorskip("expecttest")  # torch.testing._internal needs it

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from conformance.columns import Comparison, Outcome
    from conformance.database import ENTRIES, FUNCTIONS

pytestmark = pytest.mark.oracle

GROUPS = {
    "float": (torch.float32, torch.bfloat16),
    "integral": (torch.int64, torch.bool),
    "complex": (torch.complex64,),
    "gradient": (torch.float64, torch.complex128),
    "errors": (),
}
SAMPLES = 3  # of each dtype


def compared(name: str, group: str, count: int | None) -> Outcome:
    """One entry of the database in both libraries, in a group of dtypes."""
    comparison = Comparison(name, count)
    if group == "errors":
        comparison.column_errors()
    for dtype in GROUPS[group]:
        for sample in comparison.samples(dtype, group == "gradient"):
            if group == "gradient":
                comparison.attempt(sample, "", comparison.gradients)
            else:
                comparison.attempt(sample, "", comparison.function)
                comparison.forms(sample)
    return comparison.outcome


# -- tests ------------------------------------------------------------------------------------------------------------------
def has_group(name: str, group: str) -> bool:
    entry = ENTRIES[name]
    if group == "errors":
        return entry.error_inputs_func is not None
    if group == "gradient":
        return entry.supports_autograd
    return any(dtype in entry.supported_dtypes("cpu") for dtype in GROUPS[group])


def known(name: str, group: str) -> list[Gap]:
    return [gap for gap in GAPS.get(name, ()) if group in (gap.groups or GROUPS)]


CASES = [(name, group) for name in FUNCTIONS for group in GROUPS if has_group(name, group)]


@pytest.mark.parametrize(("name", "group"), CASES, ids=[f"{name}-{group}" for name, group in CASES])
def test_agrees_with_the_database(name: str, group: str) -> None:
    mismatches, gaps = compared(name, group, SAMPLES).mismatches, known(name, group)
    unexpected = [mismatch for mismatch in mismatches if not any(re.search(gap.pattern, str(mismatch)) for gap in gaps)]
    assert not unexpected, "\n".join(map(str, unexpected)) + f"\nall of it: python -m tests.test_op_db '{name}'"
    stale = [gap for gap in gaps if gap.groups and not any(re.search(gap.pattern, str(mismatch)) for mismatch in mismatches)]
    assert not stale, f"no longer true, remove from op_db_gaps.GAPS[{name!r}]: {stale}"


def test_gaps_name_operations_that_exist() -> None:
    unknown = sorted(set(GAPS) - set(FUNCTIONS))
    assert not unknown, f"not in PyTorch's database, or not in flambeau: {unknown}"
    assert all(gap.groups and set(gap.groups) <= set(GROUPS) and gap.reason for gaps in GAPS.values() for gap in gaps)


# -- by hand ----------------------------------------------------------------------------------------------------------------
def chosen(patterns: list[str]) -> Iterator[str]:
    for pattern in patterns:
        names = [n for n in ENTRIES if fnmatch.fnmatchcase(n, pattern) or ENTRIES[n].name == pattern]
        names = names or [n for n in ENTRIES if ENTRIES[n].name.rpartition(".")[2] == pattern]
        if not names:
            print(f"{pattern}: no such operation in PyTorch's database")
        yield from names


def report(name: str, groups: list[str], few: bool, limit: int) -> int:
    if name not in FUNCTIONS:
        print(f"{name}: flambeau has no such name")
        return 0
    total = 0
    for group in groups:
        try:
            outcome = compared(name, group, SAMPLES if few else None)
        except Exception as problem:  # a sample that the converter or the comparison cannot digest
            print(f"{name} [{group}] the comparison itself failed: {problem!r}")
            total += 1
            continue
        mismatches = outcome.mismatches
        total += len(mismatches)
        if limit:
            print(f"{name} [{group}] {outcome.agreed} comparisons agree, {len(mismatches)} mismatches")
        elif mismatches:
            print(f"{name} [{group}] {len(mismatches)}: {mismatches[0]}")
        for mismatch in mismatches[:limit]:
            print(f"    {mismatch}")
        if limit and len(mismatches) > limit:
            print(f"    and {len(mismatches) - limit} more")
    return total


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.test_op_db", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names in PyTorch's database, or patterns")
    parser.add_argument("--all", action="store_true", help="a line for each operation and group with mismatches")
    parser.add_argument("--group", action="append", choices=GROUPS, help="only these groups")
    parser.add_argument("--few", action="store_true", help="the few samples that the tests take")
    parser.add_argument("--limit", type=int, default=20, help="mismatches shown for an operation and group")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    groups = options.group or list(GROUPS)
    if options.all or not options.names:
        totals = {name: report(name, groups, True, 0) for name in FUNCTIONS}
        missing = sorted(set(ENTRIES) - set(FUNCTIONS))
        print(f"{sum(not n for n in totals.values())} of {len(totals)} operations agree; {len(missing)} are lacking: {' '.join(missing)}")
        return 0
    counts = [report(name, groups, options.few, options.limit) for name in chosen(options.names)]
    return int(any(counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
