"""ptflops: operations and parameters of networks, counted by hooks and below PyTorch's dispatcher."""

import torch
from ptflops import get_model_complexity_info
from torch import nn

PACKAGES = ["ptflops"]


def results():
    torch.manual_seed(0)
    convolutions = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Flatten(),
        nn.Linear(4 * 16 * 16, 10),
    )  # fmt: skip
    recurrent = nn.LSTM(6, 12, 2, batch_first=True)
    found = {}
    for name, net, shape in (("convolutions", convolutions, (3, 16, 16)), ("recurrent", recurrent, (7, 6))):
        for backend in ("pytorch", "aten") if net is convolutions else ("pytorch",):
            counted = get_model_complexity_info(net, shape, as_strings=False, print_per_layer_stat=False, verbose=False, backend=backend)
            found[f"{name} {backend}"] = list(counted)
    return found
