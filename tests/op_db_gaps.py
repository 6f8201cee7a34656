"""Where flambeau is known to differ from PyTorch's database of operations, and why; see ``test_op_db``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """Known mismatches of one operation.

    Attributes:
        groups: groups of dtypes in which it shows.
        pattern: regular expression that finds these mismatches and no others.
        reason: why it is so.
    """

    groups: tuple[str, ...]
    pattern: str
    reason: str


_CONJ = Gap(("complex",), "results share memory with inputs at", "conjugation is never lazy: a copy, in PyTorch a flagged view")
_OVERLAP = Gap(
    ("errors",),
    "accepted, PyTorch raises RuntimeError: unsupported operation: (some|more than)",
    "out= may overlap an input: results are complete before they are written",
)
_OUT_DTYPE = Gap(
    ("errors",),
    "accepted, PyTorch raises RuntimeError: Expected o.*(dtype|scalar type)",
    "out= of another float dtype is written with a cast",
)
_NUMBER_FIRST = Gap(("errors",), "accepted, PyTorch raises TypeError", "operators are plain functions, which take a number on the left")
_NO_COMPLEX32 = Gap(
    ("float", "integral", "complex", "gradient"),
    "torch.complex32 is not supported",
    "NumPy has no complex numbers of twice 16 bits",
)
_ROUNDED = Gap(("float",), "bfloat16.*values differ", "PyTorch rounds to bfloat16 on the way, flambeau computes in float32")

GAPS: dict[str, tuple[Gap, ...]] = {
    "conj": (_CONJ,),
    "H": (_CONJ,),
    "mH": (_CONJ,),
    "aminmax": (_OUT_DTYPE,),
    "complex": (_OUT_DTYPE,),
    "gather": (_OVERLAP, _OUT_DTYPE),
    "istft": (
        Gap(("gradient",), "gradient 1: values differ", "some windows of the database are views without history: no gradient in PyTorch"),
    ),
    "index_select": (Gap(("errors",), "more than one element of the written-to", "out= is resized before it is looked at"),),
    "kthvalue": (_OVERLAP,),
    "masked_select": (_OVERLAP,),
    "take": (_OVERLAP,),
    "__radd__": (_NUMBER_FIRST,),
    "__rand__": (_NUMBER_FIRST,),
    "__rmul__": (_NUMBER_FIRST,),
    "__ror__": (_NUMBER_FIRST,),
    "__rxor__": (_NUMBER_FIRST,),
    "chalf": (_NO_COMPLEX32,),
    "div.trunc_rounding": (_ROUNDED,),
    "histc": (_ROUNDED,),
    "matrix_exp": (_ROUNDED,),
    "arange": (
        Gap(
            ("errors",),
            "PyTorch raises ValueError: step must be nonzero",
            "any step of 0 is a RuntimeError",
        ),
    ),
    "as_strided_scatter": (
        Gap(
            ("gradient",),
            "gradient 0: values differ",
            "PyTorch's gradient of overwritten elements is not 0",
        ),
    ),
    "cat": (
        Gap(
            ("errors",),
            "Trying to resize storage that is not resizable",
            "memory that NumPy lent can be left for new memory",
        ),
    ),
    "narrow_copy": (
        Gap(
            ("errors",),
            "PyTorch raises RuntimeError: Expected dim <",
            "an internal check of PyTorch; IndexError, as narrow's, here",
        ),
    ),
    "nn.functional.embedding": (Gap(("float",), "sparse gradients are not supported", "there are no sparse tensors"),),
}

# Results whose values are determined, by position, where some are not: which of several equal elements is meant.
VALUES_OF: dict[str, tuple[int, ...]] = dict.fromkeys(("sort", "topk", "kthvalue", "median.reduction_with_dim", "mode"), (0,))
VALUES_OF["argsort"] = ()
# Eigenvectors and singular vectors are unique up to signs or phases, which depend on the LAPACK.
VALUES_OF |= {"linalg.eig": (0,), "linalg.eigh": (0,), "linalg.svd": (1,), "svd": (1,), "svd_lowrank": (1,), "pca_lowrank": (1,)}

# (relative, absolute) tolerances by dtype where the usual ones are too strict: sums of many products in another order, and
# operations whose intermediate results PyTorch rounds to bfloat16.
_SUMS = {"float32": (1e-4, 1e-4), "complex64": (1e-4, 1e-4), "bfloat16": (5e-2, 5e-2)}
_HALVES = {"bfloat16": (5e-2, 5e-2)}
LOOSE: dict[str, dict[str, tuple[float, float]]] = {
    **{f"nn.functional.conv{kind}{rank}d": _SUMS for kind in ("", "_transpose") for rank in (1, 2, 3)},
    **dict.fromkeys(("cross", "linalg.cross", "addr", "logit", "log_softmax", "masked.log_softmax"), _HALVES),
    **{f"nn.functional.interpolate.{mode}": _HALVES for mode in ("bicubic", "trilinear", "area")},
    **{f"nn.functional.{name}": _HALVES for name in ("adaptive_avg_pool3d", "batch_norm", "instance_norm")},
    "nn.functional.binary_cross_entropy_with_logits": _HALVES,
    "nn.functional.scaled_dot_product_attention": _SUMS,  # PyTorch's own float32 results are 2e-5 off those of float64
    "matrix_exp": {"float32": (1e-5, 1e-3), "complex64": (1e-5, 1e-3)},  # PyTorch's error for entries of 1e5
    "addbmm": {"bfloat16": (1e-1, 1e-1)},
    **{f"polygamma.polygamma_n_{n}": {"float32": (5e-5, 1e-4)} for n in range(5)},  # PyTorch's trigamma has 4 digits near its poles
    "special.polygamma.special_polygamma_n_0": {"float32": (5e-5, 1e-4)},
    "special.hermite_polynomial_he": {"float32": (1e-5, 1e-4)},
}
