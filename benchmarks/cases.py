"""The small-tensor cases. Each is defined once, as a function of the module ``torch``, so that flambeau and PyTorch run the same code.

A case prepares its operands and returns the callable that is timed. ``plain`` cases run on tensors without gradients,
``recorded`` ones on tensors that require them, ``whole`` ones are forward and backward passes and steps of optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from .measuring import Timed


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    group: str
    build: Callable[[ModuleType], Timed]
    rtol: float = 1e-3  # how far flambeau's values may be from PyTorch's, where they are compared
    atol: float = 1e-4  # the same where values cancel, as a part of the largest one
    rehearsals: int = 1  # calls before the values are compared

    @property
    def key(self) -> str:
        return f"{self.group}: {self.name}"


CASES: list[Case] = []


def case(name: str, group: str) -> Callable[[Callable[[ModuleType], Timed]], Callable[[ModuleType], Timed]]:
    """Register a builder under ``name``."""

    def register(build: Callable[[ModuleType], Timed]) -> Callable[[ModuleType], Timed]:
        CASES.append(Case(name, group, build))
        return build

    return register


# Operations on x and y of shape (4, 4), a weight w (4, 4), a bias b (4,) and integer labels; each is timed twice, plain and recorded.
OPERATIONS = {
    "add": lambda torch, x, y, w, b: lambda: x + y,
    "add, broadcast": lambda torch, x, y, w, b: lambda: x + b,
    "mul by a number": lambda torch, x, y, w, b: lambda: x * 2.0,
    "div": lambda torch, x, y, w, b: lambda: x / y,
    "exp": lambda torch, x, y, w, b: lambda: x.exp(),
    "relu": lambda torch, x, y, w, b: lambda: torch.relu(x),
    "slice": lambda torch, x, y, w, b: lambda: x[1:3],
    "integer index": lambda torch, x, y, w, b: lambda: x[1],
    "index, two slices": lambda torch, x, y, w, b: lambda: x[:, 1:3],
    "view": lambda torch, x, y, w, b: lambda: x.view(16),
    "reshape": lambda torch, x, y, w, b: lambda: x.reshape(2, 8),
    "transpose": lambda torch, x, y, w, b: lambda: x.transpose(0, 1),
    "unsqueeze": lambda torch, x, y, w, b: lambda: x.unsqueeze(0),
    "cat": lambda torch, x, y, w, b: lambda: torch.cat([x, y]),
    "stack": lambda torch, x, y, w, b: lambda: torch.stack([x, y]),
    "sum": lambda torch, x, y, w, b: lambda: x.sum(),
    "mean over a dim": lambda torch, x, y, w, b: lambda: x.mean(dim=1),
    "max over a dim": lambda torch, x, y, w, b: lambda: x.max(dim=1),
    "matmul": lambda torch, x, y, w, b: lambda: x @ y,
    "linear": lambda torch, x, y, w, b: lambda: torch.nn.functional.linear(x, w, b),
    "softmax": lambda torch, x, y, w, b: lambda: torch.softmax(x, dim=-1),
    "clone": lambda torch, x, y, w, b: lambda: x.clone(),
}


def register_operations() -> None:
    """Make two cases of each row of ``OPERATIONS``."""

    def builder(row: Callable[..., Timed], recorded: bool) -> Callable[[ModuleType], Timed]:
        def build(torch: ModuleType) -> Timed:
            torch.manual_seed(0)
            shapes = ((4, 4), (4, 4), (4, 4), (4,))
            return row(torch, *((torch.rand(shape) + 0.5).requires_grad_(recorded) for shape in shapes))

        return build

    for group in ("plain", "recorded"):
        for name, row in OPERATIONS.items():
            case(name, group)(builder(row, group == "recorded"))


register_operations()


@case("zeros", "plain")
def zeros(torch: ModuleType) -> Timed:
    return lambda: torch.zeros(4, 4)


@case("tensor from a list", "plain")
def from_list(torch: ModuleType) -> Timed:
    values = [1.0, 2.0, 3.0, 4.0]
    return lambda: torch.tensor(values)


@case("item", "plain")
def item(torch: ModuleType) -> Timed:
    x = torch.tensor(3.0)
    return lambda: x.item()


@case("in-place add", "plain")
def in_place_add(torch: ModuleType) -> Timed:
    x, y = torch.zeros(4, 4), torch.full((4, 4), 1e-6)
    return lambda: x.add_(y)


@case("write to a slice", "plain")
def write_slice(torch: ModuleType) -> Timed:
    x, y = torch.zeros(4, 4), torch.ones(2, 4)

    def write() -> None:
        x[1:3] = y

    return write


@case("comparison", "plain")
def comparison(torch: ModuleType) -> Timed:
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    return lambda: x > y


@case("to another dtype", "plain")
def to_dtype(torch: ModuleType) -> Timed:
    x = torch.rand(4, 4)
    return lambda: x.to(torch.float64)


@case("detach", "recorded")
def detach(torch: ModuleType) -> Timed:
    x = torch.rand(4, 4, requires_grad=True) * 2
    return lambda: x.detach()


@case("20 ops, forward", "whole")
def chain_forward(torch: ModuleType) -> Timed:
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    return lambda: chain(x, y)


@case("20 ops, forward and backward", "whole")
def chain_backward(torch: ModuleType) -> Timed:
    x = torch.rand(4, 4, requires_grad=True)
    y = torch.rand(4, 4, requires_grad=True)

    def step() -> None:
        x.grad = y.grad = None
        chain(x, y).backward()

    return step


def chain(x, y):  # type: ignore[no-untyped-def]
    """Twenty operations, ending in a number."""
    z = x
    for _ in range(6):
        z = z * y
        z = z + x
        z = z * 0.5
    return (z - y).sum()


def tiny_mlp(torch: ModuleType):  # type: ignore[no-untyped-def]
    """A model of 4-16-2 units, a batch of 8 and its labels."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    return model, torch.rand(8, 4), torch.tensor([0, 1, 0, 1, 1, 0, 1, 0])


@case("tiny MLP, forward without gradients", "whole")
def mlp_inference(torch: ModuleType) -> Timed:
    model, x, _ = tiny_mlp(torch)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    return forward


@case("tiny MLP, forward", "whole")
def mlp_forward(torch: ModuleType) -> Timed:
    model, x, _ = tiny_mlp(torch)
    return lambda: model(x)


@case("tiny MLP, forward and backward", "whole")
def mlp_backward(torch: ModuleType) -> Timed:
    model, x, labels = tiny_mlp(torch)
    loss_of = torch.nn.functional.cross_entropy

    def step() -> None:
        model.zero_grad()
        loss_of(model(x), labels).backward()

    return step


def optimizer_case(name: str, **options: float) -> None:
    @case(f"{name} step, tiny MLP", "whole")
    def build(torch: ModuleType) -> Timed:
        model, x, labels = tiny_mlp(torch)
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=1e-6, **options)
        return lambda: optimizer.step()


optimizer_case("SGD", momentum=0.9)
optimizer_case("Adam")


@case("tiny MLP, training step with Adam", "whole")
def training_step(torch: ModuleType) -> Timed:
    model, x, labels = tiny_mlp(torch)
    loss_of = torch.nn.functional.cross_entropy
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model(x), labels).backward()
        optimizer.step()

    return step
