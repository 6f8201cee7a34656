"""``python -m tests.programs.vision_tasks [NAME ...]``: models that detect, segment, see videos or flow, against real torchvision's.

Compared are the keys and shapes of the state and its initial values after the same seed, to the bit; results on small inputs; of
detectors, in double precision, also losses and gradients after one batch, whose anchors are drawn at random.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from typing import Any

import numpy as np
from oracle import pytorch
from oracle_vision import detecting_torchvision
from vision_models import relative_difference, state_of, stir, unequal_weights

import flambeau
from flambeau.vision import models

TASKS = ("detection", "segmentation", "video", "optical_flow")
RELATIVE = 1e-4
FEW_BOXES = {
    "rpn_pre_nms_top_n_train": 200,
    "rpn_post_nms_top_n_train": 100,
    "rpn_pre_nms_top_n_test": 100,
    "rpn_post_nms_top_n_test": 10,
    "box_detections_per_img": 10,
    "box_batch_size_per_image": 16,
    "box_score_thresh": 0.01,
}
# Frames, height and width that are no smaller than the model takes.
CLIPS = {"s3d": (14, 224, 224), "mvit_v1_b": (16, 224, 224), "mvit_v2_s": (16, 224, 224)}


def task_of(name: str) -> str:
    """The package that a model belongs to."""
    return models.get_model_builder(name).__module__.split(".")[-2]


def options(name: str) -> dict[str, Any]:
    """Arguments of a model without weights, small where it can be."""
    task = task_of(name)
    chosen: dict[str, Any] = {"weights": None}
    if task == "optical_flow":
        return chosen
    chosen["num_classes"] = 5
    if task != "video":
        chosen["weights_backbone"] = None
    if task == "segmentation" and not name.startswith("lraspp"):
        chosen["aux_loss"] = True
    if task == "detection" and not name.startswith("ssd"):
        chosen.update(min_size=64, max_size=96)
    if "rcnn" in name:
        chosen.update(FEW_BOXES)
    return chosen


def shapes(library: Any, package: Any, name: str) -> dict[str, tuple[Any, ...]]:
    """The state of a model that has no values: shape and dtype by key; parameters that are trained; parts."""
    with library.device("meta"):
        model = package.get_model(name, **options(name))
    state = {key: (tuple(value.shape), str(value.dtype).rpartition(".")[2]) for key, value in model.state_dict().items()}
    trained = tuple(key for key, value in model.named_parameters() if value.requires_grad)
    return {**state, "trained": trained, "parts": tuple(key for key, _ in model.named_modules())}


def built(library: Any, package: Any, name: str) -> Any:
    library.manual_seed(2026)
    return package.get_model(name, **options(name))


# -- detectors ---------------------------------------------------------------------------------------------------------------------
IMAGES = [np.random.default_rng(0).random((3, 90, 120)), np.random.default_rng(1).random((3, 100, 80))]


def targets(library: Any, sizes: list[tuple[int, int]], keys: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Two boxes in each image; further ``keys`` are masks and key points, without which the last image has no boxes."""
    drawn = np.random.default_rng(3)
    result = []
    for place, (height, width) in enumerate(sizes):
        relative = np.array([[0.05, 0.1, 0.6, 0.7], [0.3, 0.25, 0.9, 0.95]]) * [width, height, width, height]
        target = {"boxes": library.from_numpy(relative.astype(np.float32)), "labels": library.tensor([1, 3])}
        if not keys and place == len(sizes) - 1:
            target = {"boxes": library.zeros(0, 4), "labels": library.zeros(0, dtype=library.int64)}
        if "masks" in keys:
            target["masks"] = library.from_numpy((drawn.random((2, height, width)) > 0.4).astype(np.uint8))
        if "keypoints" in keys:
            points = drawn.random((2, 17, 3)) * [width, height, 2] - [0, 0, 0.5]
            target["keypoints"] = library.from_numpy(points.astype(np.float32))
        result.append(target)
    return result


def calm(model: Any) -> None:
    """Make scores small, and of dense detectors keep the best boxes only: where scores are equal the order is chance."""
    model.detections_per_img = 100  # of two stages: an attribute that nobody reads
    for key, value in model.named_parameters():
        if "fpn.inner_blocks" in key or "cls_score" in key or "cls_logits" in key:
            value.mul_(0.02)


def compare_detectors(ours: Any, theirs: Any, images: list[np.ndarray], keys: tuple[str, ...] = ()) -> dict[str, float]:
    """Relative differences of detections, of losses and of gradients; both models in double precision from the same weights."""
    torch = pytorch()

    libraries = ((flambeau, ours), (torch, theirs))
    sizes = [image.shape[1:] for image in images]
    detected, losses = [], []
    for library, model in libraries:
        model.double().eval()
        inputs = [library.from_numpy(image) for image in images]
        with library.no_grad():
            calm(model)
            detected.append(model(inputs))
        library.manual_seed(1)
        total = model.train()(inputs, targets(library, sizes, keys))
        sum(total.values()).backward()
        losses.append({key: loss.detach() for key, loss in total.items()})
    pairs = [(own[key], other[key]) for own, other in zip(*detected, strict=True) for key in other if other[key].numel() > 0]
    assert all(own.shape == other.shape for own, other in pairs)
    assert [list(own) for own in detected[0]] == [list(other) for other in detected[1]]
    gradients = []
    for (key, own), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert (own.grad is None) == (other.grad is None), key
        if other.grad is not None:
            scale = 1e-5 + float(other.grad.abs().max())
            gradients.append(float(np.abs(own.grad.numpy() - other.grad.numpy()).max()) / scale)
    assert set(losses[0]) == set(losses[1])
    return {
        "boxes": float(len(pairs)),
        "detections": max((relative_difference(*pair) for pair in pairs if float(pair[1].abs().max()) > 0), default=0.0),
        "losses": max(relative_difference(losses[0][key], losses[1][key]) for key in losses[1] if losses[1][key].item() != 0),
        "gradients": max(gradients),
    }


def keys_of(name: str) -> tuple[str, ...]:
    return ("masks",) if name.startswith("maskrcnn") else ("keypoints",) if name.startswith("keypointrcnn") else ()


# -- the others ----------------------------------------------------------------------------------------------------------------------
def inputs(name: str) -> list[np.ndarray]:
    drawn, task = np.random.default_rng(4), task_of(name)
    if task == "segmentation":
        return [drawn.random((1, 3, 48, 64), dtype=np.float32)]
    if task == "video":
        return [drawn.random((1, 3, *CLIPS.get(name, (6, 64, 64))), dtype=np.float32)]
    return [drawn.random((1, 3, 128, 128), dtype=np.float32) * 2 - 1 for _ in range(2)]


def compare_results(ours: Any, theirs: Any, name: str) -> float:
    torch = pytorch()

    results = []
    for library, model in ((flambeau, ours), (torch, theirs)):
        with library.no_grad():
            more = {"num_flow_updates": 2} if task_of(name) == "optical_flow" else {}
            results.append(model.eval()(*map(library.from_numpy, inputs(name)), **more))
    if isinstance(results[1], dict):
        assert list(results[0]) == list(results[1])
        results = [tuple(result.values()) for result in results]
    return relative_difference(*(tuple(result) if isinstance(result, list) else result for result in results))


def compare(name: str, parts: set[str]) -> tuple[str, bool]:
    """A line about a model, and whether all is well."""
    torch = pytorch()

    oracle = detecting_torchvision().models
    words, good = [], True
    if "keys" in parts:
        same = shapes(flambeau, models, name) == shapes(torch, oracle, name)
        words.append(f"keys and shapes {'equal' if same else 'DIFFER'}")
        good &= same
    if parts - {"keys"}:
        begin = time.perf_counter()
        ours, theirs = built(flambeau, models, name), built(torch, oracle, name)
        unequal = unequal_weights(ours, theirs)
        words.append(f"{len(unequal)} initial weights DIFFER: {unequal[:3]}" if unequal else "initial weights equal")
        good &= not unequal
        if name.startswith("ssdlite"):  # whose initial scores are equal
            stir(theirs)
            ours.load_state_dict(state_of(theirs))
        found = (
            compare_detectors(ours, theirs, IMAGES, keys_of(name))
            if task_of(name) == "detection"
            else {"results": compare_results(ours, theirs, name)}
        )
        words += [f"{part} {value:.1e}" for part, value in found.items() if part != "boxes"]
        good &= all(value < RELATIVE for part, value in found.items() if part != "boxes")
        words.append(f"{time.perf_counter() - begin:.0f} s")
    return f"{name}: {'; '.join(words)}", good


def main() -> int:
    every = [name for task in TASKS for name in models.list_models(getattr(models, task))]
    parser = argparse.ArgumentParser(prog="python -m tests.programs.vision_tasks", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="models; all of these tasks unless told")
    parser.add_argument("--parts", nargs="+", choices=("keys", "results"), default=["keys", "results"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = []
    for name in arguments.names or every:
        line, good = compare(name, set(arguments.parts))
        print(line, flush=True)
        if not good:
            failed.append(name)
        gc.collect()
    print(f"{len(failed)} differ: {' '.join(failed)}" if failed else "all equal")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
