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

GAPS: dict[str, tuple[Gap, ...]] = {
    "conj": (_CONJ,),
    "H": (_CONJ,),
    "mH": (_CONJ,),
    "istft": (
        Gap(("gradient",), "gradient 1: values differ", "some windows of the database are views without history: no gradient in PyTorch"),
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
    "max_pool2d_with_indices_backward": (
        Gap(("gradient",), "0 results require grad", "the function of torch.ops.aten is not differentiated again; max_pool2d is"),
    ),
}
