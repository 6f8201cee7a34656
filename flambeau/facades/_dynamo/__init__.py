"""``torch._dynamo``: settings and hints for the compiler's front end. There is none here: everything runs eagerly."""

from __future__ import annotations

from typing import Any

from ...compiler import allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset, set_stance
from ...compiler.entry import OptimizedModule
from ...core import late as _late
from .. import unsupported
from . import config as config, eval_frame as eval_frame
from ._support import is_dynamo_supported, is_inductor_supported

_late.adopt(__name__)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "forbid_in_graph", "graph_break",
    "is_compiling", "is_dynamo_supported", "is_inductor_supported", "list_backends", "mark_dynamic", "mark_static", "mark_static_address",
    "maybe_mark_dynamic", "reset", "set_stance",
]  # fmt: skip


def graph_break(msg: str = "") -> None:
    """Say that compiled code shall end here; none is compiled. Source: torch._dynamo.graph_break."""


def mark_dynamic(t: Any, index: Any, **limits: Any) -> None:
    """Say that a dimension's size will change, within limits; no compiler assumes anything. Source: torch._dynamo.mark_dynamic."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Say that a dimension's size may change. Source: torch._dynamo.maybe_mark_dynamic."""


def mark_static(t: Any, index: Any = None) -> None:
    """Say that sizes will not change. Source: torch._dynamo.mark_static."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say that a tensor will stay in its memory. Source: torch._dynamo.mark_static_address."""


def disallow_in_graph(fn: Any) -> Any:
    """Keep a function out of compiled code: ``fn`` itself. Source: torch._dynamo.disallow_in_graph."""
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """Make it an error to compile a function: ``fn`` itself. Source: torch._dynamo.forbid_in_graph."""
    return fn


globals().update(
    unsupported.names("_dynamo", "explain export lookup_backend optimize optimize_assert register_backend run substitute_in_graph")
)
