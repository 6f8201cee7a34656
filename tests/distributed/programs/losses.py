"""Losses of three models over 20 steps, each rank with its part of the batch: ``torchrun --nproc-per-node N losses.py OUT MODEL...``.

Written for either library. The convolutional network has synchronised batch norm, which PyTorch has on GPUs alone: there one process
runs it.
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 20, 8


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, tokens=50, width=32, length=16):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids):
        x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def mlp():
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5))
    return net, lambda: (torch.randn(BATCH, 20), torch.randint(5, (BATCH,)))


def cnn():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip
    if dist.get_world_size() > 1:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    return net, lambda: (torch.randn(BATCH, 3, 12, 12), torch.randint(5, (BATCH,)))


def gpt():
    return GPT(), lambda: (ids := torch.randint(50, (BATCH, 17)))[:, :-1].split(BATCH) + ids[:, 1:].split(BATCH)


def train(name):
    torch.manual_seed(0)
    net, draw = globals()[name]()
    net = DistributedDataParallel(net, bucket_cap_mb=0.05)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3) if name == "gpt" else torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    rank, world = dist.get_rank(), dist.get_world_size()
    losses, batches = [], [draw() for _ in range(4)]
    for step in range(STEPS):
        x, y = (part.chunk(world)[rank] for part in batches[step % 4])
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y.flatten())
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / world)
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trained = {name: train(name) for name in sys.argv[2:]}
    if dist.get_rank() == 0:
        with open(os.path.join(sys.argv[1], f"losses{dist.get_world_size()}.json"), "w") as file:
            json.dump(trained, file)
    dist.destroy_process_group()
