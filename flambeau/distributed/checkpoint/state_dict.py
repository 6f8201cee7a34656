"""States of models and optimizers under the parameters' names, however the parameters are divided.

The state of an optimizer names parameters instead of numbering them, so that it may be loaded with other groups or processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ... import distributed as dist, ops
from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ...nn import Module
from ...nn.parallel import DistributedDataParallel
from ...utils._pytree import tree_map
from ..fsdp import FullyShardedDataParallel, StateDictType
from ..fsdp._state_dict import clean
from ..tensor import DTensor, Replicate
from ..tensor._redistribute import redistributed

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """Options of states: what they have, and how they are loaded.

    Args:
        full_state_dict: whole tensors instead of spread ones; with ``cpu_offload``, on the first process alone.
        cpu_offload: tensors on the CPU.
        ignore_frozen_params: without parameters that require no grad.
        keep_submodule_prefixes: must be True.
        strict: names that are missing or too many are errors.
        broadcast_from_rank0: load the first process's whole tensors.
        flatten_optimizer_state_dict: one dictionary of dotted names.
        dsd_fqn_modifiers: without effect.
    Source: torch.distributed.checkpoint.state_dict.StateDictOptions.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import StateDictOptions
        >>> StateDictOptions(full_state_dict=True).strict
        True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _options(options: StateDictOptions | None, submodules: Any = None) -> StateDictOptions:
    chosen = options or StateDictOptions()
    if not chosen.keep_submodule_prefixes or submodules is not None:
        raise NotImplementedError("state_dict: submodules and keep_submodule_prefixes=False are not supported")
    return chosen


def _name(name: str, model: Module) -> str:
    """A parameter's name without wrappers' parts."""
    name = clean(name).replace("_orig_mod.", "")
    return name.removeprefix("module.") if isinstance(model, DistributedDataParallel) else name


def _is_first() -> bool:
    return not (dist.is_available() and dist.is_initialized()) or dist.get_rank() == 0


def _given(value: Any, options: StateDictOptions) -> Any:
    """A value of a state, whole if that is asked for."""
    if isinstance(value, DTensor) and options.full_state_dict:
        value = value.full_tensor()
    return value.detach().cpu() if isinstance(value, Tensor) and options.cpu_offload and not isinstance(value, DTensor) else value


def _for_all(state: Any, options: StateDictOptions) -> Any:
    """The state that a process gets: with whole tensors on the CPU, none but the first."""
    return {} if options.full_state_dict and options.cpu_offload and not _is_first() else state


def _as_chosen(model: Module, options: StateDictOptions) -> Any:
    """Context in which wrappers give the kind of state that is asked for."""
    kind = StateDictType.FULL_STATE_DICT if options.full_state_dict else StateDictType.SHARDED_STATE_DICT
    return FullyShardedDataParallel.state_dict_type(model, kind)


# -- models ------------------------------------------------------------------------------------------------------------------------
def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """A model's state under the names that it has without wrappers.

    Args:
        model: a module, divided, wrapped or neither.
        submodules: not supported.
        options: see :class:`StateDictOptions`.
    Returns: a dictionary of tensors by names.
    Source: torch.distributed.checkpoint.state_dict.get_model_state_dict.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict
        >>> list(get_model_state_dict(nn.Linear(3, 2)))
        ['weight', 'bias']
    """
    chosen = _options(options, submodules)
    with _as_chosen(model, chosen):
        state = model.state_dict()
    frozen = (
        {_name(name, model) for name, param in model.named_parameters() if not param.requires_grad}
        if chosen.ignore_frozen_params
        else set()
    )
    result = {_name(name, model): _given(value, chosen) for name, value in state.items()}
    kept: dict[str, Any] = _for_all({name: value for name, value in result.items() if name not in frozen}, chosen)
    return kept


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None) -> Any:
    """Load a model's state.

    Args:
        model: a module, divided, wrapped or neither.
        model_state_dict: what :func:`get_model_state_dict` gave, perhaps with other processes.
        options: see :class:`StateDictOptions`.
    Returns:
        Names that were missing, and names that were too many.
    Source: torch.distributed.checkpoint.state_dict.set_model_state_dict.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
        >>> layer = nn.Linear(3, 2)
        >>> set_model_state_dict(layer, get_model_state_dict(layer))
        <All keys matched successfully>
    """
    chosen = _options(options)
    if chosen.broadcast_from_rank0:
        model_state_dict = _from_first(model_state_dict)
    prefix = "module." if isinstance(model, DistributedDataParallel) else ""
    own = {_name(name, model): (name, value) for name, value in _own_state(model).items()}
    given: dict[str, Any] = {}
    for name, value in model_state_dict.items():
        known, target = own.get(name, (f"{prefix}{name}", None))
        given[known] = _placed(value, target)
    with _as_chosen(model, chosen):
        return model.load_state_dict(given, strict=chosen.strict)


def _own_state(model: Module) -> dict[str, Any]:
    with _as_chosen(model, StateDictOptions()):
        return dict(model.state_dict())


def _placed(value: Any, target: Any) -> Any:
    """A value that lies as the one that it replaces."""
    if not isinstance(value, Tensor) or not isinstance(target, DTensor):
        return value
    if isinstance(value, DTensor):
        return value if value.device_mesh != target.device_mesh else value.redistribute(placements=target.placements)
    spec = target._spec
    with no_grad():
        whole = spec.placed([Replicate()] * spec.mesh.ndim)
        return DTensor._around(redistributed(value.detach().clone(), whole, spec.placements), spec)


def _from_first(state: Any) -> Any:
    sent = [state]
    if dist.is_available() and dist.is_initialized():
        dist.broadcast_object_list(sent, src=0)
    return sent[0]


# -- optimizers --------------------------------------------------------------------------------------------------------------------
def _list_of(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]


def _init_optim_state(optimizer: Any) -> None:
    """Have an optimizer make its state by a step that changes nothing, if it has none."""
    if optimizer.state:
        return
    params = [param for group in optimizer.param_groups for param in group["params"] if param.requires_grad]
    grads, rates = [param.grad for param in params], [group["lr"] for group in optimizer.param_groups if "lr" in group]
    with no_grad():
        before = [param.detach().clone() for param in params]
        for param in params:
            param.grad = ops.zeros_like(param)
        for group in optimizer.param_groups:
            if "lr" in group:
                group["lr"] = ops.tensor(0.0) if isinstance(group["lr"], Tensor) else 0.0
        optimizer.step(closure=None)
        rate = iter(rates)
        for group in optimizer.param_groups:
            if "lr" in group:
                group["lr"] = next(rate)
        for param, grad, value in zip(params, grads, before, strict=True):
            param.grad = grad
            param.copy_(value)


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:  # fmt: skip
    """The state of a model's optimizers, with parameters under their names.

    Args:
        model: a module, divided, wrapped or neither.
        optimizers: one or several optimizers of its parameters.
        submodules: not supported.
        options: see :class:`StateDictOptions`.
    Returns: a dictionary of ``state`` and ``param_groups``.
    Source: torch.distributed.checkpoint.state_dict.get_optimizer_state_dict.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict
        >>> layer = nn.Linear(3, 2)
        >>> list(get_optimizer_state_dict(layer, torch.optim.Adam(layer.parameters()))["state"]["bias"])
        ['step', 'exp_avg', 'exp_avg_sq']
    """
    chosen = _options(options, submodules)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _list_of(optimizers):
        _init_optim_state(optimizer)
        own = _named_state(model, optimizer, chosen)
        state.update(own["state"])
        groups += own["param_groups"]
    result = {"state": tree_map(lambda value: _given(value, chosen), state), "param_groups": groups}
    result = _for_all(result, chosen)
    return _flattened(result) if result and chosen.flatten_optimizer_state_dict else result


def _named_state(model: Module, optimizer: Any, options: StateDictOptions) -> dict[str, Any]:
    if FullyShardedDataParallel.fsdp_modules(model):
        with _as_chosen(model, options):
            return FullyShardedDataParallel.optim_state_dict(model, optimizer)
    names = {id(param): _name(name, model) for name, param in model.named_parameters()}
    groups = []
    for group in optimizer.param_groups:
        options_of = {key: value for key, value in group.items() if key != "params"}
        groups.append({**options_of, "params": [names[id(param)] for param in group["params"]]})
    state = {names[id(param)]: dict(optimizer.state[param]) for group in optimizer.param_groups for param in group["params"]
             if param in optimizer.state}  # fmt: skip
    return {"state": state, "param_groups": groups}


def _flattened(state: dict[str, Any]) -> dict[str, Any]:
    flat = {f"state.{name}.{key}": value for name, entry in state["state"].items() for key, value in entry.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            flat.update({f"param_groups.{name}.{key}": value for key, value in group.items() if key != "params"})
    return flat


def _unflattened(flat: dict[str, Any], model: Module, optimizer: Any) -> dict[str, Any]:
    """The state of one optimizer, of dotted names."""
    names = {id(param): _name(name, model) for name, param in model.named_parameters()}
    state: dict[str, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        own = [names[id(param)] for param in group["params"]]
        for name in own:
            prefix = f"state.{name}."
            entry = {key.removeprefix(prefix): value for key, value in flat.items() if key.startswith(prefix)}
            if entry:
                state[name] = entry
        options = {
            key: flat.get(f"param_groups.{own[0]}.{key}", value) if own else value for key, value in group.items() if key != "params"
        }
        groups.append({**options, "params": own})
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Load the state of a model's optimizers.

    Args:
        model: a module, divided, wrapped or neither.
        optimizers: one or several optimizers of its parameters.
        optim_state_dict: what :func:`get_optimizer_state_dict` gave, perhaps with other processes.
        options: see :class:`StateDictOptions`.
    Source: torch.distributed.checkpoint.state_dict.set_optimizer_state_dict.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
        >>> layer = nn.Linear(3, 2)
        >>> optimizer = torch.optim.Adam(layer.parameters())
        >>> set_optimizer_state_dict(layer, optimizer, get_optimizer_state_dict(layer, optimizer))
    """
    chosen = _options(options)
    if chosen.broadcast_from_rank0:
        optim_state_dict = _from_first(optim_state_dict)
    for optimizer in _list_of(optimizers):
        _init_optim_state(optimizer)
        given = _unflattened(optim_state_dict, model, optimizer) if chosen.flatten_optimizer_state_dict else optim_state_dict
        if FullyShardedDataParallel.fsdp_modules(model):
            optimizer.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, given))
        else:
            optimizer.load_state_dict(_numbered(model, optimizer, given))


def _numbered(model: Module, optimizer: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The state with parameters numbered, as an optimizer loads it."""
    names = {id(param): _name(name, model) for name, param in model.named_parameters()}
    by_name = {name: group for group in given["param_groups"] for name in group["params"]}
    state: dict[int, Any] = {}
    groups = []
    number = 0
    for group in optimizer.param_groups:
        numbers = []
        options = {key: value for key, value in group.items() if key != "params"}
        for param in group["params"]:
            name = names[id(param)]
            if name in given["state"]:
                own = optimizer.state.get(param, {})
                state[number] = {key: _placed(value, own.get(key)) for key, value in given["state"][name].items()}
            options.update({key: value for key, value in by_name.get(name, {}).items() if key != "params"})
            numbers.append(number)
            number += 1
        groups.append({**options, "params": numbers})
    return {"state": state, "param_groups": groups}


# -- both --------------------------------------------------------------------------------------------------------------------------
def get_state_dict(
    model: Module, optimizers: Any, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The states of a model and of its optimizers.

    Args:
        model, optimizers, submodules, options: as for :func:`get_optimizer_state_dict`.
    Returns: a pair of what :func:`get_model_state_dict` and :func:`get_optimizer_state_dict` return.
    Source: torch.distributed.checkpoint.state_dict.get_state_dict.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict
        >>> layer = nn.Linear(3, 2)
        >>> model_state, optim_state = get_state_dict(layer, torch.optim.SGD(layer.parameters()))
        >>> optim_state["param_groups"][0]["params"]
        ['weight', 'bias']
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module, optimizers: Any, *, model_state_dict: dict[str, Any], optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None
) -> Any:  # fmt: skip
    """Load the states of a model and of its optimizers.

    Args:
        model, optimizers: as for :func:`get_state_dict`.
        model_state_dict, optim_state_dict: what that gave.
        options: see :class:`StateDictOptions`.
    Returns:
        Names that were missing, and names that were too many.
    Source: torch.distributed.checkpoint.state_dict.set_state_dict.
    Example:
        >>> from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> layer = nn.Linear(3, 2)
        >>> optimizer = torch.optim.SGD(layer.parameters())
        >>> states = get_state_dict(layer, optimizer)
        >>> set_state_dict(layer, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
        <All keys matched successfully>
    """
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
