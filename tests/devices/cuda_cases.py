"""Tensors on three CUDA devices of the stand-in for CuPy; run by ``test_cuda.py``, in a process of its own."""

from __future__ import annotations

import copy
import gc
import importlib.util
import io
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.marks import work_that_waits

import flambeau as torch
import flambeau.nn.functional as F

BOTH = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"


@pytest.fixture(autouse=True)
def _on_the_first_device() -> Any:
    yield
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize()


@pytest.fixture(params=["cuda:0", "cuda:2"])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


# -- where tensors are ----------------------------------------------------------------------------------------------------------------
def test_what_a_tensor_says_of_its_device(device: str) -> None:
    x = torch.arange(6.0, device=device).reshape(2, 3)
    index = int(device[-1])
    assert x.device == torch.device("cuda", index)
    assert x.is_cuda and not x.is_cpu and x.get_device() == index
    assert x[1].data_ptr() - x.data_ptr() == 12
    assert x[1].storage_offset() == 3
    assert x.untyped_storage().device == x.device and x.untyped_storage().is_cuda
    assert x.type() == "torch.cuda.FloatTensor"
    assert repr(x.sum()) == f"tensor(15., device='{device}')"
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.FloatTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)


def test_moves() -> None:
    x = torch.ones(2, 3)
    for moved in (x.cuda(), x.to("cuda"), x.to(torch.device("cuda:0")), x.to(0), x.cuda(0), x.to(device="cuda", non_blocking=True)):
        assert str(moved.device) == "cuda:0"
    y = x.cuda()
    assert y.cuda() is y and y.to("cuda:0") is y and y.to("cuda") is y
    for elsewhere in (y.cuda(1), y.to("cuda:1"), x.cuda("cuda:1"), x.cuda().to(torch.ones(1, device="cuda:1"))):
        assert str(elsewhere.device) == "cuda:1"
        assert elsewhere.tolist() == x.tolist()
    assert y.cpu().device.type == "cpu"
    assert y.to("cpu", torch.float64).dtype is torch.float64
    assert y.to(1, torch.float16).dtype is torch.float16
    with pytest.raises(RuntimeError, match="must be cuda device"):
        x.cuda("cpu")
    with torch.cuda.device(2):
        for moved in (x.cuda(), y.cuda(), y.to("cuda"), y.to("cuda", torch.float16), y.new_ones(1, device="cuda")):
            assert str(moved.device) == "cuda:2"
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        x.cuda(3)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_strides_survive_a_move(form: Any, device: str) -> None:
    x = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=form)
    moved = x.to(device)
    assert moved.stride() == x.stride()
    assert moved.cpu().stride() == x.stride()
    assert torch.equal(moved.cpu(), x)
    part = moved[:, 1:, ::2].transpose(1, 3)
    assert torch.equal(part.cpu(), x[:, 1:, ::2].transpose(1, 3))
    assert torch.equal(moved.to("cuda:1").cpu(), x)
    assert moved.to("cuda:1").stride() == x.stride()


@pytest.mark.parametrize("value", [torch.tensor(2.0), torch.ones(0), torch.ones(2, 0, 3), torch.ones(1, 1), torch.tensor([True, False])])
def test_small_and_empty_tensors_move(value: Any, device: str) -> None:
    there = value.to(device)
    assert there.shape == value.shape and there.stride() == value.stride() and str(there.device) == device
    assert there.cpu().tolist() == value.tolist()


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.float16])
def test_dtypes(dtype: Any) -> None:
    x = torch.tensor([0, 1, 3], dtype=dtype, device="cuda")
    assert x.dtype is dtype
    assert x.cpu().tolist() == torch.tensor([0, 1, 3], dtype=dtype).tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.complex128])
def test_dtypes_compute(dtype: Any) -> None:
    x = torch.tensor([0.5, 1, 3], dtype=dtype)
    for function in (lambda x: x + x, lambda x: x * 2, lambda x: x.sum(), lambda x: x @ x, lambda x: x.exp()):
        there = function(x.cuda())
        assert there.is_cuda and there.dtype is dtype
        assert torch.allclose(there.cpu(), function(x))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_dtypes_that_cupy_has_not(dtype: Any) -> None:
    for make in (
        lambda: torch.zeros(2, dtype=dtype, device="cuda"),
        lambda: torch.zeros(2, dtype=dtype).cuda(),
        lambda: torch.ones(2, device="cuda").to(dtype),
    ):
        with pytest.raises(NotImplementedError, match="CuPy has no such element type"):
            make()


# -- the current device ---------------------------------------------------------------------------------------------------------------
def test_factories_use_the_current_device_and_operations_their_operands() -> None:
    with torch.cuda.device(1):
        x = torch.ones(3, 3, device="cuda")
        assert x.get_device() == 1
    for current in (0, 1, 2):
        with torch.cuda.device(current):
            results = (x + 1, x.sum(), x @ x, torch.cat([x, x]), x.exp(), x.clone(), x.sort().values, x[0], x.to(torch.float64), x > 0)
            assert {result.get_device() for result in results} == {1}
            assert torch.zeros_like(x).get_device() == x.new_ones(2).get_device() == torch.rand_like(x).get_device() == 1
            x[0] = 2.0
            x[x > 1] = 1.0
            x.add_(1).sub_(1)
            x.untyped_storage().clone()
    assert x.tolist() == [[1] * 3] * 3


def test_the_current_device_is_the_threads_own() -> None:
    seen: list[Any] = []
    x = torch.ones(2, device="cuda:1")

    def work() -> None:
        seen.append(torch.cuda.current_device())
        torch.cuda.set_device(2)
        seen.append(torch.ones(1, device="cuda").get_device())
        seen.append((x * 2).get_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, 2, 1]
    assert torch.cuda.current_device() == 0


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_device() -> None:
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device() == torch.device("cuda:0")
        assert torch.ones(2).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda and torch.tensor([1.0]).is_cuda
        with torch.cuda.device(1):
            assert torch.ones(2).get_device() == 1
        with torch.device("cpu"):
            assert not torch.ones(2).is_cuda
    finally:
        torch.set_default_device(None)
    with torch.device("cuda:2"):
        assert torch.rand(2).get_device() == 2
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    assert torch.ones(1).is_cuda
    torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.ones(1).is_cuda


# -- several devices in one call ------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")  # NumPy's, of CuPy
@pytest.mark.parametrize("size", [3, 200])
@pytest.mark.parametrize("pair", [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1"), ("cuda:2", "cuda:1")])
@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a.mul_(b),
        lambda a, b: torch.mm(a, b),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: torch.where(a > 0, b, b),
        lambda a, b: F.linear(a, b),
        lambda a, b: F.mse_loss(a, b),
    ],
)
def test_two_devices(call: Any, pair: tuple[str, str], size: int) -> None:
    first, second = (torch.ones(size, size, device=where) for where in pair)
    with pytest.raises(RuntimeError) as error:
        call(first, second)
    assert str(error.value) == BOTH.format(*pair)


def test_out_on_another_device() -> None:
    with pytest.raises(RuntimeError, match="found at least two devices"):
        torch.add(torch.ones(2, device="cuda:1"), 1, out=torch.empty(2, device="cuda"))


def test_copies_cross_devices() -> None:
    values = torch.arange(6.0).reshape(2, 3)
    for source in ("cpu", "cuda:0", "cuda:1"):
        for target in ("cpu", "cuda:0", "cuda:1"):
            copied = torch.zeros(2, 3, device=target).copy_(values.to(source))
            assert str(copied.device) == target and torch.equal(copied.cpu(), values)
            row = torch.zeros(3, 2, dtype=torch.int64, device=target)
            row.t()[1].copy_(values.to(source)[1], non_blocking=True)
            assert row.cpu().tolist() == [[0, 3], [0, 4], [0, 5]]


def test_numbers_of_the_cpu_stand_beside_any_tensor() -> None:
    x, number = torch.ones(2, device="cuda:1"), torch.tensor(3.0)
    for result in (x * number, number * x, x.clone().mul_(number), torch.where(x > 0, number, x)):
        assert result.get_device() == 1
        assert result.tolist() == [3, 3]


def test_indices() -> None:
    x = torch.arange(6.0, device="cuda:1").reshape(2, 3)
    assert x[torch.tensor([1])].tolist() == [[3, 4, 5]]
    assert x[torch.tensor([1], device="cuda:1")].get_device() == 1
    with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
        x[torch.tensor([1], device="cuda:0")]
    x[torch.tensor([0])] = torch.tensor(7.0)
    assert x[0].tolist() == [7, 7, 7]


# -- gradients ------------------------------------------------------------------------------------------------------------------------
def test_gradients_return_through_moves() -> None:
    leaf = torch.ones(3, requires_grad=True)
    a, b = leaf.cuda(0), leaf.to("cuda:1")
    total = (a * 2).sum().to("cuda:1") + (b * torch.arange(3.0, device="cuda:1")).sum()
    total.backward()
    assert leaf.grad.device.type == "cpu"
    assert leaf.grad.tolist() == [2, 3, 4]
    assert a.grad_fn.name() == "ToCopyBackward0"


def test_gradients_lie_beside_their_leaves(device: str) -> None:
    leaf = torch.ones(3, device=device, requires_grad=True)
    for _ in range(2):
        (leaf * 2 + leaf.exp() * 0).sum().backward()
    assert leaf.grad.device == leaf.device
    assert leaf.grad.tolist() == [4, 4, 4]
    (leaf * leaf).sum().backward(create_graph=True)
    assert leaf.grad.device == leaf.device
    with pytest.raises(RuntimeError, match="located on a different device"):
        leaf.grad = torch.ones(3, device="cuda:1")


def test_anomaly_detection_on_another_device() -> None:
    leaf = torch.ones(2, device="cuda:1", requires_grad=True)
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="Error detected in MulBackward0"):
        with pytest.raises(RuntimeError, match="MulBackward0.* returned nan"):
            (leaf * float("nan")).sum().backward()


def test_views_and_in_place() -> None:
    base = torch.ones(2, 3, device="cuda:1", requires_grad=True)
    root = base * 1
    root.t()[0].mul_(3)
    root.expand(2, 2, 3).sum().backward()
    assert base.grad.tolist() == [[6, 2, 2], [6, 2, 2]]


# -- modules --------------------------------------------------------------------------------------------------------------------------
def test_modules_move(device: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(device)
    assert {str(each.device) for each in model.state_dict().values()} == {device}
    assert isinstance(model[0].weight, torch.nn.Parameter)
    x = torch.rand(5, 3)
    assert str(model(x.to(device)).device) == device
    assert model.cpu()(x).device.type == "cpu"
    assert model.cuda(1)[0].weight.get_device() == 1
    assert model.cuda()[0].weight.get_device() == 0


def losses(where: str, optimizer: Any, **options: Any) -> list[float]:
    pytest.importorskip("sklearn")
    path = Path(__file__).parents[2] / "examples" / "digits.py"
    specification: Any = importlib.util.spec_from_file_location("digits_example", path)
    digits = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(digits)
    torch.manual_seed(0)
    loader, _ = digits.load_data(64)
    model = digits.DigitNet().to(where)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0  # the CPU's generator would draw for the loader and for it, a device's for it alone
    stepper = optimizer(model.parameters(), **options)
    found = []
    for (images, labels), _ in zip(loader, range(4)):
        stepper.zero_grad()
        loss = F.cross_entropy(model(images.to(where)), labels.to(where))
        loss.backward()
        stepper.step()
        assert loss.device == torch.device(where)
        found.append(loss.item())
    assert all(each.grad.device == each.device == torch.device(where) for each in model.parameters())
    return found


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.01}), (torch.optim.Adam, {"lr": 0.01, "fused": True})],
)
def test_digits_train_as_on_the_cpu(device: str, optimizer: Any, options: Any) -> None:
    np.testing.assert_allclose(losses(device, optimizer, **options), losses("cpu", optimizer, **options), rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "LBFGS"]
)
def test_optimizers_step_on_another_device(name: str) -> None:
    def trained(where: str) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(where)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05)
        x = torch.arange(6.0, device=where).reshape(2, 3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

        for _ in range(2):
            optimizer.step(closure)
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        optimizer.step(closure)
        return torch.cat([each.detach().flatten().cpu() for each in model.parameters()])

    torch.testing.assert_close(trained("cuda:1"), trained("cpu"), rtol=1e-4, atol=1e-6)


def test_what_stands_around_modules() -> None:
    where = "cuda:1"
    x = torch.rand(4, 3, device=where, requires_grad=True)
    model = torch.nn.Linear(3, 2).to(where)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    averaged.update_parameters(model)
    assert averaged.module.weight.device == torch.device(where)
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    torch.nn.utils.vector_to_parameters(vector * 2, model.parameters())
    assert vector.get_device() == 1
    for init in (torch.nn.init.xavier_uniform_, torch.nn.init.orthogonal_, torch.nn.init.trunc_normal_, torch.nn.init.ones_):
        assert init(model.weight).get_device() == 1
    loaded = torch.nn.Linear(3, 2)
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(loaded.weight, model.weight.cpu())
    assert repr(model.weight).endswith("device='cuda:1', requires_grad=True)")
    out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
    assert out.get_device() == 1


# -- pinned memory --------------------------------------------------------------------------------------------------------------------
def test_pinned_memory() -> None:
    x = torch.arange(6.0).reshape(2, 3).t()
    assert not x.is_pinned() and not x.untyped_storage().is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.untyped_storage().is_pinned() and pinned[1:].is_pinned()
    assert pinned.stride() == x.stride() and torch.equal(pinned, x) and pinned.pin_memory() is pinned
    assert not (pinned + 1).is_pinned()
    assert x.untyped_storage().pin_memory().is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()
    assert not x.cuda().is_pinned()


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: torch.empty(2, 3, **k),
        lambda **k: torch.zeros(2, **k),
        lambda **k: torch.full((2,), 3.0, **k),
        lambda **k: torch.tensor([1.0, 2.0], **k),
        lambda **k: torch.rand(3, **k),
        lambda **k: torch.arange(3, **k),
        lambda **k: torch.ones_like(torch.ones(2), **k),
        lambda **k: torch.empty_strided((2, 2), (1, 2), **k),
        lambda **k: torch.ones(2).new_zeros(3, **k),
    ],
)
def test_factories_of_pinned_memory(make: Any) -> None:
    pinned = make(pin_memory=True)
    assert pinned.is_pinned() and pinned.device.type == "cpu" and pinned.stride() == make().stride()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        make(pin_memory=True, device="cuda")


@work_that_waits
def test_copies_from_pinned_memory_wait_unless_told() -> None:
    from devices import fake_cupy

    pinned = torch.ones(1000).pin_memory()
    stream = fake_cupy.get_current_stream()
    pinned.cuda()
    stream.queued, before = stream.finished, stream.finished  # what moving's own bookkeeping queued
    moved = pinned.to("cuda", non_blocking=True)
    assert not stream.done and stream.finished == before
    del pinned
    assert len(torch.cuda._usable().in_flight) == 1, "the memory is kept until the copy is done"
    torch.cuda.synchronize()
    assert not torch.cuda._usable().in_flight
    assert moved.sum().item() == 1000


def test_loaders_pin() -> None:
    data = torch.utils.data.TensorDataset(torch.ones(4, 2))
    (batch,) = next(iter(torch.utils.data.DataLoader(data, 2, pin_memory=True)))
    assert batch.is_pinned()


# -- files ----------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("new", [True, False])
def test_files(new: bool) -> None:
    x = torch.arange(6.0, device="cuda:1").reshape(2, 3)

    def saved(**options: Any) -> Any:
        file = io.BytesIO()
        torch.save({"whole": x, "row": x[1]}, file, _use_new_zipfile_serialization=new)
        file.seek(0)
        return torch.load(file, **options)

    for options, where in (
        ({}, "cuda:1"),
        ({"map_location": "cpu"}, "cpu"),
        ({"map_location": "cuda:2"}, "cuda:2"),
        ({"map_location": torch.device("cuda")}, "cuda:0"),
        ({"map_location": {"cuda:1": "cuda:0"}}, "cuda:0"),
        ({"map_location": lambda storage, location: storage.cuda(2) if location == "cuda:1" else storage}, "cuda:2"),
    ):
        loaded = saved(**options)
        assert str(loaded["whole"].device) == str(loaded["row"].device) == where
        assert loaded["whole"].tolist() == x.tolist()
        loaded["whole"].zero_()
        assert loaded["row"].tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match=r"on CUDA device 5 but torch.cuda.device_count\(\) is 3"):
        saved(map_location="cuda:5")
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location="cuda").is_cuda


def test_copies_of_objects(device: str) -> None:
    x = torch.arange(6.0, device=device).reshape(2, 3)
    pair = {"whole": x, "row": x[1]}
    for copied in (pickle.loads(pickle.dumps(pair)), copy.deepcopy(pair)):
        assert copied["row"].device == x.device
        copied["whole"].zero_()
        assert copied["row"].tolist() == [0, 0, 0]
    assert x.sum().item() == 15
    assert pickle.loads(pickle.dumps(torch.Generator(device))).device == x.device


def test_storages(device: str) -> None:
    storage = torch.arange(4, dtype=torch.uint8, device=device).untyped_storage()
    assert storage.tolist() == [0, 1, 2, 3] and storage.device == torch.device(device)
    storage[1] = 9
    assert storage[1] == 9 and storage.clone().tolist() == [0, 9, 2, 3]
    storage.resize_(6)
    assert storage.nbytes() == 6 and storage.cpu().tolist()[:4] == [0, 9, 2, 3]
    assert storage.fill_(1).tolist() == [1] * 6
    assert storage.copy_(torch.zeros(6, dtype=torch.uint8).untyped_storage()).tolist() == [0] * 6
    assert torch.UntypedStorage(3, device=device).device == torch.device(device)
    assert torch.ones(2).untyped_storage().cuda(1).device == torch.device("cuda:1")


def test_old_constructors() -> None:
    assert torch.cuda.FloatTensor(2, 3).is_cuda and torch.cuda.LongTensor([1, 2]).tolist() == [1, 2]
    with torch.cuda.device(1):
        assert torch.cuda.DoubleTensor([1.0]).get_device() == 1
    x = torch.ones(2)
    assert x.type("torch.cuda.HalfTensor").dtype is torch.float16
    assert x.cuda().type(torch.FloatTensor).device.type == "cpu"
    assert x.cuda(1).type(torch.cuda.DoubleTensor).get_device() == 1
    assert x.cuda(1).type(torch.float64).get_device() == 1
    assert torch.cuda.FloatStorage(3).is_cuda and isinstance(x.cuda().storage(), torch.cuda.FloatStorage)


def test_memory_is_given_back() -> None:
    gc.collect()
    before = torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda", requires_grad=True)
    (x.exp() * x).sum().backward()
    assert torch.cuda.memory_allocated() > before
    del x
    assert torch.cuda.memory_allocated() == before
