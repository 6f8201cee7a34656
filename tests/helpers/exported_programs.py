"""Programs that are exported and go through files, for either library: ``programs_of(torch)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Case(NamedTuple):
    """A program: its module, its inputs for a batch size, and what may be another size; ``kwargs`` are further inputs."""

    model: Any
    inputs: Callable[[int], tuple[Any, ...]]
    dims: Any
    kwargs: dict[str, Any]


def programs_of(torch: Any) -> dict[str, Case]:
    nn, F, Dim = torch.nn, torch.nn.functional, torch.export.Dim
    batch = ({0: Dim("batch")},)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            y = torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x.cos(), (x,))
            return torch.cond(x.shape[0] > 4, lambda y: y + 1, lambda y: y - 1, (y,))

    class Written(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            self.total.add_(x.sum(0))
            return self.norm(x) + self.total

    class Structured(nn.Module):
        def forward(self, x, factor, is_scaled, word, nothing, *, parts):
            return {"a": x * factor if is_scaled else x, "b": [parts["u"] + parts["v"][0], None, 3]}

    class OfValues(nn.Module):
        def forward(self, x, n):
            k = n.item()
            torch._check(k >= 0)
            torch._check(k <= 10)
            return torch.zeros(k + 1) + 1, (x > 0).nonzero()

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
            self.out.weight = self.table.weight
            self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
            self.register_buffer("short", torch.ones(3, dtype=torch.bfloat16))
            self.register_buffer("fleeting", torch.ones(2, 0), persistent=False)
            self.constant = torch.tensor([1 + 2j])

        def forward(self, i):
            return self.out(self.table(i)), self.turned.sum(0), self.short.float(), torch.view_as_real(self.constant * 2), self.fleeting

    class Parts(nn.Module):
        def forward(self, x):
            a, _ = x.split(2, 1)
            rows = torch.stack(list(x.unbind(1)))
            made = x.new_full((x.shape[0], 2), float("inf")), torch.arange(x.shape[0])
            return (
                a,
                x.topk(2)[1],
                x.max(1).values,
                x.shape[0] * 3,
                x.flatten(),
                rows,
                x.half(),
                *made,
                x[:, [0, 2]],
                x[None].expand(2, -1, -1),
            )

    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last)

        def forward(self, x):
            y = self.conv(x)
            return (
                F.interpolate(y, scale_factor=2.0),
                F.adaptive_avg_pool2d(x, (None, 2)),
                y.mean((2, 3)),
                x.std(dim=1),
                x.permute(0, 2, 3, 1),
            )

    parts = {"u": torch.ones(2), "v": [torch.ones(2)]}
    rows = [
        ("flow", Flow, lambda n: (torch.randn(n, 4),), batch, {}),
        ("written", Written, lambda n: (torch.randn(n, 3),), batch, {}),
        (
            "structured",
            Structured,
            lambda n: (torch.ones(n), 3, True, "w", None),
            None,
            {"parts": parts},
        ),
        ("of values", OfValues, lambda n: (torch.randn(n, 3), torch.tensor(4)), ({0: Dim("batch")}, None), {}),
        ("shared", Shared, lambda n: (torch.randint(0, 7, (n, 2)),), ({0: Dim("batch", min=2, max=9)},), {}),
        ("parts", Parts, lambda n: (torch.randn(n, 4),), batch, {}),
        ("images", Images, lambda n: (torch.randn(n, 3, 8, 8),), batch, {}),
    ]
    return {name: Case(make, inputs, dims, kwargs) for name, make, inputs, dims, kwargs in rows}


def exported(torch: Any, case: Case, size: int = 3) -> Any:
    """A program of a case."""
    torch.manual_seed(0)
    return torch.export.export(case.model().eval(), case.inputs(size), case.kwargs, dynamic_shapes=case.dims)
