"""Products of bytes: exact sums of all sizes and extreme values by all instructions, what is made of them, and weights of few bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flambeau as torch

pytest.importorskip("llvmlite")
from flambeau.core.arrays import panels
from flambeau.core.arrays.native import NoKernel
from flambeau.core.arrays.panels import Finishing, Panels, padded
from flambeau.kernels.compiler import build, image, target
from flambeau.kernels.families import integer_packing, integer_products, tile_registers, weight_products
from flambeau.ops import integer_products as reference
from tests.helpers.threads import in_threads

from .guard import guarded

FORMS = ["words", "pairs", *["tile", "tiles"] * tile_registers.has_integers()]


def chosen(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``form`` compute products of any number of rows; 'pairs' are words without an instruction for four products."""
    if form == "pairs":
        monkeypatch.setattr(target, "dot_features", lambda: "")
    forms = {"pairs": lambda m: "words", "words": lambda m: "words", "tile": lambda m: "tile" if m <= 16 else "tiles"}
    monkeypatch.setattr(integer_products, "form_of", forms.get(form, lambda m: "tiles"))
    integer_products._plan.cache_clear()


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    chosen(request.param, monkeypatch)
    yield request.param
    integer_products._plan.cache_clear()


def drawn(*shape: int, dtype: Any = np.int8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def operand(a: np.ndarray) -> np.ndarray:
    """Bytes as products read them; what lies behind the ends is not zero."""
    made = np.full(integer_products.room(*a.shape), 201, np.uint8)
    made[: len(a), : a.shape[1]] = a
    return made


def hold(a: np.ndarray, weights: Panels, zero: int = 0) -> None:
    result = np.full((len(a), weights.n), -7, np.int32)
    integer_products.multiply(operand(a), weights, result, zero)
    np.testing.assert_array_equal(result, weights.sums(a, zero))


def test_sums_are_exact_for_every_size_of_each_dimension(form: str) -> None:
    a = drawn(70, 70, dtype=np.uint8)
    weight = drawn(70, 70)
    for size in range(1, 71):
        hold(a[:size, :37], Panels(weight[:21, :37]), 3)
        hold(a[:19, :size], Panels(weight[:35, :size]), 200)
        hold(a[:5, :33], Panels(weight[:size, :33], np.arange(size) - 9), 128)


@pytest.mark.parametrize(("byte", "weight"), [(255, -128), (255, 127), (128, -128), (1, -1)])
def test_extreme_values_saturate_nowhere(byte: int, weight: int, form: str) -> None:
    for m, k in ((1, 70), (3, 4), (13, 64), (40, 1100)):
        hold(np.full((m, k), byte, np.uint8), Panels(np.full((33, k), weight, np.int8)), 0)


def test_parts_and_long_sums(form: str) -> None:
    for m, k, n in ((300, 1100, 130), (33, 2100, 300), (1, 513, 1000)):
        hold(drawn(m, k, dtype=np.uint8), Panels(drawn(n, k)), 77)


def test_sums_wrap() -> None:
    hold(np.full((2, 70000), 255, np.uint8), Panels(np.full((3, 70000), 127, np.int8)), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int8])
def test_what_is_made_of_sums_has_the_references_bits(dtype: Any, form: str) -> None:
    random = np.random.default_rng(0)
    for m, k, n in ((1, 40, 70), (20, 70, 33), (37, 64, 64)):
        weights = Panels(drawn(n, k), drawn(n) // 16)
        a, size = drawn(m, k, dtype=np.uint8), np.float32(1 if dtype is np.float32 else 2e-4)
        scale, bias = (padded(random.random(n, np.float32)) for _ in range(2))
        for added in (None, (bias - 0.5) * np.float32(1000)):
            for relu in (False, True):
                least = np.iinfo(dtype).min if dtype is np.int8 else 0
                finish = Finishing(scale * size, added, relu, zero=3, least=3 if relu else least, step=0.75)
                result = np.empty((m, n), dtype)
                integer_products.multiply(operand(a), weights, result, 100, finish)
                np.testing.assert_array_equal(result, finish.of(weights.sums(a, 100), np.dtype(dtype)))


def test_panels_are_the_same_of_every_order_in_memory() -> None:
    packed = panels._packed.part.reference
    for n, k in ((1, 1), (5, 3), (16, 64), (33, 65), (31, 130), (100, 4)):
        wide = drawn(n, 2 * k + 8)
        for weight in (wide[:, :k].copy(), drawn(k, n).T, wide[:, 4 : 4 + k], wide[:, : 2 * k : 2], np.broadcast_to(wide[:1, :k], (n, k))):
            for got, wanted in zip(integer_packing.pack_panels(weight), packed(weight), strict=True):
                np.testing.assert_array_equal(got, wanted)
            np.testing.assert_array_equal(Panels(weight).rows(), weight)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_int_mm(dtype: Any, form: str) -> None:
    for m, k, n in ((1, 3, 5), (5, 64, 33), (40, 100, 20), (33, 1024, 40)):
        a, b = drawn(2 * m, k, dtype=dtype), drawn(k, n)
        for left, right in ((a[:m], b), (a[::2], np.asfortranarray(b)), (np.asfortranarray(a[:m]), b)):
            np.testing.assert_array_equal(integer_products.int_mm(left, right), left.astype(np.int64) @ right.astype(np.int64))


def test_threads_have_sums_of_their_own() -> None:
    a, weights, wrong = operand(drawn(100, 128, dtype=np.uint8)), Panels(drawn(96, 128)), []
    expected = weights.sums(a[:100, :128], 5)

    def run(_number: int) -> None:
        for _ in range(20):
            result = np.empty((100, 96), np.int32)
            integer_products.multiply(a, weights, result, 5)
            if not np.array_equal(result, expected):
                wrong.append(1)

    in_threads(4, run)
    assert not wrong


@pytest.mark.parametrize("processor", list(target.ALL.values()), ids=lambda t: t.name)
@pytest.mark.parametrize("kind", ["i32", "f32", "u8"])
def test_kernels_compile_for_every_class(processor: target.Target, kind: str) -> None:
    specification = ("words", "", kind, True, True, True)
    k = build.source_of(integer_products.integer_product.generator, specification, processor)
    assert image.is_whole(image.link(image.compile_object(k.text(), processor), k.name))


# -- numbers times weights ---------------------------------------------------------------------------------------------------------------
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def near(got: np.ndarray, exact: np.ndarray, sizes: np.ndarray, k: int) -> None:
    """Sums of ``k`` products in float32, whose sizes are given, rounded to the result's dtype."""
    unit = float(ml_dtypes.finfo(got.dtype).eps)
    assert (abs(got.astype(np.float64) - exact) <= (k + 4) * 2.0**-23 * sizes + unit * abs(exact) + 1e-30).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float16", "bfloat16"])
def test_weights_of_bytes(dtype: Any) -> None:
    random = np.random.default_rng(0)
    for m, k, n in ((1, 130, 9), (2, 7, 4), (3, 40, 3), (7, 16, 64), (49, 70, 20)):
        x, weight, scales = random.standard_normal((m, k)).astype(dtype), drawn(n, k), random.random(n).astype(dtype)
        try:
            got = weight_products.weight_int8pack_mm(x, weight, scales)
        except NoKernel:
            pytest.skip("this class of processors has no instructions for float16")
        left, right, factor = x.astype(np.float64), weight.T.astype(np.float64), scales.astype(np.float64)
        near(got, left @ right * factor, abs(left) @ abs(right) * factor, k)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float16", "bfloat16"])
def test_weights_of_four_bits(dtype: Any) -> None:
    random = np.random.default_rng(0)
    for m, k, n, group in ((1, 64, 64, 32), (2, 128, 128, 128), (3, 256, 64, 64), (9, 64, 128, 64)):
        integers = random.integers(0, 16, (n, k)).astype(np.int32)
        packed = torch._convert_weight_to_int4pack_for_cpu(torch.from_numpy(integers), 1).numpy()
        np.testing.assert_array_equal(reference.unpacked(packed), integers)
        scales, x = random.random((k // group, n, 2)).astype(dtype), random.standard_normal((m, k)).astype(dtype)
        try:
            got = weight_products.weight_int4pack_mm(x, packed, group, scales)
        except NoKernel:
            pytest.skip("this class of processors has no instructions for float16")
        weights, left = reference.weights_of(packed, group, scales).astype(np.float64), x.astype(np.float64)
        near(got, left @ weights, abs(left) @ (abs(weights) + 24), k)


def test_halves_of_other_sizes_are_left_to_the_reference() -> None:
    packed = np.zeros((80, 16), np.uint8)
    assert weight_products.weight_int4pack_mm(np.ones((1, 32), np.float32), packed, 32, np.ones((1, 80, 2), np.float32)) is None
    assert reference.unpacked(packed).shape == (80, 32)


# -- memory ------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("end", [True, False])
def test_nothing_is_touched_beside_operands_and_results(end: bool, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh(shape: Any, dtype: Any) -> np.ndarray:
        return guarded(np.zeros(shape, dtype), end)

    for module in (integer_products, integer_packing, weight_products):
        monkeypatch.setattr(module, "empty", fresh)
    random = np.random.default_rng(0)
    for m, k, n in ((1, 13, 5), (3, 64, 33), (37, 70, 31), (33, 128, 64)):
        a, b = guarded(drawn(m, k, dtype=np.uint8), end), guarded(drawn(n, k), end)
        x = guarded(random.standard_normal((m, k), np.float32), end)
        for right in (b.T, guarded(b.T.copy(), end)):
            np.testing.assert_array_equal(integer_products.int_mm(a, right), a.astype(np.int64) @ right.astype(np.int64))
        layer = panels.PackedLinear(b, np.full(1, 0.02), np.full(1, 3), guarded(random.random(n, np.float32), end))
        integer_products.quantized_linear_dynamic(x, layer, False, True)
        integer_products.quantized_linear(a, layer, 0.1, 7, 0.2, 9, False)
        weight_products.weight_int8pack_mm(x, b, guarded(random.random(n, np.float32), end))
    halves, scales = guarded(drawn(64, 32, dtype=np.uint8), end), guarded(random.random((2, 64, 2), np.float32), end)
    weight_products.weight_int4pack_mm(guarded(random.standard_normal((3, 64), np.float32), end), halves, 32, scales)
