"""Large tensors, one operation at a time: element-wise, reductions, softmax, normalisation, losses, copies, indices, random numbers.

A row is a function of ``torch`` and of operands, which it asks for by the names in ``OPERANDS``. A row of a backward table is timed on the
way back only: the derivative with respect to the operands that the table names.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments
from .measuring import Timed

__all__ = ["CASES", "THREADS", "add_arguments", "main"]

THREADS = comparison.THREADS
Shape = tuple[int, int]
Rows = dict[str, Callable[..., Any]]

LARGE: Shape = (2048, 2048)  # 4 million elements, 16 MB: beyond a core's own caches
TALL: Shape = (4096, 512)  # 2 million, rows as long as those of a model
MANY: Shape = (131072, 16)  # 2 million, rows of a few elements
MIDDLE: Shape = (256, 256)  # 64 thousand, 256 kB: within a core's second cache


def _scattered(source: Source, shape: Shape) -> Any:
    """A square matrix as COO entries, ten for each row, in any order."""
    nodes = shape[0] * 40
    indices = source.torch.stack([source.integers(nodes, nodes * 10), source.integers(nodes, nodes * 10)])
    return source.torch.sparse_coo_tensor(indices, source.normal(nodes * 10), (nodes, nodes), check_invariants=True)


OPERANDS: dict[str, Callable[[Source, Shape], Any]] = {
    "scattered": _scattered,
    "by_entries": lambda source, shape: _scattered(source, shape).coalesce(),
    "by_rows": lambda source, shape: _scattered(source, shape).coalesce().to_sparse_csr(),
    "features": lambda source, shape: source.normal(shape[0] * 40, 64),
    "x": lambda source, shape: source.normal(*shape),
    "y": lambda source, shape: source.normal(*shape),
    "positive": lambda source, shape: source.uniform(*shape, low=0.5, high=1.5),
    "step": lambda source, shape: source.uniform(*shape, high=1e-6),
    "mask": lambda source, shape: source.coins(*shape),
    "long": lambda source, shape: source.integers(1000, *shape),
    "row": lambda source, shape: source.normal(shape[1]),
    "weight": lambda source, shape: source.uniform(shape[1], low=0.5, high=1.5),
    "half": lambda source, shape: source.normal(*shape).to(source.torch.bfloat16),
    "other_half": lambda source, shape: source.normal(*shape).to(source.torch.bfloat16),
    "turned": lambda source, shape: source.normal(*reversed(shape)).t(),
    "share": lambda source, shape: source.uniform(*shape),
    "labels": lambda source, shape: source.integers(shape[1], shape[0]),
    "images": lambda source, shape: source.normal(32, 64, shape[0] // 64, shape[1] // 16),
    "scales": lambda source, shape: source.uniform(64, low=0.5, high=1.5),
    "shifts": lambda source, shape: source.normal(64),
    "words": lambda source, shape: source.normal(30000, 128),
    "tokens": lambda source, shape: source.integers(30000, 128, 128),
    "rows": lambda source, shape: source.integers(shape[0], shape[0]),
    "order": lambda source, shape: source.integers(shape[1], *shape),
    "waves": lambda source, shape: source.torch.complex(source.normal(*shape), source.normal(*shape)),
    "long_waves": lambda source, shape: source.torch.complex(source.normal(2, 1 << 18), source.normal(2, 1 << 18)),
}

POINTWISE: Rows = {
    "add": lambda torch, x, y: x + y,
    "mul by a number": lambda torch, x: x * 1.5,
    "add, broadcast bias": lambda torch, x, row: x + row,
    "add, transposed": lambda torch, x, turned: x + turned,
    "in-place add": lambda torch, x, step: x.add_(step),
    "addcmul": lambda torch, x, y, positive: torch.addcmul(x, y, positive),
    "exp": lambda torch, x: x.exp(),
    "log": lambda torch, positive: positive.log(),
    "sin": lambda torch, x: x.sin(),
    "tanh": lambda torch, x: x.tanh(),
    "erf": lambda torch, x: x.erf(),
    "sigmoid": lambda torch, x: x.sigmoid(),
    "pow, 2": lambda torch, x: x**2,
    "pow, 2.5": lambda torch, positive: positive**2.5,
    "relu": lambda torch, x: torch.relu(x),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu, tanh": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
    "where": lambda torch, mask, x, y: torch.where(mask, x, y),
    "clamp": lambda torch, x: x.clamp(-0.5, 0.5),
    "comparison": lambda torch, x, y: x > y,
    "float32 to bfloat16": lambda torch, x: x.to(torch.bfloat16),
    "int64 to float32": lambda torch, long: long.to(torch.float32),
    "bfloat16 add": lambda torch, half, other_half: half + other_half,
    "remainder": lambda torch, x, positive: torch.remainder(x, positive),
    "atan2": lambda torch, x, y: torch.atan2(x, y),
}
POINTWISE_BACKWARD: Rows = {
    "relu": lambda torch, x: torch.relu(x),
    "sigmoid": lambda torch, x: x.sigmoid(),
    "tanh": lambda torch, x: x.tanh(),
    "gelu": lambda torch, x: torch.nn.functional.gelu(x),
    "gelu, tanh": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda torch, x: torch.nn.functional.silu(x),
    "dropout": lambda torch, x: torch.nn.functional.dropout(x, 0.1),
}
REDUCTION: Rows = {
    "sum": lambda torch, share: share.sum(),
    "sum, dim 0": lambda torch, x: x.sum(dim=0),
    "sum, dim 1": lambda torch, x: x.sum(dim=1),
    "mean, dim 1": lambda torch, x: x.mean(dim=1),
    "var, dim 1": lambda torch, x: x.var(dim=1),
    "norm": lambda torch, x: x.norm(),
    "amax, dim 1": lambda torch, x: x.amax(dim=1),
    "argmax, dim 1": lambda torch, x: x.argmax(dim=1),
    "logsumexp, dim 1": lambda torch, x: x.logsumexp(dim=1),
}
SOFTMAX: Rows = {
    "softmax": lambda torch, x: torch.softmax(x, dim=1),
    "log_softmax": lambda torch, x: torch.log_softmax(x, dim=1),
    "cross_entropy": lambda torch, x, labels: torch.nn.functional.cross_entropy(x, labels),
}
NORMALISATION: Rows = {
    "layer_norm": lambda torch, x, weight, row: torch.nn.functional.layer_norm(x, row.shape, weight, row),
    "batch_norm": lambda torch, images, scales, shifts: torch.nn.functional.batch_norm(images, None, None, scales, shifts, training=True),
}
LOSS: Rows = {
    "mse_loss": lambda torch, x, y: torch.nn.functional.mse_loss(x, y),
    "bce_with_logits": lambda torch, x, share: torch.nn.functional.binary_cross_entropy_with_logits(x, share),
}
COPY: Rows = {
    "clone": lambda torch, x: x.clone(),
    "transpose().contiguous()": lambda torch, x: x.transpose(0, 1).contiguous(),
    "permute(0, 2, 3, 1).contiguous()": lambda torch, images: images.permute(0, 2, 3, 1).contiguous(),
    "cat, dim 0": lambda torch, x, y: torch.cat([x, y]),
    "cat, dim 1": lambda torch, x, y: torch.cat([x, y], dim=1),
    "every second column": lambda torch, x: x[:, ::2].contiguous(),
}
INDEX: Rows = {
    "embedding": lambda torch, words, tokens: torch.nn.functional.embedding(tokens, words),
    "index_select": lambda torch, x, rows: x.index_select(0, rows),
}
SPARSE: Rows = {
    "CSR times dense": lambda torch, by_rows, features: torch.sparse.mm(by_rows, features),
    "COO times dense": lambda torch, by_entries, features: torch.sparse.mm(by_entries, features),
    "coalesce": lambda torch, scattered: scattered.coalesce().values(),
}
ORDER: Rows = {
    "sort, dim 1": lambda torch, x: x.sort(dim=1)[0],
    "argsort, stable": lambda torch, x: torch.argsort(x, dim=1, stable=True),
    "topk, 10": lambda torch, x: x.topk(10)[0],
    "median, dim 1": lambda torch, x: x.median(dim=1)[0],
    "cumsum, dim 1": lambda torch, x: x.cumsum(dim=1),
    "cumsum, dim 0": lambda torch, x: x.cumsum(dim=0),
    "cummax, dim 1": lambda torch, x: x.cummax(dim=1)[0],
    "gather": lambda torch, x, order: x.gather(1, order),
    "scatter_add": lambda torch, x, order, y: x.scatter_add(1, order, y),
    "masked_select": lambda torch, x, mask: x.masked_select(mask),
}
TRANSFORM: Rows = {
    "fft": lambda torch, waves: torch.fft.fft(waves),
    "ifft": lambda torch, waves: torch.fft.ifft(waves),
    "fft, length 500": lambda torch, waves: torch.fft.fft(waves[:, :500]),
    "fft, prime length": lambda torch, waves: torch.fft.fft(waves[:, :509]),
    "fft, dim 0": lambda torch, waves: torch.fft.fft(waves, dim=0),
    "fft, long": lambda torch, long_waves: torch.fft.fft(long_waves),
    "fft2": lambda torch, waves: torch.fft.fft2(waves),
    "rfft": lambda torch, x: torch.fft.rfft(x),
    "rfft, odd length": lambda torch, x: torch.fft.rfft(x[:, :495]),
    "irfft": lambda torch, waves: torch.fft.irfft(waves[:, :257]),
}
RANDOM: Rows = {
    "rand": lambda torch: torch.rand(LARGE),
    "randn": lambda torch: torch.randn(LARGE),
    "bernoulli": lambda torch, share: torch.bernoulli(share),
    "dropout": lambda torch, x: torch.nn.functional.dropout(x, 0.1),
    "randperm": lambda torch: torch.randperm(1_000_000),
}

# Group, shape of the operands, rows, and the operands to differentiate by; none: the forward pass is timed.
TABLES: list[tuple[str, Shape, Rows, tuple[str, ...]]] = [
    ("pointwise", LARGE, POINTWISE, ()),
    ("pointwise, 64k", MIDDLE, {name: POINTWISE[name] for name in ("add", "mul by a number", "exp", "gelu", "where", "comparison")}, ()),
    ("pointwise, backward", LARGE, POINTWISE_BACKWARD, ("x",)),
    ("reduction", LARGE, REDUCTION, ()),
    ("reduction, 64k", MIDDLE, {name: REDUCTION[name] for name in ("sum", "sum, dim 0", "sum, dim 1", "argmax, dim 1")}, ()),
    ("softmax", TALL, SOFTMAX, ()),
    ("softmax, backward", TALL, SOFTMAX, ("x",)),
    ("softmax, 64k", MIDDLE, SOFTMAX, ()),
    ("softmax, rows of 16", MANY, SOFTMAX, ()),
    ("normalisation", TALL, NORMALISATION, ()),
    ("normalisation, backward", TALL, NORMALISATION, ("x", "weight", "row", "images", "scales", "shifts")),
    ("loss", LARGE, LOSS, ()),
    ("loss, backward", LARGE, LOSS, ("x",)),
    ("copy", LARGE, COPY, ()),
    ("index", LARGE, INDEX, ()),
    ("index, backward", LARGE, INDEX, ("words", "x")),
    ("order and places", TALL, ORDER, ()),
    ("Fourier transforms", TALL, TRANSFORM, ()),
    ("sparse", MIDDLE, SPARSE, ()),
    ("sparse, backward", MIDDLE, {"CSR times dense": SPARSE["CSR times dense"]}, ("features",)),
    ("random", LARGE, RANDOM, ()),
]


def builder(row: Callable[..., Any], shape: Shape, differentiated: tuple[str, ...]) -> Callable[[ModuleType], Timed]:
    def build(torch: ModuleType) -> Timed:
        source = Source(torch)
        values = comparison.operands(row, OPERANDS, source, shape)
        if not differentiated:
            return comparison.forward(row, torch, values)
        names = comparison.operand_names(row)
        return comparison.backward(row, torch, values, [v for name, v in zip(names, values) if name in differentiated], source)

    return build


CASES = [
    Case(name, group, builder(row, shape, differentiated), rtol=1e-2 if "bfloat16" in name else 1e-3)
    for group, shape, rows, differentiated in TABLES
    for name, row in rows.items()
]


def main(options: argparse.Namespace) -> int:
    return comparison.report(__name__, CASES, options)
