"""Pictures of graphs: a row and a box for each node, with shapes, memory and times."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

import flambeau as torch
from flambeau.capture import picture
from flambeau.capture.fusion import fused
from flambeau.capture.lowering import Lowered
from flambeau.capture.passes import simplified
from flambeau.capture.recorder import Recorder
from flambeau.core.arrays import native

needs_kernels = pytest.mark.skipif(not native.switch.on, reason="kernels are off")


def graph_and_inputs():
    layer, x = torch.nn.Linear(20, 30), torch.randn(40, 20)
    with torch.no_grad(), Recorder([x._array], ["images"]) as recorder:
        outputs = [recorder.value((layer(x).relu() * 2 + 1).view(30, 40).t().sum(0)._array)]
    return fused(simplified(recorder.graph(outputs))), [x._array]


@needs_kernels
def test_text_has_a_row_for_each_node():
    graph, _ = graph_and_inputs()
    lines = picture.text(graph).splitlines()
    assert [line.split()[:2] for line in lines[1:-1]] == [["0", "linear"], ["1", "relu+mul+add"], ["2", "sum"]]
    assert "float32 40x30" in lines[2] and "one kernel" in lines[2] and "images" in lines[1]
    assert lines[-1].startswith("3 nodes")


def test_times_and_places_of_a_lowered_graph():
    graph, arrays = graph_and_inputs()
    run = Lowered(graph)
    times = picture.times_of(run, arrays)
    assert set(times) == {node for node in graph.nodes if node.kind != "view"} and all(seconds > 0 for seconds in times.values())
    assert "an arena of" in picture.text(run, times) and " us" in picture.text(run, times)


def test_drawings_are_whole():
    graph, arrays = graph_and_inputs()
    run = Lowered(graph)
    drawing = ElementTree.fromstring(picture.svg(run, picture.times_of(run, arrays)))
    space = "{http://www.w3.org/2000/svg}"
    boxes, edges = drawing.findall(f"{space}g"), drawing.findall(f"{space}path")
    nodes = [node for node in graph.nodes if node.kind != "view"]
    assert len(boxes) == len(nodes) and len(edges) == len(nodes) - 1
    for box in boxes:
        rectangle = box.find(f"{space}rect")
        assert float(rectangle.get("x")) >= 0 and float(rectangle.get("x")) + float(rectangle.get("width")) <= float(drawing.get("width"))
