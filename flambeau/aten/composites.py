"""Operations of ours that PyTorch composes of several kernels, or of other ones; and the calls that its library makes.

Numbers stay numbers in what PyTorch composes without Python (``in_library``): ``add.Scalar`` where a program's ``x + 1`` is ``add.Tensor``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..core.arrays.kinds import kind_of
from ..core.calls.registry import resolve
from ..core.dtype import int64
from ..core.state import modes
from ..core.tensor import Tensor
from ..ops.linalg.matrix_checks import check_info, not_differentiable
from ..ops.losses.loss import reduced, reduction_of
from .calls import COMPOSED, LEAVES, overload_named
from .derivatives import RULES, call, gradients_of, kernel, torch
from .formulas import _of_norm, less
from .kernels import F, functional, in_library, ours


def _as_library(*names: str) -> Any:
    """Decorator: the function stands for these composites, as the library's own code."""

    def register(function: Any) -> Any:
        for name in names:
            LEAVES[name] = in_library(function)
        return function

    return register


def _word(size_average: Any, reduce: Any, reduction: Any) -> str:
    return str(reduction_of(reduction, size_average, reduce))


def _clamped(tensor: Any) -> Any:
    return call("clamp_min_", tensor, 0)


# -- losses ----------------------------------------------------------------------------------------------------------------------------
@_as_library(f"{F}.hinge_embedding_loss")
def _hinge(input: Any, target: Any, margin: float, *words: Any) -> Any:
    word = _word(*words)
    zeros = torch("zeros_like", input)
    distance = _clamped(less(margin, input))
    apart = torch("where", target != 1, distance, zeros)
    together = torch("where", target != -1, input, zeros)
    return reduced(apart + together, word)


@_as_library(f"{F}.margin_ranking_loss")
def _ranking(input1: Any, input2: Any, target: Any, margin: float, *words: Any) -> Any:
    word = _word(*words)
    if not input1.dim() == input2.dim() == target.dim():
        return NotImplemented  # the composite complains
    difference = input1 - input2
    return reduced(_clamped(-target * difference + float(margin)), word)


@_as_library(f"{F}.cosine_embedding_loss")
def _cosine_loss(input1: Any, input2: Any, target: Any, margin: float, *words: Any) -> Any:
    word = _word(*words)
    if target.dim() not in (0, 1) or input1.dim() != target.dim() + 1 or input2.dim() != input1.dim():
        return NotImplemented  # the composite complains
    dim = target.dim()
    products = (input1 * input2).sum([dim])
    first = (input1 * input1).sum([dim]) + 1e-12
    second = (input2 * input2).sum([dim]) + 1e-12
    cosine = products / (first * second).sqrt_()
    zeros = torch("zeros_like", cosine)
    near = less(1, cosine)
    far = _clamped(cosine - margin)
    together = torch("where", target == 1, near, zeros)
    return reduced(together + torch("where", target == -1, far, zeros), word)


@_as_library(f"{F}.kl_div")
def _divergence(input: Any, target: Any, *words: Any) -> Any:
    *given, log_target = words
    if log_target or given[0] is not None or given[1] is not None or given[2] not in ("none", "mean", "sum"):
        return NotImplemented
    product = target * input
    return reduced(torch("xlogy", target, target) - product, given[2])


@_as_library(f"{F}.poisson_nll_loss")
def _poisson(input: Any, target: Any, log_input: bool, full: bool, size_average: Any, eps: float, reduce: Any, reduction: Any) -> Any:
    if full:
        return NotImplemented
    product = target * input if log_input else target * (input + eps).log()
    return reduced((input.exp() if log_input else input) - product, _word(size_average, reduce, reduction))


LEAVES[f"{F}.multilabel_soft_margin_loss"] = lambda *values: _soft_margins(*values)


def _soft_margins(input: Any, target: Any, weight: Any, *words: Any) -> Any:
    log_sigmoid = resolve(F, "logsigmoid")
    losses = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(losses.sum(input.dim() - 1) / input.size(-1), _word(*words))


@in_library
def _smoothed(input: Any, target: Any, weight: Any, reduction: str, ignore_index: int, label_smoothing: float) -> Any:
    dim = 0 if input.dim() == 1 else 1
    if weight is not None:
        return NotImplemented
    scores = torch("log_softmax", input, dim)
    likelihood = ours("_nll_loss", scores, target, weight, reduction, ignore_index)
    even = -scores.sum([dim])
    ignored = target == ignore_index
    even.masked_fill_(ignored, 0.0)
    if reduction == "sum":
        even = even.sum()
    elif reduction == "mean":
        counted = torch("bitwise_not", ignored).sum()
        even = even.sum() / counted
    rest = even * (label_smoothing / input.size(dim))
    return likelihood * (1 - label_smoothing) + rest


COMPOSED[f"{F}._smoothed_cross_entropy"] = _smoothed


def _alignment_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int, reduction: Any, zero_infinity: bool
) -> Any:
    lengths = isinstance(input_lengths, Tensor) and isinstance(target_lengths, Tensor)
    if log_probs.dim() != 3 or not lengths:
        return NotImplemented
    word = ("none", "mean", "sum")[reduction] if isinstance(reduction, int) else str(reduction_of(reduction, None, None))
    losses = call("_ctc_loss.Tensor", log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        losses = torch("where", losses == math.inf, torch("scalar_tensor", 0.0, dtype=losses.dtype, device=losses.device), losses)
    if word == "mean":
        return (losses / target_lengths.clamp_min(1)).mean()
    return losses.sum() if word == "sum" else losses


def _alignments(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False) -> Any:
    if not kind_of(log_probs._array).has_values:
        steps, batch = log_probs.shape[:2]
        states = 2 * (targets.shape[1] if targets.dim() == 2 else targets.shape[0]) + 1
        return log_probs.new_empty([batch]), log_probs.new_empty([batch, steps, states])
    return torch("_ctc_loss", log_probs, targets.to(int64), _numbers(input_lengths), _numbers(target_lengths), blank, zero_infinity)


def _numbers(lengths: Any) -> Any:
    return lengths.tolist() if isinstance(lengths, Tensor) else lengths


def _alignments_backward(grad: Any, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> Any:
    likelihood, alpha, blank, *more = rest
    lengths = tuple(_numbers(input_lengths)), tuple(_numbers(target_lengths))
    run = resolve("torch", "_ctc_loss_backward")
    return run(grad, log_probs, targets.to(int64), *lengths, likelihood, alpha, blank, *(more or (False,)))


LEAVES[f"{F}.ctc_loss"] = LEAVES["ctc_loss"] = in_library(_alignment_loss)
kernel("_ctc_loss.Tensor")(_alignments)
kernel("_ctc_loss_backward.Tensor")(_alignments_backward)
RULES["_ctc_loss.Tensor"] = {
    "log_probs": "_ctc_loss_backward.Tensor("
    "grad, log_probs, targets, input_lengths, target_lengths, result0, result1, blank, zero_infinity)"
}


# -- matrices --------------------------------------------------------------------------------------------------------------------------
def _checked_apart(name: str, found: str) -> None:
    """A factorization that complains in another's name: the kernel, then a look at what it says of failures."""

    def composed(A: Any, *, check_errors: Any = False, **named: Any) -> Any:
        if not isinstance(check_errors, str):
            return NotImplemented
        results = resolve("linalg", name)(A, **named)
        call("_linalg_check_errors", results[1], check_errors, is_matrix=A.dim() == 2)
        return results

    key = f"linalg.{name}"
    COMPOSED[key] = lambda A, *rest: composed(A, **dict(zip(found.split(), rest, strict=True)))


_checked_apart("inv_ex", "check_errors")
_checked_apart("cholesky_ex", "upper check_errors")


@kernel("_linalg_check_errors")
def _check_errors(info: Any, api_name: str, *, is_matrix: bool) -> None:
    if kind_of(info._array).has_values:
        check_info(info._array, api_name)


# -- checks that exported programs have ---------------------------------------------------------------------------------------------------
@kernel("_assert_scalar")
def _assert_scalar(self: Any, assert_msg: str) -> None:
    if not self:
        raise RuntimeError(assert_msg)


@kernel("_assert_async")
@kernel("_assert_async.msg")
def _assert_nonzero(self: Any, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    if kind_of(self._array).has_values and not bool(self):
        raise RuntimeError(assert_msg)


@kernel("_assert_tensor_metadata")
def _assert_tensor_metadata(
    a: Any, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None
) -> None:
    found = {"sizes": tuple(a.shape), "strides": tuple(a.stride()), "dtype": a.dtype, "device": a.device, "layout": a.layout}
    wanted = {"sizes": size and tuple(size), "strides": stride and tuple(stride), "dtype": dtype, "device": device, "layout": layout}
    for name, value in wanted.items():
        if value is not None and found[name] != value:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {value}, Got: {found[name]}")


@kernel("sym_constrain_range")
def _constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    from ..facades.more_names import sym_constrain_range

    sym_constrain_range(size, min=min, max=max)


@kernel("sym_constrain_range_for_size")
def _constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    from ..facades.more_names import sym_constrain_range_for_size

    sym_constrain_range_for_size(size, min=min, max=max)


# -- distances -------------------------------------------------------------------------------------------------------------------------
@_as_library("pairwise_distance")
def _pairwise(x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Any:
    return call("norm.ScalarOpt_dim", x1 - x2 + eps, p, [max(x1.dim(), x2.dim()) - 1], keepdim)


kernel("norm.ScalarOpt_dim")(
    lambda self, p, dim, keepdim=False: resolve("linalg", "vector_norm")(self, 2 if p is None else p, dim, keepdim)
)


@_as_library("cosine_similarity")
def _cosine(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    if x1.dtype is not x2.dtype or not x1.is_floating_point() or tuple(x1.shape) != tuple(x2.shape):
        return NotImplemented
    norm = resolve("linalg", "vector_norm")
    lengths = [norm(x, 2, dim, True).clone() for x in (x1, x2)]
    with no_grad():
        least = torch("scalar_tensor", eps, dtype=x1.dtype, device=x1.device)
        for length in lengths:
            modes.below.ask(overload_named("clamp_min_.Tensor"), (length, least), {})
    first = x1 / lengths[0]
    return (first * (x2 / lengths[1])).sum(dim)


LEAVES["dist"] = lambda input, other, p=2: call("dist", input, other, p)
kernel("dist")(lambda self, other, p=2: torch("dist", self, other, p))
RULES["dist"] = {
    "self": lambda grad, self, other, p, result: _of_norm(grad, self - other, result, p, None, False),
    "other": lambda grad, self, other, p, result: -_of_norm(grad, self - other, result, p, None, False),
}
_MODES = {1: "use_mm_for_euclid_dist", 2: "donot_use_mm_for_euclid_dist"}
kernel("stft")(
    lambda self, n_fft, hop_length=None, win_length=None, window=None, *rest: torch(
        "stft", self, n_fft, hop_length, win_length, window, False, "reflect", *rest
    )
)
kernel("stft.center")(lambda *values: torch("stft", *values))
COMPOSED["cdist"] = lambda x1, x2, p=2.0, compute_mode=None: call(
    "_cdist_forward", x1, x2, float(p), {word: k for k, word in _MODES.items()}.get(compute_mode)
)
kernel("_cdist_forward")(lambda x1, x2, p, compute_mode: torch("cdist", x1, x2, p))
kernel("_cdist_backward")(lambda grad, x1, x2, p, distances: gradients_of(lambda x: torch("cdist", x, x2, p), [x1], [grad], [True])[0])


def _turned(tensor: Any) -> Any:
    return tensor.transpose(-1, -2).contiguous()


RULES["_cdist_forward"] = {
    "x1": "_cdist_backward(grad, x1, x2, p, result)",
    "x2": lambda grad, x1, x2, p, result: call("_cdist_backward", _turned(grad), x2, x1, p, _turned(result)),
}


@_as_library("kron")
def _kron(input: Any, other: Any, out: Any = None) -> Any:
    if out is not None:
        return NotImplemented
    ndim = max(input.dim(), other.dim())
    a = (1,) * (ndim - input.dim()) + tuple(input.shape)
    b = (1,) * (ndim - other.dim()) + tuple(other.shape)
    left = call("_unsafe_view", input.contiguous(), [n for size in a for n in (size, 1)])
    right = call("_unsafe_view", other.contiguous(), [n for size in b for n in (1, size)])
    return call("_unsafe_view", left * right, [m * n for m, n in zip(a, b, strict=True)])


# -- layers ----------------------------------------------------------------------------------------------------------------------------
@_as_library("rms_norm", f"{F}.rms_norm")
def _rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    if input.dtype.itemsize < 4 or input.is_complex() or tuple(input.shape[input.dim() - len(sizes) :]) != tuple(sizes):
        return NotImplemented
    dims = list(range(input.dim() - len(sizes), input.dim()))
    least = float(np.finfo(input.dtype.numpy).eps) if eps is None else eps
    scaled = input * (input.pow(2).mean(dims, True).add_(least)).rsqrt()
    return scaled if weight is None else scaled * weight


LEAVES[f"{F}.normalize"] = lambda input, p=2.0, dim=1, eps=1e-12, out=None: (
    NotImplemented if out is not None else input / input.norm(p, dim, True).clamp_min(eps).expand_as(input)
)


def _rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Any:
    if inplace or lower > upper:
        return NotImplemented
    return call("rrelu_with_noise", input, torch("empty_like", input.detach()), lower, upper, training)


@kernel("rrelu_with_noise")
def _noisy_slopes(self: Any, noise: Any, lower: Any = 1 / 8, upper: Any = 1 / 3, training: bool = False, generator: Any = None) -> Any:
    if generator is not None:
        raise NotImplementedError("rrelu_with_noise: generator is not supported")
    if not training:
        return functional("leaky_relu", self, (lower + upper) / 2)
    slopes = torch("rrelu", torch("where", self > 0, 1.0, -1.0).to(self.dtype), lower, upper, True).abs()
    noise.copy_(slopes)
    return self * slopes


LEAVES["rrelu"] = LEAVES[f"{F}.rrelu"] = _rrelu


def _linear(input: Any, weight: Any, bias: Any) -> Any:
    return functional("linear", input, weight, bias)


def _cell(input: Any, hidden: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    first = _linear(input, w_ih, b_ih)
    return first.add_(_linear(hidden, w_hh, b_hh))


@_as_library("rnn_tanh_cell")
def _tanh_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    return _cell(input, hx, w_ih, w_hh, b_ih, b_hh).tanh()


@_as_library("rnn_relu_cell")
def _relu_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    return _cell(input, hx, w_ih, w_hh, b_ih, b_hh).relu()


def _chunks(tensor: Any, count: int) -> Any:
    return call("unsafe_split.Tensor", tensor, -(-tensor.shape[1] // count), 1)


@_as_library("lstm_cell")
def _lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    h, c = hx
    into, forget, cell, out = _chunks(_cell(h, input, w_hh, w_ih, b_hh, b_ih), 4)
    into, forget, cell, out = into.sigmoid_(), forget.sigmoid_(), cell.tanh_(), out.sigmoid_()
    kept = forget * c
    c = kept.add_(into * cell)
    return out * c.tanh(), c


@_as_library("gru_cell")
def _gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    given, kept = _chunks(_linear(input, w_ih, b_ih), 3), _chunks(_linear(hx, w_hh, b_hh), 3)
    reset = kept[0].add_(given[0]).sigmoid_()
    update = kept[1].add_(given[1]).sigmoid_()
    new = (given[2] + kept[2].mul_(reset)).tanh_()
    return (hx - new).mul_(update).add_(new)


kernel("unsafe_split.Tensor")(lambda self, split_size, dim=0: tuple([part.clone() for part in torch("split", self, split_size, dim)]))
RULES["unsafe_split.Tensor"] = RULES["split.Tensor"]


def _attention(query: Any, key: Any, value: Any, attn_mask: Any, is_causal: bool, scale: float, dropout: Any, is_fused: bool = True) -> Any:
    """PyTorch's fused kernel for the CPU, where it takes the call."""
    plain = dropout is None and query.dim() == key.dim() == value.dim() == 4 and query.shape[-1] == key.shape[-1] == value.shape[-1]
    if not plain or not is_fused or query.shape[:2] != key.shape[:2] or key.shape[:3] != value.shape[:3] or not query.numel():
        return NotImplemented
    if attn_mask is not None and attn_mask.requires_grad:
        return NotImplemented
    usual = query.shape[-1] ** -0.5
    return call(
        "_scaled_dot_product_flash_attention_for_cpu",
        query,
        key,
        value,
        0.0,
        is_causal,
        attn_mask=attn_mask,
        scale=None if scale == usual else scale,
    )


@kernel("_scaled_dot_product_flash_attention_for_cpu")
def _flash(
    query: Any, key: Any, value: Any, dropout_p: Any = 0.0, is_causal: bool = False, *, attn_mask: Any = None, scale: Any = None
) -> Any:
    if dropout_p:
        raise RuntimeError("scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0")
    return ours("_attention", query, key, value, attn_mask, is_causal, query.shape[-1] ** -0.5 if scale is None else scale, None, True)


@kernel("_scaled_dot_product_flash_attention_for_cpu_backward")
def _flash_backward(
    grad: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: Any, is_causal: Any, **named: Any
) -> Any:
    scale = named.get("scale")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    return ours("_attention_backward", grad, query, key, value, named.get("attn_mask"), out, logsumexp, is_causal, scale, None, False, True)


COMPOSED[f"{F}._attention"] = _attention
RULES["_scaled_dot_product_flash_attention_for_cpu"] = {
    "query, key, value": "_scaled_dot_product_flash_attention_for_cpu_backward("
    "grad, query, key, value, result0, result1, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)"
}


# -- what looks at values --------------------------------------------------------------------------------------------------------------
def _one_hot(tensor: Any, num_classes: int = -1) -> Any:
    if not tensor.numel() or tensor.dtype is not int64:
        return NotImplemented
    if num_classes > 0 and not kind_of(tensor._array).has_values:
        return (tensor.unsqueeze(-1) == torch("arange", num_classes, device=tensor.device)).to(int64)
    least, most = torch("aminmax", tensor)
    if int(least.item()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    most = int(most.item())
    if num_classes == -1:
        num_classes = most + 1
    elif most >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    zeros = torch("zeros", [*tensor.shape, num_classes], dtype=tensor.dtype, device=tensor.device)
    return zeros.scatter_(-1, tensor.unsqueeze(-1), 1)


COMPOSED[f"{F}.one_hot"] = _one_hot


def _unique(input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    if dim is None:
        values, inverse, counts = call("_unique2", input, sorted, return_inverse, return_counts)
    else:
        values, inverse, counts = call("unique_dim", input, dim, sorted, return_inverse, return_counts)
    asked = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(asked) if len(asked) > 1 else values


def _unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
    values, inverse, counts = call("unique_consecutive", input, return_inverse, return_counts, dim)
    asked = [values, *([inverse] if return_inverse else []), *([counts] if return_counts else [])]
    return tuple(asked) if len(asked) > 1 else values


@kernel("_unique2")
def _unique2(self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    found = torch("unique", self, sorted, return_inverse, return_counts)
    parts = iter(found if isinstance(found, tuple) else (found,))
    values = next(parts)
    nothing = [torch("empty", [0], dtype=int64, device=self.device) for _ in range(2)]
    return values, next(parts) if return_inverse else nothing[0], next(parts) if return_counts else nothing[1]


@kernel("unique_dim")
def _unique_dim(self: Any, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    return torch("unique", self, sorted, True, True, dim)


RULES["unique_dim"] = {"self": not_differentiable("unique_dim")}
RULES["_unique2"] = {"self": not_differentiable("_unique2")}
LEAVES["unique"] = _unique
LEAVES["unique_consecutive"] = lambda *values: _unique_consecutive(*values)
LEAVES["bincount"] = lambda input, weights=None, minlength=0: call("bincount", input, weights, minlength)
kernel("bincount")(lambda self, weights=None, minlength=0: torch("bincount", self, weights, minlength))


def _searched(sorted_sequence: Any, input: Any, *rest: Any) -> Any:
    options = dict(zip(("out_int32", "right", "side", "sorter"), rest, strict=False))
    if rest[4:] and rest[4] is not None:
        return NotImplemented
    return call(f"searchsorted.{'Tensor' if isinstance(input, Tensor) else 'Scalar'}", sorted_sequence, input, **options)


def _bucketed(input: Any, boundaries: Any, out_int32: bool = False, right: bool = False, out: Any = None) -> Any:
    if out is not None:
        return NotImplemented
    return call(f"bucketize.{'Tensor' if isinstance(input, Tensor) else 'Scalar'}", input, boundaries, out_int32=out_int32, right=right)


LEAVES["searchsorted"], LEAVES["bucketize"] = _searched, _bucketed
for _name in ("Tensor", "Scalar"):
    kernel(f"searchsorted.{_name}")(lambda sorted_sequence, self, **named: torch("searchsorted", sorted_sequence, self, **named))
    kernel(f"bucketize.{_name}")(lambda self, boundaries, **named: torch("bucketize", self, boundaries, **named))
LEAVES["allclose"] = lambda input, other, rtol=1e-05, atol=1e-08, equal_nan=False: call("allclose", input, other, rtol, atol, equal_nan)
kernel("allclose")(lambda self, other, rtol=1e-05, atol=1e-08, equal_nan=False: torch("allclose", self, other, rtol, atol, equal_nan))
LEAVES["poisson"] = lambda input, generator=None: call("poisson", input, *(() if generator is None else (generator,)))
kernel("poisson")(lambda self, generator=None: torch("poisson", self, generator))
RULES["poisson"] = {"self": lambda grad, self: torch("zeros_like", self)}
