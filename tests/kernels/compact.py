"""A program, not a test: some operations of every family of kernels against the reference, on this process's class of processor.

``test_targets`` runs it with ``FLAMBEAU_TARGET`` and ``FLAMBEAU_KERNELS_FROM=1``, so that small odd shapes reach the kernels.  Arguments:
``neon`` recompiles all that was built for aarch64, without running it; ``only=WORD`` takes the cases whose names contain a word.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native
from flambeau.kernels.compiler import build, image, pool, target
from flambeau.kernels.families import narrow_products, recurrent
from flambeau.ops.recurrent import LSTM

OF_TILES = ("split_kernels", "tiled_windows", "tiled_gradients", "tiled_rows")  # families
CASES: dict[str, Callable[[], Any]] = {}
PAIRS = [
    ("float32", "float64"),
    ("float32", "bfloat16"),
    ("bfloat16", "bfloat16"),
    ("float16", "float32"),
    ("int32", "float32"),
    ("int16", "uint8"),
]
UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf erfc sigmoid "
    "abs neg floor ceil trunc round sign reciprocal square relu isnan isfinite logical_not"
)
IN_DOUBLE = "exp expm1 log log1p sin tan tanh atan asinh acosh erf erfc floor ceil trunc round".split()


def case(name: str) -> Callable[..., Any]:
    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        CASES[name] = function
        return function

    return register


def grads(result: torch.Tensor, *leaves: torch.Tensor) -> list[torch.Tensor]:
    """A result and its gradients."""
    return [result.detach(), *torch.autograd.grad(result, leaves, torch.randn_like(result))]


def leaf(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_()


# -- element-wise -------------------------------------------------------------------------------------------------------------------
def _special(dtype: Any) -> torch.Tensor:
    infinity, halves = float("inf"), [2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**51 + 0.5]
    edges = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, *halves, float("nan"), infinity, -infinity]
    return torch.cat([torch.tensor(edges, dtype=torch.float64), torch.randn(67, dtype=torch.float64) * 3]).to(dtype)


for _name in UNARY.split():

    @case(_name)
    def _unary(name: str = _name) -> Any:
        function = getattr(torch, name)
        return [function(_special(torch.float32)), *([function(_special(torch.float64))] if name in IN_DOUBLE else [])]


for _a, _b in PAIRS:

    @case(f"arithmetic of {_a} and {_b}")
    def _mixed(a: str = _a, b: str = _b) -> Any:
        one, other = getattr(torch, a), getattr(torch, b)
        x, y = (torch.randn(5, 37) * 4).to(one), (torch.randn(5, 37) * 4).to(other)
        return [x + y, x.t() * y.t(), torch.where(x > y, x, y), x * y[0], x - 1, x.clone().mul_(2), y.to(one)]


@case("integers")
def _integers() -> Any:
    results = []
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int64):
        x, y = torch.randint(0, 100, (7, 41), dtype=dtype), torch.randint(0, 100, (7, 41), dtype=dtype)
        results += [x + y, x * y, x & y, x | 3, ~x, x.clamp(3, 50), torch.maximum(x, y), x < y, x.to(torch.float32), x.abs(), x == y[:, :1]]
    return results


for _name in ("gelu", "silu", "mish", "elu", "softplus", "leaky_relu", "hardswish", "logsigmoid", "tanh", "sigmoid", "relu"):

    @case(f"gradient of {_name}")
    def _rule(name: str = _name) -> Any:
        x = leaf(9, 53)
        return grads(getattr(F, name)(x), x)


@case("strides")
def _strides() -> Any:
    x, y = torch.randn(6, 31, 45), torch.randn(45, 31, 6)
    moved = y.permute(2, 1, 0)
    return [
        x + moved,
        moved.exp(),
        x[:, :-1:2] * moved[:, 1::2],
        x[..., 3:40] + x[..., :37],
        x[:, :1] * moved[..., 2:3],
        x.expand(2, 6, 31, 45) + 1,
    ]


# -- reductions and rows --------------------------------------------------------------------------------------------------------------
for _dtype in (torch.float32, torch.float64, torch.int32):

    @case(f"reductions of {_dtype}")
    def _reductions(dtype: Any = _dtype) -> Any:
        results = []
        for shape in ((700,), (13, 129), (7, 5, 66), (300, 9)):
            x = (torch.randn(shape) * 5).to(dtype)
            for axis in (None, 0, -1):
                along = {} if axis is None else {"dim": axis}
                results += [x.sum(**along), x.amax(**({"dim": ()} | along)), x.amin(**({"dim": ()} | along)), (x > 0).any(**along)]
                results += [(x > -9).all(**along), torch.count_nonzero(x, **along), x.argmax(**along), x.argmin(**along)]
                if dtype is torch.float32:
                    results += [x.mean(**along), x.var(**along), x.std(**along), x.norm(**along), x.nansum(**along)]
                    results += [torch.logsumexp(x, axis if axis is not None else -1), torch.linalg.vector_norm(x, 1, axis)]
                if axis is not None:
                    results += [*x.max(axis), *x.min(axis), *torch.aminmax(x, dim=axis)]
            results += [x.max(), x.min(), x.t().sum(0) if x.ndim == 2 else x.sum(0), (x / 5).prod()]
        x = (torch.rand(300000) + 0.5).to(dtype)
        return [*results, x.sum(), x.amax()]


@case("softmax")
def _softmax() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        for shape, axis in (((9, 133), 1), ((61, 17), 0), ((4, 19, 33), 1), ((50, 3), -1)):
            x = leaf(*shape, dtype=dtype)
            results += grads(x.softmax(axis), x) + grads(x.log_softmax(axis), x)
    return results


@case("norms")
def _norms() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        x, w, b = leaf(6, 8, 45, dtype=dtype), leaf(45, dtype=dtype), leaf(45, dtype=dtype)
        results += grads(F.layer_norm(x, (45,), w, b), x, w, b) + grads(F.layer_norm(x, (45,)), x) + grads(F.rms_norm(x, (45,), w), x, w)
        for shape in ((6, 8, 7, 9), (30, 8), (3, 8, 40)):
            y, w, b = leaf(*shape, dtype=dtype), leaf(8, dtype=dtype), leaf(8, dtype=dtype)
            mean, variance = torch.zeros(8, dtype=dtype), torch.ones(8, dtype=dtype)
            results += grads(F.batch_norm(y, mean, variance, w, b, training=True), y, w, b) + [mean, variance]
            results += grads(F.batch_norm(y, mean, variance, w, b), y, w, b) + grads(F.group_norm(y, 4, w, b), y, w, b)
            if len(shape) > 2:
                results += grads(F.instance_norm(y), y)
        y = torch.randn(4, 16, 6, 5, dtype=dtype).to(memory_format=torch.channels_last).requires_grad_()
        w, b = leaf(16, dtype=dtype), leaf(16, dtype=dtype)
        results += grads(F.batch_norm(y, None, None, w, b, training=True), y, w, b)
    return results


@case("losses")
def _losses() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        x, classes = leaf(37, 53, dtype=dtype), torch.randint(0, 53, (37,))
        weight = torch.rand(53, dtype=dtype)
        for reduction in ("mean", "sum", "none") if dtype is torch.float32 else ("mean",):
            for options in ({}, {"weight": weight}, {"label_smoothing": 0.1}, {"ignore_index": 3}):
                results += grads(F.cross_entropy(x, classes, reduction=reduction, **options), x)
            results += grads(F.nll_loss(x, classes, weight, reduction=reduction), x)
            y = torch.rand(37, 53, dtype=dtype)
            for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
                results += grads(loss(x, y, reduction=reduction), x)
            results += grads(F.binary_cross_entropy(x.sigmoid(), y, reduction=reduction), x)
        few = leaf(37, 5, dtype=dtype)
        results += grads(F.cross_entropy(few, torch.randint(0, 5, (37,)), torch.rand(5, dtype=dtype), label_smoothing=0.1), few)
        planes = leaf(3, 7, 5, 4, dtype=dtype)
        results += grads(F.cross_entropy(planes, torch.randint(0, 7, (3, 5, 4))), planes)
    return results


@case("compiled losses")
def _compiled_losses() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        x, classes = leaf(37, 53, dtype=dtype), torch.randint(0, 53, (37,))
        for loss in (F.cross_entropy, lambda x, classes: F.nll_loss(x.log_softmax(1), classes)):
            compiled = torch.compile(loss)
            for _ in range(3):  # recorded, and replayed
                results += grads(compiled(x, classes), x)
    return results


@case("compiled rows")
def _compiled_rows() -> Any:
    def scores(x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return (x * 0.5).masked_fill(hidden, -1e9).softmax(-1) * 2

    def sums(x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return (x * x).masked_fill(hidden, 0.0).sum(-1)

    results = []
    for dtype in (torch.float32, torch.float64):
        x, hidden = torch.randn(37, 53, dtype=dtype), torch.rand(37, 53) < 0.3
        for function in (scores, sums):
            compiled = torch.compile(function)
            with torch.no_grad():
                results += [compiled(x, hidden) for _ in range(3)]
    return results


# -- memory ---------------------------------------------------------------------------------------------------------------------------
for _dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.bool):

    @case(f"copies of {_dtype}")
    def _copies(dtype: Any = _dtype) -> Any:
        x = (torch.randn(5, 43, 37) * 3).to(dtype)
        y = torch.empty(37, 43, 5, dtype=dtype)
        y.copy_(x.permute(2, 1, 0))
        results = [
            x.transpose(0, 2).contiguous(),
            x.transpose(1, 2).clone(),
            x[:, ::2].contiguous(),
            x[..., ::3].clone(),
            y,
            x[:, :, 5].contiguous(),
        ]
        results += [torch.cat([x, x + x], 1), torch.cat([x, x], 0), torch.stack([x, x], -1), x.repeat(2, 1, 3), x.flip(0, 2), x.flip(1)]
        results += [x.transpose(1, 2).reshape(-1, 43), x.expand(2, 5, 43, 37).contiguous(), x.roll(3, 1), torch.cat([x.mT, x.mT], 2)]
        return results


@case("embedding and indexing")
def _indexing() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        for kind in (torch.int64, torch.int32):
            w, i = leaf(61, 19, dtype=dtype), torch.randint(0, 61, (23, 7), dtype=kind)
            results += grads(F.embedding(i, w), w) + grads(F.embedding(i, w, padding_idx=3), w)
        x, j = leaf(61, 19, dtype=dtype), torch.randint(0, 61, (90,))
        results += grads(x[j], x) + grads(x.index_select(0, j), x) + grads(x.index_select(1, j % 19), x)
        k = torch.randint(0, 61, (61, 19))
        results += (
            grads(x.gather(0, k), x) + grads(x.gather(1, k % 19), x) + [torch.zeros(61, 19, dtype=dtype).scatter_add(0, k, x.detach())]
        )
        results += [torch.zeros(61, 19, dtype=dtype).scatter_add(1, k % 19, x.detach())]
        results += [torch.zeros(61, 19, dtype=dtype).index_add(0, j, torch.randn(90, 19, dtype=dtype))]
        y = torch.zeros(61, 19, dtype=dtype)
        y[j] = 3.0
        results += [y, torch.zeros(61, 19, dtype=dtype).index_put_((j,), torch.ones(90, 19, dtype=dtype), accumulate=True)]
    return results


# -- products and windows ---------------------------------------------------------------------------------------------------------------
@case("selection")
def _selection() -> Any:
    x, mask, at = torch.randn(90, 70), torch.rand(90, 70) < 0.4, torch.randint(-60, 60, (40,))
    ranked = torch.randint(0, 40, (9000,)).sort()[0]
    results = [x.masked_select(mask), x.masked_scatter(mask, x + 1), mask.nonzero(), mask.reshape(-1).nonzero(), x[at, at], x.take(at)]
    results += torch.unique_consecutive(ranked, return_inverse=True, return_counts=True)
    results += [
        x.index_copy(0, at.abs().unique(), x[: len(at.abs().unique())] + 1),
        x.index_fill(0, at, 2.0),
        torch.linalg.cross(x[:, :3], x[:, 3:6]),
    ]
    results += [F.adaptive_avg_pool1d(x.reshape(2, 5, 630), 4), F.pad(x, (1, 2)), F.glu(x)]
    return [*results, ranked.bincount(), ranked.bincount(ranked * 0.5), torch.div(ranked * 7, 3, rounding_mode="floor")]


@case("products")
def _products() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        a, b, c = leaf(130, 70, dtype=dtype), leaf(70, 90, dtype=dtype), leaf(90, dtype=dtype)
        results += grads(a @ b, a, b) + grads(F.linear(a, b.t(), c), a, b, c)
        p, q = leaf(9, 33, 65, dtype=dtype), leaf(9, 65, 47, dtype=dtype)
        results += grads(torch.bmm(p, q), p, q)
        row, wide, plus = leaf(1, 523, dtype=dtype), leaf(257, 523, dtype=dtype), leaf(257, dtype=dtype)
        results += grads(F.linear(row, wide, plus), row, wide, plus) + grads(F.linear(row, wide), row, wide)
        for rows in (9, 70):
            some = leaf(rows, 523, dtype=dtype)
            results += grads(F.linear(some, wide, plus), some, wide, plus) + grads(F.linear(some, wide), some, wide)
        large, large_bias = torch.randn(330, 330, dtype=dtype), torch.randn(330, dtype=dtype)
        results += [large @ large, F.linear(large, large, large_bias), large.t() @ large]
        results.append(torch.randn(96, 500, dtype=dtype) @ torch.randn(500, 704, dtype=dtype))
    return results


@case("products in tiles")
def _products_in_tiles() -> Any:
    return [torch.randn(1024, 1024) @ torch.randn(1024, 1024)]


@case("a recurrent layer in tiles")
def _a_recurrent_layer_in_tiles() -> Any:
    layer, x = torch.nn.LSTM(64, 256), leaf(3, 32, 64)
    return grads(layer(x)[0], x, *layer.parameters())


@case("batches of products")
def _batches() -> Any:
    x, y = torch.randn(2, 8, 128, 128)
    return [torch.bmm(x, y), x @ y.mT]


@case("finished products")
def _finished_products() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        a, b, c, row = (torch.randn(*sizes, dtype=dtype) for sizes in ((70, 300), (300, 90), (70, 90), (90,)))
        for x, y in ((a, b), (a.t().contiguous().t(), b), (a, torch.randn(60, 300, dtype=dtype).t())):
            z, w = c[:, : y.shape[1]].contiguous(), row[: y.shape[1]]
            run = torch.compile(lambda x, y, z, w: torch.where(z > 0, (x @ y).sigmoid() * z, w))
            results += [run(x, y, z, w) for _ in range(2)]
    return results


@case("factorisations")
def _factorisations() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        A, B = torch.randn(41, 41, dtype=dtype) + 30 * torch.eye(41, dtype=dtype), torch.randn(41, 5, dtype=dtype)
        packed, pivots = torch.linalg.lu_factor(A)
        results += [packed, pivots, torch.linalg.inv(A), torch.linalg.solve(A, B), torch.linalg.lstsq(A, B)[0]]
        many, right = torch.randn(40, 5, 7, dtype=dtype), torch.randn(40, 5, 3, dtype=dtype)
        square = many[..., :5] + 9 * torch.eye(5, dtype=dtype)
        results += [*torch.geqrf(many), *torch.linalg.qr(many), torch.linalg.solve_triangular(square, right, upper=True)]
        results += [torch.linalg.solve_triangular(square, right.mT, upper=False, left=False), torch.cholesky_solve(right, square)]
        reflections = torch.geqrf(A)
        results += [*reflections, *torch.linalg.qr(A), torch.linalg.householder_product(*reflections)]
        results += [torch.ormqr(*reflections, B), torch.ormqr(*reflections, B.mT, left=False)]
        results += [torch.linalg.lu_solve(packed, pivots, B, adjoint=adjoint) for adjoint in (False, True)]
        for upper in (False, True):
            root = torch.linalg.cholesky(A @ A.mT, upper=upper)
            results += [root, torch.cholesky_inverse(root, upper), torch.cholesky_solve(B, root, upper)]
            for unit in (False, True):
                results += [torch.linalg.solve_triangular(A / 30 if unit else A, B, upper=upper, unitriangular=unit)]
                results += [torch.linalg.solve_triangular(A.mT / 30 if unit else A, B.mT, upper=upper, unitriangular=unit, left=False)]
    return results


@case("many small factorisations, and large ones")
def _other_factorisations() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        many, large = torch.randn(40, 5, 5, dtype=dtype) + 9 * torch.eye(5, dtype=dtype), torch.randn(400, 400, dtype=dtype)
        large = large + 60 * torch.eye(400, dtype=dtype)
        results += [*torch.linalg.lu_factor(many), *torch.linalg.lu_factor(large), torch.linalg.lu(large)[0]]
        results += [torch.linalg.cholesky(many @ many.mT, upper=upper) for upper in (False, True)]
        results += [torch.linalg.eigvalsh(many + many.mT), torch.linalg.svdvals(many)]
    return results


@case("triangles, bins and ranks")
def _triangles_bins_and_ranks() -> Any:
    x, y = torch.randn(90, 70), torch.randn(90, 70).sort()[0]
    results = [x.tril(), x.triu(1), x.histc(9), torch.histogram(x, torch.linspace(-2, 2, 8))[0], *x.topk(3), *x.topk(2, largest=False)]
    results += [torch.searchsorted(y, x, right=right) for right in (False, True)]
    return [*results, torch.dot(x.reshape(-1), y.reshape(-1))]


@case("padding by elements of the image")
def _padding() -> Any:
    results = []
    for mode in ("reflect", "replicate", "circular"):
        for sizes, pads in (((2, 3, 40), (2, 3)), ((2, 3, 20, 21), (2, 3, 1, 4)), ((2, 1, 9, 10, 11), (2, 3, 1, 4, 2, 0))):
            x = leaf(*sizes)
            results += grads(F.pad(x, pads, mode), x)
    return results


@case("creation")
def _creation() -> Any:
    places = [torch.tril_indices(50, 61, -3), torch.triu_indices(40, 33, 2)]
    return [
        torch.arange(5003.0),
        torch.linspace(0, 1, 4099),
        torch.arange(3, 9000, 2),
        torch.linspace(5, -3, 4098, dtype=torch.float64),
        *places,
    ]


@case("Fourier transforms")
def _fourier() -> Any:
    results = []
    for dtype, points in ((torch.float32, 84), (torch.float64, 600)):
        x = torch.randn(17, points, dtype=dtype)
        half = torch.fft.rfft(x)
        results += [half, torch.fft.irfft(half), torch.fft.ifft(torch.complex(x, x.flip(0)))]
    planes = torch.randn(3, 24, 48)
    results += [torch.fft.fft2(planes), torch._fft_r2c(planes, (1, 2), 0, False)]
    odd = torch.randn(2, 501)
    results += [torch.fft.fft(odd), torch.fft.irfft(torch.fft.rfft(odd), 501)]
    results += [torch.fft.fft(torch.randn(2, 509)), torch.fft.fft(torch.randn(1 << 16).to(torch.complex64))]  # with a chirp; in two steps
    long = torch.randn(1 << 17)
    results += [torch.fft.fft(long), torch.fft.irfft(torch.fft.rfft(long))]
    return [torch.view_as_real(result) if result.is_complex() else result for result in results]


for _name in ("LSTM", "GRU", "RNN"):

    @case(f"recurrent layers: {_name}")
    def _recurrent(name: str = _name) -> Any:
        results = []
        for dtype in (torch.float32, torch.float64):
            layer = getattr(torch.nn, name)(9, 21, bidirectional=True, dtype=dtype)
            for shape in ((5, 7, 9), (1, 2, 9), (4, 1, 9)):
                x = leaf(*shape, dtype=dtype)
                results += grads(layer(x)[0], x, *layer.parameters())
        for steps in (3, 17):  # that threads share
            results.append(getattr(torch.nn, name)(9, 260)(torch.randn(steps, 1, 9))[0].detach())
        results.append(getattr(torch.nn, name)(9, 21)(torch.randn(9, 1, 4).transpose(0, 2))[0].detach())  # behind the input's products
        results.append(getattr(torch.nn, name)(9, 210)(torch.randn(1, 20, 9))[0].detach())  # and a single step of a batch
        for shape, hidden in (((4, 9, 9), 64), ((5, 19, 9), 69), ((1, 2, 9), 260)):  # steps in tile registers, where there are such
            layer, x = getattr(torch.nn, name)(9, hidden), leaf(*shape)
            results += grads(layer(x)[0], x, *layer.parameters())
        if name == "LSTM":
            gates, cells = torch.rand(35, 84).numpy(), torch.randn(7, 21).numpy()
            results.append(torch.from_numpy(recurrent.lstm_cells(gates, cells, LSTM, (7,) * 5, False)))
        return results


@case("attention")
def _attention() -> Any:
    results = []
    for length, dtype in ((1, torch.float32), (1, torch.float64), (9, torch.float32), (9, torch.float64)):
        query, key, value = leaf(2, 3, length, 5, dtype=dtype), leaf(2, 3, 21, 5, dtype=dtype), leaf(2, 3, 21, 18, dtype=dtype)
        for mask in (None, torch.randn(length, 21, dtype=dtype), torch.rand(2, 1, 1, 21) < 0.7):
            results += grads(F.scaled_dot_product_attention(query, key, value, mask), query, key, value)
    return results


CONVOLUTIONS = {
    "plain": ((2, 5, 15, 17), (8, 5, 3, 3), {"padding": 1}),
    "one by one": ((2, 16, 9, 11), (8, 16, 1, 1), {}),
    "stride": ((2, 6, 17, 15), (9, 6, 3, 5), {"stride": 2, "padding": (1, 2)}),
    "dilated": ((2, 4, 17, 19), (7, 4, 3, 3), {"dilation": 2, "padding": 2}),
    "groups": ((2, 8, 12, 12), (12, 4, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 32, 21, 20), (32, 1, 3, 3), {"groups": 32, "padding": 1}),
    "wide": ((1, 3, 33, 35), (17, 3, 7, 7), {"stride": 2, "padding": 3}),
    "one dimension": ((3, 6, 60), (10, 6, 5), {"padding": 2}),
}
for _name, _of in CONVOLUTIONS.items():
    for _dtype in (torch.float32, torch.float64):

        @case(f"convolution {_name} {_dtype}")
        def _convolution(of: Any = _of, dtype: Any = _dtype) -> Any:
            shape, weight, options = of
            x, w, b = leaf(*shape, dtype=dtype), leaf(*weight, dtype=dtype), leaf(weight[0], dtype=dtype)
            function = F.conv1d if len(shape) == 3 else F.conv2d
            results = grads(function(x, w, b, **options), x, w, b)
            if len(shape) == 4:
                y = x.detach().to(memory_format=torch.channels_last).requires_grad_()
                results += [tensor.contiguous() for tensor in grads(function(y, w, b, **options), y, w, b)]
            return results


@case("products of bfloat16")
def _narrow_products() -> Any:
    x, w = torch.randn(40, 64).bfloat16(), torch.randn(64, 70).bfloat16()
    return [x @ w, F.linear(x, torch.randn(70, 64).bfloat16(), torch.randn(70).bfloat16())]


@case("products of bytes")
def _integer_products() -> Any:
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((40, 70), (70, 33)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = torch.quantize_per_tensor(torch.randn(33, 70), 0.03, 1, torch.qint8)
        x = torch.quantize_per_tensor(torch.randn(7, 70), 0.02, 100, torch.quint8)
    quantized, packed = torch.ops.quantized, torch.ops.quantized.linear_prepack(weight, torch.randn(33))
    layers = [quantized.linear_relu_dynamic(torch.randn(7, 70), packed), quantized.linear(x, packed, 0.5, 7).int_repr()]
    return [
        torch._int_mm(a, b),
        torch._int_mm(a[:3], b),
        torch._int_mm(a, torch.ones(33, 70).char().t()),
        torch._int_mm(a[:3], a.t()),
        *layers,
    ]


@case("weights of few bits")
def _weight_products() -> Any:
    halves = torch._convert_weight_to_int4pack_for_cpu(torch.randint(0, 16, (64, 64), dtype=torch.int32), 1)
    byte = torch.randint(-128, 128, (33, 64), dtype=torch.int8)
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        x, scales = torch.randn(7, 64).to(dtype), torch.rand(2, 64, 2).to(dtype)
        results.append(torch._weight_int8pack_mm(x, byte, scales[0, :33, 0].contiguous()))
        results.append(torch._weight_int4pack_mm_for_cpu(x, halves, 32, scales))
    return results


@case("convolution of many channels")
def _many_channels() -> Any:
    x, w, wide = leaf(3, 64, 14, 13), leaf(70, 64, 3, 3), leaf(64, 64, 5, 5)
    results = grads(F.conv2d(x, w, padding=1), x, w) + grads(F.conv2d(x, w, stride=2), x, w) + grads(F.conv2d(x, wide, padding=2), x, wide)
    images = leaf(2, 64, 28, 28)
    return results + grads(F.conv2d(images, w, padding=1), images, w)


@case("convolutions of few channels")
def _convolutions_of_few_channels() -> Any:
    results = []
    for outputs in (12, 40):
        x, w = leaf(4, 3, 40, 40), leaf(outputs, 3, 7, 7)
        results += grads(F.conv2d(x, w, stride=2, padding=3), x, w)
    return results


@case("batch norm of few channels")
def _batch_norm_of_few_channels() -> Any:
    x = leaf(3, 4, 9, 17)
    return grads(F.batch_norm(x, None, None, training=True), x)


@case("convolutions of small images")
def _convolutions_of_small_images() -> Any:
    x, w = leaf(8, 64, 3, 4), leaf(70, 64, 3, 3)
    few = F.conv2d(leaf(1, 64, 3, 4), w, leaf(70), padding=1).detach()
    return [few, *grads(F.conv2d(x, w, leaf(70), padding=1), x, w), *grads(F.conv2d(x, w, stride=2, padding=1), x, w)]


@case("transposed convolution")
def _transposed() -> Any:
    x, w = leaf(2, 6, 9, 11), leaf(6, 5, 3, 3)
    return grads(F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), x, w)


@case("pooling")
def _pooling() -> Any:
    results = []
    for dtype in (torch.float32, torch.float64):
        for layout in (torch.contiguous_format, torch.channels_last):
            for size, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1)):
                x = torch.randn(3, 8, 17, 19, dtype=dtype).to(memory_format=layout).requires_grad_()
                results += grads(F.max_pool2d(x, size, stride, padding), x) + grads(F.avg_pool2d(x, size, stride, padding), x)
            results += (
                grads(F.adaptive_avg_pool2d(x, (4, 5)), x) + grads(F.adaptive_avg_pool2d(x, 1), x) + grads(F.adaptive_max_pool2d(x, 3), x)
            )
        x = leaf(3, 8, 70, dtype=dtype)
        results += grads(F.max_pool1d(x, 3, 2), x) + grads(F.avg_pool1d(x, 3, 2), x) + grads(F.adaptive_max_pool1d(x, 4), x)
        results += [part.contiguous() for part in F.max_pool2d(torch.randn(3, 4, 20, 20, dtype=dtype), 2, return_indices=True)]
    return results


# -- random numbers and optimizers ------------------------------------------------------------------------------------------------------
@case("random numbers")
def _random() -> Any:
    results = [torch.rand(777), torch.randn(1001), torch.rand(601, dtype=torch.float64), torch.randn(602, dtype=torch.float64)]
    results += [
        torch.randint(0, 1000, (900,)),
        torch.empty(700).normal_(2, 3),
        torch.empty(700).uniform_(-1, 1),
        torch.empty(700).bernoulli_(0.3),
    ]
    results += [torch.empty(700).exponential_(), F.dropout(torch.ones(999), 0.4), torch.randperm(500), torch.rand(20).to(torch.bfloat16)]
    return results


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    "Adam": {"lr": 0.1, "amsgrad": True},
    "AdamW": {"lr": 0.1},
    "RMSprop": {"lr": 0.1, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.1},
    "Adadelta": {"lr": 0.1},
    "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
}
for _name, _of in OPTIMIZERS.items():

    @case(f"optimizer {_name}")
    def _optimizer(name: str = _name, options: Any = _of) -> Any:
        results = []
        for dtype in (torch.float32, torch.float64):
            parameters = [leaf(*shape, dtype=dtype) for shape in ((33, 7), (129,), (5,))]
            optimizer = getattr(torch.optim, name)(parameters, **options)
            for _ in range(7):
                for parameter in parameters:
                    parameter.grad = torch.randn(parameter.shape, dtype=dtype)
                results.append(torch.nn.utils.clip_grad_norm_(parameters, 3.0))
                optimizer.step()
            results += [parameter.detach() for parameter in parameters]
        return results


# -- the program ------------------------------------------------------------------------------------------------------------------------
def close(name: str, number: int, actual: torch.Tensor, wanted: torch.Tensor) -> None:
    where = f"{name}, result {number}"
    assert actual.dtype is wanted.dtype and actual.shape == wanted.shape, where
    lies, should = ([s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1] for tensor in (actual, wanted))
    assert lies == should, f"{where}: strides {lies}, expected {should}"
    if not actual.dtype.is_floating_point:
        assert torch.equal(actual, wanted), where
        return
    rough = {torch.float32: 2e-5, torch.float64: 1e-11, torch.bfloat16: 2e-2, torch.float16: 3e-3}[actual.dtype]
    a, b = actual.detach().to(torch.float64).numpy(), wanted.detach().to(torch.float64).numpy()
    finite = np.abs(b[np.isfinite(b)])
    scale = min(float(finite.max()), 1e3) if finite.size else 0.0
    np.testing.assert_allclose(a, b, rtol=rough, atol=rough * scale, err_msg=where)


def check(name: str) -> None:
    def run() -> list[torch.Tensor]:
        torch.manual_seed(1)
        result = CASES[name]()
        return result if isinstance(result, list) else [result]

    results = run()
    with native.disabled():
        wanted = run()
    assert len(results) == len(wanted)
    for number, (a, b) in enumerate(zip(results, wanted, strict=True)):
        close(name, number, a, b)


def built() -> Iterator[tuple[Callable[..., None], tuple[Any, ...], Any]]:
    for generator, kernels in build.GENERATORS.items():
        for specification, kernel in kernels.items():
            yield generator, specification, kernel


def recompile(processor: target.Target, most: int = 16) -> int:
    """Make images of what was built, at most so many of each generator, for another processor; how many that were."""
    count = 0
    for generator, specifications in build.GENERATORS.items():
        for specification in list(specifications)[:: max(1, len(specifications) // most)]:
            k = build.source_of(generator, specification, processor)
            if k.features:  # of another processor
                continue
            assert image.is_whole(image.link(image.compile_object(_without_assembly(k.text()), processor), k.name))
            count += 1
    for ir, name in zip(pool.source(processor), ("launch", "worker", "replay"), strict=True):
        assert image.is_whole(image.link(image.compile_object(_without_assembly(ir), processor), name))
    return count


def _without_assembly(ir: str) -> str:
    """``ir`` with something else for system calls: llvmlite has no parser for other processors' inline assembly."""
    ir, found = re.subn(r'call i64 asm sideeffect "[^"]*", "[^"]*"', "call i64 @system", ir)
    return ir + f"define internal i64 @system({', '.join(['i64'] * 7)}) noinline {{\n  ret i64 0\n}}\n" if found else ir


def _is_for_this(generator: Callable[..., None]) -> bool:
    """Whether the processor has what a generator's kernels are for."""
    instructions = narrow_products.instructions()
    family = generator.__module__.rpartition(".")[2]
    return not (family in OF_TILES and instructions != "tiles") and not (family == "narrow_products" and not instructions)


def main() -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(2)
    start = time.perf_counter()
    only = next((word[5:] for word in sys.argv[1:] if word.startswith("only=")), "")
    failures = []
    for name in CASES:
        if only in name:
            try:
                check(name)
            except Exception as error:
                failures.append(f"{name}: {error!r}")
    refused = sorted({generator.__name__ for generator, _, kernel in built() if isinstance(kernel, native.NoKernel)})
    idle = sorted(generator.__name__ for generator, kernels in build.GENERATORS.items() if not kernels and _is_for_this(generator))
    count = sum(1 for _ in built())
    print(f"{target.current().name}: {count} kernels, {time.perf_counter() - start:.1f} s; refused: {refused}; never built: {idle}")
    assert native.switch.on, "a kernel that cannot be had switched all others off"
    if "neon" in sys.argv:
        start = time.perf_counter()
        print(f"neon: {recompile(target.NEON)} images, {time.perf_counter() - start:.1f} s")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
