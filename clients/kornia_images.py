"""kornia: colours, filters, edges, warps, augmentations, losses, features and a camera, with gradients and a registration trained."""

import kornia
import kornia.augmentation as K
import torch
from kornia import color, enhance, feature, filters, geometry, losses, metrics, morphology
from torch import nn

PACKAGES = ["kornia", "kornia-rs"]
TOLERANCE = (1e-4, 2e-5)


def image(*shape):
    """A smooth picture."""
    generator = torch.Generator().manual_seed(0)
    return nn.functional.interpolate(torch.rand(*shape[:-2], 6, 6, generator=generator), shape[-2:], mode="bicubic").clamp(0, 1)


def colours(x):
    gray = color.rgb_to_grayscale(x)
    return {
        "gray": gray[0, 0, ::5, ::5],
        "hsv": color.rgb_to_hsv(x)[0, :, ::9, ::9],
        "lab": color.lab_to_rgb(color.rgb_to_lab(x))[0, :, ::9, ::9],
        "yuv": color.rgb_to_yuv(x).mean((2, 3)),
        "equalized": enhance.equalize_clahe(gray)[0, 0, ::7, ::7],
        "adjusted": enhance.adjust_gamma(enhance.adjust_contrast(x, 1.2), 0.8).mean((2, 3)),
        "histogram": enhance.histogram(gray.flatten(1), torch.linspace(0, 1, 8), torch.tensor(0.1)),
    }


def filtered(x):
    gray = color.rgb_to_grayscale(x)
    image = x.clone().requires_grad_()
    blurred = filters.gaussian_blur2d(image, (5, 5), (1.5, 1.5))
    blurred.square().sum().backward()
    kernel = torch.ones(3, 3)
    return {
        "blurred": blurred[0, :, ::9, ::9],
        "gradient": image.grad[0, :, ::9, ::9],
        "sobel": filters.sobel(gray)[0, 0, ::7, ::7],
        "canny": [part.sum() for part in filters.canny(gray, hysteresis=False)],
        "median": filters.median_blur(x, (3, 3)).mean((2, 3)),
        "bilateral": filters.bilateral_blur(x, (3, 3), 0.1, (1.5, 1.5)).mean((2, 3)),
        "laplacian": filters.laplacian(gray, 3).abs().mean(),
        "sharp": filters.unsharp_mask(x, (5, 5), (1.0, 1.0)).mean((2, 3)),
        "opened": morphology.opening(gray, kernel).mean(),
        "eroded": morphology.erosion(gray, kernel)[0, 0, ::9, ::9],
    }


def warped(x):
    matrix = geometry.get_rotation_matrix2d(torch.tensor([[16.0, 16.0]]).repeat(2, 1), torch.tensor([20.0, -35.0]), torch.ones(2, 2))
    corners = torch.tensor([[[0.0, 0.0], [31.0, 0.0], [31.0, 31.0], [0.0, 31.0]]])
    homography = geometry.get_perspective_transform(corners, corners + torch.tensor([[[2.0, 1.0], [-3.0, 2.0], [1.0, -2.0], [0.0, 3.0]]]))
    camera = geometry.camera.PinholeCamera.from_parameters(
        torch.tensor([20.0]), torch.tensor([20.0]), torch.tensor([16.0]), torch.tensor([16.0]), 32, 32, torch.tensor([0.1]),
        torch.tensor([0.0]), torch.tensor([2.0]), 1, "cpu", torch.float32,
    )  # fmt: skip
    quaternion = geometry.Quaternion.from_axis_angle(torch.tensor([[0.3, -0.2, 0.5]]))
    return {
        "affine": geometry.warp_affine(x, matrix, (32, 32))[0, :, ::9, ::9],
        "perspective": geometry.warp_perspective(x[:1], homography, (32, 32))[0, :, ::9, ::9],
        "homography": homography,
        "found": geometry.find_homography_dlt(corners, geometry.transform_points(homography, corners)),
        "pyramid": [level.mean() for level in geometry.build_pyramid(x, 3)],
        "projected": camera.project(torch.tensor([[[0.2, 0.1, 1.0], [0.5, -0.3, 2.0]]])),
        "rotation": quaternion.matrix(),
        "flow": geometry.subpix.spatial_soft_argmax2d(x, normalized_coordinates=False),
        "elastic": geometry.elastic_transform2d(x[:1], torch.full((1, 2, 32, 32), 0.05)).mean((2, 3)),
    }


def augmented(x):
    torch.manual_seed(3)
    pipeline = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=0.5),
        K.RandomAffine(degrees=20.0, translate=(0.1, 0.1), p=1.0),
        K.ColorJiggle(0.2, 0.2, 0.2, 0.1, p=1.0),
        K.RandomErasing(p=0.5),
        data_keys=["input", "mask"],
    )
    images, masks = pipeline(x, (x[:, :1] > 0.5).float())
    crops = K.RandomResizedCrop((16, 16), p=1.0)(x)
    mixed, labels = K.RandomMixUpV2(p=1.0, data_keys=["input", "class"])(x, torch.tensor([0, 1]))
    return {
        "images": images[:, :, ::9, ::9],
        "masks": masks.mean((1, 2, 3)),
        "crops": crops.mean((2, 3)),
        "mixed": mixed.mean(),
        "labels": labels,
    }


def judged(x):
    other = filters.gaussian_blur2d(x, (5, 5), (1.0, 1.0))
    logits = torch.stack([x.mean(1), 1 - x.mean(1), x[:, 0]], 1).requires_grad_()
    target = (x.mean(1) * 2.9).long()
    found = {
        "ssim": losses.ssim_loss(x, other, 5),
        "psnr": metrics.psnr(x, other, 1.0),
        "dice": losses.dice_loss(logits, target),
        "focal": losses.focal_loss(logits, target, 0.5, reduction="mean"),
        "tversky": losses.tversky_loss(logits, target, 0.3, 0.7),
        "total variation": losses.total_variation(x),
        "iou": metrics.mean_iou(logits.argmax(1), target, 3),
    }
    (found["dice"] + found["focal"] + found["tversky"]).backward()
    return {**found, "of logits": logits.grad[0, :, ::9, ::9]}


def features(x):
    gray = color.rgb_to_grayscale(x)
    patches = gray[:, :, :32, :32].expand(2, 1, 32, 32)
    sift = feature.SIFTDescriptor(32)(patches)
    distances, pairs = feature.match_nn(sift, sift.flip(0))
    return {
        "sift": sift[:, :16],
        "harris": feature.harris_response(gray)[0, 0, ::9, ::9],
        "hessian": feature.hessian_response(gray).mean(),
        "matched": [distances, pairs],
        "hog": feature.DenseSIFTDescriptor()(gray[:1]).mean((2, 3))[0, :6],
    }


def registered(x):
    """Moves one picture onto another by gradient descent."""
    source = x[:1]
    shift = nn.Parameter(torch.zeros(1, 2))
    target = geometry.translate(source, torch.tensor([[1.5, -2.0]]))
    optimizer = torch.optim.Adam([shift], 0.3)
    history = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (geometry.translate(source, shift) - target).square().mean()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return {"history": history, "shift": shift}


def results():
    x = image(2, 3, 32, 32)
    found = {"version": kornia.__version__}
    for part in (colours, filtered, warped, augmented, judged, features, registered):
        found |= part(x)
    return found
