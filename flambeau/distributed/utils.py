"""Helpers of programs that run in several processes. Source: torch.distributed.utils."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Container
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.tensor import Tensor
from ..utils._pytree import tree_map

__all__: list[str] = []


def _pack_kwargs(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Arguments in one tuple, and the names of the last ones. Source: torch.distributed.utils."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args: tuple[Any, ...], kwarg_keys: tuple[str, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that ``_pack_kwargs`` packed. Source: torch.distributed.utils."""
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    first = len(flat_args) - len(kwarg_keys)
    return flat_args[:first], dict(zip(kwarg_keys, flat_args[first:], strict=True))


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    """An assertion that is seen in backward passes, too. Source: torch.distributed.utils."""
    if not cond:
        print(s)
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _apply_to_tensors(fn: Callable[[Tensor], Any], container: Any) -> Any:
    """A container with its tensors replaced by what a function makes of them. Source: torch.distributed.utils."""
    return tree_map(lambda value: fn(value) if isinstance(value, Tensor) else value, container)


def _cast_to(dtype: Any) -> Callable[[Any], Any]:
    """A function that casts floating point tensors, and leaves all else as it is."""
    return lambda value: value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value


def _cast_forward_inputs(dtype: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Arguments with floating point tensors in a dtype, unless it is None. Source: torch.distributed.utils."""
    return (args, kwargs) if dtype is None else tree_map(_cast_to(dtype), (args, kwargs))


def _to_kwargs(inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_device: Any, use_side_stream_for_tensor_copies: bool) -> Any:
    """Arguments on a device, each in a tuple of one; streams are a hint that is not needed. Source: torch.distributed.utils."""
    moved = _apply_to_tensors(lambda value: value.to(target_device), (inputs, kwargs or {}))
    return (moved[0],), (moved[1],)


def _verify_param_shape_across_processes(process_group: Any, tensors: list[Tensor], logger: Any = None) -> None:
    """Raise where parameters differ between processes in number or shape. Source: torch.distributed.utils."""
    from .. import distributed as dist
    from ..nn.parallel._ddp_checks import check_same_parameters

    check_same_parameters(dist, process_group, tensors)


def _sync_params_and_buffers(process_group: Any, module_states: list[Tensor], broadcast_bucket_size: int, src: int) -> None:
    """Have tensors be those of a rank of the group; the size of buckets is a hint that is not needed. Source: torch.distributed.utils."""
    from .collectives import broadcast

    with no_grad():
        for tensor in module_states:
            if tensor.numel():
                value = tensor.detach().contiguous() if not tensor.is_contiguous() else tensor.detach()
                broadcast(value, group=process_group, group_src=src)
                if not tensor.is_contiguous():
                    tensor.copy_(value)


def _sync_module_states(
    module: Any, process_group: Any, broadcast_bucket_size: int, src: int, params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:  # fmt: skip
    """Have a module's parameters and buffers be those of a process. Source: torch.distributed.utils."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    states = [tensor for name, tensor in named if name not in params_and_buffers_to_ignore]
    _sync_params_and_buffers(process_group, states, broadcast_bucket_size, src)


def _replace_by_prefix(state_dict: dict[str, Any], old_prefix: str, new_prefix: str) -> None:
    """Have names with one prefix begin with another. Source: torch.distributed.utils."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for name in list(state_dict):
        if name.startswith(old_prefix):
            state_dict[new_prefix + name[len(old_prefix) :]] = state_dict.pop(name)


def _get_root_modules(modules: list[Any]) -> list[Any]:
    """Those of the modules that are in no other one. Source: torch.distributed.utils."""
    inside = {id(part) for module in modules for part in module.modules() if part is not module}
    return [module for module in modules if id(module) not in inside]
