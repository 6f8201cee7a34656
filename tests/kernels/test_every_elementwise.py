"""Every element-wise operation has a native kernel made of its expression: each is called, and its kernel must have run and be right.

The list is the registry's, so an operation that is declared tomorrow is tested tomorrow.  ``WITHOUT`` names those without a kernel and why.
"""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.calls.registry import Entry, entries
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import pointwise as kernels

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.filterwarnings("ignore")

COMPLEX = "the result is complex: its reference asks a kernel of its own to join the parts"
SERIES = "the number of terms of its series and continued fractions depends on values"
WITHOUT: dict[str, str] = {"complex": COMPLEX, "polar": COMPLEX, "igamma": SERIES, "igammac": SERIES}
OPERATIONS = {e.key: e for e in entries() if isinstance(e, Entry) and e.elementwise}
DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool]
SHAPE = (3, 11003)  # more elements than any operation waits for before it asks for a kernel

# Attributes without a default that makes a sense of its own, and operands that have to lie in other places than (-3, 3).
ATTRIBUTES = {
    "_power_of_truth": {"exponent": True},
    "_divide_rounded": {"rounding_mode": "floor"},
    "clamp": {"min": 0, "max": 2},
    "_polygamma": {"n": 2},
    "threshold": {"threshold": 1, "value": 2},
    "_threshold_backward": {"threshold": 0.5},
    "_leaky_relu_backward": {"negative_slope": 0.1},
    "nn.functional._mse_loss_backward": {"factor": 2.0},
    "nn.functional._huber_loss_backward": {"delta": 1.0, "factor": 2.0},
    "logit": {"eps": 0.01},
}
ABOVE_ZERO = ("digamma", "_polygamma")  # below, SciPy is the less exact of the two; test_special.py asks mpmath
MASKS = ("mask", "condition")


def call(entry, dtype, shape=SHAPE):
    """Positional and keyword arguments for ``entry``."""
    rng = np.random.default_rng(0)
    positional, named = [], {}
    given = ATTRIBUTES.get(entry.key, {})
    for param in entry.params:
        if param.kind == "attr":
            if param.name not in given:
                continue
            value = given[param.name]
        elif (entry.key, param.name) == ("masked_fill", "value"):
            value = 1
        elif param.name in MASKS:
            value = torch.from_numpy(rng.random(shape) < 0.5)
        elif dtype is torch.bool:
            value = torch.from_numpy(rng.random(shape) < 0.5)
        elif param.name == "n":
            value = torch.from_numpy(rng.uniform(-1, 12, shape).astype(dtype.numpy))
        elif dtype.is_floating_point:
            low = 0.1 if entry.key in ABOVE_ZERO else -3
            value = torch.from_numpy(rng.uniform(low, 3, shape).astype(dtype.numpy))
        else:
            value = rng.integers(1, 9, shape) * (1 if dtype is torch.uint8 else rng.choice([1, -1], shape))
            value = torch.from_numpy(value.astype(dtype.numpy))
        if param.keyword_only:
            named[param.name] = value
        else:
            positional.append(value)
    return positional, named


def results(result):
    return [tensor.numpy() for tensor in (result if isinstance(result, tuple) else (result,))]


def is_for(entry, dtype):
    if entry.name.endswith("_backward") or entry.name == "_normal_area":  # parts of derivatives: nobody calls them with integers
        return dtype in (torch.float32, torch.float64)
    positional, named = call(entry, dtype, (2, 3))
    try:
        entry.wrapper(*positional, **named)
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


with native.disabled(), np.errstate(all="ignore"):
    CASES = [(name, dtype) for name, entry in OPERATIONS.items() for dtype in DTYPES if is_for(entry, dtype)]


@pytest.fixture
def launched(monkeypatch):
    """The native functions that were launched."""
    monkeypatch.setattr(kernels, "SPECIALISATIONS", 1 << 30)  # other tests of this process may have used them up
    addresses = []
    with pool.watched(lambda address, *rest: addresses.append(address)):
        yield addresses


def calls_on_arrays(entry, monkeypatch):
    """The calls of an operation's reference kernel on arrays, not on what stands for them while a kernel is made."""
    reference, calls = entry.kernel, []

    def watched(*arguments, **named):
        if any(argument.__class__ is np.ndarray and argument.ndim for argument in arguments):
            calls.append(arguments)
        return reference(*arguments, **named)

    monkeypatch.setattr(entry, "kernel", watched)
    return calls


def test_every_operation_is_tried():
    assert len(OPERATIONS) > 150
    assert {name for name, _ in CASES} == set(OPERATIONS)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_an_operation_runs_its_kernel(name, dtype, launched, monkeypatch):
    entry = OPERATIONS[name]
    positional, named = call(entry, dtype)
    with native.disabled():
        wanted = results(entry.wrapper(*positional, **named))
    on_arrays = calls_on_arrays(entry, monkeypatch)
    actual = results(entry.wrapper(*positional, **named))
    has_kernel = bool(launched) and not on_arrays
    assert has_kernel is (name not in WITHOUT), (
        f"{name} of {dtype}: {'a' if has_kernel else 'no'} kernel (FLAMBEAU_SHOW_TRACES=1 says more)"
    )
    assert len(actual) == len(wanted)
    for a, b in zip(actual, wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype.kind in "fc":
            eps = np.finfo(a.dtype).eps
            np.testing.assert_allclose(a, b, rtol=16 * eps, atol=4 * eps)
        else:
            assert np.array_equal(a, b)
