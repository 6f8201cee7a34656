"""What Python and NumPy expect of an object: conversions, iteration, comparison, copying, memory sharing, typed constructors, storages."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau


# -- numbers ----------------------------------------------------------------------------------------------------------------------
def test_one_element_is_a_number() -> None:
    for shape in ((), (1,), (1, 1, 1)):
        x = flambeau.full(shape, 3)
        assert (int(x), float(x), bool(x), complex(x), x.item(), x.tolist()) == (
            3,
            3.0,
            True,
            3 + 0j,
            3,
            [[[3]]] if len(shape) == 3 else [3] if shape else 3,
        )
        assert x.__index__() == 3 and [0, 1, 2, 4][x] == 4 and list(range(x)) == [0, 1, 2]
    assert int(flambeau.tensor(-2.9)) == -2 and bool(flambeau.tensor(float("nan"))) and not bool(flambeau.tensor([0.0]))
    assert (
        type(flambeau.tensor(True).item()) is bool
        and type(flambeau.tensor(1.0).item()) is float
        and flambeau.tensor(1 + 2j).item() == 1 + 2j
    )


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda t: bool(t.ones(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
        (lambda t: bool(t.ones(0)), RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
        (lambda t: float(t.ones(2)), ValueError, "only one element tensors can be converted to Python scalars"),
        (lambda t: int(t.ones(0)), ValueError, "only one element tensors can be converted to Python scalars"),
        (lambda t: complex(t.ones(1, 2)), ValueError, "only one element tensors can be converted to Python scalars"),
        (lambda t: t.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
        (lambda t: t.ones(0).item(), RuntimeError, "a Tensor with 0 elements cannot be converted to Scalar"),
        (lambda t: int(t.tensor(float("nan"))), ValueError, "NaN"),
        (lambda t: int(t.tensor(float("inf"))), OverflowError, "infinity"),
        (lambda t: float(t.tensor(1 + 2j)), RuntimeError, "without overflow"),
        (lambda t: [1, 2][t.tensor(1.0)], TypeError, "only integer tensors of a single element can be converted to an index"),
        (lambda t: [1, 2][t.tensor([0, 1])], TypeError, "only integer tensors of a single element"),
        (lambda t: len(t.tensor(1)), TypeError, "len\\(\\) of a 0-d tensor"),
        (lambda t: list(t.tensor(1)), TypeError, "iteration over a 0-d tensor"),
        (lambda t: "a" in t.ones(2), RuntimeError, "only supports Tensor or scalar"),
        (lambda t: t.ones(2) if t.ones(2) else None, RuntimeError, "ambiguous"),
        (lambda t: t.ones(2).no_such_attribute, AttributeError, "no_such_attribute"),
        (lambda t: f"{t.ones(2):.2f}", TypeError, "unsupported format string"),
        (lambda t: t.ones(2, requires_grad=True).numpy(), RuntimeError, "Can't call numpy\\(\\) on Tensor that requires grad"),
        (lambda t: t.ones(2, dtype=t.bfloat16).numpy(), TypeError, "Got unsupported ScalarType BFloat16"),
        (lambda t: t.ones(2) < "a", TypeError, None),
        (lambda t: t.ones(2) + None, TypeError, None),
        (lambda t: t.ones(2).requires_grad_().detach_().backward(), RuntimeError, "does not require grad"),
        (lambda t: hash([t.ones(1)]), TypeError, "unhashable"),
        (lambda t: t.from_numpy([1, 2]), TypeError, "expected np.ndarray"),
        (lambda t: t.from_numpy(np.array(["a"])), TypeError, "can't convert np.ndarray of type numpy.str_"),
        (lambda t: t.from_numpy(np.arange(4)[::-1]), ValueError, "negative"),
    ],
)
def test_errors(act: Any, error: Any, words: str | None, request: pytest.FixtureRequest) -> None:
    with pytest.raises(error, match=words):
        act(flambeau)
    pytorch()
    with pytest.raises(error, match=words):
        act(request.getfixturevalue("oracle"))


WITH_DIM = (
    "sum mean prod std var amax any argmax logsumexp median cumsum cumprod softmax log_softmax squeeze unsqueeze flip unbind size".split()
)


@pytest.mark.parametrize("name", WITH_DIM)
def test_a_float_is_no_dimension(name: str) -> None:
    x = flambeau.arange(6.0).view(2, 3)
    for _ in range(3):  # the first call may be the one that prepares a fast path
        with pytest.raises(TypeError, match="int"):
            getattr(x, name)(1.0)
    with pytest.raises(TypeError, match="int"):
        flambeau.cat([x, x], 1.0)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_dimensions_of_softmax(name: str) -> None:
    x = flambeau.arange(6.0).view(2, 3)
    for _ in range(3):
        with pytest.raises(TypeError, match="must be int, not bool"):
            getattr(x, name)(True)
        assert flambeau.allclose(getattr(x, name)(np.int64(1)), getattr(x, name)(1))


def test_containers() -> None:
    x = flambeau.arange(6).reshape(3, 2).clone()
    assert len(x) == 3 and [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    _, middle, _ = x
    middle[0] = 9
    assert x[1, 0] == 9 and all(row._base is x for row in x)
    assert 9 in x and 7 not in x and flambeau.tensor(5) in x and x[0] in x
    assert next(iter(reversed(x))).tolist() == [4, 5] and len(flambeau.zeros(0, 3)) == 0 and list(flambeau.zeros(0)) == []
    assert (
        sorted([flambeau.tensor(3), flambeau.tensor(1)]) == [1, 3] and max(flambeau.tensor([1, 5, 2])) == 5 and sum(x).tolist() == [13, 9]
    )
    assert dict(zip("ab", x[0], strict=True))["b"] == 1 and [*map(int, x[2])] == [4, 5]


def test_tensors_are_hashed_by_identity_and_compared_by_element() -> None:
    x, y = flambeau.ones(2), flambeau.ones(2)
    assert hash(x) == id(x) and len({x, y}) == 2 and {x: 1}[x] == 1 and x in {x}
    assert (x == y).tolist() == [True, True] and (x == 1).all()
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "a") is False and x.equal(y) and not x.equal(flambeau.ones(3))


def test_format_and_str() -> None:
    assert f"{flambeau.tensor(3.14159):.2f}" == "3.14" and f"{flambeau.tensor(3):04d}" == "0003" and f"{flambeau.tensor(2.5)}" == "2.5"
    assert str(flambeau.tensor([1, 2])) == repr(flambeau.tensor([1, 2])) == f"{flambeau.tensor([1, 2])}" == "tensor([1, 2])"
    assert f"{flambeau.tensor(1.5):>8.1f}|" == "     1.5|" and f"{flambeau.tensor([1])}" == "tensor([1])"


# -- NumPy ------------------------------------------------------------------------------------------------------------------------
def test_memory_is_shared_with_numpy_both_ways() -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = flambeau.from_numpy(array)
    x[0, 0], array[1, 2] = 7, 8
    assert array[0, 0] == 7 and x[1, 2] == 8 and x.numpy().base is not None and np.shares_memory(x.numpy(), array)
    assert flambeau.as_tensor(array).data_ptr() == x.data_ptr() and flambeau.asarray(array).data_ptr() == x.data_ptr()
    assert flambeau.tensor(array).data_ptr() != x.data_ptr() and flambeau.asarray(array, copy=True).data_ptr() != x.data_ptr()
    assert flambeau.from_numpy(array.T).stride() == (1, 3) and flambeau.from_numpy(array[:, ::2]).stride() == (3, 2)
    y = flambeau.zeros(3)
    y.numpy()[1] = 5
    y.add_(1)
    assert y.tolist() == [1, 6, 1] and np.asarray(y)[1] == 6 and np.shares_memory(np.asarray(y), y.numpy())


@pytest.mark.parametrize(
    "name", "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
)
def test_every_common_dtype_comes_from_and_goes_to_numpy(name: str) -> None:
    array = np.array([0, 1, 2]).astype(name)
    x = flambeau.from_numpy(array)
    assert x.dtype is getattr(flambeau, name) and x.numpy().dtype == array.dtype and flambeau.tensor(array).dtype is x.dtype
    np.testing.assert_array_equal(x.numpy(), array)
    assert flambeau.tensor(array[1]).dtype is x.dtype and x.element_size() == array.itemsize


def test_numpy_functions_take_tensors() -> None:
    x = flambeau.arange(6.0).reshape(2, 3)
    assert np.array(x).dtype == np.float32 and np.array(x, dtype=np.int64).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.sum(x.numpy()) == 15 and np.concatenate([x, x]).shape == (4, 3) and np.allclose(x, x.numpy()) and np.argmax(x.numpy()) == 5
    np.testing.assert_array_equal(x, np.arange(6.0).reshape(2, 3))
    copied = np.array(x)
    copied[0, 0] = 9
    assert x[0, 0] == 0
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        np.asarray(flambeau.ones(2, requires_grad=True))
    assert flambeau.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.oracle
def test_numpy_functions_give_what_they_give_for_pytorch(oracle: ModuleType) -> None:
    programs = (
        "np.sin(x)",
        "np.add(x, 1)",
        "np.add(x, x)",
        "np.array(x) + x",
        "x + np.array(x)",
        "np.float64(2) * x",
        "x * np.float32(2)",
        "np.maximum(x, 2)",
        "np.stack([x, x])",
        "np.linalg.norm(x)",
        "np.isnan(x)",
        "np.exp(x[0, 0])",
        "np.where(x > 2, x, 0)",
        "np.array([x[0, 0], x[1, 1]])",
        "np.int64(2) + x",
        "x ** np.int64(2)",
        "x[np.array([0, 1])]",
        "np.dot(x, x.T)",
        "np.round(x)",
        "np.sqrt(x)",
    )
    for program in programs:
        outcomes = []
        for torch in (flambeau, oracle):
            x = torch.arange(6.0).reshape(2, 3) + 1
            try:
                got = eval(program, {"x": x, "np": np, "torch": torch})
            except Exception as error:
                outcomes.append(type(error))
                continue
            is_tensor = isinstance(got, torch.Tensor)
            outcomes.append((is_tensor, str(got.dtype), np.asarray(got, dtype=np.float64).round(5).tolist()))
        assert outcomes[0] == outcomes[1], program


# -- DLPack and buffers -----------------------------------------------------------------------------------------------------------
def test_dlpack_shares_memory_with_numpy() -> None:
    x = flambeau.arange(6.0).reshape(2, 3)
    array = np.from_dlpack(x)
    assert array.shape == (2, 3) and np.shares_memory(array, x.numpy()) and x.__dlpack_device__() == (1, 0)
    back = flambeau.from_dlpack(np.arange(4))
    assert back.tolist() == [0, 1, 2, 3] and back.dtype is flambeau.int64
    source = np.zeros((3, 4))
    shared = flambeau.from_dlpack(source.T)
    shared[0, 1] = 5
    assert source[1, 0] == 5 and shared.stride() == (1, 4)
    again = flambeau.utils.dlpack.from_dlpack(flambeau.utils.dlpack.to_dlpack(x))
    assert again.data_ptr() == x.data_ptr() and again.shape == x.shape
    with pytest.raises((RuntimeError, BufferError)):
        flambeau.ones(2, requires_grad=True).__dlpack__()


@pytest.mark.oracle
def test_dlpack_with_pytorch_both_ways(oracle: ModuleType) -> None:
    for name in ("float32", "float64", "int64", "uint8", "int16", "bool", "complex64", "float16"):
        ours = flambeau.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(flambeau, name)).t()
        theirs = oracle.from_dlpack(ours)
        assert str(theirs.dtype) == str(ours.dtype) and theirs.stride() == ours.stride() and theirs.data_ptr() == ours.data_ptr(), name
        back = flambeau.from_dlpack(theirs)
        assert back.dtype is ours.dtype and back.data_ptr() == ours.data_ptr() and back.equal(ours)
        theirs[0, 0] = 0
        assert ours[0, 0] == 0


def test_buffers() -> None:
    data = bytearray(np.arange(4, dtype=np.int16).tobytes())
    x = flambeau.frombuffer(data, dtype=flambeau.int16)
    data[0] = 7
    assert x.tolist() == [7, 1, 2, 3] and flambeau.frombuffer(data, dtype=flambeau.int16, count=2, offset=2).tolist() == [1, 2]
    with pytest.raises(ValueError):
        flambeau.frombuffer(data, dtype=flambeau.float64, count=2)


# -- copying ----------------------------------------------------------------------------------------------------------------------
def test_shallow_and_deep_copies() -> None:
    x = flambeau.arange(3.0)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    x[0] = 9
    assert shallow[0] == 9 and deep[0] == 0 and shallow is not x
    leaf = flambeau.ones(2, requires_grad=True)
    (leaf * 2).sum().backward()
    twin = copy.deepcopy(leaf)
    assert twin.requires_grad and twin.is_leaf and twin.grad.tolist() == [2, 2] and twin.grad is not leaf.grad
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(leaf * 2)
    part = x[1:]
    both = copy.deepcopy([x, part])
    both[0][1] = -1
    assert both[1][0] == -1 and part[0] == 1
    memo_twice = copy.deepcopy([x, x])
    assert memo_twice[0] is memo_twice[1]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_keeps_strides_grad_and_sharing(protocol: int) -> None:
    x = flambeau.arange(6.0).reshape(2, 3).t().requires_grad_()
    got = pickle.loads(pickle.dumps(x, protocol))
    assert got.stride() == (1, 3) and got.requires_grad and got.equal(x)
    parameter = pickle.loads(pickle.dumps(flambeau.nn.Parameter(flambeau.ones(2)), protocol))
    assert type(parameter) is flambeau.nn.Parameter and parameter.requires_grad
    stream = io.BytesIO()
    flambeau.save({"a": x, "b": x.detach()[0]}, stream)
    stream.seek(0)
    loaded = flambeau.load(stream)
    with flambeau.no_grad():
        loaded["a"][0, 0] = 5
    assert loaded["b"][0] == 5


# -- typed constructors, types ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("constructor", "dtype"),
    [
        ("FloatTensor", "float32"),
        ("DoubleTensor", "float64"),
        ("HalfTensor", "float16"),
        ("BFloat16Tensor", "bfloat16"),
        ("LongTensor", "int64"),
        ("IntTensor", "int32"),
        ("ShortTensor", "int16"),
        ("CharTensor", "int8"),
        ("ByteTensor", "uint8"),
        ("BoolTensor", "bool"),
    ],
)
def test_typed_constructors(constructor: str, dtype: str) -> None:
    make = getattr(flambeau, constructor)
    x = make([1, 0, 1])
    assert x.dtype is getattr(flambeau, dtype) and x.tolist() == [1, 0, 1] and x.type() == f"torch.{constructor}"
    assert isinstance(x, make) and isinstance(x, flambeau.Tensor) and not isinstance(x.to(flambeau.complex64), make)
    assert make(2, 3).shape == (2, 3) and make().shape == (0,) and type(x) is flambeau.Tensor
    assert flambeau.zeros(2).type(make).dtype is x.dtype and flambeau.zeros(2).type(f"torch.{constructor}").dtype is x.dtype
    assert make(x).data_ptr() == x.data_ptr()


def test_the_tensor_constructor_and_new() -> None:
    assert flambeau.Tensor([1, 2]).dtype is flambeau.float32 and flambeau.Tensor(2, 3).shape == (2, 3) and flambeau.Tensor().shape == (0,)
    assert flambeau.tensor([1]).new_tensor([1.9]).dtype is flambeau.int64
    x = flambeau.ones(2, dtype=flambeau.float64)
    assert x.new_zeros(3).dtype is x.new_ones((2, 2)).dtype is x.new_full((1,), 3).dtype is x.new_empty(1).dtype is flambeau.float64
    assert x.new(2, 3).shape == (2, 3) and x.new([1, 2]).tolist() == [1, 2]
    assert flambeau.is_tensor(x) and not flambeau.is_tensor(np.ones(1)) and flambeau.typename(x) == "torch.DoubleTensor"
    assert flambeau.is_storage(x.untyped_storage()) and not flambeau.is_storage(x)


# -- storages ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages() -> None:
    x = flambeau.arange(4, dtype=flambeau.int16)
    raw, typed = x[1:].untyped_storage(), x.storage()
    assert (
        raw.nbytes() == len(raw) == 8
        and raw.data_ptr() == x.data_ptr()
        and typed.size() == len(typed) == 4
        and typed.dtype is flambeau.int16
    )
    assert typed[2] == 2 and typed.tolist() == [0, 1, 2, 3] and list(raw)[:4] == [0, 0, 1, 0]
    typed[0] = 7
    raw[2] = 9
    assert x.tolist() == [7, 9, 2, 3]
    twin = raw.clone()
    twin.fill_(0)
    assert x[0] == 7 and typed.nbytes() == 8 and typed.element_size() == 2
    storage = flambeau.UntypedStorage(4)
    assert flambeau.tensor([], dtype=flambeau.uint8).set_(storage).shape == (4,)
    assert flambeau.FloatStorage([1, 2]).tolist() == [1, 2] and x.float().storage().dtype is flambeau.float32
    assert x.untyped_storage().data_ptr() == x.view(2, 2).untyped_storage().data_ptr()


# -- attributes ---------------------------------------------------------------------------------------------------------------------
def test_attributes_of_a_leaf_and_of_a_result() -> None:
    leaf = flambeau.ones(2, 3, requires_grad=True)
    result = leaf * 2
    assert (leaf.is_leaf, result.is_leaf, leaf.grad_fn, result.requires_grad, leaf.grad) == (True, False, None, True, None)
    assert (leaf.ndim, leaf.dim(), leaf.numel(), leaf.nelement(), leaf.itemsize, leaf.nbytes, leaf.element_size()) == (2, 2, 6, 6, 4, 24, 4)
    assert leaf.shape == leaf.size() == flambeau.Size([2, 3]) and leaf.size(1) == leaf.shape[-1] == 3 and leaf.size(-2) == 2
    assert (
        leaf.device == flambeau.device("cpu")
        and str(leaf.layout) == "torch.strided"
        and leaf.is_cpu
        and not leaf.is_cuda
        and not leaf.is_sparse
    )
    assert leaf.output_nr == 0
    with pytest.raises(RuntimeError, match="only change requires_grad flags of leaf variables|requires_grad"):
        result.requires_grad = False
    with pytest.raises(RuntimeError, match="[Oo]nly Tensors of floating point"):
        flambeau.ones(1, dtype=flambeau.int64).requires_grad = True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert result.grad is None
    assert any("not a leaf Tensor" in str(warning.message) for warning in caught)


def test_own_attributes_stay_with_the_tensor() -> None:
    x = flambeau.ones(2)
    x.note = "mine"
    assert x.note == "mine" and not hasattr(x.clone(), "note") and not hasattr(x[:], "note")
    with pytest.raises(AttributeError):
        x.shape = (1, 2)
    with pytest.raises(AttributeError):
        x.dtype = flambeau.float64


def test_data_can_be_replaced() -> None:
    x = flambeau.ones(2, requires_grad=True)
    x.data = flambeau.zeros(3)
    assert x.shape == (3,) and x.requires_grad and x.is_leaf
    x.data[0] = 5
    x.data.add_(1)
    assert x.tolist() == [6, 1, 1] and not x.data.requires_grad


def test_sizes_are_tuples() -> None:
    size = flambeau.zeros(2, 3, 4).shape
    assert size == (2, 3, 4) and isinstance(size, tuple) and size.numel() == 24 and repr(size) == "torch.Size([2, 3, 4])"
    assert type(size[1:]) is flambeau.Size and size[1:] == (3, 4) and type(size + (5,)) is flambeau.Size and size[0] * 2 == 4
    assert pickle.loads(pickle.dumps(size)) == size and hash(size) == hash((2, 3, 4)) and flambeau.Size([1, 2]) == flambeau.Size((1, 2))
    assert flambeau.zeros(size).shape == size and flambeau.zeros(*size).shape == size and list(size) == [2, 3, 4]
