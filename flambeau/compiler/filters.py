"""Choosing guards: ``torch.compile(..., options={"guard_filter_fn": function})``, and such functions.

A guard that is left out is one comparison less before each call. What it would have noticed is not noticed then. What is said of the
arguments (classes, dtypes, sizes) always stays, as plans depend on it; so does the thread's grad mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Parameter, Tensor
from ..nn import Module

__all__ = [
    "GuardFilterEntry", "entries_of", "keep_portable_guards_unsafe", "keep_tensor_guards_unsafe", "kept", "skip_all_guards_unsafe",
    "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
]  # fmt: skip

_PACKAGE = __name__.partition(".")[0]


class GuardFilterEntry:
    """One guard, as a filter sees it. Source: torch._dynamo.types.GuardFilterEntry.

    Attributes:
        name: of what it looks at. guard_type: 'TENSOR_MATCH', 'EQUALS_MATCH' or 'NN_MODULE' here.
        has_value, value: what it looks at, where that is one object. is_global: whether that is a global variable.
        derived_guard_types: none.
    """

    __slots__ = ("guard_type", "is_global", "module", "name", "value")

    derived_guard_types: tuple[str, ...] = ()

    def __init__(self, name: str, guard_type: str, value: Any = None, is_global: bool = False, module: Module | None = None):
        self.name, self.guard_type, self.value, self.is_global, self.module = name, guard_type, value, is_global, module

    @property
    def has_value(self) -> bool:
        return self.value is not None


def entries_of(places: Sequence[Any], tensors: Sequence[Tensor]) -> list[GuardFilterEntry]:
    """The guards of a program: on places that hold values, and on tensors that are no arguments."""
    made = []
    for place in places:
        module = getattr(place.read, "args", (None,))[0] if place.owner.startswith("attributes of module") else None
        value = place.saved[0] if len(place.saved) == 1 else None
        kind = "NN_MODULE" if isinstance(module, Module) else "EQUALS_MATCH"
        made.append(GuardFilterEntry(place.owner, kind, value, place.owner.startswith("global "), module))
    return [*made, *[GuardFilterEntry(f"a {type(tensor).__name__}", "TENSOR_MATCH", tensor) for tensor in tensors]]


def kept(choose: Callable[[list[GuardFilterEntry]], Sequence[bool]], places: Sequence[Any], tensors: Sequence[Tensor]) -> list[bool]:
    """For each guard whether it stays.

    Raises:
        ValueError: ``choose`` does not answer for each of them.
    """
    entries = entries_of(places, tensors)
    chosen = list(choose(entries))
    if len(chosen) != len(entries):
        raise ValueError(f"guard_filter_fn returned {len(chosen)} values for {len(entries)} guards")
    return [bool(each) for each in chosen]


def _is_inbuilt(module: Module | None) -> bool:
    return module is not None and type(module).__module__.partition(".")[0] == _PACKAGE


def keep_portable_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Keep the guards on tensors that are not in global variables; a ``guard_filter_fn``.

    Args:
        guard_entries: the guards.
    Returns: for each whether it stays.
    Source: torch.compiler.keep_portable_guards_unsafe.
    Example:
        >>> torch.compiler.keep_portable_guards_unsafe([])
        []
    """
    return [
        entry.guard_type in ("GLOBAL_STATE", "SHAPE_ENV") or (entry.guard_type == "TENSOR_MATCH" and not entry.is_global)
        for entry in guard_entries
    ]


def keep_tensor_guards_unsafe(guard_entries: Sequence[Any], keep_parameters: bool = False) -> list[bool]:
    """Keep the guards on tensors; a ``guard_filter_fn``.

    Args:
        guard_entries: the guards. keep_parameters: those on parameters, too.
    Returns: for each whether it stays.
    Source: torch.compiler.keep_tensor_guards_unsafe.
    Example:
        >>> torch.compiler.keep_tensor_guards_unsafe([])
        []
    """
    return [entry.guard_type == "TENSOR_MATCH" and (keep_parameters or not isinstance(entry.value, Parameter)) for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Keep no guard; a ``guard_filter_fn``.

    Args:
        guard_entries: the guards.
    Returns: False for each.
    Source: torch.compiler.skip_all_guards_unsafe.
    Example:
        >>> torch.compile(lambda x: x + 1, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe})(torch.ones(1))
        tensor([2.])
    """
    return [False for _ in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Keep all guards but those on modules; a ``guard_filter_fn``.

    Args:
        guard_entries: the guards.
    Returns: for each whether it stays.
    Source: torch.compiler.skip_guard_on_all_nn_modules_unsafe.
    Example:
        >>> torch.compiler.skip_guard_on_all_nn_modules_unsafe([])
        []
    """
    return [getattr(entry, "module", None) is None for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Keep all guards but those on the library's own modules; a ``guard_filter_fn``.

    Args:
        guard_entries: the guards.
    Returns: for each whether it stays.
    Source: torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe.
    Example:
        >>> torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe([])
        []
    """
    return [not _is_inbuilt(getattr(entry, "module", None)) for entry in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Sequence[Any]) -> list[bool]:
    """Keep all guards but those on global variables; a ``guard_filter_fn``.

    Args:
        guard_entries: the guards.
    Returns: for each whether it stays.
    Source: torch.compiler.skip_guard_on_globals_unsafe.
    Example:
        >>> torch.compiler.skip_guard_on_globals_unsafe([])
        []
    """
    return [not entry.is_global for entry in guard_entries]
