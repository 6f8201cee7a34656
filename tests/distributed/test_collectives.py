"""Collectives, messages and groups: against PyTorch's gloo, whose outcomes are recorded, and what gloo has not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from distributed import ranks

import flambeau as torch

pytest.importorskip("mpi4py")
dist = torch.distributed
HERE = Path(__file__).resolve().parent


def differences(ours: Any, theirs: Any, where: str = "") -> list[str]:
    """Places at which two outcomes differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [line for key in {**ours, **theirs} for line in differences(ours.get(key), theirs.get(key), f"{where} {key}")]
    return [] if ours == theirs else [f"{where}: {ours} is not {theirs}"]


def test_outcomes_are_those_of_gloo(of_pytorch):
    """All collectives over all dtypes with 3 ranks: values, sources, ranks, gradients and types of errors."""
    theirs = json.loads(of_pytorch(lambda library: json.dumps(ranks.run("cases.everything", 3, library.__name__, timeout=120))))
    ours = ranks.run("cases.everything", 3)
    found = [line for rank in range(3) for line in differences(ours[rank], theirs[rank], f"rank {rank}")]
    assert not found, "\n".join(found[:20])


def test_uneven_parts_layouts_and_groups_after_others():
    found = ranks.run("cases.more", 3)
    for rank, mine in enumerate(found):
        assert mine["uneven all_gather"] == [["float32", [i], [float(i)] * i] for i in range(3)]
        assert mine["uneven reduce_scatter"][2] == [3.0] * (rank + 1)
        assert [part[2] for part in mine["uneven all_to_all"]] == [[10.0 * i + rank] * (rank + 1) for i in range(3)]
        assert mine["strided"][0][2] == [[0, 6], [12, 18]] and mine["strided"][1][2] == [0, 1, 6, 3, 12, 5, 18, 7]
        assert (mine["int16"][2], mine["bool"][2]) == ([3, 3, 0], [1, 1, 0])
        assert mine["premultiplied"][2] == [1.5, 3.0]
        assert [part[2] for part in mine["coalesced"]] == [[3, 3], [[3, 3, 3]]]
        assert [part[2] for part in mine["manager"]] == [[3.0 + 3 * i] * 2 for i in range(3)]
        assert mine["split"][:2] == ([1.0, 1] if rank == 0 else [2.0, 2])
        z, gradient, gathered, moved = mine["functional"]
        assert (z[1:], gradient[2], moved[2]) == ([[2, 1], [[3.0], [3.0]]], [[1.0] * 3] * 2, [float((rank - 1) % 3)])
        assert gathered[1:] == [[2, 3], [[3.0] * 3] * 2]
        names = ["DeviceMesh((a=1, b=3), 'cpu', stride=((), 1))", "DeviceMesh((b=3), 'cpu', stride=(1,))"]
        assert mine["mesh"] == [*names, [0, rank], True]
        assert mine["written"][1:] == ([True, True] if rank else mine["written"][1:])
        assert mine["again"] == [3.0, "mpi", True] and mine["left"] == []
    assert [mine.get("part") for mine in found] == [None, [2, 1], [2, 0]]


def test_ranks_meet_of_which_one_waits_and_others_go_on():
    for rank, mine in enumerate(ranks.run("cases.mixed", 3)):
        assert mine.pop("callbacks") == [3.0, 3.0, 81.0, 81.0]
        assert len(mine) == 12
        for name, found in mine.items():
            turn = int(name.split()[1])
            assert found == [[3.0 + 3 * turn], [0.0, 1.0, 2.0], [3.0], [1.0]], (rank, name)


def test_ranks_that_do_not_come_are_errors_with_names():
    first, second = ranks.run("cases.late", 2)
    assert re.search(r"rank 0 .* on .*: all_reduce did not finish within 0.3 s", first["collective"])
    assert first["after"] == first["collective"]
    assert "all_reduce did not finish within" in first["async"] and "recv from rank 1 did not finish within" in first["message"]
    assert first["seconds"] < 5
    assert re.search(r"rank 0 on .*: Rank 1 failed to pass monitoredBarrier in 300 ms", first["monitored"])
    assert "recv from rank 0" in second["longer"]


def test_shapes_that_differ_are_an_error_in_detail():
    found = ranks.run("cases.mismatch", 2, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    for mine in found:
        assert "rank 0: all_reduce #2 [2] float32" in mine and "rank 1: all_reduce #2 [3] float32" in mine


PROGRAM = """
import sys
import flambeau.distributed as dist, flambeau as torch
dist.init_process_group("mpi")
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
sys.stdout.write(f"sum {x.item()} of {dist.get_world_size()}\\n")  # in one piece: the ranks' output is mixed
dist.destroy_process_group()
"""


def test_programs_that_mpiexec_started():
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if mpiexec is None:
        pytest.skip("no mpiexec")
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
    environment["PYTHONPATH"] = str(HERE.parents[1])
    done = subprocess.run([mpiexec, "-n", "2", sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["sum 3.0 of 2"] * 2), done.stderr


SPAWNED = """
import os, sys
import flambeau as torch, flambeau.distributed as dist, flambeau.multiprocessing as mp

def work(rank, size, path):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == size
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(work, (2, sys.argv[1]), 2)
    mp.start_processes(work, (2, sys.argv[2]), 2, start_method="fork")
    assert "mpi4py" not in sys.modules
    print("done")
"""


def test_processes_of_spawn_and_fork_meet_by_a_file(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(SPAWNED)
    command = [sys.executable, str(script), str(tmp_path / "one"), str(tmp_path / "two")]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1]), "FLAMBEAU_STORE_SECRET": "of this test"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr


# -- one rank, in this process -----------------------------------------------------------------------------------------------
@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_a_group_of_one_needs_no_mpi(alone):
    x, whole, parts, out = torch.ones(2), torch.zeros(2), [torch.zeros(2)], [None]
    dist.all_reduce(x, dist.ReduceOp.AVG)
    dist.all_gather_into_tensor(whole, x)
    dist.all_gather(parts, x)
    dist.reduce_scatter_tensor(whole, x, dist._make_nccl_premul_sum(2.0))
    dist.all_gather_object(out, "object")
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda done: 2 * done.value()[0])
    assert work.wait() and doubled.wait().tolist() == [2, 2]
    assert (x.tolist(), whole.tolist(), parts[0].tolist(), out) == ([1, 1], [2, 2], [1, 1], ["object"])
    dist.barrier()
    dist.monitored_barrier()
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend(), repr(dist.ReduceOp.SUM)) == (0, 1, "gloo", "<RedOpType.SUM: 0>")
    assert dist.get_backend_config() == "cpu:gloo,cuda:gloo"
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD
    dist.destroy_process_group()
    assert dist.group.WORLD is None
    with pytest.raises(dist.DistBackendError, match="was destroyed"):
        dist.all_reduce(x, group=group)


def test_tensors_of_other_devices_go_by_the_host(alone):
    from flambeau.testing import probe  # noqa: F401 - the device "privateuseone"

    x, out = torch.ones(3, device="privateuseone"), [torch.zeros(3, device="privateuseone")]
    dist.all_reduce(x, dist._make_nccl_premul_sum(2.0))
    dist.all_gather(out, x)
    dist.broadcast(x, 0)
    assert (out[0].device.type, out[0].tolist(), x.tolist()) == ("privateuseone", [2, 2, 2], [2, 2, 2])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"backend": "nccl"}, RuntimeError, "doesn't have NCCL built in"),
        ({"backend": "other"}, ValueError, "Unknown backend other"),
        ({"pg_options": 3}, NotImplementedError, "pg_options are not supported"),
        ({"timeout": 3}, TypeError, "datetime.timedelta"),
        ({"init_method": "foo://"}, RuntimeError, "No rendezvous handler for foo://"),
        ({"init_method": "env://", "rank": 0, "world_size": 1}, ValueError, "environment variable MASTER_ADDR expected, but not set"),
        ({"store": dist.HashStore()}, ValueError, "world_size must be positive if using store"),
    ],
)
def test_what_cannot_be_a_group(arguments, error, message, monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(error, match=message):
        dist.init_process_group(**arguments)
    assert not dist.is_initialized()


def test_without_the_extra_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import flambeau.distributed as dist\n"
        "from flambeau.distributed.engine import world\n"
        "try: world.mpi()\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert "pip install flambeau[mpi]" in done.stdout, done.stderr


def test_old_names_are_what_they_were():
    from flambeau.distributed import group_methods  # noqa: F401, it imports the module of reductions
    from flambeau.distributed._tensor.device_mesh import init_device_mesh

    assert init_device_mesh is dist.init_device_mesh is dist.tensor.init_device_mesh
    with pytest.warns(FutureWarning, match="reduce_op"):
        assert dist.reduce_op.SUM is dist.ReduceOp.SUM
