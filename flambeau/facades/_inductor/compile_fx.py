"""``torch._inductor.compile_fx``: the name by which back ends of programs call the native kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import compile

__all__ = ["compile_fx"]


def compile_fx(model_: Any, example_inputs_: Sequence[Any], config_patches: dict[str, Any] | None = None) -> Callable[..., Any]:
    """A graph as a function that the native kernels run: ``torch._inductor.compile``.

    Args:
        model_, example_inputs_, config_patches: as of ``compile``.
    Returns:
        A function of the graph's inputs.
    Source: torch._inductor.compile_fx.compile_fx.
    Example:
        >>> def backend(graph, inputs):
        ...     return torch._inductor.compile_fx.compile_fx(graph, inputs)
        >>> torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2))
        tensor([2., 2.])
    """
    return compile(model_, example_inputs_, config_patches)
