"""Models and training for the checks of tensors, modules and checkpoints that are divided among processes."""

from __future__ import annotations

import flambeau as torch
from flambeau import nn

F = nn.functional
CLASSES = 16


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.head = size // heads
        self.q, self.k, self.v, self.o = [nn.Linear(size, size) for _ in range(4)]

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = [layer(x).view(batch, length, -1, self.head).transpose(1, 2) for layer in (self.q, self.k, self.v)]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = Attention(size, heads)
        self.w1, self.w2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.w2(F.gelu(self.w1(self.n2(x))))


class GPT(nn.Module):
    """A small language model; sizes are odd where they may be, so that parts are uneven."""

    def __init__(self, size=8, heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(CLASSES, size)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.norm, self.scores = nn.LayerNorm(size), nn.Linear(size, CLASSES)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


def gpt():
    torch.manual_seed(0)
    return GPT()


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 13), nn.GELU(), nn.Linear(13, 3))


def cnn():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 5, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(5, 3),
    )


def batches(kind, steps):
    """Inputs and targets of whole batches, the same on every rank."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        if kind is gpt:
            tokens = torch.randint(0, CLASSES, (4, 6), generator=generator)
            yield tokens, tokens.roll(-1, 1)
        else:
            shape = (12, 5) if kind is mlp else (12, 1, 8, 8)
            yield torch.randn(shape, generator=generator), torch.randint(0, 3, (12,), generator=generator)


def loss_of(model, x, y):
    scores = model(x)
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))


def train(model, kind, rank=0, world=1, steps=20, clip=None, make=torch.optim.AdamW):
    """Train on this rank's part of each batch; the mean losses of whole batches, and the optimizer."""
    optimizer = make(model.parameters(), lr=0.01)
    losses = []
    for x, y in batches(kind, steps):
        own = slice(rank * len(x) // world, (rank + 1) * len(x) // world)
        optimizer.zero_grad()
        loss = loss_of(model, x[own], y[own])
        loss.backward()
        if clip is not None:
            clip(model)
        optimizer.step()
        losses.append(loss.detach())
    mean = torch.stack(losses)
    if world > 1:
        torch.distributed.all_reduce(mean)
    return (mean / world).tolist(), optimizer


def assert_close(a, b, tolerance=1e-5):
    """Two lists of losses agree, relative to 1."""
    assert len(a) == len(b) and all(abs(x - y) <= tolerance * max(1, abs(y)) for x, y in zip(a, b, strict=True)), (a, b)
