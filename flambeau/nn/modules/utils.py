"""Small helpers under the names that programs import: ``_pair(3) == (3, 3)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._tuples import repeated

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(value: Any) -> tuple[Any, ...]:
        return repeated(value, n)

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take ``prefix`` off the keys that begin with it, in place; of a state that a wrapped module saved, for example.

    Args:
        state_dict: its metadata, if there is any, is renamed too.
        prefix: with its dot, as ``"module."``.
    Source: torch.nn.modules.utils.consume_prefix_in_state_dict_if_present.
    Example:
        >>> state = {"module.weight": 1, "module.bias": 2}
        >>> nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
        >>> state
        {'weight': 1, 'bias': 2}
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        # A module's entry has no dot at its end: "module" for the wrapped module itself, "module.layer" below it.
        for key in list(metadata):
            if key:
                renamed = "" if key == prefix.removesuffix(".") else key.removeprefix(prefix)
                metadata[renamed] = metadata.pop(key)
