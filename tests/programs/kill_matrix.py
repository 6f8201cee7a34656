"""Faults in distributed training, one after another: ``python -m tests.programs.kill_matrix [--only kill:backward:1]``.

Each rank is killed, stopped or made to raise in each phase of a training program: at the start, in the forward pass, the backward pass, a
collective, while it writes the checkpoint, at the end. The launcher may restart once. What must hold: it ends well within some seconds, the
losses are to the bit those of a run without a fault, no process is left and nothing in ``/dev/shm``. Other rows kill the launcher, take its
port, and put a liar or a process with another secret where the workers meet.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = ("kill", "stop", "raise")
PHASES = ("start", "forward", "backward", "collective", "checkpoint", "exit")
STEPS, BETWEEN, FAULT_AT = 6, 2, 3  # steps, steps between two checkpoints, the step of the fault
LIMIT = 25.0  # seconds that a run with a fault and a restart may take


# -- the program that is trained -----------------------------------------------------------------------------------------
def fail_at(phase: str, step: int | None = None) -> None:
    """The fault, if this is its rank, phase, step and the first attempt."""
    kind, where, rank = os.environ["FAULT"].split(":")
    if os.environ.get("TORCHELASTIC_RESTART_COUNT") != "0" or phase != where or rank != os.environ["RANK"] or step not in (None, FAULT_AT):
        return
    if kind == "raise":
        raise RuntimeError(f"a fault of rank {rank} in phase {phase}")
    os.kill(os.getpid(), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)


def train(folder: Path) -> None:
    """A small network, its gradients averaged over the ranks, with checkpoints."""
    import flambeau as torch
    import flambeau.distributed as dist

    fail_at("start")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model[1].register_forward_hook(lambda *_: fail_at("forward", step))
    saved, losses, first = folder / "checkpoint.pt", [], 0
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses, first = state["losses"], state["step"]
    for step in range(first, STEPS):
        inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))
        output = model(inputs)
        output.register_hook(lambda grad, step=step: fail_at("backward", step))
        loss = (output - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        fail_at("collective", step)
        for tensor in [*(p.grad for p in model.parameters()), shown := loss.detach().clone()]:
            dist.all_reduce(tensor)
            tensor /= dist.get_world_size()
        optimizer.step()
        losses.append(shown.item())
        if (step + 1) % BETWEEN == 0:
            write(folder, step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step + 1})
            dist.barrier()
    if dist.get_rank() == 0:
        (folder / "losses.json").write_text(json.dumps(losses))
    dist.destroy_process_group()
    fail_at("exit")


def write(folder: Path, step: int, state: dict) -> None:
    """Rank 0 writes; the others may fail meanwhile."""
    import flambeau as torch

    if os.environ["RANK"] == "0":
        torch.save(state, folder / "draft.pt")
        fail_at("checkpoint", step)
        os.replace(folder / "draft.pt", folder / "checkpoint.pt")
    else:
        fail_at("checkpoint", step)


# -- running it ------------------------------------------------------------------------------------------------------------
def left_behind(mark: str) -> list[str]:
    """Command lines of processes that still run with a mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(process.name) != os.getpid() and f"KILL_MATRIX={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def nameless(names: set[str]) -> list[str]:
    """Those of these files in ``/dev/shm`` that are ours or MPI's, stay, and that no process has mapped, as another job's may."""
    found = {each for each in names if "mpich" in each or "flambeau" in each}
    time.sleep(1.0 if found else 0.0)  # MPI removes its names when it has started
    mapped = ""
    for maps in Path("/proc").glob("[0-9]*/maps") if found else ():
        with contextlib.suppress(OSError):
            mapped += maps.read_text()
    return sorted(each for each in found if each not in mapped and Path("/dev/shm", each).exists())


def launch(folder: Path, fault: str, ranks: int, *options: str, **settings: str) -> tuple[int, float, str]:
    """Exit status, seconds and error output of one run."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FAULT": fault,
        "KILL_MATRIX": folder.name,
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(folder),
        **settings,
    }
    command = [sys.executable, "-m", "flambeau.distributed.run", "--nproc-per-node", str(ranks), *options, __file__, "--train", str(folder)]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=3 * LIMIT)
    except subprocess.TimeoutExpired as error:
        return -1, time.monotonic() - start, f"it did not end: {(error.stderr or b'')[-2000:]!r}"
    return done.returncode, time.monotonic() - start, done.stderr


def run(fault: str, ranks: int = 2) -> dict:
    """One run with a fault and one restart: what came of it."""
    before = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        status, seconds, errors = launch(folder, fault, ranks, "--standalone", "--max-restarts", "1")
        losses = json.loads((folder / "losses.json").read_text()) if (folder / "losses.json").exists() else None
        left = left_behind(folder.name)
    return {
        "status": status,
        "seconds": seconds,
        "losses": losses,
        "errors": errors,
        "left": left + nameless(set(os.listdir("/dev/shm")) - before),
    }


def problems(result: dict, losses: list[float]) -> list[str]:
    """What is wrong with a run."""
    found = []
    if result["status"]:
        found.append(f"exit status {result['status']}: {result['errors'][-600:]}")
    if result["seconds"] > LIMIT:
        found.append(f"it took {result['seconds']:.1f} s")
    if result["losses"] != losses:
        found.append(f"losses {result['losses']}, expected {losses}")
    if result["left"]:
        found.append(f"left behind: {result['left']}")
    return found


# -- other rows --------------------------------------------------------------------------------------------------------------
def launcher_killed(ranks: int) -> list[str]:
    """SIGKILL to the launcher in the middle of the work: its workers end."""
    with tempfile.TemporaryDirectory() as name:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "FAULT": "stop:collective:0", "KILL_MATRIX": Path(name).name, "OMP_NUM_THREADS": "1"}
        command = [
            sys.executable,
            "-m",
            "flambeau.distributed.run",
            "--nproc-per-node",
            str(ranks),
            "--standalone",
            __file__,
            "--train",
            name,
        ]
        launcher = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
        end = time.monotonic() + LIMIT
        while not (Path(name) / "checkpoint.pt").exists() and time.monotonic() < end:
            time.sleep(0.02)
        launcher.kill()
        launcher.wait()
        while left_behind(Path(name).name):
            if time.monotonic() > end:
                return [f"left behind: {left_behind(Path(name).name)}"]
            time.sleep(0.05)
    return []


def port_taken(ranks: int) -> list[str]:
    """Another program listens at the port: the launcher says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken, tempfile.TemporaryDirectory() as name:
        status, seconds, errors = launch(Path(name), "none:none:-1", ranks, "--master-port", str(taken.getsockname()[1]))
    return (
        [] if status and "failed to listen" in errors and seconds < LIMIT else [f"status {status} after {seconds:.1f} s: {errors[-400:]}"]
    )


def meeting(answer: bytes | None, words: str) -> list[str]:
    """A worker meets a liar, who answers with these bytes, or (None) a store with another secret."""
    import flambeau.distributed as dist

    code = "import flambeau.distributed as d; d.init_process_group('gloo')"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "FLAMBEAU_STORE_SECRET": "another",
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        store = dist.TCPStore("127.0.0.1", 0, None, True) if answer is None else None
        threading.Thread(target=lie, args=(listener, answer or b""), daemon=True).start()
        port = listener.getsockname()[1] if store is None else store.port
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code], env={**env, "MASTER_PORT": str(port)}, capture_output=True, text=True, timeout=3 * LIMIT
        )
    fine = done.returncode and words in done.stderr and time.monotonic() - start < LIMIT
    return [] if fine else [f"status {done.returncode}: {done.stderr[-400:]}"]


def lie(listener: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        sock, _ = listener.accept()
        sock.recv(1000)
        sock.sendall(answer)
        sock.close()


OTHERS = {
    "launcher killed": launcher_killed,
    "port taken": port_taken,
    "a peer that speaks garbage": lambda ranks: meeting(b"\xff" * 1000, "does not speak this store's protocol"),
    "a peer that closes": lambda ranks: meeting(b"", "does not speak this store's protocol"),
    "a peer with another secret": lambda ranks: meeting(None, "has another secret"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--only", help="one fault, as kill:backward:1")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(Path(options.train))
        return 0
    clean = run("none:none:-1", options.ranks)
    print(f"no fault: {clean['seconds']:.1f} s, losses {clean['losses']}", flush=True)
    faults = [f"{fault}:{phase}:{rank}" for phase in PHASES for fault in FAULTS for rank in range(options.ranks)]
    wrong = 0
    for fault in [options.only] if options.only else faults:
        result = run(fault, options.ranks)
        found = problems(result, clean["losses"])
        wrong += bool(found)
        print(f"{fault:24} {result['seconds']:5.1f} s  {'; '.join(found) or 'fine'}", flush=True)
    for name, row in {} if options.only else OTHERS.items():
        found = row(options.ranks)
        wrong += bool(found)
        print(f"{name:32} {'; '.join(found) or 'fine'}", flush=True)
    print(f"{wrong} rows went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
