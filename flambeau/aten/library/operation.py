"""A call of an operation that a program defined. ``Operation`` is what an overload runs.

    torch.ops.mine.twice(x)
        overridden    __torch_function__ of subclasses and modes
        bind          arguments in the schema's order, converted
        transform     the innermost transform of torch.func among the operands: the operation's rule, or example by example
        autocast      a kernel for autocast, where the region is one
        autograd      a kernel for autograd; a formula's node on the tape; or nothing, and a warning in the backward pass
        below         __torch_dispatch__ of modes and subclasses
        kernel        the one for the arguments' device, for meta tensors the fake one; or a composite

Kernels are registered under PyTorch's dispatch keys, by their names. What a kernel returns is checked against the schema.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from ...autograd.function import Function
from ...core import state
from ...core.device import device
from ...core.dtype import dtype
from ...core.late import made_once
from ...core.state import grad_enabled, thread, unwound
from ...core.tensor import Parameter, Tensor
from .. import overloads
from . import returned
from .depth import below_autograd

_BACKENDS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "privateuseone": "PrivateUse1", "mps": "MPS", "xpu": "XPU"}
COMPOSITES = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")


_AUTOGRAD = {key: f"Autograd{key}" for key in (*_BACKENDS.values(), None)}
_PLAIN = frozenset((Tensor, Parameter, int, float, bool, str, type(None), dtype, device))  # classes that nobody takes calls over for


def is_fallthrough(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel is none: its dispatch key is passed by."""
    return getattr(kernel, "is_fallthrough", False)


def backend_of(tensors: Sequence[Any]) -> str | None:
    """The dispatch key of the kernel for these tensors; None where there are none."""
    found = None
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            if tensor._array.__class__ is ndarray:
                found = found or "CPU"
                continue
            key = _BACKENDS.get(tensor.device.type, "CPU")
            if key == "Meta":
                return key
            if found is None or found == "CPU":
                found = key
    return found


class Operation:
    """Calls of an overload that a program defined.

    Attributes:
        overload: the overload. kernels: functions by the dispatch key that they were registered for.
        formula: what makes the node on the tape, for an operation of ``custom_op`` or ``register_autograd``; see ``autograd.Formula``.
        vmap: the rule for ``vmap``: (info, in_dims, *args) -> (result, dimensions).
        rules: what ``register_torch_dispatch`` was given, by class.
        no_fake: the error for meta tensors without a fake kernel. no_kernel: that for a device without one; None for the usual one.
        is_checked: whether results that are arguments are refused.
    """

    def __init__(self) -> None:
        self.overload: Any = None
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.formula: Any = None
        self.vmap: Callable[..., Any] | None = None
        self.rules: dict[type, Callable[..., Any]] = {}
        self.no_fake: Callable[[], Exception] | None = None
        self.is_checked = False

    @made_once
    def schema(self) -> Any:
        """Arguments and results of the operation."""
        return self.overload._schema

    @made_once
    def may_alias(self) -> bool:
        """Whether results may share memory with arguments: views, and what is written to where a tag says so."""
        in_place = any(tag.name in ("inplace", "out") for tag in self.overload.tags)
        return any(in_place or not alias.is_write for returned in self.schema.returns for alias in returned.real_type.aliases())

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return f"{self.schema}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if thread.function_modes or kwargs or not _PLAIN.issuperset(map(type, args)):
            result = overloads.overridden(self.overload, args, kwargs)
            if result is not NotImplemented:
                return result
        return self.run(self.schema.bind(args, kwargs))

    @unwound
    def below_autograd(self, *args: Any, **kwargs: Any) -> Any:
        """A call that begins below autograd."""
        values = self.schema.bind(args, kwargs)
        with below_autograd():
            return self.below(values, overloads.tensors_in(values))

    # -- the path of a call ---------------------------------------------------------------------------------------------------------
    @unwound
    def run(self, values: list[Any]) -> Any:
        """The call with bound arguments, after ``__torch_function__``."""
        tensors = overloads.tensors_in(values)
        if state.interpreters:
            for tensor in tensors:
                if tensor.__class__ not in _PLAIN:
                    result = self._transformed(values, tensors)
                    if result is not NotImplemented:
                        return result
                    break
        key, kernels = backend_of(tensors), self.kernels
        if thread.autocast is not None and (cast := self._for_autocast(key)) is not None:
            args, kwargs = self.schema.split(values)
            return returned.checked(self.schema, cast(*args, **kwargs))
        if thread.depth:
            return self.below(values, tensors)
        kernel = kernels.get(_AUTOGRAD[key]) or kernels.get("Autograd")
        if kernel is not None and not is_fallthrough(kernel):
            args, kwargs = self.schema.split(values)
            return returned.checked(self.schema, kernel(*args, **kwargs))
        if self.formula is not None:
            if grad_enabled():
                for tensor in tensors:
                    if isinstance(tensor, Tensor) and tensor.requires_grad:
                        return self.formula.recorded(self, values)
            with below_autograd():
                return self.below(values, tensors)
        if self._is_composite(key):  # a part of the program, whose calls are seen one by one
            return self.computed(values, tensors)
        result = self.below(values, tensors)
        if kernel is None:
            _warn_in_backward(self.schema.name, tensors, result)
        return result

    def _is_composite(self, key: str | None) -> bool:
        return "CompositeImplicitAutograd" in self.kernels and key not in self.kernels and "CompositeExplicitAutograd" not in self.kernels

    def _for_autocast(self, key: str | None) -> Callable[..., Any] | None:
        """The kernel for autocast, where this thread autocasts for the arguments' device."""
        kernel = self.kernels.get(f"Autocast{key}")
        if kernel is None or is_fallthrough(kernel):
            return None
        from ...amp import autocast_mode

        return kernel if autocast_mode.is_autocast_enabled(key.lower() if key is not None else "cpu") else None

    def _transformed(self, values: list[Any], tensors: list[Any]) -> Any:
        """The call inside a transform of ``torch.func``; NotImplemented where no operand belongs to one."""
        from . import transforms

        return transforms.transformed(self, values, tensors)

    def below(self, values: list[Any], tensors: list[Any]) -> Any:
        """The call below autograd: modes and subclasses that see it there, then the kernel."""
        taker = state.modes.below
        if taker is not None and taker.is_handled(tensors):
            return self._handled(taker, values, tensors)
        return self.computed(values, tensors)

    def _handled(self, taker: Any, values: list[Any], tensors: list[Any]) -> Any:
        args, kwargs = self.schema.split(values)
        if self.rules:
            for cls, rule in self.rules.items():
                result = _by_rule(self.overload, cls, rule, tensors, args, kwargs)
                if result is not NotImplemented:
                    return returned.checked(self.schema, result)
        return returned.checked(self.schema, taker.ask(self.overload, args, kwargs))

    def computed(self, values: list[Any], tensors: list[Any]) -> Any:
        """Results of the kernel, checked."""
        kernel = self._kernel(values, tensors)
        args, kwargs = self.schema.split(values)
        result = returned.checked(self.schema, kernel(*args, **kwargs))
        if self.is_checked:
            returned.check_aliases(self, tensors, result)
        return result

    def _kernel(self, values: list[Any], tensors: list[Any]) -> Callable[..., Any]:
        """The function for the arguments' device.

        Raises:
            NotImplementedError: there is none. RuntimeError: meta tensors, and an operation of ``custom_op`` without a fake kernel.
        """
        kernels = self.kernels
        key = backend_of(tensors)
        if key is None:
            device = next((value for value in values if type(value).__name__ == "device"), None)
            key = None if device is None else _BACKENDS.get(device.type, "CPU")
            if key is not None and self.no_fake is not None and key not in kernels and not any(name in kernels for name in COMPOSITES):
                raise RuntimeError(
                    f"{self.overload._opname} does not have a kernel registered for {key.lower()}. Please use register_kernel to do so."
                )
        if key in kernels and not is_fallthrough(kernels[key]):
            return kernels[key]
        if key == "Meta" and self.no_fake is not None:
            raise self.no_fake()
        for name in COMPOSITES:
            if name in kernels:
                return kernels[name]
        raise self._no_kernel(key)

    def _no_kernel(self, key: str | None) -> NotImplementedError:
        name, listed = self.schema.full_name, sorted(self.kernels)
        if key is None:
            return NotImplementedError(
                "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), but no fallback function is "
                f"registered for schema {name}.  This usually means that this function requires a non-empty list of Tensors, or that you "
                f"(the operator writer) forgot to register a fallback function.  Available functions are {listed}"
            )
        if key == "Meta":
            return NotImplementedError(
                f"{name}: attempted to run this operator with Meta tensors, but there was no fake impl or Meta kernel registered. "
                "torch.library.register_fake adds one."
            )
        return NotImplementedError(
            f"Could not run '{name}' with arguments from the '{key}' backend. This could be because the operator doesn't exist for this "
            f"backend, or because no kernel was registered for it. '{name}' is only available for these backends: [{', '.join(listed)}]."
        )


def _by_rule(overload: Any, cls: type, rule: Callable[..., Any], tensors: list[Any], args: Any, kwargs: Any) -> Any:
    """Result of a rule of ``register_torch_dispatch`` for a call that the innermost mode, or an operand's class, would get."""
    types = tuple([type(tensor) for tensor in tensors if getattr(type(tensor), "__torch_dispatch__", None) is not None])
    modes = thread.dispatch_modes
    if modes:
        if not isinstance(modes[-1], cls):
            return NotImplemented
        thread.dispatch_modes = modes[:-1]
        try:
            return rule(modes[-1], overload, types, args, kwargs)
        finally:
            thread.dispatch_modes = modes
    return rule(cls, overload, types, args, kwargs) if any(kind is cls for kind in types) else NotImplemented


# -- results that nobody can differentiate --------------------------------------------------------------------------------------
def _warning(name: str) -> str:
    return (
        f"{name}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. This may lead to "
        "silently incorrect behavior. This behavior is deprecated and will be removed in a future version of PyTorch. If your operator is "
        "differentiable, please ensure you have registered an autograd kernel to the correct Autograd key (e.g. DispatchKey::Autograd, "
        "DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, or to squash this warning and use the previous "
        "behavior, please register torch::CppFunction::makeFallthrough() to DispatchKey::Autograd"
    )


class WarnNotImplemented(Function):
    """Stands behind results of an operation without a derivative: warns, and passes nothing on."""

    @staticmethod
    def forward(ctx: Any, name: str, result: Tensor, *inputs: Tensor) -> Tensor:
        ctx.operation = name
        return result.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        warnings.warn(_warning(ctx.operation), UserWarning, stacklevel=2)
        return (None,) * len(ctx.needs_input_grad)


def _warn_in_backward(name: str, tensors: list[Any], result: Any) -> None:
    """Let a backward pass through ``result`` warn where an input requires grad."""
    inputs = [tensor for tensor in tensors if isinstance(tensor, Tensor) and tensor.requires_grad]
    if not inputs or not grad_enabled():
        return
    for made in overloads.tensors_in([result]):
        if any(made is tensor for tensor in tensors):
            continue
        if made.requires_grad:
            if made.grad_fn is not None:
                made.register_hook(lambda grad: warnings.warn(_warning(name), UserWarning, stacklevel=2))
        elif (made.is_floating_point() or made.is_complex()) and made._view_of is None:
            shown = WarnNotImplemented.apply(name, made, *inputs)
            made._node, made._requires_grad = shown._node, True
