"""Names that packages import from ``torch.masked._ops``: the functions of ``torch.masked``, and the steps that they are made of."""

from __future__ import annotations

import math
from typing import Any

from ..core import dtype as dtypes
from ..core.shape import wrap_dims
from ..core.tensor import Tensor
from ..ops.masks import where
from . import _functions
from ._functions import *  # noqa: F403
from ._functions import _limit, _mask_for

__all__ = _functions.__all__

_REDUCTIONS = {"sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp"}
_NORMALIZATIONS = {"softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"}


def _canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions from the front, in order; all for None.

    Raises:
        RuntimeError: one of them twice. IndexError: out of range.
    """
    return tuple(sorted(wrap_dims(dim, ndim)))


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """Result of an operation on no elements, as a 0-d tensor of ``input``'s dtype; None if there is no such number.

    Raises:
        NotImplementedError: another operation, or a dtype without such a number.
    """
    if op_name in ("sum", "cumsum"):
        value: Any = 0
    elif op_name in ("prod", "cumprod"):
        value = 1
    elif op_name in ("amax", "argmax", "logaddexp", "logsumexp"):
        value = _limit(op_name, input.dtype, True)
    elif op_name in ("amin", "argmin"):
        value = _limit(op_name, input.dtype, False)
    elif op_name == "mean" or op_name in ("var", "std"):
        return None
    elif op_name == "norm":
        order = args[0] if args else 2
        value = _limit(op_name, input.dtype, False) if order == -math.inf else 0
    elif op_name == "median":  # of no elements it is NaN, also of integers
        return input.new_tensor(math.nan, dtype=input.dtype if input.is_floating_point() else dtypes.float32)
    else:
        raise NotImplementedError(f"identity of {op_name} on {input.dtype} input")
    return input.new_tensor(value)


def _where(mask: Tensor, input: Tensor, fill_value: Any) -> Tensor:
    """``input`` where the mask shows, elsewhere ``fill_value``."""
    return where(mask, input, fill_value)


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """The mask of ``input`` as bools of its shape; a masked tensor's own mask hides too."""
    own = getattr(input, "_masked_mask", None)
    if own is not None:
        return own if mask is None else own & mask
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    return _mask_for(input, mask)


def _output_mask(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The mask of what a function of this module returns: which results are made of an element that is shown.

    Raises:
        ValueError: another function.
    """
    name = getattr(op, "__name__", str(op))
    if name in _NORMALIZATIONS:
        return _input_mask(input, *args, **kwargs)
    if name not in _REDUCTIONS:
        raise ValueError(f"_output_mask expected masked operation (got {name})")
    dim = args[1] if name == "norm" and len(args) > 1 else args[0] if args and name != "norm" else kwargs.get("dim")
    mask = _input_mask(input, *args, **kwargs)
    dims = _canonical_dim(dim if dim is not None or name != "median" else -1, input.ndim)
    return mask.any(dims, keepdim=bool(kwargs.get("keepdim", False))) if dims else mask


def _combine_input_and_mask(op: Any, input: Any, mask: Tensor | None, *args: Any) -> Tensor:
    """``input`` with the operation's identity in the place of what is hidden."""
    own = getattr(input, "_masked_mask", None)
    if own is not None:
        input, mask = input.get_data(), own if mask is None else own & mask
    if mask is None:
        return input
    name = op if isinstance(op, str) else op.__name__
    return where(_mask_for(input, mask), input, _reduction_identity(name, input, *args))
