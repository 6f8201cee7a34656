"""Grad modes as contexts, decorators and per thread; inference mode; anomaly detection."""

from __future__ import annotations

import threading
import warnings

import pytest

import flambeau as torch


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
    for each in threads:
        each.start()
    for each in threads:
        each.join()
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
    def made():
        return torch.ones(1)

    @torch.inference_mode
    def also_made():
        return torch.ones(1)

    assert made().is_inference() and also_made().is_inference()


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
