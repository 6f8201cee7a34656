"""What users see of the tape: names, edges, leaves, output numbers, saved values, gradient edges."""

from __future__ import annotations

import pytest

import flambeau as torch


@pytest.fixture
def x():
    return torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: x + 1, "AddBackward0"),
        (lambda x: x * x, "MulBackward0"),
        (lambda x: x - x, "SubBackward0"),
        (lambda x: -x, "NegBackward0"),
        (lambda x: x.clone(), "CloneBackward0"),
        (lambda x: x.t(), "TBackward0"),
        (lambda x: x.transpose(0, 1), "TransposeBackward0"),
        (lambda x: x.view(4), "ViewBackward0"),
        (lambda x: x[0], "SelectBackward0"),
        (lambda x: x[0:1], "SliceBackward0"),
        (lambda x: x.expand(3, 2, 2), "ExpandBackward0"),
        (lambda x: x.unbind(0)[1], "UnbindBackward0"),
        (lambda x: x.split(1)[1], "SplitBackward0"),
        (lambda x: x.as_strided((2,), (1,)), "AsStridedBackward0"),
    ],
)
def test_grad_fn_is_named_after_the_operation(x, call, name):
    result = call(x)
    assert result.grad_fn.name() == name
    assert type(result.grad_fn).__name__ == name
    assert f"<{name} object at 0x" in repr(result.grad_fn)


def test_leaves_have_no_grad_fn(x):
    plain = torch.ones(2)
    assert x.grad_fn is None and plain.grad_fn is None
    assert x.is_leaf and plain.is_leaf
    assert not (x * 2).is_leaf
    assert x.detach().is_leaf and not x.detach().requires_grad
    assert (plain * 2).is_leaf and (plain * 2).grad_fn is None


def test_next_functions_lead_to_inputs(x):
    y = x * 2
    z = y + torch.ones(2, 2)
    (first, first_nr), (second, second_nr) = z.grad_fn.next_functions
    assert first is y.grad_fn and (first_nr, second_nr) == (0, 0)
    assert second is None
    accumulate = y.grad_fn.next_functions[0][0]
    assert accumulate.name() == "torch::autograd::AccumulateGrad"
    assert accumulate.variable is x
    assert accumulate.next_functions == ()


def test_output_nr_counts_results_of_one_call(x):
    a, b = x.unbind(0)
    assert (a.output_nr, b.output_nr) == (0, 1)
    assert a.grad_fn is b.grad_fn
    assert (b * 2).grad_fn.next_functions[0] == (b.grad_fn, 1)


def test_saved_values_are_shown_and_freed(x):
    w = torch.ones(2, 2, requires_grad=True)
    y = x * w
    assert y.grad_fn._saved_self is x and y.grad_fn._saved_other is w
    y.sum().backward()
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        _ = y.grad_fn._saved_self


def test_operands_that_need_no_gradient_are_not_saved_for_it(x):
    constant = torch.ones(2, 2)
    assert (x * constant).grad_fn._saved_self is None


def test_metadata_is_a_dictionary_per_node(x):
    y = x * 2
    y.grad_fn.metadata["key"] = 1
    assert y.grad_fn.metadata == {"key": 1} and (x * 2).grad_fn.metadata == {}


def test_gradient_edge_names_node_and_output(x):
    _, b = x.unbind(0)
    edge = torch.autograd.graph.get_gradient_edge(b)
    assert edge.node is b.grad_fn and edge.output_nr == 1
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.graph.get_gradient_edge(torch.ones(1))


def test_grad_takes_gradient_edges(x):
    y = x * 3
    edge = torch.autograd.graph.get_gradient_edge(y)
    loss = (y * y).sum()
    (through,) = torch.autograd.grad(loss, edge)
    assert torch.equal(through, 2 * y.detach())


def test_node_types_are_instances_of_node(x):
    assert isinstance((x * 2).grad_fn, torch.autograd.graph.Node)


def test_changing_requires_grad_of_a_computed_tensor_is_an_error(x):
    y = x * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="floating point"):
        torch.ones(2, dtype=torch.int64).requires_grad_()
    with pytest.raises(RuntimeError):
        torch.ones(2, dtype=torch.bool).requires_grad = True


def test_integer_results_do_not_require_grad(x):
    assert not x.argmax().requires_grad
    assert not (x > 1).requires_grad
    assert not x.long().requires_grad


def test_hooks_of_one_saved_tensor() -> None:
    seen = []

    def pack(tensor):
        seen.append(tensor.tolist())
        return tensor.numpy().tobytes()

    def unpack(kept):
        return torch.frombuffer(bytearray(kept), dtype=torch.float32)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    squares, exponentials = x.pow(2), x.exp()
    for saved in (squares.grad_fn._raw_saved_self, exponentials.grad_fn._raw_saved_result):
        saved.register_hooks(pack, unpack)
        with pytest.raises(RuntimeError, match="already been set"):
            saved.register_hooks(pack, unpack)
    (squares + exponentials).sum().backward()
    assert torch.allclose(x.grad, 2 * x.detach() + x.detach().exp()) and len(seen) == 2 and seen[0] == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="second time"):
        squares.grad_fn._raw_saved_self.register_hooks(pack, unpack)
