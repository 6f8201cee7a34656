"""Strides of the fast paths' results, those that say nothing included, where operands are views or lie in memory in odd ways."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from flambeau.core.state import active, thread

OPERATIONS = {
    "add": lambda torch, a, b: a + b,
    "mul": lambda torch, a, b: a * b,
    "number": lambda torch, a, b: a + 1,
    "reflected": lambda torch, a, b: 2 - a,
    "tanh": lambda torch, a, b: a.tanh(),
    "exp": lambda torch, a, b: a.exp(),
    "neg": lambda torch, a, b: a.neg(),
    "compare": lambda torch, a, b: a < b,
    "isnan": lambda torch, a, b: a.isnan(),
    "where": lambda torch, a, b: torch.where(a > 0, a, b),
    "maximum": lambda torch, a, b: torch.maximum(a, b),
    "lerp": lambda torch, a, b: torch.lerp(a, b, 0.5),
    "addcmul": lambda torch, a, b: torch.addcmul(a, b, b),
    "clamp": lambda torch, a, b: a.clamp(0, 1),
    "relu": lambda torch, a, b: a.relu(),
    "gelu": lambda torch, a, b: torch.nn.functional.gelu(a),
    "hardtanh": lambda torch, a, b: torch.nn.functional.hardtanh(a),
    "twice": lambda torch, a, b: (a.t() * 2 if a.ndim == 2 else a * 2) + 1,
    "mixed": lambda torch, a, b: (a + 1) * (b * 2),
    "detached": lambda torch, a, b: a.detach() * 2,
    "recorded": lambda torch, a, b: a.detach().requires_grad_() * b,
    "sort": lambda torch, a, b: a.sort(-1)[0] if a.ndim else a,
    "any": lambda torch, a, b: a.any(-1) if a.ndim else a,
    "clone": lambda torch, a, b: a.clone() + 1,
    "cut": lambda torch, a, b: torch.nn.functional.pad(a, (-int(a.shape[-1] > 1), 0)) if a.ndim else a,
}


def draw_view(draw: random.Random, shape: tuple[int, ...]) -> str:
    """An expression for a tensor of a shape and an odd layout: permuted, sliced, expanded, in channels-last order."""
    order = draw.sample(range(len(shape)), len(shape))
    inverse = [order.index(dim) for dim in range(len(shape))]
    base = [shape[dim] for dim in order]
    text = "torch.ones({})"
    kind = draw.choice(["plain", "permuted", "permuted", "sliced", "expanded", "strided", "channels", "given"])
    if kind == "plain":
        return text.format(shape)
    if kind == "given":  # no view, but with memory or an order that it was given after it was made
        other = draw_view(draw, shape)
        return draw.choice(
            [
                f"torch.ones(0).set_({other})",
                f"({other}).data",
                f"with_data(torch.ones(0), {other})",
                f"torch.ones({(shape[-1], *shape[1:-1], shape[0]) if len(shape) > 1 else shape}).transpose_(0, -1)",
                f"torch.ones(400).as_strided_({shape}, {tuple(draw.choice([0, 1, 2, 3, 6]) for _ in shape)})",
            ]
        )
    if kind == "channels" and len(shape) == 4:
        return text.format(shape) + ".contiguous(memory_format=torch.channels_last)"
    if kind == "strided":
        return f"torch.ones(400).as_strided({shape}, {tuple(draw.choice([0, 1, 2, 3, 6]) for _ in shape)})"
    if kind == "sliced":
        return text.format(tuple(2 * n for n in base)) + f"[{', '.join('::2' for _ in base) or '...'}].permute({inverse})"
    if kind == "expanded":
        return text.format([1 if draw.random() < 0.5 else n for n in base]) + f".expand({base}).permute({inverse})"
    return text.format(base) + f".permute({inverse})"


def draw_operands(draw: random.Random) -> tuple[str, str]:
    shape = tuple(draw.choice([1, 1, 2, 3]) for _ in range(draw.randint(0, 4)))
    other = tuple(1 if draw.random() < 0.3 else n for n in shape)[draw.choice([0, 0, 0, 1]) :]
    return draw_view(draw, shape), draw_view(draw, other)


def evaluate(torch: Any, texts: tuple[str, str]) -> Any:
    return [eval(text, {"torch": torch, "with_data": with_data}) for text in texts]


def with_data(tensor: Any, data: Any) -> Any:
    tensor.data = data
    return tensor


@pytest.mark.parametrize("name", OPERATIONS)
def test_fast_paths_give_the_strides_of_the_slow_path(name: str) -> None:
    draw, operation = random.Random(name), OPERATIONS[name]
    for _ in range(100):
        texts = draw_operands(draw)
        a, b = evaluate(flambeau, texts)
        fast = operation(flambeau, a, b)
        active.append(None)
        thread.modes += 1
        try:
            slow = operation(flambeau, a, b)
        finally:
            thread.modes -= 1
            active.pop()
        assert fast.stride() == slow.stride(), f"{name} of {texts}: {tuple(fast.shape)}"
        assert flambeau.equal(fast, slow)


@pytest.mark.oracle
@pytest.mark.parametrize("name", OPERATIONS)
def test_strides_are_those_of_pytorch(name: str) -> None:
    torch = pytorch()
    draw, operation = random.Random(name), OPERATIONS[name]
    for _ in range(200):
        texts = draw_operands(draw)
        ours, theirs = (operation(library, *evaluate(library, texts)) for library in (flambeau, torch))
        assert ours.stride() == theirs.stride(), f"{name} of {texts}: {tuple(theirs.shape)}"


CASTING = {
    "exp": lambda torch, a, b: a.exp(),
    "sigmoid": lambda torch, a, b: a.sigmoid(),
    "reciprocal": lambda torch, a, b: a.reciprocal(),
    "square": lambda torch, a, b: a.square(),
    "pow": lambda torch, a, b: a.pow(2),
    "abs": lambda torch, a, b: a.abs() if a.dtype is not torch.bool else a,
    "neg": lambda torch, a, b: a.neg() if a.dtype is not torch.bool else a,
    "add": lambda torch, a, b: a + b,
    "mul": lambda torch, a, b: b * a,
    "divide": lambda torch, a, b: a / b,
    "compare": lambda torch, a, b: a == b,
    "where": lambda torch, a, b: torch.where(a == 1, a, b),
    "number": lambda torch, a, b: 2.5 * a,
    "atan2": lambda torch, a, b: torch.atan2(a, b) if not (a.is_complex() or b.is_complex()) else a,
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASTING)
def test_strides_of_results_of_other_dtypes_are_those_of_pytorch(name: str) -> None:
    """What is cast lies densely before the order of the result is found; windows that share elements are not dense."""
    torch = pytorch()
    draw, operation = random.Random(name), CASTING[name]
    for _ in range(200):
        dtypes = [draw.choice(["float64", "int64", "bool", "complex64"]) for _ in range(2)]
        texts = [text.replace("torch.ones(", "ones(") for text in draw_operands(draw)]
        if draw.random() < 0.3:
            texts[0] = f"ones((2, 3, 2)).unfold(1, {draw.randint(1, 2)}, 1).transpose({draw.randint(0, 3)}, {draw.randint(0, 3)})"
            texts[1] = "ones(())"
        results = []
        for library in (flambeau, torch):
            operands = []
            for text, dtype in zip(texts, dtypes, strict=True):

                def ones(*shape: Any, library: Any = library, dtype: str = dtype) -> Any:
                    return library.ones(*shape, dtype=getattr(library, dtype))

                operands.append(eval(text, {"ones": ones, "with_data": with_data, "torch": library}))
            results.append(operation(library, *operands))
        ours, theirs = results
        assert ours.stride() == theirs.stride(), f"{name} of {texts} of {dtypes}: {tuple(theirs.shape)}"


@pytest.mark.parametrize("sum_of", ["x.t() + y", "y + x.t()", "x.t().detach() * y"])
def test_operands_in_different_orders(sum_of: str) -> None:
    """The first operand that can tell decides, as in PyTorch."""
    operands = {"x": flambeau.arange(6.0).reshape(2, 3), "y": flambeau.arange(6.0).reshape(3, 2)}
    result = eval(sum_of, operands)
    assert result.stride() == ((2, 1) if sum_of.startswith("y") else (1, 3))
    assert result.tolist() == eval(sum_of.replace("x.t()", "x.t().contiguous()"), operands).tolist()


CHANNELS = [(2, 3, 2, 2), (1, 2, 3, 1), (2, 1, 2, 2), (3, 1, 1, 2), (2, 2, 1, 2, 2), (2, 2, 2, 2, 1), (2, 1, 2, 2, 2), (2, 0, 1, 3)]
CUTS = ["x", "x.transpose(0, 3)", "x.transpose(1, 2)", "x.chunk(2, 2)[0]", "x.chunk(2, 3)[0]", "x[..., :1]", "x[..., 0]", "x[:, :1]"]
REDUCTIONS = [
    f"{name}({dim}{keep})" for name in ("sum", "mean", "amax", "prod", "any") for dim in (-1, 0, 2, 3) for keep in ("", ", keepdim=True")
]
REDUCTIONS += [
    "topk(1, 1)[0]",
    "max(1)[0]",
    "argmax(1)",
    "median(-1)[0]",
    "sort(1)[0]",
    "cumsum(1)",
    "std(-1)",
    "logsumexp(1)",
    "softmax(1)",
]


def in_channels_last(torch: Any, shape: tuple[int, ...], contiguous: bool = False) -> Any:
    form = torch.contiguous_format if contiguous else torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    return torch.arange(math.prod(shape)).double().reshape(shape).clone(memory_format=form)


@pytest.mark.parametrize("shape", CHANNELS)
def test_reductions_of_channels_last(shape: tuple[int, ...], of_pytorch: Callable[..., Any]) -> None:
    """A row-major result of what lies in memory in another order has the strides of a row-major one at sizes of 1 too."""

    def strides(torch: Any) -> list[Any]:
        found = []
        for cut in CUTS:
            x = eval(cut, {"x": in_channels_last(torch, shape)})
            for text in REDUCTIONS:
                if x.ndim > 3 or "3" not in text:
                    try:
                        result = eval(f"x.{text}", {"x": x})
                    except (IndexError, RuntimeError):  # of nothing there is no maximum
                        found.append((cut, text, [], []))
                    else:
                        found.append((cut, text, list(result.shape), list(result.stride())))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deviations of one element
        ours, theirs = strides(flambeau), of_pytorch(strides)
    for have, want in zip(ours, theirs, strict=True):
        assert have == tuple(want)


@pytest.mark.parametrize("name", ["cat", "stack"])
@pytest.mark.parametrize("shape", CHANNELS)
def test_joins_of_channels_last(shape: tuple[int, ...], name: str, of_pytorch: Callable[..., Any]) -> None:
    """Of one channel they are row-major, too; the strides tell."""

    def strides(torch: Any) -> list[Any]:
        x, row_major = in_channels_last(torch, shape), in_channels_last(torch, shape, contiguous=True)
        given = [[x], [x, x], [x, row_major], [row_major, x], [row_major] * 3]
        return [list(getattr(torch, name)(tensors, dim).stride()) for tensors in given for dim in range(-1, len(shape))]

    assert strides(flambeau) == of_pytorch(strides)


def strides_of_channels_last(torch: Any, shape: tuple[int, ...]) -> list[list[int]]:
    x = torch.ones(shape).to(memory_format=torch.channels_last)
    functions = [getattr(torch, name) for name in ("isnan", "isinf", "isfinite", "exp", "neg", "sign", "logical_not", "relu")]
    results = [x == 1, x + 1, 2 - x, x > x, torch.where(x > 0, x, x), x.double(), x.clone(), x.contiguous(), *[f(x) for f in functions]]
    return [list(result.stride()) for result in results]


@pytest.mark.parametrize(
    "shape", [(2, 2, 3, 1), (2, 1, 3, 3), (1, 2, 3, 3), (64, 2, 640, 1), (64, 1, 64, 64), (1, 2, 300, 300), (64, 2, 1, 640)]
)
def test_strides_of_results_of_channels_last(shape: tuple[int, ...], of_pytorch: Callable[..., Any]) -> None:
    """Small ones and those that kernels compute, with sizes of 1, whose steps NumPy takes for none."""
    assert strides_of_channels_last(flambeau, shape) == of_pytorch(lambda torch: strides_of_channels_last(torch, shape))
