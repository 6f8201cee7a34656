"""What comes back from files, pickles and copies, and what PyTorch and this package read of each other."""

from __future__ import annotations

import collections
import copy
import io
import os
import pathlib
import pickle
import struct
import warnings
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oracle import pytorch
from serialized import ALL_DTYPES, hand_made, loaded, same_bits, saved, tensor, through, values

from flambeau import serialization
from flambeau.core import dtype as dtypes
from flambeau.core.device import device
from flambeau.core.shape import Size
from flambeau.core.storage import TypedStorage
from flambeau.core.tensor import Parameter, Tensor, share, storage_of, wrap
from flambeau.serialization import archive, save


# -- round trips ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_every_dtype_comes_back_bit_for_bit(name: str, is_zip: bool, weights_only: bool) -> None:
    array = values(dtypes.ALL[name])
    back = loaded(saved(wrap(array), _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    assert back.dtype is dtypes.ALL[name] and same_bits(back._array, array)


def test_views_share_memory_again_and_keep_their_strides() -> None:
    whole = wrap(np.arange(24, dtype=np.float32).reshape(4, 6))
    storage = storage_of(whole)
    views = [
        share(whole._array.T, storage),
        share(whole._array[1:3, ::2], storage),
        share(np.broadcast_to(whole._array[2, 3:4], (5,)), storage),
    ]
    back = through([whole, *views])
    for before, after in zip([whole, *views], back, strict=True):
        assert after.stride() == before.stride() and after.storage_offset() == before.storage_offset()
        assert same_bits(after._array, before._array)
    back[0]._array[2, 3] = -1
    assert back[3].tolist() == [-1] * 5 and back[1]._array[3, 2] == -1


def test_a_view_alone_keeps_its_storage_and_a_storage_is_written_once() -> None:
    whole = wrap(np.arange(1000, dtype=np.float32))
    view = share(whole._array[:2], storage_of(whole))
    assert through(view).untyped_storage().nbytes() == 4000
    assert len(saved([whole, view, view])) < 4000 + 2500


def test_data_shares_storage_with_its_tensor() -> None:
    x = tensor(1, 2)
    back = through([x, x.data])
    back[0]._array[0] = 7
    assert back[1].tolist() == [7, 2]


def test_empty_and_0d_tensors() -> None:
    tensors = [wrap(np.empty((2, 0, 3), np.int64)), wrap(np.array(2.5)), wrap(np.empty(0, np.float32))]
    back = through(tensors)
    assert [x.shape for x in back] == [(2, 0, 3), (), (0,)] and back[1].item() == 2.5 and back[0].dtype is dtypes.int64


def test_containers_and_plain_values() -> None:
    state = collections.OrderedDict([("weight", tensor(1)), ("bias", tensor(2))])
    state._metadata = collections.OrderedDict([("", {"version": 1})])  # type: ignore[attr-defined]
    contents = {
        "state": state,
        "nested": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {"a": [None, True, False]}],
        "numbers": [0, 255, 65535, -1, 2**31, -(2**40), 10**30, 1.5, float("inf"), 1j],
        "text": ["", "é", "\ud800"],
        "bytes": [b"", b"\x00\xff", bytearray(b"xy"), bytearray()],
        "sets": {1, 2},
        "counts": collections.Counter("aab"),
        3: Size([2, 3]),
        "device": device("cuda:1"),
        "dtypes": [dtypes.float16, dtypes.bool_, dtypes.float8_e5m2],
    }
    back = through(contents)
    assert {name: x.tolist() for name, x in back["state"].items()} == {"weight": [1], "bias": [2]}
    assert back["state"]._metadata == state._metadata and type(back["state"]) is collections.OrderedDict
    assert type(back[3]) is Size and type(back["counts"]) is collections.Counter and back["dtypes"][0] is dtypes.float16
    assert {k: v for k, v in back.items() if k != "state"} == {k: v for k, v in contents.items() if k != "state"}


def test_requires_grad_parameters_and_their_attributes() -> None:
    leaf, plain, marked = tensor(1).requires_grad_(), Parameter(tensor(2), requires_grad=False), Parameter(tensor(3))
    marked.note = {"lr": 0.5}  # type: ignore[attr-defined]
    for weights_only in (True, False):
        a, b, c = through([leaf, plain, marked], weights_only=weights_only)
        assert a.requires_grad and a.is_leaf and type(b) is Parameter and not b.requires_grad
        assert c.requires_grad and c.note == {"lr": 0.5} and c.tolist() == [3]


def test_hooks_are_left_out_with_a_warning() -> None:
    leaf = tensor(1).requires_grad_()
    leaf.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="will not be serialized"):
        back = through(leaf)
    assert back.requires_grad and not back.__dict__.get("_backward_hooks")


class Marked(Tensor):
    __slots__ = ("extra",)


def test_subclasses_come_back_as_such_once_allowed() -> None:
    marked = tensor(1, 2).as_subclass(Marked).requires_grad_()
    marked.note, marked.extra = "hello", 5
    data = saved(marked)
    with pytest.raises(pickle.UnpicklingError, match="Marked"):
        loaded(data)
    with serialization.safe_globals([Marked]):
        back = loaded(data)
    assert type(back) is Marked and (back.note, back.extra, back.tolist()) == ("hello", 5, [1, 2])
    assert back.requires_grad and back.is_leaf
    assert serialization.get_safe_globals() == []


def test_storages_can_be_saved() -> None:
    x = tensor(1, 2)
    typed, untyped = through([TypedStorage(wrap_storage=storage_of(x), dtype=dtypes.float32), storage_of(tensor(3))])
    assert isinstance(typed, TypedStorage) and typed.tolist() == [1, 2]
    assert untyped.dtype is dtypes.uint8 and bytes(untyped.tolist()) == struct.pack("<f", 3)


def test_one_memory_of_two_dtypes_is_refused() -> None:
    x = tensor(1, 2)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        saved([x, share(x._array.view(np.int32), storage_of(x))])


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_pickle_protocol(protocol: int) -> None:
    assert loaded(saved({"x": tensor(1)}, pickle_protocol=protocol), weights_only=False)["x"].tolist() == [1]


def test_another_pickle_module_is_used_and_needs_an_unrestricted_load() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    data = saved({"f": lambda: 41, "x": tensor(1), "d": dtypes.float16}, pickle_module=cloudpickle)
    back = loaded(data, weights_only=False)
    assert back["f"]() == 41 and back["x"].tolist() == [1] and back["d"] is dtypes.float16
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        loaded(data, pickle_module=pickle, weights_only=True)
    assert loaded(data, pickle_module=pickle)["x"].tolist() == [1]


# -- pickle and copy ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_pickle(protocol: int) -> None:
    x = wrap(np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3))
    marked = tensor(1).as_subclass(Marked)
    marked.note = 3
    contents = [x, share(x._array.T, storage_of(x)), Parameter(tensor(2)), marked, tensor(1).requires_grad_(), wrap(np.ones(2, np.uint16))]
    back = pickle.loads(pickle.dumps(contents, protocol))
    assert [type(value) for value in back] == [Tensor, Tensor, Parameter, Marked, Tensor, Tensor]
    assert all(same_bits(a._array, b._array) and a.requires_grad == b.requires_grad for a, b in zip(contents, back, strict=True))
    assert back[1].stride() == (1, 3) and back[3].note == 3
    back[0]._array[0, 1] = 9
    assert back[1]._array[1, 0] == 9


def test_deepcopy_copies_memory_once_and_keeps_views() -> None:
    x = wrap(np.arange(6, dtype=np.float32)).requires_grad_()
    x.grad = tensor(*range(6))
    marked = tensor(1).as_subclass(Marked)
    marked.note, marked.extra = [1], [2]
    view = share(x._array[::2], storage_of(x))
    copied, copied_view, copied_data, copied_marked, again = copy.deepcopy([x, view, x.data, marked, x])
    assert again is copied and copied.requires_grad and copied.grad is not x.grad and copied.grad.tolist() == x.grad.tolist()
    copied._array[2] = 50
    assert copied_view.tolist() == [0, 50, 4] and copied_data.tolist()[2] == 50 and x.tolist() == [0, 1, 2, 3, 4, 5]
    assert type(copied_marked) is Marked and copied_marked.note == [1] and copied_marked.extra == [2]
    assert copied_marked.note is not marked.note and copied_marked.extra is not marked.extra
    parameter = copy.deepcopy(Parameter(tensor(1), requires_grad=False))
    assert type(parameter) is Parameter and not parameter.requires_grad


def test_a_shallow_copy_shares_memory() -> None:
    x = tensor(1, 2).requires_grad_()
    copied = copy.copy(x)
    copied._array[0] = 5
    assert copied is not x and x.tolist() == [5, 2] and copied.requires_grad


# -- exchange with PyTorch ------------------------------------------------------------------------------------------------
def real(value: Tensor) -> Any:
    """The same tensor in real PyTorch."""
    torch = pytorch()
    array = np.ascontiguousarray(value._array)
    flat = torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
    return flat.view(getattr(torch, value.dtype.name)).reshape(value.shape)


def pair(name: str) -> tuple[Tensor, Any]:
    result = wrap(values(dtypes.ALL[name]))
    return result, real(result)


def torch_saved(value: Any, **arguments: Any) -> bytes:
    torch = pytorch()
    buffer = io.BytesIO()
    torch.save(value, buffer, **arguments)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ALL_DTYPES)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_pytorch_reads_ours_and_we_read_pytorch_s(name: str, weights_only: bool) -> None:
    torch = pytorch()
    ours, theirs = pair(name)
    read = torch.load(io.BytesIO(saved(ours)), weights_only=weights_only)
    assert read.dtype is theirs.dtype and torch.equal(read.contiguous().view(torch.uint8), theirs.view(torch.uint8))
    back = loaded(torch_saved(theirs), weights_only=weights_only)
    assert same_bits(back._array, ours._array)
    if name not in ("uint16", "uint32", "uint64", "complex32") and not name.startswith("float8"):  # the old format has no room for these
        read = torch.load(io.BytesIO(saved(ours, _use_new_zipfile_serialization=False)), weights_only=weights_only)
        assert torch.equal(read, theirs)
        assert same_bits(loaded(torch_saved(theirs, _use_new_zipfile_serialization=False), weights_only=weights_only)._array, ours._array)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_files_equal_pytorch_s_byte_for_byte(tmp_path: pathlib.Path) -> None:
    torch = pytorch()
    ours, theirs = {}, {}
    for name in ALL_DTYPES:
        ours[name], theirs[name] = pair(name)
    x, y = wrap(np.arange(6, dtype=np.float32)), torch.arange(6, dtype=torch.float32)
    ours.update(v=x, w=share(x._array[1::2], storage_of(x)), p=Parameter(tensor(1, 2)), s=Size([2]), d=dtypes.float32, e=tensor())
    theirs.update(v=y, w=y[1::2], p=torch.nn.Parameter(torch.tensor([1.0, 2.0])), s=torch.Size([2]), d=torch.float32, e=torch.empty(0))
    for value, write in ((ours, save), (theirs, torch.save)):
        write(value, str(tmp_path / "same.name.pt"))
        os.rename(tmp_path / "same.name.pt", tmp_path / f"{write.__module__.partition('.')[0]}")
    a, b = (tmp_path / "flambeau").read_bytes(), (tmp_path / "torch").read_bytes()
    different = a.index(b".data/serialization_id")
    assert len(a) == len(b) and a[:different] == b[:different]
    with zipfile.ZipFile(tmp_path / "flambeau") as one, zipfile.ZipFile(tmp_path / "torch") as two:
        known = [(entry.filename, entry.header_offset, entry.file_size, entry.flag_bits) for entry in one.infolist()]
        assert known == [(entry.filename, entry.header_offset, entry.file_size, entry.flag_bits) for entry in two.infolist()]


def test_wide_fields_are_read_by_pytorch_and_by_us(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytorch()
    original = archive._wide_fields
    # Every record gets a wide field of its position, although that would fit.
    monkeypatch.setattr(archive, "_wide_fields", lambda size, position: original(size, position) or struct.pack("<HHQ", 1, 8, position))
    plain = saved([tensor(1, 2), tensor(3)])
    assert [x.tolist() for x in loaded(plain)] == [[1, 2], [3]]
    assert [x.tolist() for x in torch.load(io.BytesIO(plain))] == [[1, 2], [3]]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("is_zip", [True, False])
def test_pytorch_s_state_dicts(weights_only: bool, is_zip: bool) -> None:
    torch = pytorch()
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    state = {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    back = loaded(torch_saved(state, _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    assert back["epoch"] == 3 and back["model"]._metadata == state["model"]._metadata
    for name, value in state["model"].items():
        assert back["model"][name].tolist() == value.tolist() and back["model"][name].shape == tuple(value.shape)
    assert back["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    assert back["optimizer"]["state"][0]["exp_avg"].tolist() == state["optimizer"]["state"][0]["exp_avg"].tolist()
    assert back["rng"].tolist() == state["rng"].tolist()


def test_pytorch_reads_our_views_parameters_and_containers() -> None:
    torch = pytorch()
    x = wrap(np.arange(6, dtype=np.float64).reshape(2, 3))
    state = collections.OrderedDict(weight=Parameter(tensor(1)))
    state._metadata = {"": {"version": 2}}  # type: ignore[attr-defined]
    contents = {"x": x, "t": share(x._array.T, storage_of(x)), "s": state, "size": Size([1, 2]), "d": [dtypes.bool_, device("cpu")]}
    back = torch.load(io.BytesIO(saved(contents)), weights_only=True)
    assert back["t"].data_ptr() == back["x"].data_ptr() and torch.equal(back["t"], back["x"].t())
    assert back["s"]._metadata == {"": {"version": 2}} and type(back["s"]["weight"]) is torch.nn.Parameter
    assert back["size"] == torch.Size([1, 2]) and back["d"] == [torch.bool, torch.device("cpu")]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("is_zip", [True, False])
def test_pytorch_s_conjugate_views_come_back_resolved(is_zip: bool, weights_only: bool) -> None:
    torch = pytorch()
    x = torch.arange(12).reshape(3, 4) * (1 + 2j)
    views = [x, x.conj(), x.conj().t()[1:], x.conj()[::2, 1:], torch._neg_view(x.conj()), torch.nn.Parameter(x.conj())]
    back = loaded(torch_saved(views, _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    for ours, theirs in zip(back, views, strict=True):
        assert ours.tolist() == theirs.tolist() and ours.stride() == theirs.stride() and ours.storage_offset() == theirs.storage_offset()
    imaginary = loaded(torch_saved(x.conj().imag, _use_new_zipfile_serialization=is_zip), weights_only=weights_only)
    assert imaginary.tolist() == (-x.imag).tolist()


def test_pytorch_s_layouts_and_parameter_state() -> None:
    torch = pytorch()
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.note = "x"
    layout, back = loaded(torch_saved([torch.strided, parameter]))
    assert str(layout) == "torch.strided" and back.note == "x" and type(back) is Parameter
    assert torch.load(io.BytesIO(saved([layout, back])))[0] is torch.strided
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own: a prototype
        nested = torch_saved(torch.nested.nested_tensor([torch.ones(2)]))
    with pytest.raises(NotImplementedError, match="nested"):
        loaded(nested)


def test_names_of_pytorch_without_counterpart_are_not_imported() -> None:
    torch = pytorch()
    with pytest.raises(pickle.UnpicklingError, match=r"torch.nn.backends.thnn._get_thnn_function_backend"):
        loaded(hand_made(b"\x80\x02ctorch.nn.backends.thnn\n_get_thnn_function_backend\n."), weights_only=False)
    with pytest.raises(pickle.UnpicklingError, match="no counterpart"):
        loaded(torch_saved(torch._sources.parse_def), weights_only=False)


def test_numpy_numbers_need_to_be_allowed() -> None:
    data = torch_saved({"loss": np.float64(0.5)})
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        loaded(data)
    with serialization.safe_globals([np._core.multiarray.scalar, np.dtype, np.dtypes.Float64DType]):
        assert loaded(data) == {"loss": 0.5}


def test_whole_modules_of_pytorch_become_ours(oracle: Any) -> None:
    from flambeau import nn

    theirs = oracle.nn.Sequential(
        oracle.nn.Linear(3, 4), oracle.nn.BatchNorm1d(4), oracle.nn.ReLU(), oracle.nn.Dropout(0.5), oracle.nn.Linear(4, 2)
    ).eval()
    data = torch_saved({"net": theirs})
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        loaded(data)
    ours = loaded(data, weights_only=False)["net"]
    assert type(ours) is nn.Sequential and [type(layer).__name__ for layer in ours] == [type(layer).__name__ for layer in theirs]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(ours(wrap(x)).detach()._array, theirs(oracle.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-6)
    with serialization.safe_globals([nn.Linear]):
        allowed = loaded(torch_saved(theirs[0]))
    assert type(allowed) is nn.Linear and allowed.weight.tolist() == theirs[0].weight.tolist()


def test_whole_modules_of_ours_come_back() -> None:
    from flambeau import nn

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    data = saved(net)
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        loaded(data)
    back = loaded(data, weights_only=False)
    x = wrap(np.ones((2, 3), np.float32))
    assert back(x).tolist() == net(x).tolist() and list(back.state_dict()) == list(net.state_dict())
