"""Hogwild: several processes train one network in shared memory at once, without any lock (Recht et al. 2011).

One process makes the first steps alone, as updates without locks do harm as long as they are large; then all of them go on together.
An ordinary PyTorch program: `python -m flambeau examples/hogwild.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse

import torch
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.avg_pool2d(F.silu(self.conv(x)), 2)
        return F.log_softmax(self.fc2(F.silu(self.fc1(x.flatten(1)))), dim=1)


def load_data():
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    dataset = TensorDataset(images, torch.tensor(digits.target))
    return random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(0))


def train(rank, options, model, dataset, steps, losses):
    """What a process does: ``steps`` steps on the shared ``model``; reports every loss."""
    torch.set_num_threads(1)  # the processes are what runs side by side
    generator = torch.Generator().manual_seed(options.seed + rank)
    loader = DataLoader(dataset, batch_size=options.batch_size, shuffle=True, drop_last=True, generator=generator)
    # The weights are shared, the momentum is each process's own.
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=options.momentum)
    model.train()
    step = 0
    while step < steps:
        for images, labels in loader:
            loss = F.nll_loss(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.put((rank, loss.item()))
            step += 1
            if step == steps:
                break


def run(processes, options, model, dataset, steps):
    """Let ``processes`` processes train at once. Returns the losses in the order in which they came."""
    losses = mp.Queue()
    workers = [mp.Process(target=train, args=(rank, options, model, dataset, steps, losses)) for rank in range(processes)]
    for worker in workers:
        worker.start()
    history = [losses.get(timeout=60) for _ in range(processes * steps)]
    for worker in workers:
        worker.join()
        if worker.exitcode != 0:
            raise RuntimeError(f"{worker.name} ended with exit code {worker.exitcode}")
    return history


@torch.no_grad()
def accuracy(model, dataset):
    model.eval()
    correct = sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in DataLoader(dataset, batch_size=100))
    return correct / len(dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=20, help="steps that one process makes alone")
    parser.add_argument("--steps", type=int, default=300, help="steps of each process, those alone counted")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    train_set, test_set = load_data()
    model = Net()
    model.share_memory()  # the processes get the weights themselves, not copies
    first = model.fc2.weight.clone()

    for step, (_, loss) in enumerate(run(1, options, model, train_set, min(options.warmup, options.steps)), 1):
        if step <= 20:
            print(f"step {step} loss {loss:.7f}")
    assert not torch.equal(first, model.fc2.weight), "what a process learns must be seen here"
    print(f"one process, {options.warmup} steps: test accuracy {accuracy(model, test_set):.2%}")
    if options.steps > options.warmup:
        history = run(options.processes, options, model, train_set, options.steps - options.warmup)
        for rank in range(options.processes):
            own = [loss for number, loss in history if number == rank]
            print(f"process {rank}: mean loss of its last 20 steps {sum(own[-20:]) / len(own[-20:]):.4f}")
        print(f"{options.processes} processes together, {options.steps} steps: test accuracy {accuracy(model, test_set):.2%}")


if __name__ == "__main__":
    main()
