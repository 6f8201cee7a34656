"""``torch._dynamo``: settings and hints of ``torch.compile``; the compiler itself is in ``compiler``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ...compiler import allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset, set_stance, substitute_in_graph
from ...compiler.backends import register as register_backend
from ...compiler.dynamism import mark_dynamic, mark_static, maybe_mark_dynamic
from ...compiler.entry import OptimizedModule, compile as _compile, lookup_backend
from ...compiler.explanation import explain
from ...core import late as _late
from ...core.state import thread as _thread
from ...core.tensor import Tensor
from .. import unsupported
from . import config as config, eval_frame as eval_frame, exc as exc, testing as testing, utils as utils
from ._support import is_dynamo_supported, is_inductor_supported

_late.adopt(__name__)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "disable_nested_graph_breaks", "disallow_in_graph",
    "dont_skip_tracing", "explain", "graph_break", "is_compiling", "is_dynamo_disable_recursive", "is_dynamo_supported",
    "is_inductor_supported", "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address",
    "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert", "patch_dynamo_config", "register_backend", "reset", "run",
    "set_recursion_limit", "set_stance", "skip_frame", "step_unsupported", "substitute_in_graph",
]  # fmt: skip


def graph_break(msg: str = "") -> None:
    """End the graph here: Python runs on. The whole function runs as it is written then. Source: torch._dynamo.graph_break."""
    if _thread.recorder is not None:
        _thread.recorder.fail(f"graph_break() is called: {msg}" if msg else "graph_break() is called")


def mark_static_address(t: Any, guard: bool = False) -> None:
    """Say that a tensor will stay in its memory: a hint that changes nothing. Source: torch._dynamo.mark_static_address."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")


def disallow_in_graph(fn: Any) -> Any:
    """A function that is kept out of compiled code, or a list of them. Source: torch._dynamo.disallow_in_graph."""
    return [disable(each) for each in fn] if isinstance(fn, list | tuple) else disable(fn)


def optimize(
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    disable: bool = False,
    dynamic: bool | None = None,
    recompile_limit: int | None = None,
) -> Any:
    """Decorator of functions and modules that are to be compiled; arguments as ``torch.compile``'s. Source: torch._dynamo.optimize."""
    return _compile(backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic, recompile_limit=recompile_limit)


def optimize_assert(backend: Any = "inductor", *, dynamic: bool | None = None) -> Any:
    """``optimize`` with an error where a function is no one graph. Source: torch._dynamo.optimize_assert."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def run(fn: Callable[..., Any] | None = None) -> Any:
    """``fn`` replaying what was compiled, compiling nothing more. Source: torch._dynamo.run."""
    return run if fn is None else set_stance("force_eager")(fn)


def skip_frame(msg: str = "") -> None:
    """Run the function that calls this as it is written. Source: torch._dynamo.skip_frame."""
    graph_break(msg or "skip_frame() is called")


def step_unsupported(msg: str = "") -> None:
    """Compile no more from here on: the whole function runs as it is written then. Source: torch._dynamo.step_unsupported."""
    graph_break(msg or "step_unsupported() is called")


def nonstrict_trace(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that the compiler need not look into; each runs when it is recorded. Source: torch._dynamo.nonstrict_trace.

    Raises:
        AssertionError: it cannot be called.
    """
    if not callable(traceable_fn):
        raise AssertionError("nonstrict_trace expects a callable")
    return traceable_fn


class _AsElsewhere(contextlib.ContextDecorator):
    """A block, or a function, in which programs are compiled as elsewhere."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


def dont_skip_tracing(fn: Any = None) -> Any:
    """Look also into functions that PyTorch's compiler leaves out; none is left out here. Source: torch._dynamo.dont_skip_tracing."""
    return _AsElsewhere() if fn is None else fn


def disable_nested_graph_breaks(fn: Any = None) -> Any:
    """End no graph inside of called functions; graphs end for whole programs here. Source: torch._dynamo.disable_nested_graph_breaks."""
    return _AsElsewhere() if fn is None else fn


def is_dynamo_disable_recursive(method: Callable[..., Any]) -> bool | None:
    """``recursive`` of the ``disable`` that made a function; None for others. Source: torch._dynamo.is_dynamo_disable_recursive."""
    return getattr(method, "_torchdynamo_disable_recursive", None)


def patch_dynamo_config(arg1: Any = None, arg2: Any = None, **kwargs: Any) -> Any:
    """``torch._dynamo.config.patch``, also in compiled programs. Source: torch._dynamo.patch_dynamo_config."""
    return config.patch(dict(arg1) if isinstance(arg1, tuple) else arg1, arg2, **kwargs)


def set_recursion_limit(limit: int) -> None:
    """Python's limit of calls while PyTorch's compiler traces; recording is a plain run. Source: torch._dynamo.set_recursion_limit.

    Raises:
        ValueError: neither positive nor -1.
    """
    if limit < 1 and limit != -1:
        raise ValueError("recursion limit must be >= 1, or -1 to reset")


globals().update(
    unsupported.names(
        "_dynamo",
        "allow_c_slot error_on_graph_break export forbid_in_graph override_cudagraphs override_optimization_hint replay "
        "reset_recompile_user_contexts",
    )
)
