"""Twelve kinds of model as training steps: each a function (of the package) that gives a step and the arguments of twenty calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

Made = tuple[Callable[..., Any], list[tuple[Any, ...]]]


def _stepping(model: nn.Module, loss_of: Callable[..., Any], optimizer: Any = None, **options: Any) -> Callable[..., Any]:
    optimizer = (optimizer or torch.optim.SGD)(model.parameters(), **({"lr": 0.05} | options))

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def mlp() -> Made:
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
    step = _stepping(model, lambda m, x, y: F.cross_entropy(m(x), y), torch.optim.Adam, lr=1e-2)
    return step, [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(20)]


def cnn() -> Made:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(36, 3))
    step = _stepping(model, lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1), momentum=0.9)
    return step, [(torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))) for _ in range(20)]


class _Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.c2, self.b2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.side = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.b1(self.c1(x)), inplace=True)
        y = self.b2(self.c2(y))
        y += self.side(x)
        return F.relu(y)


def resnet() -> Made:
    model = nn.Sequential(_Residual(3, 4, 1), _Residual(4, 8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    step = _stepping(model, lambda m, x, y: F.cross_entropy(m(x), y), weight_decay=1e-3)
    return step, [(torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4,))) for _ in range(20)]


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle, self.up = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(12, 4, 3, padding=1)
        self.norm, self.out = nn.GroupNorm(2, 4), nn.ConvTranspose2d(4, 1, 3, padding=1)

    def forward(self, x: Any) -> Any:
        first = F.silu(self.norm(self.down(x)))
        second = F.relu(self.middle(F.avg_pool2d(first, 2)))
        second = F.interpolate(second, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(F.gelu(self.up(torch.cat([first, second], 1))))


def unet() -> Made:
    step = _stepping(_UNet(), lambda m, x, y: F.binary_cross_entropy_with_logits(m(x), y), torch.optim.AdamW, lr=1e-2)
    return step, [(torch.randn(2, 1, 8, 8), (torch.rand(2, 1, 8, 8) > 0.5).float()) for _ in range(20)]


class _Recurrent(nn.Module):
    def __init__(self, kind: Any):
        super().__init__()
        self.words, self.layer, self.head = nn.Embedding(12, 8), kind(8, 10, num_layers=2, dropout=0.2, batch_first=True), nn.Linear(10, 12)

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(self.words(x))[0])


def _sequence_loss(model: Any, x: Any, y: Any) -> Any:
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def _sequences(words: int, length: int = 6) -> list[tuple[Any, ...]]:
    return [(torch.randint(0, words, (3, length)), torch.randint(0, words, (3, length))) for _ in range(20)]


def lstm() -> Made:
    model = _Recurrent(nn.LSTM)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    def step(x: Any, y: Any) -> Any:
        loss = _sequence_loss(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, _sequences(12)


def gru() -> Made:
    return _stepping(_Recurrent(nn.GRU), _sequence_loss, torch.optim.RMSprop, lr=1e-2), _sequences(12)


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 12)

    def forward(self, x: Any) -> Any:
        return self.head(self.layers(self.words(x), src_key_padding_mask=x == 0))


def transformer() -> Made:
    return _stepping(_Encoder(), _sequence_loss, torch.optim.Adam, lr=1e-2), _sequences(12)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.n1(x)).split(width, 2)
        q, k, v = (each.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for each in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.drop(self.out(y))
        return x + self.drop(self.down(F.gelu(self.up(self.n2(x)))))


class _GPT(nn.Module):
    def __init__(self, words: int = 12, width: int = 8):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList([_Block(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Any) -> Any:
        x = self.words(x) + self.places(torch.arange(x.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt() -> Made:
    return _stepping(_GPT(), _sequence_loss, torch.optim.AdamW, lr=1e-2, weight_decay=0.1), _sequences(12)


class _VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x: Any) -> Any:
        mean, spread = self.encode(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        return self.decode(z), mean, spread


def vae() -> Made:
    def loss_of(model: Any, x: Any) -> Any:
        y, mean, spread = model(x)
        return F.mse_loss(y, x, reduction="sum") - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())

    return _stepping(_VAE(), loss_of, lr=1e-3), [(torch.randn(5, 8),) for _ in range(20)]


def gan() -> Made:
    maker = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 4))
    judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    of_maker, of_judge = torch.optim.Adam(maker.parameters(), lr=1e-2), torch.optim.Adam(judge.parameters(), lr=1e-2)

    def step(real: Any) -> Any:
        fake = maker(torch.randn(real.size(0), 3))
        of_judge.zero_grad()
        ones, zeros = torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)
        judged = F.binary_cross_entropy_with_logits(judge(real), ones) + F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros)
        judged.backward()
        of_judge.step()
        of_maker.zero_grad()
        made = F.binary_cross_entropy_with_logits(judge(fake), ones)
        made.backward()
        of_maker.step()
        return judged.detach() + made.detach()

    return step, [(torch.randn(6, 4),) for _ in range(20)]


class _Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(8, 8), nn.Linear(12, 3)

    def forward(self, x: Any, edges: Any) -> Any:
        source, target = edges[0], edges[1]
        pairs = torch.cat([x[source], x.gather(0, target[:, None].expand(-1, x.size(1)))], 1)
        messages = torch.relu(self.message(pairs))
        total = torch.zeros(x.size(0), 8).index_add(0, target, messages)
        count = torch.zeros(x.size(0)).scatter_add(0, target, torch.ones(target.size(0))).clamp(min=1)
        return self.update(torch.cat([x, total / count[:, None]], 1))


def gnn() -> Made:
    step = _stepping(_Graph(), lambda m, x, edges, y: F.cross_entropy(m(x, edges), y), torch.optim.Adagrad)
    return step, [(torch.randn(7, 4), torch.randint(0, 7, (2, 11)), torch.randint(0, 3, (7,))) for _ in range(20)]


class _ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(4, 16), nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.body(x))
        return self.actor(x), self.critic(x).squeeze(-1)


def actor_critic() -> Made:
    model = _ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(states: Any, rewards: Any) -> Any:
        logits, values = model(states)
        chances = F.log_softmax(logits, -1)
        actions = torch.multinomial(chances.detach().exp(), 1)
        advantage = rewards - values
        entropy = -(chances.exp() * chances).sum(-1).mean()
        loss = -(chances.gather(1, actions).squeeze(1) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, [(torch.randn(6, 4), torch.randn(6)) for _ in range(20)]


MODELS: dict[str, Callable[[], Made]] = {
    each.__name__: each for each in (mlp, cnn, resnet, unet, lstm, gru, transformer, gpt, vae, gan, gnn, actor_critic)
}
