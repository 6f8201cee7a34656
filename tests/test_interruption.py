"""What a fast path does when something goes wrong in its kernel, and when something else happens to be raised there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest
from faults import trials
from faults.injection import Injector, came_at_beginning
from faults.interrupts import interrupt

import flambeau as torch
from flambeau.core import late, state as states
from flambeau.core.calls.interruption import is_interruption
from flambeau.utils._python_dispatch import TorchDispatchMode


def caught(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_errors_of_numpy_and_of_this_package_are_the_kernels():
    assert not is_interruption(caught(lambda: np.ones(2).reshape(3)), __file__)
    assert not is_interruption(caught(lambda: torch.ones(2).reshape(3)), __file__)
    assert not is_interruption(caught(lambda: np.concatenate([])), __file__)


@pytest.mark.parametrize("kind", [TimeoutError, KeyError, AttributeError, NameError, type("Own", (ValueError,), {})])
def test_an_exception_of_a_kind_that_no_kernel_raises_is_an_interruption(kind):
    def kernel():
        raise kind

    assert is_interruption(caught(kernel), __file__)


def test_an_exception_from_somebody_elses_frame_is_an_interruption():
    def handler():
        raise ValueError

    assert is_interruption(caught(handler))
    assert is_interruption(caught(lambda: np.ones(2).reshape(3)))  # raised by NumPy, called by a frame of this file


SITES = {
    "out of place": (lambda x: x + 1.0, None),
    "in place": (lambda x: x.add_(1.0), 1.0),
    "in place, by a kernel's result": (lambda x: x.add_(1.0, alpha=2), 2.0),
    "operator in place": (lambda x: x.__iadd__(1), 1.0),
    "view": (lambda x: x.view(-1), None),
    "item": (lambda x: x[0], None),
    "assignment": (lambda x: x.__setitem__(0, 1.0), None),
    "factory": (lambda x: torch.zeros(3), None),
    "list": (lambda x: torch.stack([x, x]), None),
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("kind", [TimeoutError, ValueError, RuntimeError, TypeError, IndexError, AttributeError])
@pytest.mark.parametrize("site", SITES)
def test_what_a_signal_handler_raises_arrives_and_nothing_is_written_twice(site, kind):
    call, step = SITES[site]
    x = torch.zeros(3)
    call(x)
    x.zero_()

    def handler(*_):
        raise kind("from the handler")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for round_ in range(20):
            done, start = 0, float(x[1])
            deadline = time.monotonic() + 10
            with pytest.raises(kind, match="from the handler"):
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 1e-5 * round_)
                # not `while`: from its end CPython 3.13.0 leaves the `with` around it without a call of its __exit__
                for done in range(10**9):  # noqa: B007 (used below)
                    if time.monotonic() > deadline:
                        break
                    call(x)
                raise AssertionError("the handler's exception was lost")
            if step is not None:
                assert start + done * step <= float(x[1]) <= start + (done + 1) * step
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_write_in_place_counts_as_a_write():
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    y = w * x

    class Interruption(BaseException):
        pass

    def handler(*_):
        raise Interruption

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Interruption):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            while True:
                x.add_(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_mistake_in_a_kernel_of_the_fast_path_is_seen():
    from flambeau.core.calls.registry import op

    @op(name="_mistaken", namespace="special", method=False, grad=None, fast=lambda a: a.no_such_attribute)
    def mistaken(input: torch.Tensor) -> torch.Tensor:
        return input

    try:
        with pytest.raises(AttributeError, match="no_such_attribute"):
            mistaken(torch.ones(2))
    finally:
        from flambeau.core.calls.registry import TABLES

        del TABLES["special"]["_mistaken"]


class Quiet(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


CONTEXTS = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "a device": lambda: torch.device("meta"),
    "a function mode": torch.overrides.TorchFunctionMode,
    "a dispatch mode": Quiet,
    "hooks of saved tensors": lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    "a level of forward mode": torch.autograd.forward_ad.dual_level,
}


def switched():
    """What contexts switch, of the process and of this thread."""
    lists = (states.active, states.without_grad, states.inferring, states.autocasting, states.autocasting_cpu, states.interposed)
    return [*map(len, lists), *(getattr(states.thread, name) for name in SWITCHES)]


SWITCHES = ("grad", "grad_mode", "inference", "modes", "function_modes", "dispatch_modes", "creation_device", "creation_devices")
SWITCHES += ("saved_hooks", "autocast", "levels", "entered", "variables")


def others_may_go_on():
    """Whether another thread gets the lock around what is made late."""
    got = []

    def ask():
        if late._lock.acquire(timeout=5):
            got.append(True)
            late._lock.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return bool(got)


def interrupt_everywhere(name):
    changes = False
    for around in (contextlib.nullcontext(), torch.enable_grad() if name == "no_grad" else torch.no_grad()):
        with around:
            outside, at = switched(), 0
            with Injector(None, interrupt), CONTEXTS[name]():  # CPython 3.13 shows places from the second time on
                changes |= switched() != outside
            while True:
                injector, error, context = Injector(at, interrupt), None, None
                try:
                    with injector:
                        context = CONTEXTS[name]()
                        with context:
                            pass
                except KeyboardInterrupt as raised:
                    error = raised
                if not injector.has_acted:
                    break
                assert error is not None, injector.where
                switches_at_once = name == "set_grad_enabled" and came_at_beginning(error, "__enter__")
                if came_at_beginning(error) or switches_at_once:  # nobody can see to that
                    context.__exit__(None, None, None)
                assert switched() == outside and others_may_go_on(), f"at place {at}, {injector.where}"
                at += 1
            assert at > 2
    assert changes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="trials are forked")
@pytest.mark.parametrize("name", CONTEXTS)
def test_an_interrupt_anywhere_in_a_context_leaves_nothing_switched(name):
    trials.in_child(interrupt_everywhere, name)
