"""Checks of ``gradcheck`` for forward mode, and for derivatives over a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.late import from_above
from ..core.tensor import Tensor, wrap
from .api import grad


def products(part: Callable[..., Any], args: Any, x: Tensor, vector: np.ndarray) -> list[np.ndarray]:
    """The Jacobian of each output of ``part`` by ``x``, times ``vector``; zeros of an output's dtype where it has no tangent."""
    return [_array(*each) for each in tangents(part, args, [(x, wrap(np.asarray(vector, x._array.dtype)))])]


def _array(primal: Tensor, tangent: Tensor | None) -> np.ndarray:
    return np.zeros(primal._array.shape, primal._array.dtype) if tangent is None else np.array(tangent.detach()._array)


def tangents(part: Callable[..., Any], args: Any, along: Sequence[tuple[Tensor, Tensor]]) -> list[Any]:
    """The outputs of ``part`` as pairs of a value and its tangent, where some of its arguments have tangents."""
    modes = from_above("autograd.forward_ad")
    with modes.dual_level():
        duals = {id(x): modes.make_dual(x, tangent) for x, tangent in along}
        return [modes.unpack_dual(output) for output in part(*[duals.get(id(arg), arg) for arg in args])]


def jacobians(part: Callable[..., Any], args: Any, x: Tensor) -> list[np.ndarray]:
    """One matrix (elements of ``x``, elements of the output) per output, as ``gradcheck`` finds them by differences."""
    rows = []
    for index in np.ndindex(x._array.shape):
        unit = np.zeros(x._array.shape, x._array.dtype)
        unit[index] = 1
        row = products(part, args, x, unit)
        if unit.dtype.kind == "c":
            row = [a + 1j * b for a, b in zip(row, products(part, args, x, unit * 1j), strict=True)]
        rows.append([product.reshape(-1) for product in row])
    if not rows:
        return [np.zeros((0, output._array.size)) for output in part(*args)]
    return [np.stack(each) for each in zip(*rows, strict=True)]


def check_dtypes(part: Callable[..., Any], args: Any, inputs: Sequence[Tensor], error: type[Exception]) -> None:
    """Raise where a tangent has another dtype than its value."""
    for primal, tangent in tangents(part, args, [(x, x.detach()) for x in inputs]):
        if tangent is not None and tangent.dtype is not primal.dtype:
            raise error(f"Forward gradient has dtype mismatch: expected {primal.dtype}, got {tangent.dtype}")


def check_zero_tangents(part: Callable[..., Any], args: Any, inputs: Sequence[Tensor], error: type[Exception]) -> None:
    """Raise where tangents of zeros do not give zeros: of all inputs, and of each alone, the others having none."""
    for chosen in [list(inputs)] + ([[x] for x in inputs] if len(inputs) > 1 else []):
        zeros = [(x, x.detach().new_zeros(x._array.shape)) for x in chosen]
        if any(_array(*each).any() for each in tangents(part, args, zeros)):
            raise error("Expected all forward grads of the outputs to be undefined or zero when those of the inputs are undefined or zero.")


# -- over a batch -------------------------------------------------------------------------------------------------------------------
_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: a derivative along several vectors at once, by vmap, "
    "differs from the same along one after the other, or cannot be computed."
)


def _compared(where: str, together: Callable[[], Sequence[Any]], apart: list[list[Any]], error: type[Exception]) -> None:
    try:
        found = together()
    except RuntimeError as problem:
        raise error(f"{_BATCHED}\nWhile computing {where}: {type(problem).__name__}: {problem}") from problem
    for i, (batch, each) in enumerate(zip(found, zip(*apart, strict=True), strict=True)):
        expected = np.stack([np.zeros(batch._array.shape[1:]) if one is None else one.detach()._array for one in each])
        if not np.allclose(batch.detach()._array, expected, rtol=1e-5, atol=1e-8):
            raise error(f"{_BATCHED}\nFor {where}, result {i}:\ngot:\n{batch}\nexpected:\n{wrap(expected)}")


def check_batched_forward(part: Callable[..., Any], args: Any, inputs: Sequence[Tensor], error: type[Exception]) -> None:
    """Raise where tangents along two vectors at once differ from those along one after the other."""
    vmap = from_above("func._vmap").vmap
    for position, x in enumerate(inputs):
        vectors = x.detach().new_empty((2, *x._array.shape)).normal_()

        def product(vector: Tensor, x: Tensor = x) -> tuple[Tensor, ...]:
            pairs = tangents(part, args, [(x, vector)])
            return tuple([p.detach().new_zeros(p._array.shape) if t is None else t for p, t in pairs])

        apart = [list(product(vector)) for vector in vectors]
        _compared(f"tangents along input {position}", lambda: vmap(product)(vectors), apart, error)  # noqa: B023


def check_batched_backward(outputs: Sequence[Tensor], inputs: Sequence[Tensor], error: type[Exception]) -> None:
    """Raise where gradients for two vectors at once differ from those for one after the other."""
    for position, output in enumerate(outputs):
        vectors = output.detach().new_empty((2, *output._array.shape)).normal_()
        apart = [list(grad(output, inputs, vector, retain_graph=True, allow_unused=True)) for vector in vectors]
        used = [x for x, gradient in zip(inputs, apart[0], strict=True) if gradient is not None]
        apart = [[gradient for gradient in row if gradient is not None] for row in apart]
        if not used:
            continue

        def together(output: Tensor = output, used: Any = used, vectors: Tensor = vectors) -> Sequence[Any]:
            return grad(output, used, vectors, retain_graph=True, is_grads_batched=True)

        _compared(f"gradients of output {position}", together, apart, error)


__all__ = ["check_batched_backward", "check_batched_forward", "check_dtypes", "check_zero_tangents", "jacobians", "products"]
