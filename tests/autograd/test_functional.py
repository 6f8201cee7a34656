"""Jacobians, Hessians and products with them."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.autograd import functional as AF


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0])


@pytest.fixture
def w():
    return torch.tensor([3.0, 4.0])


def cube(x):
    return (x**3).sum()


def test_jacobian_of_one_input_and_one_output(x):
    assert AF.jacobian(lambda v: v * v, x).tolist() == [[2, 0], [0, 4]]
    assert AF.jacobian(lambda v: v.sum(), x).tolist() == [1, 1]


def test_jacobian_of_tuples(x, w):
    rows = AF.jacobian(lambda a, b: (a * b, a.sum()), (x, w))
    assert [[block.tolist() for block in row] for row in rows] == [[[[3, 0], [0, 4]], [[1, 0], [0, 2]]], [[1, 1], [0, 0]]]
    assert isinstance(AF.jacobian(lambda a, b: a * b, (x, w)), tuple)


def test_hessian(x, w):
    assert AF.hessian(cube, x).tolist() == [[6, 0], [0, 12]]
    rows = AF.hessian(lambda a, b: (a * b * b).sum(), (x, w))
    assert rows[0][1].tolist() == [[6, 0], [0, 8]] and rows[1][1].tolist() == [[2, 0], [0, 4]] and rows[0][0].tolist() == [[0, 0], [0, 0]]


def test_vector_products_agree_with_the_matrices(x):
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def compute(v):
        return (matrix @ v) ** 2

    jacobian = AF.jacobian(compute, x)
    v, u = torch.tensor([1.0, -1.0, 2.0]), torch.tensor([2.0, -3.0])
    output, product = AF.vjp(compute, x, v)
    assert torch.allclose(product, v @ jacobian) and torch.equal(output, compute(x))
    output, product = AF.jvp(compute, x, u)
    assert torch.allclose(product, jacobian @ u)
    hessian = AF.hessian(lambda v: compute(v).sum(), x)
    assert torch.allclose(AF.hvp(lambda v: compute(v).sum(), x, u)[1], hessian @ u)
    assert torch.allclose(AF.vhp(lambda v: compute(v).sum(), x, u)[1], u @ hessian)


def test_results_are_detached_unless_a_graph_is_asked_for(x):
    x.requires_grad_()
    assert not AF.jacobian(lambda v: v**3, x).requires_grad
    jacobian = AF.jacobian(lambda v: v**3, x, create_graph=True)
    (g,) = torch.autograd.grad(jacobian.sum(), x)
    assert g.tolist() == [6, 12]
    for product in (AF.vjp, AF.jvp):
        output, result = product(lambda v: v**3, x, torch.ones(2), create_graph=True)
        assert output.requires_grad and torch.autograd.grad(result.sum(), x)[0].tolist() == [6, 12]
    for product in (AF.hvp, AF.vhp):
        _, result = product(cube, x, torch.ones(2), create_graph=True)
        assert torch.autograd.grad(result.sum(), x)[0].tolist() == [6, 6]


def test_without_grad_mode(x):
    with torch.no_grad():
        assert AF.jacobian(lambda v: v * v, x).tolist() == [[2, 0], [0, 4]]
        assert AF.hvp(cube, x, torch.ones(2))[1].tolist() == [6, 12]


def test_vector_may_be_left_out_for_one_element():
    one = torch.tensor([2.0])
    assert AF.vjp(lambda v: v * v, one)[1].tolist() == [4]
    assert AF.jvp(lambda v: v * v, one)[1].tolist() == [4]
    assert AF.hvp(cube, one)[1].tolist() == [12]
    with pytest.raises(RuntimeError, match="v can only be None"):
        AF.vjp(lambda v: v * v, torch.ones(2))
    with pytest.raises(RuntimeError, match="v can only be None"):
        AF.jvp(lambda v: v * v, torch.ones(2))


def test_independent_inputs_give_zeros_or_errors(x, w):
    assert [block.tolist() for block in AF.jacobian(lambda a, b: a * 2, (x, w))] == [[[2, 0], [0, 2]], [[0, 0], [0, 0]]]
    with pytest.raises(RuntimeError, match="independent of input 1"):
        AF.jacobian(lambda a, b: a * 2, (x, w), strict=True)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        AF.vjp(lambda a: a.detach(), x, torch.ones(2), strict=True)
    assert AF.vjp(lambda a: a.detach(), x, torch.ones(2))[1].tolist() == [0, 0]
    assert AF.hvp(lambda a: a.sum(), x, torch.ones(2))[1].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="strict mode"):
        AF.hvp(lambda a: a.sum(), x, torch.ones(2), strict=True)


def test_wrong_arguments(x):
    with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
        AF.jacobian(lambda a: a, [x])
    with pytest.raises(TypeError, match="outputs"):
        AF.jacobian(lambda a: 3, x)
    with pytest.raises(RuntimeError, match="invalid size"):
        AF.vjp(lambda a: a * 2, x, torch.ones(3))
    with pytest.raises(RuntimeError, match="invalid length"):
        AF.vjp(lambda a: (a, a), x, (torch.ones(2),))
    with pytest.raises(RuntimeError, match="single element"):
        AF.hessian(lambda a: a * 2, x)
    with pytest.raises(RuntimeError, match="single Tensor"):
        AF.hvp(lambda a: (a.sum(), a.sum()), x, x)
