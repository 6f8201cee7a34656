"""``torch.library``: Python functions as operations with derivatives of their own. Schemas and dispatch keys are not supported yet."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _ops, _unsupported
from .autograd.function import Function
from .autograd.grad_mode import is_grad_enabled, no_grad
from .core.tensor import Tensor

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]

_DEFINED: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """What :func:`custom_op` makes of a function: to be called as it is, or as ``torch.ops.NAMESPACE.NAME``.

    Source: torch.library.CustomOpDef.
    """

    def __init__(self, qualified_name: str, fn: Callable[..., Any], device_types: str | Sequence[str] | None):
        self._qualname, self._init_fn = qualified_name, fn
        self._signature = inspect.signature(fn)
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._setup_context: Callable[..., Any] | None = None
        self.register_kernel(device_types, fn)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Any = None, /) -> Any:
        """Use a function for tensors on some kinds of devices, on all when None; also a decorator."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        for kind in [device_types] if device_types is None or isinstance(device_types, str) else device_types:
            self._kernels[kind] = fn
        return fn

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Use a function for tensors without values, those of the device ``meta``; also a decorator."""
        self._fake = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Give the operation a derivative.

        Args:
            backward: from ``ctx`` and the gradients of the results to one gradient, or None, per positional argument.
            setup_context: called with ``ctx``, ``inputs`` and ``output`` after each call, to keep what ``backward`` needs.
        """
        self._backward, self._setup_context = backward, setup_context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if not is_grad_enabled() or not any(_requires_grad(value) for value in bound.arguments.values()):
            return self._kernel(bound)(*bound.args, **bound.kwargs)
        for name, value in bound.arguments.items():
            if _requires_grad(value) and (not isinstance(value, Tensor) or name in bound.kwargs):
                raise NotImplementedError(f"{self._qualname}: derivatives of lists and of keyword-only arguments are not supported")
        return self._recorder(bound.kwargs).apply(*bound.args)

    def _kernel(self, bound: inspect.BoundArguments) -> Callable[..., Any]:
        """The function for the arguments' device."""
        kinds = {tensor.device.type for value in bound.arguments.values() for tensor in _tensors(value)}
        if "meta" in kinds and self._fake is not None:
            return self._fake
        for kind in kinds:
            if kind in self._kernels:
                return self._kernels[kind]
        if None not in self._kernels:
            raise NotImplementedError(f"{self._qualname}: no kernel for tensors on {', '.join(sorted(kinds)) or 'no device'}")
        return self._kernels[None]

    def _recorder(self, keyword_only: dict[str, Any]) -> type[Function]:
        """The operation as a node of the tape."""
        operation = self

        class Recorded(Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                with no_grad():
                    output = operation._kernel(operation._signature.bind(*inputs, **keyword_only))(*inputs, **keyword_only)
                if operation._setup_context is not None:
                    further = {"keyword_only_inputs": keyword_only} if keyword_only else {}
                    operation._setup_context(ctx=ctx, inputs=inputs, output=output, **further)
                return output

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                if operation._backward is None:
                    shown = operation._qualname.replace("::", ".") + ".default"
                    raise RuntimeError(
                        f"Trying to backward through {shown} but no autograd formula was registered. "
                        "Please use register_autograd to add one."
                    )
                return operation._backward(ctx, *grads)

        Recorded.__name__ = Recorded.__qualname__ = self._qualname.replace("::", "_")
        return Recorded


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, (list, tuple)) else []


def _requires_grad(value: Any) -> bool:
    return any(tensor.requires_grad for tensor in _tensors(value))


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operation; also a decorator. What happens inside is not recorded: ``register_autograd`` gives the derivative.

    Args:
        name: ``'NAMESPACE::NAME'``.
        mutates_args: names of arguments that the function writes to, or 'unknown'.
        device_types: kinds of devices that the function is for; all when None.
        schema: the signature as text. The function's own counts, which must have the same arguments.
        tags: for compilers; there is none to read them.
    Raises:
        ValueError: a name without a namespace, or a name in ``mutates_args`` that is no argument.
        NotImplementedError: a schema with other arguments.
    Example:
        >>> import numpy as np
        >>> import flambeau as torch
        >>> @torch.library.custom_op("pages::halve", mutates_args=())
        ... def halve(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.from_numpy(x.numpy() / 2)
        >>> halve.register_autograd(lambda ctx, grad: grad / 2)
        >>> x = torch.ones(2, requires_grad=True)
        >>> torch.ops.pages.halve(x).sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])

    Source: torch.library.custom_op.
    """
    if fn is None:
        return lambda function: custom_op(name, function, mutates_args=mutates_args, device_types=device_types, schema=schema, tags=tags)
    if name.count("::") != 1:
        raise ValueError(f"Expected qualname to be of the form 'namespace::name', but got '{name}'.")
    if schema is not None and _argument_names(schema) != list(inspect.signature(fn).parameters):
        raise NotImplementedError(f"torch.library.custom_op: a schema with other arguments than the function's: {schema}")
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - set(inspect.signature(fn).parameters)
    if unknown:
        raise ValueError(f"{name}: mutates_args has names that are no arguments: {sorted(unknown)}")
    operation = CustomOpDef(name, fn, device_types)
    _DEFINED[name] = operation
    namespace, _, short = name.partition("::")
    setattr(_ops.ops.show(namespace), short, operation)
    return operation


def _argument_names(schema: str) -> list[str]:
    """The arguments' names in a schema such as ``'(Tensor x, int[2] size=[1, 1], *, float? scale=None) -> Tensor'``."""
    inside = schema[schema.index("(") + 1 : schema.rindex(")", 0, schema.rindex("->"))]
    without_brackets = re.sub(r"\[[^\]]*\]|\([^)]*\)", "", inside)
    parts = [part.partition("=")[0].split() for part in without_brackets.split(",")]
    return [words[-1] for words in parts if words and words != ["*"]]


def _definition(op: str | CustomOpDef) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _DEFINED:
        raise RuntimeError(f"operator {op} does not exist")
    return _DEFINED[op]


def register_fake(op: str | CustomOpDef, func: Any = None, /, *, lib: None = None, allow_override: bool = True) -> Any:
    """``CustomOpDef.register_fake`` of an operation by its name; also a decorator. Source: torch.library.register_fake."""
    if func is None:
        return lambda function: register_fake(op, function)
    return _definition(op).register_fake(func)


def register_autograd(op: str | CustomOpDef, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: None = None) -> None:
    """``CustomOpDef.register_autograd`` of an operation by its name. Source: torch.library.register_autograd."""
    _definition(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: str | CustomOpDef, device_types: Any, func: Any = None, /, *, lib: None = None) -> Any:
    """``CustomOpDef.register_kernel`` of an operation by its name; also a decorator. Source: torch.library.register_kernel."""
    return _definition(op).register_kernel(device_types, func)


globals().update(
    _unsupported.names(
        "library",
        "define fallthrough_kernel get_ctx get_kernel impl impl_abstract infer_schema opcheck register_autocast register_torch_dispatch "
        "register_vmap triton_op wrap_triton",
        "Library",
    )
)
