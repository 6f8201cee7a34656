"""Bayesian regression by variational inference: a curve through noisy points, with the uncertainty of its weights and of the noise.

Weights of a few waves have a normal prior, the precision of the noise a gamma prior. Their posterior is approximated by a normal
distribution with a full covariance and a gamma distribution, fitted through differentiable samples of both; transforms keep constraints.

An ordinary PyTorch program. `python -m flambeau examples/bayesian_regression.py` runs it on flambeau, `python` on PyTorch.
"""

import argparse
import math

import torch
from torch import nn
from torch.distributions import Gamma, Independent, MultivariateNormal, Normal, constraints, kl_divergence, transform_to

WAVES, NOISE = 4, 0.3


def features(x):
    """1, and sines and cosines of rising frequency."""
    angles = x.unsqueeze(-1) * torch.arange(1, WAVES + 1) * math.pi
    return torch.cat([torch.ones_like(x).unsqueeze(-1), angles.sin(), angles.cos()], -1)


class Posterior(nn.Module):
    """Normal weights and a gamma precision, from unconstrained parameters."""

    def __init__(self, size):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(size))
        self.factor = nn.Parameter(torch.full((size, size), -1.0).tril())
        self.precision = nn.Parameter(torch.zeros(2))

    def weights(self):
        return MultivariateNormal(self.loc, scale_tril=transform_to(constraints.lower_cholesky)(self.factor))

    def noise(self):
        return Gamma(*transform_to(constraints.positive)(self.precision))


def elbo(posterior, x, y, samples):
    """The evidence lower bound, its expectation by ``samples`` samples."""
    weights, noise = posterior.weights(), posterior.noise()
    size = len(posterior.loc)
    prior = MultivariateNormal(torch.zeros(size), torch.eye(size))
    curves = weights.rsample((samples,)) @ features(x).T
    scale = noise.rsample((samples, 1)).rsqrt()
    fit = Independent(Normal(curves, scale), 1).log_prob(y).mean()
    return fit - kl_divergence(weights, prior) - kl_divergence(noise, Gamma(2.0, 1.0))


@torch.no_grad()
def coverage(posterior, x, y, samples=4000):
    """The share of points inside of the central 90 % of what the posterior expects there."""
    curves = posterior.weights().sample((samples,)) @ features(x).T
    expected = Normal(curves, posterior.noise().sample((samples, 1)).rsqrt()).sample()
    low, high = torch.quantile(expected, torch.tensor([0.05, 0.95]), dim=0)
    return ((y >= low) & (y <= high)).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--points", type=int, default=120)
    parser.add_argument("--samples", type=int, default=8, help="for each step's expectation")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    size = 2 * WAVES + 1
    truth = torch.randn(size)
    x = torch.rand(2 * options.points) * 2 - 1
    y = features(x) @ truth + NOISE * torch.randn(len(x))
    (x, test_x), (y, test_y) = x.chunk(2), y.chunk(2)

    posterior = Posterior(size)
    optimizer = torch.optim.Adam(posterior.parameters(), lr=options.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    for step in range(1, options.steps + 1):
        loss = -elbo(posterior, x, y, options.samples) / len(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step <= 20:
            print(f"step {step} loss {loss.item():.7f}")
    if options.steps <= 20:
        return

    weights, noise = posterior.weights(), posterior.noise()
    print(f"negative ELBO of a point: {loss.item():.4f}")
    for place, (true, mean, deviation) in enumerate(zip(truth.tolist(), weights.mean.tolist(), weights.stddev.tolist())):
        print(f"weight {place}: {mean:7.3f} +- {deviation:.3f}, true {true:7.3f}")
    print(f"noise: {noise.mean.rsqrt().item():.3f}, true {NOISE}")
    print(f"new points inside of the central 90 %: {coverage(posterior, test_x, test_y):.1%}")


if __name__ == "__main__":
    main()
