"""Training on images as programs for large data sets do: a sampler for each rank, meters, metrics over ranks, schedules, checkpoints.

``torchrun --nproc-per-node N images.py --epochs 2 --checkpoint PATH [--resume]``
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0.0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float64)
        dist.all_reduce(total, dist.ReduceOp.SUM)
        self.sum, self.count = total.tolist()

    @property
    def avg(self):
        return self.sum / self.count


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3)
        self.norm = nn.BatchNorm2d(16)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(16 * 9, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(self.norm(F.relu(self.conv2(x))), 2)
        return F.log_softmax(self.fc(self.dropout(torch.flatten(x, 1))), dim=1)


def images(count):
    """Bright quadrants, which are the classes."""
    generator = torch.Generator().manual_seed(7)
    x, y = torch.randn(count, 1, 10, 10, generator=generator) * 0.5, torch.randint(4, (count,), generator=generator)
    for image, label in zip(x, y):
        row, column = divmod(int(label), 2)
        image[0, 5 * row : 5 * row + 5, 5 * column : 5 * column + 5] += 1
    return TensorDataset(x, y)


def train(model, loader, optimizer, clip):
    model.train()
    losses = AverageMeter()
    for data, target in loader:
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.update(loss.item(), len(data))
    losses.all_reduce()
    return losses.avg


@torch.no_grad()
def validate(model, loader):
    model.eval()
    accuracy = AverageMeter()
    for data, target in loader:
        accuracy.update((model(data).argmax(1) == target).float().mean().item(), len(data))
    accuracy.all_reduce()
    return accuracy.avg


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dist-backend", default="gloo")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--resume", action="store_true")
    args = parser.parse_args()
    dist.init_process_group(backend=args.dist_backend, init_method="env://")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(Net()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    first = 0
    if args.resume:
        state = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
        first = state["epoch"]
        model.load_state_dict(state["state_dict"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
    dataset = images(256)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=args.batch_size // world, sampler=sampler)
    held_out = images(64)
    validation = DataLoader(held_out, batch_size=16, sampler=DistributedSampler(held_out, shuffle=False))
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        loss = train(model, loader, optimizer, 5.0)
        accuracy = validate(model, validation)
        scheduler.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f}", flush=True)
            torch.save(
                {
                    "epoch": epoch + 1,
                    "state_dict": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                },
                args.checkpoint + ".new",
            )
            os.replace(args.checkpoint + ".new", args.checkpoint)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
