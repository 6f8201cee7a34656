"""Loading the machine code of fast paths, and what it can do for an operation."""

from __future__ import annotations

from typing import Any

from ...core.arrays.native import NoKernel, switch
from ...core.calls.machine_calls import CHOSEN, take_over
from . import forms, records
from .code import Code, builtin
from .interpreter import Unsupported

_FORMS = (forms.unary, forms.binary, forms.result, forms.view)


def start() -> None:
    """Load it, or compile it, and have it take over; nothing where it cannot be had."""
    if not switch.on and CHOSEN != "machine":  # without kernels only where it is asked for by name: what it calls are NumPy's loops
        return
    try:
        code = Code()
        addresses = code.load([write(code) for write in _FORMS])
    except (Unsupported, NoKernel, ImportError, AttributeError, OSError):  # NumPy's or CPython's names may be gone
        return

    def find(op: Any, form: str, *more: Any) -> Any:
        try:
            if form == "pointwise":
                record, operands = records.of_pointwise(op)
                return builtin(op.name, addresses["unary" if operands == 1 else "binary"], record)
            return builtin(op.name, addresses["view" if op.is_view else "result"], records.of_results(op, *more))
        except records.Unfit:
            return None

    take_over(find)
