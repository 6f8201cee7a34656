"""Native convolutions give what the reference kernels give, touch nothing else, and give the same bits for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native
from flambeau.ops import convolution_kernels as reference
from flambeau.ops.patches import is_channels_last

from .guard import guarded

convolution = pytest.importorskip("flambeau.kernels.families.convolution")
channels_last = pytest.importorskip("flambeau.kernels.families.channels_last")
columns = pytest.importorskip("flambeau.kernels.families.columns")
depthwise = pytest.importorskip("flambeau.kernels.families.depthwise")
few_pixels = pytest.importorskip("flambeau.kernels.families.few_pixels")
microkernel = pytest.importorskip("flambeau.kernels.families.microkernel")
narrow_products = pytest.importorskip("flambeau.kernels.families.narrow_products")
window_blocks = pytest.importorskip("flambeau.kernels.families.window_blocks")
tiled_convolution = pytest.importorskip("flambeau.kernels.families.tiled_convolution")
pool = pytest.importorskip("flambeau.kernels.compiler.pool").pool


@dataclass(frozen=True)
class Case:
    """A convolution; ``layout`` of its images is "planes", "last" or "gaps", ``band`` how blocks are packed, ``small`` blocks are small.

    ``tiles``: whether tile registers are used where the processor has them, whatever the sizes; ``columns``: likewise products of "whole"
    columns, or as of a "few" pixels.
    """

    images: int
    groups: int
    channels: int
    outputs: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    more: tuple[int, ...]
    layout: str = "planes"
    dtype: str = "float32"
    band: bool = True
    small: bool = False
    tiles: bool = False
    columns: str = ""

    @property
    def spatial(self) -> tuple[int, ...]:
        """Sizes of the input: as large as the window needs, and ``more``."""
        geometry = zip(self.kernel, self.padding, self.dilation, self.more, strict=True)
        return tuple(max(1, d * (k - 1) + 1 - 2 * p) + m for k, p, d, m in geometry)

    @property
    def positions(self) -> tuple[int, ...]:
        geometry = zip(self.spatial, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in geometry)

    def arrays(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Input, weight, bias and gradient."""
        rng = np.random.default_rng(seed)

        def numbers(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape).astype(self.dtype)

        x = numbers(self.images, self.groups * self.channels, *self.spatial)
        weight = numbers(self.groups * self.outputs, self.channels, *self.kernel)
        return x, weight, numbers(len(weight)), numbers(self.images, len(weight), *self.positions)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.sampled_from((1, 2, 2, 2)))

    def sizes(*values: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(values)) for _ in range(rank))

    return Case(
        draw(st.sampled_from((1, 2, 5))),
        draw(st.sampled_from((1, 1, 2, 5, 17))),
        draw(st.sampled_from((1, 1, 2, 5, 19))),
        draw(st.sampled_from((1, 1, 2, 6, 9))),
        sizes(1, 2, 3, 5, 9),
        sizes(1, 1, 2, 3),
        sizes(0, 1, 2, 4),
        sizes(1, 1, 2),
        sizes(0, 1, 3, 7, 15, 20, 33),
        draw(st.sampled_from(("planes", "last", "gaps"))),
        draw(st.sampled_from(("float32", "float64"))),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(("", "whole", "few"))),
    )


@contextmanager
def settings_of(case: Case, empty: Any = None) -> Iterator[None]:
    """Choose how blocks are packed, and their sizes; ``empty`` makes the arrays for results and scratch memory."""
    changes: list[tuple[Any, str, Any]] = [
        (convolution, "_plans", {}),
        (window_blocks, "_band_costs", lambda *_: 0.0 if case.band else np.inf),
        (tiled_convolution, "WORTH", np.inf if case.tiles else 0.0),
        (columns, "WORTH", np.inf if case.columns else 0.0),
        (few_pixels, "WORTH", 0.0 if case.columns == "few" else np.inf),
    ]
    if case.small:
        changes += [(tiled_convolution, name, value) for name, value in {"ROOM": 1 << 17, "PIXELS": 40, "CHUNKS": 3}.items()]
        small = {"DEPTH": 20, "BAND": 30, "PIXELS": 48, "SUM_DEPTH": 20, "SUM_PIXELS": 50, "CHUNKS": 3}
        changes += [(window_blocks, name, value) for name, value in small.items()]
    if empty is not None:
        changes += [
            (module, "empty", empty)
            for module in (convolution, window_blocks, channels_last, columns, depthwise, few_pixels, microkernel, tiled_convolution)
        ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for change in changes:
        setattr(*change)
    try:
        yield
    finally:
        for change in before:
            setattr(*change)


def laid_out(array: np.ndarray, layout: str, end: bool) -> np.ndarray:
    """``array`` between forbidden pages in another layout."""
    if layout == "last" and array.ndim == 4:
        return np.moveaxis(guarded(np.moveaxis(array, 1, -1), end), -1, 1)
    if layout == "gaps":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1] - 1), array.dtype)
        wide[..., ::2] = array
        return guarded(wide, end)[..., ::2]
    return guarded(array, end)


def results(case: Case, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, grad: np.ndarray) -> dict[str, np.ndarray]:
    geometry = (case.stride, case.padding, case.dilation, case.groups)
    last = is_channels_last(x)
    return {
        "forward": convolution.correlate(x, weight, bias, *geometry, last),
        "input": convolution.spread(grad, weight, None, case.spatial, *geometry, last),
        "weight": convolution.correlate_pair(x, grad, case.kernel, *geometry),
    }


def expected(case: Case, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, grad: np.ndarray) -> dict[str, np.ndarray]:
    x, grad = np.ascontiguousarray(x), np.ascontiguousarray(grad)
    forward = reference.correlate(x, weight, case.stride, case.padding, case.padding, case.dilation, case.groups)
    return {
        "forward": forward + bias.reshape(-1, *(1,) * len(case.kernel)),
        "input": reference.spread(grad, weight, case.spatial, case.stride, case.padding, case.dilation, case.groups),
        "weight": reference.correlate_pair(x, grad, case.kernel, case.stride, case.padding, case.dilation, case.groups),
    }


DEPTHWISE = Case(2, 17, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1), (7, 20))


@given(cases(), st.booleans())
@example(DEPTHWISE, True)
@example(Case(2, 17, 1, 1, (3, 3), (2, 2), (1, 1), (1, 1), (15, 20), "last"), True)
@example(Case(1, 130, 1, 1, (3, 2), (1, 2), (1, 0), (1, 2), (3, 3), "last"), False)
@example(Case(3, 1, 5, 9, (3, 3), (1, 1), (1, 1), (1, 1), (3, 3), band=False), True)
@example(Case(2, 1, 3, 9, (7, 7), (2, 2), (3, 3), (1, 1), (20, 33)), True)
@example(Case(1, 1, 2, 9, (3,), (1,), (1,), (1,), (140000,)), True)
@example(Case(1, 1, 2, 3, (1, 1), (3, 3), (0, 0), (1, 1), (7, 7)), True)
@example(Case(1, 3, 9, 1, (1, 9), (2, 2), (0, 0), (1, 1), (0, 0), dtype="float64"), True)  # windows that end behind the image
@example(Case(1, 3, 9, 1, (1, 17), (2, 2), (0, 0), (1, 1), (0, 0)), True)
@example(Case(1, 3, 9, 1, (1, 17), (1, 1), (0, 0), (1, 1), (1, 0)), True)
@example(Case(3, 1, 70, 40, (3, 3), (1, 1), (1, 1), (1, 1), (7, 11), tiles=True), True)
@example(Case(2, 2, 33, 65, (3, 2), (2, 2), (1, 0), (1, 2), (9, 5), tiles=True, small=True), False)
@example(Case(2, 1, 64, 64, (1, 1), (1, 1), (0, 0), (1, 1), (5, 8), "last", tiles=True), True)
@example(Case(3, 1, 70, 40, (1, 1), (1, 1), (0, 0), (1, 1), (33, 20), tiles=True, small=True), True)
@example(Case(2, 2, 40, 33, (3, 1), (1, 1), (0, 0), (1, 1), (16, 19), tiles=True), True)  # bands are parts of planes
@example(Case(2, 1, 40, 33, (3, 3), (2, 2), (1, 1), (1, 1), (9, 12), "last", tiles=True), True)
@example(Case(2, 2, 34, 64, (3, 3), (1, 1), (1, 1), (2, 1), (9, 12), "last", tiles=True), False)
@example(Case(1, 1, 1, 9, (9, 2), (1, 3), (0, 0), (1, 1), (0, 0), tiles=True), True)
@example(Case(1, 1, 1, 2, (2, 1), (1, 2), (0, 0), (1, 1), (0, 1), tiles=True), True)
@example(Case(5, 1, 100, 70, (3, 3), (1, 1), (1, 1), (1, 1), (7, 7), tiles=True, small=True), False)
@example(Case(1, 1, 36, 32, (5,), (3,), (2,), (1,), (100,), "gaps", tiles=True), True)
@example(Case(5, 1, 64, 64, (2, 1), (1, 2), (1, 0), (1, 1), (13, 0), band=False), True)  # rows of one pixel
@example(Case(5, 1, 19, 40, (3, 3), (2, 1), (1, 1), (1, 2), (5, 6), columns="whole"), True)
@example(Case(2, 1, 40, 9, (1, 1), (3, 2), (0, 0), (1, 1), (7, 7), "gaps", columns="whole"), False)
@example(Case(1, 1, 7, 6, (4,), (3,), (2,), (1,), (30,), columns="whole"), True)
@example(Case(5, 1, 19, 40, (3, 3), (2, 1), (1, 1), (1, 2), (5, 6), columns="few"), True)
@example(Case(1, 1, 100, 17, (3, 3), (1, 1), (1, 1), (1, 1), (2, 2), columns="few"), True)
@example(Case(1, 1, 128, 9, (2, 2), (1, 1), (0, 0), (1, 1), (1, 1), "gaps", "float32", columns="few"), False)
@settings(max_examples=160, deadline=None)
def test_as_the_reference_and_within_bounds(case: Case, end: bool) -> None:
    x, weight, bias, grad = case.arrays()
    x, grad = laid_out(x, case.layout, end), laid_out(grad, case.layout, end)
    weight, bias = guarded(weight, end), guarded(bias, end)

    def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return guarded(np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 0x7FC1, dtype), end)

    with settings_of(case, empty):
        got = results(case, x, weight, bias, grad)
    wanted = expected(case, x, weight, bias, grad)
    # rounding errors are small beside the sum of absolute values
    scale = expected(case, *(np.abs(a) for a in (x, weight, bias, grad)))
    for name, array in got.items():
        assert array.dtype == x.dtype and array.shape == wanted[name].shape, name
        error = np.abs(array - wanted[name]) - 40 * np.finfo(x.dtype).eps * scale[name]
        assert error.max() <= 0, f"{name}: off by {np.abs(array - wanted[name]).max()}"


@pytest.mark.parametrize("layout", ["planes", "last"])
@pytest.mark.parametrize("way", ["bands", "panels", "tiles", "whole", "few"])
def test_same_bits_for_any_number_of_threads(layout: str, way: str) -> None:
    ways = {"band": way != "panels", "tiles": way == "tiles", "columns": way if way in ("whole", "few") else ""}
    case = Case(5, 1, 19, 9, (3, 3), (2, 1), (1, 1), (1, 1), (33, 33), layout, "float32", **ways)
    grouped = Case(5, 40, 1, 1, (3, 3), (2, 1), (1, 1), (1, 1), (33, 33), layout)
    before = pool.threads
    for one in (case, grouped):
        x, weight, bias, grad = one.arrays()
        x, grad = laid_out(x, layout, True), laid_out(grad, layout, True)
        runs = []
        try:
            for threads in (1, 2, 3):
                pool.set_threads(threads)
                with settings_of(one):
                    runs.append(results(one, x, weight, bias, grad))
        finally:
            pool.set_threads(before)
        for other in runs[1:]:
            for name, array in runs[0].items():
                assert np.array_equal(array, other[name]), name


def test_zeros_around_small_inputs_are_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's threads, which have other bits, are not left with what looks like little to do."""
    monkeypatch.setattr(convolution, "_plans", plans := {})
    x, weight = torch.randn(1, 40, 1, 5, 2), torch.randn(7, 40, 5, 3, 3)
    result = F.conv3d(x, weight, None, (3, 1, 1), 6, (1, 1, 2))
    assert plans
    plans.clear()
    with native.disabled():
        wanted = F.conv3d(x, weight, None, (3, 1, 1), 6, (1, 1, 2))
    torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)
    F.conv2d(x[:, :1, 0], weight[:1, :1, 0], None, 1, 1)
    assert not plans


@pytest.mark.parametrize("last", [False, True])
def test_result_lies_as_the_input(last: bool) -> None:
    case = Case(2, 1, 3, 4, (3, 3), (1, 1), (1, 1), (1, 1), (7, 7), "last" if last else "planes")
    x, weight, bias, grad = case.arrays()
    got = results(case, laid_out(x, case.layout, True), weight, bias, laid_out(grad, case.layout, True))
    assert got["forward"].strides[1] == (4 if last else 4 * got["forward"][0, 0].size)
    assert got["input"].strides[1] == (4 if last else 4 * got["input"][0, 0].size)
    assert got["weight"].flags.c_contiguous


@pytest.mark.parametrize("groups", [1, 6])
def test_every_second_column_of_rows_of_any_length(groups: int) -> None:
    """Gradients of strided convolutions write every second element, and nothing between or behind."""
    rng = np.random.default_rng(0)
    for width in (*range(1, 20), 31, 33):
        case = Case(2, groups, 6 // groups, 6 // groups, (3, 3), (2, 2), (1, 1), (1, 1), (4, width))
        x, weight, _, _ = case.arrays()
        grad = rng.standard_normal((2, 6, *case.positions)).astype(np.float32)
        got = convolution.spread(guarded(grad), guarded(weight), None, x.shape[2:], (2, 2), (1, 1), (1, 1), groups, False)
        want = reference.spread(grad, weight, x.shape[2:], (2, 2), (1, 1), (1, 1), groups)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_declines_what_it_does_not_know() -> None:
    one = ((1,), (0,), (1,), 1)
    x = np.ones((1, 2, 9), np.float16)
    assert convolution.correlate(x, np.ones((2, 2, 3), np.float16), None, *one, False) is None
    assert convolution.correlate(np.ones((0, 2, 9)), np.ones((2, 2, 3)), None, *one, False) is None
    volume = np.ones((1, 2, 3, 4, 5), np.float16)
    assert convolution.correlate_pair(volume, volume, (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1) is None


@pytest.mark.parametrize("layout", ["planes", "last"])
def test_channel_sums(layout: str) -> None:
    for channels in (5, 40):
        x = np.random.default_rng(0).standard_normal((3, channels, 7, 33)).astype(np.float32)
        got = convolution.sums_of_channels(laid_out(x, layout, True))
        assert np.allclose(got, x.astype(np.float64).sum((0, 2, 3)), atol=1e-4)


@pytest.mark.skipif(narrow_products.instructions() != "tiles" or not native.switch.on, reason="needs tiles")
@pytest.mark.parametrize(("channels", "outputs", "size", "stride"), [(512, 512, 7, 1), (256, 512, 14, 2)])
def test_few_places_of_many_channels(channels: int, outputs: int, size: int, stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    kernel: Any = native.find("_correlate_few")

    def spy(*arguments: Any) -> Any:
        result = kernel(*arguments)
        taken.append(result is not None)
        return result

    monkeypatch.setitem(native._found, "_correlate_few", spy)
    torch.manual_seed(0)
    x, weight = torch.randn(1, channels, size, size), torch.randn(outputs, channels, 3, 3)
    got = F.conv2d(x, weight, stride=stride, padding=1)
    exact = F.conv2d(x.double(), weight.double(), stride=stride, padding=1)
    bound = F.conv2d(x.double().abs(), weight.double().abs(), stride=stride, padding=1)
    assert taken[0] and ((got - exact).abs() <= 40 * 2.0**-24 * bound).all()
    x[0, 3, 1, 1] = float("inf")  # which tiles do not do
    got, exact = F.conv2d(x, weight, stride=stride, padding=1), F.conv2d(x.double(), weight.double(), stride=stride, padding=1)
    assert torch.equal(got.isfinite(), exact.isfinite()) and torch.equal(got.isnan(), exact.isnan())


@pytest.mark.parametrize("transposed", [False, True])
def test_operations_use_the_kernels(transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, bool] = {}

    def spied(name: str) -> Any:
        kernel: Any = native.find(name)

        def spy(*arguments: Any) -> Any:
            result = kernel(*arguments)
            asked[name] = result is not None
            return result

        return spy

    for name in ("_correlate", "_spread", "_convolution_weight"):
        monkeypatch.setitem(native._found, name, spied(name))
    torch.manual_seed(0)
    x = torch.randn(4, 16, 20, 20, requires_grad=True)
    weight = torch.randn(16, 16, 3, 3, requires_grad=True)
    bias = torch.randn(16, requires_grad=True)
    function = F.conv_transpose2d if transposed else F.conv2d
    function(x, weight, bias, stride=2, padding=1).square().sum().backward()
    gradients = [x.grad, weight.grad, bias.grad]
    assert all(asked[name] for name in ("_correlate", "_spread", "_convolution_weight"))
    for tensor in (x, weight, bias):
        tensor.grad = None
    with native.disabled():
        function(x, weight, bias, stride=2, padding=1).square().sum().backward()
    for got, tensor in zip(gradients, (x, weight, bias), strict=True):
        torch.testing.assert_close(got, tensor.grad, rtol=1e-3, atol=1e-2)


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = sys.modules["flambeau.ops.convolution"]
    for part in (operations._correlated, operations._spread):
        monkeypatch.setitem(part.__globals__, "threshold", 0)
    torch.manual_seed(0)
    for groups in (1, 4):
        x = torch.randn(2, 4, 6, 5, dtype=torch.float64, requires_grad=True)
        weight = torch.randn(4, 4 // groups, 3, 2, dtype=torch.float64, requires_grad=True)
        bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
        arguments = (x, weight, bias)
        assert torch.autograd.gradgradcheck(lambda *a, g=groups: F.conv2d(*a, stride=2, padding=1, groups=g), arguments)


def test_a_plan_keeps_no_arrays_and_fits_any_number_of_threads() -> None:
    """What is kept for a shape holds none of the arrays that it was made for, and scratch memory has room for all threads."""
    image, weight = np.ones((4, 8, 40, 32), np.float32), np.ones((8, 8, 3, 3), np.float32)
    geometry, before = ((1, 1), (1, 1), (1, 1), 1), pool.threads
    try:
        for threads in (1, 3, 2):
            pool.set_threads(threads)
            x = image.copy()
            gone = weakref.ref(x)
            out = convolution.correlate(x, weight, None, *geometry, False)
            back = convolution.spread(x, weight, None, (40, 32), *geometry, False)
            gradient = convolution.correlate_pair(x, x, (3, 3), *geometry)
            assert out[0, 0, 1, 1] == back[0, 0, 1, 1] == 72 and gradient[0, 0, 1, 1] == x[:, 0].size
            del x
            assert gone() is None
    finally:
        pool.set_threads(before)


@pytest.mark.skipif(narrow_products.instructions() != "tiles", reason="this class of processors has no tiles")
@pytest.mark.parametrize("kind", ["normal", "whole", "positive", "mixed", "subnormal", "tiny", "large", "infinite", "nan"])
def test_numbers_in_tiles(kind: str) -> None:
    """Sums are as exact as those of float32; whole numbers that it holds stay whole; what has no parts is computed without tiles."""
    case = Case(3, 1, 48, 40, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9), tiles=True)
    arrays = case.arrays()
    rng = np.random.default_rng(1)
    change = {
        "normal": lambda a: a,
        "whole": lambda a: np.round(a * 30),
        "positive": np.abs,
        "mixed": lambda a: a * np.float32(10) ** rng.integers(-6, 7, a.shape),
        "subnormal": lambda a: a * np.float32(1e-20),
        "tiny": lambda a: np.where(rng.random(a.shape) < 0.5, a * np.float32(1e-42), a),
        "large": lambda a: np.where(rng.random(a.shape) < 0.01, a * np.float32(1e14), a),
        "infinite": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 7, np.float32(np.inf), a),
        "nan": lambda a: np.where(np.arange(a.size).reshape(a.shape) == 7, np.float32(np.nan), a),
    }[kind]
    x, weight, bias, grad = [change(a).astype(np.float32) for a in arrays]
    with settings_of(case):
        got = results(case, x, weight, bias, grad)
    if kind in ("infinite", "nan"):
        without = Case(3, 1, 48, 40, (3, 3), (1, 1), (1, 1), (1, 1), (9, 9))
        with settings_of(without):
            wanted = results(without, x, weight, bias, grad)
        for name, array in got.items():
            assert np.array_equal(array, wanted[name], equal_nan=True), name
        return
    wide = [a.astype(np.float64) for a in (x, weight, bias, grad)]
    wanted = expected(case, *wide)
    if kind == "whole":
        for name, array in got.items():
            assert np.array_equal(array, wanted[name]), name
    scale = expected(case, *(np.abs(a) for a in wide))
    for name, array in got.items():
        error = np.abs(array - wanted[name]) - 12 * 2.0**-24 * scale[name]
        assert error.max() <= 2.0**-126, f"{name}: off by {np.abs(array - wanted[name]).max()}"


@pytest.mark.skipif(narrow_products.instructions() != "tiles" or not native.switch.on, reason="needs tiles")
@pytest.mark.parametrize("kind", ["planes", "last", "transposed", "line", "infinite"])
def test_bfloat16_in_tiles(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are float32's; only results are rounded."""
    monkeypatch.setattr(tiled_convolution, "WORTH", np.inf)
    monkeypatch.setattr(convolution, "_plans", {})
    torch.manual_seed(0)
    rank = 1 if kind == "line" else 2
    x, weight, bias = torch.randn(3, 40, *(13, 12)[:rank]), torch.randn(48, 40, *(3, 3)[:rank]), torch.randn(48)
    function = F.conv1d if rank == 1 else F.conv_transpose2d if kind == "transposed" else F.conv2d
    if kind == "transposed":
        weight = weight.swapaxes(0, 1)
    if kind == "last":
        x = x.contiguous(memory_format=torch.channels_last)
    if kind == "infinite":
        x[1, 2, 3, 4] = torch.inf
    narrow = [each.bfloat16().requires_grad_() for each in (x, weight, bias)]
    wide = [each.detach().float().requires_grad_() for each in narrow]
    results = []
    for operands in (narrow, wide):
        out = function(*operands, stride=2, padding=1)
        grad = torch.ones_like(out).cumsum(1) % 7 - 3
        results.append([out, *torch.autograd.grad(out, operands, grad)])
    assert all(plan is not convolution._none for plan in convolution._plans.values())
    for got, exact in zip(*results, strict=True):
        assert got.dtype is torch.bfloat16 and got.stride() == exact.stride()
        torch.testing.assert_close(got.float(), exact, rtol=2**-8, atol=2e-3, equal_nan=True)


@pytest.mark.skipif(narrow_products.instructions() != "tiles" or not native.switch.on, reason="needs tiles")
def test_bfloat16_operands_that_do_not_fit() -> None:
    x, weight = torch.randn(2, 32, 9, 9).bfloat16(), torch.randn(32, 32, 3, 3).bfloat16()
    for operands, error in (
        ((x[:, :5], weight), "channels"),
        ((x[..., :1], weight), "Kernel size"),
        ((x, weight, torch.ones(3).bfloat16()), "bias"),
    ):
        with pytest.raises(RuntimeError, match=error):
            F.conv2d(*operands)
    assert F.conv2d(x[:0], weight).shape == (0, 32, 7, 7)


@pytest.mark.skipif(narrow_products.instructions() != "tiles" or not native.switch.on, reason="needs tiles")
def test_compiled_programs_see_what_has_no_parts() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(2, 64, 16, 16), torch.randn(64, 64, 3, 3)
    compiled = torch.compile(lambda x, weight: F.conv2d(x, weight, padding=1).relu())
    for value in (1.0, 1.0, 1.0, 1.0, 1e20, torch.inf, torch.nan, 1.0):
        x[1, 2, 3, 4] = value
        torch.testing.assert_close(compiled(x, weight), F.conv2d(x, weight, padding=1).relu(), equal_nan=True, rtol=1e-5, atol=1e-4)


PROGRAM = """
import numpy as np
from tests.kernels import test_convolution as t
for case in (t.DEPTHWISE, t.Case(2, 1, 5, 9, (3, 3), (2, 1), (1, 1), (1, 2), (7, 20), "last"), t.Case(3, 2, 5, 9, (3, 3), (1, 1), (1, 1),
             (1, 1), (3, 3), "planes", "float64", False)):
    arrays = case.arrays()
    x, grad = (t.laid_out(a, case.layout, True) for a in (arrays[0], arrays[3]))
    with t.settings_of(case):
        got = t.results(case, x, *arrays[1:3], grad)
    for name, array in t.expected(case, *arrays).items():
        assert np.allclose(got[name], array, atol=1e-3), name
print("ok")
"""


@pytest.mark.parametrize("target", ["avx2", "plain"])
def test_on_lesser_processors(target: str) -> None:
    environment = os.environ | {"FLAMBEAU_TARGET": target, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False)
    if "expected one of" in done.stderr:
        pytest.skip(f"this machine cannot run {target}")
    assert done.stdout.strip() == "ok", done.stderr


@pytest.mark.parametrize("way", ["written", "bands", "tiles"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [
        ((3, 3, 3), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1),
        ((2, 3, 1), (2, 1, 2), (1, 2, 0), (1, 2, 1), 2),
        ((3, 2, 2), (3, 2, 1), (2, 0, 1), (2, 1, 2), 1),
        ((1, 2, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1), 1),
    ],
)
def test_volumes_by_images(kernel, stride, padding, dilation, groups, dtype, way, monkeypatch):
    """``way``: images are written, or packed as bands from the volume, also for tile registers."""
    monkeypatch.setattr(convolution, "_plans", {})
    monkeypatch.setattr(convolution.volumes, "_ROOM", 20_000)
    monkeypatch.setattr(window_blocks, "_band_costs", lambda *_: np.inf if way == "written" else 0.0)
    monkeypatch.setattr(tiled_convolution, "WORTH", np.inf if way == "tiles" else 0.0)
    rng = np.random.default_rng(0)
    x = guarded(rng.standard_normal((3, 4, 7, 9, 8)).astype(dtype), True)
    weight = guarded(rng.standard_normal((6, 4 // groups, *kernel)).astype(dtype), False)
    bias = rng.standard_normal(6).astype(dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype is np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    wanted = reference.correlate(x, weight, stride, padding, padding, dilation, groups)
    for volume in (x, np.swapaxes(x.swapaxes(2, 4).copy(), 2, 4)):
        result = convolution.correlate(volume, weight, bias, stride, padding, dilation, groups, False)
        np.testing.assert_allclose(result, wanted + bias.reshape(-1, 1, 1, 1), **close)
    grad = guarded(rng.standard_normal(wanted.shape).astype(dtype), True)
    plans = [plan for key, plan in convolution._plans.items() if key[0] is convolution.volumes.correlation]
    assert all((plan is convolution._none) == (way == "written") for plan in plans) and plans
    result = convolution.correlate_pair(x, grad, kernel, stride, padding, dilation, groups)
    np.testing.assert_allclose(result, reference.correlate_pair(x, grad, kernel, stride, padding, dilation, groups), **close)
    result = convolution.spread(grad, weight, None, x.shape[2:], stride, padding, dilation, groups, False)
    np.testing.assert_allclose(result, reference.spread(grad, weight, x.shape[2:], stride, padding, dilation, groups), **close)
    assert convolution.correlate(x, weight, None, stride, padding, dilation, groups, True) is None
    assert convolution.correlate(x.astype(np.float16), weight, None, stride, padding, dilation, groups, False) is None


def test_precision_of_products_is_not_that_of_convolutions() -> None:
    case = Case(8, 1, 64, 64, (3, 3), (1, 1), (1, 1), (1, 1), (3, 3), columns="whole")
    arrays, found = case.arrays(), []
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "medium"):
            torch.set_float32_matmul_precision(precision)
            with settings_of(case):
                found.append(results(case, *arrays))
    finally:
        torch.set_float32_matmul_precision(before)
    for name, array in found[0].items():
        assert np.array_equal(array, found[1][name]), name
