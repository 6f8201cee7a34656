"""Kernels generated as LLVM IR: see ``docs/kernels.md`` for the way from an expression to machine code."""

# Which module has the native kernels of an operation; it is imported when the operation first meets a large operand.
FAMILIES: dict[str, str] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "nn.functional.linear"), "gemm"),
    **dict.fromkeys(("_correlate", "_spread", "_correlate_pair", "_channel_sums"), "convolution"),
    **dict.fromkeys(("clone", "_contiguous", "_copy_into", "_put_parts", "_reshaped_copy", "cat", "stack", "_repeat", "_flip"), "copies"),
    **dict.fromkeys(
        ("embedding", "_embedding_backward", "index_select", "gather", "scatter_add", "_index", "_index_backward", "_index_add", "_limits"),
        "embedding",
    ),
    **{f"nn.functional._{name}_pool{rank}d": "pooling" for name in ("max", "avg", "adaptive_max", "adaptive_avg") for rank in (1, 2)},
    **dict.fromkeys(
        (
            "nn.functional._max_pool1d_with_places",
            "nn.functional._max_pool2d_with_places",
            "nn.functional._scatter_planes",
            "nn.functional._avg_pool_backward",
            "nn.functional._adaptive_avg_pool_backward",
        ),
        "pooling",
    ),
    **dict.fromkeys(("optim.step", "optim.norms", "optim.scale"), "optimizer"),
    "random.draw": "random",
    "libm": "random",
    **dict.fromkeys(
        ("sum", "nansum", "prod", "mean", "_var", "_std", "count_nonzero", "any", "all", "linalg.vector_norm", "logsumexp"), "reduction"
    ),
    **dict.fromkeys(("amax", "amin", "aminmax", "_max_of_all", "_min_of_all", "_max_along", "_min_along", "argmax", "argmin"), "reduction"),
    **dict.fromkeys(("softmax", "log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"), "softmax"),
    **dict.fromkeys(
        (
            "nn.functional._layer_norm",
            "nn.functional._rms_norm",
            "nn.functional._rms_norm_backward",
            "nn.functional._batch_norm",
            "nn.functional._group_norm",
            "nn.functional._normalized_backward",
            "nn.functional._batch_norm_fixed",
            "nn.functional._batch_norm_fixed_backward",
        ),
        "normalization",
    ),
    **dict.fromkeys(
        (
            "nn.functional._cross_entropy",
            "nn.functional._cross_entropy_backward",
            "nn.functional._smoothed_cross_entropy",
            "nn.functional._smoothed_cross_entropy_backward",
            "nn.functional._nll_loss",
            "nn.functional._nll_loss_backward",
            "nn.functional._mse_loss",
            "nn.functional._huber_loss",
            "nn.functional._smooth_l1_loss",
            "nn.functional._binary_cross_entropy",
            "nn.functional._binary_cross_entropy_with_logits",
        ),
        "loss",
    ),
}
