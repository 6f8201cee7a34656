"""``backward`` and ``grad``, the two functions that start a backward pass."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from typing import Any

from ..core.state import modes, thread, wrappers
from ..core.tensor import Tensor
from .engine import run_backward


def transforms() -> Any:
    """The Jacobians of ``torch.func``, which stands above this package."""
    return importlib.import_module(f"{__package__.rpartition('.')[0]}.func._jacobians")


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, Tensor) or hasattr(value, "output_nr") else tuple(value)


def _refuse_in_transform() -> None:
    if thread.variables or not all(level.shows_tape for level in thread.levels):
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead or "
            "call backward() outside of functorch transforms."
        )


def _on_tape(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """``tensors`` with what stands on the tape in place of tensors that wrap it."""
    return tuple([tensor._inner if tensor.__class__ in wrappers else tensor for tensor in tensors])


def _paired(tensors: tuple[Tensor, ...], grads: Any) -> tuple[Any, ...]:
    """``grads`` as a tuple of the length of ``tensors``.

    Raises:
        RuntimeError: another number of gradients.
        TypeError: something that is neither a tensor nor None.
    """
    if grads is None:
        return (None,) * len(tensors)
    gradients = _as_tuple(grads)
    if len(gradients) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(gradients)} gradients")
    for gradient in gradients:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    return gradients


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
    retain_variables: bool | None = None,
) -> None:
    """Add the gradients of ``tensors`` to ``grad`` of the leaves that they were computed from.

    Args:
        tensors: a tensor, or a sequence of tensors, of which to take the derivative.
        grad_tensors: for each, the vector in the vector-Jacobian product, of its shape; may be None for one-element tensors.
        retain_graph: keep what the graph saved, so that it can be used again; ``create_graph``'s value when None.
        create_graph: record the pass itself, for higher derivatives.
        inputs: accumulate into these tensors only.
        grad_variables, retain_variables: deprecated spellings of ``grad_tensors`` and ``retain_graph``.
    Returns: None; ``grad`` of each leaf has the leaf's shape.
    Raises:
        RuntimeError: a root of several elements without gradient, a root without history, or a graph that was freed; inside of a
            transform of ``torch.func``.
    Source: torch.autograd.backward.
    Example:
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> backward([x.sum(), (3 * x).sum()])
        >>> x.grad
        tensor([4., 4.])
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if retain_variables is not None:
        warnings.warn("`retain_variables` is deprecated. Use `retain_graph` instead.", FutureWarning, stacklevel=2)
        retain_graph = retain_variables if retain_graph is None else retain_graph
    if thread.variables or thread.levels:
        _refuse_in_transform()
    roots = _as_tuple(tensors)
    chosen = None
    if inputs is not None:
        chosen = _as_tuple(inputs)
        if not chosen:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        for tensor in chosen:
            if not tensor._requires_grad:
                raise RuntimeError("One of the differentiated Tensors given as 'inputs' to backward does not require grad")
    keep = create_graph if retain_graph is None else retain_graph
    gradients = _paired(roots, grad_tensors)
    if thread.levels:
        roots, gradients, chosen = (modes.transforms.plain(each) for each in (roots, gradients, chosen))
    if wrappers:
        roots, gradients, chosen = _on_tape(roots), _on_tape(gradients), None if chosen is None else _on_tape(chosen)
    run_backward(roots, gradients, keep, create_graph, chosen)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, returned instead of accumulated.

    Args:
        outputs, inputs: a tensor or a sequence of tensors; among the inputs also gradient edges.
        grad_outputs: for each output, the vector in the vector-Jacobian product.
        retain_graph, create_graph: as in ``backward``.
        only_inputs: deprecated, must be True.
        allow_unused: return None for an input that did not take part, instead of raising; ``materialize_grads``'s value when None.
        is_grads_batched: ``grad_outputs`` have a further first dimension, and so will the gradients: many products at once, by ``vmap``.
        materialize_grads: return zeros for an input that did not take part.
    Returns: a tuple with a tensor for each input, of the input's shape; None for an unused one where that is allowed.
    Raises:
        RuntimeError: an unused input, and what ``backward`` raises.
        ValueError: ``materialize_grads`` with ``allow_unused=False``.
    Source: torch.autograd.grad.
    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> (slope,) = grad(x**2, x, create_graph=True)
        >>> slope.detach(), grad(slope, x)
        (tensor(6.), (tensor(2.),))
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the "
            "graph, use backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    roots, wanted = _as_tuple(outputs), _as_tuple(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    for target in wanted:
        if isinstance(target, Tensor) and not target._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    if not all(isinstance(root, Tensor) for root in roots):
        raise NotImplementedError("autograd.grad: outputs must be tensors; a GradientEdge is supported among the inputs only")
    keep = create_graph if retain_graph is None else retain_graph
    seeds, targets = _paired(roots, grad_outputs), wanted
    if is_grads_batched:

        def product(vectors: Any) -> tuple[Tensor | None, ...]:
            return grad(roots, wanted, vectors, retain_graph, create_graph, True, allow_unused, False, materialize_grads)

        return tuple(transforms().batched_gradients(roots, seeds, product))
    if wrappers:
        roots, seeds, targets = _on_tape(roots), _on_tape(seeds), _on_tape(wanted)
    if thread.levels:
        gradients = modes.transforms.gradients(roots, targets, seeds, keep, create_graph)
    else:
        gradients = run_backward(roots, seeds, keep, create_graph, targets, accumulates=False)
    unused = [] if allow_unused else [i for i, gradient in enumerate(gradients) if gradient is None]
    if unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the graph. Set allow_unused=True if this is "
            "the desired behavior."
        )
    if materialize_grads:
        gradients = [
            source.new_zeros(source.shape) if gradient is None and isinstance(source, Tensor) else gradient
            for gradient, source in zip(gradients, wanted, strict=True)
        ]
    if wrappers:
        gradients = [
            source._gradient(gradient) if source.__class__ in wrappers and gradient is not None else gradient
            for gradient, source in zip(gradients, wanted, strict=True)
        ]
    return tuple(gradients)


def tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
    retain_variables: bool | None = None,
) -> None:
    """Add the gradient of this tensor to ``grad`` of the leaves it was computed from; see ``autograd.backward``.

    Args:
        gradient: of this tensor's shape; may be missing for a tensor of one element.
        retain_graph, create_graph, inputs: as in ``autograd.backward``.
        retain_variables: deprecated spelling of ``retain_graph``.
    Raises:
        RuntimeError: as of ``autograd.backward``.
    Source: torch.Tensor.backward.
    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> (x * x).backward(torch.tensor([1.0, 10.0]))
        >>> x.grad
        tensor([ 2., 20.])
    """
    if inputs is None and not create_graph and retain_variables is None and self.__class__ is Tensor:
        if thread.variables or thread.levels:
            _refuse_in_transform()
        run_backward((self,), (gradient,), bool(retain_graph), False)
        return
    backward(self, gradient, retain_graph, create_graph, inputs=inputs, retain_variables=retain_variables)


tensor_backward.__name__ = "backward"
Tensor.backward = tensor_backward  # type: ignore[attr-defined]
