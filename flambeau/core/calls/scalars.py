"""Python numbers as 0-d arrays, remembered: NumPy takes 250 ns longer to add ``2.0`` to an array than to add ``array(2.0)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..state import run_ignoring_fp


class Scalars(dict[Any, Any]):
    """Number -> 0-d array of one dtype; the arrays must not be written to.

    Float zeros are not kept, because 0.0 and -0.0 are one key; nor is what does not equal itself.
    """

    limit = 4096

    def __init__(self, dtype: Any):
        super().__init__()
        self.dtype = np.dtype(dtype)

    def __missing__(self, value: Any) -> np.ndarray:
        array = run_ignoring_fp(np.array, value, self.dtype)
        array.flags.writeable = False
        if (value or value.__class__ is int) and value == value:
            if len(self) >= self.limit:
                self.clear()
            self[value] = array
        return array


# One table per class of key: 2 and 2.0 are equal as keys, and so are True and 1.
FLOATS32, FLOATS64 = Scalars(np.float32), Scalars(np.float64)
INTS32, INTS64 = Scalars(np.float32), Scalars(np.int64)
