"""Threads that compute, large and small, drop, train, batch, save, load and transform: each gets the results of one alone."""

from __future__ import annotations

import random
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.helpers.threads import in_threads, switched_often

from . import programs

MOST = 6  # results that a thread holds at most


class Holding:
    """Results of sizes that are recycled, with what each must still be when it is dropped."""

    def __init__(self, torch: Any, rng: random.Random):
        self.torch, self.rng = torch, rng
        self.held: list[tuple[Any, float]] = []

    def step(self) -> None:
        """Make a large result, and drop or keep it, others, or views of them."""
        value, size = float(self.rng.randrange(1, 1000)), self.rng.choice((140_000, 150_000, 300_000, 1_200_000))
        result = self.torch.full((size,), value) + 1
        if self.rng.random() < 0.5:
            result = result[size // 3 :].detach()
        self.held.append((result, value + 1))
        while len(self.held) > self.rng.randrange(1, MOST):
            dropped, wanted = self.held.pop(self.rng.randrange(len(self.held)))
            low, high = dropped.amin().item(), dropped.amax().item()
            assert low == high == wanted, f"a result of {wanted} is {low} to {high}"


def training(torch: Any, _: int) -> list[Any]:
    """Steps whose activations and gradients are recycled."""
    layers = torch.nn.Sequential(torch.nn.Linear(64, 520), torch.nn.GELU(), torch.nn.LayerNorm(520), torch.nn.Linear(520, 300))
    with torch.no_grad():
        for parameter in layers.parameters():
            parameter.copy_(programs._ramp(torch, *parameter.shape) / 40)
    optimizer, losses = torch.optim.Adam(layers.parameters(), lr=0.001), []
    x = programs._ramp(torch, 300, 64)
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(layers(x), torch.arange(300))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def batches(torch: Any, n: int) -> list[Any]:
    """A loader whose workers are threads."""
    data = torch.utils.data.TensorDataset(programs._ramp(torch, 40, n), torch.arange(40))
    loader = torch.utils.data.DataLoader(data, 8, num_workers=2, worker_method="thread")
    return [torch.stack([x.sum() + y.sum() for x, y in loader])]


def files(torch: Any, n: int) -> list[Any]:
    """A model and its optimizer's state, by a file."""
    layer, x = torch.nn.Linear(n % 300 + 8, 3), programs._ramp(torch, n, 20)
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save({"state": layer.state_dict(), "x": x}, file.name)
        found = torch.load(file.name)
    assert torch.equal(found["state"]["weight"], layer.weight)
    return [found["x"]]


def views_of_shared(torch: Any, shared: Any) -> None:
    """Views of a tensor that all threads have; the lists of who shares its memory are theirs together."""
    kept = [shared.t(), shared.detach(), shared.view(-1), shared[1:], shared.unsqueeze(0)]
    total = sum(view.numel() for view in kept)
    assert total == 5 * shared.numel() - shared.shape[1]
    gradient = torch.autograd.grad((shared.t() * 2).sum(), shared)[0]
    assert gradient.amin().item() == gradient.amax().item() == 2.0


OWN: dict[str, Callable[[Any, int], list[Any]]] = {"training, large": training, "batches": batches, "files, named": files}


def values(torch: Any, name: str, rows: int) -> list[np.ndarray]:
    """What a program gives."""
    if name in OWN:
        return [result.detach().numpy().copy(order="K") for result in OWN[name](torch, rows)]
    return programs.values(torch, name, rows)


def check(torch: Any, name: str, rows: int, wanted: list[np.ndarray]) -> None:
    """Run a program.

    Raises:
        AssertionError: it gives something else than ``wanted``.
    """
    for i, (have, want) in enumerate(zip(values(torch, name, rows), wanted, strict=True)):
        assert have.dtype == want.dtype and have.shape == want.shape, f"{name} {i}: {have.dtype} {have.shape}"
        np.testing.assert_allclose(have, want, rtol=2e-4, atol=2e-5, err_msg=f"{name} {i}, {rows} rows")


def trial(seed: int, seconds: float, interval: float, count: int) -> dict[str, Any]:
    """``count`` threads for some time at a switch interval; how many programs they ran, and how many large results they made."""
    import flambeau as torch

    rows = (programs.SMALL, programs.LARGE)
    names = [*programs.PROGRAMS, *OWN]
    wanted = {(name, n): values(torch, name, n) for name in names for n in rows}
    before = programs.state()
    shared = programs._ramp(torch, 30, 40).clone().requires_grad_()
    failures: list[str] = []
    ran, made = [0] * count, [0] * count
    end = time.monotonic() + seconds

    def work(number: int) -> None:
        rng = random.Random(seed * 1000 + number)
        holding = Holding(torch, rng)
        try:
            while time.monotonic() < end and not failures:
                if rng.random() < 0.3:
                    name, n = rng.choice(names), rng.choice(rows)
                    check(torch, name, n, wanted[name, n])
                    ran[number] += 1
                else:
                    views_of_shared(torch, shared)
                    for _ in range(10):
                        holding.step()
                        made[number] += 1
        except BaseException:
            failures.append(traceback.format_exc())

    with switched_often(interval):
        in_threads(count, work)
    assert not failures, f"{len(failures)} of {count} threads, after {sum(made)} large results:\n{failures[0]}"
    _check_books()
    after = programs.state()
    assert {name: after[name] for name in ("modes", "grad", "inside")} == {name: before[name] for name in ("modes", "grad", "inside")}
    return {"programs": sum(ran), "results": sum(made)}


def _check_books() -> None:
    """What the process counts is what there is, now that no thread computes."""
    from flambeau.kernels.compiler import memory
    from flambeau.kernels.families import blas

    recycler = memory._recycler
    recycler.collect()
    assert recycler.used == sum(use.block.size for use in recycler.lent.values()) <= recycler.peak
    waiting = 0
    for size, block in recycler.waiting.items():
        below: Any = block
        while below is not None:
            waiting, below = waiting + size, below.below
    assert recycler.kept == waiting
    assert not blas._inside
