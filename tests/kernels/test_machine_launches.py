"""Kernels launched by machine code: the bits, strides and histories of calls in Python, and everything that Python has to see."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from machine_code import load_machine_code
from object_counts import assert_counted, fail_everywhere

import flambeau
from flambeau.core.arrays.native import switch
from flambeau.core.calls import machine_calls
from flambeau.core.calls.registry import primitive
from flambeau.kernels.compiler.pool import pool
from flambeau.kernels.families.gemm import rows_times_vector
from flambeau.kernels.fastpath import launching

F = flambeau.nn.functional
WEIGHT, BIAS = flambeau.randn(300, 200), flambeau.randn(300)


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load_machine_code(machine_calls._finders)
    if not launching.address_of(rows_times_vector, "f32", True):
        pytest.skip("there are no kernels here")
    pool.start()


def normalized(*shape: int, width: Any = None, **changed: Any) -> Any:
    """A call of ``layer_norm``, and its arguments by name."""
    width = width or (shape[-1:] if shape else (1,))
    given = {"input": flambeau.randn(*shape), "weight": flambeau.rand(width), "bias": flambeau.rand(width), "eps": 1e-5}
    return F.layer_norm, {"normalized_shape": width, **given, **changed}


def multiplied(*shape: int, **changed: Any) -> Any:
    """A call of ``linear``, and its arguments by name."""
    return F.linear, {"input": flambeau.randn(*shape), "weight": WEIGHT, "bias": BIAS, **changed}


def attended(*shape: int, keys: int = 9, **changed: Any) -> Any:
    """A call of ``scaled_dot_product_attention``, and its arguments by name."""
    query, (key, value) = flambeau.randn(*shape), (flambeau.randn(*shape[:-2], keys, shape[-1]) for _ in range(2))
    options = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False}
    return F.scaled_dot_product_attention, {"query": query, "key": key, "value": value, **options, **changed}


def heads(batch: int, length: int) -> Any:
    """Four heads of 16 elements inside of rows, as a projection is cut."""
    return flambeau.randn(batch, length, 192)[:, :, 64:128].view(batch, length, 4, 16).transpose(1, 2)


X = flambeau.randn(6, 64)
CALLS = {
    "norm of a row": normalized(1, 128),
    "norm of rows": normalized(2, 5, 64),
    "norm of many rows": normalized(900, 128),
    "norm of long rows": normalized(2, 40000),
    "norm of a vector": normalized(64),
    "norm of few numbers": normalized(3, 4),
    "norm of nothing": normalized(0, 64),
    "norm over two dimensions": normalized(3, 4, 8, width=(4, 8)),
    "norm over a list": normalized(3, 64, normalized_shape=[64]),
    "norm without a bias": normalized(3, 64, bias=None),
    "norm of columns": normalized(64, 6, input=X.t().contiguous().t()),
    "norm of a part": normalized(6, 32, input=X[:, 32:]),
    "norm of rows that are shown": normalized(3, 64, input=X[::2][:1]),
    "norm of doubles": normalized(3, 64, input=flambeau.randn(3, 64).double()),
    "norm of another size": normalized(3, 64, normalized_shape=(32,)),
    "norm with a whole eps": normalized(3, 64, eps=1),
    "norm of a parameter": normalized(3, 64, input=flambeau.nn.Parameter(flambeau.randn(3, 64))),
    "row": multiplied(1, 200),
    "row in three dimensions": multiplied(1, 1, 200),
    "row without a bias": multiplied(1, 200, bias=None),
    "long row": multiplied(1, 3000, weight=flambeau.randn(40, 3000), bias=flambeau.randn(40)),
    "row and few others": multiplied(1, 20000, weight=flambeau.randn(3, 20000), bias=flambeau.randn(3)),
    "rows": multiplied(2, 200),
    "many rows": multiplied(3, 21, 200),
    "many rows without a bias": multiplied(64, 200, bias=None),
    "many rows of parts": multiplied(64, 200, input=flambeau.randn(64, 400)[:, :200]),
    "many long results": multiplied(500, 200),
    "vector": multiplied(200),
    "row of a matrix": multiplied(1, 200, input=flambeau.randn(4, 200)[2:3]),
    "columns of a weight": multiplied(1, 200, weight=flambeau.randn(200, 300).t()),
    "part of a weight": multiplied(1, 200, weight=flambeau.randn(300, 400)[:, :200]),
    "row of doubles": multiplied(1, 200, input=flambeau.randn(1, 200).double(), weight=WEIGHT.double(), bias=BIAS.double()),
    "row of another size": multiplied(1, 199),
    "row and a bias of another size": multiplied(1, 200, bias=flambeau.randn(299)),
    "row that requires grad": multiplied(1, 200, input=flambeau.randn(1, 200).requires_grad_()),
    "weight that requires grad": multiplied(1, 200, weight=flambeau.nn.Parameter(WEIGHT)),
    "query": attended(2, 4, 1, 16),
    "query of many keys": attended(1, 12, 1, 64, keys=700),
    "query that sees one key": attended(1, 4, 1, 16, is_causal=True),
    "query with a scale": attended(1, 4, 1, 16, scale=0.3),
    "query of heads": attended(1, 4, 1, 16, query=heads(1, 1), key=heads(1, 9), value=heads(1, 9)),
    "query of a growing cache": attended(1, 4, 1, 16, key=flambeau.randn(1, 4, 20, 16)[:, :, :9]),
    "query of heads of two samples": attended(2, 4, 1, 16, query=heads(2, 1)),
    "query with a mask": attended(1, 4, 1, 16, attn_mask=flambeau.ones(1, 9).bool()),
    "query with a whole scale": attended(1, 4, 1, 16, scale=1),
    "query of groups": attended(1, 4, 1, 16, key=flambeau.randn(1, 2, 9, 16), value=flambeau.randn(1, 2, 9, 16), enable_gqa=True),
    "query of columns": attended(1, 4, 1, 16, key=flambeau.randn(1, 4, 16, 9).mT),
    "query of other values": attended(1, 4, 1, 16, value=flambeau.randn(1, 4, 9, 8)),
    "query of no keys": attended(1, 4, 1, 16, keys=0),
    "query of doubles": attended(1, 4, 1, 16, query=flambeau.randn(1, 4, 1, 16).double()),
    "query that requires grad": attended(1, 4, 1, 16, query=flambeau.randn(1, 4, 1, 16).requires_grad_()),
    "queries": attended(1, 4, 2, 16),
    "queries that see some keys": attended(2, 3, 40, 16, keys=70, is_causal=True),
    "queries with a scale": attended(1, 4, 5, 16, scale=0.3),
    "queries of heads": attended(2, 4, 20, 16, query=heads(2, 20), key=heads(2, 9), value=heads(2, 9), is_causal=True),
    "queries of columns": attended(1, 4, 5, 16, query=flambeau.randn(1, 4, 16, 5).mT),
    "queries of a single head": attended(1, 1, 30, 16, query=flambeau.randn(1, 30, 1, 16).transpose(1, 2)),
    "queries with keys of columns": attended(1, 4, 5, 16, query=heads(1, 5), key=flambeau.randn(1, 4, 16, 9).mT),
    "queries with keys of rows": attended(1, 4, 5, 16, query=heads(1, 5)),
    "queries with a mask": attended(1, 4, 5, 16, attn_mask=flambeau.ones(5, 9).bool()),
    "queries that require grad": attended(1, 4, 5, 16, query=flambeau.randn(1, 4, 5, 16).requires_grad_()),
    "many long queries": attended(4, 8, 300, 64, keys=50),
    "query in three dimensions": attended(4, 1, 16),
}
LAUNCHED = [
    *("norm of a row", "norm of rows", "norm of many rows", "norm of long rows", "norm of a vector", "norm of a parameter"),
    "norm of rows that are shown",
    *("row", "row in three dimensions", "row without a bias", "long row", "row and few others", "row of a matrix"),
    *("row that requires grad", "weight that requires grad", "many rows", "many rows without a bias"),
    *("query", "query of many keys", "query that sees one key", "query with a scale", "query of heads", "query of a growing cache"),
    "query that requires grad",
    *("queries", "queries that see some keys", "queries with a scale", "queries of heads", "queries of a single head"),
    *("queries with keys of rows", "queries that require grad"),
]


def outcome(call: Any, given: dict[str, Any]) -> Any:
    try:
        result = call(**given)
    except Exception as error:
        return type(error), str(error)
    node = result.grad_fn
    gradients = flambeau.autograd.grad(result.sum(), [x for x in given.values() if getattr(x, "requires_grad", False)]) if node else ()
    numbers = [each.detach().numpy().tobytes() for each in (result, *gradients)]
    return numbers, result.shape, result.stride(), result.dtype, type(node)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_those_of_python(name: str, grad: bool) -> None:
    with flambeau.set_grad_enabled(grad):
        outcome(*CALLS[name])  # what is made the first time
        with machine_calls.python_only():
            expected = outcome(*CALLS[name])
        assert outcome(*CALLS[name]) == expected


@cache
def form_of(function: str) -> Any:
    return machine_calls.found(primitive(function, "nn.functional"), "whole")


def in_machine_code(name: str) -> bool:
    """Whether machine code answers a call."""
    call, given = CALLS[name]
    names = primitive(call.__name__, "nn.functional").names
    return form_of(call.__name__)(*[given[name] for name in names]) is not None


@pytest.mark.parametrize("name", CALLS)
def test_usual_calls_are_machine_codes(name: str) -> None:
    with flambeau.no_grad():
        either = name in ("rows", "vector", "columns of a weight", "norm of few numbers")
        outcome(*CALLS[name])  # Python plans the launch
        assert either or in_machine_code(name) == (name in LAUNCHED)


def test_launches_are_for_one_precision() -> None:
    call, given = CALLS["many rows"]
    with flambeau.no_grad():
        expected = call(**given)
        assert in_machine_code("many rows")
        flambeau.set_float32_matmul_precision("medium")
        try:
            assert not in_machine_code("many rows")
            with machine_calls.python_only():
                other = call(**given)
            assert flambeau.equal(call(**given), other)
        finally:
            flambeau.set_float32_matmul_precision("highest")
        assert flambeau.equal(call(**given), expected)


def test_launches_of_queries_are_for_one_number_of_threads() -> None:
    call, given = CALLS["queries of heads"]
    with flambeau.no_grad():
        expected, threads = call(**given), flambeau.get_num_threads()
        assert in_machine_code("queries of heads")
        flambeau.set_num_threads(threads + 1)
        try:
            assert not in_machine_code("queries of heads")
            assert flambeau.equal(call(**given), expected) and in_machine_code("queries of heads")
        finally:
            flambeau.set_num_threads(threads)


def test_the_fused_kernel_may_be_switched_off() -> None:
    assert in_machine_code("query")
    with flambeau.nn.attention.sdpa_kernel(flambeau.nn.attention.SDPBackend.MATH):
        assert not in_machine_code("query")


@pytest.mark.parametrize("name", ["norm of a row", "row", "query of many keys"])
def test_python_sees_what_it_has_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, given = CALLS[name]
    seen: list[Any] = []
    expected = call(**given)
    with pool.watched(lambda *launch: seen.append(launch)):
        assert not in_machine_code(name)
        assert flambeau.equal(call(**given), expected) and len(seen) == 1
    assert in_machine_code(name)
    monkeypatch.setattr(switch, "on", False)
    assert not in_machine_code(name) and flambeau.allclose(call(**given), expected, atol=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_starts_its_own_workers_first() -> None:
    call, given = CALLS["row"]
    expected = call(**given)
    child = os.fork()
    if not child:
        before = in_machine_code("row")
        right = flambeau.equal(call(**given), expected)
        os._exit(0 if right and not before and in_machine_code("row") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("name", ["norm of many rows", "row", "query", "many rows", "queries of heads"])
def test_no_object_is_lost_or_kept(name: str) -> None:
    call, given = CALLS[name]
    things = [*given.values(), *[x._array for x in given.values() if isinstance(x, flambeau.Tensor)], flambeau.Tensor]
    with flambeau.no_grad():
        assert_counted(lambda: call(**given), things, 60, 500)
        assert fail_everywhere(lambda: call(**given), things, 60, depth=12, times=600) > 60


MANY = [(F.gelu, "program", 1), (F.silu, "program", 1), (flambeau.exp, "pointwise", 1), (flambeau.mul, "pointwise", 2)]


@pytest.mark.parametrize(("call", "form", "count"), MANY, ids=lambda each: getattr(each, "__name__", ""))
def test_element_wise_calls_of_many_elements(call: Any, form: str, count: int) -> None:
    op = primitive(call.__name__, "nn.functional" if form == "program" else "torch")
    machine = machine_calls.found(op, form)
    whole, long, single = flambeau.randn(300, 140), flambeau.randn(400, 400), flambeau.randn(1, 300, 140)[:, :]
    others = [flambeau.randn(140, 300).t(), whole.double(), long, flambeau.randn(300, 200)[:, :140]]
    for x in (whole, single, *others):
        given = dict(zip(("input", "other"), [x, x.flip(0)][:count], strict=False))
        for needs_grad in (False, True):
            given = {name: value.detach().requires_grad_(needs_grad) for name, value in given.items()}
            with machine_calls.python_only():
                expected = outcome(call, given)
            assert outcome(call, given) == expected
            is_usual = x is whole or x is single
            assert (machine(*given.values()) is not None) == is_usual
            with pool.watched(lambda *launch: None):
                assert machine(*given.values()) is None
                assert outcome(call, given) == expected


def test_views_made_without_grad_mode_are_operands() -> None:
    x, weight = flambeau.randn(1, 4, 8), flambeau.nn.Parameter(flambeau.randn(6, 8))
    with flambeau.no_grad():
        part = weight[:4]
        found = machine_calls.found(primitive("add"), "pointwise")
        assert found(x, part) is not None and not (x + part).requires_grad
    with machine_calls.python_only():
        expected = x + part
    assert found(x, part) is None and flambeau.equal(x + part, expected) and (x + part).requires_grad == expected.requires_grad


def test_no_object_of_an_element_wise_call_is_lost_or_kept() -> None:
    x = flambeau.randn(300, 140)
    things = [x, x._array, flambeau.Tensor]
    F.gelu(x)
    assert_counted(lambda: F.gelu(x), things, 60, 500)
    assert fail_everywhere(lambda: F.gelu(x), things, 60, depth=12, times=300) > 40
