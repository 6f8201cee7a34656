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
}
