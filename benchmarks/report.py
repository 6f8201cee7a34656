"""Tables on the terminal, and the sections of docs/benchmarks.md that the benchmarks write."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(header), "| " + " | ".join(rule) + " |", *map(line, rows)])


def machine() -> str:
    """The processor, the number of cores and the versions that a figure depends on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.MULTILINE)
        model = match.group(1) if match else model
    versions = [f"Python {platform.python_version()}"]
    for name, package in (("NumPy", "numpy"), ("PyTorch", "torch")):
        try:
            versions.append(f"{name} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{model}, {os.cpu_count()} cores; {', '.join(versions)}"


def write_section(name: str, text: str, page_path: Path | None = None) -> None:
    """Put ``text`` between the markers of section ``name`` of a page, docs/benchmarks.md at first; a missing section goes to the end."""
    path = page_path or PAGE
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = path.read_text() if path.exists() else f"# {path.stem.capitalize()}\n"
    if begin not in page:
        page = f"{page.rstrip()}\n\n## {name.capitalize()}\n\n{begin}\n{end}\n"
    head, rest = page.split(begin)
    tail = rest.split(end)[1]
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}")
    print(f"wrote the section {name!r} of {path}")
