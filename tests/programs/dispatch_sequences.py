"""The kernels that a mode below the tape sees, by name and overload, forward and backward, against PyTorch's.

Each program is a line of source that runs on both libraries under a ``TorchDispatchMode``; what it returns is then differentiated under a
mode of its own.  A program is equal if both lists of names are.

    python -m tests.programs.dispatch_sequences             how many are equal, and which are not, each with the reason
    python -m tests.programs.dispatch_sequences NAME...     the lists of these programs, where they differ
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

from oracle import pytorch

import flambeau

# Not compared: detached results that PyTorch's tape keeps, and ranges that profilers name.
UNSEEN = ("aten.detach.default", "profiler.")

# Why programs differ, by a part of their source.
EXPLAINED = {
    "torch.einsum": "contractions are planned otherwise: two operands without a batch are one `mm` here",
    "torch.linalg.det": "decompositions have derivatives and kernels of another cut",
    "torch.linalg.slogdet": "decompositions have derivatives and kernels of another cut",
    "torch.linalg.solve": "decompositions have derivatives and kernels of another cut",
    "torch.linalg.qr": "decompositions have derivatives and kernels of another cut",
    "torch.linalg.eigh": "decompositions have derivatives and kernels of another cut",
    "torch.linalg.svd": "decompositions have derivatives and kernels of another cut",
    "torch.linalg.matrix_exp": "decompositions have derivatives and kernels of another cut",
    "x.cumprod(1)": "zeros are looked for by value, PyTorch masks them",
    "x.scatter_reduce": "PyTorch refuses this derivative",
    "torch.cov": "weights that are not there are not made",
    "torch.corrcoef": "weights that are not there are not made",
    "torch.gradient": "edges are divided by a spacing of 1 once",
    "torch.trapezoid": "the ends are taken off a sum, another way round",
    "torch.matmul(x.detach()": "`matmul` with `out=` is one operation",
    "torch.combinations": "indices of pairs are made at once",
    "F.bilinear": "one product with the weight as a matrix; PyTorch has a kernel of three operands",
    "F.embedding_bag": "bags are sums of rows; PyTorch has a kernel",
    "F.affine_grid": "the derivative is that of the operations",
    "F.conv_tbc": "a convolution of permuted operands",
    "lstm(t4)": "a recurrent layer is one operation",
    "gru(t4)": "a recurrent layer is one operation",
    "rnn(t4)": "a recurrent layer is one operation",
    "mha(": "the projection of multi-head attention is split, not copied",
    "encoder(": "the projection of multi-head attention is split, not copied",
    "checkpoint": "a call is recorded behind its kernel, so the last one is made again too",
}

PROGRAMS: dict[str, str] = {}


def add(text: str, prefix: str = "") -> None:
    """Programs by their source, one a line; ``# name`` behind one names it."""
    for line in text.strip().splitlines():
        source, _, name = line.strip().partition("  # ")
        PROGRAMS[prefix + (name or source)] = source


# x, y: (2, 3); v: (3,); p: (2, 3) between 0 and 1; m: (3, 3); s, u, b: signals (2, 4, 8), images (2, 4, 8, 8), bodies (2, 4, 4, 4, 4)
add(
    """
x + y
x - 2 * y
2 - x
x * 3
x / y
2 / x
x ** 2
p ** y
2 ** x
x.square()
x // 2
x % 2
-x
abs(x)
x.exp().log1p()
p.sqrt().rsqrt()
p.log().sigmoid().tanh()
x.sin().cos()
x.erf()
x.atan2(y)
p.logit()
x.clamp(0, 1)
x.clamp_min(0)
x.maximum(y)
x.lerp(y, 0.5)
x.lerp(y, p)
torch.addcmul(x, y, p, value=2)
torch.addcdiv(x, y, p)
torch.hypot(x, y)
x.sign(), x.floor(), x.round(), x.frac()
x.sum()
x.sum(0)
x.mean()
x.mean(1, True)
x.prod()
x.prod(1)
x.var()
x.std(0)
torch.var_mean(x, 1)
x.amax(1)
x.max()
x.max(1)
x.min(0, True)
x.median()
x.median(1)
x.norm()
x.norm(dim=1)
torch.linalg.vector_norm(x, 3, 1)
torch.linalg.matrix_norm(m)
x.logsumexp(1)
x.cumsum(0)
x.cumprod(1)
x.sort(1)
x.topk(2)
x.kthvalue(2)
x.argmax(1), x.argsort(1)
x.all(), x.any(1)
x.count_nonzero()
torch.dist(x, y)
torch.cdist(x, y)
torch.nn.functional.pairwise_distance(x, y)
x.t() @ y
x @ v
v @ v
x @ m
b3 @ m
b3 @ b3.transpose(1, 2)
torch.bmm(b3, b3.transpose(1, 2))
torch.baddbmm(b3[:, :, :2], b3, b3.transpose(1, 2))
torch.addmm(x, y, m)
torch.addmv(v, m, v)
torch.einsum("ij,kj->ik", x, y)
torch.einsum("bij,bkj->bik", b3, b3)
torch.outer(v, v)
torch.tensordot(x, y, 2)
torch.kron(x, y)
m.inverse()
torch.linalg.inv(m)
torch.linalg.det(m)
torch.linalg.slogdet(m)
torch.linalg.solve(m, v)
torch.linalg.cholesky(m @ m.t() + torch.eye(3))
torch.linalg.qr(m)
torch.linalg.eigh(m + m.t())
torch.linalg.svd(m)
torch.linalg.matrix_exp(m)
torch.trace(m)
torch.tril(m), torch.triu(m, 1)
torch.diag(v)
m.diagonal()
"""
)
add(
    """
x.view(3, 2)
x.reshape(6)
x.t().reshape(6)
x.flatten()
x.permute(1, 0)
x.transpose(0, 1).contiguous()
x.unsqueeze(0).squeeze(0)
x.expand(4, 2, 3)
x.repeat(2, 2)
x.repeat_interleave(2, 0)
torch.tile(x, (2, 2))
x.chunk(2)
x.split([1, 2], 1)
x.unbind(0)
torch.cat([x, y])
torch.stack([x, y], 1)
torch.hstack([x, y])
torch.where(x > 0, x, y)
torch.where(x > 0, x, 0.0)
x.masked_fill(x > 0, 1.0)
x.masked_select(x > 0)
x[0]
x[:, 1:]
x[..., None]
x[x > 0]
x[i]
x[:, i]
x[i, i]
x.gather(1, i[None])
x.scatter(1, i[None], y)
x.scatter_add(1, i[None], y)
x.scatter_reduce(1, i[None], y, "amax")
x.index_select(0, i)
x.index_add(0, i, y)
x.index_copy(0, i, y)
x.index_fill(0, i, 1.0)
x.index_put((i,), y)
x.index_put((i,), y, True)
x.take(i)
x.flip(0)
x.roll(1, 0)
m.rot90()
x.unfold(1, 2, 1)
x.narrow(1, 0, 2)
x.select(1, 0)
x.movedim(0, 1)
x.swapaxes(0, 1)
x.view_as(y)
x.double()
x.to(torch.float16)
x.clone()
x.detach()
x.view(torch.int32)
torch.view_as_real(torch.complex(x, y))
torch.meshgrid(v, v, indexing="ij")
torch.diag_embed(x)
torch.broadcast_tensors(x, v)
x.nonzero()
torch.unique(x)
torch.bincount(i)
torch.histc(x, 4)
torch.searchsorted(v, x)
torch.bucketize(x, v)
F.one_hot(i, 4)
x.sum().item()
torch.equal(x, y)
torch.allclose(x, y)
torch.isnan(x), torch.isfinite(x)
torch.nan_to_num(x)
torch.cross(x, y)
torch.cov(x)
torch.corrcoef(x)
torch.diff(x)
torch.gradient(x)
torch.trapezoid(x)
torch.fft.fft(x)
torch.fft.rfft(x)
torch.fft.irfft(torch.fft.rfft(x), 3)
torch.stft(x, 2, return_complex=True)
"""
)
add(
    """
y = x * 1; y.add_(1); y.mul_(2); y
y = x * 1; y.relu_(); y
y = x * 1; y[0] = 1.0; y
y = x * 1; y[:, 1] = v[:2]; y
y = x * 1; y[y > 0] = 0.0; y
y = x * 1; y[i] = y[i] + 1; y
y = x * 1; y.zero_(); y
y = x * 1; y.fill_(2); y
y = x * 1; y.copy_(p); y
y = x * 1; y.clamp_(0, 1); y
y = x * 1; y.masked_fill_(y > 0, 1); y
y = x * 1; y.scatter_(1, i[None], 0.0); y
y = x * 1; y.index_add_(0, i, p); y
y = x * 1; y.t_().add_(1); y  # t_ in place
y = x * 1; y.view(6).sin_(); y
y = x * 1; y += 1; y -= p; y *= 2; y /= p; y
y = x * 1; y.addcmul_(p, p); y
y = x * 1; y.lerp_(p, 0.5); y
y = x * 1; F.dropout(y, 0.5, True, inplace=True); y
y = x * 1; F.leaky_relu(y, inplace=True); y
y = x * 1; F.elu(y, inplace=True); y
y = x * 1; F.hardswish(y, inplace=True); y
y = x * 1; F.silu(y, inplace=True); y
y = x.detach().clone(); y.normal_(); y.uniform_(); y.bernoulli_(0.5); y.exponential_(); y.random_(5); y
y = x * 1; y.clamp_min_(0); y
y = x * 1; y[0, 1] = 2.0; y[:, 0] += 1; y
torch.add(x.detach(), 1, out=torch.empty(2, 3))
torch.matmul(x.detach(), m.detach(), out=torch.empty(2, 3))
"""
)
add(
    """
torch.zeros(2, 3), torch.ones(2), torch.empty(2).fill_(0), torch.full((2,), 3.0)
torch.arange(3), torch.arange(1, 3), torch.arange(0, 3, 2), torch.linspace(0, 1, 4), torch.logspace(0, 1, 4)
torch.eye(3), torch.eye(2, 3)
torch.rand(2), torch.randn(2), torch.randint(0, 3, (2,)), torch.randint(3, (2,)), torch.randperm(4)
torch.zeros_like(x), torch.ones_like(x), torch.empty_like(x), torch.full_like(x, 2), torch.rand_like(x), torch.randn_like(x)
x.new_zeros(2), x.new_ones(2), x.new_full((2,), 1), x.new_empty(2), x.new_tensor([1.0])
torch.tensor([1.0, 2.0]), torch.as_tensor([1.0]), torch.scalar_tensor(1.0)
torch.tril_indices(3, 3), torch.triu_indices(3, 3)
torch.normal(0.0, 1.0, (2,)), torch.normal(x.detach(), 1.0), torch.bernoulli(p.detach())
torch.multinomial(p.detach(), 2), torch.poisson(p.detach())
torch.hann_window(4), torch.hamming_window(4)
torch.randint_like(x, 3), torch.empty_strided((2, 2), (2, 1)).zero_()
torch.complex(x.detach(), y.detach()), torch.polar(p.detach(), x.detach())
torch.cartesian_prod(v.detach(), v.detach()), torch.combinations(v.detach())
"""
)
add(
    "\n".join(
        f"F.{name}(x)"
        for name in (
            "relu relu6 elu selu celu gelu silu mish softplus softsign softshrink hardshrink tanhshrink hardtanh hardsigmoid hardswish "
            "leaky_relu logsigmoid sigmoid tanh rrelu"
        ).split()
    )
)
add(
    """
F.gelu(x, approximate="tanh")
F.glu(torch.cat([x, y], 1))
F.prelu(x, v)
F.prelu(u, v4)
F.threshold(x, 0.1, 0.0)
F.softmax(x, 1)
F.log_softmax(x, 1)
F.softmin(x, 1)
F.softmax(x, 1, dtype=torch.float64)
F.gumbel_softmax(x)
F.normalize(x)
F.cosine_similarity(x, y)
F.dropout(x)
F.dropout1d(s)
F.dropout2d(u)
F.dropout3d(b)
F.alpha_dropout(x, 0.5, True)
F.feature_alpha_dropout(u, 0.5, True)
F.linear(x, w)
F.linear(x, w, v4)
F.linear(b3, w, v4)
F.bilinear(x, y, wb, v4)
F.embedding(i, m)
F.embedding(i, m, padding_idx=1)
F.embedding_bag(i[None], m)
F.embedding_bag(i[None], m, mode="sum")
F.embedding_bag(i[None], m, mode="max")
F.one_hot(i)
F.layer_norm(x, (3,), v, v)
F.layer_norm(x, (3,))
F.rms_norm(x, (3,), v)
F.group_norm(u, 2, v4, v4)
F.batch_norm(u, None, None, v4, v4, True)
F.batch_norm(u, r.clone(), r.clone(), v4, v4, True)
F.batch_norm(u, r, r + 1, v4, v4, False)
F.batch_norm(x4, None, None, None, None, True)
F.instance_norm(u)
F.instance_norm(u, weight=v4, bias=v4)
F.instance_norm(u, r, r + 1, use_input_stats=False)
F.local_response_norm(u, 2)
F.lp_pool1d(s, 2, 2)
F.lp_pool2d(u, 2, 2)
F.pixel_shuffle(u, 2)
F.pixel_unshuffle(u, 2)
F.channel_shuffle(u, 2)
F.unfold(u, 2)
F.fold(F.unfold(u, 2), (8, 8), 2)
F.grid_sample(u, grid, align_corners=False)
F.grid_sample(u, grid, "nearest", "border", True)
F.affine_grid(theta, (2, 4, 8, 8), align_corners=False)
F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(8, 8))
"""
)
for dims, name in ((1, "s"), (2, "u"), (3, "b")):
    PROGRAMS.update(
        {
            source: source
            for source in (
                f"F.conv{dims}d({name}, k{dims})",
                f"F.conv{dims}d({name}, k{dims}, v4, stride=2, padding=1)",
                f"F.conv{dims}d({name}, k{dims}, v4, dilation=2, padding=1)",
                f"F.conv{dims}d({name}, k{dims}[:, :1], v4, groups=4)",
                f"F.conv{dims}d({name}, k{dims}, padding='same')",
                f"F.conv{dims}d({name}, k{dims}, padding='valid')",
                f"F.conv{dims}d({name}[0], k{dims})",
                f"F.conv_transpose{dims}d({name}, k{dims}, v4)",
                f"F.conv_transpose{dims}d({name}, k{dims}, stride=2, output_padding=1)",
                f"F.max_pool{dims}d({name}, 2)",
                f"F.max_pool{dims}d({name}, 2, 1, return_indices=True)",
                f"F.avg_pool{dims}d({name}, 2)",
                f"F.avg_pool{dims}d({name}, 2, 1, 1, count_include_pad=False)",
                f"F.adaptive_avg_pool{dims}d({name}, 2)",
                f"F.adaptive_avg_pool{dims}d({name}, 1)",
                f"F.adaptive_max_pool{dims}d({name}, 2)",
                f"F.adaptive_max_pool{dims}d({name}, 2, return_indices=True)",
                f"F.max_unpool{dims}d(*F.max_pool{dims}d({name}, 2, return_indices=True), 2)",
                f"F.interpolate({name}, scale_factor=2)",
                f"F.interpolate({name}, size={(5,) * dims}, mode='nearest-exact')",
                f"F.interpolate({name}, size={(5,) * dims}, mode='{('linear', 'bilinear', 'trilinear')[dims - 1]}')",
                f"F.interpolate({name}, scale_factor=2, mode='{('linear', 'bilinear', 'trilinear')[dims - 1]}', align_corners=True)",
                f"F.interpolate({name}, size={(3,) * dims}, mode='area')",
                f"F.pad({name}, {(1, 2) * dims})",
                f"F.pad({name}, {(1, 2) * dims}, value=1.5)",
                f"F.pad({name}, {(1, 2) * dims}, 'reflect')",
                f"F.pad({name}, {(1, 2) * dims}, 'replicate')",
                f"F.pad({name}, {(1, 2) * dims}, 'circular')",
            )
        }
    )
add(
    """
F.conv_tbc(s, k1t, v4)
F.interpolate(u, size=(5, 5), mode='bicubic')
F.interpolate(u, size=(5, 5), mode='bilinear', antialias=True)
F.interpolate(u, size=(5, 5), mode='bicubic', antialias=True)
F.fractional_max_pool2d(u, 2, 3)
F.fractional_max_pool3d(b, 2, 2)
F.lp_pool3d(b, 2, 2)
F.pad(x, (-1, 1))
"""
)
add(
    "\n".join(
        f"F.{name}, reduction='{reduction}')"
        for reduction in ("mean", "sum", "none")
        for name in (
            "mse_loss(x, y",
            "l1_loss(x, y",
            "smooth_l1_loss(x, y",
            "huber_loss(x, y",
            "binary_cross_entropy(p, q01",
            "binary_cross_entropy_with_logits(x, q01",
            "cross_entropy(x, c",
            "nll_loss(x, c",
            "kl_div(x, p",
            "poisson_nll_loss(x, p",
            "gaussian_nll_loss(x, y, p",
            "hinge_embedding_loss(x, one",
            "margin_ranking_loss(x, y, one",
            "soft_margin_loss(x, one",
            "cosine_embedding_loss(x, y, one[:, 0]",
            "multi_margin_loss(x, c",
            "multilabel_margin_loss(x, lab",
            "multilabel_soft_margin_loss(x, q01",
            "triplet_margin_loss(x, y, p",
            "triplet_margin_with_distance_loss(x, y, p",
        )
    )
)
add(
    """
F.cross_entropy(x, c, weight=v.detach())
F.cross_entropy(x, c, label_smoothing=0.1)
F.cross_entropy(x, p.softmax(1))
F.cross_entropy(u, c2)
F.nll_loss(u, c2)
F.ctc_loss(t3.log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([5]), torch.tensor([2]))
F.binary_cross_entropy_with_logits(x, q01, pos_weight=v.detach())
F.binary_cross_entropy(p, q01, v.detach())
torch.lstm_cell(x4, (x4, x4), k16, k16)
torch.gru_cell(x4, x4, k12, k12)
torch.rnn_tanh_cell(x4, x4, k4, k4)
torch.rnn_relu_cell(x4, x4, k4, k4, v4, v4)
lstm(t4)
gru(t4)
rnn(t4)
mha(t4, t4, t4)
mha(t4, t4, t4, need_weights=False)
encoder(t4)
torch.utils.checkpoint.checkpoint(lambda z: z.sin(), x, use_reentrant=False)
"""
)


def environment(library: Any, source: str) -> dict[str, Any]:
    """What a program's names stand for."""
    library.manual_seed(0)

    def leaf(*shape: int) -> Any:
        count = 1
        for size in shape:
            count *= size
        values = library.arange(count, dtype=library.float32)
        return ((values * 37 % 101) / 50 - 1).reshape(shape).requires_grad_()

    images = {"s": (2, 4, 8), "u": (2, 4, 8, 8), "b": (2, 4, 4, 4, 4), "q": (2, 2, 8, 4), "b3": (2, 2, 3)}
    kernels = {"k1": (4, 4, 3), "k2": (4, 4, 3, 3), "k3": (4, 4, 3, 3, 3), "k1t": (2, 8, 4), "k16": (16, 4)}
    sequences = {"t3": (5, 1, 4), "t4": (3, 2, 4), "x4": (2, 4), "k12": (12, 4), "k4": (4, 4), "v4": (4,)}
    others = {"x": (2, 3), "v": (3,), "w": (4, 3), "wb": (4, 3, 3), "grid": (2, 5, 5, 2), "theta": (2, 2, 3)}
    nn = library.nn
    made: dict[str, Callable[[], Any]] = {
        **{name: lambda shape=shape: leaf(*shape) for name, shape in {**images, **kernels, **sequences, **others}.items()},  # type: ignore[misc]
        "y": lambda: leaf(2, 3).detach().add(0.1).requires_grad_(),
        "p": lambda: leaf(2, 3).detach().mul(0.4).add(0.5).requires_grad_(),
        "m": lambda: (leaf(3, 3).detach() + 3 * library.eye(3)).requires_grad_(),
        "r": lambda: leaf(4).detach(),
        "i": lambda: library.tensor([0, 1]),
        "c": lambda: library.tensor([0, 2]),
        "c2": lambda: library.zeros(2, 8, 8, dtype=library.int64),
        "one": lambda: library.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]]),
        "q01": lambda: library.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
        "lab": lambda: library.tensor([[0, -1, 1], [1, 2, -1]]),
        "lstm": lambda: nn.LSTM(4, 4),
        "gru": lambda: nn.GRU(4, 4),
        "rnn": lambda: nn.RNN(4, 4),
        "mha": lambda: nn.MultiheadAttention(4, 2),
        "encoder": lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0),
    }
    words = re.findall(r"\w+", source)
    found = {"torch": library, "F": library.nn.functional, **{name: make() for name, make in made.items() if name in words}}
    importlib.import_module(f"{library.__name__}.utils.checkpoint")
    return found


def logging_mode(library: Any) -> Any:
    """A mode that keeps the names of what arrives."""

    class Log(importlib.import_module(f"{library.__name__}.utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    return Log()


def flat(library: Any, value: Any) -> list[Any]:
    if isinstance(value, library.Tensor):
        return [value]
    return [tensor for item in value for tensor in flat(library, item)] if isinstance(value, (list, tuple)) else []


def sequences(library: Any, source: str) -> tuple[list[str], list[str]]:
    """Names in forward and in backward; an error's type stands at the end of the list in which it was raised."""
    scope = environment(library, source)
    leaves = [value for value in scope.values() if isinstance(value, library.Tensor) and value.requires_grad]
    leaves += [p for value in scope.values() if isinstance(value, library.nn.Module) for p in value.parameters()]
    *steps, last = source.split("; ")
    result: Any = ()
    with logging_mode(library) as forward:
        try:
            for step in steps:
                exec(step, scope)
            result = eval(last, scope)
        except Exception:
            forward.names.append("refused")
    outputs = [tensor for tensor in flat(library, result) if tensor.requires_grad]
    grads = [library.ones_like(tensor) for tensor in outputs]
    with logging_mode(library) as backward:
        if outputs:
            try:
                library.autograd.grad(outputs, leaves, grads, allow_unused=True)
            except Exception:
                backward.names.append("refused")
    return shown(forward.names), shown(backward.names)


def shown(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith(UNSEEN)]


def reason(name: str) -> str | None:
    """Why a program differs, as far as that is known."""
    return next((why for part, why in EXPLAINED.items() if part in PROGRAMS[name]), None)


def compare(names: Any, library: Any) -> dict[str, tuple[Any, Any]]:
    """Both pairs of lists of the programs that differ."""
    found = {}
    for name in names:
        both = sequences(flambeau, PROGRAMS[name]), sequences(library, PROGRAMS[name])
        if both[0] != both[1]:
            found[name] = both
    return found


def main(arguments: list[str]) -> int:
    torch = pytorch()

    parser = argparse.ArgumentParser(prog="python -m tests.programs.dispatch_sequences", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs, by a part of their source")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = [name for name in PROGRAMS if not options.names or any(part in name for part in options.names)]
    different = compare(names, torch)
    unexplained = 0
    for name, both in different.items():
        why = reason(name)
        unexplained += why is None
        print(f"{name}: {why or 'UNEXPLAINED'}", flush=True)
        if why is None or options.names:
            for part, ours, theirs in zip(("forward", "backward"), *both, strict=True):
                if ours != theirs:
                    print(f"  {part}\n    here    {' '.join(ours)}\n    PyTorch {' '.join(theirs)}", flush=True)
    print(f"{len(names) - len(different)} of {len(names)} equal, {unexplained} of the others unexplained")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
