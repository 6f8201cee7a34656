"""``x[key]`` read and written: every kind of key and mixtures, view or copy, gradients, and the errors."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from libraries import relevant_strides
from oracle import pytorch

import flambeau

SHAPE = (3, 4, 5)


def numbers(torch: Any, *shape: int, dtype: Any = None, **options: Any) -> Any:
    return (
        torch.arange(int(np.prod(shape)))
        .reshape(shape)
        .to(torch.float64 if dtype is None else dtype)
        .requires_grad_(options.get("requires_grad", False))
    )


def key_of(text: str, torch: Any) -> Any:
    """The key that the text writes: ``t`` makes an index tensor, ``m`` a mask, ``n`` a NumPy array."""

    class Taker:
        def __getitem__(self, key: Any) -> Any:
            return key

    def tensor(values: Any, dtype: str = "int64") -> Any:
        return np.array(values, dtype) if torch is np else torch.tensor(values, dtype=getattr(torch, dtype))

    def mask(*shape: int) -> Any:
        return tensor((np.arange(int(np.prod(shape))) % 3 == 1).reshape(shape).tolist(), "bool")

    names = {"K": Taker(), "t": tensor, "m": mask, "n": np.array, "np": np, "torch": torch, "x": None, "I": Index}
    return eval(f"K[{text}]", names)


class Index:
    """An object that is an integer by ``__index__`` only."""

    def __init__(self, value: int):
        self.value = value

    def __index__(self) -> int:
        return self.value


BASIC = """
0 | -1 | 2, 3 | -1, -2, -3 | 0, 1, 2 | : | ... | None | 1: | :-1 | ::2 | 1:100 | 5:2 | -2: | :, 1 | :, -1:, 2 | ..., 0 | 0, ... | 0, ..., 1
1, ..., None | None, None | :, None, 1 | ..., None | None, 0, None, 1 | ::2, ::3, 1::2 | 1:2, 2:3, 3:4 | (1, 2) | np.int64(1) | I(2)
slice(None, None, None) | slice(0, 2) | slice(1, None, 2), slice(None) | 0:0 | :, :, 0:0 | np.int64(1):np.int64(3) | I(0):I(2)
..., 1:3, None
t(1) | t(-1), 2 | t(2, 'int32') | 0, t(1), ... | :, :, :, None | 0, 0, 0, ... | ..., 0, 0, 0
"""
ADVANCED = """
[0, 2] | t([0, 2]) | n([0, 2]) | t([[0, 1], [2, 0]]) | t([-1, -3]) | t([], 'int64') | [] | t([1]) | t([0, 1], 'int32') | [True, False, True]
t([0, 1, 2]), t([3, 2, 1]) | t([[0], [1]]), t([3, 0, 1]) | t([0, 1]), 1 | t([0, 1]), 1:3 | :, t([0, 2]) | ..., t([0, 2]) | :, :, [4, 0, 4]
t([0, 1]), :, t([2, 3]) | :, t([0, 1]), t([2, 3]) | :, t([[0], [1]]), t([2, 3]) | None, t([0, 1]) | t([0, 1]), None | :, t([0, 1]), None
m(3) | m(3, 4) | m(3, 4, 5) | :, m(4) | :, m(4, 5) | ..., m(5) | m(3), 0:2 | m(3), ..., 1:3 | m(3), t([3]) | :, m(4), 1:2
n([True, False, True])
True | False | None, True | ..., True | n(True) | t([0, 1]), True | m(3), None | n([0, 1]), n([1, 2]) | range(2) | n([2], 'int32')
t([0, 2]), t([1]), t([4, 0]) | t([0, 0, 0]) | t([[[1]]]) | :, :, t([[0, 1]]) | t([0, 1]), ..., t([0, 1]) | 1:, t([0, 1]), ::2
m(3, 4), t([1]) | m(3, 4), 2:
n([], 'int64') | t([0]), t([], 'int64') | np.zeros((0, 2), 'int64') | [[0, 1]] | [[0, 1], [1, 2]] | m(3), m(4, 5) | t(0), t([1, 2])
t([1, 2]), t(0)
"""
# an int beside index tensors selects first here, but is an index array of its own for NumPy
APART_FROM_NUMPY = """
0, :, t([0, 1]) | t([0, 1]), :, 0 | 0, :, m(5) | 1, None, t([2, 3]) | [slice(0, 2), 1] | [None, 1] | [[0, 1], slice(1, 3)]
[t([0, 1]), t([1, 2])]
t([0, 1]), 1, None | m(3), :, 1 | True, 0 | t(1), :, t([0]) | I(1), :, [0, 2]
"""


def listed(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() if line for part in line.split("|")]


NUMPY_KEYS = [key for key in listed(BASIC + ADVANCED) if key not in ("[[0, 1], [1, 2]]", "[[0, 1]]", "m(3), m(4, 5)", "t([0, 1]), True")]
ALL_KEYS = listed(BASIC + ADVANCED + APART_FROM_NUMPY)


def read(torch: Any, key: str) -> Any:
    x = numbers(torch, *SHAPE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # keys that real PyTorch will read otherwise one day
        return x, x[key_of(key, torch)]


@pytest.mark.parametrize("key", NUMPY_KEYS)
def test_reading_gives_numpys_values(key: str) -> None:
    x, got = read(flambeau, key)
    expected = np.asarray(x.numpy()[key_of(key, np)])
    assert tuple(got.shape) == expected.shape
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("key", ALL_KEYS)
def test_reading_gives_pytorchs_result(key: str, of_pytorch: Callable[..., Any]) -> None:
    def facts(torch: Any) -> Any:
        x, got = read(torch, key)
        return got, got.storage_offset(), got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()

    (got, offset, shares), (want, wanted_offset, wanted_shares) = facts(flambeau), of_pytorch(facts)
    assert got.shape == tuple(want.shape)
    if want.numel():
        assert offset == wanted_offset
        assert got._base is None or got.stride() == want.stride()
        assert relevant_strides(got) == relevant_strides(want)
    assert shares == wanted_shares
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("0, :, t([0, 1])", lambda a: a[0][:, [0, 1]]),
        ("t([0, 1]), :, 0", lambda a: a[:, :, 0][[0, 1]]),
        ("0, :, m(5)", lambda a: a[0][:, [1, 4]]),
        ("[slice(0, 2), 1]", lambda a: a[0:2, 1]),
        ("[t([0, 1]), t([1, 2])]", lambda a: a[[0, 1], [1, 2]]),
        ("True, 0", lambda a: a[0][None]),
        ("t(1), :, t([0])", lambda a: a[1][:, [0]]),
        ("[[0, 1], [1, 2]]", lambda a: a[[0, 1], [1, 2]]),
    ],
)
def test_keys_that_numpy_reads_otherwise(key: str, expected: Any) -> None:
    x, got = read(flambeau, key)
    np.testing.assert_array_equal(got.numpy(), expected(x.numpy()))


@pytest.mark.parametrize("key", listed(BASIC))
def test_basic_keys_give_views(key: str) -> None:
    x, got = read(flambeau, key)
    assert got._base is x and got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    before = x._version
    if got.numel():
        got.fill_(-1)
        assert (x == -1).sum() == got.numel() and x._version == before + 1


@pytest.mark.parametrize("key", listed(ADVANCED))
def test_index_tensors_and_masks_give_copies(key: str) -> None:
    x, got = read(flambeau, key)
    assert got._base is None and got.is_contiguous()
    got.fill_(-1)
    assert (x >= 0).all()


@pytest.mark.parametrize("key", NUMPY_KEYS)
def test_the_gradient_of_reading_counts_how_often_an_element_is_taken(key: str) -> None:
    x = numbers(flambeau, *SHAPE, requires_grad=True)
    got = x[key_of(key, flambeau)]
    weights = numbers(flambeau, *got.shape) + 1
    (got * weights).sum().backward()
    expected = np.zeros(SHAPE)
    np.add.at(expected, key_of(key, np), weights.numpy())
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("key", [key for key in ALL_KEYS if key not in ("True", "False")])
def test_gradients_and_their_names_are_pytorchs(key: str, of_pytorch: Callable[..., Any]) -> None:
    def facts(torch: Any) -> Any:
        x = numbers(torch, *SHAPE, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = x[key_of(key, torch)]
        (got * (numbers(torch, *got.shape) + 1)).sum().backward()
        return x.grad.numpy(), got.grad_fn.name()

    outcomes = facts(flambeau), of_pytorch(facts)
    np.testing.assert_array_equal(outcomes[0][0], outcomes[1][0])
    assert outcomes[0][1] == outcomes[1][1]


# -- writing --------------------------------------------------------------------------------------------------------------------
VALUES: dict[str, Any] = {
    "an int": lambda torch, shape: -7,
    "a float": lambda torch, shape: -7.5,
    "a bool": lambda torch, shape: True,
    "a 0-d tensor": lambda torch, shape: torch.tensor(-7.0, dtype=torch.float64),
    "a tensor of the shape": lambda torch, shape: -numbers(torch, *shape, dtype=torch.float64) - 1,
    "a tensor to be broadcast": lambda torch, shape: -numbers(torch, *shape[-1:]) - 1,
    "leading dimensions of size 1": lambda torch, shape: -numbers(torch, 1, 1, *shape) - 1,
    "a NumPy number": lambda torch, shape: np.float64(-7.5),
    "a NumPy integer": lambda torch, shape: np.int32(-7),
}


def written(torch: Any, key: str, value: Any) -> np.ndarray:
    x = numbers(torch, *SHAPE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape = tuple(x[key_of(key, torch)].shape)
        x[key_of(key, torch)] = value(torch, shape)
    return x.numpy()


def has_repeats(key: str) -> bool:
    """Whether the same element is written twice, so that the order of writes would decide."""
    places = np.arange(int(np.prod(SHAPE))).reshape(SHAPE)[key_of(key, np)]
    return np.unique(places).size < np.size(places)


WRITABLE = [key for key in NUMPY_KEYS if not has_repeats(key)]


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("key", WRITABLE)
def test_writing_gives_numpys_values(key: str, value: Any) -> None:
    expected = np.arange(float(np.prod(SHAPE))).reshape(SHAPE)
    place = expected[key_of(key, np)]
    given_value = value(flambeau, np.shape(place))
    plain = given_value.numpy() if isinstance(given_value, flambeau.Tensor) else given_value
    while np.ndim(plain) > np.ndim(place) and plain.shape[0] == 1:
        plain = plain[0]
    expected[key_of(key, np)] = plain
    np.testing.assert_array_equal(written(flambeau, key, value), expected)


@pytest.mark.parametrize("key", ALL_KEYS)
def test_writing_gives_pytorchs_values(key: str, of_pytorch: Callable[..., Any]) -> None:
    for name, value in VALUES.items():

        def act(torch: Any, value: Any = value) -> Any:
            return _outcome(lambda: written(torch, key, value))

        got, want = act(flambeau), of_pytorch(act)
        if isinstance(want, type):
            assert got is want, name
        else:
            np.testing.assert_array_equal(got, want, err_msg=name)


def _outcome(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("key", ["0", "1:, ::2", "..., None", "t([0, 2])", "m(3, 4)", ":, t([1, 3]), 2:", "m(3, 4, 5)"])
def test_gradients_of_writing_go_to_the_value_and_to_what_was_left(key: str) -> None:
    x = numbers(flambeau, *SHAPE, requires_grad=True)
    result = x * 1
    value = numbers(flambeau, *result[key_of(key, flambeau)].shape).add_(1).requires_grad_()
    result[key_of(key, flambeau)] = value
    weights = numbers(flambeau, *SHAPE) + 1
    (result * weights).sum().backward()
    kept = np.ones(SHAPE)
    kept[key_of(key, np)] = 0
    np.testing.assert_array_equal(x.grad.numpy(), weights.numpy() * kept)
    np.testing.assert_array_equal(value.grad.numpy(), weights.numpy()[key_of(key, np)].reshape(value.shape))


def test_a_broadcast_values_gradient_is_summed() -> None:
    x, value = flambeau.zeros(3, 4), flambeau.ones(4, requires_grad=True)
    x[flambeau.tensor([0, 2])] = value
    assert x.requires_grad and x.grad_fn.name() == "IndexPutBackward0"
    x.sum().backward()
    assert value.grad.tolist() == [2, 2, 2, 2]
    number = flambeau.tensor(2.0, requires_grad=True)
    y = flambeau.zeros(3, 4)
    y[1:, 0] = number
    (y * y).sum().backward()
    assert number.grad.item() == 8


def test_writing_into_a_leaf_that_requires_grad_is_an_error() -> None:
    x = flambeau.ones(3, requires_grad=True)
    for key in (0, slice(0, 2), flambeau.tensor([0]), x.detach() > 0):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            x[key] = 1.0
    with flambeau.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5, 1, 1]


def test_values_are_cast_to_the_tensors_dtype() -> None:
    x = flambeau.zeros(3, dtype=flambeau.int64)
    x[0], x[1:] = 2.9, flambeau.tensor([-1.5, 3.7])
    assert x.tolist() == [2, -1, 3]
    b = flambeau.zeros(3, dtype=flambeau.bool)
    b[flambeau.tensor([0, 2])] = 5
    assert b.tolist() == [True, False, True]
    with pytest.raises(RuntimeError, match="without overflow"):
        flambeau.zeros(2, dtype=flambeau.uint8)[0] = 256
    with pytest.raises(RuntimeError, match="without overflow"):
        flambeau.zeros(2)[0] = 1e39
    for value in (flambeau.ones(1, dtype=flambeau.int64), flambeau.tensor(1, dtype=flambeau.float64)):
        with pytest.raises(RuntimeError, match="source and destination dtypes match"):
            flambeau.zeros(2)[flambeau.tensor([0])] = value
        with pytest.raises(RuntimeError, match="source and destination dtypes match"):
            flambeau.zeros(2).index_put_((flambeau.tensor([0]),), value)
    c = flambeau.zeros(2)
    c[flambeau.tensor([True, False])] = flambeau.tensor(1, dtype=flambeau.float64)
    assert c.tolist() == [1, 0]


def test_a_value_from_the_same_memory_is_read_before_it_is_overwritten() -> None:
    x = flambeau.arange(5)
    x[flambeau.tensor([0, 1])] = x[flambeau.tensor([3, 4])]
    assert x.tolist() == [3, 4, 2, 3, 4]
    x[flambeau.tensor([0, 1, 2])] = x[2:].clone()
    assert x.tolist() == [2, 3, 4, 3, 4]


def test_augmented_assignment_writes_through_the_key() -> None:
    x = flambeau.arange(6.0).reshape(2, 3)
    x[0] += 10
    x[:, 1] *= 2
    x[x > 20] -= 1
    x[flambeau.tensor([1]), 2] /= 5
    assert x.tolist() == [[10, 21, 12], [3, 8, 1]]


# -- masks ------------------------------------------------------------------------------------------------------------------------
def test_uint8_masks_work_and_warn() -> None:
    x = flambeau.arange(4)
    mask = flambeau.tensor([1, 0, 1, 0], dtype=flambeau.uint8)
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8 is now deprecated"):
        assert x[mask].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="torch.uint8"):
        x[mask] = -1
    assert x.tolist() == [-1, 1, -1, 3]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0)])
def test_a_mask_of_the_whole_tensor(shape: tuple[int, ...]) -> None:
    values = np.arange(float(np.prod(shape))).reshape(shape)
    x = flambeau.tensor(values)
    for mask in (values > 1, np.zeros(shape, bool), np.ones(shape, bool)):
        np.testing.assert_array_equal(x[flambeau.tensor(mask)].numpy(), values[mask])
        assert x[flambeau.tensor(mask)].shape == values[mask].shape


def test_bools_add_a_dimension_of_size_0_or_1() -> None:
    x = flambeau.arange(3)
    assert x[True].shape == (1, 3) and x[False].shape == (0, 3)
    assert flambeau.tensor(5)[True].shape == (1,) and flambeau.tensor(5)[flambeau.tensor(False)].shape == (0,)
    x[False] = 7
    assert x.tolist() == [0, 1, 2]
    x[True] = 7
    assert x.tolist() == [7, 7, 7]


def test_0d_tensors() -> None:
    x = flambeau.tensor(5.0)
    assert x[...].item() == 5 and x[()].item() == 5 and x[None].shape == (1,)
    x[...] = 6
    x[()] = x[()] + 1
    assert x.item() == 7
    with pytest.raises(IndexError, match="0-dim tensor|too many indices"):
        x[0]
    with pytest.raises(IndexError):
        x[0] = 1
    with pytest.raises((IndexError, ValueError)):
        x[:]


def test_an_index_of_any_integer_dtype_is_taken() -> None:
    x = flambeau.arange(5.0)
    for dtype in (flambeau.int8, flambeau.int16, flambeau.int32, flambeau.int64):
        assert x[flambeau.tensor(3, dtype=dtype)].item() == 3
    for dtype in (flambeau.int32, flambeau.int64):
        assert x[flambeau.tensor([3, -1], dtype=dtype)].tolist() == [3, 4]


# -- errors -----------------------------------------------------------------------------------------------------------------------
ERRORS = [
    ("3", IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ("-4", IndexError, "index -4 is out of bounds for dimension 0 with size 3"),
    ("0, 4", IndexError, "out of bounds for dimension"),
    (":, :, 5", IndexError, "index 5 is out of bounds for dimension 2 with size 5"),
    ("0, 0, 0, 0", IndexError, "too many indices for tensor of dimension 3"),
    ("..., ..., 0", IndexError, None),
    ("t([3])", IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ("t([0]), t([-5])", IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    (
        "t([0, 1]), t([0, 1, 2])",
        IndexError,
        "shape mismatch: indexing tensors could not be broadcast together with shapes \\[2\\], \\[3\\]",
    ),
    ("t([0.5], 'float32')", IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (
        "m(4)",
        IndexError,
        "The shape of the mask \\[4\\] at index 0 does not match the shape of the indexed tensor \\[3, 4, 5\\] at index 0",
    ),
    ("m(3, 5)", IndexError, "The shape of the mask \\[3, 5\\] at index 1"),
    ("m(3, 4, 5, 1)", IndexError, "too many indices for tensor of dimension 3"),
    ("m(3, 4), 0, 0", IndexError, "too many indices"),
    ("1.0", IndexError, "only integers, slices"),
    ("'a'", TypeError, "invalid data type 'str'"),
    ("np.True_", IndexError, "only integers, slices"),
    ("object()", IndexError, "only integers, slices"),
    ("::-1", ValueError, "step must be greater than zero"),
    ("::0", ValueError, "step"),
    ("1.0:", TypeError, "slice indices must be integers or None or have an __index__ method"),
    ("'a':'b'", TypeError, "slice indices must be integers"),
    ("[0, 3]", IndexError, "out of bounds"),
    ("t([[3]]), 0", IndexError, "out of bounds"),
]


@pytest.mark.parametrize(("key", "error", "words"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_of_keys(key: str, error: Any, words: str | None) -> None:
    x = numbers(flambeau, *SHAPE)
    for act in (lambda: x[key_of(key, flambeau)], lambda: x.__setitem__(key_of(key, flambeau), 1.0)):
        with pytest.raises(error, match=words):
            act()


@pytest.mark.parametrize("key", [e[0] for e in ERRORS])
def test_errors_of_keys_are_pytorchs(key: str, of_pytorch: Callable[..., Any]) -> None:
    def acts(torch: Any) -> Any:
        x = numbers(torch, *SHAPE)
        return [_outcome(lambda: tuple(x[key_of(key, torch)].shape)), _outcome(lambda: x.__setitem__(key_of(key, torch), 1.0))]

    assert acts(flambeau) == of_pytorch(acts)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("0", (4, 4), RuntimeError),
        ("0", (2, 4, 5), RuntimeError),
        ("t([0, 1])", (3, 4, 5), RuntimeError),
        ("m(3, 4)", (2, 5), (RuntimeError, IndexError)),
        (":, t([0])", (2,), RuntimeError),
        ("0:0", (2, 4, 5), RuntimeError),
    ],
)
def test_values_that_do_not_fit(key: str, value: tuple[int, ...], error: Any) -> None:
    x = numbers(flambeau, *SHAPE)
    with pytest.raises(error):
        x[key_of(key, flambeau)] = flambeau.zeros(value)
    assert (x == numbers(flambeau, *SHAPE)).all()


@pytest.mark.parametrize("value", ["a", None, object(), {}, [1.0], np.ones(3), np.float32(1), np.bool_(True)])
def test_values_of_another_type(value: Any) -> None:
    for key in (0, flambeau.tensor([0]), ...):
        with pytest.raises(TypeError, match="can't assign a"):
            flambeau.zeros(3)[key] = value


def test_writing_to_overlapping_memory() -> None:
    x = flambeau.zeros(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        x[:, 0] = flambeau.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="index_put_ on expanded tensors is deprecated"):
        x[flambeau.tensor([0])] = flambeau.ones(3)
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


# -- random mixtures --------------------------------------------------------------------------------------------------------------
PARTS = st.one_of(
    st.integers(-3, 2).map(str),
    st.sampled_from([":", "1:", "::2", ":-1", "None", "True", "t([0, 2])", "t([[1], [0]])", "m(3)", "[0, 1]", "0:0", "n([2, 1])", "t(1)"]),
)


@given(parts=st.lists(PARTS, min_size=1, max_size=5), ellipsis=st.integers(-1, 5))
@pytest.mark.oracle
def test_mixtures_of_parts_are_read_and_written_as_by_pytorch(parts: list[str], ellipsis: int) -> None:
    oracle = pytorch()

    parts = list(parts)
    if ellipsis >= 0:
        parts.insert(ellipsis, "...")
    key = ", ".join(parts) + ","

    def act(torch: Any) -> Any:
        x = numbers(torch, 3, 3, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = x[key_of(key, torch)]
            shown = (tuple(got.shape), got.numpy().tolist(), got._base is not None)
            x[key_of(key, torch)] = -1.0
        return (*shown, x.numpy().tolist())

    assert _outcome(lambda: act(flambeau)) == _outcome(lambda: act(oracle))


# -- index_put, and relatives beyond their records ------------------------------------------------------------------------------------
def test_sources_larger_than_the_index_get_zero_gradients() -> None:
    index = flambeau.tensor([[0, 1], [2, 0]])
    for name, arguments in (("scatter", ()), ("scatter_add", ()), ("scatter_reduce", ("sum",))):
        x, src = flambeau.zeros(3, 4, requires_grad=True), flambeau.ones(3, 3, requires_grad=True)
        getattr(x, name)(1, index, src, *arguments).sum().backward()
        assert src.grad.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]], name


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_scatter_reduce_by_its_definition(reduce: str, include_self: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, src = rng.integers(1, 9, 5).astype(dtype), rng.integers(1, 9, 12).astype(dtype)
    index = rng.integers(0, 4, 12)
    got = flambeau.tensor(x).scatter_reduce(0, flambeau.tensor(index), flambeau.tensor(src), reduce, include_self=include_self)
    combine = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[reduce]
    for place, value in enumerate(got.tolist()):
        values = [*([x[place]] if include_self or place not in index else []), *src[index == place]]
        expected = combine(values)
        assert value == (
            expected if dtype == "float32" and reduce != "mean" else pytest.approx(expected) if dtype == "float32" else int(expected)
        )


def test_accumulating_adds_repeated_positions_up() -> None:
    x = flambeau.zeros(3)
    index = (flambeau.tensor([0, 0, 2]),)
    assert x.index_put(index, flambeau.ones(3), accumulate=True).tolist() == [2, 0, 1]
    assert x.index_put(index, flambeau.tensor(2.0), True).tolist() == [4, 0, 2]
    assert x.scatter_add(0, index[0], flambeau.ones(3)).tolist() == [2, 0, 1]
    assert x.index_add(0, index[0], flambeau.ones(3), alpha=-1).tolist() == [-2, 0, -1]
    assert x.put(index[0], flambeau.ones(3), accumulate=True).tolist() == [2, 0, 1]


def test_where_takes_python_numbers_by_their_kind() -> None:
    condition = flambeau.tensor([True, False])
    for a, b in itertools.product((True, 1, 1.5), repeat=2):
        got = flambeau.where(condition, a, b)
        assert got.tolist() == [a, b]
        assert got.dtype is (
            flambeau.bool if (a, b) == (True, True) and a is b is True else flambeau.int64 if 1.5 not in (a, b) else flambeau.float32
        )
    assert flambeau.where(condition, flambeau.ones(2, dtype=flambeau.float16), 2.0).dtype is flambeau.float16
    assert flambeau.where(condition, flambeau.ones(2, dtype=flambeau.int32), 2.0).dtype is flambeau.float32


@pytest.mark.parametrize("requires_grad", [False, True])
def test_an_ellipsis_in_front(requires_grad):
    array = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    keys = [
        (..., 1),
        (..., slice(1, 3)),
        (..., slice(1, 3), 0),
        (..., slice(None)),
        (...,),
        (..., 0, slice(None), slice(0, 9), -1),
        (..., 3, ...),
    ]
    for key in keys:
        x = flambeau.tensor(array, requires_grad=requires_grad)
        if key.count(...) > 1:
            with pytest.raises(IndexError):
                x[key]
            continue
        view = x[key]
        assert np.array_equal(view.detach().numpy(), array[key]) and view.data_ptr() >= x.data_ptr() and view._base is x
        with flambeau.no_grad():
            want, version = array.copy(), x._version
            want[key] = 7
            x[key] = flambeau.tensor(7.0)
            assert np.array_equal(x.detach().numpy(), want) and x._version > version
        if requires_grad:
            x = flambeau.tensor(array, requires_grad=True)
            x[key].sum().backward()
            zeros = np.zeros_like(array)
            zeros[key] = 1
            assert np.array_equal(x.grad.numpy(), zeros)
    with pytest.raises(IndexError, match="too many indices"):
        flambeau.tensor(array)[..., 0, 0, 0, 0, 0]
    with pytest.raises(IndexError, match="out of range|out of bounds"):
        flambeau.tensor(array)[..., 9]


def test_a_large_mask_takes_what_numpy_takes():
    rng = np.random.default_rng(0)
    for shape in ((100, 70), (5, 30, 40), (6000,)):
        array, mask = rng.standard_normal((*shape, 2)).astype(np.float32), rng.random(shape) < 0.4
        x, chosen = flambeau.from_numpy(array), flambeau.from_numpy(mask)
        np.testing.assert_array_equal(x[chosen].numpy(), array[mask])
        np.testing.assert_array_equal(x[..., 0][chosen].numpy(), array[..., 0][mask])
        np.testing.assert_array_equal(x[..., 1].masked_select(chosen).numpy(), array[..., 1][mask])
        turned, of = flambeau.from_numpy(array[..., 0]).movedim(0, -1), chosen.movedim(0, -1)
        np.testing.assert_array_equal(turned[of].numpy(), turned.numpy()[of.numpy()])
        with pytest.raises(IndexError, match="mask"):
            x[chosen[1:]]


def test_an_empty_tuple_gives_a_view() -> None:
    x = flambeau.zeros(2, 2)
    assert x[()] is not x and x[()]._base is x
    x[()].fill_(9)
    x[0, 0][()].fill_(1)
    assert x.tolist() == [[1.0, 9.0], [9.0, 9.0]]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_value_of_another_dtype_fills_a_mask(shape: tuple[int, ...]) -> None:
    mask = flambeau.tensor([True, False, True])
    for key in (mask, (slice(None), flambeau.tensor([True, False])), (mask, 1)):
        x = flambeau.zeros(3, 2, dtype=flambeau.float64)
        x[key] = flambeau.full(shape, 5)
        want = flambeau.zeros(3, 2, dtype=flambeau.float64)
        want[key] = 5.0
        assert x.equal(want)
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        x[mask] = flambeau.tensor([5, 6])
    assert flambeau.zeros(3).index_put_((mask,), flambeau.tensor([2])).tolist() == [2.0, 0.0, 2.0]


@pytest.mark.parametrize(
    "key",
    [
        "[],",
        "[0, 1], [0, 1, 0]",
        "False, [1, 1]",
        "[True, False], [[0, 0]]",
        "[0], [1]",
        "[0, 1], [[0], [1], [0]]",
        "[True] * 3,",
        ":, [True]",
    ],
)
@pytest.mark.parametrize("leaf", [False, True])
def test_what_is_looked_at_before_the_dtypes_of_a_write(key: str, leaf: bool, of_pytorch: Callable[..., Any]) -> None:
    """Whether the target may be written to, then whether the indices fit together, and the values them."""

    def error(torch: Any, count: int) -> Any:
        x = torch.ones(2, 3, requires_grad=leaf)
        try:
            exec(f"x[{key}] = torch.ones({count}, dtype=torch.int64)", {"torch": torch, "x": x})
        except Exception as error:
            return type(error).__name__, str(error)[:40]
        return None

    for count in (1, 7):
        assert error(flambeau, count) == of_pytorch(error, count)
