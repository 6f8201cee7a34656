"""Scaling of losses against PyTorch's, step by step, and Apex's calls. Autocast has ``test_autocast``."""

from __future__ import annotations

import itertools
import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.apex import amp

nn = torch.nn
INFINITY = float("inf")


# -- GradScaler --------------------------------------------------------------------------------------------------------------------
def script(library: Any, seed: int) -> tuple[list[Any], list[Any]]:
    """A random program of a scaler and three optimizers, one with sparse gradients, in any order of calls: what each gave."""
    rng = random.Random(seed)
    parameters = [library.nn.Parameter(library.ones(*shape)) for shape in ((3,), (2,), (4, 2))]
    optimizers = [kind([p], lr=0.1) for kind, p in zip((library.optim.SGD, library.optim.Adam, library.optim.SGD), parameters, strict=True)]
    scaler = library.amp.GradScaler(
        "cpu",
        init_scale=rng.choice([3.0, 4.0, 1000.0, 3e38]),
        growth_factor=rng.choice([2.0, 1.5, 1e3]),
        backoff_factor=rng.choice([0.5, 0.3]),
        growth_interval=rng.choice([1, 2, 3]),
    )

    def scaled(which: int, factor: float) -> None:
        parameter = parameters[which]
        if which == 2:
            parameter = library.nn.functional.embedding(library.tensor([1, 1, 2]), parameter, sparse=True)
        scaler.scale((parameter * factor).sum()).backward()

    seen: list[Any] = []
    for _ in range(25):
        which = rng.randrange(3)
        optimizer, factor = optimizers[which], rng.choice([1.0, 2.0, 1.0, INFINITY, float("nan"), 1.0])
        new = rng.choice([8.0, library.tensor(5.0), library.ones(2), library.ones((), dtype=library.float64)])
        calls = {
            "loss": lambda which=which, factor=factor: scaled(which, factor),
            "unscale": lambda optimizer=optimizer: scaler.unscale_(optimizer),
            "step": lambda optimizer=optimizer: scaler.step(optimizer),
            "update": scaler.update,
            "zero": optimizer.zero_grad,
            "set": lambda new=new: scaler.update(new),
            "state": scaler.state_dict,
            "several": lambda: str([len(part) for part in scaler.scale([library.ones(1), (library.ones(2),)])]),
            "bad": lambda: scaler.scale(3),
        }
        name = rng.choice(["loss"] * 5 + ["unscale"] * 2 + ["step"] * 4 + ["update"] * 4 + ["zero", "set", "state", "several", "bad"])
        try:
            result = calls[name]()
        except Exception as error:
            result = type(error).__name__, str(error)
        seen.append((name, result if isinstance(result, (str, dict, tuple, type(None))) else "", scaler.get_scale()))
    return seen, [parameter.tolist() for parameter in parameters]


@pytest.mark.oracle
def test_a_scaler_does_as_pytorchs(oracle: ModuleType) -> None:
    skipped = 0
    for seed in range(15):
        (ours, values), (theirs, expected) = script(torch, seed), script(oracle, seed)
        assert ours == theirs, seed
        for got, want in zip(values, expected, strict=True):
            assert np.allclose(got, want, rtol=1e-5, equal_nan=True), seed
        skipped += sum(before[2] > after[2] and after[0] == "update" for before, after in itertools.pairwise(ours))
    assert skipped > 5


class Scaling(torch.optim.SGD):
    """An optimizer that unscales gradients itself."""

    _step_supports_amp_scaling = True

    def step(self, closure: Any = None) -> Any:
        self.seen = None if self.grad_scale is None else self.grad_scale.item(), self.found_inf.item()
        return super().step()


@pytest.mark.parametrize(("factor", "unscales"), [(1.0, False), (INFINITY, False), (1.0, True)])
def test_an_optimizer_may_unscale_by_itself(factor: float, unscales: bool) -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer, scaler = Scaling([parameter], lr=1.0), torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((parameter * factor).sum()).backward()
    if unscales:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    assert optimizer.seen == (None if unscales else 4.0, float(factor == INFINITY)) and not hasattr(optimizer, "grad_scale")
    scaler.update()
    assert scaler.get_scale() == (2.0 if factor == INFINITY else 4.0)
    assert parameter.tolist() == [{(1.0, False): -3.0, (INFINITY, False): -INFINITY, (1.0, True): 0.0}[factor, unscales]] * 2


# -- Apex --------------------------------------------------------------------------------------------------------------------------
def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))


def trained(level: str | None, steps: int = 12, **options: Any) -> tuple[float, Any, Any]:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net, optimizer = amp.initialize(net, optimizer, enabled=level is not None, opt_level=level or "O1", **options)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 6, 0.5)
    x = torch.randn(32, 1, 8)
    y = (x.sum((1, 2)) > 0).long()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        nn.utils.clip_grad_norm_(amp.master_params(optimizer), 5.0)
        optimizer.step()
        schedule.step()
    return loss.item(), net, optimizer


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_every_level_trains_alike(level: str) -> None:
    expected, _, _ = trained(None)
    loss, net, optimizer = trained(level)
    assert loss == pytest.approx(expected, rel=0.02) and loss < 0.5
    narrow = torch.float16 if level in ("O2", "O3") else torch.float32
    assert net[4].weight.dtype is narrow and net[1].weight.dtype is (torch.float16 if level == "O3" else torch.float32)
    assert {p.dtype for p in amp.master_params(optimizer)} == {torch.float16 if level == "O3" else torch.float32}
    assert net(torch.ones(2, 1, 8)).dtype is torch.float32
    assert net.state_dict()["4.weight"].dtype is (torch.float16 if level == "O3" else torch.float32)
    state = amp.state_dict()
    assert state == {
        "loss_scaler0": {"loss_scale": 65536.0 if level in ("O1", "O2") else 1.0, "unskipped": 12 if level in ("O1", "O2") else 0}
    }


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_an_overflow_skips_one_step_and_halves_the_scale(level: str, capsys: pytest.CaptureFixture[str]) -> None:
    net = nn.Linear(2, 1)
    net, optimizer = amp.initialize(net, torch.optim.SGD(net.parameters(), lr=1.0), opt_level=level, num_losses=2, min_loss_scale=2.0**15)
    before = net.weight.detach().clone()
    for factor, changes in ((INFINITY, False), (1.0, True), (INFINITY, False)):
        optimizer.zero_grad()
        with amp.scale_loss(net(torch.ones(1, 2)).sum() * factor, optimizer, loss_id=1) as scaled:
            scaled.backward()
        optimizer.step()
        assert torch.equal(net.weight, before) != changes
        before = net.weight.detach().clone()
    assert amp.state_dict() == {
        "loss_scaler0": {"loss_scale": 2.0**16, "unskipped": 0},
        "loss_scaler1": {"loss_scale": 2.0**15, "unskipped": 0},
    }
    assert capsys.readouterr().out.count("Gradient overflow.  Skipping step, loss scaler 1 reducing loss scale to 32768.0") == 2
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 8.0, "unskipped": 3}, "loss_scaler1": {"loss_scale": 4.0, "unskipped": 5}})
    assert amp.state_dict()["loss_scaler1"] == {"loss_scale": 4.0, "unskipped": 5}


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("delays", [False, True])
def test_gradients_of_several_losses_are_added(level: str, delays: bool) -> None:
    nets = [nn.Linear(2, 1), nn.Linear(2, 1)]
    optimizers = [torch.optim.SGD(net.parameters(), lr=1.0) for net in nets]
    nets, optimizers = amp.initialize(nets, optimizers, opt_level=level, verbosity=0)
    x = torch.ones(1, 2)
    for last in (False, True):
        with amp.scale_loss(sum(net(x).sum() / 4 for net in nets), optimizers, delay_unscale=delays and not last) as scaled:
            scaled.backward()
    for optimizer in optimizers:
        assert [p.grad.tolist() for p in amp.master_params(optimizer)] == [[[0.5, 0.5]], [0.5]]


def test_what_apex_refuses() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    with pytest.raises(RuntimeError, match="the letter O"):
        amp.initialize(net, optimizer, opt_level="01")
    with pytest.raises(RuntimeError, match="should be None"):
        amp.initialize(net, optimizer, opt_level="O1", keep_batchnorm_fp32="True")
    amp.initialize(net, opt_level="O0")
    with pytest.raises(RuntimeError, match="not passed through"), amp.scale_loss(net(torch.ones(1, 2)).sum(), optimizer):
        pass
    amp.initialize(net, optimizer, opt_level="O0")
    with pytest.raises(RuntimeError, match="only be passed"):
        amp.initialize(net, optimizer)
    with pytest.raises(NotImplementedError, match="delay_overflow_check"), amp.scale_loss(None, optimizer, delay_overflow_check=True):
        pass
