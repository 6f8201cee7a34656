"""Several processes: all-reduce and ``DistributedDataParallel`` beside PyTorch's on Gloo, hidden communication, weak scaling, a model.

Every measurement starts its ranks anew, a thread each; the two libraries take turns, and the least of all turns counts. Communication is
hidden as far as a step takes less than its computation and the communication do one after the other. Where ranks communicate by copying
and compute on every core, there is nothing to hide it behind; so it is measured with a sleeping communication, too, which needs no
processor, as a network card's. Weak scaling adds a rank with a batch of its own; its ceiling is the time of as many processes that compute
and do not communicate, which share the memory's bandwidth and, beyond the cores, the cores.

The model (``--write`` puts it into docs/scaling.md) is Hockney's: a message of B bytes takes alpha + B / beta. Both are measured here, by
messages over TCP on this machine, as is the rate at which a core adds what comes.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from .report import PAGE, machine, table, write_section

THREADS = 1
PARTS = ("all_reduce", "steps", "hidden", "weak", "model")
SIZES = (4, 64, 1_000, 16_000, 256_000, 1_000_000, 4_000_000, 25_000_000, 100_000_000)
MODELS = ("mlp", "cnn", "gpt")
SLEEPING = ("mlp", "gpt", "deep")  # models of several buckets
LIBRARIES = ("flambeau", "torch")
# Assumed: seconds that one rank computes for a step, of which the backward pass is two thirds.
NETWORKS = (("ResNet-50, batch of 16 on 16 cores", 25.6e6, 2.0), ("GPT-2 (124M), 1,024 tokens on 16 cores", 124e6, 2.5))
LINES = (10, 25, 100)  # Gbit/s
RANKS = (2, 8, 64, 256, 1024)
BUCKET = 25 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", choices=("", *PARTS), help="one part")
    parser.add_argument("--ranks", type=int, default=2, help="ranks for all-reduces and steps")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library")
    parser.add_argument("--quick", action="store_true", help="one turn, fewer sizes")
    parser.add_argument("--write", action="store_true", help="write the sections of docs/benchmarks.md and docs/scaling.md")


_HIDDEN = (
    "Ranks that communicate by copying, and compute on every core, have nothing to hide communication behind: each copy takes the core "
    "from a backward pass, and the whole shows in the step (the column of docs/benchmarks.md). Here the group's thread sleeps for each "
    "bucket instead, in all for a third of a step, as if a network did the work. At most so much can be hidden, by the moments in which "
    "buckets were full: what is left after the last gradient cannot be."
)


# -- measuring -----------------------------------------------------------------------------------------------------------
def run(package: str, ranks: int, *task: str) -> dict[str, float]:
    """What rank 0 of a fresh group measured.

    Raises:
        RuntimeError: a rank failed.
    """
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.distributed_rank", package, str(rank), str(ranks), folder, *task],
                env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for rank in range(ranks)
        ]  # fmt: skip
        try:
            ended = [process.communicate(timeout=300) for process in started]
        finally:
            for process in started:
                with suppress(ProcessLookupError):
                    process.kill()
    for process, (_, error) in zip(started, ended):
        if process.returncode:
            raise RuntimeError(f"{package} {' '.join(task)} on {ranks} ranks: {error}")
    return json.loads(ended[0][0])


def least(rounds: int, ranks: int, *task: str, libraries: Sequence[str] = LIBRARIES) -> dict[str, dict[str, float]]:
    """For each library the least of what its turns measured."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for package in libraries:
            measured = run(package, ranks, *task)
            have = found.setdefault(package, measured)
            found[package] = {name: min(have[name], value) for name, value in measured.items()}
    return found


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


# -- parts ---------------------------------------------------------------------------------------------------------------
def all_reduce(options: argparse.Namespace) -> str:
    sizes = SIZES[1:-2:2] if options.quick else SIZES
    found = least(options.rounds, options.ranks, "all_reduce", json.dumps(sizes), "0.05" if options.quick else "0.5")
    rows, ratios = [], []
    for size in map(str, sizes):
        ours, theirs = (found[package][size] for package in LIBRARIES)
        ratios.append(ours / theirs)
        rows.append([size, f"{ours * 1e6:.1f}", f"{theirs * 1e6:.1f}", f"{ours / theirs:.2f}"])
    header = ["bytes, all-reduced", "flambeau, us", "PyTorch on Gloo, us", "ratio"]
    return f"{table(header, rows)}\n\nGeometric mean of the ratios on {options.ranks} ranks: {geometric_mean(ratios):.2f}."


def steps(options: argparse.Namespace) -> str:
    rows, ratios = [], []
    for model in MODELS:
        found = least(options.rounds, options.ranks, "ddp", model, "5" if options.quick else "30")
        ours, theirs = found["flambeau"], found["torch"]
        ratios.append(ours["step"] / theirs["step"])
        hidden = (ours["compute"] + ours["communication"] - ours["step"]) / ours["communication"]
        row = [f"{each * 1e3:.2f}" for each in (ours["step"], theirs["step"])]
        rest = [f"{ours[name] * 1e3:.2f}" for name in ("compute", "communication")]
        rows.append([model, *row, f"{ratios[-1]:.2f}", *rest, f"{max(0.0, min(1.0, hidden)):.0%}"])
    header = ["step with DDP", "flambeau, ms", "PyTorch, ms", "ratio", "without communication, ms", "communication alone, ms", "hidden"]
    return f"{table(header, rows)}\n\nGeometric mean of the ratios on {options.ranks} ranks: {geometric_mean(ratios):.2f}."


def hidden(options: argparse.Namespace) -> str:
    rows = []
    for model in SLEEPING[-1:] if options.quick else SLEEPING:
        ours = least(1, options.ranks, "sleeps", model, "5" if options.quick else "50", libraries=LIBRARIES[:1])["flambeau"]
        share = 1 - ours["more"] / ours["length"]
        times = (f"{ours[name] * 1e3:.2f}" for name in ("unsent", "length", "more"))
        rows.append([model, f"{ours['buckets']}", *times, f"{max(0.0, min(1.0, share)):.0%}", f"{1 - ours['shown']:.0%}"])
    header = ["sleeping communication", "buckets", "step without, ms", "sleeps, ms", "step longer by, ms", "hidden", "at most"]
    return table(header, rows)


def weak(options: argparse.Namespace) -> str:
    rows = []
    for model in MODELS[:1] if options.quick else MODELS:
        task = (model, "5" if options.quick else "30")
        one = least(options.rounds, 1, "alone", *task, libraries=LIBRARIES[:1])["flambeau"]["step"]
        for ranks in (2,) if options.quick else (2, 4):
            apart, together = (
                least(options.rounds, ranks, kind, *task, libraries=LIBRARIES[:1])["flambeau"]["step"] for kind in ("alone", "ddp")
            )
            shares = one / together, one / apart
            rows.append([f"{model}, {ranks} ranks", f"{one * 1e3:.2f}", f"{together * 1e3:.2f}", *(f"{share:.2f}" for share in shares)])
    header = ["weak scaling", "one rank, ms", "with DDP, ms", "efficiency", f"ceiling of {os.cpu_count()} cores"]
    return table(header, rows)


# -- the model -----------------------------------------------------------------------------------------------------------
def _served(server: socket.socket, count: int, nbytes: int) -> None:
    connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            connection.sendall(connection.recv(8))
        memory = memoryview(bytearray(1 << 20))
        while nbytes > 0:
            nbytes -= connection.recv_into(memory)
        connection.sendall(b"1")


def tcp(count: int = 2000, nbytes: int = 1 << 29) -> tuple[float, float]:
    """Seconds of a small message, and bytes a second of a large one, between two processes over TCP on the loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = multiprocessing.get_context("fork").Process(target=_served, args=(server, count, nbytes))
        other.start()
        with socket.create_connection(server.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times = []
            for _ in range(count):
                begin = time.perf_counter()
                connection.sendall(b"12345678")
                connection.recv(8)
                times.append((time.perf_counter() - begin) / 2)
            block = bytes(1 << 20)
            begin = time.perf_counter()
            for _ in range(nbytes >> 20):
                connection.sendall(block)
            connection.recv(1)
            rate = nbytes / (time.perf_counter() - begin)
        other.join()
    return sorted(times)[count // 2], rate


def adding_rate() -> float:
    """Bytes a second of one core that adds one vector to another."""
    import numpy as np

    mine, came = np.ones(1 << 22, np.float32), np.ones(1 << 22, np.float32)
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        np.add(mine, came, out=mine)
        times.append(time.perf_counter() - begin)
    return mine.nbytes / sorted(times)[4]


def reduced_in(ranks: int, nbytes: float, alpha: float, rate: float, buckets: int, ring: bool) -> float:
    """Seconds of an all-reduce: by a ring, or by halving and doubling (Rabenseifner 2004), which send as much in fewer messages."""
    messages = 2 * (ranks - 1) if ring else 2 * math.ceil(math.log2(ranks))
    return buckets * messages * alpha + 2 * (ranks - 1) / ranks * nbytes / rate


def predictions(alpha: float, wire: float, added: float) -> Iterator[str]:
    """A table for each network: rates of lines are cut to 80 % (TCP) and to what a core can receive and add."""
    core = 1 / (1 / wire + 1 / added)
    for name, parameters, compute in NETWORKS:
        nbytes, rows = 4 * parameters, []
        buckets = math.ceil(nbytes / BUCKET)
        for line in LINES:
            rate = min(0.8 * line * 1e9 / 8, core)
            for ranks in RANKS:
                ring, halving = (reduced_in(ranks, nbytes, 2 * alpha, rate, buckets, way) for way in (True, False))
                best = min(ring, halving)
                shown = max(best - compute * 2 / 3 * (1 - 1 / buckets), best / buckets)  # the last bucket is never hidden
                figures = (ring, halving, compute + best, compute + shown)
                rows.append([f"{line} Gbit/s, {ranks} ranks", *(f"{each:.3f}" for each in figures), f"{compute / (compute + shown):.0%}"])
        header = [f"{name}", "ring, s", "halving, s", "step without overlap, s", "with overlap, s", "efficiency"]
        yield f"{nbytes / 1e6:.0f} MB in {buckets} buckets, {compute} s of computation a step (assumed).\n\n{table(header, rows)}"


def model(options: argparse.Namespace) -> str:
    alpha, wire = tcp(200, 1 << 26) if options.quick else tcp()
    added = adding_rate()
    text = (
        "A model, not a measurement: a message of B bytes takes alpha + B / beta. Measured on this machine: "
        f"alpha {alpha * 1e6:.1f} us over TCP on the loopback, doubled for a switch and two cards; a core receives {wire / 1e9:.2f} GB/s "
        f"and adds {added / 1e9:.2f} GB/s. Of a line's rate TCP gets 80 %."
    )
    return "\n\n".join([text, *predictions(alpha, wire, added)])


def main(options: argparse.Namespace) -> int:
    if options.quick:
        options.rounds = 1
    functions = {"all_reduce": all_reduce, "steps": steps, "hidden": hidden, "weak": weak, "model": model}
    texts = {name: functions[name](options) for name in PARTS if options.only in ("", name)}
    print("\n\n".join(texts.values()))
    if options.write:
        said = f"`python -m benchmarks distributed`; {machine()}; {options.ranks} ranks with a thread each"
        measured = "\n\n".join(texts[name] for name in ("all_reduce", "steps", "weak"))
        write_section("distributed", f"{said}, the least of {options.rounds} turns.\n\n{measured}")
        scaling = PAGE.with_name("scaling.md")
        write_section("distributed", texts["model"], scaling)
        write_section("hidden", f"{said}. {_HIDDEN}\n\n{texts['hidden']}", scaling)
    return 0
