"""Data files beside modules, read as the modules are: from a folder or from an archive."""

from __future__ import annotations

import os
from typing import Any


def text_beside(module_file: str, name: str) -> str:
    """The text of the file ``name`` in the folder of a module, whose ``__file__`` is given.

    Raises:
        OSError: there is none.
    """
    loader: Any = globals()["__spec__"].loader  # importlib.resources takes 10 ms to import
    return loader.get_data(os.path.join(os.path.dirname(module_file), name)).decode()
