"""Calls with unusual arguments, in every way that they can be computed: ``python -m tests.programs.unusual_calls [--kinds NAME...]``.

Windows larger than images, padding that cuts more than there is, sizes of 1, empty indices, results of one element: arguments that programs
have by accident. Layouts are random, too. The same call, with gradients,

    reference   by NumPy alone, which the others are held against
    kernels     by native kernels, however small the operands are if ``FLAMBEAU_KERNELS_FROM=1``
    compiled    by ``torch.compile``, three times, and by kernels once more afterwards: compiling leaves nothing behind
    batched     by ``vmap``, of copies of the first operand that are half as large, one and a half times ..., against a loop of calls

What the reference refuses, the others have to refuse.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import flambeau as torch
from flambeau.core.arrays import native

F = torch.nn.functional
SIZES = (1, 2, 3, 5, 8, 17, 33)
WITH_NONE = (0, *SIZES)
FLOATS = (torch.float32, torch.float32, torch.float64, torch.bfloat16)
TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 0.1}  # of the largest element


@dataclass
class Call:
    """``function(*operands)``, which gives a tensor or several."""

    kind: str
    function: Callable[..., Any]
    operands: list[Any]
    arguments: dict[str, Any]

    def __str__(self) -> str:
        shapes = ", ".join(f"{tuple(each.shape)} by {each.stride()} {each.dtype}" for each in self.operands)
        return f"{self.kind}({shapes}; {', '.join(f'{name}={value}' for name, value in self.arguments.items())})"


class Draw(random.Random):
    """Random sizes, operands and arguments."""

    def sizes(self, count: int, among: Sequence[int] = SIZES) -> list[int]:
        return [self.choice(among) for _ in range(count)]

    def numbers(self, count: int, *among: int) -> list[int]:
        return [self.choice(among) for _ in range(count)]

    def sometimes(self, share: float = 0.5) -> bool:
        return self.random() < share

    def tensor(self, *shape: int, dtype: Any = None) -> Any:
        """Normal numbers of one layout or another."""
        generator = torch.Generator().manual_seed(self.randrange(1 << 30))
        x = torch.randn(*shape, generator=generator).to(dtype or self.choice(FLOATS))
        layout = self.choice(("row-major", "row-major", "turned", "every second", "expanded"))
        if layout == "turned" and x.ndim > 1:
            return x.transpose(0, -1).contiguous().transpose(0, -1)
        if layout == "every second" and x.ndim:
            return torch.stack([x, x], -1).flatten(-2)[..., ::2]
        if layout == "expanded" and x.ndim > 1 and x.numel():
            return x[:1].expand(x.shape)
        return x

    def places(self, below: int, *shape: int) -> Any:
        generator = torch.Generator().manual_seed(self.randrange(1 << 30))
        return torch.randint(max(below, 1), shape, generator=generator)

    def dim(self, x: Any) -> int:
        return self.randrange(-x.ndim, x.ndim)


Made = tuple[Callable[..., Any], list[Any], dict[str, Any]]  # a function of operands, these, and what else there is to be told
KINDS: dict[str, Callable[[Draw], Made]] = {}


def kind(make: Callable[[Draw], Made]) -> Callable[[Draw], Made]:
    KINDS[make.__name__] = make
    return make


def bound(function: Callable[..., Any], operands: list[Any], given: dict[str, Any]) -> Made:
    return partial(function, **given), operands, given


# -- images -----------------------------------------------------------------------------------------------------------------------------
@kind
def max_pool(draw: Draw) -> Made:
    d = draw.randint(1, 3)
    given = {"kernel_size": draw.numbers(d, 1, 2, 3, 5), "stride": draw.numbers(d, 1, 2, 3, 7), "padding": draw.numbers(d, 0, 0, 1)}
    given |= {"dilation": draw.numbers(d, 1, 1, 2, 4), "ceil_mode": draw.sometimes()}
    return bound(getattr(F, f"max_pool{d}d"), [draw.tensor(*draw.sizes(d + 2))], given)


@kind
def avg_pool(draw: Draw) -> Made:
    d = draw.randint(1, 3)
    given = {"kernel_size": draw.numbers(d, 1, 2, 3, 5), "stride": draw.numbers(d, 1, 2, 3, 7), "padding": draw.numbers(d, 0, 0, 1, 2)}
    given |= {"ceil_mode": draw.sometimes(), "count_include_pad": draw.sometimes()}
    return bound(getattr(F, f"avg_pool{d}d"), [draw.tensor(*draw.sizes(d + 2))], given)


@kind
def adaptive_pool(draw: Draw) -> Made:
    d = draw.randint(1, 3)
    name = draw.choice(("avg", "max"))
    return bound(getattr(F, f"adaptive_{name}_pool{d}d"), [draw.tensor(*draw.sizes(d + 2))], {"output_size": draw.numbers(d, 1, 2, 7, 20)})


@kind
def padded(draw: Draw) -> Made:
    d = draw.randint(1, 3)
    mode = draw.choice(("reflect", "replicate", "circular", "constant"))
    return bound(F.pad, [draw.tensor(*draw.sizes(d + 2))], {"pad": [draw.randint(-4, 6) for _ in range(2 * d)], "mode": mode})


@kind
def resized(draw: Draw) -> Made:
    d = draw.randint(1, 3)
    smooth = ("linear", "bilinear", "trilinear")[d - 1]
    mode = draw.choice(("nearest", "nearest-exact", "area", smooth, *["bicubic"] * (d == 2)))
    given: dict[str, Any] = {"mode": mode, "antialias": mode in ("bilinear", "bicubic") and draw.sometimes()}
    given["size"] = draw.numbers(d, 1, 2, 5, 9, 40)
    if mode == smooth:
        given["align_corners"] = draw.sometimes()
    return bound(F.interpolate, [draw.tensor(*draw.sizes(d + 2))], given)


@kind
def looked_up(draw: Draw) -> Made:
    d, n, dtype = draw.choice((2, 3)), draw.randint(1, 2), draw.choice((torch.float32, torch.float64))
    operands = [draw.tensor(n, draw.randint(1, 5), *draw.sizes(d), dtype=dtype), draw.tensor(n, *draw.sizes(d), d, dtype=dtype)]
    given = {"mode": draw.choice(("bilinear", "nearest")), "padding_mode": draw.choice(("zeros", "border", "reflection"))}
    return bound(F.grid_sample, operands, {**given, "align_corners": draw.sometimes()})


@kind
def windows(draw: Draw) -> Made:
    given = {"kernel_size": draw.numbers(2, 1, 2, 3), "dilation": draw.numbers(2, 1, 2, 5), "padding": draw.numbers(2, 0, 1, 4)}
    return bound(
        F.unfold, [draw.tensor(draw.randint(1, 2), draw.randint(1, 3), *draw.sizes(2))], {**given, "stride": draw.numbers(2, 1, 2, 3)}
    )


@kind
def convolution(draw: Draw) -> Made:
    d, groups, dtype = draw.randint(1, 3), draw.choice((1, 1, 2, 4)), draw.choice((torch.float32, torch.float64, torch.bfloat16))
    channels, outputs = groups * draw.choice((1, 2, 8)), groups * draw.choice((1, 2, 5, 16))
    operands = [draw.tensor(draw.randint(1, 3), channels, *draw.sizes(d, SIZES[:-1]), dtype=dtype)]
    operands.append(draw.tensor(outputs, channels // groups, *draw.numbers(d, 1, 2, 3, 5), dtype=dtype))
    operands += [draw.tensor(outputs, dtype=dtype)] * draw.sometimes()
    given = {"stride": draw.numbers(d, 1, 2, 3), "padding": draw.numbers(d, 0, 1, 2, 4), "dilation": draw.numbers(d, 1, 1, 2, 3)}
    return bound(getattr(F, f"conv{d}d"), operands, {**given, "groups": groups})


@kind
def transposed_convolution(draw: Draw) -> Made:
    d, groups, dtype = draw.randint(1, 3), draw.choice((1, 1, 2, 4)), draw.choice((torch.float32, torch.float64, torch.bfloat16))
    channels = groups * draw.choice((1, 2, 8))
    operands = [draw.tensor(draw.randint(1, 3), channels, *draw.sizes(d, SIZES[:-2]), dtype=dtype)]
    operands.append(draw.tensor(channels, draw.choice((1, 2, 5)), *draw.numbers(d, 1, 2, 3, 4), dtype=dtype))
    given = {"stride": draw.numbers(d, 1, 2, 3), "padding": draw.numbers(d, 0, 1, 2), "dilation": draw.numbers(d, 1, 1, 2)}
    return bound(getattr(F, f"conv_transpose{d}d"), operands, {**given, "output_padding": draw.numbers(d, 0, 0, 1), "groups": groups})


# -- indices ----------------------------------------------------------------------------------------------------------------------------
@kind
def rows_by_index(draw: Draw) -> Made:
    x = draw.tensor(*draw.sizes(draw.randint(1, 3)))
    dim, count = draw.dim(x), draw.choice(WITH_NONE)
    shape = list(x.shape)
    shape[dim] = count
    index, source = draw.places(x.shape[dim], count), draw.tensor(*shape, dtype=x.dtype)
    name = draw.choice(("index_add", "index_select", "index_reduce"))
    if name == "index_select":
        return lambda x: x.index_select(dim, index), [x], {"dim": dim, "count": count}
    if name == "index_add":
        return lambda x, source: x.index_add(dim, index, source), [x, source], {"dim": dim, "count": count}
    reduce = draw.choice(("mean", "amax", "amin", "prod"))
    return lambda x, source: x.index_reduce(dim, index, source, reduce), [x, source], {"dim": dim, "count": count, "reduce": reduce}


@kind
def elements_by_index(draw: Draw) -> Made:
    x = draw.tensor(*draw.sizes(draw.randint(1, 3)))
    dim = draw.dim(x)
    shape = [draw.randint(0, size) for size in x.shape]
    shape[dim] = draw.choice((0, 1, 3, 9))
    index, source = draw.places(x.shape[dim], *shape), draw.tensor(*shape, dtype=x.dtype)
    name = draw.choice(("gather", "scatter_add", "sum", "mean", "amax"))
    given = {"dim": dim, "shape": shape, "name": name}
    if name == "gather":
        return lambda x: x.gather(dim, index), [x], given
    if name == "scatter_add":
        return lambda x, source: x.scatter_add(dim, index, source), [x, source], given
    return lambda x, source: x.scatter_reduce(dim, index, source, name), [x, source], given


@kind
def embedded(draw: Draw) -> Made:
    count, length = draw.choice((1, 2, 7, 40)), draw.choice(WITH_NONE)
    words, mode = (
        draw.tensor(count, draw.choice(SIZES), dtype=draw.choice((torch.float32, torch.float64))),
        draw.choice(("sum", "mean", "max")),
    )
    index, ends = draw.places(count, length), draw.places(length + 1, draw.choice((0, 1, 4))).sort()[0]
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends])
    if draw.sometimes():
        return lambda words: F.embedding(index, words, padding_idx=0), [words], {"length": length}
    return (
        lambda words: F.embedding_bag(index, words, starts, mode=mode),
        [words],
        {"mode": mode, "length": length, "starts": starts.tolist()},
    )


# -- rows -------------------------------------------------------------------------------------------------------------------------------
@kind
def reduced(draw: Draw) -> Made:
    x = draw.tensor(*draw.sizes(draw.randint(1, 4)))
    dims, keepdim = draw.sample(range(x.ndim), draw.randint(1, x.ndim)), draw.sometimes()
    name = draw.choice(
        ("sum", "mean", "amax", "amin", "logsumexp", "std", "var", "norm", "prod", "cumsum", "cumprod", "logcumsumexp", "kthvalue")
    )
    given = {"name": name, "dims": dims, "keepdim": keepdim}
    if name in ("cumsum", "cumprod", "logcumsumexp"):
        return lambda x: getattr(x, name)(dims[0]), [x], given
    if name == "prod":
        return lambda x: x.prod(dims[0], keepdim), [x], given
    if name == "kthvalue":
        return lambda x: x.kthvalue(1 + x.shape[dims[0]] // 2, dims[0], keepdim)[0], [x], given
    if name == "norm":
        order = draw.choice((1, 2, 3, float("inf")))
        return lambda x: torch.linalg.vector_norm(x, order, dims, keepdim), [x], {**given, "order": order}
    return lambda x: getattr(x, name)(dims, keepdim=keepdim), [x], given


@kind
def normalized(draw: Draw) -> Made:
    x = draw.tensor(draw.randint(1, 3), draw.choice((1, 2, 4, 6)), *draw.sizes(draw.randint(1, 3), SIZES[:-1]))
    channels = x.shape[1]
    weight, bias = draw.tensor(channels, dtype=x.dtype), draw.tensor(channels, dtype=x.dtype)
    groups = draw.choice([n for n in (1, 2, 3, 4, 6) if channels % n == 0])
    name = draw.choice(("batch", "group", "layer", "rms"))
    if name == "batch":
        return lambda x, weight, bias: F.batch_norm(x, None, None, weight, bias, True), [x, weight, bias], {"name": name}
    if name == "group":
        return lambda x, weight, bias: F.group_norm(x, groups, weight, bias), [x, weight, bias], {"name": name, "groups": groups}
    shape = list(x.shape[-draw.randint(1, x.ndim) :])
    function = F.layer_norm if name == "layer" else F.rms_norm
    return lambda x, weight: function(x, shape, weight), [x, draw.tensor(*shape, dtype=x.dtype)], {"name": name, "shape": shape}


@kind
def of_classes(draw: Draw) -> Made:
    count, classes, dtype = draw.choice((1, 2, 33)), draw.choice((1, 2, 5, 100)), draw.choice((torch.float32, torch.float64))
    spatial = draw.sizes(draw.choice((0, 0, 1, 2)), SIZES[:-1])
    target, scores = draw.places(classes, count, *spatial), draw.tensor(count, classes, *spatial, dtype=dtype)
    given = {"reduction": draw.choice(("mean", "sum", "none")), "label_smoothing": draw.choice((0.0, 0.0, 0.1)), "ignore_index": 1}
    weight = draw.tensor(classes, dtype=dtype).abs() + 0.1 if draw.sometimes() else None
    if (target == 1).all():
        given["ignore_index"] = -100
    return bound(lambda x, **given: F.cross_entropy(x, target, weight, **given), [scores], given)


@kind
def softmax(draw: Draw) -> Made:
    x = draw.tensor(*draw.sizes(draw.randint(1, 4), SIZES if draw.sometimes(0.8) else WITH_NONE))
    return bound(draw.choice((F.softmax, F.log_softmax, F.softmin)), [x], {"dim": draw.dim(x)})


@kind
def rearranged(draw: Draw) -> Made:
    x = draw.tensor(*draw.sizes(draw.randint(1, 3), WITH_NONE))
    dim, count = draw.dim(x), draw.randint(-9, 9)
    shape = list(x.shape)
    shape[dim] = draw.choice(WITH_NONE)
    other = draw.tensor(*shape, dtype=x.dtype)
    name = draw.choice(("cat", "roll", "flip", "repeat_interleave", "diff", "unfold", "diag_embed", "tile"))
    given = {"name": name, "dim": dim, "count": count}
    if name == "cat":
        return lambda x, other: torch.cat([x, other, x], dim), [x, other], given
    if name == "unfold":
        size, step = draw.randint(0, x.shape[dim]), draw.randint(1, 5)
        return lambda x: x.unfold(dim, size, step), [x], {**given, "size": size, "step": step}
    calls: dict[str, Callable[[Any], Any]] = {
        "roll": lambda x: x.roll(count, dim),
        "flip": lambda x: x.flip(dim),
        "repeat_interleave": lambda x: x.repeat_interleave(abs(count), dim),
        "diff": lambda x: x.diff(1 + abs(count) % 3, dim),
        "diag_embed": lambda x: torch.diag_embed(x, count % 5 - 2),
        "tile": lambda x: x.tile([abs(count) % 3, 2]),
    }
    return calls[name], [x], given


# -- products ---------------------------------------------------------------------------------------------------------------------------
@kind
def product(draw: Draw) -> Made:
    dtype = draw.choice((torch.float32, torch.float64, torch.bfloat16, torch.float16))
    a, b, c, n = draw.sizes(4, WITH_NONE)
    shapes: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
        "mm": (torch.matmul, ((a, b), (b, c))),
        "bmm": (torch.matmul, ((n, a, b), (n if draw.sometimes(0.7) else 1, b, c))),
        "linear": (F.linear, ((n, a, b), (c, b), (c,))),
        "addmm": (lambda z, x, y: torch.addmm(z, x, y, beta=0.5, alpha=2), ((c,), (a, b), (b, c))),
        "mv": (torch.matmul, ((a, b), (b,))),
        "outer": (torch.outer, ((a,), (b,))),
        "baddbmm": (torch.baddbmm, ((n, a, c), (n, a, b), (n, b, c))),
        "einsum": (lambda x, y: torch.einsum("abc,cbd->dab", x, y), ((a, b, c), (c, b, n))),
        "tensordot": (lambda x, y: torch.tensordot(x, y, 2), ((a, b, c), (b, c, n))),
        "kron": (torch.kron, ((a, 2), (3, b))),
    }
    name = draw.choice(sorted(shapes))
    function, operands = shapes[name]
    return function, [draw.tensor(*shape, dtype=dtype) for shape in operands], {"name": name}


@kind
def distances(draw: Draw) -> Made:
    width, dtype = draw.choice(SIZES), draw.choice((torch.float32, torch.float64))
    x, y = draw.tensor(draw.choice(SIZES), width, dtype=dtype), draw.tensor(draw.choice(SIZES), width, dtype=dtype)
    order = draw.choice((1.0, 2.0, 3.0, float("inf"), 1.5))
    return lambda x, y: torch.cdist(x, y + 0.1, order), [x, y], {"order": order}


@kind
def attention(draw: Draw) -> Made:
    dtype = draw.choice((torch.float32, torch.float64, torch.bfloat16))
    batch, heads, queries, keys = draw.randint(1, 2), draw.choice((1, 3, 4)), *draw.numbers(2, 1, 2, 17, 70)
    width, values = draw.numbers(2, 1, 3, 8, 64)
    shapes = ((batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, values))
    mask = draw.choice((None, torch.randn(queries, keys).to(dtype), torch.rand(batch, 1, queries, keys) > 0.3))
    causal = mask is None and draw.sometimes()
    given = {"is_causal": causal, "mask": None if mask is None else str(mask.dtype)}
    operands = [draw.tensor(*shape, dtype=dtype) for shape in shapes]
    return lambda *x: F.scaled_dot_product_attention(*x, attn_mask=mask, is_causal=causal), operands, given


# -- ways to compute --------------------------------------------------------------------------------------------------------------------
def call_of(seed: int, kinds: Sequence[str]) -> Call:
    draw = Draw(seed)
    name = draw.choice(kinds)
    return Call(name, *KINDS[name](draw))


def outcome(function: Callable[..., Any], operands: Sequence[Any]) -> list[Any] | str:
    """Results and gradients, or the type of what is raised."""
    leaves = [each.detach().requires_grad_(each.is_floating_point()) for each in operands]
    try:
        made = function(*leaves)
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        tracked = [each for each in results if each.requires_grad]
        if tracked:
            sum((each.double() * torch.linspace(-1, 1, each.numel()).double().view(each.shape)).sum() for each in tracked).backward()
    except Exception as error:
        return type(error).__name__
    return [*(each.detach() for each in results), *(each.grad for each in leaves)]


def agree(have: Any, wanted: Any) -> bool:
    """Whether two outcomes are equal but for rounding."""
    if isinstance(have, str) or isinstance(wanted, str):
        return bool(have == wanted)
    for mine, theirs in zip(have, wanted, strict=True):
        if mine is None or theirs is None:
            if mine is not theirs:
                return False
            continue
        if mine.dtype is not theirs.dtype or mine.shape != theirs.shape:
            return False
        a, b = mine.double(), theirs.double()
        finite = b[b.isfinite()].abs()
        largest = max(1.0, finite.max().item()) if finite.numel() else 1.0
        if not torch.allclose(a, b, rtol=0.0, atol=TOLERANCE.get(mine.dtype, 0.0) * largest, equal_nan=True):
            return False
    return True


def _loop(call: Call, stack: Any) -> list[Any]:
    return [outcome(call.function, [each, *call.operands[1:]]) for each in stack]


def disagreements(call: Call) -> Iterator[str]:
    """The ways to compute a call that do not give what the reference does."""
    with native.disabled():
        wanted = outcome(call.function, call.operands)
    if not agree(outcome(call.function, call.operands), wanted):
        yield "kernels"
    compiled = torch.compile(call.function)
    if not all(agree(outcome(compiled, call.operands), wanted) for _ in range(3)):
        yield "compiled"
    if not agree(outcome(call.function, call.operands), wanted):
        yield "kernels, after compiling"
    if isinstance(wanted, str):
        return
    copies = [call.operands[0] * (0.5 + k) for k in range(2)]
    singles = _loop(call, copies)
    if any(isinstance(each, str) for each in singles):
        return
    operands = [torch.stack(copies), *call.operands[1:]]
    batched = outcome(torch.vmap(call.function, in_dims=(0, *[None] * (len(operands) - 1))), operands)
    results = len(singles[0]) - len(call.operands)
    values = [torch.stack([each[i] for each in singles]) for i in range(results)]
    if isinstance(batched, str) or not agree(batched[:results], values):
        yield f"batched: {batched}" if isinstance(batched, str) else "batched"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", default=sorted(KINDS), choices=sorted(KINDS))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 40))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.count):
        torch.set_num_threads(1 + seed % 2)
        call = call_of(seed, options.kinds)
        for way in disagreements(call):
            found[way.partition(":")[0]] += 1
            print(f"seed {seed}: {way}: {call}")
        if seed % 100 == 0:
            torch.compiler.reset()
    print(f"{options.count} calls from seed {options.seed}, {sum(found.values())} differ {dict(found) or ''}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
