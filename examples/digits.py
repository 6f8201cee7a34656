"""Train a small convolutional network on scikit-learn's handwritten digits.

An ordinary PyTorch program but for its import line. Nothing is downloaded: the 1,797 digits come with scikit-learn.

    python examples/digits.py              train, save a checkpoint, read it back, draw pictures
    python examples/digits.py --torch      the same code on real PyTorch
    python examples/digits.py --compare    both with the same seed; fails when they differ
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

if "--torch" in sys.argv:
    import torch
else:
    import flambeau as torch

nn = torch.nn
F = torch.nn.functional


class DigitNet(nn.Module):
    """Two convolution blocks and two linear layers for 8x8 images: about 22,000 parameters.

    Every part is smooth: with the kinks of ReLU and max pooling, any two orders of summation in float32 part within a hundred
    steps (PyTorch with and without oneDNN by 1%), and ``--compare`` could not tell a bug from rounding.
    """

    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            # No bias before a batch norm: it would be subtracted again.
            nn.Conv2d(1, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.SiLU(),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.SiLU(),
            nn.AvgPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 32),
            nn.SiLU(),
            nn.Dropout(0.25),
            nn.Linear(32, classes),
        )

    def forward(self, x):
        return self.classifier(self.features(x))


def load_data(batch_size):
    """Loaders over 1,437 training and 360 test digits. The split is the same for every seed."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    dataset = torch.utils.data.TensorDataset(images, labels)
    train, test = torch.utils.data.random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(0))
    train_loader = torch.utils.data.DataLoader(train, batch_size=batch_size, shuffle=True)
    test_loader = torch.utils.data.DataLoader(test, batch_size=len(test))
    return train_loader, test_loader


def train_epoch(model, loader, optimizer, scheduler, epoch, losses):
    """One pass over the training data; appends each step's loss to ``losses``. Returns the mean loss and the accuracy."""
    model.train()
    total, correct, seen = 0.0, 0, 0
    with tqdm(loader, desc=f"epoch {epoch}", unit="batch", disable=None) as progress:
        for images, labels in progress:
            optimizer.zero_grad()
            output = model(images)
            loss = F.cross_entropy(output, labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
            total += loss.item() * len(labels)
            correct += (output.argmax(dim=1) == labels).sum().item()
            seen += len(labels)
            progress.set_postfix(loss=f"{total / seen:.4f}", accuracy=f"{correct / seen:.2%}")
    return total / seen, correct / seen


@torch.no_grad()
def evaluate(model, loader):
    """Mean loss and accuracy over ``loader``, and the single digits' outcome: images, labels, predictions, losses."""
    model.eval()
    columns = [[], [], [], []]
    for images, labels in loader:
        output = model(images)
        losses = F.cross_entropy(output, labels, reduction="none")
        for column, values in zip(columns, (images, labels, output.argmax(dim=1), losses)):
            column.append(values)
    images, labels, predictions, losses = (torch.cat(column) for column in columns)
    accuracy = (predictions == labels).float().mean().item()
    return losses.mean().item(), accuracy, (images, labels, predictions, losses)


def draw(history, outcome, path):
    """A PNG with loss and accuracy curves, and the test digits that were hardest, the misclassified ones first."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    images, labels, predictions, losses = outcome
    # A wrong answer comes before any right one, whatever its loss.
    hardest = (losses + 1000 * (predictions != labels)).argsort(descending=True)[:12]
    figure = plt.figure(figsize=(12, 7), layout="constrained")
    rows = figure.subfigures(2, 1, height_ratios=(3, 2))
    loss_axes, accuracy_axes = rows[0].subplots(1, 2)
    epochs = range(1, len(history["train_loss"]) + 1)
    for axes, name in ((loss_axes, "loss"), (accuracy_axes, "accuracy")):
        axes.plot(epochs, history[f"train_{name}"], marker="o", label="training")
        axes.plot(epochs, history[f"test_{name}"], marker="o", label="test")
        axes.set(xlabel="epoch", title=name)
        axes.grid(alpha=0.3)
        axes.legend()
    wrong = int((predictions != labels).sum())
    rows[1].suptitle(f"{wrong} of {len(labels)} test digits misclassified; the hardest:")
    for axes, i in zip(rows[1].subplots(2, 6).flat, hardest.tolist()):
        axes.imshow(images[i, 0].numpy(), cmap="gray_r")
        label, prediction = labels[i].item(), predictions[i].item()
        axes.set_title(f"{label} read as {prediction}", color="tab:red" if label != prediction else "black", fontsize=9)
        axes.axis("off")
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(options):
    torch.manual_seed(options.seed)
    train_loader, test_loader = load_data(options.batch_size)
    model = DigitNet()
    initial = {name: value.detach().clone().numpy() for name, value in model.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=options.lr, epochs=options.epochs, steps_per_epoch=len(train_loader))
    history = {"train_loss": [], "train_accuracy": [], "test_loss": [], "test_accuracy": []}
    losses = []
    for epoch in range(1, options.epochs + 1):
        train_loss, train_accuracy = train_epoch(model, train_loader, optimizer, scheduler, epoch, losses)
        test_loss, test_accuracy, outcome = evaluate(model, test_loader)
        for name, value in zip(history, (train_loss, train_accuracy, test_loss, test_accuracy)):
            history[name].append(value)
        print(
            f"epoch {epoch}: training loss {train_loss:.4f} accuracy {train_accuracy:.2%}, "
            f"test loss {test_loss:.4f} accuracy {test_accuracy:.2%}"
        )

    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = out / "checkpoint.pth"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": options.epochs}, checkpoint)
    restored = DigitNet()
    saved = torch.load(checkpoint)
    restored.load_state_dict(saved["model"])
    torch.optim.Adam(restored.parameters()).load_state_dict(saved["optimizer"])
    _, again, _ = evaluate(restored, test_loader)
    if again != test_accuracy:
        raise SystemExit(f"the checkpoint gives accuracy {again:.2%}, the trained model {test_accuracy:.2%}")
    draw(history, outcome, out / "digits.png")
    print(f"test accuracy {test_accuracy:.2%}, from the checkpoint {again:.2%}; wrote {checkpoint} and {out / 'digits.png'}")
    if options.record:
        np.savez(options.record, losses=np.array(losses), history=json.dumps(history), **{f"initial/{k}": v for k, v in initial.items()})


def train_both(options):
    """The records of two trainings with the same seed, one on flambeau and one on real PyTorch, a process each."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in (("flambeau", []), ("PyTorch", ["--torch"])):
            print(f"--- {name}", flush=True)
            record = Path(folder) / f"{name}.npz"
            words = ["--epochs", options.epochs, "--seed", options.seed, "--batch-size", options.batch_size, "--lr", options.lr]
            words += ["--out", Path(options.out) / name, "--record", record]
            subprocess.run([sys.executable, __file__, *flags, *map(str, words)], check=True)
            records.append(dict(np.load(record)))
    return records


def compare(options):
    """Train the same seed on flambeau and on real PyTorch and hold the two runs against each other."""
    ours, theirs = train_both(options)
    names = [name for name in theirs if name.startswith("initial/")]
    weights = max(float(np.abs(ours[name] - theirs[name]).max()) for name in names)
    relative = np.abs(ours["losses"] - theirs["losses"]) / np.abs(theirs["losses"])
    steps = min(options.steps, len(relative))
    print("---")
    print(f"initial weights: largest difference {weights:.3g} (allowed 1e-6)")
    print(f"loss of the first {steps} steps: largest relative difference {relative[:steps].max():.3g} (allowed 1e-4)")
    print(f"loss of all {len(relative)} steps: largest relative difference {relative.max():.3g}")
    ours_by_epoch, theirs_by_epoch = (json.loads(str(run["history"])) for run in (ours, theirs))
    for name, values in theirs_by_epoch.items():
        print(f"{name} by epoch: largest difference {np.abs(np.subtract(ours_by_epoch[name], values)).max():.3g}")
    if weights > 1e-6 or relative[:steps].max() > 1e-4:
        raise SystemExit("flambeau and PyTorch differ")


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=5e-3, help="highest learning rate of the one-cycle schedule")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="out/digits", help="folder for the checkpoint and the picture")
    parser.add_argument("--torch", action="store_true", help="run on real PyTorch")
    parser.add_argument("--compare", action="store_true", help="run on both and compare")
    parser.add_argument("--steps", type=int, default=100, help="how many steps --compare holds to the bound")
    parser.add_argument("--record", help="write losses and initial weights to this .npz file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse()
    compare(options) if options.compare else main(options)
