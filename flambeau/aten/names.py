"""Kernels of PyTorch's that are found under ``torch.ops.aten`` only: what stands for each, by names of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.calls.registry import resolve
from ..core.dtype import int32, int64
from .calls import IMPLEMENTED
from .derivatives import gradients_of, kernel, torch
from .kernels import functional

# Another name of one of our functions or methods: ``torch.NAME``, ``linalg.NAME``, ``Tensor.NAME`` or ``nn.functional.NAME``.
_OTHER_NAMES = """
 _cast_Byte=Tensor.byte _cast_Char=Tensor.char _cast_Double=Tensor.double _cast_Float=Tensor.float
_cast_Half=Tensor.half _cast_Int=Tensor.int _cast_Long=Tensor.long _cast_Short=Tensor.short
_conj_copy=conj_physical _conj_physical=conj_physical _logcumsumexp=logcumsumexp _neg_view=neg _neg_view_copy=neg
_stack=stack _sparse_sparse_matmul=mm
sparse_sampled_addmm=sparse.sampled_addmm log_sigmoid=nn.functional.logsigmoid
mH=Tensor.adjoint matrix_H=Tensor.adjoint _is_any_true=any _is_all_true=all
__and__=bitwise_and __or__=bitwise_or __xor__=bitwise_xor __lshift__=bitwise_left_shift __rshift__=bitwise_right_shift
__iand__=Tensor.bitwise_and_ __ior__=Tensor.bitwise_or_ __ixor__=Tensor.bitwise_xor_ __ilshift__=Tensor.bitwise_left_shift_
__irshift__=Tensor.bitwise_right_shift_ lift_fresh_copy=clone _lazy_clone=clone
"""


def _function(path: str) -> Callable[..., Any]:
    namespace, _, name = path.rpartition(".")
    if namespace == "Tensor":
        return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
    return lambda *args, **kwargs: resolve(namespace or "torch", name)(*args, **kwargs)


for _word in _OTHER_NAMES.split():
    _name, _, _path = _word.partition("=")
    IMPLEMENTED[_name] = _function(_path)


def _named(name: str) -> Callable[[Any], Any]:
    """Decorator: the function is that kernel, which modes see as the calls that it makes."""

    def register(function: Any) -> Any:
        IMPLEMENTED[name] = function
        return function

    return register


# -- convolution and products ----------------------------------------------------------------------------------------------------------
@_named("_convolution")
def _convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool = False,
    deterministic: bool = False,
    cudnn_enabled: bool = True,
    allow_tf32: bool = True,
) -> Any:
    """``convolution``; the rest chooses among kernels of GPUs."""
    return torch("convolution", input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


IMPLEMENTED["tensordot"] = lambda self, other, dims_self, dims_other: torch("tensordot", self, other, (list(dims_self), list(dims_other)))
IMPLEMENTED["einsum"] = lambda equation, tensors, *, path=None: torch("einsum", equation, list(tensors))
IMPLEMENTED["cdist"] = lambda x1, x2, p=2.0, compute_mode=None: torch(
    "cdist",
    x1,
    x2,
    p,
    ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")[compute_mode or 0],
)
IMPLEMENTED["meshgrid.indexing"] = lambda tensors, *, indexing: torch("meshgrid", *tensors, indexing=indexing)
IMPLEMENTED["meshgrid"] = lambda tensors: torch("meshgrid", *tensors)
IMPLEMENTED["broadcast_tensors"] = lambda tensors: torch("broadcast_tensors", *tensors)


@_named("_convolution_mode")
def _convolution_mode(input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
    return functional(f"conv{weight.dim() - 2}d", input, weight, bias, stride, padding, dilation, groups)


for _rank in (2, 3):
    IMPLEMENTED[f"slow_conv_dilated{_rank}d"] = lambda self, weight, kernel_size, bias=None, stride=1, padding=0, dilation=1, rank=_rank: (
        functional(f"conv{rank}d", self, weight, bias, stride, padding, dilation)
    )
    IMPLEMENTED[f"slow_conv_transpose{_rank}d"] = (
        lambda self, weight, kernel_size, bias=None, stride=1, padding=0, output_padding=0, dilation=1, rank=_rank: functional(
            f"conv_transpose{rank}d", self, weight, bias, stride, padding, output_padding, 1, dilation
        )
    )
IMPLEMENTED["thnn_conv2d"] = lambda self, weight, kernel_size, bias=None, stride=1, padding=0: functional(
    "conv2d", self, weight, bias, stride, padding
)
IMPLEMENTED["slow_conv3d"] = lambda self, weight, kernel_size, bias=None, stride=1, padding=0: functional(
    "conv3d", self, weight, bias, stride, padding
)
IMPLEMENTED["_sparse_addmm"] = lambda self, mat1, mat2, *, beta=1, alpha=1: resolve("sparse", "addmm")(
    self, mat1, mat2, beta=beta, alpha=alpha
)


@_named("_convert_indices_from_coo_to_csr")
def _csr_of_rows(self: Any, size: int, *, out_int32: bool = False) -> Any:
    """Of sorted indices of rows, where each of ``size`` rows begins, and the end."""
    rows = torch("arange", size + 1, device=self.device, dtype=self.dtype)
    return torch("searchsorted", self.contiguous(), rows, out_int32=out_int32)


@_named("_convert_indices_from_csr_to_coo")
def _rows_of_csr(crow_indices: Any, col_indices: Any, *, out_int32: bool = False, transpose: bool = False) -> Any:
    """Rows and columns of entries, of batches of matrices too; ``transpose`` exchanges them."""
    batch, count = crow_indices.shape[:-1], col_indices.shape[-1]
    places = torch("arange", count, device=crow_indices.device, dtype=crow_indices.dtype)
    rows = torch("searchsorted", crow_indices[..., 1:].contiguous(), places.expand(*batch, count).contiguous(), right=True)
    parts = [rows.to(crow_indices.dtype).reshape(-1), col_indices.reshape(-1)]
    if batch:
        each = torch("ones", batch, dtype=crow_indices.dtype, device=crow_indices.device).nonzero().to(crow_indices.dtype)
        batches = list(each.repeat_interleave(count, 0).t())
    else:
        batches = []
    return torch("stack", [*batches, *(parts[::-1] if transpose else parts)]).to(int32 if out_int32 else int64)


@_named("_euclidean_dist")
def _euclidean_dist(x1: Any, x2: Any) -> Any:
    return torch("cdist", x1, x2, 2.0)


@kernel("_trilinear")
def _trilinear(i1: Any, i2: Any, i3: Any, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1) -> Any:
    """The sum over ``sumdim`` of the product of three tensors, each with dimensions of size 1 put in."""
    parts = []
    for tensor, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in dims:
            tensor = tensor.unsqueeze(dim)
        parts.append(tensor)
    product = parts[0] * parts[1] * parts[2]
    return product.sum(list(sumdim)) if sumdim else product


# -- indexing and views ----------------------------------------------------------------------------------------------------------------
IMPLEMENTED["_unsafe_index"] = IMPLEMENTED["_unsafe_index.Tensor"] = lambda self, indices: IMPLEMENTED["index.Tensor"](self, indices)
IMPLEMENTED["_unsafe_index_put"] = lambda self, indices, values, accumulate=False: IMPLEMENTED["index_put"](
    self, indices, values, accumulate
)
IMPLEMENTED["_index_put_impl_"] = lambda self, indices, values, accumulate=False, unsafe=False: IMPLEMENTED["index_put_"](
    self, indices, values, accumulate
)
IMPLEMENTED["_reshape_alias"] = lambda self, size, stride: torch("as_strided", self, size, stride)
IMPLEMENTED["_reshape_copy"] = lambda self, size: self.reshape(size).clone()
IMPLEMENTED["numpy_T"] = lambda self: self.T
IMPLEMENTED["lift"] = lambda self: self
IMPLEMENTED["_to_cpu"] = lambda tensors: [tensor.cpu() for tensor in tensors]
IMPLEMENTED["embedding_renorm"] = lambda self, indices, max_norm, norm_type: torch(
    "embedding_renorm_", self.clone(), indices, max_norm, norm_type
)


def _all_three(self: Any, found: Any, return_inverse: bool, return_counts: bool) -> Any:
    """Values, inverse and counts, of which those that are not asked for are empty."""
    nothing = torch("empty", [0], dtype=int64, device=self.device)
    return found[0], found[1] if return_inverse else nothing, found[2] if return_counts else nothing


kernel("unique_consecutive")(
    lambda self, return_inverse=False, return_counts=False, dim=None: _all_three(
        self, torch("unique_consecutive", self, True, True, dim), return_inverse, return_counts
    )
)
IMPLEMENTED["unique_dim_consecutive"] = lambda self, dim, return_inverse=False, return_counts=False: torch(
    "unique_consecutive", self, True, True, dim
)


# -- random numbers, out of place --------------------------------------------------------------------------------------------------------
for _name in ("uniform", "exponential", "geometric", "log_normal", "cauchy", "random"):
    IMPLEMENTED[_name] = lambda self, *args, name=_name, **kwargs: getattr(self.clone(), f"{name}_")(*args, **kwargs)
IMPLEMENTED["normal_functional"] = lambda self, mean=0.0, std=1.0, *, generator=None: self.clone().normal_(mean, std, generator=generator)


# -- what tensors are --------------------------------------------------------------------------------------------------------------------
for _name in ("data", "is_leaf", "mT", "output_nr", "retains_grad", "_version"):
    IMPLEMENTED[_name] = lambda self, name=_name: getattr(self, name)
IMPLEMENTED["sym_size"] = lambda self, dim=None: tuple(self.shape) if dim is None else self.shape[dim]
IMPLEMENTED["sym_stride"] = lambda self, dim=None: self.stride() if dim is None else self.stride(dim)
IMPLEMENTED["sym_numel"] = lambda self: self.numel()
IMPLEMENTED["sym_storage_offset"] = lambda self: self.storage_offset()
IMPLEMENTED["sym_is_contiguous"] = lambda self, memory_format=None: (
    self.is_contiguous() if memory_format is None else self.is_contiguous(memory_format=memory_format)
)
IMPLEMENTED["_has_same_storage_numel"] = lambda self, other: self.untyped_storage().nbytes() == other.untyped_storage().nbytes()
IMPLEMENTED["_shape_as_tensor"] = lambda self: torch("tensor", list(self.shape), dtype=int64)


# -- layers and losses -------------------------------------------------------------------------------------------------------------------
@_named("_native_batch_norm_legit_no_training")
def _batch_norm_no_training(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float) -> Any:
    return torch("native_batch_norm", input, weight, bias, running_mean, running_var, False, momentum, eps)


@_named("cross_entropy_loss")
def _cross_entropy_loss(
    self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Any:
    word = ("none", "mean", "sum")[reduction]
    return functional("cross_entropy", self, target, weight, ignore_index=ignore_index, reduction=word, label_smoothing=label_smoothing)


@_named("nll_loss")
@_named("nll_loss2d")
@_named("nll_loss_nd")
def _nll_loss(self: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    return functional("nll_loss", self, target, weight, ignore_index=ignore_index, reduction=("none", "mean", "sum")[reduction])


for _name in ("l1_loss", "multilabel_margin_loss"):
    IMPLEMENTED[_name] = lambda self, target, reduction=1, *, name=_name: functional(
        name, self, target, reduction=("none", "mean", "sum")[reduction]
    )
IMPLEMENTED["ctc_loss"] = lambda log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False: functional(
    "ctc_loss", log_probs, targets, input_lengths, target_lengths, blank, ("none", "mean", "sum")[reduction], zero_infinity
)


@kernel("_fused_rms_norm")
def _fused_rms_norm(input: Any, normalized_shape: Any, weight: Any, eps: float | None) -> Any:
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    least = float(np.finfo(input.dtype.numpy).eps) if eps is None else eps
    return functional("rms_norm", input, list(normalized_shape), weight, eps), (input.pow(2).mean(dims, True) + least).rsqrt()


@kernel("_embedding_bag")
def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Bags of a table's rows, the bag of each index, the bags' sizes, and for maxima the row of each (not 0 in other modes)."""
    word = ("sum", "mean", "max")[mode]
    result = functional(
        "embedding_bag",
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=word,
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=None if padding_idx < 0 else padding_idx,
    )
    if mode == 2:
        raise NotImplementedError("torch.ops.aten._embedding_bag: the rows of maxima are not noted; mode='max' is not supported")
    count = result.shape[0]
    starts = offsets[:count]
    places = torch("arange", indices.shape[0], device=indices.device, dtype=starts.dtype)
    bags = (torch("searchsorted", starts, places, right=True) - 1).to(indices.dtype)
    ends = torch("cat", [starts[1:], starts.new_full([1], indices.shape[0])]) if count else starts
    sizes = (ends - starts).to(indices.dtype)
    if padding_idx >= 0:
        sizes = sizes - torch("zeros_like", sizes).index_add(0, bags, (indices == padding_idx).to(sizes.dtype))
    return result, bags, sizes, torch("zeros_like", sizes)


IMPLEMENTED["_embedding_bag_forward_only"] = IMPLEMENTED["_embedding_bag"]
IMPLEMENTED["gelu_"] = lambda self, *, approximate="none": self.copy_(functional("gelu", self, approximate=approximate))


# -- derivatives -------------------------------------------------------------------------------------------------------------------------
def _of(function: Any, *tensors: Any, grad: Any, mask: Any = None) -> Any:
    return gradients_of(function, list(tensors), [grad], mask or [True] * len(tensors))


IMPLEMENTED["trace_backward"] = lambda grad, sizes: _of(lambda x: x.trace(), grad.new_empty(list(sizes)), grad=grad)[0]
IMPLEMENTED["gather_backward"] = lambda grad, self, dim, index, sparse_grad=False: _of(lambda x: x.gather(dim, index), self, grad=grad)[0]
IMPLEMENTED["index_select_backward"] = lambda grad, self_sizes, dim, index: grad.new_zeros(list(self_sizes)).index_add(dim, index, grad)
IMPLEMENTED["cumprod_backward"] = lambda grad, input, dim, output: _of(lambda x: x.cumprod(dim), input, grad=grad)[0]
IMPLEMENTED["cummaxmin_backward"] = lambda grad, input, indices, dim: grad.new_zeros(list(input.shape)).scatter_add(dim, indices, grad)
IMPLEMENTED["masked_select_backward"] = lambda grad, input, mask: _of(lambda x: x.masked_select(mask), input, grad=grad)[0]
IMPLEMENTED["matmul_backward"] = lambda grad, self, other, mask: _of(lambda a, b: torch("matmul", a, b), self, other, grad=grad, mask=mask)
IMPLEMENTED["_pdist_backward"] = lambda grad, self, p, pdist: _of(lambda x: torch("pdist", x, p), self, grad=grad)[0]
IMPLEMENTED["embedding_backward"] = lambda grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse: IMPLEMENTED[
    f"embedding_{'sparse' if sparse else 'dense'}_backward"
](grad, indices, num_weights, padding_idx, scale_grad_by_freq)
IMPLEMENTED["value_selecting_reduction_backward"] = lambda grad, dim, indices, sizes, keepdim: grad.new_zeros(list(sizes)).scatter(
    dim, indices if keepdim else indices.unsqueeze(dim), grad if keepdim else grad.unsqueeze(dim)
)
IMPLEMENTED["affine_grid_generator_backward"] = lambda grad, size, align_corners: _of(
    lambda theta: torch("affine_grid_generator", theta, size, align_corners),
    grad.new_zeros([size[0], len(size) - 2, len(size) - 1]),
    grad=grad,
)[0]
IMPLEMENTED["conv_tbc_backward"] = lambda self, input, weight, bias, pad: _of(
    lambda x, w, b: torch("conv_tbc", x, w, b, pad), input, weight, bias, grad=self
)
IMPLEMENTED["max_pool2d_backward"] = lambda grad, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False: _of(
    lambda x: functional("max_pool2d", x, kernel_size, stride or None, padding, dilation, ceil_mode), self, grad=grad
)[0]


@_named("linear_backward")
def _linear_backward(self: Any, grad_output: Any, weight: Any, output_mask: Any) -> Any:
    bias = weight.new_zeros([weight.shape[0]])
    return _of(lambda x, w, b: functional("linear", x, w, b), self, weight, bias, grad=grad_output, mask=list(output_mask))
