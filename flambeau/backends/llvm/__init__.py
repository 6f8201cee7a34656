"""Kernels generated as LLVM IR: see ``docs/kernels.md`` for the way from an expression to machine code."""

# Which module has the native kernels of an operation; it is imported when the operation first meets a large operand.
FAMILIES: dict[str, str] = {
    **dict.fromkeys(("_correlate", "_spread", "_correlate_pair", "_channel_sums"), "convolution"),
    "optim.step": "optimizer",
    "random.draw": "random",
    "libm": "random",
    **dict.fromkeys(
        ("sum", "nansum", "prod", "mean", "_var", "_std", "count_nonzero", "any", "all", "linalg.vector_norm", "logsumexp"), "reduction"
    ),
    **dict.fromkeys(
        ("amax", "amin", "aminmax", "_max_of_all", "_min_of_all", "_max_along", "_min_along", "argmax", "argmin"), "reduction"
    ),
}
