"""The operations that programs consist of: one function a family, which draws a program."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .drawing import FLOATS, NUMBERS, WIDE, Bound, Draw, Program

Family = Callable[[Draw], Program]
FAMILIES: dict[str, tuple[int, Family]] = {}


def family(weight: int) -> Callable[[Family], Family]:
    """Decorator: a family, and how often it is drawn."""

    def add(function: Family) -> Family:
        FAMILIES[function.__name__] = (weight, function)
        return function

    return add


def draw_program(seed: int) -> Program:
    """The program that follows from a seed."""
    draw = Draw(seed)
    names = list(FAMILIES)
    name = draw.rng.choices(names, [FAMILIES[family_name][0] for family_name in names])[0]
    return FAMILIES[name][1](draw)


def _is_half(dtype: str) -> bool:
    return dtype in ("float16", "bfloat16")


# -- element by element --------------------------------------------------------------------------------------------------------------------
_EXACT: dict[str, tuple[int, Any]] = {
    "add": (2, lambda t, x, y: x + y),
    "add alpha": (2, lambda t, x, y: t.add(x, y, alpha=2)),
    "sub": (2, lambda t, x, y: x - y),
    "mul": (2, lambda t, x, y: x * y),
    "number add": (1, lambda t, x: x + 3),
    "number sub": (1, lambda t, x: 2 - x),
    "number mul": (1, lambda t, x: x * 2),
    "maximum": (2, lambda t, x, y: t.maximum(x, y)),
    "minimum": (2, lambda t, x, y: t.minimum(x, y)),
    "eq": (2, lambda t, x, y: x == y),
    "lt": (2, lambda t, x, y: x < y),
    "ge number": (1, lambda t, x: x >= 1),
    "logical_and": (2, lambda t, x, y: t.logical_and(x, y)),
    "where": (2, lambda t, x, y: t.where(x > y, x, y)),
    "abs": (1, lambda t, x: x.abs()),
    "square": (1, lambda t, x: x.square()),
    "relu": (1, lambda t, x: t.nn.functional.relu(x)),
    "clamp": (1, lambda t, x: x.clamp(-1, 2)),
    "masked_fill": (1, lambda t, x: x.masked_fill(x > 1, 2)),
    "sign": (1, lambda t, x: x.sign()),
    "remainder": (1, lambda t, x: t.remainder(x, 2)),
    "chain": (2, lambda t, x, y: (x + y) * x - y),
}
_FLOAT_EXACT: dict[str, tuple[int, Any]] = {
    "leaky_relu": (1, lambda t, x: t.nn.functional.leaky_relu(x, 0.5)),
    "hardtanh": (1, lambda t, x: t.nn.functional.hardtanh(x, -2.0, 1.0)),
    "lerp": (2, lambda t, x, y: t.lerp(x, y, 0.5)),
    "addcmul": (2, lambda t, x, y: t.addcmul(x, x, y, value=2)),
    "threshold": (1, lambda t, x: t.nn.functional.threshold(x, 0.5, -1.0)),
    "isnan": (1, lambda t, x: t.isnan(x)),
}


@family(16)
def exact_elements(d: Draw) -> Program:
    name = d.one_of([*_EXACT, *_FLOAT_EXACT])
    count, call = {**_EXACT, **_FLOAT_EXACT}[name]
    dtype = d.one_of(FLOATS if name in _FLOAT_EXACT else NUMBERS)
    if dtype == "uint8" and name in ("number sub", "clamp"):
        dtype = "int64"
    shape = d.shape()
    d.operand(shape, dtype)
    if count == 2:
        d.operand(d.broadcast(shape), dtype)
        if d.chance(0.2):
            d.operands.reverse()
    # A half's gradient through a chain, and of what was broadcast, is rounded between: by whom, the libraries are free to say.
    loose = Bound(4, 40) if _is_half(dtype) else Bound()
    grads = Bound(4, 40, 1) if _is_half(dtype) else Bound()
    return Program(f"{name} {dtype}", d.operands, call, loose if name in ("chain", "addcmul") else Bound(), _summed(d, grads, shape))


def _summed(d: Draw, bound: Bound, shape: tuple[int, ...]) -> Bound:
    """``bound`` for gradients, which are sums where operands are expanded: opmath may be rounded before and after."""
    if not bound.steps:
        return bound
    size = math.prod(shape)
    return Bound(bound.steps, max(bound.scale, 3.0 * math.sqrt(size)), 0)


_MIXED = {
    "add": lambda t, x, y: x + y,
    "mul": lambda t, x, y: x * y,
    "sub": lambda t, x, y: x - y,
    "lt": lambda t, x, y: x < y,
    "where": lambda t, x, y: t.where(y > 0, x, y),
}


@family(5)
def mixed_dtypes(d: Draw) -> Program:
    shape, name = d.shape(), d.one_of(list(_MIXED))
    first, second = d.one_of(("float32", "float64", "int64", "int32", "bool", "uint8")), d.one_of(("float32", "float64", "int64", "bool"))
    if name == "sub" and "bool" in (first, second):
        name = "add"
    d.operand(shape, first)
    d.operand(d.broadcast(shape), second)
    return Program(f"{name} of {first} and {second}", d.operands, _MIXED[name], grad_bound=Bound())


# Values, and how many units in the last place two libraries may differ by; gradients have more roundings.
_REAL: dict[str, tuple[int, str, float, Any]] = {
    "exp": (1, "real", 4, lambda t, x: x.exp()),
    "log": (1, "positive", 6, lambda t, x: x.log()),
    "sqrt": (1, "positive", 2, lambda t, x: x.sqrt()),
    "rsqrt": (1, "positive", 4, lambda t, x: x.rsqrt()),
    "tanh": (1, "real", 6, lambda t, x: x.tanh()),
    "sigmoid": (1, "real", 6, lambda t, x: x.sigmoid()),
    "sin": (1, "real", 4, lambda t, x: x.sin()),
    "cos": (1, "real", 4, lambda t, x: x.cos()),
    "erf": (1, "real", 6, lambda t, x: x.erf()),
    "expm1": (1, "real", 6, lambda t, x: x.expm1()),
    "log1p": (1, "positive", 6, lambda t, x: x.log1p()),
    "atan": (1, "real", 6, lambda t, x: x.atan()),
    "reciprocal": (1, "positive", 2, lambda t, x: x.reciprocal()),
    "pow": (1, "positive", 8, lambda t, x: x**2.5),
    "gelu": (1, "real", 12, lambda t, x: t.nn.functional.gelu(x)),
    "gelu tanh": (1, "real", 12, lambda t, x: t.nn.functional.gelu(x, approximate="tanh")),
    "silu": (1, "real", 8, lambda t, x: t.nn.functional.silu(x)),
    "softplus": (1, "real", 8, lambda t, x: t.nn.functional.softplus(x)),
    "elu": (1, "real", 8, lambda t, x: t.nn.functional.elu(x)),
    "logsigmoid": (1, "real", 8, lambda t, x: t.nn.functional.logsigmoid(x)),
    "mish": (1, "real", 12, lambda t, x: t.nn.functional.mish(x)),
    "hardswish": (1, "real", 6, lambda t, x: t.nn.functional.hardswish(x)),
    "div": (2, "positive", 2, lambda t, x, y: x / y),
    "atan2": (2, "positive", 6, lambda t, x, y: t.atan2(x, y)),
    "logaddexp": (2, "real", 8, lambda t, x, y: t.logaddexp(x, y)),
    "xlogy": (2, "positive", 6, lambda t, x, y: t.xlogy(x, y)),
    "chain": (2, "real", 12, lambda t, x, y: (x * y).exp() + x),
}


@family(12)
def real_elements(d: Draw) -> Program:
    name = d.one_of(list(_REAL))
    count, values, steps, call = _REAL[name]
    shape, dtype = d.shape(), d.one_of(FLOATS)
    d.operand(shape, dtype, values)
    if count == 2:
        d.operand(d.broadcast(shape), dtype, values)
    scale = 60.0 if name in ("chain", "pow", "rsqrt", "div", "reciprocal", "xlogy") else 8.0
    terms = max(math.prod(shape) // operand.places for operand in d.operands)
    return Program(f"{name} {dtype}", d.operands, call, Bound(steps, 1.0), _of_sums(dtype, steps + 4, scale, terms))


def _of_sums(dtype: str, steps: float, scale: float, terms: int) -> Bound:
    """The bound of sums of ``terms`` numbers up to ``scale`` each of which has errors of its own."""
    return Bound(steps, scale * max(1.0, 2 * math.sqrt(terms)), 0) if terms <= 1 else Bound(steps, scale * math.sqrt(terms) * 3, terms)


def _whole_sums(dtype: str, size: float, terms: int) -> Bound:
    """The bound of sums of ``terms`` whole numbers up to ``size``: none, unless float32 may not hold them all."""
    return Bound(1, size, terms) if dtype == "float32" and size * terms >= 1 << 24 else Bound()


# -- reductions ----------------------------------------------------------------------------------------------------------------------------
_REDUCTIONS: dict[str, tuple[str, Any]] = {
    "sum": ("any", lambda t, x, d, k: x.sum(d, k)),
    "nansum": ("exact", lambda t, x, d, k: x.nansum(d, k)),  # PyTorch's adds opmath up in opmath
    "mean": ("float", lambda t, x, d, k: x.mean(d, k)),
    "amax": ("any", lambda t, x, d, k: x.amax(d, k)),
    "amin": ("any", lambda t, x, d, k: x.amin(d, k)),
    "any": ("flat", lambda t, x, d, k: x.any(d, k)),
    "all": ("flat", lambda t, x, d, k: x.all(d, k)),
    "count_nonzero": ("flat", lambda t, x, d, k: x.count_nonzero(d)),
    "norm 0": ("wide", lambda t, x, d, k: t.linalg.vector_norm(x, 0, d, k)),
    "norm 1": ("wide", lambda t, x, d, k: t.linalg.vector_norm(x, 1, d, k)),
    "norm 2": ("wide", lambda t, x, d, k: t.linalg.vector_norm(x, 2, d, k)),
    "norm inf": ("wide", lambda t, x, d, k: t.linalg.vector_norm(x, math.inf, d, k)),
}


@family(20)
def exact_reductions(d: Draw) -> Program:
    name = d.one_of(list(_REDUCTIONS))
    kinds, call = _REDUCTIONS[name]
    dtype = d.one_of(
        {"any": (*NUMBERS, "bool"), "flat": (*NUMBERS, "bool"), "float": FLOATS, "wide": WIDE, "exact": (*WIDE, "int64", "bool")}[kinds]
    )
    shape = d.shape()
    dims, keepdim = d.dims(len(shape)), d.chance(0.5)
    whole = d.chance(0.15) and name not in ("amax", "amin")
    operand = d.operand(shape, dtype, grad=name != "norm 0")
    given = None if whole else dims
    bound = Bound(4, 3) if name in ("mean", "norm 2") else Bound()
    # A norm's gradient divides by the result, an extreme's by the number of equals, and opmath are rounded before they are summed.
    divides = name in ("norm 2", "norm inf", "amax", "amin", "mean")
    grads = Bound(8, 3, operand.repeats) if divides or _is_half(dtype) else Bound()
    return Program(f"{name} {dtype} over {given}, {keepdim}", d.operands, lambda t, x: call(t, x, given, keepdim), bound, grads)


@family(3)
def products_of_signs(d: Draw) -> Program:
    shape, dtype = d.shape(), d.one_of(("float32", "float64", "int64"))
    dim = d.one_of([None, *range(len(shape))])
    d.operand(shape, dtype, "signs")
    return Program(f"prod {dtype} over {dim}", d.operands, lambda t, x: x.prod() if dim is None else x.prod(dim), Bound(), Bound())


@family(6)
def places_of_extremes(d: Draw) -> Program:
    """Which of equal elements is named, only the reference must agree about."""
    name = d.one_of(("argmax", "argmin", "max", "min", "aminmax", "max of all"))
    shape, dtype = d.shape(), d.one_of(NUMBERS)
    dim, keepdim = d.rng.randrange(len(shape)), d.chance(0.5)
    d.operand(shape, dtype, d.one_of(("whole", "real")), grad=False)

    def call(t: Any, x: Any) -> Any:
        if name == "max of all":
            return (x.max(), x.min())
        if name == "aminmax":
            return tuple(x.aminmax(dim=dim, keepdim=keepdim))
        if name in ("max", "min"):
            values, places = getattr(x, name)(dim, keepdim)
            return values, x.gather(dim, places if keepdim else places.unsqueeze(dim)), places
        places = getattr(x, name)(dim, True)
        return x.gather(dim, places), places

    own = 1 if name in ("argmax", "argmin", "max", "min") else 0
    return Program(f"{name} {dtype} over {dim}, {keepdim}", d.operands, call, own=own)


_MOMENTS: dict[str, Any] = {
    "var": lambda t, x, d, k: x.var(d, correction=1, keepdim=k),
    "std": lambda t, x, d, k: x.std(d, correction=0, keepdim=k),
    "logsumexp": lambda t, x, d, k: x.logsumexp(d, k),
    "norm 3": lambda t, x, d, k: t.linalg.vector_norm(x, 3, d, k),
}


@family(5)
def real_reductions(d: Draw) -> Program:
    name = d.one_of(list(_MOMENTS))
    shape, dtype = d.shape(), d.one_of(WIDE)
    dims, keepdim = d.dims(len(shape)), d.chance(0.5)
    n = math.prod(shape[dim] for dim in dims)
    if n < 2:
        dims, n = tuple(range(len(shape))), math.prod(shape)
    # Where all that is reduced is one element repeated, the spread is 0 and its root has no slope; powers of whole numbers are exact.
    operand = d.operand(shape, dtype, "whole" if name == "norm 3" else "real", grad=name in ("logsumexp", "norm 3"))
    spread = 8 + 6 * math.sqrt(n)
    bound = {"var": Bound(spread, 4), "std": Bound(64 * spread, 4), "logsumexp": Bound(spread, 12), "norm 3": Bound(16)}[name]
    call = lambda t, x: _MOMENTS[name](t, x, dims, keepdim)  # noqa: E731
    grads = Bound(16 + 2 * math.sqrt(n), 3, operand.repeats)
    return Program(f"{name} {dtype} over {dims}, {keepdim}", d.operands, call, bound, grads)


@family(2)
def cumulative(d: Draw) -> Program:
    shape, dtype = d.shape(), d.one_of(("float32", "float64", "int64"))
    dim = d.rng.randrange(len(shape))
    x = d.operand(shape, dtype)
    grads = _whole_sums(dtype, 3 * shape[dim], x.repeats)
    return Program(f"cumsum {dtype} along {dim}", d.operands, lambda t, x: x.cumsum(dim), Bound(), grads)


# -- rows: softmax, normalization, losses --------------------------------------------------------------------------------------------------
@family(8)
def softmaxes(d: Draw) -> Program:
    name, dtype = d.one_of(("softmax", "log_softmax")), d.one_of(FLOATS)
    shape = d.shape()
    dim = d.rng.randrange(-len(shape), len(shape))
    operand = d.operand(shape, dtype, "real")
    n, terms = shape[dim], operand.repeats
    steps = 8 + math.sqrt(n)
    bound = Bound(steps, 12.0 if name == "log_softmax" else 0.0)
    call = lambda t, x: getattr(t, name)(x, dim)  # noqa: E731
    return Program(f"{name} {dtype} along {dim}", d.operands, call, bound, _of_sums(dtype, steps * 4, 3.0 * math.sqrt(n), terms))


def _norm_program(d: Draw, text: str, call: Any, averaged: int, summed: int) -> Program:
    """Of a normalization that averages over ``averaged`` elements and sums gradients of parameters over ``summed``."""
    of_input, *of_parameters = [operand.repeats for operand in d.operands if operand.needs_grad]
    # Adding up one number again and again rounds the same way each time, and a mean that is off by that is far from its only element.
    steps = 32 + (8 * math.sqrt(averaged) if of_input == 1 else averaged)
    grads = (Bound(4 * steps, 16, of_input), *[Bound(4 * steps, 16, summed * repeats) for repeats in of_parameters])
    return Program(text, d.operands, call, Bound(steps, 8), grads)


@family(5)
def layer_norms(d: Draw) -> Program:
    name = d.one_of(("layer_norm", "rms_norm"))
    count = d.rng.randrange(3 if name == "layer_norm" else 2)
    dtype = d.one_of(WIDE if count else FLOATS)  # PyTorch adds up the gradients of parameters in opmath, which stand still at 2048 ones
    shape = d.shape(2)
    last = d.rng.randint(1, len(shape) - 1)
    normalized = shape[-last:]
    if math.prod(normalized) < 4:
        shape, normalized = (*d.shape(1, 3, size=d.one_of((1024, 1100, 4200))), 8), (8,)
    d.operand(shape, dtype, "real", repeats=d.chance(0.5))
    for _ in range(count):
        d.operand(normalized, dtype, "real")

    def call(t: Any, x: Any, *parameters: Any) -> Any:
        return getattr(t.nn.functional, name)(x, normalized, *parameters, eps=0.1)

    width = math.prod(normalized)
    return _norm_program(d, f"{name} {dtype} over {normalized} with {count} parameters", call, width, math.prod(shape) // width)


@family(6)
def channel_norms(d: Draw) -> Program:
    name, dtype = d.one_of(("batch_norm", "batch_norm fixed", "group_norm", "instance_norm")), d.one_of(WIDE)
    size = d.one_of((8192, 9000, 20_000, 33_000))
    channels, n = d.one_of((1, 2, 4, 6, 8, 16, 32, 33, 64)), d.one_of((2, 3, 4, 8, 17))
    rest = max(2, size // (channels * n))
    form = d.rng.randrange(3)
    width = d.one_of((2, 3, 7, 8, 16))
    shape: tuple[int, ...] = (n, channels, rest) if form == 0 else (n, channels, max(2, rest // width), width)
    if form == 2 and name.startswith("batch"):
        shape = (max(2, size // channels), channels)
    groups = d.one_of([g for g in (1, 2, 4, 8) if channels % g == 0])
    d.operand(shape, dtype, "real", repeats=d.chance(0.3))
    count = d.one_of((0, 2))
    for _ in range(count):
        d.operand((channels,), dtype, "real")
    if name == "batch_norm fixed":
        d.operand((channels,), dtype, "real", grad=False)
        d.operand((channels,), dtype, "positive", grad=False)

    def call(t: Any, x: Any, *rest: Any) -> Any:
        f = t.nn.functional
        weight, bias = rest[:2] if count else (None, None)
        if name == "group_norm":
            return f.group_norm(x, groups, weight, bias, eps=0.1)
        if name == "instance_norm":
            return f.instance_norm(x, weight=weight, bias=bias, eps=0.1)
        if name == "batch_norm":
            mean, variance = t.zeros(channels, dtype=x.dtype), t.ones(channels, dtype=x.dtype)
            return f.batch_norm(x, mean, variance, weight, bias, training=True, eps=0.1), mean, variance
        return f.batch_norm(x, rest[-2], rest[-1], weight, bias, training=False, eps=0.1)

    averaged = math.prod(shape) // channels
    if name == "group_norm":
        averaged = math.prod(shape) // (shape[0] * groups)
    program = _norm_program(d, f"{name} {dtype}, {count} parameters, {groups} groups", call, averaged, math.prod(shape) // channels)
    program.plain = True  # PyTorch's gradients are wrong for some layouts of cotangents and of running moments
    return program


@family(5)
def class_losses(d: Draw) -> Program:
    name, dtype = d.one_of(("cross_entropy", "nll_loss", "smoothed")), d.one_of(WIDE)
    classes = d.one_of((2, 3, 5, 10, 31, 64, 100, 513))
    rest = max(2, d.one_of((8192, 9000, 20_000, 33_000)) // classes)
    inner = d.one_of(((), (), (4,), (3, 5)))
    n = max(1, rest // math.prod(inner))
    reduction, weighted = d.one_of(("none", "sum", "mean")), d.chance(0.3)
    x = d.operand((n, classes, *inner), dtype, "real", repeats=d.chance(0.4))
    d.operand((n, *inner), "int64", classes, grad=False)
    if weighted:
        d.operand((classes,), dtype, "positive", grad=False)
    ignore = d.one_of((-100, 0, 1))

    def call(t: Any, x: Any, target: Any, weight: Any = None) -> Any:
        f = t.nn.functional
        if name == "nll_loss":
            return f.nll_loss(x, target, weight, reduction=reduction, ignore_index=ignore)
        return f.cross_entropy(x, target, weight, reduction=reduction, ignore_index=ignore, label_smoothing=0.1 * (name == "smoothed"))

    count = n * math.prod(inner)
    bound = Bound(32 + 2 * math.sqrt(count) + math.sqrt(classes), 12.0 * (count if reduction == "sum" else 1))
    grads = Bound(64 + 4 * math.sqrt(classes), 8, x.repeats)
    text = f"{name} {dtype} {reduction}, {weighted}, {ignore}"
    return Program(text, d.operands, call, bound, grads, plain=True)  # PyTorch's nll_loss of images wants contiguous inputs


@family(4)
def plain_losses(d: Draw) -> Program:
    name, dtype = (
        d.one_of(("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")),
        d.one_of(WIDE),
    )
    shape, reduction = d.shape(), d.one_of(("none", "sum", "mean"))
    values = "chance" if name == "binary_cross_entropy" else "real" if name.endswith("logits") else "whole"
    x = d.operand(shape, dtype, values)
    d.operand(shape, dtype, "chance" if values != "whole" else "whole", grad=False)
    size = math.prod(shape)
    terms = x.repeats
    call = lambda t, x, y: getattr(t.nn.functional, name)(x, y, reduction=reduction)  # noqa: E731
    bound = Bound(16 + math.sqrt(size) / 4, 36.0 * (size if reduction == "sum" else 1))
    return Program(f"{name} {dtype} {reduction}", d.operands, call, bound, _of_sums(dtype, 32, 20.0, terms))


# -- products ------------------------------------------------------------------------------------------------------------------------------
@family(10)
def products(d: Draw) -> Program:
    """Whole numbers: exact however they are added up."""
    name = d.one_of(("matmul", "mm", "bmm", "linear", "einsum", "addmm", "batched", "vector", "outer"))
    dtype = d.one_of(("float32", "float32", "float64", "float32", "int64"))
    a, b, c = (d.one_of((1, 3, 8, 17, 31, 64, 100, 129, 200)) for _ in range(3))
    n = d.one_of((1, 2, 5, 8))
    if dtype == "int64":
        a, b, c, n = min(a, 64), min(b, 64), min(c, 64), 2
    texts = {"einsum": d.one_of(("ij,jk->ik", "ij,kj->ki", "bij,bjk->bik", "bij,jk->bki", "ij,ij->j"))}
    shapes: list[tuple[int, ...]]
    if name in ("matmul", "mm"):
        shapes = [(a, b), (b, c)]
    elif name == "addmm":
        shapes = [d.one_of(((a, c), (c,), (a, 1))), (a, b), (b, c)]
    elif name == "linear":
        shapes = [d.one_of(((a, b), (n, a, b))), (c, b), *([(c,)] if d.chance(0.6) else [])]
    elif name == "bmm":
        shapes = [(n, a, b), (n, b, c)]
    elif name == "batched":
        shapes = [d.one_of(((n, a, b), (2, n, a, b))), d.one_of(((b, c), (n, b, c), (1, b, c)))]
    elif name == "vector":
        shapes = d.one_of(([(a, b * 16), (b * 16,)], [(a * 16,), (a * 16, b)]))
    elif name == "outer":
        shapes = [(a * 8,), (b,)]
    else:
        size = {"i": a, "j": b, "k": c, "b": n}
        shapes = [tuple(size[letter] for letter in part) for part in texts["einsum"].partition("->")[0].split(",")]
    for shape in shapes:
        d.operand(shape, dtype)

    def call(t: Any, *operands: Any) -> Any:
        if name == "einsum":
            return t.einsum(texts["einsum"], *operands)
        if name == "linear":
            return t.nn.functional.linear(*operands)
        return getattr(t, {"batched": "matmul", "vector": "matmul"}.get(name, name))(*operands)

    # A gradient is of sums over one of the dimensions, and these are added up where an operand is broadcast or expanded.
    grads = _whole_sums(dtype, 9 * max(map(max, shapes)), 2 * n * max(operand.repeats for operand in d.operands))
    return Program(f"{name} {texts.get(name, '')} {dtype} of {shapes}", d.operands, call, Bound(), grads)


# -- copies, joining, indices --------------------------------------------------------------------------------------------------------------
_COPIES: dict[str, Any] = {
    "contiguous": lambda t, x: x.contiguous(),
    "clone": lambda t, x: x.clone(),
    "reshape": lambda t, x: x.reshape(-1),
    "flatten": lambda t, x: x.flatten(),
    "flip": lambda t, x: x.flip(0),
    "flip all": lambda t, x: x.flip(tuple(range(x.dim()))),
    "roll": lambda t, x: x.roll(3, x.dim() - 1),
    "repeat": lambda t, x: x.repeat(*([2] + [1] * (x.dim() - 1))),
    "to float64": lambda t, x: x.to(t.float64),
    "to float32": lambda t, x: x.to(t.float32),
    "to int32": lambda t, x: x.to(t.int32),
    "to bfloat16": lambda t, x: x.to(t.bfloat16),
    "transposed": lambda t, x: x.transpose(0, -1).contiguous(),
    "tril": lambda t, x: x.tril() if x.dim() > 1 else x.clone(),
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 2)),
    "repeat_interleave": lambda t, x: x.repeat_interleave(2, 0),
    "chunks": lambda t, x: tuple(chunk.contiguous() for chunk in x.chunk(3, -1)),
    "unfold": lambda t, x: x.unfold(-1, min(3, x.shape[-1]), 2).contiguous(),
    "diff": lambda t, x: x.diff(dim=0),
    "moved": lambda t, x: x.movedim(0, -1).reshape(-1),
}


@family(9)
def copies(d: Draw) -> Program:
    name = d.one_of(list(_COPIES))
    dtype = d.one_of((*NUMBERS, "bool", "complex64", "complex128"))
    if name == "diff" and dtype in ("uint8", "bool"):
        dtype = "float32"
    if name.startswith("to ") and dtype.startswith("complex"):
        dtype = "float32"
    shape = d.shape()
    d.operand(shape, dtype)
    return Program(f"{name} {dtype}", d.operands, _COPIES[name], Bound(), _half_sums(d, dtype, shape))


def _half_sums(d: Draw, dtype: str, shape: tuple[int, ...]) -> Bound:
    """Gradients of opmath are rounded wherever they are summed; those of others are exact."""
    return Bound(8, 3.0 * math.sqrt(math.prod(shape)) * 4) if _is_half(dtype) else Bound()


@family(6)
def joining(d: Draw) -> Program:
    name, dtype = d.one_of(("cat", "stack")), d.one_of((*NUMBERS, "bool", "complex64"))
    shape = d.shape(size=d.one_of((4100, 8192, 9000, 12_000)))
    count = d.rng.randint(2, 4)
    dim = d.rng.randrange(len(shape))
    for _ in range(count):
        other = list(shape)
        if name == "cat" and d.chance(0.5):
            other[dim] = d.one_of((1, 2, 5, shape[dim]))
        d.operand(tuple(other), dtype)
    return Program(
        f"{name} {dtype} along {dim}", d.operands, lambda t, *x: getattr(t, name)(x, dim), Bound(), _half_sums(d, dtype, (count, *shape))
    )


@family(10)
def indexing(d: Draw) -> Program:
    name = d.one_of(
        ("index_select", "rows", "negative rows", "middle", "gather", "embedding", "scatter_add", "index_add", "mask", "take_along")
    )
    dtype = d.one_of(WIDE if name in ("embedding", "scatter_add", "index_add") else (*WIDE, "int64", "int32", "bool", "uint8"))
    index_dtype = "int32" if name in ("index_select", "index_add", "embedding") and d.chance(0.3) else "int64"
    shape = d.shape(2 if name in ("middle", "embedding") else 1, 3)
    dim = d.rng.randrange(len(shape))
    if name in ("rows", "negative rows", "index_add"):
        dim = 0
    if name == "middle":
        dim = 1
    if name == "embedding":
        shape, dim = (d.one_of((10, 300, 1000)), d.one_of((1, 8, 30, 64, 129))), 0
    n = shape[dim]
    count = d.one_of((1, 5, 300, max(1, n // 2), n))
    if name == "embedding":
        d.operand(shape, dtype)
        d.operand(d.one_of(((300,), (20, 30), (9000 // shape[1] + 1,))), index_dtype, n, grad=False)
        return Program(
            f"embedding {dtype} {index_dtype}", d.operands, lambda t, w, i: t.nn.functional.embedding(i, w, padding_idx=0), Bound(), Bound()
        )
    d.operand(shape, dtype)
    if name == "mask":
        d.operand(shape, "bool", grad=False)
        return Program(f"mask {dtype}", d.operands, lambda t, x, m: x[m], Bound(), Bound())
    if name in ("gather", "scatter_add", "take_along"):
        d.operand(shape, "int64", n, grad=False)
        if name == "scatter_add":
            d.operand(shape, dtype)
            return Program(f"scatter_add {dtype} {dim}", d.operands, lambda t, x, i, y: x.scatter_add(dim, i, y), Bound(), Bound())
        call = (lambda t, x, i: x.gather(dim, i)) if name == "gather" else (lambda t, x, i: t.take_along_dim(x, i, dim))
        return Program(f"{name} {dtype} {dim}", d.operands, call, Bound(), Bound())
    if name == "index_add":
        count = min(count, max(1, 70_000 // max(1, math.prod(shape[1:]))))
    else:
        count = min(count, max(1, 140_000 // max(1, math.prod(shape) // n)))
    d.operand((count,), index_dtype, n, grad=False)
    if name == "index_add":
        d.operand((count, *shape[1:]), dtype)
        return Program(f"index_add {dtype}", d.operands, lambda t, x, i, y: x.index_add(0, i, y, alpha=2), Bound(), Bound())
    calls: dict[str, Any] = {
        "index_select": lambda t, x, i: x.index_select(dim, i),
        "rows": lambda t, x, i: x[i],
        "negative rows": lambda t, x, i: x[i - n],
        "middle": lambda t, x, i: x[:, i],
    }
    return Program(f"{name} {dtype} {index_dtype} {dim}", d.operands, calls[name], Bound(), Bound())


# -- windows -------------------------------------------------------------------------------------------------------------------------------
@family(4)
def pooling(d: Draw) -> Program:
    rank, dtype = d.one_of((1, 2)), d.one_of(("float32", "float32", "float64"))
    name = d.one_of(("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "max_pool places"))
    n, channels = d.one_of((1, 2, 3)), d.one_of((1, 3, 8, 16))
    side = max(6, int((9000 / (n * channels)) ** (1 / rank)))
    shape = (n, channels, *[side + d.rng.randrange(4) for _ in range(rank)])
    kernel, stride, padding = d.one_of(((2, 2, 0), (3, 1, 1), (3, 2, 1), (2, 1, 0), (5, 3, 2)))
    # Of equal maxima the first gets the gradient in all libraries.
    d.operand(shape, dtype, "whole")
    out = d.one_of((1, 2, 5))

    def call(t: Any, x: Any) -> Any:
        f = t.nn.functional
        if name.startswith("adaptive"):
            return getattr(f, f"{name}{rank}d")(x, out)
        if name == "max_pool places":
            return getattr(f, f"max_pool{rank}d")(x, kernel, stride, padding, return_indices=True)
        return getattr(f, f"{name}{rank}d")(x, kernel, stride, padding)

    exact = "max" in name
    wide = 3.0 * math.sqrt(math.prod(shape))
    return Program(
        f"{name}{rank}d {dtype} {kernel, stride, padding, out}",
        d.operands,
        call,
        Bound() if exact else Bound(4, 3),
        Bound() if exact else Bound(16, wide),
    )


@family(4)
def convolution(d: Draw) -> Program:
    rank, dtype, turned = d.one_of((1, 2, 2)), d.one_of(("float32", "float32", "float64")), d.chance(0.25)
    groups = d.one_of((1, 1, 2, 4))
    depthwise = d.chance(0.2)
    channels = outputs = groups * d.one_of((1, 2, 3))
    if depthwise:
        groups = channels = outputs = d.one_of((4, 8, 16))
    elif d.chance(0.6):
        outputs = groups * d.one_of((1, 2, 5, 8))
    n = d.one_of((1, 2, 3))
    side = max(5, int((9000 / (n * channels)) ** (1 / rank))) if rank == 2 else max(9, 9000 // (n * channels))
    shape = (n, channels, *[side + d.rng.randrange(3) for _ in range(rank)])
    size, stride, padding = d.one_of(((1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 2, 0), (5, 1, 2)))
    d.operand(shape, dtype)
    weight = (channels, outputs // groups) if turned else (outputs, channels // groups)
    d.operand((*weight, *[size] * rank), dtype)
    if d.chance(0.5):
        d.operand((outputs,), dtype)
    name = f"conv_transpose{rank}d" if turned else f"conv{rank}d"

    def call(t: Any, x: Any, w: Any, b: Any = None) -> Any:
        return getattr(t.nn.functional, name)(x, w, b, stride=stride, padding=padding, groups=groups)

    grads = _whole_sums(dtype, 9 * 9000, max(operand.repeats for operand in d.operands))
    return Program(f"{name} {dtype} {size, stride, padding, groups}", d.operands, call, Bound(), grads)


# -- in place ------------------------------------------------------------------------------------------------------------------------------
def _set_rows(t: Any, x: Any, y: Any) -> None:
    x[: x.shape[0] // 2] = y[: x.shape[0] // 2]


_WRITES: dict[str, tuple[int, Any]] = {
    "add_": (2, lambda t, x, y: x.add_(y)),
    "sub_ alpha": (2, lambda t, x, y: x.sub_(y, alpha=2)),
    "mul_": (2, lambda t, x, y: x.mul_(y)),
    "add_ number": (1, lambda t, x: x.add_(2)),
    "neg_": (1, lambda t, x: x.neg_()),
    "clamp_": (1, lambda t, x: x.clamp_(0, 2)),
    "copy_": (2, lambda t, x, y: x.copy_(y)),
    "fill_": (1, lambda t, x: x.fill_(3)),
    "zero_": (1, lambda t, x: x.zero_()),
    "setitem": (2, lambda t, x, y: x.__setitem__(Ellipsis, y)),
    "setitem rows": (2, _set_rows),
    "masked_fill_": (2, lambda t, x, y: x.masked_fill_(y > 0, 2)),
    "setitem mask": (2, lambda t, x, y: x.__setitem__(y.expand(x.shape) > 0, 2)),
    "abs_": (1, lambda t, x: x.abs_()),
    "out of add": (2, lambda t, x, y: t.add(y.expand(x.shape), 1, out=x)),
    "relu_": (1, lambda t, x: t.relu_(x)),
    "addcmul_": (2, lambda t, x, y: x.addcmul_(y, y)),
    "maximum out": (2, lambda t, x, y: t.maximum(y.expand(x.shape), y.expand(x.shape), out=x)),
    "sum out": (2, lambda t, x, y: t.sum(y.expand(2, *x.shape), 0, out=x)),
    "index_add_": (2, lambda t, x, y: x.index_add_(0, t.arange(x.shape[0]), y.expand(x.shape))),
    "flip copy_": (2, lambda t, x, y: x.copy_(y.expand(x.shape).flip(0))),
}


@family(14)
def writes(d: Draw) -> Program:
    """Everything of the first operand's memory is compared, what lies between its elements included."""
    name = d.one_of(list(_WRITES))
    count, call = _WRITES[name]
    dtype = d.one_of(("float32", "float32", "float64", "int64", "int32", "bfloat16"))
    other = d.one_of(("float32", "int64")) if name in ("copy_", "setitem") and d.chance(0.3) and dtype != "bfloat16" else dtype
    shape = d.shape()
    d.operand(shape, dtype, repeats=False, grad=False)
    if count == 2:
        y = shape if name in ("setitem rows",) else d.broadcast(shape)
        d.operand(y, other, grad=False)

    def run(t: Any, x: Any, *rest: Any) -> tuple[Any, ...]:
        call(t, x, *rest)
        return ()

    return Program(f"{name} {dtype} {other}", d.operands, run, Bound(4, 12) if dtype == "bfloat16" else Bound(), inplace=True)


@family(3)
def recorded_writes(d: Draw) -> Program:
    """An in-place operation on what was computed, with gradients through it."""
    name = d.one_of(("mul_", "add_", "masked_fill_", "setitem", "copy_", "relu_"))
    shape, dtype = d.shape(), d.one_of(("float32", "float64"))
    d.operand(shape, dtype)
    d.operand(d.broadcast(shape), dtype)

    def call(t: Any, x: Any, y: Any) -> Any:
        result = x * 2
        if name == "setitem":
            result[...] = y
        elif name == "masked_fill_":
            result.masked_fill_(y > 0, 1.0)
        elif name == "relu_":
            result.relu_()
        else:
            getattr(result, name)(y)
        return result + y

    return Program(f"recorded {name} {dtype}", d.operands, call, Bound(), Bound())


@family(3)
def steps(d: Draw) -> Program:
    """Optimizer steps, whose parameters and gradients lie differently."""
    name = d.one_of(("SGD", "SGD momentum", "Adam", "RMSprop", "Adagrad"))
    shape, dtype = d.shape(), d.one_of(("float32", "float64"))
    d.operand(shape, dtype, repeats=False, grad=False)
    d.operand(shape, dtype, grad=False)

    def call(t: Any, x: Any, grad: Any) -> Any:
        param = x.detach().requires_grad_()
        options: dict[str, Any] = {"lr": 0.25, **({"momentum": 0.5} if name == "SGD momentum" else {})}
        optimizer = getattr(t.optim, name.split()[0])([param], **options)
        for _ in range(2):
            param.grad = grad
            optimizer.step()
        return ()

    return Program(f"{name} {dtype}", d.operands, call, Bound() if name.startswith("SGD") else Bound(16, 4), inplace=True)
