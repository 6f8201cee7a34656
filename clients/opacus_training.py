"""opacus: gradients of each example, training with clipped and noisy sums of them, what privacy it costs."""

import torch
from opacus import GradSampleModule, PrivacyEngine
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from opacus.validators import ModuleValidator
from torch import nn

PACKAGES = ["opacus"]


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(20, 8), nn.GroupNorm(2, 8), nn.Linear(8, 2)

    def forward(self, tokens):
        return self.head(self.norm(self.embedding(tokens).mean(1)))


def each_example():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 3))
    wrapped = GradSampleModule(net)
    x, y = torch.randn(5, 1, 6, 6), torch.tensor([0, 1, 2, 1, 0])
    nn.functional.cross_entropy(wrapped(x), y).backward()
    words = GradSampleModule(Words())
    nn.functional.cross_entropy(words(torch.randint(0, 20, (5, 7))), y.clamp(max=1)).backward()
    return {
        "samples": [p.grad_sample.flatten(1).norm(dim=1) for p in wrapped.parameters()],
        "of words": [p.grad_sample.flatten(1).norm(dim=1) for p in words.parameters()],
    }


def training():
    torch.manual_seed(1)
    x = torch.randn(64, 6)
    data = torch.utils.data.TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    engine = PrivacyEngine(accountant="rdp")
    net, optimizer, loader = engine.make_private(
        module=net, optimizer=torch.optim.SGD(net.parameters(), 0.5), data_loader=torch.utils.data.DataLoader(data, 16),
        noise_multiplier=0.8, max_grad_norm=1.0, noise_generator=torch.Generator().manual_seed(2), poisson_sampling=False,
    )  # fmt: skip
    losses = []
    for _ in range(4):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return {"losses": losses, "epsilon": engine.get_epsilon(1e-5), "kind": isinstance(optimizer, DPOptimizer)}


def costs():
    accountant = RDPAccountant()
    for _ in range(100):
        accountant.step(noise_multiplier=1.1, sample_rate=0.05)
    fixed = ModuleValidator.fix(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))
    return {
        "rdp": accountant.get_epsilon(delta=1e-5),
        "noise": get_noise_multiplier(target_epsilon=3.0, target_delta=1e-5, sample_rate=0.05, epochs=5, accountant="rdp"),
        "fixed": [str(layer) for layer in fixed],
        "problems": len(ModuleValidator.validate(nn.BatchNorm1d(4))),
    }


def results():
    return {**each_example(), **training(), **costs()}
