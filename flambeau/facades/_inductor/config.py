"""Settings of PyTorch's code generator. They say how it makes code, and where it tells of that: kept here, and nothing looks at them.

Source: torch._inductor.config.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

allow_buffer_reuse = True
benchmark_kernel = False
compile_threads = 1
conv_1x1_as_mm = False
coordinate_descent_check_all_directions = coordinate_descent_tuning = False
debug = False
dce = False
disable_progress = True
epilogue_fusion = True
epilogue_fusion_first = False
fallback_random = False
force_disable_caches = False
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = fx_graph_remote_cache = True
max_autotune = max_autotune_gemm = max_autotune_pointwise = False
reorder_for_compute_comm_overlap = False
shape_padding = True
size_asserts = True
use_mixed_mm = False
verbose_progress = False
aot_inductor: Any = SimpleNamespace(debug_compile=False, output_path="")
cpp: Any = SimpleNamespace(threads=-1, simdlen=None, enable_kernel_profile=False, weight_prepack=True)
cuda: Any = SimpleNamespace(arch=None, compile_opt_level="-O1")
trace: Any = SimpleNamespace(enabled=False, graph_diagram=False)
triton: Any = SimpleNamespace(
    cudagraphs=False, cudagraph_trees=True, cudagraph_skip_dynamic_graphs=False, unique_kernel_names=True, autotune_pointwise=True
)
