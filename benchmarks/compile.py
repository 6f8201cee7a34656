"""Compiled training steps and inference beside eager and compiled PyTorch, what compiling takes, and how much memory the values need."""

from __future__ import annotations

import argparse
import collections
import ctypes
import gc
import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import comparison
from .cases import Case
from .comparison import Source, add_arguments as add_common_arguments, duration
from .measuring import Timed, peak_bytes, resident_bytes
from .models import Step, mlp, training_step, transformer_layer
from .report import machine, table, write_section
from .sides import both
from .small_programs import SMALL

THREADS = 1
HOW = ("compiled", "eager")
TRAINING, INFERENCE, SMALL_GROUP = "training step", "without gradients", "small programs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_arguments(parser)
    parser.add_argument("--no-torch-compile", action="store_true", help="leave out torch.compile, which needs minutes and a C++ compiler")
    parser.add_argument("--worker", nargs=3, metavar=("WORK", "PACKAGE", "PROGRAM"), help=argparse.SUPPRESS)


# -- programs ---------------------------------------------------------------------------------------------------------------------------
def tiny(torch: ModuleType) -> Step:
    """16-32-4 with Adam, batches of 8."""
    nn, source = torch.nn, Source(torch)
    model = source.fill(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    return training_step(torch, model, optimizer, source.normal(8, 16), source.integers(4, 8))


def gpt_model(torch: ModuleType, layers: int = 4, width: int = 128, heads: int = 4, length: int = 64, words: int = 256) -> Any:
    """A language model that sees only what came before."""
    nn = torch.nn

    def attend(projected: Any, mask: Any) -> Any:
        size, steps, _ = projected.shape
        query, key, value = (part.view(size, steps, heads, width // heads).transpose(1, 2) for part in projected.split(width, 2))
        scores = (query @ key.transpose(-2, -1) * (width // heads) ** -0.5).masked_fill(mask, float("-inf"))
        return (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(size, steps, width)

    Layer = transformer_layer(torch, width, attend)

    class Model(nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)
            self.register_buffer("mask", torch.triu(torch.ones(length, length), 1).bool())
            self.register_buffer("numbers", torch.arange(length))

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places(self.numbers)
            for layer in self.layers:
                x = layer(x, self.mask)
            return self.head(self.norm(x)).view(-1, words)

    return Model()


def gpt(torch: ModuleType) -> Step:
    """Four layers of width 128 over 64 tokens with AdamW, batches of 8."""
    source = Source(torch)
    model = source.fill(gpt_model(torch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    return training_step(torch, model, optimizer, source.integers(256, 8, 64), source.integers(256, 8 * 64))


def resnet(torch: ModuleType) -> Step:
    """Three blocks of 16, 32 and 64 channels with SGD, batches of 8 images of 32x32."""
    nn, functional, source = torch.nn, torch.nn.functional, Source(torch)

    class Block(nn.Module):  # type: ignore[name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else nn.Identity()

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norm1(self.conv1(x)))
            return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    source.fill(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return training_step(torch, model, optimizer, source.normal(8, 3, 32, 32), source.integers(10, 8))


def lstm(torch: ModuleType) -> Step:
    """A language model: one layer of 128 units over 32 steps with SGD, batches of 16."""
    nn, source = torch.nn, Source(torch)
    embedding, layer, head = nn.Embedding(200, 64), nn.LSTM(64, 128), nn.Linear(128, 200)
    model = source.fill(nn.ModuleList([embedding, layer, head]))
    optimizer, loss_of = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()
    tokens, following = source.integers(200, 32, 16), source.integers(200, 32 * 16)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(head(layer(embedding(tokens))[0].view(32 * 16, 128)), following)
        loss.backward()
        optimizer.step()
        return loss

    return step


def chain(torch: ModuleType) -> Step:
    """Thirteen element-wise operations over 4 million numbers, a row and a column among the operands."""
    source = Source(torch)
    x, row, column = source.normal(2048, 2048), source.normal(2048), source.normal(2048, 1)

    def step() -> Any:
        a = x * row + column
        b = a.sigmoid() * a
        d = ((b - row).abs() + 0.5).sqrt() * column
        return (d * 0.1 + x).tanh() - a

    return step


def inference(make: Callable[[ModuleType, Source], tuple[Any, Any]]) -> Callable[[ModuleType], Step]:
    """A model's output for one batch, without gradients."""

    def build(torch: ModuleType) -> Step:
        source = Source(torch)
        model, batch = make(torch, source)
        source.fill(model).eval()

        def step() -> Any:
            with torch.no_grad():
                return model(batch)

        return step

    return build


def _small(torch: ModuleType, source: Source) -> tuple[Any, Any]:
    nn = torch.nn
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), source.normal(8, 16)


PROGRAMS: dict[str, tuple[str, Callable[[ModuleType], Step]]] = {
    "tiny MLP, Adam": (TRAINING, tiny),
    "MLP 784-512-512-10, Adam": (TRAINING, mlp(64)),
    "GPT, 4 x 128, AdamW": (TRAINING, gpt),
    "small ResNet, SGD": (TRAINING, resnet),
    "LSTM, 128, SGD": (TRAINING, lstm),
    "chain of 13, 4M numbers": (INFERENCE, chain),
    "tiny MLP": (INFERENCE, inference(_small)),
    "GPT, 4 x 128": (INFERENCE, inference(lambda torch, source: (gpt_model(torch), source.integers(256, 8, 64)))),
}


def compiled(torch: ModuleType, step: Step) -> Step:
    """The step compiled as a whole."""
    return torch.compile(step)


def builder(build: Callable[[ModuleType], Step], how: str) -> Callable[[ModuleType], Timed]:
    return (lambda torch: compiled(torch, build(torch))) if how == "compiled" else build


_SETTLED = 600  # calls, after which machine code does all of a small program's


def settled(build: Callable[[ModuleType], Step]) -> Callable[[ModuleType], Timed]:
    """A small program, compiled and called until later calls are alike."""

    def made(torch: ModuleType) -> Timed:
        run = compiled(torch, build(torch))
        collections.deque((run() for _ in range(_SETTLED)), 0)
        return run

    return made


CASES = [Case(name, f"{how}, {group}", builder(build, how), rehearsals=3) for name, (group, build) in PROGRAMS.items() for how in HOW]
for small_name, small_build in SMALL.items():
    CASES.append(Case(small_name, f"compiled, {SMALL_GROUP}", settled(small_build), rehearsals=3))
    CASES.append(Case(small_name, f"eager, {SMALL_GROUP}", small_build, rehearsals=3 + _SETTLED))


# -- what compiling takes ---------------------------------------------------------------------------------------------------------------
def seconds_to_compile(torch: ModuleType, build: Callable[[ModuleType], Step]) -> dict[str, float]:
    """Seconds of the first calls of the eager step, and of its compiled form until it has settled, above what a call takes then."""
    step = build(torch)
    moments = [time.perf_counter()]
    step()
    moments.append(time.perf_counter())
    run = compiled(torch, step)
    for _ in range(6):
        run()
        moments.append(time.perf_counter())
    calls = [after - before for before, after in itertools.pairwise(moments[1:])]
    return {"eager": moments[1] - moments[0], "compiled": sum(calls) - len(calls) * min(calls)}


def bytes_of_values(torch: ModuleType, build: Callable[[ModuleType], Step]) -> dict[str, float]:
    """Bytes that eager and compiled steps add at most to the process as it is between steps, and the arenas of the compiled ones.

    Both add what they compute with, results, and gradients as far as there are more of them than between steps; parameters, states of
    the optimizer and inputs are counted on neither side.
    """
    from flambeau.capture import driver

    step = build(torch)
    eager = _added(step)
    run = compiled(torch, step)
    own = _added(run)
    return {"eager": float(eager), "compiled": float(own), "arena": float(sum(plan.arena_bytes for plan in driver.plans))}


def _added(run: Step) -> int:
    """Bytes that steps add at most to the settled process, which has given back whatever was free."""
    from flambeau.capture import driver
    from flambeau.kernels.compiler import memory

    for _ in range(4):
        run()
    for plan in driver.plans:
        plan.free.clear()
    gc.collect()
    memory.release()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    return peak_bytes(lambda: collections.deque((run() for _ in range(3)), 0)) - before


WORK = {"seconds": seconds_to_compile, "bytes": bytes_of_values}


def in_a_process(work: str, package: str, program: str, threads: int, cache: str | None = None) -> dict[str, float]:
    """What ``WORK`` gives in a fresh interpreter, with its kernels in the folder ``cache``."""
    command = [sys.executable, "-m", __package__, "compile", "--threads", str(threads), "--worker", work, package, program]
    folders = {} if cache is None else {"FLAMBEAU_CACHE": cache, "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor")}
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # installed packages have bytecode
    made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**around, **folders})
    return json.loads(made.stdout.splitlines()[-1])


def cost_row(name: str, threads: int, with_torch: bool) -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (in_a_process("seconds", "flambeau", name, threads, cache) for _ in range(2))
        theirs = in_a_process("seconds", "torch", name, threads, cache)["compiled"] if with_torch else float("nan")
    used = in_a_process("bytes", "flambeau", name, threads)
    shares = [f"{used[which] / used['eager']:.2f}" if used["eager"] > 1 << 18 else "-" for which in ("arena", "compiled")]
    return [
        name,
        *(f"{seconds:.2f}" for seconds in (cold["compiled"], warm["compiled"], theirs)),
        *(f"{used[which] / 1e6:.1f}" for which in ("arena", "compiled", "eager")),
        *shares,
    ]


# -- the command --------------------------------------------------------------------------------------------------------------------------
def measured(options: argparse.Namespace, with_torch: bool) -> tuple[list[list[str]], list[comparison.Outcome]]:
    """A row for each program: flambeau compiled, PyTorch eager, flambeau eager, PyTorch compiled."""
    rows, outcomes = [], []
    with both(options.threads) as (flambeau, torch):
        for name, (group, build) in PROGRAMS.items():
            if options.only not in f"{group}: {name}":
                continue
            case = Case(name, group, build, rehearsals=3)
            keys = {how: f"{how}, {group}: {name}" for how in HOW}
            entries = [(flambeau, keys["compiled"]), (torch, keys["eager"]), (flambeau, keys["eager"])]
            entries += [(torch, keys["compiled"])] if with_torch else []
            outcome = comparison.run_case(case, __name__, entries, *comparison.effort(options))
            outcomes.append(outcome)
            if outcome.seconds:
                own, *others = outcome.seconds
                ratios = [f"{own / other:.3f}" for other in others]
                rows.append([outcome.label, group, *map(duration, outcome.seconds), *ratios])
    return rows, outcomes


def measured_small(options: argparse.Namespace) -> tuple[list[list[str]], list[comparison.Outcome]]:
    """A row for each small program: flambeau compiled and eager, both settled in machine code, and PyTorch eager."""
    rows, outcomes = [], []
    with both(options.threads) as (flambeau, torch):
        for name, build in SMALL.items():
            if options.only not in f"{SMALL_GROUP}: {name}":
                continue
            keys = {how: f"{how}, {SMALL_GROUP}: {name}" for how in HOW}
            entries = [(flambeau, keys["compiled"]), (flambeau, keys["eager"]), (torch, keys["eager"])]
            case = Case(name, SMALL_GROUP, build, rehearsals=3)
            outcome = comparison.run_case(case, __name__, entries, *comparison.effort(options))
            outcomes.append(outcome)
            if outcome.seconds:
                own, eager, theirs = (seconds * 1e6 for seconds in outcome.seconds)
                rows.append([outcome.label, *(f"{each:.2f}" for each in (own, eager, theirs)), f"{own / eager:.2f}", f"{own / theirs:.3f}"])
    return rows, outcomes


def main(options: argparse.Namespace) -> int:
    if options.worker:
        work, package, program = options.worker
        torch = importlib.import_module(package)
        torch.set_num_threads(options.threads)
        print(json.dumps(WORK[work](torch, PROGRAMS[program][1])))
        return 0
    with_torch = not options.no_torch_compile and shutil.which(os.environ.get("CXX", "g++")) is not None
    rows, outcomes = measured(options, with_torch)
    others = ["PyTorch", "flambeau, eager", *(["torch.compile"] if with_torch else [])]
    header = ["program", "", "compiled, ms", *(f"{name}, ms" for name in others), *(f"to {name}" for name in others)]
    costs = [cost_row(row[0].removesuffix(" *"), options.threads, with_torch) for row in rows]
    cost_header = ["program", "compile, new cache, s", "same cache, s", "torch.compile, s"]
    cost_header += ["arena, MB", "peak, MB", "eager's peak, MB", "arena to eager's peak", "peak to eager's peak"]
    small, more = measured_small(options)
    outcomes += more
    small_header = ["small program", "compiled, us", "eager, us", "PyTorch, us", "to eager", "to PyTorch"]
    tables = [table(small_header, small)] if small else []
    tables[:0] = [table(header, rows), table(cost_header, costs)] if rows else []
    text = "\n\n".join([*tables, *comparison.problems(outcomes)])
    print(text)
    if options.write:
        remark = (
            "Compile times are those of the first calls above later ones, in fresh processes. The arena is the memory of a call's values. "
            "The peaks are what a compiled and an eager step of flambeau add at most to the process as it is between steps: what they "
            "compute with, and results; of gradients, which are there between steps, only more than those. Parameters, states and inputs "
            "are counted on neither side."
        )
        write_section(options.name, f"{comparison.described(options)} {machine()}. {remark}\n\n{text}")
    return int(len(rows) + len(small) < len(outcomes))
