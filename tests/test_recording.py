"""What is recorded of PyTorch comes back as it was, is small, and is found again."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from recording import FOLDER, Kept, Name, Recording, difference, digest, encode

ARRAYS = [
    np.float32([[1.5, np.nan, -0.0], [np.inf, 0, 1e-45]]),
    np.arange(6, dtype=np.int64).reshape(2, 3).T,
    np.arange(8.0)[::2],
    np.zeros((0, 3), np.complex64),
    np.array(True),
    np.float32([1, 2.5]).astype(ml_dtypes.bfloat16),
    np.lib.stride_tricks.as_strided(np.ones(1, np.float64), (3, 2), (0, 0)),
]
TENSORS = [Kept(array, Name(f"torch.{array.dtype.name}"), requires_grad=bool(k % 2)) for k, array in enumerate(ARRAYS)]
OUTCOMES = {
    "tensors": (TENSORS, None),
    "arrays": ARRAYS,
    "an error": (None, ValueError("wrong")),
    "plain": {"a": [1, 2.5, None, "text"], ("b", 2): (True, 1j, float("inf")), 3: Name("torch.int64"), "kind": TypeError},
}


@pytest.fixture
def written(tmp_path: Path) -> Recording:
    made = Recording(tmp_path / "area.xz")
    for key, outcome in OUTCOMES.items():
        made.add(key, outcome)
    made.write()
    return Recording.read(tmp_path / "area.xz")


@pytest.mark.parametrize("key", OUTCOMES)
def test_an_outcome_comes_back_as_it_was(written: Recording, key: str) -> None:
    assert not difference(OUTCOMES[key], written[key], True)


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_a_tensor_comes_back_with_its_strides_and_bits(written: Recording, number: int) -> None:
    was, now = TENSORS[number], written["tensors"][0][number]
    assert (was.dtype, was.shape, was.requires_grad) == (now.dtype, now.shape, now.requires_grad)
    assert not was.numel() or was.stride() == now.stride()
    assert was.array.tobytes() == now.array.tobytes()


def test_differences_are_told() -> None:
    one = Kept(np.float64([1, 2]), Name("torch.float64"))
    for other, words in (
        (Kept(np.float64([1, 2 + 1e-8]), Name("torch.float64")), "in place of"),
        (Kept(np.float32([1, 2]), Name("torch.float32")), "torch.float32[2]"),
        (Kept(np.float64([1]), Name("torch.float64")), "torch.float64[1]"),
    ):
        assert words in difference([other], [one], True) and words in difference((None, other), (None, one), True)
    assert not difference(Kept(np.float64([-1, -2]), Name("torch.float64")), one, False)
    assert difference([one], [one, one], True) and difference(ValueError(), TypeError(), True) and difference(1.0, 2.0, True)
    assert not difference(float("nan"), float("nan"), True)


def test_keys_tell_operands_apart() -> None:
    array = np.arange(6.0).reshape(2, 3)
    operands = [
        array,
        array.T,
        array.astype(np.float32),
        array + 1,
        [array],
        {"a": array},
        {"b": array},
        1,
        1.0,
        "1.0",
        np.dtype("float32"),
        None,
    ]
    keys = [digest("add", (operand,), {}) for operand in operands]
    assert len(set(keys)) == len(operands) - 1  # 1.0 is written as "1.0" is
    assert digest("sub", (array,), {}) != keys[0] == digest("add", (array.copy(),), {})


def test_what_is_recorded_is_small() -> None:
    files = list(FOLDER.glob("*.xz"))
    assert files and sum(path.stat().st_size for path in files) < 3 * 2**20


def test_values_of_equal_dtypes_are_kept_together() -> None:
    arrays = defaultdict(list)
    form = encode((TENSORS[0], ARRAYS[0]), arrays)
    assert form[0] == "(" and [part[0] for part in form[1:]] == ["t", "a"] and list(arrays) == ["float32"] and len(arrays["float32"]) == 2


def test_a_recording_of_some_keeps_the_others(tmp_path: Path, written: Recording) -> None:
    more = Recording.read(tmp_path / "area.xz")
    more.add("plain", [1])
    more.add("another", TENSORS[1])
    more.write()
    again = Recording.read(tmp_path / "area.xz")
    assert again["plain"] == [1] and {*again.forms} == {*OUTCOMES, "another"}
    assert not difference(OUTCOMES["tensors"], again["tensors"], True)
