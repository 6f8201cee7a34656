"""Every operation exactly once, by family.  ``ops.add`` is the public function; see ``core.calls.registry`` for the decorators."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.calls.registry import TABLES, declare_late, names, resolve
from . import custom

FAMILIES = (
    "arithmetic signs powers limits rounding comparison trigonometry exponential special activation softmaxes views parts conversion "
    "inplace indexing masks scatter rearrange inspection reduction creation ranges linalg.added_products statistics sorting linalg.norms "
    "cumulative linalg.matrices linalg.contraction linalg.products extrema random joining places from_data"
).split()

for _family in FAMILIES:
    importlib.import_module(f".{_family}", __name__)
    if TABLES["torch"].declared(_family):
        del globals()[_family]  # ``ops.scatter`` is the operation; its family stays reachable as ``flambeau.ops.scatter`` by import

# Families that many programs never use, imported with the first use of one of their names -> the methods that they declare.
# A name that is not known yet is looked for in this order.
LATE = {
    "dropout": "",
    "embedding": "",
    "convolution": "",
    "padding": "",
    "pooling": "",
    "average_pooling": "",
    "normalization": "",
    "losses.loss": "",
    "losses.class_loss": "",
    "gamma_numbers": "",
    "quantization": "dequantize int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme",
    "attention": "",
    "multi_head_attention": "",
    "recurrent": "",
    "recurrent_steps": "",
    "resampling": "",
    "grids": "",
    "unfolding": "",
    "unpooling": "",
    "losses.margin_loss": "",
    "losses.numbered_losses": "",
    "losses.ctc": "",
    "sequences": "",
    "segments": "",
    "linalg.grouped_products": "",
    "integer_products": "",
    "linalg.inverses": "inverse det slogdet logdet",
    "linalg.linear_systems": "triangular_solve",
    "linalg.cholesky_factors": "cholesky cholesky_solve cholesky_inverse",
    "linalg.lu_factors": "lu lu_solve",
    "linalg.decompositions": "qr geqrf orgqr ormqr svd",
    "linalg.least_squares": "pinverse",
    "linalg.exponentials": "matrix_exp",
    "linalg.old_matrices": "solve gesv trtrs lstsq gels potrf potri potrs pstrf btrifact btrifact_with_info btrisolve symeig eig",
    "linalg.low_rank": "",
    "linalg.eigen_iteration": "",
    "polynomials": "",
    "fourier": "",
    "spectrograms": "stft istft",
    "windows": "",
    "view_copies": "unsafe_split unsafe_split_with_sizes unsafe_chunk",
    "native_functions": "hash_tensor slice_inverse",
    "sparse": "_indices _values indices values crow_indices col_indices ccol_indices row_indices sparse_dim dense_dim _dimI _dimV _nnz "
    "is_coalesced coalesce _coalesced_ to_dense to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc "
    "sparse_mask sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_ smm sspaddmm",
}
for _family, _methods in LATE.items():
    declare_late(f"{__name__}.{_family}", _methods)


def __getattr__(name: str) -> Any:
    if name == "aten" or name not in TABLES["torch"]:
        return custom.find(name)
    function = globals()[name] = resolve("torch", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("torch")})


__all__ = ["names", "resolve"]
