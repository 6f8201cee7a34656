"""Tensors on a device that is not the CPU: moving, mixing, absent devices, saving, printing, and training there."""

from __future__ import annotations

import copy
import importlib.util
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.testing import probe

DEVICE = "privateuseone"
BOTH = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
HERE = f"{DEVICE}:0"


@pytest.fixture
def x() -> Any:
    return torch.arange(6.0, device=DEVICE).reshape(2, 3)


def test_what_a_tensor_says_of_its_device(x: Any) -> None:
    assert x.device == torch.device(DEVICE, 0)
    assert not (x.is_cpu or x.is_cuda or x.is_meta)
    assert x.get_device() == 0
    assert x[1].data_ptr() - x.data_ptr() == 12
    assert x[1].storage_offset() == 3
    assert x.untyped_storage().device == x.device
    assert x.type() == "torch.privateuseone.FloatTensor"
    assert repr(x.sum()) == f"tensor(15., device='{HERE}')"
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x[1, 2].item() == 5


def test_saved_tensors_wait_on_the_cpu_and_come_back(x: Any) -> None:
    leaf = x.requires_grad_()
    with torch.autograd.graph.save_on_cpu():
        y = (leaf * leaf).sum()
    y.backward()
    assert leaf.grad.device == x.device
    assert leaf.grad.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_numpy_must_be_asked_for_a_copy(x: Any) -> None:
    message = f"can't convert {HERE} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    for convert in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(TypeError) as error:
            convert()
        assert str(error.value) == message
    np.testing.assert_array_equal(x.numpy(force=True), np.arange(6).reshape(2, 3))


def test_to_is_one_recorded_operation_whose_gradient_returns() -> None:
    source = torch.ones(3, requires_grad=True)
    moved = source.to(DEVICE)
    assert moved.grad_fn.name() == "ToCopyBackward0"
    assert moved.grad_fn.next_functions[0][0].variable is source
    (moved * torch.arange(3.0, device=DEVICE)).sum().backward()
    assert source.grad.device.type == "cpu"
    assert source.grad.tolist() == [0, 1, 2]
    assert moved.to(DEVICE) is moved
    assert moved.to(DEVICE, copy=True) is not moved
    assert moved.cpu().device.type == "cpu"
    assert moved.to("cpu", torch.float64, non_blocking=True).dtype is torch.float64
    assert source.to(moved).device == moved.device


def test_gradients_of_leaves_lie_beside_them() -> None:
    leaf = torch.ones(3, device=DEVICE, requires_grad=True)
    for _ in range(2):
        (leaf * 2 + leaf).sum().backward()
    assert leaf.grad.device == leaf.device
    assert leaf.grad.tolist() == [6, 6, 6]
    with pytest.raises(RuntimeError, match="located on a different device"):
        leaf.grad = torch.ones(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: torch.zeros(2, **k),
        lambda **k: torch.ones((2,), **k),
        lambda **k: torch.empty(2, **k),
        lambda **k: torch.full((2,), 3.0, **k),
        lambda **k: torch.eye(2, **k),
        lambda **k: torch.arange(2, **k),
        lambda **k: torch.linspace(0, 1, 3, **k),
        lambda **k: torch.logspace(0, 1, 3, **k),
        lambda **k: torch.tensor([1, 2], **k),
        lambda **k: torch.as_tensor([1.0], **k),
        lambda **k: torch.asarray([1.0], **k),
        lambda **k: torch.scalar_tensor(2, **k),
        lambda **k: torch.hann_window(4, **k),
        lambda **k: torch.tril_indices(2, 2, **k),
        lambda **k: torch.empty_strided((2, 2), (1, 2), **k),
        lambda **k: torch.zeros_like(torch.ones(2), **k) if k else torch.zeros_like(torch.ones(2, device=DEVICE)),
        lambda **k: torch.full_like(torch.ones(2), 2, **k) if k else torch.full_like(torch.ones(2, device=DEVICE), 2),
    ],
)
def test_factories(make: Any) -> None:
    want = make(device="cpu")
    with torch.device(DEVICE):
        inside = make()
    for tensor in (make(device=DEVICE), inside):
        assert tensor._array.__class__ is probe.ProbeArray
        assert tensor.dtype is want.dtype
        assert tensor.stride() == want.stride()


@pytest.mark.parametrize(
    "draw",
    [
        lambda **k: torch.rand(5, **k),
        lambda **k: torch.randn(20, **k),
        lambda **k: torch.randint(10, (5,), **k),
        lambda **k: torch.randperm(5, **k),
        lambda **k: torch.empty(5, **k).uniform_(),
        lambda **k: torch.bernoulli(torch.full((5,), 0.5, **k)),
        lambda **k: F.dropout(torch.ones(20, **k)),
    ],
)
def test_random_numbers_are_the_cpus(draw: Any) -> None:
    torch.manual_seed(1)
    want = draw(device="cpu")
    torch.manual_seed(1)
    got = draw(device=DEVICE)
    assert got._array.__class__ is probe.ProbeArray
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("order", [("meta", DEVICE, "cpu"), ("cpu", "meta", DEVICE), (DEVICE, "cpu", "meta")])
def test_gradients_of_draws_lie_where_their_inputs_do(order: tuple[str, ...]) -> None:
    """Each device in turn: what the first use of a node's class leaves behind is not another device's."""
    for device in order:
        probabilities = torch.full((3,), 0.5, device=device, requires_grad=True)
        torch.bernoulli(probabilities).sum().backward()
        assert probabilities.grad.device.type == device


def test_like_and_new_follow_their_input_unless_told(x: Any) -> None:
    for tensor in (torch.zeros_like(x), torch.rand_like(x), x.new_zeros(2), x.new_tensor([1.0]), x.new_full((1,), 2.0), x.new(2)):
        assert tensor.device == x.device
    for tensor in (torch.zeros_like(x, device="cpu"), torch.rand_like(x, device="cpu"), x.new_zeros(2, device="cpu")):
        assert tensor.device.type == "cpu"


@pytest.mark.parametrize(
    ("call", "order"),
    [
        (lambda here, there: there + here, (HERE, "cpu")),
        (lambda here, there: here + there, ("cpu", HERE)),
        (lambda here, there: there.mul_(here), (HERE, "cpu")),
        (lambda here, there: torch.mm(there, here), (HERE, "cpu")),
        (lambda here, there: torch.cat([there, here]), (HERE, "cpu")),
        (lambda here, there: F.mse_loss(there, here), (HERE, "cpu")),
        (lambda here, there: torch.where(here > 0, there, there), ("cpu", HERE)),
        (lambda here, there: torch.add(there, 1, out=here), (HERE, "cpu")),
        (lambda here, there: F.linear(there, here), (HERE, "cpu")),
    ],
)
@pytest.mark.parametrize("size", [3, 200])
def test_two_devices(call: Any, order: tuple[str, str], size: int) -> None:
    with pytest.raises(RuntimeError) as error:
        call(torch.ones(size, size), torch.ones(size, size, device=DEVICE))
    assert str(error.value) == BOTH.format(*order)


def test_a_number_of_the_cpu_may_stand_beside_any_tensor(x: Any) -> None:
    number = torch.tensor(2.0)
    for result in (x * number, number * x, x.clone().mul_(number)):
        assert result.device == x.device
        assert result.tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(RuntimeError, match="same device"):
        number.add_(x[0, 1])


def test_indices(x: Any) -> None:
    assert x[torch.tensor([1])].tolist() == [[3, 4, 5]]
    assert x[torch.tensor([1], device=DEVICE)].device == x.device
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\)"):
        torch.ones(3)[torch.tensor([1], device=DEVICE)]


def test_copies_across(x: Any) -> None:
    here = torch.zeros(2, 3).copy_(x)
    assert here.device.type == "cpu"
    assert here.tolist() == x.tolist()
    x[0] = torch.ones(3)
    x[1, 0] = torch.tensor(7.0)
    x[x > 6] = 9
    assert x.tolist() == [[1, 1, 1], [9, 4, 5]]


def test_devices_that_are_absent() -> None:
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.ones(2, device="cuda")
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.ones(2).cuda()
    with pytest.raises(NotImplementedError, match="xpu"):
        torch.ones(2).to("xpu")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device="privateuseone:1")


def test_copies_of_objects(x: Any) -> None:
    pair = {"whole": x, "row": x[1]}
    for copied in (pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair)):
        assert copied["row"].device == x.device
        copied["whole"].zero_()
        assert copied["row"].tolist() == [0, 0, 0]
    assert x.sum().item() == 15


@pytest.mark.parametrize("new", [True, False])
def test_files(x: Any, new: bool) -> None:
    def saved(**options: Any) -> Any:
        file = io.BytesIO()
        torch.save({"whole": x, "row": x[1]}, file, _use_new_zipfile_serialization=new)
        file.seek(0)
        return torch.load(file, **options)

    for options, where in (({}, DEVICE), ({"map_location": "cpu"}, "cpu"), ({"map_location": {HERE: "cpu"}}, "cpu")):
        loaded = saved(**options)
        assert loaded["whole"].device.type == loaded["row"].device.type == where
        assert loaded["whole"].tolist() == x.tolist()
        loaded["whole"].zero_()
        assert loaded["row"].tolist() == [0, 0, 0]
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location=DEVICE).device == x.device


def test_views_and_their_history(x: Any) -> None:
    base = x.clone().requires_grad_()
    root = base * 1
    root.t()[0].mul_(3)
    root.expand(2, 2, 3).sum().backward()
    assert base.grad.tolist() == [[6, 2, 2], [6, 2, 2]]
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:, :1].expand(2, 3).add_(1)


def test_module_moves(x: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(DEVICE)
    assert {tensor.device for tensor in model.state_dict().values()} == {x.device}
    assert isinstance(model[0].weight, torch.nn.Parameter)
    assert model(x).device == x.device
    assert model.cpu()(x.cpu()).device.type == "cpu"
    with torch.device(DEVICE):
        assert torch.nn.Linear(2, 2).weight.device == x.device


def test_digits_train_as_on_the_cpu() -> None:
    path = Path(__file__).parents[2] / "examples" / "digits.py"
    pytest.importorskip("sklearn")
    specification: Any = importlib.util.spec_from_file_location("digits_example", path)
    digits = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(digits)

    def losses(where: str) -> list[float]:
        torch.manual_seed(0)
        loader, _ = digits.load_data(64)
        model = digits.DigitNet().to(where)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        history = []
        for (images, labels), _ in zip(loader, range(5)):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images.to(where)), labels.to(where))
            loss.backward()
            optimizer.step()
            assert loss.device.type == where
            history.append(loss.item())
        assert all(parameter.device.type == where and parameter.grad.device.type == where for parameter in model.parameters())
        return history

    np.testing.assert_allclose(losses(DEVICE), losses("cpu"), rtol=1e-5)


def test_the_private_device_can_be_renamed() -> None:
    program = """
import types, flambeau as torch, flambeau.testing.probe
x = torch.ones(2, device="privateuseone")
torch.utils.rename_privateuse1_backend("foo")
torch.utils.rename_privateuse1_backend("foo")
try:
    torch.utils.rename_privateuse1_backend("bar")
except RuntimeError as error:
    assert "Current backend: foo" in str(error)
torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
assert x.is_foo and not torch.ones(1).is_foo
assert str(x.device) == "foo:0" and torch.device("privateuseone:0") == torch.device("foo:0") == x.device
assert repr(x) == "tensor([1., 1.], device='foo:0')"
assert torch.ones(2).foo().device == x.device and x.foo() is x
assert torch.nn.Linear(2, 2).foo()(x).is_foo
assert x.cpu().untyped_storage().foo().is_foo
try:
    x.foo("cpu")
except RuntimeError as error:
    assert str(error) == "Invalid device, must be foo device"
module = types.ModuleType("foo")
torch._register_device_module("foo", module)
assert torch.foo is module is torch.get_device_module(x.device)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_private_device_is_the_accelerator() -> None:
    program = """
import types, flambeau as torch
import flambeau.testing.probe
accelerator = torch.accelerator
assert accelerator.current_accelerator() == torch.device("privateuseone")
assert accelerator.is_available() and accelerator.device_count() == 1 and accelerator.current_device_index() == 0
accelerator.set_device_index(0); accelerator.set_device_index("privateuseone:0"); accelerator.synchronize()
with accelerator.device_index(0):
    pass
try:
    accelerator.set_device_index(1)
except RuntimeError as error:
    assert "invalid device ordinal" in str(error)
assert torch.get_device_module() is torch.cpu
torch.utils.rename_privateuse1_backend("foo")
module = types.ModuleType("foo")
module.is_available, module.device_count, module.current_device = lambda: False, lambda: 4, lambda: 3
module.synchronize = lambda index: calls.append(index)
calls = []
torch._register_device_module("foo", module)
assert torch.get_device_module() is module
assert not accelerator.is_available() and accelerator.device_count() == 4 and accelerator.current_device_index() == 3
assert accelerator.current_accelerator() == torch.device("foo") and accelerator.current_accelerator(True) is None
accelerator.synchronize()
assert calls == [3]
try:
    accelerator.memory_allocated()
except NotImplementedError as error:
    assert "has no memory_allocated" in str(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_probe_refuses_what_cupy_refuses() -> None:
    array = probe.xp.ones(3)
    for refused in (
        lambda: np.asarray(array),
        lambda: array + np.ones(3),
        lambda: np.maximum.reduce(array),
        lambda: np.sum(array, where=np.ones(3, bool)),
        lambda: memoryview(array),
        lambda: np.ones(3).__iadd__(array),
    ):
        with pytest.raises(TypeError):
            refused()
    assert array.sum().__class__ is probe.ProbeArray
    assert array[0].__class__ is probe.ProbeArray
