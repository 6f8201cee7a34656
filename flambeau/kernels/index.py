"""Modules that have the native kernels of operations and of parts, by ``index.txt``, which ``python -m tools.kernel_index`` writes.

So the module is imported when an operation first meets large operands, and no source has to be there. A test compares the file with what
the ``@native`` decorators register.
"""

from ..core.arrays.native import MemoryUse, find, memory_uses
from .data import text_beside

_NAMES = dict(line.split(" ", 1) for line in text_beside(__file__, "index.txt").splitlines())
FAMILIES = {name: module for module, names in _NAMES.items() for name in names.split()}


def memory_use(name: str) -> MemoryUse:
    """Use that the native kernel of an operation may make of its operands' memory, as its registration says."""
    find(name)
    return memory_uses.get(name, MemoryUse())
