"""What tests of ``torch.compile`` have in common: calls of a compiled function give what those of the function give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.utils._pytree import tree_flatten


def programs(compiled: Any) -> list[Any]:
    call = compiled.__dict__["_call"]
    return list(call.programs)


def assert_equal(got: Any, want: Any) -> None:
    ours, spec = tree_flatten(got)
    theirs, other = tree_flatten(want)
    assert spec == other
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6, check_stride=True)
            assert a.requires_grad == b.requires_grad
        else:
            assert a == b and type(a) is type(b)


def agree(function: Callable[..., Any], *calls: tuple[Any, ...], most: int | None = None) -> Any:
    """Check that each call, made three times, gives the function's results, and how many programs there are; the compiled function."""
    compiled = torch.compile(function)
    for _ in range(3):
        for args in calls:
            torch.manual_seed(1)
            want = function(*args)
            torch.manual_seed(1)
            assert_equal(compiled(*args), want)
    if most is not None:
        assert len(programs(compiled)) == most
        assert all(program.failure is None for program in programs(compiled))
    return compiled
