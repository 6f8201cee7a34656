"""Everyday programs: gradients, what may and what must not be changed on the way, functions with a derivative of one's own."""

from __future__ import annotations

import pytest


def test_a_backward_pass_fills_the_gradients_of_leaves(torch):
    x = torch.ones(2)
    assert not x.requires_grad
    assert x.requires_grad_() is x
    y = (x * 5).sum()
    assert x.is_leaf and x.grad_fn is None
    assert not y.is_leaf and y.grad_fn is not None
    y.backward()
    assert x.grad.tolist() == [5, 5]


def test_a_vector_needs_weights_to_go_backward(torch):
    x, y = (torch.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
    (x * y).backward(gradient=torch.tensor([10.0, 1.0]))
    assert x.grad.tolist() == [30, 4] and y.grad.tolist() == [10, 2]
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * y).backward()


def test_gradients_add_up_until_they_are_zeroed(torch):
    w = torch.zeros(2, requires_grad=True)
    for _ in range(3):
        (w * 2).sum().backward()
    assert w.grad.tolist() == [6, 6]
    w.grad.zero_()
    assert w.grad.tolist() == [0, 0]


def test_create_graph_gives_second_derivatives(torch):
    x = torch.tensor(3.0, requires_grad=True)
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.item() == 27 and second.item() == 18


def test_a_graph_can_be_walked_once_unless_it_is_retained(torch):
    x = torch.tensor(2.0, requires_grad=True)
    y = x**2
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_grad_modes_switch_recording_off_and_on(torch):
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        y = x * 2
    assert (x * 2).requires_grad
    with pytest.raises(RuntimeError, match="does not require grad"):
        y.backward()


def weight_gradient(torch, cut):
    """Gradient of ``hidden @ w`` for w, after the hidden value was overwritten through ``cut(hidden)``."""
    inputs, first = torch.tensor([[1.0, 1.0]]), torch.tensor([[4.0], [1.0]], requires_grad=True)
    w = torch.tensor([[2.0]], requires_grad=True)
    hidden = inputs @ first
    out = hidden @ w
    cut(hidden)[:] = 0
    out.sum().backward()
    return w.grad.item()


def test_writing_through_detach_is_noticed_and_through_data_is_not(torch):
    assert weight_gradient(torch, lambda hidden: hidden.clone()) == 5
    assert weight_gradient(torch, lambda hidden: hidden.data) == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        weight_gradient(torch, lambda hidden: hidden.detach())


def test_clone_copies_and_detach_leaves_the_graph(torch):
    x = torch.ones(2, requires_grad=True)
    cloned, detached, both = x.clone(), x.detach(), x.detach().clone()
    assert (cloned.requires_grad, detached.requires_grad, both.requires_grad) == (True, False, False)
    assert [t.data_ptr() == x.data_ptr() for t in (cloned, detached, both)] == [False, True, False]


def test_changing_what_backward_needs_is_an_error(torch):
    x = torch.zeros(3, requires_grad=True)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf"):
        x.mul_(2)


def test_a_hook_sees_and_replaces_a_gradient(torch):
    x, seen = torch.ones(2, requires_grad=True), []

    def hook(grad):
        seen.append(grad.tolist())
        return grad * -1

    handle = x.register_hook(hook)
    (x * 4).sum().backward()
    assert seen == [[4, 4]] and x.grad.tolist() == [-4, -4]
    handle.remove()
    (x * 4).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_a_function_of_ones_own(torch):
    class Ramp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            kept = grad.clone()
            kept[x < 0] = 0
            return kept

    x = torch.tensor([-3.0, 0.5, 2.0], requires_grad=True)
    (Ramp.apply(x) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [0, 2, 3]
    checked = torch.tensor([[-0.6, 1.2], [0.4, -2.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Ramp.apply, (checked,), eps=1e-6, atol=1e-4)


def test_a_linear_function_with_an_optional_bias(torch):
    asked = []

    class Affine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias=None):
            ctx.save_for_backward(x, weight, bias)
            product = x.mm(weight.t())
            return product if bias is None else product + bias.unsqueeze(0).expand_as(product)

        @staticmethod
        def backward(ctx, grad):
            x, weight, bias = ctx.saved_tensors
            asked.append(ctx.needs_input_grad)
            grads = [None, None, None]
            if ctx.needs_input_grad[0]:
                grads[0] = grad.mm(weight)
            if ctx.needs_input_grad[1]:
                grads[1] = grad.t().mm(x)
            if bias is not None and ctx.needs_input_grad[2]:
                grads[2] = grad.sum(0)
            return tuple(grads)

    def leaf(*shape):
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(Affine.apply, (leaf(2, 3), leaf(4, 3), leaf(4)), eps=1e-6, atol=1e-4)
    assert torch.autograd.gradcheck(Affine.apply, (leaf(2, 3), leaf(4, 3)), eps=1e-6, atol=1e-4)
    assert torch.autograd.gradgradcheck(Affine.apply, (leaf(2, 3), leaf(2, 3), leaf(2)))
    asked.clear()
    weight = leaf(4, 3)
    Affine.apply(torch.zeros(2, 3, dtype=torch.float64), weight).sum().backward()
    assert asked == [(False, True)] or asked == [(False, True, False)]
    assert weight.grad.tolist() == [[0.0] * 3] * 4


def test_two_layers_learn_by_hand_written_steps(torch):
    x, y = torch.randn(32, 20), torch.randn(32, 5)
    first, second = torch.randn(20, 30, requires_grad=True), torch.randn(30, 5, requires_grad=True)
    losses = []
    for _ in range(150):
        loss = (x.mm(first).clamp(min=0).mm(second) - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for weight in (first, second):
                weight -= 2e-5 * weight.grad
                weight.grad.zero_()
    assert losses[-1] < losses[0] / 5


def test_a_detached_value_stops_gradients_and_frozen_weights_do_not(torch):
    nn = torch.nn
    first, middle, last = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)
    x = torch.ones(2, 3)
    last(middle(first(x).detach())).sum().backward()
    assert first.weight.grad is None and middle.weight.grad is not None
    middle.requires_grad_(False)
    middle.zero_grad()
    last(middle(first(x))).sum().backward()
    assert middle.weight.grad is None and first.weight.grad is not None
