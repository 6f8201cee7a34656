"""torchsde: a stochastic equation on a given Brownian path, by several methods, and gradients by the adjoint equation."""

import torch
import torchsde

PACKAGES = ["torchsde", "trampoline"]


class Diffusion(torch.nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Linear(3, 3)
        self.volatility = torch.nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

    def f(self, t, y):
        return torch.tanh(self.drift(y))

    def g(self, t, y):
        return self.volatility * torch.sigmoid(y)


def results():
    torch.manual_seed(0)
    start, times = torch.randn(4, 3), torch.linspace(0, 1, 5)
    system = Diffusion()
    found = {}
    for method in ("euler", "milstein", "srk"):
        noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=7, levy_area_approximation="space-time")
        found[method] = torchsde.sdeint(system, start, times, bm=noise, method=method, dt=0.05)
    noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(4, 3), entropy=9, levy_area_approximation="space-time")
    torchsde.sdeint_adjoint(system, start, times, bm=noise, method="euler", dt=0.05)[-1].sum().backward()
    found["gradient"] = system.volatility.grad
    return found
