"""``torch.masked``: functions of the elements that a mask shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau import masked

VALUES = np.array([[1.0, -2.0, 3.0, 0.5], [4.0, 5.0, -6.0, 2.0]])
MASK = np.array([[True, False, True, True], [False, True, False, True]])
SHOWN = [VALUES[0, [0, 2, 3]], VALUES[1, [1, 3]]]  # what the mask shows of each row


def _median(row: np.ndarray) -> float:
    return float(np.sort(row)[(len(row) - 1) // 2])


@pytest.mark.parametrize(
    ("name", "of_row", "of_none", "options"),
    [
        ("sum", np.sum, 0.0, {}),
        ("prod", np.prod, 1.0, {}),
        ("amax", np.max, -math.inf, {}),
        ("amin", np.min, math.inf, {}),
        ("mean", np.mean, math.nan, {}),
        ("median", _median, math.nan, {}),
        ("logsumexp", np.logaddexp.reduce, -math.inf, {}),
        ("norm", np.linalg.norm, 0.0, {}),
        ("norm", lambda row: np.abs(row).min(), math.inf, {"ord": -math.inf}),
        ("var", lambda row: row.var(ddof=1), math.nan, {}),
        ("var", np.var, math.nan, {"unbiased": False}),
        ("std", lambda row: row.std(ddof=1), math.nan, {"correction": 1}),
    ],
)
def test_reductions(name: str, of_row: Callable[..., Any], of_none: float, options: dict[str, Any]) -> None:
    function = getattr(masked, name)
    x, mask = torch.tensor(VALUES), torch.tensor(MASK)
    expected = torch.tensor([float(of_row(row)) for row in SHOWN], dtype=torch.float64)
    torch.testing.assert_close(function(x, dim=1, mask=mask, **options), expected)
    torch.testing.assert_close(function(x, dim=1, keepdim=True, mask=mask, **options), expected[:, None])
    nothing = function(x, dim=1, mask=torch.tensor(False), **options)
    torch.testing.assert_close(nothing, torch.full((2,), of_none, dtype=torch.float64), equal_nan=True)
    everything = torch.tensor([float(of_row(row)) for row in VALUES], dtype=torch.float64)
    torch.testing.assert_close(function(x, dim=1, **options), everything)
    if name != "median":
        whole = float(of_row(np.concatenate(SHOWN)))
        assert function(x, mask=mask, **options).item() == pytest.approx(whole)


def test_places_are_in_the_dtype_of_the_input() -> None:
    x, mask = torch.tensor(VALUES), torch.tensor(MASK)
    assert masked.argmax(x, 1, mask=mask).tolist() == [2.0, 1.0]
    assert masked.argmin(x, 1, mask=mask, dtype=torch.int64).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x, m: masked.softmax(x, 1, mask=m), lambda row: np.exp(row) / np.exp(row).sum()),
        (lambda x, m: masked.log_softmax(x, 1, mask=m).exp(), lambda row: np.exp(row) / np.exp(row).sum()),
        (lambda x, m: masked.softmin(x, 1, mask=m), lambda row: np.exp(-row) / np.exp(-row).sum()),
        (lambda x, m: masked.normalize(x, 2.0, 1, mask=m), lambda row: row / np.linalg.norm(row)),
        (lambda x, m: masked.cumsum(x, 1, mask=m), np.cumsum),
        (lambda x, m: masked.cumprod(x, 1, mask=m), np.cumprod),
    ],
)
def test_along_one_dimension(call: Callable[..., Any], expected: Callable[..., Any]) -> None:
    x, mask = torch.tensor(VALUES, requires_grad=True), torch.tensor(MASK)
    result = call(x, mask)
    for row, shown, values in zip(result, MASK, SHOWN, strict=True):
        np.testing.assert_allclose(row.detach().numpy()[shown], expected(values))
    (gradient,) = torch.autograd.grad((result * torch.arange(8.0).reshape(2, 4).double()).nan_to_num().sum(), x)
    assert (gradient.numpy()[~MASK] == 0).all()


def test_logaddexp_adds_nothing_where_hidden() -> None:
    x, mask = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, False])
    result = masked.logaddexp(x, x, input_mask=mask, other_mask=torch.tensor([True, True, False]))
    assert result.tolist() == pytest.approx([1 + math.log(2), 2.0, -math.inf])


def test_integers() -> None:
    x, mask = torch.tensor([[3, -1], [2, 7]]), torch.tensor([[True, False], [False, False]])
    assert masked.sum(x.to(torch.int8), 1, mask=mask).dtype is torch.int64
    assert masked.amax(x, 1, mask=mask).tolist() == [3, torch.iinfo(torch.int64).min]
    with pytest.raises(ValueError, match="Could not infer output dtype"):
        masked.mean(x, 1, mask=mask)
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(x, 1, mask=mask)
    with pytest.raises(NotImplementedError, match=r"identity of amin on torch\.bool"):
        masked.amin(mask, 1, mask=mask)


def test_masks_that_do_not_fit() -> None:
    with pytest.raises(IndexError, match="mask dimensionality higher"):
        masked.sum(torch.ones(3), mask=torch.ones(2, 3))
    with pytest.raises(RuntimeError):
        masked.sum(torch.ones(3), mask=torch.ones(2))
    with pytest.raises(NotImplementedError, match=r"torch\.masked\.masked_tensor"):
        masked.masked_tensor(torch.ones(3), torch.ones(3).bool())
