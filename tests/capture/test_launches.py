"""Launches of native kernels: what is believed, what is refused; groups, and the places of blocks in an arena."""

from __future__ import annotations

import random

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.capture.driver import Place, maker_of
from flambeau.capture.fusion import fused, ordered, predecessors
from flambeau.capture.graph import Graph, Node, Value
from flambeau.capture.interpret import run_of
from flambeau.capture.lowering import Lowered
from flambeau.capture.memory import extent
from flambeau.capture.passes import simplified
from flambeau.capture.planning import Memory, crowding, place, rounded
from flambeau.capture.recorder import Recorder
from flambeau.core.arrays import native
from flambeau.core.calls.registry import primitive

needs_kernels = pytest.mark.skipif(not native.switch.on, reason="kernels are off")


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def captured(function, *args):
    from flambeau.capture.launches import captured
    from flambeau.kernels.families.blas import alone

    found = captured(function, args, alone)
    if found is None:
        return None
    for made, wanted in zip(found[1], _listed(function(*args)), strict=True):
        np.testing.assert_array_equal(made, wanted)
    return found[0]


def _listed(made):
    return made if isinstance(made, tuple | list) else [made]


@needs_kernels
def test_a_kernel_alone_is_believed():
    found = captured(native.find("softmax"), normal(30, 50), 1)
    assert found is not None and len(found.launches) == 1
    assert found.results == (((30, 50), (200, 4), np.dtype(np.float32)),)
    assert {place.kind for _, place in found.launches[0].headers} == {"operand", "result"}


@needs_kernels
def test_what_python_computes_is_refused():
    softmax = native.find("softmax")

    def before(x):
        return softmax(x * 2, 1)

    def after(x):
        return softmax(x, 1) * 2

    def between(x):
        y = softmax(x, 1)
        y += 1
        return softmax(y, 1)

    def by_value(x):
        return softmax(x, 1) if x[0, 0] > np.float32(0.1) else softmax(x, 0)

    def of_numbers(x):
        return native.find("linalg.vector_norm")(x, float(abs(x[0, 0])) + 2, 1)

    def twice(x):
        y = softmax(x, 1)
        return y, y[1:]

    def itself(x):
        softmax(x, 1)
        return x

    def of_a_copy(x):
        return softmax(np.ascontiguousarray(x), 1)

    assert captured(of_a_copy, np.broadcast_to(normal(50), (30, 50))) is None
    assert captured(lambda x, i: native.find("index_select")(x, 0, i.astype(np.int64)), normal(30, 50), np.zeros(9, np.int32)) is None
    x = normal(30, 50)
    for function in (before, after, between, by_value, of_numbers, twice, itself, lambda x: x + 1, lambda x: None):
        assert captured(function, x) is None


def product_operands():
    """Operands of products that lie in many ways: views, transposed, with gaps, broadcast, batches."""
    a, b, c = normal(8, 64, 96), normal(96, 128), normal(8, 96, 40)
    yield from ((name, (a, b)) for name in ("matmul",))
    yield from ((name, (normal(200, 96), b)) for name in ("mm", "matmul"))
    yield from ((name, (normal(96, 200).T, normal(128, 96).T)) for name in ("mm", "matmul"))
    yield from ((name, (a, c)) for name in ("bmm", "matmul"))
    yield "bmm", (a.transpose(0, 2, 1), normal(8, 64, 50))
    yield "mm", (normal(200, 192)[:, ::2], b)
    yield "matmul", (normal(200, 192)[:, 96:], normal(192, 128)[:96])
    yield "matmul", (np.broadcast_to(normal(64, 96), (8, 64, 96)), c)
    yield "matmul", (normal(4, 2, 64, 96), normal(4, 2, 96, 64))
    yield "matmul", (normal(1, 40000), normal(40000, 3))
    yield "matmul", (normal(3000, 300), normal(300, 1))
    yield "nn.functional.linear", (a, normal(128, 96), normal(128))
    yield "nn.functional.linear", (a, normal(128, 96), None)
    yield "nn.functional.linear", (a.transpose(0, 2, 1), normal(128, 64), normal(128))
    yield "nn.functional.linear", (normal(1, 5000), normal(128, 5000), normal(128))


@needs_kernels
def test_launches_that_are_seen_once_are_those_that_are_verified():
    from flambeau.capture.launches import seen_once
    from flambeau.kernels.compiler.pool import pool
    from flambeau.kernels.families.blas import alone

    pool.start()
    count = 0
    for name, args in product_operands():
        for given in (args, [None if x is None else x.astype(np.float64) for x in args]):
            assert native.memory_use(name).only_launches
            once, verified = seen_once(native.find(name), given, alone), captured(native.find(name), *given)
            if once is None:
                continue
            count += 1
            assert verified is not None, (name, [x.shape for x in given if x is not None])
            assert [(one.address, one.chunks) for one in once[0].launches] == [(one.address, one.chunks) for one in verified.launches]
            assert once[0].results == verified.results
            np.testing.assert_array_equal(once[1][0], native.find(name)(*given))
    assert count > 20


@needs_kernels
def test_flags_are_found_and_operands_stay_as_they_are():
    x, indices = normal(20, 30), np.arange(20) % 7
    before = x.copy(), indices.copy()
    found = captured(native.find("embedding"), x, indices)
    assert found is not None and found.flags
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(indices, before[1])


def test_blocks_that_are_alive_together_lie_apart():
    chance = random.Random(0)
    for count in (1, 5, 60):
        blocks = []
        for _ in range(count):
            block = Memory("arena", chance.choice((1, 64, 100, 4096, 5000)))
            first = chance.randrange(40)
            block.use(first)
            block.use(first + chance.randrange(15))
            blocks.append(block)
        total = place(blocks)
        for i, a in enumerate(blocks):
            assert a.offset % 64 == 0 and a.offset + a.size <= total
            for b in blocks[:i]:
                if a.first <= b.last and b.first <= a.last:
                    assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
        assert total <= sum(rounded(block.size) for block in blocks)


@pytest.mark.parametrize(
    "shape, strides", [((2, 3), (12, 4)), ((2, 3), (4, 8)), ((2, 1, 3), (12, 400, 4)), ((), ()), ((4,), (12,)), ((3, 4), (0, 4))]
)
def test_new_arrays_lie_as_asked(shape, strides):
    made = maker_of(Place(Memory("given"), 0, shape, strides, np.dtype(np.float32)))()
    assert made.shape == shape and made.strides == strides
    made.fill(1)
    assert extent(shape, strides, 4) <= max(made.nbytes, getattr(made.base, "nbytes", 0))


# -- groups --------------------------------------------------------------------------------------------------------------------
def recorded(function, *inputs):
    with Recorder([x._array for x in inputs]) as recorder:
        made = function(*inputs)
        outputs = [recorder.value(x._array) for x in (made if isinstance(made, tuple) else (made,))]
    assert recorder.failure is None, recorder.failure
    return simplified(recorder.graph(outputs))


def kinds(graph):
    return [node.label if node.kind == "op" else node.kind for node in graph.nodes]


@needs_kernels
def test_nothing_outside_lies_between_members():
    def function(x):
        a = x.exp()
        c = a.sum(0)
        return a / c + a.sqrt()

    graph = fused(recorded(function, torch.rand(5, 6)))
    assert kinds(graph) == ["group", "sum", "group"]
    assert [member.label for member in graph.nodes[0].members] == ["exp", "sqrt"] and len(graph.nodes[0].outs) == 2


@needs_kernels
def test_groups_that_meet_become_one():
    graph = fused(recorded(lambda x, y: (x.exp() + 1) * (y.exp() + 1), torch.rand(9), torch.rand(9)))
    assert kinds(graph) == ["group"] and len(graph.nodes[0].members) == 5


@needs_kernels
def test_memory_is_read_before_it_is_written():
    held = torch.zeros(4)

    def function(x):
        before = held * 2
        held.add_(x)
        return before + held, held.exp() + before

    x = torch.rand(4)
    graph = recorded(function, x)
    groups = fused(graph)
    held._array[...] = 0
    wanted = run_of(graph)([x._array])
    held._array[...] = 0
    made = run_of(groups)([x._array])
    held._array[...] = 0
    lowered = Lowered(groups)([x._array])
    for a, b, c in zip(wanted, made, lowered, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-6)


def random_graph(chance):
    """A program of element-wise operations, sums and writes, as the graph of a recording."""
    held = torch.ones(3, 4)
    choices = [chance.randrange(7) for _ in range(14)]
    picks = [chance.random() for _ in range(60)]

    def function(x):
        values, given = [x, held], iter(picks)
        for choice in choices:
            a, b = (values[int(next(given) * len(values))] for _ in range(2))
            if choice == 0:
                values.append(a * 0.5 + b)
            elif choice == 1:
                values.append(a.sum(0) + b)
            elif choice == 2:
                values.append((a - b).tanh())
            elif choice == 3:
                held.mul_(0.5)
                held.add_(a)
            elif choice == 4:
                held[1].copy_(a[2])
            elif choice == 5:
                values.append(a.clone().mul_(b))
            else:
                values.append((a @ b.t())[:, :1] * b)
        return (*values[2:], held * 1)

    return function, held


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_fused_and_lowered(seed):
    function, held = random_graph(random.Random(seed))
    x = torch.rand(3, 4)
    graph = recorded(function, x)
    groups = fused(graph)
    before = predecessors(groups)
    position = {node: i for i, node in enumerate(groups.nodes)}
    assert all(position[other] < position[node] for node in groups.nodes for other in before[node])
    made = []
    for run in (run_of(graph), run_of(groups), Lowered(graph), Lowered(groups)):
        held._array[...] = 1
        made.append([[array.copy() for array in run([x._array])] for _ in range(3)] + [[held._array.copy()]])
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            for one, two in zip(a, b, strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_order_is_kept_where_it_can_be():
    x = Value((2,), (4,), np.dtype(np.float32), "input")
    values = [Value((2,), (4,), np.dtype(np.float32)) for _ in range(3)]
    op = primitive("exp")
    nodes = [Node("op", op, [before], [after]) for before, after in zip([x, *values[:2]], values, strict=True)]
    graph = Graph([nodes[2], nodes[0], nodes[1]], [x], [], [values[2]])
    assert ordered(graph).nodes == nodes


@needs_kernels
def test_launches_that_read_what_numpy_copied_are_refused():
    run = torch.compile(lambda x: x.all((2, 0), keepdim=True))  # over dimensions that are no neighbours, of a copy
    x = torch.ones(2, 3, 4)
    for _ in range(3):
        assert run(x).all()
    x[0, 1, 2] = 0
    assert run(x).flatten().tolist() == [True, False, True]


def test_scratch_memory_that_is_too_much_is_named():
    def block(size, first, last):
        made = Memory("arena", size)
        made.use(first)
        made.use(last)
        return made

    values, little, much, beside = block(1 << 20, 0, 9), block(1 << 14, 3, 3), block(1 << 18, 4, 5), block(1 << 18, 7, 7)
    other = block(1 << 18, 6, 8)  # with which as much is needed anyway
    assert crowding([values, little, much], {little: "little", much: "much"}) == {"much"}
    assert crowding([values, much, other], {much: "much"}) == set()
    assert crowding([values, much, beside, other], {much: "much", beside: "beside"}) == {"beside"}


@needs_kernels
@pytest.mark.parametrize("length", [1000, 20000])
@pytest.mark.parametrize("pool", [nn.MaxPool1d(3, 2), nn.AvgPool1d(3, 2, 1), nn.AdaptiveAvgPool1d(301)], ids=str)
def test_tables_that_calls_share_are_left_alone(pool, length):
    x = torch.randn(2, 3, length)
    wanted, compiled = pool(x), torch.compile(pool)
    assert all(torch.equal(compiled(x), wanted) for _ in range(3))
    assert torch.equal(pool(x), wanted)


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_products_of_matrices_that_are_copied_first(dtype):
    x, y = torch.randn(200, 256).to(dtype), torch.randn(256, 320).to(dtype)[:, ::2]
    wanted, compiled = x @ y, torch.compile(lambda x, y: x @ y)
    assert all(torch.equal(compiled(x, y), wanted) for _ in range(3))
    assert torch.equal(y.contiguous(), y) and torch.equal(x @ y, wanted)
