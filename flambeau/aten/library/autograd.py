"""Derivatives of users' operations: ``backward`` and ``setup_context`` as a node on the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...utils import _pytree
from .. import overloads
from .depth import below_autograd


class Formula:
    """A derivative.

    Attributes:
        backward: (ctx, *grads) -> one gradient, or None, per positional argument; None where no formula was registered.
        setup_context: called as (ctx=, inputs=, output=) after the forward call, with ``keyword_only_inputs=`` where there are any.
    """

    def __init__(self, backward: Callable[..., Any] | None = None, setup_context: Callable[..., Any] | None = None):
        self.backward, self.setup_context = backward, setup_context
        self._function: Any = None

    def recorded(self, operation: Any, values: list[Any]) -> Any:
        """A call with an input that requires grad, as a node on the tape."""
        schema = operation.schema
        count = len(schema.positional)
        call = _CallOf(self, operation, values)
        if any(map(_is_list_of_tensors, schema.positional)):
            flat, call.inputs = _pytree.tree_flatten(tuple(values[:count]))
        else:
            flat = values[:count]
        if self._function is None:
            self._function = _function_of(operation.overload)
        made = self._function.apply(*flat, call)
        return made if call.outputs is None else _pytree.tree_unflatten(list(made), call.outputs)


class _CallOf:
    """Description of a call for its node; the last argument of its function.

    Attributes:
        inputs, outputs: how lists of tensors among arguments and results are put together; None where there are none.
    """

    __slots__ = ("formula", "inputs", "operation", "outputs", "values")

    def __init__(self, formula: Formula, operation: Any, values: list[Any]):
        self.formula, self.operation, self.values = formula, operation, values
        self.inputs: Any = None
        self.outputs: Any = None

    def forward(self, ctx: Any, flat: tuple[Any, ...]) -> Any:
        operation, schema = self.operation, self.operation.schema
        count = len(schema.positional)
        inputs = flat if self.inputs is None else _pytree.tree_unflatten(list(flat), self.inputs)
        with below_autograd():
            values = [*inputs, *self.values[count:]]
            output = operation.below(values, overloads.tensors_in(values))
        if self.formula.setup_context is not None:
            with _needed_by_input(ctx, self.inputs):
                only = {argument.name: value for argument, value in zip(schema.arguments[count:], self.values[count:], strict=True)}
                further = {"keyword_only_inputs": only} if only else {}
                self.formula.setup_context(ctx=ctx, inputs=tuple(inputs), output=output, **further)
        if any(isinstance(value, list) for value in (output if isinstance(output, tuple) else (output,))):
            leaves, self.outputs = _pytree.tree_flatten(output)
            return tuple(leaves)
        return output

    def backward(self, ctx: Any, grads: tuple[Any, ...]) -> Any:
        shown = str(self.operation.overload)
        if self.formula.backward is None:
            raise RuntimeError(
                f"Trying to backward through {shown} but no autograd formula was registered. Please use register_autograd to add one."
            )
        given = grads
        if self.outputs is not None:
            tree = _pytree.tree_unflatten(list(grads), self.outputs)
            given = tree if isinstance(tree, tuple) else (tree,)
        with _needed_by_input(ctx, self.inputs):
            found = self.formula.backward(ctx, *given)
        found = found if isinstance(found, tuple) else (found,)
        if self.inputs is None:
            return (*found, None)
        return self._flat_gradients(found)

    def _flat_gradients(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Gradients of lists, one by one.

        Raises:
            RuntimeError: they are not of the arguments' structure.
        """
        arguments = self.operation.schema.positional
        values = self.values[: len(arguments)]
        listed = [_is_list_of_tensors(argument) and value is not None for argument, value in zip(arguments, values, strict=True)]
        expected = _pytree.tree_structure(
            (*[[None] * len(value) if has else None for has, value in zip(listed, values, strict=True)], None)
        )
        leaves, structure = _pytree.tree_flatten((*found, None))
        if structure != expected:
            raise RuntimeError(
                f"Expected the return from backward to be of the same structure as the inputs. Got: {structure} (return from backward), "
                f"{expected} (inputs)"
            )
        flat: list[Any] = []
        places = iter(leaves)
        for has, value in zip(listed, values, strict=True):
            if isinstance(value, list) and not has:
                next(places)
                flat += [None] * len(value)
            else:
                flat += [next(places) for _ in (value if has else (value,))]
        return (*flat, None)


def _is_list_of_tensors(argument: Any) -> bool:
    return "List[" in (text := str(argument.type)) and "Tensor" in text


class _needed_by_input:
    """Inside this block ``ctx.needs_input_grad`` has one entry per argument, a list for a list of tensors."""

    def __init__(self, ctx: Any, structure: Any):
        self.ctx, self.structure = ctx, structure

    def __enter__(self) -> None:
        self.was = self.ctx.needs_input_grad
        if self.structure is not None:
            self.ctx.needs_input_grad = _pytree.tree_unflatten(list(self.was[:-1]), self.structure)

    def __exit__(self, *exc_info: Any) -> None:
        self.ctx.needs_input_grad = self.was


def _function_of(overload: Any) -> Any:
    """The class whose calls are an operation's nodes on the tape."""

    class Recorded(Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            ctx._call = args[-1]
            return args[-1].forward(ctx, args[:-1])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return ctx._call.backward(ctx, grads)

    Recorded.__name__ = Recorded.__qualname__ = f"GeneratedBackwardFor_{overload._namespace}_{overload._opname}_{overload._overloadname}"
    return Recorded
