"""``torch.signal.windows``: values beside SciPy's, shapes, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from scipy.signal import windows as reference

import flambeau as torch

WINDOWS = [
    ("bartlett", {}, ()),
    ("blackman", {}, ()),
    ("cosine", {}, ()),
    ("exponential", {"tau": 2.0}, (None, 2.0)),
    ("gaussian", {"std": 1.5}, (1.5,)),
    ("general_cosine", {"a": [0.5, 0.3, 0.2]}, ([0.5, 0.3, 0.2],)),
    ("general_hamming", {"alpha": 0.3}, (0.3,)),
    ("hamming", {}, ()),
    ("hann", {}, ()),
    ("kaiser", {"beta": 3.0}, (3.0,)),
    ("nuttall", {}, ()),
]


@pytest.mark.parametrize(("name", "options", "args"), WINDOWS, ids=[name for name, *_ in WINDOWS])
def test_values(name: str, options: dict[str, Any], args: tuple[Any, ...]) -> None:
    function = getattr(torch.signal.windows, name)
    for points in (2, 5, 8):
        for sym in (True, False):
            window = function(points, sym=sym, dtype=torch.float64, **options)
            torch.testing.assert_close(window, torch.tensor(getattr(reference, name)(points, *args, sym=sym)), rtol=1e-12, atol=1e-12)
    assert function(0, **options).shape == (0,)
    assert function(1, **options).tolist() == [1.0]


def test_options() -> None:
    window = torch.signal.windows.hann(5, dtype=torch.float64, requires_grad=True)
    assert window.dtype is torch.float64
    assert window.requires_grad
    assert torch.signal.windows.hann(5, device="meta").device.type == "meta"


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("hann", {"M": -1}, ValueError, "non-negative window length, got M=-1"),
        ("hann", {"dtype": torch.int64}, ValueError, "expects float32 or float64 dtypes, got: torch.int64"),
        ("hann", {"layout": torch.sparse_coo}, ValueError, "strided tensors only"),
        ("gaussian", {"std": 0.0}, ValueError, "must be positive"),
        ("exponential", {"tau": -1.0}, ValueError, "must be positive"),
        ("exponential", {"center": 1.0}, ValueError, "must be None for symmetric windows"),
        ("kaiser", {"beta": -1.0}, ValueError, "must be non-negative"),
        ("general_cosine", {"a": []}, ValueError, "cannot be empty"),
        ("general_cosine", {"a": 3}, TypeError, "must be a list/tuple"),
    ],
)
def test_errors(name: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        getattr(torch.signal.windows, name)(**{"M": 5, **options})
