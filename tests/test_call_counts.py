"""How many Python functions a call passes through where it cannot take the fast path: a bound, since each costs about 50 ns."""

from __future__ import annotations

import gc
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch
from flambeau.autograd import api
from flambeau.core.arrays import native
from flambeau.core.calls import dispatch, override
from flambeau.core.state import interposed
from flambeau.nn import _module_hooks

pytestmark = pytest.mark.skipif(bool(native._CHOSEN), reason="a native kernel for each small operand is some more calls")


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Classes with ``__torch_dispatch__`` and hooks of modules, which other tests may have had, cost each call some more."""
    monkeypatch.setattr(_module_hooks, "registered", False)
    before, interposed[:] = interposed[:], ()
    yield
    interposed[:] = before


def calls_of(function: Callable[[], Any]) -> Counter[str]:
    """Python functions called by ``function``, when everything that is made late is there.

    The collector of circles waits: it calls what others have asked to be told by, as hypothesis does, and finalizers of their objects.
    """
    for _ in range(3):
        function()
    counts: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            counts[f"{frame.f_code.co_filename}:{frame.f_code.co_name}"] += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return counts


def forward_and_backward(x: Any, size: int) -> Callable[[], Any]:
    w, b = torch.randn(size, size, requires_grad=True), torch.randn(size, requires_grad=True)

    def run() -> None:
        torch.softmax(x @ w + b, -1).sum().backward()

    return run


class Plain(torch.Tensor):
    pass


class Asking(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("cls", [Plain, Asking])
def test_a_subclass_of_tensor(cls: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "KINDS", {})  # other tests make kinds of array known; looking for them is one more function a call
    monkeypatch.setattr(api, "wrappers", set())  # and tensors around tensors, which are two more a pass
    for module in (dispatch, override):  # and classes with __torch_dispatch__, which calls then look for
        monkeypatch.setattr(module, "interposed", [])
    counts = calls_of(forward_and_backward(torch.randn(4, 4).as_subclass(cls), 4))
    assert counts.total() <= (254 if cls is Asking else 246), counts.most_common(30)  # a handler is asked about ``backward`` too


def test_a_handler_that_changes_the_arguments_gets_what_it_asked_for() -> None:
    class Doubling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            changed = tuple(arg * 2 if isinstance(arg, float) else arg for arg in args)
            return super().__torch_function__(func, types, changed, kwargs)

    x = torch.ones(2).as_subclass(Doubling)
    assert (x + 3.0).tolist() == [7, 7] and type(x + 3.0) is Doubling
    assert torch.add(x, 1, alpha=2).tolist() == [3, 3]


def test_in_place_results_keep_their_class() -> None:
    x, y = torch.ones(2), torch.ones(2).as_subclass(Plain)
    result = x.add_(y)
    assert type(x) is torch.Tensor and type(result) is Plain and x.tolist() == [2, 2]
    out = torch.empty(2)
    torch.add(y, 1, out=out)
    assert type(out) is torch.Tensor and out.tolist() == [2, 2]


def step_of_a_convolution(loss: Callable[[Any], Any]) -> Callable[[], Any]:
    x, layer = torch.randn(2, 3, 8, 8), torch.nn.Conv2d(3, 4, 3, padding=1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def run() -> None:
        optimizer.zero_grad()
        loss(layer(x)).backward()
        optimizer.step()

    return run


CLASSES = torch.tensor([1, 2])


def entropy_of_means(y: Any) -> Any:
    return torch.nn.functional.cross_entropy(y.mean((2, 3)), CLASSES)


@pytest.mark.parametrize(("loss", "most"), [(torch.sum, 131), (entropy_of_means, 175)])
def test_a_step_of_a_convolution(loss: Callable[[Any], Any], most: int) -> None:
    counts = calls_of(step_of_a_convolution(loss))
    assert counts.total() <= most, counts.most_common(30)


def saved(value: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_files_of_two_tensors(tmp_path: Path) -> None:
    value = {"a": torch.randn(2), "b": torch.randn(2)}
    name = str(tmp_path / "two.pt")
    for write in (lambda: saved(value), lambda: torch.save(value, name)):
        counts = calls_of(write)
        assert counts.total() <= 250, counts.most_common(30)
    data = saved(value).getvalue()
    counts = calls_of(lambda: torch.load(io.BytesIO(data)))
    assert counts.total() <= 250, counts.most_common(30)


def test_a_linear_layer_under_autocast() -> None:
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 4)

    def run() -> None:
        with torch.autocast("cpu"):
            layer(x)

    counts = calls_of(run)
    assert counts.total() <= 40, counts.most_common(30)  # of which the region is 14
    with torch.autocast("cpu"):
        counts = calls_of(lambda: layer(x))
    assert counts.total() <= 25, counts.most_common(30)
    half, weight = x.bfloat16(), layer.weight.bfloat16()
    counts = calls_of(lambda: torch.nn.functional.linear(half, weight))
    assert counts.total() <= 6, counts.most_common(30)


@pytest.mark.parametrize(
    ("function", "sizes", "most"),
    [(lambda w, x: (w * x).sum().sin(), (4,), 220), (lambda w, x: torch.tanh(x @ w).sum(), (4, 4), 250)],
    ids=["elementwise", "product"],
)
def test_gradients_of_a_batch(function: Callable[..., Any], sizes: tuple[int, ...], most: int) -> None:
    gradients = torch.func.vmap(torch.func.grad(function), in_dims=(None, 0))
    w, x = torch.randn(sizes), torch.randn(3, 4)
    counts = calls_of(lambda: gradients(w, x))
    assert counts.total() <= most, counts.most_common(30)
    counts = calls_of(lambda: torch.func.vmap(torch.sin)(x))
    assert counts.total() <= 50, counts.most_common(30)
