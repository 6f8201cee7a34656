"""Grad modes as contexts, decorators and per thread; inference mode; anomaly detection."""

from __future__ import annotations

import itertools
import threading
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.core import state


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_no_grad_records_nothing_and_restores(x):
    with torch.no_grad():
        assert not torch.is_grad_enabled()
        y = x * 2
        with torch.enable_grad():
            z = x * 2
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert not y.requires_grad and y.is_leaf and z.requires_grad
    with pytest.raises(RuntimeError):
        y.sum().backward()


def test_mode_is_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        raise ZeroDivisionError
    assert torch.is_grad_enabled()


def test_set_grad_enabled_as_context_and_as_call(x):
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
        with torch.set_grad_enabled(True):
            assert (x * 2).requires_grad
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_decorators(x):
    @torch.no_grad()
    def plain(v):
        """Documented."""
        return v * 2

    @torch.no_grad
    def without_parentheses(v):
        return v * 2

    @torch.enable_grad()
    def recorded(v):
        return v * 2

    @torch.set_grad_enabled(False)
    def switched(v):
        return v * 2

    assert not plain(x).requires_grad and not without_parentheses(x).requires_grad and not switched(x).requires_grad
    assert torch.is_grad_enabled()
    assert plain.__name__ == "plain" and plain.__doc__ == "Documented."
    with torch.no_grad():
        assert recorded(x).requires_grad


def test_decorated_generator_switches_only_while_it_runs(x):
    @torch.no_grad()
    def numbers():
        try:
            got = yield torch.is_grad_enabled()
            yield got, torch.is_grad_enabled()
        finally:
            ended.append(torch.is_grad_enabled())

    ended = []
    generator = numbers()
    assert next(generator) is False and torch.is_grad_enabled()
    assert generator.send("sent") == ("sent", False)
    generator.close()
    assert ended == [False] and torch.is_grad_enabled()


def test_decorated_generator_passes_exceptions_and_return_values():
    @torch.no_grad()
    def catching():
        try:
            yield 1
        except KeyError:
            yield torch.is_grad_enabled()
        return "done"

    generator = catching()
    next(generator)
    assert generator.throw(KeyError()) is False
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "done"


def test_modes_belong_to_a_thread(x):
    seen, ready, go = {}, threading.Event(), threading.Event()

    def other():
        with torch.no_grad():
            ready.set()
            go.wait(10)
            seen["inside"] = (x * 2).requires_grad
        seen["after"] = (x * 2).requires_grad

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(10)
    seen["main"] = (x * 2).requires_grad
    go.set()
    thread.join()
    assert seen == {"main": True, "inside": False, "after": True}


def test_new_thread_starts_with_gradients_on():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_backward_in_several_threads_at_once():
    def work(i):
        w = torch.full((50,), float(i), requires_grad=True)
        for _ in range(20):
            (w * w).sum().backward()
        results[i] = w.grad.tolist()

    results = {}
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [40.0 * i] * 50 for i in range(4)}


def test_view_made_without_grad_mode_of_a_leaf_is_a_leaf_that_requires_grad(x):
    with torch.no_grad():
        view = x[0]
    assert view.requires_grad and view.is_leaf and view.grad_fn is None
    (view * 2).backward()
    assert x.grad is None and view.grad is None


def test_inference_mode(x):
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
        y = x * 2
        y.add_(1)
        with torch.inference_mode(False):
            assert torch.is_grad_enabled() and (x * 2).requires_grad
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
    assert y.is_inference() and not y.requires_grad and not x.is_inference()
    assert not y.clone().is_inference()


def test_inference_tensors_cannot_be_recorded_or_written(x):
    with torch.inference_mode():
        y = x * 2
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="inference tensor"):
        y.requires_grad_()
    assert (x + y).requires_grad  # an addition saves nothing


def test_inference_mode_as_decorator():
    @torch.inference_mode()
    def make_ones():
        return torch.ones(1)

    @torch.inference_mode
    def make_ones_too():
        return torch.ones(1)

    assert make_ones().is_inference() and make_ones_too().is_inference()


def test_backward_in_inference_mode(x):
    y = (x * x).sum()
    with torch.inference_mode():
        y.backward()
    assert x.grad.tolist() == [2, 4]


def test_anomaly_mode_names_the_function_that_made_nan():
    x = torch.tensor([0.0], requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"), torch.autograd.detect_anomaly():
        y = x.sqrt() * 0
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y.sum().backward()
    assert not torch.is_anomaly_enabled()


def test_anomaly_mode_shows_the_forward_call():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("on purpose")

    x = torch.ones(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = Failing.apply(x)
        with pytest.warns(UserWarning, match="(?s)FailingBackward.*test_grad_modes.py"), pytest.raises(ValueError, match="on purpose"):
            y.backward()


def test_set_detect_anomaly_as_function_and_check_nan():
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
        x = torch.tensor([0.0], requires_grad=True)
        (x.sqrt() * 0).sum().backward()
        assert x.grad.isnan().all()
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert not torch.is_anomaly_enabled()


# -- inference mode, on the fast path and on the slow one ---------------------------------------------------------------------------------
MAKERS = {
    "factory": lambda x: torch.ones(2),
    "like": lambda x: torch.zeros_like(x),
    "tensor": lambda x: torch.tensor([1.0, 2.0]),
    "arange": lambda x: torch.arange(2),
    "random": lambda x: torch.randn(2),
    "from_numpy": lambda x: torch.from_numpy(np.ones(2)),
    "operation": lambda x: x * 2,
    "operator of two": lambda x: x + x,
    "comparison": lambda x: x > 1,
    "reduction": lambda x: x.sum(),
    "several results": lambda x: x.max(0)[0],
    "list": lambda x: torch.cat([x, x]),
    "promoted, on the slow path": lambda x: x + torch.ones(2, dtype=torch.float64),
    "composite": lambda x: torch.nn.functional.mse_loss(x, x),
    "clone": lambda x: x.clone(),
    "view of a result": lambda x: (x * 2)[0],
    "enable_grad inside": torch.enable_grad()(lambda x: x * 2),
}


@pytest.mark.parametrize("name", MAKERS)
def test_everything_made_in_inference_mode_says_so_and_never_requires_grad(name, x):
    with torch.inference_mode():
        tensor = MAKERS[name](x)
        assert tensor.is_inference() and not tensor.requires_grad and tensor.grad_fn is None and tensor.is_leaf
    with torch.no_grad():
        assert not MAKERS[name](x).is_inference()
    assert not MAKERS[name](x).is_inference()


def test_views_and_aliases_are_of_the_mode_that_their_memory_is_of(x):
    with torch.inference_mode():
        assert not x[0].is_inference() and not x.view(2, 1).is_inference() and not x.detach().is_inference()
        y = x * 2
    for shown in (y[0], y.view(2, 1), y.detach(), y.data, y.unsqueeze(0), y.T if y.ndim == 2 else y.expand(3, 2), y.unbind(0)[0]):
        assert shown.is_inference()
    assert not y.clone().is_inference() and not (y + 1).is_inference()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x * y,
        lambda x, y: torch.mul(y, x),
        lambda x, y: x @ y,
        lambda x, y: torch.where(y > 0, x, x * y),
        lambda x, y: x.double() * y,  # the slow path
        lambda x, y: torch.nn.functional.linear(y[None], x[None]),
        lambda x, y: x.index_select(0, torch.inference_mode()(lambda: torch.tensor([0]))()),
        lambda x, y: torch.inference_mode()(lambda: torch.ones(2).requires_grad_())() * x,
    ],
)
def test_what_would_save_an_inference_tensor_raises(call, x):
    with torch.inference_mode():
        y = x * 2
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        call(x, y)
    with torch.no_grad():
        assert not call(x, y).requires_grad


def test_what_saves_nothing_of_an_inference_tensor_is_recorded(x):
    with torch.inference_mode():
        y = x * 2
    bias = torch.ones(1, requires_grad=True)
    assert (x + y).requires_grad and torch.stack([x, y]).requires_grad
    assert torch.nn.functional.linear(y[None], torch.ones(1, 2), bias).requires_grad  # only the weight's gradient would need y


def test_a_function_must_not_save_an_inference_tensor(x):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(b)
            return a * b

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0], None

    with torch.inference_mode():
        y = x * 2
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        Product.apply(x, y)


def test_a_leaf_of_inference_mode_shows_that_it_requires_grad_and_is_never_recorded():
    with torch.inference_mode():
        p = torch.nn.Parameter(torch.ones(2))
        assert p.requires_grad and p.is_inference() and not (p * p).requires_grad
    assert not (p * p).requires_grad
    assert not p.requires_grad_(False).requires_grad
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        p.requires_grad_()


def test_inference_tensors_have_no_version_and_are_not_reshaped_in_place():
    with torch.inference_mode():
        y = torch.ones(2, 3)
        y.add_(1).t_()
    with pytest.raises(RuntimeError, match="do not track version counter"):
        _ = y._version
    for write in (lambda: y.t_(), lambda: y.mul_(2), lambda: y.copy_(torch.ones(3, 2)), lambda: y.zero_(), lambda: y.__setitem__(0, 1.0)):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            write()
    assert y.shape == (3, 2) and y.eq(2).all()


def test_inference_mode_of_one_thread_is_not_seen_by_another(x):
    ready, go, seen = threading.Event(), threading.Event(), {}

    def other():
        with torch.inference_mode():
            ready.set()
            go.wait(10)
            seen["other"] = (x * 2).is_inference()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(10)
    y = x * 2
    assert y.requires_grad and not y.is_inference() and not torch.ones(2).is_inference() and torch.is_grad_enabled()
    go.set()
    thread.join()
    assert seen == {"other": True}


def test_inference_mode_takes_the_fast_path(x, monkeypatch):
    operation = torch.abs
    operation(x)

    def slow(*arguments):
        raise AssertionError("the slow path was taken")

    monkeypatch.setitem(operation.__globals__, "dispatch", slow)
    with torch.inference_mode():
        assert operation(x).is_inference()


@pytest.mark.parametrize("wanted", [(False, False), (True, False)], ids=["no_grad", "inference_mode"])
def test_where_there_is_no_memory_to_switch_modes_nothing_is_switched(wanted, monkeypatch):
    limits = pytest.importorskip("_testcapi", reason="this Python was built without its tests")
    failed = 0
    for others, after in itertools.product(range(12), range(4)):  # other threads' entries, for which the lists must grow sometimes
        for entries in ("without_grad", "inferring"):
            monkeypatch.setattr(state, entries, [None] * others)
        limits.set_nomemory(after, after + 1)
        try:
            state.set_inference(*wanted)
        except MemoryError:
            failed += 1
        finally:
            limits.remove_mem_hooks()
            is_recording = state.thread.grad is True
            counts = len(state.without_grad) - others, len(state.inferring) - others
            state.set_inference(False, True)
        assert counts == ((0, 0) if is_recording else (1, int(wanted[0])))
    assert failed
