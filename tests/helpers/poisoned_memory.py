"""A plugin of pytest that fills new memory: what reads an element that nothing has written gives NaN or a huge integer, always.

    FLAMBEAU_KERNELS_FROM=1 python -m pytest -p tests.helpers.poisoned_memory tests/test_op_db.py

Memory that comes as ``empty`` usually holds zeros or what a small test computed last, so that such reads are rarely seen. Bools
stay as they come, and so does ``np.empty_like``: an exception with a frame of ours would count as none of a kernel's, which the errors of
``torch.empty`` and ``torch.ones`` in ``tests/test_operations.py`` do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def filled(array: Any) -> Any:
    """``array`` with values that show."""
    if array.__class__ is np.ndarray:
        if array.dtype.kind in "fcV" and array.dtype.names is None:
            array.view(np.uint8).fill(0xFF) if array.ndim and array.flags.c_contiguous else array.fill(np.nan)
        elif array.dtype.kind in "iu":
            array.fill(np.iinfo(array.dtype).max // 3)
    return array


def filling(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: filled(make(*args, **kwargs))


from flambeau.kernels.compiler import memory  # noqa: E402

np.empty, memory.empty = filling(np.empty), filling(memory.empty)  # before other modules take them
