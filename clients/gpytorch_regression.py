"""gpytorch and linear-operator: an exact Gaussian process with priors, and a sparse variational one, trained and asked."""

import gpytorch
import torch

PACKAGES = ["gpytorch", "linear-operator"]


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.RBFKernel(lengthscale_prior=gpytorch.priors.GammaPrior(3.0, 6.0))
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel + gpytorch.kernels.PeriodicKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
        super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution, learn_inducing_locations=True))
        self.mean_module = gpytorch.means.LinearMean(1)
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def trained(model, likelihood, bound, x, y, steps):
    model.train(), likelihood.train()
    optimizer = torch.optim.Adam([*{id(p): p for p in [*model.parameters(), *likelihood.parameters()]}.values()], lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = -bound(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval(), likelihood.eval()
    return losses


def results():
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 24, dtype=torch.float64)
    y = torch.sin(x * 7) + 0.1 * torch.randn(24, dtype=torch.float64)
    new = torch.tensor([0.13, 0.51, 1.2], dtype=torch.float64)
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_prior=gpytorch.priors.GammaPrior(1.1, 0.05)).double()
    exact = Exact(x, y, likelihood).double()
    given = {"exact losses": trained(exact, likelihood, gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact), x, y, 15)}
    with torch.no_grad():
        expected = likelihood(exact(new))
        given |= {"mean": expected.mean, "variance": expected.variance, "log_prob": expected.log_prob(torch.zeros_like(new))}
        torch.manual_seed(1)
        given["samples"] = expected.rsample(torch.Size([2]))
    likelihood, sparse = gpytorch.likelihoods.BernoulliLikelihood().double(), Sparse(x[::4].unsqueeze(-1)).double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, sparse, len(x))
    given["sparse losses"] = trained(sparse, likelihood, bound, x.unsqueeze(-1), (y > 0).double(), 15)
    with torch.no_grad():
        given["chances"] = likelihood(sparse(new.unsqueeze(-1))).probs
    return given
