"""PyTorch's keywords in every public function and method; ``keyword_calls.py`` says how."""

from __future__ import annotations

import pytest
from oracle import pytorch

import flambeau


@pytest.mark.oracle
@pytest.mark.slow
def test_every_overload_is_called_by_keyword() -> None:
    pytorch()
    pytest.importorskip("expecttest")  # torch.testing._internal needs it
    from keyword_calls import FUNCTIONS, compared, unreached

    reached, different = set(), []
    for name in FUNCTIONS:
        calls = compared(name)
        reached |= calls.reached
        different += calls.outcome.mismatches
    different += unreached(reached)
    assert not different, "\n".join(map(str, different))
    assert len(reached) > 1200


def test_sizes_by_keyword() -> None:
    x = flambeau.arange(6)
    assert x.reshape(shape=(2, 3)).shape == x.view(size=(2, 3)).shape == x.repeat(repeats=(2, 1))[:, :3].shape == (2, 3)
    assert x.expand(size=(2, 6)).shape == x[None].sum_to_size(size=(1, 6)).expand(2, -1).shape == x.tile(dims=(2, 1)).shape == (2, 6)
    assert x[None].permute(dims=(1, 0)).shape == x[None].swapaxes(axis0=0, axis1=1).shape == x[None].swapaxes_(axis0=0, axis1=1).shape
    assert [len(part) for part in x.hsplit(sections=2)] == [len(part) for part in x.tensor_split(indices=[3])] == [3, 3]
    for call in (lambda: x.reshape(2, 3, shape=(6,)), lambda: x.view(2, 3, size=(6,)), lambda: x.expand(6, size=(6,)), x.reshape, x.hsplit):
        with pytest.raises((TypeError, RuntimeError)):
            call()
