"""Policies that say which submodules are wrapped, and ``wrap`` within ``enable_wrap``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...nn import Module, ModuleDict, ModuleList, MultiheadAttention

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy", "wrap",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every submodule.

    Args:
        args, kwargs: what policies are called with, which makes no difference.
    Returns: True.
    Source: torch.distributed.fsdp.wrap.always_wrap_policy.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import always_wrap_policy
        >>> always_wrap_policy()
        True
    """
    return True


def lambda_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]) -> bool:
    """Wrap the submodules for which ``lambda_fn`` is true.

    Args:
        module: a submodule.
        recurse: whether its own submodules are asked for; always.
        nonwrapped_numel: elements of its parameters that are not wrapped.
        lambda_fn: decides.
    Returns: whether the submodule is wrapped; True when ``recurse``.
    Source: torch.distributed.fsdp.wrap.lambda_auto_wrap_policy.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import lambda_auto_wrap_policy
        >>> lambda_auto_wrap_policy(nn.ReLU(), False, 0, lambda module: isinstance(module, nn.ReLU))
        True
    """
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Any) -> bool:
    """Wrap the submodules of the given classes.

    Args:
        module, recurse, nonwrapped_numel: as for :func:`lambda_auto_wrap_policy`.
        transformer_layer_cls: a set of classes.
    Returns: whether the submodule is wrapped; True when ``recurse``.
    Source: torch.distributed.fsdp.wrap.transformer_auto_wrap_policy.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import transformer_auto_wrap_policy
        >>> transformer_auto_wrap_policy(nn.ReLU(), False, 0, {nn.Linear})
        False
    """
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8), force_leaf_modules: set[type] | None = None,
    exclude_wrap_modules: set[type] | None = None
) -> bool:  # fmt: skip
    """Wrap the submodules whose parameters, without those that are wrapped already, have many elements.

    Args:
        module, recurse, nonwrapped_numel: as for :func:`lambda_auto_wrap_policy`.
        min_num_params: how many elements.
        force_leaf_modules: classes inside which nothing is wrapped; ``MultiheadAttention`` when None.
        exclude_wrap_modules: classes that are not wrapped; containers without forward when None.
    Returns: whether the submodule is wrapped; True when ``recurse``.
    Source: torch.distributed.fsdp.wrap.size_based_auto_wrap_policy.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import size_based_auto_wrap_policy
        >>> size_based_auto_wrap_policy(nn.Linear(10, 10), False, 110, min_num_params=100)
        True
    """
    leaves = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules  # type: ignore[attr-defined]
    excluded = size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules  # type: ignore[attr-defined]
    if nonwrapped_numel < min_num_params:
        return False
    return not isinstance(module, tuple(leaves)) if recurse else not isinstance(module, tuple(excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """Wrap the submodules of the given classes.

    Args:
        module_classes: the classes.
    Source: torch.distributed.fsdp.wrap.ModuleWrapPolicy.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
        >>> ModuleWrapPolicy({nn.Linear})(nn.Linear(1, 1), False)
        True
    """

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return True if recurse else isinstance(module, tuple(self._module_classes))

    def _options_of(self, module: Module) -> Any:
        return isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy:
    """Wrap the submodules for which a function is true, or gives options.

    Args:
        lambda_fn: gives True, False, or a dictionary of options for that submodule.
    Source: torch.distributed.fsdp.wrap.CustomPolicy.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import CustomPolicy
        >>> CustomPolicy(lambda module: {"forward_prefetch": True})._options_of(nn.ReLU())
        {'forward_prefetch': True}
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def _options_of(self, module: Module) -> Any:
        chosen = self._lambda_fn(module)
        if not isinstance(chosen, (dict, bool)):
            raise ValueError(f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned {chosen}")
        return chosen


# -- within a context -----------------------------------------------------------------------------------------------------------------
_wrapping: list[tuple[Any, dict[str, Any]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Context in which :func:`wrap` wraps.

    Args:
        wrapper_cls: the wrapper.
        wrapper_kwargs: its options.
    Returns: a context manager.
    Source: torch.distributed.fsdp.wrap.enable_wrap.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import enable_wrap, wrap
        >>> with enable_wrap(wrapper_cls=nn.Sequential):
        ...     wrap(nn.ReLU())
        Sequential(
          (0): ReLU()
        )
    """
    _wrapping.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapping.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """Wrap a module if this is within :func:`enable_wrap`.

    Args:
        module: the module.
        wrap_overrides: options instead of the context's.
    Returns:
        The wrapper, or ``module``.
    Source: torch.distributed.fsdp.wrap.wrap.
    Example:
        >>> from flambeau.distributed.fsdp.wrap import wrap
        >>> wrap(nn.ReLU())
        ReLU()
    """
    if not _wrapping:
        return module
    kind, options = _wrapping[-1]
    made: Module = kind(module, **{**options, **wrap_overrides})
    return made


def wrap_submodules(root: Module, policy: Any, wrapper: Callable[..., Module], ignored: set[Module], ignored_params: set[Any]) -> None:
    """Wrap submodules of ``root`` by a policy, the innermost first; ``root`` itself stays.

    Args:
        policy: one of this module's, or a function of a module, ``recurse`` and the number of elements that are not wrapped.
        wrapper: makes a wrapper of a module and options.
    """
    if not hasattr(policy, "_options_of"):
        _wrap_by_function(root, policy, wrapper, ignored, ignored_params, True)
        return
    for name, child in list(root.named_children()):
        if child in ignored:
            continue
        options = policy._options_of(child)
        wrap_submodules(child, policy, wrapper, ignored, ignored_params)
        if options:
            setattr(root, name, wrapper(child, **(options if isinstance(options, dict) else {})))


def _wrap_by_function(module: Module, policy: Any, wrapper: Any, ignored: set[Module], ignored_params: set[Any], is_root: bool) -> Any:
    """The module, wrapped if the policy says so, and how many elements are wrapped inside."""
    total = sum(param.numel() for param in module.parameters() if param not in ignored_params)
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return module, 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if child in ignored:
            continue
        made, count = _wrap_by_function(child, policy, wrapper, ignored, ignored_params, False)
        setattr(module, name, made)
        wrapped += count
    rest = total - wrapped
    if not is_root and policy(module=module, recurse=False, nonwrapped_numel=rest):
        return wrapper(module), total
    return module, wrapped
