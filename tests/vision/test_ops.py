"""``vision.ops``: against torchvision where its Python runs, against plain loops over the papers' formulas where it needs compiled code."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from oracle_vision import torchvision

import flambeau as torch
from flambeau.vision import ops

rng = np.random.default_rng(0)


def boxes_of(count: int, size: float = 60.0, seed: int = 0) -> np.ndarray:
    """Corners of random boxes in a square of ``size``."""
    draw = np.random.default_rng(seed)
    corner = draw.uniform(0, size * 0.7, (count, 2))
    return np.concatenate([corner, corner + draw.uniform(1, size * 0.3, (count, 2))], axis=1)


def same(ours, theirs, **tolerances):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), **{"rtol": 1e-6, "atol": 1e-7, **tolerances})
    assert str(ours.dtype) == str(theirs.dtype)


# -- the package -----------------------------------------------------------------------------------------------------------------
def test_names_and_signatures_are_the_oracles():
    theirs = torchvision().ops
    assert sorted(ops.__all__) == sorted(theirs.__all__)
    for name in ops.__all__:
        ours, other = (inspect.signature(getattr(module, name)).parameters.values() for module in (ops, theirs))
        assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in other] or name in _OTHER_DEFAULTS, name
    assert callable(ops.roi_align) and callable(ops.roi_pool)


_OTHER_DEFAULTS = {"MLP", "Conv2dNormActivation", "Conv3dNormActivation", "SqueezeExcitation"}  # their defaults are layers, ours


# -- boxes ----------------------------------------------------------------------------------------------------------------------
def test_formats_and_areas_are_the_oracles(oracle):
    theirs = torchvision().ops
    aligned, rotated = boxes_of(5).astype(np.float32), np.concatenate([boxes_of(4), rng.uniform(-180, 180, (4, 1))], axis=1)
    for formats, values in ((("xyxy", "xywh", "cxcywh"), aligned), (("xywhr", "cxcywhr"), rotated)):
        for first in formats:
            for second in (*formats, *(("xyxyxyxy",) if len(formats) == 2 else ())):
                for array in (values, values.astype(np.int64)):
                    ours = ops.box_convert(torch.from_numpy(array), first, second)
                    same(ours, theirs.box_convert(oracle.from_numpy(array), first, second), atol=1e-5)
                    if second == "xyxyxyxy":
                        corners = oracle.from_numpy(ours.numpy())
                        same(ops.box_convert(ours, second, first), theirs.box_convert(corners, second, first), atol=1e-5)
    for fmt in ("xyxy", "xywh", "cxcywh"):
        same(ops.box_area(torch.from_numpy(aligned), fmt), theirs.box_area(oracle.from_numpy(aligned), fmt))
    with pytest.raises(ValueError):
        ops.box_convert(torch.zeros(1, 4), "xyxy", "nothing")
    with pytest.raises(NotImplementedError):
        ops.box_convert(torch.zeros(1, 4), "xyxy", "xywhr")


def test_overlaps_losses_and_choices_are_the_oracles(oracle):
    theirs = torchvision().ops
    first, second = boxes_of(6, seed=1), boxes_of(6, seed=2)
    a, b = torch.tensor(first, requires_grad=True), torch.tensor(second)
    c, d = oracle.tensor(first, requires_grad=True), oracle.tensor(second)
    for fmt in ("xyxy", "xywh", "cxcywh"):
        same(ops.box_iou(a, b, fmt), theirs.box_iou(c, d, fmt))
    for name in ("generalized_box_iou", "distance_box_iou", "complete_box_iou"):
        same(getattr(ops, name)(a[:4], b), getattr(theirs, name)(c[:4], d))
        for reduction in ("none", "mean", "sum"):
            same(getattr(ops, f"{name}_loss")(a, b, reduction), getattr(theirs, f"{name}_loss")(c, d, reduction))
        a.grad = c.grad = None
        getattr(ops, f"{name}_loss")(a, b, "sum").backward()
        getattr(theirs, f"{name}_loss")(c, d, "sum").backward()
        same(a.grad, c.grad)
    assert ops.generalized_box_iou_loss(torch.zeros(0, 4), torch.zeros(0, 4), "mean").item() == 0
    with pytest.raises(ValueError):
        ops.distance_box_iou_loss(a, b, "median")
    same(ops.clip_boxes_to_image(b, (20, 30)), theirs.clip_boxes_to_image(d, (20, 30)))
    same(ops.remove_small_boxes(b, 8.0), theirs.remove_small_boxes(d, 8.0))
    masks = rng.random((4, 7, 9)) > 0.9
    masks[2] = False
    same(ops.masks_to_boxes(torch.from_numpy(masks)), theirs.masks_to_boxes(oracle.from_numpy(masks)))
    assert ops.masks_to_boxes(torch.zeros(0, 3, 3)).shape == (0, 4)
    logits, targets = rng.standard_normal((3, 4)), (rng.random((3, 4)) > 0.5).astype(np.float64)
    for options in ({}, {"alpha": -1}, {"gamma": 1.5, "reduction": "mean"}):
        ours = ops.sigmoid_focal_loss(torch.from_numpy(logits), torch.from_numpy(targets), **options)
        same(ours, theirs.sigmoid_focal_loss(oracle.from_numpy(logits), oracle.from_numpy(targets), **options))


def test_overlap_of_rotated_boxes():
    square, turned = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]]), torch.tensor([[0.0, 0.0, 2.0, 2.0, 45.0], [5.0, 5.0, 1.0, 1.0, 30.0]])
    octagon = 8 * (math.sqrt(2) - 1)  # a square and itself turned by 45 degrees meet in a regular octagon of inradius 1
    expected = octagon / (8 - octagon)
    np.testing.assert_allclose(ops.box_iou(square, turned, "cxcywhr").numpy(), [[expected, 0.0]], rtol=1e-6)
    aligned = torch.tensor(boxes_of(7))
    as_rotated = torch.cat([ops.box_convert(aligned, "xyxy", "cxcywh"), torch.zeros(7, 1, dtype=torch.float64)], 1)
    np.testing.assert_allclose(ops.box_iou(as_rotated, as_rotated, "cxcywhr").numpy(), ops.box_iou(aligned, aligned).numpy(), atol=1e-9)
    with pytest.raises(ValueError):
        ops.box_iou(aligned, aligned, "xyz")


# -- suppression ----------------------------------------------------------------------------------------------------------------
def kept_by_definition(boxes, scores, threshold):
    """Greedy suppression, pair by pair."""
    overlap = ops.box_iou(torch.tensor(boxes), torch.tensor(boxes)).numpy()
    kept: list[int] = []
    for candidate in np.argsort(-scores, kind="stable"):
        if all(overlap[candidate, other] <= threshold for other in kept):
            kept.append(int(candidate))
    return kept


def test_nms_keeps_what_the_definition_keeps():
    boxes, scores = boxes_of(60, seed=3), rng.random(60).round(1)  # ties
    ours = ops.nms(torch.tensor(boxes), torch.tensor(scores), 0.3)
    assert ours.dtype == torch.int64
    assert ours.tolist() == kept_by_definition(boxes, scores, 0.3)
    assert ops.nms(torch.zeros(0, 4), torch.zeros(0), 0.5).shape == (0,)
    half = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 7.0]]), torch.tensor([0.9, 0.8])
    overlap = float(np.float32(70) / np.float32(100))  # in single precision, below 0.7
    for threshold, expected in ((0.7, [0, 1]), (overlap, [0, 1]), (np.nextafter(overlap, 0), [0])):
        assert ops.nms(*half, float(threshold)).tolist() == expected
    with pytest.raises(NotImplementedError, match="Long"):
        ops.nms(torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), 0.5)
    for bad in ((torch.zeros(4), torch.zeros(1)), (torch.zeros(2, 5), torch.zeros(2)), (torch.zeros(2, 4), torch.zeros(3))):
        with pytest.raises(RuntimeError):
            ops.nms(*bad, 0.5)


def test_batched_nms_separates_categories_both_ways():
    boxes, scores, kinds = boxes_of(60, seed=4), rng.permutation(60) / 60.0, rng.integers(0, 3, 60)
    kept = [np.flatnonzero(kinds == kind)[_kept(boxes, scores, kinds == kind)] for kind in range(3)]
    expected = sorted(np.concatenate(kept).tolist(), key=lambda place: -scores[place])
    arguments = torch.tensor(boxes), torch.tensor(scores), torch.tensor(kinds), 0.3
    assert ops.batched_nms(*arguments).tolist() == expected
    assert ops.boxes._batched_nms_vanilla(*arguments).tolist() == expected


def _kept(boxes, scores, members):
    return kept_by_definition(boxes[members], scores[members], 0.3)


# -- regions --------------------------------------------------------------------------------------------------------------------
def interpolated(image, y, x):
    """One value between pixels, by the rule of RoIAlign: 0 from one pixel outside on, the border's value up to there."""
    height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = min(int(y), height - 1), min(int(x), width - 1)
    below, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    return (1 - v) * ((1 - u) * image[top, left] + u * image[top, right]) + v * ((1 - u) * image[below, left] + u * image[below, right])


def roi_align_by_loops(images, rois, bins, scale, ratio, aligned, channel=lambda c, i, j: c, channels=None, clamp=True):
    channels = images.shape[1] if channels is None else channels
    result = np.zeros((len(rois), channels, *bins))
    for k, roi in enumerate(rois):
        shift = 0.5 if aligned else 0.0
        x1, y1, x2, y2 = roi[1:] * scale - shift
        width, height = x2 - x1, y2 - y1
        if not aligned and clamp:
            width, height = max(width, 1), max(height, 1)
        step_y, step_x = height / bins[0], width / bins[1]
        grid_y, grid_x = (ratio, ratio) if ratio > 0 else (math.ceil(step_y), math.ceil(step_x))
        for c, i, j in np.ndindex(channels, *bins):
            image = images[int(roi[0]), channel(c, i, j)]
            points = [
                interpolated(image, y1 + i * step_y + (a + 0.5) * step_y / grid_y, x1 + j * step_x + (b + 0.5) * step_x / grid_x)
                for a in range(grid_y)
                for b in range(grid_x)
            ]
            result[k, c, i, j] = sum(points) / max(len(points), 1)
    return result


def pool_by_loops(images, rois, bins, scale, sensitive):
    def nearest(value):
        return int(math.copysign(math.floor(abs(value) + 0.5), value))

    _, channels, height, width = images.shape
    channels = channels // (bins[0] * bins[1]) if sensitive else channels
    extra, limit = (0, 1) if sensitive else (1, 0)
    result = np.zeros((len(rois), channels, *bins))
    for k, roi in enumerate(rois):
        x1, y1, x2, y2 = (nearest(value * scale) for value in roi[1:])
        step_y, step_x = max(y2 - y1 + extra, 1) / bins[0], max(x2 - x1 + extra, 1) / bins[1]
        for c, i, j in np.ndindex(channels, *bins):
            top, bottom = (min(max(v + y1, 0), height - limit) for v in (math.floor(i * step_y), math.ceil((i + 1) * step_y)))
            left, right = (min(max(v + x1, 0), width - limit) for v in (math.floor(j * step_x), math.ceil((j + 1) * step_x)))
            source = (c * bins[0] + i) * bins[1] + j if sensitive else c
            block = images[int(roi[0]), source, top:bottom, left:right]
            if block.size:
                result[k, c, i, j] = block.mean() if sensitive else block.max()
    return result


IMAGES = rng.standard_normal((2, 12, 9, 11))
ROIS = np.array([[0, 1.0, 2.0, 14.0, 12.0], [1, -3.0, 0.0, 9.5, 17.0], [1, 6.0, 6.0, 6.4, 6.2], [0, 12.0, 8.0, 25.0, 22.0]])


@pytest.mark.parametrize(("ratio", "aligned"), [(2, False), (-1, True), (0, False)])
def test_roi_align_is_the_papers(ratio, aligned):
    images, rois = torch.tensor(IMAGES[:, :3]), torch.tensor(ROIS)
    ours = ops.roi_align(images, rois, (3, 2), 0.5, ratio, aligned)
    np.testing.assert_allclose(ours.numpy(), roi_align_by_loops(IMAGES[:, :3], ROIS, (3, 2), 0.5, ratio, aligned), atol=1e-12)
    by_image = [rois[rois[:, 0] == number][:, 1:] for number in range(2)]
    listed = ops.RoIAlign((3, 2), 0.5, ratio, aligned)(images, by_image)
    np.testing.assert_array_equal(listed.numpy(), torch.cat([ours[rois[:, 0] == number] for number in range(2)]).numpy())
    np.testing.assert_allclose(ops.roi_align(images.float(), rois.float(), (3, 2), 0.5, ratio, aligned).numpy(), ours.numpy(), atol=2e-5)


def test_other_poolings_of_regions_are_the_papers():
    images, rois = torch.tensor(IMAGES), torch.tensor(ROIS)
    bins = (3, 2)
    np.testing.assert_allclose(ops.roi_pool(images, rois, bins, 0.5).numpy(), pool_by_loops(IMAGES, ROIS, bins, 0.5, False))
    ours = ops.PSRoIPool(bins, 0.5)(images, rois)
    np.testing.assert_allclose(ours.numpy(), pool_by_loops(IMAGES, ROIS, bins, 0.5, True), atol=1e-12)
    for ratio in (2, -1):
        expected = roi_align_by_loops(IMAGES, ROIS, bins, 0.5, ratio, True, lambda c, i, j: (c * 3 + i) * 2 + j, 2)
        np.testing.assert_allclose(ops.ps_roi_align(images, rois, bins, 0.5, ratio).numpy(), expected, atol=1e-12)
    with pytest.raises(RuntimeError, match="multiple"):
        ops.ps_roi_align(images, rois, (5, 5))
    with pytest.raises(RuntimeError, match="same type"):
        ops.roi_align(images, rois.float(), bins)
    with pytest.raises(AssertionError):
        ops.roi_align(images, rois[:, 1:], bins)
    assert ops.roi_align(images, [torch.zeros(0, 4, dtype=torch.float64)] * 2, 2).shape == (0, 12, 2, 2)


def test_poolings_of_regions_have_their_gradients():
    images = torch.tensor(IMAGES[:, :4, :4, :4].copy(), requires_grad=True)
    rois = torch.tensor(np.array([[0, 0.3, 0.1, 3.2, 2.9], [1, 1.0, 0.0, 2.2, 3.7]]))
    for function in (ops.roi_align, ops.roi_pool, ops.ps_roi_align, ops.ps_roi_pool):
        assert torch.autograd.gradcheck(lambda x, function=function: function(x, rois, 2), (images,))
    assert torch.autograd.gradgradcheck(lambda x: ops.roi_align(x, rois, 2), (images[:, :1].detach().requires_grad_(),))


def test_multi_scale_roi_align_reads_the_map_of_each_scale():
    maps = {"a": torch.rand(1, 2, 32, 32), "b": torch.rand(1, 2, 16, 16), "unused": torch.rand(1, 2, 4, 4)}
    boxes = torch.tensor([[0.0, 0.0, 20.0, 20.0], [3.0, 5.0, 60.0, 57.0], [7.0, 7.0, 40.0, 20.0]])
    pooler = ops.MultiScaleRoIAlign(["a", "b"], 3, 2, canonical_scale=50, canonical_level=3)
    result = pooler(maps, [boxes], [(128, 128)])
    assert pooler.scales == [0.25, 0.125]
    for row, (name, scale) in enumerate((("a", 0.25), ("b", 0.125), ("a", 0.25))):
        expected = ops.roi_align(maps[name], [boxes[row : row + 1]], 3, scale, 2)
        np.testing.assert_allclose(result[row : row + 1].numpy(), expected.numpy(), rtol=1e-6)
    apart = ops.MultiScaleRoIAlign(["a", "c"], 3, 2, canonical_scale=50, canonical_level=5)
    assert apart({**maps, "c": torch.rand(1, 2, 4, 4)}, [boxes], [(128, 128)])[1].sum() == 0  # it wants the map between the two


# -- deformable convolution ---------------------------------------------------------------------------------------------------------
def deformed_by_loops(images, offset, weight, bias, stride, padding, dilation, mask):
    def pixel(image, y, x):
        top, left = math.floor(y), math.floor(x)
        total = 0.0
        for row, v in ((top, 1 - (y - top)), (top + 1, y - top)):
            for column, u in ((left, 1 - (x - left)), (left + 1, x - left)):
                if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                    total += v * u * image[row, column]
        return total

    count, channels = images.shape[:2]
    outputs, per_group, height, width = weight.shape
    groups, offset_groups = channels // per_group, offset.shape[1] // (2 * height * width)
    result = np.zeros((count, outputs, *offset.shape[2:]))
    for n, o, y, x in np.ndindex(*result.shape):
        group = o // (outputs // groups)
        total = bias[o]
        for c, i, j in np.ndindex(per_group, height, width):
            channel = group * per_group + c
            tap = (channel // (channels // offset_groups)) * height * width + i * width + j
            row = y * stride[0] - padding[0] + i * dilation[0] + offset[n, 2 * tap, y, x]
            column = x * stride[1] - padding[1] + j * dilation[1] + offset[n, 2 * tap + 1, y, x]
            factor = 1.0 if mask is None else mask[n, tap, y, x]
            total += weight[o, c, i, j] * factor * pixel(images[n, channel], row, column)
        result[n, o, y, x] = total
    return result


def test_deformable_convolution_is_the_papers_and_has_its_gradients():
    stride, padding, dilation = (2, 1), (1, 0), (1, 2)
    images, weight, bias = rng.standard_normal((2, 4, 5, 5)), rng.standard_normal((2, 2, 3, 2)), rng.standard_normal(2)
    offset, mask = rng.standard_normal((2, 2 * 2 * 6, 3, 3)) * 1.5, rng.random((2, 2 * 6, 3, 3))
    arrays = (images, offset, weight, bias)
    tensors = [torch.tensor(array, requires_grad=True) for array in (*arrays, mask)]
    for used in (None, mask):
        ours = ops.deform_conv2d(*tensors[:4], stride, padding, dilation, None if used is None else tensors[4])
        np.testing.assert_allclose(ours.detach().numpy(), deformed_by_loops(*arrays, stride, padding, dilation, used), atol=1e-12)
    few = [torch.tensor(array[:1] if k in (0, 1, 4) else array, requires_grad=True) for k, array in enumerate((*arrays, mask))]
    assert torch.autograd.gradcheck(lambda x, o, w, b, m: ops.deform_conv2d(x, o, w, b, stride, padding, dilation, m), few, fast_mode=True)
    plain = torch.zeros(1, 2 * 9, 3, 3)
    x, kernel = torch.rand(1, 2, 5, 5), torch.rand(3, 2, 3, 3)
    np.testing.assert_allclose(ops.deform_conv2d(x, plain, kernel).numpy(), torch.nn.functional.conv2d(x, kernel).numpy(), rtol=1e-5)
    for bad in (torch.zeros(1, 4, 3, 3), torch.zeros(1, 18, 2, 3)):
        with pytest.raises(RuntimeError):
            ops.deform_conv2d(x, bad, kernel)


# -- modules -----------------------------------------------------------------------------------------------------------------------
def test_modules_are_the_oracles(oracle):
    theirs = torchvision().ops
    for name, arguments in (
        ("DeformConv2d", (4, 6, 3, 1, 1, 1, 2)),
        ("DeformConv2d", (4, 6, (3, 2), 2, 0, 2, 1, False)),
        ("RoIAlign", ((3, 2), 0.5, 2, True)),
        ("RoIPool", (3, 0.5)),
        ("PSRoIAlign", (3, 0.5, 2)),
        ("PSRoIPool", (3, 0.5)),
        ("MultiScaleRoIAlign", (["0", "1"], 7, 2)),
        ("DropBlock2d", (0.2, 3)),
        ("DropBlock3d", (0.2, 3, True)),
    ):
        torch.manual_seed(5), oracle.manual_seed(5)
        ours, other = getattr(ops, name)(*arguments), getattr(theirs, name)(*arguments)
        assert repr(ours) == repr(other)
        for (ours_name, ours_value), (their_name, their_value) in zip(ours.state_dict().items(), other.state_dict().items(), strict=True):
            assert ours_name == their_name
            np.testing.assert_array_equal(ours_value.numpy(), their_value.numpy())


def test_drop_block_draws_what_the_oracle_draws(oracle):
    theirs = torchvision().ops
    for name, shape in (("drop_block2d", (2, 3, 8, 7)), ("drop_block3d", (1, 2, 5, 6, 7))):
        values = rng.random(shape).astype(np.float32)
        torch.manual_seed(3), oracle.manual_seed(3)
        same(getattr(ops, name)(torch.from_numpy(values), 0.3, 3), getattr(theirs, name)(oracle.from_numpy(values), 0.3, 3))
        with pytest.raises(ValueError):
            getattr(ops, name)(torch.from_numpy(values), 0.3, 4)
    assert ops.drop_block2d(torch.ones(1, 1, 4, 4), 0.5, 3, training=False).sum() == 16


def test_feature_pyramid_is_the_oracles(oracle):
    theirs = torchvision().ops.feature_pyramid_network
    from flambeau.vision.ops import feature_pyramid_network as ours

    values = {"0": rng.random((1, 4, 8, 8)), "1": rng.random((1, 6, 4, 4)), "2": rng.random((1, 8, 2, 2))}
    for extra in (None, "pool", "p6"):
        results = []
        for torch_, module in ((torch, ours), (oracle, theirs)):
            torch_.manual_seed(1)
            blocks = {None: None, "pool": module.LastLevelMaxPool(), "p6": module.LastLevelP6P7(8, 5)}[extra]
            torch_.manual_seed(1)
            model = module.FeaturePyramidNetwork([4, 6, 8], 5, blocks).double()
            results.append((model.state_dict(), model({name: torch_.from_numpy(value) for name, value in values.items()})))
        for mine, other in zip(*results):
            assert list(mine) == list(other)
            for name in mine:
                same(mine[name], other[name], atol=1e-10)
    old = {name.replace(".0.", ".", 1) if "blocks.0.0." in name else name: value for name, value in model.state_dict().items()}
    restored = ours.FeaturePyramidNetwork([4, 6, 8], 5, ours.LastLevelP6P7(8, 5)).double()
    restored.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in old.items()})
