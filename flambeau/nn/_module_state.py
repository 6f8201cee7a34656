"""The state of a module as a dictionary: ``state_dict``, ``load_state_dict`` and their hooks."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

from ..autograd.grad_mode import no_grad
from ..core.tape.hooks import RemovableHandle
from ..core.tensor import Parameter, Tensor, swap
from ..facades import __future__
from ._module_hooks import Hook
from .parameter import is_lazy

EXTRA_STATE = "_extra_state"  # key, after the prefix, of what get_extra_state returned


class _IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """The result of ``load_state_dict``: keys that were not found, and keys that belong to nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateMethods:
    """The part of ``Module`` that saves and loads state."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: OrderedDict[int, Hook]
    _state_dict_hooks: OrderedDict[int, Hook]
    _load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _load_state_dict_post_hooks: OrderedDict[int, Hook]
    _version = 1

    # -- what a subclass may define ---------------------------------------------------------------------------------------
    def get_extra_state(self) -> Any:
        """Further state to be saved under ``_extra_state``; define it together with ``set_extra_state``.

        Source: torch.nn.Module.get_extra_state.
        """
        raise RuntimeError("Module.get_extra_state: this module has no extra state; define the method to give it some")

    def set_extra_state(self, state: Any) -> None:
        """Take back what ``get_extra_state`` returned.

        Source: torch.nn.Module.set_extra_state.
        """
        raise RuntimeError("Module.set_extra_state: this module has no extra state; define the method to give it some")

    # -- hooks ------------------------------------------------------------------------------------------------------------
    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the module's state is collected.

        Source: torch.nn.Module.register_state_dict_pre_hook.
        """
        return RemovableHandle.add(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after the module's state was collected; it returns None.

        Source: torch.nn.Module.register_state_dict_post_hook.
        """
        hook._from_public_api = True  # type: ignore[attr-defined]  # hooks without this mark may return another dictionary
        return RemovableHandle.add(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """As ``register_state_dict_post_hook``, but what the hook returns replaces the dictionary."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return RemovableHandle.add(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`` before loading.

        Source: torch.nn.Module.register_load_state_dict_pre_hook.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Hook, with_module: bool = False) -> RemovableHandle:
        """As the public form; the hook does not get the module unless ``with_module``."""
        return RemovableHandle.add(self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after loading; it may change the two lists in place and returns None.

        Source: torch.nn.Module.register_load_state_dict_post_hook.
        """
        return RemovableHandle.add(self._load_state_dict_post_hooks, hook)

    # -- saving -----------------------------------------------------------------------------------------------------------
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters, persistent buffers and extra state into ``destination``."""
        for name, tensor in self._parameters.items():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMethods.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers of the module and its descendants, by name.

        Args:
            destination: dictionary to fill; a new one when None.
            prefix: put before each name.
            keep_vars: give the parameters themselves, not detached tensors that share their memory.
        Returns:
            An ``OrderedDict`` with an attribute ``_metadata`` (the version of each module's format); or ``destination``.
        Source: torch.nn.Module.state_dict.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead: state_dict(destination=..., prefix=..., keep_vars=...)",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination, prefix = given.get("destination", destination), given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = replaced
        return destination

    # -- loading ----------------------------------------------------------------------------------------------------------
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> _IncompatibleKeys:
        """Copy parameters and buffers from ``state_dict`` into the module and its descendants.

        Args:
            state_dict: what ``state_dict()`` gave.
            strict: a missing or an unexpected key is an error.
            assign: take the tensors themselves instead of copying their values; only ``requires_grad`` stays as it is.
        Returns:
            A named tuple ``(missing_keys, unexpected_keys)``.
        Raises:
            TypeError: ``state_dict`` is not a mapping.
            RuntimeError: shapes differ, a value cannot be copied, or keys differ while ``strict``; all problems in one message.
        Source: torch.nn.Module.load_state_dict.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]  # hooks may look at it
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        _load(self, state, "", metadata, assign, (missing, unexpected, errors))
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            details = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{details}")
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own parameters, buffers and extra state; a subclass may change or extend it.

        Args:
            state_dict: the entries whose names begin with ``prefix``.
            local_metadata: this module's part of the metadata; ``get("version")`` is None for a state without any.
            strict: whether to report keys in ``missing_keys`` and ``unexpected_keys``.
            missing_keys, unexpected_keys, error_msgs: lists to be extended.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        own = _own_state(self)
        for name, tensor in own.items():
            key = prefix + name
            if key in state_dict:
                _load_tensor(self, name, tensor, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateMethods.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else own):
                        unexpected_keys.append(key)


class _WrappedHook:
    """A hook that gets its module, if one is given, as the first argument; what a copy of the module holds belongs to the copy.

    Files name the class and its state.
    """

    __slots__ = ("hook", "module", "with_module")

    def __init__(self, hook: Hook, module: Any) -> None:
        self.__setstate__({"hook": hook, "with_module": module is not None, "module": module})

    def __call__(self, *args: Any) -> Any:
        return self.hook(self.module, *args) if self.with_module else self.hook(*args)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "with_module": self.with_module, **({"module": self.module} if self.with_module else {})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.with_module, self.module = state["hook"], state["with_module"], state.get("module")


def _own_state(module: Any) -> dict[str, Tensor]:
    """The module's parameters and persistent buffers that are not None."""
    own = {name: tensor for name, tensor in module._parameters.items() if tensor is not None}
    for name, tensor in module._buffers.items():
        if tensor is not None and name not in module._non_persistent_buffers_set:
            own[name] = tensor
    return own


def _load(module: Any, state: Any, prefix: str, metadata: Any, assign: bool, reports: tuple[list[str], list[str], list[str]]) -> None:
    """Load ``module`` and, from the entries under their names, its children."""
    local_metadata = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local_metadata["assign_to_params_buffers"] = True
    module._load_from_state_dict(state, prefix, local_metadata, True, *reports)
    by_child = _split_by_child(state, len(prefix)) if module._modules else {}
    for name, child in module._modules.items():
        if child is not None:
            own = f"{prefix}{name}."
            # A child registered under a name with dots is rare enough for a scan of its own.
            part = {key: value for key, value in state.items() if key.startswith(own)} if "." in name else by_child.get(name, {})
            _load(child, part, own, metadata, assign, reports)
    missing, unexpected, _ = reports
    incompatible = _IncompatibleKeys(missing, unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, incompatible) is not None:
            raise AssertionError(  # PyTorch's type: programs test for it
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, if "
                "incompatible_keys need to be modified, it should be done inplace."
            )


def _split_by_child(state: Mapping[str, Any], start: int) -> dict[str, dict[str, Any]]:
    """The entries of ``state`` grouped by what stands between ``start`` and the next dot."""
    by_child: dict[str, dict[str, Any]] = {}
    for key, value in state.items():
        first, dot, _ = key[start:].partition(".")
        if dot:
            by_child.setdefault(first, {})[key] = value
    return by_child


def _load_tensor(module: Any, name: str, tensor: Tensor, key: str, value: Any, assign: bool, errors: list[str]) -> None:
    """Copy ``value`` into the module's ``tensor``, or put it in its place; problems go to ``errors``."""
    if not isinstance(value, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint but received '
            f"{type(value)}"
        )
        return
    if is_lazy(tensor) and is_lazy(value):  # neither has values
        return
    if not tensor.shape and tuple(value.shape) == (1,):  # files of PyTorch before 0.4 hold scalars with one dimension
        value = value[0]
    if value.shape != tensor.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in current model is "
            f"{tensor.shape}."
        )
        return
    if tensor.is_meta and not value.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is a no-op. "
            "(Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key in the module "
            "instead of copying them in place?)",
            stacklevel=2,
        )
    swaps = __future__.get_swap_module_params_on_conversion()
    try:
        with no_grad():
            if swaps:
                _swap_in(tensor, tensor.module_load(value, assign=assign))
                return
            if not assign:
                tensor.copy_(value)
                return
            if isinstance(tensor, Parameter):
                if isinstance(value, Parameter):
                    value.requires_grad_(tensor.requires_grad)
                else:
                    value = Parameter(value, requires_grad=tensor.requires_grad)
            setattr(module, name, value)
    except Exception as error:
        errors.append(
            f'While {"swapping" if swaps else "copying"} the parameter named "{key}", whose dimensions in the model are {tensor.size()} '
            f"and whose dimensions in the checkpoint are {value.size()}, an exception occurred : {error.args}."
        )


def _swap_in(tensor: Tensor, loaded: Tensor) -> None:
    """Give the object ``tensor`` everything else of what was loaded for it."""
    if isinstance(tensor, Parameter):
        requires_grad = tensor.requires_grad
        loaded = loaded.requires_grad_(requires_grad) if isinstance(loaded, Parameter) else Parameter(loaded, requires_grad)
    swap(tensor, loaded)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
