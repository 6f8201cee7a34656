"""Steps in one call of machine code: the same bits, counters and versions as in Python, whatever happens between two of them."""

from __future__ import annotations

import copy
import random
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from machine_code import load_machine_code
from object_counts import assert_counted, collecting
from optimizer_cases import CASES, IDS

import flambeau as torch
from flambeau.optim import _arrays, _machine

SHAPES = [(), (7,), (3, 5), (1, 4), (5, 1), (37, 29)]


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(_machine.found)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays.update.part.budget, "is_spent", True)


def plain(optimizer: Any) -> Any:
    """The optimizer, which steps in Python."""
    optimizer._plans.waited, optimizer._plans.wait = 0, 1 << 60
    return optimizer


def params_of(optimizer: Any) -> list[Any]:
    return [param for group in optimizer.param_groups for param in group["params"]]


def made(name: str, options: dict[str, Any], dtype: Any = torch.float32, groups: int = 1) -> Any:
    rng = np.random.default_rng(0)
    params = [torch.nn.Parameter(torch.tensor(rng.standard_normal(shape), dtype=dtype)) for shape in SHAPES]
    parts = [params[k::groups] for k in range(groups)]
    return getattr(torch.optim, name)([{"params": part} for part in parts], **options)


def give_gradients(rng: Any, optimizers: Any, absent: float = 0.0, turned: float = 0.0) -> None:
    for own in zip(*map(params_of, optimizers), strict=True):
        value, is_absent, is_turned = rng.standard_normal(tuple(own[0].shape)), rng.random() < absent, rng.random() < turned
        for param in own:
            grad = torch.tensor(value, dtype=param.dtype)
            if is_turned and grad.dim() == 2:
                grad = grad.t().contiguous().t()
            param.grad = None if is_absent else grad


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(params_of(one), params_of(other), strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
        assert a._version == b._version
        assert one.state.get(a, {}).keys() == other.state.get(b, {}).keys()
        for name, value in one.state.get(a, {}).items():
            entry = other.state[b][name]
            assert value.numpy().tobytes() == entry.numpy().tobytes() and value.dtype is entry.dtype, name
            assert value._version == entry._version, name


def launched(optimizer: Any) -> int:
    return optimizer._plans.launch.taken if optimizer._plans.launch is not None else 0


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_steps_have_the_bits_of_those_in_python(name: str, options: dict[str, Any], dtype: Any) -> None:
    pair = made(name, options, dtype), plain(made(name, options, dtype))
    rng = np.random.default_rng(1)
    for _ in range(6):
        give_gradients(rng, pair, 0.0, 0.05)
        for optimizer in pair:
            optimizer.step()
        assert_same(*pair)
    assert not launched(pair[1])


def test_usual_optimizers_are_launched() -> None:
    usual = {
        "SGD": {"momentum": 0.9, "nesterov": True}, "Adam": {}, "AdamW": {"amsgrad": True}, "RMSprop": {"centered": True}, "Adagrad": {},
        "Adadelta": {}, "Adamax": {}, "Rprop": {},
    }  # fmt: skip
    for name, options in usual.items():
        for groups in (1, 2):
            optimizer = made(name, {"lr": 0.01, **options}, groups=groups)
            rng = np.random.default_rng(2)
            for _ in range(6):
                give_gradients(rng, [optimizer])
                optimizer.step()
            assert launched(optimizer) >= 3, name


def add_group(pair: Any, rng: random.Random) -> None:
    value = rng.random()
    for optimizer in pair:
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.full((3,), value))], "lr": 0.02})


def load(pair: Any, rng: random.Random) -> None:
    for optimizer in pair:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def set_option(pair: Any, rng: random.Random) -> None:
    name, value = rng.choice(
        [("lr", rng.random()), ("lr", rng.choice([1, 0.5, 0.1])), ("weight_decay", rng.choice([0, 0.1])), ("maximize", rng.random() < 0.5)]
    )
    place = rng.randrange(len(pair[0].param_groups))
    for optimizer in pair:
        optimizer.param_groups[place][name] = value


def close(pair: Any, rng: random.Random) -> None:
    for optimizer in pair:
        optimizer.step(lambda optimizer=optimizer: sum((param * param).sum() for param in params_of(optimizer)))


def forget_state(pair: Any, rng: random.Random) -> None:
    place = rng.randrange(len(params_of(pair[0])))
    for optimizer in pair:
        optimizer.state.pop(params_of(optimizer)[place], None)


def exchange_data(pair: Any, rng: random.Random) -> None:
    place, value = rng.randrange(len(params_of(pair[0]))), rng.random()
    for optimizer in pair:
        param = params_of(optimizer)[place]
        param.data = torch.full_like(param, value)


def change_state(pair: Any, rng: random.Random) -> None:
    place, factor = rng.randrange(len(params_of(pair[0]))), rng.random()
    for optimizer in pair:
        for entry in optimizer.state.get(params_of(optimizer)[place], {}).values():
            if entry.dim():
                entry.mul_(factor)
            elif rng.random() < 0.5:
                entry.add_(0)


def count_on(pair: Any, rng: random.Random) -> None:
    for optimizer in pair:
        for entries in list(optimizer.state.values())[:1]:
            if "step" in entries:
                entries["step"] += 1


def hook(pair: Any, rng: random.Random) -> None:
    for optimizer in pair:
        handle = optimizer.register_step_pre_hook(lambda own, args, kwargs: params_of(own)[0].grad.mul_(2) and None)
        if params_of(optimizer)[0].grad is not None:
            optimizer.step()
        handle.remove()


def in_modes(pair: Any, rng: random.Random) -> None:
    context = rng.choice([torch.no_grad, torch.enable_grad, lambda: torch.device("cpu")])
    for optimizer in pair:
        with context():
            optimizer.step()


def clear(pair: Any, rng: random.Random) -> None:
    to_none = rng.random() < 0.5
    for optimizer in pair:
        optimizer.zero_grad(set_to_none=to_none)
        optimizer.step()


def schedule(pair: Any, rng: random.Random) -> None:
    for optimizer in pair:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        for _ in range(3):
            optimizer.step()
            scheduler.step()
        del optimizer.step  # the scheduler's


def other_gradients(pair: Any, rng: random.Random) -> None:
    kind = rng.choice(["float64", "view", "own", "expanded"])
    for optimizer in pair:
        param = params_of(optimizer)[-1]
        if kind == "view":
            param.grad = torch.ones(2, *param.shape)[1]
        elif kind == "own":
            param.grad = param.detach()
        elif kind == "expanded":
            param.grad = torch.ones(()).expand(param.shape)
        optimizer.step()


EVENTS = [
    add_group,
    load,
    set_option,
    set_option,
    close,
    forget_state,
    exchange_data,
    change_state,
    count_on,
    hook,
    in_modes,
    clear,
    schedule,
]
EVENTS += [other_gradients]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "NAdam"])
def test_whatever_happens_between_steps(name: str) -> None:
    options: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1} | ({"momentum": 0.9} if name in ("SGD", "RMSprop") else {})
    rng, numbers, steps = random.Random(name), np.random.default_rng(3), 0
    for _ in range(12):
        one = made(name, options, groups=rng.choice([1, 2]))
        pair = one, plain(copy.deepcopy(one))
        for _ in range(30):
            if rng.random() < 0.3:
                event, seed = rng.choice(EVENTS), rng.random()
                for optimizer in pair:  # each with the same numbers
                    event([optimizer], random.Random(seed))
            give_gradients(numbers, pair, rng.choice([0, 0, 0.2]), rng.choice([0, 0, 0.1]))
            for _ in range(rng.choice([1, 2, 6])):
                before = launched(pair[0])
                for optimizer in pair:
                    optimizer.step()
                steps += launched(pair[0]) > before
            pair[1]._plans.launch = None
            assert_same(*pair)
    assert steps > 40 or name == "NAdam", steps


def test_objects_are_counted() -> None:
    optimizer = made("Adam", {"lr": 0.01})
    give_gradients(np.random.default_rng(4), [optimizer])
    for _ in range(300):
        optimizer.step()
    storage = params_of(optimizer)[0]._storage
    things: list[Any] = [None, True, 0.01, *params_of(optimizer), *[param.grad for param in params_of(optimizer)], np.ndarray]
    things += [entry for entries in optimizer.state.values() for entry in entries.values()]
    assert_counted(optimizer.step, things, 50)
    assert storage.version > 2000 and sys.getrefcount(storage.changed) < 100


def test_gradients_are_forgotten() -> None:
    optimizer = made("SGD", {"lr": 0.1}, groups=2)
    for _ in range(3):
        for param in params_of(optimizer):
            param.grad = torch.ones_like(param)
        left = [weakref.ref(param.grad) for param in params_of(optimizer)]
        for _ in range(2):
            optimizer.zero_grad()
        assert all(param.grad is None for param in params_of(optimizer)) and not any(ref() for ref in left)
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)])
    params_of(other)[0].grad = params_of(other)[1].grad = torch.ones(2)
    other.zero_grad()
    assert all(param.grad is None for param in params_of(other))
    params_of(other)[0].grad = torch.ones(2)
    other.zero_grad(set_to_none=False)
    assert params_of(other)[0].grad.tolist() == [0, 0]


def test_lists_that_change_while_gradients_are_forgotten() -> None:
    optimizer = made("SGD", {"lr": 0.1}, groups=2)

    class Ending:
        def __del__(self) -> None:
            optimizer.param_groups.clear()

    for param in params_of(optimizer):
        param.grad = torch.ones_like(param)
    params_of(optimizer)[0].grad.end = Ending()
    optimizer.zero_grad()
    assert not optimizer.param_groups


def test_a_collection_at_every_allocation() -> None:
    optimizer = made("Adam", {"lr": 0.01})
    give_gradients(np.random.default_rng(5), [optimizer])
    with collecting():
        for _ in range(50):
            optimizer.step()
    assert launched(optimizer) > 40
