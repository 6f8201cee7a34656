"""Random drawings of ``vision.utils`` beside torchvision's, and masks beside the COCO API's; by hand.

python -m tests.programs.drawings --count 300

Grids, boxes, masks and key points have to be equal pixel by pixel. Flows may differ by one level in a few of a million numbers, where an
angle's last bit does. Masks of COCO's outlines are compared where pycocotools is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
from typing import Any

import numpy as np
from oracle import pytorch
from oracle_vision import torchvision

import flambeau
from flambeau.vision import utils
from flambeau.vision.datasets.coco_masks import mask_of


def both(name: str, *arrays: Any, **options: Any) -> tuple[Any, Any]:
    """Our result and torchvision's, as arrays."""
    torch = pytorch()

    ours = getattr(utils, name)(*(flambeau.from_numpy(array.copy()) for array in arrays), **options)
    theirs = getattr(torchvision().utils, name)(*(torch.from_numpy(array.copy()) for array in arrays), **options)
    return ours.numpy(), theirs.numpy()


def drawings(random: Any, number: int) -> None:
    """One random image with everything drawn on it, and one random grid."""
    height, width = random.integers(10, 80, 2)
    image = random.integers(0, 256, (3, height, width)).astype(np.uint8)
    if number % 2:
        image = (image / 255).astype(np.float32)
    count = int(random.integers(1, 5))
    corners = np.sort(random.uniform(-5, 80, (count, 2, 2)), 1).reshape(count, 4)
    boxes = (random.uniform(-5, 80, (count, 8)) if number % 3 == 0 else corners).astype(np.float32)
    options = {"width": int(random.integers(1, 5)), "fill": number % 5 == 0, "fill_labels": number % 8 == 0}
    labels = [f"label {idx}" for idx in range(count)] if number % 4 == 0 else None
    points = random.uniform(-5, 80, (count, 6, 2)).astype(np.float32)
    joined = [(0, 1), (2, 3), (4, 5)]
    batch = random.standard_normal((random.integers(1, 9), random.choice([1, 3]), 5, 4)).astype(np.float32)
    layout = {"nrow": int(random.integers(1, 5)), "padding": int(random.integers(0, 4)), "scale_each": number % 3 == 0}
    for ours, theirs in (
        both("draw_bounding_boxes", image, boxes, labels=labels, **options),
        both("draw_segmentation_masks", image, random.random((count, height, width)) < 0.3, alpha=float(random.random())),
        both("draw_keypoints", image, points, connectivity=joined, radius=int(random.integers(1, 6)), colors="red"),
        both("make_grid", batch, normalize=bool(number % 2), **layout),
    ):
        np.testing.assert_array_equal(ours, theirs)


def masks(random: Any) -> None:
    """Random polygons as the COCO API fills and packs them."""
    from pycocotools import mask  # type: ignore[import-not-found]

    height, width = map(int, random.integers(1, 40, 2))
    shapes = [(random.integers(3, 9), 2) for _ in range(random.integers(1, 4))]
    polygons = [random.uniform(-3, max(height, width) + 3, shape).round(random.integers(0, 3)).ravel().tolist() for shape in shapes]
    packed = mask.merge(mask.frPyObjects(polygons, height, width))
    for outline in (polygons, packed):
        np.testing.assert_array_equal(mask_of(outline, height, width), mask.decode(packed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    for number in range(options.count):
        drawings(random, number)
    print(f"{options.count} random drawings of four kinds are equal")
    different = total = 0
    for power in range(-2, 2):
        ours, theirs = both("flow_to_image", (random.standard_normal((2, 500, 500)) * 10.0**power).astype(np.float32))
        assert (np.abs(ours.astype(int) - theirs) <= 1).all()
        different, total = different + int((ours != theirs).sum()), total + ours.size
    print(f"flows: {different} of {total} numbers differ, by one level")
    assert different <= 1e-5 * total
    if importlib.util.find_spec("pycocotools") is None:
        print("masks: pycocotools is not installed")
        return
    for _ in range(options.count):
        masks(random)
    print(f"{options.count} random masks are equal")


if __name__ == "__main__":
    main()
