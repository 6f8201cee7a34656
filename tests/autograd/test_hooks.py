"""Hooks on tensors, leaves and nodes, their order, retained gradients, and hooks on saved tensors."""

from __future__ import annotations

import pytest

import flambeau as torch


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_tensor_hook_sees_and_replaces_the_gradient(x):
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward()
    assert seen == [[1, 1], [10, 10]] and x.grad.tolist() == [20, 20]


def test_removed_hook_is_not_called(x):
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    handle.remove()
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_leaf_hook_gets_the_whole_gradient_of_the_pass_once(x):
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5, 5]]


def test_leaf_hook_replaces_what_is_accumulated(x):
    x.register_hook(lambda g: g * 100)
    (x * 1).sum().backward()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [200, 200]


def test_hooks_work_with_autograd_grad(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    x.register_hook(lambda g: g + 1)
    total = y.sum()
    (gy,) = torch.autograd.grad(total, y, retain_graph=True)
    (gx,) = torch.autograd.grad(total, x)
    assert gy.tolist() == [3, 3] and gx.tolist() == [7, 7]


def test_node_prehook_is_not_seen_by_retained_and_returned_gradients(x):
    y = x * 2
    y.grad_fn.register_prehook(lambda outs: (outs[0] * 7,))
    y.retain_grad()
    total = y.sum()
    gy, gx = torch.autograd.grad(total, [y, x], retain_graph=True)
    assert gy.tolist() == [1, 1] and gx.tolist() == [14, 14]
    total.backward()
    assert y.grad.tolist() == [2, 2] and x.grad.tolist() == [14, 14]


def test_hook_must_keep_the_shape(x):
    y = x * 2
    y.register_hook(lambda g: torch.ones(3))
    with pytest.raises(RuntimeError, match="has changed the size"):
        y.sum().backward()


def test_hook_must_return_a_tensor_or_none(x):
    y = x * 2
    y.register_hook(lambda g: 3)
    with pytest.raises(TypeError):
        y.sum().backward()


def test_hook_needs_requires_grad():
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(2).register_hook(lambda g: g)


def test_hook_is_recorded_under_create_graph(x):
    y = x * x
    y.register_hook(lambda g: g * x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [2, 8] and second.tolist() == [4, 8]  # 2 x * x, derived once more


def test_retain_grad(x):
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward(retain_graph=True)
    assert y.grad.tolist() == [4, 8]
    x.retain_grad()  # nothing to do on a leaf
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        torch.ones(1).retain_grad()


def test_retained_gradient_is_what_hooks_made_of_it(x):
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.sum().backward()
    assert y.grad.tolist() == [5, 5]


def test_retain_grad_of_one_of_several_results(x):
    a, b = (x * 2).unbind(0)
    b.retain_grad()
    (a + b * 3).backward()
    assert b.grad.item() == 3


def test_retain_grad_follows_an_in_place_write(x):
    y = x * 1
    y.retain_grad()
    y.mul_(2)
    assert y.retains_grad
    y.sum().backward()
    assert y.grad.tolist() == [1, 1] and x.grad.tolist() == [2, 2]


def test_tensor_hook_stays_with_the_value_it_was_registered_on(x):
    y = x * 1
    seen = []
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.mul_(2)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    assert seen == [("after", [1, 1]), ("before", [2, 2])]


def test_post_accumulate_hook_sees_the_leaf(x):
    seen = []

    def step(leaf):
        seen.append(leaf.grad.tolist())
        leaf.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [[2, 2], [3, 3]] and x.grad is None
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(step)


def test_post_accumulate_hook_is_not_run_by_grad(x):
    x.register_post_accumulate_grad_hook(lambda leaf: pytest.fail("called"))
    torch.autograd.grad((x * 2).sum(), x)


def test_node_hooks_and_prehooks(x):
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda outs: seen.append(("pre", [g.tolist() for g in outs])))
    y.grad_fn.register_hook(lambda ins, outs: seen.append(("post", ins[0].tolist(), outs[0].tolist())))
    y.sum().backward()
    assert seen == [("pre", [[1, 1]]), ("post", [2, 2], [1, 1])]


def test_node_hooks_replace_gradients(x):
    y = x * 2
    y.grad_fn.register_prehook(lambda outs: (outs[0] * 10,))
    y.grad_fn.register_hook(lambda ins, outs: (ins[0] + 1, *ins[1:]))
    y.sum().backward()
    assert x.grad.tolist() == [21, 21]


def test_order_of_hooks_of_one_value(x):
    order = []
    y = x * 2
    y.grad_fn.register_prehook(lambda outs: order.append("node prehook"))
    y.register_hook(lambda g: order.append("tensor hook"))
    y.grad_fn.register_hook(lambda ins, outs: order.append("node hook"))
    x.register_hook(lambda g: order.append("leaf hook"))
    x.register_post_accumulate_grad_hook(lambda leaf: order.append("after accumulation"))
    y.sum().backward()
    assert order == ["tensor hook", "node prehook", "node hook", "leaf hook", "after accumulation"]


def test_hooks_on_accumulate_grad(x):
    seen = []
    node = (x * 2).grad_fn.next_functions[0][0]
    node.register_prehook(lambda outs: seen.append("pre"))
    node.register_hook(lambda ins, outs: seen.append(("post", x.grad.tolist())))
    (x * 2).sum().backward()
    assert seen == ["pre", ("post", [2, 2])]


def test_hooks_on_accumulate_grad_get_what_is_added(x):
    seen = []
    (x * 2).grad_fn.next_functions[0][0].register_hook(lambda ins, outs: seen.append((ins, outs[0].tolist())))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    assert seen == [((), [2, 2]), ((), [3, 3])] and x.grad.tolist() == [5, 5]


@pytest.mark.parametrize("returned", [(), (1,), 1], ids=repr)
def test_what_hooks_on_accumulate_grad_return(returned, x):
    (x * 2).grad_fn.next_functions[0][0].register_hook(lambda ins, outs: returned)
    if returned == ():
        return (x * 2).sum().backward()
    error, words = (
        (RuntimeError, r"incorrect number of values \(got 1, but expected 0\)") if returned == (1,) else (TypeError, "expected tuple")
    )
    with pytest.raises(error, match=words):
        (x * 2).sum().backward()


def test_multi_grad_hook_of_all(x):
    y, z = x * 2, x * 3
    seen = []
    handle = torch.autograd.graph.register_multi_grad_hook(
        (y, z), lambda grads: seen.append([g if g is None else g.tolist() for g in grads])
    )
    (y + z).sum().backward()
    assert seen == [[[1, 1], [1, 1]]]
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1


def test_multi_grad_hook_of_any_runs_once_per_pass(x):
    y, z = x * 2, x * 3
    seen = []
    torch.autograd.graph.register_multi_grad_hook((y, z), lambda g: seen.append(g.tolist()), mode="any")
    total = (y + z * 2).sum()
    total.backward(retain_graph=True)
    total.backward()
    assert len(seen) == 2
    with pytest.raises(ValueError, match="mode"):
        torch.autograd.graph.register_multi_grad_hook((y,), print, mode="some")


def test_multi_grad_hook_with_one_tensor_out_of_the_pass(x):
    y, z = x * 2, x * 3
    seen = []
    torch.autograd.graph.register_multi_grad_hook((y, z), lambda grads: seen.append([g is None for g in grads]))
    y.sum().backward()
    assert seen == [[False, True]]


def test_saved_tensors_hooks_pack_and_unpack(x):
    log = []

    def pack(t):
        log.append("pack")
        return t.numpy() if not t.requires_grad else t.detach().numpy()

    def unpack(a):
        log.append("unpack")
        return torch.from_numpy(a)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
    y.sum().backward()
    assert log == ["pack", "pack", "unpack", "unpack"] and x.grad.tolist() == [2, 4]


def test_saved_tensors_hooks_see_results_too(x):
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t), t)[1], lambda t: t * 2):
        y = x.exp()
    y.sum().backward()
    assert torch.equal(packed[0], y.detach())
    assert torch.equal(x.grad, 2 * y.detach())


def test_innermost_saved_tensors_hooks_win(x):
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda t: t, lambda t: t * 100), hooks(lambda t: t, lambda t: t * 0):
        y = x.exp()
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_saved_tensors_hooks_can_be_forbidden(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass


def test_save_on_cpu(x):
    with torch.autograd.graph.save_on_cpu():
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_second_derivative_through_saved_tensors_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 12]


# -- hooks in the middle of a pass --------------------------------------------------------------------------------------------------------
def test_a_leaf_with_hooks_is_finished_when_its_gradient_is_whole_and_before_others_are():
    a, b, order = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), []
    hidden = a * 2
    hidden.register_hook(lambda grad: order.append("hidden"))
    loss = ((hidden * 1) * b * b).sum()  # b twice, both uses after a's
    b.register_post_accumulate_grad_hook(lambda leaf: order.append(("b", leaf.grad.tolist(), a.grad)))
    a.register_post_accumulate_grad_hook(lambda leaf: order.append(("a", leaf.grad.tolist())))
    loss.backward()
    assert order == [("b", [4, 4], None), "hidden", ("a", [2, 2])]


def test_hooks_after_accumulation_may_use_the_gradient_up_during_the_pass():
    layers = [torch.ones(2, requires_grad=True) for _ in range(4)]
    alive = []

    def step(leaf):
        alive.append(sum(other.grad is not None for other in layers))
        leaf.grad = None

    for leaf in layers:
        leaf.register_post_accumulate_grad_hook(step)
    x = torch.ones(2)
    for leaf in layers:
        x = x * leaf
    x.sum().backward()
    assert alive == [1, 1, 1, 1]


def test_a_gradient_that_only_the_pass_has_is_not_copied_for_a_hook():
    x, y = torch.ones(64, requires_grad=True), torch.ones(64, requires_grad=True)
    made = []
    ((x * 2).exp() * y).sum().backward()

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input):
            return input * 1

        @staticmethod
        def backward(ctx, grad):
            result = grad * 3
            made.append(result.data_ptr())
            return result

    x.register_post_accumulate_grad_hook(lambda leaf: made.append(leaf.grad.data_ptr()))
    x.grad = None
    Kept.apply(x).sum().backward()
    assert made[0] == made[1] and x.grad.tolist() == [3] * 64


def test_hooks_after_accumulation_see_what_tensor_hooks_made_and_those_of_the_node_come_last(x):
    seen = []
    x.register_hook(lambda grad: grad * 10)
    (x * 2).grad_fn.next_functions[0][0].register_hook(lambda ins, outs: seen.append(("node", outs[0].tolist())))
    handle = x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (x * 3).sum().backward()
    assert seen == [[30, 30], ("node", [30, 30])]
    handle.remove()
    (x * 3).sum().backward()
    assert seen[2:] == [("node", [30, 30])] and x.grad.tolist() == [60, 60]


def test_a_hooked_leaf_is_finished_once_whatever_the_graph():
    x, y, seen = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), []
    x.register_post_accumulate_grad_hook(lambda leaf: (seen.append(leaf.grad.tolist()), setattr(leaf, "grad", None))[1])
    (x + x * x + y).sum().backward()
    assert seen == [[3, 3]]
    x.backward(torch.ones(2))  # the leaf is the root
    torch.autograd.backward([x, (x * 2)], [torch.ones(2), torch.ones(2)])  # and is reached, too
    assert seen[1:] == [[1, 1], [3, 3]]
    y.sum().backward()  # the leaf is not in the graph
    torch.autograd.grad((x * 2).sum(), x)  # nothing is added to x.grad
    (x * y).sum().backward(inputs=[y])  # nor here
    assert len(seen) == 3 and x.grad is None
    (x * y).sum().backward(inputs=[x])
    parts = torch.stack([x, x]).unbind(0)  # an output without gradient
    (parts[0] * 2).sum().backward()
    assert seen[3:] == [[1, 1], [2, 2]] and y.grad.tolist() == [3, 3]


def test_a_hook_in_the_middle_of_a_pass_that_creates_a_graph(x):
    seen = []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.requires_grad))
    (x**3).sum().backward(create_graph=True)
    assert seen == [True] and x.grad.tolist() == [3, 12]


def test_callbacks_queued_in_a_pass_run_at_its_end(x):
    queue = torch.autograd.Variable._execution_engine.queue_callback
    seen = []
    x.register_hook(lambda grad: queue(lambda: seen.append(x.grad.tolist())))
    (x * 2).sum().backward()
    assert seen == [[2, 2]]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        queue(print)


def test_hooks_of_a_leaf_are_told_that_there_is_no_gradient(x):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    seen = []
    x.view_as(x).grad_fn.next_functions[0][0].register_hook(lambda *grads: seen.append(("node", grads)))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(("leaf", leaf.grad)))
    x.register_hook(lambda grad: seen.append(("gradient", grad)))
    Nothing.apply(x * 3).sum().backward()  # the product's node gets none either
    assert seen == [("gradient", None), ("leaf", None), ("node", ((), (None,)))] and x.grad is None
    seen.clear()
    (Nothing.apply(x) + x).sum().backward()
    assert [name for name, _ in seen] == ["gradient", "leaf", "node"] and x.grad.tolist() == [1, 1]
    seen.clear()
    torch.ones(2, requires_grad=True).sum().backward()
    assert seen == []
    x.register_hook(lambda grad: None if grad is not None else torch.ones(2))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        Nothing.apply(x).sum().backward()
