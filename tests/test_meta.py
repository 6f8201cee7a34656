"""The meta device: tensors that have a shape, strides and a dtype, and no values."""

from __future__ import annotations

import copy
import io
import pickle
import time
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau as torch
from flambeau import nn
from flambeau.core.arrays import meta_array
from flambeau.core.arrays.meta_array import MetaArray

F = nn.functional


def meta(*sizes: int, dtype: Any = torch.float32, requires_grad: bool = False) -> Any:
    return torch.empty(*sizes, dtype=dtype, device="meta", requires_grad=requires_grad)


# -- against PyTorch ------------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
def test_agrees_with_the_database() -> None:
    pytorch()
    pytest.importorskip("expecttest")
    from meta_shapes import FUNCTIONS, compare

    total, differences = 0, []
    for name in [*list(FUNCTIONS)[3::20], *ONCE_DIFFERENT]:
        words, mismatches = compare(name, 1)
        total += words.total()
        differences += mismatches
    assert total > 300
    assert not differences, "\n".join(differences)


ONCE_DIFFERENT = (
    "nonzero_static ormqr linalg.householder_product mode searchsorted nn.functional.fractional_max_pool2d index_put "
    "as_strided.partial_views nn.functional.multilabel_margin_loss nn.functional.binary_cross_entropy nn.functional.embedding "
    "_segment_reduce.offsets histogramdd nn.functional.upsample_bilinear nonzero combinations tensor_split istft eye "
).split()


@pytest.mark.oracle
def test_factories_agree_with_pytorchs() -> None:
    pytorch()
    pytest.importorskip("expecttest")
    from meta_shapes import compare_factories

    words, differences = compare_factories()
    assert words["differs"] <= 0.01 * words.total(), "\n".join(differences)


@pytest.mark.oracle
@pytest.mark.slow
def test_fakes_agree_with_the_database() -> None:
    pytorch()
    pytest.importorskip("expecttest")
    from meta_shapes import FUNCTIONS, compare

    differences = [mismatch for name in list(FUNCTIONS)[5::20] for mismatch in compare(name, 1, True)[1]]
    assert not differences, "\n".join(differences)


def test_masks_of_meta_put_values() -> None:
    x, mask = meta(4, 3, requires_grad=True), meta(4, dtype=torch.bool)
    y = x * 1
    y[mask] = 0.0
    y.index_put((mask,), meta(3)).sum().backward()
    assert x.grad.shape == (4, 3) and x.grad.is_meta
    grid = meta(1, 2, 4, 4, requires_grad=True)
    F.grid_sample(grid, meta(1, 3, 3, 2), align_corners=False).sum().backward()
    assert grid.grad.shape == grid.shape
    rates = meta(3, requires_grad=True)
    torch.bernoulli(rates).sum().backward()
    assert rates.grad.is_meta and F.embedding(meta(2, dtype=torch.int64), meta(5, 3), max_norm=1.0).shape == (2, 3)


# -- what it is -----------------------------------------------------------------------------------------------------------------------
def test_prints_its_size() -> None:
    assert repr(meta(2, 3)) == "tensor(..., device='meta', size=(2, 3))"
    assert repr(meta(2, dtype=torch.float64)) == "tensor(..., device='meta', size=(2,), dtype=torch.float64)"
    assert repr(meta(2, requires_grad=True)) == "tensor(..., device='meta', size=(2,), requires_grad=True)"
    assert repr(meta(2).untyped_storage()) == "...\n[torch.storage.UntypedStorage(device=meta) of size 8]"


def test_tells_its_device() -> None:
    x = meta(2, 3)
    assert x.is_meta and not x.is_cpu and x.device == torch.device("meta") and x.get_device() == -1
    assert x.untyped_storage().nbytes() == 24
    assert torch.empty_like(torch.ones(2, 3).t(), device="meta").stride() == (1, 3)
    assert torch.ones(2).to("meta").is_meta and torch.tensor([1, 2], device="meta").dtype is torch.int64


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(2, 3),
        lambda: torch.ones((2, 3)),
        lambda: torch.full((2, 3), 7),
        lambda: torch.rand(2, 3),
        lambda: torch.randn(2, 3),
        lambda: torch.randint(0, 5, (2, 3)),
        lambda: torch.arange(6).view(2, 3),
        lambda: torch.tensor([[1, 2, 3], [4, 5, 6]]),
        lambda: torch.randperm(6).view(2, 3),
        lambda: torch.normal(0.0, 1.0, (2, 3)),
    ],
)
def test_factories_follow_the_device_of_the_context(make: Any) -> None:
    with torch.device("meta"):
        tensor = make()
    assert tensor.is_meta and tensor._array.__class__ is MetaArray
    usual = make()
    assert (tensor.shape, tensor.dtype, tensor.stride()) == (usual.shape, usual.dtype, usual.stride())


def test_views_share_their_storage() -> None:
    x = meta(4, 6)
    part = x[1:, ::2]
    assert (part.shape, part.stride(), part.storage_offset()) == ((3, 3), (6, 2), 6)
    assert part.untyped_storage()._array is x.untyped_storage()._array
    assert x.t().stride() == (1, 6) and x.unfold(1, 2, 2).stride() == (6, 2, 1)


# -- what it has not ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda x: x.sum().item(), RuntimeError, r"Tensor\.item\(\) cannot be called on meta tensors"),
        (lambda x: bool(x.sum() > 0), RuntimeError, r"Tensor\.item\(\) cannot be called on meta tensors"),
        (lambda x: float(x[0, 0]), RuntimeError, r"Tensor\.item\(\) cannot be called on meta tensors"),
        (lambda x: torch.allclose(x, x), RuntimeError, r"Tensor\.item\(\) cannot be called on meta tensors"),
        (lambda x: 1 in x, RuntimeError, r"Tensor\.item\(\) cannot be called on meta tensors"),
        (lambda x: x.tolist(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: x.cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: x.to("cpu"), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: torch.ones(2, 3).copy_(x), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: x.numpy(), TypeError, "can't convert meta device type tensor to numpy"),
        (lambda x: x.nonzero(), NotImplementedError, "nonzero"),
        (lambda x: torch.where(x > 0), NotImplementedError, "nonzero"),
        (lambda x: torch.argwhere(x), NotImplementedError, "nonzero"),
        (lambda x: x[x > 0], NotImplementedError, "nonzero"),
        (lambda x: x.masked_select(x > 0), NotImplementedError, "aten::masked_select: attempted to run this operator with Meta tensors"),
        (lambda x: torch.unique(x), NotImplementedError, "aten::_unique2: attempted to run this operator with Meta tensors"),
        (lambda x: torch.bincount(x[0].long()), NotImplementedError, "aten::bincount"),
        (lambda x: torch.bincount(x[0].long(), x[0]), NotImplementedError, "aten::bincount"),
        (lambda x: torch.equal(x, x), NotImplementedError, "aten::equal: attempted to run this operator with Meta tensors"),
        (lambda x: torch.equal(torch.ones(3), x), NotImplementedError, "aten::equal: attempted to run this operator with Meta tensors"),
        (lambda x: x.repeat_interleave(meta(3).long(), 1), RuntimeError, "cannot repeat_interleave a meta tensor without output_size"),
        (lambda x: x + torch.ones(2, 3), RuntimeError, "device"),
        (lambda x: torch.ones(2, 3) + x, RuntimeError, "device"),
    ],
)
def test_values_cannot_be_had(use: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use(meta(2, 3))


def test_numbers_of_the_cpu_may_stand_beside_it() -> None:
    assert (meta(2, 3) + torch.tensor(1.0)).is_meta and (torch.tensor(1.0) + meta(2, 3)).is_meta and (2 * meta(3)).shape == (3,)


# -- computing ------------------------------------------------------------------------------------------------------------------------
def test_a_softmax_that_no_memory_could_hold() -> None:
    begin = time.perf_counter()
    x = meta(200_000, 200_000, requires_grad=True)
    torch.softmax(x, 1).sum().backward()
    assert x.grad.is_meta and x.grad.shape == x.shape
    assert time.perf_counter() - begin < 5  # seconds; it would be minutes and 320 GB


def test_reshaping_a_transposed_array_reads_no_memory() -> None:
    array = meta_array.empty((100000, 200000), np.float32).transpose()
    assert array.reshape(-1).strides == (4,) and array.reshape(100000, 2, 100000).strides == (8, 4, 800000)
    assert array.reshape(2, 100000, 100000).strides == (400000, 4, 800000)
    images = torch.empty(2, 64, 400, 400, device="meta").to(memory_format=torch.channels_last)
    result = torch.conv2d(images, torch.empty(64, 64, 3, 3, device="meta"), padding=1)
    assert result.shape == (2, 64, 400, 400) and result.is_contiguous(memory_format=torch.channels_last)


def test_in_place_and_out() -> None:
    x, y = meta(2, 3), meta(0)
    version = x._version
    assert x.add_(1).mul_(torch.tensor(2.0)) is x and x._version == version + 2
    assert torch.matmul(meta(4, 5), meta(5, 6), out=y) is y and y.shape == (4, 6)
    x[0] = 1
    x[:, 1] = meta(2)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x.add_(meta(4, 2, 3))
    with pytest.raises(RuntimeError, match="must match the size"):
        x.add_(meta(5))


def test_element_wise_results_lie_in_memory_as_their_operands() -> None:
    x = meta(2, 3, 4).permute(2, 0, 1)
    assert (x + 1).stride() == (1, 12, 4)
    assert (x + meta(4, 2, 3)).stride() == (1, 12, 4)
    assert (meta(4, 2, 3) + x).stride() == (6, 3, 1)
    assert torch.exp(x.expand(5, 4, 2, 3)).stride() == (24, 1, 12, 4)


def test_indexing_by_tensors() -> None:
    x, rows = meta(5, 6, requires_grad=True), torch.zeros(3, dtype=torch.int64, device="meta")
    picked = x[rows]
    assert picked.shape == (3, 6) and x[:, rows].shape == (5, 3) and x[rows, rows].shape == (3,) and x[[0, 2], None].shape == (2, 1, 6)
    picked.sum().backward()
    assert x.grad.shape == (5, 6) and x.grad.is_meta


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.5), nn.Flatten(), nn.Linear(8 * 15 * 15, 10)
    )


def recurrent_free_transformer() -> nn.Module:
    return nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 50))


@pytest.mark.parametrize(
    ("build", "inputs", "outputs"), [(convolutional, (4, 3, 32, 32), (4, 10)), (recurrent_free_transformer, (4, 7), (4, 7, 50))]
)
def test_models_train_without_values(build: Any, inputs: Any, outputs: Any) -> None:
    with torch.device("meta"):
        model = build()
        data = torch.randn(inputs) if len(inputs) == 4 else torch.zeros(inputs, dtype=torch.int64)
    assert all(tensor.is_meta for tensor in model.state_dict().values())
    result = model(data)
    assert result.is_meta and result.shape == outputs
    loss = F.cross_entropy(result.flatten(0, -2), torch.zeros(result.numel() // outputs[-1], dtype=torch.int64, device="meta"))
    loss.backward()
    assert all(parameter.grad.is_meta and parameter.grad.shape == parameter.shape for parameter in model.parameters())
    for optimizer in (torch.optim.AdamW(model.parameters()), torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)):
        optimizer.step()
    assert not any(parameter._array.__class__ is not MetaArray for parameter in model.parameters())


def test_the_default_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    nn.init.normal_(meta(3, 3))
    nn.Linear(4, 4, device="meta")
    assert torch.equal(torch.rand(2), expected)


# -- models that are filled later -------------------------------------------------------------------------------------------------------
def test_to_empty_and_skip_init() -> None:
    model = nn.Linear(2, 3, device="meta")
    with pytest.raises(NotImplementedError, match="use torch.nn.Module.to_empty"):
        model.to("cpu")
    assert model.to_empty(device="cpu").weight.device.type == "cpu" and isinstance(model.weight, nn.Parameter)
    layer = nn.utils.skip_init(nn.Linear, 2, 3, bias=False)
    assert layer.weight.shape == (3, 2) and layer.weight.device.type == "cpu" and layer.bias is None
    assert nn.utils.skip_init(nn.Linear, 2, 3, device="meta").weight.is_meta
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg"):
        nn.utils.skip_init(nn.ReLU)


def test_load_state_dict_assigns() -> None:
    source, model = nn.Linear(2, 3), nn.Linear(2, 3, device="meta")
    with pytest.warns(UserWarning, match="which is a no-op"):
        model.load_state_dict(source.state_dict())
    assert model.weight.is_meta
    model.load_state_dict(source.state_dict(), assign=True)
    assert torch.equal(model.weight, source.weight) and model.weight.requires_grad


def test_swap_tensors() -> None:
    model = nn.Linear(2, 3, device="meta")
    weight, values = model.weight, nn.Parameter(torch.ones(3, 2))
    values.mark = "kept"
    torch.utils.swap_tensors(weight, values)
    assert model.weight is weight and weight.mark == "kept" and values.is_meta
    assert weight.sum().item() == 6
    plain = torch.zeros(2)
    view = plain[:1]
    torch.utils.swap_tensors(weight, plain)
    assert type(plain) is nn.Parameter and type(weight) is torch.Tensor and weight.shape == (2,)
    weight[0] = 5
    assert view.item() == 5


def test_copies_and_files() -> None:
    x = meta(4, 3).t().requires_grad_()
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert copied.is_meta and copied.requires_grad and (copied.shape, copied.stride()) == ((3, 4), (1, 3))
    file = io.BytesIO()
    torch.save({"weight": nn.Parameter(meta(2, 3)), "step": 1}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["step"] == 1 and loaded["weight"].is_meta and isinstance(loaded["weight"], nn.Parameter)


@pytest.mark.parametrize("where", ["meta", torch.device("meta")])
def test_files_are_loaded_without_values(where: Any) -> None:
    whole = torch.arange(6.0).reshape(2, 3)
    file = io.BytesIO()
    torch.save({"whole": whole, "row": whole[1], "weight": nn.Parameter(whole.t())}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=where)
    assert all(tensor.is_meta for tensor in loaded.values())
    assert loaded["weight"].stride() == (1, 3) and loaded["weight"].requires_grad and isinstance(loaded["weight"], nn.Parameter)
    assert loaded["row"].storage_offset() == 3 and loaded["row"].untyped_storage() is loaded["whole"].untyped_storage()


def bag(mode: str, **others: Any) -> Any:
    return lambda: nn.functional.embedding_bag(meta(4, 2).long(), meta(10, 3).requires_grad_(), mode=mode, **others)


@pytest.mark.parametrize(
    ("call", "shape", "strides"),
    [
        (lambda: meta(2, 3).repeat_interleave(2, 1), (2, 6), (6, 1)),
        (lambda: meta(2, 3).repeat_interleave(2), (12,), (1,)),
        (lambda: meta(2, 3).repeat_interleave(meta(3).long(), 1, output_size=7), (2, 7), (7, 1)),
        (lambda: torch.repeat_interleave(meta(3).long(), output_size=7), (7,), (1,)),
        (lambda: torch.linalg.inv(meta(2, 90_000, 90_000)), (2, 90_000, 90_000), (8_100_000_000, 1, 90_000)),
        (lambda: meta(3, 3).inverse(), (3, 3), (1, 3)),
        (lambda: nn.functional.embedding_bag(meta(4).long(), meta(10, 3), meta(2).long()), (2, 3), (3, 1)),
        (lambda: nn.functional.embedding_bag(meta(4).long(), meta(10, 3), meta(3).long(), include_last_offset=True), (2, 3), (3, 1)),
        (lambda: F.one_hot(meta(2, 3).long(), 5), (2, 3, 5), (15, 5, 1)),
        (lambda: F.glu(meta(2, 6), 1), (2, 3), (3, 1)),
        (lambda: F.glu(meta(200, 600), 0), (100, 600), (600, 1)),
        (bag("mean"), (4, 3), (3, 1)),
        (bag("max"), (4, 3), (3, 1)),
        (bag("sum", per_sample_weights=meta(4, 2)), (4, 3), (3, 1)),
    ],
)
def test_what_depends_on_values_in_part(call: Any, shape: Any, strides: Any) -> None:
    result = call()
    assert result.is_meta and tuple(result.shape) == shape and result.stride() == strides
    if result.requires_grad:
        result.sum().backward()


def test_files_go_to_and_fro() -> None:
    oracle = pytorch()
    file = io.BytesIO()
    torch.save(meta(2, 3, dtype=torch.bfloat16), file)
    file.seek(0)
    loaded = oracle.load(file)
    assert loaded.is_meta and loaded.dtype is oracle.bfloat16 and tuple(loaded.shape) == (2, 3)
    file = io.BytesIO()
    oracle.save(loaded.t(), file)
    file.seek(0)
    back = torch.load(file)
    assert back.is_meta and (back.shape, back.stride(), back.dtype) == ((3, 2), (1, 3), torch.bfloat16)
