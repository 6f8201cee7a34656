"""Quantized tensors beside PyTorch's: integers, numbers, views, text, files, and what is refused."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*quantized tensor creation functions", "ignore:TypedStorage is deprecated", "ignore:All inputs of this cat"
)
DATA = np.array([[-1.0, 0.26, 0.5, 2.0], [0.125, 0.375, -7.0, 90.0]], np.float32)


def made(torch: Any, dtype: str = "quint8") -> Any:
    return torch.quantize_per_tensor(torch.tensor(DATA), 0.25, 10, getattr(torch, dtype))


def by_channel(torch: Any, dtype: str = "qint8", points: Any = (0, 3)) -> Any:
    return torch.quantize_per_channel(torch.tensor(DATA), torch.tensor([0.1, 0.5]), torch.tensor(points), 0, getattr(torch, dtype))


def same(ours: Any, theirs: Any) -> None:
    """Equal in integers, numbers, text, and how they were quantized."""
    assert repr(ours) == repr(theirs)
    assert ours.int_repr().tolist() == theirs.int_repr().tolist() and str(ours.int_repr().dtype) == str(theirs.int_repr().dtype)
    assert ours.dequantize().tolist() == theirs.dequantize().tolist()
    assert str(ours.dtype) == str(theirs.dtype) and repr(ours.qscheme()) == repr(theirs.qscheme())
    assert tuple(ours.shape) == tuple(theirs.shape) and ours.stride() == theirs.stride() and ours.element_size() == theirs.element_size()


@pytest.fixture(scope="module")
def oracle() -> Any:
    torch = pytorch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made(torch)
    return torch


@pytest.mark.oracle
@pytest.mark.parametrize(
    "make",
    [
        *[lambda torch, dtype=dtype: made(torch, dtype) for dtype in ("quint8", "qint8", "qint32")],
        by_channel,
        lambda torch: by_channel(torch, "quint8", (0.5, 1.0)),
        lambda torch: torch.quantize_per_tensor(torch.tensor(DATA), torch.tensor(0.1), torch.tensor(3), torch.qint8),
        lambda torch: torch.quantize_per_tensor([torch.tensor(DATA)] * 2, torch.tensor([0.1, 0.2]), torch.tensor([3, 4]), torch.qint8)[1],
        lambda torch: torch.quantize_per_tensor_dynamic(torch.tensor(DATA), torch.quint8, False),
        lambda torch: torch.quantize_per_tensor_dynamic(torch.tensor(DATA), torch.qint8, True),
        lambda torch: torch._make_per_tensor_quantized_tensor(torch.tensor([1, 2], dtype=torch.uint8), 0.5, 1),
        lambda torch: torch._make_per_channel_quantized_tensor(torch.ones(1, 2).char(), torch.tensor([0.5]), torch.tensor([1]), 0),
        lambda torch: made(torch)[1],
        lambda torch: made(torch)[:, 1:3],
        lambda torch: made(torch).t(),
        lambda torch: made(torch).reshape(4, 2).clone(),
        lambda torch: made(torch).chunk(2, 1)[1],
        lambda torch: by_channel(torch)[1],
        lambda torch: by_channel(torch).clone(),
        lambda torch: torch.cat([made(torch), torch.quantize_per_tensor(torch.tensor(DATA), 0.5, 0, torch.quint8)]),
        lambda torch: made(torch).copy_(torch.ones(2, 4)),
    ],
    ids=lambda make: f"line{make.__code__.co_firstlineno}{make.__defaults__ or ''}",
)
def test_agrees_with_pytorch(make: Any, oracle: Any) -> None:
    same(make(flambeau), make(oracle))


@pytest.mark.oracle
@pytest.mark.parametrize(
    "call",
    [
        lambda torch: by_channel(torch).q_scale(),
        lambda torch: made(torch).q_per_channel_axis(),
        lambda torch: made(torch) + made(torch),
        lambda torch: made(torch).sum(),
        lambda torch: made(torch).numpy(),
        lambda torch: by_channel(torch).t(),
        lambda torch: torch.quantize_per_tensor(torch.ones(2), 0.1, 300, torch.quint8),
        lambda torch: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.float),
        lambda torch: torch.quantize_per_tensor(torch.ones(2).double(), 0.1, 0, torch.qint8),
        lambda torch: torch.quantize_per_channel(torch.ones(2, 3), torch.tensor([0.1]), torch.tensor([0]), 0, torch.qint8),
        lambda torch: torch.ones(2).int_repr(),
        lambda torch: torch.ones(2).qscheme(),
    ],
    ids=lambda call: f"line{call.__code__.co_firstlineno}",
)
def test_refuses_what_pytorch_refuses(call: Any, oracle: Any) -> None:
    with pytest.raises(Exception) as theirs:
        call(oracle)
    with pytest.raises(theirs.type):
        call(flambeau)


def test_views_share_memory_and_comparisons_are_of_numbers() -> None:
    q = made(flambeau)
    q[0].copy_(flambeau.zeros(4))
    assert q.dequantize()[0].tolist() == [0, 0, 0, 0] and (q == 0)[0].all()
    assert flambeau.equal(q, q.clone()) and not q.equal(made(flambeau)) and q.is_quantized and not q.is_floating_point()
    assert flambeau.int_repr(q).tolist() == q.int_repr().tolist() and flambeau.dequantize([q, q])[1].tolist() == q.dequantize().tolist()
    with pytest.raises(NotImplementedError, match="call dequantize first"):
        flambeau.nn.functional.gelu(q)


CHOSEN_AND_CLAMPED = {
    "max": lambda torch, q: [q.max(), q.max(1), q.min(0), torch.min(q)],
    "sort": lambda torch, q: [q.sort(), q.topk(2), torch.sort(q, descending=True)],
    "clamp": lambda torch, q: [
        q.relu(),
        torch.nn.functional.relu(q),
        q.clamp(-0.3, 0.6),
        torch.clamp(q, max=0.2),
        torch.nn.functional.hardtanh(q),
    ],
    "mean": lambda torch, q: [q.mean(), q.mean(1)],
    "pools": lambda torch, q: [
        torch.nn.functional.max_pool2d(q[None, None], 2),
        torch.nn.functional.adaptive_avg_pool2d(q[None, None], 1),
        torch.nn.functional.avg_pool2d(q[None, None], 2),
    ],
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CHOSEN_AND_CLAMPED)
def test_quantized_elements_are_chosen_clamped_and_pooled(name: str, oracle) -> None:
    def results(torch):
        x = torch.arange(16, dtype=torch.float32).sin().reshape(4, 4)
        return [str(result) for result in CHOSEN_AND_CLAMPED[name](torch, torch.quantize_per_tensor(x, 0.1, 7, torch.quint8))]

    assert results(flambeau) == results(oracle)


@pytest.mark.oracle
@pytest.mark.parametrize("make", [made, by_channel], ids=["tensor", "channel"])
def test_files_go_both_ways(make: Any, oracle: Any, tmp_path: Path) -> None:
    flambeau.save({"q": make(flambeau)}, tmp_path / "ours")
    same(make(flambeau), oracle.load(tmp_path / "ours", weights_only=False)["q"])
    oracle.save({"q": make(oracle)}, tmp_path / "theirs")
    back = flambeau.load(tmp_path / "theirs")["q"]
    same(back, make(oracle))
    assert copy.deepcopy(back).equal(back)


@pytest.mark.oracle
def test_gradients_pass_within_the_range(oracle: Any) -> None:
    for dtype in ("float32", "float64"):
        results = []
        for torch in (flambeau, oracle):
            x = torch.tensor(DATA, dtype=getattr(torch, dtype), requires_grad=True)
            point = torch.tensor([0, 3], dtype=torch.int32)
            y = torch.fake_quantize_per_tensor_affine(x, 0.25, 2, -3, 12) * 2
            z = torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1, 0.5]), point, 0, -8, 7)
            (y + z).sum().backward()
            results.append((y.tolist(), z.tolist(), x.grad.tolist()))
        np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


@pytest.mark.oracle
def test_a_copied_quantized_tensor_brings_its_scale_along(oracle: Any) -> None:
    for torch in (flambeau, oracle):
        target, source = made(torch), torch.quantize_per_tensor(torch.tensor(DATA), 2.5, 4, torch.quint8)
        assert target.copy_(source) is target
        assert target.q_scale() == 2.5 and target.q_zero_point() == 4
        assert target.dequantize().tolist() == source.dequantize().tolist()
        for other in (by_channel(torch), made(torch, "qint8")):
            with pytest.raises(RuntimeError, match="same qscheme|scalar_type"):
                target.copy_(other)


def test_a_quantized_copy_does_not_narrow_its_range() -> None:
    target, source = made(flambeau), flambeau.quantize_per_tensor(flambeau.tensor([[1000.0] * 4] * 2), 4.0, 0, flambeau.quint8)
    assert target.copy_(source).dequantize().tolist() == [[1000.0] * 4] * 2


def test_in_place_forms_move_nothing() -> None:
    x = flambeau.quantize_per_tensor(flambeau.arange(6.0).reshape(2, 3), 0.1, 0, flambeau.qint8)
    assert x.unfold(1, 2, 1).dequantize().tolist() == flambeau.arange(6.0).reshape(2, 3).unfold(1, 2, 1).tolist()
    for call in (x.t_, lambda: x.unsqueeze_(0)):
        with pytest.raises(NotImplementedError, match="call dequantize first"):
            call()
    assert x.shape == (2, 3)
