"""In-place ufuncs over memory with steps of every width: NumPy's own loops are wrong for some of them."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch

UNARY = ("neg", "abs", "square", "sqrt", "exp", "floor", "sign", "reciprocal", "bitwise_not", "relu", "tanh", "sin")
BINARY = ("add", "sub", "mul", "div", "maximum", "bitwise_and", "remainder", "pow")
DTYPES = ("float32", "float64", "int32", "int64", "int8", "uint8")


def defined(name: str, dtype: str) -> bool:
    if name.startswith("bitwise"):
        return "int" in dtype
    return "float" in dtype or name in ("neg", "abs", "square", "floor", "sign", "add", "sub", "mul", "maximum", "remainder")


def written(name: str, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """``x`` after ``name`` in place, or by ``out=`` where there is no such form."""
    if hasattr(x, f"{name}_"):
        return getattr(x, f"{name}_")(*others)
    return getattr(torch, name)(x, *others, out=x)


CASES = [(name, dtype) for name in (*UNARY, *BINARY) for dtype in DTYPES if defined(name, dtype)]


@pytest.mark.parametrize("count", [3, 70, 9000])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_in_place_with_steps_equals_out_of_place(name: str, dtype: str, count: int) -> None:
    for step in (1, 2, 3, 4, 5, 7, 8, 16):
        base = torch.arange(count * step).remainder(7).to(getattr(torch, dtype)) + 1
        x = base[::step]
        others = (torch.arange(count).remainder(3).to(x.dtype) + 1,) if name in BINARY else ()
        want = getattr(torch, name)(x.clone(), *others).numpy()
        untouched = base.numpy().copy()
        untouched[::step] = want
        written(name, x, *others)
        near = 4 * np.finfo(dtype).eps if "float" in dtype else 0  # loops for neighbours may round otherwise
        np.testing.assert_allclose(base.numpy(), untouched, rtol=near)


@pytest.mark.parametrize("shape", [(7, 2), (8, 3), (4, 4), (2, 5)])
def test_a_wrapped_diagonal_in_any_layout(shape: tuple[int, int]) -> None:
    """As ``np.fill_diagonal`` has it, which PyTorch does for row-major memory only."""
    expected = np.zeros(shape, np.float32)
    np.fill_diagonal(expected, 3, wrap=True)
    for x in (torch.zeros(shape), torch.zeros(shape[::-1]).t(), torch.zeros(2 * shape[0], shape[1])[::2]):
        assert x.fill_diagonal_(3, wrap=True) is x
        np.testing.assert_array_equal(x.numpy(), expected)


# -- tensors that overlap themselves ------------------------------------------------------------------------------------------------
FILLS = {
    "masked_fill_": (lambda v: v.masked_fill_(v > 2, 7), [0.5, 1.5, 7.0]),
    "masked_fill_ with a tensor": (lambda v: v.masked_fill_(v > 2, torch.tensor(7.0)), [0.5, 1.5, 7.0]),
    "a mask that differs from row to row": (
        lambda v: v.masked_fill_(torch.tensor([[True, False, False], [False, True, False]]), 7),
        [7.0, 7.0, 3.0],
    ),
    "NaN": (lambda v: v.masked_fill_(torch.tensor([[True, False, False], [False, False, False]]), float("nan")), [float("nan"), 1.5, 3.0]),
    "index_fill_": (lambda v: v.index_fill_(1, torch.tensor([0]), 7), [7.0, 1.5, 3.0]),
    "index_fill_ with a tensor": (lambda v: v.index_fill_(1, torch.tensor([2]), torch.tensor(7.0)), [0.5, 1.5, 7.0]),
    "setitem with a mask": (lambda v: v.__setitem__(v > 1, 0), [0.5, 0.0, 0.0]),
    "tril_": (lambda v: v.tril_(), [0.5, 0.0, 0.0]),
    "triu_": (lambda v: v.triu_(), [0.0, 1.5, 3.0]),
    "threshold_": (lambda v: torch.nn.functional.threshold_(v, 1, 0), [0.0, 1.5, 3.0]),
}


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_parts_of_expanded_tensors_are_filled(name: str, requires_grad: bool) -> None:
    """A place is written if any of the elements that lie there is; PyTorch allows these, and refuses arithmetic."""
    fill, want = FILLS[name]
    base = torch.tensor([0.5, 1.5, 3.0], requires_grad=requires_grad) * 1
    fill(base.expand(2, 3))
    np.testing.assert_array_equal(base.tolist(), want)
    with pytest.raises(RuntimeError, match="single memory location"):
        base.expand(2, 3).add_(1)


def test_numbers_are_copied() -> None:
    x = torch.ones(2, dtype=torch.int64)
    for value, expected in ((5, 5), (2.7, 2), (True, 1), (3 + 1j, 3)):
        assert x.copy_(value) is x
        assert x.tolist() == [expected] * 2
    with pytest.raises(TypeError):
        x.copy_([1, 2])
