"""Tensors, numbers and arrays as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import dtype as dtypes
from ...core.tensor import Tensor


def make_np(x: Any) -> np.ndarray:
    """``x`` as a NumPy array; a number becomes an array of one element.

    Args:
        x: tensor on any device, with or without a history; array; number or string. bfloat16 becomes float16, and a tensor of the
            ``meta`` device, which has no values, one random number.
    Raises:
        NotImplementedError: anything else.
    Source: torch.utils.tensorboard._convert_np.make_np.
    """
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if not isinstance(x, Tensor):
        raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
    if x.device.type == "meta":
        return np.random.randn(1)
    if x.dtype is dtypes.bfloat16:
        x = x.to(dtypes.float16)
    return x.detach().cpu().numpy()
