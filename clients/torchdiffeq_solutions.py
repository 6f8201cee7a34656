"""torchdiffeq: the Lotka-Volterra equations by several methods, an event, and gradients by the adjoint equation."""

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

PACKAGES = ["torchdiffeq"]


class Growth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = torch.nn.Parameter(torch.tensor([1.5, 1.0, 3.0, 1.0], dtype=torch.float64))

    def forward(self, t, state):
        a, b, c, d = self.rates
        prey, predators = state.unbind(-1)
        return torch.stack([a * prey - b * prey * predators, d * prey * predators - c * predators], -1)


def results():
    start, times = torch.tensor([10.0, 5.0], dtype=torch.float64), torch.linspace(0, 2, 5, dtype=torch.float64)
    system = Growth()
    found = {}
    for method in ("dopri5", "dopri8", "bosh3"):
        found[method] = odeint(system, start, times, method=method, rtol=1e-6, atol=1e-6)
    for method in ("euler", "midpoint", "rk4", "explicit_adams", "implicit_adams"):
        found[method] = odeint(system, start, times, method=method, options={"step_size": 0.05})
    odeint_adjoint(system, start, times, rtol=1e-6, atol=1e-6)[-1].sum().backward()
    found["adjoint"] = system.rates.grad.clone()
    system.rates.grad = None
    odeint(system, start, times, rtol=1e-6, atol=1e-6)[-1].sum().backward()
    found["backward"] = system.rates.grad
    fall = lambda t, state: torch.stack([state[1], torch.full_like(state[1], -9.8)])  # noqa: E731
    at, _ = odeint_event(fall, torch.tensor([10.0, 0.0]), torch.tensor(0.0), event_fn=lambda t, state: state[0], atol=1e-8, rtol=1e-8)
    found["falls for"] = at
    return found
