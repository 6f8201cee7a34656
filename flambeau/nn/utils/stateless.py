"""Calls of a module with other parameters and buffers than its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...core.state import changes
from ...core.tensor import Tensor

__all__ = ["functional_call"]


def _named_tensors(module: Any) -> dict[str, Any]:
    """All parameters and buffers by path, shared ones under each of their names."""
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def _untie_named_tensors_map(module: Any, parameters_and_buffers: dict[str, Any]) -> dict[str, Any]:
    """The tensors, those that the module shares under all of their names.

    Raises:
        ValueError: different tensors for one that is shared.
    """
    names_of: dict[int, list[str]] = {}
    for name, tensor in _named_tensors(module).items():
        names_of.setdefault(id(tensor), []).append(name)
    untied = dict(parameters_and_buffers)
    for names in names_of.values():
        given = [name for name in names if name in parameters_and_buffers]
        if len(names) == 1 or not given:
            continue
        if len({id(parameters_and_buffers[name]) for name in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using tie_weights=False"
            )
        untied.update(dict.fromkeys(names, parameters_and_buffers[given[0]]))
    return untied


def _check_keys(module: Any, tensors: dict[str, Any]) -> None:
    present = _named_tensors(module)
    unexpected = [name for name in tensors if name not in present]
    missing = [name for name in present if name not in tensors]
    messages = []
    if unexpected:
        messages.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        messages.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if messages:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(messages)))


def _swap(module: Any, name: str, tensor: Any) -> Any:
    """Put a tensor in the place of one of the module's, which is returned; it need be no parameter."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    for registry in (owner._parameters, owner._buffers):
        if last in registry:
            before = registry[last]
            if before is not None and not isinstance(before, Tensor):
                raise TypeError(f"{name} is not an instance of torch.Tensor")
            registry[last] = tensor
            changes.count += 1
            return before
    before = getattr(owner, last)  # AttributeError: there is no such tensor
    setattr(owner, last, tensor)
    return before


@contextmanager
def _reparametrize_module(
    module: Any, parameters_and_buffers: dict[str, Any], tie_weights: bool = False, strict: bool = False, stack_weights: bool = False
) -> Iterator[None]:
    """Let ``module`` have these tensors, inside ``with``; what it puts in their place itself is in the dictionary afterwards."""
    tensors = _untie_named_tensors_map(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    if strict:
        _check_keys(module, tensors)
    before: list[tuple[str, Any]] = []
    try:
        for name, tensor in tensors.items():
            before.append((name, _swap(module, name, tensor)))
        yield
    finally:
        after = {name: _swap(module, name, tensor) for name, tensor in reversed(before)}  # a module may have two names
        parameters_and_buffers.update({name: after[name] for name in parameters_and_buffers if name in after})


def _functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*arguments, **(kwargs or {}))


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any | tuple[Any, ...] | None = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with other parameters and buffers. Deprecated name of ``torch.func.functional_call``.

    Args:
        module: unchanged afterwards.
        parameters_and_buffers: tensors by path; the others stay. A buffer that the module replaces is replaced here.
        args: of the call; what is no tuple is the only one.
        kwargs: of the call.
        tie_weights: let tensors that the module shares be shared.
        strict: whether all tensors have to be given, and no others.
    Returns:
        What the module gives.
    Raises:
        RuntimeError: missing or unexpected tensors, if ``strict``.
        ValueError: different tensors for one that is shared.
    Source: torch.nn.utils.stateless.functional_call.
    Example:
        >>> layer = nn.Linear(1, 1)
        >>> nn.utils.stateless.functional_call(layer, {"weight": torch.ones(1, 1), "bias": torch.ones(1)}, torch.tensor([2.0]))
        tensor([3.])
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of "
        "PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
