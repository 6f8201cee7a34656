"""``state_dict`` of wrappers, and loading it again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ... import distributed as dist, ops
from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ...nn import Module, Parameter
from ..device_mesh import DeviceMesh
from ..tensor import DTensor, Replicate, Shard, _collectives as collectives
from ..tensor._redistribute import redistributed
from ..tensor._spec import spec_of
from .api import StateDictType


class Wrapper(Module):
    """A module around one whose parameters are divided: the base of ``FullyShardedDataParallel``."""

    _group: Any
    _settings: Any


_MARKS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def clean(name: str) -> str:
    """A parameter's name without the wrappers' parts."""
    for mark in _MARKS:
        name = name.replace(mark, "")
    return name


def mesh_of(part: Any) -> Any:
    """The processes that divide, as a mesh."""
    if part._device_mesh is not None:
        names = part._device_mesh.mesh_dim_names
        return part._device_mesh if part._device_mesh.ndim == 1 else part._device_mesh[names[-1]]
    group = part._group.shard_group
    ranks = dist.get_process_group_ranks(group) if group is not None else list(range(dist.get_world_size()))
    return DeviceMesh.from_group(group, "cpu") if group is not None and hasattr(DeviceMesh, "from_group") else DeviceMesh("cpu", ranks)


def divided(tensor: Tensor, mesh: Any) -> Any:
    """A tensor that every process has, as one that is spread by rows."""
    places = [Shard(0) if tensor.dim() else Replicate()]
    spec = spec_of(mesh, places, tensor.shape, tensor.dtype)
    return DTensor._around(redistributed(tensor.contiguous(), spec.placed([Replicate()]), places).clone(), spec)


# -- whole parameters ------------------------------------------------------------------------------------------------------------------
@contextmanager
def summoned(part: Any, writeback: bool, rank0_only: bool, with_grads: bool) -> Iterator[None]:
    """Context in which a wrapper's modules have whole parameters, whose values are kept afterwards if ``writeback``."""
    group = part._group
    with no_grad():
        was, group.options.param_dtype = group.options.param_dtype, None
        group.reshard()
        whole = [tensor.clone() for tensor in group.gather()]
        group.free()
        group.options.param_dtype = was
        grads = _whole_grads(part) if with_grads else None
    is_shown = not rank0_only or dist.get_rank(group.shard_group) == 0
    params = [Parameter(tensor, entry.requires_grad) for tensor, entry in zip(whole, group.entries, strict=True)]
    if is_shown:
        part._fsdp_wrapped_module._parameters.pop("_flat_param", None)
        for i, (entry, param) in enumerate(zip(group.entries, params, strict=True)):
            param.grad = None if grads is None else grads[i]
            for module, name in entry.places:
                module.__dict__.pop(name, None)
                module._parameters[name] = param
    part.__dict__["_is_summoned"] = is_shown
    try:
        yield
    finally:
        part.__dict__["_is_summoned"] = False
        if is_shown:
            shown = [entry.places[0][0]._parameters.get(entry.places[0][1]) for entry in group.entries]
            for entry in group.entries:
                for module, name in entry.places:
                    module._parameters.pop(name, None)
            if writeback:
                write(part, shown)
                if grads is not None:
                    _write_grads(part, [param.grad for param in params])
        part._show_shards()


def write(part: Any, tensors: list[Any]) -> None:
    """Take this process's slice of whole parameters."""
    layout = part._layout
    with no_grad():
        own = layout.flattened([tensor.detach() for tensor in tensors], layout.own[0].dtype)[layout.rank]
        _write_slice(layout, own)


def _write_slice(layout: Any, own: Tensor) -> None:
    if not layout.pieces:
        layout.flat.copy_(own)
        return
    for (first, last), piece in zip(layout.spans, layout.own, strict=True):
        piece.copy_(own[first:last])


def gathered(part: Any, pieces: list[Tensor]) -> list[Tensor]:
    """Whole tensors of slices that are laid out as the parameters' are."""
    layout = part._layout
    with no_grad():
        return [tensor.clone() for tensor in layout.unpack_whole(collectives.all_gather(layout.joined(pieces), part._group.shard_group))]


def _whole_grads(part: Any) -> list[Tensor]:
    leaves = part._layout.own
    return gathered(part, [ops.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves])


def _write_grads(part: Any, grads: list[Any]) -> None:
    layout = part._layout
    own = layout.flattened(list(grads), layout.own[0].dtype)[layout.rank]
    for (first, last), leaf in zip(layout.spans if layout.pieces else [(0, own.numel())], layout.own, strict=True):
        if leaf.grad is not None:
            leaf.grad.copy_(own[first:last])


# -- giving ----------------------------------------------------------------------------------------------------------------------------
def state_of(part: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """A wrapper's ``state_dict``."""
    kind, config = part._settings.state_dict_type, part._settings.state_dict_config
    module = part._fsdp_wrapped_module
    if part._group is None or kind is StateDictType.LOCAL_STATE_DICT:
        return module.state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
    with summoned(part, False, False, False):
        result = module.state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
    names = [f"{prefix}{clean(entry.fqn)}" for entry in part._group.entries]
    for entry in part._group.entries:
        names += [name for name in _other_names(part, entry, prefix) if name in result]
    only_first = getattr(config, "rank0_only", False) and dist.get_rank(part._group.shard_group) != 0
    if kind is StateDictType.SHARDED_STATE_DICT:
        mesh = mesh_of(part)
        for name in dict.fromkeys(names):
            if name in result:
                result[name] = divided(result[name].detach(), mesh)
    elif only_first:
        for name in [name for name in list(result) if name.startswith(prefix)]:
            del result[name]
    return result


def _other_names(part: Any, entry: Any, prefix: str) -> list[str]:
    """The names that a parameter has besides its first one."""
    names = {module: name for name, module in part._fsdp_wrapped_module.named_modules(remove_duplicate=False)}
    return [
        f"{prefix}{clean(names[module] + '.' if names.get(module) else '')}{name}" for module, name in entry.places[1:] if module in names
    ]


# -- loading ---------------------------------------------------------------------------------------------------------------------------
def before_load(part: Any, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    """Show whole parameters and name the entries as the modules lie: with the wrapper's part."""
    names = [name for name in list(state_dict) if name.startswith(prefix)]
    is_local = part._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT
    for name in names:
        value = state_dict.pop(name)
        if isinstance(value, DTensor) and not is_local:
            value = value.full_tensor()
        state_dict[f"{prefix}{_MARKS[0]}{name[len(prefix) :]}"] = value
    if part._group is not None and not is_local:
        context = summoned(part, True, False, False)
        context.__enter__()
        part.__dict__["_loading"] = context


def after_load(part: Any, incompatible_keys: Any) -> None:
    """Keep this process's slices of what was loaded, and name missing entries as users know them."""
    context = part.__dict__.pop("_loading", None)
    if context is not None:
        context.__exit__(None, None, None)
    for names in (incompatible_keys.missing_keys, incompatible_keys.unexpected_keys):
        names[:] = [name.replace(_MARKS[0], "") for name in names]
