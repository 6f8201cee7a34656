"""Names that packages import from ``torch._dynamo.eval_frame``; no frames are evaluated here, programs are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...compiler import disable, reset, set_stance
from ...compiler.entry import OptimizedModule, lookup_backend
from ...compiler.explanation import explain
from .. import unsupported
from ._support import is_dynamo_supported, is_inductor_supported

__all__ = [
    "OptimizedModule", "check_if_dynamo_supported", "check_if_inductor_supported", "disable", "explain", "innermost_fn",
    "is_dynamo_supported", "is_inductor_supported", "lookup_backend", "remove_from_cache", "reset_code", "set_stance",
]  # fmt: skip


def innermost_fn(fn: Callable[..., Any], unaltered_fn_attr: str = "_torchdynamo_orig_callable") -> Callable[..., Any]:
    """The function below all decorators of the compiler's. Source: torch._dynamo.eval_frame.innermost_fn."""
    while hasattr(fn, unaltered_fn_attr):
        fn = getattr(fn, unaltered_fn_attr)
    return fn


def remove_from_cache(f: Any) -> None:
    """Forget compiled programs: those of all functions. Source: torch._dynamo.eval_frame.remove_from_cache."""
    reset()


def reset_code(code: Any) -> None:
    """Forget compiled programs: those of all functions. Source: torch._dynamo.eval_frame.reset_code."""
    reset()


def check_if_dynamo_supported() -> None:
    """Raise where programs cannot be compiled, which they can. Source: torch._dynamo.eval_frame.check_if_dynamo_supported."""


def check_if_inductor_supported() -> None:
    """Raise where programs cannot be compiled, which they can. Source: torch._dynamo.eval_frame.check_if_inductor_supported."""


globals().update(
    unsupported.names(
        "_dynamo.eval_frame",
        "export optimize optimize_assert set_eval_frame skip_code",
        "DisableContext OptimizeContext RunOnlyContext _TorchDynamoContext",
    )
)
