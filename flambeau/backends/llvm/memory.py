"""Memory for results."""

from __future__ import annotations

from typing import Any

import numpy as np


def empty(shape: Any, dtype: Any) -> np.ndarray:
    """An array of a shape and dtype with arbitrary contents."""
    return np.empty(shape, dtype)
