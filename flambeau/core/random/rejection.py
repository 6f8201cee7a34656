"""Distributions that need an unknown number of uniforms for each element: Poisson, binomial, gamma, Dirichlet.

Each element is drawn in turn, in logical order, because where one element's numbers end decides where the next one's begin.

Source: Hoermann 1993, "The transformed rejection method for generating Poisson random variables" and "The generation of binomial
random variates"; Marsaglia and Tsang 2000, "A simple method for generating gamma variables", doi:10.1145/358407.358414.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..dtype import REDUCED, float32, float64, of_array
from .generator import Generator


def _checked(array: np.ndarray, operation: str, reduced: bool) -> None:
    of = of_array(array)
    if of not in (float32, float64) and not (reduced and of in REDUCED):
        raise NotImplementedError(f"\"{operation}\" not implemented for '{of.legacy}'")


def _drawn(generator: Generator, rule: str, *operands: np.ndarray) -> np.ndarray | None:
    """Numbers that a native kernel draws for each element of arrays of one shape and dtype; None if that is left to Python.

    With infinite operands a loop might have no end, which Python's can be interrupted in.
    """
    if not all(np.isfinite(operand).all() for operand in operands):
        return None
    dtype = operands[0].dtype
    wide = np.float32 if dtype.itemsize < 4 else dtype
    out, kept = np.empty(operands[0].shape, wide), np.empty(1)
    kept[0] = math.nan if generator.next_double_normal is None else generator.next_double_normal
    if not generator.drawn_each(rule, out, kept, *(np.ascontiguousarray(operand, wide) for operand in operands)):
        return None
    generator.next_double_normal = None if math.isnan(kept[0]) else kept.item()
    return out.astype(dtype, copy=False)


def poisson(generator: Generator, rate: np.ndarray) -> np.ndarray:
    """Poisson numbers, one for each rate, in the rates' dtype.

    Raises:
        RuntimeError: a negative rate.
        NotImplementedError: a dtype that is not floating point.
    """
    _checked(rate, "poisson_cpu", reduced=True)
    if not (rate >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    result = _drawn(generator, "poisson", rate)
    if result is not None:
        return result
    uniforms = generator.each_double()
    counts = [_poisson(mean, uniforms) for mean in rate.astype(np.float64).ravel().tolist()]
    return np.array(counts, np.float32 if rate.dtype.itemsize < 8 else np.float64).astype(rate.dtype).reshape(rate.shape)


def _poisson(rate: float, uniforms: Iterator[float]) -> int:
    if rate >= 10:
        return _poisson_large(rate, uniforms)
    if rate == 0:
        return 0
    bound = math.exp(-rate)
    count, product = 0, 1.0
    for uniform in uniforms:
        product *= uniform
        if product <= bound:
            break
        count += 1
    return count


def _poisson_large(rate: float, uniforms: Iterator[float]) -> int:
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = next(uniforms) - 0.5
        v = next(uniforms)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43) if us else -1
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        accepted = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if accepted <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


def binomial(generator: Generator, count: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Binomial numbers of ``count`` trials with probability ``prob``, arrays of one shape and dtype.

    Raises:
        NotImplementedError: a dtype other than float32 and float64.
    """
    _checked(count, "binomial_cpu", reduced=False)
    result = _drawn(generator, "binomial", count, prob)
    if result is not None:
        return result
    uniforms = generator.each_double()
    folded = np.where(prob <= 0.5, prob, (1.0 - prob.astype(np.float64)).astype(prob.dtype))
    expected = count * folded
    drawn = []
    for n, p, q, mean in zip(count.ravel(), prob.ravel(), folded.ravel(), expected.ravel(), strict=True):
        if n <= 0 or p <= 0:
            drawn.append(0.0)
        elif p >= 1:
            drawn.append(float(n))
        elif p != p:
            drawn.append(math.nan)
        else:
            successes = _binomial_rejection(n, q, uniforms) if mean >= 10 else _binomial_inversion(float(n), q, uniforms)
            drawn.append(successes if p <= 0.5 else float(n) - successes)
    return np.array(drawn, np.float64).astype(count.dtype).reshape(count.shape)


def _binomial_inversion(count: float, prob: np.floating, uniforms: Iterator[float]) -> float:
    """Sum of waiting times until they exceed the number of trials."""
    log_failure = float(prob.dtype.type(math.log1p(-float(prob))))
    total, successes = 0.0, 0.0
    for uniform in uniforms:
        waiting = _log(uniform) / log_failure
        total += math.ceil(waiting) if math.isfinite(waiting) else math.inf
        if total > count:
            break
        successes += 1
    return successes


def _binomial_rejection(count: np.floating, prob: np.floating, uniforms: Iterator[float]) -> float:
    one = prob.dtype.type(1)
    n, p = float(count), float(prob)
    spread = float(np.sqrt(count * prob * (one - prob)))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center = float(count * prob) + 0.5
    v_r = 0.92 - 4.2 / b
    odds = float(prob / (one - prob))
    alpha = (2.83 + 5.1 / b) * spread
    mode = float(np.floor((count + one) * prob))
    while True:
        u = next(uniforms) - 0.5
        v = next(uniforms)
        us = 0.5 - abs(u)
        k = float(math.floor((2 * a / us + b) * u + center)) if us else -1.0
        if k < 0 or k > n:
            continue
        if us >= 0.07 and v <= v_r:
            return k
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * math.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _stirling_tail(mode)
            + _stirling_tail(n - mode)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


# log(k!) minus Stirling's formula, for k = 0 .. 9
STIRLING_TAIL = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def _stirling_tail(k: float) -> float:
    if k < 10:
        return STIRLING_TAIL[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


THIRD = float(np.float32(1) / np.float32(3))  # PyTorch's constants are float32 here, for float64 numbers too
SQUEEZE = float(np.float32(0.0331))


def standard_gamma(generator: Generator, alpha: np.ndarray) -> np.ndarray:
    """Gamma numbers of shape ``alpha`` and rate 1, at least the smallest normal number of the dtype.

    Raises:
        RuntimeError: a shape below 0.
        NotImplementedError: a dtype other than float32 and float64.
    """
    _checked(alpha, "gamma_cpu", reduced=False)
    if not (alpha >= 0).all():
        raise RuntimeError("_standard_gamma: expected alpha >= 0")
    result = _drawn(generator, "gamma", alpha)
    if result is not None:
        return result
    small = alpha < 1
    one, third = alpha.dtype.type(1), alpha.dtype.type(THIRD)
    d = (np.where(small, alpha + one, alpha) - third).astype(np.float64)
    with np.errstate(divide="ignore"):
        powers = np.where(small, one / alpha, 0).astype(np.float64)
    drawn = _gammas(generator, d.ravel().tolist(), (1.0 / np.sqrt(9.0 * d)).ravel().tolist(), powers.ravel().tolist())
    result = np.array(drawn, np.float64).astype(alpha.dtype).reshape(alpha.shape)
    return np.maximum(result, np.finfo(alpha.dtype).tiny)


def _gammas(generator: Generator, shapes: list[float], widths: list[float], powers: list[float]) -> list[float]:
    """Gamma numbers of shapes above 1, less a third, with ``1 / sqrt(9 shape)``; times a uniform number to a power where that is not 0.

    One flat loop: a call for each number would take as long as the number.
    """
    draw = generator.each_double().__next__
    sqrt, log, log1p, cos, sin, turn = math.sqrt, math.log, math.log1p, math.cos, math.sin, 2.0 * math.pi
    kept = generator.next_double_normal  # the second normal number of a pair
    drawn = []
    for d, c, power in zip(shapes, widths, powers):
        if power == math.inf:  # shape 0
            drawn.append(0.0)
            continue
        scale = d * (1 - draw()) ** power if power else d
        while True:
            if kept is None:
                angle, radius = turn * draw(), sqrt(-2.0 * log1p(-draw()))
                x, kept = radius * cos(angle), radius * sin(angle)
            else:
                x, kept = kept, None
            y = 1.0 + c * x
            if y <= 0:
                continue
            v = y * y * y
            u = 1 - draw()
            square = x * x
            if u < 1.0 - SQUEEZE * square * square or log(u) < 0.5 * square + d * (1.0 - v + log(v)):
                break
        drawn.append(scale * v)
    generator.next_double_normal = kept
    return drawn


def dirichlet(generator: Generator, alpha: np.ndarray) -> np.ndarray:
    """Points of the simplex over the last dimension, with concentrations ``alpha``.

    Raises:
        RuntimeError: a concentration below 0.
        NotImplementedError: a dtype other than float32 and float64.
    """
    _checked(alpha, "dirichlet", reduced=False)
    gamma = standard_gamma(generator, alpha.astype(np.float64))
    result = (gamma / gamma.sum(-1, keepdims=True)).astype(alpha.dtype)
    one = alpha.dtype.type(1)
    return np.clip(result, np.finfo(alpha.dtype).tiny, np.nextafter(one, alpha.dtype.type(0)))
