"""Ctrl-C, and handlers that compute, at any place during import, first uses, the start of the pool, and kernels.

Afterwards the same process gives the right results, by the same kernels as a process in which nothing happened.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

import numpy as np

from . import programs
from .injection import Injector, came_at_beginning


def interrupt() -> None:
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def compute() -> None:
    """What a handler may do: use kernels itself, whatever its thread is in the midst of."""
    import flambeau as torch

    x = torch.full((3, 20000), 0.5)
    values = [x.exp().sum().item(), (x + 1).mean().item(), x.softmax(1).sum().item(), (x[:, :200] @ x[:, :200].t()).sum().item()]
    np.testing.assert_allclose(values, [60000 * np.exp(0.5), 1.5, 3.0, 450.0], rtol=1e-4)
    assert torch.randn(30000, generator=torch.Generator().manual_seed(1)).std().item() > 0.9
    with torch.enable_grad():  # a backward pass that was interrupted has switched it off
        y = torch.full((9000,), 0.5, requires_grad=True)
        torch.nn.functional.silu(y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 0.7399612, rtol=1e-4)


def compute_and_interrupt() -> None:
    compute()
    raise KeyboardInterrupt


ACTIONS = {action.__name__: action for action in (interrupt, compute, compute_and_interrupt)}


def first_use(
    names: list[str], rows: int, action: str, at: int | None, wanted: dict[str, Any], healthy: dict[str, Any] | None
) -> dict[str, Any]:
    """Programs whose first run is interrupted at place ``at``, then run again."""
    import flambeau as torch

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    injector = Injector(at, ACTIONS[action])
    came = at_exit = False
    try:
        with injector:
            for name in names:
                programs.check(torch, name, rows, wanted[name])
    except KeyboardInterrupt as error:
        came, at_exit = True, came_at_beginning(error)
    sys.settrace(None)
    if injector.has_acted and "interrupt" in action:
        assert came, f"the interrupt at {injector.where} was lost"
    try:
        for name in names:
            for _ in range(2):
                programs.check(torch, name, rows, wanted[name])
        compute()
        state = programs.state()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
        if healthy is not None:
            programs.check_state(state, {name: fact for name, fact in healthy.items() if not (at_exit and name in programs.OF_CONTEXTS)})
    except BaseException as error:
        raise AssertionError(f"after {action} at {injector.where} (place {at})") from error
    return {"passed": injector.passed, "acted": injector.has_acted, "state": state}


def imports(delay: float, wanted: dict[str, Any]) -> dict[str, Any]:
    """Ctrl-C during ``import flambeau`` and what follows it, after ``delay`` seconds; then import and run everything."""

    def handler(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, handler)
    came = at_exit = False
    modules = ("nn", "optim", "utils.data", "autograd", "linalg", "special", "serialization", "testing", "kernels.compiler.pool")
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        import flambeau as torch

        for name in modules:
            __import__(f"flambeau.{name}")
        for name in programs.PROGRAMS:
            programs.check(torch, name, programs.SMALL, wanted[name])
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt as error:
        came, at_exit = True, came_at_beginning(error)
    import flambeau as torch

    for name in modules:
        module: Any = __import__(f"flambeau.{name}", fromlist=["*"])
        submodule: Any = torch
        for part in name.split("."):
            submodule = getattr(submodule, part)
        assert submodule is module, name
    for name in programs.PROGRAMS:
        programs.check(torch, name, programs.SMALL, wanted[name])
    compute()
    contents = {
        name: sorted(attribute for attribute in dir(module) if not attribute.startswith("__"))
        for name, module in list(sys.modules.items())  # a module whose names are asked for may import another
        if name.partition(".")[0] == "flambeau" and not name.endswith("__main__")
    }
    return {"came": came, "contents": contents, "modes": None if at_exit else programs.state()["modes"]}
