"""Classifies pictures in folders: an ImageFolder of scikit-learn's digits, augmented, logged for TensorBoard, with a confusion matrix.

An ordinary PyTorch program. `python -m flambeau examples/images.py` runs it on flambeau, `python` on PyTorch. Pictures and logs go to
`out/images`; `tensorboard --logdir out/images/logs` shows the latter.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.utils import make_grid, save_image

matplotlib.use("Agg")
import matplotlib.pyplot as plt

MEAN, STD = (0.3,), (0.35,)


def write_folders(root, count):
    """PNG files of 16 by 16 pixels, in a folder for each digit; every fifth belongs to the test set."""
    digits = load_digits()
    for i, (levels, label) in enumerate(zip(digits.images[:count], digits.target[:count])):
        folder = root / ("test" if i % 5 == 0 else "train") / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(np.minimum(levels * 16, 255).astype(np.uint8))
        picture.resize((16, 16), Image.Resampling.BICUBIC).save(folder / f"{i:04d}.png")


def load_data(root, batch_size):
    """Loaders over the folders. Only what is trained with is turned, moved, scaled and made brighter or darker."""
    plain = [transforms.Grayscale(), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    augmented = [
        transforms.RandomAffine(degrees=12, translate=(0.08, 0.08), scale=(0.9, 1.1)),
        transforms.ColorJitter(brightness=0.2, contrast=0.2),
        *plain,
        transforms.RandomErasing(p=0.2, scale=(0.02, 0.08)),
    ]
    train = datasets.ImageFolder(str(root / "train"), transform=transforms.Compose(augmented))
    test = datasets.ImageFolder(str(root / "test"), transform=transforms.Compose(plain))
    return DataLoader(train, batch_size=batch_size, shuffle=True), DataLoader(test, batch_size=100)


def make_model(classes):
    def block(before, after):
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.SiLU(), nn.AvgPool2d(2))

    return nn.Sequential(block(1, 16), block(16, 32), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, classes))


@torch.no_grad()
def confusion(model, loader, classes):
    """How many pictures of each class (rows) were taken for each (columns)."""
    model.eval()
    counts = torch.zeros(classes, classes, dtype=torch.long)
    for images, labels in loader:
        places = labels * classes + model(images).argmax(dim=1)
        counts += torch.bincount(places, minlength=classes * classes).view(classes, classes)
    return counts


def draw_confusion(counts, names):
    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    axes.imshow(counts.numpy(), cmap="Blues")
    axes.set(xlabel="taken for", ylabel="digit", xticks=range(len(names)), yticks=range(len(names)))
    axes.set_xticklabels(names)
    axes.set_yticklabels(names)
    for row in range(len(names)):
        for column in range(len(names)):
            number = int(counts[row, column])
            if number:
                axes.text(column, row, number, ha="center", va="center", color="white" if number > counts.max() / 2 else "black")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=None, help="stop after this many steps")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--images", type=int, default=1797, help="use only so many digits")
    parser.add_argument("--out", type=Path, default=Path("out/images"))
    parser.add_argument("--no-logs", action="store_true", help="write nothing for TensorBoard")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    write_folders(options.out / "digits", options.images)
    train_loader, test_loader = load_data(options.out / "digits", options.batch_size)
    names = train_loader.dataset.classes
    print(train_loader.dataset)
    model = make_model(len(names))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(train_loader))
    writer = None
    if not options.no_logs:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(options.out / "logs")

    step = 0
    for epoch in range(1, options.epochs + 1):
        model.train()
        for images, labels in train_loader:
            if step == 0:
                grid = make_grid(images, nrow=8, normalize=True, value_range=(-1.0, 2.0))
                save_image(grid, options.out / "augmented.png")
                if writer:
                    writer.add_image("augmented", grid)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if writer:
                writer.add_scalar("loss", loss.item(), step)
            if step == options.steps:
                return
        counts = confusion(model, test_loader, len(names))
        accuracy = counts.diag().sum().item() / counts.sum().item()
        print(f"epoch {epoch}: test accuracy {accuracy:.4f}")
        if writer:
            writer.add_scalar("test accuracy", accuracy, step)

    figure = draw_confusion(counts, names)
    figure.savefig(options.out / "confusion.png")
    if writer:
        writer.add_figure("confusion", figure, step)
        writer.close()
    print(f"wrote {options.out / 'augmented.png'} and {options.out / 'confusion.png'}")


if __name__ == "__main__":
    main()
