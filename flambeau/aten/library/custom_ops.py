"""``torch.library.custom_op``: a Python function as an operation."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ...core.device import device
from ...core.tensor import storage_of
from .. import overloads
from ..schema import FunctionSchema, parse_schema
from ..tags import Tag
from . import definitions
from .autograd import Formula
from .infer_schema import infer_schema
from .operation import Operation

log = logging.getLogger(__name__)

Devices = str | Sequence[str] | None


class CustomOpDef:
    """Operation that :func:`custom_op` makes of a function: called as it is, or as ``torch.ops.NAMESPACE.NAME``.

    Its methods add what the operation does on other devices, on tensors without values, and in transforms.

    Args:
        namespace, name: of the operation.
        schema: its arguments and results.
        fn: the function.
        tags: ``torch.Tag``, or several of them, for compilers.
    Raises:
        NotImplementedError: tensors among the arguments that are given by keyword alone.
    Source: torch.library.CustomOpDef.
    Example:
        >>> @torch.library.custom_op("pages::thrice", mutates_args=())
        ... def thrice(x: torch.Tensor) -> torch.Tensor:
        ...     return 3 * x
        >>> thrice, torch.ops.pages.thrice(torch.ones(1))
        (<CustomOpDef(pages::thrice)>, tensor([3.]))
    """

    def __init__(self, namespace: str, name: str, schema: FunctionSchema, fn: Callable[..., Any], tags: Sequence[Tag] = ()):
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, str(schema).removeprefix(f"{namespace}::{name}"), fn
        self._qualname, self._tags = f"{namespace}::{name}", list(tags)
        self._backend_fns: dict[str | None, Callable[..., Any]] = {}
        self._disabled: set[str | None] = set()
        operation = self._operation = Operation()
        operation.is_checked, operation.formula = True, Formula()
        operation.no_fake = self._no_fake
        operation.definition = fn  # type: ignore[attr-defined]
        for argument in schema.arguments:
            if argument.kwarg_only and "Tensor" in str(argument.type) and not argument.is_out:
                shown = str(schema).removeprefix(f"{namespace}::")
                raise NotImplementedError(f"custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {shown}")
        self._opoverload = definitions.define(schema, operation, [Tag.pt2_compliant_tag, *self._tags], replace=True)
        self._mutated = [place for place, argument in enumerate(schema.arguments) if argument.is_write]
        OPERATIONS[self._qualname] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __deepcopy__(self, memo: Any = None) -> CustomOpDef:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _definition_named, (self._qualname,)

    def _no_fake(self) -> Exception:
        name = self._init_fn.__name__
        return RuntimeError(
            f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing to work. Please use "
            f"`{name}.register_fake` to add an fake impl."
        )

    # -- kernels ------------------------------------------------------------------------------------------------------------------
    def register_kernel(self, device_types: Devices, fn: Any = None, /) -> Any:
        """Use a function for tensors on some kinds of devices, on all when None; also a decorator.

        Raises:
            RuntimeError: no such kind of device.
        """
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        for kind in [device_types] if device_types is None or isinstance(device_types, str) else device_types:
            key = "CompositeExplicitAutograd" if kind is None else definitions.key_of(device(kind).type)
            self._backend_fns[kind] = fn
            self._operation.kernels[key] = self._bumping(fn, kind)
        return fn

    def _bumping(self, fn: Callable[..., Any], kind: str | None) -> Callable[..., Any]:
        """A kernel that is passed by while it is disabled, and after which written arguments count as written to."""
        if kind is None and not self._mutated:
            return fn
        mutated, arguments = self._mutated, self._opoverload._schema.arguments

        def kernel(*args: Any, **kwargs: Any) -> Any:
            result = (self._init_fn if kind in self._disabled else fn)(*args, **kwargs)
            for place in mutated:
                value = args[place] if place < len(args) else kwargs.get(arguments[place].name)
                for tensor in overloads.tensors_in([value]):
                    storage_of(tensor)._bump()
            return result

        return kernel

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Context in which the kernel of a kind of device is in use, or is not: the function that ``custom_op`` was given is then."""
        was = device_type in self._disabled
        if device_type not in self._backend_fns:
            log.warning("Attempted to disable kernel for %s but no kernel was registered for this device type.", device_type)
        if enabled and not was:
            log.warning("Attempted to enable kernel for  %s but it was already enabled.", device_type)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            (self._disabled.add if was else self._disabled.discard)(device_type)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Use a function for tensors without values, those of the device ``meta`` and fake ones; also a decorator."""
        self._operation.kernels["Meta"] = definitions.fake_kernel(self._operation, fn)
        return fn

    # -- derivatives and transforms -----------------------------------------------------------------------------------------------------
    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Give the operation a derivative.

        Args:
            backward: from ``ctx`` and the gradients of the results to one gradient, or None, per positional argument.
            setup_context: called with ``ctx``, ``inputs`` and ``output`` after each call, to keep what ``backward`` needs; and with
                ``keyword_only_inputs`` where there are any.
        Raises:
            RuntimeError: an operation that writes to arguments, or whose results share memory with them.
        """
        schema = self._opoverload._schema
        if schema.is_mutable or self._opoverload.is_view:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema {schema}. Please create a functional "
                "operator and register an autograd formula for that."
            )
        self._operation.formula = Formula(backward, setup_context)

    def register_vmap(self, func: Any = None) -> Any:
        """Use a rule inside ``vmap``; also a decorator.

        Args:
            func: called with ``info`` (``batch_size``, ``randomness``), ``in_dims`` (for each argument the batch's dimension, or None) and
                the arguments; returns the result and its dimensions.
        """
        if func is None:
            return self.register_vmap
        self._operation.vmap = func
        return None

    def register_autocast(self, device_type: str, cast_inputs: Any) -> Any:
        """Cast floating point arguments to a dtype inside ``autocast`` regions, which the operation does not see itself."""
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        return register_autocast(self._operation, device(device_type).type, cast_inputs)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        """Use a rule where a mode or a tensor subclass with ``__torch_dispatch__`` sees the operation; also a decorator.

        Args:
            torch_dispatch_class: the mode's class, or the subclass.
            fn: called with the mode (or the subclass), the operation, ``types``, ``args`` and ``kwargs``.
        """
        if fn is None:
            return lambda function: self.register_torch_dispatch(torch_dispatch_class, function)
        self._operation.rules[torch_dispatch_class] = fn
        return fn


OPERATIONS: dict[str, CustomOpDef] = {}


def _definition_named(name: str) -> CustomOpDef:
    return OPERATIONS[name]


def register_autocast(operation: Operation, device_type: str, cast_inputs: Any) -> Callable[..., Any]:
    """An operation's kernel for autocast: its call with cast arguments, outside of autocast."""
    from ...amp.autocast_mode import _cast, autocast

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=False):
            values = operation.schema.bind(args, kwargs)
            return operation.run(_cast(values, device_type, cast_inputs))

    operation.kernels[f"Autocast{definitions.key_of(device_type)}"] = kernel
    return kernel


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operation; also a decorator. What happens inside is not recorded: ``register_autograd`` gives the derivative.

    Args:
        name: ``'NAMESPACE::NAME'``.
        mutates_args: names of arguments that the function writes to, or 'unknown'.
        device_types: kinds of devices that the function is for; all when None.
        schema: the signature as text, ``'(Tensor x, int n=2) -> Tensor'``; by default it is inferred from the annotations.
        tags: ``torch.Tag``, or several of them, for compilers.
    Returns:
        A ``CustomOpDef``; a decorator without ``fn``.
    Raises:
        ValueError: a name without a namespace, no or unknown annotations, or a schema that does not write to ``mutates_args``.
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
    text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
    namespace, short = definitions.split_name(name)
    if not text.startswith("("):
        raise ValueError(f"custom_op: expected schema to look like '(Tensor x) -> Tensor', without a name, but got '{text}'")
    parsed = parse_schema(f"{name}{text}")
    if schema is not None:
        written = {argument.name for argument in parsed.arguments if argument.is_write}
        if mutates_args != "unknown" and written != set(mutates_args):
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The schema suggests that the op "
                f"mutates {written or '{}'}which is different from what was provided to us in `mutates_args`. Please make these consistent."
            )
    if device_types is not None and not any("Tensor" in str(argument.type) for argument in parsed.arguments):
        if not any(argument.name == "device" for argument in parsed.arguments):
            raise ValueError("Functions without tensor inputs are required to have a `device: torch.device` argument")
    made = CustomOpDef(namespace, short, parsed, fn, [tags] if isinstance(tags, Tag) else list(tags or ()))
    made.register_kernel(device_types, fn)
    return made
