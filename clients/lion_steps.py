"""lion-pytorch: Lion with both forms of weight decay."""

import torch
from lion_pytorch import Lion

PACKAGES = ["lion-pytorch"]


def results():
    found = {}
    for name, options in {"plain": {}, "decoupled": {"decoupled_weight_decay": True}}.items():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        x = torch.randn(32, 6)
        y = x[:, :1] - 2 * x[:, 1:2]
        optimizer = Lion(model.parameters(), lr=3e-3, weight_decay=1e-2, **options)
        losses = []
        for _ in range(20):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[name] = losses
    return found
