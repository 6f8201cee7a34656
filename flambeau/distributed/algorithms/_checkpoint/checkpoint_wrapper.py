"""Wrappers of modules: activations that are computed again in backward, or that lie on the CPU until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from ....autograd.graph import save_on_cpu
from ....nn import Module, Parameter
from ....utils.checkpoint import checkpoint

__all__ = ["ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
           "checkpoint_wrapper", "offload_wrapper"]  # fmt: skip

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """One of the two ways of computing again.

    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointImpl.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl
        >>> CheckpointImpl.NO_REENTRANT
        <CheckpointImpl.NO_REENTRANT: 2>
    """

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """Base of the wrappers: the wrapped module's parameters and state keep their names.

    Args:
        mod: the module.
    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.ActivationWrapper.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        >>> list(checkpoint_wrapper(nn.Linear(2, 2)).state_dict())
        ['weight', 'bias']
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_mark)
        self._register_load_state_dict_pre_hook(_with_mark)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Parameters, with the names that they have without the wrapper."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), param


def _without_mark(module: Module, state_dict: Any, prefix: str, *args: Any) -> Any:
    for name in list(state_dict):
        if name.startswith(prefix + _CHECKPOINT_PREFIX):
            state_dict[prefix + name.removeprefix(prefix + _CHECKPOINT_PREFIX)] = state_dict.pop(name)
    return state_dict


def _with_mark(state_dict: Any, prefix: str, *args: Any) -> None:
    for name in list(state_dict):
        if name.startswith(prefix) and not name.startswith(prefix + _CHECKPOINT_PREFIX):
            state_dict[prefix + _CHECKPOINT_PREFIX + name.removeprefix(prefix)] = state_dict.pop(name)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are computed again in backward.

    Args:
        mod: the module.
        checkpoint_impl: the way.
        checkpoint_fn: instead of ``torch.utils.checkpoint.checkpoint``.
        checkpoint_fn_kwargs: options of that.
    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper
        >>> CheckpointWrapper(nn.ReLU())(torch.tensor([-1.0]))
        tensor([0.])
    """

    def __init__(
        self, mod: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT, checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any
    ) -> None:  # fmt: skip
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        options = checkpoint_fn_kwargs
        if checkpoint_fn is None:
            options = {"use_reentrant": checkpoint_impl is CheckpointImpl.REENTRANT, **options}
        self.checkpoint_fn = partial(checkpoint if checkpoint_fn is None else checkpoint_fn, **options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        module = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:  # which takes no keyword arguments
            return self.checkpoint_fn(lambda *values: module(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True))),
                                      *args, *kwargs.values())  # fmt: skip
        return self.checkpoint_fn(module, *args, **kwargs)


class OffloadWrapper(ActivationWrapper):
    """A module whose activations lie on the CPU until backward.

    Args:
        mod: the module.
    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.OffloadWrapper.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import OffloadWrapper
        >>> OffloadWrapper(nn.ReLU())(torch.tensor([-1.0]))
        tensor([0.])
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu():
            return self._checkpoint_wrapped_module(*args, **kwargs)


def offload_wrapper(module: Module) -> Module:
    """Wrap a module in ``OffloadWrapper``.

    Args:
        module: the module.
    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.offload_wrapper.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper
        >>> type(offload_wrapper(nn.ReLU())).__name__
        'OffloadWrapper'
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module, checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT, checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any
) -> Module:  # fmt: skip
    """Wrap a module in ``CheckpointWrapper``.

    Args:
        module: the module.
        checkpoint_impl, checkpoint_fn, checkpoint_fn_kwargs: as for that.
    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        >>> type(checkpoint_wrapper(nn.ReLU())).__name__
        'CheckpointWrapper'
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def _all(module: Module) -> bool:
    return True


def apply_activation_checkpointing(
    model: Module, checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper, check_fn: Callable[[Module], bool] = _all,
    auto_wrap_policy: Any = None
) -> None:  # fmt: skip
    """Wrap submodules.

    Args:
        model: changed in place; it is not wrapped itself.
        checkpoint_wrapper_fn: wraps a module.
        check_fn: whether a submodule is wrapped.
        auto_wrap_policy: instead of ``check_fn``; see ``torch.distributed.fsdp.wrap``.
    Source: torch.distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing.
    Example:
        >>> from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, nn.Linear))
        >>> [type(part).__name__ for part in model]
        ['CheckpointWrapper', 'ReLU']
    """
    from ...fsdp.wrap import CustomPolicy, wrap_submodules

    policy = CustomPolicy(check_fn) if auto_wrap_policy is None else auto_wrap_policy
    wrap_submodules(model, policy, checkpoint_wrapper_fn, set(), set())
