"""A chart of memory over time as a page of HTML: one stacked area for each category, drawn in SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence

_COLOURS = ("#1b5e20", "#ffb300", "#212121", "#8e24aa", "#c62828", "#1565c0", "#4fc3f7", "#9e9e9e")
_LEFT, _TOP, _RIGHT, _BOTTOM = 90, 40, 190, 50  # pixels around the chart
_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def page(times: Sequence[int], sizes: Sequence[Sequence[int]], names: Sequence[str], title: str, pixels: tuple[int, int]) -> str:
    """The page.

    Args:
        times: microseconds, rising. sizes: bytes of each category at each of them. names: of the categories.
        title: above the chart. pixels: width and height.
    """
    chart = _svg(times, sizes, names, html.escape(title), *pixels)
    head = f'<head><meta charset="utf-8" /><title>{html.escape(title)}</title></head>'
    return f"<!DOCTYPE html>\n<html>\n{head}\n<body>\n{chart}\n</body>\n</html>\n"


def _svg(times: Sequence[int], sizes: Sequence[Sequence[int]], names: Sequence[str], title: str, width: int, height: int) -> str:
    across, down = max(width - _LEFT - _RIGHT, 100), max(height - _TOP - _BOTTOM, 100)
    most = max((sum(row) for row in sizes), default=0)
    first, last = (times[0], times[-1]) if times else (0, 0)
    span, unit = max(last - first, 1), max(most, 1)
    columns = [round(_LEFT + across * (time - first) / span, 1) for time in times]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">']
    parts.append(f'<text x="{_LEFT}" y="24" font-size="16">{title}; at most {_bytes(most)}</text>')
    below = [0] * len(times)
    for place, name in enumerate(names):
        above = [low + row[place] for low, row in zip(below, sizes, strict=True)]
        colour = _COLOURS[place % len(_COLOURS)]
        if above != below:
            parts.append(f'<path fill="{colour}" d="{_area(columns, below, above, down / unit, _TOP + down, _LEFT + across)}"/>')
        y = _TOP + 18 * place
        parts.append(f'<rect x="{_LEFT + across + 16}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + across + 34}" y="{y + 11}">{html.escape(name)}</text>')
        below = above
    parts.append(f'<path fill="none" stroke="#000" d="M{_LEFT} {_TOP}V{_TOP + down}H{_LEFT + across}"/>')
    for part in range(5):
        level, x = _TOP + down - down * part / 4, _LEFT + across * part / 4
        parts.append(f'<text x="{_LEFT - 8}" y="{level + 4:.0f}" text-anchor="end">{_bytes(most * part // 4)}</text>')
        parts.append(f'<text x="{x:.0f}" y="{_TOP + down + 20}" text-anchor="middle">{span * part / 4000:.3f} ms</text>')
    return "\n".join([*parts, "</svg>"])


def _area(columns: Sequence[float], below: Sequence[int], above: Sequence[int], scale: float, floor: int, right: float) -> str:
    """The outline of what lies between two lines of steps: a value holds until the next time."""

    def steps(values: Sequence[int]) -> list[tuple[float, float]]:
        ends = [*columns[1:], right]
        return [(x, floor - value * scale) for pair, value in zip(zip(columns, ends, strict=True), values, strict=True) for x in pair]

    outline = steps(above) + steps(below)[::-1]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in outline) + "Z"


def _bytes(size: int) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
