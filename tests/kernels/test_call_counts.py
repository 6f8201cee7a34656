"""How many Python functions a large call passes through on its way to native kernels: a bound, since each costs about 50 ns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("flambeau.kernels.families.reduction")

from test_call_counts import calls_of, forward_and_backward

import flambeau as torch
from flambeau.core.arrays import native


@pytest.fixture(autouse=True)
def only_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests make kinds of array known; looking for them is one more function a call."""
    monkeypatch.setattr(native, "foreign", set())


def test_a_forward_and_backward_pass() -> None:
    counts = calls_of(forward_and_backward(torch.randn(64, 256), 256))
    assert counts.total() <= 110, counts.most_common(30)


X = torch.ones(200, 200)
CALLS: dict[str, tuple[Callable[[], Any], int]] = {  # this test's lambda is one of the functions
    "exp": (lambda: torch.exp(X), 5),
    "add": (lambda: torch.add(X, X), 5),
    "add_": (lambda: X.add_(X), 4),
    "sum": (lambda: torch.sum(X, 1), 5),
    "softmax": (lambda: torch.softmax(X, 1), 8),
    "clone": (lambda: torch.clone(X), 9),
    "cat": (lambda: torch.cat([X, X]), 24),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_call(name: str) -> None:
    call, bound = CALLS[name]
    counts = calls_of(call)
    assert counts.total() <= bound, counts.most_common()
