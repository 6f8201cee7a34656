"""Losses as machine code: the bits, the histories and the errors of the functions in Python."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
from machine_code import load_machine_code
from object_counts import assert_counted

import flambeau
from flambeau.core.calls import machine_calls

F = flambeau.nn.functional


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(machine_calls._finders)


def scores(rng: random.Random) -> tuple[Any, Any]:
    """Scores and classes, most of them usual."""
    rows, columns = rng.choice((1, 2, 3, 8, 31)), rng.choice((1, 2, 3, 4, 10, 65))
    x = flambeau.randn(rows, columns) * rng.choice((1, 1, 9, 90))
    if rng.random() < 0.2:
        x = x.t().contiguous().t() if rng.random() < 0.5 else x.double()
    low, high = rng.choice([(0, columns)] * 12 + [(-1, columns), (0, columns + 1)])
    labels = flambeau.randint(low, high, (rng.choice([rows] * 9 + [rows + 1]),))
    if rng.random() < 0.1:
        labels[0] = -100
    return x.requires_grad_(rng.random() < 0.7), labels if rng.random() < 0.9 else labels.to(flambeau.uint8)


OPTIONS: list[dict[str, Any]] = [{}] * 6 + [
    {"reduction": "sum"},
    {"reduction": "none"},
    {"ignore_index": 1},
    {"weight": flambeau.ones(4)},
    {"label_smoothing": 0.1},
    {"label_smoothing": 0},
    {"size_average": False},
    {"reduction": "median"},
]


def outcome(call: Any, x: Any, *more: Any, **options: Any) -> Any:
    """The result, the kind of its node with what that keeps, and the gradients; or the error."""
    x.grad = None
    try:
        result = call(x, *more, **options)
    except Exception as error:
        return type(error), str(error)
    node, told = result.grad_fn, [result.dtype, result.shape, result.detach().numpy().tobytes(), result.requires_grad]
    if node is not None:
        told += [type(node), node.attrs, [type(saved) for saved in node.saved], [id(edge) == id(x) for edge in node.edges]]
        (result.sum() * 3).backward()
    if x.grad is not None:
        told += [x.grad.numpy().tobytes(), x.grad.stride(), x.grad.requires_grad]
    return told


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_losses_of_classes_have_the_same_bits(name: str) -> None:
    rng, call, quick = random.Random(name), getattr(F, name), 0
    flambeau.manual_seed(0)
    for _ in range(600):
        (x, labels), options = scores(rng), rng.choice(OPTIONS)
        outcome(call, x, labels, **options)  # what small matrices need is made the first time
        with machine_calls.python_only():
            expected = outcome(call, x, labels, **options)
        assert outcome(call, x, labels, **options) == expected, (x, labels, options)
        quick += isinstance(expected, list)
    assert quick > 300


def test_squared_differences_have_the_same_bits() -> None:
    rng, quick = random.Random(0), 0
    flambeau.manual_seed(1)
    for _ in range(400):
        shape = tuple(rng.choice((0, 1, 2, 3, 7, 16, 33)) for _ in range(rng.randrange(4)))
        dtype = rng.choice((flambeau.float32, flambeau.float32, flambeau.float64, flambeau.int64))
        x, y = ((flambeau.randn(shape) * 9).to(dtype) for _ in range(2))
        if rng.random() < 0.1:
            y = y.double() if rng.random() < 0.5 else y.reshape(-1)
        if rng.random() < 0.1:
            x = x.t().contiguous().t() if x.dim() == 2 else x
        for tensor in (x, y):
            tensor.requires_grad_(tensor.is_floating_point() and rng.random() < 0.6)
        options = rng.choice([{}] * 4 + [{"reduction": "sum"}, {"reduction": "none"}, {"weight": flambeau.ones(shape)}])

        def gradients(x: Any = x, y: Any = y, options: Any = options) -> Any:
            y.grad = None
            return outcome(F.mse_loss, x, y, **options), None if y.grad is None else y.grad.numpy().tobytes()

        with machine_calls.python_only(), warnings.catch_warnings(action="ignore"):
            expected = gradients()
        with warnings.catch_warnings(action="ignore"):
            assert gradients() == expected, (x, y, options)
        quick += isinstance(expected[0], list)
    assert quick > 200


def test_scores_that_were_written_to() -> None:
    x = flambeau.randn(4, 3, requires_grad=True)
    y = x * 1
    loss = F.cross_entropy(y, flambeau.tensor([0, 1, 2, 0]))
    with flambeau.no_grad():
        y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = F.cross_entropy(x, flambeau.tensor([0, 1, 2, 0]))
    (grad,) = flambeau.autograd.grad(loss, x, create_graph=True)
    assert grad.requires_grad
    with flambeau.inference_mode():
        labels = flambeau.tensor([0, 1, 2, 0])
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        F.cross_entropy(x, labels)


def test_objects_are_counted() -> None:
    x, labels = flambeau.randn(8, 4, requires_grad=True), flambeau.tensor([0, 1, 2, 3, 0, 1, 2, 3])

    def step() -> None:
        x.grad = None
        F.cross_entropy(x, labels).backward()
        F.nll_loss(x, labels).backward()
        F.mse_loss(x, x * 2).backward()

    things: list[Any] = [None, True, False, "mean", -100, x, labels, x._array, labels._array, np.ndarray, np.dtype(np.float32)]
    assert_counted(step, things, 50)
