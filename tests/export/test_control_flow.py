"""``torch.cond`` and ``torch.while_loop``: Python's as they are called, nodes in graphs."""

from __future__ import annotations

import io
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, export, load, save
from flambeau.fx.experimental.proxy_tensor import make_fx


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        double = x * 2
        y = torch.cond(x.sum() > 0, lambda x: self.linear(x) + double, lambda x: x.cos() + x.shape[0], (x,))
        return torch.while_loop(lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y * 2 + self.linear.bias), (torch.tensor(0), y))[1]


def test_branches_and_loops_are_graphs_in_a_program() -> None:
    torch.manual_seed(0)
    model = Flow()
    program = export(model, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("n")},))
    names = [name for name, _ in program.graph_module.named_children()]
    assert names == ["true_graph_0", "false_graph_0", "while_loop_cond_graph_0", "while_loop_body_graph_0"]
    assert "torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x, " in program.graph_module.code
    file = io.BytesIO()
    save(program, file)
    again = load(io.BytesIO(file.getvalue()))
    for x in (torch.ones(2, 4), -torch.ones(5, 4)):
        for each in (program, again, program.run_decompositions()):
            torch.testing.assert_close(each.module()(x), model(x))


def test_both_branches_must_return_alike() -> None:
    class Unlike(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x, lambda x: x[0], (x,))

    with pytest.raises(RuntimeError, match="both branches"):
        export(Unlike(), (torch.ones(2, 2),))


def test_a_symbolic_condition_is_a_branch_too() -> None:
    def f(x: Any) -> Any:
        return torch.cond(x.shape[0] > 4, lambda x: x + 1, lambda x: x - 1, (x,))

    graph = make_fx(f, tracing_mode="symbolic")(torch.ones(3, 2))
    for n in (3, 6):
        assert torch.equal(graph(torch.ones(n, 2)), f(torch.ones(n, 2)))


@pytest.mark.parametrize("pred", ["1", torch.ones(2)])
def test_conditions_of_other_kinds_are_refused(pred: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected pred"):
        torch.cond(pred, lambda: 1, lambda: 2)


def test_a_loop_gives_what_python_gives() -> None:
    i, x = torch.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x + i), (torch.tensor(0), torch.zeros(2)))
    assert i == 5 and torch.equal(x, torch.full((2,), 10.0))
    with pytest.raises(RuntimeError, match="body_fn"):
        torch.while_loop(lambda i: i < 5, lambda i: (i, i), (torch.tensor(0),))
