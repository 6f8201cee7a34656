"""PyTorch's public names that flambeau leaves out, each with its reason; ``docs/compatibility.md`` shows them.

A name is listed as ``namespace.name``, a pattern of ``fnmatch``. What is neither there nor listed here fails in ``tests/test_names.py``,
and so does a line that no missing name matches.
"""

from __future__ import annotations

import fnmatch

_LATER = "not built yet"

REASONS: tuple[tuple[str, str], ...] = (
    ("cuDNN's interface: a GPU library of NVIDIA's", "torch.cudnn_*"),
    ("MIOpen's interface: a GPU library of AMD's", "torch.miopen_*"),
    ("oneDNN's interface and memory layout", "torch.mkldnn_* Tensor.to_mkldnn"),
    ("FBGEMM's interface: packed weights of a library of Meta's", "torch.fbgemm_*"),
    ("parts of a synchronized batch norm on GPUs; PyTorch's CPU build has no kernels for them", "torch.batch_norm_*"),
    ("PyTorch's CPU build has a kernel for sparse tensors only", "torch.native_norm"),
    (
        "TorchScript's compiler and its types",
        "torch.import_ir_module* torch.parse_* torch.merge_type_from_type_comment torch.unify_type_list",
    ),
    ("functions of devices that PyTorch itself has no longer, or of its XLA package", "torch.*autocast_ipu* torch.*autocast_xla*"),
    ("counters of the interpreter's own bookkeeping", "torch.profiler_allow_cudagraph_cupti_lazy_reinit_cuda12"),
    ("dimensions as objects, of functorch", "Tensor.index"),
    ("scaled products of float8 matrices, for GPUs of NVIDIA's and AMD's", "nn.functional.scaled_mm nn.functional.scaled_grouped_mm"),
    ("a check of an old compiler of PyTorch's", "nn.functional.assert_int_or_pair"),
    ("the type of annotations", "fft.Tensor"),
    (
        "kernels of GPUs: matrices with two of four elements, a solver of cuDSS",
        "sparse.SparseSemiStructured* sparse.to_sparse_semi_structured sparse.solve",
    ),
    (
        "kernels over quantized tensors; they are moved, compared and saved, and call dequantize to compute",
        "torch.Q*Storage torch.quantized_* torch.choose_qparams_optimized torch.fused_moving_avg_obs_fake_quant",
    ),
)


def reason_for(namespace: str, name: str) -> tuple[str, str] | None:
    """The reason why a name is left out, and the pattern that says so; None where it is not listed."""
    for reason, patterns in REASONS:
        for pattern in patterns.split():
            if fnmatch.fnmatchcase(f"{namespace}.{name}", pattern):
                return reason, pattern
    return None
