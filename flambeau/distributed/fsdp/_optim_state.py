"""The state of an optimizer of sharded parameters, as if it were one of whole parameters, and back.

{"state": {name: {"exp_avg": whole or spread tensor, "step": ...}}, "param_groups": [{"params": [names], ...}]}
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ... import distributed as dist, ops
from ...core.tensor import Tensor
from ..tensor import DTensor
from . import _state_dict
from .api import StateDictType


def _wrapped(model: Any) -> list[tuple[str, Any]]:
    """Wrappers with parameters, and their names without wrappers' parts, with a dot where there is one."""
    return [
        (_state_dict.clean(f"{name}." if name else ""), part)
        for name, part in model.named_modules()
        if isinstance(part, _state_dict.Wrapper) and part._group is not None
    ]


class _Leaf:
    """A leaf that an optimizer has, and the parameters that lie in it.

    Args:
        names: of the parameters.
        part: the wrapper; None for a parameter that is not divided.
        index: which of the wrapper's leaves it is.
    """

    def __init__(self, names: list[str], part: Any, index: int) -> None:
        self.names, self.part, self.index = names, part, index


def _leaves(model: Any) -> dict[int, _Leaf]:
    """Leaves of a model, by their ids."""
    found: dict[int, _Leaf] = {}
    for prefix, part in _wrapped(model):
        names = [prefix + _state_dict.clean(entry.fqn) for entry in part._group.entries]
        for i, leaf in enumerate(part._layout.own):
            found[id(leaf)] = _Leaf([names[i]] if part._layout.pieces else names, part, i)
    for name, param in model.named_parameters():
        found.setdefault(id(param), _Leaf([_state_dict.clean(name)], None, 0))
    return found


def _is_divided(value: Any, leaf: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0 and value.shape == leaf.shape


def optim_state_dict(model: Any, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None) -> dict[str, Any]:
    """The state of an optimizer with whole or spread tensors under the parameters' names.

    Args:
        model: the module with wrappers.
        optim: the optimizer of its parameters.
        optim_state_dict: what ``optim.state_dict()`` gave; asked for when None.
        group: not needed.
    Returns:
        A dictionary with ``state`` and ``param_groups``; an empty one where another process has the state.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.optim_state_dict.
    """

    settings = next((part._settings for part in model.modules() if isinstance(part, _state_dict.Wrapper)), None)
    kind = StateDictType.FULL_STATE_DICT if settings is None else settings.state_dict_type
    only_first = settings is not None and getattr(settings.optim_state_dict_config, "rank0_only", False)
    return _collected(model, optim, optim_state_dict, kind, only_first)


def _collected(model: Any, optim: Any, state_dict: dict[str, Any] | None, kind: StateDictType, rank0_only: bool) -> dict[str, Any]:
    given = optim.state_dict() if state_dict is None else state_dict
    leaves = _leaves(model)
    params = [param for group in optim.param_groups for param in group["params"]]
    known = [leaves[id(param)] for param in params]
    by_id = {id(param): given["state"].get(i, {}) for i, param in enumerate(params)}
    state: dict[str, Any] = {}
    done: set[int] = set()
    for param, leaf in zip(params, known, strict=True):
        if leaf.part is None:
            if by_id[id(param)]:
                state[leaf.names[0]] = dict(by_id[id(param)])
        elif id(leaf.part) not in done:
            done.add(id(leaf.part))
            state.update(_of_wrapper(leaf.part, by_id, leaves, kind))
    groups, numbered = [], iter(known)
    for group in given["param_groups"]:
        names = [name for _ in group["params"] for name in next(numbered).names]
        groups.append({**group, "params": names})
    if rank0_only and dist.get_rank() != 0:
        return {}
    return {"state": state, "param_groups": groups}


def _of_wrapper(part: Any, by_id: dict[int, Any], leaves: dict[int, _Leaf], kind: StateDictType) -> dict[str, Any]:
    """The state of all parameters of a wrapper."""
    own = part._layout.own
    states = [by_id.get(id(leaf), {}) for leaf in own]
    names = [name for leaf in own for name in leaves[id(leaf)].names]
    shares = [states[i if part._layout.pieces else 0] for i in range(len(names))]
    result: dict[str, Any] = {name: {} for name, share in zip(names, shares, strict=True) if share}
    keys = dict.fromkeys(key for state in states for key in state)
    for key in keys:
        if not any(key in state and _is_divided(state[key], leaf) for state, leaf in zip(states, own, strict=True)):
            for name, share in zip(names, shares, strict=True):
                if key in share:
                    result[name][key] = share[key]
            continue
        kinds = [state[key].dtype for state in states if key in state]
        pieces = [state.get(key, ops.zeros(leaf.shape, dtype=kinds[0])) for state, leaf in zip(states, own, strict=True)]
        for name, share, whole in zip(names, shares, _state_dict.gathered(part, pieces), strict=True):
            if share:
                result[name][key] = (
                    _state_dict.divided(whole, _state_dict.mesh_of(part)) if kind is StateDictType.SHARDED_STATE_DICT else whole
                )
    return result


def optim_state_dict_to_load(
    model: Any, optim: Any, optim_state_dict: dict[str, Any], is_named_optimizer: bool = False, load_directly: bool = False,
    group: Any = None
) -> dict[str, Any]:  # fmt: skip
    """A state for ``optim.load_state_dict``, made of the state of whole or spread parameters.

    Args:
        model: the module with wrappers.
        optim: the optimizer of its parameters.
        optim_state_dict: what :func:`optim_state_dict` gave, perhaps with other wrappers or numbers of processes.
        is_named_optimizer: not supported.
        load_directly: call ``optim.load_state_dict`` with it.
        group: not needed.
    Raises:
        NotImplementedError: ``is_named_optimizer``.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.optim_state_dict_to_load.
    """
    if is_named_optimizer:
        raise NotImplementedError("optim_state_dict_to_load: is_named_optimizer=True is not supported")
    result = _divided_state(model, optim, optim_state_dict)
    if load_directly:
        optim.load_state_dict(result)
    return result


def _divided_state(model: Any, optim: Any, given: dict[str, Any]) -> dict[str, Any]:
    leaves = _leaves(model)
    state: dict[int, Any] = {}
    groups = []
    number = 0
    by_name = {name: group for group in given["param_groups"] for name in group["params"]}
    for group in optim.param_groups:
        numbers, options = [], {name: value for name, value in group.items() if name != "params"}
        for param in group["params"]:
            leaf = leaves[id(param)]
            own = _own_state(leaf, param, given["state"])
            if own:
                state[number] = own
            source = by_name.get(leaf.names[0], {})
            options.update({name: value for name, value in source.items() if name != "params"})
            numbers.append(number)
            number += 1
        groups.append({**options, "params": numbers})
    return {"state": state, "param_groups": groups}


def _own_state(leaf: _Leaf, param: Any, state: dict[str, Any]) -> dict[str, Any]:
    """A leaf's state, of the states of the parameters that lie in it."""
    given = [state.get(name, {}) for name in leaf.names]
    if leaf.part is None:
        return dict(given[0])
    layout = leaf.part._layout
    shapes = [layout.shapes[leaf.index]] if layout.pieces else layout.shapes
    own: dict[str, Any] = {}
    for key in dict.fromkeys(key for entry in given for key in entry):
        values = [entry.get(key) for entry in given]
        first = next(value for value in values if value is not None)
        if (
            not isinstance(first, Tensor)
            or tuple(first.shape) != tuple(shapes[values.index(first) if first is not values[0] else 0])
            or not first.dim()
        ):
            own[key] = first.clone() if isinstance(first, Tensor) else first
            continue
        wholes = [_whole(value, shape, first) for value, shape in zip(values, shapes, strict=True)]
        if layout.pieces:
            tensors = [ops.zeros(shape, dtype=first.dtype) if i != leaf.index else wholes[0] for i, shape in enumerate(layout.shapes)]
            begin, end = layout.spans[leaf.index]
            own[key] = layout.flattened(tensors, first.dtype)[layout.rank][begin:end].clone()
        else:
            own[key] = layout.flattened(wholes, first.dtype)[layout.rank].clone()
    return own


def _whole(value: Any, shape: Any, alike: Tensor) -> Tensor:
    if value is None:
        return ops.zeros(shape, dtype=alike.dtype)
    return value.full_tensor() if isinstance(value, DTensor) else value


def full_optim_state_dict(model: Any, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None) -> dict[str, Any]:
    """The state of an optimizer in whole tensors.

    Args:
        model, optim: the module with wrappers, and the optimizer of its parameters.
        optim_input: not needed.
        rank0_only: other processes get an empty dictionary.
        group: not needed.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.full_optim_state_dict.
    """
    return _collected(model, optim, None, StateDictType.FULL_STATE_DICT, rank0_only)


def sharded_optim_state_dict(model: Any, optim: Any, group: Any = None) -> dict[str, Any]:
    """The state of an optimizer in spread tensors.

    Args:
        model, optim: the module with wrappers, and the optimizer of its parameters.
        group: not needed.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.sharded_optim_state_dict.
    """
    return _collected(model, optim, None, StateDictType.SHARDED_STATE_DICT, False)


def shard_full_optim_state_dict(
    full_optim_state_dict: dict[str, Any], model: Any, optim_input: Any = None, optim: Any = None
) -> dict[str, Any]:
    """A state for ``optim.load_state_dict``, made of the state in whole tensors.

    Args:
        full_optim_state_dict: what :func:`full_optim_state_dict` gave, on every process.
        model: the module with wrappers.
        optim_input: not supported.
        optim: the optimizer.
    Raises:
        NotImplementedError: no ``optim``.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.shard_full_optim_state_dict.
    """
    if optim is None:
        raise NotImplementedError("shard_full_optim_state_dict: optim is needed; optim_input is not supported")
    return _divided_state(model, optim, full_optim_state_dict)


def scatter_full_optim_state_dict(
    full_optim_state_dict: dict[str, Any] | None, model: Any, optim_input: Any = None, optim: Any = None, group: Any = None
) -> dict[str, Any]:  # fmt: skip
    """A state for ``optim.load_state_dict``, made of the state in whole tensors that the first process has.

    Args:
        full_optim_state_dict: what :func:`full_optim_state_dict` gave; None on other processes.
        model, optim_input, optim, group: as for :func:`shard_full_optim_state_dict`.
    Source: torch.distributed.fsdp.FullyShardedDataParallel.scatter_full_optim_state_dict.
    """
    sent = [full_optim_state_dict]
    dist.broadcast_object_list(sent, src=0, group=group)
    return shard_full_optim_state_dict(sent[0] or {}, model, optim_input, optim)


def rekeyed(state_dict: dict[str, Any], names: list[str], by_name: bool) -> dict[str, Any]:
    """A state with other keys of parameters."""
    pairs: Iterator[tuple[Any, Any]] = ((i, name) if by_name else (name, i) for i, name in enumerate(names))
    new = dict(pairs)
    groups = [{**group, "params": [new[key] for key in group["params"]]} for group in state_dict["param_groups"]]
    return {**state_dict, "state": {new[key]: value for key, value in state_dict["state"].items()}, "param_groups": groups}
