"""Pyro: a Bayesian regression by variational inference with two guides, its predictions, and the same by the No-U-Turn sampler."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoMultivariateNormal, AutoNormal

PACKAGES = ["pyro-ppl"]


def model(x, y=None):
    slope, offset = pyro.sample("slope", dist.Normal(0.0, 2.0)), pyro.sample("offset", dist.Normal(0.0, 2.0))
    noise = pyro.sample("noise", dist.HalfNormal(1.0))
    with pyro.plate("points", len(x)):
        return pyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


def results():
    x = torch.linspace(-1, 1, 20)
    y = 2 * x + 1 + 0.1 * torch.sin(9 * x)
    found = {}
    for name, kind in {"normal": AutoNormal, "multivariate": AutoMultivariateNormal}.items():
        pyro.set_rng_seed(0)
        pyro.clear_param_store()
        guide = kind(model)
        inference = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO(num_particles=2))
        found[f"{name} losses"] = [inference.step(x, y) for _ in range(10)]
        found[f"{name} predictions"] = Predictive(model, guide=guide, num_samples=3)(x)["y"]
    pyro.set_rng_seed(1)
    sampler = MCMC(NUTS(model), num_samples=6, warmup_steps=3, disable_progbar=True)
    sampler.run(x, y)
    found.update({f"sampled {name}": values for name, values in sampler.get_samples().items()})
    return found
