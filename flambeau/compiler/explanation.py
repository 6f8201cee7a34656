"""``torch._dynamo.explain``: the outcome of compiling a function, told after one call of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..capture.passes import simplified
from .compiled import Compiled
from .entry import innermost

__all__ = ["ExplainOutput", "explain"]


class ExplainOutput:
    """An explanation.

    Attributes:
        graphs: the graphs, backward passes included. graph_count: their number.
        graph_break_count: number of places where a program ends, or cannot be replayed.
        break_reasons: why. op_count: number of operations. ops_per_graph: the operations of each graph.
        compile_times: seconds, as text.
    Source: torch._dynamo.backends.debugging.ExplainOutput.
    """

    def __init__(self, graphs: list[Any], reasons: list[str], seconds: float):
        self.graphs, self.graph_count = graphs, len(graphs)
        self.break_reasons, self.graph_break_count = reasons, len(reasons)
        self.ops_per_graph = [[node.op for node in graph.nodes if node.kind == "op"] for graph in graphs]
        self.op_count = sum(map(len, self.ops_per_graph))
        self.out_guards: list[Any] = []
        self.compile_times = f"{seconds:.3f} s"

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}", f"Op Count: {self.op_count}"]
        lines += ["Break Reasons:", *[f"  Break Reason {i + 1}:\n    Reason: {reason}" for i, reason in enumerate(self.break_reasons)]]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph):
            lines += [f"  Ops {i + 1}:", *[f"    {op!r}" for op in ops]]
        return "\n".join([*lines, f"Compile Times: {self.compile_times}"])

    __repr__ = __str__


def explain(f: Callable[..., Any], *extra_args: Any, **extra_kwargs: Any) -> Any:
    """Tell the outcome of compiling a function: ``explain(f)(*args)`` calls it once.

    Args:
        f: function or module. extra_args, extra_kwargs: arguments, as the first form of this function took them.
    Returns:
        A function of the arguments that returns an ``ExplainOutput``; that itself where there are extra arguments.
    Source: torch._dynamo.explain.
    Example:
        >>> told = torch._dynamo.explain(lambda x: (x + 1).sum())(torch.ones(2))
        >>> told.graph_count, told.op_count, told.graph_break_count
        (1, 2, 0)
    """

    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        start = time.perf_counter()
        compiled = Compiled(innermost(f), "aot_eager")
        compiled(args, kwargs)
        graphs = [simplified(graph) for program in compiled.programs for graph in program.graphs]
        return ExplainOutput(graphs, list(compiled.breaks), time.perf_counter() - start)

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
