"""schedulefree: AdamW and SGD without a schedule, their training and evaluation points, step by step and list-wise."""

import torch
from schedulefree import AdamWScheduleFree, RAdamScheduleFree, SGDScheduleFree

PACKAGES = ["schedulefree"]


def results():
    found = {}
    for kind, options in (
        (AdamWScheduleFree, {"lr": 0.01, "warmup_steps": 5}),
        (AdamWScheduleFree, {"lr": 0.01, "foreach": False, "weight_decay": 0.1}),
        (SGDScheduleFree, {"lr": 0.1}),
        (RAdamScheduleFree, {"lr": 0.01}),
    ):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.SiLU(), torch.nn.Linear(8, 3))
        x, y = torch.randn(40, 5), torch.randint(0, 3, (40,))
        optimizer = kind(model.parameters(), **options)
        optimizer.train()
        losses = []
        for _ in range(15):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        optimizer.eval()
        losses.append(torch.nn.functional.cross_entropy(model(x), y).item())
        found[f"{kind.__name__} {options}"] = losses
    return found
