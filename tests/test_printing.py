"""The text of tensors, against fixed examples and against PyTorch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flambeau.core import dtype as dtypes
from flambeau.core.calls.casting import cast_array
from flambeau.core.protocols import printing
from flambeau.core.protocols.printing import get_printoptions, printoptions, set_printoptions, tensor_format, tensor_repr
from flambeau.core.tape.node import Node, new_node
from flambeau.core.tensor import Parameter, Tensor, wrap

DTYPES = [dtype for dtype in dict.fromkeys(dtypes.ALL.values()) if dtype.numpy is not None]


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def floats(*values: float) -> Tensor:
    return wrap(np.array(values, np.float32))


EXAMPLES: list[tuple[Any, str]] = [
    (np.array([1.0, 2.0], np.float32), "tensor([1., 2.])"),
    (np.array([1.5, -2.0], np.float32), "tensor([ 1.5000, -2.0000])"),
    (np.array([1e-5, 1.0], np.float32), "tensor([1.0000e-05, 1.0000e+00])"),
    (np.array([0.1, 1000.0], np.float32), "tensor([1.0000e-01, 1.0000e+03])"),
    (np.array([1.0, 1e8], np.float32), "tensor([1.0000e+00, 1.0000e+08])"),
    (np.array([1e5, 1e8], np.float32), "tensor([   100000., 100000000.])"),
    (np.array([math.nan, 1.0, -math.inf], np.float32), "tensor([nan, 1., -inf])"),
    (np.array([math.nan, 0.5, math.inf], np.float32), "tensor([   nan, 0.5000,    inf])"),
    (np.array([0.0, -0.0], np.float32), "tensor([0., -0.])"),
    (np.array(math.pi, np.float32), "tensor(3.1416)"),
    (np.array(3), "tensor(3)"),
    (np.array(True), "tensor(True)"),
    (np.array([True, False]), "tensor([ True, False])"),
    (np.array([1, -200], np.int16), "tensor([   1, -200], dtype=torch.int16)"),
    (np.array([0.1], np.float64), "tensor([0.1000], dtype=torch.float64)"),
    (np.array([1.5], np.float16), "tensor([1.5000], dtype=torch.float16)"),
    (np.array([1.5], ml_dtypes.bfloat16), "tensor([1.5000], dtype=torch.bfloat16)"),
    (np.array([1.5], ml_dtypes.float8_e4m3fn), "tensor([1.5000], dtype=torch.float8_e4m3fn)"),
    (np.array([1 + 2j, -0.5 - 1j], np.complex64), "tensor([ 1.0000+2.j, -0.5000-1.j])"),
    (np.array(1 - 2j), "tensor(1.-2.j, dtype=torch.complex128)"),
    (np.empty(0, np.float32), "tensor([])"),
    (np.empty(0, np.int64), "tensor([], dtype=torch.int64)"),
    (np.empty((2, 0), np.float32), "tensor([], size=(2, 0))"),
    (np.empty((0, 3), bool), "tensor([], size=(0, 3), dtype=torch.bool)"),
    (np.array([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
    (np.zeros((2, 1, 2), np.float32), "tensor([[[0., 0.]],\n\n        [[0., 0.]]])"),
    (np.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (
        np.arange(24.0, dtype=np.float32) * 1000.5,
        "tensor([    0.0000,  1000.5000,  2001.0000,  3001.5000,  4002.0000,  5002.5000,\n"
        "         6003.0000,  7003.5000,  8004.0000,  9004.5000, 10005.0000, 11005.5000,\n"
        "        12006.0000, 13006.5000, 14007.0000, 15007.5000, 16008.0000, 17008.5000,\n"
        "        18009.0000, 19009.5000, 20010.0000, 21010.5000, 22011.0000, 23011.5000])",
    ),
    (
        np.zeros((40, 40), np.float32),
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        ...,\n        [0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.]])",
    ),
]


@pytest.mark.parametrize(("array", "expected"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples(array: np.ndarray, expected: str) -> None:
    assert tensor_repr(wrap(array)) == expected == repr(wrap(array)) == str(wrap(array))


@pytest.mark.parametrize(("array", "expected"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_are_pytorch_s(array: np.ndarray, expected: str, oracle: Any) -> None:
    assert repr(in_pytorch(array, oracle)) == expected


def test_how_a_tensor_takes_part_in_the_graph() -> None:
    leaf, computed = floats(1, 2).requires_grad_(), floats(1, 2)
    computed._node = new_node(type("AddBackward0", (Node,), {}), (None,), None, None, (2,), dtypes.float32)
    computed._requires_grad = True
    assert tensor_repr(leaf) == "tensor([1., 2.], requires_grad=True)"
    assert tensor_repr(computed) == "tensor([1., 2.], grad_fn=<AddBackward0>)"
    assert repr(Parameter(floats(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"
    assert repr(Parameter(floats(1), requires_grad=False)) == "Parameter containing:\ntensor([1.])"


def test_a_history_that_cannot_be_asked_for_does_not_stop_printing() -> None:
    class Broken(Tensor):
        @property
        def grad_fn(self) -> Any:
            raise RuntimeError("rebased out of sight")

    assert tensor_repr(floats(1).as_subclass(Broken)) == "Broken([1.], grad_fn=<Invalid>)"


def test_subclasses_print_their_names_with_matching_indent() -> None:
    class MyTensor(Tensor):
        pass

    array = np.ones((2, 2), np.float32)
    assert tensor_repr(wrap(array).as_subclass(MyTensor)) == "MyTensor([[1., 1.],\n          [1., 1.]])"


def test_contents_can_be_replaced() -> None:
    assert tensor_repr(wrap(np.ones(2)), tensor_contents="<secret>") == "tensor(<secret>, dtype=torch.float64)"


def test_default_dtype_goes_without_saying() -> None:
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert tensor_repr(wrap(np.ones(1))) == "tensor([1.])" and tensor_repr(wrap(np.ones(1, complex))) == "tensor([1.+0.j])"
        assert tensor_repr(floats(1)) == "tensor([1.], dtype=torch.float32)"
    finally:
        dtypes.set_default_dtype(dtypes.float32)


def test_suffixes_wrap_at_the_line_width() -> None:
    text = tensor_repr(wrap(np.full(6, 1.123456)).requires_grad_())
    assert text == "tensor([1.1235, 1.1235, 1.1235, 1.1235, 1.1235, 1.1235], dtype=torch.float64,\n       requires_grad=True)"


def test_format_of_numbers_and_of_tensors() -> None:
    assert f"{wrap(np.array(1.5, np.float32)):.1f}" == "1.5"
    assert f"{wrap(np.array(7)):03d}" == "007" and f"{wrap(np.array(2.5, ml_dtypes.bfloat16)):.2f}" == "2.50"
    assert tensor_format(wrap(np.array(1.5)).requires_grad_(), "") == "1.5"
    assert f"{floats(1)}" == "tensor([1.])" and f"{Parameter(wrap(np.array(1.5, np.float32)))}".startswith("Parameter")
    with pytest.raises(TypeError, match="unsupported format string"):
        format(floats(1), ".2f")


# -- options --------------------------------------------------------------------------------------------------------------
def test_options_are_set_read_and_restored() -> None:
    assert get_printoptions() == {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
    set_printoptions(precision=2)
    assert tensor_repr(floats(math.pi)) == "tensor([3.14])"
    with printoptions(sci_mode=True, precision=1):
        assert tensor_repr(floats(100)) == "tensor([1.0e+02])"
        with pytest.raises(ZeroDivisionError), printoptions(profile="full"):
            assert get_printoptions()["threshold"] == math.inf
            raise ZeroDivisionError
        assert get_printoptions()["precision"] == 1 and get_printoptions()["sci_mode"] is True
    assert get_printoptions()["precision"] == 2
    set_printoptions(profile="short", linewidth=20)
    assert get_printoptions() == {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 20, "sci_mode": None}
    with pytest.raises(ValueError, match="profile"):
        set_printoptions(profile="long")


def test_every_call_sets_sci_mode() -> None:
    set_printoptions(sci_mode=False)
    assert tensor_repr(floats(1e-6)) == "tensor([0.0000])"
    set_printoptions(precision=3)
    assert tensor_repr(floats(1e-6)) == "tensor([1.000e-06])"


def test_without_edge_items_only_the_size_is_shown() -> None:
    with printoptions(edgeitems=0, threshold=1):
        assert tensor_repr(floats(1, 2)) == "tensor([...], size=(2,))"
        assert tensor_repr(wrap(np.ones((2, 2), np.float32))) == "tensor([...], size=(2, 2))"
        assert tensor_repr(floats(1)) == "tensor([1.], size=(1,))"


def test_a_large_tensor_is_cut_down_before_its_numbers_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = printing._as_doubles
    monkeypatch.setattr(printing, "_as_doubles", lambda array: (seen.append(array.size), original(array))[1])
    expanded = np.broadcast_to(np.float32(1), (10**4, 10**3, 10**6))  # would be 4e13 bytes
    assert tensor_repr(wrap(expanded)).count("1.,") > 0 and seen == [216]


def test_printing_warns_nobody() -> None:
    bits = np.array([0x7F800001, 0x00000001], np.uint32).view(np.float32)  # a signalling NaN and the smallest number
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert tensor_repr(wrap(bits)) == "tensor([       nan, 1.4013e-45])"
        assert "e+308" in tensor_repr(wrap(np.array([1e308, 1e-308])))


# -- sparse layouts, by a stand-in ----------------------------------------------------------------------------------------
class Sparse:
    """What printing needs of a sparse tensor."""

    requires_grad, grad_fn = False, None

    def __init__(self, layout: str, shape: tuple[int, ...], dtype: dtypes.dtype, nnz: int, **parts: np.ndarray) -> None:
        self.layout, self.shape, self.dtype, self.device, self._count = layout, shape, dtype, floats(1).device, nnz
        for name, part in parts.items():
            setattr(self, name, lambda part=part: wrap(part))

    def _nnz(self) -> int:
        return self._count


Sparse.__name__ = "tensor"  # a plain tensor's prefix


def test_sparse_tensors_print_their_parts(oracle: Any) -> None:
    dense = oracle.tensor([[0.0, 1.5], [0.0, -2.0]])
    for theirs in (dense.to_sparse(), oracle.zeros(2, 2, dtype=oracle.float64).to_sparse()):
        parts = {"_indices": theirs._indices().numpy(), "_values": theirs._values().numpy()}
        dtype = dtypes.of_array(parts["_values"])
        assert tensor_repr(Sparse("torch.sparse_coo", (2, 2), dtype, theirs._nnz(), **parts)) == repr(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, columns = dense.to_sparse_csr(), dense.to_sparse_csc()
    parts = {"crow_indices": rows.crow_indices(), "col_indices": rows.col_indices(), "values": rows.values()}
    ours = Sparse("torch.sparse_csr", (2, 2), dtypes.float32, 2, **{name: part.numpy() for name, part in parts.items()})
    assert tensor_repr(ours) == repr(rows)
    parts = {"ccol_indices": columns.ccol_indices(), "row_indices": columns.row_indices(), "values": columns.values()}
    ours = Sparse("torch.sparse_csc", (2, 2), dtypes.float32, 2, **{name: part.numpy() for name, part in parts.items()})
    assert tensor_repr(ours) == repr(columns)


# -- random tensors and options against PyTorch ---------------------------------------------------------------------------
def in_pytorch(array: np.ndarray, torch: Any) -> Any:
    name = dtypes.of_array(array).name
    if not array.size:
        return torch.empty(array.shape, dtype=getattr(torch, name))
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()
    return torch.from_numpy(flat).view(getattr(torch, name)).reshape(array.shape)


def random_array(dtype: dtypes.dtype, rng: np.random.Generator) -> np.ndarray:
    """Any shape, any magnitude, whole numbers or not, with some special values."""
    dims = int(rng.integers(0, 5))
    shape = tuple(rng.choice([0, 1, 2, 3, 5, 7, 8, 12] if dims > 1 else [0, 1, 2, 7, 30, 999, 1001], size=dims))
    if dtype is dtypes.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.category == dtypes.INTEGER:
        limits, reach = np.iinfo(dtype.numpy), int(rng.choice([3, 100, 2**40]))
        return np.asarray(rng.integers(max(limits.min, -reach), min(int(limits.max), reach), shape)).astype(dtype.numpy)
    values = np.asarray(rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 9))
    kind = rng.integers(0, 6)
    if kind == 0:
        values = np.round(values)
    elif kind == 1:
        values = np.asarray(rng.integers(-5, 5000, shape)).astype(float)
    elif kind == 2:
        values = np.exp(np.minimum(values, 300))
    if rng.random() < 0.3:
        values = np.where(rng.random(shape) < 0.2, rng.choice([np.nan, np.inf, -np.inf, 0, -0.0]), values)
    if dtype.is_complex:
        values = values + 1j * rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 9)
    with np.errstate(all="ignore"):
        return cast_array(values, dtype) if dtype is dtypes.complex32 else np.asarray(values).astype(dtype.numpy)


def random_options(rng: np.random.Generator) -> dict[str, Any]:
    kind = rng.random()
    if kind < 0.4:
        return {}
    if kind < 0.6:
        return {"profile": str(rng.choice(["short", "default"]))}
    return {
        "precision": int(rng.integers(0, 8)),
        "threshold": int(rng.choice([0, 5, 100, 1000])),
        "edgeitems": int(rng.integers(0, 5)),
        "linewidth": int(rng.choice([10, 40, 80, 120, 300])),
        "sci_mode": [None, True, False][rng.integers(3)],
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_text_equals_pytorch_s(dtype: dtypes.dtype, oracle: Any) -> None:
    rng = np.random.default_rng(sum(map(ord, dtype.name)))
    for _ in range(60):
        array, options = random_array(dtype, rng), random_options(rng)
        ours, theirs = wrap(array), in_pytorch(array, oracle)
        if dtype.category >= dtypes.FLOATING and not dtype.name.startswith("float8") and rng.random() < 0.3:
            ours, theirs = ours.requires_grad_(), theirs.requires_grad_()
        with printoptions(**options), oracle._tensor_str.printoptions(**options):
            assert tensor_repr(ours) == repr(theirs), (array.shape, options)


def test_full_profile_prints_all(oracle: Any) -> None:
    array = np.random.default_rng(0).standard_normal((3, 11, 37)).astype(np.float32)
    with printoptions(profile="full"), oracle._tensor_str.printoptions(profile="full"):
        assert tensor_repr(wrap(array)) == repr(oracle.from_numpy(array))


def test_non_contiguous_and_expanded_tensors(oracle: Any) -> None:
    array = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    theirs = oracle.from_numpy(array)
    assert tensor_repr(wrap(array.transpose(2, 0, 1))) == repr(theirs.permute(2, 0, 1))
    assert tensor_repr(wrap(array[::2, 1:, 3])) == repr(theirs[::2, 1:, 3])
    assert tensor_repr(wrap(np.broadcast_to(array[0, 0], (2, 5)))) == repr(theirs[0, 0].expand(2, 5))
