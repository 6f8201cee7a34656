"""Settings of ``torch.compile``: ``recompile_limit`` and ``disable`` count, others only keep values. Source: torch._dynamo.config."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
disable = False
dynamic_shapes = True
force_parameter_static_shapes = True
force_unspec_int_unbacked_size_like_on_torchrec_kjt = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
specialize_float = False
specialize_int = False
suppress_errors = False
verbose = False


@contextlib.contextmanager
def patch(changes: Any = None, value: Any = None, /, **further: Any) -> Iterator[None]:
    """Settings changed within a block: ``patch(name, value)``, ``patch({name: value})`` or ``patch(name=value)``."""
    settings = sys.modules[__name__]
    wanted = {**({changes: value} if isinstance(changes, str) else changes or {}), **further}
    before = {name: getattr(settings, name) for name in wanted}
    try:
        for name, setting in wanted.items():
            setattr(settings, name, setting)
        yield
    finally:
        for name, setting in before.items():
            setattr(settings, name, setting)
