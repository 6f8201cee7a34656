"""ema-pytorch: a model with its running average beside it, after training, with a schedule of decays and a hard copy."""

import torch
from ema_pytorch import EMA

PACKAGES = ["ema-pytorch"]


def results():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 2))
    average = EMA(model, beta=0.95, update_after_step=3, update_every=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(20, 4), torch.randn(20, 2)
    decays = []
    for _ in range(16):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        average.update()
        decays.append(average.get_current_decay())
    average.eval()
    lists = EMA(model, beta=0.9, update_after_step=0, update_every=1, use_foreach=True)
    for _ in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.9)
        lists.update()
    return {
        "decays": decays,
        "average": average(x)[:3],
        "running mean": average.ema_model[1].running_mean,
        "step": average.step,
        "list-wise": lists.ema_model[0].weight,
    }
