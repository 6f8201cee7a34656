"""``torch._inductor``: graphs given to the native kernels, and settings that programs give PyTorch's code generator, which are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...compiler import cudagraph_mark_step_begin as cudagraph_mark_step_begin
from ...core import late as _late
from . import config as config

_late.adopt(__name__)

__all__ = ["compile", "config", "cudagraph_mark_step_begin"]


def __getattr__(name: str) -> Any:
    if name == "compile_fx":  # a module
        from importlib import import_module

        return import_module(f"{__name__}.compile_fx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compile(gm: Any, example_inputs: Sequence[Any], options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A graph as a function that the native kernels run, as the back end 'inductor' makes it.

    Args:
        gm: a ``torch.fx.GraphModule``. example_inputs: not looked at: the function's first call with inputs of some shapes records them.
        options: settings of PyTorch's code generator, which ours has none of.
    Returns:
        A function of the graph's inputs.
    Source: torch._inductor.compile.
    Example:
        >>> graph = torch.fx.symbolic_trace(lambda x: (x + 1).relu())
        >>> torch._inductor.compile(graph, [torch.ones(1)])(torch.tensor([-3.0, 1.0]))
        tensor([0., 2.])
    """
    from ...compiler.entry import lookup_backend

    made: Callable[..., Any] = lookup_backend("inductor")(gm, example_inputs)
    return made
