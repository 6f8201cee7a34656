"""Switches of PyTorch's executor for compiled programs; programs run operation by operation here. Source: torch.jit._fuser."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from ._state import is_scripting

_onednn = False
_strategy: list[tuple[str, int]] = [("STATIC", 2), ("DYNAMIC", 10)]


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block in which programs are optimized when they are first run, or not: a hint for speed, which has no effect here.

    Args:
        should_optimize: whether.
    Returns: the block's context.
    Source: torch.jit.optimized_execution.
    Example:
        >>> with torch.jit.optimized_execution(False):
        ...     y = torch.jit.script(nn.ReLU())(torch.ones(1))
    """
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A block in which a fuser of PyTorch's is chosen: a hint for speed, which has no effect here.

    Args:
        name: ``"fuser0"`` to ``"fuser3"``, or ``"none"``.
    Raises:
        Exception: another name.
    Source: torch.jit.fuser.
    """
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "none"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """A block of a scripted program in which all operations have to be fused; programs with it cannot be scripted here.

    Elsewhere it has no effect but a warning, as in PyTorch.

    Source: torch.jit.strict_fusion.
    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     with torch.jit.strict_fusion():
        ...         y = torch.ones(1)
    """

    def __init__(self) -> None:
        if not is_scripting():
            warnings.warn("Only works in script mode", stacklevel=2)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        pass


def enable_onednn_fusion(enabled: bool) -> None:
    """Note whether oneDNN's fusion is wanted: a hint for speed, which has no effect but on ``onednn_fusion_enabled``.

    Args:
        enabled: whether.
    Source: torch.jit.enable_onednn_fusion.
    Example:
        >>> torch.jit.enable_onednn_fusion(False)
    """
    global _onednn
    _onednn = enabled


def onednn_fusion_enabled() -> bool:
    """The word that ``enable_onednn_fusion`` was given last.

    Returns: a bool, False at first.
    Source: torch.jit.onednn_fusion_enabled.
    Example:
        >>> torch.jit.onednn_fusion_enabled()
        False
    """
    return _onednn


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Note how often programs are specialised on shapes: a hint for speed, which has no effect here.

    Args:
        strategy: pairs of ``"STATIC"`` or ``"DYNAMIC"`` and a number.
    Returns: the strategy before.
    Raises:
        ValueError: another word.
    Source: torch.jit.set_fusion_strategy.
    Example:
        >>> before = torch.jit.set_fusion_strategy([("STATIC", 1)])
        >>> torch.jit.set_fusion_strategy(before)
        [('STATIC', 1)]
    """
    global _strategy
    for word, _ in strategy:
        if word not in ("STATIC", "DYNAMIC"):
            raise ValueError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {word}")
    before, _strategy = _strategy, list(strategy)
    return before


def last_executed_optimized_graph() -> Any:
    """The graph that was run last.

    Returns: nothing.
    Raises:
        NotImplementedError: no executor keeps one.
    Source: torch.jit.last_executed_optimized_graph.
    Example:
        >>> torch.jit.last_executed_optimized_graph()
        Traceback (most recent call last):
        NotImplementedError: torch.jit.last_executed_optimized_graph is not supported: no executor keeps one
    """
    raise NotImplementedError("torch.jit.last_executed_optimized_graph is not supported: no executor keeps one")
