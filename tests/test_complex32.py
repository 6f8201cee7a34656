"""complex32: pairs of float16 in memory, complex64 in kernels."""

from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import OURS
from oracle import pytorch
from records import RECORDS
from records.record import Maker

import flambeau

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
HALF, WIDE = flambeau.complex32, flambeau.complex64
NARROW = {WIDE: HALF, flambeau.float32: flambeau.float16}
SKIPPED = {"asarray", "where", "equal", "gradient"}  # beside operands of other dtypes


def values(*shape: int) -> Any:
    flambeau.manual_seed(0)
    return flambeau.randn(shape, dtype=WIDE).to(HALF)


def mapped(value: Any, function: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(item, function) for item in value])
    return function(value) if isinstance(value, np.ndarray) and value.dtype == np.complex64 else value


def as_half(array: np.ndarray) -> Any:
    return flambeau.core.tensor.wrap(array.copy()).to(HALF)


@pytest.mark.parametrize(
    "names",
    [tuple(name for name, record in RECORDS.items() if "complex64" in record.dtypes and not record.random and name not in SKIPPED)],
    ids=["all"],
)
def test_operations_give_what_complex64_gives(names: tuple[str, ...]) -> None:
    """Whatever takes complex32 computes as with complex64, rounded; what does not raises."""
    computed = 0
    for name in names:
        sample = next(iter(RECORDS[name].samples(Maker("complex64", name))))
        if "complex64" in repr((sample.args, sample.kwargs)) and "array" not in repr(sample.args):
            continue
        half = mapped(sample.args, as_half)
        wide = _widened(half)
        want, expected = OURS.attempt(OURS.function(name), *OURS.arguments(wide), **OURS.arguments(sample.kwargs))
        got, error = OURS.attempt(OURS.function(name), *OURS.arguments(half), **OURS.arguments(sample.kwargs))
        if expected is not None or error is not None:
            continue
        computed += 1
        for a, b in zip(_tensors(got), _tensors(want), strict=True):
            np.testing.assert_allclose(OURS.array(a), OURS.array(b), rtol=2e-2, atol=2e-2, err_msg=name)
            assert b.dtype not in NARROW or a.dtype in (NARROW[b.dtype], b.dtype), name
    assert computed > 200


def _widened(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([_widened(item) for item in value])
    return value.to(WIDE) if isinstance(value, flambeau.Tensor) and value.dtype is HALF else value


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value.detach()] if isinstance(value, flambeau.Tensor) else []


@pytest.mark.oracle
@pytest.mark.parametrize("data", [[1 + 2j, 3.5 - 1j], [1 + 1e-3j], [], 1.5, [[1e4j, 2], [3, float("inf")]]], ids=repr)
def test_printing_is_pytorchs(data: Any) -> None:
    torch = pytorch()
    assert repr(flambeau.tensor(data, dtype=HALF)) == repr(torch.tensor(data, dtype=torch.complex32))


def test_numbers_come_back() -> None:
    x = flambeau.tensor([1 + 2j, 3.5 - 1j], dtype=HALF)
    assert x.tolist() == [1 + 2j, 3.5 - 1j] and x[1].item() == 3.5 - 1j
    assert x.is_complex() and not x.is_floating_point() and x.itemsize == 4 and x.chalf() is x
    assert flambeau.ones(2, dtype=HALF).tolist() == [1, 1] and flambeau.ones_like(x).tolist() == [1, 1]
    assert flambeau.full((2,), 1j, dtype=HALF).tolist() == [1j, 1j] and flambeau.eye(2, dtype=HALF)[0].tolist() == [1, 0]
    assert x.clone().fill_(2).tolist() == [2, 2] and x.clone().zero_().tolist() == [0, 0]
    with pytest.raises(TypeError, match="unsupported ScalarType ComplexHalf"):
        x.numpy()
    with pytest.raises(TypeError, match=r"numpy\.void"):
        flambeau.from_numpy(np.zeros(2, [("a", np.float16), ("b", np.float16)]))


def test_parts_are_views() -> None:
    x = values(3, 4)
    x.real.zero_()
    x.t()[1].imag.fill_(5)
    flambeau.view_as_real(x)[2, 3, 0] = 7
    assert x[2, 3].real == 7 and x[0, 0].real == 0 and x[:, 1].imag.tolist() == [5, 5, 5]
    assert x.view(flambeau.float16).shape == (3, 8) and x.view(flambeau.int32).view(HALF)[2, 3] == x[2, 3]
    assert flambeau.view_as_complex(flambeau.ones(2, 2, dtype=flambeau.float16)).tolist() == [1 + 1j, 1 + 1j]


def test_large_tensors_and_gradients() -> None:
    x = values(200, 100)
    for function in (lambda a: a * a + 1j, lambda a: a.t().contiguous(), lambda a: a.abs(), lambda a: a[::2] - 2):
        np.testing.assert_allclose(OURS.array(function(x)), OURS.array(function(x.to(WIDE))), rtol=1e-2, atol=1e-2)
    x = values(3).requires_grad_()
    (x * x.conj()).real.float().sum().backward()
    assert x.grad.dtype is HALF
    np.testing.assert_allclose(OURS.array(x.grad), 2 * OURS.array(x.detach()), rtol=1e-2)


@pytest.mark.oracle
def test_files_go_both_ways(tmp_path: Path) -> None:
    torch = pytorch()
    x = values(2, 3)
    flambeau.save({"x": x, "view": x.t()}, tmp_path / "ours")
    theirs = torch.load(tmp_path / "ours")
    assert theirs["x"].dtype is torch.complex32 and theirs["view"].tolist() == x.t().tolist()
    torch.save(theirs, tmp_path / "theirs")
    back = flambeau.load(tmp_path / "theirs")
    assert back["view"].dtype is HALF and back["view"].tolist() == x.t().tolist()


def test_copies() -> None:
    x = values(2, 3)
    memory = io.BytesIO(pickle.dumps(x))
    for made in (copy.deepcopy(x), pickle.load(memory), x.clone(memory_format=flambeau.contiguous_format)):
        assert made.dtype is HALF and made.tolist() == x.tolist()
