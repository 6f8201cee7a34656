"""Tools around training: data loading, checkpointing of activations, and more; each submodule is imported at its first use."""

from __future__ import annotations

import importlib
from typing import Any

_BACKENDS = ("generate_methods_for_privateuse1_backend", "rename_privateuse1_backend")


def __getattr__(name: str) -> Any:
    if name in _BACKENDS:
        from . import backend_registration

        return getattr(backend_registration, name)
    full_name = f"{__name__}.{name}"
    try:
        return importlib.import_module(full_name)
    except ModuleNotFoundError as error:
        if error.name != full_name:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
