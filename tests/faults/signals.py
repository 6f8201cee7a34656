"""Exceptions that a signal handler raises at random times inside operations: each arrives, and nothing is written twice."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np


class Alarm(Exception):
    """An exception that no library knows."""


KINDS: tuple[type[BaseException], ...] = (Alarm, TimeoutError, ValueError, RuntimeError, TypeError, IndexError, KeyError, AttributeError)
KINDS += (NotImplementedError, ZeroDivisionError, FloatingPointError, OverflowError, MemoryError, OSError, KeyboardInterrupt)


class Counter:
    """Something that a step changes in a known way: ``values()`` are 64-bit numbers, ``after(v)`` what one step makes of them.

    Args:
        start: gives what is stepped, anew.
        step: one step of it.
        after: what a step makes of each value.
        values: its values.
        limit: steps until it is started anew, while ``after`` still tells numbers of steps apart.
    """

    def __init__(
        self, start: Callable[[], Any], step: Callable[[Any], Any], after: Callable[[float], float], values: Any = None, limit: int = 1000
    ):
        self.start, self.step, self.after, self.limit = start, step, after, limit
        self.values = values or (lambda x: x.detach().numpy().ravel())


def counters(torch: Any) -> dict[str, Counter]:
    """Operations that write to their operands, by every way that there is."""
    double = torch.float64

    def make(value: float, *shape: int) -> Callable[[], Any]:
        return lambda: torch.full(shape or (3, 4), value, dtype=double)

    def more(v: float) -> float:
        return v + 1

    one, two, wide = torch.ones(3, 4, dtype=double), torch.full((3, 4), 1.5, dtype=double), torch.ones(200, 150, dtype=double)

    def operator(x: Any) -> None:
        x += 1

    def operator_of_two(x: Any) -> None:
        x += one

    def product(x: Any) -> None:
        x *= two

    def item(x: Any) -> None:
        x[1] += 1

    def parts(x: Any) -> None:
        x[1:, ::2].add_(1)

    def accumulated() -> Any:
        return torch.zeros(3, 4, dtype=double, requires_grad=True)

    def parameters() -> Any:
        params = [torch.nn.Parameter(torch.zeros(n, dtype=double)) for n in (3, 20000)]
        for parameter in params:
            parameter.grad = torch.ones_like(parameter)
        return params, torch.optim.SGD(params, lr=1.0)

    index = torch.arange(3)
    by_name = {
        "add_ number": Counter(make(0), lambda x: x.add_(1), more),
        "add_ tensor": Counter(make(0), lambda x: x.add_(one), more),
        "add_ large": Counter(make(0, 200, 150), lambda x: x.add_(1), more),
        "add_ large tensor": Counter(make(0, 200, 150), lambda x: x.add_(wide), more),
        "add_ alpha": Counter(make(0), lambda x: x.add_(one, alpha=0.5), lambda v: v + 0.5),
        "add_ int": Counter(lambda: torch.zeros(3, 4, dtype=torch.int64), lambda x: x.add_(1), more),
        "add_ float32": Counter(lambda: torch.zeros(3, 4), lambda x: x.add_(1), more),
        "add_ strided": Counter(make(0), lambda x: x.t().add_(1), more),
        "add_ broadcast": Counter(make(0), lambda x: x.add_(one[0]), more),
        "sub_": Counter(make(0), lambda x: x.sub_(1), lambda v: v - 1),
        "mul_": Counter(make(1), lambda x: x.mul_(two), lambda v: v * 1.5),
        "div_": Counter(make(1), lambda x: x.div_(two), lambda v: v / 1.5),
        "sqrt_": Counter(make(1e300), lambda x: x.sqrt_(), np.sqrt, limit=6),
        "square_": Counter(make(1.5), lambda x: x.square_(), lambda v: v * v, limit=6),
        "pow_": Counter(make(1.5), lambda x: x.pow_(2), lambda v: v * v, limit=6),
        "log1p_ large": Counter(make(1e6, 200, 150), lambda x: x.log1p_(), np.log1p, limit=4),
        "leaky_relu_": Counter(make(-1e300), lambda x: torch.nn.functional.leaky_relu(x, 0.25, inplace=True), lambda v: v / 4, limit=400),
        "lerp_": Counter(make(1), lambda x: x.lerp_(torch.zeros_like(x), 0.5), lambda v: v / 2, limit=400),
        "addcmul_": Counter(make(0), lambda x: x.addcmul_(one, one), more),
        "addcdiv_ large": Counter(make(0, 200, 150), lambda x: x.addcdiv_(wide, wide), more),
        "x += 1": Counter(make(0), operator, more),
        "x += y": Counter(make(0), operator_of_two, more),
        "x *= y": Counter(make(1), product, lambda v: v * 1.5),
        "x[1] += 1": Counter(make(0), item, more, lambda x: x[1].numpy()),
        "x[1:, ::2].add_": Counter(make(0), parts, more, lambda x: x[1:, ::2].numpy().ravel()),
        "x.view(-1).add_": Counter(make(0), lambda x: x.view(-1).add_(1), more),
        "cumulated": Counter(make(1, 1, 2), lambda x: x.cumsum_(1), more, lambda x: x.numpy()[0, 1:]),
        "index_add_": Counter(make(0), lambda x: x.index_add_(0, index, one), more),
        "index_put_": Counter(make(0), lambda x: x.index_put_((index,), one, accumulate=True), more),
        "scatter_add_": Counter(make(0), lambda x: x.scatter_add_(0, torch.zeros(3, 4, dtype=torch.int64) + index[:, None], one), more),
        "unsqueeze_": Counter(make(0, 1), lambda x: x.unsqueeze_(0), more, lambda x: np.array([float(x.ndim)]), limit=20),
        "out=": Counter(make(0), lambda x: torch.add(x, 1, out=x), more),
        "out= large": Counter(make(0, 200, 150), lambda x: torch.add(x, 1, out=x), more),
        "gradient": Counter(accumulated, lambda x: (x * 2).sum().backward(), lambda v: v + 2, lambda x: _gradient(x)),
        "optimizer": Counter(parameters, lambda pair: pair[1].step(), lambda v: v - 1, lambda pair: np.array([_same(p) for p in pair[0]])),
    }
    return by_name


def _gradient(x: Any) -> Any:
    return np.zeros(1) if x.grad is None else x.grad.numpy().ravel()


def _same(tensor: Any) -> float:
    array = tensor.detach().numpy()
    assert (array == array[0]).all(), "half a write"
    return float(array[0])


def calls(torch: Any) -> dict[str, Callable[[], Any]]:
    """Operations that make something new, by the templates that wrappers have."""
    functional = torch.nn.functional
    x, wide, image = torch.rand(5, 4), torch.rand(300, 40), torch.rand(2, 3, 12, 12)
    leaf, wide_leaf, index = torch.rand(5, 4, requires_grad=True), torch.rand(300, 40, requires_grad=True), torch.tensor([0, 2, 1])
    weight, layer = torch.rand(4, 3, 3, 3, requires_grad=True), torch.nn.Linear(40, 30)
    even, func = torch.eye(6) + torch.ones(6, 6), torch.func
    places = torch.arange(30)
    edges = torch.sparse_coo_tensor(torch.stack([places, places.flip(0)]), torch.rand(30), (30, 300)).coalesce()
    doubled = torch.library.custom_op("faults::doubled", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")

    def energy(row: Any) -> Any:
        return (row.tanh() * row).sum()

    def autocast() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            layer(wide).sum().backward()

    return {
        "binary": lambda: x + x,
        "number": lambda: 2 - x * 3,
        "unary": lambda: x.exp(),
        "large": lambda: (wide.exp() + wide).sigmoid(),
        "recorded": lambda: leaf * leaf + 1,
        "views": lambda: leaf.t()[1:, None].reshape(-1),
        "getitem": lambda: (x[1], x[:, 2], x[..., None], x[index], wide[1:, ::2]),
        "view": lambda: (x.view(2, -1), x.view(-1), wide.reshape(40, 300)),
        "several": lambda: (x.max(1), x.sort(0), x.split(2), x.unbind(0), torch.topk(wide, 3), torch.aminmax(wide)),
        "reductions": lambda: (x.sum(), x.mean(0), wide.var(1), wide.amax(), wide.logsumexp(1)),
        "lists": lambda: (torch.cat([x, x]), torch.stack([x, leaf]), torch.cat([wide, wide], 1)),
        "products": lambda: (x @ x.t(), wide @ wide.t(), layer(wide)),
        "layers": lambda: (functional.softmax(wide, 1), functional.layer_norm(wide, (40,)), functional.conv2d(image, weight, padding=1)),
        "pools": lambda: functional.max_pool2d(image, 2),
        "losses": lambda: functional.cross_entropy(wide_leaf, torch.arange(300) % 40),
        "random": lambda: (torch.rand(3), torch.randn(20000), functional.dropout(x)),
        "factories": lambda: (torch.zeros(3), torch.full((2, 2), 1.5), torch.arange(9), torch.tensor([1.0, 2.0])),
        "conversions": lambda: (x.double(), wide.to(torch.bfloat16), x.long(), x.tolist(), x[0, 0].item()),
        "compared": lambda: (x < 0.5, torch.where(x > 0.5, x, 0.0), torch.equal(wide, wide)),
        "backward": lambda: torch.autograd.grad((leaf.exp() * leaf).sum(), leaf),
        "vmap": lambda: func.vmap(func.grad(energy))(x),
        "jvp": lambda: (func.jvp(energy, (x,), (x,)), func.jacfwd(torch.sin)(x[0])),
        "hessian": lambda: func.hessian(energy)(x[0]),
        "autocast": autocast,
        "own operation": lambda: doubled(x),
        "decompositions": lambda: (torch.linalg.solve(even, even), torch.linalg.cholesky(even), torch.linalg.eigvalsh(even)),
        "sparse": lambda: torch.sparse.mm(edges, wide),
        "transforms of numbers": lambda: (torch.fft.rfft(wide), torch.special.i0(wide), torch.distributions.Normal(x, 1.0).log_prob(x)),
        "large backward": lambda: functional.silu(wide_leaf * 2).square().mean().backward(),
    }


def _is_awaited(kind: type[BaseException], frame: Any) -> bool:
    """Whether somebody on the stack takes such an exception for an answer."""
    names = {TypeError: ("_wrapfunc", "_iterable_of_int"), AttributeError: ("__get__", "update_wrapper", "<lambda>")}.get(
        kind, ()
    )  # of NumPy and SciPy, of Python
    while frame is not None:
        name, owner = frame.f_code.co_name, type(frame.f_locals.get("self"))
        if name in names or (kind is AttributeError and isinstance(getattr(owner, name, None), property)):
            return True
        frame = frame.f_back
    return False


class Alarms:
    """Exceptions at random times, one after another."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.raised = self.arrived = 0
        self.unraisable: list[str] = []
        self.place = ""
        self.last: BaseException | None = None

    def __enter__(self) -> Alarms:
        self.before = signal.signal(signal.SIGALRM, self._handle), sys.unraisablehook
        sys.unraisablehook = lambda unraisable: self.unraisable.append(f"{unraisable.exc_value!r} in {unraisable.object!r}")
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before[0])
        sys.unraisablehook = self.before[1]

    def _handle(self, signum: int, frame: Any) -> None:
        self.raised += 1
        kind = self.random.choice(KINDS)
        if _is_awaited(kind, frame):
            kind = Alarm
        self.last = kind(f"alarm {self.raised}")
        stack = traceback.extract_stack(frame)[:-5:-1]
        self.place = " < ".join(f"{os.path.basename(entry.filename)}:{entry.lineno} {entry.name}" for entry in stack)
        raise self.last

    def during(self, step: Callable[[], None]) -> None:
        """Repeat ``step`` until the next alarm comes.

        Raises:
            AssertionError: it did not arrive, or something else did.
        """
        raised = self.raised

        def repeat() -> None:  # of its own: what a handler raises as a loop turns can pass by the ``try`` around it (CPython 3.13.0)
            end = time.monotonic() + 20
            while self.raised == raised:
                step()
                assert time.monotonic() < end, "no alarm came"

        try:
            signal.setitimer(signal.ITIMER_REAL, self.random.uniform(3e-5, 1.2e-3))
            repeat()
        except KINDS as error:
            if error is not self.last:
                raise AssertionError(f"something else arrived than {self.last!r}") from error
            self.last = None
            self.arrived += 1


def trial(seed: int, count: int) -> dict[str, Any]:
    """``count`` alarms over all sites; how many were raised, arrived, and which sites wrote twice or in part."""
    import flambeau as torch

    # Interrupted first uses are another scenario's business. Python's import system keeps some exceptions for itself, so nothing may be
    # left to import; kernels for small steps and draws are asked for after some dozens.
    written, callables = counters(torch), calls(torch)
    for _ in range(40):
        for site in written.values():
            site.step(site.start())
        for call in callables.values():
            call()
    wrong: list[str] = []
    lost: list[str] = []
    with Alarms(seed) as alarms:
        sites = [*written, *callables]
        for k in range(count):
            name = sites[(k + seed) % len(sites)]
            before = alarms.raised - alarms.arrived
            if name in callables:
                alarms.during(callables[name])  # type: ignore[arg-type]
            else:
                wrong += _count(name, written[name], alarms)
            if alarms.raised - alarms.arrived != before:
                lost.append(f"{name}: {alarms.last!r} in {alarms.place}")
    from .programs import state

    facts = state()
    assert facts["modes"] == [False, True, 0] and facts["inside"] == [False, False] and facts["grad"] == [True, False, True], facts
    for name, site in written.items():
        x = site.start()
        before = float(site.values(x).ravel()[0])
        site.step(x)
        np.testing.assert_allclose(site.values(x), site.after(before), rtol=1e-6, err_msg=name)
    return {"raised": alarms.raised, "arrived": alarms.arrived, "lost": lost, "wrong": wrong, "unraisable": alarms.unraisable}


def _count(name: str, site: Counter, alarms: Alarms) -> list[str]:
    """One alarm in a loop of a site's steps: its values are those of as many steps as were counted, or of one more."""
    x, n = site.start(), 0

    def step() -> None:
        nonlocal x, n
        if n == site.limit:
            fresh = site.start()
            x, n = fresh, 0
        site.step(x)
        n += 1

    alarms.during(step)
    have = site.values(x)
    value = float(site.values(site.start()).ravel()[0])
    for _ in range(n):
        value = site.after(value)
    if all(np.isclose(v, value, rtol=1e-9, atol=0) or np.isclose(v, site.after(value), rtol=1e-9, atol=0) for v in np.unique(have)):
        return []
    return [f"{name}: {np.unique(have)} after {n} steps, which make {value}"]
