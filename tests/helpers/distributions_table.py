"""The table of distributions that the tests of ``torch.distributions`` share: how each is made, and what SciPy calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """One distribution with parameters.

    Attributes:
        make: from a library's ``distributions`` and a function from lists to tensors of that library.
        scipy: from ``scipy.stats`` to the frozen distribution of the batch's first element, of one number each.
        other: makes a second one, for divergences.
        unlike: what PyTorch answers otherwise; ``docs/compatibility.md`` says why.
    """

    make: Callable[[Any, Any], Any]
    scipy: Callable[[Any], Any] | None = None
    other: Callable[[Any, Any], Any] | None = None
    unlike: tuple[str, ...] = ()


MATRIX = [[2.0, 0.5], [0.5, 1.0]]
FACTOR = [[1.2, 0.0], [-0.4, 0.7]]
SHARES = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]
LOGITS = [[0.3, -1.0, 2.0], [1.0, 0.0, 0.5]]

CASES: dict[str, Case] = {
    "Bernoulli": Case(lambda D, t: D.Bernoulli(t([0.3, 0.8])), lambda s: s.bernoulli(0.3), lambda D, t: D.Bernoulli(t([0.4, 0.6]))),
    "Bernoulli of logits": Case(lambda D, t: D.Bernoulli(logits=t([-1.5, 0.3]))),
    "Beta": Case(lambda D, t: D.Beta(t([0.7, 3.0]), t([1.6, 2.0])), lambda s: s.beta(0.7, 1.6), lambda D, t: D.Beta(t([1.7, 2.0]), t(1.5))),
    "Binomial": Case(
        lambda D, t: D.Binomial(7, t([0.3, 0.8])), lambda s: s.binom(7, 0.3), lambda D, t: D.Binomial(7, logits=t([0.4, 0.6]))
    ),
    "Binomial of logits": Case(lambda D, t: D.Binomial(4, logits=t([[0.3], [0.8]]))),
    "Categorical": Case(
        lambda D, t: D.Categorical(t(SHARES)),
        lambda s: s.rv_discrete(values=([0, 1, 2], SHARES[0])),
        lambda D, t: D.Categorical(logits=t(LOGITS)),
    ),
    "Categorical of logits": Case(lambda D, t: D.Categorical(logits=t(LOGITS))),
    "Cauchy": Case(lambda D, t: D.Cauchy(t([0.5, -1]), t([1.5, 1])), lambda s: s.cauchy(0.5, 1.5), lambda D, t: D.Cauchy(t(0.2), t(2.5))),
    "Chi2": Case(lambda D, t: D.Chi2(t([0.7, 5.0])), lambda s: s.chi2(0.7)),
    "ContinuousBernoulli": Case(
        lambda D, t: D.ContinuousBernoulli(t([0.2, 0.5004])),
        other=lambda D, t: D.ContinuousBernoulli(logits=t([0.2, -1.0])),
    ),
    "ContinuousBernoulli of logits": Case(lambda D, t: D.ContinuousBernoulli(logits=t([[0.7], [-2.0]]))),
    "Dirichlet": Case(lambda D, t: D.Dirichlet(t([[0.5, 2.0, 3.0], [1.5, 1, 4]])), other=lambda D, t: D.Dirichlet(t([1.5, 2.5, 1.0]))),
    "Exponential": Case(lambda D, t: D.Exponential(t([0.4, 2])), lambda s: s.expon(0, 2.5), lambda D, t: D.Exponential(t([1.4, 1]))),
    "FisherSnedecor": Case(lambda D, t: D.FisherSnedecor(t([1.5, 4]), t([3.0, 6])), lambda s: s.f(1.5, 3.0)),
    "Gamma": Case(
        lambda D, t: D.Gamma(t([0.6, 4.0]), t([1.5, 0.5])), lambda s: s.gamma(0.6, 0, 1 / 1.5), lambda D, t: D.Gamma(t(2.0), t([0.7, 1]))
    ),
    "GeneralizedPareto": Case(
        lambda D, t: D.GeneralizedPareto(t(0.5), t([1.0, 2.0, 1.5]), t([0.3, -0.4, 0.0])),
        lambda s: s.genpareto(0.3, 0.5, 1.0),
        unlike=("gradient",),
    ),
    "Geometric": Case(lambda D, t: D.Geometric(t([0.3, 0.8])), lambda s: s.geom(0.3, -1), lambda D, t: D.Geometric(t([0.4, 0.6]))),
    "Geometric of logits": Case(lambda D, t: D.Geometric(logits=t([-0.5, 1.0]))),
    "Gumbel": Case(lambda D, t: D.Gumbel(t([0.5, -1]), t([1.5, 1])), lambda s: s.gumbel_r(0.5, 1.5), lambda D, t: D.Gumbel(t(0.2), t(2.5))),
    "HalfCauchy": Case(lambda D, t: D.HalfCauchy(t([1.5, 0.5])), lambda s: s.halfcauchy(0, 1.5)),
    "HalfNormal": Case(lambda D, t: D.HalfNormal(t([1.5, 0.5])), lambda s: s.halfnorm(0, 1.5), lambda D, t: D.HalfNormal(t([0.5, 2.0]))),
    "Independent": Case(
        lambda D, t: D.Independent(D.Normal(t([[0.5, 1, 2], [-1, 0, 1]]), t(1.5)), 1),
        other=lambda D, t: D.Independent(D.Normal(t([[0.0, 1, 1], [-1, 2, 1]]), t(0.5)), 1),
    ),
    "InverseGamma": Case(lambda D, t: D.InverseGamma(t([0.6, 4.0]), t([1.5, 0.5])), lambda s: s.invgamma(0.6, 0, 1.5)),
    "Kumaraswamy": Case(lambda D, t: D.Kumaraswamy(t([0.7, 3.0]), t([1.6, 2.0])), unlike=("mode", "expanded mode")),
    "LKJCholesky": Case(lambda D, t: D.LKJCholesky(3, t([0.8, 2.5]))),
    "Laplace": Case(
        lambda D, t: D.Laplace(t([0.5, -1]), t([1.5, 1])), lambda s: s.laplace(0.5, 1.5), lambda D, t: D.Laplace(t(0.2), t(2.5))
    ),
    "LogNormal": Case(
        lambda D, t: D.LogNormal(t([0.5, -1]), t([0.5, 1])),
        lambda s: s.lognorm(0.5, 0, 1.6487212707001282),
        lambda D, t: D.LogNormal(t(0.2), t(2.5)),
    ),
    "LogisticNormal": Case(lambda D, t: D.LogisticNormal(t([[0.5, -1], [0.0, 1.0]]), t([0.5, 1]))),
    "LowRankMultivariateNormal": Case(
        lambda D, t: D.LowRankMultivariateNormal(t([[0.5, -1], [1, 2]]), t([[0.5], [1.5]]), t([0.3, 0.8])),
        other=lambda D, t: D.LowRankMultivariateNormal(t([0.5, 0]), t([[0.2], [-0.5]]), t([1.3, 0.8])),
    ),
    "MixtureSameFamily": Case(
        lambda D, t: D.MixtureSameFamily(D.Categorical(t(SHARES)), D.Normal(t([[0.0, 1, 3], [1, 2, -1]]), t([0.5, 1, 2])))
    ),
    "MixtureSameFamily of vectors": Case(
        lambda D, t: D.MixtureSameFamily(D.Categorical(t(SHARES[0])), D.MultivariateNormal(t([[0.0, 1], [1, 2], [3, 3]]), t(MATRIX)))
    ),
    "Multinomial": Case(lambda D, t: D.Multinomial(5, t(SHARES)), unlike=("expanded entropy", "expanded perplexity")),
    "Multinomial of logits": Case(lambda D, t: D.Multinomial(3, logits=t(LOGITS)), unlike=("expanded entropy", "expanded perplexity")),
    "MultivariateNormal": Case(
        lambda D, t: D.MultivariateNormal(t([[0.5, -1], [1, 2]]), t(MATRIX)),
        other=lambda D, t: D.MultivariateNormal(t([0.5, 0]), scale_tril=t(FACTOR)),
    ),
    "MultivariateNormal of a factor": Case(lambda D, t: D.MultivariateNormal(t([0.5, -1]), scale_tril=t([FACTOR, FACTOR]))),
    "MultivariateNormal of a precision": Case(lambda D, t: D.MultivariateNormal(t([[0.5, -1]]), precision_matrix=t(MATRIX))),
    "NegativeBinomial": Case(lambda D, t: D.NegativeBinomial(t([3.0, 2.5]), t([0.3, 0.6])), lambda s: s.nbinom(3, 0.7)),
    "NegativeBinomial of logits": Case(lambda D, t: D.NegativeBinomial(4, logits=t([0.3, -0.6]))),
    "Normal": Case(lambda D, t: D.Normal(t([0.5, -1]), t([1.5, 1])), lambda s: s.norm(0.5, 1.5), lambda D, t: D.Normal(t(0.2), t(2.5))),
    "OneHotCategorical": Case(lambda D, t: D.OneHotCategorical(t(SHARES)), other=lambda D, t: D.OneHotCategorical(logits=t(LOGITS))),
    "OneHotCategoricalStraightThrough": Case(lambda D, t: D.OneHotCategoricalStraightThrough(logits=t(LOGITS))),
    "Pareto": Case(
        lambda D, t: D.Pareto(t([0.5, 1.5]), t([3.5, 4])), lambda s: s.pareto(3.5, 0, 0.5), lambda D, t: D.Pareto(t([0.4, 1]), t([1.5, 2]))
    ),
    "Poisson": Case(lambda D, t: D.Poisson(t([0.7, 12.0])), lambda s: s.poisson(0.7), lambda D, t: D.Poisson(t([1.7, 8]))),
    "RelaxedBernoulli": Case(lambda D, t: D.RelaxedBernoulli(t(0.7), t([0.3, 0.8]))),
    "RelaxedBernoulli of logits": Case(lambda D, t: D.RelaxedBernoulli(t([0.7, 1.5]), logits=t([-0.3, 0.8]))),
    "RelaxedOneHotCategorical": Case(lambda D, t: D.RelaxedOneHotCategorical(t(0.7), t(SHARES))),
    "RelaxedOneHotCategorical of logits": Case(lambda D, t: D.RelaxedOneHotCategorical(t(1.7), logits=t(LOGITS))),
    "StudentT": Case(lambda D, t: D.StudentT(t([1.5, 3.0]), t([0.5, 1]), t(2.0)), lambda s: s.t(1.5, 0.5, 2.0)),
    "TransformedDistribution": Case(
        lambda D, t: D.TransformedDistribution(
            D.Normal(t([0.5, -1]), t(1.0)), [D.TanhTransform(), D.AffineTransform(t(1.0), t([2.0, -0.5])), D.ExpTransform()]
        ),
        other=lambda D, t: D.TransformedDistribution(
            D.Normal(t([0.0, 1]), t(2.0)), [D.TanhTransform(), D.AffineTransform(t(1.0), t([2.0, -0.5])), D.ExpTransform()]
        ),
    ),
    "Uniform": Case(
        lambda D, t: D.Uniform(t([0.5, 0.1]), t([2.0, 0.9])),
        lambda s: s.uniform(0.5, 1.5),
        lambda D, t: D.Uniform(t([-0.5, -1]), t([3.0, 2])),
    ),
    "VonMises": Case(
        lambda D, t: D.VonMises(t([0.0, -1]), t([1.5, 6])),
        lambda s: s.vonmises(1.5),
        unlike=("log_prob", "expanded log_prob", "variance", "expanded variance", "stddev", "expanded stddev", "gradient"),
    ),
    "Weibull": Case(lambda D, t: D.Weibull(t([1.5, 0.5]), t([0.8, 2.0])), lambda s: s.weibull_min(0.8, 0, 1.5)),
    "Wishart": Case(lambda D, t: D.Wishart(t(3.5), t(MATRIX)), other=lambda D, t: D.Wishart(t(5.0), scale_tril=t(FACTOR))),
    "Wishart of a precision": Case(lambda D, t: D.Wishart(t([3.5, 4.0]), precision_matrix=t(MATRIX))),
}


def build(case: str, library: Any, *, other: bool = False, dtype: str = "float64") -> tuple[Any, list[Any]]:
    """A case's distribution in a library, and the leaves that it was made of."""
    leaves: list[Any] = []

    def leaf(values: Any) -> Any:
        leaves.append(library.tensor(values, dtype=getattr(library, dtype), requires_grad=True))
        return leaves[-1]

    make = CASES[case].other if other else CASES[case].make
    return make(library.distributions, leaf), leaves  # type: ignore[misc]
