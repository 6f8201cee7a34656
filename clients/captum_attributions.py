"""captum: attributions of a small network's answer by gradients, paths, occlusion and layers."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
)

PACKAGES = ["captum"]


def results():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 3)).eval()
    x, baseline = torch.randn(4, 6), torch.zeros(4, 6)
    integrated, delta = IntegratedGradients(model).attribute(x, baseline, target=1, return_convergence_delta=True, n_steps=20)
    images = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 2)
    )
    picture = torch.randn(2, 1, 8, 8)
    return {
        "integrated gradients": integrated,
        "delta": delta,
        "saliency": Saliency(model).attribute(x, target=2),
        "times gradient": InputXGradient(model).attribute(x, target=0),
        "ablation": FeatureAblation(model).attribute(x, target=1),
        "deep lift": DeepLift(model).attribute(x, baseline, target=1),
        "conductance": LayerConductance(model, model[0]).attribute(x, target=1, n_steps=20),
        "occlusion": Occlusion(images).attribute(picture, sliding_window_shapes=(1, 3, 3), target=1),
        "grad-cam": LayerGradCam(images, images[0]).attribute(picture, target=0),
    }
