"""Events of a profile as a table: one column each for what there is to say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

_WIDTH = 12  # of a column of numbers
_GAP = "  "
_UNITS = {"s": 1e6, "ms": 1e3}
_PREFIXES = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def format_time(time_us: float, unit: str | None = None) -> str:
    """Microseconds as text, in seconds, milliseconds or microseconds."""
    if unit is None:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return f"{time_us / _UNITS[unit]:.3f}{unit}" if unit in _UNITS else f"{time_us:.3f}us"


def format_time_share(time_us: float, total_time_us: float) -> str:
    """A part of a time in per cent; NaN of nothing.

    Raises:
        AssertionError: a part of no time at all.
    """
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {time_us}")
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def format_memory(nbytes: int) -> str:
    """Bytes as text."""
    for power, name in ((3, "GB"), (2, "MB"), (1, "KB")):
        unit = 1024**power
        if abs(nbytes) >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes} B"


def attribute_of(metric: str) -> str:
    """The attribute that has a metric, which PyTorch's users also name by their device: ``cuda_time_total``."""
    return metric.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")


class _Column:
    """A column: its title, its cells, and how wide it is."""

    def __init__(self, title: str, cell: Callable[[Any], str], width: int = _WIDTH, left: bool = False):
        self.title, self.cell, self.width, self.left = title, cell, width, left

    def shown(self, text: str) -> str:
        return (text.ljust(self.width) if self.left else text.rjust(self.width)) + _GAP


def _fitted(texts: Sequence[str], most: int | None) -> int:
    """Width of a column for texts of different lengths."""
    width = max(map(len, texts)) + 4
    return width if most is None else min(width, most)


def _flops_column(events: Sequence[Any]) -> _Column | None:
    """The column of arithmetic, in the largest unit in which no event has less than one; None where there is none."""
    counts = [event.flops for event in events if event.flops is not None and event.flops > 0]
    if not counts:
        return None
    power = max(0, min(int(math.log10(min(counts)) / 3), len(_PREFIXES) - 1))
    return _Column(f"Total {_PREFIXES[power]}", lambda event: f"{event.flops * 1000.0**-power:8.3f}" if event.flops else "--")


def _columns(
    events: Sequence[Any], widths: tuple[int, int, int], profile_memory: bool, with_flops: bool, unit: str | None
) -> list[_Column]:
    total = sum(event.self_cpu_time_total for event in events)
    names = [str(event.key) for event in events]
    width = _fitted(names, widths[0])

    def name(event: Any) -> str:
        key = str(event.key)
        return key if len(key) < widths[0] - 3 else key[: widths[0] - 3] + "..."

    def share(attribute: str) -> Callable[[Any], str]:
        return lambda event: "0.00%" if event.is_async else format_time_share(getattr(event, attribute), total)

    def time(attribute: str) -> Callable[[Any], str]:
        return lambda event: format_time(getattr(event, attribute), unit)

    columns = [
        _Column("Name", name, width),
        _Column("Self CPU %", share("self_cpu_time_total")),
        _Column("Self CPU", time("self_cpu_time_total")),
        _Column("CPU total %", share("cpu_time_total")),
        _Column("CPU total", time("cpu_time_total")),
        _Column("CPU time avg", time("cpu_time")),
    ]
    if profile_memory:
        columns.append(_Column("CPU Mem", lambda event: format_memory(event.cpu_memory_usage)))
        columns.append(_Column("Self CPU Mem", lambda event: format_memory(event.self_cpu_memory_usage)))
    columns.append(_Column("# of Calls", lambda event: str(event.count)))
    if any(event.node_id != -1 for event in events):
        columns.append(_Column("Node ID", lambda event: str(event.node_id)))
    if any(event.input_shapes for event in events):
        shapes = _fitted([str(event.input_shapes) for event in events], widths[1])
        columns.append(_Column("Input Shapes", lambda event: str(event.input_shapes)[:shapes], shapes))
    if with_flops and (flops := _flops_column(events)) is not None:
        columns.append(flops)
    if any(event.stack for event in events):
        source = _fitted([entry for event in events for entry in event.stack or ()], widths[2])
        columns.append(_Column("Source Location", lambda event: _source(event.stack[0], source) if event.stack else "", source, True))
    return columns


def _source(entry: str, width: int) -> str:
    return entry if len(entry) <= width else "..." + entry[3 - width :]


def table_of(
    events: Sequence[Any],
    sort_by: str | None,
    row_limit: int,
    header: str | None,
    widths: tuple[int, int, int],
    profile_memory: bool,
    with_flops: bool,
    top_level_events_only: bool,
    unit: str | None,
) -> str:
    """The table of events, or of averages of them.

    Args:
        widths: at most, of the names', the shapes' and the stacks' columns. unit: of times; see ``format_time``.
    """
    if not events:
        return ""
    ordered = list(events)
    if sort_by is not None:
        ordered.sort(key=attrgetter(attribute_of(sort_by)), reverse=True)
    columns = _columns(events, widths, profile_memory, with_flops, unit)
    line = _GAP.join("-" * column.width for column in columns) + _GAP
    lines, rule = [], "=" * (len(line) - len(_GAP))
    if header is not None:
        lines += [rule, header]
    if top_level_events_only:
        lines += [rule, "This report only display top-level ops statistics"]
    lines += [line, "".join(column.shown(column.title) for column in columns), line]
    shown = [event for event in ordered if not (top_level_events_only and event.cpu_parent is not None)]
    for event in shown if row_limit < 0 else shown[:row_limit]:
        lines.append("".join(column.shown(column.cell(event)) for column in columns))
        if columns[-1].left:
            rest = [_source(entry, columns[-1].width) for entry in (event.stack or ())[1:5]]
            lines += ["".join(column.shown("") for column in columns[:-1]) + columns[-1].shown(text) for text in (*rest, "")]
    total = sum(event.self_cpu_time_total for event in events)
    return "\n".join([*lines, line, f"Self CPU time total: {format_time(total, unit)}"]) + "\n"
