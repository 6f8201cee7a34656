"""Reference counting alone frees graphs; depth costs no recursion."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau as torch


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


PROGRAMS = {
    "arithmetic": lambda x: (x * x + x).sum(),
    "saved result": lambda x: x.exp().sum(),
    "views": lambda x: (x * 1).view(4)[1:].sum(),
    "several views": lambda x: sum(view.sum() for view in (x * 1).unbind(0)),
    "in place": lambda x: (x * 1).mul_(2).exp_().sum(),
    "in place on a view": lambda x: write_to_view(x * 1),
    "matrix product": lambda x: (x @ x).sum(),
}


def write_to_view(y):
    y[0].mul_(3)
    y[:, 1] = y[:, 0].clone() * 2
    return y.sum()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("runs", ["not", "once", "with graph"])
def test_graph_is_freed_with_its_last_reference(no_collector, name, runs):
    x = torch.arange(4.0).reshape(2, 2).requires_grad_()
    loss = PROGRAMS[name](x)
    watched = [weakref.ref(loss), weakref.ref(loss.grad_fn)]
    if runs == "once":
        loss.backward()
    elif runs == "with graph":
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        watched.append(weakref.ref(g))
        del g
    del loss
    assert [reference() for reference in watched] == [None] * len(watched)


def test_custom_function_graph_is_freed(no_collector):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    x = torch.ones(2, requires_grad=True)
    y = Square.apply(x * 1)
    watched = weakref.ref(y), weakref.ref(y.grad_fn)
    y.sum().backward()
    del y
    assert watched[0]() is None and watched[1]() is None


def test_hooks_die_with_their_tensor(no_collector):
    class Marker:
        def __call__(self, grad):
            pass

    marker = Marker()
    watched = weakref.ref(marker)
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(marker)
    del marker
    assert watched() is not None
    del y
    assert watched() is None


def test_saved_tensors_are_freed_by_backward(no_collector):
    x = torch.ones(2, requires_grad=True)
    factor = torch.ones(2)
    watched = weakref.ref(factor)
    y = (x * factor).sum()
    del factor
    assert watched() is not None
    y.backward()
    assert watched() is None


@pytest.mark.parametrize(("write", "times"), [("out of place", 100_000), ("in place", 15_000), ("into a view", 4_000)])
def test_many_thousand_nodes(write, times):
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    for _ in range(times):
        if write == "out of place":
            y = y + 1
        elif write == "in place":
            y.add_(1)
        else:
            y[0] += 1
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    y = None  # freed without recursion


def test_views_are_forgotten_by_their_storage():
    x = torch.zeros(4)
    for i in range(1000):
        x[i % 4] += 1
    assert len(x.untyped_storage()._aliases) < 100
    assert x.tolist() == [250] * 4
