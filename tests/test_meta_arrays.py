"""Arrays without values beside NumPy's: the same calls give the same shapes and element types, and copies and views the same strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flambeau.core.arrays.kinds import MissingValue
from flambeau.core.arrays.meta_array import MetaArray, empty_strided
from flambeau.core.arrays.meta_numpy import NeedsRule, xp

LAYOUTS: dict[str, Any] = {
    "row-major": lambda a: a,
    "column-major": lambda a: a.T,
    "permuted": lambda a: a.transpose(1, 0, 2),
    "steps": lambda a: a[:, ::2],
    "expanded": lambda a: np.broadcast_to(a[:1], (3, *a.shape[1:])),
}
KINDS = ("f4", "f8", "c8", "i4", "?")

# Of an array ``a`` of three dimensions, and one of indices: what has NumPy's strides.
COPIES_AND_VIEWS = """
    a.copy() | a.copy('F') | a.copy('K') | a.copy('A') | a.astype('c16') | a.astype('c16', order='C') | a.astype('c16', order='F')
    xp.empty_like(a) | xp.empty_like(a, order='C') | xp.empty_like(a, order='F') | xp.empty_like(a, 'i8', 'A')
    xp.empty_like(a, shape=(2, 5)) | xp.empty_like(a, shape=(2, 5, 3)) | xp.zeros_like(a) | xp.full_like(a, 1, order='F')
    xp.empty((2, 3, 4), 'f4', 'F') | xp.empty((4, 5), order='F') | xp.empty(3) | xp.empty(()) | xp.zeros((0, 3)) | xp.full((2, 3), 1.5)
    xp.array(a) | xp.array(a, order='F') | xp.asarray(a, 'c16') | xp.asarray(a, a.dtype, 'C') | xp.ascontiguousarray(a)
    a.T | a.transpose(2, 0, 1) | a.swapaxes(0, 2) | a[0] | a[:, 1:] | a[..., ::-1] | a[None, :, 0] | a[1:2].squeeze(0) | a.diagonal(0, 1, 2)
    a.real | xp.moveaxis(a, 0, 2) | xp.expand_dims(a, 1) | xp.broadcast_to(a[:, :1], a.shape) | a.view()
    a.reshape(-1) | a.reshape((a.shape[0], -1)) | a.reshape(-1, 1, a.shape[2])
    a.ravel() | a.flatten() | xp.ravel(a) | a.reshape(-1, order='F')
"""
# What has NumPy's shapes and element types.
OTHERS = """
    a[[0, 0, 1]] | a[0, :, [1, 0]] | a[[1, 0], :, 0] | a[[[0], [1]], [0, 0]] | a[:, [True] + [False] * (a.shape[1] - 1)] | a[..., [0]]
    a.sum() | a.sum(0) | a.sum((0, 2), keepdims=True) | a.prod(-1) | a.max(1) | a.min() | a.all() | a.any(1)
    a.mean(0) | a.mean()
    a.argmax(1) | a.argmin(0, keepdims=True) | xp.argmax(a) | xp.count_nonzero(a) | xp.count_nonzero(a, 1) | a.cumsum(1) | a.cumsum()
    a.cumprod(0) | xp.concatenate([a, a], 1) | xp.concatenate([a, a], None) | xp.concatenate([a, a.astype('c16')]) | xp.stack([a, a], 1)
    xp.stack([a, a], -1) | a.take([0, 1], 1) | a.take([[0, 1]]) | a.take(0, 0) | xp.take_along_axis(a, i, 1)
    xp.take_along_axis(a, i[:1], 2)
    xp.pad(a, 1) | xp.pad(a, ((0, 1), (2, 0), (0, 0))) | a.repeat(2) | a.repeat(3, 1) | a.repeat([1] * a.shape[0], 0)
    a.repeat([0, 2] + [1] * (a.shape[1] - 2), 1) | xp.tile(a, 2) | xp.tile(a, (2, 1, 1, 3)) | xp.where(a == 1, a, a)
    xp.where(a == 1, a, 2.5)
    xp.dot(a, a[0].T) | xp.dot(a, a[0, 0]) | xp.einsum('ijk,ljk->il', a, a) | xp.tensordot(a, a, ([1, 2], [1, 2]))
    xp.tensordot(a, a.transpose(2, 1, 0), 1) | xp.matmul(a, a.swapaxes(1, 2)) | a @ a[0, 0] | a.argsort(1) | xp.argpartition(a, 0, 1)
    xp.searchsorted(a[0, 0], a[1]) | xp.isin(a, a) | xp.rot90(a) | xp.rot90(a, 1, (1, 2)) | xp.flip(a, 1) | xp.roll(a, 1, 0) | xp.sort(a, 1)
    xp.diff(a / 2, 1, 1) | xp.diff(a / 2, 9, 0) | xp.unravel_index(i[0, 0], (9, 9))[1] | (a * 1.5).conj() | xp.sqrt(a) | xp.isnan(a / 2)
    xp.abs(a) | a == a | a / 3 | xp.logical_not(a) | xp.add.reduce(a, 1) | xp.maximum.accumulate(a, 2) | xp.add.outer(a[0, 0], a[1, 1])
    xp.fft.fftn(a * 1.5, axes=(0, 2)) | xp.fft.ifftn(a * 1.5, axes=(1,)) | xp.fft.irfft(a / 2, 6, 1)
    xp.size(a) | xp.size(a, 1) | xp.ndim(a)
    xp.add.reduceat(a, [0, 1], 1) | xp.add.reduceat(a, [0], 0, 'c16') | xp.add.reduceat(a, [0], 2)
    xp.linalg.qr(a / 2)[1] | xp.linalg.svd(a[0] / 2)[2] | xp.divmod(i, 2)[1]
    xp.shape(a) | xp.isrealobj(a) | xp.iscomplexobj(a) | len(a) | a.nbytes
"""


def calls(text: str) -> list[str]:
    return [call.strip() for line in text.split("\n") for call in line.split(" | ") if call.strip()]


def of_both(call: str, layout: str, kind: str) -> tuple[Any, Any]:
    plain = LAYOUTS[layout](np.ones((3, 4, 5), kind))
    meta = empty_strided(plain.shape, [step // plain.itemsize for step in plain.strides], plain.dtype)
    places = np.zeros(plain.shape, np.int64)
    return eval(call, {"xp": np, "a": plain, "i": places}), eval(call, {"xp": xp, "a": meta, "i": xp.zeros(places.shape, np.int64)})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", calls(COPIES_AND_VIEWS))
def test_copies_and_views_lie_in_memory_as_numpys(call: str, layout: str) -> None:
    for kind in KINDS:
        want, got = of_both(call, layout, kind)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), kind
        steps = [(a, b) for a, b, size in zip(got.strides, want.strides, want.shape, strict=True) if size > 1]
        assert want.size == 0 or all(a == b for a, b in steps), (kind, got.strides, want.strides)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", calls(OTHERS))
def test_results_have_numpys_shapes_and_element_types(call: str, layout: str) -> None:
    for kind in KINDS:
        want, got = of_both(call, layout, kind)
        if hasattr(want, "shape"):
            assert (got.shape, got.dtype) == (want.shape, want.dtype), kind
        else:
            assert got == want


@pytest.mark.parametrize(
    "call", ["a.item()", "int(a)", "a.tolist()", "np.asarray(a)", "bool(a)", "bool(a[0, 0, 0])", "xp.nonzero(a)", "a[a > 0]"]
)
def test_values_cannot_be_had(call: str) -> None:
    a = MetaArray((3, 4, 5))
    with pytest.raises((MissingValue, NotImplementedError)):
        eval(call, {"a": a, "np": np, "xp": xp})


def test_checks_of_values_pass() -> None:
    a = MetaArray((3, 4))
    assert xp.all(a > 0) and not xp.any(a > 0) and not (a > 0).any()


def test_a_view_of_memory_has_the_strides_it_is_given() -> None:
    memory = np.zeros(24, "f4")
    meta = MetaArray((24,), "f4")
    for shape, strides in (((2, 3), None), ((2, 3), (4, 16)), ((), None), (4, None)):
        want, got = np.ndarray(shape, "f4", memory, 8, strides), MetaArray(shape, "f4", meta, 8, strides)
        assert (got.shape, got.strides, got.dtype) == (want.shape, want.strides, want.dtype)


def test_a_function_without_a_rule_needs_one_for_large_arrays() -> None:
    assert xp.kron(MetaArray((2, 3)), MetaArray((4, 5))).shape == (8, 15)
    with pytest.raises(NeedsRule):
        xp.kron(MetaArray((2000, 3000)), MetaArray((4, 5)))
