"""Models of six kinds, for ``test_whole_pickles``: run with ``torch`` meaning flambeau or PyTorch, it gives classes of the same names."""

from __future__ import annotations

if "torch" not in globals():
    import torch  # type: ignore[import-not-found,unused-ignore]

nn, F = torch.nn, torch.nn.functional


def doubled(module, args, result):
    return 2 * result


def prefixed(module, state_dict, prefix, *others):
    for name in list(state_dict):
        state_dict[name.replace("old_", "")] = state_dict.pop(name)


def halved(epoch):
    return 0.5**epoch


class Residual(nn.Module):
    """A convolution with batch normalization around which the input goes."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding="same", padding_mode="reflect"), nn.BatchNorm2d(channels), nn.SiLU()
        )
        self.note = {"channels": channels}

    def forward(self, x):
        return x + self.body(x)


class Tagger(nn.Module):
    """Recurrent layers of two directions over embeddings."""

    def __init__(self, kind):
        super().__init__()
        self.embedding = nn.Embedding(11, 8, padding_idx=0)
        self.recurrent = kind(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(12, 4)

    def forward(self, tokens):
        return self.head(self.recurrent(self.embedding(tokens))[0][:, -1])


class Encoder(nn.Module):
    """PyTorch's own Transformer layers."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 4)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)).mean(1))


class Block(nn.Module):
    """One block of a GPT."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.ModuleDict({"up": nn.Linear(width, 4 * width), "act": nn.GELU("tanh"), "down": nn.Linear(4 * width, width)})

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.attention(self.norm1(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).flatten(2))
        return x + self.mlp["down"](self.mlp["act"](self.mlp["up"](self.norm2(x))))


class GPT(nn.Module):
    """A GPT whose first and last weight are one."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(11, 8), nn.Embedding(5, 8)
        self.blocks = nn.ModuleList(Block(8, 2) for _ in range(2))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("order", torch.arange(5), persistent=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(self.order)
        for block in self.blocks:
            x = block(x)
        return self.head(x)[:, -1]


def build(kind):
    if kind == "mlp_with_hooks":
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.25), nn.Linear(8, 4))
        model[1].register_forward_hook(doubled)
        return model
    if kind == "convolutions":
        return nn.Sequential(nn.Conv2d(2, 4, 3), Residual(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))
    if kind == "normed":
        return nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(8, 4)))
    return {"lstm": lambda: Tagger(nn.LSTM), "gru": lambda: Tagger(nn.GRU), "transformer": Encoder, "gpt": GPT}[kind]()


def step(kind, state):
    """One step of training on always the same data; the loss."""
    shapes = {"mlp_with_hooks": (5, 6), "normed": (5, 6), "convolutions": (5, 2, 6, 6)}
    if kind in shapes:
        count = 5 * 72
        inputs = torch.linspace(-1, 1, count).sin()[: torch.Size(shapes[kind]).numel()].reshape(shapes[kind])
    else:
        inputs = (torch.arange(25).reshape(5, 5) * 7) % 11
    state["optimizer"].zero_grad()
    loss = F.cross_entropy(state["model"](inputs), torch.tensor([0, 1, 2, 3, 0]))
    loss.backward()
    state["optimizer"].step()
    state["scheduler"].step()
    return loss.item()
