"""Four models with their optimizers and batches, written once as ordinary PyTorch programs of the module ``torch``.

Each builder returns the training step: a callable that does one and returns the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .comparison import Source

Step = Callable[[], Any]


def training_step(torch: ModuleType, model: Any, optimizer: Any, batch: Any, labels: Any) -> Step:
    loss_of = torch.nn.CrossEntropyLoss()

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(batch), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def mlp(torch: ModuleType) -> Step:
    """784-512-512-10 with Adam, batches of 128."""
    nn, source = torch.nn, Source(torch)
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    source.fill(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return training_step(torch, model, optimizer, source.normal(128, 784), source.integers(10, 128))


def lenet(torch: ModuleType) -> Step:
    """LeNet-5 with SGD, batches of 64 images of 28x28."""
    nn, source = torch.nn, Source(torch)
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    source.fill(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    return training_step(torch, model, optimizer, source.normal(64, 1, 28, 28), source.integers(10, 64))


def resnet(torch: ModuleType) -> Step:
    """ResNet-14 of basic blocks with 16, 32 and 64 channels, with SGD and momentum, batches of 32 images of 32x32."""
    nn, source = torch.nn, Source(torch)

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.shortcut = nn.Identity()
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.norm1(self.conv1(x)))
            return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)),
        *(Block(16, 16, 1), Block(16, 16, 1)),
        *(Block(16, 32, 2), Block(32, 32, 1)),
        *(Block(32, 64, 2), Block(64, 64, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    source.fill(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    return training_step(torch, model, optimizer, source.normal(32, 3, 32, 32), source.integers(10, 32))


def transformer(torch: ModuleType) -> Step:
    """Three layers of width 128 with 4 heads over 64 tokens and a classifier, with AdamW, batches of 32."""
    nn, source = torch.nn, Source(torch)
    width, heads, length, batch, words = 128, 4, 64, 32, 1000

    class Layer(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.projection, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attention(self, x: Any) -> Any:
            split = self.projection(x).view(x.shape[0], x.shape[1], 3, heads, width // heads)
            query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
            weights = torch.softmax(query @ key.transpose(-2, -1) * (width // heads) ** -0.5, dim=-1)
            return self.output((weights @ value).transpose(1, 2).reshape(x.shape))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))

    class Classifier(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.positions = nn.Parameter(torch.zeros(length, width))
            self.layers = nn.Sequential(Layer(), Layer(), Layer())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.norm(self.layers(self.words(tokens) + self.positions)).mean(dim=1))

    model = Classifier()
    source.fill(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training_step(torch, model, optimizer, source.integers(words, batch, length), source.integers(10, batch))


MODELS: dict[str, Callable[[ModuleType], Step]] = {
    "MLP, Adam": mlp,
    "LeNet, SGD": lenet,
    "ResNet-14, SGD with momentum": resnet,
    "transformer, AdamW": transformer,
}
