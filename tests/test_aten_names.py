"""Names that are found under ``torch.ops.aten`` only, called as PyTorch's are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau

CALLS = """
a._convolution(i, k, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, False, False)
a._convolution_mode(i, k, None, [1], "same", [1], 1) | a._sparse_addmm(m, m.to_sparse(), m) | a._unique2(n, True, True, True)
a._unique2.default(n) | a.unique_dim(m, 0) | a.log_sigmoid(m) | a._unsafe_index.Tensor(m, [n]) | a._unsafe_index_put(m, [n], m[n])
a._conj_physical(m) | a._is_any_true(m > 0) | a._is_all_true(m > 0) | a.__and__.Scalar(n, 1) | a.__xor__.Tensor(n, n)
a._euclidean_dist(m, m + 1) | a._stack([m, m], 1) | a.embedding_renorm(m, n, 1.0, 2.0) | a.cross_entropy_loss(m, n)
a.nll_loss_nd(m, n) | a.trace_backward(m.sum(), [3, 3]) | a.index_select_backward(m, [3, 3], 0, n)
a.gather_backward(m, m, 0, n[None].expand(3, 3), False) | a._pdist_backward(m[0], m, 2.0, a._pdist_forward(m))
a.sym_size.int(m, 0) | a.sym_numel(m) | a._native_batch_norm_legit_no_training(i, v, v, v, v.abs() + 1, 0.1, 1e-5)[0]
a._fused_rms_norm(m, [3], v, 1e-5)[0] | a._cast_Int(m) | a.add.Scalar(m, 2) | a.sub.Scalar(m, 2) | a.mul.Scalar(m, 2)
a.div.Scalar(m, 2) | a.rsub.Scalar(m, 2) | a.pow.Scalar(2, m) | a.eq.Scalar(m, 0) | a.remainder.Scalar_Tensor(5, n + 1)
a.bitwise_and.Scalar_Tensor(1, n) | a.where.ScalarSelf(m > 0, 1.0, m) | a.where.ScalarOther(m > 0, m, 0.0)
a.xlogy.Scalar_Self(2, m.abs()) | a.clamp_min(m, 0) | a.clamp_max(m, 0) | a.elu_backward(m, 1.0, 2.0, 3.0, False, m)
a.gelu_backward(m, m) | a.elu_backward(m, 1.0, 1.0, 1.0, True, a.elu(m)) | a.softplus_backward(m, m, 1, 20)
a.hardtanh_backward(m, m, -1, 1) | a.silu_backward(m, m) | a.log_sigmoid_backward(m, m, a.log_sigmoid_forward(m)[1])
a.glu_backward(m[:, :1], m[:, :2], 1) | a.avg_pool2d(i, [2])
a.avg_pool2d_backward(a.avg_pool2d(i, [2, 2]), i, [2, 2], [2, 2], [0, 0], False, True, None) | a._adaptive_avg_pool2d(i, [2, 2])
a.max_pool2d_with_indices(i, [2, 2]) | a.upsample_nearest2d(i, [6, 6]) | a.upsample_bilinear2d.vec(i, None, False, [2.0, 2.0])
a.upsample_bilinear2d_backward(a.upsample_bilinear2d(i, [6, 6], False), [6, 6], [1, 3, 4, 4], False)
a.reflection_pad2d(i, [1, 1, 1, 1]) | a.replication_pad2d_backward(a.replication_pad2d(i, [1, 1, 1, 1]), i, [1, 1, 1, 1])
a.smooth_l1_loss(m, m + 2, 2) | a.mse_loss(m, m + 1, 0) | a.smooth_l1_loss_backward(v.sum(), m, m + 2, 1, 1.0)
a.binary_cross_entropy(m.sigmoid(), m.sigmoid()) | a.slice_backward(m, [5, 3], 0, 1, 4, 1) | a.select_backward(v, [3, 3], 0, 1)
a.diagonal_backward(v, [3, 3], 0, 0, 1) | a.grid_sampler_2d(i, g, 0, 0, False) | a.im2col(i, [2, 2], [1, 1], [0, 0], [1, 1])
a.var_mean.correction(m, [0], correction=1) | a.norm.ScalarOpt_dim(m, 2, [1]) | a.dist(m, v)
a._cdist_forward(m, m + 1, 2.0, None) | a.nll_loss_forward(m, n, None, 1, -100) | a.embedding_dense_backward(m, n, 4, -1, False)
a._embedding_bag(m, n, n[:1] * 0, False, 0)[0] | a.unsafe_split.Tensor(m, 2) | a.searchsorted.Tensor(v.sort()[0], m)
a._foreach_add.Scalar([m, v], 1) | a._foreach_mul.List([m], [m]) | a._trilinear(v, v, v, [], [], [], [0], 0)
""".replace("\n", " | ")


@pytest.mark.oracle
@pytest.mark.parametrize("call", [text.strip() for text in CALLS.split(" | ") if text.strip()])
def test_kernels_return_what_pytorchs_return(call: str, oracle: Any) -> None:
    def run(library: Any) -> Any:
        scope = {
            "a": library.ops.aten,
            "m": ((library.arange(9.0) * 5 % 7) / 3 - 1).reshape(3, 3),
            "v": library.tensor([0.5, -1.0, 2.0]),
            "n": library.tensor([2, 0, 1]),
            "i": ((library.arange(48.0) * 7 % 11) / 5 - 1).reshape(1, 3, 4, 4),
            "k": ((library.arange(54.0) * 7 % 13) / 5 - 1).reshape(2, 3, 3, 3),
            "g": ((library.arange(8.0) * 3 % 5) / 4 - 0.5).reshape(1, 2, 2, 2),
        }
        return shown(eval(call, scope))

    mine, theirs = run(flambeau), run(oracle)
    assert [facts for facts, _ in mine] == [facts for facts, _ in theirs]
    for (_, got), (_, want) in zip(mine, theirs, strict=True):
        assert np.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)


def shown(value: Any) -> list[Any]:
    """Dtype, shape and elements of all tensors, and other results."""
    if isinstance(value, (list, tuple)):
        return [part for item in value for part in shown(item)]
    if not hasattr(value, "tolist"):
        return [(value, 0.0)]
    return [((str(value.dtype).partition(".")[2], tuple(value.shape)), value.double().reshape(-1).tolist())]


def test_what_no_kernel_is_called_is_no_attribute() -> None:
    assert not hasattr(flambeau.ops.aten, "no_such_kernel")
    assert isinstance(flambeau.ops.aten._convolution.default._schema.arguments[0].name, str)
