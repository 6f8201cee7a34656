"""Programs in several processes: started by hand, each with a place in the world in its environment.

``run("cases.all_dtypes", 2)`` starts two processes that each call ``all_dtypes(torch, rank, size)`` of the module ``cases`` in this
folder, with the process group made, and returns the list of what they return, which must be JSON. Errors, and processes that do not end in
time, are errors here.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def start(
    function: str, size: int, folder: str, library: str = "flambeau", environment: dict[str, str] | None = None, group: bool = True
) -> list[subprocess.Popen[bytes]]:
    """Start the processes."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    shared |= {"PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])}
    # Output goes to files: a process that hangs may not keep a pipe open for which this one waits.
    ranks = []
    for rank in range(size):
        command = [sys.executable, str(HERE / "ranks.py"), library, function, folder, str(int(group))]
        with open(f"{folder}/{rank}.log", "wb") as log:
            mine = os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | (environment or {})
            ranks.append(subprocess.Popen(command, env=mine, stdout=log, stderr=subprocess.STDOUT))
    return ranks


def finish(ranks: list[subprocess.Popen[bytes]], timeout: float) -> list[int | None]:
    """Exit codes; None for those that had to be killed."""
    end = time.monotonic() + timeout
    while time.monotonic() < end and any(each.poll() is None for each in ranks):
        time.sleep(0.02)
    codes = [each.poll() for each in ranks]
    for each in ranks:
        if each.poll() is None:
            each.kill()
        each.wait()
    return codes


def run(function: str, size: int, library: str = "flambeau", timeout: float = 60.0, **options: Any) -> list[Any]:
    """What each rank's call returns."""
    with tempfile.TemporaryDirectory() as folder:
        codes = finish(start(function, size, folder, library, **options), timeout)
        logs = [Path(f"{folder}/{rank}.log").read_text(errors="replace")[-3000:] for rank in range(size)]
        assert codes == [0] * size, f"exit codes {codes}\n" + "\n".join(logs)
        return [json.loads(Path(f"{folder}/{rank}.json").read_text()) for rank in range(size)]


def main() -> None:
    library, function, folder, group = sys.argv[1:]
    torch = importlib.import_module(library)
    importlib.import_module(f"{library}.distributed")
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if group == "1":
        torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
    module, _, name = function.partition(".")
    result = getattr(importlib.import_module(module), name)(torch, rank, size)
    Path(f"{folder}/{rank}.json").write_text(json.dumps(result))
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
