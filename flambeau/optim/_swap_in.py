"""An optimizer on other tensors for a while. Source: torch.optim.swap_in_optimizer_params_and_state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.tensor import Tensor
from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Context in which an optimizer has other parameters, another state and other options; afterwards it is as before.

    Args:
        optimizer: has made a step, so that it has a state.
        swapin_parameters: the tensors to step on by name, in the order and with the shapes of the optimizer's parameters.
        swapin_optim_state: the state and the options for them, in the form of ``optimizer.state_dict()``. What is written to its tensors
            in place stays; all else that changes inside is dropped.
    Returns:
        A context manager, which gives None.
    Raises:
        RuntimeError: the optimizer has no state, or what is given does not fit its groups.
    Source: torch.optim.swap_in_optimizer_params_and_state.
    Example:
        >>> weight, other = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))
        >>> weight.grad = other.grad = torch.ones(1)
        >>> (optimizer := torch.optim.Adam([weight], lr=0.1)).step()
        >>> with swap_in_optimizer_params_and_state(optimizer, {"weight": other}, optimizer.state_dict()): optimizer.step()
        >>> print(weight.data, other.data)
        tensor([0.9000]) tensor([-0.1000])
    """
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    groups, state = _other(optimizer, list(swapin_parameters.values()), swapin_optim_state)
    before = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = before


def _other(optimizer: Optimizer, tensors: list[Tensor], saved: dict[str, Any]) -> tuple[list[dict[str, Any]], Any]:
    """The groups and the state that are swapped in."""
    saved_groups = saved.get("param_groups")
    if not isinstance(saved_groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group dicts, got {type(saved_groups).__name__}."
        )
    if len(saved_groups) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    if len(tensors) < sum(len(group["params"]) for group in optimizer.param_groups):
        raise RuntimeError(f"{_NAME} requires the explicit parameter state to match optimizer.param_groups ordering.")
    remaining, groups = iter(tensors), []
    by_id: dict[Any, Tensor] = {}
    for position, (own, given) in enumerate(zip(optimizer.param_groups, saved_groups)):
        if len(own["params"]) != len(given["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {position} has a different number of params than the live optimizer param group."
            )
        here = {packed: next(remaining) for packed in given["params"]}
        by_id |= here
        groups.append({**given, "params": list(here.values())})
    if extra := [packed for packed in saved.get("state", {}) if packed not in by_id]:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter ids from param_groups[*]['params']; "
            f"got extra keys {extra}."
        )
    state: defaultdict[Any, Any] = defaultdict(dict)
    for packed, entries in saved.get("state", {}).items():
        state[by_id[packed]] = dict(entries)
    return groups, state
