"""Everyday programs: making tensors, looking at them, changing them, computing with them."""

from __future__ import annotations

import numpy as np
import pytest


# -- making them ------------------------------------------------------------------------------------------------------------
def test_factories_give_the_shape_and_dtype_asked_for(torch):
    assert torch.empty(4, 2).shape == (4, 2)
    assert torch.zeros(2).dtype == torch.float32
    assert torch.ones(2, 2, dtype=torch.long).dtype == torch.int64
    assert torch.full([3, 2], 7).dtype == torch.int64
    assert torch.full([3, 2], 7.0).dtype == torch.float32
    assert torch.eye(3, 2).tolist() == [[1, 0], [0, 1], [0, 0]]


def test_ranges_include_or_exclude_their_end(torch):
    steps = torch.arange(2, 3, 0.3)
    assert torch.allclose(steps, torch.tensor([2.0, 2.3, 2.6, 2.9]))
    assert torch.arange(3).dtype == torch.int64
    assert torch.linspace(-1, 1, 5).tolist() == [-1, -0.5, 0, 0.5, 1]
    assert torch.logspace(0, 3, 4).tolist() == [1, 10, 100, 1000]


def test_likes_take_what_is_not_overridden_from_their_source(torch):
    source = torch.ones(2, 4, dtype=torch.float64)
    assert source.new_ones(3, 1).dtype == torch.float64
    assert source.new_zeros(3, 1, dtype=torch.int).dtype == torch.int32
    assert torch.randn_like(source, dtype=torch.float).dtype == torch.float32
    assert torch.zeros_like(source).shape == torch.ones_like(source).shape == (2, 4)
    assert torch.full_like(source, 3).sum().item() == 24


def test_a_seed_gives_the_documented_numbers(torch):
    torch.manual_seed(5)
    uniform, normal = torch.rand(3, 4), torch.randn(5, 3)
    assert torch.allclose(uniform[0], torch.tensor([0.8303, 0.1261, 0.9075, 0.8199]), atol=5e-5)
    assert torch.allclose(normal[0], torch.tensor([-1.4017, -0.7626, 0.6312]), atol=5e-5)


def test_integer_draws_stay_below_their_upper_bound(torch):
    draws = torch.randint(-2, 3, (500,))
    assert set(draws.tolist()) == {-2, -1, 0, 1, 2}
    assert set(torch.empty(200).random_(0, 3).tolist()) == {0, 1, 2}


def test_a_permutation_shuffles_rows_without_losing_one(torch):
    rows = torch.arange(10).view(5, 2)
    order = torch.randperm(rows.size(0))
    assert sorted(order.tolist()) == [0, 1, 2, 3, 4]
    assert sorted(rows[order][:, 1].tolist()) == rows[:, 1].tolist()


def test_normal_takes_a_mean_and_a_deviation_per_element(torch):
    drawn = torch.normal(mean=torch.arange(100.0, 104.0), std=torch.tensor([0.1, 0.01, 0.001, 0.0]))
    assert drawn.shape == (4,) and drawn.dtype == torch.float32
    assert drawn[3] == 103 and (drawn - torch.arange(100.0, 104.0)).abs().max() < 1


def test_random_fills_work_in_place(torch):
    tensor = torch.Tensor(200, 50)
    assert tensor.uniform_(2, 3) is tensor
    assert tensor.min() >= 2 and tensor.max() <= 3
    assert abs(tensor.normal_(1, 2).mean().item() - 1) < 0.1
    assert tensor.fill_(2).sum().item() == 20000


def test_type_names_combine_device_and_dtype(torch):
    tensor = torch.rand(2, 2)
    assert tensor.type() == "torch.FloatTensor" and not tensor.is_cuda
    assert tensor.type(torch.DoubleTensor).dtype == torch.float64
    assert tensor.int().type() == "torch.IntTensor"
    assert (tensor > 0.5).type() == "torch.BoolTensor"
    assert torch.zeros(1).type_as(tensor.half()).dtype == torch.float16


def test_the_default_dtype_is_that_of_new_tensors(torch):
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Tensor(3).dtype == torch.zeros(1).dtype == torch.tensor(0.5).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.zeros(1).dtype == torch.float32


# -- NumPy ------------------------------------------------------------------------------------------------------------------
def test_from_numpy_shares_memory_both_ways(torch):
    array = np.full(3, 2.0)
    tensor = torch.from_numpy(array)
    tensor[1] = 5
    array *= 10
    assert array.tolist() == tensor.tolist() == [20, 50, 20]
    assert tensor.dtype == torch.float64


def test_tensor_copies_its_data(torch):
    array = np.ones(2)
    tensor = torch.tensor(array)
    tensor[0] = -1
    assert array.tolist() == [1, 1] and tensor.dtype == torch.float64


def test_numpy_shares_memory_and_refuses_what_it_cannot_represent(torch):
    tensor = torch.zeros(2, 3)
    tensor.numpy()[1, 2] = 4
    assert tensor[1, 2] == 4
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(tensor.numpy()[::-1])
    assert torch.from_numpy(tensor.numpy()[::-1].copy())[0, 2] == 4
    needs_grad = torch.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        needs_grad.numpy()
    assert needs_grad.detach().cpu().numpy().shape == (2,)


# -- shapes and views -------------------------------------------------------------------------------------------------------
def test_shape_queries_agree(torch):
    tensor = torch.zeros(4, 1, 3)
    assert tensor.size() == tensor.shape == (4, 1, 3)
    assert tensor.size(-1) == tensor.size()[2] == 3
    assert tensor.numel() == tensor.nelement() == 12 and tensor.dim() == 3
    assert str(tensor.shape) == "torch.Size([4, 1, 3])"


def test_item_and_tolist_give_python_numbers(torch):
    assert torch.tensor([[4.5]]).item() == 4.5
    assert torch.Tensor([[1, 2], [3, 4]]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises((RuntimeError, ValueError)):
        torch.zeros(3).item()


def test_cat_keeps_the_number_of_dimensions_and_stack_adds_one(torch):
    parts = [torch.full((2, 3), float(k)) for k in range(4)]
    assert torch.cat(parts).shape == (8, 3)
    assert torch.cat([torch.zeros(3, 2, 4), torch.zeros(3, 5, 4)], 1).shape == (3, 7, 4)
    stacked = torch.stack(parts, dim=1)
    assert stacked.shape == (2, 4, 3) and stacked[0, :, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError):
        torch.cat([torch.zeros(2, 3), torch.zeros(2, 4)], 0)


def test_chunk_split_and_unbind_give_views(torch):
    table = torch.arange(10.0).view(2, 5)
    left, right = torch.chunk(table, 2, 1)
    assert left.shape == (2, 3) and right.tolist() == [[3, 4], [8, 9]]
    assert len(torch.split(table, 2, 1)) == 3
    head, tail = torch.split(table, [1, 4], dim=1)
    assert head.tolist() == [[0], [5]]
    tail[0, 0] = -7
    assert table[0, 1] == -7
    assert [row.tolist() for row in torch.unbind(torch.eye(2))] == [[1, 0], [0, 1]]


def test_squeeze_undoes_unsqueeze(torch):
    tensor = torch.arange(4)
    assert tensor.unsqueeze(1).shape == (4, 1)
    assert torch.equal(tensor.unsqueeze(0).squeeze(0), tensor)
    assert torch.zeros(1, 3, 1, 2, 1).squeeze().shape == (3, 2)


def test_writing_through_a_view_or_an_alias_changes_the_base(torch):
    base = torch.zeros(3, 2)
    alias, flat = base, base.view(6)
    alias[2, 1] = 1
    flat[0] = 2
    assert base.tolist() == [[2, 0], [0, 0], [0, 1]]
    assert flat.data_ptr() == base.data_ptr()


def test_view_needs_memory_in_order_and_reshape_does_not(torch):
    grid = torch.arange(8).view(2, 4)
    turned = grid.t()
    assert not turned.is_contiguous()
    with pytest.raises(RuntimeError, match="view"):
        turned.view(8)
    assert turned.reshape(8).tolist() == turned.contiguous().view(-1).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    assert grid.view(-1, 2).shape == (4, 2)


def test_transposing_copies_nothing(torch):
    tensor = torch.rand(3, 1, 2)
    assert tensor.transpose(0, 2).shape == tensor.permute(2, 1, 0).shape == (2, 1, 3)
    assert tensor.permute(1, 2, 0).data_ptr() == tensor.data_ptr()
    matrix = torch.zeros(2, 5)
    matrix.t_()
    assert matrix.shape == (5, 2)


def test_expand_repeats_without_memory_and_repeat_copies(torch):
    column = torch.rand(3, 1)
    wide = column.expand(3, 4)
    assert wide.stride() == (1, 0) and wide.data_ptr() == column.data_ptr()
    assert column.expand_as(torch.zeros(3, 7)).shape == (3, 7)
    copied = column.repeat(2, 2)
    assert copied.shape == (6, 2) and copied.data_ptr() != column.data_ptr()
    assert torch.equal(copied[3:, 1:], column)


def test_none_in_an_index_is_a_new_dimension(torch):
    tensor = torch.zeros(2, 3)
    assert tensor[None].shape == (1, 2, 3)
    assert tensor[:, None, :, None].shape == (2, 1, 3, 1)


def test_slices_are_views_and_masks_are_copies(torch):
    table = torch.tensor([[3.0, -1.0], [-4.0, 2.0]])
    assert table[1, 0] == -4 and table[:, -1].tolist() == [-1, 2] and table[1:, 0:1].shape == (1, 1)
    picked = table[table > 0]
    picked[:] = 100
    assert table[table > 0].tolist() == table.masked_select(table > 0).tolist() == [3, 2]
    assert torch.where(table > 0, table, torch.zeros_like(table)).tolist() == [[3, 0], [0, 2]]
    table[0][1] = 9
    table[table < 0] = 1
    assert table.tolist() == [[3, 9], [1, 2]]


def test_nonzero_gives_a_row_of_indices_per_element(torch):
    tensor = torch.tensor([[0, 0, 5], [7, 0, 0]])
    assert torch.nonzero(tensor).tolist() == [[0, 2], [1, 0]]
    assert torch.nonzero(tensor == 0).size(0) == 4


def test_views_have_one_storage(torch):
    tensor = torch.arange(6.0).view(2, 3)
    storage = tensor.untyped_storage()
    assert torch.is_storage(storage) and torch.is_tensor(tensor) and not torch.is_tensor([1])
    assert storage.data_ptr() == tensor.t()[1].untyped_storage().data_ptr()
    assert storage.nbytes() == 24


# -- computing --------------------------------------------------------------------------------------------------------------
def test_clamp_takes_one_limit_or_both(torch):
    tensor = torch.tensor([-3.0, 0.25, 4.0])
    assert torch.clamp(tensor, -1, 2).tolist() == [-1, 0.25, 2]
    assert tensor.clamp(min=0).tolist() == [0, 0.25, 4]
    assert tensor.clamp(max=0).tolist() == [-3, 0, 0]


def test_sorting_gives_values_and_indices(torch):
    table = torch.tensor([[0.3, -1.0, 2.0], [4.0, 0.5, -2.0]])
    values, indices = table.sort(1, True)
    assert indices.tolist() == [[2, 0, 1], [0, 1, 2]] and indices.dtype == torch.int64
    assert values[0].tolist() == pytest.approx([2.0, 0.3, -1.0])
    assert table.sort(0)[1].tolist() == [[0, 0, 1], [1, 1, 0]]
    best = torch.topk(torch.tensor([3.0, 8.0, 1.0, 6.0]), 2)
    assert best.values.tolist() == [8, 6] and best.indices.tolist() == [1, 3]
    assert torch.kthvalue(torch.tensor([9.0, 2.0, 5.0]), 2).values.item() == 5


def test_max_has_three_forms(torch):
    table = torch.tensor([[2.0, 9.0], [4.0, 3.0]])
    assert torch.max(table).item() == 9
    values, indices = torch.max(table, 0)
    assert values.tolist() == [4, 9] and indices.tolist() == [1, 0]
    assert torch.max(table, table.t()).tolist() == [[2, 9], [9, 3]]


def test_comparisons_are_elementwise_and_equal_is_a_python_bool(torch):
    a, b = torch.tensor([4, 5, 6]), torch.tensor([4, 6, 5])
    assert torch.eq(a, b).tolist() == [True, False, False]
    assert torch.lt(a, b).tolist() == [False, True, False]
    assert torch.equal(a, a.clone()) is True
    assert torch.equal(a, b) is False


def test_reductions_and_running_totals(torch):
    x = torch.tensor([2.0, 4.0, 6.0, 8.0])
    assert x.sum() == 20 and x.mean() == 5 and x.prod() == 384
    assert x.median() == 4  # the lower one of the two in the middle
    assert x.var().item() == pytest.approx(20 / 3) and x.std(unbiased=False).item() == pytest.approx(5**0.5)
    assert x.cumsum(0).tolist() == [2, 6, 12, 20] and x.cumprod(0).tolist() == [2, 8, 48, 384]
    assert torch.mode(torch.tensor([3, 1, 3, 2])).values == 3
    assert torch.dist(x, x - 2, 2).item() == 4
    assert torch.norm(torch.tensor([6.0, 8.0])).item() == 10
    assert torch.histc(torch.tensor([1.0, 1.0, 2.0, 4.0]), bins=3, min=1, max=4).tolist() == [2, 1, 1]


def test_rounding_goes_to_even_and_remainders_differ_in_sign(torch):
    x = torch.tensor([-5.5, 4.5])
    assert torch.fmod(x, 3).tolist() == [-2.5, 1.5]
    assert torch.remainder(x, 3).tolist() == [0.5, 1.5]
    assert torch.round(x).tolist() == [-6, 4] and torch.trunc(x).tolist() == [-5, 4]
    assert torch.floor(x).tolist() == [-6, 4] and torch.ceil(x).tolist() == [-5, 5]
    assert torch.frac(x).tolist() == [-0.5, 0.5]


def test_fused_products_quotients_and_interpolation(torch):
    start, a, b = torch.full((2,), 2.0), torch.tensor([8.0, 9.0]), torch.tensor([4.0, 3.0])
    assert torch.addcmul(start, a, b, value=0.25).tolist() == [10, 8.75]
    assert torch.addcdiv(start, a, b, value=2).tolist() == [6, 8]
    assert torch.lerp(a, b, 0.25).tolist() == [7, 7.5]


def test_only_the_in_place_sum_changes_its_operand(torch):
    a, b, out = torch.ones(2, 2), torch.full((2, 2), 3.0), torch.empty(2, 2)
    assert torch.add(a, b, out=out) is out
    assert torch.equal(a + b, torch.add(a, b)) and torch.equal(out, a.add(b))
    assert a.sum() == 4
    assert a.add_(b) is a
    assert a.sum() == 16


def test_matrix_products(torch):
    assert torch.mm(torch.ones(2, 5), torch.ones(5, 3)).tolist() == [[5, 5, 5], [5, 5, 5]]
    assert torch.bmm(torch.ones(4, 2, 3), torch.ones(4, 3, 1)).shape == (4, 2, 1)
    assert torch.mv(torch.eye(3) * 2, torch.arange(3.0)).tolist() == [0, 2, 4]
    assert torch.addmm(torch.ones(2, 2), torch.eye(2), torch.eye(2), beta=2, alpha=3).tolist() == [[5, 2], [2, 5]]
    assert torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 3.0]), torch.tensor([1.0, 2.0])).tolist() == [[1, 2], [3, 6]]
    assert torch.dot(torch.tensor([2.0, 3.0]), torch.tensor([4.0, 5.0])) == 23


def test_rows_are_changed_by_index_in_place(torch):
    rows, table = torch.tensor([1, 2]), torch.zeros(3, 2)
    assert table.index_add_(0, rows, torch.full((2, 2), 4.0)).tolist() == [[0, 0], [4, 4], [4, 4]]
    assert table.index_fill_(0, torch.tensor([0]), 7.0)[0].tolist() == [7, 7]
    assert table.index_copy_(0, rows, torch.eye(2)).tolist() == [[7, 7], [1, 0], [0, 1]]
    assert table.index_select(0, rows).shape == (2, 2) and table.narrow(0, 2, 1).tolist() == [[0, 1]]
    assert table.put_(torch.tensor([0, 5]), torch.tensor([-1.0, -2.0])).tolist() == [[-1, 7], [1, 0], [0, -2]]
    table.index_put_((torch.tensor([1]), torch.tensor([1])), torch.tensor(6.0))
    assert table[1, 1] == 6


def test_scatter_makes_one_hot_rows_and_sums(torch):
    labels = torch.tensor([1, 3, 0])
    hot = torch.zeros(3, 4, dtype=torch.long).scatter_(1, labels.unsqueeze(1), 1)
    assert hot.tolist() == [[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    assert torch.zeros(3).scatter_add_(0, torch.tensor([2, 2, 1]), torch.tensor([1.0, 2.0, 4.0])).tolist() == [0, 4, 3]


def test_shapes_broadcast_from_the_right(torch):
    assert (torch.zeros(4, 1) + torch.zeros(1, 2)).shape == (4, 2)
    assert (torch.zeros(2, 1, 3) * torch.zeros(5, 1)).shape == (2, 5, 3)
    with pytest.raises(RuntimeError, match="must match"):
        torch.zeros(2) + torch.zeros(3)


def test_in_place_operations_keep_the_memory_and_rebinding_does_not(torch):
    x, y = torch.ones(2), torch.ones(2)
    address, kept = y.data_ptr(), y
    y.add_(x)
    y += x
    assert y.data_ptr() == address and kept.tolist() == [3, 3]
    y = y + x
    assert y.data_ptr() != address and kept.tolist() == [3, 3]


def test_windows_lie_between_0_and_1(torch):
    for window in (torch.bartlett_window, torch.blackman_window, torch.hamming_window, torch.hann_window):
        values = window(9)
        assert values.shape == (9,) and values.min() > -1e-6 and values.max() <= 1 + 1e-6


def test_meshgrid_repeats_rows_and_columns(torch):
    rows, columns = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
    assert rows.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert columns.tolist() == [[0, 1], [0, 1], [0, 1]]


def test_printing_follows_its_options(torch):
    torch.set_printoptions(precision=1)
    try:
        assert repr(torch.tensor([2.71828])) == "tensor([2.7])"
    finally:
        torch.set_printoptions(profile="default")
    assert repr(torch.tensor([2.71828])) == "tensor([2.7183])"


def test_the_number_of_threads_reads_back(torch):
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1


def test_accuracy_of_class_scores(torch):
    scores, labels = torch.tensor([[0.2, 0.5, 0.3], [0.9, 0.0, 0.1], [0.1, 0.2, 0.7]]), torch.tensor([1, 2, 2])
    hits = (scores.argmax(dim=1) == labels).sum().item()
    assert hits == 2 and hits / labels.size(0) == pytest.approx(2 / 3)
