"""Operands without elements: PyTorch's dtypes, shapes, gradients and refusals, for dtypes too that a kernel would refuse if it had work."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau

DTYPES = ("float16", "float64", "complex64", "int32", "bool")
SHAPES = ((0, 4), (0,), (4, 0))
REFUSALS = ("NotImplementedError", "RuntimeError")

# Expressions of ``x`` by family; ``rows`` is x by fours, ``line`` one sample of one channel.
FAMILIES = {
    "element-wise": "x.exp() | x.sign() | x.abs() | F.gelu(x) | F.softplus(x) | torch.addcmul(x, x, x, value=0.5) | torch.lerp(x, x, 0.3) "
    "| torch.clamp(x, -0.7, 0.9) | torch.addcdiv(x, x, x, value=0.5) | torch.pow(x, x) | torch.logaddexp(x, x) | x.cumsum(0)",
    "reductions": "x.amax(-1) | x.amin(0) | x.amax() | x.amax((0, 1)) | x.sum() | x.mean(0) | x.prod(-1) | x.std(-1) | x.logsumexp(-1) "
    "| torch.var_mean(x, -1) | x.norm() | torch.linalg.vector_norm(x, dim=-1) | x.median() | x.median(-1) | x.nanmedian(0) | x.mode(-1) "
    "| rows.kthvalue(1) | x.argmax(-1) | x.argmin() | x.aminmax() | x.any(-1) | x.cummax(0) | x.sort(-1) | torch.dist(x, x)",
    "norms": "F.instance_norm(line) | F.instance_norm(rows[:, None]) | F.instance_norm(x.reshape(2, -1, 4)) "
    "| F.batch_norm(rows, None, None, training=True) | F.batch_norm(line, None, None, training=True) "
    "| F.batch_norm(rows, torch.zeros(4).to(x.dtype), torch.ones(4).to(x.dtype)) | F.layer_norm(rows, (4,)) | F.rms_norm(rows, (4,)) "
    "| F.group_norm(x.reshape(1, 2, -1), 2) | F.group_norm(x.reshape(-1, 2, 2), 2) | F.normalize(x, dim=-1) "
    "| F.local_response_norm(x.reshape(1, 2, -1), 2) | F.softmax(x, -1) | F.log_softmax(x, -1) | x.renorm(2, 0, 1.0)",
    "windows": "F.avg_pool1d(rows[:, None], 3) | F.adaptive_avg_pool1d(rows[:, None], 5) | F.adaptive_avg_pool1d(rows[:, None], 2) "
    "| F.max_pool1d(rows[:, None], 2) | F.pad(x, (1, 2), value=0.1) | F.conv1d(rows[:, None], x.reshape(-1)[:1].reshape(-1, 1, 1)) "
    "| F.interpolate(rows[:, None], scale_factor=1.5, mode='linear') | F.glu(x, -1)",
    "products": "F.linear(x, x) | x @ x.mT | x.reshape(-1) @ x.reshape(-1) | torch.cdist(x, x) | F.cosine_similarity(x, x, dim=-1) "
    "| torch.einsum('...i,...i->...', x, x) | torch.outer(x.reshape(-1), x.reshape(-1)) | torch.bmm(x[None], x.mT[None])",
    "losses": "F.cross_entropy(rows, classes) | F.cross_entropy(rows, classes, label_smoothing=0.1) | F.nll_loss(rows, classes) "
    "| F.binary_cross_entropy(x, x) | F.mse_loss(x, x) | F.kl_div(x, x) | F.soft_margin_loss(x, x) | F.embedding(classes, x)",
}


def outcomes(torch: Any, expression: str) -> list[str]:
    """Of an expression for all dtypes and shapes, the dtypes and shapes of its results, or the type of its exception."""
    found = []
    for dtype, shape in itertools.product(DTYPES, SHAPES):
        x = torch.zeros(shape).to(getattr(torch, dtype))
        names = {"torch": torch, "F": torch.nn.functional, "x": x, "classes": torch.zeros(0, dtype=torch.int64)}
        names |= {"rows": x.reshape(-1, 4), "line": x.reshape(1, 1, -1)}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = eval(expression, names)
        except Exception as error:
            found.append(type(error).__name__)
        else:
            parts = result if isinstance(result, tuple) else (result,)
            found.append("; ".join(f"{str(part.dtype).rpartition('.')[2]} of {tuple(part.shape)}" for part in parts))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_results_of_nothing_have_pytorchs_dtypes_and_shapes(family: str, of_pytorch: Callable[..., Any]) -> None:
    """What PyTorch refuses for its dtype may be computed; what it does not is not refused."""
    for expression in FAMILIES[family].split(" | "):
        pairs = zip(outcomes(flambeau, expression), of_pytorch(outcomes, expression), strict=True)
        for (dtype, shape), (ours, theirs) in zip(itertools.product(DTYPES, SHAPES), pairs, strict=True):
            is_more = theirs in REFUSALS and (" of " in ours or ours in REFUSALS)
            assert ours == theirs or is_more, f"{expression} of {dtype} {shape}: {ours}, PyTorch has {theirs}"


ATTENDED = ((0, 4), (2, 4), (2, 0, 4), (0, 2, 4), (2, 3, 4), (2, 0), (1, 2, 0, 4), (2, 0, 3, 4), (0,))


def attention(torch: Any, query: Any, key: Any, value: Any, fill: float, options: dict[str, Any]) -> Any:
    """Shape, strides, values and gradients of attention over sequences of one number, or the type of the exception."""
    operands = [torch.full(shape, fill).requires_grad_() for shape in (query, key, value)]
    given = {name: torch.zeros(option) if isinstance(option, tuple) else option for name, option in options.items()}
    try:
        result = torch.nn.functional.scaled_dot_product_attention(*operands, **given)
    except Exception as error:
        return type(error).__name__
    gradients = torch.autograd.grad(result, operands, torch.ones_like(result))
    rounded = [[list(tensor.shape), repr((tensor.detach() * 1000).round().tolist())] for tensor in (result, *gradients)]
    return [*rounded, list(result.stride()) if result.numel() else None]


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"attn_mask": (7, 7), "is_causal": True}, {"dropout_p": 2.0}],
    ids=["plain", "causal", "mask and causal", "dropout"],
)
def test_attention_without_queries_or_values_is_zeros_of_the_querys_shape(options: dict[str, Any], of_pytorch: Callable[..., Any]) -> None:
    """Before anything else is looked at; the result depends on all three operands, and carries their NaN on."""
    for query, key, value in itertools.product(ATTENDED, repeat=3):
        if 0 not in query[:-1] and 0 not in value:
            continue
        for fill in (1.0, float("nan")):
            case = query, key, value, fill, options
            assert attention(flambeau, *case) == of_pytorch(attention, *case), case


def test_attention_of_nothing_is_of_any_dtype(of_pytorch: Callable[..., Any]) -> None:
    def dtypes(torch: Any) -> list[str]:
        kinds = [getattr(torch, name) for name in ("float16", "bfloat16", "complex64", "int32", "bool")]
        operands = [(torch.zeros(2, 4, dtype=kind), torch.zeros(0, 4, dtype=kind)) for kind in kinds]
        results = [torch.nn.functional.scaled_dot_product_attention(query, key, key) for query, key in operands]
        return [str(result.dtype).rpartition(".")[2] for result in results]

    assert dtypes(flambeau) == of_pytorch(dtypes)
