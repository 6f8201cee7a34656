"""``torch._dynamo.testing``: back ends that count. Source: torch._dynamo.testing."""

from __future__ import annotations

from typing import Any

from ...compiler.entry import lookup_backend

__all__ = ["CompileCounter", "CompileCounterWithBackend"]


class CompileCounter:
    """Back end that runs graphs as they are and counts them, and their operations.

    Attributes:
        frame_count: number of graphs. op_count: number of calls in them.
    Source: torch._dynamo.testing.CompileCounter.
    Example:
        >>> counter = torch._dynamo.testing.CompileCounter()
        >>> torch.compile(lambda x: (x + 1) * 2, backend=counter)(torch.ones(1)), counter.frame_count, counter.op_count
        (tensor([4.]), 1, 2)
    """

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """``CompileCounter`` that keeps the graphs.

    Args:
        backend: what runs the graphs.
    Attributes:
        graphs: the graph modules.
    Source: torch._dynamo.testing.CompileCounterWithBackend.
    Example:
        >>> counter = torch._dynamo.testing.CompileCounterWithBackend("eager")
        >>> len(counter.graphs)
        0
    """

    def __init__(self, backend: str = "eager") -> None:
        super().__init__()
        self.backend = backend
        self.graphs: list[Any] = []

    def __call__(self, gm: Any, example_inputs: Any) -> Any:
        self.graphs.append(gm)
        super().__call__(gm, example_inputs)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        super().clear()
        self.graphs = []
