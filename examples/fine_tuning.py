"""Transfer learning on scikit-learn's handwritten digits: features learnt on 0 to 6 are kept for 7 to 9, of which few are known.

First only a new head learns while the features are frozen, batch statistics included; then the last block is thawed, and every part
has a learning rate of its own. An ordinary PyTorch program: `python -m flambeau examples/fine_tuning.py` runs it on flambeau,
`python` on PyTorch.
"""

import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.SiLU(), nn.AvgPool2d(2))


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.block1 = block(1, 16)
        self.block2 = block(16, 32)
        self.head = nn.Linear(32 * 2 * 2, classes)

    def forward(self, x):
        return self.head(self.block2(self.block1(x)).flatten(1))


def freeze(module):
    """No gradients, and batch norms that use and keep what they have measured."""
    module.requires_grad_(False)
    module.eval()


def thaw(module):
    module.requires_grad_(True)
    module.train()


def digits(classes, train_share):
    """Training and test set of the digits in ``classes``, labelled from 0 on."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(data.target)
    chosen = torch.isin(labels, torch.tensor(classes)).nonzero().squeeze(1)
    chosen = chosen[torch.randperm(len(chosen))]
    split = int(train_share * len(chosen))
    parts = chosen[:split], chosen[split:]
    return [TensorDataset(images[part], labels[part] - classes[0]) for part in parts]


@torch.no_grad()
def accuracy(model, dataset):
    model.eval()
    images, labels = dataset.tensors
    return (model(images).argmax(dim=1) == labels).float().mean().item()


class Trainer:
    """Counts steps over all phases, and prints the first losses."""

    def __init__(self, most_steps):
        self.step, self.most_steps = 0, most_steps

    def fit(self, model, dataset, optimizer, epochs, batch_size, frozen=()):
        loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
        for _ in range(epochs):
            model.train()
            for module in frozen:
                module.eval()
            for images, labels in loader:
                loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                self.step += 1
                if self.step <= 20:
                    print(f"step {self.step} loss {loss.item():.7f}")
                if self.step == self.most_steps:
                    raise SystemExit


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--head-epochs", type=int, default=20, help="epochs in which only the new head learns")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    trainer = Trainer(options.steps)
    train, test = digits(list(range(7)), train_share=0.8)
    source = ConvNet(classes=7)
    optimizer = torch.optim.SGD(source.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    trainer.fit(source, train, optimizer, options.epochs, options.batch_size)
    print(f"digits 0 to 6: test accuracy {accuracy(source, test):.2%}")

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "source.pt")
        torch.save(source.state_dict(), path)
        state = {name: value for name, value in torch.load(path, weights_only=True).items() if not name.startswith("head.")}
    model = ConvNet(classes=3)
    incompatible = model.load_state_dict(state, strict=False)
    print(f"new: {', '.join(incompatible.missing_keys)}")

    few, test = digits([7, 8, 9], train_share=0.1)
    features = [model.block1, model.block2]
    for module in features:
        freeze(module)
    before = model.block1[0].weight.clone()
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
    trainer.fit(model, few, optimizer, options.head_epochs, 16, frozen=features)
    print(f"{len(few)} digits 7 to 9, features frozen: test accuracy {accuracy(model, test):.2%}")

    thaw(model.block2)
    decay, no_decay = [p for p in model.block2.parameters() if p.dim() > 1], [p for p in model.block2.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": 1e-2},
            {"params": no_decay, "weight_decay": 0.0},
            {"params": model.head.parameters(), "lr": 3e-3},
        ],
        lr=3e-4,
    )
    trainer.fit(model, few, optimizer, options.epochs, 16, frozen=[model.block1])
    print(f"last block thawed: test accuracy {accuracy(model, test):.2%}")
    assert torch.equal(before, model.block1[0].weight), "a frozen layer has changed"


if __name__ == "__main__":
    main()
