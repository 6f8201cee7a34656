"""Collectives, the same source for PyTorch and here: each function is called on every rank and returns what came out."""

from __future__ import annotations

import importlib
from typing import Any

DTYPES = "bool uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
OPS = "SUM PRODUCT MIN MAX BAND BOR BXOR AVG".split()


def outcome(call: Any) -> Any:
    """What a call returns, tensors as lists with their dtype; the type of what it raises."""
    try:
        return plain(call())
    except Exception as error:
        return ["raised", next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")]


def plain(value: Any) -> Any:
    if hasattr(value, "dtype"):
        values = value.detach()
        parts = [values.real, values.imag] if values.is_complex() else [values]
        return [str(value.dtype)[6:], list(value.shape), *(part.double().tolist() for part in parts)]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return value if isinstance(value, int | float | str | bool | None.__class__) else str(value)


def values(torch: Any, rank: int, dtype: str, *shape: int) -> Any:
    """Small numbers that differ between ranks."""
    count = 1
    for size in shape:
        count *= size
    numbers = (torch.arange(count) * (rank + 2) + rank) % 5
    return (numbers % 2 if dtype == "bool" else numbers).reshape(shape).to(getattr(torch, dtype))


def reductions(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Every reduction of every dtype, by ``all_reduce``, ``reduce``, ``reduce_scatter`` and with ``async_op``."""
    dist, found = torch.distributed, {}
    for dtype in DTYPES:
        for name in OPS:
            op = getattr(dist.ReduceOp, name)

            def all_reduced() -> Any:
                x = values(torch, rank, dtype, 3, 2)  # noqa: B023
                dist.all_reduce(x, op)  # noqa: B023
                return x

            def reduced() -> Any:
                x = values(torch, rank, dtype, 5)  # noqa: B023
                dist.reduce(x, size - 1, op)  # noqa: B023
                return x if rank == size - 1 else None

            found[f"all_reduce {dtype} {name}"] = outcome(all_reduced)
            if found[f"all_reduce {dtype} {name}"][0] != "raised" and "complex" not in dtype and dtype != "bool":
                found[f"reduce {dtype} {name}"] = outcome(reduced)

        def scattered() -> Any:
            x, out = values(torch, rank, dtype, 2 * size), torch.zeros(2, dtype=getattr(torch, dtype))  # noqa: B023
            dist.reduce_scatter_tensor(out, x)
            return out

        def later() -> Any:
            x = values(torch, rank, dtype, 4)  # noqa: B023
            work = dist.all_reduce(x, async_op=True)
            work.wait()
            return [x, work.is_completed(), x if x.is_complex() else work.get_future().wait()]

        found[f"reduce_scatter_tensor {dtype}"] = outcome(scattered)
        found[f"async {dtype}"] = outcome(later)
    return found


def movements(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """What moves values without reducing them, of every dtype and of sizes of 0, with uneven splits."""
    dist, found = torch.distributed, {}
    for dtype in DTYPES[1:]:  # gloo moves bool by some of them only
        kind = getattr(torch, dtype)
        for count in (0, 1, 3):
            own = values(torch, rank, dtype, count, 2)
            x = own.clone()
            dist.broadcast(x, size - 1)
            every = [torch.zeros(count, 2, dtype=kind) for _ in range(size)]
            dist.all_gather(every, own)
            whole = torch.zeros(size * count, 2, dtype=kind)
            dist.all_gather_into_tensor(whole, own)
            parts = [torch.zeros(count, 2, dtype=kind) for _ in range(size)] if rank == 1 else None
            part = torch.zeros(count, 2, dtype=kind)
            if "complex" not in dtype:
                dist.gather(own, parts, 1)
                dist.scatter(part, [values(torch, i, dtype, count, 2) for i in range(size)] if rank == 0 else None, 0)
            found[f"{dtype} {count}"] = plain([x, every, whole, parts, part])
        rows = [(rank + i) % 3 for i in range(size)]
        come = [(rank + i) % 3 for i in range(size)]
        out = torch.zeros(sum(come), 2, dtype=kind)
        dist.all_to_all_single(out, values(torch, rank, dtype, sum(rows), 2), come, rows)
        even = torch.zeros(size, dtype=kind)
        dist.all_to_all_single(even, values(torch, rank, dtype, size))
        found[f"{dtype} all_to_all"] = plain([out, even])
    return found


def messages(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Messages: in order, by tag, from anyone, several at once, of objects."""
    dist, found = torch.distributed, {}
    right, left = (rank + 1) % size, (rank - 1) % size
    x = torch.zeros(3)
    if rank % 2 == 0 and rank + 1 < size:
        dist.send(torch.full((3,), float(rank)), right)
    if rank % 2 == 1:
        found["source"] = dist.recv(x, left)
    found["received"] = plain(x)
    dist.barrier()
    if rank == 0:
        works = [dist.isend(torch.full((2,), 10.0 + tag), 1, tag=tag) for tag in (5, 7)]
        [work.wait() for work in works]
    elif rank == 1:
        seven, five = torch.zeros(2), torch.zeros(2)
        dist.recv(seven, 0, tag=7)
        dist.recv(five, 0, tag=5)
        found["tags"] = plain([seven, five])
    if rank == 0:
        got, sources = [torch.zeros(1) for _ in range(size - 1)], []
        for each in got:
            sources.append(dist.recv(each))
        found["any"] = [sorted(sources), sorted(each.item() for each in got)]
    else:
        dist.send(torch.tensor([float(rank)]), 0)
    dist.barrier()
    y = torch.zeros(4, dtype=torch.int64)
    mine = torch.arange(4) + rank
    batch = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, y, left)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    found["batch"] = plain(y)
    if rank == 0:
        dist.send_object_list([{"a": 1}, "text"], dst=1)
    elif rank == 1:
        objects = [None, None]
        found["object source"] = dist.recv_object_list(objects, src=0)
        found["objects"] = objects
    found["to itself"] = outcome(lambda: dist.send(torch.ones(1), rank))
    return found


def objects(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Collectives of objects."""
    dist = torch.distributed
    every: list[Any] = [None] * size
    dist.all_gather_object(every, {"rank": rank, "text": "x" * (1000 * rank)})
    gathered = [None] * size if rank == 1 else None
    dist.gather_object(rank, gathered, dst=1)
    given = ["a", {"b": 2}, None] if rank == 0 else [None, None, None]
    dist.broadcast_object_list(given, src=0)
    out: list[Any] = [None]
    dist.scatter_object_list(out, [f"for {i}" for i in range(size)] if rank == 0 else None, src=0)
    return {"every": [[each["rank"], len(each["text"])] for each in every], "gathered": gathered, "given": given, "out": out}


def subsets(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Groups of some ranks."""
    dist, found = torch.distributed, {}
    pair = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        x = torch.tensor([float(rank + 1)])
        dist.all_reduce(x, group=pair)
        dist.broadcast(y := torch.tensor([rank]), src=size - 1, group=pair)
        found["pair"] = [x.item(), y.item(), dist.get_rank(pair), dist.get_world_size(pair), dist.get_process_group_ranks(pair)]
        found["places"] = [dist.get_group_rank(pair, size - 1), dist.get_global_rank(pair, 1)]
    else:
        found["not a member"] = [dist.get_rank(pair), dist.get_world_size(pair), str(pair) if isinstance(pair, int) else "a group"]
    found["outside"] = outcome(lambda: dist.get_group_rank(dist.group.WORLD, size + 1))
    alone = dist.new_group([1])
    if rank == 1:
        x = torch.ones(2)
        dist.all_reduce(x, group=alone)
        found["alone"] = plain(x)
    own, made = dist.new_subgroups_by_enumeration([[0], list(range(1, size))])
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=own)
    found["own"] = [x.item(), len(made)]
    found["wrong"] = [
        outcome(lambda: dist.new_group([size])),
        outcome(lambda: dist.new_subgroups(size + 1)),
        outcome(lambda: dist.new_subgroups_by_enumeration([[0, 1], [1]])),
        outcome(lambda: dist.init_process_group("gloo")),
    ]
    if rank in (0, size - 1):
        dist.destroy_process_group(pair)
        found["destroyed"] = outcome(lambda: dist.destroy_process_group(pair))
    return found


def gradients(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Gradients through ``torch.distributed.nn.functional``."""
    functional = importlib.import_module(f"{torch.__name__}.distributed.nn.functional")
    found = {}

    def tried(name: str, call: Any, *shape: int) -> None:
        x = (torch.arange(float(torch.Size(shape).numel())) + rank).reshape(shape).requires_grad_()
        result = call(x)
        parts = result if isinstance(result, tuple | list) else [result]
        sum((part * (i + 1 + rank)).sum() for i, part in enumerate(parts)).backward()
        found[name] = plain([list(parts), x.grad])

    tried("all_reduce", functional.all_reduce, 3)
    tried("broadcast", lambda x: functional.broadcast(x, 1), 3)
    tried("all_gather", functional.all_gather, 2)
    tried("gather", lambda x: functional.gather(x, 0), 2)
    tried("scatter", lambda x: functional.scatter(list(x.unbind(0)), 0), size, 2)
    tried("reduce_scatter", lambda x: functional.reduce_scatter(torch.zeros(2), list(x.unbind(0))), size, 2)
    tried("all_to_all", lambda x: functional.all_to_all([torch.zeros(2) for _ in range(size)], list(x.unbind(0))), size, 2)
    tried("all_to_all_single", lambda x: functional.all_to_all_single(torch.zeros(size, 2), x), size, 2)
    tried("reduce", lambda x: functional.reduce(x, 0) * (rank == 0), 3)
    return found


def errors(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Types of the errors of calls that are wrong on every rank, which hang nowhere."""
    dist = torch.distributed
    two = torch.ones(2)
    wrong = {
        "no tensor": lambda: dist.all_reduce([two]),
        "no list": lambda: dist.all_gather(two, two),
        "no op": lambda: dist.all_reduce(two, "sum"),
        "few outputs": lambda: dist.all_gather([two], two),
        "parts": lambda: dist.all_gather_into_tensor(torch.ones(3), two),
        "dtypes": lambda: dist.all_gather_into_tensor(torch.ones(2 * size), two.int()),
        "root": lambda: dist.broadcast(two, size + 5),
        "no destination list": lambda: dist.gather(two, None if rank == 0 else [two] * size, 0),
        "no source list": lambda: dist.scatter(two, None if rank == 0 else [two] * size, 0),
        "both roots": lambda: dist.broadcast(two, src=0, group_src=0),
        "no root": lambda: dist.broadcast(two),
        "no op of messages": lambda: dist.P2POp(dist.broadcast, two, 0),
        "no messages": lambda: dist.batch_isend_irecv([]),
        "strided send": lambda: dist.send(torch.ones(4, 4)[:, :2], (rank + 1) % size),
        "output list": lambda: dist.scatter_object_list([], [1] * size),
        "foreign group": lambda: dist.all_reduce(two, group=dist.GroupMember.NON_GROUP_MEMBER),
    }
    return {name: outcome(call) for name, call in wrong.items()}


COMPARED = (reductions, movements, messages, objects, subsets, gradients, errors)


def everything(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """All of these in one start."""
    return {case.__name__: case(torch, rank, size) for case in COMPARED}


# -- without PyTorch beside -------------------------------------------------------------------------------------------------
def more(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """Things that gloo has not, or has otherwise: uneven parts, other dtypes and layouts, splits, and one group after another."""
    dist, found = torch.distributed, {}
    every = [torch.zeros(i) for i in range(size)]
    dist.all_gather(every, torch.full((rank,), float(rank)))
    found["uneven all_gather"] = plain(every)
    out = torch.zeros(rank + 1)
    dist.reduce_scatter(out, [torch.full((i + 1,), float(rank)) for i in range(size)])
    found["uneven reduce_scatter"] = plain(out)
    lists = [torch.full((i + 1,), float(10 * rank + i)) for i in range(size)]
    come = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(come, lists)
    found["uneven all_to_all"] = plain(come)
    strided = torch.arange(8.0).reshape(2, 4)[:, ::2]
    whole = strided._base if strided._base is not None else strided
    dist.all_reduce(strided)
    found["strided"] = plain([strided, whole])
    for dtype in ("int16", "bool"):
        x = torch.tensor([rank, 1, 0]).to(getattr(torch, dtype))
        dist.all_reduce(x)
        found[dtype] = plain(x)
    x = torch.tensor([1.0, 2.0])
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    found["premultiplied"] = plain(x)
    several = [torch.ones(2) * rank, torch.ones(1, 3)]
    dist.all_reduce_coalesced(several)
    found["coalesced"] = plain(several)
    with dist._coalescing_manager(async_ops=True) as manager:
        parts = [torch.full((2,), float(rank + i)) for i in range(3)]
        for part in parts:
            dist.all_reduce(part)
    manager.wait()
    found["manager"] = plain(parts)
    works = [dist.group.WORLD.allreduce([x := torch.ones(1)]), dist.group.WORLD.allgather([[torch.zeros(1) for _ in range(size)]], [x])]
    found["methods"] = plain([work.wait() for work in works] + works[1].result())
    half = dist.split_group(None, [[0], list(range(1, size))])
    x = torch.ones(1)
    dist.all_reduce(x, group=half)
    found["split"] = [x.item(), half.size(), dist.get_pg_count()]
    dist.monitored_barrier()
    mesh = dist.init_device_mesh("cpu", (1, size), mesh_dim_names=("a", "b"))
    functional = importlib.import_module(f"{torch.__name__}.distributed._functional_collectives")
    y = torch.full((2, size), float(rank), requires_grad=True)
    z = functional.reduce_scatter_tensor(functional.all_reduce(y, "sum", mesh["b"]), "avg", 1, (mesh, 1))
    z.sum().backward()
    gathered = functional.all_gather_tensor(z.detach(), 1, mesh["b"])
    found["functional"] = plain(
        [z, y.grad, gathered, functional.permute_tensor(torch.ones(1) * rank, [(i + 1) % size for i in range(size)], mesh["b"])]
    )
    found["mesh"] = [str(mesh), str(mesh["b"]), list(mesh.get_coordinate()), mesh["a", "b"]._flatten("all").get_group() is dist.group.WORLD]
    version = x._version
    y = x.view(-1)
    dist.broadcast(x, 0)
    found["written"] = [version, x._version > 0, y._version > 0]
    again(torch, rank, size, found)
    return found


def again(torch: Any, rank: int, size: int, found: dict[str, Any]) -> None:
    """A group after another one: of the same processes, and of some of them with other ranks."""
    import datetime
    import os
    import socket

    dist = torch.distributed
    with socket.create_server(("127.0.0.1", 0)) as probe:
        given = [probe.getsockname()[1]]
        dist.broadcast_object_list(given, src=1)
    dist.destroy_process_group()
    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=20))
    x = torch.ones(1)
    dist.all_reduce(x)
    found["again"] = [x.item(), str(dist.get_backend()), dist.is_initialized()]
    dist.barrier()
    dist.destroy_process_group()
    if rank:
        limit = datetime.timedelta(seconds=20)
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{given[0]}", limit, world_size=size - 1, rank=size - 1 - rank)
        x = torch.tensor([rank])
        dist.broadcast(x, 0)
        found["part"] = [x.item(), dist.get_rank()]
        dist.barrier()
        dist.destroy_process_group()
    found["left"] = sorted(name for name in os.listdir("/dev/shm") if str(os.getpid()) in name) if os.path.isdir("/dev/shm") else []


def late(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """A rank that does not come: errors with names, at the timeout."""
    import datetime
    import time

    dist, found = torch.distributed, {}
    limit = datetime.timedelta(seconds=0.3)
    pair, other = dist.new_group([0, 1], timeout=limit), dist.new_group([0, 1], timeout=limit)

    def message(call: Any) -> str:
        try:
            call()
        except RuntimeError as error:
            return str(error)
        return "no error"

    if rank == 0:
        begin = time.monotonic()
        found["collective"] = message(lambda: dist.all_reduce(torch.ones(2), group=pair))
        found["after"] = message(lambda: dist.barrier(pair))
        found["async"] = message(lambda: dist.all_reduce(torch.ones(2), group=other, async_op=True).wait())
        found["message"] = message(lambda: dist.recv(torch.ones(2), 1, group=other))
        found["seconds"] = time.monotonic() - begin
    dist.barrier()
    third = dist.new_group([0, 1])
    found["monitored"] = message(lambda: dist.monitored_barrier(third, limit, True)) if rank == 0 else ""
    work = dist.isend(torch.ones(3), 1, third) if rank == 0 else dist.irecv(torch.zeros(2), 0, third)
    found["longer"] = message(work.wait)
    dist.barrier()
    return found


def mixed(torch: Any, rank: int, size: int) -> dict[str, Any]:
    """One rank waits for a collective that others begin with ``async_op=True``, at each place in turn, small and large ones."""
    dist, found = torch.distributed, {}
    for count in (3, 100_000):
        for turn in range(2 * size):
            x, rows = torch.full((count,), float(rank + turn)), torch.full((size * count,), float(rank))
            whole, part, one = torch.zeros(size * count), torch.zeros(count), torch.full((count,), float(rank))
            calls = [
                lambda later: dist.all_reduce(x, async_op=later),  # noqa: B023
                lambda later: dist.all_gather_into_tensor(whole, one, async_op=later),  # noqa: B023
                lambda later: dist.reduce_scatter_tensor(part, rows, async_op=later),  # noqa: B023
                lambda later: dist.broadcast(one, 1, async_op=later),  # noqa: B023
                lambda later: dist.barrier(async_op=later),
            ]
            works = [call((rank + turn + i) % size == 0 or turn % 2 == i % 2 == rank % 2) for i, call in enumerate(calls)]
            for work in works:
                if work is not None:
                    work.wait()
            found[f"{count} {turn}"] = [sorted(set(each.tolist())) for each in (x, whole, part, one)]
    return found | {"callbacks": _in_callbacks(torch, rank, size)}


def _in_callbacks(torch: Any, rank: int, size: int) -> list[float]:
    """Collectives of both forms, called in a callback of another one; and a callback that waits for its own work."""
    dist, x = torch.distributed, torch.ones(2)
    other = dist.new_group(list(range(size)))

    def again(done: Any) -> Any:
        work.wait()
        y = done.value()[0].clone()
        dist.all_reduce(y)
        dist.all_reduce(y, async_op=True).wait()
        dist.all_reduce(y, group=other)
        return y

    gate = dist.all_reduce(torch.ones(200_000), async_op=True)
    work = dist.all_reduce(x, async_op=True)
    twice = work.get_future().then(again)
    gate.wait()
    return [*x.tolist(), *twice.wait().tolist()] if work.wait() else []


def mismatch(torch: Any, rank: int, size: int) -> str:
    """Shapes that differ under ``TORCH_DISTRIBUTED_DEBUG=DETAIL``."""
    dist = torch.distributed
    dist.all_reduce(torch.ones(2))
    try:
        dist.all_reduce(torch.ones(2 + rank), async_op=rank == -1)
    except RuntimeError as error:
        return str(error)
    return "no error"
