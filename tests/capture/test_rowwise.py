"""Groups with operations along rows: one launch, with what single operations give."""

import random

import numpy as np
import pytest

import flambeau as torch
from flambeau.capture.rowwise import LONGEST, SHORTEST
from flambeau.kernels.compiler.target import current
from tests.capture.test_lowering import F, check, needs_kernels, normal

CAUSAL = torch.triu(torch.ones(20, 20), 1).bool()
GROUPS = {
    "softmax": (lambda x: F.softmax(x * 0.3, -1) * 2, lambda dtype: (normal(40, 50, dtype=dtype),)),
    "masked softmax": (
        lambda x, m: F.softmax((x * 0.3).masked_fill(m, float("-inf")), -1),
        lambda dtype: (normal(3, 4, 20, 20, dtype=dtype), CAUSAL),
    ),
    "log_softmax": (lambda x, y: -F.log_softmax(x + y, -1), lambda dtype: (normal(30, 90, dtype=dtype), normal(30, 1, dtype=dtype))),
    "layer_norm": (
        lambda x, y, w, b: F.layer_norm(x + y, (50,), w, b).relu(),
        lambda dtype: (normal(4, 10, 50, dtype=dtype), normal(10, 50, dtype=dtype), normal(50, dtype=dtype), normal(50, dtype=dtype)),
    ),
    "layer_norm of two dimensions": (
        lambda x, w: F.layer_norm(x.exp(), (6, 9), w),
        lambda dtype: (normal(7, 6, 9, dtype=dtype), normal(6, 9, dtype=dtype)),
    ),
    "rms_norm": (lambda x, w: F.rms_norm(x * 3, (70,), w) + x, lambda dtype: (normal(5, 70, dtype=dtype), normal(70, dtype=dtype))),
    "rms_norm in pieces": (
        lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w,
        lambda dtype: (normal(4, 10, 50, dtype=dtype), normal(50, dtype=dtype)),
    ),
    "variance in pieces": (
        lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).add(1e-5).rsqrt() * x,
        lambda dtype: (normal(30, 40, dtype=dtype),),
    ),
    "sums of several dimensions": (lambda x: (x.exp() + 1).sum((1, 2)), lambda dtype: (normal(9, 5, 30, dtype=dtype),)),
    "largest and smallest": (
        lambda x: (x - x.amin(-1, keepdim=True)) / (x.amax(-1, keepdim=True) + 9),
        lambda dtype: (normal(25, 33, dtype=dtype),),
    ),
    "logsumexp": (lambda x: torch.logsumexp(x * 3, -1, keepdim=True) - x, lambda dtype: (normal(25, 33, dtype=dtype),)),
    "deviations": (
        lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5) + (x * 2).var(-1, keepdim=True, correction=0),
        lambda dtype: (normal(25, 33, dtype=dtype),),
    ),
    "one row": (lambda x: F.softmax(x * 0.3, -1) * 2, lambda dtype: (normal(500, dtype=dtype),)),
    "many rows": (lambda x, y: (x * y).sum(-1), lambda dtype: (normal(3000, 17, dtype=dtype), normal(3000, 17, dtype=dtype))),
    "expanded": (lambda x: (x.expand(30, 40) * 2).sum(-1, keepdim=True) + 1, lambda dtype: (normal(30, 1, dtype=dtype),)),
    "strided rows": (lambda x: F.softmax(x[::2, :, :30] * 2, -1), lambda dtype: (normal(8, 5, 40, dtype=dtype),)),
    "whole numbers": (
        lambda x, i: F.softmax(torch.where(i > 3, x, x * i), -1),
        lambda dtype: (normal(20, 30, dtype=dtype), torch.arange(600).view(20, 30) % 7),
    ),
}
OTHERS = {  # right, whatever becomes of it
    "another dimension": lambda x: F.softmax(x * 2, 0) + x.sum(0),
    "across": lambda x: F.softmax(x.t() * 2, -1),
    "short rows": lambda x: F.softmax(x[:, :3] * 2, -1),
    "no rows": lambda x: F.softmax(x[:0] * 2, -1),
    "empty rows": lambda x: ((x[:, :0] * 2).sum(-1), F.softmax(x[:, :0] + 1, -1)),
    "sums read as rows": lambda x: x * 2 - (x * 2).sum(-1),
    "sums as columns": lambda x: x * 2 - (x * 2).sum(-1).unsqueeze(1),
    "half": lambda x: F.softmax(x.bfloat16() * 2, -1) + 1,
    "another dtype": lambda x: F.softmax(x * 2, -1, dtype=torch.float64) + 1,
    "sums in double": lambda x: (x * 2).sum(-1, keepdim=True, dtype=torch.float64) + x,
    "written to": lambda x: F.softmax((x + 1).mul_(2), -1).add_(1),
    "a group around an outsider": lambda x: F.softmax(x * 2, -1) + (x * 2).cumsum(-1),
    "two kinds of rows": lambda x: (x * 2).reshape(16, 2, 32).sum((1, 2)).sum() + F.softmax(x * 2, -1),
}


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", GROUPS)
def test_a_row_operation_and_its_neighbours_are_one_launch(name, dtype):
    function, make = GROUPS[name]
    run = check(function, *make(dtype), python=())
    assert len(run.plan.steps) == 1 or not current().has_masks, [step.node.label for step in run.plan.steps]


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_not_fit_is_right(name):
    check(OTHERS[name], normal(32, 32))


@pytest.mark.parametrize("length", [SHORTEST - 1, SHORTEST, LONGEST // 4, LONGEST // 4 + 1])
def test_rows_of_extreme_lengths(length):
    check(lambda x: F.softmax(x * 2, -1) + x.sum(-1, keepdim=True), normal(3, length))


def test_gradients_of_row_operations():
    weight, bias = (torch.nn.Parameter(normal(40, dtype=torch.float64)) for _ in range(2))

    def step(x):
        return F.log_softmax(F.layer_norm(F.softmax(x * weight, -1) * 4, (40,), weight, bias) * 2, -1).square()

    check(step, normal(30, 40, dtype=torch.float64), parameters=[weight, bias])


@pytest.mark.parametrize(
    "row", [[float("nan")] + [1.0] * 19, [float("-inf")] * 20, [float("inf")] + [1.0] * 19, [88.0, -88.0] * 10], ids=str
)
def test_rows_with_extreme_values(row):
    x = torch.stack([normal(20), torch.tensor(row)])
    for function in (
        lambda x: F.softmax(x * 1.5, -1) + 0,
        lambda x: F.log_softmax(x * 1.5, -1) * 2,
        lambda x: (x * 1.5).amax(-1, keepdim=True) + 1,
        lambda x: torch.logsumexp(x * 1.5, -1, keepdim=True) + 1,
        lambda x: F.layer_norm(x * 1.5, (20,)) * 2,
    ):
        check(function, x)


@needs_kernels
def test_results_do_not_depend_on_threads():
    x = normal(2000, 100)
    before = torch.get_num_threads()
    made = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made.append(check(lambda x: (F.softmax(x * 2, -1) * x).sum(-1), x)([x._array])[0].copy())
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*made)


def drawn(rng):
    """A program of row operations, element-wise ones and values of rows."""
    along = [
        lambda x: F.softmax(x, -1),
        lambda x: F.log_softmax(x, -1),
        lambda x: F.layer_norm(x, x.shape[-1:]),
        lambda x: F.rms_norm(x, x.shape[-1:]),
    ]
    reduced = [lambda x: x.sum(-1, keepdim=True) * 0.1, lambda x: x.mean(-1, keepdim=True), lambda x: x.amax(-1, keepdim=True)]
    alone = [torch.tanh, torch.sigmoid, lambda x: x * 0.5 + 1, torch.relu, torch.square]
    chosen = [(rng.choice((along, along, reduced, alone, alone)), rng.random(), rng.random()) for _ in range(rng.randint(3, 9))]

    def program(x, y):
        have = [x, y]
        for functions, which, place in chosen:
            value = have[int(place * len(have))]
            if functions is along and value.shape[-1] == 1:
                functions = alone
            value = functions[int(which * len(functions))](value)
            have.append((value, value + have[int(which * len(have))], value * torch.sigmoid(have[-1]))[int(place * 3)])
        return tuple(have[2:])

    return program


@pytest.mark.parametrize("seed", range(12))
def test_drawn_programs(seed):
    rng = random.Random(seed)
    rows, length = rng.randint(1, 40), rng.choice((16, 17, 31, 64, 100))
    check(drawn(rng), normal(rows, length), normal(*rng.choice([(rows, length), (length,), (rows, 1)])))
