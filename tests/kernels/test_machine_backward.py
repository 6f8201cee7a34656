"""Backward passes in machine code: the same gradients, bit for bit, order and errors as in Python, and no object lost or kept too long."""

from __future__ import annotations

import gc
import itertools
import random
import weakref
from typing import Any

import numpy as np
import pytest
from machine_code import load_machine_code
from object_counts import assert_counted, collecting, end_by_signals, fail_everywhere

import flambeau
from flambeau.core.calls import machine_calls
from flambeau.core.tape.node import Node
from flambeau.core.tensor import Tensor
from flambeau.kernels.fastpath.backward import RuleTable
from flambeau.kernels.fastpath.records import Record
from tests.helpers.threads import in_threads, switched_often

F = flambeau.nn.functional


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(machine_calls.engines)


def some(a: Any, dims: int, call: Any) -> Any:
    """``call(a)`` if it has so many dimensions, and two elements in the first."""
    return call(a) if a.dim() >= dims and (not dims or a.shape[0] > 1) else a


def hooked(a: Any) -> Any:
    made = a * 1
    if made.requires_grad:
        made.register_hook(lambda grad: grad * 2)
        made.grad_fn.register_prehook(lambda grads: None)
    return made


def written(a: Any) -> Any:
    made = a * 1
    (made[:1] if made.dim() else made).mul_(2)
    return made


OF_ONE: tuple[Any, ...] = (
    flambeau.relu,
    flambeau.tanh,
    flambeau.exp,
    flambeau.sigmoid,
    flambeau.neg,
    flambeau.square,
    lambda a: a * 2.0,
    lambda a: a * 3,
    lambda a: 2 - a,
    lambda a: 1.5 / (a.abs() + 1),
    lambda a: a**2,
    lambda a: a**3,
    lambda a: a / 2 - 1,
    lambda a: (a.abs() + 0.5).log(),
    lambda a: (a.abs() + 0.5).sqrt(),
    lambda a: a.clone().clamp(-1, 1),
    F.silu,
    lambda a: some(a, 1, lambda a: a.log_softmax(-1)),
    lambda a: some(a, 2, lambda a: a.t()) if a.dim() == 2 else a,
    lambda a: some(a, 1, lambda a: a.transpose(0, -1)),
    lambda a: a.reshape(-1),
    lambda a: a.view(a.shape).unsqueeze(0).squeeze(),
    lambda a: some(a, 1, lambda a: a[1:]),
    lambda a: some(a, 2, lambda a: a[0]),
    lambda a: some(a, 2, lambda a: a[:, :1]),
    lambda a: some(a, 1, lambda a: a.sum(0)),
    lambda a: some(a, 1, lambda a: a.mean(-1)),
    lambda a: some(a, 1, lambda a: a.sum(-1, keepdim=True)),
    lambda a: some(a, 1, lambda a: a.max(0)[0]),
    lambda a: some(a, 1, lambda a: a.chunk(2)[0]),
    lambda a: some(a, 2, lambda a: a.unbind(0)[1]),
    lambda a: some(a, 1, lambda a: flambeau.cat([a, a])),
    hooked,
    written,
    lambda a: a.detach() * 2,
)
OF_TWO: tuple[Any, ...] = (
    flambeau.add,
    flambeau.sub,
    flambeau.mul,
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: flambeau.add(a, b, alpha=2),
    flambeau.maximum,
    lambda a, b: a @ b.t() if a.dim() == b.dim() == 2 else a,
    lambda a, b: F.linear(a, b) if a.dim() == b.dim() == 2 else a,
)


def leaf(rng: random.Random, shape: tuple[int, ...], dtype: Any) -> Tensor:
    made = flambeau.randn(shape, dtype=dtype)
    if rng.random() < 0.1 and made.dim() == 2:
        made = made.t().clone().t()
    if rng.random() < 0.2:
        made = flambeau.nn.Parameter(made)
    return made.requires_grad_(rng.random() < 0.85)


def program(rng: random.Random, leaves: list[Tensor]) -> Tensor | None:
    """Some operations on the leaves and on each other's results; the last result, or its sum."""
    pool = list(leaves)
    for _ in range(rng.randrange(1, 12)):
        a, b = rng.choice(pool), rng.choice(pool)
        try:
            result = rng.choice(OF_ONE)(a) if rng.random() < 0.6 else rng.choice(OF_TWO)(a, b)
        except RuntimeError:  # sizes that do not fit
            continue
        if result.numel() < 3000:
            pool.append(result)
    made = [tensor for tensor in pool if tensor.grad_fn is not None]
    if not made:
        return None
    if rng.random() < 0.3:
        return made[-1].sum() + rng.choice(made).mean()
    return made[-1].sum() if rng.random() < 0.5 else made[-1]


def told(seed: int) -> list[Any]:
    """What can be compared of the passes through a random program."""
    rng = random.Random(seed)
    flambeau.manual_seed(seed)
    dtype = rng.choice([flambeau.float32] * 4 + [flambeau.float64])
    n, m = (rng.choice((1, 2, 3, 4, 8, 33)) for _ in range(2))
    leaves = [leaf(rng, shape, dtype) for shape in ((n, m), (n, m), (m,), (m, n), (), (m, m))]
    seen: list[Any] = []
    for _ in range(rng.choice((1, 1, 2))):
        root = program(rng, leaves)
        if root is None:
            break
        given = None if root.numel() == 1 and rng.random() < 0.9 else flambeau.randn(root.shape, dtype=dtype)
        try:
            root.backward(given, retain_graph=rng.random() < 0.2)
            if rng.random() < 0.3:
                root.backward(given)
        except RuntimeError as error:
            seen.append(str(error))
    return seen + [shown(leaf) for leaf in leaves]


def shown(leaf: Tensor) -> Any:
    grad = leaf.grad
    if grad is None:
        return None
    array = grad._array
    return array.tobytes(), array.shape, array.strides, array.dtype, grad.requires_grad, grad._version


def test_random_graphs_have_the_gradients_of_the_python_engine() -> None:
    for seed in range(1200):
        with machine_calls.python_only():
            expected = told(seed)
        assert told(seed) == expected, seed


RULES: dict[str, Any] = {
    **{f"one {k}": call for k, call in enumerate(OF_ONE)},
    **{f"two {k}": lambda a, call=call: call(a, a.detach() * 2) for k, call in enumerate(OF_TWO)},
    "multiply columns first": lambda a: a * a.detach().transpose(0, -1).clone().transpose(0, -1),
    "divide parts": lambda a: a[:, 1:] / flambeau.cat([a.detach(), a.detach()], -1)[:, 1 : a.shape[1]],
    "tanh of columns first": lambda a: a.transpose(0, -1).tanh(),
    "add rows": lambda a: a + a.detach()[..., :1].clone(),
    "multiply rows": lambda a: a.detach() * a[0],
    "divide": lambda a: a / a.detach()[-1],
    "softmax": lambda a: a.softmax(-1),
    "softmax of columns": lambda a: a.softmax(0),
    "log_softmax of columns": lambda a: a.log_softmax(0),
    "softmax inside": lambda a: flambeau.stack([a, a]).softmax(1) if a.dim() == 3 else a.softmax(0),
    "likelihood": lambda a: F.nll_loss(a.reshape(a.shape[0], -1), flambeau.zeros(a.shape[0], dtype=flambeau.int64)),
    "likelihoods": lambda a: F.nll_loss(a.reshape(a.shape[0], -1), flambeau.zeros(a.shape[0], dtype=flambeau.int64), reduction="sum"),
    "squares": lambda a: F.mse_loss(a, a.detach().exp()),
    "sum of squares": lambda a: F.mse_loss(a.detach() * 2, a, reduction="sum"),
    "cat of columns": lambda a: flambeau.cat([a, a.detach(), a], -1),
    "stack": lambda a: flambeau.stack([a, a.detach(), a]),
    "stack behind": lambda a: flambeau.stack([a, a], -1),
    "expand": lambda a: a.expand(3, *a.shape),
    "mean of one": lambda a: a.mean(0, keepdim=True),
}


# Other powers, other factors, hooks.
PYTHONS = ("one 11", "two 4", f"one {OF_ONE.index(hooked)}")


def given_to(result: Tensor, rng: random.Random) -> Tensor:
    """A gradient of a result, row-major, of one element, or repeating some."""
    made, way = flambeau.randn(result.shape, dtype=result.dtype), rng.random()
    if way < 0.2:
        return flambeau.randn((), dtype=result.dtype).expand(result.shape)
    if way < 0.4 and result.dim():
        return made[:1].expand(result.shape)
    if way < 0.5 and result.dim():
        return made[..., :1].expand(result.shape)
    return made.transpose(0, -1).clone().transpose(0, -1) if way < 0.6 and result.dim() else made


@pytest.mark.parametrize("name", RULES)
def test_rules_give_what_those_in_python_give(name: str) -> None:
    """Bit for bit, and in the same places in memory."""
    rng, taken, rule = random.Random(name), 0, None
    flambeau.manual_seed(0)
    for _ in range(30):
        shape = tuple(rng.choice((1, 2, 3, 5, 16)) for _ in range(rng.choice((1, 2, 2, 2, 3))))
        x = flambeau.randn(shape, dtype=rng.choice((flambeau.float32, flambeau.float32, flambeau.float64)), requires_grad=True)
        try:
            result = RULES[name](x)
        except (IndexError, RuntimeError, ValueError):  # sizes that do not fit
            continue
        node = result.grad_fn
        if node is None or node.is_multi_output:
            continue
        grad = given_to(result, rng)
        with flambeau.no_grad():
            with machine_calls.python_only():
                expected = [told_of(part, edge) for part, edge in zip(node.apply(grad), node.edges, strict=True)]
            got = [told_of(part, edge) for part, edge in zip(node.apply(grad), node.edges, strict=True)]
            assert got == expected, (type(node), shape, grad.stride())
            rule = type(node).apply.__globals__.get("machine0")
            taken += rule is not None and rule(node, grad) is not None
    assert rule is None or taken > 4 or name in PYTHONS


def told_of(part: Any, edge: Any) -> Any:
    if part is None or edge is None:
        return None
    array = part._array
    return array.shape, array.strides, array.dtype, array.tobytes(), part.requires_grad, type(part._view_of), part._storage is None


def step(x: Tensor, w: Tensor, b: Tensor) -> None:
    ((x @ w + b).relu() * 2).sum().backward()


def operands(size: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(flambeau.randn(shape, requires_grad=True) for shape in ((size, size), (size, size), (size,)))  # type: ignore[return-value]


def test_hooks_are_called_as_in_python() -> None:
    def run() -> list[Any]:
        flambeau.manual_seed(0)
        x, w, b = operands()
        calls: list[Any] = []
        y = x @ w
        z = (y + b).relu()
        w.register_hook(lambda grad: calls.append(("w", grad.tolist(), x.grad is None, b.grad is None)))
        b.register_hook(lambda grad: grad * 2)
        y.register_hook(lambda grad: calls.append(("y", grad.tolist())))
        z.grad_fn.register_hook(lambda inputs, outputs: calls.append(("after", len(inputs), outputs[0].tolist())))
        z.grad_fn.register_prehook(lambda outputs: calls.append(("before", outputs[0].tolist())))
        z.retain_grad()
        (z * 2).sum().backward()
        return [*calls, z.grad.tolist(), *map(shown, (x, w, b))]

    with machine_calls.python_only():
        expected = run()
    assert run() == expected and len(expected) == 8


def test_errors_are_those_of_the_python_engine() -> None:
    x, w, b = operands()
    y = (x @ w).exp().sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    y = (x @ w).exp()
    z = (y * 2).sum()
    with flambeau.no_grad():
        y.add_(1)
    grads = [None if t.grad is None else t.grad.clone() for t in (x, w, b)]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    assert all(flambeau.equal(t.grad, grad) for t, grad in zip((x, w), grads[:2], strict=True)) and b.grad is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        flambeau.ones(1).backward()
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()


def test_modes_and_unusual_leaves_are_pythons() -> None:
    x, w, b = operands()
    w.grad = flambeau.randn(4, 4).t()
    before = w.grad.clone()
    b.grad = flambeau.zeros(4, requires_grad=True) * 1
    step(x, w, b)
    with machine_calls.python_only():
        y, v, c = (t.detach().clone().requires_grad_() for t in (x, w, b))
        step(y, v, c)
    assert flambeau.equal(x.grad, y.grad) and flambeau.equal(w.grad, before + v.grad) and flambeau.equal(b.grad, c.grad)
    with pytest.raises(RuntimeError, match="returned nan"), pytest.warns(UserWarning), flambeau.autograd.detect_anomaly():
        (flambeau.zeros(1, requires_grad=True).sqrt() * 0).sum().backward()
    done: list[Any] = []
    handle = w.register_post_accumulate_grad_hook(lambda leaf: done.append(leaf.grad.sum().item()))
    step(x, w, b)
    handle.remove()
    assert len(done) == 1

    class Doubled(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return flambeau.nn.Parameter(grad * 2)  # no plain tensor

    x.grad = None
    (Doubled.apply(x.exp()) + x).sum().backward()
    assert flambeau.equal(x.grad, x.detach().exp() * 2 + 1)


def test_a_leaf_that_became_part_of_the_graph_is_refused() -> None:
    def run() -> str:
        x = flambeau.ones(3, requires_grad=True)
        y = (x * 2).sum()
        with flambeau.no_grad():
            part = x.view(3)
        del part
        x._node = y._node
        with pytest.raises(RuntimeError) as caught:
            y.backward()
        return str(caught.value)

    with machine_calls.python_only():
        expected = run()
    assert run() == expected == "leaf variable has been moved into the graph interior"


def test_classes_with_rules_live_on() -> None:
    """Another class could come to lie where one was, and get its rule."""
    table, kind = RuleTable(), type("Passing", (Node,), {"__slots__": ()})
    table.put(kind, 1, Record())
    reference = weakref.ref(kind)
    del kind
    gc.collect()
    assert reference() is not None and id(reference()) in table.words[:, 0]


# What machine code hands out again and again.
SHARED: dict[str, Any] = {"None": None, "True": True, "False": False, "()": (), "0": 0, "Tensor": Tensor}
SHARED |= {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}


def many(x: Tensor, w: Tensor, b: Tensor) -> None:
    """Leaves that come twice, outputs of several, a rule of Python's, hooks."""
    y = x @ w
    first, second = y.chunk(2)
    z = (first * second + b).exp() - F.silu(x[:2] * w[1:3])
    y.register_hook(lambda grad: grad * 1)
    (z.t().reshape(-1).sum() + F.linear(x, w, b).tanh().mean()).backward()


# Graphs that need no Python at all.
GRAPHS: dict[str, Any] = {
    "products": lambda x, w, b: F.linear(F.linear(F.linear(x, w, b), w, b), x @ w),
    "formulas": lambda x, w, b: (((x @ w + b).relu() * 2 - x / w).exp().tanh().sigmoid() - b).sum(),
    "views": lambda x, w, b: (
        (w.exp().view(16)[4:] * w.view(2, 8)[:, 2:].clone().view(12)).mean()
        + (b.view(2, 2).exp().sum(1) * 2).mean()
        + (w @ x.t()).relu().sum()
    ),
}


@pytest.mark.parametrize("call", [step, many, lambda *given: [graph(*given).sum().backward() for graph in GRAPHS.values()]])
def test_objects_are_counted(call: Any) -> None:
    given = operands()

    def run() -> None:
        for tensor in given:
            tensor.grad = None
        for _ in range(3):
            call(*given)

    assert_counted(run, SHARED, 300, 200)


# Starting machine code may be what fails, which is said and no error of the call.
unraisable = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@unraisable
@pytest.mark.parametrize("name", GRAPHS)
def test_every_allocation_may_fail(name: str) -> None:
    x, w, b = operands()

    def run(root: Tensor, given: Any) -> list[Any]:
        for tensor in (x, w, b):
            tensor.grad = None
        for _ in range(2):
            assert machine_calls.engines[0](root, given, True) is True
        return [shown(tensor) for tensor in (x, w, b)]

    root = GRAPHS[name](x, w, b)
    given = None if root.dim() == 0 else flambeau.randn(root.shape)
    expected, rounds = run(root, given), itertools.count()

    def prepare() -> tuple[Tensor]:
        if next(rounds) % 7 == 0:
            x.grad = w.grad = b.grad = None
        return (GRAPHS[name](x, w, b),)

    failed = fail_everywhere(lambda root: machine_calls.engines[0](root, given, False), SHARED, 300, 150, 1500, prepare)
    assert failed > 300 and run(GRAPHS[name](x, w, b), given) == expected


def test_a_collection_at_every_allocation() -> None:
    with collecting():
        for seed in range(2000, 2060):
            with machine_calls.python_only():
                expected = told(seed)
            assert told(seed) == expected, seed


def test_threads_add_to_the_same_leaves() -> None:
    x, w = flambeau.ones(4, 4, requires_grad=True), flambeau.ones(4, 4, requires_grad=True)

    def work(_: int) -> None:
        for k in range(400):
            y = x * w
            if k % 4 == 0:
                y.register_hook(lambda grad: None)
            y.sum().backward()

    with switched_often():
        in_threads(4, work)
    assert x.grad.eq(1600).all() and w.grad.eq(1600).all() and x.grad._version == w.grad._version


def test_signals_end_passes_as_they_end_python() -> None:
    given = operands()
    end_by_signals(lambda: many(*given), SHARED, 300)
    assert flambeau.core.state.thread.running is None and (given[0] * 2).requires_grad
