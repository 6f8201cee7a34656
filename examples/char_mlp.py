"""A character-level language model without recurrence: embeddings of the last characters, two linear layers.

It learns from docstrings that come with Python and ends by writing some text of its own. An ordinary PyTorch program:
`python -m flambeau examples/char_mlp.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import codecs
import contextlib
import importlib
import inspect
import io

import torch
import torch.nn as nn
import torch.nn.functional as F


def load_text():
    """The Zen of Python and some docstrings of the standard library, at most 40,000 characters."""
    with contextlib.redirect_stdout(io.StringIO()):  # importing `this` prints it
        this = importlib.import_module("this")
    parts = [codecs.decode(this.s, "rot13")]
    for name in ("argparse", "collections", "decimal", "heapq", "json", "random", "statistics", "textwrap", "threading", "unittest"):
        module = importlib.import_module(name)
        members = [module, *(value for _, value in sorted(vars(module).items()) if getattr(value, "__module__", None) == name)]
        parts += [doc for doc in map(inspect.getdoc, members) if doc]
    text = "\n".join(parts).lower()
    return "".join(c for c in text if c.isascii() and (c.isprintable() or c == "\n"))[:40_000]


class CharMLP(nn.Module):
    def __init__(self, symbols, context=8, width=16, hidden=128):
        super().__init__()
        self.context = context
        self.embedding = nn.Embedding(symbols, width)
        self.layers = nn.Sequential(
            nn.Linear(context * width, hidden),
            nn.LayerNorm(hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, symbols),
        )

    def forward(self, window):
        return self.layers(self.embedding(window).flatten(1))


@torch.no_grad()
def write(model, text, length, alphabet):
    """Continue ``text`` by ``length`` characters, each drawn from the model's distribution."""
    model.eval()
    index = {c: i for i, c in enumerate(alphabet)}
    window = torch.tensor([[index[c] for c in text[-model.context :]]])
    for _ in range(length):
        probabilities = F.softmax(model(window) / 0.8, dim=-1)
        drawn = torch.multinomial(probabilities, num_samples=1)
        window = torch.cat([window[:, 1:], drawn], dim=1)
        text += alphabet[drawn.item()]
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    text = load_text()
    alphabet = sorted(set(text))
    data = torch.tensor([alphabet.index(c) for c in text])
    model = CharMLP(len(alphabet))
    windows = data.unfold(0, model.context + 1, 1)  # each row: a context and the character that follows it
    print(f"{len(text)} characters, {len(alphabet)} different ones, {sum(p.numel() for p in model.parameters())} parameters")

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.steps)
    recent = 0.0
    for step in range(1, options.steps + 1):
        batch = windows[torch.randint(len(windows), (options.batch_size,))]
        loss = F.cross_entropy(model(batch[:, :-1]), batch[:, -1])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        recent = loss.item() if step == 1 else 0.98 * recent + 0.02 * loss.item()
        if step <= 20:
            print(f"step {step} loss {loss.item():.7f}")
        elif step % 500 == 0:
            print(f"after {step} steps: loss {recent:.4f}")

    print("---")
    print(write(model, "the best way to ", 300, alphabet))


if __name__ == "__main__":
    main()
