"""Products of float32 as sums of products of bfloat16, beside float64 and beside the library's own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native

pytest.importorskip("llvmlite")
from flambeau.capture import rules
from flambeau.kernels.families import gemm, split_products
from flambeau.kernels.families.blas import library
from flambeau.kernels.families.tile_registers import instructions
from tests.helpers.threads import in_threads

pytestmark = pytest.mark.skipif(
    not native.switch.on or instructions() != "tiles" or library() is None, reason="no tiles of bfloat16 here, or no library beside them"
)
U = 2.0**-24
planned: list[tuple[int, ...]] = []


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products of all sizes are split, and noted, at few of which they pay."""
    plan = split_products.plan

    def noted(a, b, sizes, *others):  # type: ignore[no-untyped-def]
        planned.append(sizes)
        return plan(a, b, sizes, *others)

    monkeypatch.setattr(split_products, "pays", lambda m, n, inner, *_: min(m, n, inner) > 1)
    monkeypatch.setattr(split_products, "plan", noted)
    for cached in (gemm._plan, gemm._plan_into):
        cached.cache_clear()
    planned.clear()
    yield
    for cached in (gemm._plan, gemm._plan_into):
        cached.cache_clear()


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def split(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    planned.clear()
    result = gemm.multiply(a, b, bias, 0)
    assert result is not None and len(planned) == 1
    gemm._plan.cache_clear()
    return result


def hold(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> None:
    got = split(a, b, bias)
    left, right = a.astype(np.float64), b.astype(np.float64)
    exact, size = left @ right, abs(left) @ abs(right)
    if bias is not None:
        exact, size = exact + bias, size + abs(bias)
    assert (abs(got - exact) <= (a.shape[-1] / 5 + 20) * U * size).all()


@pytest.mark.parametrize("m", [2, 16, 17, 32, 33, 70, 290])
def test_sizes_around_tiles_and_blocks(m: int) -> None:
    for inner in (2, 15, 16, 17, 31, 32, 33, 64, 100):
        for n in (2, 15, 16, 33, 64, 70):
            a, b, bias = drawn(m, inner), drawn(inner, n), drawn(n)
            hold(a, b, bias if n % 2 else None)
            hold(np.asfortranarray(a), b)
            hold(a, np.asfortranarray(b), bias)
            hold(np.asfortranarray(a), np.asfortranarray(b))


@pytest.mark.parametrize(("m", "inner", "n"), [(40, 1100, 300), (300, 513, 40), (33, 5000, 34), (520, 64, 520)])
def test_long_sums_and_several_parts(m: int, inner: int, n: int) -> None:
    hold(drawn(m, inner), drawn(inner, n), drawn(n))


@pytest.mark.parametrize("shared", [0, 256])
def test_panels_of_either_operand_and_both_packed(shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_products, "FIT", 60)
    monkeypatch.setattr(split_products, "SHARED", shared)
    for m, inner, n in ((300, 900, 130), (130, 900, 300), (200, 33, 170), (129, 1000, 260)):
        a, b, bias = drawn(m, inner), drawn(inner, n), drawn(n)
        for left in (a, np.asfortranarray(a)):
            hold(left, b, bias)
            hold(left, np.asfortranarray(b))
        for value in (np.inf, np.nan):  # in the operand that is packed before, and in a panel
            for wrong in (a, b):
                kept, wrong[3, 20] = wrong[3, 20], value
                with np.errstate(invalid="ignore"):
                    np.testing.assert_allclose(split(a, b, bias), a @ b + bias, rtol=1e-4, atol=1e-4)
                wrong[3, 20] = kept
    hold(drawn(3, 250, 200), drawn(3, 200, 130))
    hold(drawn(2, 2, 130, 200), drawn(2, 2, 250, 200).swapaxes(2, 3))


@pytest.mark.parametrize(("m", "n"), [(300, 70), (70, 300), (130, 129), (64, 33)])
def test_sums_over_many_rows_as_of_weights(m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_products, "FIT", 40)
    for inner in (769, 1000, 2048):
        x, y = drawn(inner, m), drawn(inner, n)
        hold(x.T, y)
        hold(drawn(inner, m + 9)[:, 3 : m + 3].T, drawn(inner, n + 5)[:, :n])
        for value in (np.inf, np.nan, 2.0**40):  # of the larger one or of the other, in the first slab and in the last
            for wrong in (x, y):
                for row in (5, inner - 1):
                    kept, wrong[row, 20] = wrong[row, 20], value
                    with np.errstate(invalid="ignore"):
                        np.testing.assert_allclose(split(x.T, y), x.T @ y, rtol=1e-4, atol=1e-4 * (1 if value != 2.0**40 else value))
                    wrong[row, 20] = kept
    hold(drawn(2, 3, 900, m).swapaxes(2, 3), drawn(2, 3, 900, n))


def test_rows_that_lie_apart_and_batches() -> None:
    wide = drawn(80, 200)
    hold(wide[5:45, 3:99], wide.T[100:196, :70])
    a, b = drawn(3, 40, 64), drawn(3, 64, 48)
    for left, right in (
        (a, b),
        (a.swapaxes(1, 2)[:, :40, :40], drawn(3, 40, 50)),
        (drawn(2, 3, 33, 32), drawn(2, 3, 64, 32).swapaxes(-1, -2)),
    ):
        hold(left, right)
    hold(np.broadcast_to(a[0], (3, 40, 64)), b)
    hold(drawn(2, 3, 33, 32), drawn(32, 20), drawn(20))


@pytest.mark.parametrize("shapes", [((90, 2000), (2000, 70)), ((2, 3, 150, 900), (2, 3, 900, 160))])
def test_operands_that_are_packed_part_by_part(shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (drawn(*shape) for shape in shapes)
    turned = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    large = a.copy()
    large[..., 3, 50] = np.inf
    expected = [split(*pair) for pair in ((a, b), (a, turned), (large, b))]
    for room in (1, 1 << 20, 1 << 22):
        monkeypatch.setattr(split_products, "ROOM", room)
        for left, right, wanted in zip((a, a, large), (b, turned, b), expected, strict=True):
            np.testing.assert_array_equal(split(left, right), wanted)


DATA = {
    "normal": lambda draw, shape: draw.standard_normal(shape),
    "uniform": lambda draw, shape: draw.random(shape),
    "of very different sizes": lambda draw, shape: draw.standard_normal(shape) * 10.0 ** draw.uniform(-6, 6, shape),
    "that cancel": lambda draw, shape: 1 + draw.standard_normal(shape) * 1e-4 * (-1.0) ** np.arange(shape[1]),
    "tiny": lambda draw, shape: draw.standard_normal(shape) * 2.0**-60,
    "subnormal": lambda draw, shape: draw.standard_normal(shape) * 2.0**-130,
    "large": lambda draw, shape: draw.uniform(-1, 1, shape) * 2.0**32,
}


@pytest.mark.parametrize("kind", DATA)
def test_no_less_exact_than_the_library(kind: str) -> None:
    draw = np.random.default_rng(3)
    for inner in (2, 7, 32, 150, 700, 3000):
        a = DATA[kind](draw, (64, inner)).astype(np.float32)
        b = (DATA[kind](draw, (inner, 64)) if kind != "subnormal" else draw.standard_normal((inner, 64)) * 2.0**20).astype(np.float32)
        exact = a.astype(np.float64) @ b
        size = abs(a).astype(np.float64) @ abs(b)
        errors = [abs(each - exact) / (size + 2.0**-125) for each in (split(a, b), a @ b)]  # the unit of what is subnormal is 2**-149
        few = 3 * U if inner < 64 else 0  # of so few products that sums of parts are most of the additions
        alike = 1.25 if kind == "of very different sizes" else 1.0
        assert errors[0].max() <= max(1.25 * alike * errors[1].max(), few)
        assert (errors[0] ** 2).mean() <= max((alike * errors[1] ** 2).mean(), few**2)


def test_less_precise_products_where_that_is_asked_for() -> None:
    a, b = drawn(3, 70, 300), drawn(3, 300, 90)
    exact, size = a.astype(np.float64) @ b, abs(a).astype(np.float64) @ abs(b)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    try:
        for precision, least, most in (("highest", 0.0, 2.0**-22), ("high", 0.0, 2.0**-22), ("medium", 2.0**-14, 2.0**-8)):
            torch.set_float32_matmul_precision(precision)
            for _ in range(2):
                error = (abs((x @ y).numpy() - exact) / size).max()
                assert least < error < most, precision
        torch.set_float32_matmul_precision("highest")
        wanted = x @ y
        for allowed in (True, False):
            torch.backends.cuda.matmul.allow_tf32 = allowed
            assert torch.equal(x @ y, wanted)
    finally:
        torch.set_float32_matmul_precision("highest")


def test_whole_numbers_are_exact() -> None:
    draw = np.random.default_rng(1)
    for most, inner in ((4095, 1), (500, 60), (2, 4000)):
        a, b = (draw.integers(-most, most + 1, shape) for shape in ((50, inner + 1), (inner + 1, 50)))
        a[:, 0], b[0] = 0, 0
        assert np.array_equal(split(a.astype(np.float32), b.astype(np.float32)), a @ b)
    powers = 2.0 ** np.arange(-120, 8).astype(np.float32).reshape(2, 64).repeat(32, 0)
    assert np.array_equal(split(powers, np.eye(64, dtype=np.float32)), powers)
    numbers = drawn(64, 64) * 2.0 ** np.random.default_rng(2).integers(-90, 30, (64, 64)).astype(np.float32)
    assert np.array_equal(split(numbers, np.eye(64, dtype=np.float32)), numbers)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 2.0**32])
def test_what_cannot_be_split_is_the_librarys(value: float) -> None:
    for place in range(2):
        for bias in (None, drawn(90)):
            a, b = drawn(3, 300, 70), drawn(3, 70, 90)
            (a, b)[place][1, 60, 65] = value
            with np.errstate(invalid="ignore", over="ignore"):
                expected = a @ b if bias is None else a @ b + bias
                got = split(a, b, bias)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


def test_results_do_not_depend_on_threads() -> None:
    a, b, wrong = drawn(300, 700), drawn(700, 300), []
    before = torch.get_num_threads()
    try:
        for last in (1.0, np.nan):  # the second is the library's
            a[7, 9] = last
            torch.set_num_threads(1)
            expected = split(a, b)
            torch.set_num_threads(3)
            np.testing.assert_array_equal(split(a, b), expected)
    finally:
        torch.set_num_threads(before)

    def run(_number: int) -> None:
        for _ in range(10):
            if not np.array_equal(gemm.multiply(a, b), expected, equal_nan=True):
                wrong.append(1)

    in_threads(4, run)
    assert not wrong


def test_operations_and_their_derivatives() -> None:
    values = [torch.from_numpy(drawn(*shape)) for shape in ((4, 160, 64), (96, 64), (96,), (4, 64, 160))]
    for function in (
        lambda x, w, b, y: F.linear(x, w, b),
        lambda x, w, b, y: torch.bmm(x, y),
        lambda x, w, b, y: torch.addmm(b, x[0], w.t()),
        lambda x, w, b, y: torch.addmm(x[1, :, :1], x[0], w.t(), beta=0.5, alpha=2),
        lambda x, w, b, y: torch.baddbmm(y[0, 0], x, y, alpha=-1),
        lambda x, w, b, y: torch.addbmm(y[0, 0], x, y, beta=0),
        lambda x, w, b, y: torch.mm(x[0].t(), y[1].t()) @ w.t(),
    ):
        planned.clear()
        gemm._plan.cache_clear()
        results = []
        for dtype in (torch.float32, torch.float64):
            leaves = [value.detach().to(dtype, copy=True).requires_grad_() for value in values]
            result = function(*leaves)
            result.backward(torch.ones_like(result))
            results.append([result, *(leaf.grad for leaf in leaves)])
        assert len(planned) >= 2
        for got, exact in zip(*results, strict=True):
            if exact is not None:
                torch.testing.assert_close(got, exact, rtol=1e-5, atol=1e-4, check_dtype=False)


def test_compiled_programs_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(rules, "_found", {})
    multiply = gemm.multiply
    monkeypatch.setattr(gemm, "multiply", lambda *args: calls.append(1) or multiply(*args))
    x, w = torch.from_numpy(drawn(70, 51)), torch.from_numpy(drawn(51, 80))
    much = torch.randn(1000, 300)  # beside which the packed operands are little memory
    compiled = torch.compile(lambda x: (torch.mm(x, w).relu(), torch.cumsum(torch.cumsum(much, 0), 1).sum()))
    for scale in (1.0, 2.0, 3.0, float("inf"), 1.0):
        calls.clear()
        got, _ = compiled(x * scale)
    assert not calls and planned
    assert torch.equal(got, torch.mm(x, w).relu())


def test_compiled_programs_keep_the_librarys_threads_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_found", {})
    x, w, much = torch.from_numpy(drawn(150, 513)), torch.from_numpy(drawn(513, 150)), torch.randn(1000, 300)
    x[7, 9] = float("nan")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        compiled = torch.compile(lambda x: (torch.mm(x, w).relu(), torch.cumsum(torch.cumsum(much, 0), 1).sum()))
        got = [compiled(x)[0] for _ in range(3)][-1]
        torch.set_num_threads(1)
        np.testing.assert_array_equal(got.numpy(), torch.mm(x, w).relu().numpy())
    finally:
        torch.set_num_threads(before)
