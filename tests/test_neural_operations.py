"""Properties of the neural-network operations that samples and references do not show: state, training runs, node names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numeric_gradient import check_gradients
from oracle import pytorch

import flambeau
import flambeau.nn.functional as F


def tensor(*shape: int, seed: int = 0, dtype: str = "float64", requires_grad: bool = False) -> Any:
    result = flambeau.from_numpy(np.random.RandomState(seed).randn(*shape).astype(dtype))
    return result.requires_grad_(requires_grad)


def test_batch_norm_moves_running_moments_with_the_unbiased_variance() -> None:
    x = tensor(6, 3, 2)
    mean, var = flambeau.zeros(3, dtype=flambeau.float64), flambeau.ones(3, dtype=flambeau.float64)
    F.batch_norm(x, mean, var, training=True, momentum=0.25)
    values = x.numpy()
    np.testing.assert_allclose(mean.numpy(), 0.25 * values.mean((0, 2)))
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * values.var((0, 2), ddof=1))
    assert mean._version == 1
    before = mean.numpy().copy()
    F.batch_norm(x, mean, var)
    np.testing.assert_array_equal(mean.numpy(), before)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_gradients_to_second_order(training: bool) -> None:
    x, weight, bias = (tensor(*shape, seed=k, requires_grad=True) for k, shape in enumerate([(4, 3, 2), (3,), (3,)]))
    mean, var = tensor(3, seed=5), tensor(3, seed=6).abs() + 0.5

    def norm(*args: Any) -> Any:
        return F.batch_norm(args[0], mean.clone(), var.clone(), args[1], args[2], training)

    check_gradients(norm, (x, weight, bias), {}, second=True, where=f"batch_norm(training={training})", seed=lambda: None)


@pytest.mark.parametrize("shape", [(64, 16, 4, 4), (3, 4, 9, 10)])  # short rows go through channels-last columns
def test_convolution_of_short_and_long_rows_is_the_same_sum(shape: tuple[int, ...]) -> None:
    x, w = tensor(*shape), tensor(5, shape[1], 3, 3, seed=1)
    padded = np.pad(x.numpy(), [(0, 0), (0, 0), (1, 1), (1, 1)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    np.testing.assert_allclose(F.conv2d(x, w, padding=1).numpy(), np.einsum("nchwij,ocij->nohw", seen, w.numpy()), atol=1e-10)


def test_convolution_keeps_channels_last_memory() -> None:
    x = tensor(2, 3, 5, 5).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    result = F.max_pool2d(F.conv2d(x, tensor(4, 3, 3, 3, seed=1)), 2)
    assert result.is_contiguous(memory_format=flambeau.channels_last)
    plain = F.max_pool2d(F.conv2d(x.contiguous(), tensor(4, 3, 3, 3, seed=1)), 2)
    assert plain.is_contiguous()
    np.testing.assert_allclose(result.numpy(), plain.numpy())


def test_max_pool_sends_the_gradient_to_the_first_of_equal_maxima() -> None:
    x = flambeau.zeros(1, 1, 2, 4, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy()[0, 0], [[1, 0, 1, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 40])  # with and without a kernel
def test_the_result_of_max_pool_may_be_written_to(rank: int, size: int) -> None:
    x = flambeau.randn(3, 5, *(size,) * rank, requires_grad=True)
    pooled = getattr(F, f"max_pool{rank}d")
    (expected,) = flambeau.autograd.grad(F.relu(pooled(x, 2)).sum(), x)
    (gradient,) = flambeau.autograd.grad(F.relu(pooled(x, 2), inplace=True).sum(), x)
    assert gradient.any() and gradient.equal(expected)


def test_fractional_max_pool_takes_the_last_nan_and_the_first_of_equal_maxima() -> None:
    x = flambeau.tensor([[[float("nan"), float("nan")], [1.0, 2.0]], [[1.0, 3.0], [3.0, 0.0]]])
    values, indices = F.fractional_max_pool2d(x, 2, output_size=1, return_indices=True)
    assert indices.flatten().tolist() == [1, 1] and values[1].item() == 3


def test_padding_of_max_pool_never_receives_a_gradient() -> None:
    x = flambeau.full((1, 1, 2, 2), -float("inf"), requires_grad=True)
    F.max_pool2d(x, 3, 1, 1).sum().backward()
    assert float(x.grad.sum()) == 4


def test_the_padding_row_of_an_embedding_gets_no_gradient() -> None:
    table = tensor(4, 2, requires_grad=True)
    words = flambeau.from_numpy(np.array([0, 1, 1, 3]))
    F.embedding(words, table, padding_idx=3).sum().backward()
    np.testing.assert_array_equal(table.grad.numpy()[:, 0], [1, 2, 0, 0])


def test_embedding_scales_long_rows_in_place() -> None:
    table = flambeau.full((3, 4), 2.0)
    F.embedding(flambeau.from_numpy(np.array([1])), table, max_norm=1.0)
    np.testing.assert_allclose(np.linalg.norm(table.numpy(), axis=1), [4, 1, 4], rtol=1e-6)


def test_sparse_embedding_has_an_entry_for_each_look_up() -> None:
    table = tensor(3, 4).requires_grad_()
    F.embedding(flambeau.from_numpy(np.array([2, 1, 2])), table, padding_idx=1, sparse=True).sum().backward()
    assert table.grad.is_sparse and table.grad._indices().tolist() == [[2, 2]]
    assert table.grad.to_dense().tolist() == [[0] * 4, [0] * 4, [2] * 4]
    with pytest.raises(ValueError, match="max mode"):
        F.embedding_bag(flambeau.from_numpy(np.array([[1]])), table, mode="max", sparse=True)


def test_cross_entropy_is_finite_for_extreme_scores() -> None:
    x = flambeau.from_numpy(np.array([[1e4, -1e4, 0.0]], np.float32)).requires_grad_()
    loss = F.cross_entropy(x, flambeau.from_numpy(np.array([1])))
    loss.backward()
    assert loss.item() == 2e4
    np.testing.assert_allclose(x.grad.numpy(), [[1, -1, 0]])


def test_an_ignored_target_hides_infinite_scores() -> None:
    x = flambeau.from_numpy(np.array([[0.0, 1.0], [-np.inf, -np.inf]])).requires_grad_()
    loss = F.cross_entropy(x, flambeau.from_numpy(np.array([1, -100])))
    loss.backward()
    assert np.isfinite(loss.item())
    np.testing.assert_array_equal(x.grad.numpy()[1], 0)


def test_cross_entropy_weights_and_gradients_to_second_order() -> None:
    weight, labels = tensor(3, seed=4).abs() + 0.1, flambeau.from_numpy(np.array([0, 2, 1, 1]))

    def loss(scores: Any) -> Any:
        return F.cross_entropy(scores, labels, weight, ignore_index=0)

    check_gradients(loss, (tensor(4, 3, requires_grad=True),), {}, second=True, where="cross_entropy", seed=lambda: None)


@pytest.mark.parametrize("target", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("scores", ["float64", "float32", "bfloat16"])
def test_binary_cross_entropy_with_logits_has_its_targets_dtype(scores: str, target: str, oracle: Any) -> None:
    def loss_and_gradient(library: Any) -> list[Any]:
        given = library.tensor([0.25, -2.0, 1.0], dtype=getattr(library, scores), requires_grad=True)
        aims = library.tensor([0.0, 1.0, 1.0], dtype=getattr(library, target))
        loss = library.nn.functional.binary_cross_entropy_with_logits(given, aims, pos_weight=library.ones(3))
        loss.backward()
        return [(str(part.dtype).split(".")[1], part.detach().double().numpy()) for part in (loss, given.grad)]

    tolerance = 0.02 if "bfloat16" in (scores, target) else 1e-6
    for ours, theirs in zip(loss_and_gradient(flambeau), loss_and_gradient(oracle), strict=True):
        assert ours[0] == theirs[0]
        np.testing.assert_allclose(ours[1], theirs[1], tolerance)


def test_binary_cross_entropy_with_logits_gradients_to_second_order() -> None:
    weight, positive, target = tensor(4, seed=4).abs(), tensor(4, seed=5).abs(), tensor(3, 4, seed=6).sigmoid().requires_grad_()

    def loss(scores: Any, aims: Any) -> Any:
        return F.binary_cross_entropy_with_logits(scores, aims, weight, pos_weight=positive)

    check_gradients(loss, (tensor(3, 4, requires_grad=True), target), {}, second=True, where="bce_with_logits", seed=lambda: None)


@pytest.mark.parametrize(
    ("given", "expected"), [({"size_average": False}, "sum"), ({"reduce": False}, "none"), ({"size_average": True}, "mean")]
)
def test_old_reduction_arguments_warn_and_win(given: dict[str, bool], expected: str) -> None:
    x, y = tensor(3), tensor(3, seed=1)
    with pytest.warns(UserWarning, match=f"please use reduction='{expected}'"):
        loss = F.mse_loss(x, y, **given)
    np.testing.assert_array_equal(loss.numpy(), F.mse_loss(x, y, reduction=expected).numpy())


def test_another_target_size_warns() -> None:
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(tensor(3, 2), tensor(3, 1))


def test_node_names_are_pytorchs() -> None:
    x, w, labels = tensor(2, 3, 4, 4, requires_grad=True), tensor(2, 3, 3, 3), flambeau.from_numpy(np.array([0, 2]))
    results = [
        F.conv2d(x, w), F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.batch_norm(x, None, None, training=True), F.layer_norm(x, (4,)),
        F.cross_entropy(x[:, :, 0, 0], labels), F.mse_loss(x, x.detach()), F.embedding(labels, x[0, 0]),
    ]  # fmt: skip
    assert [result.grad_fn.name().removesuffix("Backward0") for result in results] == [
        "Convolution", "MaxPool2DWithIndices", "AvgPool2D", "NativeBatchNorm", "NativeLayerNorm", "NllLoss", "MseLoss", "Embedding",
    ]  # fmt: skip


def _train(library: Any, functional: Any, steps: int) -> list[float]:
    """Losses of a small convolutional network on made-up images."""
    rng = np.random.RandomState(0)
    shapes = [(8, 1, 3, 3), (8,), (8,), (8,), (16, 8, 3, 3), (16,), (5, 64), (5,)]
    scales = [0.3, 0, 1, 0, 0.1, 0, 0.1, 0]
    weights = [(rng.randn(*shape) * scale).astype(np.float32) for shape, scale in zip(shapes, scales, strict=True)]
    weights[2] = np.ones(8, np.float32)
    params = [library.from_numpy(weight.copy()).requires_grad_() for weight in weights]
    mean, var = library.zeros(8), library.ones(8)
    images, labels = rng.randn(128, 1, 8, 8).astype(np.float32), rng.randint(0, 5, 128)
    losses = []
    library.manual_seed(3)
    for step in range(steps):
        chosen = slice(step % 4 * 32, step % 4 * 32 + 32)
        x, y = library.from_numpy(images[chosen].copy()), library.from_numpy(labels[chosen].astype(np.int64))
        h = functional.batch_norm(functional.conv2d(x, params[0], params[1], padding=1), mean, var, params[2], params[3], True)
        h = functional.max_pool2d(functional.relu(h), 2)
        h = functional.dropout(functional.max_pool2d(functional.relu(functional.conv2d(h, params[4], params[5], padding=1)), 2), 0.2)
        loss = functional.cross_entropy(functional.linear(h.flatten(1), params[6], params[7]), y)
        loss.backward()
        with library.no_grad():
            for param in params:
                param.sub_(param.grad, alpha=0.05)
                param.grad = None
        losses.append(loss.item())
    return losses


@pytest.mark.oracle
def test_training_follows_pytorch_step_by_step() -> None:
    torch = pytorch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = _train(torch, torch.nn.functional, 60)
    np.testing.assert_allclose(_train(flambeau, F, 60), theirs, rtol=1e-4)


def test_training_lowers_the_loss() -> None:
    losses = _train(flambeau, F, 40)
    assert np.mean(losses[-4:]) < 0.9 * np.mean(losses[:4])


@pytest.mark.parametrize(
    ("images", "kernel", "options"),
    [
        ((2, 5, 3), (7, 5, 1), {}),
        ((2, 5, 3, 4), (7, 5, 1, 1), {}),
        ((2, 5, 3, 4, 2), (7, 5, 1, 1, 1), {}),
        ((2, 256, 9), (128, 256, 3), {"stride": 2, "padding": 1}),
        ((2, 96, 7, 6), (128, 96, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    ],
)
def test_a_sample_is_convolved_by_one_product_as_it_is_in_a_batch(images: Any, kernel: Any, options: Any) -> None:
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(images)]
    x, weight = tensor(*images, requires_grad=True), tensor(*kernel, seed=1, requires_grad=True)
    bias = tensor(kernel[0], seed=2)
    both = convolve(x, weight, bias, **options)
    expected = flambeau.autograd.grad(both[1].sin().sum(), (x, weight))
    for same in (weight, weight.transpose(0, 1).contiguous().transpose(0, 1)):
        one = convolve(x[1:], same, bias, **options)
        assert one.is_contiguous() and flambeau.allclose(one, both[1:])
        gradients = flambeau.autograd.grad(one.sin().sum(), (x, weight))
        assert all(flambeau.allclose(*pair) for pair in zip(gradients, expected, strict=True))


def test_grouped_products_have_the_gradients_of_their_groups_and_zeros_behind_them() -> None:
    rows, experts = flambeau.randn(12, 8, requires_grad=True), flambeau.randn(2, 8, 8, requires_grad=True)
    result = F.grouped_mm(rows, experts, offs=flambeau.tensor([3, 10], dtype=flambeau.int32))
    wanted = flambeau.cat([rows[:3] @ experts[0], rows[3:10] @ experts[1], flambeau.zeros(2, 8)])
    flambeau.testing.assert_close(result, wanted)
    weight = flambeau.randn(12, 8)
    for one, two in zip(*(flambeau.autograd.grad((y * weight).sum(), (rows, experts)) for y in (result, wanted)), strict=True):
        flambeau.testing.assert_close(one, two)
    columns = experts.detach().mT.contiguous().mT.to(flambeau.bfloat16)
    result = F.grouped_mm(rows.detach().to(flambeau.bfloat16), columns[..., :4], offs=flambeau.tensor([12, 12], dtype=flambeau.int32))
    assert result.shape == (12, 4) and result.dtype is flambeau.bfloat16


@pytest.mark.oracle
@pytest.mark.parametrize("size", [7, 16, 28, 33])
@pytest.mark.parametrize("align_corners", [False, True])
def test_the_grid_of_no_change_is_pytorchs_to_the_bit(size: int, align_corners: bool) -> None:
    """Each place is a pixel's middle, where the slope of ``grid_sample`` jumps: its gradient depends on the last bit."""
    theirs = pytorch()
    grids = []
    for library in (flambeau, theirs):
        grid = library.nn.functional.affine_grid(library.eye(2, 3).unsqueeze(0), (1, 1, size, size), align_corners)
        grids.append(grid.numpy())
    np.testing.assert_array_equal(*grids)
