"""The first program of many tutorials: a small model in two layers, a checkpoint of rank 0 that the others load, a clean end.

Started by torchrun, or alone: then it starts its processes itself, with the number of them as its argument.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def setup(rank, world_size):
    os.environ.setdefault("MASTER_ADDR", "localhost")
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def demo_basic(rank, world_size):
    setup(rank, world_size)
    torch.manual_seed(rank)  # the wrapper makes them equal
    ddp_model = DDP(ToyModel())
    loss_fn, optimizer = nn.MSELoss(), optim.SGD(ddp_model.parameters(), lr=0.001)
    for _ in range(3):
        optimizer.zero_grad()
        outputs = ddp_model(torch.randn(20, 10))
        loss_fn(outputs, torch.randn(20, 5)).backward()
        optimizer.step()

    path = os.path.join(tempfile.gettempdir(), f"model-{os.environ['MASTER_PORT']}.checkpoint")
    if rank == 0:
        torch.save(ddp_model.state_dict(), path)
    dist.barrier()
    loaded = DDP(ToyModel())
    loaded.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    x = torch.ones(2, 10)
    assert torch.equal(loaded(x), ddp_model(x))
    dist.barrier()
    if rank == 0:
        os.remove(path)
        print(f"done with {world_size}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        demo_basic(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    else:
        mp.spawn(demo_basic, args=(int(sys.argv[1]),), nprocs=int(sys.argv[1]), join=True)
