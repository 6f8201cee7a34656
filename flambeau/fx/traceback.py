"""Notes of the node that runs, for the nodes that are made of it. Source: torch.fx.traceback."""

from __future__ import annotations

import contextlib
import copy
import threading
import traceback
from collections.abc import Iterator
from typing import Any

__all__ = [
    "annotate", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta", "reset_grad_fn_seq_nr",
    "set_current_meta", "set_grad_fn_seq_nr", "set_stack_trace",
]  # fmt: skip


class _Notes(threading.local):
    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self.preserved = False


_notes = _Notes()


@contextlib.contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Context in which what is made of a node gets its notes.

    Args:
        enable: whether notes are kept.
    Returns:
        The context.
    Source: torch.fx.traceback.preserve_node_meta.
    Example:
        >>> with torch.fx.traceback.preserve_node_meta():
        ...     torch.fx.traceback.has_preserved_node_meta()
        True
    """
    before = _notes.preserved, _notes.meta
    _notes.preserved, _notes.meta = enable, copy.copy(_notes.meta)
    try:
        yield
    finally:
        _notes.preserved, _notes.meta = before


def has_preserved_node_meta() -> bool:
    """Whether notes are kept now.

    Returns:
        True inside ``preserve_node_meta``.
    Source: torch.fx.traceback.has_preserved_node_meta.
    Example:
        >>> torch.fx.traceback.has_preserved_node_meta()
        False
    """
    return _notes.preserved


@contextlib.contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Context in which ``node`` is the one that runs.

    Args:
        node: the node.
        pass_name: of the pass that runs it; has no effect.
    Returns:
        The context.
    Source: torch.fx.traceback.set_current_meta.
    Example:
        >>> with torch.fx.traceback.set_current_meta(torch.fx.Graph().placeholder("x")):
        ...     torch.fx.traceback.get_current_meta()
        {}
    """
    if not (_notes.preserved and node.meta):
        yield
        return
    before = _notes.meta
    _notes.meta = {**node.meta}
    try:
        yield
    finally:
        _notes.meta = before


def get_current_meta() -> dict[str, Any]:
    """The notes of the node that runs.

    Returns:
        A dict, empty where no node runs or notes are not kept.
    Source: torch.fx.traceback.get_current_meta.
    Example:
        >>> torch.fx.traceback.get_current_meta()
        {}
    """
    return _notes.meta


@contextlib.contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Context in which nodes get entries of ``meta["custom"]``.

    Args:
        annotation_dict: the entries.
    Returns:
        The context.
    Source: torch.fx.traceback.annotate.
    Example:
        >>> with torch.fx.traceback.annotate({"stage": 1}):
        ...     torch.fx.traceback.get_current_meta()["custom"]
        {'stage': 1}
    """
    before = _notes.meta
    _notes.meta = {**before, "custom": {**before.get("custom", {}), **annotation_dict}}
    try:
        yield
    finally:
        _notes.meta = before


def set_stack_trace(stack: list[str]) -> None:
    """Note lines of a program as where what comes is from.

    Args:
        stack: the lines, as ``traceback.format_list`` gives them.
    Source: torch.fx.traceback.set_stack_trace.
    Example:
        >>> with torch.fx.traceback.preserve_node_meta():
        ...     torch.fx.traceback.set_stack_trace(["model.py, line 3"])
        ...     torch.fx.traceback.format_stack()
        ['model.py, line 3']
    """
    if _notes.preserved and stack:
        _notes.meta["stack_trace"] = "".join(stack)


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Note the number of the node of the tape that runs.

    Args:
        seq_nr: the number.
    Source: torch.fx.traceback.set_grad_fn_seq_nr.
    Example:
        >>> with torch.fx.traceback.preserve_node_meta():
        ...     torch.fx.traceback.set_grad_fn_seq_nr(7)
        ...     torch.fx.traceback.get_current_meta()["grad_fn_seq_nr"]
        [7]
    """
    if _notes.preserved:
        _notes.meta["in_grad_fn"] = _notes.meta.get("in_grad_fn", 0) + 1
        _notes.meta["grad_fn_seq_nr"] = [*_notes.meta.get("grad_fn_seq_nr", []), seq_nr]


def reset_grad_fn_seq_nr() -> None:
    """Forget the last of these numbers.

    Source: torch.fx.traceback.reset_grad_fn_seq_nr.
    Example:
        >>> torch.fx.traceback.reset_grad_fn_seq_nr()
    """
    if _notes.preserved and (level := _notes.meta.get("in_grad_fn", 0)) > 0:
        _notes.meta["in_grad_fn"] = level - 1
        _notes.meta["grad_fn_seq_nr"] = _notes.meta["grad_fn_seq_nr"][:-1]


def format_stack() -> list[str]:
    """The lines of the program that are noted, or that are running.

    Returns:
        A list of lines.
    Source: torch.fx.traceback.format_stack.
    Example:
        >>> isinstance(torch.fx.traceback.format_stack(), list)
        True
    """
    if _notes.preserved:
        return [_notes.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])
