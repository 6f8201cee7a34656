"""``torch._dynamo``: settings and hints of ``torch.compile``; the compiler itself is in ``compiler``."""

from __future__ import annotations

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
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "explain", "graph_break",
     "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends", "lookup_backend", "mark_dynamic",
    "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize", "optimize_assert", "register_backend", "reset", "run",
    "set_stance", "substitute_in_graph",
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


globals().update(unsupported.names("_dynamo", "export forbid_in_graph"))
