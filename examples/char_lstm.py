"""A character-level LSTM with truncated back-propagation through time, on the reference texts that come with Python.

An ordinary PyTorch program. `python -m flambeau examples/char_lstm.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import math
from pydoc_data.topics import topics

import torch
import torch.nn as nn


def load_text(length):
    """The first characters of Python's reference manual, as `help()` shows it."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    return "".join(c for c in text if c == "\n" or (c.isascii() and c.isprintable()))[:length]


class CharLSTM(nn.Module):
    def __init__(self, symbols, width=48, hidden=128, layers=2, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(hidden, symbols)

    def forward(self, characters, state=None):
        output, state = self.lstm(self.embedding(characters), state)
        return self.head(output), state


def streams(data, batch_size):
    """``data`` cut into ``batch_size`` rows, each of which is read from left to right."""
    length = data.numel() // batch_size
    return data[: length * batch_size].view(batch_size, length)


@torch.no_grad()
def evaluate(model, rows, window, criterion):
    """Mean bits a character."""
    model.eval()
    total, state = 0.0, None
    for start in range(0, rows.size(1) - 1, window):
        inputs = rows[:, start : start + window][:, : rows.size(1) - 1 - start]
        targets = rows[:, start + 1 : start + 1 + inputs.size(1)]
        logits, state = model(inputs, state)
        total += criterion(logits.flatten(0, 1), targets.flatten()).item() * inputs.size(1)
    return total / (rows.size(1) - 1) / math.log(2)


@torch.no_grad()
def write(model, prompt, length, alphabet, temperature=0.7):
    model.eval()
    index = {c: i for i, c in enumerate(alphabet)}
    logits, state = model(torch.tensor([[index[c] for c in prompt]]))
    text = prompt
    for _ in range(length):
        drawn = torch.multinomial(torch.softmax(logits[:, -1] / temperature, dim=-1), num_samples=1)
        text += alphabet[drawn.item()]
        logits, state = model(drawn, state)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=120_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--window", type=int, default=32, help="characters between two steps of the optimizer")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint", help="keep the best model so far in this file")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    text = load_text(options.characters)
    alphabet = sorted(set(text))
    index = {c: i for i, c in enumerate(alphabet)}
    data = torch.tensor([index[c] for c in text])
    split = int(0.9 * len(data))
    train, valid = streams(data[:split], options.batch_size), streams(data[split:], options.batch_size)
    model = CharLSTM(len(alphabet), hidden=options.hidden)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.95)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    print(f"{len(text)} characters, {len(alphabet)} different ones, {sum(p.numel() for p in model.parameters())} parameters")

    step, best = 0, math.inf
    for epoch in range(1, options.epochs + 1):
        model.train()
        state = None
        for start in range(0, train.size(1) - options.window, options.window):
            inputs, targets = train[:, start : start + options.window], train[:, start + 1 : start + 1 + options.window]
            if state is not None:
                state = tuple(s.detach() for s in state)  # what came before is remembered, but not differentiated
            logits, state = model(inputs, state)
            loss = criterion(logits.flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            step += 1
            if step <= 20:
                print(f"step {step} loss {loss.item():.7f}")
            if step == options.steps:
                return
        scheduler.step()
        bits = evaluate(model, valid, options.window, criterion)
        print(f"epoch {epoch}: training loss {loss.item():.4f}, validation {bits:.3f} bits a character")
        if bits < best:
            best = bits
            if options.checkpoint:
                torch.save({"model": model.state_dict(), "alphabet": alphabet, "bits": bits}, options.checkpoint)

    print("---")
    print(write(model, "The ", 400, alphabet))


if __name__ == "__main__":
    main()
