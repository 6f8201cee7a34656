"""Rows of products, convolutions, pooling, normalization, attention, resampling and losses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.checks import SymInt
from ..builder import Builder, Value
from ..errors import SymbolicValueError, UnsupportedOperatorError
from . import ROWS, row
from .reductions import _reduce
from .shapes import sizes_of


# ---- products
@row("linear")
def _linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    if x.rank == 2 and bias is not None:
        return b.op("Gemm", x, weight, bias, transB=1, shape=b.shape)
    product = b.op("MatMul", x, b.transpose(weight, [1, 0]), shape=b.shape)
    return product if bias is None else b.op("Add", product, bias)


@row("matmul", "mm", "bmm", "mv", "dot", "linalg_matmul")
def _matmul(b: Builder, x: Value, y: Value) -> Value:
    return b.op("MatMul", x, y, shape=b.shape)


@row("addmm")
def _addmm(b: Builder, x: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    if b.dtype.is_floating_point:
        return b.op("Gemm", left, right, x, alpha=float(alpha), beta=float(beta), shape=b.shape)
    made: Value = ROWS["baddbmm"](b, x, left, right, beta=beta, alpha=alpha)
    return made


@row("baddbmm")
def _baddbmm(b: Builder, x: Value, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    product = b.op("MatMul", left, right, shape=b.shape)
    product = product if alpha == 1 else b.op("Mul", product, b.constant(alpha, x.dtype))
    x = x if beta == 1 else b.op("Mul", x, b.constant(beta, x.dtype))
    return b.op("Add", product, x, shape=b.shape)


@row("addmv")
def _addmv(b: Builder, x: Value, matrix: Value, vector: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    product = b.op("MatMul", matrix, vector, shape=b.shape)
    product = product if alpha == 1 else b.op("Mul", product, b.constant(alpha, x.dtype))
    return b.op("Add", product, x if beta == 1 else b.op("Mul", x, b.constant(beta, x.dtype)), shape=b.shape)


@row("outer")
def _outer(b: Builder, x: Value, y: Value) -> Value:
    return b.op("Mul", b.unsqueeze(x, [1]), y, shape=b.shape)


# ---- convolutions
def _listed(value: Any, rank: int) -> list[int]:
    found = list(value) if isinstance(value, (tuple, list)) else [value]
    return found * rank if len(found) == 1 else found


def _check_floats(b: Builder, x: Value) -> None:
    if not x.dtype.is_floating_point:
        raise SymbolicValueError(f"ONNX has no {b.name} of integers", x)


def _batched(b: Builder, x: Value, rank: int, run: Callable[[Value], Value]) -> Value:
    """A layer of images for a single one, too."""
    if x.rank == rank + 2:
        return run(x)
    whole = run(b.unsqueeze(x, [0]))
    return b.squeeze(whole, [0])


def _convolve(b: Builder, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Value:
    _check_floats(b, x)
    rank = weight.rank - 2
    strides, dilations = _listed(stride, rank), _listed(dilation, rank)
    pads: Any = None
    auto = None
    if isinstance(padding, str):
        total = [0 if padding == "valid" else d * (int(k) - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
        pads = [*[n // 2 for n in total], *[n - n // 2 for n in total]]
    else:
        pads = _listed(padding, rank) * 2

    def run(image: Value) -> Value:
        options = {"strides": strides, "pads": pads, "dilations": dilations, "group": groups, "auto_pad": auto}
        shape = b.shape if x.rank == rank + 2 else (1, *b.shape)
        made: Value = b.op("Conv", image, weight, bias, shape=shape, kernel_shape=list(weight.shape[2:]), **options)
        return made

    return _batched(b, x, rank, run)


@row("conv1d", "conv2d", "conv3d")
def _conv(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    return _convolve(b, x, weight, bias, stride, padding, dilation, groups)


@row("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Value:
    _check_floats(b, x)
    rank = weight.rank - 2
    more, steps = _listed(output_padding, rank), _listed(stride, rank)

    def run(image: Value) -> Value:
        shape = b.shape if x.rank == rank + 2 else (1, *b.shape)
        if any(amount >= step for amount, step in zip(more, steps, strict=True)):
            whole: dict[str, Any] = {"strides": steps, "group": groups, "dilations": _listed(dilation, rank)}
            return _cut_transposed(b, b.op("ConvTranspose", image, weight, **whole), bias, _listed(padding, rank), more, shape)
        made: Value = b.op(
            "ConvTranspose", image, weight, bias, shape=shape, kernel_shape=list(weight.shape[2:]), strides=_listed(stride, rank),
            pads=_listed(padding, rank) * 2, output_padding=_listed(output_padding, rank), group=groups, dilations=_listed(dilation, rank),
        )  # fmt: skip
        return made

    return _batched(b, x, rank, run)


def _cut_transposed(b: Builder, whole: Value, bias: Value | None, padding: list[int], more: list[int], shape: Any) -> Value:
    """The whole result of a transposed convolution without its margins, which end by a stride or more later than onnxruntime can say."""
    axes = range(2, 2 + len(padding))
    ends = [extra - amount for amount, extra in zip(padding, more, strict=True)]
    pads = b.ints([*[-amount for amount in padding], *ends])
    made: Value = b.op("Pad", whole, pads, b.constant(0, whole.dtype), b.ints(axes), shape=shape)
    return made if bias is None else b.op("Add", made, b.unsqueeze(bias, range(1, 1 + len(padding))), shape=shape)


@row("convolution")
def _convolution(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Value:
    if transposed:
        return _conv_transpose(b, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolve(b, x, weight, bias, stride, padding, dilation, groups)


# ---- pooling
def _filled(given: tuple[Any, ...], *defaults: Any) -> tuple[Any, ...]:
    """Arguments, with defaults for those that are left out."""
    return (*given, *defaults[len(given) :])


def _pool(rank: int, kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, kernel_size: Any, stride: Any = (), padding: Any = 0, *rest: Any) -> Value:
        kernel, divisor = _listed(kernel_size, rank), None
        options: dict[str, Any] = {
            "kernel_shape": kernel,
            "strides": _listed(stride, rank) if stride not in ((), [], None) else kernel,
            "pads": _listed(padding, rank) * 2,
        }
        if kind == "MaxPool":
            dilation, ceil_mode = _filled(rest, 1, False)
            options["dilations"] = _listed(dilation, rank)
        else:
            ceil_mode, count_include_pad, divisor = _filled(rest, False, True, None)
            if divisor is not None and ceil_mode:
                raise SymbolicValueError("avg_pool with divisor_override and ceil_mode is not supported", divisor)
            options["count_include_pad"] = int(count_include_pad or divisor is not None)
        options["ceil_mode"] = int(ceil_mode)
        as_float = not x.dtype.is_floating_point

        def run(image: Value) -> Value:
            shape = b.shape if x.rank == rank + 2 else (1, *b.shape)
            made: Value = b.op(kind, b.cast(image, dtypes.float32) if as_float else image, shape=shape, **options)
            if divisor is not None:
                made = b.op("Mul", made, b.constant(math.prod(kernel) / divisor, made.dtype))
            return b.cast(made, x.dtype)

        return _batched(b, x, rank, run)

    return translate


for _rank in (1, 2, 3):
    ROWS[f"max_pool{_rank}d"] = _pool(_rank, "MaxPool")
    ROWS[f"avg_pool{_rank}d"] = _pool(_rank, "AveragePool")


@row("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices")
def _with_indices(b: Builder, x: Value, *args: Any) -> list[Value]:
    """ONNX counts places over the whole tensor, PyTorch over each image."""
    rank = int(re.findall(r"\d", b.name)[0])
    wanted, b.result = b.uses_part(1), b.result[0]
    found = ROWS[f"max_pool{rank}d"](b, x, *args)
    if not wanted:
        return [found, x]
    sizes = x.shape[x.rank - rank :]
    node = next((node for node in reversed(b.nodes) if node.op_type == "MaxPool"), None)
    if node is None or x.rank != rank + 2 or any(isinstance(size, SymInt) for size in sizes):
        raise SymbolicValueError("the places of max_pool are supported for batches of images of known sizes", b.name)
    places = Value(b.fresh("places"), dtypes.int64, found.shape)
    node.output.append(places.name)
    return [found, b.op("Mod", places, b.constant(int(np.prod(sizes)), dtypes.int64))]


def _windows(n: int, m: int) -> list[tuple[int, int]]:
    """The ``m`` windows of adaptive pooling over ``n`` elements."""
    return [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]


def _largest(b: Builder, x: Value, rank: int, wanted: list[int]) -> Value:
    """Largest elements of windows of unequal sizes: a reduction of each, dimension by dimension."""
    for k, m in enumerate(wanted):
        axis = x.rank - rank + k
        parts = []
        for lo, hi in _windows(x.shape[axis], m):
            window = b.slice(x, axis, lo, hi, shape=(*x.shape[:axis], hi - lo, *x.shape[axis + 1 :]))
            most = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
            parts.append(b.op("ReduceMax", window, b.ints([axis]), keepdims=1, shape=most))
        x = b.op("Concat", *parts, axis=axis, shape=(*x.shape[:axis], m, *x.shape[axis + 1 :]))
    return x


def _averaged(b: Builder, x: Value, rank: int, wanted: list[int]) -> Value:
    """Averages over windows of unequal sizes: a product with a matrix for each dimension."""
    for k, m in enumerate(wanted):
        axis = x.rank - rank + k
        n = x.shape[axis]
        windows = _windows(n, m)
        matrix = np.array([[(lo <= j < hi) / (hi - lo) for lo, hi in windows] for j in range(n)])
        order = [d for d in range(x.rank) if d != axis] + [axis]
        back = [order.index(d) for d in range(x.rank)]
        moved = b.transpose(x, order)
        x = b.transpose(b.op("MatMul", moved, b.constant(matrix, x.dtype), shape=(*moved.shape[:-1], m)), back)
    return x


def _adaptive(rank: int, kind: str) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, sizes: Any) -> Value:
        wanted = _listed(sizes, rank)
        if all(size == 1 for size in wanted):
            return _reduce(b, "ReduceMean" if kind == "AveragePool" else "ReduceMax", x, list(range(x.rank - rank, x.rank)), True)
        have = x.shape[x.rank - rank :]
        if any(isinstance(n, SymInt) or isinstance(m, Value) for n, m in zip(have, wanted, strict=True)):
            raise SymbolicValueError("adaptive pooling of symbolic sizes is not supported", have)
        if any(n % m for n, m in zip(have, wanted, strict=True)):
            return _largest(b, x, rank, wanted) if kind == "MaxPool" else _averaged(b, x, rank, wanted)
        kernel = [n // m for n, m in zip(have, wanted, strict=True)]
        return _pool(rank, kind)(b, x, kernel, kernel)

    return translate


for _rank in (1, 2, 3):
    ROWS[f"adaptive_avg_pool{_rank}d"] = ROWS[f"_adaptive_avg_pool{_rank}d"] = _adaptive(_rank, "AveragePool")
    ROWS[f"adaptive_max_pool{_rank}d"] = lambda b, x, sizes, rank=_rank: _adaptive_max(b, x, rank, sizes)


def _adaptive_max(b: Builder, x: Value, rank: int, sizes: Any) -> list[Value]:
    if b.uses_part(1):
        have, wanted = x.shape[x.rank - rank :], _listed(sizes, rank)
        if any(isinstance(n, SymInt) or n % m for n, m in zip(have, wanted, strict=True)):
            raise SymbolicValueError("the places of adaptive_max_pool are supported for windows of one size", have)
        kernel = [n // m for n, m in zip(have, wanted, strict=True)]
        return _with_indices(b, x, kernel, kernel)
    b.result = b.result[0]
    return [_adaptive(rank, "MaxPool")(b, x, sizes), x]


# ---- normalization
@row("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit")
def _batch_norm(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, variance: Value | None, *rest: Any
) -> Any:
    training, _, eps = rest[:3] if isinstance(rest[0], bool) else (False, *rest[:2])
    channels = x.shape[1]
    weight = weight or b.constant(np.ones(channels), x.dtype)
    bias = bias or b.constant(np.zeros(channels), x.dtype)
    if training or mean is None or variance is None:
        dims = [0, *range(2, x.rank)]
        kept = [1 if d in dims else size for d, size in enumerate(x.shape)]
        average = b.op("ReduceMean", x, b.ints(dims), keepdims=1, shape=kept)
        centred = b.op("Sub", x, average)
        spread = b.op("ReduceMean", b.op("Mul", centred, centred), b.ints(dims), keepdims=1, shape=kept)
        scale = b.op("Reciprocal", b.op("Sqrt", b.op("Add", spread, b.constant(eps, x.dtype))))
        parts = [b.squeeze(average, dims), b.squeeze(scale, dims)]
        sizes = (channels, *[1] * (x.rank - 2))
        found = b.op("Mul", centred, scale, shape=x.shape)
        for kind, value in (("Mul", weight), ("Add", bias)):
            found = b.op(kind, found, b.op("Reshape", value, b.ints(sizes), shape=sizes))
    else:
        found = b.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps, shape=x.shape)
        parts = [b.constant(np.zeros(0), x.dtype)] * 2  # without training nothing is saved
    return found if b.name == "batch_norm" else [found, *parts]


def _normalized_by(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value | None, variance: Value | None, eps: float
) -> Value:
    """Batch normalization by known statistics."""
    channels = x.shape[1]
    weight = weight or b.constant(np.ones(channels), x.dtype)
    bias = bias or b.constant(np.zeros(channels), x.dtype)
    found: Value = b.op("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps, shape=x.shape)
    return found


@row("layer_norm", "native_layer_norm")
def _layer_norm(
    b: Builder, x: Value, sizes: Any, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5, *rest: Any
) -> Any:
    scale = weight or b.constant(np.ones(sizes), x.dtype)
    found = b.op("LayerNormalization", x, scale, bias, axis=-len(sizes), epsilon=eps)
    if b.name == "layer_norm":
        return found
    return [found, *(_statistics(b, x, list(range(x.rank - len(sizes), x.rank)), eps) if b.uses_part(1) or b.uses_part(2) else (x, x))]


def _statistics(b: Builder, x: Value, axes: list[int], eps: float) -> tuple[Value, Value]:
    """Means over dimensions, and inverse standard deviations."""
    kept = [1 if d in axes else size for d, size in enumerate(x.shape)]
    mean = b.op("ReduceMean", x, b.ints(axes), keepdims=1, shape=kept)
    centred = b.op("Sub", x, mean)
    spread = b.op("ReduceMean", b.op("Mul", centred, centred), b.ints(axes), keepdims=1, shape=kept)
    return mean, b.op("Reciprocal", b.op("Sqrt", b.op("Add", spread, b.constant(eps, x.dtype))))


@row("rms_norm")
def _rms_norm(b: Builder, x: Value, sizes: Any, weight: Value | None = None, eps: float | None = None) -> Value:
    dims = list(range(x.rank - len(sizes), x.rank))
    kept = [1 if d in dims else size for d, size in enumerate(x.shape)]
    square = b.op("ReduceMean", b.op("Mul", x, x), b.ints(dims), keepdims=1, shape=kept)
    least = float(np.finfo(x.dtype.numpy).eps) if eps is None else eps
    scaled = b.op("Mul", x, b.op("Reciprocal", b.op("Sqrt", b.op("Add", square, b.constant(least, x.dtype)))))
    return scaled if weight is None else b.op("Mul", scaled, weight)


@row("group_norm")
def _group_norm(
    b: Builder, x: Value, groups: int, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5, *rest: Any
) -> Value:
    channels = x.shape[1]
    grouped = b.op("Reshape", x, b.ints([0, groups, -1]), shape=(x.shape[0], groups, None))
    ones, zeros = b.constant(np.ones(groups), x.dtype), b.constant(np.zeros(groups), x.dtype)
    flat = b.op("InstanceNormalization", grouped, ones, zeros, epsilon=eps)
    found = b.op("Reshape", flat, b.op("Shape", x, dtype=dtypes.int64, shape=(x.rank,)), shape=x.shape)
    for kind, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            found = b.op(
                kind, found, b.op("Reshape", value, b.ints([channels, *[1] * (x.rank - 2)]), shape=(channels, *[1] * (x.rank - 2)))
            )
    return found


@row("native_group_norm")
def _native_group_norm(
    b: Builder, x: Value, weight: Value | None, bias: Value | None, n: Any, c: Any, area: Any, groups: int, eps: float
) -> list[Value]:
    parts: Any = (x, x)
    if b.uses_part(1) or b.uses_part(2):
        grouped = b.op("Reshape", x, b.ints([0, groups, -1]), shape=(x.shape[0], groups, None))
        parts = [b.squeeze(part, [2]) for part in _statistics(b, grouped, [2], eps)]
    return [_group_norm(b, x, groups, weight, bias, eps), *parts]


@row("instance_norm")
def _instance_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value | None,
    variance: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    if not use_input_stats:
        return _normalized_by(b, x, weight, bias, mean, variance, eps)
    channels = x.shape[1]
    weight = weight or b.constant(np.ones(channels), x.dtype)
    return b.op("InstanceNormalization", x, weight, bias or b.constant(np.zeros(channels), x.dtype), epsilon=eps)


# ---- attention
def _repeated_heads(b: Builder, x: Value, times: int) -> Value:
    """Every head several times in a row, for the group of queries that shares it."""
    heads = x.shape[-3]
    places = np.repeat(np.arange(heads), times)
    repeated: Value = b.op(
        "Gather", x, b.constant(places, dtypes.int64), axis=x.rank - 3, shape=(*x.shape[:-3], heads * times, *x.shape[-2:])
    )
    return repeated


@row("scaled_dot_product_attention")
def _attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        key, value = (_repeated_heads(b, each, query.shape[-3] // each.shape[-3]) for each in (key, value))
    depth = query.shape[-1]
    factor = 1 / math.sqrt(depth) if scale is None else scale
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    shape = (*query.shape[:-1], key.shape[-2])
    scaled = b.op("Mul", query, b.constant(factor, query.dtype))
    scores = b.op("MatMul", scaled, b.transpose(key, order), shape=shape)
    if is_causal:
        sizes = b.sizes([*sizes_of(b, query, [query.rank - 2]), *sizes_of(b, key, [key.rank - 2])])
        ones = b.expand(b.constant(True, dtypes.bool_), sizes, shape[-2:])
        below = b.cast(b.op("Trilu", b.cast(ones, dtypes.int32), upper=0), dtypes.bool_)
        scores = b.op("Where", below, scores, b.constant(float("-inf"), query.dtype), dtype=query.dtype, shape=shape)
    if attn_mask is not None and attn_mask.dtype is dtypes.bool_:
        scores = b.op("Where", attn_mask, scores, b.constant(float("-inf"), query.dtype), dtype=query.dtype, shape=shape)
    elif attn_mask is not None:
        scores = b.op("Add", scores, attn_mask, shape=shape)
    weights = b.op("Softmax", scores, axis=-1)
    if attn_mask is not None:  # a row with nothing to look at is 0
        least = b.constant(float("-inf"), query.dtype)
        most = b.op("ReduceMax", scores, b.ints([-1]), keepdims=1, shape=(*shape[:-1], 1))
        is_empty = b.op("Equal", most, least, dtype=dtypes.bool_)
        weights = b.op("Where", is_empty, b.constant(0, query.dtype), weights, dtype=query.dtype, shape=shape)
    if dropout_p:
        weights = b.op("Dropout", weights, b.constant(dropout_p, dtypes.float32), b.constant(True, dtypes.bool_))
    return b.op("MatMul", weights, value, shape=b.shape)


@row(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",

)  # fmt: skip
def _kernel_attention(b: Builder, query: Value, key: Value, value: Value, *args: Any, **options: Any) -> list[Value]:
    """The kernels of attention, of which only the first result has a counterpart."""
    if any(b.uses_part(part) for part in range(1, len(b.result))):
        raise SymbolicValueError("only the result of attention is supported, not what its derivative needs", b.name)
    if b.name.endswith(("efficient_attention", "_math")):
        mask, rest = args[0] if args else None, args[1:]
    else:
        mask, rest = options.get("attn_mask"), args
    if b.name.endswith("efficient_attention"):
        rest = rest[1:]
    dropout, causal = _filled(rest[:2], 0.0, False)
    chosen = {name: options[name] for name in ("scale", "enable_gqa") if name in options}
    found = _attention(b, query, key, value, mask, options.get("dropout_p", dropout), options.get("is_causal", causal), **chosen)
    return [found] * len(b.result)


# ---- resampling
def _fit(x: Value, sizes: Any, factors: Any) -> bool:
    """Whether sizes follow from the factors, as far as they are known."""
    if None in factors:
        return False
    known = [(x.size(d + 2), size, factor) for d, (size, factor) in enumerate(zip(sizes, factors, strict=True))]
    return all(n is None or isinstance(size, Value) or math.floor(n * factor) == size for n, size, factor in known)


def _are_whole(sizes: Any, factors: Any) -> bool:
    """Whether factors make whole numbers of known sizes."""
    if None in factors or any(isinstance(size, SymInt) for size in sizes):
        return False
    return all(abs(size * factor - round(size * factor)) < 1e-6 for size, factor in zip(sizes, factors, strict=True))


def _resize(mode: str, has_corners: bool) -> Callable[..., Any]:
    def translate(b: Builder, x: Value, output_size: Any, *rest: Any, **options: Any) -> Value:
        sizes, rest = output_size, (*rest, *options.values())
        corners, scales = (rest[0], rest[1:]) if has_corners else (False, rest)
        factors = next((scale for scale in scales if scale is not None), None)
        if isinstance(factors, float):
            factors = list(scales)
        if corners and b.name.endswith("_aa"):
            raise SymbolicValueError("onnxruntime smooths otherwise with align_corners and antialias", b.name)
        words: dict[str, Any] = {"mode": mode, "cubic_coeff_a": -0.75 if mode == "cubic" else None}
        if b.name.endswith("_aa"):
            words |= {"antialias": 1, "cubic_coeff_a": -0.5 if mode == "cubic" else None, "exclude_outside": 1}
        if "exact" in b.name:
            words |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
        elif mode == "nearest":
            words |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        else:
            words |= {"coordinate_transformation_mode": "align_corners" if corners else "half_pixel"}
        if factors and _are_whole(x.shape[2:], factors):
            sizes, factors = list(b.shape[2:]), None  # the factors' roundings could lose an element
        if sizes is not None and (corners or not factors or not _fit(x, sizes, factors)):
            lead = sizes_of(b, x, [0, 1])
            return b.op("Resize", x, None, None, b.sizes([*lead, *sizes]), shape=b.shape, **words)
        scale = b.constant([1.0, 1.0, *(factors or ())], dtypes.float32)
        return b.op("Resize", x, None, scale, shape=b.shape, **words)

    return translate


for _name in ("nearest1d", "nearest2d", "nearest3d"):
    ROWS[f"upsample_{_name}"] = _resize("nearest", False)
for _name, _mode in {"linear1d": "linear", "bilinear2d": "linear", "trilinear3d": "linear", "bicubic2d": "cubic"}.items():
    ROWS[f"upsample_{_name}"] = _resize(_mode, True)


for _rank in (1, 2, 3):
    ROWS[f"_upsample_nearest_exact{_rank}d"] = _resize("nearest", False)
ROWS["_upsample_bilinear2d_aa"], ROWS["_upsample_bicubic2d_aa"] = _resize("linear", True), _resize("cubic", True)


@row("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(b: Builder, x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    if x.rank == 5 and b.opset < 20:
        raise UnsupportedOperatorError(f"aten::{b.name}", b.opset, 20, "it samples volumes")
    modes = ("linear", "nearest", "cubic") if b.opset >= 20 else ("bilinear", "nearest", "bicubic")
    words: dict[str, Any] = {"mode": modes[mode], "padding_mode": ("zeros", "border", "reflection")[padding]}
    return b.op("GridSample", x, grid, align_corners=int(align_corners), shape=b.shape, **words)
