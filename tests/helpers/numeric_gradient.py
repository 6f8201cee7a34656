"""Derivatives of first and second order against finite differences, in float64, at small cost.

For outputs ``f(x)`` and a random cotangent ``w``, ``L(x, w) = sum(w * f(x))``.  First order: the derivative along one random direction of
all inputs, in which every element of ``dL/dx`` has its part, and some elements by themselves.  Second order: ``M = u . dL/dx`` for a
random ``u``; its derivative along one random direction of all inputs and of ``w``.  Along a direction there is a formula of fourth order,
whose error is that of rounding alone, so that a derivative in float32's precision is found.  Where that shows a difference, or shows
nothing because values are NaN, every element is looked at by itself, so that the message says which one is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from libraries import OURS, differentiable_inputs, flat

import flambeau

STEP = 1e-6
LONG_STEP = 2e-5  # of the formula of fourth order: its own error is 1e-19 of the fifth derivative, rounding's about 1e-11
ALONG = 1e-9
SEVERAL = 6  # elements of an input that are looked at by themselves where all together are right


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

    directions = [_random(rng, x._array) for x in inputs]
    along = [_inner(d, grad._array) for d, grad in zip(directions, grads, strict=True) if grad is not None]
    numeric, size = _along(inputs, directions, total)
    error, scale = abs(sum(along) - numeric), size + sum(map(abs, along)) + 1
    is_right = error <= ALONG * scale  # false of NaN
    chance = np.random.default_rng(2)
    for x, grad in zip(inputs, grads, strict=True):
        array, places = x._array, chance.permutation(x._array.size)[: SEVERAL if is_right else None]
        got, differences = np.zeros(array.shape) if grad is None else grad._array, np.zeros(len(places))
        for number, place in enumerate(places):
            index = np.unravel_index(place, array.shape)
            kept = array[index]
            array[index] = kept + STEP
            above = total()
            array[index] = kept - STEP
            differences[number] = (above - total()) / (2 * STEP)
            array[index] = kept
        message = f"{where}: first derivative, elements {places}"
        np.testing.assert_allclose(got.reshape(-1)[places], differences, rtol=1e-4, atol=1e-5, err_msg=message)
    assert is_right or np.isnan(numeric), f"{where}: first derivative along a direction: {sum(along)!r}, numerically {numeric!r}"
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
    along = [_inner(d, g._array) for d, g in zip(directions, got, strict=True) if g is not None]

    def product() -> float:
        grads = flambeau.autograd.grad(_outputs(call), [x for x, _ in used], weights, allow_unused=True)
        return sum(_inner(v, g._array) for v, g in zip(vectors, grads, strict=True) if g is not None)

    numeric, size = _along(variables, directions, product)
    error, scale = abs(sum(along) - numeric), size + sum(map(abs, along)) + 1
    assert error <= 10 * ALONG * scale or np.isnan(numeric), (
        f"{where}: second derivative along a direction: {sum(along)!r}, numerically {numeric!r}"
    )


def _along(variables: list[Any], directions: list[np.ndarray], value: Callable[[], float]) -> tuple[float, float]:
    """The derivative of ``value()`` along a direction of the variables, by a formula of fourth order, and the value's size."""
    kept, values = [x._array.copy() for x in variables], {}
    for step in (-2, -1, 1, 2):
        for x, old, d in zip(variables, kept, directions, strict=True):
            x._array[...] = old + step * LONG_STEP * d
        values[step] = value()
    for x, old in zip(variables, kept, strict=True):
        x._array[...] = old
    slope = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * LONG_STEP)
    return slope, max(map(abs, values.values()))
