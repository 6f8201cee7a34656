"""``flambeau.spaces``: numbers to choose from."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.spaces import Discrete


def test_samples_come_from_the_spaces_own_generator():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    space = Discrete(3, seed=7, start=-1)
    drawn = [space.sample() for _ in range(50)]
    assert torch.equal(torch.rand(1), expected) and set(drawn) == {-1, 0, 1} and all(type(number) is int for number in drawn)
    assert space.seed(7) == [7] and drawn == [space.sample() for _ in range(50)]
    assert isinstance(space.seed()[0], int)


def test_what_a_space_contains():
    space = Discrete(3)
    inside = [0, 2, True, np.int64(1), np.array(2), torch.tensor(2)]
    outside = [3, -1, 1.0, "1", None, [1], torch.tensor(1.0), torch.tensor([1]), torch.tensor(3), np.array([1.0])]
    assert all(space.contains(x) and x in space for x in inside) and not any(space.contains(x) for x in outside)


def test_spaces_compare_and_print():
    assert Discrete(3) == Discrete(3, seed=5) != Discrete(4) and Discrete(3) != 3 and hash(Discrete(3)) == hash(Discrete(3))
    assert repr(Discrete(3)) == "Discrete(3)" and repr(Discrete(3, start=2)) == "Discrete(3, start=2)"
    with pytest.raises(ValueError, match="at least one number"):
        Discrete(0)
    with pytest.raises(TypeError):
        Discrete(2.5)
