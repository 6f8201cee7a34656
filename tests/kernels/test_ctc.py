"""Native alignments of connectionist temporal classification against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from flambeau.kernels.families import ctc as kernels
from flambeau.ops.losses import ctc

from .guard import guarded


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_alignments_are_those_of_the_reference(dtype):
    rng = np.random.default_rng(0)
    for steps, batch, classes, lengths in ((1, 1, 3, (0,)), (7, 3, 5, (3, 0, 2)), (40, 2, 30, (20, 11)), (5, 2, 4, (9, 1))):
        for end in (True, False):
            scores = rng.standard_normal((steps, batch, classes))
            scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
            scores[0, 0, 1] = -np.inf
            scores = guarded(scores.astype(dtype), end)
            targets = rng.integers(1, classes, (batch, max(lengths)))
            states = guarded(ctc._states(targets, lengths, 0), end)
            skips = guarded(ctc._skips(states, scores.dtype), end)
            result = kernels.ctc_alignments(scores, states, skips)
            with np.errstate(divide="ignore"):
                wanted = ctc._alignments(scores, states, skips)
            np.testing.assert_allclose(result, wanted, rtol=1e-5 if dtype is np.float32 else 1e-12)
    assert kernels.ctc_alignments(scores.astype(np.float16), states, skips) is None
