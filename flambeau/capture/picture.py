"""Pictures of a graph: as text and as SVG, with shapes, groups, memory, and after a timed run the time of each node.

#  what                    result             from    memory    at       us
0  linear                  float32 8x32       x h0 h1     1 KB   0 KB     1.2
1  relu+mul                float32 8x32       0           1 KB   1 KB     0.4   one kernel
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .driver import Plan, Step
from .graph import Graph, Node, Value
from .lowering import Lowered

__all__ = ["Picture", "Timed", "svg", "text", "times_of"]

_COLOURS = {"op": "#dbe9f6", "group": "#d9f2d9", "call": "#fde3c8", "write": "#f8d7e3"}
_WIDTH, _HEIGHT, _GAP = 168, 46, 26  # pixels: of a node, and between nodes
_LONGEST = 24  # letters of a node's first line


def text(target: Graph | Lowered, times: dict[Node, float] | None = None) -> str:
    """A graph as a table with a row for each node; views are left out, and who reads one reads what it shows.

    Args:
        target: a graph, or its lowered function, which also knows where values lie.
        times: seconds of nodes, as ``times_of`` gives them.
    """
    return Picture(target, times).text()


def svg(target: Graph | Lowered, times: dict[Node, float] | None = None) -> str:
    """A graph as a drawing, what is computed first at the top; the arguments are those of ``text``."""
    return Picture(target, times).svg()


def times_of(run: Lowered, arrays: Sequence[np.ndarray], calls: int = 5) -> dict[Node, float]:
    """Seconds of each node of a lowered graph: the least of some calls in which every launch runs by itself.

    Args:
        run: what it writes to (parameters, running statistics) is written by each of these calls.
        arrays: the inputs.
    """
    timed = Timed(run)
    while timed.calls < calls:
        timed(arrays)
    return timed.times


class Timed:
    """A lowered graph that notes the time of each node: called like it, it runs every launch by itself.

    Args:
        run: the graph; its first calls, which make the plan, are not timed.
    Attributes:
        calls: those that were timed.
    """

    def __init__(self, run: Lowered):
        self.run, self.calls = run, 0
        self._plan: Plan | None = None
        self._least: list[float] = []

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if self.run.plan is None:
            return self.run(arrays)
        if self._plan is None:
            self._plan = self.run.plan.separate()
        outputs: list[np.ndarray] = self._plan.run(arrays)
        taken = [after - before for before, after in pairwise(self._plan.marks)]
        self._least = [min(pair) for pair in zip(self._least, taken, strict=True)] if self._least else taken
        self.calls += 1
        return outputs

    @property
    def times(self) -> dict[Node, float]:
        """Seconds of each node, the least of all calls."""
        found: dict[Node, float] = {}
        plan = self._plan
        if plan is None:
            return found
        group_of = {member: node for node in self.run.graph.nodes for member in node.members}
        for step, seconds in zip(plan.order, self._least, strict=True):
            node = _node_of(plan, step)
            node = group_of.get(node, node)
            if node is not None:
                found[node] = found.get(node, 0.0) + seconds
        return found


def _node_of(plan: Plan, step: int | Step) -> Any:
    """The node of a step of a plan whose launches run by themselves; None of the empty list that such a plan may begin with."""
    if isinstance(step, Step):
        return step.node
    launches = plan.segments[step].launches
    return launches[0].node if launches else None


class Picture:
    """The nodes of a graph but for views, with what they read, memory and times."""

    def __init__(self, target: Graph | Lowered, times: dict[Node, float] | None = None):
        self.graph = target.graph if isinstance(target, Lowered) else target
        self.plan = target.plan if isinstance(target, Lowered) else None
        self.times = times or {}
        self.nodes = [node for node in self.graph.nodes if node.kind != "view"]
        self.number = {node: i for i, node in enumerate(self.nodes)}
        self.names = self.graph.names()
        self.shown = {node.outs[0]: node.args[0] for node in self.graph.nodes if node.kind == "view"}
        self.maker = {out: node for node in self.nodes for out in node.outs}
        self.offsets = self._offsets()

    def _offsets(self) -> dict[Node, int]:
        """Bytes from the beginning of the arena to what each node's last launch names last there."""
        found: dict[Node, int] = {}
        for segment in self.plan.segments if self.plan is not None else ():
            for launch in segment.launches:
                places = [memory.offset + offset for _, memory, offset in launch.headers if memory.kind == "arena"]
                if places and launch.node is not None:
                    found[launch.node] = places[-1]
        return found

    def read(self, node: Node) -> list[Value]:
        """The values that a node reads, views as what they show, each once."""
        values = []
        for value in node.inputs():
            while value in self.shown:
                value = self.shown[value]
            values.append(value)
        return list(dict.fromkeys(values))

    def sources(self, node: Node) -> list[str]:
        """The numbers of the nodes that a node reads, and the names of inputs and held values."""
        return [str(self.number[self.maker[value]]) if value in self.maker else self.names.get(value, "?") for value in self.read(node)]

    def bytes_of(self, node: Node) -> int:
        """Bytes of new memory that a node's results take."""
        return 0 if node.kind == "write" else sum(out.nbytes for out in node.outs[: len(node.outs) - len(node.writes)])

    # -- text -----------------------------------------------------------------------------------------------------------------------------
    def text(self) -> str:
        """The table."""
        header = ["#", "what", "result", "from", "memory", "at", "us", ""]
        rows = [header, *[self._row(node) for node in self.nodes]]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        right = (0, 4, 5, 6)
        lines = [
            "  ".join(
                cell.rjust(width) if i in right else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([line.rstrip() for line in lines] + [self._closing()])

    def _row(self, node: Node) -> list[str]:
        seconds = self.times.get(node)
        return [
            str(self.number[node]),
            _shortened(node.label, 40),
            ", ".join(_described(out) for out in node.outs[:3]) + (", ..." if len(node.outs) > 3 else ""),
            _shortened(" ".join(self.sources(node)), 30),
            _size(self.bytes_of(node)),
            _size(self.offsets[node]) if node in self.offsets else "",
            f"{seconds * 1e6:.1f}" if seconds is not None else "",
            "one kernel" if node.kind == "group" else node.kind if node.kind != "op" else "",
        ]

    def _closing(self) -> str:
        parts = [f"{len(self.nodes)} nodes", f"{_size(sum(map(self.bytes_of, self.nodes)))} of values"]
        if self.plan is not None:
            parts.append(f"an arena of {_size(self.plan.arena_bytes)}")
            parts.append(f"{sum(len(segment.launches) for segment in self.plan.segments)} launches")
            python = [step for step in self.plan.order if not isinstance(step, int) and step.computes]
            parts.append(f"{len(python)} steps of Python")
        if self.times:
            parts.append(f"{sum(self.times.values()) * 1e6:.0f} us")
        return ", ".join(parts)

    # -- SVG ------------------------------------------------------------------------------------------------------------------------------
    def svg(self) -> str:
        """The drawing."""
        places = self._laid_out()
        width = max((x for x, _ in places.values()), default=0) + _WIDTH + _GAP
        height = max((y for _, y in places.values()), default=0) + _HEIGHT + 2 * _GAP
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" font-family="monospace" font-size="10.5">',
            '<rect width="100%" height="100%" fill="white"/>',
        ]
        for node in self.nodes:
            lines += [_edge(places[self.maker[value]], places[node]) for value in self.read(node) if value in self.maker]
        most = max(self.times.values(), default=0.0)
        for node in self.nodes:
            lines += self._box(node, *places[node], self.times.get(node, 0.0) / most if most else 0.0)
        lines += [f'<text x="{_GAP}" y="{height - 8:.0f}" fill="#555">{html.escape(self._closing())}</text>', "</svg>"]
        return "\n".join(lines)

    def _laid_out(self) -> dict[Node, tuple[float, float]]:
        """The corner of each node: rows by the longest way from the inputs, in a row near to what is read."""
        depth: dict[Node, int] = {}
        for node in self.nodes:
            depth[node] = max([depth[self.maker[value]] + 1 for value in self.read(node) if value in self.maker], default=0)
        rows: dict[int, list[Node]] = {}
        for node in self.nodes:
            rows.setdefault(depth[node], []).append(node)
        column: dict[Node, float] = {}
        for level in sorted(rows):
            wanted = {node: self._middle(node, column) for node in rows[level]}
            for i, node in enumerate(sorted(rows[level], key=wanted.__getitem__)):
                column[node] = i
        return {node: (_GAP + column[node] * (_WIDTH + _GAP), _GAP + depth[node] * (_HEIGHT + _GAP)) for node in self.nodes}

    def _middle(self, node: Node, column: dict[Node, float]) -> float:
        above = [column[self.maker[value]] for value in self.read(node) if value in self.maker]
        return sum(above) / len(above) if above else float(self.number[node])

    def _box(self, node: Node, x: float, y: float, share: float) -> list[str]:
        seconds = self.times.get(node)
        first = f"{self.number[node]} {_shortened(node.label, _LONGEST - 4)}"
        second = _shortened(", ".join(_described(out) for out in node.outs[:1]), _LONGEST)
        third = " ".join(filter(None, (_size(self.bytes_of(node)), f"{seconds * 1e6:.1f} us" if seconds is not None else "")))
        title = html.escape(
            "\n".join([node.label, *[f"{member.label}" for member in node.members], "from " + " ".join(self.sources(node))])
        )
        lines = [f"<g><title>{title}</title>"]
        colour, size = _COLOURS.get(node.kind, "#eee"), f'width="{_WIDTH}" height="{_HEIGHT}"'
        lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} rx="4" fill="{colour}" stroke="#777"/>')
        if share:
            lines.append(f'<rect x="{x:.1f}" y="{y + _HEIGHT - 4:.1f}" width="{share * _WIDTH:.1f}" height="4" fill="#d9534f"/>')
        for i, line in enumerate((first, second, third)):
            lines.append(f'<text x="{x + 5:.1f}" y="{y + 13 + 13 * i:.1f}">{html.escape(line)}</text>')
        return [*lines, "</g>"]


def _edge(above: tuple[float, float], below: tuple[float, float]) -> str:
    x, y = above[0] + _WIDTH / 2, above[1] + _HEIGHT
    u, v = below[0] + _WIDTH / 2, below[1]
    half = (y + v) / 2
    return f'<path d="M{x:.1f} {y:.1f}C{x:.1f} {half:.1f} {u:.1f} {half:.1f} {u:.1f} {v:.1f}" fill="none" stroke="#aaa"/>'


def _described(value: Value) -> str:
    return f"{value.dtype.name} {'x'.join(map(str, value.shape)) or 'number'}"


def _shortened(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 3] + "..."


def _size(count: int) -> str:
    return f"{count} B" if count < 1 << 10 else f"{count / (1 << 10):.0f} KB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MB"
