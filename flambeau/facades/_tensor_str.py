"""``torch._tensor_str``: parts of a tensor's text, from which packages put together that of their subclasses. Source: torch._tensor_str."""

from __future__ import annotations

from typing import Any

from ..core.protocols import printing
from ..core.protocols.printing import OPTIONS as PRINT_OPTS, get_printoptions, printoptions, set_printoptions

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


def _tensor_str(self: Any, indent: int) -> str:
    """The bracketed elements of a strided tensor, ``[]`` where there are none; ``indent`` is the column that they begin in."""
    return "[]" if self.numel() == 0 else printing.elements_of(self, indent)


def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> str:
    """A text with attributes behind it and the closing bracket; ``force_newline``: the first attribute begins a line."""
    return printing.with_suffixes(tensor_str, suffixes, indent, force_newline)


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """The whole text of a tensor, with other contents on demand."""
    return printing.text_of(inp, tensor_contents)


_str = _str_intern
