"""A word-level language model with `nn.TransformerEncoder`, on the reference texts that come with Python.

An ordinary PyTorch program. `python -m flambeau examples/word_transformer.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import math
import os
import re
import tempfile
from collections import Counter
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn


class Vocabulary:
    """The most frequent words; all others are one, `<unk>`."""

    def __init__(self, words, size):
        frequent = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
        self.words = ["<unk>", *(word for word, _ in frequent[: size - 1])]
        self.index = {word: i for i, word in enumerate(self.words)}

    def __len__(self):
        return len(self.words)

    def encode(self, words):
        return torch.tensor([self.index.get(word, 0) for word in words])


def load_words(count):
    text = " ".join(topics[name] for name in sorted(topics)).lower()
    return re.findall(r"[a-z]+|[.,:()]", text)[:count]


class PositionalEncoding(nn.Module):
    """Sines and cosines of geometrically growing wavelengths (Vaswani et al. 2017)."""

    def __init__(self, width, dropout, longest=512):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(longest).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2] = torch.sin(position * rate)
        table[:, 0, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(0)])


class TransformerModel(nn.Module):
    """Tokens come as ``(length, batch)``."""

    def __init__(self, words, width=96, heads=4, hidden=192, layers=2, dropout=0.1):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(words, width)
        self.position = PositionalEncoding(width, dropout)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.head.weight, -0.1, 0.1)
        nn.init.zeros_(self.head.bias)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(len(tokens))
        x = self.position(self.embedding(tokens) * math.sqrt(self.width))
        return self.head(self.encoder(x, mask=mask, is_causal=True))


def batchify(data, columns):
    length = len(data) // columns
    return data[: length * columns].view(columns, length).t().contiguous()


def batches(data, length):
    """Windows of ``data`` and, flattened, the words that follow each of theirs."""
    for start in range(0, len(data) - 1, length):
        count = min(length, len(data) - 1 - start)
        yield data[start : start + count], data[start + 1 : start + 1 + count].reshape(-1)


@torch.no_grad()
def evaluate(model, data, length):
    model.eval()
    total = 0.0
    for inputs, targets in batches(data, length):
        total += len(inputs) * F.cross_entropy(model(inputs).flatten(0, 1), targets).item()
    return total / (len(data) - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=40_000)
    parser.add_argument("--vocabulary", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=35)
    parser.add_argument("--lr", type=float, default=0.6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    words = load_words(options.words)
    split = int(0.9 * len(words))
    vocabulary = Vocabulary(words[:split], options.vocabulary)
    train = batchify(vocabulary.encode(words[:split]), options.batch_size)
    valid = batchify(vocabulary.encode(words[split:]), 10)
    model = TransformerModel(len(vocabulary))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    print(f"{len(words)} words, {len(vocabulary)} in the vocabulary, {sum(p.numel() for p in model.parameters())} parameters")

    step, best = 0, math.inf
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best.pt")
        for epoch in range(1, options.epochs + 1):
            model.train()
            for inputs, targets in batches(train, options.length):
                loss = F.cross_entropy(model(inputs).flatten(0, 1), targets)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                step += 1
                if step <= 20:
                    print(f"step {step} loss {loss.item():.7f}")
                if step == options.steps:
                    return
            loss = evaluate(model, valid, options.length)
            print(f"epoch {epoch}: learning rate {scheduler.get_last_lr()[0]:.2f}, validation perplexity {math.exp(loss):.1f}")
            if loss < best:
                best = loss
                torch.save(model.state_dict(), path)
            scheduler.step()
        model.load_state_dict(torch.load(path, weights_only=True))
    print(f"the best model: perplexity {math.exp(evaluate(model, valid, options.length)):.1f}")


if __name__ == "__main__":
    main()
