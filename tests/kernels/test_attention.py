"""Native attention and its gradients against the reference: tiles, layouts, masks, memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.core.calls.registry import primitive
from flambeau.kernels.compiler import target as targets
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import attention as kernels
from flambeau.kernels.families.attention_kernels import TILE
from flambeau.nn import functional as F

from .guard import guarded

FORWARD, BACKWARD = (primitive(name, "nn.functional").kernel for name in ("_attention", "_attention_backward"))
CLOSE = {np.float32: 2e-5, np.float64: 2e-13}
LANES = targets.current().width // 4
ONE_QUERY = ((1, 1, 1, 1), (1, 61, 33, 17), (1, 300, 16, 80))


def operands(rng: Any, lead: tuple[int, ...], sizes: tuple[int, int, int, int], dtype: Any = np.float32) -> list[np.ndarray]:
    """Query, key, value and the gradient of the output; ``sizes`` are lengths of queries and keys, widths of keys and values."""
    length, keys, width, out = sizes
    return [rng.standard_normal((*lead, *matrix)).astype(dtype) for matrix in ((length, width), (keys, width), (keys, out), (length, out))]


def check(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, grad: np.ndarray, mask: Any = None, is_causal: bool = False, scale: float = 0.3
) -> None:
    """Both native kernels give what the reference gives, NaN and order in memory included."""
    close = CLOSE[query.dtype.type]
    with np.errstate(all="ignore"):
        expected = FORWARD(query, key, value, mask, is_causal, scale, None)
        slopes = BACKWARD(grad, query, key, value, mask, *expected, is_causal, scale, None, False)
    got = kernels.attention(query, key, value, mask, is_causal, scale, None)
    assert got is not None
    got_slopes = kernels.attention_backward(grad, query, key, value, mask, *got, is_causal, scale, None, False)
    assert got_slopes is not None
    for name, a, b in zip(("output", "log_sum", "query", "key", "value"), (*got, *got_slopes), (*expected, *slopes), strict=True):
        assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides), name
        size = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        np.testing.assert_allclose(a, b, rtol=close, atol=close * size, err_msg=name)


# -- sizes ---------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_causal", [False, True])
def test_sizes_around_every_tile(is_causal: bool) -> None:
    rng = np.random.default_rng(0)
    edges = sorted({size + more for size in (1, LANES, 2 * LANES, TILE, 2 * TILE) for more in (-1, 0, 1)} - {0})
    for length in edges:
        for keys in {length, *rng.choice(edges, 3).tolist()}:
            check(*operands(rng, (2,), (length, keys, 9, 5)), is_causal=is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_float64(is_causal: bool) -> None:
    rng = np.random.default_rng(11)
    for length, keys in ((TILE, TILE), (TILE - 1, TILE + 1), (TILE + 1, TILE - 1), (2 * TILE, 2 * TILE)):
        check(*operands(rng, (2,), (length, keys, 9, 5), np.float64), is_causal=is_causal)


@pytest.mark.parametrize("is_causal", [False, True])
def test_widths_from_1_to_130(is_causal: bool) -> None:
    rng = np.random.default_rng(1)
    for width in (*range(1, 20), 31, 32, 33, 48, 63, 64, 65, 80, 96, 127, 128, 130):
        check(*operands(rng, (1, 2), (70, 70, width, width)), is_causal=is_causal)
        check(*operands(rng, (), (18, 67, width, 131 - width)), is_causal=is_causal)


def test_operands_end_at_forbidden_pages() -> None:
    rng = np.random.default_rng(2)
    for end in (False, True):
        for sizes in (*ONE_QUERY, (2, 1, 1, 1), (50, 61, 3, 2), (53, 66, 17, 5), (66, 53, 16, 32), (64, 64, 64, 64)):
            arrays = [guarded(array, end) for array in operands(rng, (2,), sizes)]
            masks = () if 1 < sizes[0] < LANES else (rng.random(sizes[:2]) < 0.8, rng.standard_normal((1, sizes[1])).astype(np.float32))
            for mask in (None, *masks):
                mask = mask if mask is None else guarded(mask, end)
                query, key, value, grad = arrays
                output, log_sum = kernels.attention(query, key, value, mask, False, 0.5, None)
                saved = guarded(output, end), guarded(log_sum, end)
                assert kernels.attention_backward(grad, query, key, value, mask, *saved, False, 0.5, None, False) is not None
            check(*arrays)
            check(*arrays, is_causal=True)


# -- layouts and masks ---------------------------------------------------------------------------------------------------------------
LAYOUTS = {
    "row-major": lambda array: array,
    "heads inside rows": lambda array: array.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3),
    "a part of wider rows": lambda array: np.concatenate([array, array], -1)[..., : array.shape[-1]],
    "sequence first": lambda array: array.transpose(2, 0, 1, 3).copy().transpose(1, 2, 0, 3),
    "width before length": lambda array: array.swapaxes(2, 3).copy().swapaxes(2, 3),
    "one head for all": lambda array: np.broadcast_to(array[:, :1], array.shape),
    "one row for all": lambda array: np.broadcast_to(array[:, :, :1], array.shape),
    "one number for all": lambda array: np.broadcast_to(array[..., :1], array.shape),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_strides_of_operands(name: str) -> None:
    rng, change = np.random.default_rng(3), LAYOUTS[name]
    for sizes in ((52, 70, 8, 8), (66, 57, 16, 5), (1, 57, 16, 5), (1, 70, 8, 8)):
        arrays = operands(rng, (2, 3), sizes)
        for which in range(4):
            check(*[change(array) if i in (which, 3) else array for i, array in enumerate(arrays)])
        check(*[change(array) for array in arrays], is_causal=True)


@pytest.mark.parametrize("length", [1, 52])
def test_the_order_of_the_query_is_that_of_the_output_where_operands_have_rows(length: int) -> None:
    query, key, value, grad = operands(np.random.default_rng(13), (2, 3), (length, 70, 8, 8))
    query = query.swapaxes(0, 1).copy().swapaxes(0, 1)
    check(query, key, value, grad)
    check(query, LAYOUTS["width before length"](key), value, grad)


def test_leading_dimensions_are_broadcast() -> None:
    rng = np.random.default_rng(4)
    query, _, _, grad = operands(rng, (2, 3), (53, 60, 8, 5))
    _, key, _, _ = operands(rng, (3,), (53, 60, 8, 5))
    _, _, value, _ = operands(rng, (2, 1), (53, 60, 8, 5))
    for mask in (None, rng.random((2, 1, 53, 60)) < 0.5, rng.standard_normal((3, 1, 60)).astype(np.float32)):
        check(query, key, value, grad, mask)


MASKS = [(67,), (1, 67), (70, 67), (70, 1), (1, 1), (3, 70, 67), (2, 1, 1, 67), (2, 1, 70, 67), (2, 3, 70, 67), (1, 3, 1, 67)]


@pytest.mark.parametrize("kind", ["bool", "added", "minus infinity"])
def test_masks_of_every_shape(kind: str) -> None:
    rng = np.random.default_rng(5)
    arrays = operands(rng, (2, 3), (70, 67, 8, 5))
    for shape in MASKS:
        seen = rng.random(shape) < 0.7
        mask = seen if kind == "bool" else rng.standard_normal(shape).astype(np.float32)
        if kind == "minus infinity":
            mask[~seen] = -np.inf
        if shape[-1] == 1:
            assert kernels.attention(*arrays[:3], mask, False, 1.0, None) is None
            continue
        check(*arrays, mask)
        check(*arrays, mask.swapaxes(-1, -2).copy().swapaxes(-1, -2) if len(shape) > 1 else mask)


def test_tiles_and_rows_that_are_masked_entirely() -> None:
    rng = np.random.default_rng(6)
    arrays = operands(rng, (2,), (2 * TILE + 3, 3 * TILE, 8, 8))
    padding = np.ones((2, 1, 3 * TILE), bool)
    padding[0, 0, TILE - 5 :] = False
    padding[1, 0, : 2 * TILE] = False
    blocks = rng.random((2 * TILE + 3, 3 * TILE)) < 0.6
    blocks[:TILE, TILE:] = blocks[5] = False
    for mask in (padding, blocks, np.zeros((1, 3 * TILE), bool), np.where(blocks, 0.5, -np.inf).astype(np.float32)):
        check(*arrays, mask)
    output, log_sum = kernels.attention(*arrays[:3], np.zeros((1, 3 * TILE), bool), False, 1.0, None)
    assert not output.any() and np.isposinf(log_sum).all()


# -- values --------------------------------------------------------------------------------------------------------------------------
def test_huge_infinite_and_missing_values() -> None:
    rng = np.random.default_rng(7)
    for spot, number in [(0, np.nan), (1, np.inf), (1, np.nan), (2, np.inf), (2, np.nan)]:
        arrays = operands(rng, (1,), (60, 70, 8, 8))
        arrays[spot][0, 3, 2] = number
        check(*arrays)
        check(*arrays, rng.random((60, 70)) < 0.9)
    query, key, value, _ = operands(rng, (1,), (60, 70, 8, 8))
    for number in (1e4, 1e18):  # a weight is 1 or 0
        large = query * np.float32(number), key, value, None, False, 1.0, None
        for a, b in zip(kernels.attention(*large), FORWARD(*large), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5)


def test_what_a_mask_hides_does_not_matter() -> None:
    query, key, value, _ = operands(np.random.default_rng(8), (1,), (60, 70, 8, 8))
    mask = np.ones((1, 70), bool)
    mask[:, 30:] = False
    expected, _ = kernels.attention(query, key, value, mask, False, 1.0, None)
    key[:, 30:] = np.nan
    got, _ = kernels.attention(query, key, value, mask, False, 1.0, None)
    assert np.array_equal(got, expected)


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    arrays = operands(np.random.default_rng(9), (3,), (150, 130, 16, 16))
    before, runs = pool.threads, []
    try:
        for count in (1, 2, 3):
            pool.set_threads(count)
            got = kernels.attention(*arrays[:3], None, True, 0.3, None)
            runs.append((*got, *kernels.attention_backward(arrays[3], *arrays[:3], None, *got, True, 0.3, None, False)))
    finally:
        pool.set_threads(before)
    for run in runs[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(run, runs[0], strict=True))


# -- one query -------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["none", "bool", "added", "nothing"])
def test_one_query_beside_a_cache(dtype: str, kind: str) -> None:
    """Parts of a longer cache, heads inside of rows, and heads that share keys, of every dtype."""
    rng, dtype_of = np.random.default_rng(11), getattr(torch, dtype)
    close = {"float32": 1e-6, "float64": 1e-14, "bfloat16": 8e-3, "float16": 1e-3}[dtype]
    for keys, width, out, shared in ((1, 3, 3, 1), (31, 16, 64, 2), (TILE, 33, 17, 1), (700, 72, 40, 3)):
        cache = torch.tensor(rng.standard_normal((2, 2, keys + 9, width + out)), dtype=dtype_of)
        key, value = cache[:, :, 4 : keys + 4].split([width, out], -1)
        query = torch.tensor(rng.standard_normal((2, 1, 2 * shared, width)), dtype=dtype_of).transpose(1, 2)
        seen = torch.tensor(rng.random((2, 1, 1, keys)) < (0.6 if kind == "bool" else 0.0))
        added = torch.tensor(rng.standard_normal((1, keys)), dtype=dtype_of)
        mask = {"none": None, "added": added}.get(kind, seen)
        got = F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=shared > 1)
        with native.disabled():
            exact = [None if mask is None else mask if mask.dtype is torch.bool else mask.double()]
            wanted = F.scaled_dot_product_attention(query.double(), key.double(), value.double(), *exact, enable_gqa=shared > 1)
        assert got.dtype is dtype_of and got.shape == wanted.shape
        torch.testing.assert_close(got.double(), wanted, rtol=close, atol=close)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("length", "out"), [(1, 8), (1, 70), (2, 8), (2, 70)])
@pytest.mark.parametrize("to_mask", [False, True])
def test_gradients_of_large_scores(dtype: str, length: int, out: int, to_mask: bool) -> None:
    """Shares are made again from scores whose rounding alone may be 1, by whichever kernel or reference."""
    rng, kind = np.random.default_rng(15), getattr(torch, dtype)
    query, key, value, grad = (torch.tensor(each, dtype=kind) for each in operands(rng, (2, 3), (length, 50, 64, out)))
    key, value = 1e6 * key, value.requires_grad_()
    mask = torch.zeros(length, 50, dtype=kind, requires_grad=True) if to_mask else None
    F.scaled_dot_product_attention(query, key, value, mask).backward(grad)
    shares = (query.double() @ key.double().mT / 8).softmax(-1)
    torch.testing.assert_close(value.grad, (shares.mT @ grad.double()).to(kind))


def test_heads_of_one_query_are_shared_out_without_a_difference() -> None:
    query, key, value, _ = operands(np.random.default_rng(12), (6,), (1, 900, 40, 40))
    before, runs = pool.threads, []
    try:
        for count in (1, 2, 3):
            pool.set_threads(count)
            runs.append(kernels.attention(query, key, value, None, False, 0.3, None))
    finally:
        pool.set_threads(before)
    assert all(np.array_equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0], strict=True))


# -- calls ---------------------------------------------------------------------------------------------------------------------------
def test_what_is_left_to_the_reference() -> None:
    query, key, value, _ = operands(np.random.default_rng(10), (2,), (8, 9, 4, 4))
    half = [array.astype(np.float16) for array in (query, key, value)]
    empty = (query[:, :0], key, value)
    single, deep = (query[:, :1], key, value), [np.ones((1, 1, 1025), np.float32)] * 3
    for arrays, mask in (
        (half, None),
        (empty, None),
        (deep, None),
        (single, np.zeros((1, 9))),
        (single, np.zeros((1, 1), np.float32)),
        ([array[None, None, None] for array in single], None),
        ((query[:0], key[:0], value[:0]), None),
        ((query, key, value), np.zeros((8, 9))),
    ):
        assert kernels.attention(*arrays, mask, False, 1.0, None) is None


def test_scores_of_deep_queries_are_as_exact_as_products() -> None:
    """A score of the kernels is one sum from the first element to the last."""
    rng = np.random.default_rng(3)
    query, key, value, grad = (rng.uniform(-1, 1, (3, 40_000)).astype(np.float32) for _ in range(4))

    def slope(dtype: Any) -> np.ndarray:
        q, k, v, g = (torch.tensor(array, dtype=dtype) for array in (query, key, value, grad))
        q.requires_grad_()
        F.scaled_dot_product_attention(q[None], k[None], v[None])[0].backward(g)
        return q.grad.numpy()

    error = np.abs(slope(torch.float32) - slope(torch.float64)).max()
    assert error < 6e-7, error  # 1.2e-6 by one sum


def test_the_reference_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the derivative, too, wherever that is computed."""
    called: list[Any] = []
    for name in ("nn.functional._attention", "nn.functional._attention_backward"):
        run = native.find(name)
        monkeypatch.setitem(native._found, name, lambda *arguments, run=run: called.append(result := run(*arguments)) or result)
    query = torch.randn(2, 70, 3, 16).transpose(1, 2).requires_grad_()
    backends, strides = torch.nn.attention.SDPBackend, []
    for backend, is_native in ((backends.MATH, False), (backends.FLASH_ATTENTION, True)):
        called.clear()
        with torch.nn.attention.sdpa_kernel(backend):
            output = F.scaled_dot_product_attention(query, query, query)
        output.sum().backward()
        strides.append(output.stride())
        assert [result is not None for result in called] == [is_native] * 2
    assert strides == [(3 * 70 * 16, 70 * 16, 16, 1), (3 * 70 * 16, 16, 48, 1)]  # as in PyTorch


@pytest.fixture
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native kernels whatever the size."""
    for name in ("_attention", "_attention_backward"):
        choice = native.choice_for(primitive(name, "nn.functional"))
        monkeypatch.setattr(choice, "threshold", 1)


@pytest.mark.usefixtures("every_size")
def test_gradcheck() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(n, 1, dtype=torch.float64, requires_grad=True) for n in (25, 26, 26)]
    for kwargs in ({}, {"is_causal": True}):
        function = lambda *inputs, kwargs=kwargs: F.scaled_dot_product_attention(*inputs, **kwargs)  # noqa: E731
        assert torch.autograd.gradcheck(function, tensors)
        assert torch.autograd.gradgradcheck(function, tensors)


@pytest.mark.parametrize("mask", [None, "padding"])
def test_modules_reach_the_kernels(monkeypatch: pytest.MonkeyPatch, mask: str | None) -> None:
    called: list[str] = []

    def counted(name: str) -> Any:
        run = native.find("nn.functional." + name)

        def kernel(*arguments: Any) -> Any:
            result = run(*arguments)
            called.append(name if result is not None else "reference")
            return result

        return kernel

    for name in ("_attention", "_attention_backward"):
        monkeypatch.setitem(native._found, "nn.functional." + name, counted(name))
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    x = torch.randn(3, 70, 32, requires_grad=True)
    padding = None if mask is None else torch.arange(70).expand(3, 70) >= torch.tensor([[70], [40], [3]])
    attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    layer(x, src_key_padding_mask=padding).square().sum().backward()
    attention(x, x, x, key_padding_mask=padding, need_weights=False)[0].square().sum().backward()
    assert called == ["_attention", "_attention_backward"] * 2
    got = x.grad
    x.grad = None
    with native.disabled():
        layer(x, src_key_padding_mask=padding).square().sum().backward()
        attention(x, x, x, key_padding_mask=padding, need_weights=False)[0].square().sum().backward()
    assert torch.allclose(got, x.grad, rtol=1e-4, atol=1e-5)


def test_memory_grows_with_the_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's allocations are traced; larger results come from buffers of the back end, which are counted at the asking."""
    asked: list[int] = []
    allocate = kernels.empty
    monkeypatch.setattr(kernels, "empty", lambda shape, dtype: asked.append(int(np.prod(shape)) * dtype.itemsize) or allocate(shape, dtype))

    def most(length: int) -> int:
        operand = torch.randn(1, 1, length, 16, requires_grad=True)
        asked.clear()
        tracemalloc.start()
        F.scaled_dot_product_attention(operand, operand, operand, is_causal=True).sum().backward()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return sum(asked) + peak

    most(1024)
    sizes = [most(length) for length in (1024, 2048, 4096)]
    assert sizes[1] < 2.2 * sizes[0] and sizes[2] < 2.2 * sizes[1]
    assert sizes[2] < 4096 * 4096  # a quarter of one float32 matrix of scores
