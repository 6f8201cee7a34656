"""In-place writes: to leaves, views, chains of views, and tensors that must not be written; versions."""

from __future__ import annotations

import pytest

import flambeau as torch


@pytest.fixture
def x():
    return torch.arange(1.0, 7.0).reshape(2, 3).clone().requires_grad_()


def gradient(x, result):
    (g,) = torch.autograd.grad(result.sum(), x)
    return g.tolist()


def test_leaf_that_requires_grad(x):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
        x[0].add_(1)
    with pytest.raises(RuntimeError):
        x[0, 0] = 1
    with torch.no_grad():
        x.add_(1)
        x[0, 0] = 5
    assert x[0].tolist() == [5, 3, 4] and x.is_leaf and x._version == 2


def test_leaf_that_is_a_view_itself():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    for target in (x, x[0]):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            target.add_(1)


def test_write_to_a_view_changes_the_base_history(x):
    y = x * 1
    y[0].mul_(10)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    assert gradient(x, y) == [[10, 10, 10], [1, 1, 1]]


def test_write_to_the_base_reaches_views(x):
    y = x * 1
    view = y[1]
    y.mul_(3)
    assert gradient(x, view) == [[0, 0, 0], [3, 3, 3]]


def test_write_to_one_view_reaches_another(x):
    y = x * 1
    first, column = y[0], y[:, 1]
    first.mul_(5)
    assert column.tolist() == [10, 5]
    assert gradient(x, column) == [[0, 5, 0], [0, 1, 0]]


def test_write_to_a_view_of_a_view_of_a_view(x):
    y = x * 1
    y.t()[1:].select(1, 0)[0:1].mul_(7)
    assert gradient(x, y) == [[1, 7, 1], [1, 1, 1]]


def test_write_of_a_recorded_value_into_plain_memory(x):
    buffer = torch.zeros(4, 3)
    for i in range(2):
        buffer[i] = x[i] * (i + 2)
    assert buffer.requires_grad and not buffer.is_leaf
    assert gradient(x, buffer) == [[2, 2, 2], [3, 3, 3]]


def test_overwritten_values_get_zero_gradients(x):
    y = x * 1
    y[0] = 0.0
    assert gradient(x, y) == [[0, 0, 0], [1, 1, 1]]
    y = x * 1
    y.zero_()
    assert gradient(x, y) == [[0, 0, 0], [0, 0, 0]]


def test_write_by_mask_and_by_index(x):
    y = x * 1
    y[x > 4] = 0.0
    assert gradient(x, y) == [[1, 1, 1], [1, 0, 0]]
    y = x * 1
    y[:, torch.tensor([0, 2])] = y[:, 1:2].detach()
    assert gradient(x, y) == [[0, 1, 0], [0, 1, 0]]
    y = x * 1
    y.index_add_(0, torch.tensor([0, 0]), x)
    assert gradient(x, y) == [[2, 2, 2], [2, 2, 2]]


def test_write_to_a_view_through_another_dtype():
    z = torch.tensor([1 + 2j, 3 + 4j], requires_grad=True)
    y = z * 1
    torch.view_as_real(y).mul_(torch.tensor([2.0, 0.0]))
    (g,) = torch.autograd.grad(y.real.sum() + y.imag.sum(), z)
    assert g.tolist() == [2, 2]


def test_second_derivative_through_a_write_to_a_view(x):
    y = x * x
    y[0].mul_(x[1])
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    # d/dx of 2 x0 x1 + (x0^2 + 2 x1): rows of x are x0 and x1
    x0, x1 = x.detach()
    assert torch.equal(second[0], 2 * x1 + 2 * x0) and torch.equal(second[1], 2 * x0 + 2)


def test_outputs_of_a_function_with_several_views_are_read_only(x):
    for make in (lambda y: y.unbind(0), lambda y: y.split(1), lambda y: y.chunk(2)):
        y = x * 1
        first, second = make(y)
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace.*multiple views"):
            first.mul_(2)
        y.mul_(2)
        with pytest.raises(RuntimeError, match="is a view and its base or another view of its base has been modified inplace"):
            second * 1
        with torch.no_grad():
            assert second.flatten().tolist() == [8, 10, 12]


def test_several_views_without_gradient_may_be_written():
    first, second = torch.zeros(2, 2).unbind(0)
    first.add_(1)
    second.fill_(3)
    assert first.tolist() == [1, 1] and second.tolist() == [3, 3]


def test_view_made_without_grad_mode(x):
    y = x * 1
    with torch.no_grad():
        view = y[0]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode enabled"):
        view.mul_(2)
    with torch.no_grad():
        view.mul_(2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and its base or another view"):
        view * 1


def test_view_made_without_grad_mode_of_plain_memory_cannot_take_recorded_values(x):
    buffer = torch.zeros(2, 3)
    with torch.no_grad():
        view = buffer[0]
    view.add_(1)
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        view.copy_(x[0])


def test_expanded_tensors():
    y = torch.zeros(3).expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
        y.add_(1)
    with pytest.raises(RuntimeError, match="single memory location"):
        y.copy_(torch.ones(2, 3))
    y.fill_(2)
    assert y.tolist() == [[2, 2, 2], [2, 2, 2]]


def test_partly_overlapping_operands():
    y = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
        y[1:].add_(y[:-1])
    y.add_(y)
    assert y.tolist() == [0, 2, 4, 6, 8, 10]


def test_result_dtype_must_fit():
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ones(2, dtype=torch.int64).add_(torch.ones(2))
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ones(3).add_(torch.ones(2, 3))


def test_versions_are_shared_by_views_and_detached_tensors():
    y = torch.zeros(2, 2)
    view, detached = y[0], y.detach()
    y.add_(1)
    view.add_(1)
    detached.add_(1)
    assert y._version == view._version == detached._version == 3
    assert y.clone()._version == 0
    torch.autograd.graph.increment_version(y)
    assert view._version == 4


def test_views_know_their_base():
    y = torch.zeros(2, 2)
    view = y[0][1:]
    assert view._is_view() and view._base is y
    assert not y._is_view() and y._base is None
    assert not y.detach()._is_view() and not y.clone()._is_view()


def test_detach_in_place(x):
    y = x * 2
    y.detach_()
    assert y.is_leaf and not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[0].detach_()


def test_transposing_in_place_is_recorded(x):
    y = x * 1
    y.t_()
    assert y.shape == (3, 2)
    y[0].mul_(4)
    assert gradient(x, y) == [[4, 1, 1], [4, 1, 1]]


def test_leaf_flag_reaches_views_made_before():
    w = torch.zeros(2, 2)
    view = w[0]
    w.requires_grad_()
    assert view.requires_grad
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        view.add_(1)


def test_as_strided_of_a_part_drops_what_lies_outside(x):
    y = (x * 1).view(6)
    whole = y[2:4].as_strided((6,), (1,), 0)
    assert whole.tolist() == [1, 2, 3, 4, 5, 6]
    assert gradient(x, whole) == [[0, 0, 1], [1, 0, 0]]


def test_as_strided_with_repeats_adds_up(x):
    y = (x * 1).view(6).as_strided((3, 2), (1, 1))
    assert gradient(x, y) == [[1, 2, 2], [1, 0, 0]]


def test_failed_write_changes_nothing(x):
    y = torch.arange(3.0)
    with pytest.raises(RuntimeError):
        y.copy_(torch.ones(2))
    with pytest.raises(IndexError):
        y[3] = 1
    assert y.tolist() == [0, 1, 2] and y._version == 0


@pytest.mark.parametrize("take", [lambda x: x.chunk(2, 1), lambda x: x.split(1), lambda x: x.unbind()])
def test_siblings_of_a_view_written_without_grad_mode(x, take):
    """Whoever writes, and to whatever part: the other outputs of a function with several views may not be used any more."""
    first, second, *_ = take(x)
    with torch.no_grad():
        first.add_(1)
        assert (second * 1)._node is None
    for use in (
        lambda: second * 2,
        lambda: second.view(-1),
        lambda: second.sum().backward(),
        lambda: second.grad_fn,
        lambda: second.is_leaf,
        lambda: first.backward(torch.ones_like(first)),
    ):
        with pytest.raises(RuntimeError, match=r"Output [01] of \w+ is a view and its base or another view of its base has been modified"):
            use()
    assert second.requires_grad and second.detach().shape == second.shape
    first, second, *_ = take(x)
    with torch.no_grad():
        x.zero_()
    with pytest.raises(RuntimeError, match="multiple views"):
        second.exp()


def test_views_of_leaves_change_shape_in_place_without_grad_mode_only(x):
    for change in (lambda v: v.t_(), lambda v: v.transpose_(0, 1), lambda v: v.squeeze_(), lambda v: v.unsqueeze_(0)):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
            change(x[:])
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            x[:].as_strided_((3,), (1,))
    with pytest.raises(RuntimeError, match=r"Output 0 of Split is a view and is being modified inplace.*multiple views"):
        x.clone().split(1)[0].t_()
    y = x.clone()
    y.as_strided_((3, 2), (1, 3)).mul_(2)
    assert y.stride() == (1, 3) and gradient(x, y) == [[2.0] * 3] * 2
    with torch.no_grad():
        view = x[:].t_()
    assert view.shape == (3, 2)


def test_leaf_that_got_a_history_receives_no_gradient(x):
    weight, bias = torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    total = x + weight
    x.requires_grad_(False)
    x.add_(bias)
    with pytest.raises(RuntimeError, match="leaf variable has been moved into the graph interior"):
        total.sum().backward(retain_graph=True)
    assert x.grad_fn is not None and weight.grad is None
    total.sum().backward(inputs=[weight])
    assert weight.grad.tolist() == [[1.0] * 3] * 2


def read(x, index):
    return x[index]


def read_a_column(x, index):
    return x[index, 1:]


def write(x, index):
    whole = torch.zeros(2, 3)
    whole[index] = x[: int(index.sum()) if index.dtype is torch.bool else len(index)]
    return whole


def write_a_number(x, index):
    whole = x.clone()
    whole[index] = 0.0
    return whole


def put(x, index):
    return x.index_put((index,), torch.ones(1, 3), accumulate=False)


@pytest.mark.parametrize("use", [read, read_a_column, write, write_a_number, put])
@pytest.mark.parametrize("index", [[1], [False, True]])
def test_index_tensors_must_not_change_before_backward(x, use, index):
    index = torch.tensor(index)
    use(x, index).sum().backward()
    expected, x.grad = x.grad, None
    result = use(x, index).sum()
    result.backward(retain_graph=True)
    assert x.grad.tolist() == expected.tolist()
    index.copy_(index == 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()
    assert x.grad.tolist() == expected.tolist()


@pytest.mark.parametrize("key", [True, [1], (slice(None), [0, 0])])
def test_indices_are_freed_by_backward(x, key):
    result = x[key].sum()
    result.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.backward()


def test_stale_view_converts_to_a_dtype_that_cannot_require_grad(x):
    view = x.clone().split(1)[0]
    with torch.no_grad():
        view.add_(1)
    assert view.to(torch.int64).tolist() == [[2, 3, 4]] and view.bool().all()
    with pytest.raises(RuntimeError, match="Output 0 of Split"):
        view.to(torch.float64)


# what a view of a view may not: (how the first was made, how the second, words of the error)
KINDS = [
    ("no_grad", "grad", "Output 0 of View is a view of a view which was created in no_grad mode and is being modified inplace with grad"),
    ("no_grad", "several", "Output 0 of Split is a view and is being modified inplace. This view is the output of a function that returns"),
    ("inference", "several", "Output 0 of Split is a view of a view which was created in inference mode and is being modified inplace in"),
    ("inference", "no_grad", "A view was created in inference mode and is being modified inplace in normal mode. Given that this use case"),
    ("several", "no_grad", "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use"),
    ("several", "grad", "Output 0 of View is a view and is being modified inplace. This view is the output of a function that returns"),
]


def make_view(kind, x, torch):
    if kind == "several":
        return x.split(5)[0]
    with {"no_grad": torch.no_grad, "inference": torch.inference_mode, "grad": torch.enable_grad}[kind]():
        return x.view_as(x)


@pytest.mark.parametrize(("first", "second", "words"), KINDS)
def test_which_restriction_of_a_view_of_a_view_counts(x, first, second, words):
    view = make_view(second, make_view(first, x.clone(), torch), torch)
    with pytest.raises(RuntimeError) as error:
        view.add_(1)
    assert str(error.value).startswith(words)


@pytest.mark.oracle
@pytest.mark.parametrize(("first", "second", "words"), KINDS)
def test_restrictions_are_worded_as_in_pytorch(oracle, first, second, words):
    messages = []
    for library in (torch, oracle):
        x = library.zeros(2, 3, requires_grad=True)
        view = make_view(second, make_view(first, x.clone(), library), library)
        with pytest.raises(RuntimeError) as error:
            view.add_(1)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
