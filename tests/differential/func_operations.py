"""The operations that transforms are put around in ``func``, as expressions in both libraries' source.

``x`` is the operand that the program differentiates by, ``y`` and ``z`` are others of its shape, ``row`` is a vector of its last dimension,
``mask`` and ``places`` are bools and indices of its shape. A domain says where values may lie.
"""

from __future__ import annotations

from typing import NamedTuple

# Least and greatest value of each domain, away from where derivatives are huge.
DOMAINS: dict[str, tuple[float, float]] = {
    "real": (-2.5, 2.5),
    "positive": (0.2, 3.0),
    "unit": (0.1, 0.9),
    "signed unit": (-0.85, 0.85),
    "above one": (1.2, 3.5),
    "near one": (0.98, 1.02),  # for products of many
}


class Operation(NamedTuple):
    """An expression; ``rank``: the dimensions that its operand must have (0: any); ``kind``: what it is, for shares."""

    name: str
    text: str
    domain: str = "real"
    rank: int = 0
    kind: str = "one"


def _lines(kind: str, domain: str, text: str, rank: int = 0) -> list[Operation]:
    made = []
    for line in text.strip().splitlines():
        line = line.strip()
        name = line.split("(")[0] if line.startswith(("torch.", "F.", "x.")) else line
        made.append(Operation(name, line, domain, rank, kind))
    return made


_ONE = {
    "real": """
        abs asinh atan arctan sin cos sinh cosh tanh exp exp2 expm1 neg positive square sigmoid erf erfc ceil floor round
        trunc frac sign sgn deg2rad rad2deg nan_to_num i0 special.i0e special.i1 special.i1e special.ndtr special.log_ndtr special.erfcx
        angle real conj special.expit special.expm1 special.exp2 special.i0 absolute negative arcsinh fix
        """,
    "positive": "log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma special.entr special.gammaln special.psi special.log1p",
    "signed unit": "asin acos atanh erfinv arcsin arccos arctanh tan special.erfinv",
    "unit": "logit special.ndtri special.logit",
    "above one": "acosh arccosh sinc special.sinc",
}
_ACTIVATIONS = """
    relu selu celu elu silu mish hardswish hardsigmoid hardtanh relu6 leaky_relu logsigmoid softplus softsign tanhshrink softshrink
    hardshrink gelu sigmoid tanh
    """

ONE = [Operation(name, f"torch.{name}(x)", domain) for domain, names in _ONE.items() for name in names.split()]
ONE += [Operation(f"F.{name}", f"F.{name}(x)") for name in _ACTIVATIONS.split()]
ONE += _lines(
    "one",
    "real",
    """
    F.gelu(x, approximate="tanh")
    F.leaky_relu(x, 0.2)
    F.elu(x, 0.7)
    F.celu(x, 1.3)
    F.softplus(x, 2.0, 1.5)
    F.threshold(x, 0.3, 0.1)
    F.hardtanh(x, -0.7, 1.1)
    F.softshrink(x, 0.4)
    F.hardshrink(x, 0.4)
    F.relu(x.clone(), inplace=True)
    F.silu(x.clone(), inplace=True)
    x.clamp(-1.0, 1.5)
    x.clamp(min=-0.5)
    x.clamp(max=0.5)
    x.clamp_min(0.1)
    x ** 2
    x ** 3
    x * 2.5
    2.5 - x
    x / 1.7
    -x
    x.float().to(x.dtype)
    torch.round(x, decimals=1)
    x.abs().pow(1.5)
    2.0 ** x
    x.remainder(0.7)
    x.fmod(0.7)
    x.masked_fill(mask, 0.5)
    torch.where(mask, x, 0.5)
    torch.where(x > 0, x.sin(), x.exp())
    x.detach() * x
    x.dropout(0.0, True) if False else F.dropout(x, 0.0)
    F.prelu(x, torch.full((1,), 0.3, dtype=x.dtype))
    torch.heaviside(x, y) + x
    """,
)
ONE += _lines(
    "one",
    "positive",
    "torch.polygamma(1, x)\ntorch.polygamma(2, x)\nx ** 0.5\nx ** -1\n1.0 / x\ntorch.mvlgamma(x + 2.0, 2)\ntorch.special.polygamma(1, x)",
)

TWO = _lines(
    "two",
    "real",
    """
    x + y
    y + x
    x - y
    y - x
    x * y
    torch.add(x, y, alpha=0.3)
    torch.sub(y, x, alpha=0.3)
    torch.rsub(x, y)
    torch.maximum(x, y)
    torch.minimum(y, x)
    torch.fmax(x, y)
    torch.fmin(x, y)
    torch.max(x, y)
    torch.min(x, y)
    torch.atan2(x, y)
    torch.atan2(y, x)
    torch.hypot(x, y)
    torch.logaddexp(x, y)
    torch.logaddexp2(x, y)
    torch.ldexp(x, y)
    torch.where(mask, x, y)
    torch.where(mask, y, x)
    torch.where(x > y, x * y, y)
    torch.lerp(x, y, 0.3)
    torch.lerp(x, y, z)
    torch.lerp(y, z, x)
    torch.addcmul(x, y, z, value=0.5)
    torch.addcmul(y, x, z)
    x.masked_fill(y > 0, 0.0)
    x.clamp(y - 1, y + 1)
    x.clamp(min=y)
    F.mse_loss(x, y, reduction="none")
    F.l1_loss(x, y, reduction="none")
    F.smooth_l1_loss(x, y, reduction="none")
    F.huber_loss(x, y, reduction="none")
    F.soft_margin_loss(x, y.sign(), reduction="none")
    F.binary_cross_entropy_with_logits(x, y.sigmoid(), reduction="none")
    F.poisson_nll_loss(x, y.abs(), reduction="none")
    F.kl_div(x, y.abs(), reduction="none")
    F.hinge_embedding_loss(x, y.sign(), reduction="none")
    F.gaussian_nll_loss(x, y, z.abs() + 0.5, reduction="none")
    F.margin_ranking_loss(x, y, z.sign(), reduction="none")
    F.prelu(x, row)
    x + row
    row * x
    row - x
    x * x.mean()
    x.dist(y)
    x * y.sum()
    x.sin().add_(y)
    x.exp().mul_(y).sub_(x)
    x.clone().copy_(y * x)
    x.tanh().addcmul_(y, z, value=0.1)
    x.cos().lerp_(y, 0.4)
    x.sin().clamp_(-0.5, 0.5)
    """,
)
TWO += _lines(
    "two",
    "positive",
    """
    x / y
    y / x
    torch.div(x, y, rounding_mode="floor") + x
    torch.div(x, y, rounding_mode="trunc") * x
    x.pow(y)
    y.pow(x)
    torch.float_power(x, y).to(x.dtype)
    torch.xlogy(x, y)
    torch.xlogy(y, x)
    torch.special.xlog1py(x, y)
    torch.special.xlog1py(y, x)
    torch.remainder(x, y)
    torch.fmod(x, y)
    torch.fmod(y, x)
    torch.addcdiv(x, y, z)
    torch.addcdiv(y, x, z, value=0.4)
    torch.addcdiv(y, z, x)
    torch.true_divide(y, x)
    torch.special.zeta(y + 2, x)
    torch.copysign(x, y - 1.5)
    torch.igamma(y, x)
    torch.igammac(y, x)
    x.clone().div_(y)
    x.log().pow_(2)
    """,
)
TWO += _lines("two", "unit", 'F.binary_cross_entropy(x, y, reduction="none")\nF.binary_cross_entropy(x, y)\ntorch.xlogy(x, 1 - x)')

REDUCTIONS = _lines(
    "reduction",
    "real",
    """
    x.sum()
    x.sum(0)
    x.sum(-1, keepdim=True)
    x.mean()
    x.mean(0)
    x.mean(-1)
    x.nansum()
    x.nansum(-1)
    x.nanmean(0)
    x.var()
    x.var(0)
    x.var(-1, correction=0)
    x.std()
    x.std(-1, keepdim=True)
    torch.var_mean(x, -1)[0]
    torch.std_mean(x, 0)[1] + torch.std_mean(x, 0)[0]
    x.amax()
    x.amax(-1)
    x.amin(0)
    x.max()
    x.max(-1)[0]
    x.max(0).values
    x.min()
    x.min(-1)[0]
    x.aminmax()[0]
    x.aminmax(dim=-1)[1]
    x.median()
    x.median(-1)[0]
    x.nanmedian(0)[0]
    x.kthvalue(2, -1)[0]
    x.mode(-1)[0]
    x.quantile(0.3)
    x.quantile(0.3, -1)
    x.logsumexp(-1)
    x.logsumexp(0)
    x.norm()
    x.norm(dim=-1)
    x.norm(1, dim=0)
    x.norm(3, dim=-1)
    x.norm(float("inf"), dim=-1)
    torch.linalg.vector_norm(x)
    torch.linalg.vector_norm(x, 1)
    torch.linalg.vector_norm(x, 3, -1)
    torch.linalg.vector_norm(x, float("inf"), 0)
    x.cumsum(-1)
    x.cumsum(0)
    x.logcumsumexp(-1)
    x.cummax(-1)[0]
    x.cummin(0)[0]
    x.sort(-1)[0]
    x.sort(0, descending=True)[0]
    x.msort()
    x.topk(2, -1)[0]
    x.topk(1, 0)[0]
    x.softmax(-1)
    x.softmax(0)
    x.log_softmax(-1)
    x.log_softmax(0)
    F.softmin(x, -1)
    F.normalize(x, dim=-1)
    F.cosine_similarity(x, y, dim=-1)
    F.pairwise_distance(x, y)
    F.layer_norm(x, x.shape[-1:])
    F.layer_norm(x, x.shape[-1:], row, row)
    F.rms_norm(x, x.shape[-1:], row)
    x.diff(dim=-1)
    torch.trapezoid(x, dim=-1)
    torch.cumulative_trapezoid(x, dim=-1)
    x.renorm(2, 0, 1.0)
    torch.stack([x, y, x.sin()])
    torch.stack([x, y], -1)
    torch.cat([x, y, x])
    torch.cat([y, x.exp()], -1)
    x.flip(0)
    x.roll(1, -1)
    x.flatten()
    x.repeat_interleave(2, -1)
    x.unsqueeze(0).expand(2, *x.shape)
    x.index_select(-1, torch.tensor([0, 0]))
    x.gather(-1, places)
    torch.take_along_dim(x, places, -1)
    x.scatter(-1, places, y)
    y.scatter(-1, places, x)
    y.scatter_add(-1, places, x)
    x.index_fill(0, torch.tensor([0]), 0.5)
    x.index_add(0, torch.tensor([0]), y[:1])
    x.masked_scatter(mask, y)
    x.take(places)
    F.mse_loss(x, y)
    F.l1_loss(x, y)
    F.smooth_l1_loss(x, y, reduction="sum")
    F.huber_loss(x, y, delta=0.7)
    F.soft_margin_loss(x, y.sign())
    F.binary_cross_entropy_with_logits(x, y.sigmoid())
    F.poisson_nll_loss(x, y.abs())
    F.kl_div(x, y.abs(), reduction="sum")
    F.gaussian_nll_loss(x, y, z.abs() + 0.5)
    F.hinge_embedding_loss(x, y.sign())
    F.pad(x, (1, 2))
    F.glu(torch.cat([x, y], -1), -1)
    x.tensor_split(2, -1)[0]
    x[..., 0]
    x[0]
    x[..., ::2]
    x.unfold(-1, 1, 1)
    (x * x).sum(-1).sqrt()
    x.sum().sin() * x
    """,
)
REDUCTIONS += _lines("reduction", "near one", "x.prod()\nx.prod(-1)\nx.prod(0, keepdim=True)\nx.cumprod(-1)\nx.cumprod(0)")
REDUCTIONS += _lines(
    "reduction",
    "real",
    """
    x @ y.t()
    x[:, :8].t() @ y[:, :16]
    (x @ row)
    torch.mv(x, row)
    F.linear(x, y)
    F.linear(x, y, y[:, 0])
    F.linear(row, x)
    torch.addmm(y @ y.t(), x, y.t())
    torch.einsum("ab,cb->ac", x, y)
    torch.einsum("ab,ab->", x, y)
    torch.tensordot(x, y, dims=2)
    torch.linalg.vecdot(x, y)
    torch.trace(x)
    x.diagonal()
    x.tril()
    x.triu(1)
    x.t()
    x.t().contiguous()
    torch.cov(x[:3])
    torch.cdist(x[:3], y[:2])
    F.pdist(x[:3])
    F.cross_entropy(x, places[:, 0])
    F.cross_entropy(x, y.softmax(-1))
    F.cross_entropy(x, places[:, 0], label_smoothing=0.1)
    F.nll_loss(x, places[:, 0])
    F.multi_margin_loss(x, places[:, 0])
    F.multilabel_soft_margin_loss(x, mask.to(x.dtype))
    F.triplet_margin_loss(x, y, z)
    F.cosine_embedding_loss(x, y, mask[:, 0] * 2.0 - 1.0)
    F.embedding(places[0], x.t())
    F.group_norm(x, 1)
    F.batch_norm(x, None, None, training=True)
    F.instance_norm(x.unsqueeze(0))
    F.conv1d(x.unsqueeze(0), row[:3].reshape(1, 1, 3).expand(2, x.shape[0], 3))
    F.avg_pool1d(x.unsqueeze(0), 2)
    F.max_pool1d(x.unsqueeze(0), 2)
    F.adaptive_avg_pool1d(x, 1)
    F.interpolate(x[None, None], scale_factor=0.5, mode="bilinear")
    F.scaled_dot_product_attention(x[:3], y[:3], z[:3])
    torch.fft.rfft(x).abs()
    torch.fft.irfft(torch.fft.rfft(x), x.shape[-1])
    """,
    rank=2,
)
REDUCTIONS += _lines(
    "reduction",
    "real",
    """
    F.group_norm(x.unsqueeze(0), 1)
    F.batch_norm(x, None, None, row.new_ones(x.shape[1]), row.new_zeros(x.shape[1]), True)
    torch.bmm(x, y.transpose(1, 2))
    torch.baddbmm(x @ y.transpose(1, 2), x, y.transpose(1, 2))
    x.sum((0, 2))
    x.mean((0, 1), keepdim=True)
    x.var((1, 2))
    x.amax((0, 2))
    torch.linalg.vector_norm(x, 2, (0, 1))
    torch.linalg.matrix_norm(x)
    F.scaled_dot_product_attention(x, y, z)
    F.avg_pool2d(x, (1, 2))
    F.max_pool2d(x, (1, 2))
    x.permute(2, 0, 1)
    """,
    rank=3,
)

WRITES = _lines(
    "write",
    "real",
    """
    written(x, lambda c: c[0].copy_(x[-1].sin()))
    written(x, lambda c: c[0].mul_(2))
    written(x, lambda c: c[..., ::2].mul_(y[..., ::2]))
    written(x, lambda c: c.unbind(0)[0].shape and c.select(0, 0).add_(x[0]))
    written(x, lambda c: c.mul_(x).add_(y))
    written(x, lambda c: c.index_put_((torch.tensor([0]),), x[-1:].exp()))
    written(x, lambda c: c.masked_fill_(mask, 0.3))
    written(x, lambda c: c.relu_())
    written(x, lambda c: c.transpose(0, -1)[0].sin_())
    written(x, lambda c: c.view(-1)[1:].cumsum_(0))
    written(x, lambda c: c.fill_(0.5))
    written(x, lambda c: c.zero_().add_(x, alpha=2))
    into(x.new_zeros(x.shape), lambda c: c.copy_(x.exp()))
    into(torch.zeros_like(x), lambda c: c.add_(x.cos()))
    into(torch.empty_like(x), lambda c: c.copy_(x).mul_(x))
    under_no_grad(lambda: x * 2) + x
    under_no_grad(lambda: x.sin().sum()) * x
    """,
)

ALL = [*ONE, *TWO, *REDUCTIONS, *WRITES]
