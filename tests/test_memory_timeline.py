"""The memory of a profile by what it is for: categories beside PyTorch's, the three kinds of file, what is refused."""

from __future__ import annotations

import gzip
import json
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import flambeau
from flambeau.aten import event_arguments
from flambeau.profiler._memory_profiler import ORDER, Action, Category, MemoryProfile, MemoryProfileTimeline

NOTED = {"record_shapes": True, "profile_memory": True, "with_stack": True}


def perceptron(torch: Any) -> Any:
    layers = torch.nn
    model = layers.Sequential(layers.Linear(100, 200), layers.Tanh(), layers.Linear(200, 30))
    x, target = torch.ones(20, 100), torch.zeros(20, 30)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lambda: layers.functional.mse_loss(model(x), target)


def convolutional(torch: Any) -> Any:
    layers = torch.nn
    model = layers.Sequential(layers.Conv2d(3, 8, 3), layers.ReLU(), layers.Flatten(), layers.Linear(8 * 36, 10))
    x, target = torch.ones(4, 3, 8, 8), torch.zeros(4, dtype=torch.int64)
    return model, torch.optim.Adam(model.parameters()), lambda: layers.functional.cross_entropy(model(x), target)


def profiled(torch: Any, make: Any) -> Any:
    _, optimizer, loss = make(torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(2):
            if step:
                found = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **NOTED)
                found.start()
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
    found.stop()
    return found


def written(found: Any, path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.export_memory_timeline(str(path), "cpu")
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_text())


@pytest.mark.parametrize("make", [perceptron, convolutional])
def test_what_each_category_has_at_most(make, of_pytorch, tmp_path):
    def most(torch: Any) -> list[int]:
        _, sizes = written(profiled(torch, make), tmp_path / f"{torch.__name__}.json")
        return [max(column) for column in zip(*sizes, strict=True)]

    ours, theirs = most(flambeau), of_pytorch(most)
    named = dict(zip(("", *ORDER), zip(ours, theirs, strict=True), strict=True))
    for category in (Category.PARAMETER, Category.OPTIMIZER_STATE, Category.GRADIENT, Category.INPUT):
        assert named[category][0] == pytest.approx(named[category][1], abs=64), category  # PyTorch has numbers in tensors as inputs, too
    for category in (Category.ACTIVATION, Category.AUTOGRAD_DETAIL):
        assert 0.5 * named[category][1] <= named[category][0] <= 1.25 * named[category][1], category


def test_events_of_a_step():
    found = profiled(flambeau, perceptron)
    profile = found._memory_profile()
    assert isinstance(profile, MemoryProfile)
    events = profile.timeline
    assert [time for time, *_ in events] == sorted(time for time, *_ in events)
    before = [size for _, action, _, size in events if action is Action.PREEXISTING]
    assert sorted(before) == sorted([80000, 800, 24000, 120] * 2 + [8000, 2400])
    alive: dict[int, int] = {}
    for _, action, (key, version), size in events:
        if action in (Action.PREEXISTING, Action.CREATE):
            assert key.id not in alive and version == 0
            alive[key.id] = 0
        elif action is Action.DESTROY:
            assert alive.pop(key.id) == version
        else:
            assert alive[key.id] == version
            alive[key.id] += 1
        assert size >= 0 and str(key.device) == "cpu"


def test_parameters_without_modules_and_optimizers():
    weight = flambeau.ones(256, requires_grad=True)
    x = flambeau.ones(256)
    with flambeau.profiler.profile(**NOTED) as found:
        for _ in range(2):
            (weight * x).sum().backward()
            with flambeau.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
    profile = found._memory_profile()
    categories = {size: set() for size in (1024,)}
    for _, action, (key, version), size in profile.timeline:
        if action is Action.PREEXISTING:
            categories[size].add(profile.category(key.id, version))
    assert categories[1024] == {Category.PARAMETER, Category.INPUT}


def test_files(tmp_path):
    found = profiled(flambeau, perceptron)
    times, sizes = written(found, tmp_path / "a.json")
    assert written(found, tmp_path / "a.json.gz") == [times, sizes] and times == sorted(times)
    assert all(len(row) == 9 and row[0] == 0 and min(row) >= 0 for row in sizes)
    total = [0] * 8
    for time, action, change, place in written(found, tmp_path / "a.raw.json.gz"):
        assert action in (1, 2, 3, 4) and (time == -1) is (action == 1)
        total[place] += change
    assert total == sizes[-1][1:]
    with pytest.warns(FutureWarning, match="deprecated"):
        found.export_memory_timeline(str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "<svg" in page and "PARAMETER" in page and page.count("<path") > 4
    timeline = MemoryProfileTimeline(found._memory_profile())
    assert timeline._coalesce_timeline("cuda:0") == ([], [])
    timeline.export_memory_timeline_html(str(tmp_path / "b.html"), "cuda:0", title="<none>")
    assert "&lt;none&gt;" in (tmp_path / "b.html").read_text()


def test_memory_that_a_call_within_a_call_of_one_name_makes():
    """Its time is that of its making, not that of a range that is open still."""
    with flambeau.profiler.profile(**NOTED) as found:
        flambeau.nn.functional.mse_loss(flambeau.ones(4), flambeau.zeros(4)).item()
        flambeau.randn(8), flambeau.stack([flambeau.ones(2)] * 2), flambeau.ones(2).norm()
    recorder = found.profiler._recorder
    assert all(recorder.started <= time <= recorder.ended for time, *_ in recorder.memory)


def test_profiles_keep_no_tensors(monkeypatch):
    monkeypatch.setattr(event_arguments, "_plans", {})  # as in a process in which nothing has been profiled
    x, layer = flambeau.ones(64, 4), flambeau.nn.Linear(4, 3)
    with flambeau.profiler.profile(record_shapes=True) as found:
        y = layer(x).exp() * 2
        ends = [weakref.ref(x), weakref.ref(y), weakref.ref(layer.weight._array)]
        del x, y, layer
    assert event_arguments._plans and all(end() is None for end in ends)
    assert [4, 3] in [shape for event in found.events() for shape in event.input_shapes]


def test_what_is_missing_is_said(tmp_path):
    with flambeau.profiler.profile(record_shapes=True) as found:
        flambeau.ones(1)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="profile_memory=True, with_stack=True required"):
        found.export_memory_timeline(str(tmp_path / "x.json"))
    with flambeau.profiler.profile(**NOTED) as found, pytest.raises(AssertionError, match="stopped"):
        found._memory_profile()
