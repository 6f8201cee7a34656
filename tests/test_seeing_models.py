"""Tables and drawings of modules, and what notebooks show of modules and tensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.utils import draw_graph, summary

SVG = "{http://www.w3.org/2000/svg}"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.act = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.act(self.norm(self.convolution(x)) + x)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.body, self.fc = nn.Conv2d(3, 4, 1), nn.Sequential(Block(), Block()), nn.Linear(4, 2)
        for parameter in self.stem.parameters():
            parameter.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        hidden = self.body(self.stem(x))
        return self.fc(hidden.mean((2, 3))) + self.fc(hidden.amax((2, 3)))


# -- tables -----------------------------------------------------------------------------------------------------------------
def test_a_table_of_layers() -> None:
    net = Net().train()
    table = summary(net, (2, 3, 5, 5))
    assert [(layer.path, layer.depth) for layer in table.layers][:5] == [
        ("", 0),
        ("stem", 1),
        ("body", 1),
        ("body.0", 2),
        ("body.0.convolution", 3),
    ]
    by_path = {layer.path: layer for layer in table.layers if not layer.is_repeated}
    convolution, block = by_path["body.0.convolution"], by_path["body.0"]
    assert convolution.parameters == 4 * 4 * 9 + 4 and convolution.multiply_adds == 2 * 25 * 4 * 4 * 9
    assert block.parameters == convolution.parameters + 8 and block.multiply_adds == convolution.multiply_adds
    assert by_path["stem"].input_shapes == [(2, 3, 5, 5)] and by_path["stem"].output_shapes == [(2, 4, 5, 5)]
    assert table.total_parameters == sum(parameter.numel() for parameter in net.parameters()) == by_path[""].parameters
    assert table.trainable_parameters == table.total_parameters - 16 and by_path["stem"].trainable == 0
    assert table.multiply_adds == 2 * 25 * 3 * 4 + 2 * convolution.multiply_adds + 2 * (2 * 4 * 2) == by_path[""].multiply_adds
    assert [layer.parameters for layer in table.layers if layer.path == "fc"] == [10, 0]
    assert table.input_bytes == 2 * 3 * 25 * 4 and table.output_bytes == 4 * (7 * 2 * 4 * 25 + 2 * 4)
    assert net.training and net.body[0].norm.num_batches_tracked == 0


def test_the_text_of_a_table() -> None:
    text = str(summary(Net(), (2, 3, 5, 5), depth=2))
    lines = text.split("\n")
    assert re.split(r"  +", lines[1]) == ["Layer (type)", "Input shape", "Output shape", "Parameters", "Multiply-adds"]
    assert [line.split("  ")[0] for line in lines[3:6]] == ["Net", "├─ stem (Conv2d)", "├─ body (Sequential)"]
    assert lines[6].startswith("│  ├─ 0 (Block)") and lines[7].startswith("│  └─ 1 (Block)") and "convolution" not in text
    assert "└─ fc (Linear)" in text and "(again)" in text and "Trainable parameters: 322" in text
    html = summary(nn.Linear(1, 1), (1, 1))._repr_html_()
    ElementTree.fromstring(f"<div>{html.replace('<br>', '')}</div>")


@pytest.mark.parametrize(
    ("module", "sizes", "expected"),
    [
        (lambda: nn.Linear(4, 3), (2, 5, 4), 2 * 5 * 4 * 3),
        (lambda: nn.ConvTranspose2d(2, 3, 3), (1, 2, 4, 4), 16 * 2 * 3 * 9),
        (lambda: nn.LSTM(4, 5, 2), (3, 2, 4), 3 * 2 * 4 * 5 * (4 + 5 + 5 + 5)),
        (lambda: nn.GRU(4, 5), (3, 2, 4), 3 * 2 * 3 * 5 * (4 + 5)),
        (lambda: nn.ReLU(), (9,), 0),
    ],
)
def test_multiplications_are_counted(module: Any, sizes: Any, expected: int) -> None:
    assert summary(module(), sizes).multiply_adds == expected


def test_multiplications_of_attention_and_vectors() -> None:
    class Attend(nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            return nn.functional.scaled_dot_product_attention(q, k, k), q[0, 0, 0] @ k[0, 0, 0]

    table = summary(Attend(), [(2, 3, 5, 8), (2, 3, 7, 8)])
    assert table.multiply_adds == 2 * 3 * 5 * 7 * (8 + 8) + 8 and table.layers[0].output_shapes == [(2, 3, 5, 8), ()]


def test_arguments_of_tables() -> None:
    table = summary(nn.Embedding(4, 5), (3, 2), dtypes=torch.long)
    assert table.layers[0].output_shapes == [(3, 2, 5)] and table.input_bytes == 48
    assert summary(nn.Linear(2, 3), input_data=torch.ones(4, 2)).layers[0].input_shapes == [(4, 2)]
    assert summary(nn.Linear(2, 3, device="meta"), (4, 2)).multiply_adds == 24
    for options in ({}, {"input_size": (1,), "input_data": torch.ones(1)}, {"input_size": [(1,), (1,)], "dtypes": [torch.long]}):
        with pytest.raises(ValueError, match="expected"):
            summary(nn.ReLU(), **options)

    class Failing(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("inside")

    failing = Failing()
    with pytest.raises(KeyError):
        summary(failing, (1,))
    assert failing.training and len(summary(nn.ReLU(), (1,)).layers) == 1  # no hook is left


# -- drawings ---------------------------------------------------------------------------------------------------------------
def boxes_and_lines(picture: str) -> tuple[list[tuple[str, float, float, float, float]], list[tuple[float, float]]]:
    """Name, left, top, right and bottom of each box; where each line ends."""
    document = ElementTree.fromstring(picture)
    boxes = []
    for group in document.findall(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        boxes.append((group.findall(f"{SVG}text")[0].text or "", x, y, x + width, y + height))
    ends = [re.findall(r"[-\d.]+", path.attrib["d"])[-2:] for path in document.findall(f"{SVG}path")]
    return boxes, [(float(x), float(y)) for x, y in ends]


@pytest.mark.parametrize("depth", [None, 1, 2])
def test_drawings_have_a_box_for_each_layer(depth: int | None, tmp_path: Path) -> None:
    net = Net().train()
    picture = draw_graph(net, (2, 3, 5, 5), depth=depth)
    boxes, ends = boxes_and_lines(picture)
    block = {None: ["Conv2d[convolution]", "BatchNorm2d[norm]", "add", "ReLU[act]"], 1: [], 2: ["Block"]}[depth]
    names = [re.sub(r"Block\[\d\]", "Block", name) for name, *_ in boxes]
    body = ["Sequential[body]"] if depth == 1 else [*block, *block]
    expected = ["x", "Conv2d[stem]", *body, "mean", "amax", "Linear[fc]", "Linear[fc]", "add", "output.1"]
    assert sorted(names) == sorted(expected)
    skips = 2 if depth is None else 0
    assert len(ends) == len(boxes) - 1 + 1 + skips  # each box but the input has one line, the sum two
    for number, (_, left, top, right, bottom) in enumerate(boxes):
        assert not any(left < r and l < right and top < b and t < bottom for _, l, t, r, b in boxes[:number])  # noqa: E741
    for x, y in ends:
        assert any(abs((left + right) / 2 - x) < 0.2 and abs(top - y) < 0.2 for _, left, top, right, _ in boxes)
    picture.save(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text() == picture == picture._repr_svg_() and net.training


def test_drawings_of_constants_lists_and_marks() -> None:
    class Net(nn.Module):
        def forward(self, values: Any) -> Any:
            first, second = values
            return torch.stack([first + torch.zeros(3), second.clamp(min=0.5)]).unbind()

    boxes, _ = boxes_and_lines(draw_graph(nn.Sequential(Net()), input_data=([torch.ones(3), torch.ones(3)],)))
    assert [name for name, *_ in boxes if name.startswith("input")] == ["input.0", "input.1"]
    assert {name for name, *_ in boxes} == {"input.0", "input.1", "zeros", "Net[0]", "output.1", "output.2"} - {"zeros"}
    picture = draw_graph(Net(), input_data=([torch.ones(3), torch.ones(3)],))
    assert {"zeros", "add", "clamp", "stack", "unbind"} < {name for name, *_ in boxes_and_lines(picture)[0]} and "min = 0.5" in picture
    with pytest.raises(ValueError, match="depth"):
        draw_graph(Net(), (3,), depth=0)


# -- notebooks --------------------------------------------------------------------------------------------------------------
def test_notebooks_show_small_tensors_as_tables() -> None:
    for tensor, cells in (
        (torch.arange(6).reshape(2, 3), ["0", "1", "2", "3", "4", "5"]),
        (torch.tensor([0.5, 1.25]), ["0.5000", "1.2500"]),
        (torch.tensor([[1 + 2j]]), ["1.+2.j"]),
        (torch.tensor([True, False]), ["True", "False"]),
        (torch.ones(2, dtype=torch.bfloat16), ["1.", "1."]),
    ):
        html = tensor._repr_html_()
        document = ElementTree.fromstring(f"<div>{html}</div>")
        assert [cell.text for cell in document.iter("td")] == cells and str(tensor.dtype) in html
    large = torch.zeros(100, 50)._repr_html_()
    assert large.count("<tr>") == 22 and large.count("…") == 22 and "100 × 50" in large


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor(2.5), torch.rand(2, 2, 2), torch.empty(0, 3), torch.empty(2, device="meta"), torch.eye(2).to_sparse()],
    ids=["0-d", "3-d", "empty", "meta", "sparse"],
)
def test_notebooks_show_other_tensors_as_text(tensor: Any) -> None:
    document = ElementTree.fromstring(f"<div>{tensor._repr_html_()}</div>")
    assert [text.text for text in document.iter("pre")] == [repr(tensor)]


def test_subclasses_are_shown_as_they_show_themselves() -> None:
    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"{func} is asked about")

    assert torch.ones(2).as_subclass(Own)._repr_html_() is None
    assert "Parameter" in nn.Parameter(torch.ones(2))._repr_html_()


def test_notebooks_show_modules_as_trees() -> None:
    net = nn.Sequential(
        nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()), nn.LazyLinear(3), nn.ParameterList([torch.ones(1)] * 20)
    )
    net[0].bias.requires_grad_(False)
    before = repr(net)
    html = net._repr_html_()
    document = ElementTree.fromstring(html.replace("<details open>", "<details>"))
    names = [bold.text for bold in document.iter("b")]
    assert names == ["Sequential", "Linear", "Sequential", "BatchNorm1d", "ReLU", "LazyLinear", "ParameterList"]
    assert "weight: 3 × 2, float32" in html and "bias: 3, float32, no gradient" in html and "not known yet" in html and "and 8 more" in html
    assert html.count("<details open>") == 1 and repr(net) == before


def test_names_are_escaped() -> None:
    class Odd(nn.Module):
        def extra_repr(self) -> str:
            return "<b>&"

    assert "&lt;b&gt;&amp;" in Odd()._repr_html_()
