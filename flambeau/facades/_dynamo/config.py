"""Settings of ``torch.compile``. Source: torch._dynamo.config, torch.compiler.config.

``recompile_limit`` (or ``cache_size_limit``, its older name), ``fail_on_recompile_limit_hit``, ``disable`` and ``suppress_errors`` are
looked at. The others say how PyTorch compiles: they keep values, and change nothing here.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
disable = False
dynamic_shapes = True
enable_cpp_symbolic_shape_guards = False
fail_on_recompile_limit_hit = False
force_disable_caches = False
force_parameter_static_shapes = True
force_unspec_int_unbacked_size_like_on_torchrec_kjt = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
job_id: Any = None
log_file_name: Any = None
optimize_ddp = True
recompile_limit = 8
reorderable_logging_functions = set[Any]()
skip_tensor_guards_with_matching_dict_tags = True
specialize_float = False
specialize_int = False
suppress_errors = False
verbose = False
wrap_top_frame = False


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


class _Settings(types.ModuleType):
    """This module: a name for another setting is a property."""

    @property
    def cache_size_limit(self) -> int:
        return recompile_limit

    @cache_size_limit.setter
    def cache_size_limit(self, value: int) -> None:
        self.recompile_limit = value


sys.modules[__name__].__class__ = _Settings
