"""Transforms beside torchvision's, on PIL images and on tensors, random ones under the same seed.

What Pillow does is equal; of tensors, bytes differ by a level at most and floating point by 1e-5.
"""

from __future__ import annotations

import importlib
import random
import warnings
from typing import Any

import numpy as np
import pytest
from oracle_vision import torchvision
from PIL import Image
from vision.transform_cases import CLASSIC, SHARED, V2, Case, sample

import flambeau

FORMS = {"classic": "transforms", "v2": "transforms.v2"}
CASES = [(form, case) for form, own in (("classic", CLASSIC), ("v2", V2)) for case in (*SHARED, *own)]


def outputs(form: str, case: Case, kind: str, seed: int, library: Any, package: str) -> list[Any]:
    """What a case gives in one library, as a list."""
    transforms = importlib.import_module(f"{package}.{FORMS[form]}")
    library.manual_seed(seed)
    random.seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both warn of what is deprecated or passes
        result = case.make(transforms, library)(sample(kind, library, importlib.import_module(f"{package}.tv_tensors")))
    flat, _ = library.utils._pytree.tree_flatten(result)
    return flat


def described(value: Any) -> tuple[Any, ...]:
    names = ("format", "canvas_size", "clamping_mode")
    return (type(value).__name__, *[str(getattr(value, name)) for name in names if hasattr(value, name) and not callable(value)])


def assert_equal(output: Any, expected: Any, case: Case) -> None:
    if isinstance(expected, Image.Image):
        assert output.mode == expected.mode
        difference = np.asarray(output).astype(int) - np.asarray(expected)
        assert output.size == expected.size and np.abs(difference).max() <= case.picture_levels
    elif hasattr(expected, "numpy"):
        assert described(output) == described(expected)
        output, expected = output.numpy(), expected.numpy()
        assert output.dtype == expected.dtype and output.shape == expected.shape
        tolerance = case.levels if expected.dtype.kind in "ui" else 1e-5 * max(1, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(output.astype(float), expected.astype(float), rtol=0, atol=tolerance)
    else:
        assert output == expected


@pytest.mark.oracle
@pytest.mark.parametrize(("form", "case"), CASES, ids=[f"{form}-{case.name}" for form, case in CASES])
def test_equals_torchvision(form, case, oracle):
    torchvision()
    for kind in case.kinds:
        for seed in range(case.seeds):
            expected = outputs(form, case, kind, seed, oracle, "torchvision")
            result = outputs(form, case, kind, seed, flambeau, "flambeau.vision")
            assert len(result) == len(expected), (kind, seed)
            for output, wanted in zip(result, expected):
                assert_equal(output, wanted, case)
