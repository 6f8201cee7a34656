"""timm: image models of six families, their outputs, losses and gradients, and features of several depths."""

import timm
import torch

PACKAGES = ["timm"]
MODELS = {
    "resnet10t": {},
    "vit_tiny_patch16_224": {"img_size": 64},
    "mobilenetv3_small_050": {},
    "convnext_atto": {},
    "efficientnet_b0": {},
    "swin_tiny_patch4_window7_224": {"img_size": 64, "window_size": 2},
}
TOLERANCE = (1e-3, 1e-4)  # gradients through tens of normalizations of a batch of two


def results():
    found = {}
    for name, options in MODELS.items():
        torch.manual_seed(0)
        model = timm.create_model(name, pretrained=False, num_classes=5, **options).eval()
        images = torch.randn(2, 3, 64, 64)
        scores = model(images)
        loss = torch.nn.functional.cross_entropy(scores, torch.tensor([1, 3]))
        loss.backward()
        found[name] = [scores, loss, sum(weight.numel() for weight in model.parameters()), next(model.parameters()).grad.abs().mean()]
    torch.manual_seed(0)
    features = timm.create_model("resnet10t", features_only=True, pretrained=False).eval()(torch.randn(1, 3, 64, 64))
    found["features"] = [[feature.shape, feature.mean(), feature.std()] for feature in features]
    return found
