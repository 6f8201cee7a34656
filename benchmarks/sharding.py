"""Memory of each process for parameters, gradients and optimizer state with 1, 2 and 4 processes, by way of dividing them.

Bytes are those of the tensors that a process has between two steps, counted by memory, once each. A GPT of 3.3 million parameters is
trained with AdamW; the loss after the last step is printed, too, as it must not depend on any of this.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from .report import PAGE, machine, table, write_section

THREADS = 1
WAYS = ("DDP", "fully_shard", "FSDP, FULL_SHARD", "FSDP, SHARD_GRAD_OP", "FSDP, NO_SHARD")
_BATCH, _LENGTH, _CLASSES = 8, 16, 256


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes; 1 2 4 unless told")
    command.add_argument("--steps", type=int, default=5, help="steps of training; 5 unless told")
    command.add_argument("--only", nargs="+", choices=WAYS, help="ways of dividing")
    command.add_argument("--quick", action="store_true", help="one step, 1 and 2 processes")
    command.add_argument("--write", action="store_true", help="write the section of docs/scaling.md")


def main(options: argparse.Namespace) -> int:
    worlds, steps = ([1, 2], 1) if options.quick else (options.ranks, options.steps)
    rows: list[list[Any]] = []
    whole: dict[int, float] = {}  # what DDP needs, by number of processes
    for way in options.only or WAYS:
        for world in worlds:
            found = _measured(way, world, steps)
            parts = [max(each["bytes"][i] for each in found) / 1e6 for i in range(3)]
            total = sum(parts)
            if way == "DDP":
                whole[world] = total
            share = f"{total / whole[world]:.3f}" if world in whole else "-"
            seconds = max(each["seconds"] for each in found)
            sizes = [f"{size:.2f}" for size in (*parts, total)]
            rows.append(
                [
                    f"{way}, {world} {'process' if world == 1 else 'processes'}",
                    *sizes,
                    share,
                    f"{seconds * 1e3:.0f}",
                    f"{found[0]['loss']:.6f}",
                ]
            )
            print(*rows[-1], sep="  ", flush=True)
    header = ["memory of each process", "parameters, MB", "gradients, MB", "state, MB", "sum, MB", "of DDP", "step, ms", "loss"]
    text = f"AdamW, {steps} steps of a GPT of 3.3 million parameters; batches of {_BATCH} in all.\n\n{table(header, rows)}"
    print(f"\n{text}")
    if options.write:
        write_section("sharding", f"`python -m benchmarks sharding`; {machine()}. {text}", PAGE.with_name("scaling.md"))
    return 0


def _measured(way: str, world: int, steps: int) -> list[dict[str, Any]]:
    """Results of each process of a group."""
    import flambeau as torch

    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(_rank, (world, way, steps, place), nprocs=world)
        return [json.loads(Path(place, f"rank{rank}").read_text()) for rank in range(world)]


def _model(torch: Any) -> Any:
    """A GPT: embedding, four blocks, scores."""
    nn = torch.nn
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, norm_first=True)
    blocks = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(_CLASSES, 256), blocks, nn.Linear(256, _CLASSES))


def _divided(torch: Any, way: str) -> Any:
    from flambeau.distributed import fsdp
    from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy

    model, kind = _model(torch), torch.nn.TransformerEncoderLayer
    if way == "DDP":
        return torch.nn.parallel.DistributedDataParallel(model)
    if way == "fully_shard":
        for part in model[1].layers:
            fsdp.fully_shard(part)
        return fsdp.fully_shard(model)
    strategy = fsdp.ShardingStrategy[way.partition(", ")[2]]
    return fsdp.FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({kind}), sharding_strategy=strategy)


def _bytes(tensors: Any) -> int:
    """Bytes of the memory of tensors, each memory once; of spread tensors this process's part."""
    found = {}
    for tensor in tensors:
        storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    return sum(found.values())


def _rank(rank: int, world: int, way: str, steps: int, place: str) -> None:
    import flambeau as torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=world)
    model = _divided(torch, way)
    # ``eps`` above rounding: gradients that are zero but for it, as of the biases of keys, would be steps of their own in each way.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    generator = torch.Generator().manual_seed(1)
    seconds: list[float] = []
    for _ in range(steps):
        tokens = torch.randint(0, _CLASSES, (_BATCH, _LENGTH), generator=generator)
        own = tokens[rank * _BATCH // world : (rank + 1) * _BATCH // world]
        begin = time.perf_counter()
        loss = torch.nn.functional.cross_entropy(model(own).reshape(-1, _CLASSES), own.roll(-1, 1).reshape(-1))
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        kept = (
            _bytes(model.parameters()),
            _bytes(param.grad for param in model.parameters() if param.grad is not None),
            _bytes(value for state in optimizer.state.values() for value in state.values() if value.dim()),
        )
        optimizer.zero_grad()
    mean = loss.detach()
    torch.distributed.all_reduce(mean)
    result = {"bytes": kept, "seconds": min(seconds), "loss": mean.item() / world}
    Path(place, f"rank{rank}").write_text(json.dumps(result))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    os.environ.pop("MASTER_ADDR", None)
