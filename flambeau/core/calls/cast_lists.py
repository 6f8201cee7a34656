"""Which operations autocast lists, by type of device, and what becomes of their operands: PyTorch's lists.

A call of a listed operation has its floating point tensors cast, those of float64 excepted, and what runs inside of it is not asked
again. What is not listed takes its operands as they come.

    narrow       to the dtype of the region: products, which are fast in few bits and forgiving
    float32      to float32: losses, norms, solvers, functions that need range or digits
    widest       to the widest dtype among the operands
    state        to what the narrow dtype and the first states' promote to: recurrent layers, whose states PyTorch keeps in their dtype; all
                 that a layer computes is in that dtype here. An LSTM over padded sequences is narrow in bfloat16
    result       nothing is cast; ``dtype=float32`` is given where the caller gave none (sums, softmax)
    untouched    nothing is cast, neither here nor in the operations that it is made of
    banned       an error

Source: torch.amp, "Autocast Op Reference".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NARROW, FLOAT32, WIDEST, STATE = "narrow", "float32", "widest", "state"
RESULT, UNTOUCHED, BANNED = "result", "untouched", "banned"

_CONVOLUTIONS = "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d"
_PRODUCTS = "addbmm addmm baddbmm bmm mm matmul linear linalg.vecdot prelu scaled_dot_product_attention"
_LOSSES = (
    "binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss "
    "multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss"
)

LISTS = {
    "cpu": {
        NARROW: f"{_CONVOLUTIONS} {_PRODUCTS} rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
        STATE: "lstm lstm_cell gru gru_cell",
        FLOAT32: f"{_LOSSES} binary_cross_entropy cross_entropy ctc_loss "
        "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d fractional_max_pool2d fractional_max_pool3d max_pool3d "
        "max_unpool1d max_unpool2d max_unpool3d "
        "cdist polar prod quantile nanquantile trace view_as_complex stft fake_quantize_per_tensor_affine "
        "grid_sample grid_sampler grid_sampler_2d grid_sampler_3d _pad_by_copy "
        "fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.hfft fft.ihfft fft.rfft fft.rfft2 fft.rfftn fft.irfft fft.irfft2 "
        "fft.irfftn cholesky cholesky_inverse cholesky_solve geqrf inverse lu_solve orgqr ormqr pinverse qr svd triangular_solve "
        "linalg.cholesky linalg.cholesky_ex linalg.cond linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.householder_product "
        "linalg.inv linalg.inv_ex linalg.lstsq linalg.matrix_rank linalg.qr linalg.solve linalg.svd linalg.svdvals linalg.tensorinv "
        "linalg.tensorsolve",
        WIDEST: "cat stack index_copy",
        UNTOUCHED: "bilinear",
    },
    "cuda": {
        NARROW: f"{_CONVOLUTIONS} {_PRODUCTS} convolution addmv addr mv chain_matmul einsum linalg.multi_dot "
        "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
        FLOAT32: f"{_LOSSES} acos asin cosh erfinv exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh softplus tan "
        "layer_norm native_layer_norm group_norm rms_norm cosine_similarity frobenius_norm nuclear_norm renorm logsumexp "
        "cdist dist pdist _pdist interpolate",
        RESULT: "cumprod cumsum log_softmax linalg.matrix_norm linalg.vector_norm norm prod softmax sum",
        WIDEST: "addcdiv addcmul atan2 bilinear cross dot grid_sample grid_sampler index_put scatter_add tensordot vdot",
        BANNED: "binary_cross_entropy",
    },
}
_NAMESPACES = {"torch": "", "nn.functional": "", "linalg": "linalg.", "fft": "fft."}
_POLICIES: dict[str, dict[str, str]] = {}
for _device, _lists in LISTS.items():
    for _policy, _names in _lists.items():
        for _name in _names.split():
            _POLICIES.setdefault(_name, {})[_device] = _policy


def policies_of(entry: Any) -> dict[str, str]:
    """What is done about a declared operation's operands, by type of device; empty for one that is not listed."""
    prefix = _NAMESPACES.get(entry.namespace)
    return {} if prefix is None else _POLICIES.get(prefix + entry.name, {})


# Which of an operation's calls are meant, where not all are: functions of the call's values.
EXCEPT: dict[str, Callable[..., bool]] = {
    "_pad_by_copy": lambda input, pad, mode: mode == "circular" or (mode == "reflect" and len(pad) == 6),
    "interpolate": lambda *values: "area" in values,
    "max_pool3d": lambda *values: values[-1] is True,  # return_indices
}
