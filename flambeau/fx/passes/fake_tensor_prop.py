"""Fake tensors as a graph's values. Source: torch.fx.passes.fake_tensor_prop."""

from __future__ import annotations

from typing import Any

from ...core.late import from_above
from ...core.tensor import Tensor
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node
from .shape_prop import _fake_copy

__all__ = ["FakeTensorProp"]


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors, which compute nothing, and notes each value in ``node.meta["val"]``.

    Args:
        module: the module whose graph is run. mode: a ``FakeTensorMode``; a new one when None.
    Source: torch.fx.passes.fake_tensor_prop.FakeTensorProp.
    Example:
        >>> from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
        >>> module = torch.fx.symbolic_trace(lambda x: x.sum(0))
        >>> _ = FakeTensorProp(module).propagate(torch.ones(2, 3))
        >>> [tuple(node.meta["val"].shape) for node in module.graph.nodes]
        [(2, 3), (3,), (3,)]
    """

    def __init__(self, module: GraphModule, mode: Any = None):
        super().__init__(module)
        self._mode = from_above("aten.fake_tensor").FakeTensorMode() if mode is None else mode
        self.module: Any = _fake_copy(module, self._mode)

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted. Source: torch.fx.passes.fake_tensor_prop.FakeTensorProp.run_node."""
        with self._mode:
            result = super().run_node(n)
        n.meta["val"] = result
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on fakes of inputs; what it returns. Source: torch.fx.passes.fake_tensor_prop.FakeTensorProp.propagate."""
        return self.propagate_dont_convert_inputs(*[self._mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args])

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on inputs that are fake already.

        Args:
            args: fake tensors of the mode, and values that are no tensors.
        Source: torch.fx.passes.fake_tensor_prop.FakeTensorProp.propagate_dont_convert_inputs.
        """
        return super().run(*args)
