"""Loading the machine code of fast paths, and what it can do for an operation."""

from __future__ import annotations

from typing import Any

from ...core.arrays.native import NoKernel, switch
from ...core.calls.machine_calls import take_over
from . import forms
from .code import Code, builtin
from .interpreter import Unsupported

_FORMS = {1: forms.unary, 2: forms.binary}


def start(at_once: bool) -> None:
    """Load it, or compile it, and have it take over; nothing where it cannot be had."""
    if not switch.on:
        return
    try:
        code = Code()
        names = {operands: write(code) for operands, write in _FORMS.items()}
        addresses = code.load(list(names.values()))
    except (Unsupported, NoKernel, ImportError, OSError):
        return

    def find(op: Any, form: str) -> Any:
        try:
            record = forms.pointwise_record(op)
        except forms.Unfit:
            return None
        return builtin(op.name, addresses[names[op.ufunc.nin]], record)

    take_over(find)
