"""Sparse tensors of all layouts against PyTorch: pairs of them, batches, masks, flags, and gradients of conversions."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from differential.sparse import compare_any

import flambeau

LAYOUTS = ("strided", "coo", "uncoalesced", "hybrid", "csr", "csc", "bsr", "bsc")
PAIRS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda T, a, b: a + b,
    "sub": lambda T, a, b: T.sub(a, b),
    "scaled sum": lambda T, a, b: T.add(a, b, alpha=2),
    "mul": lambda T, a, b: a * b,
    "matmul": lambda T, a, b: a @ b,
    "sparse.mm": lambda T, a, b: T.sparse.mm(a, b),
    "addmm": lambda T, a, b: T.addmm(a, a, b),
    "sparse.addmm": lambda T, a, b: T.sparse.addmm(a, a, b),
    "addmm of a dense one": lambda T, a, b: T.addmm(T.ones(4, 4).to(a.dtype), a, b, beta=2, alpha=3),
    "addmm_": lambda T, a, b: a.clone().addmm_(a, b),
    "add_": lambda T, a, b: a.clone().add_(b),
    "mul_": lambda T, a, b: a.clone().mul_(b),
    "copy_": lambda T, a, b: a.clone().copy_(b),
    "sparse_mask": lambda T, a, b: a.sparse_mask(b),
    "cat": lambda T, a, b: T.cat([a, b]),
}
# What the other library gives is wrong, or the list of differences in docs/design.md has it.
DIFFERENT = {
    *((name, "csc", "csc") for name in ("sparse.mm", "addmm", "addmm_", "sparse.addmm", "addmm of a dense one")),  # other values, or none
    ("scaled sum", "csr", "strided"),  # scales the wrong operand
    ("scaled sum", "csc", "strided"),
}
VALUES = ([[1, 0, 2, 0], [0, 3, 0, 0], [0, 0, 1, 2], [0, 1, 0, 1]], [[0, 2, 1, 0], [1, 3, 0, 0], [0, 0, 0, 0], [2, 0, 0, 1]])


def made(T: Any, layout: str, values: Any, dtype: str) -> Any:
    dense = T.tensor(values).to(getattr(T, dtype))
    if layout == "strided":
        return dense
    if layout == "hybrid":
        return dense.to_sparse(1)
    if layout == "uncoalesced":
        part = dense.to_sparse()
        ones = T.sparse_coo_tensor(T.tensor([[1, 0, 1], [0, 2, 0]]), T.tensor([1, 0, 2]).to(dense.dtype), (4, 4))
        indices = T.cat([part.indices(), ones._indices()], 1)
        return T.sparse_coo_tensor(indices, T.cat([part.values(), ones._values()]), (4, 4))
    block = {"blocksize": (2, 2)} if layout[0] == "b" else {}
    return dense.to_sparse(layout=getattr(T, f"sparse_{layout}"), **block)


def outcome(function: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except Exception as error:
            return error


def in_order(value: Any) -> Any:
    """COO tensors coalesced: which are marked so is another question."""
    if isinstance(value, tuple):
        return tuple(map(in_order, value))
    return value.coalesce() if getattr(value, "is_sparse", False) else value


def compared(function: Callable[[Any], Any], oracle: Any) -> tuple[str, str, str] | None:
    """What differs, where PyTorch computes it, apart from the order of elements."""
    theirs = outcome(lambda: function(oracle))
    if isinstance(theirs, Exception):
        return None
    ours = outcome(lambda: function(flambeau))
    return ("exception", repr(ours), str(theirs)) if isinstance(ours, Exception) else compare_any(in_order(ours), in_order(theirs))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_layouts_give_pytorchs_layout_and_values(name: str, dtype: str, oracle: Any) -> None:
    wrong = []
    for a, b in itertools.product(LAYOUTS, repeat=2):
        if (name, a, b) not in DIFFERENT:
            found = compared(lambda T, a=a, b=b: PAIRS[name](T, made(T, a, VALUES[0], dtype), made(T, b, VALUES[1], dtype)), oracle)
            wrong += [f"{a}, {b}: {found}"] * (found is not None)
    assert not wrong, "\n".join(wrong)


def batches(T: Any) -> Iterator[Any]:
    """Batches, and matrices with dense dimensions, in every compressed layout."""
    one = T.tensor(VALUES[0]).float()
    for layout, block in (
        ("csr", {}),
        ("csc", {}),
        ("bsr", {"blocksize": (2, 2)}),
        ("bsc", {"blocksize": (1, 2)}),
        ("bsr", {"blocksize": (1, 1)}),
    ):
        form = getattr(T, f"sparse_{layout}")
        yield T.stack([one, 2 * one]).to_sparse(layout=form, **block)
        yield T.stack([T.stack([one, 2 * one])] * 3).to_sparse(layout=form, **block)
        yield one.to_sparse(layout=form, **block)
        yield (one * 0).to_sparse(layout=form, **block)
        yield T.eye(4)[:1].expand(4, 4).mul(T.eye(4)).to_sparse(layout=form, **block)
        yield T.stack([one, 2 * one], -1).to_sparse(layout=form, dense_dim=1, **block)


PARTS: dict[str, Callable[[Any], Any]] = {
    "first": lambda x: x[0],
    "last of dimension 0": lambda x: x.select(0, -1),
    "one of dimension 1": lambda x: x.select(1, 1),
    "one of dimension 2": lambda x: x.select(2, 0),
    "last dimension": lambda x: x.select(-1, 1),
    "two": lambda x: x[1, 0],
    "three": lambda x: x[1, 0, 2],
    "unbind": lambda x: x.unbind(0),
    "unbind of the last": lambda x: x.unbind(-1),
    "to_sparse": lambda x: x.to_sparse(),
    "to_dense": lambda x: x.to_dense(),
    "clone": lambda x: x.clone(),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_compressed_tensors_keep_their_layout(name: str, oracle: Any) -> None:
    for ours, theirs in zip(batches(flambeau), batches(oracle), strict=True):
        expected = outcome(lambda theirs=theirs: PARTS[name](theirs))
        if not isinstance(expected, Exception):
            result = PARTS[name](ours)
            assert compare_any(result, expected) is None
            if not isinstance(expected, tuple) and expected.is_sparse:
                assert result.is_coalesced() == expected.is_coalesced()


COO: dict[str, Callable[[Any], Any]] = {
    "matrix times vector": lambda T: T.tensor(VALUES[0]) @ T.tensor([1, 0, 2, 0]).to_sparse(),
    "times a vector that is not coalesced": lambda T: T.tensor(VALUES[0]).mv(T.sparse_coo_tensor([[1, 1, 0]], [1, 2, 3], (4,))),
    "matrices times vector": lambda T: T.tensor([VALUES[0]] * 2) @ T.tensor([1, 0, 2, 0]).to_sparse(),
    "uncoalesced times uncoalesced": lambda T: (
        T.sparse_coo_tensor([[0, 0], [0, 0]], [1.0, 0.0], (1, 1)) @ T.tensor([[float("inf")]]).to_sparse()
    ),
    "sum of fewer sparse dimensions": lambda T: T.sparse_coo_tensor((4, 4)) + T.tensor(VALUES[0]).to_sparse(1),
    "the other way": lambda T: T.sub(T.tensor(VALUES[0]).to_sparse(1), T.sparse_coo_tensor((4, 4)), alpha=2),
    "with a factor": lambda T: T.add(T.sparse_coo_tensor((4, 4)), T.tensor(VALUES[0]).to_sparse(1), alpha=3),
    "item": lambda T: T.sparse_coo_tensor([[0, 0], [0, 0]], [1.5, 2], (1, 1)).item(),
    "is_nonzero": lambda T: T.sparse_coo_tensor([[0, 0], [0, 0]], [1, -1], (1, 1)).is_nonzero(),
    "bool": lambda T: bool(T.ones(()).to_sparse()),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", COO)
def test_coo_tensors_agree(name: str, oracle: Any) -> None:
    expected = COO[name](oracle)  # which computes it
    found = compare_any(COO[name](flambeau), expected)
    assert found is None, found


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32"])
def test_sparse_sums_of_uncoalesced_tensors(dtype: str, oracle: Any) -> None:
    """Over no given dimension equal places are put together first: of bools, whether one is true; over given ones all are counted."""
    for dense in (False, True):
        for options in ({}, {"dim": 0}, {"dim": -1}, {"dim": (0, 1)}, {"dim": []}):
            for wanted in (None, "float64", "int32"):

                def total(T: Any, dense: bool = dense, options: Any = options, wanted: Any = wanted) -> Any:
                    values = T.tensor([[1, 1], [0, 1], [1, 1]]) if dense else T.tensor([1, 1, 1])
                    indices = [[1, 1, 0]] if dense else [[1, 1, 0], [0, 0, 1]]
                    x = T.sparse_coo_tensor(indices, values.to(getattr(T, dtype)), (2, 2))
                    return T.sparse.sum(x, **options, **({} if wanted is None else {"dtype": getattr(T, wanted)}))

                assert compared(total, oracle) is None


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "sum of sparse values": lambda T, x: T.sparse.sum(x),
    "sum over rows": lambda T, x: T.sparse.sum(x, 0).to_dense().square().sum(),
    "whole sum over dimensions": lambda T, x: T.sparse.sum(x, (0, 1)),
    "trunc": lambda T, x: T.sparse.sum(x.trunc()),
    "sum of a conversion": lambda T, x: x.to_sparse_csr().sum(),
    "sum of blocks": lambda T, x: x.to_sparse_bsr((2, 2)).sum(),
    "sum of a COO conversion": lambda T, x: x.to_sparse().sum(),
    "back": lambda T, x: x.to_sparse_csc().to_dense().square().sum(),
    "values": lambda T, x: x.to_sparse_csr().values().square().sum(),
    "dense matrix": lambda T, x: (x @ T.arange(8.0).reshape(4, 2)).square().sum(),
    "batch": lambda T, x: (T.arange(16.0).reshape(2, 2, 4) @ x).square().sum(),
    "mask": lambda T, x: T.sparse.sum(x.sparse_mask(made(T, "csr", VALUES[1], "float32")).to_sparse()),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_have_pytorchs_layout(name: str, oracle: Any) -> None:
    for layout in LAYOUTS:

        def gradient(T: Any, layout: str = layout) -> Any:
            x = made(T, layout, VALUES[0], "float32").requires_grad_()
            GRADIENTS[name](T, x).backward()
            return x.grad

        found = compared(gradient, oracle)
        assert found is None, (layout, found)


@pytest.mark.oracle
def test_vectors_are_differentiated(oracle: Any) -> None:
    def gradients(T: Any) -> Any:
        matrix, vector = T.tensor(VALUES[0]).float().requires_grad_(), T.tensor([1.0, 0, 2, 0]).to_sparse().requires_grad_()
        (matrix @ vector).square().sum().backward()
        return matrix.grad, vector.grad

    found = compared(gradients, oracle)
    assert found is None, found
    ours = gradients(flambeau)
    matrix, vector = flambeau.tensor(VALUES[0]).float().requires_grad_(), flambeau.tensor([1.0, 0, 2, 0]).requires_grad_()
    (matrix @ vector).square().sum().backward()
    assert (ours[0].to_dense() == matrix.grad).all() and (ours[1].to_dense() == vector.grad).all()
