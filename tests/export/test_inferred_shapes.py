"""Dynamic shapes that follow from each other, from further inputs, and from what errors suggest; archives of several programs."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import AdditionalInputs, Dim, ShapesCollection, export
from flambeau.export.dynamic_shapes import UserError, refine_dynamic_shapes_from_suggested_fixes
from flambeau.export.passes import move_to_device_pass
from flambeau.export.pt2_archive import PT2ArchiveReader, is_pt2_package
from flambeau.export.pt2_archive._package import load_pt2, package_pt2


class Of(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


RELATED = {
    "y = x + 1": (lambda x, y: x + y[1:], 3, 4, "d1 = d0 + 1", (7, 8)),
    "x = y + 1": (lambda x, y: x[2:] + y[1:], 5, 4, "d0 = d1 + 1", (8, 7)),
    "x = 2 y": (lambda x, y: x + torch.cat([y, y]), 6, 3, "d0 = 2*d1", (10, 5)),
    "x = 2 y - 1": (lambda x, y: x + torch.cat([y, y])[1:], 5, 3, "d0 = 2*d1 - 1", (9, 5)),
    "x = y": (lambda x, y: x + y, 3, 3, "d1 = d0", (9, 9)),
    "a branch": (lambda x, y: x.sum() + y.sum() if x.shape[0] + 2 == y.shape[0] else x, 3, 5, "d1 = d0 + 2", (4, 6)),
}


@pytest.mark.parametrize("name", RELATED)
def test_sizes_follow_from_each_other(name: str) -> None:
    function, m, n, fix, (a, b) = RELATED[name]
    module, args = Of(function), (torch.ones(m), torch.ones(n))
    for hint in (Dim.AUTO, Dim.DYNAMIC):
        program = export(module, args, dynamic_shapes=({0: hint}, {0: hint}))
        program.module()(torch.ones(a), torch.ones(b))
        with pytest.raises(AssertionError, match="Guard failed"):
            program.module()(torch.ones(a), torch.ones(b + 1))
    shapes = {"x": {0: Dim("d0")}, "y": {0: Dim("d1")}}
    with pytest.raises(UserError, match="Suggested fixes") as raised:
        export(module, args, dynamic_shapes=shapes)
    assert fix in str(raised.value)
    refined = refine_dynamic_shapes_from_suggested_fixes(str(raised.value), shapes)
    export(module, args, dynamic_shapes=refined).module()(torch.ones(a), torch.ones(b))


def test_further_inputs_say_what_is_dynamic() -> None:
    shapes = AdditionalInputs()
    shapes.add((torch.ones(5, 2),), {"y": torch.ones(2)})
    args, kwargs = (torch.ones(3, 2),), {"y": torch.ones(2)}
    assert shapes.dynamic_shapes(Of(torch.add), args, kwargs) == {"x": (Dim.DYNAMIC, None), "y": (None,)}
    program = export(Of(torch.add), args, kwargs, dynamic_shapes=shapes)
    assert program.module()(torch.ones(8, 2), y=torch.ones(2)).shape == (8, 2)
    small = export(Of(lambda x, y: x + y if x.shape[0] < 4 else x), args, kwargs, dynamic_shapes=({0: Dim.AUTO}, None))
    with pytest.raises(RuntimeError, match="<= 3"):
        shapes.verify(small)
    with pytest.raises(AssertionError, match="must be a tuple"):
        shapes.add([torch.ones(1)])  # type: ignore[arg-type]
    shapes.add((torch.ones(5, 2),), {"y": 2.5})
    with pytest.raises(ValueError):
        shapes.dynamic_shapes(Of(torch.add), args, kwargs)
    shapes = AdditionalInputs()
    shapes.add((torch.ones(5, 2, 2),))
    with pytest.raises(ValueError, match="expected 2 dimensions, but got 3"):
        shapes.dynamic_shapes(nn.ReLU(), (torch.ones(3, 2),))


def test_suggestions_are_taken_over() -> None:
    a, b = Dim("a"), Dim("b")
    message = "Suggested fixes:\n  a = Dim('a', min=3, max=6)\n  b = 4\n\nThe error"
    found = refine_dynamic_shapes_from_suggested_fixes(message, {"x": {0: a, 1: None}, "y": (b, 2 * a), "z": [None]})
    assert repr(found) == "{'x': {0: Dim('a', min=3, max=6), 1: None}, 'y': (4, 2*a), 'z': [None]}"
    with pytest.raises(UserError):
        refine_dynamic_shapes_from_suggested_fixes("nothing of use", {"x": {0: a}})
    with pytest.raises(AssertionError, match="not found"):
        refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\n  a = 2*_a\n", {"x": {0: a}})
    with pytest.raises(AssertionError, match="not found"):
        refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\n  other = 2\n", {"x": {0: a}})


def test_a_tensor_has_one_shape_of_a_collection() -> None:
    shapes, x = ShapesCollection(), torch.ones(2)
    for _ in range(2):
        shapes[x] = {0: Dim.DYNAMIC}
    with pytest.raises(AssertionError, match="do not match"):
        shapes[x] = {0: Dim.STATIC}


def test_an_archive_may_have_several_programs() -> None:
    layers = {"a": nn.Linear(2, 2), "b/c": nn.Linear(2, 3)}
    programs = {name: export(layer, (torch.ones(1, 2),)) for name, layer in layers.items()}
    file = package_pt2(io.BytesIO(), exported_programs=programs, extra_files={"note": "here"})
    assert is_pt2_package(file.getvalue()) and not is_pt2_package(file.getvalue()[:50])
    contents = load_pt2(file)
    assert contents.extra_files == {"note": "here"}
    for name, layer in layers.items():
        torch.testing.assert_close(contents.exported_programs[name].module()(torch.ones(1, 2)), layer(torch.ones(1, 2)))
    assert PT2ArchiveReader(file).read_string("extra/note") == "here"
    with pytest.raises(AssertionError, match="nothing to save"):
        package_pt2(io.BytesIO())
    with pytest.raises(AssertionError, match="to be a dict"):
        package_pt2(io.BytesIO(), exported_programs=[programs["a"]])  # type: ignore[arg-type]


def test_programs_move_to_other_devices() -> None:
    class Made(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.layer(x) + torch.zeros(2, device="cpu")

    module = move_to_device_pass(export(Made(), (torch.ones(1, 2),)), {"cpu": "meta"}).module()
    assert module.layer.weight.device.type == module(torch.ones(1, 2, device="meta")).device.type == "meta"
