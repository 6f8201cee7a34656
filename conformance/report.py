"""Shares of the entries that pass, the JSON report, and the page with a row for each entry."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .columns import COLUMNS, Outcome
from .exclusions import EXCLUDED

PAGE = Path(__file__).parent.parent / "docs" / "conformance.md"
# Which share of the entries has to pass, in percent.
ASKED = {"forward": 99, "forms": 99, "gradient": 98, "second": 97, "out": 97, "aliases": 98, "errors": 93, "dtypes": 97}
SHOWN = 3  # mismatches of a column of an entry that the JSON report keeps
TITLES = {"forms": "method, in place", "second": "second gradient", "out": "out=", "errors": "error inputs", "dtypes": "every dtype"}


def summary(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON has it."""
    facts: dict[str, Any] = {"passes": outcome.passes, "agreed": outcome.agreed, "differ": len(outcome.mismatches)}
    if outcome.messages:
        facts["messages"] = outcome.messages
    if outcome.skipped:
        facts["skipped"] = outcome.skipped
    if outcome.mismatches:
        facts["first"] = [str(mismatch) for mismatch in outcome.mismatches[:SHOWN]]
    elif outcome.passes is False:
        facts["first"] = ["nothing that could be compared"]
    return facts


def shares(entries: dict[str, dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """By column: how many entries pass, of how many that have something to compare."""
    counted = {}
    for column in COLUMNS:
        verdicts = [columns[column]["passes"] for columns in entries.values() if column in columns]
        counted[column] = verdicts.count(True), len(verdicts) - verdicts.count(None)
    return counted


def messages(entries: dict[str, dict[str, Any]]) -> tuple[int, int]:
    """Of how many error inputs the message fits PyTorch's too, and how many there are."""
    errors = [columns["errors"] for columns in entries.values() if "errors" in columns]
    return sum(facts.get("messages", 0) for facts in errors), sum(facts["agreed"] + facts["differ"] for facts in errors)


def percent(passed: int, total: int) -> str:
    return f"{100 * passed / total:.1f} %" if total else "-"


def summary_lines(entries: dict[str, dict[str, Any]]) -> Iterable[str]:
    for column, (passed, total) in shares(entries).items():
        verdict = "" if enough(column, passed, total) else "   BELOW"
        yield f"{TITLES.get(column, column):18} {passed:4} of {total:4}  {percent(passed, total):>8}  asked {ASKED[column]} %{verdict}"
    fitting, total = messages(entries)
    yield f"{'  messages':18} {fitting:4} of {total:4}  {percent(fitting, total):>8}"


def enough(column: str, passed: int, total: int) -> bool:
    return 100 * passed >= ASKED[column] * total


def report(entries: dict[str, dict[str, Any]], facts: dict[str, Any]) -> str:
    """The JSON report."""
    counted = {
        column: {"passed": passed, "of": total, "asked": ASKED[column], "enough": enough(column, passed, total)}
        for column, (passed, total) in shares(entries).items()
    }
    fitting, total = messages(entries)
    counted["errors"]["messages"] = {"passed": fitting, "of": total}
    return json.dumps({**facts, "shares": counted, "excluded": EXCLUDED, "entries": entries}, indent=1) + "\n"


def page(entries: dict[str, dict[str, Any]], facts: dict[str, Any]) -> str:
    """The text of docs/conformance.md."""
    titles = [TITLES.get(column, column) for column in COLUMNS]
    parts = [
        "<!-- Written by `python -m conformance --write`; do not edit. -->\n\n# Conformance\n",
        f"flambeau beside PyTorch {facts['pytorch']}, over {len(entries)} public entries of PyTorch's own database of operations.\n"
        "An entry passes a column when all that is compared agrees; where there is nothing to compare, the column is empty.\n",
        table(
            ("column", "what agrees", "entries", "share", "asked"),
            [
                (TITLES.get(column, column), COLUMNS[column], f"{passed} of {total}", percent(passed, total), f"{ASKED[column]} %")
                for column, (passed, total) in shares(entries).items()
            ],
        ),
        "Of {} error inputs, {} have a message that fits PyTorch's too.\n".format(*messages(entries)[::-1]),
        "Left out:\n",
        "".join(f"- `{name}`: {reason}\n" for name, reason in EXCLUDED.items()),
        "## Entries\n",
        "*yes*, or of how many comparisons some differ; behind it, what differs first.\n",
        table(("entry", *titles, "differs"), [row(name, columns) for name, columns in entries.items()]),
    ]
    return "\n".join(parts)


def row(name: str, columns: dict[str, Any]) -> tuple[str, ...]:
    cells, differs = [], ""
    for column in COLUMNS:
        facts = columns.get(column, {"passes": None})
        count = facts.get("differ", 0)
        cells.append("" if facts["passes"] is None else "yes" if facts["passes"] else f"{count} of {count + facts['agreed']}")
        if facts.get("first") and not differs:
            differs = f"`` {facts['first'][0][:200]} ``".replace("|", "\\|").replace("\n", " ")
    return (f"`{name}`", *cells, differs)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
