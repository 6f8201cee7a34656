"""``vision.models.video`` and ``optical_flow``: small models against torchvision's.

Every named model is compared by ``python -m tests.programs.vision_tasks``.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import vision_tasks
from oracle_vision import detecting_torchvision
from vision_models import relative_difference, state_of, stir, unequal_weights

import flambeau as torch
from flambeau.vision import models

PACKAGES = ("video", "optical_flow")
VIDEO = np.random.default_rng(0).standard_normal((2, 3, 5, 32, 40))


@pytest.mark.oracle
@pytest.mark.parametrize("package", PACKAGES)
def test_names_arguments_and_weights_are_the_oracles(package):
    ours, theirs = getattr(models, package), getattr(detecting_torchvision().models, package)
    assert models.list_models(ours) == detecting_torchvision().models.list_models(theirs)
    for name in models.list_models(ours):
        pair = models.get_model_builder(name), detecting_torchvision().models.get_model_builder(name)
        own, other = ([(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()] for f in pair)
        assert own == other, name
        weights = models.get_model_weights(name), detecting_torchvision().models.get_model_weights(name)
        assert list(weights[0].__members__) == list(weights[1].__members__)
        for own_weights, other_weights in zip(*weights):
            assert own_weights.url == other_weights.url
            assert own_weights.meta.get("categories") == other_weights.meta.get("categories")
            assert own_weights.meta["num_params"] == other_weights.meta["num_params"]


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["r2plus1d_18", "s3d", "raft_small", "raft_large"])
def test_a_state_has_the_oracles_keys_and_shapes(name):
    assert vision_tasks.compare(name, {"keys"}) == (f"{name}: keys and shapes equal", True)


def small_swin(video: Any) -> Any:
    return video.SwinTransformer3d([2, 4, 4], 8, [2, 2], [2, 4], [2, 3, 3], num_classes=5)


def test_one_block() -> None:
    video = models.video
    video.MViT((32, 40), 4, [video.mvit.MSBlockConfig(1, 8, 8, [], [], [], [])], False, False, False, False, stochastic_depth_prob=0.2)


def small_mvit(video: Any, version: int) -> Any:
    second = version == 2
    settings = [
        video.mvit.MSBlockConfig(1, 8, 8, [3, 3, 3] if second else [], [3, 3, 3], [1, 1, 1] if second else [], [1, 2, 2]),
        video.mvit.MSBlockConfig(2, 8, 16, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1]),
    ]
    return video.MViT((32, 40), 4, settings, second, False, second, second, num_classes=5, stochastic_depth_prob=0.2)


def block_of_resnet(video: Any) -> Any:
    return video.resnet.Bottleneck(16, 4, video.resnet.Conv2Plus1D)


FRAMES = {"swin": VIDEO, "mvit 1": VIDEO[:, :, :4], "mvit 2": VIDEO[:, :, :4], "resnet": VIDEO.reshape(2, 16, 3, 20, 20)}
SMALL = {
    "swin": small_swin,
    "mvit 1": lambda video: small_mvit(video, 1),
    "mvit 2": lambda video: small_mvit(video, 2),
    "resnet": block_of_resnet,
}


@pytest.mark.oracle
@pytest.mark.parametrize("kind", SMALL)
def test_a_small_model_of_videos_is_the_oracles(kind, oracle):
    built = []
    for library, package in ((torch, torch.vision), (oracle, detecting_torchvision())):
        library.manual_seed(0)
        built.append(SMALL[kind](package.models.video).double())
    ours, theirs = built
    assert not unequal_weights(ours, theirs)
    assert repr(ours) == repr(theirs)
    stir(theirs)
    ours.load_state_dict(state_of(theirs))
    for training in (False, True):
        results = []
        for library, model in ((torch, ours), (oracle, theirs)):
            library.manual_seed(1)
            results.append(model.train(training)(library.from_numpy(FRAMES[kind].copy())))
            results[-1].square().sum().backward()
        assert relative_difference(*results) < 1e-10
    for (name, own), (_, other) in zip(ours.named_parameters(), theirs.named_parameters()):
        np.testing.assert_allclose(own.grad.numpy(), other.grad.numpy(), rtol=1e-6, atol=1e-12, err_msg=name)


@pytest.mark.oracle
@pytest.mark.parametrize("size", ["LARGE", "SMALL"])
def test_a_small_raft_is_the_oracles(size, oracle):
    images = [np.random.default_rng(seed).random((1, 3, 128, 136)).astype(np.float32) for seed in range(2)]
    results = []
    for library, package in ((torch, torch.vision), (oracle, detecting_torchvision())):
        library.manual_seed(0)
        raft = package.models.optical_flow.raft
        block = raft.ResidualBlock if size == "LARGE" else raft.BottleneckBlock
        encoders = [raft.FeatureEncoder(block=block, layers=(8, 8, 8, 8, 16), norm_layer=None) for _ in range(2)]
        recurrent = {"kernel_size": (3,), "padding": (1,)} if size == "SMALL" else {}
        motion = raft.MotionEncoder(in_channels_corr=9, corr_layers=(8,), flow_layers=(8, 8), out_channels=12)
        update = raft.UpdateBlock(
            motion_encoder=motion,
            recurrent_block=raft.RecurrentBlock(input_size=12 + 8, hidden_size=8, **recurrent),
            flow_head=raft.FlowHead(in_channels=8, hidden_size=8),
        )
        mask = raft.MaskPredictor(in_channels=8, hidden_size=8) if size == "LARGE" else None
        model = raft.RAFT(
            feature_encoder=encoders[0],
            context_encoder=encoders[1],
            corr_block=raft.CorrBlock(num_levels=1, radius=1),
            update_block=update,
            mask_predictor=mask,
        )
        results.append(model(*map(library.from_numpy, images), num_flow_updates=2))
    assert relative_difference(tuple(results[0]), tuple(results[1])) < 1e-4


def test_images_that_do_not_fit_are_errors():
    model = models.optical_flow.raft_small()
    image = torch.zeros(1, 3, 64, 64)
    for other, message in ((image[..., 1:], "same shape"), (image, "too small")):
        with pytest.raises(ValueError, match=message):
            model(image, other)
    with pytest.raises(ValueError, match="divisible"):
        model(image[..., 1:], image[..., 1:])
    with pytest.raises(ValueError, match="length 3"):
        models.video.swin_transformer.ShiftedWindowAttention3d(8, [2, 2], [1, 1], 2)
    with pytest.raises(ValueError, match="empty"):
        models.video.MViT((8, 8), 2, [], False, False, False, False)
