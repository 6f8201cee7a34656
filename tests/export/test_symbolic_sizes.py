"""Sizes that are not known yet: what they compute, what is assumed of them, and how those of results are found."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._subclasses import FakeTensorMode
from flambeau.aten.symbolic_fakes import symbolize
from flambeau.core.expressions import evaluate, symbol
from flambeau.core.symbolic import SymbolicFloat, SymbolicInt
from flambeau.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    ShapeEnv,
    free_symbols,
    guard_int,
    statically_known_true,
    sym_and,
)

NUMBERS = st.integers(-6, 6)
VALUES = {"s0": 11, "s1": 4}


@st.composite
def expressions(draw: Any, depth: int = 3) -> tuple[Any, int]:
    """An expression, and its value."""
    if not depth or draw(st.booleans()):
        name = draw(st.sampled_from(["s0", "s1"]))
        return symbol(name), VALUES[name]
    (a, x) = draw(expressions(depth - 1))
    sign = draw(st.sampled_from(["+", "-", "*", "//", "%"]))
    if sign in ("//", "%"):
        y = draw(st.integers(1, 7))
        return (a // y, x // y) if sign == "//" else (a % y, x % y)
    (b, y) = draw(expressions(depth - 1)) if draw(st.booleans()) else (n := draw(NUMBERS), n)
    return {"+": (a + b, x + y), "-": (a - b, x - y), "*": (a * b, x * y)}[sign]


@given(expressions())
@settings(max_examples=60, deadline=None)
def test_expressions_have_the_values_of_their_arithmetic(made: tuple[Any, int]) -> None:
    expr, value = made
    assert evaluate(expr, VALUES) == value


def test_equal_sizes_are_equal_expressions() -> None:
    s, t = symbol("s0"), symbol("s1")
    assert (s + 1) * 2 - 2 == 2 * s and (4 * s * t) // (2 * t) == 2 * s and (s + 5) // 2 == (s + 1) // 2 + 2 and (6 * s) % 3 == 0
    assert str((s + 1) * (t - 1)) == "s0*s1 - s0 + s1 - 1" and str((s + 3) // 2) == "((s0 + 1)//2) + 1"


def test_symbolic_integers_are_integers_that_remember() -> None:
    env = ShapeEnv()
    n = env.create_size(6)
    assert isinstance(n, torch.SymInt) and isinstance(n, int) and str((n + 1) * 2) == "2*s0 + 2" and (n * 4) // (2 * n) == 2
    assert str(n.node.expr) == "s0" and n.node.hint == 6 and math.prod((n, n, 2)) == 72 and str(math.prod((n, n, 2))) == "2*s0**2"
    assert isinstance(n / 2, SymbolicFloat) and isinstance(torch.sym_float(n), torch.SymFloat) and n / 2 == 3.0
    assert str(torch.sym_max(n, 4)) == "Max(s0, 4)" and torch.sym_int(n / 4) == 1 and str(torch.sym_sqrt(n)) == "sqrt(s0)"
    assert isinstance(torch.sym_not(n > 2), torch.SymBool)
    assert free_symbols((n, torch.ones(2))) == {"s0"}


def test_arguments_of_powers_and_rounding_count() -> None:
    n = ShapeEnv().create_size(6)
    assert str(pow(n, 2, 5)) == "(s0**2 % 5)" and round(n) is n and round(n, 2) is n
    with pytest.raises(NotImplementedError, match="digits"):
        round(n, -1)


def test_comparisons_are_guards_unless_they_always_hold() -> None:
    env = ShapeEnv()
    n, m = env.create_size(6, upper=100), env.create_size(6)
    assert n > 1 and n <= 100 and n + 1 != n and not env.guards
    assert n > 5 and n == m
    assert [(str(relation), truth) for relation, truth in env.guards] == [("s0 > 5", True), ("Eq(s0, s1)", True)]
    assert statically_known_true(n < 101) and not statically_known_true(n > 7) and sym_and(n > 1, m > 1)
    assert guard_int(n) == 6 and type(int(m)) is int and len(env.guards) == 4


def test_every_number_that_is_tried_is_tried_for_every_symbol() -> None:
    env = ShapeEnv()
    sizes = [env.create_size(5) for _ in range(6)]
    asked = [(size, number) for number in (2, 4, 6, 8, 9, 16, 1000) for size in sizes]
    assert not any(size == number for size, number in asked) and len(env.guards) == len(asked)
    u = env.create_unbacked_symint(0)
    with pytest.raises(GuardOnDataDependentSymNode):
        bool(u > 0)
    torch._check(u > 0)
    torch._check(u <= 6)
    assert u != 0 and u < 7


def test_what_is_checked_counts_as_true() -> None:
    env = ShapeEnv()
    n = env.create_size(6)
    torch._check(n <= 10)
    assert n < 11 and not env.guards and env.var_to_range["s0"].upper == 10
    with pytest.raises(RuntimeError, match="too many"):
        torch._check(n > 8, lambda: "too many")
    u = env.create_unbacked_symint()
    with pytest.raises(GuardOnDataDependentSymNode, match="data-dependent expression"):
        bool(u > 3)
    torch._check(u > 3)
    assert u > 2


def symbolic(*sizes: Any) -> Any:
    """A tensor without values; sizes that are texts are symbols."""
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True, static_shapes=True)
    fake = mode.from_tensor(torch.zeros([8 if isinstance(size, str) else size for size in sizes]))
    known: dict[str, SymbolicInt] = {}
    for size in sizes:
        if isinstance(size, str) and size not in known:
            known[size] = env.create_size(8)
    return mode, symbolize(fake, [known[size] if isinstance(size, str) else size for size in sizes])


CASES = {
    "x.flatten(1)": ("n c h", "n", lambda x: F.relu(x).flatten(1), "s0, s1*s2"),
    "conv2d": ("n 3 h w", "", lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3), stride=2, padding=1), "s0, 4, ((s1 + 1)//2), ((s2 + 1)//2)"),
    "max_pool2d": ("n 3 h", "", lambda x: F.max_pool1d(x, 3), "s0, 3, (s1//3)"),
    "cat": ("n 2", "", lambda x: torch.cat([x, x, x[1:]]), "3*s0 - 1, 2"),
    "view": ("n m 4", "", lambda x: x.view(x.shape[0] * x.shape[1], -1), "s0*s1, 4"),
    "reshape": ("n m 4", "", lambda x: x.transpose(0, 1).reshape(-1), "4*s0*s1"),
    "matmul": ("n m", "", lambda x: x @ x.t(), "s0, s0"),
    "sum": ("n m", "", lambda x: x.sum(1, keepdim=True), "s0, 1"),
    "broadcast": ("n m", "", lambda x: x[:, None] + x[None], "s0, s0, s1"),
    "interpolate": ("n 1 h", "", lambda x: F.interpolate(x, scale_factor=2), "s0, 1, 2*s1"),
    "slice": ("n m", "", lambda x: x[1:, ::2], "s0 - 1, ((s1 + 1)//2)"),
    "arange": ("n 2", "", lambda x: torch.arange(x.shape[0] + 1), "s0 + 1"),
    "pad": ("n 2", "", lambda x: F.pad(x, (1, 2, 3, 0)), "s0 + 3, 5"),
    "unfold": ("n 6", "", lambda x: x.unfold(1, 2, 2), "s0, 3, 2"),
    "expand": ("n 1", "", lambda x: x.expand(-1, x.shape[0]), "s0, s0"),
    "repeat": ("n 2", "", lambda x: x.repeat(2, x.size(0)), "2*s0, 2*s0"),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_of_results_are_functions_of_the_operands(name: str) -> None:
    sizes, _, call, wanted = CASES[name]
    mode, x = symbolic(*[int(size) if size.isdigit() else size for size in sizes.split()])
    with mode:
        found = call(x)
    assert str(found.shape) == f"torch.Size([{wanted}])" and not mode.shape_env.guards
    point = {size: 2 * k + 5 for k, size in enumerate(mode.shape_env.hints)}
    real = torch.zeros([evaluate(getattr(size, "expr", size), point) for size in x.shape])
    assert tuple(call(real).shape) == tuple([evaluate(getattr(size, "expr", size), point) for size in found.shape])
