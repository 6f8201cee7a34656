"""Twelve kinds of model, small: what ``torch.export`` and ``torch.onnx`` are tried on.

Each entry gives a module, a function from a batch size to the inputs, and which dimensions are the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn


class Kind(NamedTuple):
    make: Callable[[], Any]
    inputs: Callable[[int], tuple[Any, ...]]
    batch_dims: tuple[Any, ...]  # of each input, the dimension that is the batch, or None


class BasicBlock(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 2 * channels, 3, stride, 1, bias=False), nn.BatchNorm2d(2 * channels), nn.ReLU(inplace=True),
            nn.Conv2d(2 * channels, 2 * channels, 3, 1, 1, bias=False), nn.BatchNorm2d(2 * channels),
        )  # fmt: skip
        self.down = nn.Sequential(nn.Conv2d(channels, 2 * channels, 1, stride, bias=False), nn.BatchNorm2d(2 * channels))

    def forward(self, x):
        y = self.body(x)
        y += self.down(x)
        return F.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(BasicBlock(4, 1), BasicBlock(8, 2))
        self.pool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(16, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.down = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.join, self.out = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = F.relu(self.enter(x))
        b = F.relu(self.down(F.max_pool2d(a, 2)))
        c = F.relu(self.join(torch.cat([a, self.up(b)], 1)))
        wide = F.interpolate(F.avg_pool2d(c, 2), scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(torch.cat([c, wide], dim=1)).sigmoid()


class Tagger(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(11, 6), getattr(nn, kind)(6, 8, batch_first=True, bidirectional=kind == "LSTM")
        self.fc = nn.Linear(16 if kind == "LSTM" else 8, 3)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embedding(tokens))
        return self.fc(hidden), hidden[:, -1]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, x):
        return self.layers(x * self.scale).mean(dim=1)


class GPTBlock(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2, self.qkv, self.proj = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim), nn.Dropout(0.1))
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (u.view(B, T, self.heads, C // self.heads).transpose(1, 2) for u in (q, k, v))
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = weights.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(weights, dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, length=16):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(13, 8), nn.Embedding(length, 8)
        self.blocks = nn.ModuleList([GPTBlock(8, 2, length) for _ in range(2)])
        self.ln, self.head = nn.LayerNorm(8), nn.Linear(8, 13, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, idx):
        positions = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.tokens(idx) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.mu, self.log_var = nn.Linear(12, 8), nn.Linear(8, 3), nn.Linear(8, 3)
        self.decode = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 12), nn.Sigmoid())

    def forward(self, x, noise):
        hidden = torch.relu(self.encode(x.view(x.size(0), -1)))
        mu, log_var = self.mu(hidden), self.log_var(hidden)
        z = mu + noise * torch.exp(0.5 * log_var)
        kl = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp(), dim=1)
        return self.decode(z).reshape(x.shape), kl


def generator():
    return nn.Sequential(
        nn.ConvTranspose2d(5, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
        nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU(True),
        nn.ConvTranspose2d(4, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip


def discriminator():
    return nn.Sequential(
        nn.Conv2d(1, 4, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(4, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0),
    )  # fmt: skip


class GNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        degree = torch.zeros(x.size(0), dtype=x.dtype).index_add(0, target, torch.ones(edges.size(1))).clamp(min=1)
        messages = torch.zeros_like(x).index_add(0, target, x[source]) / degree.unsqueeze(1)
        hidden = F.elu(self.first(messages + x))
        place = target.unsqueeze(1).expand(-1, hidden.size(1))
        summed = torch.zeros_like(hidden).scatter_add(0, place, hidden.index_select(0, source))
        strongest = torch.gather(hidden, 1, hidden.argmax(dim=1, keepdim=True))
        return F.log_softmax(self.second(summed), dim=1), strongest


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.log_std = nn.Sequential(nn.Linear(4, 16), nn.Tanh()), nn.Parameter(torch.zeros(2))
        self.actor, self.mean, self.critic = nn.Linear(16, 3), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, state):
        hidden = self.body(state)
        probabilities = F.softmax(self.actor(hidden), dim=-1)
        entropy = -(probabilities * torch.log(probabilities + 1e-8)).sum(-1)
        std = self.log_std.exp().expand_as(self.mean(hidden))
        return {"action": probabilities.argmax(-1), "entropy": entropy, "std": std, "value": self.critic(hidden).squeeze(-1)}


def _images(channels, size):
    return lambda batch: (torch.randn(batch, channels, size, size),)


def _tokens(high, length):
    return lambda batch: (torch.randint(0, high, (batch, length)),)


KINDS = {
    "mlp": Kind(lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)), lambda n: (torch.randn(n, 4),), (0,)),
    "cnn": Kind(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Dropout(), nn.Linear(24, 5), nn.LogSoftmax(dim=1),
        ),
        _images(1, 14),
        (0,),
    ),
    "resnet": Kind(ResNet, _images(3, 16), (0,)),
    "unet": Kind(UNet, _images(1, 8), (0,)),
    "lstm": Kind(lambda: Tagger("LSTM"), _tokens(11, 5), (0,)),
    "gru": Kind(lambda: Tagger("GRU"), _tokens(11, 5), (0,)),
    "transformer": Kind(Encoder, lambda n: (torch.randn(n, 5, 8),), (0,)),
    "gpt": Kind(GPT, _tokens(13, 7), (0,)),
    "vae": Kind(VAE, lambda n: (torch.randn(n, 3, 4), torch.randn(n, 3)), (0, 0)),
    "generator": Kind(generator, lambda n: (torch.randn(n, 5, 1, 1),), (0,)),
    "discriminator": Kind(discriminator, _images(1, 16), (0,)),
    "gnn": Kind(GNN, lambda n: (torch.randn(n, 4), torch.randint(0, n, (2, 9))), (0, None)),
    "actor_critic": Kind(ActorCritic, lambda n: (torch.randn(n, 4),), (0,)),
}  # fmt: skip


def dynamic_shapes(kind, **bounds):
    batch = torch.export.Dim("batch", **bounds)
    return tuple([None if dim is None else {dim: batch} for dim in kind.batch_dims])
