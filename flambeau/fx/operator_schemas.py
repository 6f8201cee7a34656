"""Arguments in the order of signatures. Source: torch.fx.operator_schemas."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from ..nn import Module

__all__ = ["ArgsKwargsPair", "get_signature_for_torch_op", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Arguments of a call, by position and by keyword.

    Attributes:
        args, kwargs: the arguments.
    Source: torch.fx.operator_schemas.ArgsKwargsPair.
    Example:
        >>> torch.fx.operator_schemas.ArgsKwargsPair((1,), {}).args
        (1,)
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures of a function of the library, as PyTorch's schemas give them.

    Args:
        op: the function. return_schemas: return the schemas, too.
    Returns:
        A list; None where the function has no signature.
    Source: torch.fx.operator_schemas.get_signature_for_torch_op.
    Example:
        >>> torch.fx.operator_schemas.get_signature_for_torch_op(torch.neg) is not None
        True
    """
    try:
        found = [inspect.signature(op)]
    except (TypeError, ValueError):
        found = None
    return (found, None) if return_schemas else found


def _normalized(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool) -> ArgsKwargsPair:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    named: dict[str, Any] = {}
    positional: list[Any] = []
    for i, (name, value) in enumerate(bound.arguments.items()):
        parameter = signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY or (
            not only_kwargs and i < len(args) and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        ):
            positional.append(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(positional), named)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a function's call with its defaults filled in.

    Args:
        target: the function. args, kwargs: the arguments. arg_types, kwarg_types: have no effect: there is one signature.
        normalize_to_only_use_kwargs: whether all of them are given by keyword.
    Returns:
        The arguments; None where the function has no signature or is not called so.
    Source: torch.fx.operator_schemas.normalize_function.
    Example:
        >>> def scaled(x, by=2):
        ...     return x * by
        >>> torch.fx.operator_schemas.normalize_function(scaled, (1,), normalize_to_only_use_kwargs=True).kwargs
        {'x': 1, 'by': 2}
    """
    for signature in get_signature_for_torch_op(target) or ():
        try:
            return _normalized(signature, tuple(args), dict(kwargs or {}), normalize_to_only_use_kwargs)
        except TypeError:
            continue
    return None


def normalize_module(
    root: Module, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, normalize_to_only_use_kwargs: bool = False
) -> ArgsKwargsPair | None:
    """The arguments of a module's call with its defaults filled in.

    Args:
        root, target: the module, and where in it that one is. args, kwargs: the arguments.
        normalize_to_only_use_kwargs: whether all of them are given by keyword.
    Returns:
        The arguments; None where it is not called so.
    Raises:
        RuntimeError: there is no such module.
    Source: torch.fx.operator_schemas.normalize_module.
    Example:
        >>> root = torch.nn.Sequential(torch.nn.ReLU())
        >>> torch.fx.operator_schemas.normalize_module(root, "0", (), {"input": 1}).kwargs
        {'input': 1}
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have that target!") from error
    try:
        return _normalized(inspect.signature(module.forward), tuple(args), dict(kwargs or {}), normalize_to_only_use_kwargs)
    except TypeError:
        return None
