"""A module's graph as a picture: boxes for layers and operations, from top to bottom, lines for the tensors between them. Plain SVG."""

from __future__ import annotations

import html
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ..autograd import no_grad
from ..core.replacing import replace_file
from ..nn import Module
from ._forward_graph import Node, evaluating, trace_forward
from .model_summary import inputs_of

__all__ = ["GraphDrawing", "draw_graph"]

LETTER, LINE, MARGIN = 7.0, 15.0, 8.0  # pixels: width of a letter, height of a line, room around text and picture
GAP_ACROSS, GAP_DOWN = 24.0, 34.0
SWEEPS = 8
COLORS = {"input": "#d9e8fb", "output": "#d9e8fb", "layer": "#dff0d8", "operation": "#fdf3d8", "constant": "#eeeeee"}


@dataclass(slots=True, eq=False)
class Box:
    """A box of the picture, or, without lines of text, the place where a long line passes a row."""

    kind: str
    lines: list[str] = field(default_factory=list)
    tip: str = ""
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)
    row: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max((len(line) for line in self.lines), default=0) * LETTER + 2 * MARGIN if self.lines else 2.0

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + MARGIN


class GraphDrawing(str):
    """An SVG document; a notebook shows it as a picture.

    Source: torchview, whose pictures of PyTorch's modules it is like.
    Example:
        >>> GraphDrawing("<svg/>")._repr_svg_()
        '<svg/>'
    """

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the document to a file."""
        replace_file(path, lambda file: file.write(self.encode()))


def draw_graph(
    model: Module, input_size: Any = None, input_data: Any = None, dtypes: Any = None, device: Any = None, depth: int | None = None
) -> GraphDrawing:
    """Draw what a module computes, from one forward pass without gradients in evaluation mode.

    A module that calls no other is one box, with the shape of its result; operations outside of such modules have a box each.

    Args:
        model: the module; its mode is afterwards what it was.
        input_size, input_data, dtypes, device: the arguments, as in :func:`flambeau.utils.summary`.
        depth: modules so far below ``model`` are one box, whatever they call: 1 draws its children. None draws down to the last.
    Returns:
        The document, a string that notebooks show as a picture and that has a method ``save(path)``.
    Raises:
        ValueError: neither ``input_size`` nor ``input_data``, or both; a depth below 1.
    Source: torchview, which draws such pictures of PyTorch's modules.
    Example:
        >>> picture = torch.utils.draw_graph(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), (2, 4))
        >>> picture.startswith("<svg"), "Linear" in picture
        (True, True)
    """
    if depth is not None and depth < 1:
        raise ValueError(f"draw_graph: expected a depth of 1 or more, got {depth}")
    arguments = inputs_of(model, input_size, input_data, dtypes, device)
    with evaluating(model), no_grad():
        nodes, _ = trace_forward(model, arguments)
    return GraphDrawing(_document(_placed(_boxes(nodes, depth)), type(model).__name__))


# -- boxes ------------------------------------------------------------------------------------------------------------------
def _boxes(nodes: Sequence[Node], depth: int | None) -> list[Box]:
    """A box for each step or layer, joined by what they take, in an order in which nothing comes before what it takes."""
    inner = {call for node in nodes for call in node.calls[:-1]}  # calls that hold others

    def key(place: int) -> Any:
        node = nodes[place]
        if node.kind != "operation":
            return place
        for level, call in enumerate(node.calls):
            if level > 0 and (level == depth or call not in inner):
                return ("layer", call)
        return place

    boxes: dict[Any, Box] = {}
    for place, node in enumerate(nodes):
        if node.kind in ("parameter", "buffer"):
            continue
        box = boxes.get(key(place))
        if box is None:
            box = boxes[key(place)] = _box_of(node, key(place))
        if isinstance(key(place), tuple):
            box.lines[1:] = _shape_lines(node)  # the last step's
        for source, _ in node.inputs:
            if nodes[source].kind not in ("parameter", "buffer"):
                before = boxes[key(source)]
                if before is not box and before not in box.above:
                    box.above.append(before)
                    before.below.append(box)
    return sorted(boxes.values(), key=lambda box: box.kind != "constant")  # a layer may come before what it takes of these


def _box_of(node: Node, key: Any) -> Box:
    if isinstance(key, tuple):
        level = node.calls.index(key[1])
        return Box("layer", [node.scope[level]], "/".join(node.scope[: level + 1]))
    title = "/".join((*node.scope, node.name))
    settings = "".join(f"\n{name} = {value}" for name, value in node.attributes.items())
    return Box(node.kind, [node.name, *_shape_lines(node)], title + settings)


def _shape_lines(node: Node) -> list[str]:
    return [" × ".join(map(str, shape)) or "scalar" for shape in node.shapes[:3]] + ["…"] * (len(node.shapes) > 3)


# -- places -----------------------------------------------------------------------------------------------------------------
def _placed(boxes: list[Box]) -> list[list[Box]]:
    """The rows of the picture, with places where lines pass; each box has its coordinates."""
    for box in boxes:
        box.row = 1 + max((before.row for before in box.above), default=-1)
    for box in reversed(boxes):  # what takes nothing stands right above who takes it
        if not box.above and box.below:
            box.row = min(after.row for after in box.below) - 1
    rows: dict[int, list[Box]] = defaultdict(list)
    for box in boxes:
        rows[box.row].append(box)
    for box in boxes:
        for place, after in enumerate(list(box.below)):
            last = box
            for row in range(box.row + 1, after.row):
                passing = Box("passing", row=row, above=[last])
                if last is box:
                    box.below[place] = passing
                else:
                    last.below.append(passing)
                rows[row].append(passing)
                last = passing
            if last is not box:
                last.below.append(after)
                after.above[after.above.index(box)] = last
    layers = [rows[row] for row in sorted(rows)]
    _order(layers)
    _spread(layers)
    y = MARGIN
    for layer in layers:
        height = max(box.height for box in layer)
        for box in layer:
            box.y = y + height / 2
        y += height + GAP_DOWN
    return layers


def _mean(values: Iterable[float], default: float) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else default


def _order(layers: list[list[Box]]) -> None:
    """Order each row by where its neighbours stand, downwards and upwards in turn: fewer lines cross."""
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        place = {id(box): float(number) for layer in layers for number, box in enumerate(layer)}
        for layer in layers if downwards else reversed(layers):
            layer.sort(key=lambda box: _mean((place[id(other)] for other in (box.above if downwards else box.below)), place[id(box)]))
            place.update((id(box), float(number)) for number, box in enumerate(layer))


def _spread(layers: list[list[Box]]) -> None:
    """Give each box a horizontal place near its neighbours', in the row's order and without overlap."""
    for layer in layers:
        _settle(layer, [0.0] * len(layer))
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _settle(layer, [_mean((other.x for other in (box.above if downwards else box.below)), box.x) for box in layer])
    left = min(box.x - box.width / 2 for layer in layers for box in layer)
    for layer in layers:
        for box in layer:
            box.x += MARGIN - left


def _settle(layer: list[Box], wanted: list[float]) -> None:
    """The places nearest to those wanted that keep the distances: boxes that would overlap form blocks with one mean shift."""
    offsets = [0.0]
    for before, box in pairwise(layer):
        offsets.append(offsets[-1] + (before.width + box.width) / 2 + GAP_ACROSS)
    blocks: list[tuple[float, int]] = []  # sum of shifts, and of how many boxes
    for want, offset in zip(wanted, offsets):
        total, count = want - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before_total, before_count = blocks.pop()
            total, count = total + before_total, count + before_count
        blocks.append((total, count))
    shifts = [total / count for total, count in blocks for _ in range(count)]
    for box, shift, offset in zip(layer, shifts, offsets):
        box.x = shift + offset


# -- the document -----------------------------------------------------------------------------------------------------------
def _document(layers: list[list[Box]], title: str) -> str:
    boxes = [box for layer in layers for box in layer]
    width = max(box.x + box.width / 2 for box in boxes) + MARGIN
    height = max(box.y + box.height / 2 for box in boxes) + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="Menlo, Consolas, monospace" font-size="11.5" text-anchor="middle">',
        f"<title>{html.escape(title)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#667"/></marker></defs>',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
    ]
    lines += [_line(box, after) for box in boxes if box.lines for after in box.below]
    lines += [_drawn(box) for box in boxes if box.lines]
    return "\n".join([*lines, "</svg>\n"])


def _line(box: Box, after: Box) -> str:
    """The way from a box, through the places where it passes rows, to the next box."""
    x, y = box.x, box.y + box.height / 2
    path = f"M{x:.1f} {y:.1f}"
    while True:
        end = after.y - after.height / 2
        middle = (y + end) / 2
        path += f" C{x:.1f} {middle:.1f} {after.x:.1f} {middle:.1f} {after.x:.1f} {end:.1f}"
        if after.lines:
            return f'<path d="{path}" fill="none" stroke="#667" marker-end="url(#arrow)"/>'
        x, y = after.x, after.y + after.height / 2
        path += f" L{x:.1f} {y:.1f}"
        after = after.below[0]


def _drawn(box: Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    corner = 3 if box.kind == "layer" else 10
    text = "".join(
        f'<text x="{box.x:.1f}" y="{top + MARGIN / 2 + LINE * (number + 0.75):.1f}"{_weight(number)}>{html.escape(line)}</text>'
        for number, line in enumerate(box.lines)
    )
    return (
        f'<g><title>{html.escape(box.tip)}</title><rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{corner}" fill="{COLORS[box.kind]}" stroke="#667"/>{text}</g>'
    )


def _weight(number: int) -> str:
    return ' font-weight="bold"' if number == 0 else ' fill="#445"'
