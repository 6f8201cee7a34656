"""Steps over raw arrays: bit for bit what the functions over tensors compute, and left alone where anything is unusual."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from optimizer_cases import CASES, IDS

import flambeau as torch
from flambeau.optim import _arrays

DTYPES = [np.float32, np.float64]


def arrays(rng, dtype):
    """Values of several shapes: 0-d, empty, channels-last, transposed, and one of more than one block."""
    shapes = [(), (0, 3), (7,), (3, 5), (2, 1, 3), (37, 29)]
    listed = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    listed.append(rng.standard_normal((2, 5, 4, 3)).astype(dtype).transpose(0, 3, 1, 2))
    listed.append(rng.standard_normal((6, 4)).astype(dtype).T)
    return listed


def strided(array):
    """A tensor with the array's own strides."""
    clone = torch.empty_strided(array.shape, [step // array.itemsize for step in array.strides], dtype=torch.from_numpy(array.copy()).dtype)
    return clone.copy_(torch.from_numpy(array.copy(order="C")))


def optimizer_of(name, options, values):
    params = [torch.nn.Parameter(strided(value)) for value in values]
    half = len(params) // 2
    return getattr(torch.optim, name)([{"params": params[:half]}, {"params": params[half:], "lr": 0.05}], **options)


def params_of(optimizer):
    return [param for group in optimizer.param_groups for param in group["params"]]


def general(optimizer):
    optimizer._update_arrays = lambda group: False
    return optimizer


def recording(optimizer):
    """The optimizer, and a list that receives whether each group went through arrays."""
    taken = []
    usual = optimizer._update_arrays

    def update(group):
        taken.append(usual(group))
        return taken[-1]

    optimizer._update_arrays = update
    return optimizer, taken


def assert_same(one, other):
    for a, b in zip(params_of(one), params_of(other), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        assert a.stride() == b.stride()
        assert one.state.get(a, {}).keys() == other.state.get(b, {}).keys()
        for name, value in one.state.get(a, {}).items():
            entry = other.state[b][name]
            assert value.dtype is entry.dtype and value.stride() == entry.stride()
            np.testing.assert_array_equal(value.numpy(), entry.numpy(), err_msg=name)


def set_grads(rng, optimizers, absent=()):
    for i, params in enumerate(zip(*map(params_of, optimizers), strict=True)):
        value = rng.standard_normal(params[0].shape).astype(params[0].detach().numpy().dtype)
        if i % 3 == 1:  # a gradient laid out otherwise than its parameter
            value = value.copy(order="F")
        for param in params:
            param.grad = None if i in absent else strided(value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("block", [16, 1 << 15])
def test_arrays_step_as_tensors_do(name, options, dtype, block, monkeypatch):
    monkeypatch.setattr(_arrays, "BLOCK", block)
    rng = np.random.default_rng(len(name))
    values = arrays(rng, dtype)
    usual, taken = recording(optimizer_of(name, options, values))
    plain = general(optimizer_of(name, options, values))
    for step in range(5):
        set_grads(rng, (usual, plain), absent=(4,) if step % 2 else ())
        usual.step()
        plain.step()
        assert_same(usual, plain)
    assert all(taken[:2]) or name != "Adagrad"
    # The first steps of the others make the state, and large momentum buffers laid out otherwise than their parameter stay with tensors.
    assert all(taken[-4:]) or (name == "SGD" and block == 16)


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_extreme_gradients_step_as_tensors_do(name, options):
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(12).astype(np.float32), rng.standard_normal(3).astype(np.float32)]
    usual, plain = optimizer_of(name, options, values), general(optimizer_of(name, options, values))
    set_grads(rng, (usual, plain))
    for _ in range(3):
        for optimizer in (usual, plain):
            params_of(optimizer)[0].grad.copy_(
                torch.tensor([0.0, -0.0, 1e-45, 1e-38, 3e38, -3e38, 1e20, float("inf"), float("-inf"), float("nan"), 1.0, 2.0])
            )
        with np.errstate(all="raise"):
            usual.step()
        plain.step()
        assert_same(usual, plain)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_lr_tensor_steps_as_tensors_do(name):
    rng = np.random.default_rng(2)
    values = arrays(rng, np.float32)
    usual = optimizer_of(name, {"lr": torch.tensor(0.013)}, values)
    plain = general(optimizer_of(name, {"lr": torch.tensor(0.013)}, values))
    usual, taken = recording(usual)
    for _ in range(3):
        for optimizer in (usual, plain):
            for group in optimizer.param_groups:
                group["lr"] = torch.tensor(0.013)
        set_grads(rng, (usual, plain))
        usual.step()
        plain.step()
        assert_same(usual, plain)
    assert all(taken[-2:])


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.complex64])
def test_unusual_dtypes_go_through_tensors(name, kind):
    param = torch.nn.Parameter(torch.ones(3, dtype=kind))
    optimizer, taken = recording(getattr(torch.optim, name)([param], lr=0.1))
    for _ in range(2):
        param.grad = torch.ones(3, dtype=kind)
        optimizer.step()
    assert not any(taken)
    assert not torch.equal(param.detach(), torch.ones(3, dtype=kind))


def momentum_sgd(size=3):
    param = torch.nn.Parameter(torch.zeros(size))
    optimizer, taken = recording(torch.optim.SGD([param], lr=1.0, momentum=0.5))
    return param, optimizer, taken


def stepped(param, optimizer, value=1.0):
    param.grad = torch.full(param.shape, value)
    optimizer.step()


def test_replaced_data_is_what_is_stepped():
    param, optimizer, _ = momentum_sgd()
    stepped(param, optimizer)
    stepped(param, optimizer)
    param.data = torch.full((3,), 10.0)
    stepped(param, optimizer)
    assert param.tolist() == [10 - 1.75] * 3


def test_replaced_state_is_what_is_stepped():
    param, optimizer, taken = momentum_sgd()
    stepped(param, optimizer)
    stepped(param, optimizer)
    optimizer.state[param]["momentum_buffer"] = torch.full((3,), 4.0)
    stepped(param, optimizer)
    assert param.tolist() == [-1 - 1.5 - 3] * 3
    assert taken == [False, True, True]


def test_loaded_state_is_what_is_stepped():
    param, optimizer, _ = momentum_sgd()
    stepped(param, optimizer)
    saved = copy.deepcopy(optimizer.state_dict())
    stepped(param, optimizer)
    optimizer.load_state_dict(saved)
    stepped(param, optimizer)
    assert param.tolist() == [-1 - 1.5 - 1.5] * 3


def test_switching_momentum_on_and_off_between_steps():
    param, optimizer, _ = momentum_sgd()
    group = optimizer.param_groups[0]
    stepped(param, optimizer)
    stepped(param, optimizer)  # buffer 1.5
    group["momentum"] = 0
    stepped(param, optimizer)
    assert optimizer.state[param]["momentum_buffer"].tolist() == [1.5] * 3
    group["momentum"] = 0.5
    stepped(param, optimizer)
    assert param.tolist() == [-1 - 1.5 - 1 - 1.75] * 3


def test_added_and_removed_parameters_are_followed():
    param, optimizer, _ = momentum_sgd()
    stepped(param, optimizer)
    larger = torch.nn.Parameter(torch.zeros(50, 2))
    optimizer.add_param_group({"params": [larger]})
    for _ in range(3):
        larger.grad = torch.ones(50, 2)
        stepped(param, optimizer)
    assert larger[0, 0].item() == -1 - 1.5 - 1.75
    del optimizer.param_groups[0]
    before = param.tolist()
    optimizer.step()
    assert param.tolist() == before


def test_a_step_counts_as_a_write_to_parameter_and_state():
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([param])
    stepped(param, optimizer)
    state = optimizer.state[param]
    before = [tensor._version for tensor in (param, *state.values())]
    stepped(param, optimizer)
    assert [tensor._version for tensor in (param, *state.values())] == [version + 1 for version in before]


def test_backward_through_a_stepped_parameter_is_refused():
    param, optimizer, _ = momentum_sgd()
    stepped(param, optimizer)
    loss = (param * param).sum()
    stepped(param, optimizer)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_views_of_a_parameter_see_the_step():
    param, optimizer, _ = momentum_sgd()
    alias = param.detach()
    stepped(param, optimizer)
    stepped(param, optimizer)
    assert alias.tolist() == param.tolist() == [-2.5] * 3


def test_gradient_that_is_the_parameter_itself():
    values = [np.arange(1, 4, dtype=np.float32)]
    usual, plain = optimizer_of("AdamW", {}, values), general(optimizer_of("AdamW", {}, values))
    for _ in range(3):
        for optimizer in (usual, plain):
            (param,) = params_of(optimizer)
            param.grad = param.detach()
            optimizer.step()
    assert_same(usual, plain)


def test_copies_of_an_optimizer_do_not_share_scratch_or_plans():
    param, optimizer, _ = momentum_sgd()
    del optimizer._update_arrays  # a closure cannot be copied
    stepped(param, optimizer)
    stepped(param, optimizer)
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (other,) = params_of(copied)
        stepped(other, copied)
        assert other.tolist() == [-1 - 1.5 - 1.75] * 3
        assert param.tolist() == [-2.5] * 3


def test_subclasses_go_through_tensors():
    class Counting(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return super().__torch_function__(func, types, args, kwargs)

    param = torch.zeros(2).as_subclass(Counting).requires_grad_()
    optimizer = torch.optim.SGD([param], lr=1.0)
    param.grad = torch.ones(2).as_subclass(Counting)
    Counting.calls = 0
    optimizer.step()
    assert Counting.calls > 0


def test_zero_grad_forgets_and_zeroes():
    param = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([param], lr=1.0)
    optimizer.zero_grad()
    assert param.grad is None
    param.grad = torch.ones(2)
    grad = param.grad
    optimizer.zero_grad(set_to_none=False)
    assert param.grad is grad and grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert param.grad is None
    assert grad.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_grad_mode_is_restored_after_a_failing_closure(name):
    param = torch.nn.Parameter(torch.ones(2))
    optimizer = getattr(torch.optim, name)([param], lr=1.0)

    def closure():
        assert torch.is_grad_enabled()
        raise KeyError("stop")

    with pytest.raises(KeyError):
        optimizer.step(closure)
    assert torch.is_grad_enabled()
    with torch.no_grad():
        optimizer.step()
        assert not torch.is_grad_enabled()
