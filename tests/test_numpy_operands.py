"""Operators and NumPy's functions between arrays, NumPy's numbers and tensors: who answers, with what dtype."""

from __future__ import annotations

import copy
import operator
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau

ARRAYS: dict[str, Any] = {
    "matrix": np.ones((3, 3)),
    "float32": np.arange(3, dtype="f4"),
    "int64": np.arange(1, 4),
    "bool": np.array([True, False, True]),
    "0-d": np.array(2.0),
    "object": np.array([1, 2, 3], dtype=object),
    "words": np.array(["a", "b", "c"]),
    "np.float64": np.float64(2.5),
    "np.float32": np.float32(2.5),
    "np.int64": np.int64(3),
    "np.complex128": np.complex128(2j),
    "wrong size": np.ones(5),
    "negative stride": np.arange(3.0)[::-1],
}
TENSORS: dict[str, Any] = {
    "vector": lambda torch: torch.ones(3),
    "matrix": lambda torch: torch.ones(3, 3),
    "integers": lambda torch: torch.arange(1, 4),
    "0-d": lambda torch: torch.tensor(2.0),
    "0-d integer": lambda torch: torch.tensor(2),
    "bools": lambda torch: torch.tensor([True, False, True]),
    "recorded": lambda torch: torch.ones(3, requires_grad=True),
    "parameter": lambda torch: torch.nn.Parameter(torch.ones(3)),
}
WORDS = "add sub mul truediv floordiv mod matmul and_ or_ xor lshift rshift eq ne lt le gt ge iadd isub imul itruediv ifloordiv iand"
OPERATORS = {word: getattr(operator, word) for word in WORDS.split()}
UFUNCS = {function.__name__: function for function in (np.add, np.multiply, np.maximum, np.equal, np.arctan2)}


def outcome(torch: Any, function: Any, left: Any, right: Any) -> tuple[Any, ...]:
    """The type, dtype, shape and values of a result, or the type of an exception."""
    given = [copy.deepcopy(ARRAYS[operand]) if kind == "array" else TENSORS[operand](torch) for kind, operand in (left, right)]
    try:
        result = function(*given)
    except Exception as error:
        return (type(error),)
    if isinstance(result, torch.Tensor):
        return "tensor", str(result.dtype), tuple(result.shape), str(result.tolist())
    if isinstance(result, np.ndarray):
        return "array", str(result.dtype), result.shape, str(result.tolist()).replace("flambeau", "torch")
    return type(result), result


@pytest.mark.oracle
@pytest.mark.parametrize("array", ARRAYS)
def test_array_and_tensor_meet_as_in_pytorch(array: str) -> None:
    torch = pytorch()
    different = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, of the arguments of ``__array_wrap__`` in PyTorch
        for tensor in TENSORS:
            for word, function in {**OPERATORS, **UFUNCS}.items():
                for pair in ((("array", array), ("tensor", tensor)), (("tensor", tensor), ("array", array))):
                    ours, theirs = outcome(flambeau, function, *pair), outcome(torch, function, *pair)
                    if ours != theirs and not (len(ours) == len(theirs) == 1 and issubclass(ours[0], theirs[0])):
                        different.append(f"{word}{pair}: {ours}, PyTorch: {theirs}")
    assert not different, "\n".join(different)


def test_arrays_in_place_and_on_the_left() -> None:
    x, array = flambeau.tensor([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0])
    assert (x == array).tolist() == (array == x).tolist() == [False, True, False]
    assert (array / x).tolist() == [2.0, 1.0, 0.5] and (array / x).dtype is flambeau.float64
    before = x
    x += array  # NumPy answers, with a new tensor
    assert x.tolist() == [3.0, 4.0, 6.0] and x.dtype is flambeau.float64 and before.tolist() == [1.0, 2.0, 4.0]
    with pytest.raises(RuntimeError):
        x == np.ones(4)  # noqa: B015
    with pytest.raises(ValueError, match="negative"):
        x == array[::-1]  # noqa: B015
    with pytest.raises(TypeError):
        np.array([1, 2, 3], dtype=object) / x
