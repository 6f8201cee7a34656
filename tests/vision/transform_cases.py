"""The cases of test_transforms.py: how a transform is made, what it is given, and how far a result may be from the oracle's.

A case is written once and runs through both libraries: ``make`` gets the module of transforms and its library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

KINDS = ("rgb", "grey", "bytes", "floats", "batch")


@dataclass(frozen=True)
class Case:
    """``seeds`` is how often it runs, each time with another seed; ``levels`` how far apart bytes of tensors may be.

    One level is what rounding can do to a transform; where two follow one another, the second may double it. ``picture_levels`` is the same
    for PIL images: 0, but where they are transformed as tensors.
    """

    name: str
    make: Callable[[Any, Any], Any]
    kinds: Sequence[str] = KINDS
    seeds: int = 1
    levels: int = 1
    picture_levels: int = 0


def pixels_of_sample() -> np.ndarray:
    """Smooth parts, edges and noise, ``(H, W, C)``."""
    rows, columns = np.mgrid[0:19, 0:26]
    noise = np.random.default_rng(7).integers(0, 60, (19, 26, 3))
    planes = np.stack([9 * rows, 7 * columns, 120 * ((rows - columns) % 11 < 5)], -1)
    return (planes + noise).clip(3, 250).astype(np.uint8)


BOXES = {
    "XYXY": [[2.0, 3.0, 11.5, 9.0], [10.0, 1.0, 25.0, 18.0], [20.0, 12.0, 26.0, 13.0]],
    "CXCYWH": [[7, 6, 9, 6], [17, 9, 14, 17], [22, 12, 5, 3]],
    "XYWH": [[2, 3, 9, 6], [10, 1, 15, 17], [20, 12, 6, 1]],
    "CXCYWHR": [[7.0, 6.0, 9.0, 4.0, 20.0], [15.0, 9.0, 12.0, 8.0, -50.0], [21.0, 12.0, 5.0, 3.0, 90.0]],
    "XYWHR": [[4.0, 6.0, 9.0, 4.0, 20.0], [12.0, 5.0, 8.0, 6.0, -50.0], [21.0, 12.0, 5.0, 3.0, 90.0]],
    "XYXYXYXY": [[4.0, 6.0, 12.0, 3.0, 14.0, 7.0, 6.0, 10.0], [9.0, 2.0, 19.0, 6.0, 17.0, 11.0, 7.0, 7.0]],
}


def scene(format: str, library: Any, tv_tensors: Any) -> dict[str, Any]:
    """An image with boxes, and masks, points and labels beside them; the picture of Pillow for boxes of whole numbers."""
    pixels = pixels_of_sample()
    boxes = library.tensor(BOXES[format])
    count = len(boxes)
    image = tv_tensors.Image(library.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))))
    return {
        "image": image if boxes.is_floating_point() else Image.fromarray(pixels),
        "boxes": tv_tensors.BoundingBoxes(boxes, format=format, canvas_size=(19, 26)),
        "masks": tv_tensors.Mask(library.from_numpy((pixels[None, ..., 0] > 20 * np.arange(1, count + 1)[:, None, None]).copy())),
        "points": tv_tensors.KeyPoints(library.tensor([[[3.0, 4.0], [20.5, 17.0]], [[25.0, 0.0], [12.0, 9.5]]]), canvas_size=(19, 26)),
        "labels": library.arange(count),
        "name": "scene",
    }


def sample(kind: str, library: Any, tv_tensors: Any) -> Any:
    """What a transform is given, the same for both libraries; a format of boxes stands for a whole scene."""
    if kind in BOXES:
        return scene(kind, library, tv_tensors)
    pixels = pixels_of_sample()
    if kind == "rgb":
        return Image.fromarray(pixels)
    if kind == "grey":
        return Image.fromarray(np.ascontiguousarray(pixels[..., 0]))
    if kind == "array":
        return pixels
    tensor = library.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
    if kind == "labelled":
        return library.stack([tensor, tensor.flip(-1), 255 - tensor]).float() / 255, library.tensor([2, 0, 1])
    if kind == "video":
        return tv_tensors.Video(library.stack([tensor, tensor.flip(-1), 255 - tensor, tensor // 2]))
    if kind == "tiny":
        return library.arange(24.0).view(2, 3, 2, 2)
    if kind == "clip":
        return library.stack([tensor, tensor.flip(-1)]).float() / 255
    if kind == "batch":
        return library.stack([tensor, tensor.flip(-1)])
    return tensor.float() / 255 if kind == "floats" else tensor


TENSORS, PICTURES, COLOURED = ("bytes", "floats", "batch"), ("rgb", "grey"), ("rgb", "bytes", "floats", "batch")
BYTES = ("rgb", "grey", "bytes", "batch")


def mode(T: Any, name: str) -> Any:
    return T.InterpolationMode[name]


# Both the classic and the v2 form have these.
SHARED = [
    Case("resize", lambda T, t: T.Resize(12)),
    Case("resize both", lambda T, t: T.Resize((31, 9), antialias=True)),
    Case("resize at most", lambda T, t: T.Resize(12, max_size=14)),
    Case("resize bicubic", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "BICUBIC"))),
    Case("resize nearest", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "NEAREST"))),
    Case("resize exact", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "NEAREST_EXACT"))),
    Case("resize sharp", lambda T, t: T.Resize((8, 11), antialias=False), TENSORS),
    Case("resize box", lambda T, t: T.Resize((13, 40), interpolation=mode(T, "BOX")), PICTURES),
    Case("center crop", lambda T, t: T.CenterCrop((8, 11))),
    Case("center crop beyond", lambda T, t: T.CenterCrop((30, 11))),
    Case("five crop", lambda T, t: T.FiveCrop(9)),
    Case("ten crop", lambda T, t: T.TenCrop((9, 4), vertical_flip=True)),
    Case("pad", lambda T, t: T.Pad((3, 2), fill=7)),
    Case("pad edge", lambda T, t: T.Pad((3, 2, 0, 1), padding_mode="edge")),
    Case("pad reflect", lambda T, t: T.Pad(4, padding_mode="reflect")),
    Case("pad symmetric", lambda T, t: T.Pad((4, 1), padding_mode="symmetric")),
    Case("pad colour", lambda T, t: T.Pad(2, fill=(1, 2, 3)), ("rgb",)),
    Case("random crop", lambda T, t: T.RandomCrop(11), seeds=2),
    Case("random crop padded", lambda T, t: T.RandomCrop((11, 8), padding=3, fill=2)),
    Case("random crop if needed", lambda T, t: T.RandomCrop((25, 20), pad_if_needed=True, padding_mode="edge")),
    Case("random resized crop", lambda T, t: T.RandomResizedCrop(10), seeds=2),
    Case("random resized crop, no window fits", lambda T, t: T.RandomResizedCrop((10, 12), scale=(3.0, 4.0), ratio=(4.0, 5.0))),
    Case("flip", lambda T, t: T.RandomHorizontalFlip(), seeds=3),
    Case("vertical flip", lambda T, t: T.RandomVerticalFlip(0.9)),
    Case("rotation", lambda T, t: T.RandomRotation(40), seeds=2),
    Case("rotation expanded", lambda T, t: T.RandomRotation((20, 70), mode(T, "BILINEAR"), expand=True, fill=1)),
    Case("rotation about a corner", lambda T, t: T.RandomRotation(40, mode(T, "BILINEAR"), center=(0, 3))),
    Case("affine", lambda T, t: T.RandomAffine(30, translate=(0.2, 0.1), scale=(0.7, 1.4), shear=(-9, 9, -5, 5), fill=9), seeds=2),
    Case("affine smooth", lambda T, t: T.RandomAffine(0, shear=11, interpolation=mode(T, "BILINEAR"), center=(4, 5))),
    Case("perspective", lambda T, t: T.RandomPerspective(0.6, p=1.0, fill=1), seeds=2),
    Case("perspective nearest", lambda T, t: T.RandomPerspective(p=0.9, interpolation=mode(T, "NEAREST"))),
    Case("elastic", lambda T, t: T.ElasticTransform(alpha=60.0, sigma=1.5, fill=1)),
    Case("jitter", lambda T, t: T.ColorJitter(0.4, 0.5, 0.6, 0.2), seeds=3),
    Case("jitter brightness", lambda T, t: T.ColorJitter(brightness=(0.5, 2.0))),
    Case("jitter hue", lambda T, t: T.ColorJitter(hue=0.5)),
    Case("grey", lambda T, t: T.Grayscale(3), COLOURED),
    Case("grey alone", lambda T, t: T.Grayscale(), COLOURED),
    Case("random grey", lambda T, t: T.RandomGrayscale(0.5), seeds=2),
    Case("invert", lambda T, t: T.RandomInvert(), seeds=2),
    Case("posterize", lambda T, t: T.RandomPosterize(3, p=1.0), BYTES),
    Case("solarize", lambda T, t: T.RandomSolarize(100, p=1.0), BYTES),
    Case("solarize floats", lambda T, t: T.RandomSolarize(0.4, p=1.0), ("floats",)),
    Case("sharper", lambda T, t: T.RandomAdjustSharpness(2.5, p=1.0)),
    Case("smoother", lambda T, t: T.RandomAdjustSharpness(0.0, p=1.0)),
    Case("autocontrast", lambda T, t: T.RandomAutocontrast(p=1.0)),
    Case("equalize", lambda T, t: T.RandomEqualize(p=1.0), BYTES),
    Case("blur", lambda T, t: T.GaussianBlur((5, 3), (0.3, 1.7)), seeds=2),
    Case("normalize", lambda T, t: T.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4)), ("floats",)),
    Case("erasing", lambda T, t: T.RandomErasing(p=0.9), TENSORS, seeds=2),
    Case("erasing, random values", lambda T, t: T.RandomErasing(p=1.0, value="random"), ("floats",)),
    Case("erasing, colours", lambda T, t: T.RandomErasing(p=1.0, scale=(0.3, 0.4), value=(1, 2, 3)), TENSORS),
    Case("to bytes", lambda T, t: T.ConvertImageDtype(t.uint8), TENSORS),
    Case("to floats", lambda T, t: T.ConvertImageDtype(t.float64), TENSORS),
    Case("to shorts", lambda T, t: T.ConvertImageDtype(t.int16), TENSORS),
    Case("pil to tensor", lambda T, t: T.PILToTensor(), PICTURES),
    Case("to picture", lambda T, t: T.ToPILImage(), ("bytes", "floats")),
    Case("whitened", lambda T, t: T.LinearTransformation(t.eye(12) * 2, t.arange(12.0)), ("tiny",)),
    Case("auto augment", lambda T, t: T.AutoAugment(), BYTES, levels=2, seeds=4),
    Case("auto augment cifar", lambda T, t: T.AutoAugment(T.AutoAugmentPolicy.CIFAR10, fill=5), BYTES, levels=2, seeds=2),
    Case("auto augment svhn", lambda T, t: T.AutoAugment(T.AutoAugmentPolicy.SVHN), BYTES, levels=2, seeds=2),
    Case("rand augment", lambda T, t: T.RandAugment(), BYTES, levels=2, seeds=4),
    Case("trivial augment", lambda T, t: T.TrivialAugmentWide(fill=3), BYTES, seeds=4),
    Case("aug mix", lambda T, t: T.AugMix(), BYTES, seeds=2, levels=2, picture_levels=2),
    Case("compose", lambda T, t: T.Compose([T.Resize(15), T.RandomCrop(9), T.RandomHorizontalFlip()])),
    Case("random apply", lambda T, t: T.RandomApply([T.Pad(1), T.Resize(7)], p=0.6), seeds=2),
    Case("random order", lambda T, t: T.RandomOrder([T.Pad(1), T.Resize(7), T.CenterCrop(6)]), seeds=2),
    Case("random choice", lambda T, t: T.RandomChoice([T.Pad(1), T.Resize(7), T.CenterCrop(6)], p=[0.2, 0.5, 0.3]), seeds=2),
]
CLASSIC = [
    Case("to tensor", lambda T, t: T.ToTensor(), ("rgb", "grey", "array")),
    Case("lambda", lambda T, t: T.Lambda(lambda img: img)),
    Case("classification", lambda T, t: T._presets.ImageClassification(crop_size=9, resize_size=12), ("rgb", "floats")),
    Case("detection", lambda T, t: T._presets.ObjectDetection(), ("rgb", "bytes")),
    Case("segmentation", lambda T, t: T._presets.SemanticSegmentation(resize_size=12), ("rgb", "floats")),
    Case("video", lambda T, t: T._presets.VideoClassification(crop_size=(8, 8), resize_size=(10, 12)), ("clip",)),
]

PLAIN, TURNED = ("XYXY", "CXCYWH", "XYWH"), ("CXCYWHR", "XYWHR", "XYXYXYXY")
SCENES = (*PLAIN, *TURNED, "video")

V2 = [
    # geometry of whole scenes
    Case("scene resize", lambda T, t: T.Resize(12), SCENES),
    Case("scene resize at most", lambda T, t: T.Resize(None, max_size=15), SCENES),
    Case("scene lanczos", lambda T, t: T.Resize((13, 40), interpolation="lanczos"), TENSORS),
    Case("scene flip", lambda T, t: T.RandomHorizontalFlip(1.0), SCENES),
    Case("scene vertical flip", lambda T, t: T.RandomVerticalFlip(1.0), SCENES),
    Case("scene center crop", lambda T, t: T.CenterCrop((15, 20)), SCENES),
    Case("scene center crop beyond", lambda T, t: T.CenterCrop((30, 11)), PLAIN),
    Case("scene pad", lambda T, t: T.Pad((3, 2, 0, 1), fill=1), SCENES),
    Case("scene crop", lambda T, t: T.RandomCrop(15, padding=1), SCENES, seeds=2),
    Case("scene resized crop", lambda T, t: T.RandomResizedCrop((20, 30), scale=(0.5, 1.0)), SCENES, seeds=2),
    Case("scene zoom out", lambda T, t: T.RandomZoomOut(fill={t.Tensor: 3, "others": 1}, p=1.0), SCENES),
    Case("scene rotation", lambda T, t: T.RandomRotation(30), SCENES),
    Case("scene rotation expanded", lambda T, t: T.RandomRotation(30, expand=True), SCENES),
    Case("scene quarter turn", lambda T, t: T.RandomRotation((90, 90), expand=True), SCENES),
    Case("scene affine", lambda T, t: T.RandomAffine(20, translate=(0.2, 0.1), scale=(0.8, 1.2), shear=8), SCENES),
    Case("scene perspective", lambda T, t: T.RandomPerspective(0.4, p=1.0, fill=1), SCENES),
    Case("scene elastic", lambda T, t: T.ElasticTransform(30.0, 2.0), SCENES),
    Case("scene jitter of scale", lambda T, t: T.ScaleJitter((24, 30), scale_range=(0.6, 1.4)), SCENES),
    Case("scene shortest size", lambda T, t: T.RandomShortestSize([10, 14, 17], max_size=20), SCENES),
    Case("scene random size", lambda T, t: T.RandomResize(9, 25), SCENES),
    Case("scene crop by overlap", lambda T, t: T.RandomIoUCrop(), PLAIN, seeds=3),
    Case(
        "scene hard borders", lambda T, t: T.Compose([T.SetClampingMode("hard"), T.RandomAffine(40, translate=(0.4, 0.4))]), TURNED, seeds=3
    ),
    Case("scene no borders", lambda T, t: T.Compose([T.SetClampingMode(None), T.RandomAffine(40, translate=(0.4, 0.4))]), SCENES),
    Case("scene crop far outside", lambda T, t: T.Compose([T.Pad(-6), T.ClampBoundingBoxes(), T.ClampKeyPoints()]), (*PLAIN, *TURNED)),
    Case("to corners", lambda T, t: T.ConvertBoundingBoxFormat("XYXY"), PLAIN),
    Case("to centres", lambda T, t: T.ConvertBoundingBoxFormat("CXCYWH"), PLAIN),
    Case("to corner and size", lambda T, t: T.ConvertBoundingBoxFormat("XYWH"), PLAIN),
    Case("to turned centres", lambda T, t: T.ConvertBoundingBoxFormat("CXCYWHR"), TURNED),
    Case("to turned corners", lambda T, t: T.ConvertBoundingBoxFormat("XYXYXYXY"), TURNED),
    Case("to a turned corner", lambda T, t: T.ConvertBoundingBoxFormat("XYWHR"), TURNED),
    Case("sanitized", lambda T, t: T.SanitizeBoundingBoxes(min_size=5, min_area=30), (*PLAIN, *TURNED)),
    Case("sanitized points", lambda T, t: T.Compose([T.CenterCrop((19, 22)), T.SanitizeKeyPoints()]), PLAIN),
    # colours and the rest
    Case("scene jitter", lambda T, t: T.ColorJitter(0.4, 0.5, 0.6, 0.2), SCENES),
    Case("distorted", lambda T, t: T.RandomPhotometricDistort(p=0.7), (*COLOURED, "video"), seeds=4, levels=2),
    Case("channels", lambda T, t: T.RandomChannelPermutation(), (*COLOURED, "video")),
    Case("to colours", lambda T, t: T.RGB(), PICTURES),
    Case("posterize floats", lambda T, t: T.RandomPosterize(3, p=1.0), ("floats",)),
    Case("equalize floats", lambda T, t: T.RandomEqualize(p=1.0), ("floats", "video")),
    Case("noise", lambda T, t: T.GaussianNoise(0.1, 0.2), TENSORS),
    Case("noise beyond", lambda T, t: T.GaussianNoise(clip=False), TENSORS),
    Case("erased pictures", lambda T, t: T.RandomErasing(p=1.0), ("rgb", "video", "XYXY")),
    Case("jpeg", lambda T, t: T.JPEG((40, 90)), ("rgb",)),
    Case("frames", lambda T, t: T.UniformTemporalSubsample(3), ("video",)),
    Case("to image", lambda T, t: T.ToImage(), (*KINDS, "array")),
    Case("to plain tensors", lambda T, t: T.ToPureTensor(), SCENES),
    Case("dtypes", lambda T, t: T.ToDtype({t.Tensor: t.float64, "others": None}), SCENES),
    Case("dtype scaled", lambda T, t: T.ToDtype(t.float32, scale=True), (*SCENES, *TENSORS)),
    Case("identity", lambda T, t: T.Identity(), SCENES),
    Case("lambda by type", lambda T, t: T.Lambda(lambda value: value + 1, t.Tensor), SCENES),
    Case("mixed up", lambda T, t: T.MixUp(num_classes=3), ("labelled",), seeds=2),
    Case("cut and mixed", lambda T, t: T.CutMix(num_classes=3), ("labelled",), seeds=2),
    Case("video augmented", lambda T, t: T.RandAugment(), ("video",), seeds=3, levels=2),
]
