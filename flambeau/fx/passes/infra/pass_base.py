"""A pass as a class. Source: torch.fx.passes.infra.pass_base."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from ....nn import Module
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The result of a pass.

    Args:
        graph_module: the module. modified: whether it is another than before.
    Source: torch.fx.passes.infra.pass_base.PassResult.
    Example:
        >>> torch.fx.passes.infra.pass_base.PassResult(nn.Identity(), False).modified
        False
    """

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """A pass: what has to hold before it, what it does, and what holds after it.

    Source: torch.fx.passes.infra.pass_base.PassBase.
    Example:
        >>> class Nothing(torch.fx.passes.infra.pass_base.PassBase):
        ...     def call(self, graph_module):
        ...         return torch.fx.passes.infra.pass_base.PassResult(graph_module, False)
        >>> Nothing()(torch.fx.symbolic_trace(lambda x: x)).modified
        False
    """

    def __call__(self, graph_module: GraphModule) -> Any:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Do it; a ``PassResult``, or None. Source: torch.fx.passes.infra.pass_base.PassBase.call."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027 - subclasses may have nothing to check
        """Raise unless what it needs holds. Source: torch.fx.passes.infra.pass_base.PassBase.requires."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raise unless what it promises holds. Source: torch.fx.passes.infra.pass_base.PassBase.ensures."""
