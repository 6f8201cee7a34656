"""Steps by one launch over all tensors: bit for bit what the passes over arrays compute."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from optimizer_cases import CASES, IDS

import flambeau as torch
from flambeau.core.arrays import native
from flambeau.kernels.compiler.build import GENERATORS
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families import optimizer as native_optimizer
from flambeau.optim import _arrays, _stepping
from flambeau.optim.elementwise import ElementwiseOptimizer

from .guard import guarded

SHAPES = [(), (0, 3), (1,), (7,), (3, 5), (37, 29), (2, 4, 5, 3), (70001,), (16,), (8192,)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Kernels from the first step on, and no machine code, which makes steps without being asked."""
    monkeypatch.setattr(_arrays.update.part.budget, "is_spent", True)
    monkeypatch.setattr(_stepping, "found", [])


@pytest.fixture
def launches(monkeypatch):
    """The number of tensors of each step that a kernel has taken."""
    taken = []
    usual = native_optimizer.step

    def step(form, rows, numbers):
        done = usual(form, rows, numbers)
        if done:
            taken.append(len(rows))
        return done

    native.find("optim.step")
    monkeypatch.setitem(native._found, "optim.step", step)
    return taken


def optimizer_of(name, options, arrays):
    params = [torch.nn.Parameter(torch.from_numpy(array.copy())) for array in arrays]
    return getattr(torch.optim, name)(params, **options)


def params_of(optimizer):
    return [param for group in optimizer.param_groups for param in group["params"]]


def run(optimizer, slopes):
    for step in slopes:
        for param, slope in zip(params_of(optimizer), step, strict=True):
            param.grad = None if slope is None else torch.from_numpy(slope.copy())
        optimizer.step()


def values_of(optimizer):
    values = [param.detach().numpy() for param in params_of(optimizer)]
    for param in params_of(optimizer):
        values += [entry.numpy() for entry in optimizer.state.get(param, {}).values() if isinstance(entry, torch.Tensor)]
    return values


def assert_same(one, other):
    for mine, reference in zip(values_of(one), values_of(other), strict=True):
        np.testing.assert_array_equal(mine, reference)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_launch_equals_passes(name, options, dtype, launches):
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]
    slopes = [[rng.standard_normal(shape).astype(dtype) for shape in SHAPES] for _ in range(4)]
    slopes[1][3] = None  # the counters differ from here on
    slopes[2][5][:3] = [np.nan], [np.inf], [1e30]
    one, other = optimizer_of(name, options, arrays), optimizer_of(name, options, arrays)
    run(one, slopes)
    with native.disabled():
        run(other, slopes)
    assert_same(one, other)
    assert launches[-2:] == [len(SHAPES), len(SHAPES)]


@settings(max_examples=25, deadline=None)
@given(
    case=st.sampled_from(CASES),
    sizes=st.lists(st.integers(0, 40000), min_size=1, max_size=6),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 1000),
)
def test_any_sizes(case, sizes, dtype, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(size).astype(dtype) for size in sizes]
    slopes = [[rng.standard_normal(size).astype(dtype) for size in sizes] for _ in range(3)]
    one, other = optimizer_of(*case, arrays), optimizer_of(*case, arrays)
    run(one, slopes)
    with native.disabled():
        run(other, slopes)
    assert_same(one, other)


KINDS = [getattr(torch.optim, name) for name in torch.optim.__all__ if name[0].isupper()]
ELEMENTWISE = [kind.__name__ for kind in KINDS if issubclass(kind, ElementwiseOptimizer)]


def test_every_elementwise_optimizer_has_its_cases():
    assert len(ELEMENTWISE) >= 11 and set(ELEMENTWISE) == {name for name, _ in CASES}


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_a_step_of_large_parameters_is_one_launch(name, options, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(size).astype(np.float32) for size in (8192, 100, 20000)]
    slopes = [[rng.standard_normal(array.size).astype(np.float32) for array in arrays] for _ in range(9)]
    optimizer = optimizer_of(name, options, arrays)
    run(optimizer, slopes[:1])  # makes the state
    launched = []
    usual = pool.launch
    monkeypatch.setattr(pool, "launch", lambda *arguments: launched.append(1) or usual(*arguments))
    for count, step in enumerate(slopes[1:], 1):
        run(optimizer, [step])
        assert len(launched) == count


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_numbers_change_without_a_new_kernel(name, options):
    built = GENERATORS[native_optimizer.optimizer_step.generator]
    optimizer = optimizer_of(name, options, [np.ones(9, np.float32)])
    (group,) = optimizer.param_groups
    run(optimizer, [[np.ones(9, np.float32)]] * 8)
    before = len(built)
    for step in range(4):
        group["lr"] = 0.01 * (step + 1)
        for key in ("betas", "etas"):
            if key in group:
                group[key] = tuple(number * (1 - 1e-3 * step) for number in group[key])
        for key in ("alpha", "rho", "momentum", "weight_decay", "eps"):
            if group.get(key):
                group[key] *= 0.9
        run(optimizer, [[np.full(9, 0.5, np.float32)]])
    assert len(built) == before


def layouts(rng, dtype):
    """Pairs of a parameter and a gradient, dense and otherwise."""
    wide = rng.standard_normal((2, 5, 40, 30)).astype(dtype)
    yield wide, rng.standard_normal(wide.shape).astype(dtype)
    yield wide.transpose(0, 3, 1, 2), rng.standard_normal((2, 5, 40, 30)).astype(dtype).transpose(0, 3, 1, 2)  # channels last
    yield wide.transpose(3, 2, 1, 0), rng.standard_normal((30, 40, 5, 2)).astype(dtype)
    yield wide, np.broadcast_to(rng.standard_normal((5, 40, 1)).astype(dtype), wide.shape)
    yield wide, rng.standard_normal((2, 5, 40, 60)).astype(dtype)[..., ::2]
    yield wide[:, ::2], rng.standard_normal((2, 3, 40, 30)).astype(dtype)
    yield wide[:0], rng.standard_normal((0, 5, 40, 30)).astype(dtype)
    yield wide[0, 0, 0, 0], rng.standard_normal(()).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_kernel_equals_tensors_in_every_layout(name, options, dtype):
    rng = np.random.default_rng(7)
    pairs = list(layouts(rng, dtype))
    runs = []
    for by_tensors in (False, True):
        params = [torch.nn.Parameter(laid_out(param)) for param, _ in pairs]
        optimizers = [getattr(torch.optim, name)([param], **options) for param in params]
        for step in range(4):
            for (_, grad), param, optimizer in zip(pairs, params, optimizers, strict=True):
                param.grad = laid_out(grad * dtype(1 - 0.7 * step))
                if by_tensors:
                    optimizer._update_arrays = lambda group: False
                optimizer.step()
        runs.append([values_of(optimizer) for optimizer in optimizers])
    for mine, reference in zip(*runs, strict=True):
        for one, other in zip(mine, reference, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.strides == other.strides


def laid_out(array):
    """A tensor with the array's values and strides, in memory of its own."""
    room = np.zeros(sum((n - 1) * abs(s) for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize + 1, array.dtype)
    result = np.lib.stride_tricks.as_strided(room, array.shape, array.strides)
    if array.size:
        result[...] = array
    return torch.from_numpy(result)


def test_threads_do_not_matter():
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(size).astype(np.float32) for size in (300000, 5, 70000)]
    slopes = [[rng.standard_normal(array.size).astype(np.float32) for array in arrays] for _ in range(3)]
    one, other = optimizer_of("AdamW", {}, arrays), optimizer_of("AdamW", {}, arrays)
    before = pool.threads
    try:
        pool.set_threads(1)
        run(one, slopes)
        pool.set_threads(2)
        run(other, slopes)
    finally:
        pool.set_threads(before)
    assert_same(one, other)


def test_learning_rate_changes_without_a_new_kernel(launches):
    optimizer = optimizer_of("SGD", {"lr": 1.0}, [np.zeros(9, np.float32)])
    for lr in (1.0, 0.5, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        run(optimizer, [[np.ones(9, np.float32)]])
    assert params_of(optimizer)[0].tolist() == [-1.75] * 9
    assert launches == [1, 1, 1]


def test_writes_are_counted(launches):
    optimizer = optimizer_of("Adam", {}, [np.ones(9, np.float32), np.ones(3, np.float32)])
    run(optimizer, [[np.ones(9, np.float32), np.ones(3, np.float32)]])
    tensors = [*params_of(optimizer), *(entry for state in optimizer.state.values() for entry in state.values())]
    before = [tensor._version for tensor in tensors]
    run(optimizer, [[np.ones(9, np.float32), np.ones(3, np.float32)]])
    assert [tensor._version for tensor in tensors] == [version + 1 for version in before]
    assert launches == [2]


def test_replaced_arrays_are_noticed(launches):
    optimizer = optimizer_of("SGD", {"lr": 1.0, "momentum": 0.5}, [np.zeros(9, np.float32), np.zeros(3, np.float32)])
    slopes = [[np.ones(9, np.float32), np.ones(3, np.float32)]]
    run(optimizer, slopes * 2)
    first, second = params_of(optimizer)
    first.data = torch.full((9,), 10.0)
    optimizer.state[second]["momentum_buffer"] = torch.full((3,), 4.0)
    run(optimizer, slopes)
    assert first.tolist() == [10.0 - (0.5 * 1.5 + 1)] * 9
    assert second.tolist() == [-1.0 - 1.5 - 3.0] * 3
    loaded = optimizer_of("SGD", {"lr": 1.0, "momentum": 0.5}, [first.detach().numpy(), second.detach().numpy()])
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    run(optimizer, slopes)
    run(loaded, slopes)
    assert_same(optimizer, loaded)
    assert len(launches) >= 3


def test_other_layouts(launches):
    rng = np.random.default_rng(0)
    value, slope = rng.standard_normal((40, 30)).astype(np.float32), rng.standard_normal((40, 30)).astype(np.float32)
    arrays = []
    for param, grad in [(value, slope), (value.T.copy().T, slope), (value.T.copy().T, slope.T.copy().T), (value, slope.T.copy().T)]:
        param = torch.nn.Parameter(torch.from_numpy(param.copy(order="K")))
        optimizer = torch.optim.AdamW([param])
        for _ in range(3):
            param.grad = torch.from_numpy(grad)
            optimizer.step()
        arrays.append(param.detach().numpy().copy())
    assert all(np.array_equal(array, arrays[0]) for array in arrays)
    assert len(launches) == 4  # the first of three steps makes the state, and unlike layouts are left to the passes


def test_overlapping_parameters_are_updated_one_after_the_other(launches):
    base = torch.zeros(12)
    params = [torch.nn.Parameter(base[:8]), torch.nn.Parameter(base[4:])]
    optimizer = torch.optim.SGD(params, lr=1.0)
    for param in params:
        param.grad = torch.ones(8)
    optimizer.step()
    assert base.tolist() == [-1.0] * 4 + [-2.0] * 4 + [-1.0] * 4
    assert launches == []


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_access_outside(dtype, end, launches):
    sizes = (1, 7, 16, 37, 8191, 8193)
    params = [torch.nn.Parameter(torch.from_numpy(guarded(np.ones(size, dtype), end=end))) for size in sizes]
    optimizer = torch.optim.AdamW(params, amsgrad=True)
    for _ in range(2):
        for param, size in zip(params, sizes, strict=True):
            param.grad = torch.from_numpy(guarded(np.ones(size, dtype), end=end))
        optimizer.step()
    assert launches == [len(sizes)]
    assert all(param.detach().numpy().std() < 1e-6 for param in params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_clipping_equals_the_reference(dtype, max_norm):
    rng = np.random.default_rng(5)
    slopes = [rng.standard_normal(shape).astype(dtype) for shape in SHAPES]
    runs = []
    for kernels in (True, False):
        params = [torch.nn.Parameter(torch.zeros(shape, dtype=getattr(torch, np.dtype(dtype).name))) for shape in SHAPES]
        for param, slope in zip(params, slopes, strict=True):
            param.grad = torch.from_numpy(slope.copy())
        versions = [param.grad._version for param in params]
        if kernels:
            total = torch.nn.utils.clip_grad_norm_(params, max_norm)
        else:
            with native.disabled():
                total = torch.nn.utils.clip_grad_norm_(params, max_norm)
        assert [param.grad._version for param in params] == [version + 1 for version in versions]
        assert total.dtype is params[0].dtype and total.shape == ()
        runs.append([total.numpy(), *(param.grad.numpy() for param in params)])
    for mine, reference in zip(*runs, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=4 * np.finfo(dtype).eps)


def test_norms_of_long_arrays_are_exact_to_the_last_digit():
    x = np.random.default_rng(2).standard_normal(1_000_003).astype(np.float32)
    norm = torch.nn.utils.get_total_norm([torch.from_numpy(x)]).item()
    assert abs(norm - np.linalg.norm(x.astype(np.float64))) <= norm * 2.0**-24


def test_gradients_that_share_memory_are_scaled_one_after_the_other():
    params = [torch.nn.Parameter(torch.zeros(9000)), torch.nn.Parameter(torch.zeros(9000))]
    params[0].grad = params[1].grad = torch.ones(9000)
    total = torch.nn.utils.clip_grad_norm_(params, 1.0)
    factor = 1.0 / (total + 1e-6)
    assert torch.equal(params[0].grad, torch.ones(9000) * factor * factor)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_clipping_by_a_norm_that_is_not_finite(value):
    param = torch.nn.Parameter(torch.zeros(9000))
    param.grad = torch.ones(9000)
    param.grad[3] = value
    total = torch.nn.utils.clip_grad_norm_([param], 1.0)
    assert not torch.isfinite(total)
    assert param.grad.isnan().all() if np.isnan(value) else param.grad.isnan().sum() == 1
    with pytest.raises(RuntimeError, match="non-finite"):
        torch.nn.utils.clip_grad_norm_([param], 1.0, error_if_nonfinite=True)
