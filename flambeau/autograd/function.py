"""``autograd.Function``: operations whose forward and backward the user writes.

``apply`` runs ``forward`` without recording and puts one ``FunctionNode`` on the tape.  The context object ``ctx`` is kept apart from
the node, so that users may set any attribute on it; the node shows the context's attributes as its own.
"""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.profiling import OPERATION, profiled
from ..core.state import as_user, grad_enabled, interpreters, modes, profiling, thread, tick
from ..core.tape.history import check_writable, is_differentiable, make_view, rebase
from ..core.tape.node import Node, Output, complain_freed, edge_of
from ..core.tape.saved import check_saved, pack_saved, unpack
from ..core.tensor import Parameter, Tensor, ViewMeta, root_of, storage_of, wrap
from .grad_mode import no_grad


class FunctionCtx:
    """The object that ``forward`` of a ``Function`` leaves tensors and attributes on, and ``backward`` reads.

    Attributes:
        saved_tensors: what ``save_for_backward`` stored, checked against in-place writes since.
        needs_input_grad: one bool per input of ``forward``.
        _runs_jvp: whether ``jvp`` is running; ``saved_tensors`` are then those of ``save_for_forward``.
    Source: torch.autograd.function.FunctionCtx.
    Example:
        >>> class Scale(Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         return print(ctx.needs_input_grad) or x * factor
        >>> y = Scale.apply(torch.ones(1, requires_grad=True), 2.0)
        (True, False)
    """

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _to_save: tuple[Any, ...] = ()
    _to_save_forward: tuple[Any, ...] | None = None
    _runs_jvp = False
    _dirty: tuple[Any, ...] = ()
    _non_differentiable: tuple[Any, ...] = ()
    _node: Any = None
    _saved: Any = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Store inputs, outputs or intermediate tensors (or None) for ``backward``; to be called once, in ``forward``.

        Args:
            tensors: what ``saved_tensors`` gives, in this order.
        Source: torch.autograd.function.FunctionCtx.save_for_backward.
        """
        _check_tensors("save_for_backward", tensors)
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Store tensors (or None) for ``jvp``, which finds them in ``saved_tensors``; to be called once, in ``forward``.

        Args:
            tensors: what ``saved_tensors`` gives in ``jvp``, in this order.
        Source: torch.autograd.function.FunctionCtx.save_for_forward.
        """
        _check_tensors("save_for_forward", tensors)
        self._to_save_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Declare inputs that ``forward`` wrote in place; they must be among its outputs.

        Args:
            args: the inputs written to.
        Source: torch.autograd.function.FunctionCtx.mark_dirty.
        """
        self._dirty = args

    def mark_non_differentiable(self, *args: Any) -> None:
        """Declare outputs that never require grad.

        Args:
            args: those outputs.
        Source: torch.autograd.function.FunctionCtx.mark_non_differentiable.
        """
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Chooses what ``backward`` gets for outputs without a gradient.

        Args:
            value: True, the default, for zeros; False for None.
        Source: torch.autograd.function.FunctionCtx.set_materialize_grads.
        """
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._runs_jvp and self._to_save_forward is not None:
            return self._to_save_forward
        node = None if self._node is None else self._node()
        if node is None:
            return self._to_save
        if node.saved is None:
            complain_freed(node)
        return tuple([None if entry is None else unpack(node, entry) for entry in node.saved])

    saved_variables = saved_tensors


BackwardCFunction = FunctionCtx


def _check_tensors(name: str, values: tuple[Any, ...]) -> None:
    for i, value in enumerate(values):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name} can only save variables, but argument {i} is of type {type(value).__name__}")


class FunctionNode(Node):
    """The node of the graph that one call of a user's ``Function`` records.

    Source: torch.autograd.function.BackwardCFunction.
    Example:
        >>> class Double(torch.autograd.Function):
        ...     forward = staticmethod(lambda ctx, x: 2 * x)
        >>> y = Double.apply(torch.ones(1, requires_grad=True))
        >>> y.grad_fn.name(), isinstance(y.grad_fn, FunctionNode)
        ('DoubleBackward', True)
    """

    __slots__ = ("backward", "ctx", "tensor_slots")
    is_multi_output = True
    frees = True

    def apply(self, grads: Any) -> Any:
        ctx = self.ctx
        if ctx.materialize_grads:
            grads = [self._zeros(i) if grad is None else grad for i, grad in enumerate(grads)]
        input_grads = as_user(self.backward, ctx, *grads)
        if not isinstance(input_grads, tuple):
            input_grads = (input_grads,)
        count = len(ctx.needs_input_grad)
        if len(input_grads) != count:
            if len(input_grads) < count or any(grad is not None for grad in input_grads[count:]):
                raise RuntimeError(
                    f"function {self.name()} returned an incorrect number of gradients (expected {count}, got {len(input_grads)})"
                )
        results = []
        for slot, (given, edge) in enumerate(zip(input_grads, self._edge_per_input(), strict=False)):
            if slot not in self.tensor_slots:
                if given is not None:
                    raise RuntimeError(
                        f"function {self.name()} returned a gradient different than None at position {slot + 1}, but the corresponding "
                        "forward input was not a Variable"
                    )
                continue
            if given is not None and not isinstance(given, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(given).__name__})")
            results.append(given if edge is not None else None)
        return tuple(results)

    def _edge_per_input(self) -> list[Any]:
        edges = iter(self.edges)
        return [next(edges) if slot in self.tensor_slots else None for slot in range(len(self.ctx.needs_input_grad))]

    def _zeros(self, index: int) -> Any:
        dtype = self.dtype[index]
        return None if dtype is None else wrap(np.zeros(self.shape[index], dtype))

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"

    def __getattr__(self, name: str) -> Any:
        if name in ("ctx", "backward", "tensor_slots"):
            raise AttributeError(name)
        return getattr(self.ctx, name)


class _FunctionMeta(type):
    """Gives every Function its node class ``<Name>Backward`` when first needed."""

    @property
    def _backward_cls(cls) -> type[FunctionNode]:
        node_class = cls.__dict__.get("_node_class")
        if node_class is None:
            node_class = type(f"{cls.__name__}Backward", (FunctionNode,), {"__slots__": (), "__module__": "torch.autograd.function"})
            cls._node_class = node_class
        return node_class


class Function(metaclass=_FunctionMeta):
    """Base of user-defined operations: static ``forward(ctx, ...)`` and ``backward(ctx, *grads)``, called by ``apply``.

    ``forward`` may leave out ``ctx`` if the class also defines static ``setup_context(ctx, inputs, output)``, which the transforms of
    ``torch.func`` need. Static ``jvp(ctx, *tangents)`` is the forward-mode derivative. Static ``vmap(info, in_dims, *args)`` calls the
    Function over a batch and returns ``(output, out_dims)``; or ``generate_vmap_rule = True`` has ``forward``, ``backward`` and ``jvp``
    themselves run over it.

    Args:
        args, kwargs: unused; a Function is not instantiated, and its constructor warns.
    Raises:
        NotImplementedError: a method that the class leaves out is called.
    Example:
        >>> import flambeau as torch
        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = torch.ones(2, requires_grad=True)
        >>> Double.apply(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])

    Source: torch.autograd.Function.
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the "
            "class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static "
            "forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward`` on the arguments and record the call.

        Args:
            args, kwargs: of ``forward``, without ``ctx``.
        Returns:
            What ``forward`` returned; its tensors require grad if an input does.
        Raises:
            NotImplementedError: the class has no ``forward``; during backward, no ``backward``.
        Source: torch.autograd.Function.apply.
        """
        if interpreters and any(isinstance(arg, Tensor) and arg.__class__ not in (Tensor, Parameter) for arg in args):
            bound = _bound_arguments(cls.forward, args, kwargs, cls.setup_context is not Function.setup_context)
            output = modes.transforms.function(cls, bound)
            if output is not NotImplemented:
                return output
        two_parts = cls.setup_context is not Function.setup_context
        if two_parts or kwargs:
            args = _bound_arguments(cls.forward, args, kwargs, two_parts)
        return called(cls, args)[0]


def called(cls: Any, args: tuple[Any, ...]) -> tuple[Any, FunctionCtx]:
    """Run ``cls.forward`` and record the call in the graph.

    Args:
        cls: a subclass of ``Function``.
        args: all arguments of ``forward`` by position, without the context.
    Returns:
        The result of ``forward`` and the context.
    Source: torch.autograd.Function.apply.
    Example:
        >>> class Double(torch.autograd.Function):
        ...     forward = staticmethod(lambda ctx, x: 2 * x)
        >>> result, ctx = called(Double, (torch.ones(1, requires_grad=True),))
        >>> result.requires_grad, ctx.needs_input_grad
        (True, (True,))
    """
    two_parts = cls.setup_context is not Function.setup_context
    ctx = FunctionCtx()
    recorded = grad_enabled() and any(isinstance(arg, Tensor) and arg._requires_grad for arg in args)
    ctx.needs_input_grad = tuple([isinstance(arg, Tensor) and arg.requires_grad for arg in args])
    with no_grad() if not profiling else _profiled(cls.__name__):
        output = cls.forward(*args) if two_parts else cls.forward(ctx, *args)
        if two_parts:
            cls.setup_context(ctx, args, output)
    return _recorded_output(cls, ctx, args, output, recorded), ctx


@contextmanager
def _profiled(name: str) -> Iterator[None]:
    """``no_grad``, within a range of the profile."""
    with profiled(name, OPERATION), no_grad():
        yield


def _bound_arguments(forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any], two_parts: bool) -> tuple[Any, ...]:
    """All of ``forward``'s arguments by position, defaults filled in; without the context."""
    context = () if two_parts else (None,)
    bound = inspect.signature(forward).bind(*context, *args, **kwargs)
    bound.apply_defaults()
    return bound.args[len(context) :]


def _derivative_of(cls: Any) -> Any:
    """``backward``, or ``vjp`` where the class defines that one."""
    if cls.vjp is Function.vjp:
        return cls.backward
    if cls.backward is Function.backward:
        return cls.vjp
    return _reject_both


def _reject_both(ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
    )


def _recorded_output(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], output: Any, recorded: bool) -> Any:
    """``forward``'s result, put on the tape."""
    single = not isinstance(output, tuple)
    outputs = (output,) if single else output
    _check_dirty(ctx, outputs)
    results: list[Any] = []
    node = _new_node(cls, ctx, args) if recorded else None
    index = 0
    shapes: list[Any] = []
    dtypes: list[Any] = []
    replaced: dict[int, Any] = {}
    for value in outputs:
        if not isinstance(value, Tensor):
            if single:
                return value
            results.append(value)
            shapes.append(())
            dtypes.append(None)
            index += 1
            continue
        if id(value) in replaced and node is not None and not _contains(args, value) and replaced[id(value)][0]._node is not None:
            result = replaced[id(value)][0]  # the same tensor twice: its gradient is that of the last place
            result._node = Output(node, index)
        else:
            result = _output_tensor(ctx, args, value, node, index)
        replaced[id(value)] = (result, index)
        results.append(result)
        shapes.append(value._array.shape)
        dtypes.append(value._array.dtype)
        index += 1
    if node is not None:
        node.shape, node.dtype = tuple(shapes), tuple(dtypes)
        _save(ctx, node, replaced)
    return results[0] if single else tuple(results)


def _new_node(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...]) -> FunctionNode:
    node = object.__new__(cls._backward_cls)
    node.edges = tuple(edge_of(arg) for arg in args if isinstance(arg, Tensor))
    node.tensor_slots = frozenset(i for i, arg in enumerate(args) if isinstance(arg, Tensor))
    node.saved, node.attrs, node.hooks, node.ctx, node.backward = (), (), None, ctx, _derivative_of(cls)
    node.seq = 0
    ctx._node = weakref.ref(node)
    if modes.on_record is not None:
        modes.on_record(node)
    return node


def _contains(items: Any, wanted: Any) -> bool:
    return any(item is wanted for item in items)


def _check_dirty(ctx: FunctionCtx, outputs: tuple[Any, ...]) -> None:
    """Raise where inputs that were written in place are not returned, or must not be written.

    Raises:
        RuntimeError: see above; also a leaf that requires grad, and a view where there are several outputs.
    """
    for tensor in ctx._dirty:
        if not _contains(outputs, tensor):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace "
                "must all be outputs of the Function."
            )
        if not grad_enabled():
            continue
        if tensor._node is None and tensor._requires_grad is True:
            raise RuntimeError("a leaf Variable that requires grad has been used in an in-place operation.")
        if tensor._view_of is not None and tensor._requires_grad and sum(isinstance(out, Tensor) for out in outputs) > 1:
            raise RuntimeError(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one "
                "Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view (using "
                ".clone() for example) or make your Function only return one Tensor (potentially splitting it into two Functions)."
            )


def _output_tensor(ctx: FunctionCtx, args: tuple[Any, ...], output: Tensor, node: Any, index: int) -> Tensor:
    """One output on the tape: itself, the rebased input if it was written in place, a view if it is an untouched input."""
    fixed = _contains(ctx._non_differentiable, output) or not is_differentiable(output._array)
    if _contains(ctx._dirty, output):
        if thread.recorder is not None:  # what was written has been told
            thread.recorder.unwritten(output._array)
        storage_of(output)._bump()
        if node is not None and not fixed:
            check_writable(output, True)
            node.seq = tick()
            rebase(output, Output(node, index))
        return output
    if _contains(args, output):
        shown = make_view(output._array, output)
        if node is not None and not fixed:
            shown._view_of = ViewMeta(root_of(shown), "in_custom_function")
            shown._node, shown._requires_grad = Output(node, index), True
        return shown
    if node is not None and not fixed:
        if output._node is not None or output._requires_grad:
            output = make_view(output._array, output)
        if output._view_of is not None:
            output._view_of = ViewMeta(root_of(output), "in_custom_function")
        output._node, output._requires_grad = Output(node, index), True
    return output


def _save(ctx: FunctionCtx, node: FunctionNode, outputs: dict[int, Any]) -> None:
    """Move what ``save_for_backward`` was given to the node; outputs without their tensor, to make no cycle."""
    saved = []
    for tensor in ctx._to_save:
        entry = outputs.get(id(tensor)) if tensor is not None else None
        if entry is not None and entry[0]._node is not None:
            result, index = entry
            saved.append((result._array, storage_of(result), index))
        else:
            saved.append(tensor)
    check_saved(saved)
    node.seq = tick()
    ctx._to_save = ()
    ctx._dirty = ctx._non_differentiable = ()
    node.saved = tuple(saved)
    if thread.saved_hooks and saved:
        pack, unpack_hook = thread.saved_hooks[-1]
        node.saved = tuple([None if value is None else pack_saved(node, value, pack, unpack_hook) for value in saved])


def once_differentiable(backward: Any) -> Any:
    """Decorator for ``backward`` methods whose own computation must not be differentiated.

    Args:
        backward: the static method, called with ``ctx`` and the gradients.
    Returns: a method whose results raise when they are differentiated again.
    Raises:
        RuntimeError: in a second backward pass through it.
    Source: torch.autograd.function.once_differentiable.
    Example:
        >>> class Double(Function):
        ...     forward = staticmethod(lambda ctx, x: 2 * x)
        ...     backward = staticmethod(once_differentiable(lambda ctx, grad: 2 * grad))
        >>> x = torch.ones(1, requires_grad=True)
        >>> torch.autograd.grad(Double.apply(x), x)
        (tensor([2.]),)
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            result = backward(ctx, *grads)
        if not grad_enabled():
            return result
        if not any(isinstance(grad, Tensor) and grad._requires_grad for grad in grads):
            return result
        results = result if isinstance(result, tuple) else (result,)
        blocked = tuple(_Blocked.apply(value.detach().requires_grad_()) if isinstance(value, Tensor) else value for value in results)
        return blocked if isinstance(result, tuple) else blocked[0]

    return wrapped


class _Blocked(Function):
    """Stands behind results of a ``once_differentiable`` backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


class InplaceFunction(Function):
    """Base of Functions with an ``inplace`` flag; kept for old programs.

    Args:
        inplace: the flag, kept as an attribute.
    Source: torch.autograd.function.InplaceFunction.
    Example:
        >>> InplaceFunction(inplace=True).inplace
        True
    """

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Functions over nested structures of tensors; not supported.

    Args:
        args, kwargs: unused, as in ``Function``.
    Raises:
        NotImplementedError: on use; flatten the structure and use ``Function``.
    Source: torch.autograd.NestedIOFunction.
    Example:
        >>> torch.autograd.NestedIOFunction.apply([torch.ones(1)])
        Traceback (most recent call last):
        NotImplementedError: NestedIOFunction is not supported yet; flatten the structure and use Function
    """

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("NestedIOFunction is not supported yet; flatten the structure and use Function")
