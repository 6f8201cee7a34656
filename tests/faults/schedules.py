"""Threads that change at exact places: random timing finds the wide gaps between a test and its use, counting finds the narrow ones.

CPython changes threads where it looks for signals: after a call, where a function begins, where a loop turns. One thread runs a program up
to such a place of this package's code and stands still; another runs one, to its end or up to a place of its own; then the first goes on:

    first    ......place 41                    ...................... end
    second                 ....... place 7                                ........ end

Whoever stands still may have a lock that the other needs; after ``PATIENCE`` it goes on.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from . import programs, threads as busy
from .injection import Injector

PATIENCE = 0.2  # seconds for which one thread stands still at most


class _Meeting:
    """One schedule of two functions: the first stops at its place ``at``, the second at its place ``then`` (None: it runs to its end)."""

    def __init__(self, first: Callable[[], Any], second: Callable[[], Any], at: int, then: int | None):
        self.functions = first, second
        self.injectors = Injector(at, self._first_stops), Injector(then, self._second_stops)
        self.has_ended, self.second_is_there = threading.Event(), threading.Event()
        self.failures: list[str] = []
        self.results: list[Any] = []  # which live until both have ended: their ends would be more for the books, and hide what lacks

    def run(self) -> None:
        """Both, in this order.

        Raises:
            AssertionError: one of them failed.
        """
        self.other = threading.Thread(target=self._run, args=(1,))
        first = threading.Thread(target=self._run, args=(0,))
        first.start()
        first.join()
        if self.other.ident is not None:
            self.other.join()
        places = " and ".join(injector.where for injector in self.injectors if injector.where)
        assert not self.failures, f"threads changed at {places}\n{self.failures[0]}"

    def _run(self, number: int) -> None:
        try:
            with self.injectors[number]:
                self.results.append(self.functions[number]())
        except BaseException:
            self.failures.append(traceback.format_exc())
        (self.second_is_there if number else self.has_ended).set()

    def _first_stops(self) -> None:
        self.other.start()
        self.second_is_there.wait(PATIENCE)

    def _second_stops(self) -> None:
        self.second_is_there.set()
        self.has_ended.wait(PATIENCE)


def drop(torch: Any, _: int = 0) -> list[Any]:
    """Large results, dropped and made again, each with memory of its own; some asked for directly, for operations have a way round."""
    from flambeau.kernels.compiler.memory import empty

    held = [(torch.full((140_000,), value - 1.0) + 1, value) for value in range(3)]
    del held[1]
    for size in (140_000, 160_000, 300_000):
        made = empty((size,), np.float32)
        made.fill(size)
        held.append((torch.from_numpy(made), size))
        del held[0], made
        held.append((held[0][0] * 2, held[0][1] * 2))
    held = [(result[1000:], value) for result, value in held]
    for result, value in held:
        assert result.amin().item() == result.amax().item() == value
    return held


def multiply(torch: Any, _: int = 0) -> None:
    """Products in blocks by the library of BLAS, whose number of threads changes meanwhile."""
    x = torch.full((150, 150), 2.0)
    assert (x @ x).amin().item() == 600.0


def refuse(torch: Any, _: int = 0) -> None:
    """What a transform's function raises undoes what the transform switched on."""

    def wrong(x: Any) -> Any:
        raise ArithmeticError

    for transform in (torch.func.vmap, torch.func.grad, torch.func.jacfwd):
        try:
            transform(wrong)(torch.ones(3))
        except ArithmeticError:
            pass
    assert torch.func.grad(lambda x: (x * x).sum())(torch.ones(3)).sum().item() == 6.0


def switch(torch: Any, _: int = 0) -> None:
    """Modes of this thread alone, on and off."""
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    with torch.autocast("cpu", torch.bfloat16):
        assert (x[None] @ x[:, None]).dtype == torch.bfloat16
    with torch.device("meta"):
        assert torch.ones(3).is_meta
    y = x * 2  # anomaly detection is the process's, here as in PyTorch
    assert y.requires_grad and not y.is_inference() and y.dtype == torch.float32 and not torch.ones(2).is_meta


def programs_of(torch: Any, wanted: Any, shared: Any) -> dict[str, Callable[[], None]]:
    """What is scheduled, by name: first these, then what other faults run, with its results checked."""
    own: dict[str, Callable[[], None]] = {
        function.__name__: (lambda function=function: function(torch))  # type: ignore[misc]
        for function in (drop, multiply, refuse, switch)
    }
    own["views"] = lambda: busy.views_of_shared(torch, shared)
    for rows, results in wanted.items():
        for name in results:
            own[f"{name} {rows}"] = lambda name=name, rows=rows: programs.check(torch, name, int(rows), wanted[rows][name])  # type: ignore[misc]
    return own


OWN = ("drop", "multiply", "refuse", "switch", "views")


def trial(seed: int, count: int, wanted: dict[str, dict[str, Any]], warm: bool) -> dict[str, Any]:
    """``count`` schedules of pairs of programs, of this module's more often; at first uses unless ``warm``."""
    import flambeau as torch

    rng = random.Random(seed)
    shared = programs._ramp(torch, 30, 40).clone().requires_grad_()
    known = programs_of(torch, wanted, shared)
    lengths: dict[str, int] = {}
    stopped = 0
    for number in range(count):
        pair = [rng.choice(OWN) if rng.random() < 0.7 else rng.choice(list(known)) for _ in range(2)]
        if rng.random() < 0.5:
            pair[1] = pair[0]
        for name in pair if warm else ():
            if name not in lengths:
                known[name]()
                lengths[name] = passed(known[name])
        first, second = pair
        at = rng.randrange(max(lengths.get(first, 3000), 1))
        then = None if rng.random() < 0.4 else rng.randrange(max(lengths.get(second, 3000), 1))
        meeting = _Meeting(known[first], known[second], at, then)
        label = f"{first} stopped at {at}, {second} at {then}, number {number}"
        try:
            meeting.run()
        except AssertionError as error:
            raise AssertionError(f"{label}: {error}") from None
        stopped += meeting.injectors[0].has_acted
    _check(torch)
    return {"schedules": count, "stopped": stopped}


def passed(function: Callable[[], Any]) -> int:
    """How many places a function passes, used before."""
    injector = Injector(None, lambda: None)
    with injector:
        function()
    return injector.passed


def _check(torch: Any) -> None:
    """Nothing stayed on, and the books are right."""
    state = programs.state()
    assert state["grad"][0] is True and not state["modes"][0] and state["modes"][1] and state["modes"][2] == 0, state
    busy._check_books()


class _Places(Injector):
    """Counts places, and notes which of them are in one file."""

    def __init__(self, file: str):
        super().__init__(None, lambda: None)
        self.file, self.found = file, []

    def _passes(self, frame: FrameType) -> bool:
        if frame.f_code.co_filename.endswith(self.file):
            self.found.append(self.passed)
        return super()._passes(frame)


def every_place(name: str, file: str) -> dict[str, Any]:
    """As a trial: a program stops at each of its places in a file in turn, while another thread runs it whole."""
    import flambeau as torch
    from flambeau.kernels.compiler.memory import release

    function = programs_of(torch, {}, programs._ramp(torch, 30, 40).clone().requires_grad_())[name]
    function()
    release()  # so that places have the same numbers each time
    places = _Places(file)
    with places:
        function()
    for at in places.found:
        release()
        _Meeting(function, function, at, None).run()
    _check(torch)
    return {"schedules": len(places.found), "stopped": len(places.found)}
