"""``torch.testing``: what counts as close, what is said where it is not, and the tensors of ``make_tensor``."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau

nan, inf = math.nan, math.inf


@pytest.fixture(params=["flambeau", pytest.param("pytorch", marks=pytest.mark.oracle)])
def torch(request):
    return flambeau if request.param == "flambeau" else request.getfixturevalue("oracle")


CLOSE = {
    "equal": lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.0])),
    "within float32": lambda t: (t.tensor(1.0), t.tensor(1.0 + 1e-5)),
    "within float16": lambda t: (t.tensor([1.0]).half(), t.tensor([1.0009]).half()),
    "within bfloat16": lambda t: (t.tensor([1.0]).bfloat16(), t.tensor([1.01]).bfloat16()),
    "infinities": lambda t: (t.tensor([inf, -inf]), t.tensor([inf, -inf])),
    "empty": lambda t: (t.tensor([]), t.tensor([])),
    "nested": lambda t: ({"a": [1, t.ones(2)], "b": None}, {"b": None, "a": [1, t.ones(2)]}),
    "tuple and list": lambda t: ((1, 2), [1, 2]),
    "parameter": lambda t: (t.ones(1), t.nn.Parameter(t.ones(1))),
    "requires grad": lambda t: (t.ones(1, requires_grad=True), t.ones(1)),
    "arrays": lambda t: (np.ones(2), np.ones(2)),
    "float": lambda t: (1.0, 1.0 + 1e-8),
    "strides": lambda t: (t.ones(2, 3).t(), t.ones(3, 2)),
    "meta": lambda t: (t.ones(2, device="meta"), t.zeros(2, device="meta")),
}
FAR = {
    "devices": lambda t: (t.ones(2), t.ones(2, device="meta", dtype=t.float64)),
    "float32": lambda t: (t.tensor([1.0, 2.0, 3.0]), t.tensor([1.0, 2.0, 3.1])),
    "0-d": lambda t: (t.tensor(1.0), t.tensor(2.0)),
    "float": lambda t: (1.0, 1.1),
    "int": lambda t: (1, 2),
    "complex": lambda t: (1 + 1j, 1 + 2j),
    "int64": lambda t: (t.tensor([1, 2]), t.tensor([1, 3])),
    "bool tensors": lambda t: (t.tensor([True, False]), t.tensor([True, True])),
    "complex64": lambda t: (t.tensor([1 + 1j]), t.tensor([1 + 2j])),
    "matrix": lambda t: (t.tensor([[1.0, 2.0], [3.0, 4.0]]), t.tensor([[1.0, 2.0], [5.0, 7.0]])),
    "dtype": lambda t: (t.ones(1), t.ones(1).double()),
    "shape": lambda t: (t.ones(2), t.ones(3)),
    "infinity": lambda t: (t.tensor([inf]), t.tensor([1.0])),
    "nan": lambda t: (t.tensor([nan]), t.tensor([nan])),
    "number types": lambda t: (1, 1.0),
    "bools": lambda t: (True, False),
    "none": lambda t: (None, 1),
    "length": lambda t: ([1], [1, 2]),
    "keys": lambda t: ({"a": 1}, {"b": 1}),
    "nested": lambda t: ({"a": [t.tensor([1.0])]}, {"a": [t.tensor([2.0])]}),
    "arrays": lambda t: (np.ones(2), np.zeros(2)),
    "uint8": lambda t: (t.tensor([3, 9], dtype=t.uint8), t.tensor([5, 9], dtype=t.uint8)),
}


@pytest.mark.parametrize("name", CLOSE)
def test_close(torch, name):
    torch.testing.assert_close(*CLOSE[name](torch))


@pytest.mark.parametrize("name", FAR)
def test_not_close(torch, name):
    with pytest.raises(AssertionError):
        torch.testing.assert_close(*FAR[name](torch))


@pytest.mark.oracle
@pytest.mark.parametrize("name", FAR)
def test_the_figures_in_the_message_are_pytorchs(oracle, name):
    texts = []
    for library in (flambeau, oracle):
        with pytest.raises(AssertionError) as raised:
            library.testing.assert_close(*FAR[name](library))
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_options(torch):
    close = torch.testing.assert_close
    close(torch.tensor([nan]), torch.tensor([nan]), equal_nan=True)
    close(nan, nan, equal_nan=True)
    close(torch.ones(1), torch.ones(1).double(), check_dtype=False)
    close(1, 1.0, check_dtype=False)
    close(torch.ones(1), torch.ones(1, device="meta"), check_device=False)
    close(torch.tensor([1.0]), torch.tensor([1.5]), rtol=0, atol=0.5)
    with pytest.raises(AssertionError):
        close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-6]), rtol=0, atol=0)
    with pytest.raises(AssertionError, match="stride"):
        close(torch.ones(2, 3).t(), torch.ones(3, 2), check_stride=True)
    with pytest.raises(AssertionError, match=r"^hey$"):
        close(1, 2, msg="hey")
    with pytest.raises(AssertionError, match=r"^before\nScalars are not equal"):
        close(1, 2, msg=lambda text: "before\n" + text)
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol'"):
        close(1.0, 1.0, rtol=1e-3)


def test_types_that_cannot_be_compared(torch):
    for pair in ((torch.ones(1), [1.0]), ("a", "a"), (1.0, torch.tensor(1.0)), (np.ones(1), torch.ones(1)), (object(), object())):
        with pytest.raises(TypeError, match="No comparison pair"):
            torch.testing.assert_close(*pair)
    with pytest.raises(TypeError, match="No comparison pair"):
        torch.testing.assert_close(torch.ones(1), torch.nn.Parameter(torch.ones(1)), allow_subclasses=False)


def test_negative_tolerances_are_refused():
    with pytest.raises(ValueError, match="tolerances of at least 0"):
        flambeau.testing.assert_close(flambeau.ones(1), flambeau.ones(1), rtol=-1.0, atol=0.0)


def test_assert_allclose(torch):
    with pytest.warns(FutureWarning, match="deprecated"):
        torch.testing.assert_allclose(torch.tensor([1.0, nan]), [1.0, nan])
    with pytest.warns(FutureWarning, match="deprecated"), pytest.raises(AssertionError):
        torch.testing.assert_allclose(torch.tensor([1.0]), [2.0])


MAKE = [
    ("float32", {}),
    ("float16", {}),
    ("bfloat16", {}),
    ("float64", {"low": 0, "high": 1}),
    ("complex64", {}),
    ("complex128", {"low": -1.0, "high": 2.0}),
    ("bool", {}),
    ("uint8", {}),
    ("int8", {"low": -300, "high": 300}),
    ("int64", {"low": 0, "high": 5}),
    ("int32", {"low": 0, "high": 2, "exclude_zero": True}),
    ("float32", {"low": -inf, "high": inf}),
    ("float32", {"noncontiguous": True}),
    ("int64", {"noncontiguous": True}),
    ("float8_e4m3fn", {}),
]


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "options"), MAKE)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 0)])
def test_made_tensors_are_pytorchs(oracle, name, options, shape):
    tensors = []
    for library in (flambeau, oracle):
        library.manual_seed(7)
        tensors.append(library.testing.make_tensor(shape, dtype=getattr(library, name), device="cpu", **options))
    one, other = tensors
    assert one.stride() == other.stride() and str(one.dtype) == str(other.dtype)
    if "float8" in name or name == "bfloat16":
        one, other = one.float(), other.float()
    np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_made_tensors_hold_what_was_asked(torch):
    make = torch.testing.make_tensor
    tensor = make(100, dtype=torch.float32, device="cpu", low=2, high=3, requires_grad=True)
    assert tensor.requires_grad and tensor.is_leaf and 2 <= tensor.min().item() and tensor.max().item() < 3
    assert not make(3, 4, dtype=torch.float32, device="cpu", noncontiguous=True).is_contiguous()
    assert make((1, 2, 2, 2), dtype=torch.float32, device="cpu", memory_format=torch.channels_last).stride() == (8, 1, 4, 2)
    assert (make(50, dtype=torch.int64, device="cpu", low=0, high=2, exclude_zero=True) == 1).all()


def test_made_tensors_refuse_bad_options(torch):
    make = torch.testing.make_tensor
    with pytest.raises(ValueError, match="must be less than"):
        make(3, dtype=torch.float32, device="cpu", low=2, high=1)
    with pytest.raises(ValueError, match="cannot be NaN"):
        make(3, dtype=torch.int64, device="cpu", low=nan, high=1)
    with pytest.raises(ValueError, match="requires_grad=True"):
        make(3, dtype=torch.int64, device="cpu", requires_grad=True)
    with pytest.raises(ValueError, match="mutually exclusive"):
        make(2, 2, 2, 2, dtype=torch.float32, device="cpu", noncontiguous=True, memory_format=torch.channels_last)
