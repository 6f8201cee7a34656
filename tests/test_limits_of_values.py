"""Numbers at and beyond the limits of a dtype, NaN in matrices, ties: what PyTorch computes and what it refuses."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau.core.calls.machine_calls import python_only

F = torch.nn.functional
NAN, INF = math.nan, math.inf
REFUSED = pytest.raises(RuntimeError, match="without overflow")


@pytest.mark.parametrize("name", ["median", "nanmedian", "max", "min"])
def test_ties_of_all_elements_share_the_gradient(name: str) -> None:
    x = torch.tensor([[2.0, 2.0], [2.0, 7.0], [2.0, 1.0]] if name != "min" else [[2.0, 2.0], [2.0, 7.0], [2.0, 9.0]], requires_grad=True)
    tied = x.detach() == getattr(x, name)()
    (grad,) = torch.autograd.grad(getattr(x, name)(), x, torch.tensor(INF))
    assert grad.tolist() == torch.where(tied, INF, 0.0).tolist()  # not NaN beside an infinite gradient
    (grad,) = torch.autograd.grad(getattr(x, name)(), x)
    torch.testing.assert_close(grad, tied / tied.sum())
    rows = torch.vmap(torch.func.grad(lambda row: getattr(row, name)()))(x.detach())
    assert rows[0].tolist() == [0.5, 0.5]
    change = torch.func.jvp(lambda z: getattr(z, name)(), (x.detach(),), (torch.arange(6.0).view(3, 2),))[1]
    torch.testing.assert_close(change, torch.arange(6.0).view(3, 2)[tied].mean())


def test_median_of_nan_sends_its_gradient_to_each_nan() -> None:
    x = torch.tensor([NAN, 1.0, NAN], requires_grad=True)
    assert torch.autograd.grad(x.median(), x)[0].tolist() == [0.5, 0.0, 0.5]
    assert torch.autograd.grad(x.nanmedian(), x)[0].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.parametrize("upper", [False, True])
def test_a_matrix_with_nan_has_no_cholesky_factor(n: int, dtype: torch.dtype, upper: bool) -> None:
    whole, broken = torch.eye(n, dtype=dtype), torch.eye(n, dtype=dtype)
    broken[1, 1] = NAN
    assert torch.linalg.cholesky_ex(torch.stack([whole, broken, -whole]), upper=upper).info.tolist() == [0, 2, 1]
    with pytest.raises(torch.linalg.LinAlgError, match="order 2"):
        torch.linalg.cholesky(broken, upper=upper)


@pytest.mark.parametrize("form", ["pinv", "eigvalsh", "hermitian pinv", "matrix_rank"])
def test_decompositions_of_nan_raise_pytorchs_error(form: str) -> None:
    matrix = torch.full((3, 3), NAN)
    calls = {
        "pinv": lambda: torch.linalg.pinv(matrix),
        "eigvalsh": lambda: torch.linalg.eigvalsh(matrix),
        "hermitian pinv": lambda: torch.linalg.pinv(matrix, hermitian=True),
        "matrix_rank": lambda: torch.linalg.matrix_rank(matrix, hermitian=True),
    }
    with pytest.raises(torch.linalg.LinAlgError):
        calls[form]()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_filling_with_what_16_bits_cannot_hold_is_infinite(dtype: torch.dtype) -> None:
    x, chosen = torch.zeros(2, dtype=dtype), torch.tensor([True, False])
    assert torch.full((1,), -1e39, dtype=dtype).item() == torch.full_like(x, -1e39)[0].item() == -INF
    assert x.clone().fill_(1e39).tolist() == [INF, INF]
    assert torch.where(chosen, -1e39, x).tolist() == [-INF, 0]
    x[chosen] = 1e39
    assert x.tolist() == [INF, 0]
    with REFUSED:
        x.masked_fill(chosen, -1e39)
    with REFUSED:
        torch.full((1,), 1e39)  # float32 keeps to its limits


def test_fractions_do_not_wrap_in_unsigned_integers() -> None:
    assert torch.full((1,), -1, dtype=torch.uint8).item() == 255
    for value in (-1.0, -0.5, 255.5):
        with REFUSED:
            torch.full((1,), value, dtype=torch.uint8)
        with REFUSED:
            torch.zeros(1, dtype=torch.uint8).fill_(value)
        with REFUSED:
            torch.tensor([value], dtype=torch.uint8)


@pytest.mark.parametrize(
    ("end", "dtype"), [(300, torch.uint8), (INF, torch.int64), (NAN, torch.int64), (1e30, torch.int64), (1e39, torch.float16)]
)
def test_ends_that_do_not_fit_are_refused(end: float, dtype: torch.dtype) -> None:
    with REFUSED:
        torch.linspace(0, end, 3, dtype=dtype)
    assert torch.linspace(0, end, 1, dtype=dtype).tolist() == [0]  # only the first is needed
    if not dtype.is_floating_point:
        with REFUSED:
            torch.logspace(0, end, 3, dtype=dtype)


def test_margins_of_integer_scores() -> None:
    first, second, sign = torch.tensor([1, 5]), torch.tensor([2, 2]), torch.tensor([1, -1])
    ranking = F.margin_ranking_loss(first, second, sign, reduction="none")
    assert ranking.dtype is torch.float32 and ranking.tolist() == [1, 3]
    embedding = F.hinge_embedding_loss(torch.tensor([1, -3]), sign, margin=1.5, reduction="none")
    assert embedding.dtype is torch.int64 and embedding.tolist() == [1, 4]


def test_distances_of_nan_are_nan() -> None:
    points = torch.tensor([[NAN, 1.0], [0.0, 1.0], [0.0, 2.0]])
    assert torch.cdist(points[1:], points[1:], p=0).tolist() == [[0, 1], [1, 0]]
    assert torch.cdist(points[:1], points, p=0).isnan().all()
    assert torch.pdist(points, p=0).isnan().tolist() == [True, True, False]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_no_offsets_are_no_bags(mode: str) -> None:
    table, indices = torch.arange(12.0).view(4, 3), torch.tensor([0, 1, 3])
    assert F.embedding_bag(indices, table, torch.tensor([], dtype=torch.int64), mode=mode).shape == (0, 3)
    with pytest.raises(RuntimeError, match="at least 1"):
        F.embedding_bag(indices, table, torch.tensor([], dtype=torch.int64), mode=mode, include_last_offset=True)
    with pytest.raises(RuntimeError, match="do not fall"):
        F.embedding_bag(indices, table, torch.tensor([0, 2, 1]), mode=mode)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_large_bags_of_halves_do_not_stop_growing(dtype: torch.dtype, weighted: bool) -> None:
    table, indices = torch.ones(2, 1, dtype=dtype), torch.ones(3000, dtype=torch.int64)
    factors = torch.ones(3000, dtype=dtype) if weighted else None
    bags = F.embedding_bag(indices, table, torch.tensor([0]), mode="sum", per_sample_weights=factors)
    assert bags.dtype is dtype and bags.tolist() == torch.tensor([[3000.0]]).to(dtype).tolist()
    if not weighted:
        assert F.embedding_bag(indices, table, torch.tensor([0]), mode="mean").tolist() == [[1]]


def test_what_is_padded_with_has_a_place_in_the_dtype() -> None:
    x = torch.zeros(2, dtype=torch.uint8)
    assert F.pad(x, (1, 0), value=-1).tolist() == [255, 0, 0] and F.pad(x, (1, 0), value=2.7).tolist() == [2, 0, 0]
    for value in (300, float("inf")):
        with pytest.raises(RuntimeError, match="without overflow"):
            F.pad(x, (1, 0), value=value)
    assert F.pad(x, (-1, 0), value=300).tolist() == [0]  # nothing is put in


def test_nothing_is_filled_at_no_indices() -> None:
    assert torch.tensor(5.0).index_fill(0, torch.zeros(0, dtype=torch.int64), 1).item() == 5
    assert torch.tensor(5.0).index_fill(0, torch.tensor([0]), 1).item() == 1


def test_values_and_places_out_of_range() -> None:
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([NAN]))
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        torch.searchsorted(torch.arange(3.0), torch.arange(3.0), sorter=torch.tensor([0, 5, 1]))


@pytest.mark.parametrize("n", [5, 100_000])
def test_limits_and_factors_of_integers_must_fit(n: int) -> None:
    x = torch.arange(n).to(torch.uint8)
    for limits in ({"max": 300}, {"min": -300}, {"min": 1, "max": 1000}):
        with REFUSED:
            x.clamp(**limits)
        with REFUSED:
            x.clone().clamp_(**limits)
    for call in (torch.add, torch.sub):
        with REFUSED:
            call(x, x, alpha=300)
    with REFUSED:
        torch.addcmul(x, x, x, value=300)
    assert x.clamp(1, 200)[:5].tolist() == [1, 1, 2, 3, 4]
    assert torch.sub(x, x, alpha=2)[:3].tolist() == [0, 255, 254]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_nan_among_what_is_looked_for_hides_nothing(dtype: torch.dtype) -> None:
    values = (torch.arange(200) % 50).to(dtype)
    values[3] = NAN
    wanted = torch.cat([torch.tensor([NAN]), torch.arange(20)]).to(dtype)
    assert torch.equal(torch.isin(values, wanted), (values.unsqueeze(1) == wanted).any(1))
    assert torch.equal(torch.isin(values, wanted, invert=True), ~torch.isin(values, wanted))


def test_copies_that_are_filled_by_index_keep_the_order_of_dimensions() -> None:
    x, place = torch.zeros(4, 3).t(), torch.tensor([0])
    assert x.index_fill(0, place, 1).stride() == (1, 3)
    assert x.index_put((place,), torch.tensor(1.0)).stride() == (1, 3)
    assert x.index_add(0, place, torch.ones(1, 4)).stride() == (4, 1)  # unlike these


@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr"])
def test_sparse_zeros_and_logarithms_have_derivatives(form: str) -> None:
    a = getattr(torch.tensor([[0.0, 1.0], [3.0, 0.0]]), form)().requires_grad_()
    weights = torch.tensor([[1.0, 2.0], [8.0, 4.0]])
    (grad,) = torch.autograd.grad((a.log1p().to_dense() * weights).sum(), a)
    assert grad.layout is a.layout and grad.to_dense().tolist() == [[0, 1], [2, 0]]
    assert a.clone().zero_().to_dense().tolist() == [[0, 0], [0, 0]]


def test_ranges_of_integers_end_within_int64() -> None:
    for end, dtype in ((1e30, torch.int64), (1e30, torch.int32), (1 << 63, None)):
        with REFUSED:
            torch.arange(0, end, end // 4, dtype=dtype)
    assert torch.arange((1 << 63) - 3, (1 << 63) - 1).tolist() == [(1 << 63) - 3, (1 << 63) - 2]


def test_sums_to_a_shape_are_row_major() -> None:
    x = torch.arange(30.0).view(5, 2, 3).permute(1, 2, 0)
    assert [x.sum_to_size(shape).stride() for shape in ((1, 3, 5), (2, 1, 5), (3, 5))] == [(15, 5, 1), (5, 5, 1), (5, 1)]


def test_bools_have_no_vector_product() -> None:
    with pytest.raises(NotImplementedError, match="Bool"):
        torch.linalg.cross(torch.ones(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [3, 8, 64])
def test_infinities_of_both_signs_give_nan_without_a_warning(size: int, dtype: torch.dtype) -> None:
    a, ones = torch.ones(size, size, dtype=dtype), torch.ones(size, 2 * size, dtype=dtype)[:, ::2]
    a[0, :2] = torch.tensor([INF, -INF])
    with python_only():
        results = [a @ ones, F.linear(a, ones), F.linear(a, ones, ones[0]), a.mm(ones), a.mv(ones[0]), a.sum(1), a.mean(1)]
        of_rows = [a[0] @ ones, F.linear(a[:1], ones, ones[0]), a[0].sum(), a[0].mean()]
    assert all(result[0].isnan().all() and not result[1:].isnan().any() for result in results)
    assert all(result.isnan().all() for result in of_rows)


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1, 10**400])
def test_integers_of_more_than_64_bits_do_not_wrap(number: int) -> None:
    x = torch.arange(3)
    for call in (lambda: x + number, lambda: number - x, lambda: x == number, lambda: x * number, lambda: x.add_(number)):
        with pytest.raises(OverflowError):
            call()
    assert x.tolist() == [0, 1, 2] and (x + (2**64 - 1)).tolist() == [-1, 0, 1]


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1, 1 << 70])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_integers_of_more_than_64_bits_fill_nothing(dtype: torch.dtype, number: int) -> None:
    x = torch.ones(3, dtype=dtype)
    calls = (
        lambda: torch.full((2,), number, dtype=dtype),
        lambda: torch.full_like(x, number),
        lambda: x.new_full((2,), number),
        lambda: x.fill_(number),
        lambda: x.masked_fill(x > 0, number),
        lambda: torch.where(x > 0, x, number),
        lambda: x.__setitem__(0, number),
    )
    for call in calls:
        with pytest.raises(OverflowError):
            call()
    assert x.tolist() == [1, 1, 1] and torch.full((2,), (1 << 64) - 1, dtype=torch.float64).tolist() == [2.0**64] * 2
