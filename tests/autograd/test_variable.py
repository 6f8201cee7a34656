"""Old names: ``Variable``, ``volatile``, ``creator``."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.autograd.gradcheck
import flambeau.autograd.variable
from flambeau.autograd import Variable


def test_variable_is_a_tensor():
    data = torch.ones(2)
    v = Variable(data, requires_grad=True)
    assert type(v) is torch.Tensor and v.requires_grad and v.is_leaf and not data.requires_grad
    v.data.add_(1)
    assert data.tolist() == [2, 2]
    assert isinstance(data, Variable) and not isinstance(3, Variable)
    assert flambeau.autograd.variable.Variable is Variable is torch.autograd.Variable


def test_variable_leaves_the_graph():
    x = torch.ones(2, requires_grad=True)
    assert Variable(x * 2).grad_fn is None


def test_variable_rejects_other_things():
    with pytest.raises(TypeError, match="Variable data has to be a tensor"):
        Variable([1.0])
    with pytest.raises(RuntimeError):
        Variable(torch.ones(1, dtype=torch.int64), requires_grad=True)
    assert Variable().numel() == 0


def test_volatile_warns_and_does_nothing():
    with pytest.warns(UserWarning, match="volatile was removed"):
        v = Variable(torch.ones(1), volatile=True)
    with pytest.warns(UserWarning, match="volatile was removed"):
        assert v.volatile is False
    with pytest.warns(UserWarning, match="volatile was removed"):
        v.volatile = True
    w = torch.ones(1, requires_grad=True)
    assert (v * w).requires_grad
    with pytest.raises(ValueError):
        Variable(torch.ones(1), volatile=True, requires_grad=True)


def test_creator_is_grad_fn():
    y = torch.ones(1, requires_grad=True) * 2
    with pytest.warns(FutureWarning, match="grad_fn"):
        assert y.creator is y.grad_fn


def test_gradcheck_is_function_and_module():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: v * v, x)
    assert torch.autograd.gradcheck.gradcheck(lambda v: v * v, x)
    assert torch.autograd.gradcheck.gradgradcheck(lambda v: v * v, x)
