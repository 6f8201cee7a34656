"""What the lines of view programs are made of: views, writes and computations, drawn for a tensor at hand."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import numpy as np

from .comparing import values_of

MOST_TENSORS = 8
MOST_ELEMENTS = 60
MOST_DIMS = 5
LINES = 14
MODES = ["with torch.no_grad(): "] * 5 + ["with torch.inference_mode(): "] * 2
SHAPES = [
    (6,),
    (2, 3),
    (4, 3),
    (3, 1),
    (1, 4),
    (2, 3, 2),
    (3, 1, 4),
    (2, 1, 1),
    (1,),
    (),
    (2, 0, 3),
    (0,),
    (2, 3, 2, 2),
    (1, 2, 3, 1),
    (2, 2, 1, 2, 2),
]


# -- drawing lines ---------------------------------------------------------------------------------------------------------------------
def small_together(a: Any, b: Any) -> bool:
    try:
        shape = np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        return True
    return math.prod(shape) <= MOST_ELEMENTS and len(shape) <= MOST_DIMS


def broadcasts(source: tuple[int, ...], target: tuple[int, ...], into: bool) -> bool:
    try:
        shape = np.broadcast_shapes(source, target)
    except ValueError:
        return False
    return shape == target if into else math.prod(shape) <= MOST_ELEMENTS and len(shape) <= MOST_DIMS


def overlaps_itself(tensor: Any) -> bool:
    reach = 1
    for step, n in sorted((step, n) for step, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if step < reach:
            return tensor.numel() > 1
        reach += step * (n - 1)
    return False


def has_zero_step(tensor: Any) -> bool:
    return any(step == 0 and n > 1 for step, n in zip(tensor.stride(), tensor.shape, strict=True))


def factorization(draw: random.Random, count: int) -> tuple[int, ...]:
    """Sizes with the product ``count``; sometimes one of them as -1, sometimes with sizes of 1 between them."""
    if not count:
        return draw.choice([(0,), (0, 2), (3, 0), (1, 0, 2)])
    sizes, rest = [], count
    while rest > 1 and len(sizes) < 3:
        n = draw.choice([d for d in range(2, rest + 1) if rest % d == 0])
        sizes.append(n)
        rest //= n
    if rest > 1:
        sizes.append(rest)
    for _ in range(draw.choice([0, 0, 0, 1, 1, 2])):
        if len(sizes) < MOST_DIMS:
            sizes.insert(draw.randint(0, len(sizes)), 1)
    if sizes and draw.random() < 0.2:
        sizes[draw.randrange(len(sizes))] = -1
    return tuple(sizes)


def slice_text(draw: random.Random, length: int) -> str:
    start = draw.choice(["", str(draw.randint(-length - 1, length + 1))])
    stop = draw.choice(["", str(draw.randint(-length - 1, length + 2))])
    step = draw.choice(["", "", ":1", ":2", ":3"])
    return f"{start}:{stop}{step}"


def index_text(draw: random.Random, shape: tuple[int, ...]) -> str:
    """The inside of ``x[...]``: ints, slices, None, Ellipsis and sometimes index tensors, lists, masks and bools."""
    parts, dims, had_ellipsis = [], list(shape), False
    advanced = draw.random() < 0.3
    while dims and len(parts) < 6:
        kind = draw.choice(
            ["slice"] * 5
            + ["int"] * 4
            + ["none"] * 3
            + ["all"] * 4
            + ["ellipsis"]
            + (["index", "index", "list", "mask", "bool"] if advanced else [])
        )
        if kind == "none" or kind == "bool":
            parts.append("None" if kind == "none" else draw.choice(["True", "False"]))
            continue
        if kind == "ellipsis":
            if had_ellipsis:
                continue
            had_ellipsis = True
            parts.append("...")
            for _ in range(draw.randint(0, len(dims))):
                dims.pop(0)
            continue
        n = dims.pop(0)
        if kind == "slice":
            parts.append(slice_text(draw, n))
        elif kind == "all":
            parts.append(":")
        elif kind == "int":
            parts.append(str(draw.randint(-n, max(n - (draw.random() < 0.97), 0))))
        elif kind == "mask":
            parts.append(f"torch.tensor({[draw.random() < 0.6 for _ in range(n)]}, dtype=torch.bool)")
        else:
            places = [draw.randint(-n, n - 1) for _ in range(draw.randint(1, 3))] if n else []
            if kind == "index":
                parts.append(f"torch.tensor({[places, places] if draw.random() < 0.25 else places}, dtype=torch.long)")
            else:
                parts.append(str(places) if places else ":")
    if draw.random() < 0.1 or not parts:
        parts.append(draw.choice(["None", "...", "None"]) if "..." not in parts else "None")
    return ", ".join(parts)


def view_call(draw: random.Random, tensor: Any, others: list[Any], names: list[str]) -> str:
    """``.transpose(0, 1)`` or ``[1:3]`` or ``torch.real(x)``: something that makes one view or copy of a part."""
    shape = tuple(tensor.shape)
    ndim, count = len(shape), tensor.numel()
    room = ndim < MOST_DIMS
    dim, other = draw.randint(-ndim, max(ndim - 1, 0)), draw.randint(-ndim, max(ndim - 1, 0))
    size = shape[dim] if ndim else 1
    kinds = [
        "view",
        "view",
        "reshape",
        "squeeze",
        "squeeze dim",
        "squeeze dims",
        "expand",
        "expand",
        "index",
        "index",
        "index",
        "index",
        "index",
    ]
    kinds += [
        "select",
        "narrow",
        "transpose",
        "transpose",
        "permute",
        "permute",
        "t",
        "movedim",
        "swapaxes",
        "T",
        "mT",
        "diagonal",
        "unfold",
        "as_strided",
    ]
    kinds += [
        "view_as",
        "flatten",
        "ravel",
        "unflatten",
        "contiguous",
        "clone",
        "detach",
        "dtype",
        "complex",
        "real",
        "data",
        "expand_as",
        "H",
    ]
    if room:
        kinds += ["unsqueeze"] * 4 + ["none"] * 3
    kind = draw.choice(kinds)
    if tensor.is_inference() and kind in ("dtype", "data", "detach"):
        return ".t()"
    if kind == "dtype" and (tensor.is_complex() or not np.array_equal(values_of(tensor), values_of(tensor) // 1)):
        return ".t()"  # the last bits of a function's values, and whether a zero is negative, are free
    if kind in ("view", "reshape"):
        return f".{kind}({factorization(draw, count)})"
    if kind == "unsqueeze":
        return f".unsqueeze({draw.randint(-ndim - 1, ndim)})"
    if kind == "none":
        return draw.choice(["[None]", "[:, None]", "[..., None]", "[None, ...]", "[None, None]", "[None, 0]", "[0, None]"])
    if kind == "squeeze":
        return ".squeeze()"
    if kind == "squeeze dim":
        return f".squeeze({dim})"
    if kind == "squeeze dims":
        return f".squeeze({tuple(draw.sample(range(ndim), draw.randint(0, ndim)))})"
    if kind == "expand":
        lead = draw.choice([(), (), (2,), (1,), (3, 1)])
        sizes = [draw.choice([n, -1]) if n != 1 else draw.choice([1, -1, 2, 3]) for n in shape]
        if (
            len(lead) + ndim > MOST_DIMS
            or abs(math.prod((*lead, *(n if n > 0 else m for n, m in zip(sizes, shape, strict=True))))) > MOST_ELEMENTS
        ):
            return f".expand({shape})"
        return f".expand({(*lead, *sizes)})"
    if kind == "expand_as" or kind == "view_as":
        fits = [
            n
            for n, t in zip(names, others, strict=True)
            if (kind == "view_as" and t.numel() == count) or (kind == "expand_as" and broadcasts(shape, tuple(t.shape), True))
        ]
        return f".{kind}({draw.choice(fits)})" if fits else ".detach()"
    if kind == "index":
        return f"[{index_text(draw, shape)}]"
    if kind == "select":
        return f".select({dim}, {draw.randint(-size, size)})"
    if kind == "narrow":
        start = draw.randint(0, size)
        return f".narrow({dim}, {start}, {draw.randint(0, size - start)})"
    if kind in ("transpose", "swapaxes", "movedim"):
        return f".{kind}({dim}, {other})"
    if kind == "permute":
        return f".permute({tuple(draw.sample(range(ndim), ndim))})"
    if kind in ("T", "mT", "H", "data"):
        return ".mT" if kind == "H" and tensor.is_complex() else f".{kind}"  # conjugation is not lazy here
    if kind == "t":
        return ".t()"
    if kind == "diagonal":
        return f".diagonal({draw.randint(-2, 2)}, {dim}, {other})"
    if kind == "unfold":
        window, step = draw.randint(0, size), draw.randint(1, 2)
        return f".unfold({dim}, {window}, {step})" if room and count * window <= MOST_ELEMENTS else ".t()"
    if kind == "as_strided":
        extent = tensor.untyped_storage().nbytes() // tensor.element_size()
        start = draw.randint(0, max(extent - 1, 0))
        return _strided_call(draw, extent, start)
    if kind == "flatten":
        first = draw.randint(0, max(ndim - 1, 0))
        return f".flatten({first}, {draw.randint(first, max(ndim - 1, 0))})"
    if kind == "unflatten":
        return f".unflatten({dim}, {factorization(draw, size)})" if room and ndim else ".t()"
    if kind == "ravel" or kind == "detach":
        return f".{kind}()"
    if kind == "contiguous":
        form = _format(draw, ndim)
        return f".contiguous({'memory_format=' if form else ''}{form})"
    if kind == "clone":
        form = draw.choice(
            [
                "",
                "memory_format=torch.contiguous_format",
                "memory_format=torch.preserve_format",
                f"memory_format={_format(draw, ndim) or 'torch.preserve_format'}",
            ]
        )
        return f".clone({form})"
    if kind == "dtype":
        return f".view(torch.{draw.choice(['float64', 'int64', 'float32', 'int32', 'complex128', 'uint8'])})"
    if kind == "complex":
        return "torch.view_as_real(x)" if tensor.is_complex() else "torch.view_as_complex(x)" if ndim and shape[-1] == 2 else ".t()"
    return draw.choice([".real", ".imag"]) if tensor.is_complex() else ".real"


def _format(draw: random.Random, ndim: int) -> str:
    return {4: draw.choice(["", "torch.channels_last"]), 5: draw.choice(["", "torch.channels_last_3d"])}.get(ndim, "")


def _strided_call(draw: random.Random, extent: int, start: int) -> str:
    room = extent - start
    shape, strides = draw.choice(
        [
            ((room,), (1,)),
            ((min(room, 2), 1), (1, 3)),
            ((1, room), (5, 1)),
            (((room + 1) // 2,), (2,)),
            ((2, min(room, 5)), (0, 1)),
            ((0, 2), (3, 1)),
        ]
    )
    return f".as_strided({shape}, {strides}, {start})"


def write_line(draw: random.Random, target: str, tensor: Any, operand: str) -> str:
    """A line that writes into ``target``."""
    shape = tuple(tensor.shape)
    ndim = len(shape)
    dim = draw.randint(-ndim, max(ndim - 1, 0))
    size = shape[dim] if ndim else 1
    places = [draw.randint(0, size - 1) for _ in range(draw.randint(1, 2))] if size else []
    bits = np.array([draw.random() < 0.5 for _ in range(tensor.numel())], bool).reshape(shape).tolist()
    mask = draw.choice(
        [
            "torch.tensor(True)",
            f"torch.tensor({bits}, dtype=torch.bool).reshape({shape})",
        ]
    )
    number = operand if not operand.startswith("t") else "3"
    kinds = [
        "add_",
        "add_",
        "sub_",
        "mul_",
        "mul_",
        "copy_",
        "fill_",
        "zero_",
        "neg_",
        "masked_fill_",
        "index_fill_",
        "setitem",
        "setitem",
        "setitem",
        "all",
        "mask",
        "iadd",
    ]
    kinds += ["index_add_", "index_copy_", "addcmul_", "lerp_", "square_", "scatter_", "put_", "out"]
    kinds += [] if overlaps_itself(tensor) else ["tril_"]
    kinds += [] if tensor.is_complex() else ["clamp_", "abs_", "relu_"]
    kind = draw.choice(kinds)
    if kind in ("add_", "sub_", "mul_"):
        return f"{target}.{kind}({operand})"
    if kind == "copy_":
        return f"{target}.copy_({operand if operand.startswith('t') else f'torch.tensor({operand})'})"
    if kind == "iadd":
        return f"{target} += {operand}"
    if kind == "fill_":
        return f"{target}.fill_({number})"
    if kind in ("zero_", "neg_", "abs_", "square_", "relu_", "tril_"):
        return f"{target}.{kind}()"
    if kind == "clamp_":
        return f"{target}.clamp_(-2, 4)"
    if kind == "masked_fill_":
        return f"{target}.masked_fill_({mask}, {number})"
    if kind == "mask":
        return f"{target}[{mask}] = {number}"
    if kind == "all":
        return f"{target}[...] = {operand}"
    if kind == "index_fill_":
        return f"{target}.index_fill_({dim}, torch.tensor({places}, dtype=torch.long), {number})"
    if kind in ("index_add_", "index_copy_") and not ndim:
        return f"{target}.zero_()"
    if kind in ("index_add_", "index_copy_"):
        places = sorted(set(places))
        source = f"torch.ones({(*shape[: dim % ndim], len(places), *shape[dim % ndim + 1 :]) if ndim else (1,)}, dtype={tensor.dtype})"
        return f"{target}.{kind}({dim}, torch.tensor({places}, dtype=torch.long), {source})"
    if kind == "addcmul_":
        return f"{target}.addcmul_({operand if operand.startswith('t') else f'torch.tensor({operand})'}, torch.tensor(2))"
    if kind == "lerp_":
        return f"{target}.lerp_(torch.ones({shape}, dtype={tensor.dtype}), 0.5)"
    if kind == "scatter_":
        return f"{target}.scatter_({dim}, torch.zeros({(1,) * ndim if math.prod(shape) else shape}, dtype=torch.long), {number})"
    if kind == "put_":
        return f"{target}.put_(torch.tensor([0]), torch.ones(1, dtype={tensor.dtype}))"
    if kind == "out":
        return f"torch.add({target}.detach().clone(), {number}, out={target})"
    return f"{target}[{index_text(draw, shape)}] = {operand if draw.random() < 0.3 else number}"


def compute_line(draw: random.Random, a: str, tensor: Any, b: str, c: str) -> str:
    """A line that makes a tensor of memory of its own: element-wise operations, copies, reductions, joins."""
    shape = tuple(tensor.shape)
    ndim, own = len(shape), str(tensor.dtype)
    lines = GENERAL[:]
    if math.prod(shape) * 2 <= MOST_ELEMENTS and ndim < MOST_DIMS:
        lines += GROWING
    if not tensor.is_complex() and tensor.itemsize > 1:
        lines += REAL
    if tensor.is_floating_point():
        lines += FLOATING
    if tensor.numel():
        lines += NON_EMPTY
    return draw.choice(lines).format(
        a=a,
        b=b,
        two=f"{b}.to({own})" if re.match(r"t\d", b) else f"torch.tensor({b}, dtype={own})",
        three=f"{c}.to({own})" if re.match(r"t\d", c) else f"torch.tensor({c}, dtype={own})",
        dim=draw.randint(-ndim, max(ndim - 1, 0)),
        keep=draw.choice(["", ", keepdim=True"]),
        dtype=draw.choice(["float32", "float64", "int64", "bool", "complex128"]),
        shape=shape,
        last=shape[-1:],
        ones=(1,) * ndim,
        twice=(2, *(1,) * (ndim - 1)),
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


GENERAL = _lines("""
    {a} + {b}
    {a} * {b}
    {a} + {b}
    {a} * {b}
    {a} - {b}
    {a} / 2
    2 - {a}
    {a} == {b}
    {a} != {b}
    {a}.neg()
    {a}.abs()
    {a}.exp()
    {a}.pow(2)
    {a}.square()
    {a}.reciprocal()
    {a}.isnan()
    {a}.logical_not()
    {a}.T + 1
    {a}.unfold({dim}, 1, 1) + 1
    {a}.movedim({dim}, 0) * {a}.movedim({dim}, 0)
    torch.where({a} == 1, {a}, {two})
    torch.where({a} != 1, {two}, {three})
    torch.lerp({a}, {two}, 0.5)
    torch.addcmul({a}, {two}, {three})
    {a}.masked_fill({a} == 1, 5)
    {a}.to(torch.{dtype})
    {a}.to(torch.{dtype})
    {a}.to(torch.{dtype}, copy=True)
    {a}.clone()
    {a}.clone()
    {a}.clone()
    {a}.contiguous()
    torch.zeros_like({a})
    torch.zeros_like({a}, memory_format=torch.contiguous_format)
    torch.ones_like({a}, dtype=torch.{dtype})
    torch.full_like({a}, 3)
    torch.empty_like({a}).fill_(1)
    {a}.new_zeros({shape})
    {a}.sum()
    {a}.sum({dim}{keep})
    {a}.mean()
    {a}.prod({dim}{keep})
    {a}.any({dim}{keep})
    {a}.norm()
    {a}.cumsum({dim})
    {a}.flip({dim})
    {a}.roll(1, {dim})
    {a}.rot90()
    {a}.diff(dim={dim})
    {a}.tril()
    {a}.nonzero()
    {a}.masked_select({a} == 1)
    {a}.gather({dim}, torch.zeros({shape}, dtype=torch.long))
    {a}.take_along_dim(torch.zeros({ones}, dtype=torch.long), {dim})
    {a}.scatter({dim}, torch.zeros({shape}, dtype=torch.long), 3)
    {a}.index_add({dim}, torch.tensor([0]), {a}.narrow({dim}, 0, 1))
    {a}.narrow_copy({dim}, 0, 1)
    torch.cat([{a}, {two}], {dim})
""")
GROWING = _lines("""
    torch.cat([{a}, {a}], {dim})
    torch.stack([{a}, {a}], {dim})
    {a}.repeat({twice})
    {a}.diag_embed()
""")
REAL = _lines("""
    torch.maximum({a}, {two})
    torch.atan2({a}, {two})
    torch.fmod({a}, 3)
    {a} > {b}
    {a}.clamp(0, 3)
    {a}.relu()
    {a}.sign()
    {a}.amax({dim}{keep})
    {a}.argmax({dim}{keep})
    {a}.max({dim}{keep})[0]
    {a}.median({dim}{keep})[0]
    {a}.sort({dim})[0]
    {a}.topk(1, {dim})[0]
    {a}.cummax({dim})[0]
""")
FLOATING = _lines("""
    {a}.sigmoid()
    {a}.floor()
    {a}.softmax({dim})
    {a}.log_softmax({dim})
    {a}.logsumexp({dim}{keep})
    {a}.std({dim}{keep})
    torch.hypot({a}, {two})
    torch.nn.functional.gelu({a})
    torch.nn.functional.silu({a})
    torch.nn.functional.elu({a})
    torch.nn.functional.softplus({a})
    torch.nn.functional.hardtanh({a})
    torch.nn.functional.leaky_relu({a})
    torch.nn.functional.dropout({a}, 0.0)
""")
NON_EMPTY = _lines("""
    {a}.index_select({dim}, torch.tensor([0]))
    torch.nn.functional.layer_norm({a}, {last})
""")
