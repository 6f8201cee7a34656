"""Derivatives of first and second order against finite differences, in float64, at small cost.

For outputs ``f(x)`` and a random cotangent ``w``, ``L(x, w) = sum(w * f(x))``.  First order: every element of ``dL/dx``.  Second order:
``M = u . dL/dx`` for a random ``u``; its derivative along one random direction of all inputs and of ``w``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from libraries import OURS, differentiable_inputs, flat

import flambeau

STEP = 1e-6
SECOND_STEP = 1e-5


def _outputs(call: Callable[[], Any]) -> list[Any]:
    return [output for output in flat(call()) if getattr(output, "requires_grad", False)]


def _random(rng: Any, like: np.ndarray, low: float = -1, high: float = 1) -> np.ndarray:
    values = np.asarray(rng.uniform(low, high, like.shape))
    return values if like.dtype.kind != "c" else np.asarray(values + 1j * rng.uniform(low, high, like.shape))


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    """The real inner product, of complex numbers as pairs of real ones."""
    return float(np.sum(np.real(np.conj(a) * b)))


def check_gradients(function: Callable[..., Any], args: Any, kwargs: Any, *, second: bool, where: str, seed: Callable[[], Any]) -> None:
    """Raise AssertionError where a derivative of ``function`` at these arguments differs from finite differences."""
    rng = np.random.default_rng(1)
    inputs = [tensor.requires_grad_() for tensor in differentiable_inputs([*args, kwargs])]

    def call() -> Any:
        seed()
        return function(*args, **kwargs)

    outputs = _outputs(call)
    if not outputs:
        return
    weights = [OURS.tensor(_random(rng, output._array, 0.5, 1.5)).requires_grad_() for output in outputs]
    numeric_weights = [w._array for w in weights]
    grads = flambeau.autograd.grad(outputs, inputs, weights, create_graph=second, allow_unused=True)

    def total() -> float:
        return sum(_inner(w, output._array) for w, output in zip(numeric_weights, _outputs(call), strict=True))

    for x, grad in zip(inputs, grads, strict=True):
        array, numeric = x._array, np.zeros(x._array.shape)
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + STEP
            above = total()
            array[index] = kept - STEP
            numeric[index] = (above - total()) / (2 * STEP)
            array[index] = kept
        got = np.zeros(array.shape) if grad is None else grad._array
        np.testing.assert_allclose(got, numeric, rtol=1e-4, atol=1e-5, err_msg=f"{where}: first derivative")
    if second:
        _check_second(call, inputs, weights, grads, rng, where)


def _check_second(call: Any, inputs: list[Any], weights: list[Any], gradients: Any, rng: Any, where: str) -> None:
    used = [(x, grad) for x, grad in zip(inputs, gradients, strict=True) if grad is not None and grad.requires_grad]
    if not used:
        return
    vectors = [_random(rng, grad._array) for _, grad in used]
    variables = [*inputs, *weights]
    got = flambeau.autograd.grad([g for _, g in used], variables, [OURS.tensor(v) for v in vectors], allow_unused=True)
    directions = [_random(rng, x._array) for x in variables]
    along = sum(_inner(d, g._array) for d, g in zip(directions, got, strict=True) if g is not None)

    def value(step: float) -> float:
        kept = [x._array.copy() for x in variables]
        for x, d in zip(variables, directions, strict=True):
            x._array[...] = x._array + step * d
        grads = flambeau.autograd.grad(_outputs(call), [x for x, _ in used], weights, allow_unused=True)
        product = sum(_inner(v, g._array) for v, g in zip(vectors, grads, strict=True) if g is not None)
        for x, old in zip(variables, kept, strict=True):
            x._array[...] = old
        return product

    numeric = (value(SECOND_STEP) - value(-SECOND_STEP)) / (2 * SECOND_STEP)
    np.testing.assert_allclose(along, numeric, rtol=1e-3, atol=1e-4, err_msg=f"{where}: second derivative")
