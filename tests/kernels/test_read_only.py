"""Whatever would write to memory that is read-only raises ValueError, however large the memory is, and writes nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import optim

pytest.importorskip("flambeau.kernels.families.pointwise")

WRITES: dict[str, Callable[[Any], Any]] = {
    "add_ number": lambda x: x.add_(1),
    "add_ tensor": lambda x: x.add_(torch.ones_like(x)),
    "add_ itself": lambda x: x.add_(x),
    "add_ broadcast": lambda x: x.add_(torch.ones(x.shape[1])),
    "add_ alpha": lambda x: x.add_(torch.ones_like(x), alpha=2),
    "add_ other dtype": lambda x: x.add_(torch.ones(x.shape, dtype=torch.int64)),
    "operator": lambda x: x.__imul__(2),
    "sqrt_": lambda x: x.sqrt_(),
    "exp_": lambda x: x.exp_(),
    "relu_": lambda x: x.relu_(),
    "sigmoid_": lambda x: x.sigmoid_(),
    "clamp_": lambda x: x.clamp_(0, 1),
    "gelu inplace": lambda x: F.silu(x, inplace=True),
    "dropout inplace": lambda x: F.dropout(x, 0.5, inplace=True),
    "lerp_": lambda x: x.lerp_(torch.ones_like(x), 0.5),
    "addcmul_": lambda x: x.addcmul_(torch.ones_like(x), torch.ones_like(x)),
    "masked_fill_": lambda x: x.masked_fill_(x > 0, 2.0),
    "index_add_": lambda x: x.index_add_(0, torch.arange(x.shape[0]), torch.ones_like(x)),
    "scatter_add_": lambda x: x.scatter_add_(0, torch.zeros(x.shape, dtype=torch.int64), torch.ones_like(x)),
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor([0]), 3.0),
    "transposed add_": lambda x: x.t().add_(1),
    "rows add_": lambda x: x[:].add_(torch.ones_like(x)),
    "copy_": lambda x: x.copy_(torch.ones_like(x)),
    "copy_ broadcast": lambda x: x.copy_(torch.ones(x.shape[1])),
    "copy_ cast": lambda x: x.copy_(torch.ones(x.shape, dtype=torch.float64)),
    "copy_ transposed": lambda x: x.t().copy_(torch.ones_like(x.t())),
    "fill_": lambda x: x.fill_(3.0),
    "fill_ tensor": lambda x: x.fill_(torch.tensor(3.0)),
    "zero_": lambda x: x.zero_(),
    "setitem all": lambda x: x.__setitem__(slice(None), torch.ones_like(x)),
    "setitem number": lambda x: x.__setitem__(..., 4.0),
    "setitem rows": lambda x: x.__setitem__(torch.arange(x.shape[0]), torch.ones_like(x)),
    "setitem mask": lambda x: x.__setitem__(x > 0, 3.0),
    "out of a ufunc": lambda x: torch.add(torch.ones_like(x), torch.ones_like(x), out=x),
    "out of a kernel": lambda x: torch.sigmoid(torch.ones_like(x), out=x),
    "out of a broadcast": lambda x: torch.mul(torch.ones(x.shape[1]), torch.ones(x.shape[0], 1), out=x),
    "out of a sum": lambda x: torch.sum(torch.ones(2, *x.shape), 0, out=x),
    "out of cat": lambda x: torch.cat([torch.ones_like(x)[:1], torch.ones_like(x)[1:]], out=x),
    "out of where": lambda x: torch.where(torch.ones(x.shape, dtype=torch.bool), torch.ones_like(x), torch.ones_like(x), out=x),
    "out of softmax": lambda x: torch.softmax(torch.ones_like(x), 1, out=x),
    "out of matmul": lambda x: torch.matmul(torch.ones(x.shape[0], 3), torch.ones(3, x.shape[1]), out=x),
    "out of rand": lambda x: torch.rand(x.shape, out=x),
    "uniform_": lambda x: x.uniform_(),
    "uniform_ between": lambda x: x.uniform_(-1, 3),
    "normal_": lambda x: x.normal_(),
    "bernoulli_": lambda x: x.bernoulli_(0.5),
    "random_": lambda x: x.random_(0, 10),
    "exponential_": lambda x: x.exponential_(),
    "kaiming": lambda x: torch.nn.init.kaiming_uniform_(x),
}
STEPS: dict[str, Callable[[list[Any]], Any]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: optim.Adam(p),
    "AdamW": lambda p: optim.AdamW(p),
    "RMSprop": lambda p: optim.RMSprop(p),
    "Adagrad": lambda p: optim.Adagrad(p),
    "Adadelta": lambda p: optim.Adadelta(p),
}


@pytest.fixture(params=["array", "map"])
def read_only(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[tuple[int, ...]], Any]]:
    """What makes a tensor over a read-only array, or a read-only map of a file, of a given shape."""

    def make(shape: tuple[int, ...]) -> Any:
        values = np.full(shape, 0.5, np.float32)
        if request.param == "array":
            values.flags.writeable = False
        else:
            path = tmp_path / f"{shape[0]}.bin"
            values.tofile(path)
            values = np.memmap(path, np.float32, "r", shape=shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's words on arrays that are not writable
            return torch.from_numpy(values)

    yield make


@pytest.mark.parametrize("shape", [(3, 4), (97, 101), (203, 199)], ids=["small", "large", "larger"])
@pytest.mark.parametrize("name", WRITES)
def test_write_raises(name: str, shape: tuple[int, ...], read_only: Callable[[tuple[int, ...]], Any]) -> None:
    x = read_only(shape)
    with pytest.raises(ValueError, match="read-only"):
        WRITES[name](x)
    assert (x == 0.5).all()


@pytest.mark.parametrize("shape", [(3, 4), (97, 101), (450, 453)], ids=["small", "large", "larger"])
@pytest.mark.parametrize("name", STEPS)
def test_step_raises(name: str, shape: tuple[int, ...], read_only: Callable[[tuple[int, ...]], Any]) -> None:
    """Also where the kernel knows the parameter beside it, and before any state was made of the gradient."""
    beside = torch.full(shape, 0.5, requires_grad=True)
    fixed = read_only(shape).requires_grad_()
    optimizer = STEPS[name]([beside, fixed])
    for _ in range(2):
        beside.grad, fixed.grad = torch.ones(shape), torch.ones(shape)
        with pytest.raises(ValueError, match="read-only"):
            optimizer.step()
        assert (beside == 0.5).all()
        assert (fixed == 0.5).all()
        assert not any((entry != 0).any() for state in optimizer.state.values() for entry in state.values())


def test_step_after_the_parameter_became_read_only(read_only: Callable[[tuple[int, ...]], Any]) -> None:
    """A plan and a kernel's tables were made for memory that could be written."""
    param = torch.full((450, 453), 0.5, requires_grad=True)
    optimizer = optim.SGD([param], lr=0.1)
    param.grad = torch.ones(450, 453)
    for _ in range(3):
        optimizer.step()
    param.data = read_only((450, 453))
    with pytest.raises(ValueError, match="read-only"):
        optimizer.step()
    assert (param == 0.5).all()


@pytest.mark.parametrize("shape", [(3, 4), (203, 199)], ids=["small", "large"])
def test_gradients_are_not_clipped(shape: tuple[int, ...], read_only: Callable[[tuple[int, ...]], Any]) -> None:
    param = torch.zeros(shape, requires_grad=True)
    param.grad = read_only(shape)
    with pytest.raises(ValueError, match="read-only"):
        torch.nn.utils.clip_grad_norm_([param], 0.01)
    with pytest.raises(ValueError, match="read-only"):
        torch.nn.utils.clip_grad_value_([param], 0.01)
    assert (param.grad == 0.5).all()


@pytest.mark.parametrize("shape", [(3, 4), (203, 199)], ids=["small", "large"])
def test_reading_is_allowed(shape: tuple[int, ...], read_only: Callable[[tuple[int, ...]], Any]) -> None:
    x = read_only(shape).requires_grad_()
    ((x + 1) * x).sum().backward()
    assert (x.grad == 2.0).all()
