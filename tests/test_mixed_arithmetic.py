"""Arithmetic at the edges of dtypes: shifts by any amount, integers that meet float16 and bfloat16, indices that count from the end."""

from __future__ import annotations

import enum
import itertools
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flambeau
from flambeau.core.arrays import native
from flambeau.core.calls.registry import TABLES

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
SIZES = pytest.mark.parametrize("size", [1, 5, native.choice_for(TABLES["torch"]["add"]).threshold + 3], ids=["one", "few", "many"])


# -- shifts ---------------------------------------------------------------------------------------------------------------------
def shifted(value: int, amount: int, dtype: str, left: bool) -> int:
    """The shift in Python's unbounded integers, wrapped around; a negative amount shifts everything out, as one of all bits does."""
    limits = np.iinfo(dtype)
    amount = amount if 0 <= amount < limits.bits else limits.bits
    number = value << amount if left else value >> amount
    return (number - int(limits.min)) % (1 << limits.bits) + int(limits.min)


def amounts_of(dtype: str) -> list[int]:
    limits = np.iinfo(dtype)
    wanted = (-200, -64, -9, -8, -1, 0, 1, 3, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 62, 63, 64, 65, 100, 127, 255, 300)
    return [amount for amount in wanted if limits.min <= amount <= limits.max]


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_any_amount(dtype: str, left: bool, size: int) -> None:
    limits = np.iinfo(dtype)
    wanted = (int(limits.min), -5, -1, 0, 1, 2, 5, 100, int(limits.max)) if size < 100 else (int(limits.min), -5, 1, int(limits.max))
    values = [value for value in wanted if limits.min <= value]
    function: Callable[..., Any] = operator.lshift if left else operator.rshift
    method = "bitwise_left_shift" if left else "bitwise_right_shift"
    kind = getattr(flambeau, dtype)
    for value, amount in itertools.product(values, amounts_of(dtype)):
        want = shifted(value, amount, dtype, left)
        where = f"{value} shifted by {amount}"
        x, by = flambeau.full((size,), value, dtype=kind), flambeau.full((size,), amount, dtype=kind)
        for got in (
            function(x, by),
            function(x, amount),
            function(value, by),
            function(x, flambeau.tensor(amount, dtype=kind)),
            getattr(flambeau, method)(x, by),
            getattr(x.clone(), f"{method}_")(by),
            getattr(x.clone(), f"{method}_")(amount),
        ):
            assert got.dtype is kind and got.shape in ((size,), ()) and (got.numpy() == want).all(), where


@pytest.mark.oracle
def test_shifts_agree_with_pytorch(oracle: ModuleType) -> None:
    for dtype, value, left in itertools.product(INTEGERS, (-7, -1, 0, 1, 77, 255), (True, False)):
        if value < np.iinfo(dtype).min or value > np.iinfo(dtype).max:
            continue
        function: Callable[..., Any] = operator.lshift if left else operator.rshift
        for amount in amounts_of(dtype):
            ours = function(flambeau.tensor([value], dtype=getattr(flambeau, dtype)), amount)
            theirs = function(oracle.tensor([value], dtype=getattr(oracle, dtype)), amount)
            assert ours.tolist() == theirs.tolist(), (dtype, value, amount, left)


# -- opmath -----------------------------------------------------------------------------------------------------------------------
# Products and quotients take a second operand of one element as it is; whatever else is not a half is rounded to one first.
EXACT = {"mul", "div"}
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "remainder": np.remainder,
    "maximum": np.maximum,
    "eq": np.equal,
    "lt": np.less,
}


def tensor_of(library: Any, values: np.ndarray, dtype: str) -> Any:
    return library.tensor(values.astype(np.float64), dtype=getattr(library, dtype))


def mixtures(size: int) -> list[tuple[str, np.ndarray, str, np.ndarray]]:
    """(dtype, values) twice, with integers and floats that neither float16 nor bfloat16 can hold."""
    rng = np.random.default_rng(0)
    whole, opmath = rng.integers(257, 4099, size).astype(np.float64), rng.uniform(0.25, 9, size).astype(np.float32).astype(np.float64)
    return [
        ("half", opmath, "int64", whole),
        ("int64", whole, "half", opmath),
        ("half", opmath, "int16", np.array(2051.0)),
        ("int64", np.array(2051.0), "half", opmath),
        ("half", np.array(1.5), "int64", whole),
        ("half", opmath, "float32", np.array(0.1)),
        ("float64", np.array(4097.3), "half", opmath),
        ("half", np.array(1.5), "int32", np.array(2051.0)),
    ]


@pytest.mark.slow
@SIZES
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("half", HALVES)
def test_what_meets_a_half_is_rounded_to_one_first(half: str, name: str, size: int) -> None:
    for first, a, second, b in mixtures(size):
        left, right = (tensor_of(flambeau, x, half if kind == "half" else kind) for kind, x in ((first, a), (second, b)))
        one, two = (array.astype(HALVES[half]).astype(np.float32) for array in (a, b))
        if name in EXACT and b.size == 1 and second != "half":
            two = b.astype(np.float32)
        with np.errstate(all="ignore"):
            want = BINARY[name](one, two)
        want = want if want.dtype == np.bool_ else want.astype(HALVES[half])
        got = getattr(flambeau, name)(left, right)
        assert got.dtype is (flambeau.bool if want.dtype == np.bool_ else getattr(flambeau, half))
        np.testing.assert_array_equal(np.asarray(got._array), want, err_msg=f"{name}({first}{list(a.shape)}, {second}{list(b.shape)})")


FLOATING = ("float16", "bfloat16", "float32", "float64")
DIFFERENTIABLE = "add sub mul div pow float_power atan2 hypot logaddexp logaddexp2 xlogy special.xlog1py".split()
DIFFERENTIABLE += "maximum minimum fmax fmin fmod remainder copysign".split()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_two_dtypes_are_rounded_where_pytorchs_are(name: str, of_pytorch: Callable[..., Any]) -> None:
    """Up to what the operand's own dtype rounds, and to a few roundings of the wider one."""

    def gradients(library: Any, pair: tuple[str, str]) -> list[np.ndarray]:
        rng, function = np.random.default_rng(0), library
        for part in name.split("."):
            function = getattr(function, part)
        arrays = rng.uniform(0.1, 2, (2, 3, 4)), rng.uniform(0.1, 2, (3, 4))
        inputs = [library.from_numpy(array).to(getattr(library, dtype)).requires_grad_() for array, dtype in zip(arrays, pair, strict=True)]
        result = function(*inputs)
        weights = library.from_numpy(np.linspace(-1, 1, 24).reshape(2, 3, 4)).to(result.dtype)
        return [grad.double().numpy() for grad in library.autograd.grad(result, inputs, weights)]

    for pair in itertools.permutations(FLOATING, 2):
        common = flambeau.float64 if name == "float_power" else flambeau.promote_types(*[getattr(flambeau, dtype) for dtype in pair])
        for got, want, dtype in zip(gradients(flambeau, pair), of_pytorch(gradients, pair), pair, strict=True):
            kept = flambeau.finfo(getattr(flambeau, dtype)).eps + 8 * flambeau.finfo(common).eps
            assert np.abs(got - want).max() <= kept * np.abs(want).max(), (pair, dtype)


@SIZES
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.oracle
def test_mixtures_with_halves_agree_with_pytorch(half: str, size: int, oracle: ModuleType) -> None:
    def outcomes(library: Any) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for number, (first, a, second, b) in enumerate(mixtures(size)):
            left, right = (tensor_of(library, x, half if kind == "half" else kind) for kind, x in ((first, a), (second, b)))
            for name in (*BINARY, "true_divide", "fmod", "minimum", "ne", "where"):
                function = getattr(library, name)
                results[f"{name} {number}"] = function(library.tensor(True), left, right) if name == "where" else function(left, right)
            if first == "half" and left.dim():
                for name in ("add_", "sub_", "mul_", "div_"):
                    results[f"{name} {number}"] = getattr(left.clone(), name)(right)
        x = tensor_of(library, mixtures(size)[0][1], half)
        for number in (2051, 257, 4097.3, 0.1):
            for name in ("add", "sub", "mul", "truediv", "mod", "pow", "eq", "gt"):
                function = getattr(operator, name)
                results[f"x {name} {number}"] = function(x, number)
                if name not in ("pow", "truediv"):  # what is left of a power, or above a reciprocal, is rounded elsewhere
                    results[f"{number} {name} x"] = function(number, x)
        return results

    ours, theirs = outcomes(flambeau), outcomes(oracle)
    for name, want in theirs.items():
        assert str(ours[name].dtype) == str(want.dtype), name
        exact = not name.startswith("x pow")
        np.testing.assert_allclose(
            np.asarray(ours[name].double().tolist()), np.asarray(want.double().tolist()), rtol=0 if exact else 1e-2, err_msg=name
        )


def test_ldexp_keeps_the_dtype_beside_integers() -> None:
    for dtype in (flambeau.float16, flambeau.bfloat16, flambeau.float32, flambeau.float64):
        result = flambeau.ldexp(flambeau.ones(3, dtype=dtype), flambeau.tensor([1, 2, 3]))
        assert result.dtype is dtype and result.tolist() == [2, 4, 8]


# -- indices ----------------------------------------------------------------------------------------------------------------------
def test_index_fill_counts_from_the_end() -> None:
    x = flambeau.arange(12.0).reshape(3, 4).requires_grad_()
    value = flambeau.tensor(5.0, requires_grad=True)
    result = x.index_fill(1, flambeau.tensor([-1, 0, -4]), value)
    assert result.tolist() == [[5, 1, 2, 5], [5, 5, 6, 5], [5, 9, 10, 5]]
    result.sum().backward()
    assert x.grad is not None and value.grad is not None
    assert x.grad.tolist() == [[0, 1, 1, 0]] * 3 and value.grad.item() == 6
    assert flambeau.zeros(3).index_fill_(0, flambeau.tensor([-3]), 1.0).tolist() == [1, 0, 0]
    for wrong in (-4, 3):
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
            flambeau.zeros(3).index_fill(0, flambeau.tensor([wrong]), 1.0)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("wrong", [-1, -3, 3, 1 << 40])
@pytest.mark.parametrize("padding", [None, 0, -1])
def test_an_index_of_a_bag_is_a_row(mode: str, wrong: int, padding: int | None) -> None:
    table = flambeau.arange(12.0).reshape(3, 4)
    for indices, offsets in ((flambeau.tensor([[0, wrong]]), None), (flambeau.tensor([0, wrong]), flambeau.tensor([0]))):
        with pytest.raises(RuntimeError, match=f"found idx to be {wrong}"):
            flambeau.nn.functional.embedding_bag(indices, table, offsets, mode=mode, padding_idx=padding)


def test_index_tensors_are_long_or_int() -> None:
    x = flambeau.arange(6.0)
    for dtype in (flambeau.int8, flambeau.int16):
        with pytest.raises(IndexError, match="must be long, int, byte or bool"):
            x[flambeau.tensor([1, 2], dtype=dtype)]
        with pytest.raises(IndexError, match="must be long, int, byte or bool"):
            x[flambeau.tensor([1, 2], dtype=dtype)] = 1.0
        assert x[flambeau.tensor(2, dtype=dtype)].item() == 2  # one number is as good as an int
    with pytest.raises(IndexError, match="shape of the mask"):
        x.index_put((flambeau.tensor([True, False]),), flambeau.tensor(1.0))


NEGATIVE: dict[str, Callable[[Any, Any], Any]] = {
    "index_fill": lambda x, i: x.index_fill(0, i, 5.0),
    "index_add": lambda x, i: x.index_add(0, i, x[: len(i)]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[: len(i)]),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[: len(i)], "prod"),
    "gather": lambda x, i: x.gather(0, i.reshape(-1, 1)),
    "scatter": lambda x, i: x.scatter(0, i.reshape(-1, 1), 2.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(-1, 1), x[: len(i)]),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i.reshape(-1, 1), x[: len(i)], "amax"),
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, x.reshape(-1)[: len(i)]),
    "getitem": lambda x, i: x[i],
    "index_put": lambda x, i: x.index_put((i,), x[0]),
    "select": lambda x, i: x.select(0, int(i[0])),
}


@pytest.mark.parametrize("name", NEGATIVE)
@pytest.mark.parametrize("indices", [[-1], [-3, 0], [-4], [3], [0, 2], []])
@pytest.mark.oracle
def test_indices_wrap_or_raise_as_in_pytorch(name: str, indices: list[int], oracle: ModuleType) -> None:
    if name == "select" and not indices:
        pytest.skip("select takes one number")
    outcomes: list[Any] = []
    for library in (oracle, flambeau):
        x = library.arange(12.0).reshape(3, 4)
        try:
            outcomes.append(NEGATIVE[name](x, library.tensor(indices, dtype=library.int64)).tolist())
        except (IndexError, RuntimeError):  # PyTorch raises the one or the other by dtype and number of threads
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


# -- numbers of other classes ------------------------------------------------------------------------------------------------------
class Twofold(enum.IntEnum):
    two = 2


@pytest.mark.parametrize("operation", [operator.mul, operator.truediv], ids=["mul", "div"])
@pytest.mark.parametrize(
    "number", [True, np.float32(2), np.float64(2), np.int64(2), np.bool_(True), Twofold.two, np.complex64(1 + 2j)], ids=repr
)
def test_numbers_of_any_class_have_gradients(operation: Callable[..., Any], number: Any) -> None:
    x, plain = flambeau.tensor([0.5, -1.5], requires_grad=True), flambeau.tensor([0.5, -1.5], requires_grad=True)
    as_python = complex(number) if isinstance(number, complex | np.complexfloating) else float(number)
    for tensor, each in ((x, number), (plain, as_python)):
        operation(tensor, each).abs().sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()
