"""A mode that is on in one thread costs the others nothing: their calls keep the fast path, and only its own thread leaves it."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import graph
from flambeau.core import state
from flambeau.core.calls import machine_calls
from flambeau.overrides import TorchFunctionMode


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


MODES: dict[str, Callable[[], Any]] = {
    "function mode": Passing,
    "saved-tensor hooks": lambda: graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor),
    "device": lambda: torch.device("meta"),
}
every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())

X, TURNED, INDEX = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 2])
CALLS: dict[str, Callable[[], Any]] = {
    "add": lambda: X + X,
    "in place": lambda: X.mul_(1.0),
    "sum": lambda: X.sum(),
    "view": lambda: X.view(4, 3),
    "transpose_": lambda: TURNED.t_().t_(),  # from then on strides are looked at
    "clamp_": lambda: X.clamp_(-9.0, 9.0),
    "reflected": lambda: 1.0 - X,
    "cat": lambda: torch.cat([X, X]),
    "item": lambda: X[0],
    "setitem": lambda: X.__setitem__(0, 1.0),
    "copy_": lambda: X.copy_(X),
    "zeros": lambda: torch.zeros(3),
    "full": lambda: torch.full((3,), 1.0),
    "ones_like": lambda: torch.ones_like(X),
    "tensor": lambda: torch.tensor([1.0]),
    "as_tensor": lambda: torch.as_tensor([1.0]),
    "arange": lambda: torch.arange(3),
    "rand": lambda: torch.rand(3),
    "randn": lambda: torch.randn(3),
    "randint": lambda: torch.randint(5, (3,)),
    "randperm": lambda: torch.randperm(3),
}


def calls_of(function: Callable[[], Any]) -> Counter[str]:
    """The Python functions that ``function`` passes through, ``in_mode`` left out, once everything made late is there."""
    for _ in range(3):
        function()
    counts: Counter[str] = Counter()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is not state.in_mode.__code__:
            counts[f"{frame.f_code.co_filename}:{frame.f_code.co_name}"] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return counts


@contextmanager
def elsewhere(mode: Callable[[], Any]) -> Iterator[None]:
    """Another thread sits in ``mode``."""
    entered, leave = threading.Event(), threading.Event()

    def sit() -> None:
        with mode():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=sit)
    thread.start()
    assert entered.wait(60)
    try:
        yield
    finally:
        leave.set()
        thread.join()


@every_mode
def test_a_mode_of_another_thread_costs_no_function(mode: Callable[[], Any]) -> None:
    for call in CALLS.values():
        call()  # wrappers are made when they are first called
    with machine_calls.python_only():  # machine code leaves calls to Python while any thread is in a mode
        alone = {name: calls_of(call) for name, call in CALLS.items()}
        with elsewhere(mode):
            assert state.active and not state.in_mode()
            for name, call in CALLS.items():
                assert calls_of(call) == alone[name], name
    assert not state.active


@every_mode
def test_in_its_own_mode_a_thread_takes_the_slow_path(mode: Callable[[], Any]) -> None:
    for name in ("add", "sum", "tensor", "arange"):
        alone = calls_of(CALLS[name]).total()
        with mode():
            assert state.in_mode() and calls_of(CALLS[name]).total() > alone, name
        assert not state.in_mode() and not state.active


@every_mode
def test_modes_are_counted_per_thread(mode: Callable[[], Any]) -> None:
    with elsewhere(mode), mode():
        with mode():
            assert state.in_mode()
        assert state.in_mode()
    assert not state.in_mode() and not state.active and state.thread.modes == 0


def test_anomaly_detection_is_on_in_every_thread() -> None:
    tracebacks = []

    def record() -> None:
        y = torch.ones(2, requires_grad=True) * 2
        tracebacks.append(y.grad_fn.metadata.get("traceback_"))

    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        assert state.in_mode()
        thread = threading.Thread(target=record)
        thread.start()
        thread.join()
    assert tracebacks[0]
    assert not state.active


def test_a_mode_of_another_thread_changes_no_result() -> None:
    x = torch.randn(3, requires_grad=True)
    with elsewhere(MODES["device"]):
        y = torch.ones(3) * x
        y.sum().backward()
    assert y.device.type == "cpu" and np.array_equal(x.grad.numpy(), np.ones(3, np.float32))


def test_a_default_device_is_counted_once() -> None:
    before = len(state.active), state.thread.modes
    try:
        torch.set_default_device("meta")
        torch.set_default_device("meta")
        assert (len(state.active), state.thread.modes) == (before[0] + 1, before[1] + 1)
        with torch.device("cpu"):
            assert (len(state.active), state.thread.modes) == before
    finally:
        torch.set_default_device("cpu")
    assert (len(state.active), state.thread.modes) == before
