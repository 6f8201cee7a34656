"""A convolutional classifier for scikit-learn's handwritten digits, with a Dataset of its own and a saved state_dict.

An ordinary PyTorch program. `python -m flambeau examples/cnn_classifier.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import io

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import optim
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Images with pixels from -1 to 1; every fifth one belongs to the test set."""

    def __init__(self, train):
        digits = load_digits()
        chosen = [i for i in range(len(digits.target)) if (i % 5 != 0) == train]
        self.images = torch.from_numpy(digits.images[chosen]).float().unsqueeze(1) / 8 - 1
        self.labels = torch.from_numpy(digits.target[chosen]).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, kernel_size=3)
        self.dropout = nn.Dropout(0.2)
        self.fc1 = nn.Linear(24 * 3 * 3, 48)
        self.fc2 = nn.Linear(48, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.dropout(torch.flatten(x, 1))
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def accuracy(model, loader, device):
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in loader:
            prediction = model(images.to(device)).argmax(dim=1, keepdim=True)
            correct += prediction.eq(labels.to(device).view_as(prediction)).sum().item()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=None, help="stop after this many steps")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(Digits(train=True), batch_size=32, shuffle=True)
    test_loader = DataLoader(Digits(train=False), batch_size=100)
    model = Net().to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    print(model)
    print("parameters:", sum(p.numel() for p in model.parameters()))

    step = 0
    for epoch in range(options.epochs):
        model.train()
        for images, labels in train_loader:
            optimizer.zero_grad()
            loss = F.nll_loss(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if step == options.steps:
                return
        scheduler.step()
        print(f"epoch {epoch + 1}: learning rate {scheduler.get_last_lr()[0]:g}, test accuracy {accuracy(model, test_loader, device):.4f}")

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    restored = Net().to(device)
    restored.load_state_dict(torch.load(file))
    print(f"restored: test accuracy {accuracy(restored, test_loader, device):.4f}")


if __name__ == "__main__":
    main()
