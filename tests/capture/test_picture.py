"""Pictures of graphs: a row and a box for each node, with shapes, memory and times."""

from __future__ import annotations

import pickle
import xml.etree.ElementTree as ElementTree

import pytest
from capture.models import MODELS

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


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_of_all_kinds_are_drawn(name):
    torch.manual_seed(0)
    step, batches = MODELS[name]()
    drawings = torch.utils.draw_compiled(step, *batches[0], calls=1)
    for drawing in drawings:
        ElementTree.fromstring(drawing)
        assert drawing.text.count("\n") > 10 and f"{drawing.text.count(chr(10)) - 1} nodes" in drawing.text
        if native.switch.on:
            assert "an arena of" in drawing.text and drawing.text.endswith(" us")


def test_modules_branches_and_what_cannot_be_compiled(tmp_path):
    layer = torch.compile(torch.nn.Linear(3, 2))
    (drawing,) = torch.utils.draw_compiled(layer, torch.ones(4, 3), calls=0)
    drawing.save(tmp_path / "layer.svg")
    assert (tmp_path / "layer.svg").read_text() == drawing == drawing._repr_svg_()
    assert "linear" in drawing.text and not drawing.text.endswith(" us")
    assert pickle.loads(pickle.dumps(drawing)).text == drawing.text

    def branch(x):
        return x.exp() if x.sum().item() > 0 else x.sin()

    assert len(torch.utils.draw_compiled(branch, torch.ones(3))) == 2
    with pytest.raises(ValueError, match="number of calls"):
        torch.utils.draw_compiled(branch, torch.ones(3), calls=-1)
    with pytest.raises(RuntimeError, match="as it is written"):
        torch.utils.draw_compiled(lambda x: torch.tensor(x.numpy() + 1), torch.ones(3))
