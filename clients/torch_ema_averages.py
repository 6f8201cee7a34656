"""torch-ema: running averages of parameters: used within a block and copied."""

import torch
from torch_ema import ExponentialMovingAverage

PACKAGES = ["torch-ema"]


def results():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    average = ExponentialMovingAverage(model.parameters(), decay=0.9)
    x, y = torch.randn(20, 4), torch.randn(20, 2)
    for _ in range(10):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        average.update()
    before = model(x)[0]
    with average.average_parameters():
        within = model(x)[0]
    average.copy_to()
    return {"before": before, "within": within, "copied": model(x)[0], "shadow": average.shadow_params[0]}
