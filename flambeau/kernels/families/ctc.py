"""The recursion of connectionist temporal classification: a register holds neighbouring states, a chunk is one sample.

What is known of the time step before lies in a row of its own, behind two places for the states before the first:

    row    . .  s0 s1 s2 s3 ...        s stays from s, moves on from s - 1, and leaves a blank out from s - 2
"""

from __future__ import annotations

import math

import numpy as np

from ...core.arrays.copies import contiguous
from ...core.arrays.native import native
from ..compiler.build import kernel
from ..compiler.language import ELEMENTS, Builder, Value
from ..compiler.memory import empty
from ..mathematics import vectors


@kernel
def alignments(k: Builder, element: str) -> None:
    """``alphas[n, t, s]`` of every sample; ``rooms`` are two rows for each."""
    scores, states, skips, alphas, rooms = (k.array() for _ in range(5))
    steps, batch, classes, count = (k.integer() for _ in range(4))
    lanes = k.lanes(element)
    low = k.const(-math.inf, element, lanes)

    def sample(n: Value) -> None:
        pitch = count + 2
        room = k.at(rooms, n * 2 * pitch, element)
        k.vector_loop(0, 2 * pitch, lanes, lambda i, mask: k.store(low, room, i, element, mask))
        k.store(k.const(0, element), room, 1, element)  # everything is before the first state, from where it and the second are near

        def step(t: Value) -> None:
            old, new = k.at(room, (t & 1) * pitch, element), k.at(room, (1 - (t & 1)) * pitch, element)
            line, target = k.at(scores, (t * batch + n) * classes, element), k.at(alphas, (n * steps + t) * count, element)

            def some(s: Value, mask: Value | None) -> None:
                stay, onward = (k.load(old, s + (2 - i), element, lanes, mask) for i in range(2))
                over = k.load(old, s, element, lanes, mask) + k.load(skips, n * count + s, element, lanes, mask)
                most = k.maximum(k.maximum(stay, onward), over)
                base = k.select(most.eq(-math.inf), 0, most)
                total = vectors.exp(k, stay - base) + vectors.exp(k, onward - base) + vectors.exp(k, over - base)
                label = k.load(states, n * count + s, "i64", lanes, mask)
                value = vectors.log(k, total) + base + k.gather(line, label, element, mask)
                k.store(value, new, s + 2, element, mask)
                k.store(value, target, s, element, mask)

            k.vector_loop(0, count, lanes, some)
            k.store(k.const(-math.inf, element), old, 1, element)

        k.loop(0, steps, step)

    k.for_chunks(sample)


@native("_ctc_alignments")
def ctc_alignments(log_probs: np.ndarray, states: np.ndarray, skips: np.ndarray) -> np.ndarray | None:
    """``alpha`` of log-probabilities ``(T, N, C)`` for the states ``(N, S)``, which are classes: ``(N, T, S)``."""
    element = ELEMENTS.get(log_probs.dtype)
    if element not in ("f32", "f64") or skips.dtype != log_probs.dtype or states.dtype != np.int64 or not log_probs.size:
        return None
    steps, batch, classes = log_probs.shape
    count = states.shape[1]
    result, rooms = empty((batch, steps, count), log_probs.dtype), empty((batch, 2, count + 2), log_probs.dtype)
    arrays = contiguous(log_probs), contiguous(states), contiguous(skips), result, rooms
    alignments(element)(batch, *map(id, arrays), steps, batch, classes, count)
    return result
