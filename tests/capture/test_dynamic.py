"""Compiled programs over changing sizes: numbers as eager calls give them, recordings as often as PyTorch compiles, few enough plans."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import pytest
from capture.models import MODELS

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.compiler.dynamic import DynamicProgram
from flambeau.fx.experimental.symbolic_shapes import ConstraintViolationError


def programs(compiled: Any) -> list[Any]:
    found: list[Any] = compiled._call.programs
    return found


def of_many_sizes(compiled: Any) -> list[Any]:
    return [program for program in programs(compiled) if isinstance(program, DynamicProgram)]


def follow(function: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> list[int]:
    """Numbers of programs after each call, whose results must be those of eager calls."""
    compiled, counts = torch.compile(function, **options), []
    for args in calls:
        torch.testing.assert_close(compiled(*args), function(*args), rtol=1e-5, atol=1e-6)
        counts.append(len(programs(compiled)))
    return counts


def rows(*sizes: int) -> list[tuple[Any, ...]]:
    return [(torch.randn(n, 8),) for n in sizes]


# -- how often PyTorch compiles ------------------------------------------------------------------------------------------------------------
def looped(x: Any) -> Any:
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


SEQUENCES: dict[str, tuple[Callable[..., Any], list[tuple[tuple[int, ...], ...]], bool | None]] = {
    "batches": (lambda x: x * 2, [((n, 8),) for n in (4, 5, 6, 1, 7, 0, 1, 9)], None),
    "always": (lambda x: x * 2, [((n, 8),) for n in (4, 5, 6, 1, 7)], True),
    "never": (lambda x: x * 2, [((n, 8),) for n in (4, 5, 4, 6)], False),
    "one at first": (lambda x: x * 2, [((n, 8),) for n in (1, 4, 6, 7)], None),
    "ranks": (lambda x: x * 2, [((4, 8),), ((4, 8, 2),), ((5, 8),), ((6, 9),)], None),
    "two dimensions": (lambda x: x * 2, [((4, 8),), ((4, 9),), ((5, 9),), ((6, 10),), ((7, 11),)], None),
    "two arguments": (lambda x, y: x + y, [((n, 8), (n, 8)) for n in (4, 5, 6)], None),
    "equal by chance": (lambda x, y: (x * 2, y * 2), [((4, 8), (4, 8)), ((5, 8), (5, 8)), ((6, 8), (7, 8)), ((8, 8), (9, 8))], None),
    "equal and always": (lambda x, y: (x * 2, y * 2), [((4, 8), (4, 8)), ((6, 8), (7, 8)), ((8, 8), (9, 8))], True),
    "square": (lambda x: x * 2, [((4, 4),), ((5, 6),)], True),
    "compared": (lambda x: x * 2 if x.shape[0] > 5 else x + 1, [((n, 8),) for n in (3, 4, 6, 7, 5, 9)], None),
    "divided": (lambda x: x * 2 if x.size(0) % 2 == 0 else x + 1, [((n, 8),) for n in (3, 4, 6, 7, 5, 9)], None),
    "looped over": (looped, [((n, 8),) for n in (3, 4, 6, 7)], None),
    "cut": (lambda x: x[:3] * 2, [((n, 8),) for n in (4, 5, 6, 2, 7)], None),
    "length": (lambda x: x * len(x), [((n, 8),) for n in (4, 5, 6)], None),
    "limit": (looped, [((n, 8),) for n in range(2, 12)], None),
}


def compilations(library: Any, name: str) -> list[int]:
    """How often a library compiles during a sequence of calls, after each."""
    function, calls, dynamic = SEQUENCES[name]
    library._dynamo.reset()
    counter = importlib.import_module(f"{library.__name__}._dynamo.testing").CompileCounter()
    compiled, counts = library.compile(function, backend=counter, dynamic=dynamic), []
    for shapes in calls:
        compiled(*[library.ones(shape) for shape in shapes])
        counts.append(counter.frame_count)
    return counts


@pytest.mark.parametrize("name", SEQUENCES)
def test_programs_are_recorded_as_often_as_pytorch_compiles(name: str, of_pytorch: Callable[..., Any]) -> None:
    function, calls, dynamic = SEQUENCES[name]
    want = of_pytorch(compilations, name)
    assert follow(function, [tuple(map(torch.randn, shapes)) for shapes in calls], dynamic=dynamic) == want
    if name not in ("compared", "divided", "looped over", "limit", "cut", "length"):  # of which a traced graph has no branch
        assert compilations(torch, name) == want


# -- what programs do with sizes -----------------------------------------------------------------------------------------------------------
SIZED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: x.view(x.shape[0] * 2, -1) * 2,
    "power": lambda x: x * x.size(0) ** -0.5,
    "root": lambda x: x / math.sqrt(x.shape[0]),
    "means": lambda x: x.mean() + x.std(0) + x.var(0) + x.sum(0) / x.numel(),
    "progression": lambda x: x + torch.arange(x.size(0))[:, None],
    "factories": lambda x: torch.zeros(2 * x.shape[0], 1) + x.repeat(2, 1) + x.new_ones(x.shape[0] * 2, 1) + torch.full((8,), 2.0),
    "slices": lambda x: x[1:] - x[:-1] + x[-2:].sum(0),
    "half": lambda x: x[: x.shape[0] // 2],
    "triangle": lambda x: torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x + torch.eye(x.shape[0]) @ x,
    "joined": lambda x: torch.cat([x, x[:1]]).flip(0),
    "padded": lambda x: F.pad(x, (1, 1, 2, 0)),
    "attention": lambda x: F.softmax(x @ x.t() / x.shape[0], -1) @ x,
    "pooled": lambda x: F.adaptive_avg_pool1d(x.t()[None], 2),
    "convolution": lambda x: F.conv1d(x.t()[None], torch.ones(3, 8, 3), padding=1, stride=2),
    "masked": lambda x: torch.where(torch.arange(x.shape[0])[:, None] < x.shape[0] // 2, x, -x),
    "spectrum": lambda x: torch.fft.rfft(x, dim=0).abs(),
    "size": lambda x: x.sum(0) * x.shape[0] + x.new_zeros(x.shape[1]),
    "windows": lambda x: x.unfold(0, 2, 1).sum(-1),
}


@pytest.mark.parametrize("name", SIZED)
def test_sizes_in_arithmetic(name: str) -> None:
    counts = follow(SIZED[name], rows(6, 7, 9, 3, 12, 7))
    assert counts[:3] == [1, 2, 2] and counts[-1] <= 3


def test_results_that_are_sizes() -> None:
    compiled = torch.compile(lambda x: (x * 2, x.shape[0], x.shape, x.size(0) * 2))
    for n in (3, 4, 7, 9):
        result = compiled(torch.ones(n, 2))
        assert result[1:] == (n, (n, 2), 2 * n)
    assert len(programs(compiled)) == 2


def test_backward_passes_and_gradients_of_arguments() -> None:
    layer = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5))
    compiled = torch.compile(layer)
    for n in (3, 4, 6, 9, 2, 6):
        x = torch.randn(n, 4)
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, want = compiled(mine), layer(theirs)
        grads = torch.autograd.grad(got.sin().sum(), [mine, *layer.parameters()])
        for a, b in zip(grads, torch.autograd.grad(want.sin().sum(), [theirs, *layer.parameters()]), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    (program,) = of_many_sizes(compiled)
    assert program.bound == 3 and len(compiled._call.programs) == 2


def test_what_trying_other_sizes_does_is_undone() -> None:
    layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    twin = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    twin.load_state_dict(layer.state_dict())
    results = []
    for model, called in ((layer, torch.compile(layer)), (twin, twin)):
        torch.manual_seed(3)
        results.append([called(torch.randn(n, 3)) for n in (4, 5, 6, 7, 5)])
        assert model[1].num_batches_tracked.item() == 5
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(layer.state_dict(), twin.state_dict())


def test_a_size_of_an_input_that_needs_another_program_is_noticed() -> None:
    table = torch.randn(6, 8)
    assert follow(lambda x: x + table[: x.shape[0]], rows(3, 4, 5, 6)) == [1, 2, 2, 2]
    compiled = torch.compile(lambda x: x + table[: x.shape[0]])
    for n in (3, 4, 6):
        compiled(torch.zeros(n, 8))
    with pytest.raises(RuntimeError, match="must match"):
        compiled(torch.zeros(7, 8))
    assert follow(lambda x: torch.linalg.svdvals(x), rows(4, 5, 6, 9, 7))[:3] == [1, 2, 2]


def test_sizes_that_a_program_singles_out_are_guarded() -> None:
    def chosen(x: Any, y: Any) -> Any:
        if x.shape[0] == 37 or y.shape[0] < 3:
            return x.sum() - y.sum()
        return x.sum() + y.sum() * (2 if x.shape[0] == y.shape[0] else 3)

    calls = [(torch.randn(n, 2), torch.randn(m, 2)) for n, m in ((4, 5), (5, 6), (37, 6), (6, 2), (7, 7), (9, 8), (37, 2))]
    follow(chosen, calls)


def test_what_operations_refuse_is_refused_at_other_sizes() -> None:
    compiled = torch.compile(lambda x: F.pad(x[None], (3, 0), mode="circular"), dynamic=True)
    assert compiled(torch.randn(2, 5)).shape == (1, 2, 8) and compiled(torch.randn(4, 6)).shape == (1, 4, 9)
    with pytest.raises(RuntimeError, match="[Pp]adding"):
        compiled(torch.randn(4, 2))


def test_many_sizes_have_few_plans() -> None:
    compiled = torch.compile(lambda x: x * 2)
    for _ in range(2):
        for n in range(2, 60):
            assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 2.0))
    (program,) = of_many_sizes(compiled)
    assert len(program.plans) <= 32


# -- marks -----------------------------------------------------------------------------------------------------------------------------
def marked(compiled: Any, *sizes: int, mark: Any = None, **options: Any) -> list[int]:
    counts = []
    for n in sizes:
        x = torch.randn(n, 8)
        (mark or torch._dynamo.mark_dynamic)(x, 0, **options)
        compiled(x)
        counts.append(len(programs(compiled)))
    return counts


def test_marks() -> None:
    assert marked(torch.compile(lambda x: x * 2), 4, 5, 6) == [1, 1, 1]
    assert marked(torch.compile(lambda x: x * 2, dynamic=False), 4, 5, 6) == [1, 1, 1]
    assert marked(torch.compile(lambda x: x * 2), 1, 5) == [1, 2]
    assert marked(torch.compile(lambda x: x * 2), 4, 5, 6, mark=torch._dynamo.maybe_mark_dynamic) == [1, 1, 1]
    assert marked(torch.compile(lambda x: x * 2), 4, 5, 6, mark=torch._dynamo.mark_static) == [1, 2, 3]
    assert marked(torch.compile(lambda x: x.view(4, 8) * 2), 4, mark=torch._dynamo.maybe_mark_dynamic) == [1]


def test_marked_sizes_that_cannot_vary() -> None:
    for function in (lambda x: x.view(4, 8) * 2, lambda x: x * 2 if x.shape[0] == 4 else x):
        with pytest.raises(ConstraintViolationError, match=r"You marked L\['x'\].size\(\)\[0\] as dynamic but your code specialized it"):
            marked(torch.compile(function), 4)
    compiled = torch.compile(lambda x: x * 2)
    assert marked(compiled, 4, 5, min=2, max=10) == [1, 1]
    with pytest.raises(ConstraintViolationError, match=r"60 not in range \[2, 10\]"):
        marked(compiled, 60, min=2, max=10)
    with pytest.raises(NotImplementedError, match="hint_override"):
        torch._dynamo.mark_dynamic(torch.ones(3), 0, hint_override=5)


def test_settings() -> None:
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        assert follow(lambda x: x * 2, rows(4, 5, 6)) == [1, 2, 3]
    with torch._dynamo.config.patch(assume_static_by_default=False):
        assert follow(lambda x: x * 2, rows(4, 5, 6)) == [1, 1, 1]


def test_logs(capfd: pytest.CaptureFixture[str]) -> None:
    torch._logging.set_logs(dynamic=True)
    try:
        follow(lambda x: x * 2 if x.shape[0] > 3 else x, rows(4, 5))
        follow(looped, rows(3, 4))
    finally:
        torch._logging.set_logs(dynamic=False)
    told = capfd.readouterr().err
    assert "a program for all sizes s0 >= 2 and (s0) > (3)" in told
    assert "each size has a program of its own: s0 can be [4] only" in told


# -- whole models ------------------------------------------------------------------------------------------------------------------------
def varied(name: str, batches: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The batches of a model with other sizes: of batches, and of sequences, nodes and edges where there are any."""
    made: list[tuple[Any, ...]] = []
    for k, batch in enumerate(batches[:10]):
        more = (0, 1, 2, 3)[k % 4]
        if name == "gnn":
            nodes = batch[0].shape[0] + more
            made.append((torch.randn(nodes, 4), torch.randint(0, nodes, (2, 11 + k % 3)), torch.randint(0, 3, (nodes,))))
            continue
        rows = [i % len(batch[0]) for i in range(len(batch[0]) + more)]
        batch = tuple([each[rows] for each in batch])
        made.append(tuple([each[:, : 6 - k % 3].contiguous() for each in batch]) if name in ("lstm", "gpt", "transformer") and k else batch)
    return made


SLOW = pytest.mark.slow


def losses(name: str, compiles: bool) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    step, batches = MODELS[name]()
    batches = varied(name, batches)
    called = torch.compile(step, fullgraph=True) if compiles else step
    torch.manual_seed(1)
    return [called(*batch).item() for batch in batches], called


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name in ("gpt", "transformer", "resnet") else ()) for name in MODELS])
def test_training_over_changing_sizes(name: str) -> None:
    want, _ = losses(name, False)
    got, called = losses(name, True)
    assert got == pytest.approx(want, rel=1e-5, abs=1e-6)
    assert len(of_many_sizes(called)) == 1 and len(programs(called)) == 2


# -- what other sizes than those that were tried do ----------------------------------------------------------------------------------------
FAR: dict[str, Callable[[Any], Any]] = {
    "quotient": lambda x: x * (x.shape[0] // 3),
    "remainder": lambda x: x * 2 if (x.shape[0] + 1) % 2 == 0 else x,
    "half of a sum": lambda x: x * 2 if (x.shape[0] + 1) / 2 > 4 else x,
    "bits": lambda x: x * ((x.shape[0] >> 2) + (x.shape[0] & 3) + x.shape[0].bit_length()),
    "text": lambda x: x * len(str(x.shape[0])),
    "key": lambda x: x * {5: 2.0, 64: 3.0}.get(x.shape[0], 1.0),
    "integer root": lambda x: x * math.isqrt(x.shape[0]) * math.gcd(x.shape[0], 12),
    "length": lambda x: x * 2 if len(x) > 5 else x * 3,
    "pieces": lambda x: torch.cat(x.split(3)[::-1]),
    "numbers": lambda x: (x + 1, x.shape, x.shape[0] / 2, x.shape[0] // 4, x.shape[0] > 5),
}


@pytest.mark.parametrize("name", FAR)
def test_sizes_far_from_those_that_were_tried(name: str) -> None:
    function = FAR[name]
    compiled = torch.compile(function)
    for x in (each[0] for each in rows(4, 5, 6, 64, 3, 2, 33, 7, 12)):
        got, want = compiled(x), function(x)
        assert str(got) == str(want)


def test_quotients_by_roots_of_sizes() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x / (x.shape[0] ** 0.5 + 1)

    for dynamic in (None, True):
        compiled = torch.compile(scaled, dynamic=dynamic)
        for n in (4, 5, 1, 2, 3, 8, 100):
            torch.testing.assert_close(compiled(torch.ones(n)), scaled(torch.ones(n)))


def test_views_beyond_the_memory_of_other_sizes_are_refused() -> None:
    compiled = torch.compile(lambda x: x.as_strided((x.shape[0] - 1, 8), (8, 1), 3) * 1, dynamic=True)
    for shape in ((5, 9), (6, 10)):
        compiled(torch.randn(shape))
    with pytest.raises(RuntimeError, match="setStorage"):
        compiled(torch.randn(2, 2))


def _stepped(x: Any) -> Any:
    for i in range(0, x.shape[0], 50):
        x = x + i
    return x


def _counted(x: Any) -> Any:
    for _ in range(x.shape[0] // 64):
        x = x + 1
    return x


TAKEN: dict[str, Callable[[Any], Any]] = {
    "range": _counted,
    "steps": _stepped,
    "index": lambda x: x * TABLE[x.shape[0] - 1],
    "size": lambda x: x * TABLE[x.shape[0]],
    "int": lambda x: x * int(x.shape[0] // 64),
    "float": lambda x: x * float(x.shape[0] // 64),
    "rounded": lambda x: x * round(float(x.shape[0]) / 64),
    "len": lambda x: x * (len(x) // 64),
    "bytes": lambda x: x * len(bytes(x.shape[0] // 64)),
    "text": lambda x: x * len("a" * (x.shape[0] // 64)),
    "variable": lambda x: at(x, TABLE, *x.shape[:1]),
    "slice": lambda x: x * sum(TABLE[8 : x.shape[0]][-2:]),
    "method": lambda x: x * TABLE.__getitem__(x.shape[0]),
    "element of a list": lambda x: x * TABLE[sorted(x.shape)[-1]],
    "len as an index": lambda x: x * TABLE[len(x)],
    "of a result": lambda x: x * TABLE[(x + 1).t().size(1)],
}


def at(x: Any, table: list[float], n: int) -> Any:
    k = n * 1
    return x * table[k]


TABLE = [1.0] * 76 + [9.0] + [1.0] * 100


@pytest.mark.parametrize("name", TAKEN)
def test_plain_numbers_taken_of_sizes(name: str) -> None:
    """They are the same for all sizes that a recording tries, but not for these."""
    follow(TAKEN[name], rows(10, 11, 12, 64, 76, 77, 130))
