"""Names that packages import from ``torch._dynamo.eval_frame``: nothing is compiled, so that there are no frames to evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...compiler import disable, set_stance
from ...compiler.entry import OptimizedModule
from .. import unsupported
from ._support import is_dynamo_supported, is_inductor_supported

__all__ = [
    "OptimizedModule", "check_if_dynamo_supported", "check_if_inductor_supported", "disable", "innermost_fn", "is_dynamo_supported",
    "is_inductor_supported", "remove_from_cache", "reset_code", "set_stance", "skip_code",
]  # fmt: skip


def innermost_fn(fn: Callable[..., Any], unaltered_fn_attr: str = "_torchdynamo_orig_callable") -> Callable[..., Any]:
    """The function below all decorators of the compiler's. Source: torch._dynamo.eval_frame.innermost_fn."""
    while hasattr(fn, unaltered_fn_attr):
        fn = getattr(fn, unaltered_fn_attr)
    return fn


def remove_from_cache(f: Any) -> None:
    """Forget compiled code of a function; there is none. Source: torch._dynamo.eval_frame.remove_from_cache."""


def reset_code(code: Any) -> None:
    """Forget compiled code; there is none. Source: torch._dynamo.eval_frame.reset_code."""


def skip_code(code: Any) -> None:
    """Leave code uncompiled, as all of it is. Source: torch._dynamo.eval_frame.skip_code."""


def check_if_dynamo_supported() -> None:
    """Raise, since nothing is compiled. Source: torch._dynamo.eval_frame.check_if_dynamo_supported."""
    raise RuntimeError("torch._dynamo is not supported: nothing is compiled, everything runs as it is written")


def check_if_inductor_supported() -> None:
    """Raise, since nothing is compiled. Source: torch._dynamo.eval_frame.check_if_inductor_supported."""
    check_if_dynamo_supported()


globals().update(
    unsupported.names(
        "_dynamo.eval_frame",
        "explain export lookup_backend optimize optimize_assert set_eval_frame",
        "DisableContext OptimizeContext RunOnlyContext _TorchDynamoContext",
    )
)
