"""torch-optimizer: steps of fourteen of its optimizers on the same small network."""

import torch
import torch_optimizer

PACKAGES = ["torch-optimizer", "pytorch-ranger"]
NAMES = [
    "AccSGD",
    "AdaBound",
    "AdaMod",
    "Adafactor",
    "AdamP",
    "AggMo",
    "DiffGrad",
    "Lamb",
    "NovoGrad",
    "QHAdam",
    "QHM",
    "RAdam",
    "SGDW",
    "Yogi",
]


def results():
    found = {}
    for name in NAMES:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        x, y = torch.randn(16, 6), torch.randn(16, 2)
        options = {} if name == "Adafactor" else {"lr": 1e-2}
        optimizer = getattr(torch_optimizer, name)(model.parameters(), **options)
        if name == "QHM":
            optimizer = torch_optimizer.QHM(model.parameters(), lr=1e-2, momentum=0.9)
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[name] = losses
    model = torch.nn.Linear(3, 1)
    lookahead = torch_optimizer.Lookahead(torch_optimizer.Yogi(model.parameters(), lr=0.1), k=2)
    for _ in range(4):
        lookahead.zero_grad()
        model(torch.ones(2, 3)).pow(2).sum().backward()
        lookahead.step()
    return {**found, "Lookahead": model.weight}
