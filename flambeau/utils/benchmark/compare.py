"""Tables of measurements."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from typing import Any

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

BEST, GOOD, BAD, VERY_BAD = "\033[92m\033[1m", "\033[34m\033[1m", "\033[2m\033[91m", "\033[31m\033[1m"
END = "\033[0m\033[0m"


class Colorize(enum.Enum):
    """The scope in which a table's best time is looked for.

    Source: torch.utils.benchmark.Colorize.
    Example:
        >>> [choice.name for choice in torch.utils.benchmark.Colorize]
        ['NONE', 'COLUMNWISE', 'ROWWISE']
    """

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Tables of measurements: one for each label, a row for each sub-label, a column for each description.

    Args:
        results: measurements by ``Timer``; the same task may be there several times.
    Source: torch.utils.benchmark.Compare.
    Example:
        >>> from flambeau.utils.benchmark import Compare, Measurement, TaskSpec
        >>> task = TaskSpec("x + x", "pass", label="sums", description="flambeau")
        >>> table = str(Compare([Measurement(1, [2e-6, 2e-6], task)]))
        >>> "sums" in table, "flambeau" in table, "2.0" in table
        (True, True, True)
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trims = False
        self._colors = Colorize.NONE
        self._warns = False

    def __str__(self) -> str:
        return "\n".join(self._render())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements.

        Args:
            results: measurements.
        Raises:
            ValueError: something else.
        Source: torch.utils.benchmark.Compare.extend_results.
        """
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results += results

    def trim_significant_figures(self) -> None:
        """Print no more digits than mean something."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Print times in colours, by how they compare with the best of their column, or of their row."""
        self._colors = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Say behind a time how far the quartiles lie apart where that is far."""
        self._warns = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def _render(self) -> list[str]:
        groups: dict[Any, list[Measurement]] = {}
        for result in Measurement.merge(self._results):
            groups.setdefault(result.task_spec.label, []).append(result)
        return [self._table(label, results) for label, results in groups.items()]

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(result.median for result in results))
        columns = ordered_unique(result.task_spec.description for result in results)
        several = len({result.task_spec.env for result in results}) > 1
        rows = ordered_unique((result.task_spec.num_threads, result.task_spec.env, result.as_row_name) for result in results)
        rows.sort(key=lambda row: row[0])
        cells = {(r.task_spec.num_threads, r.task_spec.env, r.as_row_name, r.task_spec.description): r for r in results}

        def row_name(row: Any) -> str:
            return f"      {f'({row[1]}) ' if several and row[1] is not None else ''}{row[2]}"

        grid = [[cells.get((*row, column)) for column in columns] for row in rows]
        texts = [self._texts([line[index] for line in grid], scale) for index in range(len(columns))]
        widths = [max(len(column or ""), *map(len, texts[index])) for index, column in enumerate(columns)]
        left = max(len(row_name(row)) for row in rows)
        lines = ["  |  ".join([" " * left, *[(column or "").center(width) for column, width in zip(columns, widths, strict=True)]])]
        threads = None
        for number, row in enumerate(rows):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ")
            parts = []
            for index, width in enumerate(widths):
                group = [line[index] for line, other in zip(grid, rows, strict=True) if other[0] == threads]
                peers = grid[number] if self._colors is Colorize.ROWWISE else group
                parts.append(self._colored(texts[index][number].center(width), grid[number][index], peers))
            lines.append("  |  ".join([row_name(row).ljust(left), *parts]))
        length = left + sum(width + 5 for width in widths)
        lines = [line + "-" * (length - len(line)) if line.endswith(" threads: ") else line for line in lines]
        title = f"[{f' {label} '.center(length - 2, '-')}]" if label else f"[{'-' * (length - 2)}]"
        notes = [f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._warns and any(result.has_warnings for result in results):
            notes.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([title, *lines, "", *notes, ""])

    def _texts(self, results: list[Measurement | None], scale: float) -> list[str]:
        """The cells of a column, all with as many decimals as the least exact one has."""
        decimals = 1
        if self._trims:
            places = [result.significant_figures - math.ceil(math.log10(result.median / scale)) for result in results if result]
            decimals = max(min([1, *places]), 0)
        texts = []
        for result in results:
            if result is None:
                texts.append("")
                continue
            value = result.median / scale
            texts.append(f"{trim_sigfig(value, result.significant_figures) if self._trims else value:.{decimals}f}")
        texts = [text.rjust(max(map(len, texts))) if text else "" for text in texts]
        if self._warns:
            pairs = zip(texts, results, strict=True)
            texts = [text + (f" (! {100 * r.iqr / r.median:.0f}%)" if r and r.has_warnings else "") for text, r in pairs]
        return [text.ljust(max(map(len, texts))) if text else "" for text in texts]

    def _colored(self, text: str, result: Measurement | None, peers: list[Measurement | None]) -> str:
        if result is None or self._colors is Colorize.NONE:
            return text
        ratio = result.median / min(peer.median for peer in peers if peer is not None)
        color = BEST if ratio <= 1.02 else GOOD if ratio <= 1.1 else VERY_BAD if ratio >= 5 else BAD if ratio >= 2 else None
        return text if color is None else f"{color}{text}{END}"
