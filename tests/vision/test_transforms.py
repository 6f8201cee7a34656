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


def _row_of(library: Any) -> Any:
    return library.arange(51).view(3, 1, 17).to(library.uint8)


UNUSUAL = {
    "no masks, padded": lambda F, t: F.pad(t.zeros(0, 5, 4, dtype=t.uint8), [1, 2]),
    "no rows, padded": lambda F, t: F.pad(t.zeros(2, 3, 0, 4), [1, 2]),
    "no border, colours of another image": lambda v2, t: v2.pad(t.ones(2, 2, 3, 3), 0, fill=[1.0, 2.0, 3.0]),
    "bytes to bool": lambda F, t: F.convert_image_dtype(_row_of(t) * 5, t.bool),
    "bool to bytes": lambda F, t: F.convert_image_dtype(_row_of(t) > 20, t.uint8),
    "whole numbers to bool": lambda F, t: F.convert_image_dtype(_row_of(t).int() << 25, t.bool),
    "bool resized": lambda F, t: F.resize(_row_of(t) % 5 == 0, [3, 4]),
    "bool in grey": lambda F, t: F.rgb_to_grayscale(_row_of(t) % 5 == 0),
    "below zero in grey": lambda F, t: F.rgb_to_grayscale(_row_of(t).int() * -7),
    "grey in grey": lambda F, t: F.rgb_to_grayscale(_row_of(t)[:1], 3),
    "bool inverted": lambda v2, t: v2.invert(_row_of(t) > 20),
    "row in perspective": lambda F, t: F.perspective(_row_of(t), [[0, 0], [16, 0], [16, 0], [0, 0]], [[1, 0], [16, 0], [15, 0], [0, 0]]),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", UNUSUAL)
def test_functions_of_unusual_images(name, oracle):
    torchvision()
    call = UNUSUAL[name]
    for form in ["v2.functional"] if call.__code__.co_varnames[0] == "v2" else ["functional", "v2.functional"]:
        results = []
        for library, package in ((oracle, "torchvision"), (flambeau, "flambeau.vision")):
            try:
                results.append(call(importlib.import_module(f"{package}.transforms.{form}"), library).numpy())
            except (RuntimeError, TypeError, NotImplementedError) as error:
                results.append(type(error).__name__)
        assert type(results[0]) is type(results[1]), (form, results)
        np.testing.assert_array_equal(results[1], results[0], strict=True)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "make", [lambda T: T.AutoAugment(), lambda T: T.RandAugment(9), lambda T: T.TrivialAugmentWide(), lambda T: T.AugMix()]
)
def test_classic_augmentation_of_floats_is_refused_where_its_operations_refuse_them(make, oracle):
    outcomes = []
    for library, T in ((oracle, torchvision().transforms), (flambeau, flambeau.vision.transforms)):
        outcomes.append([])
        for seed in range(12):
            library.manual_seed(seed)
            try:
                make(T)(library.rand(3, 9, 9))
                outcomes[-1].append("")
            except TypeError as error:
                outcomes[-1].append(str(error))
    assert outcomes[0] == outcomes[1] and any(outcomes[0])


OF_BYTES = {
    "resize": lambda F, x: F.resize(x, [8, 40]),
    "resize sharply": lambda F, x: F.resize(x, [8, 11], antialias=False),
    "resize the shorter side": lambda F, x: F.resize(x, 12, max_size=14),
    "sharper": lambda F, x: F.adjust_sharpness(x, 1.7),
    "smoother": lambda F, x: F.adjust_sharpness(x, 0.3),
    "contrast stretched": lambda F, x: F.autocontrast(x // 2 + 20),
    "contrast": lambda F, x: F.adjust_contrast(x, 1.3),
    "saturation": lambda F, x: F.adjust_saturation(x, 0.4),
    "hue": lambda F, x: F.adjust_hue(x, -0.21),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", OF_BYTES)
def test_classic_functions_of_bytes_differ_by_no_level(name, oracle):
    torchvision()
    results = []
    for library, package in ((oracle, "torchvision"), (flambeau, "flambeau.vision")):
        image = sample("bytes", library, None)
        results.append(OF_BYTES[name](importlib.import_module(f"{package}.transforms.functional"), image).numpy())
    np.testing.assert_array_equal(*results, strict=True)
