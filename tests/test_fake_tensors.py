"""``FakeTensorMode``: shapes, strides, dtypes and devices of models are PyTorch's, and nothing has values."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau._subclasses import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from flambeau._subclasses.fake_tensor import DataDependentOutputException, is_fake, maybe_get_fake_mode, unset_fake_temporarily


def block(library: Any, width: int, heads: int) -> Any:
    nn, F = library.nn, library.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            rows, length, _ = x.shape
            parts = self.qkv(self.first(x)).split(width, 2)
            q, k, v = (part.view(rows, length, heads, width // heads).transpose(1, 2) for part in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(rows, length, width)
            x = x + self.out(mixed)
            return x + self.mlp(self.second(x))

    return Block()


def transformer(library: Any) -> Any:
    nn = library.nn

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.blocks = nn.Sequential(block(library, 32, 4), block(library, 32, 4))
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.norm(self.blocks(self.tokens(x) + self.places(library.arange(x.shape[1], device=x.device)))))

    return Model()


def recurrent(library: Any) -> Any:
    class Model(library.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = library.nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
            self.head = library.nn.Linear(32, 3)

        def forward(self, x: Any) -> Any:
            result, (h, c) = self.layer(x)
            return self.head(result[:, -1]), h, c

    return Model()


def resnet(library: Any) -> Any:
    if library is torch:
        from flambeau.vision.models import resnet18
    else:
        from oracle_vision import torchvision

        resnet18 = torchvision().models.resnet18
    return resnet18()


MODELS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "resnet18": (resnet, lambda library: library.randn(2, 3, 64, 64)),
    "transformer": (transformer, lambda library: library.randint(50, (2, 10))),
    "lstm": (recurrent, lambda library: library.randn(2, 5, 8)),
}


def described(tensor: Any, *, loosely: bool = False) -> Any:
    strides = [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1 or not loosely]
    return tuple(tensor.shape), strides, str(tensor.dtype).partition(".")[2], str(tensor.device), tensor.requires_grad


def run(library: Any, name: str, where: str, train: bool) -> list[Any]:
    make, inputs = MODELS[name]
    with importlib.import_module(f"{library.__name__}._subclasses").FakeTensorMode():
        with library.device(where):
            model, x = make(library), inputs(library)
        model.train(train)
        out = model(x)
        outs = out if isinstance(out, tuple) else (out,)
        assert all(type(tensor).__name__ == "FakeTensor" for tensor in outs)
        if train:
            sum(tensor.float().sum() for tensor in outs).backward()
        found = [described(tensor) for tensor in outs]
        for key, parameter in model.named_parameters():
            found.append((key, described(parameter), parameter.grad is None or described(parameter.grad, loosely=True)))
        return found + [(key, described(buffer)) for key, buffer in model.named_buffers()]


@pytest.mark.parametrize(
    ("name", "train"), [("resnet18", True), ("transformer", True), ("transformer", False), ("lstm", True), ("lstm", False)]
)
def test_models_are_shaped_as_pytorchs(name: str, train: bool, oracle: Any) -> None:
    ours = run(torch, name, "cpu", train)
    assert ours == run(oracle, name, "cpu", train)
    claimed = run(torch, name, "cuda", train)  # PyTorch without CUDA cannot run this
    assert str(claimed).replace("cuda:0", "cpu") == str(ours) and "cuda:0" in str(claimed)


def test_a_model_too_large_to_be_there() -> None:
    with FakeTensorMode(), torch.device("cuda"):
        layer = torch.nn.Linear(300_000, 300_000)
        loss = layer(torch.empty(16, 300_000)).square().mean()
        loss.backward()
        optimizer = torch.optim.AdamW(layer.parameters())
        optimizer.step()
    assert layer.weight.grad.shape == (300_000, 300_000) and layer.weight.grad.device == torch.device("cuda:0")
    assert isinstance(layer.weight, torch.nn.Parameter) and optimizer.state[layer.weight]["exp_avg"].device.type == "cuda"


NEED_VALUES: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "item": (lambda a: a.sum().item(), DataDependentOutputException, "_local_scalar_dense"),
    "bool": (lambda a: bool(a.sum() > 0), DataDependentOutputException, "_local_scalar_dense"),
    "int": (lambda a: int(a.sum()), DataDependentOutputException, "_local_scalar_dense"),
    "tolist": (lambda a: a.tolist(), DataDependentOutputException, "_local_scalar_dense"),
    "equal": (lambda a: torch.equal(a, a), DataDependentOutputException, "equal"),
    "allclose": (lambda a: torch.allclose(a, a), DataDependentOutputException, "allclose"),
    "nonzero": (lambda a: a.nonzero(), DynamicOutputShapeException, "nonzero"),
    "where": (lambda a: torch.where(a > 0), DynamicOutputShapeException, "nonzero|where"),
    "mask": (lambda a: a[a > 0], DynamicOutputShapeException, "nonzero"),
    "masked_select": (lambda a: a.masked_select(a > 0), DynamicOutputShapeException, "masked_select"),
    "unique": (lambda a: a.unique(), DynamicOutputShapeException, "unique"),
    "bincount": (lambda a: torch.bincount(a.long().view(6)), DynamicOutputShapeException, "bincount"),
    "repeat_interleave": (lambda a: torch.repeat_interleave(a[0].long()), DynamicOutputShapeException, "repeat_interleave"),
}


@pytest.mark.parametrize("name", NEED_VALUES)
def test_what_needs_values_says_so(name: str) -> None:
    function, error, message = NEED_VALUES[name]
    with FakeTensorMode():
        a = torch.ones(2, 3)
        with pytest.raises(error, match=message):
            function(a)
        assert type(a + 1) is FakeTensor  # nothing is left behind


def test_devices_are_claimed_and_meet_as_pytorchs() -> None:
    with FakeTensorMode():
        a, c = torch.ones(2, 3), torch.zeros(2, 3, device="cuda")
        for moved, where in ((a.cuda(), "cuda:0"), (a.to("cuda:1"), "cuda:1"), (c.cpu(), "cpu"), (torch.zeros_like(c), "cuda:0")):
            assert str(moved.device) == where and type(moved) is FakeTensor
        assert (c + torch.ones(())).device == c.device and (c * torch.tensor(2.0)).device == c.device and c.is_cuda and not a.is_cuda
        assert c.to("cuda") is c and a.to(torch.float64).dtype is torch.float64
        with pytest.raises(
            RuntimeError, match="Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0!"
        ):
            a + c
        leaf = torch.ones(2, requires_grad=True)
        (leaf.cuda() * 2).sum().backward()
        assert leaf.grad.device.type == "cpu"


def test_small_data_keep_their_values() -> None:
    with FakeTensorMode():
        assert torch.tensor(3.0).item() == 3.0 and (torch.tensor(3.0) + 1).item() == 4.0 and int(torch.tensor(5)) == 5
        written = torch.tensor(3.0)
        assert written.add_(1).item() == 4.0
        written.normal_()
        with pytest.raises(DataDependentOutputException):
            written.item()


def test_plain_tensors_are_refused_or_faked() -> None:
    real, mode = torch.ones(2, 3), FakeTensorMode()
    fake = mode.from_tensor(real)
    with mode, pytest.raises(AssertionError, match=r"Found in aten\.add\.Tensor\(tensor\(\[\.\.\.\], size=\(2, 3\)\), 1\)"):
        real + 1
    with pytest.raises(AssertionError, match="Please convert all Tensors"):
        fake + real
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert type(real + 1) is FakeTensor
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        fake + FakeTensorMode().from_tensor(real)
    assert type(fake + 1) is FakeTensor and (real + 1).tolist() == [[2] * 3] * 2
    assert is_fake(fake) and not is_fake(real) and maybe_get_fake_mode(fake) is mode
    with mode, unset_fake_temporarily() as unset:
        assert unset is mode and type(real + 1) is torch.Tensor


def test_fakes_of_tensors_are_like_them() -> None:
    mode, real = FakeTensorMode(), torch.arange(12.0).reshape(3, 4)
    view = real.t()[1:]
    fake = mode.from_tensor(view)
    assert (fake.shape, fake.stride(), fake.storage_offset(), fake._is_view()) == (view.shape, view.stride(), view.storage_offset(), True)
    assert mode.from_tensor(view) is fake and mode.from_tensor(real)._storage is fake._storage
    parameter = torch.nn.Parameter(real)
    faked = mode.from_tensor(parameter)
    assert isinstance(faked, torch.nn.Parameter) and faked.requires_grad and faked.is_leaf
    with mode:
        copied = copy.deepcopy(torch.nn.Linear(2, 2))
        assert (
            isinstance(copied.weight, torch.nn.Parameter)
            and repr(copied.weight) == "Parameter(FakeTensor(..., size=(2, 2), requires_grad=True))"
        )
        part = torch.ones(4, 4)[:, 1:3].t()
        assert part.stride() == (1, 4) and part.storage_offset() == 1 and part._base is not None
        square = torch.ones(2, 3)
        square.t_()
        assert square.shape == (3, 2) and square.stride() == (1, 3)


def test_how_they_are_shown() -> None:
    with FakeTensorMode():
        assert repr(torch.ones(2, dtype=torch.int64, device="cuda")) == "FakeTensor(..., device='cuda:0', size=(2,), dtype=torch.int64)"
        assert repr(torch.ones(2, requires_grad=True) * 2) == "FakeTensor(..., size=(2,), grad_fn=<MulBackward0>)"


def test_a_programs_mode_sees_calls_before_it() -> None:
    from flambeau.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Names(), FakeTensorMode():  # the library's own mode stays outside
        assert type(torch.ones(2).sin()) is FakeTensor
    assert seen == ["aten.ones.default", "aten.sin.default"]


def test_dropout_of_attention_on_a_device_that_is_not_there() -> None:
    with FakeTensorMode():
        x = torch.randn(1, 2, 4, 8, device="cuda")
        attended = torch.nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.1)
    assert (attended.shape, attended.device.type, attended.dtype) == ((1, 2, 4, 8), "cuda", torch.float32)


def test_what_is_not_supported_is_not_ignored():
    from flambeau._subclasses import FakeTensor, FakeTensorMode

    mode, meta = FakeTensorMode(), torch.empty(2, device="meta")
    with pytest.raises(NotImplementedError, match="symbolic_context"):
        mode.from_tensor(torch.ones(2), symbolic_context=object())
    with pytest.raises(NotImplementedError, match="real_tensor"):
        FakeTensor(mode, meta, "cpu", real_tensor=torch.ones(2))
    for given in ({"memory_format": torch.channels_last}, {"pin_memory": True}, {"storage_size": 8}):
        with pytest.raises(NotImplementedError, match=next(iter(given))):
            torch.Tensor._make_wrapper_subclass(FakeTensor, (2,), **given)


CALLS = """
torch.where(m, x, 0.0); torch.where(m, 1, x); x.resize_(2, 2); x.__setitem__(m, 0); torch.normal(0.0, 1.0, (2,)); torch.tril_indices(3, 3)
torch.hann_window(4); torch.add(x, x, out=torch.empty(2)); torch.sum(x, 0, out=torch.empty(3)); torch.zeros(2, out=torch.empty(2))
torch.repeat_interleave(x, 2, 0); x.repeat_interleave(3); torch.nn.functional.dropout2d(z); x.pow_(2)
torch.nn.functional.alpha_dropout(x, training=True)
torch.distributions.Normal(0.0, 1.0).sample((2,)); torch.normal(x, x.exp()); torch.bernoulli(x); x.lt_(x); x.transpose_(0, 1); x.amax()
"""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_calls_that_need_no_values_are_shaped_as_pytorchs(oracle: Any) -> None:
    found = []
    for library in (torch, oracle):
        seen = {}
        for call in CALLS.replace("\n", ";").split(";"):
            with importlib.import_module(f"{library.__name__}._subclasses").FakeTensorMode():
                x, z = library.randn(3, 3), library.randn(1, 2, 4, 4)
                result = eval(call.strip() or "0", {"torch": library, "x": x, "z": z, "m": x > 0})
            seen[call] = [(type(t).__name__, t.shape, t.stride(), str(t.device)) for t in (result, x) if isinstance(t, library.Tensor)]
        found.append(str(seen))
    assert found[0] == found[1]
