"""What is looked at while a file's objects are made is in the file: not what lay in memory before, in either format, whoever wrote it."""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau.core.protocols import rebuild
from flambeau.kernels.compiler import memory
from flambeau.serialization.pickling import unrestricted

POISON = 0xA5


class Reader(flambeau.Tensor):
    """A subclass that looks at values when its state is set."""

    def __setstate__(self, state: Any) -> None:
        self.total = float(self.as_subclass(flambeau.Tensor).sum())


class Program:
    """An object that computes with its tensors when it is made."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.x, self.rows = state["x"], state["x"].tolist()
        self.keys = {number: str(number) for number in self.rows}


class Spelled:
    """Pickled as a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.function, self.args = function, args

    def __reduce__(self) -> Any:
        return self.function, self.args


def quantized_by_channel(dtype: str, axis: int, zeros: str) -> Any:
    x = flambeau.arange(12.0).reshape(3, 4) / 5
    scales = (flambeau.arange((3, 4)[axis]) + 1) / 8
    zero_points = flambeau.arange((3, 4)[axis], dtype=getattr(flambeau, zeros))
    return flambeau.quantize_per_channel(x, scales, zero_points, axis, getattr(flambeau, dtype))


def sparse(layout: str) -> Any:
    x = flambeau.zeros(4, 6)
    x[1, 2], x[3, 5], x[0, 4] = 1.5, 2.5, -1.0
    return x.to_sparse(layout=getattr(flambeau, layout), **({"blocksize": (2, 3)} if layout.endswith(("bsr", "bsc")) else {}))


def drawn() -> Any:
    generator = flambeau.Generator().manual_seed(3)
    flambeau.rand(5, generator=generator)
    return generator


MAKERS: dict[str, Callable[[], Any]] = {
    **{
        f"{dtype} by channel {axis}, zero points of {zeros}": lambda dtype=dtype, axis=axis, zeros=zeros: quantized_by_channel(
            dtype, axis, zeros
        )
        for dtype in ("qint8", "quint8", "qint32")
        for axis in (0, 1)
        for zeros in ("int64", "int32", "float32")
    },
    "quantized as a whole": lambda: flambeau.quantize_per_tensor(flambeau.arange(4.0), 0.5, 2, flambeau.quint8),
    **{layout: lambda layout=layout: sparse(layout) for layout in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")},
    "uncoalesced": lambda: flambeau.sparse_coo_tensor([[1, 1, 0]], [1.0, 2.0, 3.0], (3,)),
    "sparse with indices of int32": lambda: flambeau.sparse_csr_tensor(
        flambeau.tensor([0, 1, 2], dtype=flambeau.int32), flambeau.tensor([1, 0], dtype=flambeau.int32), flambeau.ones(2), (2, 2)
    ),
    "sparse parameter": lambda: flambeau.nn.Parameter(sparse("sparse_coo")),
    "generator": drawn,
    "nested, strided": lambda: flambeau.nested.nested_tensor([flambeau.arange(3.0), flambeau.arange(2.0)]),
    "nested, jagged": lambda: flambeau.nested.nested_tensor([flambeau.arange(3.0), flambeau.arange(2.0)], layout=flambeau.jagged),
    "masked": lambda: flambeau.masked.masked_tensor(flambeau.arange(3.0), flambeau.tensor([True, False, True])),
    "subclass that looks": lambda: flambeau.arange(4.0).as_subclass(Reader),
    "program that looks": lambda: Program(flambeau.arange(5)),
    "parameter with state": lambda: with_state(flambeau.nn.Parameter(flambeau.arange(3.0))),
    "module": lambda: flambeau.nn.BatchNorm1d(3),
    "optimizer": lambda: stepped(flambeau.optim.Adam),
    "packed": lambda: flambeau.nn.utils.rnn.pack_sequence([flambeau.arange(2.0), flambeau.arange(3.0)], enforce_sorted=False),
    "views": lambda: (lambda x: [x, x[1:], x.t(), x.view(flambeau.int32).sum()])(flambeau.arange(6.0).reshape(2, 3)),
    "bfloat16, complex and bools": lambda: [flambeau.ones(3, dtype=getattr(flambeau, name)) for name in ("bfloat16", "complex64", "bool")],
}


def with_state(parameter: Any) -> Any:
    parameter.note = {"x": flambeau.arange(3)}
    return parameter


def stepped(kind: Any) -> Any:
    layer = flambeau.nn.Linear(2, 2)
    optimizer = kind(layer.parameters())
    layer(flambeau.ones(1, 2)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """New memory that nobody has filled is full of one byte."""

    def filling(make: Any) -> Any:
        def empty(*args: Any, **kwargs: Any) -> Any:
            array = make(*args, **kwargs)
            if array.__class__ is np.ndarray and array.flags.c_contiguous and array.dtype != object:
                array.reshape(-1).view(np.uint8)[...] = POISON
            return array

        return empty

    for place, name in ((np, "empty"), (np, "empty_like"), (memory, "empty")):
        monkeypatch.setattr(place, name, filling(getattr(place, name)))
    yield


def described(value: Any) -> Any:
    """All that an object has, in plain terms."""
    if isinstance(value, flambeau.Generator):
        return value.get_state().tolist()
    if isinstance(value, flambeau.Tensor):
        if value.is_quantized:
            by_channel = value.qscheme() in (flambeau.per_channel_affine, flambeau.per_channel_affine_float_qparams)
            parts = (value.q_per_channel_scales(), value.q_per_channel_zero_points()) if by_channel else ()
            return repr(value), value.int_repr().tolist(), [(str(part.dtype), part.tolist()) for part in parts]
        if value.is_nested:
            return type(value).__name__, [part.tolist() for part in value.unbind()]
        return type(value).__name__, repr(value), described(vars(value)) if vars(value) else None
    if isinstance(value, dict):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if hasattr(value, "state_dict"):
        return described(value.state_dict())
    return {name: described(item) for name, item in vars(value).items()} if hasattr(value, "__dict__") else repr(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize("name", MAKERS)
def test_values_come_from_the_file(name: str, form: str, protocol: int, poisoned: None) -> None:
    value = MAKERS[name]()
    if name == "subclass that looks":
        value.__setstate__(None)
    if name == "program that looks":
        value.__setstate__(vars(value))
    file = io.BytesIO()
    flambeau.save(value, file, pickle_protocol=protocol, _use_new_zipfile_serialization=form == "zip")
    file.seek(0)
    loaded = flambeau.load(file, weights_only=False)
    assert described(loaded) == described(value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MAKERS if "channel" in name or "quantized" in name or "sparse" in name])
def test_pytorchs_old_files(name: str, oracle: Any, poisoned: None) -> None:
    value = MAKERS[name]()
    file, theirs = io.BytesIO(), io.BytesIO()
    flambeau.save(value, file)
    file.seek(0)
    oracle.save(oracle.load(file, weights_only=False), theirs, _use_new_zipfile_serialization=False)
    theirs.seek(0)
    assert described(flambeau.load(theirs)) == described(value)


def spelled_indices(bits: dict[str, bool], *, kind: Any = flambeau.int64, size: tuple[int, ...] = (4,)) -> Any:
    """A COO tensor whose indices are spelled with PyTorch's bits, or are of another dtype."""
    storage = flambeau.storage.TypedStorage(wrap_storage=flambeau.tensor([1, 2], dtype=kind).untyped_storage(), dtype=kind)
    indices = Spelled(rebuild._rebuild_tensor_v2, storage, 0, (1, 2), (2, 1), False, {}, bits)
    return Spelled(rebuild._rebuild_sparse_tensor, flambeau.sparse_coo, (indices, flambeau.tensor([5.0, 6.0]), size, True))


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_indices_are_looked_at_as_they_will_be(form: str, poisoned: None) -> None:
    def loaded(value: Any) -> Any:
        file = io.BytesIO()
        flambeau.save(value, file, _use_new_zipfile_serialization=form == "zip")
        file.seek(0)
        return flambeau.load(file)

    assert loaded(spelled_indices({})).to_dense().tolist() == [0, 5, 6, 0]
    assert loaded(spelled_indices({}, kind=flambeau.int32)).to_dense().tolist() == [0, 5, 6, 0]
    with pytest.raises(RuntimeError, match="found negative index"):
        loaded(spelled_indices({"neg": True}))
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        loaded(spelled_indices({}, kind=flambeau.int32, size=(2,)))


def test_several_old_files_in_one(tmp_path: Any) -> None:
    """The file's position is behind the last storage afterwards, as in PyTorch."""
    with open(tmp_path / "x", "wb") as file:
        for number in range(3):
            flambeau.save([flambeau.full((5,), float(number)), number], file, _use_new_zipfile_serialization=False)
    with open(tmp_path / "x", "rb") as file:
        for number in range(3):
            x, said = flambeau.load(file)
            assert said == number and x.tolist() == [number] * 5


def test_another_pickle_modules_old_files() -> None:
    """It spells the types of storages as calls, since they have no names that can be imported."""
    module = types.SimpleNamespace(**{name: getattr(pickle, name) for name in ("Pickler", "Unpickler", "dump", "load")})
    file = io.BytesIO()
    flambeau.save({"x": flambeau.arange(3), "y": quantized_by_channel("qint8", 0, "int64")}, file, module, 2, False)
    file.seek(0)
    loaded = flambeau.load(file, pickle_module=module)
    assert loaded["x"].tolist() == [0, 1, 2] and loaded["y"].q_per_channel_scales().tolist() == [0.125, 0.25, 0.375]


@pytest.mark.filterwarnings("ignore")
def test_storages_of_quantized_tensors_have_integers() -> None:
    x = quantized_by_channel("qint32", 0, "int64")
    assert x.storage().tolist() == x.int_repr().reshape(-1).tolist() and x.storage()[3] == x.int_repr()[0, 3]


@pytest.mark.parametrize("protocol", [4, 5])
def test_memory_formats_in_later_protocols(protocol: int, oracle: Any) -> None:
    """PyTorch's pickles have them in whatever module has ``torch``."""
    file = io.BytesIO()
    oracle.save([oracle.channels_last, oracle.contiguous_format], file, pickle_protocol=protocol)
    file.seek(0)
    assert flambeau.load(file, weights_only=False) == [flambeau.channels_last, flambeau.contiguous_format]


def test_memory_formats_by_way_of_a_programs_module() -> None:
    file = io.BytesIO(b"\x80\x04\x8c\x07program\x8c\x13torch.channels_last\x93.")
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(file.getvalue())
    assert unrestricted(pickle, file, None, {}) is flambeau.channels_last
