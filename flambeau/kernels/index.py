"""Modules that have the native kernels of operations and of parts, by ``index.txt``, which ``python -m tools.kernel_index`` writes.

So the module is imported when an operation first meets large operands, and no source has to be there. A test compares the file with what
the ``@native`` decorators register.
"""

from ..core.arrays.native import memory_use as memory_use
from .data import text_beside

__all__ = ["FAMILIES", "memory_use"]

_NAMES = dict(line.split(" ", 1) for line in text_beside(__file__, "index.txt").splitlines())
FAMILIES = {name: module for module, names in _NAMES.items() for name in names.split()}
