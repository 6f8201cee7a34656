"""Hooks of modules: their registries, their registration, and the call of a module that may have some.

Most programs register none.  ``Module.__call__`` therefore tests one flag of this file, ``registered``, which is False until the first
hook of the process is put into any registry.  Only then does it go through ``call``.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.tape.hooks import RemovableHandle
from ..core.tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

Hook = Callable[..., Any]

registered = False  # whether any module hook was ever registered


class HookDict(OrderedDict[int, Hook]):
    """A registry of hooks, keyed by handle id; copies and pickles are plain ``OrderedDict``."""

    def __setitem__(self, key: int, hook: Hook) -> None:
        global registered
        registered = True
        super().__setitem__(key, hook)

    def __reduce__(self) -> Any:
        return OrderedDict, (), None, None, iter(self.items())


_global_backward_pre_hooks: OrderedDict[int, Hook] = HookDict()
_global_backward_hooks: OrderedDict[int, Hook] = HookDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: OrderedDict[int, Hook] = HookDict()
_global_forward_hooks: OrderedDict[int, Hook] = HookDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Hook] = OrderedDict()

_MIXED_KINDS = "Cannot use both regular backward hooks and full backward hooks on a {}. Please use only one of them."  # PyTorch's words


# -- hooks of all modules -----------------------------------------------------------------------------------------------------
def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a parameter is registered; what it returns is registered instead.

    Args:
        hook: gets the module, the name, and the parameter or None; returns None to register that itself.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.nn.modules.module.register_module_parameter_registration_hook.
    Example:
        >>> names = []
        >>> handle = nn.modules.module.register_module_parameter_registration_hook(lambda module, name, _: names.append(name))
        >>> layer = nn.Linear(2, 1)
        >>> handle.remove()
        >>> names
        ['weight', 'bias']
    """
    return RemovableHandle.add(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a buffer is registered; what it returns is registered instead.

    Args:
        hook: gets the module, the name, and the buffer or None; returns None to register that itself.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.nn.modules.module.register_module_buffer_registration_hook.
    Example:
        >>> names = []
        >>> handle = nn.modules.module.register_module_buffer_registration_hook(lambda module, name, _: names.append(name))
        >>> layer = nn.BatchNorm1d(2)
        >>> handle.remove()
        >>> names
        ['running_mean', 'running_var', 'num_batches_tracked']
    """
    return RemovableHandle.add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a submodule is registered; what it returns is registered instead.

    Args:
        hook: gets the module, the name, and the submodule or None; returns None to register that itself.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.nn.modules.module.register_module_module_registration_hook.
    Example:
        >>> names = []
        >>> handle = nn.modules.module.register_module_module_registration_hook(lambda module, name, _: names.append(name))
        >>> layer = nn.Sequential(nn.ReLU())
        >>> handle.remove()
        >>> names
        ['0']
    """
    return RemovableHandle.add(_global_module_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module; what it returns replaces the arguments.

    Args:
        hook: returns None to leave the arguments; what is no tuple is the only argument.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.nn.modules.module.register_module_forward_pre_hook.
    Example:
        >>> handle = nn.modules.module.register_module_forward_pre_hook(lambda module, args: args[0] + 1)
        >>> nn.ReLU()(torch.tensor([0.0]))
        tensor([1.])
        >>> handle.remove()
    """
    return RemovableHandle.add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook: Hook, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module; what it returns replaces the output.

    Args:
        hook: gets ``(module, args, kwargs, output)`` if ``with_kwargs``.
        with_kwargs: hand the keyword arguments over too.
        always_call: call the hook even if forward raised.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.nn.modules.module.register_module_forward_hook.
    Example:
        >>> handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 2)
        >>> nn.ReLU()(torch.tensor([1.5]))
        tensor([3.])
        >>> handle.remove()
    """
    flags = [_global_forward_hooks_with_kwargs] * with_kwargs + [_global_forward_hooks_always_called] * always_call
    return RemovableHandle.add(_global_forward_hooks, hook, flags=flags)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Deprecated form of ``register_module_full_backward_hook``: sees the last operation of the module only.

    Args:
        hook: gets the module and two tuples of gradients; returns None to leave the first.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Raises:
        RuntimeError: a hook of the other kind has been registered for all modules.
    Source: torch.nn.modules.module.register_module_backward_hook.
    Example:
        >>> nn.modules.module.register_module_full_backward_hook(print).remove()
        >>> nn.modules.module.register_module_backward_hook(print)
        Traceback (most recent call last):
            ...
        RuntimeError: Cannot use both regular backward hooks and full backward hooks on a global Module. Please use only one of them.
    """
    return _add_global_backward_hook(hook, full=False)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` when the gradients of any module's output arrive; what it returns replaces them.

    Args:
        hook: gets the module and a tuple of gradients; returns None to leave them.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Source: torch.nn.modules.module.register_module_full_backward_pre_hook.
    Example:
        >>> handle = nn.modules.module.register_module_full_backward_pre_hook(lambda module, grads: (grads[0] * 10,))
        >>> x = torch.ones(1, requires_grad=True)
        >>> nn.ReLU()(x).backward()
        >>> handle.remove()
        >>> x.grad
        tensor([10.])
    """
    return RemovableHandle.add(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when the gradients of any module's inputs are known; may replace them.

    Args:
        hook: gets the module and two tuples of gradients; returns None to leave the first.
    Returns:
        A handle whose ``remove()`` takes the hook away.
    Raises:
        RuntimeError: a hook of the other kind has been registered for all modules.
    Source: torch.nn.modules.module.register_module_full_backward_hook.
    Example:
        >>> handle = nn.modules.module.register_module_full_backward_hook(lambda module, inputs, outputs: (-inputs[0],))
        >>> x = torch.ones(1, requires_grad=True)
        >>> nn.ReLU()(x).backward()
        >>> handle.remove()
        >>> x.grad
        tensor([-1.])
    """
    return _add_global_backward_hook(hook, full=True)


def _add_global_backward_hook(hook: Hook, full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(_MIXED_KINDS.format("global Module"))
    _global_is_full_backward_hook = full
    return RemovableHandle.add(_global_backward_hooks, hook)


# -- hooks of one module ------------------------------------------------------------------------------------------------------
class HookMethods:
    """The registration methods of ``Module`` for hooks around forward and backward."""

    _forward_pre_hooks: OrderedDict[int, Hook]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: OrderedDict[int, Hook]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_pre_hooks: OrderedDict[int, Hook]
    _backward_hooks: OrderedDict[int, Hook]
    _is_full_backward_hook: bool | None

    def register_forward_pre_hook(self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward.

        Args:
            hook: returns None, or the arguments to use: a tuple, or a single value. With ``with_kwargs`` it gets
                ``(module, args, kwargs)`` and returns None or a pair ``(args, kwargs)``.
            prepend: run it before the hooks that are registered already.
            with_kwargs: hand the keyword arguments over too.
        Source: torch.nn.Module.register_forward_pre_hook.
        """
        return RemovableHandle.add(self._forward_pre_hooks, hook, prepend, [self._forward_pre_hooks_with_kwargs] * with_kwargs)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward.

        Args:
            hook: returns None, or the output to use. With ``with_kwargs`` it gets ``(module, args, kwargs, output)``.
            prepend: run it before the hooks that are registered already.
            with_kwargs: hand the keyword arguments over too.
            always_call: call it even if forward raised; the output is then None.
        Source: torch.nn.Module.register_forward_hook.
        """
        flags = [self._forward_hooks_with_kwargs] * with_kwargs + [self._forward_hooks_always_called] * always_call
        return RemovableHandle.add(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` when the gradients of the module's output arrive.

        Args:
            hook: returns None, or the gradients to use instead. ``grad_output`` has None for what is not a tensor.
            prepend: run it before the hooks that are registered already.
        Source: torch.nn.Module.register_full_backward_pre_hook.
        """
        return RemovableHandle.add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the module's positional inputs are known.

        Args:
            hook: returns None, or the gradients to use instead of ``grad_input``.
            prepend: run it before the hooks that are registered already.
        Raises:
            RuntimeError: the module has a hook of ``register_backward_hook``.
        Source: torch.nn.Module.register_full_backward_hook.
        """
        return self._add_backward_hook(hook, True, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Deprecated form of ``register_full_backward_hook``: sees the last operation of the module only.

        Raises:
            RuntimeError: the module has a full backward hook.
        Source: torch.nn.Module.register_backward_hook.
        """
        return self._add_backward_hook(hook, False, False)

    def _add_backward_hook(self, hook: Hook, full: bool, prepend: bool) -> RemovableHandle:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(_MIXED_KINDS.format("single Module"))
        self._is_full_backward_hook = full
        return RemovableHandle.add(self._backward_hooks, hook, prepend)

    def _get_backward_hooks(self) -> tuple[list[Hook], list[Hook]]:
        """The full and the old backward hooks that apply, those of all modules first."""
        full: list[Hook] = []
        old: list[Hook] = []
        (full if _global_is_full_backward_hook else old).extend(_global_backward_hooks.values())
        (full if self._is_full_backward_hook else old).extend(self._backward_hooks.values())
        return full, old

    def _get_backward_pre_hooks(self) -> list[Hook]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]


# -- the call -----------------------------------------------------------------------------------------------------------------
def call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module: what ``Module.compile`` made of it, or its ``forward`` with the hooks around it, if there are any."""
    compiled = module.__dict__.get("_compiled_call_impl")
    return plain_call(module, args, kwargs) if compiled is None else compiled(*args, **kwargs)


def plain_call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``module.forward`` with the hooks around it, if there are any."""
    if not (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or _global_forward_hooks
        or _global_forward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
    ):
        return module.forward(*args, **kwargs)
    called: set[int] = set()
    try:
        return _call_with_hooks(module, args, kwargs, called)
    except Exception:
        _call_remaining(module, args, kwargs, called)
        raise


def _call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
    """The call with its hooks; the ids of the hooks that must run in any case and did are put into ``called``."""
    if module._forward_pre_hooks or _global_forward_pre_hooks:
        args, kwargs = _run_pre_hooks(module, args, kwargs)
    taps = None
    old_hooks: list[Hook] = []
    if module._backward_hooks or module._backward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks:
        full_hooks, old_hooks = module._get_backward_hooks()
        pre_hooks = module._get_backward_pre_hooks()
        if full_hooks or pre_hooks:
            from ._backward_hooks import BackwardHooks

            taps = BackwardHooks(module, full_hooks, pre_hooks)
            args = taps.tap_inputs(args)
    result = module.forward(*args, **kwargs)
    if module._forward_hooks or _global_forward_hooks:
        for key, hook, with_kwargs, always in _forward_hooks_of(module):
            if always:
                called.add(key)
            replaced = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
            if replaced is not None:
                result = replaced
    if taps is not None:
        result = taps.tap_outputs(result)
    if old_hooks:
        _attach_old_hooks(module, old_hooks, args, result)
    return result


def _run_pre_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    for key, hook in [*_global_forward_pre_hooks.items(), *module._forward_pre_hooks.items()]:
        if key in module._forward_pre_hooks_with_kwargs:
            replaced = hook(module, args, kwargs)
            if replaced is None:
                continue
            if not isinstance(replaced, tuple) or len(replaced) != 2:
                raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replaced}.")
            args, kwargs = replaced
        else:
            replaced = hook(module, args)
            if replaced is not None:
                args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


def _forward_hooks_of(module: Module) -> list[tuple[int, Hook, bool, bool]]:
    """The forward hooks that apply: id, hook, whether it takes keyword arguments, whether it runs after an exception too."""
    with_kwargs, always = module._forward_hooks_with_kwargs, module._forward_hooks_always_called
    hooks = [(key, hook, key in with_kwargs, key in always) for key, hook in module._forward_hooks.items()]
    if _global_forward_hooks:
        with_kwargs, always = _global_forward_hooks_with_kwargs, _global_forward_hooks_always_called
        hooks[:0] = [(key, hook, key in with_kwargs, key in always) for key, hook in _global_forward_hooks.items()]
    return hooks


def _call_remaining(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> None:
    """After an exception, call the hooks with ``always_call`` that have not run, without hiding that exception."""
    for key, hook, with_kwargs, always in _forward_hooks_of(module):
        if not always or key in called:
            continue
        try:
            _ = hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
        except Exception as error:
            warnings.warn(
                "module forward hook with ``always_call=True`` raised an exception that was silenced as another error was raised in "
                f"forward: {error}",
                stacklevel=4,
            )


def _attach_old_hooks(module: Module, hooks: list[Hook], args: tuple[Any, ...], result: Any) -> None:
    """Hang old-style backward hooks on the node that made the first tensor of ``result``."""
    output = result
    while not isinstance(output, Tensor):
        output = next(value for value in output.values() if isinstance(value, Tensor)) if isinstance(output, dict) else output[0]
    node = output.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(functools.partial(hook, module))
    _warn_old_hook(args, result, node)


def _warn_old_hook(args: tuple[Any, ...], result: Any, node: Any) -> None:
    """Say what an old-style hook will miss on this module."""
    problem = None
    if not isinstance(result, Tensor) and not (isinstance(result, tuple) and all(isinstance(output, Tensor) for output in result)):
        problem = (
            "Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is deprecated and "
            "will be removed in future versions. This hook will be missing some of the grad_output."
        )
    elif not all(isinstance(arg, Tensor) for arg in args):
        problem = (
            "Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of the grad_input."
        )
    elif isinstance(result, tuple) and any(tensor.grad_fn is not node for tensor in result):
        problem = (
            "Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated and will be removed "
            "in future versions. This hook will be missing some grad_output."
        )
    else:
        nodes_of_inputs = {arg.grad_fn for arg in args if arg.grad_fn is not None}
        if {following for following, _ in node.next_functions} != nodes_of_inputs:
            problem = (
                "Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and will be removed in "
                "future versions. This hook will be missing some grad_input."
            )
    if problem:
        advice = "Please use register_full_backward_hook to get the documented behavior."
        warnings.warn(f"{problem} {advice}", FutureWarning, stacklevel=6)
