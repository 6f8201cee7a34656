"""``vision.models.detection`` and ``segmentation``: small models against torchvision's, part by part and as wholes.

Every named model is compared by ``python -m tests.programs.vision_tasks``.
"""

from __future__ import annotations

import inspect
import io
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import vision_tasks
from oracle_vision import detecting_torchvision

import flambeau as torch
from flambeau.vision import models
from flambeau.vision.models import detection

PACKAGES = ("detection", "segmentation")
SHAPES = "fasterrcnn_mobilenet_v3_large_320_fpn fcos_resnet50_fpn lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large".split()
IMAGES = [np.random.default_rng(seed).random((3, 40, 40)) for seed in (5, 6)]  # of one size: equal scores of padding come in any order


def equal(ours: Any, theirs: Any, **tolerances: float) -> None:
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), **{"rtol": 1e-5, "atol": 1e-6, **tolerances})
    assert str(ours.dtype) == str(theirs.dtype)


# -- names -------------------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
@pytest.mark.parametrize("package", PACKAGES)
def test_names_arguments_and_weights_are_the_oracles(package):
    ours, theirs = getattr(models, package), getattr(detecting_torchvision().models, package)
    assert models.list_models(ours) == detecting_torchvision().models.list_models(theirs)
    for name in models.list_models(ours):
        pair = models.get_model_builder(name), detecting_torchvision().models.get_model_builder(name)
        own, other = ([(p.name, p.kind, str(p.default)) for p in inspect.signature(f).parameters.values()] for f in pair)
        assert own == other, name
        weights = models.get_model_weights(name), detecting_torchvision().models.get_model_weights(name)
        for member in weights[1].__members__:
            assert weights[0][member].url == weights[1][member].url
            assert weights[0][member].meta["categories"] == weights[1][member].meta["categories"]
    for file in dir(theirs):
        if inspect.ismodule(getattr(theirs, file)) and file != "torchvision":
            for name, value in vars(getattr(theirs, file)).items():
                if inspect.isclass(value) and value.__module__ == f"{theirs.__name__}.{file}":
                    other = getattr(getattr(ours, file), name)
                    if "__init__" in vars(value) and not name.endswith("_Weights"):
                        assert list(inspect.signature(other).parameters) == list(inspect.signature(value).parameters), name


@pytest.mark.oracle
@pytest.mark.parametrize("name", SHAPES)
def test_a_state_has_the_oracles_keys_and_shapes(name):
    assert vision_tasks.compare(name, {"keys"}) == (f"{name}: keys and shapes equal", True)


# -- small models as wholes ----------------------------------------------------------------------------------------------------------
def small_backbone(library: Any, maps: int = 1, channels: Any = 8) -> Any:
    """Convolutions with stride 2; one map, or several under their numbers."""
    nn = library.nn

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(3, 8, 4, stride=4)
            self.rest = nn.ModuleList(nn.Conv2d(8, 8, 3, stride=2, padding=1) for _ in range(maps - 1))
            self.out_channels = channels

        def forward(self, x: Any) -> Any:
            results = [self.first(x)]
            for layer in self.rest:
                results.append(layer(results[-1].tanh()))
            return OrderedDict((str(k), result) for k, result in enumerate(results)) if maps > 1 else results[0]

    return Backbone()


def small_model(library: Any, package: Any, kind: str) -> Any:
    """A detector of kind ``kind`` over a small backbone, from seed 0."""
    library.manual_seed(0)
    make = package.models.detection
    pools = {"box_roi_pool": (4, 2), "mask_roi_pool": (4, 2), "keypoint_roi_pool": (4, 2)}
    size = {"min_size": 64, "max_size": 64}
    anchors = {"sizes": ((8, 16),), "aspect_ratios": ((0.5, 1.0),)}
    if kind == "ssd":
        boxes = make.anchor_utils.DefaultBoxGenerator([[2], [2, 3]], min_ratio=0.2, max_ratio=0.8)
        return make.ssd.SSD(small_backbone(library, 2, [8, 8]), boxes, (48, 40), 5, score_thresh=0.15, topk_candidates=40)
    if kind == "retinanet":
        generator = make.anchor_utils.AnchorGenerator(((8, 16), (24, 32)), ((0.5, 1.0),) * 2)
        return make.RetinaNet(small_backbone(library, 2), 5, **size, anchor_generator=generator, score_thresh=0.0101)
    if kind == "fcos":
        generator = make.anchor_utils.AnchorGenerator(((4,), (8,)), ((1.0,),) * 2)
        head = make.fcos.FCOSHead(32, 1, 5, 1)
        backbone = small_backbone(library, 2)
        backbone.first, backbone.rest[0] = library.nn.Conv2d(3, 32, 4, stride=4), library.nn.Conv2d(32, 32, 3, stride=2, padding=1)
        return make.FCOS(backbone, 5, **size, anchor_generator=generator, head=head, score_thresh=0.071)
    few = {
        "rpn_pre_nms_top_n_train": 120,
        "rpn_pre_nms_top_n_test": 60,
        "rpn_post_nms_top_n_test": 12,
        "box_batch_size_per_image": 24,
        "box_score_thresh": 0.15,
    }
    more: dict[str, Any] = {}
    if kind == "mask":
        more = {"mask_head": make.mask_rcnn.MaskRCNNHeads(8, [8, 8], 1), "mask_predictor": make.mask_rcnn.MaskRCNNPredictor(8, 6, 5)}
    if kind == "keypoint":
        predictor = make.keypoint_rcnn.KeypointRCNNPredictor(8, 17)
        more = {"keypoint_head": make.keypoint_rcnn.KeypointRCNNHeads(8, [8]), "keypoint_predictor": predictor}
    pooling = {name: package.ops.MultiScaleRoIAlign(["0"], *pools[name]) for name in pools if name.startswith(("box", kind))}
    head = make.faster_rcnn.FastRCNNConvFCHead((8, 4, 4), [8], [16], norm_layer=library.nn.BatchNorm2d)
    predictor = make.faster_rcnn.FastRCNNPredictor(16, 5)
    cls = {"faster": make.FasterRCNN, "mask": make.MaskRCNN, "keypoint": make.KeypointRCNN}[kind]
    generator = make.anchor_utils.AnchorGenerator(**anchors)
    parts = {"rpn_anchor_generator": generator, "box_head": head, "box_predictor": predictor, **pooling, **more}
    return cls(small_backbone(library), None, **size, **few, **parts)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["faster", "mask", "keypoint", "retinanet", "fcos", "ssd"])
def test_a_small_detector_detects_and_learns_as_the_oracles(kind, oracle):
    ours, theirs = small_model(torch, torch.vision, kind), small_model(oracle, detecting_torchvision(), kind)
    assert not vision_tasks.unequal_weights(ours, theirs)
    assert repr(ours) == repr(theirs)
    keys = {"mask": ("masks",), "keypoint": ("keypoints",)}.get(kind, ())
    found = vision_tasks.compare_detectors(ours, theirs, IMAGES, keys)
    assert found.pop("boxes") >= 3, "nothing was detected"
    assert max(found.values()) < 1e-5, found


def test_a_small_faster_rcnn_learns_two_boxes():
    model = small_model(torch, torch.vision, "faster")
    images = [torch.from_numpy(image).float() for image in IMAGES]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    totals = []
    for _ in range(10):
        loss = sum(model(images, vision_tasks.targets(torch, [(40, 40)] * 2)).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        totals.append(loss.item())
    assert totals[-1] < 0.7 * totals[0], totals


@pytest.mark.oracle
def test_a_small_segmentation_model_is_the_oracles(oracle):
    results = []
    values = np.random.default_rng(0).random((2, 8, 6, 7), dtype=np.float32)
    for library, package in ((torch, torch.vision), (oracle, detecting_torchvision())):
        library.manual_seed(0)
        segmentation = package.models.segmentation
        features = OrderedDict(out=library.from_numpy(values), aux=library.from_numpy(values[:, :, ::2].copy()))
        backbone = library.nn.Module()
        backbone.forward = lambda x, features=features: features
        head = segmentation.deeplabv3.DeepLabHead(8, 3, (1, 2))
        model = segmentation.DeepLabV3(backbone, head, segmentation.fcn.FCNHead(8, 3)).eval()
        results.append(model(library.zeros(2, 3, 24, 28)))
    assert list(results[0]) == list(results[1]) == ["out", "aux"]
    for name in results[0]:
        equal(results[0][name], results[1][name])


# -- parts ---------------------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
def test_coders_matchers_and_losses_are_the_oracles(oracle):
    pair = detection._utils, detecting_torchvision().models.detection._utils
    drawn = np.random.default_rng(2)
    corners = drawn.random((2, 6, 2)) * 20
    boxes = np.concatenate([corners, corners + drawn.random((2, 6, 2)) * 9 + 1], axis=2)
    for name, arguments in (("BoxCoder", ((10.0, 10.0, 5.0, 5.0),)), ("BoxLinearCoder", (True,)), ("BoxLinearCoder", (False,))):
        results = []
        for library, utils in zip((torch, oracle), pair):
            coder, (first, second) = getattr(utils, name)(*arguments), library.from_numpy(boxes)
            single = name == "BoxCoder"
            codes = coder.encode_single(first, second) if single else coder.encode(first, second)
            results.append((codes, coder.decode_single(codes * 3, second) if single else coder.decode(codes, second)))
        for own, other in zip(*results):
            equal(own, other)
    quality = drawn.random((3, 40))
    for name, arguments in (("Matcher", (0.7, 0.3, True)), ("Matcher", (0.9, 0.6)), ("SSDMatcher", (0.5,))):
        own, other = (getattr(utils, name)(*arguments)(library.from_numpy(quality)) for library, utils in zip((torch, oracle), pair))
        equal(own, other)
    for kind in ("l1", "smooth_l1", "giou", "diou", "ciou"):
        results = []
        for library, utils in zip((torch, oracle), pair):
            first, second = library.from_numpy(boxes)
            coder = utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
            results.append(utils._box_loss(kind, coder, first, second, coder.encode_single(second, first) * 0.9, {"beta": 0.5}))
        equal(*results)
    with pytest.raises(ValueError, match="No ground-truth"):
        detection._utils.Matcher(0.5, 0.5)(torch.zeros(0, 3))
    with pytest.raises(AssertionError):
        detection._utils.Matcher(0.3, 0.5)


@pytest.mark.oracle
def test_masks_and_keypoints_are_pasted_as_by_the_oracle(oracle):
    drawn = np.random.default_rng(8)
    masks, boxes = drawn.random((3, 1, 7, 7)).astype(np.float32), np.array([[-3, 2, 9, 8], [4, 4, 5, 30], [1, 1, 1.2, 1.2]], np.float32)
    maps, points = drawn.random((3, 4, 6, 6)).astype(np.float32), (drawn.random((3, 4, 3)) * 10).astype(np.float32)
    points[0, 0, :2] = boxes[0, 2:]
    heads = [package.models.detection.roi_heads for package in (torch.vision, detecting_torchvision())]
    results = []
    for library, head in zip((torch, oracle), heads):
        own_boxes = library.from_numpy(boxes)
        results.append(
            (
                head.paste_masks_in_image(library.from_numpy(masks), own_boxes, (12, 15)),
                head.paste_masks_in_image(library.zeros(0, 1, 7, 7), library.zeros(0, 4), (12, 15)),
                *head.heatmaps_to_keypoints(library.from_numpy(maps), own_boxes),
                *head.keypoints_to_heatmap(library.from_numpy(points), own_boxes, 6),
            )
        )
    for own, other in zip(*results, strict=True):
        assert own.shape == tuple(other.shape)
        equal(own, other, atol=1e-5)


def test_old_files_of_weights_load():
    for head, old_names in (
        (detection.rpn.RPNHead(4, 2), {"conv.0.0.weight": "conv.weight", "conv.0.0.bias": "conv.bias"}),
        (detection.mask_rcnn.MaskRCNNHeads(4, [4], 1), {"0.0.weight": "mask_fcn1.weight", "0.0.bias": "mask_fcn1.bias"}),
        (detection.retinanet.RetinaNetRegressionHead(4, 2), {"conv.1.0.weight": "conv.2.weight", "conv.3.0.bias": "conv.6.bias"}),
    ):
        state = {old_names.get(name, name): value + 1 for name, value in head.state_dict().items()}
        head.load_state_dict(state)
        for name, value in head.state_dict().items():
            assert torch.equal(value, state[old_names.get(name, name)])


@pytest.mark.oracle
def test_a_whole_detector_in_a_file_is_the_oracles(oracle):
    theirs, stream = small_model(oracle, detecting_torchvision(), "retinanet"), io.BytesIO()
    theirs.backbone = oracle.nn.Conv2d(3, 8, 4, stride=4)  # the small one is a class of this test
    oracle.save(theirs, stream)
    ours = torch.load(io.BytesIO(stream.getvalue()), weights_only=False)
    assert type(ours) is detection.RetinaNet
    assert repr(ours) == repr(theirs)
    again = io.BytesIO()
    torch.save(ours, again)
    assert b"flambeau" not in again.getvalue()
    assert repr(oracle.load(io.BytesIO(again.getvalue()), weights_only=False)) == repr(theirs)


def test_what_cannot_be_detected_is_an_error():
    model = small_model(torch, torch.vision, "retinanet")
    image = torch.rand(3, 20, 20)
    flat = {"boxes": torch.tensor([[2.0, 3.0, 2.0, 9.0]]), "labels": torch.tensor([1])}
    for targets, message in ((None, "none when in training"), ([{"boxes": torch.zeros(4)}], "shape"), ([flat], "positive height")):
        with pytest.raises(AssertionError, match=message):
            model([image], targets)
    with pytest.raises(ValueError, match="3d tensors"):
        model.eval()([image[0]])
    with pytest.raises(TypeError, match="floating type"):
        model([(image * 255).byte()])
    with pytest.raises(ValueError, match="out_channels"):
        detection.FasterRCNN(torch.nn.Identity(), 3)
    for arguments in ({}, {"num_classes": 3, "box_predictor": torch.nn.Identity()}):
        with pytest.raises(ValueError, match="num_classes"):
            detection.FasterRCNN(small_backbone(torch), **arguments)
    with pytest.raises(TypeError, match="rpn_anchor_generator"):
        detection.FasterRCNN(small_backbone(torch), 3, rpn_anchor_generator=3)
    with pytest.raises(TypeError, match="unexpected"):
        models.segmentation.fcn_resnet50(weights_backbone=None, widths=3)
    with pytest.raises(NotImplementedError, match="auxiliary"):
        models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, aux_loss=True)
    with pytest.warns(UserWarning, match="trainable_backbone_layers"):
        assert detection.backbone_utils._validate_trainable_layers(False, 2, 5, 3) == 5
    with pytest.raises(ValueError, match="range"):
        detection.backbone_utils._validate_trainable_layers(True, 7, 5, 3)
