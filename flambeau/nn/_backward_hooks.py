"""Full backward hooks: taps on a module's inputs and outputs through which the gradients flow.

    args --> [input tap] --> forward --> [output tap] --> result
                 |                            |
       grad_input: run hooks <-------- grad_output: run pre-hooks, remember it

A tap is the identity; its derivative hands the gradients to a callback.  Imported when the first such hook is called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..autograd.function import Function
from ..autograd.grad_mode import is_grad_enabled
from ..core.tensor import Tensor

Gradients = tuple[Any, ...]


class BackwardHookFunction(Function):
    """The identity on tensors; in backward, ``on_grads`` sees the gradients and may replace them.

    Args:
        on_grads: called with the gradients of the outputs.
        materialize: whether it sees zeros, not None, where no gradient arrived.
    """

    @staticmethod
    def forward(ctx: Any, on_grads: Callable[[Gradients], Gradients], materialize: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.on_grads = on_grads
        ctx.set_materialize_grads(materialize)
        ctx.kinds = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        outputs = tuple(tensor.view_as(tensor) for tensor in tensors)
        ctx.mark_non_differentiable(*[output for output, tensor in zip(outputs, tensors) if not tensor.requires_grad])
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        replaced = [
            ops.zeros(shape, dtype=dtype, device=device) if grad is None else grad
            for grad, (shape, dtype, device) in zip(ctx.on_grads(grads), ctx.kinds)
        ]
        return (None, None, *replaced)


class BackwardHooks:
    """The backward hooks of one call of a module.

    Args:
        module: handed to the hooks.
        hooks: called with ``(module, grad_input, grad_output)``; what they return replaces ``grad_input``.
        pre_hooks: called with ``(module, grad_output)``; what they return replaces ``grad_output``.
    """

    def __init__(self, module: Any, hooks: Sequence[Callable[..., Any]], pre_hooks: Sequence[Callable[..., Any]]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: Gradients | None = None
        self.inputs: list[int] | None = None  # positions of the tensors among the arguments; None: no input is tapped
        self.outputs: list[int] = []
        self.number_of_inputs = self.number_of_outputs = 0

    def tap_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, as the module's forward shall see them."""
        self.number_of_inputs = len(args)
        args, self.inputs = _tap(args, self._on_input_grads, materialize=True)
        return args

    def tap_outputs(self, result: Any) -> Any:
        """The result, as the module's caller shall see it."""
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                f"For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received {type(result)}",
                stacklevel=5,
            )
            return result
        results = result if isinstance(result, tuple) else (result,)
        self.number_of_outputs = len(results)
        results, positions = _tap(results, self._on_output_grads, materialize=False)
        self.outputs = positions or []
        return results if isinstance(result, tuple) else results[0]

    def _on_output_grads(self, grads: Gradients) -> Gradients:
        grad_outputs = _scatter(self.outputs, grads, self.number_of_outputs)
        for hook in self.pre_hooks:
            grad_outputs = _replaced(hook(self.module, grad_outputs), grad_outputs, "Backward pre hook", "grad_output")
        if self.inputs is None:
            self._fire_without_inputs(grad_outputs)
        else:
            self.grad_outputs = grad_outputs
        return tuple(grad_outputs[position] for position in self.outputs)

    def _on_input_grads(self, grads: Gradients) -> Gradients:
        if self.grad_outputs is None:  # the gradient reached the inputs without passing the outputs, as in a double backward
            return grads
        positions = self.inputs or []
        grad_inputs = _scatter(positions, grads, self.number_of_inputs)
        for hook in self.hooks:
            grad_inputs = _replaced(hook(self.module, grad_inputs, self.grad_outputs), grad_inputs, "Backward hook", "grad_input")
        self.grad_outputs = None
        return tuple(grad_inputs[position] for position in positions)

    def _fire_without_inputs(self, grad_outputs: Gradients) -> None:
        """Call the hooks when the output's gradient arrives: no input requires grad, so nothing arrives there."""
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
                "gradients. See the documentation of Module.register_full_backward_hook for more details.",
                stacklevel=5,
            )
        grad_inputs = (None,) * self.number_of_inputs
        for hook in self.hooks:
            returned = hook(self.module, grad_inputs, grad_outputs)
            if returned is not None and not (isinstance(returned, tuple) and all(grad is None for grad in returned)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for all gradients."
                )


def _tap(
    values: tuple[Any, ...], on_grads: Callable[[Gradients], Gradients], materialize: bool
) -> tuple[tuple[Any, ...], list[int] | None]:
    """``values`` with the tensors behind a tap, and the tensors' positions; None if there is nothing to differentiate."""
    positions = [position for position, value in enumerate(values) if isinstance(value, Tensor)]
    tensors = [values[position] for position in positions]
    if not is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return values, None
    tapped = list(values)
    for position, tensor in zip(positions, BackwardHookFunction.apply(on_grads, materialize, *tensors)):
        tapped[position] = tensor
    return (tuple(tapped) if type(values) is tuple else type(values)(*tapped)), positions  # the latter: a named tuple


def _scatter(positions: Sequence[int], grads: Gradients, length: int) -> Gradients:
    """Gradients at their positions among all arguments, None elsewhere."""
    scattered: list[Any] = [None] * length
    for position, grad in zip(positions, grads):
        scattered[position] = grad
    return tuple(scattered)


def _replaced(returned: Any, grads: Gradients, hook: str, what: str) -> Gradients:
    """The gradients after a hook: what it returned, or, if that is None, what it got."""
    if returned is None:
        return grads
    if not isinstance(returned, tuple):
        returned = (returned,)
    if len(returned) != len(grads):
        raise RuntimeError(f"{hook} returned an invalid number of {what}, got {len(returned)}, but expected {len(grads)}")
    return returned
