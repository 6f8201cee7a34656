"""torchattacks: adversarial images by twenty-one attacks on a small network."""

import numpy as np
import torch
import torchattacks
from torch import nn

PACKAGES = ["torchattacks"]
ATTACKS = {
    "FGSM": {},
    "BIM": {"steps": 3},
    "PGD": {"steps": 3},
    "PGDL2": {"steps": 3},
    "CW": {"steps": 3},
    "DeepFool": {"steps": 3},
    "MIFGSM": {"steps": 3},
    "RFGSM": {"steps": 3},
    "EOTPGD": {"steps": 2},
    "TPGD": {"steps": 2},
    "FFGSM": {},
    "TIFGSM": {"steps": 2},
    "DIFGSM": {"steps": 2, "resize_rate": 1.3},
    "NIFGSM": {"steps": 2},
    "SINIFGSM": {"steps": 2},
    "VMIFGSM": {"steps": 2, "N": 2},
    "Jitter": {"steps": 2},
    "APGD": {"steps": 3},
    "FAB": {"steps": 3, "n_classes": 5},
    "OnePixel": {"steps": 2, "popsize": 4},
    "SparseFool": {"steps": 2},
}


def results():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)).eval()
    images = torch.rand(4, 3, 8, 8)
    labels = network(images).argmax(1)
    found = {}
    for name, options in ATTACKS.items():
        torch.manual_seed(1)
        np.random.seed(1)
        changed = getattr(torchattacks, name)(network, **options)(images, labels)
        found[name] = changed.sum((2, 3)), (changed - images).abs().mean()
    return found
