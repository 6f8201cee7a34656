"""``torch.utils.flop_counter`` and selective checkpoints, against PyTorch's counts and gradients."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest

import flambeau
from flambeau.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def t(library: Any, *shape: int) -> Any:
    return library.ones(*shape, requires_grad=True)


def network(library: Any) -> Any:
    nn = library.nn
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))


def nested(library: Any) -> Any:
    class Nested(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = library.nn.Linear(4, 4)
            self.b = library.nn.Sequential(library.nn.Linear(4, 4), library.nn.Tanh(), library.nn.Linear(4, 4))

        def forward(self, x: Any) -> Any:
            return self.b(self.a(x)) + self.b(x)

    return Nested()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "matrices": lambda torch: (t(torch, 3, 4) @ t(torch, 4, 5)).sum().backward(),
    "batches": lambda torch: torch.bmm(t(torch, 2, 3, 4), t(torch, 2, 4, 5)).sum().backward(),
    "a batch and a matrix": lambda torch: torch.matmul(t(torch, 2, 3, 4), t(torch, 4, 5)).sum().backward(),
    "broadcast batches": lambda torch: torch.matmul(t(torch, 6, 2, 3, 4), t(torch, 2, 4, 5)),
    "vectors": lambda torch: (torch.mv(t(torch, 3, 4), t(torch, 4)), torch.dot(t(torch, 4), t(torch, 4)), t(torch, 3, 4) @ t(torch, 4)),
    "linear": lambda torch: torch.nn.functional.linear(t(torch, 2, 3, 4), t(torch, 5, 4), t(torch, 5)).sum().backward(),
    "linear without a bias": lambda torch: torch.nn.functional.linear(t(torch, 3, 4), t(torch, 5, 4)),
    "addmm": lambda torch: torch.addmm(t(torch, 3, 5), t(torch, 3, 4), t(torch, 4, 5)).sum().backward(),
    "baddbmm": lambda torch: torch.baddbmm(t(torch, 2, 3, 5), t(torch, 2, 3, 4), t(torch, 2, 4, 5)),
    "network": lambda torch: network(torch)(torch.ones(2, 3, 8, 8)).sum().backward(),
    "groups": lambda torch: torch.nn.functional.conv2d(t(torch, 2, 4, 8, 8), t(torch, 6, 2, 3, 3), groups=2).sum().backward(),
    "one dimension": lambda torch: torch.nn.functional.conv1d(t(torch, 2, 3, 8), t(torch, 4, 3, 3)),
    "transposed": lambda torch: torch.conv_transpose2d(t(torch, 1, 2, 4, 4), t(torch, 2, 3, 3, 3)).sum().backward(),
    "no gradient": lambda torch: torch.ones(3, 4) @ torch.ones(4, 5),
    "nested modules": lambda torch: nested(torch)(t(torch, 3, 4).sin()).sum().backward(),
    "elements": lambda torch: t(torch, 3, 4).sin().sum().backward(),
}


def counts(library: Any, program: Callable[[Any], Any]) -> tuple[int, dict[str, dict[str, int]]]:
    module = importlib.import_module(f"{library.__name__}.utils.flop_counter")
    with module.FlopCounterMode(display=False) as counter:
        program(library)
    return counter.get_total_flops(), {
        name: {str(kernel): count for kernel, count in kernels.items()} for name, kernels in counter.get_flop_counts().items() if kernels
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_are_pytorchs(name: str, oracle: Any) -> None:
    assert counts(flambeau, PROGRAMS[name]) == counts(oracle, PROGRAMS[name])


def test_einsum_is_counted_whatever_it_is_made_of(oracle: Any) -> None:
    def program(library: Any) -> Any:
        return library.einsum("ij,kj->ik", t(library, 3, 4), t(library, 5, 4))

    assert counts(flambeau, program)[0] == counts(oracle, program)[0] == 120


def test_the_table_and_further_functions(capsys: pytest.CaptureFixture[str]) -> None:
    from flambeau.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(depth=1, custom_mapping={flambeau.ops.aten.sin: lambda shape, out_shape=None: shape[0] * shape[1]}) as counter:
        network(flambeau)(flambeau.ones(2, 3, 8, 8)).sin()
    said = capsys.readouterr().out
    assert "Sequential" in said and "Sequential.0" not in said and "8.192K" in said and "100.00%" in said
    assert counter.get_flop_counts()["Global"][flambeau.ops.aten.sin] == 10 and "Sequential.0" in counter.get_table(2)
    x = flambeau.ones(3, 4)
    before = counter.get_total_flops()
    x @ x.t()  # outside of the block nothing is counted
    assert counter.get_total_flops() == before


# -- selective checkpoints ------------------------------------------------------------------------------------------------
def run_counted(context_fn: Any, function: Any, x: Any) -> tuple[list[float], dict[str, int]]:
    """The gradient, and how often kernels ran backward."""
    from flambeau.core.state import observing

    ran: dict[str, int] = {}

    def count(op: Any, values: Any, run: Any) -> Any:
        ran[op.name] = ran.get(op.name, 0) + 1
        return run()

    x = x.clone().requires_grad_()
    with observing(count):
        loss = checkpoint(function, x, use_reentrant=False, context_fn=context_fn).sum()
        ran.clear()
        loss.backward()
    return x.grad.tolist(), ran


def function(x: Any) -> Any:
    return (flambeau.mm(x, x).sin() @ x).exp().sin()


def test_what_is_kept_is_not_computed_again() -> None:
    x = flambeau.linspace(0, 1, 9).reshape(3, 3)
    plain = x.clone().requires_grad_()
    function(plain).sum().backward()
    asked: list[bool] = []

    def policy(context: Any, op: Any, *args: Any) -> CheckpointPolicy:
        asked.append(context.is_recompute)
        return CheckpointPolicy.MUST_SAVE if op is flambeau.exp else CheckpointPolicy.PREFER_RECOMPUTE

    results = {}
    for name, kept in {"mm": [flambeau.mm, flambeau.matmul], "none": [], "policy": policy}.items():
        gradient, results[name] = run_counted(functools.partial(create_selective_checkpoint_contexts, kept), function, x)
        assert gradient == plain.grad.tolist(), name
    assert results["none"]["mm"] == results["mm"]["mm"] + 1 and results["none"]["matmul"] == results["mm"]["matmul"] + 1
    assert results["none"]["exp"] == 1 and "exp" not in results["policy"]
    assert True in asked and False in asked


def test_kept_results_are_safe_from_writes_in_place() -> None:
    def function(x: Any) -> Any:
        return flambeau.mm(x, x).mul_(2).sin().exp()

    x = flambeau.linspace(0, 1, 9).reshape(3, 3)
    plain = x.clone().requires_grad_()
    function(plain).sum().backward()
    gradient, _ = run_counted(functools.partial(create_selective_checkpoint_contexts, [flambeau.mm]), function, x)
    assert gradient == plain.grad.tolist()


def test_contexts_serve_one_backward_pass() -> None:
    x = flambeau.ones(2, 2, requires_grad=True)
    keep = functools.partial(create_selective_checkpoint_contexts, [flambeau.mm])
    loss = checkpoint(lambda x: flambeau.mm(x, x).sin().sum(), x, use_reentrant=False, context_fn=keep)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="not found in storage"):
        loss.backward()
    with pytest.raises(TypeError, match="policy_fn_or_list"):
        create_selective_checkpoint_contexts(3)


def test_nothing_is_counted_before_a_block():
    counter = flambeau.utils.flop_counter.FlopCounterMode(display=False)
    assert counter.get_total_flops() == 0
