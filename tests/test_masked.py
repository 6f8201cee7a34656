"""``torch.masked``: functions of the elements that a mask shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

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


# -- tensors that carry a mask ----------------------------------------------------------------------------------------------------------
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors:UserWarning")


def _programs() -> dict[str, Callable[[Any, Any], Any]]:
    """What is computed with a masked tensor and a plain one, and compared with PyTorch together with the gradient."""
    unary = "abs asin atan cos cosh erf exp exp2 expm1 log log2 neg reciprocal rsqrt sin sqrt square tan".split()
    programs: dict[str, Callable[[Any, Any], Any]] = {name: lambda m, x, name=name: getattr(m, name)() for name in unary}
    return programs | {
        "binary": lambda m, x: (m * 2 + m / x - m) * x,
        "broadcasting": lambda m, x: m * x.new_ones(2, 1, 1),
        "sum": lambda m, x: m.sum(0),
        "mean": lambda m, x: m.mean(1, keepdim=True),
        "amax": lambda m, x: m.amax(0),
        "prod": lambda m, x: m.prod(1),
        "var": lambda m, x: m.var(1),
        "std": lambda m, x: m.std(),
        "softmax": lambda m, x: m.softmax(0) * m,
        "row": lambda m, x: m[0],
        "columns": lambda m, x: m[:, 1:].t(),
        "reshape": lambda m, x: m.reshape(-1)[1:3],
        "expand": lambda m, x: m.expand(2, 2, 4),
        "joined": lambda m, x: m.exp().unfold(0, 2, 1),
    }


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_masked_tensors_agree_with_pytorch() -> None:
    oracle = pytorch()
    for name, program in _programs().items():
        shown = []
        for library in (torch, oracle):
            x = library.tensor(VALUES.tolist()).abs() / 8
            m = library.masked.masked_tensor(x, library.tensor(MASK.tolist()), requires_grad=True)
            result = program(m, x)
            result.sum().backward()
            shown.append((repr(result), repr(m.grad), list(result.shape)))
        assert shown[0] == shown[1], name


def test_gradients_of_unspecified_elements_are_unspecified() -> None:
    x = torch.tensor([4.0, 0.0, 9.0], requires_grad=True)
    masked.as_masked_tensor(x.sqrt().reshape(3, 1)[:, 0] + 1, torch.tensor([True, False, True])).mean().backward()
    assert masked.is_masked_tensor(x.grad) and x.grad.get_mask().tolist() == [True, False, True]
    assert x.grad.to_tensor(7.0).tolist() == pytest.approx([0.125, 7.0, 1 / 12])
    a = masked.masked_tensor(torch.tensor(0.5), torch.tensor(True), requires_grad=True)
    (grad,) = torch.autograd.grad(torch.where(torch.tensor(False), a / 0, torch.ones(())), a)
    assert repr(grad) == "MaskedTensor(--, False)"
    m = masked.masked_tensor(torch.ones(2, 2), torch.eye(2).bool(), requires_grad=True)
    (m[0].sum() + m[1].sum() * 3).backward()
    assert m.grad.to_tensor(0).tolist() == [[1, 0], [0, 3]]
    seen = []
    m.register_hook(lambda grad: seen.append(masked.is_masked_tensor(grad)))
    m.exp().sum().backward()
    assert seen == [True] and m.is_leaf and m.requires_grad


def test_large_gradients_are_masked_too() -> None:
    x = torch.tensor([4.0, 0.0]).repeat(5000, 4).requires_grad_()  # rules of gradients this large run as one kernel
    masked.as_masked_tensor(x.sqrt().tanh().exp() + 1, x.detach() > 0).sum().backward()
    assert masked.is_masked_tensor(x.grad) and not x.grad.to_tensor(0.0).isnan().any() and x.grad.get_mask().sum() == 20000


def test_plain_tensors_are_copied_to_masked_ones() -> None:
    """The mask stays; of sparse ones the places, too."""
    data, mask = torch.tensor([[0.0, 1], [2, 3]]), torch.tensor([[True, False], [True, True]])
    masked = torch.masked.masked_tensor(data.clone(), mask)
    for source, expected in ((torch.full((2,), 7), 7), (torch.tensor(5.0), 5), (4, 4)):
        assert masked.copy_(source) is masked
        assert masked.get_data()[mask].tolist() == [expected] * 3 and (masked.get_mask() == mask).all()
    for form in (torch.sparse_coo, torch.sparse_csr):
        masked = torch.masked.masked_tensor(data.to_sparse(layout=form), (data != 0).to_sparse(layout=form))
        masked.copy_(torch.tensor([[9.0, 8], [0, 6]]).to_sparse(layout=form))
        assert masked.get_data().to_dense().tolist() == [[0, 8], [0, 6]]
        assert masked.get_mask().to_dense().tolist() == [[False, True], [True, True]]
        with pytest.raises(RuntimeError):
            masked.copy_(torch.ones(2, 2))
    with pytest.raises(TypeError):
        torch.ones(2, 2).copy_(masked)


def test_masked_tensors_in_place_and_out_of_reach() -> None:
    data, mask = torch.tensor([1.0, 2.0]), torch.tensor([True, False])
    m = masked.masked_tensor(data, mask)
    assert m.add_(1) is m and m.neg_().mul_(m) is m
    assert repr(m) == "MaskedTensor(\n  [  4.0000,       --]\n)" and data.tolist() == [1, 2]
    assert m.to_tensor(0).tolist()[1] == 0 and masked.sum(m).item() == m[0].item()
    assert (
        m.double().dtype is torch.float64 and repr(masked.masked_tensor(torch.tensor(2), torch.tensor(False))) == "MaskedTensor(--, False)"
    )
    for call, error in [
        (lambda: m + masked.masked_tensor(data, ~mask), ValueError),
        (lambda: m @ m, TypeError),
        (lambda: m.numpy(), RuntimeError),
        (lambda: m[1].item(), ValueError),
        (lambda: torch.round(m, decimals=1), ValueError),
        (lambda: torch.cat([m, data]), TypeError),
        (lambda: masked.masked_tensor(data, mask.int()), TypeError),
        (lambda: masked.masked_tensor(data, mask[:1]), ValueError),
        (lambda: masked.masked_tensor(data.bfloat16(), mask), TypeError),
        (lambda: masked.masked_tensor(m, mask), TypeError),
    ]:
        with pytest.raises(error):
            call()


def test_functions_follow_from_their_declarations() -> None:
    """Element by element with one operand or two, and what moves elements; no in-place form moves."""
    x = torch.masked.masked_tensor(torch.tensor([[1.0, -2.0], [3.0, -4.0]]), torch.tensor([[True, True], [False, True]]))
    slope, length = torch.nn.functional.leaky_relu(x, 0.5), torch.hypot(x, x)
    assert slope.get_data()[x.get_mask()].tolist() == [1.0, -1.0, -2.0] and torch.equal(slope.get_mask(), x.get_mask())
    assert torch.allclose(length.get_data(), x.get_data().abs() * 2**0.5) and torch.equal(length.get_mask(), x.get_mask())
    assert x.swapaxes(0, 1).get_mask().tolist() == [[True, False], [True, True]]
    for call in (x.t_, lambda: x.squeeze_(0), lambda: torch.frexp(x), lambda: torch.lerp(x, x, x)):
        with pytest.raises(TypeError, match="Multiple dispatch failed"):
            call()
    assert x.shape == (2, 2) and x.get_mask().tolist() == [[True, True], [False, True]]
