"""What transforms look like, refuse, and warn of; kinds of tensors; Pillow's resizing beside that of bytes."""

from __future__ import annotations

import copy
import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import pytorch
from oracle_vision import torchvision
from PIL import Image
from vision.transform_cases import pixels_of_sample

import flambeau as torch
from flambeau.vision import transforms, tv_tensors
from flambeau.vision.transforms import functional as F, v2

MODULES = ("transforms", "transforms._presets", "transforms.v2", "transforms.v2.functional", "tv_tensors")
IMPORTED = {"annotations", "importlib", "torch", "transforms"}


def public(module: Any) -> set[str]:
    return {name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")}


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_torchvision_is_there(name):
    torchvision()
    theirs, ours = [importlib.import_module(f"{package}.{name}") for package in ("torchvision", "flambeau.vision")]
    assert not [missing for missing in public(theirs) - IMPORTED if not hasattr(ours, missing)]


SHOWN = [
    "Resize(4)",
    "CenterCrop((3, 4))",
    "Pad(2, 1, 'edge')",
    "RandomCrop(3, padding=1)",
    "RandomResizedCrop(5)",
    "RandomHorizontalFlip(0.3)",
    "FiveCrop(3)",
    "TenCrop(3)",
    "Normalize([0.5], [0.5])",
    "ColorJitter(0.2, hue=0.1)",
    "RandomRotation(20, center=(1, 2))",
    "RandomAffine(20, scale=(0.5, 1), fill=3)",
    "RandomAffine(0, translate=(0.2, 0.1), shear=4)",
    "Grayscale(3)",
    "RandomPerspective()",
    "RandomErasing(value='random')",
    "GaussianBlur(3)",
    "RandomPosterize(2)",
    "RandomSolarize(9)",
    "RandomAdjustSharpness(2)",
    "ElasticTransform()",
    "AutoAugment()",
    "RandAugment()",
    "TrivialAugmentWide()",
    "ToPILImage('L')",
    "Compose([T.Resize(4), T.CenterCrop(2)])",
    "RandomApply([T.Resize(4)], p=0.2)",
    "RandomChoice([T.Resize(4)])",
    "RandomOrder([T.Resize(4)])",
]
SHOWN_IN_V2 = ["RandomZoomOut()", "ScaleJitter((3, 4))", "RandomIoUCrop()", "JPEG(50)", "Lambda(abs, int)", "SanitizeBoundingBoxes()"]


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["transforms", "transforms.v2"])
def test_transforms_are_shown_as_torchvision_shows_them(form):
    torchvision()
    theirs, ours = [importlib.import_module(f"{package}.{form}") for package in ("torchvision", "flambeau.vision")]
    for words in SHOWN + (SHOWN_IN_V2 if form.endswith("v2") else []):
        assert repr(eval(f"T.{words}", {"T": ours})) == repr(eval(f"T.{words}", {"T": theirs}))


REFUSED = [
    ("Resize", ([1, 2, 3],), {}),
    ("CenterCrop", ([1, 2, 3],), {}),
    ("Pad", ([1, 2, 3],), {}),
    ("Pad", (1,), {"padding_mode": "round"}),
    ("RandomResizedCrop", (3,), {"scale": 1}),
    ("RandomRotation", (-3,), {}),
    ("RandomRotation", ([1, 2, 3],), {}),
    ("RandomAffine", (3,), {"translate": (0.2, 3)}),
    ("RandomAffine", (3,), {"scale": (0, 3)}),
    ("ColorJitter", (-1,), {}),
    ("ColorJitter", (), {"hue": 0.7}),
    ("GaussianBlur", (4,), {}),
    ("GaussianBlur", (3, -1), {}),
    ("RandomErasing", (), {"value": "grey"}),
    ("RandomErasing", (), {"scale": (0.1, 2.0)}),
    ("AugMix", (0,), {}),
    ("AutoAugment", ("imagenet",), {}),
]


def error_of(function: Any, *args: Any, **options: Any) -> type | None:
    try:
        function(*args, **options)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.oracle
@pytest.mark.parametrize("form", ["transforms", "transforms.v2"])
def test_wrong_arguments_are_refused_as_in_torchvision(form):
    torchvision()
    theirs, ours = [importlib.import_module(f"{package}.{form}") for package in ("torchvision", "flambeau.vision")]
    for name, args, options in REFUSED:
        expected = error_of(getattr(theirs, name), *args, **options)
        assert expected is not None and error_of(getattr(ours, name), *args, **options) is expected, (name, args)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: F.to_tensor(x), TypeError),
        (lambda x: F.resize(x, [1, 2, 3]), ValueError),
        (lambda x: F.resize(x, 3, interpolation="bilinear"), TypeError),
        (lambda x: F.resize(np.zeros((3, 3)), 3), TypeError),
        (lambda x: F.resize(x, 4, max_size=3), ValueError),
        (lambda x: F.five_crop(x, 40), ValueError),
        (lambda x: F.normalize(x, [0.5], [0.5]), TypeError),
        (lambda x: F.normalize(x.float(), [0.5], [0.0]), ValueError),
        (lambda x: F.adjust_hue(x, 0.6), ValueError),
        (lambda x: F.adjust_brightness(x[:2], 1.0), TypeError),
        (lambda x: F.posterize(x.float(), 3), TypeError),
        (lambda x: F.equalize(x.float()), TypeError),
        (lambda x: F.rotate(x, 3, fill=[1, 2]), ValueError),
        (lambda x: F.affine(x, 3, [1], 1.0, 0), ValueError),
        (lambda x: F.affine(x, 3, [1, 2], 0.0, 0), ValueError),
        (lambda x: F.gaussian_blur(x, 4), ValueError),
        (lambda x: F.convert_image_dtype(x.float(), torch.int64), RuntimeError),
        (lambda x: F.to_pil_image(torch.zeros(5, 3, 3)), ValueError),
        (lambda x: v2.functional.resize([1], 3), TypeError),
        (lambda x: v2.Normalize([0.5], [0.5])(Image.new("RGB", (3, 3))), TypeError),
        (lambda x: v2.FiveCrop(2)(x, tv_tensors.Mask(x)), TypeError),
        (lambda x: v2.RandomCrop(99)(x), ValueError),
        (lambda x: v2.SanitizeBoundingBoxes()({"image": x}), ValueError),
    ],
)
def test_wrong_inputs_are_refused(call, error):
    with pytest.raises(error):
        call(torch.zeros(3, 9, 9, dtype=torch.uint8))


def test_old_names_are_deprecated():
    with pytest.warns(UserWarning, match="use transforms.Resize"):
        old = transforms.Scale(7)
    assert old(Image.new("RGB", (14, 21))).size == (7, 10)
    with pytest.warns(UserWarning, match="use transforms.RandomResizedCrop"):
        assert transforms.RandomSizedCrop(5)(torch.rand(3, 9, 9)).shape == (3, 5, 5)


# Where cubic filters overshoot, what is cut off depends on which dimension comes first; Pillow chooses by the sizes.
@pytest.mark.parametrize(
    ("mode", "size"),
    [("BILINEAR", (5, 9)), ("BILINEAR", (40, 33)), ("BILINEAR", (12, 50)), ("BICUBIC", (5, 9)), ("BICUBIC", (60, 20)), ("LANCZOS", (5, 9))],
)
def test_bytes_are_resized_as_pillow_does(mode, size):
    pixels = np.concatenate([pixels_of_sample(), np.random.default_rng(1).integers(0, 256, (30, 26, 3)).astype(np.uint8)])
    interpolation = transforms.InterpolationMode[mode]
    expected = np.asarray(F.resize(Image.fromarray(pixels), size, interpolation))
    resized = v2.functional.resize(v2.functional.to_image(pixels), size, interpolation)
    assert np.abs(resized.numpy().transpose(1, 2, 0).astype(int) - expected).max() <= 1


def test_tensors_are_compressed_as_pictures_are():
    picture = Image.fromarray(pixels_of_sample())
    compressed = v2.functional.jpeg(F.pil_to_tensor(picture), 30)
    np.testing.assert_array_equal(compressed.permute(1, 2, 0).numpy(), np.asarray(v2.functional.jpeg(picture, 30)))
    assert not torch.equal(compressed, F.pil_to_tensor(picture))


def test_images_become_tensors_of_their_own():
    pixels = pixels_of_sample()[..., :1].copy()
    for image in (Image.fromarray(pixels[..., 0]), pixels, pixels.astype(np.float32), pixels[::-1], Image.new("F", (3, 2))):
        tensor = F.to_tensor(image)
        before = np.asarray(image).copy()
        tensor.zero_()
        np.testing.assert_array_equal(np.asarray(image), before)


# -- kinds of tensors --------------------------------------------------------------------------------------------------------------------
def test_operations_return_plain_tensors_unless_told():
    boxes = tv_tensors.BoundingBoxes([[1, 2, 3, 4]], format="xyxy", canvas_size=(9, 9))
    assert type(boxes + 1) is torch.Tensor and type(boxes[0]) is torch.Tensor
    for kept in (boxes.clone(), boxes.to(torch.float32), boxes.detach(), copy.deepcopy(boxes)):
        assert type(kept) is tv_tensors.BoundingBoxes and kept.format is tv_tensors.BoundingBoxFormat.XYXY and kept.canvas_size == (9, 9)
    with tv_tensors.set_return_type("TVTensor"):
        assert type(boxes + 1) is tv_tensors.BoundingBoxes and (boxes + 1).canvas_size == (9, 9)
        assert [type(part) for part in boxes.unbind(-1)] == [tv_tensors.BoundingBoxes] * 4
    assert type(boxes + 1) is torch.Tensor
    assert type(torch.zeros(4).to(tv_tensors.Image(torch.zeros(2, 2)))) is torch.Tensor
    with pytest.raises(ValueError, match="return_type"):
        tv_tensors.set_return_type("boxes")
    assert type(boxes.data) is torch.Tensor
    with tv_tensors.set_return_type("TVTensor"):
        assert type(boxes.data) is tv_tensors.BoundingBoxes


@pytest.mark.oracle
def test_kinds_are_shown_as_torchvision_shows_them(oracle):
    torchvision()
    for library, kinds in ((oracle, pytorch("torchvision.tv_tensors")), (torch, tv_tensors)):
        boxes = kinds.BoundingBoxes(library.tensor([1.0, 2, 3, 4, 5]), format="CXCYWHR", canvas_size=(9, 8), clamping_mode="hard")
        shown = [repr(boxes), repr(kinds.Image(library.zeros(1, 2))), repr(kinds.KeyPoints([1, 2], canvas_size=(3, 4)))]
        if library is oracle:
            expected = shown
    assert shown == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: tv_tensors.Image(torch.zeros(3)),
        lambda: tv_tensors.Video(torch.zeros(3, 3, 3)),
        lambda: tv_tensors.BoundingBoxes(torch.zeros(1, 1, 4), format="XYXY", canvas_size=(3, 3)),
        lambda: tv_tensors.BoundingBoxes(torch.zeros(1, 5, dtype=torch.int64), format="XYWHR", canvas_size=(3, 3)),
        lambda: tv_tensors.BoundingBoxes(torch.zeros(4), format="XYXY", canvas_size=(3, 3), clamping_mode="sharp"),
        lambda: tv_tensors.KeyPoints(torch.zeros(2, 3), canvas_size=(3, 3)),
    ],
)
def test_kinds_refuse_other_shapes(make):
    with pytest.raises(ValueError):
        make()


class Depth(tv_tensors.TVTensor):
    """A kind of one's own."""


def test_a_kernel_for_a_kind_of_ones_own():
    depth = torch.arange(6.0).view(1, 2, 3).as_subclass(Depth)
    assert v2.RandomVerticalFlip(p=1.0)(depth) is depth  # there is no kernel yet, and it is no plain tensor

    @v2.functional.register_kernel("vertical_flip", Depth)
    def flipped(inpt: Depth) -> Any:
        return tv_tensors.wrap(inpt.as_subclass(torch.Tensor).flip(-2) + 1, like=inpt)

    result = v2.RandomVerticalFlip(p=1.0)(depth)
    assert type(result) is Depth and result.tolist() == [[[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]]
    for functional, kind in (("vertical_flip", Depth), ("no_flip", Depth), (len, Depth), ("vertical_flip", tv_tensors.Image)):
        with pytest.raises(ValueError):
            v2.functional.register_kernel(functional, kind)(flipped)


def test_labels_and_other_tensors_pass():
    image, label = torch.rand(3, 4, 4), torch.tensor([1.0])
    out, same = v2.RandomHorizontalFlip(p=1.0)(image, label)
    assert torch.equal(out, image.flip(-1)) and same is label
    mask = tv_tensors.Mask(torch.ones(4, 4))
    plain, kept, number = v2.Resize(2)({"a": image, "b": mask, "c": 3}).values()
    assert plain.shape == (3, 2, 2) and kept.shape == (2, 2) and type(kept) is tv_tensors.Mask and number == 3


def test_gradients_pass_through_transforms():
    image = torch.rand(3, 6, 6, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = transforms.Compose([transforms.Resize(4), transforms.Normalize([0.5] * 3, [0.5] * 3), transforms.RandomRotation(30)])(image)
    out.sum().backward()
    assert image.grad is not None and image.grad.abs().sum() > 0
