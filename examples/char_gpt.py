"""A small GPT, character by character, on the reference texts that come with Python.

Pre-norm blocks of causal self-attention and a GELU MLP, weights of embedding and head tied, AdamW with weight decay on matrices
only, linear warm-up and cosine decay. An ordinary PyTorch program: `python -m flambeau examples/char_gpt.py` runs it on flambeau,
`python` on PyTorch.
"""

import argparse
import math
from dataclasses import asdict, dataclass
from pydoc_data.topics import topics

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    symbols: int
    context: int = 64
    layers: int = 3
    heads: int = 4
    width: int = 96
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.projection = nn.Linear(config.width, config.width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.symbols, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.symbols, bias=False)
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith(("projection.weight", "mlp.2.weight")):  # they add to the residual stream, twice a block
                nn.init.normal_(parameter, mean=0.0, std=0.02 / math.sqrt(2 * config.layers))
        self.head.weight = self.tokens.weight

    @staticmethod
    def _init_weights(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens, targets=None):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    def configure_optimizer(self, lr, weight_decay, betas):
        """AdamW with two groups: matrices decay, biases and gains do not."""
        parameters = list(self.parameters())
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=betas)

    @torch.inference_mode()
    def generate(self, tokens, count, temperature=1.0, top_k=None):
        self.eval()
        for _ in range(count):
            logits = self(tokens[:, -self.config.context :])[0][:, -1] / temperature
            if top_k is not None:
                smallest = torch.topk(logits, top_k).values[:, [-1]]
                logits = logits.masked_fill(logits < smallest, -math.inf)
            tokens = torch.cat([tokens, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)], dim=1)
        return tokens


def load_text(length):
    """The first characters of Python's reference manual, as `help()` shows it."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    return "".join(c for c in text if c == "\n" or (c.isascii() and c.isprintable()))[:length]


def get_batch(data, batch_size, context):
    starts = torch.randint(len(data) - context, (batch_size,))
    inputs = torch.stack([data[i : i + context] for i in starts])
    targets = torch.stack([data[i + 1 : i + 1 + context] for i in starts])
    return inputs, targets


@torch.no_grad()
def estimate_loss(model, data, batch_size, batches=10):
    model.eval()
    losses = [model(*get_batch(data, batch_size, model.config.context))[1] for _ in range(batches)]
    model.train()
    return torch.stack(losses).mean().item()


def learning_rate(step, warmup, total, lowest=0.1):
    """The factor of the highest rate: a linear rise, then half a cosine down to ``lowest``."""
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    return lowest + (1 - lowest) * 0.5 * (1 + math.cos(math.pi * progress))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="write the trained model to this file")
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    text = load_text(200_000)
    alphabet = sorted(set(text))
    index = {c: i for i, c in enumerate(alphabet)}
    data = torch.tensor([index[c] for c in text])
    split = int(0.9 * len(data))
    train, valid = data[:split], data[split:]
    model = GPT(Config(symbols=len(alphabet), context=options.context, layers=options.layers, width=options.width))
    optimizer = model.configure_optimizer(options.lr, weight_decay=0.1, betas=(0.9, 0.99))
    warmup = min(50, options.steps // 4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, warmup, options.steps))
    print(f"{len(text)} characters, {len(alphabet)} different ones, {sum(p.numel() for p in model.parameters())} parameters")

    for step in range(1, options.steps + 1):
        _, loss = model(*get_batch(train, options.batch_size, options.context))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step <= 20:
            print(f"step {step} loss {loss.item():.7f}")
        elif step % 150 == 0:
            print(f"after {step} steps: validation loss {estimate_loss(model, valid, options.batch_size):.4f}")

    if options.out:
        torch.save({"config": asdict(model.config), "model": model.state_dict(), "alphabet": alphabet}, options.out)
    if options.steps > 20:
        prompt = torch.tensor([[index[c] for c in "The "]])
        tokens = model.generate(prompt, count=300, temperature=0.8, top_k=10)
        print("---")
        print("".join(alphabet[i] for i in tokens[0].tolist()))


if __name__ == "__main__":
    main()
