"""Programs that change something between calls, as ordinary ones do: compiled they give what they give as they are written.

A program is a function of ``compiled`` (``torch.compile``, or nothing) that returns tensors.
"""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.helpers.threads import in_threads

Compile = Callable[[Any], Any]
PROGRAMS: list[Callable[[Compile], Any]] = []


def program(function: Callable[[Compile], Any]) -> Callable[[Compile], Any]:
    PROGRAMS.append(function)
    return function


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_compiled_as_written(function: Callable[[Compile], Any]) -> None:
    results = []
    for compiled in (lambda each: each, torch.compile):
        torch.manual_seed(0)
        results.append([each.detach() if isinstance(each, torch.Tensor) else each for each in function(compiled)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)  # Adam divides roundings by gradients near 0
    assert sys.getprofile() is None


def small_model() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.BatchNorm1d(16), nn.Linear(16, 4))


def state(model: Any) -> list[Any]:
    return [value.float() for value in model.state_dict().values()]


def training_step(compiled: Compile, model: Any, optimizer: Any, loss_of: Callable[..., Any]) -> Any:
    """A compiled function that does one step, for a loss of the model's result and what else it gets; it returns the loss."""

    @compiled
    def step(x: Any, *others: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(x), *others)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def mean_square(x: Any) -> Any:
    return x.pow(2).mean()


# ---- training ----------------------------------------------------------------------------------------------------------------------
@program
def a_schedule_and_clipped_gradients(compiled: Compile) -> Any:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)

    @compiled
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    losses = []
    for _ in range(12):
        losses.append(step(torch.randn(16, 8), torch.randint(0, 4, (16,))))
        schedule.step()
    return losses


@program
def training_and_evaluation_in_turns(compiled: Compile) -> Any:
    model = small_model()
    called = compiled(model)
    results = []
    for i in range(9):
        model.train(i % 3 != 0)
        results.append(called(torch.randn(6, 8)))
    return results + state(model)


@program
def layers_frozen_and_options_changed(compiled: Compile) -> Any:
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)

    step = training_step(compiled, model, optimizer, mean_square)
    losses = []
    for i in range(10):
        if i == 4:
            model[0].requires_grad_(False)
        if i == 7:
            model[2].p, model[3].momentum, model[3].eps = 0.6, 0.3, 0.1
        losses.append(step(torch.randn(4, 8)))
    return losses + state(model)


@program
def a_group_of_parameters_is_added(compiled: Compile) -> Any:
    first, second = nn.Linear(5, 5), nn.Linear(5, 1)
    optimizer = torch.optim.SGD(first.parameters(), 0.1, momentum=0.5)

    step = training_step(compiled, nn.Sequential(first, second), optimizer, mean_square)
    losses = []
    for i in range(10):
        if i == 4:
            optimizer.add_param_group({"params": second.parameters(), "lr": 0.05})
        if i == 7:
            optimizer.param_groups[0]["weight_decay"] = 0.1
            optimizer.state.clear()
        losses.append(step(torch.randn(4, 5)))
    return losses


@program
def gradients_accumulate(compiled: Compile) -> Any:
    model = small_model().eval()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    loss_of = compiled(lambda x: model(x).pow(2).mean())
    losses = []
    for i in range(12):
        loss = loss_of(torch.randn(4, 8))
        (loss / 4).backward()
        losses.append(loss)
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad(set_to_none=i % 8 == 3)
    return losses


@program
def a_moving_average_of_the_weights(compiled: Compile) -> Any:
    model = small_model()
    average = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    @compiled
    def step(x: Any) -> float:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for mean, param in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(param, 0.1)
        return float(loss.item())

    return [torch.tensor([step(torch.randn(4, 8)) for _ in range(8)]), *state(average)]


@program
def two_networks_and_a_penalty_on_a_gradient(compiled: Compile) -> Any:
    generator, critic = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    optimizers = [torch.optim.Adam(net.parameters(), 1e-2) for net in (generator, critic)]

    @compiled
    def step(real: Any) -> Any:
        optimizers[1].zero_grad()
        fake = generator(torch.randn(6, 4))
        loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        (slope,) = torch.autograd.grad(critic(real.requires_grad_()).sum(), real, create_graph=True)
        (loss + slope.pow(2).sum()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        fooled = F.softplus(-critic(fake)).mean()
        fooled.backward()
        optimizers[0].step()
        return torch.stack([loss.detach(), fooled.detach()])

    return [step(torch.randn(6, 8)) for _ in range(8)]


@program
def the_last_batch_is_shorter(compiled: Compile) -> Any:
    data = torch.utils.data.TensorDataset(torch.randn(50, 8), torch.randint(0, 4, (50,)))
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)

    step = training_step(compiled, model, optimizer, F.cross_entropy)
    return [step(x, y) for _ in range(3) for x, y in torch.utils.data.DataLoader(data, 16, shuffle=True)]


# ---- state of modules --------------------------------------------------------------------------------------------------------------
class Cached(nn.Module):
    """Writes into a buffer, and counts in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(10, 4))
        self.count, self.linear = 0, nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        self.rows[self.count] = self.linear(x)[0]
        self.count += 1
        return self.rows[: self.count].sum(0)


@program
def a_cache_that_grows(compiled: Compile) -> Any:
    model = Cached()
    called = compiled(model)
    with torch.no_grad():
        results = [called(torch.randn(1, 4)) for _ in range(6)]
    assert model.count == 6
    return [*results, model.rows]


@program
def parameters_are_replaced(compiled: Compile) -> Any:
    model, x = nn.Linear(3, 3), torch.randn(2, 3)
    called = compiled(model)
    results = []
    for _ in range(4):
        model.weight.data = torch.randn(3, 3)
        results.append(called(x))
    model.weight, model.bias = nn.Parameter(torch.randn(5, 3)), None
    results.append(called(x))
    model.bias = nn.Parameter(torch.ones(5))
    results.append(called(x))
    model.load_state_dict({name: torch.ones_like(value) for name, value in model.state_dict().items()}, assign=True)
    return [*results, called(x)]


@program
def hooks_come_and_go(compiled: Compile) -> Any:
    model = small_model().eval()
    calls: list[int] = []
    loss_of = compiled(lambda x: model(x).sum())
    gradients = []
    for i in range(8):
        if i == 2:
            doubling = model[0].register_forward_hook(lambda _module, _inputs, output: output * 2)
        if i == 4:
            doubling.remove()
            handle = model[4].register_full_backward_hook(lambda _module, given, _of_output: calls.append(1) or (given[0] * 2,))
        if i == 6:
            handle.remove()
            model[0].weight.register_hook(lambda grad: grad * 3)
        model.zero_grad()
        loss_of(torch.randn(5, 8)).backward()
        gradients.append(model[0].weight.grad.clone())
    assert len(calls) == 2
    return gradients


@program
def which_tensors_require_grad_changes(compiled: Compile) -> Any:
    model = small_model().eval()
    called = compiled(model)
    gradients = []
    for i in range(6):
        model[0].weight.requires_grad_(i % 2 == 0)
        model.zero_grad()
        called(torch.randn(5, 8)).pow(2).sum().backward()
        gradients += [model[0].bias.grad.clone(), torch.tensor(model[0].weight.grad is None)]
    return gradients


# ---- arguments and results ---------------------------------------------------------------------------------------------------------
Pair = namedtuple("Pair", "first second")


@dataclass
class Batch:
    x: Any
    others: dict[str, Any]


@program
def structures_in_and_out(compiled: Compile) -> Any:
    @compiled
    def function(batch: Batch, pair: Any, *, scale: float = 1.0, **options: Any) -> Any:
        return {"sum": batch.x * pair.first + sum(batch.others.values()) * scale, "pair": Pair(pair.second, None), "z": options.get("z")}

    results = []
    for i in range(6):
        x = torch.randn(3)
        made = function(Batch(x, {"a": x + 1, "b": x * 2}), Pair(x, x - 1), scale=float(i % 2), z=x if i % 3 else None)
        assert type(made["pair"]) is Pair and (made["z"] is None) is (i % 3 == 0)
        results += [made["sum"], made["pair"].first]
    return results


@program
def the_same_tensor_twice_and_views_of_one(compiled: Compile) -> Any:
    @compiled
    def function(a: Any, b: Any) -> Any:
        a.add_(1)
        return a * b

    x, base = torch.ones(4), torch.arange(8.0)
    results = [function(x, x) for _ in range(3)]
    results += [function(base[:4], base[2:6]) for _ in range(3)]
    results += [function(torch.ones(4), torch.full((4,), 2.0)) for _ in range(3)]
    return [*results, x, base]


@program
def views_of_arguments_are_returned(compiled: Compile) -> Any:
    @compiled
    def function(x: Any) -> Any:
        return x[1:], x.t(), x

    x = torch.randn(4, 4)
    for _ in range(4):
        rows, _, same = function(x)
        assert same is x
        rows.mul_(2)
    return [x]


@program
def dtypes_layouts_and_empty_tensors(compiled: Compile) -> Any:
    function = compiled(lambda x: (x * 2 + 1).sum(-1))
    results = []
    for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool, torch.complex64):
        x = torch.ones(3, 8).to(dtype)
        results += [function(each) for each in (x, x.t(), x[:, ::2], x[:0], x[0, 0])]
    return results


@program
def values_of_python_decide(compiled: Compile) -> Any:
    @compiled
    def function(x: Any, how: str, by: Any, where: slice) -> Any:
        return getattr(x, how)(1)[where] * by

    cases = [
        ("sum", 1, slice(0, 2)),
        ("mean", 1.0, slice(1, 3)),
        ("sum", True, slice(None)),
        ("sum", 2, slice(0, 2)),
        ("mean", -1.5, slice(2)),
    ]
    return [function(torch.randn(4, 4), *case) for case in cases * 2]


@program
def loops_end_where_values_say(compiled: Compile) -> Any:
    @compiled
    def function(x: Any) -> Any:
        steps = 0
        while x.sum() < 100:
            x, steps = x * 2, steps + 1
        return x, steps

    results: list[Any] = []
    for start in (1.0, 3.0, 1.0, 50.0, 0.1, 200.0, 1.0):
        results += function(torch.full((3,), start))
    return results


@program
def sizes_come_in_all_kinds(compiled: Compile) -> Any:
    @compiled
    def function(x: Any) -> Any:
        rows, half = x.shape[0], x.shape[0] // 2
        return x[:half].sum() + x[half:].prod() + rows + x.reshape(rows, -1).mean() + torch.arange(rows).sum()

    return [function(torch.rand(size, 2)) for size in (4, 5, 6, 7, 8, 9, 12, 3, 2, 1)]


@program
def modes_around_the_call_change(compiled: Compile) -> Any:
    model = small_model().eval()
    called = compiled(model)
    results = []
    for i in range(9):
        x = torch.randn(4, 8)
        with torch.autocast("cpu", enabled=i % 3 == 1), torch.set_grad_enabled(i % 2 == 0):
            made = called(x)
        assert made.requires_grad is (i % 2 == 0) and (made.dtype is torch.bfloat16) is (i % 3 == 1)
        if i % 3 != 1:
            results.append(made)
    return results


@program
def an_exception_in_the_middle(compiled: Compile) -> Any:
    @compiled
    def function(x: Any, fails: bool) -> Any:
        x.add_(1)
        if fails:
            raise KeyError("in the middle")
        return x * 2

    x = torch.zeros(3)
    for i in range(6):
        try:
            function(x, i % 3 == 2)
        except KeyError:
            pass
    return [x]


# ---- around it ---------------------------------------------------------------------------------------------------------------------
def test_what_is_computed_anew_stays_so() -> None:
    function = torch.compile(lambda x: torch.relu(x) + torch.arange(3))
    first, second, *_ = results = [function(torch.ones(3)) for _ in range(5)]
    first.zero_()
    assert second.sum() == 6 and len({each.data_ptr() for each in results}) == 5


def test_nothing_is_kept() -> None:
    model = small_model().eval()
    called = torch.compile(model)
    for _ in range(4):
        called(torch.randn(2, 8)).sum().backward()
    gone = weakref.ref(model)
    del model, called
    gc.collect()
    assert gone() is None


def test_threads_share_a_function() -> None:
    weight, wrong = torch.randn(8, 8), []

    def function(x: Any) -> Any:
        return torch.tanh(x @ weight).sum(1)

    called = torch.compile(function)

    def run(offset: int) -> None:
        for i in range(30):
            x = torch.randn(3 + (i + offset) % 4, 8)
            if not torch.allclose(called(x), function(x), 1e-5, 1e-5):
                wrong.append(x)

    in_threads(4, run)
    assert not wrong
