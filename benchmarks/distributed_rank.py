"""One rank of ``python -m benchmarks distributed``: ``python -m benchmarks.distributed_rank PACKAGE RANK WORLD FOLDER TASK [OPTION]...``.

It prints what it measured as JSON, if it is rank 0. Ranks meet at a file in FOLDER.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

Step = Callable[[], Any]


def median_of(call: Step, barrier: Step, count: int) -> float:
    """Median of seconds, each call from a barrier on."""
    times = []
    for _ in range(count):
        barrier()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def all_reduces(torch: ModuleType, sizes: list[int], seconds: float) -> dict[str, float]:
    """Seconds of an all-reduce by its bytes."""
    return {str(size): all_reduce(torch, torch.ones(max(1, size // 4)), seconds) for size in sizes}


def all_reduce(torch: ModuleType, tensor: Any, seconds: float) -> float:
    """Seconds of an all-reduce, by calls for so many seconds."""
    dist = torch.distributed
    for _ in range(3):
        dist.all_reduce(tensor)
        tensor.fill_(1.0)
    guess = torch.tensor([median_of(lambda: dist.all_reduce(tensor), dist.barrier, 3)])
    dist.all_reduce(guess, dist.ReduceOp.MAX)  # the same number of calls everywhere
    count = max(3, min(300, int(seconds / max(guess.item(), 1e-6))))
    return median_of(lambda: dist.all_reduce(tensor.fill_(1.0)), dist.barrier, count)


def mlp(torch: ModuleType) -> tuple[Any, Any, Any]:
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )
    return net, torch.randn(64, 784), torch.randint(10, (64,))


def cnn(torch: ModuleType) -> tuple[Any, Any, Any]:
    nn = torch.nn
    layers: list[Any] = []
    for inner, outer in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inner, outer, 3, 2, 1), nn.BatchNorm2d(outer), nn.ReLU()]
    return (
        nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)),
        torch.randn(32, 3, 32, 32),
        torch.randint(10, (32,)),
    )


def gpt(torch: ModuleType) -> tuple[Any, Any, Any]:
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    net = nn.Sequential(nn.Embedding(1000, 128), body, nn.Linear(128, 1000), nn.Flatten(0, 1))
    ids = torch.randint(1000, (8, 65))
    return net, ids[:, :-1], ids[:, 1:].flatten()


def deep(torch: ModuleType) -> tuple[Any, Any, Any]:
    """Sixteen layers of a bucket each, so that what cannot be hidden, the last bucket, is little."""
    nn = torch.nn
    net = nn.Sequential(*[layer for _ in range(16) for layer in (nn.Linear(512, 512), nn.ReLU())])
    return net, torch.randn(128, 512), torch.randint(10, (128,))


MODELS = {"mlp": mlp, "cnn": cnn, "gpt": gpt, "deep": deep}


def training(torch: ModuleType, model: str, wraps: bool) -> tuple[Any, Step]:
    """A model, wrapped or as it is, and a step of its training, done some times."""
    torch.manual_seed(0)
    net, x, y = MODELS[model](torch)
    wrapped = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1, gradient_as_bucket_view=True) if wraps else net
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(wrapped(x), y).backward()
        optimizer.step()

    for _ in range(5):
        step()
    return wrapped, step


def steps(torch: ModuleType, model: str, count: int, wraps: bool) -> dict[str, float]:
    """Seconds of a training step; of one without communication, and of the communication by itself, where the model is wrapped."""
    dist = torch.distributed
    wrapped, step = training(torch, model, wraps)

    def alone() -> None:
        with wrapped.no_sync():
            step()

    taken = {"step": median_of(step, dist.barrier, count)}
    if wraps:
        buckets = [torch.ones(1 << 18) for _ in range(-(-sum(p.numel() for p in wrapped.parameters()) // (1 << 18)))]
        taken["compute"] = median_of(alone, dist.barrier, count)
        taken["communication"] = median_of(lambda: [dist.all_reduce(bucket) for bucket in buckets], dist.barrier, count)
    return taken


def sleeps(torch: ModuleType, model: str, count: int) -> dict[str, float]:
    """How much of a communication that needs no processor hides behind the backward pass.

    The group's thread sleeps for each bucket instead of sending it, in all a third of a step. In turns with such steps come steps in which
    it does nothing. They tell when buckets were ready, and so how much at most could have been hidden.
    """
    dist = torch.distributed
    wrapped, step = training(torch, model, wraps=True)
    thread, reducer = dist.group.WORLD.apart.background, wrapped.reducer
    ready: list[tuple[float, int]] = []

    def unsent(array: Any, op: Any) -> None:
        ready.append((time.perf_counter(), array.nbytes))

    def taken(send: Callable[[Any, Any], None]) -> float:
        ready.clear()
        thread.all_reduce = send
        return median_of(step, dist.barrier, 1)

    def left_over() -> float:
        """Share of the sleeps that comes after the pass, had each begun when its bucket was ready and the one before it was done."""
        end, at = reducer.times["backward_compute_time_end"] / 1e9, 0.0
        for begin, nbytes in ready:
            at = max(at, begin) + length * nbytes / total
        return max(0.0, at - end) / length

    length = min(taken(unsent) for _ in range(count)) / 3
    buckets, total = len(ready), sum(nbytes for _, nbytes in ready)
    free, shown, more = [], [], []
    for _ in range(count):
        free.append(taken(unsent))
        shown.append(left_over())
        more.append(taken(lambda array, op: time.sleep(length * array.nbytes / total)) - free[-1])
    middle = statistics.median
    return {"unsent": middle(free), "more": middle(more), "length": length, "shown": middle(shown), "buckets": buckets}


def main() -> None:
    package, rank, world, folder, task, *options = sys.argv[1:]
    torch = importlib.import_module(package)
    torch.set_num_threads(1)
    dist = importlib.import_module(f"{package}.distributed")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=int(rank), world_size=int(world))
    if task == "all_reduce":
        measured = all_reduces(torch, json.loads(options[0]), float(options[1]))
    elif task == "sleeps":
        measured = sleeps(torch, options[0], int(options[1]))
    else:
        measured = steps(torch, options[0], int(options[1]), task == "ddp")
    if rank == "0":
        print(json.dumps(measured), flush=True)
    dist.barrier()
    if package == "torch":
        os._exit(0)  # Gloo ends some processes by a signal when they end by themselves
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
