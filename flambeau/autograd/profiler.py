"""Labels of ranges for a profiler, which is not implemented yet."""

from __future__ import annotations

import contextlib

__all__ = ["record_function"]


class record_function(contextlib.ContextDecorator):
    """Give a range of the program a name in what a profiler records; also a decorator. Nothing is recorded yet.

    Args:
        name: the label.
        args: more text beside it.
    Source: torch.profiler.record_function.
    Example:
        >>> with record_function("first layer"):
        ...     y = torch.ones(2) + 1
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *error: object) -> None:
        return None
