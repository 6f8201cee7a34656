"""Memory of a plan's values: results over dying operands, values computed again, products that wait; and the same results as without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from capture.test_lowering import arrays_of, needs_kernels, poison, recorded, same

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.capture import planning, recomputation
from flambeau.capture.fusion import fused
from flambeau.capture.interpret import run_of
from flambeau.capture.lifetimes import delayed, most_bytes
from flambeau.capture.lowering import lower
from flambeau.capture.planning import Memory, place, rounded, write_over
from flambeau.kernels.families.tile_registers import instructions

WIDE = 1 << 18  # float32 of 1 MB


def block(first: int, last: int, size: int = 64) -> Memory:
    made = Memory("arena", size)
    made.first, made.last = first, last
    return made


def most(graph: Any) -> int:
    """Bytes that a graph's values need at a time."""
    return most_bytes(graph, lambda node: 0)


def labels(graph: Any) -> list[str]:
    return [node.label for node in graph.nodes if node.kind != "view"]


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Switches the search for values to compute again off."""
    return lambda: monkeypatch.setattr(recomputation, "SHARE", 0.0)


# -- results over operands ----------------------------------------------------------------------------------------------------------------
def test_a_chain_of_results_is_one_block() -> None:
    blocks = [block(i, i + 1) for i in range(4)]
    write_over([(blocks[i + 1], blocks[i]) for i in range(3)])
    assert place(blocks) == rounded(64) and {each.offset for each in blocks} == {0}


@pytest.mark.parametrize(
    "operand",
    [block(0, 3), block(0, 1), block(0, 2, 256), block(2, 2), Memory("held")],
    ids=["needed", "gone", "other size", "own", "held"],
)
def test_other_operands_stay(operand: Memory) -> None:
    result = block(2, 4)
    write_over([(result, operand)])
    assert result.over is None


def test_two_results_do_not_share_an_operand() -> None:
    operand, first, second = block(0, 2), block(2, 4), block(2, 5)
    write_over([(first, operand), (second, operand)])
    assert first.over is operand and second.over is None
    assert place([operand, first, second]) == 2 * rounded(64) and first.offset != second.offset


def ran(function: Any, *inputs: Any, parameters: Any = ()) -> Any:
    """The lowered function, whose results from poisoned arenas are bit for bit those of its first call, in which arrays lie apart."""
    graph = recorded(function, inputs, parameters)
    run, arrays = lower(graph), arrays_of(*inputs)
    wanted = run(arrays)
    if run.plan is None:  # that call showed how much memory kernels need
        wanted = run(arrays)
    for a, b in zip(wanted, run_of(graph)(arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(b).max()))
    for _ in range(3):
        poison(run)
        same(run(arrays), wanted, exact=True)
    return run


@needs_kernels
def test_kernels_write_over_what_nobody_needs() -> None:
    x, w = torch.randn(96, 96), torch.randn(96, 96)
    size = rounded(4 * 96 * 96)
    run = ran(lambda x, w: torch.relu(torch.softmax(torch.tanh(x @ w), 1) @ w) @ w, x, w)
    assert run.plan.arena_bytes == 2 * size
    run = ran(lambda x, w: (lambda y: torch.relu(y) @ y)(x @ w), x, w)
    assert run.plan.arena_bytes == 2 * size, "the product is needed twice"


@needs_kernels
@pytest.mark.parametrize(
    "function", [lambda y: (y + y.T) @ y.T, lambda y: (y * y[:, :1] + y) @ y, lambda y: torch.exp(y)[:, ::2] + y[:, 1::2]]
)
def test_operands_that_are_read_elsewhere_are_not_written_over(function: Any) -> None:
    ran(lambda x: function(x @ x), torch.randn(48, 48))


@needs_kernels
@pytest.mark.parametrize("side", [7, 8, 16])
def test_rows_of_any_length_are_written_over_rightly(side: int) -> None:
    norm, convolution = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1, bias=False)
    parameters = [*norm.parameters(), *convolution.parameters()]
    ran(lambda x: torch.relu(norm(convolution(norm(convolution(x))))), torch.randn(3, 4, side, side), parameters=parameters)


@needs_kernels
@pytest.mark.parametrize("classes", [5, 64, 100])
def test_gradients_of_losses_are_written_over_the_scores(classes: int) -> None:
    w, target = torch.randn(classes, 24, requires_grad=True), torch.randint(classes, (40,))
    run = ran(lambda x: F.cross_entropy(x @ w.T, target), torch.randn(40, 24), parameters=[w])
    assert run.plan.arena_bytes < 1.5 * 4 * 40 * classes + 4096


@needs_kernels
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_of_recurrent_layers_are_written_over_what_was_kept(kind: str) -> None:
    layer = getattr(nn, kind)(24, 40)
    run = ran(lambda x: layer(x)[0], torch.randn(20, 9, 24), parameters=list(layer.parameters()))
    kept = 20 * 9 * 40 * 4 * {"LSTM": 5, "GRU": 4, "RNN": 0}[kind]
    assert run.plan.arena_bytes < 1.8 * kept or kind == "RNN"


@needs_kernels
@pytest.mark.parametrize(("rows", "width", "takes_much"), [(100, 256, False), (128, 640, True)])
def test_kernels_that_need_much_memory_are_taken_for_large_products_alone(rows: int, width: int, takes_much: bool) -> None:
    """From ``rules.PACKED`` multiply-adds on they are so much quicker that a compiled step without them is slower than an eager one."""
    weights = [torch.randn(width, width, requires_grad=True) for _ in range(2)]

    def function(x: Any) -> Any:
        return torch.relu(F.linear(torch.relu(F.linear(x, weights[0])), weights[1])).sum()

    needed = ran(function, torch.randn(rows, width), parameters=weights).plan.arena_bytes / (4 * rows * width)
    assert needed > 4 if takes_much and instructions() == "tiles" else needed < 3.5


# -- an order in which less is needed -----------------------------------------------------------------------------------------------------
def test_products_wait_until_somebody_needs_them() -> None:
    x, w, v = torch.randn(64, 64), torch.randn(64, 64), torch.randn(64, 64)

    def function(x: Any) -> Any:
        late = x @ w
        early = torch.exp(x @ v).sum()
        return late.sum(0) * early

    graph = recorded(function, [x])
    made = delayed(graph)
    assert labels(graph)[0] == labels(made)[-3] == "matmul" and most(made) < most(graph)
    same(run_of(made)(arrays_of(x)), run_of(graph)(arrays_of(x)), exact=True)


def test_what_reads_memory_that_is_written_to_does_not_wait() -> None:
    x, held = torch.randn(64, 64), torch.randn(64, 64)

    def function(x: Any) -> Any:
        late = x @ held
        held.mul_(2.0)
        return torch.exp(x + held).sum() * late.cumsum(0)

    graph = recorded(function, [x], before=False)
    made = labels(delayed(graph))
    assert made.index("matmul") < made.index("write")


# -- values computed again ----------------------------------------------------------------------------------------------------------------
def layers(count: int, width: int = 64, rows: int = 256) -> tuple[Any, Any, list[Any]]:
    """Residual layers with norms and wide parts, a batch, and the parameters."""
    torch.manual_seed(0)
    norms = [nn.LayerNorm(width) for _ in range(count)]
    wide, narrow = ([nn.Linear(*sizes) for _ in range(count)] for sizes in ((width, 8 * width), (8 * width, width)))

    def function(x: Any) -> Any:
        for norm, first, second in zip(norms, wide, narrow, strict=True):
            x = x + second(F.gelu(first(norm(x))))
        return x

    return function, torch.randn(rows, width), [p for module in (*norms, *wide, *narrow) for p in module.parameters()]


def test_layers_need_less_and_give_the_same_bits() -> None:
    function, x, parameters = layers(4)
    graph = fused(recorded(function, [x], parameters))
    made = recomputation.recomputed(graph)
    assert most(made) < 0.65 * most(graph)
    counts = [sum(node.label == "gelu" for node in each.nodes) for each in (graph, made)]
    assert counts[0] == 4 < counts[1] <= 8
    added = sum(map(recomputation.work_of, made.nodes)) / sum(map(recomputation.work_of, graph.nodes)) - 1
    assert 0 < added <= recomputation.SHARE + 1e-6
    same(run_of(made)(arrays_of(x)), run_of(graph)(arrays_of(x)), exact=True)


@needs_kernels
def test_plans_with_values_computed_again_give_the_same_bits(never: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "GROWTH", 100.0)  # the same kernels in both
    function, x, parameters = layers(3)
    graph = recorded(function, [x], parameters)
    run = lower(graph)
    got = [run(arrays_of(x)) for _ in range(3)]
    poison(run)
    got.append(run(arrays_of(x)))
    never()
    plain = lower(graph)
    wanted = plain(arrays_of(x))
    for made in got:
        same(made, wanted, exact=True)
    assert run.plan.arena_bytes < 0.75 * plain.plan.arena_bytes


def test_small_programs_and_those_that_keep_little_stay_as_they_are() -> None:
    function, x, parameters = layers(4, 16, 16)
    for graph in (recorded(function, [x], parameters), recorded(layers(8)[0], [layers(8)[1]])):
        graph = fused(graph)
        assert labels(recomputation.recomputed(graph)) == labels(graph)


def test_what_reads_memory_that_is_written_to_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "SHARE", 1.0)
    x, held = torch.randn(WIDE), torch.randn(WIDE)

    def function(x: Any, writes: bool) -> Any:
        kept = torch.exp(x * held)
        small = kept.sum()
        if writes:
            held.mul_(0.5)
        for _ in range(3):
            small = small + torch.cumsum(torch.cumsum(x * small, 0), 0).sum()
        return kept * small

    for writes in (False, True):
        graph = recorded(lambda x, writes=writes: function(x, writes), [x], before=False)
        made = recomputation.recomputed(graph)
        assert sum(node.label == "exp" for node in made.nodes) == 2 - writes


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(256, 256) for _ in range(4)])

    def forward(self, x: Any) -> Any:
        for part in self.parts:
            x = x + F.dropout(F.gelu(part(x)), 0.3)
        return x


def test_random_numbers_are_drawn_once() -> None:
    def losses(compiles: bool) -> tuple[list[float], Any]:
        torch.manual_seed(0)
        model = Dropping()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(512, 256)

        def step() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        call = torch.compile(step, fullgraph=True) if compiles else step
        return [call().item() for _ in range(5)], torch.rand(3)

    (got, after), (want, wanted_after) = losses(True), losses(False)
    assert got == pytest.approx(want, rel=1e-5) and torch.equal(after, wanted_after)


def test_graphs_are_kept_and_differentiated_twice() -> None:
    function, x, parameters = layers(3)
    compiled = torch.compile(lambda x: function(x).square().sum())

    def gradients(call: Any) -> list[Any]:
        given = x.clone().requires_grad_()
        made = call(given)
        first = torch.autograd.grad(made, [given, *parameters], retain_graph=True)
        again = torch.autograd.grad(made, [given, *parameters], create_graph=True)
        twice = torch.autograd.grad(again[0].square().sum(), given)
        return [*first, *again, *twice]

    for got, want in zip(gradients(compiled), gradients(lambda x: function(x).square().sum()), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-4, atol=1e-4 * float(want.abs().max()))


# -- gradients ----------------------------------------------------------------------------------------------------------------------------
def fitting(drops_first: bool) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = nn.Linear(512, 512)
    x = torch.randn(4, 512)

    def step(rows: Any) -> Any:
        if drops_first:
            model.weight.grad = model.bias.grad = None
        loss = model(x[rows]).square().mean()
        if not drops_first:
            model.weight.grad = model.bias.grad = None
        loss.backward()
        return loss

    return model, step


@pytest.mark.parametrize("drops_first", [True, False])
def test_large_gradients_end_before_others_are_made_where_the_program_drops_them_first(drops_first: bool) -> None:
    model, step = fitting(drops_first)
    run = torch.compile(step, fullgraph=True)
    rows = torch.tensor([0, 1, 2])
    for _ in range(4):
        run(rows)
    wanted, kept = model.weight.grad.clone(), model.weight.grad
    with pytest.raises(IndexError):
        run(torch.tensor([0, 1, 9]))
    assert (model.weight.grad is None) == drops_first, "as in an eager step"
    run(rows)
    torch.testing.assert_close(model.weight.grad, wanted)
    torch.testing.assert_close(kept, wanted)
    assert model.weight.grad is not kept
