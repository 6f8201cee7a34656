"""Products of bfloat16 by the processor's own instructions, beside float64; and what operations make of them."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.core.arrays import native

pytest.importorskip("llvmlite")
from flambeau.capture import rules
from flambeau.kernels.families import narrow_products
from tests.helpers.threads import in_threads

FORMS = {"tiles": ("tiles", "pairs"), "pairs": ("pairs",)}.get(narrow_products.instructions(), ())
pytestmark = pytest.mark.skipif(not FORMS, reason="this class of processors has no instructions for bfloat16")
NARROW = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(params=FORMS, autouse=True)
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(narrow_products, "instructions", lambda: request.param)
    narrow_products._plan.cache_clear()
    yield
    narrow_products._plan.cache_clear()


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(NARROW)


def hold(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> bool:
    """Whether there is a kernel for these operands; it is exact to what its module states."""
    got = narrow_products.multiply(a, b, bias, 0)
    if got is None:
        return False
    left, right = a.astype(np.float64), b.astype(np.float64)
    exact = left @ right + (0 if bias is None else bias.astype(np.float64))
    sums = a.shape[-1] * 2.0**-24 * (abs(left) @ abs(right)) + 2.0**-24 * abs(exact)
    assert got.dtype == NARROW and got.shape == exact.shape
    assert (abs(got.astype(np.float64) - exact) <= sums + 2.0**-8 * (abs(exact) + sums)).all()
    return True


@pytest.mark.parametrize("m", [2, 13, 31, 32, 33, 70, 300])
def test_sizes_around_tiles_and_panels(m: int) -> None:
    for inner in (1, 2, 31, 32, 34, 96, 100):
        for n in (1, 15, 32, 33, 70):
            a, b, bias = drawn(m, inner), drawn(inner, n), drawn(n)
            assert hold(a, b) and hold(a, b, bias) and hold(np.asfortranarray(a), b, bias)
            turned = np.asfortranarray(b)
            assert hold(a, turned, bias)


@pytest.mark.parametrize(("m", "inner", "n"), [(40, 1100, 40), (33, 1024, 64), (600, 64, 40), (100, 513, 300)])
def test_long_sums_and_several_parts(m: int, inner: int, n: int) -> None:
    assert hold(drawn(m, inner), drawn(inner, n), drawn(n))


def test_batches() -> None:
    a, b = drawn(3, 40, 64), drawn(3, 64, 48)
    odd = drawn(2, 64, 48, 3).transpose(3, 1, 2, 0)[..., 0]
    for left, right in ((a, b), (a[::-1], b), (a, odd), (a.transpose(0, 2, 1)[:, :48], drawn(3, 40, 50))):
        assert hold(left, right)
    assert hold(drawn(2, 3, 33, 32), drawn(2, 3, 64, 32).swapaxes(-1, -2))
    assert hold(drawn(2, 3, 33, 32), drawn(32, 20))
    assert hold(np.broadcast_to(drawn(40, 64), (3, 40, 64)), b)


def test_what_is_not_finite_stays_where_it_is() -> None:
    a, b = drawn(40, 33), drawn(33, 40)
    a[3, 32], b[0, 7] = np.inf, np.nan
    got = narrow_products.multiply(a, b, None, 0).astype(np.float32)
    assert np.isnan(got[:, 7]).all() and (np.isinf(got[3]) | np.isnan(got[3])).all()
    assert np.isfinite(np.delete(np.delete(got, 3, 0), 7, 1)).all()


def test_threads_have_tiles_of_their_own() -> None:
    a, b, wrong = drawn(128, 128), drawn(128, 128), []
    expected = narrow_products.multiply(a, b)

    def run(_number: int) -> None:
        for _ in range(50):
            if not np.array_equal(narrow_products.multiply(a, b), expected):
                wrong.append(1)

    in_threads(4, run)
    assert not wrong


@pytest.mark.skipif(not native.switch.on, reason="kernels are off")
def test_operations_and_their_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    multiply = narrow_products.multiply
    monkeypatch.setattr(narrow_products, "multiply", lambda *args: calls.append(1) or multiply(*args))
    x, w, bias = (torch.from_numpy(drawn(*shape).astype(np.float32)).bfloat16() for shape in ((8, 40, 64), (96, 64), (96,)))
    first, second = (torch.from_numpy(drawn(4, *shape).astype(np.float32)).bfloat16() for shape in ((50, 64), (64, 70)))
    functions = [
        lambda: F.linear(x, w, bias),
        lambda: x @ w.t(),
        lambda: torch.mm(x[0], w.t()),
        lambda: torch.addmm(bias, x.flatten(0, 1), w.t()),
        lambda: torch.bmm(first, second),
        lambda: torch.matmul(first, second),
    ]
    for function in functions:
        calls.clear()
        operands = [each.detach().requires_grad_() for each in (x, w, bias, first, second)]
        x, w, bias, first, second = operands
        got = function()
        weights = torch.randn(got.shape)
        got.backward(weights.bfloat16())
        assert len(calls) == 3 and got.dtype is torch.bfloat16
        gradients = [each.grad for each in operands]
        x, w, bias, first, second = wide = [each.detach().float().requires_grad_() for each in operands]
        exact = function()
        exact.backward(weights.bfloat16().float())
        torch.testing.assert_close(got, exact, rtol=2**-7, atol=1e-2, check_dtype=False)
        for grad, other in zip(gradients, [each.grad for each in wide], strict=True):
            if other is not None:
                torch.testing.assert_close(grad, other, rtol=2**-6, atol=2e-2, check_dtype=False)
        x, w, bias, first, second = (each.detach().bfloat16() for each in wide)


def test_autocast_uses_them() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32))
    x = torch.randn(100, 64)
    with torch.autocast("cpu"):
        narrow = model(x)
    assert narrow.dtype is torch.bfloat16
    torch.testing.assert_close(narrow.float(), model(x), rtol=2**-5, atol=2e-2)


@pytest.mark.skipif(not native.switch.on, reason="kernels are off")
@pytest.mark.parametrize(("inner", "has_copy"), [(64, False), (51, True)])
def test_compiled_programs_use_them(inner: int, has_copy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    multiply = narrow_products.multiply
    monkeypatch.setattr(narrow_products, "multiply", lambda *args: calls.append(1) or multiply(*args))
    x, w = (torch.from_numpy(drawn(*shape).astype(np.float32)).bfloat16() for shape in ((70, inner), (inner, 80)))
    monkeypatch.setattr(rules, "_found", {})
    compiled = torch.compile(lambda: torch.mm(x, w).relu())
    for _ in range(4):
        calls.clear()
        got = compiled()
    assert len(calls) == has_copy  # a copy with zeros around it is not made by launches alone
    assert torch.equal(got, torch.mm(x, w).relu())
