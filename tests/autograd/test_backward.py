"""``backward`` and ``grad``: arguments, accumulation, ownership of gradients, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_scalar_root_needs_no_gradient(x):
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4, 6]


def test_vector_root_needs_a_gradient(x):
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    (x * 2).backward(torch.tensor([1.0, 10.0, 100.0]))
    assert x.grad.tolist() == [2, 20, 200]


def test_gradient_of_another_shape_is_an_error(x):
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(torch.ones(2))


def test_root_without_history_is_an_error():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.ones(1).backward()


def test_leaf_root_gets_the_gradient_itself(x):
    given = torch.tensor([1.0, 2.0, 3.0])
    x.backward(given)
    assert x.grad.tolist() == [1, 2, 3]
    given.zero_()
    assert x.grad.tolist() == [1, 2, 3]


def test_graph_is_freed_unless_retained(x):
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8, 12]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_graph_that_saved_nothing_can_be_used_again(x):
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_failed_pass_changes_no_gradient(x):
    y, z = (x * x).sum(), (x * 2).sum()
    y.backward()
    before = x.grad.clone()
    with pytest.raises(RuntimeError):
        torch.autograd.backward([z, y])
    assert torch.equal(x.grad, before)


def test_grad_keeps_its_identity_when_added_to(x):
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first and first.tolist() == [5, 5, 5]


def test_grad_is_replaced_under_create_graph(x):
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first and first.tolist() == [2, 4, 6] and x.grad.tolist() == [4, 8, 12]


def test_two_leaves_do_not_share_their_gradients(x):
    y = torch.ones(3, requires_grad=True)
    (x + y).sum().backward()
    x.grad.add_(10)
    assert y.grad.tolist() == [1, 1, 1]


def test_gradient_given_is_not_shared(x):
    given = torch.ones(3)
    (x + 0).backward(given)
    x.grad.zero_()
    assert given.tolist() == [1, 1, 1]


def test_retained_gradient_is_not_shared(x):
    y = x + 0
    y.retain_grad()
    y.sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1, 1, 1]


def test_gradient_seen_by_a_hook_is_not_changed_later(x):
    seen = []
    y = x + 0
    y.register_hook(seen.append)
    y.sum().backward()
    y = x + 0
    y.sum().backward()
    assert seen[0].tolist() == [1, 1, 1] and x.grad.tolist() == [2, 2, 2]


def test_expanded_gradient_is_stored_as_writable_memory(x):
    x.sum().backward()
    assert x.grad.is_contiguous()
    x.grad[0] = 5
    assert x.grad.tolist() == [5, 1, 1]


def test_inputs_restrict_accumulation(x):
    y = torch.ones(3, requires_grad=True)
    z = x * y
    z.retain_grad()
    (z * 2).sum().backward(inputs=[x])
    assert x.grad.tolist() == [2, 2, 2] and y.grad is None
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).sum().backward(inputs=[])


def test_inputs_may_be_computed_tensors(x):
    y = x * 2
    (y * y).sum().backward(inputs=y)
    assert y.grad.tolist() == [4, 8, 12] and x.grad is None


def test_grad_returns_and_does_not_accumulate(x):
    (g,) = torch.autograd.grad((x * x).sum(), x)
    assert g.tolist() == [2, 4, 6] and x.grad is None


def test_grad_of_computed_inputs(x):
    y = x * 2
    z = (y * y).sum()
    gy, gx = torch.autograd.grad(z, [y, x])
    assert gy.tolist() == [4, 8, 12] and gx.tolist() == [8, 16, 24]


def test_grad_of_the_output_itself(x):
    y = (x * 2).sum()
    (g,) = torch.autograd.grad(y, y)
    assert g.item() == 1


def test_grad_of_several_outputs_with_vectors(x):
    (g,) = torch.autograd.grad([x * 2, (x * x).sum()], x, [torch.tensor([1.0, 0.0, 0.0]), None])
    assert g.tolist() == [4, 4, 6]


def test_unused_input(x):
    other = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        torch.autograd.grad(y, [x, other], retain_graph=True)
    gradients = torch.autograd.grad(y, [x, other], retain_graph=True, allow_unused=True)
    assert gradients[1] is None
    gradients = torch.autograd.grad(y, [x, other], retain_graph=True, materialize_grads=True)
    assert gradients[1].tolist() == [0, 0]
    with pytest.raises(ValueError, match="allow_unused"):
        torch.autograd.grad(y, [x, other], allow_unused=False, materialize_grads=True)


def test_grad_of_input_without_requires_grad(x):
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad((x * 2).sum(), torch.ones(1))


def test_deprecated_spellings_still_work(x):
    y = (x * x).sum()
    with pytest.warns(FutureWarning, match="retain_variables"):
        torch.autograd.backward(y, retain_variables=True)
    with pytest.warns(FutureWarning, match="grad_variables"):
        torch.autograd.backward(y, grad_variables=torch.tensor(2.0))
    assert x.grad.tolist() == [6, 12, 18]


def test_only_inputs_is_deprecated(x):
    with pytest.warns(FutureWarning, match="only_inputs"):
        torch.autograd.grad((x * 2).sum(), x, only_inputs=False)


def test_second_and_third_derivative(x):
    y = (x**4).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert first.tolist() == [4, 32, 108] and second.tolist() == [12, 48, 108] and third.tolist() == [24, 48, 72]


def test_gradient_penalty_pattern(x):
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    ((g * g).sum() + x.sum()).backward()
    assert x.grad.tolist() == [36 * v**3 + 1 for v in (1, 2, 3)]


def test_shared_subexpression_is_counted_every_time(x):
    y = x * 2
    (y + y * y).sum().backward()
    assert x.grad.tolist() == [2 + 8 * v for v in (1, 2, 3)]


def test_broadcast_and_promotion_are_undone():
    a = torch.ones(3, 1, dtype=torch.float32, requires_grad=True)
    b = torch.ones(4, dtype=torch.float64, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.shape == (3, 1) and a.grad.dtype is torch.float32 and a.grad.flatten().tolist() == [4, 4, 4]
    assert b.grad.shape == (4,) and b.grad.dtype is torch.float64 and b.grad.tolist() == [3, 3, 3, 3]


def test_complex_gradients_follow_the_conjugate_convention():
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, 6 - 2j]
    real = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (real * (1 + 1j)).real.sum().backward()
    assert real.grad.dtype is torch.float64 and real.grad.tolist() == [1, 1]


def test_complex_root_needs_a_gradient():
    z = torch.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(RuntimeError, match="real scalar outputs"):
        (z * z).backward()


def test_grad_attribute_checks_what_it_is_given(x):
    x.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="size"):
        x.grad = torch.ones(2)
    with pytest.raises(TypeError):
        x.grad = 3
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError):
        x.grad = torch.ones(3, dtype=torch.float64)


def test_reading_grad_of_a_computed_tensor_warns(x):
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert (x * 2).grad is None


def test_detach_stops_gradients(x):
    (x * x.detach()).sum().backward()
    assert x.grad.tolist() == [1, 2, 3]


def test_backward_inside_backward(x):
    inner = []

    def hook(grad):
        with torch.enable_grad():
            y = torch.ones(2, requires_grad=True)
            (y * y).sum().backward()
            inner.append(y.grad.tolist())

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert inner == [[2, 2]] and x.grad.tolist() == [2, 2, 2]


def test_saved_tensor_written_in_place_is_an_error(x):
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_result_written_in_place_is_an_error(x):
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_writing_what_was_not_saved_is_fine(x):
    y = x + 1
    y.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_write_through_detach_is_noticed_and_through_data_is_not(x):
    y = x * 1
    z = y * y
    y.data.add_(1)
    z.sum().backward(retain_graph=True)
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# -- whose memory a gradient is ---------------------------------------------------------------------------------------------------------
def shares(a, b):
    return np.shares_memory(a._array, b._array)


@pytest.mark.parametrize("size", [3, 200_000])
def test_a_gradient_that_a_hook_keeps_is_not_the_leafs_own(size):
    x, kept = torch.ones(size, requires_grad=True), []
    x.register_hook(kept.append)
    (x * 3).sum().backward()
    assert not shares(kept[0], x.grad)
    x.grad.zero_()
    assert kept[0].eq(3).all()


@pytest.mark.parametrize("size", [3, 200_000])
def test_a_gradient_that_a_node_hook_or_a_function_keeps_is_not_the_leafs_own(size):
    x, kept = torch.ones(size, requires_grad=True), []

    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, grad):
            kept.append(grad * 2)
            return kept[0]

    y = Keeping.apply(x)
    y.grad_fn.register_hook(lambda inputs, outputs: kept.extend(inputs))
    y.sum().backward()
    assert len(kept) == 2 and not any(shares(gradient, x.grad) for gradient in kept)


def test_a_returned_gradient_over_memory_of_its_own_kind_is_copied(tmp_path):
    (tmp_path / "values").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    mapped = np.memmap(tmp_path / "values", np.float32, "r+", shape=(4,))

    class Mapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, grad):
            return torch.from_numpy(mapped)

    x = torch.ones(4, requires_grad=True)
    Mapped.apply(x).sum().backward()
    x.grad.add_(1)
    mapped.flush()
    assert np.fromfile(tmp_path / "values", np.float32).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [3, 200_000])
def test_leaves_that_receive_one_gradient_do_not_share_it(size):
    x, y, seed = torch.ones(size, requires_grad=True), torch.ones(size, requires_grad=True), torch.ones(size)
    z = x + y
    z.retain_grad()
    z.backward(seed)
    grads = [x.grad, y.grad, z.grad, seed]
    assert not shares(x.grad, y.grad) and not shares(x.grad, seed) and not shares(x.grad, z.grad)
    x.grad.zero_()
    assert all(grad.eq(1).all() for grad in grads[1:])


@pytest.mark.parametrize("size", [4, 1000])
def test_a_gradient_that_nobody_else_has_is_not_copied(size, monkeypatch):
    from flambeau.autograd import engine

    answers, asked = [], engine._is_ours

    def noted(*arguments):
        answers.append(asked(*arguments))
        return answers[-1]

    monkeypatch.setattr(engine, "_is_ours", noted)
    monkeypatch.setattr(engine, "engines", [])  # machine code does not ask that function
    w = torch.ones(size, size, requires_grad=True)
    (torch.ones(2, size) @ w).exp().sum().backward()
    assert answers == [True]


@pytest.mark.parametrize("inputs", [[], ()])
def test_gradients_of_no_inputs_are_refused(inputs):
    with pytest.raises(RuntimeError, match="cannot be empty"):
        torch.autograd.grad(torch.ones(2, requires_grad=True).sum(), inputs)


@pytest.mark.filterwarnings("ignore:(var|std)")
@pytest.mark.parametrize(
    "name, values, slope",
    [
        ("var", [1.0, 2.0], math.inf), ("var", [3.0, 3.0], math.nan), ("var", [2.5], math.nan),
        ("std", [1.0, 2.0], math.nan), ("std", [3.0, 3.0], math.nan), ("std", [2.5], math.nan),
    ],
)  # fmt: skip
def test_gradients_without_a_degree_of_freedom_are_constants(name: str, values: list[float], slope: float) -> None:
    x, scale = torch.tensor(values, requires_grad=True), torch.ones((), requires_grad=True)
    (found,) = torch.autograd.grad(getattr(x, name)(correction=2), x, scale, create_graph=True)
    np.testing.assert_array_equal(found.detach().numpy(), slope)
    first, _ = torch.autograd.grad(found.sum(), [x, scale], allow_unused=True)
    assert (first is None) == (name == "var")


def test_a_gradient_whose_elements_share_memory_is_not_added_to():
    w = torch.ones(3, requires_grad=True)
    w.grad = torch.ones(()).expand(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
        (w * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert w.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("size", [(3, 1, 0), (2, 0), (0,)])
def test_slices_of_nothing_have_second_gradients(size: tuple[int, ...]):
    x = torch.zeros(size, requires_grad=True)
    (first,) = torch.autograd.grad((x[:2] ** 2 * 3)[:].tanh().sum(), x, create_graph=True)
    assert first.shape == size and first.requires_grad
    (first * first).sum().backward()
    assert x.grad.shape == size


def test_sums_of_gradients_leave_those_alone_that_others_hold() -> None:
    held: list[torch.Tensor] = []
    values, results = [torch.linspace(-1, 1, 20000).reshape(100, 200)], []
    for _ in range(3):
        values.append(values[-1] + (values[-1] * 3).sin())
    for keeps in (False, True):
        x, given = values[0].clone().requires_grad_(), torch.ones(100, 200)
        h = x * 1
        for _ in range(3):
            h = h + (h * 3).sin()
            if keeps:
                h.register_hook(held.append)
        h.backward(given)
        assert torch.equal(given, torch.ones(100, 200))
        results.append(x.grad)
    assert torch.equal(*results)
    slope = torch.ones(100, 200)
    for grad, value in zip(held, reversed(values[:-1]), strict=True):
        torch.testing.assert_close(grad, slope)
        slope = slope * (1 + 3 * torch.cos(3 * value))
