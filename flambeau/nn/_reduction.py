"""Reductions of losses, and the two old arguments for them."""

from __future__ import annotations

import warnings


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The ``reduction`` that the deprecated arguments ``size_average`` and ``reduce`` stand for; None counts as True.

    ========================  ==============  =========
    size_average              reduce          reduction
    ========================  ==============  =========
    any                       False           none
    True or None              True or None    mean
    False                     True or None    sum
    ========================  ==============  =========
    """
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=2)
    return reduction


def resolve(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """``reduction``, unless one of the deprecated arguments is given."""
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce)
