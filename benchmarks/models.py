"""Models with their optimizers and batches, written once as ordinary PyTorch programs of the module ``torch``.

Each builder of ``MODELS`` returns the training step: a callable that does one and returns the loss. Builders of models and of their parts
are for other benchmarks too.
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


def perceptron(torch: ModuleType) -> Any:
    """784-512-512-10."""
    nn = torch.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def mlp(batch: int) -> Callable[[ModuleType], Step]:
    """784-512-512-10 with Adam."""

    def build(torch: ModuleType) -> Step:
        source = Source(torch)
        model = source.fill(perceptron(torch))
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        return training_step(torch, model, optimizer, source.normal(batch, 784), source.integers(10, batch))

    return build


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


def residual_block(torch: ModuleType) -> Any:
    """The class of basic blocks (He et al. 2016)."""
    nn = torch.nn

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

    return Block


def resnet(torch: ModuleType) -> Step:
    """ResNet-14 of basic blocks with 16, 32 and 64 channels, with SGD and momentum, batches of 32 images of 32x32."""
    nn, source, Block = torch.nn, Source(torch), residual_block(torch)
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


def transformer_layer(torch: ModuleType, width: int, attend: Callable[..., Any]) -> Any:
    """The class of layers whose norms come first; ``attend(projected, ...)`` is attention from queries, keys and values side by side."""
    nn = torch.nn

    class Layer(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.projection, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, *more: Any) -> Any:
            x = x + self.output(attend(self.projection(self.norm1(x)), *more))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))

    return Layer


def causal_layer(torch: ModuleType, width: int, heads: int) -> Any:
    """The class of layers of a language model."""

    def attend(projected: Any) -> Any:
        size, length, _ = projected.shape
        split = [part.view(size, length, heads, -1).transpose(1, 2) for part in projected.split(width, 2)]
        result = torch.nn.functional.scaled_dot_product_attention(*split, is_causal=True)
        return result.transpose(1, 2).reshape(size, length, width)

    return transformer_layer(torch, width, attend)


def transformer(torch: ModuleType) -> Step:
    """Three layers of width 128 with 4 heads over 64 tokens and a classifier, with AdamW, batches of 32."""
    nn, source = torch.nn, Source(torch)
    width, heads, length, batch, words = 128, 4, 64, 32, 1000

    def attend(projected: Any) -> Any:
        split = projected.view(batch, length, 3, heads, width // heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(-2, -1) * (width // heads) ** -0.5, dim=-1)
        return (weights @ value).transpose(1, 2).reshape(batch, length, width)

    Layer = transformer_layer(torch, width, attend)

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


def residual_network(torch: ModuleType) -> Any:
    """ResNet-18 (He et al. 2016) for 1,000 classes."""
    nn, Block = torch.nn, residual_block(torch)
    stages = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)),
        *[Block(*stage) for stage in stages],
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)),
    )


def resnet18(torch: ModuleType) -> Step:
    """ResNet-18 with SGD and momentum, batches of 8 images of 96x96."""
    source = Source(torch)
    model = source.fill(residual_network(torch))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    return training_step(torch, model, optimizer, source.normal(8, 3, 96, 96), source.integers(1000, 8))


def language_model(torch: ModuleType, layers: int, width: int, heads: int, length: int, words: int) -> Any:
    """A GPT: learnt positions, causal attention, and the words' table again as the last layer."""
    nn, Layer = torch.nn, causal_layer(torch, width, heads)

    class Language(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
            self.layers, self.norm = nn.Sequential(*[Layer() for _ in range(layers)]), nn.LayerNorm(width)

        def forward(self, tokens: Any) -> Any:
            x = self.layers(self.words(tokens) + self.positions[: tokens.shape[1]])
            return nn.functional.linear(self.norm(x), self.words.weight)

    return Language()


def gpt(layers: int, width: int, heads: int, batch: int, length: int, words: int) -> Callable[[ModuleType], Step]:
    """A GPT with AdamW that predicts each next token."""

    def build(torch: ModuleType) -> Step:
        source = Source(torch)
        model = source.fill(language_model(torch, layers, width, heads, length, words))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        loss_of, tokens = torch.nn.CrossEntropyLoss(), source.integers(words, batch, length + 1)

        def step() -> Any:
            optimizer.zero_grad()
            loss = loss_of(model(tokens[:, :-1]).reshape(-1, words), tokens[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
            return loss

        return step

    return build


def recurrent_classifier(torch: ModuleType) -> Any:
    """An LSTM of 128 units over sequences of 64 features, and a classifier of its last step."""
    nn = torch.nn

    class Classifier(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x)[0][:, -1])

    return Classifier()


def lstm(torch: ModuleType) -> Step:
    """An LSTM over 32 steps with Adam, batches of 32."""
    source = Source(torch)
    model = source.fill(recurrent_classifier(torch))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return training_step(torch, model, optimizer, source.normal(32, 32, 64), source.integers(10, 32))


MODELS: dict[str, Callable[[ModuleType], Step]] = {
    "MLP, Adam": mlp(128),
    "LeNet, SGD": lenet,
    "ResNet-14, SGD with momentum": resnet,
    "ResNet-18, SGD with momentum": resnet18,
    "LSTM, Adam": lstm,
    "transformer, AdamW": transformer,
    "GPT, 0.8M parameters, AdamW": gpt(4, 128, 4, 8, 64, 65),
    "GPT, 3.5M parameters, AdamW": gpt(4, 256, 8, 8, 128, 1000),
}
