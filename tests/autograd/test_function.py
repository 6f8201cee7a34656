"""``autograd.Function``: contexts, outputs, in-place inputs, second derivatives, errors."""

from __future__ import annotations

import pickle
import warnings

import pytest

import flambeau as torch
import flambeau.autograd.function
from flambeau.autograd import Function
from flambeau.autograd.function import once_differentiable


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def function(forward, backward, setup_context=None):
    """A Function class with these static methods."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup_context is not None:
        body["setup_context"] = staticmethod(setup_context)
    return type("Made", (Function,), body)


def test_forward_is_not_recorded_and_backward_gets_the_gradient(x):
    seen = []

    def forward(ctx, a, b, factor):
        seen.append((ctx.needs_input_grad, torch.is_grad_enabled(), a is x))
        ctx.save_for_backward(a, b)
        ctx.factor = factor
        return a * b * factor

    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        assert a is x
        return grad * b * ctx.factor, None, None

    y = function(forward, backward).apply(x, torch.tensor([3.0, 4.0]), 2.0)
    assert y.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert seen == [((True, False, False), False, True)] and x.grad.tolist() == [6, 8]


def test_setup_context_form_and_keywords(x):
    def setup_context(ctx, inputs, output):
        assert not output.requires_grad
        _, ctx.factor = inputs

    custom = function(lambda a, factor=3.0: a * factor, lambda ctx, grad: (grad * ctx.factor, None), setup_context)
    for call, expected in ((lambda: custom.apply(x), 3), (lambda: custom.apply(x, 4.0), 4), (lambda: custom.apply(x, factor=5.0), 5)):
        x.grad = None
        call().sum().backward()
        assert x.grad.tolist() == [expected] * 2


def test_several_outputs_some_of_them_no_tensors(x):
    seen = []

    def backward(ctx, *grads):
        seen.extend(g if g is None else g.tolist() for g in grads)
        return grads[0] * 2

    outputs = function(lambda ctx, a: (a * 2, None, "text", a * 3), backward).apply(x)
    assert outputs[1:3] == (None, "text")
    outputs[0].sum().backward()
    assert seen == [[1, 1], None, None, [0, 0]]


def test_result_that_is_no_tensor_is_returned_as_it_is(x):
    assert function(lambda ctx, a: 3, lambda ctx, g: g).apply(x) == 3
    assert function(lambda ctx, a: None, lambda ctx, g: g).apply(x) is None


def test_missing_gradients_are_zeros_unless_switched_off(x):
    for materialize, expected in ((True, [0, 0]), (False, None)):
        seen = []

        def forward(ctx, a, materialize=materialize):
            ctx.set_materialize_grads(materialize)
            return a * 2, a * 3

        function(forward, lambda ctx, g, h, seen=seen: (seen.append(h), g * 2)[1]).apply(x)[0].sum().backward()
        assert (seen[0] if expected is None else seen[0].tolist()) == expected


def test_non_differentiable_outputs(x):
    def forward(ctx, a):
        index, double = a.argmax(), a * 2
        ctx.mark_non_differentiable(index, double)
        return a * 3, index, double

    y, index, double = function(forward, lambda ctx, g, *others: g * 3).apply(x)
    assert y.requires_grad and not index.requires_grad and not double.requires_grad


def doubling(ctx, a):
    ctx.mark_dirty(a)
    return a.mul_(2)


def test_dirty_input_is_rebased(x):
    y = x * 1
    z = function(doubling, lambda ctx, g: g * 2).apply(y)
    assert z is y and y.grad_fn.name() == "MadeBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_dirty_view_changes_its_base(x):
    y = x * 1
    function(doubling, lambda ctx, g: g * 2).apply(y[0:1])
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    y.sum().backward()
    assert x.grad.tolist() == [2, 1]


def test_dirty_mistakes(x):
    custom = function(doubling, lambda ctx, g: g * 2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        custom.apply(x)

    def not_returned(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2) * 1

    with pytest.raises(RuntimeError, match="must all be outputs of the Function"):
        function(not_returned, lambda ctx, g: g).apply(x * 1)
    with pytest.raises(RuntimeError, match="your Function cannot return more than one Tensor"):
        function(lambda ctx, a: (doubling(ctx, a), a * 3), lambda ctx, g, h: g).apply((x * 1)[0:1])


def test_returned_input_is_a_view_that_must_not_be_written(x):
    identity = function(lambda ctx, a: a, lambda ctx, g: g * 5)
    y = identity.apply(x)
    assert y is not x and y._base is x
    y.sum().backward()
    assert x.grad.tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        identity.apply(x * 1).add_(1)
    with pytest.raises(RuntimeError, match="created inside a custom Function"):
        function(lambda ctx, a: a.view(1, 2), lambda ctx, g: g.view(2)).apply(x * 1).add_(1)


def test_any_attribute_of_the_context_is_the_users(x):
    names = ["shape", "saved", "node", "seq", "edges", "name", "hooks", "attrs", "dtype", "apply", "release"]

    def forward(ctx, a):
        for i, name in enumerate(names):
            setattr(ctx, name, i)
        return a * 2

    def backward(ctx, grad):
        assert [getattr(ctx, name) for name in names] == list(range(len(names)))
        return grad * 2

    function(forward, backward).apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_saved_inputs_outputs_and_intermediates(x):
    w = torch.ones(2, requires_grad=True)
    checked = []

    def forward(ctx, a, b):
        y, between = a * b, a + b
        ctx.save_for_backward(a, None, y, between)
        return y

    def backward(ctx, grad):
        a, nothing, y, between = ctx.saved_tensors
        checked.append((a is x, nothing, y.grad_fn.name(), between.requires_grad))
        return grad * (between - a), grad * a

    y = function(forward, backward).apply(x, w)
    assert y.grad_fn.saved_tensors[0] is x and torch.equal(y.grad_fn.saved_tensors[2], y)
    y.sum().backward()
    assert checked == [(True, None, "MadeBackward", False)] and w.grad.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="second time"):
        _ = y.grad_fn.saved_tensors
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_saved_tensor_written_since_is_an_error(x):
    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(a, y)
        return y

    custom = function(forward, lambda ctx, g: g * ctx.saved_tensors[1])
    y = custom.apply(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = custom.apply(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_only_tensors_can_be_saved(x):
    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 1 is of type int"):
        function(lambda ctx, a: (ctx.save_for_backward(a, 3), a * 1)[1], lambda ctx, g: g).apply(x)


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (lambda g: (g,), "incorrect number of gradients"),
        (lambda g: (g, g, g), "incorrect number of gradients"),
        (lambda g: (g, "text"), "expected Variable or None"),
        (lambda g: (torch.ones(3), g), "invalid gradient at index 0"),
        (lambda g: (g, g, None, None), None),
        (lambda g: (None, None), None),
        (lambda g: (g, None), None),
        (lambda g: (g.double(), g), None),
        (lambda g: (g.expand(3, 2), g), None),
    ],
)
def test_what_backward_may_return(x, returned, error):
    w = torch.ones(2, requires_grad=True)
    y = function(lambda ctx, a, b: a + b, lambda ctx, g: returned(g)).apply(x, w).sum()
    if error is None:
        y.backward()
        assert x.grad is None or (x.grad.dtype is torch.float32 and x.grad.shape == (2,))
    else:
        with pytest.raises(RuntimeError, match=error):
            y.backward()


def test_gradient_for_an_argument_that_is_no_tensor(x):
    y = function(lambda ctx, a, b: a * b, lambda ctx, g: (g, g)).apply(x, 2.0)
    with pytest.raises(RuntimeError, match="gradient different than None at position 2"):
        y.sum().backward()


def test_second_derivative_through_saved_result_and_nested_function(x):
    identity = function(lambda ctx, a: a.clone(), lambda ctx, g: g)

    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    exp = function(forward, lambda ctx, g: g * identity.apply(ctx.saved_tensors[0]))
    (first,) = torch.autograd.grad(exp.apply(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, x.detach().exp())
    assert torch.autograd.gradgradcheck(exp.apply, torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True))


def test_once_differentiable(x):
    @once_differentiable
    def backward(ctx, grad):
        assert not torch.is_grad_enabled()
        return grad * 2

    y = function(lambda ctx, a: a * 2, backward).apply(x)
    weight = torch.ones(2, requires_grad=True)
    (g,) = torch.autograd.grad(y, x, weight, create_graph=True)
    assert g.requires_grad
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_backward_without_grad_mode_makes_plain_gradients(x):
    modes = []
    y = function(lambda ctx, a: a * 2, lambda ctx, g: (modes.append(torch.is_grad_enabled()), g * 2)[1]).apply(x).sum()
    torch.autograd.grad(y, x, retain_graph=True)
    torch.autograd.grad(y, x, create_graph=True)
    assert modes == [False, True]


def test_vjp_stands_for_backward(x):
    class ByVjp(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def vjp(ctx, grad):
            return grad * 2

    ByVjp.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    both = type("Both", (ByVjp,), {"backward": staticmethod(lambda ctx, g: g)})
    with pytest.raises(RuntimeError, match="'backward' and 'vjp'"):
        both.apply(x).sum().backward()


def test_missing_methods(x):
    with pytest.raises(NotImplementedError, match="forward"):
        Function.apply(x)
    with pytest.raises(NotImplementedError, match="backward or vjp"):
        type("Half", (Function,), {"forward": staticmethod(lambda ctx, a: a * 2)}).apply(x).sum().backward()


def test_old_style_functions_are_declined(x):
    class Old(Function):
        def forward(self, a):
            return a

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method"):
            Old()(x)


def test_exceptions_of_backward_reach_the_caller(x):
    def backward(ctx, grad):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        function(lambda ctx, a: a * 2, backward).apply(x).sum().backward()


def test_nodes_have_hooks_and_cannot_be_pickled(x):
    y = function(lambda ctx, a: a * 2, lambda ctx, g: g * 2).apply(x)
    seen = []
    y.grad_fn.register_prehook(lambda outs: seen.append("pre"))
    y.grad_fn.register_hook(lambda ins, outs: seen.append(ins[0].tolist()))
    y.sum().backward()
    assert seen == ["pre", [2, 2]]
    assert y.grad_fn.next_functions[0][0].variable is x and y.grad_fn.needs_input_grad == (True,)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(y.grad_fn)


def test_saved_tensors_hooks_see_what_a_function_saves(x):
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 10, lambda t: t):
        y = function(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0]).apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [20, 40]


def test_without_gradients_nothing_is_recorded(x):
    custom = function(lambda ctx, a: a * 2, lambda ctx, g: g)
    with torch.no_grad():
        assert custom.apply(x).grad_fn is None
    assert custom.apply(torch.ones(2)).grad_fn is None


def test_tensors_inside_lists_are_not_inputs(x):
    custom = function(lambda ctx, a, others: a * others[0], lambda ctx, g: (g, None))
    assert custom.apply(torch.ones(2), [x]).requires_grad is False
