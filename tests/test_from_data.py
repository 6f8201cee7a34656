"""Tensors on memory that somebody else owns, and tensors from values: what records with arrays cannot say."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import ops


def test_from_numpy_shares_memory() -> None:
    array = np.zeros(3, np.float32)
    tensor = ops.from_numpy(array)
    array[0] = 5
    tensor[1] = 7
    assert tensor.tolist() == [5, 7, 0]
    assert array.tolist() == [5, 7, 0]


def test_from_numpy_keeps_dtype_and_strides() -> None:
    array = np.arange(6.0).reshape(2, 3).T
    tensor = ops.from_numpy(array)
    assert tensor.dtype is flambeau.float64
    assert tensor.stride() == (1, 3)


def test_from_numpy_refuses_negative_strides() -> None:
    with pytest.raises(ValueError, match="stride"):
        ops.from_numpy(np.arange(3)[::-1])


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.zeros(2, "datetime64[s]")])
def test_from_numpy_refuses_other_element_types(array: np.ndarray) -> None:
    with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type"):
        ops.from_numpy(array)


def test_from_numpy_warns_of_read_only_memory() -> None:
    array = np.zeros(2)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        ops.from_numpy(array)


def test_tensor_copies_arrays() -> None:
    array = np.zeros(2)
    tensor = ops.tensor(array)
    array[0] = 1
    assert tensor.tolist() == [0, 0]


def test_as_tensor_shares_what_it_can() -> None:
    array, tensor = np.zeros(2), ops.zeros(2)
    assert ops.as_tensor(tensor) is tensor
    ops.as_tensor(array)[0] = 1
    assert array[0] == 1
    ops.as_tensor(array, dtype=flambeau.float32)[0] = 2
    assert array[0] == 1


def test_tensor_of_a_tensor_warns_and_copies() -> None:
    source = ops.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        copied = ops.tensor(source)
    assert not copied.requires_grad
    assert copied.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (np.float64(1), "float64"),
        ([np.float32(1)], "float32"),
        ([np.float16(1), 1], "float16"),
        (np.int32(3), "int32"),
        ([np.array([1.0, 2.0])], "float64"),
        ([True, 2], "int64"),
    ],
)
def test_dtype_of_numpy_values(data: object, dtype: str) -> None:
    assert ops.tensor(data).dtype is getattr(flambeau, dtype)


def test_tensor_of_tensors_takes_one_element_each() -> None:
    assert ops.tensor([ops.tensor(1), ops.tensor([2])]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="only one element tensors"):
        ops.tensor([ops.ones(2)])


def test_default_dtype_decides_for_python_floats() -> None:
    from flambeau.core.dtype import float64, get_default_dtype, set_default_dtype

    before = get_default_dtype()
    set_default_dtype(float64)
    try:
        assert ops.tensor(1.5).dtype is ops.zeros(1).dtype is ops.arange(0, 1, 0.5).dtype is float64
        assert ops.tensor(1j).dtype is flambeau.complex128
    finally:
        set_default_dtype(before)


def test_dlpack_goes_both_ways() -> None:
    tensor = ops.arange(6).reshape(2, 3).t()
    array = np.from_dlpack(tensor)
    assert array.tolist() == [[0, 3], [1, 4], [2, 5]]
    array[0, 0] = 9
    assert tensor[0, 0].item() == 9
    assert ops.from_dlpack(ops.to_dlpack(tensor)).tolist() == tensor.tolist()
    with pytest.raises(BufferError, match="require gradient"):
        ops.ones(1, requires_grad=True).__dlpack__()


def test_frombuffer_shares_memory() -> None:
    buffer = bytearray(8)
    tensor = ops.frombuffer(buffer, dtype=flambeau.int32, offset=4)
    tensor[0] = 1
    assert list(buffer) == [0, 0, 0, 0, 1, 0, 0, 0]


def test_out_takes_the_result_and_its_size() -> None:
    target = ops.empty(0)
    assert ops.arange(3, out=target) is target
    assert target.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        ops.zeros(3, out=target, dtype=flambeau.int64)


@pytest.mark.parametrize("factory", ["zeros", "ones", "empty"])
def test_devices_and_layouts_are_checked(factory: str) -> None:
    make = getattr(ops, factory)
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        make(2, device="cuda")
    with pytest.raises(RuntimeError, match="pin_memory"):
        make(2, pin_memory=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sizes'"):
        make(sizes=3)


def test_zeros_like_keeps_dense_strides_only() -> None:
    assert ops.zeros_like(ops.ones(2, 3).t()).stride() == (1, 3)
    assert ops.zeros_like(ops.ones(2, 1).expand(2, 3)).stride() == (3, 1)
    assert ops.zeros_like(ops.ones(4, 6)[::2, ::2].t()).stride() == (1, 3)


def test_importing_values_warns_nobody() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ops.tensor([1e300]).item() == float("inf")


def test_old_product_orders() -> None:
    a, b, c = ops.ones(2, 2), ops.ones(2, 3), ops.ones(3, 2)
    with pytest.warns(UserWarning, match="deprecated"):
        assert ops.addmm(2, a, 3, b, c).tolist() == [[11, 11], [11, 11]]
    with pytest.warns(UserWarning, match="deprecated"):
        assert a.addmm(2, b, c).tolist() == [[5, 5], [5, 5]]


@pytest.mark.parametrize("form", ["median", "nanmedian", "max", "min", "mode", "kthvalue"])
def test_selections_send_gradients_to_one_place(form: str) -> None:
    x = ops.tensor([[1.0, 3.0, 2.0], [5.0, 4.0, 9.0]], requires_grad=True)
    arguments = (2, 1) if form == "kthvalue" else (1,)
    result = getattr(x, form)(*arguments)
    result.values.sum().backward()
    assert x.grad.sum().item() == 2
    assert x.grad.gather(1, result.indices.unsqueeze(1)).tolist() == [[1], [1]]


def test_sum_of_many_float32_is_accurate_along_any_dimension() -> None:
    values = np.full((100_000, 4), 0.1, np.float32)
    for tensor in (ops.from_numpy(values), ops.from_numpy(np.ascontiguousarray(values.T)).t()):
        np.testing.assert_allclose(tensor.sum(0).numpy(), 100_000 * float(values[0, 0]), rtol=1e-6)


def test_an_array_that_was_pickled_has_an_ordinary_element_type():
    array = pickle.loads(pickle.dumps(np.arange(3, dtype=np.uint8), 5))
    assert array.dtype.isbuiltin == 0
    tensor = flambeau.from_numpy(array)
    assert tensor.numpy().tolist() == tensor.tolist() == [0, 1, 2]
    assert np.from_dlpack(tensor).tolist() == [0, 1, 2]
