"""Every operation exactly once, by family.  ``ops.add`` is the public function; see ``core.calls.registry`` for the decorators."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.calls.registry import TABLES, declare_late, names, resolve
from . import custom

FAMILIES = (
    "arithmetic",
    "signs",
    "powers",
    "limits",
    "rounding",
    "comparison",
    "trigonometry",
    "exponential",
    "special",
    "polynomials",
    "activation",
    "softmaxes",
    "attention",
    "multi_head_attention",
    "views",
    "parts",
    "conversion",
    "inplace",
    "indexing",
    "scatter",
    "rearrange",
    "inspection",
    "reduction",
    "creation",
    "ranges",
    "added_products",
    "statistics",
    "sorting",
    "norms",
    "cumulative",
    "matrices",
    "contraction",
    "products",
    "linear_systems",
    "decompositions",
    "least_squares",
    "old_matrices",
    "low_rank",
    "extrema",
    "random",
    "gamma_numbers",
    "dropout",
    "convolution",
    "padding",
    "pooling",
    "average_pooling",
    "normalization",
    "loss",
    "class_loss",
    "margin_loss",
    "ctc",
    "functional_dropout",
    "embedding",
    "unpooling",
    "unfolding",
    "resampling",
    "grids",
    "joining",
    "view_copies",
    "native_functions",
    "numbered_losses",
    "quantization",
    "places",
    "segments",
    "sequences",
    "recurrent",
    "windows",
    "fourier",
    "spectrograms",
    "from_data",
)

for _family in FAMILIES:
    importlib.import_module(f".{_family}", __name__)
    if _family in TABLES["torch"]:
        del globals()[_family]  # ``ops.scatter`` is the operation; its family stays reachable as ``flambeau.ops.scatter`` by import

declare_late(
    f"{__name__}.sparse",
    torch="sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor is_coalesced "
    "resize_as_sparse_ smm spmm dsmm hsmm hspmm sspaddmm saddmm indices_copy values_copy crow_indices_copy col_indices_copy "
    "ccol_indices_copy row_indices_copy",
    sparse="mm addmm sampled_addmm sum softmax log_softmax spdiags",
    methods="_indices _values indices values crow_indices col_indices ccol_indices row_indices sparse_dim dense_dim _dimI _dimV _nnz "
    "is_coalesced coalesce _coalesced_ to_dense to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc "
    "sparse_mask sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_ smm sspaddmm",
)
declare_late(f"{__name__}.eigen_iteration", torch="lobpcg")


def __getattr__(name: str) -> Any:
    if name in custom.NAMESPACES:
        return custom.NAMESPACES[name]
    if name == "aten":
        return custom.aten
    if name not in TABLES["torch"]:
        raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'")
    function = globals()[name] = resolve("torch", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("torch")})


__all__ = ["names", "resolve"]
